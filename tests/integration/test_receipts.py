"""Processes, threads and memory in receipts: the kernel counts them, independent of what the code reports or tries."""

import json
import subprocess
import unittest

import harness
import rawmcp

MB = 1 << 20
FORKS = "import os\nfor _ in range({0}):\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)\n"
# A cell that sleeps is one that is counted alone.
PAUSE = "import time; time.sleep(0.03)\n"

once = unittest.skipUnless(harness.ROOT or harness.WHOLE, "with one user only")


class Receipts(rawmcp.ServerCase):
    CONFIG = {"profiles": {"off": {"state": {"survives": False}, "agent": True}}}

    def receipt(self, cell):
        uri = f"cloister://sessions/{self.session}/cells/{cell}/receipt"
        return json.loads(self.server.ask("resources/read", {"uri": uri})["contents"][0]["text"])

    def listed(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        return next(s for s in json.loads(done.stdout)[0]["sessions"] if s["name"] == self.session)

    def counted(self, cell):
        """The receipt, once processes are counted: after the result."""
        self.assertTrue(harness.wait_until(lambda: "tasks_made" in self.receipt(cell)), self.receipt(cell))
        return self.receipt(cell)

    def made(self, code, **arguments):
        cell = self.ok(PAUSE + code, **arguments)
        receipt = self.counted(cell["receipt"]["cell"])
        self.assertNotIn("tasks_from_cell", receipt)
        return receipt["tasks_made"]

    def test_processes_and_threads(self):
        self.assertEqual(self.made("1 + 1"), 0)
        self.assertEqual(self.made(FORKS.format(4)), 4)
        self.assertEqual(self.made("import threading\nfor _ in range(5):\n    t = threading.Thread(target=int); t.start(); t.join()"), 5)
        self.assertEqual(self.made("import subprocess\nfor _ in range(3): subprocess.run(['/bin/sh', '-c', ':'])"), 3)
        # Tasks of a process that keeps running are counted too.
        self.assertEqual(self.made("r, w = os.pipe()\npid = os.fork()\nif pid == 0:\n    os.fork(); os.write(w, b'x'); time.sleep(60); os._exit(0)\n_ = os.read(r, 1)"), 2)
        # A child of init asks for figures of file systems that are not the session's own.
        self.assertEqual(self.made("for _ in range(3): os.statvfs('/')\nwith open('/tmp/own', 'w') as f: os.fstatvfs(f.fileno())"), 3)
        self.assertEqual(self.listed()["tasks_made"], 17)

    def test_copies_of_the_interpreter_are_not_the_codes(self):
        for n in 1, 2:
            cell = self.ok(PAUSE + FORKS.format(n))["receipt"]["cell"]
            self.assertTrue(harness.wait_until(lambda: self.listed().get("copy_of_cell") == cell), self.listed())
            self.assertEqual(self.counted(cell)["tasks_made"], n)
        self.assertEqual(self.made("1"), 0)

    @once
    def test_short_calls_have_one_number(self):
        for _ in range(12):
            self.ok("import os\npid = os.posix_spawn('/bin/true', ['true'], {})")
        self.ok(PAUSE + "while True:\n    try: os.wait()\n    except ChildProcessError: break")
        self.counted(13)
        receipts = [self.receipt(n) for n in range(1, 14)]
        groups = {r.get("tasks_from_cell", r["cell"]): r["tasks_made"] for r in receipts}
        self.assertEqual(sum(groups.values()), 12, receipts)

    @once
    def test_a_call_that_ends_the_interpreter(self):
        dies = PAUSE + FORKS.format(6) + "os._exit(3)"
        for profile in "default", "off":
            with self.subTest(profile=profile):
                session = f"{self.session}-{profile}"
                first = self.ok("1", session=session, profile=profile)
                if profile == "default":
                    harness.wait_until(lambda: "copy_of_cell" in json.loads(self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir).stdout)[0]["sessions"][-1])
                result = self.call(dies, session=session)["structuredContent"]
                self.assertEqual(result["state"], "restored" if profile == "default" else "lost", first)
                self.session = session
                self.assertEqual(self.counted(2)["tasks_made"], 6)
                self.session = session.rsplit("-", 1)[0]

    def test_code_cannot_forge_the_number(self):
        """The code writes to every file that could hold the number, requests a pid of its choice, and reports that it created no tasks."""
        tried = self.value(PAUSE + """
import ctypes, glob, os
libc = ctypes.CDLL(None, use_errno=True)
worked = []
for path in ['/proc/sys/kernel/ns_last_pid', '/proc/self/../sys/kernel/ns_last_pid', '/proc/1/root/proc/sys/kernel/ns_last_pid'] + glob.glob('/proc/1/fd/*') + glob.glob('/proc/*/sys/kernel/ns_last_pid'):
    try:
        fd = os.open(path, os.O_WRONLY); os.write(fd, b'5'); worked.append(path)
    except OSError: pass
for fd in range(3, 4096):  # what the worker has inherited
    try: link = os.readlink(f'/proc/self/fd/{fd}')
    except OSError: continue
    if 'last_pid' in link: worked.append(link)
args = (ctypes.c_uint64 * 11)()
pid = ctypes.c_int(5)
args[8], args[9], args[4] = ctypes.addressof(pid), 1, 17
got = libc.syscall(435, ctypes.byref(args), 88)  # clone3 with set_tid
if got == 0: os._exit(0)
if got > 0: worked.append('clone3')
for flag in 0x20000000, 0x10000000, 0x30000000:  # a pid namespace of its own
    if libc.unshare(flag) == 0: worked.append(hex(flag))
""" + FORKS.format(3) + "print('{\"tasks_made\": 0}'); worked")
        self.assertEqual(tried, [])
        self.assertEqual(self.counted(1)["tasks_made"], 3)

    @unittest.skipUnless(harness.ROOT, "needs a pid namespace")
    def test_control_a_namespaces_owner_sets_the_number(self):
        code = "import os; open('/proc/sys/kernel/ns_last_pid', 'w').write('500'); pid = os.fork(); pid or os._exit(0); print(pid)"
        done = subprocess.run(["unshare", "-pf", "python3", "-c", code], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.stdout.strip(), "501", done.stderr)

    def test_memory_of_other_processes(self):
        """A child that has more than the interpreter, in the calls in which it has it."""
        child = "import time; block = b'x' * (150 << 20); time.sleep(60)"
        self.ok(f"import sys, subprocess; child = subprocess.Popen([sys.executable, '-c', {child!r}])")

        def peak():
            cell = self.ok("1")
            self.last = cell["receipt"]
            self.assertLess(cell["peak_memory_bytes"], 400 * MB)
            self.assertIn(self.last["peak_of"], ("cell", "session", "process", "sampled"))
            return cell["peak_memory_bytes"]

        self.assertTrue(harness.wait_until(lambda: peak() > 150 * MB))
        self.assertGreater(self.receipt(self.last["cell"])["peak_memory_bytes"], 150 * MB)
        self.assertNotEqual(self.last["peak_of"], "process")
        self.ok("child.kill(); child.wait()")
        if self.last["peak_of"] != "session":
            self.assertTrue(harness.wait_until(lambda: peak() < 120 * MB))

    @unittest.skipIf(harness.BOUNDED, "with control groups the kernel counts")
    def test_shared_pages_do_not_exceed_the_limit(self):
        self.ok("import os, time\nfor _ in range(80):\n    if os.fork() == 0: time.sleep(60); os._exit(0)")
        peaks = []
        for _ in range(8):
            peaks.append(self.ok("time.sleep(0.03)")["peak_memory_bytes"])
        self.assertLessEqual(max(peaks), 512 * MB)

    @unittest.skipIf(harness.BOUNDED, "with control groups the peak is not the process's")
    def test_code_cannot_reset_its_peak(self):
        reset = "open('/proc/self/clear_refs', 'w').write('5')"
        cell = self.ok(f"block = b'x' * (150 << 20); del block\ntry: {reset}\nexcept OSError as e: print(e.errno)")
        self.assertEqual(cell["stdout"].strip(), "13")
        self.assertGreater(cell["peak_memory_bytes"], 150 * MB)
        # The control: outside it can.
        done = subprocess.run(["python3", "-c", reset], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main()
