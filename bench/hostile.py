#!/usr/bin/env python3
"""What hostile peers cost others, in three tables: another session of one client; another principal of a server; and, with --base, what the
bounds against them cost a session, beside another build.

    bench/hostile.py [--build DIR] [--base DIR] [--seconds S] [--mix S] [--rounds N] [ROW…]

All of it takes about 15 minutes, and a machine without other work; the user who runs it matters (docs/bounds.md). With names of rows it measures only those:
`bench/hostile.py --mix 0 O_DIRECT fsync` takes a minute. Its last lines say how many rows are above their limits, and which.

Status 1: beside an attack of another principal the 99th percentile of `1 + 1` is more than 20 ms above that alone, or the broker holds more
than 32 MiB more ten seconds later; new sessions beside hostile calls take more than twice the time; a call of the other principal failed; or
a cost is above its limit.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CHANNEL = """
import json, os, socket, struct
fd = max(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)
         and os.readlink("/proc/self/fd/" + n).startswith("socket:"))
channel = socket.socket(fileno=os.dup(fd))
def frame(kind, number, data):
    return struct.pack("<IBBHQ", len(data), kind, 0, 0, number) + data
def call(number, arguments):
    return frame(0x42, number, b'{"server":"none","tool":"t","arguments":{"a":' + arguments + b'}}')
def flood(data):
    # The answers are read, or the broker would stop taking frames.
    import threading
    def drain():
        while channel.recv(1 << 20):
            pass
    threading.Thread(target=drain, daemon=True).start()
    number = 1 << 40
    while True:
        channel.sendall(data(number))
        number += 1
"""
ARRAY = "b'[' + b'0,' * (%d << 19) + b'0]'"
TOOL = "while True:\n    try:\n        await tools['%s'](n=%d)\n    except Exception:\n        pass\n"

# The code of the other session, which runs as long as it is let; a new session follows one that was ended.
ATTACKS = {
    "62 MiB array": CHANNEL + f"body = {ARRAY % 62}\nflood(lambda n: call(n, body))",
    "15 MiB array": CHANNEL + f"body = {ARRAY % 15}\nflood(lambda n: call(n, body))",
    "1 M numbers": CHANNEL + f"body = {ARRAY % 1}\nflood(lambda n: call(n, body))",
    "15 MiB text": CHANNEL + "body = b'\"' + b'x' * (15 << 20) + b'\"'\nflood(lambda n: call(n, body))",
    "15 MiB nested": CHANNEL + "body = b'[' * (15 << 20)\nflood(lambda n: call(n, body))",
    "15 MiB result": CHANNEL + f"body = b'{{\"status\":\"ok\",\"value\":' + {ARRAY % 15} + b'}}'\nflood(lambda n: frame(0x41, 2, body))",
    "60 KiB arrays": CHANNEL + "body = b'[' + b'0,' * 30000 + b'0]'\nflood(lambda n: call(n, body))",
    "small calls": CHANNEL + "flood(lambda n: b''.join(call(n * 1000 + i, b'1') for i in range(1000)))",
    "output": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "server: 62 MiB array": TOOL % ("array", 62),
    "server: 62 MiB text": TOOL % ("text", 62),
    "server: 1 MiB texts": TOOL % ("text", 1),
}

SERVER = r'''
import json, sys
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("array", "text")]
out = sys.stdout.buffer
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "tools/call":
        n, name = m["params"]["arguments"]["n"], m["params"]["name"]
        out.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":' % m["id"])
        out.write(b'[' + b'0,' * (n << 19) + b'0]' if name == "array" else b'"' + b'x' * (n << 20) + b'"')
        out.write(b'}}}\n')
    elif m["method"] == "initialize":
        out.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}}).encode() + b"\n")
    elif m["method"] == "tools/list":
        out.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": tools}}).encode() + b"\n")
    else:
        out.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}).encode() + b"\n")
    out.flush()
'''


def attack(server, code, ended):
    """Keeps a session at it."""
    while not ended.is_set():
        try:
            server.call(code, wait=600, session="hostile", timeout=600)
        except Exception:  # pylint: disable=broad-except
            return


def write_lines(server, ended):
    """A client's own lines of 60 MiB, which are no requests."""
    line = b'{"jsonrpc":"2.0","method":"x","params":[' + b"0," * (30 << 20) + b"0]}\n"
    while not ended.is_set():
        server.send_bytes(line)
        time.sleep(0.3)


def broker_memory(harness, server):
    for pid, name in harness.descendants(server.process.pid).items():
        if name == "cloister-broker":
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                lines = dict(line.split(":", 1) for line in f)
            return int(lines["VmHWM"].split()[0]) // 1024
    return 0


def measure(rawmcp, harness, folder, name, seconds):
    samples, ended = [], threading.Event()
    with rawmcp.RawServer("--config", os.path.join(folder, "config.json")) as server:
        server.initialize()
        for session in ("good", "hostile"):
            server.cell("1 + 1", session=session)
        server.cell("_ = await tools['text'](n=0)", session="good")
        if name == "client: 60 MiB lines":
            thread = threading.Thread(target=write_lines, args=(server, ended), daemon=True)
        else:
            thread = threading.Thread(target=attack, args=(server, ATTACKS.get(name), ended), daemon=True)
        if name != "alone":
            thread.start()
            time.sleep(0.7)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            server.cell("1 + 1", session="good", wait=60)
            samples.append((time.monotonic() - begin) * 1000)
            time.sleep(0.002)
        memory = broker_memory(harness, server)
        ended.set()
        server.free()
    samples.sort()
    n = len(samples)
    return {"name": name, "n": n, "p50": samples[n // 2], "p99": samples[min(n - 1, n * 99 // 100)], "max": samples[-1], "memory": memory}


def compare(folder, seconds, chosen):
    """Prints a row for each attack on another session of the same client."""
    import harness  # pylint: disable=import-outside-toplevel
    import rawmcp  # pylint: disable=import-outside-toplevel

    with open(os.path.join(folder, "server.py"), "w", encoding="utf-8") as f:
        f.write(SERVER)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"mcpServers": {"s": {"command": sys.executable, "args": [os.path.join(folder, "server.py")]}}}, f)
    print(f"{'another session beside':26} {'calls':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'broker MiB':>11}", flush=True)
    for name in ["alone", *ATTACKS, "client: 60 MiB lines"]:
        if chosen and not any(part in name for part in chosen):
            continue
        row = measure(rawmcp, harness, folder, name, seconds)
        print(f"{name:26} {row['n']:6} {row['p50']:8.2f} {row['p99']:8.2f} {row['max']:8.2f} {row['memory']:11}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build"), type=os.path.abspath)
    parser.add_argument("--base", type=os.path.abspath, help="the build to compare costs with")
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement beside an attack")
    parser.add_argument("--mix", type=float, default=120, help="seconds of each mix of calls; 0: none")
    parser.add_argument("--rounds", type=int, default=9, help="of each cost, alternating")
    parser.add_argument("--uv", default=shutil.which("uv"), help="the program uv, if it is not in PATH")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a part of the name of those to run; default: all")
    options = parser.parse_args()
    os.environ.setdefault("CLOISTER_BUILD", options.build)
    sys.path.insert(0, os.path.join(TOP, "tests", "integration"))
    import principals  # pylint: disable=import-outside-toplevel
    from test_installs import Index  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        index = Index()
        compare(folder, options.seconds, options.rows)
        rows, failed = principals.compare(options.build, index, options.seconds, options.mix, options.rows)
        if options.base:
            import costs  # pylint: disable=import-outside-toplevel

            more, too_dear = costs.compare((options.build, options.base), folder, options.rounds, index, options.uv, options.rows)
            rows, failed = rows + more, failed + too_dear
    print(f"\n{len(failed)} of {rows} rows with a limit are above it" + "".join(f"\n  {name}" for name in failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
