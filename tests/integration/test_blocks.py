"""`with transaction():` in code: the state after a block that fails, and that the call continues after it."""

import textwrap
import time
import unittest

import harness
import rawmcp

once = unittest.skipUnless(harness.ROOT, "takes a second, and is the same as root")
FILES = "def write(name, text): open('/workspace/' + name, 'w').write(text)\ndef read(name): return open('/workspace/' + name).read()\n"


class Blocks(rawmcp.ServerCase):
    SERVERS = {"demo": harness.fixture()}
    CONFIG = {"limits": {"memory": "256M", "pids": 64}, "profiles": {"off": {"state": {"survives": False}, "agent": True}}}

    def run_code(self, code, status="ok", state="kept", **arguments):
        cell = self.cell(textwrap.dedent(code), **arguments)
        self.assertEqual((cell["status"], cell["state"]), (status, state), cell)
        return cell

    def begin(self, **arguments):
        """Makes a state with a copy, as exists after each cell that is not followed by another cell at once."""
        arguments.setdefault("checkpoint", "begin")
        self.ok("import os\n" + FILES + "x = ['state']\nwrite('a', 'before')", **arguments)

    def test_a_block_that_fails(self):
        """The block is rolled back, and the cell continues."""
        self.begin()
        cell = self.run_code("""
            print('before')
            y = 1
            try:
                with transaction() as t:
                    x.append(1); y = 2; z = 3
                    write('a', 'changed'); write('new', 'new'); os.rename('/workspace/a', '/workspace/b')
                    print('inside')
                    {}['key']
            except KeyError as e:
                caught = e
            print('after', flush=True)
            (x, y, 'z' in globals(), 't' in globals(), read('a'), sorted(os.listdir('/workspace')), repr(caught))
        """)
        self.assertEqual(cell["value"]["repr"], "(['state'], 1, False, False, 'before', ['a', 'out'], \"KeyError('key')\")")
        self.assertEqual(cell["stdout"], "before\ninside\nafter\n")
        self.assertIn("transaction(): rolled back: variables and /workspace are as before the block (", cell["notice"])
        self.assertIn("In the block:", self.value("'\\n'.join(getattr(caught, '__notes__', [str(caught.__cause__)]))"))
        # If the interpreter ends in the same cell, the state of the end of the last cell is restored, as without a block.
        self.run_code("try:\n    with transaction(): 1 / 0\nexcept ZeroDivisionError: x.append(2)\nos._exit(1)", "exit", "restored", restore="begin")
        self.assertEqual(self.value("x, 'y' in globals()"), "(['state'], False)")

    def test_a_block_that_ends_well(self):
        self.begin()
        cell = self.run_code("""
            for i in range(3):
                with transaction() as t: x.append(i); write('a', str(i))
            (x, read('a'), t.rolled_back)
        """, checkpoint="two")
        self.assertEqual(cell["value"]["repr"], "(['state', 0, 1, 2], '2', False)")
        self.assertNotIn("notice", cell)
        # If the interpreter ends later in the same cell, it is not restored to a state in the middle of that cell.
        processes = "len([p for p in os.listdir('/proc') if p.isdigit()])"
        before = self.value(processes)
        self.run_code("with transaction(): x.append(9)\nos._exit(1)", "exit", "restored")
        self.assertEqual(self.value("x"), ["state", 0, 1, 2])
        # After a pause a copy of the newest cell exists. The copy that it replaced may not have ended yet.
        self.assertTrue(harness.wait_until(lambda: self.value(processes) <= before + 1), (before, self.value(processes)))

    @once
    def test_deaths_in_a_block(self):
        """If the interpreter ends in a block, the cell ends as it does without a block, and files stay."""
        deaths = {"os._exit(3)": "exit", "import ctypes; ctypes.string_at(0)": "killed", "import itertools; sum(itertools.repeat(1))": "timeout"}
        if harness.BOUNDED:
            deaths["hog = []\n    while True: hog.append(bytearray(8 << 20))"] = "oom"
        for code, status in deaths.items():
            self.begin(session=status)
            more = {"timeout": harness.AT_ONCE} if status == "timeout" else {}
            cell = self.run_code(f"with transaction():\n    x.append(1); write('a', 'changed')\n    {code}", status, "restored", session=status, **more)
            self.assertNotIn("transaction()", cell["notice"])
            self.assertEqual(self.value("x, read('a')", session=status), "(['state'], 'changed')")
        # Before the first cell no state exists that could be restored.
        self.run_code("x = 1\nwith transaction():\n    import os; os._exit(3)", "exit", "lost", session="first")

    def test_a_timeout_that_is_an_exception(self):
        self.begin()
        code = "import time\nwith transaction():\n    x.append(1); write('a', 'changed')\n    time.sleep(30)"
        cell = self.run_code(code, "timeout", "kept", timeout=harness.AT_ONCE)
        self.assertEqual(cell["error"]["type"], "KeyboardInterrupt")
        self.assertIn("transaction(): rolled back", cell["notice"])
        self.assertEqual(self.value("x, read('a')"), "(['state'], 'before')")

    @once
    def test_exceptions(self):
        """The exception has the same type where that is possible, and otherwise its text is reported."""
        self.ok("class Mine(ValueError):\n    def __init__(self, a, b): super().__init__(a, b); self.more = [b]\nclass Open(Exception):\n    def __init__(self): self.file = open('/dev/null')")
        cases = {
            "raise ValueError('a', 2)": "('ValueError', ('a', 2))",
            "raise Mine(1, 2)": "('Mine', (1, 2))",
            "raise SystemExit(3)": "('SystemExit', (3,))",
            "open('/nowhere')": "('FileNotFoundError', (2, 'No such file or directory'))",
            "class Inner(Exception): pass\n        raise Inner('why')": "('RollbackError', ('Inner', 'why'))",
            "raise Open()": "('RollbackError', ('Open', ''))",
            "raise ValueError('x' * 1000000)": "('RollbackError', ('ValueError', 'xxxx'))",
        }
        for code, expected in cases.items():
            end = "(type(e).__name__, (e.type, e.message[:4]) if isinstance(e, RollbackError) else e.args)"
            cell = self.run_code(f"try:\n    with transaction():\n        {code}\nexcept BaseException as error: e = error\n{end}")
            self.assertEqual(cell["value"]["repr"], expected)
        cell = self.run_code("def f(): return 1 / 0\nwith transaction():\n    f()", "error")
        self.assertEqual(cell["error"]["type"], "ZeroDivisionError")
        self.assertIn("return 1 / 0", cell["error"]["traceback"])
        self.assertNotIn("blocks.py", cell["error"]["traceback"])

    @once
    def test_many(self):
        """Many blocks leak nothing, whether they fail or not."""
        self.begin()
        count = "[len([p for p in os.listdir('/proc') if p.isdigit()]), len(os.listdir('/proc/self/fd'))]"
        before = self.value(count)
        cell = self.run_code("""
            n = 0
            for i in range(60):
                try:
                    with transaction():
                        n += 1
                        if i % 3 == 0: raise ValueError(i)
                except ValueError as e: assert e.args == (i,)
            n
        """)
        self.assertEqual(cell["value"]["json"], 40)
        self.assertIn("20 blocks were taken back; the last one: rolled back", cell["notice"])
        # After a pause a copy of the newest cell exists. The copy that it replaced may not have ended yet.
        self.assertTrue(harness.wait_until(lambda: self.value(count)[0] <= before[0] + 1), (before, self.value(count)))
        self.assertEqual(self.value(count)[1], before[1])

    def test_with_await(self):
        code = """
            import asyncio
            async def f():
                with transaction():
                    x.append(await mcp_demo.text(text='a'))
                    await asyncio.sleep(0.01)
                    raise KeyError(1)
            ticks = []
            async def tick():
                while True:
                    ticks.append(1)
                    await asyncio.sleep(0.001)
            task = asyncio.create_task(tick())
            try: await f()
            except KeyError: pass
            n = len(ticks)
            await asyncio.sleep(0.05)
            (x, len(ticks) > n, await mcp_demo.text(text='b'))
        """
        self.begin()
        cell = self.run_code(code)
        self.assertEqual(cell["value"]["repr"], "(['state'], True, 'b')")
        self.assertEqual([(c["tool"], c["outcome"]) for c in cell["sent"]], [("text", "ok")], cell)
        self.assertEqual(cell["tool_calls_total"], 2)

    def test_calls_that_were_sent(self):
        self.begin()
        cell = self.run_code("""
            import asyncio
            await mcp_demo.text(text='before')
            try:
                with transaction():
                    await mcp_demo.text(text='a')
                    try: await mcp_demo.fail()
                    except Exception: pass
                    waiting = asyncio.create_task(mcp_demo.sleep(seconds=3))
                    await asyncio.sleep(0.2)
                    1 / 0
            except ZeroDivisionError: pass
        """)
        self.assertEqual([(c["tool"], c["outcome"]) for c in cell["sent"]], [("text", "ok"), ("fail", "failed"), ("sleep", "in doubt")], cell)
        self.assertIn("tool calls that were sent stay: see sent", cell["notice"])
        self.assertEqual(cell["tool_calls_total"], 4)
        self.assertNotIn("sent", self.run_code("with transaction(): pass"))

    def test_a_call_of_another_task(self):
        """The call began before the block, and has no answer when the block is rolled back."""
        self.begin()
        cell = self.run_code("""
            import asyncio
            task = asyncio.ensure_future(mcp_demo.sleep(seconds=60))
            await asyncio.sleep(0.05)
            await mcp_demo.text(text='a')
            try:
                with transaction(): 1 / 0
            except ZeroDivisionError: pass
            task.cancel()
        """)
        self.assertEqual([(c["tool"], c["outcome"]) for c in cell["sent"]], [("sleep", "in doubt")], cell)

    @once
    def test_refusals(self):
        """The block is refused before it runs, with the reason."""
        tell = "\ntry:\n    with transaction(): x.append(1)\nexcept TransactionError as e: why = str(e)\n"
        self.begin()
        cases = {
            "transactions are not nested": "try:\n    with transaction():\n        with transaction(): x.append(1)\nexcept TransactionError as e: why = str(e)\nwhy",
            "main thread only": f"import threading\ndef f():\n    global why{textwrap.indent(tell, '    ')}\nthread = threading.Thread(target=f); thread.start(); thread.join()\nwhy",
            "not in another task": f"import asyncio\nasync def f():\n    global why{textwrap.indent(tell, '    ')}\nawait asyncio.create_task(f())\nwhy",
            "nor in asyncio.run()": f"import asyncio\nasync def f():\n    global why{textwrap.indent(tell, '    ')}\nasyncio.run(f())\nwhy",
            "only while a call runs": f"async def f():\n    global why\n    await asyncio.sleep(0.1){textwrap.indent(tell, '    ')}\ntask = asyncio.create_task(f())\n_ = await asyncio.sleep(0)",
            "nested more than 64 deep": f"for i in range(70): os.makedirs('/workspace' + '/d' * (i + 1))\n{tell}why",
        }
        for why, code in cases.items():
            cell = self.run_code(code)
            if "value" not in cell:
                time.sleep(0.3)
            text = cell["value"]["json"] if "value" in cell else self.value("await task\nwhy")
            self.assertIn("the block was not run: ", text)
            self.assertIn(why, text)
            self.assertEqual(self.value("x"), ["state"])
        cell = self.cell("x = []" + tell + "(x, why)", session="off", profile="off")
        self.assertIn("([], 'the block was not run: the profile keeps no copies", cell["value"]["repr"])

    def test_a_copy_that_code_has_ended(self):
        """The effects of the block stay, and the error reports it; nothing is lost."""
        self.begin()
        cell = self.run_code("""
            import signal
            try:
                with transaction():
                    x.append(1)
                    for p in os.listdir('/proc'):
                        if p.isdigit() and int(p) not in (1, os.getpid()): os.kill(int(p), signal.SIGKILL)
                    1 / 0
            except TransactionError as e: why, cause = str(e), type(e.__cause__).__name__
            (x, why, cause)
        """)
        self.assertIn("(['state', 1], 'what the block did stays: the state could not be taken back", cell["value"]["repr"])
        self.assertIn("'ZeroDivisionError')", cell["value"]["repr"])
        self.assertEqual(self.value("with transaction(): x.append(2)\nx"), ["state", 1, 2])

    def test_in_a_call_that_is_rolled_back(self):
        self.begin()
        code = """
            x.append(1)
            try:
                with transaction(): x.append(2); write('a', '2'); 1 / 0
            except ZeroDivisionError: seen = x[:], read('a')
            print(seen)
            write('a', '3')
            raise KeyError(seen)
        """
        cell = self.run_code(code, "error", "rolled_back", on_error="rollback")
        self.assertEqual(cell["stdout"], "(['state', 1], 'before')\n")
        self.assertEqual(self.value("x, read('a')"), "(['state'], 'before')")

    def test_with_undo_and_checkpoints(self):
        self.begin(checkpoint="one")
        self.run_code("with transaction():\n    x.append(1)\n    undo()", state="restored")
        self.assertEqual(self.value("x"), ["state"])
        self.run_code("try:\n    with transaction(): x.append(1); 1 / 0\nexcept ZeroDivisionError: x.append(2)", checkpoint="two")
        self.assertEqual(self.value("x"), ["state", 2])
        self.assertEqual(self.value("x", restore="one"), ["state"])
        self.assertEqual(self.value("x", restore="two"), ["state", 2])

    def test_a_block_that_is_left_open(self):
        """An open block ends with its cell."""
        self.begin()
        self.run_code("def f():\n    with transaction():\n        x.append(1)\n        yield 1\n        1 / 0\ng = f()\nnext(g)", checkpoint="open")
        cell = self.run_code("next(g)", "error")
        self.assertEqual(cell["error"]["type"], "ZeroDivisionError")
        self.assertEqual(self.value("x"), ["state", 1])
        self.assertEqual(self.value("with transaction(): x.append(2)\nx"), ["state", 1, 2])
        self.assertNotIn("process", self.run_code("x", state="restored", restore="open")["notice"])  # not Cloister's copy

    def test_processes_and_threads_of_a_block(self):
        """They end with the block. If a child that a block forked fails, nothing is rolled back."""
        self.begin()
        cell = self.run_code("""
            import threading, time
            try:
                with transaction():
                    threading.Thread(target=time.sleep, args=(60,)).start()
                    pid = os.fork()
                    if pid == 0:
                        try: 1 / 0
                        finally: os.setsid(); time.sleep(60)
                    1 / 0
            except ZeroDivisionError: pass
            (threading.active_count(), 'pid' in globals())
        """)
        self.assertEqual(cell["value"]["repr"], "(1, False)")


if __name__ == "__main__":
    harness.main()
