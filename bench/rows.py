"""Cloister's own rows: what is measured, what it is compared with, and its budget.

Each measure returns nanoseconds for the rows that it names, in one round. Rounds alternate over all measures, so that
a drift of the machine affects all rows.
"""
import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass

from containers import Containers
from javascript import JavaScript
from journal import Journal
from lean import Lean
from measure import ECHO, INITIALIZE, INITIALIZED, PYTHON, Cloister, Failure, Mcp, Ping, Served, Streamable, System, available, cell, last_line, rest, summary
from peers import bwrap_command, once

TOOL_CALLS = """import time
_call, _took = tools[{tool!r}], []
for _i in range({count}):
    _t = time.perf_counter_ns()
    await _call(message='x')
    _took.append(time.perf_counter_ns() - _t)
_took"""

# No rule is about the server "c". The ten with conditions for "ruled.echo" do not match.
RULES = [
    *({"deny": f"ruled.other_{i}"} for i in range(80)),
    *({"ask": f"rul*.delete_{i}*"} for i in range(9)),
    {"deny": "ruled.echo", "when": {"/message": {"equals": "y"}}},
    {"deny": "ruled.echo", "when": {"/message": {"prefix": "/etc/"}}},
    {"deny": "ruled.echo", "when": {"/message": {"glob": "a*/**/b"}}},
    {"deny": "ruled.echo", "when": {"/message": {"regex": "^[a-z]+@evil\\.example$"}}},
    {"deny": "ruled.echo", "when": {"/message": {"one_of": ["a", "b", "c"]}}},
    {"deny": "ruled.echo", "when": {"/other": {"absent": False}}},
    {"deny": "ruled.echo", "when": {"/message": {"not": {"max_length": 100}}}},
    {"deny": "ruled.echo", "when": {"/message": {"type": "null"}}},
    {"deny": "ruled.echo", "when": {"/message/*": {"equals": "z"}}},
    {"allow": "ruled.echo", "when": {"/message": {"path": "/notes/**"}}},
    {"allow": "ruled.echo"},
]

# Prints the nanoseconds of each transfer, as times() reads them.
LOOPBACK = """import json, os, socket, time
def transfer(size, part=1 << 20):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        start = time.perf_counter_ns()
        if os.fork() == 0:
            block = bytes(part)
            with socket.create_connection(listener.getsockname()) as sender:
                for _ in range(size // part):
                    sender.sendall(block)
            os._exit(0)
        receiver, _ = listener.accept()
        with receiver:
            while receiver.recv(part):
                pass
        took = time.perf_counter_ns() - start
        os.wait()
        return took
took = [transfer(64 << 20) for _ in range({count})]
print(json.dumps({{'ns': took}}))
took"""


# Two PNG files of three bytes a pixel; that of a megapixel has 130 KiB, as a figure has.
PICTURES = """import random, struct, zlib
def _png(side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    _row = lambda: b"\\0" + b"".join(bytes((random.randrange(256),)) * 60 for _ in range(50))[:3 * side]
    rows = [_row() for _ in range(side)]
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
_small, _large = _png(1), _png(1000)
len(_large)"""


@dataclass
class Row:
    name: str
    title: str
    unit: str = "ms"
    budget: float = None   # for the ratio, or for the value if the row is compared with nothing
    against: str = None    # a row
    budget_text: str = ""
    floor: str = None      # a row: the minimum for the same work in the same number of processes
    where: str = ""        # where the budget applies, if not everywhere


ROWS = (
    Row("bwrap-imports", "bubblewrap + python3 -I, the imports of `cloister run`"),
    Row("run", "`cloister run -c 'print(1)'` from nothing", budget=1, against="bwrap", budget_text="<= 1x",
        floor="bwrap-imports"),
    Row("initialize", "`cloister mcp` from nothing to its answer to initialize", against="bwrap"),
    Row("first", "`cloister mcp` from nothing to the first result of `1+1`", budget=1.2, against="bwrap",
        budget_text="<= 1.2x"),
    Row("fresh", "`1+1` in a session made for it", budget=1 / 15, against="bwrap", budget_text="<= 1/15",
        floor="floor-session", where="no control group, or version 2"),
    Row("fresh-cold", "`1+1` in a session made for it, before the template has warmed up", against="fresh"),
    Row("fresh-floor", "`1+1` in a session made for it, beside a C program", budget=2.5, against="floor-session", budget_text="<= 2.5x",
        where="no control group, or version 2"),
    Row("fresh-pool", "`1+1` in a session from the pool", budget=1 / 60, against="bwrap", budget_text="<= 1/60"),
    Row("floor-session", "a C program that forks a CPython of that size into the same namespaces and mounts"),
    Row("floor-echo", "the bytes of the request, echoed by a C program over pipes"),
    Row("floor-relay", "the same bytes through a C program in the middle"),
    Row("floor-cell", "the request compiled and evaluated by a CPython behind a C program in the middle"),
    Row("warm", "`1+1` in a living session", budget=8, against="floor-echo", budget_text="<= 8x", floor="floor-cell"),
    Row("warm-tree", "`1+1` in a living session, with code that is compiled by its syntax tree", against="warm"),
    Row("warm-http", "`1+1` in a living session, over HTTP", budget=3, against="warm", budget_text="<= 3x"),
    Row("picture", "a picture of one megapixel in a result, more than one of 1 x 1", budget=5, budget_text="<= 5 ms"),
    Row("direct-c", "a tool call from a C client to a minimal server in C"),
    Row("floor-await-c", "the same tool call from plain asyncio, through a C program in the middle"),
    Row("tool-c", "a tool call from a sandbox to a minimal server in C", budget=4, against="direct-c", budget_text="<= 4x",
        floor="floor-await-c"),
    Row("tool-rules", "a tool call under 100 rules, 10 of them with conditions for its tool, more than one without rules", budget=0.01, budget_text="<= 0.01 ms"),
    Row("direct-python", "a tool call from a C client to a minimal server in Python"),
    Row("floor-await-python", "the same tool call from plain asyncio, through a C program in the middle"),
    Row("tool-python", "a tool call from a sandbox to a minimal server in Python", budget=4, against="direct-python", budget_text="<= 4x",
        floor="floor-await-python"),
    Row("direct-everything", "a tool call from a C client to server-everything"),
    Row("floor-await-everything", "the same tool call from plain asyncio, through a C program in the middle"),
    Row("tool-everything", "a tool call from a sandbox to server-everything", budget=1.5, against="direct-everything",
        budget_text="<= 1.5x", floor="floor-await-everything"),
    Row("direct-http-everything", "a tool call from the official Python client to server-everything over HTTP"),
    Row("tool-http-everything", "a tool call from a sandbox to server-everything over HTTP", budget=1.3, against="direct-http-everything",
        budget_text="<= 1.3x"),
    Row("loopback-python", "64 MiB over a TCP connection of the host's loopback, from one Python process to another"),
    Row("loopback", "64 MiB over a TCP connection of loopback in a session, from one process to another", budget=1 / 0.7, against="loopback-python",
        budget_text="<= 1.43x"),
    Row("as-warm", "`1+1` by the tool of `cloister mcp --as codemode-lite`, in a living session", budget=1.02, against="warm", budget_text="<= 1.02x"),
    Row("as-first", "`cloister mcp --as codemode-lite` from nothing to the first result of `1+1`", budget=1.05, against="first", budget_text="<= 1.05x"),
    Row("node-bwrap", "bubblewrap + node -e 1"),
    Row("node-fresh", "`1+1` in a JavaScript session made for it", budget=1, against="node-bwrap", budget_text="<= 1x"),
    Row("node-pool", "`1+1` in a JavaScript session from the pool", budget=2, against="fresh-pool", budget_text="<= 2x"),
    Row("node-warm", "`1+1` in a living JavaScript session", budget=2, against="warm", budget_text="<= 2x"),
    Row("node-tool", "a tool call from a JavaScript session to a minimal server in C", budget=1.5, against="tool-c", budget_text="<= 1.5x"),
    Row("gather-100", "a tool call to a minimal server in C, of 100 that are gathered"),
    Row("node-gather", "a tool call from a JavaScript session to a minimal server in C, of 100 that are gathered", budget=1.5, against="gather-100",
        budget_text="<= 1.5x"),
    Row("node-memory", "memory of an idle JavaScript session that ran `1+1`", unit="MiB", budget=16, budget_text="<= 16 MiB"),
    Row("oci-tar", "`tar -xz` of the layers of a container image of 1 GiB in 30,000 files"),
    Row("oci-umoci", "`umoci unpack` of that image"),
    Row("oci", "`cloister image build --oci` of that image", budget=1.2, against="oci-tar", budget_text="<= 1.2x"),
    Row("oci-unpack", "`cloister image build --oci` of that image, beside umoci", budget=0.6, against="oci-umoci", budget_text="<= 0.6x"),
    Row("oci-memory", "the most memory that cloister-unpacker takes for that image", unit="MiB", budget=64, budget_text="<= 64 MiB"),
    Row("memory-plain", "memory of an idle session that ran `1+1`", unit="MiB", budget=4, budget_text="<= 4 MiB"),
    Row("calm-p99", "the answer to `ping`, 99th percentile"),
    Row("spin-p99", "the answer to `ping` beside eight sandboxes that compute, 99th percentile", budget=3, against="calm-p99",
        budget_text="<= 3x"),
)

# The set `lean` (lean.py), with memory-plain.
LEAN_ROWS = (
    Row("floor-shape", "processor time of a sandbox of a C program that asks the kernel for what a session asks for"),
    Row("floor-least", "processor time of a sandbox of a C program that asks for the least"),
    Row("cost", "processor time of a session made, answered with `1+1` and destroyed", budget=1.5, against="floor-least", budget_text="<= 1.5x",
        floor="floor-shape"),
    Row("again", "processor time of a session made right after another one has ended", budget=1, against="cost", budget_text="<= 1x"),
    Row("faults", "page faults of worker and init until the first answer", unit="faults", budget=190, budget_text="<= 190"),
    *(row for name, count in (("second", 2), ("burst-8", 8), ("burst-64", 64), ("burst-1000", 1000)) for row in (
        Row(name, f"`1+1` in {count:,} new sessions at once: time of each", budget=1.5, against="floor-least", budget_text="<= 1.5x"),
        Row(f"{name}-cpu", f"`1+1` in {count:,} new sessions at once: processor time of each", budget=1.1, against="cost", budget_text="<= 1.1x"))),
    Row("grow-10", "processor time of one more session beside 10 live ones"),
    *(Row(f"grow-{count}", f"processor time of one more session beside {count:,} live ones", budget=1.2, against="grow-10", budget_text="<= 1.2x") for count in (200, 1000)),
    Row("idle-1000", "processor time of a server with 1,000 idle sessions", unit="ms/s", budget=3, budget_text="<= 3 ms/s"),
    Row("memory-copy", "memory of an idle session that has a variable", unit="MiB", budget=1.5, budget_text="<= 1.5 MiB"),
    Row("gather", "a tool call to a minimal server in C, of 1,000 that are gathered", budget=1 / 4, against="tool-c", budget_text="<= 1/4"),
    Row("journal-call", "what the journal (`sync` `none`) adds to a tool call", unit="us", budget=20, budget_text="<= 20 us"),
    Row("journal-gather-off", "a tool call to a minimal server in C, of 1,000 that are gathered, without a journal"),
    Row("journal-gather", "1,000 gathered calls with the journal (`sync` `group`)", budget=2, against="journal-gather-off", budget_text="<= 2x"),
    Row("journal-memory", "memory of `cloister-journal`", unit="MiB", budget=4, budget_text="<= 4 MiB"),
)


class Measures(Lean, JavaScript, Journal):
    """The measures, a method each. Servers live from the first round to the last."""

    def __init__(self, bench, quick):
        self.bench, self.quick = bench, quick
        self.direct = {}
        self.living = None
        self.served = None
        self.streamable = self.over_http = None
        self.imports = None
        self.floors, self.least = {}, {}
        self.systems = {}

    def close(self):
        for server in [*self.direct.values(), *self.floors.values(), *self.least.values(), *self.systems.values(),
                       self.living, self.served, self.over_http, self.streamable]:
            if server:
                server.close()

    def count(self, full, quick):
        return quick if self.quick else full

    # ---- from nothing ----

    def same_imports(self):
        """The modules of the standard library that a cell finds imported. The compared python3 imports them too."""
        if self.imports is None:
            done = subprocess.run(
                [self.bench.cloister, "run", "--config", self.bench.config({}), "-c",
                 "import sys; print(sorted(n for n in sys.modules if '.' not in n))"],
                capture_output=True, check=False, env=self.bench.environment)
            if done.returncode != 0:
                raise Failure(f"cloister run: {done.stderr.decode(errors='replace').strip()[:300]}")
            probe = "import sys\nhad = set(sys.modules)\nimport importlib.util as u, json, ast\n" \
                    "print(json.dumps([n for n in ast.literal_eval(sys.stdin.read())" \
                    " if n != '__main__' and n not in had and u.find_spec(n)]))"
            told = subprocess.run([PYTHON, "-I", "-c", probe], input=done.stdout, capture_output=True, check=True)
            self.imports = json.loads(told.stdout)
        return self.imports

    def bwrap_imports(self):
        names = self.same_imports()
        code = (f"import {','.join(names)};" if names else "") + "print(1)"
        return {"bwrap-imports": [once(self.bench, bwrap_command(code), "1")]}

    def run(self):
        return {"run": [once(self.bench, [self.bench.cloister, "run", "--config", self.bench.config({}),
                                          "-c", "print(1)"], "1")]}

    def start(self):
        with Ping(self.bench, [self.bench.cloister, "mcp", "--config", self.bench.config({})]) as server:
            first = server.ask(INITIALIZE)["age_ns"]
            server.send(INITIALIZED)
            server.want('"status":"ok"')
            return {"initialize": [first], "first": [server.ask(cell("1+1"))["age_ns"]]}

    # ---- sessions ----

    def fresh(self):
        """Sessions of a server that was started for this round; its template is warm and the server is idle."""
        with Cloister(self.bench, {"pool": 0}) as server:
            server.run("1+1")
            rest(0.3)
            server.run("1+1", "first")
            took = server.new_sessions(self.count(10, 2), 0.02)
            return {"fresh": took, "fresh-floor": took}

    def fresh_cold(self):
        """The second session of a server that was started just now. Its template has run no warm-up cell yet."""
        with Cloister(self.bench, {"pool": 0}) as server:
            server.run("1+1")
            return {"fresh-cold": server.burst_ok(1, "1+1", "fresh-%d")}

    def fresh_pool(self):
        with Cloister(self.bench) as server:
            server.run("1+1")
            rest(0.5)
            return {"fresh-pool": server.new_sessions(self.count(10, 2), 0.1)}

    def floor_session(self):
        return {"floor-session": self.times(self.bench.program("bench-floor-session"), str(self.count(10, 2)))}

    def times(self, *command):
        """Runs a program that prints {"ns": [...]}."""
        done = subprocess.run(command, capture_output=True, check=False, env=self.bench.environment)
        if done.returncode != 0:
            raise Failure(f"{os.path.basename(command[0])}: {last_line(done.stderr)}")
        return json.loads(done.stdout)["ns"]

    # ---- a living session ----

    def server(self):
        """The server with the three echo servers, which are started."""
        if not self.living:
            servers = {"c": {"command": self.bench.program("bench-echo"), "args": []},
                       "ruled": {"command": self.bench.program("bench-echo"), "args": []},
                       "python": {"command": PYTHON, "args": ["-I", self.bench.script("echo.py")]}}
            everything = self.bench.everything()
            if everything:
                servers["everything"] = {"command": everything[0], "args": everything[1:]}
            self.living = Cloister(self.bench, {"mcpServers": servers, "rules": RULES})
            self.living.run("1+1")
        return self.living

    def warm(self):
        echo, relay = self.bench.program("bench-floor-echo"), self.bench.program("bench-floor-relay")
        if not self.floors:
            self.floors = {"floor-echo": Ping(self.bench, [echo]), "floor-relay": Ping(self.bench, [relay, echo])}
        server, count, request = self.server(), self.count(100, 10), cell("1+1")
        took = {}
        for name, floor in self.floors.items():
            floor.burst(count, request)
            took[name] = floor.burst(count, request)
        server.burst_ok(self.count(20, 2), "1+1")
        # The compiler of cells builds a syntax tree where it finds a backslash.
        return {**took, "warm": server.burst_ok(count, "1+1"), "warm-tree": server.burst_ok(count, "1+1 # \\\\")}

    def picture(self):
        server, count = self.server(), self.count(20, 3)
        server.run(PICTURES)
        took = {name: server.burst_ok(count, f"display({name}, 'image/png')") for name in ("_small", "_large")}
        return {"picture": [max(0, statistics.median(took["_large"]) - statistics.median(took["_small"]))]}

    def warm_http(self):
        if not self.served:
            self.served = Served(self.bench)
        self.served.burst_ok(self.count(20, 2), "1+1")
        return {"warm-http": self.served.burst_ok(self.count(100, 10), "1+1")}

    def floor_cell(self):
        """A measure of its own, because some machines have no shared libpython."""
        with Ping(self.bench, [self.bench.program(f"bench-floor-{name}") for name in ("relay", "cell")]) as server:
            count = self.count(100, 10)
            server.want('"repr":"2"')
            server.burst(count, cell("1+1"))
            return {"floor-cell": server.burst(count, cell("1+1"))}

    def tool(self, name, command):
        if name not in self.direct:
            self.direct[name] = Mcp(self.bench, command)
        direct, server, count = self.direct[name], self.server(), self.count(100, 10)
        direct.burst(self.count(20, 2), ECHO)
        code = TOOL_CALLS.format(tool=f"{name}.echo", count=self.count(20, 2))
        server.run(code)
        _, _, took = server.run(code.replace(f"range({self.count(20, 2)})", f"range({count})"))
        least = self.times(PYTHON, "-I", self.bench.script("floor-await.py"), str(count),
                           self.bench.program("bench-floor-relay"), *command)
        return {f"direct-{name}": direct.burst(count, ECHO), f"floor-await-{name}": least, f"tool-{name}": took}

    def tool_c(self):
        return self.tool("c", [self.bench.program("bench-echo")])

    def tool_rules(self):
        """Calls with and without rules take turns, so that both meet the same machine."""
        server, count = self.server(), self.count(200, 10)
        took = {"c": [], "ruled": []}
        for _ in range(6):
            for name, times in took.items():
                times += server.run(TOOL_CALLS.format(tool=f"{name}.echo", count=count))[2][count // 10:]
        return {"tool-rules": [max(0, statistics.median(took["ruled"]) - statistics.median(took["c"]))]}

    def tool_python(self):
        return self.tool("python", [PYTHON, "-I", self.bench.script("echo.py")])

    def tool_everything(self):
        command = self.bench.everything()
        if not command:
            raise Failure("the npm package @modelcontextprotocol/server-everything is not installed")
        return self.tool("everything", command)

    def tool_http_everything(self):
        python = self.bench.client_python()
        if not self.streamable:
            self.streamable = Streamable(self.bench)
            self.over_http = Cloister(self.bench, {"mcpServers": {"http": {"type": "http", "url": self.streamable.url}}})
        count, warm_up = self.count(100, 10), self.count(20, 2)
        direct = self.times(python, self.bench.script("client-http.py"), self.streamable.url, str(count))
        self.over_http.run(TOOL_CALLS.format(tool="http.echo", count=warm_up))
        _, _, took = self.over_http.run(TOOL_CALLS.format(tool="http.echo", count=count))
        return {"direct-http-everything": direct, "tool-http-everything": took}

    # ---- the tools of another system ----

    def through_as(self):
        # The result is JSON in a text.
        return System(self.bench, "codemode-lite", r'\"success\": true', CODEMODE_SERVERS="[]")

    def as_warm(self):
        if "as" not in self.systems:
            self.systems["as"] = self.through_as()
        server = self.systems["as"]
        server.burst(self.count(20, 2), "1+1")
        return {"as-warm": server.burst(self.count(100, 10), "1+1")}

    def as_first(self):
        with self.through_as() as server:
            return {"as-first": [server.age_of("1+1")]}

    # ---- container images ----

    def container_image(self):
        if "oci" not in self.systems:
            self.systems["oci"] = Containers(self.bench, self.count(1024, 32), self.count(30000, 1000))
        return self.systems["oci"].round()

    # ---- memory, load ----

    def loopback(self):
        code = LOOPBACK.format(count=self.count(5, 1))
        direct = self.times("nice", "-n", "5", PYTHON, "-I", "-c", code)  # as sessions
        with Cloister(self.bench, {"network": "loopback"}) as server:
            return {"loopback-python": direct, "loopback": server.run(code)[2]}

    def memory(self, row="memory-plain", code="1+1", most=100, **server):
        """The slope of MemAvailable from ten sessions on. The value is MiB, scaled like the nanoseconds of other rows."""
        more = self.count(most, 10)
        with Cloister(self.bench, {"pool": 0, **server.pop("config", {})}, **server) as server:
            server.burst_ok(10, code, "early-%d")
            rest(0.5)
            before = available()
            server.burst_ok(more, code, "idle-%d")
            rest(self.count(1, 0.2))
            return {row: [(before - available()) / more * 1e6]}

    def memory_copy(self):
        return self.memory("memory-copy", "x = [1]")

    def spin(self):
        with Cloister(self.bench) as server:
            server.run("1+1")
            count, seconds = self.count(1000, 50), self.count(3, 1)
            calm = server.burst(count, PING)
            for i in range(8):
                server.run("1+1", f"spin-{i}")
            for i in range(8):
                server.send(cell(f"import time\n_e=time.time()+{seconds}\nwhile time.time()<_e: pass", f"spin-{i}"))
            time.sleep(0.2)
            busy = server.burst(count // 2, PING)
            return {"calm-p99": [summary(calm)["p99"] * 1e6], "spin-p99": [summary(busy)["p99"] * 1e6]}


PING = '{"jsonrpc":"2.0","id":%d,"method":"ping"}'

# The rows of each measure, and whether its processes are bound to one CPU. In a round trip only one process works at a
# time. Without the binding, the scheduler places them on one CPU or on several, and waking an idle CPU takes longer than
# the work. Measures whose processes work in parallel may use all CPUs.
MEASURES = (
    ("bwrap_imports", ("bwrap-imports",), False),
    ("run", ("run",), False),
    ("start", ("initialize", "first"), False),
    ("fresh", ("fresh", "fresh-floor"), False),
    ("fresh_cold", ("fresh-cold",), False),
    ("fresh_pool", ("fresh-pool",), False),
    ("floor_session", ("floor-session",), False),
    ("warm", ("floor-echo", "floor-relay", "warm", "warm-tree"), True),
    ("picture", ("picture",), False),
    ("warm_http", ("warm-http",), True),
    ("floor_cell", ("floor-cell",), True),
    ("tool_rules", ("tool-rules",), True),
    ("tool_c", ("direct-c", "floor-await-c", "tool-c"), True),
    ("tool_python", ("direct-python", "floor-await-python", "tool-python"), True),
    ("tool_everything", ("direct-everything", "floor-await-everything", "tool-everything"), True),
    ("tool_http_everything", ("direct-http-everything", "tool-http-everything"), True),
    ("as_warm", ("as-warm",), True),
    ("as_first", ("as-first",), False),
    ("node_bwrap", ("node-bwrap",), False),
    ("node_fresh", ("node-fresh",), False),
    ("node_pool", ("node-pool",), False),
    ("node_warm", ("node-warm",), True),
    ("node_tool", ("node-tool",), True),
    ("node_gather", ("gather-100", "node-gather"), True),
    ("node_memory", ("node-memory",), False),
    ("container_image", ("oci-tar", "oci-umoci", "oci", "oci-unpack", "oci-memory"), False),
    ("loopback", ("loopback-python", "loopback"), False),
    ("memory", ("memory-plain",), False),
    ("spin", ("calm-p99", "spin-p99"), False),
    ("lean_cost", ("floor-shape", "floor-least", "cost"), False),
    ("lean_again", ("again",), False),
    ("lean_faults", ("faults",), False),
    ("lean_bursts", tuple(row.name for row in LEAN_ROWS if row.name.startswith(("second", "burst"))), False),
    ("lean_growth", ("grow-10", "grow-200", "grow-1000", "idle-1000"), False),
    ("memory_copy", ("memory-copy",), False),
    ("gather", ("gather",), True),
    ("journal_calls", ("journal-call",), True),
    ("journal_gather", ("journal-gather-off", "journal-gather"), True),
    ("journal_memory", ("journal-memory",), False),
)
# Slow measures have at most this many rounds.
SELDOM = {"memory": 3, "node_memory": 3, "container_image": 2, "spin": 5, "lean_faults": 3, "lean_bursts": 3, "lean_growth": 2, "memory_copy": 3}
