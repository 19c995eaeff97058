"""Tasks of both eras, over standard input and output and over HTTP: a long call outlives its request and its connection."""

import json
import os
import time

import harness
import rawmcp
import test_serve

EXTENSION = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
DECLARED = {"io.modelcontextprotocol/clientCapabilities": EXTENSION}


class Stdio(rawmcp.ServerCase):
    def begin(self, code, meta=None, ttl=60000, **arguments):
        """The task of a call."""
        arguments.setdefault("session", self.session)
        params = {"name": "run_python", "arguments": {"code": code, **arguments}, "task": {"ttl": ttl}}
        return self.server.ask("tools/call", {**params, **({"_meta": meta} if meta else {})})["task"]

    def about(self, task, method="get"):
        return self.server.ask("tasks/" + method, {"taskId": task["taskId"]})

    def refused(self, method, params):
        with self.assertRaises(rawmcp.RpcError) as caught:
            self.server.ask(method, params)
        return caught.exception.code

    def test_the_answer_is_kept(self):
        task = self.begin("import time\ntime.sleep(1.5)\n[6 * 7, time.time()]")
        begun = time.time()
        self.assertEqual((task["status"], task["ttl"]), ("working", 60000))
        result = self.about(task, "result")  # waits
        value, ended = result["structuredContent"]["value"]["json"]
        self.assertEqual(value, 42)
        self.assertLess(begun, ended, "the task's first answer came after its end")
        self.assertEqual(result["_meta"]["io.modelcontextprotocol/related-task"], {"taskId": task["taskId"]})
        self.assertEqual(self.about(task)["status"], "completed")
        self.assertIn(task["taskId"], [t["taskId"] for t in self.server.ask("tasks/list", {})["tasks"]])
        tool = self.server.ask("tools/list", {})["tools"][0]
        self.assertEqual(tool["execution"], {"taskSupport": "optional"})

    def test_cancel_interrupts_the_code(self):
        self.ok("x = 1")
        task = self.begin("import time\nx = 2\ntime.sleep(60)")
        self.wait_running()
        self.assertEqual(self.about(task, "cancel")["status"], "cancelled")
        self.assertEqual(self.refused("tasks/cancel", {"taskId": task["taskId"]}), -32602)
        self.assertIn(self.value("x"), (1, 2))  # the session continues; the task may have been cancelled before its second line
        self.assertEqual(self.about(task)["status"], "cancelled")

    def test_ids_cannot_be_guessed(self):
        task = self.begin("1")
        one = task["taskId"]
        for guess in (one[:-1], one + "0", one[:-1] + ("0" if one[-1] != "0" else "1"), one.upper() + "G", "", "x" * 100000, "../" + one, one + "\0"):
            for method in ("get", "result", "cancel"):
                with self.subTest(guess=guess[:40], method=method):
                    self.assertEqual(self.refused("tasks/" + method, {"taskId": guess}), -32602)
        for wrong in (None, 7, [one], {"taskId": one}):
            self.assertEqual(self.refused("tasks/get", {"taskId": wrong}), -32602)
        self.assertEqual(len({self.begin("1")["taskId"] for _ in range(5)}), 5)

    def test_two_tasks_with_one_progress_token(self):
        tasks = [self.begin("import time\ntime.sleep(1.2)\n%d" % i, {"progressToken": "same"}) for i in range(2)]
        values = [self.about(task, "result")["structuredContent"]["value"]["json"] for task in tasks]
        self.assertEqual(values, [0, 1])

    def test_errors_are_answered_at_once(self):
        with self.assertRaises(rawmcp.RpcError):
            self.server.ask("tools/call", {"name": "nothing", "task": {}})
        self.assertTrue(self.server.ask("tools/call", {"name": "run_python", "arguments": {}, "task": {}})["isError"])
        self.assertEqual(self.refused("tools/call", {"name": "run_python", "arguments": {"code": "1"}, "task": 1}), -32602)

    def test_after_its_time(self):
        task = self.begin("1", ttl=1000)
        self.about(task, "result")
        self.assertTrue(harness.wait_until(lambda: self.refused_or_none(task) == -32602, 10))

    def refused_or_none(self, task):
        try:
            self.about(task)
        except rawmcp.RpcError as error:
            return error.code
        return None


class Http(test_serve.Serve):
    def legacy(self, c, session, id, method, params):
        return c.post({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, Mcp_Session_Id=session).response()

    def call_modern(self, c, code):
        return c.modern("tools/call", {"name": "run_python", "arguments": {"code": code}}, meta=DECLARED)

    def about(self, method, task, meta=DECLARED, **headers):
        params = {"taskId": task, **({"inputResponses": {}} if method == "update" else {})}
        return self.connect().modern("tasks/" + method, params, meta=meta, Mcp_Name=task, **headers).response()

    def test_outlives_connection_and_session(self):
        c = self.connect()
        session = self.initialize(c)
        params = {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(1)\n6 * 7"}, "task": {}}
        task = self.legacy(c, session, 1, "tools/call", params).json()["result"]["task"]
        self.assertEqual(c.request("DELETE", "/mcp", {"Mcp-Session-Id": session}).response().status, 204)
        c.close()
        c = self.connect()
        session = self.initialize(c)
        listed = self.legacy(c, session, 1, "tasks/list", {}).json()["result"]["tasks"]
        self.assertEqual([t["taskId"] for t in listed], [task["taskId"]])
        answer = self.legacy(c, session, 2, "tasks/result", {"taskId": task["taskId"]})
        message = answer.json() if answer.body else [m for _, m in answer.events() if m][-1]
        self.assertEqual(message["result"]["structuredContent"]["value"]["json"], 42)

    def test_made_of_a_long_call(self):
        quick = self.call_modern(self.connect(), "1 + 1").response().json()["result"]
        self.assertEqual((quick["resultType"], quick["structuredContent"]["value"]["json"]), ("complete", 2))
        made = self.call_modern(self.connect(), "import time\ntime.sleep(1.5)\n6 * 7").response().json()["result"]
        self.assertEqual((made["resultType"], made["status"]), ("task", "working"))
        task = made["taskId"]

        def ended():
            got.append(self.about("get", task).json()["result"])
            return got[-1]["status"] != "working"

        got = []
        self.assertTrue(harness.wait_until(ended))
        self.assertEqual((got[-1]["status"], got[-1]["result"]["structuredContent"]["value"]["json"]), ("completed", 42))
        self.assertEqual(self.about("update", task).json()["result"]["resultType"], "complete")
        self.assertEqual(self.about("cancel", task).json()["result"]["resultType"], "complete")
        undeclared = self.about("get", task, meta=())
        self.assertEqual((undeclared.status, undeclared.json()["error"]["code"]), (400, -32021))
        mismatch = self.connect().modern("tasks/get", {"taskId": task}, meta=DECLARED, Mcp_Name="another").response()
        self.assertEqual((mismatch.status, mismatch.json()["error"]["code"]), (400, -32020))
        self.assertEqual(self.connect().modern("tasks/list", {}, meta=DECLARED).response().status, 404)

    def test_who_leaves_first_cancels(self):
        """Before the client has the task, the call belongs to its request."""
        c = self.connect()
        c.modern("tools/call", {"name": "run_python", "arguments": {
            "code": "import time\nx = 1\ntime.sleep(30)\nx = 2", "session": "left"}}, meta=DECLARED)
        time.sleep(0.2)
        c.close()
        began = time.monotonic()
        again = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": "x", "session": "left"}}, meta=DECLARED)
        result = again.response().json()["result"]
        if result["resultType"] == "task":
            self.assertTrue(harness.wait_until(lambda: self.about("get", result["taskId"]).json()["result"]["status"] != "working"))
            result = self.about("get", result["taskId"]).json()["result"]["result"]
        self.assertLess(time.monotonic() - began, 20 * harness.SLOW)
        self.assertNotEqual(result["structuredContent"].get("value", {}).get("json"), 2)

    def test_subscription(self):
        made = self.call_modern(self.connect(), "import time\ntime.sleep(2)\n6 * 7").response().json()["result"]
        listening = self.connect().modern("subscriptions/listen", {"notifications": {"taskIds": [made["taskId"], "nobody's"]}}, meta=DECLARED)
        events = (message for _, message in listening.response().events() if message)
        self.assertEqual(next(events)["params"]["notifications"], {"taskIds": [made["taskId"]]})
        note = next(events)
        self.assertEqual((note["method"], note["params"]["status"]), ("notifications/tasks", "completed"))
        self.assertEqual(note["params"]["result"]["structuredContent"]["value"]["json"], 42)


class Principals(test_serve.Serve):
    ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"

    def setUp(self):
        harness.Case.setUp(self)
        tokens = self.write("tokens", f"alice {self.ALICE}\nbob {self.BOB}\n")
        os.chmod(tokens, 0o600)
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", tokens)

    def test_anothers_task_is_unknown(self):
        c = self.connect()
        sent = c.modern("tools/call", {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(1)\n'secret'"}},
                        meta=DECLARED, Authorization=f"Bearer {self.ALICE}")
        task = sent.response().json()["result"]["taskId"]

        def ask(token, method):
            params = {"taskId": task, "inputResponses": {}} if method == "update" else {"taskId": task}
            return self.connect().modern("tasks/" + method, params, meta=DECLARED, Mcp_Name=task,
                                         Authorization=f"Bearer {token}").response().json()

        for method in ("get", "update", "cancel"):
            self.assertEqual(ask(self.BOB, method)["error"]["code"], -32602, method)
        self.assertTrue(harness.wait_until(lambda: ask(self.ALICE, "get")["result"]["status"] == "completed"))
        self.assertIn("secret", json.dumps(ask(self.ALICE, "get")))
        self.assertNotIn("secret", json.dumps(ask(self.BOB, "get")))


if __name__ == "__main__":
    harness.main()
