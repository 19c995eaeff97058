"""The event loop of the main thread, in a session's first cell: it has no descriptors until it runs, and code
cannot notice that."""

import time
import unittest

from worker_case import WorkerTest


class FirstCell(WorkerTest):
    """Each test starts with a cell that does not await and uses the loop before it runs."""

    def test_descriptors(self):
        sockets = "import os\nsum('socket' in os.readlink('/proc/self/fd/' + fd) for fd in set(os.listdir('/proc/self/fd')) - {str(os.dup(0))})"
        first = self.value("import asyncio\n" + sockets)
        time.sleep(0.05)
        self.assertEqual(self.value(sockets), first, "made while nothing had to run")
        self.assertEqual(self.value("await asyncio.sleep(0)\n" + sockets), first + 2)

    def test_run_by_hand(self):
        code = "import asyncio\nloop = asyncio.get_event_loop()\nloop.run_until_complete(asyncio.sleep(0.01, 3))"
        self.assertEqual(self.value(code), 3)
        self.assertTrue(self.value("loop is asyncio.get_event_loop() is asyncio.get_event_loop_policy().get_event_loop()"))
        self.assertTrue(self.value("await asyncio.sleep(0)\nloop is asyncio.get_running_loop()"))

    def test_task_in_the_background(self):
        self.run_cell("import asyncio\nseen = []\nasync def f():\n    await asyncio.sleep(0.01)\n    seen.append(1)\n    os.write(1, b'ran')\nimport os\nt = asyncio.create_task(f())")
        self.worker.until(b"ran")
        self.assertEqual(self.value("seen"), [1])

    def test_wake_ups_by_threads(self):
        code = (
            "import asyncio, threading\nloop = asyncio.get_event_loop()\nfutures = [loop.create_future() for _ in range(50)]\n"
            "def settle():\n    for f in futures:\n        loop.call_soon_threadsafe(f.set_result, 1)\n"
            "threading.Thread(target=settle).start()"
        )
        self.run_cell(code)
        self.assertEqual(self.value("sum(await asyncio.wait_for(asyncio.gather(*futures), 5))"), 50)

    def test_wake_up_before_the_descriptors_exist(self):
        """The thread's call arrives after the loop has checked its queue and before it creates the descriptors."""
        code = (
            "import asyncio, threading, time\nloop = asyncio.get_event_loop()\nseen = []\nloop.call_later(9, print)\n"
            "def open(open=loop._selector.open):\n    thread = threading.Thread(target=loop.call_soon_threadsafe,"
            " args=(lambda: seen.append(time.monotonic()),))\n    thread.start()\n    thread.join()\n    open()\n"
            "loop._selector.open = open"
        )
        self.run_cell(code)
        time.sleep(1)
        self.assertGreater(self.value("time.monotonic() - seen[0]"), 0.2)

    def test_wake_up_by_a_signal(self):
        """Before the loop has run, and between cells."""
        code = (
            "import asyncio, os, signal\nloop = asyncio.get_event_loop()\nseen = []\n"
            "def called(n):\n    seen.append(n)\n    os.write(1, b'called')\n"
            "signal.signal(signal.SIGALRM, lambda *_: loop.call_soon_threadsafe(called, 1))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.05)[0]"
        )
        self.run_cell(code)
        self.worker.until(b"called")
        self.assertEqual(self.value("seen"), [1])

    def test_signal_handler(self):
        self.run_cell("import asyncio, os, signal\nseen = []\nasyncio.get_event_loop().add_signal_handler(signal.SIGUSR1, seen.append, 1)")
        self.assertEqual(self.value("os.kill(os.getpid(), signal.SIGUSR1)\nwhile not seen: await asyncio.sleep(0.001)\nseen"), [1])

    def test_reader(self):
        self.run_cell("import asyncio, os\nr, w = os.pipe()\nseen = []\nloop = asyncio.get_event_loop()\nloop.add_reader(r, lambda: seen.append(os.read(r, 1)) or os.write(1, b'read'))\nNone")
        self.run_cell("os.write(w, b'x')\nNone")
        self.worker.until(b"read")
        self.assertEqual(self.value("len(seen)"), 1)
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)

    def test_children(self):
        code = (
            "import asyncio, os\npid = os.fork()\nif pid == 0:\n    try:\n"
            "        os._exit(asyncio.get_event_loop().run_until_complete(asyncio.sleep(0.01, 7)))\n    finally:\n        os._exit(1)\n"
            "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        )
        self.assertEqual(self.value(code), 7)
        self.assertEqual(self.value(code.replace("get_event_loop().run_until_complete", "run")), 7)
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)

    def test_interrupted_at_once(self):
        """The signal may arrive while the descriptors are created."""
        for _ in range(20):
            worker = self.template.session()
            self.addCleanup(worker.close)
            worker.start("import asyncio\nprint('up')\nawait asyncio.sleep(60)")
            while b"up" not in worker.output[worker.stdout]:
                self.assertTrue(worker.step(10))
            self.assertEqual(worker.finish(interrupt_after=0)["status"], "interrupted")
            self.assertEqual(worker.run("await asyncio.sleep(0, 7)")["value"]["json"], 7)


class Broken(WorkerTest):
    """A first cell changes the process before the loop has run."""

    def test_all_descriptors_taken(self):
        full = (
            "import asyncio, concurrent.futures.thread, os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (920, 920))\nheld = []\ntry:\n"
            "    while True: held.append(os.open('/dev/null', 0))\nexcept OSError: pass"
        )
        self.run_cell(full)
        time.sleep(0.1)
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)
        self.run_cell("await asyncio.sleep(60)", "interrupted", interrupt_after=0.1)
        self.assertEqual(self.value("await asyncio.get_running_loop().run_in_executor(None, lambda: 3)"), 3)
        self.run_cell("for fd in held: os.close(fd)")
        self.assertEqual(self.value("await asyncio.gather(*(asyncio.to_thread(lambda: 3) for _ in range(3)))"), [3] * 3)

    def test_another_class_of_sockets(self):
        self.run_cell("import asyncio, socket\nsocket.socket = socket.socketpair = None")
        self.assertEqual(self.value("await asyncio.sleep(0, 'alive')"), "alive")
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)

    def test_closed_loop(self):
        for before in ("", "await asyncio.sleep(0)"):
            with self.subTest(before=before):
                self.worker = self.template.session()
                self.addCleanup(self.worker.close)
                close = "import asyncio, signal\nloop = asyncio.get_event_loop()\nloop.close()\n"
                if before:
                    self.run_cell(before)
                number = self.value(close + "signal.set_wakeup_fd(-1)")
                self.assertEqual(number, -1, "a signal is written to what may be another file's by now")
                self.assertEqual(self.error("loop.add_signal_handler(signal.SIGUSR1, print)")["type"], "RuntimeError")
                self.assertEqual(self.value("await asyncio.sleep(0, 7)"), 7)


if __name__ == "__main__":
    unittest.main()
