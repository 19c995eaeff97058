"""The real worker, forked from a real template, over real frames; outside of a sandbox: cells and tracebacks."""

import textwrap
import unittest

import worker_rig
from worker_case import WorkerTest


class Cells(WorkerTest):
    def test_values(self):
        self.assertEqual(self.value("1+1"), 2)
        self.assertNotIn("value", self.run_cell("x = 5"))
        self.assertNotIn("value", self.run_cell("None"))
        self.assertEqual(self.value("x * 2"), 10)
        self.assertEqual(self.value("_ + 1"), 11)
        self.assertEqual(self.run_cell("(1, 'a')")["value"], {"repr": "(1, 'a')"})
        self.assertEqual(self.value("'''only a string'''"), "only a string")
        self.assertEqual(self.value("# nothing\n"), None)
        self.assertEqual(self.value(""), None)

    def test_top_level_await(self):
        self.assertEqual(self.value("await asyncio.sleep(0, 7)"), 7)
        self.assertEqual(self.value("[await asyncio.sleep(0, i) for i in range(3)]"), [0, 1, 2])
        code = """
            async def numbers():
                for i in range(3):
                    yield i
            found = []
            async for n in numbers():
                found.append(n)
            async with asyncio.Lock():
                found.append(9)
            found"""
        self.assertEqual(self.value(textwrap.dedent(code)), [0, 1, 2, 9])
        self.assertEqual(self.value("found"), [0, 1, 2, 9])

    def test_last_value_that_was_not_awaited(self):
        self.assertEqual(self.value("asyncio.sleep(0, 4)"), 4)
        self.assertEqual(self.value("async def f(): return 1\nasyncio.gather(f(), f())"), [1, 1])
        self.assertEqual(self.value('tools["echo"](v=3)'), {"v": 3, "tool": "echo"})

    def test_asyncio_run_in_a_cell(self):
        self.assertEqual(self.value('async def main(): return (await tools["echo"](v=1))["v"]\nasyncio.run(main())'), 1)
        self.assertEqual(self.value("await asyncio.sleep(0)\nasyncio.run(main())"), 1)
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(main())"), 1)
        self.assertEqual(self.value("loop = asyncio.new_event_loop()\nloop.run_until_complete(main())"), 1)

    def test_tasks_run_between_cells(self):
        self.run_cell("seen = []\nasync def work():\n    for i in range(3):\n        await asyncio.sleep(0.01)\n        seen.append(i)\n    os.write(1, b'worked')")
        self.run_cell("import os\nasyncio.create_task(work())\nimport gc; gc.collect()\nNone")
        self.worker.until(b"worked")
        self.assertEqual(self.value("seen"), [0, 1, 2])

    def test_context_variables_persist(self):
        self.run_cell("import decimal\nawait asyncio.sleep(0)\ndecimal.getcontext().prec = 5")
        self.assertEqual(self.value("str(decimal.Decimal(1) / 3)"), "0.33333")

    def test_future_statements_persist(self):
        self.run_cell("from __future__ import annotations")
        self.assertEqual(self.value("def f(a: nowhere): pass\nf.__annotations__"), {"a": "nowhere"})

    def test_main_is_real(self):
        self.assertEqual(self.value("__name__"), "__main__")
        self.assertEqual(self.value("import __main__, sys\nvars(__main__) is globals() and sys.modules['__main__'] is __main__"), True)
        code = "import pickle, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\npickle.loads(pickle.dumps(P(3))) == P(3)"
        self.assertEqual(self.value(code), True)
        self.assertEqual(self.value("import sys\nsys.argv"), [""])
        self.assertEqual(self.value("import sys\nsys.executable"), worker_rig.PYTHON)
        out = self.value("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(6*7)'], capture_output=True, text=True).stdout")
        self.assertEqual(out, "42\n")
        self.assertNotIn("_cloister", self.value("dir()"))

    def test_files_beside_the_code_can_be_imported(self):
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            self.run_cell("import os\nos.chdir(%r)\nopen('helper_module.py', 'w').write('x = 5')\nNone" % directory)
            self.assertEqual(self.value("import helper_module\nhelper_module.x"), 5)

    def test_streams(self):
        result = self.run_cell("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('no end', end='')")
        self.assertEqual((result["stdout"], result["stderr"]), ("out\nno end", "err\n"))
        self.assertEqual(self.run_cell("print('\\ud800')")["stdout"], "\\ud800\n")
        self.assertEqual(self.error("input()")["type"], "EOFError")
        self.assertEqual(self.run_cell("import subprocess\nsubprocess.run('echo child', shell=True)\nNone")["stdout"], "child\n")
        self.assertEqual(self.run_cell("import ctypes\nctypes.CDLL(None).puts(b'from C')\nNone")["stdout"], "from C\n")

    def test_values_with_a_bad_repr(self):
        value = self.run_cell("class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()")["value"]
        self.assertEqual(value["repr"], "<Bad: repr() raised ValueError: no>")
        self.assertEqual(self.run_cell("'\\ud800'")["value"], {"repr": "'\\ud800'"})
        value = self.run_cell("'x' * 10**7")["value"]
        self.assertLess(len(value["repr"]), 300_000)
        self.assertIn("characters cut", value["repr"])
        self.run_cell("x = []\nx.append(x)\nx")
        self.run_cell("10**10000 if not hasattr(__import__('sys'), 'set_int_max_str_digits') else 10**5000")
        self.assertEqual(self.run_cell("float('nan')")["value"], {"repr": "nan"})

    def test_exits(self):
        self.assertEqual(self.run_cell("import sys\nsys.exit(3)", "exit")["exit_code"], 3)
        self.assertNotIn("exit_code", self.run_cell("sys.exit(0)"))
        self.run_cell("sys.exit()")
        result = self.run_cell("sys.exit('wrong')", "exit")
        self.assertEqual((result["exit_code"], result["stderr"]), (1, "wrong\n"))
        self.assertEqual(self.run_cell("exit(2)", "exit")["exit_code"], 2)
        self.assertEqual(self.run_cell("await asyncio.sleep(0)\nraise SystemExit(4)", "exit")["exit_code"], 4)
        self.assertEqual(self.run_cell("async def f(): sys.exit(5)\nt = asyncio.create_task(f())\nawait asyncio.sleep(9)", "exit")["exit_code"], 5)
        self.assertEqual(self.value("1"), 1)

    def test_large_code(self):
        self.assertEqual(self.value("x = '%s'\nlen(x)" % ("a" * (10 << 20))), 10 << 20)
        self.assertEqual(self.error("x = '%s\n" % ("a" * (1 << 20)))["type"], "SyntaxError")

    def test_code_that_cannot_be_compiled(self):
        self.assertIn(self.error("a\x00b")["type"], ("ValueError", "SyntaxError"))
        self.worker.start("")
        self.assertEqual(self.worker.finish()["status"], "ok")
        for payload, value in ((b"'\\xff\xff'\0", "'\xff\ufffd'"), (b"5", None), (b"", None), (b"1\0002\0name", "error")):
            self.worker.cell += 1
            self.worker.send(worker_rig.EXEC, self.worker.cell, payload)
            result = self.worker.finish()
            self.assertEqual(result.get("value", {}).get("repr", None if result["status"] == "ok" else "error"), value)
        self.error("(" * 100000)
        self.assertEqual(self.value("1"), 1)


class Tracebacks(WorkerTest):
    def test_only_lines_of_the_agents_code(self):
        self.run_cell("def f(x):\n    return 1 / x")
        error = self.error("def g():\n    f(0)\n\ng()")
        self.assertEqual((error["type"], error["message"], error["line"]), ("ZeroDivisionError", "division by zero", 2))
        lines = [line for line in error["traceback"].splitlines() if not set(line) <= set(" ~^")]
        self.assertEqual(lines, [
            "Traceback (most recent call last):",
            '  File "<cell 2>", line 4, in <module>', "    g()",
            '  File "<cell 2>", line 2, in g', "    f(0)",
            '  File "<cell 1>", line 2, in f', "    return 1 / x",
            "ZeroDivisionError: division by zero",
        ])  # fmt: skip

    def test_libraries_are_left_out(self):
        error = self.error("import json\njson.loads('x')")
        self.assertEqual(error["type"], "json.decoder.JSONDecodeError")
        self.assertNotIn("decoder.py", error["traceback"])
        self.assertEqual(error["line"], 2)

    def test_asynchronous(self):
        error = self.error("async def f():\n    await asyncio.sleep(0)\n    1/0\nawait asyncio.gather(f())")
        self.assertEqual(error["line"], 3)
        self.assertNotIn("asyncio/", error["traceback"])
        self.assertNotIn("cloister", error["traceback"])

    def test_chained(self):
        error = self.error("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
        self.assertIn("direct cause", error["traceback"])
        self.assertIn("ZeroDivisionError", error["traceback"])

    def test_groups(self):
        if self.value("import sys\nsys.version_info >= (3, 11)"):
            error = self.error("async def f(): 1/0\nasync with asyncio.TaskGroup() as g:\n    g.create_task(f())\n    g.create_task(f())")
            self.assertEqual(error["type"], "ExceptionGroup")
            self.assertNotIn("taskgroups.py", error["traceback"])
            self.assertIn("<cell", error["traceback"])

    def test_syntax_errors(self):
        error = self.error("x = 1\ny = = 2\n")
        self.assertEqual((error["type"], error["line"]), ("SyntaxError", 2))
        self.assertTrue(error["traceback"].startswith('  File "<cell 1>", line 2\n    y = = 2\n'))
        self.assertIn("^", error["traceback"])
        self.assertEqual(self.error("if 1:\nx")["type"], "IndentationError")
        self.assertEqual(self.error("return 5")["type"], "SyntaxError")

    def test_own_exceptions(self):
        error = self.error("class Mine(Exception): pass\nraise Mine('m')")
        self.assertEqual((error["type"], error["message"]), ("Mine", "m"))
        error = self.error("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad")
        self.assertEqual(error["type"], "Bad")
        self.error("raise Exception('\\ud800')")
        self.assertIn("cut", self.error("raise Exception('x' * 10**6)")["traceback"])

    def test_deep_recursion(self):
        error = self.error("def f(): f()\nf()")
        self.assertEqual(error["type"], "RecursionError")
        self.assertIn("repeated", error["traceback"])

    def test_inspect_finds_the_source(self):
        self.run_cell("def f():\n    return 1  # one\n\nclass A:\n    '''doc'''\n    x = 1\n\nclass B:\n    def m(self):\n        pass")
        self.run_cell("def other(): pass\nimport inspect, linecache\nlinecache.clearcache()")
        self.run_cell("class A2: pass")
        self.assertEqual(self.value("inspect.getsource(A2)").strip(), "class A2: pass")
        self.assertEqual(self.value("linecache.checkcache()\ninspect.getsource(A)"), "class A:\n    '''doc'''\n    x = 1\n")
        self.assertEqual(self.value("inspect.getsource(B)"), "class B:\n    def m(self):\n        pass\n")
        self.run_cell("def g():\n    return 2")
        self.assertEqual(self.value("inspect.getsource(g)"), "def g():\n    return 2\n")

    def test_file_names(self):
        result = self.worker.run("def f(): 1/0", filename="script.py")
        self.assertEqual(result["status"], "ok")
        self.assertEqual(self.value("import sys\nsys.argv"), [""])
        self.assertIn('File "script.py", line 1, in f', self.error("f()")["traceback"])
        result = self.worker.run("import sys\nsys.argv", filename="script.py")
        self.assertEqual(result["value"]["json"], ["script.py"])


if __name__ == "__main__":
    unittest.main()
