"""Classes 45 to 67: system calls. Each refusal is compared with the same call outside, in a user namespace of the test."""

import ctypes
import errno
import itertools
import json
import os
import signal
import subprocess
import unittest

import harness
import rawmcp

X86 = os.uname().machine == "x86_64"
# A pointer that cannot be read, and a number that is not a descriptor, process or command. With them no call has an effect.
BAD, NO = 1, -2
BIT32, BIT63 = 1 << 32, 1 << 63
REFUSED = {errno.EPERM, errno.ENOSYS}

PROBE = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def errno_of(number, *arguments):
    arguments = [a - (1 << 64) if a >> 63 == 1 else a for a in arguments]
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1 else 0
def in_child(function, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            status = function(*arguments)
        except BaseException:
            status = 255
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def number(call):
    """The number of a system call on this machine."""
    found = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(call.encode())
    assert found >= 0, call
    return found


def outside(code, *, prefix=("unshare", "--user")):
    """The value of code in a user namespace of its own, without a filter."""
    done = subprocess.run([*prefix, harness.PYTHON, "-c", f"{PROBE}{code}\nprint(json.dumps(value))"], capture_output=True,
                          timeout=60, check=True)
    return json.loads(done.stdout)


class Kernel(rawmcp.ServerCase):
    """System calls that the kernel allows or refuses in a sandbox without settings."""

    def both(self, code):
        """(inside, outside)"""
        return self.inside(code), outside(code)

    def inside(self, code):
        return self.value(f"{PROBE}{code}\njson.loads(json.dumps(value))")

    def calls(self, table):
        """{name: (errno inside, errno outside)} of {name: (call, arguments…)}."""
        numbers = {name: (number(call), *arguments) for name, (call, *arguments) in table.items()}
        inside, control = self.both(f"value = {{name: errno_of(*call) for name, call in {numbers}.items()}}")
        return {name: (inside[name], control[name]) for name in table}

    def check_refused(self, table, code, absent=()):
        """Inside, all calls fail with this error. Outside, they fail with another error or succeed. `absent`: calls that this kernel may lack."""
        for name, (inside, control) in self.calls(table).items():
            self.assertEqual(inside, code, name)
            if name not in absent or control != errno.ENOSYS:
                self.assertNotIn(control, REFUSED, name)

    def test_joining_a_namespace(self):
        """45. The sandbox's own ones, too; outside, a process that has none of the privileges gets EPERM for other reasons."""
        kinds = "user pid mnt net ipc uts cgroup time".split()
        code = f"""
def join(kind):
    return errno_of({number("setns")}, os.open(f"/proc/self/ns/{{kind}}", os.O_RDONLY), 0)
value = {{kind: in_child(join, kind) for kind in {kinds} if os.path.exists(f"/proc/self/ns/{{kind}}")}}
"""
        inside = self.inside(code)
        self.assertEqual(set(inside.values()), {errno.EPERM})
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--net", harness.PYTHON, "-c", f"{PROBE}{code}\nprint(json.dumps(value))"],
                              capture_output=True, timeout=60, check=True)
        self.assertEqual(json.loads(done.stdout)["net"], 0)

    def test_io_uring(self):
        """46."""
        self.check_refused({"setup": ("io_uring_setup", 1, BAD), "enter": ("io_uring_enter", NO, 0, 0, 0, 0, 0),
                            "register": ("io_uring_register", NO, 0, 0, 0)}, errno.ENOSYS)

    def test_userfaultfd(self):
        """47."""
        self.check_refused({"userfaultfd": ("userfaultfd", 0xFF)}, errno.ENOSYS)
        self.assertFalse(self.value("import os; os.path.exists('/dev/userfaultfd')"))

    def test_bpf_and_perf(self):
        """48 and 49. Where the kernel allows bpf() to root only, only root has a control: the host's own."""
        self.check_refused({"perf_event_open": ("perf_event_open", 0, 0, 0, 0, 0xFFFF)}, errno.EPERM)
        bpf = ("bpf", 0, 0, 8192)
        with open("/proc/sys/kernel/unprivileged_bpf_disabled", encoding="ascii") as f:
            reserved = f.read() != "0\n"
        if not reserved:
            self.check_refused({"bpf": bpf}, errno.EPERM)
        else:
            self.assertEqual(self.calls({"bpf": bpf})["bpf"][0], errno.EPERM)
            if harness.ROOT:
                self.assertEqual(outside(f"value = errno_of({number('bpf')}, 0, 0, 8192)", prefix=()), errno.E2BIG)

    def test_what_only_root_may(self):
        """50. The kernel also refuses these calls without a capability. The policy's table tells which refusals come from the filter."""
        table = {name: (name, BAD, NO, NO, NO) for name in (
            "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "swapon", "swapoff", "reboot", "acct", "quotactl",
            "syslog", "settimeofday", "clock_settime", "adjtimex", "sethostname", "setdomainname", "pivot_root", "chroot", "mount", "umount2")}
        if X86:
            table |= {"iopl": ("iopl", 4), "ioperm": ("ioperm", 1, 0, 1)}
        found = self.calls(table)
        self.assertEqual({inside for inside, _ in found.values()}, {errno.EPERM}, found)
        # Before it asks for a privilege, the kernel reads these arguments.
        self.assertTrue({"chroot", "mount", "adjtimex"} <= {name for name, (_, control) in found.items() if control == errno.EFAULT}, found)

    def test_numa(self):
        """51."""
        self.check_refused({"set_mempolicy": ("set_mempolicy", 99, 0, 0), "get_mempolicy": ("get_mempolicy", BAD, BAD, 0, 0, 99),
                            "mbind": ("mbind", 1, 1, 99, 0, 0, 99), "move_pages": ("move_pages", 0, 1, BAD, BAD, BAD, 0xFF),
                            "migrate_pages": ("migrate_pages", 0, NO, BAD, BAD)}, errno.ENOSYS,
                           absent=("set_mempolicy", "get_mempolicy", "mbind", "move_pages", "migrate_pages"))

    def test_fanotify(self):
        """52."""
        self.check_refused({"mark": ("fanotify_mark", NO, 0xFFFF, 0, NO, 0)}, errno.EPERM, absent=("mark",))
        self.assertEqual(self.calls({"init": ("fanotify_init", 0, 0)})["init"][0], errno.EPERM)

    def test_old_calls(self):
        """53. personality can turn address randomisation off, modify_ldt was the way to several bugs."""
        table = {"personality": ("personality", 0xFFFFFFFF)}
        if X86:
            table["modify_ldt"] = ("modify_ldt", 0, 0, 0)
        self.check_refused(table, errno.EPERM)
        others = self.calls({name: (name, NO, BAD, 0) for name in ("lookup_dcookie", "vhangup", "uselib", "nfsservctl") if X86 or name != "uselib"})
        self.assertEqual({inside for inside, _ in others.values()}, {errno.EPERM}, others)

    def test_memory_calls(self):
        """54."""
        self.check_refused({"process_madvise": ("process_madvise", NO, BAD, 1, 0, 0), "memfd_secret": ("memfd_secret", 0xFF),
                            "remap_file_pages": ("remap_file_pages", 1, 0, 0, 0, 0)}, errno.ENOSYS, absent=("memfd_secret",))

    def test_system_v_and_message_queues(self):
        """55. With sizes of zero and keys that do not exist."""
        self.check_refused({"shmget": ("shmget", 0, 0, 0o1600), "semget": ("semget", 0, 0, 0o1600), "msgget": ("msgget", 0x7EA5E1, 0),
                            "shmat": ("shmat", NO, 0, 0), "semop": ("semop", NO, BAD, 0), "msgsnd": ("msgsnd", NO, BAD, 0, 0),
                            "mq_open": ("mq_open", BAD, 0, 0, 0), "mq_unlink": ("mq_unlink", BAD)}, errno.ENOSYS)

    def test_clone3(self):
        """59."""
        self.check_refused({"clone3": ("clone3", 0, 0)}, errno.ENOSYS)

    def test_calls_that_are_newer_than_the_filter(self):
        """60. From 424 on, numbers are the same on all architectures."""
        allowed = {424, 434, 436, 437, 439, 441, 449, 452, 453, 454, 455, 456, 462}
        numbers = [*range(424, 700), 1000, 5000, 0x3FFFFFFF]
        inside, control = self.both(f"value = {{n: errno_of(n, {NO}, {BAD}, {BAD}, 0xffff, {BAD}, 0xffff) for n in {numbers} if n != 435}}")
        there = {int(n) for n, error in control.items() if error != errno.ENOSYS} - allowed
        self.assertGreater(len(there), 8, "the control: this kernel has calls that the filter does not know")
        others = {int(n): error for n, error in inside.items() if int(n) not in allowed}
        mounts = {428, 429, 430, 431, 432, 433, 442}  # open_tree … fspick, mount_setattr
        self.assertEqual({n for n, error in others.items() if error != errno.ENOSYS} - mounts, set())
        self.assertEqual({error for n, error in others.items() if n in mounts} - REFUSED, set())

    FAMILIES = """
def opened(number, families, types, protocols, bits):
    found = []
    for family in families:
        for type in types:
            for protocol in protocols:
                for bit in bits:
                    fd = libc.syscall(ctypes.c_long(number), ctypes.c_long(family | bit), ctypes.c_long(type | bit), ctypes.c_long(protocol | bit))
                    if fd >= 0:
                        os.close(fd)
                        found.append((family, type, protocol, bit))
    return found
"""
    TYPES, PROTOCOLS = (1, 2, 3, 4, 5, 10), (0, 1, 6, 17, 33, 115, 132, 136, 255, 262)

    def families(self):
        return f"{self.FAMILIES}value = opened({number('socket')}, range(47), {self.TYPES}, {self.PROTOCOLS}, (0, {BIT32}))"

    def test_socket_families(self):
        """56 and 58."""
        inside, control = self.both(self.families())
        self.assertEqual({tuple(f) for f in inside}, {(1, t, 0, bit) for t in (1, 2, 5) for bit in (0, BIT32)})
        self.assertTrue({(2, 1, 0, 0), (2, 1, 6, BIT32), (16, 3, 0, 0)} <= {tuple(f) for f in control}, "the control")
        pairs = self.inside(f"value = [f for f in range(47) for t in (1, 2, 5) if errno_of({number('socketpair')}, f, t, 0, {BAD}) == {errno.EFAULT}]")
        self.assertEqual(set(pairs), {1})

    @unittest.skipUnless(X86, "x86-64")
    def test_foreign_calls(self):
        """57. 32-bit calls in code that the process maps itself, and x32's numbers."""
        code = f"""
import mmap
def int80():
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))  # mov $20, %eax; int $0x80; ret: getpid of 32-bit programs
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return 0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() else 1
def native():
    return errno_of({number("getpid")})
value = [in_child(f) for f in (int80, lambda: errno_of({0x40000000 | number("getpid")}), lambda: errno_of({0x40000000 | 512}), native)]
"""
        inside, control = self.both(code)
        self.assertEqual(inside, [-signal.SIGSYS] * 3 + [0])
        self.assertEqual(control[3], 0)
        self.assertNotIn(-signal.SIGSYS, control)

    def test_high_bits(self):
        """58. The kernel reads 32 bits of these arguments: the upper bits do not change which values are refused."""
        refused = {"ioctl TIOCSTI": ("ioctl", NO, 0x5412, 0), "setsockopt TCP_ULP": ("setsockopt", NO, 6, 31, 0, 0),
                   "prctl SET_DUMPABLE": ("prctl", 4, 99, 0, 0, 0), "sendto MSG_OOB": ("sendto", NO, 0, 0, 1, 0, 0)}
        allowed = {"ioctl FIONREAD": ("ioctl", NO, 0x541B, 0), "setsockopt SO_REUSEADDR": ("setsockopt", NO, 1, 2, 0, 0),
                   "sendto": ("sendto", NO, 0, 0, 0, 0, 0)}
        at = {"ioctl": (2,), "setsockopt": (2, 3), "prctl": (1,), "sendto": (4,)}
        for table, is_refused in (refused, True), (allowed, False):
            wide = {f"{name} {n} {bit:x}": (*call[:n], call[n] | bit, *call[n + 1:])
                    for name, call in table.items() for n in at[call[0]] for bit in (0, BIT32, BIT63, BIT32 | BIT63)}
            for name, (inside, control) in self.calls(wide).items():
                self.assertEqual(inside in REFUSED | {errno.EOPNOTSUPP}, is_refused, (name, inside))
                self.assertIn(control, (errno.EBADF, errno.EINVAL), name)

    def test_flags_of_messages(self):
        """62."""
        code = """
import socket
def flags(call, flag):
    a, b = socket.socketpair()
    try:
        if call == "send":
            return a.send(b"x", flag) and 0
        if call == "sendmsg":
            return a.sendmsg([b"x"], [], flag) and 0
        b.send(b"y"); a.setblocking(False)
        return len(a.recv(1, flag) if call == "recv" else a.recvmsg(1, 0, flag)[0]) - 1
    except OSError as error:
        return error.errno
value = {f"{call} {flag:x}": flags(call, flag) for call in ("send", "sendmsg", "recv", "recvmsg") for flag in (0, 1, 0x4000000)}
"""
        inside, control = self.both(code)
        for name, error in inside.items():
            self.assertEqual(error, 0 if name.endswith(" 0") else errno.EOPNOTSUPP, name)
        self.assertEqual(control["send 0"], 0)
        if control["send 1"]:
            self.assertEqual(control["send 1"], errno.EOPNOTSUPP, "a kernel without MSG_OOB for AF_UNIX")
        self.assertEqual(control["recv 4000000"], 0)

    def test_ioctls(self):
        """63. A request that reaches the kernel finds a descriptor that is not open."""
        requests = [*range(0x5400, 0x5500), *range(0x8900, 0x8A00), 0x80045430, 0x40045431, 0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D,
                    0x40049409, 0xC0189436, 0x80086601, 0x40086602, 0x5331, 0x1268, 0x40081271, 0xC0045878, 0xAF00, 0xAE01, 0x4B3A, 0x541C]
        code = f"value = [r for r in {requests} if errno_of({number('ioctl')}, {NO}, r, 0) == {errno.EBADF}]"
        inside, control = self.both(code)
        self.assertEqual(set(control), set(requests))
        passed = set(inside)
        self.assertEqual(len(passed), 32)
        self.assertTrue({0x541B, 0x5421, 0x5401} <= passed)
        self.assertFalse({0x5412, 0x541C, 0x8914, 0x8946, 0x40049409, 0x40086602} & passed)

    def test_socket_options(self):
        """64."""
        pairs = list(itertools.product((0, 1, 6, 17, 41, 58, 132, 136, 255, 263, 270, 278, 282, 284), range(96)))
        code = f"value = [errno_of({number('setsockopt')}, {NO}, level, option, 0, 0) for level, option in {pairs}]"
        inside, control = self.both(code)
        self.assertEqual(set(control), {errno.EBADF})
        passed = {pair for pair, error in zip(pairs, inside) if error == errno.EBADF}
        self.assertEqual(len(passed), 25)
        # SO_SNDBUF, SO_RCVBUF, SO_OOBINLINE and SO_LINGER change nothing.
        self.assertEqual({pair for pair, error in zip(pairs, inside) if error == 0}, {(1, 7), (1, 8), (1, 10), (1, 13)})
        # TCP_ULP, TCP_REPAIR, SO_ATTACH_FILTER, SO_ZEROCOPY, SO_BINDTODEVICE, SO_PEEK_OFF, IPT_SO_SET_REPLACE, MCAST_MSFILTER
        self.assertFalse({(6, 31), (6, 19), (1, 26), (1, 60), (1, 25), (1, 42), (0, 64), (0, 48)} & passed)

    def test_prctl(self):
        """65. With arguments that no operation accepts, each in a child."""
        operations = [*range(1, 80), 0x53564D41, 0x59616D61]
        code = f"value = {{op: in_child(errno_of, {number('prctl')}, op, -1, -1, -1, -1) for op in {operations}}}"
        inside, control = self.both(code)
        passed = {int(op) for op, error in inside.items() if error not in REFUSED}
        self.assertEqual(passed, {1, 2, 3, 15, 16, 21, 23, 29, 30, 36, 37, 38, 39, 41, 0x53564D41})
        self.assertGreater(len([op for op, error in control.items() if error not in REFUSED and int(op) not in passed]), 10)

    def test_filters_of_a_session(self):
        """61 and 67. Two filters, and none can be added, so that none can be a listener."""
        status = self.value("dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if line.startswith('Secc'))")
        self.assertEqual((status["Seccomp"], status["Seccomp_filters"]), ("2", "2"))
        found = self.calls({"seccomp": ("seccomp", 1, 0xFFFF, BAD), "PR_SET_SECCOMP": ("prctl", 22, 99, BAD, 0, 0)})
        for name, (inside, control) in found.items():
            self.assertIn(inside, REFUSED, name)
            self.assertEqual(control, errno.EINVAL, name)


class Loopback(Kernel):
    """The same with a loopback network: TCP and UDP, and nothing else, is added."""

    CONFIG = {"profiles": {"default": {"network": "loopback"}}}

    def test_socket_families(self):
        """56 and 58."""
        inside = {tuple(f) for f in self.inside(self.families())}
        unix = {(1, t, 0, bit) for t in (1, 2, 5) for bit in (0, BIT32)}
        internet = {(f, t, p, bit) for f in (2, 10) for t, p in ((1, 0), (1, 6), (2, 0), (2, 17)) for bit in (0, BIT32)}
        if not os.path.exists("/proc/net/if_inet6"):
            internet = {i for i in internet if i[0] == 2}
        self.assertEqual(inside, unix | internet)


# The other tests do not depend on the network.
for name in [n for n in dir(Kernel) if n.startswith("test_") and n != "test_socket_families"]:
    setattr(Loopback, name, None)

if __name__ == "__main__":
    harness.main()
