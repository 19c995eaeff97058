"""Rules about calls of tools: each condition, each way to a tool, the counts of "after", and what cannot get past a rule."""

import json
import os

import harness
import rawmcp

# Of each condition: a rule that allows, values that it allows, and values that it refuses.
CONDITIONS = {
    "equals": ({"equals": 1}, [1, 1.0], [2, "1", [1], None, True]),
    "one_of": ({"one_of": ["a", 7]}, ["a", 7], ["b", 8, ["a"], {"a": 1}]),
    "prefix": ({"prefix": "/tmp/"}, ["/tmp/x"], ["/tmp", ["/tmp/x"], {"0": "/tmp/x"}, 1]),
    "glob": ({"glob": "n-*.txt"}, ["n-1.txt"], ["n-/x.txt", "xn-1.txt"]),
    "path": ({"path": "/n/**"}, ["/n/a/b", "/n/..a"], ["/n/../etc", "/n/./a", "/n//a", "/n/a\\b", "/n/a\0b", "n/a", "/n/..", "/N/a", ""]),
    "host": ({"host": ["a.example", "*.b.example"]}, ["https://a.example/x?y", "http://A.EXAMPLE:8080", "https://x.b.example"], [
        "https://a.example.evil.test/", "https://evil.test/a.example", "https://u@a.example/", "https://a.example@evil.test/",
        "https://evil.test\\@a.example/", "https:a.example", "https:///a.example", "//a.example", "ftp://a.example/", "https://a.example\n.evil.test",
        " https://a.example", "https://evil.test#@a.example", "https://[::1]/", "https://2130706433/", "https://\u0430.example/", ["https://a.example"]]),
    "min": ({"min": 1, "max": 9007199254740992}, [1, 2.5, 9007199254740992], [0.999, 9007199254740993, 10**400, "5", None]),
    "max_length": ({"max_length": 3}, ["abc", "äöü", [1, 2, 3]], ["abcd", [1, 2, 3, 4], 3]),
    "regex": ({"regex": "^[a-z]+@acme\\.example$"}, ["bob@acme.example"], ["bob@acme.example\n", "x bob@acme.example", "bob@acmeXexample", ["bob@acme.example"]]),
    "type": ({"type": "integer"}, [3], [3.5, "3", None]),
    "not": ({"not": {"prefix": "/etc/"}}, ["/tmp/x"], ["/etc/x", ["/tmp/x"], None]),
}
# A tool that is denied without a condition is not listed (test_rules_words.py).
LISTED = {"when": {"/none": {"absent": True}}}
EACH = {"/to/*": {"prefix": "a"}, "/cc": {"absent": True}}
TRY = """
async def outcome(call):
    try:
        await call
        return 'sent'
    except ToolError as e:
        return type(e).__name__
"""
SNEAK = "async def main(path):\n    await tools['files.write_file'](path=path, content='x')\n    return 'written'\n"


@harness.needs_node
class Rules(rawmcp.ServerCase):
    """One server with rules for all tests. server-filesystem and server-everything are those of npm."""

    @classmethod
    def servers(cls):
        cls.root = os.path.realpath(cls.class_dir)
        cls.notes = os.path.join(cls.root, "notes")
        os.mkdir(cls.notes)
        os.chmod(cls.notes, 0o777)
        os.chmod(cls.root, 0o777)
        rules = [
            {"allow": "files.write_file", "when": {"/path": {"path": f"{cls.notes}/**"}}},
            {"deny": "files.write_file", "why": "outside the notes"},
            {"deny": "everything.resources/read", "when": {"/uri": {"glob": "**architecture**"}}},
            {"deny": "everything.prompts/get"},
            *({"allow": "fix.echo", "when": {"/kind": {"equals": kind}, "/v": condition}} for kind, (condition, _, _) in CONDITIONS.items()),
            {"allow": "fix.echo", "when": {"/kind": {"equals": "each"}, **EACH}},
            {"deny": "fix.echo"},
            {"deny": "two.echo", "when": {"/path/*": {"prefix": "/etc"}}},
            {"deny": "renamed.*", **LISTED},
            {"deny": "two.length", "why": "never"},
            {"deny": "fix.length", "after": {"session": 3}},
            {"deny": "fix.big", "after": {"cell": 2}},
            {"ask": "fix.text", "why": "a person decides"},
            {"ask": "*.class", "hints": {"destructive": True}},
        ]
        cls.CONFIG = {
            "rules": rules,
            "ask": {"by": ["client"]},  # the client of this test declares no way to ask a person
            "publish": {"tools": {"sneak": {"description": "Writes", "code": SNEAK}}},
            "profiles": {"js": {"language": "javascript", "agent": True}},
        }
        return {
            "files": harness.official("server-filesystem", cls.root),
            "everything": harness.official("server-everything"),
            "fix": harness.fixture(),
            "two": harness.fixture(),
            "three": {**harness.fixture(), "rename": "renamed"},
        }

    def outcomes(self, *calls, **arguments):
        return self.value(TRY + "[" + ", ".join(f"await outcome({call})" for call in calls) + "]", **arguments)

    def error(self, call, **arguments):
        return self.value(f"try:\n    r = [await {call}]\nexcept ToolError as e:\n    r = [type(e).__name__, str(e), getattr(e, 'rule', 0), getattr(e, 'why', 0)]\nr", **arguments)

    def test_each_condition(self):
        calls, expected = [], []
        for kind, (_, good, bad) in CONDITIONS.items():
            calls += [f"tools['fix.echo'](**{ {'kind': kind, 'v': v} !r})" for v in good + bad]
            calls.append(f"tools['fix.echo'](kind={kind!r})")
            expected += [(kind, v, "sent") for v in good] + [(kind, v, "ToolDenied") for v in bad] + [(kind, "(absent)", "ToolDenied")]
        found = self.outcomes(*calls)
        self.assertEqual([(kind, v, got) for (kind, v, _), got in zip(expected, found)], expected)

    def test_each_element(self):
        rows = [
            ("to=['a1', 'a2']", "sent"), ("to='a1'", "sent"), ("to=['a1', 'b']", "ToolDenied"), ("to=[['a1']]", "ToolDenied"), ("to=[]", "ToolDenied"),
            ("to={'0': 'a1'}", "ToolDenied"), ("to=['a1'], cc=''", "ToolDenied"), ("to=['a1'], cc=[]", "ToolDenied"), ("to=['a1'] * 600_000", "ToolDenied"),
        ]
        self.assertEqual(self.outcomes(*(f"tools['fix.echo'](kind='each', {more})" for more, _ in rows)), [kind for _, kind in rows])

    def test_files_of_a_real_server(self):
        inside, outside = os.path.join(self.notes, "a.txt"), os.path.join(self.root, "b.txt")
        self.assertEqual(self.outcomes(f"tools['files.write_file'](path={inside!r}, content='x')"), ["sent"])
        self.assertTrue(os.path.exists(inside))
        text = "files.write_file was not sent: config.json line 1: outside the notes"
        self.assertEqual(self.error(f"tools['files.write_file'](path={outside!r}, content='x')"), ["ToolDenied", text, "config.json line 1", "outside the notes"])
        spelled = os.path.join(self.notes, "..", "b.txt")
        tries = [f"tools['files.write_file'].raw(path={path!r}, content='x')" for path in (outside, spelled, f"{self.notes}/./../b.txt", f"{self.notes}//../b.txt")]
        self.assertEqual(self.outcomes(*tries), ["ToolDenied"] * 4)
        self.assertFalse(os.path.exists(outside))

    def test_other_names_of_a_member(self):
        """Go's encoding/json takes each of these for "path"; a member of the schema has one spelling, too."""
        for more in ("{'Path': '/etc/x', 'path': '/ok'}", "{'path': '/ok', 'PATH': '/etc/x'}", "{'pat\\u212a': 1, 'patk': 2, 'path': '/ok'}",
                     "{'path': {'x': 1, 'X': 2}}", "{'path': '/ok', 'a': [{'\\u017f': 1, 's': 2}]}"):
            kind, text, *_ = self.error(f"tools['two.echo']({more})")
            self.assertEqual((kind, "only in case" in text), ("ToolArgumentError", True), more)
        self.assertEqual(self.outcomes("tools['two.echo']({'path': '/ok', 'Other': 1})", "tools['two.echo']({'path': ['/ok', '/etc/x']})"), ["sent", "ToolDenied"])
        # A tool that no `when` names is not looked at.
        self.assertEqual(self.outcomes("tools['two.optional'](a='x')"), ["sent"])

    def test_frames_by_hand(self):
        """No check of the guest is on the way: escapes in names, two members, another server, a method instead of a tool."""
        code = r"""
from cloister.frames import CALL
channel = tools._channel
def send(text):
    answer = json.loads(str(channel.call(CALL, text.encode())))
    return answer['error']['kind'] if 'error' in answer else 'sent'
await tools['two.optional'](a='x')
[send('{"server":"two","tool":"echo","arguments":{"p\\u0061th":"/etc/x"}}'),
 send('{"server":"two","tool":"echo","arguments":{"path":"/ok","p\\u0061th":"/etc/x"}}'),
 send('{"server":"two","tool":"echo","tool":"add","arguments":{"path":"/etc/x"}}'),
 send('{"server":"two","t\\u006fol":"\\u0065cho","arguments":{"path":"\\/etc/x"}}'),
 send('{"server":"renamed","tool":"echo","arguments":{}}'), send('{"server":"three","tool":"echo","arguments":{}}'),
 send('{"server":"two","tool":"Echo","arguments":{"path":"/etc/x"}}'), send('{"server":"two","tool":"echo ","arguments":{"path":"/etc/x"}}'),
 send('{"server":"everything","method":"prompts/get","tool":"echo","arguments":{"name":"simple-prompt"}}'),
 send('{"server":"everything","method":"resources/read","arguments":{"uri":"demo://resource/static/document/architecture.md"}}'),
 send('{"server":"two","tool":"echo","arguments":{"path":"/ok"}}')]"""
        self.assertEqual(self.value(code.replace("str(channel.call", "(lambda r: r if isinstance(r, str) else bytes(r).decode())(channel.call")), [
            "ToolDenied", "ToolArgumentError", "ToolArgumentError", "ToolDenied", "ToolDenied", "ToolNotFound", "ToolNotFound", "ToolNotFound",
            "ToolDenied", "ToolDenied", "sent"])

    def test_every_way_to_a_tool(self):
        bad = os.path.join(self.root, "c.txt")
        call = f"tools['files.write_file'](path={bad!r}, content='x')"
        tries = [call, call.replace("](", "].raw("), call.replace("await ", "").replace("tools['files.write_file']", "mcp_files.write_file")]
        self.assertEqual(self.outcomes(*tries), ["ToolDenied"] * 3)
        code = f"import threading\nfound = []\ndef work():\n    try:\n        tools['files.write_file'].sync(path={bad!r}, content='x')\n    except Exception as e:\n        found.append(type(e).__name__)\nt = threading.Thread(target=work); t.start(); t.join()\nfound"
        self.assertEqual(self.value(code), ["ToolDenied"])
        self.assertEqual(self.outcomes("mcp_everything.get_prompt('simple-prompt')"), ["ToolDenied"])
        self.assertEqual(self.outcomes(call, session="branch", **{"from": self.session}), ["ToolDenied"])
        self.assertEqual(self.outcomes(call, reset=True), ["ToolDenied"])
        result = self.server.ask("tools/call", {"name": "sneak", "arguments": {"path": bad}})
        self.assertEqual((result["isError"], "outside the notes" in self.text(result)), (True, True), result)
        done = self.run_cloister("exec", "--server", str(self.server.process.pid), self.session, "-c", "await " + call, cwd=self.class_dir)
        self.assertIn(b"outside the notes", done.stdout + done.stderr)
        self.assertFalse(os.path.exists(bad))
        good = os.path.join(self.notes, "published.txt")
        self.assertFalse(self.server.ask("tools/call", {"name": "sneak", "arguments": {"path": good}}).get("isError"))
        self.assertTrue(os.path.exists(good))

    def test_javascript(self):
        code = "let r; try { await tools['renamed.echo']({a: 1}); r = ['sent']; } catch (e) { r = [e.name, e.message, e.rule, e.why, e instanceof ToolDenied]; } r"
        cell = self.cell(code, tool="run_javascript", profile="js")
        value = cell["value"].get("json") or json.loads(cell["value"]["json_text"])
        self.assertEqual(value, ["ToolDenied", "renamed.echo was not sent: config.json line 1: denied", "config.json line 1", None, True])
        # One that is always denied is not listed.
        code = ("const r = []; for (const call of [() => tools['two.length']({text: 'x'}), () => mcp_two.length('x'), () => tools.lengthy()]) {"
                " try { await call(); } catch (e) { r.push([e.name, e.rule ?? null, e.why ?? null]); } } r.push((await _discover()).some((t) => t.server === 'two' && t.name === 'length')); r")
        cell = self.cell(code, tool="run_javascript", profile="js")
        value = cell["value"].get("json") or json.loads(cell["value"]["json_text"])
        denied = ["ToolDenied", "config.json line 1", "never"]
        self.assertEqual([value[0], value[1], value[2][0], value[3]], [denied, denied, "ToolNotFound", False])

    def test_nobody_to_ask(self):
        self.assertEqual(self.error("tools['fix.text'](text='x')")[:2], ["ToolDenied", "fix.text was not sent: config.json line 1: a person decides: no person can be asked"])
        self.assertEqual(self.outcomes("tools['two.class']()"), ["ToolDenied"])

    def test_counts(self):
        """A restored state, a branch and another cell lower no count; another session has its own."""
        call = "tools['fix.length'](text='x')"
        self.assertEqual(self.outcomes(call, checkpoint="before"), ["sent"])
        self.assertEqual(self.outcomes(call, call), ["sent", "sent"])
        self.assertEqual(self.outcomes(call), ["ToolDenied"])
        self.assertEqual(self.outcomes(call, restore="before"), ["ToolDenied"])
        self.assertEqual(self.outcomes(call, session="counts-branch", **{"from": self.session}), ["ToolDenied"])
        self.assertEqual(self.outcomes(call, session="counts-other"), ["sent"])
        big = "tools['fix.big'](n=1)"
        self.assertEqual(self.outcomes(big, big, big), ["sent", "sent", "ToolDenied"])
        self.assertEqual(self.outcomes(big, big, big), ["sent", "sent", "ToolDenied"])
        gather = TRY + f"import asyncio\nsorted(await asyncio.gather(*(outcome({big}) for _ in range(9))))"
        self.assertEqual(self.value(gather), ["ToolDenied"] * 7 + ["sent"] * 2)

    def test_what_was_not_sent_is_not_recorded(self):
        cell = self.cell(TRY + "await outcome(tools['renamed.echo'](a=1)), await outcome(tools['two.add'](a=1, b=2))")
        self.assertEqual([(c["server"], c["tool"]) for c in cell["tool_calls"]], [("two", "add")])


class Changes(harness.Case):
    def save(self, path, rules):
        with open(path + "~", "w", encoding="utf-8") as f:
            f.write('{"mcpServers": ' + json.dumps({"fix": harness.fixture()}) + ',\n"rules": [\n' + ",\n".join(json.dumps(rule) for rule in rules) + "]}")
        os.rename(path + "~", path)

    def test_a_reload_counts_for_the_next_call(self):
        path = self.path("rules.json")
        self.save(path, [])
        with rawmcp.RawServer("--log-level", "info", "--config", path, cwd=self.dir) as server:
            server.initialize()
            code = TRY + "await outcome(tools['fix.echo'](a=1))"
            kind = lambda: server.cell(code)["value"]["repr"]  # pylint: disable=unnecessary-lambda-assignment
            self.assertEqual(kind(), "'sent'")
            self.save(path, [{"allow": "fix.add"}, {"deny": "fix.*", **LISTED}])
            self.assertTrue(harness.wait_until(lambda: kind() == "'ToolDenied'"))
            # Each of these is refused with its place, and the rules from before stay.
            for rules, text in (
                ([{"deny": "fix.echo", "wen": {}}], 'rules.json: line 3: rules: rule 1: unknown key "wen"; did you mean "when"?'),
                ([{"ask": "fix.add"}, {"deny": "fix.echo", "when": {"path": {"equals": 1}}}], 'rules.json: line 4: rules: rule 2: when: the pointer "path": must begin with /'),
                ([{"deny": "fix.echo", "when": {"/a": {"regex": "("}}}], "rule 1: when: /a: regex: "),
                ([{"ask": "fix.*"}, {"deny": "fix.echo"}], "line 4: rule 2: the rule can never match: rule 1 (rules.json line 3) comes first"),
                ([{"allow": "fix.*", "hints": {"read_only": True}}], '"trust_hints": true'),
            ):
                self.save(path, rules)
                self.assertTrue(harness.wait_until(lambda text=text: text in server.log() or json.dumps(text)[1:-1] in server.log()), (text, server.log()))
                self.assertEqual(kind(), "'ToolDenied'")
            self.save(path, [])
            self.assertTrue(harness.wait_until(lambda: kind() == "'sent'"))

    def test_the_line_of_the_rule(self):
        path = self.path("rules.json")
        self.save(path, [{"ask": "fix.text"}, {"deny": "fix.echo", "why": "no echo", **LISTED}])
        done = self.run_cloister("run", "--config", path, "-c", "await tools['echo'](a=1)", cwd=self.dir)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"ToolDenied: fix.echo was not sent: rules.json line 4: no echo", done.stderr)


if __name__ == "__main__":
    harness.main()
