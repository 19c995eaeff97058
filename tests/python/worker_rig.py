"""The real cloister-worker outside of a sandbox, driven over its channel as the broker would (stub-template.c)."""

import array
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time

import guest  # noqa: F401

from cloister.frames import CALL, CATALOG, DROP, EXEC, KEPT, QUERY, RESULT, RETURN, SETTLED

STUB = os.environ.get("CLOISTER_STUB_WORKER")
PYTHON = os.environ.get("CLOISTER_TEST_PYTHON", "/usr/bin/python3")

CHANNEL_FD = 900  # as in stub-template.c
HEADER = struct.Struct("<IBBHQ")
IN_MEMFD = 0x01
REMIND_S = 0.2  # SESSION_REMIND_MS
F_ADD_SEALS, F_SEAL_GROW, F_SEAL_WRITE = 1033, 4, 8


def find_libpython():
    """The host's libpython for PYTHON, or None."""
    ask = (
        "import sysconfig as s, os; v = s.get_config_var; print(os.path.join(v('LIBDIR'), v('INSTSONAME') or ''));"
        "print(os.path.join(v('LIBDIR'), v('MULTIARCH') or '', v('INSTSONAME') or ''));"
        "print(os.path.join(v('LIBDIR'), v('MULTIARCH') or '', 'libpython' + v('LDVERSION') + '.so.1.0'))"
    )
    lines = subprocess.run([PYTHON, "-c", ask], stdout=subprocess.PIPE, text=True).stdout.split()
    return next((path for path in lines if ".so" in path and os.path.exists(path)), None)


class Template:
    def __init__(self, libpython=None, python=PYTHON):
        libpython = libpython or find_libpython()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_RDWR)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(null, 0)
                os.dup2(theirs.fileno(), 3)
                os.set_inheritable(3, True)  # dup2() does not clear the flag if it is 3 already
                os.closerange(4, 4096)
                environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
                environ.update((name, value) for name, value in os.environ.items() if name == "CLOISTER_STUB_COLD")
                os.execve(STUB, [python, libpython], environ)
            finally:
                os._exit(127)
        os.close(null)
        theirs.close()
        self.control.settimeout(20)
        self.first_word = self.control.recv(1024).decode()

    def session(self):
        return Worker(self)

    def close(self):
        self.control.close()
        os.waitpid(self.pid, 0)


class Worker:
    """A session. Reads its pipes and its channel in one loop; tool calls are answered by self.on_call."""

    def __init__(self, template):
        self.channel, theirs = socket.socketpair()
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        fds = array.array("i", [theirs.fileno(), out, err])
        template.control.sendmsg([b"session"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        self.pid = int(template.control.recv(64))
        theirs.close()
        os.close(out)
        os.close(err)
        self.output = {self.stdout: b"", self.stderr: b""}
        self.input = bytearray()
        self.frames = []
        self.calls = []
        self.drops = []
        self.settled = []
        self.cell = 0
        self.ended = False
        self.on_call = self.on_kept = None
        self.on_query = lambda number, query: self.send(RETURN, number, {"ok": True, "result": {"version": 1}})

    def send(self, kind, number, payload):
        self.send_together((kind, number, payload))

    def send_together(self, *frames):
        """Sends frames so that one read returns all of them."""
        data = b""
        for kind, number, payload in frames:
            payload = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
            data += HEADER.pack(len(payload), kind, 0, 0, number) + payload
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self.channel], [self.channel], [], 20)
            if self.channel in readable:
                self.receive()
            if self.channel in writable:
                view = view[self.channel.send(view[: 1 << 16], socket.MSG_DONTWAIT):]

    def send_in_memfd(self, kind, number, payload, seals=F_SEAL_WRITE | F_SEAL_GROW, length=None):
        """A frame whose payload is in a memfd. Returns another descriptor of it."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        fd = os.memfd_create("result", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, data)
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
        header = HEADER.pack(len(data) if length is None else length, kind, IN_MEMFD, 0, number)
        self.channel.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        return fd

    def receive(self):
        try:
            data = self.channel.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self.ended = True
        self.input += data
        while len(self.input) >= 16:
            length, kind, _, _, number = HEADER.unpack_from(self.input)
            if len(self.input) < 16 + length:
                break
            self.frames.append((kind, number, bytes(self.input[16 : 16 + length])))
            del self.input[: 16 + length]

    def step(self, timeout):
        watched = [fd for fd in (self.channel, self.stdout, self.stderr) if not (fd is self.channel and self.ended)]
        watched = [fd for fd in watched if self.output.get(fd, b"") is not None]
        readable = select.select(watched, [], [], timeout)[0]
        for fd in readable:
            if fd is self.channel:
                self.receive()
            else:
                data = os.read(fd, 1 << 20)
                self.output[fd] += data
                if not data and fd in (self.stdout, self.stderr):
                    self._closed = True
        return bool(readable)

    def answer(self):
        """Handles the frames that have arrived; returns the payload of a RESULT."""
        result = None
        while self.frames:
            kind, number, payload = self.frames.pop(0)
            value = json.loads(payload)
            if kind == RESULT:
                assert number == self.cell, (number, self.cell)
                result = value
            elif kind == CALL:
                self.calls.append((number, value))
                if self.on_call is not None:
                    self.on_call(number, value)
            elif kind == QUERY:
                self.on_query(number, value)
            elif kind == KEPT and self.on_kept is not None:
                self.on_kept(number, value)
            elif kind == DROP:
                self.drops.append(number)
            elif kind == SETTLED:
                self.settled.append(number)
            else:
                raise AssertionError("unexpected frame %#x" % kind)
        return result

    def catalogue(self, *servers, version=1):
        self.send(CATALOG, version, {"servers": list(servers)})

    def start(self, code, filename=None, behind=()):
        """behind: frames that are sent together with it."""
        self.output = {self.stdout: b"", self.stderr: b""}
        self.cell += 1
        self.send_together((EXEC, self.cell, b"%b\0%b" % (code.encode(), (filename or "").encode())), *behind)

    def finish(self, timeout=20, interrupt_after=None, remind=False):
        """The cell's result with stdout and stderr; {"ended": True} when the channel ended first. remind: as the broker."""
        deadline = time.monotonic() + timeout
        interrupt_at = None if interrupt_after is None else time.monotonic() + interrupt_after
        number = signal.SIGINT
        while True:
            result = self.answer()
            if result is None and self.ended:
                result = {"ended": True}
            if result is not None:
                while self.step(0) and not self.ended:
                    pass
                return dict(result, stdout=self.output[self.stdout].decode(), stderr=self.output[self.stderr].decode())
            now = time.monotonic()
            if interrupt_at is not None and now >= interrupt_at:
                os.kill(self.pid, number)
                interrupt_at = now + REMIND_S if remind else None
                number = signal.SIGURG
            if now > deadline:
                raise TimeoutError("no result; output so far: %r" % (self.output,))
            self.step(min(deadline, interrupt_at or deadline) - now if interrupt_at is None or interrupt_at > now else 0)

    def until(self, text, timeout=20):
        """Waits, without a cell, until the session has written the text to its standard output since its last cell began."""
        deadline = time.monotonic() + timeout
        while text not in self.output[self.stdout]:
            if time.monotonic() > deadline:
                raise TimeoutError("no %r in %r" % (text, self.output))
            self.step(0.1)
            self.answer()

    def run(self, code, filename=None, **how):
        self.start(code, filename)
        return self.finish(**how)

    def close(self):
        self.channel.close()
        os.close(self.stdout)
        os.close(self.stderr)


def tool_result(text=None, structured=None, error=False):
    result = {"content": [] if text is None else [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = structured
    if error:
        result["isError"] = True
    return {"ok": True, "result": result}
