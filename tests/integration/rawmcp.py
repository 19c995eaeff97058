"""An MCP client that writes raw lines, so that it can send messages which an official client refuses to send."""

import itertools
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading

import harness


class Gone(Exception):
    """The server ended before it answered."""


class RpcError(Exception):
    """A JSON-RPC error: code, message, data."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")


class Pending:
    """The future answer to a request."""

    def __init__(self):
        self.box = queue.Queue()

    def message(self, timeout=None):
        try:
            message = self.box.get(timeout=harness.PATIENCE if timeout is None else harness.patient(timeout))
        except queue.Empty:
            raise TimeoutError("no answer in time") from None
        if message is None:
            raise Gone("the server ended without an answer")
        return message

    def result(self, timeout=None):
        message = self.message(timeout)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def done(self):
        return not self.box.empty()


class RawServer:
    """`cloister mcp`, driven by lines. stderr goes to a file and is at .log()."""

    def __init__(self, *args, env=None, cwd=None, prefix=()):
        self.stderr = harness.Log()
        self.process = subprocess.Popen(
            [*prefix, harness.CLOISTER, "mcp", "--log-format", "text", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.stderr, env=env or harness.environment(), cwd=cwd, start_new_session=True,
        )
        self.ids = itertools.count(1)
        self.lock = threading.Lock()
        self.pending = {}
        self.unasked = queue.Queue()  # notifications, requests, and answers without a request
        self.notes = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            message = harness.message_of(line)
            with self.lock:
                waiting = self.pending.pop(message.get("id"), None) if "method" not in message else None
            if waiting:
                waiting.box.put(message)
            else:
                self.notes.append(message)
                self.unasked.put(message)
        with self.lock:
            left, self.pending = self.pending, {}
        for waiting in left.values():
            waiting.box.put(None)

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def expect(self, identifier):
        waiting = Pending()
        with self.lock:
            self.pending[identifier] = waiting
        return waiting

    def request(self, method, params=None, identifier=None):
        identifier = next(self.ids) if identifier is None else identifier
        waiting = self.expect(identifier)
        waiting.id = identifier
        message = {"jsonrpc": "2.0", "id": identifier, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return waiting

    def ask(self, method, params=None, timeout=None):
        return self.request(method, params).result(timeout)

    def initialize(self, version="2025-11-25", timeout=None):
        client = {"name": "raw", "version": "0"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        result = self.ask("initialize", params, timeout)
        self.notify("notifications/initialized")
        return result

    def start_call(self, code, meta=None, tool="run_python", **arguments):
        # A timeout of this size lets the code finish instead of ending it.
        timeout = arguments.get("timeout")
        if isinstance(timeout, (int, float)) and timeout >= 30:
            arguments["timeout"] = max(timeout, min(int(timeout * harness.SLOW), 600))
        params = {"name": tool, "arguments": {"code": code, **arguments}}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def call(self, code, wait=None, **arguments):
        """Returns the whole CallToolResult."""
        return self.start_call(code, **arguments).result(harness.PATIENCE * 2 if wait is None else wait)

    def cell(self, code, wait=None, **arguments):
        """Returns the structuredContent of the result."""
        return self.call(code, wait, **arguments)["structuredContent"]

    def log(self):
        return self.stderr.text()

    def close(self, timeout=None):
        """Closes stdin, waits, and returns the exit status."""
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            return self.process.wait(harness.PATIENCE if timeout is None else timeout)
        finally:
            self.free()

    def free(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        self.reader.join(harness.PATIENCE)
        self.process.stdout.close()
        self.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class ServerCase(harness.Case):
    """Test cases that share one running server. Each uses a session named after it. SERVERS are added to the server's config."""

    SERVERS = {}
    CONFIG = {}
    TOOL = "run_python"
    ARGUMENTS = ()  # further arguments of the command line

    @classmethod
    def setUpClass(cls):
        cls.class_residue = harness.Residue()
        cls.class_dir = tempfile.mkdtemp(prefix="cloister-test-")
        config = os.path.join(cls.class_dir, "config.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump({"mcpServers": cls.servers(), **cls.CONFIG}, f)
        cls.server = RawServer("--config", config, *cls.ARGUMENTS, cwd=cls.class_dir)
        cls.initialized = cls.server.initialize()

    @classmethod
    def servers(cls):
        return cls.SERVERS

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.close()
        finally:
            harness.shutil.rmtree(cls.class_dir, ignore_errors=True)
        left = cls.class_residue.settle()
        if left:
            raise AssertionError(f"left behind: {left}")

    def setUp(self):
        # The server is shared: tearDownClass checks what is left behind.
        self.session = self._testMethodName[:64]
        self.addCleanup(self.still_lives)

    def still_lives(self):
        self.assertIsNone(self.server.process.poll(), "the server ended")

    def call(self, code, **arguments):
        arguments.setdefault("session", self.session)
        arguments.setdefault("tool", self.TOOL)
        return self.server.call(code, **arguments)

    def cell(self, code, **arguments):
        return self.call(code, **arguments)["structuredContent"]

    def ok(self, code, **arguments):
        """Runs a cell whose status must be ok."""
        cell = self.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell

    def written(self, name, session=None):
        """Returns whether a session has a file of this name in /workspace/out; runs no cell for it."""
        try:
            self.server.ask("resources/read", {"uri": f"cloister://sessions/{session or self.session}/files/{name}"})
        except RpcError:
            return False
        return True

    def wait_running(self, session=None, state="running"):
        """Returns when a cell of the session runs, or when the session is in another state."""

        def reached():
            done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
            sessions = harness.message_of(done.stdout)[0]["sessions"]
            return any(s["name"] == (session or self.session) and s["state"] == state for s in sessions)

        self.assertTrue(harness.wait_until(reached))

    def value(self, code, **arguments):
        """Returns the JSON value of the cell's last expression."""
        cell = self.ok(code, **arguments)
        self.assertIn("value", cell, cell)
        value = cell["value"]
        return json.loads(value["json_text"]) if "json_text" in value else value.get("json", value["repr"])

    def text(self, result):
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
