"""SIGKILL of each process of a server, in each state of its sessions: the processes that depend on it end, no other process ends,
and after the server's end nothing is left. While the server runs, no descriptor leaks."""

import os
import signal
import time

import harness
import rawmcp
import residue

# The state of the session when a process is killed.
WHOLE = os.environ.get("CLOISTER_TEST_WHOLE")
STATES = ("idle", "cell", "call", "children") if WHOLE else ("children",)
BUSY = {
    "cell": "print('on', flush=True)\nwhile True: pass",
    "call": "await mcp_up.sleep(seconds=600)",
    "children": "import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\nprint('on', flush=True)\ntime.sleep(600)",
}
BURST = 1000 if WHOLE else 40
# Of one principal: supervisor/monitor/cgroup/cgroup-spare.h.
SPARES = 16
# After one of these is killed, the server still works. If the broker or the monitor is killed, the server ends.
SURVIVED = ("template", "stub", "init", "worker", "reaper", "upstream", "janitor")


class Kills(harness.Case):
    def setUp(self):
        super().setUp()
        self.more = residue.Residue()
        self.addCleanup(lambda: self.assertEqual(self.more.settle(10 * harness.SLOW), {}, "left behind"))

    def start(self):
        server = rawmcp.RawServer("--config", self.config({"up": harness.fixture()}), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        self.assertEqual(server.cell("x = 1\n(await mcp_up.add(a=1, b=2))['sum']", session="one")["status"], "ok")
        self.assertEqual(server.cell("y = 1", session="two")["status"], "ok")
        return server

    def find(self, server):
        """Returns {role: pid}: the init and the worker are those of session one, which was created first."""
        monitor = server.process.pid
        tree = residue.tree(monitor)
        found = {"monitor": monitor}
        for pid, (parent, name) in sorted(tree.items()):
            command = residue.read(f"/proc/{pid}/cmdline").split("\0")
            if "fixture-server.py" in " ".join(command):
                found.setdefault("upstream", pid)
                found.setdefault("reaper", parent)
            elif command[0] == "init":
                found.setdefault("init", pid)
            elif name.startswith("cloister-"):
                role = {"cloister-broker": "broker", "cloister-janito": "janitor", "cloister-stub": "stub"}.get(name)
                if role:
                    found.setdefault(role, pid)
        inits = {pid for pid in tree if residue.read(f"/proc/{pid}/cmdline").split("\0")[0] == "init"}
        for pid, (parent, _) in sorted(tree.items()):
            if parent == found.get("init"):
                found.setdefault("worker", pid)
            elif parent == monitor and pid not in (*found.values(), *inits):
                found.setdefault("template", pid)
        return found

    def busy(self, server, state):
        if state != "idle":
            server.start_call(BUSY[state], session="one")
            time.sleep(0.15 * harness.SLOW)

    def serves(self, server, role, state):
        """A new session and a call answer; a session with another init keeps its variables unless its namespaces ended."""
        code = "(await mcp_up.add(a=2, b=2))['sum']"
        cell = server.cell(code, session=f"after-{role}-{state}", wait=60)
        # A ready sandbox may have been assigned, or a server called, before its end was noticed.
        if role in ("stub", "reaper", "upstream") and cell["status"] != "ok":
            cell = server.cell(code, session=f"again-{role}-{state}", wait=60)
        self.assertEqual((cell["status"], cell.get("value", {}).get("json")), ("ok", 4), (role, state, cell))
        cell = server.cell("'y' in globals()", session="two", wait=60)
        # The stub's end ends all sandboxes, perhaps after the cell was sent: the result reports it, the next cell gets a new one.
        if role == "stub" and (cell["status"], cell.get("state")) == ("killed", "lost"):
            cell = server.cell("'y' in globals()", session="two", wait=60)
        self.assertEqual(cell.get("value", {}).get("json"), role not in ("stub",), (role, state, cell))

    def one(self, role, state):
        server = self.start()
        pids = self.find(server)
        self.assertIn(role, pids, residue.tree(server.process.pid))
        self.busy(server, state)
        os.kill(pids[role], signal.SIGKILL)
        try:
            if role in SURVIVED:
                self.serves(server, role, state)
                server.close()
            else:
                self.assertTrue(harness.wait_until(lambda: server.process.poll() is not None), (role, state))
        finally:
            server.free()
        # Of a monitor without a janitor, empty groups stay until the janitor of the next one.
        if role == "janitor":
            self.start().close()
        # The checks of harness.Case run once, at the end of the test; this one runs after each kill.
        left = self.more.settle(10 * harness.SLOW)
        self.assertEqual(left, {}, (role, state))

    def each(self, *roles):
        for role in roles:
            for state in STATES if role != "janitor" else ("idle",):
                with self.subTest(role=role, state=state):
                    self.one(role, state)

    def test_monitor_and_broker(self):
        self.each("monitor", "broker")

    def test_monitor_in_a_burst(self):
        """Sandboxes are made, given out, answered and kept ready at this moment."""
        for answered in 0, BURST // 4:
            server = rawmcp.RawServer("--config", self.config(sessions=BURST + 20), cwd=self.dir)
            self.addCleanup(server.free)
            server.initialize()
            self.assertEqual(server.cell("1")["status"], "ok")
            calls = [server.start_call("1", session=f"burst-{i}") for i in range(BURST)]
            self.assertTrue(harness.wait_until(lambda some=calls, most=answered: sum(call.done() for call in some) >= most,
                                               4 * harness.PATIENCE))
            self.assertFalse(all(call.done() for call in calls))
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(harness.PATIENCE)
            server.free()
            self.assertEqual(self.more.settle(10 * harness.SLOW), {}, answered)

    def test_processes_of_sandboxes(self):
        self.each("template", "stub", "init", "worker")

    def test_processes_of_servers(self):
        self.each("reaper", "upstream")

    def test_janitor(self):
        self.each("janitor")

    def test_descriptors_are_as_before(self):
        server = self.start()
        broker = self.find(server).get("broker")

        def is_group(kind):
            return kind.endswith("/s-N-N")

        # Emptied control groups wait for a session: their number differs, and is bounded.
        def held():
            return {pid: {kind: n for kind, n in residue.descriptors(pid).items() if not is_group(kind)} for pid in (server.process.pid, broker)}

        def round_of_sessions():
            for i in range(6):
                server.cell("import os; os._exit(3)", session="ends")
                server.cell("import os; os.kill(os.getpid(), 9)", session="ends")
                server.cell("while True: pass", session="late", timeout=0.05)
                server.cell("1", session=f"more-{i % 2}", reset=True)

        round_of_sessions()
        server.cell("1", session="ends", reset=True)
        before = {}

        def settled():
            nonlocal before
            last, before = before, held()
            return last == before

        self.assertTrue(harness.wait_until(settled, step=0.3))
        first = before
        self.assertTrue(not harness.ROOT or all(first.values()), first)
        round_of_sessions()
        server.cell("1", session="ends", reset=True)
        self.assertTrue(harness.wait_until(lambda: held() == first), (first, held()))
        groups = {kind: n for kind, n in residue.descriptors(server.process.pid).items() if is_group(kind)}
        self.assertLessEqual(max(groups.values(), default=0), SPARES + 8, groups)


if __name__ == "__main__":
    harness.main()
