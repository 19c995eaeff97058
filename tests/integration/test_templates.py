"""Templates that are killed, stopped or cannot start: replaced without a failing call, or one clear error. Their number."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import harness
import rawmcp

SLOW = "import time\ntime.sleep(%s)\n"

# Code of an image in a worker that is being created: its hooks run while init starts. It attempts each attack for as long
# as init may take to start, and the same actions where they are allowed.
HOOK = """
import ctypes, errno, os, signal, time
import _cloister

libc = ctypes.CDLL(None, use_errno=True)
found = {}

def ptrace(request, pid):
    if libc.ptrace(request, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")

ATTEMPTS = {
    "memory": lambda pid: open("/proc/%s/mem" % pid, "rb", 0).close(),
    "descriptors": lambda pid: os.listdir("/proc/%s/fd" % pid),
    "attach": lambda pid: ptrace(16, pid),
    "seize": lambda pid: ptrace(0x4206, pid),
    "maps": lambda pid: open("/proc/%s/maps" % pid).read(),
    "oom": lambda pid: open("/proc/%s/oom_score_adj" % pid, "w").close(),
    "SIGKILL": lambda pid: os.kill(pid, signal.SIGKILL),
    "SIGSTOP": lambda pid: os.kill(pid, signal.SIGSTOP),
    "SIGINT": lambda pid: os.kill(pid, signal.SIGINT),
    "fileno": lambda pid: _cloister.fileno(),
    "read": lambda pid: _cloister.read([]),
    "send": lambda pid: _cloister.send(1, 1, b"{}"),
}

def outcome(name, pid):
    try:
        ATTEMPTS[name](pid)
    except OSError as e:
        return errno.errorcode[e.errno]
    except RuntimeError as e:
        return str(e)
    return "done"

def hook():
    if found:
        return
    found["init"] = {name: [] for name in ATTEMPTS}
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        for name, seen in found["init"].items():
            what = outcome(name, 1)
            if what not in seen:
                seen.append(what)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    found["child"] = {name: [outcome(name, child)] for name in ("memory", "descriptors", "SIGKILL")}
    found["ended"] = os.waitpid(child, 0)[1]

os.register_at_fork(after_in_child=hook)
"""

# A module of an image that is imported before most of ours, and records what is compiled and what is loaded compiled.
WATCH = """
import re, sys

loaded, compiled = [], []

def watch(event, args):
    if event == "marshal.loads":
        loaded.extend(name.decode() for name in re.findall(rb"<cloister>/([a-z]+)[.]py", args[0])[:1])
    elif event == "compile":
        compiled.append(str(args[1]))

sys.addaudithook(watch)
"""


class Templates(harness.Case):
    def setUp(self):
        super().setUp()
        # Sandboxes of root have ids of their own, to which our directories must be open.
        os.chmod(self.dir, 0o755)

    def serve(self, **config):
        server = rawmcp.RawServer("--log-level", "info", "--config", self.config(**config))
        self.addCleanup(server.free)
        server.initialize()
        return server

    @staticmethod
    def templates(server):
        """The stub is the first process in a template's namespaces; a session is one namespace deeper."""
        found = []
        for pid in harness.descendants(server.process.pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as f:
                (ids,) = [line.split()[1:] for line in f if line.startswith("NSpid:")]
                if len(ids) == 2 and ids[-1] != "1" and harness.stat_of(pid)[0] == server.process.pid:
                    found.append(pid)
        return found

    def template(self, server):
        found = []
        self.assertTrue(harness.wait_until(lambda: found.append(self.templates(server)) or len(found[-1]) == 1), found[-1:])
        return found[-1][0]

    def ok(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")

    def preloading(self, text):
        """Settings of a profile whose template imports a module of this text."""
        return {"preload": ["early"], **self.adding("early", text)}

    def adding(self, name, text):
        """Settings of a profile whose standard library has a module of this name and text."""
        package = self.path(name)
        os.mkdir(package)
        os.chmod(package, 0o755)
        with open(f"{package}/__init__.py", "w", encoding="utf-8") as f:
            f.write(text)
        return {"mounts": [{"source": package, "target": self.stdlib() + "/" + name}]}

    def stdlib(self):
        ran = self.run_cloister("run", "-c", "import sysconfig; print(sysconfig.get_paths()['stdlib'])")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.decode().strip()


class Killed(Templates):
    def test_while_idle(self):
        server = self.serve(pool=0)
        self.assertEqual(self.ok(server, "x = 1", session="old"), None)
        for i in range(6):
            os.kill(self.template(server), signal.SIGKILL)
            self.assertEqual(self.ok(server, "1 + 1", session=f"s{i}"), 2)
        self.assertEqual(self.ok(server, "x", session="old"), 1, "a session died with its template")
        self.assertEqual(server.close(), 0)

    def test_while_it_starts(self):
        server = self.serve(pool=0, **self.preloading(SLOW % 1))
        call = server.start_call("1 + 1", session="a")
        first = self.template(server)
        time.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        self.assertEqual(call.result()["structuredContent"]["value"]["json"], 2)
        self.assertNotEqual(self.template(server), first)

    @harness.once
    def test_while_a_line_of_twenty_waits(self):
        """At every moment of making sessions; a stopped template lets the line grow."""
        server = self.serve(pool=0)
        self.ok(server, "1", session="warm")
        for attempt in range(4):
            template = self.template(server)
            if attempt % 2:
                os.kill(template, signal.SIGSTOP)
            calls = [server.start_call("1 + 1", session=f"s{attempt}-{i}") for i in range(20)]
            time.sleep(0.1 if attempt % 2 else 0.004 * attempt)
            os.kill(template, signal.SIGKILL)
            results = [call.result()["structuredContent"] for call in calls]
            self.assertEqual([r["status"] for r in results], ["ok"] * 20, [r for r in results if r["status"] != "ok"])
            for i in range(20):
                server.ask("tools/call", {"name": "run_python", "arguments": {"code": "import os; os._exit(0)", "session": f"s{attempt}-{i}"}})
        self.assertIn("profile default: its template is started again: the template was killed while", server.log())

    def test_again_and_again_while_sessions_are_made(self):
        server = self.serve(pool={"min": 1, "max": 4})
        stop = threading.Event()
        killed, made = [], 0

        def kill():
            # Time for one to start in between: those that are killed as they start are given up after a few.
            while not stop.wait(1.5):
                for pid in self.templates(server):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            end = time.monotonic() + 60
            while len(killed) < 4 and time.monotonic() < end:
                self.assertEqual(self.ok(server, "40 + 2", session=f"s{made % 40}", reset=True), 42)
                made += 1
                time.sleep(0.02)
        finally:
            stop.set()
            killer.join()
        self.assertGreaterEqual(len(killed), 4)
        self.assertGreater(made, 20)

    def test_of_another_profile(self):
        server = self.serve(pool=0, profiles={"lab": {"agent": True, "preload": ["wave"]}})
        code = "import sys; 'wave' in sys.modules"
        self.assertFalse(self.ok(server, code, session="a"))
        (usual,) = self.templates(server)
        self.assertTrue(self.ok(server, code, session="b", profile="lab"))
        (lab,) = set(self.templates(server)) - {usual}
        os.kill(lab, signal.SIGKILL)
        self.assertTrue(self.ok(server, code, session="c", profile="lab"))
        self.assertFalse(self.ok(server, code, session="d"))
        self.assertIn(usual, self.templates(server), "a profile that had nothing to do with it lost its template")


# The dummy cells of a template are lost; those of its workers are not.
LOSES_CELLS = '''import os
from cloister.session import Session
on_exec, forked = Session._on_exec, []
def lose(self, number, payload):
    if forked:
        on_exec(self, number, payload)
Session._on_exec = lose
os.register_at_fork(after_in_child=lambda: forked.append(True))
'''

# Counts the cells of the template, and in a worker, those of the template before it was cloned and its own.
COUNTS_CELLS = """from cloister.session import Session
on_exec, count = Session._on_exec, [0]
def counted(self, number, payload):
    count[0] += 1
    on_exec(self, number, payload)
Session._on_exec = counted
"""

# The first cell of a worker, which is its dummy cell if it warms up, takes a second and then gets SIGINT.
INTERRUPTS_FIRST_CELL = """import os, signal, time
from cloister.interrupts import Interrupts
begin, first = Interrupts.begin, []
def slow(self):
    begin(self)
    if first:
        first.clear()
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)
Interrupts.begin = slow
os.register_at_fork(after_in_child=lambda: first.append(True))
"""


class WarmUp(Templates):
    """Dummy cells of an idle template, and of a worker that finds no cell when it starts."""

    def test_leaves_nothing_behind(self):
        server = self.serve(pool=0, **self.preloading(COUNTS_CELLS))
        count = "import early; early.count[0]"
        self.ok(server, "1 + 1", session="a")
        template = self.template(server)
        names = (f"of-{n}" for n in range(10000))
        self.assertTrue(harness.wait_until(lambda: self.ok(server, count, session=next(names)) > 16, step=0.2), "no warm-up")
        self.assertFalse(self.ok(server, "import builtins; hasattr(builtins, '_')", session="b"))
        self.assertEqual(self.ok(server, "6 * 7", session="c"), 42)
        self.assertEqual(self.template(server), template)

    def test_that_loses_its_cell_ends_the_template(self):
        server = self.serve(pool=0, **self.preloading(LOSES_CELLS))
        # Search before the answer: afterwards the process may have ended already.
        call = server.start_call("6 * 7", session="a")
        template = self.template(server)
        self.assertEqual(call.result()["structuredContent"]["value"]["json"], 42)
        self.assertTrue(harness.wait_until(lambda: template not in self.templates(server)), "it waits for ever")
        self.assertEqual(self.ok(server, "6 * 7", session="b"), 42)
        self.assertEqual(self.ok(server, "6 * 7", session="a"), 42)

    @harness.once
    def test_an_interrupt_of_it_is_for_the_cell_that_waits(self):
        settings = self.preloading(INTERRUPTS_FIRST_CELL)
        server = self.serve(pool=0, profiles={"slow": {"agent": True, "pool": 1, **settings}})
        server.cell("1", profile="slow", session="a")
        self.assertTrue(harness.wait_until(lambda: self.sessions(server) == 2), "no session in the pool")
        cell = server.cell("import time\ntime.sleep(5)", profile="slow", session="b")
        self.assertEqual(cell.get("error", {}).get("type"), "KeyboardInterrupt", cell)
        # Without a cell that waits, it is for none.
        self.assertTrue(harness.wait_until(lambda: self.sessions(server) == 3), "no session in the pool")
        time.sleep(harness.patient(2))
        self.ok(server, "1", profile="slow", session="c")

    @staticmethod
    def sessions(server):
        """Returns the number of sandboxes: each has its own process 1."""
        return len(Hooks.inits(server))


class AlwaysDies(Templates):
    def test_as_it_starts(self):
        """A template that exits gives an error at once; one that is killed each time, after a few attempts."""
        for text, attempts in ("import os\nos._exit(3)\n", 1), ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", 4):
            with self.subTest(text=text):
                settings = self.preloading("import os\nos.open('/tmp/x', os.O_CREAT)\n" + text)
                server = self.serve(pool=0, profiles={"bad": {"agent": True, **settings}})
                started = time.monotonic()
                cell = server.cell("1", session="a", profile="bad")
                self.assertLess(time.monotonic() - started, harness.patient(20))
                self.assertEqual(cell["status"], "error", cell)
                self.assertIn("the template", cell["error"]["message"])
                self.assertIn('profile "bad"', cell["error"]["message"])
                self.assertNotIn("\n", cell["error"]["message"])
                self.assertIn("ended while it started" if attempts == 1 else "was killed", cell["error"]["message"])
                # The next call tries again, and others are not touched.
                self.assertEqual(server.cell("1", session="a", profile="bad")["status"], "error")
                self.assertEqual(self.ok(server, "2", session="b"), 2)
                server.close()
                os.unlink(self.path("early") + "/__init__.py")
                os.rmdir(self.path("early"))


class Modules(Templates):
    def test_ours_come_compiled(self):
        server = self.serve(pool=0, profiles={"watched": {"agent": True, **self.adding("sitecustomize", WATCH)}})
        self.ok(server, "help(tools)\n_search('x')", profile="watched")
        found = self.ok(server, "import sitecustomize as s\n[s.loaded, s.compiled]", profile="watched")
        self.assertLessEqual({"session", "cell", "calls", "discovery"}, set(found[0]), found)
        self.assertEqual([name for name in found[1] if "cloister" in name], [])
        # The control: what is compiled shows.
        self.assertTrue([name for name in found[1] if name.startswith("<cell ")], found)


class Hooks(Templates):
    def test_what_runs_beside_a_starting_init_does_not_reach_it(self):
        hooked = {"agent": True, **self.preloading(HOOK)}
        for pool in 0, 1:
            with self.subTest(pool=pool):
                server = self.serve(pool=pool, profiles={"hooked": hooked})
                found = self.ok(server, "import early; early.found", profile="hooked")
                init = found["init"]
                for name in "memory", "descriptors", "maps", "oom":
                    self.assertTrue(init[name] and set(init[name]) <= {"EACCES", "EPERM", "ENOENT"}, found)
                for name in "attach", "seize":
                    self.assertEqual(init[name], ["EPERM"], found)
                for name in "fileno", "read", "send":
                    self.assertEqual(len(init[name]), 1, found)
                    self.assertIn("only the session's first process can talk", init[name][0])
                # Refused by Landlock since Linux 6.12; the first process of a namespace gets only signals for which it has a handler.
                for name in "SIGKILL", "SIGSTOP", "SIGINT":
                    self.assertLessEqual(set(init[name]), {"done", "EPERM"}, found)
                # They still run; a stopped one would stay stopped.
                states = lambda: {harness.stat_of(pid)[1] for pid in self.inits(server)}
                self.assertTrue(harness.wait_until(lambda: states() == {"S"}), states())
                # The controls: the same, and it is allowed.
                self.assertEqual(found["child"], dict.fromkeys(found["child"], ["done"]))
                self.assertEqual(found["ended"], signal.SIGKILL)
                self.assertEqual(self.ok(server, "6 * 7", profile="hooked"), 42)
                self.assertEqual(server.close(), 0)

    @staticmethod
    def inits(server):
        """The first process of each session."""
        found = []
        for pid in harness.descendants(server.process.pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as f:
                (ids,) = [line.split()[1:] for line in f if line.startswith("NSpid:")]
                if len(ids) == 3 and ids[-1] == "1":
                    found.append(pid)
        return found


class Many(Templates):
    @harness.once
    def test_at_most_four_idle_ones(self):
        names = [f"p{i}" for i in range(8)]
        server = self.serve(pool=0, profiles={n: {"agent": True, "limits": {"tmp": f"{i + 1} MiB"}} for i, n in enumerate(names)})
        self.ok(server, "1")
        for name in names:
            self.assertEqual(self.ok(server, "x = 5; x", session=name, profile=name), 5)
            self.assertLessEqual(len(self.templates(server)), 5, "the usual one, and four others")
        self.assertGreaterEqual(len(self.templates(server)), 4)
        # The least recently used one was ended: its sessions continue, and it is started again.
        self.assertEqual([self.ok(server, "x", session=n) for n in names], [5] * 8)
        self.assertEqual(self.ok(server, "7", session="again", profile="p0"), 7)
        self.assertLessEqual(len(self.templates(server)), 5)


class Children(harness.Case):
    """Only processes that do not belong to a requested template are killed."""

    def test_several_templates_at_once(self):
        profiles = {name: {"agent": True} for name in "abc"}
        for _ in range(4):
            server = rawmcp.RawServer("--config", self.config(profiles=profiles, pool=4))
            self.addCleanup(server.free)
            server.initialize()
            calls = [server.start_call("1", session=f"{name}{i}", profile=name) for i in range(4) for name in profiles]
            for call in calls:
                cell = call.result(2 * harness.PATIENCE)["structuredContent"]
                self.assertEqual((cell["status"], cell["state"]), ("ok", "new"), cell)
            self.assertNotIn("did not ask for", server.log())
            self.assertEqual(server.close(), 0)

    def test_a_process_that_a_shell_left_before_its_exec(self):
        script = 'sleep 300 >&- 2>&- & echo $! > pid; exec "$0" run --config "$1" -c "print(1)"'
        done = subprocess.run(["/bin/sh", "-c", script, harness.CLOISTER, self.config()], cwd=self.dir, env=harness.environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60)
        with open(self.path("pid"), encoding="ascii") as f:
            pid = int(f.read())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        self.assertNotIn(b"did not ask for", done.stderr)
        self.assertTrue(harness.alive(pid))


if __name__ == "__main__":
    harness.main()
