"""`cloister serve` over raw sockets: both protocol eras, and the clients that may send requests."""

import contextlib
import errno
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time
import unittest

import harness

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


# Two thousand connections
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


class Response:
    """One HTTP response, read from a file object."""

    def __init__(self, stream):
        line = stream.readline()
        self.status = int(line.split()[1]) if line else 0
        self.headers = {}
        while (line := stream.readline().decode()) not in ("\r\n", ""):
            name, value = line.split(":", 1)
            self.headers[name.lower()] = value.strip()
        self.stream = stream
        self.chunked = self.headers.get("transfer-encoding") == "chunked"
        self.body = b"" if self.chunked else stream.read(int(self.headers.get("content-length", 0)))
        self.rest = b""

    def json(self):
        """The message, which is the last event of a stream where the answer took long."""
        return [message for _, message in self.events() if message][-1] if self.chunked else harness.message_of(self.body)

    def chunk(self):
        """The next chunk of a stream, or b"" at its end."""
        size = self.stream.readline()
        if not size:
            return b""
        data = self.stream.read(int(size, 16))
        self.stream.readline()
        return data

    def events(self):
        """(id, message) of each event; message is None where data is empty."""
        while data := self.chunk():
            self.rest += data
            while b"\n\n" in self.rest:
                block, self.rest = self.rest.split(b"\n\n", 1)
                fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
                if "data" in fields:
                    yield fields.get("id"), harness.message_of(fields["data"]) if fields["data"].startswith("{") else fields["data"] or None


class Connection:
    def __init__(self, address, window=None):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(harness.PATIENCE)
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def response(self):
        return Response(self.file)

    def request(self, method, path, headers=(), body=None, host="localhost"):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{k}: {v}" for k, v in dict(headers).items())]
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None:
            lines.append(f"Content-Length: {len(data)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        return self

    def post(self, body, path="/mcp", **headers):
        named = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        named.update({k.replace("_", "-"): v for k, v in headers.items()})
        return self.request("POST", path, {k: v for k, v in named.items() if v is not None}, body)

    def modern(self, method, params=None, id=1, meta=(), **headers):
        params = {**(params or {}), "_meta": {**META, **dict(meta)}}
        named = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if name := params.get("name") or params.get("uri"):
            named["Mcp_Name"] = name
        if session := params.get("arguments", {}).get("session"):
            named["Mcp_Param_Session"] = session
        return self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, **{**named, **headers})

    def call(self, code, **arguments):
        return self.modern("tools/call", {"name": "run_python", "arguments": {"code": code, **arguments}})

    def size(self):
        """Returns the size of the body of a response, as far as it arrives."""
        with contextlib.suppress(ConnectionError):
            answer = self.response()
            return len(answer.body or b"".join(iter(answer.chunk, b"")))
        return 0

    def close(self):
        self.file.close()
        self.socket.close()


class Serve(harness.Case):
    ARGUMENTS = ("--listen", "127.0.0.1:0")

    def setUp(self):
        super().setUp()
        self.server = self.start(*self.ARGUMENTS)

    def start(self, *arguments, **options):
        log = harness.Log()
        process = self.spawn(log, *arguments, **options)
        self.wait_serving(process, log)
        found = re.search(r"serving MCP at (?:http://([^/]*):(\d+)/mcp|unix:(.*))\n", log.text())
        self.address = found[3] or ("127.0.0.1", int(found[2]))
        return process

    def spawn(self, log, *arguments, **options):
        process = subprocess.Popen([harness.CLOISTER, "serve", "--config", self.config(), *arguments], stdin=subprocess.DEVNULL,
                                   stderr=log, env=harness.environment(), cwd=self.dir, **options)
        self.addCleanup(self.stop, process, log)
        return process

    def wait_serving(self, process, log, sockets=1):
        """Returns when the process serves at the given number of sockets."""
        serves = lambda: re.search(r"(serving MCP at [^\n]*\n.*){%d}" % sockets, log.text(), re.DOTALL)
        harness.wait_until(lambda: serves() or process.poll() is not None, step=0.005)
        self.assertTrue(serves(), log.text())

    def stop(self, process, log):
        process.terminate()
        # It may have had no time to handle the signal. Where calls still run, the second one ends them at once.
        usual = (0, -signal.SIGTERM, -signal.SIGKILL)
        try:
            self.assertIn(process.wait(1), usual, log.text())
        except subprocess.TimeoutExpired:
            process.terminate()
            self.assertIn(process.wait(harness.PATIENCE), (*usual, 1), log.text())
        log.close()

    def connect(self, address=None, window=None):
        connection = Connection(address or self.address, window)
        self.addCleanup(connection.close)
        return connection

    def initialize(self, connection, **headers):
        answer = connection.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": LEGACY}, **headers).response()
        self.assertEqual(answer.status, 200, answer.body)
        return answer.headers["mcp-session-id"]

    @staticmethod
    def value(sent):
        """Returns the value of the last expression of a call."""
        return sent.response().json()["result"]["structuredContent"]["value"]["json"]

    def status(self, method="GET", path="/healthz", headers=(), body=None, host="localhost"):
        return self.connect().request(method, path, headers, body, host).response().status


@harness.once
class Eras(Serve):
    def test_modern(self):
        c = self.connect()
        discover = c.modern("server/discover").response()
        self.assertEqual((discover.status, discover.json()["result"]["supportedVersions"]), (200, [MODERN]))
        tools = c.modern("tools/list").response().json()["result"]["tools"]
        self.assertEqual(tools[0]["inputSchema"]["properties"]["session"]["x-mcp-header"], "Session")
        self.check_description(tools[0])
        made = c.call("x = 20").response().json()["result"]
        first = made["structuredContent"]
        self.assertRegex(first["session"], r"^s-[0-9a-f]{32}$")
        said = f'new session "{first["session"]}": pass it as `session` to use it again'
        self.assertEqual(first["notice"], said)
        self.assertIn(said, made["content"][0]["text"])
        again = c.call("x + 1", session=first["session"]).response().json()["result"]["structuredContent"]
        self.assertEqual((again["value"]["json"], "notice" in again), (21, False))
        # So does one that fails, and one that continues.
        failed = c.call("1 / 0").response().json()["result"]
        self.assertIn(f'new session "{failed["structuredContent"]["session"]}": pass it', failed["content"][0]["text"])
        waiting = c.call("import time\ntime.sleep(1)\n8", wait=0.1).response().json()["result"]
        name = waiting["structuredContent"]["session"]
        self.assertIn(f'call with session "{name}" and no code', waiting["content"][0]["text"])
        self.assertEqual(c.modern("tools/call", {"name": "run_python", "arguments": {"session": name}}).response().json()["result"]["structuredContent"]["value"]["json"], 8)
        # Nothing is said of a session that was not made.
        self.assertNotIn("new session", c.call("1", timeout=-1).response().body.decode())
        other = c.call("x").response().json()["result"]["structuredContent"]
        self.assertNotEqual(other["session"], first["session"])
        self.assertEqual(other["status"], "error")

    def check_description(self, tool):
        """The text is the same over every transport: it says how calls without a session differ."""
        said = tool["inputSchema"]["properties"]["session"]["description"]
        self.assertIn('Default: "default"; over HTTP in MCP 2026-07-28, a new session, which the result names', said)
        self.assertIn('No `session`: "default" (HTTP in MCP 2026-07-28: a new one, named in the result)', tool["description"])

    def test_modern_refusals(self):
        c = self.connect()

        def check(status, code, sent):
            answer = sent.response()
            self.assertEqual((answer.status, answer.json()["error"]["code"], answer.json()["id"]), (status, code, 1), answer.body)

        check(400, -32020, c.modern("tools/list", MCP_Protocol_Version="2025-11-25"))
        check(400, -32020, c.modern("tools/list", MCP_Protocol_Version=None))
        check(400, -32020, c.modern("tools/list", Mcp_Method="tools/call"))
        check(400, -32020, c.modern("tools/list", Mcp_Method=None))
        call = {"name": "run_python", "arguments": {"code": "1", "session": "a"}}
        check(400, -32020, c.modern("tools/call", call, Mcp_Name="other"))
        check(400, -32020, c.modern("tools/call", call, Mcp_Param_Session="b"))
        check(400, -32020, c.modern("tools/call", call, Mcp_Param_Session=None))
        check(400, -32020, c.modern("tools/call", call, Mcp_Param_Session="=?base64?!!!?="))
        unknown = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        check(400, -32022, c.modern("tools/list", meta=unknown, MCP_Protocol_Version="2099-01-01"))
        check(400, -32602, c.modern("tools/list", meta={"io.modelcontextprotocol/clientCapabilities": 1}))
        check(404, -32601, c.modern("no/such"))
        check(404, -32601, c.modern("ping"))
        self.assertEqual(c.modern("tools/call", call, Mcp_Param_Session="=?base64?YQ==?=").response().status, 200)
        for method in ("GET", "DELETE"):
            self.assertEqual(self.status(method, "/mcp", {"MCP-Protocol-Version": MODERN}), 405)

    def test_progress_and_disconnect(self):
        c = self.connect()
        params = {"name": "run_python", "arguments": {"code": "import time\nprint('one')\ntime.sleep(1.3)\nprint('two')\n7", "session": "p"}}
        answer = c.modern("tools/call", params, meta={"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}).response()
        self.assertEqual(answer.headers["content-type"], "text/event-stream")
        messages = [message for _, message in answer.events()]
        self.assertEqual(messages[-1]["result"]["structuredContent"]["value"]["json"], 7)
        self.assertIn("notifications/message", {m.get("method") for m in messages[:-1]})
        # The connection stays usable.
        self.assertEqual(c.call("1", session="p").response().status, 200)
        # Closing it cancels.
        gone = self.connect().call("done = 1\nimport time\ntime.sleep(50)\ndone = 2", session="p")
        time.sleep(0.3)
        gone.close()
        began = time.monotonic()
        after = c.call("done", session="p").response().json()["result"]["structuredContent"]
        self.assertEqual(after["value"]["json"], 1)
        self.assertLess(time.monotonic() - began, 10 * harness.SLOW)

    def test_listen(self):
        c = self.connect()
        answer = c.modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}).response()
        events = answer.events()
        self.assertEqual(next(events)[1]["method"], "notifications/subscriptions/acknowledged")
        self.connect().call("print('x' * 100000)").response()
        self.assertEqual(next(events)[1]["method"], "notifications/resources/list_changed")

    def test_legacy(self):
        c = self.connect()
        session = self.initialize(c)
        self.assertRegex(session, r"^[0-9a-f]{32}$")
        h = {"Mcp_Session_Id": session, "MCP_Protocol_Version": "2025-11-25"}
        ready = c.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **h).response()
        self.assertEqual((ready.status, ready.body), (202, b""))

        def call(connection, code, id=1, **meta):
            return connection.post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "run_python", "arguments": {"code": code}, "_meta": meta}}, **h)

        listed = c.post({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **h).response().json()["result"]["tools"]
        self.check_description(listed[0])
        made = call(c, "x = 5\nx").response().json()["result"]["structuredContent"]
        self.assertEqual((made["session"], "notice" in made), ("default", False))
        # Several at once, and each has its own answers.
        others = [self.connect() for _ in range(3)]
        for i, other in enumerate(others):
            call(other, f"{i}", id=70 + i, progressToken=i)
        self.assertEqual([o.response().json()["result"]["structuredContent"]["value"]["json"] for o in others], [0, 1, 2])
        # The end of a connection does not cancel the call, and the answer can be fetched later.
        gone = self.connect()
        answer = call(gone, "import time\nprint('a')\ntime.sleep(1.5)\nx + 1", id=9, progressToken=1).response()
        number = next(answer.events())[0]
        self.assertTrue(number)
        gone.close()
        time.sleep(0.2)
        resumed = self.connect().request("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": session,
                                                          "Last-Event-ID": number}).response()
        self.assertEqual([m for _, m in resumed.events() if m][-1]["result"]["structuredContent"]["value"]["json"], 6)
        # Notifications of the session have a stream.
        stream = self.connect().request("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": session}).response()
        events = stream.events()
        self.assertEqual(next(events)[1], None)
        self.assertEqual(self.status("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": session}), 409)
        c.post({"jsonrpc": "2.0", "id": 3, "method": "resources/list"}, **h).response()
        call(c, "print('y' * 100000)").response()
        self.assertEqual(next(events)[1]["method"], "notifications/resources/list_changed")
        # Its end
        self.assertEqual(self.status("DELETE", "/mcp", {"Mcp-Session-Id": session}), 204)
        self.assertEqual(list(events), [])
        self.assertEqual(call(c, "1").response().status, 404)
        self.assertEqual(c.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).response().status, 400)

    def test_legacy_sse(self):
        stream = self.connect().request("GET", "/sse", {"Accept": "text/event-stream"}).response()
        events = stream.events()
        path = next(events)[1]
        c = self.connect()
        self.assertEqual(c.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": LEGACY}, path=path).response().status, 202)
        self.assertIn("serverInfo", next(events)[1]["result"])
        stream.stream.close()


class Access(Serve):
    def test_hosts_and_origins(self):
        for host in ("localhost", "127.0.0.1:80", "[::1]:8808", "LOCALHOST:1"):
            self.assertEqual(self.status(host=host), 200, host)
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil", "localhost:80:80", "localhost:x", "", "[::1", "0.0.0.0"):
            self.assertIn(self.status(host=host), (400, 403), host)
        for origin, expected in (("http://localhost:3000", 200), ("http://evil.example", 403), ("null", 403), ("http://localhost.evil", 403),
                                 ("file://", 403), ("http://localhost@evil", 403)):
            self.assertEqual(self.status(headers={"Origin": origin}), expected, origin)
        self.assertEqual(self.status("OPTIONS", "/mcp"), 405)
        self.assertEqual(self.status("POST", "/mcp", {"Content-Type": "text/plain"}, {}), 415)
        self.assertEqual(self.status("POST", "/mcp", {"Content-Type": "application/json", "Accept": "text/html"}, {}), 406)
        self.assertEqual(self.status("GET", "/other"), 404)

    def test_other_addresses_need_tokens(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            r = self.run_cloister("serve", "--listen", address)
            self.assertEqual(r.returncode, 1)
            self.assertIn(b"--tokens FILE is needed", r.stderr)

    @staticmethod
    def is_refused(path):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(path) == errno.ECONNREFUSED

    def test_unix_socket(self):
        path = self.path("mcp.sock")
        server = self.start("--listen", f"unix:{path}")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.connect(path).call("1 + 1").response().json()["result"]["structuredContent"]["value"]["json"], 2)
        self.assertIn(b"bind", self.run_cloister("serve", "--listen", f"unix:{path}").stderr)
        server.kill()
        server.wait()
        # A socket that a killed server has left is replaced, once its broker has ended as well.
        self.assertTrue(harness.wait_until(lambda: self.is_refused(path)))
        self.start("--listen", f"unix:{path}")
        self.assertEqual(self.connect(path).request("GET", "/healthz").response().status, 200)


class Signals(Serve):
    def setUp(self):
        harness.Case.setUp(self)

    @staticmethod
    def has(pid, field):
        """Returns whether SIGTERM is in one of these sets of /proc/PID/status, all read at the same time."""
        sets = re.findall(rf"(?:{field}):\t(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        return any(int(of, 16) >> signal.SIGTERM - 1 & 1 for of in sets)

    @staticmethod
    def broker_of(pid):
        """Waits for the broker, and returns its pid: it is the first child with its own pid namespace."""
        end = time.monotonic() + harness.PATIENCE
        while time.monotonic() < end:
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                with contextlib.suppress(OSError):
                    if len(re.search(r"NSpid:(.*)", pathlib.Path(f"/proc/{child}/status").read_text())[1].split()) == 2:
                        return int(child)
        raise AssertionError("no broker")

    def test_before_the_broker_has_handlers(self):
        for turn in range(20):
            with self.subTest(turn):
                process = self.spawn(harness.Log(), *self.ARGUMENTS)
                broker = self.broker_of(process.pid)
                while not self.has(broker, "SigCgt"):
                    # The first process of a pid namespace would ignore it.
                    self.assertTrue(self.has(broker, "SigBlk|SigCgt"))
                self.assertTrue(harness.wait_until(lambda: self.has(process.pid, "SigCgt"), step=0.001))
                process.terminate()
                self.assertEqual(process.wait(harness.PATIENCE), 0)


class Tokens(Serve):
    ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = harness.make_private(self.write("tokens", f"# ours\nalice {self.ALICE}\nbob {self.BOB} calls=1 sessions=1\n"))
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens)

    def call(self, token, code, c=None, **arguments):
        return (c or self.connect()).modern("tools/call", {"name": "run_python", "arguments": {"code": code, **arguments}},
                                            Authorization=f"Bearer {token}")

    def result(self, *args, **rest):
        return self.call(*args, **rest).response().json()["result"]["structuredContent"]

    def test_principals(self):
        for header in (None, "Bearer wrong-wrong-wrong-wrong", "Bearer ", "Basic YTpi", f"Bearer {self.ALICE}x", f"Bearer {self.ALICE[:-1]}"):
            answer = self.connect().modern("tools/list", Authorization=header).response()
            self.assertEqual(answer.status, 401, header)
            self.assertIn("resource_metadata=", answer.headers["www-authenticate"])
        self.assertEqual(self.status(), 200)
        metadata = self.connect().request("GET", "/.well-known/oauth-protected-resource").response().json()
        self.assertTrue(metadata["resource"].endswith("/mcp"))
        # Two principals that use the same name have different sessions. A principal cannot read another principal's output.
        alice = self.result(self.ALICE, "secret = 1\nprint('z' * 50000)", session="work")
        self.assertEqual(alice["status"], "ok")
        self.assertEqual(self.result(self.BOB, "secret", session="work")["status"], "error")
        # A principal cannot branch another principal's session.
        self.result(self.ALICE, "secret = 2", session="hers")
        self.assertIn('no live session is called \\"hers\\"', json.dumps(self.result(self.BOB, "secret", session="work", **{"from": "hers"})))
        self.assertEqual(self.result(self.ALICE, "secret", session="branch", **{"from": "hers"})["value"]["json"], 2)
        uri = alice["truncated"]["resource"]
        read = lambda token: self.connect().modern("resources/read", {"uri": uri}, Authorization=f"Bearer {token}").response().json()
        self.assertIn("result", read(self.ALICE))
        self.assertIn("error", read(self.BOB))
        listed = self.connect().modern("resources/list", Authorization=f"Bearer {self.BOB}").response().json()
        self.assertEqual(listed["result"]["resources"], [])
        # A principal cannot use another principal's HTTP session.
        c = self.connect()
        session = self.initialize(c, Authorization=f"Bearer {self.ALICE}")
        answer = c.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id=session, Authorization=f"Bearer {self.BOB}").response()
        self.assertEqual(answer.status, 404)

    def test_quota(self):
        slow = self.connect()
        self.result(self.BOB, "1", session="one")
        self.call(self.BOB, "import time\ntime.sleep(1)", c=slow, session="one")
        time.sleep(0.3)
        refused = lambda text, *args, **rest: text in self.call(self.BOB, "1", *args, **rest).response().json()["error"]["message"]
        self.assertTrue(refused("too many calls", session="one"))
        self.assertEqual(self.result(self.ALICE, "1")["status"], "ok")
        slow.response()
        self.assertTrue(refused("quota", session="two"))
        self.assertTrue(refused("quota", session="two", **{"from": "one"}))
        self.assertEqual(self.result(self.BOB, "1", session="one")["status"], "ok")

    def test_branches_that_do_not_end(self):
        """Code stops the checkpoint that they are made of: they take 30 s. Others wait 5 s for their places. Another principal's branches are
        made meanwhile."""
        carol = "carol-carol-carol-carol"
        tokens = harness.make_private(self.write("three", f"alice {self.ALICE}\ncarol {carol}\n"))
        self.start("--listen", "127.0.0.1:0", "--tokens", tokens)
        self.assertTrue(self.result(self.ALICE, "import os, signal\nx = 1", session="a", checkpoint="c")["checkpoint"])
        self.result(self.ALICE, "for p in os.listdir('/proc'):\n    if p.isdigit() and int(p) not in (1, os.getpid()): os.kill(int(p), signal.SIGSTOP)", session="a")
        held = []
        for i in range(8):
            held.append(self.call(self.ALICE, "x", session=f"b{i}", **{"from": "a@c"}))
            time.sleep(0.1)  # they are taken in this order
        self.result(carol, "x = 2", session="a")
        cell = self.result(carol, "x", session="b", **{"from": "a"})
        self.assertEqual(cell["status"], "ok", cell)
        self.assertEqual(cell["value"]["json"], 2)
        refused = [c.response().json()["result"]["structuredContent"] for c in held[4:]]
        self.assertEqual({cell["status"] for cell in refused}, {"error"}, refused)
        self.assertIn("4 of your branches are being made", json.dumps(refused[0]))
        self.assertEqual(self.result(self.ALICE, "x", session="a")["value"]["json"], 1)

    def test_the_file(self):
        for text, mode, part in (("a b\n", 0o600, "line 1: a token has"), (f"alice {self.ALICE}\n", 0o644, "others can read it"),
                                 (f"a {self.ALICE}\na {self.BOB}\n", 0o600, "line 2"), ("# none\n", 0o600, "no token"),
                                 (f"a {self.ALICE} x=1\n", 0o600, "profile=NAME")):
            path = self.write("bad", text)
            os.chmod(path, mode)
            r = self.run_cloister("serve", "--listen", "127.0.0.1:0", "--tokens", path)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(part.encode(), r.stderr)
            self.assertNotIn(self.ALICE.encode(), r.stderr)


@unittest.skipIf(harness.ROOT, "a user namespace of root alone starts no server")
class Helper(harness.Case):
    def test_no_inotify_instance_is_left(self):
        """In a user namespace of its own with its own limit. The control is a limit of one, which the helper takes."""
        tokens = harness.make_private(self.write("tokens", f"alice {'a' * 40}\n"))
        serve = [harness.CLOISTER, "serve", "--listen", "127.0.0.1:0", "--tokens", tokens]
        for limit, starts in ((0, False), (1, True)):
            script = 'echo "$0" > /proc/sys/user/max_inotify_instances && exec "$@"'
            process = subprocess.Popen(["unshare", "--user", "--map-root-user", "sh", "-c", script, str(limit), *serve], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=harness.environment(), text=True)
            with process:
                said = []
                for line in process.stdout:
                    said.append(line)
                    # The monitor comes after the helper.
                    if starts and "a changed config takes effect" in line:
                        process.terminate()
            lines = [line for line in said if "the helper" in line]
            self.assertEqual(len(lines), 0 if starts else 1, said)
            if not starts:
                self.assertEqual(process.returncode, 1)
                self.assertRegex(lines[0], "no inotify instance is left for this user: .*fs.inotify.max_user_instances")


if __name__ == "__main__":
    harness.main()
