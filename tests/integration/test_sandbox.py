"""What code in the sandbox sees of the machine: nothing that it should not. Each refusal stands beside its control."""

import os
import re
import signal
import time

import harness
import rawmcp


class Sandbox(rawmcp.ServerCase):
    """Looks out from inside, with plain Python."""

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
        # An ordinary user without subordinate ids cannot give up the groups that he has; inside all but his own are nobody's.
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
        """The workers' uids as this machine sees them."""
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
        inside = self.value("import os, sys; s = os.stat(os.path.realpath(sys.executable)); [s.st_dev, s.st_ino]")
        host = os.stat(os.path.realpath(harness.PYTHON))
        self.assertNotEqual(inside, [host.st_dev, host.st_ino])

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
        code = "import socket\ns = socket.socket()\ns.settimeout(2)\ntry:\n    s.connect(('127.0.0.1', 1))\nexcept OSError as e:\n    r = type(e).__name__\nr"
        cell = self.cell(code)
        self.assertTrue(cell["status"] == "error" or cell["value"]["json"] in ("OSError", "PermissionError", "ConnectionRefusedError"), cell)
        code = "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=2)"
        self.assertEqual(self.cell(code)["status"], "error")

    def test_abstract_sockets_of_the_host_are_out_of_reach(self):
        import socket
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
                                                        "SHLVL", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE")], names)
        self.assertEqual(self.value("os.environ['HOME']"), "/workspace")

    def test_no_nested_namespaces(self):
        code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nr = [libc.unshare(0x10000000), ctypes.get_errno()]\nr"
        self.assertEqual(self.value(code)[0], -1)

    def test_dangerous_calls_are_refused(self):
        calls = {"mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)", "ptrace": "libc.ptrace(0, 0, 0, 0)",
                 "keyctl": "libc.syscall(250, 0, -3, 0)", "bpf": "libc.syscall(321, 0, 0, 0)",
                 "io_uring_setup": "libc.syscall(425, 1, 0)", "userfaultfd": "libc.syscall(323, 0)",
                 "perf_event_open": "libc.syscall(298, 0, 0, -1, -1, 0)", "setns": "libc.setns(0, 0)",
                 "chroot": "libc.chroot(b'/tmp')", "kexec_load": "libc.syscall(246, 0, 0, 0, 0)",
                 "init_module": "libc.syscall(175, 0, 0, 0)"}
        for name, call in calls.items():
            cell = self.cell(f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n{call}", session=f"call-{name}")
            self.assertTrue(cell["status"] == "killed" or cell["value"]["json"] == -1, (name, cell))

    def test_descriptors_at_the_start(self):
        code = "import os\nfds = {}\nfor f in os.listdir('/proc/self/fd'):\n    try: fds[f] = os.readlink('/proc/self/fd/' + f)\n    except OSError: pass\nfds"
        fds = self.value(code)
        others = {fd: what for fd, what in fds.items() if int(fd) > 2}
        for what in others.values():
            self.assertRegex(what, r"^(socket:|anon_inode:|pipe:|/proc/)", others)

    def test_no_core_dumps(self):
        self.assertEqual(self.value("import resource; resource.getrlimit(resource.RLIMIT_CORE)[0]"), 1)

    def test_init_is_out_of_reach(self):
        self.assertEqual(self.cell("open('/proc/1/environ').read() or 1/0")["status"], "error")
        self.assertEqual(self.cell("open('/proc/1/mem', 'r+b')")["status"], "error")

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

    def template(self):
        """The child of the monitor that runs the interpreter: sessions have an init between."""
        for pid in harness.descendants(self.server.process.pid):
            stat = harness.stat_of(pid)
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                arguments = f.read().split(b"\0")
            if stat and stat[0] == self.server.process.pid and os.path.basename(arguments[0]).startswith(b"python"):
                return pid
        self.fail("no template")

    def test_a_killed_template_costs_no_session(self):
        self.ok("kept = 42", session="before")
        first = self.template()
        os.kill(first, signal.SIGKILL)
        self.assertEqual(self.value("kept", session="before"), 42)
        self.assertEqual(self.value("1 + 1", session="after"), 2)
        self.assertNotEqual(self.template(), first)
        self.assertEqual(self.value("kept", session="before"), 42)

    def test_a_template_that_dies_when_asked_costs_no_call(self):
        self.ok("1")
        template = self.template()
        os.kill(template, signal.SIGSTOP)
        waiting = self.server.start_call("6 * 7", session="asked")
        time.sleep(0.3)  # it has the request by then, and has not begun
        os.kill(template, signal.SIGKILL)
        self.assertEqual(waiting.result()["structuredContent"]["value"]["json"], 42)

    def test_the_client_is_out_of_the_templates_reach(self):
        # Its standard streams are not the server's: what an image runs at start can't speak MCP.
        self.ok("1")
        template = self.template()
        if not os.access(f"/proc/{template}/fd", os.X_OK):
            # It has a subordinate id, and not even its user may look: the same code runs as root and with the user's own id.
            self.assertNotEqual(os.stat(f"/proc/{template}").st_uid, os.geteuid())
            return
        for fd in (0, 1):
            self.assertEqual(os.readlink(f"/proc/{template}/fd/{fd}"), "/dev/null")
        # Nor is the server's standard error, whose other end (or file) is ours.
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}
        messages = os.readlink(f"/proc/{template}/fd/2")
        self.assertTrue(messages.startswith("pipe:"), messages)
        self.assertNotIn(messages, ours)

    def test_topology(self):
        names = [name for name, _ in self.statuses()]
        self.assertGreaterEqual(len(names), 5, names)


if __name__ == "__main__":
    harness.main()
