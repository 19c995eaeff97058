"""Classes 89 and 94 where peers share memory of the broker: no peer can use up what another one needs, and the sum has a limit."""

import sys
import time

import harness
import rawmcp

# Its tools: a text of n MiB; the beginning of an answer, and nothing more.
SERVER = r"""
import json, sys, time
out = sys.stdout.buffer
tools = json.dumps({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("text", "stall")]}).encode()
hello = b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}'
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    key, result = b"error", b'{"code":-32601,"message":"no"}'
    if m["method"] == "tools/call":
        n = m["params"]["arguments"].get("n", 1)
        key, result = b"result", b'{"content":[],"structuredContent":{"a":"' + b"x" * (n << 20) + b'"}}'
        if m["params"]["name"] == "stall":
            out.write(b'{"jsonrpc":"2.0","id":%d,"%s":%s' % (m["id"], key, result))
            out.flush()
            continue
    elif m["method"] == "initialize":
        key, result = b"result", hello
    elif m["method"] == "tools/list":
        key, result = b"result", tools
    out.write(b'{"jsonrpc":"2.0","id":%d,"%s":%s}\n' % (m["id"], key, result))
    out.flush()
"""

# Calls of the session itself, whose answers it never reads.
UNREAD = """
import os, socket, struct, time
fd = max(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)
         and os.readlink("/proc/self/fd/" + n).startswith("socket:"))
channel = socket.socket(fileno=os.dup(fd))
for n in range(2):
    data = b'{"server":"s0","tool":"text","arguments":{"n":62}}'
    channel.sendall(struct.pack("<IBBHQ", len(data), 0x42, 0, 0, (1 << 40) + n) + data)
time.sleep(600)
"""


class Shared(rawmcp.ServerCase):
    ARGUMENTS = ("--log-level", "info")

    @classmethod
    def servers(cls):
        return {f"s{i}": {"command": sys.executable, "args": ["-c", SERVER]} for i in range(3)}

    def broker(self, what):
        """MiB of the broker, as /proc names it."""
        for pid, name in harness.descendants(self.server.process.pid).items():
            if name == "cloister-broker":
                with open(f"/proc/{pid}/status", encoding="ascii") as f:
                    lines = dict(line.split(":", 1) for line in f)
                return int(lines[what].split()[0]) // 1024
        raise AssertionError("no broker")

    def cancel(self, call):
        self.server.notify("notifications/cancelled", requestId=call.id)

    def test_stalled_servers(self):
        """89. Two servers that do not finish their answers do not keep a third one's from its session."""
        for i in range(3):
            self.ok(f"_ = await tools['s{i}.text'](n=0)")
        stalled = [self.server.start_call(f"await tools['s{i}.stall']()", session=f"stalled-{i}", timeout=4) for i in range(2)]
        time.sleep(0.5)
        started = time.monotonic()
        self.assertEqual(self.value("len((await tools['s2.text'](n=1))['a'])"), 1 << 20)
        self.assertLess(time.monotonic() - started, 8 * harness.SANITIZED * harness.SLOW)
        # One of the two servers has ended, and its session gets the reason.
        ended = [call.result(harness.PATIENCE)["structuredContent"] for call in stalled]
        why = [cell["error"]["message"] for cell in ended if cell["status"] == "error"]
        self.assertEqual(len(why), 1, ended)
        self.assertIn("it was not complete after 30 s, or a second while other servers waited", why[0])

    def test_answers_that_nobody_reads(self):
        """94. Sessions that keep as much as they can leave memory for the others."""
        largest = "len((await tools['s1.text'](n=62))['a'])"
        self.ok("_ = await tools['s0.text'](n=0)")
        hogs = []
        for i in range(2):
            before = self.server.log().count("call succeeded")
            hogs.append(self.server.start_call(UNREAD, session=f"hog-{i}", timeout=600))
            # The second answer to the second one is an error.
            self.assertTrue(harness.wait_until(lambda: self.server.log().count("call succeeded") >= before + 2, harness.PATIENCE))
            if i == 0:
                self.assertEqual(self.value(largest), 62 << 20)
        refused = self.cell("await tools['s1.text'](n=62)")
        self.assertIn("too much waits to be read already, by this session and others", refused["error"]["message"])
        self.assertEqual(self.value("len((await tools['s1.text'](n=10))['a'])"), 10 << 20)
        # The control: without those sessions.
        for hog in hogs:
            self.cancel(hog)
        self.assertTrue(harness.wait_until(lambda: self.cell("_ = await tools['s1.text'](n=62)")["status"] == "ok", harness.PATIENCE))
        for i in range(2):  # what they have not read ends with them
            self.ok("1", session=f"hog-{i}", reset=True)

    def test_output_of_many(self):
        """94. The output of all sessions together is kept up to a limit. A small output is complete."""
        code = "import os, time\nfor fd in (1, 2):\n    for _ in range(40): os.write(fd, b'x' * (1 << 20))\nprint('end')\ntime.sleep(1)"
        calls = [self.server.start_call(code, session=f"loud-{i}") for i in range(8)]
        before = most = self.broker("VmRSS")
        while not all(call.done() for call in calls):
            most = max(most, self.broker("VmRSS"))
            time.sleep(0.1)
            cell = self.ok("print('y' * 200000)", session="small", max_output=400000)
            self.assertEqual(len(cell["stdout"]), 200001)
        # Freed memory that the allocator keeps, and output in transit, are added to 224 MiB.
        self.assertLess(most - before, 270 * harness.SANITIZED)
        ends = [call.result(harness.PATIENCE)["structuredContent"] for call in calls]
        self.assertEqual([cell["truncated"]["stdout_bytes"] for cell in ends], [(40 << 20) + 4] * 8)

    def kept(self):
        """MiB of the outputs that are kept for the client."""
        return sum(r.get("size", 0) for r in self.server.ask("resources/list")["resources"]) >> 20

    def test_memory_comes_back(self):
        """94. After large answers, output, and requests of a client, the broker has at most 32 MiB more than before and what it keeps."""
        more = 32 * harness.SANITIZED
        self.ok("_ = await tools['s0.text'](n=0)")
        before = self.broker("VmRSS") - self.kept()
        calls = [self.server.start_call(f"import time\nprint('x' * {4 << 20}); r = len((await tools['s{i}.text'](n=30))['a']); time.sleep(1)", session=f"large-{i}") for i in range(3)]
        most = before
        while not all(call.done() for call in calls):
            most = max(most, self.broker("VmRSS"))
            time.sleep(0.005)
        for call in calls:
            cell = call.result(harness.PATIENCE)["structuredContent"]
            self.assertEqual(cell["status"], "ok", cell.get("error"))
        self.assertGreater(most, before + self.kept() + more)  # the control
        for name in ("answers of servers", "lines of the client"):
            if name == "lines of the client":
                for _ in range(3):
                    self.server.send_bytes(b'{"jsonrpc":"2.0","method":"x","params":[' + b"0," * (14 << 20) + b"0]}\n")
                self.server.ask("ping")
            end = time.monotonic() + 10 * harness.SLOW
            while (now := self.broker("VmRSS")) > before + self.kept() + more and time.monotonic() < end:
                time.sleep(0.2)
            self.assertLessEqual(now, before + self.kept() + more, name)


if __name__ == "__main__":
    harness.main()
