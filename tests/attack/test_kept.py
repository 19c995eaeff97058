"""Class 136: what code makes the kernel keep. Each row takes as much of one kind as it gets; the kernel's own figures of memory are read
outside meanwhile. Memory that is not in the session's own figure stays below a bound, or the session ends with `oom`.

The control is one object of the kind, which a session may have.
"""

import time

import harness
from resources import INSIDE, LIMIT, MIB, Case

COUNTED = 16  # MiB that may be taken beside the count of a session
LEAST = 100  # objects that ten processes get of each kind
NOISE = 24  # MiB by which the figures of the machine move by themselves

# {kind: (begin, how one is taken, how many in each process, MiB of these numbers where no control group counts)}. n counts the objects.
KINDS = {
    "mappings": ("", "take(4096, PRIVATE | ANON, READ if n % 2 else READ | WRITE)", 60000, 160),
    "pages of tables": ("at = take(1 << 36, PRIVATE | ANON | 0x4000, READ)", "ctypes.string_at(at + n * (2 << 20), 1)", 30000, 160),
    "descriptors": ("", "os.eventfd(0)", 5000, COUNTED),
    "timerfds": ("", "libc.timerfd_create(1, 0) < 0 and fail()", 5000, COUNTED),
    "epoll sets": ("", "libc.epoll_create1(0) < 0 and fail()", 5000, COUNTED),
    "buffers of files of /proc": ("", "kept.append(os.open('/proc/self/mountinfo', os.O_RDONLY)); os.read(kept[-1], 10)", 5000, 64),
    "signalfds": ("", "libc.signalfd(-1, bytes(128), 0) < 0 and fail()", 5000, COUNTED),
    "owners of open files": ("import fcntl", "kept.append(os.open('/dev/null', os.O_RDONLY)); fcntl.fcntl(kept[-1], fcntl.F_SETOWN, os.getpid())", 5000, COUNTED),
    "names of sockets": ("", "kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(b'\\0%d-%d' % (n, os.getpid()) + b'x' * 80)", 5000, COUNTED),
    "ended processes": ("", "pid = os.fork() or os._exit(0)\n            kept.append((os.pidfd_open(pid), os.open(f'/proc/{pid}/maps', os.O_RDONLY)))\n            os.waitpid(pid, 0)", 100, COUNTED),
    "pipes": ("", "kept.append(os.pipe()); os.set_blocking(kept[-1][1], False); os.write(kept[-1][1], b'x' * 65536)", 2500, 64),
    "epoll watches": ("polls = [os.dup(i) for i in (0, 1)]; import select; all_of = [select.epoll() for _ in range(400)]",
                      "all_of[n % 400].register(kept[n // 400] if n // 400 < len(kept) else (kept.append(os.eventfd(0)), kept[-1])[1])", 30000, 64),
    "timers": ("class ev(ctypes.Structure): _fields_ = [('v', ctypes.c_long), ('signo', ctypes.c_int), ('notify', ctypes.c_int), ('pad', ctypes.c_int * 12)]\nt = ctypes.c_int(0)\nlibc.timer_create.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]",
               "e = ev(0, 34, 1); libc.timer_create(1, ctypes.addressof(e), ctypes.addressof(t)) and fail()", 5000, COUNTED),
    "queued signals": ("signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 60))\nlibc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]",
                       "libc.sigqueue(os.getpid(), 34 + n % 20, None) and fail()", 5000, COUNTED),
    "bytes of AF_UNIX": ("", "kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)); kept[-1][0].setblocking(False); kept[-1][0].send(b'x' * 200000)", 2500, COUNTED),
    "descriptors on their way": ("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM); a.setblocking(False)", "socket.send_fds(a, [b'x'], [0] * 50)", 5000, COUNTED),
    "locks of files": ("import fcntl; kept.extend(open(f'/tmp/lock-{os.getpid()}-{i}', 'w') for i in range(400))",
                       "fcntl.lockf(kept[n % 400], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * (100000 - n))", 60000, COUNTED),
    "names in /tmp": ("", "os.close(os.open(f'/tmp/{n}-{os.getpid()}-' + 'x' * 200, os.O_CREAT | os.O_WRONLY))", 20000, COUNTED),
    "names that are missing": ("", "os.path.exists(f'/usr/{n}-{os.getpid()}-' + 'x' * 200)", 25000, 200),
    "threads": ("import threading", "threading.Thread(target=time.sleep, args=(20,), daemon=True).start()", 1000, COUNTED),
}
CODE = """
import resource
kept, counts = [], os.pipe()
def take_all():
    {begin}
    n = 0
    try:
        while n < {most}:
            {one}
            n += 1
    except (OSError, RuntimeError):
        pass
    os.write(counts[1], b'%d ' % n)
for _ in range({processes}):
    try:
        child(take_all)
    except BlockingIOError:  # all processes that it may have
        break
time.sleep(0.5)
print(sum(map(int, os.read(counts[0], 4096).split())), flush=True)
"""


def kernel():
    """MiB of the kernel that no process has, as /proc tells them."""
    with open("/proc/meminfo", encoding="ascii") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f}
    with open("/proc/net/sockstat", encoding="ascii") as f:
        pages = sum(int(line.split()[line.split().index("mem") + 1]) for line in f if " mem " in line)
    return (kib["Slab"] + kib["KernelStack"] + kib["PageTables"] + 4 * pages) / 1024


class Kept(Case):
    def take(self, kind, processes, most=None):
        begin, one, number, _ = KINDS[kind]
        code = INSIDE + CODE.format(begin=begin.replace("\n", "\n    "), one=one, most=most or number, processes=processes)
        self.ok("1", session="taker")
        before = grown = kernel()
        call = self.server.start_call(code, session="taker", timeout=120)
        while not call.done():
            grown = max(grown, kernel())
            time.sleep(0.05)
        cell = call.result(10)["structuredContent"]
        self.cell("1", session="taker", reset=True)
        return cell, grown - before, (cell.get("peak_memory_bytes") or 0) / MIB

    def test_one_of_each(self):
        for kind in KINDS:
            with self.subTest(kind):
                cell, _, _ = self.take(kind, 1, 1)
                self.assertEqual((cell["status"], cell["stdout"]), ("ok", "1\n"), cell)

    def test_all_processes(self):
        """What the kernel accounts to no control group: the figures of docs/isolation.md. The control: as many processes, with one object each."""
        for kind, bound in ("timerfds", 32), ("epoll sets", 40):
            with self.subTest(kind):
                # The machine's other work is in the figures.
                for last in False, False, True:
                    _, control, _ = self.take(kind, 110, 1)
                    cell, grown, peak = self.take(kind, 110)
                    self.assertTrue(cell["status"] == "oom" or int(cell["stdout"]) >= LEAST, cell)
                    beside = grown - (peak if self.is_counted() else max(0, control))
                    if last or beside < bound + NOISE:
                        break
                self.assertLess(beside, bound + NOISE)

    def test_all_that_a_session_gets(self):
        for kind, (*_, without) in KINDS.items():
            with self.subTest(kind):
                bound = COUNTED if self.is_counted() else without
                for _ in range(3):  # the machine's figures are not the test's alone
                    cell, grown, peak = self.take(kind, 10)
                    if grown - (peak if self.is_counted() else 0) < bound + NOISE or cell["status"] == "oom" and grown < LIMIT + bound + NOISE:
                        break
                else:
                    self.fail(f"{kind}: the kernel has {grown:.0f} MiB more, the session's figure is {peak:.0f} MiB, status {cell['status']}")
                self.assertTrue(cell["status"] == "oom" or int(cell["stdout"]) >= LEAST, cell)
                self.assertEqual(self.value("1 + 1", session="elsewhere"), 2)


if __name__ == "__main__":
    harness.main()
