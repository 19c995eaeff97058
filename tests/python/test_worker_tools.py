"""The real worker, forked from a real template, over real frames; outside of a sandbox: calls of tools."""

import time
import unittest

from worker_case import ECHO, WorkerTest
from worker_rig import CALL, RETURN, tool_result


class ToolCalls(WorkerTest):
    def test_all_ways_to_call(self):
        for code in (
            'await tools["echo"](v=1)', 'await tools["echo"]({"v": 1})', 'await tools["demo.echo"](v=1)',
            "await mcp_demo.echo(v=1)", "await echo(v=1)", 'tools["echo"].sync(v=1)', "mcp_demo.echo.sync(v=1)",
            "await tools.echo(v=1)", 'await echo(arguments={"v": 1})',
            '(await echo.raw(v=1))["structuredContent"]', "import cloister\nawait cloister.tools['echo'](v=1)",
        ):  # fmt: skip
            with self.subTest(code=code):
                self.assertEqual(self.value(code), {"v": 1, "tool": "echo"})
        self.assertEqual(self.value("(await add_up())['tool']"), "add-up")

    def test_names_appear_and_disappear(self):
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

    def test_a_server_that_starts_during_the_cell(self):
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

    def calls_at_once(self, code):
        """Runs the code. Returns how many calls the worker wrote at once, in order."""
        found, receive = [], self.worker.receive

        def count():
            before = len(self.worker.frames)
            receive()
            found.append(sum(kind == CALL for kind, *_ in self.worker.frames[before:]))

        self.worker.receive = count
        value = self.value(code)
        return value, [n for n in found if n]

    def test_gathered_calls_are_sent_together(self):
        """By the end of their turn of the loop, or before any other frame."""
        gather = "await asyncio.gather(*({call} for i in range(50)))"
        total = "sum(r['v'] for r in {}) == 1225".format
        value, found = self.calls_at_once(total(gather.format(call="echo(v=i)")))
        self.assertEqual((value, sum(found)), (True, 50))
        self.assertGreater(found[0], 4, found)
        # A call that waits for its answer at once is not queued, and sends those before it.
        self.assertEqual(self.calls_at_once("task = asyncio.gather(echo(v=1), echo(v=2))\nawait asyncio.sleep(0)\necho.sync(v=3)['v'] + (await task)[1]['v']"), (5, [3]))
        # More than the queue takes, and a frame that is larger than it.
        value, found = self.calls_at_once("x = 'x' * 200\nall(r['v'] == x for r in await asyncio.gather(*(echo(v=x) for i in range(50))))")
        self.assertEqual((value, sum(found)), (True, 50))
        self.assertEqual(self.value("x = 'x' * 100000\n[len(r['v']) for r in await asyncio.gather(echo(v='a'), echo(v=x), echo(v='bc'))]"), [1, 100000, 2])

    def test_a_child_does_not_send_what_is_queued(self):
        code = """
import os
async def fork():
    pid = os.fork()
    if pid == 0:
        try:
            echo.sync(v=0)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return {"v": 0}
sum(r["v"] for r in await asyncio.gather(echo(v=1), fork(), echo(v=2)))"""
        self.assertEqual(self.calls_at_once(code), (3, [2]))

    def test_sixteen_mebibytes_both_ways(self):
        start = time.monotonic()
        self.assertEqual(self.value("x = 'é' * (8 << 20)\n(await echo(v=x))['v'] == x"), True)
        self.assertEqual(self.value("x = list(range(900_000))\n(await echo(v=x))['v'] == x"), True)
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
        self.run_cell("async def later():\n    global got\n    await asyncio.sleep(0.05)\n    got = await echo(v=9)\n    os.write(1, b'got it')\nimport os\nt = asyncio.create_task(later())")
        self.worker.until(b"got it")
        self.assertEqual(self.value("got['v']"), 9)

    def test_discovery(self):
        self.assertEqual([found["name"] for found in self.value("list(_discover())")], ["echo", "add-up", "print"])
        tools = [{"server": "demo", "tool": {"name": "echo", "inputSchema": {"type": "object", "properties": {"v": {}}}}}]
        self.worker.on_query = lambda number, query: self.worker.send(RETURN, number, {"ok": True, "result": {"tools": tools}})
        self.assertEqual(self.value("(await _search('echo'))[0]['signature']"), "echo(v: Any = None)")
        self.assertEqual(self.value("dict(_schema('demo.add-up'))['server']"), "demo")
        self.assertIn("Says it again.", self.run_cell("help(echo)")["stdout"])
        self.assertIn("demo.echo", self.run_cell("echo")["value"]["repr"])

    def test_frames_that_are_too_large(self):
        error = self.error("await echo(v='x' * (65 << 20))")
        self.assertEqual(error["type"], "cloister.ToolArgumentError")
        self.assertIn("17,825,792", error["message"])
        self.assertEqual(self.value("1"), 1)

    def test_backpressure(self):
        """The broker reads nothing for a while, then everything; both sides send much."""
        self.worker.start("r = await asyncio.gather(*(echo(v='x' * 100000) for i in range(100)))\nlen(r)")
        time.sleep(0.5)
        self.assertEqual(self.worker.finish()["value"]["json"], 100)


class Waiting(WorkerTest):
    """A single task waits for its answer without running the loop; that must not delay anything else."""

    def setUp(self):
        super().setUp()
        self.worker.on_call = self.hold
        self.held = {}

    def hold(self, number, call):
        """Sends no answer before the tool "go" is called."""
        self.held[call["arguments"]["v"]] = number
        if "go" in self.held:
            for v, number in self.held.items():
                self.worker.send(RETURN, number, tool_result(structured={"v": v}))
            self.held.clear()

    def test_a_callback_of_a_thread(self):
        code = """
import threading, time
loop = asyncio.get_running_loop()
def later():
    time.sleep(0.1)
    loop.call_soon_threadsafe(lambda: asyncio.create_task(echo(v="go")))
threading.Thread(target=later).start()
(await echo(v=1))["v"]"""
        self.assertEqual(self.value(code), 1)

    def test_a_thread_that_blocks(self):
        code = """
import threading, time
def later():
    time.sleep(0.1)
    got.append(echo.sync(v="go")["v"])
got, thread = [], threading.Thread(target=later)
thread.start()
got.append((await echo(v=1))["v"])
thread.join()
sorted(got, key=str)"""
        self.assertEqual(self.value(code), [1, "go"])

    def test_a_descriptor(self):
        code = """
import os, threading, time
r, w = os.pipe()
loop = asyncio.get_running_loop()
def ready():
    os.read(r, 1)
    asyncio.create_task(echo(v="go"))
loop.add_reader(r, ready)
def later():
    time.sleep(0.1)
    os.write(w, b"x")
threading.Thread(target=later).start()
value = (await echo(v=1))["v"]
loop.remove_reader(r)
value"""
        self.assertEqual(self.value(code), 1)

    def test_timers(self):
        self.assertEqual(self.value("asyncio.get_running_loop().call_later(0.05, lambda: asyncio.create_task(echo(v='go')))\n(await echo(v=1))['v']"), 1)
        code = "try:\n    await asyncio.wait_for(echo(v=1), 0.05)\nexcept asyncio.TimeoutError:\n    value = 'late'\nvalue"
        self.assertEqual(self.value(code), "late")
        self.assertEqual(self.worker.drops, list(self.held.values()))

    def test_a_signal(self):
        code = """
import signal
signal.signal(signal.SIGALRM, lambda *of: echo.sync(v="go"))
signal.setitimer(signal.ITIMER_REAL, 0.1)
(await echo(v=1))["v"]"""
        self.assertEqual(self.value(code), 1)
        self.assertEqual(self.error(code.replace('echo.sync(v="go")', "1 / 0"))["type"], "ZeroDivisionError")
        self.assertEqual(len(self.worker.drops), 1)

    def test_the_other_tasks(self):
        code = """
order = []
async def one(v):
    order.append(v)
    order.append((await echo(v=v))["v"])
await asyncio.gather(one(1), one(2), one("go"))
order"""
        self.assertEqual(self.value(code), [1, 2, "go", 1, 2, "go"])

    def test_a_task_that_has_something_to_do(self):
        """The answer arrives together with another task's, which was sent first."""
        code = """
order = []
async def other():
    await echo(v=1)
    order.append("other")
task = asyncio.create_task(other())
await asyncio.sleep(0)
await echo(v="go")
order.append("cell")
await task
order"""
        self.assertEqual(self.value(code), ["other", "cell"])

    def test_the_end_of_the_cell_and_the_next(self):
        for code in ("asyncio.create_task(echo(v=1))\n5", "asyncio.create_task(echo(v=1))\nawait asyncio.sleep(0)\n5"):
            self.assertEqual(self.value(code), 5)
            time.sleep(0.1)
            self.assertEqual(self.value("6"), 6)
            self.assertEqual(self.value("await asyncio.sleep(0, 7)"), 7)
        self.assertEqual(self.value("(await echo(v='go'))['v']"), "go")

    def test_a_cell_that_comes_with_the_answer(self):
        """The task's next call does not wait for its answer while a cell is queued."""
        self.run_cell("async def two():\n    await echo(v=1)\n    await echo(v=2)\ntask = asyncio.create_task(two())\nNone")
        while not self.held:
            self.worker.step(5)
            self.worker.answer()
        self.worker.start("6", behind=[(RETURN, self.held.pop(1), tool_result("x"))])
        self.assertEqual(self.worker.finish(timeout=5)["value"]["json"], 6)

    def test_an_answer_behind_another(self):
        """It is delivered, although the task whose answer came first already waits for its next one."""

        def answer(number, call):
            self.held[call["arguments"]["v"]] = number
            if {1, 2} == set(self.held):
                self.worker.send_together(*((RETURN, self.held.pop(v), tool_result("x")) for v in (2, 1)))
            else:
                self.hold(number, call)

        self.worker.on_call = answer
        code = """
async def other():
    await echo(v=1)
    await echo(v="go")
task = asyncio.create_task(other())
await asyncio.sleep(0)
await echo(v=2)
(await echo(v=3))["v"]"""
        self.assertEqual(self.value(code, timeout=5), 3)

    def test_a_task_that_was_cancelled(self):
        code = """
async def f():
    asyncio.current_task().cancel()
    await echo(v="go")
    reached.append("not")
reached, task = [], asyncio.create_task(f())
await asyncio.wait([task])
[task.cancelled(), reached]"""
        self.assertEqual(self.value(code), [True, []])

    def test_a_catalogue_meanwhile(self):
        """A frame that is not an answer arrives first."""

        def answer(number, call):
            self.worker.catalogue(ECHO, {"name": "late", "state": "ready", "tools": [{"name": "fresh"}]}, version=number + 1)
            self.echo(number, call)

        self.worker.on_call = answer
        self.assertEqual(self.value("[(await echo(v=i))['v'] for i in range(3)]"), [0, 1, 2])
        self.assertEqual(self.value("(await fresh())['tool']"), "fresh")


if __name__ == "__main__":
    unittest.main()
