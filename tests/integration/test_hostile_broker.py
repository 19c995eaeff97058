"""A hostile broker sends the monitor every message in every state. The monitor refuses the message or kills that broker, and
does nothing else; its memory stays small, and nothing is left."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
import unittest

import harness
import residue

NAMES = ("cloister", "cloister-monitor", "cloister-access", "cloister-inject", "cloister-journal", "cloister-pictures", "cloister-doctor", "cloister-init", "cloister-worker", "cloister-module.so")
KILLED = 128 + 9


def messages():
    """The rows of requests, and the names of events."""
    with open(os.path.join(harness.SOURCE, "rpc", "monitor-messages.def"), encoding="utf-8") as f:
        text = f.read()
    requests = re.findall(r"^MONITOR_REQUEST\((\w+), \w+, (\w+), (\w+), (\d), (\w+),", text, re.MULTILINE)
    return [(*row[:3], int(row[3]), row[4]) for row in requests], re.findall(r"^MONITOR_EVENT\((\w+),", text, re.MULTILINE)


class HostileBroker(harness.Case):
    def setUp(self):
        super().setUp()
        self.more = residue.Residue()
        self.addCleanup(lambda: self.assertEqual(self.more.settle(), {}, "left behind"))
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        harness.copy_programs(self.bin, *NAMES)
        shutil.copy2(os.path.join(harness.HERE, "hostile-broker.py"), os.path.join(self.bin, "cloister-broker"))
        os.chmod(os.path.join(self.bin, "cloister-broker"), 0o755)
        os.chmod(self.dir, 0o755)

    def start(self, act, config=None, arguments=(), **env):
        """Starts the monitor with that broker. Its stderr is a file, so that a flood of log lines does not wait for us."""
        self.log = open(self.path("log"), "w+", encoding="utf-8", errors="replace")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([os.path.join(self.bin, "cloister"), "mcp", "--config", config or self.config(), "--log-format", "text", *arguments],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd=self.dir,
                                   env=harness.environment(CLOISTER_HOSTILE=act, CLOISTER_MESSAGES=json.dumps(messages()), **env))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(harness.end, process)
        return process

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def act(self, name, config=None, timeout=60, arguments=(), **env):
        """Returns (the output of the broker, exit status of the monitor, the monitor's peak memory in KiB)."""
        process = self.start(name, config, arguments, **env)
        most, end = 0, time.monotonic() + harness.patient(timeout)
        while process.poll() is None and time.monotonic() < end:
            for line in residue.read(f"/proc/{process.pid}/status").splitlines():
                if line.startswith("VmRSS:"):
                    most = max(most, int(line.split()[1]))
            time.sleep(0.05)
        self.assertIsNotNone(process.returncode, f"the monitor hangs: {self.said()}")
        printed = process.stdout.read()
        self.assertLess(most, (32 if harness.SANITIZED == 1 else 400) << 10, "the monitor's memory")
        return json.loads(printed) if printed else None, process.returncode

    def obeyed(self, name, expected, config=None, **env):
        found, status = self.act(name, config, **env)
        self.assertEqual((found, status), (expected, 7), self.said())

    def killed(self, name, why):
        found, status = self.act(name)
        self.assertEqual((found, status), (None, KILLED), self.said())
        self.assertIn(why, self.said())

    def servers(self):
        return self.config({"sleep": {"command": "/bin/sleep", "args": ["600"]}})

    # ---- refused, and the monitor keeps serving ----

    def test_every_message(self):
        self.obeyed("every-message", {"wrong": []}, self.servers())

    def test_every_state(self):
        # DONE and FAILED only
        self.obeyed("every-state", {"answers": [1, 2]})

    def test_requests_with_one_number(self):
        self.obeyed("same-serial", {"sessions": 3})

    def test_more_sessions_than_there_may_be(self):
        self.obeyed("too-many", {"started": 5, "failed": 20, "max": 5}, self.config(sessions=5))

    def test_more_files_for_branches_than_there_may_be(self):
        self.obeyed("branches", {"made": 8, "refused": 12, "again": True}, self.config(sessions=5))

    @unittest.skipUnless(os.environ.get("CLOISTER_TEST_WHOLE"), "takes long: suite slow")
    def test_more_servers_than_there_may_be(self):
        found, status = self.act("upstreams", self.servers())
        self.assertEqual((found, status), ({"started": 512, "refused": 5}, 7), self.said())
        self.assertNotIn("killing", self.said())

    def test_at_random(self):
        self.obeyed("at-random", {"unanswered": 0}, self.servers(), CLOISTER_HOSTILE_SEED=os.environ.get("CLOISTER_HOSTILE_SEED", "1"),
                    CLOISTER_HOSTILE_COUNT=os.environ.get("CLOISTER_HOSTILE_COUNT", "80"))

    def test_descriptors_are_not_taken(self):
        process = self.start("with-descriptors")
        most = 0
        while process.poll() is None:
            most = max(most, residue.descriptors(process.pid).get("/dev/null", 0))
            time.sleep(0.02)
        if self.kernel_refuses_descriptors():
            self.assertEqual((process.returncode, json.load(process.stdout)), (7, {"refused": 200}), self.said())
        else:
            self.assertEqual(process.returncode, KILLED, self.said())
            self.assertIn("sent an invalid request", self.said())
        self.assertLess(most, 8)

    @staticmethod
    def kernel_refuses_descriptors():
        """Returns whether a socket can be set to accept no descriptors: SO_PASSRIGHTS, since Linux 6.16."""
        a, b = socket.socketpair()
        with a, b, contextlib.suppress(OSError):
            a.setsockopt(socket.SOL_SOCKET, 83, 0)
            return True
        return False

    def test_it_leaves_everything(self):
        found = self.act("leave", self.servers(), arguments=("--log-level", "info"))
        self.assertEqual(found, ({"left": True}, 7), self.said())
        self.assertIn("the broker ended with status 7", self.said())

    def test_it_floods_its_log(self):
        """The monitor appends the broker's output, some MiB a second; tests/unit/test-log-file.c tests the file's size limit."""
        log = self.path("log-file")
        found, status = self.act("flood-log", arguments=("--log-file", log))
        self.assertEqual((found, status), ({"truncated": False}, 7), self.said())
        with open(log, "rb") as f:
            text = f.read()
        self.assertTrue(1 << 20 < len(text) < 16 << 20, len(text))
        self.assertNotIn(b"\x1b", text)
        # The control: without a log file the broker writes to standard error itself.
        process = self.start("flood-log")
        self.assertTrue(harness.wait_until(lambda: b"\x1b" in os.pread(self.log.fileno(), 4096, 0)))
        harness.end(process)

    # ---- killed ----

    def test_invalid_messages(self):
        for name in ("verb-0", "verb-max", "verb-huge", "serial-0", "short", "long", "one-byte", "large"):
            with self.subTest(name):
                self.killed(name, "sent an invalid request")
        self.obeyed("control", {"survived": True})

    def test_an_empty_message_and_a_closed_link(self):
        for name, printed in (("empty", None), ("close-link", {"closed": True})):
            with self.subTest(name):
                start = time.monotonic()
                found, status = self.act(name, timeout=20)
                self.assertEqual((found, status), (printed, KILLED), self.said())
                self.assertLess(time.monotonic() - start, 15 * harness.SLOW)
                self.assertIn("closed its link", self.said())

    def test_floods_without_reading(self):
        # Each test takes the five seconds that a broker has to read.
        names = ("flood-create", "flood-kill", "flood-upstream")
        for name in names if os.environ.get("CLOISTER_TEST_WHOLE") else names[:1]:
            with self.subTest(name):
                self.killed(name, "does not receive events")


if __name__ == "__main__":
    harness.main()
