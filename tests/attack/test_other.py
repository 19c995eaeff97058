"""Classes 127 to 134: side channels, merged pages, audit, images."""

import os
import subprocess
import sys

import harness
import rawmcp

CALLS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def errno_of(function, *arguments):
    return ctypes.get_errno() if function(*map(ctypes.c_long, arguments)) == -1 else 0
"""


class Other(rawmcp.ServerCase):
    SERVERS = {"one": harness.fixture()}

    def outside(self, code):
        return eval(subprocess.run([sys.executable, "-c", f"{code}\nprint(repr(value))"], capture_output=True, text=True, check=True).stdout)

    def test_speculation_is_not_left_to_the_thread(self):
        """127. The filter denies the control of it, and core scheduling. The control: outside the kernel gives another error."""
        code = CALLS + "value = [errno_of(libc.prctl, operation, 99, 0, 0, 0) for operation in (53, 62)]"
        self.assertLessEqual(set(self.value(code + "\nvalue")), {1, 38})
        self.assertEqual(set(self.outside(code)) & {0, 1, 38}, set())
        with open("/proc/self/status", encoding="ascii", errors="replace") as f:
            known = [line.split(":")[0] for line in f if line.startswith("Speculation")]
        inside = self.value("[line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if line.startswith('Speculation')]")
        self.assertEqual([name for name, _ in inside], known)
        # A kernel that has the means sets them for a process with a filter, or leaves them to prctl, which is denied.
        self.assertEqual([text for _, text in inside if text == "unknown"], [])

    def test_pages_are_not_merged(self):
        """129. A process cannot request merging. The control runs outside, where the kernel supports KSM or reports that KSM is missing."""
        code = CALLS + """
import mmap
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
value = [errno_of(libc.prctl, 67, 1, 0, 0, 0), errno_of(libc.madvise, address, 4096, 12)]
"""
        inside, outside = self.value(code + "value"), self.outside(code)
        self.assertIn(inside[0], (1, 38), inside)
        self.assertNotIn(outside[0], (1, 38))
        with open("/sys/kernel/mm/ksm/run", encoding="ascii") if os.path.exists("/sys/kernel/mm/ksm/run") else open(os.devnull, encoding="ascii") as f:
            runs = f.read().strip() == "1"
        self.assertTrue(inside[1] or not runs or outside[1], (inside, outside))

    def test_no_physical_addresses(self):
        """130. The control, as root outside: the same entry has its frame."""
        code = """
import mmap, struct
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); page[0] = 1
import ctypes
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
try:
    with open('/proc/self/pagemap', 'rb') as f:
        f.seek(address // 4096 * 8)
        entry = struct.unpack('<Q', f.read(8))[0]
except OSError:
    entry = 0
value = entry & ((1 << 55) - 1)
"""
        self.assertEqual(self.value(code + "value"), 0)
        if harness.ROOT:
            self.assertNotEqual(self.outside(code), 0)

    def test_calls_of_tools_are_recorded(self):
        """132. Data can leave through a tool's arguments: each call is in the result. The control is a cell without calls."""
        cell = self.ok("for i in range(3): await mcp_one.echo(secret=i)")
        self.assertEqual((cell["tool_calls_total"], [c["tool"] for c in cell["tool_calls"]]), (3, ["echo"] * 3))
        self.assertNotIn("tool_calls", self.ok("1"))

    def test_the_image_is_not_writable_for_others(self):
        """134. The store is the user's alone, and a tree in it that others can write is refused."""
        store = harness.environment()["CLOISTER_IMAGE_STORE"]
        for folder, names, _ in os.walk(store):
            self.assertEqual(os.stat(folder).st_mode & 0o022, 0, folder)
            if folder.count("/") - store.count("/") > 4:
                names[:] = []


if __name__ == "__main__":
    harness.main()
