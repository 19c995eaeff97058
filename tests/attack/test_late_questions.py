"""Class 137: two principals call one stdio server. No message about the call of one reaches the other one."""

import json
import subprocess

import harness
import test_serve_asks
from test_serve_asks import FORM, HEADERS

ASK = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['error']['message']"
NOT_ANSWERED = "a call of another client has not been answered, and the request names no call"


class LateQuestions(test_serve_asks.Asks):
    def asked(self, headers, id):
        """A question for a call of this client's own reaches it."""
        answer = self.call(headers, ASK, id=id).response()
        self.assertTrue(answer.chunked, answer.body)
        events = answer.events()
        self.reply(headers, self.until_asked(events)["id"])
        self.assertEqual(self.outcome(next(m for _, m in events if m))["error"]["type"], "KeyError")

    # ---- how a call of alice's can end without an answer of its server ----

    def by_timeout(self):
        answer = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": "await mcp_faulty.hold()", "timeout": 1}},
                                       **HEADERS["alice"]).response().json()
        self.assertEqual(answer["result"]["structuredContent"]["status"], "timeout")

    def by_timeout_of_the_tool(self):
        code = "import asyncio\ntry: await asyncio.wait_for(mcp_faulty.hold(), 1)\nexcept TimeoutError: print('late')"
        answer = self.call(self.session("alice"), code).response().json()
        self.assertEqual(self.outcome(answer)["stdout"], "late\n")

    def by_cancellation(self):
        alice = self.session("alice")
        call = self.call(alice, "print('begins', flush=True)\nawait mcp_faulty.hold()", id=77)
        self.until_held()
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
        self.assertEqual(self.connect().post(message, **alice).response().status, 202)
        call.close()

    def by_disconnection(self):
        call = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": "await mcp_faulty.hold()"}},
                                     **HEADERS["alice"])
        self.until_held()
        call.close()

    def by_the_end_of_its_session(self):
        call = self.call(self.session("alice"), "await mcp_faulty.hold()")
        self.until_held()
        self.ended("alice:default")
        call.close()

    def ended(self, name):
        subprocess.run([harness.CLOISTER, "sessions", "end", name], env=harness.environment(), check=True, capture_output=True)

    def listed(self):
        done = subprocess.run([harness.CLOISTER, "sessions", "--json"], env=harness.environment(), check=True, capture_output=True)
        return next((s["servers"] for s in json.loads(done.stdout) if s["server"] == self.server.pid), [])

    def until_held(self):
        """The server has a call of alice's."""
        self.assertTrue(harness.wait_until(lambda: any(s["name"] == "faulty" and s["state"] == "ready" and s["calls"] == 1
                                                       for s in self.listed()), harness.PATIENCE))

    # ---- the question ----

    def check(self, way):
        way(self)
        # The call has left the server's list when none is under way.
        self.assertTrue(harness.wait_until(lambda: [s["calls"] for s in self.listed()] == [0], harness.PATIENCE))
        bob = self.session("bob")
        answer = self.call(bob, ASK).response()
        self.assertFalse(answer.chunked, "bob's client was asked")
        self.assertIn(NOT_ANSWERED, self.outcome(answer.json())["value"]["json"])
        answer = self.modern("bob", ASK).response().json()["result"]
        self.assertEqual(answer["resultType"], "complete")
        self.assertIn(NOT_ANSWERED, answer["structuredContent"]["value"]["json"])
        # The controls: alice's own client is asked, and bob's once the server has answered all of alice's calls.
        self.asked(self.session("alice"), 89)
        self.call(bob, "await mcp_faulty.release()", id=90).response()
        self.asked(bob, 91)

    def test_question_after_a_timeout(self):
        self.check(LateQuestions.by_timeout)

    def test_question_after_a_timeout_of_the_tool(self):
        self.check(LateQuestions.by_timeout_of_the_tool)

    def test_question_after_a_cancellation(self):
        self.check(LateQuestions.by_cancellation)

    def test_question_after_a_disconnection(self):
        self.check(LateQuestions.by_disconnection)

    def test_question_after_the_end_of_the_session(self):
        self.check(LateQuestions.by_the_end_of_its_session)


# Those of the parent run in their own file.
for inherited in [name for name in dir(test_serve_asks.Asks) if name.startswith("test_")]:
    setattr(LateQuestions, inherited, None)


if __name__ == "__main__":
    harness.main()
