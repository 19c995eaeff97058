"""Questions of published tools and of JavaScript sessions; sessions in which no plan can be made, or which have a network."""

import harness
import test_ask
from test_ask import NO, YES

SEND = "(await mcp_mail.send(to='p', text='x'))['ok']"
JAVASCRIPT = "await mcp_mail.send({to: 'j'}).then(r => r.ok, e => [e.name, String(e)])"


class Kinds(test_ask.Asking):
    SERVERS = {"mail": test_ask.SERVERS["mail"]}
    CONFIG = {
        "rules": [{"ask": "mail.send", "why": "mail leaves the house", "planned": {"ok": True}}],
        "ask": {"wait": 1, "timeout": "5m"},
        "publish": {"tools": {"post": {"description": "Sends a mail", "code": SEND}}},
        "profiles": {
            "js": {"language": "javascript", "agent": True},
            "writes": {"agent": True, "mounts": [{"source": "/var/tmp", "target": "/data", "mode": "rw"}]},
            "net": {"agent": True, "network": {"allow": ["127.0.0.1:9"]}},
        },
    }

    def published(self):
        return self.server.ask("tools/call", {"name": "post", "arguments": {}})

    def javascript(self, code, **arguments):
        return self.server.cell(code, tool="run_javascript", session=self.session, **arguments)

    def test_a_published_tool_asks(self):
        before = self.sent()
        result = self.published()
        self.assertFalse(result.get("isError"), result)
        self.assertTrue(self.messages()[0].startswith("1 call of mail.send: mail leaves the house: cloister approve "), self.messages())
        self.assertEqual(self.sent(), before + 1)
        self.server.answers = [NO]
        result = self.published()
        self.assertTrue(result["isError"], result)
        self.assertIn("a person answered no", result["content"][0]["text"])
        self.assertEqual((self.sent(), len(self.server.asked)), (before + 1, 2))

    def test_javascript_asks(self):
        before = self.sent()
        self.assertEqual(self.javascript(JAVASCRIPT)["value"]["json"], True)
        self.server.answers = [NO]
        name, text = self.javascript(JAVASCRIPT)["value"]["json"]
        self.assertEqual(name, "ToolDenied")
        self.assertIn("a person answered no", text)
        self.assertEqual((self.sent(), len(self.server.asked)), (before + 1, 2))
        # The time of the cell stands still.
        self.server.answers = [(2.5, YES)]
        self.assertEqual(self.javascript(JAVASCRIPT, timeout=2)["value"]["json"], True)
        cell = self.javascript("1", plan=True)
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "ArgumentError"), cell)
        self.assertIn('run_javascript has no argument "plan"', cell["error"]["message"])
        self.assertNotIn("\n", cell["error"]["message"])

    def test_code_that_writes_to_the_host_has_no_plan(self):
        cell = self.server.cell("open('/data/x', 'w')", session=self.session, profile="writes", plan=True)
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "SandboxError"), cell)
        self.assertIn('plan: code of profile "writes" can write to /data, and would do it before a person has answered', cell["error"]["message"])
        self.assertEqual(self.server.cell("1", session=self.session, profile="net", plan="only")["status"], "planned")

    def test_the_copy_has_no_network(self):
        code = "import socket\ntry:\n    with socket.create_connection(('127.0.0.1', PORT), 1) as s:\n        s.sendall(b'CONNECT 127.0.0.1:9 HTTP/1.1\\r\\n\\r\\n')\n        r = s.recv(12).decode()\nexcept OSError as e:\n    r = type(e).__name__\nr"
        code = code.replace("PORT", "int(__import__('os').environ['http_proxy'].rsplit(':', 1)[1].strip('/'))")
        cell = self.server.cell(code, session=self.session, profile="net", plan="only")
        in_copy = cell["value"]["json"]
        self.assertEqual(cell["status"], "planned", cell)
        self.assertFalse(in_copy.startswith("HTTP"), in_copy)
        self.assertTrue(self.value(code, profile="net").startswith("HTTP"))


if __name__ == "__main__":
    harness.main()
