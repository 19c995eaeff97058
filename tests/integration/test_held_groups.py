"""A held session in its control group of version 2 (docs/standing-still.md): what the kernel says of it, and who ends it."""

import os
import signal
import time
import unittest

import harness
import test_asks
import test_hold
from test_freeze import mount_of_cgroup2

MB = 1 << 20
SIZE = 24 * MB
# A thread and three processes that compute, and memory that all of them have.
BUSY = f"""
import os, signal, threading
kept = bytearray(b"k") * {SIZE}
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0: spin()
    children.append(pid)
"""
# Two chains of processes, each of which ends as soon as it has a successor.
FORKS = """
import os
for _ in range(2):
    if os.fork() == 0:
        while True:
            if os.fork() != 0: os._exit(0)
"""


def read(leaf, name):
    with open(f"{leaf}/{name}", encoding="ascii") as f:
        return f.read()


def value(leaf, name, key):
    return next(int(line.split()[1]) for line in read(leaf, name).splitlines() if line.split()[0] == key)


def used(leaf):
    return value(leaf, "cpu.stat", "usage_usec")


def is_frozen(leaf):
    try:
        return value(leaf, "cgroup.events", "frozen") == 1
    except FileNotFoundError:
        return False


def anonymous(pids):
    """The memory of processes, as /proc says it in kB."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            total += next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))
    return total


@unittest.skipUnless(harness.BOUNDED, "no control group is made")
class HeldGroups(test_hold.Case):
    def frozen_leaf(self, server=None):
        """Waits for the one group that is frozen among those of the server's sessions."""
        found = set()
        self.assertTrue(harness.wait_until(lambda: found.update(self.frozen_leaves(server or self.server)) or found), "no group is frozen")
        self.assertEqual(len(found), 1, found)
        return found.pop()

    def frozen_leaves(self, server):
        for pid in harness.descendants(server.process.pid):
            try:
                with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                    path = next(line[3:].strip() for line in f if line.startswith("0::"))
            except OSError:
                continue
            if os.path.basename(path).startswith("s-") and is_frozen(mount_of_cgroup2() + path):
                yield mount_of_cgroup2() + path

    def check_still(self, leaf, seconds=0.5):
        """No process of the group runs, none is new and none has ended."""
        before = used(leaf), sorted(read(leaf, "cgroup.procs").split())
        time.sleep(seconds)
        self.assertEqual((used(leaf), sorted(read(leaf, "cgroup.procs").split())), before)
        self.assertTrue(is_frozen(leaf))

    def test_it_uses_no_processor_and_keeps_its_memory(self):
        call = self.begin(f"{BUSY}\nawait {test_hold.ASK}\n[len(kept), kept.count(b'k'), [os.kill(pid, 0) for pid in children]]", timeout=60)
        leaf = self.frozen_leaf()
        pids = read(leaf, "cgroup.procs").split()
        self.assertGreaterEqual(len(pids), 5)
        memory = anonymous(pids)
        self.assertGreater(memory * 1024, SIZE)
        self.check_still(leaf, 1)
        self.assertEqual(anonymous(pids), memory)
        if os.path.exists(f"{leaf}/memory.current"):
            self.assertGreater(int(read(leaf, "memory.current")), SIZE)
        # The groups above it are not frozen: other sessions run.
        self.assertFalse(is_frozen(os.path.dirname(leaf)))
        self.assertEqual(self.value("6 * 7", session="beside"), 42)
        self.assertTrue(is_frozen(leaf))
        before = used(leaf)
        self.assertEqual(self.end(call)["value"]["json"], [SIZE, SIZE, [None] * 3])
        # The control: the same group runs again, and so do the processes that compute.
        self.assertFalse(is_frozen(leaf))
        self.assertTrue(harness.wait_until(lambda: used(leaf) > before + 100_000))
        self.value("[os.kill(pid, signal.SIGKILL) for pid in children]")

    def test_processes_that_fork(self):
        self.value(FORKS + "1")
        for _ in range(3):
            self.asking.clear()
            self.answers.clear()
            call = self.begin(f"(await {test_hold.ASK})['result']['action']", timeout=60)
            leaf = self.frozen_leaf()
            self.check_still(leaf)
            before = used(leaf)
            self.assertEqual(self.end(call)["value"]["json"], "accept")
            self.assertTrue(harness.wait_until(lambda: used(leaf) > before))  # pylint: disable=cell-var-from-loop
        self.assertEqual(self.cell("1", reset=True)["status"], "ok")

    def test_a_group_above_it_continues(self):
        """`systemctl freeze` and `thaw` of the whole server do not continue the session."""
        call = self.begin(f"{BUSY}\n(await {test_hold.ASK})['result']['action']", timeout=60)
        leaf = self.frozen_leaf()
        above = os.path.dirname(leaf)
        for state in ("1", "0"):
            with open(f"{above}/cgroup.freeze", "w", encoding="ascii") as f:
                f.write(state)
            self.assertTrue(harness.wait_until(lambda: is_frozen(above) == (state == "1")))  # pylint: disable=cell-var-from-loop
            self.check_still(leaf)
        self.assertEqual(self.end(call)["value"]["json"], "accept")
        self.value("[os.kill(pid, signal.SIGKILL) for pid in children]")

    def test_the_call_is_cancelled(self):
        call = self.begin(f"{BUSY}\nawait {test_hold.ASK}", timeout=60)
        leaf = self.frozen_leaf()
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.answers.set()  # too late: it counts for nothing
        self.assertTrue(harness.wait_until(lambda: not is_frozen(leaf)))
        self.assertEqual(self.value("len(kept)"), SIZE)

    def test_no_process_stays_frozen(self):
        """After each end of the server no process and no group of the session exists."""
        def kill(*names):
            def end(server):
                pids = [pid for pid, name in harness.descendants(server.process.pid).items() if name in names]
                self.assertEqual(len(pids), sum(name != "" for name in names), names)
                for pid in pids + [server.process.pid] * ("" in names):
                    os.kill(pid, signal.SIGKILL)
            return end

        ends = {
            "the client leaves": lambda server: server.process.stdin.close(),
            "SIGTERM": lambda server: server.process.terminate(),
            "kill -9 of the broker": kill("cloister-broker"),
            "kill -9 of the monitor": kill(""),
            "kill -9 of both": kill("", "cloister-broker"),
        }
        for name, end in ends.items():
            with self.subTest(name):
                server = test_asks.Asked("--config", os.path.join(self.class_dir, "config.json"), cwd=self.class_dir)
                self.addCleanup(server.free)
                self.asking.clear()
                server.answers["elicitation/create"] = lambda message: self.asking.set()
                server.start(self.CAPABILITIES)
                server.start_call(f"{BUSY}\nawait {test_hold.ASK}", session="one", timeout=60)
                self.assertTrue(self.asking.wait(harness.PATIENCE))
                leaf = self.frozen_leaf(server)
                pids = read(leaf, "cgroup.procs").split()
                self.assertGreaterEqual(len(pids), 5)
                end(server)
                self.assertTrue(harness.wait_until(lambda: not os.path.exists(leaf)), pids)  # pylint: disable=cell-var-from-loop
                self.assertTrue(harness.wait_until(lambda: not any(harness.alive(int(pid)) for pid in pids)), pids)  # pylint: disable=cell-var-from-loop
                self.assertTrue(harness.wait_until(lambda: server.process.poll() is not None))  # pylint: disable=cell-var-from-loop
                server.free()


if __name__ == "__main__":
    harness.main()
