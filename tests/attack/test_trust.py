"""Ways around a decision about a call: calls of one moment, values that servers read as others, and a question that shows less than it
asks. Classes 155, 158."""

import os
import sys

import harness

sys.path.insert(0, harness.HERE)
import test_ask  # noqa: E402  pylint: disable=wrong-import-position

KIND = """
import asyncio, json
async def kind(call):
    try:
        await call
    except ToolError as e:
        return type(e).__name__
    return 'sent'
"""
RULES = [
    {"deny": "f.echo", "after": {"session": 3}},
    {"ask": "f.length", "after": {"session": 1}},
    {"deny": "f.fail", "when": {"/to/address": {"prefix": "evil"}}},
    {"allow": "f.blocks", "when": {"/o/cc": {"absent": True}}},
    {"deny": "f.blocks"},
    {"deny": "f.environment", "when": {"/to/*": {"prefix": "evil"}}},
    {"deny": "f.environment", "when": {"/id": {"equals": 5}}},
    {"ask": "f.add", "why": "sums"},
    {"ask": "f.text", "why": "texts"},
]
# Each with what a server may find in it, and what happens.
SHAPES = [
    ("f.fail", {"to": {"address": "friend"}}, "sent"),
    ("f.fail", {"to": [{"address": "evil"}]}, "ToolDenied"),
    ("f.fail", {"to": '{"address": "evil"}'}, "ToolDenied"),
    ("f.blocks", {"o": {}}, "sent"),
    ("f.blocks", {"o": [{"cc": "x"}]}, "ToolDenied"),
    ("f.blocks", {"o": '{"cc": "x"}'}, "ToolDenied"),
    ("f.environment", {"to": "friend", "id": 6}, "sent"),
    ("f.environment", {"to": '["evil"]'}, "ToolDenied"),
    ("f.environment", {"to\0": "evil"}, "ToolArgumentError"),
]
# Frames that code writes by hand: the numbers are sent as they are.
NUMBERS = """
from cloister.frames import CALL
def send(number):
    frame = '{"server":"f","tool":"environment","arguments":{"id":%s}}' % number
    answer = tools._channel.call(CALL, frame.encode())
    answer = json.loads(answer if isinstance(answer, str) else bytes(answer))
    return answer['error']['kind'] if 'error' in answer else 'sent'
[send(number) for number in ('6', '5', '5.0', '0.5e1', '5.00000000000000000001', '5.1')]
"""


class Trust(harness.Case):
    def test_decisions(self):
        """With "sync": "group" each call waits for the disk after it was decided, and others are decided meanwhile."""
        state = self.path("state")
        os.mkdir(state)
        config = self.config({"f": harness.fixture()}, rules=RULES, journal={"sync": "group"}, ask={"per_cell": 50})
        server = test_ask.Person("--config", config, env=harness.environment(XDG_STATE_HOME=state), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()

        def value(code):
            return server.cell(KIND + code)["value"]["json"]

        with self.subTest("counts"):
            sent = value("await asyncio.gather(*(kind(mcp_f.echo(a=i)) for i in range(40)))")
            self.assertEqual((sent.count("sent"), sent.count("ToolDenied")), (3, 37))
            # One call is sent without a question. The yes to the others does not count for later ones.
            self.assertEqual(value("await asyncio.gather(*(kind(mcp_f.length(text='x')) for i in range(5)))"), ["sent"] * 5)
            self.assertIn("4 calls of f.length", server.asked[-1]["params"]["message"])
        with self.subTest("shapes"):
            calls = ", ".join(f"await kind(tools[{tool!r}].raw(**{arguments!r}))" for tool, arguments, _ in SHAPES)
            self.assertEqual(value(f"[{calls}]"), [kind for *_, kind in SHAPES])
        with self.subTest("numbers"):
            self.assertEqual(value(NUMBERS), ["sent"] + ["ToolDenied"] * 4 + ["sent"])
        with self.subTest("what a question names"):
            server.answers[:] = [test_ask.scope("session")]
            value("await asyncio.gather(*(kind(mcp_f.text(text='x' * 3000)) for i in range(20)), kind(mcp_f.add(a=1, b=2)))")
            message = server.asked[-1]["params"]["message"]
            self.assertIn("texts (and other rules): cloister approve", message.splitlines()[0])
            self.assertNotIn("add {", message)
            asked = len(server.asked)
            self.assertEqual(value("[await kind(mcp_f.text(text='y')), await kind(mcp_f.add(a=1, b=2))]"), ["sent"] * 2)
            self.assertEqual([m["params"]["message"].split(":")[0] for m in server.asked[asked:]], ["1 call of f.add"])


if __name__ == "__main__":
    harness.main()
