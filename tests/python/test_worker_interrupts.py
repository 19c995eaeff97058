"""The real worker, forked from a real template, over real frames; outside of a sandbox: SIGINT."""

import os
import signal
import time
import unittest

from worker_case import WorkerTest


class Early(WorkerTest):
    def test_while_asyncio_is_imported_for_a_cell(self):
        """A partly imported asyncio could not be imported again. If asyncio is imported already, SIGINT ends a sleep."""
        for after in (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1):
            worker = self.template.session()
            self.addCleanup(worker.close)
            worker.run("1")
            self.assertEqual(worker.run("await asyncio.sleep(60)", interrupt_after=after)["status"], "interrupted", after)
            self.assertEqual(worker.run("await asyncio.sleep(0)\nasyncio.run(asyncio.sleep(0, 7))")["value"]["json"], 7, after)


# Run as a library's code: a signal finds the worker's own code below it.
IN_BETWEEN = """
import os, sys
from cloister.channel import Channel
from cloister.frames import EXEC
def send():
    os.kill(os.getpid(), 2)
frame = sys._getframe()
while not hasattr(frame.f_locals.get("self"), "_cells_waiting"):
    frame = frame.f_back
session = frame.f_locals["self"]
class Waiting(type(session._cells_waiting)):
    def popleft(self):
        cell = super().popleft()
        if WHERE == "taken":
            send()
        return cell
session._cells_waiting = Waiting()
deliver = Channel._deliver
def _deliver(self, kind, number, payload):
    if kind == EXEC and WHERE == "read":
        send()
    return deliver(self, kind, number, payload)
Channel._deliver = _deliver
"""


class BetweenChannelAndCell(WorkerTest):
    """The signal comes when the cell's frame has left the channel, and no cell runs yet."""

    def interrupt(self, where):
        self.run_cell(f"names = {{'WHERE': {where!r}}}\nexec(compile({IN_BETWEEN!r}, '/usr/lib/library.py', 'exec'), names)")
        start = time.monotonic()
        result = self.worker.run("import time\ntime.sleep(4)")
        return result["status"], time.monotonic() - start < 3

    def test_read_and_not_delivered(self):
        self.assertEqual(self.interrupt("read"), ("interrupted", True))

    def test_taken_and_not_begun(self):
        self.assertEqual(self.interrupt("taken"), ("interrupted", True))

    def test_the_control(self):
        self.assertEqual(self.interrupt(None), ("ok", False))


# unseen() calls functions of C without an instruction of Python in between: a signal that ends the first one comes, for the next
# one, after Python's last look.
UNSEEN = """
import ctypes, functools, signal, time
libc = ctypes.CDLL(None)
def unseen(wait, *then):
    return list(map(functools.partial.__call__, [functools.partial(libc.usleep, int(wait * 1e6)), *then]))
None
"""


class Reminded(WorkerTest):
    """The signal comes where it has no effect. The broker's reminder does what it should have done."""

    def setUp(self):
        super().setUp()
        self.run_cell("await asyncio.sleep(0)")
        self.run_cell(UNSEEN)

    def interrupted(self, code, **how):
        start = time.monotonic()
        result = self.run_cell(code, "interrupted", interrupt_after=0.1, remind=True, **how)
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(result["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(self.value("'alive'"), "alive")
        return result

    def test_just_before_a_system_call(self):
        self.interrupted("unseen(5, functools.partial(time.sleep, 5))")
        self.interrupted("import select\nunseen(5, functools.partial(select.select, [], [], [], 5))")
        self.interrupted("await asyncio.sleep(0)\nunseen(5, functools.partial(time.sleep, 5))")

    def test_the_control(self):
        """Without a reminder it has no effect."""
        start = time.monotonic()
        self.run_cell("unseen(5, functools.partial(time.sleep, 2))", "interrupted", interrupt_after=0.1)
        self.assertGreater(time.monotonic() - start, 2)

    def test_in_a_finalizer(self):
        """Which has no caller that the exception could reach."""
        result = self.interrupted("class Slow:\n    def __del__(self):\n        time.sleep(5)\nSlow()\ntime.sleep(5)")
        self.assertIn("Exception ignored in", result["stderr"])

    def test_in_code_of_cloister(self):
        """The interrupt is not raised there, and the code after it does not check for it."""
        ours = "from time import monotonic\ndef wait():\n    end = monotonic() + 0.2\n    while monotonic() < end:\n        pass\n"
        self.run_cell("names = {}\nexec(compile(%r, '<cloister>/ours.py', 'exec'), names)\nNone" % ours)
        self.interrupted("names['wait'](), time.sleep(5)")

    def test_between_cells(self):
        """A handler that an earlier cell has installed took it."""
        self.run_cell("taken = []\nsignal.signal(signal.SIGINT, lambda *a: taken.append(1))\nNone")
        os.kill(self.worker.pid, signal.SIGINT)
        self.worker.start("taken.append(2)\nimport os\nos.write(1, b'.')\ntime.sleep(5)")
        while not self.worker.output[self.worker.stdout]:
            self.worker.step(1)
        start = time.monotonic()
        os.kill(self.worker.pid, signal.SIGURG)
        self.assertEqual(self.worker.finish()["status"], "interrupted")
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(self.value("taken"), [1, 2])

    def test_code_gets_it_once(self):
        code = (
            "n = 0\ntry:\n    while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n    n += 1\n"
            "try:\n    time.sleep(0.7)\nexcept KeyboardInterrupt:\n    n += 1\nn"
        )
        self.assertEqual(self.value(code, interrupt_after=0.1, remind=True), 1)
        code = (
            "n = 0\ntry:\n    await asyncio.sleep(5)\nexcept asyncio.CancelledError:\n    n += 1\n"
            "try:\n    await asyncio.sleep(0.5)\n    time.sleep(0.5)\nexcept (KeyboardInterrupt, asyncio.CancelledError):\n    n += 1\nn"
        )
        self.assertEqual(self.value(code, interrupt_after=0.1, remind=True), 1)

    def test_a_handler_of_the_code_gets_it_once(self):
        code = "got = []\nsignal.signal(signal.SIGINT, lambda *a: got.append(1))\nend = time.monotonic() + 1\nwhile time.monotonic() < end: time.sleep(0.01)\nlen(got)"
        self.assertEqual(self.value(code, interrupt_after=0.1, remind=True), 1)

    def test_code_that_blocks_it_goes_on(self):
        code = (
            "mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(0.7)\ndone = True\n"
            "signal.pthread_sigmask(signal.SIG_SETMASK, mask)\ntime.sleep(5)"
        )
        self.interrupted(code)
        self.assertEqual(self.value("done"), True)

    def test_code_may_use_the_signal_of_reminders(self):
        self.run_cell("got = []\nsignal.signal(signal.SIGURG, lambda *a: got.append(1))\nsignal.raise_signal(signal.SIGURG)\n"
                      "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])\nsignal.raise_signal(signal.SIGURG)")
        self.assertEqual(self.value("[got, signal.SIGURG in signal.sigpending()]"), [[1], True])

    def test_a_child_is_not_reminded(self):
        code = "import os\npid = os.fork()\nif pid == 0:\n    os.kill(os.getpid(), signal.SIGURG)\n    os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        self.assertEqual(self.value(code), 7)

    def test_between_cells_a_reminder_is_nothing(self):
        for _ in range(5):
            os.kill(self.worker.pid, signal.SIGURG)
            time.sleep(0.02)
        self.assertEqual(self.value("'alive'"), "alive")


class Interrupted(WorkerTest):
    def setUp(self):
        super().setUp()
        self.run_cell("await asyncio.sleep(0)")

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
        self.assertLess(time.monotonic() - start, 60)

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
        self.run_cell("import os\nsignal.signal(signal.SIGALRM, lambda *a: os.write(1, b'alarm') and 1/0)\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\nNone")
        self.worker.until(b"alarm")
        self.interrupted("while True: pass")

    def test_ignored_between_cells(self):
        self.run_cell("1")
        for _ in range(5):
            os.kill(self.worker.pid, signal.SIGINT)
            time.sleep(0.02)
        self.assertEqual(self.value("'alive'"), "alive")

    def test_signals_of_the_template_are_not_for_its_sessions(self):
        for number in signal.SIGINT, signal.SIGURG:
            os.kill(self.template.pid, number)
            time.sleep(0.02)
            worker = self.template.session()
            self.addCleanup(worker.close)
            self.assertEqual(worker.run("import time\ntime.sleep(0.2)\n'slept'")["value"]["json"], "slept")
            worker.start("time.sleep(60)")
            time.sleep(0.1)
            os.kill(worker.pid, signal.SIGINT)
            self.assertEqual(worker.finish()["status"], "interrupted")

    def test_many_at_start_and_end_of_cells(self):
        for turn in range(60):
            self.worker.start("sum(range(%d))" % (turn * 1000))
            if turn % 3:
                time.sleep(turn % 7 / 5000)
            os.kill(self.worker.pid, signal.SIGINT)
            self.assertIn(self.worker.finish()["status"], ("ok", "interrupted"))
        # The last signal may have arrived after its cell and interrupted this one.
        self.assertIn(self.worker.run("0")["status"], ("ok", "interrupted"))
        self.assertEqual(self.value("await asyncio.sleep(0, 'alive')"), "alive")

    def test_a_background_task_that_spins(self):
        self.run_cell("import os\nasync def spin():\n    await asyncio.sleep(0.01)\n    os.write(1, b'spins')\n    while True: pass\nasyncio.create_task(spin())\nNone")
        self.worker.until(b"spins")
        result = self.run_cell("1", "error", interrupt_after=0.2)
        self.assertIn("background task", result["error"]["message"])
        self.assertEqual(self.value("2"), 2)


class Tasks(WorkerTest):
    """What an interrupted cell has scheduled ends with it; what an earlier cell, or one that ended well, has scheduled continues."""

    COUNT = """
import asyncio, threading, time
counts = {}
async def tick(name):
    while True:
        counts[name] = counts.get(name, 0) + 1
        await asyncio.sleep(0.005)
def again(name):
    counts[name] = counts.get(name, 0) + 1
    asyncio.get_event_loop().call_later(0.005, again, name)
loop = asyncio.get_event_loop()
"""
    # Each begins something that counts under NAME.
    WAYS = {
        "task": "asyncio.create_task(tick(NAME))",
        "task and await": "asyncio.create_task(tick(NAME)); await asyncio.sleep(0.02)",
        "ensure_future": "asyncio.ensure_future(tick(NAME))",
        "gather": "g = asyncio.gather(tick(NAME), tick(NAME)); await asyncio.sleep(0.02)",
        "task of a task": "async def outer(name):\n    asyncio.create_task(tick(name))\nawait outer(NAME)",
        "thread": "threading.Thread(target=asyncio.run_coroutine_threadsafe, args=(tick(NAME), loop)).start()",
        "timer": "again(NAME)",
        "timer and await": "again(NAME); await asyncio.sleep(0.02)",
        "callback": "def soon(name):\n    counts[name] = counts.get(name, 0) + 1\n    loop.call_soon(soon, name)\nsoon(NAME)",
        "catches once": (
            "async def once(name):\n    try:\n        await asyncio.sleep(60)\n    except asyncio.CancelledError:\n        await tick(name)\n"
            "asyncio.create_task(once(NAME)); await asyncio.sleep(0)"
        ),
        "starts another": (
            "async def more(name):\n    try:\n        await tick(name)\n    finally:\n        asyncio.create_task(tick(name))\n"
            "asyncio.create_task(more(NAME)); await asyncio.sleep(0)"
        ),
        "interval timer": (
            "import signal\ndef alarm(*args, name=NAME):\n    counts[name] = counts.get(name, 0) + 1\n"
            "signal.signal(signal.SIGALRM, alarm)\nsignal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)"
        ),
        "server": (
            "async def serve(reader, writer, name=NAME):\n    await tick(name)\n"
            "server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
            "pair = await asyncio.open_connection(*server.sockets[0].getsockname())\nawait asyncio.sleep(0.02)"
        ),
        "reader": (
            "import os\npipe = os.pipe()\nos.write(pipe[1], b'x')\n"
            "def ready(name):\n    counts[name] = counts.get(name, 0) + 1\nloop.add_reader(pipe[0], ready, NAME)"
        ),
        "generator": (
            "async def items(name):\n    try:\n        yield 1\n    finally:\n        await tick(name)\n"
            "g = items(NAME)\nawait g.__anext__()\ndel g"
        ),
    }

    def setUp(self):
        super().setUp()
        self.run_cell(self.COUNT)

    def is_counting(self, name, wait=5):
        """Whether it counts within this time, in seconds."""
        before = self.value(f"counts.get({name!r}, 0)")
        end = time.monotonic() + wait
        while time.monotonic() < end:
            time.sleep(0.05)
            if self.value(f"counts.get({name!r}, 0)") > before:
                return True
        return False

    def test_each_way(self):
        self.run_cell("old = asyncio.create_task(tick('old')); again('timer'); None")
        for end in "time.sleep(60)", "await asyncio.sleep(60)":
            for n, (way, code) in enumerate(self.WAYS.items()):
                with self.subTest(way=way, end=end):
                    name = f"{n} {end}"
                    start = time.monotonic()
                    self.run_cell(code.replace("NAME", repr(name)) + "\n" + end, "interrupted", interrupt_after=0.1)
                    self.assertLess(time.monotonic() - start, 0.9)
                    self.assertFalse(self.is_counting(name, 0.05))
                    self.assertTrue(self.is_counting("old"))
                    self.assertTrue(self.is_counting("timer"))

    def test_the_control(self):
        for way, code in self.WAYS.items():
            if way != "catches once":
                with self.subTest(way=way):
                    self.run_cell(code.replace("NAME", repr(way)) + "\nNone")
                    self.assertTrue(self.is_counting(way))

    def test_a_task_that_cleans_up(self):
        self.run_cell(
            "async def careful():\n    try:\n        await asyncio.sleep(60)\n    finally:\n"
            "        await asyncio.sleep(0.1)\n        counts['done'] = 1\n"
            "asyncio.create_task(careful()); await asyncio.sleep(60)",
            "interrupted",
            interrupt_after=0.1,
        )
        self.assertEqual(self.value("counts['done']"), 1)

    def test_what_earlier_tasks_and_threads_start_meanwhile(self):
        self.run_cell(
            "begin = threading.Event()\nasync def late():\n    while not begin.is_set(): await asyncio.sleep(0.001)\n"
            "    asyncio.create_task(tick('by a task'))\n"
            "def later():\n    begin.wait()\n    asyncio.run_coroutine_threadsafe(tick('by a thread'), loop)\n"
            "asyncio.create_task(late())\nthreading.Thread(target=later, daemon=True).start()"
        )
        self.run_cell("begin.set()\nawait asyncio.sleep(60)", "interrupted", interrupt_after=0.2)
        self.assertTrue(self.is_counting("by a task"))
        self.assertTrue(self.is_counting("by a thread"))

    def test_code_of_an_earlier_cell_that_is_met_continues(self):
        busy = "async def busy():\n    while True:\n        counts['busy'] = counts.get('busy', 0) + 1\n        end = time.monotonic() + 0.02\n"
        self.run_cell(busy + "        while time.monotonic() < end: pass\n        await asyncio.sleep(0.001)\nasyncio.create_task(busy())\nNone")
        for _ in range(10):
            self.run_cell("await asyncio.sleep(60)", "interrupted", interrupt_after=0.1, remind=True)
            self.assertTrue(self.is_counting("busy"))
        # One that keeps the interpreter busy is ended.
        self.run_cell("begin = asyncio.Event()\nasync def spin():\n    await begin.wait()\n    while True: pass\nasyncio.create_task(spin())\nNone")
        self.run_cell("begin.set()\nawait asyncio.sleep(60)", "interrupted", interrupt_after=0.2, remind=True)
        self.assertTrue(self.is_counting("busy"))

    def test_many(self):
        code = "for n in range(20000): asyncio.create_task(tick(0)); loop.call_later(60, print)\nawait asyncio.sleep(60)"
        self.run_cell(code, "interrupted", interrupt_after=0.5)
        self.assertEqual(self.value("[len(asyncio.all_tasks(loop)), len(loop._scheduled) < 100]"), [0, True])

    def test_the_loop_works_afterwards(self):
        for _ in range(3):
            self.run_cell("asyncio.create_task(tick(0)); await asyncio.sleep(60)", "interrupted", interrupt_after=0.05)
            self.assertEqual(self.value("await asyncio.wait_for(asyncio.to_thread(lambda: 5), 5)"), 5)
            self.assertEqual(self.value('(await tools["echo"](v=1))["v"]'), 1)
            self.assertEqual(self.value("len(loop._kept)"), 0)


if __name__ == "__main__":
    unittest.main()
