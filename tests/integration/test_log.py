"""The log of a server: one line per event, as text or JSON, with ids, without secrets."""

import calendar
import json
import os
import pty
import stat
import time

import harness
from rawmcp import RawServer

SECRET = "correct-horse-battery"


class Log(harness.Case):
    def serve(self, *args, env=None, **config):
        server = RawServer("--config", self.config(**config), *args, cwd=self.dir, env=env)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def lines(self, text):
        return [json.loads(line) for line in text.splitlines()]

    def test_json_with_ids(self):
        server = self.serve("--log-format", "json", "--log-level", "debug", servers={"fix": harness.fixture()})
        call = server.start_call("await tools['echo'](text='x')", session="work")
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "ok")
        server.close()
        lines = self.lines(server.log())
        (cell,) = [line for line in lines if line["message"].startswith("cell ended: ok")]
        self.assertEqual((cell["session"], cell["request"], cell["cell"], cell["level"]), ("work", call.id, 1, "info"))
        (tool,) = [line for line in lines if line["message"].startswith("call succeeded")]
        self.assertEqual((tool["session"], tool["request"], tool["cell"]), ("work", call.id, 1))
        self.assertEqual((tool["server"], tool["tool"]), ("fix", "echo"))
        self.assertGreater(tool["call"], 0)
        for line in lines:
            when = time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")
            self.assertLess(abs(time.time() - calendar.timegm(when)), 600)

    def test_text(self):
        server = self.serve("--log-level", "info")
        server.cell("1", session="work")
        server.close()
        self.assertIn("cloister: info: cell ended: ok in ", server.log())
        self.assertIn("[session work, request 2, cell 1]", server.log())

    def test_json_without_a_terminal(self):
        """Without a terminal a server's log is JSON for programs; the log of `cloister run` is text."""
        path = self.write("broken.json", '{"mcpServers": {}, "timeuot": 3}')
        done = self.run_cloister("mcp", "--config", path)
        (line,) = self.lines(done.stderr.decode())
        self.assertIn("timeuot", line["message"])
        done = self.run_cloister("run", "--config", path, "-c", "1")
        self.assertIn(b"cloister: warning: ", done.stderr)

    def test_text_on_a_terminal(self):
        path = self.write("broken.json", '{"mcpServers": {}, "timeuot": 3}')
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        harness.subprocess.run([harness.CLOISTER, "mcp", "--config", path], stdin=harness.subprocess.DEVNULL,
                               stdout=harness.subprocess.DEVNULL, stderr=theirs, env=harness.environment(),
                               timeout=harness.PATIENCE, check=False)
        os.close(theirs)
        self.assertTrue(os.read(ours, 4096).startswith(b"cloister: warning: "))

    def test_level_of_the_config(self):
        server = self.serve(log_level="info")
        server.cell("1")
        server.close()
        self.assertIn("cell ended: ok", server.log())
        server = self.serve("--log-level", "error", log_level="info")
        server.cell("1")
        server.close()
        self.assertEqual(server.log(), "")
        done = self.run_cloister("run", "--config", self.config(log_level="loud"), "-c", "1")
        self.assertIn(b"log_level must be", done.stderr)

    def test_file(self):
        path = self.path("log")
        for _ in range(2):
            server = RawServer("--log-format", "json", "--log-level", "info", "--log-file", path, cwd=self.dir)
            self.addCleanup(server.free)
            server.initialize()
            server.cell("1")
            server.close()
            self.assertEqual(server.log(), "")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, encoding="utf-8") as f:
            messages = [line["message"] for line in self.lines(f.read())]
        self.assertEqual(len([m for m in messages if m.startswith("cell ended: ok")]), 2)

    def test_errors_are_seen_beside_the_file(self):
        path = self.path("log")
        done = self.run_cloister("run", "--log-file", path, "--image", "missing", "-c", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"missing", done.stderr)
        done = self.run_cloister("run", "--log-file", self.path("no/such"), "-c", "1")
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"--log-file", done.stderr)
        done = self.run_cloister("run", "--log-format", "xml", "-c", "1")
        self.assertEqual(done.returncode, 2)

    def test_secrets_are_masked(self):
        chatty = self.write("chatty.py", "import os, sys\nprint('my password is', os.environ['DB_PASSWORD'],"
                            " 'and API_KEY=0123456789abcdef', file=sys.stderr, flush=True)\nsys.stdin.read()\n")
        entry = {"command": harness.PYTHON, "args": [chatty], "env": {"DB_PASSWORD": SECRET}}
        server = self.serve("--log-level", "info", servers={"chatty": entry})
        self.assertTrue(harness.wait_until(lambda: "my password is" in server.log()))
        server.close()
        self.assertIn("my password is *** and API_KEY=***", server.log())
        self.assertNotIn(SECRET, server.log())


if __name__ == "__main__":
    harness.main()
