"""`cloister sessions --watch`, on a terminal and without one."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import harness
from rawmcp import ServerCase

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
OWN = re.compile(rb"\x1b\[(?:\?(?:1049|25|7)[hl]|H|K|J)")


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, *args, rows=24, columns=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execve(harness.CLOISTER, [harness.CLOISTER, *args], harness.environment(TERM="xterm"))
        self.resize(rows, columns)
        self.out = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """Returns whether output arrived."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            piece = os.read(self.fd, 65536)
            self.out += piece
            return bool(piece)
        return False

    def until(self, condition):
        end = time.monotonic() + harness.PATIENCE
        while not condition(self.out) and time.monotonic() < end:
            self.read(0.1)
        return condition(self.out)

    def send(self, data):
        os.write(self.fd, data)

    def frame(self):
        """The lines of the newest whole frame."""
        frames = self.out.split(b"\x1b[H")
        whole = [f for f in frames[1:] if b"\x1b[J" in f]
        return OWN.sub(b"", whole[-1]).decode().split("\r\n") if whole else []

    def end(self):
        """Returns the exit status of the program; reads its output to the end."""
        deadline = time.monotonic() + harness.PATIENCE
        while time.monotonic() < deadline:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    pass
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it goes on: {self.out[-2000:]!r}")


class Watch(ServerCase):
    def watch(self, **size):
        terminal = Terminal("sessions", "--watch", "--server", str(self.server.process.pid), **size)
        self.assertTrue(terminal.until(lambda out: b"\x1b[J" in out), terminal.out)
        return terminal

    def test_what_it_shows(self):
        self.ok("1")
        call = self.server.start_call("import asyncio, os\nprint('step 7 of 9', flush=True)\nwhile not os.path.exists('go'):\n"
                                      "    await asyncio.sleep(0.01)", session=self.session)
        terminal = self.watch(columns=150)
        self.assertTrue(terminal.until(lambda out: b"step 7 of 9" in out), terminal.out)
        (line,) = [line for line in terminal.frame() if self.session in line]
        self.assertIn("running", line)
        self.assertIn("import asyncio, os | step 7 of 9", line)
        done = self.run_cloister("cp", "/dev/null", f"{self.session}:go", "--server", str(self.server.process.pid), cwd="/")
        self.assertEqual(done.returncode, 0, done)
        call.result()
        self.assertTrue(terminal.until(lambda out: any("ok: import asyncio" in line for line in terminal.frame())))
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual((terminal.out.count(ENTER), terminal.out.count(LEAVE)), (1, 1))

    def test_each_end_restores_the_screen(self):
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(number):
                terminal = self.watch()
                modes = termios.tcgetattr(terminal.fd)
                self.assertFalse(modes[3] & termios.ECHO)
                os.kill(terminal.pid, number)
                self.assertEqual(terminal.end(), status)
                self.assertEqual((terminal.out.count(ENTER), terminal.out.count(LEAVE)), (1, 1))
                self.assertTrue(terminal.out.rstrip().endswith(LEAVE))

    def test_stop_and_go_on(self):
        terminal = self.watch()
        os.kill(terminal.pid, signal.SIGTSTP)
        self.assertEqual(os.waitpid(terminal.pid, os.WUNTRACED), (terminal.pid, signal.SIGSTOP << 8 | 0x7F))
        self.assertTrue(terminal.until(lambda out: LEAVE in out))
        self.assertTrue(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
        os.kill(terminal.pid, signal.SIGCONT)
        self.assertTrue(terminal.until(lambda out: out.count(ENTER) == 2))
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.out.rstrip().endswith(LEAVE))

    def test_the_size(self):
        self.ok("1")
        terminal = self.watch(columns=200)
        seen = len(terminal.out)
        terminal.resize(24, 30)
        self.assertTrue(terminal.until(lambda out: b"\x1b[J" in out[seen:] and max(map(len, terminal.frame())) <= 30), terminal.out[seen:])
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_without_a_terminal(self):
        self.ok("1")
        arguments = [harness.CLOISTER, "sessions", "--watch", "--server", str(self.server.process.pid)]
        done = subprocess.run(arguments, env=harness.environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--watch needs a terminal", done.stderr)
        with subprocess.Popen([*arguments, "--json"], env=harness.environment(), stdout=subprocess.PIPE) as process:
            lines = [json.loads(process.stdout.readline()) for _ in range(2 if harness.WHOLE else 1)]
            process.terminate()
        for (server,) in lines:
            self.assertEqual(server["server"], self.server.process.pid)
            self.assertIn(self.session, [session["name"] for session in server["sessions"]])


class Hostile(harness.Case):
    """A server whose broker is compromised can send any data."""

    SESSIONS = 64

    def serve(self, answer):
        directory = next(d for d in harness.CONTROL if os.path.isdir(d))
        path = os.path.join(directory, f"{os.getpid()}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        self.addCleanup(os.unlink, path)
        self.addCleanup(listener.close)
        listener.listen(8)
        self.asked = 0

        def run():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(65536)
                        self.asked += 1
                        if answer is None:
                            time.sleep(0.5)
                        else:
                            client.sendall(answer)

        threading.Thread(target=run, daemon=True).start()

    def setUp(self):
        super().setUp()
        # Its directory is there while any server runs.
        directory = harness.CONTROL[0] if harness.ROOT else f"/tmp/cloister-{os.getuid()}"
        runtime = f"/run/user/{os.getuid()}"
        if not harness.ROOT and os.path.isdir(runtime) and os.access(runtime, os.W_OK):
            directory = f"{runtime}/cloister"
        os.makedirs(directory, mode=0o700, exist_ok=True)

    def test_names_code_and_output(self):
        evil = "\x1b[2J\x1b]0;x\x07\u202e\u0085" + "漢字" * 60
        sessions = [{"name": f"{i:02d}" + evil, "state": evil, "age_ms": 1, "memory_bytes": 1 << 70 if i == 1 else -1, "cells": "many",
                     "last": {"code": evil, "line": evil, "duration_ms": -5}} for i in range(self.SESSIONS)]
        self.serve(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"sessions": sessions}}).encode() + b"\n")
        terminal = Terminal("sessions", "--watch", "--server", str(os.getpid()), rows=24, columns=70)
        width = lambda: max(sum(2 if c in "漢字" else 1 for c in line) for line in terminal.frame())
        # The terminal gets its size after its start.
        self.assertTrue(terminal.until(lambda out: len(terminal.frame()) > 20 and width() <= 70), terminal.out)
        lines = terminal.frame()
        self.assertLessEqual(len(lines), 24)
        self.assertIn("and 43 more", lines[-2])
        rest = OWN.sub(b"", terminal.out).decode()
        for character in "\x1b\x07\u202e\u0085":
            self.assertNotIn(character, rest)
        asked = self.asked
        time.sleep(0.5)
        self.assertLessEqual(self.asked - asked, 1)  # once a second, and no polling between
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_a_server_that_does_not_answer(self):
        self.serve(None)
        terminal = Terminal("sessions", "--watch", "--server", str(os.getpid()))
        self.assertTrue(terminal.until(lambda out: b"does not answer" in out), terminal.out)
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)

    @harness.unittest.skipUnless(harness.WHOLE, "suite slow")
    def test_garbage(self):
        self.serve(b"\x1b[2J{]\n")
        terminal = Terminal("sessions", "--watch", "--server", str(os.getpid()))
        self.assertTrue(terminal.until(lambda out: b"does not answer" in out), terminal.out)
        self.assertNotIn(b"\x1b[2J", terminal.out)
        os.kill(terminal.pid, signal.SIGINT)
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    harness.main()
