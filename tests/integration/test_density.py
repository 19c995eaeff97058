"""Many idle sessions of one server: the last session starts as clean and answers as fast as the tenth."""

import contextlib
import itertools
import os
import statistics
import subprocess
import time

import harness
from rawmcp import RawServer

WHOLE = "CLOISTER_TEST_WHOLE" in os.environ
MANY = 500 if WHOLE else 60
AROUND = 15  # number of sessions whose median is used for one measurement
NEW = subprocess.run([harness.PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode == 0
DRAWERS = 1000 if WHOLE else 25
DRAW = """import os, random, secrets, ssl, tempfile, uuid
{"random": random.getrandbits(50), "gauss": random.gauss(0, 1), "tempfile": tempfile.mktemp(), "secrets": secrets.token_hex(8),
 "system": random.SystemRandom().getrandbits(50), "ssl": ssl.RAND_bytes(8).hex(), "uuid1": uuid.uuid1().hex, "uuid4": uuid.uuid4().hex,
 "os": os.urandom(8).hex(), "shuffled": str(random.sample(range(1000), 9))}"""
WARM = "import sys; 'cloister.ipython' in sys.modules"  # the template has made all its imports
COPIED = ("random", "gauss", "shuffled", "tempfile")
FAULTS = 260  # page faults of worker and init, the budget. Before Python 3.11 a call allocates more
FRESH = "import os\n[len(os.listdir('/tmp')), 'x' in globals()]"


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as f:
        (line,) = [line for line in f if line.startswith("MemAvailable:")]
    return int(line.split()[1]) / 1024


class Density(harness.Case):
    def timed(self, code, session):
        before = time.perf_counter()
        cell = self.server.cell(code, session=session)
        took = time.perf_counter() - before
        self.assertEqual(cell["status"], "ok", cell)
        return took, cell

    def answer(self, sessions):
        took = []
        for session in sessions:
            seconds, cell = self.timed("1+1", session)
            self.assertEqual((cell["value"]["json"], cell["state"]), (2, "kept"), cell)
            took.append(seconds)
        return statistics.median(took)

    def test_many(self):
        # Without spare sandboxes, because this test measures the cost of a creation.
        config = self.config(sessions=MANY + 20, pool=0)
        self.server = RawServer("--config", config, cwd=self.dir)
        self.addCleanup(self.server.free)
        self.server.initialize()
        names = [f"s{i}" for i in range(MANY)]
        created, memory = [], 0.0
        for i, name in enumerate(names):
            seconds, cell = self.timed(FRESH, name)
            self.assertEqual((cell["value"]["json"], cell["state"]), ([0, False], "new"), cell)
            self.timed("x = 1\nopen('/tmp/x', 'w').close()", name)
            created.append(seconds)
            if i == 9:
                memory = available_mib()
        each = (memory - available_mib()) / (MANY - 10)
        # Times are compared only if nothing else uses the machine; the lower quartile of each group shows the cost of a creation.
        first, last = (statistics.quantiles(part)[0] for part in (created[5:5 + AROUND], created[-AROUND:]))
        if WHOLE:
            self.assertLess(last, first * 2.5)
        # Every session still exists; the first sessions answer as fast as the last.
        self.answer(names)
        first, last = self.answer(names[:AROUND] * 3), self.answer(names[-AROUND:] * 3)
        if WHOLE:
            self.assertLess(last, first * 2)
            self.assertLess(each, 8)  # MiB; only a leak exceeds this bound; bench/ measures the real value
        self.assertEqual(self.server.close(120), 0)

    def test_no_two_draw_alike(self):
        """A branch and a restored session continue with the state of `random` that they were copied with."""
        config = self.config(sessions=DRAWERS + 200, pool=2)
        self.server = RawServer("--config", config, cwd=self.dir)
        self.addCleanup(self.server.free)
        self.server.initialize()
        # Sessions that are made before the template has warmed up seed their generators in another way.
        drawn = [self.timed(DRAW, f"early{i}")[1]["value"]["json"] for i in range(4)]
        names = itertools.count()
        self.assertTrue(harness.wait_until(lambda: self.timed(WARM, f"w{next(names)}")[1]["value"]["json"], step=0.5))
        drawn += [self.timed(DRAW, f"s{i}")[1]["value"]["json"] for i in range(DRAWERS)]
        self.server.cell("1", session="s0", checkpoint="p")
        others = [self.server.cell(DRAW, session="s0", restore="p") for _ in range(10)]
        others += [self.server.cell(DRAW, session=f"b{i}", **{"from": "s0@p"}) for i in range(10)]
        for cell in others:
            self.assertEqual(cell["status"], "ok", cell)
        for kind, first in drawn[0].items():
            numbers = [values[kind] for values in drawn]
            if kind not in COPIED:
                numbers += [cell["value"]["json"][kind] for cell in others]
            self.assertEqual(len(set(numbers)), len(numbers), (kind, first))
        self.assertEqual(self.server.close(120), 0)

    def faults(self, session):
        """Page faults of the processes of a new session until its first answer."""
        before = harness.descendants(self.server.process.pid)
        self.timed("1+1", session)
        new = harness.descendants(self.server.process.pid).keys() - before.keys()
        count = 0
        for pid in new:
            # A task of the monitor may have ended meanwhile. The processes of the session have not.
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                count += int(f.read().rpartition(")")[2].split()[7])
        return count

    def test_page_faults_of_a_session(self):
        """bench/where.py --faults has the parts."""
        config = self.config(pool=0, state={"survives": False})  # a copy is a process too
        self.server = RawServer("--config", config, cwd=self.dir)
        self.addCleanup(self.server.free)
        self.server.initialize()
        names, counts = itertools.count(), []

        def is_few():
            counts.append(self.faults(f"s{next(names)}"))
            return counts[-1] <= 1.3 * FAULTS * (1 if NEW else 1.3)

        # The template has not warmed up at first.
        self.assertTrue(harness.wait_until(is_few, step=0.5), counts)
        self.assertGreater(counts[-1], 50)
        self.assertEqual(self.server.close(120), 0)


if __name__ == "__main__":
    harness.main()
