"""Class 140: the sums of all sessions are bounded, whatever each of them may have. Class 146: so is the one of upstream servers."""

import contextlib
import glob
import os
import signal
import sys
import tempfile
import unittest

import harness
import rawmcp

HOLD = "import os\nheld = bytearray(os.urandom(1 << 16)) * {}\nlen(held)"
MIB_OF_HOLD = 16  # pieces of 64 KiB
FILL = """import os
for name, mib in (("/tmp/held", 15), ("/workspace/held", 31), ("/dev/shm/held", 14)):
    with open(name, "wb") as f:
        for _ in range(mib):
            f.write(os.urandom(1 << 20))
"""


class Unbounded(rawmcp.ServerCase):
    """The control: the sum of all is far above what these sessions take."""

    CONFIG = {"limits": {"memory": "128M"}, "memory_total": "2G"}
    ARGUMENTS = ("--log-level", "info")

    def hold(self, mib, name):
        return self.call(HOLD.format(mib * MIB_OF_HOLD), session=name, timeout=60)

    def holders(self, names):
        """Those that still have what they took."""
        return [name for name in names if self.is_held(self.look(name))]

    def look(self, name):
        return self.cell("print('held' in globals())", session=name)

    def is_held(self, cell):
        return cell.get("stdout") == "True\n"

    def end(self, names):
        for name in names:
            self.run_cloister("sessions", "end", name, "--server", str(self.server.process.pid), cwd=self.class_dir)

    def names(self, n):
        names = [f"{self.session}-{i}" for i in range(n)]
        self.addCleanup(self.end, names)
        return names

    def test_many_sessions(self):
        """140. Six sessions, each below its own limit, take more than 400 MiB together."""
        names = self.names(6)
        for name in names:
            self.assertEqual(self.hold(70, name)["structuredContent"]["status"], "ok")
        self.assertEqual(self.holders(names), names)

    def fill(self, names):
        """Each writes 60 MiB of files. Returns what the calls said, and the sessions that still have theirs."""
        said = [str(self.call(FILL, session=name, timeout=60)) for name in names]
        kept = [self.cell("import os; print(os.path.exists('/tmp/held'))", session=name) for name in names]
        return " ".join(said + [str(cell) for cell in kept]), [cell for cell in kept if self.is_held(cell)]

    def test_files(self):
        """140. Six sessions write 360 MiB of files together, each below its own limits."""
        self.assertEqual(len(self.fill(self.names(6))[1]), 6)


class Bounded(Unbounded):
    CONFIG = {"limits": {"memory": "128M"}, "memory_total": "240M", "pool": 0}

    def test_many_sessions(self):
        """140. The memory of all is bounded, also if no session is new: some of these end, and the result names the sum."""
        names = self.names(6)
        for name in names:  # the sessions of an earlier test end a moment after the request
            self.assertTrue(harness.wait_until(lambda name=name: self.cell("1", session=name)["status"] == "ok"))
        said = [str(self.hold(70, name)) for name in names]
        told = []

        def is_bounded():
            told[:] = [self.look(name) for name in names]
            said.extend(map(str, told))
            return sum(map(self.is_held, told)) <= 3

        # Without control groups the monitor ends a session some time after it has looked.
        self.assertTrue(harness.wait_until(is_bounded), told)
        why = [t.get("notice", "") + str(t.get("error", "")) for t in told if not self.is_held(t)]
        self.assertRegex(" ".join(said + why), r'all sessions reached "memory_total"|\("memory_total"\)')

    def test_files(self):
        """140. Files of tmpfs count in the sum of all: some of these sessions end, and the result names the sum."""
        said, kept = self.fill(self.names(6))
        self.assertLessEqual(len(kept), 4)
        self.assertRegex(said, r'all sessions reached "memory_total"|\("memory_total"\)')

    def test_refused(self):
        """140. Once the sum is reached, a new session is refused in one line; those that exist continue, and one that ends makes room."""
        names, refused = [], None
        for name in self.names(80):
            # The sessions of an earlier test end a moment after the request.
            if len(names) < 3:
                self.assertTrue(harness.wait_until(lambda name=name: not self.hold(1, name).get("isError")))
            result = self.hold(2, name)
            if result.get("isError"):
                refused = result["content"][0]["text"]
                break
            names.append(name)
        self.assertIsNotNone(refused)
        self.assertIn('("memory_total")', refused.split("\n")[1])
        self.assertEqual(refused.count("\n"), 1)
        self.assertGreaterEqual(len(names), 3, refused)
        # The next cells take more than what is left.
        self.end(names[-3:])
        self.assertEqual(self.holders(names[:2]), names[:2])
        self.end(names[:-3])
        self.assertTrue(harness.wait_until(lambda: not self.hold(1, "afterwards").get("isError")))


# A server that takes memory, starts a process that leaves its tree, and forks. Each tool answers at once.
SERVER = """
import json, os, subprocess, sys
held = []

def run(name, n):
    if name == "take":
        held.extend(bytearray(os.urandom(4096)) * 256 for _ in range(n))
    elif name == "leave":
        return subprocess.run(["/bin/sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True).stdout.strip()
    return str(os.getpid()) + " " + os.readlink("/proc/self/ns/pid")

for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("take", "leave", "pid")]}
    elif method == "tools/call":
        params = message["params"]
        result = {"content": [{"type": "text", "text": run(params["name"], params.get("arguments", {}).get("n", 0))}]}
    if result:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
OWN = "/sys/fs/cgroup/memory"
HERE = 1 << 30  # of the group in which Cloister starts, on version 1


def own_path(controller):
    with open("/proc/self/cgroup", encoding="utf-8") as f:
        return next((line.strip().split(":")[2] for line in f if line.split(":")[1] == controller), None)


@contextlib.contextmanager
def small_machine():
    """Where groups are of version 1, this process is in one of 1 GiB meanwhile. Yields how much there is, and the group or None: it
    is for the caller to remove."""
    path = own_path("memory")
    above = OWN + (path or "")
    if path is None or not os.path.exists(above) or not harness.ROOT:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
        return
    group = tempfile.mkdtemp(prefix="cloister-test-", dir=above)

    def write(file, text):
        with open(file, "w", encoding="utf-8") as f:
            f.write(text)

    write(f"{group}/memory.limit_in_bytes", str(HERE))
    write(f"{group}/cgroup.procs", "0")
    try:
        yield HERE, group
    finally:
        write(f"{above}/cgroup.procs", "0")


class Servers(rawmcp.ServerCase):
    """Servers have what sandboxes and Cloister itself leave, at least 1/8 of what there is."""

    ARGUMENTS = ("--log-level", "info")
    PART = 15 / 16  # of what there is, for sandboxes

    @classmethod
    def setUpClass(cls):
        cls.SERVERS = {name: {"command": sys.executable, "args": ["-c", SERVER]} for name in ("one", "two")}
        with small_machine() as (here, cls.group):
            cls.CONFIG = {"limits": {"memory": "128M"}, "memory_total": int(here * cls.PART)}
            super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        finally:
            if cls.group:
                os.rmdir(cls.group)

    def path(self):
        """The directory of Cloister's groups, with the memory controller."""
        self.ok("1")  # systemd may still be asked for a group
        files = ("memory.limit_in_bytes", "memory.max")
        paths = glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.process.pid}-*/servers", recursive=True)
        found = [os.path.dirname(p) for p in paths if any(os.path.exists(f"{p}/{file}") for file in files)]
        if not found:
            self.skipTest("no control group")
        return found[0]

    def call_tool(self, server, tool, n=0):
        """Runs a tool of a server in a session; returns its text, or "failed"."""
        code = f"try:\n    print(await mcp_{server}.{tool}(n={n}))\nexcept Exception as e:\n    print('failed', e)"
        return self.ok(code)["stdout"].strip()

    def take(self):
        """What the two servers say, which take more together than they may have in Servers."""
        here = self.CONFIG["memory_total"] / self.PART
        third = int(here / 8 / 3) >> 20
        return " ".join(self.call_tool(server, "take", third) for server in ("one", "one", "two", "two"))

    @unittest.skipUnless(harness.ROOT, "an ordinary user may not make the group that is small enough to be filled")
    def test_memory(self):
        """146. Servers that take more together than the bound of all lose a process; Cloister and the session continue."""
        self.path()
        self.ok("kept = 1")
        self.take()
        self.assertTrue(harness.wait_until(lambda: "all servers together reached the" in self.server.log()))
        self.assertEqual(self.value("kept"), 1)


class ServersWithEnough(Servers):
    PART = 1 / 4

    @unittest.skipUnless(harness.ROOT, "see above")
    def test_memory(self):
        """146. The control: the same two servers when sandboxes leave more."""
        self.path()
        self.assertNotIn("failed", self.take())
        self.assertNotIn("was killed", self.server.log())

    def read(self, group, name):
        for file in glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.process.pid}-*/{group}/{name}", recursive=True):
            with open(file, encoding="utf-8") as f:
                return int(f.read())
        return None

    def group_of(self, pid):
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
            return f.read()

    def test_groups(self):
        """146. Cloister's own processes, servers and sandboxes have their own groups, and on version 2 go before each other in this order. On
        version 1 only sandboxes are in a group of processor time: the others would wait for their slices."""
        self.path()
        server = harness.pid_outside(self.call_tool("one", "pid"))
        self.assertIn("/servers/u-", self.group_of(server))
        names = {self.server.process.pid: "cloister-monito", **harness.descendants(self.server.process.pid)}
        # A user may not move the broker out of the login session in which it was forked.
        expected = ("cloister-monito", "cloister-broker", "cloister-cache") if harness.ROOT and not harness.CAPABLE else ("cloister-monito",)
        own = [pid for pid, name in names.items() if name in expected]
        self.assertGreaterEqual(len(own), len(expected[:2]))
        self.assertTrue(harness.wait_until(lambda: all("/supervisor" in self.group_of(pid) for pid in own)))
        for pid in (*own, server):
            for line in self.group_of(pid).splitlines():
                _, controllers, path = line.split(":", 2)
                self.assertFalse("cpu" in controllers.split(",") and "/cloister-" in path, line)
        weights = [self.read(group, "cpu.weight") for group in ("supervisor", "servers", "sandboxes")]
        if None not in weights:
            self.assertEqual(weights, sorted(set(weights), reverse=True))
            self.assertEqual(self.read("supervisor", "memory.min"), 64 << 20)

    def test_tree(self):
        """146. When a reaper is killed, what its server has left ends with it."""
        self.path()
        written = self.call_tool("two", "pid")
        server, left = harness.pid_outside(written), harness.pid_outside(f"{self.call_tool('two', 'leave')} {written.split()[1]}")
        self.assertTrue(harness.alive(left))
        os.kill(harness.stat_of(server)[0], signal.SIGKILL)
        self.assertTrue(harness.wait_until(lambda: not harness.alive(left)))


if __name__ == "__main__":
    harness.main()
