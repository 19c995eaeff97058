"""Sessions that stand still while a person decides (docs/standing-still.md): a server's question to a person who takes some seconds."""

import threading
import time

import harness
import rawmcp
import test_asks

FORM = test_asks.FORM
ASK = f"mcp_faulty.ask(method='elicitation/create', params={FORM})"
ANSWER = test_asks.ANSWERS["elicitation/create"]


class Held(test_asks.Legacy):
    SERVERS = {"faulty": test_asks.SERVERS["faulty"]}

    def person(self, seconds, asked=None):
        """Answers the next questions after so many seconds."""

        def answer(message):
            if asked:
                asked.set()
            time.sleep(seconds)
            return ANSWER

        self.server.answers["elicitation/create"] = answer

    def test_the_clock_of_the_event_loop(self):
        self.person(3)
        code = f"""
import asyncio, time
loop, told = asyncio.get_running_loop(), []
began = loop.time(), time.monotonic()
loop.call_later(1.5, told.append, "timer")
sleeper = asyncio.create_task(asyncio.sleep(1.2, "slept"))
async with asyncio.timeout(2):
    answer = (await {ASK})["result"]["action"]
passed = [loop.time() - began[0], time.monotonic() - began[1]]
early = [sleeper.done(), list(told)]
slept = await asyncio.wait_for(sleeper, 1.8)
[answer, passed, early, slept]
"""
        answer, (by_loop, by_clock), early, slept = self.value(code, timeout=30)
        self.assertEqual((answer, early, slept), ("accept", [False, []], "slept"))
        self.assertGreater(by_clock, 3)
        self.assertLess(by_loop, by_clock - 2.5)


if __name__ == "__main__":
    harness.main()
