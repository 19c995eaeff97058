"""The hub: valid and invalid configs; servers that start late, never, twice, or make noise; the end of their processes."""

import json
import re
import os
import shutil
import signal
import time

import harness
import rawmcp


class Hub(harness.Case):
    """One Cloister per test, with a separate config."""

    def server(self, servers=None, *, config=None, env=None, **rest):
        server = rawmcp.RawServer("--log-level", "debug", "--config", config or self.config(servers, **rest), env=env, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def value(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"].get("json", cell["value"]["repr"])

    def failure(self, server, call):
        code = f"try:\n    await {call}\n    r = None\nexcept ToolError as e:\n    r = [type(e).__name__, str(e)]\nr"
        cell = server.cell(code)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"].get("json") if "value" in cell else None

    # ---- configs ---------------------------------------------------------------------------------------------

    def test_directory_of_configs(self):
        os.mkdir(self.path("d"))
        self.config({"a": harness.fixture()}, name="d/1.json")
        self.config({"b": harness.fixture()}, name="d/2.json")
        self.write("d/ignored.txt", "{")
        server = self.server(config=self.path("d"))
        self.assertEqual(self.value(server, "[(await mcp_a.add(a=1, b=1))['sum'], (await mcp_b.add(a=2, b=2))['sum']]"), [2, 4])
        server.close()

    def test_comments_in_a_config(self):
        config = self.write("c.json", '{ // what follows\n "mcpServers": { /* one */ "a": ' + json.dumps(harness.fixture()) + "}\n}\n")
        server = self.server(config=config)
        self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})
        server.close()

    def test_config_with_a_syntax_error_is_one_clear_line(self):
        config = self.write("broken.json", '{"mcpServers": {"a": }')
        done = self.run_cloister("mcp", "--config", config)
        self.assertNotEqual(done.returncode, 0)
        text = done.stderr.decode().strip()
        self.assertIn("broken.json", text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertEqual(done.stdout, b"")

    def test_missing_config_is_one_clear_line(self):
        done = self.run_cloister("mcp", "--config", self.path("none.json"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("none.json", done.stderr.decode())
        self.assertEqual(len(done.stderr.decode().strip().splitlines()), 1)

    def test_no_config_at_all_runs_without_tools(self):
        env = harness.environment(XDG_CONFIG_HOME=self.path("nothing"))
        with rawmcp.RawServer(env=env) as server:
            server.initialize()
            self.assertEqual(server.cell("1 + 1")["value"]["json"], 2)

    def test_config_of_xdg_config_home(self):
        os.makedirs(self.path("xdg/cloister"))
        self.config({"a": harness.fixture()}, name="xdg/cloister/config.json")
        with rawmcp.RawServer(env=harness.environment(XDG_CONFIG_HOME=self.path("xdg"))) as server:
            server.initialize()
            self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})

    def test_variables_and_home_are_expanded(self):
        server = self.server(
            {"a": harness.fixture(env={"GIVEN": "${TEST_GIVEN}", "DEFAULT": "${TEST_UNSET:-fallback}"}, cwd="~")},
            env=harness.environment(TEST_GIVEN="from outside"),
        )
        env = self.value(server, "await mcp_a.environment()")
        self.assertEqual((env["env"]["GIVEN"], env["env"]["DEFAULT"]), ("from outside", "fallback"))
        self.assertEqual(os.path.realpath(env["cwd"]), os.path.realpath(harness.environment()["HOME"]))
        server.close()

    def test_a_variable_that_is_not_set_is_named(self):
        server = self.server({"a": harness.fixture(env={"X": "${NO_SUCH_VARIABLE}"}), "b": harness.fixture()})
        kind, message = self.failure(server, "tools['a.add'](a=1, b=1)")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("NO_SUCH_VARIABLE", message)
        self.assertEqual(self.value(server, "await mcp_b.add(a=1, b=1)"), {"sum": 2})
        server.close()

    def test_the_clients_secrets_do_not_reach_a_server(self):
        server = self.server({"a": harness.fixture()}, env=harness.environment(SECRET_TOKEN="hidden"))
        env = self.value(server, "await mcp_a.environment()")
        self.assertNotIn("SECRET_TOKEN", env["env"])
        self.assertIn("PATH", env["env"])
        server.close()

    def test_a_server_holds_no_capability(self):
        server = self.server({"a": harness.fixture()})
        self.assertEqual(int(self.value(server, "await mcp_a.environment()")["caps"], 16), 0)
        server.close()

    def test_cloister_in_its_own_config_is_skipped(self):
        server = self.server({"me": {"command": harness.CLOISTER, "args": ["mcp"]}, "b": harness.fixture()})
        self.assertEqual(self.value(server, "sorted({t['server'] for t in _discover() if 'error' not in t})"), ["b"])
        server.close()
        self.assertIn('server "me": would start Cloister inside Cloister', server.log())

    # ---- servers that do not start --------------------------------------------------------------------------

    def test_missing_command(self):
        server = self.server({"gone": {"command": "/no/such/command"}, "b": harness.fixture()})
        kind, message = self.failure(server, "tools['gone.x']()")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("/no/such/command", message)
        self.assertEqual(self.value(server, "await mcp_b.add(a=1, b=1)"), {"sum": 2})
        self.assertIn("gone", self.value(server, "repr(_discover())"))
        server.close()

    def test_server_that_exits_at_start(self):
        server = self.server({"dead": harness.fixture("--exit-at-start"), "b": harness.fixture()})
        kind, _ = self.failure(server, "tools['dead.x']()")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertEqual(self.value(server, "await mcp_b.add(a=1, b=1)"), {"sum": 2})
        server.close()
        self.assertIn("cannot start: the reason", server.log())

    @harness.alone
    def test_a_hanging_server_delays_no_other(self):
        server = self.server({"hangs": harness.fixture("--hang-start"), "b": harness.fixture()})
        self.assertEqual(server.cell("1")["status"], "ok")
        start = time.monotonic()
        self.assertEqual(self.value(server, "await mcp_b.add(a=1, b=1)"), {"sum": 2})
        self.assertLess(time.monotonic() - start, 3)
        server.close()

    @harness.alone
    def test_servers_start_concurrently(self):
        server = self.server({f"s{i}": harness.fixture("--slow-start", "1") for i in range(4)})
        server.cell("1")
        start = time.monotonic()
        code = "import asyncio\nr = await asyncio.gather(*(tools[f's{i}.add'](a=i, b=0) for i in range(4)))\n[x['sum'] for x in r]"
        self.assertEqual(self.value(server, code), [0, 1, 2, 3])
        self.assertLess(time.monotonic() - start, 3.5)
        server.close()

    def test_servers_are_started_lazily(self):
        # The first run starts a server once to list its tools; later runs use the cached list and start a server when it is called.
        pids = self.path("pids")
        servers = {"a": harness.fixture("--pid-file", pids)}
        server = self.server(servers)
        self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})
        # A process writes the cache, after the list has come.
        count = ("tools", "--count", "--config", self.config(servers))
        self.assertTrue(harness.wait_until(lambda: b"not known" not in self.run_cloister(*count).stdout))
        server.close()
        os.unlink(pids)
        server = self.server(servers)
        listed = server.ask("tools/list")["tools"][0]["description"]
        self.assertEqual(self.value(server, "6 * 7"), 42)
        self.assertFalse(os.path.exists(pids), "started before anybody needed it")
        self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})
        self.assertTrue(os.path.exists(pids))
        server.close()
        self.assertIn("add", listed)

    def test_a_late_server_appears(self):
        server = self.server({"late": harness.fixture("--slow-start", "1.5")})
        server.cell("1")
        self.assertEqual(self.value(server, "await mcp_late.add(a=1, b=1)"), {"sum": 2})
        server.close()

    def test_crash_and_return(self):
        server = self.server({"a": harness.fixture("--crash-once", self.path("crashed"))})
        self.assertTrue(harness.wait_until(lambda: self.failure(server, "tools['a.add'](a=1, b=1)") is None, 15))
        server.close()

    # ---- messages of servers ------------------------------------------------------------------------------------

    def test_lines_that_are_not_json_are_skipped_with_a_warning(self):
        server = self.server({"noisy": harness.fixture("--noise")})
        self.assertEqual(self.value(server, "[(await mcp_noisy.add(a=i, b=0))['sum'] for i in range(3)]"), [0, 1, 2])
        server.close()
        self.assertIn("noisy", server.log())

    def test_stderr_is_drained(self):
        server = self.server({"loud": harness.fixture("--stderr-flood", str(4 << 20))})
        self.assertEqual(self.value(server, "await mcp_loud.add(a=1, b=1)"), {"sum": 2})
        server.close()

    def test_pages_of_tools(self):
        server = self.server({"p": harness.fixture("--pages", "30")})
        self.assertEqual(self.value(server, "len([t for t in _discover() if t['server'] == 'p'])"), 30)
        self.assertEqual(self.value(server, "(await mcp_p.page_29())['tool']"), "page_29")
        server.close()

    def test_list_of_tools_in_one_very_long_line(self):
        server = self.server({"big": harness.fixture("--big-list", "2000")})
        self.assertEqual(self.value(server, "len(_discover())"), 2000)
        self.assertEqual(self.value(server, "(await tools['tool_1999']())['tool']"), "tool_1999")
        server.close()

    def test_lines_of_64_kib_and_more(self):
        server = self.server({"a": harness.fixture()})
        self.assertEqual(self.value(server, "[len(await tools['big'](n=n)) for n in (65535, 65536, 65537, 200000)]"), [65535, 65536, 65537, 200000])
        server.close()

    def test_timeout_of_a_call(self):
        server = self.server({"a": harness.fixture(timeout=1)})
        code = "try:\n    await mcp_a.sleep(seconds=30)\nexcept ToolTimeout as e:\n    r = isinstance(e, TimeoutError)\nr"
        start = time.monotonic()
        self.assertTrue(self.value(server, code))
        self.assertLess(time.monotonic() - start, harness.PATIENCE)
        self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})
        server.close()

    # ---- the config's rules for a server's tools -----------------------------------------------------------------

    def test_rules_of_a_server(self):
        server = self.server({
            "a": harness.fixture(tools={"allow": ["add", "create-*", "fail"], "deny": ["fail"]}),
            "b": harness.fixture(),
        })
        self.assertEqual(self.value(server, "sorted(t['name'] for t in _discover() if t['server'] == 'a')"), ["add", "create-event"])
        self.assertEqual(self.value(server, "(await mcp_a.add(a=1, b=1))['sum']"), 2)
        for tool in ("fail", "echo"):
            kind, message = self.failure(server, f"tools['a.{tool}']()")
            self.assertEqual(kind, "ToolNotFound", message)
        # The same tools of another server still work; the short name of a tool that is denied here is free for another tool.
        self.assertEqual(self.value(server, "await tools['echo'](x=1)"), {"x": 1})
        self.assertEqual(self.failure(server, "mcp_b.fail()")[0], "ToolError")
        listed = server.ask("tools/list")["tools"][0]["description"]
        self.assertIn("add", listed)
        server.close()

    def test_a_call_that_the_rules_forbid_never_leaves(self):
        # Sends the frame itself, without the guest's list of tools: the broker decides.
        server = self.server({"a": harness.fixture(tools={"deny": ["echo"]})})
        code = """
from cloister.frames import CALL
from cloister.json_codec import decode, encode_own
channel = tools._channel
r = decode(channel.call(CALL, encode_own({"server": "a", "tool": "echo", "arguments": {}})))
[r["ok"], r["error"]["kind"], r["error"]["message"]]"""
        ok, kind, message = self.value(server, code)
        self.assertEqual((ok, kind), (False, "ToolNotFound"))
        self.assertIn('does not allow tool "echo" of server "a"', message)
        server.close()

    def test_a_renamed_server(self):
        server = self.server({"a": harness.fixture(rename="other"), "off": harness.fixture(disabled=True)})
        self.assertEqual(self.value(server, "(await mcp_other.add(a=1, b=1))['sum']"), 2)
        self.assertEqual(self.value(server, "sorted({t['server'] for t in _discover()})"), ["other"])
        server.close()

    def test_time_to_start_and_time_to_answer(self):
        server = self.server({"slow": harness.fixture("--hang-start", start_timeout="1500ms"), "a": harness.fixture(timeout="700ms")})
        kind, message = self.failure(server, "tools['slow.add'](a=1, b=1)")
        self.assertEqual(kind, "ToolUnavailable")
        self.assertIn("1.5 s", message)
        kind, message = self.failure(server, "mcp_a.sleep(seconds=30)")
        self.assertEqual(kind, "ToolTimeout")
        self.assertIn("0.7 s", message)
        server.close()

    # ---- the end of servers ------------------------------------------------------------------------------------

    def test_stubborn_server_is_ended(self):
        pids = self.path("pids")
        server = self.server({"a": harness.fixture("--ignore-eof", "--pid-file", pids)})
        self.value(server, "await mcp_a.add(a=1, b=1)")
        server.close()
        self.assertTrue(harness.wait_until(lambda: not harness.running_servers(pids)), "it outlived us")

    def npx(self):
        """npx starts a shell, which starts node: all of these processes must end with Cloister."""
        npx = shutil.which("npx")
        self.assertTrue(npx, "npx is needed")
        return {"command": npx, "args": ["--no-install", "mcp-server-everything"], "cwd": harness.NODE_DIR}

    def npx_tree(self, end):
        server = self.server({"e": self.npx()})
        self.assertIn("hi", self.value(server, "await mcp_e.echo(message='hi')", wait=60))
        names = list(harness.descendants(server.process.pid).values())
        self.assertGreaterEqual(sum("node" in n or "npm" in n or n == "MainThread" for n in names), 2, names)
        end(server)
        self.assertEqual(self.residue.settle(), {})

    def test_npx_tree_dies_at_eof(self):
        self.npx_tree(lambda server: server.close())

    def test_npx_tree_dies_at_sigterm(self):
        self.npx_tree(lambda server: (server.process.terminate(), server.close()))

    def test_npx_tree_dies_at_sigkill(self):
        self.npx_tree(lambda server: (server.process.kill(), server.close()))

    def test_double_forked_daemon_of_a_server_dies(self):
        script = self.write("daemon.py", f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(3600)
    os._exit(0)
os.execv({harness.PYTHON!r}, [{harness.PYTHON!r}, {harness.FIXTURE!r}])
""")
        server = self.server({"a": {"command": harness.PYTHON, "args": [script]}})
        self.assertEqual(self.value(server, "await mcp_a.add(a=1, b=1)"), {"sum": 2})
        server.process.send_signal(signal.SIGKILL)
        server.close()
        self.assertEqual(self.residue.settle(), {})


class Tools(harness.Case):
    """`cloister tools`."""

    def test_lists_tools(self):
        done = self.run_cloister("tools", "--config", self.config({"a": harness.fixture()}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("create-event", done.stdout.decode())
        changing, all_tools = re.search(r"\n(\d+) of (\d+) tools may change things \(no readOnlyHint\).*\"deny\"", done.stdout.decode()).groups()
        listed = json.loads(self.run_cloister("tools", "--json", "--config", self.config({"a": harness.fixture()})).stdout)["servers"][0]["tools"]
        self.assertEqual((int(changing), int(all_tools)), (sum(not t.get("annotations", {}).get("readOnlyHint") for t in listed), len(listed)))

    def test_the_count_alone_starts_no_server(self):
        mark = self.path("mark")
        server = {"command": "/bin/sh", "args": ["-c", f"touch {mark} && exec {harness.PYTHON} {harness.FIXTURE}"]}
        config = self.config({"a": server, "gone": {"command": "/no/such/command"}})
        count = ("tools", "--count", "--config", config)
        done = self.run_cloister(*count)
        unknown = "the tools of 2 servers are not known before the first start: 'cloister tools' starts the servers, and says how many tools may change things\n"
        self.assertEqual((done.returncode, done.stdout.decode(), os.path.exists(mark)), (0, unknown, False))
        self.run_cloister("tools", "--config", config)
        self.assertNotEqual(self.run_cloister(*count).stdout.decode(), unknown)
        os.unlink(mark)
        said = self.run_cloister("tools", "--config", config).stdout.decode().splitlines()[-1]
        os.unlink(mark)
        done = self.run_cloister(*count)
        self.assertEqual((done.returncode, done.stdout.decode().splitlines()), (0, [said, unknown.strip().replace("2 servers are", "1 server are")]))
        self.assertFalse(os.path.exists(mark))
        # Tools that are left out are not counted.
        config = self.config({"a": {**server, "tools": {"deny": ["*"]}}}, name="none.json")
        self.assertEqual(self.run_cloister("tools", "--count", "--config", config).stdout, b"")

    def test_json(self):
        config = self.config({"a": harness.fixture(), "gone": {"command": "/no/such/command"}})
        done = self.run_cloister("tools", "--json", "--config", config)
        self.assertIn("create-event", json.dumps(json.loads(done.stdout)))
        self.assertIn("gone", done.stdout.decode() + done.stderr.decode())

    def test_official_servers(self):
        config = self.config({"e": harness.official("server-everything"), "m": harness.official("server-memory")})
        done = self.run_cloister("tools", "--config", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("get-structured-content", "read_graph"):
            self.assertIn(name, done.stdout.decode())


if __name__ == "__main__":
    harness.main()
