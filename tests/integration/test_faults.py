"""Faults of upstream servers, each in a real process: the errors that the client gets, and that other servers keep working.

Besides the faulty server there is always a good one, whose tools must work as if nothing had happened.
"""

import fcntl
import os
import signal
import time

import harness
import rawmcp

FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")
RAISED = "try:\n    r = await {call}\nexcept ToolError as e:\n    r = [type(e).__name__, str(e)]\nr"


def faulty(*args, **rest):
    return {"command": harness.PYTHON, "args": [FAULTY, *args], **rest}


class Faults(harness.Case):
    """One Cloister per test, with a faulty upstream server "bad" and a good one."""

    def start(self, *args, servers=None, **rest):
        servers = {"bad": faulty(*args, **rest)} if servers is None else servers
        self.server = rawmcp.RawServer("--log-level", "info", "--config", self.config({**servers, "good": harness.fixture()}), cwd=self.dir)
        self.addCleanup(self.server.free)
        self.server.initialize()
        return self.server

    def value(self, code, **arguments):
        arguments.setdefault("wait", 4 * harness.PATIENCE)
        cell = self.server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"].get("json", cell["value"]["repr"]) if "value" in cell else None

    def raised(self, call, **arguments):
        """Returns [type, message] of the exception that a call raises, or the value of the call."""
        return self.value(RAISED.format(call=call), **arguments)

    def good(self):
        """Checks that the other server answers, and at once."""
        start = time.monotonic()
        self.assertEqual(self.value("await mcp_good.add(a=1, b=2)"), {"sum": 3})
        self.assertLess(time.monotonic() - start, harness.PATIENCE / 2)

    def works(self):
        self.assertEqual(self.value("await mcp_bad.echo(n=1)"), {"n": 1})

    def lines(self, name):
        with open(self.path(name), encoding="ascii") as f:
            return f.read().split()

    # ---- start -------------------------------------------------------------------------------------------------

    def test_hangs_at_start(self):
        self.start("--never", "--pid-file", self.path("pids"), start_timeout=2)
        self.good()
        kind, text = self.raised("mcp_bad.echo()")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("within 2 s", text)
        self.good()
        self.assertTrue(self.lines("pids"))
        self.assertTrue(harness.wait_until(lambda: not harness.running_servers(self.path("pids"))), "it was left running")

    def leased_program(self):
        """Returns a program whose execve() waits while this process holds a write lease on it, at most 45 s, and the times at
        which an execve() began to wait: the kernel then sends SIGIO to the holder of the lease."""
        path = self.write("leased", "#!/bin/sh\n")
        os.chmod(path, 0o755)
        fd = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        waits = []
        before = signal.signal(signal.SIGIO, lambda *_: waits.append(time.monotonic()))
        self.addCleanup(signal.signal, signal.SIGIO, before)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return path, waits

    def test_an_exec_that_hangs_delays_nothing_else(self):
        program, waits = self.leased_program()
        self.start(servers={})
        self.assertEqual(self.value("x = 1\nx"), 1)
        self.config({"bad": {"command": program}, "good": harness.fixture()})
        self.assertTrue(harness.wait_until(lambda: waits), "the server was not started")
        cell = self.server.cell("while True: pass", timeout=1)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
        self.assertEqual(self.value("x"), 1)
        self.assertEqual(self.value("2", session="another", reset=True), 2)
        self.good()
        # All of this happened while the exec was blocked.
        self.assertLess(time.monotonic() - waits[0], 9)
        failed = lambda: "exec took more than 10 s" in self.server.log()
        self.assertTrue(harness.wait_until(failed, 15, 0.2), self.server.log())
        self.good()

    def test_hangs_between_its_answer_and_its_list(self):
        self.start(servers={"bad": harness.fixture("--no-answer", "tools/list", start_timeout=2)})
        kind, text = self.raised("mcp_bad.add(a=1, b=1)")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("did not list its tools within 2 s", text)
        self.good()

    def test_error_of_the_handshake(self):
        self.start("--refuse")
        kind, text = self.raised("mcp_bad.echo()")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("not today", text)
        self.good()

    def test_starts_later_than_anybody_waits_for_a_list(self):
        self.start("--slow-start", "11")
        self.works()
        self.server.close()

    def test_garbage_at_start(self):
        self.start("--garbage")
        self.works()
        self.good()

    # ---- calls -------------------------------------------------------------------------------------------------

    def test_hangs_in_a_call(self):
        self.start(timeout=1)
        self.works()
        start = time.monotonic()
        kind, text = self.raised("mcp_bad.hang()")
        self.assertEqual(kind, "ToolTimeout")
        self.assertIn("did not answer within 1 s", text)
        self.assertLess(time.monotonic() - start, 1 + harness.PATIENCE / 4)
        # The server received the cancellation, and its other calls work.
        self.assertEqual(len(self.value("(await mcp_bad.lists())['cancelled']")), 1)
        self.works()
        self.good()

    def test_crashes_in_a_call(self):
        self.start("--count", self.path("count"))
        self.works()
        code = """
import asyncio
async def one(call):
    try:
        return await call
    except ToolError as e:
        return [type(e).__name__, str(e)]
await asyncio.gather(one(mcp_bad.hang()), one(mcp_bad.crash(status=3)), one(mcp_good.add(a=1, b=2)))"""
        hung, crashed, good = self.value(code)
        for kind, text in (hung, crashed):
            self.assertEqual(kind, "ToolUnavailable")
            self.assertIn("exit status 3 during the call", text)
            self.assertIn("crashed on purpose", text)
        self.assertEqual(good, {"sum": 3})
        # The next call starts the server again. The lost calls are not repeated.
        self.works()
        self.assertEqual(self.lines("count"), ["echo", "hang", "crash", "echo"])
        self.assertIn("SIGKILL during the call", self.raised("mcp_bad.kill()")[1])
        self.works()
        self.assertEqual(self.lines("count").count("kill"), 1)

    def test_answer_before_the_end_counts(self):
        self.start()
        self.assertEqual(self.value("await mcp_bad.answer_and_exit()"), "last words")
        # A call that is sent before the hub sees the exit gets the error of a server that ended during the call.
        time.sleep(harness.patient(0.5))
        self.works()

    def test_answers_garbage(self):
        self.start()
        for line in ('{"jsonrpc":"2.0","id":ID,"result":{"content":[NaN]}}', '{"jsonrpc":"2.0","id":ID}', '{"id":ID,"result":{}}'):
            kind, text = self.raised(f"mcp_bad.line(line={line!r})")
            self.assertEqual(kind, "ToolProtocolError", line)
            self.assertIn("gave no valid answer", text)
        for result in ("7", "[]", '{"content": 7}', '{"content": [{"text": "no type"}]}'):
            self.assertEqual(self.raised(f"mcp_bad.raw(result={result!r})")[0], "ToolProtocolError", result)
        self.works()

    def test_two_members_of_one_name(self):
        self.start()
        large = '"x":"%s"' % ("x" * 300_000)
        for result in ('{"content":[],"isError":true,"isError":false}', '{"content":[{"type":"text","type":"image","text":"x"}]}',
                       '{"content":[],"\\u0063ontent":[]}', '{"content":[],"structuredContent":{},"structuredContent":{}}',
                       '{"content":[],"_meta":{"a":{"b":1,"b":2}},%s}' % large):
            kind, text = self.raised(f"mcp_bad.raw(result={result!r})")
            self.assertEqual(kind, "ToolProtocolError", result[:100])
            self.assertIn("two members of an object are named", text)
        # Only code reads structuredContent.
        self.assertEqual(self.value("""await mcp_bad.raw(result='{"content":[],"structuredContent":{"a":1,"a":2}}')"""), {"a": 2})
        self.works()

    def test_json_rpc_error(self):
        self.start("--tool", "listed")
        line = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32099,"message":"no luck","data":{"why":[1.5]}}}'
        code = f"try:\n    await mcp_bad.line(line={line!r})\nexcept ToolProtocolError as e:\n    r = [e.code, e.data, str(e), e.server, e.tool]\nr"
        code_of, data, text, server, tool = self.value(code)
        self.assertEqual((code_of, data, server, tool), (-32099, {"why": [1.5]}, "bad", "line"))
        self.assertIn("no luck", text)

    def test_wrong_id(self):
        self.start()
        self.assertEqual(self.value("await mcp_bad.wrong_id()"), "right")
        self.good()

    def test_answers_twice(self):
        self.start()
        code = "import asyncio\nr = [await mcp_bad.duplicate() for _ in range(20)]\nr += await asyncio.gather(*(mcp_bad.echo(n=i / 20) for i in range(20)))\nr"
        self.assertEqual(self.value(code), ["duplicate"] * 20 + [{"n": i / 20} for i in range(20)])

    def test_answers_late(self):
        self.start(timeout=1)
        self.works()
        self.assertEqual(self.raised("mcp_bad.overdue(seconds=1.5)")[0], "ToolTimeout")
        code = "import asyncio\nr = []\nfor i in range(20):\n    r.append((await mcp_bad.echo(n=i / 20))['n'])\n    await asyncio.sleep(0.05)\nr"
        self.assertEqual(self.value(code), [i / 20 for i in range(20)])

    def test_answers_out_of_order(self):
        self.start()
        code = """
import asyncio
order = []
async def one(i):
    r = await mcp_bad.slow(seconds=(9 - i) * 0.1)
    order.append(i)
    return r
r = await asyncio.gather(*map(one, range(10)))
[order, r]"""
        order, results = self.value(code)
        self.assertEqual(order, list(range(9, -1, -1)))
        self.assertEqual(results, ["slow"] * 10)

    def test_answers_of_50_mebibytes(self):
        self.start()
        self.assertEqual(self.value("len(await mcp_bad.big(mib=50))", timeout=100), 50 << 20)
        kind, text = self.raised("mcp_bad.big(mib=70)", timeout=100)
        self.assertEqual(kind, "ToolProtocolError")
        self.assertIn("larger than 64 MiB", text)
        self.works()
        self.good()

    # ---- floods ------------------------------------------------------------------------------------------------

    def broker_kib(self):
        """Returns the resident set of the largest of Cloister's own processes, sandboxes excluded."""
        sizes = []
        for pid, name in harness.descendants(self.server.process.pid).items():
            if name.startswith("cloister"):
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    sizes += [int(line.split()[1]) for line in f if line.startswith("VmRSS")]
        return max(sizes, default=0)

    def test_flood_of_notifications(self):
        self.start()
        self.works()
        before = self.broker_kib()
        code = "import asyncio\nt = asyncio.ensure_future(mcp_bad.flood(n=60000))\nr = [(await mcp_good.add(a=i, b=0))['sum'] for i in range(20)]\n[r, await t]"
        self.assertEqual(self.value(code, timeout=100), [list(range(20)), "flooded"])
        self.assertLess(self.broker_kib() - before, 64 << 10)

    def test_hundreds_of_megabytes_on_stderr(self):
        self.start()
        self.works()
        before = self.broker_kib()
        code = "import asyncio\nt = asyncio.ensure_future(mcp_bad.noise(mib=300))\nr = [(await mcp_good.add(a=i, b=0))['sum'] for i in range(20)]\n[r, await t]"
        self.assertEqual(self.value(code, timeout=300, wait=300), [list(range(20)), "done"])
        self.assertLess(self.broker_kib() - before, 64 << 10)
        self.server.close()
        self.assertLess(len(self.server.log()), 4 << 20, "the log was flooded")
        self.assertIn("lines of its stderr were not written", self.server.log())

    # ---- ends --------------------------------------------------------------------------------------------------

    def test_closes_its_output_and_lives(self):
        pids = self.path("pids")
        self.start("--pid-file", pids, "--count", self.path("count"))
        self.works()
        first = harness.running_servers(pids)[0]
        kind, text = self.raised("mcp_bad.close(fd=1)")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("closed its output during the call", text)
        self.works()
        self.assertTrue(harness.wait_until(lambda: first not in harness.descendants()), "it lives on, useless")
        self.assertEqual(self.lines("count")[:3], ["echo", "close", "echo"])

    def test_ignores_sigterm(self):
        pids = self.path("pids")
        self.start("--ignore-term", "--pid-file", pids)
        self.works()
        pid = harness.running_servers(pids)[0]
        self.assertIn(pid, harness.descendants())
        start = time.monotonic()
        self.server.close()
        self.assertLess(time.monotonic() - start, harness.PATIENCE)
        self.assertTrue(harness.wait_until(lambda: pid not in harness.descendants()), "it outlived us")

    # ---- lists -------------------------------------------------------------------------------------------------

    def test_three_hundred_tools_in_three_pages(self):
        self.start("--many", "300", "--pages", "3")
        self.assertEqual(self.value("len([t for t in _discover() if t['name'].startswith('many-')])"), 300)
        self.assertEqual(self.value("[(await mcp_bad[f'many-{i}'](n=i))['tool'] for i in (0, 150, 299)]"), ["many-0", "many-150", "many-299"])

    def test_a_description_of_70000_characters(self):
        self.start("--long-list")
        self.works()
        self.assertGreater(self.value("len(_schema('bad.echo')['description'])"), 70000)
        described = self.server.ask("tools/list")["tools"][0]["description"]
        self.assertLess(len(described), 4000)
        self.assertLess(self.value("max(len(t['description']) for t in _discover())"), 200)

    def test_names_of_every_kind(self):
        # Latin and Cyrillic letters look alike; Python treats the wide letters as the Latin ones; builtins keep their meaning.
        odd = ["a.b", "a/b", "a-b", "a b", "1st", "class", "print", "len", "p\u0430y", "pay", "\uff50\uff41\uff59", "\u540d\u524d", "__init__", "tools", "json", "\U0001f600"]
        self.start(*[part for name in odd for part in ("--tool", name)])
        code = f"r = []\nfor name in {odd!r}:\n    r.append((await tools['bad', name]())['tool'])\nr"
        self.assertEqual(self.value(code), odd)
        self.assertEqual(self.value(f"[(await tools['bad.' + n]())['tool'] for n in {odd!r}]"), odd)
        ways = {"class_": "class", "_1st": "1st", "pay": "pay", "p\u0430y": "p\u0430y", "\u540d\u524d": "\u540d\u524d", "print": "print", "len": "len"}
        for identifier, name in ways.items():
            self.assertEqual(self.value(f"(await mcp_bad.{identifier}())['tool']"), name, identifier)
        self.assertEqual(self.value("[len('four'), json.loads('1'), type(tools).__name__, (await tools['len']())['tool']]"), [4, 1, "Tools", "len"])
        # Four of these names would become a_b: none of them gets this identifier.
        kind, text = self.raised("mcp_bad.a_b()")
        self.assertEqual(kind, "ToolNotFound", text)

    def test_schemas_of_every_kind(self):
        self.start("--tool", "recursive", "--tool", "one-of", "--tool", "far-ref", "--tool", "loop-ref")
        tree = {"value": 1, "children": [{"value": 2, "children": []}]}
        self.assertEqual(self.value(f"(await mcp_bad.recursive(tree={tree!r}))['arguments']"), {"tree": tree})
        bad = {"value": 1, "children": [{"value": "x"}]}
        kind, text = self.raised(f"mcp_bad.recursive(tree={bad!r})")
        self.assertEqual(kind, "ToolArgumentError")
        self.assertIn("tree.children[0].value", text)
        self.assertEqual(self.value("[(await mcp_bad.one_of(where=w))['arguments'] for w in ('here', {'lat': 1})]"), [{"where": "here"}, {"where": {"lat": 1}}])
        self.assertEqual(self.raised("mcp_bad.one_of(where=7)")[0], "ToolArgumentError")
        self.assertEqual(self.value("(await mcp_bad.far_ref(x=1))['arguments']"), {"x": 1})
        self.assertEqual(self.value("(await mcp_bad.loop_ref(x=1))['arguments']"), {"x": 1})
        self.assertEqual(self.value("len([repr(tools['bad', n]) for n in ('recursive', 'loop-ref')])"), 2)

    def test_a_schema_remembered_from_an_earlier_run(self):
        # The list of tools is kept from run to run; a server that was replaced meanwhile takes other arguments.
        new = '{"echo": {"type": "object", "properties": {"name": {"type": "string"}}}}'
        self.start("--schemas", self.write("schemas", "{}"), "--slow-start", "1")
        self.works()
        self.server.close()
        self.write("schemas", new)
        for call in ("await mcp_bad.echo(name='x')", "mcp_bad.echo.sync(name='x')"):
            self.start("--schemas", self.path("schemas"), "--slow-start", "1")
            self.assertEqual(self.value(call), {"name": "x"})
            self.assertEqual(self.raised("mcp_bad.echo(n=1)")[0], "ToolArgumentError")
            self.server.close()
            self.write("schemas", "{}")
            self.start("--schemas", self.path("schemas"))
            self.works()
            self.server.close()
            self.write("schemas", new)

    def test_tools_that_come_and_go_while_a_cell_runs(self):
        # The path is different each time, so that no list from an earlier run is used.
        self.start("--tool", "before", "--count", self.path("count"))
        code = """
import asyncio
r = [(await mcp_bad.before())['tool']]
await mcp_bad.remove(name='before', add='after')
for _ in range(100):
    await asyncio.sleep(0.05)
    if 'after' in mcp_bad:
        break
r.append((await mcp_bad.after())['tool'])
try:
    await mcp_bad.before()
except ToolNotFound as e:
    r.append(str(e))
r"""
        before, after, text = self.value(code)
        self.assertEqual((before, after), ("before", "after"))
        self.assertIn("before", text)
        self.assertEqual(self.value("(await after())['tool']"), "after")

    # ---- content -----------------------------------------------------------------------------------------------

    def test_content_of_every_kind(self):
        self.start()
        code = """
def show(b):
    if b is None or isinstance(b, (str, dict, list)):
        return b
    return [type(b).__name__, getattr(b, 'mime_type', None), len(b.data) if hasattr(b, 'data') else b.uri, getattr(b, 'text', None)]
async def get(*kinds):
    r = await mcp_bad.blocks(kinds=list(kinds))
    return [show(b) for b in r] if isinstance(r, list) and len(kinds) > 1 else show(r)
[await get(), await get('text'), await get('json'), await get('image'), await get('audio'), await get('resource'),
 await get('blob'), await get('link'), await get('unknown'), await get('bad-image'), await get('text', 'image', 'link')]"""
        self.assertEqual(self.value(code), [
            None, "words", {"a": [1, 2]}, ["Image", "image/png", 70, None], ["Audio", "audio/wav", 4, None],
            ["File", "text/plain", 6, "inside"], ["File", "application/x", 3, None], ["Link", "text/plain", "file:///b.txt", None],
            {"type": "hologram", "data": "x"}, {"type": "image", "data": "***", "mimeType": "image/png"},
            ["words", ["Image", "image/png", 70, None], ["Link", "text/plain", "file:///b.txt", None]],
        ])
        self.assertEqual(self.value("b = await mcp_bad.blocks(kinds=['image'])\nb.save('/tmp/i.png')\nopen('/tmp/i.png', 'rb').read()[:4] == b.data[:4]"), True)
        self.assertEqual(self.value("(await mcp_bad.blocks.raw(kinds=['link']))['content'][0]['name']"), "b")
        self.assertEqual(self.raised("mcp_bad.error()"), ["ToolError", "it went wrong"])


if __name__ == "__main__":
    harness.main()
