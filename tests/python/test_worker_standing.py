"""HOLD and HELD: the clock of event loops while the session stands still (docs/standing-still.md)."""

import json
import os
import signal
import time
import unittest

from worker_case import WorkerTest
from worker_rig import RETURN, tool_result

from cloister.frames import HELD, HOLD

WAITS = """
import asyncio
async with asyncio.timeout(0.5):
    v = (await mcp_demo.echo(v=1))["v"]
v
"""
OWN_LOOP = """
import asyncio
async def main():
    return (await asyncio.wait_for(mcp_demo.echo(v=1), 0.5))["v"]
asyncio.run(main())
"""
IN_A_THREAD = """
import asyncio
async with asyncio.timeout(0.5):
    v = await asyncio.to_thread(lambda: mcp_demo.echo.sync(v=1)["v"])
v
"""


class Standing(WorkerTest):
    def setUp(self):
        super().setUp()
        self.asked = []
        self.worker.on_call = lambda number, call: self.asked.append((number, call))

    def wait(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end)
            self.worker.step(0.01)
            self.assertIsNone(self.worker.answer())

    def hold(self, number):
        self.worker.send(HOLD, number, b"")
        self.wait(lambda: number in self.worker.settled)

    def answer(self):
        (number, call), *_ = self.asked
        self.worker.send(RETURN, number, tool_result(structured={"v": call["arguments"]["v"], "tool": call["tool"]}))

    def test_timers_keep_their_time(self):
        for number, code in enumerate((WAITS, OWN_LOOP, IN_A_THREAD, WAITS), 1):
            with self.subTest(code):
                self.asked.clear()
                self.worker.start(code)
                self.wait(lambda: self.asked)
                self.hold(number)
                os.kill(self.worker.pid, signal.SIGSTOP)
                time.sleep(0.8)
                self.worker.send(HELD, number, b'{"us":800000}')
                os.kill(self.worker.pid, signal.SIGCONT)
                time.sleep(0.1)
                self.answer()
                result = self.worker.finish()
                self.assertEqual((result["status"], result.get("value", {}).get("json")), ("ok", 1), result)

    def test_they_end_after_it(self):
        self.worker.start(WAITS)
        self.wait(lambda: self.asked)
        self.hold(1)
        time.sleep(0.6)
        self.worker.send(HELD, 1, b'{"us":600000}')
        began = time.monotonic()
        self.assertEqual(self.worker.finish()["error"]["type"], "TimeoutError")
        self.assertLess(time.monotonic() - began, 5)

    def test_without_a_stop(self):
        """The person has answered, or the hold was withdrawn, before anything was stopped."""
        self.worker.start(WAITS)
        self.wait(lambda: self.asked)
        for number in range(1, 20):
            self.worker.send(HOLD, number, b"")
            self.worker.send(HELD, number, b'{"us":0}')
        self.answer()
        self.assertEqual(self.worker.finish()["status"], "ok")

    def test_a_loop_that_is_busy(self):
        """It reads HOLD only after it has stood still: the broker says for how long."""
        self.worker.start("""
import asyncio, time
loop, order = asyncio.get_running_loop(), []
loop.call_later(0.9, order.append, "timer")
mcp = asyncio.ensure_future(mcp_demo.echo(v=1))
await asyncio.sleep(0)
print("busy", flush=True)
time.sleep(0.3)
await mcp
order.append("answer")
await asyncio.sleep(0.9)
order
""")
        self.wait(lambda: b"busy" in self.worker.output[self.worker.stdout])
        self.worker.send(HOLD, 1, b"")
        time.sleep(0.1)
        self.assertFalse(self.worker.settled)
        os.kill(self.worker.pid, signal.SIGSTOP)
        time.sleep(1.5)
        self.worker.send(HELD, 1, json.dumps({"us": 1500000}).encode())
        os.kill(self.worker.pid, signal.SIGCONT)
        self.wait(lambda: self.asked)
        self.answer()
        self.assertEqual(self.worker.finish()["value"]["json"], ["answer", "timer"])

    def test_settles_when_the_loop_has_nothing_to_run(self):
        self.worker.start("""
import asyncio
async def turns():
    for _ in range(2000):
        await asyncio.sleep(0)
    print("turned", flush=True)
task = asyncio.ensure_future(turns())
v = await mcp_demo.echo(v=1)
""")
        self.wait(lambda: self.asked)
        self.hold(1)
        self.assertIn(b"turned", self.worker.output[self.worker.stdout])
        self.worker.send(HELD, 1, b'{"us":0}')
        self.answer()
        self.assertEqual(self.worker.finish()["status"], "ok")


if __name__ == "__main__":
    unittest.main()
