"""Class 140: the sums of all sessions are bounded, whatever each of them may have."""

import harness
import rawmcp

HOLD = "import os\nheld = bytearray(os.urandom(1 << 16)) * {}\nlen(held)"
MIB_OF_HOLD = 16  # pieces of 64 KiB


class Unbounded(rawmcp.ServerCase):
    """The control: the sum of all is far above what these sessions take."""

    CONFIG = {"limits": {"memory": "128M"}, "memory_total": "2G"}
    ARGUMENTS = ("--log-level", "info")

    def hold(self, mib, name):
        return self.call(HOLD.format(mib * MIB_OF_HOLD), session=name, timeout=60)

    def holders(self, names):
        """Those that still have what they took."""
        return [name for name in names if self.is_held(self.look(name))]

    def look(self, name):
        return self.cell("print('held' in globals())", session=name)

    def is_held(self, cell):
        return cell.get("stdout") == "True\n"

    def end(self, names):
        for name in names:
            self.run_cloister("sessions", "end", name, "--server", str(self.server.process.pid), cwd=self.class_dir)

    def names(self, n):
        names = [f"{self.session}-{i}" for i in range(n)]
        self.addCleanup(self.end, names)
        return names

    def test_many_sessions(self):
        """140. Six sessions, each below its own limit, take more than 400 MiB together."""
        names = self.names(6)
        for name in names:
            self.assertEqual(self.hold(70, name)["structuredContent"]["status"], "ok")
        self.assertEqual(self.holders(names), names)


class Bounded(Unbounded):
    CONFIG = {"limits": {"memory": "128M"}, "memory_total": "240M", "pool": 0}

    def test_many_sessions(self):
        """140. The memory of all is bounded: some of these sessions end, and the result names the sum."""
        names = self.names(6)
        said = [str(self.hold(70, name)) for name in names]
        told = [self.look(name) for name in names]
        left = [t for t in told if self.is_held(t)]
        self.assertLessEqual(len(left), 3)
        why = [t.get("notice", "") + str(t.get("error", "")) for t in told if not self.is_held(t)]
        self.assertRegex(" ".join(said + why), r'all sessions reached "memory_total"|\("memory_total"\)')

    def test_refused(self):
        """140. Once the sum is reached, a new session is refused in one line; those that exist go on, and one that ends makes room."""
        self.assertTrue(harness.wait_until(lambda: not self.hold(1, "before").get("isError")))
        names, refused = [], None
        for name in self.names(40):
            result = self.hold(2, name)
            if result.get("isError"):
                refused = result["content"][0]["text"]
                break
            names.append(name)
        self.assertIsNotNone(refused)
        self.assertIn('("memory_total")', refused.split("\n")[1])
        self.assertEqual(refused.count("\n"), 1)
        self.assertGreater(len(names), 2, refused)
        # The next cells of many would take more than what is left.
        self.assertEqual(self.holders(names[:2]), names[:2])
        self.end(names)
        self.assertTrue(harness.wait_until(lambda: not self.hold(1, "afterwards").get("isError")))


if __name__ == "__main__":
    harness.main()
