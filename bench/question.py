#!/usr/bin/env python3
"""What a question to a person costs (docs/questions.md), without the person's time.

    bench/question.py [--build DIR] [--rounds N]

Times at the client: from the cell to the question, and from the answer to the result of the cell, of one call and of 40 that are
gathered. Both contain what the cell costs without a question, which is another row. Budgets: 250 ms and 20 ms (medians).
"""

import os
import statistics
import sys
import time

from measure import with_tests

QUESTION_MS, RESULT_MS, PERSON = 250, 20, 0.05
CODE = "import asyncio\nawait asyncio.gather(*(mcp_mail.%s(text='x' * 100) for _ in range(%d)))\n1"


def timed(test_ask):
    class Timed(test_ask.Person):
        """Keeps when the question came, and when it was answered."""

        asked_at = answered_at = 0

        def reply(self, message, answer):
            self.asked_at = time.monotonic()
            super().reply(message, answer)
            self.answered_at = time.monotonic()

    return Timed


def measure(test_ask, folder, rounds):
    """{(calls, what): [ms]}, without the first round."""
    times = {}
    with timed(test_ask)("--config", os.path.join(folder, "config.json"), cwd=folder) as server:
        server.initialize()
        server.delay = PERSON
        for turn in range(rounds + 1):
            for count in (1, 40):
                for tool in ("note", "send"):
                    began = time.monotonic()
                    cell = server.cell(CODE % (tool, count), session="main")
                    ended = time.monotonic()
                    if cell["status"] != "ok":
                        raise SystemExit(f"not measured: {cell}")
                    if turn == 0:
                        continue
                    if tool == "note":
                        times.setdefault((count, "no question"), []).append((ended - began) * 1000)
                        continue
                    times.setdefault((count, "question"), []).append((server.asked_at - began) * 1000)
                    times.setdefault((count, "result"), []).append((ended - server.answered_at) * 1000)
        if len(server.asked) != 2 * (rounds + 1):
            raise SystemExit(f"{len(server.asked)} questions for {2 * (rounds + 1)} cells")
    return times


def main():
    config = lambda tests: {"mcpServers": {"mail": tests.SERVERS["mail"]}, "rules": [{"ask": "mail.send"}]}
    with with_tests(__doc__, "test_ask", config, 50) as found:
        times = measure(*found)
    over = False
    for (count, what), took in times.items():
        limit = {"question": QUESTION_MS, "result": RESULT_MS}.get(what)
        median = statistics.median(took)
        over |= limit is not None and median > limit
        print(f"{count:2} calls, {what:12} median {median:7.2f} ms  max {max(took):7.2f} ms  n {len(took)}" + (f"  limit {limit} ms" if limit else ""))
    sys.exit(over)


if __name__ == "__main__":
    main()
