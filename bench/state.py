#!/usr/bin/env python3
"""What state that survives costs (docs/cells.md): each measure with `state.survives` off and on, in turn, in one run; and
how soon a session continues after its interpreter has ended.

    bench/state.py [--build DIR] [--rounds N] [--quick] [--python FILE]
"""
import argparse
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from measure import Cloister, Failure, cell, end_as_interrupted, pinned, rest
from rows import TOOL_CALLS
from run import opened
from where import family, read

PAUSE_S = 0.2  # the copy is made after 50 ms
SIZES = (0, 20, 300, 1024)  # MiB
CELLS_A_MINUTE = 10000
THREADS = 32
# Threads that Python does not know, which wait as those of a pool do.
WAITING = (
    "import ctypes\nlibc, thread, work = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(32)\n"
    "for _ in range({}): libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.sem_wait, ctypes.c_void_p), work)"
)
KERNEL_STACK = 16  # KiB of a thread
POLARS = "import os\nimport polars as pl\npl.DataFrame({'a': range(30000), 'b': [i % 7 for i in range(30000)]}).lazy().group_by('b').agg(pl.col('a').sum()).collect()\nNone"

# (name, what, the most that "on" may be of "off")
COSTS = (
    ("warm", "`1+1`, one after the other", 1.1),
    ("tool", "a tool call from a cell to a server in C", 1.1),
    ("pause", f"`1+1` after a pause of {PAUSE_S} s", 2),
    ("fresh", "`1+1` in a session made for it", 1.1),
    ("pool", "`1+1` in a session from the pool", 1.1),
)


class Side:
    """A server with or without copies."""

    def __init__(self, bench, survives, quick):
        self.bench, self.quick = bench, quick
        self.config = {"state": {"survives": survives}, "limits": {"memory": "1200M"}}
        echo = {"mcpServers": {"c": {"command": bench.program("bench-echo"), "args": []}}}
        self.server = Cloister(bench, {**self.config, **echo})
        self.unready = Cloister(bench, {**self.config, "pool": 0})
        self.number = 0
        for server in (self.server, self.unready):
            server.run("1+1")
        rest(0.5)

    def close(self):
        self.server.close()
        self.unready.close()

    def count(self, full):
        return max(2, full // 10) if self.quick else full

    def warm(self):
        with pinned():
            self.server.burst_ok(self.count(20), "1+1")
            return self.server.burst_ok(self.count(200), "1+1")

    def tool(self):
        with pinned():
            return self.server.run(TOOL_CALLS.format(tool="c.echo", count=self.count(200)))[2]

    def pause(self):
        took = []
        for _ in range(self.count(10)):
            time.sleep(PAUSE_S)
            took.append(self.server.run("1+1")[0])
        return took

    def fresh(self):
        return self.unready.new_sessions(self.count(10), 0.02)

    def pool(self):
        return self.server.new_sessions(self.count(10), 0.1)

    def memory(self):
        """MiB that each session adds while it rests: pages, of which each process has its part, page tables and kernel
        stacks. Only root may read that of all processes."""
        more = self.count(50)
        with Cloister(self.bench, {**self.config, "pool": 0}) as server:
            server.burst_ok(10, "1+1", "early-%d")
            rest(0.5)
            before = held(server.process.pid)
            server.burst_ok(more, "1+1", "idle-%d")
            rest(1)
            return (held(server.process.pid) - before) / more / 1024

    def cells_a_minute(self):
        count = self.count(2000)
        began = time.monotonic()
        self.server.burst_ok(count, "1+1")
        return count / (time.monotonic() - began) * 60

    def death(self, size):
        """(ms from `os._exit(1)` to its result, ms of the call after it)."""
        self.number += 1
        session = f"death-{self.number}"
        self.server.run("import os\nNone", session)
        self.server.run(f"block = bytearray(b'a') * ({size} << 20)\nNone", session)
        time.sleep(PAUSE_S + size / 1000)
        ended = self.server.ask(cell("os._exit(1)", session))
        state = ended["answer"]["result"]["structuredContent"]["state"]
        if state != "restored":
            raise Failure(f"after a cell of {size} MiB the state is {state}")
        after = self.server.run("len(block)", session)
        self.server.run("del block", session)
        return ended["ns"] / 1e6, after[0] / 1e6

    def copy_threads(self):
        """[ns of a call that a copy precedes, in a session without threads and in one with THREADS that wait], in turn."""
        took = []
        for n in (0, THREADS):
            self.number += 1
            self.server.run(WAITING.format(n), f"threads-{self.number}")
        for _ in range(self.count(100)):
            pair = []
            for session in (f"threads-{self.number - 1}", f"threads-{self.number}"):
                answer = self.server.ask(cell("1", session, on_error="rollback"))
                if answer["answer"]["result"]["structuredContent"]["status"] != "ok":
                    raise Failure(f"{session}: {answer['answer']}")
                pair.append(answer["ns"])
            took.append(pair)
        return took


def restore_polars(bench, python, count):
    """[ns of `os._exit(1)` and its restore, in a session that has imported os and in one with polars and its threads], in turn."""
    took = []
    with Cloister(bench, {"python": python, "limits": {"memory": "1200M"}}) as server:
        for code, session in (("import os", "plain"), (POLARS, "polars")):
            server.run(code, session)
        for _ in range(count):
            pair = []
            for session in ("plain", "polars"):
                time.sleep(PAUSE_S)
                answer = server.ask(cell("os._exit(1)", session))
                if answer["answer"]["result"]["structuredContent"]["state"] != "restored":
                    raise Failure(f"{session}: {answer['answer']}")
                pair.append(answer["ns"])
            took.append(pair)
    return took


def held(top):
    """KiB of a process and its descendants."""
    total = 0
    for pid in family(top):
        fields = dict(line.split(":", 1) for line in (read(f"/proc/{pid}/status") + read(f"/proc/{pid}/smaps_rollup").partition("\n")[2]).splitlines())
        total += sum(int(fields[name].split()[0]) for name in ("VmPTE", "Pss")) + KERNEL_STACK * int(fields["Threads"])
    return total


def measure(options, bench):
    sides = {survives: Side(bench, survives, options.quick) for survives in (False, True)}
    took = {(name, side): [] for name, _, _ in COSTS for side in sides}
    memory, rate = {side: [] for side in sides}, {side: [] for side in sides}
    try:
        for i in range(options.rounds):
            for name, _, _ in COSTS:
                for side in sides:
                    took[name, side] += getattr(sides[side], name)()
            for side in sides:
                rate[side].append(sides[side].cells_a_minute())
                if i < 2 and os.geteuid() == 0:
                    memory[side].append(sides[side].memory())
        threads = sides[True].copy_threads()
        polars = restore_polars(bench, options.python, sides[True].count(100)) if options.python else None
        deaths = {size: [sides[True].death(size) for _ in range(options.rounds)] for size in SIZES}
    finally:
        for side in sides.values():
            side.close()
    return took, memory, rate, threads, polars, deaths


def told(holds):
    return "holds" if holds else "missed"


def tell(took, memory, rate, threads, polars, deaths):
    print(f"{'':48} {'off':>9} {'on':>9} {'ratio':>6}")
    for name, what, most in COSTS:
        off, on = (statistics.median(took[name, side]) / 1e6 for side in (False, True))
        print(f"{what:48} {off:7.3f}ms {on:7.3f}ms {on / off:6.2f}  at most {most}: {told(on / off <= most)}")
    if memory[True]:
        off, on = (statistics.median(memory[side]) for side in (False, True))
        print(f"{'memory of a session that rests':48} {off:6.2f}MiB {on:6.2f}MiB {on / off:6.2f}  at most 4 MiB: {told(on <= 4)}")
    off, on = (statistics.median(rate[side]) for side in (False, True))
    print(f"{'cells a minute':48} {off:9.0f} {on:9.0f} {on / off:6.2f}  at least {CELLS_A_MINUTE}: {told(on >= CELLS_A_MINUTE)}")
    without, beside = (statistics.median(ns) / 1e6 for ns in zip(*threads))
    print(f"{f'copy-threads: a copy, without and with {THREADS} threads':48} {without:7.3f}ms {beside:7.3f}ms {beside / without:6.2f}  at most 2 ms more: {told(beside - without <= 2)}")
    if polars:
        without, beside = (statistics.median(ns) / 1e6 for ns in zip(*polars))
        print(f"{'restore-polars: a restore, without and with polars':48} {without:7.3f}ms {beside:7.3f}ms {beside / without:6.2f}  at most 1.5: {told(beside / without <= 1.5)}")
    for size, pairs in deaths.items():
        result, after = (statistics.median(values) for values in zip(*pairs))
        most = 200 if size >= 1024 else 50
        print(f"{f'`os._exit(1)` with {size} MiB: its result, the next call':48} {result:7.1f}ms {after:7.1f}ms {'':6}  at most {most} ms: {told(after <= most)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--quick", action="store_true", help="few calls: to see that it works, not how fast")
    parser.add_argument("--python", metavar="FILE", help="of an environment with polars: measure a restore with it too")
    parser.add_argument("--build", metavar="DIR", help="the build directory (build)")
    parser.set_defaults(cloister=None)
    options = parser.parse_args()
    end_as_interrupted()
    try:
        with opened(options) as bench:
            bench.warm_up()
            tell(*measure(options, bench))
    except Failure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
