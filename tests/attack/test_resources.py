"""Classes 68 to 87: resources. Every attack is bounded, so that a limit that does not hold cannot harm the machine."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import harness
import rawmcp

MIB = 1 << 20
LIMIT = 128  # MiB of each session here
MOST = 3 * LIMIT  # MiB that an attack takes if nothing stops it
# Where no control group stops it at the limit, the monitor looks a little later.
SLACK = 160

# Maps memory by mmap(2) itself: CPython's mmap has no flags of its own choice.
INSIDE = f"""
import ctypes, errno, mmap, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
READ, WRITE, SHARED, PRIVATE, ANON, GROWS, POPULATE = 1, 2, 1, 2, 0x20, 0x100, 0x8000
MOST, MIB = {MOST}, {MIB}

def fail():
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def take(size, flags, protection=READ | WRITE, fd=-1):
    at = libc.mmap(None, size, protection, flags, fd, 0)
    if at == ctypes.c_void_p(-1).value:
        fail()
    return at

children = []

def child(what):
    # A process that does something and stays.
    ready = os.pipe()
    pid = os.fork()
    if pid > 0:
        children.append(pid)
    else:
        try:
            what()
            os.write(ready[1], b'+')
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(ready[1])
    done = os.read(ready[0], 1)
    os.close(ready[0])
    return done

def taken(mib):
    print('taken', mib, flush=True)
"""


class Case(rawmcp.ServerCase):
    CONFIG = {"limits": {"memory": f"{LIMIT}M"}}

    def attack(self, code, **arguments):
        arguments.setdefault("timeout", 30)
        return self.cell(INSIDE + code, wait=60, **arguments)

    def held(self, code, ends=("oom", "error"), **arguments):
        """An attack prints what it has taken: the session ends, or the attack gets an error, near the limit."""
        cell = self.attack(code, **arguments)
        mib = max(map(int, re.findall(r"taken (\d+)", cell.get("stdout", ""))), default=0)
        self.assertLessEqual(mib, LIMIT + SLACK, cell)
        self.assertIn(cell["status"], ends, cell)
        # The control: another session goes on, and so does a new one of the same name.
        self.assertEqual(self.value("1 + 1", session="elsewhere"), 2)
        self.assertEqual(self.value("2 + 2"), 4)
        return cell


class Memory(Case):
    """68, 69."""

    def setUp(self):
        super().setUp()
        self.assertEqual(self.value("1", session="elsewhere"), 1)

    def test_python_objects(self):
        self.held("""
kept = []
for i in range(0, MOST, 8):
    kept.append(b'x' * (8 * MIB))
    taken(i + 8)
""")

    def test_one_mapping(self):
        self.held("take(MOST * MIB, PRIVATE | ANON | POPULATE)\ntaken(MOST)")

    def test_children(self):
        """Each below the limit: only their sum is above."""
        cell = self.held("""
kept = []
for i in range(0, MOST, 32):
    child(lambda: kept.append(bytearray(32 * MIB)))
    taken(32 * sum(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in children if os.path.exists(f'/proc/{pid}')))
""", ends=("oom", "ok"))
        if cell["status"] == "oom":
            self.assertIn("out of memory", cell["notice"])
        else:  # the control group killed the children
            self.assertLessEqual(cell["peak_memory_bytes"], LIMIT * MIB)

    def test_memfd(self):
        """A file of no file system, written and not mapped."""
        self.held("""
fd = os.memfd_create('m')
part = b'x' * (4 * MIB)
for i in range(0, MOST, 4):
    os.write(fd, part)
    taken(i + 4)
""")

    def test_shared_mapping(self):
        self.held("""
for i in range(0, MOST, 16):
    take(16 * MIB, SHARED | ANON | POPULATE)
    taken(i + 16)
""")

    def test_shared_mapping_of_a_device(self):
        self.held("""
fd = os.open('/dev/zero', os.O_RDWR)
for i in range(0, MOST, 16):
    take(16 * MIB, SHARED | POPULATE, READ | WRITE, fd)
    taken(i + 16)
""")

    def test_dev_zero_reads_zeros(self):
        self.assertEqual(self.value("open('/dev/zero', 'rb').read(9).hex()"), "00" * 9)

    def test_memory_made_read_only(self):
        """RLIMIT_DATA counts what can be written."""
        self.held("""
for i in range(0, MOST, 16):
    at = take(16 * MIB, PRIVATE | ANON | POPULATE)
    if libc.mprotect(at, 16 * MIB, READ):
        fail()
    taken(i + 16)
""")

    def test_mapping_that_grows_down(self):
        """RLIMIT_DATA counts none that is a stack."""
        self.held("""
for i in range(0, MOST, 16):
    take(16 * MIB, PRIVATE | ANON | POPULATE | GROWS)
    taken(i + 16)
""")

    def test_page_tables(self):
        """82. Of pages that are all the zero page: no process has memory, only tables of 4 KiB for every 2 MiB."""
        self.held("""
size = MOST * 256 * 2 * MIB
at = take(size, PRIVATE | ANON | 0x4000, READ)
libc.madvise.argtypes = libc.munmap.argtypes + [ctypes.c_int]
libc.madvise(at, size, 15)
for i in range(MOST * 256):
    ctypes.string_at(at + i * 2 * MIB, 1)
    if i % 4096 == 4095:
        taken((i + 1) // 256)
""")

    def test_memory_that_is_shared_is_counted_once(self):
        """The control: ten children of a process with a third of the limit, which all see it, are no attack."""
        self.ok(INSIDE + f"""
kept = b'x' * ({LIMIT // 3} * MIB)
assert all(child(lambda: sum(kept[::4096])) == b'+' for _ in range(10))
time.sleep(0.3)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
""", timeout=30)

    def test_programs_started_by_a_big_process(self):
        """The control: until it execs, a program has the memory of the process that started it."""
        self.ok(INSIDE + f"""
import subprocess
kept = b'x' * ({LIMIT * 2 // 3} * MIB)
end = time.monotonic() + 1
while time.monotonic() < end:
    subprocess.run(['/bin/true'])
""", timeout=30)


class Files(Case):
    """69 to 71, 87."""

    def test_bytes(self):
        """69, 71. All that is written together is at most half of the memory limit, and the session lives."""
        written = self.value("""
import os
sizes = {}
for place in ('/tmp', '/workspace', '/dev/shm'):
    with open(f'{place}/big', 'wb', buffering=0) as f:
        try:
            while sizes.get(place, 0) < 1 << 29:
                sizes[place] = sizes.get(place, 0) + f.write(b'x' * (1 << 20))
        except OSError as e:
            assert e.errno == 28, e
    os.unlink(f'{place}/big')
    open(f'{place}/again', 'w').write('x')
sizes
""", timeout=30)
        self.assertEqual(set(written), {"/tmp", "/workspace", "/dev/shm"})
        self.assertLessEqual(sum(written.values()), LIMIT * MIB // 2)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_inodes(self):
        """70."""
        made, why = self.value("""
n = 0
try:
    while n < 100000:
        os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError as e:
    why = e.errno
import shutil
for i in range(n):
    os.unlink(f'/tmp/{i}')
open('/tmp/again', 'w').write('x')
[n, why]
""".replace("n = 0", "import os\nn = 0", 1), timeout=30)
        self.assertEqual(why, 28)
        self.assertLess(made, 20000)

    def test_synced_writes(self):
        """84. Nothing inside is on a disk: the host's own fsync does not wait for it."""
        def synced():
            with tempfile.TemporaryFile(dir="/var/tmp") as f:
                f.write(b"x" * 4096)
                f.flush()
                start = time.monotonic()
                os.fsync(f.fileno())
                return time.monotonic() - start

        idle = max(synced() for _ in range(5))
        self.ok("1")
        pending = self.server.start_call("""
import os, time
fd = os.open('/tmp/f', os.O_CREAT | os.O_WRONLY)
end = time.monotonic() + 1
while time.monotonic() < end:
    os.pwrite(fd, b'x' * (1 << 20), 0)
    os.fsync(fd)
""", session=self.session)
        busy = max(synced() for _ in range(5))
        self.assertEqual(pending.result(30)["structuredContent"]["status"], "ok")
        self.assertLess(busy, idle * 10 + 0.25)

    def test_sync(self):
        """87."""
        code = "import ctypes, errno\nl = ctypes.CDLL(None, use_errno=True)\n[l.syscall(n, 0) and errno.errorcode[ctypes.get_errno()] for n in ({}, {})]"
        sync, syncfs = {"x86_64": (162, 306), "aarch64": (81, 267)}[os.uname().machine]
        self.assertEqual(self.value(code.format(sync, syncfs)), ["ENOSYS", "ENOSYS"])
        # The control, of one file.
        self.ok("import os\nwith open('/tmp/f', 'w') as f: os.fsync(f.fileno())")


# What a process of the same host uid does once, while sessions hold all that they can get.
OUTSIDE = """
import array, ctypes, mmap, os, resource, select, signal, socket, struct, tempfile, fcntl
libc = ctypes.CDLL(None, use_errno=True)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))

def must(r):
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r

def inotify():
    fd = must(libc.inotify_init1(0))
    must(libc.inotify_add_watch(fd, b'/', 2))

def descriptors_in_flight():
    a, b = socket.socketpair()
    a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 8))])
    b.recvmsg(1, 1024)

def pipes():
    ends = os.pipe()
    os.write(ends[1], b'x' * 4096)

def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    info = ctypes.c_long(1)
    must(libc.sigqueue(os.getpid(), signal.SIGRTMIN, info))

def timers():
    event, timer = (ctypes.c_int * 16)(), ctypes.c_void_p()
    event[2], event[3] = signal.SIGUSR1, 1  # SIGEV_NONE
    must(libc.timer_create(1, event, ctypes.byref(timer)))

def locked_memory():
    part = mmap.mmap(-1, 4096)
    must(libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(part))), 4096))

def epoll():
    ends = os.pipe()
    select.epoll().register(ends[0])

def locks():
    with tempfile.TemporaryFile() as f:
        fcntl.lockf(f, fcntl.LOCK_EX)

def processes():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

for operation in (inotify, descriptors_in_flight, pipes, signals, timers, locked_memory, epoll, locks, processes):
    try:
        operation()
    except OSError as e:
        print(operation.__name__, e)
"""

# Each takes as much of one kernel object as the kernel gives, keeps it, and returns (how much, errno).
TAKERS = INSIDE + """
import array, fcntl, select, threading
kept = []

def until(make, most):
    for n in range(most):
        try:
            kept.append(make())
        except OSError as e:
            return n, errno.errorcode[e.errno]
    return most, None

def must(r):
    if r < 0:
        fail()
    return r

def inotify_instances():
    return until(lambda: must(libc.inotify_init1(0)), 200)

def descriptors_in_flight():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    kept.extend((a, b))
    some = array.array('i', [0] * 253)
    def send():
        s = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        s[0].setblocking(False)
        s[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
        return s
    n, why = until(send, 100)
    return n * 253, why

def pipes():
    # In several processes: each has its own limit of descriptors.
    def fill():
        made = []
        try:
            while len(made) < 600:
                made.append(os.pipe())
                os.set_blocking(made[-1][1], False)
                os.write(made[-1][1], b'x' * 65536)
        except OSError:
            os.close(made[-1][0])
    return sum(child(fill) == b'+' for _ in range(6)), None

def pending_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    return until(lambda: must(libc.sigqueue(os.getpid(), signal.SIGRTMIN, ctypes.c_long(1))), 5000)

def timers():
    def make():
        event, timer = (ctypes.c_int * 16)(), ctypes.c_void_p()
        event[2], event[3] = signal.SIGRTMIN + 1, 1
        must(libc.timer_create(1, event, ctypes.byref(timer)))
    return until(make, 5000)

def locked_memory():
    def lock():
        at = take(MIB, PRIVATE | ANON)
        return must(libc.mlock(ctypes.c_void_p(at), MIB))
    return until(lock, 64)

def epoll_watches():
    def watch():
        ends = [os.dup(0) for _ in range(100)]
        pipe = os.pipe()
        for _ in range(100):
            e = select.epoll()
            kept.append(e)
            for fd in [os.dup(pipe[0]) for _ in range(1)]:
                e.register(fd)
    return until(watch, 20)

def locks():
    fd = os.open('/tmp/locks', os.O_CREAT | os.O_RDWR)
    kept.append(fd)
    return until(lambda: fcntl.lockf(fd, fcntl.LOCK_EX, 1, 2 * len(kept)), 3000)

def processes():
    def sleep():
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        return pid
    return until(sleep, 400)
"""


def own_pid(pid):
    """(how many pid namespaces deeper than this one, pid in the deepest)."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            pids = next(line.split()[1:] for line in f if line.startswith("NSpid"))
    except OSError:
        return None
    return len(pids), int(pids[-1])


class PerUser(Case):
    """79. Objects that the kernel counts for a user: of a session, several sessions, and the host's own processes."""

    def outside(self):
        done = subprocess.run([sys.executable, "-c", OUTSIDE], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual((done.stdout, done.stderr), ("", ""), "outside")

    def take(self, name, session=None):
        session = session or self.session
        self.addCleanup(self.ok, "1", session=session, reset=True)
        cell = self.ok(f"{TAKERS}\nlist({name}())", session=session, timeout=30)
        return cell["value"]["json"]

    def test_the_control(self):
        self.outside()

    def test_every_limit_of_this_kernel_is_set(self):
        """The limits of the session's own user namespace, read in it from outside, beside those of the host."""
        self.ok("1")
        pids = harness.descendants(self.server.process.pid)
        worker = max((pid for pid in pids if own_pid(pid) == (3, 2)), default=None)
        self.assertIsNotNone(worker, "no worker")
        code = """
import ctypes, json, os, sys
def limits():
    return {name: int(open('/proc/sys/user/' + name).read()) for name in os.listdir('/proc/sys/user')}
host = limits()
if ctypes.CDLL(None, use_errno=True).setns(os.open(f'/proc/{sys.argv[1]}/ns/user', os.O_RDONLY), 0x10000000):
    sys.exit(os.strerror(ctypes.get_errno()))
print(json.dumps([host, limits()]))
"""
        done = subprocess.run([sys.executable, "-c", code, str(worker)], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.stderr, "")
        host, session = json.loads(done.stdout)
        self.assertEqual(session, dict.fromkeys(host, 0))
        self.assertGreater(min(host.values()), 0)

    def test_inotify_instances(self):
        taken = [self.take("inotify_instances", f"inotify-{n}") for n in range(3)]
        self.assertEqual(taken, [[0, "EMFILE"]] * 3)
        self.outside()

    def test_descriptors_in_flight(self):
        taken = [self.take("descriptors_in_flight", f"flight-{n}") for n in range(3)]
        self.assertGreater(taken[0][0], 0)
        self.assertEqual({why for _, why in taken}, {"ETOOMANYREFS"}, taken)
        if not harness.ROOT:
            self.assertLess(sum(n for n, _ in taken), 1024)
        self.outside()

    def test_pipes(self):
        self.assertEqual(self.take("pipes")[0], 6)
        self.outside()

    def test_pending_signals(self):
        n, why = self.take("pending_signals")
        self.assertEqual(why, "EAGAIN")
        self.assertLessEqual(n, 256)
        self.outside()

    def test_timers(self):
        n, why = self.take("timers")
        self.assertEqual(why, "EAGAIN")
        self.assertLessEqual(n, 256)
        self.outside()

    def test_locked_memory(self):
        n, why = self.take("locked_memory")
        self.assertIn(why, ("ENOMEM", "EAGAIN", "EPERM"))
        self.assertLessEqual(n, 8)
        self.outside()

    def test_epoll(self):
        n, why = self.take("epoll_watches")
        self.assertEqual(why, "EMFILE")
        self.outside()

    def test_file_locks(self):
        self.take("locks")
        self.outside()

    def test_processes(self):
        n, why = self.take("processes")
        self.assertEqual(why, "EAGAIN")
        self.assertLess(n, 128)
        self.assertGreater(n, 100)
        # The limit is that of one session, not of all with the same host id.
        self.assertEqual(self.take("processes", "another"), [n, why])
        self.outside()


if __name__ == "__main__":
    harness.main()
