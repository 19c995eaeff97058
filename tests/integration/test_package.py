"""The Debian package and the wheel, in a Debian that has nothing else. Downloads that Debian; as root: suite `slow`.

CLOISTER_DEB and CLOISTER_WHEEL name packages that were made already."""

import glob
import os
import shutil
import subprocess
import tempfile

import harness
from test_debian import MIRROR

QUIET = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}


class Package(harness.Case):
    """The root has the same release as this machine: packages are made for it."""

    SUITE = None  # that of this machine
    MORE = ()  # packages of the root

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        os.chmod(cls.place, 0o755)
        mirror = subprocess.run(["sh", "-c", MIRROR], capture_output=True, text=True, check=True).stdout.strip()
        with open("/etc/os-release", encoding="utf-8") as f:
            suite = cls.SUITE or dict(line.rstrip().split("=", 1) for line in f if "=" in line)["VERSION_CODENAME"]
        # The dependencies are installed first. The comparison then contains only the package, and the root needs no package lists.
        cls.deb = cls.made("deb", "cloister_*.deb")
        needs = subprocess.run(["dpkg-deb", "-f", cls.deb, "Depends"], timeout=60, **QUIET).stdout
        names = ",".join(["python3", "python3-venv", *cls.MORE, *(need.split()[0] for need in needs.split(","))])
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--dpkgopt=force-unsafe-io", f"--include={names}", suite,
                        f"{cls.place}/root", mirror], check=True, timeout=harness.patient(900))

    @staticmethod
    def made(kind, pattern):
        if f"CLOISTER_{kind.upper()}" in os.environ:
            return os.environ[f"CLOISTER_{kind.upper()}"]
        done = subprocess.run([os.path.join(harness.SOURCE, "quickstart"), "package", kind], timeout=harness.patient(1800), **QUIET)
        if done.returncode:
            raise AssertionError(done.stderr)
        (path,) = glob.glob(os.path.join(harness.SOURCE, "build", "packages", pattern))
        return path

    def inside(self, *command, user=()):
        """Runs it in the root, in namespaces of its own: nothing stays mounted here. A chroot would forbid user namespaces."""
        script = f"""mount --make-rprivate / && mount --rbind {self.place}/root {self.place}/root && cd {self.place}/root &&
                     mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev && mount -t tmpfs -o mode=1777 tmpfs tmp &&
                     mkdir -p tmp/outside && pivot_root . tmp/outside && umount -l /tmp/outside && exec "$@" """
        return subprocess.run(["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", script, "sh", *user, *command],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/u" if user else "/root", "DEBIAN_FRONTEND": "noninteractive"},
                              timeout=harness.patient(600), **QUIET)

    def ok(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def listed(self):
        """The files of the root, without what apt and dpkg write about themselves."""
        found = self.ok(self.inside("find", "/etc", "/usr", "/var", "/opt", "/root", "/home", "-xdev"))
        return {path for path in found.splitlines() if not path.startswith(("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log"))}

    def works(self, program):
        """Runs the program as root, and as an ordinary user in the root directory."""
        self.assertEqual(self.ok(self.inside(program, "run", "-c", "print(6 * 7)")), "42\n")
        os.makedirs(f"{self.place}/root/home/u", exist_ok=True)
        os.chown(f"{self.place}/root/home/u", 4242, 4242)
        self.assertEqual(self.ok(self.inside(program, "run", "-c", "print(6 * 7)", user=("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"))), "42\n")

    def test_debian(self):
        path = self.deb
        if shutil.which("lintian"):
            done = subprocess.run(["lintian", "--fail-on", "error,warning", path], timeout=harness.patient(300), **QUIET)
            self.assertEqual((done.returncode, [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")]), (0, []), done.stderr)
        shutil.copy(path, f"{self.place}/root/root/cloister.deb")
        before = self.listed()
        for _ in range(2):  # the second time over the first, as an upgrade
            self.ok(self.inside("dpkg", "-i", "/root/cloister.deb"))
            self.works("/usr/bin/cloister")
        self.ok(self.inside("dpkg", "--purge", "cloister"))
        images = ("/root/.local", "/home", "/root/.cache")
        self.assertEqual({path for path in self.listed() - before if not path.startswith(images)}, set())

    def test_wheel(self):
        path = self.made("wheel", "cloister-*.whl")
        shutil.copy(path, f"{self.place}/root/root/")
        name = os.path.basename(path)
        self.ok(self.inside("python3", "-m", "venv", "/opt/venv"))
        self.ok(self.inside("/opt/venv/bin/pip", "install", "--no-index", f"/root/{name}"))
        self.works("/opt/venv/bin/cloister")
        # The client needs more than the command: without it, it says how to get that.
        done = self.inside("/opt/venv/bin/python", "-c", "import cloister; print(cloister.__all__); cloister.Sandbox()")
        self.assertIn("pip install 'cloister[sdk]'", done.stderr)
        self.ok(self.inside("sh", "-c", "test -f /opt/venv/lib/python3*/site-packages/cloister/py.typed"))
        self.ok(self.inside("/opt/venv/bin/pip", "uninstall", "-y", "cloister"))
        self.assertEqual(self.ok(self.inside("find", "/opt/venv", "-name", "*cloister*")), "")


if __name__ == "__main__":
    harness.main()
