"""The real worker, forked from a real template, over real frames; outside of a sandbox: hostile code."""

import unittest

import worker_rig
from worker_case import WorkerTest
from worker_rig import RETURN


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
        other = self.template.session()
        self.addCleanup(other.close)
        result = other.run("import os\nos.dup2(1, %d)" % worker_rig.CHANNEL_FD)
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
        self.run_cell("builtins.__dict__.update(saved)")
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

    def test_unexpected_frames(self):
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
        self.run_cell("import os, threading, time\ndef work():\n    global done\n    time.sleep(0.1)\n    done = echo.sync(v=5)['v']\n    os.write(1, b'done')\necho\nthreading.Thread(target=work).start()")
        self.worker.until(b"done")
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
        self.assertRegex(template.first_word, "^failed|^ready")  # a libpython may contain its own prefix
        template.close()


if __name__ == "__main__":
    unittest.main()
