"""What code in a sandbox can reach: each row is one attempt, with what is expected and what was found.

`cloister doctor --attack` runs it in a sandbox; tests and tests/attack/peers run the same file elsewhere. A line
`EXPECTED = {...}` before it describes the host and the profile (see `main`). Everything is harmless also where it is not refused: calls
have arguments that the kernel itself refuses, files are opened and not written, and what fills up has a bound. It still
runs only where it can see that it is in a sandbox.

Output: lines of fields separated by tabs: "row", class, group, item, expected, found, verdict (held, open or untried); then "end"
and the number of rows.
"""

import errno
import fcntl
import os
import platform
import resource
import signal
import socket
import stat
import time

try:
    import ctypes

    LIBC = ctypes.CDLL(None, use_errno=True)
    LIBC.syscall.restype = ctypes.c_long
except (ImportError, OSError, AttributeError):
    ctypes = LIBC = None

MACHINE = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
BAD, NO = 1, -2  # an address that cannot be read; no process, descriptor or command
REFUSED = (errno.EPERM, errno.ENOSYS, errno.EACCES)
DENIED = "EPERM or ENOSYS"
KEY = 0x7C10F00D
IMAGE_FILES_MAX = 200000

# (class, call, number on x86-64, number on aarch64, arguments with which the kernel itself gives another error)
CALLS = (
    (39, "mount", 165, 40, (BAD, BAD, BAD, 0, 0)), (39, "umount2", 166, 39, (BAD, 0)), (39, "chroot", 161, 51, (BAD,)),
    (37, "pivot_root", 155, 41, (BAD, BAD)), (45, "setns", 308, 268, (NO, 0)),
    (4, "ptrace", 101, 117, (16, NO, 0, 0)), (4, "process_vm_readv", 310, 270, (NO, 0, 0, 0, 0, 1)),
    (4, "process_vm_writev", 311, 271, (NO, 0, 0, 0, 0, 1)), (4, "kcmp", 312, 272, (NO, NO, 0, 0, 0)),
    (4, "pidfd_getfd", 438, 438, (NO, NO, 0)), (12, "keyctl", 250, 219, (9999, 0, 0)), (12, "add_key", 248, 217, (BAD, BAD, 0, 0, 0)),
    (12, "request_key", 249, 218, (BAD, BAD, 0, 0)), (48, "bpf", 321, 280, (0, 0, 8192)),
    (49, "perf_event_open", 298, 241, (0, 0, 0, 0, 0xFFFF)), (52, "fanotify_init", 300, 262, (0xFFFF, 0)),
    (46, "io_uring_setup", 425, 425, (1, BAD)), (46, "io_uring_enter", 426, 426, (NO, 0, 0, 0, 0, 0)),
    (46, "io_uring_register", 427, 427, (NO, 99, 0, 0)), (47, "userfaultfd", 323, 282, (5,)),
    (30, "name_to_handle_at", 303, 264, (NO, BAD, BAD, BAD, 0xFFFF)), (30, "open_by_handle_at", 304, 265, (NO, BAD, 0)),
    (18, "settimeofday", 164, 170, (BAD, 0)), (18, "clock_settime", 227, 112, (99, BAD)), (18, "adjtimex", 159, 171, (BAD,)),
    (18, "clock_adjtime", 305, 266, (99, BAD)), (20, "capset", 126, 91, (BAD, BAD)), (77, "sched_setscheduler", 144, 119, (NO, 0, BAD)),
    (77, "sched_setattr", 314, 274, (NO, 0, 0)), (53, "personality", 135, 92, (0xFFFFFFFF,)), (50, "init_module", 175, 105, (BAD, 0, BAD)),
    (50, "finit_module", 313, 273, (NO, BAD, 0xFFFF)), (50, "delete_module", 176, 106, (BAD, 0)),
    (50, "kexec_load", 246, 104, (0, 9999, BAD, 0)), (50, "kexec_file_load", 320, 294, (NO, NO, 0, BAD, 0xFFFF)),
    (19, "sethostname", 170, 161, (BAD, -1)), (19, "setdomainname", 171, 162, (BAD, -1)), (50, "swapon", 167, 224, (BAD, 0)),
    (50, "swapoff", 168, 225, (BAD,)), (50, "reboot", 169, 142, (0, 0, 0, 0)), (50, "syslog", 103, 116, (10, 0, 0)),
    (50, "acct", 163, 89, (BAD,)), (50, "quotactl", 179, 60, (0x7FFFFFFF, BAD, 0, BAD)), (50, "iopl", 172, None, (4,)),
    (50, "ioperm", 173, None, (1, 0, 1)), (53, "modify_ldt", 154, None, (0, 0, 0)), (51, "move_pages", 279, 239, (NO, 0, 0, 0, 0, 0)),
    (51, "mbind", 237, 235, (0, 0, 99, 0, 0, 0)), (51, "set_mempolicy", 238, 237, (99, 0, 0)), (51, "migrate_pages", 256, 238, (NO, 0, 0, 0)),
    (54, "memfd_secret", 447, 447, (0xFFFF,)), (54, "process_madvise", 440, 440, (NO, 0, 0, 0, 0xFFFF)),
    (54, "remap_file_pages", 216, 234, (1, 0, 0, 0, 0)), (55, "shmget", 29, 194, (KEY, 0, 0)), (55, "msgget", 68, 186, (KEY, 0)),
    (55, "semget", 64, 190, (KEY, 0, 0)), (55, "mq_open", 240, 180, (BAD, 0, 0, 0)), (40, "splice", 275, 76, (NO, 0, NO, 0, 1, 0)),
    (40, "tee", 276, 77, (NO, NO, 1, 0)), (40, "vmsplice", 278, 75, (NO, BAD, 1, 0)), (39, "open_tree", 428, 428, (NO, BAD, 0x40)),
    (39, "fsopen", 430, 430, (BAD, 0xFF)), (39, "fsmount", 432, 432, (NO, 0xFF, 0)), (39, "fspick", 433, 433, (NO, BAD, 0xFFFF)),
    (39, "fsconfig", 431, 431, (NO, 99, 0, 0, 0)), (39, "move_mount", 429, 429, (NO, BAD, NO, BAD, 0x800)),
    (39, "mount_setattr", 442, 442, (NO, BAD, 0xFFFF, 0, 0)), (39, "statmount", 457, 457, (0, 0, 0, 1)), (39, "listmount", 458, 458, (0, 0, 0, 0xFF)),
    (60, "landlock_create_ruleset", 444, 444, (0, 0, 1)), (65, "seccomp", 317, 277, (99, 0, 0)), (59, "clone3", 435, 435, (0, 0)),
    (53, "lookup_dcookie", 212, 18, (0, 0, 0)), (53, "uselib", 134, None, (BAD,)), (20, "setresuid", 117, 147, (-1, -1, -1)),
    (20, "setgroups", 116, 159, (0, 0)), (83, "mlockall", 151, 230, (0xFFFF,)), (77, "ioprio_set", 251, 30, (99, 0, 0)),
    (87, "sync", 162, 81, ()), (87, "syncfs", 306, 267, (NO,)), (60, "cachestat", 451, 451, (NO, 0, 0, 0)), (46, "io_setup", 206, 0, (0, BAD)),
    (60, "a call of the future", 2000, 2000, ()),
)
PRCTLS = ((65, "PR_SET_DUMPABLE", 4, 9), (65, "PR_SET_SECCOMP", 22, 99), (20, "PR_SET_SECUREBITS", 28, -1), (65, "PR_SET_MM", 35, 99),
          (127, "PR_SET_SPECULATION_CTRL", 53, 99), (65, "PR_SCHED_CORE", 62, 99), (65, "PR_SET_PTRACER", 0x59616D61, 0x7FFFFFF))
NEW = (("mnt", 0x20000), ("cgroup", 0x2000000), ("uts", 0x4000000), ("ipc", 0x8000000), ("user", 0x10000000), ("pid", 0x20000000),
       ("net", 0x40000000), ("time", 0x80))
READ = (
    (35, "/proc", "kcore kmsg kallsyms keys key-users iomem ioports interrupts sched_debug timer_list config.gz cmdline cpuinfo meminfo "
                  "version uptime loadavg stat modules kpagecount kpageflags diskstats slabinfo vmallocinfo pagetypeinfo net/dev net/unix sys/kernel/hostname "
                  "sys/kernel/random/boot_id sys/user/max_user_namespaces"),
    (35, "/sys", "kernel fs/cgroup class/net devices/virtual/dmi/id/product_uuid kernel/vmcoreinfo"),
    (35, "/etc", "shadow machine-id ssh/ssh_host_ed25519_key fstab"), (35, "/var", "lib/dbus/machine-id log"),
    (27, "/root", ".ssh .bashrc"), (27, "/home", "."), (27, "/host", "."), (34, "/sys/fs/cgroup", "cgroup.procs memory/memory.limit_in_bytes"),
    (43, "/dev", "fuse"), (31, "/dev", "mem kmem port sda vda kvm net/tun vsock loop0 loop-control"), (35, "/dev", "kmsg"), (9, "/dev", "tty tty0 ptmx pts"),
    (22, "/dev", "console"), (14, "/run", "docker.sock containerd/containerd.sock dbus/system_bus_socket systemd/private user udev"),
    (14, "/var/run", "docker.sock"), (55, "/dev", "mqueue"),
)
WRITE = (
    (33, "/proc", "sysrq-trigger sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hostname sys/vm/drop_caches sys/fs/binfmt_misc/register "
                  "sys/user/max_user_namespaces irq/0/smp_affinity"),
    (33, "/sys", "kernel/uevent_helper kernel/mm/ksm/run power/state"), (34, "/sys/fs/cgroup", "release_agent memory/notify_on_release cgroup.procs"),
    (3, "/proc/1", "mem oom_score_adj comm"), (1, "/proc/self", "exe"),
    (40, "/usr", "bin/python3 lib"), (40, "/etc", "passwd"), (40, "/", "bin/sh"),
)
rows = 0


def clean(text):
    return "".join(c if c.isprintable() else "?" for c in str(text))[:160]


def row(number, group, item, expected, found, held):
    """held: True, False, or None where it could not be tried."""
    global rows
    rows += 1
    verdict = "untried" if held is None else "held" if held else "open"
    print("row", number, group, clean(item), clean(expected), clean(found), verdict, sep="\t", flush=True)


def name_of(error):
    return errno.errorcode.get(error, str(error)) if error else "allowed"


def call(number, *arguments):
    """The errno of a raw system call, 0, or None where there is no way to make one."""
    if LIBC is None or MACHINE is None or number is None:
        return None
    return ctypes.get_errno() if LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) == -1 else 0


def attempt(function, *arguments):
    """The errno of a function of Python, or 0."""
    try:
        function(*arguments)
    except OSError as e:
        return e.errno
    return 0


def in_child(function):
    """What the exit status says of a function run in a child: its result, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        result = 255
        try:
            signal.alarm(5)
            result = function()
        finally:
            os._exit(result or 0)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def refusal(number, group, item, error, refused=REFUSED, expected=DENIED):
    if error is None:
        row(number, group, item, expected, "no ctypes in this image", None)
    else:
        row(number, group, item, expected, name_of(error), error in refused)


def system_calls():
    for number, name, x86, arm, arguments in CALLS:
        nr = (x86, arm)[MACHINE] if MACHINE is not None else None
        if nr is not None or MACHINE is None:
            refusal(number, "system calls", name, call(nr, *arguments))
    for number, name, operation, argument in PRCTLS:
        refusal(number, "system calls", name, call((157, 167)[MACHINE or 0], operation, argument, 0, 0, 0))
    for request, name in ((0x5412, "TIOCSTI"), (0x541C, "TIOCLINUX")):
        with open("/dev/null", "rb") as null:
            refusal(9, "system calls", name, attempt(fcntl.ioctl, null.fileno(), request, b"\0"))
            refusal(58, "system calls", f"{name} with bit 32 set", call((16, 29)[MACHINE or 0], null.fileno(), request | 1 << 32, 0))
    a, b = socket.socketpair()
    with a, b:
        for name, flag in (("MSG_OOB", 1), ("MSG_ZEROCOPY", 0x4000000)):
            refusal(62, "system calls", name, attempt(a.send, b"x", flag), (*REFUSED, errno.EOPNOTSUPP), "refused")
    if MACHINE == 0 and LIBC is not None:
        killed = (-signal.SIGSYS, 255)
        for item, code in (("int 0x80 (i386)", i386), ("x32", lambda: 0 if call(39 | 0x40000000) == 0 else 255)):
            found = in_child(code)
            row(57, "system calls", item, "killed or refused", "killed" if found < 0 else "refused" if found == 255 else "allowed", found in killed)


def i386():
    """getpid by the 32-bit entry."""
    import mmap
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    page.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return 0 if function() > 0 else 255


def clone_with(flag):
    """clone(2) itself. A child ends at once."""
    parent = os.getpid()
    error = call((56, 220)[MACHINE or 0], flag | signal.SIGCHLD, 0, 0, 0, 0)
    if os.getpid() != parent:
        os._exit(0)
    return error


def namespaces():
    for kind, flag in NEW:
        if LIBC is None and not hasattr(os, "unshare"):
            error = None
        else:
            error = in_child(lambda flag=flag: call((272, 97)[MACHINE], flag) if LIBC is not None else attempt(os.unshare, flag))
        refusal(45, "namespaces", f"unshare({kind})", error, (*REFUSED, errno.ENOSPC, errno.EINVAL), "refused")
        if kind in ("user", "mnt") and LIBC is not None:
            refusal(45, "namespaces", f"clone({kind})", in_child(lambda flag=flag: clone_with(flag)), (*REFUSED, errno.ENOSPC), "refused")
    for kind in sorted(EXPECTED["namespaces"]):
        try:
            link = os.readlink(f"/proc/self/ns/{kind}")
        except OSError as e:
            link = name_of(e.errno)
        row(19, "namespaces", kind, "not the host's", "own" if link != EXPECTED["namespaces"][kind] else "the host's", link != EXPECTED["namespaces"][kind])
    for name in ("uid_map", "gid_map"):
        error = attempt(write_map, f"/proc/self/{name}")
        row(45, "namespaces", f"write {name}", "refused", name_of(error), error != 0)


def write_map(path):
    with open(path, "wb", buffering=0) as f:
        f.write(b"0 0 1")


def read_or_list(path):
    """Fails also where there is nothing to list."""
    if not os.path.isdir(path):
        open_once(path, os.O_RDONLY)
    elif not os.listdir(path):
        raise OSError(errno.ENOENT, path)


def open_once(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))


def is_made_for_session(path):
    """Whether init has made the file, in the session's /workspace and without a name."""
    file = os.open(path, os.O_RDONLY)
    about = os.fstat(file)
    os.close(file)
    return about.st_nlink == 0 and attempt(os.stat, "/workspace") == 0 and about.st_dev == os.stat("/workspace").st_dev


def files():
    for number, folder, names in READ:
        for name in names.split():
            path = os.path.normpath(f"{folder}/{name}") if name != "." else folder
            # The mounts of the profile and the folders above them exist.
            if not any(path == m or path.startswith(m + "/") or m.startswith(path + "/") for m in EXPECTED["mounts"]):
                error = attempt(read_or_list, path)
                row(number, "files", path, "absent, refused or the session's", name_of(error), error != 0 or is_made_for_session(path))
    for number, folder, names in WRITE:
        for name in names.split():
            path = os.path.normpath(f"{folder}/{name}")
            error = attempt(open_once, path, os.O_WRONLY)
            row(number, "files", f"write {path}", "absent or refused", name_of(error), error != 0)


def other_processes():
    pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
    row(5, "processes", "processes that /proc shows", "at most 3", len(pids), len(pids) <= 3)
    for part in ("environ", "mem", "maps", "fd", "root", "cwd", "exe", "map_files"):
        error = attempt(os.readlink if part in ("root", "cwd", "exe") else read_or_list, f"/proc/1/{part}")
        row(3 if part == "environ" else 5, "processes", f"/proc/1/{part}", "refused", name_of(error), error != 0)
    programs = [pid for pid in pids if attempt(open_once, f"/proc/{pid}/exe", os.O_WRONLY) == 0]
    row(1, "processes", "programs writable by /proc/PID/exe", "none", len(programs), not programs)
    row(2, "processes", "working directory", "inside", os.getcwd(), not os.getcwd().startswith("(unreachable)"))


def signals_and_notices():
    """What reaches other processes, and other sandboxes through the files that they share."""
    if EXPECTED.get("below_node"):
        others = {int(p) for p in os.listdir("/proc") if p.isdigit()} - {1, os.getpid(), os.getppid()}
        row(6, "signals", "processes beside Node and the probe", "none", len(others) or "none", not others)
    else:
        row(6, "signals", "processes that kill(-1, 0) reaches", "none", *(("some", False) if attempt(os.kill, -1, 0) == 0 else ("none", True)))
    for name, function in (("kill of the caller", lambda: os.kill(EXPECTED["pid"], 0)), ("a group of the caller", lambda: os.killpg(EXPECTED["pid"], 0))):
        error = attempt(function)
        row(6, "signals", name, "no such process", name_of(error), error != 0)
    a, b = socket.socketpair()
    with a, b:
        error = attempt(fcntl.fcntl, a.fileno(), fcntl.F_SETOWN, EXPECTED["pid"])
        row(6, "signals", "F_SETOWN to the caller", "no such process", name_of(error), error != 0)
    file, folder = os.open(os.__file__, os.O_RDONLY), os.open(os.path.dirname(os.__file__), os.O_RDONLY)
    error = attempt(inotify)
    row(7, "signals", "inotify", "refused", "no ctypes in this image" if LIBC is None else name_of(error), None if LIBC is None else error != 0)
    for number, name, fd, command, argument in ((41, "F_SETLEASE", file, 1024, 0), (7, "F_NOTIFY", folder, 1026, 1)):
        error = attempt(fcntl.fcntl, fd, command, argument)
        row(number, "signals", f"{name} on the image", "refused", name_of(error), error != 0)
    os.close(file)
    os.close(folder)


def inotify():
    if LIBC is not None:
        fd = LIBC.inotify_init1(0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        os.close(fd)


def descriptors():
    kinds = []
    for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            mode, link = os.fstat(fd).st_mode, os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if stat.S_ISDIR(mode) or stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and link != "/dev/null") or (stat.S_ISREG(mode) and not link.startswith("/memfd:")):
            kinds.append(f"{fd}={link}")
    row(2, "descriptors", "files, folders and devices held", "none", " ".join(kinds) or "none", not kinds)


def families():
    found = set()
    for family in range(1, 47):
        for kind in (1, 2, 3, 5):
            if attempt(lambda family=family, kind=kind: socket.socket(family, kind).close()) == 0:
                found.add(family)
    row(56, "sockets", "address families", EXPECTED["families"] or "none", sorted(found) or "none", found <= set(EXPECTED["families"]))
    odd = [p for p in (1, 58, 132, 136, 255, 262) for f in (2, 10) for k in (1, 2, 3, 5)
           if attempt(lambda f=f, k=k, p=p: socket.socket(f, k, p).close()) == 0]
    row(56, "sockets", "protocols other than TCP and UDP", "none", sorted(set(odd)) or "none", not odd)
    row(116, "sockets", "raw sockets", "none", "some" if {1, 58, 255} & set(odd) else "none", not {1, 58, 255} & set(odd))
    refusal(58, "sockets", "AF_NETLINK with bit 32 set", call((41, 198)[MACHINE or 0], 16 | 1 << 32, 3, 0), (*REFUSED, errno.EAFNOSUPPORT), "refused")


def status():
    with open("/proc/self/status", encoding="utf-8", errors="replace") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return [line for line in f if line.strip()]
    except OSError:
        return []


def marker_in(path):
    try:
        with open(path, "rb") as f:
            return EXPECTED["marker"].encode() in f.read()
    except OSError:
        return False


def identity():
    now = status()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        found = now.get(name, "?")
        row(20, "identity", name, "0", found, found.strip("0") == "")
    row(20, "identity", "no_new_privs", "1", now.get("NoNewPrivs", "?"), now.get("NoNewPrivs") == "1")
    row(67, "identity", "seccomp mode", "2 (filter)", now.get("Seccomp", "?"), now.get("Seccomp") == "2")
    speculation = now.get("Speculation_Store_Bypass", "not shown")
    # "vulnerable" alone: the processor offers nothing that could be set.
    row(127, "identity", "speculative store bypass", "not left to the thread", speculation, speculation != "thread vulnerable")
    branches = now.get("SpeculationIndirectBranch", "not shown")
    row(127, "identity", "speculation of indirect branches", "not left to the thread", branches, branches != "conditional enabled")
    row(20, "identity", "user id inside", "not 0", os.getuid(), os.getuid() != 0)
    row(19, "identity", "host name", "not the host's", "own" if os.uname().nodename != EXPECTED["hostname"] else "the host's", os.uname().nodename != EXPECTED["hostname"])
    leaked = [path for path in (f"/proc/{p}/environ" for p in os.listdir("/proc") if p.isdigit() or p == "self") if marker_in(path)]
    row(3, "identity", "a variable of the caller's environment", "not found", " ".join(leaked) or "not found", not leaked)
    names = [line.split()[-1] for line in lines("/proc/self/net/unix") if line.split()[-1].startswith("@")]
    row(13, "identity", "abstract sockets in sight", "none", len(names) or "none", not names)


def image():
    setid, devices, entries = 0, 0, 0
    for folder, names, files_here in os.walk("/", topdown=True):
        names[:] = [n for n in names if f"{folder.rstrip('/')}/{n}" not in ("/proc", "/sys", "/dev", "/workspace", "/tmp", *EXPECTED["mounts"])]
        for name in files_here:
            entries += 1
            try:
                mode = os.lstat(os.path.join(folder, name)).st_mode
            except OSError:
                continue
            setid += stat.S_ISREG(mode) and mode & 0o6000 != 0
            devices += stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
        if entries > IMAGE_FILES_MAX:
            break
    whole = entries <= IMAGE_FILES_MAX
    for number, item, found in ((32, "set-uid and set-gid files", setid), (31, "device nodes outside /dev", devices)):
        row(number, "image", item, "none", found or ("none" if whole else f"none in {entries} files"), False if found else True if whole else None)
    error = attempt(os.mknod, "/tmp/.probe-node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    if error == 0:
        os.unlink("/tmp/.probe-node")
    row(31, "image", "mknod of a device", "refused", name_of(error), error != 0)
    allowed = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm"}
    if EXPECTED.get("below_node"):
        allowed.add("cloister")  # the modules of the worker
        error = attempt(os.chmod, "/dev/cloister/main.js", 0o666)
        row(31, "image", "chmod of a module of the worker", "refused", name_of(error), error != 0)
    more = sorted(set(os.listdir("/dev")) - allowed)
    row(31, "image", "other names in /dev", "none", " ".join(more) or "none", not more)


def mounts():
    root, loose, writables = "", [], set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            fields = line.split()
            target, options = fields[4], set(fields[5].split(","))
            if target == "/":
                root = "ro" if "ro" in options else "rw"
            elif "rw" in options and not target.startswith("/dev/"):
                writables.add(target)
            elif "rw" in options and target == "/dev/shm":
                writables.add(target)
            node = target.startswith("/dev/") and target != "/dev/shm"
            if "nosuid" not in options or ("nodev" not in options and not node):
                loose.append(target)
    row(32, "mounts", "mounts without nosuid, or without nodev", "none", " ".join(sorted(loose)) or "none", not loose)
    row(40, "mounts", "the root", "ro", root, root == "ro")
    expected = {"/tmp", "/workspace", "/dev/shm", "/proc", *(m for m, mode in EXPECTED["mounts"].items() if mode == "rw")}
    more = sorted(writables - expected)
    row(27, "mounts", "other writable mounts", "none", " ".join(more) or "none", not more)
    for target, mode in sorted(EXPECTED["mounts"].items()):
        found = "rw" if target in writables else "ro"
        row(27, "mounts", target, mode, found, mode == found or found == "ro")


def limits():
    for number, name, most in ((17, "RLIMIT_CORE", 1), (78, "RLIMIT_NOFILE", 4096), (83, "RLIMIT_MEMLOCK", 8 << 20), (77, "RLIMIT_RTPRIO", 0)):
        found = resource.getrlimit(getattr(resource, name))[1]
        row(number, "limits", name, f"at most {most}", "unlimited" if found in (-1, resource.RLIM_INFINITY) else found, 0 <= found <= most)
    row(78, "limits", "descriptors that can be opened", "at most 4096", *reached(open_descriptors, 4096))
    most = EXPECTED["processes"]
    row(73, "limits", "processes that can be started", f"at most {most}", *reached(lambda: processes(most + 50), most))
    row(77, "limits", "nice -20", "refused", *nice())
    for number, folder in ((69, "/tmp"), (69, "/workspace"), (69, "/dev/shm")):
        most = EXPECTED["bytes"].get(folder)
        if most and most <= 512 << 20 and folder not in EXPECTED["mounts"]:
            row(number, "limits", f"bytes in {folder}", f"at most {most}", *reached(lambda folder=folder, most=most: fill(folder, most + (16 << 20)), most))


def reached(function, most):
    try:
        found = function()
    except OSError as e:
        return name_of(e.errno), True
    return found, found <= most


def open_descriptors():
    taken = []
    try:
        while len(taken) < 5000:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for fd in taken:
        os.close(fd)
    return len(taken)


def processes(most):
    """How many children can live at once."""
    end, hold = os.pipe()
    children = []
    try:
        for _ in range(min(most, 2000)):
            pid = os.fork()
            if pid == 0:
                os.close(hold)
                os.read(end, 1)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    os.close(hold)
    os.close(end)
    for pid in children:
        os.waitpid(pid, 0)
    return len(children)


def nice():
    found = in_child(lambda: attempt(os.setpriority, os.PRIO_PROCESS, 0, -20))
    return name_of(found), found != 0


def fill(folder, most):
    path, piece, total = f"{folder}/.probe-fill", bytes(1 << 20), 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while total < most:
            total += os.write(fd, piece)
    except OSError:
        pass
    finally:
        os.close(fd)
        os.unlink(path)
    return total


def inside():
    """Whether this is a sandbox: another kernel; or mounts that are not the host's, and neither its user namespace nor capabilities."""
    try:
        if os.uname().release != EXPECTED["kernel"]:
            return True
        own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "user")}
        no_capability = status().get("CapEff", "1").strip("0") == ""
        host = EXPECTED["namespaces"]
        return own["mnt"] != host["mnt"] and (own["user"] != host["user"] or no_capability)
    except (OSError, NameError, KeyError):
        return False


def main():
    """EXPECTED: kernel (its release), namespaces (of the host: kind to link), hostname, pid (of the caller, in its namespace), marker
    (the value of a variable that the caller has), families (numbers that the profile allows), mounts (target to ro or rw),
    processes, below_node (whether Node has started this), bytes (of the writable folders), hold (seconds to stay, so that the caller can look at the processes)."""
    if not inside():
        print("refused: this is not a sandbox, or EXPECTED does not describe the host")
        raise SystemExit(3)
    for part in (system_calls, namespaces, files, other_processes, signals_and_notices, descriptors, families, identity, image, mounts, limits,
                 *globals().get("MORE", ())):
        try:
            part()
        except Exception as e:  # A row, so that nothing is left out silently.
            row(0, part.__name__, "the whole group", "an answer", f"{type(e).__name__}: {e}", False)
    print("end", rows, sep="\t", flush=True)
    time.sleep(EXPECTED.get("hold", 0))


main()
