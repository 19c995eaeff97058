"""Cells under plain CPython, with the event loop but without a worker."""

import asyncio
import inspect
import io
import os
import signal
import sys
import unittest
from contextlib import redirect_stderr

from guest import Core

from cloister import main_loop, sources, tracebacks
from cloister.cell import Cells, describe
from cloister.channel import Channel
from cloister.interrupts import Interrupts


class Rig(unittest.TestCase):
    def setUp(self):
        self.core = Core()
        self.interrupts = Interrupts(self.core)
        self.interrupts.start()
        self.loops = main_loop.MainLoop(Channel(self.core, self.interrupts), self.interrupts)
        self.loops.begin(1)
        self.names = {"__name__": "__main__"}
        self.cells = Cells(self.names, self.loops, self.interrupts)

    def tearDown(self):
        self.loops.main().close()
        asyncio.set_event_loop(None)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.core.close()

    def run_cell(self, code, filename=None, prepare=None):
        self.interrupts.begin()
        try:
            return describe(self.cells.run(code, filename, prepare), self.interrupts.arrived)
        finally:
            self.interrupts.end()


class Results(Rig):
    def test_statuses(self):
        for code, expected in (
            ("1 + 1", {"status": "ok", "value": {"repr": "2", "json": 2}}),
            ("x = 1", {"status": "ok"}),
            ("None", {"status": "ok"}),
            ("await __import__('asyncio').sleep(0, 'a')", {"status": "ok", "value": {"repr": "'a'", "json": "a"}}),
            ("raise SystemExit", {"status": "ok"}),
            ("raise SystemExit(0)", {"status": "ok"}),
            ("raise SystemExit(7)", {"status": "exit", "exit_code": 7}),
            ("raise SystemExit(-1)", {"status": "exit", "exit_code": 255}),
            ("raise SystemExit(256)", {"status": "ok"}),
            ("raise SystemExit(True)", {"status": "exit", "exit_code": 1}),
        ):
            with self.subTest(code=code):
                self.assertEqual(self.run_cell(code), expected)

    def test_exit_with_a_message(self):
        with redirect_stderr(io.StringIO()) as told:
            self.assertEqual(self.run_cell("raise SystemExit('bye')"), {"status": "exit", "exit_code": 1})
        self.assertEqual(told.getvalue(), "bye\n")

    def test_the_body_is_run_once_and_before_the_value(self):
        self.assertEqual(self.run_cell("log = []\nlog.append(1)\nlog.append(2)\nlog")["value"]["json"], [1, 2])

    def test_an_async_cell_keeps_its_names(self):
        self.run_cell("import asyncio\ny = await asyncio.sleep(0, 3)\nasync def f(): return y")
        self.assertEqual(self.run_cell("await f()")["value"]["json"], 3)

    def test_prepare_gets_the_names_and_may_fail(self):
        seen = []
        self.run_cell("a + b", prepare=seen.append)
        self.assertEqual(seen, [{"a", "b"}])

        def fail(names):
            raise KeyError("k")

        self.assertEqual(self.run_cell("1", prepare=fail)["error"]["type"], "KeyError")

    def test_interrupts(self):
        for code in ("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
                     "import os, signal, asyncio\nos.kill(os.getpid(), signal.SIGINT)\nawait asyncio.sleep(9)",
                     "asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)\nawait asyncio.sleep(9)"):  # fmt: skip
            with self.subTest(code=code):
                result = self.run_cell(code)
                self.assertEqual(result["status"], "interrupted")
                self.assertTrue(result["error"]["traceback"].endswith("\nKeyboardInterrupt\n"), result)

    def test_an_interrupt_outside_of_a_cell_is_ignored(self):
        os.kill(os.getpid(), signal.SIGINT)
        self.assertEqual(self.run_cell("1")["value"]["json"], 1)


class Large(Rig):
    """Code beyond compiler.LARGE is compiled without a syntax tree."""

    FILL = "x = 1\n" * 30_000

    def test_the_last_expression(self):
        for end, expected in (
            ("x + 1", 2), ("x + 1\n# end\n\n", 2), ("max(\n  1,\n  5)", 5), ("'''\n7\n'''", "\n7\n"), ("y = 3", None),
            ("if x:\n    5", None), ("y = 2 + \\\n3", None), ("y = '''\n3\n4'''", None), ("x + 1\r\n", 2),
            ("import asyncio\nawait asyncio.sleep(0, 4)", 4), ("await asyncio.sleep(0)\nx + 5", 6),
        ):  # fmt: skip
            with self.subTest(end=end):
                result = self.run_cell(self.FILL + end)
                self.assertEqual(result["status"], "ok", result)
                self.assertEqual(result.get("value", {}).get("json"), expected)

    def test_lines(self):
        self.assertEqual(self.run_cell(self.FILL + "1/0")["error"]["line"], 30_001)
        self.assertEqual(self.run_cell(self.FILL + "\n\nx = = 1")["error"]["line"], 30_003)

    def test_names(self):
        seen = []
        self.run_cell(self.FILL + "def f(): return tool_name\nx", prepare=seen.append)
        self.assertLessEqual({"tool_name", "*"}, seen[0])


class Sources(Rig):
    def test_names_are_unique(self):
        first, second = sources.add("a = 1", "f.py"), sources.add("b = 2", "f.py")
        self.assertEqual((first, second), ("f.py", "f.py (2)"))
        self.assertNotEqual(sources.add("c"), sources.add("c"))

    def test_lines_are_numbered_like_the_compilers(self):
        error = self.run_cell("a = '\x0c\u2028'\r\nb = 1\r1/0")["error"]
        self.assertEqual(error["line"], 3)
        self.assertIn("    1/0\n", error["traceback"])

    def test_finds_the_right_class_of_a_name(self):
        sources.patch_inspect(inspect)
        self.addCleanup(setattr, inspect, "getfile", inspect.getfile.__wrapped__)
        main = sys.modules["__main__"]
        saved = getattr(main, "__file__", None)
        if saved is not None:
            del main.__file__
            self.addCleanup(setattr, main, "__file__", saved)
        self.run_cell("class K:\n    def m(self): return 1")
        first = self.names["K"]
        self.run_cell("class K:\n    x = 2")
        self.assertIn("return 1", inspect.getsource(first))
        self.assertIn("x = 2", inspect.getsource(self.names["K"]))


class Traces(Rig):
    def test_cut(self):
        text = tracebacks.cut("a" * 1000 + "z" * 1000, 300)
        self.assertLess(len(text), 400)
        self.assertTrue(text.startswith("aaa") and text.endswith("zzz"))
        self.assertIn("1700 characters cut", text)

    def test_no_frames_of_cloister(self):
        for code in ("1/0", "import asyncio\nawait asyncio.sleep(0)\n1/0", "class A:\n    def __del__(self): pass\n[][1]"):
            text = self.run_cell(code)["error"]["traceback"]
            self.assertNotIn("sandbox-init", text)
            self.assertIn("<cell", text)

    def test_when_traceback_is_broken(self):
        import traceback

        saved, traceback.TracebackException = traceback.TracebackException, None
        try:
            error = self.run_cell("def f():\n    1/0\nf()")["error"]
        finally:
            traceback.TracebackException = saved
        self.assertIn(", line 2, in f\nZeroDivisionError: division by zero\n", error["traceback"])

    def test_causes_are_stripped_and_cycles_end(self):
        code = "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
        self.assertIn("ValueError: a", self.run_cell(code)["error"]["traceback"])


class Nested(Rig):
    def test_asyncio_run_inside_and_outside(self):
        self.addCleanup(setattr, asyncio, "run", asyncio.run)
        self.addCleanup(setattr, asyncio, "create_task", asyncio.create_task)
        self.addCleanup(setattr, asyncio.runners, "run", asyncio.runners.run)
        self.addCleanup(setattr, asyncio.tasks, "create_task", asyncio.tasks.create_task)
        self.loops.patch_asyncio(asyncio)
        self.run_cell("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
        self.assertEqual(self.run_cell("asyncio.run(f(1))")["value"]["json"], 1)
        self.assertEqual(self.run_cell("[await f(2), asyncio.run(f(3)), await f(4)]")["value"]["json"], [2, 3, 4])
        self.assertEqual(self.run_cell("t = asyncio.create_task(f(5))\nasyncio.get_event_loop().run_until_complete(t)")["value"]["json"], 5)
        code = "async def g():\n    t = asyncio.current_task()\n    asyncio.run(f(1))\n    return t is asyncio.current_task()\nawait g()"
        self.assertEqual(self.run_cell(code)["value"]["json"], True)


if __name__ == "__main__":
    unittest.main()
