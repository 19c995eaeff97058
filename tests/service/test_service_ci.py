"""The jobs of docs/ci.md and packaging/ci/action.yml: their steps run in a container with the limits of each runner. As root, with runc.

A runner of GitHub has uid 1001, no systemd for the job and no control group; a job in a container has Docker's default filter and masks
over /proc besides. The package is the wheel of this build, or the one that CLOISTER_WHEEL names.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

import yaml

import harness
import test_no_sandbox
import test_package

NO_SANDBOX = test_no_sandbox.NO_SANDBOX
UID = 1001


def page(name):
    with open(os.path.join(harness.SOURCE, name), encoding="utf-8") as f:
        return f.read()


def block(name):
    """The block of docs/ci.md that begins with this comment."""
    (found,) = [text for text in re.findall(r"(?s)^```\w+\n(.*?)^```", page("docs/ci.md"), re.M) if text.startswith(f"# {name}\n")]
    return found


class Page(unittest.TestCase):
    def test_settings(self):
        """The step for AppArmor is that of the action, and its profile can be parsed; the runner's file is TOML."""
        step = block("Ubuntu 23.10 and later").split("\n", 1)[1]
        action = next(s for s in yaml.safe_load(page("packaging/ci/action.yml"))["runs"]["steps"] if "user namespaces" in s["name"])
        self.assertEqual(step, action["run"].split("\n", 1)[1])
        (text,) = re.findall(r"printf '(.*?)'", step)
        profile = text.replace("\\n", "\n").replace("%s", "/home/job/.cloister/libexec/cloister-{monitor,doctor}")
        # The parser of Debian 12 does not have these two.
        for new in ("abi <abi/4.0>,\n", "  userns,\n"):
            self.assertIn(new, profile)
            profile = profile.replace(new, "")
        done = subprocess.run(["apparmor_parser", "-Q", "-K", "-T"], input=profile, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        runner = tomllib.loads(block("/etc/gitlab-runner/config.toml"))["runners"][0]
        self.assertIs(runner["docker"]["privileged"], True)


@unittest.skipUnless(harness.ROOT and shutil.which("runc"), "needs root and runc")
class Ci(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wheel = test_package.Package.made("wheel", "cloister-*.whl")

    def setUp(self):
        super().setUp()
        self.job = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.job)
        for name in ("dist", "ci", "logs"):
            os.mkdir(f"{self.job}/{name}")
        shutil.copy(self.wheel, f"{self.job}/dist")
        for name, text in (("agent.py", block("ci/agent.py")), ("report.py", "print('report', 6 * 7)\n"), ("steps", "")):
            with open(f"{self.job}/ci/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        for folder, names, files in os.walk(self.job):
            for name in [".", *names, *files]:
                os.chown(os.path.join(folder, name), UID, UID)

    def contain(self, script, contained, **variables):
        """Runs it in a container: without control groups, as uid 1001, with Docker's filter and masks or without."""
        bundle = tempfile.mkdtemp(dir=self.dir)
        subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
        with open(f"{bundle}/config.json", encoding="utf-8") as f:
            config = json.load(f)
        process, linux = config["process"], config["linux"]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.job, "LANG": "C.UTF-8", **variables}
        process.update(terminal=False, args=["bash", "-e", "-c", script], env=[f"{k}={v}" for k, v in env.items()], cwd=self.job,
                       noNewPrivileges=False, user={"uid": UID, "gid": UID}, capabilities={})
        config["root"] = {"path": f"{bundle}/rootfs", "readonly": False}
        config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
        config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
        linux.pop("seccomp", None)
        if contained:
            linux["seccomp"] = test_no_sandbox.Runc.filter(self, ours=False)
        else:
            linux.pop("maskedPaths"), linux.pop("readonlyPaths")
        with open(f"{bundle}/config.json", "w", encoding="utf-8") as f:
            json.dump(config, f)
        os.mkdir(f"{bundle}/rootfs")
        start = f"mount --make-rprivate /; mount --rbind / {bundle}/rootfs; exec runc run --bundle {bundle} cloister-{os.getpid()}"
        return subprocess.run(["unshare", "--mount", "sh", "-ec", start], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=harness.patient(300), check=False)

    def github(self):
        """The steps of the action, then those of the job, as one script: variables that a step sets hold for the next ones."""
        action = yaml.safe_load(page("packaging/ci/action.yml"))
        job = yaml.safe_load(block(".github/workflows/agent.yml"))["jobs"]["agent"]
        given = {"inputs.package": os.path.join("dist", os.path.basename(self.wheel)), "inputs.python": action["inputs"]["python"]["default"]}
        steps = []
        for step in [*action["runs"]["steps"], *job["steps"]]:
            if "run" not in step:
                continue
            variables = "".join(f"{k}='{re.sub(r'[$][{][{] (.*?) [}][}]', lambda m: given[m[1]], v)}' " for k, v in step.get("env", {}).items())
            steps.append(f"cat >step.sh <<'STEP'\n{step['run']}\nSTEP\n{variables} bash -e step.sh\n"
                         "PATH=$(cat ci/path ci/steps 2>/dev/null | grep -v = | tac | paste -sd:):$PATH; [ ! -s ci/env ] || { set -a; . ci/env; set +a; }\n")
        return "".join(steps)

    def gitlab(self):
        job = yaml.safe_load(block(".gitlab-ci.yml"))["agent"]
        variables = {k: v.replace("$CI_PROJECT_DIR", self.job) for k, v in job["variables"].items()}
        return "\n".join(job["script"]), variables

    def check_done(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("45", done.stdout)  # of the agent
        with open(f"{self.job}/report.json", encoding="utf-8") as f:
            self.assertEqual(json.load(f)["structuredContent"]["stdout"], "report 42\n")
        self.assertTrue(os.listdir(f"{self.job}/.cloister-images"))

    def test_github(self):
        variables = {"GITHUB_ACTIONS": "true", "GITHUB_PATH": f"{self.job}/ci/path", "GITHUB_ENV": f"{self.job}/ci/env"}
        done = self.contain(self.github(), True, **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("container.options: --security-opt seccomp=examples/containers/seccomp.json --security-opt systempaths=unconfined", done.stdout)
        self.assertIn("::error::Cloister cannot make a sandbox on this runner: container-seccomp", done.stdout)
        self.assertFalse(os.path.exists(f"{self.job}/report.json"))
        shutil.rmtree(f"{self.job}/.cloister")
        self.check_done(self.contain(self.github(), False, **variables))

    def test_gitlab(self):
        script, variables = self.gitlab()
        done = self.contain(script, True, GITLAB_CI="true", **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no sandbox here: in config.toml of a runner that only these jobs use: [runners.docker] privileged = true", done.stdout)
        self.assertEqual(self.contain(".cloister/bin/cloister run -c 1", True).returncode, NO_SANDBOX)
        shutil.rmtree(f"{self.job}/.cloister")
        self.check_done(self.contain(script, False, GITLAB_CI="true", **variables))


if __name__ == "__main__":
    harness.main()
