"""Reload, drain and the service manager of `cloister serve`: what SIGHUP, `cloister reload` and `cloister drain` do, and the messages that systemd receives."""

import json
import os
import re
import signal
import socket
import time

import harness
import rawmcp
from test_serve import Serve
from test_service_stop import refusal

ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"
UNTIL_NOTICED = 1.5  # s: a watched file that changed has been read by then


class Service(Serve):
    SETTINGS = {}

    def setUp(self):
        harness.Case.setUp(self)
        self.begin()

    def begin(self, *arguments):
        self.log = harness.Log()
        self.file = self.config(name="service.json", **self.SETTINGS)
        self.server = self.spawn(self.log, *self.ARGUMENTS, "--config", self.file, "-v", *arguments)
        self.wait_serving(self.server, self.log)
        self.address = ("127.0.0.1", int(re.search(r":(\d+)/mcp", self.log.text())[1]))
        self.assertEqual(self.status(), 200)  # the config was read, and the control socket exists

    def command(self, *words):
        return self.run_cloister(*words, "--server", str(self.server.pid))

    def reload(self, **settings):
        """The command, with these settings in the config."""
        self.config(name="service.json", **{**self.SETTINGS, **settings})
        return self.command("reload")

    def timeout(self):
        """Of a cell that names none, as the server has it."""
        tool = self.connect().modern("tools/list").response().json()["result"]["tools"][0]
        return re.search(r"default:? (\d+)", tool["inputSchema"]["properties"]["timeout"]["description"], re.IGNORECASE)[1]


class Reload(Service):
    SETTINGS = {"reload": "signal", "timeout": 77}

    def test_command(self):
        """The config counts when the command has ended; an invalid one changes nothing, and is named as `config check` names it."""
        self.value(self.connect().call("x = 5\nx", session="a"))
        self.assertEqual(self.timeout(), "77")
        done = self.reload(timeout=78)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        self.assertIn(b"were read again", done.stdout)
        self.assertEqual(self.timeout(), "78")
        self.assertEqual(self.value(self.connect().call("x", session="a")), 5)
        self.write("service.json", '{"timeout": "never"}')
        done = self.command("reload")
        checked = self.run_cloister("config", "check", "--config", self.file)
        problem = re.search(r"service.json[^\n]*", checked.stdout.decode() + checked.stderr.decode())[0]
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (1, b"", 1), done)
        self.assertIn(problem.split(": error: ")[-1].split(": ", 1)[-1][:20], done.stderr.decode())
        self.assertIn("service.json", done.stderr.decode())
        self.assertEqual(self.timeout(), "78")
        # The command waits for entries of "rule_tests" whose URLs another process reads; the second line is the control.
        call = {"call": "one.get", "arguments": {"url": "https://a.example/"}}
        rules = {"mcpServers": {"one": {"command": "true"}}, "rules": [{"deny": "one.get", "when": {"/url": {"host": "a.example"}}}]}
        done = self.reload(timeout=79, **rules, rule_tests=[{**call, "expect": "allow"}])
        self.assertEqual((done.returncode, done.stdout), (1, b""), done)
        self.assertIn("rule_tests: entry 1: one.get: expected allow, found deny", done.stderr.decode())
        self.assertEqual(self.timeout(), "78")
        done = self.reload(timeout=79, **rules, rule_tests=[{**call, "expect": "deny"}])
        self.assertEqual((done.returncode, done.stderr), (0, b""), done)
        self.assertEqual(self.timeout(), "79")

    def test_signal_only(self):
        """With "signal" a changed file waits for SIGHUP; the control is the next class."""
        self.config(name="service.json", **{**self.SETTINGS, "timeout": 79})
        time.sleep(UNTIL_NOTICED)
        self.assertEqual(self.timeout(), "77")
        self.server.send_signal(signal.SIGHUP)
        self.assertTrue(harness.wait_until(lambda: self.timeout() == "79"), self.log.text())

    def test_keys_of_the_next_start(self):
        done = self.reload(user="nobody", id_range=[700000, 100], timeout=80)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("at the next start: user, id_range\n", done.stdout.decode())
        self.assertIn("changes of user, id_range take effect at the next start", self.log.text())
        self.assertEqual(self.timeout(), "80")
        self.assertNotIn("next start", self.reload(user="nobody", id_range=[700000, 100], timeout=81).stdout.decode())

    def test_sessions_count_at_once(self):
        for name in "ab":
            self.value(self.connect().call("1", session=name))
        self.assertEqual(self.reload(sessions=2).returncode, 0)
        self.assertEqual(refusal(self.connect().call("1", session="c").response()), (503, -32000, "full", True))
        self.assertEqual(self.reload(sessions=3).returncode, 0)
        self.value(self.connect().call("1", session="c"))

    @harness.once
    def test_background_counts_at_once(self):
        """Also for a session that lives. A control group counts its time."""
        code = "import subprocess\nsubprocess.Popen(['/bin/sh', '-c', 'while :; do :; done'])\n1"
        self.reload(background={"cpu": "unlimited"})
        self.assertEqual(self.value(self.connect().call(code, session="a")), 1)
        self.assertEqual(self.reload(background={"cpu": 0.2}).returncode, 0)
        said = lambda: str(self.connect().call("1", session="a").response().json())
        self.assertEqual("stopped after" in said(), False)
        # The process gets the time that others leave, and each call begins the count again.
        stopped = lambda seconds: time.sleep(seconds) or "stopped after 0.2 s of CPU time" in said()
        self.assertTrue(any(stopped(seconds) for seconds in (1, 2, 4, 8, 16)), self.log.text())

    def test_every_ten_milliseconds(self):
        """SIGHUP without end, under load: no call fails, and the server stays as fast."""
        end, n = time.monotonic() + 3, 0
        c = self.connect()
        self.assertEqual(c.call("n = 0", session="load").response().status, 200)
        while time.monotonic() < end:
            self.server.send_signal(signal.SIGHUP)
            n += self.value(c.call("n += 1\n1", session="load"))
            time.sleep(0.01)
        self.assertEqual(self.value(c.call("n", session="load")), n)
        # Reloads are joined: at most one each RELOAD_GAP_MS.
        done = self.log.text().count("reload: done")
        self.assertTrue(1 <= done <= 35, done)

    def test_log_is_opened_again(self):
        path = self.path("log.txt")
        self.begin("--log-file", path)
        self.value(self.connect().call("1", session="a"))
        os.rename(path, path + ".old")
        self.assertEqual(self.command("reload").returncode, 0)
        self.assertTrue(harness.wait_until(lambda: os.path.exists(path)))
        self.value(self.connect().call("2", session="a"))
        with open(path, encoding="utf-8") as f:
            self.assertTrue(harness.wait_until(lambda: f.seek(0) == 0 and "cell ended" in f.read()))

    def test_which_server(self):
        """Without a server there is one line, and `cloister mcp` is not such a server."""
        done = self.run_cloister("reload", "--server", "1")
        self.assertEqual((done.returncode, done.stderr.decode().count("\n")), (1, 1))
        self.assertIn("no 'cloister serve' of yours", done.stderr.decode())
        self.assertEqual(self.run_cloister("drain", "--cancel", "--deadline", "1s").returncode, 2)


class ByChange(Service):
    SETTINGS = {"timeout": 77}

    def setUp(self):
        harness.Case.setUp(self)
        self.admin = self.path("admin")
        self.begin("--admin", f"unix:{self.admin}", "--log-format", "json")

    def reloads(self, outcome):
        """Of the metric."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(harness.PATIENCE)
            s.connect(self.admin)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            found = re.search(rb'reloads_total\{outcome="%s"\} (\d+)' % outcome.encode(), s.makefile("rb").read())
        return int(found[1]) if found else 0

    def events(self):
        lines = [json.loads(line) for line in self.log.text().splitlines() if line.startswith("{")]
        return [(line["what"], line["ok"]) for line in lines if line.get("event") == "reload"]

    def test_changed_file(self):
        self.config(name="service.json", timeout=79)
        self.assertTrue(harness.wait_until(lambda: self.timeout() == "79"), self.log.text())
        self.assertEqual((self.reloads("config"), self.reloads("failed"), self.events()), (1, 0, [("config", True)]))
        # A config that the monitor refuses is one event, however often it is written.
        for _ in range(2):
            self.write("service.json", '{"timeout": "never"}')
            self.assertTrue(harness.wait_until(lambda: self.reloads("failed")), self.log.text())
            time.sleep(UNTIL_NOTICED)
        self.assertEqual((self.reloads("config"), self.reloads("failed"), self.events()[1:]), (1, 1, [("config", False)]))
        self.assertEqual(self.timeout(), "79")
        # A refused reload by the command is another one.
        self.assertEqual(self.command("reload").returncode, 1)
        self.assertTrue(harness.wait_until(lambda: self.events()[2:] == [("config", False)]), self.events())
        self.assertEqual(self.reloads("failed"), 2)


class StandardOutput(harness.Case):
    def test_reads_changed_files(self):
        """`cloister mcp` has no command that reloads: "signal", which the config of the Debian package has, does not count there."""
        with open(os.path.join(harness.SOURCE, "packaging/debian/config.json"), encoding="utf-8") as f:
            shipped = f.read()
        self.assertIn('"reload": "signal"\n', shipped)
        path = self.write("shipped.json", shipped)
        server = rawmcp.RawServer("--config", path, cwd=self.dir)
        self.addCleanup(server.close)
        server.initialize()
        self.write("shipped.json", shipped.replace('"signal"', '"signal", "timeout": 79'))
        tool = lambda: json.dumps(server.ask("tools/list", {})["tools"])
        self.assertTrue(harness.wait_until(lambda: re.search(r"default:? 79", tool(), re.IGNORECASE)))


class Tokens(Service):
    SETTINGS = {"reload": "signal", "timeout": 77}

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.put(f"alice {ALICE}\n")
        self.begin("--tokens", self.tokens)

    def put(self, text):
        with open(self.tokens + ".new", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        os.rename(self.tokens + ".new", self.tokens)

    def status_of(self, token):
        return self.connect().modern("tools/list", Authorization=f"Bearer {token}").response().status

    def test_tokens(self):
        """They are read with the config, and only then; if one of both is invalid, neither has changed."""
        self.put(f"alice {ALICE}\nbob {BOB}\n")
        time.sleep(UNTIL_NOTICED)
        self.assertEqual(self.status_of(BOB), 401)
        self.assertEqual(self.command("reload").returncode, 0)
        self.assertEqual((self.status_of(ALICE), self.status_of(BOB)), (200, 200))
        self.put(f"bob {BOB} calls=none\n")
        done = self.reload(timeout=78)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: profile=NAME", done.stderr.decode())
        self.put(f"bob {BOB}\n")
        self.write("service.json", "{")
        self.assertEqual(self.command("reload").returncode, 1)
        self.assertEqual((self.status_of(ALICE), self.status_of(BOB)), (200, 200))
        self.assertEqual(self.reload(timeout=79).returncode, 0)
        self.assertEqual((self.status_of(ALICE), self.status_of(BOB)), (401, 200))

    def test_principal_removed_while_draining(self):
        """Its call ends, and the others' are answered."""
        call = {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(3)\n1", "session": "a"}}
        self.put(f"alice {ALICE}\nbob {BOB}\n")
        self.assertEqual(self.command("reload").returncode, 0)
        gone = self.connect().modern("tools/call", call, Authorization=f"Bearer {ALICE}")
        stays = self.connect().modern("tools/call", call, Authorization=f"Bearer {BOB}")
        time.sleep(0.7)
        self.assertEqual(self.command("drain", "--deadline", "1s").returncode, 0)
        self.put(f"bob {BOB}\n")
        self.server.send_signal(signal.SIGHUP)
        self.assertEqual(gone.size(), 0)
        self.assertEqual(self.value(stays), 1)
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())


class Drain(Service):
    SETTINGS = {"idle": 3, "pool": 0}

    def test_until_sessions_have_ended(self):
        """Live sessions continue, new ones are refused; the server ends with the last one."""
        self.value(self.connect().call("x = 1\nx", session="a"))
        done = self.command("drain")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("draining, it takes no new sessions, sessions: 1", done.stdout.decode())
        self.assertEqual(refusal(self.connect().call("1", session="b").response()), (503, -32000, "draining", True))
        self.assertEqual(self.value(self.connect().call("x + 1", session="a")), 2)
        # --cancel takes new sessions again.
        self.assertIn("it takes new sessions again", self.command("drain", "--cancel").stdout.decode())
        self.value(self.connect().call("1", session="b"))
        done = self.command("drain", "--cancel")
        self.assertEqual((done.returncode, "not draining" in done.stderr.decode()), (1, True))
        self.assertEqual(self.command("drain").returncode, 0)
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())

    def test_deadline(self):
        """Then the server stops, as after SIGTERM: a call that runs is answered."""
        call = self.connect().call("import time\ntime.sleep(2.5)\n'answered'", session="a")
        time.sleep(0.5)
        self.assertEqual(self.command("drain", "--deadline", "500ms").returncode, 0)
        time.sleep(1)
        self.assertEqual(refusal(self.connect().call("1", session="a").response()), (503, -32000, "draining", True))
        self.assertEqual(self.value(call), "answered")
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())


class Notify(Serve):
    """The test is the service manager."""

    def setUp(self):
        harness.Case.setUp(self)

    def listen(self, name):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(harness.PATIENCE)
        return manager

    def begin(self, name, **more):
        self.log = harness.Log()
        environment = harness.environment
        harness.environment = lambda **extra: environment(NOTIFY_SOCKET=name, **more, **extra)
        try:
            self.server = self.spawn(self.log, *self.ARGUMENTS, "-v")
        finally:
            harness.environment = environment

    def messages(self, manager, until):
        """The messages up to one that contains a text."""
        found = []
        while not found or until not in found[-1]:
            found.append(manager.recv(4096).decode())
        return found

    def test_life(self):
        """READY once a sandbox has answered, RELOADING with the time, STOPPING with the time that it may take."""
        manager = self.listen(name := self.path("notify"))
        self.begin(name)
        first = self.messages(manager, "READY=1")
        self.assertEqual(first[-1].split("\n"), ["READY=1", "STATUS=Serving"])
        # Its first sandbox has run a cell, of a session that has ended.
        self.assertTrue(harness.wait_until(lambda: "cell ended: ok" in self.log.text()), self.log.text())
        self.assertEqual(len(first), 1)
        listed = lambda: json.loads(self.run_cloister("sessions", "--json", "--server", str(self.server.pid)).stdout)[0]["sessions"]
        self.assertTrue(harness.wait_until(lambda: listed() == []), listed())
        self.server.send_signal(signal.SIGHUP)
        reloading = self.messages(manager, "READY=1")
        us = int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", reloading[0])[1])
        self.assertLess(abs(time.monotonic_ns() // 1000 - us), 30_000_000)
        self.assertEqual(reloading[1:], ["READY=1"])
        self.server.send_signal(signal.SIGTERM)
        stopping = self.messages(manager, "STOPPING=1")[-1]
        self.assertGreaterEqual(int(re.search(r"EXTEND_TIMEOUT_USEC=(\d+)", stopping)[1]), 30_000_000)
        self.assertEqual(self.server.wait(harness.PATIENCE), 0, self.log.text())

    def test_the_only_place_is_free(self):
        """READY=1 comes when the sandbox that was tried has left its place, also where tokens name all clients."""
        manager = self.listen(name := self.path("notify"))
        tokens = self.path("tokens")
        with open(tokens, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(f"alice {ALICE}\n")
        config = self.config
        self.config = lambda **rest: config(sessions=1, pool=0)
        self.ARGUMENTS = (*Serve.ARGUMENTS, "--tokens", tokens)
        self.begin(name)
        self.messages(manager, "READY=1")
        self.address = ("127.0.0.1", int(re.search(r":(\d+)/mcp", self.log.text())[1]))
        call = {"name": "run_python", "arguments": {"code": "1"}}
        self.assertEqual(self.value(self.connect().modern("tools/call", call, Authorization=f"Bearer {ALICE}")), 1)

    def test_checks_wait_for_the_same_sandbox(self):
        """/readyz is 503 until the sandbox that READY=1 waits for has left its place: a call that follows a 200 gets the only one."""
        manager = self.listen(name := self.path("notify"))
        config = self.config
        self.config = lambda **rest: config(sessions=1, pool=0)
        self.begin(name)
        self.assertTrue(harness.wait_until(lambda: re.search(r":\d+/mcp", self.log.text())))
        self.address = ("127.0.0.1", int(re.search(r":(\d+)/mcp", self.log.text())[1]))
        c, said = self.connect(), []
        while not said or said[-1][0] != 200:
            answer = c.request("GET", "/readyz").response()
            said.append((answer.status, answer.json()["status"]))
            self.assertLess(len(said), 100000)
        self.assertEqual(self.value(c.call("1")), 1)
        self.assertEqual(set(said), {(503, "starting"), (200, "ready")})
        self.messages(manager, "READY=1")

    def test_no_sandbox_is_not_ready(self):
        manager = self.listen(name := "@cloister-test-" + os.path.basename(self.dir))
        self.write("broken", "#!/bin/sh\nexit 1\n")
        os.chmod(self.path("broken"), 0o755)
        self.config(python=self.path("broken"))
        environment = self.config
        self.config = lambda **rest: environment(python=self.path("broken"))
        self.begin(name)
        self.assertTrue(harness.wait_until(lambda: "no sandbox has answered yet" in self.log.text()), self.log.text())
        manager.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            manager.recv(4096)

    def test_watchdog(self):
        """The monitor tells only what the broker has answered: a broker that hangs is noticed."""
        manager = self.listen(name := "@cloister-test-" + os.path.basename(self.dir))
        self.begin(name, WATCHDOG_USEC="400000")
        self.messages(manager, "READY=1")
        began = time.monotonic()
        for _ in range(3):
            self.messages(manager, "WATCHDOG=1")
        self.assertLess(time.monotonic() - began, 10, "more often than /livez needs it")
        with open(f"/proc/{self.server.pid}/task/{self.server.pid}/children", encoding="ascii") as f:
            children = f.read().split()
        broker = [int(pid) for pid in children if "cloister-broker" in open(f"/proc/{pid}/cmdline", encoding="utf-8").read()][0]
        os.kill(broker, signal.SIGSTOP)
        manager.settimeout(2)
        with self.assertRaises(TimeoutError):
            for _ in range(20):  # those that were on their way
                manager.recv(4096)
        os.kill(broker, signal.SIGCONT)
        manager.settimeout(harness.PATIENCE)
        self.messages(manager, "WATCHDOG=1")

    def test_addresses(self):
        """One that cannot be used has a warning, and the server serves."""
        for name in ("relative", "/" + 200 * "x", "vsock:2:1234"):
            self.begin(name)
            self.wait_serving(self.server, self.log)
            self.assertTrue(harness.wait_until(lambda: "NOTIFY_SOCKET: not a unix socket" in self.log.text()), self.log.text())


if __name__ == "__main__":
    harness.main()
