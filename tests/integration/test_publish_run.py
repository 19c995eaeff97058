"""Published tools that run the code they are given, and the forms of their results: those of four other systems, each way that a call can end,
and code that prints what a form could be."""

import base64
import json
import os
import re
import shutil
import struct
import unittest
import zlib

import harness
import rawmcp
import test_installs
import test_serve
from test_publish import Client

MARKER = "\n... [truncated at {limit_kib}KB]"


def schema(code, required=True, **more):
    return {"type": "object", "properties": {code: {"type": "string"}, **more}, "required": [code] if required else [],
            "additionalProperties": False}


def codemode(output, error, calls):
    return {"success": error is None, "output": output, "error": error, "duration": {"field": "seconds", "digits": 2},
            "backend": "podman (cloister)", "tool_calls": calls}


def streams(*rest):
    bounds = {"limit": 102400, "marker": MARKER}
    return {"isError": False, "structured": {"result": {"field": "text"}},
            "text": [{"field": "stdout", "before": "--- stdout ---\n", **bounds}, {"field": "stderr", "before": "--- stderr ---\n", **bounds}, *rest]}


TOOLS = {
    "run_code": {  # as codemode-lite
        "inputSchema": schema("code", servers={"type": "array", "items": {"type": "string"}}, timeout={"type": "integer"}),
        "run": {"code": "code", "session": "codemode-test", "name": "__sandbox__", "servers": "servers",
                "timeout": {"argument": "timeout", "default": 120}},
        "result": [
            {"when": "ok", "json": codemode({"field": "stdout", "as": "json", "empty": "", "limit": "8M"}, None, {
                "field": "tool_calls", "item": {"name": "{tool}", "success": {"field": "ok"}}, "empty": []})},
            {"when": "timeout", "isError": False, "json": codemode(None, "Execution timed out after {timeout_s}s", [])},
            {"when": "no server", "isError": False, "json": {
                "success": False, "error": "Failed to connect to server '{server}': Server '{server}' not configured",
                "duration": {"field": "seconds", "digits": 2}}},
            {"isError": False, "json": codemode(None, {"field": "traceback"}, [])}],
    },
    "run_python_code": {  # as code-sandbox-mcp
        "inputSchema": schema("code"),
        "run": {"code": "code", "form": "script", "timeout": "2s"},
        "result": [
            {"when": "no output", "isError": False, "json": {"exit_code": 1, "stderr": "No output, forgot print()?", "stdout": ""}},
            {"when": "ok", "text": [{"field": "stdout", "as": "stripped", "limit": "8M"}]},
            {"when": "timeout", "isError": False, "json": {
                "exit_code": 1, "stderr": "Operation timed out after {timeout_s} seconds", "stdout": ""}},
            {"when": ["error", "exit"], "isError": False, "json": {
                "exit_code": 1, "stderr": {"field": "stderr", "as": "stripped", "empty": ""}, "stdout": ""}},
            {"isError": False, "json": {"exit_code": 1, "stderr": "{error}", "stdout": ""}}],
    },
    "execute_python": {  # as mcp-python-exec-sandbox
        "inputSchema": schema("script", dependencies={"type": "array", "items": {"type": "string"}}, timeout_seconds={"type": "integer"}),
        "outputSchema": {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]},
        "run": {"code": "script", "form": "script", "packages": "dependencies",
                "timeout": {"argument": "timeout_seconds", "default": "30s", "min": "1s", "max": "300s"}},
        "result": [
            {"when": "timeout", **streams("--- exit_code: -9 ---", "--- duration_ms: {milliseconds} ---", "--- timed_out: true ---")},
            streams("--- exit_code: {exit_code} ---", "--- duration_ms: {milliseconds} ---")],
    },
    "execute_code": {  # as llm-sandbox
        "inputSchema": schema("code", language={"type": "string"}, libraries={"type": "array"}, timeout={"type": "number"}),
        "run": {"code": "code", "form": "script", "language": {"argument": "language"}, "packages": "libraries",
                "timeout": {"argument": "timeout", "default": 30}},
        "result": [
            {"when": ["ok", "error", "exit"], "isError": False, "images": "last", "json": {
                "exit_code": {"field": "exit_code"}, "stderr": "{stderr}", "stdout": "{stdout}"}},
            {"isError": False, "json": {"exit_code": 1, "stderr": "{error}", "stdout": ""}}],
    },
    "ends": {
        "inputSchema": schema("code", False, names={"type": ["array", "null"]}, t={}),
        "run": {"code": "code", "timeout": {"argument": "t", "default": "1s"}, "servers": "names"},
        "result": [{"when": when, "json": {"case": when, "status": "{status}", "code": {"field": "exit_code"}, "signal": "{signal}",
                                           "error": "{error}", "out": "{stdout}", "value": {"field": "value", "as": "json"},
                                           "limit": {"field": "timeout_ms"}}}
                   for when in ("no output", "ok", "error", "exit", "timeout", "oom", "killed", "no server", "refused")],
    },
    "usual": {"inputSchema": schema("code"), "run": {"code": "code"}},
    "usual_script": {"inputSchema": schema("code"), "run": {"code": "code", "form": "script"}},
    "compact": {"inputSchema": schema("code"), "run": {"code": "code"}, "result": [
        {"json": {"a": {"field": "stdout", "before": "<", "after": ">"}, "b": {"field": "stderr"}, "{k}": ["{{", None, 1.5]}, "indent": False}]},
    "bounded": {"inputSchema": schema("code", t={}), "run": {"code": "code", "timeout": {"argument": "t", "min": 2, "max": 3}},
                "result": [{"text": ["{timeout_s}"], "isError": False}]},
    "status": {"inputSchema": schema("code"), "run": {"code": "code"}, "result": [{"text": ["{status}"]}]},
    "large": {"inputSchema": schema("code"), "run": {"code": "code"}, "result": [{"text": [{"field": "stdout", "limit": "8M"}] * 5}]},
    "typescript": {"inputSchema": schema("code"), "run": {"code": "code", "language": "javascript"}},
    "hidden": {"inputSchema": schema("code"), "run": {"code": "code"}, "hidden": True},
}
PUBLISH = {"tools": {name: {"description": name, **tool} for name, tool in TOOLS.items()}}


def png(shade):
    """A picture of one pixel, in Base64."""
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    whole = part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + part(b"IDAT", zlib.compress(bytes((0, shade)))) + part(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + whole).decode()


def duration(text):
    return re.sub(r'("duration": |duration_ms: )\d+(\.\d\d)?', r"\1D", text)


class Calls:
    """The text of a result."""

    def result(self, name, **arguments):
        return self.server.ask("tools/call", {"name": name, "arguments": arguments})

    def told(self, name, failed=False, **arguments):
        result = self.result(name, **arguments)
        self.assertEqual(([b["type"] for b in result["content"]], result["isError"]), (["text"], failed), result)
        return result["content"][0]["text"]

    def same(self, name, expected, **arguments):
        """A text that is JSON as Python's json.dumps(…, indent=2) writes it."""
        expected = json.dumps(expected, indent=2).replace('"D"', "D")
        self.assertEqual(duration(self.told(name, **arguments)), expected)


@harness.once
class Forms(Calls, rawmcp.ServerCase):
    SERVERS = {"fix": harness.fixture()}
    CONFIG = {"publish": PUBLISH}

    def test_list(self):
        listed = {tool["name"]: tool for tool in self.server.ask("tools/list")["tools"]}
        self.assertEqual(set(listed), {"run_python", *TOOLS} - {"hidden"})
        self.assertEqual(listed["execute_python"]["inputSchema"], TOOLS["execute_python"]["inputSchema"])
        self.assertEqual(set(listed["usual"]), {"name", "description", "inputSchema", "execution"})
        with self.assertRaises(rawmcp.RpcError):
            self.result("hidden", code="1")

    def test_codemode_lite(self):
        whole = {"success": True, "output": 5, "error": None, "duration": "D", "backend": "podman (cloister)", "tool_calls": []}
        self.same("run_code", whole, code="x = 5\nprint(x)")
        self.same("run_code", {**whole, "output": "5 __sandbox__\n"}, code="print(x, __name__)")
        self.same("run_code", {**whole, "output": {"a": [1, {}, "b"]}}, code="import json, sys\nprint(json.dumps({'a': [1, {}, 'b']}))\nprint(2, file=sys.stderr)")
        self.same("run_code", {**whole, "output": ""}, code="7")
        self.same("run_code", {**whole, "tool_calls": [{"name": "echo", "success": True}, {"name": "fail", "success": False}], "output": "e\n"},
                  code="await tools['echo'](a=1)\ntry:\n    await tools['fail']()\nexcept ToolError:\n    print('e')", servers=["fix"])
        failed = {**whole, "success": False, "output": None}
        self.same("run_code", {**failed, "error": "Execution timed out after 1s"}, code="print(1)\nwhile True: pass", timeout=1)
        self.same("run_code", {"success": False, "error": "Failed to connect to server 'X': Server 'X' not configured", "duration": "D"},
                  code="print(1)", servers=["fix", "X"])
        error = json.loads(self.told("run_code", code="print('lost')\n1/0"))
        self.assertEqual((error["success"], error["output"], error["tool_calls"]), (False, None, []))
        self.assertRegex(error["error"], r"(?s)^Traceback \(most recent call last\):\n.*ZeroDivisionError: division by zero\n$")
        self.assertIn("5", self.told("run_code", code="print(x)"))  # the session persists

    def test_code_sandbox_mcp(self):
        self.assertEqual(self.told("run_python_code", code="print('  a\\n\\u2003b \\u2003\\n')"), "a\n\u2003b")
        self.same("run_python_code", {"exit_code": 1, "stderr": "No output, forgot print()?", "stdout": ""}, code="print(' \\n\\u00a0')\n5")
        self.same("run_python_code", {"exit_code": 1, "stderr": "bye", "stdout": ""}, code="import sys\nprint('x')\nsys.exit('bye')")
        self.same("run_python_code", {"exit_code": 1, "stderr": "Operation timed out after 2 seconds", "stdout": ""},
                  code="print('x')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass")
        failed = json.loads(self.told("run_python_code", code="def f():\n    raise ValueError('told')\nif __name__ == '__main__':\n    f()"))
        self.assertEqual((failed["exit_code"], failed["stdout"]), (1, ""))
        self.assertRegex(failed["stderr"], r'(?s)^Traceback .*File "/workspace/script.py", line 4, in <module>.*ValueError: told$')

    def test_mcp_python_exec_sandbox(self):
        script = "import sys\nprint(sys.argv, __file__, __name__)\nprint('err', file=sys.stderr)\n[1]\nsys.exit(0)"
        text = self.told("execute_python", script=script)
        self.assertEqual(duration(text), "--- stdout ---\n['/workspace/script.py'] /workspace/script.py __main__\n\n--- stderr ---\nerr\n\n"
                                         "--- exit_code: 0 ---\n--- duration_ms: D ---")
        result = self.result("execute_python", script="1")
        self.assertEqual(result["structuredContent"], {"result": result["content"][0]["text"]})
        self.assertEqual(duration(result["content"][0]["text"]), "--- exit_code: 0 ---\n--- duration_ms: D ---")
        # 0 is clamped to 1. The result has the output before the timeout.
        text = self.told("execute_python", script="print('begun')\nimport time\ntime.sleep(600)", timeout_seconds=0)
        self.assertEqual(duration(text), "--- stdout ---\nbegun\n\n--- exit_code: -9 ---\n--- duration_ms: D ---\n--- timed_out: true ---")
        # The marker counts in the limit, and no character is cut.
        out = re.match(r"(?s)--- stdout ---\n(.*)\n--- stderr", self.told("execute_python", script="print('xé' * 50000)\nraise SystemExit('y')"))[1]
        marker = "\n... [truncated at 100KB]"
        self.assertEqual(out, ("xé" * 50000).encode()[:102400 - len(marker)].decode(errors="ignore") + marker)
        self.assertIn("--- exit_code: 1 ---", self.told("execute_python", script="import module_that_is_missing"))

    def test_llm_sandbox(self):
        show = f"import base64\nfor n, picture in enumerate({[png(1), png(2)]}, 1):\n    print(n)\n    display(base64.b64decode(picture))"
        image, text = self.result("execute_code", code=show)["content"]
        self.assertEqual((image["type"], image["mimeType"], image["data"]), ("image", "image/png", png(2)))
        self.assertEqual(text["text"], json.dumps({"exit_code": 0, "stderr": "", "stdout": "1\n2\n"}, indent=2))
        self.same("execute_code", {"exit_code": 3, "stderr": "", "stdout": "a\n"}, code="print('a')\nraise SystemExit(3)", timeout=9.5)
        self.same("execute_code", {"exit_code": 1, "stderr": 'the language "ruby" is not available: this server has python, javascript', "stdout": ""},
                  code="puts 1", language="ruby")

    def test_the_end_chooses_the_case(self):
        """Each end with a control beside it; the field status names the same end."""
        for code, case, more in (
            ("print(1)\n[1, {'a': None}]", "ok", {"out": "1\n", "code": 0, "value": [1, {"a": None}], "error": "", "limit": 1000}),
            ("' '", "no output", {"out": "", "value": " "}),
            ("import sys\nprint(2)\nsys.exit(0)", "ok", {"code": 0, "out": "2\n"}),
            ("import os\nos._exit(0)", "no output", {"code": 0}),
            ("1/0", "error", {"code": 1, "error": "ZeroDivisionError: division by zero"}),
            ("import sys\nsys.exit(7)", "exit", {"code": 7, "error": "exit code 7"}),
            ("import os\nos._exit(8)", "exit", {"code": 8}),
            ("print(3, flush=True)\nwhile True: pass", "timeout", {"code": 137, "out": "3\n", "error": "the call reached its timeout of 1 s"}),
            ("import os\nos.kill(os.getpid(), 11)", "killed", {"code": 139, "signal": "SIGSEGV"}),
        ):
            with self.subTest(code=code):
                got = json.loads(self.told("ends", failed=case not in ("ok", "no output"), code=code))
                self.assertEqual((got["case"], got["status"]), (case, case), got)
                self.assertEqual({key: got.get(key) for key in more}, more)
        # The kernel kills, or malloc() fails first.
        self.assertIn(self.told("status", failed=True, code="x = []\nwhile True: x.append(bytearray(1 << 24) + b'x')"), ("oom", "error"))
        self.assertEqual(self.told("status", code="1"), "no output")

    def test_a_script_ends_as_a_program(self):
        thread = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(%s), print('late')), daemon=%s).start()\nprint('main')"
        out = lambda code, **more: json.loads(self.told("execute_code", code=code, **more))
        self.assertEqual(out(thread % (0.3, False))["stdout"], "main\nlate\n")
        self.assertEqual(out(thread % (60, True))["stdout"], "main\n")
        self.assertEqual(out(thread % (60, False), timeout=1)["stderr"], "the call reached its timeout of 1 s")
        pool = "import concurrent.futures as c\ne = c.ThreadPoolExecutor(2)\nprint(list(e.map(abs, [-1, 2])))\nraise SystemExit(3)"
        self.assertEqual(out(pool), {"exit_code": 3, "stderr": "", "stdout": "[1, 2]\n"})
        got = out("import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1 / 0)\nprint('hi')")
        self.assertEqual((got["exit_code"], got["stdout"]), (0, "hi\nbye\n"))
        self.assertIn("ZeroDivisionError", got["stderr"])
        self.assertIn("timeout of 1 s", out("import atexit\ndef f():\n    while True: pass\natexit.register(f)", timeout=1)["stderr"])

    def test_refusals(self):
        for arguments, case, why in (
            ({}, "refused", "code is required: a string with the code"),
            ({"code": None}, "refused", "code is required"),
            ({"code": 5}, "refused", 'argument "code" must be string, not integer'),
            ({"code": "1", "cod": 2}, "refused", 'argument "cod" is unknown'),
            ({"code": "1", "names": "fix"}, "refused", 'argument "names" must be'),
            ({"code": "1", "names": [1]}, "refused", "names: item 1 must be the name of a server"),
            ({"code": "1", "names": ["fix", "fix2"]}, "no server", 'there is no server "fix2"'),
            ({"code": "1", "names": ["x" * 300]}, "no server", "there is no server"),
        ):
            with self.subTest(arguments=arguments):
                got = json.loads(self.told("ends", failed=True, **arguments))
                self.assertEqual(got["case"], case)
                self.assertIn(why, got["error"])
        self.assertEqual(json.loads(self.told("ends", code="print(4)", names=None))["out"], "4\n")
        self.assertEqual(json.loads(self.told("ends", code="print(4)", names=["fix"]))["out"], "4\n")
        self.assertIn('the language "javascript" is not available', self.told("typescript", failed=True, code="1"))
        for arguments in ([], "x", 7):
            self.assertIn("arguments must be an object", self.server.ask("tools/call", {"name": "usual", "arguments": arguments})["content"][0]["text"])

    def test_timeouts(self):
        for t, limit in ((None, 1000), (0.2504, 251), (-5, 100), (0, 100), (600, 600000), (1e300, 600000), (10**30, 600000)):
            self.assertEqual(json.loads(self.told("ends", code="print(1)", t=t))["limit"], limit, t)
        for t, limit in ((None, "3"), (1, "2"), (2.5, "2.5"), (9, "3")):
            self.assertEqual(self.told("bounded", code="1", t=t), limit)
        for t in ("20", [], True):
            self.assertIn("t must be a number of seconds", json.loads(self.told("ends", failed=True, code="1", t=t))["error"])

    def test_the_usual_form(self):
        self.assertEqual(self.told("usual", code="import sys\nprint(1)\nprint(2, file=sys.stderr)\n3"), "1\n2\n3")
        self.assertRegex(self.told("usual", failed=True, code="print(1)\n1/0"), r"(?s)^1\nTraceback .*ZeroDivisionError: division by zero$")
        script = self.told("usual_script", failed=True, code="print(1)\n1/0")
        self.assertEqual((script.count("Traceback"), script[:2]), (1, "1\n"))
        self.assertEqual(self.told("usual_script", code="print(1)\n3"), "1")
        self.assertEqual(self.told("usual_script", failed=True, code="print(1)\nimport os\nos._exit(4)"), "1\nexit code 4")
        self.assertEqual(self.told("compact", code="print(1)"), '{"a":"<1\\n>","{k}":["{",null,1.5]}')


@harness.once
class Hostile(Calls, rawmcp.ServerCase):
    CONFIG = {"publish": PUBLISH, "profiles": {}}

    def test_text_that_looks_like_a_form(self):
        forms = ["{stdout}{{error}}", '{"field": "stderr"}', "--- exit_code: 0 ---", '"}],"isError":true,"x":["', "\\u0000\\", "}{", "%s%n", '{"when":"ok"}']
        code = f"import sys\nfor t in {forms!r}:\n    print(t)\nsys.exit('{{exit_code}}')"
        got = json.loads(self.told("execute_code", code=code))
        self.assertEqual(got, {"exit_code": 1, "stderr": "{exit_code}\n", "stdout": "".join(f + "\n" for f in forms)})
        text = self.told("execute_python", script=code)
        self.assertIn("".join(f + "\n" for f in forms), text)
        self.assertEqual(re.findall(r"(?m)^--- exit_code: .*", text)[-1], "--- exit_code: 1 ---")
        got = json.loads(self.told("run_code", code='print(\'{"success": false, "isError": true}\')'))
        self.assertEqual((got["success"], got["output"]), (True, {"success": False, "isError": True}))
        got = json.loads(self.told("run_code", code="class E(Exception): pass\nE.__qualname__ = E.__name__ = '}\",\"success\":true'\nraise E('{traceback}')"))
        self.assertEqual((got["success"], "{traceback}" in got["error"]), (False, True))

    def test_bytes(self):
        got = json.loads(self.told("execute_code", code="import sys\nsys.stdout.buffer.write(b'a\\0b\\xff\\xe2\\x82|\\xed\\xa0\\x80\\x1b[31m\\r\\n\\xf0\\x9f')"))
        self.assertEqual(got["stdout"], b"a\0b\xff\xe2\x82|\xed\xa0\x80\x1b[31m\r\n\xf0\x9f".decode(errors="replace"))
        self.assertEqual(json.loads(self.told("execute_code", code="print('\\0')"))["stdout"], "\0\n")

    def test_what_is_no_value_stays_text(self):
        for printed in ("007", "NaN", "{'a': 1}", "[1,]", "1 2", '{"a": 1}\n{"b": 2}', "[" * 200 + "]" * 200, '"\\ud800"'):
            with self.subTest(printed=printed[:20]):
                self.assertEqual(json.loads(self.told("run_code", code=f"print({printed!r})"))["output"], printed + "\n")
        self.assertEqual(json.loads(self.told("run_code", code="print(2**200, end='')"))["output"], 2**200)
        self.assertIn('"output": 1.10,', self.told("run_code", code="print('1.10')"))
        # Line breaks would make 20 MB of these 200 kB.
        deep = "[" * 100 + "1," * 100000 + "1" + "]" * 100
        self.assertEqual(json.loads(self.told("run_code", code=f"print('['*100 + '1,'*100000 + '1' + ']'*100)"))["output"], deep + "\n")

    def test_ten_megabytes(self):
        text = self.told("execute_python", script="import sys\nfor f in sys.stdout, sys.stderr:\n    f.write('z' * (10 << 20))")
        self.assertEqual(text.count("[truncated at 100KB]"), 2)
        self.assertLess(len(text), 205100)
        self.assertEqual(len(json.loads(self.told("run_code", code="print('z' * (10 << 20))"))["output"]), 8 << 20)
        usual = self.told("usual", code="print('z' * (10 << 20))")
        self.assertLess(len(usual), 11000)
        result = self.result("large", code="print('z' * (9 << 20))")
        self.assertEqual((result["content"], result["isError"]), ([{"type": "text", "text": "the result is larger than 9 MiB"}], True))
        self.assertEqual(self.told("large", code="print(1, end='')"), "1\n1\n1\n1\n1")
        # As JSON, control characters are six times as long.
        self.assertEqual(self.told("large", True, code="print('\\1' * (1 << 19))"), "the result is larger than 9 MiB")
        self.assertEqual(len(self.told("large", code="print('\\1' * (1 << 18), end='')")), 5 * (1 << 18) + 4)

    def test_the_interpreter_lies(self):
        """Code that breaks into our side of its own interpreter can choose its own result, and only that."""
        code = ("import gc, sys\nfrom cloister import session\n"
                "s = next(o for o in gc.get_objects() if type(o).__name__ == 'Session')\n"
                "s._core.send(0x44, s._current, b'{\"progress\": 1}')")
        got = json.loads(self.told("ends", failed=True, code=code))
        self.assertIn(got["case"], ("killed", "error"))
        self.assertEqual(json.loads(self.told("ends", code="print(5)"))["out"], "5\n")


@harness.once
class Sessions(Calls, rawmcp.ServerCase):
    CONFIG = {"publish": PUBLISH}
    NAME = "codemode-test"

    def output(self, code, **arguments):
        return json.loads(self.told("run_code", code=code, **arguments))["output"]

    def test_new_sandboxes(self):
        self.told("usual", code="x = 1\nopen('/workspace/f', 'w').write('1')")
        listed = lambda: self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir).stdout
        left = lambda: [s for s in json.loads(listed())[0]["sessions"] if s["name"].startswith("s-")]
        self.assertTrue(harness.wait_until(lambda: not left()), left())
        self.assertIn("NameError", self.told("usual", failed=True, code="x"))
        self.assertEqual(self.told("usual", code="import os\nos.path.exists('/workspace/f')"), "False")
        two = [self.server.request("tools/call", {"name": "usual", "arguments": {"code": f"import time\ntime.sleep(0.5)\n{n}"}}) for n in (1, 2)]
        self.assertEqual([r.result()["content"][0]["text"] for r in two], ["1", "2"])

    def test_two_at_once_in_a_named_session(self):
        codes = ["print('a')\nimport time\ntime.sleep(1)\nz = 'b'\nprint(z)", "print(z)"]
        calls = [self.server.request("tools/call", {"name": "run_code", "arguments": {"code": code}}) for code in codes]
        self.assertEqual([json.loads(c.result()["content"][0]["text"])["output"] for c in calls], ["a\nb\n", "b\n"])

    def test_with_run_python(self):
        self.assertEqual(self.output("w = 6\nprint(__name__, '__file__' in globals())"), "__sandbox__ False\n")
        self.assertEqual(self.value("import sys\n[w, __name__, sys.argv, '__file__' in globals()]", session=self.NAME), [6, "__main__", [""], False])
        self.assertEqual(self.output("print(w, __name__)"), "6 __sandbox__\n")

    def test_code_that_spoils_its_session(self):
        for code in ("import sys\nsys.path = None\ng = 1", "del __name__", "globals().clear()"):
            self.output(code)
            self.assertEqual(self.output("print(__name__)"), "__sandbox__\n")

    def test_cancel(self):
        self.output("done = False")
        call = self.server.request("tools/call", {"name": "run_code", "arguments": {"code": "import time\ntime.sleep(60)\ndone = True"}})
        self.wait_running(self.NAME)
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertEqual(self.output("print(done)"), "False\n")
        self.assertFalse(call.done())

    def test_the_owner_ends_it(self):
        call = self.server.request("tools/call", {"name": "run_code", "arguments": {"code": "mark = 1\nimport time\ntime.sleep(60)"}})
        self.wait_running(self.NAME)
        self.run_cloister("sessions", "end", self.NAME, "--server", str(self.server.process.pid), cwd=self.class_dir)
        got = json.loads(call.result()["content"][0]["text"])
        self.assertEqual((got["success"], got["error"]), (False, "its owner ended it with 'cloister sessions'"))
        self.assertEqual(self.output("print('mark' in globals())"), "False\n")

    def test_notifications(self):
        self.server.ask("logging/setLevel", {"level": "info"})
        before = len(self.server.notes)
        params = {"name": "usual", "arguments": {"code": "import time\nprint('early', flush=True)\ntime.sleep(1.5)"}, "_meta": {"progressToken": "p"}}
        self.assertEqual(self.server.ask("tools/call", params)["content"][0]["text"], "early")
        notes = self.server.notes[before:]
        self.assertTrue([n for n in notes if n["method"] == "notifications/progress" and n["params"]["progressToken"] == "p"], notes)
        self.assertTrue([n for n in notes if n["method"] == "notifications/message" and "early" in json.dumps(n)], notes)

    def test_a_task(self):
        made = self.server.ask("tools/call", {"name": "usual", "arguments": {"code": "import time\ntime.sleep(0.3)\n8"}, "task": {}})
        result = self.server.ask("tasks/result", {"taskId": made["task"]["taskId"]})
        self.assertEqual((result["content"][0]["text"], result["isError"]), ("8", False))


@harness.once
class Modern(harness.Case):
    def test_calls(self):
        client = Client(self, True, publish=PUBLISH)
        self.assertEqual(client.call("usual", code="print(1)")["content"], [{"type": "text", "text": "1"}])
        result = client.call("execute_python", script="print(1)")
        self.assertEqual((result["structuredContent"]["result"], result["isError"]), (result["content"][0]["text"], False))
        self.assertTrue(client.call("usual", code=1)["isError"])

    def test_a_server_asks_the_client(self):
        """The code waits for the answer, and is not run again; a state of another call runs nothing."""
        faulty = {"command": harness.PYTHON, "args": [os.path.join(harness.HERE, "servers", "faulty.py"), "--declares", '{"tools": {}}']}
        client = Client(self, True, publish=PUBLISH, servers={"faulty": faulty})
        form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
        code = f"n = globals().get('n', 0) + 1\nx = await mcp_faulty.ask(method='elicitation/create', params={form})\nprint(n, x['result']['content'])"
        for name in "run_code", "usual":
            first = client.call(name, code=code)
            self.assertEqual(first["resultType"], "input_required", first)
            (key, asked), = first["inputRequests"].items()
            self.assertEqual((asked["method"], asked["params"]["message"]), ("elicitation/create", "faulty: who?"))
            answer = {"inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}}}
            client.refused("tools/call", {"name": name, "arguments": {"code": code}, "requestState": "x" * 32, **answer}, -32602, "requestState")
            client.refused("tools/call", {"name": name, "arguments": {"code": code + " "}, "requestState": first["requestState"], **answer}, -32602)
            last = client.call(name, more={"requestState": first["requestState"], **answer}, code=code)
            self.assertIn("1 {'name': 'Ada'}", last["content"][0]["text"])


@harness.once
class Reload(harness.Case):
    def test_a_call_keeps_its_form(self):
        tool = lambda word: {"t": {**TOOLS["usual"], "description": word, "result": [{"text": [word + "{stdout}"]}]}}
        client = Client(self, False, publish={"tools": tool("before")})
        call = client.request("tools/call", {"name": "t", "arguments": {"code": "import time\ntime.sleep(2)\nprint(1)"}})
        self.config(publish={"tools": tool("after")})
        listed = lambda: client.ask("tools/list")["tools"][1]["description"]
        self.assertTrue(harness.wait_until(lambda: listed() == "after"))
        self.assertEqual(client.call("t", code="print(2)")["content"][0]["text"], "after2\n")
        self.assertEqual(call.result()["content"][0]["text"], "before1\n")
        self.config(publish={"tools": {}})
        self.assertTrue(harness.wait_until(lambda: len(client.ask("tools/list")["tools"]) == 1))


@harness.once
class Http(test_serve.Serve):
    """Two principals."""

    ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"

    def setUp(self):
        harness.Case.setUp(self)
        tokens = self.write("tokens", f"alice {self.ALICE}\nbob {self.BOB} calls=1 sessions=1\n")
        os.chmod(tokens, 0o600)
        self.start("--listen", "127.0.0.1:0", "--tokens", tokens)

    def config(self, *args, **rest):
        return super().config(*args, publish=PUBLISH, **rest)

    def answer(self, token, name, **arguments):
        return self.connect().modern("tools/call", {"name": name, "arguments": arguments}, Authorization=f"Bearer {token}").response()

    def tool(self, token, name, **arguments):
        return self.answer(token, name, **arguments).json()["result"]

    def test_principals(self):
        out = lambda token, code: json.loads(self.tool(token, "run_code", code=code)["content"][0]["text"])["output"]
        self.assertEqual(out(self.ALICE, "mine = 1\nprint(mine)"), 1)
        self.assertEqual(out(self.BOB, "print('mine' in globals())"), "False\n")
        self.assertEqual(out(self.ALICE, "print(mine)"), 1)

    def test_quota(self):
        slow = self.connect()
        slow.modern("tools/call", {"name": "usual", "arguments": {"code": "import time\ntime.sleep(1.5)"}}, Authorization=f"Bearer {self.BOB}")
        # Before anything has run, a refusal is one of HTTP, whatever form the tool's results have.
        refusals = []
        harness.wait_until(lambda: refusals.append(self.answer(self.BOB, "ends", code="print(1)")) or refusals[-1].status == 429)
        error = refusals[-1].json()["error"]
        self.assertEqual((refusals[-1].status, error["data"]["reason"]), (429, "quota"))
        self.assertRegex(error["message"], "too many calls|as many live sessions")
        self.assertEqual(json.loads(self.tool(self.ALICE, "ends", code="print(1)")["content"][0]["text"])["case"], "ok")
        self.assertEqual(slow.response().json()["result"]["content"][0]["text"], "")
        self.assertTrue(harness.wait_until(lambda: self.answer(self.BOB, "ends", code="print(1)").status == 200))


class Packages(Calls, rawmcp.ServerCase):
    """What the script declares, then the argument: of two with one name the later counts."""

    @classmethod
    def setUpClass(cls):
        cls.index = test_installs.Index(*(test_installs.module(name, version) for name in ("demo_one", "demo_two") for version in ("1.0", "2.0")))
        cls.CONFIG = {"publish": PUBLISH, "packages": {"install": "allow", "index": cls.index.url(), "timeout": 100}}
        super().setUpClass()
        cls.store = f"{harness.environment()['CLOISTER_IMAGE_STORE']}/.installed/default"

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if os.path.isdir(f"{cls.store}/sets"):
            os.chmod(f"{cls.store}/sets", 0o700)
        shutil.rmtree(cls.store, ignore_errors=True)

    SCRIPT = "# /// script\n# dependencies = ['demo-one==1.0', 'demo-two==1.0']\n# ///\nimport demo_one, demo_two\nprint(demo_one.version, demo_two.version)"

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_merge(self):
        self.assertIn("1.0 1.0\n", self.told("execute_python", script=self.SCRIPT, timeout_seconds=100))
        self.assertIn("1.0 2.0\n", self.told("execute_python", script=self.SCRIPT, dependencies=["Demo.Two == 2.0"], timeout_seconds=100))
        self.assertIn("1.0 1.0\n", self.told("execute_python", script=self.SCRIPT, dependencies=[], timeout_seconds=100))
        # Gone with the call.
        self.assertIn("No module named 'demo_one'", self.told("execute_python", script="import demo_one"))

    def test_wrong_metadata(self):
        wrong = "# /// script\n# requires-python = '>=9.9'\n# ///\nprint(1)"
        for dependencies in ([], ["demo-one"]):
            text = self.told("execute_python", script=wrong, dependencies=dependencies)
            self.assertIn("needs Python >=9.9", text)
            self.assertIn("--- exit_code: 1 ---", text)
        text = self.told("execute_python", script="# /// script\n# dependencies = [\n# ///\nprint(1)", dependencies=["demo-one"])
        self.assertIn("its inline metadata can't be read", text)
        self.assertNotIn("--- stdout ---", text)


if __name__ == "__main__":
    harness.main()
