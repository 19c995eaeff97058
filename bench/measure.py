"""Shared by all measurements: the client in C, a Cloister server, statistics, the machine."""
import argparse
import contextlib
import importlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
# An emulated machine needs longer pauses, by this factor.
SLOW = float(os.environ.get("CLOISTER_TEST_SLOW", "1"))
MODERN = "2026-07-28"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


class Failure(Exception):
    """A measurement failed; the text is one line."""


def last_line(data):
    """The last line that a program printed; bench-ping's own message only if there is no other."""
    lines = data.decode(errors="replace").strip().splitlines()
    own = [line for line in lines if not line.startswith("ping: ")]
    return (own or lines or ["no word"])[-1][:300]


def summary(values):
    """Statistics of nanoseconds, in milliseconds."""
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered) / 1e6,
        "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] / 1e6,
        "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] / 1e6,
        "least": ordered[0] / 1e6,
        "n": len(ordered),
    }


@contextlib.contextmanager
def with_tests(description, name, config_of, rounds):
    """A measurement with the servers and clients of tests/integration/NAME.py: its module, a folder with config.json, which config_of(module)
    returns, and the number of rounds. Reads the command line: [--build DIR] [--rounds N]."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build"), type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=rounds)
    options = parser.parse_args()
    os.environ.setdefault("CLOISTER_BUILD", options.build)
    sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
    module = importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config_of(module), f)
        yield module, folder, options.rounds


def rest(seconds):
    """Waits, so that background work such as the next network namespace does not delay the next call."""
    time.sleep(seconds * SLOW)


def end(process):
    """Waits for a program whose standard input was closed."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


class Ping:
    """A program behind bench-ping (ping.c describes its commands). Times are nanoseconds."""

    def __init__(self, bench, command, cwd=None, **variables):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [bench.program("bench-ping"), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, env={**bench.environment, **variables}, cwd=cwd)
        self.name = os.path.basename(command[0])

    def fail(self):
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        raise Failure(f"{self.name}: {last_line(self.errors.read())}")

    def command(self, text, answer=True):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline() if answer else b"{}"
        except BrokenPipeError:
            self.fail()
        if not line.endswith((b"\n", b"{}")):
            self.fail()
        return json.loads(line)

    def send(self, line):
        self.command(f"send {line}", answer=False)

    def want(self, text):
        self.command(f"want {text}", answer=False)

    def ask(self, line):
        return self.command(f"ask {line}")

    def burst(self, count, line):
        return self.command(f"burst {count} {line}")["ns"]

    def wait(self):
        """The time from the program's start to its end. It must exit with 0."""
        done = self.command("wait")
        self.process.wait()
        if done["status"] != 0:
            self.fail()
        self.errors.close()
        return done["age_ns"]

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        end(self.process)
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request(method, params):
    text = json.dumps({"method": method, "params": params}, separators=(",", ":"))
    return f'{{"jsonrpc":"2.0","id":%d,{text[1:]}'


INITIALIZE = request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
ECHO = request("tools/call", {"name": "echo", "arguments": {"message": "x"}})


class Mcp(Ping):
    """An MCP server after its handshake."""

    def __init__(self, bench, command, **variables):
        super().__init__(bench, command, **variables)
        self.ask(INITIALIZE)
        self.send(INITIALIZED)


def cell(code, session=None, tool="run_python", **more):
    """The request that runs code; a session's name may contain %d."""
    arguments = {"code": code, **({"session": session} if session else {}), **more}
    return request("tools/call", {"name": tool, "arguments": arguments})


class Cloister(Mcp):
    """`cloister mcp` with its own config. tool: what runs code."""

    def __init__(self, bench, config=None, tool="run_python"):
        self.tool = tool
        super().__init__(bench, [bench.cloister, "mcp", "--config", bench.config(config or {})])

    def run(self, code, session=None, **more):
        """(nanoseconds, age, value) of a cell, which must succeed."""
        done = self.ask(cell(code, session, self.tool, **more))
        result = done["answer"].get("result", {}).get("structuredContent", {})
        if result.get("status") != "ok":
            raise Failure(f"cloister: {json.dumps(result.get('error', done['answer']))[:300]}")
        return done["ns"], done["age_ns"], result.get("value", {}).get("json")

    def burst_ok(self, count, code, session=None, **more):
        """The times of cells, which must succeed."""
        self.want('"status":"ok"')
        try:
            return self.burst(count, cell(code, session, self.tool, **more))
        finally:
            self.want("")

    def new_sessions(self, count, pause):
        """The times of `1+1` in new sessions, with a pause before each."""
        took = []
        for _ in range(count):
            rest(pause)
            took += self.burst_ok(1, "1+1", "new-%d")
        return took


class System(Mcp):
    """`cloister mcp --as NAME`, whose tool run_python answers in the form of that system."""

    def __init__(self, bench, name, succeeded, **variables):
        super().__init__(bench, [bench.cloister, "mcp", "--config", bench.config({}), "--as", name], **variables)
        self.want(succeeded)

    def burst(self, count, code):
        return super().burst(count, cell(code))

    def age_of(self, code):
        """The time from the start to the answer."""
        return self.ask(cell(code))["age_ns"]


class Served(Ping):
    """`cloister serve` with its own config, and one connection to it."""

    HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN,
               "Mcp-Method": "tools/call", "Mcp-Name": "run_python", "Mcp-Param-Session": "default"}

    def __init__(self, bench, config=None):
        self.server = subprocess.Popen([bench.cloister, "serve", "--listen", "127.0.0.1:0", "--config", bench.config(config or {})],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=bench.environment)
        found = re.search(rb"http://\S+", self.server.stderr.readline())
        if not found:
            self.server.kill()
            self.server.wait()
            raise Failure("cloister serve did not start")
        super().__init__(bench, [found[0].decode(), *(f"{k}: {v}" for k, v in self.HEADERS.items())])

    @staticmethod
    def cell(code):
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        return request("tools/call", {"name": "run_python", "arguments": {"code": code, "session": "default"}, "_meta": meta})

    def burst_ok(self, count, code):
        self.want('"status":"ok"')
        return self.burst(count, self.cell(code))

    def close(self):
        super().close()
        self.server.terminate()
        self.server.wait()
        self.server.stderr.close()


class Streamable:
    """The official example server over Streamable HTTP."""

    START_SECONDS = 20

    def __init__(self, bench):
        command = bench.everything("streamableHttp")
        if not command:
            raise Failure("the npm package @modelcontextprotocol/server-everything is not installed")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**bench.environment, "PORT": str(port)})
        for _ in range(self.START_SECONDS * 10):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                time.sleep(0.1)
        self.close()
        raise Failure("server-everything does not listen")

    def close(self):
        self.server.terminate()
        self.server.wait()


class Bench:
    """Paths, and resources that live as long as the run."""

    def __init__(self, cloister, programs, node_modules, work):
        self.cloister, self.programs, self.node_modules, self.work = cloister, programs, node_modules, work
        self.environment = dict(os.environ)
        self.configs = 0

    def program(self, name):
        return os.path.join(self.programs, name)

    def script(self, name):
        return os.path.join(HERE, name)

    def config(self, content):
        self.configs += 1
        path = os.path.join(self.work, f"config-{self.configs}.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"mcpServers": {}, **content}, f)
        return path

    def warm_up(self):
        """Builds the image before anything is measured."""
        done = subprocess.run([self.cloister, "run", "--config", self.config({}), "-c", "1"], capture_output=True,
                              check=False, env=self.environment)
        if done.returncode != 0:
            raise Failure(f"cloister run: {last_line(done.stderr)}")

    def everything(self, transport="stdio"):
        """The command of the official example server, or None."""
        path = os.path.join(self.node_modules, "@modelcontextprotocol", "server-everything", "dist", "index.js")
        node = self.node()
        return [node, path, transport] if node and os.path.exists(path) else None

    def client_python(self):
        """A Python that has the official client."""
        path = os.path.join(self.node_modules, "..", "..", "venv", "bin", "python")
        if not os.path.exists(path):
            raise Failure("the official Python client is not installed: ./quickstart test fetches it")
        return path

    def node(self):
        own = os.path.join(self.node_modules, "node", "bin", "node")
        return own if os.path.exists(own) else shutil.which("node")


def end_as_interrupted():
    """SIGTERM and SIGHUP clean up as Ctrl-C does."""
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.default_int_handler)


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def output(*command):
    """The first line that a command prints, or None."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else None


def cgroups():
    """The usable versions of control groups: "v2", "v1", "v1 and v2", "none"."""
    kinds = set()
    with open("/proc/mounts", encoding="utf-8") as f:
        for line in f:
            place, kind = line.split()[1:3]
            if kind == "cgroup2" and os.access(place, os.W_OK):
                kinds.add("v2")
            if kind == "cgroup" and os.access(place, os.W_OK):
                kinds.add("v1")
    return " and ".join(sorted(kinds)) or "none"


def one_cpu():
    """The CPU for round trips: the last one that this process may use."""
    return max(os.sched_getaffinity(0))


@contextlib.contextmanager
def pinned():
    """Processes started in this context, and their children, run on one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {one_cpu()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def available():
    """MemAvailable in MiB."""
    with open("/proc/meminfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    raise Failure("/proc/meminfo has no MemAvailable")


def machine(bench):
    model = "?"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo", encoding="utf-8") as f:
        memory = int(f.readline().split()[1]) / (1 << 20)
    cpus = len(os.sched_getaffinity(0))
    uid = os.getuid()
    who = "root" if uid == 0 else "an ordinary user"
    line = (f"{platform.machine()}, {model}, {cpus} CPU{'s' if cpus > 1 else ''}, {memory:.0f} GiB, "
            f"Linux {platform.release()}, as {who}, control groups: {cgroups()}"
            + (f", round trips on CPU {one_cpu()}" if cpus > 1 else ""))
    return {"line": line, "cpus": cpus, "round_trip_cpu": one_cpu(), "model": model,
            "memory_gib": round(memory, 1), "uid": uid, "kernel": platform.release(), "cgroups": cgroups(),
            "python": output(PYTHON, "--version"), "cloister": output(bench.cloister, "--version")}
