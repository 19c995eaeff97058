"""`cloister config import`: each client's file in its real format, secrets that stay in their place, and a config that
keeps every byte when servers are added."""

import json
import os
import pty
import subprocess

import harness

GITHUB = "ghp_" + "a1B2c3D4e5F6" * 3


class Import(harness.Case):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.dir, "home")
        self.project = os.path.join(self.dir, "project")
        os.mkdir(self.home, 0o700)
        os.mkdir(self.project)
        self.env = harness.environment(HOME=self.home)
        for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "CODEMODE_MCPS_DIR"):
            self.env.pop(name, None)
        self.target = os.path.join(self.home, ".config", "cloister", "config.json")

    def put(self, path, content):
        path = os.path.join(self.home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    def run_import(self, *args, status=0, **options):
        done = self.run_cloister("config", "import", *args, env=self.env, cwd=self.project, **options)
        self.assertEqual(done.returncode, status, done.stderr.decode() + done.stdout.decode())
        return (done.stdout if status == 0 else done.stderr).decode()

    def report(self, *args):
        return json.loads(self.run_import("--json", *args))

    def servers(self):
        """Returns the imported servers as Cloister reads them."""
        done = self.run_cloister("config", "check", "--json", env=self.env)
        self.assertEqual(json.loads(done.stdout)["errors"], 0, done.stdout)
        with open(self.target, encoding="utf-8") as f:
            return json.load(f)["mcpServers"]

    def test_what_code_can_change_is_said(self):
        self.put(".claude.json", {"mcpServers": {"a": harness.fixture(env={"LEVEL": self.dir})}})
        said = self.run_import("claude-code")
        self.assertTrue(said.endswith("the tools of 1 server are not known before the first start: 'cloister tools' starts the servers, and says how many tools "
                                      "may change things\n"), said)

    # ---- each client ------------------------------------------------------------------------------------------

    def test_claude_code_with_its_projects(self):
        self.put(".claude.json", {
            "numStartups": 41, "oauthAccount": {"emailAddress": "x@y"},
            "mcpServers": {
                "github": {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"],
                           "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": GITHUB, "LOG_LEVEL": "debug", "REF": "${REF:-x}"}, "timeout": 90000},
                "linear": {"type": "sse", "url": "https://mcp.linear.app/sse", "headers": {"Authorization": "Bearer lin_api_0123456789abcdef"}},
                "cloister": {"type": "stdio", "command": "/usr/bin/cloister", "args": ["mcp"], "env": {}},
            },
            "projects": {"/home/u/work": {"allowedTools": [], "mcpServers": {"db": {"command": "./db-mcp"}}}, "/home/u/none": {}},
        })
        with open(os.path.join(self.project, ".mcp.json"), "w") as f:
            json.dump({"mcpServers": {"here": {"command": "python3", "args": ["server.py"]}}}, f)
        report = self.report("claude-code")
        servers = self.servers()
        self.assertEqual(sorted(servers), ["db", "github", "here", "linear"])
        self.assertEqual(servers["github"]["env"], {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}", "LOG_LEVEL": "debug", "REF": "${REF:-x}"})
        self.assertEqual(servers["github"]["timeout"], "90000ms")
        self.assertEqual(servers["db"], {"command": "./db-mcp", "cwd": "/home/u/work"})
        self.assertEqual(servers["here"]["cwd"], self.project)
        self.assertEqual(servers["linear"]["headers"], {"Authorization": "Bearer ${AUTHORIZATION}"})
        self.assertEqual([(i["name"], i["why"]) for i in report["left_out"]], [("cloister", "it is Cloister itself")])
        self.assertEqual((servers["linear"]["type"], servers["linear"]["url"]), ("sse", "https://mcp.linear.app/sse"))
        self.assertIn("reached at https://mcp.linear.app/sse", [i for i in report["taken"] if i["name"] == "linear"][0]["note"])
        self.assertEqual(report["written"], self.target)
        self.assertEqual(os.stat(self.target).st_mode & 0o777, 0o600)
        with open(self.target) as f:
            text = f.read()
        self.assertNotIn(GITHUB, text)
        self.assertNotIn("lin_api", text)
        self.assertNotIn(GITHUB, json.dumps(report))

    def test_claude_desktop_and_cursor(self):
        self.put(".config/Claude/claude_desktop_config.json", {
            "globalShortcut": "", "mcpServers": {"filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/u/Documents"]}}})
        self.put(".cursor/mcp.json", {"mcpServers": {
            "postgres": {"command": "npx", "args": ["-y", "server-postgres", "postgresql://admin:s3cret@db.example/x"]},
            "search": {"command": "npx", "args": ["search", "--api-key", "abc123"], "env": {"KEY": "${env:SEARCH_KEY}"}, "envFile": ".env"},
            "home": {"command": "${userHome}/bin/mcp", "args": ["${workspaceFolder}"]}}})
        report = self.report()
        servers = self.servers()
        self.assertEqual(servers["filesystem"], {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/u/Documents"]})
        self.assertEqual(servers["postgres"]["args"][2], "postgresql://${URL}@db.example/x")
        self.assertEqual(servers["search"]["args"], ["search", "--api-key", "${API_KEY}"])
        self.assertEqual(servers["search"]["env"], {"KEY": "${SEARCH_KEY}"})
        self.assertIn(".env", [i for i in report["taken"] if i["name"] == "search"][0]["note"])
        self.assertEqual([i["name"] for i in report["left_out"]], ["home"])
        self.assertIn("only the editor knows", report["left_out"][0]["why"])
        self.assertEqual({v["variable"]: v["server"] for v in report["variables"]}, {"URL": "postgres", "API_KEY": "search"})

    def test_vscode_with_inputs(self):
        self.put(".config/Code/User/mcp.json", '''{
          // made by VS Code
          "inputs": [{"type": "promptString", "id": "perplexity-key", "description": "Key", "password": true}],
          "servers": {
            "perplexity": {"type": "stdio", "command": "npx", "args": ["-y", "server-perplexity"],
                           "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}"}},
            "remote": {"type": "http", "url": "https://api.githubcopilot.com/mcp/"},
          }
        }''')
        os.mkdir(os.path.join(self.project, ".vscode"))
        with open(os.path.join(self.project, ".vscode", "mcp.json"), "w") as f:
            f.write('{"servers": {"mine": {"command": "node", "args": ["${workspaceFolder}/server.js"]}}}')
        text = self.run_import("vscode")
        servers = self.servers()
        self.assertEqual(servers["perplexity"]["env"], {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}"})
        self.assertEqual(servers["mine"]["args"], [f"{self.project}/server.js"])
        self.assertEqual(servers["remote"]["url"], "https://api.githubcopilot.com/mcp/")
        self.assertIn("PERPLEXITY_KEY  for perplexity", text)
        self.assertIn("took     mine  (VS Code, ", text)

    def test_codex_is_toml(self):
        self.put(".codex/config.toml", '''
model = "gpt-5"
[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["LOCAL_TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 45.5
enabled_tools = ["search"]
[mcp_servers.context7.env]
"MY_ENV_VAR" = "value"
API_TOKEN = """abc'def"""
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"
http_headers = { "X-Figma-Region" = "us" }
enabled = false
''')
        self.run_import("codex")
        servers = self.servers()
        self.assertEqual(servers["context7"], {
            "command": "npx", "args": ["-y", "@upstash/context7-mcp"], "start_timeout": "20s", "timeout": "45.5s",
            "env": {"LOCAL_TOKEN": "${LOCAL_TOKEN:-}", "MY_ENV_VAR": "value", "API_TOKEN": "${API_TOKEN}"}, "tools": {"allow": ["search"]}})
        self.assertEqual(servers["figma"]["headers"], {"Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}", "X-Figma-Region": "us"})
        self.assertTrue(servers["figma"]["disabled"])

    def test_toml_that_is_none_and_no_python_for_it(self):
        path = self.put("x/config.toml", "a = = 1\n")
        self.assertIn("config.toml: ", self.run_import(path, status=1))
        good = self.put("x/good.toml", '[mcp_servers.a]\ncommand = "x"\n')
        self.env["PATH"] = "/nowhere"
        if not os.path.exists("/usr/bin/python3"):
            self.assertIn("needs a python3 of version 3.11", self.run_import(good, status=1))
        else:
            self.run_import(good)  # /usr/bin/python3 is tried, too

    def test_gemini_qwen_and_opencode(self):
        self.put(".gemini/settings.json", {"theme": "x", "mcpServers": {"g": {
            "command": "uvx", "args": ["g-mcp"], "env": {"A": "$GEMINI_A", "B": "${GEMINI_B}"}, "timeout": 600000, "trust": True,
            "includeTools": ["one"], "excludeTools": ["two"]}}})
        self.put(".qwen/settings.json", {"mcpServers": {"q": {"httpUrl": "https://q.example/mcp?key=abcdef"}}})
        self.put(".config/opencode/opencode.jsonc", '''{ "$schema": "https://opencode.ai/config.json", // mine
          "mcp": { "o": {"type": "local", "command": ["bun", "x", "o-mcp"], "environment": {"T": "{env:O_TOKEN}"}, "enabled": false, "timeout": 5000} } }''')
        self.run_import()
        servers = self.servers()
        self.assertEqual(servers["g"]["env"], {"A": "${GEMINI_A}", "B": "${GEMINI_B}"})
        self.assertEqual((servers["g"]["timeout"], servers["g"]["tools"]), ("600000ms", {"allow": ["one"], "deny": ["two"]}))
        self.assertEqual(servers["q"]["url"], "https://q.example/mcp?${URL}")
        self.assertEqual(servers["o"], {"command": "bun", "args": ["x", "o-mcp"], "env": {"T": "${O_TOKEN}"}, "disabled": True, "start_timeout": "5000ms"})

    def test_a_directory_of_files(self):
        self.put("MCPs/b.json", {"mcpServers": {"Calendar": {"url": "http://localhost:3000/sse"}, "Same": {"command": "x"}}})
        self.put("MCPs/a.json", {"mcpServers": {"Mail": {"command": "mail-mcp", "description": "reads mail"}, "Same": {"command": "x"}}})
        self.put("MCPs/broken.json", "{")
        report = self.report("mcps")
        self.assertEqual([i["name"] for i in report["taken"]], ["Mail", "Same", "Calendar"])
        self.assertEqual(report["left_out"][0]["why"], "the same as that of MCPs")
        self.assertIn("broken.json: line 1", report["left_out"][1]["why"])
        self.env["CODEMODE_MCPS_DIR"] = os.path.join(self.home, "elsewhere")
        self.put("elsewhere/c.json", {"mcpServers": {"There": {"command": "y"}}})
        self.assertEqual([i["name"] for i in self.report("mcps")["taken"]], ["There"])

    # ---- secrets ----------------------------------------------------------------------------------------------

    def secret_file(self):
        return self.put("s.json", {"mcpServers": {"a": {"command": "x", "env": {"API_TOKEN": "one", "WORD": "9f8a-77"}},
                                                  "b": {"command": "y", "env": {"API_TOKEN": "two"}},
                                                  "c": {"command": "z", "env": {"API_TOKEN": "one", "PORT": "8080", "DIR": "/srv/x", "DEBUG": "true"}}}})

    def test_a_secret_gets_a_variable_of_its_own(self):
        report = self.report(self.secret_file())
        servers = self.servers()
        self.assertEqual(servers["a"]["env"], {"API_TOKEN": "${API_TOKEN}", "WORD": "${WORD}"})
        self.assertEqual(servers["b"]["env"], {"API_TOKEN": "${B_API_TOKEN}"})
        self.assertEqual(servers["c"]["env"], {"API_TOKEN": "${API_TOKEN}", "PORT": "8080", "DIR": "/srv/x", "DEBUG": "true"})
        self.assertEqual([v["copied"] for v in report["variables"]], [False] * 4)

    def test_secrets_are_copied_if_asked(self):
        os.makedirs(os.path.dirname(self.target))
        with open(self.target, "w") as f:
            f.write("{}")
        os.chmod(self.target, 0o644)
        self.run_import("--secrets", "copy", self.secret_file())
        self.assertEqual(self.servers()["a"]["env"], {"API_TOKEN": "one", "WORD": "9f8a-77"})
        self.assertEqual(os.stat(self.target).st_mode & 0o777, 0o600)

    def on_a_terminal(self, answer):
        master, slave = pty.openpty()
        try:
            process = subprocess.Popen([harness.CLOISTER, "config", "import", self.secret_file()], env=self.env, cwd=self.project,
                                       stdin=slave, stdout=subprocess.PIPE, stderr=slave)
            os.close(slave)
            os.write(master, answer)
            out = process.communicate(timeout=20)[0].decode()
            question = os.read(master, 4096).decode()
        finally:
            os.close(master)
        self.assertEqual(process.returncode, 0, out)
        return question

    def test_the_owner_is_asked_on_a_terminal(self):
        self.assertIn("4 values may be secret. Copy into", self.on_a_terminal(b"n\n"))
        self.assertEqual(self.servers()["b"]["env"], {"API_TOKEN": "${B_API_TOKEN}"})
        os.unlink(self.target)
        self.on_a_terminal(b"y\n")
        self.assertEqual(self.servers()["b"]["env"], {"API_TOKEN": "two"})

    # ---- the file ---------------------------------------------------------------------------------------------

    def test_what_is_there_stays_to_the_byte(self):
        os.makedirs(os.path.dirname(self.target))
        before = '// my config\n{\n  "timeout": 30, /* seconds */\n  "mcpServers": { // servers\n    "old": {"command": "x"}, // keep\n  },\n}\n'
        with open(self.target, "w") as f:
            f.write(before)
        source = self.put("s.json", {"mcpServers": {"new": {"command": "n", "args": ["1"]}, "old": {"command": "other"}}})
        report = self.report(source)
        self.assertEqual([(i["name"], i["why"]) for i in report["left_out"]], [("old", "your config has a server of this name")])
        with open(self.target) as f:
            after = f.read()
        head, tail = before.split("{ // servers")
        self.assertTrue(after.startswith(head + "{"), after)
        self.assertTrue(after.endswith(" // servers" + tail), after)
        self.assertNotIn("other", after)
        shown = json.loads(self.run_cloister("config", "show", env=self.env).stdout)
        self.assertEqual(shown["mcpServers"]["new"], {"command": "n", "args": ["1"]})
        self.assertEqual(shown["mcpServers"]["old"], {"command": "x"})
        self.assertEqual(shown["timeout"], 30)
        self.assertEqual(self.report(source)["taken"], [])
        with open(self.target) as f:
            self.assertEqual(f.read(), after)

    def test_shapes_of_what_is_there(self):
        os.makedirs(os.path.dirname(self.target))
        source = self.put("s.json", {"mcpServers": {"n1": {"command": "n"}, "n2": {"command": "m"}}})
        for before in ("{}", "{ }\n", '{"timeout": 5}', '{"mcpServers": {}}', '{\n  "mcpServers": {\n  }\n}', '\ufeff{"mcpServers": {"o": {"command": "x"}}}',
                       '{"$schema": "{", "mcpServers": {"o": {"command": "}{"}}}', '{// {\n}'):
            with open(self.target, "w", encoding="utf-8") as f:
                f.write(before)
            self.run_import(source)
            report = json.loads(self.run_cloister("config", "check", "--json", env=self.env).stdout)
            # This machine has no programs with the names of these commands.
            others = [one for one in report["findings"] if "there is no program" not in one["message"]]
            self.assertEqual((report["errors"], others), (0, []), before)
            shown = json.loads(self.run_cloister("config", "show", env=self.env).stdout)
            self.assertLessEqual({"n1", "n2"}, set(shown["mcpServers"]), before)
            self.assertEqual("o" in shown["mcpServers"], '"o"' in before)
            self.assertEqual(shown["timeout"] == 5, "timeout" in before)

    def test_a_broken_config_is_not_touched(self):
        source = self.put("s.json", {"mcpServers": {"n": {"command": "n"}}})
        os.makedirs(os.path.dirname(self.target))
        for before in ("{", "[]", '{"mcpServers": []}', '{"timeout": "x"}'):
            with open(self.target, "w") as f:
                f.write(before)
            self.assertIn("config", self.run_import(source, status=1))
            with open(self.target) as f:
                self.assertEqual(f.read(), before)
        self.assertEqual(os.listdir(os.path.dirname(self.target)), ["config.json"])

    def test_dry_run_and_other_places(self):
        source = self.put("s.json", {"mcpServers": {"n": {"command": "n"}}})
        text = self.run_import("--dry-run", source)
        self.assertIn('"n": {', text)
        self.assertFalse(os.path.exists(self.target))
        self.run_import(source, "--config", self.path("own.json"))
        with open(self.path("own.json")) as f:
            self.assertEqual(json.load(f), {"mcpServers": {"n": {"command": "n"}}})
        os.mkdir(self.path("d"))
        self.run_import(source, "--config", self.path("d"))
        self.assertTrue(os.path.exists(self.path("d/imported.json")))

    def test_a_link_stays_one(self):
        source = self.put("s.json", {"mcpServers": {"n": {"command": "n"}}})
        real = self.put("dotfiles/cloister.json", "{}")
        os.chmod(real, 0o640)
        os.makedirs(os.path.dirname(self.target))
        os.symlink(real, self.target)
        self.run_import(source)
        self.assertTrue(os.path.islink(self.target))
        self.assertEqual(os.stat(real).st_mode & 0o777, 0o640)
        self.assertIn("n", self.servers())

    def test_words(self):
        self.assertIn("did you mean \"cursor\"?", self.run_import("cursro", status=1))
        self.assertIn("No such file", self.run_import("./none.json", status=1))
        self.assertIn("no servers in it", self.run_import(self.put("x.json", "{}"), status=1))
        self.assertIn("nothing to take", self.run_import())
        self.assertFalse(os.path.exists(self.target))


class Taken(harness.Case):
    def test_what_was_imported_runs(self):
        with open(self.path("mcp.json"), "w") as f:
            json.dump({"mcpServers": {"add": harness.fixture()}}, f)
        done = self.run_cloister("config", "import", "./mcp.json", "--config", self.path("own.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_cloister("run", "--config", self.path("own.json"), "-c", "print((await mcp_add.add(a=1, b=2))['sum'])")
        self.assertEqual((done.returncode, done.stdout), (0, b"3\n"), done.stderr)


if __name__ == "__main__":
    harness.main()
