"""Principals of `cloister serve` share memory and processors: sums of all, of one, and what each of them is sure to get. Each test
has a control: what the same calls get without the bound, or a single principal."""

import glob
import os
import time

import harness
from test_serve_shares import BOB, GREEDY, Shares, value

HOLD = "import os\nheld = bytearray(os.urandom(1 << 16)) * 16 * 80\nlen(held)"
SPIN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end:\n    pass"

LEAVE = "import os\nfor _ in range(2):\n    if os.fork() == 0:\n        while True: pass\n"
RESTORED = """
import asyncio, os, signal
async def end():
    await asyncio.sleep(0.15)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.create_task(end())
"""


class Sums(Shares):
    CONFIG = {"limits": {"memory": "160M"}, "memory_total": "420M", "pool": 0}

    def spawn(self, log, *arguments, **options):
        self.log = log
        return super().spawn(log, *arguments, **options)

    def cell(self, token, code, **arguments):
        return value(self.call(token, code, **arguments).response())

    def hold(self, token, n):
        """Sessions s0, s1 and so on, which take 80 MiB each."""
        cells = [self.cell(token, HOLD, session=f"s{i}", timeout=30) for i in range(n)]
        return [c["status"] if c["status"] != "error" else c["error"]["message"] for c in cells]

    def kept(self, token, n):
        """What their next calls get."""
        cells = [self.cell(token, "print('held' in globals())", session=f"s{i}") for i in range(n)]
        return [c.get("stdout") == "True\n" for c in cells], " ".join(c.get("notice", "") or str(c.get("error", "")) for c in cells)

    def groups(self):
        """The control groups of sandboxes, as paths in "sandboxes"."""
        paths = glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.pid}-*/sandboxes/**/s-*", recursive=True)
        return {path.partition("/sandboxes/")[2] for path in paths}


class Memory(Sums):
    def test_below_its_share(self):
        """A principal below its even share is served: a session of the one above it ends, and the result says why."""
        self.assertEqual(self.hold(GREEDY, 4), 4 * ["ok"])
        self.assertEqual(self.in_time(lambda: self.hold(BOB, 1)), ["ok"])
        self.assertEqual(self.in_time(lambda: self.cell(BOB, "1", session="s1"))["status"], "ok")
        self.assertEqual(self.kept(BOB, 1)[0], [True])
        left, why = self.kept(GREEDY, 4)
        self.assertIn(left.count(False), (1, 2, 3))
        self.assertRegex(why, r'all sessions reached "memory_total" \(420 MiB\)|the sessions of all clients use')

    def test_above_its_share(self):
        """It is refused, in one line that names the sum. Those that exist continue."""
        self.assertEqual(self.hold(GREEDY, 3), 3 * ["ok"])
        cells = (self.cell(GREEDY, "held = b'x' * (2 << 20)", session=f"t{i}") for i in range(60))
        refused = next((c["error"]["message"] for c in cells if c["status"] == "error"), "")
        self.assertRegex(refused, r'^the sessions of all clients use \d+ of 420 MiB \("memory_total"\)')
        # Their next cells may take a little more, and samples count what processes share several times.
        self.assertGreaterEqual(self.kept(GREEDY, 3)[0].count(True), 2 if self.groups() else 1)

    def test_control_enough_for_all(self):
        self.serve(self.BOTH, memory_total="2G")
        self.assertEqual(self.hold(GREEDY, 4) + self.hold(BOB, 2), 6 * ["ok"])
        self.assertEqual((self.kept(GREEDY, 4)[0], self.kept(BOB, 2)[0]), ([True] * 4, [True] * 2))

    def test_of_one_principal(self):
        """memory= in its line bounds its sessions together, and no other's."""
        self.serve(f"greedy {GREEDY} memory=240M\nbob {BOB}\n", memory_total="2G")
        for i in range(3):
            self.assertEqual(self.status(GREEDY, "1", session=f"s{i}"), "ok")
        why = str([self.cell(GREEDY, HOLD, session=f"s{i}", timeout=30) for i in range(3)])
        left, later = self.kept(GREEDY, 3)
        self.assertLess(left.count(True), 3)
        self.assertIn('the sessions of this principal reached "memory=" (240 MiB)', why + later)
        self.assertEqual(self.hold(BOB, 3), 3 * ["ok"])
        self.assertEqual(self.kept(BOB, 3)[0], [True] * 3)
        more = (self.cell(GREEDY, "held = b'x' * (2 << 20)", session=f"t{i}") for i in range(60))
        refused = next(c for c in more if c["status"] == "error")
        self.assertIn("the sessions of this principal use", refused["error"]["message"])

    def test_a_lower_sum_of_processors(self):
        """cpu_total becomes less than cpu= of a principal with a session: it counts at once, and so does the earlier one again."""
        self.serve(f"greedy {GREEDY} cpu=1.8\nbob {BOB}\n", cpu_total=1.9, memory_total="2G")
        self.assertEqual(self.status(GREEDY, "1", session="s0"), "ok")
        # The cpu hierarchy of version 1, and version 2, have a directory for each principal.
        found = [path for name in ("cpu.cfs_quota_us", "cpu.max") for path in
                 glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.pid}-*/sandboxes/p-*/{name}", recursive=True)]
        if not found:
            self.skipTest("no control group bounds processors")
        own, name = os.path.split(found[0])

        def quotas():
            """Of all sandboxes, and of the principal; -1: none."""
            texts = []
            for place in (os.path.dirname(own), own):
                with open(f"{place}/{name}", encoding="ascii") as f:
                    texts.append(int(f.read().split()[0].replace("max", "-1")))
            return texts

        self.assertEqual(quotas(), [38000, 36000])
        for total, expected in ((1.2, [24000, -1]), (1.9, [38000, 36000])):
            self.config(name="new.json", **{**self.CONFIG, "cpu_total": total, "memory_total": "2G"})
            os.rename(self.path("new.json"), self.path("shares.json"))
            self.assertTrue(harness.wait_until(lambda: quotas() == expected), quotas())

    def test_bad_lines(self):
        """One line says what is wrong, and the tokens before stay."""
        for words, expected in (
            ("memory=lots", "line 1: profile=NAME, calls=N, sessions=N, cells_per_minute=N, memory=SIZE (such as 2G), cpu=CORES or role=ROLE is needed"),
            ("memory=64M", "line 1: memory= is below the 160 MiB of one session"),
            ("cpu=0.5", "line 1: cpu= is below the 1 cores of one session"),
            ("cpu=0", "line 1: profile=NAME"),
            ("cpu=1h", "line 1: profile=NAME"),
            ("memory=-1", "line 1: profile=NAME"),
        ):
            with self.subTest(words=words):
                self.put(f"greedy {GREEDY} {words}\n")
                self.assertTrue(harness.wait_until(lambda expected=expected: expected in self.log.text()), self.log.text()[-500:])
                self.assertEqual(self.status(BOB, "1", session="s0"), "ok")
        self.put(f"greedy {GREEDY} memory=160M cpu=1\n")
        self.assertTrue(harness.wait_until(lambda: self.connect().modern("tools/list", Authorization=f"Bearer {BOB}").response().status == 401))

    def test_the_start_says_how_many_fit(self):
        self.serve("".join(f"p{i} token-of-principal-{i}\n" for i in range(5)))
        expected = "memory_total (420 MiB) is enough for one session (160 MiB) of each of 2 principals, and 5 have access"
        self.assertTrue(harness.wait_until(lambda: expected in self.log.text()), self.log.text())


class Groups(Sums):
    """Where there are control groups."""

    def setUp(self):
        super().setUp()
        self.status(BOB, "1", session="s0")
        if not self.groups():
            self.skipTest("no control groups: processor time is not shared, and the pool only by count")

    def test_processors(self):
        """Six sessions of one principal get what one of the other gets."""
        seconds = 3
        self.serve(self.BOTH, cpu_total=1.5)
        self.status(GREEDY, "1", session="s0")
        spinning = [self.call(GREEDY, SPIN.format(seconds), session=f"s{i}") for i in range(6)]
        time.sleep(0.5)
        bob = self.cell(BOB, SPIN.format(seconds - 1), session="s0")
        each = [value(c.response())["cpu_ms"] / seconds for c in spinning]
        self.assertGreater(bob["cpu_ms"] / (seconds - 1), 1.8 * sum(each) / len(each), each)

    def busy(self):
        """Returns the principals whose group has a tenth of the usual weight."""
        found = set()
        for name, weight in (("cpu.weight", "10"), ("cpu.shares", "102")):
            for path in glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.pid}-*/sandboxes/p-*/{name}", recursive=True):
                with open(path, encoding="ascii") as f:
                    if f.read().strip() == weight:
                        found.add(path.split("/")[-2])
        return found

    def test_busy(self):
        """A principal that computes for long has less weight than one with short calls, and the usual one when that computes too: both are
        busy then. A sandbox that is made for it has the usual weight."""
        self.serve(self.BOTH, cpu_total=1.5)
        self.assertEqual(self.status(BOB, "1", session="s0"), "ok")
        spinning = [self.call(GREEDY, SPIN.format(60), session=f"s{i}", timeout=100) for i in range(2)]
        self.assertTrue(harness.wait_until(lambda: self.busy() == {"p-1"}), self.busy())
        for i in range(10):
            self.assertEqual(self.status(BOB, "1", session="s0"), "ok")
            time.sleep(0.3)
        self.assertEqual(self.busy(), {"p-1"})
        also = self.call(BOB, SPIN.format(60), session="s0", timeout=100)
        self.assertTrue(harness.wait_until(lambda: self.busy() == {"p-1", "p-2"}), self.busy())
        for call in spinning:
            call.close()
        self.assertTrue(harness.wait_until(lambda: self.busy() == {"p-2"}), self.busy())
        also.close()

    def rests(self):
        """Returns the principals whose group gets what others leave."""
        found = set()
        for name, least in (("cpu.idle", "1"), ("cpu.weight", "1"), ("cpu.shares", "2")):
            for path in glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.pid}-*/sandboxes/p-*/{name}", recursive=True):
                with open(path, encoding="ascii") as f:
                    if f.read().strip() == least:
                        found.add(path.split("/")[-2])
        return found

    def spin(self, token):
        """Returns the processors that two sessions of a principal get."""
        seconds = 2
        calls = [self.call(token, SPIN.format(seconds), session=f"spin-{i}") for i in range(2)]
        return sum(value(c.response())["cpu_ms"] for c in calls) / 1000 / seconds

    def test_rest(self):
        """142. Processes that the calls of one principal have left get only what the other one leaves, also beside a session whose
        interpreter ends and is restored again and again."""
        allowed = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, sorted(allowed)[:2])
        self.serve(self.BOTH, pool={"min": 1, "max": 2})
        for i in range(2):
            self.status(BOB, "1", session=f"spin-{i}")
        for i in range(4):
            self.assertEqual(self.status(GREEDY, LEAVE, session=f"s{i}"), "ok")
        self.status(GREEDY, RESTORED, session="restored")
        # The machine's other work takes of both.
        for last in False, False, True:
            self.assertTrue(harness.wait_until(lambda: self.rests() == {"p-1"}), self.rests())
            resting = self.spin(BOB)
            self.assertEqual(self.rests(), {"p-1"})
            # The control: while it has one call, its group has its usual part, whatever the other one does.
            call = self.call(GREEDY, f"import time\ntime.sleep(250)", session="s0", timeout=300)
            self.assertTrue(harness.wait_until(lambda: not self.rests(), 2), self.rests())
            self.spin(BOB)  # both are busy then (test_busy)
            usual = self.spin(BOB)
            self.assertEqual(self.rests(), set())
            call.close()
            if last or resting > 1.4 * usual:
                break
        self.assertGreater(resting, 1.4 * usual)
        self.assertTrue(harness.wait_until(lambda: self.rests() == {"p-1"}), self.rests())
        # A new session and its ready sandbox, made for a principal at rest.
        self.assertEqual(self.in_time(lambda: self.status(GREEDY, "1", session="new")), "ok")
        self.assertTrue(harness.wait_until(lambda: self.rests() == {"p-1"}), self.rests())
        # Nothing is left: it does not rest, and a principal without leftovers never has.
        for name in [*(f"s{i}" for i in range(4)), "restored"]:
            self.assertEqual(self.status(GREEDY, "1", session=name, reset=True), "ok")
        time.sleep(1)
        self.assertEqual(self.rests(), set())

    def test_spares(self):
        """A ready sandbox is in the group of its principal, and no other gets it. Each that has called has one."""
        self.serve(self.BOTH, pool={"min": 1, "max": 4})
        for token in (GREEDY, BOB):
            self.assertEqual(self.status(token, "1", session="s0"), "ok")

        def ready():
            groups = [path.split("/")[0] for path in self.groups()]
            return {name: groups.count(name) for name in set(groups) if name.startswith("p-")}

        self.assertTrue(harness.wait_until(lambda: sorted(ready().values()) == [2, 2]), ready())
        before = self.groups()
        self.assertEqual(self.status(BOB, "1", session="s1"), "ok")
        # Bob took his own; that of the other is still there.
        self.assertTrue(before <= self.groups())
        self.assertEqual(ready().get("p-1"), 2, self.groups())
        self.assertTrue(harness.wait_until(lambda: ready().get("p-2") == 3), ready())


del Shares, Sums

if __name__ == "__main__":
    harness.main()
