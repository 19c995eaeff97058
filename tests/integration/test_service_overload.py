"""A server without a free place: over HTTP a call that needs one is refused by a status, before anything has run, so that a balancer can
send it to another server; a principal at its own quota gets another status. Over standard output the result says it."""

import json
import os
import time

import harness
import rawmcp
from test_serve import Serve
from test_service_stop import refusal

ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"


class Full(Serve):
    def setUp(self):
        harness.Case.setUp(self)
        self.server = self.start(*self.ARGUMENTS, "--config", self.config(name="full.json", sessions=2, pool=0))
        for name in ("a", "b"):
            self.value(self.connect().call("x = 1\nx", session=name))

    def test_refused(self):
        """No part of the call has run: its session does not exist afterwards. Live sessions continue."""
        c = self.connect()
        for session in ({"session": "c"}, {}):
            answer = c.call("print('ran')", **session).response()
            self.assertEqual(refusal(answer), (503, -32000, "full", True), answer.body)
            self.assertEqual(answer.json()["id"], 1)
            self.assertIn("2 sessions are live", answer.json()["error"]["message"])
            self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60)
        # The same connection serves calls of live sessions.
        self.assertEqual(self.value(c.call("x + 1", session="a")), 2)
        # A place becomes free: the control.
        self.assertEqual(self.run_cloister("sessions", "end", "b", "--server", str(self.server.pid)).returncode, 0)
        self.assertTrue(harness.wait_until(lambda: c.call("5", session="c").response().status == 200))

    def test_eras(self):
        """A legacy client, and one that accepts events only, get the same; in a batch the error has no status of its own."""
        c = self.connect()
        session = self.initialize(c)
        call = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "1", "session": "d"}}}
        answer = c.post(call, Mcp_Session_Id=session).response()
        self.assertEqual(refusal(answer), (503, -32000, "full", True), answer.body)
        answer = c.post(call, Mcp_Session_Id=session, Accept="text/event-stream").response()
        self.assertEqual(refusal(answer), (503, -32000, "full", True), answer.body)
        old = c.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}).response()
        answer = c.post([call], Mcp_Session_Id=old.headers["mcp-session-id"]).response()
        self.assertEqual((answer.status, json.loads(answer.body)[0]["error"]["data"]["reason"]), (200, "full"))

    def test_standard_output(self):
        """`cloister mcp` answers as before: a result that the model reads."""
        server = rawmcp.RawServer("--config", self.config(name="one.json", sessions=1, pool=0), cwd=self.dir)
        self.addCleanup(server.close)
        server.initialize()
        server.ask("tools/call", {"name": "run_python", "arguments": {"code": "1"}})
        result = server.ask("tools/call", {"name": "run_python", "arguments": {"code": "1", "session": "other"}})
        self.assertTrue(result["isError"])
        self.assertIn("1 sessions are live", str(result))


class Quota(Serve):
    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.put(f"alice {ALICE} sessions=1 cells_per_minute=3\nbob {BOB} calls=1\n")
        self.server = self.start(*self.ARGUMENTS, "--tokens", self.tokens)

    def put(self, text):
        with open(self.tokens + ".new", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        os.rename(self.tokens + ".new", self.tokens)

    def call(self, token, code, connection=None, **arguments):
        params = {"name": "run_python", "arguments": {"code": code, **arguments}}
        return (connection or self.connect()).modern("tools/call", params, Authorization=f"Bearer {token}")

    def test_cells_per_minute(self):
        """Three run at once, the fourth waits; another principal is not affected, and a new number counts at once."""
        for _ in range(3):
            self.value(self.call(ALICE, "1", session="a"))
        answer = self.call(ALICE, "1", session="a").response()
        self.assertEqual(refusal(answer), (429, -32000, "quota", True), answer.body)
        self.assertIn("3 cells a minute", answer.json()["error"]["message"])
        self.assertTrue(10 <= int(answer.headers["retry-after"]) <= 20, answer.headers)
        for _ in range(5):
            self.value(self.call(BOB, "1", session="a"))
        self.put(f"alice {ALICE} sessions=1\nbob {BOB}\n")
        self.assertTrue(harness.wait_until(lambda: self.call(ALICE, "1", session="a").response().status == 200))

    def test_sessions(self):
        self.value(self.call(ALICE, "1", session="a"))
        self.assertEqual(refusal(self.call(ALICE, "1", session="b").response()), (429, -32000, "quota", True))
        self.assertEqual(self.value(self.call(ALICE, "2", session="a")), 2)

    def test_calls(self):
        long = self.call(BOB, "import time\ntime.sleep(2)\n3", session="a")
        time.sleep(0.3)
        self.assertEqual(refusal(self.call(BOB, "1", session="b").response()), (429, -32000, "quota", True))
        self.assertEqual(self.value(long), 3)

    def test_too_many_calls(self):
        """A call of a session that lives here is not sent elsewhere by a balancer, where its variables are not: 429. The control: a new session."""
        self.put(f"alice {ALICE} calls=1000\n")
        authorized = {"Authorization": f"Bearer {ALICE}"}
        self.assertTrue(harness.wait_until(lambda: self.call(BOB, "1", session="a").response().status == 401))
        c = self.connect()
        old = c.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}, **authorized).response()
        batch = [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "run_python", "arguments": {
            "code": "import time\ntime.sleep(60)", "session": f"s{n // 60}"}}} for n in range(600)]
        c.post(batch, Mcp_Session_Id=old.headers["mcp-session-id"], **authorized)

        def pending():
            listed = json.loads(self.run_cloister("sessions", "--json").stdout)
            return sum(s["waiting"] + (s["state"] == "running") for server in listed for s in server["sessions"] if ":s" in s["name"])

        refused = lambda name: refusal(self.call(ALICE, "1", session=name).response())
        # A principal may have half of 1,024.
        self.assertTrue(harness.wait_until(lambda: pending() >= 512), pending())
        self.assertEqual(refused("other"), (503, -32000, "full", True))
        self.assertEqual(refused("s0"), (429, -32000, "busy", True))

    def test_mistakes(self):
        """A line with a number that cannot be is refused, and names the keys."""
        for number in ("0", "-1", "1.5", "100000", "", "x"):
            self.put(f"alice {ALICE} cells_per_minute={number}\n")
            done = self.run_cloister("serve", *self.ARGUMENTS, "--tokens", self.tokens, "--config", self.config())
            self.assertEqual(done.returncode, 1, number)
            self.assertIn("line 1: profile=NAME, calls=N, sessions=N, cells_per_minute=N", done.stderr.decode())


if __name__ == "__main__":
    harness.main()
