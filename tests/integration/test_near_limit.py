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


@unittest.skipUnless(harness.BOUNDED, "without a control group no oom killer looks at it alone")
class NearLimit(rawmcp.ServerCase):
    CONFIG = {"limits": {"memory": "128M"}, "pool": 0, "profiles": {"off": {"state": {"survives": False}, "agent": True}, "on": {"agent": True}}}

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

    def fill(self, to, **arguments):
        """In one cell, so that no copy is made meanwhile."""
        return self.ok(f"hog.append(bytearray(b'x') * {to - BELOW - self.number(0)})", **arguments)

    def begin(self, profile, **arguments):
        self.ok(NAME.format(self.session[-15:]), profile=profile, **arguments)

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


if __name__ == "__main__":
    harness.main()
