"""What people and agents read of rules (docs/rules.md): cloister rules, check_only, the catalogue, the hints of run_python, the doctor."""

import contextlib
import json
import os
import re
import signal

import harness
import rawmcp
import test_ask

ANNOTATED = os.path.join(harness.HERE, "servers", "annotated.py")
SERVER = {"files": {"command": harness.PYTHON, "args": [ANNOTATED]}}
RULES = [
    {"allow": "files.write_file", "when": {"/path": {"path": "/home/me/notes/**"}}},
    {"ask": "files.write_file", "why": "writes outside the notes"},
    {"deny": "*.delete_*"},
    {"ask": ["files.move_*", "files.publish"]},
]
PAGE = os.path.join(harness.HERE, "..", "..", "docs", "rules.md")


class InCode(rawmcp.ServerCase):
    SERVERS = SERVER
    CONFIG = {"profiles": {"default": {"rules": RULES}, "free": {}, "some": {"rules": [{"deny": "files.delete_file"}, {"ask": "files.move_file"}]}}}

    def names(self):
        return self.value("[tool['name'] for tool in _discover()]")

    def test_a_tool_that_is_always_denied_is_not_listed(self):
        self.assertNotIn("delete_file", self.names())
        self.assertIn("write_file", self.names())
        # Code that knows its name gets the reason, in each spelling; another name is a mistake.
        error = "try:\n    r = [%s]\nexcept ToolError as e:\n    r = [type(e).__name__, getattr(e, 'rule', None), getattr(e, 'why', None)]\nr"
        for call in ("await tools['files.delete_file'](path='/x')", "await mcp_files.delete_file('/x')", "tools['files', 'delete_file'].sync()", "await tools.delete_file.raw({'path': 1})"):
            kind, rule, why = self.value(error % call)
            self.assertEqual((kind, why), ("ToolDenied", None), call)
            self.assertRegex(rule, r"^config\.json line \d+$")
        for name in ("mcp_files.delete_fil", "tools['files.delete_files']", "tools['other.delete_file']"):
            self.assertEqual(self.value(error % f"await {name}()")[0], "ToolNotFound", name)
        self.assertEqual(self.value("['files.delete_file' in tools, len(tools)]"), [False, 4])
        checked = self.ok("await mcp_files.delete_file(path='/x')", check_only=True)["value"]["repr"].split("\n")
        self.assertRegex(checked[1], r"^line 1: files\.delete_file\(path\): would be denied: config\.json line \d+$")
        text = self.server.ask("resources/read", {"uri": "cloister://tools"})["contents"][0]["text"]
        self.assertNotIn("delete_file", text)

    def test_tools_that_ask_are_marked(self):
        asks = self.value("{tool['name']: tool.get('asks') for tool in _discover()}")
        self.assertEqual(asks, {"read_file": None, "write_file": "sometimes", "move_file": "always", "publish": "always"})
        self.assertEqual(self.value("_schema('files.move_file')['asks']"), "always")
        self.assertEqual(self.value("[t.get('asks') for t in _search('move', 1)]"), ["always"])
        text = self.server.ask("resources/read", {"uri": "cloister://tools"})["contents"][0]["text"]
        self.assertRegex(text, r"move_file\(.*\) \[asks a person\]")
        self.assertRegex(text, r"write_file\(.*\) \[may ask a person\]")
        self.assertRegex(text, r"read_file\([^)]*\)\n")

    def test_check_only_says_what_the_rules_say(self):
        code = "\n".join((
            "await tools['files.read_file'](path='/etc/passwd')",
            "await tools['files.write_file'](path='/home/me/notes/a')",
            "await tools['files.write_file'](path='/home/me/notes/../a')",
            "await tools['files.write_file'](path=name)",
            "await tools['files.move_file'](path=name)",
        ))
        value = self.ok(f"name = 1\n{code}", check_only=True)["value"]
        lines = value["repr"].split("\n")
        self.assertEqual(lines[0], "ok: 5 calls checked")
        self.assertEqual(lines[1], "line 2: files.read_file(path)")
        self.assertEqual(lines[2], "line 3: files.write_file(path)")
        self.assertRegex(lines[3], r"^line 4: files\.write_file\(path\): would ask: config\.json line 1: writes outside the notes$")
        self.assertEqual(lines[4], "line 5: files.write_file(path): may ask")
        self.assertEqual(lines[5], "line 6: files.move_file(path): would ask")
        calls = value["json"]["calls"]
        self.assertEqual(calls[2]["rules"], {"decision": "ask", "rule": "config.json line 1", "why": "writes outside the notes"})
        self.assertEqual(calls[3]["rules"], {"decision": "depends"})
        self.assertNotIn("rules", calls[1])
        self.assertNotIn("sent", calls[1])

    def test_a_profile_without_rules_is_as_before(self):
        arguments = {"uri": "cloister://tools"}
        with rawmcp.RawServer("--config", os.path.join(self.class_dir, "config.json"), "--profile", "free") as free:
            free.initialize()
            found = free.call("{t['name']: t.get('asks') for t in _discover()}")["structuredContent"]["value"]["json"]
            self.assertEqual(found, dict.fromkeys(("read_file", "write_file", "move_file", "delete_file", "publish")))
            self.assertNotIn("asks a person", free.ask("resources/read", arguments)["contents"][0]["text"])
            checked = free.call("await tools['files.write_file'](path='/x')", check_only=True)["structuredContent"]["value"]
            self.assertEqual(checked["repr"], "ok: 1 call checked\nline 1: files.write_file(path)")
            self.assertEqual(self.hints(free), (True, True))

    def hints(self, server):
        tool = next(t for t in server.ask("tools/list")["tools"] if t["name"] == "run_python")
        return tool["annotations"]["destructiveHint"], tool["annotations"]["openWorldHint"]

    def test_the_hints_of_run_python_follow_the_rules(self):
        self.value("len(_discover())")
        # write_file is destructive and may be called without a question; only publish is open, which always asks.
        self.assertEqual(self.hints(self.server), (True, False))
        config = os.path.join(self.class_dir, "all.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump({"mcpServers": SERVER, "rules": [{"ask": "*", "hints": {"destructive": True}}]}, f)
        with rawmcp.RawServer("--config", config) as careful:
            careful.initialize()
            careful.call("len(_discover())")
            self.assertEqual(self.hints(careful), (False, True))


class CommandLine(harness.Case):
    def config(self, **more):  # pylint: disable=arguments-differ
        return self.write("config.json", json.dumps({"mcpServers": SERVER, "rules": RULES, **more}, indent=1))

    def cloister(self, *words):
        """(status, what it prints)."""
        done = self.run_cloister(*words, "--config", self.path("config.json"))
        return done.returncode, (done.stdout + done.stderr).decode()

    def rules(self, *words, status=0):
        found, text = self.cloister("rules", *words)
        self.assertEqual(found, status, text)
        return text

    def test_list_and_explain(self):
        self.config()
        listed = self.rules("list").splitlines()
        self.assertEqual(len(listed), len(RULES))
        self.assertRegex(listed[1], r"^config\.json line \d+: ask files\.write_file: writes outside the notes$")
        text = self.rules("explain", "files.write_file", '{"path": "/home/me/notes/../x"}')
        self.assertRegex(text, r"^files\.write_file: ask \(config\.json line \d+: writes outside the notes\)\n")
        self.assertIn("does not match: /path\n", text)
        self.assertIn("matches, and decides\n", text)
        self.assertIn("is for other tools\n", text)
        self.assertTrue(self.rules("explain", "files.write_file", '{"path": "/home/me/notes/x"}').startswith("files.write_file: allow (config"))
        found = json.loads(self.rules("explain", "files.delete_file", "--json"))
        self.assertEqual((found["decision"], [rule["decides"] for rule in found["rules"]]), ("deny", [False, False, True, False]))
        self.assertIn("a server and a tool", self.rules("explain", "files", status=2))
        self.assertIn('two members of an object are named "a"', self.rules("explain", "files.x", '{"a":1,"a":2}', status=2))

    def test_tools_are_marked_by_the_rules_of_the_usual_profile(self):
        self.config(profiles={"free": {"rules": [{"allow": "*"}]}})
        status, text = self.cloister("tools")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"move_file\(.*\) \[asks a person\]\n")
        self.assertRegex(text, r"write_file\(.*\) \[may ask a person\]\n")
        self.assertNotIn("delete_file", text)
        self.assertNotIn("may change things", text)
        text = self.cloister("tools", "--profile", "free")[1]
        self.assertNotIn("a person]", text)
        self.assertRegex(text, r"\n4 of 5 tools may change things \(no readOnlyHint\), and no rule asks about them: add \"rules\"")

    def test_hosts_are_read_by_the_parser_of_the_server(self):
        rule = [{"allow": "files.publish", "when": {"/path": {"host": "a.example"}}}, {"deny": "files.publish"}]
        self.config(rules=rule)
        for url, decision in (("https://a.example/x", "allow"), ("https://a.example@b.example/", "deny"), ("https://b.example/a.example", "deny")):
            self.assertIn(f"files.publish: {decision} (", self.rules("explain", "files.publish", json.dumps({"path": url})))

    def test_mistakes_are_one_line_that_says_what_to_do(self):
        def refused(words, *rest, **more):
            self.config(**more)
            status, text = self.cloister(*words)
            self.assertNotEqual(status, 0, text)
            self.assertEqual(len([line for line in text.splitlines() if rest[0] in line]), 1, text)

        check = ("config", "check")
        refused(check, "path: ~ is not expanded in rules: write the whole path", rules=[{"allow": "files.*", "when": {"/path": {"path": "~/notes/**"}}}])
        refused(check, "must be SERVER.TOOL, such as files.read_file, and not the name that an MCP client gives", rules=[{"allow": "mcp__files__read_file"}])
        refused(check, "and not the name that an MCP client gives", rules=[{"allow": "Read(//tmp/**)"}])
        refused(check, 'there is no server "mcp_files"; did you mean "files"?', rules=[{"deny": "mcp_files.write_file"}])
        for call, said in (({"call": "flies.x"}, 'flies.x: there is no server "flies"; did you mean "files"?'), ({"call": "files.*"}, '"files.*" must be one tool, without *'),
                           ({"call": "files.x", "annotations": {"readonly": True}}, 'unknown name "readonly"; there are title, readOnlyHint,')):
            refused(("rules", "test"), said, rule_tests=[{**call, "expect": "allow"}])
        refused(("rules", "explain", "flies.x"), 'there is no server "flies"; did you mean "files"?')
        # Two conditions of a rule are separated.
        self.config(rules=[{"deny": "files.*", "sends": "open", "seen": ["private"]}])
        self.assertIn('if seen ["private"], sends "open"\n', self.rules("list"))

    def test_rule_tests(self):
        good = [{"call": "files.write_file", "arguments": {"path": "/x"}, "expect": "ask"}, {"call": "files.delete_file", "expect": "deny"}]
        self.config(rule_tests=good)
        self.assertRegex(self.rules("test"), r"(?s)^ok .*\nok .*\n2 passed, 0 failed\n$")
        self.assertRegex(self.cloister("run", "-c", "print(1)")[1], r"(?m)^1$")
        self.config(rule_tests=[*good, {"call": "files.move_file", "expect": "deny"}])
        text = self.rules("test", status=1)
        self.assertRegex(text, r"FAILED .*config\.json line \d+: files\.move_file: expected deny, found ask \(config\.json line \d+\)\n")
        for words in (("run", "-c", "1"), ("config", "check")):
            status, text = self.cloister(*words)
            self.assertNotEqual(status, 0)
            self.assertRegex(text, r"config\.json: line \d+: rule_tests: entry 3: files\.move_file: expected deny, found ask")

    def test_the_doctor_names_what_each_profile_has(self):
        """Rules and who answers, secrets by name, hosts whose requests are read, the journal, servers that are not apart."""
        secrets = {"key": {"from": {"env": "THE_SOURCE"}, "to": ["api.example"]}, "pin": {"from": {"env": "THE_PIN"}, "arguments": {"files.write_file": ["/path"]}}}
        hosts = [{"host": "read.example:8443", "inspect": True}, "api.example", "other.example"]
        profiles = {"default": {"journal": {"sync": "none"}}, "web": {"network": {"allow": hosts}, "secrets": secrets}}
        self.config(ask={"by": ["terminal"]}, mcpServers={**SERVER, "near": {**harness.fixture(), "apart": False}}, profiles=profiles)
        state = self.path("state")
        os.mkdir(state)
        environment = harness.environment(XDG_STATE_HOME=state, STATE_DIRECTORY="", THE_SOURCE="a-value-that-is-secret", THE_PIN="another-one")
        done = self.run_cloister("doctor", "--config", self.path("config.json"), "--json", env=environment)
        self.assertNotIn(b"a-value-that-is-secret", done.stdout)
        rows = [(row["name"], row["state"], row["detail"]) for row in json.loads(done.stdout)["layers"]]
        rules = "4 rules, 1 deny, 2 ask: answers come from 'cloister approve'"
        for row in (("calls", "effective", f'profile "default": {rules}'), ("calls", "effective", f'profile "web": {rules}'),
                    ("secrets", "effective", 'profile "web": key, pin (no value was read)'),
                    ("requests", "effective", 'profile "web": cloister-inject reads HTTPS requests to read.example:8443, api.example:443'),
                    ("servers", "degraded", "1 can read the variables of other servers: near")):
            self.assertIn(row, rows)
        self.assertIn('profile "default": ', next(detail for name, _state, detail in rows if name == "journal"))
        # The control: a config without these keys has none of the rows, except those of servers.
        self.config(rules=[])
        done = self.run_cloister("doctor", "--config", self.path("config.json"), "--json", env=environment)
        self.assertEqual([row["name"] for row in json.loads(done.stdout)["layers"] if row["name"] in ("calls", "secrets", "requests", "journal")], [])

    def test_the_example_of_the_page(self):
        """docs/rules.md: the config is accepted, its rule_tests pass, and explain prints what the page shows."""
        with open(PAGE, encoding="utf-8") as f:
            page = f.read()
        config = re.search(r"```jsonc\n(.*?)```", page, re.S)[1]
        self.write("config.json", config)
        self.assertRegex(self.rules("test"), r"\n\d+ passed, 0 failed\n$")
        shown = re.search(r"\$ cloister rules explain (\S+) '(.*?)'\n(.*?)```", page, re.S)
        self.assertEqual(self.rules("explain", shown[1], shown[2]), shown[3])

    def test_the_walk_of_the_page(self):
        """docs/rules.md, "A walk": its commands print its main lines; then everything is killed while the question is open."""
        with open(PAGE, encoding="utf-8") as f:
            page = f.read()
        walk = page[page.index("\n## A walk\n"):page.index("\n## AgentDojo\n")].replace("/home/me/work", self.path("work"))
        for name in ("drafts", "final"):
            os.makedirs(self.path(f"work/{name}"))
        config = json.dumps(harness.official("server-filesystem", self.path("work")))
        self.write("config.json", re.sub(r'"files": \{.*?\}\}', lambda _: f'"files": {config}}}', re.search(r"```json\n(.*?)```", walk, re.S)[1]))
        self.write("walk.py", re.search(r"```python\n(.*?)```", walk, re.S)[1])
        tried, marked = re.search(r"\$ cloister rules test\n(.*?)\$ cloister tools.*?\n(.*?)```", walk, re.S).groups()
        self.assertEqual(self.rules("test").replace(self.path("config.json"), "config.json"), tried)
        listed = self.cloister("tools")[1]
        for line in marked.splitlines():
            self.assertIn(line + "\n", listed)

        state = {"XDG_STATE_HOME": self.path("state")}

        def journal(*words):
            done = self.run_cloister("journal", *words, env=harness.environment(**state))
            self.assertEqual(done.returncode, 0, done)
            return done.stdout.decode()

        terminal = test_ask.Terminal("run", "--config", self.path("config.json"), self.path("walk.py"), env=state)
        shown = terminal.until("rows such as 1-12,15: ")
        self.assertIn("files.write_file", shown)
        terminal.type("1-2 the others stay drafts")
        counted = re.search(r"\nCounter\((.*)\)\n", walk)[1]
        terminal.until(counted[counted.index("'files.write_file"):counted.index("}")])
        self.assertEqual(terminal.end(), 0)
        self.assertEqual((len(os.listdir(self.path("work/drafts"))), sorted(os.listdir(self.path("work/final")))), (35, ["0.md", "1.md"]))
        text = journal("show")
        for line in ("ask  files.write_file 5 calls  ", "by terminal: once, for 2 calls\n"):
            self.assertIn(line, walk)
            self.assertIn(line, text)
        self.assertRegex(journal("verify"), r"^ok: (\d+) records, signed to \1\n$")

        terminal = test_ask.Terminal("run", "--config", self.path("config.json"), self.path("walk.py"), env=state)
        terminal.until("rows such as 1-12,15: ")
        for pid in [*harness.descendants(terminal.pid), terminal.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        terminal.end()
        doubts = re.findall(r"in doubt  files\.write_file (#\d+)\n", journal("show", "--in-doubt"))
        calls = re.findall(r"  call  files\.write_file (#\d+) ", journal("show").rpartition("  start\n")[2])
        self.assertTrue(set(doubts) <= set(calls) and len(calls) == 35, (doubts, calls))
        self.assertIn("2.jsonl: its server was killed", journal("verify"))


if __name__ == "__main__":
    harness.main()
