"""Servers that are reached by HTTP: both transports, both eras, sessions, tokens, and errors."""

import json
import os
import socket

import harness
import http_upstream
import rawmcp


class Http(rawmcp.ServerCase):
    """One Cloister with many upstream servers: each path of http_upstream is a separate server."""

    GOOD = ["json", "session", "stream", "resume", "legacy", "modern", "renamed", "token", "home"]
    BAD = ["away", "round", "dead", "cut", "half", "headers", "page", "broken", "locked", "empty", "other", "silent", "bad-session",
           "forgetful", "elsewhere", "wide"]

    @classmethod
    def servers(cls):
        cls.far = http_upstream.Server()
        cls.addClassCleanup(cls.far.end)
        os.chmod(cls.class_dir, 0o755)
        cls.token_file = os.path.join(cls.class_dir, "token")
        cls.put_token("first")
        entries = {name.replace("-", "_"): {"url": cls.far.url(name)} for name in cls.GOOD + cls.BAD}
        entries["json"]["headers"] = {"X-From": "${CLOISTER_TEST_NOTHING:-expanded}", "X-Empty": ""}
        entries["token"]["token"] = {"file": cls.token_file}
        entries["silent"]["start_timeout"] = 1
        entries["sse"] = {"type": "sse", "url": cls.far.url("legacy")}
        entries["printed"] = {"url": cls.far.url("token"), "token": {"command": ["/bin/cat", cls.token_file]}}
        entries["no_program"] = {"url": cls.far.url("token"), "token": {"command": ["/no/such/program"]}}
        entries["unset"] = {"url": cls.far.url("json"), "headers": {"X-A": "${CLOISTER_TEST_NOT_SET}"}}
        entries["refused"] = {"url": "http://127.0.0.1:9/mcp"}
        entries["tls"] = {"url": f"https://127.0.0.1:{cls.far.server_port}/json"}
        entries["no_name"] = {"url": "http://a..b/mcp"}
        return entries

    @classmethod
    def put_token(cls, token):
        with open(cls.token_file, "w", encoding="utf-8") as f:
            f.write(token + "\n")
        os.chmod(cls.token_file, 0o644)

    def echo(self, server, value):
        return self.value(f"await mcp_{server}.echo(value={value!r})")

    def fails(self, server, text, value="x"):
        """Checks that a call fails with this text in its error message, which is one line."""
        code = f"try:\n    r = await mcp_{server}['echo'](value={value!r})\nexcept ToolError as e:\n    r = str(e)\nr"
        cell = self.call(code)["structuredContent"]
        said = cell["value"]["json"] if cell["status"] == "ok" else cell.get("error", {}).get("message", str(cell))
        self.assertIn(text, said)
        self.assertNotIn("\n", said)
        return said

    def seen(self, name, method=None):
        return [entry for entry in self.far.state.seen[name] if method in (None, entry[0], entry[1])]

    # ---- servers that work ----

    def test_json_and_headers(self):
        self.assertEqual(self.echo("json", "é"), '"\\u00e9"')
        _, _, headers = self.seen("json", "tools/call")[-1]
        self.assertEqual((headers["X-From"], headers["X-Empty"], headers["MCP-Protocol-Version"]), ("expanded", "", "2025-11-25"))
        self.assertEqual(headers["Accept"], "application/json, text/event-stream")
        self.assertNotIn("Accept-Encoding", headers)

    def test_many_at_once(self):
        code = "import asyncio\nr = await asyncio.gather(*(mcp_json.echo(value=i) for i in range(200)))\nr == [i for i in range(200)] or r[:5]"
        self.assertIn(self.value(code), (True, [str(i) for i in range(5)]))

    def test_large_messages(self):
        self.assertEqual(self.value("len(await mcp_json.echo(value='x' * 3_000_000))"), 3_000_002)
        self.assertEqual(self.value("len(await mcp_stream.echo(value='x' * 3_000_000))"), 3_000_002)

    def test_events(self):
        self.assertEqual(self.echo("stream", "a"), '"a"')
        self.assertTrue(harness.wait_until(lambda: [e for e in self.seen("stream", "POST") if e[1] is None]), "the ping is not answered")

    def test_a_stream_that_ends_before_the_answer_is_resumed(self):
        before = self.far.state.calls["resume"]
        self.assertEqual(self.echo("resume", "a"), '"a"')
        self.assertEqual(self.far.state.calls["resume"] - before, 1)

    def test_a_session_that_is_lost_is_begun_again(self):
        self.assertEqual(self.echo("session", "forget"), '"forget"')
        before = self.far.state.calls["session"]
        self.assertEqual(self.echo("session", "b"), '"b"')
        self.assertEqual(self.far.state.calls["session"] - before, 1)
        ids = [headers.get("Mcp-Session-Id") for _, method, headers in self.seen("session") if method == "tools/call"]
        self.assertNotEqual(ids[-1], ids[-2])

    def test_http_with_sse_of_2024(self):
        self.assertEqual(self.echo("legacy", "a"), '"a"')
        self.assertEqual(self.echo("sse", "b"), '"b"')

    def test_the_modern_era(self):
        self.assertEqual(self.echo("modern", "a"), '"a"')
        _, _, headers = self.seen("modern", "tools/call")[-1]
        self.assertEqual((headers["MCP-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"]), ("2026-07-28", "tools/call", "echo"))
        self.assertNotIn("initialize", [method for _, method, _ in self.seen("modern")])

    def test_arguments_as_headers(self):
        self.value("await mcp_modern.sql(region=' é', deep={'n/m': 7}, flag=True)")
        _, _, headers = self.seen("modern", "tools/call")[-1]
        self.assertEqual((headers["Mcp-Param-Region"], headers["Mcp-Param-Deep"], headers["Mcp-Param-Flag"]), ("=?base64?IMOp?=", "7", "true"))
        self.value("await mcp_modern.sql(region='eu')")
        _, _, headers = self.seen("modern", "tools/call")[-1]
        self.assertEqual((headers["Mcp-Param-Region"], headers.get("Mcp-Param-Deep")), ("eu", None))
        # A schema that breaks the rules removes its tool, in the modern era only.
        self.assertEqual(self.value("[sorted(_schema(t)['name'] for t in tools if _schema(t)['server'] == s) for s in ('modern', 'json')]"),
                         [["echo", "sql"], ["echo", "sql", "wrong"]])

    def test_headers_that_have_changed(self):
        """A call that is refused for its headers has not run: the tools are listed again, and the call is sent once more."""
        calls = lambda: len(self.seen("renamed", "tools/call"))  # noqa: E731
        lists = lambda: len(self.seen("renamed", "tools/list"))  # noqa: E731
        self.assertEqual(self.echo("renamed", "eu"), '"eu"')
        self.assertEqual((calls(), lists()), (2, 2))
        self.assertEqual([h.get("Mcp-Param-Zone") for _, m, h in self.seen("renamed") if m == "tools/call"], [None, "eu"])
        # Later calls use the new list.
        self.assertEqual(self.echo("renamed", "us"), '"us"')
        self.assertEqual((calls(), lists()), (3, 2))
        # If the second attempt is refused, too, the call is not sent again.
        self.fails("renamed", "Mcp-Param-Zone is missing", "always")
        self.assertEqual((calls(), lists()), (5, 3))
        # Several calls at once use one list.
        self.value("import asyncio\nawait asyncio.gather(*(mcp_renamed.echo(value='always') for _ in range(5)), return_exceptions=True)\n1")
        self.assertEqual((calls(), lists()), (15, 4))
        # A call that may have run is not sent again.
        self.fails("renamed", "Mcp-Param-Zone is missing", "stream")
        self.fails("renamed", "Mcp-Param-Zone is missing", "late")
        self.assertEqual((calls(), lists()), (17, 4))

    def test_a_modern_call_is_cancelled_by_its_connection(self):
        self.echo("modern", "a")
        cell = self.cell("import asyncio\ntry:\n    await asyncio.wait_for(mcp_modern.echo(value='wait'), 0.5)\nexcept TimeoutError:\n    r = 'over'\nr")
        self.assertEqual(cell["status"], "ok", cell)
        self.assertTrue(harness.wait_until(lambda: self.far.state.calls["modern-cancelled"] == self.far.state.calls["modern-began"]))
        self.assertNotIn("notifications/cancelled", [method for _, method, _ in self.seen("modern")])

    def test_redirect_within_the_origin(self):
        self.assertEqual(self.echo("home", "a"), '"a"')

    def test_token_that_changes(self):
        self.assertEqual(self.echo("token", "a"), '"a"')
        self.assertEqual(self.echo("printed", "a"), '"a"')
        self.addCleanup(self.put_token, "first")
        self.addCleanup(setattr, self.far.state, "token", "first")
        self.far.state.token = "second-token"
        self.put_token("second-token")
        before = self.far.state.calls["token"]
        self.assertEqual(self.echo("token", "b"), '"b"')
        self.assertEqual(self.echo("printed", "b"), '"b"')
        self.assertEqual(self.far.state.calls["token"] - before, 2)
        self.far.state.token = "third-token"
        self.fails("printed", "refuses the token of its entry (HTTP status 401)")
        self.assertNotIn("second-token", self.server.log())

    # ---- servers that fail: one line each ----

    def test_not_reachable(self):
        self.fails("refused", "cannot connect to http://127.0.0.1:9: Connection refused")
        self.fails("no_name", "cannot resolve the name of http://a..b:80")
        self.fails("tls", "TLS with https://127.0.0.1:")
        self.fails("silent", "did not answer server/discover within 1 s")

    def test_entries_that_cannot_be_used(self):
        self.fails("unset", "${CLOISTER_TEST_NOT_SET}: the variable is not set")
        self.fails("no_program", "token: cannot run /no/such/program: not found")

    def test_a_call_that_may_have_run_is_not_sent_again(self):
        for name, text in (("dead", "closed the connection before its answer was complete"), ("half", "before its answer was complete"),
                           ("cut", "closed the connection before its answer was complete"), ("empty", "accepted the request without answering it"),
                           ("other", "answered, but not to the request")):
            with self.subTest(name):
                before = self.far.state.calls[name]
                said = self.fails(name, "")
                self.assertTrue(text in said or name == "cut" and "ended its stream without the answer" in said, said)
                self.assertEqual(self.far.state.calls[name] - before, 0 if name in ("empty", "other") else 1)

    def test_redirects(self):
        self.fails("away", f"redirects to another origin, http://localhost:{self.far.server_port}, which is not followed")
        self.fails("round", "redirects more than 3 times")
        self.assertEqual(self.seen("stolen"), [])

    def test_wrong_answers(self):
        self.fails("page", 'answered with content type "text/html"')
        self.fails("broken", "answered with HTTP status 500")
        self.fails("headers", "sends more than 128 KiB of headers")
        self.fails("bad_session", "session id")
        self.fails("locked", "needs a login: cloister login locked")
        self.fails("forgetful", "does not know the session that it has just begun")
        self.fails("elsewhere", "names an endpoint that has another origin")
        self.fails("wide", "sent an event of more than")

    def test_nothing_of_the_secrets_is_logged(self):
        self.assertNotIn("secret=1", self.server.log())


class OwnServer(harness.Case):
    """Cloister as an upstream server of Cloister."""

    @staticmethod
    def end(process):
        process.terminate()
        process.wait(harness.PATIENCE)

    @staticmethod
    def listens(port):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def test_cloister_serves_cloister(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        command = [harness.CLOISTER, "serve", "--listen", f"127.0.0.1:{port}", "--config", self.config({}, "far.json")]
        with open(self.path("far.log"), "wb") as log:
            far = harness.subprocess.Popen(command, stdin=harness.subprocess.DEVNULL, stdout=log, stderr=log, env=harness.environment(), cwd=self.dir)
        self.addCleanup(self.end, far)
        self.assertTrue(harness.wait_until(lambda: self.listens(port)))
        near = rawmcp.RawServer("--config", self.config({"far": {"url": f"http://127.0.0.1:{port}/mcp"}}), cwd=self.dir)
        self.addCleanup(near.free)
        near.initialize()
        cell = near.cell("r = await mcp_far.run_python(code='6 * 7')\nr['value']", wait=3 * harness.PATIENCE)
        self.assertIn("42", json.dumps(cell))
        self.assertEqual(near.close(), 0)


if __name__ == "__main__":
    harness.main()
