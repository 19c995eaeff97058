"""The answer `always`: a proposed rule in the journal, which the owner writes into the config with `cloister rules accept`."""

import json
import os
import time

import harness
import test_ask
import test_journal

ALWAYS = {"action": "accept", "content": {"scope": "always"}}
CONFIG = """{
  // servers
  "mcpServers": {"f": %s},
  "journal": {},
  "profiles": {"careful": {"rules": [/* own */ {"ask": "f.echo", "why": "echoes"}]}},
  "rules": [
    {"deny": "f.add", "when": {"/a": {"equals": 9}}},
    {"ask": "f.add", "why": "sums"},  // the sums
    {"ask": "f.text", "after": {"session": 1}}
  ],
  "rule_tests": [
    {"call": "f.add", "arguments": {"a": 4, "b": 4}, "expect": "ask"}
  ]
}
"""
CATCH = test_journal.KIND


class Proposed(test_journal.Case):
    def begin(self, *options):
        self.file = self.path("config.json")
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(CONFIG % json.dumps(harness.fixture()))
        server = test_ask.Person("--config", self.file, "--log-level", "info", *options, env=self.env, cwd=self.dir)
        self.servers.append(server)
        server.initialize()
        return server

    def rules(self, *words, status=0):
        done = self.run_cloister("rules", *words, env=self.env)
        self.assertEqual(done.returncode, status, done)
        return (done.stdout if status == 0 else done.stderr).decode()

    def listed(self):
        return {p["id"]: p for p in json.loads(self.rules("proposed", "--json"))}

    def text(self):
        with open(self.file, encoding="utf-8") as f:
            return f.read()

    def test_from_the_answer_to_the_rule(self):
        server = self.begin()
        server.answers = [ALWAYS, ALWAYS, ALWAYS, test_ask.YES]
        cell = server.cell(
            CATCH + "r = await asyncio.gather(*(kind(mcp_f.add(a=1, b=b)) for b in (2, 2, 3)), kind(mcp_f.add(a=4, b=4)))\n"
            "r += [await kind(mcp_f.text(text='x')), await kind(mcp_f.text(text='y'))]\nr", session="s1")
        self.assertEqual(cell["value"]["json"], [None] * 6, cell)
        before = self.text()
        proposals = self.listed()
        shown = [p["rule"]["when"][""]["equals"] for p in proposals.values()]
        # Each call once; none of the rule with "after", which depends on earlier calls.
        self.assertEqual(shown, [{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 4, "b": 4}])
        first, second, third = proposals
        self.assertEqual([i.partition("-")[2] for i in proposals], ["1", "3", "4"])
        self.assertEqual((proposals[first]["rule"]["allow"], proposals[first]["session"], proposals[first]["asked"]), ("f.add", "s1", "config.json line 8"))
        text = self.rules("proposed")
        self.assertIn(f"{first}  ", text)
        self.assertIn('{"allow":"f.add","when":{"":{"equals":{"a":1,"b":2}}}', text.replace('": ', '":').replace(", ", ","))
        # Nothing was written; only `accept` writes, in front of the rule that asked, and nothing else changes.
        self.assertEqual(self.text(), before)
        self.assertIn("would write", self.rules("accept", first, "--config", self.file, "--dry-run"))
        self.assertEqual((self.text(), list(self.listed())), (before, [first, second, third]))
        self.assertIn(f"wrote {self.file}, line 8: ", self.rules("accept", first, "--config", self.file))
        lines = before.split("\n")
        after = self.text().split("\n")
        self.assertEqual(after[:7] + after[8:], lines)
        self.assertRegex(after[7], r'^    \{"allow":"f\.add","when":\{"":\{"equals":\{"a":1,"b":2\}\}\},"why":"always: question [0-9a-f]{8}"\},$')
        self.rules("reject", second)
        self.assertEqual(list(self.listed()), [third])
        # An entry of rule_tests expects that this one asks.
        self.assertIn("rule_tests: entry 1", self.rules("accept", third, "--config", self.file, status=1))
        self.assertEqual(self.text().split("\n"), after)
        for name in (first, second, "00000000-1", ""):
            self.assertIn("no proposed rule has the id", self.rules("accept", name, "--config", self.file, status=1))
        # The new rule is for exactly these arguments, and rules that come before still decide.
        explained = {json.dumps(a): self.rules("explain", "f.add", json.dumps(a), "--config", self.file).split("\n")[0].split()[1]
                     for a in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {"a": 1, "b": 2, "c": 0}, {"a": 1, "b": "2"}, {"a": 9, "b": 2})}
        self.assertEqual(list(explained.values()), ["allow", "allow", "ask", "ask", "ask", "deny"], explained)
        # The running server takes the rule: another session is not asked.
        end = time.monotonic() + harness.PATIENCE
        while True:
            server.answers = [test_ask.NO]
            if server.cell(CATCH + "await kind(mcp_f.add(a=1, b=2))", session="s2").get("value") is None:
                break
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)

    def test_a_profile_and_what_cannot_become_a_rule(self):
        server = self.begin("--profile", "careful")
        server.answers = [ALWAYS] * 3
        token = "ghp_" + "a" * 36
        cell = server.cell(CATCH + f"await asyncio.gather(kind(mcp_f.echo(a=1)), kind(mcp_f.echo(a={token!r})), kind(mcp_f.echo(a='\\u202e' + 'x' * 5000)), kind(mcp_f.echo(a='\\u202e')))")
        self.assertEqual(cell["value"]["json"], [None] * 4, cell)
        proposals = self.listed()
        self.assertEqual([p["rule"]["when"][""]["equals"] for p in proposals.values()], [{"a": 1}, {"a": "\u202e"}])
        self.assertNotIn("\u202e", self.rules("proposed"))
        log = server.log()
        self.assertIn("no rule is proposed: an argument looks like a secret", log)
        self.assertIn("no rule is proposed: the arguments have more than 4 KiB", log)
        first, second = proposals
        # Records that another program wrote: a proposal is a tool and arguments, and a pattern is not arguments.
        path = self.files()[-1]
        with open(path, "rb") as f:
            line = [x for x in f if b'"proposed"' in x][0]
        wrong = [line.replace(b'"echo"', b'"ec*"'), line.replace(b'{"a":1}', b'7'), line.replace(b'"server":"f"', b'"server":"f.x"'),
                 line.replace(b'{"a":1}', b'{"a":1,"a":2}'), line.replace(first[:8].encode(), b"../../xx")]
        twice = line.replace(b'{"a":1}', b'{"a":2}')
        self.assertNotIn(line, wrong)
        server.close()
        with open(path, "ab") as f:
            f.write(b"".join(wrong))
        self.assertEqual(list(self.listed()), [first, second])
        self.assertIn("wrote ", self.rules("accept", second, "--config", self.file))
        self.assertIn('"careful": {"rules": [/* own */ {"allow":"f.echo"', self.text())
        with open(path, "ab") as f:
            f.write(twice)
        self.assertIn("two proposals have the id", self.rules("accept", first, "--config", self.file, status=1))
        # The rule that asked was changed.
        with open(path, "rb+") as f:
            f.truncate(os.path.getsize(path) - len(twice))
        changed = self.text().replace('"why": "echoes"', '"why": "changed"')
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(changed)
        self.assertIn("was changed or removed", self.rules("accept", first, "--config", self.file, status=1))
        self.assertEqual(self.text(), changed)

    def test_nothing_is_proposed_without_a_journal(self):
        self.assertRegex(self.rules("proposed", status=1), r'^cloister: journal: there is none: [^\n]*\n$')


if __name__ == "__main__":
    harness.main()
