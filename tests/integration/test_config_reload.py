"""A config that changes while Cloister serves: applied as a whole or not at all, and no session loses anything."""

import json
import os
import time

import harness
import rawmcp


class Reload(harness.Case):
    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        os.mkdir(self.home)

    def save(self, path, servers, **rest):
        harness.replace_file(path, json.dumps({"mcpServers": servers, **rest}))

    def server(self, *args):
        env = harness.environment(XDG_CONFIG_HOME=self.home)
        server = rawmcp.RawServer("--log-level", "info", *args, env=env, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def value(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")

    def names(self, server):
        return self.value(server, "sorted({t['server'] for t in _discover()})")

    def reloaded(self, server, times=1):
        self.assertTrue(harness.wait_until(lambda: server.log().count("config was reloaded") >= times), server.log())

    def becomes(self, server, names):
        self.assertTrue(harness.wait_until(lambda: self.names(server) == names), self.names(server))

    def test_a_server_more_and_one_less_with_variables_kept(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.assertEqual(self.value(server, "x = 40\n(await mcp_one.add(a=x, b=2))['sum']"), 42)
        self.save(path, {"one": harness.fixture(), "two": harness.fixture()})
        self.reloaded(server)
        self.becomes(server, ["one", "two"])
        self.assertEqual(self.value(server, "(await mcp_two.add(a=x, b=3))['sum']"), 43)
        self.save(path, {"two": harness.fixture()})
        self.reloaded(server, 2)
        self.becomes(server, ["two"])
        cell = server.cell("x\ntry:\n    await tools['one.add'](a=1, b=1)\nexcept ToolNotFound as e:\n    r = 'gone'\n(r, x)")
        self.assertEqual(cell["value"]["repr"], "('gone', 40)", cell)
        self.assertEqual(cell["state"], "kept")
        server.close()

    def test_instances_of_a_url_change_nothing(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.assertEqual(self.value(server, "(await mcp_one.add(a=1, b=2))['sum']"), 3)
        self.save(path, {"one": harness.fixture(), "u": {"url": "https://u.example", "instances": "principal"}})
        refused = f'{path}: line 1: server "u": instances is for servers with a command, not for a url'
        self.assertTrue(harness.wait_until(lambda: json.dumps(refused)[1:-1] in server.log() or refused in server.log()), server.log())
        self.assertEqual(self.names(server), ["one"])
        # The control: without the url. The running server has the process that it had.
        self.save(path, {"one": harness.fixture(), "u": {**harness.fixture(), "instances": "principal"}})
        self.reloaded(server)
        self.becomes(server, ["one", "u"])
        self.assertEqual(self.value(server, "(await mcp_u.add(a=2, b=2))['sum']"), 4)
        server.close()

    def test_a_failed_rule_test_changes_nothing(self):
        one = {"one": harness.fixture()}
        path = self.config(one)
        server = self.server("--config", path)
        add = [{"call": "one.add", "expect": "allow"}]
        self.save(path, one, rules=[{"deny": "one.*"}], rule_tests=add)
        self.assertTrue(harness.wait_until(lambda: "the previous config stays in use" in server.log()), server.log())
        self.assertIn("rule_tests: entry 1: one.add: expected allow, found deny", server.log())
        self.assertEqual(self.value(server, "(await mcp_one.add(a=1, b=2))['sum']"), 3)
        # An entry that a condition on a host decides is judged by another process, before a part of the config is used.
        rules = [{"allow": "one.add", "when": {"/url": {"host": "a.example"}}}, {"deny": "one.echo"}]
        call = {"call": "one.add", "arguments": {"url": "https://a.example/"}}
        echo = "try:\n    r = str(await mcp_one.echo(text='x'))\nexcept ToolError as e:\n    r = f'{type(e).__name__}: {e}'\nr"
        self.save(path, one, rules=rules, rule_tests=[{**call, "expect": "allow"}])
        self.reloaded(server)
        self.assertIn("ToolDenied", self.value(server, echo))
        more = {"mcpServers": {**one, "two": harness.fixture()}, "rules": rules[:1], "profiles": {"new": {"agent": True}}}
        bad = json.dumps({**more, "rule_tests": [{**call, "expect": "allow"}, {**call, "expect": "deny"}]}, indent=1)
        harness.replace_file(path, bad)
        failed = "rule_tests: entry 2: one.add: expected deny, found allow"
        self.assertTrue(harness.wait_until(lambda: failed in server.log()), server.log())
        line = next(line for line in server.log().splitlines() if failed in line)
        self.assertRegex(line, r"config\.json: line \d+: rule_tests: .*; the previous config stays in use")
        self.assertEqual(self.names(server), ["one"])
        self.assertIn("ToolDenied", self.value(server, echo))
        self.assertIn('unknown argument "profile"', server.cell("1", session="new", profile="new")["error"]["message"])
        self.assertEqual(server.log().count("config was reloaded"), 1)
        # The control: the same config with an entry that passes.
        harness.replace_file(path, bad.replace('"expect": "deny"', '"expect": "allow"'))
        self.reloaded(server, 2)
        self.becomes(server, ["one", "two"])
        self.assertNotIn("ToolDenied", self.value(server, echo))
        self.assertEqual(self.value(server, "(await mcp_one.add(a=1, b=2))['sum']", session="new2", profile="new"), 3)
        server.close()

    def test_the_first_network_needs_a_start(self):
        """The reload logs one line, and the client gets an error; the other profiles continue."""
        path = self.config()
        server = self.server("--config", path)
        self.assertEqual(self.value(server, "x = 1; x"), 1)
        self.save(path, {}, profiles={"default": {"agent": True}, "web": {"agent": True, "network": {"allow": ["site.example"]}}})
        self.reloaded(server)
        said = 'profile "web" has a network, and Cloister was started without one: restart Cloister'
        self.assertEqual(len([line for line in server.log().splitlines() if said in line]), 1, server.log())
        cell = server.cell("1", session="web", profile="web")
        self.assertIn(said, json.dumps(cell, ensure_ascii=False).replace('\\"', '"'))
        self.assertEqual(self.value(server, "x"), 1)
        server.close()

    def test_the_client_is_notified(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.value(server, "await mcp_one.add(a=1, b=1)")
        server.ask("tools/list", {})
        told = lambda: [note for note in server.notes if note.get("method") == "notifications/tools/list_changed"]
        before = len(told())
        self.save(path, {"one": harness.fixture(), "another": harness.fixture()})
        self.assertTrue(harness.wait_until(lambda: len(told()) > before))
        self.assertIn("another", json.dumps(server.ask("tools/list", {})))
        server.close()

    def test_the_client_is_notified_of_other_changes(self):
        path = self.config({"one": harness.fixture()}, timeout=70)
        server = self.server("--config", path)
        self.assertIn("70 s", json.dumps(server.ask("tools/list", {})))
        self.save(path, {"one": harness.fixture()}, timeout=75)
        told = lambda: [note for note in server.notes if note.get("method") == "notifications/tools/list_changed"]
        self.assertTrue(harness.wait_until(lambda: "75 s" in json.dumps(server.ask("tools/list", {}))))
        self.assertTrue(harness.wait_until(told))
        server.close()

    def test_a_broken_file_changes_nothing_and_says_where(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.assertEqual(self.names(server), ["one"])
        with open(path, "w") as f:
            f.write('{"mcpServers": {},\n"timeout": "soon"}')
        self.assertTrue(harness.wait_until(lambda: "the previous config stays in use" in server.log()))
        self.assertIn(f"{path}: line 2: timeout must be", server.log())
        os.utime(path)
        time.sleep(0.5)
        self.assertEqual(server.log().count("the previous config stays in use"), 1, server.log())
        self.assertEqual(self.value(server, "(await mcp_one.add(a=1, b=1))['sum']"), 2)
        os.unlink(path)
        self.assertTrue(harness.wait_until(lambda: "No such file" in server.log()))
        self.assertEqual(self.names(server), ["one"])
        self.save(path, {"two": harness.fixture()})
        self.reloaded(server)
        self.becomes(server, ["two"])
        server.close()

    def test_a_file_that_appears_later(self):
        server = self.server()
        self.assertEqual(self.names(server), [])
        os.mkdir(os.path.join(self.home, "cloister"))
        path = os.path.join(self.home, "cloister", "config.json")
        self.save(path, {"late": harness.fixture()})
        self.reloaded(server)
        self.becomes(server, ["late"])
        os.unlink(path)
        self.reloaded(server, 2)
        self.becomes(server, [])
        server.close()

    def test_a_directory_of_files(self):
        directory = self.path("d")
        os.mkdir(directory)
        self.save(os.path.join(directory, "a.json"), {"a": harness.fixture()})
        server = self.server("--config", directory)
        self.assertEqual(self.names(server), ["a"])
        self.save(os.path.join(directory, "b.json"), {"b": harness.fixture()})
        self.reloaded(server)
        self.becomes(server, ["a", "b"])
        with open(os.path.join(directory, "a.json"), "w") as f:
            f.write("{")
        self.assertTrue(harness.wait_until(lambda: "the previous config stays in use" in server.log()))
        self.assertEqual(self.names(server), ["a", "b"])
        os.unlink(os.path.join(directory, "a.json"))
        self.reloaded(server, 2)
        self.becomes(server, ["b"])
        server.close()

    def test_a_running_call_continues(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.value(server, "await mcp_one.add(a=1, b=1)")
        request = server.start_call("import asyncio\nfor i in range(30):\n    await asyncio.sleep(0.1)\n(await mcp_one.add(a=i, b=0))['sum']")
        self.save(path, {"zero": harness.fixture(), "one": harness.fixture()})
        self.reloaded(server)
        cell = request.result(20)["structuredContent"]
        self.assertEqual(cell["value"]["json"], 29, cell)
        server.close()

    def test_new_limits_are_the_next_session_s(self):
        path = self.config({}, timeout=50)
        server = self.server("--config", path)
        self.value(server, "x = 1")
        self.save(path, {}, timeout=1)
        self.reloaded(server)
        cell = server.cell("while True: pass")
        self.assertEqual(cell["status"], "timeout")
        server.close()

    def test_a_profile_added_by_a_reload(self):
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.value(server, "x = 1")
        self.save(path, {"one": harness.fixture()}, profiles={"none": {"servers": [], "agent": True, "limits": {"pids": 20}}})
        self.reloaded(server)
        self.assertTrue(harness.wait_until(lambda: '"none"' in json.dumps(server.ask("tools/list", {}))))
        self.assertEqual(self.value(server, "[t['server'] for t in _discover()]", session="other", profile="none"), [])
        self.assertEqual(self.value(server, "x"), 1)
        self.assertEqual(self.names(server), ["one"])
        # The profile's limits change: the existing session keeps its own, the next session has the new limits.
        self.save(path, {"one": harness.fixture()}, profiles={"none": {"agent": True, "limits": {"pids": 30}}})
        self.reloaded(server, 2)
        new = (f"new-{i}" for i in range(1000))  # the log line may come before the broker has the new config
        servers = lambda: self.value(server, "sorted({t['server'] for t in _discover()})", session=next(new), profile="none")
        self.assertTrue(harness.wait_until(lambda: servers() == ["one"], step=0.2))
        self.assertEqual(self.value(server, "[t['server'] for t in _discover()]", session="other", profile="none"), [])
        server.close()

    def test_ownership_holds_at_each_reload(self):
        """Root refuses a file that another user owns; an ordinary user reads any readable file."""
        path = self.config({"one": harness.fixture()})
        server = self.server("--config", path)
        self.assertEqual(self.names(server), ["one"])
        self.save(path + ".new", {"two": harness.fixture()})
        os.chmod(path + ".new", 0o666)
        os.rename(path + ".new", path)
        if harness.ROOT:
            self.assertTrue(harness.wait_until(lambda: "can be written by others than root" in server.log()), server.log())
            self.assertEqual(self.names(server), ["one"])
            os.chmod(path, 0o644)
        self.reloaded(server)
        self.becomes(server, ["two"])
        server.close()


if __name__ == "__main__":
    harness.main()
