"""The live view of `cloister serve` (/ui, /ui/events) without a browser, and `cloister top`."""

import contextlib
import re
import unittest

import harness
from test_serve import Connection
from test_service_metrics import ALICE, OPS, Admin
from test_watch import Terminal

HTML = "<img src=x onerror=alert(1)>"
BUSY = f"import asyncio, os\nprint({HTML!r}, flush=True)\nwhile not os.path.exists('go'):\n    await asyncio.sleep(0.01)"


class View(Admin):
    def setUp(self):
        harness.Case.setUp(self)
        self.file = self.tokens()
        self.server = self.start(*self.ARGUMENTS, "--tokens", self.file)

    @contextlib.contextmanager
    def stream(self):
        with contextlib.closing(Connection(self.admin)) as c:
            answer = c.request("GET", "/ui/events", {"Authorization": f"Bearer {OPS}"}).response()
            self.assertEqual(answer.status, 200)
            yield c, (state for _, state in answer.events())

    def run_code(self, code, **arguments):
        return self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": code, **arguments}}, Authorization=f"Bearer {ALICE}")

    def test_page(self):
        size = 0
        for path, kind in (("/ui", "text/html"), ("/ui/view.js", "text/javascript"), ("/ui/view.css", "text/css")):
            answer = self.ask(path)
            self.assertTrue(answer.headers["content-type"].startswith(kind))
            self.assertIn("default-src 'self'", answer.headers["content-security-policy"])
            self.assertEqual((answer.headers["x-content-type-options"], answer.headers["cache-control"]), ("nosniff", "no-store"))
            size += len(answer.body)
            # Neither inline code, which the policy forbids, nor text of others as HTML.
            self.assertNotRegex(answer.body.decode(), r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|<script>|<style|\bon[a-z]+=|style=|https?://")
        self.assertLess(size, 100 * 1024)

    def test_what_it_shows(self):
        call = self.run_code(BUSY, session="s", wait=60)
        with self.stream() as (_, states):
            for state in states:
                (session,) = state["sessions"] or [{}]
                if "line" in session:
                    break
            self.assertEqual((session["principal"], session["name"], session["state"]), ("alice", "s", "running"))
            self.assertEqual((session["code"], session["line"]), ("import asyncio, os", HTML))
            self.assertGreater(session["memory"], 0)
            self.assertEqual((state["live"], state["sessions"][0]["cells"]), (1, 1))
            done = self.run_cloister("cp", "/dev/null", "alice:s:go", "--server", str(self.server.pid), cwd="/")
            self.assertEqual(done.returncode, 0, done)
            self.assertFalse(call.response().json()["result"]["isError"])
            for state in states:
                (session,) = state["sessions"]
                if "running_ms" not in session:
                    break
            self.assertNotIn("line", session)
            self.assertGreaterEqual(session["idle_ms"], 0)

    def test_streams_have_a_limit(self):
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(self.stream()) for _ in range(9)]
            for _, states in streams:
                next(states)
            list(streams[0][1])  # the oldest has ended
            next(streams[1][1])
            next(streams[8][1])

    def test_slow_reader(self):
        """One that reads nothing gets no further event, and holds no memory that grows."""
        self.run_code("1", session="s").response()
        with contextlib.closing(Connection(self.admin, window=1024)) as c:
            c.request("GET", "/ui/events", {"Authorization": f"Bearer {OPS}"})
            with self.stream() as (_, states):
                for _ in range(3):
                    next(states)
        held = [v for k, v in self.metrics(OPS).items() if k == 'cloister_memory_bytes{part="http"}']
        self.assertLess(held[0], 64 * 1024)


class Top(Admin):
    ARGUMENTS = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")

    def test_order(self):
        c = self.connect()
        c.call("x = bytearray(b'x') * (64 << 20)", session="large").response()
        c.call("import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass", session="busy").response()
        terminal = Terminal("top", "--server", str(self.server.pid), columns=150)
        names = lambda: re.findall(r"^(large|busy) ", "\n".join(terminal.frame()), re.MULTILINE)
        self.assertTrue(terminal.until(lambda out: sorted(names()) == ["busy", "large"]), terminal.out)
        self.assertRegex(terminal.frame()[0], r"^1 server, 2 of \d+ places, \d+ ready, .* sorted by processor")
        terminal.send(b"m")
        self.assertTrue(terminal.until(lambda out: "sorted by memory" in terminal.frame()[0] and names() == ["large", "busy"]), terminal.frame())
        terminal.send(b"a")
        self.assertTrue(terminal.until(lambda out: "sorted by age" in terminal.frame()[0] and names() == ["large", "busy"]), terminal.frame())
        terminal.send(b"x")  # no key
        terminal.send(b"t")
        self.assertTrue(terminal.until(lambda out: "sorted by tool calls" in terminal.frame()[0] and names() == ["busy", "large"]), terminal.frame())
        terminal.send(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_without_a_terminal(self):
        done = self.run_cloister("top")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"top needs a terminal", done.stderr)


if __name__ == "__main__":
    unittest.main()
