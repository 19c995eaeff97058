"""The real worker, forked from a real template, over real frames; outside of a sandbox."""

import json
import os
import signal
import time
import unittest

import worker_rig
from worker_rig import CALL, QUERY, RETURN, tool_result

ECHO = {
    "name": "demo",
    "state": "ready",
    "tools": [
        {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object", "properties": {"v": {}}}},
        {"name": "add-up", "inputSchema": {"type": "object"}},
        {"name": "print", "inputSchema": {"type": "object"}},
    ],
}


@unittest.skipUnless(worker_rig.STUB and worker_rig.find_libpython(), "needs the built worker and a libpython")
class WorkerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.template = worker_rig.Template()
        assert cls.template.first_word == "ready", cls.template.first_word

    @classmethod
    def tearDownClass(cls):
        cls.template.close()

    def setUp(self):
        self.worker = self.template.session()
        self.addCleanup(self.worker.close)
        self.worker.on_call = self.echo
        self.worker.catalogue(ECHO)

    def echo(self, number, call):
        arguments = call["arguments"]
        self.worker.send(RETURN, number, tool_result(structured={"v": arguments.get("v"), "tool": call["tool"]}))

    def run_cell(self, code, status="ok", **how):
        result = self.worker.run(code, **how)
        self.assertEqual(result.get("status"), status, result)
        return result

    def value(self, code, **how):
        result = self.run_cell(code, **how)
        return result["value"]["json"] if "value" in result else None

    def error(self, code, status="error", **how):
        return self.run_cell(code, status, **how)["error"]


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
        self.assertEqual(self.value(__import__("textwrap").dedent(code)), [0, 1, 2, 9])
        self.assertEqual(self.value("found"), [0, 1, 2, 9])

    def test_forgotten_awaits_of_the_last_value(self):
        self.assertEqual(self.value("asyncio.sleep(0, 4)"), 4)
        self.assertEqual(self.value("async def f(): return 1\nasyncio.gather(f(), f())"), [1, 1])
        self.assertEqual(self.value('tools["echo"](v=3)'), {"v": 3, "tool": "echo"})

    def test_asyncio_run_by_habit(self):
        self.assertEqual(self.value('async def main(): return (await tools["echo"](v=1))["v"]\nasyncio.run(main())'), 1)
        self.assertEqual(self.value("await asyncio.sleep(0)\nasyncio.run(main())"), 1)
        self.assertEqual(self.value("asyncio.get_event_loop().run_until_complete(main())"), 1)
        self.assertEqual(self.value("loop = asyncio.new_event_loop()\nloop.run_until_complete(main())"), 1)

    def test_tasks_go_on_between_cells(self):
        self.run_cell("seen = []\nasync def work():\n    for i in range(3):\n        await asyncio.sleep(0.01)\n        seen.append(i)")
        self.run_cell("asyncio.create_task(work())\nimport gc; gc.collect()\nNone")
        time.sleep(0.3)
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

    def test_values_that_are_hard_to_show(self):
        value = self.run_cell("class Bad:\n    def __repr__(self): raise ValueError('no')\nBad()")["value"]
        self.assertEqual(value["repr"], "<Bad: repr() raised ValueError: no>")
        self.assertEqual(self.run_cell("'\\ud800'")["value"], {"repr": "'\\ud800'"})
        value = self.run_cell("'x' * 10**7")["value"]
        self.assertLess(len(value["repr"]), 300_000)
        self.assertIn("characters cut", value["repr"])
        self.run_cell("x = []\nx.append(x)\nx")
        self.run_cell("10**10000 if not hasattr(__import__('sys'), 'set_int_max_str_digits') else 10**5000")
        self.assertEqual(self.value("1.5, 2") if False else self.run_cell("float('nan')")["value"], {"repr": "nan"})

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

    def test_code_that_is_not_code(self):
        self.assertIn(self.error("a\x00b")["type"], ("ValueError", "SyntaxError"))
        self.worker.start("")
        self.assertEqual(self.worker.finish()["status"], "ok")
        self.worker.cell += 1
        self.worker.send(worker_rig.EXEC, self.worker.cell, b'{"code": "\\ud800"}')
        self.assertEqual(self.worker.finish()["status"], "error")
        self.worker.cell += 1
        self.worker.send(worker_rig.EXEC, self.worker.cell, b'{"code": 5}')
        self.assertEqual(self.worker.finish()["status"], "error")
        self.error("(" * 100000)
        self.assertEqual(self.value("1"), 1)


class Tracebacks(WorkerTest):
    def test_lines_of_the_agent_only(self):
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

    def test_inspect_sees_the_source(self):
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


class Interrupted(WorkerTest):
    def interrupted(self, code, after=0.15):
        start = time.monotonic()
        result = self.run_cell(code, "interrupted", interrupt_after=after)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(result["error"]["type"], "KeyboardInterrupt")
        self.assertNotIn("cloister", result["error"]["traceback"])
        self.assertEqual(self.value("'alive'"), "alive")
        return result

    def test_a_loop(self):
        result = self.interrupted("x = 1\nprint('before')\nwhile True:\n    pass")
        self.assertEqual(result["stdout"], "before\n")
        self.assertGreaterEqual(result["error"]["line"], 3)
        self.assertEqual(self.value("x"), 1)

    def test_sleeps(self):
        self.assertEqual(self.interrupted("import time\ntime.sleep(60)")["error"]["line"], 2)
        self.assertEqual(self.interrupted("await asyncio.sleep(60)")["error"]["line"], 1)
        self.interrupted("asyncio.run(asyncio.sleep(60))")
        self.interrupted("await asyncio.sleep(0)\nasyncio.run(asyncio.sleep(60))")
        self.interrupted("import threading\nthreading.Event().wait()")
        self.interrupted("import subprocess\nsubprocess.run(['sleep', '60'])")

    def test_coroutines_that_spin(self):
        self.interrupted("async def spin():\n    while True: pass\nawait spin()")
        self.interrupted("t = asyncio.create_task(spin())\nawait asyncio.sleep(60)")
        self.interrupted("asyncio.run(spin())")
        self.interrupted("async def yielding():\n    while True: await asyncio.sleep(0)\nawait asyncio.gather(yielding(), yielding())")

    def test_waiting_for_tools(self):
        self.worker.on_call = None
        self.interrupted('await tools["echo"](v=1)')
        self.interrupted('tools["echo"].sync(v=1)')
        self.interrupted('async def f(): return tools["echo"].sync(v=1)\nawait f()')
        self.interrupted('asyncio.run(tools["echo"](v=1))')
        self.assertEqual(len(self.worker.drops), 4)
        self.interrupted("import threading\nthreading.Thread(target=echo.sync).start()\necho.sync()")
        self.interrupted("while True: pass")

    def test_while_compiling(self):
        start = time.monotonic()
        result = self.worker.run("x = [%s]\nwhile True: pass" % ("1+1," * 100_000), interrupt_after=0.1)
        self.assertEqual(result["status"], "interrupted")
        self.assertLess(time.monotonic() - start, 15)

    def test_repr_that_spins(self):
        self.interrupted("class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()")

    def test_code_may_catch_it(self):
        code = "try:\n    import time\n    while True: time.sleep(0.001)\nexcept KeyboardInterrupt:\n    caught = True\ncaught"
        self.assertEqual(self.run_cell(code, interrupt_after=0.15)["value"]["json"], True)
        code = "try:\n    await asyncio.sleep(60)\nexcept asyncio.CancelledError:\n    caught = 2\ncaught"
        self.assertEqual(self.run_cell(code, interrupt_after=0.15)["value"]["json"], 2)

    def test_raised_by_the_code_itself(self):
        self.assertEqual(self.error("raise KeyboardInterrupt")["type"], "KeyboardInterrupt")
        self.assertEqual(self.error("await asyncio.sleep(0)\nraise asyncio.CancelledError")["type"], "asyncio.exceptions.CancelledError")

    def test_replaced_handlers(self):
        self.run_cell("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nNone")
        self.interrupted("while True: pass")
        self.run_cell("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nNone")
        self.interrupted("while True: pass")
        self.run_cell("signal.signal(signal.SIGALRM, lambda *a: 1/0)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nNone")
        time.sleep(0.3)
        self.interrupted("while True: pass")

    def test_between_cells_it_is_nothing(self):
        self.run_cell("1")
        for _ in range(5):
            os.kill(self.worker.pid, signal.SIGINT)
            time.sleep(0.02)
        self.assertEqual(self.value("'alive'"), "alive")

    def test_many_at_the_edges(self):
        for turn in range(60):
            self.worker.start("sum(range(%d))" % (turn * 1000))
            if turn % 3:
                time.sleep(turn % 7 / 5000)
            os.kill(self.worker.pid, signal.SIGINT)
            self.assertIn(self.worker.finish()["status"], ("ok", "interrupted"))
        # The last may have come after its cell, and found this one on its way.
        self.assertIn(self.worker.run("0")["status"], ("ok", "interrupted"))
        self.assertEqual(self.value("await asyncio.sleep(0, 'alive')"), "alive")

    def test_a_background_task_that_spins(self):
        self.run_cell("async def spin():\n    await asyncio.sleep(0.01)\n    while True: pass\nasyncio.create_task(spin())\nNone")
        time.sleep(0.2)
        result = self.run_cell("1", "error", interrupt_after=0.2)
        self.assertIn("background task", result["error"]["message"])
        self.assertEqual(self.value("2"), 2)


class ToolCalls(WorkerTest):
    def test_all_ways_to_call(self):
        for code in (
            'await tools["echo"](v=1)', 'await tools["echo"]({"v": 1})', 'await tools["demo.echo"](v=1)',
            "await mcp_demo.echo(v=1)", "await echo(v=1)", 'tools["echo"].sync(v=1)', "mcp_demo.echo.sync(v=1)",
            "await tools.echo(v=1)", 'await echo(arguments={"v": 1}) if False else await echo(v=1)',
            '(await echo.raw(v=1))["structuredContent"]', "import cloister\nawait cloister.tools['echo'](v=1)",
        ):  # fmt: skip
            with self.subTest(code=code):
                self.assertEqual(self.value(code), {"v": 1, "tool": "echo"})
        self.assertEqual(self.value("(await add_up())['tool']"), "add-up")

    def test_names_appear_and_go(self):
        self.assertEqual(self.value("'echo' in globals()"), True)
        self.assertEqual(self.value("print is __builtins__.print"), True)
        self.run_cell("add_up = 5")
        self.worker.catalogue(ECHO, {"name": "late", "state": "ready", "tools": [{"name": "fresh"}]}, version=2)
        self.assertEqual(self.value("(await fresh())['tool']"), "fresh")
        self.assertEqual(self.value("(await mcp_late.fresh())['tool']"), "fresh")
        self.assertEqual(self.value("add_up"), 5)
        self.worker.catalogue({"name": "late", "state": "ready", "tools": []}, version=3)
        self.assertEqual(self.error("fresh")["type"], "NameError")
        self.assertEqual(self.error("await mcp_demo.echo()")["type"], "NameError")
        self.assertEqual(self.value("add_up"), 5)

    def test_a_server_that_comes_up_during_the_cell(self):
        self.worker.catalogue({"name": "slow", "state": "starting", "tools": []}, version=2)

        def on_query(number, query):
            self.assertEqual(query["what"], "catalogue")
            self.worker.catalogue({"name": "slow", "state": "ready", "tools": [{"name": "late_tool"}]}, version=3)
            self.worker.send(RETURN, number, {"ok": True, "result": {"version": 3}})

        self.worker.on_query = on_query
        self.assertEqual(self.value("(await late_tool())['tool']"), "late_tool")

    def test_errors(self):
        self.worker.on_call = lambda number, call: self.worker.send(RETURN, number, tool_result("broke", error=True))
        error = self.error('await tools["echo"](v=1)')
        self.assertEqual((error["type"], error["message"], error["line"]), ("cloister.ToolError", "broke", 1))
        self.assertNotIn("calls.py", error["traceback"])
        self.assertEqual(self.value("try:\n    await echo()\nexcept ToolError as e:\n    x = [e.server, e.tool, e.content[0]['text']]\nx"), ["demo", "echo", "broke"])
        self.assertEqual(self.error("await echo(w=1)")["type"], "cloister.ToolArgumentError")
        self.assertEqual(self.error("tools['ecko']")["type"], "cloister.ToolNotFound")
        self.assertEqual(self.error("from cloister import ToolTimeout\nraise ToolTimeout('t')")["type"], "cloister.ToolTimeout")

    def test_a_thousand_calls_in_flight(self):
        held = []

        def hold(number, call):
            held.append((number, call["arguments"]["v"]))
            if len(held) == 1000:
                for number, v in reversed(held):
                    self.worker.send(RETURN, number, tool_result(structured={"v": v}))

        self.worker.on_call = hold
        self.assertEqual(self.value("sum(r['v'] for r in await asyncio.gather(*(echo(v=i) for i in range(1000))))"), 499500)

    def test_sixteen_mebibytes_both_ways(self):
        start = time.monotonic()
        self.assertEqual(self.value("x = 'é' * (8 << 20)\n(await echo(v=x))['v'] == x"), True)
        self.assertEqual(self.value("x = list(range(1_000_000))\n(await echo(v=x))['v'] == x"), True)
        self.assertLess(time.monotonic() - start, 60)

    def test_values_cross_unchanged(self):
        self.worker.on_call = lambda number, call: None
        for text in ("2**64", "10**4000", "-0.0", "1e-320", "'\\u2028\\x00\\U0001f600\"'", "{'a': [None, True, {}]}", "0.1"):
            with self.subTest(value=text):
                self.worker.start("v = %s\nr = (await echo(v=v))['v']\n(r == v, type(r) is type(v), repr(r) == repr(v))" % text)
                while not self.worker.frames:
                    self.worker.step(5)
                kind, number, payload = self.worker.frames.pop(0)
                self.assertEqual(kind, CALL)
                raw = payload.decode().partition('"v":')[2][:-2]
                self.worker.send(RETURN, number, ('{"ok":true,"result":{"structuredContent":{"v":%s}}}' % raw).encode())
                self.assertEqual(self.worker.finish()["value"]["repr"], "(True, True, True)")

    def test_threads(self):
        code = """
import threading
results = []
threads = [threading.Thread(target=lambda i=i: results.append(echo.sync(v=i)["v"])) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
sorted(results)"""
        self.assertEqual(self.value(code), list(range(8)))
        self.assertEqual(self.value(code.replace("[t.join() for t in threads]", "await asyncio.sleep(0.5)")), list(range(8)))
        code = "import concurrent.futures as f\nwith f.ThreadPoolExecutor(8) as pool:\n    r = list(pool.map(lambda i: asyncio.run(echo(v=i))['v'], range(50)))\nr"
        self.assertEqual(self.value(code), list(range(50)))
        self.assertEqual(self.value("(await asyncio.to_thread(echo.sync, v=1))['v']"), 1)

    def test_background_tasks_call_between_cells(self):
        self.run_cell("async def later():\n    global got\n    await asyncio.sleep(0.05)\n    got = await echo(v=9)\nt = asyncio.create_task(later())")
        deadline = time.monotonic() + 5
        while not self.worker.calls and time.monotonic() < deadline:
            self.worker.step(0.1)
            self.worker.answer()
        time.sleep(0.1)
        self.assertEqual(self.value("got['v']"), 9)

    def test_discovery(self):
        self.assertEqual([found["name"] for found in self.value("list(_discover())")], ["echo", "add-up", "print"])
        self.assertEqual(self.value("(await _search('echo'))[0]['signature']"), "echo(v: Any = None)")
        self.assertEqual(self.value("dict(_schema('demo.add-up'))['server']"), "demo")
        self.assertIn("Says it again.", self.run_cell("help(echo)")["stdout"])
        self.assertIn("demo.echo", self.run_cell("echo")["value"]["repr"])

    def test_frames_that_are_too_large(self):
        error = self.error("await echo(v='x' * (65 << 20))")
        self.assertEqual(error["type"], "cloister.ToolArgumentError")
        self.assertIn("67,108,864", error["message"])
        self.assertEqual(self.value("1"), 1)

    def test_backpressure(self):
        """The broker reads nothing for a while, then everything; both sides have much to say."""
        self.worker.start("r = await asyncio.gather(*(echo(v='x' * 100000) for i in range(100)))\nlen(r)")
        time.sleep(0.5)
        self.assertEqual(self.worker.finish()["value"]["json"], 100)


class Hostile(WorkerTest):
    def alive(self):
        self.assertEqual(self.value("await asyncio.sleep(0, 'alive')"), "alive")
        self.assertEqual(self.value("(await tools['echo'](v=1))['v']"), 1)
        self.assertEqual(self.run_cell("print('seen')")["stdout"], "seen\n")

    def test_closed_streams(self):
        for code in (
            "import os\nos.close(0); os.close(1); os.close(2)", "import sys\nsys.stdout.close()", "sys.stderr.close()",
            "del sys.stdout", "sys.stdout = None", "sys.stdout.buffer.close()", "sys.stdout.detach()\nNone",
            "os.closerange(0, 3)", "os.closerange(0, 64)",
        ):  # fmt: skip
            with self.subTest(code=code):
                self.run_cell(code)
                self.alive()

    def test_closing_the_loops_descriptors(self):
        self.run_cell("import os\nos.closerange(3, 64)")
        self.alive()
        self.run_cell("t = asyncio.create_task(asyncio.sleep(0.01, 5))\nos.closerange(3, 64)")
        self.assertEqual(self.value("await t"), 5)
        self.assertEqual(self.value("await asyncio.get_running_loop().run_in_executor(None, lambda: 3)"), 3)
        self.run_cell("await asyncio.sleep(0)\nos.closerange(3, 64)\nawait asyncio.sleep(0.01)")
        self.alive()

    def test_closing_the_loop(self):
        for code in ("asyncio.get_event_loop().close()", "asyncio.get_event_loop().stop()",
                     "asyncio.set_event_loop(None)", "await asyncio.sleep(0)\nasyncio.get_running_loop().stop()"):  # fmt: skip
            with self.subTest(code=code):
                self.run_cell(code)
                self.alive()

    def test_closing_the_channel_ends_the_session(self):
        result = self.worker.run("import os\nos.closerange(3, 65536)")
        self.assertTrue(result.get("ended"))

    def test_replaced_streams(self):
        result = self.run_cell("import sys, io\nsys.stdout = io.StringIO()\nprint('hidden')")
        self.assertEqual(result["stdout"], "")
        self.assertEqual(self.value("sys.stdout.getvalue()"), "hidden\n")
        self.run_cell("class Bad:\n    def write(self, s): raise ValueError\n    flush = write\nsys.stdout = Bad()")
        self.assertEqual(self.value("1"), 1)
        self.run_cell("sys.stdout = sys.__stdout__")
        self.alive()

    def test_replaced_builtins(self):
        code = "import builtins\nsaved = dict(vars(builtins))\nfor n in ('print','len','isinstance','open','str','dict','getattr','type','eval','compile','__import__','range','list'):\n    setattr(builtins, n, None)"
        self.run_cell(code)
        self.assertEqual(self.value("1 + 1"), 2)
        self.assertEqual(self.error("1 / 0")["type"], "ZeroDivisionError")
        self.run_cell("vars(builtins).update(saved) if False else builtins.__dict__.update(saved)")
        self.alive()

    def test_replaced_modules(self):
        self.run_cell("import json, asyncio, struct, traceback, linecache, os, sys, io, select\nsaved = [(m, dict(vars(m))) for m in (json, struct, traceback, linecache)]")
        self.run_cell("for m, names in saved:\n    for n in names:\n        if not n.startswith('__'): setattr(m, n, None)")
        self.assertEqual(self.value("1 + 1"), 2)
        self.assertEqual(self.error("1 / 0")["type"], "ZeroDivisionError")
        self.run_cell("for m, names in saved: vars(m).update(names)")
        self.alive()
        self.run_cell("sys.modules.clear()")
        self.assertEqual(self.value("1 + 1"), 2)

    def test_broken_asyncio(self):
        self.run_cell("import asyncio.base_events as b\nrun_once = b.BaseEventLoop._run_once\nb.BaseEventLoop._run_once = None")
        self.assertEqual(self.value("1 + 1"), 2)
        self.run_cell("b.BaseEventLoop._run_once = run_once")
        self.alive()

    def test_cleared_namespace(self):
        self.run_cell("globals().clear()")
        self.assertEqual(self.value("1 + 1"), 2)
        self.run_cell("import asyncio\nfrom cloister import tools")
        self.alive()

    def test_forks(self):
        code = "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    status = os.waitpid(pid, 0)[1]\n    print('parent', status)"
        result = self.run_cell(code)
        self.assertEqual(result["stdout"], "child\nparent 0\n")
        result = self.run_cell("pid = os.fork()\nif pid == 0:\n    1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(result["value"]["json"], 1)
        self.assertIn("ZeroDivisionError", result["stderr"])
        code = "pid = os.fork()\nif pid == 0:\n    try: tools['echo'].sync(v=1)\n    except BaseException as e: print(type(e).__name__)\n    os._exit(7)\nos.waitpid(pid, 0)[1] >> 8"
        result = self.run_cell(code)
        self.assertEqual((result["value"]["json"], result["stdout"]), (7, "RuntimeError\n"))
        result = self.run_cell("pid = os.fork()\nif pid == 0:\n    await tools['echo'](v=1)\nos.waitpid(pid, 0)[1] >> 8")
        self.assertEqual(result["value"]["json"], 1)
        code = "import multiprocessing as m\ndef sq(x): return x * x\nwith m.get_context('fork').Pool(2) as p:\n    r = p.map(sq, range(5))\nr"
        self.assertEqual(self.value(code), [0, 1, 4, 9, 16])
        self.alive()

    def test_a_fork_left_running(self):
        self.run_cell("import os, time\nif os.fork() == 0:\n    time.sleep(0.3)\n    os._exit(0)")
        self.alive()

    def test_ends(self):
        for code in ("import os\nos._exit(3)", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "import ctypes\nctypes.string_at(0)"):
            worker = self.template.session()
            result = worker.run(code)
            self.assertEqual(result.get("ended"), True, result)
            worker.close()

    def test_memory(self):
        self.run_cell(
            "import resource\nsize = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
            "resource.setrlimit(resource.RLIMIT_AS, (size + (150 << 20), -1))"
        )
        self.assertEqual(self.error("bytearray(2 << 30)")["type"], "MemoryError")
        self.assertEqual(self.error("x = []\nwhile True: x.append('x' * 1000000 + str(len(x)))")["type"], "MemoryError")
        self.run_cell("del x")
        self.error("x = []\nwhile True: x.append(len(x) * 10**9)")
        self.run_cell("del x")
        self.alive()

    def test_frames_from_nowhere(self):
        self.worker.send(RETURN, 12345, {"ok": True, "result": {}})
        self.worker.send(RETURN, 0, b"not json")
        self.alive()

    def test_randomness_differs_between_sessions(self):
        code = "import random, uuid, secrets, tempfile\n[random.random(), str(uuid.uuid4()), str(uuid.uuid1()), secrets.token_hex(), next(tempfile._get_candidate_names())]"
        other = self.template.session()
        mine, theirs = self.value(code), other.run(code)["value"]["json"]
        other.close()
        for a, b in zip(mine, theirs):
            self.assertNotEqual(a, b)

    def test_threads_that_outlive_the_cell(self):
        self.run_cell("import threading, time\ndef work():\n    global done\n    time.sleep(0.1)\n    done = echo.sync(v=5)['v']\necho\nthreading.Thread(target=work).start()")
        deadline = time.monotonic() + 5
        while not self.worker.calls and time.monotonic() < deadline:
            self.worker.step(0.1)
            self.worker.answer()
        time.sleep(0.1)
        self.assertEqual(self.value("done"), 5)


class Boot(unittest.TestCase):
    @unittest.skipUnless(worker_rig.STUB, "needs the built worker")
    def test_no_libpython(self):
        template = worker_rig.Template("/nonexistent/libpython.so")
        self.assertRegex(template.first_word, "^failed load CPython: /nonexistent")
        template.close()

    @unittest.skipUnless(worker_rig.STUB and worker_rig.find_libpython(), "needs the built worker and a libpython")
    def test_no_standard_library(self):
        template = worker_rig.Template(worker_rig.find_libpython(), "/nonexistent/bin/python3")
        self.assertRegex(template.first_word, "^failed|^ready")  # a libpython may know its own prefix
        template.close()


assert json and QUERY

if __name__ == "__main__":
    unittest.main()
