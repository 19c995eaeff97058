"""Classes 88 to 100: the channel between a sandbox and the broker, and the pipes of servers and client."""

import os
import re
import subprocess
import sys
import time

import harness
import rawmcp

# Uses the channel directly, in a cell without await: no other code reads the channel then.
CHANNEL = """
import json, os, socket, struct
fd = max(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)
         and os.readlink("/proc/self/fd/" + n).startswith("socket:"))
channel = socket.socket(fileno=os.dup(fd))
channel.settimeout(20)
RESULT, CALL, DISPLAY, LOG, QUERY, DROP, DATA = 0x41, 0x42, 0x43, 0x45, 0x47, 0x48, 0x49
def frame(kind, number, data, flags=0, reserved=0, length=None):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return struct.pack("<IBBHQ", len(data) if length is None else length, kind, flags, reserved, number) + data
def call(number, server="fixture", tool="add", **arguments):
    return frame(CALL, number, {"server": server, "tool": tool, "arguments": arguments})
"""


class Forged(rawmcp.ServerCase):
    """95. Only calls that the hub sent are recorded."""

    SERVERS = {"fixture": harness.fixture()}

    def test_a_call_that_was_not_sent_is_not_recorded(self):
        self.ok("_ = await tools['add'](a=1, b=2)")
        code = CHANNEL + "channel.sendall(call(1 << 40, 'bank\\nstatus: ok', 'transfer') + frame(DROP, 1 << 40, {}))"
        self.assertNotIn("tool_calls", self.ok(code))
        # Its end in the same write: the call is still pending then.
        code = CHANNEL + "channel.sendall(call(1 << 41, 'bank', 'transfer') + frame(RESULT, 3, {'status': 'ok'}))\nos._exit(0)"
        self.assertNotIn("tool_calls", self.cell(code))

    def test_control_a_call_that_was_sent_is_recorded(self):
        """The call is also recorded when the code drops it, or ends before its answer."""
        self.ok("_ = await tools['add'](a=1, b=2)")
        code = CHANNEL + "channel.sendall(call(1 << 40, tool='sleep', seconds=1) + frame(DROP, 1 << 40, {}))"
        self.assertEqual([c["tool"] for c in self.ok(code)["tool_calls"]], ["sleep"])
        code = CHANNEL + "channel.sendall(call(1 << 41, tool='sleep', seconds=1) + frame(RESULT, 3, {'status': 'ok'}))\nos._exit(0)"
        cell = self.cell(code)
        self.assertEqual([(c["tool"], c.get("pending")) for c in cell["tool_calls"]], [("sleep", True)])


# The broker's error for each type of frame while a cell runs, when its payload is {}. None: the frame is legal. A type that
# is not in the table is unknown. This is the test's own table, not that of the broker.
WHILE_RUNNING = {
    0x01: "EXEC frame (0x01), which a worker may not send",
    0x02: "RETURN frame (0x02), which a worker may not send",
    0x04: "CATALOG frame (0x04), which a worker may not send",
    0x06: "FETCH frame (0x06), which a worker may not send",
    0x07: "PUT frame (0x07), which a worker may not send",
    0x09: "KEEP frame (0x09), which a worker may not send",
    0x0A: "DUMP frame (0x0a), which a worker may not send",
    0x0B: "LOAD frame (0x0b), which a worker may not send",
    0x0C: "CHECK frame (0x0c), which a worker may not send",
    0x0E: "PROBE frame (0x0e), which a worker may not send",
    0x41: "RESULT for cell",
    0x42: "CALL without server, tool or arguments",
    0x43: "DISPLAY for cell",
    0x44: "PROGRESS for cell",
    0x45: "LOG for cell",
    0x46: "frame of unknown type 0x46",
    0x47: "QUERY for something unknown",
    0x4A: "which no KEEP asked for",
    0x4B: "RESTORED frame while the session is running",
    0x48: None,
    0x49: "DATA for the request",
    0x08: "INPUT frame (0x08), which a worker may not send",
    0x00: "frame of unknown type 0x00",
    0x40: "frame of unknown type 0x40",
    0x0D: "SCRIPT frame (0x0d), which a worker may not send",
    0x4C: "READ from code that has no standard input",
    0x4D: "SETTLED without a HOLD",
    0x4E: "frame of unknown type 0x4e",
    0xC2: "frame of unknown type 0xc2",
    0xFF: "frame of unknown type 0xff",
}
MOST = {0x41: 4 << 20, 0x42: 17 << 20, 0x43: 17 << 20, 0x44: 64 << 10, 0x45: 64 << 10, 0x47: 64 << 10, 0x48: 64 << 10, 0x49: 8 << 20}


class Torture(rawmcp.ServerCase):
    """Each hostile worker ends its own session, with a reason. The control is a session beside it, which keeps its state."""

    SERVERS = {"fixture": harness.fixture()}

    def setUp(self):
        super().setUp()
        self.ok("kept = 'kept'", session="beside")

    def send(self, code, session):
        """Runs code that has the channel, and returns the cell. The session beside it still works."""
        cell = self.cell(CHANNEL + code, session=session)
        self.assertEqual(self.value("kept", session="beside"), "kept")
        return cell

    def ends(self, code, why, session=None):
        """The session ends, because of `why`."""
        session = session or self.session
        cell = self.send(code + "\nimport time; time.sleep(20)", session)
        self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"), cell)
        self.assertIn(why, cell["notice"])

    def lives(self, code, session=None):
        cell = self.send(code, session or self.session)
        self.assertEqual(cell["status"], "ok", cell)
        return cell

    def test_every_type_while_a_cell_runs(self):
        """88, 95."""
        for kind, why in WHILE_RUNNING.items():
            with self.subTest(hex(kind)):
                code = f"channel.sendall(frame({kind}, 1 << 50, {{}}))"
                if why is None:
                    self.lives(code, "every")
                else:
                    self.ends(code, why, "every")
        self.lives("channel.sendall(frame(LOG, 0, {'level': 'info'}))", "every")

    def test_a_result_between_cells(self):
        """95. Control: calls are legal then."""
        late = "import threading, time\nthreading.Timer(0.3, lambda: channel.sendall({})).start()"
        self.lives(late.format("call(1 << 40, a=1, b=2)"), "between")
        time.sleep(0.8)
        self.ok("1", session="between")
        self.lives(late.format("frame(RESULT, 3, {'status': 'ok'})"), "between")
        time.sleep(0.8)
        result = self.cell("1", session="between")
        self.assertEqual(result["state"], "new")
        self.assertIn("RESULT frame while the session is idle", result["notice"])

    def test_headers(self):
        """88: lengths, flags, the reserved field. The control of a length is the largest one that is allowed."""
        for kind, most in MOST.items():
            with self.subTest(hex(kind)):
                self.ends(f"channel.sendall(frame({kind}, 1, b'', length={most + 1}))", f"{most + 1} bytes, at most {most} are allowed", "header")
        self.ends("channel.sendall(frame(CALL, 1, b'', length=2**32 - 1))", "4294967295 bytes", "header")
        self.ends("channel.sendall(frame(CALL, 1, {}, flags=1))", "flags 0x01", "header")
        self.ends("channel.sendall(frame(CALL, 1, {}, reserved=256))", "reserved field 0x0100", "header")
        self.ends("channel.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n')", "frame of unknown type 0x2f", "header")

    def test_a_truncated_frame(self):
        """88. The worker exits in the middle of a frame: the received part of the frame is dropped."""
        for length in (5, 16, 100):
            cell = self.send(f"channel.sendall(call(1 << 40, x='y' * 100)[:{length}])\nos._exit(7)", "truncated")
            self.assertEqual((cell["status"], cell.get("exit_code")), ("exit", 7), cell)

    def test_a_frame_that_never_ends(self):
        """89. Its bytes never stop arriving. The control is the next test: a frame that is complete in time."""
        code = "import threading, time\nchannel.sendall(call(1 << 40, x='y' * 1000)[:20])\ndef drip():\n    while True: channel.sendall(b'y'); time.sleep(0.5)\nthreading.Thread(target=drip, daemon=True).start()"
        self.ends(code, "CALL frame was not complete after 10 s")

    def test_byte_by_byte(self):
        """89. A frame in pieces of one byte is accepted. No other session waits for it."""
        code = "import time\nfor byte in call(1 << 40, tool='sleep', seconds=0):\n    channel.sendall(bytes([byte]))\n    time.sleep(0.005)\ntime.sleep(0.2)"
        slow = self.server.start_call(CHANNEL + code, session=self.session)
        for _ in range(5):
            self.assertEqual(self.value("kept", session="beside"), "kept")
        cell = slow.result(60)["structuredContent"]
        self.assertEqual([c["tool"] for c in cell["tool_calls"]], ["sleep"])

    def test_a_worker_that_never_reads(self):
        """89, 94. Its answers have a bound; then it is not read either."""
        code = ("import time\nfor i in range(12):\n    channel.sendall(call((1 << 40) + i, tool='big', n=20 << 20))\n    time.sleep(0.05)\n"
                "time.sleep(2)")
        cell = self.lives(code)
        self.assertGreater(len(cell["tool_calls"]), 3)
        self.assertLess(broker_mib(self.server), 256 * harness.SANITIZED)

    def test_two_processes_on_the_channel(self):
        """97. The child of a fork writes into the middle of a frame."""
        self.ends("data = call(1 << 40, x='y' * 1000)\nchannel.sendall(data[:500])\nif os.fork() == 0:\n    channel.sendall(call(1 << 41))\n    os._exit(0)\n"
                  "os.wait()\nchannel.sendall(data[500:])", "CALL: not JSON")

    def test_the_same_number_twice(self):
        """88."""
        self.ends("channel.sendall(call(7 << 40, tool='sleep', seconds=5) * 2)", "a second call with the number")

    def test_deep_json(self):
        """91. Control: 100 levels."""
        self.lives("channel.sendall(frame(CALL, 1 << 40, b'{\"server\":\"fixture\",\"tool\":\"echo\",\"arguments\":{\"a\":' + b'[' * 100 + b']' * 100 + b'}}'))", "deep")
        for depth in (127, 100000):
            self.ends(f"channel.sendall(frame(CALL, 1 << 40, b'{{\"arguments\":{{\"a\":' + b'[' * {depth} + b']' * {depth} + b'}}}}'))", "JSON nested deeper than 128 levels", "deep")
        self.ends("channel.sendall(frame(CALL, 1 << 40, b'[' * (4 << 20)))", "JSON of more than 1000000 values", "deep")

    def test_many_values(self):
        """91, 94. A million values are the limit, and no memory is allocated beyond it. The control sends half as many."""
        code = "body = b'[' + b'0,' * %d + b'0]'\nchannel.sendall(frame(CALL, 1 << 40, b'{\"server\":\"none\",\"tool\":\"t\",\"arguments\":{\"a\":' + body + b'}}'))"
        self.lives(code % 500000 + "\nimport time; time.sleep(1)", "values")
        self.ends(code % 1000000, "JSON of more than 1000000 values", "values")
        self.ends(code % (8 << 20), "JSON of more than 1000000 values", "values")
        self.assertLess(broker_mib(self.server), 256 * harness.SANITIZED)

    def test_odd_json(self):
        """92. Bad UTF-8, half a surrogate pair, NaN and NUL are refused. Control: numbers of any size pass as they are."""
        for data in (b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\\ud800"}', b'{"a": NaN}', b'{"a": 1}\0', b"\xef\xbb\xbf{}"):
            with self.subTest(data):
                self.ends(f"channel.sendall(frame(CALL, 1 << 40, {data!r}))", "CALL: not JSON", "odd")
        for name in ("server", "tool"):
            data = {"server": "fixture", "tool": "add", "arguments": {}, name: "fixture\0x" if name == "server" else "add\0x"}
            self.ends(f"channel.sendall(frame(CALL, 1 << 40, {data!r}))", "CALL with a NUL", "odd")
        numbers = {"n": 10**400, "e": 1e-300}
        self.assertEqual(self.value(f"r = await tools['echo'](**{numbers!r})\nr == {numbers!r}", session="odd"), True)

    def test_colliding_keys(self):
        """93. Lookups scan the members of the message, which are few. No lookup is done in arguments."""
        code = "keys = {('%%08d' %% i)[::-1]: 0 for i in range(%d)}\nchannel.sendall(frame(CALL, 1 << 40, %s))\nimport time; time.sleep(0.5)"
        self.lives(code % (200000, "{'server': 'none', 'tool': 't', 'arguments': keys}"), "keys")
        self.ends(code % (200000, "keys"), "CALL: an object of 200000 members, at most 64 are allowed", "keys")

    def test_flood_of_calls(self):
        """90. Another session answers beside a flood."""
        code = "import threading\nthreading.Thread(target=lambda: [channel.recv(1 << 20) for _ in iter(int, 1)], daemon=True).start()\n" \
               "n = 1 << 40\nwhile True:\n    channel.sendall(b''.join(call(n + i, server='none') for i in range(500)))\n    n += 500"
        flood = self.server.start_call(CHANNEL + code, session=self.session, timeout=2)
        n = 0
        while not flood.done():
            self.assertEqual(self.value("kept", session="beside"), "kept")
            n += 1
        self.assertGreater(n, 1, "calls beside two seconds of flood")
        self.assertLess(broker_mib(self.server), 128 * harness.SANITIZED)


def broker_mib(server):
    """The largest memory that the broker has had."""
    for pid, name in harness.descendants(server.process.pid).items():
        if name == "cloister-broker":
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) // 1024
    raise AssertionError("there is no broker")


# A server that returns n values or a text of n MiB, as the caller requests, or that lists many tools.
SERVER = r"""
import json, sys
tools = [{"name": n, "inputSchema": {"type": "object"}} for n in ("array", "text", "object", "nested", "half")]
tools += [{"name": "t%d" % i, "inputSchema": {"type": "object"}} for i in range(int(sys.argv[1]))]
out = sys.stdout.buffer
def value(name, n):
    return {"array": lambda: b"[" + b"0," * n + b"0]", "text": lambda: b'"' + b"x" * (n << 20) + b'"',
            "object": lambda: b"{" + b",".join(b'"k%d":0' % i for i in range(n)) + b"}",
            "nested": lambda: b"[" * n + b"]" * n, "half": lambda: b'"\ud800' + b"x" * n + b'"'}[name]()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    result = b'{"code":-32601,"message":"no"}'
    key = b"error"
    if m["method"] == "tools/call":
        key, result = b"result", b'{"content":[],"structuredContent":{"a":' + value(m["params"]["name"], m["params"]["arguments"]["n"]) + b"}}"
    elif m["method"] == "initialize":
        key, result = b"result", b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}'
    elif m["method"] == "tools/list":
        key, result = b"result", json.dumps({"tools": tools}).encode()
    out.write(b'{"jsonrpc":"2.0","id":%d,"%s":%s}\n' % (m["id"], key, result))
    out.flush()
"""


class Upstream(rawmcp.ServerCase):
    """A hostile server: its own calls fail, with the reason. The control is another server."""

    @classmethod
    def servers(cls):
        command = {"command": sys.executable, "args": ["-c", SERVER, "0"]}
        return {"hostile": command, "large": {**command, "args": ["-c", SERVER, "50000"]}, "fixture": harness.fixture()}

    def raised(self, call, session=None):
        code = f"try:\n    await {call}\n    r = None\nexcept ToolError as e:\n    r = [type(e).__name__, str(e)]\n[r]"
        found = self.value(code, session=session or self.session, wait=120)[0]
        self.assertEqual(self.value("await mcp_fixture.add(a=1, b=2)", session="beside"), {"sum": 3})
        return found

    def test_results(self):
        """91, 92, 94."""
        self.assertIsNone(self.raised("mcp_hostile.array(n=400000)"))
        kind, text = self.raised("mcp_hostile.array(n=10 << 20)")
        self.assertEqual(kind, "ToolProtocolError")
        self.assertIn("JSON of more than 1000000 values", text)
        self.assertIn("nested deeper than 128", self.raised("mcp_hostile.nested(n=300000)")[1])
        self.assertIn("not JSON", self.raised("mcp_hostile.half(n=300000)")[1])
        self.assertIsNone(self.raised("mcp_hostile.object(n=100000)"))
        self.assertEqual(self.value("len((await mcp_hostile.text(n=40))['a'])", wait=120), 40 << 20)
        self.assertLess(broker_mib(self.server), 256 * harness.SANITIZED)

    def test_big_catalogue(self):
        """94. Of 50,000 tools, 10,000 are taken."""
        self.assertIn("array", self.value("[t['name'] for t in _search('array')]"))
        self.assertEqual(self.raised("mcp_large.array(n=1)"), None)
        self.assertEqual(self.raised("tools['large.t49999'](n=1)")[0], "ToolNotFound")


class Trust(rawmcp.ServerCase):
    def test_the_wrong_peer(self):
        """98. The channel is a pair without a name, and no descriptor of it is the broker's or another session's."""
        code = ("import os, socket\nr = []\nfor n in map(int, os.listdir('/proc/self/fd')):\n    try:\n        s = socket.socket(fileno=os.dup(n))\n"
                "    except OSError:\n        continue\n    r.append([s.family == socket.AF_UNIX, s.getsockname(), s.getpeername()])\nr")
        sockets = self.value(code)
        self.assertTrue(sockets)
        for is_unix, own, peer in sockets:
            self.assertEqual((is_unix, own, peer), (True, "", ""))

    def test_nothing_is_unpickled(self):
        """100. No program of the host loads objects that a sandbox wrote. The control is that the pattern finds them."""
        loads = r"\b(import|from) +(pickle|marshal|shelve)\b|\b(pickle|marshal|shelve)\.|PyMarshal_Read"
        for text in "import pickle", "from marshal import loads", "shelve.open(name)", "PyMarshal_ReadObjectFromString(bytes, n)":
            self.assertTrue(re.search(loads, text), text)
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        for folder in ("base", "policy", "rpc", "rootfs", "supervisor", "sandbox-init/init", "sandbox-init/setup"):
            done = subprocess.run(["grep", "-rlE", loads, os.path.join(root, folder)], capture_output=True, text=True, check=False)
            self.assertEqual((done.stdout, done.returncode), ("", 1), folder)  # 2: there is no such folder


if __name__ == "__main__":
    harness.main()
