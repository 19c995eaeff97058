"""The command line: run, tools, image, doctor, help."""

import contextlib
import json
import os
import signal
import subprocess
import time

import harness


class Run(harness.Case):
    """`cloister run`."""

    def run_code(self, code, *args, **rest):
        return self.run_cloister("run", "--config", self.config(), *args, "-c", code, **rest)

    def test_code_from_the_command_line(self):
        done = self.run_code("print('out'); import sys; print('err', file=sys.stderr)")
        self.assertEqual((done.returncode, done.stdout), (0, b"out\n"), done.stderr)
        self.assertIn(b"err\n", done.stderr)

    def test_a_file(self):
        file = self.write("script.py", "print('from a file')\nprint(__name__)\n")
        done = self.run_cloister("run", "--config", self.config(), file)
        self.assertEqual((done.returncode, done.stdout), (0, b"from a file\n__main__\n"), done.stderr)

    def test_standard_input(self):
        done = subprocess.run([harness.CLOISTER, "run", "--config", self.config(), "-"], input=b"print(6 * 7)\n",
                              capture_output=True, env=harness.environment(), timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)

    def test_output_is_exactly_the_codes(self):
        data = bytes(range(256)) * 64
        done = self.run_code("import sys\n_ = sys.stdout.buffer.write(bytes(range(256)) * 64)")
        self.assertEqual(done.stdout, data)

    def test_exit_status_of_the_code(self):
        for code, status in (("import sys; sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("raise SystemExit", 0), ("1/0", 1)):
            with self.subTest(code):
                self.assertEqual(self.run_code(code).returncode, status)

    def test_exit_status_of_a_signal(self):
        done = self.run_code("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)

    def test_traceback_on_stderr(self):
        done = self.run_code("def f():\n    raise ValueError('why')\nf()")
        self.assertEqual(done.returncode, 1)
        self.assertIn("raise ValueError('why')", done.stderr.decode())
        self.assertIn("ValueError: why", done.stderr.decode())
        self.assertEqual(done.stdout, b"")

    def test_traceback_names_the_file(self):
        done = self.run_cloister("run", "--config", self.config(), self.write("mine.py", "1/0\n"))
        self.assertIn("mine.py", done.stderr.decode())

    def test_syntax_error(self):
        done = self.run_code("x = = 1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("SyntaxError", done.stderr.decode())

    def test_missing_file_is_one_clear_line(self):
        done = self.run_cloister("run", "--config", self.config(), self.path("none.py"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("none.py", done.stderr.decode())
        self.assertEqual(len(done.stderr.decode().strip().splitlines()), 1)

    def test_timeout(self):
        start = time.monotonic()
        done = self.run_code("while True: pass", "--timeout", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - start, harness.PATIENCE)
        self.assertIn("timeout", done.stderr.decode().lower())

    def start(self, code, **rest):
        process = subprocess.Popen([harness.CLOISTER, "run", "--config", self.config(), "-c", code], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=harness.environment(), **rest)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and harness.end(process))
        return process

    def test_output_is_live(self):
        process = self.start("import time\nprint('first', flush=True)\ntime.sleep(30)")
        start = time.monotonic()
        self.assertEqual(process.stdout.readline(), b"first\n")
        self.assertLess(time.monotonic() - start, 10)
        self.assertIsNone(process.poll())
        harness.end(process)

    def test_ctrl_c_stops_the_cell(self):
        process = self.start("import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nfinally:\n    print('finally', flush=True)",
                             start_new_session=True)
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        start = time.monotonic()
        self.assertEqual(process.stdout.read(), b"finally\n")
        self.assertIn(process.wait(10), (-signal.SIGINT, 128 + signal.SIGINT))
        self.assertLess(time.monotonic() - start, harness.PATIENCE)

    def test_ctrl_c_stops_an_endless_loop_that_ignores_it(self):
        process = self.start("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\nwhile True: pass",
                             start_new_session=True)
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(10)

    def test_sigkill_leaves_nothing(self):
        process = self.start("import subprocess, time\np = subprocess.Popen(['/bin/sh', '-c', 'while :; do :; done'])\nprint('ready', flush=True)\ntime.sleep(60)")
        process.stdout.readline()
        harness.end(process)
        self.assertEqual(self.residue.settle(), {})

    def test_sigterm_leaves_nothing(self):
        process = self.start("print('ready', flush=True)\nwhile True: pass")
        process.stdout.readline()
        harness.end(process, signal.SIGTERM)
        self.assertEqual(self.residue.settle(), {})

    def test_a_reader_that_closes_its_end(self):
        process = self.start("while True: print('x' * 1000)")
        process.stdout.readline()
        process.stdout.close()
        process.wait(harness.PATIENCE)

    def test_tools_from_a_script(self):
        config = self.config({"a": harness.fixture()})
        done = self.run_cloister("run", "--config", config, "-c", "print((await mcp_a.add(a=20, b=22))['sum'])")
        self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)

    def test_a_quarter_of_a_gibibyte_streamed(self):
        config = self.config()
        script = f"{harness.CLOISTER} run --config {config} -c 'for _ in range(1 << 15): print(\"y\" * 8191)' | wc -c"
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, env=harness.environment(), timeout=90, check=False)
        self.assertEqual(int(done.stdout), 1 << 28)

    def test_the_example(self):
        config = self.config({"library": {"command": harness.PYTHON, "args": [os.path.join(harness.SOURCE, "examples", "library-server.py")]}})
        done = self.run_cloister("run", "--config", config, os.path.join(harness.SOURCE, "examples", "overdue.py"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("15 letters sent", done.stdout.decode())


class Help(harness.Case):
    """--help, --version, and the messages for mistakes."""

    def test_version(self):
        done = self.run_cloister("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^cloister \d+\.\d+\.\d+( \([0-9a-f]{7,40}(-dirty)?\))?\n$")

    def test_help_of_all_and_each(self):
        whole = self.run_cloister("--help")
        self.assertEqual((whole.returncode, whole.stderr), (0, b""))
        for command in ("mcp", "run", "tools", "image", "doctor"):
            self.assertIn(command, whole.stdout.decode())
            done = self.run_cloister(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)
            self.assertIn(command, done.stdout.decode())

    def test_mistakes_are_one_line_and_status_2(self):
        for args in (["no-such-command"], ["run", "--no-such-option"], ["run"], ["mcp", "--config"], [], ["image", "frobnicate"]):
            with self.subTest(args):
                done = self.run_cloister(*args)
                self.assertEqual(done.returncode, 2)
                self.assertTrue(done.stderr)

    def test_many_configs(self):
        """Sixteen configs can be named; the seventeenth is refused in one line, by every command that takes configs."""
        config = ["--config", self.config()]
        for command in (["run", "-c", "1"], ["tools"], ["doctor"], ["config", "show"]):
            with self.subTest(command):
                self.assertIn(self.run_cloister(*command, *config * 16).returncode, (0, 1) if command == ["doctor"] else (0,))
                done = self.run_cloister(*command, *config * 17)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr.decode(), r"^cloister: --config \S+: at most 16 can be given; put .*directory.*\n$")

    def test_the_inner_command_alone_is_refused(self):
        for args in (["broker"], ["broker", "mcp"]):
            done = self.run_cloister(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertTrue(done.stderr)


class Doctor(harness.Case):
    """`cloister doctor`."""

    def test_text(self):
        done = self.run_cloister("doctor")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.decode().lower()
        for layer in ("namespace", "seccomp", "no_new_privs", "memory", "pids|processes", "landlock"):
            self.assertRegex(text, layer)

    def test_json(self):
        done = self.run_cloister("doctor", "--json")
        report = json.loads(done.stdout)
        layers = report["layers"]
        self.assertGreater(len(layers), 5)
        for layer in layers:
            self.assertIn(layer["state"], ("effective", "degraded", "missing"))
            if layer["state"] != "effective":
                self.assertTrue(layer.get("fix"), layer)

    def test_rootless_memory_is_said_to_be_degraded(self):
        if harness.ROOT:
            return
        layers = json.loads(self.run_cloister("doctor", "--json").stdout)["layers"]
        self.assertIn("degraded", [layer["state"] for layer in layers if layer["name"] == "limits"])


if __name__ == "__main__":
    harness.main()
