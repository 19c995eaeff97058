"""Questions to a person about calls of tools: forms of both eras, `cloister approve`, and what ends a question."""

import contextlib
import hashlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time

import harness
import rawmcp
import test_serve
import test_serve_asks
from rawmcp import ServerCase

MAIL = os.path.join(harness.HERE, "servers", "mail.py")
RULES = {
    "rules": [{"deny": "mail.send", "when": {"/to": {"prefix": "few"}}, "after": {"cell": 3}}, {"ask": "mail.send", "why": "mail leaves the house"}, {"ask": "mail.note"}],
    "ask": {"wait": 1, "timeout": "5m", "per_cell": 4},
}
SERVERS = {
    "mail": {"command": harness.PYTHON, "args": [MAIL]},
    "faulty": {"command": harness.PYTHON, "args": [os.path.join(harness.HERE, "servers", "faulty.py")]},
}
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
PREFIX = "io.modelcontextprotocol/"
LATER = 0.35  # s: a refusal before is not taken for a person's
YES, NO = {"action": "accept"}, {"action": "decline"}
SEND = "r = await mcp_mail.send(to='a@b', text='hello')\n"
CAUGHT = "try:\n    r = await mcp_mail.send(to='a@b')\nexcept ToolError as e:\n    r = [type(e).__name__, str(e), getattr(e, 'rule', None), getattr(e, 'why', None)]\nr"


def scope(name):
    return {"action": "accept", "content": {"scope": name}}


def control(server, method, params):
    """The response of the server's control socket."""
    with socket.socket(socket.AF_UNIX) as link, link.makefile() as reader:
        link.connect(list(harness.control_sockets(server.process.pid))[0])
        link.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        return json.loads(reader.readline())


class Person(rawmcp.RawServer):
    """A client that shows forms: answers is a queue of results, or of functions of the message; by default a person says yes."""

    CAPABILITIES = {"elicitation": {}}
    META = None

    def __init__(self, *args, **rest):
        self.answers, self.asked, self.delay = [], [], LATER
        super().__init__(*args, **rest)

    def read(self):
        threading.Thread(target=self.work, daemon=True).start()
        super().read()

    def work(self):
        while True:
            message = self.unasked.get()
            if message.get("method") != "elicitation/create":
                continue
            self.asked.append(message)
            answer = self.answers.pop(0) if self.answers else YES
            if answer is not None:
                threading.Thread(target=self.reply, args=(message, answer), daemon=True).start()

    def reply(self, message, answer):
        delay = self.delay
        if isinstance(answer, tuple):
            delay, answer = answer
        if "name" in message["params"]["requestedSchema"]["properties"]:  # of the server's
            answer = {"action": "accept", "content": {"name": "Ada"}}
        time.sleep(delay)
        with contextlib.suppress(ValueError, OSError):
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def initialize(self, version="2025-11-25", timeout=None):
        params = {"protocolVersion": version, "capabilities": self.CAPABILITIES, "clientInfo": {"name": "raw", "version": "0"}}
        result = self.ask("initialize", params, timeout)
        self.notify("notifications/initialized")
        return result


class Mute(Person):
    CAPABILITIES = {}


class Terminal:
    """A program on a pseudo-terminal of 80 columns."""

    def __init__(self, *args, cwd=None, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if cwd:
                os.chdir(cwd)
            os.execve(harness.CLOISTER, [harness.CLOISTER, *args], harness.environment(TERM="xterm", **(env or {})))
        self.out = b""

    def until(self, text):
        end = time.monotonic() + harness.PATIENCE
        while text.encode() not in self.out:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    piece = b""
                if not piece:
                    break
                self.out += piece
            if time.monotonic() > end:
                break
        if text.encode() not in self.out:
            raise AssertionError(f"no {text!r} in {self.out!r}")
        return self.out.decode(errors="replace").replace("\r\n", "\n")

    def type(self, text):
        os.write(self.fd, text.encode() + b"\n")

    def end(self):
        deadline = time.monotonic() + harness.PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.05)[0]:
                    self.out += os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        raise AssertionError(f"it goes on: {self.out!r}")


class Asking(ServerCase):
    SERVERS, CONFIG, CLIENT = SERVERS, RULES, Person

    @classmethod
    def setUpClass(cls):
        made, rawmcp.RawServer = rawmcp.RawServer, cls.CLIENT
        try:
            super().setUpClass()
        finally:
            rawmcp.RawServer = made

    def setUp(self):
        super().setUp()
        self.server.answers, self.server.delay = [], LATER
        self.server.asked.clear()

    def sent(self):
        """How many calls the server has got."""
        return self.value("len((await mcp_mail.lines())['lines'])", session="reader")

    def arguments(self, n):
        """The arguments of the last n calls that the server has got, as they were written."""
        code = "import re\n[re.search(r'\"arguments\": ?(\\{.*?\\})', line)[1] for line in (await mcp_mail.lines())['lines'][-%d:]]"
        return self.value(code % n, session="reader")

    def messages(self):
        return [m["params"]["message"] for m in self.server.asked]

    def questions(self):
        done = self.run_cloister("approve", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        return harness.message_of(done.stdout)

    def question(self, session=None):
        """Waits for the one question of the session."""
        found = []

        def reached():
            found[:] = [q for q in self.questions() if q["session"] == (session or self.session)]
            return bool(found)

        self.assertTrue(harness.wait_until(reached))
        return found[0]

    def approve(self, session, *words):
        """Answers at a terminal; returns what it has shown."""
        identifier = self.question(session)["id"]
        terminal = Terminal("approve", identifier, *words, cwd=self.class_dir)
        self.assertEqual(terminal.end(), 0, terminal.out)
        return terminal.out.decode().replace("\r\n", "\n")


class Forms(Asking):
    def test_gather_is_one_question_about_the_bytes_that_are_sent(self):
        before = self.sent()
        code = "import asyncio\nr = await asyncio.gather(*(mcp_mail.send(to=f'{i}@b', text='x') for i in range(40)))\nlen(r)"
        self.assertEqual(self.value(code), 40)
        (message,) = self.messages()
        self.assertTrue(message.startswith("40 calls of mail.send: mail leaves the house: cloister approve "), message)
        self.assertLessEqual(len(message.split("\n", 1)[0]), 90)
        self.assertEqual(self.sent(), before + 40)
        arguments = self.arguments(40)
        digest = hashlib.sha256("".join(f"mail.send\n{a}\n" for a in arguments).encode()).hexdigest()
        self.assertIn(f"SHA-256 {digest}", message)
        self.assertIn(f"40. mail.send {arguments[39]} ({len(arguments[39])} bytes)", message)
        self.assertIn(f"session {self.session}; rule: ", message)

    def test_a_yes_is_no_way_around_a_count(self):
        """The calls of one question were all decided before the first of them was sent."""
        before = self.sent()
        code = "import asyncio\nr = await asyncio.gather(*(mcp_mail.send(to=f'few{i}', text='x') for i in range(5)), return_exceptions=True)\n"
        code += "sorted(type(x).__name__ == 'ToolDenied' for x in r)"
        self.assertEqual(self.value(code), [False] * 3 + [True] * 2)
        self.assertEqual((len(self.messages()), self.sent()), (1, before + 3))

    def test_no_denies_with_the_rule(self):
        before = self.sent()
        self.server.answers = [NO]
        kind, text, rule, why = self.value(CAUGHT)
        self.assertEqual(kind, "ToolDenied")
        self.assertRegex(text, r"mail\.send was not sent: .*config\.json line \d+: ")
        self.assertRegex(rule, r"config\.json line \d+")
        self.assertIn("a person answered no", text + why)
        self.server.answers = [scope("no")]
        self.assertEqual(self.value(CAUGHT)[0], "ToolDenied")
        self.assertEqual(self.sent(), before)

    def test_form_has_one_list_with_once_first(self):
        self.ok(SEND)
        schema = self.server.asked[0]["params"]["requestedSchema"]
        self.assertEqual(list(schema["properties"]), ["scope"])
        self.assertEqual(schema["properties"]["scope"]["enum"], ["once", "cell", "session", "always", "no"])
        self.assertNotIn("required", schema)

    def test_answer_that_does_not_fit_is_asked_for_again_once(self):
        before = self.sent()
        self.server.answers = [scope("maybe"), {"action": "accept", "content": {"scope": ["once"]}}]
        self.assertEqual(self.value(CAUGHT)[0], "ToolDenied")
        self.assertEqual(len(self.server.asked), 2)
        self.server.answers = [scope("maybe"), scope("once")]
        self.ok(SEND)
        self.assertEqual(self.sent(), before + 1)

    def test_grant_of_a_cell_and_of_a_session(self):
        self.server.answers = [scope("cell")]
        self.ok(SEND * 4)
        self.assertEqual(len(self.server.asked), 1)
        self.server.answers = [scope("session")]
        self.ok(SEND)
        self.ok(SEND)
        self.assertEqual(len(self.server.asked), 2)
        # Another tool and another session ask, and so does this tool once its definition has changed.
        self.ok("await mcp_mail.note(text='x')")
        self.ok(SEND, session=self.session + "-2")
        self.assertEqual(len(self.server.asked), 4)
        self.ok("await mcp_mail.change()\nimport asyncio\nawait asyncio.sleep(0.3)")
        self.ok(SEND)
        self.assertEqual(len(self.server.asked), 5)
        # A grant ends with the sandbox.
        self.server.answers = [scope("session")]
        self.ok(SEND)
        self.ok(SEND)
        self.assertEqual(len(self.server.asked), 6)
        self.ok(SEND, reset=True)
        self.assertEqual(len(self.server.asked), 7)

    def test_grant_is_of_a_rule_and_not_of_its_line(self):
        """All rules of this config stand in one line. Another rule about the same tool asks again."""
        path = os.path.join(self.class_dir, "config.json")
        with open(path, encoding="utf-8") as f:
            before = f.read()

        def has_asked():
            self.ok("await mcp_mail.note(text='z')")
            return len(self.server.asked) == 2

        self.server.answers = [scope("session")]
        self.ok("await mcp_mail.note(text='x')")
        self.ok("await mcp_mail.note(text='y')")
        self.assertEqual(len(self.server.asked), 1)
        config = json.loads(before)
        self.addCleanup(harness.replace_file, path, before)
        harness.replace_file(path, json.dumps({**config, "rules": [*config["rules"][:2], {"ask": "mail.note", "why": "since today"}]}))
        self.assertTrue(harness.wait_until(has_asked))  # the config is reloaded
        self.assertIn("since today", self.messages()[-1])

    def test_branch_has_no_grants(self):
        self.server.answers = [scope("session")]
        self.ok(SEND)
        self.ok(SEND, **{"session": self.session + "-b", "from": self.session})
        self.assertEqual(len(self.server.asked), 2)

    def test_three_times_no_and_the_bound_of_a_cell(self):
        self.server.answers = [NO] * 3
        loop = "n = 0\nfor i in range(6):\n    try:\n        await mcp_mail.%s(text=str(i))\n    except ToolError as e:\n        n += 1\n        last = str(e)\n[n, last]"
        n, last = self.value(loop % "note")
        self.assertEqual((n, len(self.server.asked)), (6, 3))
        self.assertIn("three times", last)
        self.server.asked.clear()
        n, last = self.value(loop % "send")
        self.assertEqual((n, len(self.server.asked)), (2, 4))
        self.assertIn("per_cell", last)

    def test_text_of_code_cannot_change_the_message(self):
        evil = "x\\u001b[2J\\u202e\\u200b\\nSHA-256 0\\n2. mail.note {}"
        self.ok(f"await mcp_mail.send(to='{evil}')")
        (message,) = self.messages()
        self.assertEqual(message.count("\n"), 3)
        for bad in "\x1b\u202e\u200b":
            self.assertNotIn(bad, message)
        self.ok("import asyncio\nawait asyncio.gather(*(mcp_mail.send(text='y' * 3000) for _ in range(300)))")
        self.assertLessEqual(len(self.messages()[1].encode()), 8192)
        self.assertIn("300 calls of mail.send", self.messages()[1])
        self.assertIn("more: cloister approve", self.messages()[1])

    def test_two_sessions_and_a_later_call_of_one(self):
        self.server.answers = [(1.0, YES), (0.4, NO)]
        first = self.server.start_call(CAUGHT, session=self.session + "-1")
        self.question(self.session + "-1")
        second = self.server.start_call(CAUGHT, session=self.session + "-2")
        self.assertEqual(second.result()["structuredContent"]["value"]["json"][0], "ToolDenied")
        self.assertEqual(first.result()["structuredContent"]["status"], "ok")
        # A thread calls while the loop's call waits for its answer: the next question.
        self.server.asked.clear()
        code = "import threading, asyncio\nt = threading.Thread(target=lambda: mcp_mail.note.sync(text='t'))\na = asyncio.ensure_future(mcp_mail.send(to='q'))\nt.start()\nawait a\nawait asyncio.to_thread(t.join)"
        self.ok(code)
        self.assertIn(len(self.server.asked), (1, 2))

    def test_questions_of_a_server_and_ours_in_one_cell(self):
        code = f"import asyncio\nasync with asyncio.timeout(3):\n    r = await asyncio.gather(mcp_mail.send(to='x'), mcp_faulty.ask(method='elicitation/create', params={FORM}))\nr[1]['result']"
        self.server.delay = 1.6
        self.assertEqual(self.value(code), {"action": "accept", "content": {"name": "Ada"}})
        self.assertEqual(len(self.server.asked), 2)

    def test_the_time_of_the_code_stands_still(self):
        self.server.delay = 1.5
        code = "import asyncio, threading, time\nn = 0\ndef spin():\n    global n\n    while run:\n        n += 1\nrun = True\nthreading.Thread(target=spin).start()\nasync with asyncio.timeout(1):\n    r = await mcp_mail.send(to='x')\nrun = False\n'ok'"
        self.assertEqual(self.value(code, timeout=2), "ok")

    def test_cancelled_call_withdraws_the_question(self):
        self.server.answers = [None]
        before = self.sent()
        call = self.server.start_call(SEND, session=self.session)
        self.question()
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: not self.questions()))
        withdrawn = [n for n in self.server.notes if n.get("method") == "notifications/cancelled"]
        self.assertEqual(withdrawn[-1]["params"]["requestId"], self.server.asked[-1]["id"])
        # A late answer counts for nothing.
        self.server.send({"jsonrpc": "2.0", "id": self.server.asked[-1]["id"], "result": YES})
        self.assertEqual(self.sent(), before)

    def test_dropped_call_and_ended_session_withdraw_it(self):
        self.server.answers = [None] * 2
        call = self.server.start_call("import asyncio\nt = asyncio.ensure_future(mcp_mail.send(to='x'))\nawait asyncio.sleep(60)", session=self.session)
        self.question()
        self.run_cloister("sessions", "end", self.session, "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertNotEqual(call.result()["structuredContent"]["status"], "ok")
        self.assertEqual(self.questions(), [])

    def test_call_outside_a_cell_is_denied(self):
        self.ok("import asyncio\nseen = []\nasync def later():\n    await asyncio.sleep(0.2)\n    try:\n        await mcp_mail.send(to='x')\n    except ToolError as e:\n        seen.append(str(e))\nt = asyncio.ensure_future(later())")
        time.sleep(0.6)
        self.assertIn("outside a cell", self.value("import asyncio\nawait asyncio.wait([t], timeout=5)\nseen[0]"))
        self.assertEqual(self.server.asked, [])

    def test_refusal_at_once_leaves_the_terminal(self):
        self.server.answers = [(0, NO)]
        call = self.server.start_call(SEND, session=self.session)
        shown = self.approve(self.session, "--answer", "once")
        self.assertIn('   | {"to":"a@b","text":"hello"}', shown.replace(": ", ":").replace(", ", ","))
        self.assertEqual(call.result()["structuredContent"]["status"], "ok")

    def test_terminal_answers_before_the_client(self):
        self.server.answers = [None]
        call = self.server.start_call(CAUGHT, session=self.session)
        self.approve(self.session, "--answer", "no", "--note", "use the test address")
        text = call.result()["structuredContent"]["value"]["json"][1]
        self.assertIn("a person answered no: use the test address", text)
        self.assertEqual([n["method"] for n in self.server.notes].count("notifications/cancelled") > 0, True)


    # ---- the revision 2026-07-28 ----

    def modern(self, code, params=None, capabilities=None):
        meta = {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {"elicitation": {}} if capabilities is None else capabilities}
        params = {"name": "run_python", "arguments": {"code": code, "session": self.session}, "_meta": meta, **(params or {})}
        return self.server.ask("tools/call", params, harness.PATIENCE * 2)

    def answer(self, code, first, result):
        responses = dict.fromkeys(first["inputRequests"], result)
        return self.modern(code, {"requestState": first["requestState"], "inputResponses": responses})

    def test_modern_client(self):
        before = self.sent()
        first = self.modern(CAUGHT)
        (request,) = first["inputRequests"].values()
        self.assertEqual(request["method"], "elicitation/create")
        self.assertTrue(request["params"]["message"].startswith("1 call of mail.send: "))
        # The state is bound to the code, and is not good for another call.
        with self.assertRaises(rawmcp.RpcError):
            self.answer(CAUGHT + "\n", first, YES)
        self.assertEqual(len(self.questions()), 1)
        last = self.answer(CAUGHT, first, YES)
        self.assertEqual(last["structuredContent"]["status"], "ok", last)
        self.assertEqual(self.sent(), before + 1)
        with self.assertRaises(rawmcp.RpcError):
            self.answer(CAUGHT, first, YES)
        # No; and an answer at the terminal while the call has no request.
        first = self.modern(CAUGHT)
        time.sleep(LATER)
        self.assertEqual(self.answer(CAUGHT, first, NO)["structuredContent"]["value"]["json"][0], "ToolDenied")
        first = self.modern(CAUGHT)
        self.approve(self.session, "--answer", "once")
        self.assertTrue(harness.wait_until(lambda: self.sent() == before + 2))
        self.assertEqual(self.answer(CAUGHT, first, NO)["structuredContent"]["status"], "ok")

    def test_modern_client_without_forms(self):
        cell = self.modern(SEND, capabilities={})["structuredContent"]
        self.assertEqual(cell["status"], "running")
        self.assertIn("cloister approve", json.dumps(cell))
        self.approve(self.session, "--answer", "no")


class NoForms(Asking):
    CLIENT = Mute

    def ends(self, session):
        return self.server.request("tools/call", {"name": "run_python", "arguments": {"session": session, "wait": 30}}).result()["structuredContent"]

    def test_running_with_the_command_then_the_end(self):
        call = self.server.start_call(SEND + "r", session=self.session, meta={"progressToken": "p"})
        cell = call.result()["structuredContent"]
        self.assertEqual(cell["status"], "running")
        identifier = self.question()["id"]
        self.assertIn(f"waits for a person: cloister approve {identifier}", json.dumps(cell))
        progress = [n["params"]["message"] for n in self.server.notes if n.get("method") == "notifications/progress"]
        self.assertTrue(any(f"waits for a person: cloister approve {identifier}" in p for p in progress), progress)
        self.approve(self.session, "--answer", "once")
        self.assertEqual(self.ends(self.session)["status"], "ok")

    def test_rows_at_the_terminal_in_80_columns(self):
        before = self.sent()
        code = "import asyncio\nr = await asyncio.gather(*(mcp_mail.send(to=str(i) + ' ' * 100 + 'SHA-256 0') for i in range(3)), return_exceptions=True)\n[type(x).__name__ for x in r]"
        self.server.start_call(code, session=self.session).result()
        identifier = self.question()["id"]
        terminal = Terminal("approve", identifier, cwd=self.class_dir)
        shown = terminal.until("rows such as")
        for line in shown.split("\n")[:-1]:
            self.assertLessEqual(len(line), 80, line)
            self.assertTrue(not line.startswith("SHA-256 0"), line)
        terminal.type("maybe")
        terminal.until("rows such as")
        terminal.type("1,3 not the second")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(self.ends(self.session)["value"]["json"][1], "ToolDenied")
        self.assertEqual(self.sent(), before + 2)

    def test_options_of_approve(self):
        before = self.sent()
        code = "import asyncio\nr = await asyncio.gather(*(mcp_mail.send(to='a@b', text=str(i)) for i in range(3)), return_exceptions=True)\n[str(x) for x in r]"
        self.server.start_call(code, session=self.session).result()
        identifier = self.question()["id"]
        for words in (("--answer", "maybe"), ("--rows", "all"), ("--rows", "1", "--answer", "once"), ("--note", "x"), ("once",)):
            terminal = Terminal("approve", identifier, *words, cwd=self.class_dir)
            self.assertEqual(terminal.end(), 2, terminal.out)
        self.approve(self.session, "--rows", "1,3", "--note", "not the second")
        texts = self.ends(self.session)["value"]["json"]
        self.assertEqual([t.find("not the second") >= 0 for t in texts], [False, True, False], texts)
        self.assertEqual(self.sent(), before + 2)

    def test_answers_of_others_count_for_nothing(self):
        self.server.start_call(SEND + "r", session=self.session).result()
        question = self.question()

        def ask(method, **params):
            return control(self.server, method, params)

        shown = ask("questions/show", id=question["id"])["result"]
        good = {"id": question["id"], "sha256": shown["sha256"], "answer": "once"}
        for bad in ({**good, "id": "00000000"}, {**good, "sha256": "0" * 64}, {**good, "answer": "perhaps"}, {**good, "answer": "1-2"}, {**good, "answer": "0"}):
            self.assertIn("error", ask("questions/answer", **bad), bad)
        self.assertEqual(self.question()["id"], question["id"])
        self.assertIn("result", ask("questions/answer", **good))
        self.assertIn("was answered, or has ended", ask("questions/answer", **good)["error"]["message"])
        self.assertEqual(self.ends(self.session)["status"], "ok")
        # The id of that question does not answer the next.
        self.server.start_call(SEND + "r", session=self.session).result()
        other = self.question()
        self.assertNotEqual(other["id"], question["id"])
        self.assertIn("error", ask("questions/answer", **good))
        self.assertIn("result", ask("questions/answer", **{**good, "id": other["id"]}))

    def test_rule_that_is_removed_while_a_person_thinks(self):
        path = os.path.join(self.class_dir, "config.json")
        with open(path, encoding="utf-8") as f:
            before = f.read()

        self.addCleanup(harness.replace_file, path, before)
        self.server.start_call("r = await mcp_mail.note(text='x')\nr", session=self.session).result()
        self.server.start_call(SEND, session=self.session + "-2").result()
        self.question()
        config = json.loads(before)
        harness.replace_file(path, json.dumps({**config, "rules": [config["rules"][1]]}))
        self.assertTrue(harness.wait_until(lambda: [q["session"] for q in self.questions()] == [self.session + "-2"]))
        self.assertEqual(self.ends(self.session)["status"], "ok")
        harness.replace_file(path, json.dumps({**config, "rules": [{"deny": "mail.send", "why": "never"}]}))
        self.assertTrue(harness.wait_until(lambda: not self.questions()))
        self.assertIn("ToolDenied", json.dumps(self.ends(self.session + "-2")))

    def test_answer_needs_a_terminal(self):
        done = subprocess.run([harness.CLOISTER, "approve", "00000000", "--answer", "once"], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=harness.environment(), check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("from a terminal only", done.stderr)

    def test_sessions_list_says_that_it_asks(self):
        self.server.start_call(SEND, session=self.session).result()
        self.question()
        done = self.run_cloister("sessions", "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertRegex(done.stdout if isinstance(done.stdout, str) else done.stdout.decode(), r"asks, 1 call, \d+ s")
        self.approve(self.session, "--answer", "no")
        self.ends(self.session)

    def test_exec_asks_its_own_terminal(self):
        self.ok("x = 1")
        terminal = Terminal("exec", self.session, "--server", str(self.server.process.pid), "-c", SEND + "print('done', r)", cwd=self.class_dir)
        terminal.until("rows such as")
        terminal.type("once")
        terminal.until("done")
        self.assertEqual(terminal.end(), 0)
        done = subprocess.run([harness.CLOISTER, "exec", self.session, "--server", str(self.server.process.pid), "-c", SEND], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=harness.environment(), check=False, start_new_session=True)
        self.assertIn("no person can be asked", done.stderr)

    def test_lines_that_were_typed_before_a_question_do_not_answer_it(self):
        before = self.sent()
        refused = "try:\n    " + SEND.strip() + "\nexcept Exception:\n    print('de' + 'nied')\n"
        config = os.path.join(self.class_dir, "config.json")
        for words in (("exec", self.session, "--server", str(self.server.process.pid), "-c", refused), ("run", "--config", config, "-c", refused)):
            self.ok("x = 1")
            terminal = Terminal(*words, cwd=self.class_dir)
            terminal.type("once")
            terminal.until("rows such as")
            terminal.type("no")
            terminal.until("denied")
            self.assertEqual(terminal.end(), 0)
        self.server.start_call(SEND, session=self.session).result()
        terminal = Terminal("approve", self.question()["id"], cwd=self.class_dir)
        terminal.type("once")
        terminal.until("rows such as")
        terminal.type("no")
        self.assertEqual(terminal.end(), 0)
        self.assertIn("ToolDenied", json.dumps(self.ends(self.session)))
        self.assertEqual(self.sent(), before)

    def test_run_asks_its_terminal(self):
        config = os.path.join(self.class_dir, "config.json")
        terminal = Terminal("run", "--config", config, "-c", SEND + "print('done', r)", cwd=self.class_dir)
        terminal.until("rows such as")
        terminal.type("once")
        terminal.until("done")
        self.assertEqual(terminal.end(), 0)
        done = subprocess.run([harness.CLOISTER, "run", "--config", config, "-c", SEND], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=harness.environment(), check=False, start_new_session=True)
        self.assertIn("no person can be asked", done.stderr)


class Principals(test_serve.Serve):
    """Over HTTP only the session of the call answers; a token of another principal does not."""

    session, call, reply = test_serve_asks.Asks.session, test_serve_asks.Asks.call, test_serve_asks.Asks.reply
    until_asked = staticmethod(test_serve_asks.Asks.until_asked)
    setUp = test_serve_asks.Asks.setUp

    def config(self):
        return harness.Case.config(self, SERVERS, **RULES)

    def test_another_principal_does_not_answer(self):
        alice, bob = self.session("alice", {"elicitation": {}}), self.session("bob", {"elicitation": {}})
        events = self.call(alice, CAUGHT).response().events()
        asked = self.until_asked(events)
        self.assertIn("principal alice", asked["params"]["message"])
        time.sleep(LATER)
        self.reply(bob, asked["id"], YES)
        self.reply(self.session("alice", {"elicitation": {}}), asked["id"], YES)
        self.reply(alice, asked["id"], NO)
        last = next(m for _, m in events if m and "result" in m)
        self.assertEqual(last["result"]["structuredContent"]["value"]["json"][0], "ToolDenied")

    def test_client_that_leaves_ends_its_question(self):
        alice = self.session("alice", {"elicitation": {}})
        events = self.call(alice, CAUGHT).response().events()
        self.until_asked(events)
        self.connect().request("DELETE", "/mcp", {k.replace("_", "-"): v for k, v in alice.items()}).response()

        def ended():
            done = self.run_cloister("approve", "--json", "--server", str(self.server.pid))
            return harness.message_of(done.stdout) == []

        self.assertTrue(harness.wait_until(ended))


if __name__ == "__main__":
    harness.main()
