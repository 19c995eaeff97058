"""`cloister run` as a tool: arguments, standard input, files beside the script, variables, mounts, JSON, packages of scripts."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import harness
import rawmcp


class RunCase(harness.Case):
    def run_it(self, *args, data=None, **rest):
        if data is not None:
            reader, writer = os.pipe()
            self.addCleanup(os.close, reader)
            assert len(data) < 60_000  # the pipe's room
            os.write(writer, data)
            os.close(writer)
            rest["stdin"] = reader
        return self.run_cloister("run", "--config", self.config(), *args, **rest)

    def good(self, *args, **rest):
        done = self.run_it(*args, **rest)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def refused(self, status, *args, **rest):
        """One line on standard error, and nothing else."""
        done = self.run_it(*args, **rest)
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        self.assertEqual((done.returncode, done.stdout, len(lines)), (status, b"", 1), done.stderr)
        self.assertTrue(lines[0].startswith("cloister: "), lines[0])
        return lines[0]

    def folder(self, name, **files):
        os.makedirs(self.path(name), exist_ok=True)
        for file, text in files.items():
            self.write("%s/%s.py" % (name, file), text)
        return self.path(name)


class Arguments(RunCase):
    """Arguments after the name of the script belong to the script."""

    def test_of_a_file(self):
        self.write("script.py", "import sys; print(sys.argv)")
        self.assertEqual(self.good("script.py", "a", "b", "--c", "-h", "--timeout", "0", "--", "ü"),
                         "['script.py', 'a', 'b', '--c', '-h', '--timeout', '0', '--', 'ü']\n")
        self.assertEqual(self.good("--", "script.py"), "['script.py']\n")

    def test_of_code_and_of_standard_input(self):
        code = "import sys; print(sys.argv)"
        self.assertEqual(self.good("-c", code, "a", "b", "--json"), "['-c', 'a', 'b', '--json']\n")
        self.assertEqual(self.good("-c", code, "--", "--json"), "['-c', '--json']\n")
        self.assertEqual(self.good("-c", code, "--timeout", "50"), "['-c']\n")
        self.assertEqual(self.good("-", "a", "-b", data=code.encode()), "['-', 'a', '-b']\n")

    def test_any_bytes_and_many(self):
        odd = [b"\xff\xfe", b'"\\', "\u2028\U0001f600".encode(), b"a\nb\tc\x1b", b"{}"]
        code = "import sys, os; print([os.fsencode(a) for a in sys.argv[1:]])"
        self.assertEqual(self.good("-c", code, *odd), "%r\n" % odd)
        self.assertEqual(self.good("-c", "import sys; print(len(sys.argv))", *["x"] * 30_000), "30001\n")

    def test_too_much_is_one_line(self):
        self.assertIn("longer than 8 MiB", self.refused(125, "-c", "1", *["\x01" * 100_000] * 15))


class Modules(RunCase):
    """The files beside a script."""

    def test_a_script_is_what_python_says(self):
        folder = self.folder("proj", script="""
import os, sys, helper
from pkg.inner import deep
import importlib
print(__name__, __file__, sys.path[0], helper.WHO, deep.who(), importlib.import_module("lazy").X)
print(open(__file__).read().count("importlib"), sorted(n for n in os.listdir() if n not in ("out", "__pycache__")))
""", helper="import second\nWHO = second.WHO\n", second="WHO = 'second'", lazy="X = 3", unused="SECRET = 1")
        self.folder("proj/pkg")
        self.folder("proj/pkg/inner", deep="def who(): return __file__")
        self.write("proj/data.txt", "not given")
        out = self.good(os.path.join(folder, "script.py"))
        self.assertEqual(out, "__main__ /workspace/script.py /workspace second /workspace/pkg/inner/deep.py 3\n"
                              "3 ['helper.py', 'lazy.py', 'pkg', 'script.py', 'second.py']\n")

    def test_a_script_without_modules_is_one_cell(self):
        """The file is in /workspace, byte by byte, and no other cell created its sandbox."""
        code = "# \u00e4\r\nimport os\r\nprint([open(__file__, 'rb').read(), os.stat(__file__).st_mode & 0o777])\n"
        path = self.path("alone.py")
        with open(path, "wb") as file:
            file.write(code.encode())
        self.assertEqual(self.good(path), "%r\n" % [code.encode(), 0o644])
        self.assertEqual(self.ran(path), ("ok", "new"))
        # The control: files of --in are put there before, by the same worker.
        self.assertEqual(self.ran("--in", path + "=b.py", path), ("ok", "kept"))

    def ran(self, *args):
        result = json.loads(self.good("--json", *args))["structuredContent"]
        return result["status"], result["state"]

    def test_a_script_that_fills_its_place(self):
        config = self.config(limits={"workspace": "64K", "tmp": "1M", "shm": "1M"})
        for size in 32 << 10, (32 << 10) + 1, 60 << 10:
            path = self.write("large.py", ("print(len(open(__file__).read()))\n#" + "x" * size)[:size])
            done = self.run_cloister("run", "--config", config, path)
            self.assertEqual((done.returncode, done.stdout), (0, b"%d\n" % size), done.stderr)
        path = self.write("large.py", "print('ran')\n#" + "x" * (64 << 10))
        done = self.run_cloister("run", "--config", config, path)
        self.assertEqual((done.returncode, done.stdout), (125, b""), done.stderr)
        self.assertIn("large.py: No space left on device", done.stderr.decode())

    def test_links_fifos_and_the_rest_stay_outside(self):
        folder = self.folder("proj", script="""
import os
print(sorted(os.listdir()))
for name in ("linked", "secret", "pipe", "evil", "hidden"):
    try:
        __import__(name)
        print(name)
    except ImportError:
        pass
""", hidden="print('control: a plain file is given')")
        os.symlink("/etc/passwd", self.path("proj/linked.py"))
        self.write("secret.py", "print('outside')")
        os.symlink(self.path("secret.py"), self.path("proj/secret.py"))
        os.mkfifo(self.path("proj/pipe.py"))
        os.symlink("/etc", self.path("proj/evil"))
        out = self.good(os.path.join(folder, "script.py"))
        self.assertEqual(out, "['hidden.py', 'out', 'script.py']\ncontrol: a plain file is given\nhidden\n")

    def test_a_link_to_the_script_leads_to_its_folder(self):
        folder = self.folder("proj", script="import helper; print(helper.A)", helper="A = 1")
        self.folder("bin", helper="A = 2")
        os.symlink(os.path.join(folder, "script.py"), self.path("bin/tool"))
        self.assertEqual(self.good(self.path("bin/tool")), "1\n")

    def test_what_is_too_much_is_left_out_and_said(self):
        self.folder("proj", script="import small; print(small.A)\ntry: import big\nexcept ImportError: print('none')", small="A = 1")
        self.folder("proj/big", **{"m%d" % i: "" for i in range(2001)})
        done = self.run_it(self.path("proj/script.py"))
        self.assertEqual((done.returncode, done.stdout), (0, b"1\nnone\n"), done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Acloister: big beside script.py is not given to the code: more than 2000 files.*--in")

    def test_tracebacks_name_the_script_as_it_was_given(self):
        self.folder("proj", script="import helper\nhelper.f()", helper="def f():\n    1/0")
        done = self.run_it("proj/script.py")
        self.assertEqual(done.returncode, 1)
        self.assertIn('File "proj/script.py", line 2, in <module>\n    helper.f()\n', done.stderr.decode())
        self.assertIn('File "/workspace/helper.py", line 2, in f\n    1/0\n', done.stderr.decode())

    def test_a_script_that_is_no_file(self):
        self.write("script.py", "print(__file__ if '__file__' in globals() else 'none')\nimport os; print(os.listdir())")
        with open(self.path("script.py"), "rb") as file:
            done = self.run_it("-", stdin=file)
        self.assertEqual(done.stdout, b"none\n['out']\n", done.stderr)
        self.write("out", "print(1)")
        self.assertEqual(self.good("out"), "1\n")
        reader, writer = os.pipe()
        os.write(writer, b"print(5)")
        os.close(writer)
        try:
            done = self.run_it("/dev/fd/%d" % reader, pass_fds=(reader,))
        finally:
            os.close(reader)
        self.assertEqual(done.stdout, b"5\n", done.stderr)

    def test_a_file_of_in_wins(self):
        self.folder("proj", script="import helper; print(helper.A)", helper="A = 1")
        other = self.write("other.py", "A = 2")
        self.assertEqual(self.good("--in", other + "=helper.py", self.path("proj/script.py")), "2\n")

    def test_text_that_is_no_python(self):
        self.write("nul.py", "print(1)\0")
        self.assertEqual(self.run_it("nul.py").returncode, 1)
        with open(self.path("huge.py"), "wb") as file:
            file.truncate(1 << 40)
        self.assertIn("16 MiB", self.refused(125, "huge.py"))


class Input(RunCase):
    """Input that is piped into the run."""

    def test_ways_to_read(self):
        for code, want in (
            ("import sys; print(repr(sys.stdin.read()))", "'hi\\nho'\n"),
            ("import sys; print(list(sys.stdin))", "['hi\\n', 'ho']\n"),
            ("print([input('? '), input()])", "? ['hi', 'ho']\n"),
            ("import sys; print(sys.stdin.buffer.read(4), sys.stdin.isatty())", "b'hi\\nh' False\n"),
            ("import sys, asyncio\nawait asyncio.sleep(0)\nprint(sys.stdin.readline())", "hi\n\n"),
            ("import sys, threading\nt = threading.Thread(target=lambda: print(sys.stdin.read())); t.start(); t.join()", "hi\nho\n"),
            ("import sys; print(open('/dev/stdin').read() == '', sys.stdin.read(1))", "True h\n"),
        ):
            with self.subTest(code):
                self.assertEqual(self.good("-c", code, data=b"hi\nho"), want)

    def test_bytes_arrive_unchanged(self):
        data = bytes(range(256)) * 200
        code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"
        done = self.run_it("-c", code, data=data)
        self.assertEqual(done.stdout, data[::-1], done.stderr)
        with open(self.write("file", "x" * 300_000), "rb") as file:
            self.assertEqual(self.good("-c", "import sys; print(sum(map(len, iter(lambda: sys.stdin.read(777), ''))))", stdin=file),
                             "300000\n")
        done = self.run_it("-c", "import sys; sys.stdin.read()", data=b"\xff")
        self.assertIn(b"UnicodeDecodeError", done.stderr)

    def test_none(self):
        self.assertEqual(self.good("-c", "import sys; print(repr(sys.stdin.read()))"), "''\n")
        done = self.run_it("-c", "input()")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"EOFError", done.stderr)
        done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", harness.CLOISTER, "run", "--config", self.config(), "-c",
                               "import sys; print(repr(sys.stdin.read()))"], capture_output=True, env=harness.environment(),
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"''\n"), done.stderr)

    def start(self, code, *args, **rest):
        rest.setdefault("stdin", subprocess.PIPE)
        process = subprocess.Popen([harness.CLOISTER, "run", "--config", self.config(), *args, "-c", code], bufsize=0,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), **rest)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(harness.end, process)
        return process

    def test_nothing_is_read_before_the_code_reads(self):
        process = self.start("import sys, os\nprint(sys.stdin.readline(), end='', flush=True)\nprint(sys.stdin.readline(), end='')")
        process.stdin.write(b"one\n")
        self.assertEqual(process.stdout.readline(), b"one\n")
        process.stdin.write(b"two\n")
        self.assertEqual(process.stdout.read(), b"two\n")
        process.stdin.close()
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.write(writer, b"kept")
        self.good("-c", "1", stdin=reader)
        self.assertEqual(os.read(reader, 10), b"kept")

    def test_a_stream_takes_no_memory(self):
        flood = subprocess.Popen([sys.executable, "-c", "import sys\nfor i in range(400): sys.stdout.write('y' * 65535 + '\\n')"],
                                 stdout=subprocess.PIPE)
        process = self.start("import sys, resource\npeak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                             "n = len(sys.stdin.readline())\nbefore = peak()\nfor line in sys.stdin: n += len(line)\n"
                             "print(n, peak() - before < 8000)", stdin=flood.stdout)
        flood.stdout.close()
        self.assertEqual(process.stdout.read(), b"26214400 True\n")
        self.assertEqual(flood.wait(), 0)

    def test_ctrl_c_while_it_waits(self):
        process = self.start("import sys\nprint('waits', flush=True)\nsys.stdin.read()")
        self.assertEqual(process.stdout.readline(), b"waits\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 130)
        process.stdin.close()

    def test_an_interrupted_read_loses_nothing(self):
        process = self.start("import sys, signal, os\nsignal.setitimer\nprint('waits', flush=True)\n"
                             "def late(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)\n"
                             "try: sys.stdin.buffer.raw.read(10)\nexcept TimeoutError: print('late', flush=True)\n"
                             "print(sys.stdin.buffer.raw.read(2), sys.stdin.read())")
        self.assertEqual(process.stdout.readline() + process.stdout.readline(), b"waits\nlate\n")
        process.stdin.write(b"abcdef")
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"b'ab' cdef\n", process.stderr.read())

    def test_a_timeout_counts_the_wait_if_it_is_given(self):
        process = self.start("import sys; sys.stdin.read()", "--timeout", "300ms")
        self.assertEqual(process.wait(30), 124)
        process.stdin.close()
        config = self.config(name="short.json", timeout=1)
        process = self.start("import sys, time; print(sys.stdin.read(), flush=True)\nwhile True: time.sleep(1)", "--config", config)
        time.sleep(1.5)
        process.stdin.write(b"late")
        process.stdin.close()
        self.assertEqual(process.stdout.readline(), b"late\n")
        self.assertEqual(process.wait(30), 124)

    def test_a_terminal(self):
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        process = self.start("import sys\nprint(sys.stdin.isatty())\nprint([input('name: '), sys.stdin.read(), sys.stdin.read()])",
                             stdin=terminal)
        os.close(terminal)
        os.write(main, b"x\ny\n\x04\x04")
        self.assertEqual(process.stdout.read(), b"True\nname: ['x', 'y\\n', '']\n", process.stderr.read())

    def test_in_the_background_it_is_not_read(self):
        """The code does not read input that was typed for the shell."""
        shell = """
import os, pty, sys, signal, subprocess, time
main, terminal = pty.openpty()
if os.fork() == 0:
    os.setsid()
    import fcntl, termios
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    def own():
        os.setpgid(0, 0)
    p = subprocess.Popen(sys.argv[1:], stdin=terminal, stdout=subprocess.PIPE, preexec_fn=own)
    p.stdout.readline()
    os.write(main, b"password\\n")
    time.sleep(0.5)
    print(os.read(terminal, 100), flush=True)
    p.kill()
    os._exit(0)
os.wait()
"""
        code = "import sys\nprint('reads', flush=True)\nprint(sys.stdin.read(4))"
        done = subprocess.run([sys.executable, "-c", shell, harness.CLOISTER, "run", "--config", self.config(), "-c", code],
                              capture_output=True, env=harness.environment(), timeout=60, check=False)
        self.assertEqual(done.stdout, b"b'password\\n'\n", done.stderr)

    def test_a_descriptor_is_refused(self):
        done = self.run_it("-c", "import sys; sys.stdin.fileno()", data=b"x")
        self.assertIn(b"has no descriptor", done.stderr)
        self.assertEqual(self.good("-c", "import sys, subprocess\nprint(subprocess.run(['cat'], input=sys.stdin.buffer.read(), "
                                         "stdout=subprocess.PIPE).stdout, subprocess.run(['cat'], stdout=subprocess.PIPE).stdout)",
                                   data=b"x"), "b'x' b''\n")

    def test_a_child_reads_nothing(self):
        self.assertEqual(self.good("-c", "import os, sys\npid = os.fork()\nif pid == 0:\n    os._exit(len(sys.stdin.read()))\n"
                                         "print(os.waitpid(pid, 0)[1], sys.stdin.read())", data=b"x"), "0 x\n")


class Variables(RunCase):
    def test_given_and_own(self):
        code = "import os, subprocess; print(os.environ['A'], os.environ.get('OWN'), subprocess.run('echo $A', shell=True, " \
               "capture_output=True).stdout)"
        env = harness.environment(OWN="mine")
        self.assertEqual(self.good("--env", "A=1=2", "--env", "OWN", "-c", code, env=env), "1=2 mine b'1=2\\n'\n")
        self.assertEqual(self.good("--env", "A=", "-c", code, env=env), " None b'\\n'\n")

    def test_odd_ones(self):
        odd = 'a\nb"\\\u2028' + "\udcff"
        self.assertEqual(self.good("--env", "A=" + odd, "-c", "import os; print(ascii(os.environ['A']))"), "%a\n" % odd)
        # These variables affect programs that the code starts inside the sandbox.
        self.assertEqual(self.good("--env", "LD_PRELOAD=/x", "--env", "PYTHONPATH=/y", "--env", "PATH=/z", "-c",
                                   "import os, sys; print(os.environ['LD_PRELOAD'], '/y' in sys.path)"), "/x False\n")

    def test_refused(self):
        self.assertIn("is not set", self.refused(2, "--env", "NOT_THERE", "-c", "1"))
        for wrong in ("=x", "1A=x", "A B=x", "A\nB=x", "A-B", "ä=1", "A" * 300 + "=1"):
            with self.subTest(wrong):
                self.assertIn("the name of a variable", self.refused(2, "--env", wrong, "-c", "1"))

    def test_it_is_not_on_a_command_line(self):
        process = subprocess.Popen([harness.CLOISTER, "run", "--config", self.config(), "--env", "TOKEN", "-c",
                                    "print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=harness.environment(TOKEN="s3cret-value"))
        try:
            process.stdout.readline()
            for pid in [process.pid, *harness.descendants(process.pid)]:
                with open("/proc/%d/cmdline" % pid, "rb") as file:
                    self.assertNotIn(b"s3cret", file.read())
        finally:
            process.communicate(b"\n")


class Mounts(RunCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)  # the ids of a sandbox are not root's

    def test_read_only_by_default(self):
        self.write("data.txt", "from outside")
        code = "print(open('/data/data.txt').read())\ntry: open('/data/new', 'w')\nexcept OSError as e: print(e.errno)"
        self.assertEqual(self.good("--mount", self.dir + ":/data", "-c", code), "from outside\n30\n")
        self.assertEqual(self.good("--mount", ".:/workspace/d:ro", "-c", "print(open('d/data.txt').read())"), "from outside\n")

    def test_writable_where_the_config_may_too(self):
        folder = self.folder("shared")
        done = self.run_it("--mount", folder + ":/data:rw", "-c", "open('/data/new', 'w').write('x')")
        if os.geteuid() == 0:
            self.assertEqual(done.returncode, 125)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        else:
            self.assertIn("the config", self.refused(125, "--mount", self.dir + ":/data:rw", "-c", "1"))
            self.assertEqual((done.returncode, os.path.exists(self.path("shared/new"))), (0, True), done.stderr)

    def test_refused(self):
        store = os.environ.get("CLOISTER_IMAGE_STORE") or harness.environment().get("CLOISTER_IMAGE_STORE")
        for status, mount in (
            (125, "data"), (125, ":/x"), (125, self.dir + ":x"), (125, self.dir + ":/x:wr"), (125, self.path("none") + ":/x"),
            (125, "/:/x"), (125, "/proc:/x"), (125, self.dir + ":/proc/x"), (125, self.dir + ":/a/../b"), (125, self.dir + ":/tmp"),
            (125, self.dir + ":/x\n"), (125, self.path("config.json") + ":/x"),
            *([(125, store + ":/x")] if store else []),
        ):
            with self.subTest(mount):
                self.config()
                self.refused(status, "--mount", mount, "-c", "1")
        self.assertIn("inside the other", self.refused(125, "--mount", self.dir + ":/a", "--mount", self.dir + ":/a/b", "-c", "1"))

    def test_with_those_of_the_config(self):
        config = self.config(name="m.json", mounts=[{"source": self.dir, "target": "/one"}])
        self.assertEqual(self.good("--config", config, "--mount", self.dir + ":/two", "-c",
                                   "import os; print(os.listdir('/one') == os.listdir('/two'))"), "True\n")
        self.assertIn("(of the config)", self.refused(125, "--config", config, "--mount", self.dir + ":/one/x", "-c", "1"))


class Directories(RunCase):
    """--in with a directory."""

    def test_it_is_copied_with_what_is_below(self):
        self.folder("data/sub", a="A")
        self.write("data/b.txt", "B")
        os.symlink("/etc/passwd", self.path("data/link"))
        os.symlink("..", self.path("data/sub/loop"))
        os.mkfifo(self.path("data/fifo"))
        code = "import os; print(sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs))"
        done = self.run_it("--in", self.path("data/") , "-c", code)
        self.assertEqual(done.stdout, b"['./data/b.txt', './data/sub/a.py']\n", done.stderr)
        self.assertIn(b"3 symbolic links and special files were left out", done.stderr)
        done = self.run_it("--in", self.path("data") + "=x/y", "-c", code)
        self.assertEqual(done.stdout, b"['./x/y/b.txt', './x/y/sub/a.py']\n", done.stderr)

    def test_bounds(self):
        folder = self.folder("many")
        for i in range(10_001):
            os.close(os.open("%s/%d" % (folder, i), os.O_CREAT | os.O_WRONLY))
        self.assertIn("more than 10000 files", self.refused(125, "--in", folder, "-c", "1"))
        deep = self.folder("deep")
        os.makedirs(os.path.join(deep, *"d" * 40))
        self.assertIn("levels of directories", self.refused(125, "--in", deep, "-c", "1"))
        self.assertIn("cannot be a name", self.refused(125, "--in", "..", "-c", "1"))
        self.assertEqual(self.good("--in", self.folder("empty"), "-c", "import os; print(os.listdir())"), "['out']\n")


class Json(RunCase):
    def result(self, *args, status=0, **rest):
        done = self.run_it("--json", *args, **rest)
        self.assertEqual((done.returncode, done.stderr, done.stdout.count(b"\n")), (status, b"", 1))
        return harness.message_of(done.stdout)

    def test_the_result_of_mcp(self):
        result = self.result("-c", "import sys; print('out'); print('err', file=sys.stderr); display('<b>', 'text/html')", "x")
        self.assertEqual((result["isError"], result["structuredContent"]["stdout"], result["structuredContent"]["stderr"]),
                         (False, "out\n", "err\n"))
        self.assertIn("out\n", result["content"][0]["text"])
        self.assertEqual(result["structuredContent"]["displays"][0]["text"], "<b>")

    def test_exit_codes_are_as_without(self):
        self.assertEqual(self.result("-c", "1/0", status=1)["structuredContent"]["error"]["type"], "ZeroDivisionError")
        self.assertEqual(self.result("-c", "import sys; sys.exit(7)", status=7)["structuredContent"]["exit_code"], 7)
        result = self.result("--timeout", "300ms", "-c", "while 1: pass", status=124)
        self.assertEqual(result["structuredContent"]["status"], "timeout")

    def test_long_output_and_files(self):
        result = self.result("--out", self.path("o"), "-c", "print('x' * 100_000); open('out/f', 'w').write('1')")
        self.assertEqual(len(result["structuredContent"]["stdout"]), 100_001)
        self.assertEqual(os.listdir(self.path("o")), ["f"])


class OverMcp(rawmcp.ServerCase):
    """Standard input is empty, and one line on standard error explains it."""

    def test_reads(self):
        why = "cloister: this code has no standard input: put the value into the code\n"
        cell = self.ok("import sys\nprint(repr(sys.stdin.read()), list(sys.stdin))")
        self.assertEqual((cell["stdout"], cell["stderr"]), ("'' []\n", why))
        self.assertNotIn("stderr", self.ok("1"))
        cell = self.cell("input('name: ')")
        self.assertEqual((cell["status"], cell.get("stderr")), ("error", None))
        self.assertIn("there is no standard input", cell["error"]["message"])


# Speaks on the channel itself, in a cell without await.
CHANNEL = """
import json, os, socket, struct
fd = max(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)
         and os.readlink("/proc/self/fd/" + n).startswith("socket:"))
channel = socket.socket(fileno=os.dup(fd))
channel.settimeout(20)
def read(length, number=1 << 40):
    data = json.dumps({"length": length}).encode()
    return struct.pack("<IBBHQ", len(data), 0x4C, 0, 0, number) + data
"""


class Hostile(RunCase):
    """A worker that requests more than the protocol allows loses its sandbox. No input is lost for another worker."""

    def test_what_is_not_allowed(self):
        for code, why in (
            ("read(0)", "READ of less than 1"), ("read(65537)", "READ of less than 1"), ("read(1 << 32)", "READ of less than 1"),
            ("read(-1)", "READ of less than 1"), ("read('x')", "READ of less than 1"), ("read(1) + read(1, 2)", "a second READ"),
        ):
            with self.subTest(code):
                reader, writer = os.pipe()
                done = self.run_it("-c", CHANNEL + "channel.sendall(%s)\nimport time; time.sleep(20)" % code, stdin=reader)
                os.close(reader)
                os.close(writer)
                self.assertEqual(done.returncode, 137, done.stderr)
                self.assertIn(why, done.stderr.decode())
        done = self.run_it("-c", CHANNEL + "channel.sendall(read(1))\nimport time; time.sleep(20)")
        self.assertIn(b"READ from code that has no standard input", done.stderr)

    def test_control_what_is_allowed(self):
        code = CHANNEL + "channel.sendall(read(3))\nprint(channel.recv(100)[16:])\n"
        drop = "channel.sendall(struct.pack('<IBBHQ', 2, 0x48, 0, 0, 1 << 40) + b'{}')\n"
        self.assertEqual(self.good("-c", code + drop + "import sys; print(sys.stdin.read())", data=b"abcdef"),
                         "b'{\"ok\":true,\"result\":\"YWJj\"}'\ndef\n")


if __name__ == "__main__":
    harness.main()
