"""The server from the client's side: start, eras, malformed lines, and the many ways to end."""

import json
import os
import signal
import socket
import subprocess
import time

import harness
import rawmcp

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


class Start(harness.Case):
    """initialize and tools/list are answered at once, whatever the server is doing."""

    def first_answers(self, server):
        """Returns the seconds from start to the answers of initialize and tools/list."""
        begun = time.monotonic()
        with server() as running:
            running.initialize(timeout=10)
            initialized = time.monotonic() - begun
            running.ask("tools/list", timeout=10)
            return initialized, time.monotonic() - begun

    def assert_at_once(self, server):
        best = min(self.first_answers(server)[1] for _ in range(3))
        self.assertLess(best, harness.AT_ONCE)

    @harness.alone
    def test_with_no_server(self):
        config = self.config()
        self.assert_at_once(lambda: rawmcp.RawServer("--config", config))

    @harness.alone
    def test_with_hanging_and_slow_upstreams(self):
        servers = {f"h{i}": harness.fixture("--hang-start") for i in range(4)}
        servers["missing"] = {"command": "/no/such/command"}
        servers["silent"] = harness.fixture("--no-answer", "initialize")
        config = self.config(servers)
        self.assert_at_once(lambda: rawmcp.RawServer("--config", config))

    @harness.alone
    def test_with_no_image_built(self):
        stores = iter("abc")

        def server():
            store = self.path(next(stores))
            return rawmcp.RawServer("--config", self.config(), env=harness.environment(CLOISTER_IMAGE_STORE=store))

        self.assert_at_once(server)

    def test_with_home_alone(self):
        # Some clients pass little more than HOME and PATH. LD_LIBRARY_PATH is for programs that run-test has mounted elsewhere.
        names = ("HOME", "PATH", "CLOISTER_IMAGE_STORE", "LD_LIBRARY_PATH")
        env = {name: value for name, value in harness.environment().items() if name in names}
        with rawmcp.RawServer("--config", self.config(), env=env) as server:
            server.initialize()
            self.assertEqual(server.cell("1 + 1")["value"]["json"], 2)


class Eras(harness.Case):
    """The handshake."""

    def test_each_known_version_is_echoed(self):
        for version in VERSIONS:
            with self.subTest(version), rawmcp.RawServer("--config", self.config()) as server:
                result = server.initialize(version)
                self.assertEqual(result["protocolVersion"], version)
                self.assertIn("tools", result["capabilities"])
                self.assertEqual(result["serverInfo"]["name"], "cloister")
                self.assertEqual([t["name"] for t in server.ask("tools/list")["tools"]], ["run_python"])

    def test_unknown_versions_get_the_newest_we_know(self):
        for version in ("2026-07-28", "1999-01-01", ""):
            with self.subTest(version), rawmcp.RawServer("--config", self.config()) as server:
                self.assertEqual(server.initialize(version)["protocolVersion"], "2025-11-25")

    def test_a_discover_that_is_malformed_before_initialize(self):
        # A probe without the members that each modern request must have is refused at once; the fallback works.
        with rawmcp.RawServer("--config", self.config()) as server:
            start = time.monotonic()
            for params in (None, {}, {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}):
                with self.assertRaises(rawmcp.RpcError) as caught:
                    server.ask("server/discover", params)
                self.assertEqual(caught.exception.code, -32602)
            self.assertLess(time.monotonic() - start, harness.PATIENCE / 2)
            self.assertEqual(server.initialize()["protocolVersion"], "2025-11-25")

    def test_a_second_initialize(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            server.initialize()
            try:
                server.initialize()
            except rawmcp.RpcError:
                pass
            self.assertEqual(server.cell("1")["status"], "ok")


class Protocol(rawmcp.ServerCase):
    """Messages, well-formed and malformed."""

    def error(self, data, identifier=None):
        """Sends bytes and returns the error that is received for this id."""
        waiting = self.server.expect(identifier)
        self.server.send_bytes(data)
        return waiting.message(10)["error"]["code"]

    def test_ping(self):
        self.assertEqual(self.server.ask("ping"), {})

    def test_unknown_methods(self):
        for method in ("prompts/lists", "roots/list", "no/such", "", "tools/listx"):
            with self.subTest(method):
                with self.assertRaises(rawmcp.RpcError) as caught:
                    self.server.ask(method, timeout=5)
                self.assertEqual(caught.exception.code, -32601)

    def test_unknown_notifications_are_ignored(self):
        self.server.notify("notifications/no_such_thing", x=1)
        self.server.notify("notifications/cancelled")
        self.server.notify("notifications/initialized")
        self.assertEqual(self.server.ask("ping"), {})

    def test_answers_without_a_request_are_ignored(self):
        self.server.send({"jsonrpc": "2.0", "id": 991, "result": {}})
        self.server.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}})
        self.assertEqual(self.server.ask("ping"), {})

    def test_not_json(self):
        self.assertEqual(self.error(b"this is not json\n"), -32700)
        self.assertEqual(self.error(b'{"jsonrpc":"2.0","id":5,\n'), -32700)
        self.assertEqual(self.server.ask("ping"), {})

    def test_not_utf8(self):
        # The id can be parsed, so the error contains it.
        self.assertEqual(self.error(b'{"jsonrpc":"2.0","id":1,"method":"ping\xff\xfe"}\n', identifier=1), -32700)
        self.assertEqual(self.server.ask("ping"), {})

    def test_code_that_is_not_utf8(self):
        code = b'{"jsonrpc":"2.0","id":"u","method":"tools/call","params":{"name":"run_python","arguments":{"code":"\xff\xfe"}}}\n'
        self.assertEqual(self.error(code), -32700)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_not_a_request(self):
        for line in (b"5\n", b"null\n", b'"x"\n', b"{}\n", b'{"jsonrpc":"2.0"}\n', b'{"method":5,"id":null}\n'):
            with self.subTest(line):
                self.assertEqual(self.error(line), -32600)
        self.assertEqual(self.server.ask("ping"), {})

    def test_empty_lines_are_ignored(self):
        self.server.send_bytes(b"\n\r\n   \n")
        self.assertEqual(self.server.ask("ping"), {})

    def test_ids_are_given_back_as_they_came(self):
        for identifier in ("a string", 0, -5, 2**53, "漢"):
            self.assertEqual(self.server.request("ping", identifier=identifier).result(5), {})

    def test_wrong_params(self):
        for params in ([], {"name": 5}, {}):
            with self.subTest(params):
                with self.assertRaises(rawmcp.RpcError) as caught:
                    self.server.ask("tools/call", params)
                self.assertEqual(caught.exception.code, -32602)

    def test_two_members_of_one_name(self):
        call = '{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"run_python","arguments":{%s}}}'
        large = '"code":"1","x":"%s",' % ("x" * 300_000)
        for arguments in ('"code":"1","code":"2"', '"code":"1","co\\u0064e":"2"', '"code":"1","a":{"b":[{"c":1,"c":1}]}', large + '"code":"2"'):
            with self.subTest(arguments[:100]):
                waiting = self.server.expect("twice")
                self.server.send_bytes((call % arguments).replace("ID", '"twice"').encode() + b"\n")
                with self.assertRaises(rawmcp.RpcError) as caught:
                    waiting.result()
                self.assertEqual(caught.exception.code, -32602)
                self.assertIn("two members of an object are named", str(caught.exception))
        waiting = self.server.expect("once")
        self.server.send_bytes((call % '"code":"{\'code\': 1}"').replace("ID", '"once"').encode() + b"\n")
        self.assertEqual(waiting.result()["structuredContent"]["value"]["json"], {"code": 1})

    def test_arguments_that_are_no_object(self):
        for arguments in ([], 5, "code"):
            result = self.server.ask("tools/call", {"name": "run_python", "arguments": arguments})
            self.assertTrue(result["isError"])
            self.assertIn("arguments must be an object", self.text(result))

    def test_deep_nesting(self):
        waiting = self.server.expect(None)
        self.server.send_bytes(b'{"jsonrpc":"2.0","id":77,"method":"ping","params":' + b'{"a":' * 100000 + b"1" + b"}" * 100000 + b"}\n")
        other = self.server.expect(77)
        self.assertTrue(harness.wait_until(lambda: waiting.done() or other.done()))
        self.assertEqual(self.server.ask("ping"), {})

    def test_a_line_in_pieces(self):
        waiting = self.server.expect("pieces")
        for byte in b'{"jsonrpc":"2.0","id":"pieces","method":"ping"}\n':
            self.server.send_bytes(bytes([byte]))
        self.assertEqual(waiting.result(5), {})

    def test_many_requests_in_one_write(self):
        waiting = [self.server.expect(f"m{i}") for i in range(200)]
        self.server.send_bytes(b"".join(b'{"jsonrpc":"2.0","id":"m%d","method":"ping"}\n' % i for i in range(200)))
        for one in waiting:
            self.assertEqual(one.result(5), {})

    def test_a_line_without_end_is_bounded(self):
        # A separate server: the test may end it, and must not use the memory of the shared one.
        with rawmcp.RawServer("--config", os.path.join(self.class_dir, "config.json")) as server:
            server.initialize()
            chunk = b"x" * (1 << 20)
            try:
                for _ in range(200):
                    server.send_bytes(chunk)
            except BrokenPipeError:
                pass
            for pid in harness.descendants(server.process.pid):
                try:
                    with open(f"/proc/{pid}/status", encoding="ascii") as f:
                        size = next((int(line.split()[1]) for line in f if line.startswith("VmRSS")), 0)
                except OSError:
                    continue
                self.assertLess(size, (160 << 10) * harness.SANITIZED)

    def test_tools_list_is_byte_stable_and_small(self):
        first, second = (json.dumps(self.server.ask("tools/list")) for _ in range(2))
        self.assertEqual(first, second)
        tool = json.loads(first)["tools"][0]
        self.assertLess(len(tool["description"].encode()), 2048)
        self.assertEqual(sorted(tool["inputSchema"]["properties"]), ["branches", "check_only", "checkpoint", "code", "from", "interrupt", "max_output", "on_error", "reset", "restore", "session", "timeout", "wait"])
        self.assertNotIn("required", tool["inputSchema"])
        self.assertEqual(tool["outputSchema"]["type"], "object")
        self.assertTrue(tool["_meta"]["anthropic/alwaysLoad"])

    def test_instructions_say_when_to_use_the_tool(self):
        instructions = self.initialized["instructions"]
        self.assertLess(len(instructions), 4000)
        self.assertIn("run_python", instructions[:240])

    def test_annotations_without_any_upstream_are_harmless(self):
        annotations = self.server.ask("tools/list")["tools"][0]["annotations"]
        self.assertEqual((annotations["destructiveHint"], annotations["openWorldHint"], annotations["readOnlyHint"]), (False, False, False))

    def test_progress_every_five_seconds_if_there_is_a_token(self):
        before = len(self.server.notes)
        code = "import time\ntime.sleep(5.5)"
        without = self.server.start_call(code, session="no-token")
        call = self.server.start_call(code, meta={"progressToken": "p1"}, session=self.session)
        for each in (call, without):
            self.assertEqual(each.result(20)["structuredContent"]["status"], "ok")
        seen = [n["params"] for n in self.server.notes[before:] if n.get("method") == "notifications/progress"]
        self.assertGreaterEqual(len(seen), 1)
        self.assertEqual({n["progressToken"] for n in seen}, {"p1"})
        self.assertEqual([n["progress"] for n in seen], sorted({n["progress"] for n in seen}))

    def test_the_answer_fits_the_output_schema(self):
        schema = self.server.ask("tools/list")["tools"][0]["outputSchema"]
        codes = ["1", "1/0", "print('x' * 50000)", "import sys; sys.exit(4)", "def", "import os; os._exit(1)", "{1}"]
        for code in codes:
            cell = self.cell(code)
            missing = set(schema.get("required", ())) - set(cell)
            self.assertFalse(missing)
            if schema.get("additionalProperties") is False:
                self.assertFalse(set(cell) - set(schema["properties"]))


class Annotations(harness.Case):
    """If upstream tools can do anything, the hints report it."""

    def test_with_an_upstream(self):
        with rawmcp.RawServer("--config", self.config({"a": harness.fixture()})) as server:
            server.initialize()
            self.assertTrue(server.ask("tools/list")["tools"][0]["annotations"]["destructiveHint"])


class End(harness.Case):
    """The server ends quickly in every case and leaves nothing behind."""

    def busy(self):
        """Returns a server with a session that computes, an idle session, and an upstream server."""
        server = rawmcp.RawServer("--config", self.config({"a": harness.fixture("--ignore-eof")}))
        self.addCleanup(server.free)
        server.initialize()
        self.assertEqual(server.cell("await mcp_a.add(a=1, b=1)", session="idle")["status"], "ok")
        server.cell("import subprocess\np = subprocess.Popen(['/bin/sh', '-c', 'while :; do :; done'])", session="child")
        server.start_call("while True: pass", session="spinning")
        time.sleep(0.3)
        self.assertGreater(len(harness.descendants(server.process.pid)), 3)
        return server

    def ends(self, server):
        status = server.process.wait(harness.PATIENCE)
        self.assertEqual(self.residue.settle(), {})
        return status

    def test_stdin_closes(self):
        server = self.busy()
        server.process.stdin.close()
        self.assertEqual(self.ends(server), 0)

    def test_sigterm(self):
        server = self.busy()
        server.process.terminate()
        self.assertIn(self.ends(server), (0, -signal.SIGTERM, 128 + signal.SIGTERM))

    def test_sigint(self):
        server = self.busy()
        server.process.send_signal(signal.SIGINT)
        self.assertIn(self.ends(server), (0, -signal.SIGINT, 128 + signal.SIGINT))

    def test_sigint_to_the_whole_group(self):
        server = self.busy()
        os.killpg(server.process.pid, signal.SIGINT)
        self.ends(server)

    def test_sigkill(self):
        server = self.busy()
        server.process.kill()
        self.assertEqual(self.ends(server), -signal.SIGKILL)

    def test_sigkill_to_the_whole_group(self):
        server = self.busy()
        os.killpg(server.process.pid, signal.SIGKILL)
        self.ends(server)

    def test_sigkill_while_starting(self):
        for delay in (0.0, 0.01, 0.03, 0.06, 0.1, 0.2):
            server = rawmcp.RawServer("--config", self.config({"a": harness.fixture()}))
            self.addCleanup(server.free)
            time.sleep(delay)
            server.process.kill()
            self.ends(server)

    def test_sigkill_of_any_one_process_of_ours(self):
        # Whichever is killed, the others end or keep running, and nothing is left at the end. Without a janitor root's empty
        # groups at the top of a hierarchy (mode 0555) stay until the next start.
        for kill in range(6):
            server = rawmcp.RawServer("--config", self.config())
            self.addCleanup(server.free)
            server.initialize()
            server.cell("1")
            names = harness.descendants(server.process.pid)
            below = sorted(names)
            if kill < len(below):
                os.kill(below[kill], signal.SIGKILL)
                time.sleep(0.2)
            if not server.process.stdin.closed:
                try:
                    server.process.stdin.close()
                except BrokenPipeError:
                    pass
            if kill < len(below) and "janito" in names[below[kill]]:
                server.process.wait(harness.PATIENCE)
                self.assertEqual(self.serving().close(), 0)
            self.ends(server)

    def serving(self):
        server = rawmcp.RawServer("--config", self.config())
        self.addCleanup(server.free)
        server.initialize()
        server.cell("x = 1")
        return server

    @harness.alone
    def test_the_next_start_removes_what_a_killed_monitor_and_janitor_left(self):
        living, server = self.serving(), self.serving()
        pid = server.process.pid
        (control,) = harness.control_sockets(pid)
        groups = lambda of: {os.path.join(at, name) for at, names, _ in os.walk("/sys/fs/cgroup") for name in names
                             if name.startswith(f"cloister-{of}-")}
        kept, left = groups(living.process.pid), groups(pid)
        janitors = [below for below, name in harness.descendants(pid).items() if "janito" in name]  # comm has 15 bytes
        self.assertEqual(len(janitors), 1)
        # Stopped first, because otherwise the janitor could act on the end of the monitor before it is killed itself.
        for process in (janitors[0], pid):
            os.kill(process, signal.SIGSTOP)
        for process in (janitors[0], pid):
            os.kill(process, signal.SIGKILL)
        server.process.wait(harness.PATIENCE)
        # The control: no other process removes them.
        self.assertTrue(os.path.exists(control))
        self.assertEqual(groups(pid), left)
        self.assertEqual(self.serving().close(), 0)
        self.assertTrue(harness.wait_until(lambda: not groups(pid)), groups(pid))
        self.assertTrue(harness.wait_until(lambda: not os.path.exists(control)))
        # Resources of a running monitor stay.
        self.assertEqual(groups(living.process.pid), kept)
        self.assertEqual(len(harness.control_sockets(living.process.pid)), 1)
        self.assertEqual(living.cell("x")["value"]["repr"], "1")
        self.assertEqual(living.close(), 0)
        self.assertEqual(self.residue.settle(), {})

    def test_a_socket_on_which_a_killed_server_still_listens(self):
        (own,) = harness.control_sockets(self.serving().process.pid)
        ended = subprocess.Popen(["true"])
        ended.wait()
        left = os.path.join(os.path.dirname(own), f"{ended.pid}.sock")
        self.addCleanup(lambda: os.path.exists(left) and os.unlink(left))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(left)
            listening.listen()
            listening.settimeout(harness.PATIENCE)
            server = self.serving()
            listening.accept()[0].close()
            self.assertTrue(os.path.exists(left))
        self.assertTrue(harness.wait_until(lambda: not os.path.exists(left)))
        self.assertEqual(server.close(), 0)

    def test_a_client_that_vanishes(self):
        # The client is the parent of the server: when it is killed, its pipes close.
        script = (
            "import subprocess, sys, time\n"
            "p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            "hello = '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
            "\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}'\n"
            "call = '{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"run_python\","
            "\"arguments\":{\"code\":\"1\"}}}'\n"
            "p.stdin.write((hello + chr(10) + call + chr(10)).encode()); p.stdin.flush()\n"
            "p.stdout.readline(); p.stdout.readline(); print('ready', flush=True); time.sleep(60)\n"
        )
        client = subprocess.Popen([harness.PYTHON, "-c", script, harness.CLOISTER, "mcp", "--config", self.config()],
                                  stdout=subprocess.PIPE, env=harness.environment())
        self.assertEqual(client.stdout.readline(), b"ready\n")
        client.stdout.close()
        harness.end(client)
        self.assertEqual(self.residue.settle(), {})

    def test_a_client_that_stops_reading(self):
        # More unread answers than a pipe holds: the server neither spins nor crashes, and still ends.
        read, write = os.pipe()
        process = subprocess.Popen([harness.CLOISTER, "mcp", "--config", self.config()], stdin=subprocess.PIPE,
                                   stdout=write, stderr=subprocess.DEVNULL, env=harness.environment())
        os.close(write)
        for i in range(400):  # below the 4 MiB at which the server stops reading
            process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % i)
        process.stdin.flush()
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.stdin.close()
        process.wait(10)
        os.close(read)

    def test_nothing_is_left_after_an_ordinary_life(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            server.initialize()
            for i in range(8):
                server.cell("open('/workspace/f', 'w').write('x')", session=f"s{i}")
        self.assertEqual(self.residue.settle(), {})


if __name__ == "__main__":
    harness.main()
