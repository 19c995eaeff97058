"""The access that code in a sandbox has to the machine. Each refusal has a control that succeeds without the rule."""

import base64
import ctypes
import errno
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import harness
import rawmcp

# A pointer that cannot be read, and a number that is not a flag, command or process.
BAD, NO = 1, -2
# Arguments that the kernel itself refuses with an error other than EPERM, also without privileges.
DANGEROUS = {
    "mount": (BAD, BAD, BAD, 0, 0), "umount2": (BAD, 0), "chroot": (BAD,), "setns": (NO, 0), "unshare": (1,),
    "ptrace": (16, NO, 0, 0), "process_vm_readv": (NO, 0, 0, 0, 0, 1), "process_vm_writev": (NO, 0, 0, 0, 0, 1), "kcmp": (NO, NO, 0, 0, 0),
    "keyctl": (9999, 0, 0), "add_key": (BAD, BAD, 0, 0, 0), "request_key": (BAD, BAD, 0, 0),
    "bpf": (0, 0, 8192), "perf_event_open": (0, 0, 0, 0, 0xFFFF), "fanotify_mark": (NO, 0xFFFF, 0, 0, 0),
    "io_uring_setup": (1, BAD), "userfaultfd": (1 | 4,), "name_to_handle_at": (NO, BAD, BAD, BAD, 0xFFFF),
    "settimeofday": (BAD, 0), "clock_settime": (99, BAD), "adjtimex": (BAD,), "capset": (BAD, BAD),
    "sched_setscheduler": (NO, 0, BAD), "mlockall": (0xFFFF,), "ioprio_set": (99, 0, 0), "personality": (0xFFFFFFFF,), "setresuid": (-1, -1, -1),
}
if os.uname().machine == "x86_64":
    DANGEROUS |= {"iopl": (4,), "ioperm": (1, 0, 1), "modify_ldt": (99, 0, 0)}
# The kernel refuses these calls with EPERM for lack of a capability before it reads the arguments.
PRIVILEGED = ("pivot_root", "init_module", "finit_module", "delete_module", "kexec_load", "fanotify_init", "sethostname", "swapon", "reboot")

ERRNO_OF = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def errno_of(number, *arguments):
    return ctypes.get_errno() if libc.syscall(number, *map(ctypes.c_long, arguments)) == -1 else 0
"""
# Each call runs in its own child process. A clone that succeeds creates one more process.
NAMESPACES = ERRNO_OF + """
def in_child(number, *arguments):
    pid = os.fork()
    if pid == 0:
        parent = os.getpid()
        error = errno_of(number, *arguments)
        os._exit(error if os.getpid() == parent else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
NEW = {"mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "time": 0x80}


def number_of(call):
    """The number of a system call on this machine."""
    return ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(call.encode())


def without_filter(code, *options):
    """The JSON value of code in a new user namespace, without the sandbox's filter."""
    done = subprocess.run(["unshare", "--user", *options, harness.PYTHON, "-c", f"{code}\nimport json; print(json.dumps(value))"],
                          capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)


def host_addresses():
    """Addresses at which this machine can be reached: the loopback one and, where it has one, that of a network."""
    found = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            found.append(s.getsockname()[0])
        except OSError:
            pass
    return found


class Sandbox(rawmcp.ServerCase):
    """Seen from inside, with plain Python."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(harness.shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "file"), "x", encoding="ascii"):
            pass
        cls.mounted = folder
        cls.CONFIG = {"profiles": {
            "mounted": {"agent": True, "mounts": [{"source": folder, "target": "/mounted", "mode": "ro"}]},
            "loopback": {"agent": True, "network": "loopback"},
        }}
        super().setUpClass()

    def status(self):
        text = self.value("open('/proc/self/status').read()")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def test_own_namespaces(self):
        for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
            inside = self.value(f"import os; os.readlink('/proc/self/ns/{kind}')")
            self.assertNotEqual(inside, os.readlink(f"/proc/self/ns/{kind}"), kind)

    def test_no_capability_no_new_privs_and_a_filter(self):
        status = self.status()
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))

    def test_not_root_inside(self):
        *ids, groups = self.value("import os; [os.getuid(), os.geteuid(), os.getgid(), os.getgroups()]")
        self.assertEqual(ids, [1000, 1000, 1000])
        # Without subordinate ids an ordinary user keeps all groups. Inside, every other group has the overflow gid 65534.
        kept = os.getgroups() if not harness.ROOT and self.has_own_id() else []
        self.assertEqual(groups, [1000 if group == os.getegid() else 65534 for group in kept])

    def has_own_id(self):
        self.ok("1")
        return self.host_uids() == {os.geteuid()}

    def test_host_identity_is_distinct_and_not_root(self):
        self.ok("1")
        uids = self.host_uids()
        self.assertTrue(uids)
        if harness.ROOT:
            self.assertNotIn(0, uids)

    def host_uids(self):
        """Returns the workers' uids on the host."""
        uids = set()
        for pid in harness.descendants(self.server.process.pid):
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    text = f.read()
            except OSError:
                continue
            if re.search(r"^Seccomp_filters:\t[1-9]", text, re.M) and re.search(r"^NSpid:(\t\d+){3,}", text, re.M):
                uids.add(int(re.search(r"^Uid:\t(\d+)", text, re.M).group(1)))
        return uids

    def test_sessions_have_different_host_ids_as_root(self):
        maps = [self.value("open('/proc/self/uid_map').read().split()[1]", session=f"id{i}") for i in range(2)]
        if harness.ROOT:
            self.assertNotEqual(maps[0], maps[1])

    def test_the_root_is_read_only(self):
        for path in ("/x", "/usr/x", "/etc/x"):
            self.assertEqual(self.cell(f"open({path!r}, 'w')")["error"]["type"], "OSError", path)

    def test_the_writable_places(self):
        for path in ("/tmp/x", "/workspace/x", "/dev/shm/x"):
            self.assertEqual(self.value(f"open({path!r}, 'w').write('12345')"), 5)

    def test_writable_places_are_bounded(self):
        for path in ("/tmp", "/workspace", "/dev/shm"):
            code = f"try:\n    with open('{path}/fill', 'wb') as f:\n        for _ in range(300): _ = f.write(b'x' * (1 << 20))\nexcept OSError as e:\n    r = e.errno\nimport os\nos.unlink('{path}/fill')\nr"
            self.assertEqual(self.value(code, session=f"fill-{os.path.basename(path)}"), 28, path)

    def test_sessions_do_not_share_files(self):
        self.ok("open('/tmp/mine', 'w').close()", session="file-a")
        self.assertFalse(self.value("import os; os.path.exists('/tmp/mine')", session="file-b"))

    def test_no_file_of_the_host(self):
        marker = os.path.join(self.class_dir, "config.json")
        self.assertTrue(os.path.exists(marker))
        for path in (marker, harness.SOURCE, "/root", "/home", "/sys/kernel", "/boot", "/proc/1/root/etc"):
            self.assertFalse(self.value(f"import os; os.path.exists({path!r}) and bool(os.listdir({path!r}) if os.path.isdir({path!r}) else 1)"), path)

    def test_image_files_have_inodes_of_their_own(self):
        code = """
import json, os
found = {}
for folder in ("/usr", "/mounted"):
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                s = os.stat(path)
                found[path] = [s.st_dev, s.st_ino, s.st_size]
with open("/workspace/out/inodes", "w") as f: json.dump(found, f)
"""
        link = self.call(code, profile="mounted")["content"][-1]
        inside = json.loads(base64.b64decode(self.server.ask("resources/read", {"uri": link["uri"]})["contents"][0]["blob"]))
        same_name, same_inode = [], []
        for path, (device, inode, _) in inside.items():
            try:
                host = os.stat(path.replace("/mounted", self.mounted, 1) if path.startswith("/mounted/") else path)
            except OSError:
                continue
            same_name.append(path)
            if (host.st_dev, host.st_ino) == (device, inode):
                same_inode.append(path)
        self.assertGreater(len(same_name), 1000)
        # The control: a file that a profile mounts is the host's.
        self.assertEqual(same_inode, ["/mounted/file"])

    def test_small_dev(self):
        devices = set(self.value("import os; sorted(os.listdir('/dev'))"))
        self.assertLessEqual({"null", "zero", "full", "random", "urandom", "fd", "shm", "stdin", "stdout", "stderr"}, devices)
        self.assertFalse(devices & {"tty", "console", "kmsg", "mem", "kvm", "fuse", "ptmx"}, devices)

    def test_proc_shows_own_processes_only(self):
        code = "import os; [int(p) for p in os.listdir('/proc') if p.isdigit()]"
        self.assertLessEqual(len(self.value(code)), 3)
        for path in ("/proc/sys", "/proc/kcore", "/proc/sysrq-trigger", "/proc/meminfo"):
            self.assertFalse(self.value(f"import os; os.path.exists({path!r})"), path)

    def test_no_sysfs_and_no_cgroupfs(self):
        mounts = self.value("open('/proc/self/mountinfo').read()")
        kinds = {line.split(" - ")[1].split()[0] for line in mounts.splitlines()}
        self.assertFalse(kinds & {"sysfs", "cgroup", "cgroup2", "debugfs"}, kinds)

    def test_its_own_cgroup_is_all_that_it_sees_of_them(self):
        lines = self.value("open('/proc/self/cgroup').read()").splitlines()
        self.assertEqual({line.split(":", 2)[2] for line in lines}, {"/"}, lines)

    def test_no_network(self):
        code = """
import socket
def attempt(address):
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as e:
        return e.errno
    return 0
"""
        for address in host_addresses():
            with socket.create_server((address, 0)) as listener:
                port = listener.getsockname()[1]
                control = {}
                exec(code, control)  # pylint: disable=exec-used
                self.assertEqual(control["attempt"]((address, port)), 0)
                listener.accept()[0].close()
                # Without a network the filter refuses the socket. With "loopback" the network namespace is the boundary.
                self.assertEqual(self.value(f"{code}attempt(({address!r}, {port}))"), errno.EPERM, address)
                found = self.value(f"{code}attempt(({address!r}, {port}))", session="loopback", profile="loopback")
                self.assertIn(found, (errno.ECONNREFUSED, errno.ENETUNREACH), address)
                listener.setblocking(False)
                self.assertRaises(BlockingIOError, listener.accept)
        # Without the filter, the network namespace still has only a loopback device, and that is down.
        lines = self.value("open('/proc/self/net/dev').read()").splitlines()[2:]
        self.assertEqual([line.split(":")[0].strip() for line in lines], ["lo"])
        self.assertEqual(self.value("open('/proc/self/net/if_inet6').read()"), "")

    def test_abstract_sockets_of_the_host_are_out_of_reach(self):
        name = f"\0cloister-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(name)
            s.listen()
            with socket.socket(socket.AF_UNIX) as control:
                control.connect(name)
            self.assertEqual(self.cell(f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({name!r})")["status"], "error")

    def test_empty_environment(self):
        names = self.value("import os; sorted(os.environ)")
        self.assertFalse([n for n in names if n not in ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "MPLBACKEND", "PATH", "PWD", "PYTHONUNBUFFERED", "SHELL",
                                                        "SHLVL", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE",
                                                        "JE_ARROW_MALLOC_CONF", "_RJEM_MALLOC_CONF", "GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT")], names)
        self.assertEqual(self.value("os.environ['HOME']"), "/workspace")

    def test_no_nested_namespaces(self):
        # Together with a new user namespace, the other namespaces need no capability.
        flags = {name: flag | extra for extra in (0, NEW["user"]) for name, flag in [(f"{n}+{extra:x}", f) for n, f in NEW.items()]}
        code = f"{NAMESPACES}value = {{name: in_child({number_of('unshare')}, flag) for name, flag in {flags}.items()}}"
        self.assertEqual(set(without_filter(code, "--map-root-user").values()), {0})
        self.assertEqual(set(self.value(f"{code}\nvalue").values()), {errno.EPERM})
        # The lowest byte of clone's flags is the signal, so that there is no bit for a time namespace.
        flags = {name: flag | signal.SIGCHLD for name, flag in flags.items() if not name.startswith("time")}
        code = f"{NAMESPACES}value = {{name: in_child({number_of('clone')}, flag, 0, 0, 0, 0) for name, flag in {flags}.items()}}"
        self.assertEqual(set(without_filter(code, "--map-root-user").values()), {0})
        self.assertEqual(set(self.value(f"{code}\nvalue").values()), {errno.EPERM})
        code = f"{NAMESPACES}value = errno_of({number_of('clone3')}, 0, 0)"
        self.assertEqual(without_filter(code), errno.EINVAL)
        self.assertEqual(self.value(f"{code}\nvalue"), errno.ENOSYS)

    def test_dangerous_calls_are_refused_by_the_filter(self):
        numbers = {name: (number_of(name), *arguments) for name, arguments in DANGEROUS.items()}
        code = f"{ERRNO_OF}value = {{name: errno_of(*call) for name, call in {numbers}.items()}}"
        control, inside = without_filter(code), self.value(f"{code}\nvalue")
        for name, error in inside.items():
            self.assertIn(error, (errno.EPERM, errno.ENOSYS), name)
            self.assertNotEqual(control[name], error, name)

    def test_privileged_calls_are_refused(self):
        numbers = {name: (number_of(name), BAD, BAD, BAD) for name in PRIVILEGED}
        inside = self.value(f"{ERRNO_OF}{{name: errno_of(*call) for name, call in {numbers}.items()}}")
        for name, error in inside.items():
            self.assertIn(error, (errno.EPERM, errno.ENOSYS), name)

    def test_descriptors_at_the_start(self):
        code = """
import os
fds = {}
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        fds[str(fd)] = os.readlink(f'/proc/self/fd/{fd}')
    except OSError:
        pass  # listdir's own
fds
"""
        names = {int(fd): name for fd, name in self.value(code).items()}
        self.assertEqual(names.pop(0), "/dev/null")
        # Standard output and standard error, each twice, and the connection to the broker.
        sockets = [fd for fd in names if names[fd].startswith("socket:")]
        pipes = sorted(names[fd] for fd in names if fd not in sockets)
        self.assertEqual((len(names), len(sockets)), (5, 1), names)
        self.assertEqual(pipes, sorted([names[1], names[2]] * 2))
        self.assertNotEqual(names[1], names[2])
        self.assertTrue(all(name.startswith("pipe:") for name in pipes), names)
        # The other end of each is the broker's alone: the monitor and other processes do not hold the same file.
        held = self.held_outside()
        for name in (names[1], names[2]):
            # An ordinary user may not look into the broker.
            self.assertEqual(held.get(name, set()), {"cloister-broker"} if harness.ROOT else set(), (name, held))
        self.assertNotIn(names[sockets[0]], held)
        # Each session has its own.
        others = set(self.value(code, session="another").values()) - {"/dev/null"}
        self.assertEqual(others & set(names.values()), set())

    def held_outside(self):
        """Returns {file: names of the processes} of the open files of the server's processes outside of sandboxes, as far as they may be read."""
        held = {}
        for pid, name in {**harness.descendants(self.server.process.pid), self.server.process.pid: "cloister-monitor"}.items():
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    if re.search(r"^NSpid:(\t\d+){3,}", f.read(), re.M):
                        continue
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    held.setdefault(os.readlink(f"/proc/{pid}/fd/{fd}"), set()).add(name)
            except OSError:
                continue
        return held

    CRASH = "import os, signal; signal.signal(signal.SIGSEGV, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGSEGV)"

    def test_no_core_dumps(self):
        self.assertEqual(self.value("import resource; resource.getrlimit(resource.RLIMIT_CORE)[0]"), 1)
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
            pattern = f.read()
        # The wait status shows whether the kernel wrote a core, to a file or to a handler. The control: it does outside.
        with tempfile.TemporaryDirectory(prefix="cloister-test-") as folder:
            status = self.crash_outside(folder)
            self.assertTrue(os.WIFSIGNALED(status) and (os.WCOREDUMP(status) or pattern.startswith("/")), (status, pattern))
            if not pattern.startswith(("|", "@", "/")):
                self.assertEqual(len(os.listdir(folder)), 1)
        code = f"""
import os, subprocess, sys
def wait_status(*arguments):
    return os.waitpid(os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ), 0)[1]
before = sorted(os.listdir("/workspace"))
status = wait_status("-c", {self.CRASH!r})
[os.WIFSIGNALED(status) and os.WTERMSIG(status), os.WCOREDUMP(status), sorted(os.listdir("/workspace")) == before]
"""
        self.assertEqual(self.value(code), [signal.SIGSEGV, False, True])
        before = set(os.listdir(self.class_dir))
        self.assertEqual(self.cell(self.CRASH, session="crash")["status"], "killed")
        self.assertEqual(set(os.listdir(self.class_dir)), before)

    def crash_outside(self, folder):
        """The wait status of a process that crashes without a limit of its core."""
        pid = os.fork()
        if pid == 0:
            os.chdir(folder)
            try:
                import resource
                hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
                resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
                os.execv(harness.PYTHON, [harness.PYTHON, "-c", self.CRASH])
            finally:
                os._exit(99)
        return os.waitpid(pid, 0)[1]

    def test_init_is_out_of_reach(self):
        code = """
import os, subprocess, sys
def attempt(pid):
    found = {}
    for name, look in {"environ": open, "mem": open, "maps": open, "auxv": open, "cmdline": open, "fd": os.listdir, "root": os.readlink,
                       "cwd": os.readlink, "exe": os.readlink, "ns/mnt": os.readlink}.items():
        try:
            look(f"/proc/{pid}/{name}")
            found[name] = 0
        except OSError as e:
            found[name] = e.errno
    return found
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
found = [attempt(1), attempt(child.pid)]
child.kill(); child.wait(); child.stdin.close()
found
"""
        init, control = self.value(code)
        # The control: another process of the session.
        self.assertEqual(set(control.values()), {0}, control)
        self.assertLessEqual(set(init.values()), {errno.EPERM, errno.EACCES}, init)

    def test_memory_limit_holds_for_children_too(self):
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'b = bytearray(2 << 30)'], capture_output=True).returncode"
        cell = self.cell(code)
        self.assertTrue(cell["status"] in ("oom", "killed") or cell["value"]["json"] != 0, cell)


class HostProcesses(rawmcp.ServerCase):
    """The supervisor's own processes, looked at from outside."""

    def statuses(self):
        self.ok("1")
        found = []
        for pid, name in harness.descendants(self.server.process.pid).items():
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    found.append((name, dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)))
            except OSError:
                pass
        return found

    def test_everything_below_the_monitor_is_filtered(self):
        # Broker, stub, template, init and worker are those in pid namespaces of ours.
        inner = [(name, status) for name, status in self.statuses() if len(status["NSpid"].split()) > len(self.own_pids())]
        self.assertGreaterEqual(len(inner), 5, inner)
        for name, status in inner:
            self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), name)

    def own_pids(self):
        with open("/proc/self/status", encoding="ascii") as f:
            return next(line.split()[1:] for line in f if line.startswith("NSpid"))

    def test_broker_and_init_have_no_capability(self):
        for name, status in self.statuses():
            if name in ("cloister", "cloister-init", "cloister-broker"):
                self.assertEqual(int(status["CapEff"], 16), 0, name)

    def test_init_runs_without_speculation(self):
        """The control: this process, for which the kernel leaves it to prctl, where it does."""
        with open("/proc/self/status", encoding="ascii", errors="replace") as f:
            ours = dict(line.rstrip("\n").split(":\t", 1) for line in f if line.startswith("Speculation"))
        wanted = [(key, off) for key, left, off in (("Speculation_Store_Bypass", "thread vulnerable", "thread force mitigated"),
                                                    ("SpeculationIndirectBranch", "conditional enabled", "conditional force disabled"))
                  if ours.get(key) == left]

        def inits():
            """PID 1 of each pid namespace below the stub's. One of a sandbox that is being made has not begun yet."""
            return [status for _, status in self.statuses()
                    if status["NSpid"].split()[-1] == "1" and len(status["NSpid"].split()) > len(self.own_pids()) + 1]

        self.assertGreater(len(inits()), 0)
        self.assertTrue(harness.wait_until(lambda: all(status[key] == off for status in inits() for key, off in wanted)), wanted)

    def template(self):
        """The child of the monitor that runs the interpreter: sessions have an init between."""
        for pid in sorted(harness.descendants(self.server.process.pid)):  # a session looks the same until its init runs
            stat = harness.stat_of(pid)
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                arguments = f.read().split(b"\0")
            if stat and stat[0] == self.server.process.pid and os.path.basename(arguments[0]).startswith(b"python"):
                return pid
        return None

    def next_template(self):
        """A session from the pool needs none, and may be there before it."""
        end = time.monotonic() + harness.PATIENCE
        while (pid := self.template()) is None:
            self.assertLess(time.monotonic(), end, "no template")
            time.sleep(0.02)
        return pid

    def test_a_killed_template_costs_no_session(self):
        self.ok("kept = 42", session="before")
        first = self.next_template()
        os.kill(first, signal.SIGKILL)
        self.assertEqual(self.value("kept", session="before"), 42)
        self.assertEqual(self.value("1 + 1", session="after"), 2)
        self.assertNotEqual(self.next_template(), first)
        self.assertEqual(self.value("kept", session="before"), 42)

    def test_a_template_that_dies_when_asked_costs_no_call(self):
        self.ok("1")
        template = self.next_template()
        os.kill(template, signal.SIGSTOP)
        waiting = self.server.start_call("6 * 7", session="asked")
        time.sleep(0.3)  # it has the request by then, and has not begun
        os.kill(template, signal.SIGKILL)
        self.assertEqual(waiting.result()["structuredContent"]["value"]["json"], 42)

    def test_the_client_is_out_of_the_templates_reach(self):
        # Its standard streams are not the server's: code that an image runs at start can't send MCP messages.
        self.ok("1")
        template = self.next_template()
        if not os.access(f"/proc/{template}/fd", os.X_OK):
            # It has a subordinate id, and not even its user may read it. The same code runs as root and with the user's own id.
            self.assertNotEqual(os.stat(f"/proc/{template}").st_uid, os.geteuid())
            return
        for fd in (0, 1):
            self.assertEqual(os.readlink(f"/proc/{template}/fd/{fd}"), "/dev/null")
        # Standard error is not the server's, whose other end (or file) belongs to this test.
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}
        messages = os.readlink(f"/proc/{template}/fd/2")
        self.assertTrue(messages.startswith("pipe:"), messages)
        self.assertNotIn(messages, ours)

    def test_topology(self):
        names = [name for name, _ in self.statuses()]
        self.assertGreaterEqual(len(names), 5, names)


if __name__ == "__main__":
    harness.main()
