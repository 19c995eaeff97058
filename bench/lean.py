"""The rows of the set `lean`: what a session costs, in processor time, memory and page faults, beside C programs that ask the kernel for the same.

Processor time is that of all processes of the server, ended ones too, and of the threads of the kernel, where namespaces and groups end:
from cpu.stat of a control group around the server if one can be made, otherwise from /proc, without what has ended with its namespace.
Threads of the kernel work for all processes of the machine: only a quiet one gives figures of the server alone.
"""
import contextlib
import itertools
import os
import shutil
import subprocess
import threading
import time

from measure import INITIALIZE, INITIALIZED, Failure, cell, rest

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
# After the name of a row: the part of its time that is the kernel's threads'.
KERNEL = ": kernel"
numbers = itertools.count()

GATHER = """import asyncio, time
_t = time.perf_counter_ns()
await asyncio.gather(*(tools['c.echo'](message='x') for _ in range({count})))
(time.perf_counter_ns() - _t) / {count}"""


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def fields(pid):
    """Those of /proc/PID/stat from the state on."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def processes():
    """{pid: fields} of all processes."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found[int(entry)] = fields(entry)
    return found


def family(top):
    """{pid: fields} of a process and its descendants."""
    left, found, front = processes(), {}, {top}
    while front:
        found.update((pid, left[pid]) for pid in front if pid in left)
        front = {pid for pid, of in left.items() if int(of[1]) in front and pid not in found}
    return found


def on_cpu_ms(pid):
    return sum(int(read(f"/proc/{pid}/task/{thread}/schedstat").split()[0]) for thread in os.listdir(f"/proc/{pid}/task")) / 1e6


def kernel_ms():
    """{pid: milliseconds} of all threads of the kernel: the children of kthreadd."""
    took = {}
    for pid, of in processes().items():
        if of[1] == "2":
            with contextlib.suppress(OSError):
                took[pid] = on_cpu_ms(pid)
    return took


def own_group():
    """The folder of this process's group of version 2, or None."""
    path = next((line[3:].strip() for line in read("/proc/self/cgroup").splitlines() if line.startswith("0::")), None)
    mount = next((line.split()[1] for line in read("/proc/mounts").splitlines() if line.split()[2] == "cgroup2"), None)
    return mount + path if path and mount else None


def enter(group):
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as f:
        f.write("0")


class Counted:
    """A program whose processor time is counted, with that of all that it starts."""

    def __init__(self, bench, *command):
        self.group = None
        own = own_group()
        with contextlib.suppress(OSError):
            group = f"{own}/cloister-bench-{os.getpid()}-{next(numbers)}"
            os.mkdir(group)
            self.group = group
            enter(group)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=bench.environment)
        if self.group:
            enter(own)

    def write(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{os.path.basename(self.process.args[0])} ended")
        return line

    def is_in_group(self):
        """Returns whether all of its processes are counted: a server may move into another group."""
        return self.group and all(f"/{os.path.basename(self.group)}" in read(f"/proc/{pid}/cgroup") for pid in family(self.process.pid))

    def processes_ms(self):
        if self.group:
            return int(read(f"{self.group}/cpu.stat").split()[1]) / 1000
        took = 0
        for pid, of in family(self.process.pid).items():
            with contextlib.suppress(OSError):
                took += on_cpu_ms(pid) + (int(of[13]) + int(of[14])) * TICK_MS
        return took

    def reading(self):
        """Of its processes and of the threads of the kernel, which end namespaces a moment later."""
        rest(0.3)
        return self.processes_ms(), kernel_ms()

    def since(self, name, before, count, idle=0):
        """The values of a row and of the kernel's part of it, since a reading, for each of `count` sandboxes. idle: milliseconds that do
        not count. The time of a kernel's thread that has ended meanwhile is lost."""
        own, kernel = self.reading()
        part = sum(took - before[1].get(pid, 0) for pid, took in kernel.items())
        return {name: [(own - before[0] + part - idle) / count * 1e6], f"{name}{KERNEL}": [part / count * 1e6]}

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        if self.process.returncode is None:
            self.end()
        with contextlib.suppress(OSError, TypeError):
            os.rmdir(self.group)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server(Counted):
    """`cloister mcp` without a pool, to which calls are sent at once. Its template is warm."""

    def __init__(self, bench, **config):
        super().__init__(bench, bench.cloister, "mcp", "--config", bench.config({"pool": 0, "sessions": 1200, **config}))
        self.calls = 0
        self.write(INITIALIZE.replace("%d", "0") + "\n")
        self.line()
        self.write(INITIALIZED + "\n")
        self.many(1)
        rest(1)
        self.many(1, "early-%d")
        if self.group and not self.is_in_group():
            shutil.rmtree(self.group, ignore_errors=True)
            self.group = None

    def many(self, count, session="default", code="1+1", **more):
        """Calls that are sent at once. Returns the seconds until all are answered."""
        lines = [cell(code, session, **more).replace("%d", str(self.calls + i + 1)) + "\n" for i in range(count)]
        self.calls += count
        writer = threading.Thread(target=self.write, args=("".join(lines),))
        began = time.monotonic()
        writer.start()
        for _ in range(count):
            line = b""
            while b'"result"' not in line and b'"error"' not in line:
                line = self.line()
            if b'"status":"ok"' not in line:
                raise Failure(f"cloister: {line.decode(errors='replace')[:300]}")
        took = time.monotonic() - began
        writer.join()
        return took

    def each(self, count, session):
        for _ in range(count):
            self.many(1, session)

    def faults(self):
        """Page faults of the newest sandbox: init and its worker."""
        def children(pid):
            return read(f"/proc/{pid}/task/{pid}/children").split()
        init = children(self.process.pid)[-1]
        return sum(int(fields(pid)[7]) for pid in (init, children(init)[0]))


def group_folders(server):
    """Of the hierarchies in which a session of this server has its own group: this process's groups."""
    def paths(pid):
        return dict(line.split(":", 2)[1:] for line in read(f"/proc/{pid}/cgroup").splitlines())
    worker, own = paths(max(family(server.process.pid))), paths("self")
    mounts = [line.split() for line in read("/proc/mounts").splitlines()]
    folders = []
    for name, path in worker.items():
        if path == own.get(name) or server.group and not name:
            continue
        place = next((of[1] for of in mounts if (of[2] == "cgroup" and set(name.split(",")) <= set(of[3].split(","))) if name
                      or (of[2] == "cgroup2" and not name)), None)
        if place:
            folders.append(place + own[name])
    return folders


class Lean:
    """Measures of rows.py; the value of what is not a time is scaled like nanoseconds. self.least: {shape: Counted}."""

    def lean_floor(self, shape):
        if shape not in self.least:
            with Server(self.bench) as server:
                folders = group_folders(server)
            init = os.path.join(os.path.dirname(self.bench.cloister), "cloister-init")
            if not os.path.exists(init):
                init = os.path.join(self.bench.programs, "..", "cloister-init")
            self.least[shape] = Counted(self.bench, self.bench.program("bench-floor-least"), shape, init, *folders)
            self.least[shape].write("3\n")
            self.least[shape].line()
        floor, count = self.least[shape], self.count(60, 6)
        before = floor.reading()
        floor.write(f"{count}\n")
        floor.line()
        return floor.since(f"floor-{shape}", before, count)

    def lean_cost(self):
        """The slope between two numbers of sessions: what a server takes to end counts in both."""
        def whole(count):
            with Server(self.bench) as server:
                before = server.reading()
                server.each(count, "new-%d")
                if server.group:
                    rest(0.3)
                    server.end()
                return server.since("cost", before, 1)
        few, many = 2, self.count(42, 8)
        large, small = whole(many), whole(few)
        return {**self.lean_floor("shape"), **self.lean_floor("least"),
                **{name: [(values[0] - small[name][0]) / (many - few)] for name, values in large.items()}}

    def lean_again(self):
        with Server(self.bench) as server:
            for _ in range(3):
                server.many(1, reset=True)
            before, count = server.reading(), self.count(40, 6)
            for _ in range(count):
                server.many(1, reset=True)
            return server.since("again", before, count)

    def lean_faults(self):
        with Server(self.bench) as server:
            found = []
            for _ in range(self.count(10, 2)):
                server.many(1, "new-%d")
                found.append(server.faults() * 1e6)
                rest(0.2)
            return {"faults": found}

    def lean_bursts(self):
        took = {}
        for name, count in (("second", 2), ("burst-8", 8), ("burst-64", 64), ("burst-1000", self.count(1000, 100))):
            with Server(self.bench) as server:
                before = server.reading()
                took[name] = [server.many(count, "new-%d") / count * 1e9]
                rest(0.3)
                took.update(server.since(f"{name}-cpu", before, count))
        return took

    def lean_growth(self):
        took, more = {}, self.count(40, 5)
        with Server(self.bench) as server:
            live = 2
            for count in (10, 200, 1000):
                server.many(max(0, (count if not self.quick else count // 10) - live), "live-%d")
                live = count + more
                rest(2)
                idle, before = self.idle_rate(server, 2), server.reading()
                began = time.monotonic()
                server.each(more, "new-%d")
                took.update(server.since(f"grow-{count}", before, more, idle * (time.monotonic() - began)))
            rest(3)
            took["idle-1000"] = [self.idle_rate(server, self.count(10, 1)) * 1e6]
        return took

    @staticmethod
    def idle_rate(server, seconds):
        """Milliseconds a second of its processes."""
        began, before = time.monotonic(), server.processes_ms()
        rest(seconds)
        return (server.processes_ms() - before) / (time.monotonic() - began)

    def gather(self):
        server = self.server()
        server.run(GATHER.format(count=10))
        return {"gather": [server.run(GATHER.format(count=self.count(1000, 50)))[2] for _ in range(self.count(5, 1))]}
