#!/usr/bin/env python3
"""Measures the way of a call, beside bubblewrap with python3, in one run and alternating.

    bench/bench.py [--build DIR] [--rounds N] [--json]

Rows (milliseconds unless told otherwise; median and 95th percentile):

    bwrap               bwrap --unshare-all … python3 -I -c 'import json,asyncio;print(2)'
    initialize          spawn of `cloister mcp` to its answer to initialize
    tools/list          the same to its answer to tools/list
    first result        the same to the result of the first `1+1`, image built
    run                 `cloister run -c 'print(1)'`
    fresh session       the result of `1+1` in a session that this call makes
    warm call           the result of `1+1` in a living session
    tool call           one call from a cell to a minimal stdio server, by 200 in a row
    idle session        MiB of MemAvailable by live session
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

ECHO = r'''
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    method = m["method"]
    if method == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "echo", "version": "1"}}
    elif method == "tools/list":
        r = {"tools": [{"name": "echo", "description": "gives back what it gets",
                        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}
    elif method == "tools/call":
        r = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
'''


class Server:
    """`cloister mcp` by raw lines: little enough that it is not what is measured."""

    def __init__(self, build, config):
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [os.path.join(build, "cloister"), "mcp", "--config", config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.out = self.process.stdout
        self.buffer = b""
        self.last_id = 0

    def request(self, method, params):
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        while True:
            while b"\n" not in self.buffer:
                data = os.read(self.out.fileno(), 1 << 16)
                if not data:
                    raise SystemExit("bench: the server ended")
                self.buffer += data
            line, _, self.buffer = self.buffer.partition(b"\n")
            answer = json.loads(line)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise SystemExit(f"bench: {answer['error']}")
                return answer["result"]

    def initialize(self):
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                    "clientInfo": {"name": "bench", "version": "1"}})
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def run(self, code, session=None):
        arguments = {"code": code}
        if session:
            arguments["session"] = session
        result = self.request("tools/call", {"name": "run_python", "arguments": arguments})
        if result["structuredContent"]["status"] != "ok":
            raise SystemExit(f"bench: {result}")
        return result["structuredContent"]

    def age(self):
        return (time.perf_counter() - self.started) * 1e3

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def timed(fn, *arguments):
    start = time.perf_counter()
    fn(*arguments)
    return (time.perf_counter() - start) * 1e3


def bwrap():
    subprocess.run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
         "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
         "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
         "/usr/bin/python3", "-I", "-c", "import json,asyncio;print(2)"],
        check=True, stdout=subprocess.DEVNULL)


def available():
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    raise SystemExit("bench: no MemAvailable")


def measure(build, rounds, sessions):
    rows = {name: [] for name in ("bwrap", "initialize", "tools/list", "first result", "run",
                                  "fresh session", "warm call", "tool call", "idle session")}
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "echo.py"), "w") as f:
            f.write(ECHO)
        config = os.path.join(directory, "config.json")
        with open(config, "w") as f:
            json.dump({"mcpServers": {"echo": {"command": "/usr/bin/python3",
                                               "args": ["-I", os.path.join(directory, "echo.py")]}}}, f)
        cloister = os.path.join(build, "cloister")
        subprocess.run([cloister, "run", "-c", "1"], check=True, stderr=subprocess.DEVNULL)
        for _ in range(rounds):
            rows["bwrap"].append(timed(bwrap))
            rows["run"].append(timed(lambda: subprocess.run(
                [cloister, "run", "-c", "print(1)"], check=True, stdout=subprocess.DEVNULL)))
            server = Server(build, config)
            server.initialize()
            rows["initialize"].append(server.age())
            server.request("tools/list", {})
            rows["tools/list"].append(server.age())
            server.run("1+1")
            rows["first result"].append(server.age())
            for i in range(5):
                rows["fresh session"].append(timed(server.run, "1+1", f"fresh{i}"))
            for _ in range(20):
                rows["warm call"].append(timed(server.run, "1+1"))
            took = server.run(
                "import time\nawait tools['echo'](text='x')\nt=time.perf_counter()\n"
                "for _ in range(200): await tools['echo'](text='x')\n(time.perf_counter()-t)/200*1e3")
            rows["tool call"].append(took["value"]["json"])
            server.end()
        server = Server(build, config)
        server.initialize()
        server.run("1+1")
        before = available()
        for i in range(sessions):
            server.run("1+1", f"idle{i}")
        time.sleep(0.5)
        rows["idle session"].append((before - available()) / sessions)
        server.end()
    return rows


def summary(values):
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
            "n": len(ordered)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="the build directory")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=50, help="live sessions for the memory row")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {name: summary(v) for name, v in measure(os.path.abspath(options.build), options.rounds,
                                                    options.sessions).items()}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, uid {os.getuid()}"
    if options.json:
        json.dump({"machine": machine, "rows": rows}, sys.stdout, indent=2)
        print()
        return
    print(f"{machine}; medians of {options.rounds} rounds, ms (idle session: MiB)\n")
    print(f"{'':16}{'median':>10}{'p95':>10}{'n':>6}{'of bwrap':>10}")
    base = rows["bwrap"]["median"]
    for name, row in rows.items():
        ratio = "" if name == "idle session" else f"{row['median'] / base:.3f}"
        print(f"{name:16}{row['median']:10.2f}{row['p95']:10.2f}{row['n']:6}{ratio:>10}")


if __name__ == "__main__":
    main()
