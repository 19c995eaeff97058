"""Classes 88 to 100: the channel between a sandbox and the broker, and the pipes of servers and client."""

import harness
import rawmcp

# Speaks on the channel itself, in a cell without await: nobody else reads it then.
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
    """95. What is recorded of calls is what the hub sent."""

    SERVERS = {"fixture": harness.fixture()}

    def test_a_call_that_was_not_sent_is_not_recorded(self):
        self.ok("_ = await tools['add'](a=1, b=2)")
        code = CHANNEL + "channel.sendall(call(1 << 40, 'bank\\nstatus: ok', 'transfer') + frame(DROP, 1 << 40, {}))"
        self.assertNotIn("tool_calls", self.ok(code))
        # Its end in the same write: the call is still pending then.
        code = CHANNEL + "channel.sendall(call(1 << 41, 'bank', 'transfer') + frame(RESULT, 3, {'status': 'ok'}))\nos._exit(0)"
        self.assertNotIn("tool_calls", self.cell(code))

    def test_control_a_call_that_was_sent_is_recorded(self):
        """Also when the code drops it, or ends before its answer."""
        self.ok("_ = await tools['add'](a=1, b=2)")
        code = CHANNEL + "channel.sendall(call(1 << 40, tool='sleep', seconds=1) + frame(DROP, 1 << 40, {}))"
        self.assertEqual([c["tool"] for c in self.ok(code)["tool_calls"]], ["sleep"])
        code = CHANNEL + "channel.sendall(call(1 << 41, tool='sleep', seconds=1) + frame(RESULT, 3, {'status': 'ok'}))\nos._exit(0)"
        cell = self.cell(code)
        self.assertEqual([(c["tool"], c.get("pending")) for c in cell["tool_calls"]], [("sleep", True)])


if __name__ == "__main__":
    harness.main()
