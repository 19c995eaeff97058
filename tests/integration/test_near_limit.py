"""Copies and branches of a session that is just below its memory limit: what Cloister needs for them ends nothing."""

import time
import unittest

import harness
import rawmcp

MB = 1 << 20
MEMORY = 128 * MB
# Of the control group, beside limits.memory, for forks of Cloister's (docs/cells.md).
RESERVE = 4 * MB + MEMORY // 128
BELOW = 256 << 10
NAME = "import ctypes\n_ = ctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)  # PR_SET_NAME\nx = 'state'\nhog = []"


# As a worker that is under the control of its code: five stopped orphans, which share its memory, as its copies.
FORGE = (
    "import os, signal, sys, time\nframe = sys._getframe()\nwhile type(frame.f_locals.get('self')).__name__ != 'Session': frame = frame.f_back\n"
    "copies = frame.f_locals['self']._copies\nanswer = copies._answer\nr, w = os.pipe()\n"
    "if os.fork() == 0:\n    if os.fork() == 0:\n        os.write(w, b'%d' % os.getpid())\n        os.kill(os.getpid(), signal.SIGSTOP)\n"
    "        while not os.path.exists('/workspace/go'): time.sleep(0.02)\n"
    "        for i in range(0, len(one), 4096): one[i] = 99\n        while True: time.sleep(1)\n    os._exit(0)\n"
    "_ = os.wait()\nforged.append(int(os.read(r, 20)))\n"
    "def lies(**members):\n    copies._answer = answer\n    answer(pid=forged[-1], threads=0, processes=0)\ncopies._answer = lies\nNone"
)


class LeafCase(rawmcp.ServerCase):
    """Reads the control group of its session."""

    def leaf(self, name):
        """Reads a number of the control group of the session whose processes have this name."""
        for pid, found in harness.descendants(self.server.process.pid).items():
            if found != name:
                continue
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                lines = [line.rstrip("\n").split(":", 2) for line in f]
            for _, controllers, path in lines:
                if "memory" in controllers.split(","):
                    return f"/sys/fs/cgroup/memory{path}", ("memory.usage_in_bytes", "memory.limit_in_bytes")
            return f"/sys/fs/cgroup{lines[-1][2]}", ("memory.current", "memory.max")
        self.fail(f"no process is called {name}")

    def number(self, which):
        folder, files = self.leaf(self.session[-15:])
        with open(f"{folder}/{files[which]}", encoding="ascii") as f:
            return int(f.read())

    def begin(self, profile, **arguments):
        self.ok(NAME.format(self.session[-15:]), profile=profile, **arguments)


@unittest.skipUnless(harness.BOUNDED, "without a control group no oom killer looks at it alone")
class NearLimit(LeafCase):
    CONFIG = {"limits": {"memory": "128M"}, "pool": 0, "profiles": {"off": {"state": {"survives": False}, "agent": True}, "on": {"agent": True}}}

    def fill(self, to, **arguments):
        """In one cell, so that no copy is made meanwhile."""
        return self.ok(f"hog.append(bytearray(b'x') * {to - BELOW - self.number(0)})", **arguments)

    def lives(self):
        self.assertEqual(self.ok("x, len(hog)")["value"]["repr"], "('state', 1)")

    def branch(self, origin):
        """Is made, or not: the new session needs a little more than the first one has."""
        cell = self.cell("x", session=self.session + "-b", **{"from": origin})
        self.assertTrue(cell["status"] == "ok" or "ran out of memory" in cell["error"]["message"], cell)
        return cell

    def test_a_copy(self):
        self.begin("on")
        self.fill(MEMORY)
        time.sleep(0.3 * harness.SLOW)
        self.lives()
        self.fill(MEMORY + BELOW, checkpoint="a")
        self.assertEqual(self.value("x"), "state")

    def test_a_branch(self):
        self.begin("off")
        self.assertEqual(self.number(1), MEMORY + RESERVE)
        self.fill(MEMORY)
        self.branch(self.session)
        self.lives()

    def test_a_branch_of_a_checkpoint(self):
        self.begin("on", checkpoint="a")
        self.ok("_ = [open(f'/workspace/{n}', 'w').close() for n in range(2000)]")
        time.sleep(0.3 * harness.SLOW)
        self.fill(self.number(1) - RESERVE)
        self.assertEqual(self.branch(self.session + "@a")["status"], "ok")
        self.lives()

    def test_the_control(self):
        """Above the limit and what Cloister has, the session ends."""
        self.begin("off")
        self.assertEqual(self.cell(f"hog.append(bytearray(b'x') * {MEMORY + RESERVE})")["status"], "oom")


@unittest.skipUnless(harness.BOUNDED, "without a control group the sum of all copies counts")
class SharedPages(LeafCase):
    """Checkpoints of a session of 200 MiB, which share most of it, with limits.memory of 512 MiB."""

    CONFIG = {"limits": {"memory": "512M"}, "pool": 0, "profiles": {"on": {"state": {"checkpoints": 5}, "agent": True}}}
    MOST = 2 * 512 * MB + 4 * MB + 512 * MB // 128
    REFUSED = "was not made: no copy of the state is kept: all copies together are larger than limits.memory"

    def setUp(self):
        super().setUp()
        self.begin("on")
        self.ok("one = bytearray(b'a') * (200 << 20)\nforged = []")

    def checkpoint(self, name, part, code="None"):
        """After a part of the memory was written."""
        return self.ok(f"for i in range(0, len(one) // {part}, 4096): one[i] = {ord(name)}\n{code}", checkpoint=name)

    def test_that_share(self):
        for name in "abcde":
            self.assertTrue(self.checkpoint(name, 10).get("checkpoint"), name)
        self.assertLessEqual(self.number(1), self.MOST)
        # A cell still has limits.memory for itself.
        self.ok("for i in range(0, len(one), 4096): one[i] = 1\ntwo = bytearray(b'b') * (290 << 20)\ntwo = None")
        for name in "caedb":
            self.assertEqual(self.value("chr(one[0]), chr(one[-1]), len(one) >> 20", restore=name), f"('{name}', 'a', 200)")
        # Replaced in turn, they still fit.
        for name in "abcde":
            self.assertTrue(self.checkpoint(name, 10).get("checkpoint"), name)

    def test_that_do_not(self):
        self.assertTrue(self.checkpoint("a", 1).get("checkpoint"))
        self.assertTrue(self.checkpoint("b", 1).get("checkpoint"))
        cell = self.checkpoint("c", 1)
        self.assertIn('checkpoint "c" ' + self.REFUSED, cell["notice"])
        self.assertNotIn("checkpoint", cell)
        self.assertLessEqual(self.number(1), self.MOST)
        self.assertEqual(self.value("chr(one[0])", restore="a"), "a")

    def test_that_go_on_and_write(self):
        """Processes that were taken for copies while they shared everything: what they take afterwards counts."""
        for name in "abcde":
            cell = self.ok(FORGE, checkpoint=name)
            self.assertTrue(cell.get("checkpoint"), cell)
        folder, files = self.leaf(self.session[-15:])
        before = self.number(0)
        self.assertLess(before, 300 * MB)
        self.assertLessEqual(self.number(1), 512 * MB + 300 * MB)
        self.server.start_call("open('/workspace/go', 'w').close()\nfor p in forged: os.kill(p, signal.SIGCONT)\ntime.sleep(3)", session=self.session)
        most = 0
        until = time.monotonic() + 3 * harness.SLOW
        while time.monotonic() < until:
            try:
                with open(f"{folder}/{files[0]}", encoding="ascii") as f:
                    most = max(most, int(f.read()))
            except OSError:
                break
        self.assertGreater(most, 512 * MB)  # they do write
        self.assertLessEqual(most, 512 * MB + 300 * MB)


if __name__ == "__main__":
    harness.main()
