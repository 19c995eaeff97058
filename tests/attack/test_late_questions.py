"""Class 137: two principals call one stdio server. No message about the call of one reaches the other one."""

import json
import os
import subprocess

import harness
import test_serve
import test_serve_asks
from test_serve_asks import FORM, HEADERS

ASK = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['error']['message']"
NOT_ANSWERED = "a call of another client has not been answered, and the request names no call"


class LateQuestions(test_serve_asks.Asks):
    def config(self):
        own = [test_serve_asks.FAULTY, "--pid-file", harness.make_private(self.write("pids", ""))]
        return test_serve.Serve.config(self, {
            "faulty": {"command": harness.PYTHON, "args": [test_serve_asks.FAULTY]},
            "own": {"command": harness.PYTHON, "args": own, "instances": "principal"},
        })

    def asked(self, headers, id):
        """A question for a call of this client's own reaches it."""
        answer = self.call(headers, ASK, id=id).response()
        self.assertTrue(answer.chunked, answer.body)
        events = answer.events()
        self.reply(headers, self.until_asked(events)["id"])
        self.assertEqual(self.outcome(next(m for _, m in events if m))["error"]["type"], "KeyError")

    # ---- how a call of alice's can end without an answer of its server ----

    def by_timeout(self):
        answer = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": "await mcp_faulty.hold()", "timeout": 2}},
                                       **HEADERS["alice"]).response().json()
        self.assertEqual(answer["result"]["structuredContent"]["status"], "timeout")

    def by_timeout_of_the_tool(self):
        code = "import asyncio\ntry: await asyncio.wait_for(mcp_faulty.hold(), 2)\nexcept TimeoutError: print('late')"
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
        # The time of the call does not include the start of the server.
        self.call(self.session("bob"), "await mcp_faulty.echo()").response()
        way(self)
        # The call has left the server's list when none is open.
        self.assertTrue(harness.wait_until(lambda: [s["calls"] for s in self.listed()] == [0], harness.PATIENCE))
        bob = self.session("bob")
        answer = self.call(bob, ASK).response()
        self.assertFalse(answer.chunked, "bob's client was asked")
        self.assertIn(NOT_ANSWERED, self.outcome(answer.json())["value"]["json"])
        answer = self.modern("bob", ASK).response().json()["result"]
        self.assertEqual(answer["resultType"], "complete")
        self.assertIn(NOT_ANSWERED, answer["structuredContent"]["value"]["json"])
        # The controls: alice's own client gets the question, and bob's once the server has answered all of alice's calls.
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

    def test_a_process_for_each_principal(self):
        """The call of alice's that was not answered is in a process that bob never calls."""
        code = ASK.replace("mcp_faulty", "mcp_own")
        alice, bob = self.session("alice"), self.session("bob")
        hold = self.call(alice, "import asyncio\ntry: await asyncio.wait_for(mcp_own.hold(), 2)\nexcept TimeoutError: print('late')").response()
        self.assertEqual(self.outcome(hold.json())["stdout"], "late\n")
        events = self.call(bob, code).response().events()
        self.reply(bob, self.until_asked(events)["id"])
        self.assertEqual(self.outcome(next(m for _, m in events if m))["error"]["type"], "KeyError")
        modern = self.modern("bob", code).response().json()["result"]
        self.assertEqual(modern["resultType"], "input_required")
        self.assertEqual(self.own(), {"alice", "bob"})
        self.assertTrue(harness.wait_until(lambda: self.processes() == 2, harness.PATIENCE))
        # It ends with its principal.
        harness.make_private(self.write("new", f"bob {test_serve_asks.BOB}\n"))
        os.rename(self.path("new"), self.tokens)
        self.assertTrue(harness.wait_until(lambda: self.own() == {"bob"}, harness.PATIENCE))
        self.assertTrue(harness.wait_until(lambda: self.processes() == 1, harness.PATIENCE))

    def test_pages_of_one_id(self):
        """A server that gives one id to pages of two principals does not say whose page is done."""
        clients = [self.session("alice"), self.session("bob")]
        streams = [self.connect().request("GET", "/mcp", {"Accept": "text/event-stream", **{k.replace("_", "-"): v for k, v in client.items()}})
                   .response().events() for client in clients]

        def page(client, id):
            params = {"mode": "url", "message": "sign in", "elicitationId": id, "url": "https://page.example/"}
            events = self.call(client, f"await mcp_faulty.ask(method='elicitation/create', params={params})").response().events()
            self.reply(client, self.until_asked(events)["id"], {"action": "accept"})
            next(m for _, m in events if m)

        for client, id in zip(clients * 2, ("both", "both", "alices", "bobs"), strict=True):
            page(client, id)
        self.call(clients[0], "await mcp_faulty.opened(ids=['both', 'bobs', 'alices'])", id=95).response()
        # The controls are the first that each gets.
        done = [next(m for _, m in stream if m and m.get("method") == "notifications/elicitation/complete") for stream in streams]
        self.assertEqual([m["params"]["elicitationId"] for m in done], ["faulty/alices", "faulty/bobs"])

    def own(self):
        return {s["principal"] for s in self.listed() if s["name"] == "own"}

    def processes(self):
        """How many processes of the server run; the one that listed its tools has ended."""
        return len(harness.running_servers(self.path("pids")))


# Those of the parent run in their own file.
for inherited in [name for name in dir(test_serve_asks.Asks) if name.startswith("test_")]:
    setattr(LateQuestions, inherited, None)


if __name__ == "__main__":
    harness.main()
