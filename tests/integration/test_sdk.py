"""The client in Python (docs/sdk.md), over stdio and HTTP: what it returns, how it fails, what it leaves behind."""

import asyncio
import concurrent.futures
import contextlib
import gc
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "packaging", "python"))
os.environ.update(harness.environment())
os.environ["PATH"] = f"{harness.BUILD}:{os.environ['PATH']}"

import mcp.client.session  # pylint: disable=wrong-import-position
import cloister.server  # pylint: disable=wrong-import-position
from cloister import AsyncSandbox, CallRefused, Sandbox, SandboxError, ServerLost, ServerNotFound, ServerTooOld  # pylint: disable=wrong-import-position
from cloister import llm_sandbox  # pylint: disable=wrong-import-position

logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").setLevel(logging.CRITICAL)
PICTURE = """
import struct, zlib
part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
display(b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)) + part(b"IDAT", zlib.compress(b"\\0" * 14)) + part(b"IEND", b""))
"""
# A server that misbehaves in the way that its name says.
FAKE = '''#!/usr/bin/python3
import json, os, signal, sys, time
mode = os.path.basename(sys.argv[0])
def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
while mode == "junk":
    print("nonsense", flush=True)
    time.sleep(0.1)
if mode == "loud":
    os.write(2, b"y" * 3000000)
for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    common = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if mode == "ends-" + method.replace("/", "-"):
        print("last words", file=sys.stderr, flush=True)
        os._exit(9)
    elif mode == "hangs-" + method.replace("/", "-"):
        time.sleep(1000)
    elif mode == "null-" + method.replace("/", "-"):
        send(id=number, result=None)
    elif mode == "late" and number == 1:
        pass
    elif method == "server/discover" and mode != "old":
        send(id=number, result={**common, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif method == "server/discover":
        send(id=number, error={"code": -32601, "message": "Method not found"})
    elif method == "initialize":
        send(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "cloister", "version": "0.0.1"}})
    elif method == "tools/list":
        name = "other" if mode == "stranger" else "run_python"
        send(id=number, result={**common, "tools": [{"name": name, "inputSchema": {"type": "object", "properties": {"code": {}, "session": {}, "timeout": {}}}}]})
    elif method == "tools/call":
        content = {"status": "ok", "receipt": {}, "value": "x" if mode == "nonsense" else {}, "truncated": {"resource": "cloister://a/stdout"} if mode == "endless" else {}}
        send(id=number, result={**common, "content": [], **({} if mode == "empty" else {"structuredContent": content})})
    elif method == "resources/read":
        send(id=number, result={**common, "contents": [{"uri": "cloister://a/stdout", "text": "z" * 1000000}, {"uri": "cloister://a/stdout", "text": ""}]})
'''


class SdkCase(harness.Case):
    """A sandbox that is open during a test, and checks of what is left after it."""

    def setUp(self):
        super().setUp()
        self.threads, self.descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))

    def sandbox(self, **options):
        sandbox = Sandbox(**options)
        self.addCleanup(sandbox.close)
        return sandbox.open()

    def check_residue(self):
        gc.collect()
        self.assertTrue(harness.wait_until(lambda: threading.active_count() == self.threads, 10), threading.enumerate())
        self.assertEqual(len(os.listdir("/proc/self/fd")), self.descriptors)
        super().check_residue()

    @contextlib.contextmanager
    def served(self, *options):
        """cloister serve on a free port; yields its url and process."""
        process = subprocess.Popen([harness.CLOISTER, "serve", "--listen", "127.0.0.1:0", "--config", self.config(), *options], stdin=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env=harness.environment(), cwd=self.dir)
        with process:
            try:
                yield re.search(r"http://\S+", process.stderr.readline()).group(), process
            finally:
                process.terminate()

    def sessions(self, process):
        done = self.run_cloister("sessions", "--json")
        return [session["name"] for server in json.loads(done.stdout) if server["server"] == process.pid for session in server["sessions"]]


class Code(SdkCase):
    def test_results(self):
        s = self.sandbox(config=self.config({"fixture": harness.fixture()}))
        result = s.run_code("import sys\nx = 1\nprint('hi')\nprint('err', file=sys.stderr)\n{'a': [x, 2**70, None]}")
        self.assertEqual((result.status, result.stdout, result.stderr, result.value), ("ok", "hi\n", "err\n", {"a": [1, 2**70, None]}))
        self.assertIn("hi", result.text)
        result = s.run_code("x + y")
        self.assertEqual((result.status, result.error.type, result.value), ("error", "NameError", None))
        self.assertIn("x + y", result.error.traceback)
        self.assertEqual(s.run_code("{x, 2}").value_repr, "{1, 2}")
        self.assertEqual(s.run_code("import sys; sys.exit(3)").exit_code, 3)
        self.assertEqual(s.run_code("while True: pass", timeout=1).status, "timeout")
        self.assertEqual(s.run_code("import sys\nsys.set_int_max_str_digits(0)\n[10 ** 5000]").status, "ok")
        image, = s.run_code(PICTURE).images
        self.assertEqual((image.mime_type, image.data[:4]), ("image/png", b"\x89PNG"))
        self.assertEqual(s.run_code("print(next(iter(tools)))\nlen(tools) > 0").value, True)
        self.assertEqual(len(s.run_code("print('é' * 3000000)").stdout), 3000001)
        result = s.run_code("x = 5\n1/0", rollback=True)
        self.assertEqual((result.error.type, s.run_code("x").value), ("ZeroDivisionError", 1))
        with self.assertRaisesRegex(CallRefused, "timeout must be"):
            s.run_code("1", timeout=-1)
        self.assertRegex(s.run_code("1", dependencies=["six"]).error.message, "packages.install")
        for wrong in ({"code": "'\udcff'"}, {"code": b"1"}, {"code": "1", "timeout": float("nan")}, {"code": "1", "restore": "\udcff"}):
            with self.subTest(wrong), self.assertRaises((ValueError, TypeError)):
                s.run_code(**wrong)
        self.assertEqual(s.run_code("1").value, 1)
        with self.assertRaisesRegex(ValueError, "language 'cobol'"):
            Sandbox(language="cobol")
        with self.assertRaisesRegex(ServerTooOld, "no tool run_javascript"):
            Sandbox(language="javascript").open()

    def test_output_while_it_runs(self):
        s = self.sandbox()
        parts, errors, threads = [], [], set()

        def take(text):
            parts.append(text)
            threads.add(threading.current_thread())

        result = s.run_code("import sys, time\nfor i in range(4):\n    print(i)\n    print('e', file=sys.stderr)\n    time.sleep(.3)", on_stdout=take, on_stderr=errors.append)
        self.assertEqual("".join(parts), result.stdout)
        self.assertEqual("".join(errors), "e\n" * 4)
        self.assertGreater(len(parts), 1)
        self.assertEqual(threads, {threading.current_thread()})

        class Stop(Exception):
            pass

        def stop(text):
            raise Stop(text)

        began = time.monotonic()
        with self.assertRaises(Stop):
            s.run_code("x = 7\nprint(1)\ntime.sleep(600)", on_stdout=stop)
        self.assertEqual(s.run_code("x").value, 7)
        self.assertLess(time.monotonic() - began, 60)

    def test_state(self):
        s = self.sandbox()
        s.run_code("x = [1]\nopen('f', 'w').write('one')")
        name = s.checkpoint()
        with s.branch() as other, s.branch(name) as third:
            other.run_code("x.append(2)\nopen('f', 'w').write('two')")
            self.assertEqual((other.run_code("x").value, other.files.read("f"), third.run_code("x").value), ([1, 2], b"two", [1]))
        with self.assertRaisesRegex(SandboxError, "closed"):
            other.run_code("1")
        s.run_code("x = 0")
        s.restore(name)
        self.assertEqual((s.run_code("x").value, s.files.read("f")), ([1], b"one"))
        with self.assertRaisesRegex(SandboxError, "nope"):
            s.restore("nope")
        self.assertEqual(s.run_code("x.append(3)\nx", restore=name).value, [1, 3])


class FilesAndCommands(SdkCase):
    def test_files(self):
        s = self.sandbox()
        content = os.urandom(2_500_000)
        s.files.write("a/b.bin", content)
        s.files.write("empty", "")
        self.assertEqual((s.files.read("a/b.bin"), s.files.read("empty"), s.files.read("/workspace/a/b.bin")), (content, b"", content))
        self.assertEqual([(e.name, e.path, e.type, e.size) for e in s.files.list("a")], [("b.bin", "a/b.bin", "file", len(content))])
        self.assertEqual({e.name: e.type for e in s.files.list()}, {"a": "directory", "empty": "file", "out": "directory"})
        self.assertTrue(s.files.read("/proc/self/stat"))
        result = s.run_code("import os\nos.mkfifo('fifo')\nwith open('big', 'wb') as f:\n    f.truncate(3 << 20)\nopen(b'\\xff', 'w').write('odd')")
        self.assertEqual(result.status, "ok", result)
        self.assertEqual(s.files.read("\udcff"), b"odd")
        for path, error in (("nope", FileNotFoundError), ("a", IsADirectoryError), ("fifo", OSError), ("/dev/zero", OSError)):
            with self.assertRaises(error):
                s.files.read(path)
        with self.assertRaisesRegex(SandboxError, "max_bytes"):
            s.files.read("big", max_bytes=1 << 20)
        self.assertEqual(s.files.read("big"), bytes(3 << 20))
        for path in ("a\0b", "", b"a"):
            with self.assertRaisesRegex(ValueError, "not a path"):
                s.files.write(path, "1")
        with self.assertRaises(OSError):
            s.files.write("/etc/x", "1")
        # Files of the host are not among those of the sandbox, whatever the path.
        with self.assertRaises(FileNotFoundError):
            s.files.read("../../../.." + self.write("secret", "s"))
        s.run_code("os.unlink(b'\\xff')\nos.unlink('big')")
        self.assertEqual({e.name for e in s.files.list()}, {"a", "empty", "out", "fifo"})

    def test_forged_answers(self):
        s = self.sandbox()
        s.run_code("import cloister\nreal = cloister.display\ncloister.display = lambda data, kind: real(forged, kind)")
        for forged in (b"", b"{}", b'{"error":[1]}', b'[NaN, 1]\nxx', b"[" * 100_000, b'["x", 1]\n', b'[]\n[["../../x", "file", 1, 1]]', b'[100000000, 1]\nx'):
            s.run_code(f"forged = {forged!r}")
            for action in (lambda: s.files.read("f"), lambda: s.files.list("f")):
                with self.subTest(forged[:40]), self.assertRaises(SandboxError):
                    print(action())

    def test_commands(self):
        s = self.sandbox()
        done = s.commands.run("echo out; echo err >&2; exit 3")
        self.assertEqual((done.exit_code, done.stdout, done.stderr), (3, "out\n", "err\n"))
        done = s.commands.run(["sh", "-c", 'echo "$A $0"; pwd', "a b"], cwd="/workspace/out", env={"A": "1"})
        self.assertEqual((done.exit_code, done.stdout), (0, "1 a b\n/workspace/out\n"))
        with self.assertRaises(FileNotFoundError):
            s.commands.run(["no-such-program"])
        with self.assertRaisesRegex(SandboxError, "TypeError"):
            s.commands.run("true", env={"A": 1})
        self.assertEqual(s.commands.run("echo 1; sleep 600", timeout=1).exit_code, 124)
        self.assertEqual(s.commands.run("kill -9 $PPID").exit_code, 137)
        parts = []
        s.commands.run("echo 1; sleep 0.5; echo 2", on_stdout=parts.append)
        self.assertEqual("".join(parts), "1\n2\n")


class Callers(SdkCase):
    """Callers of a sandbox: threads, an event loop, a fork; and its end."""

    def test_threads(self):
        s = self.sandbox()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(lambda i: s.run_code(str(i)).value, range(24))), list(range(24)))

    def test_event_loop(self):
        async def main():
            with Sandbox() as blocking:
                self.assertEqual(blocking.run_code("1").value, 1)
            async with AsyncSandbox() as s:
                await s.run_code("x = 1")
                other = await s.branch()
                results = await asyncio.gather(s.run_code("x"), other.run_code("x + 1"))
                self.assertEqual([result.value for result in results], [1, 2])
                parts = []

                async def take(text):
                    parts.append(text)

                await s.run_code("print('a')", on_stdout=take)
                self.assertEqual(parts, ["a\n"])
                call = asyncio.ensure_future(s.run_code("x = 3\nimport time; time.sleep(600)"))
                await asyncio.sleep(1)
                call.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await call
                self.assertEqual((await s.run_code("x")).value, 3)
            for action in (s.open(), s.run_code("1")):
                with self.assertRaisesRegex(SandboxError, "closed"):
                    await action
            await s.close()
            return await AsyncSandbox().open()

        left_open = asyncio.run(main())
        with self.assertRaises(SandboxError):
            asyncio.run(left_open.run_code("1"))

    def test_fork(self):
        s = self.sandbox()
        s.run_code("x = 1")
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            status = 1
            with contextlib.suppress(BaseException):
                try:
                    s.run_code("1")
                except SandboxError as error:
                    status = 0 if "fork" in str(error) else 2
                s.close()
                del s
                gc.collect()
            os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(s.run_code("x").value, 1)

    def test_it_ends(self):
        s = Sandbox()
        with self.assertRaisesRegex(SandboxError, "not open"):
            s.run_code("1")
        s.close()
        with self.assertRaises(ZeroDivisionError), Sandbox() as s:
            s.run_code("import subprocess; subprocess.Popen(['sleep', '600'])")
            print(1 / 0)
        self.assertEqual(self.residue.settle(), {})
        for _ in range(2):
            s.close()
        with self.assertRaisesRegex(SandboxError, "closed"):
            s.run_code("1")
        with self.assertRaisesRegex(SandboxError, "closed"):
            s.open()
        # While it runs code.
        s = Sandbox().open()
        timer = threading.Timer(1, s.close)
        timer.start()
        with self.assertRaises(SandboxError):
            s.run_code("import time; time.sleep(600)")
        timer.join()
        # Without close(): dropped, and at the end of the program.
        s = Sandbox().open()
        branch = s.branch()
        del s
        gc.collect()
        self.assertEqual(branch.run_code("1").value, 1)
        del branch
        gc.collect()
        program = "import sys; sys.path.insert(0, sys.argv[1]); from cloister import Sandbox; s = Sandbox().open(); print(s.run_code('6*7').value)"
        done = subprocess.run([sys.executable, "-c", program, sys.path[0]], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "42\n", ""))

    def test_a_killed_server(self):
        s = self.sandbox()
        s.run_code("1")
        server, = [pid for pid in harness.descendants() if harness.stat_of(pid)[0] == os.getpid()]
        timer = threading.Timer(1, os.kill, (server, signal.SIGKILL))
        timer.start()
        for _ in range(2):
            with self.assertRaisesRegex(ServerLost, "ended"):
                s.run_code("import time; time.sleep(600)")
        timer.join()


class Servers(SdkCase):
    """Servers that misbehave, all at once, because most of these tests wait."""

    CASES = {
        "/nonexistent/cloister": (ServerNotFound, "No such file"), "/etc/passwd": (ServerNotFound, "Permission denied"), "/bin/true": (ServerLost, "ended"),
        "deaf": (ServerLost, "no answer for 5 s"), "junk": (ServerLost, "no answer"), "old": (ServerTooOld, "2025-06-18"), "stranger": (ServerTooOld, "no tool run_python"),
        "ends-server-discover": (ServerLost, "last words"), "ends-tools-list": (ServerLost, "last words"), "ends-tools-call": (ServerLost, "last words"),
        "hangs-server-discover": (ServerLost, "no answer"), "hangs-tools-list": (ServerLost, "no answer"), "hangs-tools-call": (ServerLost, "no sign of life"),
        "null-tools-list": (ServerLost, "no answer"), "null-tools-call": (ServerLost, "no sign of life"),
        "nonsense": (SandboxError, "wrong form"), "empty": (CallRefused, "without a result"), "loud": None, "endless": None, "late": None,
    }

    def outcome(self, name):
        path = name if name.startswith("/") else self.write(name, FAKE)
        if not name.startswith("/"):
            os.chmod(path, 0o755)
        try:
            with Sandbox(program=path, start_timeout=5 * harness.SLOW) as s:
                return s.run_code("1")
        except SandboxError as error:
            return error

    def test_each(self):
        before, cloister.server.SILENCE_SECONDS = cloister.server.SILENCE_SECONDS, 4 * harness.SLOW
        self.addCleanup(setattr, cloister.server, "SILENCE_SECONDS", before)
        # The client's own limit for the first answer, which is not a setting.
        patience, mcp.client.session.DISCOVER_TIMEOUT_SECONDS = mcp.client.session.DISCOVER_TIMEOUT_SECONDS, 2 * harness.SLOW
        self.addCleanup(setattr, mcp.client.session, "DISCOVER_TIMEOUT_SECONDS", patience)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(self.CASES)) as pool:
            outcomes = dict(zip(self.CASES, pool.map(self.outcome, self.CASES)))
        self.assertLess(time.monotonic() - began, harness.patient(60))
        for name, expected in self.CASES.items():
            with self.subTest(name):
                if expected:
                    self.assertIs(type(outcomes[name]), expected[0], outcomes[name])
                    self.assertRegex(str(outcomes[name]), expected[1].replace("5 s", "[0-9.]+ s"))
                else:
                    self.assertEqual(outcomes[name].status, "ok", outcomes[name])
        self.assertLessEqual(len(outcomes["endless"].stdout), (16 << 20) + 1_000_000)

    def test_settings(self):
        for options, reason in (({"profile": "nope"}, 'no profile "nope"'), ({"config": "/nonexistent"}, "No such file"), ({"image": "nope"}, "no image 'nope'")):
            with self.subTest(options), self.assertRaisesRegex(SandboxError, reason), Sandbox(**options) as s:
                s.run_code("1")


class Http(SdkCase):
    def test_sessions(self):
        with self.served() as (url, process):
            with Sandbox(url=url) as s, Sandbox(url=url) as another:
                s.run_code("x = 1\nopen('f', 'w').write('1')")
                another.run_code("x = 2")
                parts = []
                self.assertEqual(s.run_code("print('a')\nx", on_stdout=parts.append).value, 1)
                self.assertEqual(parts, ["a\n"])
                branch = s.branch()
                s.files.write("big", bytes(1_500_000))
                self.assertEqual((branch.run_code("x").value, len(s.files.read("big"))), (1, 1_500_000))
                self.assertEqual(len(self.sessions(process)), 3)
                branch.close()
                self.assertEqual(len(self.sessions(process)), 2)
            self.assertEqual(self.sessions(process), [])
            for code, value in (("x = 3", None), ("x", 3)):
                with Sandbox(url=url, session="mine") as s:
                    self.assertEqual(s.run_code(code).value, value)
            self.assertEqual(self.sessions(process), ["mine"])
            s = self.sandbox(url=url)
            with self.assertRaisesRegex(CallRefused, "profile"), Sandbox(url=url, profile="nope") as other:
                other.run_code("1")
            with self.assertRaisesRegex(ServerNotFound, "Not Found"):
                Sandbox(url=url + "x").open()
            timer = threading.Timer(1, process.kill)
            timer.start()
            for _ in range(2):
                with self.assertRaisesRegex(ServerLost, "ended"):
                    s.run_code("import time; time.sleep(600)")
            timer.join()
            s.close()
        for wrong, reason in ((url, "connection"), ("nonsense", "protocol")):
            with self.assertRaisesRegex(ServerNotFound, reason):
                Sandbox(url=wrong).open()

    def test_tokens(self):
        token = "5c0e1f64b7a98d1f0b7a6d2c"
        os.chmod(self.write("tokens", f"alice {token}\n"), 0o600)
        with self.served("--tokens", self.path("tokens")) as (url, _):
            with Sandbox(url=url, token=token) as s:
                self.assertEqual(s.run_code("1").value, 1)
            for wrong in (None, "x" * 24):
                with self.assertRaisesRegex(ServerNotFound, "is token= missing or wrong"):
                    Sandbox(url=url, token=wrong).open()


class LlmSandbox(SdkCase):
    def test_session(self):
        with llm_sandbox.SandboxSession(lang="python", verbose=False, keep_template=True, runtime_configs={"network_mode": "none"}) as s:
            result = s.run("x = 1\nprint('hi')\n5")
            self.assertEqual((result.exit_code, result.stdout, result.stderr, result.success()), (0, "hi\n", "", True))
            self.assertEqual(json.loads(result.to_json()), {"exit_code": 0, "stderr": "", "stdout": "hi\n"})
            result = s.run("print(x)")
            self.assertEqual((result.exit_code, result.stdout), (1, ""))
            self.assertRegex(result.stderr, "NameError: name 'x' is not defined\n$")
            self.assertEqual(s.run("import sys; sys.exit(3)").exit_code, 3)
            s.copy_to_runtime(self.write("local.txt", "text"), "/sandbox/data/a.txt")
            self.assertEqual((s.run("print(open('data/a.txt').read())").stdout, s.execute_command("cat a.txt", workdir="/sandbox/data").stdout), ("text\n", "text"))
            os.makedirs(self.path("tree/below"))
            self.write("tree/below/b", "2")
            os.symlink("/etc/passwd", self.path("tree/link"))
            s.copy_to_runtime(self.path("tree"), "/sandbox/tree")
            self.assertEqual(s.execute_commands(["find tree -type f", ("pwd", "/sandbox/tree"), "false", "echo no"]).exit_code, 1)
            self.assertEqual(s.execute_command("find tree -type f -o -type l").stdout, "tree/below/b\n")
            s.copy_from_runtime("/sandbox/data/a.txt", self.path("back.txt"))
            with open(self.path("back.txt"), encoding="utf-8") as f:
                self.assertEqual(f.read(), "text")
            with self.assertRaises(llm_sandbox.SandboxTimeoutError):
                s.run("while True: pass", timeout=1)
            with self.assertRaisesRegex(SandboxError, "numpy: .*packages.install"):
                s.run("1", libraries=["numpy"])
            self.assertEqual(s.run("import os; os.kill(os.getpid(), 9)").exit_code, 137)
            self.assertEqual(s.run("print(1)").stdout, "1\n")
        with self.assertRaises(llm_sandbox.NotOpenSessionError):
            s.run("1")

    def test_other_sessions(self):
        with llm_sandbox.ArtifactSandboxSession(lang="python") as s:
            plot, = s.run(PICTURE).plots
            self.assertEqual((plot.format.value, plot.content_base64[:6]), ("png", "iVBORw"))
        with llm_sandbox.InteractiveSandboxSession() as s:
            s.run("value = 21 * 2")
            self.assertEqual(s.run("print(f'Result: {value}')").stdout, "Result: 42\n")
            self.assertEqual(s.run("value").stdout, "Out[3]: 42\n")
            self.assertEqual(s.run("1/0").exit_code, 1)
        for options, error in (({"lang": "java"}, llm_sandbox.LanguageNotSupportedError), ({"runtime_configs": {"mem_limit": "1g"}}, ValueError),
                               ({"runtime_configs": {"network_mode": "host"}}, ValueError), ({"security_policy": object()}, ValueError), ({"mounts": [1]}, ValueError)):
            with self.subTest(options), self.assertRaises(error):
                llm_sandbox.SandboxSession(**options)


class Documentation(SdkCase):
    """The examples of docs/sdk.md run as they are, except for the address of the server."""

    def test_examples(self):
        with open(os.path.join(harness.SOURCE, "docs", "sdk.md"), encoding="utf-8") as f:
            examples = re.findall(r"```python\n(.*?)```", f.read(), re.S)
        self.assertGreater(len(examples), 6)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir)
        self.write("data.csv", "a,b\n")
        with self.served() as (url, _):
            for example in examples:
                with self.subTest(example), contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(example.replace("http://127.0.0.1:8808/mcp", url), "docs/sdk.md", "exec"), {"__name__": "example"})


if __name__ == "__main__":
    harness.main()
