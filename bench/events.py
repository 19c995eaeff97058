"""What events cost a warm `1+1` over HTTP: events.py BUILD [ROUNDS]. Root only: the stand-in of journald is mounted over its socket.

Servers that log nothing, JSON lines to a file, and entries to journald take turns, burst by burst, on one processor. Prints the median and the
99th percentile of each, and the ratios to the first server, whose limits are LIMITS (issue "A service", 8). An entry for journald wakes the process that
reads it, which takes about 16 us of the kernel and cannot be left out of a cell.begin: the limit is not reached where `1+1` takes 0.25 ms.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile

from measure import Bench, Served, end_as_interrupted, one_cpu, pinned, rest, summary

LIMITS = {"median": 1.05, "p99": 1.1}
BURST = 100
PAUSE = 0.3  # the rate of entries is limited (base/journald.c): none of them may be lost here
RECEIVER = "import socket,sys\ns=socket.socket(fileno=int(sys.argv[1]))\nwhile s.recv(65536): pass"


class Wrapped(Served):
    """A server that a script starts; $@ is what it gets."""

    def __init__(self, bench, config, script):
        wrapper = os.path.join(bench.work, f"wrapper-{bench.configs}")
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(wrapper, 0o755)
        plain, bench.cloister = bench.cloister, wrapper
        try:
            super().__init__(bench, config)
        finally:
            bench.cloister = plain


def in_file(bench):
    return f'exec "{bench.cloister}" "$@" --log-file "{bench.work}/log"\n'


def in_journal(bench, folder):
    mounts = f'mount -t tmpfs none /run; mkdir -p /run/systemd/journal; mount --bind "{folder}" /run/systemd/journal'
    # The pipe is known only here: standard error names it.
    run = f'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec "{bench.cloister}" "$@"'
    return f"exec unshare --mount --propagation private sh -ec '{mounts}; {run}' sh \"$@\"\n"


@contextlib.contextmanager
def journald(folder):
    """A process that reads entries, on another processor, and throws them away. Counts nothing: what it does not take is lost."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(os.path.join(folder, "socket"))
        os.chmod(os.path.join(folder, "socket"), 0o666)
        process = subprocess.Popen([sys.executable, "-c", RECEIVER, str(s.fileno())], pass_fds=[s.fileno()])
        os.sched_setaffinity(process.pid, os.sched_getaffinity(0) - {one_cpu()} or {one_cpu()})
        try:
            yield
        finally:
            process.kill()
            process.wait()


def main(build, rounds=40):
    end_as_interrupted()
    with tempfile.TemporaryDirectory(prefix="cloister-bench-") as work, contextlib.ExitStack() as stack:
        folder = os.path.join(work, "journal")
        os.mkdir(folder)
        os.chmod(work, 0o755)
        bench = Bench(os.path.join(build, "cloister"), os.path.join(build, "bench"), os.path.join(build, "node", "node_modules"), work)
        bench.warm_up()
        stack.enter_context(journald(folder))
        with pinned():
            servers = {
                "nothing": Served(bench, {}),
                "json": Wrapped(bench, {"log_level": "info"}, in_file(bench)),
                "journald": Wrapped(bench, {"log_level": "info"}, in_journal(bench, folder)),
            }
            for server in servers.values():
                stack.callback(server.close)
            took = {name: [] for name in servers}
            for n in range(rounds + 2):
                rest(PAUSE)
                for name, server in servers.items():
                    times = server.burst_ok(BURST, "1+1")
                    if n >= 2:
                        took[name] += times
        results = {name: summary(times) for name, times in took.items()}
    over = False
    for name, result in results.items():
        ratios = {key: result[key] / results["nothing"][key] for key in LIMITS}
        over |= name == "journald" and any(ratios[key] > limit for key, limit in LIMITS.items())
        print(f"{name:9} median {result['median']:.4f} ms ({ratios['median']:.3f})  p99 {result['p99']:.4f} ms ({ratios['p99']:.3f})  n {result['n']}")
    return over


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), *map(int, sys.argv[2:])))
