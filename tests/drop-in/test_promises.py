"""What users of the four systems rely on, one row for each promise of promises.tsv that no other test of this folder holds, by a plain client over
stdio and over HTTP; and the first entry of each README with one changed command."""

import importlib
import json
import os
import unittest

import harness
import systems

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = {"codemode-lite": "test_codemode_lite", "code-sandbox-mcp": "test_code_sandbox_mcp", "mcp-python-exec-sandbox": "test_exec_sandbox",
           "llm-sandbox": "test_llm_sandbox"}
COMMAND = {"codemode-lite": "run_python", "code-sandbox-mcp": "run_python_code", "mcp-python-exec-sandbox": "execute_python", "llm-sandbox": "execute_code"}
ARGUMENT = {"mcp-python-exec-sandbox": "script"}
MS = r"\n--- duration_ms: \d+ ---"


def promises():
    with open(os.path.join(HERE, "promises.tsv"), encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if line.strip() and line[0] != "#"]


def failed(**members):
    """A JSON of code-sandbox-mcp and llm-sandbox whose members match."""
    return lambda text, case: [case.assertRegex(str(json.loads(text)[name]), rf"(?s)\A{pattern}\Z") for name, pattern in members.items()]


def codemode(**members):
    def check(text, case):
        found = json.loads(text)
        case.assertEqual({name: found[name] for name in members}, members)

    return check


def codemode_error(pattern):
    return lambda text, case: (case.assertRegex(json.loads(text)["error"], pattern), case.assertFalse(json.loads(text)["success"]))


def schema(properties, required):
    """What tools/list says of the first tool: {argument: type}."""
    def check(tool, case):
        given = {name: value.get("type", "array or null") for name, value in tool["inputSchema"]["properties"].items()}
        case.assertEqual((given, tool["inputSchema"]["required"]), (properties, required))

    return check


# id: (what is called: code, (tool, arguments) or None for the listed tool, what its text must be: a text, a pattern or a function)
ROWS = {
    # codemode-lite
    "cl-schema": (None, schema({"code": "string", "servers": "array", "timeout": "integer"}, ["code"])),
    "cl-missing": (("run_python", {}), codemode_error('argument "code" is missing')),
    "cl-none": ("pass", codemode(success=True, output="", error=None, tool_calls=[])),
    "cl-value": ("6 * 7", codemode(output="")),
    "cl-number": ("print(5)", codemode(output=5)),
    "cl-text": ("print('a b')", codemode(output="a b\n")),
    "cl-null": ("print('null')", codemode(output=None, success=True)),
    "cl-list": ("print('[1, \"x\"]')", codemode(output=[1, "x"])),
    "cl-unicode": ("print('grün')", codemode(output="grün\n")),
    "cl-stderr": ("import sys; print('e', file=sys.stderr); print('o')", codemode(success=True, output="o\n", error=None)),
    "cl-backend": ("pass", codemode(backend="podman (cloister)")),
    "cl-state": (("run_python", {"code": "kept = [1]"}), codemode(success=True)),
    "cl-state-2": ("kept.append(2); print(kept)", codemode(output=[1, 2])),
    "cl-await": ("import asyncio\nawait asyncio.sleep(0)\nprint(await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)))", codemode(output=[1, 2])),
    "cl-name": ("print(__name__)", codemode(output="__sandbox__\n")),
    "cl-modules": ("print([asyncio.__name__, json.__name__, re.__name__, math.__name__, datetime.__name__, collections.__name__, itertools.__name__, "
                   "functools.__name__] == 'asyncio json re math datetime collections itertools functools'.split())", codemode(output="True\n")),
    "cl-kwargs": ("print((await tools['echo'](a='x'))['a'])", codemode(output="x\n", tool_calls=[{"name": "echo", "success": True}])),
    "cl-positional": ("print((await tools['echo']({'a': 'x'}))['a'])", codemode(output="x\n")),
    "cl-blocks": ("print(type(await tools['blocks']()).__name__)", codemode(output="list\n")),
    "cl-unwrap": ("print((await tools['echo'](arguments={'a': 'x'}))['a'])", codemode(output="x\n")),
    "cl-strip": ("print('b' in await tools['echo'](a='x', b=None))", codemode(output="False\n")),
    "cl-bare": ("print((await echo(a='y'))['a'])", codemode(output="y\n")),
    "cl-server": ("print((await mcp_my_server.echo(a='z'))['a'])", codemode(output="z\n")),
    "cl-error": ("try:\n    await tools['fail']()\nexcept RuntimeError as e:\n    print('caught')", codemode(output="caught\n")),
    "cl-uncaught": ("await tools['fail']()", codemode_error("ToolError")),
    "cl-discover": ("tools_list = await _discover()\nprint(sorted(tools_list[0]) == sorted({*tools_list[0], 'name', 'description', 'server'}), "
                    "all(len(t['description'] or '') <= 120 for t in tools_list))", codemode(output="True True\n")),
    "cl-schema-of": ("found = await _schema('echo')\nprint(found['name'], 'error' in found)", codemode(output="echo False\n")),
    "cl-search": ("print([t['name'] for t in await _search('ECHO')][:1])", codemode(output="['echo']\n")),
    "cl-unknown-server": (("run_python", {"code": "print(1)", "servers": ["X"]}), codemode(success=False, error="Failed to connect to server 'X': Server 'X' not configured")),
    "cl-timeout": (("run_python", {"code": "while True: pass", "timeout": 1}), codemode(success=False, output=None, error="Execution timed out after 1s")),
    "cl-exit": ("raise SystemExit(3)", codemode(success=False)),
    "cl-exit-2": ("print(kept)", codemode(output=[1, 2])),
    "cl-large": ("print('y' * 200000)", lambda text, case: case.assertEqual(json.loads(text)["output"], "y" * 200000 + "\n")),
    # code-sandbox-mcp
    "cs-schema": (None, schema({"code": "string"}, ["code"])),
    "cs-strip": ("print('\\n a b \\n')", "a b"),
    "cs-stderr": ("import sys; print('o'); print('e', file=sys.stderr)", "o"),
    "cs-blank": ("print('  ')", failed(exit_code="1", stderr=r"No output, forgot print\(\)\?", stdout="")),
    "cs-error": ("raise ValueError('x')", failed(exit_code="1", stderr="Traceback .*ValueError: x", stdout="")),
    "cs-syntax": ("print(", failed(exit_code="1", stderr=".*SyntaxError.*", stdout="")),
    "cs-exit": ("print('o'); raise SystemExit(2)", failed(exit_code="1", stdout="")),
    "cs-missing": (("run_python_code", {}), failed(exit_code="1", stderr='argument "code" is missing', stdout="")),
    "cs-fresh": ("print('x' in globals())", "False"),
    "cs-js": (("run_javascript_code", {"code": "console.log('Hello, World!');"}), "Hello, World!"),
    "cs-js-none": (("run_javascript_code", {"code": "1"}), failed(exit_code="1", stderr=r"No output, forgot console\.logs\?", stdout="")),
    "cs-js-error": (("run_javascript_code", {"code": "throw new TypeError('x')"}), failed(exit_code="1", stderr=".*TypeError: x.*", stdout="")),
    # mcp-python-exec-sandbox
    "es-schema": (None, schema({"script": "string", "dependencies": "array or null", "timeout_seconds": "integer"}, ["script"])),
    "es-out": ("print('hello')", rf"\A--- stdout ---\nhello\n\n--- exit_code: 0 ---{MS}\Z"),
    "es-err": ("import sys; sys.stderr.write('e')", rf"\A--- stderr ---\ne\n--- exit_code: 0 ---{MS}\Z"),
    "es-none": ("x = 1", rf"\A--- exit_code: 0 ---{MS}\Z"),
    "es-code": ("import sys; sys.exit(42)", rf"\A--- exit_code: 42 ---{MS}\Z"),
    "es-text-exit": ("import sys; sys.exit('why')", rf"\A--- stderr ---\nwhy\n\n--- exit_code: 1 ---{MS}\Z"),
    "es-error": ("raise KeyError('k')", rf"\A--- stderr ---\nTraceback (.|\n)*KeyError: 'k'\n\n--- exit_code: 1 ---{MS}\Z"),
    "es-syntax": ("def", rf"\A--- stderr ---\n(.|\n)*SyntaxError(.|\n)*--- exit_code: 1 ---{MS}\Z"),
    "es-timeout": (("execute_python", {"script": "import time; print(1, flush=True); time.sleep(60)", "timeout_seconds": 1}),
                   rf"\A--- stdout ---\n1\n\n--- exit_code: -9 ---{MS}\n--- timed_out: true ---\Z"),
    "es-below": (("execute_python", {"script": "import time; time.sleep(60)", "timeout_seconds": -5}), r"timed_out: true ---\Z"),
    "es-stream": ("print('y' * 300000)", rf"\A--- stdout ---\ny+\n\.\.\. \[truncated at 100KB\]\n--- exit_code: 0 ---{MS}\Z"),
    "es-main": ("if __name__ == '__main__': print('main')", r"\A--- stdout ---\nmain\n"),
    "es-metadata": ("# /// script\n# requires-python = '>=3.9'\n# dependencies = []\n# ///\nprint(2)", r"\A--- stdout ---\n2\n"),
    "es-fresh": ("print('x' in globals())", r"\A--- stdout ---\nFalse\n"),
    "es-env": ("import os; print(sorted({'PATH', 'HOME', 'LANG', 'TMPDIR', 'USER'} - set(os.environ)))", r"\A--- stdout ---\n\[\]\n"),
    "es-unicode": ("print('日本')", r"\A--- stdout ---\n日本\n"),
    "es-valid": (("validate_script", {"script": "print(1)"}), "VALID\nrequires-python: >=3.13\ndependencies: none"),
    "es-valid-list": (("validate_script", {"script": "print(1)", "dependencies": ["requests", "numpy>=2"]}),
                      "VALID\nrequires-python: >=3.13\ndependencies (2):\n  - requests\n  - numpy>=2"),
    "es-invalid": (("validate_script", {"script": "# /// script\n# dependencies = [\n# ///\n"}), r"\AINVALID: Malformed TOML in script metadata: "),
    # llm-sandbox
    "ls-schema": (None, schema({"code": "string", "language": "string", "libraries": "array or null", "timeout": "integer"}, ["code"])),
    "ls-out": ("print('a')", '{\n  "exit_code": 0,\n  "stderr": "",\n  "stdout": "a\\n"\n}'),
    "ls-none": ("pass", failed(exit_code="0", stderr="", stdout="")),
    "ls-error": ("print('o')\n1/0", failed(exit_code="1", stderr="Traceback.*ZeroDivisionError.*\n", stdout="o\n")),
    "ls-exit": ("raise SystemExit(9)", failed(exit_code="9")),
    "ls-language": (("execute_code", {"code": "x", "language": "cobol"}), failed(exit_code="1", stderr='.*"cobol".*', stdout="")),
    "ls-timeout": (("execute_code", {"code": "while True: pass", "timeout": 1}), failed(exit_code="1", stderr=".*timeout.*", stdout="")),
    "ls-missing": (("execute_code", {}), failed(exit_code="1", stderr='argument "code" is missing', stdout="")),
    "ls-fresh": ("print('x' in globals())", failed(stdout="False\n")),
    "ls-unknown": (("get_language_details", {"language": "x"}), '{\n  "error": "Unsupported language: x"\n}'),
}
SYSTEM_OF = {"cl": "codemode-lite", "cs": "code-sandbox-mcp", "es": "mcp-python-exec-sandbox", "ls": "llm-sandbox"}

# The entries of the READMEs, without their command: (system, args, env, arguments of the first call, part of its text).
ENTRIES = [
    ("codemode-lite", [], {"CODEMODE_BACKEND": "podman", "CODEMODE_MCPS_DIR": "~/MCPs", "CODEMODE_LOG_FILE": "log", "CODEMODE_LOG_LEVEL": "INFO"},
     {"code": "print(json.dumps({'a': 1}))"}, '"a": 1'),
    ("code-sandbox-mcp", [], {}, {"code": "print('Hello, World!')"}, "Hello, World!"),
    ("code-sandbox-mcp", ["--pass-through-env", "API_KEY,SECRET_TOKEN"], {"API_KEY": "1234567890", "SECRET_TOKEN": "1234567890"},
     {"code": "import os; print(len(os.environ['API_KEY'] + os.environ['SECRET_TOKEN']))"}, "20"),
    ("mcp-python-exec-sandbox", [], {}, {"script": "print('hello world')"}, "--- stdout ---\nhello world\n"),
    ("mcp-python-exec-sandbox", ["--sandbox-backend", "none"], {}, {"script": "print('hello world')"}, "--- stdout ---\nhello world\n"),
    ("mcp-python-exec-sandbox", ["--max-timeout", "60", "--default-timeout", "10", "--max-output-bytes", "2048", "--no-warm-cache", "--uv-path", "uv"], {},
     {"script": "print('hello world')"}, "--- stdout ---\nhello world\n"),
    ("llm-sandbox", [], {"BACKEND": "docker"}, {"code": "print('hello')", "language": "python"}, '"stdout": "hello\\n"'),
    ("llm-sandbox", [], {"BACKEND": "podman", "DOCKER_HOST": "unix:///run/podman.sock", "COMMIT_CONTAINER": "false", "KEEP_TEMPLATE": "false"},
     {"code": "console.log('hello')", "language": "javascript"}, '"stdout": "hello\\n"'),
]


class Promises(systems.SystemCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("mcps"))
        self.write("mcps/a.json", json.dumps({"mcpServers": {"My-Server": harness.fixture()}}))

    def start(self, *args, config=None, **rest):
        """Without the libraries of code-sandbox-mcp, which no row uses: its own file tests them, with its own index."""
        libraries = {"libraries": {"python": [], "npm": []}} if self.SYSTEM == "code-sandbox-mcp" else {}
        return super().start(*args, config={**libraries, **(config or {})}, **rest)

    def check_row(self, server, system, called, expected):
        if called is None:
            expected(server.ask("tools/list")["tools"][0], self)
            return
        tool, arguments = called if isinstance(called, tuple) else (COMMAND[system], {ARGUMENT.get(system, "code"): called})
        text = self.told(server, tool, **arguments)
        if callable(expected):
            expected(text, self)
        elif expected.startswith((r"\A", "timed_out")):
            self.assertRegex(text, expected)
        else:
            self.assertEqual(text, expected)

    def check_system(self, prefix):
        self.SYSTEM = SYSTEM_OF[prefix]
        for http in False, True:
            server = self.start(http=http, env={"CODEMODE_MCPS_DIR": self.path("mcps")})
            self.assertEqual(self.initialized["serverInfo"]["name"], {"cl": "codemode-mcp-server", "cs": "code-sandbox"}.get(prefix, self.SYSTEM))
            for name, (called, expected) in ROWS.items():
                if name.startswith(prefix + "-"):
                    with self.subTest(row=name, http=http):
                        self.check_row(server, self.SYSTEM, called, expected)

    def test_codemode_lite(self):
        self.check_system("cl")

    def test_code_sandbox_mcp(self):
        self.check_system("cs")

    def test_exec_sandbox(self):
        self.check_system("es")

    def test_llm_sandbox(self):
        self.check_system("ls")

    def test_entries_of_the_readmes(self):
        for system, args, env, arguments, part in ENTRIES:
            with self.subTest(system=system, args=args, env=env):
                self.SYSTEM = system
                server = self.start(*args, env=env)
                self.assertIn(part, self.told(server, COMMAND[system], **arguments))


class Table(unittest.TestCase):
    def test_each_promise_has_a_check(self):
        seen, rows = set(), set()
        for line in promises():
            self.assertEqual(len(line), 4, line)
            name, section, text, held = line
            self.assertNotIn(name, seen)
            seen.add(name)
            system = SYSTEM_OF[name.split("-")[0]]
            self.assertRegex(section, r"\A(6|12)\.[1-4]\Z")
            self.assertTrue(text)
            for check in held.split(", ") if not held.startswith("not: ") else ():
                if check.startswith("row "):
                    self.assertIn(check[4:], ROWS, line)
                    rows.add(check[4:])
                    continue
                module, test = check.split(".") if "." in check else (MODULES[system], check)
                cases = [value for value in vars(importlib.import_module(module)).values() if isinstance(value, type) and issubclass(value, unittest.TestCase)]
                self.assertTrue(any(test in vars(case) for case in cases), line)
        self.assertEqual(set(ROWS) - rows, set())


if __name__ == "__main__":
    harness.main()
