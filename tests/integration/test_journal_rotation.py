"""SIGKILL at each step of a rotation of the journal: no record is lost, and none is twice. As root: the process is traced."""

import ctypes
import os
import platform
import signal
import threading
import time
import unittest

import harness
import test_journal

SEIZE, INTERRUPT, SYSCALL, INFO, GOOD, WALL = 0x4206, 0x4207, 24, 0x420E, 1, 0x40000000
CALLS = {
    "x86_64": {"flock": 73, "list": 217, "fsync": 74, "write": 1, "send": 46, "wait": 7, "unlink": 263},
    "aarch64": {"flock": 32, "list": 61, "fsync": 82, "write": 64, "send": 211, "wait": 73, "unlink": 35},
}
# The calls of the process since it began to rotate, up to that at which it is killed.
STEPS = {
    "before the directory is locked": ["flock"],
    "before the segments are listed": ["list"],
    "between the heads and the records of a segment that is too old": ["unlink", "unlink"],
    "the segment is made": ["fsync"],
    "its heads have no key": ["fsync", "write"],
    "the broker has not received it": ["fsync", "write", "send"],
    "the broker writes to it": ["fsync", "write", "send", "wait"],
    "the end of the segment before is not signed": ["fsync", "write", "send", "wait", "write"],
}
# Small calls follow for a while, so that there are records of the time in which the broker still writes to the full segment.
FILL = """import asyncio, time
end, n = time.monotonic() + %g, 72
for i in range(72):
    await mcp_f.length(text='x' * 7000)
while time.monotonic() < end:
    await mcp_f.add(a=1, b=2)
    await asyncio.sleep(0.002)
    n += 1
n"""
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class Call(ctypes.Structure):
    """struct ptrace_syscall_info, of the entry of a call."""

    _fields_ = [("op", ctypes.c_uint8), ("arch", ctypes.c_uint32), ("ip", ctypes.c_uint64), ("sp", ctypes.c_uint64), ("number", ctypes.c_uint64), ("more", ctypes.c_uint64 * 8)]


class Killer(threading.Thread):
    """Kills a process at the last one of these system calls."""

    def __init__(self, pid, calls):
        super().__init__()
        self.pid, self.calls, self.error = pid, [CALLS[platform.machine()][name] for name in calls], None
        self.ready = threading.Event()
        self.start()
        self.ready.wait(harness.PATIENCE)

    def trace(self, request, *arguments):
        if libc.ptrace(request, self.pid, *arguments) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    def run(self):
        try:
            self.trace(SEIZE, None, ctypes.c_void_p(GOOD))
            self.trace(INTERRUPT, None, None)
            self.ready.set()
            while self.calls:
                self.step()
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, WALL)
        except OSError as error:
            self.error = error
        self.ready.set()

    def step(self):
        _, status = os.waitpid(self.pid, WALL)
        if not os.WIFSTOPPED(status):
            raise OSError(f"it has ended before: {status}")
        call = Call()
        self.trace(INFO, ctypes.c_void_p(ctypes.sizeof(call)), ctypes.byref(call))
        if call.op == 1 and call.number == self.calls[0]:
            self.calls.pop(0)
        if self.calls:
            number = os.WSTOPSIG(status)
            self.trace(SYSCALL, None, ctypes.c_void_p(number if number != signal.SIGTRAP | 0x80 and status >> 16 == 0 else 0))


@unittest.skipUnless(harness.ROOT and platform.machine() in CALLS, "traces a process that is not dumpable")
class Rotation(test_journal.Case):
    def rotate(self, server, name):
        """Fills the segment while its process is traced, and waits until that has been killed at the step."""
        made, begun = len(self.calls()), self.count("start")
        killer = Killer(self.process(server), STEPS[name])
        cell = server.cell(FILL % (1.5 if "send" in STEPS[name] else 0), timeout=60)
        self.assertEqual(cell["status"], "ok", cell)
        killer.join(2 * harness.PATIENCE)
        self.assertEqual((killer.is_alive(), killer.error), (False, None), name)
        return made + cell["value"]["json"], begun

    def count(self, kind):
        return sum(r["kind"] == kind for r in self.records())

    def check(self, made, name):
        """Each call is on record once, and so is its answer."""
        chain, calls, answers = None, [], []
        for record in self.records():
            chain = record.get("chain", chain)
            if record["kind"] == "call":
                calls.append((chain, record["n"]))
            elif record["kind"] == "answer":
                answers.append((chain, record["of"]))
        self.assertEqual((len(calls), sorted(answers)), (made, sorted(set(calls))), name)

    def numbers(self):
        """Of the last chain: each number once, in order."""
        records = self.records()
        begin = max(i for i, r in enumerate(records) if r["kind"] == "start" and r["after"] == 0)
        self.assertEqual([r["n"] for r in records[begin:]], list(range(1, len(records) - begin + 1)))

    def verify(self):
        n = len(self.records())
        self.assertRegex(self.command("verify"), rf"(?m)^ok: {n:,} records, signed to {n:,}$")
        number = lambda path: os.path.basename(path).split(".")[0]  # noqa: E731
        self.assertLessEqual(set(map(number, self.files("heads"))), set(map(number, self.files())), "heads without records")

    def walk(self, names):
        old = self.start()
        old.cell("1")
        old.close()
        server = self.start({"max": "4M", "keep": "1d", "arguments": "full"})
        server.cell("1")
        for name in names:
            with self.subTest(name):
                if "too old" in name:
                    os.utime(self.files()[0], (time.time() - 9e5,) * 2)
                made, begun = self.rotate(server, name)
                self.assertEqual(server.cell("(await mcp_f.add(a=1, b=2))['sum']")["status"], "ok")
                self.wait_for(lambda b=begun - ("too old" in name): self.count("start") > b, name)
                self.check(made + 1, name)
        server.close()
        self.numbers()
        self.verify()

    # Two tests: a living server fills no more than eight segments in a day.
    def test_killed_until_the_segment_has_heads(self):
        self.walk([name for name, calls in STEPS.items() if "send" not in calls])

    def test_killed_until_the_segment_before_is_signed(self):
        self.walk([name for name, calls in STEPS.items() if "send" in calls])

    def test_all_is_killed_at_steps(self):
        for name in ("its heads have no key", "the broker writes to it"):
            with self.subTest(name):
                server = self.start({"max": "4M", "arguments": "full"})
                server.cell("1")
                made, _ = self.rotate(server, name)
                self.kill(server)
                server = self.start({"max": "4M"})
                server.cell("1")
                self.check(made, name)
                server.close()
                self.verify()


if __name__ == "__main__":
    harness.main()
