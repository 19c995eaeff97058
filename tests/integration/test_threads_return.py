"""Threads of a library (held.c) come back in each copy of a session: they wait in all ways, hold locks, and work as before."""

import base64
import os
import platform
import unittest

import harness
import rawmcp

LIBRARY = os.path.join(os.environ.get("CLOISTER_BUILD", os.path.join(harness.SOURCE, "build")), "tests", "integration", "libheld.so")
LOAD = """
import base64, ctypes, os
with open("/tmp/held.so", "wb") as file: _ = file.write(base64.b64decode(library))
held = ctypes.CDLL("/tmp/held.so")
def threads():
    return len(os.listdir("/proc/self/task")) - 1
"""
KINDS = 10
UNTIL_A_HOLDER = 7  # threads: the last one, whose id is the highest, holds a recursive mutex
CANNOT_BE_HELD = r'no copy of the state can be made: thread "busy"[^:]* cannot be held'


@unittest.skipUnless(platform.machine() == "x86_64", "threads come back on x86-64 only: test_each_death_beside_a_thread")
class Threads(rawmcp.ServerCase):
    CONFIG = {"limits": {"pids": 128}}

    def begin(self, code="", n=KINDS, **arguments):
        with open(LIBRARY, "rb") as f:
            library = base64.b64encode(f.read()).decode()
        self.ok(f"library = '{library}'{LOAD}{code}\nx = 1\nNone")
        self.assertEqual(self.value(f"[held.begin({n}), held.work(), held.which()]", **arguments), [n, 0, 0])

    def works(self, x, **arguments):
        self.assertEqual(self.value("[x, threads(), held.work(), held.which()]", **arguments), [x, KINDS, 0, 0])

    def test_all_ways_of_going_back(self):
        self.begin()
        self.works(1, checkpoint="one")
        self.assertEqual(self.cell("x = 2; held.work(); 1 / 0", on_error="rollback")["state"], "rolled_back")
        self.works(1)
        self.ok("try:\n    with transaction(): x = 3; held.work(); 1 / 0\nexcept ZeroDivisionError: pass")
        self.works(1)
        self.ok("x = 4; held.work()", checkpoint="two")
        cell = self.cell("import itertools; x = 5; sum(itertools.repeat(1))", timeout=2)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "restored"), cell)
        self.works(4)
        self.works(1, restore="one")
        self.works(1, restore="one")

    def test_branches(self):
        self.begin()
        self.works(1, checkpoint="one")
        self.ok("x = 2")
        self.works(2, session="held-a", **{"from": self.session})
        self.works(1, session="held-b", **{"from": f"{self.session}@one"})
        self.works(2, session="held-c", **{"from": "held-a"})
        self.works(2)
        self.assertEqual(self.cell("x = 3; held.work(); 1 / 0", on_error="rollback", session="held-b")["state"], "rolled_back")
        self.works(1, session="held-b")

    def test_beside_threads_of_python(self):
        """Both come back, with what they are doing; there are no branches."""
        self.begin("import concurrent.futures, subprocess, threading, time\nticks, event = 0, threading.Event()\n"
                   "def tick():\n    global ticks\n    while True: ticks += 1; time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()\n"
                   "executor = concurrent.futures.ThreadPoolExecutor(1)\nrunning = executor.submit(lambda: (event.wait(), 'done')[1])\nlater = executor.submit(int, '7')\n"
                   "child = subprocess.Popen(['sleep', '1000'])\ndef ticking():\n    before = ticks\n    time.sleep(0.3)\n    return ticks > before")
        cell = self.ok("x", checkpoint="one")
        self.assertTrue(cell["checkpoint"], cell)
        look = "[x, ticking(), threads(), held.work(), event.set(), running.result(10), later.result(10), executor.submit(int, '8').result(10), child.poll()]"
        right = [1, True, KINDS + 2, 0, None, "done", 7, 8, -9]
        self.assertEqual(self.cell("x = 2; event.set(); 1 / 0", on_error="rollback")["state"], "rolled_back")
        self.assertEqual(self.value(look), right)
        self.assertEqual(self.value(look, restore="one"), right)
        error = self.cell("x", session="held-d", **{"from": f"{self.session}@one"})["error"]
        self.assertEqual(error["type"], "BranchError")
        self.assertRegex(self.cell("x", session="held-e", **{"from": self.session})["error"]["message"], "thread .* cannot be held")
        self.assertEqual(self.value(look, restore="one"), right)

    def test_a_thread_that_computes(self):
        """It is named, and the session continues. The control: when it has ended, all can be held."""
        self.begin("held.begin_busy()")
        cell = self.ok("x", checkpoint="refused")
        self.assertNotIn("checkpoint", cell)
        self.assertRegex(cell["notice"], CANNOT_BE_HELD)
        cell = self.cell("x = 2", on_error="rollback")
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "TransactionError"), cell)
        self.assertRegex(self.cell("x", session="held-busy", **{"from": self.session})["error"]["message"], 'thread "busy"[^:]* cannot be held')
        self.ok("held.end_busy()")
        self.assertTrue(harness.wait_until(lambda: self.value("threads()") == KINDS))
        self.assertTrue(self.ok("x", checkpoint="one")["checkpoint"])
        self.works(1, restore="one")

    def test_threads_that_come_and_go(self):
        """A copy is made, or one of the threads is named; each restore is right."""
        self.begin("held.begin_brief()")
        made = 0
        for i in range(20):
            cell = self.ok(f"x = {i}", checkpoint="one")
            if cell.get("checkpoint"):
                made += 1
                self.assertEqual(self.value("[x, held.work(), held.which()]", restore="one"), [i, 0, 0])
            else:
                self.assertIn("cannot be held", cell["notice"])
        self.assertGreater(made, 0)

    def test_more_than_64(self):
        self.begin(n=70)
        cell = self.ok("x", checkpoint="refused")
        self.assertNotIn("checkpoint", cell)
        self.assertRegex(cell["notice"], 'thread "h[0-9]+"[^:]* cannot be held')
        self.assertEqual(self.value("[x, held.work()]"), [1, 0])

    def test_the_newest_thread_holds_a_lock(self):
        self.begin(n=UNTIL_A_HOLDER)
        self.assertTrue(self.ok("x", checkpoint="one")["checkpoint"])
        self.assertEqual(self.value("[x, held.work(), held.which()]", restore="one"), [1, 0, 0])

    def test_code_that_sends_the_signal(self):
        """SIGSETXID, for which libc sets no handler of a program: our handler passes it to libc's, which ignores it without a request."""
        self.begin()
        self.works(1, checkpoint="one")
        self.assertTrue(self.value("import signal\nctypes.CDLL(None).signal(33, signal.SIG_IGN) == -1"))
        cell = self.cell("[bool(held.sends_signal(33)), held.work()]")
        self.assertIn(cell["status"], ("ok", "killed"), cell)
        # libc's own use of it, which it broadcasts to all threads: the filter refuses the call in each of them.
        self.assertEqual(self.value("[ctypes.CDLL(None).setuid(os.getuid()), held.work()]", restore="one"), [-1, 0])
        self.works(1, restore="one")


class Embedded(Threads):
    """The same by the other link of the worker."""

    CONFIG = {**Threads.CONFIG, "image": "threads-embed"}

    @classmethod
    def setUpClass(cls):
        arguments = ["image", "build", "--quiet", "--python", "/usr/bin/python3", "--name", "threads-embed", "--link", "embed"]
        # The host's Python may write compiled modules meanwhile.
        for _ in range(3):
            done = harness.subprocess.run([harness.CLOISTER, *arguments], env=harness.environment(), capture_output=True, text=True, timeout=240, check=False)
            if "changed while it was copied" not in done.stderr:
                break
        if done.returncode != 0 and "libpython" in done.stderr:
            raise unittest.SkipTest("no interpreter with a libpython here")
        if done.returncode != 0 and "exists" not in done.stderr:
            raise AssertionError(done.stderr)
        super().setUpClass()


if __name__ == "__main__":
    harness.main()
