"""Requests and notifications that upstream servers send to our client, and their resources and prompts; with server-everything."""

import json
import os
import threading
import time

import harness
import rawmcp

EVERYTHING = os.path.join(harness.NODE_DIR, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")
SERVERS = {
    "everything": {"command": harness.NODE, "args": [EVERYTHING]},
    "faulty": {"command": harness.PYTHON, "args": [FAULTY, "--declares", json.dumps({"tools": {}, "resources": {}, "prompts": {}}), "--offer-pages", "3"]},
    "modern": {"command": harness.PYTHON, "args": [FAULTY, "--era", "modern"]},
    "quiet": {"command": harness.PYTHON, "args": [FAULTY], "tools": {"allow": ["echo", "opened"]}},
}
ALL = {"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}, "sampling": {}}
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
URL = {"mode": "url", "message": "sign in", "elicitationId": "e", "url": "https://example.com/in"}
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "roots/list": {"roots": [{"uri": "file:///tmp/x", "name": "x"}]},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
}
PREFIX = "io.modelcontextprotocol/"


class Asked(rawmcp.RawServer):
    """A client that answers a server's requests: answers[method] is a result, or a function of the message that returns a
    result, an error, or None for no answer."""

    def __init__(self, *args, **rest):
        self.answers = dict(ANSWERS)
        self.asked = []
        super().__init__(*args, **rest)

    def read(self):
        threading.Thread(target=self.work, daemon=True).start()
        super().read()

    def work(self):
        while True:
            message = self.unasked.get()
            if "id" not in message or "method" not in message:
                continue
            self.asked.append(message)
            answer = self.answers.get(message["method"])
            answer = answer(message) if callable(answer) else answer
            if answer is not None:
                kind = "error" if "code" in answer else "result"
                self.send({"jsonrpc": "2.0", "id": message["id"], kind: answer})

    def start(self, capabilities, version="2025-11-25"):
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "raw", "version": "0"}}
        self.ask("initialize", params)
        self.notify("notifications/initialized")


class Legacy(rawmcp.ServerCase):
    SERVERS = SERVERS
    CAPABILITIES = ALL

    @classmethod
    def setUpClass(cls):
        made = rawmcp.RawServer
        rawmcp.RawServer = Asked
        Asked.initialize = lambda self: self.start(cls.CAPABILITIES)
        try:
            super().setUpClass()
        finally:
            rawmcp.RawServer = made

    def setUp(self):
        super().setUp()
        self.server.answers = dict(ANSWERS)
        self.server.asked.clear()

    def raised(self, call):
        code = f"try:\n    r = await {call}\nexcept ToolError as e:\n    r = [type(e).__name__, str(e), getattr(e, 'url', None)]\nr"
        return self.value(code, timeout=60)

    def asked(self, method):
        return [message for message in self.server.asked if message["method"] == method]


class Client(Legacy):
    def test_elicitation_by_form(self):
        self.assertIn("Name: Ada", str(self.value("await tools['trigger-elicitation-request']()", timeout=60)))
        message = self.asked("elicitation/create")[0]["params"]
        self.assertTrue(message["message"].startswith("everything: "))
        self.assertEqual(message["requestedSchema"]["required"], ["name"])
        self.server.answers["elicitation/create"] = {"action": "decline"}
        self.assertIn("declined", str(self.value("await tools['trigger-elicitation-request']()")))

    def test_elicitation_by_url(self):
        code = "await tools['trigger-url-elicitation'](url='https://example.com/x', errorPath={})"
        self.assertIn("completed the URL elicitation", str(self.value(code.format(False), timeout=60)))
        self.assertEqual(self.asked("elicitation/create")[0]["params"]["url"], "https://example.com/x")
        kind, text, url = self.raised("tools['trigger-url-elicitation'](url='https://example.com/y', errorPath=True)")
        self.assertEqual((kind, url), ("ToolInputRequired", self.asked("elicitation/create")[1]["params"]["url"]))
        self.assertIn("call again when that is done", text)

    def done(self, before, *ids, server="mcp_faulty"):
        """Returns the ids that the client receives when a server notifies that these pages are completed."""
        self.value(f"await {server}.opened(ids={list(ids)})")
        self.server.ask("ping")
        return [n["params"] for n in self.server.notes[before:] if n["method"] == "notifications/elicitation/complete"]

    def test_an_address_that_was_opened(self):
        before = len(self.server.notes)
        self.assertEqual(self.done(before, "e"), [])  # not requested yet
        self.assertEqual(self.value(f"(await mcp_faulty.ask(method='elicitation/create', params={URL}))['result']['action']"), "accept")
        known = self.asked("elicitation/create")[-1]["params"]["elicitationId"]
        self.assertEqual(known, "faulty/e")
        # Another server has not requested this page, and this server has requested no other page.
        self.assertEqual(self.done(before, "e", server="mcp_quiet"), [])
        self.assertEqual(self.done(before, "x", "", "e/", "e\0", "e" * 5000, "faulty/e"), [])
        self.assertEqual(self.done(before, "e", "e"), [{"elicitationId": known}])  # once
        # Also after an error that requires the page. Of many pages the oldest are forgotten.
        self.raised("mcp_faulty.need_url(url='https://example.com/z')")
        self.assertEqual(len(self.done(before, "e")), 2)
        for i in range(65):
            page = {**URL, "elicitationId": f"p{i}"}
            self.value(f"(await mcp_faulty.ask(method='elicitation/create', params={page}))['result']")
        self.assertEqual([p["elicitationId"] for p in self.done(before, "p0", "p1", "p64")[2:]], ["faulty/p1", "faulty/p64"])

    def test_roots_that_change(self):
        def seen():
            return self.value("await mcp_faulty.roots_seen()")

        self.value("await mcp_quiet.echo()")
        self.server.notify("notifications/roots/list_changed")
        time.sleep(0.3)
        self.assertEqual(seen(), {"seen": [], "changes": 0})  # the server has not requested the roots
        self.value("await mcp_faulty.ask(method='roots/list')")
        self.server.answers["roots/list"] = {"roots": [{"uri": "file:///new"}]}
        for _ in range(500):
            self.server.notify("notifications/roots/list_changed")
        self.assertTrue(harness.wait_until(lambda: seen()["seen"]))
        self.assertEqual(seen()["seen"][-1], {"roots": [{"uri": "file:///new"}]})
        self.assertLess(seen()["changes"], 20)

    def test_an_address_that_is_none(self):
        kind, text, url = self.raised("tools['trigger-url-elicitation'](url='javascript:alert(1)')")
        self.assertIn("https address", text)
        self.assertEqual(self.server.asked, [])

    def test_sampling_and_roots(self):
        self.assertIn("forty-two", str(self.value("await tools['trigger-sampling-request'](prompt='hi')", timeout=60)))
        self.assertIn("file:///tmp/x", self.value("await tools['get-roots-list']()"))

    def test_an_answer_that_does_not_fit(self):
        for answer in ({"action": "accept", "content": {"name": 7}}, {"action": "accept"}, {"action": 7}, {"code": -1, "message": "no"}):
            self.server.answers["elicitation/create"] = answer
            answered = self.value(f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['error']['message']")
            self.assertRegex(answered, "fit|content|action|no")

    def test_who_asks_when_the_call_has_ended(self):
        self.server.answers["elicitation/create"] = lambda message: None
        self.value(f"await mcp_faulty.ask_and_withdraw(method='elicitation/create', params={FORM})")
        self.assertTrue(harness.wait_until(lambda: self.asked("elicitation/create")))
        cancelled = [n for n in self.server.notes if n["method"] == "notifications/cancelled"]
        self.assertEqual(cancelled[-1]["params"]["requestId"], self.asked("elicitation/create")[-1]["id"])
        # An unexpected answer to it, and answers to requests that were never sent, are ignored.
        for identifier in (cancelled[-1]["params"]["requestId"], 10**6, "1", None):
            self.server.send({"jsonrpc": "2.0", "id": identifier, "result": ANSWERS["elicitation/create"]})
        self.assertEqual(self.value("1 + 1"), 2)

    def test_a_cancelled_call_asks_nobody(self):
        waiting = threading.Event()
        self.server.answers["elicitation/create"] = lambda message: waiting.set()
        call = self.server.start_call(f"await mcp_faulty.ask(method='elicitation/create', params={FORM})", session=self.session)
        self.assertTrue(waiting.wait(harness.PATIENCE))
        before = len(self.server.notes)
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: any(n["method"] == "notifications/cancelled" for n in self.server.notes[before:])))

    def test_time_stands_still(self):
        def answer(message):
            time.sleep(2.5)
            return ANSWERS["elicitation/create"]

        self.server.answers["elicitation/create"] = answer
        code = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['result']['action']"
        self.assertEqual(self.value(code, timeout=2), "accept")
        cell = self.cell("await mcp_faulty.hang()", timeout=1)
        self.assertEqual(cell["status"], "timeout")

    def test_a_server_that_asks_for_ever(self):
        code = f"(await mcp_faulty.ask_often(times=40, method='elicitation/create', params={FORM}))['answers']"
        answers = self.value(code, timeout=60)
        self.assertEqual((len(self.asked("elicitation/create")), answers[-1]), (16, "the call has sent too many requests"))

    def test_a_server_that_asks_for_much(self):
        large = {**FORM, "message": "x" * 1000000}
        code = f"(await mcp_faulty.ask(method='elicitation/create', params={{**{FORM}, 'message': 'x' * 1000000}}))['error']['message']"
        self.assertEqual(self.value(code), "the message is longer than 8192 bytes")
        self.assertEqual(self.server.asked, [])

    def test_two_cells_at_once(self):
        started = threading.Event()
        hold = self.server.start_call("await mcp_faulty.hold()", session=self.session + "-2", timeout=30)
        self.wait_running(self.session + "-2")
        code = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['error']['message']"
        self.assertTrue(harness.wait_until(lambda: "several clients" in str(self.cell(code).get("value"))))
        self.value("await mcp_faulty.release()")
        hold.result(harness.PATIENCE)

    def test_a_server_that_ends(self):
        self.server.answers["elicitation/create"] = lambda message: None
        before = len(self.server.notes)
        asking = self.server.start_call(
            f"try:\n    await mcp_faulty.ask(method='elicitation/create', params={FORM})\nexcept ToolError as e:\n    print(type(e).__name__)",
            session=self.session,
        )
        self.assertTrue(harness.wait_until(lambda: self.asked("elicitation/create")))
        # The session stands still: another one ends the server.
        killed = self.server.cell("try:\n    await mcp_faulty.kill()\nexcept ToolError as e:\n    print(type(e).__name__)", session=self.session + "-2")
        self.assertIn("ToolUnavailable", str(killed))
        self.assertIn("ToolUnavailable", str(asking.result(harness.PATIENCE)))
        self.assertTrue(any(n["method"] == "notifications/cancelled" for n in self.server.notes[before:]))
        self.assertEqual(self.value("await mcp_faulty.echo(n=1)"), {"n": 1})

    def test_ping(self):
        self.assertEqual(self.value("(await mcp_faulty.ask(method='ping'))['result']"), {})

    def test_a_task(self):
        self.assertIn("Research Report", self.value("await tools['simulate-research-query'](topic='bees')", timeout=60))

    def test_progress_and_log(self):
        self.server.ask("logging/setLevel", {"level": "warning"})
        self.addCleanup(self.server.ask, "logging/setLevel", {"level": "emergency"})
        messages = [{"level": level, "logger": "l", "data": {"n": level}} for level in ("debug", "info", "warning", "error")]
        progress = [{"progress": 3, "total": 10, "message": "reading\u202e"}]
        before = len(self.server.notes)
        code = f"await mcp_faulty.talk(progress={progress}, messages={messages})\nawait asyncio.sleep(1.5)\nNone"
        call = self.server.start_call(code, meta={"progressToken": "t"}, session=self.session)
        call.result(harness.PATIENCE)
        notes = self.server.notes[before:]
        logged = [n["params"] for n in notes if n["method"] == "notifications/message"]
        self.assertEqual([(p["level"], p["logger"], p["data"]) for p in logged],
                         [("warning", "faulty/l", {"n": "warning"}), ("error", "faulty/l", {"n": "error"})])
        texts = [n["params"]["message"] for n in notes if n["method"] == "notifications/progress"]
        self.assertTrue(any("faulty: 3 of 10, reading " in text for text in texts), texts)

    def test_long_running_operation(self):
        before = len(self.server.notes)
        code = "await tools['trigger-long-running-operation'](duration=2, steps=4)"
        self.server.start_call(code, meta={"progressToken": 7}, session=self.session).result(harness.PATIENCE)
        texts = [n["params"]["message"] for n in self.server.notes[before:] if n["method"] == "notifications/progress"]
        self.assertTrue(any("everything: " in text and " of 4" in text for text in texts), texts)

    # ---- resources and prompts ----

    def test_resources_and_prompts(self):
        code = "r = await mcp_everything.resources()\nf = await mcp_everything.read_resource(r[0])\n[len(r), f.mime_type, f.text[:7]]"
        count, kind, text = self.value(code)
        self.assertGreater(count, 3)
        self.assertEqual((kind, bool(text)), ("text/markdown", True))
        self.assertIn("simple-prompt", self.value("[p['name'] for p in await mcp_everything.prompts()]"))
        prompt = self.value("await mcp_everything.get_prompt('args-prompt', city='Paris')")
        self.assertIn("Paris", prompt["messages"][0]["content"])

    def test_pages_bytes_and_errors(self):
        self.assertEqual(self.value("[r['uri'] for r in await mcp_faulty.resources()]"), ["test://r/0", "test://r/1", "test://r/2"])
        self.assertEqual(self.value("[len(f) for f in await mcp_faulty.read_resource('test://bytes')]"), [3, 5])
        self.assertEqual(self.value("len(mcp_faulty.read_resource.sync('test://big'))"), 20 << 20)
        self.assertEqual(self.raised("mcp_faulty.read_resource('test://none')")[:2], ["ToolProtocolError", "Resource not found"])
        self.assertEqual(self.raised("mcp_faulty.read_resource('test://odd')")[0], "ToolProtocolError")
        self.assertEqual(self.raised("mcp_modern.resources()")[:2], ["ToolNotFound", 'server "modern" has no resources'])
        self.assertIn('does not allow tool "prompts/list"', self.raised("mcp_quiet.prompts()")[1])
        calls = self.cell("await mcp_faulty.read_resource('test://r/7')")["tool_calls"]
        self.assertEqual([(c["server"], c["tool"], c["ok"]) for c in calls], [("faulty", "resources/read", True)])

    def test_no_other_method_can_be_called(self):
        code = """
from cloister.frames import CALL
import cloister.calls
channel = tools._channel
str(channel.call(CALL, b'{"server":"faulty","method":"logging/setLevel","arguments":{"level":"debug"}}'))"""
        self.assertIn("logging/setLevel is not a method that code can call", self.value(code))


class Nobody(Legacy):
    """A client that declares nothing."""

    CAPABILITIES = {}

    def test_input(self):
        kind, text, url = self.raised(f"mcp_faulty.ask(method='elicitation/create', params={FORM})")
        self.assertEqual((kind, url), ("ToolInputRequired", None))
        self.assertIn("faulty: who?", text)
        kind, text, url = self.raised(f"mcp_faulty.ask(method='elicitation/create', params={URL})")
        self.assertEqual((kind, url), ("ToolInputRequired", URL["url"]))
        self.assertIn(URL["url"], text)
        self.assertEqual(self.raised("mcp_faulty.need_url(url='https://example.com/z')")[2], "https://example.com/z")
        self.assertEqual(self.server.asked, [])

    def test_what_is_not_declared(self):
        for method in ("roots/list", "sampling/createMessage"):
            self.assertEqual(self.value(f"(await mcp_faulty.ask(method='{method}'))['error']['code']"), -32602 if "sampling" in method else -32601)
        self.assertEqual(self.value("(await mcp_faulty.capabilities())['capabilities']"), {})
        # Until the server has started, its list may come from the cache, written for a client with more capabilities.
        self.value("await mcp_everything.echo(message='x')", timeout=60)
        self.assertTrue(harness.wait_until(lambda: "trigger-elicitation-request" not in self.value("sorted(mcp_everything)")))
        self.assertIn("echo", self.value("sorted(mcp_everything)"))


class Modern(Legacy):
    """A client of 2026-07-28 receives the requests in the result."""

    CAPABILITIES = {}

    def meta(self, capabilities=ALL, **more):
        return {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": capabilities, **more}

    def modern(self, code, capabilities=ALL, params=None, **arguments):
        params = {"name": "run_python", "arguments": {"code": code, "session": self.session, **arguments}, "_meta": self.meta(capabilities), **(params or {})}
        return self.server.ask("tools/call", params, harness.PATIENCE * 2)

    def answered(self, code, result, **more):
        responses = {key: ANSWERS[request["method"]] for key, request in result["inputRequests"].items()}
        return self.modern(code, params={"requestState": result["requestState"], "inputResponses": responses}, **more)

    CODE = f"x = (await mcp_faulty.ask(method='elicitation/create', params={FORM}))['result']\nx"

    def test_asks_and_goes_on(self):
        result = self.modern("runs = globals().get('runs', 0) + 1\n" + self.CODE)
        self.assertEqual(result["resultType"], "input_required")
        (key, request), = result["inputRequests"].items()
        self.assertEqual((request["method"], request["params"]["message"]), ("elicitation/create", "faulty: who?"))
        last = self.answered("runs = globals().get('runs', 0) + 1\n" + self.CODE, result)
        self.assertEqual((last["resultType"], last["structuredContent"]["value"]["json"]), ("complete", ANSWERS["elicitation/create"]))
        self.assertEqual(self.value("runs"), 1)

    def test_a_modern_server(self):
        requests = {"a": {"method": "elicitation/create", "params": FORM}, "b": {"method": "roots/list"}}
        code = f"await mcp_modern.input(requests={requests})"
        result = self.modern(code)
        self.assertEqual(sorted(r["method"] for r in result["inputRequests"].values()), ["elicitation/create", "roots/list"])
        last = self.answered(code, result)["structuredContent"]["value"]["json"]
        self.assertEqual(last["responses"], {"a": ANSWERS["elicitation/create"], "b": ANSWERS["roots/list"]})

    def test_a_task_of_a_modern_server(self):
        ask = {"k": {"method": "elicitation/create", "params": FORM}}
        code = f"await mcp_modern.modern_job(polls=2, ask={ask})"
        last = self.answered(code, self.modern(code))["structuredContent"]["value"]["json"]
        self.assertIn(["tasks/update", "m", {"k": ANSWERS["elicitation/create"]}], last["tasks"])

    def test_what_is_not_answered_is_asked_again(self):
        result = self.modern(self.CODE)
        again = self.modern(self.CODE, params={"requestState": result["requestState"], "inputResponses": {"other": {}}})
        self.assertEqual((again["resultType"], again["inputRequests"]), ("input_required", result["inputRequests"]))
        self.assertNotEqual(again["requestState"], result["requestState"])
        self.assertEqual(self.answered(self.CODE, again)["resultType"], "complete")

    def test_states_of_others(self):
        result = self.modern(self.CODE)
        for wrong in ("", "x" * 32, result["requestState"][:-1]):
            with self.assertRaises(rawmcp.RpcError) as caught:
                self.modern(self.CODE, params={"requestState": wrong, "inputResponses": {}})
            self.assertEqual(caught.exception.code, -32602)
        with self.assertRaises(rawmcp.RpcError) as caught:
            self.answered(self.CODE + "\n", result)
        self.assertIn("other arguments", str(caught.exception))
        self.assertEqual(self.answered(self.CODE, result)["resultType"], "complete")
        with self.assertRaises(rawmcp.RpcError):
            self.answered(self.CODE, result)

    def test_a_client_that_cannot(self):
        result = self.modern(self.CODE, capabilities={})
        self.assertEqual(result["resultType"], "complete")
        self.assertEqual(result["structuredContent"]["error"]["type"], "cloister.ToolInputRequired")


class References(rawmcp.ServerCase):
    """A schema's $ref is never loaded."""

    @classmethod
    def servers(cls):
        import http.server

        cls.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                cls.seen.append(self.path)
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_):
                pass

        cls.web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.web.serve_forever, daemon=True).start()
        far = f"http://127.0.0.1:{cls.web.server_port}/schema"
        schemas = os.path.join(cls.class_dir, "schemas.json")
        with open(schemas, "w", encoding="utf-8") as f:
            json.dump({"echo": {"type": "object", "properties": {"n": {"$ref": far}}, "allOf": [{"$ref": far + "#/x"}]}}, f)
        os.chmod(schemas, 0o644)
        return {"far": {"command": harness.PYTHON, "args": [FAULTY, "--schemas", schemas]}}

    @classmethod
    def tearDownClass(cls):
        cls.web.shutdown()
        cls.web.server_close()
        super().tearDownClass()

    def test_reference_to_a_web_server(self):
        import urllib.error
        import urllib.request

        self.assertEqual(self.value("await mcp_far.echo(n=1)"), {"n": 1})
        self.assertIn("echo", self.value("_schema('far.echo')['signature']"))
        self.assertEqual(self.seen, [])
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.web.server_port}/control")
        self.assertEqual(self.seen, ["/control"])


if __name__ == "__main__":
    harness.main()
