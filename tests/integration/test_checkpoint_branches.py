"""Branches of a checkpoint: the stopped process of the checkpoint writes its own memory, and its session continues."""

import time
import unittest

import harness
from test_branches import FIND, MB, POSTURE, BranchCase

# Processes of the sandbox that are neither init nor the worker.
OTHERS = "import os, signal, time\ndef others():\n    return [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\n"


class Case(BranchCase):
    def make(self, name, code, session=None, **arguments):
        cell = self.ok(code, checkpoint=name, session=session or self.session, **arguments)
        self.assertTrue(cell.get("checkpoint"), cell)

    def of(self, name, session=None):
        return f"{session or self.session}@{name}"

    def branched(self, code, **arguments):
        cell = self.branch(code, **arguments)
        self.assertEqual((cell["status"], cell["state"]), ("ok", "kept"), cell)
        return cell["value"].get("json", cell["value"]["repr"]) if "value" in cell else None

    def pid_of_copy(self):
        """Returns the process of the only checkpoint, which is also the newest copy."""
        found = self.value("others()")
        self.assertEqual(len(found), 1)
        return found[0]


class CheckpointBranches(Case):
    def test_it_begins_there_and_all_go_on(self):
        self.make("first", "import random\nx = ['first']\nrandom.seed(5)\nwith open('/workspace/f', 'w') as f: f.write('first')")
        self.make("second", "x.append('second')")
        self.ok("x.append('now')\nwith open('/workspace/f', 'w') as f: f.write('now')\n_ = random.random()")
        cell = self.branch("[x, random.random(), open('/workspace/f').read()]", origin=self.of("first"))
        self.assertEqual((cell["status"], cell["state"]), ("ok", "kept"), cell)
        self.assertEqual(cell["value"]["json"], [["first"], 0.6229016948897019, "now"])
        self.assertIn(f'branched from checkpoint "first" of session "{self.session}"; files are those of now: f changed', cell["notice"])
        # Branches the first checkpoint again, then the second one; the session keeps its variables, its checkpoints and its copy.
        self.assertEqual(self.branched("x.append('c')\nx", origin=self.of("first"), to="c"), ["first", "c"])
        self.assertEqual(self.branched("x", origin=self.of("second"), to="d"), ["first", "second"])
        self.assertEqual(self.value("x"), ["first", "second", "now"])
        self.assertEqual(self.value("x", restore="second"), ["first", "second"])
        # After a restore the checkpoint has another process.
        self.assertEqual(self.branched("x", origin=self.of("second"), to="e"), ["first", "second"])
        self.assertEqual(self.value("x", restore="first"), ["first"])
        self.assertEqual([self.value("x", session=s) for s in (self.session + "-b", "c", "d")], [["first"], ["first", "c"], ["first", "second"]])

    def test_after_the_session_went_back_elsewhere(self):
        """Copies that were not restored are stopped while the session is restored, and answer again after it."""
        self.make("a", "import os\nx = ['a']")
        self.make("b", "x.append('b')")
        for n, (code, state, arguments) in enumerate((("os._exit(1)", "restored", {}), ("1 / 0", "rolled_back", {"on_error": "rollback"}), ("1", "restored", {"restore": "b"}))):
            self.assertEqual(self.cell(code, **arguments)["state"], state)
            self.assertEqual(self.branched("x", origin=self.of("a"), to=f"back-{n}"), ["a"])

    def test_what_is_as_it_was_then(self):
        self.make(
            "then",
            "import os, asyncio, signal, sqlite3, gc, threading, time, subprocess, socket\n"
            "def steps():\n    yield from range(100)\nstep = steps(); next(step)\nmemory = sqlite3.connect(':memory:'); _ = memory.execute('create table t (a)')\n"
            "os.makedirs('/workspace/a', exist_ok=True)\nwith open('/workspace/a/data', 'wb') as made: made.write(b'0123456789')\n"
            "data = open('/workspace/a/data', 'r+b', buffering=0); _ = data.read(4)\nos.chdir('/workspace/a'); os.environ['A'] = 'then'; _ = os.umask(0o27)\n"
            "hits = []\n_ = signal.signal(signal.SIGUSR2, lambda *_: hits.append(1)); _ = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])\n"
            "event = asyncio.Event()\nasync def wait():\n    await event.wait()\n    return 'woken'\ntask = asyncio.create_task(wait())\nawait asyncio.sleep(0)\n"
            "threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(2)]\nfor t in threads: t.start()\n"
            "child = subprocess.Popen(['sleep', '1000']); pair = socket.socketpair()",
        )
        self.ok("_ = data.read(3); os.chdir('/'); os.environ['A'] = 'now'; _ = os.umask(0o77); next(step); memory.close(); signal.signal(signal.SIGUSR2, signal.SIG_DFL); child.kill(); _ = child.wait()")
        cell = self.branch(
            "event.set()\nsignal.raise_signal(signal.SIGUSR2)\n"
            "[next(step), memory.execute('select count(*) from t').fetchone()[0], data.read(2).decode(), os.getcwd(), os.environ['A'], os.umask(0o27), len(hits), await task,"
            " [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])], gc.isenabled(), [t.is_alive() for t in threads], child.poll(), os.getpid(), len(os.listdir('/proc/self/task'))]",
            origin=self.of("then"),
        )
        self.assertEqual(cell["value"]["json"], [1, 0, "45", "/workspace/a", "then", 0o27, 1, "woken", [23], True, [False, False], -9, 2, 1], cell)
        self.assertIn("not in it: 2 threads, 1 process and 2 open descriptors; files are those of now", cell["notice"])
        # Neither the file offset that both share nor the session's threads have changed.
        self.assertEqual(self.value("[data.read().decode(), [t.is_alive() for t in threads], os.getcwd(), pair[0].send(b'x')]"), ["789", [True, True], "/", 1])

    def test_while_the_session_is_busy(self):
        self.make("a", "x = 1")
        waiting = self.server.start_call("import time\nx = 2\nwhile True: time.sleep(0.05)", session=self.session)
        self.wait_running()
        self.refused("its checkpoints can be branched now", "SandboxError", to="busy")
        self.assertEqual(self.branched("x", origin=self.of("a")), 1)
        self.wait_running()
        self.assertEqual(self.value("x", interrupt=True), 2)
        self.assertEqual(waiting.result()["structuredContent"]["status"], "cancelled")

    def test_it_is_held_as_any_sandbox(self):
        self.make("a", POSTURE + "\nown = look()\nNone")
        self.ok(POSTURE + "\nNone", session="fresh")
        code = "{**look(), 'processes': None}"  # one of the two has a copy by now
        self.assertEqual(self.branched(code, origin=self.of("a")), self.value(code, session="fresh"))
        self.assertEqual(self.branched("mcp_demo.add.sync(a=5, b=6)", origin=self.of("a"), to="tools"), {"sum": 11})

    def test_refusals(self):
        unknown = lambda why, **arguments: self.refused(why, "SandboxError", **arguments)
        self.ok("x = 1")
        unknown(f'no checkpoint of session "{self.session}" is called "a": there is none; nothing was run', origin=self.of("a"))
        self.make("a", "x = 2")
        self.make("b", "x = 3")
        unknown('is called "c": there are a, b', origin=self.of("c"))
        unknown('no live session is called "absent"', origin="absent@a")
        unknown("and so must its branch", origin=self.of("a"), profile="other")
        unknown("a branch of itself", origin=self.of("a"), to=self.session)
        for name in ("@a", self.session + "@", self.session + "@a@b", self.session + "@a b", "@", self.session + "@" + "n" * 65):
            self.assertIn("from must be the name of a session, or session@checkpoint", self.branch("1", origin=name)["error"]["message"])
        self.ok("import mmap, os\nf = open('/workspace/m', 'w+b'); f.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\n", checkpoint="shared")
        self.refused("it shares memory with other processes or files", origin=self.of("shared"), to="r-1")
        self.ok("size = os.statvfs('/workspace'); size = size.f_blocks * size.f_frsize\nfor n in range(5):\n    with open('/workspace/hole%d' % n, 'wb') as made: made.truncate(size // 4)")
        self.refused("/workspace has more than 20000 files, or more bytes than limits.workspace", origin=self.of("a"), to="r-2")
        self.ok("for n in range(5): os.unlink('/workspace/hole%d' % n)")
        self.assertEqual(self.branched("x", origin=self.of("a")), 2)  # the control

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_no_process_is_left(self):
        self.make("a", "import os, time, signal\nx = 1")
        self.ok("children = []\ntry:\n    while True:\n        p = os.fork()\n        if p == 0: time.sleep(1000)\n        children.append(p)\nexcept OSError: pass\nNone")
        self.refused("limits.pids allows no more processes", origin=self.of("a"), to="r-3")
        self.ok("for p in children: os.kill(p, 9); os.waitpid(p, 0)")
        self.assertEqual(self.branched("x", origin=self.of("a")), 1)

    # ---- hostile code ----

    def test_code_that_kills_the_checkpoint(self):
        self.make("a", OTHERS + "x = 1")
        self.make("b", "x = 2")
        self.ok("for p in others(): os.kill(p, 9)")
        self.assertTrue(harness.wait_until(lambda: "there is none" in self.branch("1", origin=self.of("a"))["error"]["message"]))
        self.assertEqual(self.value("x"), 2)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_signals_run_no_code_of_the_writer(self):
        """Handlers and finalizers of the code: the writer is a fork of which they are not notified."""
        self.make(
            "a",
            OTHERS + "import threading\nx = 1\nclass Last:\n    def __del__(self): open('/workspace/ran%d' % os.getpid(), 'w')\nlast = Last(); cycle = [Last()]; cycle.append(cycle); del cycle\n"
            "for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM): signal.signal(s, lambda *_: open('/workspace/ran%d' % os.getpid(), 'w'))\n"
            "os.register_at_fork(before=lambda: open('/workspace/hook', 'w'), after_in_child=lambda: open('/workspace/hook', 'w'), after_in_parent=lambda: open('/workspace/hook', 'w'))\n"
            "block = bytearray(b'x') * (20 << 20)\nNone",
        )
        self.ok(
            "import sys\npid = os.posix_spawn(sys.executable, [sys.executable, '-c', \"import os, signal, time\\nown = {1, %d, os.getpid()}\\nwhile True:\\n for p in os.listdir('/proc'):\\n"
            "  if p.isdigit() and int(p) not in own:\\n   for s in (10, 12, 15, 1, 17, 14, 18):\\n    try: os.kill(int(p), s)\\n    except OSError: pass\\n\" % os.getpid()], {})"
        )
        self.assertEqual(self.branched("[x, len(block)]", origin=self.of("a")), [1, 20 * MB])
        self.ok("os.kill(pid, 9); _ = os.waitpid(pid, 0)")
        self.assertEqual(self.value("[n for n in os.listdir('/workspace') if n.startswith(('ran', 'hook')) and n != 'ran%d' % os.getpid()]"), [])
        self.assertEqual(self.value("x", restore="a"), 1)

    def test_code_that_answers_at_the_door(self):
        """Code may keep the writer socket: then the code is the writer, and is trusted no more than any dump."""
        self.ok(FIND + "import socket, os, threading, array\nfrom cloister.frames import WRITER\ncopies = ours._copies\nkept = []\ngive = copies.give_writer\ndef take(number, fd):\n    kept.append(socket.socket(fileno=os.dup(fd)))\n    give(number, fd)\nours._channel.on[WRITER] = take\nNone")
        self.make("a", "x = 1")
        self.ok(
            "import time\ndef answer():\n    while True:\n        byte, control, *_ = kept[0].recvmsg(1, 100)\n        for _, _, data in control:\n            fd = array.array('i', data)[0]\n"
            "            os.write(fd, os.urandom(60000)); os.close(fd)\nthread = threading.Thread(target=answer, daemon=True); thread.start()\n"
            "pid = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\nfor p in pid: os.kill(p, 19)\nNone"
        )
        cell = self.branch("1", origin=self.of("a"))
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "BranchError"), cell)
        # Nothing that it sends reaches the broker.
        self.assertEqual(self.value("try: n = kept[0].send(b'x' * 1000)\nexcept OSError as e: n = type(e).__name__\nn"), "BrokenPipeError")
        self.ok("for p in pid: os.kill(p, 18)\nx = 2")
        self.assertEqual(self.value("x"), 2)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_many_of_one_checkpoint(self):
        self.make("a", "x = 1\nblock = bytearray(b'x') * (5 << 20)")
        waiting = [self.server.start_call("block[0] = x\nlen(block)", session=f"many-{n}", **{"from": self.of("a")}) for n in range(8)]
        self.assertEqual([w.result()["structuredContent"]["value"]["json"] for w in waiting], [5 * MB] * 8)

    def test_a_restore_meanwhile(self):
        """The writer ends, or has ended: the session is restored in both cases."""
        self.make("a", OTHERS + "x = 1\nblock = bytearray(b'x') * (60 << 20)", profile="large")
        for n in range(4 if harness.WHOLE else 2):
            self.ok(f"x = {n + 10}")
            waiting = self.server.start_call("[x, len(block)]", session=f"meanwhile-{n}", **{"from": self.of("a")})
            time.sleep(0.02 * n)
            self.assertEqual(self.value("x", restore="a"), 1)
            got = waiting.result()["structuredContent"]
            if got["status"] == "ok":
                self.assertEqual(got["value"]["json"], [1, 60 * MB])
            else:
                self.assertEqual(got["error"]["type"], "BranchError", got)
        self.assertEqual(self.branched("x", origin=self.of("a")), 1)
        self.assertTrue(harness.wait_until(lambda: len(self.value("others()")) <= 2))

    def test_the_session_ends_meanwhile(self):
        self.make("a", "x = 1\nblock = bytearray(b'x') * (100 << 20)", profile="large")
        waiting = self.server.start_call("x", session="late", **{"from": self.of("a")})
        time.sleep(0.02)
        self.ok("1", reset=True)
        got = waiting.result()["structuredContent"]
        if got["status"] != "ok":
            self.assertIn("could not be branched: ", got["error"]["message"])
        self.assertIn("there is none", self.branch("1", origin=self.of("a"))["error"]["message"])

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_a_checkpoint_that_is_stopped(self):
        self.make("a", OTHERS + "x = 1")
        pid = self.pid_of_copy()
        self.ok(f"os.kill({pid}, signal.SIGSTOP)")
        self.refused("it took longer than 30 s", origin=self.of("a"))
        self.assertEqual(self.value("x"), 1)
        # A request whose caller no longer waits disturbs nothing.
        self.ok(f"os.kill({pid}, signal.SIGCONT)")
        self.refused("its process does not answer: a restore makes another one", origin=self.of("a"), to="asleep")
        self.assertEqual(self.value("x", restore="a"), 1)
        self.assertEqual(self.branched("x", origin=self.of("a"), to="awake"), 1)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_code_that_kills_each_writer(self):
        self.make("a", OTHERS + "x = 1\nblock = bytearray(b'x') * (60 << 20)", profile="large")
        self.ok(f"keep = {{{self.pid_of_copy()}, 1, os.getpid()}}\nif os.fork() == 0:\n    keep.add(os.getpid())\n    while True:\n        for p in others():\n            if p not in keep:\n                try: os.kill(p, 9)\n                except OSError: pass\nNone")
        for n in range(3):
            self.refused("could not be branched", origin=self.of("a"), to=f"killed-{n}")
        self.assertEqual(self.value("x"), 1)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_stops_and_goes(self):
        """Code stops and continues all other processes at random: a branch succeeds or fails, and the session keeps running."""
        self.make("a", OTHERS + "x = 1\nblock = bytearray(b'x') * (30 << 20)", profile="large")
        self.ok("import random\nif os.fork() == 0:\n    while True:\n        for p in others():\n            try: os.kill(p, random.choice((18, 18, 19)))\n            except OSError: pass\nNone")
        for n in range(5):
            cell = self.branch("x", origin=self.of("a"), to=f"shaken-{n}")
            self.assertTrue(cell["status"] == "ok" and cell["value"]["json"] == 1 or cell["error"]["type"] == "BranchError", cell)
        self.assertEqual(self.value("x", restore="a"), 1)


@unittest.skipUnless(harness.BOUNDED and harness.WHOLE, "in suite slow, where the kernel freezes for this user")
class Frozen(Case):
    CONFIG = {"freeze": 1}

    def test_a_frozen_session(self):
        self.make("a", "x = 1\nblock = bytearray(b'x') * (20 << 20)")
        time.sleep(2)
        self.assertEqual(self.branched("[x, len(block)]", origin=self.of("a")), [1, 20 * MB])
        self.assertEqual(self.value("x"), 1)


if __name__ == "__main__":
    harness.main()
