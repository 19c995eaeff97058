"""Events: what cells, sessions and the owner have done, as JSON lines and as entries of journald; and traces."""

import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time

import harness
import http_upstream
import test_serve
from rawmcp import RawServer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
FORGED = 'MESSAGE=forged\\nCLOISTER_EVENT=forged\\n{"event":"forged"}\\n'
META = os.path.join(os.path.dirname(os.path.abspath(__file__)), "servers", "meta.py")


def in_mounts(script):
    """A command prefix: runs a script in a mount namespace of its own, then the command as the same user."""
    if harness.ROOT:
        return ("unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{script}; exec "$@"', "sh")
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
            f'{script}; exec unshare --user --map-user={os.getuid()} --map-group={os.getgid()} -- "$@"', "sh")


class Events(harness.Case):
    def serve(self, *args, **config):
        server = RawServer("--config", self.config(**config), "--log-format", "json", "--log-level", "info", *args, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    @staticmethod
    def events(log, kind=None):
        found = [json.loads(line) for line in log.splitlines()]
        return [line for line in found if "event" in line and kind in (None, line["event"])]

    def test_a_cell_and_its_session(self):
        server = self.serve(servers={"fix": harness.fixture()})
        code = "await tools['echo'](text='x')\ntry:\n    await tools['fail']()\nexcept ToolError:\n    pass"
        call = server.start_call(code, session="work")
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "ok")
        server.cell("1 / 0", session="work")
        server.cell("2", session="work", reset=True)
        server.close()
        found = self.events(server.log())
        kinds = [line["event"] for line in found]
        self.assertEqual(kinds, ["session.start", "cell.begin", "cell.end", "cell.begin", "cell.end", "session.end", "session.start",
                                 "cell.begin", "cell.end", "session.end"])
        begin, end = found[1], found[2]
        for line in begin, end:
            self.assertEqual([line[key] for key in ("level", "session", "client", "request", "cell")], ["info", "work", "raw", call.id, 1])
        self.assertEqual((begin["code_sha256"], begin["code_bytes"]), (hashlib.sha256(code.encode()).hexdigest(), len(code)))
        self.assertNotIn("code", begin)
        self.assertEqual((end["status"], end["state"], end["tools_total"]), ("ok", "new", 2))
        self.assertEqual([(t["server"], t["tool"], t["ok"]) for t in end["tools"]], [("fix", "echo", True), ("fix", "fail", False)])
        self.assertGreaterEqual(end["ms"], end["tools"][0]["ms"])
        self.assertGreater(end["memory_peak_bytes"], 1 << 20)
        self.assertGreaterEqual(end["cpu_ms"], 0)
        self.assertEqual((found[4]["status"], found[4]["state"]), ("error", "kept"))
        self.assertEqual([found[5]["reason"], found[9]["reason"]], ["reset", "stop"])
        self.assertNotIn("tools", found[4])

    def test_a_begin_without_an_end(self):
        """The server ends while a cell runs: a stop writes the end of the cell, kill -9 of the broker leaves a cell in doubt."""
        for how in "stop", "kill":
            server = self.serve()
            server.start_call("import time\ntime.sleep(60)", timeout=20)
            self.assertTrue(harness.wait_until(lambda s=server: self.events(s.log(), "cell.begin")))
            if how == "kill":
                broker, = [pid for pid, name in harness.descendants(server.process.pid).items() if "cloister-broker" in name]
                os.kill(broker, signal.SIGKILL)
                server.process.wait(harness.PATIENCE)
            else:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(harness.PATIENCE)
            ends = self.events(server.log(), "cell.end")
            self.assertEqual([(e["status"], e["state"]) for e in ends], [] if how == "kill" else [("killed", "lost")])
            self.assertEqual(len(self.events(server.log(), "session.end")), len(ends))
            self.assertEqual([(d["phase"], d["sessions"]) for d in self.events(server.log(), "drain")], [] if how == "kill" else [("stop", 1)])

    def test_what_is_told_of_the_code(self):
        code = "API_KEY='0123456789abcdef'\nprint(1)"
        server = self.serve(log_code="full")
        server.cell(code)
        server.cell("#" * 20000)
        # It takes effect at once.
        self.config(log_code="none")
        self.assertTrue(harness.wait_until(lambda: self.events(server.log(), "reload")))
        server.cell(code)
        server.close()
        full, long, none = self.events(server.log(), "cell.begin")
        self.assertEqual((full["code"], full["code_cut"]), (code.replace("0123456789abcdef", "***"), False))
        self.assertEqual((long["code_cut"], long["code_bytes"]), (True, 20000))
        self.assertLess(max(map(len, server.log().splitlines())), 8192)
        self.assertFalse({"code", "code_sha256", "code_bytes"} & set(none))
        (reload,) = self.events(server.log(), "reload")
        self.assertEqual((reload["what"], reload["ok"]), ("config", True))

    def test_nothing_below_the_level(self):
        server = self.serve("--log-level", "warning")
        server.cell("1")
        server.close()
        self.assertEqual(server.log(), "")

    def test_a_client_cannot_write_events(self):
        """Names and output with line breaks, quotes and controls: each line is one object, and the events are those of the server."""
        server = RawServer("--config", self.config(), "--log-format", "json", "--log-level", "info", cwd=self.dir)
        self.addCleanup(server.free)
        name = 'x"}\n{"event":"reload"}\x1b[2J\u202e'
        server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "0"}})
        server.request("tools/call", {"name": "run_python", "arguments": {"code": "/*\0" + "1"}}, identifier='a"\n\u202e}{').result()
        server.cell(f"import os, sys\nfor f in 1, 2:\n    os.write(f, {FORGED!r}.encode().decode('unicode_escape').encode())\n"
                    f"raise ValueError({name!r})")
        server.close()
        found = self.events(server.log())
        self.assertEqual([line["event"] for line in found], ["session.start", *2 * ("cell.begin", "cell.end"), "session.end"])
        # The hash is that of all bytes, and the id that of the client.
        self.assertEqual((found[1]["code_sha256"], found[1]["code_bytes"]), (hashlib.sha256(b"/*\0" + b"1").hexdigest(), 4))
        self.assertEqual(found[1]["request"], 'a"\n\u202e}{')
        self.assertIn('x"}\\x0a{"event"', found[1]["client"])
        self.assertNotIn("\x1b", server.log())
        self.assertNotIn("\u202e", server.log())

    def test_a_full_disk(self):
        """Lines that cannot be written are counted, and the log says how many, once it has space again."""
        disk = self.path("disk")
        os.mkdir(disk)
        fill = os.path.join(disk, "fill")
        prefix = in_mounts(f'mount -t tmpfs -o size=64k,mode=1777 none "{disk}"')
        server = RawServer("--config", self.config(), "--log-format", "json", "--log-level", "info", "--log-file",
                           os.path.join(disk, "log"), cwd=self.dir, prefix=prefix)
        self.addCleanup(server.free)
        server.initialize()
        server.cell("1")
        root = f"/proc/{server.process.pid}/root"
        self.assertTrue(harness.wait_until(lambda: os.path.exists(root + os.path.join(disk, "log"))))
        # The monitor writes what the broker has told it, a little later: until three cells have lost their lines.
        size, lost = lambda: os.path.getsize(root + os.path.join(disk, "log")), 0
        with open(root + fill, "wb", buffering=0) as f:
            for i in range(200):
                try:
                    while True:
                        f.write(bytes(512))
                except OSError:
                    before = size()
                self.assertEqual(server.cell(f"{i}")["status"], "ok")
                time.sleep(0.5)
                lost += size() == before
                if lost == 3:
                    break
        self.assertEqual(lost, 3, size())
        os.unlink(root + fill)
        read = lambda: open(root + os.path.join(disk, "log"), encoding="utf-8").read()
        told = lambda: server.cell("2")["status"] == "ok" and "lines of the log could not be written" in read()
        self.assertTrue(harness.wait_until(told, step=0.1), read()[-2000:])
        # A line that was written in part does not mix with another one.
        lines = read().splitlines()
        bad = [line for line in lines if not line.endswith("}")]
        self.assertLessEqual(len(bad), 1)
        self.assertTrue(self.events("\n".join(line for line in lines if line not in bad), "cell.end"))
        server.close()


class Journald:
    """Takes datagrams as journald does, at a socket in a folder."""

    def __init__(self, folder, reads=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(os.path.join(folder, "socket"))
        os.chmod(os.path.join(folder, "socket"), 0o666)
        self.entries = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        if reads:
            self.reader.start()

    def read(self):
        while data := self.socket.recv(1 << 20):
            if data == b"end":
                return
            self.entries.append(self.parse(data))

    @staticmethod
    def parse(data):
        """The rules of the protocol: NAME=value, or NAME, the length as eight bytes, value; each with a newline."""
        entry, at = {}, 0
        while at < len(data):
            end = data.index(b"\n", at)
            name, equals, value = data[at:end].partition(b"=")
            at = end + 1
            if not equals:
                size = int.from_bytes(data[at:at + 8], "little")
                value = data[at + 8:at + 8 + size]
                at += 8 + size + 1
            assert name.isascii() and name.decode().replace("_", "A").isalnum() and name.isupper(), name
            assert name.decode() not in entry, name
            entry[name.decode()] = value.decode()
        return entry

    def of(self, kind):
        return [e for e in self.entries if e.get("CLOISTER_EVENT") == kind]

    def close(self):
        if self.reader.is_alive():
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender.sendto(b"end", self.socket.getsockname())
            sender.close()
            self.reader.join(harness.PATIENCE)
        self.socket.close()


class Journal(harness.Case):
    def serve(self, *args, reads=True, stream=None, **config):
        folder = self.path("journal")
        os.mkdir(folder)
        self.journald = Journald(folder, reads)
        self.addCleanup(self.journald.close)
        prefix = in_mounts(f'mount -t tmpfs none /run; mkdir -p /run/systemd/journal; mount --bind "{folder}" /run/systemd/journal')
        server = RawServer.__new__(RawServer)
        log = harness.Log()
        st = os.fstat(log.fileno())
        env = harness.environment(JOURNAL_STREAM=stream or f"{st.st_dev}:{st.st_ino}")
        made = subprocess.Popen

        def popen(command, stderr, **rest):
            command = [word for word in command if word not in ("--log-format", "text")]
            return made(command, stderr=log, **rest)

        subprocess.Popen = popen
        try:
            server.__init__("--config", self.config(**config), *args, cwd=self.dir, prefix=prefix, env=env)
        finally:
            subprocess.Popen = made
        server.stderr.close()
        server.stderr = log
        self.addCleanup(server.free)
        server.initialize()
        return server

    def test_entries(self):
        server = self.serve("--log-level", "info", log_code="full", servers={"fix": harness.fixture()}, timeuot=3)
        code = f"import os\nos.write(2, b'{FORGED}')\nawait tools['echo'](text='x')"
        call = server.start_call(code, session="work", meta={"traceparent": PARENT})
        self.assertEqual(call.result(harness.PATIENCE)["structuredContent"]["status"], "ok")
        # An error is not printed besides.
        self.write("config.json", "{")
        self.assertTrue(harness.wait_until(lambda: any(e["PRIORITY"] == "3" for e in self.journald.entries)))
        server.close()
        self.assertEqual(server.log(), "")
        begin, = self.journald.of("cell.begin")
        end, = self.journald.of("cell.end")
        for entry in begin, end:
            self.assertEqual([entry[key] for key in ("PRIORITY", "SYSLOG_IDENTIFIER", "CLOISTER_SESSION", "CLOISTER_REQUEST", "CLOISTER_CELL",
                                                     "CLOISTER_TRACE_ID")], ["6", "cloister", "work", str(call.id), "1", TRACE])
            self.assertRegex(entry["MESSAGE_ID"], "^[0-9a-f]{32}$")
        self.assertEqual((begin["MESSAGE"], begin["CLOISTER_CODE"]), ("cell begins", code))
        self.assertRegex(end["MESSAGE"], "^cell ended: ok in")
        self.assertEqual(json.loads(end["CLOISTER_TOOLS"])[0]["tool"], "echo")
        tool, = [e for e in self.journald.entries if e["MESSAGE"].startswith("call succeeded")]
        self.assertEqual((tool["CLOISTER_SERVER"], tool["CLOISTER_TOOL"]), ("fix", "echo"))
        # The monitor writes its own.
        warned, = [e for e in self.journald.entries if "timeuot" in e["MESSAGE"]]
        self.assertEqual(warned["PRIORITY"], "4")
        self.assertNotIn("forged", [value for e in self.journald.entries for value in e.values()])
        self.assertEqual(len({e["MESSAGE_ID"] for e in self.journald.entries if "MESSAGE_ID" in e}), 5)  # and that of the config that was refused

    def test_another_stream(self):
        """A stream that is not standard error is not ours: lines go there as before."""
        server = self.serve("--log-level", "info", stream="1:1")
        server.cell("1")
        server.close()
        self.assertEqual(self.journald.entries, [])
        self.assertIn('"event":"cell.end"', server.log())

    def test_a_journald_that_does_not_read(self):
        """No call waits for it. Lost entries are counted, and journald gets their number when it reads again."""
        server = self.serve("--log-level", "info", reads=False)
        for i in range(400):
            self.assertEqual(server.cell(f"{i}")["status"], "ok")
        self.journald.reader.start()
        told = lambda: [e for e in self.journald.entries if "could not be written" in e["MESSAGE"]]
        self.assertTrue(harness.wait_until(lambda: server.cell("1")["status"] == "ok" and told()))
        self.assertGreater(int(told()[0]["MESSAGE"].split()[0]), 100)
        server.close()

    def test_a_journald_that_has_ended(self):
        server = self.serve("--log-level", "info")
        server.cell("1")
        self.journald.close()
        self.assertEqual(server.cell("2")["status"], "ok")
        self.assertEqual(server.close(), 0)

    def test_no_socket(self):
        log = harness.Log()
        self.addCleanup(log.close)
        st = os.fstat(log.fileno())
        env = harness.environment(JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
        prefix = in_mounts("mount -t tmpfs none /run")
        for more, status in ((), 0), (("--log-format", "journal"), 1):
            done = subprocess.run([*prefix, harness.CLOISTER, "mcp", "--config", self.config(), *more], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=log, env=env, cwd=self.dir, timeout=harness.PATIENCE, check=False)
            self.assertEqual(done.returncode, status, log.text())
        lines = log.text().splitlines()
        self.assertIn("cloister: warning: connect to journald at /run/systemd/journal/socket: No such file or directory", lines[0])
        self.assertIn("cloister: error: --log-format journal: connect to journald", lines[-1])
        done = self.run_cloister("mcp", "--log-format", "journal", "--log-file", self.path("x"))
        self.assertIn(b"--log-format journal: only without --log-file", done.stderr)


class Service(test_serve.Serve):
    """Over HTTP, with tokens and the owner's commands."""

    TOKENS = {"alice": "a" * 20, "bob": "b" * 20}

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.put_tokens(*self.TOKENS)
        self.far = http_upstream.Server()
        self.addCleanup(self.far.end)
        self.log_path = self.path("log")
        self.config(servers={"meta": {"command": harness.PYTHON, "args": [META]}, "far": {"url": self.far.url("json")}}, log_level="info")
        self.config = lambda **rest: self.path("config.json")
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log_path)

    def put_tokens(self, *names):
        with open(self.tokens + ".new", "w", encoding="utf-8") as f:
            f.writelines(f"{name} {self.TOKENS[name]}\n" for name in names)
        os.chmod(self.tokens + ".new", stat.S_IRUSR | stat.S_IWUSR)
        os.rename(self.tokens + ".new", self.tokens)

    def events(self, kind):
        with open(self.log_path, encoding="utf-8") as f:
            return Events.events(f.read(), kind)

    def wait_events(self, kind, n=1):
        self.assertTrue(harness.wait_until(lambda: len(self.events(kind)) >= n), kind)
        return self.events(kind)

    def call(self, code, name="alice", meta=(), **rest):
        headers = {"Authorization": f"Bearer {self.TOKENS[name]}", **rest}
        sent = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": code, "session": "work"}}, meta=meta, **headers)
        return sent.response().json()["result"]["structuredContent"]

    def test_principals_tokens_and_the_owner(self):
        self.assertEqual(self.call("1")["status"], "ok")
        begin, = self.wait_events("cell.begin")
        self.assertEqual([begin[key] for key in ("principal", "session", "client", "request", "cell")], ["alice", "work", "raw", 1, 1])
        for header in {}, {"Authorization": "Bearer " + "c" * 20}:
            self.assertEqual(self.connect().modern("tools/list", **header).response().status, 401)
        refused = self.wait_events("token.refused", 2)
        self.assertEqual([(e["reason"], e["status"]) for e in refused], [("missing", 401), ("unknown", 401)])
        self.put_tokens("alice")
        reload, = self.wait_events("reload")
        self.assertEqual((reload["what"], reload["ok"]), ("tokens", True))
        self.put_tokens()
        with open(self.tokens, "w", encoding="utf-8") as f:
            f.write("alice short\n")
        self.assertTrue(harness.wait_until(lambda: not self.events("reload")[-1]["ok"]))
        self.assertNotIn("short", open(self.log_path, encoding="utf-8").read())
        done = self.run_cloister("sessions", "end", "alice:work")
        self.assertEqual(done.returncode, 0, done.stderr)
        owner = self.wait_events("owner")[-1]
        self.assertEqual([owner[key] for key in ("principal", "session", "command", "ok")], ["alice", "work", "sessions/end", True])
        self.assertEqual(self.wait_events("session.end")[0]["reason"], "owner")

    def test_traces(self):
        both = "r = await mcp_meta.meta()\nawait mcp_far.echo(value='x')\nr"
        state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
        seen = lambda: [h for _, method, h in self.far.state.seen["json"] if method == "tools/call"][-1]
        # _meta comes before the header, and the header without it.
        other = TRACE[::-1]
        for meta, header, trace in (
                ({"traceparent": PARENT, "tracestate": state}, f"00-{other}-00f067aa0ba902b7-00", TRACE),
                ({}, f"00-{other}-00f067aa0ba902b7-00", other)):
            got = self.call(both, meta=meta, traceparent=header, tracestate=state)["value"]["json"]
            version, of, span, flags = got["traceparent"].split("-")
            self.assertEqual((version, of, flags, got["tracestate"]), ("00", trace, PARENT[-2:] if meta else "00", state))
            self.assertRegex(span, "^[0-9a-f]{16}$")
            self.assertNotEqual(span, "00f067aa0ba902b7")
            headers = {k.lower(): v for k, v in seen().items()}
            self.assertEqual((headers["traceparent"][:36], headers["tracestate"]), (f"00-{trace}-", state))
            self.assertNotEqual(headers["traceparent"], got["traceparent"])
        self.assertEqual([e["trace_id"] for e in self.wait_events("cell.end", 2)], [TRACE, other])
        # Bad values are as good as none, and the call is made.
        for bad in (PARENT.upper(), PARENT[:-1], PARENT + "x", "00-" + "0" * 32 + PARENT[35:], "ff" + PARENT[2:], "x" * (1 << 20), 7, ["x"],
                    PARENT + "\r\nX: y"):
            got = self.call("await mcp_meta.meta()", meta={"traceparent": bad, "tracestate": "y" * (1 << 20)})
            self.assertEqual((got["status"], "traceparent" in got["value"]["json"]), ("ok", False), repr(bad)[:80])
        got = self.call(both, meta={"traceparent": PARENT, "tracestate": "a=1\r\nX-Evil: 1"})["value"]["json"]
        self.assertEqual((got["traceparent"][:36], "tracestate" in got), (f"00-{TRACE}-", False))
        self.assertNotIn("X-Evil", seen())


if __name__ == "__main__":
    harness.main()
