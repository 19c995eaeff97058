"""MCP servers over HTTP that behave well or badly, for the tests of the client: one process, one port, one path per server.

Each path is a method of Handler ("/cut" is do_cut). `calls` counts the runs of tools by path, `seen` has the headers of
each request.
"""

import collections
import http.server
import json
import threading

TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"value": {}}}},
    {
        "name": "sql",
        "inputSchema": {
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "deep": {"type": "object", "properties": {"n/m": {"type": "integer", "x-mcp-header": "Deep"}}},
                "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            },
        },
    },
    {"name": "wrong", "inputSchema": {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
]


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.calls = collections.Counter()
        self.begun = collections.Counter()  # sessions
        self.seen = collections.defaultdict(list)
        self.waiting = {}
        self.token = "first"
        self.legacy = {}  # streams of HTTP+SSE
        self.ended = threading.Event()


def answer(message, result):
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def text(value):
    return {"content": [{"type": "text", "text": value}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args):
        pass

    # ---- common to all servers ----

    def dispatch(self):
        self.state = self.server.state
        self.name = self.path.split("?")[0].strip("/").split("/")[0]
        length = int(self.headers.get("content-length") or 0)
        self.message = json.loads(self.rfile.read(length)) if length else {}
        with self.state.lock:
            self.state.seen[self.name].append((self.command, self.message.get("method"), dict(self.headers)))
        getattr(self, "do_" + self.name.replace("-", "_"))()

    do_GET = do_POST = do_DELETE = dispatch

    def reply(self, status, body=None, content_type="application/json", **headers):
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, data="", **fields):
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if data is not None:
            lines.append("data: " + (data if isinstance(data, str) else json.dumps(data)))
        self.wfile.write(("\n".join(lines) + "\n\n").encode())
        self.wfile.flush()

    def run(self):
        """Returns the result of the request; counts the calls."""
        m = self.message
        if m["method"] == "initialize":
            return answer(m, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": self.name, "version": "1"}})
        if m["method"] == "tools/list":
            return answer(m, {"tools": TOOLS})
        with self.state.lock:
            self.state.calls[self.name] += 1
        return answer(m, text(json.dumps(m["params"]["arguments"].get("value", m["params"]["arguments"]))))

    def is_call(self):
        return self.message.get("method") == "tools/call"

    def old(self):
        """Handles every request except calls. Returns whether it handled this one."""
        m = self.message
        if self.command == "GET":
            self.reply(405)
        elif self.command == "DELETE":
            self.reply(200)
        elif m.get("method") == "server/discover":
            self.reply(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Server not initialized"}})
        elif "id" not in m:
            self.reply(202)
        elif self.is_call():
            return False
        else:
            self.reply(200, self.run())
        return True

    # ---- well-behaved servers ----

    def do_json(self):
        self.old() or self.reply(200, self.run())

    def do_session(self):
        m, number = self.message, self.state.begun["session"]
        if m.get("method") == "initialize":
            self.state.begun["session"] += 1
            self.reply(200, self.run(), Mcp_Session_Id=f"s-{number + 1}")
        elif m.get("method") != "server/discover" and self.headers.get("Mcp-Session-Id") != f"s-{number}":
            self.reply(404, b"no such session", "text/plain")
        elif not self.old():
            self.reply(200, self.run())
            if m["params"]["arguments"].get("value") == "forget":
                self.state.begun["session"] += 1

    def do_stream(self):
        """Sends events with comments, a notification and a request of the server before the answer."""
        if self.old():
            return
        self.begin_events()
        self.wfile.write(b": a comment\r\n\r\n")
        self.event("", id="1")
        self.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}}, event="message")
        self.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        self.event(self.run())

    def do_resume(self):
        """The stream of a call ends before its answer; a GET then returns the answer."""
        last = self.headers.get("Last-Event-ID")
        if self.command == "GET" and last:
            self.begin_events()
            self.event(self.state.waiting.pop(last), id=last + "-end")
        elif not self.old():
            self.begin_events()
            key = f"call-{self.message['id']}"
            self.state.waiting[key] = self.run()
            self.event("", id=key, retry=100)

    def do_legacy(self):
        """HTTP+SSE of 2024-11-05: a GET of /legacy, and POSTs to /legacy/messages."""
        if self.command == "GET":
            self.begin_events()
            lock = threading.Lock()
            key = str(len(self.state.legacy))
            self.state.legacy[key] = (self, lock)
            self.event(f"/legacy/messages?id={key}", event="endpoint")
            self.state.ended.wait()
        elif not self.path.startswith("/legacy/messages"):
            self.reply(405, b"no", "text/plain")
        else:
            m = self.message
            self.reply(202, b"Accepted", "text/plain")
            if "id" not in m:
                return
            stream, lock = self.state.legacy[self.path.split("=")[1]]
            result = self.run()
            if m["method"] == "initialize":
                result["result"]["protocolVersion"] = "2024-11-05"
            with lock:
                stream.event(result, event="message")

    def do_modern(self):
        """Speaks revision 2026-07-28 only."""
        m = self.message
        if self.command != "POST":
            self.reply(405)
        elif m["method"] == "server/discover":
            self.reply(200, answer(m, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                                       "serverInfo": {"name": "modern", "version": "1"}, "ttlMs": 0, "cacheScope": "public"}))
        elif m["method"] not in ("tools/list", "tools/call"):
            self.reply(404, {"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no such method"}})
        elif self.is_call() and m["params"]["arguments"].get("value") == "wait":
            self.begin_events()
            with self.state.lock:
                self.state.calls["modern-began"] += 1
            try:
                while not self.state.ended.wait(0.05):
                    self.wfile.write(b":\n")
            except OSError:
                self.state.calls["modern-cancelled"] += 1
        else:
            result = self.run()
            result["result"]["resultType"] = "complete"
            self.reply(200, result)

    def do_renamed(self):
        """Speaks 2026-07-28. The argument that it requires as a header, "region", is renamed to "zone" after the first list.
        It refuses a call without this header, except as the call's value says: "always" (refuses every call), "stream" (refuses in
        an event, so that the call may have run), "late" (refuses with status 500)."""
        m = self.message
        if m.get("method") not in ("tools/list", "tools/call"):
            self.do_modern()
            return
        if not self.is_call():
            with self.state.lock:
                self.state.begun["renamed"] += 1
                wanted = "Zone" if self.state.begun["renamed"] > 1 else "Region"
            schema = {"type": "object", "properties": {"value": {"type": "string", "x-mcp-header": wanted}}}
            self.reply(200, answer(m, {"tools": [{"name": "echo", "inputSchema": schema}], "resultType": "complete", "ttlMs": 3600000,
                                       "cacheScope": "public"}))
            return
        value = m["params"]["arguments"]["value"]
        refusal = {"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32020, "message": "Mcp-Param-Zone is missing"}}
        if value == "stream":
            self.begin_events()
            self.event(refusal)
        elif value in ("late", "always") or self.headers.get("Mcp-Param-Zone") != value:
            self.reply(500 if value == "late" else 400, refusal)
        else:
            result = self.run()
            result["result"]["resultType"] = "complete"
            self.reply(200, result)

    def do_token(self):
        if self.headers.get("Authorization") != "Bearer " + self.state.token:
            self.reply(401, b"", "text/plain", WWW_Authenticate='Bearer realm="x"')
        else:
            self.old() or self.reply(200, self.run())

    def do_home(self):
        self.reply(307, None, Location="/json")

    # ---- misbehaving servers ----

    def do_away(self):
        self.reply(307, None, Location=f"http://localhost:{self.server.server_port}/stolen?secret=1")

    def do_stolen(self):
        self.old() or self.reply(200, self.run())

    def do_round(self):
        self.reply(307, None, Location="/round")

    def do_dead(self):
        """Accepts a call and closes the connection."""
        if not self.old():
            self.run()
            self.close_connection = True

    def do_cut(self):
        """Closes the connection in the middle of the events, which have no ids."""
        if not self.old():
            self.run()
            self.begin_events()
            self.wfile.write(b'data: {"jsonrpc":"2.0",')

    def do_half(self):
        if not self.old():
            self.run()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
            self.close_connection = True

    def do_headers(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.close_connection = True
        for i in range(100000):
            self.wfile.write(f"X-{i}: {'x' * 1000}\r\n".encode())

    def do_page(self):
        self.reply(200, b"<html>hello</html>", "text/html")

    def do_broken(self):
        if not self.old():
            self.reply(500, b"<html>oops</html>", "text/html")

    def do_locked(self):
        self.reply(401, b"", "text/plain", WWW_Authenticate='Bearer resource_metadata="https://x/.well-known/x"')

    def do_empty(self):
        if not self.old():
            self.reply(202)

    def do_other(self):
        if not self.old():
            self.reply(200, {"jsonrpc": "2.0", "id": 99999, "result": text("not yours")})

    def do_silent(self):
        self.state.ended.wait()

    def do_bad_session(self):
        if self.message.get("method") == "initialize":
            self.reply(200, self.run(), Mcp_Session_Id="a b")
        else:
            self.old()

    def do_forgetful(self):
        """Assigns a session id, then answers each call with 404, as if the session did not exist."""
        m = self.message
        if m.get("method") == "initialize":
            self.reply(200, self.run(), Mcp_Session_Id="x")
        elif self.is_call():
            self.reply(404, b"", "text/plain")
        else:
            self.old()

    def do_elsewhere(self):
        """HTTP+SSE with an endpoint on another server."""
        if self.command == "GET":
            self.begin_events()
            self.event(f"http://localhost:{self.server.server_port}/stolen", event="endpoint")
            self.state.ended.wait()
        else:
            self.reply(405, b"", "text/plain")

    def do_wide(self):
        """Sends a line of an event that never ends."""
        if self.old():
            return
        self.begin_events()
        try:
            for _ in range(1000):
                self.wfile.write(b"x" * 65536)
        except OSError:
            pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = State()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def end(self):
        self.state.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass
