"""Plans: the code runs in a copy of its session first, and one question is about all calls that ask (docs/plans.md)."""

import json
import os
import re

import harness
import test_ask
from test_ask import NO, YES, Mute, scope

with open(os.path.join(os.path.dirname(os.path.dirname(harness.HERE)), "docs", "plans.md"), encoding="utf-8") as page:
    PAGE = page.read()
LOOP = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
RULES = [
    {"deny": "mail.note", "when": {"/text": {"equals": "never"}}},
    *json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S)[1]),
]
# mail.lines() is not a read for a plan: its result is blank in the copy, which code can notice.
NOTICES = "real = bool(await mcp_mail.lines())\n"
CAUGHT = "import json\nasync def tried(**arguments):\n    try:\n        return await mcp_mail.send(**arguments)\n    except ToolError as e:\n        return str(e)\n"


class Planned(test_ask.Asking):
    SERVERS = {"mail": test_ask.SERVERS["mail"]}
    CONFIG = {"rules": RULES, "ask": {"wait": 1, "timeout": "5m", "per_cell": 4}, "journal": {"sync": "none"}}

    def reads(self):
        return self.value("(await mcp_mail.lines())['reads']", session="reader")

    def plan(self, code, plan=True, **arguments):
        return self.server.cell(code, session=arguments.pop("session", self.session), plan=plan, **arguments)

    def journal(self):
        done = self.run_cloister("journal", "show", "--json", cwd=self.class_dir)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def sessions_live(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        return {s["name"] for s in harness.message_of(done.stdout)[0]["sessions"]}


class Plans(Planned):
    def test_forty_mails_are_one_question(self):
        self.session += f"-{os.getpid()}"  # the journal is of all servers
        before, reads = self.sent(), self.reads()
        self.ok("kept, n = [1], 0")
        cell = self.plan("n += 1\nkept.append(n)\n" + LOOP)
        self.assertEqual((cell["status"], cell["stdout"]), ("ok", "40 mails\n"), cell)
        (message,) = self.messages()
        self.assertTrue(message.startswith("plan of 40 calls: 40 mail.send: mail leaves the house: cloister approve "), message)
        self.assertLessEqual(len(message.split("\n", 1)[0]), 100)
        self.assertIn(re.search(r"1\. mail\.send .*", PAGE)[0], message)
        self.assertIn('40. mail.send {"to":"39@b","text":"See you at nine."} (', message)
        self.assertIn(f"\nsession {self.session}; rule: config.json line ", message)
        self.assertEqual(self.server.asked[0]["params"]["requestedSchema"]["properties"]["scope"]["enum"], ["once", "no"])
        # The reads of the copy count; the session has run the code once.
        self.assertEqual((self.sent(), self.reads()), (before + 40, reads + 1))
        self.assertEqual(self.value("[kept, n]"), [[1, 1], 1])
        self.assertEqual(cell["plan"], {"planned": 40, "reads": 1, "made": 40, "other": 0, "left_out": 0})
        records = self.journal()
        ask = [r for r in records if r["kind"] == "ask" and r.get("session") == self.session]
        decision = [r for r in records if r["kind"] == "decision" and r.get("session") == self.session]
        self.assertEqual([(r["plan"], r["calls"], r["tool"]) for r in ask], [(True, 40, "send")])
        self.assertEqual([(r["plan"], r["by"], r["rows"]) for r in decision], [(True, "client", list(range(1, 41)))])
        made = [r for r in records if r["kind"] == "call" and r.get("session") == self.session]
        self.assertEqual([(r["tool"], bool(re.fullmatch(r"config\.json line \d+", r["rule"]))) for r in made], [("send", True)] * 40)
        # The control: without a plan each call asks.
        self.server.asked.clear()
        self.ok("for i in range(3):\n    await mcp_mail.send(to='a')")
        self.assertEqual(len(self.server.asked), 3)

    def test_a_new_session_and_two_at_once(self):
        before = self.sent()
        calls = [self.server.start_call(f"await mcp_mail.send(to='{i}')\n{i}", session=f"{self.session}-{i}", plan=True) for i in range(2)]
        cells = [call.result()["structuredContent"] for call in calls]
        self.assertEqual([c["value"]["json"] for c in cells], [0, 1], cells)
        self.assertEqual((self.sent(), len(self.server.asked)), (before + 2, 2))
        self.assertFalse([name for name in self.sessions_live() if name.startswith("plan-")])

    def test_a_difference_asks_and_says_what_it_is(self):
        before = self.sent()
        self.server.answers = [YES, NO, NO]
        code = CAUGHT + NOTICES + "[await tried(to='evil' if real else 'good', text='x'), await tried(text='x', to='good'), await tried(to='good', text='x')]"
        code = code.replace("await tried(text='x', to='good'), ", "*([await tried(text='x', to='good')] if real else []), ")
        first, second, third = self.plan(code)["value"]["json"]
        self.assertIn("not in the plan: /to is not as in row 2 of the plan; mail leaves the house: a person answered no", first)
        self.assertIn("not in the plan: the text of the arguments is not as in row 2 of the plan", second)
        self.assertEqual((third, self.sent()), ({"ok": True}, before + 1))
        self.assertTrue(self.messages()[0].startswith("plan of 3 calls: 1 mail.lines, 2 mail.send: mail leaves the house: cloister approve "), self.messages()[0])
        self.assertIn("1 call of mail.send: not in the plan: ", self.messages()[1])

    def test_more_calls_than_planned_ask(self):
        before = self.sent()
        self.server.answers = [YES, NO]
        code = CAUGHT + NOTICES + "r = [await tried(to='a') for _ in range(3 if real else 2)]\nr[2:]"
        cell = self.plan(code)
        self.assertIn("the plan has no more such calls of mail.send", cell["value"]["json"][0])
        self.assertEqual((self.sent(), cell["plan"]["other"], cell["plan"]["made"]), (before + 2, 1, 3))

    def test_allowed_calls_are_held_to_the_plan(self):
        """A call that the rules allow and that may change something is in the question, and asks if the plan lacks it."""
        tried = CAUGHT.replace("mail.send", "mail.note")
        code = tried + NOTICES + "r = await tried(text='planned')\nawait mcp_mail.send(to='a')\n[r, await tried(text='x' if real else 'y')]"
        before = self.sent()
        self.server.answers = [YES, NO]
        cell = self.plan(code)
        self.assertTrue(self.messages()[0].startswith("plan of 4 calls: 1 mail.lines, 2 mail.note, 1 mail.send: mail leaves the house: cloister approve "), self.messages()[0])
        self.assertIn("1 call of mail.note: not in the plan: /text is not as in row 4", self.messages()[1])
        self.assertIn("; rule: none\n", self.messages()[1])
        planned, other = cell["value"]["json"]
        self.assertEqual((planned, self.sent(), cell["plan"]["other"]), ({"ok": True}, before + 2, 1), cell)
        self.assertTrue(other.startswith("mail.note was not sent: not in the plan: /text is not as in row 4 of the plan: a person answered no"), other)
        # A person can leave out such a call; a plan in which nothing asks has no question.
        self.server.asked.clear()
        self.server.answers = [None]
        call = self.server.start_call(tried + "r = await tried(text='n')\nawait mcp_mail.send(to='a')\nr", session=self.session, plan=True)
        self.question()
        self.assertIn("rule: none (it is allowed)", self.approve(self.session, "--rows", "2"))
        self.assertIn("a person answered no to this call of the plan", call.result()["structuredContent"]["value"]["json"])
        self.server.asked.clear()
        self.assertEqual(self.plan("await mcp_mail.note(text='n')\n1")["value"]["json"], 1)
        self.assertEqual(self.server.asked, [])

    def test_vary_may_differ_and_reads_are_made_once(self):
        before, reads = self.sent(), self.reads()
        code = "import time\n" + NOTICES + "n = 0\nfor _ in range(3 if real else 2):\n    n = (await mcp_mail.people())['reads']\nawait mcp_mail.send(to='a', id=time.time_ns())\nn"
        cell = self.plan(code)
        # The third read is not in the plan, and is made.
        self.assertEqual((cell["status"], cell["value"]["json"]), ("ok", reads + 3), cell)
        self.assertEqual((self.sent(), self.reads(), len(self.server.asked)), (before + 1, reads + 3, 1))

    def test_large_results_of_reads_are_kept(self):
        """A result above 1 MiB comes in a memfd, and one for which the plan has no room is read again."""
        code = "await mcp_mail.send(to='a')\n[[len(r['pad']), r['reads']] for r in [await mcp_mail.people(id=n) for n in (3_000_000, 17_000_000)]]"
        reads = self.reads()
        cell = self.plan(code)
        self.assertEqual((cell["status"], cell["value"]["json"]), ("ok", [[3_000_000, reads + 1], [17_000_000, reads + 3]]), cell)

    def test_calls_after_the_use_of_a_result_that_is_not_real(self):
        code = (
            "n = await mcp_mail.note(text='a')\nprint(n)\nawait mcp_mail.send(to='1')\nif not n:\n    await mcp_mail.send(to='2')\n"
            "await mcp_mail.people()\nr = await mcp_mail.send(to='3')")
        self.assertEqual(self.plan(code)["status"], "ok")
        rows = re.findall(r"(?m)^(\d)\. mail\.(\w+) .* bytes\)(.*)$", self.messages()[0])
        self.assertEqual(rows, [("1", "note", ""), ("2", "send", ""), ("3", "send", " unsure: line 4"), ("4", "send", " unsure: line 4")])
        result = self.server.call(code, session=self.session, plan="only")
        calls = result["structuredContent"]["plan"]["calls"]
        self.assertEqual([c.get("unsure") for c in calls], [None, None, 4, 4, 4], calls)
        self.assertIn('mail.send {"to":"2"} (10 bytes) asks, unsure: line 4\n', result["content"][0]["text"])
        # The value as an argument, and the whole result. The control: a rule's own result, which code may use.
        for use, line in (("await mcp_mail.send(to=n)", 2), ("1\nawait mcp_mail.send(to=' '.join(n.split()))", 3),
                          ("(await mcp_mail.note.raw(text='b'))['content']\nawait mcp_mail.send(to='4')", 2), ("await mcp_mail.send(to='5')", None),
                          ("r = await mcp_mail.send(to='6')\nr['ok']\nawait mcp_mail.send(to='7')", None)):
            cell = self.plan(f"n = await mcp_mail.note(text='a')\n{use}", plan="only")
            self.assertEqual(cell["plan"]["calls"][-1].get("unsure"), line, (use, cell))

    def test_frames_of_the_copy_by_hand(self):
        """Attack: the worker says what it likes of a call. The control is the line 5."""
        frame = '{"server":"mail","tool":"note","arguments":{},"plan":true,"row":1,"unsure":%s}'
        lines = ("-1", "99999999999", '"x"', "1e999", "5", "0")
        code = f"from cloister.frames import CALL\nfor line in {lines!r}:\n    tools._channel.call(CALL, ({frame!r} % line).encode())"
        before = self.sent()
        cell = self.plan(code, plan="only")
        self.assertEqual([c.get("unsure") for c in cell["plan"]["calls"]], [None, None, None, None, 5, None], cell)
        self.assertEqual(self.sent(), before)

    def test_no_and_some_rows(self):
        before = self.sent()
        self.ok("x = 1")
        self.server.answers = [NO]
        cell = self.plan("x = 2\n" + LOOP)
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "ToolDenied"), cell)
        self.assertIn("the plan was not run: a person answered no", cell["error"]["message"])
        self.assertEqual((self.value("x"), self.sent()), (1, before))
        # A scope that the form of a plan does not offer: the form comes again once, and then it is no.
        self.server.asked.clear()
        self.server.answers = [scope("session"), scope("cell")]
        self.assertEqual(self.plan(LOOP)["error"]["type"], "ToolDenied")
        self.assertEqual((len(self.server.asked), self.sent()), (2, before))
        self.server.answers = [None]
        call = self.server.start_call(CAUGHT + "[await tried(to=str(i)) for i in range(3)]", session=self.session, plan=True)
        refused = test_ask.Terminal("approve", self.question()["id"], "--answer", "always", cwd=self.class_dir)
        refused.until("the answer about a plan is once, no, or rows")
        self.assertEqual(refused.end(), 2)
        shown = self.approve(self.session, "--rows", "1,3")
        self.assertIn("about a plan", shown)
        values = call.result()["structuredContent"]["value"]["json"]
        self.assertEqual(values[::2], [{"ok": True}] * 2)
        self.assertIn("a person answered no to this call of the plan", values[1])
        self.assertEqual(self.sent(), before + 2)

    def test_plan_only_runs_nothing(self):
        before = self.sent()
        self.ok("x = 1\nopen('/workspace/out/own', 'w').write('x')")
        cell = self.plan("x = 2\nopen('/workspace/out/copys', 'w').write('x')\nawait mcp_mail.note(text='n')\n" + LOOP, plan="only")
        self.assertEqual((cell["status"], cell["plan"]["planned"], cell["plan"]["reads"]), ("planned", 41, 1), cell)
        self.assertEqual([c["decision"] for c in cell["plan"]["calls"]], ["allowed", "read"] + ["asks"] * 40)
        self.assertEqual(cell["plan"]["calls"][2]["arguments"], {"to": "0@b", "text": "See you at nine."})
        self.assertEqual((self.value("x"), self.sent(), self.server.asked), (1, before, []))
        names = [r["uri"].rsplit("/", 1)[1] for r in self.server.ask("resources/list")["resources"] if f"/{self.session}/files/" in r["uri"]]
        self.assertEqual(names, ["own"])
        result = self.server.call(LOOP, session=self.session, plan="only")
        self.assertFalse(result["isError"])
        self.assertIn('[plan]\n2. mail.send {"to":"0@b","text":"See you at nine."} (', result["content"][0]["text"])

    def test_a_copy_that_fails_sends_nothing(self):
        before = self.sent()
        self.ok("x = 1")
        send = "x = 2\nawait mcp_mail.send(to='a')\n"
        cell = self.plan(send + "1 / 0")
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "ZeroDivisionError"), cell)
        self.assertIn("ran in a copy of the session only", cell["notice"])
        self.assertEqual(self.plan(send + "import time\ntime.sleep(600)", timeout=1)["status"], "timeout")
        self.assertEqual(self.plan(send + "while True: pass", timeout=1)["status"], "timeout")
        self.assertIn(self.plan(send + "import os\nos._exit(3)")["status"], ("exit", "killed"))
        cell = self.plan("import asyncio\nr = await asyncio.gather(*(mcp_mail.send(to='a') for _ in range(1001)), return_exceptions=True)")
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "PlanError"), cell)
        self.assertIn("1,000 calls", cell["error"]["message"])
        cell = self.plan(CAUGHT + "[await tried(to='y' * 3000000) for _ in range(2)]")
        self.assertIn("4 MiB", cell["error"]["message"])
        cell = self.plan("await mcp_mail.note(text='never')")
        self.assertEqual(cell["error"]["type"], "cloister.ToolDenied", cell)
        self.assertEqual((self.value("x"), self.sent(), self.server.asked), (1, before, []))

    def test_end_of_the_session_and_of_the_call(self):
        before = self.sent()
        self.ok("x = 1")
        self.server.answers = [None] * 4
        call = self.server.start_call("x = 2\n" + LOOP, session=self.session, plan=True)
        self.question()
        # Other code waits; the question is about the session.
        other = self.server.start_call("x", session=self.session, wait=0.2).result()["structuredContent"]
        self.assertEqual(other["status"], "busy", other)
        self.run_cloister("sessions", "end", self.session, "--server", str(self.server.process.pid), cwd=self.class_dir)
        cell = call.result()["structuredContent"]
        self.assertEqual(cell["status"], "cancelled", cell)
        self.assertIn("before its plan was approved; nothing was run", cell["notice"])
        self.assertEqual(self.questions(), [])
        call = self.server.start_call(LOOP, session=self.session + "-c", plan=True)
        self.question(self.session + "-c")
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: not self.questions()))
        self.assertEqual(self.value("1", session=self.session + "-c"), 1)
        # While the copy runs.
        call = self.server.start_call("import time\ntime.sleep(600)", session=self.session + "-d", plan=True)
        other = self.server.start_call("1", session=self.session + "-d", wait=0.2).result()["structuredContent"]
        self.assertEqual(other["status"], "busy", other)
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertEqual(self.value("1", session=self.session + "-d"), 1)
        # Calls without code: one interrupts it, and gets its result.
        first = self.server.start_call(LOOP, session=self.session + "-e", plan=True)
        self.question(self.session + "-e")
        cell = self.server.cell(None, session=self.session + "-e", interrupt=True)
        self.assertEqual((cell["status"], first.result()["structuredContent"]["status"]), ("cancelled", "running"), cell)
        self.assertEqual((self.sent(), self.questions()), (before, []))

    def test_what_runs_beside_the_code_of_the_copy_sends_nothing(self):
        before = self.sent()
        # Their calls follow the result of the cell at once.
        tasks = "import asyncio\ntasks = [asyncio.ensure_future(mcp_mail.note(text='t')) for _ in range(300)]"
        for _ in range(3):
            self.assertEqual(self.plan(tasks, plan="only")["status"], "planned")
        self.assertEqual(self.sent(), before)

    def test_rules_that_change_while_a_person_thinks(self):
        path = os.path.join(self.class_dir, "config.json")
        with open(path, encoding="utf-8") as f:
            old = f.read()

        before = self.sent()
        self.addCleanup(lambda: (self.server.answers.clear(), harness.replace_file(path, old), harness.wait_until(lambda: self.value(CAUGHT + "(await tried(to='z')) == {'ok': True}", session="again"))))
        self.server.answers = [None] + [NO] * 100
        call = self.server.start_call(CAUGHT + "await tried(to='a')", session=self.session, plan=True)
        self.question()
        config = json.loads(old)
        config["rules"][1] |= {"why": "another rule", "when": {"/to": {"type": "string"}}}
        harness.replace_file(path, json.dumps(config))
        self.assertTrue(harness.wait_until(lambda: "another rule" in self.value(CAUGHT + "await tried(to='q')", session="other")))
        self.approve(self.session, "--answer", "once")
        text = call.result()["structuredContent"]["value"]["json"]
        self.assertIn("the rule or the tool is not as in row 1 of the plan", text)
        self.assertEqual(self.sent(), before)

    def test_what_cannot_be_planned(self):
        for arguments, text in (
            ({"reset": True}, "plan and reset cannot be used together"),
            ({"check_only": True}, "plan and check_only cannot be used together"),
            ({"from": "other"}, "plan and from cannot be used together"),
            ({"plan": "maybe"}, "plan must be true or false"),
            ({"plan": "only", "checkpoint": "c"}, 'plan "only" runs nothing in the session'),
        ):
            cell = self.server.cell("1", **{"session": self.session, "plan": True, **arguments})
            self.assertEqual(cell["error"]["type"], "ArgumentError", cell)
            self.assertIn(text, cell["error"]["message"])
        (tool,) = [t for t in self.server.ask("tools/list")["tools"] if t["name"] == "run_python"]
        (line,) = [line for line in tool["description"].split("\n") if "plan" in line]
        self.assertLessEqual(len(line), 120)
        self.assertEqual(tool["inputSchema"]["properties"]["plan"], {"enum": [True, False, "only"]})


class Elsewhere(Planned):
    """A client that shows nothing; a profile that writes to the host, one in JavaScript."""

    CLIENT = Mute

    def test_terminal_while_the_call_says_running(self):
        before = self.sent()
        cell = self.plan(LOOP)
        self.assertEqual(cell["status"], "running", cell)
        self.assertIn("a plan of the code is being made; it waits for a person: cloister approve ", cell["notice"])
        self.approve(self.session, "--answer", "once")
        cell = self.server.cell(None, session=self.session)
        self.assertEqual((cell["status"], cell["stdout"], self.sent()), ("ok", "40 mails\n", before + 40), cell)


if __name__ == "__main__":
    harness.main()
