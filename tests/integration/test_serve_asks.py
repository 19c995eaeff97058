"""Requests from servers to clients over HTTP: the stream that carries them, and the sessions that may answer."""

import os
import time

import harness
import test_serve

FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")
FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
ANSWER = {"action": "accept", "content": {"name": "Ada"}}
CODE = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['result']"
ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"
HEADERS = {name: {"Authorization": f"Bearer {token}"} for name, token in (("alice", ALICE), ("bob", BOB))}


class Asks(test_serve.Serve):
    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = harness.make_private(self.write("tokens", f"alice {ALICE}\nbob {BOB}\n"))
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens)

    def config(self):
        return super().config({"faulty": {"command": harness.PYTHON, "args": [FAULTY]}})

    def session(self, who, capabilities=CAPABILITIES):
        """The headers of a legacy session."""
        params = {**test_serve.LEGACY, "capabilities": capabilities}
        answer = self.connect().post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, **HEADERS[who]).response()
        headers = {"Mcp_Session_Id": answer.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-11-25", **HEADERS[who]}
        self.connect().post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers).response()
        return headers

    def call(self, headers, code, id=1, **more):
        params = {"name": "run_python", "arguments": {"code": code}}
        return self.connect().post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, **{**headers, **more})

    def reply(self, headers, id, result=None):
        message = {"jsonrpc": "2.0", "id": id, "result": result or ANSWER}
        self.assertEqual(self.connect().post(message, **headers).response().status, 202)

    def modern(self, who, code, capabilities=CAPABILITIES, **params):
        meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
        params = {"name": "run_python", "arguments": {"code": code}, **params}
        return self.connect().modern("tools/call", params, meta=meta, **HEADERS[who])

    @staticmethod
    def until_asked(events):
        return next(m for _, m in events if m and m.get("method") == "elicitation/create")

    @staticmethod
    def outcome(message):
        return message["result"]["structuredContent"]

    def test_on_the_stream_of_the_call(self):
        alice, bob = self.session("alice"), self.session("bob")
        events = self.call(alice, CODE).response().events()
        asked = self.until_asked(events)
        self.assertEqual(asked["params"]["message"], "faulty: who?")
        # No other session can answer: neither one of another principal nor another one of the same principal.
        for other in (bob, self.session("alice")):
            self.reply(other, asked["id"], {"action": "accept", "content": {"name": "Mallory"}})
        self.reply(alice, asked["id"] + 1)
        self.reply(alice, str(asked["id"]))
        self.reply(alice, asked["id"])
        self.assertEqual(self.outcome(next(m for _, m in events if m))["value"]["json"], ANSWER)
        # Once.
        self.reply(alice, asked["id"])

    def test_a_client_without_events_is_not_asked(self):
        alice = self.session("alice")
        answer = self.call(alice, CODE, Accept="application/json").response().json()
        self.assertEqual(self.outcome(answer)["error"]["type"], "cloister.ToolInputRequired")
        bob = self.session("bob", {})
        answer = self.call(bob, CODE).response().json()
        self.assertEqual(self.outcome(answer)["error"]["type"], "cloister.ToolInputRequired")

    def test_two_principals_at_one_server(self):
        alice, bob = self.session("alice"), self.session("bob")
        hold = self.call(bob, "await mcp_faulty.hold()")
        code = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['error']['message']"
        # Repeat until the server works on both calls. Before that, its request reaches alice.
        end = time.monotonic() + harness.PATIENCE
        while (answer := self.call(alice, code).response()).chunked:
            self.assertLess(time.monotonic(), end)
            events = answer.events()
            self.reply(alice, self.until_asked(events)["id"])
            self.assertEqual(self.outcome(next(m for _, m in events if m))["error"]["type"], "KeyError")
        refused = answer.json()
        self.assertIn("several clients", self.outcome(refused)["value"]["json"])
        self.call(alice, "await mcp_faulty.release()", id=90).response()
        self.assertEqual(self.outcome(hold.response().json())["status"], "ok")

    def test_modern(self):
        first = self.modern("alice", CODE).response().json()["result"]
        self.assertEqual(first["resultType"], "input_required")
        (key, request), = first["inputRequests"].items()
        self.assertEqual(request["method"], "elicitation/create")
        responses = {"requestState": first["requestState"], "inputResponses": {key: ANSWER}}
        refused = self.modern("bob", CODE, **responses).response()
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (200, -32602))
        last = self.modern("alice", CODE, **responses).response().json()["result"]
        self.assertEqual((last["resultType"], last["structuredContent"]["value"]["json"]), ("complete", ANSWER))
        again = self.modern("alice", CODE, **responses).response().json()
        self.assertEqual(again["error"]["code"], -32602)

    def test_a_client_that_leaves(self):
        alice = self.session("alice")
        events = self.call(alice, CODE).response().events()
        self.until_asked(events)
        self.assertEqual(self.connect().request("DELETE", "/mcp", {k.replace("_", "-"): v for k, v in alice.items()}).response().status, 204)
        # The server's other calls are answered, and their questions go to the principal that sent the call.
        bob = self.session("bob")
        events = self.call(bob, CODE).response().events()
        self.reply(bob, self.until_asked(events)["id"])
        self.assertEqual(self.outcome(next(m for _, m in events if m))["value"]["json"], ANSWER)


if __name__ == "__main__":
    harness.main()
