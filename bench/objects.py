"""Tools of Python objects for benchmarks of agents: an MCP server over stdio that a benchmark controls, and a client of `cloister mcp`.

The server is the program that measures, started a second time by Cloister. It connects to the socket of the first one, which tells it
when a task begins and takes the objects at the end of it. Objects cross the socket pickled: both ends are this program.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Client as Connection
from multiprocessing.connection import Listener

from measure import Failure, end, last_line

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = "2025-11-25"


def in_environment(name, module):
    """Runs this program with the interpreter of build/benchmarks/NAME, unless the module is here already."""
    try:
        __import__(module)
    except ImportError:
        python = os.path.join(TOP, "build", "benchmarks", name, "bin", "python")
        if sys.executable == python or not os.path.exists(python):
            sys.exit(f"bench: {module} is not installed: './quickstart benchmarks' fetches it into build/benchmarks")
        os.execv(python, [python, *sys.argv])


class Server:
    """tools: as tools/list has them. call(name, arguments): (text, whether it failed). command(*words): the answer to the benchmark."""

    def __init__(self, name, tools, call, command):
        self.name, self.tools, self.call, self.command, self.lock = name, tools, call, command, threading.Lock()

    def obey(self, socket):
        with contextlib.suppress(EOFError, OSError), Connection(socket, "AF_UNIX") as connection:
            connection.send(self.name)
            while True:
                words = connection.recv()
                with self.lock:
                    connection.send(self.command(*words))

    def answer(self, method, params):
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": self.name, "version": "1"}}
        if method == "tools/list":
            return {"tools": self.tools}
        if method == "tools/call":
            with self.lock:
                text, failed = self.call(params["name"], params.get("arguments") or {})
            return {"content": [{"type": "text", "text": text}], "isError": failed}
        return {}

    def serve(self, socket):
        threading.Thread(target=self.obey, args=(socket,), daemon=True).start()
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                result = self.answer(message["method"], message.get("params") or {})
                sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
                sys.stdout.flush()


# Calls of a list, one after the other. An error is a result, as it is for an agent that continues.
CELL = """import json as _json
_done = []
for _tool, _arguments in _json.loads({calls!r}):
    try:
        await tools[_tool].raw(_arguments)
        _done.append(None)
    except Exception as _error:
        _done.append([type(_error).__name__, str(_error)[:300]])
_done"""


class Cloister:
    """`cloister mcp` with servers of this program. answer: what a person says to each question, "yes" or "no"; None: no person can answer."""

    def __init__(self, program, names, config, answer=None, environment=None):
        self.work = tempfile.mkdtemp(prefix="cloister-bench-")
        os.chmod(self.work, 0o755)
        path = os.path.join(self.work, "socket")
        self.listener, self.connections = Listener(path, "AF_UNIX"), {}
        os.chmod(path, 0o777)
        servers = {name: {"command": sys.executable, "args": [os.path.abspath(sys.argv[0]), "--serve", name, path],
                          **config.get("mcpServers", {}).get(name, {})} for name in names}
        self.config = os.path.join(self.work, "config.json")
        with open(self.config, "w", encoding="utf-8") as f:
            json.dump({**config, "mcpServers": servers}, f)
        self.answer, self.questions, self.sent = answer, 0, 0
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program, "mcp", "--config", self.config], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=environment)
        capabilities = {} if answer is None else {"elicitation": {"form": {}}}
        self.request("initialize", {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": {"name": "bench", "version": "1"}})
        self.write({"method": "notifications/initialized"})
        self.run([])
        while len(self.connections) < len(names):
            connection = self.listener.accept()
            self.connections[connection.recv()] = connection

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def elicited(self, params):
        """The answer to a question about calls (docs/questions.md)."""
        self.questions += 1
        if "scope" not in params.get("requestedSchema", {}).get("properties", {}):
            raise Failure(f"cloister: an unknown question: {params.get('message', '')[:200]}")
        return {"action": "accept", "content": {"scope": "no" if self.answer == "no" else "once"}}

    def request(self, method, params):
        self.sent += 1
        number = self.sent
        self.write({"id": number, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "elicitation/create":
                self.write({"id": message["id"], "result": self.elicited(message["params"])})
            elif message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise Failure(f"cloister: {message['error']['message']}")
                return message["result"]
        self.errors.seek(0)
        raise Failure(f"cloister: {last_line(self.errors.read())}")

    def run(self, calls, reset=False):
        """Makes calls, (server, tool, arguments), in a cell, with reset of a new session. For each None, or the kind and the text of its error."""
        text = json.dumps([[f"{server}.{tool}", arguments] for server, tool, arguments in calls])
        arguments = {"code": CELL.format(calls=text), **({"reset": True} if reset else {})}
        found = self.request("tools/call", {"name": "run_python", "arguments": arguments})
        result = found.get("structuredContent", {})
        if result.get("status") != "ok":
            raise Failure(f"cloister: {json.dumps(result or found)[:300]}")
        return result["value"]["json"]

    def tell(self, server, *words):
        """Sends a command to a server's objects; returns its answer."""
        self.connections[server].send(words)
        return self.connections[server].recv()

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.listener.close()
        self.process.stdin.close()
        end(self.process)
        self.errors.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
