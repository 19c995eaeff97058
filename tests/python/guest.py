"""The guest's Python files as the package `cloister`, and fakes of the modules that they use."""

import importlib.util
import json
import os
import runpy
import socket
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..", "sandbox-init", "python")


def _load():
    path = os.path.normpath(SOURCES)
    folders = [path] + [entry.path for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith("_")]
    spec = importlib.util.spec_from_file_location(
        "cloister", os.path.join(path, "__init__.py"), submodule_search_locations=folders
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["cloister"] = module
    spec.loader.exec_module(module)
    # A module that the build generates.
    rpc = os.path.join(HERE, "..", "..", "rpc")
    frames = sys.modules["cloister.frames"] = types.ModuleType("cloister.frames")
    exec(runpy.run_path(os.path.join(rpc, "frame-rows.py"))["python"](os.path.join(rpc, "frames.def")), vars(frames))


sys.dont_write_bytecode = True
if "cloister" not in sys.modules:
    _load()

from cloister.frames import CALL, CATALOG, QUERY, RETURN  # noqa: E402


class Disk:
    """The part of _cloister that files.py uses."""

    in_tmpfs = False

    def is_empty(self, path):
        about = os.lstat(path) if os.path.isdir(path) and not os.path.islink(path) else None
        return about is None or (self.in_tmpfs and about.st_size == 40)


class Core(Disk):
    """_cloister with a broker in memory. answer(kind, number, payload) is called for each frame that is sent; it may
    call reply()."""

    def __init__(self, answer=None):
        self.sent = []
        self.frames = []
        self.answer = answer
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)

    def close(self):
        self._near.close()
        self._far.close()

    def reply(self, kind, number, payload):
        data = payload if payload is None or isinstance(payload, bytes) else json.dumps(payload).encode()
        self.frames.append((kind, number, data))
        try:
            self._far.send(b"!")
        except BlockingIOError:
            pass  # readable as it is

    def fileno(self):
        return self._near.fileno()

    def send(self, kind, number, payload):
        self.sent.append((kind, number, json.loads(payload)))
        if self.answer is not None:
            self.answer(kind, number, json.loads(payload))
        return False

    queue = send

    def send_queued(self):
        return False

    def read(self, inbox):
        try:
            self._near.recv(65536)
        except BlockingIOError:
            pass
        while self.frames:
            inbox.append(self.frames.pop(0))

    def wait(self, timeout_ms):
        import select

        return bool(select.select([self._near], [], [], None if timeout_ms < 0 else timeout_ms / 1000)[0])

    def waiting(self):
        return False

    def poll(self, fd, timeout_ms):
        import select

        ready = select.select([self._near, fd], [], [], None if timeout_ms < 0 else timeout_ms / 1000)[0]
        return (self._near in ready) + 2 * (fd in ready)

    def ask(self, kind, number, payload, fd):
        self.send(kind, number, payload)
        if self.poll(fd, -1) & 1 and self.frames[:1] and self.frames[0][:2] == (RETURN, number):
            inbox = []
            self.read(inbox)
            self.frames[:0] = inbox[1:]
            if inbox[1:]:
                self._far.send(b"!")
            return inbox[0][2]
        return None

    def ours(self):
        return True

    def in_template(self):
        return False

    def begin(self):
        return True

    def flush(self):
        return True



def tool(name, schema=None, **more):
    described = {"name": name, "description": "", "inputSchema": schema or {"type": "object"}}
    described.update(more)
    return described


def server(name, *tools, state="ready", **more):
    return dict({"name": name, "state": state, "tools": list(tools)}, **more)


def text_result(text):
    return {"ok": True, "result": {"content": [{"type": "text", "text": text}]}}


__all__ = ["CALL", "CATALOG", "QUERY", "RETURN", "Core", "server", "text_result", "tool"]
