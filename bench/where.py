#!/usr/bin/env python3
"""Where the time of a call goes: CPU time and turns on a CPU of each process, by call, from /proc/PID/schedstat.

    bench/where.py [--build DIR] [--json] [--calls N] [--faults]

Three ways of a call: `1+1` in a living session, a tool call from a cell to a minimal server in C, and a session made
for `1+1` without the pool; the first two on one CPU, as the rows of that name are measured. The rest of the time is
waiting: a wake-up, an idle CPU that has to leave its idle state.

--faults prints page faults instead: of init and the worker, of a session that was made for its call and of one from the pool.
"""
import argparse
import collections
import contextlib
import json
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report
from measure import Cloister, Failure, end_as_interrupted, machine, pinned, rest
from rows import TOOL_CALLS
from run import opened


# The comm of each process, and its role. Processes of a sandbox are named after the image's interpreter.
WHO = {"cloister-broker": "the broker", "cloister-monito": "the monitor", "bench-ping": "the client",
       "bench-echo": "the tool's server"}
SANDBOX = "the sandbox: worker, init, template"


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def family(top):
    """A process and its descendants."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(entry)] = int(read(f"/proc/{entry}/stat").rpartition(")")[2].split()[1])
    found, front = set(), {top}
    while front:
        found |= front
        front = {pid for pid, parent in parents.items() if parent in front} - found
    return found


def processes(top):
    """{pid: (name, nanoseconds on a CPU, turns)} of a process and its descendants."""
    found = {}
    for pid in family(top):
        try:
            took, turns = 0, 0
            for thread in os.listdir(f"/proc/{pid}/task"):
                cpu, _, slices = read(f"/proc/{pid}/task/{thread}/schedstat").split()
                took, turns = took + int(cpu), turns + int(slices)
            found[pid] = (read(f"/proc/{pid}/comm").strip(), took, turns)
        except (OSError, ValueError):
            continue
    return found


def spent(before, after, calls):
    """By name: microseconds and turns for each call. A process that started meanwhile counts completely."""
    by_name = {}
    for pid, (name, took, turns) in after.items():
        name = WHO.get(name, SANDBOX)
        _, old_took, old_turns = before.get(pid, (name, 0, 0))
        us, n = by_name.get(name, (0, 0))
        by_name[name] = (us + (took - old_took) / calls / 1000, n + (turns - old_turns) / calls)
    return {name: {"cpu_us": round(us, 1), "turns": round(n, 2)}
            for name, (us, n) in sorted(by_name.items(), key=lambda item: -item[1][0]) if us >= 0.05}


def measured(server, calls, act):
    before = processes(server.process.pid)
    wall = act() / 1000
    after = processes(server.process.pid)
    return {"wall_us": round(wall, 1), "calls": calls, "processes": spent(before, after, calls)}


def warm(server, calls):
    server.burst_ok(50, "1+1")
    return measured(server, calls, lambda: statistics.median(server.burst_ok(calls, "1+1")))


def tool(server, calls):
    code = TOOL_CALLS.format(tool="c.echo", count=calls)
    server.run(code)
    return measured(server, calls, lambda: statistics.median(server.run(code)[2]))


def fresh(server, calls):
    server.burst_ok(3, "1+1", "first-%d")
    return measured(server, calls, lambda: statistics.median(server.burst_ok(calls, "1+1", "fresh-%d")))


def faults(top):
    """{pid: (whether it is init, page faults)} of a process and its descendants."""
    found = {}
    for pid in family(top):
        with contextlib.suppress(OSError, ValueError):
            text = read(f"/proc/{pid}/stat")
            found[pid] = "cloister-" in text.partition(" ")[2].rpartition(")")[0], int(text.rpartition(")")[2].split()[7])
    return found


def count_faults(bench, rounds=5):
    """The medians of each step."""
    steps = collections.defaultdict(list)
    for pool, init, worker in (0, "made for its call: init", "made for its call: worker, until the answer"), \
                              (1, "from the pool: init", "from the pool: worker, until it waits for a cell"):
        with Cloister(bench, {"pool": pool, "state": {"survives": False}}) as server:
            server.run("1+1")
            rest(2)
            for i in range(rounds):
                known = faults(server.process.pid)
                server.run("1+1", f"session-{i}")
                after = faults(server.process.pid)
                grown = [after[pid][1] - n for pid, (is_init, n) in known.items() if not is_init and after.get(pid, (0, n))[1] > n]
                if pool:
                    steps["from the pool: worker, the cell"].append(sum(grown))
                    rest(0.5)  # the pool is filled again
                    after = faults(server.process.pid)
                for pid in after.keys() - known:
                    steps[init if after[pid][0] else worker].append(after[pid][1])
    return {name: statistics.median(counts) for name, counts in steps.items() if counts}


def in_server(bench, measure, calls):
    with Cloister(bench, {"pool": 0, "mcpServers": {"c": {"command": bench.program("bench-echo"), "args": []}}}) as server:
        server.run("1+1")
        rest(1)  # the template finishes its imports
        return measure(server, calls)


def text(found):
    lines = [found["machine"]["line"], ""]
    for name, way in found["ways"].items():
        total = sum(process["cpu_us"] for process in way["processes"].values())
        lines.append(f"{report.WAYS[name]}: {way['wall_us']} us of wall time, {total:.1f} us of CPU time in all")
        lines += [f"    {who:38}{process['cpu_us']:10.1f} us{process['turns']:8.2f} turns"
                  for who, process in way["processes"].items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build")
    parser.add_argument("--cloister")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    end_as_interrupted()
    try:
        with opened(options) as bench:
            if options.faults:
                found = count_faults(bench)
                print(json.dumps(found, indent=1) if options.json else "\n".join(f"{n:8.0f}  {name}" for name, n in found.items()))
                return
            bench.warm_up()
            with pinned():
                ways = {"warm": in_server(bench, warm, options.calls), "tool": in_server(bench, tool, min(options.calls, 400))}
            ways["fresh"] = in_server(bench, fresh, max(3, min(20, options.calls // 10)))
            found = {"machine": machine(bench), "ways": ways}
    except Failure as error:
        raise SystemExit(f"where: {error}") from None
    print(json.dumps(found, indent=1) if options.json else text(found))


if __name__ == "__main__":
    main()
