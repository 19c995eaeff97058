"""Checkpoints, restores and undo(): the variables afterwards, and the refusals."""

import os
import unittest

import harness
import rawmcp
from test_state import DEATHS, MB

FIND = "import os, signal, time\nothers = sorted(int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid()))\nothers"


class Checkpoints(rawmcp.ServerCase):
    SERVERS = {"demo": harness.fixture()}
    CONFIG = {"limits": {"memory": "256M", "pids": 64}, "profiles": {"two": {"state": {"checkpoints": 2}, "agent": True}, "none": {"state": {"checkpoints": 0}, "agent": True}}}

    def sessions(self, *args):
        """Returns (exit status, standard output, standard error)."""
        done = self.run_cloister("sessions", *args, "--server", str(self.server.process.pid), cwd=self.class_dir)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def listed(self, session=None):
        status, out, err = self.sessions("--json")
        self.assertEqual(status, 0, err)
        return next(s for s in harness.message_of(out)[0]["sessions"] if s["name"] == (session or self.session))

    def names(self, session=None):
        return {c["name"]: c["cell"] for c in self.listed(session).get("checkpoints", ())}

    def kept(self, code, **arguments):
        self.ok(code, **arguments)
        session = arguments.get("session")
        self.assertTrue(harness.wait_until(lambda: self.listed(session).get("copy_of_cell") == self.listed(session)["cells"]))

    def make(self, name, code, **arguments):
        cell = self.ok(code, checkpoint=name, **arguments)
        self.assertTrue(cell.get("checkpoint"), cell)
        return cell

    def refused(self, text, code="ran = True", **arguments):
        cell = self.cell(code, **arguments)
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "CheckpointError"), cell)
        self.assertIn(text, cell["error"]["message"])
        self.assertIn("nothing was run", cell["error"]["message"])

    def test_three_checkpoints_and_ways_between_them(self):
        self.make("a", "import random\nrandom.seed(7)\nx = ['a']")
        self.make("b", "x.append('b')\nopen('/workspace/f', 'w').write('b')")
        self.make("c", "x.append('c')")
        self.assertEqual(self.names(), {"a": 1, "b": 2, "c": 3})
        # Restores the first checkpoint, takes another way from there, and restores the others; each twice.
        for _ in range(2):
            cell = self.ok("x.append('d')\nx, random.random()", restore="a")
            self.assertEqual(cell["value"]["repr"], "(['a', 'd'], 0.32383276483316237)")
            self.assertEqual(cell["state"], "restored")
            self.assertIn('restored to checkpoint "a", the end of cell 1: its variables; files stay: f changed', cell["notice"])
            self.assertEqual(self.value("x"), ["a", "d"])
            self.assertEqual(self.value("x", restore="c"), ["a", "b", "c"])
            self.assertEqual(self.value("x", restore="b"), ["a", "b"])
        self.assertEqual(self.names(), {"a": 1, "b": 2, "c": 3})
        # A restore without code, and a name that is given to another state.
        cell = self.server.call(None, session=self.session, restore="c")["structuredContent"]
        self.assertEqual((cell["status"], cell["state"]), ("ok", "restored"), cell)
        self.make("b", "x.append('e')")
        self.assertEqual(self.value("x", restore="a"), ["a"])
        self.assertEqual(self.value("x", restore="b"), ["a", "b", "c", "e"])
        self.assertEqual(self.value("open('/workspace/f').read()"), "b")

    def test_a_death_after_a_restore(self):
        self.make("a", "x = 1")
        self.make("b", "x = 2")
        self.ok("x", restore="a")
        self.assertEqual(self.cell(DEATHS["exit"][0])["state"], "restored")
        self.assertEqual(self.value("x"), 1)
        self.assertEqual(self.cell(DEATHS["segv"][0], restore="b")["state"], "restored")
        self.assertEqual(self.value("x"), 2)

    def test_undo(self):
        self.kept("x = [1]\nimport os")
        cell = self.ok("print('before')\nx.append(2)\nopen('/workspace/g', 'w').close()\nundo()\nprint('after')\nx.append(3)")
        self.assertEqual((cell["stdout"], cell["state"]), ("before\n", "restored"), cell)
        self.assertIn("undo(): restored to the end of cell 1: its variables; files stay: g changed", cell["notice"])
        self.assertEqual(self.value("x"), [1])
        # Called in a task, and in a thread for which the cell waits.
        self.kept("import threading, asyncio\nasync def later(): undo()\nNone")
        self.assertEqual(self.ok("x.append(4)\nawait later()")["state"], "restored")
        self.assertTrue(harness.wait_until(lambda: "copy_of_cell" in self.listed()))
        self.assertEqual(self.ok("x.append(5)\nthread = threading.Thread(target=undo)\nthread.start()\nthread.join()")["state"], "restored")
        self.assertEqual(self.value("x"), [1])

    def test_undo_without_a_copy(self):
        cell = self.cell("x = 1\nundo()")
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "RuntimeError"), cell)
        self.assertIn("there is no copy of the state before this cell", cell["error"]["message"])
        self.assertEqual(self.value("x"), 1)

    def test_refusals(self):
        self.refused('no checkpoint is called "a": there is none', restore="a")
        self.make("a", "ran = False", session="two", profile="two")
        self.make("b", "1", session="two")
        self.refused("there are a, b", session="two", restore="c")
        self.refused("a session has 2 checkpoints at most, and there are a, b: use the name of one", session="two", checkpoint="c")
        self.make("b", "2", session="two")
        self.assertFalse(self.value("ran", session="two"))
        self.refused("the config's state.checkpoints says so", session="none", profile="none", checkpoint="a")
        for name in ("", "a b", "a\n", "\x1b[2J", "ä", "x" * 65, 5):
            for which in ("restore", "checkpoint"):
                cell = self.cell("1", **{which: name})
                self.assertEqual(cell["error"]["type"], "ArgumentError", cell)
                self.assertIn(f"{which} must be", cell["error"]["message"])
        self.assertIn("exclude each other", self.cell("1", session="two", restore="a", reset=True)["error"]["message"])
        # After the state was lost.
        self.make("a", "x = 1")
        self.sessions("end", self.session)
        self.assertTrue(harness.wait_until(lambda: "no live" in self.sessions("undo", self.session)[2]))
        self.refused("there is none, since the state was lost (its owner ended it", restore="a")

    def test_the_code_was_run_and_there_is_no_checkpoint(self):
        self.make("a", "x = 1")
        cell = self.cell("x = 2\n1 / 0", checkpoint="a")
        self.assertIn('checkpoint "a" was not made: the code did not end well', cell["notice"])
        self.assertEqual(self.value("x"), 2)
        self.assertEqual(self.value("x", restore="a"), 1)  # the earlier one stays
        cell = self.ok(f"x = 3\n{harness.THREAD_THAT_STAYS}", checkpoint="b")
        self.assertRegex(cell["notice"], r'no copy of the state can be made: thread "[^"]+".* cannot be held')
        self.assertNotIn("checkpoint", cell)
        self.assertEqual(self.value("x"), 3)
        cell = self.cell("import os\nos._exit(4)", checkpoint="b")
        self.assertIn('checkpoint "b" was not made: the interpreter ended before', cell["notice"])
        self.assertTrue(harness.wait_until(lambda: list(self.names()) == ["a"]), self.names())

    def test_processes_at_their_limit(self):
        self.kept("import os, time\nchildren = []\nx = 1")
        code = "while True:\n    try: pid = os.fork()\n    except OSError: break\n    if pid == 0:\n        time.sleep(1000)\n    children.append(pid)"
        self.assertIn("was not made: no copy of the state can be made: limits.pids", self.ok(code, checkpoint="a")["notice"])
        self.assertEqual(self.names(), {})

    def test_memory_at_its_cap(self):
        if not harness.BOUNDED:
            self.skipTest("RLIMIT_DATA bounds each process")
        self.make("a", "one = bytearray(b'a') * (100 << 20)\nNone")
        self.make("b", "for i in range(0, len(one), 4096): one[i] = 98\nNone")
        cell = self.ok("two = bytearray(b'a') * (60 << 20)\nNone", checkpoint="c")
        self.assertIn('checkpoint "c" was not made: no copy of the state is kept: all copies together are larger than limits.memory', cell["notice"])
        # A checkpoint that is replaced does not count, and a cell can use all of limits.memory.
        self.make("a", "two = None\nfor i in range(0, len(one), 4096): one[i] = 99\nNone")
        self.ok("three = bytearray(b'a') * (120 << 20)\nthree = None")
        self.assertEqual(self.value("chr(one[0])", restore="b"), "b")
        self.assertEqual(self.value("len(one), chr(one[0])", restore="a"), f"({100 * MB}, 'c')")

    def test_the_command_line(self):
        self.make("a", "x = 1")
        self.make("b", "x = 2")
        self.assertIn("checkpoints: a (call 1, ", self.sessions()[1])
        self.assertEqual(self.sessions("undo", self.session, "a"), (0, "", ""))
        cell = self.ok("x")
        self.assertEqual((cell["value"]["json"], cell["state"]), (1, "restored"), cell)
        self.assertIn("its owner went back with 'cloister sessions undo'; restored to checkpoint \"a\"", cell["notice"])
        self.kept("x = 5")
        waiting = self.server.start_call("import time\nx = 6\ntime.sleep(100)", session=self.session)
        self.wait_running()
        self.assertEqual(self.sessions("undo", self.session), (0, "", ""))
        cell = waiting.result()["structuredContent"]
        self.assertEqual((cell["status"], cell["state"]), ("cancelled", "restored"), cell)
        self.assertEqual(self.value("x"), 5)
        for words, text in ((("nobody",), "no live session"), ((self.session, "c"), 'no checkpoint is called "c": there are b, a'), ((self.session, "a\nb"), "no checkpoint can be called that"), ((), "NAME")):
            status, _, err = self.sessions("undo", *words)
            self.assertNotEqual(status, 0)
            self.assertIn(text, err)

    def test_calls_that_wait_and_a_restore_among_them(self):
        self.make("a", "x = []")
        waiting = [self.server.start_call("x.append(1)\nx", session=self.session, **({"restore": "a"} if i == 2 else {})) for i in range(5)]
        got = [w.result()["structuredContent"]["value"]["json"] for w in waiting]
        self.assertEqual(got, [[1], [1, 1], [1], [1, 1], [1, 1, 1]])

    # ---- attacks ----

    def test_code_that_ends_checkpoints(self):
        self.make("a", "x = 1")
        self.make("b", "x = 2")
        first, second = self.value(FIND)
        for number in ("SIGCONT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGTERM"):
            self.ok(f"os.kill({first}, signal.{number})")
        self.assertEqual(self.value("x", restore="a"), 1)
        self.ok(f"import os, signal\nos.kill({second}, signal.SIGKILL)")
        self.assertTrue(harness.wait_until(lambda: "b" not in self.names()))
        self.assertIn('checkpoint "b" is gone', self.ok("1")["notice"])
        self.refused("there are a;", restore="b")
        self.assertEqual(self.value("x", restore="a"), 1)

    def test_processes_that_fork_on_and_wake_each_other(self):
        """Runs while init ends processes that are not copies: each continues all the others, stops copies, and forks."""
        self.make("a", "x = 1")
        self.make("b", "x = 2")
        copies = self.value(FIND)
        code = (
            f"copies = {copies}\nos.setpgid(0, 0)\nfor i in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n"
            "            os.kill(-1, signal.SIGCONT)\n            for c in copies: os.kill(c, (signal.SIGSTOP, signal.SIGUSR1, signal.SIGUSR2)[i % 3])\n"
            "            try:\n                if os.fork(): os._exit(0)\n            except OSError: pass\n"
        )
        cell = self.ok(code + "time.sleep(0.1)\n7")
        cell = self.cell("x", restore="a")
        self.assertEqual((cell["status"], cell["state"], cell.get("value", {}).get("json")), ("ok", "restored", 1), cell)
        self.assertLessEqual(len(self.value(FIND)), 3)  # copies
        self.assertEqual(self.value("x", restore="b"), 2)

    def test_a_checkpoint_that_is_no_copy(self):
        """The worker names a stopped orphan as a copy. The orphan ends when it is woken, so a restore uses another copy."""
        lie = (
            FIND + "\nimport sys\nframe = sys._getframe()\nwhile type(frame.f_locals.get('self')).__name__ != 'Session': frame = frame.f_back\n"
            "copies = frame.f_locals['self']._copies\nanswer = copies._answer\n"
            "r, w = os.pipe()\nif os.fork() == 0:\n    if os.fork() == 0:\n        os.write(w, b'%d' % os.getpid())\n"
            "        os.kill(os.getpid(), signal.SIGSTOP)\n        while True: time.sleep(1)\n    os._exit(0)\n_ = os.wait()\nPID = int(os.read(r, 20))\n"
            "def lies(**members):\n    copies._answer = answer\n    answer(pid=PID, threads=0, processes=0)\ncopies._answer = lies\nx = 'forged'"
        )
        self.make("a", "x = 1")
        self.make("forged", lie)
        self.assertEqual(self.value("x", restore="a"), 1)
        cell = self.call("x", restore="forged")["structuredContent"]
        self.assertNotEqual(cell["status"], "ok", cell)
        cell = self.cell("x")
        self.assertEqual((cell["state"], cell["value"]["json"]), ("restored", 1), cell)

    def test_no_copy_is_left(self):
        self.make("a", "import os\nx = 1")
        self.make("b", "x = 1")

        def copies():
            """Returns the processes of the session's pid namespace, found among the monitor's children."""
            return [pid for pid in harness.descendants(self.server.process.pid) if self.namespace(pid) == mine]

        mine = self.namespace_of_session()
        self.assertEqual(len(copies()), 4)  # init, worker, two copies
        self.sessions("end", self.session)
        self.assertTrue(harness.wait_until(lambda: not copies()))

    @staticmethod
    def namespace(pid):
        try:
            return os.readlink(f"/proc/{pid}/ns/pid")
        except OSError:
            return None

    def namespace_of_session(self):
        return self.value("os.readlink('/proc/self/ns/pid')")


if __name__ == "__main__":
    harness.main()
