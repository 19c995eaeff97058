"""`cloister config`: the files that are read, all errors in them, and the resulting settings."""

import glob
import importlib.util
import json
import os
import re
import subprocess
import sys

import harness


class Config(harness.Case):
    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        os.mkdir(self.home, 0o700)
        self.env = harness.environment(HOME=self.home)
        self.env.pop("XDG_CONFIG_HOME", None)

    def run_config(self, *args, **options):
        return self.run_cloister("config", *args, env=self.env, **options)

    def out(self, *args, status=0, **options):
        done = self.run_config(*args, **options)
        self.assertEqual(done.returncode, status, done.stderr.decode() + done.stdout.decode())
        return done.stdout.decode()

    def own(self, text):
        os.makedirs(os.path.join(self.home, ".config", "cloister"), mode=0o700, exist_ok=True)
        return self.write("home/.config/cloister/config.json", text)


CORPUS = os.path.join(harness.SOURCE, "tests/fuzz/corpus/config")


class Schema(Config):
    # Rules that a schema cannot express: a name that must exist, two keys that limit each other, the grammar of URI templates.
    PASS = {"profile-missing.json", "above-maximum.json", "instances-url.json", "mount-inside.json", "publish-template.json", "deep.json",
            "run-other-argument.json", "run-argument-twice.json", "run-timeout.json", "run-entry-timeout.json", "result-without-run.json",
            "result-unknown-field.json", "result-brace.json", "result-open-brace.json", "result-never-reached.json", "result-without-rest.json",
            "result-field-of-a-call.json", "result-deep.json", "result-structured.json", "drain-timeout.json", "program-quote.json"}

    def test_it_agrees_with_check_on_each_file(self):
        spec = importlib.util.spec_from_file_location("schema", os.path.join(harness.SOURCE, "sandbox-init/python/tools/schema.py"))
        validator = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(validator)
        schema = json.loads(self.out("schema"))
        accepted = refused = 0
        for path in sorted(glob.glob(os.path.join(CORPUS, "*/*"))):
            with open(path, "rb") as f:
                raw = f.read()
            try:
                text = re.sub(r"^\s*//.*$|/\*.*?\*/", "", raw.decode("utf-8-sig"), flags=re.MULTILINE | re.DOTALL)
                value = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
            except ValueError:
                continue  # not JSON at all
            errors = json.loads(self.run_config("check", "--json", "--config", path).stdout)["errors"]
            wrong = validator.check(value, schema)
            with self.subTest(file=os.path.basename(path)):
                if os.path.basename(path) in self.PASS:
                    self.assertEqual((errors > 0, wrong), (True, None))
                    continue
                self.assertEqual(wrong is not None, errors > 0, wrong)
            accepted, refused = accepted + (not errors), refused + bool(errors)
        self.assertGreater(accepted, 8)
        self.assertGreater(refused, 15)

    def test_the_tables_in_the_docs(self):
        done = subprocess.run([sys.executable, os.path.join(harness.SOURCE, "docs/config-tables"), "--check", harness.CLOISTER], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


class Look(Config):
    def test_path(self):
        path = os.path.join(self.home, ".config/cloister/config.json")
        self.assertIn(f"absent    {path} (yours", self.out("path"))
        self.assertFalse(json.loads(self.out("path", "--json"))[0]["read"])
        self.own("{}")
        self.assertIn(f"read      {path} (yours)", self.out("path"))
        self.assertEqual(json.loads(self.out("path", "--json"))[0], {"path": path, "read": True, "why": "yours"})
        named = self.write("x.json", "{}")
        self.assertEqual(self.out("path", "--config", named), f"read      {named} (named by --config)\n")
        os.mkdir(self.path("d"))
        self.write("d/a.json", "{}")
        self.write("d/broken.json", "{")
        self.assertIn("d/a.json (in a directory", self.out("path", "--config", self.path("d")))

    def test_check_finds_everything_with_its_line(self):
        path = self.own(
            '{ // mine\n"timeout": "soon",\n"limits": {"memroy": 1,\n"pids": 1},\n"mcpServers": {\n'
            '"a": {"command": "x",\n"args": "y", "timeot": 3},\n"b": {"url": "ftp://x/mcp"}},\n"profile": "dta",\n'
            '"profiles": {"data": {"servers": ["aa"]}},\n"secrets": {"S": {"from": {"env": "E"}, "arguments": {"aa.x": ["/p"]}}}}'
        )
        text = self.out("check", status=1)
        for line in (
            f"error: {path}: line 2: timeout must be a number of seconds",
            f'warning: {path}: line 3: limits: unknown key "memroy"; did you mean "memory"?',
            f"error: {path}: line 4: limits.pids must be from 8",
            f'error: {path}: line 7: server "a": args must be an array of strings',
            f'warning: {path}: line 7: server "a": unknown key "timeot"; did you mean "timeout"?',
            f'error: {path}: line 8: server "b": its url must begin with https:// or http://',
            f'error: {path}: line 9: there is no profile "dta"; did you mean "data"?',
            f'warning: {path}: line 10: profile "data": there is no server "aa"; did you mean "a"?',
            f'warning: {path}: line 11: there is no server "aa"; did you mean "a"?',
            "1 file, 2 servers: 5 errors, 4 warnings",
        ):
            self.assertIn(line, text)
        report = json.loads(self.out("check", "--json", status=1))
        self.assertEqual((report["errors"], report["warnings"], report["files"]), (5, 4, [path]))
        first = report["findings"][0]
        self.assertEqual((first["severity"], first["file"], first["line"]), ("error", path, 2))
        self.assertTrue(first["message"].startswith("timeout must be"))

    def test_check_of_what_is_good_and_of_what_is_no_json(self):
        self.own('{"mcpServers": {"a": {"command": "sh"}}}')
        self.assertEqual(self.out("check"), "1 file, 1 server: 0 errors, 0 warnings\n")
        path = self.own('{"mcpServers": {\n"a": }}')
        self.assertIn(f"error: {path}: line 2, column 6:", self.out("check", status=1))
        self.assertIn("No such file", self.out("check", "--config", self.path("none.json"), status=1))
        self.assertIn("No such file", json.loads(self.out("check", "--json", "--config", self.path("none.json"), status=1))["findings"][0]["message"])

    def test_show_is_the_whole_and_keeps_secrets(self):
        one = self.write("1.json", json.dumps({
            "mcpServers": {"a": {
                "command": "npx", "args": ["srv", "--token", "abcdef", "--api-key=qwerty", "https://u:p@h/x?key=1", "ghp_" + "a1B2" * 9],
                "env": {"T": "hunter2", "R": "${R}", "D": "${D:-x}", "E": ""}}},
            "limits": {"memory": "1G"}, "image": "base"}))
        two = self.write("2.json", json.dumps({
            "limits": {"pids": 64}, "profiles": {"data": {"image": "pandas", "network": "loopback"}},
            "mcpServers": {"u": {"type": "sse", "url": "https://user:pass@host/mcp?token=zzz", "headers": {"X-A": "hush-hush", "X-B": "${B}"},
                                 "token": {"command": ["pass", "--token", "uvwxyz"]}}, "a": {"command": "second"}}}))
        args = ["show", "--config", one, "--config", two]
        text = self.out(*args)
        for secret in ("hunter2", "abcdef", "qwerty", "u:p", "key=1", "a1B2", "user:pass", "zzz", "hush", "uvwxyz"):
            self.assertNotIn(secret, text)
        shown = json.loads(text)
        a = shown["mcpServers"]["a"]
        self.assertEqual(a["env"], {"T": "***", "R": "${R}", "D": "${D:-x}", "E": ""})
        self.assertEqual(a["args"][:4], ["srv", "--token", "***", "--api-key=***"])
        self.assertEqual(shown["profiles"]["data"]["limits"]["memory"], "1G")
        self.assertEqual(shown["profiles"]["data"]["limits"]["pids"], 64)
        self.assertEqual(shown["profiles"]["data"]["image"], "pandas")
        self.assertEqual(shown["profiles"]["default"]["image"], "base")
        self.assertEqual(shown["timeout"], 120)
        self.assertNotIn("place", a)
        report = json.loads(self.out(*args, "--json"))
        self.assertEqual(report["mcpServers"]["a"]["place"], f"{one}: line 1")
        self.assertEqual((shown["mcpServers"]["u"]["type"], shown["mcpServers"]["u"]["headers"]), ("sse", {"X-A": "***", "X-B": "${B}"}))
        self.assertNotIn("problem", report["mcpServers"]["u"])

    def test_what_is_shown_is_a_config(self):
        self.own('{"limits": {"memory": "1.5G", "cpu": 0.5}, "clients": {"c": "p"}, "profiles": {"p": {"agent": true, "mounts": '
                 '[{"source": "~", "target": "/d", "mode": "rw"}], "preload": ["json"], "tools": {"allow": ["a.*"]}}}}')
        shown = self.out("show")
        again = self.write("again.json", shown)
        self.assertEqual(self.out("check", "--config", again), "1 file, 0 servers: 0 errors, 0 warnings\n")
        self.assertEqual(json.loads(self.out("show", "--config", again)), json.loads(shown))

    def test_show_keeps_every_key(self):
        """all-keys.json has each key of the schema. `show` prints each of them, and prints the same for its own output."""
        with open(os.path.join(CORPUS, "accept/all-keys.json"), encoding="utf-8") as f:
            config = json.load(f)
        schema = json.loads(self.out("schema"))
        own = {key for key, value in schema["properties"].items() if "description" in value}
        self.assertEqual(own - set(config), {"as"})  # of tables only: tests/drop-in
        defs = schema["$defs"]
        for name, objects in (("profile", [config, *config["profiles"].values()]), ("server", config["mcpServers"].values()),
                              *((kind, config["publish"][kind + "s"].values()) for kind in ("tool", "prompt", "resource", "template"))):
            keys = {key for key, value in defs[name]["properties"].items() if "description" in value}
            self.assertEqual(keys - {key for each in objects for key in each} - self.ELSEWHERE.get(name, set()), set(), name)
        path = os.path.join(CORPUS, "accept/all-keys.json")
        self.assertEqual(json.loads(self.out("check", "--json", "--config", path))["errors"], 0)
        shown = json.loads(self.out("show", "--config", path))
        whole = {**shown, **shown["profiles"]["default"]}
        self.assertEqual({key for key in config if key not in whole}, {"$schema"})
        for key, value in config["profiles"]["data"].items():
            self.assertIn(key, shown["profiles"]["data"])
            if isinstance(value, dict):
                self.assertEqual(set(value) - set(shown["profiles"]["data"][key]), set(), key)
        for name, server in config["mcpServers"].items():
            self.assertEqual(set(server) - set(shown["mcpServers"][server.get("rename", name)]) - {"rename"}, set(), name)
        for kind, entries in config["publish"].items():
            for name, entry in entries.items():
                self.assertEqual(set(entry) - set(shown["publish"][kind][name]), set(), name)
        shown["publish"]["prompts"]["p"]["file"] = os.path.join(harness.SOURCE, "tests/integration/fixture-server.py")
        again = self.write("again.json", json.dumps(shown))
        self.assertEqual(json.loads(self.out("show", "--config", again)), shown)

    # An entry has code or file; templates and resources share keys.
    ELSEWHERE = {kind: {"file", "code", "profile", "timeout", "hidden", "title", "icons", "_meta", "annotations", "description", "name", "mimeType"}
                 for kind in ("tool", "prompt", "resource", "template")}

    def test_show_of_a_broken_config_says_why(self):
        path = self.own('{"timeout": 0}')
        done = self.run_config("show")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(f"{path}: line 1: timeout must be from", done.stderr.decode())

    def test_words(self):
        self.assertIn("did you mean 'config check'?", self.run_config("chekc").stderr.decode())
        self.assertIn("config show", self.run_config("--help").stdout.decode())


if __name__ == "__main__":
    harness.main()
