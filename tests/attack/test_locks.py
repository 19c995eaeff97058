"""Class 41 for locks of files: how many there can be, on which files, and that they do what they do outside."""

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import rawmcp

TOOLS = r"""
import ctypes, errno, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def lock(fd, kind, start, length=1, command=fcntl.F_SETLK):
    "Returns 0, or the name of the error."
    buffer = ctypes.create_string_buffer(struct.pack("hhqqi4x", kind, 0, start, length, 0))
    return 0 if libc.fcntl(fd, command, buffer) == 0 else errno.errorcode[ctypes.get_errno()]
def own(name):
    return os.open(folder + "/" + name, os.O_RDWR | os.O_CREAT, 0o600)
def children(count, function):
    "Runs function(n) in each; all hold what they have until each has ended its own. Returns the sum."
    total, ends, stay = 0, os.pipe(), os.pipe()
    pids = []
    for n in range(count):
        pid = os.fork()
        if pid == 0:
            os.close(stay[1])
            try:
                os.write(ends[1], b"%8d" % function(n))
                os.read(stay[0], 1)
            finally:
                os._exit(0)
        pids.append(pid)
    for _ in pids:
        total += int(os.read(ends[0], 8))
    os.close(stay[1])
    for pid in pids:
        os.waitpid(pid, 0)
    for fd in (*ends, stay[0]):
        os.close(fd)
    return total
"""

# More locks than a session may have, in one process and in many.
RECORDS = r"""
def take(n, files=20, each=75):
    taken = 0
    for j in range(files):
        fd = own(f"r{n}-{j}")
        for i in range(each, 0, -1):
            taken += lock(fd, fcntl.F_WRLCK, 2 * i) == 0
    return taken
"""
FLOCKS = r"""
def take(n, files=400):
    taken = 0
    for j in range(files):
        fd = own(f"f{n}-{j}")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken += 1
        except OSError:
            pass
    return taken
"""

# Open files that no list of descriptors shows. Each child stays, with what it has.
HIDDEN = r"""
import shutil, threading, time
def hide(count, function, files=400):
    ends = os.pipe()
    for n in range(count):
        if os.fork() == 0:
            try: function(n, files, lambda: os.write(ends[1], b"r"))
            finally: os.write(ends[1], b"r")
            time.sleep(60); os._exit(0)
    for _ in range(count): os.read(ends[0], 1)
def flock(name):
    fd = own(name)
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: pass
    return fd
def execute(n, files, tell):
    for j in range(files): os.set_inheritable(flock(f"e{n}-{j}"), True)
    if os.fork() == 0: os.execv(folder + "/hidden", ["hidden", "60"])
def map_files(n, files, tell):
    libc.mmap.restype = ctypes.c_void_p
    for j in range(files):
        fd = flock(f"m{n}-{j}")
        assert libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_size_t(0)) != ctypes.c_void_p(-1).value
        os.close(fd)
def end_leader(n, files, tell):
    held = [flock(f"l{n}-{j}") for j in range(files)]
    threading.Thread(target=time.sleep, args=(60,)).start()
    tell()
    libc.syscall(60, 0)
if not os.path.exists(folder + "/hidden"):
    shutil.copy(shutil.which("sleep"), folder + "/hidden")
    os.chmod(folder + "/hidden", 0o111)
"""

# Prints what locks do. The same program runs outside.
MEANING = r"""
import dbm, multiprocessing, signal, sqlite3, subprocess, threading, time
result = {}
def in_child(function):
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(function())
        except BaseException as e:
            os.write(2, repr(e).encode())
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
R, W, U = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
a = own("a")
free = lambda start, length=1, kind=W: in_child(lambda: 1 if lock(own("a"), kind, start, length) == 0 else 2)
result["one"] = [lock(a, W, 10, 10), free(9), free(10), free(19), free(20), free(0, 0), free(15, 1, R)]
result["split"] = [lock(a, U, 14, 2), free(13), free(14), free(15), free(16)]
result["shared"] = [lock(a, R, 10, 4), free(10, 1, R), free(10)]
result["joined"] = [lock(a, R, 10, 10), free(14, 1, R), free(14), lock(a, U, 0, 0), free(0, 0)]
result["bad"] = [lock(a, 7, 0), lock(a, W, -5), lock(a, W, 5, -9), lock(a, W, 9, -9), lock(a, U, 0, 0), lock(a, W, -1 << 63, -1), lock(a, W, 0, -1 << 63), lock(a, W, 1 << 62, 1 << 62),
                 lock(a, W, (1 << 63) - 1, 1), lock(a, W, (1 << 63) - 1, 2), lock(a, W, 5, (1 << 63) - 1), lock(a, U, 0, 0), lock(999, W, 0),
                 lock(os.open(folder + "/a", os.O_RDONLY), W, 0), lock(os.open(folder + "/a", os.O_PATH), R, 0),
                 errno.errorcode[ctypes.get_errno()] if libc.fcntl(a, fcntl.F_SETLK, ctypes.c_void_p(8)) else 0]
b = own("b")
result["closed"] = [lock(b, W, 0), in_child(lambda: lock(own("b"), W, 0) == 0), os.close(b), in_child(lambda: lock(own("b"), W, 0) == 0)]
b = own("b")
def two():
    c, d = own("b"), own("b")
    return (lock(c, W, 0), lock(d, W, 0), lock(d, R, 0), lock(c, W, 0)) == (0, 0, 0, 0)
result["one owner"] = in_child(two)
result["ended"] = [in_child(lambda: lock(own("b"), W, 0) == 0), lock(b, W, 0)]
result["fork"] = [in_child(lambda: lock(b, W, 0) == 0), lock(b, U, 0)]
def get(start):
    buffer = ctypes.create_string_buffer(struct.pack("hhqqi4x", W, 0, start, 5, 0))
    libc.fcntl(own("a"), fcntl.F_GETLK, buffer)
    kind, whence, start, length, pid = struct.unpack("hhqqi4x", buffer.raw[:32])
    return [kind, whence, start, length, pid == os.getppid()]
lock(a, W, 100, 50)
result["F_GETLK"] = in_child(lambda: get(120) == [W, 0, 100, 50, True]), in_child(lambda: get(20)[0] == U)
lock(a, U, 0, 0)
ready = os.pipe()
def hold(seconds, name="a"):
    pid = os.fork()
    if pid == 0:
        fd = own(name)
        lock(fd, W, 0)
        os.write(ready[1], b"r")
        time.sleep(seconds)
        os._exit(0)
    os.read(ready[0], 1)
    return pid
pid = hold(0.3)
began = time.monotonic()
result["waits"] = [lock(a, W, 0), lock(a, W, 0, 1, fcntl.F_SETLKW), 0.1 < time.monotonic() - began < 10]
os.waitpid(pid, 0); lock(a, U, 0, 0)
pid = hold(20)
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, True); signal.alarm(1)
result["interrupted"] = lock(a, W, 0, 1, fcntl.F_SETLKW)
os.kill(pid, 9); os.waitpid(pid, 0)
done = []
t = threading.Thread(target=lambda: done.append(lock(own("t"), W, 0))); t.start(); t.join()
result["thread"] = [done, in_child(lambda: lock(own("t"), W, 0) == 0), lock(own("t"), W, 0)]
def flock(fd, what):
    try:
        fcntl.flock(fd, what | fcntl.LOCK_NB)
        return 0
    except OSError as e:
        return errno.errorcode[e.errno]
f, g = own("f"), own("f")
copy = os.dup(g)
E, S, N = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_UN
result["flock"] = [flock(f, E), flock(g, E), flock(g, S), flock(f, S), flock(g, S), flock(g, E), flock(f, N), flock(g, E), flock(copy, N), flock(f, E), os.close(f), flock(g, E), os.close(copy), flock(g, 64)]
# The usual way of shell scripts: the program ends, and the shell keeps the lock.
take = sys.executable + " -c 'import fcntl, sys; fcntl.flock(int(sys.argv[1]) if sys.argv[1] > \"0\" else open(\"f\"), 6)' "
script = f"exec 9>f; {take} 9 && echo one; {take} 0 2>&- || echo held; exec 9>&-; {take} 0 && echo free"
result["shell"] = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=folder, close_fds=True).stdout if not os.close(g) else 0
g = own("f")
flock(g, E)
pid = os.fork()
if pid == 0:
    time.sleep(0.3); os._exit(0)
os.close(g)
began = time.monotonic()
fcntl.flock(own("f"), E)
result["flock waits"] = 0.1 < time.monotonic() - began < 10
os.waitpid(pid, 0)
def add(n):
    with sqlite3.connect(folder + "/d", timeout=60) as c:
        for i in range(25):
            c.execute("insert into t values(?)", (i,)); c.commit()
for mode in ("delete", "wal"):
    with sqlite3.connect(folder + "/d") as c:
        c.execute("pragma journal_mode=" + mode); c.execute("create table if not exists t(a)"); c.execute("delete from t"); c.commit()
    c.close()
    workers = [multiprocessing.get_context("fork").Process(target=add, args=(n,)) for n in range(4)]
    for w in workers: w.start()
    threads = [threading.Thread(target=add, args=(n,)) for n in range(2)]
    for t in threads: t.start()
    for w in workers + threads: w.join()
    c = sqlite3.connect(folder + "/d")
    result["sqlite " + mode] = c.execute("select count(*) from t").fetchone(), c.execute("pragma integrity_check").fetchone()
    c.execute("begin exclusive")
    other = "import sqlite3, sys\ntry: sqlite3.connect(sys.argv[1], timeout=0).execute('begin immediate'); print('free')\nexcept sqlite3.OperationalError as e: print(e)"
    result["sqlite busy " + mode] = [subprocess.run([sys.executable, "-c", other, folder + "/d"], capture_output=True, text=True).stdout]
    c.rollback()
    result["sqlite busy " + mode] += [subprocess.run([sys.executable, "-c", other, folder + "/d"], capture_output=True, text=True).stdout]
    c.close()
with dbm.open(folder + "/dbm", "c") as d:
    d["a"] = "b"
with dbm.open(folder + "/dbm", "w") as d:
    result["dbm"] = d["a"]
# With the locks of another process, those of SQLite are init's.
pid = hold(60, "s")
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, True)
c = sqlite3.connect(folder + "/d")
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for i in range(400):
    c.execute("insert into t values(?)", (i,)); c.commit()
signal.setitimer(signal.ITIMER_REAL, 0)
c.close()
os.kill(pid, 9); os.waitpid(pid, 0)
result["sqlite interrupted"] = i
import json
value = json.dumps(result, default=str)
"""

# A lock of a file that is exchanged for another one, by another thread, in each place between the look and the call.
EXCHANGE = r"""
import threading, time
a, b = own("x"), os.open(target, os.O_RDONLY)
place, ends = os.dup(a), time.monotonic() + seconds
def exchange():
    while time.monotonic() < ends:
        os.dup2(b, place); os.dup2(a, place)
threads = [threading.Thread(target=exchange) for _ in range(2)]
for t in threads: t.start()
sys.setswitchinterval(1e-5)
taken = 0
while time.monotonic() < ends:
    taken += lock(place, fcntl.F_RDLCK, 0) == 0
    try:
        fcntl.flock(place, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
for t in threads: t.join()
value = taken
"""

NOT_OWN = r"""
import select
files = {"image": os.open(os.__file__, os.O_RDONLY), "directory of the image": os.open("/usr", os.O_RDONLY), "null": os.open("/dev/null", os.O_RDWR),
         "random": os.open("/dev/urandom", os.O_RDONLY), "mount": os.open(target, os.O_RDONLY), "proc": os.open("/proc/self/status", os.O_RDONLY)}
poll = select.epoll(); files["anonymous inode"] = poll.fileno()
def attempt(fd):
    found = []
    for what in (fcntl.LOCK_SH, fcntl.LOCK_EX):
        try: fcntl.flock(fd, what | fcntl.LOCK_NB); found.append(0)
        except OSError as e: found.append(errno.errorcode[e.errno])
    return [*found, lock(fd, fcntl.F_RDLCK, 0), lock(fd, fcntl.F_WRLCK, 0), lock(fd, fcntl.F_RDLCK, 0, 1, 37), lock(fd, 0, 0, 1, 1024), lock(fd, 0, 1 << 31 | 1, 1, 1026)]
value = {name: attempt(fd) for name, fd in files.items()}
identities = {name: [os.fstat(fd).st_dev, os.fstat(fd).st_ino] for name, fd in files.items()}
"""


# The worker's own table (sandbox-init/lock-table.h), as if it were SQLite's, at an address of the code's choice.
TABLE = r"""
def table(process, n, changes, locks=b""):
    head = struct.pack("QQQQiIII", 0x736b636f6c6c716d, 0, 0, 0, process, 0, changes, n)
    return ctypes.create_string_buffer(head + locks, len(head) + 64 * 48)
def give(memory, address=None):
    place = ctypes.c_void_p(ctypes.addressof(memory) if address is None else address)
    return libc.fcntl(-1, fcntl.F_SETLK, place), errno.errorcode.get(ctypes.get_errno())
"""

# With lies in it.
LIES = TABLE + r"""
import time
def of_another():
    "How long another process waits for its lock, and what it gets."
    began = time.monotonic()
    got = subprocess.run([sys.executable, "-c", "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, 6); print('taken')", folder + "/l"], capture_output=True, text=True).stdout
    return [got, time.monotonic() - began < 20]
import subprocess
entry = struct.pack("QQqqiii4x", os.stat(folder).st_dev, 1 << 63, -5, -9, 1, -7, 99)
value = []
for process, n, changes in ((os.getpid(), 0, 0), (os.getpid(), 1 << 31, 0), (os.getpid(), 64, 1), (1, 5, 0), (os.getppid(), 5, 0)):
    memory = table(process, n, changes, entry * 64)
    given = give(memory)[0] == 0
    struct.pack_into("II", memory, 40, changes, n)
    value.append([given, *of_another()])
value += [give(memory, a)[1] for a in (0, 8, 1 << 47, (1 << 64) - 8)]
value.append(of_another())
import sqlite3
with sqlite3.connect(folder + "/lies") as c:
    c.execute("create table t(a)")
value.append(of_another())
"""

# Names that a session and the host use against each other.
HOST_LOCKS = r"""
import signal, sqlite3, time
def ofd(fd, kind, start=0, length=1, command=37):
    return lock(fd, kind, start, length, command)
def flock(fd, what):
    try:
        fcntl.flock(fd, what | fcntl.LOCK_NB)
        return 0
    except OSError as e:
        return errno.errorcode[e.errno]
W, R, U = fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK
E, S, N = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_UN
def open_in(name):
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
take = {"fcntl": lambda fd, shared=False: lock(fd, R if shared else W, 0), "open file": lambda fd, shared=False: ofd(fd, R if shared else W),
        "flock": lambda fd, shared=False: flock(fd, S if shared else E)}
free = {"fcntl": lambda fd: lock(fd, U, 0), "open file": lambda fd: ofd(fd, U), "flock": lambda fd: flock(fd, N)}
"""

# More processes wait than there are places, and end.
WAITERS = r"""
import signal, threading, time
fd = own("w")
lock(fd, fcntl.F_WRLCK, 0)
def wait(command):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if command == "flock": fcntl.flock(own("v"), fcntl.LOCK_EX)
        os._exit(0 if command == "flock" or lock(own("w"), fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW) == 0 else 1)
    return pid
held = own("v"); fcntl.flock(held, fcntl.LOCK_EX)
pids = [wait(command) for command in ("flock", "fcntl") * 20]
time.sleep(1)
for pid in pids[:10]:
    os.kill(pid, signal.SIGKILL)
fcntl.flock(held, fcntl.LOCK_UN); lock(fd, fcntl.F_UNLCK, 0)
value = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
"""
# Calls beside others that wait, of which init must not try each at every call.
BESIDE = r"""
import threading, time
def seconds(n=300):
    fd, began = own("b"), time.monotonic()
    for i in range(n): lock(fd, fcntl.F_WRLCK, i)
    return time.monotonic() - began
held, alone = own("h"), seconds()
lock(held, fcntl.F_WRLCK, 0)
pids = []
for _ in range(100):
    pid = os.fork()
    if pid == 0:
        lock(own("h"), fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW); os._exit(0)
    pids.append(pid)
time.sleep(1)
beside = min(seconds() for _ in range(3))
lock(held, fcntl.F_UNLCK, 0)
ended = [os.waitpid(pid, 0)[1] for pid in pids]
value = [beside / alone, ended]
"""

# A socket that close() waits for.
LINGER = r"""
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3))
client.setblocking(False)
try:
    while client.send(bytes(65536)): pass
except BlockingIOError: pass
began = time.monotonic()
client.close()
value = time.monotonic() - began > 2
"""


def held_by_the_kernel(device, inode=None):
    """How many files the kernel has locks on: this one, or all of the device. Others lock and unlock while the list is read, so that one
    reading can miss entries or have them twice."""
    file = re.compile(rf" {os.major(device):02x}:{os.minor(device):02x}:({'[0-9]+' if inode is None else inode}) ")
    found = set()
    for _ in range(10):
        with open("/proc/locks", encoding="ascii") as f:
            found |= set(file.findall(f.read()))
    return len(found)


# Many files one after the other, which are closed without an unlock, and then many at one time.
CLOSED = """
for i in range(9000):
    with open("/workspace/c", "w") as f: fcntl.flock(f, fcntl.LOCK_EX)
value = i"""


@contextlib.contextmanager
def meetings(met_now, every=0.001):
    """Yields the list of what met_now() has returned, asked again and again meanwhile."""
    stop, met = threading.Event(), []

    def watch():
        while not stop.wait(every):
            met.extend(met_now())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield met
    finally:
        stop.set()
        watcher.join()


def check_flock(case):
    """While programs of the host have 5,000 locks of open files, flock() of a session works as without, and its bound holds."""
    with tempfile.TemporaryFile() as noise:
        for i in range(5000):
            fcntl.fcntl(noise, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * i, 1, 0))
        case.assertEqual(case.inside(CLOSED), 8999)
        many = FLOCKS.replace("own(f", "os.open(flags=66, path='/workspace/' + f")
        held = case.inside(f"{many}\nfs = [os.open(f'/workspace/{{i}}', 66) for i in range(400)]\nfor f in fs: fcntl.flock(f, fcntl.LOCK_EX)\nvalue = len(fs)")
        case.assertEqual((held, case.inside(CLOSED)), (400, 8999))
        case.assertIn(case.inside(f"{many}\nfor f in fs: os.close(f)\nvalue = children(12, take)"), range(3000, 4097))


@harness.once
class Locks(rawmcp.ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="cloister-test-")
        cls.addClassCleanup(cls.place.cleanup)
        os.chmod(cls.place.name, 0o755)
        cls.file = os.path.join(cls.place.name, "file")
        with open(cls.file, "w", encoding="ascii") as f:
            f.write("x")
        os.mkdir(cls.place.name + "/own")
        cls.CONFIG = {"mounts": [{"source": cls.place.name, "target": "/data"}]}
        super().setUpClass()

    def inside(self, code, timeout=120, **arguments):
        return self.value(f"target, folder = '/data/file', '/workspace'\n{TOOLS}{code}\nvalue", timeout=timeout, **arguments)

    def outside(self, code):
        code = f"target, folder = {self.file!r}, {self.place.name!r} + '/own'\n{TOOLS}{code}\nprint(repr(value))"
        out = subprocess.run([harness.PYTHON, "-c", code], capture_output=True, text=True, check=False, timeout=harness.PATIENCE * 2)
        self.assertEqual(out.returncode, 0, out.stderr)
        return eval(out.stdout)  # pylint: disable=eval-used

    def host_can_lock(self):
        with open(self.file, "r+", encoding="ascii") as f, open(self.file, "r+", encoding="ascii") as g:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return True

    def test_their_number(self):
        """41. A session has 4,096 at most, of both kinds, over all its processes. A session may have 1,500. The control: outside there are all."""
        for name, code in ("fcntl", RECORDS), ("flock", FLOCKS):
            with self.subTest(name):
                self.assertEqual(self.outside(code + "\nvalue = children(4, take)"), 4 * (1500 if code is RECORDS else 400))
                self.assertEqual(self.inside(code + "\nvalue = take(0, 20)" if code is RECORDS else code + "\nvalue = take(0, 200)", session=f"few-{name}"),
                                 1500 if code is RECORDS else 200)
                total = self.inside(code + f"\nvalue = children(16, lambda n: take(n, {5 if code is RECORDS else 400}))", session=f"many-{name}")
                self.assertLessEqual(total, 4096)
                self.assertGreater(total, 3000)
        both = self.inside(RECORDS + "\nrecords = take\n" + FLOCKS + "\nvalue = [children(12, lambda n: take(n, 200) + records(n, 4))]", session="both")
        self.assertLessEqual(both[0], 4096)

    def test_the_kernel_has_none(self):
        """41. The kernel has no object for a lock of fcntl(), and at most 4,096 for flock(), also where processes may not be inspected."""
        device = self.inside(RECORDS + "\nheld = take(1)\nvalue = os.stat(folder).st_dev")
        self.assertEqual(held_by_the_kernel(device), 0)
        for name in "execute", "map_files", "end_leader":
            with self.subTest(name):
                device = self.inside("value = os.stat(folder).st_dev", session=name)
                if name == "map_files":
                    self.inside(f"{HIDDEN}\nhide(1, map_files, 10)\nvalue = 0", session=name)
                    self.assertEqual(held_by_the_kernel(device), 10)  # the control: such locks stay
                self.inside(f"{HIDDEN}\nhide(16, {name})\nvalue = 0", session=name)
                self.assertIn(held_by_the_kernel(device), range(3000, 4097))
                self.inside(f"{HIDDEN}\nhide(2, {name})\nvalue = 0", session=name)
                self.assertLessEqual(held_by_the_kernel(device), 4096)
        unshare = "\nvalue = [libc.syscall(436, 5000, 5001, flags) and errno.errorcode[ctypes.get_errno()] for flags in (0, 2)]"
        self.assertEqual(self.outside(unshare), [0, 0])
        self.assertEqual(self.inside(unshare), [0, "EINVAL"])

    def test_files_that_are_closed(self):
        """The number is that of the locks that exist: many more can be taken one after the other, without an unlock."""
        code = "\ndef take():\n    for i in range(9000):\n        with open(folder + '/c', 'w') as f: fcntl.flock(f, fcntl.LOCK_EX)\n    return i\nvalue = take()"
        self.assertEqual(self.inside(code), 8999)

    def test_locks_of_open_files_of_the_host(self):
        """41. The kernel lists them in every pid namespace: they do not count, and counting ends."""
        check_flock(self)

    def test_files_that_others_use(self):
        """41. Nothing but a file of the session's own gets a lock that anybody else meets. The control: outside, all are taken."""
        outside = self.outside(NOT_OWN)
        self.assertEqual(outside["mount"][:3], [0, 0, 0])
        inside = self.inside(NOT_OWN)
        identities = self.value("identities")
        for name, found in inside.items():
            with self.subTest(name):
                self.assertEqual(found[0], 0)  # a shared one has no effect
                self.assertEqual(found[1], "ENOLCK")
                self.assertIn(found[2:4], ([0, "EBADF"], ["ENOLCK", "ENOLCK"]))
                self.assertEqual(found[4:], ["EINVAL"] * 3)
        self.assertTrue(self.host_can_lock())
        self.assertEqual([name for name, identity in identities.items() if held_by_the_kernel(*identity)], [])
        self.assertEqual(self.inside(NOT_OWN, session="another"), inside)

    def test_an_exchanged_descriptor(self):
        """41. init makes the call with the file that it has looked at. The control: outside, the same program takes the lock of the host's file."""
        code = f"seconds = 3{EXCHANGE}"
        with meetings(lambda: [] if self.host_can_lock() else ["flock"]) as met:
            self.outside(code)
        self.assertNotEqual(met, [])
        with meetings(lambda: [] if self.host_can_lock() else ["flock"]) as met:
            self.assertGreater(self.inside(code), 0)
        self.assertEqual(met, [])

    def test_they_do_what_they_do_outside(self):
        """Ranges, owners, waiting, signals, threads, forks, shells, SQLite and dbm. The control is the same program outside."""
        self.maxDiff = None
        outside, inside = self.outside(MEANING), self.inside(MEANING)
        self.assertEqual(inside, outside)

    def test_a_number_that_gets_the_same_file_again(self):
        """A difference that stays: init sees no close(). Outside, that ends the lock."""
        code = TOOLS + "\nfd = own('k')\nlock(fd, 1, 0)\nos.close(fd)\nsame = own('k') == fd\nvalue = [same, children(1, lambda n: lock(own('k'), 1, 0) == 0)]"
        self.assertEqual(self.outside(code), [True, 1])
        self.assertEqual(self.inside(code + "\nlock(fd, 2, 0)\nvalue.append(children(1, lambda n: lock(own('k'), 1, 0) == 0))"), [True, 0, 1])

    def test_a_table_that_lies(self):
        """init reads the worker's table, which code can write: neither init nor the locks of other processes end by that."""
        value = self.inside(LIES)
        self.assertEqual([given for given, *_ in value[:5]], [True, True, True, False, False])
        self.assertEqual([row[1:] for row in value[:5]], [["taken\n", True]] * 5)
        self.assertEqual(value[5:9], ["EBADF"] * 4)
        self.assertEqual(value[9:], [["taken\n", True]] * 2)

    def test_processes_that_wait(self):
        """Each gets its lock when it is free, and a process that is killed while it waits keeps none from it."""
        self.assertEqual(self.inside(WAITERS), [-9] * 10 + [0] * 30)

    def test_calls_beside_those_that_wait(self):
        """41. A hundred calls that wait cost the others little: they are tried when one may continue, or each 10 ms."""
        ratio, ended = self.inside(BESIDE)
        self.assertEqual(ended, [0] * 100)
        self.assertLess(ratio, 12)

    def test_an_end_of_the_worker(self):
        """Locks of a process that has ended do not stop the next one."""
        self.inside("value = lock(own('e'), fcntl.F_WRLCK, 0)")
        self.cell("import os; os._exit(3)")
        self.assertEqual(self.inside("value = lock(own('e'), fcntl.F_WRLCK, 0)"), 0)


@harness.once
class Sockets(rawmcp.ServerCase):
    CONFIG = {"network": "loopback"}

    def test_a_file_that_init_closes(self):
        """41. init closes each file that it has looked at, also the last time: no socket makes close() wait. The control: outside, one does."""
        outside = subprocess.run([harness.PYTHON, "-c", f"{TOOLS}{LINGER}\nprint(value)"], capture_output=True, text=True, check=False, timeout=harness.PATIENCE)
        self.assertEqual(outside.stdout, "True\n", outside.stderr)
        self.assertIs(self.value(f"{TOOLS}{LINGER}\nvalue", timeout=60), False)


host = {}
exec(TOOLS + HOST_LOCKS, host)  # pylint: disable=exec-used
KINDS = ("fcntl", "flock")


@unittest.skipIf(harness.ROOT, "as root, no mount can be writable, and so none has locks")
class HostLocks(harness.Case):
    """A mount with "locks"."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.place)
        os.chmod(cls.place, 0o755)
        for name in ("shared", "plain"):
            os.mkdir(f"{cls.place}/{name}")
            with open(f"{cls.place}/{name}/file", "w", encoding="ascii") as f:
                f.write("x")
        shared, plain = f"{cls.place}/shared", f"{cls.place}/plain"
        cls.mounts = [{"source": shared, "target": "/shared", "mode": "rw", "locks": True}, {"source": plain, "target": "/plain", "mode": "rw"},
                      {"source": shared, "target": "/again", "mode": "rw"}, {"source": shared, "target": "/workspace/ro"}]

    def setUp(self):
        super().setUp()
        self.server = rawmcp.RawServer("--config", self.config(mounts=self.mounts))
        self.addCleanup(self.server.free)
        self.server.initialize()

    def inside(self, code, session="default"):
        cell = self.server.cell(f"folder = '/shared'\n{TOOLS}{HOST_LOCKS}{code}\nvalue", 120, session=session, timeout=100)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"]["json"]

    def open(self, name):
        fd = host["open_in"](f"{self.place}/{name}")
        self.addCleanup(os.close, fd)
        return fd

    def test_both_ways(self):
        """41. Each kind excludes the host, and is excluded by it. The control is the mount without the key, where none does."""
        for kind in KINDS:
            with self.subTest(kind):
                a, b = self.open("shared/file"), self.open("plain/file")
                code = f"f, p = open_in('/shared/file'), open_in('/plain/file')\nvalue = [take[{kind!r}](f), take[{kind!r}](p), take[{kind!r}](p, True)]"
                refused = {"fcntl": ["ENOLCK"] * 2, "flock": ["ENOLCK", 0]}[kind]
                self.assertEqual(self.inside(code), [0, *refused])
                self.assertEqual((host["take"][kind](a), host["take"][kind](b)), ("EAGAIN", 0))
                self.assertEqual(self.inside(f"value = [free[{kind!r}](f), take[{kind!r}](f, True)]"), [0, 0])
                self.assertEqual((host["take"][kind](a), host["take"][kind](a, True)), ("EAGAIN", 0))
                self.assertEqual(self.inside(f"value = [take[{kind!r}](f), free[{kind!r}](f)]"), ["EAGAIN", 0])
                for theirs in (kind, "open file") if kind == "fcntl" else (kind,):
                    self.assertEqual(host["take"][theirs](a), 0)
                    self.assertEqual(self.inside(f"value = [take[{kind!r}](f), take[{kind!r}](f, True)]"), ["EAGAIN"] * 2)
                    host["free"][theirs](a)
                host["free"][kind](b)

    def test_ranges(self):
        """41. Of several processes: the host gets exactly the bytes that none of them has."""
        a = self.open("shared/ranges")
        self.inside("""
f = open_in("/shared/ranges")
def hold(*ranges):
    pid = os.fork()
    if pid == 0:
        g = open_in("/shared/ranges")
        ok = [lock(g, *r) for r in ranges] == [0] * len(ranges)
        os.write(w, b"y" if ok else b"n")
        time.sleep(60); os._exit(0)
    return os.read(r, 1) == b"y" and pid
r, w = os.pipe()
one, two = hold((R, 10, 30)), hold((R, 20, 30), (W, 100, 0))
value = [lock(f, R, 15, 20), lock(f, W, 60, 5), lock(f, U, 0, 60)]""")
        test = lambda start, kind="W", length=1: host["lock"](a, host[kind], start, length) == 0
        self.assertEqual([test(s) for s in (9, 10, 25, 49, 50, 60, 65, 99, 100, 1 << 40)], [True, False, False, False, True, False, True, True, False, False])
        self.assertTrue(test(10, "R", 40))
        host["lock"](a, host["U"], 0, 0)
        self.inside("os.kill(one, 9); os.waitpid(one, 0); value = 0")
        self.assertTrue(harness.wait_until(lambda: test(10, length=10)))
        self.assertFalse(test(20))
        self.inside("os.kill(two, 9); os.waitpid(two, 0); value = lock(f, U, 0, 0)")
        self.assertTrue(harness.wait_until(lambda: test(0, length=0)))

    def test_waiting(self):
        """41. F_SETLKW and a waiting flock() get the lock when the host frees it; init serves other calls meanwhile."""
        self.inside("value = 0")
        for kind, call in ("fcntl", "lock(f, W, 0, 1, 7)"), ("flock", "fcntl.flock(f, E)"):
            with self.subTest(kind):
                a, were_served = self.open("shared/waiting"), []
                self.assertEqual(host["take"][kind](a), 0)

                def free(a=a, kind=kind, were_served=were_served):
                    were_served.append(harness.wait_until(lambda: os.path.exists(f"{self.place}/shared/{kind}-served")))
                    host["free"][kind](a)

                program = threading.Thread(target=free)
                program.start()
                waited, others, value = self.inside(f"""
import threading
f, g, others = open_in("/shared/waiting"), open_in("/workspace/o"), []
def use_others():
    time.sleep(0.5)
    others.extend(lock(g, W, i) for i in range(200))
    os.close(open_in("/shared/{kind}-served"))
t = threading.Thread(target=use_others)
began = time.monotonic(); t.start()
value = {call}
waited = time.monotonic() - began; t.join()
value = [waited, others == [0] * 200, value or 0]""")
                program.join()
                self.assertEqual((were_served, others, value), ([True], True, 0))
                self.assertGreater(waited, 0.4)
                self.inside(f"value = free[{kind!r}](f)")

    def test_other_program_is_told(self):
        """F_GETLK names the host's range, and no process of it."""
        a = self.open("shared/told")
        self.assertEqual(host["lock"](a, fcntl.F_WRLCK, 7, 4), 0)
        got = self.inside("""
b = ctypes.create_string_buffer(struct.pack("hhqqi4x", W, 0, 0, 100, 0))
libc.fcntl(open_in("/shared/told"), fcntl.F_GETLK, b)
value = [*struct.unpack("hhqqi4x", b.raw[:32])]""")
        self.assertEqual(got[:4], [fcntl.F_WRLCK, 0, 7, 4])
        self.assertLessEqual(got[4], 0)

    def test_two_sessions(self):
        """41. Two sessions with the same mount exclude each other, and the end of one frees what it had."""
        for kind in KINDS:
            with self.subTest(kind):
                self.assertEqual(self.inside(f"f = open_in('/shared/two'); value = take[{kind!r}](f)", "one"), 0)
                self.assertEqual(self.inside(f"f = open_in('/shared/two'); value = take[{kind!r}](f)", "two"), "EAGAIN")
                self.server.cell("1", session="one", reset=True)
                end = time.monotonic() + 10
                while (got := self.inside(f"value = take[{kind!r}](f)", "two")) != 0 and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertEqual(got, 0)
                self.inside(f"value = free[{kind!r}](f)", "two")

    def test_what_ends_them(self):
        """41. A killed process, a closed file, an executed program without the file, the worker's end, and the session's end."""
        hold = """
def hold(kind):
    (r, w), (wait, go) = os.pipe(), os.pipe()
    p = os.fork()
    if p == 0:
        f = open_in("/shared/ends"); take[kind](f); os.write(w, b"x"); os.read(wait, 1); os.execv("/bin/sleep", ["sleep", "100"])
    os.read(r, 1)
    return p, go
"""
        for kind in KINDS:
            a = self.open("shared/ends")
            gone = lambda a=a, kind=kind: host["take"][kind](a) == 0 and host["free"][kind](a) == 0
            for what, begin, end in (("killed", f"{hold}p, go = hold({kind!r})", "os.kill(p, 9); os.waitpid(p, 0)"),
                                     ("executed", f"{hold}p, go = hold({kind!r})", "os.write(go, b'x')"), ("closed", f"f = open_in('/shared/ends'); take[{kind!r}](f)", "os.close(f)"),
                                     ("worker", f"f = open_in('/shared/ends'); take[{kind!r}](f)", None), ("session", f"f = open_in('/shared/ends'); take[{kind!r}](f)", "")):
                with self.subTest(kind=kind, what=what):
                    self.inside(f"{begin}\nvalue = 0")
                    self.assertFalse(gone())
                    if end:
                        self.inside(f"{end}\nvalue = 0")
                    elif end is None:
                        self.server.cell("os._exit(3)")
                    else:
                        self.server.cell("1", reset=True)
                    self.assertTrue(harness.wait_until(gone))

    def test_a_mount_that_loses_them(self):
        """41. When the config takes the key away, a session that has the mount ends, and its locks with it."""
        a = self.open("shared/lost")
        self.assertEqual(self.inside("f = open_in('/shared/lost'); value = take['fcntl'](f)"), 0)
        self.assertEqual(host["take"]["fcntl"](a), "EAGAIN")
        self.config(mounts=[{**mount, "locks": False} for mount in self.mounts])
        self.assertTrue(harness.wait_until(lambda: "a mount less" in self.server.cell("1").get("notice", "")))
        self.assertTrue(harness.wait_until(lambda: host["take"]["fcntl"](a) == 0))
        host["free"]["fcntl"](a)
        self.assertEqual(self.inside("f = open_in('/shared/lost'); value = [take['fcntl'](f), take['flock'](f)]"), ["ENOLCK"] * 2)

    def held(self):
        """How many locks of files in the mount the kernel has. Others lock meanwhile, so that the list can have one twice."""
        device = os.stat(self.place).st_dev
        ours = {f"{os.major(device):02x}:{os.minor(device):02x}:{e.inode()}" for e in os.scandir(f"{self.place}/shared")}
        with open("/proc/locks", encoding="ascii") as f:
            return len({line.split(maxsplit=1)[1] for line in f if line.split()[-3] in ours})

    def test_bounds(self):
        """41. 256 byte ranges in 64 files at one time, of all processes together, also beside 2,000 locks of the session's own files; then ENOLCK,
        and the hint names the bound. flock() counts with the session's own."""
        taken = self.inside(RECORDS.replace("own(", "open_in('/workspace/' + ") + """
own = take(0, 20, 100)
fds = [open_in(f"/shared/b{i}") for i in range(80)]
value = [lock(f, W, 0, 3) for f in fds]
byte = 4
while (e := lock(fds[0], W, byte)) == 0: byte += 2
# The middle would leave two.
value = [own, value.count(0), value.count("ENOLCK"), byte // 2 + 62, e, lock(fds[1], U, 1), lock(fds[1], U, 0), flock(fds[1], E)]""")
        self.assertEqual(taken[:3] + taken[4:], [2000, 64, 16, "ENOLCK", "ENOLCK", 0, 0])
        self.assertIn(taken[3], range(250, 257))
        self.assertIn(self.held(), range(250, 258))
        self.assertIn("256 of them byte ranges", self.server.cell("fcntl.lockf(fds[0], E | fcntl.LOCK_NB, 1, byte)")["error"]["message"])
        self.server.cell("1", reset=True)
        self.assertTrue(harness.wait_until(lambda: self.held() == 0))
        total = self.inside("value = children(16, lambda n: sum(lock(open_in(f'/shared/o{n % 4}'), W, 1000 * n + 3 * j) == 0 for j in range(60)))")
        self.assertIn(total, range(250, 257))
        self.assertTrue(harness.wait_until(lambda: self.held() == 0))
        self.inside(HIDDEN.replace("own(", "open_in('/shared/' + ") + "\nhide(16, map_files)\nvalue = 0")
        self.assertIn(self.held(), range(1000, 4097))

    def test_others_keep_theirs(self):
        """41. While three sessions have all the locks of the host's files that they can, and change them, another session's flock() works as without."""
        spin = """
f, end = open_in(f"/shared/{NAME}"), time.monotonic() + 60
if os.fork() == 0:
    while time.monotonic() < end:
        for i in range(100): lock(f, W, 2 * i)
        lock(f, U, 0, 0)
value = 0"""
        for name in "xyz":
            taken = self.inside(f"NAME = {name!r}\nf = open_in('/shared/held' + NAME)\nvalue = [lock(f, W, 2 * i) for i in range(300)].count(0)", name)
            self.assertIn(taken, range(250, 257))
            if name != "x":
                self.inside(f"lock(f, U, 200, 0){spin}", name)
        check_flock(self)

    def test_nothing_else(self):
        """41. No lock on anything but files opened by that mount, although another mount shows the same files: not the image, device nodes,
        sockets, FIFOs, a mount without the key."""
        found = self.inside("""
import select, socket
os.mkfifo("/shared/fifo") if not os.path.exists("/shared/fifo") else 0
files = {"image": os.open(os.__file__, os.O_RDONLY), "null": os.open("/dev/null", os.O_RDWR), "plain": open_in("/plain/file"), "again": open_in("/again/file"),
         "read-only": os.open("/workspace/ro/file", os.O_RDONLY), "fifo": os.open("/shared/fifo", os.O_RDWR), "socket": socket.socketpair()[0].detach(),
         "epoll": select.epoll().fileno(), "directory": os.open("/plain", os.O_RDONLY), "path": os.open("/shared/file", os.O_PATH)}
value = {}
for name, f in files.items():
    kinds = [R, W] if name not in ("image", "read-only", "directory") else [R]
    value[name] = [flock(f, E), flock(f, S), *[lock(f, k, 0) for k in kinds]]""")
        self.assertEqual(self.inside("value = [ofd(open_in('/shared/file'), W, command=c) for c in (36, 37, 38)]"), ["EINVAL"] * 3)
        for name, got in found.items():
            with self.subTest(name):
                self.assertEqual({e for e in got if e != 0} - {"ENOLCK", "EINVAL", "EBADF"}, set())
                self.assertNotEqual(got[0], 0)
        for name in ("shared/file", "plain/file"):
            a = self.open(name)
            for kind in KINDS:
                self.assertEqual((host["take"][kind](a), host["free"][kind](a)), (0, 0))

    def test_an_exchanged_descriptor(self):
        """41. While threads exchange a descriptor of the mount with one of another, the host never meets a lock of the other file."""
        a = self.open("plain/file")
        with meetings(lambda: [kind for kind in KINDS if host["take"][kind](a) != 0 or host["free"][kind](a) != 0]) as met:
            self.assertGreater(self.inside(f"target, seconds = '/plain/file', 3\n{EXCHANGE}"), 0)
        self.assertEqual(met, [])

    def test_a_table_that_lies(self):
        """A table that the worker's SQLite could have cannot take a lock of the host's file, nor keep one that a process has released."""
        a = self.open("shared/file")
        self.assertEqual(host["lock"](a, fcntl.F_WRLCK, 0), 0)
        got = self.inside(TABLE + """
s = os.stat("/shared/file")
entry = struct.pack("QQqqiiii", s.st_dev, s.st_ino, 0, 99, os.getpid(), open_in("/shared/file"), R, 1)
memory = table(os.getpid(), 0, 0, entry)
value = give(memory)[0]
struct.pack_into("I", memory, 44, 1)
value = [value, lock(open_in("/workspace/x"), W, 0), lock(open_in("/shared/file"), R, 0)]
def use(n):
    f = open_in("/shared/file")
    return [lock(f, R, 50), lock(f, U, 50)] == [0, 0]
value.append(children(1, use))""")
        self.assertEqual(got, [0, 0, "EAGAIN", 1])
        self.assertEqual(host["lock"](a, fcntl.F_WRLCK, 50), 0)

    def test_sqlite(self):
        """A session commits 1,000 rows, in both kinds of journal, while the host reads and writes the same database."""
        for mode in ("wal", "delete"):
            with self.subTest(mode):
                path = f"{self.place}/shared/{mode}.db"
                c = sqlite3.connect(path, timeout=60, check_same_thread=False)
                c.execute(f"pragma journal_mode={mode}")
                c.execute("create table t(a, b)")
                c.commit()

                def use(c=c):
                    n = c.execute("select count(*) from t where b = 'in'").fetchone()[0]
                    c.execute("insert into t values(1, 'out')")
                    c.commit()
                    return [n]

                with meetings(use, 0.02) as seen:
                    self.inside(f"""
c = sqlite3.connect("/shared/{mode}.db", timeout=60)
c.execute("pragma synchronous=off")
for i in range(1000):
    c.execute("insert into t values(?, 'in')", (i,)); c.commit()
c.close()
value = 0""")
                c.close()
                c = sqlite3.connect(path)
                self.assertEqual(c.execute("select count(*), count(distinct a) from t where b = 'in'").fetchone(), (1000, 1000))
                self.assertEqual(c.execute("pragma integrity_check").fetchone(), ("ok",))
                self.assertEqual(seen, sorted(seen))
                self.assertGreater(c.execute("select count(*) from t where b = 'out'").fetchone()[0], 10)
                # A transaction of one excludes a writer of the other.
                c.execute("begin immediate")
                busy = f"c = sqlite3.connect('/shared/{mode}.db', timeout=0)\ntry: c.execute('begin immediate'); value = 'free'\nexcept sqlite3.OperationalError as e: value = str(e)"
                self.assertEqual(self.inside(busy), "database is locked")
                c.rollback()
                self.assertEqual(self.inside(busy), "free")
                with self.assertRaises(sqlite3.OperationalError):
                    sqlite3.connect(path, timeout=0).execute("begin immediate")
                self.inside("c.rollback(); c.close(); value = 0")
                c.close()


if __name__ == "__main__":
    harness.main()
