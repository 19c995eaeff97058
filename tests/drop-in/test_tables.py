"""A table that a user writes, for a system that does not exist, and tables that are refused."""

import json
import os

import harness
import rawmcp
import systems

TABLE = {
    "as": {
        "name": "abacus", "server": {"name": "abacus-server", "instructions": "Counts."},
        "options": {
            "--beads": {"type": "integer", "min": 1, "max": 9, "default": 3, "exit_range": 7},
            "--wood": {"choices": ["oak", "ash"], "values": {"oak": "128M", "ash": "256M"}, "keys": ["/limits/memory"], "exit": 3},
            "--patience": {"type": "number", "max": 60, "keys": ["/publish/tools/count/run/timeout"]},
            "--hosts": {"type": "names", "keys": ["/network/allow"]},
            "--nails": {"type": "flag", "refuse": "an abacus has no nails", "exit": 4},
        },
        "environment": {"ABACUS_BEADS": "--beads", "ABACUS_PAINT": {"notes": "is not used", "secret": True}},
    },
    "limits": {"pids": 64},
    "publish": {"tools": {
        "count": {
            "description": "Counts.", "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
            "run": {"code": "what", "timeout": 20},
            "result": [{"when": "timeout", "text": ["too slow: {timeout_s}"]}, {"when": "ok", "text": ["= {stdout}{value}"]}, {"text": ["! {error}"]}]},
        "beads": {"description": "Tells the settings.", "code": "import json\ndef main(): return json.dumps(settings)"},
        "old": {"description": "An old name.", "listed": False, "code": "'old'"},
    }},
}


class Abacus(systems.SystemCase):
    def setUp(self):
        super().setUp()
        self.SYSTEM = self.write("abacus.json", json.dumps(TABLE, indent=1))

    def changed(self, change):
        table = json.loads(json.dumps(TABLE))
        change(table)
        self.SYSTEM = self.write("changed.json", json.dumps(table, indent=1))

    def test_it_works(self):
        self.both(self.check, "--beads", "5", "--wood", "oak", env={"ABACUS_BEADS": "4", "ABACUS_PAINT": "sesame"})

    def check(self, server):
        self.assertEqual((self.initialized["serverInfo"]["name"], self.initialized["instructions"]), ("abacus-server", "Counts."))
        self.assertEqual(self.names(server), ["count", "beads"])
        self.assertEqual(self.told(server, "old"), "old")
        self.assertEqual(self.told(server, "count", what="print(1)\n2"), "= 1\n2")
        self.assertRegex(self.result(server, "count", what="1/0")["content"][0]["text"], r"\A! ZeroDivisionError")
        settings = json.loads(self.told(server, "beads"))
        self.assertEqual((settings["--beads"], settings["ABACUS_PAINT"]), (5, None))  # an option wins over a variable
        self.assertRegex(server.log(), "ABACUS_PAINT: is not used")
        self.assertNotIn("sesame", server.log())

    def test_also(self):
        server = self.start("--also", "run_python", "--patience=0.5")
        self.assertEqual(self.names(server), ["run_python", "count", "beads"])
        self.assertEqual(server.call("1")["structuredContent"]["status"], "ok")
        self.assertEqual(self.result(server, "count", what="import time; time.sleep(60)")["content"][0]["text"], "too slow: 0.5")
        self.refused(2, "--also rm: run_python is the only tool", "--also", "rm")

    def test_precedence(self):
        """Option, variable, the user's config, the table: the first counts, and none widens what the user's config says."""
        shown = lambda config, *args, **env: json.loads(self.run_cloister(
            "config", "show", "--json", "--config", self.config(**config), "--as", self.SYSTEM, *args, env=harness.environment(**env)).stdout)
        limits = lambda *args, **rest: shown(*args, **rest)["profiles"]["default"]["limits"]
        self.assertEqual(limits({})["pids"], 64)
        self.assertEqual(limits({"limits": {"pids": 200}})["pids"], 200)
        self.assertEqual(limits({}, "--wood", "ash")["memory"], "256M")
        self.assertEqual(limits({"limits": {"memory": "1G"}}, "--wood", "ash")["memory"], "256M")
        self.assertEqual(limits({"limits": {"memory": "100M"}}, "--wood", "ash")["memory"], "100M")
        self.assertEqual(limits({"profiles": {"default": {"limits": {"memory": "1G"}}}}, "--wood", "oak")["memory"], "128M")
        self.assertEqual(shown({})["as"]["values"]["--beads"], 3)
        self.assertEqual(shown({}, ABACUS_BEADS="8")["as"]["values"]["--beads"], 8)

    def test_user_replaces_a_tool(self):
        own = {"publish": {"tools": {"count": {"description": "Mine.", "code": "'mine'"}}}}
        server = self.start(config=own)
        self.assertEqual(self.told(server, "count"), "mine")
        self.assertEqual(self.names(server), ["beads", "count"])

    def test_merge(self):
        """A value of a setting changes whole parts of the table; another one does not."""
        self.changed(lambda t: t["as"]["options"].update({"--shape": {"choices": ["round", "square"], "merge": {
            "square": {"publish": {"tools": {"beads": {"code": "'square'"}, "old": None}}}}}}))
        for value, beads in ("square", "square"), ("round", None):
            server = self.start("--shape", value)
            told = self.told(server, "beads")
            self.assertEqual(told if beads else json.loads(told)["--shape"], value)
            if beads:
                with self.assertRaises(rawmcp.RpcError):
                    self.result(server, "old")
            else:
                self.assertEqual(self.told(server, "old"), "old")
        self.changed(lambda t: t["as"]["options"].update({"--shape": {"merge": {"square": {"publish": {"tools": {"beads": {"cod": 1}}}}}}}))
        self.refused(125, r'changed\.json: line \d+: .*unknown key "cod"', "--shape", "square")

    def test_a_table_that_changes(self):
        """It is read as a changed config is: as a whole or not at all. Options stay applied."""
        self.changed(lambda t: None)
        server = self.start("--patience=0.5", "--log-level", "info")
        self.assertNotIn("reloaded", server.log())

        def save(change):
            table = json.loads(json.dumps(TABLE))
            change(table)
            os.rename(self.write("new.json", json.dumps(table)), self.SYSTEM)

        save(lambda t: (t["publish"]["tools"].update(more={"description": "More.", "code": "'more'"}), t["publish"]["tools"].pop("beads")))
        self.assertTrue(harness.wait_until(lambda: self.names(server) == ["count", "more"]), server.log())
        self.assertEqual(self.told(server, "more"), "more")
        self.assertEqual(self.result(server, "count", what="import time; time.sleep(60)")["content"][0]["text"], "too slow: 0.5")
        save(lambda t: t["publish"]["tools"]["count"].update(runn={}))
        self.assertTrue(harness.wait_until(lambda: "the previous config stays in use" in server.log()), server.log())
        self.assertRegex(server.log(), r'changed\.json: line 1: .*"runn"')
        self.assertEqual(self.names(server), ["count", "more"])

    def test_attestation_names_the_table(self):
        server = self.start("--attest")
        report = json.loads(server.ask("resources/read", {"uri": "cloister://attestation"})["contents"][0]["text"])
        self.assertEqual((report["table"], report["open"]), (self.SYSTEM, 0))

    def test_network(self):
        for config, args, why in (({"network": "none"}, ("--network", "h:1"), 'the config\'s "network" does not allow h:1'),
                                  ({"network": {"allow": ["a:1"]}}, ("--network", "a:1,b:2"), "does not allow b:2"),
                                  ({"network": "none"}, ("--hosts", "h:1"), "does not allow h:1")):
            self.refused(1, why, *args, config=config)
        shown = json.loads(self.run_cloister("config", "show", "--json", "--config", self.config(network={"allow": ["a:1", "b:2"], "max_bytes": "1M"}),
                                             "--as", self.SYSTEM, "--network", "a:1").stdout)["profiles"]["default"]["network"]
        self.assertEqual((shown["allow"], shown["max_bytes"]), (["a:1"], "1M"))
        self.refused(2, "hosts separated by commas are needed", "--network", "a:1,,b:2")

    def test_wrong_settings(self):
        self.refused(7, "--beads 10: must be from 1 to 9", "--beads", "10")
        self.refused(2, "ABACUS_BEADS x: must be a whole number", env={"ABACUS_BEADS": "x"})
        self.refused(3, "--wood fir: must be one of oak, ash", "--wood", "fir")
        self.refused(4, "--nails: an abacus has no nails", "--nails")
        self.refused(3, "--wood: longer than 128 KiB|--wood: has control characters", "--wood", "a\x1b[31m")
        self.refused(2, "unknown option --bead: did you mean --beads", "--bead", "3")

    def test_wrong_tables(self):
        self.changed(lambda t: t["as"]["options"]["--beads"].update(typ="integer"))
        self.refused(125, r'changed\.json: line \d+: .*"typ"')
        self.changed(lambda t: t["publish"]["tools"]["count"]["result"].insert(0, {"when": "soon", "text": []}))
        self.refused(125, r"changed\.json: line \d+: .*when")
        self.changed(lambda t: t["as"]["options"]["--wood"].update(keys=["/publish/tools/count/result/9/limit"]))
        self.refused(125, "the table has no place /publish/tools/count/result/9/limit", "--wood", "ash")
        self.changed(lambda t: t["as"].pop("name"))
        self.refused(125, 'is not a table: "as" with a "name" is missing')
        self.SYSTEM = "../x"
        self.refused(125, r"--as \.\./x: .*No such file")
        for name in ("..", "abacus", "codemode-lite\x1b", ""):
            self.SYSTEM = name
            self.refused(2, "there is no table of this name .*code-sandbox-mcp, codemode-lite|--as needs a SYSTEM")

    def test_a_table_is_no_config(self):
        ended = self.run_cloister("config", "check", "--config", self.SYSTEM)
        self.assertIn(b'"as" makes the file a table: start it with --as', ended.stdout)

    def test_owner_of_a_table(self):
        """The rule is that of a config: as root, a table must be root's. Another user reads each table that it can read."""
        if harness.ROOT:
            os.chown(self.SYSTEM, 4242, 4242)
            self.refused(125, "belongs to uid 4242: as root, only root's own files are read")
            os.chown(self.SYSTEM, 0, 0)
            os.chmod(self.SYSTEM, 0o666)
            self.refused(125, "can be written by others")
            os.chmod(self.SYSTEM, 0o644)
        else:
            os.chmod(self.SYSTEM, 0o666)
        self.assertEqual(self.told(self.start(), "count", what="1"), "= 1")


if __name__ == "__main__":
    harness.main()
