"""What a call leaves: processes that continue get what other processes leave, and are stopped when their processor time is used up."""

import glob
import os
import signal
import time
import unittest

import harness
from rawmcp import RawServer

SPIN = """
import os
for _ in range({n}):
    if os.fork() == 0:
        while True: pass
"""
# A process that counts, slowly, what it has done.
TICKER = """
import os, time
if os.fork() == 0:
    n = 0
    while True:
        n += 1
        with open("/tmp/m", "w") as f: f.write(str(n))
        os.rename("/tmp/m", "/tmp/n")
        time.sleep(0.05)
"""
READ = "import os\nint(open('/tmp/n').read() or 0) if os.path.exists('/tmp/n') else 0"


class Rest(harness.Case):
    def serve(self, cpu=None, **config):
        if cpu is not None:
            config["background"] = {"cpu": cpu}
        server = RawServer("--config", self.config(pool=0, **config), "--log-level", "debug", cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def value(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")

    def wait_stopped(self, server):
        def is_stopped():
            done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
            return harness.message_of(done.stdout)[0]["sessions"][0]["state"] == "frozen"

        self.assertTrue(harness.wait_until(is_stopped, 90, 0.5), server.log()[-2000:])
        if harness.BOUNDED:
            self.assertLess(self.use(server), 0.02)
        else:
            self.assertTrue(harness.wait_until(lambda: set(self.inside(server, than=1).values()) == {"T"}), self.inside(server))

    def inside(self, server, than=0):
        """Returns the states of the processes of sandboxes, by their pids, that have a higher number there."""
        found = []
        for pid in harness.descendants(server.process.pid):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    inner = [line.split() for line in f if line.startswith("NSpid:")][0]
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state not in "ZX":
                found.append((len(inner), int(inner[-1]), int(pid), state))
        deepest = max(found)[0]  # a namespace of pids for each session, below that of the templates
        return {pid: state for depth, number, pid, state in found if depth == deepest and number > than}

    def ticks(self, pids):
        """Returns the processor time of these processes in seconds."""
        total = 0
        for pid in pids:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    words = f.read().rsplit(")", 1)[1].split()
                total += int(words[11]) + int(words[12])
            except OSError:
                pass
        return total / os.sysconf("SC_CLK_TCK")

    def use(self, server, seconds=2.0):
        """Returns the processors that the sandboxes use."""
        before, start = self.ticks(self.inside(server)), time.monotonic()
        time.sleep(seconds)
        return (self.ticks(self.inside(server)) - before) / (time.monotonic() - start)

    def test_spinners_get_what_is_left(self):
        server = self.serve(cpu="unlimited")
        self.value(server, SPIN.format(n=4))
        if harness.BOUNDED:
            self.assertTrue(harness.wait_until(lambda: self.weights(server) == {"idle"}), self.weights(server))
            # The control: while a call runs, the session has its usual part.
            call = server.start_call("import time\ntime.sleep(3)")
            self.assertTrue(harness.wait_until(lambda: self.weights(server) == {"usual"}, 2.5), self.weights(server))
            call.result()
        else:
            time.sleep(8)  # the debt of the first moment
            rests = self.use(server, 5)
            self.assertLess(rests, 0.1)
            # The control: while a call runs they have what they can get.
            call = server.start_call("import time\ntime.sleep(3)")
            self.assertGreater(self.use(server), 0.1 + 2 * rests)
            call.result()

    def weights(self, server):
        """Returns the kinds of weight of the groups of sessions with processes."""
        found = set()
        for pid in self.inside(server, than=1):
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                paths = [line.strip().split(":", 2) for line in f]
            for _, controllers, path in paths:
                place = "/sys/fs/cgroup" + (f"/{controllers}" if controllers else "") + path + "/cpu.idle"
                if os.path.basename(path).startswith("s-") and os.path.exists(place):
                    with open(place, encoding="utf-8") as f:
                        found.add("idle" if f.read().strip() == "1" else "usual")
        return found

    def test_stopped_after_its_time(self):
        server = self.serve(cpu="0.1s")
        self.value(server, SPIN.format(n=3))
        self.wait_stopped(server)
        cell = server.cell("sum(1 for p in os.listdir('/proc') if p.isdigit()) >= 5")
        self.assertEqual(cell["status"], "ok", cell)
        self.assertIn("3 processes were stopped after 0.1 s of CPU time", cell["notice"])
        # They continue with the call, and the next one does not say it again.
        self.assertNotIn("stopped", server.cell("1").get("notice", ""))
        self.assertGreater(self.use(server, 0.05) + self.use(server, 1), 0)

    def test_a_thread_of_the_interpreter(self):
        server = self.serve(cpu="0.1s")
        self.value(server, "import threading\nn = 0\ndef f():\n    global n\n    while True: n += 1\nthreading.Thread(target=f, daemon=True).start()")
        self.wait_stopped(server)
        cell = server.cell("import time\na = n\ntime.sleep(0.2)\nn > a")
        self.assertIn("1 process was stopped after 0.1 s of CPU time", cell["notice"])
        self.assertTrue(cell["value"]["json"], cell)

    def test_a_timer_continues(self):
        server = self.serve(cpu="5s")
        self.value(server, TICKER)
        before = self.value(server, READ)
        time.sleep(3)
        cell = server.cell(READ)
        self.assertNotIn("notice", cell)
        self.assertGreater(cell["value"]["json"], before + 5)

    def test_unlimited(self):
        server = self.serve(cpu="unlimited")
        self.value(server, SPIN.format(n=2))
        time.sleep(3)
        cell = server.cell("1")
        self.assertNotIn("notice", cell)
        self.assertGreaterEqual(len(self.inside(server, than=2)), 2)

    def test_an_interrupted_cell_leaves_no_process(self):
        server = self.serve(state={"survives": False})
        self.value(server, TICKER)
        before = set(self.inside(server, than=2))
        self.assertEqual(len(before), 1)
        time.sleep(0.1)
        cell = server.cell(SPIN.format(n=3) + """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import os\\nif os.fork() == 0:\\n os.setsid()\\n if os.fork() == 0:\\n  while True: pass"])
while True: pass
""", timeout=2)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        # The process of the call before continues.
        self.assertTrue(harness.wait_until(lambda: set(self.inside(server, than=2)) == before), (before, self.inside(server, than=2)))
        a = self.value(server, READ)
        self.assertTrue(harness.wait_until(lambda: self.value(server, READ) > a))
        # The control: what a cell that ended well has started stays.
        self.value(server, SPIN.format(n=2))
        time.sleep(0.3)
        self.assertEqual(len(self.inside(server, than=2)), 3)

    def test_an_interrupted_cell_leaves_no_thread(self):
        server = self.serve(state={"survives": False})
        self.value(server, """
import threading, time
counts = {"old": 0, "thread": 0}
def count(name):
    while True:
        counts[name] += 1
        time.sleep(0.01)
threading.Thread(target=count, args=("old",), daemon=True).start()
""")
        cell = server.cell("threading.Thread(target=count, args=('thread',), daemon=True).start()\ntime.sleep(100)", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        before = self.value(server, "dict(counts)")
        time.sleep(0.5)
        after = self.value(server, "dict(counts)")
        self.assertGreater(after["old"], before["old"] + 5)
        self.assertLess(after["thread"], before["thread"] + 3)
        # The control: those of a cell that ends well continue.
        self.value(server, "threading.Thread(target=count, args=('thread',), daemon=True).start()\n1")
        time.sleep(0.5)
        last = self.value(server, "dict(counts)")
        self.assertGreater(last["thread"], after["thread"] + 5)

    @unittest.skipUnless(harness.BOUNDED, "no control group is made")
    def test_the_group_of_a_killed_janitor(self):
        def groups(server):
            return [path for path in glob.glob("/sys/fs/cgroup/**/cloister-*", recursive=True) if f"-{server.process.pid}-" in path]

        server = self.serve()
        self.value(server, "1")
        self.assertTrue(groups(server))
        janitors = [pid for pid in harness.descendants(server.process.pid) if open(f"/proc/{pid}/comm", encoding="utf-8").read().startswith("cloister-janit")]
        # Where Cloister has requested a scope of systemd, there is one for the time before it and one for the scope.
        self.assertIn(len(janitors), (1, 2))
        for janitor in janitors:
            os.kill(int(janitor), signal.SIGKILL)
        self.value(server, "2")
        server.close()
        left = groups(server)
        # Of a mount's root only a janitor may remove them. The control: a server that is not ours to clean.
        other = self.serve()
        self.value(other, "1")
        self.assertTrue(harness.wait_until(lambda: not any(map(os.path.exists, left))), left)
        self.assertTrue(groups(other))

    def test_stopped_by_the_code_stays_stopped(self):
        server = self.serve(cpu="unlimited")
        self.value(server, TICKER.replace("if os.fork() == 0", "pid = os.fork()\nif pid == 0"))
        self.value(server, "import signal\nos.kill(pid, signal.SIGSTOP)\n" + SPIN.format(n=2).replace("import os", ""))
        before = self.value(server, READ)
        time.sleep(3)
        self.assertEqual(self.value(server, READ), before)


if __name__ == "__main__":
    harness.main()
