"""Commands that the owner of a server runs in its sessions: `cloister exec` and `cloister cp`."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import harness
from rawmcp import ServerCase

OTHER_UID = 65000


class OwnerCase(ServerCase):
    """One server, and commands of its owner."""

    def setUp(self):
        super().setUp()
        self.dir = tempfile.mkdtemp(prefix="cloister-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def owner(self, *args, **options):
        return self.run_cloister(*args, "--server", str(self.server.process.pid), **options)

    def exec(self, *args, session=None, **options):
        return self.owner("exec", session or self.session, *args, **options)

    def start(self, *args):
        return subprocess.Popen(
            [harness.CLOISTER, *args, "--server", str(self.server.process.pid)], env=harness.environment(), cwd=self.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def listed(self):
        (server,) = harness.message_of(self.owner("sessions", "--json").stdout)
        return {session["name"]: session for session in server["sessions"]}

    def state(self):
        return self.listed()[self.session]["state"]

    def kept(self):
        """Waits until there is a copy of the variables."""
        self.assertTrue(harness.wait_until(lambda: "copy_of_cell" in self.listed()[self.session]))

    def busy(self, code="import asyncio, os\nwhile not os.path.exists('go'):\n    await asyncio.sleep(0.01)"):
        """Starts a call of the agent that keeps running."""
        call = self.server.start_call(code, session=self.session)
        self.assertTrue(harness.wait_until(lambda: self.listed().get(self.session, {}).get("state") == "running"))
        return call

    def connect(self):
        (path,) = harness.control_sockets(self.server.process.pid)
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(harness.PATIENCE)
        client.connect(path)
        self.addCleanup(client.close)
        return client

    def ask(self, method, client=None, **params):
        client = client or self.connect()
        client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        return client


class Exec(OwnerCase):
    def test_uses_the_session(self):
        self.ok("x = 20")
        done = self.exec("-c", "print('out')\nimport sys\nprint('err', file=sys.stderr)\ny = x + 1\ny * 2")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"out\n42\n", b"err\n"), done)
        self.assertEqual(self.value("y"), 21)

    def test_a_file_and_standard_input(self):
        self.ok("x = 1")
        self.write("fix.py", "x += 10\nx\nprint(__name__)\nraise SystemExit(3)")
        done = self.exec("fix.py")
        self.assertEqual((done.returncode, done.stdout), (3, b"__main__\n"), done)
        done = subprocess.run(
            [harness.CLOISTER, "exec", self.session, "-", "--server", str(self.server.process.pid)], input=b"print(x)",
            env=harness.environment(), capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"11\n"), done)

    def test_exit_codes(self):
        self.ok("x = 1")
        done = self.exec("-c", "1/0")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"ZeroDivisionError", done.stderr)
        done = self.exec("-c", "import time\ntime.sleep(60)", "--timeout", "0.2")
        self.assertEqual(done.returncode, 124, done)
        self.assertIn(b"0.2 s", done.stderr)
        self.kept()
        done = self.exec("-c", "import os\nos._exit(4)")
        self.assertEqual((done.returncode, self.value("x")), (4, 1), done)
        self.assertIn(b"restored", done.stderr)
        self.assertEqual(self.exec().returncode, 2)
        self.assertEqual(self.exec("-c", "1", session="x\x1b[2J").returncode, 2)
        done = self.exec("-c", "1", session="nobody")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"no live session is called 'nobody'", done.stderr)
        self.assertEqual(self.exec("-c", "1", "--timeout", "20h").returncode, 125)

    def test_the_agent_is_told(self):
        self.ok("x = 1")
        self.exec("-c", "x = 5")
        self.exec("-c", "x += 1\nprint('second line')")
        result = self.call("x")
        notice = result["structuredContent"]["notice"]
        self.assertIn("a person has run 2 cells in this session, the last one: x += 1", notice)
        self.assertIn("a person has run 2 cells", self.text(result))
        self.assertEqual(result["structuredContent"]["value"]["json"], 6)
        self.assertNotIn("notice", self.call("x")["structuredContent"])

    def test_the_agent_is_told_what_was_lost_first(self):
        self.ok("x = 1")
        self.assertEqual(self.owner("sessions", "reset", self.session).returncode, 0)
        self.assertTrue(harness.wait_until(lambda: self.listed().get(self.session, {}).get("cells") == 0))
        done = self.exec("-c", "y = 1")
        self.assertIn(b"its owner ended it", done.stderr)
        cell = self.call("'x' in globals()")["structuredContent"]
        self.assertEqual((cell["state"], cell["value"]["json"]), ("new", False))
        self.assertIn("its owner ended it", cell["notice"])
        self.assertIn("a person has run 1 cell", cell["notice"])

    def test_a_busy_session(self):
        call = self.busy("import asyncio, os\nprint('half way', flush=True)\nwhile not os.path.exists('go'):\n    await asyncio.sleep(0.01)")
        done = self.exec("-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.assertIn(b"is busy", done.stderr)
        self.assertIn(b"import asyncio, os", done.stderr)
        self.assertTrue(harness.wait_until(lambda: b"its last line: half way" in self.exec("-c", "1").stderr))
        done = self.exec("-c", "print(1)", "--wait", "0.2", "--json")
        self.assertEqual((done.returncode, harness.message_of(done.stdout)["structuredContent"]["status"]), (125, "busy"))
        waiting = self.start("exec", self.session, "-c", "print('mine')", "--wait", "60")
        self.assertTrue(harness.wait_until(lambda: self.listed()[self.session]["waiting"] == 1))
        self.assertEqual(self.owner("cp", "/dev/null", f"{self.session}:go").returncode, 0)
        out, err = waiting.communicate(timeout=harness.PATIENCE)
        self.assertEqual((waiting.returncode, out), (0, b"mine\n"), err)
        call.result()

    def test_output_is_streamed(self):
        self.ok("1")
        process = self.start("exec", self.session, "-c", "import time\nprint('now', flush=True)\ntime.sleep(60)")
        self.assertEqual(process.stdout.readline(), b"now\n")
        self.assertEqual(self.state(), "running")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_json(self):
        self.ok("x = [1]")
        done = self.exec("-c", "print('a')\nx", "--json")
        result = harness.message_of(done.stdout)
        self.assertEqual(result["structuredContent"]["value"]["json"], [1])
        self.assertEqual(result["structuredContent"]["stdout"], "a\n")
        self.assertEqual((done.returncode, result["isError"]), (0, False))
        done = self.exec("-c", "1/0", "--json")
        self.assertEqual((done.returncode, harness.message_of(done.stdout)["isError"]), (1, True))

    def test_displays(self):
        self.ok("1")
        code = "display('plain')\ndisplay(b'\\x89PNG', 'image/png')"
        done = self.exec("-c", code)
        self.assertEqual((done.returncode, done.stdout), (0, b"plain\n"), done)
        self.assertIn(b"image/png was displayed", done.stderr)
        done = self.exec("-c", code, "--out", self.path("plots"))
        self.assertEqual(done.returncode, 0, done)
        with open(self.path("plots/display-1.png"), "rb") as f:
            self.assertEqual(f.read(), b"\x89PNG")

    def test_a_client_that_leaves(self):
        self.ok("x = 1")
        process = self.start("exec", self.session, "-c", "import time\nprint(1, flush=True)\ntime.sleep(60)")
        process.stdout.readline()
        process.kill()
        process.communicate()
        self.assertTrue(harness.wait_until(lambda: self.state() != "running"))
        cell = self.call("x")["structuredContent"]
        self.assertEqual(cell["value"]["json"], 1)
        self.assertIn("a person has run 1 cell", cell["notice"])

    @harness.unittest.skipUnless(harness.WHOLE, "waits for a timeout: suite slow")
    def test_a_client_that_does_not_read(self):
        self.ok("x = 1")
        client = self.ask("sessions/exec", name=self.session, code="while True: print('x' * 1000)", stream=True, timeout_ms=1500)
        self.assertTrue(harness.wait_until(lambda: self.state() != "running"))
        # The output stopped when the pipes and buffers were full.
        self.assertLess(self.listed()[self.session]["memory_bytes"], 200 << 20)
        client.close()
        self.assertEqual(self.value("x"), 1)

    def test_frozen_branched_and_restored(self):
        self.ok("x = 1")
        self.call("pass", session="twig", **{"from": self.session})
        self.assertEqual(self.exec("-c", "x += 1\nx", session="twig").stdout, b"2\n")
        self.assertEqual(self.exec("-c", "x").stdout, b"1\n")
        self.kept()
        self.call("import os\nos._exit(1)")
        self.assertEqual(self.exec("-c", "x").stdout, b"1\n")
        done = self.call("x = 7\n1/0", on_error="rollback")
        self.assertEqual(done["structuredContent"]["state"], "rolled_back")
        self.assertEqual(self.exec("-c", "x").stdout, b"1\n")

    def test_it_ends_before_the_code_runs(self):
        """The owner's code needs the session's variables, therefore it is not run in another sandbox. A call of the agent is run there."""
        self.ok("x = 1")
        running = self.busy()
        waiting = self.start("exec", self.session, "-c", "print('x' in globals())", "--wait", "60")
        self.assertTrue(harness.wait_until(lambda: self.listed()[self.session]["waiting"] == 1))
        next_call = self.server.start_call("'x' in globals()", session=self.session)
        self.assertTrue(harness.wait_until(lambda: self.listed()[self.session]["waiting"] == 2))
        self.assertEqual(self.owner("sessions", "end", self.session).returncode, 0)
        out, err = waiting.communicate(timeout=harness.PATIENCE)
        self.assertEqual((waiting.returncode, out), (125, b""), err)
        self.assertEqual(err, b"cloister: the session ended before this code ran: its owner ended it with 'cloister sessions'\n")
        self.assertEqual(running.result(harness.PATIENCE)["structuredContent"]["status"], "killed")
        cell = next_call.result(harness.PATIENCE)["structuredContent"]
        self.assertEqual((cell["status"], cell["value"]["json"], cell["state"]), ("ok", False, "new"))
        self.assertEqual(self.owner("sessions", "end", self.session).returncode, 0)
        self.assertTrue(harness.wait_until(lambda: self.session not in self.listed()))
        done = self.exec("-c", "1")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"no live session", done.stderr)

    def test_while_it_is_restored(self):
        self.ok("import os\nx = 1")
        for waits in ((), ("--wait", "60")):
            self.kept()
            call = self.server.start_call("os._exit(1)", session=self.session)
            done = self.exec("-c", "x", *waits)
            self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["state"], "restored")
            if done.returncode == 125 and not waits:
                self.assertIn(b"is busy", done.stderr)
            else:
                self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)

    def test_many_at_once(self):
        """More clients than the server accepts: each command is run, or refused with the reason. The server continues."""
        self.ok("n = 0")
        processes = [self.start("exec", self.session, "-c", "n += 1", "--wait", "30") for _ in range(1000 if harness.WHOLE else 30)]
        ends = [(p.communicate(timeout=10 * harness.PATIENCE)[1], p.returncode) for p in processes]
        ran = sum(code == 0 for _, code in ends)
        self.assertTrue(all(code in (0, 125) for _, code in ends), ends)
        for err, code in ends:
            if code:
                self.assertRegex(err, b"are running in this server|too many clients|does not answer")
        self.assertGreaterEqual(ran, 8)
        self.assertEqual(self.value("n"), ran)

    def test_tasks_are_bounded(self):
        self.ok("1")
        clients = [self.ask("sessions/exec", name=self.session, code="import time\ntime.sleep(60)", wait_ms=60000) for _ in range(16)]
        self.assertTrue(harness.wait_until(lambda: self.listed()[self.session]["waiting"] == 15))
        done = self.exec("-c", "1", "--wait", "1")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"16 of your commands are running", done.stderr)
        for client in clients:
            client.close()
        self.assertTrue(harness.wait_until(lambda: self.state() == "idle"))
        self.assertEqual(self.exec("-c", "1").returncode, 0)

    def test_hostile_output(self):
        """Escape sequences reach no terminal, also in the name of a display's type and in errors."""
        self.ok("1")
        code = "print('\\x1b[2J\\x1b]0;x\\x07')\nraise ValueError('\\x1b[31m')"
        self.assertIn(b"\x1b[2J", self.exec("-c", code).stdout)  # the control: a pipe gets the bytes
        out = self.on_terminal("exec", self.session, "-c", code)
        self.assertNotIn(b"\x1b[2J", out)
        self.assertNotIn(b"\x1b]0", out)
        self.assertIn(b"\\x1b[2J", out)
        self.assertNotIn(b"\x07", out)

    def test_a_name_that_looks_like_another_is_left_out(self):
        self.ok("import os\nos.makedirs('/workspace/names')\nfor name in ('plain', 'a\\u202efdp.exe', 'a\\u2066b'): open('/workspace/names/' + name, 'w').close()")
        done = self.run_cloister("cp", "-r", f"{self.session}:names", f"{self.class_dir}/names", "--server", str(self.server.process.pid))
        self.assertEqual((done.returncode, os.listdir(f"{self.class_dir}/names")), (1, ["plain"]))
        self.assertIn(b"names that cannot be shown", done.stderr)

    def test_a_file_for_a_terminal_is_escaped_too(self):
        self.ok("_ = open('/workspace/hostile', 'wb').write(b'a\\x1b]52;c;eA==\\x07b\\xe2\\x80\\xae\\nc\\xff')")
        out = self.on_terminal("cp", f"{self.session}:hostile", "-")
        self.assertEqual(out, b"a\\x1b]52;c;eA==\\x07b\\u202e\r\nc\xef\xbf\xbd")
        done = self.run_cloister("cp", f"{self.session}:hostile", "-", "--server", str(self.server.process.pid))
        self.assertEqual(done.stdout, b"a\x1b]52;c;eA==\x07b\xe2\x80\xae\nc\xff", "the control: no terminal")

    def on_terminal(self, *args):
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(harness.CLOISTER, [harness.CLOISTER, *args, "--server", str(self.server.process.pid)], harness.environment())
        out = b""
        while True:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        os.close(fd)
        os.waitpid(pid, 0)
        return out

    def test_requests_are_checked(self):
        self.ok("x = 1")
        for method, params in (
            ("sessions/exec", {"name": self.session}),
            ("sessions/exec", {"name": self.session, "code": 1}),
            ("sessions/exec", {"name": self.session, "code": "1", "timeout_ms": 10**9}),
            ("sessions/exec", {"name": self.session, "code": "1", "wait_ms": -1}),
            ("sessions/exec", {"name": self.session, "code": "1", "filename": "x" * 300}),
            ("sessions/exec", {"name": "../x", "code": "1"}),
            ("sessions/exec", {"name": "absent", "code": "1"}),
            ("sessions/probe", {"name": self.session}),
            ("files/get", {"name": self.session, "path": "../etc/passwd", "offset": 0}),
            ("files/get", {"name": self.session, "path": "x"}),
            ("files/put", {"name": self.session, "path": "/x", "offset": 0, "data": ""}),
            ("files/put", {"name": self.session, "path": "x", "to": "a/../b", "offset": 0, "data": ""}),
            ("files/put", {"name": self.session, "path": "x", "offset": 0, "data": "?"}),
            ("files/list", {"name": self.session, "path": "a//b"}),
        ):
            with self.subTest(method=method, params=params):
                answer = json.loads(self.ask(method, **params).makefile().readline())
                self.assertIn("error", answer)
        # Another request before the answer ends the connection.
        client = self.ask("sessions/exec", name=self.session, code="import time\ntime.sleep(60)")
        self.ask("sessions/list", client)
        self.assertEqual(client.recv(1), b"")
        self.assertEqual(self.value("x"), 1)

    def test_what_the_code_gets_is_checked(self):
        """Only the owner may send `script`. An invalid one must not leave a session in which every cell fails."""
        def run(i, script):
            client = self.ask("sessions/exec", name=f"scripted-{i}", create=True, script=script,
                              code="import os, sys; [sys.argv, os.environ.get('A'), globals().get('__file__'), sys.path[0]]")
            answer = json.loads(client.makefile().readline())
            return answer["result"]["result"]["structuredContent"] if "result" in answer else answer
        given = {"arguments": ["x", "y"], "environment": {"A": "1"}, "input": "none"}
        wrong = ["{", "[]", "{}", "[" * 200 + "]" * 200, json.dumps({"arguments": ["x"]})]
        wrong += [json.dumps({**given, key: value}) for key, value in (
            ("arguments", 1), ("arguments", None), ("arguments", "x"), ("arguments", ["x", 1]), ("environment", None), ("environment", {"A": 1}),
            ("environment", {"A=B": "1"}), ("environment", {"A": "1\0"}), ("file", 1), ("input", 1))]
        for i, script in enumerate(wrong):
            with self.subTest(script=script):
                result = run(i, script)
                self.assertEqual(result["status"], "error", result)
                self.assertIn("script: ", result["error"]["message"])
                done = self.exec("-c", "import sys; print(sys.argv, 6 * 7)", session=f"scripted-{i}")
                self.assertEqual((done.stdout, done.returncode), (b"[''] 42\n", 0), done.stderr)
        # Empty code does not create a session.
        self.assertIn("script", run("none", 7)["error"]["message"])
        self.assertNotIn("scripted-none", self.listed())
        # The control: a script as `cloister run` sends it, with bytes that are not UTF-8.
        value = run("fine", json.dumps({**given, "arguments": ["x", "\udcff"], "file": "/f/x.py"}))["value"]
        self.assertEqual(value["repr"], "[['x', '\\udcff'], '1', '/f/x.py', '/f']")

    def test_another_user_cannot(self):
        if not harness.ROOT:
            self.skipTest("needs root")
        self.ok("1")
        other = ["setpriv", "--reuid", str(OTHER_UID), "--clear-groups", "--inh-caps=-all"]
        (path,) = harness.control_sockets(self.server.process.pid)
        script = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
                  "s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sessions/list\"}\\n')\nprint(s.recv(9))")
        self.assertEqual(subprocess.run([harness.PYTHON, "-c", script, path], capture_output=True, check=False).returncode, 0)
        done = subprocess.run([*other, harness.PYTHON, "-c", script, path], capture_output=True, check=False)
        self.assertIn(b"PermissionError", done.stderr)


@harness.unittest.skipUnless(harness.BOUNDED, "no session is frozen here")
class Frozen(OwnerCase):
    CONFIG = {"freeze": "300ms"}

    def test_it_is_thawed(self):
        self.ok("x = 1")
        local = os.path.join(self.dir, "local")
        with open(local, "wb") as f:
            f.write(b"in")
        for words, out in ((("exec", self.session, "-c", "x += 1; x"), b"2\n"), (("cp", local, self.session + ":file"), b""), (("cp", self.session + ":file", "-"), b"in")):
            self.assertTrue(harness.wait_until(lambda: self.state() == "frozen"), words)
            done = self.owner(*words)
            self.assertEqual((done.returncode, done.stdout), (0, out), done.stderr)


class Copy(OwnerCase):
    def cp(self, *args, **options):
        return self.owner("cp", *args, **options)

    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def get(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def here(self):
        return sorted(os.path.relpath(os.path.join(at, name), self.dir) for at, _, names in os.walk(self.dir) for name in names)

    def test_both_ways(self):
        self.ok("1")
        for size in (0, 1, 512 * 1024, 2_000_003) if harness.WHOLE else (0, 700_001):
            content = os.urandom(size)
            self.put("a.bin", content)
            done = self.cp("a.bin", f"{self.session}:data/b.bin")
            self.assertEqual(done.returncode, 0, done)
            done = self.cp(f"{self.session}:data/b.bin", "c.bin")
            self.assertEqual((done.returncode, self.get("c.bin") == content), (0, True), done)
        self.assertEqual(self.value("import os; sorted(os.listdir('data'))"), ["b.bin"])
        self.assertEqual(self.value("oct(os.stat('data/b.bin').st_mode & 0o777)"), "0o644")

    def test_the_agent_is_told(self):
        self.ok("1")
        self.put("a.csv", b"1")
        self.put("b.csv", b"2")
        self.cp("a.csv", f"{self.session}:")
        self.cp("b.csv", f"{self.session}:in/")
        notice = self.call("1")["structuredContent"]["notice"]
        self.assertEqual(notice, "since the last call a person has copied 2 files to /workspace, the last one: in/b.csv")

    def test_names(self):
        self.ok("import os; os.mkdir('d'); open('x.txt', 'w').write('x')")
        self.put("sub/f", b"f")
        self.assertEqual(self.cp("sub/f", f"{self.session}:d").returncode, 0)
        self.assertEqual(self.cp("sub/f", f"{self.session}:/workspace/d/g").returncode, 0)
        self.assertEqual(self.value("sorted(os.listdir('d'))"), ["f", "g"])
        self.assertEqual(self.cp(f"{self.session}:x.txt", ".").returncode, 0)
        self.assertEqual(self.cp(f"{self.session}:x.txt", "sub").returncode, 0)
        self.assertEqual(self.cp(f"{self.session}:x.txt", "sub/y").returncode, 0)
        self.assertEqual(self.here(), ["sub/f", "sub/x.txt", "sub/y", "x.txt"])
        for words, status in (
            ((f"{self.session}:/etc/passwd", "."), 125), ((f"{self.session}:../etc/passwd", "."), 125),
            (("x.txt", f"{self.session}:/tmp/x"), 125), (("x.txt", f"{self.session}:a/../../x"), 125),
            (("x.txt", "nobody:"), 125), (("x.txt", "y.txt"), 2), ((f"{self.session}:a", f"{self.session}:b"), 2),
            (("sub", f"{self.session}:"), 125), ((f"{self.session}:d", "."), 125), ((f"{self.session}:none", "."), 125),
            ((f"{self.session}:x.txt", "none/y"), 125), (("none", f"{self.session}:"), 125),
        ):
            done = self.cp(*words)
            self.assertEqual(done.returncode, status, (words, done))
        self.assertEqual(self.here(), ["sub/f", "sub/x.txt", "sub/y", "x.txt"])

    def test_streams(self):
        self.ok("1")
        done = subprocess.run([harness.CLOISTER, "cp", "-", f"{self.session}:s", "--server", str(self.server.process.pid)],
                              input=b"from a pipe", env=harness.environment(), capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.cp(f"{self.session}:s", "-").stdout, b"from a pipe")
        self.assertEqual(self.cp("-", f"{self.session}:").returncode, 125)

    def test_directories(self):
        self.ok("1")
        for name in ("tree/a", "tree/b/c", "tree/.hidden", "tree/b/.git/config"):
            self.put(name, name.encode())
        os.symlink("/etc/passwd", self.path("tree/link"))
        os.symlink("/etc", self.path("tree/b/linked"))
        os.mkfifo(self.path("tree/fifo"))
        done = self.cp("-r", "tree", f"{self.session}:")
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr.count(b"a symbolic link is not copied"), 2, done)
        self.assertIn(b"fifo: neither", done.stderr)
        walk = "import os; sorted(os.path.join(a, n) for a, _, names in os.walk('.') for n in names)"
        self.assertEqual(self.value(walk), ["./tree/.hidden", "./tree/a", "./tree/b/.git/config", "./tree/b/c"])
        done = self.cp("-r", f"{self.session}:tree", "back")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b".hidden: a name with a leading dot", done.stderr)
        self.assertEqual([n for n in self.here() if n.startswith("back")], ["back/a", "back/b/c"])
        os.mkdir(self.path("place"))
        done = self.cp("-r", f"{self.session}:tree/", "place", "--out-hidden")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([n for n in self.here() if n.startswith("place")],
                         ["place/tree/.hidden", "place/tree/a", "place/tree/b/.git/config", "place/tree/b/c"])
        # A file that is named explicitly is copied.
        self.assertEqual(self.cp(f"{self.session}:tree/.hidden", ".").returncode, 0)
        self.assertEqual(self.get(".hidden"), b"tree/.hidden")

    def test_links_of_the_guest(self):
        """A path in the session that leads out of /workspace by links is not followed, and no name of it writes elsewhere."""
        self.ok("import os\nos.symlink('/etc/passwd', 'p')\nos.symlink('/etc', 'e')\nos.symlink('/tmp', 't')\nos.mkdir('out', ) if not os.path.isdir('out') else 0\n"
                "os.symlink('/', 'out/root')\nopen('out/ok', 'w').write('ok')")
        self.put("secret", b"mine")
        for path in ("p", "e/passwd", "t/x", "out/root/etc/passwd"):
            self.assertEqual(self.cp(f"{self.session}:{path}", "got").returncode, 125, path)
            self.assertNotEqual(self.cp("secret", f"{self.session}:{path}/x").returncode, 0, path)
        self.assertEqual(self.cp("-r", f"{self.session}:out", "got").returncode, 0)
        self.assertEqual(self.here(), ["got/ok", "secret"])
        # A link that has the name of the file is replaced, not followed.
        self.assertEqual(self.cp("secret", f"{self.session}:p").returncode, 0)
        self.assertEqual(self.cell("(os.path.islink('p'), open('p').read())")["value"]["repr"], "(False, 'mine')")

    def test_links_of_the_host(self):
        """A link on the host that has the name of the file or directory is replaced or refused: nothing is written through it."""
        self.ok("import os\nopen('f', 'w').write('new')\nos.makedirs('d/sub')\nopen('d/sub/f', 'w').write('new')")
        self.put("outside/f", b"old")
        os.symlink("outside/f", self.path("f"))
        self.assertEqual(self.cp(f"{self.session}:f", "f").returncode, 0)
        self.assertEqual((self.get("outside/f"), self.get("f"), os.path.islink(self.path("f"))), (b"old", b"new", False))
        os.mkdir(self.path("place"))
        os.mkdir(self.path("place/d"))
        os.symlink("../../outside", self.path("place/d/sub"))
        self.assertEqual(self.cp("-r", f"{self.session}:d", "place").returncode, 125)
        self.assertEqual(self.get("outside/f"), b"old")
        self.assertEqual([n for n in self.here() if ".part" in n], [])

    def test_a_race(self):
        """Code swaps files and directories for links while they are copied: only files below /workspace are copied, or none."""
        self.ok("import os, threading\nos.makedirs('r/d')\nopen('r/d/passwd', 'w').write('decoy')\n"
                "def swap():\n    while go:\n        os.rename('r/d', 'r/x'); os.symlink('/etc', 'r/d'); os.unlink('r/d'); os.rename('r/x', 'r/d')\n"
                "go = True\nthread = threading.Thread(target=swap, daemon=True); thread.start()")
        for _ in range(30 if harness.WHOLE else 4):
            if self.cp(f"{self.session}:r/d/passwd", "got").returncode == 0:
                self.assertEqual(self.get("got"), b"decoy")
            self.cp("-r", f"{self.session}:r", "tree")
            for name in self.here():
                self.assertEqual(self.get(name), b"decoy", name)
        self.ok("go = False; thread.join()")

    def test_a_forged_list(self):
        """The worker can send false data about its files; the data are checked twice."""
        names = ["../evil", "/evil", "a/../../evil", "ok/./x", "", "x" * 300, ".ssh/key", "line\nbreak", "tab\there", "fine"]
        self.ok("import sys\nf = next(m for n, m in sys.modules.items() if n == 'cloister.files')\n"
                f"names = {names!r}\nimport base64\n"
                "f.Files._list = lambda self, path, n: f.encode_own({'ok': True, 'kind': 'directory', 'files': ["
                "{'path': p, 'size': 1, 'mime': 'text/plain'} for p in names if only is None or p == only], 'files_total': 1})\n"
                "f.Files._fetch = lambda self, r: b'{\"ok\":true,\"data\":\"eA==\",\"size\":1,\"eof\":true,\"version\":\"v\"}'\nonly = 'fine'")
        self.assertEqual(self.cp("-r", f"{self.session}:", "got").returncode, 0)
        self.assertEqual(self.here(), ["got/fine"])  # the control
        for name in names[:-1]:
            # The broker ends a session whose worker breaks the rules for paths.
            self.call(f"only = {name!r}", session=self.session)
            self.cp("-r", f"{self.session}:", "got")
            self.assertEqual(self.here(), ["got/fine"], name)
            if self.listed().get(self.session, {}).get("state") != "idle":
                break

    def test_while_code_awaits(self):
        call = self.busy()
        self.put("a", b"1")
        self.assertEqual(self.cp("a", f"{self.session}:a").returncode, 0)
        self.assertEqual(self.cp(f"{self.session}:a", "-").stdout, b"1")
        self.cp("a", f"{self.session}:go")
        self.assertEqual(call.result()["structuredContent"]["status"], "ok")

    def test_nothing_half_is_left(self):
        self.ok("import os\nos.mkdir('full')")
        process = subprocess.Popen([harness.CLOISTER, "cp", "-", f"{self.session}:big", "--server", str(self.server.process.pid)],
                                   stdin=subprocess.PIPE, env=harness.environment())
        process.stdin.write(b"x" * (3 << 20))
        process.stdin.flush()
        self.assertTrue(harness.wait_until(lambda: self.value("len([n for n in os.listdir('.') if n.endswith('.part')])") == 1))
        self.assertEqual(self.value("os.path.exists('big')"), False)
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        self.assertEqual(self.value("sorted(os.listdir('.'))"), ["big", "full", "out"])


if __name__ == "__main__":
    harness.main()
