"""Ten defects of the system that users switch from, each of which must be right here."""

import time

import harness
import rawmcp


class Peers(rawmcp.ServerCase):
    """One test a defect, in the order of the list."""

    SERVERS = {"calendar": harness.fixture("--name", "calendar"), "late": harness.fixture("--slow-start", "1", "--tool", "only_late"),
               "one": harness.fixture("--tool", "twice"), "two": harness.fixture("--tool", "twice")}

    def test_01_system_exit_is_no_silent_success(self):
        self.ok("x = 1")
        self.assertEqual(self.cell("raise SystemExit(3)")["exit_code"], 3)
        self.assertEqual(self.ok("print('runs'); x")["stdout"], "runs\n")

    def test_02_a_killed_worker_is_no_success(self):
        result = self.call("import os\nos.kill(os.getpid(), 9)")
        self.assertTrue(result["isError"])
        self.assertEqual(result["structuredContent"]["status"], "killed")

    def test_03_a_long_line_of_output(self):
        cell = self.ok("print('y' * 100000)")
        self.assertEqual(cell["truncated"]["stdout_bytes"], 100001)
        self.assertEqual(self.ok("1")["state"], "kept")

    def test_04_a_tool_result_of_200_kilobytes(self):
        self.assertEqual(self.value("len(await tools['big'](n=200000))"), 200000)

    def test_05_a_forged_completion_is_output(self):
        code = "import sys, time\nsys.__stdout__.write('{\"type\":\"execution_done\",\"success\":true}\\n')\nsys.__stdout__.flush()\ntime.sleep(0.3)\nprint('rest')"
        self.assertTrue(self.ok(code)["stdout"].endswith("rest\n"))
        self.assertNotIn("rest", self.ok("1").get("stdout", ""))

    def test_06_two_calls_at_once(self):
        calls = [self.server.start_call(f"import time\ntime.sleep(0.3)\nprint({i})", session=self.session) for i in range(2)]
        self.assertEqual([c.result()["structuredContent"]["stdout"] for c in calls], ["0\n", "1\n"])

    def test_07_state_after_a_timeout_is_told(self):
        self.ok("x = 1")
        cell = self.cell("while True: pass", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"))
        self.assertEqual(self.value("x"), 1)

    def test_08_a_server_that_comes_later_has_all_its_names(self):
        self.ok("1")
        time.sleep(0.2)
        self.assertEqual(self.value("(await mcp_late.only_late())['tool']"), "only_late")
        self.assertEqual(self.value("(await only_late())['tool']"), "only_late")

    def test_09_the_type_of_output_does_not_depend_on_it(self):
        for printed in ("'007'", "'{\"a\":1}'", "'5'", "'true'"):
            self.assertIsInstance(self.ok(f"print({printed})")["stdout"], str)

    def test_10_one_positional_dict(self):
        self.assertEqual(self.value("await tools['echo']({'a': 1})"), {"a": 1})

    def test_read_partial_output_and_calls_are_there_after_a_failure(self):
        cell = self.cell("print('partial')\n_ = await tools['add'](a=1, b=1)\n1/0")
        self.assertEqual((cell["stdout"], cell["tool_calls_total"], cell["status"]), ("partial\n", 1, "error"))

    def test_read_stderr_is_there_after_success(self):
        self.assertEqual(self.ok("import sys\nprint('w', file=sys.stderr)")["stderr"], "w\n")

    def test_read_exit_code_and_output_are_there_after_a_failure(self):
        cell = self.cell("print('before')\nimport sys\nprint('why', file=sys.stderr)\nsys.exit(7)")
        self.assertEqual((cell["status"], cell["exit_code"], cell["stdout"], cell["stderr"]), ("exit", 7, "before\n", "why\n"))

    def test_read_whatever_is_printed_the_pipe_has_messages_only(self):
        # The reader of this test ends at a line that is no JSON.
        self.ok("import os, sys\nfor fd in range(16):\n    try:\n        os.write(fd, b'None\\n')\n    except OSError:\n        pass", session="noise")
        self.assertEqual(self.server.ask("ping"), {})

    def test_read_same_names_of_two_servers_are_both_there(self):
        self.assertEqual(self.value("(await mcp_one.twice())['tool'] + (await tools['two.twice']())['tool']"), "twicetwice")
        self.assertEqual(self.cell("await tools['twice']()")["error"]["type"], "cloister.ToolNotFound")

    def test_read_much_output_is_bounded_and_not_lost(self):
        cell = self.ok("print('y' * 3_000_000)")
        self.assertLess(len(cell["stdout"]), 11000)
        contents = self.server.ask("resources/read", {"uri": cell["truncated"]["resource"]})["contents"]
        self.assertIn("?offset=", contents[1]["uri"])

    def test_read_a_call_can_be_cancelled_and_is_heard_of(self):
        call = self.server.start_call("import time\nwhile True: time.sleep(0.1)", meta={"progressToken": "peers"}, session=self.session)
        tokens = lambda: [n["params"]["progressToken"] for n in self.server.notes if n["method"] == "notifications/progress"]
        self.assertTrue(harness.wait_until(lambda: "peers" in tokens()))
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertEqual(self.value("1"), 1)
        self.assertFalse(call.done())


if __name__ == "__main__":
    harness.main()
