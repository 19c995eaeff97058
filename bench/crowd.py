#!/usr/bin/env python3
"""What ten hostile clients of 200 cost the others over HTTP: crowd.py [--build DIR] [--clients N] [--hostile N] [--seconds S] [--rounds N] [--kind KIND].

Each client has its own token. A friendly one calls `1 + 1` in its session about once a second, and every tenth call is a new session, which it
ends. Rounds without the hostile clients and with them alternate, each with its own server. Prints the median and the 99th percentile of both kinds
of call, and the differences. Status 1: a friendly call failed, the 99th percentile of a warm call rose by more than 20 ms, or that of a new session to
more than twice (issue "A service", 8). On a busy machine the rounds without hostile clients show what the machine itself costs.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MORE, TIMES = 20, 2  # ms of a warm call; times of a new session
WARM_UP = 5  # s: sessions start, and are not measured
BODY = 24 << 20
RESET = "import os\nos._exit(0)"  # the session ends, and leaves its place

HOSTILE = {
    "fork bomb": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "memory": "kept = []\nwhile True:\n    kept.append(bytearray(b'x') * (1 << 24))",
    "output": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "processes left": "import os\nfor _ in range(30):\n    if os.fork() == 0:\n        while True: pass",
}
KINDS = [*HOSTILE, "bodies", "slow reader", "no session"]


def token(name):
    return (name + "-") * 4


def start(build, folder, names):
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump({"mcpServers": {}}, f)
    with open(os.path.join(folder, "tokens"), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.writelines(f"{name} {token(name)}\n" for name in names)
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen([os.path.join(build, "cloister"), "serve", "--listen", "127.0.0.1:0", "--config", os.path.join(folder, "config.json"),
                                    "--tokens", os.path.join(folder, "tokens")], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    end = time.monotonic() + 120
    while True:
        with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as f:
            text = f.read()
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", text):
            return process, int(found[1])
        if process.poll() is not None or time.monotonic() > end:
            sys.exit("cloister serve did not start: " + text[-300:])
        time.sleep(0.05)


class Client:
    def __init__(self, port, name):
        self.port, self.name, self.streams = port, name, None

    async def send(self, code, **arguments):
        if not self.streams:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                           "params": {"name": "run_python", "arguments": {"code": code, **arguments}, "_meta": META}}).encode()
        session = f"Mcp-Param-Session: {arguments['session']}\r\n" if "session" in arguments else ""
        self.streams[1].write((f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\nAuthorization: Bearer {token(self.name)}\r\n"
                               f"MCP-Protocol-Version: {VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: run_python\r\n{session}Content-Length: {len(body)}\r\n\r\n").encode() + body)
        await self.streams[1].drain()

    async def call(self, code, **arguments):
        """Returns the status of the cell, or what answered instead of it."""
        try:
            await self.send(code, **arguments)
            head = await self.streams[0].readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            data = await self.streams[0].readexactly(int(length[1])) if length else b""
        except (OSError, asyncio.IncompleteReadError) as e:
            self.close()
            return type(e).__name__
        if b"onnection: close" in head:
            self.close()
        if not head.startswith(b"HTTP/1.1 200 "):
            return (head.split(b"\r\n", 1)[0] + b" " + data[:200]).decode()
        return json.loads(data).get("result", {}).get("structuredContent", {}).get("status", data[:200].decode())

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None


async def be_friendly(client, end, measured, result):
    n = 0
    await asyncio.sleep(random.random() * WARM_UP / 2)
    while time.monotonic() < end:
        n += 1
        kind, session = ("new", f"new{n}") if n % 10 == 0 else ("warm", "work")
        began = time.monotonic()
        status = await client.call("1 + 1", session=session)
        if status != "ok":
            result["failed"].append(f"{client.name} {kind}: {status}")
        elif n > 1 and began > measured:
            result[kind].append((time.monotonic() - began) * 1000)
        if kind == "new":
            await client.call(RESET, session=session)
        await asyncio.sleep(random.random() * 2)
    client.close()


async def be_hostile(client, kind, end):
    n = 0
    while time.monotonic() < end:
        n += 1
        if kind in HOSTILE:
            await client.call(HOSTILE[kind], session=f"h{n % 4}", timeout=5)
        elif kind == "bodies":
            await client.call("#" * (BODY - 1000))
        elif kind == "slow reader":
            await client.send("print('x' * 9000)\n1", session="slow")
            await asyncio.sleep(0.01)
        else:
            await client.call("1")
        await asyncio.sleep(0)


async def attack(port, names, seconds, kinds):
    """Runs in another process: what these clients compute must not delay the others."""
    end = time.monotonic() + seconds
    await asyncio.wait([asyncio.create_task(be_hostile(Client(port, name), kinds[i % len(kinds)], end)) for i, name in enumerate(names)], timeout=seconds)


async def crowd(port, names, seconds, result):
    now = time.monotonic()
    await asyncio.gather(*(be_friendly(Client(port, name), now + WARM_UP + seconds, now + WARM_UP, result) for name in names))


def percentile(samples, part):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * part))] if samples else 0


def measure(build, friendly, hostile, seconds, kind, result):
    with tempfile.TemporaryDirectory(prefix="cloister-bench-") as folder:
        process, port = start(build, folder, [*friendly, *hostile])
        others = None
        try:
            if hostile:
                others = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--attack", str(port), "--seconds", str(seconds + WARM_UP),
                                           *(["--kind", kind] if kind else []), *hostile])
            asyncio.run(crowd(port, friendly, seconds, result))
        finally:
            if others:
                others.kill()
                others.wait()
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build"), type=os.path.abspath)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=10, help="of the clients")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, help="of all hostile clients; default: each has one of these in turn")
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        asyncio.run(attack(options.attack, options.names, options.seconds, [options.kind] if options.kind else KINDS))
        return
    friendly = [f"friend{i:03}" for i in range(options.clients - options.hostile)]
    hostile = [f"enemy{i:03}" for i in range(options.hostile)]
    results = {name: {"warm": [], "new": [], "failed": []} for name in ("alone", "beside")}
    for _ in range(options.rounds):
        measure(options.build, friendly, [], options.seconds, None, results["alone"])
        measure(options.build, friendly, hostile, options.seconds, options.kind, results["beside"])
    over = False
    for kind in ("warm", "new"):
        alone, beside = (results[name][kind] for name in results)
        p50, p99 = ([percentile(samples, part) for samples in (alone, beside)] for part in (0.5, 0.99))
        over |= p99[1] > p99[0] + MORE if kind == "warm" else p99[1] > p99[0] * TIMES
        print(f"{kind:4}  median {p50[0]:.2f} -> {p50[1]:.2f} ms ({p50[1] / (p50[0] or 1):.2f})  p99 {p99[0]:.2f} -> {p99[1]:.2f} ms ({p99[1] / (p99[0] or 1):.2f})  n {len(alone)}, {len(beside)}")
    for name, result in results.items():
        print(f"{name}: {len(result['failed'])} calls failed", *result["failed"][:3], sep="\n  ")
    sys.exit(over or any(result["failed"] for result in results.values()))


if __name__ == "__main__":
    main()
