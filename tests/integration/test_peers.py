"""Defects of the system that users switch from, each of which must be right here."""

import time

import harness
import rawmcp


class Hostile(rawmcp.ServerCase):
    """Conditions that break other bridges: two tools of the same name, much output on stderr, long lines, pages, changes, secrets."""

    SERVERS = {
        "one": harness.fixture("--name", "one", "--stderr-flood", str(2 << 20)),
        "two": harness.fixture("--name", "two"),
        "pages": harness.fixture("--pages", "3"),
        "long": harness.fixture("--big-list", "1000"),
    }

    def test_same_named_tools_do_not_overwrite_each_other(self):
        self.assertEqual(self.value("[(await mcp_one.add(a=1, b=1))['sum'], (await mcp_two.add(a=2, b=2))['sum']]"), [2, 4])
        result = self.call("_ = _discover()\nawait tools['add'](a=1, b=2)")
        self.assertTrue(result["isError"])
        self.assertIn("one.add", self.text(result))

    def test_a_stderr_that_nobody_reads_does_not_hold_it_up(self):
        self.assertEqual(self.value("(await mcp_one.add(a=1, b=1))['sum']"), 2)

    def test_lines_above_64_kibibytes(self):
        self.assertEqual(self.value("[len(await mcp_two.big(n=n)) for n in (65536, 200000)]"), [65536, 200000])
        self.assertEqual(self.value("len(mcp_long)"), 1000)

    def test_pages_are_followed(self):
        self.assertEqual(self.value("sorted(mcp_pages)"), ["page_0", "page_1", "page_2"])

    def test_our_environment_is_not_handed_on(self):
        env = self.value("(await mcp_two.environment())['env']")
        self.assertNotIn("CLOISTER_IMAGE_STORE", env)
        self.assertLess(len(env), 20)


class Peers(rawmcp.ServerCase):
    """One test per defect, in the order of the list."""

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

    def test_07_the_answer_gives_the_state_after_a_timeout(self):
        self.ok("x = 1")
        cell = self.cell("while True: pass", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"))
        self.assertEqual(self.value("x"), 1)

    def test_08_a_server_that_starts_later_has_all_its_names(self):
        self.ok("1")
        time.sleep(0.2)
        self.assertEqual(self.value("(await mcp_late.only_late())['tool']"), "only_late")
        self.assertEqual(self.value("(await only_late())['tool']"), "only_late")

    def test_09_the_type_of_output_does_not_depend_on_it(self):
        for printed in ("'007'", "'{\"a\":1}'", "'5'", "'true'"):
            self.assertIsInstance(self.ok(f"print({printed})")["stdout"], str)

    def test_10_one_positional_dict(self):
        self.assertEqual(self.value("await tools['echo']({'a': 1})"), {"a": 1})

    def test_11_gathered_calls_that_nothing_refers_to(self):
        code = "import asyncio, gc\nr = asyncio.gather(*(mcp_calendar.sleep(seconds=0.2) for _ in range(20)))\ngc.collect()\nlen(await r)"
        self.assertEqual(self.value(code), 20)

    def test_12_structured_content_comes_first(self):
        self.assertEqual(self.value("await mcp_calendar.add(a=1, b=2)"), {"sum": 3})

    def test_13_an_image_is_no_raw_dict(self):
        self.assertEqual(self.value("[type(b).__name__ for b in await mcp_calendar.blocks()]"), ["str", "str", "Image"])

    def test_14_a_call_may_take_longer_than_half_a_minute(self):
        # Their bridge gives up after 30 s, whatever the timeout.
        self.assertEqual(self.value("await mcp_calendar.sleep(seconds=31)", wait=100), "slept")

    def test_read_partial_output_and_calls_are_there_after_a_failure(self):
        cell = self.cell("print('partial')\n_ = await tools['add'](a=1, b=1)\n1/0")
        self.assertEqual((cell["stdout"], cell["tool_calls_total"], cell["status"]), ("partial\n", 1, "error"))

    def test_read_stderr_is_there_after_success(self):
        self.assertEqual(self.ok("import sys\nprint('w', file=sys.stderr)")["stderr"], "w\n")

    def test_read_exit_code_and_output_are_there_after_a_failure(self):
        cell = self.cell("print('before')\nimport sys\nprint('why', file=sys.stderr)\nsys.exit(7)")
        self.assertEqual((cell["status"], cell["exit_code"], cell["stdout"], cell["stderr"]), ("exit", 7, "before\n", "why\n"))

    def test_read_whatever_is_printed_the_pipe_has_messages_only(self):
        # The reader of this test stops at a line that is not JSON.
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
