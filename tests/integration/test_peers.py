"""Ten defects of the system that users switch from, each of which must be right here."""

import time

import harness
import rawmcp


class Peers(rawmcp.ServerCase):
    """One test a defect, in the order of the list."""

    SERVERS = {"calendar": harness.fixture("--name", "calendar"), "late": harness.fixture("--slow-start", "1", "--tool", "only_late")}

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


if __name__ == "__main__":
    harness.main()
