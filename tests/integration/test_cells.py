"""Cells: how run_python handles code, good and bad."""

import os
import time

import harness
import rawmcp


class Cells(rawmcp.ServerCase):
    """Values, state, output, tracebacks."""

    def test_value_of_the_last_expression(self):
        cell = self.ok("1 + 1")
        self.assertEqual(cell["value"], {"repr": "2", "json": 2})
        self.assertEqual(cell["state"], "new")

    def test_no_value_after_a_statement(self):
        self.assertNotIn("value", self.ok("x = 1"))
        self.assertNotIn("value", self.ok("None"))

    def test_value_types_do_not_depend_on_print(self):
        cell = self.ok("print('{\"a\": 1}')")
        self.assertEqual(cell["stdout"], '{"a": 1}\n')
        self.assertNotIn("value", cell)

    def test_variables_persist(self):
        self.ok("x = 41")
        cell = self.ok("x += 1; x")
        self.assertEqual(cell["value"]["json"], 42)
        self.assertEqual(cell["state"], "kept")

    def test_reset_gives_a_new_session(self):
        self.ok("x = 1")
        cell = self.cell("x", reset=True)
        self.assertEqual((cell["status"], cell["state"], cell["error"]["type"]), ("error", "new", "NameError"))

    def test_top_level_await(self):
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0, 7)"), 7)

    def test_async_for_and_with(self):
        self.ok("""
import contextlib
async def numbers():
    for i in range(3):
        yield i
@contextlib.asynccontextmanager
async def block():
    yield "in"
""")
        code = "seen = []\nasync for i in numbers():\n    seen.append(i)\nasync with block() as b:\n    seen.append(b)\nseen"
        self.assertEqual(self.value(code), [0, 1, 2, "in"])

    def test_a_background_task_runs_between_cells(self):
        self.ok("""
import asyncio
ticks = []
async def tick():
    while True:
        ticks.append(1)
        if len(ticks) == 6:
            open("/workspace/out/ticked", "w").close()
        await asyncio.sleep(0.01)
task = asyncio.ensure_future(tick())
await asyncio.sleep(0)""")
        self.assertTrue(harness.wait_until(lambda: self.written("ticked")))
        self.assertGreater(self.value("len(ticks)"), 5)

    def test_stdout_and_stderr_are_apart(self):
        cell = self.ok("import sys\nprint('out')\nprint('err', file=sys.stderr)")
        self.assertEqual((cell["stdout"], cell["stderr"]), ("out\n", "err\n"))

    def test_text_channel_says_it_too(self):
        result = self.call("import sys\nprint('seen here')\nprint('there', file=sys.stderr)\n6 * 7")
        text = self.text(result)
        for part in ("seen here", "there", "42"):
            self.assertIn(part, text)
        self.assertFalse(result.get("isError", False))

    def test_text_is_never_empty(self):
        self.assertTrue(self.text(self.call("x = 1")).strip())

    def test_error_is_in_both_channels(self):
        result = self.call("def f():\n    return 1 / 0\nf()")
        cell = result["structuredContent"]
        self.assertTrue(result["isError"])
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "ZeroDivisionError"))
        self.assertEqual(cell["error"]["line"], 2)
        for text in (cell["error"]["traceback"], self.text(result)):
            self.assertIn("return 1 / 0", text)
            self.assertIn("ZeroDivisionError: division by zero", text)

    def test_traceback_has_the_agents_lines_only(self):
        traceback = self.cell("def f():\n    raise KeyError('k')\nf()")["error"]["traceback"]
        self.assertEqual(traceback.count("File "), 2, traceback)

    def test_traceback_shows_source_of_an_earlier_cell(self):
        self.ok("def broken(x):\n    return x['no such key']")
        self.assertIn("return x['no such key']", self.cell("broken({})")["error"]["traceback"])

    def test_getsource_pickle_and_dataclasses_of_main(self):
        self.ok("""
import dataclasses, inspect, pickle
@dataclasses.dataclass
class Point:
    x: int
    y: int = 2
def double(n):
    return n * 2""")
        self.assertEqual(self.value("inspect.getsource(double).rstrip()"), "def double(n):\n    return n * 2")
        self.assertEqual(self.value("repr(pickle.loads(pickle.dumps(Point(1))))"), "Point(x=1, y=2)")
        self.assertEqual(self.value("pickle.loads(pickle.dumps(double))(4)"), 8)
        self.assertEqual(self.value("__name__"), "__main__")

    def test_stdin_is_at_its_end(self):
        self.assertEqual(self.value("import sys; sys.stdin.read()"), "")
        self.assertEqual(self.cell("input()")["error"]["type"], "EOFError")

    def test_json_only_where_it_is_exact(self):
        self.assertNotIn("json", self.ok("{1, 2}")["value"])
        self.assertNotIn("json", self.ok("(1, 2)")["value"])
        self.assertNotIn("json", self.ok("float('nan')")["value"])
        self.assertEqual(self.ok("{'a': [1.5, None, True]}")["value"]["json"], {"a": [1.5, None, True]})

    def test_place_and_interpreter(self):
        self.assertEqual(self.value("import os; os.getcwd()"), "/workspace")
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(6*7)'], capture_output=True, text=True).stdout"
        self.assertEqual(self.value(code), "42\n")

    def test_unicode_passes_unchanged(self):
        text = "naïve 漢字 🐍 \u2028 \x1b[1m \x00 end"
        self.assertEqual(self.value(f"{text!r}"), text)
        self.assertEqual(self.ok(f"print({text!r})")["stdout"], text + "\n")

    def test_undecodable_output(self):
        self.assertIn("ab", self.ok("import os\n_ = os.write(1, b'ab\\xff\\xfe\\n')")["stdout"])

    def test_facts_come_with_the_result(self):
        cell = self.ok("t = bytearray(64 << 20)\nfor _ in range(2000000): pass")
        self.assertGreater(cell["cpu_ms"], 0)
        self.assertGreater(cell["duration_ms"], 0)
        self.assertGreater(cell["peak_memory_bytes"], 64 << 20)
        self.assertEqual(cell["session"], self.session)
        self.assertEqual((cell["receipt"]["network"], cell["receipt"].get("output_bytes")), ("none", None))

    def test_the_peak_is_of_the_cell_where_the_kernel_can_reset_it(self):
        large = self.ok("t = bytearray(64 << 20); del t")
        cell = self.ok("print('x' * 50000)", max_output=100)
        self.assertIn(cell["receipt"]["peak_of"], ("cell", "session", "process", "sampled"))
        if cell["receipt"]["peak_of"] == "cell":
            self.assertLess(cell["peak_memory_bytes"], large["peak_memory_bytes"] - (32 << 20))
        else:
            self.assertGreaterEqual(cell["peak_memory_bytes"], large["peak_memory_bytes"])
        self.assertEqual(cell["receipt"]["output_bytes"], 50001)
        self.assertGreater(cell["receipt"]["kept_out_bytes"], 49000)

    def test_integers_and_floats_keep_their_value(self):
        self.assertEqual(self.value("2**200"), 2**200)
        self.assertEqual(self.value("0.1 + 0.2"), 0.30000000000000004)


class Channel(rawmcp.ServerCase):
    """Nothing that code does to its own process breaks the channel."""

    def survives(self, code, status="ok"):
        self.assertEqual(self.cell(code)["status"], status)
        self.assertEqual(self.value("40 + 2"), 42)

    def test_replaced_stdout(self):
        self.survives("import sys, io\nsys.stdout = io.StringIO()\nprint('into nothing')")

    def test_deleted_builtins(self):
        self.survives("import builtins\nfor n in ('print', 'repr', 'len', 'isinstance', 'compile'):\n    delattr(builtins, n)")

    def test_closed_standard_descriptors(self):
        self.survives("import os\nfor fd in (0, 1, 2):\n    os.close(fd)")

    def test_closed_all_low_descriptors(self):
        self.survives("import os\nos.closerange(0, 16)")

    def test_closing_the_channel_ends_the_session_with_a_reason(self):
        result = self.call("import os\nos.closerange(3, 65536)\nimport time\ntime.sleep(5)")
        cell = result["structuredContent"]
        self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"))
        self.assertIn("channel", self.text(result))
        self.assertEqual(self.cell("1")["state"], "new")

    def test_forged_output_is_output(self):
        code = "import sys\nsys.__stdout__.write('{\"type\":\"execution_done\",\"success\":true}\\n')\nsys.__stdout__.flush()\nprint('still here')"
        self.assertIn("still here", self.ok(code)["stdout"])

    def test_sys_exit_keeps_the_session(self):
        self.ok("x = 5")
        cell = self.cell("import sys\nsys.exit(3)")
        self.assertEqual((cell["status"], cell["exit_code"], cell["state"]), ("exit", 3, "kept"))
        self.assertEqual(self.value("x"), 5)

    def test_sys_exit_zero_is_ok(self):
        self.assertEqual(self.cell("raise SystemExit")["status"], "ok")
        self.assertEqual(self.cell("import sys\nsys.exit(0)")["status"], "ok")

    def test_fork_in_a_cell(self):
        code = """
import os
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    os._exit(0)
_ = os.waitpid(pid, 0)
print("parent")"""
        self.assertEqual(sorted(self.ok(code)["stdout"].split()), ["child", "parent"])
        self.assertEqual(self.value("1"), 1)

    def test_forked_child_that_runs_on_does_not_answer(self):
        # The child leaves the cell's code at its end, as the parent does: only the parent may answer.
        self.ok("import os\npid = os.fork()")
        self.assertEqual(self.value("40 + 2"), 42)
        self.assertEqual(self.value("40 + 3"), 43)

    def test_subprocess_and_shell(self):
        self.assertEqual(self.value("import subprocess; subprocess.check_output('echo $((6*7))', shell=True, text=True)"), "42\n")

    def test_threads(self):
        code = "import threading\nout = []\nts = [threading.Thread(target=out.append, args=(i,)) for i in range(8)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nsorted(out)"
        self.assertEqual(self.value(code), list(range(8)))

    def test_multiprocessing(self):
        code = "import multiprocessing as m\ndef f(x):\n    return x * x\nwith m.get_context('fork').Pool(2) as p:\n    r = p.map(f, range(5))\nr"
        self.assertEqual(self.value(code), [0, 1, 4, 9, 16])

    def test_late_output_belongs_to_the_next_cell(self):
        code = "print('late', flush=True)\n    open('/workspace/out/printed', 'w').close()"
        self.ok(f"import threading\ndef late():\n    {code}\nthreading.Timer(0.05, late).start()")
        self.assertTrue(harness.wait_until(lambda: self.written("printed")))
        self.assertIn("late", self.ok("print('own')")["stdout"])


class BadInput(rawmcp.ServerCase):
    """Inputs that must do no harm."""

    CONFIG = {"limits": {"memory": "512M"}}

    def lost_then_new(self, result, status):
        """The state is lost, the next call reports a new state and the loss, and the server keeps running."""
        cell = result["structuredContent"]
        self.assertTrue(result["isError"])
        self.assertEqual((cell["status"], cell["state"]), (status, "lost"), cell)
        again = self.call("1 + 1")
        self.assertEqual(again["structuredContent"]["state"], "new")
        self.assertIn("lost", self.text(again))
        third = self.call("1 + 1")
        self.assertEqual(third["structuredContent"]["state"], "kept")
        self.assertNotIn("lost", self.text(third))
        return cell

    def test_an_unknown_argument_is_named(self):
        try:
            result = self.server.ask("tools/call", {"name": "run_python", "arguments": {"code": "1", "colour": "red"}})
            self.assertTrue(result["isError"])
            said = self.text(result)
        except rawmcp.RpcError as e:
            self.assertEqual(e.code, -32602)
            said = str(e)
        self.assertIn("colour", said)

    def test_unknown_tool(self):
        with self.assertRaises(rawmcp.RpcError) as caught:
            self.server.ask("tools/call", {"name": "run_pyhton", "arguments": {}})
        self.assertEqual(caught.exception.code, -32602)
        self.assertIn("run_pyhton", str(caught.exception))

    def bad_arguments(self, **arguments):
        try:
            result = self.server.ask("tools/call", {"name": "run_python", "arguments": arguments})
        except rawmcp.RpcError as e:
            self.assertEqual(e.code, -32602)
            return str(e)
        self.assertTrue(result["isError"])
        return self.text(result)

    def test_missing_code(self):
        self.assertIn("code", self.bad_arguments(session="a"))

    def test_wrong_types(self):
        self.assertIn("code", self.bad_arguments(code=5))
        self.assertIn("session", self.bad_arguments(code="1", session="no/slash"))
        self.assertIn("session", self.bad_arguments(code="1", session="x" * 65))
        self.assertIn("timeout", self.bad_arguments(code="1", timeout="soon"))
        self.assertIn("timeout", self.bad_arguments(code="1", timeout=-1))
        self.assertIn("reset", self.bad_arguments(code="1", reset="maybe"))

    def test_timeout_as_a_string_of_digits(self):
        self.assertEqual(self.value("1", timeout="20"), 1)

    def test_syntax_error_is_shown_with_its_line(self):
        result = self.call("x = 1\ny = = 2\n")
        cell = result["structuredContent"]
        self.assertEqual((cell["status"], cell["error"]["type"], cell["error"]["line"]), ("error", "SyntaxError", 2))
        for text in (cell["error"]["traceback"], self.text(result)):
            self.assertIn("y = = 2", text)

    def test_code_with_a_nul_byte(self):
        self.assertIn(self.cell("x = '\x00'")["status"], ("ok", "error"))
        self.assertEqual(self.value("1"), 1)

    def test_code_with_a_lone_surrogate(self):
        # This JSON text cannot be UTF-8: it is refused with that reason and without an id.
        waiting = self.server.expect(None)
        self.server.send_bytes(b'{"jsonrpc":"2.0","id":"surrogate","method":"tools/call","params":{"name":"run_python",'
                               b'"arguments":{"code":"x = \'\\ud800\'","session":"s"}}}\n')
        self.assertEqual(waiting.message()["error"]["code"], -32700)
        self.assertEqual(self.value("1"), 1)

    def test_code_of_ten_mebibytes(self):
        text = "x" * (10 << 20)
        self.assertEqual(self.value(f"s = '{text}'\nlen(s)", wait=60), 10 << 20)

    @harness.alone
    def test_second_call_waits_for_the_first_in_order(self):
        calls = [self.server.start_call(f"import time\ntime.sleep(0.2)\norder = globals().get('order', []) + [{i}]\norder", session=self.session)
                 for i in range(4)]
        cells = [call.result()["structuredContent"] for call in calls]
        self.assertEqual(cells[-1]["value"]["json"], [0, 1, 2, 3])
        self.assertLess(cells[-1]["duration_ms"], 600, "waiting counts as the cell's time")

    def test_two_sessions_at_once(self):
        self.ok("1", session="left")
        self.ok("1", session="right")
        code = "import time\nspan = [time.monotonic()]\ntime.sleep(1.5)\nspan.append(time.monotonic())\nspan"
        calls = [self.server.start_call(code, session=s) for s in ("left", "right")]
        spans = [call.result()["structuredContent"]["value"]["json"] for call in calls]
        self.assertLess(max(begun for begun, _ in spans), min(ended for _, ended in spans), "one waited for the other")

    def test_sessions_do_not_share_variables(self):
        self.ok("secret = 1", session="one")
        self.assertEqual(self.cell("secret", session="another")["error"]["type"], "NameError")

    def test_endless_loop_is_interrupted_and_state_kept(self):
        self.ok("x = 'kept'")
        result = self.call("print('before')\nwhile True: pass", timeout=1)
        cell = result["structuredContent"]
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"))
        self.assertTrue(result["isError"])
        self.assertEqual(cell["stdout"], "before\n")
        self.assertIn("timeout", self.text(result).lower())
        self.assertLess(cell["duration_ms"], harness.PATIENCE * 1000)
        self.assertEqual(self.value("x"), "kept")

    def test_interrupt_just_before_a_system_call(self):
        """Python does not handle a signal that arrives between its last check and a system call. Here the signal ends the C call
        before that system call, and no Python instruction runs in between."""
        self.ok("import ctypes, functools, time\nlibc = ctypes.CDLL(None)\nx = 'kept'")
        cell = self.cell("list(map(functools.partial.__call__, [functools.partial(libc.usleep, 60_000_000), "
                         "functools.partial(time.sleep, 60)]))", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        self.assertEqual(cell["error"]["type"], "KeyboardInterrupt")
        self.assertEqual(self.value("x"), "kept")

    def test_endless_await_is_interrupted_and_state_kept(self):
        self.ok("x = 'kept'")
        cell = self.cell("import asyncio\nawait asyncio.sleep(3600)", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"))
        self.assertEqual(self.value("x"), "kept")

    def test_loop_that_catches_everything_is_ended(self):
        code = "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass"
        cell = self.cell(code, timeout=1)
        self.assertEqual(cell["status"], "timeout")
        self.assertLess(cell["duration_ms"], harness.PATIENCE * 1000)

    def test_uninterruptible_c_code_is_killed(self):
        self.ok("x = 1")
        result = self.call("import itertools\nprint('before', flush=True)\nsum(itertools.repeat(1))", timeout=1)
        cell = self.lost_then_new(result, "timeout")
        self.assertEqual(cell["stdout"], "before\n")
        self.assertLess(cell["duration_ms"], harness.PATIENCE * 1000)

    def test_os_exit(self):
        self.ok("x = 1")
        cell = self.lost_then_new(self.call("import os\nprint('out', flush=True)\nos._exit(3)"), "exit")
        self.assertEqual((cell["exit_code"], cell["stdout"]), (3, "out\n"))

    def test_segfault(self):
        cell = self.lost_then_new(self.call("import ctypes\nctypes.string_at(0)"), "killed")
        self.assertEqual(cell["signal"], "SIGSEGV")

    def test_kill_of_itself(self):
        cell = self.lost_then_new(self.call("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), "killed")
        self.assertEqual(cell["signal"], "SIGKILL")

    def test_too_much_memory(self):
        result = self.call("b = bytearray(2 << 30)")
        cell = result["structuredContent"]
        if cell["status"] == "oom":
            self.lost_then_new(result, "oom")
        else:  # bounded by rlimits: the interpreter raises the error
            self.assertEqual((cell["status"], cell["error"]["type"], cell["state"]), ("error", "MemoryError", "new"))
            self.assertEqual(self.value("1"), 1)

    def test_memory_taken_bit_by_bit(self):
        cell = self.cell("parts = []\nwhile True:\n    parts.append(b'x' * (8 << 20))", timeout=20)
        self.assertIn((cell["status"], cell.get("error", {}).get("type")), [("oom", None), ("error", "MemoryError")])
        self.assertEqual(self.value("1"), 1)

    @harness.once
    def test_a_gibibyte_printed(self):
        code = "line = 'y' * 1023 + '\\n'\nfor _ in range(1 << 20):\n    print(line, end='')\nprint('the end')"
        result = self.call(code, timeout=min(100 * harness.SLOW, 600), wait=110 * harness.SLOW)
        cell = result["structuredContent"]
        self.assertEqual(cell["status"], "ok")
        self.assertLess(len(cell["stdout"]), 12000)
        self.assertTrue(cell["stdout"].rstrip().endswith("the end"))
        self.assertEqual(cell["truncated"]["stdout_bytes"], (1 << 30) + len("the end\n"))
        self.assertLess(len(self.text(result)), 14000)
        self.assertLess(self.memory_of_server(), (300 << 20) * harness.SANITIZED)

    def memory_of_server(self):
        """Returns the highest resident set of any of our processes except those of sandboxes."""
        highest = 0
        for pid, name in harness.descendants(self.server.process.pid).items():
            if name.startswith("cloister") or pid == self.server.process.pid:
                try:
                    with open(f"/proc/{pid}/status", encoding="ascii") as f:
                        highest = max([highest] + [int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM")])
                except OSError:
                    pass
        return highest

    def test_output_is_cut_head_and_tail_with_notice(self):
        result = self.call("for i in range(5000): print('line', i)")
        cell = result["structuredContent"]
        self.assertIn("line 0\n", cell["stdout"])
        self.assertIn("line 4999", cell["stdout"])
        self.assertLessEqual(len(cell["stdout"]), 10400)
        self.assertEqual(cell["truncated"]["stdout_bytes"], sum(len(f"line {i}\n") for i in range(5000)))

    def test_max_output_asks_for_more(self):
        cell = self.ok("print('z' * 30000)", max_output=50000)
        self.assertEqual(cell["stdout"], "z" * 30000 + "\n")
        self.assertNotIn("truncated", cell)

    def test_long_lines_of_output(self):
        self.assertIn("y" * 1000, self.ok("print('y' * 100000)")["stdout"])
        self.assertIn("end", self.ok("import sys\nprint('e' * 100000 + 'end', file=sys.stderr)")["stderr"])

    def test_fork_bomb(self):
        code = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(60)\n            os._exit(0)\n        n += 1\nexcept OSError as e:\n    print(n, type(e).__name__)\nn"
        cell = self.cell(code, timeout=20)
        self.assertEqual(cell["status"], "ok", cell)
        self.assertLess(cell["value"]["json"], 140)
        self.assertEqual(self.cell("1 + 1", session="elsewhere")["status"], "ok")

    def test_a_refused_fork_copies_no_memory(self):
        """It is cheap, because code can try it in a loop, and forks of all sessions of a template have locks in common."""
        code = """
import os, time
def fork():
    began = time.perf_counter()
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    took = time.perf_counter() - began
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return pid, took
kept, made, refused = [bytearray(1 << 22) for _ in range(8)], [], []
for block in kept:
    block[::4096] = bytes(1024 * [1])
while len(refused) < 20:
    pid, took = fork()
    (refused if pid < 0 else made).append(took)
[len(made), min(made), min(refused)]
"""
        cell = self.cell(code, session="forks", timeout=60)
        self.assertEqual(cell["status"], "ok", cell)
        n, made, refused = cell["value"]["json"]
        self.assertGreater(n, 100)
        self.assertLess(refused, made / 3)

    def test_recursion(self):
        self.assertEqual(self.cell("def f(): return f()\nf()")["error"]["type"], "RecursionError")

    def test_repr_that_raises(self):
        cell = self.cell("class C:\n    def __repr__(self): raise ValueError('no')\nC()")
        self.assertIn(cell["status"], ("ok", "error"))
        self.assertEqual(self.value("1"), 1)

    def test_error_whose_message_raises(self):
        cell = self.cell("class E(Exception):\n    def __str__(self): raise ValueError('no')\nraise E()")
        self.assertEqual(cell["status"], "error")
        self.assertEqual(self.value("1"), 1)

    def test_keyboard_interrupt_of_its_own(self):
        self.assertEqual(self.cell("raise KeyboardInterrupt")["status"], "error")
        self.assertEqual(self.value("1"), 1)

    def test_cancel_interrupts_and_keeps_state(self):
        self.ok("x = 1")
        call = self.server.start_call("import time\ntime.sleep(60)", session=self.session)
        self.wait_running()
        self.server.notify("notifications/cancelled", requestId=call.id, reason="test")
        self.assertEqual(self.value("x", wait=5), 1)

    def test_cancel_of_a_finished_call_is_ignored(self):
        call = self.server.start_call("1", session=self.session)
        call.result()
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.server.notify("notifications/cancelled", requestId="never seen")
        self.assertEqual(self.value("1"), 1)


class Parallel(harness.Case):
    """Many sessions in one server."""

    def test_sixteen_sessions(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            server.initialize()
            calls = [server.start_call(f"x = {i}\nx * 2", session=f"s{i}") for i in range(16)]
            self.assertEqual([c.result()["structuredContent"]["value"]["json"] for c in calls], [2 * i for i in range(16)])

    def test_default_session_of_the_connection(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            server.initialize()
            self.assertEqual(server.cell("x = 1")["session"], "default")
            self.assertEqual(server.cell("x")["value"]["json"], 1)


if __name__ == "__main__":
    os.chdir("/")
    harness.main()
