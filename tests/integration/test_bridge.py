"""The bridge: tools called from code, through the hub, to well-behaved and misbehaving servers."""

import json
import os
import time

import harness
import rawmcp

FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")


class Bridge(rawmcp.ServerCase):
    """One well-behaved server, called in every supported way."""

    SERVERS = {"fix-ture": harness.fixture()}

    def test_by_subscript(self):
        self.assertEqual(self.value("await tools['add'](a=2, b=3)"), {"sum": 5})

    def test_by_full_name(self):
        self.assertEqual(self.value("await tools['fix-ture.add'](a=2, b=3)"), {"sum": 5})

    def test_by_server_object(self):
        self.assertEqual(self.value("await mcp_fix_ture.add(a=2, b=3)"), {"sum": 5})

    def test_by_bare_name(self):
        self.assertEqual(self.value("await add(a=2, b=3)"), {"sum": 5})

    def test_identifiers_from_odd_names(self):
        self.assertEqual(self.value("await mcp_fix_ture.create_event(title='t')")["tool"], "create-event")
        self.assertEqual(self.value("await tools['create-event'](title='t')")["arguments"], {"title": "t"})
        self.assertEqual(self.value("await mcp_fix_ture.class_()")["tool"], "class")

    def test_one_positional_dict(self):
        self.assertEqual(self.value("await tools['add']({'a': 4, 'b': 5})"), {"sum": 9})

    def test_none_for_an_optional_argument_is_left_out(self):
        self.assertEqual(self.value("await tools['optional'](a='x', b=None)")["arguments"], {"a": "x"})

    def test_await_is_needed_and_calls_are_coroutines(self):
        self.assertTrue(self.value("import inspect\nc = tools['add'](a=1, b=1)\nr = inspect.isawaitable(c)\n_ = await c\nr"))

    def test_sync(self):
        self.assertEqual(self.value("tools['add'].sync(a=1, b=2)"), {"sum": 3})

    def test_sync_in_threads(self):
        code = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    r = list(p.map(lambda i: tools['add'].sync(a=i, b=1)['sum'], range(8)))\nr"
        self.assertEqual(self.value(code), list(range(1, 9)))

    def test_raw(self):
        raw = self.value("await tools['add'].raw(a=1, b=2)")
        self.assertEqual((raw["structuredContent"], raw["content"][0]["type"]), ({"sum": 3}, "text"))

    def test_text_stays_text_unless_it_is_one_object_or_array(self):
        self.assertEqual(self.value("await tools['text'](text='007')"), "007")
        self.assertEqual(self.value("await tools['text'](text='true')"), "true")
        self.assertEqual(self.value("await tools['text'](text='{\"a\": 1}')"), {"a": 1})
        self.assertEqual(self.value("await tools['text'](text='[1, 2]')"), [1, 2])
        self.assertEqual(self.value("await tools['text'](text='{broken')"), "{broken")

    def test_wrapped_result(self):
        self.assertEqual(self.value("await tools['wrapped']()"), [1, 2, 3])

    def test_several_blocks_are_a_list(self):
        code = "b = await tools['blocks']()\nb[2].save('/workspace/i.png')\n[b[0], b[1], type(b[2].data).__name__, b[2].mime_type, open('/workspace/i.png', 'rb').read(4) == b[2].data[:4]]"
        self.assertEqual(self.value(code), ["one", "2", "bytes", "image/png", True])

    def test_mistakes_are_told_before_anything_is_run(self):
        self.ok("log = []")
        code = "log.append(1)\nawait tools['add'](a=1, c=2)\nfor i in log:\n    await mcp_fix_ture.ad(a=1)\nawait tools['ad'](a=1)"
        result = self.call(code)
        cell = result["structuredContent"]
        self.assertEqual((result["isError"], cell["error"]["type"], cell["error"]["line"]), (True, "cloister.PreflightError", 2))
        for text in ('line 2: add: unknown argument "c"', "It takes add(a: int, b: int)"):
            self.assertIn(text, self.text(result))
        self.assertNotIn("tool_calls", cell)
        self.assertEqual(self.value("log"), [])
        self.assertEqual(self.value("log.append(1)\nif not log:\n    await tools['ad'](a=1)\nlog"), [1])

    def test_check_only(self):
        self.ok("known = 5")
        cell = self.ok("known = 6\nawait tools['add'](a=known, b=2)\nawait tools['add'](**{})", check_only=True)
        self.assertEqual(cell["value"]["repr"], "ok: 1 call checked, 1 not decidable\nline 2: fix-ture.add(a, b)")
        self.assertEqual((cell["state"], cell.get("tool_calls")), ("kept", None))
        self.assertEqual(self.value("known"), 5)
        self.assertEqual(self.cell("await tools['add'](a='x')", check_only=True)["error"]["type"], "cloister.PreflightError")
        self.assertEqual(self.cell("1 +", check_only=True)["error"]["type"], "SyntaxError")
        self.assertIn("leave reset out", self.cell("1", check_only=True, reset=True)["error"]["message"])

    def test_is_error_raises(self):
        code = "try:\n    await tools['fail']()\nexcept ToolError as e:\n    r = [e.server, e.tool, 'went wrong' in str(e), isinstance(e, Exception)]\nr"
        self.assertEqual(self.value(code), ["fix-ture", "fail", True, True])

    def test_uncaught_tool_error_is_the_cells_error(self):
        result = self.call("await tools['fail']()")
        self.assertIn("ToolError", result["structuredContent"]["error"]["type"])
        self.assertIn("it went wrong", self.text(result))

    def test_protocol_error(self):
        code = "try:\n    await tools['protocol-error']()\nexcept ToolProtocolError as e:\n    r = [e.code, e.data]\nr"
        self.assertEqual(self.value(code), [-32000, {"why": "test"}])

    def error_of(self, call):
        """Returns (type, message, whether it is a ToolError) of the exception that a call raises."""
        code = f"try:\n    await {call}\n    r = None\nexcept Exception as e:\n    r = [type(e).__name__, str(e), isinstance(e, ToolError)]\n[r]"
        return self.value(code)[0]

    def test_two_members_of_one_name(self):
        """A server may take the last one where a check took the first. The server has no record of a call that was not sent."""
        names = "class Name(str):\n    __hash__, __eq__ = object.__hash__, object.__eq__\n"
        self.ok(names + "twice = lambda n=0: {Name('path'): '/ok', **{str(i): i for i in range(n)}, Name('path'): '/etc/passwd'}")
        for arguments in ("**{'a': twice()}", "**{'a': [{'b': [twice()]}]}", "**{'a': twice(100)}", "**{'a': twice(), 'text': 'x' * 300_000}"):
            with self.subTest(arguments):
                kind, message, is_tool_error = self.error_of(f"tools['echo']({arguments})")
                self.assertEqual((kind, is_tool_error), ("ToolArgumentError", True))
                self.assertIn('two members of an object are named "path"', message)
        # The same name in different objects is right.
        self.assertEqual(self.value("await tools['echo'](a={'path': 1, 'b': {'path': 2}, 'c': [{'path': 3}, {'path': 4}]})")["a"]["c"], [{"path": 3}, {"path": 4}])

    def test_unknown_tool_has_a_suggestion(self):
        kind, message, is_tool_error = self.error_of("tools['creat-event'](title='x')")
        self.assertEqual((kind, is_tool_error), ("ToolNotFound", True))
        self.assertIn("create-event", message)

    def test_arguments_are_checked_before_sending(self):
        before = self.cell("1")
        for call, part in (
            ("tools['add'](a=1)", "b"),
            ("tools['add'](a='one', b=2)", "a"),
            ("tools['create-event'](titel='x')", "title"),
        ):
            kind, message, is_tool_error = self.error_of(call)
            self.assertEqual((kind, is_tool_error), ("ToolArgumentError", True), message)
            self.assertIn(part, message)
        cell = self.cell("try:\n    await tools['add'](a=1)\nexcept ToolArgumentError: pass")
        self.assertNotIn("tool_calls", cell, "a refused call was sent")
        self.assertEqual(before["status"], "ok")

    def test_calls_are_listed(self):
        cell = self.ok("_ = await tools['add'](a=1, b=2)\ntry:\n    await tools['fail']()\nexcept ToolError: pass")
        self.assertEqual([(c["server"], c["tool"], c["ok"]) for c in cell["tool_calls"]],
                         [("fix-ture", "add", True), ("fix-ture", "fail", False)])
        self.assertEqual(cell["tool_calls_total"], 2)
        self.assertGreaterEqual(cell["tool_calls"][0]["duration_ms"], 0)

    def test_the_receipt_counts_what_the_result_does_not_show(self):
        cell = self.ok("t = await tools['text'](text='x' * 50000)\nfor i in range(3):\n    await tools['add'](a=i, b=2)")
        receipt, calls = cell["receipt"], cell["tool_calls"]
        self.assertGreater(receipt["sent_bytes"], 50000)
        self.assertGreater(receipt["received_bytes"], 50000)
        self.assertEqual(receipt["sent_bytes"], sum(call["sent_bytes"] for call in calls))
        self.assertEqual(receipt["received_bytes"], sum(call["received_bytes"] for call in calls))
        self.assertGreater(receipt["kept_out_bytes"], 50000)
        large = self.ok("t = await tools['text'](text='x' * 3000000)")["receipt"]  # in a memfd
        self.assertGreater(large["kept_out_bytes"], 3000000)
        self.assertLess(len(json.dumps(cell["receipt"])), 2048)
        cell = self.ok("1")
        self.assertNotIn("kept_out_bytes", cell["receipt"])

    def receipt(self, cell):
        uri = f"cloister://sessions/{self.session}/cells/{cell}/receipt"
        return json.loads(self.server.ask("resources/read", {"uri": uri})["contents"][0]["text"])

    def test_the_whole_receipt(self):
        cell = self.ok("_ = await tools['add'](a=1, b=2)\ntry:\n    await tools['fail']()\nexcept ToolError: pass")
        receipt = self.receipt(cell["receipt"]["cell"])
        self.assertEqual([(c["server"], c["tool"], c["outcome"]) for c in receipt["tool_calls"]],
                         [("fix-ture", "add", "ok"), ("fix-ture", "fail", "failed")])
        self.assertEqual(receipt["sent_bytes"], cell["receipt"]["sent_bytes"])
        self.ok("1")
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        listed = next(s for s in harness.message_of(done.stdout)[0]["sessions"] if s["name"] == self.session)
        self.assertEqual([r["cell"] for r in listed["receipts"]], [2, 1])
        self.assertEqual((listed["receipts"][1]["tool_calls_total"], listed["receipts"][1]["sent_bytes"]), (2, receipt["sent_bytes"]))
        # The receipts end with the session, except the receipt of the call that ended it.
        self.assertEqual(self.call("import os; os._exit(3)", reset=True)["structuredContent"]["status"], "exit")
        self.assertEqual(self.receipt(3)["status"], "exit")
        with self.assertRaises(rawmcp.RpcError):
            self.receipt(1)

    def test_a_receipt_is_not_the_word_of_the_code(self):
        """A worker that sends its own answer, with forged figures, instead of Cloister's."""
        channel = "channel = max(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n) and os.readlink('/proc/self/fd/' + n)[:6] == 'socket')\n"
        forged = "{'status': 'ok', 'cpu_us': 0, 'cpu_ms': 0, 'tool_calls': [], 'tool_calls_total': 0, 'peak_memory_bytes': 1, 'sent_bytes': 0, 'duration_us': 1, 'receipt': {'cell': 7, 'sent_bytes': 1}}"
        cell = self.ok("import json, os, struct, time\n_ = await tools['add'](a=1, b=2)\nblock = bytearray(30 << 20); began = time.process_time()\n"
                       "while time.process_time() - began < 0.3: pass\n"
                       f"text = json.dumps({forged}).encode()\n" + channel +
                       "os.write(channel, struct.pack('<IBBHQ', len(text), 0x41, 0, 0, 1) + text)\nwhile True: time.sleep(1)")
        receipt = self.receipt(1)
        self.assertEqual((cell["receipt"]["cell"], receipt["cell"]), (1, 1))
        self.assertEqual([c["tool"] for c in receipt["tool_calls"]], ["add"])
        self.assertEqual(cell["tool_calls_total"], 1)
        self.assertGreater(receipt["sent_bytes"], 10)
        self.assertEqual(receipt["sent_bytes"], cell["receipt"]["sent_bytes"])
        for r in receipt["cpu_us"], receipt["duration_us"]:
            self.assertGreater(r, 200000)
        self.assertGreater(receipt["peak_memory_bytes"], 30 << 20)

    @harness.alone
    def test_gather_is_concurrent(self):
        self.ok("await tools['add'](a=1, b=1)")
        start = time.monotonic()
        self.ok("import asyncio\n_ = await asyncio.gather(*(tools['sleep'](seconds=0.5) for _ in range(20)))")
        self.assertLess(time.monotonic() - start, 2.5)

    def test_a_thousand_calls_in_flight(self):
        code = "import asyncio\nr = await asyncio.gather(*(tools['add'](a=i, b=1) for i in range(1000)))\nsum(x['sum'] for x in r)"
        cell = self.ok(code)
        self.assertEqual(cell["value"]["json"], sum(range(1, 1001)))
        self.assertEqual((cell["tool_calls_total"], len(cell["tool_calls"])), (1000, 100))

    def test_values_cross_unchanged(self):
        value = {
            "big": 2**80, "negative": -(2**63) - 1, "float": 1e-300, "one": 1.0, "text": "漢 \u2028 \x00 \\ \" \n",
            "null": [None], "deep": [[[[{"a": [True, False]}]]]], "empty": {}, "": "empty key",
        }
        self.assertEqual(self.value(f"await tools['echo'](**{value!r})"), value)
        self.assertTrue(self.value(f"v = {value!r}\nr = await tools['echo'](**v)\nrepr(r) == repr(v)"))

    def test_a_lone_surrogate_is_refused_before_sending(self):
        self.assertEqual(self.error_of("tools['text'](text='\\ud800')")[0], "ToolArgumentError")

    def test_nan_is_refused_before_sending(self):
        self.assertEqual(self.error_of("tools['echo'](x=float('nan'))")[0], "ToolArgumentError")

    def test_a_newline_in_an_argument_is_no_new_message(self):
        text = 'a\\n{"jsonrpc":"2.0","id":1,"result":{}}\\nb'
        self.assertEqual(self.value(f"(await tools['echo'](t='{text}'))['t'].count(chr(10))"), 2)

    def test_sixteen_mebibytes_out(self):
        self.assertEqual(self.value("(await tools['length'](text='x' * (16 << 20)))['length']", wait=60), 16 << 20)

    def test_sixteen_mebibytes_in(self):
        self.assertEqual(self.value("len(await tools['big'](n=16 << 20))", wait=60), 16 << 20)

    def test_sixteen_mebibytes_unchanged_both_ways(self):
        code = "t = ''.join(chr(32 + i % 90) for i in range(1 << 16)) * 256\nr = await tools['echo'](t=t)\n[len(t), r['t'] == t]"
        self.assertEqual(self.value(code, wait=60), [16 << 20, True])

    def test_discover(self):
        found = self.value("list(_discover())")
        add = next(entry for entry in found if entry["name"] == "add")
        self.assertEqual(add["server"], "fix-ture")
        self.assertIn("a", add["signature"])
        self.assertLessEqual(max(len(entry.get("description", "")) for entry in found), 120)

    def test_discover_may_be_awaited(self):
        self.assertTrue(self.value("len(await _discover()) == len(_discover())"))

    def test_search_ranks(self):
        found = self.value("list(_search('image'))")
        self.assertEqual(found[0]["name"], "blocks")
        self.assertLessEqual(self.value("len(_search('a', limit=2))"), 2)

    def test_schema(self):
        schema = self.value("_schema('add')")
        self.assertIn("integer", json.dumps(schema))
        self.assertIn("sum", json.dumps(schema))

    def test_help_and_repr_read_well(self):
        self.assertIn("add", self.value("repr(tools['add'])"))
        self.assertIn("a + b", self.ok("help(tools['add'])")["stdout"])

    def test_call_after_the_cell_timed_out(self):
        self.assertEqual(self.cell("await tools['sleep'](seconds=30)", timeout=1)["status"], "timeout")
        self.assertEqual(self.value("await tools['add'](a=1, b=2)"), {"sum": 3})

    def test_completed_calls_are_listed_after_a_timeout(self):
        cell = self.cell("_ = await tools['add'](a=1, b=2)\nwhile True: pass", timeout=1)
        self.assertEqual([(c["tool"], c["ok"]) for c in cell["tool_calls"]], [("add", True)])

    def test_crash_of_the_server_in_a_call(self):
        kind, _, is_tool_error = self.error_of("tools['crash']()")
        self.assertEqual((kind, is_tool_error), ("ToolUnavailable", True))
        self.assertTrue(harness.wait_until(lambda: self.error_of("tools['add'](a=1, b=2)") is None, 10), "it never came back")


class Catalogue(rawmcp.ServerCase):
    """10,000 tools of two servers: the description, the search, the resource."""

    SERVERS = {
        "big": {"command": harness.PYTHON, "args": [FAULTY, "--many", "9000"]},
        "small": {"command": harness.PYTHON, "args": [FAULTY, "--many", "900"]},
    }

    def setUp(self):
        super().setUp()
        self.value("len(_discover())", session="settled")

    def test_description_is_short_and_stays(self):
        listed = self.server.ask("tools/list")
        tool = listed["tools"][0]
        self.assertLessEqual(len(tool["description"].encode()), 2048)
        for part in ("\nbig: ", "\nsmall: ", "cloister://tools", "_search("):
            self.assertIn(part, tool["description"])
        self.assertEqual(self.server.ask("tools/list"), listed)

    def test_search_in_a_fresh_session(self):
        code = "import time\nt = time.process_time()\nr = list(_search(%r))\n[r, (time.process_time() - t) * 1000]"
        took = []
        for n, (query, name) in enumerate((("many-4711", "many-4711"), ("many 88", "many-88"), ("Does many-8999", "many-8999"))):
            found, ms = self.value(code % query, session=f"fresh-{n}")
            self.assertEqual((found[0]["name"], found[0]["server"], len(found)), (name, "big", 10))
            took.append(ms)
        # CPU time: no session decodes the catalogue, which takes longer than this on any machine.
        self.assertLess(min(took), 10)

    def test_search_finds_both_servers(self):
        found = self.value("[[t['server'], t['name']] for t in _search('echo', limit=2)]")
        self.assertEqual(found, [["big", "echo"], ["small", "echo"]])
        self.assertEqual(self.value("len(_search('many', limit=20000))"), 9900)
        self.assertEqual(self.value("from concurrent.futures import ThreadPoolExecutor as T\nwith T(4) as p:\n"
                                    "    r = list(p.map(lambda i: _search('many-%d' % i)[0]['name'], range(20)))\nr"),
                         [f"many-{i}" for i in range(20)])

    def test_the_whole_as_a_resource(self):
        uri, text = "cloister://tools", ""
        while uri:
            contents = self.server.ask("resources/read", {"uri": uri})["contents"]
            text += contents[0]["text"]
            uri = contents[1]["uri"] if len(contents) > 1 else None
        self.assertEqual(text.count("\n- many-"), 9900)
        listed = [r["uri"] for r in self.server.ask("resources/list")["resources"]]
        self.assertEqual(listed[0], "cloister://tools")
        parts, uri = "", "cloister://tools/small"
        while uri:
            contents = self.server.ask("resources/read", {"uri": uri})["contents"]
            self.assertEqual(contents[0]["mimeType"], "application/json")
            parts += contents[0]["text"]
            uri = contents[1]["uri"] if len(contents) > 1 else None
        self.assertIn({"type": "object", "additionalProperties": True}, [t["inputSchema"] for t in json.loads(parts)["tools"]])


# Writes to the channel itself, in a cell without await, so that no other code reads from it then.
OWN_CHANNEL = """
import array, fcntl, json, mmap, os, socket, struct
fd = max(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)
         and os.readlink("/proc/self/fd/" + n).startswith("socket:"))
channel = socket.socket(fileno=os.dup(fd))
channel.settimeout(20)
def ask(number, n):
    data = json.dumps({"server": "fix-ture", "tool": "big", "arguments": {"n": n}}).encode()
    channel.sendall(struct.pack("<IBBHQ", len(data), 0x42, 0, 0, number) + data)
    kind = 0
    while kind != 2:
        header, control, flags, _ = channel.recvmsg(16, 256, socket.MSG_WAITALL)
        length, kind, flags, _, answered = struct.unpack("<IBBHQ", header)
        if flags:
            return array.array("i", control[0][2])[0], length
        left, first = length, b""
        while left:
            part = channel.recv(min(left, 1 << 20))
            first = first or part[:200]
            left -= len(part)
    assert answered == number, (answered, number)
    return first, length
"""


class Large(rawmcp.ServerCase):
    """Results that go into the sandbox in memfds."""

    SERVERS = {"fix-ture": harness.fixture()}

    def test_every_size_around_the_bounds(self):
        code = "r = []\nfor n in %r:\n    t = await tools['big'](n=n)\n    r.append(len(t) == n == t.count('x'))\nr"
        sizes = [(1 << 20) - 200, (1 << 20) - 62, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5000000, (64 << 20) - 4096]
        self.assertEqual(self.value(code % (sizes,), wait=120), [True] * len(sizes))

    def test_over_the_bound_is_one_calls_error(self):
        code = "try:\n    await tools['big'](n=%d)\nexcept ToolError as e:\n    r = [type(e).__name__, str(e)]\nr" % (65 << 20)
        kind, text = self.value(code, wait=120)
        self.assertEqual(kind, "ToolProtocolError")
        self.assertIn("64 MiB", text)
        self.assertEqual(self.value("await tools['add'](a=1, b=2)"), {"sum": 3})

    def test_many_at_once(self):
        code = "import asyncio\nr = await asyncio.gather(*(tools['big'](n=2000000 + i) for i in range(30)))\n[len(t) - 2000000 for t in r]"
        self.assertEqual(self.value(code, wait=120), list(range(30)))

    def test_threads(self):
        code = "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    r = list(p.map(lambda i: len(tools['big'].sync(n=2000000 + i)), range(12)))\nr"
        self.assertEqual(self.value(code, wait=120), [2000000 + i for i in range(12)])

    def test_no_descriptor_is_free(self):
        code = """
import os
_ = await tools["add"](a=1, b=2)
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
async def attempt():
    try:
        return len(await tools["big"](n=3000000))
    except ToolError as e:
        return str(e)
r = [await attempt(), (await tools["add"](a=1, b=2))["sum"]]
for fd in held[-20:]:
    os.close(fd)
r += [await attempt()]
for fd in held[:-20]:
    os.close(fd)
r"""
        why, after, again = self.value(code)
        self.assertEqual(why, "the result of big did not arrive: no descriptor was free for it; close files that are no longer needed")
        self.assertEqual((after, again), (3, 3000000))

    def test_what_code_can_take_from_its_channel(self):
        """Code can take only its own results, cannot change or enlarge them, and cannot keep more than a fixed number."""
        code = OWN_CHANNEL + """
def attempt(f, *args):
    try:
        f(*args)
        return "done"
    except OSError as e:
        return e.strerror
r = {"memfds": [], "stream": 0, "errors": []}
for i in range(40):
    what, length = ask(10**9 + i, 4000000)
    if isinstance(what, int):
        r["memfds"].append(what)
    elif length > 4000000:
        r["stream"] += 1
    else:
        r["errors"].append(what.decode())
fd = r["memfds"][0]
r["content"] = os.pread(fd, 90, 0).decode()
r["attempts"] = [attempt(os.write, fd, b"x"), attempt(os.ftruncate, fd, 1 << 23), attempt(mmap.mmap, fd, 4096),
                 attempt(fcntl.fcntl, fd, 1033, 2), attempt(os.open, "/proc/self/fd/%d" % fd, os.O_RDWR)]
r["memfds"] = len(r["memfds"])
r"""
        got = self.value(code, wait=120)
        self.assertEqual((got["memfds"], got["stream"], got["errors"]), (8, 32, []))
        self.assertIn('{"ok":true,"result":{"content":[{"type":"text","text":"x', got["content"].replace(" ", ""))
        self.assertEqual(got["attempts"][:2], ["Operation not permitted"] * 2)
        self.assertEqual(got["attempts"][2:4], ["Operation not permitted"] * 2)
        self.assertEqual(self.value("await tools['add'](a=1, b=2)"), {"sum": 3})


class SameName(rawmcp.ServerCase):
    """Two servers with tools of the same name."""

    SERVERS = {"one": harness.fixture("--name", "one"), "two": harness.fixture("--name", "two")}

    def test_the_short_name_is_refused_with_both_named(self):
        result = self.call("_ = _discover()\nawait tools['add'](a=1, b=2)")
        self.assertTrue(result["isError"])
        text = self.text(result)
        self.assertIn("one.add", text)
        self.assertIn("two.add", text)

    def test_full_names_and_objects_work(self):
        self.assertEqual(self.value("[await tools['one.add'](a=1, b=1), await mcp_two.add(a=2, b=2)]"), [{"sum": 2}, {"sum": 4}])

    def test_both_are_discovered(self):
        servers = self.value("sorted(t['server'] for t in _discover() if t['name'] in ('add', 'one.add', 'two.add'))")
        self.assertEqual(servers, ["one", "two"])


class Official(rawmcp.ServerCase):
    """The official servers, through the sandbox."""

    @classmethod
    def servers(cls):
        with open(f"{cls.class_dir}/note.txt", "w", encoding="utf-8") as f:
            f.write("from the host\n")
        return {
            "everything": harness.official("server-everything"),
            "memory": harness.official("server-memory", env={"MEMORY_FILE_PATH": f"{cls.class_dir}/memory.jsonl"}),
            "files": harness.official("server-filesystem", cls.class_dir),
        }

    def test_echo_of_everything(self):
        self.assertIn("hello", self.value("await mcp_everything.echo(message='hello')"))

    def test_sum_and_structured_content(self):
        self.assertIn("5", self.value("await tools['get-sum'](a=2, b=3)"))
        self.assertIn("temperature", self.value("await tools['get-structured-content'](location='New York')"))

    def test_image(self):
        code = "r = await tools['get-tiny-image']()\n[b.mime_type for b in r if hasattr(b, 'data')]"
        self.assertEqual(self.value(code), ["image/png"])

    def test_memory_graph_round_trip(self):
        code = """
_ = await mcp_memory.create_entities(entities=[{"name": f"e{i}", "entityType": "t", "observations": ["o"]} for i in range(20)])
g = await mcp_memory.read_graph()
len(g["entities"])"""
        self.assertEqual(self.value(code), 20)

    def test_filesystem(self):
        code = f"r = await mcp_files.read_text_file(path={self.class_dir + '/note.txt'!r})\nr['content'] if isinstance(r, dict) else r"
        self.assertEqual(self.value(code), "from the host\n")

    def test_the_sandbox_itself_cannot_see_that_file(self):
        self.assertEqual(self.cell(f"open({self.class_dir + '/note.txt'!r})")["error"]["type"], "FileNotFoundError")

    def test_error_of_a_real_server(self):
        self.assertIn("ToolError", self.cell("await mcp_files.read_text_file(path='/etc/shadow')")["error"]["type"])

    def test_a_hundred_calls_at_once(self):
        code = "import asyncio\nr = await asyncio.gather(*(mcp_everything.echo(message=str(i)) for i in range(100)))\nlen(set(r))"
        self.assertEqual(self.value(code), 100)

    def test_all_three_are_discovered(self):
        self.assertEqual(self.value("sorted({t['server'] for t in _discover()})"), ["everything", "files", "memory"])


class NoTools(harness.Case):
    """A config without any server."""

    def test_tools_without_servers(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            server.initialize()
            self.assertEqual(server.cell("list(_discover())")["value"]["json"], [])
            self.assertEqual(server.cell("await tools['x']()")["error"]["type"].split(".")[-1], "ToolNotFound")


if __name__ == "__main__":
    harness.main()
