"""SIGTERM of `cloister serve`: calls that run are answered, new ones are refused so that a balancer can send them elsewhere, and the
exit status says whether every call was answered."""

import re
import select
import signal
import socket
import subprocess
import sys
import time

import harness
from test_serve import Serve

# Starts the program with sockets as systemd passes them: from descriptor 3 on.
PASS = """
import os, socket, sys
sockets = [socket.socket(fileno=int(fd)) for fd in sys.argv[1].split(",")]
for i, s in enumerate(sockets):
    os.dup2(s.fileno(), 3 + i)
    os.set_inheritable(3 + i, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sockets)))
os.execv(sys.argv[2], sys.argv[2:])
"""


def refusal(answer):
    """Status, Retry-After and reason of a refused call."""
    error = answer.json()["error"]
    return answer.status, error["code"], error["data"]["reason"], answer.headers["retry-after"] == str(error["data"]["retry_after"])


class Stop(Serve):
    SETTINGS = {}

    def setUp(self):
        harness.Case.setUp(self)
        self.log = harness.Log()
        self.server = self.spawn(self.log, *self.ARGUMENTS, "--config", self.config(name="stop.json", **self.SETTINGS), "-v")
        self.wait_serving(self.server, self.log)
        self.address = ("127.0.0.1", int(re.search(r":(\d+)/mcp", self.log.text())[1]))
        self.value(self.connect().call("1", session="warm"))

    def stop(self, process, log):
        if process.poll() is None:
            process.kill()
        process.wait(harness.PATIENCE)
        log.close()

    def running(self, code, **arguments):
        """A call whose code has begun: it prints first."""
        c = self.connect()
        params = {"name": "run_python", "arguments": {"code": f"print('begun', flush=True)\nimport time\n{code}", **arguments}}
        answer = c.modern("tools/call", params, id=7, meta={"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}).response()
        events = answer.events()
        self.assertTrue(any("begun" in str(message) for _, message in events))
        return events

    def last(self, events):
        return [message for _, message in events][-1]["result"]["structuredContent"]

    def drains(self):
        return harness.wait_until(lambda: "no call begins any more" in self.log.text())


class Terminate(Stop):
    def test_running_calls_finish(self):
        """The one that runs is answered, new ones get 503, and then the server ends with status 0."""
        events = self.running("time.sleep(1.5)\n'done'", session="warm")
        open_before = self.connect()
        self.server.send_signal(signal.SIGTERM)
        self.assertTrue(self.drains(), self.log.text())
        self.assertEqual(refusal(open_before.call("1")  # a new session
                                 .response()), (503, -32000, "draining", True))
        new = self.connect()  # the socket is our own: it stays open
        refused = new.call("1", session="warm").response()
        self.assertEqual(refusal(refused), (503, -32000, "draining", True))
        self.assertEqual((refused.json()["id"], refused.headers["connection"]), (1, "close"))
        self.assertEqual(self.connect().post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}).response().status, 503)
        self.assertEqual(self.status(), 200)
        self.assertEqual(self.last(events)["value"]["json"], "done")
        began = time.monotonic()
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())
        self.assertLess(time.monotonic() - began, 15 * harness.SLOW)  # less than drain_timeout

    def test_idle(self):
        """Streams that would not end by themselves do not delay the end."""
        c = self.connect()
        listening = c.modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}).response().events()
        self.assertEqual(next(listening)[1]["method"], "notifications/subscriptions/acknowledged")
        legacy = self.connect()
        session = self.initialize(legacy)
        stream = self.connect().request("GET", "/mcp", {"Mcp-Session-Id": session, "Accept": "text/event-stream"}).response()
        self.assertEqual(stream.status, 200)
        began = time.monotonic()
        self.server.send_signal(signal.SIGTERM)
        self.assertIn("result", [message for _, message in listening][-1])
        while stream.chunk():
            pass
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())
        self.assertLess(time.monotonic() - began, 15 * harness.SLOW)  # less than drain_timeout

    def test_streams_that_come_back(self):
        """A client that opens its stream again would keep the server from ending: it is refused."""
        legacy = self.connect()
        session = self.initialize(legacy)
        events = self.running("time.sleep(1.5)\n'done'", session="warm")
        self.server.send_signal(signal.SIGTERM)
        self.assertTrue(self.drains(), self.log.text())
        stream = self.connect().request("GET", "/mcp", {"Mcp-Session-Id": session, "Accept": "text/event-stream"}).response()
        self.assertEqual(stream.status, 503)
        listening = self.connect().modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}).response()
        self.assertEqual(refusal(listening), (503, -32000, "draining", True))
        self.assertEqual(self.last(events)["value"]["json"], "done")
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())

    def test_result_that_is_fetched(self):
        """A call that was answered with the status running is continued, also while the server drains."""
        c = self.connect()
        c.call("import time\ntime.sleep(1)\n'late'", session="warm", wait=0.1).response()
        self.server.send_signal(signal.SIGTERM)
        self.assertTrue(self.drains(), self.log.text())
        time.sleep(1.3)  # the code has ended: its result is kept
        fetched = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"session": "warm"}}).response()
        self.assertEqual(fetched.json()["result"]["structuredContent"]["value"]["json"], "late")
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())

    def test_second_signal(self):
        self.running("time.sleep(60)", session="warm")
        self.server.send_signal(signal.SIGTERM)
        self.assertTrue(self.drains(), self.log.text())
        began = time.monotonic()
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(harness.PATIENCE), 1, self.log.text())
        self.assertLess(time.monotonic() - began, 5 * harness.SLOW)

class Slow(Stop):
    SETTINGS = {"output": 10_000_000}

    def test_client_that_does_not_read(self):
        """Its answer cannot be delivered: the server ends nevertheless, with status 1."""
        slow = self.connect(window=4096)
        slow.call("print('x' * 9_000_000)", session="warm")
        self.assertTrue(select.select([slow.socket], [], [], harness.PATIENCE)[0])
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(2 * harness.PATIENCE), 1, self.log.text())


class Timeout(Stop):
    SETTINGS = {"drain_timeout": 0.5}

    def test_cancelled(self):
        """What runs at the end of the time is interrupted and answered, with its output; so is code that waits behind it."""
        events = self.running("print('half')\ntime.sleep(60)", session="warm")
        behind = self.connect().call("'never'", session="warm", wait=60)
        time.sleep(0.3)
        self.server.send_signal(signal.SIGTERM)
        result = self.last(events)
        self.assertEqual((result["status"], result["state"]), ("cancelled", "kept"), result)
        self.assertIn("the server is stopping", str(result))
        self.assertIn("half", result["stdout"])
        waited = behind.response().json()["result"]["structuredContent"]
        self.assertEqual(waited["status"], "cancelled")
        self.assertIn("the server is stopping", str(waited))
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())

    def test_killed(self):
        """Code that does not end is killed: it is answered too, and the exit status is 1."""
        code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nprint('half')\ntime.sleep(60)"
        events = self.running(code, session="warm")
        self.server.send_signal(signal.SIGTERM)
        result = self.last(events)
        self.assertEqual(result["status"], "cancelled", result)
        self.assertIn("the server is stopping", str(result))
        self.assertEqual(self.server.wait(harness.PATIENCE), 1, self.log.text())


@harness.once
class Passed(Serve):
    def setUp(self):
        harness.Case.setUp(self)

    def listeners(self):
        tcp = socket.socket()
        tcp.bind(("127.0.0.1", 0))
        local = socket.socket(socket.AF_UNIX)
        local.bind(self.path("passed.sock"))
        for s in (tcp, local):
            s.listen(8)
            s.set_inheritable(True)
            self.addCleanup(s.close)
        return tcp, local

    def spawn_passed(self, log, sockets):
        fds = ",".join(str(s.fileno()) for s in sockets)
        command = [sys.executable, "-c", PASS, fds, harness.CLOISTER, "serve", "--config", self.config(), "-v"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=harness.environment(), cwd=self.dir,
                                   pass_fds=[s.fileno() for s in sockets])
        self.addCleanup(self.stop, process, log)
        self.wait_serving(process, log, 2)
        return process

    def test_next_instance_gets_the_clients(self):
        """A draining server accepts no more on sockets that were passed: their clients wait for the next instance."""
        tcp, local = self.listeners()
        first_log, second_log = harness.Log(), harness.Log()
        first = self.spawn_passed(first_log, (tcp, local))
        busy = self.connect(tcp.getsockname())
        busy.call("import time\ntime.sleep(4)\n'first'", session="a")
        self.value(self.connect(self.path("passed.sock")).call("1"))
        first.send_signal(signal.SIGTERM)
        self.assertTrue(harness.wait_until(lambda: "no call begins" in first_log.text()), first_log.text())
        time.sleep(0.2)
        waiting = [self.connect(place).call("'next'") for place in (tcp.getsockname(), self.path("passed.sock"))]
        ready = select.select([c.socket for c in waiting], [], [], 0.7)[0]
        self.assertEqual(ready, [], "the draining server has answered")
        self.assertEqual(self.value(busy), "first")
        self.assertEqual(first.wait(harness.PATIENCE), 0, first_log.text())
        self.spawn_passed(second_log, (tcp, local))
        self.assertEqual([self.value(c) for c in waiting], ["next", "next"])


class Start(Serve):
    def setUp(self):
        harness.Case.setUp(self)

    def test_each_phase(self):
        """SIGTERM at any time of a start: the server ends, and nothing is left (check_residue)."""
        for delay in (0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.13, 0.2, 0.4):
            log = harness.Log()
            process = self.spawn(log, *self.ARGUMENTS)
            time.sleep(delay)
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(harness.PATIENCE), (0, -signal.SIGTERM), f"after {delay} s: {log.text()}")


    def test_hangup_in_each_phase(self):
        """SIGHUP reloads a server, and does not end one that starts, once the program has blocked it."""
        log = harness.Log()
        process = self.spawn(log, *self.ARGUMENTS)
        self.wait_serving(process, log)
        for _ in range(100):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.003)
        self.address = ("127.0.0.1", int(re.search(r":(\d+)/mcp", log.text())[1]))
        self.assertEqual(self.value(self.connect().call("1 + 1")), 2)


if __name__ == "__main__":
    harness.main()
