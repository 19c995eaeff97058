"""An AppArmor profile that refuses a sandbox: `run` and `doctor` agree, and the doctor names the profile.

The machines of tests/vm have AppArmor.
"""

import contextlib
import os
import shutil
import subprocess
import unittest

import harness
import test_no_sandbox

# The rules that docker-default contains; it has no rule for mounts.
RULES = "network, capability, file, umount, signal, ptrace, unix,"


@unittest.skipUnless(harness.ROOT and shutil.which("apparmor_parser") and os.path.exists("/sys/kernel/security/apparmor/.replace"),
                     "needs root, AppArmor and its parser")
class AppArmor(harness.Case):
    both, finding = test_no_sandbox.NoSandbox.both, test_no_sandbox.NoSandbox.finding

    def confined(self, rules):
        """Returns (exit status, report of the doctor) under a profile with these rules."""
        name = f"cloister-test-{os.getpid()}"
        path = self.write("profile", f"profile {name} flags=(attach_disconnected) {{ {rules} }}\n")
        subprocess.run(["apparmor_parser", "--add", path], check=True, capture_output=True, timeout=60)
        try:
            ran, report = self.both(prefix=("aa-exec", "-p", name, "--"))
        finally:
            subprocess.run(["apparmor_parser", "--remove", path], check=True, capture_output=True, timeout=60)
        return ran.returncode, report

    def test_a_profile_without_mounts(self):
        status, report = self.confined(RULES)
        self.assertEqual(status, test_no_sandbox.NO_SANDBOX, report)
        self.assertEqual(self.finding(report, "apparmor-profile"), "missing", report)
        self.assertEqual(self.finding(report, "container-seccomp"), "absent")
        self.assertIn("apparmor=unconfined", report["command"])
        self.assertNotIn("seccomp=", report["command"])

    def test_control_a_profile_with_mounts(self):
        namespaces = ""
        # Newer kernels also check the profile for user namespaces, for which older parsers have no rule.
        with contextlib.suppress(FileNotFoundError), open("/sys/kernel/security/apparmor/features/namespaces/mask", encoding="ascii") as f:
            namespaces = "userns," if "userns_create" in f.read() else ""
        status, report = self.confined(f"{RULES} mount, pivot_root, {namespaces}")
        self.assertEqual(status, 0, report)
        self.assertEqual(self.finding(report, "apparmor-profile"), "absent")


if __name__ == "__main__":
    harness.main()
