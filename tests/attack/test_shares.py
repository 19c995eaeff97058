"""Class 135: what two sessions share. A sender changes each thing, or leaves it, by random bits; a receiver looks. Through an exact channel no
bit may arrive. Ways that the kernel does not let Cloister close are in docs/threat-model.md with the bits a second that arrive here.

The control is the same two programs outside of any sandbox, where the bits arrive.
"""

import errno
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
import unittest
import uuid

import harness
import outer_filter
import rawmcp

BITS = 200
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "threat-model.md")
NAME = f"shares-{uuid.uuid4().hex}"

# {what is shared: (what both begin with, body of send(bit), body of look(), which returns a number)}
CLOSED = {
    "times of a device node": (
        "last = [0]",
        "if bit: os.utime('/dev/null')",
        "n = os.stat('/dev/null').st_mtime_ns; d, last[0] = n - last[0], n; return d > 0",
    ),
    "lock of a device node": (
        "import fcntl\nnode = os.open('/dev/zero', os.O_RDONLY)",
        "fcntl.flock(node, fcntl.LOCK_EX if bit else fcntl.LOCK_UN)",
        "fcntl.flock(node, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(node, fcntl.LOCK_UN); return 1",
    ),
    "lock of a file of the image": (
        "import fcntl\nnode = os.open(os.__file__, os.O_RDONLY)",
        "fcntl.flock(node, fcntl.LOCK_EX if bit else fcntl.LOCK_UN)",
        "fcntl.flock(node, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(node, fcntl.LOCK_UN); return 1",
    ),
    "number of sockets that were made": (
        # The kernel counts on each processor.
        "import socket, struct\nlast = [0]\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
        "for _ in range(40 * bit): socket.socket(socket.AF_UNIX).getsockopt(1, 57, 8)",
        "n = struct.unpack('Q', socket.socket(socket.AF_UNIX).getsockopt(1, 57, 8))[0]; d, last[0] = n - last[0], n; return d",
    ),
    "files of /tmp, /dev/shm and /workspace": (
        f"places = [p for p in ('/tmp', '/dev/shm', '/workspace') if os.path.isdir(p)]\ndef names(): return [p + '/{NAME}' for p in places]",
        "for name in names():\n        if bit: open(name, 'w').close()\n        elif os.path.exists(name): os.unlink(name)",
        "return sum(map(os.path.exists, names()))",
    ),
    "abstract names of sockets": (
        "import socket\nkept = []",
        f"kept.clear()\n    if bit: kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)); kept[0].bind('\\0{NAME}')",
        f"return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect_ex('\\0{NAME}')",
    ),
    "processes and threads of the machine (sysinfo)": (
        "import struct, threading\ngo = []",
        "for go_on in go: go_on.set()\n    go.clear()\n    for _ in range(many * bit): go.append(threading.Event()); threading.Thread(target=go[-1].wait, daemon=True).start()",
        "b = ctypes.create_string_buffer(112); libc.sysinfo(b); return struct.unpack_from('H', b, 80)[0]",
    ),
}

# The name of each is that of its row in docs/threat-model.md.
STAYS = {
    "numbers of eventfds (/proc/PID/fdinfo)": (
        "kept = []",
        "[os.close(fd) for fd in kept]; kept.clear(); kept.extend(os.eventfd(0) for _ in range(8 * bit))",
        "fd = os.eventfd(0); n = int(open(f'/proc/self/fdinfo/{fd}').read().split('eventfd-id:')[1].split()[0]); os.close(fd); return n",
    ),
    "inodes of pipes and sockets": (
        "last = [0]\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
        "for _ in range(60 * bit): [os.close(fd) for fd in os.pipe()]",
        "r, w = os.pipe(); n = os.fstat(r).st_ino; os.close(r); os.close(w); d, last[0] = n - last[0], n; return d",
    ),
    "inodes of pidfds": (
        "last = [0]",
        "for _ in range(4 * bit):\n        pid = os.fork()\n        if pid == 0: os._exit(0)\n        os.waitpid(pid, 0)",
        "pid = os.fork()\n    if pid == 0: os._exit(0)\n    fd = os.pidfd_open(pid); n = os.fstat(fd).st_ino; os.close(fd); os.waitpid(pid, 0); d, last[0] = n - last[0], n; return d",
    ),
    "numbers of groups of processes (/proc/PID/autogroup)": (
        "last = [0]",
        "for _ in range(4 * bit):\n        pid = os.fork()\n        if pid == 0: os.setsid(); os._exit(0)\n        os.waitpid(pid, 0)",
        "r, w = os.pipe(); pid = os.fork()\n    if pid == 0:\n        os.setsid(); os.write(w, open('/proc/self/autogroup', 'rb').read()); os._exit(0)\n"
        "    n = int(os.read(r, 99).split(b'-')[1].split()[0]); os.close(r); os.close(w); os.waitpid(pid, 0); d, last[0] = n - last[0], n; return d",
    ),
    "mappings of a page of the image (smaps, numa_maps)": (
        "import mmap\nf = open(os.__file__, 'rb')\nkept = []",
        "[m.close() for m in kept]; kept.clear()\n    for _ in range(bit): kept.append(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)); kept[0][0]",
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); m[0]; t = open('/proc/self/smaps').read().split(f.name)[-1].split('Pss:')[1].split()[0]; m.close(); return int(t)",
    ),
    "waiters at a page of the image (futex)": (
        "import threading\ncall = lambda *a: libc.syscall(*map(ctypes.c_long, (%d, *a)))\n"
        "at = [int(l.split('-')[0], 16) for l in open('/proc/self/maps') if ' r-xp ' in l and '/' in l][0]\n"
        "time_out = (ctypes.c_long * 2)(0, 16000000)" % outer_filter.number("futex"),
        "if bit: call(at, 0, ctypes.c_int.from_address(at).value, ctypes.addressof(time_out), 0, 0)",
        "return call(at, 1, 1 << 20, 0, 0, 0)",
    ),
}

# Where a profile has a network.
STAYS_NETWORK = {
    "TCP sockets of the machine (/proc/PID/net/sockstat)": (
        "import socket\nkept = []",
        "[k.close() for k in kept]; kept.clear(); kept.extend(socket.socket() for _ in range(8 * bit))",
        "return int(open('/proc/self/net/sockstat').read().split('alloc ')[1].split()[0])",
    ),
    "packets that the machine's processors have received (/proc/PID/net/softnet_stat)": (
        "import socket\nlast = [0]\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))\nto = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "for _ in range(40 * bit): to.sendto(b'', s.getsockname())\n    try:\n        while True: s.recv(1, socket.MSG_DONTWAIT)\n    except OSError: pass",
        "n = sum(int(line.split()[0], 16) for line in open('/proc/self/net/softnet_stat')); d, last[0] = n - last[0], n; return d",
    ),
}

HEAD = """
import ctypes, json, os, random, time
libc = ctypes.CDLL(None, use_errno=True)
{begin}
def send(bit):
    {send}
def look():
    {look}
bits, many = random.Random({seed}).choices((0, 1), k={count}), {many}
def wait(at):
    time.sleep(max(0, at - time.time()))
def safely(f, *args):
    try:
        return f(*args)
    except OSError:
        return -1
"""
SENDER = HEAD + """
for i, bit in enumerate(bits):
    wait({start} + i * {slot})
    safely(send, bit)
wait({start} + {count} * {slot})
safely(send, 0)
"""
RECEIVER = HEAD + """
seen = []
for i in range(len(bits)):
    wait({start} + (i + 0.7) * {slot})
    seen.append(safely(look))
print(json.dumps(seen))
"""


def agreement(bits, seen):
    """Which part of the bits a receiver gets right that knows both kinds of sight; 0.5 is guessing."""
    kinds = [[value for bit, value in zip(bits, seen) if bit == kind] for kind in (0, 1)]
    low, high = map(statistics.median, kinds)
    if low == high:  # rare differences: whether a sight is unusual
        usual = [value == low for value in seen]
        right = sum(u == (not bit) for u, bit in zip(usual, bits)) / len(bits)
        return max(right, 1 - right)
    return sum((abs(value - high) < abs(value - low)) == bool(bit) for value, bit in zip(seen, bits)) / len(bits)


def capacity(part, slot):
    """Bits a second of a binary symmetric channel."""
    wrong = min(max(1 - part, 1e-9), 0.5)
    return (1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong)) / slot if wrong < 0.5 else 0


class Channels(rawmcp.ServerCase):
    def codes(self, channel, slot, many=24):
        begin, send, look = channel
        seed = random.randrange(1 << 30)
        values = {"begin": begin, "send": send, "look": look, "seed": seed, "slot": slot, "count": BITS, "many": many, "start": time.time() + 0.5 * harness.SLOW}
        return random.Random(seed).choices((0, 1), k=BITS), SENDER.format(**values), RECEIVER.format(**values)

    def between_sessions(self, channel, slot):
        for name in ("sender", "receiver"):
            self.ok("import ctypes, json, os, random, time, socket, mmap, threading, fcntl, struct", session=name)
        bits, sender, receiver = self.codes(channel, slot)
        calls = [self.server.start_call(code, session=name, timeout=60) for code, name in ((sender, "sender"), (receiver, "receiver"))]
        cells = [call.result(90)["structuredContent"] for call in calls]
        self.assertEqual([cell["status"] for cell in cells], ["ok", "ok"], cells)
        return agreement(bits, json.loads(cells[1]["stdout"]))

    def outside(self, channel, slot):
        bits, sender, receiver = self.codes(channel, slot, many=120)  # the machine has processes of other tests
        with subprocess.Popen([sys.executable, "-c", sender]) as process:
            seen = subprocess.run([sys.executable, "-c", receiver], stdout=subprocess.PIPE, check=True, timeout=90).stdout
            self.assertEqual(process.wait(90), 0)
        return agreement(bits, json.loads(seen))

    def are_written_down(self, channels):
        with open(PAGE, encoding="utf-8") as f:
            page = f.read()
        for name, channel in channels.items():
            with self.subTest(name):
                self.assertIn(f"| {name} |", page)
                rates = {slot: capacity(self.between_sessions(channel, slot), slot) for slot in ((0.02, 0.005, 0.001) if harness.WHOLE else (0.001,))}
                print(f"{name}: {max(rates.values()):.0f} bit/s", file=sys.stderr)


@harness.once
class Network(Channels):
    CONFIG = {"network": "loopback"}

    def test_what_stays_is_written_down(self):
        self.are_written_down(STAYS_NETWORK)


class Shares(Channels):
    def test_what_is_closed(self):
        """A receiver that guesses has half of the bits, and more than 65 % of 200 in one of 50,000 runs."""
        for name, channel in CLOSED.items():
            with self.subTest(name):
                self.assertLess(self.between_sessions(channel, 0.004), 0.65)
                self.assertTrue(harness.wait_until(lambda c=channel: self.outside(c, 0.03 * harness.SLOW) > 0.8, 90), "control")

    def test_sysinfo_is_of_the_session(self):
        """Each value, asked by the interpreter, a thread, a child and another program, by addresses that are not writable too."""
        code = """
import ctypes, os, struct, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def ask():
    b = ctypes.create_string_buffer(b"\\xff" * 128, 128)
    return [libc.sysinfo(b), *struct.unpack_from("q3Q6QHxx4x2QI", b)]
answers = [ask()]
thread = threading.Thread(target=lambda: answers.append(ask()))
thread.start(); thread.join()
r, w = os.pipe()
if os.fork() == 0:
    os.write(w, repr(ask()).encode()); os._exit(0)
answers.append(eval(os.read(r, 4096)))
os.wait()
program = "import os; print([os.sysconf('SC_PHYS_PAGES'), os.sysconf('SC_AVPHYS_PAGES')])"
pages = eval(subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout)
refused = [[libc.sysinfo(ctypes.c_void_p(at)), ctypes.get_errno()] for at in (0, 8, ctypes.cast(libc.sysinfo, ctypes.c_void_p).value, 1 << 63)]
[answers, [n * os.sysconf("SC_PAGESIZE") for n in pages], refused]
"""
        answers, pages, refused = self.value(code)
        memory = 512 << 20
        for returned, uptime, *values in answers:
            self.assertEqual((returned, values), (0, [0, 0, 0, memory, memory, 0, 0, 0, 0, 1, 0, 0, 1]))
            self.assertLess(uptime, 600)
        self.assertEqual(pages, [memory, memory])
        self.assertEqual(refused, [[-1, errno.EFAULT]] * 4)

    def test_host_id(self):
        """A session's own id does not tell how many others live, as the lowest free one would."""
        ids = [self.value("int(open('/proc/self/uid_map').read().split()[1])", session=f"id{i}") for i in range(8)]
        if len(set(ids)) > 1:  # else all have the owner's
            self.assertEqual(len(set(ids)), 8, ids)
            self.assertGreater(max(ids) - min(ids), 64, ids)

    def test_what_stays_is_written_down(self):
        self.are_written_down(STAYS)

    def test_numbers_of_a_new_session(self):
        """The kernel takes numbers that it gives a session at its start from counters of the machine."""
        with open(PAGE, encoding="utf-8") as f:
            self.assertIn("| numbers that a new session gets: of mounts (mountinfo), namespaces, devices of file systems |", f.read())
        bits = random.choices((0, 1), k=BITS // 8)
        look = "int(open('/proc/self/mountinfo').read().split()[0])"
        seen, began = [], time.monotonic()
        for bit in bits:
            self.ok("1", session="lower", reset=True)
            if bit:
                self.ok("1", session="lower2", reset=True)
            seen.append(self.value(look, session="looks", reset=True))
        slot = (time.monotonic() - began) / len(bits)
        print(f"numbers of a new session: {capacity(agreement(bits, seen), slot):.0f} bit/s, at most {1 / slot:.0f}", file=sys.stderr)


# The kernel's own sockets in a network namespace have numbers that those of no other namespace get.
OWN_NUMBER = "open('/proc/self/net/netlink').read().split()[-1]"
FREEZER = "/sys/fs/cgroup/freezer"

# Of sessions that follow each other in one network namespace: {what could be left in it: (what both begin with, body of send(), body of look(),
# where the control shows a difference: "inside" the sender's session, or in a namespace "outside" in which the code has capabilities)}.
LEFT = {
    "abstract names": ("", f"kept.append(socket.socket(socket.AF_UNIX)); kept[0].bind('\\0{NAME}'); kept[0].listen()",
                       f"return socket.socket(socket.AF_UNIX).connect_ex('\\0{NAME}')", "inside"),
    "names that the kernel chooses": ("", "for _ in range(30): kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind('')",
                                      "s = socket.socket(socket.AF_UNIX); s.bind(''); return int(s.getsockname()[1:], 16)", None),
    "sockets in flight": ("", "for _ in range(30): pass_on(socket.socket(socket.AF_UNIX).detach())", "return text('unix').count('\\n')", "inside"),
    "descriptors in flight": ("", "pass_on(os.open('/proc/self/ns/net', os.O_RDONLY)); pass_on(os.open('/proc/self/net/unix', os.O_RDONLY))",
                              "return text('sockstat')[:20]", "inside"),
    "a socket that another process has": ("", "pair = socket.socketpair()\n    if os.fork() == 0: os.setsid(); time.sleep(60)\n    [end.close() for end in pair]",
                                          "return text('sockstat')[:20]", "inside"),
    "counters": ("", "raise_counters()", "return [safely(lambda: text(n)) for n in counters]", "outside"),
    "sysctl": ("", "open('/proc/sys/net/ipv4/ip_default_ttl', 'w').write('99')", "return text('snmp').splitlines()[1].split()[2]", "outside"),
    "length of queues": ("", "open('/proc/sys/net/unix/max_dgram_qlen', 'w').write('3')", "return queue()", "outside"),
    "interfaces": ("", "up('lo')", "return text('if_inet6'), text('dev_mcast'), socket.if_nameindex()", "outside"),
    "routes": ("", "up('lo')", "return [text(n) for n in ('route', 'ipv6_route', 'fib_trie', 'rt6_stats')]", "outside"),
    "lock of the namespace's file": ("import fcntl", "kept.append(os.open('/proc/self/ns/net', os.O_RDONLY)); fcntl.flock(kept[0], fcntl.LOCK_EX)",
                                     "fcntl.flock(os.open('/proc/self/ns/net', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB); return 1", None),
    "times of the namespace's file": ("", "kept.append(os.open('/proc/self/ns/net', os.O_RDONLY)); os.utime('/proc/self/ns/net')",
                                      "n = os.stat('/proc/self/ns/net'); return max(n.st_ctime, n.st_mtime, n.st_atime) < began - 0.01", None),
    "cookies and diagnosis": ("", "pass_on(socket.socket(socket.AF_UNIX).detach())",
                              "return [error(socket.socket(socket.AF_UNIX).getsockopt, 1, n, 8) for n in (57, 71)], error(socket.socket, 16, 3, 4)", None),
    "number of the namespace": ("", "for _ in range(200): pass_on(socket.socket(socket.AF_UNIX).detach())", "return os.stat('/proc/self/ns/net').st_ino", None),
}
LEFT_HEAD = """
import array, json, os, socket, struct, sys, time
began = time.time()
kept = []
counters = [os.path.join(d, n) for d, _, names in os.walk('/proc/self/net') for n in names
            if n not in ('unix', 'netlink', 'sockstat', 'sockstat6', 'softnet_stat', 'protocols', 'ptype') and 'conntrack' not in n]
def text(name):
    with open(os.path.join('/proc/self/net', name)) as f:
        return f.read()
def error(f, *args):
    try:
        f(*args)
        return 0
    except OSError as e:
        return e.errno
def pass_on(fd):
    # Into the queue of a socket that is itself in a queue: only the kernel's search for such rings frees it.
    one, other = socket.socketpair()
    for sent in fd, one.fileno():
        other.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [sent]))])
    os.close(fd)
    kept.append(other)
def up(name):
    import fcntl
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack('16sH22x', name.encode(), 0x49))
def raise_counters():
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        for _ in range(50):
            one.send(bytes(100))
            other.recv(100)
    up('lo')
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(10):
        s.sendto(b'x', ('127.0.0.1', 9))
def queue():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind('')
    to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    to.setblocking(False)
    n = 0
    while error(to.sendto, b'x', s.getsockname()) == 0: n += 1
    return n
what = {}
"""
LEFT_TAIL = """
def safely(f):
    try:
        return f()
    except OSError as e:
        return -e.errno
bits = BITS
for name, bit in bits.items():
    if bit: safely(what[name][0])
print(json.dumps({"of": text('netlink').split()[-1], "seen": {name: safely(what[name][1]) for name in bits}}))
"""


def left_code(bits):
    """Sends those bits that are 1, and prints what it then sees of each."""
    code = LEFT_HEAD
    for i, name in enumerate(bits):
        begin, send, look, _ = LEFT[name]
        code += f"{begin}\ndef send{i}():\n    {send}\ndef look{i}():\n    {look}\nwhat[{name!r}] = send{i}, look{i}\n"
    return code + LEFT_TAIL.replace("BITS", json.dumps(bits))


class Recycled(rawmcp.ServerCase):
    """A session without a network gets the empty network namespace of an earlier one."""

    CONFIG = {"pool": 0, "state": {"survives": False}, "output": 1000000, "profiles": {"off": {"recycle": False, "agent": True}}}
    ROUNDS = 16

    def run_in(self, bits, session="x"):
        cell = self.server.cell(left_code(bits), session=session, reset=True, wait=harness.PATIENCE)
        self.assertEqual(cell["status"], "ok", cell)
        return json.loads(cell["stdout"])

    def test_nothing_is_left(self):
        """Random bits to the next session in the same namespace, by all of these at once; and none arrives."""
        bits = {name: random.sample([0, 1] * (self.ROUNDS // 2), self.ROUNDS) for name in LEFT}
        seen = {name: [] for name in LEFT}
        same = 0
        for i in range(self.ROUNDS):
            sender = self.run_in({name: bits[name][i] for name in LEFT})
            receiver = self.run_in(dict.fromkeys(LEFT, 0))
            same += sender["of"] == receiver["of"]
            for name, value in receiver["seen"].items():
                seen[name].append(value)
        print(f"{same} of {self.ROUNDS} in the sender's namespace", file=sys.stderr)
        self.assertGreater(same, self.ROUNDS // 2)
        for name in LEFT:
            with self.subTest(name):
                kinds = sorted({json.dumps(value) for value in seen[name]})
                part = agreement(bits[name], [kinds.index(json.dumps(value)) for value in seen[name]])
                self.assertLess(part, 0.9, list(zip(bits[name], seen[name])))
                if LEFT[name][3]:
                    self.assertEqual(len(kinds), 1, kinds)

    def test_control(self):
        """What the receiver looks at does change: inside a session, or where code has capabilities over the namespace."""
        for name in LEFT:
            way = LEFT[name][3]
            with self.subTest(name):
                if way == "inside":
                    self.assertNotEqual(*(self.run_in({name: bit})["seen"][name] for bit in (0, 1)))
                elif way == "outside":
                    self.assertNotEqual(*(self.outside(name, bit) for bit in (0, 1)))

    @staticmethod
    def outside(name, bit):
        begin = "import ctypes\nassert ctypes.CDLL(None).unshare(0x50000000) == 0\n"
        done = subprocess.run([sys.executable, "-c", begin + left_code({name: bit})], stdout=subprocess.PIPE, check=True, timeout=harness.PATIENCE)
        return json.loads(done.stdout)["seen"][name]

    @unittest.skipUnless(harness.ROOT and os.path.isdir(FREEZER), "needs the freezer of control groups of version 1")
    def test_a_process_that_outlives_its_kill(self):
        """No session gets the namespace of another one of which a process lives, however long ago that was killed."""
        group = os.path.join(FREEZER, NAME)
        os.mkdir(group)
        self.addCleanup(lambda: harness.wait_until(lambda: not open(f"{group}/cgroup.procs", encoding="ascii").read()) and os.rmdir(group))
        self.addCleanup(self.write, f"{group}/freezer.state", "THAWED")
        self.ok("1", session="first", reset=True)
        number = self.value(f"import ctypes, os, time\nif os.fork() == 0:\n    ctypes.CDLL(None).prctl(15, b'outlives')\n    time.sleep(600)\n{OWN_NUMBER}", session="first")
        def pids():
            return [pid for pid, found in harness.descendants(self.server.process.pid).items() if found == "outlives"]
        self.assertTrue(harness.wait_until(pids))
        self.write(f"{group}/cgroup.procs", str(pids()[0]))
        self.write(f"{group}/freezer.state", "FROZEN")
        call = self.server.start_call("1", session="first", reset=True)
        for i in range(4):
            self.assertNotEqual(self.value(OWN_NUMBER, session="second", reset=i > 0), number)
        self.assertEqual(len(pids()), 1)
        self.write(f"{group}/freezer.state", "THAWED")
        call.result(harness.PATIENCE)
        # The control: later sessions get it.
        self.assertIn(number, [self.value(OWN_NUMBER, session=f"after{i}") for i in range(3)] + [self.value(OWN_NUMBER, session="first")])

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)

    def test_it_can_be_turned_off(self):
        for profile in "default", "off":
            with self.subTest(profile):
                numbers = {self.value(OWN_NUMBER, session=profile, profile=profile, reset=i > 0) for i in range(4)}
                self.assertEqual(len(numbers) == 4, profile == "off", numbers)


# Mounts an empty file system of FUSE and executes a program. The FUSE server stops reading requests when a file "….silent" is beside the
# directory. It reads none that it does not answer: the process that waits for it could not be killed.
FUSE = r'''
import ctypes, os, select, struct, sys
place, *words = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000) == 0 and libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) == 0
fd = os.open("/dev/fuse", os.O_RDWR)
assert libc.mount(b"silent", place.encode(), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()) == 0, ctypes.get_errno()
if os.fork() > 0:
    os.close(fd)
    os.execv(words[0], words)
libc.prctl(1, 9)
with open("/dev/null") as nothing:
    for n in range(3):
        os.dup2(nothing.fileno(), n)
while True:
    while os.path.exists(place + ".silent") or not select.select([fd], [], [], 0.05)[0]:
        select.select([], [], [], 0.01)
    request = os.read(fd, 1 << 17)
    _, call, unique = struct.unpack_from("<IIQ", request)
    answers = {26: struct.pack("<IIIIHHIIHH8I", 7, 31, 0, 0, 8, 8, 4096, 1, 0, 0, *[0] * 8),
               3: struct.pack("<QII6Q10I", 3600, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0),
               17: struct.pack("<5Q10I", 1000, 900, 900, 50, 40, 4096, 255, 4096, *[0] * 7)}
    body = answers.get(call, b"")
    if call not in (2, 36, 42):
        os.write(fd, struct.pack("<IiQ", 16 + len(body), 0 if body else -38, unique) + body)
'''


class Disk(harness.Case):
    @unittest.skipUnless(harness.ROOT, "only root mounts a file system that others use")
    @unittest.skipUnless(os.path.exists("/dev/fuse"), "the kernel has no FUSE")
    def test_a_file_system_that_does_not_answer(self):
        """statfs() of it waits, and nothing else of the session: neither locks and figures, nor the end."""
        folder = self.path("data")
        os.mkdir(folder)
        os.chmod(self.dir, 0o755)
        server = rawmcp.RawServer("--config", self.config(profiles={"lab": {"agent": True, "mounts": [{"source": folder, "target": "/data"}]}}), cwd=self.dir,
                                  prefix=("/usr/bin/python3", self.write("fuse.py", FUSE), folder))
        self.addCleanup(server.free)
        server.initialize()
        code = """
import fcntl, os, shutil, threading, time
def ask():
    try:
        os.statvfs("/data")
    except OSError as e:
        ended.append(e.errno)
ended = []
before = os.statvfs("/data")
[*before]
"""
        self.assertEqual(server.cell(code, profile="lab")["value"]["json"][:7], [4096, 4096, 1 << 28, 0, 0, 0, 0])
        self.write("data.silent", "")
        time.sleep(0.3)
        code = """
for n in range(10):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(0.5)
began = time.monotonic()
with open("/workspace/file", "w") as f:
    fcntl.flock(f, fcntl.LOCK_EX)
    fcntl.lockf(f, fcntl.LOCK_EX)
    os.fstatvfs(f.fileno())
os.sysconf("SC_PHYS_PAGES"), os.system("true")
[ended, time.monotonic() - began < 5]
"""
        self.assertEqual(server.cell(code, timeout=20)["value"]["json"], [[], True])
        began = time.monotonic()
        cell = server.cell("'before' in globals()", reset=True, profile="default")
        self.assertEqual((cell["value"]["json"], cell["state"]), (False, "new"), cell)
        self.assertLess(time.monotonic() - began, 5 * harness.SLOW)

    def test_free_space_of_the_disk(self):
        folder, mode = self.path("data"), "ro" if harness.ROOT else "rw"
        os.mkdir(folder)
        os.chmod(self.dir, 0o755)
        os.chmod(folder, 0o777)
        server = rawmcp.RawServer("--config", self.config(mounts=[{"source": folder, "target": "/data", "mode": mode}]), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        look = """
import os, shutil
fd = os.open(os.__file__, os.O_RDONLY)
os.chdir("/data")
[[*os.statvfs(place)][:9] for place in ("/", os.__file__, "/data", ".", "//data/.", "/dev", fd)]
"""
        before, free = server.cell(look)["value"]["json"], os.statvfs(folder).f_bfree
        with open(folder + "/large", "wb") as f:
            f.write(os.urandom(1 << 20))
        self.assertNotEqual(free, os.statvfs(folder).f_bfree, "control")
        self.assertEqual(server.cell(look)["value"]["json"], before)
        self.assertEqual(before[0][3:7], [0, 0, 0, 0])
        # A process finds itself in /proc, not init.
        code = """
import threading
os.chdir("/workspace")
files = [open(place) for place in ("/data/other", os.__file__)] + [open("/tmp/own", "w")]
own = [[*os.statvfs(f.fileno())] == [*os.statvfs(place % f.fileno())] for f in files for place in ("/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/dev/fd/%d")]
own + [os.statvfs("/proc/self/cwd") == os.statvfs("."), os.statvfs("/proc/self/root") == os.statvfs("/"), os.statvfs("/proc/self/status") == os.statvfs("/proc")]
"""
        with open(folder + "/other", "wb"):
            pass
        os.chmod(folder + "/other", 0o644)
        self.assertEqual(server.cell(code)["value"]["json"], [True] * 12)
        # The answers about the session's own file systems, and to mistakes, are the kernel's.
        code = """
import ctypes, errno
def error(*args):
    libc = ctypes.CDLL(None, use_errno=True)
    return [libc.statfs(*args), errno.errorcode.get(ctypes.get_errno())]
os.chdir("/workspace")
os.symlink("/tmp", "link")
free = [shutil.disk_usage(place).free for place in ("/workspace", ".", "/tmp", "link", "/dev/shm")]
for place in "/workspace", "/tmp", "/dev/shm":
    with open(place + "/large", "wb") as f: f.write(bytes(1 << 20))
less = [before - shutil.disk_usage(place).free for place, before in zip(("/workspace", ".", "/tmp", "link", "/dev/shm"), free)]
b = ctypes.create_string_buffer(256)
end = ctypes.create_string_buffer(b"/tmp")
[less, shutil.disk_usage("/data").free, error(b"/missing", b), error(b"", b), error(b"/" * 5000, b), error(ctypes.c_void_p(8), b), error(b"/tmp", ctypes.c_void_p(8)),
 error(b"/etc/passwd/x", b), error(end, b)[0], ctypes.CDLL(None, use_errno=True).fstatfs(99, b)]
"""
        less, rest = (found := server.cell(code)["value"]["json"])[0], found[1:]
        self.assertEqual(less, [1 << 20] * 5)
        self.assertEqual(rest, [0 if harness.ROOT else 1 << 40, [-1, "ENOENT"], [-1, "ENOENT"], [-1, "ENAMETOOLONG"], [-1, "EFAULT"], [-1, "EFAULT"], [-1, "ENOTDIR"], 0, -1])


if __name__ == "__main__":
    harness.main()
