"""Class 79 and related classes: kernel objects that are counted per user."""

import json
import subprocess
import sys

import harness
from resources import INSIDE, Case

# Run once by a process of the same host uid, while sessions hold as many resources as they can get.
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


class PerUser(Case):
    """79. Objects that the kernel counts per user: those of a session, several sessions, and the host's own processes."""

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
        """Compares the limits of the session's user namespace, read from outside, with those of the host."""
        worker = self.worker()
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
        if self.shares_uid():
            self.assertLess(sum(n for n, _ in taken), 1024)
        self.outside()

    def test_descriptors_in_flight_all_at_once(self):
        """Many processes send at the same moment, so that each may be checked before the others have sent."""
        self.addCleanup(self.ok, "1", session=self.session, reset=True)
        sent = self.value(TAKERS + """
gate = os.pipe()
results = os.pipe()
def send():
    some = array.array('i', [0] * 253)
    pairs = [socket.socketpair() for _ in range(4)]
    os.read(gate[0], 1)
    n = 0
    try:
        for a, b in pairs:
            a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
            n += 1
    except OSError:
        pass
    os.write(results[1], bytes([n]))
    time.sleep(60)
for _ in range(60):
    if os.fork() == 0:
        send()
os.write(gate[1], b'g' * 60)
n = 0
for _ in range(60):
    n += os.read(results[0], 1)[0]
n * 253
""", timeout=30)
        self.assertGreater(sent, 0)
        if self.shares_uid():
            self.assertLess(sent, 1024)
        self.outside()

    def test_pipes(self):
        self.assertEqual(self.take("pipes")[0], 6)
        self.outside()

    def test_sizes_of_pipes(self):
        """The output pipes belong to the monitor: when 32 sessions enlarged them, the monitor's user got only pipes of 8 KiB."""
        code = """
import fcntl, os
def size(fd):
    try: return fcntl.fcntl(fd, 1031, 1 << 20)
    except OSError as e: return e.errno
r, w = os.pipe()
"""
        self.assertEqual(self.value(code + "[size(1), size(2), size(w), fcntl.fcntl(1, 1032) <= 1 << 16]"), [1, 1, 1, True])
        found = {}
        exec(code, found)  # pylint: disable=exec-used
        self.addCleanup(found["os"].close, found["r"])
        self.addCleanup(found["os"].close, found["w"])
        self.assertEqual(found["size"](found["w"]), 1 << 20, "the control")

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
