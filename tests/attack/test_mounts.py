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


# What a process can be told of another one's use of a file, and how it can delay that: {name: what it got}.
WATCH = """
import ctypes, fcntl, os, signal
libc = ctypes.CDLL(None, use_errno=True)
folder, file = %r, %r
got, seen = {}, []
def take(name, action):
    try:
        got[name] = action()
    except OSError as error:
        got[name] = error.strerror
def watch():
    fd = libc.inotify_init1(os.O_NONBLOCK)
    if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(folder), 0xfff) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd
def notify():
    signal.signal(signal.SIGRTMIN, lambda *_: seen.append(1))
    fd = os.open(folder, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGRTMIN)
    return fcntl.fcntl(fd, 1026, 1 << 31 | 1 | 32)  # F_NOTIFY, DN_MULTISHOT | DN_ACCESS | DN_ATTRIB
def lease():
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    return fcntl.fcntl(os.open(file, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
take("inotify", watch); take("F_NOTIFY", notify); take("F_SETLEASE", lease)
"""
SEEN = """
import time; time.sleep(0.05)
try:
    events = os.read(got["inotify"], 65536)
except (OSError, TypeError):
    events = b""
"""


class Sessions(rawmcp.ServerCase):
    """What sessions share: the inodes of the image."""

    def test_no_session_watches_or_delays_what_another_reads(self):
        """41, and side channels between sessions. In the control the same code runs outside, on the same kind of files."""
        place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place)
        needle = os.path.join(place, "needle")
        with open(needle, "w", encoding="ascii") as f:
            f.write("x")
        shutil.copy(needle, f"{needle}-2")
        code = WATCH % (place, needle) + f"import subprocess; subprocess.run(['cat', {needle + '-2'!r}], stdout=-3)\n" + SEEN
        done = subprocess.run([harness.PYTHON, "-c", f"{code}\nprint(got, (b'needle' in events, bool(seen)))"],
                              capture_output=True, text=True, timeout=30, check=True)
        self.assertIn("'F_SETLEASE': 0", done.stdout)
        self.assertIn("(True, True)", done.stdout)

        file = self.value("import os, json; os.path.join(os.path.dirname(os.path.dirname(json.__file__)), 'colorsys.py')")
        got = self.value(WATCH % (os.path.dirname(file), file) + "got", session="watcher")
        began = time.monotonic()
        cell = self.cell(f"import colorsys, os; len(open({file!r}).read()) > 0", session="watched", timeout=5)
        self.assertEqual((cell["status"], cell.get("value", {}).get("repr")), ("ok", "True"), got)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(self.value(f"{SEEN}\n[b'colorsys' in events, bool(seen)]", session="watcher"), [False, False], got)
        self.assertEqual(got, {"inotify": "Too many open files", "F_NOTIFY": "Invalid argument", "F_SETLEASE": "Invalid argument"})
        # The other commands are as they were.
        self.ok("import fcntl; f = open('own', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX)\n"
                "assert fcntl.fcntl(f, fcntl.F_GETLEASE) == fcntl.F_UNLCK and fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, 0) > 0\n"
                "r, w = os.pipe(); assert fcntl.fcntl(w, 1032) >= 4096", session="watcher")


if __name__ == "__main__":
    harness.main()
