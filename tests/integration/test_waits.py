"""Calls that do not wait for the end of their code: wait, interrupt, calls without code, sessions that are busy."""

import json
import os
import time

import harness
import rawmcp
import test_serve

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
# Waits until a file exists, so that the test controls when the cell ends.
UNTIL = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('gone on')\n6 * 7"


class Waiting(rawmcp.ServerCase):
    META = None

    def start(self, **arguments):
        params = {"name": "run_python", "arguments": {"session": self.session, **arguments}}
        return self.server.request("tools/call", {**params, **({"_meta": self.META} if self.META else {})})

    def take(self, **arguments):
        return self.start(**arguments).result(harness.PATIENCE)["structuredContent"]

    def begin(self, code, text):
        """Starts code that keeps running, and waits until it has printed a text, however busy the machine is. Returns the output."""
        cell = self.take(code=code, wait=0.3, timeout=600)
        out = cell.get("stdout", "")
        while cell["status"] == "running" and text not in out:
            cell = self.take(wait=0.3)
            out += cell.get("stdout", "")
        self.assertEqual((cell["status"], text in out), ("running", True), cell)
        return out

    def listen(self):
        """The result of code that ends soon, and the output of all answers until then."""
        out = ""
        while True:
            cell = self.take(wait=0.2)
            out += cell.get("stdout", "")
            if cell["status"] != "running":
                return cell, out

    def check_the_code_goes_on(self):
        code = "import time\nfor i in range(6):\n    print(i, flush=True)\n    time.sleep(0.08)\n'done'"
        first = self.take(code=code, wait=0.2, timeout=60)
        self.assertEqual(first["status"], "running")
        last, rest = self.listen()
        self.assertEqual((last["status"], last["value"]["json"], last["state"]), ("ok", "done", "new"))
        self.assertEqual(first.get("stdout", "") + rest, "".join(f"{i}\n" for i in range(6)))
        self.assertIn("no code runs in session", self.take(wait=1)["error"]["message"])
        self.assertEqual(self.value("i"), 5)


class Waits(Waiting):
    def test_the_code_goes_on(self):
        self.check_the_code_goes_on()

    def test_a_result_that_nobody_fetches(self):
        self.take(code=f"import time\ntime.sleep({0.3 * harness.SLOW})\nprint('quiet')\n1 / 0", wait=0)
        self.wait_running(state="idle")
        cell = self.take(code="'new'")
        self.assertEqual((cell["status"], cell["value"]["json"]), ("ok", "new"))
        self.assertIn("status: error", cell["earlier"])
        self.assertIn("quiet\n", cell["earlier"])
        self.assertIn("ZeroDivisionError", cell["earlier"])
        self.assertNotIn("earlier", self.take(code="1"))

    def test_interrupt(self):
        self.ok("x = 1")
        self.begin("x = 2\nprint('on', flush=True)\nimport time\ntime.sleep(600)", "on")
        ended = self.take(interrupt=True)
        self.assertEqual((ended["status"], ended["state"]), ("cancelled", "kept"))
        self.assertIn("another call of the session interrupted it", ended["notice"])
        # Interrupt with code, while a request waits for the running cell.
        waits = self.start(code="import time\ntime.sleep(600)", timeout=600)
        self.wait_running()
        cell = self.take(code="x", interrupt=True)
        self.assertEqual((cell["value"]["json"], cell["state"]), (2, "kept"))
        self.assertIn("was interrupted", cell["notice"])
        self.assertEqual(waits.result()["structuredContent"]["status"], "cancelled")

    def test_interrupt_that_is_ignored(self):
        """The copy takes its place, and the code of the same call runs there."""
        self.ok("x = 'before'")
        time.sleep(0.3 * harness.SLOW)  # the copy is made
        self.begin("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx = 'within'\nprint('on', flush=True)\nwhile True: pass", "on")
        cell = self.take(code="x", interrupt=True)
        self.assertEqual((cell["status"], cell["value"]["json"]), ("ok", "before"))
        self.assertIn("restored to the end of cell 1", cell["earlier"])

    def test_busy(self):
        self.begin("x = 0\n" + UNTIL, "begun")
        cell = self.take(code="x = 1", wait=0.2)
        self.assertEqual(cell["status"], "busy")
        self.assertEqual((cell["running"]["code"], cell["running"]["last_line"]), ("x = 0", "begun"))
        self.assertEqual(self.take(wait=0)["status"], "running")
        self.take(interrupt=True)
        self.assertEqual(self.value("x"), 0)

    def test_the_timeout_holds(self):
        first = self.take(code="import time\nprint('a', flush=True)\ntime.sleep(600)", wait=0, timeout=harness.SLOW)
        last = self.take(wait=harness.PATIENCE / 2)
        output = first.get("stdout", "") + last.get("stdout", "")  # the first answer has it if the code was quick
        self.assertEqual((last["status"], output), ("timeout", "a\n"))

    def test_sixty_four_that_wait(self):
        """Each is answered, each output once, and the result once."""
        first = self.begin(UNTIL, "begun")
        calls = [self.start(wait=i % 7 / 10) for i in range(64)]
        cells = [call.result(harness.PATIENCE)["structuredContent"] for call in calls]
        self.assertEqual({cell["status"] for cell in cells}, {"running"})
        self.assertEqual(first + "".join(cell.get("stdout", "") for cell in cells), "begun\n")
        calls = [self.start(session=self.session) for _ in range(8)]
        self.take(interrupt=True, session=self.session + "2")  # of no use
        self.server.call("open('/workspace/out/x', 'w')", session=self.session + "2")
        cells = [call.result(harness.PATIENCE)["structuredContent"]["status"] for call in calls[:-1]]
        self.assertEqual(set(cells), {"running"})
        self.assertEqual(self.take(interrupt=True)["status"], "cancelled")
        self.assertEqual(calls[-1].result()["structuredContent"]["status"], "running")

    def test_without_end_and_without_a_listener(self):
        """The kept output has a limit, the session is usable, and the full output has a resource URI."""
        self.take(code="while True: print('x' * 1000)", wait=0, timeout=600)
        time.sleep(0.4)
        self.assertEqual(self.take(wait=0)["status"], "running")
        last = self.take(interrupt=True)
        self.assertEqual(last["status"], "cancelled")
        self.assertGreater(last["truncated"]["stdout_bytes"], 1_000_000)
        self.assertIn("stdout", last["truncated"]["resource"])
        self.assertLess(len(json.dumps(last)), 30_000)

    def test_refused(self):
        for arguments in ({"wait": -1}, {"wait": 1e9}, {"wait": "NaN"}, {"wait": []}, {"interrupt": "soon"}, {"reset": True}, {}):
            with self.subTest(arguments):
                cell = self.take(**({"code": "1"} if "wait" in arguments else {}), **arguments)
                self.assertEqual(cell["status"], "error", cell)


class Modern(Waiting):
    META = META

    def test_the_code_goes_on(self):
        self.check_the_code_goes_on()


class Http(test_serve.Serve):
    """A session, its code that runs, and its result belong to a principal. A connection that ends leaves them."""

    ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"

    def setUp(self):
        harness.Case.setUp(self)
        tokens = self.write("tokens", f"alice {self.ALICE}\nbob {self.BOB}\n")
        os.chmod(tokens, 0o600)
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", tokens)

    def take(self, token, **arguments):
        sent = self.connect().modern("tools/call", {"name": "run_python", "arguments": arguments}, Authorization=f"Bearer {token}")
        answer = sent.response()
        message = answer.json() if answer.body else [m for _, m in answer.events() if m and "id" in m][-1]
        return message["result"]["structuredContent"]

    def test_another_principal(self):
        first = self.take(self.ALICE, code="import time\nprint('secret', flush=True)\ntime.sleep(600)", session="s", wait=0.5, timeout=600)
        self.assertEqual((first["status"], first["stdout"]), ("running", "secret\n"))
        for arguments in ({"wait": 0.1}, {"interrupt": True}):
            cell = self.take(self.BOB, session="s", **arguments)
            self.assertIn("no code runs in session", cell["error"]["message"])
        self.assertNotIn("earlier", self.take(self.BOB, session="s", code="1", interrupt=True))
        self.assertEqual(self.take(self.ALICE, session="s", wait=0)["status"], "running")
        # A connection that ends while its request waits.
        left = self.connect()
        left.modern("tools/call", {"name": "run_python", "arguments": {"session": "s"}}, Authorization=f"Bearer {self.ALICE}")
        time.sleep(0.2)
        left.close()
        time.sleep(0.1)
        self.assertEqual(self.take(self.ALICE, session="s", wait=0)["status"], "running")
        self.assertEqual(self.take(self.ALICE, session="s", interrupt=True)["status"], "cancelled")


if __name__ == "__main__":
    harness.main()
