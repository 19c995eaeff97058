"""Calls with on_error="rollback": the state after a failed call, and its message."""

import os
import shutil
import tempfile
import textwrap
import unittest

import harness
import rawmcp

MB = 1 << 20

# A state of the session and of /workspace, and the parts of it that must be equal after a rollback.
BEFORE = """
import os, stat, mmap
def write(name, text):
    os.makedirs(os.path.dirname('/workspace/' + name), exist_ok=True)
    with open('/workspace/' + name, 'w') as f: f.write(text)
def listing(root='/workspace'):
    found = []
    for folder, folders, names in sorted(os.walk(root)):
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(about.st_mode) else open(path).read() if stat.S_ISREG(about.st_mode) else None
            found.append((path, oct(about.st_mode), about.st_mtime_ns, about.st_nlink if what else 0, what))
    return found
for name in ('changed', 'deleted', 'renamed', 'truncated', 'mapped', 'mode', 'd/e/f', 'gone/a', 'line\\nbreak'): write(name, name * 1000)
os.symlink('/etc/passwd', '/workspace/link')
os.link('/workspace/changed', '/workspace/d/second')
os.mkfifo('/workspace/fifo')
x, gone = ['state'], None
log = open('/workspace/log', 'w+')
_ = log.write('one\\n'), log.flush()
before = listing()
None
"""
CHANGES = """
import shutil
x.append('changed'); y = 2
write('changed', 'new')
os.remove('/workspace/deleted')
os.rename('/workspace/renamed', '/workspace/else')
os.truncate('/workspace/truncated', 5)
with open('/workspace/mapped', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[:6] = b'MAPPED'
os.chmod('/workspace/mode', 0)
os.rename('/workspace/d', '/workspace/moved')
shutil.rmtree('/workspace/gone')
os.remove('/workspace/link'); os.symlink('/tmp', '/workspace/link')
os.remove('/workspace/fifo'); write('fifo', 'a file')
write('new/file', 'new')
_ = log.write('two\\n'), log.flush()
"""

FAILURES = {
    "error": ("1 / 0", "error"),
    "exit": ("raise SystemExit(3)", "exit"),
    "timeout": ("import time; time.sleep(30)", "timeout"),
    "deadline": ("from itertools import repeat\nsum(repeat(1))", "timeout"),
    "death": ("os._exit(3)", "exit"),
    "segv": ("import ctypes; ctypes.string_at(0)", "killed"),
    "oom": ("hog = []\nwhile True: hog.append(bytearray(8 << 20))", "oom"),
    "channel": ("os.closerange(3, 65536)\n1", "killed"),
}
REST = {"tmp": "1M", "shm": "1M"}


class Transactions(rawmcp.ServerCase):
    SERVERS = {"demo": harness.fixture()}
    CONFIG = {"limits": {"memory": "256M", "pids": 64}, "profiles": {"off": {"state": {"survives": False}, "agent": True}, "small": {"limits": {"memory": "64M", "workspace": "4M", **REST}, "agent": True}, "large": {"limits": {"memory": "64M", "workspace": "24M", **REST}, "agent": True}}}

    def fails(self, code, status="error", **arguments):
        """A call that is rolled back."""
        cell = self.cell(code, on_error="rollback", **arguments)
        self.assertEqual((cell["status"], cell["state"]), (status, "rolled_back"), cell)
        return cell

    def refused(self, code, why, **arguments):
        cell = self.cell(code, on_error="rollback", **arguments)
        self.assertEqual(cell["error"]["type"], "TransactionError", cell)
        self.assertIn(why, cell["error"]["message"])

    def test_each_failure(self):
        names = [name for name in FAILURES if name != "oom" or harness.BOUNDED]
        for name in names:
            self.ok(BEFORE, session=name)
        waiting = {}
        for name in names:
            code, status = FAILURES[name]
            more = {"timeout": harness.AT_ONCE} if status == "timeout" else {}
            waiting[name] = self.server.start_call(CHANGES + code, session=name, on_error="rollback", **more)
        for name in names:
            cell = waiting[name].result()["structuredContent"]
            self.assertEqual((cell["status"], cell["state"]), (FAILURES[name][1], "rolled_back"), (name, cell))
            self.assertIn("rolled back: variables and /workspace are as before the call (", cell["notice"])
            same = self.value("[a for a, b in zip(listing(), before) if a != b], len(listing()) - len(before), x, 'y' in globals()", session=name)
            self.assertEqual(same, "([], 0, ['state'], False)", name)
            # The descriptor and the file agree.
            self.assertEqual(self.value("_ = log.write('three\\n'), log.flush()\nopen('/workspace/log').read()", session=name).replace("\0", ""), "one\nthree\n")

    def test_a_success_stays(self):
        self.ok(BEFORE)
        cell = self.cell(CHANGES + "len(x)", on_error="rollback")
        self.assertEqual((cell["status"], cell["state"], cell["value"]["json"]), ("ok", "kept", 2))
        self.assertNotIn("notice", cell)
        self.assertEqual(self.value("x, y, open('/workspace/new/file').read()"), "(['state', 'changed'], 2, 'new')")
        # If the interpreter ends afterwards, these changes are kept.
        self.cell("os._exit(1)")
        self.assertEqual(self.value("open('/workspace/new/file').read()"), "new")

    def test_the_control(self):
        """Without on_error a failure changes both."""
        self.ok(BEFORE)
        for arguments in {}, {"on_error": "keep"}:
            cell = self.cell("x.append(1); write('new', '1'); 1 / 0", **arguments)
            self.assertEqual((cell["status"], cell["state"]), ("error", "kept"))
        self.assertEqual(self.value("x, open('/workspace/new').read()"), "(['state', 1, 1], '1')")

    def test_undo(self):
        """undo() restores variables and files. Without on_error it restores only variables."""
        self.ok("import os\nx = 1\nopen('/workspace/a', 'w').write('1')")
        code = "x = 2; _ = open('/workspace/a', 'w').write('2'); undo()"
        cell = self.cell(code, on_error="rollback")
        self.assertEqual((cell["status"], cell["state"]), ("ok", "rolled_back"), cell)
        self.assertEqual(self.value("x, open('/workspace/a').read()"), "(1, '1')")
        self.ok("import time", checkpoint="one")
        cell = self.cell(code)
        self.assertEqual((cell["status"], cell["state"]), ("ok", "restored"), cell)
        self.assertEqual(self.value("x, open('/workspace/a').read()"), "(1, '2')")

    def test_the_first_call_of_a_session(self):
        cell = self.fails("open('/workspace/out/a', 'w').write('1'); x = 1; 1 / 0")
        self.assertNotIn("files", cell)
        self.assertIn("(1 new: out/a)", cell["notice"])
        self.assertEqual(self.value("import os\nos.listdir('/workspace/out'), 'x' in globals()"), "([], False)")

    def test_one_after_another(self):
        self.ok("x = 0; f = open('/workspace/n', 'w+')")
        for i in range(3):
            self.fails("x += 1; f.write('more'); f.flush(); 1 / 0")
            self.assertEqual(self.cell("x += 1; f.write('x'); f.flush()", on_error="rollback")["status"], "ok")
        self.assertEqual(self.value("x, open('/workspace/n').read().replace(chr(0), '')"), "(3, 'xxx')")

    def test_calls_that_were_sent(self):
        code = """
            import asyncio
            await mcp_demo.text(text='a')
            try: await mcp_demo.fail()
            except Exception: pass
            waiting = asyncio.create_task(mcp_demo.sleep(seconds=3))
            await asyncio.sleep(0.2)
        """
        for end, status in ("1 / 0", "error"), ("import os; os._exit(1)", "exit"):
            cell = self.fails(textwrap.dedent(code) + end, status)
            self.assertEqual([(c["tool"], c["outcome"]) for c in cell["sent"]], [("text", "ok"), ("fail", "failed"), ("sleep", "in doubt")], cell)
            self.assertEqual(cell["sent"][0]["server"], "demo")
            self.assertEqual(cell["tool_calls_total"], 3)
            self.assertIn("tool calls that were sent stay: see sent", cell["notice"])
        self.assertEqual(self.value("await mcp_demo.text(text='b')"), "b")
        self.assertNotIn("sent", self.fails("1 / 0"))

    def test_what_is_not_taken_back(self):
        cell = self.fails("open('/tmp/a', 'w').write('1'); open('/dev/shm/b', 'w').write('1'); 1 / 0")
        self.assertIn("files in /tmp and /dev/shm stay changed", cell["notice"])
        self.assertEqual(self.value("open('/tmp/a').read() + open('/dev/shm/b').read()"), "11")

    def test_refusals(self):
        self.refused("x = 1", "state.survives", profile="off", session="off")
        self.assertEqual(self.value("'x' in globals()", session="off"), False)
        self.ok(harness.THREAD_THAT_STAYS, session="thread")
        self.refused("x = 1", 'no copy of the state can be made: thread "', session="thread")
        self.ok("import os\nfor i in range(70): os.makedirs('/workspace' + '/d' * (i + 1))")
        self.refused("x = 1", "nested more than 64 deep")
        self.assertEqual(self.value("import shutil\nshutil.rmtree('/workspace/d')\n'x' in globals()"), False)
        self.fails("x = 1 / 0")
        self.ok("open('/workspace/large', 'wb').write(bytes(18 << 20))", profile="large", session="large")
        self.refused("x = 1", "larger than what a copy of them may take", session="large")
        self.assertEqual(self.cell("x = 1", on_error="everything")["error"]["message"], 'on_error must be "keep" or "rollback"')

    def test_a_full_disk(self):
        """The old files fit on the disk again, because the new files are deleted first."""
        self.ok("import os\nopen('/workspace/a', 'wb').write(b'a' * (3 << 20))\nopen('/workspace/b', 'wb').write(b'b' * 900000)\nNone", profile="small")
        fill = "os.remove('/workspace/a')\nf = open('/workspace/c', 'wb')\ntry:\n    while True: _ = f.write(b'c' * 65536), f.flush()\nexcept OSError: pass\n"
        names = "i = 0\ntry:\n    while True:\n        os.mkdir(f'/workspace/d{i}')\n        i += 1\nexcept OSError: pass\n"
        for code in fill, names, names + fill:
            cell = self.fails(code + "1 / 0")
            self.assertNotIn("not all files", cell["notice"])
            self.assertEqual(self.value("sorted(os.listdir('/workspace')), set(open('/workspace/a', 'rb').read()), os.path.getsize('/workspace/a')"), f"(['a', 'b', 'out'], {{97}}, {3 * MB})")

    def test_processes_that_write_on(self):
        """They end before files are rolled back, with their descriptors."""
        self.ok("import os\nf = open('/workspace/a', 'w+')\n_ = f.write('mine'), f.flush()")
        code = "for _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n        while True: os.pwrite(f.fileno(), b'theirs', 0); open('/workspace/b', 'a').write('x')\nimport time; time.sleep(0.1)\n1 / 0"
        for _ in range(2):
            self.fails(code)
            self.assertEqual(self.value("open('/workspace/a').read(), os.listdir('/workspace')"), "('mine', ['a', 'out'])")

    def test_beside_a_checkpoint(self):
        """Code ends the copy: an older one is not taken for it."""
        self.ok("import os, signal\nx = 1", checkpoint="one")
        self.ok("x = 2; open('/workspace/a', 'w').write('1')")
        self.fails("x = 3; os.remove('/workspace/a'); 1 / 0")
        self.assertEqual(self.value("x, os.path.exists('/workspace/a')"), "(2, True)")
        kill = "for p in os.listdir('/proc'):\n    if p.isdigit() and int(p) not in (1, os.getpid()): last = max(int(p), globals().get('last', 0))\nos.kill(last, signal.SIGKILL)\nimport time; time.sleep(0.3)\nos._exit(1)"
        cell = self.cell(kill, on_error="rollback")
        self.assertEqual((cell["status"], cell["state"]), ("exit", "restored"), cell)
        self.assertIn("restored to the end of cell 1", cell["notice"])
        self.assertEqual(self.fails("1 / 0", restore="one")["status"], "error")
        self.assertEqual(self.value("x"), 1)

    def test_code_ends_its_copies(self):
        """The interpreter continues with its state, also if a copy is about to end when it is woken."""
        self.ok("import os, signal\nx = 0\nballast = [bytes([1]) * 4096 for _ in range(5000)]\ndef end_copies():\n    for p in os.listdir('/proc'):\n        if p.isdigit() and int(p) not in (1, os.getpid()): os.kill(int(p), signal.SIGKILL)")
        for i in range(1, 4):
            cell = self.cell("x += 1; end_copies(); 1 / 0", on_error="rollback")
            self.assertEqual((cell["status"], cell["state"]), ("error", "kept"), cell)
            self.assertIn("could not be taken back", cell["notice"])
            self.assertEqual(self.value("x"), i)
        for _ in range(2):
            self.ok("pass", checkpoint="one")
            self.ok("end_copies()")
            cell = self.cell("x", restore="one")
            self.assertEqual((cell["status"], cell["state"], cell["error"]["type"]), ("error", "kept", "CheckpointError"), cell)
            self.ok("pass", checkpoint="two")
            cell = self.cell("end_copies()\nundo()")
            self.assertEqual((cell["status"], cell["state"], cell["error"]["type"]), ("error", "kept", "RuntimeError"), cell)
        self.assertEqual(self.value("x"), 3)


class Mounted(rawmcp.ServerCase):
    """A directory of the host below /workspace is not touched."""

    @classmethod
    def setUpClass(cls):
        cls.host = tempfile.mkdtemp(prefix="cloister-test-")
        os.chmod(cls.host, 0o755)
        cls.mode = "ro" if harness.ROOT else "rw"
        cls.CONFIG = {"profiles": {"default": {"mounts": [{"source": cls.host, "target": "/workspace/data/host", "mode": cls.mode}]}}}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.host)

    def test_it(self):
        with open(os.path.join(self.host, "theirs"), "w", encoding="utf-8") as file:
            file.write("host")
        self.ok("import os\nopen('/workspace/data/mine', 'w').write('1')")
        cell = self.cell("os.rename('/workspace/data', '/workspace/moved')\nif os.access('/workspace/moved/host', os.W_OK): open('/workspace/moved/host/new', 'w').write('new')\n1 / 0", on_error="rollback")
        self.assertEqual(cell["state"], "rolled_back", cell)
        self.assertNotIn("not all files", cell["notice"])
        self.assertEqual(self.value("sorted(os.listdir('/workspace/data')), os.path.exists('/workspace/moved')"), "(['host', 'mine'], False)")
        self.assertIn("theirs", os.listdir(self.host))
        self.assertEqual("new" in os.listdir(self.host), self.mode == "rw")


if __name__ == "__main__":
    harness.main()
