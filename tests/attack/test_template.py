"""The image's code in the template: from the first byte that it runs, it is bounded, leaves no process behind and ends only itself."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import rawmcp
import test_packages

# A wheel whose .pth file imports it, as any package may have one: it runs in the template before all Python code of
# Cloister. The profile's preload selects its attack.
EVIL = '''
import array, contextlib, ctypes, errno, os, signal, socket, sys, time
import _cloister

libc = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
CLONE, CLONE_PARENT, CLONE_NEWUSER, CLONE_NEWPID = {"x86_64": 56}.get(os.uname().machine, 220), 0x8000, 0x10000000, 0x20000000
CONTROL = 3
READY, FAILED, HERE, MADE = 2, 3, 5, 7
SIZE = (8 + os.fstat(7).st_size + 7) & -8  # of a message: a header and the longest content, the plan, which is in descriptor 7
taken, notes = [], []


def message(kind):
    return kind.to_bytes(4, "little").ljust(SIZE, b"\\0")


def control():
    return socket.socket(fileno=os.dup(CONTROL))


def name(text):
    with open("/proc/self/comm", "w") as f:
        f.write(text)


def attempt(what, *arguments):
    r = libc.syscall(*arguments)
    notes.append("%s %d" % (what, ctypes.get_errno() if r < 0 else 0))
    return r


def note(what, call, *arguments):
    try:
        call(*arguments)
        notes.append("%s 0" % what)
    except OSError as e:
        notes.append("%s %d" % (what, e.errno))


def harmless():
    pass


def memory(most=1024):
    while len(taken) < most // 32:
        taken.append(b"x" * (32 * MIB))


def some_memory():
    memory(64)


def processes(most=400):
    for _ in range(most):
        if os.fork() == 0:
            name("evil-child")
            signal.pause()
            os._exit(0)
        taken.append(1)
        time.sleep(0.003)  # without a control group the monitor counts each 20 ms: the test is about the count, not about how fast a processor forks


def some_processes():
    processes(20)


def leave():
    """Children of the template, of PID 1, and in namespaces of their own; they write to every worker."""
    for flags, twice in (0, False), (0, True), (CLONE_NEWUSER | CLONE_NEWPID, False):
        if libc.syscall(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            if twice and os.fork():
                os._exit(0)
            os.setsid()
            name("evil-left")
            for number in range(1, 65):
                if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                    signal.signal(number, signal.SIG_IGN)
            while True:
                overwrite()
                time.sleep(0.01)
    time.sleep(0.2)


def overwrite():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) in (1, os.getpid(), os.getppid()):
                continue
            with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "r+b", 0) as mem:
                for line in maps:
                    ends, mode = line.split()[:2]
                    if not mode.startswith("rw") or "[v" in line:
                        continue
                    start, end = (int(x, 16) for x in ends.split("-"))
                    mem.seek(start)
                    at = mem.read(end - start).find(b"mark" b"-of-the-session")
                    if at >= 0:
                        mem.seek(start + at)
                        mem.write(b"MARK")
        except (OSError, ValueError):
            pass


def later():
    """Forks when a session is made."""
    os.register_at_fork(before=_fork_once)


def _fork_once():
    taken.append(1)
    pid = libc.fork()
    if pid == 0:
        name("evil-later")
        signal.pause()
        os._exit(0)


def squat():
    """Puts the second session into the network namespace of the first one."""
    def move():
        if not taken:
            taken.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        else:
            attempt("setns", 308, taken[0], 0x40000000)
    os.register_at_fork(before=move)


def haunt():
    """Leaves a socket in the network namespace of each session."""
    os.register_at_fork(before=lambda: taken.append(socket.socket(socket.AF_UNIX)))


HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: _fork_once())


def give():
    """Gives the monitor a child that it did not ask for, at the start."""
    if libc.syscall(CLONE, CLONE_PARENT, 0, 0, 0, 0) == 0:
        name("evil-later")
        signal.pause()
        os._exit(0)


def adopt():
    """Gives the monitor a child that it did not ask for, when a session is made."""
    def clone():
        taken.append(1)
        if libc.syscall(CLONE, CLONE_PARENT, 0, 0, 0, 0) == 0:
            name("evil-later")
            signal.pause()
            os._exit(0)
    os.register_at_fork(before=clone)


def alarm():
    """Forks while the template waits."""
    libc.signal(signal.SIGALRM, HANDLER)
    signal.setitimer(signal.ITIMER_REAL, 0.8)


def thread():
    import threading
    threading.Thread(target=signal.pause, daemon=True).start()


def numeric():
    """As OpenBLAS does when numpy is imported."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        thread()


def close():
    os.closerange(0, 65536)


def garbage():
    control().send(b"\\xff" * 100)


def long_garbage():
    control().send(b"\\xff" * 60000)


def descriptors():
    files = array.array("i", [os.open("/dev/null", os.O_RDONLY) for _ in range(200)])
    note("rights", control().sendmsg, [message(READY)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])


def lie():
    """Ready before it is; and what comes then is not a session."""
    control().send(message(READY))
    s = control()
    s.recv(SIZE)
    s.send(message(MADE))
    signal.pause()


def claim():
    control().send(message(READY))
    s = control()
    s.recv(SIZE)
    s.send(message(HERE))
    signal.pause()


def foreign():
    """Announces a process that is not its own child: the monitor's, as far as it can name one."""
    control().send(message(READY))
    s = control()
    s.recv(SIZE)
    for pid in 1, os.getppid(), 2:
        credentials = b"".join(n.to_bytes(4, "little") for n in (pid, 0, 0))
        note("pid %d" % pid, s.sendmsg, [message(HERE)], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
    signal.pause()


def hasty():
    """Says that children of others, an earlier one of its own and itself are the requested PID 1, does not wait for the monitor, and reports it as made."""
    control().send(message(READY))
    s = control()
    s.recv(SIZE)
    here = message(HERE)
    for pid in [*range(2, 200), os.getpid()]:
        credentials = b"".join(n.to_bytes(4, "little") for n in (pid, 0, 0))
        with contextlib.suppress(OSError):  # no process of its namespace: the kernel refuses it
            s.sendmsg([here], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
            s.send(message(MADE))
    signal.pause()


def stale():
    """A failure whose code would tell the monitor that this template has ended."""
    control().send(message(READY))
    s = control()
    while s.recv(SIZE):
        s.send((8).to_bytes(8, "little") + errno.ESTALE.to_bytes(4, "little") + b"stale".ljust(SIZE - 12, b"\\0"))


def twice():
    control().send(message(READY))


def silent():
    signal.pause()


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def flood():
    line = b"flood " * 10 + b"\\n"
    for _ in range(100000):
        os.write(2, line * 100)


def stub():
    for number in signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM:
        os.kill(1, number)
    note("trace", lambda: attempt("ptrace", 101, 16, 1, 0, 0))
    note("memory", open, "/proc/1/mem", "r+b")
    note("killed all", os.kill, -1, signal.SIGKILL)


def mounts():
    """A tmpfs over its own tree: the next sessions have it too."""
    fs = libc.syscall(430, b"tmpfs", 1)
    libc.syscall(431, fs, 6, None, None, 0)
    mount = libc.syscall(432, fs, 1, 0)
    attempt("move", 429, mount, b"", -100, b"/usr/share", 4)
    fs = libc.syscall(430, b"cgroup2", 1)
    notes.append("cgroup2 %d" % (0 if fs >= 0 else ctypes.get_errno()))
    attempt("cgroup namespace", 272, 0x02000000)
    fs = attempt("fsopen cgroup2", 430, b"cgroup2", 1)
    attempt("create", 431, fs, 6, None, None, 0)
    mount = attempt("fsmount", 432, fs, 1, 0)
    taken.append(mount)
    if mount >= 0:
        for found in os.listdir("/proc/self/fd/%d" % mount):
            if found in ("memory.max", "pids.max", "cgroup.procs", "cpu.max"):
                note("write " + found, lambda: open("/proc/self/fd/%d/%s" % (mount, found), "w").write("max"))


def limits():
    import resource
    for which in range(16):
        try:
            resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            notes.append("limit %d 0" % which)
        except (OSError, ValueError):
            notes.append("limit %d 1" % which)


def enter():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for space in "user", "pid", "mnt", "net", "ipc", "uts", "cgroup":
            try:
                fd = os.open("/proc/%s/ns/%s" % (pid, space), os.O_RDONLY)
            except OSError:
                continue
            attempt("setns", 308, fd, 0)
            os.close(fd)


def trace():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()):
            notes.append("sees %s" % pid)
    attempt("traceme", 101, 0, 0, 0, 0)
    attempt("attach", 101, 16, os.getppid(), 0, 0)


for wanted in _cloister.preload().split():
    if wanted.startswith("evil_"):
        globals()[wanted[5:]]()
'''

WAYS = [line.split("(")[0][4:] for line in EVIL.splitlines() if line.startswith("def ") and "():" in line or "(most" in line]


def wheel(folder):
    files = {"evil.py": EVIL, "evil.pth": "import evil\n"}
    files.update((f"evil_{way}.py", "") for way in WAYS)
    return test_packages.wheel(folder, "evil", "1.0", files)


PLACE = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
ENVIRONMENT = harness.environment(CLOISTER_IMAGE_STORE=f"{PLACE}/images")


def setUpModule():
    """Builds one image for all tests."""
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    os.mkdir(f"{PLACE}/wheels")
    wheel(f"{PLACE}/wheels")
    subprocess.run([harness.CLOISTER, "image", "build", "--offline", "--find-links", f"{PLACE}/wheels", "--with", "evil",
                    "--name", "evil"], env=ENVIRONMENT, check=True, timeout=harness.patient(120), capture_output=True)


class Template(harness.Case):
    """Each way to be hostile is a profile, beside an innocent one with the same image."""

    def serve(self, *ways, **settings):
        profiles = {way: {"agent": True, "image": "evil", "preload": [f"evil_{way}"], "pool": 0, **settings} for way in ways}
        config = self.config(profiles={"good": {"agent": True, "image": "evil", "pool": 0}, **profiles}, pool=0)
        server = rawmcp.RawServer("--log-level", "info", "--config", config, env=ENVIRONMENT)
        self.addCleanup(server.free)
        server.initialize()
        self.ok(server, "state = 41", profile="good", session="good")
        return server

    def ok(self, server, code, **arguments):
        cell = server.cell(code, wait=harness.patient(60), **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")

    def refused(self, server, way, **arguments):
        """The message of the failed start: one line."""
        cell = server.cell("1", profile=way, session=way, wait=harness.patient(60), **arguments)
        self.assertEqual(cell["status"], "error", cell)
        message = cell["error"]["message"]
        self.assertNotIn("\n", message)
        return message

    def others_go_on(self, server):
        """The state of a session of another profile, and a new one."""
        self.assertEqual(self.ok(server, "state += 1; state", profile="good", session="good"), 42)
        self.ok(server, "state = 41", profile="good", session="good")
        self.assertEqual(self.ok(server, "6 * 7", profile="good", session=f"new-{time.monotonic_ns()}"), 42)

    @staticmethod
    def named(server, name):
        return [pid for pid, found in harness.descendants(server.process.pid).items() if found == name]

    @staticmethod
    def processes(server):
        return len(harness.descendants(server.process.pid))


class Limits(Template):
    def most(self, server, seconds=20):
        """The largest memory of all our processes together (KiB) and number of processes, until the call is answered."""
        memory = processes = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.call.done():
            pids, total = harness.descendants(server.process.pid), 0
            for pid in pids:
                with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                    total += int(next(line for line in f if line.startswith("Pss:")).split()[1])
            memory, processes = max(memory, total), max(processes, len(pids))
            time.sleep(0.005)
        return memory, processes

    def test_memory(self):
        server = self.serve("memory", "some_memory")
        before = self.processes(server)
        self.call = server.start_call("1", profile="memory", session="a")
        memory, _ = self.most(server)
        cell = self.call.result(harness.patient(60))["structuredContent"]
        self.assertLess(memory, 700 * 1024, "more than the profile's 512 MiB and our own processes")
        if cell["status"] == "error":
            self.assertRegex(cell["error"]["message"], r"512 MiB.*limits\.memory|MemoryError")
            self.assertNotIn("\n", cell["error"]["message"])
        else:
            # Without a control group Python gets the error; site prints it and continues.
            self.assertIn("MemoryError", server.log())
        self.others_go_on(server)
        # The control: less than the limit is allowed.
        self.assertEqual(self.ok(server, "import evil; len(evil.taken)", profile="some_memory", session="b"), 2)
        # A session has three processes: init, the worker and its sleeping copy.
        self.assertLess(self.processes(server), before + 16)

    def test_processes(self):
        server = self.serve("processes", "some_processes")
        before = self.processes(server)
        self.call = server.start_call("1", profile="processes", session="a")
        _, processes = self.most(server)
        cell = self.call.result(harness.patient(60))["structuredContent"]
        self.assertEqual(cell["status"], "error", cell)
        self.assertRegex(cell["error"]["message"], r"128 processes.*limits\.pids" if harness.ROOT else r"limits\.(pids|memory)")
        self.assertNotIn("\n", cell["error"]["message"])
        self.assertLess(processes, before + 128 + 50)
        self.assertTrue(harness.wait_until(lambda: not self.named(server, "evil-child")))
        self.others_go_on(server)
        # The control: fewer processes than the limit may be started, and they have ended before the first session.
        self.assertEqual(self.ok(server, "import evil; len(evil.taken)", profile="some_processes", session="b"), 20)
        self.assertEqual(self.named(server, "evil-child"), [])

    def test_it_cannot_raise_them(self):
        """A template can raise neither its own limits nor those of its sessions."""
        server = self.serve("limits")
        code = "import resource, evil\n[list(resource.getrlimit(which)) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]"
        same = self.ok(server, code.replace(", evil", ""), profile="good", session="good")
        self.assertEqual(self.ok(server, code, profile="limits", session="a"), same)
        found = self.ok(server, "import evil; evil.notes", profile="limits", session="a")
        self.assertIn("limit 7 1", found, "RLIMIT_NOFILE")
        self.others_go_on(server)


class Leftovers(Template):
    MARK = "mark = bytearray(b'mark' + b'-of-the-session') * 2000\nlen(mark)"
    KEPT = "import time\nfor _ in range(20):\n    time.sleep(0.05)\nbytes(mark[:19]) + bytes(mark[-19:]) == b'mark-of-the-session' * 2"

    def test_nothing_of_it_is_left_beside_a_session(self):
        """The process finds no worker and writes to no worker, whatever its ids are."""
        server = self.serve("leave", "harmless")
        for way in "leave", "harmless":
            self.ok(server, self.MARK, profile=way, session=way)
            self.assertEqual(self.named(server, "evil-left"), [])
            self.assertTrue(self.ok(server, self.KEPT, profile=way, session=way), "the memory of a worker was written to")
        self.others_go_on(server)

    def test_one_that_it_forks_for_a_session_ends_all(self):
        server = self.serve("later", "adopt", "give")
        for way in "later", "adopt", "give":
            message = self.refused(server, way)
            self.assertRegex(message, "process|clone3: Resource temporarily unavailable")
            self.assertTrue(harness.wait_until(lambda: not self.named(server, "evil-later")))
            self.others_go_on(server)

    def test_one_that_it_forks_while_it_waits(self):
        server = self.serve("alarm")
        self.ok(server, "1", profile="alarm", session="a")
        if "no control group: " in server.log():
            # Without a control group the template and its sessions are ended soon, and the log contains the reason.
            self.assertTrue(harness.wait_until(lambda: "has left a process (\"evil-later\")" in server.log()), server.log())
            self.assertTrue(harness.wait_until(lambda: not self.named(server, "evil-later")))
        else:
            # With a control group it cannot fork. The session continues.
            time.sleep(1)
            self.assertEqual(self.named(server, "evil-later"), [])
            self.ok(server, "1", profile="alarm", session="a")
        self.others_go_on(server)

    def test_threads_are_refused(self):
        server = self.serve("thread")
        self.assertRegex(self.refused(server, "thread"), r"a \.pth file or sitecustomize.*starts threads.*OMP_NUM_THREADS=1")
        self.others_go_on(server)

    def test_a_numeric_library_in_a_pth_file_starts_none(self):
        """Its variable is set before any code of the image runs, and no session has it."""
        server = self.serve("numeric")
        code = "import os\n[name for name in os.environ if name.endswith('_NUM_THREADS')]"
        self.assertEqual(self.ok(server, code, profile="numeric", session="a"), [])
        self.others_go_on(server)


@harness.once
class Hostile(Template):
    """Each hostile template ends only itself."""

    def test_what_it_sends(self):
        ways = "garbage", "long_garbage", "lie", "claim", "foreign", "twice", "close"
        server = self.serve(*ways)
        for way in ways:
            with self.subTest(way=way):
                message = self.refused(server, way)
                self.assertRegex(message, "the template|is not the requested one")
                self.others_go_on(server)
        self.assertEqual(server.close(), 0)

    def test_it_cannot_have_the_child_of_another(self):
        """While another template makes sessions, which get theirs."""
        server = self.serve("hasty")
        calls = [server.start_call("6 * 7", profile="good", session=f"burst-{n}") for n in range(12)]
        self.assertRegex(self.refused(server, "hasty"), "is not the requested one")
        for call in calls:
            self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["value"]["json"], 42)
        self.others_go_on(server)
        self.assertEqual(server.close(), 0)

    def test_a_failure_that_says_that_it_has_ended(self):
        """No request waits for another template while this one runs."""
        server = self.serve("stale")
        call = server.start_call("1", profile="stale", session="a")
        cell = call.result(harness.PATIENCE)["structuredContent"]
        self.assertEqual((cell["status"], "stale" in cell["error"]["message"]), ("error", True), cell)
        self.others_go_on(server)

    def test_one_that_is_never_ready(self):
        """Requests wait for it, and those of other profiles do not, nor does a template that is started meanwhile."""
        server = self.serve("silent", "stop", "harmless")
        calls = [server.start_call("1", profile=way, session=f"{way}-{n}") for way in ("silent", "stop") for n in range(12)]
        for _ in range(3):
            self.others_go_on(server)
        start = time.monotonic()
        self.assertEqual(self.ok(server, "6 * 7", profile="harmless", session="harmless"), 42)
        self.others_go_on(server)
        took = time.monotonic() - start
        self.assertEqual([call.result(1) for call in calls if call.done()], [])
        self.assertLess(took, harness.PATIENCE / 2)
        self.assertEqual(server.close(), 0)

    @staticmethod
    def written(pid):
        """Bytes that a process has passed to write(); 0: it has ended."""
        try:
            with open(f"/proc/{pid}/io", encoding="ascii") as f:
                return int(re.search(r"^wchar: (\d+)$", f.read(), re.M).group(1))
        except OSError:
            return 0

    def test_a_flood_of_messages(self):
        """610 MB: the log gets a limited part, and the monitor's loop stays responsive: each call is answered before another fortieth of
        the flood has been written, also a call that needs the monitor for a new session."""
        server = self.serve("flood")
        call = server.start_call("1", profile="flood", session="a")
        self.assertTrue(harness.wait_until(lambda: "template: flood" in server.log()), "the control")
        flood = max(harness.descendants(server.process.pid), key=self.written)
        self.assertGreater(self.written(flood), 1 << 16)
        # Its image may have to be copied first, which is not the monitor's loop.
        self.ok(server, "1", profile="good", session="beside")
        took = []
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            start, before = time.monotonic(), self.written(flood)
            self.ok(server, "1", profile="good", session="beside", reset=len(took) % 5 == 4)
            took.append(time.monotonic() - start)
            self.assertLess(self.written(flood) - before, 16 << 20)
        if harness.WHOLE:
            self.assertLess(max(took), harness.AT_ONCE)
        self.assertGreater(len(took), 5)
        logged = sum(len(line) for line in server.log().splitlines() if "template: " in line)
        self.assertLess(logged, 64 * 1024)
        self.others_go_on(server)
        self.assertFalse(call.done() and call.result()["structuredContent"]["status"] == "ok")

    def test_no_two_sessions_in_one_network_namespace(self):
        """It can enter those of its own sessions. The monitor sees where a session begins, and what sockets one has left."""
        number = "open('/proc/self/net/netlink').read().split()[-1]"
        server = self.serve("squat", "haunt", "harmless")
        first, second = (self.ok(server, f"import evil; [{number}, len(evil.taken)]", profile="squat", session=f"squat{i}") for i in range(2))
        self.assertNotEqual(first[0], second[0])
        made = re.findall(r"sandbox (\d+) is up .session squat", server.log())
        self.assertEqual(int(made[1]), int(made[0]) + 2, "the control: one was refused, and another template made the session")
        self.ok(server, "1", profile="squat", session="squat0")
        seen = {way: [self.ok(server, f"import evil; [{number}, len(evil.taken)]", profile=way, session=way, reset=i > 0) for i in range(4)]
                for way in ("haunt", "harmless")}
        self.assertEqual([n for _, n in seen["haunt"]], [1, 2, 3, 4], "the control: it did so")
        self.assertEqual(len({n for n, _ in seen["haunt"]}), 4)
        self.assertLess(len({n for n, _ in seen["harmless"]}), 4)
        self.others_go_on(server)

    def test_what_it_cannot_do(self):
        """The template can change its own mounts. The control: notes with 0 are calls that succeeded."""
        server = self.serve("stub", "mounts", "enter", "trace")
        found = {way: self.ok(server, "import evil; evil.notes", profile=way, session=way) for way in ("stub", "mounts", "enter", "trace")}
        self.assertIn("ptrace 1", found["stub"])
        self.assertIn("memory 13", found["stub"])
        self.assertIn("move 0", found["mounts"])
        self.assertEqual({note for note in found["enter"] if not note.startswith("setns")}, set())
        self.assertLessEqual(set(found["enter"]), {"setns 38"})
        self.assertEqual([note for note in found["trace"] if note.startswith("sees")], [])
        self.assertIn("traceme 1", found["trace"])
        self.assertFalse(any(note.startswith("write") and note.endswith(" 0") for note in found["mounts"]), found["mounts"])
        # Sessions of the template have its mounts; other sessions do not have them.
        self.assertEqual(self.ok(server, "import os; os.listdir('/usr/share')", profile="mounts", session="mounts"), [])
        self.assertNotEqual(self.ok(server, "import os; os.listdir('/usr/share')", profile="good", session="good"), [])
        self.others_go_on(server)


if __name__ == "__main__":
    harness.main()
