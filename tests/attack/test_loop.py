"""Classes 90 to 94, processor time: the time that one turn of the broker's loop spends on a peer's messages.

At level debug the broker logs each turn of its loop that took more than 5 ms of processor time. While a turn takes long,
every other session waits.
"""

import json
import re
import subprocess
import sys
import time

import harness
import rawmcp

# Processor time, of which other load adds some. Without the background thread most of these take 70 to 95 ms on an idle machine.
MOST_MS = 50 * harness.SANITIZED * harness.SLOW

# The server's tool list: many large tools, one tool that is too large, or a million values that are not tools.
SERVER = r"""
import json, sys
out = sys.stdout.buffer
tool = b'{"name":"t%d","inputSchema":{"type":"object","x":"%s"}}'
lists = {"small": lambda: b'[' + tool % (0, b'') + b']',
         "large": lambda: b'[' + b','.join(tool % (i, b'y' * 1000000) for i in range(16)) + b']',
         "one": lambda: b'[' + tool % (0, b'y' * (24 << 20)) + b']',
         "many": lambda: b'[' + b','.join(b'{"name":"t%d","description":"%s"}' % (i, b'y' * 1500) for i in range(12000)) + b']',
         "values": lambda: b'[' + b'0,' * 900000 + b'0]'}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    key, result = b"error", b'{"code":-32601,"message":"no"}'
    if m["method"] == "tools/call":
        key, result = b"result", b'{"content":[]}'
    elif m["method"] == "initialize":
        key, result = b"result", b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}'
    elif m["method"] == "tools/list":
        key, result = b"result", b'{"tools":' + lists[sys.argv[1]]() + b'}'
    out.write(b'{"jsonrpc":"2.0","id":%d,"%s":%s}\n' % (m["id"], key, result))
    out.flush()
"""

# One result contains all displayed, printed and returned values.
SHOWN = {
    "text": "class T:\n    def _repr_html_(self):\n        return '\\u20ac' * (3 << 20)\ndisplay(T())",
    "pictures": harness.PICTURES + "for _ in range(4): display(P())",
    "output": "import os\nfor _ in range(100): os.write(1, ('\\u20ac' * 21845).encode())",
    "error": "raise ValueError('x' * (2 << 20))",
}


class Turns(rawmcp.ServerCase):
    ARGUMENTS = ("--log-level", "debug")

    @classmethod
    def servers(cls):
        return {name: {"command": sys.executable, "args": ["-c", SERVER, name]} for name in ("small", "large", "one", "many", "values")}

    def longest(self, attack, since=None):
        """The longest turn of the loop during the attack, in ms. since: a place in the log."""
        before = len(self.server.log()) if since is None else since
        attack()
        time.sleep(0.1)
        found = re.findall(r"a turn of the loop took (\d+) us", self.server.log()[before:])
        return max(map(int, found), default=0) / 1000

    def test_lists_of_tools(self):
        """94. Four servers list tools of up to 24 MiB at once."""
        def attack():
            # A server whose tools are in the cache from an earlier run is not started before a call.
            for name in ("large", "one", "many", "values"):
                self.call(f"await tools['{name}.t0']()", session=name)
                self.assertTrue(harness.wait_until(lambda name=name: f"server {name}: ready" in self.server.log(), 3 * harness.PATIENCE), name)
            self.assertEqual([c["ok"] for c in self.ok("_ = await mcp_small.t0()")["tool_calls"]], [True])

        # The lists were requested after the handshake.
        self.assertLess(self.longest(attack, since=0), MOST_MS)
        # Each list is shortened to its limits, and the small list is not shortened.
        self.assertIn("only 10,000 tools of 5 MiB and 200,000 values together are taken of a server", self.server.log())

    def test_what_a_cell_shows(self):
        """94."""
        for name, code in SHOWN.items():
            with self.subTest(name):
                self.assertLess(self.longest(lambda code=code: self.call(code, max_output=2000000)), MOST_MS)

    def test_large_arguments(self):
        """94. Of three calls the one that takes least: other load adds to a turn. None above 5 ms is logged; a copy of 15 MiB takes 6."""
        self.ok("text = 'x' * (15 << 20)\n_ = await mcp_small.t0()")
        turns = [self.longest(lambda: self.ok("_ = await mcp_small.t0(a=text)")) for _ in range(3)]
        self.assertLess(min(turns), 5 * harness.SANITIZED * harness.SLOW)

    def test_the_answer_is_whole(self):
        """A large answer arrives unchanged, and so do the messages after it."""
        result = self.call("class T:\n    def _repr_html_(self):\n        return 'x' * 1000000\ndisplay(T())\nprint('y' * 500000)\n'z' * 300000", max_output=2000000)
        cell = result["structuredContent"]
        self.assertEqual((len(cell["stdout"]), cell["displays"][0]["bytes"], len(cell["value"]["repr"])), (500001, 1000000, 262171))
        self.assertEqual(self.value("1 + 1"), 2)
        cut = self.ok("print('y' * 900000)", max_output=400000)
        self.assertEqual(cut["truncated"]["stdout_bytes"], 900001)
        whole = self.server.ask("resources/read", {"uri": cut["truncated"]["resource"]})
        self.assertEqual(len(whole["contents"][0]["text"]), 900001)


class Unread(harness.Case):
    """94. Messages that a client does not read."""

    def start(self, calls):
        """A client that sends calls with answers of 16 MiB each."""
        server = subprocess.Popen([harness.CLOISTER, "mcp", "--log-format", "text", "--config", self.config()], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=open(self.path("log"), "wb"), env=harness.environment(), cwd=self.dir)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stdin.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}}
        lines = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
        for i in range(calls):
            lines.append({"id": i + 1, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": SHOWN["pictures"]}}})
        server.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines))
        server.stdin.flush()
        return server

    def log(self):
        with open(self.path("log"), encoding="utf-8") as f:
            return f.read()

    def test_nothing(self):
        """The server exits when more than 64 MiB of output wait, and logs the reason."""
        server = self.start(8)
        self.assertEqual(server.wait(harness.PATIENCE * 3), 1)
        self.assertIn("standard output: the client does not read, and 64 MiB wait for it: the server ends", self.log())

    def test_control_late(self):
        """The same calls with a client that reads later: it gets all messages if their size is below the limit."""
        server = self.start(3)
        time.sleep(1)
        self.assertEqual([json.loads(server.stdout.readline()).get("id") for _ in range(4)], [0, 1, 2, 3])
        server.stdin.close()
        self.assertEqual((server.wait(harness.PATIENCE), self.log()), (0, ""))


if __name__ == "__main__":
    harness.main()
