"""Objects that a worker prepares before its first cell and keeps between cells: code cannot find them, and they do not grow."""

import os
import time
import unittest

from worker_case import WorkerTest


class Warm(WorkerTest):
    def idle(self):
        """A session that is sent nothing at first."""
        self.worker = self.template.session()
        self.addCleanup(self.worker.close)
        time.sleep(0.3)

    def test_code_cannot_see_it(self):
        self.idle()
        found = self.value(
            "import builtins, gc, linecache, sys, warnings\n"
            "[hasattr(builtins, '_'), [n for n in linecache.cache if n.startswith('<cell')], 'x' in globals(),"
            " '_cloister' in sys.modules, gc.isenabled(), hasattr(sys, 'last_value')]"
        )
        self.assertEqual(found, [False, ["<cell 1>"], False, False, True, False])

    def test_a_cell_that_arrived_before(self):
        self.assertEqual(self.value("1+1"), 2)

    CELLS = (
        "1+1", "x = 1", "print(1)\n'a'", "1/0", "def f():\n    return 1\nf()", "import sys\nsys.exit(3)", "await asyncio.sleep(0, 5)",
        "_ = 3\nsorted(n for n in globals() if n[0] != '_')", "import sys\nprint('e', file=sys.stderr)", "x = [1,\n2", "display({'a': 1})",
        "import gc\n(gc.isenabled(), len(gc.garbage))", "_.x", "import threading\nthreading.active_count()", "undefined",
    )  # fmt: skip

    def test_the_first_cell_is_the_same_without_it(self):
        """In a session whose cell arrives at once, no dummy cell runs before."""
        for code in self.CELLS:
            with self.subTest(code=code):
                self.worker = self.template.session()
                self.addCleanup(self.worker.close)
                plain = self.worker.run(code)
                self.idle()
                self.assertEqual(self.worker.run(code), plain)

    def test_sources_do_not_grow(self):
        self.idle()
        self.run_cell("def early():\n    return 'early'", filename="<cell 1>")
        for number in range(2, 1300):
            self.run_cell("x = %d" % number, filename="<cell %d>" % number)
        count = "import linecache\nlen([n for n in linecache.cache if n.startswith('<cell')])"
        self.assertLess(self.value(count, filename="<cell 1300>"), 1100)
        self.assertIn("'early'", self.value("import inspect\ninspect.getsource(early)", filename="<cell 1301>"))
        broken = self.error("x = 1\nearly(1)", filename="<cell 1302>")
        self.assertEqual(broken["line"], 2)
        self.assertIn("early(1)", broken["traceback"])

    KINDS = "x = [%d]", "x[0] + %d", "print(%d)", "for i in range(%d % 3):\n    y = i"

    def block(self, count):
        """The worker's CPU time for this many cells."""
        before = self.cpu()
        for number in range(count):
            self.run_cell(self.KINDS[number % len(self.KINDS)].replace("%d", str(number)))
        return self.cpu() - before

    def cpu(self):
        with open("/proc/%d/schedstat" % self.worker.pid, encoding="ascii") as f:
            return int(f.read().split()[0])

    def test_objects_do_not_grow(self):
        # Data of the last thousand cells is kept and freed for a hundred cells at a time: counted again after as many
        # hundreds of cells.
        self.run_cell("import gc, sys")
        count = "gc.collect() and None\nsys.getallocatedblocks()"
        self.block(1200)
        before = self.value(count)
        self.block(1199)
        self.assertLess(self.value(count) - before, 300, "objects of 1,200 cells")

    def test_a_cell_costs_what_early_ones_cost(self):
        """Compared with a session of few cells in alternating blocks, so that the machine's speed affects both."""
        self.block(1500)
        old = self.worker
        self.idle()
        took = {old: [], self.worker: []}
        for self.worker in list(took) * 12:
            took[self.worker].append(self.block(40))
        late, early = (min(times) for times in took.values())
        self.assertLess(late, 2 * early, list(took.values()))

    def test_a_wake_up_between_cells(self):
        """A thread gives work to the loop while the worker waits outside the loop."""
        self.run_cell(
            "import threading, time\nloop = asyncio.get_event_loop()\nseen = []\n"
            "def later():\n    time.sleep(0.1)\n    loop.call_soon_threadsafe(seen.append, 'thread')\n"
            "threading.Thread(target=later).start()\nNone"
        )
        time.sleep(0.4)
        self.assertEqual(self.value("seen"), ["thread"])
        self.run_cell("loop.call_later(0.05, seen.append, 'timer')\nNone")
        time.sleep(0.2)
        self.assertEqual(self.value("seen"), ["thread", "timer"])

    def test_a_task_that_never_waits_does_not_delay_answers(self):
        code = (
            "import time\nasync def spin():\n    while True:\n        await asyncio.sleep(0)\n"
            "task = asyncio.create_task(spin())\nr = await tools['echo'](v=5)\ntask.cancel()\nr['v']"
        )
        self.assertEqual(self.value(code), 5)

    def test_a_forked_child_cannot_call_tools(self):
        code = (
            "import os\npid = os.fork()\nif pid == 0:\n    try:\n        tools['echo'].sync(v=1)\n    except RuntimeError:\n"
            "        os._exit(7)\n    os._exit(1)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        )
        self.assertEqual(self.value(code), 7)
        fork = {"x86_64": "57"}.get(os.uname().machine, "220, 17, 0, 0, 0, 0")  # aarch64 has clone only
        code = f"import ctypes, os\nlibc = ctypes.CDLL(None)\npid = libc.syscall({fork})\nif pid == 0:\n" + code.split("if pid == 0:\n")[1]
        self.assertEqual(self.value(code), 7)


if __name__ == "__main__":
    unittest.main()
