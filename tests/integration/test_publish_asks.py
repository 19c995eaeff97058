"""Questions of published code, and of the servers that it calls: answers are checked before code sees them, states cannot be
used for other calls, and invalid messages of clients or code end only their own call."""

import json
import os

import harness
import rawmcp
from test_publish import Client, texts

FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")
SERVERS = {
    "faulty": {"command": harness.PYTHON, "args": [FAULTY]},
    "modern": {"command": harness.PYTHON, "args": [FAULTY, "--era", "modern"]},
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 1},
        "pet": {"type": "string", "enum": ["cat", "dog"]},
    },
    "required": ["name"],
}
FORM = {"message": "who?", "requestedSchema": PERSON}
CAN = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
HERE = {"roots": [{"uri": "file:///r"}]}
SAID = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ANSWERS = {"elicitation/create": ADA, "roots/list": HERE, "sampling/createMessage": SAID}
ALL = ["gather = asyncio.gather(elicit('Who?', arguments['schema'], key='who'), roots(key='where'), sample('Hi', key='said'))", "await gather"]
ASK = f"mcp_faulty.ask(method='elicitation/create', params={FORM})"
BOTH = f"b = (await {ASK})['result']\n[a, b]"
REQUESTS = {"a": {"method": "elicitation/create", "params": FORM}, "b": {"method": "roots/list"}}
OTHERS = {
    "prompts": {"told": {"description": "Its server asks", "code": f"(await {ASK})['result']['content']['name']"}},
    "resources": {"x://asked": {"code": f"(await {ASK})['result']['content']['name']"}},
    "templates": {
        "x://own/{n}": {"name": "own", "complete": True, "code": f"async def complete(name, value, context):\n    return [(await elicit('Me?', {PERSON}))['action']]\n"},
        "x://its/{n}": {"name": "its", "complete": True, "code": f"async def complete(name, value, context):\n    return [str(await {ASK})]\n"},
    },
}
TOOLS = {
    "person": {"description": "Asks", "code": f"(await elicit('Who?', {PERSON}, key='who'))"},
    "all": {"description": "Asks all", "code": [f"arguments['schema'] = {PERSON}", *ALL]},
    "asked": {"description": "Its server asks", "code": f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['result']"},
    "inputs": {"description": "Its servers ask", "code": f"(await mcp_modern.input(requests={REQUESTS}))['responses']"},
    "first": {"description": "Asks, then its server does", "code": f"a = await elicit('Me?', {PERSON}, key='who')\n{BOTH}"},
    "then": {"description": "Its server asks, then it does", "code": f"b = (await {ASK})['result']\na = await elicit('Me?', {PERSON}, key='who')\n[a, b]"},
    "together": {"description": "Both at once", "code": f"a, b = await asyncio.gather(elicit('Me?', {PERSON}, key='who'), {ASK})\n[a, b['result']]"},
    "echo": {"description": "Asks nothing", "code": "await mcp_faulty.echo(n=1)"},
    "page": {"description": "Opens a page", "code": "await elicit('Open', url='https://example.com/', key='page')"},
}

# Invalid answers of a client, and the text of the error: key, answer, text.
WRONG = [
    ("who", {"action": "accept", "content": {"name": 5}}, "name"),
    ("who", {"action": "accept", "content": {"name": "A"}}, "name"),
    ("who", {"action": "accept", "content": {"name": ["Ada"]}}, "name"),
    ("who", {"action": "accept", "content": {"name": "Ada", "age": 0}}, "age"),
    ("who", {"action": "accept", "content": {"name": "Ada", "age": 1.5}}, "age"),
    ("who", {"action": "accept", "content": {"name": "Ada", "pet": "cow"}}, "pet"),
    ("who", {"action": "accept", "content": {"name": "Ada", "role": "root"}}, "role"),
    ("who", {"action": "accept", "content": {}}, "name"),
    ("who", {"action": "accept", "content": [1]}, "content"),
    ("who", {"action": "accept"}, "content"),
    ("who", {"action": "maybe"}, "action"),
    ("who", {"content": {"name": "Ada"}}, "action"),
    ("who", HERE, "action"),
    ("where", {"roots": [{"uri": "https://example.com/"}]}, "root"),
    ("where", {"roots": 5}, "roots"),
    ("where", {"roots": [{"uri": "file:///r"}] * 257}, "roots"),
    ("where", ADA, "roots"),
    ("said", {**SAID, "role": "system"}, "role"),
    ("said", {**SAID, "content": "hi"}, "content"),
    ("said", {**SAID, "model": None}, "model"),
]


class Case(harness.Case):
    def client(self, modern, can=None, **more):
        return Client(self, modern, CAN if can is None else can, {"tools": {**TOOLS, **more}, **OTHERS}, mcpServers=SERVERS)


class ModernAnswers(Case):
    """The host checks answers against the questions: the code gets none that does not fit."""

    def setUp(self):
        super().setUp()
        self.c = self.client(True)

    def refused(self, name, answers, state=None, text=""):
        more = {} if state is None else {"requestState": state}
        return self.c.refused("tools/call", {"name": name, "arguments": {}, "inputResponses": answers, **more}, -32602, text)

    def call(self, name, answers=None, state=None):
        more = {key: value for key, value in (("inputResponses", answers), ("requestState", state)) if value is not None}
        return self.c.call(name, more=more)

    def test_what_does_not_fit_its_question(self):
        good = {"who": ADA, "where": HERE, "said": SAID}
        state = self.call("all")["requestState"]
        for key, answer, text in WRONG:
            with self.subTest(answer=answer):
                refused = self.refused("all", {**good, key: answer}, state, text)
                self.assertIn("inputResponses." + key, str(refused))
        # The state is still valid, and answers that fit reach the code.
        self.assertEqual(json.loads(texts(self.call("all", good, state))[0]), [ADA, HERE["roots"], SAID])

    def test_without_a_state(self):
        """Answers that come before the question wait for it."""
        good = {"who": ADA, "where": HERE, "said": SAID}
        for key, answer, text in WRONG[:2] + WRONG[13:15] + WRONG[-1:]:
            with self.subTest(answer=answer):
                self.refused("all", {**good, key: answer}, None, text)
        self.assertEqual(json.loads(texts(self.call("all", {**good, "other": {"x": 1}}))[0]), [ADA, HERE["roots"], SAID])
        # If some of the answers are missing, only those are requested.
        asked = self.call("all", {"who": ADA})
        self.assertEqual(sorted(asked["inputRequests"]), ["said", "where"])
        self.assertEqual(json.loads(texts(self.call("all", {"where": HERE, "said": SAID}, asked["requestState"]))[0])[0], ADA)

    def test_only_what_is_known_of_an_answer(self):
        state = self.call("all")["requestState"]
        more = {"who": {**ADA, "_meta": {"x": 1}, "secret": 1}, "where": {"roots": [{"uri": "file:///r", "evil": 1}], "x": 1}, "said": {**SAID, "x": 1}}
        self.assertEqual(json.loads(texts(self.call("all", more, state))[0]), [ADA, HERE["roots"], SAID])
        declined = {"action": "decline", "content": {"name": 5}}
        self.assertEqual(json.loads(texts(self.call("person", {"who": declined}))[0]), {"action": "decline"})
        self.assertEqual(json.loads(texts(self.call("page", {"page": ADA}))[0]), {"action": "accept"})


class Servers(Case):
    """A server that asks while published code calls it."""

    MODERN = True

    def setUp(self):
        super().setUp()
        self.c = self.client(self.MODERN)

    def answered(self, method, params, asked, answers=None):
        """Calls again with an answer to each question."""
        given = {key: (answers or ANSWERS)[request["method"]] for key, request in asked["inputRequests"].items()}
        return self.c.ask(method, {**params, "inputResponses": given, "requestState": asked["requestState"]})

    def rounds(self, name):
        """Calls until the tool returns a result. Returns the result, and the questions of each round."""
        params, asked = {"name": name, "arguments": {}}, []
        got = self.c.ask("tools/call", params)
        while got["resultType"] == "input_required":
            asked.append(sorted(request["params"]["message"] if "params" in request and request["params"] else request["method"]
                                for request in got["inputRequests"].values()))
            got = self.answered("tools/call", params, got)
        return json.loads(texts(got)[-1]), asked


class ModernServers(Servers):
    def test_a_tool(self):
        self.assertEqual(self.rounds("asked"), (ADA, [["faulty: who?"]]))
        self.assertEqual(self.rounds("inputs"), ({"a": ADA, "b": HERE}, [["modern: who?", "roots/list"]]))
        self.assertEqual(self.rounds("echo"), ({"n": 1}, []))

    def test_its_own_questions_too(self):
        """Questions come one after another: the code runs again after its own questions, and continues after its servers' questions."""
        self.assertEqual(self.rounds("first"), ([ADA, ADA], [["first: Me?"], ["faulty: who?"]]))
        self.assertEqual(self.rounds("then"), ([ADA, ADA], [["faulty: who?"], ["then: Me?"], ["faulty: who?"]]))
        value, asked = self.rounds("together")
        # A fast server sends its question before the run ends, and sends it again in the next run.
        self.assertEqual((value, asked[-2:]), ([ADA, ADA], [["together: Me?"], ["faulty: who?"]]))
        self.assertIn(asked[:-2], ([], [["faulty: who?"]]))

    def test_prompts_and_resources(self):
        prompt = self.answered("prompts/get", {"name": "told"}, self.c.ask("prompts/get", {"name": "told"}))
        self.assertEqual(prompt["messages"][0]["content"]["text"], "Ada")
        asked = self.c.ask("resources/read", {"uri": "x://asked"})
        self.assertEqual((asked["resultType"], asked.get("ttlMs")), ("input_required", None))
        read = self.answered("resources/read", {"uri": "x://asked"}, asked)
        self.assertEqual((read["contents"][0]["text"], read["ttlMs"]), ("Ada", 0))

    def test_a_completion_asks_nobody(self):
        for name, text in (("own", "cannot ask"), ("its", "no client")):
            ref = {"type": "ref/resource", "uri": "x://%s/{n}" % name}
            self.c.refused("completion/complete", {"ref": ref, "argument": {"name": "n", "value": ""}}, -32603, text)

    def test_states_of_others(self):
        params = {"name": "asked", "arguments": {"x": 1}}
        asked = self.c.ask("tools/call", params)
        state = asked["requestState"]
        for wrong in ({"name": "asked", "arguments": {}}, {"name": "inputs", "arguments": {"x": 1}}, {"name": "run_python", "arguments": {"code": "1"}},
                      {"name": "asked", "arguments": {"x": 1}, "requestState": state[:-1]}):
            self.c.refused("tools/call", {"requestState": state, "inputResponses": {}, **wrong}, -32602, "requestState")
        self.c.refused("prompts/get", {"name": "told", "requestState": state}, -32602, "requestState")
        self.assertEqual(self.answered("tools/call", params, asked)["resultType"], "complete")
        with self.assertRaises(rawmcp.RpcError):  # used up
            self.answered("tools/call", params, asked)

    def test_what_does_not_fit(self):
        """The server gets an error, as from a client."""
        code = f"(await {ASK})['error']['message']"
        self.c = self.client(True, wrong={"description": "x", "code": code})
        params = {"name": "wrong", "arguments": {}}
        got = self.answered("tools/call", params, self.c.ask("tools/call", params), {"elicitation/create": {"action": "accept", "content": {"name": 5}}})
        self.assertIn("name", texts(got)[0])

    def test_a_client_that_cannot(self):
        self.c.can = {}
        failed = self.c.call("asked")
        self.assertTrue(failed["isError"])
        self.assertIn("asks for input", texts(failed)[0])

    def test_as_a_task(self):
        self.c.can = {**CAN, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        self.c = self.client(True, self.c.can, slow={"description": "x", "code": f"await asyncio.sleep(0.8)\n(await {ASK})['result']"})
        task = self.c.call("slow")
        self.assertEqual(task["resultType"], "task")

        def get():
            return self.c.ask("tasks/get", {"taskId": task["taskId"]})

        self.assertTrue(harness.wait_until(lambda: get()["status"] == "input_required"))
        (key, request), = get()["inputRequests"].items()
        self.assertEqual(request["params"]["message"], "faulty: who?")
        self.c.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": {key: ADA}})
        self.assertTrue(harness.wait_until(lambda: get()["status"] == "completed"))
        self.assertEqual(json.loads(texts(get()["result"])[0]), ADA)


# Frames that code writes directly to the channel instead of its result, as [type, offset added to the number of the cell,
# payload], and the text that the client receives. A payload ["x", n] is n bytes.
RESULT, DISPLAY, PROGRESS, LOG, EXEC, RETURN, INPUT = 0x41, 0x43, 0x44, 0x45, 0x01, 0x02, 0x08


def asks(requests, **more):
    return [[RESULT, 0, {"status": "ok", "requests": requests, **more}]]


def question(method="elicitation/create", **params):
    return {"method": method, "params": params or FORM}


FORGED = [
    (asks({"": question()}), "form"),
    (asks({"x" * 65: question()}), "form"),
    (asks({"a b": question()}), "form"),
    (asks({"../k": question()}), "form"),
    (asks({"k\0": question()}), "form"),
    (asks({"é": question()}), "form"),
    (asks({"k": 5}), "form"),
    (asks({"k": {"params": FORM}}), "form"),
    (asks({"k": question("tools/call")}), "no such method"),
    (asks({"k": question("sampling/createMessage", messages=[])}), "messages"),
    (asks({"k": question(message="m", requestedSchema={"$ref": "http://x"})}), "requestedSchema"),
    (asks({"k": question(message="m" * 9000, requestedSchema=PERSON)}), "8192"),
    (asks({"k": question(message="m", mode="url", url="javascript:1")}), "url"),
    (asks({"k": {"method": "elicitation/create", "params": ["x", 70000]}}), "params"),
    (asks({"k%d" % i: question() for i in range(17)}), "too many"),
    ([[RESULT, 0, '{"status":"ok","requests":{"k":%s,"k":%s}}' % ((json.dumps(question()),) * 2)]], 'members of an object are named "k"'),
    (asks([question()]), "another form"),
    (asks({}), "another form"),
    (asks({"k": question()}, status="error", error={"type": "E", "message": "told", "traceback": ""}), "told"),
    ([[RESULT, 0, {"status": "ok", "output": {"lacks": "roots"}}]], "another form"),
    ([[RESULT, 0, {"status": "ok", "output": {"content": [{"type": "text"}]}}]], "another form"),
    ([[RESULT, 1, {"status": "ok", "requests": {"k": question()}}]], "broke"),
    ([[RESULT, 0, ["x", (4 << 20) + 1]]], "broke"),
    ([[PROGRESS, 0, ["x", 70000]]], "broke"),
    ([[PROGRESS, 1, {"progress": 1}]], "broke"),
    ([[LOG, 5, {"level": "info", "data": 1}]], "broke"),
    ([[EXEC, 0, "1\0x"]], "broke"),
    ([[RETURN, 0, {"ok": True}]], "broke"),
    ([[INPUT, 0, {"kind": "tool", "answers": {"k": ADA}}]], "broke"),
    ([[INPUT, 1, {"kind": "tool", "answers": {"k": ADA}}]], "broke"),
]
# Valid questions followed by further frames: only the first frame counts.
LATE = [
    asks({"k": question()}) + asks({"k2": question()}),
    asks({"k": question()}) + [[PROGRESS, 0, {"progress": 1}]],
    asks({"k": question()}) + [[INPUT, 0, {"kind": "tool", "answers": {"k": ADA}}]],
    asks({"k": question()}) + [[DISPLAY, 0, {"block": {"type": "text", "text": "x"}}]],
]
SPEAK = """
import threading, time
channel, number = emit.__self__._channel, emit.__self__._number
def speak(frames):
    for kind, more, payload in frames:
        if isinstance(payload, list) and payload[:1] == ["x"]:
            payload = b"x" * payload[1]
        elif not isinstance(payload, str):
            payload = json.dumps(payload).encode()
        channel.send(kind, number + more, payload.encode() if isinstance(payload, str) else payload)
def main(frames, thread=False):
    if thread:
        t = threading.Thread(target=speak, args=(frames,))
        t.start()
        t.join()
    else:
        speak(frames)
    time.sleep(20)
"""


class Forgeries(Case):
    """Each ends only its own call."""

    def setUp(self):
        super().setUp()
        self.c = self.client(True, raw={"description": "Speaks", "code": SPEAK, "timeout": 15}, wait={"description": "Waits", "code": "await elicit('A', key='k')"})

    def check_others(self, beside):
        self.assertEqual(json.loads(texts(self.c.call("echo"))[0]), {"n": 1})
        again = self.c.call("wait", more={"requestState": beside["requestState"], "inputResponses": {"k": {"action": "decline"}}})
        self.assertEqual(json.loads(texts(again)[0]), {"action": "decline"})

    def test_frames(self):
        beside = self.c.call("wait")
        for i, (frames, text) in enumerate(FORGED):
            with self.subTest(frames=str(frames)[:120]):
                ended = self.c.call("raw", frames=frames, thread=i % 3 == 2)
                self.assertTrue(ended.get("isError"), ended)
                self.assertIn(text, texts(ended)[-1])
        self.check_others(beside)
        for frames in LATE:
            with self.subTest(late=str(frames)[-120:]):
                asked = self.c.call("raw", frames=frames)
                self.assertEqual(list(asked["inputRequests"]), ["k"])
        self.check_others(beside)
        # The control: a valid question is sent. The questions above are therefore refused for the stated reason.
        self.assertEqual(list(self.c.call("raw", frames=asks({"k" * 64: question()}))["inputRequests"]), ["k" * 64])

    def test_too_many(self):
        """Reports are counted; one of each kind is a control."""
        many = [[PROGRESS, 0, {"progress": n}] for n in range(1, 3000)] + [[LOG, 0, {"level": "error", "data": n}] for n in range(3000)]
        self.c.call("raw", meta={"progressToken": "t", "io.modelcontextprotocol/logLevel": "error"}, frames=many + asks({"k": question()}))
        told = len(self.c.noted("notifications/progress")) + len(self.c.noted("notifications/message"))
        self.assertTrue(1 <= told <= 1000, told)

    def test_run_python_asks_nobody_this_way(self):
        code = "import cloister\nfrom cloister.frames import RESULT\nimport json, time\ntools._channel.send(RESULT, %d, json.dumps(%r).encode())\ntime.sleep(20)"
        got = self.c.call("run_python", code=code % (1, {"status": "ok", "requests": {"k": question()}}), session="forger")
        self.assertEqual((got["resultType"], got["structuredContent"]["status"]), ("complete", "ok"))

    def test_clients(self):
        """Values that a client sends instead of answers and states: they do not affect the next call."""
        asked = self.c.call("wait")
        state, deep = asked["requestState"], "[" * 50000 + "]" * 50000
        for responses in ("[]", "5", "null", '"x"', '{"k":[]}', '{"k":"x"}', '{"k":{"action":"accept","content":%s}}' % deep,
                          '{"k":{"action":"accept","content":{"a":%s}}}' % deep, '{"k":{"action":%s}}' % deep, '{"x":{"y":"%s"}}' % ("z" * 600000),
                          "{%s}" % ",".join('"k%d":{}' % i for i in range(65)), '{"k":{"action":"accept","content":{%s}}}' % ",".join('"f%d":1' % i for i in range(100))):
            with self.subTest(responses=responses[:60]):
                self.raw(state, responses)
        flipped = [state[:i] + chr(ord(state[i]) ^ 1) + state[i + 1:] for i in range(0, len(state), 5)]
        for wrong in (*flipped, state[1:], state * 2, "", state + "\\u0000", "x" * (1 << 20), state.upper()):
            with self.subTest(state=wrong[:40]):
                if wrong != state:
                    self.raw(wrong, '{"k":{"action":"decline"}}')
        self.check_others(asked)

    def raw(self, state, responses):
        pending = self.c.server.expect(identifier := next(self.c.server.ids))
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": CAN}
        self.c.server.send_bytes(
            ('{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":%s,"name":"wait","arguments":{},"requestState":"%s","inputResponses":%s}}\n'
             % (identifier, json.dumps(meta), state, responses)).encode())
        with self.assertRaises(rawmcp.RpcError) as caught:
            pending.result()
        self.assertIn(caught.exception.code, (-32602, -32700))  # the latter: nested too deeply


class LegacyServers(Servers):
    MODERN = False

    def test_a_tool(self):
        for name, n, result in (("asked", 1, ADA), ("inputs", 2, {"a": ADA, "b": HERE})):
            call = self.c.request("tools/call", {"name": name, "arguments": {}})
            for method, question in self.c.questions(n).items():
                self.c.answer(question, ANSWERS[method])
            self.assertEqual(json.loads(texts(call.result())[0]), result)

    def test_cancelled(self):
        call = self.c.request("tools/call", {"name": "asked", "arguments": {}})
        asked = self.c.questions(1)["elicitation/create"]
        self.c.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: self.c.noted("notifications/cancelled")))
        self.assertEqual(self.c.noted("notifications/cancelled")[0]["requestId"], asked["id"])
        self.assertEqual(json.loads(texts(self.c.call("echo"))[0]), {"n": 1})


if __name__ == "__main__":
    harness.main()
