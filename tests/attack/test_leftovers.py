"""Classes 142 to 144: what a call leaves in its session tries to continue computing, or to outlive the call that was interrupted."""

import os
import time
import unittest

import harness
from rawmcp import RawServer

SPINNER = "import os\nfor _ in range(8):\n    if os.fork() == 0:\n        while True: pass\n"
TIMERS = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_long), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
class Times(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]
def timers():
    for n in range(200):
        timer = ctypes.c_int()
        assert libc.syscall(222, 1, ctypes.byref(Event(0, signal.SIGCONT, 0, b"")), ctypes.byref(timer)) == 0
        assert libc.syscall(223, timer, 0, ctypes.byref(Times(0, 53000000, n // 40, 53000000 + n % 40 * 23000003)), None) == 0
"""
ATTACKS = {
    # A process that runs when the others are stopped continues them.
    "continue": "import os, signal\nfor _ in range(12):\n    if os.fork() == 0:\n        while True:\n            os.kill(-1, signal.SIGCONT)\n",
    # A session, and so an autogroup, for each.
    "sessions": "import os\nfor _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n",
    # Processes that live shorter than what looks at them, and that no parent waits for.
    "short": """
import os, signal, time
for _ in range(4):
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            if os.fork() == 0:
                end = time.monotonic() + 0.003
                while time.monotonic() < end: pass
                os._exit(0)
""",
    # init works for each call longer than its caller.
    "asks": "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        while True: os.statvfs('/' + './' * 2000)\n",
    # Each forks the next one and ends.
    "hydra": """
import os, time
for _ in range(4):
    if os.fork() == 0:
        while True:
            end = time.monotonic() + 0.002
            while time.monotonic() < end: pass
            if os.fork() != 0: os._exit(0)
""",
    # Timers whose signal continues the process, one after the other: each is used once.
    "timers": TIMERS + "if os.fork() == 0:\n    timers()\n    while True: pass\n",
    # The first thread ends, and the process looks like one that has ended.
    "threads": TIMERS + """
import threading
if os.fork() == 0:
    threading.Thread(target=lambda: [timers(), [0 for _ in iter(int, 1)]]).start()
    libc.syscall(60, 0)
""",
    # A process that has stopped itself, and its child.
    "stopped": """
import os, signal
if os.fork() == 0:
    if os.fork() == 0:
        while True: pass
    os.kill(os.getpid(), signal.SIGSTOP)
""",
    # As a copy of the worker that init does not know yet.
    "stopped orphan": TIMERS + """
if os.fork() == 0:
    if os.fork() == 0:
        timers()
        os.kill(os.getpid(), signal.SIGSTOP)
        while True: pass
    os._exit(0)
""",
}

COUNT = """
import asyncio, time
counts = {}
async def tick(name):
    while True:
        counts[name] = counts.get(name, 0) + 1
        await asyncio.sleep(0.01)
asyncio.create_task(tick("old"))
1"""
# Tasks that do not end when they are cancelled.
STUBBORN = {
    "catches": """
async def catch():
    while True:
        try:
            await tick("new")
        except asyncio.CancelledError:
            pass
for _ in range(100): asyncio.create_task(catch())
""",
    "waits": """
async def wait():
    while True:
        try:
            await asyncio.sleep(0.01)
        except BaseException:  # the interrupt comes here if it is this task that runs
            while True: time.sleep(0.01); counts["new"] = counts.get("new", 0) + 1
asyncio.create_task(wait())
""",
    "breaks the loop": """
loop = asyncio.get_event_loop()
loop.tasks_of = loop.drop = None
asyncio.create_task(tick("new"))
""",
}


class Leftovers(harness.Case):
    prefix = ()

    def serve(self, name="config", **config):
        server = RawServer("--config", self.config(name=f"{name}.json", pool=0, **config), cwd=self.dir, prefix=self.prefix)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def inside(self, server):
        """Returns the processes of sessions: (number there, pid, ticks, path of the cgroup)."""
        found = []
        for pid in harness.descendants(server.process.pid):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    inner = [line.split() for line in f if line.startswith("NSpid:")][0]
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    words = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if words[0] not in "ZX" or int(words[17]) > 1:
                found.append((len(inner), int(inner[-1]), int(pid), sum(map(int, words[11:15]))))
        with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as f:
            own = next(len(line.split()) for line in f if line.startswith("NSpid:"))
        return [one[1:] for one in found if one[0] == own + 2]  # of pid namespaces: the template's, the sandbox's

    def idle_groups(self, server):
        """Returns whether each process of a session is in a group that is idle for the scheduler."""
        for _, pid, _ in self.inside(server):
            try:
                with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                    paths = [line.strip().split(":", 2)[1:] for line in f]
            except OSError:
                continue
            files = ["/sys/fs/cgroup" + (f"/{names}" if names else "") + path + "/cpu.idle" for names, path in paths if os.path.basename(path).startswith("s-")]
            files = [path for path in files if os.path.exists(path)]
            if files and open(files[0], encoding="ascii").read().strip() != "1":
                return False
        return True

    def serve_each(self, codes, **config):
        """Returns a server for each attack."""
        return {name: self.serve(name.replace(" ", "-"), **config) for name in codes}

    def see_all(self, servers, names):
        """Each server is in names() once: what processes do changes while they are listed."""
        seen = set()
        harness.wait_until(lambda: seen.update(names()) or seen >= set(servers))
        self.assertEqual(set(servers) - seen, set())

    def used(self, server):
        """The sum over processes that live shorter than the measurement: what init has waited for counts too. In seconds."""
        return sum(one[2] for one in self.inside(server)) / os.sysconf("SC_CLK_TCK")

    def test_code_does_not_undo_the_rest(self):
        servers = self.serve_each(ATTACKS, background={"cpu": "unlimited"})
        for name, server in servers.items():
            self.assertEqual(server.cell(ATTACKS[name])["status"], "ok", name)
        time.sleep(6)
        if harness.BOUNDED:
            self.assertEqual([name for name, server in servers.items() if not self.idle_groups(server)], [])
        else:
            # init stops what code has continued; where the machine has much other work, it may come late once.
            for last in False, True:
                before, start = {name: self.used(server) for name, server in servers.items()}, time.monotonic()
                time.sleep(5)
                parts = {name: (self.used(server) - before[name]) / (time.monotonic() - start) for name, server in servers.items()}
                above = {name: part for name, part in parts.items() if part >= 0.15}
                if last or not above:
                    break
            self.assertEqual(above, {})
        for name, server in servers.items():
            self.assertEqual(server.cell("1")["status"], "ok", name)
        # The control: while a call runs, they have their usual part.
        for server in servers.values():
            server.start_call("import time\ntime.sleep(60)")
        if harness.BOUNDED:
            busy = lambda: (name for name, server in servers.items() if not self.idle_groups(server))
            self.see_all(servers, busy)

    def test_an_interrupted_call_leaves_nothing(self):
        codes = {**ATTACKS, "spin": SPINNER}
        servers = self.serve_each(codes, state={"survives": False})
        for server in servers.values():
            server.cell("1")
        time.sleep(0.1)
        calls = {name: server.start_call(codes[name] + "while True: pass\n", timeout=1) for name, server in servers.items()}
        for name, call in calls.items():
            cell = call.result()["structuredContent"]
            self.assertEqual(cell["status"], "timeout", (name, cell))
        left = lambda: {name: found for name, server in servers.items() if (found := [one for one in self.inside(server) if one[0] > 2])}
        self.assertTrue(harness.wait_until(lambda: not left(), 10), left())
        # The control: of a call that ends well they stay.
        for name, server in servers.items():
            server.cell(codes[name])
        # Those of "hydra" live too shortly to be listed.
        self.see_all(set(servers) - {"hydra"}, left)

    def test_what_the_next_call_starts_lives(self):
        """Also where the interrupted call has left what looks like a copy that has no name yet: a stopped child of init."""
        stopped = "import os, signal, time\nif os.fork() == 0:\n    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)\n    os._exit(0)\n"
        for survives in True, False:
            with self.subTest(survives=survives):
                server = self.serve(state={"survives": survives})
                server.cell("1")
                time.sleep(0.3)  # a copy is made
                before = len(self.inside(server))
                cell = server.cell(stopped + "time.sleep(60)", timeout=1)
                self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
                code = "import subprocess\nchild = subprocess.Popen(['/bin/sleep', '60'])\ntime.sleep(1)\nchild.poll() is None"
                self.assertEqual(server.cell(code)["value"]["json"], True)
                if not survives:  # no copies
                    self.assertEqual(len(self.inside(server)), before + 1)
                server.free()

    @unittest.skipUnless(harness.ROOT, "the clock of a time namespace needs root")
    def test_a_machine_that_runs_for_300_days(self):
        """Clock ticks since its start do not fit into 31 bits."""
        self.prefix = ("unshare", "--time", f"--boottime={300 * 86400}", "--fork", "--kill-child")
        server = self.serve(state={"survives": False})
        sleeper = "import os, time\nif os.fork() == 0: time.sleep(600)\n"
        server.cell(sleeper)
        time.sleep(0.1)  # ticks are 10 ms
        cell = server.cell(sleeper + "time.sleep(600)", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        # The control: what an earlier call has started.
        self.assertTrue(harness.wait_until(lambda: len(self.inside(server)) == 3, 10), self.inside(server))

    def counted(self, server):
        """Returns how far each task has counted in a moment, in which a call runs."""
        return server.cell("before = dict(counts)\nawait asyncio.sleep(0.4)\n{name: n - before.get(name, 0) for name, n in counts.items()}")["value"]["json"]

    def test_tasks_of_an_interrupted_call(self):
        server = self.serve(state={"survives": False})
        self.assertEqual(server.cell(COUNT)["status"], "ok")
        for end in "time.sleep(60)", "await asyncio.sleep(60)", "asyncio.run(tick('new'))":
            cell = server.cell(f"asyncio.create_task(tick('new'))\nasyncio.get_event_loop().call_later(1, asyncio.create_task, tick('new'))\n{end}", timeout=1)
            self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
            counted = self.counted(server)
            self.assertGreater(counted["old"], 2, end)
            self.assertEqual(counted.get("new", 0), 0, end)
        # The control: the task of a call that ends well continues.
        server.cell("asyncio.create_task(tick('new'))\n1")
        self.assertGreater(self.counted(server)["new"], 2)

    def test_tasks_that_refuse_to_end(self):
        for survives in True, False:
            for name, code in STUBBORN.items():
                with self.subTest(name, survives=survives):
                    server = self.serve(state={"survives": survives})
                    server.cell(COUNT)
                    time.sleep(0.5)
                    start = time.monotonic()
                    cell = server.cell(code + "await asyncio.sleep(60)", timeout=1)
                    self.assertLess(time.monotonic() - start, 8)
                    self.assertEqual((cell["status"], cell["state"]), ("timeout", "restored" if survives else "lost"), cell)
                    if survives:
                        counted = self.counted(server)
                        self.assertGreater(counted["old"], 2)
                        self.assertNotIn("new", counted)
                    else:
                        self.assertEqual(server.cell("'counts' in globals()")["value"]["json"], False)
                    server.free()


if __name__ == "__main__":
    harness.main()
