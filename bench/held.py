#!/usr/bin/env python3
"""How soon a session stands still when a server asks a person (docs/standing-still.md), and how soon it continues.

    bench/held.py [--build DIR] [--rounds N]

Four threads of the session compute meanwhile. From the broker's log: the time until the event loop has settled, and from then until the
monitor says that all processes have stopped, whose limit is 20 ms. At the client: from its answer to the result of the cell, beside
the same cell whose question waits for no person, and its ratio.
"""

import os
import re
import sys
import time

from measure import with_tests

STOP_MS = 20
LINE = re.compile(r"stands still: settled after (\d+) us, stopped after (\d+) us")
THREADS = "import threading\ndef spin():\n    while True: pass\nfor _ in range(4): threading.Thread(target=spin, daemon=True).start()"


def row(name, times, limit=None):
    times = sorted(times)
    middle, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
    print(f"{name:34} median {middle:7.2f} ms  p99 {p99:7.2f} ms  n {len(times)}" + (f"  limit {limit} ms" if limit else ""), flush=True)
    return middle


def measure(test_asks, folder, rounds):
    answered = []

    def answer(message):
        time.sleep(0.4)  # it stands still by then
        answered.append(time.monotonic())
        return test_asks.ANSWERS["elicitation/create"]

    took = []
    with test_asks.Asked("--config", os.path.join(folder, "config.json"), "--log-level", "debug") as server:
        server.start(test_asks.ALL)
        server.answers["elicitation/create"] = answer
        for spins in ("", THREADS):
            server.cell(spins or "1")
            for _ in range(rounds):
                cell = server.cell(f"(await mcp_faulty.ask(method='elicitation/create', params={test_asks.FORM}))['result']['action']")
                took.append((time.monotonic() - answered[-1]) * 1000)
                if cell["status"] != "ok":
                    raise SystemExit(f"not measured: {cell}")
        log = server.log()
        server.free()
    return [tuple(int(us) / 1000 for us in found) for found in LINE.findall(log)], took


def main():
    with with_tests(__doc__, "test_asks", lambda tests: {"mcpServers": {"faulty": tests.SERVERS["faulty"]}}, 50) as (tests, folder, n):
        held, took = measure(tests, folder, n)
    if len(held) != 2 * n:
        raise SystemExit(f"{len(held)} lines of the log for {2 * n} questions")
    over = False
    for name, part in (("idle", slice(0, n)), ("4 threads compute", slice(n, 2 * n))):
        row(f"{name}: settled", [settled for settled, _ in held[part]])
        over |= row(f"{name}: stopped", [stopped for _, stopped in held[part]], STOP_MS) > STOP_MS
        row(f"{name}: answer to result", took[part])
    sys.exit(over)


if __name__ == "__main__":
    main()
