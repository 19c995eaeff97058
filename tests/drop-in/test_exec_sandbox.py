"""mcp-python-exec-sandbox: its tools, options and forms of results."""

import harness
import systems


class ExecSandbox(systems.SystemCase):
    SYSTEM = "mcp-python-exec-sandbox"

    def form(self, text, output, *ends):
        self.assertRegex(text, r"\A" + r"\n".join([output, *ends]) + r"\Z")

    def test_tools_and_results(self):
        self.both(self.check_results)

    def check_results(self, server):
        self.assertEqual(self.initialized["serverInfo"]["name"], "mcp-python-exec-sandbox")
        tools = {tool["name"]: tool["inputSchema"] for tool in server.ask("tools/list")["tools"]}
        self.assertEqual(set(tools), {"execute_python", "check_environment", "validate_script"})
        script = tools["execute_python"]
        self.assertEqual((set(script["properties"]), script["required"]), ({"script", "dependencies", "timeout_seconds"}, ["script"]))
        self.assertEqual(script["properties"]["timeout_seconds"]["default"], 30)
        run = lambda script, **rest: self.told(server, "execute_python", script=script, **rest)
        ms = r"--- duration_ms: \d+ ---"
        self.form(run("print('hello')"), "--- stdout ---\nhello\n", "--- exit_code: 0 ---", ms)
        whole = self.result(server, "execute_python", script="print(1)")
        self.assertEqual(whole["structuredContent"], {"result": whole["content"][0]["text"]})
        self.form(run("7"), "--- exit_code: 0 ---", ms)
        self.form(run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"),
                  "--- stdout ---\nout\n\n--- stderr ---\nerr\n", "--- exit_code: 3 ---", ms)
        self.form(run("1/0"), r"--- stderr ---\nTraceback (.|\n)*ZeroDivisionError: division by zero\n", "--- exit_code: 1 ---", ms)
        self.form(run("print(__name__, __file__[-3:])", dependencies=None), "--- stdout ---\n__main__ .py\n", "--- exit_code: 0 ---", ms)
        self.form(run("print(1, flush=True)\nwhile True: pass", timeout_seconds=0), "--- stdout ---\n1\n", "--- exit_code: -9 ---", ms, "--- timed_out: true ---")
        # Each call has its own sandbox.
        self.assertIn("NameError", run("x = 1") + run("print(x)"))
        with self.assertRaises(Exception):
            self.result(server, "run_python", code="1")

    def test_output_is_cut_inside_its_bound(self):
        server = self.start("--max-output-bytes", "2048")
        text = self.told(server, "execute_python", script="print('é' * 2000); print('--- exit_code: 7 ---')")
        output = text.removeprefix("--- stdout ---\n").split("\n--- exit_code: 0", maxsplit=1)[0]
        self.assertTrue(output.endswith("é\n... [truncated at 2KB]"), output[-40:])
        self.assertIn(len(output.encode()), (2047, 2048))
        self.assertNotIn("exit_code: 7", text)

    def test_environment_and_options(self):
        server = self.start("--max-timeout", "2", "--default-timeout=1", "--sandbox-backend", "none", "--no-warm-cache", "--uv-path", "/x")
        lines = dict(line.split(": ", 1) for line in self.told(server, "check_environment").split("\n"))
        self.assertEqual(list(lines), ["Python version", "uv", "Platform", "Sandbox backend", "Sandbox status", "Default timeout", "Max timeout",
                                       "Max output", "Cache warming"])
        self.assertEqual((lines["Sandbox backend"], lines["Default timeout"], lines["Max timeout"], lines["Max output"], lines["Cache warming"]),
                         ("none", "1s", "2s", "102400 bytes", "disabled"))
        self.assertIn("never without a sandbox", lines["Sandbox status"])
        # A timeout beyond the bound is clamped.
        text = self.told(server, "execute_python", script="import time; time.sleep(60)", timeout_seconds=50)
        self.assertIn("timed_out: true", text)
        log = server.log()
        self.assertRegex(log, "--sandbox-backend none: code runs in Cloister's sandbox")
        self.assertRegex(log, "--uv-path /x: has no meaning here")

    def test_validate_script(self):
        server = self.start()
        check = lambda script, **rest: self.told(server, "validate_script", script=script, **rest)
        self.assertEqual(check("x"), "VALID\nrequires-python: >=3.13\ndependencies: none")
        block = '# /// script\n# requires-python = ">=3.9"\n# dependencies = ["requests", "A-B>1"]\n# ///\n'
        self.assertEqual(check(block, dependencies=["a_b==2", "numpy"]),
                         "VALID\nrequires-python: >=3.9\ndependencies (3):\n  - requests\n  - a_b==2\n  - numpy")
        self.assertRegex(check("# /// script\n# a = \n# ///\n"), r"\AINVALID: Malformed TOML in script metadata: ")

    def test_wrong_options(self):
        self.refused(2, "--sandbox-backend vm: must be one of native, docker, none", "--sandbox-backend", "vm")
        self.refused(2, "--max-timeout x: must be a whole number", "--max-timeout", "x")
        self.refused(1, "--max-timeout 0: must be from 1 to", "--max-timeout", "0")
        self.refused(1, "--default-timeout 20: must be from 1 to 10", "--max-timeout", "10", "--default-timeout", "20")
        self.refused(1, "--max-output-bytes 1023: must be from 1024 to", "--max-output-bytes", "1023")
        self.refused(2, "unknown option --max-timeoutt: did you mean --max-timeout", "--max-timeoutt", "3")
        self.refused(2, "--max-timeout needs a value", "--max-timeout")
        self.refused(2, "--no-warm-cache takes no value", "--no-warm-cache=1")


if __name__ == "__main__":
    harness.main()
