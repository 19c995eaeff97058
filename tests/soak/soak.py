#!/usr/bin/python3
"""Creates and ends sessions and runs cells for long, and measures what grows.

    tests/soak/soak.py [--full | --seconds N | --hostile N] [--user UID] [--json FILE]

    --full      100,000 sessions and 1,000,000 cells, however long they take
    --seconds   half of it sessions, half of it cells (600)
    --hostile   this number of sessions, with their own network; every twentieth takes all that it can of one thing
    --user      root runs the server as this user, and can still read what its processes hold
    --json      all samples, and the figures

Between blocks the server is left alone until its processes no longer change: then a sample is taken. The first tenth of the
samples is the warm-up. A process has grown when the median of its last quarter is more than LIMIT above the first's. The
exit status is 0 when nothing has grown and nothing is left at the end. Needs root, or the figures lack the broker's
descriptors, which no other process of the user may read.
"""

import argparse
import collections
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
sys.dont_write_bytecode = True

import harness  # noqa: E402
import residue  # noqa: E402

LIMIT = 1 << 20  # bytes that a process may grow over all, besides what a larger table of its own takes
SESSIONS, CELLS = 100_000, 1_000_000
SESSIONS_BLOCK, CELLS_BLOCK = 500, 10_000
SPARES = 16  # of one principal: supervisor/monitor/cgroup/cgroup-spare.h
NAMES = 4  # sessions that are replaced at the same time
WINDOW = 32  # cells that are on their way
SLABS = ("task_struct", "mm_struct", "pid_namespace", "net_namespace", "user_namespace", "mnt_cache", "filp", "cred_jar", "kernfs_node_cache",
         "file_lock_cache", "file_lock_ctx", "sock_inode_cache", "UDP", "TCP", "tw_sock_TCP", "dentry", "eventpoll_epi", "vm_area_struct", "anon_vma")

FORKS = """
import os
for _ in range(20):
    if os.fork() == 0:
        %s
"""
HOSTILE_EVERY = 20
# Each is cut off after HOSTILE_S, where it does not end by itself or by a limit.
HOSTILE_S = 3
HOSTILE = (
    "import fcntl\nf = open('/workspace/f', 'w')\nfor i in range(10 ** 6): fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * i)",
    "import socket\nkept = []\nwhile True:\n    s = socket.socket(type=socket.SOCK_DGRAM)\n    s.bind(('127.0.0.1', 0))\n    s.connect(s.getsockname())\n"
    "    for _ in range(8): s.send(bytes(60000))\n    kept.append(s)",
    "import socket\nl = socket.create_server(('127.0.0.1', 0), backlog=1000)\nkept = []\nwhile True:\n    s = socket.create_connection(l.getsockname())\n"
    "    s.setblocking(False)\n    s.send(bytes(1 << 20))\n    kept.append(s)",
    "import socket\nkept = []\nwhile True:\n    pair = socket.socketpair()\n    pair[0].setblocking(False)\n    pair[0].send(bytes(1 << 17))\n    kept.append(pair)",
    FORKS % "while True: pass",
    FORKS % "os.setsid(); import time; time.sleep(1000)",
    "kept = bytearray(1 << 40)",
    "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
    "import os\nfor i in range(10 ** 6): open(f'/workspace/{i}', 'w').close()",
    "import mmap\nkept = [mmap.mmap(-1, 4096, prot=1 + i % 2) for i in range(10 ** 6)]",
    "import select, os\nkept = []\nwhile True:\n    e = select.epoll()\n    for fd in range(3): e.register(os.memfd_create('m') if fd else os.pipe()[0])\n    kept.append(e)",
    "import asyncio\nasync def task():\n    while True: await asyncio.sleep(0)\nkept = [asyncio.ensure_future(task()) for _ in range(10 ** 5)]\nawait asyncio.sleep(100)",
    "import threading\nwhile True: threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()",
    "print('x' * (1 << 30))",
    "import os\nos.kill(os.getpid(), 9)",
    "while True: pass",
)


class Server:
    """`cloister mcp` on two pipes, with a window of requests."""

    def __init__(self, folder, user, hostile):
        self.hostile, self.made, self.on_way = hostile, 0, {}
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="ascii") as f:
            json.dump({"network": "loopback"} if hostile else {}, f)
        os.chmod(folder, 0o755)
        self.log = open(os.path.join(folder, "log"), "w+b")
        command = [harness.CLOISTER, "mcp", "--config", config, "--log-level", "warning"]
        if user:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=harness.environment(), cwd=folder)
        self.sent = 0
        self.send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "0"}})
        self.receive()

    def send(self, method, params):
        self.sent += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def cell(self, code, **rest):
        self.send("tools/call", {"name": "run_python", "arguments": {"code": code, **rest}})

    def receive(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"soak: the server ended: {self.tail()}")
            message = json.loads(line)
            if "method" not in message:
                return message

    def tail(self):
        self.log.seek(0)
        return self.log.read()[-2000:].decode(errors="replace")

    def expect(self, state, message=None):
        cell = (message or self.receive())["result"]["structuredContent"]
        if (cell["status"], cell["state"]) != ("ok", state):
            raise SystemExit(f"soak: a cell ended as {cell}; {self.tail()}")

    def begin_session(self, name):
        self.made += 1
        turn, rest = divmod(self.made, HOSTILE_EVERY)
        hostile = self.hostile and rest == 0
        if hostile:
            self.cell(HOSTILE[turn % len(HOSTILE)], session=name, reset=True, timeout=HOSTILE_S)
        else:
            self.cell("x = 1", session=name, reset=True)
        self.on_way[self.sent] = (name, hostile)

    def sessions(self, n):
        """Each replaces the session of its name, which ends. How a hostile cell ends does not matter."""
        for i in range(min(NAMES, n)):
            self.begin_session(f"s{i}")
        for i in range(n):
            message = self.receive()
            name, hostile = self.on_way.pop(message["id"])
            if not hostile:
                self.expect("new", message)
            if i + NAMES < n:
                self.begin_session(name)
        if self.hostile:
            self.calm()

    def calm(self):
        """Replaces the sessions, of which one may be hostile: what it holds while it lives is not growth."""
        for i in range(NAMES):
            self.cell("x = 1", session=f"s{i}", reset=True)
        for _ in range(NAMES):
            self.expect("new")

    def cells(self, n):
        for _ in range(min(WINDOW, n)):
            self.cell("x = x + 1", session="s0")
        for i in range(n):
            self.expect("kept")
            if i + WINDOW < n:
                self.cell("x = x + 1", session="s0")

    def close(self):
        self.process.stdin.close()
        return self.process.wait(60)


def memory(pid):
    """Returns the memory of a process in bytes: Pss, which needs the right to trace it, or VmRSS if Pss may not be read."""
    for path, name in ((f"/proc/{pid}/smaps_rollup", "Pss:"), (f"/proc/{pid}/status", "VmRSS:")):
        for line in residue.read(path).splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def anonymous(pid):
    """Returns the anonymous memory of a process in bytes. Pss changes too when others begin or cease to use the same files."""
    for line in residue.read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    return 0


def kernel():
    """Returns the memory that the kernel uses for the whole machine. Other programs of the machine change it too."""
    found = {}
    for line in residue.read("/proc/cgroups").splitlines():
        if line.startswith("memory\t"):
            found["memory groups"] = int(line.split()[2])  # with those that were removed and still have pages
    for line in residue.read("/proc/meminfo").splitlines():
        name, value = line.split(":")
        if name in ("MemAvailable", "SUnreclaim", "SReclaimable", "Percpu"):
            found[name] = int(value.split()[0]) * 1024
    for line in residue.read("/proc/net/sockstat").splitlines():
        words = line.split()
        if "mem" in words:
            found[words[0] + " pages"] = int(words[words.index("mem") + 1])
    for line in residue.read("/proc/slabinfo").splitlines()[2:]:
        name, active = line.split()[:2]
        if name in SLABS:
            found[name] = int(active)
    found["files"] = int((residue.read("/proc/sys/fs/file-nr").split() or [0])[0])
    return found


def sample(server, sessions, cells):
    monitor = server.process.pid
    found = {"time": time.time(), "sessions": sessions, "cells": cells, "kernel": kernel(), "processes": {}}
    for pid, (_, name) in residue.tree(monitor).items():
        role = residue.role_of(pid, name, monitor)
        one = found["processes"].setdefault(role, {"count": 0, "memory": 0, "anonymous": 0, "descriptors": collections.Counter()})
        one["count"] += 1
        one["memory"] += memory(pid)
        one["anonymous"] += anonymous(pid)
        one["descriptors"] += residue.descriptors(pid)
    return found


def settled(server, sessions, cells):
    """A sample when two in a row have the same processes: sessions that were replaced have ended, spare ones are made."""
    before = None
    for _ in range(600):
        now = sample(server, sessions, cells)
        counts = {role: one["count"] for role, one in now["processes"].items()}
        if counts == before:
            return now
        before = counts
        time.sleep(0.1)
    raise SystemExit(f"soak: the processes do not settle: {before}")


def slope(points):
    """Returns the slope of the least-squares line through the points (x, y)."""
    xs, ys = zip(*points)
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def figures(samples, unit):
    """Growth of each long-lived process over a phase, and of the kernel's counts; unit: what the phase made."""
    kept = samples[max(1, len(samples) // 10):] or samples
    quarter = max(1, len(kept) // 4)
    # How many sandboxes are ready differs from block to block: descriptors are compared where it is the same.
    ready = [s["processes"].get("init", {"count": 0})["count"] for s in kept]
    alike = [s for s, n in zip(kept, ready) if n == statistics.mode(ready)]
    found, grown = {"made": kept[-1][unit] - kept[0][unit], "processes": {}, "kernel": {}}, []
    for role in sorted(set.intersection(*(set(s["processes"]) for s in kept))):
        values = [s["processes"][role]["memory"] for s in kept]
        growth = statistics.median(values[-quarter:]) - statistics.median(values[:quarter])
        first, last = alike[0]["processes"][role], alike[-1]["processes"][role]
        then, now = first["descriptors"], last["descriptors"]
        more = {kind: now[kind] - then[kind] for kind in {*then, *now} if now[kind] != then[kind]}
        # Emptied control groups that wait for a session: bounded, and gone after a minute.
        more = {kind: n for kind, n in more.items() if not (kind.endswith("/s-N-N") and n <= SPARES)}
        per, of_own = (slope([(s[unit], s["processes"][role][which]) for s in kept]) for which in ("memory", "anonymous"))
        found["processes"][role] = {"count": last["count"], "memory": values[-1], "growth": growth, f"bytes of {unit}": round(per, 3),
                                    "anonymous": last["anonymous"], f"anonymous of {unit}": round(of_own, 3),
                                    "descriptors": sum(last["descriptors"].values()), "descriptors more": more}
        if role in ("monitor", "broker", "cloister-templ", "template", "stub", "janitor") and growth > LIMIT:
            grown.append(f"{role}: {growth / 1024:.0f} KiB over {found['made']} {unit}")
        if any(n > 0 for n in more.values()) and first["count"] == last["count"]:
            grown.append(f"{role}: descriptors {more}")
    for name in kept[0]["kernel"]:
        values = [s["kernel"][name] for s in kept]
        found["kernel"][name] = {"first": values[0], "last": values[-1], f"of {unit}": round(slope([(s[unit], s["kernel"][name]) for s in kept]), 4)}
    return found, grown


stopped = []  # SIGTERM: the figures so far are reported


def phase(server, unit, block, total, seconds, samples):
    start = said = time.monotonic()
    done = {"sessions": samples[-1]["sessions"] if samples else 0, "cells": samples[-1]["cells"] if samples else 0}
    own = [settled(server, **done)]
    while not stopped and ((done[unit] < total) if total else (time.monotonic() - start < seconds)):
        getattr(server, unit)(block)
        done[unit] += block
        own.append(settled(server, **done))
        if time.monotonic() - said > 30:
            said = time.monotonic()
            own_memory = {role: one["memory"] // 1024 for role, one in own[-1]["processes"].items() if one["memory"]}
            print(f"{said - start:.0f} s, {done[unit]} {unit}, {done[unit] / (said - start):.0f} a second, KiB: {own_memory}", flush=True)
    samples.extend(own)
    return own, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--hostile", type=int, default=0)
    parser.add_argument("--user", type=int, default=0)
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    before = residue.Residue()
    report, grown, samples = {}, [], []
    with tempfile.TemporaryDirectory(prefix="cloister-test-", dir="/var/tmp") as folder:
        server = Server(folder, options.user, options.hostile)
        server.sessions(100)
        phases = (("sessions", SESSIONS_BLOCK, options.hostile or SESSIONS), ("cells", CELLS_BLOCK, CELLS))
        for unit, block, total in phases[:1] if options.hostile else phases:
            own, took = phase(server, unit, block, total if options.full or options.hostile else 0, options.seconds / 2, samples)
            found, more = figures(own, unit)
            report[unit] = {"seconds": round(took, 1), **found}
            grown += more
            print(json.dumps({unit: report[unit]}, indent=1), flush=True)
        status = server.close()
        if status:
            grown.append(f"the server ended with status {status}")
        log = server.tail()
        if log:
            print(f"the log: {log}")
    left = before.settle(10)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"report": report, "samples": samples, "grown": grown, "left": {k: sorted(map(str, v)) for k, v in left.items()}}, f, indent=1)
    for line in grown:
        print(f"grown: {line}")
    if left:
        print(f"left behind: {left}")
    print("soak: " + ("failed" if grown or left else "flat"))
    return 1 if grown or left else 0


if __name__ == "__main__":
    sys.exit(main())
