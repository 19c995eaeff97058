"""Questions that a person answers on a page of `cloister serve`: who sees them, and what counts as an answer."""

import base64
import hashlib
import html
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse

import harness
import test_ask
import test_serve

BASE = "https://c.example"
ALICE, BOB = "alice-alice-alice+1", "bob-bob-bob-bob-bob-2"
HEADERS = {name: {"Authorization": f"Bearer {token}"} for name, token in (("alice", ALICE), ("bob", BOB))}
URL_ONLY = {"elicitation": {"url": {}}}
RULES = [{"ask": "mail.send", "why": "mail leaves the house"}, {"ask": "mail.note", "why": "<b>notes</b>"}]
SEND = "(await mcp_mail.send(to='a@b', text='hello'))['ok']"
CAUGHT = "try:\n    r = (await mcp_mail.send(to='a@b', text='hello'))['ok']\nexcept ToolError as e:\n    r = str(e)\nr"
CLOSED = "This token cannot answer here, or the question has ended."
LATE = "The answer was not taken: the question was answered before, has ended, or its page is closed."
TRIES = 20  # wrong tokens of an address in a minute


class Asking(test_serve.Serve):
    """A server with pages, its clients, and a browser without eyes."""

    base = BASE
    listen = "127.0.0.1:0"
    wait = 1

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.write("tokens", f"alice {ALICE}\nbob {BOB}\nwatch role-role-role-1 role=view\n")
        os.chmod(self.tokens, 0o600)
        self.state = self.path("state")
        os.mkdir(self.state)
        self.last_id = 0
        self.server = self.start("--listen", self.listen, "--tokens", self.tokens, "--allow-host", "c.example")

    def config(self, **rest):
        given = {"rules": RULES, "ask": {"page": self.base, "wait": self.wait, "timeout": "2m", "per_cell": 50}, "journal": {"sync": "none"}, **rest}
        return harness.Case.config(self, {"mail": {"command": harness.PYTHON, "args": [test_ask.MAIL]}}, **given)

    def spawn(self, log, *arguments, **options):
        process = subprocess.Popen([harness.CLOISTER, "serve", "--config", self.config(), *arguments], stdin=subprocess.DEVNULL, stderr=log,
                                   env=harness.environment(XDG_STATE_HOME=self.state), cwd=self.dir, **options)
        self.addCleanup(self.stop, process, log)
        return process

    def environment(self):
        return harness.environment(XDG_STATE_HOME=self.state)

    def reload(self, **ask):
        path = self.path("config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config["ask"] = {**config["ask"], **ask}
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**config, "ask": {k: v for k, v in config["ask"].items() if v is not None}}, f)
        done = self.run_cloister("reload", "--server", str(self.server.pid), env=self.environment())
        self.assertEqual(done.returncode, 0, done)

    # ---- a browser

    def send(self, method, path, body=None, **headers):
        named = {"Origin": self.base, "Content-Type": "application/x-www-form-urlencoded", **{k.replace("_", "-"): v for k, v in headers.items()}}
        host = named.pop("Host", "c.example")
        return self.connect().request(method, path, {k: v for k, v in named.items() if v is not None}, body, host).response()

    def post(self, page, fields, **headers):
        return self.send("POST", page, urllib.parse.urlencode(fields).encode(), **headers)

    @staticmethod
    def hidden(answer):
        return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', answer.body.decode()))

    def shown(self, page, token=ALICE):
        """The fields of the form that answers."""
        answer = self.post(page, {"token": token})
        self.assertEqual(answer.status, 200, answer.body)
        fields = self.hidden(answer)
        self.assertEqual(set(fields), {"key", "sha256"})
        return fields

    def answer(self, page, word, token=ALICE):
        answer = self.post(page, {**self.shown(page, token), "answer": word})
        self.assertEqual((answer.status, f"Your answer was taken: {word}." in answer.body.decode()), (200, True), answer.body)

    def late(self, answer):
        self.assertEqual((answer.status, LATE in answer.body.decode()), (409, True), answer.body)

    def closed(self, answer):
        self.assertEqual((answer.status, CLOSED in answer.body.decode()), (403, True), answer.body)

    # ---- clients

    def session(self, who, capabilities):
        params = {**test_serve.LEGACY, "capabilities": capabilities}
        answer = self.connect().post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, **HEADERS[who]).response()
        headers = {"Mcp_Session_Id": answer.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-11-25", **HEADERS[who]}
        self.connect().post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers).response()
        return headers

    def call(self, headers, code, **arguments):
        params = {"name": "run_python", "arguments": {**({"code": code} if code else {}), **arguments}, "_meta": {"progressToken": "t"}}
        self.last_id += 1
        return self.messages(self.connect().post({"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": params}, **headers))

    @staticmethod
    def messages(sent):
        """Those of a stream, or the answer alone."""
        answer = sent.response()
        return answer.events() if answer.chunked else iter([(None, answer.json())])

    def modern(self, who, code, capabilities=(), **params):
        arguments = {**({"code": code} if code else {}), **params.pop("arguments", {})}
        params = {"name": "run_python", "arguments": arguments, **params}
        meta = {"io.modelcontextprotocol/clientCapabilities": dict(capabilities), "progressToken": "t"}
        return self.messages(self.connect().modern("tools/call", params, meta=meta, **HEADERS[who]))

    def told(self, events):
        """The path of the page, from a progress message or a request."""
        text = next(json.dumps(m) for _, m in events if m and self.base in json.dumps(m))
        return re.search(self.base + "(/ask/[0-9a-f]{32})", text)[1]

    @staticmethod
    def value(events):
        return next(m["result"]["structuredContent"]["value"]["json"] for _, m in events if m and "result" in m)

    def records(self, kind):
        folder = os.path.join(self.state, "cloister", "journal")
        names = [n for n in os.listdir(folder) if n.endswith(".jsonl")]
        lines = []
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                lines += map(json.loads, f)
        return [r for r in lines if r["kind"] == kind]

    def decisions(self):
        return [(r["by"], r.get("scope") or r.get("refused")) for r in self.records("decision")]


class Pages(Asking):
    def test_clients(self):
        # Of the first era: the client opens the address, which answers nothing; the page answers, and the client gets a message about that.
        alice = self.session("alice", URL_ONLY)
        events = self.call(alice, SEND)
        asked = next(m for _, m in events if m and m.get("method") == "elicitation/create")
        params = asked["params"]
        self.assertEqual((params["mode"], params["elicitationId"], "requestedSchema" in params), ("url", params["message"].split()[10], False), params)
        self.assertTrue(params["message"].startswith("1 call of mail.send: mail leaves the house: cloister approve "), params)
        page = params["url"].removeprefix(BASE)
        self.assertRegex(page, "^/ask/[0-9a-f]{32}$")
        self.connect().post({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}, **alice).response()
        told = next(m for _, m in events if m and m.get("method") == "notifications/progress")
        self.assertIn(f"waits for a person: cloister approve {params['elicitationId']}, or {BASE}{page};", told["params"]["message"])
        self.check_page(page)
        self.answer(page, "once")
        rest = [m for _, m in events if m]
        done = [m["params"] for m in rest if m.get("method") == "notifications/elicitation/complete"]
        self.assertEqual(done, [{"elicitationId": params["elicitationId"]}])
        self.assertTrue(rest[-1]["result"]["structuredContent"]["value"]["json"])
        self.assertEqual(self.decisions(), [("page", "once")])
        self.assertEqual(self.records("decision")[0]["session"], "default")
        self.assertEqual(self.records("decision")[0]["principal"], "alice")

        # Of 2026-07-28: the same by input_required.
        first = next(m["result"] for _, m in self.modern("alice", SEND, URL_ONLY) if m and "result" in m)
        self.assertEqual(first["resultType"], "input_required")
        ((key, request),) = first["inputRequests"].items()
        page = request["params"]["url"].removeprefix(BASE)
        again = self.modern("alice", SEND, URL_ONLY, inputResponses={key: {"action": "accept"}}, requestState=first["requestState"])
        running = next(m["result"] for _, m in again if m and "result" in m)["structuredContent"]  # after `wait`
        self.assertEqual((running["status"], BASE + page in json.dumps(running)), ("running", True))
        self.answer(page, "once")
        self.assertTrue(self.value(self.modern("alice", None, arguments={"session": running["session"]})))

        # A client that declares nothing gets the address as text, and is answered after `wait`.
        events = self.call(self.session("bob", {}), SEND, session="b")
        page = self.told(events)
        running = next(m["result"] for _, m in events if m and "result" in m)["structuredContent"]
        self.assertEqual((running["status"], BASE + page in json.dumps(running)), ("running", True))
        self.answer(page, "no", BOB)

        # A person at the client declines to open it.
        alice = self.session("alice", URL_ONLY)
        events = self.call(alice, CAUGHT)
        asked = next(m for _, m in events if m and m.get("method") == "elicitation/create")
        time.sleep(test_ask.LATER)
        self.connect().post({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}, **alice).response()
        self.assertIn("a person answered no", self.value(events))

    def check_page(self, page):
        """What the page is without a token, and with one."""
        blank = self.send("GET", page)
        policy = blank.headers["content-security-policy"]
        style = base64.b64encode(hashlib.sha256(re.search(b"<style>(.*?)</style>", blank.body, re.DOTALL)[1]).digest()).decode()
        self.assertEqual(policy, f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
        self.assertEqual((blank.headers["cache-control"], blank.headers["referrer-policy"], blank.headers["x-frame-options"]), ("no-store", "same-origin", "DENY"))
        self.assertNotIn(b"mail", blank.body)
        for other in ("/ask/" + "0" * 32, "/ask/", "/ask/x?y", page + "0", page + "/"):
            self.assertEqual(self.send("GET", other).body, blank.body)
        head = self.connect().request("HEAD", page, {"Connection": "close"}, host="c.example").file.read()
        self.assertRegex(head, rb"(?s)^HTTP/1.1 200 .*\r\nContent-Length: %d\r\n\r\n$" % len(blank.body))
        whole = self.post(page, {"token": ALICE})
        self.assertEqual(whole.headers["content-security-policy"], policy)
        text = html.unescape(whole.body.decode())
        self.assertIn('   | {"to":"a@b","text":"hello"}', text)
        self.assertIn("session default, principal alice\n", text)
        self.assertEqual(re.findall('name="answer" value="(.*?)"', text), ["once", "cell", "session", "always", "no"])
        self.assertNotIn(ALICE, text)
        self.assertNotIn("<script", text)

    def test_who_answers(self):
        bob = self.session("bob", {})
        alice = self.session("alice", {})
        others = self.told(self.call(bob, SEND))
        events = self.call(alice, SEND)
        page = self.told(events)
        fields, theirs = self.shown(page), self.shown(others, BOB)
        # Neither without a token, nor with another principal's, a role's, or the value of another page.
        for wrong in ({}, {"token": ""}, {"token": BOB}, {"token": "role-role-role-1"}, {**fields, "key": theirs["key"], "answer": "once"},
                      {**fields, "key": "0" * 64, "answer": "once"}, {"sha256": fields["sha256"], "answer": "once"}):
            self.closed(self.post(page, wrong))
        self.assertEqual(self.decisions(), [("page", "not the token of the principal")] * 7)
        # An address that never was has the same answer for the right token.
        self.assertEqual(self.post("/ask/" + "0" * 32, {"token": ALICE}).body, self.post(page, {"token": BOB}).body)
        # The form of another site: no Origin, another one, "null", that of a client.
        for origin in (None, "https://evil.example", "null", "http://c.example", BASE + ":444", BASE + "/", "http://localhost"):
            self.assertEqual(self.post(page, {**fields, "answer": "once"}, Origin=origin).status, 403, origin)
        self.assertEqual(self.post(page, {"token": ALICE}, Host="evil.example").status, 403)
        self.assertEqual(self.post(page, {"token": ALICE}, Content_Type="application/json").status, 415)
        self.assertEqual(self.send("DELETE", page).status, 405)
        self.assertEqual(self.send("POST", page, b"token=" + b"x" * 5000).status, 413)
        for bad in (b"token=a&token=b", b"token=%00", b"token=%"):
            self.assertEqual(self.send("POST", page, bad).status, 400, bad)
        # The token opens nothing else, and in the address nothing.
        self.closed(self.post(page + "?token=" + urllib.parse.quote(ALICE), {}))
        # The hash of another question, and words that the form has not.
        stale = self.post(page, {**fields, "sha256": "0" * 64, "answer": "once"})
        self.assertEqual((stale.status, self.hidden(stale)), (409, fields))
        for word in ("", "yes", "1-2", "ONCE"):
            self.assertEqual(self.post(page, {**fields, "answer": word}).status, 400, word)
        self.assertEqual(self.decisions()[-1], ("page", "it is about other calls"))
        self.assertEqual(next(m["result"] for _, m in events if m and "result" in m)["structuredContent"]["status"], "running")
        self.post(page, {**fields, "answer": "session"})
        self.assertEqual(self.decisions()[-1], ("page", "session"))
        self.assertTrue(self.value(self.call(alice, SEND)))  # the grant
        # Once: the token finds nothing afterwards. The same form, of a second tab or of a second click, does not count as a wrong token.
        for _ in range(TRIES):
            self.late(self.post(page, {**fields, "answer": "once"}))
        self.assertEqual(self.decisions()[-TRIES:], [("page", "no question has this page, or it has ended")] * TRIES)
        self.closed(self.post(page, {"token": ALICE}))
        # Who has not had the page writes nothing into the journal: neither without its key, nor with the key of another page.
        decisions = self.decisions()
        for path, key in ((page, "0" * 64), (page, theirs["key"]), ("/ask/" + "0" * 32, fields["key"]), (page + "0", fields["key"]), (page, None)):
            self.closed(self.post(path, {"sha256": fields["sha256"], "answer": "once", **({"key": key} if key else {})}))
        self.assertEqual(self.decisions(), decisions)
        self.answer(others, "no", BOB)

    def test_bounds_and_hostile_text(self):
        alice = self.session("alice", {})
        # Text of code and of the config is text on the page.
        code = "import asyncio\nd = dict(to='</pre><script>alert(1)</script>', text='\"\\'&\\x1b[2J\\u202e')\n" + "await asyncio.gather(mcp_mail.note(**d), mcp_mail.note(**d))\n1"
        page = self.told(self.call(alice, code))
        text = self.post(page, {"token": ALICE}).body.decode()
        self.assertNotRegex(text, "(?i)<script|<b>|\x1b|\u202e")
        self.assertIn("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;", text)
        self.assertIn("\\u202e", text)
        self.assertIn("Send these 2 calls?", text)
        self.answer(page, "no")
        # More than a page shows can only be denied there.
        page = self.told(self.call(alice, "try:\n    await mcp_mail.send(to='a', text='x' * 300000)\nexcept ToolError as e:\n    print(e)\n2"))
        answer = self.post(page, {"token": ALICE})
        self.assertEqual(re.findall('name="answer" value="(.*?)"', answer.body.decode()), ["no"])
        self.assertIn(b"too large for a page: cloister approve ", answer.body)
        self.assertEqual(self.post(page, {**self.hidden(answer), "answer": "once"}).status, 400)
        self.answer(page, "no")
        # The terminal is faster, and the page finds nothing.
        events = self.call(alice, SEND)
        page = self.told(events)
        fields = self.shown(page)
        (text,) = json.loads(self.run_cloister("approve", "--json", "--server", str(self.server.pid), env=self.environment()).stdout)
        terminal = test_ask.Terminal("approve", text["id"], "--answer", "once", cwd=self.dir, env={"XDG_STATE_HOME": self.state})
        self.assertEqual(terminal.end(), 0, terminal.out)
        self.late(self.post(page, {**fields, "answer": "no"}))
        # The answer of a page ends the question at a terminal.
        events = self.call(alice, "3\n" + SEND)
        page = self.told(events)
        (text,) = json.loads(self.run_cloister("approve", "--json", "--server", str(self.server.pid), env=self.environment()).stdout)
        self.answer(page, "once")
        terminal = test_ask.Terminal("approve", text["id"], "--answer", "once", cwd=self.dir, env={"XDG_STATE_HOME": self.state})
        self.assertNotEqual(terminal.end(), 0)
        # Ten wrong tokens close the page, for the right one too; the terminal still answers. Twenty of an address are refused unread.
        page = self.told(self.call(alice, SEND))
        fields, wrong = self.shown(page), len([d for d in self.decisions() if d[0] == "page"])
        for _ in range(10):
            self.closed(self.post(page, {"token": "x" * 20}))
        self.closed(self.post(page, {"token": ALICE}))
        self.late(self.post(page, {**fields, "answer": "once"}))
        self.assertEqual(self.decisions()[-2], ("page", "not the token of the principal; the page is closed"))
        self.assertEqual(len([d for d in self.decisions() if d[0] == "page"]), wrong + 11)
        sent = next(n for n in range(40) if self.post("/ask/x", {"token": BOB}).status == 429)
        self.assertLess(sent, TRIES)
        self.assertEqual(self.send("GET", page).status, 200)

    def test_reload(self):
        gone = b"questions are not answered on pages here (ask.page)\n"
        # Without the key: the page that is open answers nothing any more, and the terminal can.
        alice, bob = self.session("alice", {}), self.session("bob", {})
        page = self.told(self.call(alice, SEND))
        fields = self.shown(page)
        self.reload(page=None)
        for answer in (self.post(page, {**fields, "answer": "once"}), self.post(page, {"token": ALICE}), self.send("GET", page)):
            self.assertEqual((answer.status, answer.body), (404, gone))
        self.assertEqual(self.decisions(), [])
        (asked,) = json.loads(self.run_cloister("approve", "--json", "--server", str(self.server.pid), env=self.environment()).stdout)
        terminal = test_ask.Terminal("approve", asked["id"], "--answer", "once", cwd=self.dir, env={"XDG_STATE_HOME": self.state})
        self.assertEqual(terminal.end(), 0, terminal.out)
        self.assertEqual(self.decisions(), [("terminal", "once")])
        # The next question of the same session has no page. With the key again, it has one; the old address stays none.
        self.assertNotIn("/ask/", json.dumps(list(self.call(alice, "1\n" + CAUGHT, reset=True))))
        self.reload(page=BASE)
        self.late(self.post(page, {**fields, "answer": "once"}))
        # Another address: the old page is closed, also where it was the only way to answer, and nothing is sent.
        self.reload(by=["page"])
        events = self.call(bob, CAUGHT, session="b", wait=60)
        page = self.told(events)
        fields = self.shown(page, BOB)
        self.reload(page="https://d.example")
        answer = self.post(page, {**fields, "answer": "once"})
        self.assertEqual((answer.status, answer.body), (403, b"the form must come from this page (ask.page)\n"))
        self.late(self.post(page, {**fields, "answer": "once"}, Origin="https://d.example"))
        self.assertIn("the page of the question is not served any more (ask.page)", self.value(events))
        # The session continues with the new address.
        text = json.dumps(list(self.call(bob, "2\n" + SEND, session="b")))
        self.assertIn("https://d.example/ask/", text)
        self.assertNotIn(BASE, text)

    def test_only_a_page(self):
        """Where no terminal can answer, no message names one, and its answer is refused with the reason."""
        self.reload(by=["page"])
        alice = self.session("alice", URL_ONLY)
        events = self.call(alice, CAUGHT)
        asked = next(m["params"] for _, m in events if m and m.get("method") == "elicitation/create")
        self.assertTrue(asked["message"].startswith(f"1 call of mail.send: mail leaves the house: question {asked['elicitationId']}\n"), asked)
        terminal = test_ask.Terminal("approve", asked["elicitationId"], "--answer", "once", cwd=self.dir, env={"XDG_STATE_HOME": self.state})
        self.assertNotEqual(terminal.end(), 0)
        self.assertIn(b'this question cannot be answered at a terminal ("ask": {"by"})', terminal.out)
        self.assertEqual(self.decisions(), [("terminal", "a terminal cannot answer it")])
        self.answer(asked["url"].removeprefix(BASE), "no")
        self.assertIn("a person answered no", self.value(events))
        page = self.told(self.call(alice, "await mcp_mail.send(to='a', text='x' * 300000)"))
        text = self.post(page, {"token": ALICE}).body.decode()
        self.assertIn("too large for a page: it can only be denied.", text)
        self.assertNotIn("cloister approve", text)

    def test_addresses(self):
        """Wrong tokens are counted for the last 256 addresses that sent one."""
        wrong = urllib.parse.urlencode({"token": BOB})

        def status(address):
            with socket.create_connection(self.address, harness.PATIENCE, (address, 0)) as s:
                head = f"POST /ask/x HTTP/1.1\r\nHost: c.example\r\nOrigin: {BASE}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(wrong)}\r\n\r\n"
                s.sendall((head + wrong).encode())
                return int(s.makefile("rb").readline().split()[1])

        began = time.monotonic()
        self.assertEqual([status("127.0.2.1") for _ in range(TRIES + 1)], [403] * TRIES + [429])
        self.assertEqual(status("127.0.2.2"), 403)  # the control
        self.assertEqual([status(f"127.0.3.{i}") for i in range(254)], [403] * 254)
        kept = status("127.0.2.1")
        if time.monotonic() - began < 55:  # of a minute
            self.assertEqual(kept, 429)
        self.assertEqual([status("127.0.4.1"), status("127.0.2.1")], [403, 403])

    def test_plan(self):
        """The answer about a plan is once or no; another word answers nothing, and is not taken for a late one."""
        page = self.told(self.modern("alice", "await mcp_mail.send(to='a@b', text='hello')\n1", arguments={"plan": True}))
        fields = self.shown(page)
        wrong = self.post(page, {**fields, "answer": "session"})
        self.assertEqual((wrong.status, self.hidden(wrong)), (400, fields), wrong.body)
        self.assertIn(b"This is not an answer to the question.", wrong.body)
        self.assertEqual(re.findall('name="answer" value="(.*?)"', wrong.body.decode()), ["once", "no"])
        self.answer(page, "once")
        self.assertEqual(self.decisions()[-1], ("page", "once"))


class Refusals(harness.Case):
    def refused(self, *words, **ask):
        path = self.config(ask=ask)
        done = self.run_cloister(*words, "--config", path)
        return done.returncode, (done.stderr or done.stdout).decode()

    def test_configs(self):
        code, said = self.refused("serve", "--listen", "127.0.0.1:0", page=BASE)
        self.assertEqual(code, 1, said)
        self.assertIn("ask.page: a page must know whose question it shows: --tokens FILE is needed", said)
        for page in ("https://C.example", "http://c.example", "https://c.example/", "https://c.example:443", "c.example"):
            code, said = self.refused("config", "check", page=page)
            self.assertEqual(code, 1, said)
            self.assertIn("ask.page must be an address such as", said)
        code, said = self.refused("config", "check", by=["page"])
        self.assertIn('ask.by names "page": ask.page must be the address', said)
        self.assertEqual(self.refused("config", "check", by=["page"], page=BASE)[0], 0)
        code, said = self.refused("mcp", page=BASE)
        self.assertIn("ask.page: there is no page for questions: only 'cloister serve' has one", said)


if __name__ == "__main__":
    sys.exit(harness.main())
