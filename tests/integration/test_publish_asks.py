"""Questions of published code, and of the servers that it calls: answers are checked before code sees them, states cannot be
used for anything else, and what clients and code send that they should not ends their own call only."""

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
TOOLS = {
    "person": {"description": "Asks", "code": f"(await elicit('Who?', {PERSON}, key='who'))"},
    "all": {"description": "Asks all", "code": [f"arguments['schema'] = {PERSON}", *ALL]},
    "page": {"description": "Opens a page", "code": "await elicit('Open', url='https://example.com/', key='page')"},
}

# What a client may answer instead, and what the error says: key, answer, text.
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
        return Client(self, modern, CAN if can is None else can, {"tools": {**TOOLS, **more}}, mcpServers=SERVERS)


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
        # Of several, those that are missing are asked for.
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


if __name__ == "__main__":
    harness.main()
