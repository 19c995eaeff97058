"""Classes 21 to 44: mounts and files."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import harness
import rawmcp

OTHER = 65534  # another user of the machine; only root's tests can become it

# Opens every path of its arguments, takes the locks that it can take, and holds them until its input ends.
HOLDER = """
import fcntl, os, struct, sys
uid, kind, *paths = sys.argv[1:]
if os.geteuid() == 0 and uid != "0":
    os.setgroups([]); os.setresgid(int(uid), int(uid), int(uid)); os.setresuid(int(uid), int(uid), int(uid))
taken, held = [], []
for path in paths:
    try:
        fd = os.open(path, os.O_RDWR if kind == "write" else os.O_RDONLY)
        if kind == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            lock = fcntl.F_RDLCK if kind == "read" else fcntl.F_WRLCK
            fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", lock, 0, 0, 0, 0))  # F_OFD_SETLK
        taken.append(os.path.basename(path)); held.append(fd)
    except OSError as error:
        taken.append(error.strerror)
print(taken, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding(uid, kind, *paths):
    """Another process with locks on these paths. Gives the names that it has, and the errors."""
    holder = subprocess.Popen([harness.PYTHON, "-c", HOLDER, str(uid), kind, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield eval(holder.stdout.readline())  # pylint: disable=eval-used
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()


class Store(harness.Case):
    """Other users of the machine and the image store. 41: locks."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.place)
        os.chmod(cls.place, 0o755)
        cls.store = os.path.join(cls.place, "images")
        cls.env = harness.environment(CLOISTER_IMAGE_STORE=cls.store)
        subprocess.run([harness.CLOISTER, "image", "build"], env=cls.env, check=True, capture_output=True)
        cls.image = os.path.join(cls.store, next(name for name in os.listdir(cls.store) if not name.startswith(".")))

    def run_code(self, env=None):
        return self.run_cloister("run", "-c", "print(6 * 7)", env=env or self.env)

    def test_no_lock_of_another_user_keeps_an_image_from_being_used(self):
        """41. As root the other one has another uid; as an ordinary user it is a process of his own without the lock."""
        paths = [self.store, self.image, f"{self.image}/root", f"{self.image}/image.json", f"{self.image}/lock"]
        with holding(OTHER, "flock", *paths) as taken:
            self.assertEqual(taken, [os.path.basename(path) for path in paths])
            done = self.run_code()
            self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)
        with holding(OTHER, "exclusive", *paths) as taken:
            self.assertEqual(set(taken), {"Bad file descriptor"}, "an exclusive lock needs a descriptor for writing")
            self.assertEqual(self.run_code().stdout, b"42\n")
        # Its shared lock is what anybody who uses the image has: it prevents the removal and nothing else.
        with holding(OTHER, "read", f"{self.image}/lock") as taken:
            self.assertEqual(taken, ["lock"])
            self.assertEqual(self.run_code().stdout, b"42\n")
            done = self.run_cloister("image", "remove", os.path.basename(self.image), env=self.env)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"in use", done.stderr)

    def test_control_the_owner_has_the_exclusive_lock(self):
        if harness.ROOT:
            with holding(OTHER, "write", f"{self.image}/lock") as taken:
                self.assertEqual(taken, ["Permission denied"])
        with holding(os.geteuid(), "write", f"{self.image}/lock") as taken:
            self.assertEqual(taken, ["lock"])
            began = time.monotonic()
            done = self.run_code()
            self.assertEqual(done.returncode, 125, done.stdout)
            self.assertLess(time.monotonic() - began, 10)
            self.assertIn(b"the store does not have it", done.stderr)
        self.assertEqual(self.run_code().stdout, b"42\n")

    def test_a_store_without_its_image_is_asked_and_logged_rarely(self):
        """Every wait has an end, and a failing one is not logged again and again."""
        config = self.config(profiles={name: {"agent": True, "pool": 2} for name in ("one", "two")})
        with holding(os.geteuid(), "write", f"{self.image}/lock"):
            server = rawmcp.RawServer("--config", config, env=self.env, cwd=self.dir)
            try:
                server.initialize()
                server.ask("tools/list")
                end = time.monotonic() + 1.5
                calls = 0
                while time.monotonic() < end:
                    self.assertEqual(server.cell("1", session=f"s{calls}")["status"], "error")
                    calls += 1
                lines = server.log().splitlines()
            finally:
                server.close()
        self.assertLess(len(lines), 20, lines[-5:])

    @staticmethod
    def other_user(home):
        os.chown(home, OTHER, OTHER)
        return {"user": OTHER, "group": OTHER, "extra_groups": []}

    def test_a_store_of_root_serves_other_users_and_is_not_removed_below_them(self):
        if not harness.ROOT:
            self.skipTest("root's store, as root")
        home = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, home)
        os.chmod(home, 0o700)
        env = {**self.env, "HOME": home}
        server = subprocess.Popen([harness.CLOISTER, "run", "-c", "import sys, time; print(42, flush=True); time.sleep(60)"], env=env, cwd=home,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.other_user(home))
        try:
            self.assertEqual(server.stdout.readline(), b"42\n")
            done = self.run_cloister("image", "remove", os.path.basename(self.image), env=self.env)
            self.assertIn(b"in use", done.stderr)
        finally:
            harness.end(server)
            server.stdout.close()
            server.stderr.close()


class Groups(rawmcp.ServerCase):
    def test_no_other_user_locks_a_control_group(self):
        """41. The control is the directory above, which every user can open."""
        self.ok("1")
        name = f"cloister-{self.server.process.pid}-"
        groups = [os.path.join(at, group) for at, below, _ in os.walk("/sys/fs/cgroup") for group in below if group.startswith(name)]
        if not groups or not harness.ROOT:
            self.skipTest("no control group, or no other user")
        parents = [os.path.dirname(group) for group in groups]
        with holding(OTHER, "flock", *groups, *parents) as taken:
            self.assertEqual(taken, ["Permission denied"] * len(groups) + list(map(os.path.basename, parents)))


if __name__ == "__main__":
    harness.main()
