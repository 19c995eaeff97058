"""Classes 142 to 144: what a call leaves in its session tries to continue computing, or to outlive the call that was interrupted."""

import os
import time

import harness
from rawmcp import RawServer

SPINNER = "import os\nfor _ in range(8):\n    if os.fork() == 0:\n        while True: pass\n"
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
}


class Leftovers(harness.Case):
    def serve(self, **config):
        server = RawServer("--config", self.config(pool=0, **config), cwd=self.dir)
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
            if words[0] not in "ZX":
                found.append((len(inner), int(inner[-1]), int(pid), sum(map(int, words[11:15]))))
        deepest = max(found)[0]
        return [one[1:] for one in found if one[0] == deepest]

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

    def test_code_does_not_undo_the_rest(self):
        for name, code in ATTACKS.items():
            with self.subTest(name):
                server = self.serve(background={"cpu": "unlimited"})
                self.assertEqual(server.cell(code)["status"], "ok")
                time.sleep(6)
                if harness.BOUNDED:
                    self.assertTrue(self.idle_groups(server))
                else:
                    # The sum over processes that live shorter than the measurement: what init has waited for counts too.
                    before, start = sum(one[2] for one in self.inside(server)), time.monotonic()
                    time.sleep(5)
                    used = (sum(one[2] for one in self.inside(server)) - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - start)
                    self.assertLess(used, 0.15)
                self.assertEqual(server.cell("1")["status"], "ok")
                # The control: while a call runs, they have their usual part.
                call = server.start_call("import time\ntime.sleep(2)")
                time.sleep(0.5)
                if harness.BOUNDED:
                    self.assertFalse(self.idle_groups(server))
                call.result()
                server.free()

    def test_an_interrupted_call_leaves_nothing(self):
        for name, code in {**ATTACKS, "spin": SPINNER}.items():
            with self.subTest(name):
                server = self.serve(state={"survives": False})
                server.cell("1")
                time.sleep(0.1)
                cell = server.cell(code + "while True: pass\n", timeout=1)
                self.assertEqual(cell["status"], "timeout", cell)
                self.assertTrue(harness.wait_until(lambda: max(one[0] for one in self.inside(server)) <= 2, 10), self.inside(server))
                # The control: of a call that ends well they stay.
                server.cell(code)
                self.assertGreater(max(one[0] for one in self.inside(server)), 2)
                server.free()


if __name__ == "__main__":
    harness.main()
