"""KEEP and KEPT: the effects of a copy on the worker. init, which would wake the copy, is missing here."""

import contextlib
import ctypes
import json
import os
import platform
import signal
import threading
import unittest

from worker_case import WorkerTest

KEEP, KEPT, RETURN = 0x09, 0x4A, 0x02
PR_SET_CHILD_SUBREAPER = 36
SYS_TGKILL = 234  # on x86-64


class CopyTest(WorkerTest):
    @classmethod
    def setUpClass(cls):
        # Copies become our children, so that they can be killed and reaped.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        super().setUpClass()

    def keep(self):
        """The worker's answer."""
        self.worker.send(KEEP, self.worker.cell, {})
        while not self.worker.frames:
            self.assertTrue(self.worker.step(20), "no answer")
        kind, number, payload = self.worker.frames.pop(0)
        self.assertEqual((kind, number), (KEPT, self.worker.cell))
        answer = json.loads(payload)
        if "pid" in answer:
            self.addCleanup(self.end, answer["pid"])
        return answer

    @staticmethod
    def end(pid):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def status(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return dict(line.split(":\t", 1) for line in f.read().splitlines())


class Copies(CopyTest):
    def test_a_copy_is_stopped_and_no_child_of_the_worker(self):
        self.run_cell("x = 1")
        answer = self.keep()
        status = self.status(answer["pid"])
        self.assertEqual((answer["threads"], status["State"][0], status["Threads"]), (0, "T", "1"))
        self.assertNotEqual(int(status["PPid"]), self.worker.pid)
        # All signals that can be blocked.
        self.assertEqual(status["SigBlk"], "fffffffffffbfeff")
        self.assertEqual(self.value("import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    x += 1\nx"), 2)

    def test_each_cell_can_have_one(self):
        pids = set()
        for i in range(3):
            self.assertEqual(self.value(f"{i}"), i)
            pids.add(self.keep()["pid"])
        self.assertEqual(len(pids), 3)

    def test_a_signal_that_is_not_of_pid_1_does_not_wake_it(self):
        self.run_cell("1")
        pid = self.keep()["pid"]
        for number in (signal.SIGCONT, signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(pid, number)
        while "S" not in self.status(pid)["State"]:
            pass
        self.assertEqual(self.value("6 * 7"), 42)
        self.assertIn("S", self.status(pid)["State"])

    def test_hooks_of_the_guest_do_not_run(self):
        hooks = "import os, random\nran = []\nos.register_at_fork(before=lambda: ran.append(1), after_in_parent=lambda: ran.append(2))\nrandom.seed(5)"
        thread = "import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()\nNone"
        self.run_cell(hooks)
        self.assertEqual(self.keep()["threads"], 0)
        self.run_cell(thread)
        self.assertEqual(self.keep()["threads"], 1)
        self.assertEqual(self.value("ran"), [])
        # The control: they run at a fork of the guest's.
        self.assertEqual(self.value("import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\nstop.set()\nran"), [1, 2])

    def test_threads_that_python_does_not_know(self):
        """One that waits is held. One that computes forbids the copy: here one that waits for a spin lock."""
        code = (
            "import ctypes\nlibc = ctypes.CDLL(None)\nlock, thread = ctypes.c_int(), ctypes.c_ulong()\n"
            "libc.pthread_spin_init(ctypes.byref(lock), 0), libc.pthread_spin_lock(ctypes.byref(lock))\n"
            "def start(f, data): return libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(f, ctypes.c_void_p), data)\n"
        )
        self.assertEqual(self.value(code + "start(libc.pause, None)"), 0)
        if platform.machine() == "x86_64":
            self.assertIn("pid", self.keep())
        self.assertEqual(self.value("start(libc.pthread_spin_lock, ctypes.byref(lock))"), 0)
        answer = self.keep()
        self.assertEqual(answer["why"], "threads")
        self.assertRegex(answer["thread"], '^".+"')
        self.assertEqual(self.value("1"), 1)

    def test_processes_at_their_limit(self):
        if os.geteuid() == 0:
            self.skipTest("root has no limit of processes")
        limit = "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))"
        self.run_cell(limit)
        self.assertEqual(self.keep(), {"why": "processes"})

    def test_a_cell_goes_first(self):
        self.run_cell("1")
        self.worker.cell += 1
        self.worker.send_together((KEEP, 1, {}), (1, 2, b"40 + 2\0"))
        kinds = []
        while 0x41 not in kinds:
            self.assertTrue(self.worker.frames or self.worker.step(20))
            kinds += [(frame[0]) for frame in self.worker.frames]
            answers = [json.loads(frame[2]) for frame in self.worker.frames]
            self.worker.frames.clear()
            if KEPT in kinds and "pid" in answers[0]:
                self.addCleanup(self.end, answers[0]["pid"])
        self.assertEqual(kinds, [KEPT, 0x41])

    def block(self, *refused):
        """Answers the queries of a block. refused: steps."""
        steps = []

        def on_query(number, query):
            if query["what"] != "transaction":
                self.worker.send(RETURN, number, {"ok": True, "result": {"version": 1}})
                return
            step = query["step"]
            steps.append(step)
            if step == "begin" and step not in refused:
                self.worker.send(KEEP, 70, {"copies": []})
            if step != "end":
                error = {"ok": False, "error": {"kind": "ToolError", "message": "it says no"}}
                self.worker.send(RETURN, number, error if step in refused else {"ok": True, "result": {}})

        self.worker.on_query = on_query
        return steps

    def test_a_copy_for_a_block(self):
        steps, kept = self.block(), []
        self.worker.on_kept = lambda number, answer: kept.append((number, answer))
        self.assertEqual(self.value("x = [1]\nwith transaction() as t: x.append(2)\n[x, t.rolled_back]"), [[1, 2], False])
        self.assertEqual(steps, ["begin", "await", "end"])
        (number, answer), = kept
        self.addCleanup(self.end, answer["pid"])
        self.assertEqual((number, self.status(answer["pid"])["State"][0]), (70, "T"))

    def test_blocks_that_are_not_run(self):
        self.worker.on_kept = lambda number, answer: self.addCleanup(self.end, answer["pid"])
        for refused in "begin", "await":
            steps = self.block(refused)
            code = "x = [1]\ntry:\n    with transaction(): x.append(2)\nexcept TransactionError as e: why = str(e)\n[x, why]"
            self.assertEqual(self.value(code), [[1], "the block was not run: it says no"])
            self.assertEqual(steps[-1], "end" if refused == "await" else "begin")

    def test_a_block_that_is_not_taken_back(self):
        self.worker.on_kept = lambda number, answer: self.addCleanup(self.end, answer["pid"])
        self.block("fail")
        code = "x = [1]\ntry:\n    with transaction():\n        x.append(2)\n        1 / 0\nexcept TransactionError as e: why = [str(e), type(e.__cause__).__name__]\n[x, why]"
        self.assertEqual(self.value(code), [[1, 2], ["what the block did stays: it says no", "ZeroDivisionError"]])

    def waiting_block(self, at, code):
        """Starts a cell whose block waits for the answer to this step. Returns (steps, number of the query)."""
        steps, numbers = self.block(), []
        answer = self.worker.on_query

        def on_query(number, query):
            if query.get("step") != at:
                return answer(number, query)
            steps.append(at)
            numbers.append(number)

        self.worker.on_query = on_query
        self.worker.on_kept = lambda number, answer: self.addCleanup(self.end, answer["pid"])
        self.worker.start(code)
        while not numbers:
            self.assertTrue(self.worker.step(20))
            self.assertIsNone(self.worker.answer())
        return steps, numbers[0]

    def interrupt(self):
        """Several times: the first one may come before the worker waits. Returns its result, if it ends the cell."""
        for _ in range(4):
            os.kill(self.worker.pid, signal.SIGINT)
            self.worker.step(0.1)
            result = self.worker.answer()
            if result is not None:
                return result

    def test_an_interrupt_while_a_block_begins(self):
        """The block may have begun: the broker gets its end."""
        steps, _ = self.waiting_block("begin", "with transaction(): pass")
        result = self.interrupt() or self.worker.finish()
        self.assertEqual(result["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(steps, ["begin", "end"])

    def test_an_interrupt_while_a_block_fails(self):
        """The copy continues the cell, so that the worker sends nothing more of it, unless there is no copy left."""
        for more in "", "await asyncio.sleep(0)\n":
            _, number = self.waiting_block("fail", "import asyncio\n" + more + "with transaction(): 1 / 0")
            self.assertIsNone(self.interrupt())
            self.worker.send(RETURN, number, {"ok": False, "error": {"kind": "ToolError", "message": "it says no"}})
            self.assertEqual(self.worker.finish()["error"]["type"], "KeyboardInterrupt")

    def test_what_a_failing_block_says_of_interrupts(self):
        """Only an exception that the signal raised replaces the signal: otherwise the copy gets the signal again."""
        said = []
        for code, expected in (("1 / 0", False), ("raise KeyboardInterrupt", False), ("os.kill(os.getpid(), 2)", True),
                               ("try: os.kill(os.getpid(), 2)\n    except KeyboardInterrupt: 1 / 0", False)):  # fmt: skip
            self.block("fail")
            answer = self.worker.on_query
            self.worker.on_query = lambda number, query: (said.append(query.get("interrupted")), answer(number, query))
            self.worker.on_kept = lambda number, answer: self.addCleanup(self.end, answer["pid"])
            self.worker.run("import os\nwith transaction():\n    " + code)
            self.assertEqual([x for x in said if x is not None][-1], expected, code)

    def test_a_block_that_a_signal_handler_begins(self):
        """While another one begins: there is one at a time."""
        self.worker.on_kept = lambda number, answer: self.addCleanup(self.end, answer["pid"])
        steps = self.block()
        answer = self.worker.on_query

        def on_query(number, query):
            if query.get("step") == "begin":
                os.kill(self.worker.pid, signal.SIGUSR2)
            answer(number, query)

        self.worker.on_query = on_query
        code = (
            "import signal, os\nseen = []\ndef handle(*_):\n    try:\n        with transaction(): seen.append('run')\n"
            "    except TransactionError as e: seen.append(str(e))\n_ = signal.signal(signal.SIGUSR2, handle)\nwith transaction(): seen.append(1)\nseen"
        )
        self.assertEqual(self.value(code), ["the block was not run: a block in a block: transactions are not nested", 1])
        self.assertEqual(steps, ["begin", "await", "end"])

    def test_with_an_event_loop_and_its_tasks(self):
        self.run_cell("import asyncio\nticks = []\nasync def tick():\n    while True:\n        ticks.append(1)\n        await asyncio.sleep(0.001)\ntask = asyncio.create_task(tick())")
        self.assertIn("pid", self.keep())
        self.assertTrue(self.value("before = len(ticks)\nwhile len(ticks) < before + 5: await asyncio.sleep(0.001)\nTrue"))
        self.assertIn("pid", self.keep())


@unittest.skipUnless(platform.machine() == "x86_64", "no thread is held elsewhere")
class InterruptedCopies(CopyTest):
    """A thread of a library that is held where it waits runs while the copy is made: a signal of another process has interrupted it. That copy is
    killed, and another one is made."""

    KEEPS = 200

    def setUp(self):
        super().setUp()
        # Copies that earlier tests have left.
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
        self.thread = self.value(
            "import ctypes, os\nlibc, number, work = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(32)\n"
            "def function(f): return ctypes.cast(f, ctypes.c_void_p)\n"
            "libc.signal.argtypes = ctypes.c_int, ctypes.c_void_p\n_ = libc.signal(12, function(libc.getpid))\n"
            "_ = libc.pthread_create(ctypes.byref(number), None, function(libc.sem_wait), work)\n"
            "max(map(int, os.listdir('/proc/self/task')))"
        )
        # The first one is made while the thread is held by a signal.
        self.assertIn("pid", self.keep())

    def interrupt(self, ended, stop):
        """Sends signals to the thread until a copy has ended."""
        send = ctypes.CDLL(None).syscall
        while not stop.is_set():
            send(SYS_TGKILL, self.worker.pid, self.thread, int(signal.SIGUSR2))
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid != 0:
                ended.append(os.waitstatus_to_exitcode(status))
                return

    def keep_interrupted(self):
        """Returns the answer, and the exit status of a copy that has ended, or None."""
        ended, stop = [], threading.Event()
        sender = threading.Thread(target=self.interrupt, args=(ended, stop))
        sender.start()
        try:
            answer = self.keep()
        finally:
            stop.set()
            sender.join()
        return answer, ended[0] if ended else None

    def test_a_copy_is_tried_again(self):
        # The control: without signals each first copy is used.
        for _ in range(3):
            self.assertIn("pid", self.keep())
        self.assertEqual(os.waitpid(-1, os.WNOHANG), (0, 0))
        for _ in range(self.KEEPS):
            answer, ended = self.keep_interrupted()
            self.assertIn("pid", answer)
            if ended is not None:
                break
        self.assertEqual(ended, -signal.SIGKILL)
        self.assertEqual((self.status(answer["pid"])["State"][0], answer["threads"]), ("T", 0))


if __name__ == "__main__":
    unittest.main()
