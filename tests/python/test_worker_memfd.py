"""The real worker, given results in memfds: read whole and in order, freed at once; a lost one fails one call only."""

import os
import unittest

from worker_case import WorkerTest
from worker_rig import RETURN, tool_result

SIZE = 3 << 20
FULL = """
import os, resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
"""
ATTEMPT = """
try:
    r = len(await tools["echo"](v=1))
except ToolError as e:
    r = [type(e).__name__, str(e)]
"""


class InMemfd(WorkerTest):
    def setUp(self):
        super().setUp()
        self.kept = []
        self.addCleanup(lambda: [os.close(fd) for fd in self.kept])

    def in_memfd(self, text, **how):
        def answer(number, call):
            self.kept.append(self.worker.send_in_memfd(RETURN, number, tool_result(text=text), **how))

        self.worker.on_call = answer

    def sizes(self):
        return [os.fstat(fd).st_size for fd in self.kept]

    def test_whole_and_freed(self):
        self.in_memfd("x" * SIZE + "\u2603")
        self.assertEqual(self.value("r = await tools['echo'](v=1)\n[len(r), r[-1], r.count('x')]"), [SIZE + 1, "\u2603", SIZE])
        self.assertEqual(self.value("len(tools['echo'].sync(v=1))"), SIZE + 1)
        self.assertEqual(self.sizes(), [0, 0])

    def test_no_descriptor_stays_open(self):
        self.in_memfd("x" * SIZE)
        count = "import os\nsorted(os.listdir('/proc/self/fd'))"
        self.value("len(await tools['echo'](v=1))")
        before = self.value(count)
        self.assertEqual(self.value("[len(await tools['echo'](v=1)) for _ in range(5)]"), [SIZE] * 5)
        self.assertEqual(self.value(count), before)

    def test_in_order_among_others(self):
        waiting = []

        def answer(number, call):
            waiting.append((number, call["arguments"]["v"]))
            if len(waiting) < 20:
                return
            for number, v in waiting:
                result = tool_result(structured={"v": v, "text": "x" * SIZE})
                if v % 2:
                    self.kept.append(self.worker.send_in_memfd(RETURN, number, result))
                else:
                    self.worker.send(RETURN, number, tool_result(structured={"v": v, "text": ""}))

        self.worker.on_call = answer
        code = "import asyncio\nr = await asyncio.gather(*(tools['echo'](v=i) for i in range(20)))\n[[x['v'], len(x['text'])] for x in r]"
        self.assertEqual(self.value(code), [[i, SIZE if i % 2 else 0] for i in range(20)])
        self.assertEqual(self.sizes(), [0] * 10)

    def test_table_of_descriptors_is_full(self):
        # A first session's asyncio comes from files.
        self.run_cell("import asyncio")
        self.run_cell(FULL)
        self.in_memfd("x" * SIZE)
        kind, text = self.value(ATTEMPT + "r")
        self.assertEqual(kind, "ToolError")
        self.assertEqual(text, "the result of echo did not arrive: no descriptor was free for it; close files that are no longer needed")
        self.assertEqual(self.worker.drops, [self.worker.calls[-1][0]], "the broker is not told")
        # The next two results are not confused with it.
        self.worker.on_call = self.echo
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)
        self.in_memfd("x" * SIZE)
        self.run_cell("for fd in held: os.close(fd)")
        self.assertEqual(self.value(ATTEMPT + "r"), SIZE)

    def test_malformed_memfds(self):
        for how in ({"length": SIZE}, {"seals": 0}):
            with self.subTest(how=how):
                self.in_memfd("x", **how)
                kind, text = self.value(ATTEMPT + "r")
                self.assertEqual((kind, "its descriptor was closed" in text), ("ToolError", True))
                self.worker.on_call = self.echo
                self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)

    def test_descriptor_is_closed_and_its_number_taken(self):
        """A result is in the channel while code closes all descriptors and opens a file."""
        path = "/tmp/memfd-%d" % os.getpid()
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        # The answer arrives while a long message is being sent: it is read, but not delivered before the message is sent.
        code = f"""
import os, threading, time
stolen = []
def steal(before):
    while not stop:
        for name in set(os.listdir("/proc/self/fd")) - before:
            try:
                if os.readlink("/proc/self/fd/" + name).startswith("/memfd:result"):
                    os.close(int(name))
                    stolen.extend(os.open({path!r}, os.O_CREAT | os.O_RDWR) for _ in range(8))
                    os.write(stolen[0], b"mine")
                    return
            except OSError:
                pass
for attempt in range(50):
    stop = False
    thread = threading.Thread(target=steal, args=(set(os.listdir("/proc/self/fd")),))
    thread.start()
    first = asyncio.ensure_future(tools["echo"](v=1))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(tools["echo"](v="y" * 17_000_000))
    r = []
    for call in first, second:
        try:
            r.append(len(await call))
        except ToolError as e:
            r.append(str(e))
    stop = True
    thread.join()
    if stolen:
        break
r
"""

        def answer(number, call):
            if call["arguments"]["v"] == 1:
                self.first = number
                self.kept.append(self.worker.send_in_memfd(RETURN, number, tool_result(text="x" * SIZE)))
            else:
                self.worker.send(RETURN, number, tool_result(text="two"))

        self.worker.on_call = answer
        result = self.value(code)
        self.assertEqual(result[1], 3)
        with open(path, encoding="ascii") as f:
            self.assertEqual(f.read(), "mine", "a file of the code's own was cut")
        self.assertIn("its descriptor was closed", result[0])

    def test_child_does_not_hold_it(self):
        self.in_memfd("x" * SIZE)
        self.assertEqual(self.value("import subprocess\nr = len(await tools['echo'](v=1))\n[r, 'memfd:result' in subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True).stdout]"), [SIZE, False])

    def test_late_answer(self):
        """A result that no call waits for any more is freed like the others."""
        self.worker.on_call = None
        self.run_cell("try:\n    await asyncio.wait_for(tools['echo'](v=1), 0.05)\nexcept asyncio.TimeoutError:\n    pass")
        number = self.worker.calls[-1][0]
        self.assertIn(number, self.worker.drops)
        self.kept.append(self.worker.send_in_memfd(RETURN, number, tool_result(text="x" * SIZE)))
        self.worker.on_call = self.echo
        self.assertEqual(self.value("(await tools['echo'](v=5))['v']"), 5)
        self.assertEqual(self.sizes(), [0])


if __name__ == "__main__":
    unittest.main()
