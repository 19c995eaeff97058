"""State that survives: each way in which code can end its interpreter, and the state in which the session continues."""

import itertools
import platform
import random
import time
import unittest

import harness
import rawmcp
import state_rows

MB = 1 << 20

DEATHS = {
    "exit": ("import os; os._exit(3)", "exit"),
    "kill": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed"),
    "segv": ("import ctypes; ctypes.string_at(0)", "killed"),
    "abort": ("import os; os.abort()", "killed"),
    "oom": ("hog = []\nwhile True: hog.append(bytearray(8 << 20))", "oom"),
    "deadline": ("from itertools import repeat\nsum(repeat(1))", "timeout"),
    "bomb": ("import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    try: os.fork()\n    except OSError: pass", "timeout"),
    "channel": ("import os\nos.closerange(3, 65536)\n1", "killed"),
    "exec": ("import os\nos.execv('/bin/sh', ['sh', '-c', 'exit 4'])", "exit"),
    "stop": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
}
# Code that starts a thread of a library which waits for a semaphore.
THREAD_THAT_WAITS = (
    "import ctypes\nlibc, thread, semaphore = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(64)\n"
    "_ = libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.sem_wait, ctypes.c_void_p), semaphore)"
)
THREADS = "import os\nlen(os.listdir('/proc/self/task')) - 1"
# The messages between broker and worker do not depend on the user that runs them.
once = unittest.skipUnless(harness.ROOT or harness.WHOLE, "with one user only")


class State(rawmcp.ServerCase):
    SERVERS = {"demo": harness.fixture()}
    CONFIG = {"limits": {"memory": "256M", "pids": 64}, "profiles": {"off": {"state": {"survives": False}, "agent": True}, "large": {"limits": {"memory": "1200M"}, "agent": True}}}

    numbers = itertools.count(1)  # for names of sessions

    def listed(self, session=None):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        return next(s for s in harness.message_of(done.stdout)[0]["sessions"] if s["name"] == (session or self.session))

    def kept(self, code, **arguments):
        """Runs a cell, and waits until there is a copy of its end."""
        cell = self.ok(code, **arguments)

        def is_kept():
            listed = self.listed(arguments.get("session"))
            return listed.get("copy_of_cell") == listed["cells"]

        self.assertTrue(harness.wait_until(is_kept), self.listed(arguments.get("session")))
        return cell

    def dies(self, name, **arguments):
        """The result of a cell that ends its interpreter."""
        return self.start_to_die(name, **arguments)()

    def start_to_die(self, name, before="", **arguments):
        code, status = DEATHS[name]
        if status == "timeout":
            arguments.setdefault("timeout", 0.3 * min(harness.SLOW, 10))  # once it is beyond the reach of an interrupt
        waiting = self.server.start_call(before + code, **{"session": self.session, **arguments})

        def result():
            cell = waiting.result()["structuredContent"]
            self.assertEqual(cell["status"], status, (name, cell))
            return cell

        return result

    def each_death(self, memory, names, **arguments):
        """Ends all interpreters at once, each in its own session. Returns {name: seconds until the next call was answered}."""
        start = "import random\nrandom.seed(7)\ndef f(): return x\nx = ['state']\nblock = bytearray(%d)\nblock[-1] = 9\nNone" % memory
        sessions = {name: f"{self.session[-20:]}-{name}-{next(self.numbers)}" for name in names}
        took = {}
        for session in sessions.values():
            self.ok("1", session=session, **arguments)
            self.kept(start, session=session)
        waiting = {name: self.start_to_die(name, session=session) for name, session in sessions.items()}
        for name, result in waiting.items():
            cell = result()
            self.assertEqual(cell["state"], "restored", (name, cell))
            self.assertIn("restored to the end of cell 2: its variables", cell["notice"])
        for name in waiting:
            started = time.monotonic()
            after = self.ok("f(), len(block), block[-1], random.random()", session=sessions[name])
            took[name] = time.monotonic() - started
            self.assertEqual(after["state"], "kept")
            self.assertEqual(after["value"]["repr"], "(['state'], %d, 9, 0.32383276483316237)" % memory, name)
            # The state also comes back from the copy of the copy. The broker waits at most 500 ms for it.
            self.assertTrue(harness.wait_until(lambda session=sessions[name]: "copy_of_cell" in self.listed(session)))
            self.assertEqual(self.dies("exit", session=sessions[name])["state"], "restored")
            self.assertEqual(self.ok("x", session=sessions[name])["value"]["json"], ["state"])
            if memory > 20 * MB:
                self.end_session(sessions[name])
        return took

    def test_each_death_with_little_memory(self):
        # Without a control group a process that allocates too much gets a MemoryError, which does not end it.
        took = self.each_death(20 * MB, [name for name in DEATHS if name != "oom" or harness.BOUNDED])
        self.assertLess(max(took.values()), harness.AT_ONCE if harness.WHOLE else harness.PATIENCE / 2, took)

    def each_death_beside_a_thread(self, start, is_held):
        """Of a thread that cannot be held the next result tells, and the session returns to the end of the cell before its start."""
        sessions = {name: f"{self.session[-20:]}-{name}-{next(self.numbers)}" for name in DEATHS if name != "oom" or harness.BOUNDED}
        for session in sessions.values():
            self.ok("1", session=session)
            self.kept("x = 1", session=session)
            if is_held:
                self.kept(f"x = 2\n{start}", session=session)
            else:
                self.ok(f"x = 2\n{start}", session=session)
                self.assertRegex(self.first_notice(session=session),
                                 'thread "[^"]+".* cannot be held: if the interpreter ends, the session returns to the end of cell 2')
                self.assertNotIn("notice", self.ok("3", session=session))
        waiting = {name: self.start_to_die(name, session=session) for name, session in sessions.items()}
        for name, result in waiting.items():
            cell = result()
            self.assertEqual(cell["state"], "restored", (name, cell))
            self.assertIn(f"restored to the end of cell {3 if is_held else 2}: its variables", cell["notice"])
        for name, session in sessions.items():
            self.assertEqual(self.value("x", session=session), 2 if is_held else 1, name)
            self.assertEqual(self.value(THREADS, session=session), int(is_held), name)
            # After the thread has ended, copies can be made again.
            self.assertEqual(self.cell("x = 4; 1 / 0", on_error="rollback", session=session)["state"], "rolled_back", name)
            self.assertTrue(self.ok("x = 5", checkpoint="one", session=session)["checkpoint"], name)
            self.assertEqual(self.value("x", restore="one", session=session), 5, name)

    def test_each_death_beside_a_thread(self):
        self.each_death_beside_a_thread(THREAD_THAT_WAITS, platform.machine() == "x86_64")

    def test_each_death_beside_a_thread_that_cannot_be_held(self):
        self.each_death_beside_a_thread(harness.THREAD_THAT_STAYS, False)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_the_next_call_after_each_death(self):
        """Measures the time from the result of the cell that ended the interpreter to the next result: the best of three,
        because other load of the machine adds to it."""
        for memory, limit in (20 * MB, 0.05), (300 * MB, 0.05), (1024 * MB, 0.2):
            for name in DEATHS:
                if name == "oom" and (not harness.BOUNDED or memory > 300 * MB) or memory > 300 * MB and harness.SLOW > 1:
                    continue
                times = []
                while len(times) < 3 and min(times, default=limit) >= limit:
                    times.append(self.each_death(memory, [name], profile="large")[name])
                print(f"{memory >> 20} MiB, {name}: {min(times) * 1000:.1f} ms", flush=True)
                self.assertLess(min(times), limit * harness.SLOW, (memory, name, times))

    def end_session(self, session):
        done = self.run_cloister("sessions", "end", session, "--server", str(self.server.process.pid), cwd=self.class_dir)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_control(self):
        """Without it the state is lost."""
        self.ok("x = 1", profile="off", session="off")
        time.sleep(0.3)
        self.assertNotIn("copy_of_cell", self.listed("off"))
        self.assertEqual(self.dies("exit", session="off")["state"], "lost")

    @once
    def test_the_description_tells_agents(self):
        (tool,) = [tool for tool in self.server.ask("tools/list")["tools"] if tool["name"] == "run_python"]
        self.assertIn('State "restored": the interpreter ended, and variables are as at the end of the cell that the notice names.', tool["description"])
        self.assertIn("Files and tool calls are not taken back.", tool["description"])

    @once
    def test_nothing_was_kept(self):
        self.assertEqual(self.dies("exit")["state"], "lost")

    @once
    def test_a_death_between_cells(self):
        self.ok(self.mark() + "import threading, os\nx = 0")
        self.kept("x = 5\nevent = threading.Event()\nthreading.Thread(target=event.wait).start()")
        self.assertTrue(harness.wait_until(lambda: len(self.copies()) == 1))
        (copy,) = self.copies()
        # The thread ends the interpreter as soon as another process exists: while the next copy is made, or just after.
        self.ok("x = 6\nbefore = set(os.listdir('/proc'))\ndef end():\n    while set(os.listdir('/proc')) <= before: pass\n    os._exit(1)\nthreading.Thread(target=end).start()")
        self.assertTrue(harness.wait_until(lambda: self.copies() and copy not in self.copies()))
        cell = self.ok("x")
        of = {5: "2: its variables; 1 thread is", 6: "3: its variables; 2 threads are"}[cell["value"]["json"]]
        self.assertEqual(cell["state"], "restored", cell)
        self.assertIn(f"exit code 1; restored to the end of cell {of} gone", cell["notice"])
        self.assertEqual(self.ok("x")["state"], "kept")

    def test_what_is_gone_and_what_stays(self):
        self.kept(
            "import threading, subprocess, asyncio, os\nevent = threading.Event()\nthread = threading.Thread(target=event.wait)\nthread.start()\n"
            "child = subprocess.Popen(['sleep', '1000'])\nopen('/workspace/old', 'w').write('1')\nos.chdir('/tmp')\nos.environ['A'] = 'b'"
        )
        self.call("open('/workspace/a.csv', 'w').write('1')\nos.chdir('/')\nos.environ['A'] = 'c'\nos._exit(1)")
        cell = self.call("1")["structuredContent"]
        self.assertEqual(cell["state"], "kept")
        got = self.value("[os.getcwd(), os.environ['A'], thread.is_alive(), child.poll(), sorted(os.listdir('/workspace'))]")
        self.assertEqual(got, ["/tmp", "b", False, -9, ["a.csv", "old", "out"]])

    def test_each_row_of_what_survives(self):
        """In one session: a cell that creates all objects, a cell that changes them and ends the interpreter, and one cell per question."""
        self.ok(state_rows.IMPORTS)
        self.kept("\n".join(row[1] for row in state_rows.ROWS) + "\nNone")
        cell = self.cell("\n".join(row[2] for row in state_rows.ROWS) + "\nos._exit(3)")
        self.assertEqual((cell["status"], cell["state"]), ("exit", "restored"), cell.get("error", cell.get("notice")))
        for name, _, _, question, answer in state_rows.ROWS:
            with self.subTest(name):
                self.assertEqual(self.value(question), answer)

    def test_signals_for_the_own_process_group(self):
        """`kill 0` of a shell: the copy is in another one."""
        self.kept("import subprocess\nx = 1")
        cell = self.cell("subprocess.run('kill -9 0', shell=True)")
        self.assertEqual((cell["status"], cell["state"]), ("killed", "restored"), cell)
        self.assertEqual(self.value("x"), 1)

    @once
    def test_the_notice_names_what_is_gone(self):
        self.kept("import threading, subprocess, os\nevent = threading.Event()\nthreading.Thread(target=event.wait).start()\nchild = subprocess.Popen(['sleep', '1000'])")
        cell = self.call("open('/workspace/a.csv', 'w').write('1')\nos._exit(1)")["structuredContent"]
        self.assertIn("restored to the end of cell 1: its variables; 1 thread and 1 process are gone; files stay: a.csv changed", cell["notice"])

    def test_rewriting_most_of_the_memory(self):
        """The copy keeps the old pages: the limit counts them beside the session's own."""
        self.kept("block = bytearray(b'a') * (150 << 20)")
        for _ in range(2):
            cell = self.kept("for i in range(0, len(block), 4096): block[i] = 98\nlen(block)")
            self.assertEqual(cell["value"]["json"], 150 * MB)

    # In a cell no other copy is made. A worker that has ended may still be there for a moment.
    FIND = """
import os, signal, time
found, end = [], time.monotonic() + 10
while len(found) != 1 and time.monotonic() < end:
    found = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]
(copy,) = found
"""

    def test_code_that_kills_the_copy_or_wakes_it(self):
        self.kept("x = 1")
        self.ok(self.FIND + "for n in signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGCONT, signal.SIGSTOP: os.kill(copy, n)")
        self.assertEqual(self.dies("exit")["state"], "restored")
        self.kept("x = 1")
        cell = self.cell(self.FIND + "os.kill(copy, signal.SIGKILL)\nos._exit(1)")
        self.assertEqual((cell["status"], cell["state"]), ("exit", "lost"), cell)

    def test_code_that_kills_all(self):
        """kill(-1) does not signal the caller: the cell continues, and gets another copy. The same call by a child process ends both."""
        self.kept("import os\nx = 1")
        self.assertEqual(self.kept("os.kill(-1, 9)\nx")["value"]["json"], 1)
        self.assertEqual(self.dies("exit")["state"], "restored")
        self.kept("x = 2")
        cell = self.cell("if os.fork() == 0: os.kill(-1, 9)\nos.wait()")
        self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"), cell)

    def test_cells_that_change_nothing(self):
        """The copy stays, and the session returns to the end of the last of them; in a new session, without a copy before."""
        where = "restored to the end of cell "
        self.kept("x = 1")
        self.assertEqual((self.value("6 * 7"), self.value("(2 + 3) * 4")), (42, 20))
        self.assertEqual(self.listed()["copy_of_cell"], 3)
        cell = self.dies("exit")
        self.assertIn(where + "3: its variables", cell["notice"])
        self.assertEqual(self.value("x, _"), "(1, 20)")
        # The next copy has it, and a cell that may change something replaces it.
        self.assertIn(where + "5", self.dies_late("exit")["notice"])
        self.assertEqual(self.value("x, _"), "(1, (1, 20))")
        for code in "6 * 7", "import os\n6 * 7":
            self.session += "-"
            self.value(code)
            self.assertTrue(harness.wait_until(lambda: self.listed().get("copy_of_cell") == 1))
            self.assertIn(where + "1", self.dies("exit")["notice"])
            self.assertEqual(self.value("_"), 42)
        # Neither a branch nor a checkpoint changes that, and a checkpoint stays the state of its cell.
        self.session += "-"
        self.value("6 * 7")
        self.assertTrue(harness.wait_until(lambda: self.listed().get("copy_of_cell") == 1))
        self.assertEqual(self.value("_", session=self.session + "branch", **{"from": self.session}), 42)
        self.assertEqual(self.dies("exit")["state"], "restored")
        self.ok("x = 2", checkpoint="two")
        self.assertEqual(self.value("1 + 2"), 3)
        self.assertIn(where + "5", self.dies_late("exit")["notice"])
        self.assertEqual(self.value("x, _", restore="two"), "(2, 42)")

    def dies_late(self, name):
        self.assertTrue(harness.wait_until(lambda: self.listed().get("copy_of_cell") == self.listed()["cells"]))
        return self.dies(name)

    def test_the_score_of_the_copy_is_not_the_guests(self):
        """The OOM killer uses this score. The control is the same write outside the sandbox."""
        self.kept("x = 1")
        write = "def write(pid):\n    try:\n        with open(f'/proc/{pid}/oom_score_adj', 'r+') as f: f.write('999')\n    except OSError as e: return type(e).__name__\n"
        self.assertEqual(self.value(self.FIND + write + "write(copy), write(os.getpid())"), "('PermissionError', 'PermissionError')")
        child = harness.subprocess.Popen(["/usr/bin/python3", "-c", write + "print(write('self'))"], stdout=harness.subprocess.PIPE)
        self.assertEqual(child.communicate()[0], b"None\n")

    def test_forks_while_the_copy_is_made(self):
        """By a thread, and by processes that stay."""
        self.kept(
            "import os, signal, threading, time\ndef forks():\n    while True:\n        if (pid := os.fork()) == 0: os._exit(0)\n        os.waitpid(pid, 0)\n"
            "threading.Thread(target=forks, daemon=True).start()\n"
            "for _ in range(4):\n    if os.fork() == 0: forks()\nx = 1"
        )
        for _ in range(3):
            self.assertEqual(self.dies("exit")["state"], "restored")
            # init, the worker, and perhaps its copy.
            self.assertEqual(self.value("x, sum(p.isdigit() for p in os.listdir('/proc')) <= 3"), "(1, True)")
            self.kept("x = 1\nfor _ in range(4):\n    if os.fork() == 0: forks()")

    @once
    def test_streams_that_code_has_taken_apart(self):
        """With a thread: the copy renews the locks of the streams."""
        self.ok("import os, sys, threading")
        self.kept("x = 1\nthreading.Thread(target=threading.Event().wait).start()\nsys.stdout.detach()\nsys.stderr.buffer.detach()\nNone")
        self.assertEqual(self.dies("exit")["state"], "restored")
        self.assertEqual(self.ok("print('heard')\nx")["stdout"], "heard\n")

    @once
    def test_objects_that_would_hold_up_the_copy(self):
        """It looks for those that wait for threads: classes of the guest are not asked, and many objects take no time."""
        meta = "\n".join(f"    def {name}(*_): time.sleep(100)" for name in ("__eq__", "__hash__", "__getattribute__", "__instancecheck__", "__subclasscheck__", "mro"))
        self.ok("import os, subprocess, threading, time\nclass Meta(type):\n" + meta.replace("    def mro(*_): time.sleep(100)", "    pass"))
        self.kept("things = [Meta.__call__(type.__new__(Meta, 'T', (), {}))]\nmany = [[] for _ in range(500000)]\nthreading.Thread(target=threading.Event().wait).start()")
        self.assertEqual(self.dies("exit")["state"], "restored")
        # A method that code overrides may delay its own session: then its state is lost, and the next cell runs.
        holds_up = "import subprocess, time\nclass P(subprocess.Popen):\n    def __setattr__(self, name, value):\n        if name == 'returncode' and value == -9: time.sleep(100)\n        super().__setattr__(name, value)\np = P(['sleep', '100'])"
        self.kept(holds_up)
        self.assertEqual(self.dies("exit")["state"], "lost")
        self.assertEqual(self.value("6 * 7"), 42)
        self.ok(holds_up, checkpoint="p")
        cell = self.cell("1", restore="p")
        self.assertEqual((cell["status"], "the interpreter was not restored in time" in cell["error"]["message"]), ("error", True), cell)

    def scores(self):
        """{pid: (its pid in the sandbox, oom_score_adj)} of all that run in sandboxes."""
        found = {}
        for pid in harness.descendants(self.server.process.pid):
            try:
                with open(f"/proc/{pid}/status", encoding="ascii") as status, open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as score:
                    inside = next(line.split()[1:] for line in status if line.startswith("NSpid:"))
                    found[pid] = inside[-1], score.read().strip()
            except (OSError, StopIteration):
                continue
        return found

    def mark(self):
        """Returns code that gives the interpreter, and therefore its copies, a unique process name."""
        return f"import ctypes\n_ = ctypes.CDLL(None).prctl(15, b'{self.session[-15:]}', 0, 0, 0)  # PR_SET_NAME\n"

    def copies(self):
        """Those of the session that has run mark()."""
        names = harness.descendants(self.server.process.pid)
        return [pid for pid, (_, score) in self.scores().items() if score == "500" and names.get(pid) == self.session[-15:]]

    def test_no_copy_is_left(self):
        self.kept(self.mark())
        self.assertTrue(harness.wait_until(lambda: len(self.copies()) == 1))
        (copy,) = self.copies()
        self.end_session(self.session)
        self.assertTrue(harness.wait_until(lambda: not harness.alive(copy)))

    # Finds and uses the channel as the worker does: it is the socket with the highest descriptor.
    CHANNEL = """
import os, struct, socket
def is_socket(n):
    try: return os.readlink('/proc/self/fd/' + n).startswith('socket')
    except OSError: return False
channel = max(int(n) for n in os.listdir('/proc/self/fd') if is_socket(n))
def frame(kind, number, payload):
    return struct.pack('<IBBHQ', len(payload), kind, 0, 0, number) + payload
"""

    @once
    def test_frames_that_nobody_asked_for(self):
        for kind, text in (("0x4a", "KEPT 2, which no KEEP asked for"), ("0x4b", "RESTORED frame while the session is running")):
            session = "forged" + kind
            self.kept(self.CHANNEL, session=session)
            cell = self.cell(f"os.write(channel, frame({kind}, 2, b'{{\"pid\": 2}}'))\nimport time\ntime.sleep(20)", session=session)
            self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"), cell)
            self.assertIn(text, cell["notice"])

    @once
    def test_a_process_that_answers_for_the_next_cell(self):
        self.kept(self.CHANNEL + "x = 1")
        # The process has the channel open, runs in its own session (setsid), and reports that every later cell has ended.
        code = (
            "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True:\n"
            "            for n in range(1, 20): os.write(channel, frame(0x41, n, b'{\"status\": \"ok\", \"value\": {\"repr\": \"forged\"}}'))\n"
            "    os._exit(0)\nos._exit(1)"
        )
        cell = self.cell(code)
        self.assertEqual(cell["state"], "lost" if "frame" in cell.get("notice", "") else "restored", cell)
        self.assertEqual(self.value("6 * 7"), 42)

    def test_signals_that_fall_on_the_copy(self):
        """Queued ones up to the limit, and processes that send it all it may hear or that stop it, while it wakes."""
        self.kept("x = 1")
        code = self.FIND + (
            "for _ in range(300):\n    os.kill(copy, signal.SIGRTMIN + 3)\n"
            "for i in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n"
            "            for n in (signal.SIGUSR1, signal.SIGCONT, (signal.SIGSTOP, signal.SIGTERM)[i % 2]): os.kill(copy, n)\n"
            "time.sleep(0.1)\nos._exit(1)"
        )
        cell = self.cell(code)
        self.assertEqual((cell["status"], cell["state"]), ("exit", "restored"), cell)
        self.assertEqual(self.value("x"), 1)

    @once
    def test_a_worker_that_names_another_process(self):
        """The code chooses the reported pid. Only a stopped child of init is accepted. If it is not a copy, the state is lost."""
        lie = (
            "import sys\nframe = sys._getframe()\nwhile type(frame.f_locals.get('self')).__name__ != 'Session': frame = frame.f_back\n"
            "copies = frame.f_locals['self']._copies\nanswer = copies._answer\n"
            "copies._answer = lambda **members: answer(pid=PID, threads=0, processes=0)\nNone"
        )
        orphan = (
            "r, w = os.pipe()\nif os.fork() == 0:\n    if os.fork() == 0:\n        os.write(w, b'%d' % os.getpid())\n"
            "        os.kill(os.getpid(), signal.SIGSTOP)\n        while True: time.sleep(1)\n    os._exit(0)\n_ = os.wait()\nPID = int(os.read(r, 20))\n"
        )
        pids = {"itself": "PID = os.getpid()\n", "nobody": "PID = 4000000\n", "orphan": orphan, "init": "PID = 1\n"}
        for name, pid in pids.items():
            self.ok("import os, signal, time", session="lie-" + name)
            self.ok(pid + lie, session="lie-" + name)
        time.sleep(0.3 * harness.SLOW)
        cell = self.ok("1", session="lie-init")
        self.assertEqual(cell["state"], "new")
        self.assertIn("KEPT without a pid", cell["notice"])
        for name in ("itself", "nobody", "orphan"):
            session = "lie-" + name
            self.assertEqual("copy_of_cell" in self.listed(session) and self.listed(session)["copy_of_cell"] == 2, name == "orphan", name)
            cell = self.cell("os._exit(1)", session=session)
            self.assertEqual((cell["status"], cell["state"]), ("exit", "lost" if name == "orphan" else cell["state"]), (name, cell))

    @once
    def test_a_channel_that_was_shut_down_is_lost(self):
        self.kept(self.CHANNEL)
        self.assertEqual(self.cell("socket.socket(fileno=os.dup(channel)).shutdown(2)")["state"], "lost")
        self.assertEqual(self.cell("1")["state"], "new")

    def first_notice(self, **arguments):
        """Of the cells from now on: it comes once a copy was refused."""
        notices = []

        def has_come():
            notices.append(self.ok("3", **arguments).get("notice"))
            return notices[-1]

        self.assertTrue(harness.wait_until(has_come, step=0.3 * harness.SLOW))
        return notices[-1]

    def test_a_copy_that_is_too_large(self):
        if not harness.BOUNDED:
            self.skipTest("RLIMIT_DATA bounds each process")
        self.kept("one = bytearray(b'a') * (150 << 20)\nNone")
        self.ok("two = bytearray(b'a') * (130 << 20)\nNone")
        notice = self.first_notice()
        self.assertEqual(self.listed()["copy_of_cell"], 1)
        self.assertIn("larger than limits.memory: if the interpreter ends, the session returns to the end of cell 1", notice)
        time.sleep(0.3 * harness.SLOW)
        self.assertNotIn("notice", self.ok("4"))
        cell = self.dies("exit")
        self.assertIn("restored to the end of cell 1", cell["notice"])
        self.assertEqual(self.value("len(one), 'two' in globals()"), f"({150 * MB}, False)")

    def test_no_process_is_left_for_a_copy(self):
        self.kept("import os, time\nchildren = []\nx = 1")
        self.ok("while True:\n    try: pid = os.fork()\n    except OSError: break\n    if pid == 0:\n        time.sleep(1000)\n    children.append(pid)")
        self.assertIn("limits.pids allows no more processes: if the interpreter ends, the session returns to the end of cell 1", self.first_notice())
        self.assertEqual(self.dies("exit")["state"], "restored")
        self.assertEqual(self.value("children"), [])

    def test_the_worker_is_ended_before_its_copy(self):
        """The OOM killer selects the process by these scores."""
        self.kept(self.mark() + "import os")
        for _ in range(2):
            worker = str(self.value("os.getpid()"))
            self.assertTrue(harness.wait_until(self.copies), self.scores())
            self.assertIn((worker, "1000"), self.scores().values())
            self.dies("exit")
            self.assertTrue(harness.wait_until(lambda: "copy_of_cell" in self.listed()))

    @once
    def test_random_cells_and_deaths(self):
        """Compares with a model: a cell that ends the interpreter changes nothing, and each cell runs once."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        rng, model = random.Random(seed), {"a": 0}
        quick, slow = ("exit", "kill", "segv", "abort", "channel", "exec"), ("deadline", "bomb", "stop") + harness.BOUNDED * ("oom",)
        self.kept("a = 0")
        cells = 1000 if harness.WHOLE else 15
        for i in range(cells):
            after = dict(model)
            name, number = rng.choice("abcde"), rng.randrange(100)
            if rng.random() < 0.3 and name in after:
                code = f"del {name}\n"
                del after[name]
            else:
                code = f"{name} = {number}\n"
                after[name] = number
            code += "with open('/workspace/run', 'a') as f: _ = f.write('.')\n"
            if rng.random() < 0.4:
                death = rng.choice(slow if harness.WHOLE and rng.random() < 0.1 else quick)
                cell = self.start_to_die(death, before=code)()
                self.assertEqual(cell["state"], "restored", (seed, i, death))
            else:
                self.kept(code)
                model = after
            self.assertEqual(self.value("{n: globals()[n] for n in 'abcde' if n in globals()}"), model, (seed, i))
            self.assertTrue(harness.wait_until(lambda: "copy_of_cell" in self.listed()))
        self.assertEqual(self.value("len(open('/workspace/run').read())"), cells, seed)

    @once
    def test_a_call_under_way(self):
        """The call is listed and never repeated. Its late answer is dropped."""
        self.kept("import asyncio, os\nx = 1\nwaiting = asyncio.create_task(mcp_demo.sleep(seconds=0.6))\nawait asyncio.sleep(0.2)")
        cell = self.cell("task = asyncio.create_task(mcp_demo.sleep(seconds=3))\nawait asyncio.sleep(0.1)\nos._exit(1)")
        self.assertEqual(cell["state"], "restored")
        self.assertEqual([(c["tool"], c.get("pending")) for c in cell["tool_calls"]], [("sleep", True)], cell)
        self.assertEqual(self.value("(await mcp_demo.text(text='mine'))"), "mine")
        said = self.value("try:\n    said = await waiting\nexcept Exception as e:\n    said = [type(e).__name__, str(e)]\nsaid")
        self.assertEqual(said[0], "ToolUnavailable")
        self.assertIn("restored", said[1])


if __name__ == "__main__":
    harness.main()
