"""The template's own filter is in force for the image's code: calls that a module makes while the template imports it.

The code runs in the template with every capability in its user namespace. The control makes the same calls with the same
capabilities, outside and without a filter: there the kernel carries them out or gives another error.
"""

import errno
import fcntl
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness
import rawmcp
import test_kernel
import test_packages

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "policy"))
import evaluate  # noqa: E402, pylint: disable=wrong-import-position
import test_policy  # noqa: E402, pylint: disable=wrong-import-position

BAD, NO, BIT32, BIT63 = test_kernel.BAD, test_kernel.NO, test_kernel.BIT32, test_kernel.BIT63
NEW = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "ipc": 0x8000000, "uts": 0x4000000, "time": 0x80}
CHARACTER, FIFO = 0o020600, 0o010600

# With these arguments no call has an effect, even without the filter: {errno: {name: (call, arguments…)}}.
REFUSED = {
    errno.EPERM: {
        "sched_setscheduler": ("sched_setscheduler", 0, 99, BAD),
        # Mounts can be neither changed nor removed, and the root directory cannot be changed.
        "remount": ("mount", BAD, BAD, BAD, 0x1020, BAD), "bind": ("mount", BAD, BAD, BAD, 0x1000, BAD),
        "move": ("mount", BAD, BAD, BAD, 0x2000, BAD), "new": ("mount", BAD, BAD, BAD, 0, BAD),
        "shared": ("mount", BAD, BAD, BAD, 0x104000, BAD), "umount2": ("umount2", BAD, 2),
        "mount_setattr": ("mount_setattr", NO, BAD, 0, BAD, 32), "pivot_root": ("pivot_root", BAD, BAD), "chroot": ("chroot", BAD),
        "ptrace": ("ptrace", 1, 999999999, 0, 0), "kcmp": ("kcmp", 999999999, 999999998, 0, 0, 0),
        "keyctl": ("keyctl", 1, BAD), "add_key": ("add_key", BAD, BAD, 0, 0, 0), "request_key": ("request_key", BAD, BAD, 0, 0),
        "perf_event_open": ("perf_event_open", 0, 0, 0, 0, 0xFFFF), "fanotify_mark": ("fanotify_mark", NO, 0xFFFF, 0, NO, 0),
        "personality": ("personality", 0xFFFFFFFF), "name_to_handle_at": ("name_to_handle_at", NO, BAD, BAD, BAD, NO),
        "setuid": ("setuid", 0xFFFFFFFF), "setfsuid": ("setfsuid", 0xFFFFFFFF), "mlockall": ("mlockall", 99),
        "sched_setattr": ("sched_setattr", 0, BAD, 1), "ioprio_set": ("ioprio_set", 99, 0, 0),
        "TIOCSTI": ("ioctl", NO, 0x5412, BAD), "TIOCSTI, bit 32": ("ioctl", NO, BIT32 | 0x5412, BAD), "TIOCLINUX": ("ioctl", NO, 0x541C, BAD),
        "AF_INET": ("socket", 2, 1, 0), "AF_INET, bit 32": ("socket", BIT32 | 2, 1, 0), "AF_NETLINK": ("socket", 16, 3, 0),
        "AF_PACKET": ("socket", 17, 3, 0),
    },
    errno.ENOSYS: {
        **{f"unshare {kind}": ("unshare", flag) for kind, flag in NEW.items()}, "unshare nothing": ("unshare", 0),
        "unshare net and user": ("unshare", 0x50000000), "setns": ("setns", NO, 0),
        # No filter without the mitigations, and no strict mode. Locks of fcntl() are for sessions, where init makes the call.
        "bind and private": ("mount", BAD, BAD, BAD, 0x45000, BAD), "F_SETLK": ("fcntl", NO, 6, BAD), "SPEC_ALLOW": ("seccomp", 1, 4, BAD), "strict": ("seccomp", 0, 1, BAD), "actions": ("seccomp", 2, 0, BAD),
        "a device": ("mknodat", NO, BAD, CHARACTER, 0x103), "a file": ("mknodat", NO, BAD, 0o100600, 0),
        "io_uring": ("io_uring_register", NO, 0, 0, 0), "userfaultfd": ("userfaultfd", 0xFF), "splice": ("splice", NO, 0, NO, 0, 1, 0),
        "tee": ("tee", NO, NO, 1, 0), "vmsplice": ("vmsplice", NO, BAD, 1, 0), "process_madvise": ("process_madvise", NO, BAD, 1, 99, 0xFF),
        "fspick": ("fspick", NO, BAD, 0xFFFF), "limits of another": ("prlimit64", 1, 7, 0, BAD),
        "PR_SET_MM": ("prctl", 35, 1, 0, 0, 1), "PR_SET_SYSCALL_USER_DISPATCH": ("prctl", 59, 99, 0, 0, 0), "PR_MCE_KILL": ("prctl", 33, 99, 0, 0, 0),
        "SIOCSIFFLAGS": ("ioctl", NO, 0x8914, BAD),
    },
    errno.EINVAL: {"sendfile": ("sendfile", NO, NO, 0, 1), "F_SETLEASE": ("fcntl", NO, 1024, 0), "F_NOTIFY": ("fcntl", NO, 1026, 0), "F_OFD_SETLK": ("fcntl", NO, 37, BAD)},
    errno.EXDEV: {"copy_file_range": ("copy_file_range", NO, 0, NO, 0, 1, 0)},
    errno.EOPNOTSUPP: {"MSG_OOB": ("sendto", NO, BAD, 1, 1, 0, 0), "setxattr": ("setxattr", BAD, BAD, BAD, 1, 0), "FICLONE": ("ioctl", NO, 0x40049409, NO)},
}
# Twins of what is refused, with other arguments or the call that is needed: the same answer as without the filter.
ALLOWED = {
    "private": ("mount", BAD, BAD, BAD, 0x44000, BAD), "unshare cgroup": ("unshare", 0x2000000), "clone3": ("clone3", 0, 0),
    "filter": ("seccomp", 1, 0, BAD), "filter of all threads": ("seccomp", 1, 1, BAD), "a FIFO": ("mknodat", NO, BAD, FIFO, 0),
    "setresuid": ("setresuid", NO + 1, NO + 1, NO + 1), "setgroups": ("setgroups", 99999999, BAD), "capset": ("capset", BAD, BAD),
    "setsid": ("setsid",), "sethostname": ("sethostname", BAD, 1), "FIONREAD": ("ioctl", NO, 0x541B, BAD),
    "fsconfig": ("fsconfig", NO, 99, 0, 0, 0), "fsmount": ("fsmount", NO, 0xFFFF, 0), "open_tree": ("open_tree", NO, BAD, 1),
    "move_mount": ("move_mount", NO, BAD, NO, BAD, 0xFFFF), "AF_UNIX": ("socket", 1, 1, 0), "write": ("write", NO, BAD, 1),
    "PR_SET_SECUREBITS": ("prctl", 28, 0xFFFF, 0, 0, 0), "PR_CAP_AMBIENT": ("prctl", 47, 99, 0, 0, 0), "landlock": ("landlock_create_ruleset", 0, 0, 1),
    "own limits": ("prlimit64", 0, 7, 0, 0), "F_GETFL": ("fcntl", NO, 3, 0), "sendto": ("sendto", NO, BAD, 1, 0, 0, 0), "keep": ("read", NO, BAD, 1),
    # Of init, which has the template's filter too: it takes the locks of its session.
    "listener": ("seccomp", 1, 8, BAD), "pidfd_getfd": ("pidfd_getfd", NO, 0, 0), "flock": ("flock", NO, 6),
    "process_vm_readv": ("process_vm_readv", 999999999, 0, 0, 0, 0, 0), "process_vm_writev": ("process_vm_writev", 999999999, 0, 0, 0, 0, 0),
}
# uretprobe and uprobe of x86-64: kernels since 6.13 do not pass them to filters, and kill a process that makes them itself (SIGILL).
UNFILTERED = (335, 336)
# Not in every kernel: there both answers are ENOSYS.
ABSENT = {"io_uring", "userfaultfd", "process_madvise"}

# In children, so that none changes the template. Negative: the signal that ended it.
LISTEN = test_kernel.PROBE + """
def answers(sweep):
    ends = os.pipe()
    if in_child(lambda: os.write(ends[1], json.dumps({n: errno_of(n, 1, -2, -2, -2, -2, -2) for n in sweep}).encode()) < 0) != 0:
        return {"-1": "the child was ended"}
    return json.loads(os.read(ends[0], 65536))
def probe(table, sweep):
    with open("/proc/self/status") as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines())
    return {"calls": {name: in_child(errno_of, *call) for name, call in table.items()},
            "sweep": answers(sweep),
            "status": {key: status[key].strip() for key in ("CapEff", "NoNewPrivs", "Seccomp")}}
"""


# In a profile with a mount: locks of the host's file and of the image's, by each way that was found. A process of its own says whether they hold.
LOCK = r"""
import ctypes, fcntl, os, struct, threading
libc, held = ctypes.CDLL(None, use_errno=True), []
def own(path):
    held.append(os.open(path, os.O_RDONLY))
    return held[-1]
def record(fd, start=0):
    return libc.fcntl(fd, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, start, 1, 0))
def by_child(fd):
    if os.fork() == 0:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os._exit(0)
    os.wait()
def with_listener(fds, n):
    # fcntl() with F_SETLK asks a thread, which lets the call continue.
    code = b"".join(struct.pack("HBBI", *i) for i in ((32, 0, 0, 0), (21, 0, 3, NUMBER), (32, 0, 0, 24), (21, 0, 1, fcntl.F_SETLK), (6, 0, 0, 0x7FC00000), (6, 0, 0, 0x7FFF0000)))
    kept = ctypes.create_string_buffer(code)
    listener = libc.syscall(SECCOMP, 1, 8, struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(kept)))
    def let():
        for _ in range(n * len(fds)):
            call = ctypes.create_string_buffer(80)
            libc.ioctl(listener, 0xC0502100, call)
            libc.ioctl(listener, 0xC0182101, struct.pack("QqiI", struct.unpack_from("Q", call)[0], 0, 0, 1))
    thread = threading.Thread(target=let)
    thread.start()
    taken = sum(record(fd, 2 * i) == 0 for fd in fds for i in range(n))
    thread.join(30)
    return taken
def excluded(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
def lock():
    image = os.__file__
    fcntl.flock(own("/shared/flock"), fcntl.LOCK_EX)
    by_child(own("/shared/child"))
    for _ in range(200):
        fcntl.flock(own(image), fcntl.LOCK_SH)
    return {"excluded": [excluded(path) for path in ("/shared/flock", "/shared/child", image)], "records": with_listener([own("/shared/record"), own(image)], 200)}
def open_file(fd, kind=fcntl.F_RDLCK):
    return libc.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))
def lock_open_files():
    held.append(os.open("/locks/at-start", os.O_RDWR))
    held.append(os.open("/locks/at-fork", os.O_RDWR))
    held.append(os.dup(held[0]))
    taken = [open_file(fd, fcntl.F_WRLCK) for fd in held[:2]] + [open_file(own(os.__file__)) for _ in range(200)]
    again = os.open("/locks/at-start", os.O_RDWR)
    return {"taken": taken.count(0), "excluded": [open_file(again, fcntl.F_WRLCK), ctypes.get_errno()]}
found = lock() if os.path.isdir("/shared") else lock_open_files() if os.path.isdir("/locks") else None
# After the session has begun, in the template.
os.register_at_fork(after_in_parent=lambda: os.path.isdir("/shared") and fcntl.flock(held[0], fcntl.LOCK_EX) or os.path.isdir("/locks") and open_file(held[1], fcntl.F_WRLCK))
"""


def numbered(table):
    return {name: (test_kernel.number(call), *arguments) for name, (call, *arguments) in table.items()}


def tables():
    calls = {name: call for part in REFUSED.values() for name, call in part.items()}
    calls = numbered(calls | ALLOWED)
    if test_kernel.X86:
        calls["x32"] = (0x40000000 | test_kernel.number("getpid"),)
    return calls


def sweep():
    """{number: errno} of all calls that the policy refuses whatever their arguments are."""
    table = evaluate.read_table(os.path.join(harness.SOURCE, "tests", "policy", "table.txt"))["template"]
    names = {n: name for name, n in test_policy.headers()[test_policy.NATIVE].items()}
    found = {}
    for n in set(range(600)).difference(UNFILTERED if test_kernel.X86 else ()):
        lines = table.get(names.get(n), ())
        if all(not line.conditions and line.answer not in ("allow", "0") for line in lines):
            found[n] = getattr(errno, lines[0].answer) if lines else errno.ENOSYS
    return found


PLACE = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
ENVIRONMENT = harness.environment(CLOISTER_IMAGE_STORE=f"{PLACE}/images")


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    os.mkdir(f"{PLACE}/wheels")
    code = f"{LISTEN}\nfound = json.dumps(probe({tables()!r}, {list(sweep())!r}))\n"
    test_packages.wheel(f"{PLACE}/wheels", "listen", "1.0", {"listen.py": code, "locking.py": LOCK.replace("NUMBER", str(test_kernel.number("fcntl"))).replace("SECCOMP", str(test_kernel.number("seccomp"))),
                                                             "listen.pth": "import listen, locking\n"})
    subprocess.run([harness.CLOISTER, "image", "build", "--offline", "--find-links", f"{PLACE}/wheels", "--with", "listen",
                    "--name", "listen"], env=ENVIRONMENT, check=True, timeout=harness.patient(120), capture_output=True)


class Filter(harness.Case):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--net", "--uts", harness.PYTHON, "-c",
                               f"{LISTEN}\nprint(json.dumps(probe({tables()!r}, [])))"], capture_output=True, check=True, timeout=harness.patient(60))
        cls.control = json.loads(done.stdout)

    def setUp(self):
        super().setUp()
        profiles = {name: {"agent": True, "image": "listen", "network": name} for name in ("none", "loopback")}
        self.server = rawmcp.RawServer("--config", self.config(profiles=profiles, pool=0), env=ENVIRONMENT)
        self.addCleanup(self.server.free)
        self.server.initialize()

    def found(self, profile):
        """Returns the module's results from the template of this profile."""
        cell = self.server.cell("import listen; print(listen.found)", profile=profile, wait=harness.patient(60))
        self.assertEqual(cell["status"], "ok", cell)
        return json.loads(cell["stdout"])

    def check(self, found, but=()):
        calls, control = found["calls"], self.control["calls"]
        for code, part in REFUSED.items():
            for name in part:
                if name in but:
                    continue
                with self.subTest(refused=name):
                    self.assertEqual(calls[name], code)
                    if name not in ABSENT or control[name] != errno.ENOSYS:
                        self.assertNotEqual(control[name], code, "the control: without the filter, another answer")
        for name in (*ALLOWED, *but):
            with self.subTest(allowed=name):
                # The control's user namespace may set no groups; the template's may, where newgidmap wrote its groups.
                other = errno.EINVAL if name == "setgroups" else control[name]
                self.assertIn(calls[name], (control[name], other), "as without the filter")
        if test_kernel.X86:
            self.assertEqual(calls["x32"], -signal.SIGSYS)
            self.assertNotEqual(control["x32"], -signal.SIGSYS)

    def test_the_templates_filter_is_in_force(self):
        """For code of the image, in the template itself, with its capabilities."""
        found = self.found("none")
        self.check(found)
        self.assertEqual((found["status"]["NoNewPrivs"], found["status"]["Seccomp"]), ("1", "2"))
        self.assertEqual((self.control["status"]["NoNewPrivs"], self.control["status"]["Seccomp"]), ("0", "0"))
        for which in found, self.control:
            self.assertTrue(int(which["status"]["CapEff"], 16) >> 21 & 1, "CAP_SYS_ADMIN: no capability is what refuses")
        # Whatever the arguments are.
        expected = sweep()
        self.assertGreater(len(expected), 150)
        self.assertEqual({int(n): code for n, code in found["sweep"].items()}, expected)

    def test_the_variant_with_loopback(self):
        """In addition, it may only bring lo up and create internet sockets."""
        self.check(self.found("loopback"), but=("SIOCSIFFLAGS", "AF_INET", "AF_INET, bit 32"))


class Locks(harness.Case):
    def serve(self, mount):
        """Returns a server whose profile has this mount of a new directory, and the directory."""
        place = tempfile.mkdtemp(dir=PLACE)
        os.chmod(PLACE, 0o755)
        os.chmod(place, 0o755)
        for name in ("flock", "child", "record", "at-start", "at-fork"):
            with open(f"{place}/{name}", "w", encoding="ascii"):
                pass
        profile = {"agent": True, "image": "listen", "mounts": [{"source": place, **mount}]}
        server = rawmcp.RawServer("--config", self.config(profiles={"locks": profile}, pool=0), env=ENVIRONMENT)
        self.addCleanup(server.free)
        server.initialize()
        return server, place

    def taken(self, path, record):
        """Whether a program of the host is kept from the exclusive lock of a file."""
        with open(path, "r+", encoding="ascii") as f:
            try:
                (fcntl.lockf if record else fcntl.flock)(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def image_locks(self):
        """Locks of the image's os.py, in the kernel's own list."""
        inodes = {os.stat(path).st_ino for path in glob.glob(f"{PLACE}/images/listen/**/os.py", recursive=True)}
        self.assertTrue(inodes)
        with open("/proc/locks", encoding="ascii") as f:
            return sum(int(line.split()[-3].split(":")[2]) in inodes for line in f)

    def test_locks_of_a_template(self):
        """41. Locks that code of the image takes in the template end before a session begins. The module prints that it had them."""
        server, place = self.serve({"target": "/shared", "mode": "ro"})
        for session in "ab":
            cell = server.cell("import locking; print(locking.found)", profile="locks", session=session, wait=harness.patient(60))
            self.assertEqual((cell["status"], cell["stdout"]), ("ok", "{'excluded': [True, True, True], 'records': 400}\n"), cell)
            # The template releases those of the fork after it has answered.
            self.assertTrue(harness.wait_until(lambda: not self.taken(f"{place}/flock", False)))
            self.assertFalse(self.taken(f"{place}/child", False))
            self.assertFalse(self.taken(f"{place}/record", True))
            self.assertEqual(self.image_locks(), 0)

    @unittest.skipIf(harness.ROOT, "as root, no mount can be writable, and so none has locks")
    def test_locks_of_open_files_of_a_template(self):
        """41. In a profile with a mount with `locks`, the template may take locks of open files. They end before a session begins. The module
        prints that it had them, and that another open file was kept from one."""
        server, place = self.serve({"target": "/locks", "mode": "rw", "locks": True})
        for session in "ab":
            cell = server.cell("import locking; print(locking.found)", profile="locks", session=session, wait=harness.patient(60))
            self.assertEqual((cell["status"], cell["stdout"]), ("ok", f"{{'taken': 202, 'excluded': [-1, {errno.EAGAIN}]}}\n"), cell)
            self.assertFalse(self.taken(f"{place}/at-start", True))
            # The template releases those of the fork after it has answered.
            self.assertTrue(harness.wait_until(lambda: not self.taken(f"{place}/at-fork", True)))
            self.assertEqual(self.image_locks(), 0)


if __name__ == "__main__":
    harness.main()
