"""Class 149: what a session leaves in its control group, when the next session of the principal gets the same one (version 1)."""

import glob
import os
import re
import signal
import time
import unittest

import harness
from rawmcp import RawServer

MIB = 1 << 20

# {what the session does: (code, how the call ends, whether its group may be used again)}
LEAVES = {
    "memory": ("x = bytearray(b'x') * (96 << 20)\n1", "ok", True),
    "processor time": ("import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n1", "ok", True),
    "files": ("import os\nfor d in '/tmp', '/dev/shm', '/workspace':\n    open(d + '/f', 'wb').write(bytes(8 << 20))\n1", "ok", True),
    "processes": ("import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(60)\n1", "ok", True),
    "a refused fork": ("import os, time\nn = 0\ntry:\n    while n < 60:\n        if os.fork() == 0:\n            time.sleep(60)\n        n += 1\n"
                       "except OSError:\n    pass\n1", "ok", False),
    "an OOM kill": ("x = []\nwhile True: x.append(bytearray(b'x') * (8 << 20))", "oom", False),
}


@unittest.skipUnless(harness.ROOT and os.path.exists("/sys/fs/cgroup/memory"), "needs memory groups of version 1")
class Groups(harness.Case):
    def serve(self, **config):
        server = RawServer("--config", self.config(pool=0, **config), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def group(self, server, controller="memory"):
        """Returns the path of the group of the newest session."""
        pid = max(int(pid) for pid in harness.descendants(server.process.pid) if self.path_of(pid))
        return self.path_of(pid, controller)

    @staticmethod
    def path_of(pid, controller="memory"):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                found = re.search(rf":{controller}:(/.*/s-[0-9-]+)$", f.read(), re.M)
        except OSError:
            return None
        return found and found[1]

    def told(self, server):
        done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {session["name"]: session for session in harness.message_of(done.stdout)[0]["sessions"]}["default"]

    def fresh(self, server):
        """Starts the session anew. Returns its group."""
        cell = server.cell("1+1", reset=True)
        self.assertEqual((cell["status"], cell["value"]["json"]), ("ok", 2), cell)
        self.assertLess(cell["peak_memory_bytes"], 16 * MIB)
        self.assertLess(cell["cpu_ms"], 100)
        return self.group(server)

    def test_no_figure_of_the_previous_session(self):
        server = self.serve(limits={"memory": "128M", "pids": 32})
        used = [self.fresh(server)]
        for name, (code, status, is_reusable) in LEAVES.items():
            with self.subTest(name):
                before = self.group(server)
                if name == "a refused fork":  # by the group, which counts it, before RLIMIT_NPROC refuses one
                    with open(f"/sys/fs/cgroup/pids{self.group(server, 'pids')}/pids.max", "w", encoding="ascii") as f:
                        f.write("16")
                cell = server.cell(code, timeout=20)
                self.assertEqual(cell["status"], status, cell)
                if name == "memory":
                    self.assertGreater(self.told(server)["memory_peak_bytes"], 96 * MIB)
                after = [self.fresh(server) for _ in range(2)]
                told = self.told(server)
                self.assertLess(told["memory_peak_bytes"], 32 * MIB)
                self.assertLess(told["cpu_ms"], 150)
                used += after
                if not is_reusable:
                    self.assertNotIn(before, after)
                    # A leaf that is kept exists for 60 s.
                    self.assertTrue(harness.wait_until(lambda: not os.path.exists(f"/sys/fs/cgroup/memory{before}"), 20), before)
        # The control: groups are used again.
        self.assertLess(len(set(used)), len(used))
        self.assertEqual(server.close(), 0)

    def test_a_process_that_outlives_its_kill(self):
        """Version 1's freezer keeps a process that was killed. It stands for one that waits for a device."""
        freezer = f"/sys/fs/cgroup/freezer/cloister-test-{os.getpid()}"
        if not os.path.isdir("/sys/fs/cgroup/freezer"):
            self.skipTest("needs the freezer of version 1")
        server = self.serve()
        self.fresh(server)
        server.cell("import os, time\nif os.fork() == 0:\n    time.sleep(600)\n1")
        before = self.group(server)
        pid = max(int(pid) for pid in harness.descendants(server.process.pid) if self.path_of(pid) == before)
        os.mkdir(freezer)
        self.addCleanup(os.rmdir, freezer)
        try:
            with open(f"{freezer}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(pid))
            with open(f"{freezer}/freezer.state", "w", encoding="ascii") as f:
                f.write("FROZEN")
            ended = server.start_call("1+1", reset=True)
            self.assertEqual(server.cell("1+1", session="other")["status"], "ok")
            self.assertEqual(server.cell("1+1", session="third")["status"], "ok")
            self.assertTrue(os.path.exists(f"/proc/{pid}"))
            for other in harness.descendants(server.process.pid):
                path = self.path_of(other)
                self.assertTrue(path != before or self.is_of(other, pid), "a new session is in the group of the one that has not ended")
        finally:
            with open(f"{freezer}/freezer.state", "w", encoding="ascii") as f:
                f.write("THAWED")
        self.assertEqual(ended.result()["structuredContent"]["status"], "ok")
        self.assertTrue(harness.wait_until(lambda: not os.path.exists(f"/proc/{pid}")))
        self.assertEqual(server.close(), 0)

    @staticmethod
    def is_of(pid, other):
        """Returns whether two processes are of one session."""
        try:
            return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{other}/ns/pid")
        except OSError:
            return True

    def test_none_is_left_by_a_killed_monitor(self):
        server = self.serve()
        for _ in range(4):
            self.fresh(server)
        pattern = f"/sys/fs/cgroup/**/cloister-{server.process.pid}-*"
        leaves = glob.glob(f"{pattern}/sandboxes/s-*", recursive=True)
        # More than the living session's five.
        self.assertGreater(len(leaves), 5, leaves)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        self.assertTrue(harness.wait_until(lambda: not glob.glob(pattern, recursive=True)), glob.glob(pattern, recursive=True))


if __name__ == "__main__":
    harness.main()
