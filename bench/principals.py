"""What one principal's attacks cost another one, of a server with two tokens: its `1 + 1` in a warm session, alone and beside each attack, and
what the broker holds ten seconds later; and its new sessions beside a mix of calls in which one of twenty is hostile. hostile.py runs it.
"""

import contextlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MORE = 20  # ms that an attack may add to the 99th percentile
MEMORY = 32  # MiB that the broker may hold more, ten seconds after an attack
TIMES = 2  # of new sessions in the mix
TOKENS = {name: name * 8 for name in ("alice", "robert")}

LOCKS = """
import ctypes, os
l = ctypes.CDLL(None, use_errno=True)
class flock(ctypes.Structure):
    _fields_ = [("type", ctypes.c_short), ("whence", ctypes.c_short), ("start", ctypes.c_long), ("len", ctypes.c_long), ("pid", ctypes.c_int)]
def lock(fd, kind, most):
    k = flock(kind, 0, 0, 1, 0)
    for i in range(most, 0, -1):
        k.start = 2 * i
        if l.fcntl(fd, 6, ctypes.byref(k)) < 0:
            break
"""
PROCESSES = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        end = time.time() + 20\n        while time.time() < end:\n            try:\n                %s\n            except OSError:\n                pass\n        os._exit(0)\ntime.sleep(20)"
SOCKETS = """
import os, socket, time
kept, part = [], b"x" * 60000
for _ in range(3):
    if os.fork() == 0:
        try:
            for _ in range(900):
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.setsockopt(1, 8, 1 << 20)
                s.bind(("127.0.0.1", 0))
                s.connect(s.getsockname())
                s.setblocking(False)
                kept.append(s)
                for _ in range(8):
                    s.send(part)
        except OSError:
            pass
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""
STREAMS = """
import contextlib, socket, time
kept, listener = [], socket.create_server(("127.0.0.1", 0), backlog=1000)
with contextlib.suppress(OSError):
    while len(kept) < 800:
        kept += socket.create_connection(listener.getsockname()), listener.accept()[0]
        for end in kept[-2:]:
            end.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    end.send(bytes(60000))
time.sleep(20)
"""
UNREAD = """
import socket, time
kept = []
for _ in range(60):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(b"GET http://127.0.0.1:PORT/ HTTP/1.1\\r\\nHost: 127.0.0.1:PORT\\r\\n\\r\\n")
    kept.append(s)
time.sleep(20)
"""

# {name: (code, options of the call)}. A list of options stands for many calls of the same code, one after the other, in turn.
ATTACKS = {
    "record locks": (LOCKS + "for i in range(400):\n    lock(os.open(f'/workspace/l{i}', os.O_RDWR | os.O_CREAT), 1, 1500)", [{"session": f"locks-{i}"} for i in range(4)]),
    "locks of the image": (LOCKS + "lock(os.open(os.__file__, os.O_RDONLY), 0, 100000)", [{"session": f"image-{i}"} for i in range(4)]),
    "datagrams": (SOCKETS, [{"session": f"udp-{i}"} for i in range(4)]),
    "streams": (STREAMS, [{"session": f"tcp-{i}"} for i in range(4)]),
    "endless pages": ("install('costs')", [{"session": f"installer-{i}"} for i in range(4)]),
    "answers unread": (UNREAD, [{"session": f"unread-{i}"} for i in range(4)]),
    "O_DIRECT": (PROCESSES % "os.pread(os.open(os.__file__, os.O_RDONLY | os.O_DIRECT), 1 << 20, 0)", [{"session": f"direct-{i}"} for i in range(4)]),
    "fsync": (PROCESSES % "os.fsync(os.open(os.__file__, os.O_RDONLY))", [{"session": f"fsync-{i}"} for i in range(4)]),
    "branches of 200 MiB": ("1", [{"session": f"branch-{i}", "from": "big"} for i in range(100000)]),
    "processes left": ("import os\nfor _ in range(30):\n    if os.fork() == 0:\n        while True: pass", [{"session": f"left-{i}"} for i in range(8)]),
    "calls without a session": ("1", [{}]),
    "loops": ("while True: pass", [{"session": f"loop-{i}", "timeout": 3} for i in range(8)]),
}


class Endless(threading.Thread):
    """A server of HTTP on loopback whose answers do not end."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(300)
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            threading.Thread(target=self.answer, args=self.socket.accept(), daemon=True).start()

    @staticmethod
    def answer(connection, _):
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n")
            while True:
                connection.sendall(b"x" * (1 << 20))


class Server:
    """`cloister serve` with the two tokens."""

    def __init__(self, build, folder, endless, index):
        config = {"mcpServers": {}, "network": {"allow": [f"127.0.0.1:{endless.port}"]}}
        if os.geteuid() != 0:
            config["packages"] = {"install": "allow", "index": index.url("endless"), "timeout": 20}
        with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
            json.dump(config, f)
        with open(os.path.join(folder, "tokens"), "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.writelines(f"{name} {token}\n" for name, token in TOKENS.items())
        self.log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(build, "cloister"), "serve", "--listen", "127.0.0.1:0", "--config", f.name.replace("tokens", "config.json"), "--tokens", f.name],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=folder)
        end = time.monotonic() + 120
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.text())):
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("cloister serve did not start: " + self.text()[-300:])
            time.sleep(0.05)
        self.port, self.endless = int(found[1]), endless

    def attack(self, name):
        """Returns (code, options of the call)."""
        code, options = ATTACKS[name]
        return code.replace("PORT", str(self.endless.port)), options

    def text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Client:
    def __init__(self, server, name):
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKENS[name]}",
                        "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "run_python"}
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def call(self, code, **arguments):
        """Returns the status of the cell, or what answered instead of it."""
        headers = dict(self.headers, **({"Mcp-Param-Session": arguments["session"]} if "session" in arguments else {}))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": code, **arguments}, "_meta": META}}
        try:
            self.connection.request("POST", "/mcp", json.dumps(body), headers)
            data = self.connection.getresponse().read()
        except (OSError, http.client.HTTPException) as e:
            self.connection.close()
            return type(e).__name__
        for line in data.splitlines():
            line = line.removeprefix(b"data: ")
            if line.startswith(b"{") and b'"id":1' in line:
                return json.loads(line).get("result", {}).get("structuredContent", {}).get("status", line[:200].decode())
        return data[:200].decode()


def percentile(samples, part):
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * part))]


def calls(client, seconds, names=None):
    """The times of calls in a warm session, or in new ones; ends with an error if one fails."""
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        session = next(names) if names else "warm"
        begin = time.monotonic()
        status = client.call("1 + 1", session=session)
        samples.append((time.monotonic() - begin) * 1000)
        if status != "ok":
            sys.exit(f"a call of the other principal failed: {status}")
        time.sleep(0.005)
    return samples


def attack(server, name, ended, workers=8):
    code, options = server.attack(name)
    several = iter(options * 100000 if len(options) < 100 else options)
    lock = threading.Lock()

    def work():
        client = Client(server, "alice")
        while not ended.is_set():
            with lock:
                chosen = next(several)
            if client.call(code, **chosen) not in ("ok", "error"):
                time.sleep(0.02)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(options)) if name != "calls without a session" else workers)]
    for thread in threads:
        thread.start()
    return threads


def beside(build, endless, index, name, seconds):
    """(the 99th percentile alone, the one beside the attack, the number of calls, MiB that the broker holds more than before)."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(build, folder, endless, index)
        try:
            robert = Client(server, "robert")
            calls(robert, 0.5)
            if name == "branches of 200 MiB":
                Client(server, "alice").call("import os; big = os.urandom(200 << 20)", session="big")
            alone = calls(robert, seconds)
            memory, ended = broker_memory(server), threading.Event()
            attack(server, name, ended)
            time.sleep(1)
            samples = calls(robert, seconds)
            ended.set()
            time.sleep(10)
            memory = broker_memory(server) - memory
        finally:
            server.close()
    return percentile(alone, 0.99), percentile(samples, 0.99), len(samples), memory


def mix(build, endless, index, seconds, hostile):
    """The 99th percentile of robert's new sessions while alice makes sessions too, of which one in twenty attacks."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(build, folder, endless, index)
        try:
            ended = threading.Event()
            attacks = sorted(set(ATTACKS) - {"branches of 200 MiB", "calls without a session"})
            chance = random.Random(5)

            def work(number):
                client, n = Client(server, "alice"), 0
                while not ended.is_set():
                    n += 1
                    code, options = "sum(range(20000))", {"session": f"mix-{number}-{n % 8}"}
                    if hostile and chance.random() < 0.05:
                        code, options = server.attack(chance.choice(attacks))
                        options = dict(options[0], session=f"bad-{number}-{n % 4}", timeout=5)
                    client.call(code, **options)
                    time.sleep(0.02)

            for number in range(4):
                threading.Thread(target=work, args=(number,), daemon=True).start()
            samples = calls(Client(server, "robert"), seconds, (f"new-{n % 40}" if n % 40 else "new" for n in range(1 << 30)))
            ended.set()
        finally:
            server.close()
    return percentile(samples, 0.99), len(samples)


def broker_memory(server):
    """MiB that the broker holds."""
    children = [server.process.pid]
    for pid in children:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                children += map(int, f.read().split())
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            if f.read().strip() != "cloister-broker":
                continue
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024
    sys.exit("no broker")


def compare(build, index, seconds, mix_seconds, chosen):
    """Prints a row for each attack, and one of the mix. Returns (the number of rows, the names of those that are above their limits)."""
    endless, rows, failed = Endless(), 0, []
    print(f"\n{'another principal beside':26} {'calls':>6} {'alone p99':>10} {'beside p99':>11} {'broker MiB after':>17}", flush=True)
    for name in ATTACKS:
        if chosen and not any(part in name for part in chosen):
            continue
        if name == "endless pages" and os.geteuid() == 0:
            continue  # packages are never fetched by root
        alone, now, count, more = beside(build, endless, index, name, seconds)
        above = now > alone + MORE or more > MEMORY
        rows += 1
        failed += [name] if above else []
        print(f"{name:26} {count:6} {alone:10.1f} {now:11.1f} {more:+17.1f}{'  above' if above else ''}", flush=True)
    if mix_seconds and (not chosen or "mix" in chosen):
        (without, _), (with_hostile, count) = (mix(build, endless, index, mix_seconds, hostile) for hostile in (False, True))
        above = with_hostile > TIMES * without
        rows += 1
        failed += ["mix"] if above else []
        print(f"{'new sessions, of a mix':26} {count:6} {without:10.1f} {with_hostile:11.1f}{'  above' if above else ''}", flush=True)
    return rows, failed
