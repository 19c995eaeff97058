"""Principals of `cloister serve` share what is bounded in all (docs/threat-model.md, "Pools"): one takes all that it can, and the
small request of another one is served in the usual time. Each test has a control: a single principal gets everything."""

import contextlib
import http.server
import json
import os
import re
import select
import shutil
import signal
import socket
import threading
import time
import unittest
import urllib.parse
from unittest import mock

import harness
import test_ask
import test_ask_page
import test_inject
import test_network
import test_templates
from test_serve import Serve

GREEDY, BOB = "greedy-greedy-greedy-1", "bob-bob-bob-bob-bob-2"
USUAL = 2 * harness.SANITIZED * harness.SLOW  # s, above the time of the same request without load


def value(answer):
    return answer.json()["result"]["structuredContent"]


def status_of(answer):
    """A call that gets no place is refused before it begins."""
    return value(answer)["status"] if answer.status == 200 else {503: "error"}[answer.status]


class Shares(Serve):
    CONFIG = {"sessions": 12, "pool": 0}
    BOTH = f"greedy {GREEDY} calls=2000\nbob {BOB}\n"

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.serve(self.BOTH)

    def serve(self, text, *options, **config):
        """A server with these tokens."""
        self.put(text)
        path = self.path("shares.json")
        # An earlier server may be reading the file.
        os.rename(self.config(name="new.json", **{**self.CONFIG, **config}), path)
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--config", path, *options)

    def put(self, text):
        with open(self.tokens + ".new", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        os.rename(harness.make_private(self.tokens + ".new"), self.tokens)

    def call(self, token, code, **arguments):
        """A call whose answer is not read yet; code may be None."""
        if code is not None:
            arguments["code"] = code
        return self.connect().modern("tools/call", {"name": "run_python", "arguments": arguments}, Authorization=f"Bearer {token}")

    def status(self, token, code, **arguments):
        return status_of(self.call(token, code, **arguments).response())

    def in_time(self, ask):
        """Returns what ask() returns, which the other principal must not delay."""
        began = time.monotonic()
        answer = ask()
        self.assertLess(time.monotonic() - began, USUAL, answer)
        return answer


class Places(Shares):
    def test_calls_without_a_session(self):
        statuses = [self.status(GREEDY, "1") for _ in range(20)]
        self.assertEqual((statuses.count("ok"), statuses.count("error")), (8, 12))
        answer = self.call(GREEDY, "1").response().json()
        self.assertIn("12 sessions are live, or places of other clients", answer["error"]["message"])
        for name in ("first", "second", "third", "fourth"):
            self.assertEqual(self.in_time(lambda name=name: self.status(BOB, "1", session=name)), "ok")
        self.assertEqual(self.status(BOB, "1", session="fifth"), "error")

    def test_all_at_once(self):
        """Named sessions, of which each runs."""
        calls = [self.call(GREEDY, "import time\ntime.sleep(8)", session=f"s{i}") for i in range(20)]
        self.assertEqual(self.in_time(lambda: self.status(BOB, "1")), "ok")
        self.assertEqual(sorted(status_of(c.response()) for c in calls), 12 * ["error"] + 8 * ["ok"])

    def test_control_one_principal(self):
        self.serve(f"greedy {GREEDY}\n")
        self.assertEqual([self.status(GREEDY, "1") for _ in range(13)], 12 * ["ok"] + ["error"])

    def test_a_new_principal(self):
        """It has a right to places as soon as it has a token: the next free ones are its own."""
        self.serve(f"greedy {GREEDY}\n")
        # `cloister sessions` finds servers of other tests as well.
        self.assertEqual([self.status(GREEDY, "1", session=f"new-{i}") for i in range(12)], 12 * ["ok"])
        self.put(self.BOTH)
        self.assertTrue(harness.wait_until(lambda: self.connect().modern("tools/list", Authorization=f"Bearer {BOB}").response().status == 200))
        self.assertEqual(self.status(BOB, "1"), "error")
        self.assertEqual(self.run_cloister("sessions", "end", "greedy:new-0").returncode, 0)
        self.assertEqual(self.status(GREEDY, "1", session="new-0"), "error")
        self.assertEqual(self.status(BOB, "1"), "ok")

    def test_a_session_that_no_call_has_named(self):
        names = [value(self.call(GREEDY, f"x = {i}").response())["session"] for i in range(8)]
        self.assertEqual(self.status(GREEDY, "x", session=names[0]), "ok")
        time.sleep(61)
        # Its oldest one that no call has named gives way, and its notice has the reason.
        self.assertEqual(self.status(GREEDY, "1"), "ok")
        self.assertEqual(value(self.call(GREEDY, "x", session=names[0]).response())["value"]["json"], 0)
        answer = value(self.call(GREEDY, "'x' in globals()", session=names[1]).response())
        self.assertEqual((answer["state"], answer["value"]["json"]), ("new", False), answer)
        self.assertIn("variables and files were lost: no call had named it, it had been idle for ", json.dumps(answer))


class Turns(Shares):
    """The order of sandboxes, of which the template makes one at a time."""
    CONFIG = {"sessions": 40, "pool": 0}
    AT_ONCE = 16  # requests of one principal that the monitor has

    def serve(self, text, *options, **config):
        self.log = self.path("turns.log")
        super().serve(text, "--log-level", "debug", "--log-file", self.log, *options, **config)

    def requests(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read().count(": SESSION_CREATE ")

    def begin(self, token, session):
        """A call in a new session, whose answer says when it began. Returns when the monitor has the request for its sandbox."""
        before = self.requests()
        call = self.call(token, "import time\ntime.monotonic()", session=session)
        self.assertTrue(harness.wait_until(lambda: self.requests() > before, step=0.005))
        return call

    def test_order(self):
        """bob's one request overtakes those of greedy except the two that the template has; greedy's own last one overtakes none."""
        self.assertEqual(self.status(BOB, "1", session="first"), "ok")
        (template,) = test_templates.Templates.templates(mock.Mock(process=self.server))
        os.kill(template, signal.SIGSTOP)  # for less than the 10 s that it has for a sandbox
        try:
            greedy = [self.begin(GREEDY, f"s{i}") for i in range(self.AT_ONCE)]
            bob = self.begin(BOB, "second")
        finally:
            os.kill(template, signal.SIGCONT)
        began = [value(call.response())["value"]["json"] for call in greedy]
        bobs = value(bob.response())["value"]["json"]
        earlier = lambda time: sum(other < time for other in began)
        self.assertLessEqual(earlier(bobs), 4)
        self.assertGreaterEqual(earlier(began[-1]), self.AT_ONCE - 4)


PROXY = """
import socket
def ask(host):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(f"GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    return s
"""


class Near(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"near")

    def log_message(self, *args):
        pass


@unittest.skipUnless(harness.ROOT, "needs a mount namespace and port 53")
class Network(Shares):
    """The proxy's threads that look names up, behind a name server that never answers."""

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(silent.close)
        silent.bind(("127.53.0.1", 53))
        near = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Near)
        self.addCleanup(near.server_close)
        self.addCleanup(near.shutdown)
        threading.Thread(target=near.serve_forever, daemon=True).start()
        self.near = f"near.test:{near.server_address[1]}"
        files = {"/etc/resolv.conf": "nameserver 127.53.0.1\noptions timeout:10 attempts:1\n", "/etc/hosts": "127.0.0.1 localhost near.test\n",
                 "/etc/nsswitch.conf": "hosts: files dns\n"}
        lines = [f"mount --bind {self.write(os.path.basename(at), text)} {at}" for at, text in files.items() if os.path.exists(at)]
        script = self.write("cloister", "\n".join(["#!/bin/sh -e", *lines, f'exec {harness.CLOISTER} "$@"']))
        os.chmod(script, 0o755)
        wrapper = self.write("wrapper", f'#!/bin/sh\nexec unshare -m {script} "$@"\n')
        os.chmod(wrapper, 0o755)
        allow = ["*.hang.example", self.near, f"127.0.0.1:{near.server_address[1]}"]
        with mock.patch.object(harness, "CLOISTER", wrapper):
            self.serve(self.BOTH, profiles={"net": {"network": {"allow": allow}}}, profile="net")

    def fetch(self, token, session):
        """The proxy's answer, and how long it took."""
        code = PROXY + f"import time\nt = time.monotonic()\ns = ask({self.near!r})\ns.settimeout(8)\ntext = b''\n" \
            "try:\n    while data := s.recv(4096): text += data\nexcept TimeoutError: pass\n[text.decode()[-4:], time.monotonic() - t]"
        return value(self.call(token, code, session=session).response())["value"]["json"]

    def test_names_that_are_never_answered(self):
        self.assertEqual(self.fetch(BOB, "before")[0], "near")
        for i in range(6):
            code = PROXY + f"held = [ask(f'n{{k}}.s{i}.hang.example') for k in range(40)]"
            self.assertEqual(self.status(GREEDY, code, session=f"s{i}"), "ok")
        time.sleep(0.5)
        text, seconds = self.fetch(BOB, "after")
        self.assertEqual(text, "near")
        self.assertLess(seconds, USUAL)
        # The control: the greedy principal's own name waits.
        self.assertGreater(self.fetch(GREEDY, "own")[1], min(USUAL, 7))  # it gives up after 8 s


TUNNEL = PROXY + test_network.Steps.GUEST + """
def tunnel(port):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n".encode())
    return s
def take_once(port, n):
    s = tunnel(port)
    read(s, len("HTTP/1.1 200 Connection established\\r\\n\\r\\n"))
    take(s, n)
    return s
"""


class Proxy(Shares):
    """The connections of the proxy, and the room in the kernel's buffers of its sockets."""
    CONFIG = {"sessions": 40, "pool": 0}

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.fars = [test_network.Steps(self) for _ in range(2)]

    def serve(self, text, **config):
        allow = [f"127.0.0.1:{far.port}" for far in self.fars]
        super().serve(text, profiles={"net": {"network": {"allow": allow}}}, profile="net", **config)

    def test_connections(self):
        """greedy has half of them, and bob's is made at once."""
        script = self.write("cloister", f'#!/bin/sh\nulimit -n 1024\nexec {harness.CLOISTER} "$@"\n')
        os.chmod(script, 0o755)
        with mock.patch.object(harness, "CLOISTER", script):
            self.serve(self.BOTH, sessions=16)
        far, near = self.fars
        for i in range(8):
            self.assertEqual(self.status(GREEDY, TUNNEL + f"held = [tunnel({far.port}) for _ in range(50)]", session=f"s{i}"), "ok")
        self.assertTrue(harness.wait_until(lambda: far.n == 1024 // 4 // 2), far.n)
        small = TUNNEL + f"take_once({near.port}, 10)\n1"
        self.assertEqual(self.status(BOB, "1", session="work"), "ok")
        self.assertEqual(self.in_time(lambda: self.status(BOB, small, session="work")), "ok")
        # The control: the greedy principal's own connection waits.
        self.assertEqual(self.status(GREEDY, small, session="own", wait=USUAL), "running")
        self.assertEqual((far.n, near.n), (128, 1))

    def fill(self):
        """Bytes that greedy's sessions have, each with one connection whose bytes it does not read."""
        for i in range(20):
            self.assertEqual(self.status(GREEDY, TUNNEL + f"s = take_once({self.fars[0].port}, 1 << 20)\ns.sendall((32 << 20).to_bytes(8, 'big'))", session=f"s{i}"), "ok")
        return sum(most for most, _ in self.fars[0].sockets())

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_room(self):
        """greedy has at most half of the 64 MiB, and bob's connection has as much as any."""
        self.serve(self.BOTH)
        self.assertLess(self.fill(), 40 << 20)
        self.assertEqual(self.in_time(lambda: self.status(BOB, TUNNEL + f"s = take_once({self.fars[1].port}, 1 << 20)", session="work")), "ok")
        self.assertGreater(self.fars[1].sockets()[0][0], 3 << 20)

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_control_room_of_one_principal(self):
        self.serve(f"greedy {GREEDY}\n")
        self.assertGreater(self.fill(), 24 << 20)


class Secrets(Shares):
    """The process of a profile that puts secrets into requests: its connections, and the bodies that it reads before a request is sent."""
    CONFIG = {"sessions": 40, "pool": 0}
    CURVE, openssl, authority, certificates, secrets = (getattr(test_inject.Case, name) for name in ("CURVE", "openssl", "authority", "certificates", "secrets"))
    false = ()
    FETCH = test_inject.GUEST + "fetch('https://localhost:{port}/echo', {data})[0]"
    HOLD = test_inject.GUEST + """
held = []
for _ in range({n}):
    try:
        held.append(tunnel({port}))
        held[-1].sendall(b"POST /echo HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nContent-Length: 1048576\\r\\n\\r\\n" + b"a" * {body})
    except OSError:
        pass
time.sleep({seconds})
sum(t.gettimeout() is not None for t in held)
"""

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        os.chmod(self.dir, 0o755)
        self.authority("ca")
        self.host = self.second = test_inject.Host(self.certificates())
        self.addCleanup(self.host.close)
        self.serve(self.BOTH, profiles={"net": {"network": {"allow": [f"{name}:{self.host.port}" for name in ("localhost", "127.0.0.1")]}, "secrets": self.secrets()}}, profile="net")

    def spawn(self, log, *arguments, **options):
        values = dict(zip(("T_TOKEN", "T_KEY", "T_FORM", "T_OTHER"), test_inject.VALUES), SSL_CERT_FILE=self.path("ca.pem"))
        make = harness.environment
        with mock.patch.object(harness, "environment", lambda **more: make(**values, **more)):
            return super().spawn(log, *arguments, **options)

    def run_in(self, token, session, code, **values):
        answer = value(self.call(token, self.fill_in(code, values), session=session).response())
        self.assertEqual(answer["status"], "ok", answer)
        return answer["value"]["json"]

    def fill_in(self, code, values):
        for name, text in {"port": self.host.port, **values}.items():
            code = code.replace("{%s}" % name, str(text))
        return code

    def test_connections(self):
        """greedy's sessions have at most half of the 128 connections, and bob's is made at once."""
        held = [self.run_in(GREEDY, f"s{i}", self.HOLD, n=32, body=0, seconds=0) for i in range(5)]
        self.assertEqual(held[0], 32)  # the control
        self.assertEqual(self.in_time(lambda: self.run_in(BOB, "work", self.FETCH, data="None")), 200)
        self.assertEqual(self.run_in(GREEDY, "own", self.FETCH, data="None"), 0)

    def test_bodies(self):
        """greedy's requests wait with half of the bytes that all bodies may have, and bob's request passes."""
        for i in range(5):
            self.run_in(GREEDY, f"s{i}", self.HOLD, n=1, body=1048575, seconds=0.5)
        self.assertEqual(self.in_time(lambda: self.run_in(BOB, "work", self.FETCH, data="b'x' * 300000")), 200)
        # The control: the greedy principal's own request is refused.
        self.assertEqual(self.run_in(GREEDY, "own", self.FETCH, data="b'x' * 300000"), 503)


class Reads(Shares):
    """Large answers that the broker makes at once."""

    def ask_for_all(self):
        """500 requests for a MiB of a kept output, whose answers the client does not read."""
        self.assertEqual(self.status(GREEDY, "print('x' * 2_000_000)", session="kept"), "ok")
        uri = "cloister://sessions/kept/cells/1/stdout"
        self.assertEqual(self.ask(uri).response().status, 200)
        return [self.ask(uri) for _ in range(500)]

    def ask(self, uri):
        return self.connect(window=4096).modern("resources/read", {"uri": uri}, Authorization=f"Bearer {GREEDY}")

    def test_many_at_once(self):
        self.assertEqual(self.status(BOB, "1", session="work"), "ok")
        self.ask_for_all()
        began = time.monotonic()
        self.assertEqual(self.status(BOB, "1", session="work"), "ok")
        bob = time.monotonic() - began
        self.assertLess(bob, USUAL)
        # The control: a request of the same principal comes after them.
        began = time.monotonic()
        self.assertEqual(self.status(GREEDY, "1", session="kept"), "ok")
        self.assertGreater(time.monotonic() - began, bob)


class Pages(Shares):
    """Large pages of questions."""

    def serve(self, text, *options, **config):
        mail = {"mail": {"command": harness.PYTHON, "args": [test_ask.MAIL]}}
        super().serve(text, *options, "--allow-host", "c.example", mcpServers=mail, rules=[{"ask": "mail.send"}], ask={"page": test_ask_page.BASE, "wait": 1}, **config)

    def show(self, page, key):
        body = urllib.parse.urlencode(key).encode()
        headers = {"Origin": test_ask_page.BASE, "Content-Type": "application/x-www-form-urlencoded"}
        return self.connect(window=4096).request("POST", page, headers, body, "c.example")

    def test_many_at_once(self):
        """A principal has its own question shown very often, and does not read. Each page has 1.3 MB."""
        self.assertEqual(self.status(BOB, "1", session="work"), "ok")
        waiting = json.dumps(value(self.call(GREEDY, 'await mcp_mail.send(to="a", text="\'" * 260000)', session="asks").response()))
        page = re.search(test_ask_page.BASE + "(/ask/[0-9a-f]{32})", waiting)[1]
        answer = self.show(page, {"token": GREEDY}).response()
        self.assertGreater(len(answer.body), 1_000_000)
        for key in {"token": GREEDY}, {"key": test_ask_page.Pages.hidden(answer)["key"]}:
            held = [self.show(page, key) for _ in range(500)]
            own = self.call(GREEDY, "1", session="other")
            began = time.monotonic()
            self.assertEqual(self.status(BOB, "1", session="work"), "ok")
            self.assertLess(time.monotonic() - began, USUAL)
            # bob can send and get more than HTTP_HELD_SMALL.
            self.assertEqual(self.status(BOB, "#" + "x" * 300_000 + "\nprint('y' * 9_000)", session="work"), "ok")
            # The control: a request of the same principal waits behind the pages.
            self.assertEqual(select.select([own.socket], [], [], 0)[0], [])
            for connection in held:
                connection.close()
            self.assertEqual(status_of(own.response()), "ok")


class Upstream(http.server.BaseHTTPRequestHandler):
    """An MCP server over HTTP whose tool `hold` answers when the test releases it."""
    protocol_version = "HTTP/1.1"
    release = threading.Event()
    lock, n_held = threading.Lock(), 0

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = {}
        if message["method"] == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}}
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("hold", "quick")]}
        elif message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
            if message["params"]["name"] == "hold":
                with self.lock:
                    Upstream.n_held += 1
                self.release.wait(60)
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode() if "id" in message else b""
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, *args):
        pass


class Tools(Shares):
    """Calls of tools: the requests that a server is sent at once, and the calls that wait."""
    HOLD = "import asyncio\nheld = [asyncio.ensure_future(mcp_far.hold()) for _ in range({n})]\nawait asyncio.sleep(0.5)\n"

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        Upstream.release.clear()
        Upstream.n_held = 0
        far = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        self.addCleanup(far.server_close)
        self.addCleanup(far.shutdown)
        self.addCleanup(Upstream.release.set)
        threading.Thread(target=far.serve_forever, daemon=True).start()
        self.servers = {"far": {"type": "http", "url": f"http://127.0.0.1:{far.server_address[1]}/mcp"}}

    def test_requests_that_a_server_holds(self):
        """One principal has at most half of the requests that one server is sent, and the other one's is sent at once."""
        self.serve(self.BOTH, mcpServers=self.servers)
        self.assertEqual(self.status(BOB, "await mcp_far.quick()", session="work"), "ok")
        for i in range(6):
            self.assertEqual(self.status(GREEDY, self.HOLD.format(n=60), session=f"s{i}"), "ok")
        self.assertTrue(harness.wait_until(lambda: Upstream.n_held == 32), Upstream.n_held)
        self.assertEqual(self.in_time(lambda: self.status(BOB, "await mcp_far.quick()", session="work")), "ok")
        # The control: the greedy principal's own call waits, and continues when there is room.
        waits = value(self.call(GREEDY, "await mcp_far.quick()", session="own", wait=USUAL).response())
        self.assertEqual(waits["status"], "running", waits)
        Upstream.release.set()
        self.assertEqual(value(self.call(GREEDY, None, session="own", wait=20).response())["status"], "ok")

    def test_control_one_principal(self):
        self.serve(f"greedy {GREEDY}\n", mcpServers=self.servers)
        self.assertEqual(self.status(GREEDY, self.HOLD.format(n=100), session="s"), "ok")
        self.assertTrue(harness.wait_until(lambda: Upstream.n_held == 32), Upstream.n_held)

    def test_calls_that_wait(self):
        """The arguments of calls in progress: bob's small call is sent while greedy's large ones are refused."""
        self.serve(self.BOTH, mcpServers=self.servers)
        large = "import asyncio\nheld = [asyncio.ensure_future(mcp_far.hold(x='y' * (1 << 20))) for _ in range(12)]\nawait asyncio.sleep(1)\n" \
            "sum(f.done() for f in held)"
        refused = [value(self.call(GREEDY, large, session=f"s{i}").response())["value"]["json"] for i in range(6)]
        self.assertGreater(sum(refused), 20, refused)
        self.assertEqual(self.in_time(lambda: self.status(BOB, "await mcp_far.quick(x='y' * 100000)", session="work")), "ok")


if __name__ == "__main__":
    harness.main()
