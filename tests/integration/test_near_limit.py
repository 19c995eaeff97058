"""Copies and branches of a session just below its memory limit: the memory that Cloister needs for them ends no session."""

import contextlib
import os
import time
import unittest

import harness
import rawmcp

MB = 1 << 20
MEMORY = 128 * MB
# The control group's limit beyond limits.memory, for forks that Cloister makes (docs/cells.md).
RESERVE = 4 * MB + MEMORY // 128
BELOW = 256 << 10
NAME = "import ctypes\n_ = ctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)  # PR_SET_NAME\nx = 'state'\nhog = []"


# Imitates a worker that its code controls: it reports five stopped orphans, which share its memory, as its copies.
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
        """Returns a number from the control group of the session whose processes have this name."""
        for pid, found in harness.descendants(self.server.process.pid).items():
            if found != name:
                continue
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                lines = [line.rstrip("\n").split(":", 2) for line in f]
            one = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
            # An ending process, such as a copy that was refused, is shown in "/" (version 1).
            if one and one[0] != "/":
                return f"/sys/fs/cgroup/memory{one[0]}", ("memory.usage_in_bytes", "memory.limit_in_bytes")
            if not one:
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
        """Allocates in one cell, so that no copy is made meanwhile."""
        return self.ok(f"hog.append(bytearray(b'x') * {to - BELOW - self.number(0)})", **arguments)

    def lives(self):
        self.assertEqual(self.ok("x, len(hog)")["value"]["repr"], "('state', 1)")

    def branch(self, origin):
        """The branch may fail: the new session needs slightly more memory than the first one has."""
        cell = self.cell("x", session=self.session + "-b", **{"from": origin})
        self.assertTrue(cell["status"] == "ok" or "ran out of memory" in cell["error"]["message"], cell)
        return cell

    def test_a_copy(self):
        self.begin("on")
        self.fill(self.number(1) - RESERVE)  # a copy may have been made before
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
        """An allocation above the limit and Cloister's reserve ends the session."""
        self.begin("off")
        self.assertEqual(self.cell(f"hog.append(bytearray(b'x') * {MEMORY + RESERVE})")["status"], "oom")


class Shared(LeafCase):
    """Checkpoints of a session of 200 MiB, which share most of it, with limits.memory of 512 MiB."""

    CONFIG = {"limits": {"memory": "512M"}, "pool": 0, "profiles": {"on": {"state": {"checkpoints": 5}, "agent": True}}}
    MOST = 2 * 512 * MB + 4 * MB + 512 * MB // 128
    REFUSED = "was not made: no copy of the state is kept: all copies together are larger than limits.memory"

    def setUp(self):
        super().setUp()
        self.begin("on")
        self.ok("one = bytearray(b'a') * (200 << 20)\nforged = []")

    def checkpoint(self, name, part, code="None"):
        """Makes a checkpoint after a part of the memory was written."""
        return self.ok(f"for i in range(0, len(one) // {part}, 4096): one[i] = {ord(name)}\n{code}", checkpoint=name)

    def five(self):
        for name in "abcde":
            cell = self.checkpoint(name, 10)
            self.assertTrue(cell.get("checkpoint"), cell)

    def bound(self):
        if harness.BOUNDED:
            self.assertLessEqual(self.number(1), self.MOST)


class SharedPages(Shared):
    """Runs in every mode: the monitor counts by a control group or by the sum of PSS."""

    def test_that_share(self):
        self.five()
        self.bound()
        # A cell can still use all of limits.memory.
        self.ok("for i in range(0, len(one), 4096): one[i] = 1\ntwo = bytearray(b'b') * (290 << 20)\ntwo = None")
        for name in "caedb":
            self.assertEqual(self.value("chr(one[0]), chr(one[-1]), len(one) >> 20", restore=name), f"('{name}', 'a', 200)")
        # Checkpoints that are replaced one after the other still fit.
        self.five()

    def test_that_do_not(self):
        self.assertTrue(self.checkpoint("a", 1).get("checkpoint"))
        self.assertTrue(self.checkpoint("b", 1).get("checkpoint"))
        cell = self.checkpoint("c", 1)
        self.assertIn('checkpoint "c" ' + self.REFUSED, cell["notice"])
        self.assertNotIn("checkpoint", cell)
        self.bound()
        self.assertEqual(self.value("chr(one[0])", restore="a"), "a")

    def test_that_are_replaced(self):
        """The worker and the copy that is replaced have 200 MiB each of their own, and the others share 200 MiB."""
        for name in "abc":
            self.assertTrue(self.checkpoint(name, 1 << 30).get("checkpoint"), name)
        for _ in range(3):
            cell = self.checkpoint("d", 1)
            self.assertTrue(cell.get("checkpoint"), cell)
        self.assertEqual(self.value("chr(one[0])", restore="a"), "a")
        self.assertEqual(self.value("chr(one[0])", restore="d"), "d")


@unittest.skipUnless(harness.BOUNDED, "reads a control group")
class SharedInGroup(Shared):
    def test_that_go_on_and_write(self):
        """Processes were accepted as copies while they shared all memory: the memory that they allocate afterwards counts."""
        for name in "abcde":
            cell = self.ok(FORGE, checkpoint=name)
            self.assertTrue(cell.get("checkpoint"), cell)
        folder, files = self.leaf(self.session[-15:])
        before = self.number(0)
        self.assertLess(before, 300 * MB)
        limit = self.number(1)
        self.assertLessEqual(limit, 512 * MB + 300 * MB)
        seconds = 3 * harness.SLOW
        # The cell runs longer than this test reads the group: after the cell, the next copy changes the limit.
        self.server.start_call("open('/workspace/go', 'w').close()\nfor p in forged: os.kill(p, signal.SIGCONT)\n"
                               f"time.sleep({seconds + 2 * harness.SLOW})", session=self.session, timeout=10 * seconds)
        most, limits = 0, set()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                with open(f"{folder}/{files[0]}", encoding="ascii") as used, open(f"{folder}/{files[1]}", encoding="ascii") as allowed:
                    most = max(most, int(used.read()))
                    limits.add(int(allowed.read()))
            except OSError:
                break
        self.assertEqual(limits, {limit})
        self.assertGreater(most, 512 * MB)  # the processes do write
        self.assertLessEqual(most, 512 * MB + 300 * MB)


@unittest.skipIf(harness.BOUNDED, "a control group counts its memory")
class SharedWithoutGroup(Shared):
    """The same tests where the monitor counts the memory."""

    def monitor_seconds(self):
        """Returns the processor time of the monitor and of its children that have ended."""
        with open(f"/proc/{self.server.process.pid}/stat", encoding="latin1") as f:
            fields = f.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def test_rest_costs_little(self):
        """The five copies exceed the limit if their shared memory is counted in each."""
        self.five()
        time.sleep(1)
        before = self.monitor_seconds()
        time.sleep(4)
        # One exact figure may fall into this time: 0.06 to 0.3 s. Without the rest it is 1.3 s and more.
        self.assertLess(self.monitor_seconds() - before, 0.6)

    def test_a_cell_has_no_more(self):
        """The limit of a cell is limits.memory plus the memory that the copies really hold, which they share."""
        self.five()
        cell = self.cell(
            "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        for i in range(0, len(one), 4096): one[i] = 7\n"
            "        time.sleep(20)\n        os._exit(0)\ntime.sleep(5)"
        )
        self.assertEqual(cell["status"], "oom", cell)
        self.assertEqual(self.value("len(one) >> 20"), 200)

    def test_that_go_on_and_write(self):
        """Processes were accepted as copies while they shared all memory: the memory that they allocate afterwards counts."""
        for name in "abcde":
            cell = self.ok(FORGE, checkpoint=name)
            self.assertTrue(cell.get("checkpoint"), cell)
        cell = self.cell("open('/workspace/go', 'w').close()\nfor p in forged: os.kill(p, signal.SIGCONT)\ntime.sleep(5)")
        self.assertEqual(cell["status"], "oom", cell)


@unittest.skipIf(harness.BOUNDED, "a control group counts its memory")
class Idle(LeafCase):
    """The monitor does not read the memory of sessions whose processes have not run."""

    CONFIG = {"limits": {"memory": "128M"}, "pool": 0, "profiles": {"on": {"agent": True, "limits": {"memory": "128M"}}}}
    SESSIONS = 30
    # Processes, because RLIMIT_DATA bounds each: 8 MiB at most every 10 ms, 512 MiB in all.
    GROWS = """
import os, threading, time
def grow():
    time.sleep(3)
    for _ in range(64):
        if os.fork() == 0:
            kept = bytearray(b'x') * (8 << 20)
            time.sleep(20)
            os._exit(0)
        time.sleep(0.01)
thread = threading.Thread(target=grow)
thread.start()
thread.join()
time.sleep(10)
"""

    def most(self, call):
        """Returns the most MiB of private memory that are seen of the session's processes during the call."""
        most = 0
        while not call.done():
            used = 0
            for pid in (pid for pid, name in harness.descendants(self.server.process.pid).items() if name == self.session[-15:]):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as f:
                    _, resident, shared, *_ = map(int, f.read().split())
                    used += (resident - shared) * 4096 // MB
            most = max(most, used)
        return most

    def test_one_of_many_that_wakes_up(self):
        for i in range(self.SESSIONS):
            self.ok("1+1", session=f"{self.session}-{i}")
        self.begin("on")
        call = self.server.start_call(self.GROWS, session=self.session)  # all are idle after 1.5 s
        # Beyond the limit: what it can allocate in the time between two scans.
        most = self.most(call)
        self.assertGreater(most, 64)
        self.assertLess(most, 128 + 200 * harness.SLOW)
        self.assertEqual(call.result()["structuredContent"]["status"], "oom")


if __name__ == "__main__":
    harness.main()
