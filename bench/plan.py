#!/usr/bin/env python3
"""What a plan costs (docs/plans.md): a cell of 40 calls in a session of 20 MB, held against a branch of it and the cell's own time.

    bench/plan.py [--build DIR] [--rounds N]

The client answers the question at once, so no time of a person is in it. The cell's own time is that of the same calls of a tool that
does not ask. The budget is 2 times the sum.
"""

import os
import statistics
import sys
import time

from measure import with_tests

BUDGET = 2.0
CALLS = "for i in range(40):\n    await mcp_mail.%s(text='x' * 100)"


def measure(test_ask, folder, rounds):
    """Times of branch, cell and plan, each of all rounds, in ms."""
    times = {"branch": [], "cell": [], "plan": []}

    def timed(name, code, **arguments):
        began = time.monotonic()
        cell = server.cell(code, **arguments)
        times[name].append((time.monotonic() - began) * 1000)
        if cell["status"] != "ok":
            raise SystemExit(f"not measured: {cell}")

    with test_ask.Person("--config", os.path.join(folder, "config.json"), cwd=folder) as server:
        server.initialize()
        server.delay = 0
        server.cell("kept = [bytes([i % 251]) * 4096 for i in range(5000)]", session="main")
        for i in range(rounds + 1):
            timed("branch", "1", session=f"branch-{i}", **{"from": "main"})
            timed("cell", CALLS % "note", session="main")
            timed("plan", CALLS % "send", session="main", plan=True)
            server.cell("1", session=f"branch-{i}", reset=True)
        if len(server.asked) != rounds + 1:
            raise SystemExit(f"{len(server.asked)} questions for {rounds + 1} plans")
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main():
    config = lambda tests: {"mcpServers": {"mail": tests.SERVERS["mail"]}, "rules": [{"ask": "mail.send"}]}
    with with_tests(__doc__, "test_ask", config, 15) as rig:
        found = measure(*rig)
    ratio = found["plan"] / (found["branch"] + found["cell"])
    print(f"branch {found['branch']:.1f} ms, cell {found['cell']:.1f} ms, plan {found['plan']:.1f} ms: {ratio:.2f} of their sum, budget {BUDGET}")
    sys.exit(ratio > BUDGET)


if __name__ == "__main__":
    main()
