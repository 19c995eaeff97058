"""Many idle sessions of one server: the last session starts as clean and answers as fast as the tenth."""

import os
import statistics
import time

import harness
from rawmcp import RawServer

WHOLE = "CLOISTER_TEST_WHOLE" in os.environ
MANY = 500 if WHOLE else 60
AROUND = 15  # number of sessions whose median is used for one measurement
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


if __name__ == "__main__":
    harness.main()
