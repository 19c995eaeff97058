"""A Debian root made by mmdebstrap as an image. Slow, and needs root: suite `slow`."""

import os
import shutil
import subprocess
import tempfile

import harness

# The mirror from which this machine's own apt gets its packages.
MIRROR = """apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort | uniq -c | sort -rn |
awk 'NR == 1 {print $2}'"""


class Debian(harness.Case):
    def test_bookworm(self):
        place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        os.chmod(place, 0o755)
        mirror = subprocess.run(["sh", "-c", MIRROR], capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--include=python3", "--dpkgopt=force-unsafe-io",
                        "--dpkgopt=path-exclude=/usr/share/doc/*", "bookworm", f"{place}/root", mirror],
                       check=True, timeout=harness.patient(600))
        env = harness.environment(CLOISTER_IMAGE_STORE=f"{place}/images")
        done = self.run_cloister("image", "build", "--rootfs", f"{place}/root", "--name", "bookworm", env=env, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        code = "import sys, json, sqlite3, ssl, subprocess as s\n" \
               "print(sys.version_info[:2], s.run(['cat', '/etc/debian_version'], capture_output=True, text=True).stdout)"
        out = self.run_cloister("run", "--image", "bookworm", "-c", code, env=env)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stdout.decode(), r"^\(3, 11\) 12\.")


if __name__ == "__main__":
    harness.main()
