"""A system that Cloister replaces, driven over stdio and over HTTP."""

import json
import os
import re
import subprocess

import harness
import rawmcp
from test_serve import LEGACY, Connection


class Http:
    """`cloister serve` at its own unix socket, with the methods of rawmcp.RawServer that the checks use."""

    def __init__(self, folder, *args, env=None):
        self.stderr = harness.Log()
        path = os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            [harness.CLOISTER, "serve", "--log-format", "text", "--listen", f"unix:{path}", *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self.stderr, env=env or harness.environment(), cwd=folder, start_new_session=True)
        if not harness.wait_until(lambda: "serving MCP" in self.log() or self.process.poll() is not None):
            raise AssertionError(self.log())
        self.connection = Connection(path)
        self.session = {}

    def log(self):
        return self.stderr.text()

    def ask(self, method, params=None, timeout=None):
        answer = self.connection.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}, **self.session).response()
        self.session = self.session or {"Mcp_Session_Id": answer.headers.get("mcp-session-id")}
        message = answer.json()
        if "error" in message:
            raise rawmcp.RpcError(message["error"])
        return message["result"]

    def initialize(self):
        return self.ask("initialize", LEGACY)

    def close(self):
        self.connection.socket.close()
        self.connection.file.close()
        self.process.terminate()
        status = self.process.wait(harness.PATIENCE)
        self.stderr.close()
        return status


class SystemCase(harness.Case):
    """Checks of one system. SYSTEM: the argument of --as."""

    SYSTEM = ""

    def start(self, *args, http=False, env=None, config=None):
        """Starts the server as the system, with options and variables of that system. Returns it."""
        args = ("--config", self.config(**(config or {})), "--as", self.SYSTEM, *args)
        env = harness.environment(**(env or {}))
        server = Http(self.dir, *args, env=env) if http else rawmcp.RawServer(*args, env=env, cwd=self.dir)
        self.addCleanup(server.close)
        self.initialized = server.initialize()
        return server

    def both(self, check, *args, **rest):
        """Runs a check over stdio and over HTTP."""
        for http in False, True:
            with self.subTest(http=http):
                check(self.start(*args, http=http, **rest))

    def result(self, server, name, **arguments):
        # Pyodide is loaded in seconds on an idle machine, and in a minute on a busy one.
        return server.ask("tools/call", {"name": name, "arguments": arguments}, timeout=harness.patient(150))

    def told(self, server, name, **arguments):
        """The text of a result; these systems mark no result as an error."""
        result = self.result(server, name, **arguments)
        self.assertEqual(([b["type"] for b in result["content"]], result["isError"]), (["text"], False), result)
        return result["content"][0]["text"]

    def value(self, server, name, **arguments):
        """The value of a result in JSON, which has line breaks and two spaces for each level."""
        text = self.told(server, name, **arguments)
        value = json.loads(text)
        whole = json.dumps(value, indent=2, ensure_ascii=False)
        self.assertEqual(*(re.sub(r'"duration": [0-9.]+', '"duration": D', each) for each in (text, whole)))
        return value

    def names(self, server):
        return [tool["name"] for tool in server.ask("tools/list")["tools"]]

    def refused(self, status, text, *args, env=None, config=None, command="mcp"):
        """The start ends with one line."""
        ended = self.run_cloister(command, "--log-format", "text", "--config", self.config(**(config or {})), "--as", self.SYSTEM, *args,
                                  env=harness.environment(**(env or {})))
        self.assertEqual((ended.returncode, ended.stdout), (status, b""), ended.stderr)
        self.assertRegex(ended.stderr.decode(), text)
        self.assertEqual(ended.stderr.count(b"\n"), 1, ended.stderr)
