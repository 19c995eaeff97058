"""The prompt, `cloister exec -i` and `cloister run -i`, on a terminal and in a pipe."""

import contextlib
import ctypes.util
import os
import pty
import re
import select
import signal
import stat
import subprocess
import termios
import time

import harness
from rawmcp import ServerCase

LIBEDIT = ctypes.util.find_library("edit")
SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\(B")


class Prompt:
    """A prompt on a pseudo-terminal, with its own home directory."""

    def __init__(self, home, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            env = harness.environment(TERM="xterm", XDG_STATE_HOME=home)
            os.execve(harness.CLOISTER, [harness.CLOISTER, *args], env)
        self.out = b""

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            piece = os.read(self.fd, 65536)
            self.out += piece
            return bool(piece)
        return False

    def text(self):
        return SEQUENCE.sub(b"", self.out).decode(errors="replace")

    def until(self, text):
        """Waits for the text, and discards the output up to its end."""
        end = time.monotonic() + harness.PATIENCE
        while text not in self.text():
            self.read(0.1)
            if time.monotonic() > end:
                raise AssertionError(f"no {text!r} in {self.text()!r}")
        before, _, after = self.text().partition(text)
        self.out = after.encode()
        return before

    def line(self, text):
        self.until(">>> ")
        os.write(self.fd, text.encode() + b"\n")

    def send(self, data):
        os.write(self.fd, data)

    def passes_keys(self):
        """Returns whether the terminal passes each key on, and does not edit lines itself."""
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def end(self):
        end = time.monotonic() + harness.PATIENCE
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    pass
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"it goes on: {self.text()!r}")


class Exec(ServerCase):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.class_dir, self._testMethodName)

    def prompt(self, *args):
        return Prompt(self.home, "exec", "-i", self.session, "--server", str(self.server.process.pid), *args)

    def test_values_blocks_and_errors(self):
        self.ok("x = 20")
        p = self.prompt()
        p.line("x + 1")
        p.until("\n21")
        p.line("for i in range(2):")
        p.until("... ")
        p.send(b"    print('turn', i)\n")
        p.until("... ")
        p.send(b"\n")
        p.until("turn 0")
        p.until("turn 1")
        p.line("1/0")
        p.until("ZeroDivisionError")
        p.line("import asyncio; await asyncio.sleep(0, 'awaited')")
        p.until("'awaited'")
        p.line("if x")
        p.until("SyntaxError")
        p.line("y = 7")
        p.line("exit()")
        self.assertEqual(p.end(), 0)
        cell = self.cell("y")
        self.assertEqual(cell["value"]["json"], 7)
        self.assertIn("a person has run", cell["notice"])

    def test_control_c_and_control_d(self):
        self.ok("x = 1")
        p = self.prompt()
        p.line("import time; print('begun'); time.sleep(60)")
        p.until("begun\r\n")
        p.send(b"\x03")
        p.until("KeyboardInterrupt")
        p.until(">>> ")
        p.send(b"half a line\x03")
        p.until("KeyboardInterrupt")
        p.line("x")
        p.until("\n1")
        p.until(">>> ")
        p.send(b"\x04")
        self.assertEqual(p.end(), 0)

    @harness.unittest.skipUnless(LIBEDIT, "libedit is not installed")
    def test_no_key_is_lost_at_a_prompt(self):
        # In a terminal that edits lines itself, a Ctrl-D before the first read would not end it.
        self.ok("1")
        p = self.prompt()
        for turn in range(3000):
            p.until(">>> ")
            self.assertTrue(p.passes_keys(), turn)
            p.send(b"half a line\x03")
            p.until("KeyboardInterrupt")
        p.until(">>> ")
        p.send(b"\x04")
        self.assertEqual(p.end(), 0)

    def test_exit_status(self):
        self.ok("1")
        p = self.prompt()
        p.line("raise SystemExit(5)")
        self.assertEqual(p.end(), 5)

    def test_probes_leave_no_trace(self):
        self.ok("class Evil:\n    def __getattr__(self, name): raise SystemExit(3)\nabc = 1; evil = Evil(); _ = 'mine'")
        before = self.cell("(sorted(globals()), _ if False else len(globals()))")["value"]["repr"]
        listed = self.listed()
        p = self.prompt()
        p.until(">>> ")
        p.send(b"evil.x.y\t\x15")  # the attribute raises
        p.send(b"for i in 1:\n")
        p.until("... ")
        p.send(b"\x03")
        p.until(">>> ")
        p.send(b"\x04")
        self.assertEqual(p.end(), 0)
        self.assertEqual(self.listed()["cells"], listed["cells"])
        cell = self.cell("(sorted(globals()), _ if False else len(globals()))")
        self.assertEqual(cell["value"]["repr"], before)
        self.assertNotIn("notice", cell)

    def listed(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd="/")
        return next(s for s in harness.message_of(done.stdout)[0]["sessions"] if s["name"] == self.session)

    @harness.unittest.skipUnless(LIBEDIT, "libedit is not installed")
    def test_completion_and_history(self):
        self.ok("class Thing:\n    alpha_one = 1\n    alpha_two = 2\n    _hidden = 3\nlonely_name = Thing()\nsetattr(Thing, 'alpha\\x1b[2J', 1)")
        p = self.prompt()
        p.until(">>> ")
        p.send(b"lonely\t.al\t\t")
        p.until("lonely_name.alpha_one  lonely_name.alpha_two")
        p.send(b"two\n")
        p.until("\n2")
        self.assertNotIn("\\x1b", p.text())
        p.until(">>> ")
        p.send(b"\x04")
        self.assertEqual(p.end(), 0)
        path = os.path.join(self.home, "cloister/history")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        p = self.prompt()
        p.until(">>> ")
        p.send(b"\x1b[A")
        p.until("lonely_name.alpha_two")
        p.send(b"\n")
        p.until("\n2")
        p.line("exit()")
        self.assertEqual(p.end(), 0)

    def test_output_is_neutralised(self):
        self.ok("1")
        p = self.prompt()
        p.line("print('\\x1b]0;evil\\x07'); '\\x1b[2J'")
        p.until("\\x1b]0;evil\\x07")
        p.line("exit()")
        self.assertEqual(p.end(), 0)

    def test_a_pipe(self):
        self.ok("x = 3")
        done = subprocess.run([harness.CLOISTER, "exec", "-i", self.session, "--server", str(self.server.process.pid)],
                              input=b"x\nfor i in range(2):\n    print(i)\n\nx + 1", env=harness.environment(), capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"3\n0\n1\n4\n"), done)

    def test_a_file_first(self):
        self.ok("1")
        with open(os.path.join(self.class_dir, "first.py"), "w", encoding="utf-8") as f:
            f.write("first = 11\n")
        p = Prompt(self.home, "exec", "-i", self.session, os.path.join(self.class_dir, "first.py"), "--server", str(self.server.process.pid))
        p.line("first")
        p.until("\n11")
        p.line("quit()")
        self.assertEqual(p.end(), 0)


    def test_code_reads_what_is_typed(self):
        self.ok("1")
        p = self.prompt()
        p.line("name = input('who? ')")
        p.until("who? ')")
        p.until("who? ")
        p.send("Zoë\n".encode())
        p.line("'hello ' + name")
        p.until("'hello Zoë'")
        # Ctrl-C ends the wait; the session continues, and its other code has no standard input.
        p.line("input('again? ')")
        p.until("again? ')")
        p.until("again? ")
        p.send(b"\x03")
        p.until("KeyboardInterrupt")
        p.line("import sys, threading; old = sys.stdin; 9 * 9")
        p.until("81")
        self.assertEqual(self.cell("input()")["error"]["type"], "EOFError")
        self.assertEqual(self.ok("old.buffer.raw.readall()")["value"]["repr"], "b''")
        self.assertEqual(self.ok("name")["value"]["repr"], "'Zoë'")
        p.send(b"exit()\n")
        self.assertEqual(p.end(), 0)

    def test_a_call_ends_while_its_code_reads(self):
        """The prompt comes back at once, and what other threads print is shown before a line is typed."""
        self.ok("1")
        p = self.prompt()
        p.line("import threading; threading.Timer(0.3, print, ['from a', 'thread']).start(); input('first? ')")
        p.until("first? ')")
        p.until("first? ")
        p.until("from a thread")
        subprocess.run([harness.CLOISTER, "sessions", "end", self.session, "--server", str(self.server.process.pid)], env=harness.environment(), check=True)
        p.until("ended")
        p.line("exit()")
        self.assertEqual(p.end(), 0)

    def test_a_prompt_lives_as_long_as_its_terminal(self):
        """A server drops other clients that send nothing for 10 s. Twelve prompts may be silent, and the server still answers."""
        argv = [harness.CLOISTER, "exec", "-i", self.session, "--server", str(self.server.process.pid)]
        self.ok("x = 20")
        waiting = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.environment())
                   for _ in range(13)]
        time.sleep(11.5)
        ended = []
        for i, p in enumerate(waiting):
            out, err = p.communicate(f"x + {i}\n", timeout=harness.PATIENCE)
            if p.returncode != 0:
                self.assertEqual((p.returncode, out, err.count("\n")), (125, "", 1), err)
                ended.append(err)
            else:
                self.assertEqual(out, f"{20 + i}\n")
        self.assertEqual(len(ended), 1, ended)
        self.assertIn("has ended", ended[0])

    def test_a_server_that_has_ended(self):
        from rawmcp import RawServer

        server = RawServer("--config", os.path.join(self.class_dir, "config.json"), cwd=self.class_dir)
        server.initialize()
        server.cell("x = 1", session="lost")
        p = subprocess.Popen([harness.CLOISTER, "exec", "-i", "lost", "--server", str(server.process.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=harness.environment())
        p.stdin.write("x\n")
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), "1\n")
        server.close()
        out, err = p.communicate("x\nx\n", timeout=harness.PATIENCE)
        self.assertEqual((p.returncode, out, err.count("\n")), (125, "", 1), err)
        self.assertRegex(err, "^cloister: .* has ended")


class Run(harness.Case):
    def test_a_prompt_of_its_own(self):
        script = self.write("script.py", "loaded = 4\nprint('hello')\n")
        p = Prompt(self.path("state"), "run", "-i", "--config", self.config(), "--out", self.path("plots"), script)
        p.until("hello")
        p.line("loaded * 2")
        p.until("\n8")
        p.line("display(b'\\x89PNG', 'image/png')")
        p.line("import os; os._exit(1)")
        p.line("exit()")
        self.assertEqual(p.end(), 0)
        self.assertEqual(os.listdir(self.path("plots")), ["display-1.png"])

    def test_what_is_refused(self):
        for words, status, why in (
            (["-"], 2, "standard input"),
            (["--json"], 2, "no single result"),
            (["--env", "1X=1"], 2, "--env"),
            (["--out-hidden"], 2, "--out DIRECTORY"),
            (["--mount", "x"], 125, "--mount"),
            (["--in", "/none/such"], 125, "--in"),
            (["-r", "/none/such"], 125, "/none/such"),
            (["--config", "/none"], 125, "--config"),
            (["none.py"], 125, "none.py"),
            (["-c", "1", "x" * 100000, *["y" * 100000] * 8], 125, "longer than 512 KiB"),
        ):
            done = self.run_cloister("run", "-i", *words)
            self.assertEqual(done.returncode, status, (words, done))
            lines = done.stderr.decode().splitlines()
            self.assertEqual(len(lines), 1, done)
            self.assertIn(why, lines[0])

    def lines(self, *words, lines, status=0, env=None):
        """Returns the output of `run -i`, whose lines come from a pipe."""
        done = subprocess.run([harness.CLOISTER, "run", "-i", "--config", self.config(), *words], input="".join(line + "\n" for line in lines).encode(),
                              env={**harness.environment(), **(env or {})}, capture_output=True, check=False)
        self.assertEqual(done.returncode, status, done)
        return done.stdout.decode().splitlines(), done.stderr.decode()

    def test_options_of_run(self):
        self.write("beside.py", "there = 'beside'\n")
        self.write("data.csv", "a,b\n")
        self.write("empty", "")
        script = self.write("script.py", "import os, sys, beside\nprint(sys.argv, __file__, open('in.csv').read().strip(), beside.there, os.environ['A'], os.environ['B'])\n")
        os.makedirs(self.path("host"))
        self.write("host/seen", "mounted")
        out, _ = self.lines(
            "--env", "A=ä b", "--env", "B", "--in", self.path("data.csv") + "=in.csv", "--in", self.path("empty"), "--mount", self.path("host") + ":/data",
            "--out", self.path("results"),
            script, "x", "--timeout", b"\xff", env={"B": "from here"},
            lines=(
                "sys.argv[1:], os.environ['A'], __file__",
                "open('/data/seen').read(), open('empty').read()",
                "open('/data/seen', 'w')",
                "os.makedirs('out/below', exist_ok=True); _ = open('out/below/a.txt', 'w').write('made'); _ = open('out/.hidden', 'w').write('x')",
                "display(b'\\x89PNG', 'image/png')",
            ),
            status=125,  # .hidden was left out
        )
        self.assertEqual(out[0], f"['{script}', 'x', '--timeout', '\\udcff'] /workspace/script.py a,b beside ä b from here")
        self.assertEqual(out[1], "(['x', '--timeout', '\\udcff'], 'ä b', '/workspace/script.py')")
        self.assertEqual(out[2:], ["('mounted', '')"])
        with open(self.path("results/below/a.txt"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "made")
        self.assertEqual(sorted(os.listdir(self.path("results"))), ["below", "display-1.png"])

    def test_what_is_said_of_them(self):
        _, said = self.lines("--timeout", "1", lines=("while True: pass", "", "1"))
        self.assertIn("timeout", said)
        _, said = self.lines("-c", "open('out/.x', 'w').close()", "--out", self.path("plots"), lines=(), status=125)
        self.assertIn("--out-hidden", said)
        out, _ = self.lines("-c", "import sys; open('out/.x', 'w').close()", "--out", self.path("all"), "--out-hidden", "word", lines=("sys.argv",))
        self.assertEqual((out, os.listdir(self.path("all"))), (["['-c', 'word']"], [".x"]))
        out, _ = self.lines("--env", "A=1", lines=("import os, sys; sys.argv, os.environ['A']", "os._exit(3)", "import os, sys; os.environ['A']", "sys.exit(4)"), status=4)
        self.assertEqual(out, ["([''], '1')", "'1'"])

    def test_a_killed_prompt_leaves_nothing(self):
        p = Prompt(self.path("state"), "run", "-i", "--config", self.config())
        p.until(">>> ")
        os.kill(p.pid, signal.SIGKILL)
        self.assertEqual(p.end(), -signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
