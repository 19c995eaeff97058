"""Published tools: the output of `config check` about them, and `cloister publish`."""

import os

import harness
import rawmcp
from test_publish import PUBLISH, texts


class Check(harness.Case):
    def check(self, publish):
        ran = self.run_cloister("config", "check", "--config", self.config(publish=publish))
        return ran.returncode, ran.stdout.decode()

    def test_config_check(self):
        self.assertEqual(self.check(PUBLISH)[0], 0, self.check(PUBLISH))
        good = {"description": "d", "code": "1"}
        for kind, name, entry, text in (
            ("tools", "x", {"code": "1"}, "description"),
            ("tools", "x", {"description": "d"}, "code or file"),
            ("tools", "x", {**good, "file": "x.py"}, "exclude"),
            ("tools", "x", {"description": "d", "file": "no.py"}, "no.py"),
            ("tools", "x", {**good, "code": 5}, "code"),
            ("tools", "x", {**good, "code": "a\0b"}, "NUL"),
            ("tools", "x", {**good, "code": "#" * 300000}, "256 KiB"),
            ("tools", "x", {**good, "inputSchema": {"type": "array"}}, "inputSchema"),
            ("tools", "x", {**good, "outputSchema": []}, "outputSchema"),
            ("tools", "x", {**good, "execution": {"taskSupport": "always"}}, "taskSupport"),
            ("tools", "x", {**good, "execution": {"taskSupport": "required", "more": 1}}, "taskSupport"),
            ("tools", "x", {**good, "execution": "required"}, "taskSupport"),
            ("tools", "x", {**good, "profile": "none"}, "none"),
            ("tools", "x", {**good, "timeout": 0}, "timeout"),
            ("tools", "x", {**good, "hidden": "yes"}, "hidden"),
            ("tools", "run_python", good, "own tool"),
            ("tools", "../x", good, "name"),
            ("prompts", "x", {**good, "arguments": {}}, "arguments"),
            ("prompts", "x", {**good, "complete": {"a": "b"}}, "complete"),
            ("resources", "no-scheme", good, "scheme"),
            ("resources", "cloister://x", good, "own"),
            ("resources", "a:{b}", good, "characters"),
            ("resources", "a:b", {**good, "mimeType": "x"}, "mimeType"),
            ("templates", "a:b", good, "variable"),
            ("templates", "a:{b}{c}", good, "between"),
            ("templates", "a:{b}/{b}", good, "once"),
            ("templates", "a:{?b}", good, "expressions"),
        ):
            status, said = self.check({kind: {name: entry}})
            self.assertEqual(status, 1, (name, entry, said))
            self.assertIn(text, said)
        status, said = self.check({"tools": {f"t{i}": good for i in range(257)}})
        self.assertEqual(status, 1)
        self.assertIn("256", said)
        self.assertIn("did you mean", self.check({"tools": {"x": {**good, "inputSchemas": {}}}})[1])


class Script(harness.Case):
    """`cloister publish`."""

    WORDS = ('"""Counts words."""\nfrom typing import Literal, Optional\n'
             "def main(text: str, shortest: int = 1, *, how: Literal['a', 'b'] = 'a', rest: Optional[list[str]] = None):\n"
             "    return {'words': len([w for w in text.split() if len(w) >= shortest])}\n"
             "if __name__ == '__main__':\n    raise SystemExit(9)\n")

    def publish(self, script, *arguments, status=0):
        ran = self.run_cloister("publish", script, *arguments)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        return (ran.stdout + ran.stderr).decode()

    def test_script(self):
        script = self.write("my words.py", self.WORDS)
        before = '{\n  // mine\n  "timeout": 50\n}\n'
        config = self.write("c.json", before)
        self.assertIn('"my_words"', self.publish(script, "--config", config, "--dry-run"))
        with open(config, encoding="utf-8") as f:
            self.assertEqual(f.read(), before)
        self.publish(script, "--config", config)
        self.publish(script, "--config", config, "--name", "other", "--profile", "default")
        self.assertIn("already", self.publish(script, "--config", config, status=1))
        with open(config, encoding="utf-8") as f:
            self.assertTrue(f.read().endswith(before[1:]))
        server = rawmcp.RawServer("--config", config)
        self.addCleanup(server.close)
        server.initialize()
        tools = {tool["name"]: tool for tool in server.ask("tools/list")["tools"]}
        self.assertEqual(tools["my_words"]["description"], "Counts words.")
        schema = tools["other"]["inputSchema"]
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["text"], False))
        self.assertEqual(schema["properties"], {
            "text": {"type": "string"}, "shortest": {"type": "integer", "default": 1},
            "how": {"enum": ["a", "b"], "default": "a"}, "rest": {"type": "array", "items": {"type": "string"}},
        })
        called = server.ask("tools/call", {"name": "my_words", "arguments": {"text": "a bb ccc", "shortest": 2}})
        self.assertEqual(texts(called), ['{"words":2}'])

    def test_refusals(self):
        good, config = self.write("good.py", self.WORDS), self.path("new.json")
        for script, arguments, text in (
            (self.write("none.py", "x = 1"), (), "docstring"), (self.write("bad.py", "def ("), (), "syntax"), (self.path("no.py"), (), "No such"),
            (good, ("--name", "run_python"), "own tool"), (good, ("--profile", "none"), "none"),
            (good, ("--config", self.write("odd.json", '{"publish": []}')), "must be an object"),
        ):
            said = self.publish(script, *(arguments if "--config" in arguments else ("--config", config, *arguments)), status=1)
            self.assertIn(text, said)
        self.assertFalse(os.path.exists(config))
        self.publish(good, "--config", config)


if __name__ == "__main__":
    harness.main()
