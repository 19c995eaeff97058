"""Access to `cloister serve`: hosts and origins that are allowed, sockets of systemd, users of a unix socket, tokens that change,
--attest."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import harness
from test_serve import Connection, Serve

URI = "cloister://attestation"


def value(answer):
    return answer.json()["result"]["structuredContent"]


def sessions(case):
    listed = harness.message_of(case.run_cloister("sessions", "--json").stdout)
    return [s["name"] for server in listed for s in server["sessions"]]


class Names(Serve):
    ARGUMENTS = ("--listen", "127.0.0.1:0", "--allow-host", "mcp.example.org", "--allow-host", "[2001:db8::1]",
                 "--allow-origin", "https://app.example.org")

    def test_hosts(self):
        for host in ("mcp.example.org", "mcp.example.org:443", "MCP.Example.ORG", "[2001:db8::1]:8808", "localhost"):
            self.assertEqual(self.status(host=host), 200, host)
        for host in ("example.org", "mcp.example.org.evil.example", "x.mcp.example.org", "2001:db8::1"):
            self.assertEqual(self.status(host=host), 403, host)

    def test_origins(self):
        for origin in ("https://app.example.org", "http://localhost:1"):
            self.assertEqual(self.status(headers={"Origin": origin}), 200, origin)
        for origin in ("http://app.example.org", "https://app.example.org:444", "https://mcp.example.org", "https://app.example.org.evil.example"):
            self.assertEqual(self.status(headers={"Origin": origin}), 403, origin)
        # An allowed origin opens no other host.
        self.assertEqual(self.status(headers={"Origin": "https://app.example.org"}, host="app.example.org"), 403)

    def test_control(self):
        """Without the options neither is served."""
        self.start("--listen", "127.0.0.1:0")
        self.assertEqual(self.status(host="mcp.example.org"), 403)
        self.assertEqual(self.status(headers={"Origin": "https://app.example.org"}), 403)
        self.assertEqual(self.status(), 200)


class Inherited(Serve):
    """Sockets that systemd passes."""

    def setUp(self):
        harness.Case.setUp(self)

    def inherit(self, *sockets):
        """Starts a server with these as descriptors 3 and up; returns it and its log."""
        def prepare():
            high = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 50) for s in sockets]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
        log = harness.Log()
        process = subprocess.Popen(["/bin/sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", harness.CLOISTER, "serve", "--config", self.config()],
                                   stdin=subprocess.DEVNULL, stderr=log, env=harness.environment(LISTEN_FDS=str(len(sockets))),
                                   cwd=self.dir, close_fds=False, preexec_fn=prepare)
        return process, log

    def test_tcp_and_unix(self):
        path = self.path("inherited.sock")
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
            local.bind(path)
            os.chmod(path, 0o666)
            local.listen()
            process, log = self.inherit(tcp, local)
            self.addCleanup(self.stop, process, log)
            self.wait_serving(process, log, 2)
            for address in (tcp.getsockname(), path):
                self.assertEqual(self.value(self.connect(address).call("6 * 7")), 42)

    def test_what_is_refused(self):
        with socket.create_server(("0.0.0.0", 0)) as others, socket.socket() as closed:
            for one, part in ((others, "--tokens FILE is needed"), (closed, "is not a listening socket")):
                process, log = self.inherit(one)
                self.assertEqual(process.wait(harness.PATIENCE), 1)
                self.assertIn(part, log.text())

    def test_names_that_match_nothing(self):
        for option, name in (("--allow-host", "https://mcp.example.org"), ("--allow-host", "mcp.example.org:443"), ("--allow-host", "*"),
                             ("--allow-host", "::1"), ("--allow-origin", "app.example.org"), ("--allow-origin", "*"),
                             ("--allow-origin", "https://app.example.org/"), ("--allow-origin", "null")):
            done = self.run_cloister("serve", "--listen", "127.0.0.1:0", option, name, "--config", self.config(), timeout=10)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{option} {name}: ".encode(), done.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = self.run_cloister("serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--config", self.config())
            self.assertIn(b"the port is in use: end the program", done.stderr)

    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd-socket-activate is not installed")
    def test_systemd(self):
        path, log = self.path("systemd.sock"), harness.Log()
        env = harness.environment()
        # It passes few variables on by itself: without the others root's server would use the machine's image store.
        process = subprocess.Popen(["systemd-socket-activate", "-l", path, *(f"--setenv={name}" for name in env),
                                    harness.CLOISTER, "serve", "--config", self.config()],
                                   stdin=subprocess.DEVNULL, stderr=log, env=env, cwd=self.dir)
        self.addCleanup(self.stop, process, log)
        found = []

        def connected():
            """The socket is there a moment before it listens."""
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                found.append(self.connect(path))
            return found

        self.assertTrue(harness.wait_until(connected))
        self.assertEqual(self.value(found[0].call("6 * 7")), 42)


class Users(Serve):
    """The users of a unix socket."""

    def setUp(self):
        harness.Case.setUp(self)
        self.place = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.place)
        os.chmod(self.place, 0o755)
        self.socket = f"{self.place}/mcp.sock"
        self.server = self.start("--listen", f"unix:{self.socket}")

    def connect_as(self, uid, address=None):
        """A connection that another user has made."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                with contextlib.suppress(OSError):
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                    mine = socket.socket(socket.AF_UNIX if isinstance(address or "", str) else socket.AF_INET)
                    mine.connect(address or self.socket)
                    socket.send_fds(theirs, [b"x"], [mine.fileno()])
                os._exit(0)
            theirs.close()
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
            os.waitpid(pid, 0)
        if not fds:
            return None
        connection = Connection.__new__(Connection)
        connection.socket = socket.socket(fileno=fds[0])
        connection.socket.settimeout(harness.PATIENCE)
        connection.file = connection.socket.makefile("rb")
        self.addCleanup(connection.close)
        return connection

    def test_own_user(self):
        c = self.connect(self.socket)
        self.assertEqual(self.value(c.call("x = 5\nx", session="work")), 5)
        self.assertEqual(self.value(self.connect(self.socket).call("x + 1", session="work")), 6)
        self.assertIn(f"uid-{os.getuid()}:work", sessions(self))

    @unittest.skipUnless(harness.ROOT, "needs other uids")
    def test_two_users(self):
        self.assertIsNone(self.connect_as(4301))  # mode 0600
        os.chmod(self.socket, 0o666)
        first, second = self.connect_as(4301), self.connect_as(4302)
        whole = value(first.call("secret = 1\nprint('z' * 50000)", session="work").response())
        self.assertEqual(whole["status"], "ok")
        self.assertEqual(value(second.call("secret", session="work").response())["status"], "error")
        self.assertEqual(value(self.connect(self.socket).call("secret", session="work").response())["status"], "error")
        # The user, and not the connection, has the session.
        self.assertEqual(self.value(self.connect_as(4301).call("secret", session="work")), 1)
        uri = whole["truncated"]["resource"]
        self.assertIn("result", self.connect_as(4301).modern("resources/read", {"uri": uri}).response().json())
        self.assertIn("error", second.modern("resources/read", {"uri": uri}).response().json())
        # The second user cannot use the first user's session of the legacy protocol either.
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        session = self.initialize(first)
        self.assertEqual(second.post(ping, Mcp_Session_Id=session).response().status, 404)
        self.assertEqual(self.connect_as(4301).post(ping, Mcp_Session_Id=session).response().status, 200)

    @unittest.skipUnless(harness.ROOT, "needs other uids")
    def test_control_tcp(self):
        """On TCP the server cannot distinguish the users of a machine: they are one principal."""
        self.start("--listen", "127.0.0.1:0")
        address = self.address
        self.assertEqual(self.value(self.connect_as(4301, address).call("x = 7\nx", session="work")), 7)
        self.assertEqual(self.value(self.connect_as(4302, address).call("x", session="work")), 7)

    @unittest.skipUnless(harness.ROOT, "needs other uids")
    def test_unknown_users(self):
        """All uids without a mapping have the same number in a user namespace: such a client is refused."""
        os.chmod(self.socket, 0o666)
        c = self.connect_as(65534)
        with contextlib.suppress(ConnectionError):
            c.call("1")
            self.assertEqual(c.file.read(), b"")
        self.assertEqual(self.value(self.connect_as(65533).call("1")), 1)

    @unittest.skipUnless(harness.ROOT, "needs other uids")
    def test_many_users(self):
        os.chmod(self.socket, 0o666)
        own = self.connect(self.socket)
        self.assertEqual(own.request("GET", "/healthz").response().status, 200)
        for uid in range(5000, 5063):
            self.assertEqual(self.connect_as(uid).request("GET", "/healthz").response().status, 200)
        c = self.connect_as(5063)
        with contextlib.suppress(ConnectionError):
            c.request("GET", "/healthz")
            self.assertEqual(c.file.read(), b"")
        self.assertEqual(self.connect_as(5000).request("GET", "/healthz").response().status, 200)

    def test_with_tokens_the_token_counts(self):
        tokens = self.write("tokens", "alice alice-alice-alice-1\n")
        os.chmod(tokens, 0o600)
        path = f"{self.place}/tokens.sock"
        self.start("--listen", f"unix:{path}", "--tokens", tokens)
        self.assertEqual(self.connect(path).modern("tools/list").response().status, 401)
        self.assertEqual(self.connect(path).modern("tools/list", Authorization="Bearer alice-alice-alice-1").response().status, 200)

    def test_the_helper_ends(self):
        """The helper ends with its server, and the server ends with the helper."""
        helper = next(pid for pid, name in harness.descendants(self.server.pid).items() if name == "cloister")
        os.kill(helper, signal.SIGKILL)
        self.assertEqual(self.server.wait(harness.PATIENCE), 1)
        server = self.start("--listen", f"unix:{self.socket}")
        helper = next(pid for pid, name in harness.descendants(server.pid).items() if name == "cloister")
        status = open(f"/proc/{helper}/status", encoding="ascii").read()
        self.assertRegex(status, r"CapEff:\t0{16}\n")
        self.assertRegex(status, r"NoNewPrivs:\t1\n")
        server.kill()
        server.wait()
        self.assertTrue(harness.wait_until(lambda: not harness.alive(helper)))

    def stop(self, process, log):
        if process.poll() is None:
            super().stop(process, log)


class TokenFile(Serve):
    """A server with a file of tokens."""
    ALICE, BOB, LATER = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2", "later-later-later-3"

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.put(f"alice {self.ALICE}\nbob {self.BOB}\n")
        self.log = self.path("log")
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log, "--log-level", "info")

    def put(self, text, mode=0o600):
        """Replaces the file by a new one, as editors do."""
        new = self.write("new", text)
        os.chmod(new, mode)
        os.rename(new, self.tokens)

    def logged(self, part):
        def there():
            with contextlib.suppress(FileNotFoundError), open(self.log, encoding="utf-8") as f:
                return part in f.read()
            return False
        self.assertTrue(harness.wait_until(there), part)

    def call(self, token, code, **arguments):
        return self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": code, **arguments}}, Authorization=f"Bearer {token}")

    def status_of(self, token):
        return self.connect().modern("tools/list", Authorization=f"Bearer {token}").response().status


class Tokens(TokenFile):
    """The file of tokens, changed while the server runs."""

    def listen(self, token):
        """A stream of notifications."""
        answer = self.connect().modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, Authorization=f"Bearer {token}").response()
        events = answer.events()
        self.assertEqual(next(events)[1]["method"], "notifications/subscriptions/acknowledged")
        return events, answer

    def is_open(self, answer):
        answer.stream.raw._sock.setblocking(False)
        try:
            return answer.stream.raw._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except ConnectionError:
            return False

    def test_a_token_that_is_gone(self):
        self.assertEqual(self.value(self.call(self.BOB, "x = 1\nx", session="work")), 1)
        self.assertEqual(self.value(self.call(self.ALICE, "x = 2\nx", session="work")), 2)
        _, alice = self.listen(self.ALICE)
        _, bob = self.listen(self.BOB)
        legacy = self.connect()
        session = self.initialize(legacy, Authorization=f"Bearer {self.BOB}")
        stream = self.connect().request("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": session,
                                                         "Authorization": f"Bearer {self.BOB}"}).response()
        next(stream.events())
        running = self.call(self.BOB, "import time\ntime.sleep(60)", session="long")
        half = self.connect()
        half.send(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {self.BOB}\r\n"
                  "Content-Length: 1000\r\n\r\n{")
        self.put(f"alice {self.ALICE}\nlater {self.LATER}\n")
        self.logged("bob: the token was removed")
        self.assertEqual(self.status_of(self.BOB), 401)
        self.assertEqual(self.status_of(self.LATER), 200)
        # Bob's connections were closed; alice's connection stays open.
        for c in (bob.stream, running.file, half.file):
            with contextlib.suppress(ConnectionError):
                self.assertEqual(c.read(), b"")
        self.assertEqual(list(stream.events()), [])
        self.assertTrue(self.is_open(alice))
        self.assertEqual(self.value(self.call(self.ALICE, "x", session="work")), 2)
        self.assertTrue(harness.wait_until(lambda: [n for n in sessions(self) if n.startswith("bob:")] == []), sessions(self))
        self.assertIn("alice:work", sessions(self))
        # A new principal named bob has no access to the first bob's sessions.
        self.put(f"alice {self.ALICE}\nbob {self.LATER}\n")
        self.logged("later: the token was removed")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.BOB) == 401 and self.status_of(self.LATER) == 200))
        self.assertEqual(value(self.call(self.LATER, "x", session="work").response())["status"], "error")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        self.assertEqual(self.connect().post(ping, Mcp_Session_Id=session, Authorization=f"Bearer {self.LATER}").response().status, 404)

    def test_what_is_kept_for_a_name(self):
        """A name that comes back is another principal: nothing that the first has left is found, also what ends later."""
        self.assertIn("kept", value(self.call(self.BOB, "print('bob-first ' + 'x' * 40000)\n'kept'", session="work").response())["value"]["repr"])
        uri = "cloister://sessions/work/cells/1/stdout"
        self.assertEqual(value(self.call(self.BOB, "print('bob-late')", session="kept", wait=0).response())["status"], "running")
        self.assertEqual(value(self.call(self.BOB, "import time\nprint('bob-later', flush=True)\ntime.sleep(60)", session="long", wait=0).response())["status"], "running")
        # The control: it is found as long as the name has its token.
        read = {"uri": uri}
        self.assertIn("first", json.dumps(self.connect().modern("resources/read", read, Authorization=f"Bearer {self.BOB}").response().json()))
        self.put(f"alice {self.ALICE}\n")
        self.logged("bob: the token was removed")
        self.put(f"alice {self.ALICE}\nbob {self.LATER}\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.LATER) == 200))
        answers = [self.connect().modern("resources/read", read, Authorization=f"Bearer {self.LATER}").response().json()]
        for name in ("kept", "long", "work"):
            answers.append(self.connect().modern("tools/call", {"name": "run_python", "arguments": {"session": name, "wait": 2}},
                                                  Authorization=f"Bearer {self.LATER}").response().json())
            answers.append(self.call(self.LATER, "1", session=name).response().json())
        for answer in answers:
            self.assertNotRegex(json.dumps(answer), "bob-(first|late)")
        self.assertTrue(harness.wait_until(lambda: [n for n in sessions(self) if n.startswith("bob:")] == []), sessions(self))
        self.assertIn("bob.2:work", sessions(self))

    def test_a_profile_that_is_taken_away(self):
        """The sessions under it end; the next call, a reset and a branch get the new one."""
        self.server.terminate()
        self.server.wait(harness.PATIENCE)
        self.put(f"alice {self.ALICE} profile=wide\nbob {self.BOB}\n")
        config = self.config(name="profiles.json", profiles={"narrow": {}, "wide": {"network": "loopback"}, "free": {"agent": True}})
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log, "--log-level", "info", "--config", config)
        probe = "import socket\ntry: kind = bool(socket.socket(socket.AF_INET))\nexcept OSError: kind = False\nkind"
        for name in ("live", "again", "other"):
            self.assertEqual(self.value(self.call(self.ALICE, probe, session=name)), True)
        self.assertEqual(self.value(self.call(self.ALICE, "1", session="free", profile="free")), 1)
        self.put(f"alice {self.ALICE} profile=narrow\nbob {self.BOB}\n")
        self.logged("alice: the profile is another one")
        answer = value(self.call(self.ALICE, probe, session="live").response())
        self.assertEqual((answer["value"]["json"], answer["state"]), (False, "new"), answer)
        self.assertIn('the profile "wide" is not allowed any more', answer["notice"])
        self.assertEqual(self.value(self.call(self.ALICE, probe, session="again", reset=True)), False)
        self.assertEqual(value(self.call(self.ALICE, probe, **{"from": "other", "session": "copy"}).response())["status"], "error")
        # A session under a profile that an agent may choose continues.
        self.assertIn("alice:free", sessions(self))

    def test_a_profile_that_the_config_takes_away(self):
        """The sessions of each principal end that are under a profile which the new config does not let it use."""
        self.server.terminate()
        self.server.wait(harness.PATIENCE)
        self.put(f"alice {self.ALICE} profile=wide\nbob {self.BOB}\n")
        profiles = {"narrow": {}, "wide": {"network": "loopback"}, "free": {"agent": True}}
        config = self.config(name="profiles.json", profiles=profiles, profile="narrow")
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log, "--log-level", "info", "--config", config)
        for token, name, profile in ((self.ALICE, "own", None), (self.ALICE, "free", "free"), (self.BOB, "own", None), (self.BOB, "free", "free")):
            self.assertEqual(self.value(self.call(token, "x = 1\nx", session=name, **({"profile": profile} if profile else {}))), 1)
        self.config(name="new.json", profiles={**profiles, "free": {}}, profile="narrow")
        os.rename(self.path("new.json"), config)
        self.logged("config was reloaded")
        self.assertTrue(harness.wait_until(lambda: not {"alice:free", "bob:free"} & set(sessions(self))), sessions(self))
        answer = value(self.call(self.BOB, "1", session="free").response())
        self.assertIn('the profile "free" is not allowed any more', answer["notice"])
        self.assertEqual([self.value(self.call(token, "x", session="own")) for token in (self.ALICE, self.BOB)], [1, 1])
        # A token that loses its profile gets the config's default, not what it had.
        self.put(f"alice {self.ALICE}\nbob {self.BOB}\n")
        self.logged("alice: the profile is another one")
        self.assertTrue(harness.wait_until(lambda: "alice:own" not in sessions(self)), sessions(self))

    def test_a_profile_that_goes_during_a_request(self):
        """Of a token whose profile the config has no more, a request that has begun ends too: it would get the default's rights."""
        self.server.terminate()
        self.server.wait(harness.PATIENCE)
        self.put(f"alice {self.ALICE} profile=less\nbob {self.BOB}\n")
        config = self.config(name="profiles.json", profiles={"usual": {}, "less": {}}, profile="usual")
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log, "--log-level", "info", "--config", config)
        begun = []
        for token in (self.ALICE, self.BOB):
            c, sent = self.connect(), []
            c.send, send = sent.append, c.send
            c.modern("tools/call", {"name": "run_python", "arguments": {"code": "6 * 7"}}, Authorization=f"Bearer {token}")
            send(sent[0][:-5])
            begun.append((c, lambda send=send, rest=sent[0][-5:]: send(rest)))
        self.assertEqual([self.status_of(token) for token in (self.ALICE, self.BOB)], [200, 200])
        self.config(name="new.json", profiles={"usual": {}}, profile="usual")
        os.rename(self.path("new.json"), config)
        self.logged("config was reloaded")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.ALICE) == 403))
        with contextlib.suppress(ConnectionError):
            begun[0][1]()
            self.assertEqual(begun[0][0].response().status, 0)  # its end, without an answer
        # The control: a token without a profile.
        begun[1][1]()
        self.assertEqual(self.value(begun[1][0]), 42)

    def test_quotas_count_at_once(self):
        """calls= and sessions= of a line that is changed, for calls and sessions that there are already."""
        # Once the file has been read, which nothing else tells.
        self.put(f"alice {self.ALICE} sessions=3 calls=3\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.BOB) == 401))
        for i in range(3):
            self.assertEqual(self.value(self.call(self.ALICE, f"x = {i}\nx", session=f"s{i}")), i)
        number = iter(range(1000))

        def refused(part, session=None):
            """In a session that no call has named, unless one is given."""
            answer = json.dumps(self.call(self.ALICE, "1", session=session or f"new{next(number)}").response().json())
            return part in answer
        quota = "as many live sessions as your quota"
        self.assertTrue(refused(quota))
        self.put(f"alice {self.ALICE} sessions=2 calls=3\nbob {self.BOB}\nlater {self.LATER}\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.LATER) == 200))
        self.run_cloister("sessions", "end", "alice:s2")
        self.assertTrue(harness.wait_until(lambda: "alice:s2" not in sessions(self)))
        self.assertTrue(refused(quota))
        self.assertFalse(refused(quota, "s1"))
        self.put(f"alice {self.ALICE} sessions=3 calls=3\nbob {self.BOB}\n")
        self.assertTrue(harness.wait_until(lambda: not refused(quota, "third")))
        running = [self.call(self.ALICE, "import time\ntime.sleep(40)", session=f"s{i}") for i in range(2)]
        self.put(f"alice {self.ALICE} sessions=3 calls=2\nbob {self.BOB}\n")
        self.assertTrue(harness.wait_until(lambda: refused("too many calls", "third")))
        self.assertEqual(self.value(self.call(self.BOB, "1", session="s5")), 1)
        del running

    def test_the_file_is_not_mounted(self):
        """Not by the first config, and not by one that is read later, when the monitor has closed the file."""
        place = self.path("place")
        os.makedirs(place)
        with open(f"{place}/tokens", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(f"alice {self.ALICE}\n")
        mounted = {"mounts": [{"source": place, "target": "/data", "mode": "ro"}]}
        config = self.config(name="mounts.json", **mounted)
        self.start("--listen", "127.0.0.1:0", "--tokens", f"{place}/tokens", "--config", config)
        for name in ("first", "reloaded"):
            self.assertIn("(the tokens) is below it", value(self.call(self.ALICE, "1", session=name).response())["error"]["message"])
            # The control: it works without the mount; then the mount comes again.
            self.config(name="mounts.json")
            self.assertTrue(harness.wait_until(lambda: value(self.call(self.ALICE, "1", session="control").response())["status"] == "ok"))
            self.config(name="mounts.json", **mounted)
            refused = lambda: value(self.call(self.ALICE, "1", session="new", reset=True).response())["status"] == "error"
            self.assertTrue(harness.wait_until(refused))

    def test_another_token_for_a_name(self):
        self.assertEqual(self.value(self.call(self.BOB, "x = 1\nx", session="work")), 1)
        _, bob = self.listen(self.BOB)
        self.put(f"alice {self.ALICE}\nbob {self.LATER} calls=1\n")
        self.logged("bob: the token is another one")
        with contextlib.suppress(ConnectionError):
            self.assertEqual(bob.stream.read(), b"")
        self.assertEqual(self.status_of(self.BOB), 401)
        self.assertEqual(self.value(self.call(self.LATER, "x", session="work")), 1)

    def test_a_profile_that_the_config_does_not_have(self):
        """Its token is refused: with the default profile it would have more rights than its line allows."""
        self.put(f"alice {self.ALICE} profile=none\nbob {self.BOB}\n")
        self.logged('alice is refused: there is no profile \\"none\\"')
        self.assertEqual((self.status_of(self.ALICE), self.status_of(self.BOB)), (403, 200))
        done = self.run_cloister("serve", "--listen", "127.0.0.1:0", "--tokens", self.tokens, "--config", self.config())
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'alice: there is no profile \\"none\\" in the config', done.stderr)
        # Nothing is served: neither with a file of tokens nor with a config that is refused.
        self.assertNotIn(b"serving MCP", done.stderr)
        done = self.run_cloister("serve", "--listen", "127.0.0.1:0", "--config", self.config(sessions="many"))
        self.assertIn(b"sessions must be a whole number", done.stderr)
        self.assertNotIn(b"serving MCP", done.stderr)
        self.put(f"alice {self.ALICE} profile=default\nbob {self.BOB}\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.ALICE) == 200))

    def test_files_that_are_refused(self):
        for text, mode, part in ((f"alice {self.ALICE}\nbob\n", 0o600, "line 2: a token has"), (f"later {self.LATER}\n", 0o644, "others can read it")):
            self.put(text, mode)
            self.logged(part)
            self.assertEqual((self.status_of(self.ALICE), self.status_of(self.BOB), self.status_of(self.LATER)), (200, 200, 401))
        os.unlink(self.tokens)
        self.logged("No such file")
        self.assertEqual(self.status_of(self.BOB), 200)
        with open(self.log, encoding="utf-8") as f:
            text = f.read()
        self.assertNotIn(self.ALICE, text)
        # Written again, in place.
        self.put("# nobody\n")
        self.logged("alice: the token was removed")
        self.assertEqual((self.status_of(self.ALICE), self.status_of(self.BOB)), (401, 401))
        with open(self.tokens, "a", encoding="ascii") as f:
            f.write(f"alice {self.ALICE}\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.ALICE) == 200))


@harness.once
class Attest(Serve):
    ARGUMENTS = ("--listen", "127.0.0.1:0", "--attest")

    def config(self, *args, **entries):
        """On some processors code shares speculation: a server is attested only if the config allows that."""
        return super().config(*args, **{"speculation": "shared", **entries})

    def test_the_report_is_a_resource(self):
        c = self.connect()
        (content,) = c.modern("resources/read", {"uri": URI}).response().json()["result"]["contents"]
        self.assertEqual(harness.message_of(content["text"])["open"], 0)
        self.start("--listen", "127.0.0.1:0")
        self.assertEqual(self.connect().modern("resources/read", {"uri": URI}).response().json()["error"]["code"], -32602)


if __name__ == "__main__":
    harness.main()
