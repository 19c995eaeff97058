"""Idle sessions that are frozen: they stop, continue as if nothing had happened, and can be ended."""

import os
import re
import signal
import time

import harness
from rawmcp import RawServer

COUNTER = """
import threading, time
n = 0
def count():
    global n
    while True:
        n += 1
        time.sleep(0.005)
threading.Thread(target=count, daemon=True).start()
"""


def mount_of_cgroup2():
    with open("/proc/self/mounts", encoding="utf-8") as f:
        return next((line.split()[1] for line in f if line.split()[2] == "cgroup2"), None)


class Freeze(harness.Case):
    def serve(self, **config):
        server = RawServer("--config", self.config(pool=0, **config), "--log-level", "debug", cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def told(self, server):
        done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {session["name"]: session for session in harness.message_of(done.stdout)[0]["sessions"]}

    def value(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"]["json"]

    def leaves(self, server):
        """Returns the cgroup version 2 leaf of each session."""
        found = set()
        for pid in harness.descendants(server.process.pid):
            try:
                with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                    (path,) = [line[3:].strip() for line in f if line.startswith("0::")] or [""]
            except OSError:
                continue
            if os.path.basename(path).startswith("s-"):
                found.add(mount_of_cgroup2() + path)
        return found

    def read(self, leaf, file):
        with open(os.path.join(leaf, file), encoding="utf-8") as f:
            return f.read()

    def frozen(self, server):
        """Returns whether the kernel reports the server's only session as frozen."""
        (leaf,) = self.leaves(server)
        return "frozen 1" in self.read(leaf, "cgroup.events")

    def wait_frozen(self, server, name="default"):
        self.assertTrue(harness.wait_until(lambda: self.told(server)[name]["state"] == "frozen"), server.log()[-2000:])

    def test_a_frozen_session_stops_and_continues(self):
        # Long enough that the session is seen running after a call.
        seconds = harness.SLOW
        server = self.serve(freeze=seconds)
        self.value(server, COUNTER + "x = object()\nmark = id(x)\nn")
        if not harness.BOUNDED:
            # The control: the freeze is requested and refused, and the session keeps running.
            self.assertTrue(harness.wait_until(lambda: "SESSION_FREEZE" in server.log()))
            before = self.value(server, "n")
            time.sleep(1.2 * seconds)
            self.assertEqual(self.told(server)["default"]["state"], "idle")
            self.assertGreater(self.value(server, "n"), before + 50)
            self.assertTrue(self.value(server, "mark == id(x)"))
            self.assertEqual(server.close(), 0)
            return
        self.assertFalse(self.frozen(server))
        for _ in range(2):
            self.wait_frozen(server)
            self.assertTrue(harness.wait_until(lambda: self.frozen(server)))
            self.assertGreater(self.told(server)["default"]["memory_bytes"], 0)
            (leaf,) = self.leaves(server)
            pids = self.read(leaf, "cgroup.procs").split()
            self.assertGreaterEqual(len(pids), 2)
            used = [self.ticks(pid) for pid in pids]
            self.count_outside(50)
            self.assertEqual(used, [self.ticks(pid) for pid in pids])
            before, now = self.value(server, "import time\nm = n\ntime.sleep(0.3)\n[m, n]")
            self.assertGreater(now, before)
            self.assertTrue(self.value(server, "mark == id(x)"))
            self.assertFalse(self.frozen(server))
            self.assertEqual(self.told(server)["default"]["state"], "idle")
        self.wait_frozen(server)
        self.assertEqual(server.close(), 0)

    def count_outside(self, n):
        """Returns when the sessions' code, run by this process, has counted up to n."""
        outside = {}
        exec(COUNTER.replace("while True", f"while n < {n}"), outside)  # pylint: disable=exec-used
        self.assertTrue(harness.wait_until(lambda: outside["n"] >= n))

    def ticks(self, pid):
        """Returns the processor time that a process used, and how often it was scheduled."""
        with open(f"/proc/{pid}/schedstat", encoding="utf-8") as f:
            return f.read()

    def test_off_unless_asked_for(self):
        server = self.serve()
        before = self.value(server, COUNTER + "n")
        control = self.serve(freeze=0.3)
        self.value(control, "1")
        self.assertTrue(harness.wait_until(lambda: "SESSION_FREEZE" in control.log()))
        self.assertTrue(harness.wait_until(lambda: self.value(server, "n") > before + 50))
        self.assertNotIn("SESSION_FREEZE", server.log())

    def test_of_one_profile(self):
        server = self.serve(freeze=0.3, profiles={"awake": {"freeze": 0, "agent": True}})
        self.value(server, "1", session="a", profile="awake")
        self.value(server, "1", session="b")
        self.assertTrue(harness.wait_until(lambda: "SESSION_FREEZE" in server.log()))
        if harness.BOUNDED:
            self.wait_frozen(server, "b")
        self.assertEqual(self.told(server)["a"]["state"], "idle")
        self.assertEqual(len(re.findall(r"request \d+: SESSION_FREEZE", server.log())), 1)

    def test_what_ends_a_session_ends_a_frozen_one(self):
        server = self.serve(freeze=0.3)
        ends = {
            "reset": lambda: self.assertEqual(self.value(server, "'x' in dir()", reset=True), False),
            "owner": lambda: self.run_cloister("sessions", "end", "default", "--server", str(server.process.pid)),
        }
        for name, end in ends.items():
            with self.subTest(name):
                self.value(server, "x = 1\nx")
                if harness.BOUNDED:
                    self.wait_frozen(server)
                end()
                self.assertEqual(self.value(server, "'x' in dir()"), False)

    def test_it_is_dropped_after_its_time(self):
        server = self.serve(freeze=0.3, idle=2)
        self.value(server, "x = 1\nx")
        if harness.BOUNDED:
            self.wait_frozen(server)
        self.assertTrue(harness.wait_until(lambda: not self.told(server)))
        cell = server.cell("x")
        self.assertEqual(cell["status"], "error", cell)

    def test_interrupted_after_a_thaw(self):
        server = self.serve(freeze=0.3)
        self.value(server, "x = 1\nx")
        if harness.BOUNDED:
            self.wait_frozen(server)
        cell = server.cell("while True: pass", timeout=2)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        self.assertEqual(self.value(server, "x"), 1)

    def test_a_killed_server_leaves_nothing(self):
        server = self.serve(freeze=0.3)
        self.value(server, COUNTER + "n")
        if harness.BOUNDED:
            self.wait_frozen(server)
        # The test's own check finds processes and groups that were left behind.
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()


if __name__ == "__main__":
    harness.main()
