"""Published tools, prompts, resources and templates: config in, MCP out, in both eras."""

import json
import os
import time

import harness
import rawmcp
from test_serve import Serve

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAN_ALL = {"elicitation": {}, "sampling": {}, "roots": {}}
FORM = '{"type": "object", "properties": {"name": {"type": "string"}}}'
OBJECT = {"type": "object"}

TOOLS = {
    "greet": {
        "description": "Greets",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 2000}, "times": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "code": ["async def main(name, times=1):", "    await asyncio.sleep(0)", "    return ('hello ' + name + ' ') * times"],
    },
    "measure": {
        "description": "Measures",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "outputSchema": {"type": "object", "properties": {"length": {"type": "integer"}}, "required": ["length"]},
        "code": "def main(text=''):\n    return {'length': len(text) if text else 'none'}\n",
    },
    "number": {
        "description": "Gives back",
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "code": "def main(n):\n    return {'n': n}\n",
    },
    "plain": {"description": "No main()", "code": "print('printed')\nif __name__ == '__main__':\n    print('as a script')\narguments"},
    "parts": {
        "description": "Emits",
        "code": "import base64\nemit('one')\ndisplay(base64.b64decode('" + PNG + "'))\n"
        "emit({'type': 'resource', 'resource': {'uri': 'x:y', 'text': 't'}})\n'last'",
    },
    "malformed": {"description": "Emits nonsense", "code": "emit({'type': 'image', 'data': '!', 'mimeType': 'image/png'})\n1"},
    "report": {
        "description": "Reports",
        "code": ["for i in (0, 50, 20, 100):", "    progress(i, 100, 'at %d' % i)", "log('quiet', 'debug')", "log({'loud': 1}, 'error')", "1"],
    },
    "counter": {"description": "Counts", "code": "n = globals().get('n', 0) + 1\nn"},
    "fail": {"description": "Fails", "code": "raise ValueError('told')"},
    "quit": {"description": "Ends", "code": "import os\nos._exit(3)"},
    "slow": {"description": "Too slow", "timeout": 0.3, "code": "await asyncio.sleep(60)"},
    "itself": {"description": "Calls itself", "code": "await tools['itself']()"},
    "big": {"description": "Returns too much", "code": "'x' * (5 << 20)"},
    "spare": {"description": "Hidden at first", "hidden": True, "code": "'spare'"},
    "show": {"description": "Shows", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
             "code": "def main(name): show(name)"},
    "hide": {"description": "Hides", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
             "code": "def main(name): hide(name)"},
    "touch": {"description": "Changes a resource", "code": "updated('notes://all')\nupdated('notes://no/such')"},
    "ask": {"description": "Asks", "code": f"n = 1\na = await elicit('Who?', {FORM}, key='who')\na"},
    "both": {
        "description": "Asks two questions",
        "code": f"a, b = await asyncio.gather(elicit('Who?', {FORM}, key='who'), roots(key='where'))\n[a['content']['name'], b[0]['uri']]",
    },
    "model": {"description": "Asks a model", "code": "(await sample('Say hi', 10))['content']['text']"},
    "twice": {"description": "One key, two questions", "code": f"await asyncio.gather(elicit('A', {FORM}, key='k'), elicit('B', {FORM}, key='k'))"},
    "same": {"description": "One question twice", "code": f"a, b = await asyncio.gather(elicit('A', {FORM}, key='k'), elicit('A', {FORM}, key='k'))\na == b"},
    "endless": {"description": "Asks for ever", "code": f"for i in range(99):\n    await elicit('More?', {FORM}, key='k%d' % i)"},
    "stubborn": {"description": "Catches all", "code": f"try:\n    await elicit('A', {FORM}, key='k')\nexcept BaseException:\n    pass\n'done'"},
    "nested": {"description": "Asks in a loop of its own", "code": f"async def f():\n    return await elicit('A', {FORM}, key='k')\nasyncio.run(f())['action']"},
    "cando": {"description": "Looks at the client", "code": f"try:\n    await elicit('A', {FORM})\nexcept ClientLacks as lack:\n    out = lack.capability\nout"},
}
PROMPTS = {
    "review": {
        "description": "Reviews",
        "arguments": [{"name": "language", "required": True}, {"name": "style"}],
        "complete": {"language": ["python", "pascal", "c"]},
        "code": "def main(language, style='plain'):\n    return ['Review this ' + language, {'role': 'assistant', 'content': style}]",
    },
    "bad": {"description": "Returns nonsense", "code": "[{'role': 'root', 'content': 'x'}]"},
    "who": {"description": "Asks", "code": f"'For ' + (await elicit('Who?', {FORM}, key='who'))['content']['name']"},
}
RESOURCES = {
    "notes://all": {"mimeType": "text/markdown", "code": "'# notes'"},
    "notes://picture": {"name": "picture", "mimeType": "image/png", "code": f"import base64\nbase64.b64decode('{PNG}')"},
    "notes://damaged": {"name": "damaged", "mimeType": "image/png", "code": "b'\\x89PNG'"},
    "notes://broken": {"code": "1/0"},
}
TEMPLATES = {
    "notes://by/{user}/{+path}": {
        "name": "note",
        "code": "def main(user, path):\n    return json.dumps([user, path, uri])\ndef complete(name, value, context):\n"
        "    return [context.get('user', '') + value + c for c in 'abc']",
        "complete": True,
    },
}
PUBLISH = {"tools": TOOLS, "prompts": PROMPTS, "resources": RESOURCES, "templates": TEMPLATES}


def texts(result):
    return [block.get("text") for block in result["content"]]


class Client:
    """A client of one era over stdio."""

    def __init__(self, case, modern, can=None, publish=None, **config):
        self.case, self.modern, self.can = case, modern, CAN_ALL if can is None else can
        self.path = case.config(publish=publish or PUBLISH, **config)
        self.server = rawmcp.RawServer("--config", self.path)
        case.addCleanup(self.server.close)
        if not modern:
            info = {"name": "raw", "version": "0"}
            self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": self.can, "clientInfo": info})
            self.server.notify("notifications/initialized")

    def request(self, method, params=None, meta=None):
        params = {**(params or {}), "_meta": {**(meta or {})}}
        if self.modern:
            params["_meta"].update({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": self.can})
        return self.server.request(method, params)

    def ask(self, method, params=None, meta=None):
        return self.request(method, params, meta).result()

    def call(self, name, /, meta=None, more=None, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments, **(more or {})}, meta)

    def refused(self, method, params, code, text=""):
        with self.case.assertRaises(rawmcp.RpcError) as caught:
            self.ask(method, params)
        self.case.assertEqual(caught.exception.code, code)
        self.case.assertIn(text, str(caught.exception))
        return caught.exception

    def questions(self, n):
        """n requests of the server, by method."""
        asked = [self.server.unasked.get(timeout=harness.PATIENCE) for _ in range(n)]
        self.case.assertTrue(all("id" in message for message in asked), asked)
        return {message["method"]: message for message in asked}

    def answer(self, question, result=None, error=None):
        said = {"error": error} if error else {"result": result}
        self.server.send({"jsonrpc": "2.0", "id": question["id"], **said})

    def noted(self, method):
        return [m.get("params") for m in list(self.server.notes) if m.get("method") == method]


class Tools(harness.Case):
    MODERN = True

    def setUp(self):
        super().setUp()
        self.client = Client(self, self.MODERN)
        self.call = self.client.call

    def test_list(self):
        listed = self.client.ask("tools/list")["tools"]
        names = [tool["name"] for tool in listed]
        self.assertEqual(names, ["run_python", *(name for name in TOOLS if name != "spare")])
        self.assertEqual(listed[1]["inputSchema"], TOOLS["greet"]["inputSchema"])
        self.assertEqual(listed[2]["outputSchema"], TOOLS["measure"]["outputSchema"])
        self.assertNotIn("code", listed[1])
        self.assertEqual(listed, self.client.ask("tools/list")["tools"])

    def test_arguments_and_results(self):
        self.assertEqual(texts(self.call("greet", name="you", times=2)), ["hello you hello you "])
        self.assertFalse(self.call("greet", name="you")["isError"])
        measured = self.call("measure", text="four")
        self.assertEqual((measured["structuredContent"], json.loads(texts(measured)[0])), ({"length": 4}, {"length": 4}))
        self.assertEqual(texts(self.call("plain", x=[1, None, {"é": 1.5}])), ["printed\n", '{"x":[1,null,{"é":1.5}]}'])
        parts = self.call("parts")["content"]
        self.assertEqual([p["type"] for p in parts], ["text", "image", "resource", "text"])
        # Each call has its own interpreter, and run_python has another one.
        self.assertEqual([texts(self.call("counter")) for _ in range(2)], [["1"], ["1"]])
        self.assertTrue(self.call("run_python", code="n")["isError"])

    def test_what_does_not_fit(self):
        for arguments, text in (({}, "name"), ({"name": 5}, "string"), ({"name": "a", "zeal": 1}, "zeal"), ({"name": "a" * 2001}, "2001")):
            refused = self.call("greet", **arguments)
            self.assertTrue(refused["isError"], arguments)
            self.assertIn(text, texts(refused)[0])
        wrong = self.call("measure")
        self.assertTrue(wrong["isError"])
        self.assertIn("outputSchema", texts(wrong)[-1])
        self.assertNotIn("structuredContent", wrong)
        # Clients in JavaScript would round it: it is in the text only.
        self.assertEqual(self.call("number", n=2**53 - 1)["structuredContent"], {"n": 2**53 - 1})
        large = self.call("number", n=2**53)
        self.assertTrue(large["isError"])
        self.assertNotIn("structuredContent", large)
        self.assertEqual(texts(large)[0], '{"n":9007199254740992}')
        self.assertIn("as a string", texts(large)[1])
        self.client.refused("tools/call", {"name": "greet", "arguments": [1]}, -32602)
        self.client.refused("tools/call", {"name": "spare"}, -32602, "unknown tool")
        self.client.refused("tools/call", {"name": "../greet"}, -32602, "unknown tool")

    def test_arguments_are_no_code(self):
        for text in ('"); import os; os._exit(9) #', "'''\n1/0\n", "{name}", "\0", "\\", "</tool>", "\u2028"):
            self.assertEqual(texts(self.call("greet", name=text)), ["hello " + text + " "])

    def test_failures(self):
        for name, text in (("fail", "ValueError: told"), ("quit", "exit"), ("slow", "timeout"), ("big", "bytes"), ("malformed", ""),
                           ("itself", "no tool")):
            failed = self.call(name)
            self.assertTrue(failed["isError"], failed)
            self.assertIn(text, texts(failed)[-1], name)
        self.assertFalse(self.call("counter")["isError"])

    def test_reports(self):
        self.call("report", meta={"progressToken": "t", PREFIX + "logLevel": "error"} if self.MODERN else {"progressToken": "t"})
        told = [(p["progress"], p["total"], p["message"]) for p in self.client.noted("notifications/progress")]
        self.assertEqual(told, [(0, 100, "at 0"), (50, 100, "at 50"), (100, 100, "at 100")])
        logged = [(p["level"], p["data"]) for p in self.client.noted("notifications/message")]
        self.assertEqual(logged, [("error", {"loud": 1})] if self.MODERN else [])

    def test_no_sandbox_stays(self):
        def live():
            done = self.run_cloister("sessions", "--json", "--server", str(self.client.server.process.pid))
            return [session["name"] for session in harness.message_of(done.stdout)[0]["sessions"]]

        self.call("run_python", code="1", session="kept")
        for name in ("counter", "fail", "slow"):
            self.call(name)
        gone = self.client.request("tools/call", {"name": "slow", "arguments": {}})
        self.client.server.notify("notifications/cancelled", requestId=gone.id)
        self.assertTrue(harness.wait_until(lambda: live() == ["kept"]), live())

    def test_lists_changed_by_code(self):
        if self.MODERN:
            self.client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        self.client.ask("tools/list")
        self.call("show", name="spare")
        self.assertEqual(texts(self.call("spare")), ["spare"])
        self.assertIn("spare", [tool["name"] for tool in self.client.ask("tools/list")["tools"]])
        self.assertEqual(len(self.client.noted("notifications/tools/list_changed")), 1)
        self.call("show", name="spare")  # it is shown already
        self.call("hide", name="run_python")
        self.call("hide", name="no/such")
        self.call("hide", name="greet")
        self.client.refused("tools/call", {"name": "greet", "arguments": {"name": "x"}}, -32602)
        self.assertEqual(len(self.client.noted("notifications/tools/list_changed")), 2)
        self.assertFalse(self.call("run_python", code="1")["isError"])


class LegacyTools(Tools):
    MODERN = False


class Others(harness.Case):
    """Prompts, resources, templates, completion."""

    MODERN = True

    def setUp(self):
        super().setUp()
        self.client = Client(self, self.MODERN)

    def read(self, uri):
        return self.client.ask("resources/read", {"uri": uri})["contents"]

    def test_prompts(self):
        listed = self.client.ask("prompts/list")["prompts"]
        self.assertEqual([p["name"] for p in listed], list(PROMPTS))
        self.assertEqual(listed[0]["arguments"], PROMPTS["review"]["arguments"])
        got = self.client.ask("prompts/get", {"name": "review", "arguments": {"language": "c"}})["messages"]
        self.assertEqual([(m["role"], m["content"]["text"]) for m in got], [("user", "Review this c"), ("assistant", "plain")])
        for params in ({"name": "no"}, {"name": "../../etc/passwd"}, {"name": "review"}, {"name": "review", "arguments": {"language": 1}}, {}):
            self.client.refused("prompts/get", params, -32602)
        self.client.refused("prompts/get", {"name": "bad"}, -32603, "form")

    def test_resources(self):
        listed = self.client.ask("resources/list")["resources"]
        self.assertEqual([(r["uri"], r["name"]) for r in listed], [(u, r.get("name", u)) for u, r in RESOURCES.items()])
        self.assertEqual(self.read("notes://all"), [{"uri": "notes://all", "mimeType": "text/markdown", "text": "# notes"}])
        self.assertEqual(self.read("notes://picture"), [{"uri": "notes://picture", "mimeType": "image/png", "blob": PNG}])
        self.assertEqual(self.read("notes://damaged"), [{"uri": "notes://damaged", "mimeType": "application/octet-stream", "blob": "iVBORw=="}])
        self.client.refused("resources/read", {"uri": "notes://broken"}, -32603, "ZeroDivisionError")
        self.client.refused("resources/read", {"uri": "notes://other"}, -32602 if self.MODERN else -32002)

    def test_templates(self):
        listed = self.client.ask("resources/templates/list")["resourceTemplates"]
        self.assertEqual(listed[-1], {"uriTemplate": "notes://by/{user}/{+path}", "name": "note"})
        uri = "notes://by/me%20too/a/b.txt"
        self.assertEqual(json.loads(self.read(uri)[0]["text"]), ["me too", "a/b.txt", uri])
        for path in ("me/../x", "me/a/..", "me/%2e%2e/x", "me/a%2F..%2Fb", "..", "../x", "%2e%2e/x", "a%2Fb/", "me/", "me//x", "me/a//b",
                     "me/%00", "me/%ff", "me/%zz", "me/a b", "me/" + "x" * 300):
            self.client.refused("resources/read", {"uri": "notes://by/" + path}, -32602 if self.MODERN else -32002)

    def test_completion(self):
        def complete(ref, value, name="language", **more):
            return self.client.ask("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}, **more})["completion"]

        review = {"type": "ref/prompt", "name": "review"}
        self.assertEqual(complete(review, "P"), {"values": ["python", "pascal"], "total": 2, "hasMore": False})
        self.assertEqual(complete(review, "", "style")["values"], [])
        note = {"type": "ref/resource", "uri": "notes://by/{user}/{+path}"}
        got = complete(note, "x", "path", context={"arguments": {"user": "me"}})
        self.assertEqual(got, {"values": ["mexa", "mexb", "mexc"], "total": 3, "hasMore": False})
        for ref in ({"type": "ref/prompt", "name": "no"}, {"type": "ref/resource", "uri": "notes://no"}, {}, 5):
            self.client.refused("completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}}, -32602)
        self.client.refused("completion/complete", {"ref": review, "argument": {"name": "a"}}, -32602)

    def test_subscriptions(self):
        if self.MODERN:
            wanted = {"resourceSubscriptions": ["notes://all", "notes://no"], "promptsListChanged": True}
            self.client.request("subscriptions/listen", {"notifications": wanted})
            self.assertTrue(harness.wait_until(lambda: self.client.noted("notifications/subscriptions/acknowledged")))
            known = self.client.noted("notifications/subscriptions/acknowledged")[0]["notifications"]
            self.assertEqual(known, {"resourceSubscriptions": ["notes://all"], "promptsListChanged": True})
        else:
            self.client.ask("resources/subscribe", {"uri": "notes://all"})
            self.client.ask("prompts/list")
            self.client.refused("resources/subscribe", {"uri": "notes://no"}, -32002)
        self.client.call("touch")
        told = self.client.noted("notifications/resources/updated")
        self.assertEqual([p["uri"] for p in told], ["notes://all"])
        # Other prompts in the config.
        with open(self.client.path, encoding="utf-8") as f:
            config = json.load(f)
        config["publish"]["prompts"] = {"new": {"description": "New", "code": "'new'"}}
        self.config(**{"publish": config["publish"]})
        self.assertTrue(harness.wait_until(lambda: self.client.noted("notifications/prompts/list_changed")))
        self.assertEqual([p["name"] for p in self.client.ask("prompts/list")["prompts"]], ["new"])


class LegacyOthers(Others):
    MODERN = False


class ModernQuestions(harness.Case):
    def setUp(self):
        super().setUp()
        self.client = Client(self, True)

    def ask(self, name, /, answers=None, state=None, **arguments):
        more = {}
        if answers is not None:
            more["inputResponses"] = answers
        if state is not None:
            more["requestState"] = state
        return self.client.call(name, more=more, **arguments)

    def refused(self, params, code=-32602, text=""):
        return self.client.refused("tools/call", params, code, text)

    def test_rounds(self):
        first = self.ask("both")
        self.assertEqual(first["resultType"], "input_required")
        self.assertEqual({k: q["method"] for k, q in first["inputRequests"].items()}, {"who": "elicitation/create", "where": "roots/list"})
        who = {"who": {"action": "accept", "content": {"name": "me"}}}
        # The client sends one of two answers: the other one is requested again.
        second = self.ask("both", who, first["requestState"])
        self.assertEqual(list(second["inputRequests"]), ["where"])
        self.assertNotEqual(first["requestState"], second["requestState"])
        done = self.ask("both", {"where": {"roots": [{"uri": "file:///r"}]}, "other": {"x": 1}}, second["requestState"])
        self.assertEqual((done["resultType"], texts(done)), ("complete", ['["me","file:///r"]']))
        for answer in ({"action": "maybe"}, {"content": {}}, {"action": 1}):
            self.refused({"name": "ask", "arguments": {}, "inputResponses": {"who": answer}}, text="inputResponses.who: action")
        self.assertEqual(json.loads(texts(self.ask("ask", {"who": {"action": "decline"}}))[0]), {"action": "decline"})

    def test_states_of_others(self):
        who = {"who": {"action": "accept", "content": {"name": "me"}}}
        state = self.ask("ask", x=1)["requestState"]
        self.assertNotIn("inputRequests", self.ask("ask", who, state, x=1))
        self.assertNotIn("inputRequests", self.ask("ask", who, state, x=1))  # sent again
        for name, arguments, given in (
            ("ask", {"x": 2}, state), ("ask", {}, state), ("both", {"x": 1}, state), ("ask", {"x": 1}, state + "x"),
            ("ask", {"x": 1}, state[:-1]), ("ask", {"x": 1}, ""), ("ask", {"x": 1}, 5), ("ask", {"x": 1}, "0" * 32),
        ):
            self.refused({"name": name, "arguments": arguments, "inputResponses": who, "requestState": given}, text="requestState")
        self.client.refused("prompts/get", {"name": "who", "requestState": state}, -32602)
        for answers in (None, [], 5, {"who": 5}, {"who": None}, {str(i): {} for i in range(65)}, {"who": {"x": "y" * 600000}}):
            self.refused({"name": "ask", "arguments": {}, "inputResponses": answers}, text="inputResponses")

    def test_states_are_bounded(self):
        states = [self.ask("ask", i=i)["requestState"] for i in range(66)]
        who = {"who": {"action": "cancel"}}
        self.refused({"name": "ask", "arguments": {"i": 0}, "inputResponses": who, "requestState": states[0]})
        self.assertEqual(self.ask("ask", who, states[65], i=65)["resultType"], "complete")
        large = self.ask("ask", x="x" * (1 << 20))
        self.assertTrue(large["isError"])

    def test_prompts_ask_too(self):
        asked = self.client.ask("prompts/get", {"name": "who"})
        self.assertEqual(asked["resultType"], "input_required")
        who = {"who": {"action": "accept", "content": {"name": "me"}}}
        got = self.client.ask("prompts/get", {"name": "who", "inputResponses": who, "requestState": asked["requestState"]})
        self.assertEqual(got["messages"][0]["content"]["text"], "For me")

    def test_endless(self):
        state, rounds = None, 0
        while True:
            got = self.ask("endless", {"k%d" % (rounds - 1): {"action": "decline"}} if rounds else None, state)
            if "requestState" not in got:
                break
            state, rounds = got["requestState"], rounds + 1
        self.assertEqual((got["isError"], rounds), (True, 15))

    def test_odd_code(self):
        twice = self.ask("twice")
        self.assertTrue(twice["isError"])
        self.assertIn("key", texts(twice)[0])
        self.assertEqual(list(self.ask("same")["inputRequests"]), ["k"])
        self.assertEqual(texts(self.ask("same", {"k": {"action": "decline"}})), ["true"])
        self.assertEqual(list(self.ask("stubborn")["inputRequests"]), ["k"])
        self.assertEqual(list(self.ask("nested")["inputRequests"]), ["k"])
        self.assertEqual(texts(self.ask("nested", {"k": {"action": "decline"}})), ["decline"])

    def test_capabilities(self):
        self.client.can = {"roots": {}}
        lacks = self.refused({"name": "model", "arguments": {}}, -32021)
        self.assertEqual(lacks.data, {"requiredCapabilities": {"sampling": {}}})
        self.assertEqual(self.refused({"name": "both", "arguments": {}}, -32021).data, {"requiredCapabilities": {"elicitation": {}}})
        self.assertEqual(texts(self.ask("cando")), ["elicitation"])
        self.client.can = {"elicitation": {"url": {}}}
        self.refused({"name": "ask", "arguments": {}}, -32021)
        self.client.can = {"elicitation": {"form": {}}}
        self.assertIn("inputRequests", self.ask("ask"))


class LegacyQuestions(harness.Case):
    def setUp(self):
        super().setUp()
        self.client = Client(self, False)

    def start(self, name, /, meta=None, **arguments):
        return self.client.request("tools/call", {"name": name, "arguments": arguments}, meta)

    def test_both_at_once(self):
        call = self.start("both")
        asked = self.client.questions(2)
        self.assertEqual(asked["elicitation/create"]["params"]["message"], "both: Who?")
        self.client.answer(asked["roots/list"], {"roots": [{"uri": "file:///r"}]})
        self.client.answer(asked["elicitation/create"], {"action": "accept", "content": {"name": "me"}})
        self.assertEqual(texts(call.result()), ['["me","file:///r"]'])

    def test_refusals(self):
        for result, error in ((None, {"code": -1, "message": "no"}), ([1], None), ("x", None)):
            call = self.start("ask")
            asked = self.client.questions(1)["elicitation/create"]
            self.client.answer(asked, result, error)
            self.assertTrue(call.result()["isError"])
            self.client.answer(asked, {"action": "accept"})  # too late: it is dropped
        call = self.start("ask")
        self.client.answer(self.client.questions(1)["elicitation/create"], {"action": "decline"})
        self.assertEqual(json.loads(texts(call.result())[0]), {"action": "decline"})

    def test_endless(self):
        call = self.start("endless")
        for _ in range(15):
            self.client.answer(self.client.questions(1)["elicitation/create"], {"action": "accept", "content": {}})
        self.assertTrue(call.result()["isError"])

    def test_cancelled(self):
        call = self.start("ask")
        asked = self.client.questions(1)["elicitation/create"]
        self.client.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: self.client.noted("notifications/cancelled")))
        self.assertEqual(self.client.noted("notifications/cancelled")[0]["requestId"], asked["id"])
        self.assertEqual(texts(self.client.call("counter")), ["1"])
        self.assertFalse(call.done())

    def test_capability(self):
        self.client = Client(self, False, {})
        lacks = self.client.call("ask")
        self.assertTrue(lacks["isError"])
        self.assertIn("elicitation", texts(lacks)[0])
        self.assertEqual(texts(self.client.call("cando")), ["elicitation"])


class TaskSupport(harness.Case):
    """execution.taskSupport, of both eras."""
    TOOLS = {name: {"description": name, "code": code, **({"execution": {"taskSupport": support}} if support else {})} for name, support, code in (
        ("plain", None, "'done'"), ("optional", "optional", "await asyncio.sleep(0.7)\n'done'"),
        ("forbidden", "forbidden", "await asyncio.sleep(0.7)\n'done'"), ("required", "required", "'done'"),
        ("asks", "required", f"(await elicit('Who?', {FORM}, key='who'))['content']['name']"))}
    DECLARES = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}

    def ended(self, client, task):
        got = []

        def poll():
            got.append(client.ask("tasks/get", {"taskId": task["taskId"]}))
            return got[-1]["status"] != "working"
        self.assertTrue(harness.wait_until(poll))
        return got[-1]

    def test_list(self):
        listed = {t["name"]: t["execution"]["taskSupport"] for t in Client(self, True, publish={"tools": self.TOOLS}).ask("tools/list")["tools"]}
        self.assertEqual(listed, {"run_python": "optional", "plain": "optional", "optional": "optional", "forbidden": "forbidden",
                                  "required": "required", "asks": "required"})

    def test_modern(self):
        client = Client(self, True, self.DECLARES, publish={"tools": self.TOOLS})
        # The first call waits for its sandbox, on a busy machine longer than a call may take that does not become a task.
        self.assertEqual((client.call("forbidden")["resultType"], client.call("plain")["resultType"]), ("complete", "complete"))
        self.assertEqual(client.call("optional")["resultType"], "task")
        made = client.call("required")
        self.assertEqual((made["resultType"], "content" in made), ("task", False))
        self.assertEqual(texts(self.ended(client, made)["result"]), ["done"])
        # A question comes before the task.
        asked = client.call("asks")
        self.assertEqual((asked["resultType"], list(asked["inputRequests"])), ("input_required", ["who"]))
        answers = {"who": {"action": "accept", "content": {"name": "me"}}}
        made = client.call("asks", more={"requestState": asked["requestState"], "inputResponses": answers})
        self.assertEqual((made["resultType"], "requestState" in made), ("task", False))
        self.assertEqual(texts(self.ended(client, made)["result"]), ["me"])

    def test_modern_undeclared(self):
        client = Client(self, True, {"elicitation": {}}, publish={"tools": self.TOOLS})
        self.assertEqual(texts(client.call("optional")), ["done"])
        client.refused("tools/call", {"name": "required", "arguments": {}}, -32021, "tasks")

    def test_legacy(self):
        client = Client(self, False, publish={"tools": self.TOOLS})
        self.assertEqual(texts(client.call("plain")), ["done"])
        client.refused("tools/call", {"name": "required", "arguments": {}}, -32601, "task")
        client.refused("tools/call", {"name": "forbidden", "arguments": {}, "task": {}}, -32601, "task")
        for name in ("plain", "required"):
            task = client.call(name, more={"task": {}})["task"]
            self.assertEqual(texts(client.ask("tasks/result", {"taskId": task["taskId"]})), ["done"])


class Files(harness.Case):
    def test_code_in_a_file(self):
        self.write("hello.py", "'first'")
        publish = {"tools": {
            "hello": {"description": "From a file", "file": "hello.py"},
            "missing": {"description": "Not there", "file": "no.py"},
        }}
        client = Client(self, True, publish=publish)
        self.assertEqual([t["name"] for t in client.ask("tools/list")["tools"]], ["run_python", "hello"])
        self.assertEqual(texts(client.call("hello")), ["first"])
        self.write("hello.py", "'second'")
        self.assertTrue(harness.wait_until(lambda: texts(client.call("hello")) == ["second"]))
        # The first edit may have been found by the reading after the start.
        self.write("hello.py", "'third'")
        self.assertTrue(harness.wait_until(lambda: texts(client.call("hello")) == ["third"]))
        self.write("no.py", "'there'")
        os.utime(client.path)
        self.assertTrue(harness.wait_until(lambda: "missing" in [t["name"] for t in client.ask("tools/list")["tools"]]))

    def test_profile(self):
        code = "import os\nos.path.isdir('/lab')"
        os.chmod(self.dir, 0o755)
        os.mkdir(self.path("lab"), 0o755)
        publish = {"tools": {"lab": {"description": "In it", "profile": "lab", "code": code}, "out": {"description": "Out of it", "code": code}}}
        profiles = {"lab": {"mounts": [{"source": self.path("lab"), "target": "/lab"}]}}
        client = Client(self, True, publish=publish, profiles=profiles)
        self.assertEqual([texts(client.call(name)) for name in ("lab", "out")], [["true"], ["false"]])


class OverHttp(Serve):
    """Behaviour that differs over HTTP."""

    TOKENS = {"one": "1" * 32, "two": "2" * 32}

    def config(self, **rest):
        return super().config(publish=PUBLISH, **rest)

    def start(self, *arguments, **options):
        path = self.path("tokens")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as f:
            f.writelines(f"{name} {token}\n" for name, token in self.TOKENS.items())
        return super().start(*arguments, "--tokens", path, **options)

    def call(self, name, /, who="one", can=None, more=None, **arguments):
        meta = {PREFIX + "clientCapabilities": CAN_ALL if can is None else can}
        sent = self.connect().modern("tools/call", {"name": name, "arguments": arguments, **(more or {})}, meta=meta,
                                     Authorization="Bearer " + self.TOKENS[who])
        return sent.response()

    def test_modern(self):
        self.assertEqual(texts(self.call("greet", name="you").json()["result"]), ["hello you "])
        lacks = self.call("model", can={})
        self.assertEqual((lacks.status, lacks.json()["error"]["code"]), (400, -32021))
        # A state belongs to its principal.
        state = self.call("ask").json()["result"]["requestState"]
        given = {"requestState": state, "inputResponses": {"who": {"action": "decline"}}}
        self.assertEqual(self.call("ask", "two", more=given).json()["error"]["code"], -32602)
        self.assertEqual(self.call("ask", "one", more=given).json()["result"]["resultType"], "complete")
        # Tools that code publishes also belong to their principal.
        self.call("show", name="spare")
        self.assertEqual(self.call("spare", "two").json()["error"]["code"], -32602)
        self.assertEqual(texts(self.call("spare").json()["result"]), ["spare"])

    def test_legacy(self):
        who = {"Authorization": "Bearer " + self.TOKENS["one"]}
        start = {"protocolVersion": "2025-11-25", "capabilities": CAN_ALL, "clientInfo": {"name": "raw", "version": "1"}}
        c = self.connect()
        answer = c.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}, **who).response()
        h = {"Mcp_Session_Id": answer.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-11-25", **who}
        call = {"name": "ask", "arguments": {}}
        events = c.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, **h).response().events()
        question = next(message for _, message in events if message)
        self.assertEqual(question["method"], "elicitation/create")
        said = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "me"}}}
        self.assertEqual(self.connect().post(said, **h).response().status, 202)
        result = next(message for _, message in events if message)["result"]
        self.assertEqual(json.loads(texts(result)[0])["content"], {"name": "me"})


del Serve

if __name__ == "__main__":
    harness.main()
