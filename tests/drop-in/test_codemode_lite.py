"""codemode-lite: one session, its variables of the environment, and the names in the code."""

import json
import os

import harness
import systems

BACKEND = "podman (cloister)"


class CodemodeLite(systems.SystemCase):
    SYSTEM = "codemode-lite"

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("mcps"))
        self.write("mcps/a.json", json.dumps({"mcpServers": {"My-Server": harness.fixture()}, "description": "x"}))
        self.directory = {"CODEMODE_MCPS_DIR": self.path("mcps")}

    def run_code(self, server, code, **rest):
        return self.value(server, "run_python", code=code, **rest)

    def test_results(self):
        self.both(self.check_results, env=self.directory)

    def check_results(self, server):
        self.assertEqual((self.initialized["serverInfo"]["name"], self.names(server)), ("codemode-mcp-server", ["run_python"]))
        found = self.run_code(server, "x = 5\nprint(x)")
        self.assertEqual(list(found), ["success", "output", "error", "duration", "backend", "tool_calls"])
        self.assertEqual({**found, "duration": 0}, {"success": True, "output": 5, "error": None, "duration": 0, "backend": BACKEND, "tool_calls": []})
        output = lambda code: self.run_code(server, code)["output"]
        self.assertEqual(output("print('a', x, __name__)"), "a 5 __sandbox__\n")  # variables are kept
        self.assertEqual(output("print('{\"a\": [1, null]}')"), {"a": [1, None]})
        self.assertEqual(output("7"), "")
        failed = self.run_code(server, "print('lost')\n1/0")
        self.assertEqual((failed["success"], failed["output"], failed["tool_calls"]), (False, None, []))
        self.assertRegex(failed["error"], r"(?s)\ATraceback .*ZeroDivisionError")
        late = self.run_code(server, "while True: pass", timeout=1)
        self.assertEqual((late["success"], late["output"], late["error"]), (False, None, "Execution timed out after 1s"))
        self.assertEqual(output("print(x)"), 5)
        unknown = self.run_code(server, "print(1)", servers=["nope"])
        self.assertEqual({**unknown, "duration": 0},
                         {"success": False, "error": "Failed to connect to server 'nope': Server 'nope' not configured", "duration": 0})

    def test_names_in_the_code(self):
        server = self.start(env=self.directory)
        found = self.run_code(server, """
import sys
seen = [name for name in "asyncio json re math datetime collections itertools functools".split() if name not in globals()]
one = await tools['echo'](a='x')
two = await echo(arguments={'a': 'x'})
three = await mcp_my_server.echo(a='x', b=None)
try:
    await tools['fail']()
    wrong = None
except RuntimeError as error:
    wrong = [type(error).__name__, isinstance(error, ToolError)]
print(json.dumps([seen, one == two, wrong, _schema('nope').get('error') is not None, [t['name'] for t in _search('ECH')],
                  (await tools['_discover']())[0] == _discover()[0], await tools['_schema']('nope') == _schema('nope'),
                  await tools['_search']('ech') == _search('ech'), three, 'echo' in tools]))""", servers=["My-Server"])
        self.assertEqual(found["error"], None)
        self.assertEqual(found["output"][0:5], [[], True, ["ToolError", True], True, ["echo"]])
        self.assertEqual(found["output"][5:], [True, True, True, {"a": "x"}, True])
        self.assertLessEqual({"name", "description", "server"}, set(self.run_code(server, "print(json.dumps(_discover()[0]))")["output"]))
        self.assertEqual([call["name"] for call in found["tool_calls"]], ["echo", "echo", "echo", "fail"])
        self.assertEqual(found["tool_calls"][3], {"name": "fail", "success": False})

    def test_the_usual_tool_is_as_it_was(self):
        """Control: without --as, _search and _schema and ToolError are Cloister's own."""
        ended = self.run_cloister("run", "--config", self.config(), "-c", "print(issubclass(ToolError, RuntimeError), __name__)")
        self.assertEqual(ended.stdout, b"False __main__\n", ended.stderr)

    def test_variables(self):
        self.write("mcps/b.json", "{")
        env = {**self.directory, "CODEMODE_TIMEOUT": "1", "CODEMODE_LOG_FILE": self.path("log"), "CODEMODE_LOG_LEVEL": "INFO"}
        server = self.start("--log-format", "plain", env=env)  # rawmcp asks for text
        self.run_code(server, "await tools['echo'](a=1)", servers=["My-Server"])
        self.run_code(server, "1\n00:00:00 cloister ERROR forged")
        self.run_code(server, "x = 'ghp_" + "a1B2" * 9 + "'")
        self.assertIn("timed out after 1s", self.run_code(server, "import time; time.sleep(60)")["error"])
        def read():
            with open(self.path("log"), encoding="utf-8") as f:
                return f.read()

        harness.wait_until(lambda: "RUN_PYTHON ERROR | the call reached" in read())
        log = read()
        for line in log.splitlines():
            self.assertRegex(line, r"\A\d\d:\d\d:\d\d cloister (ERROR|WARNING|INFO) ")
        self.assertRegex(log, r"b\.json: line 1, column \d+: .*skipped")
        self.assertRegex(log, r"INFO RUN_PYTHON START \| servers=none \| timeout=1 \| code \(27 bytes\): import time; time\.sleep\(60\)\n")
        self.assertRegex(log, r"INFO RUN_PYTHON START \| servers=My-Server \| ")
        self.assertRegex(log, r"INFO SERVER LOADED \| 'My-Server' \| \d+ tools\n")
        self.assertRegex(log, r"INFO   TOOL OK \| echo \| 0\.\d{3}s\n")
        self.assertRegex(log, r"INFO RUN_PYTHON SUCCESS \| \d+\.\d\ds \| tool_calls=1 \(ok=1 fail=0\) \| backend=podman \(cloister\)\n")
        self.assertRegex(log, r"INFO RUN_PYTHON FAILED \| [1-9]\.\d\ds \| tool_calls=0 \(ok=0 fail=0\) ")
        self.assertRegex(log, r"WARNING RUN_PYTHON ERROR \| the call reached its timeout of 1 s\n")
        # Code cannot forge a line, and what looks like a secret is masked.
        self.assertIn(r"): 1\x0a00:00:00 cloister ERROR forged", log)
        self.assertNotIn("a1B2" * 9, log)

    def pyodide(self):
        """npm's package, of quickstart; CLOISTER_PYODIDE is another one. A sandbox hides what is below /tmp."""
        path = os.path.realpath(os.environ.get("CLOISTER_PYODIDE", os.path.join(harness.NODE_DIR, "node_modules", "pyodide")))
        self.assertTrue(os.path.exists(os.path.join(path, "pyodide.mjs")), f"{path}: ./quickstart build fetches it")
        return {"CODEMODE_BACKEND": "pyodide-wasm", **self.directory}, {"pyodide": path}

    def test_pyodide(self):
        env, config = self.pyodide()
        self.both(self.check_pyodide, env=env, config=config)

    def check_pyodide(self, server):
        found = self.run_code(server, """
import sys
async def main():
    global left
    left = 1
    seen = [name for name in "asyncio json re math datetime collections itertools functools".split() if name not in globals()]
    one = await tools['echo'](a='x', b=None)
    two = [await echo({'a': 'x'}), await mcp_my_server.echo(arguments={'a': 'x'})]
    try:
        await tools['fail']()
    except RuntimeError as error:
        wrong = type(error).__name__
    return {"platform": sys.platform, "seen": seen, "one": one, "same": [one == each for each in two], "wrong": wrong, "name": __name__,
            "unknown": list(_schema('nope')), "schema": 'inputSchema' in str(_schema('echo')) or 'properties' in str(_schema('echo')),
            "search": [t['name'] for t in _search('ECH')], "server": (await _discover())[0]['server'], "has": 'echo' in tools, "long": ["y" * 1000] * 200, "big": 2 ** 60 + 1}
""", servers=["My-Server"])
        self.assertEqual(found["error"], None)
        self.assertEqual((found["success"], found["backend"], list(found)),
                         (True, "pyodide-wasm", ["success", "output", "error", "duration", "backend", "tool_calls"]))
        self.assertEqual(found["output"], {"platform": "emscripten", "seen": [], "one": {"a": "x"}, "same": [True, True], "wrong": "ToolError", "name": "__sandbox__",
                                           "unknown": ["error"], "schema": True, "search": ["echo"], "server": "My-Server", "has": True,
                                           "long": ["y" * 1000] * 200, "big": 2 ** 60 + 1})
        self.assertEqual([(call["name"], call["success"]) for call in found["tool_calls"]], [("echo", True)] * 3 + [("fail", False)])
        if isinstance(server, systems.Http):
            return  # each call loads it again
        # A fresh one for each call. An error is that of Python.
        failed = self.run_code(server, "async def main():\n    return {'left': left}")
        self.assertEqual((failed["success"], failed["output"], failed["backend"], failed["tool_calls"]), (False, None, "pyodide-wasm", []))
        self.assertRegex(failed["error"], r"\ATraceback \(most recent call last\):\n.*\n(.*\n)*NameError: name 'left' is not defined\n\Z")
        late = self.run_code(server, "async def main():\n    while True: pass", timeout=1)
        self.assertEqual((late["success"], late["error"]), (False, "Execution timed out after 1s"))

    def test_pyodide_that_is_missing(self):
        """The start ends with one line, and CPython does not take its place."""
        env, _ = self.pyodide()
        self.refused(1, r"Pyodide is not installed \(not in \S+/node_modules/pyodide, .*npm install --prefix ~ pyodide, or name its directory with \"pyodide\"",
                     env={**env, "HOME": self.path("mcps"), "PATH": "/nowhere", "npm_config_prefix": self.path("mcps")})
        self.refused(1, '"pyodide" in the config: /nowhere has no npm package', env=env, config={"pyodide": "/nowhere"})

    def test_servers_of_a_variable_replace_the_directory(self):
        servers = [{"name": "one", **harness.fixture("--name", "one", env={"KEY": "sesame-7"})}]
        server = self.start(env={**self.directory, "CODEMODE_SERVERS": json.dumps(servers), "CODEMODE_LOG_LEVEL": "debug"})
        found = self.run_code(server, "print(json.dumps(sorted({t['server'] for t in _discover()})))")
        self.assertEqual(found["output"], ["one"])
        self.assertNotIn("sesame-7", server.log())

    def test_wrong_variables(self):
        self.refused(1, "CODEMODE_BACKEND docker: must be one of podman, pyodide-wasm", env={"CODEMODE_BACKEND": "docker"})
        self.refused(1, "CODEMODE_TIMEOUT soon: must be a whole number", env={"CODEMODE_TIMEOUT": "soon"})
        self.refused(1, r"CODEMODE_SERVERS: is not JSON: .*byte \d+", env={"CODEMODE_SERVERS": '[{"name": }]'})
        self.refused(1, "CODEMODE_SERVERS: item 1 must be an object with a name", env={"CODEMODE_SERVERS": "[1]"})


if __name__ == "__main__":
    harness.main()
