"""The JavaScript worker in a Node outside of a sandbox, driven over its channel as the broker does."""

import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
NODE = os.path.abspath(os.environ.get("CLOISTER_TEST_NODE") or shutil.which("node") or "")
ACORN = Path(os.environ.get("CLOISTER_ACORN", "/usr/share/nodejs/acorn/dist/acorn.js"))
HEADER = struct.Struct("<IBBHQ")
REMIND_S = 0.2  # SESSION_REMIND_MS


def _frame_rows():
    spec = importlib.util.spec_from_file_location("frame_rows", TOP / "rpc/frame-rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


frame_rows = _frame_rows()
FRAMES = {row[0]: int(row[1], 16) for row in frame_rows.rows(TOP / "rpc/frames.def")}
NAMES = {number: name for name, number in FRAMES.items()}


class Modules:
    """The modules in one directory, as in a sandbox; and a directory that stands for /workspace."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="cloister-test-javascript-"))
        self.place, self.workspace = self.root / "modules", self.root / "workspace"
        self.place.mkdir()
        (self.workspace / "out").mkdir(parents=True)
        for path in (*TOP.glob("sandbox-init/javascript/*.js"), *TOP.glob("sandbox-init/javascript/*/*.js"), ACORN):
            shutil.copy(path, self.place)
        (self.place / "frames.js").write_text(frame_rows.javascript(TOP / "rpc/frames.def"))

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Worker:
    """A session. Reads its pipes and its channel in one loop; tool calls are answered by self.on_call."""

    def __init__(self, modules, options=(), **settings):
        self.modules = modules
        self.channel, theirs = socket.socketpair()
        settings = {"channel": theirs.fileno(), "directory": str(modules.workspace), "memory": 1 << 30, "cpus": 2, **settings}
        command = [NODE, "--no-force-async-hooks-checks", *options, modules.place / "main.js", json.dumps(settings)]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(modules.workspace)}
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                                        cwd=modules.workspace, pass_fds=[theirs.fileno()])
        theirs.close()
        self.pipes = {self.process.stdout.fileno(): "stdout", self.process.stderr.fileno(): "stderr"}
        self.output = {"stdout": b"", "stderr": b""}
        self.input = bytearray()
        self.frames, self.calls, self.drops, self.displays = [], [], [], []
        self.cell = 0
        self.ended = False
        self.on_call = None
        self.on_read = None
        self.on_query = lambda number, query: self.send("RETURN", number, {"ok": True, "result": {"version": 1}})

    @property
    def pid(self):
        return self.process.pid

    def send(self, kind, number, payload):
        payload = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        view = memoryview(HEADER.pack(len(payload), FRAMES[kind], 0, 0, number) + payload)
        while view:
            readable, writable, _ = select.select([self.channel], [self.channel], [], 20)
            if readable:
                self.receive()
            if writable:
                view = view[self.channel.send(view[: 1 << 16], socket.MSG_DONTWAIT):]

    def receive(self):
        try:
            data = self.channel.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.ended = self.ended or not data
        self.input += data
        while len(self.input) >= 16:
            length, kind, _, _, number = HEADER.unpack_from(self.input)
            if len(self.input) < 16 + length:
                break
            self.frames.append((NAMES.get(kind, kind), number, bytes(self.input[16 : 16 + length])))
            del self.input[: 16 + length]

    def step(self, timeout):
        watched = [*self.pipes, *([] if self.ended else [self.channel])]
        readable = select.select(watched, [], [], max(0, timeout))[0]
        for fd in readable:
            if fd is self.channel:
                self.receive()
                continue
            data = os.read(fd, 1 << 20)
            self.output[self.pipes[fd]] += data
            if not data:
                del self.pipes[fd]
        return bool(readable)

    def answer(self):
        """Handles the frames that have arrived; returns the payload of a RESULT."""
        result = None
        while self.frames:
            kind, number, payload = self.frames.pop(0)
            value = json.loads(payload)
            if kind == "RESULT":
                assert number == self.cell and result is None, (number, self.cell, result)
                result = value
            elif kind == "CALL":
                self.calls.append((number, value))
                if self.on_call is not None:
                    self.on_call(number, value)
            elif kind == "QUERY":
                self.on_query(number, value)
            elif kind == "READ":
                self.on_read(number, value)
            elif kind == "DISPLAY":
                self.displays.append(value)
            elif kind == "DROP":
                self.drops.append(number)
            else:
                raise AssertionError("unexpected frame %s: %r" % (kind, payload))
        return result

    def start(self, code, filename=""):
        self.output = {"stdout": b"", "stderr": b""}
        self.displays = []
        self.cell += 1
        self.send("EXEC", self.cell, b"%b\0%b" % (code.encode("utf-8", "surrogatepass"), filename.encode()))

    def finish(self, timeout=30, interrupt_after=None):
        """The cell's result with stdout and stderr; {"ended": status} when the process ended. SIGINT is repeated as SIGURG, as by the broker."""
        deadline = time.monotonic() + timeout
        interrupt_at = None if interrupt_after is None else time.monotonic() + interrupt_after
        number = signal.SIGINT
        while True:
            result = self.answer()
            if result is None and self.ended:
                result = {"ended": self.process.wait(20)}
            if result is not None:
                while self.step(0) and not self.ended:
                    pass
                return dict(result, **{name: data.decode() for name, data in self.output.items()})
            now = time.monotonic()
            if interrupt_at is not None and now >= interrupt_at:
                os.kill(self.pid, number)
                interrupt_at, number = now + REMIND_S, signal.SIGURG
            if now > deadline:
                raise TimeoutError("no result; output so far: %r" % (self.output,))
            self.step(min(deadline, interrupt_at or deadline) - now)

    def run(self, code, filename="", **how):
        self.start(code, filename)
        return self.finish(**how)

    def ask(self, kind, number, payload):
        """The DATA that answers a FETCH or a PUT."""
        self.send(kind, number, payload)
        while not self.frames:
            self.step(20)
        name, answered, data = self.frames.pop(0)
        assert (name, answered) == ("DATA", number)
        return json.loads(data)

    def close(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def tool_result(text=None, structured=None, error=False):
    result = {"content": [] if text is None else [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = structured
    if error:
        result["isError"] = True
    return {"ok": True, "result": result}
