"""Profiles with JavaScript: the tool run_javascript, sessions, what is refused, the sandbox of Node, `cloister run` of a file."""

import os
import shutil

import harness
import rawmcp

COPIES = {"from": "x", "branches": 2, "checkpoint": "x", "restore": "x", "on_error": "rollback"}
CHILD = "require('child_process').execFileSync('/bin/sh', ['-c', 'for i in /proc/self/fd/*; do readlink $i; done; true']).toString()"


class Tool(rawmcp.ServerCase):
    TOOL = "run_javascript"
    CONFIG = {"pool": 1, "limits": {"memory": "256M"}, "profiles": {"js": {"language": "javascript", "agent": True}}}

    def test_schema(self):
        tools = {tool["name"]: tool for tool in self.server.ask("tools/list")["tools"]}
        self.assertEqual(set(tools), {"run_python", "run_javascript"})
        taken = set(tools["run_javascript"]["inputSchema"]["properties"])
        self.assertEqual(set(COPIES) & taken, set())
        self.assertLess({"code", "session", "timeout", "wait", "interrupt", "reset", "max_output"}, taken)
        self.assertLess(set(COPIES), set(tools["run_python"]["inputSchema"]["properties"]))

    def test_arguments_that_need_a_copy_are_refused(self):
        for name, value in {**COPIES, "check_only": True}.items():
            with self.subTest(name):
                cell = self.cell("console.log('ran')", **{name: value})
                self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "ArgumentError"), cell)
                self.assertIn(f'no argument "{name}"', cell["error"]["message"])
                self.assertNotIn("\n", cell["error"]["message"])
        self.assertEqual(self.ok("console.log('ran')")["stdout"], "ran\n")

    def test_a_session_has_one_language(self):
        python = {"tool": "run_python"}
        self.assertEqual(self.ok("var kept = 1; console.log(kept)")["state"], "new")
        cell = self.cell("1", **python)
        self.assertEqual(cell["error"]["type"], "LanguageError", cell)
        self.assertIn("run_javascript", cell["error"]["message"])
        cell = self.cell("1", session="copy", **{"from": self.session}, **python)
        self.assertIn("cannot be copied", cell["error"]["message"])
        self.assertEqual(self.ok("console.log(kept)")["stdout"], "1\n")
        # reset begins it anew in the other language, and back.
        self.assertEqual(self.ok("print(6 * 7)", reset=True, **python)["stdout"], "42\n")
        self.assertEqual(self.cell("1")["error"]["type"], "LanguageError")
        self.assertEqual(self.ok("console.log(typeof kept)", reset=True)["stdout"], "undefined\n")

    def test_the_default_sessions_are_two(self):
        one = self.server.cell("console.log('a')", tool="run_javascript")
        other = self.server.cell("print('b')")
        self.assertEqual((one["session"], one["stdout"]), ("javascript", "a\n"))
        self.assertEqual((other["session"], other["stdout"]), ("default", "b\n"))

    def test_the_end_of_node_loses_the_state(self):
        for code, status in (("process.reallyExit(3)", "exit"), ("process.kill(process.pid, 'SIGKILL')", "killed"), ("process.abort()", "killed")):
            with self.subTest(code):
                self.ok("var kept = 1")
                cell = self.cell(code)
                self.assertEqual((cell["status"], cell["state"]), (status, "lost"), cell)
                self.assertIn("lost", cell["notice"])
                self.assertEqual(self.ok("console.log(typeof kept)")["stdout"], "undefined\n")

    def test_memory_has_a_limit(self):
        cell = self.cell("var all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1));")
        self.assertEqual((cell["status"], cell["state"]), ("oom", "lost"), cell)
        self.assertEqual(self.ok("console.log(typeof all)")["stdout"], "undefined\n")

    def test_an_endless_loop_keeps_variables(self):
        self.ok("var kept = 1")
        cell = self.cell("for (;;) try { for (;;); } catch {}", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        self.assertEqual(self.ok("console.log(kept)")["stdout"], "1\n")

    def test_the_modules_of_the_worker_cannot_be_changed(self):
        code = (
            "for (const act of [() => fs.writeFileSync(own, 'x'), () => fs.chmodSync(own, 0o777), () => fs.unlinkSync(own),"
            " () => fs.renameSync('/dev/cloister', '/dev/other'), () => fs.writeFileSync('/dev/cloister/x', 'x')])"
            " try { act(); console.log('done') } catch (e) { console.log(e.code) }"
        )
        self.ok("var fs = require('fs'), own = '/dev/cloister/main.js'")
        self.assertLessEqual(set(self.ok(code)["stdout"].split()), {"EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV"})
        self.assertEqual(self.ok("fs.writeFileSync('/workspace/x', 'x'); console.log(fs.readFileSync(own).length > 0)")["stdout"], "true\n")

    def test_children_do_not_have_the_channel(self):
        channel = self.ok("console.log(require('fs').readlinkSync('/proc/self/fd/3'))")["stdout"].strip()
        self.assertRegex(channel, r"^socket:\[\d+\]$")
        links = self.ok(f"console.log({CHILD})")["stdout"].split()
        # Node makes its standard streams. A child that is given the channel by its number has it.
        self.assertGreaterEqual(len(links), 3)
        self.assertNotIn(channel, links)
        given = CHILD.replace("])", "], {stdio: ['ignore', 'pipe', 'inherit', 3]})")
        self.assertIn(channel, self.ok(f"console.log({given})")["stdout"].split())

    def test_a_broken_channel_ends_the_session_only(self):
        other = self.session + "-2"
        self.ok("var kept = 1", session=other)
        cell = self.cell("require('fs').writeSync(3, Buffer.alloc(64, 255)); for (;;);", timeout=10)
        self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"), cell)
        self.assertIn("channel", cell["notice"])
        self.assertEqual(self.ok("console.log(kept)", session=other)["stdout"], "1\n")


class Choice(harness.Case):
    """Which connections have which tool, and where Node comes from."""

    def tools(self, *arguments, **config):
        with rawmcp.RawServer("--config", self.config(**config), *arguments, cwd=self.dir) as server:
            server.initialize()
            return [tool["name"] for tool in server.ask("tools/list")["tools"]]

    def test_the_profile_decides(self):
        js = {"language": "javascript"}
        self.assertEqual(self.tools(), ["run_python"])
        # A profile that the agent may not choose gives no tool.
        self.assertEqual(self.tools(profiles={"js": js}), ["run_python"])
        self.assertEqual(self.tools("--profile", "js", profiles={"js": js}), ["run_javascript"])
        self.assertEqual(self.tools("--profile", "js", profiles={"js": js, "py": {"agent": True}}), ["run_python", "run_javascript"])

    def test_a_profile_that_is_not_for_the_agent(self):
        with rawmcp.RawServer("--config", self.config(profiles={"js": {"language": "javascript"}}), cwd=self.dir) as server:
            server.initialize()
            with self.assertRaises(rawmcp.RpcError):
                server.cell("1", tool="run_javascript")

    def failed(self, text, env=None, status=125, **config):
        ran = self.run_cloister("run", "--config", self.config(language="javascript", **config), "-c", "1", env=env)
        self.assertEqual(ran.returncode, status, (ran.stdout, ran.stderr))
        self.assertIn(text, ran.stderr.decode().splitlines()[-1])

    def test_a_node_that_cannot_be_used(self):
        os.chmod(self.dir, 0o755)
        old = self.write("old", "#!/bin/sh\necho v18.19.0; echo /usr/bin/node\n")
        silent = self.write("silent", "#!/bin/sh\nexit 3\n")
        for path in (old, silent):
            os.chmod(path, 0o755)
        self.failed("too old: install Node 20 or later", nodejs=old)
        self.failed("does not run as Node", nodejs=silent)
        self.failed("No such file", nodejs=self.path("missing"))
        self.failed("absolute path", nodejs="node")
        os.mkdir(self.path("bin"))
        for name in ("python3",):
            os.symlink(shutil.which(name), self.path("bin") + "/" + name)
        self.failed('no program "node"', env=harness.environment(PATH=self.path("bin")))

    def test_an_image_by_name(self):
        names = [f"test-{os.getpid()}-{kind}" for kind in ("node", "none")]
        for name, arguments in zip(names, (("--node", "node"), ())):
            done = self.run_cloister("image", "build", "--quiet", "--name", name, *arguments)
            self.addCleanup(self.run_cloister, "image", "remove", name)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b", with Node of /", self.run_cloister("image", "show", names[0]).stdout)
        # The name belongs to another image then.
        done = self.run_cloister("image", "build", "--name", names[1], "--node", "node")
        self.assertEqual((done.returncode, b"without Node" in done.stderr), (1, True), done.stderr)
        ran = self.run_cloister("run", "--config", self.config(language="javascript", image=names[0]), "-c", "console.log(process.execPath)")
        self.assertEqual((ran.returncode, ran.stdout[:1]), (0, b"/"), ran.stderr)
        self.failed("the image has no Node", image=names[1], status=126)
        done = self.run_cloister("image", "build", "--name", "x", "--rootfs", "/", "--node", "node")
        self.assertEqual((done.returncode, b"do not go together" in done.stderr), (2, True), done.stderr)

    def test_python_goes_on_without_node(self):
        config = self.config(profiles={"js": {"language": "javascript", "agent": True, "nodejs": self.path("missing")}})
        with rawmcp.RawServer("--config", config, cwd=self.dir) as server:
            server.initialize()
            self.assertEqual(server.cell("print(1)")["stdout"], "1\n")
            cell = server.cell("1", tool="run_javascript")
            self.assertIn(self.path("missing"), cell["error"]["message"])
            self.assertEqual(server.cell("print(2)")["stdout"], "2\n")


class Run(harness.Case):
    def test_language_by_name_and_option(self):
        script = self.write("a.js", "console.log('js', 1 + 1)")
        ran = self.run_cloister("run", script)
        self.assertEqual((ran.returncode, ran.stdout), (0, b"js 2\n"), ran.stderr)
        ran = self.run_cloister("run", "--language", "javascript", "-c", "console.log('option')")
        self.assertEqual((ran.returncode, ran.stdout), (0, b"option\n"), ran.stderr)
        ran = self.run_cloister("run", "--language", "javascript", "-c", "process.exit(7)")
        self.assertEqual(ran.returncode, 7, ran.stderr)
        ran = self.run_cloister("run", self.write("a.py", "print('py')"))
        self.assertEqual((ran.returncode, ran.stdout), (0, b"py\n"), ran.stderr)

    def test_wrong_options(self):
        for arguments, text in ((("--language", "ruby", "-c", "1"), "python or javascript"),
                                (("--with", "numpy", "a.js"), "not with JavaScript")):
            ran = self.run_cloister("run", *arguments)
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn(text, ran.stderr.decode())


if __name__ == "__main__":
    harness.main()
