"""`cloister setup CLIENT --replace NAME`: the entry of another system starts Cloister, and --remove brings its bytes back."""

import json
import os
import pty
import re
import subprocess
import time
import tomllib

import harness

FILES = {"claude": ".claude.json", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json", "codex": ".codex/config.toml",
         "opencode": ".config/opencode/opencode.json", "vscode": ".config/Code/User/mcp.json", "qwen": ".qwen/settings.json"}
PODMAN = '{"CODEMODE_BACKEND": "podman", "CODEMODE_MCPS_DIR": "~/MCPs", "CODEMODE_LOG_FILE": "/tmp/x.log", "CODEMODE_LOG_LEVEL": "INFO"}'
SANDBOX = ("-m", "llm_sandbox.mcp_server.server")
EXEC = "mcp-python-exec-sandbox"
# The entries of the four systems' pages: (system, name of the entry, its words, variables, the words that are its own).
READMES = (
    ("codemode-lite", "codemode-lite", ["python3", "/path/to/codemode-lite/server.py"], json.loads(PODMAN), []),
    ("code-sandbox-mcp", "code-sandbox", ["code-sandbox-mcp"], None, []),
    ("code-sandbox-mcp", "code-sandbox", ["code-sandbox-mcp", "--pass-through-env", "API_KEY,SECRET_TOKEN"],
     {"API_KEY": "1234567890", "SECRET_TOKEN": "1234567890"}, ["--pass-through-env", "API_KEY,SECRET_TOKEN"]),
    ("code-sandbox-mcp", "code-sandbox", ["code-sandbox-mcp"], {"CONTAINER_IMAGE": "your-own-image", "CONTAINER_LANGUAGE": "python"}, []),
    *((EXEC, "python-sandbox", ["uvx", EXEC, "--sandbox-backend", backend], None, ["--sandbox-backend", backend])
      for backend in ("native", "docker", "none")),
    *((EXEC, "python-sandbox", ["uvx", EXEC, "--python-version", version], None, ["--python-version", version])
      for version in ("3.13", "3.15")),
    *(("llm-sandbox", "llm-sandbox", ["python3", *SANDBOX], env, []) for env in (
        None, {"BACKEND": "docker"}, {"BACKEND": "kubernetes", "NAMESPACE": "llm-sandbox"},
        {"BACKEND": "docker", "DOCKER_HOST": "unix:///var/run/docker.sock"}, {"BACKEND": "docker", "COMMIT_CONTAINER": "false"},
        {"BACKEND": "podman", "SANDBOX_NETWORK_MODE": "none", "SANDBOX_MEMORY": "4g", "SANDBOX_CPU_COUNT": "1"})),
)
# (system, words, how many of them start it); 0: they are not known.
COMMANDS = (
    ("codemode-lite", ["/venv/bin/python3.13", "-u", "-X", "utf8", "/opt/codemode-lite-main/server.py"], 5),
    ("codemode-lite", ["uv", "--directory", "/opt/codemode-lite", "run", "server.py"], 5),
    ("codemode-lite", ["uv", "run", "--with-requirements", "/opt/codemode/requirements.txt", "python", "/opt/codemode/server.py"], 6),
    ("codemode-lite", ["python3", "/opt/other/server.py"], 0),
    ("codemode-lite", ["python3", "-c", "codemode"], 0),
    ("code-sandbox-mcp", ["/home/x/.local/bin/code-sandbox-mcp", "--pass-through-env", "A"], 1),
    ("code-sandbox-mcp", ["uvx", "--from", "git+https://github.com/philschmid/code-sandbox-mcp.git", "code-sandbox-mcp"], 4),
    ("code-sandbox-mcp", ["uvx", "git+https://github.com/philschmid/code-sandbox-mcp.git@main"], 2),
    ("code-sandbox-mcp", ["python", "-m", "code_sandbox_mcp.server"], 3),
    ("code-sandbox-mcp", ["docker", "run", "code-sandbox-mcp"], 0),
    ("code-sandbox-mcp", ["sh", "-c", "code-sandbox-mcp"], 0),
    (EXEC, ["uvx", "--python", "3.13", "-q", EXEC + "@latest", "--max-timeout", "9"], 5),
    (EXEC, ["uv", "tool", "run", EXEC + "==0.1.4"], 4),
    (EXEC, ["pipx", "run", EXEC], 3),
    (EXEC, ["python3", "-m", "mcp_python_exec_sandbox", "--no-warm-cache"], 3),
    (EXEC, ["python3", "-mmcp_python_exec_sandbox.__main__"], 2),
    (EXEC, ["uvx", "mcp-python-sandbox"], 2),
    (EXEC, ["uvx", "--unknown-option", EXEC], 0),
    (EXEC, ["uvx", EXEC + "-fork"], 0),
    (EXEC, ["uvx", "--from", EXEC], 0),
    ("llm-sandbox", ["uvx", "--from=llm-sandbox[mcp-docker]", "python", *SANDBOX], 5),
    ("llm-sandbox", ["uv", "run", "-m", "llm_sandbox.mcp_server.server"], 4),
    ("llm-sandbox", ["python3", "/x/site-packages/llm_sandbox/mcp_server/server.py"], 2),
    ("llm-sandbox", ["python3", "-m", "llm_sandbox.mcp_server.other"], 0),
)


class Replace(harness.Case):
    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        os.mkdir(self.home)
        kept = {k: v for k, v in harness.environment().items() if k not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
        self.env = {**kept, "HOME": self.home, "XDG_CONFIG_HOME": self.home + "/.config", "XDG_STATE_HOME": self.home + "/.state"}

    def setup(self, *arguments, **env):
        return subprocess.run([harness.CLOISTER, "setup", *arguments], env={**self.env, **env}, stdin=subprocess.DEVNULL, cwd=self.home,
                              capture_output=True, text=True, timeout=60, check=False)

    def file(self, client, text=None):
        path = os.path.join(self.home, FILES[client])
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def replaced(self, client, system, text, *more):
        """Replaces, and returns the document then; checks that --remove brings `text` back."""
        path = self.file(client, text)
        before = self.read(path)
        done = self.setup(client, "--replace", system, "--yes", *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)
        after = self.read(path)
        done = self.setup(client, "--replace", system, "--remove", "--yes", *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)
        self.assertEqual(self.read(path), before)
        return after.decode()

    def stays(self, client, system, text, reason, *more):
        path = self.file(client, text)
        before = self.read(path)
        done = self.setup(client, "--replace", system, "--yes", *more)
        self.assertEqual((done.returncode, self.read(path)), (1, before), done.stdout)
        self.assertIn(reason, done.stderr)
        return done.stderr

    @staticmethod
    def as_json(name, words, env, key="mcpServers", indent=2):
        entry = {"command": words[0]}
        if words[1:]:
            entry["args"] = words[1:]
        if env:
            entry["env"] = env
        return json.dumps({"theme": "dark", key: {"other": {"command": "x", "args": []}, name: entry}, "n": 1}, indent=indent)

    @staticmethod
    def as_toml(name, words, env):
        args = f"args = {json.dumps(words[1:])}\n" if words[1:] else ""
        pairs = "".join(f"{k} = {json.dumps(v)}\n" for k, v in (env or {}).items())
        return (f'# mine\nmodel = "x"\n\n[mcp_servers.{name}]\ncommand = {json.dumps(words[0])}\n{args}startup_timeout_sec = 20\n'
                + (f"\n[mcp_servers.{name}.env]\n{pairs}" if env else "") + '\n[mcp_servers.other]\ncommand = "x"\n')

    @harness.once
    def test_each_readme_entry(self):
        for system, name, words, env, own in READMES:
            for client in ("claude", "cursor", "gemini", "codex"):
                with self.subTest(client=client, words=words, env=env):
                    text = self.as_toml(name, words, env) if client == "codex" else self.as_json(name, words, env)
                    load = tomllib.loads if client == "codex" else json.loads
                    key = "mcp_servers" if client == "codex" else "mcpServers"
                    old, new = load(text), load(self.replaced(client, system, text))
                    entry = new[key].pop(name)
                    rest = old[key].pop(name)
                    self.assertEqual(new, old)
                    self.assertEqual(entry.pop("command"), harness.CLOISTER)
                    self.assertEqual(entry.pop("args"), ["mcp", "--as", system, *own])
                    self.assertEqual(entry, {k: v for k, v in rest.items() if k not in ("command", "args")})

    def test_readmes_that_are_no_json(self):
        """As code-sandbox-mcp's page has two of them: a missing comma, and a comment of Python."""
        self.stays("cursor", "code-sandbox-mcp", '{"mcpServers": {"c": {"command": "code-sandbox-mcp",\n"args": ["--pass-through-env", "A"]\n'
                   '"env": {"A": "1"}}}}', "line 3")
        self.stays("gemini", "code-sandbox-mcp", '{"mcpServers": {"c": {"command": "code-sandbox-mcp", "env": {"A": "python" # or "javascript"\n}}}}',
                   "line 1")

    @harness.once
    def test_commands(self):
        for system, words, length in COMMANDS:
            with self.subTest(words=words):
                text = self.as_json("entry", words + ["--own", "x"] if length else words, None, indent=None)
                if length == 0:
                    self.stays("cursor", system, text, "has no entry that starts " + system)
                    continue
                entry = json.loads(self.replaced("cursor", system, text))["mcpServers"]["entry"]
                self.assertEqual(entry, {"command": harness.CLOISTER, "args": ["mcp", "--as", system, *words[length:], "--own", "x"]})

    def test_server_py_of_others(self):
        """Many servers have that file: its folder, its variables or the entry's name tell whose it is."""
        words = ["python3", "/opt/x/server.py"]
        self.stays("cursor", "codemode-lite", self.as_json("x", words, None), "has no entry")
        self.replaced("cursor", "codemode-lite", self.as_json("x", words, {"CODEMODE_TIMEOUT": "9"}))
        self.replaced("cursor", "codemode-lite", self.as_json("codemode-lite", words, None))

    def test_unknown_entries_stay(self):
        text = self.as_json("llm-sandbox", ["docker", "run", "-i", "x\x1b[2J"], None)
        error = self.stays("cursor", "llm-sandbox", text, 'the entry "llm-sandbox" stays: \'docker run -i x\\x1b[2J\' is not a known way to start')
        self.assertEqual(error.count("\n"), 2)
        for entry in ({"command": "llm-sandbox", "args": "x"}, {"command": "llm-sandbox", "args": [1]}, {"command": 5}, {"url": "https://llm-sandbox"},
                      {"command": ["llm-sandbox"], "args": []}, {"command": "llm-sandbox", "args": ["x"] * 200}):
            self.stays("cursor", "llm-sandbox", json.dumps({"mcpServers": {"a": entry}}), "has no entry that starts llm-sandbox")
        # One that is known is replaced beside it.
        both = {"mcpServers": {"llm-sandbox": {"command": "docker"}, "b": {"command": "llm-sandbox"}}}
        self.file("cursor", json.dumps(both))
        done = self.setup("cursor", "--replace", "llm-sandbox", "--yes")
        self.assertEqual(done.returncode, 0)
        self.assertIn('"llm-sandbox" stays', done.stderr)
        again = self.setup("cursor", "--replace", "llm-sandbox", "--yes")
        self.assertIn('the entry "b" starts Cloister already', again.stderr)

    LAYOUTS = (
        '{"mcpServers":{"s":{"command":"uvx","args":["%s","--a","b"],"env":{}}}}',
        '{"mcpServers": {"s": {"args" : [ "%s" , "--a", "b" ] , "env": {}, "command" : "uvx"}}}',
        '\ufeff{\r\n  "mcpServers": {\r\n    "s": {\r\n      "command": "uvx",\r\n      "args": ["%s", "--a", "b"],\r\n      "env": {}\r\n    }\r\n  }\r\n}\r\n',
        '{\n  // one\n  "mcpServers": {\n    "s": {\n      "command": "uvx", // why\n      "args": [\n        "%s", /* x */\n        "--a", // a\n        "b",\n'
        '      ],\n      "env": {},\n    },\n  },\n}\n',
        '{"mcpServers": {"s": {"command": "uvx", "args": [ // one\n"%s", "--a", "b"], "env": {}}}}',
        '{"mcpServers": {"s": {"comm\\u0061nd": "uvx", "args": ["\\u006dcp%s", "--a", "b"], "env": {}}}}',
        '{"a": 12345678901234567890.50, "mcpServers": {"s": {"command": "uvx", "args": ["%s", "--a", "b"], "env": {}}}, "z": "[\\"//"}',
    )

    @harness.once
    def test_layouts(self):
        for layout in self.LAYOUTS:
            with self.subTest(layout=layout):
                text = layout % (EXEC[3:] if "\\u006d" in layout else EXEC)
                after = self.replaced("cursor", EXEC, text)
                for part in ("// one", "// why", "// a", "890.50", "\ufeff"):
                    self.assertEqual(after.count(part), text.count(part))
                self.assertEqual("\r\n" in after, "\r\n" in text)
                entry = json.loads(re.sub(r",(\s*[]}])", r"\1", re.sub(r" // \w+| /\* x \*/|\n  // one", "", after.lstrip("\ufeff"))))["mcpServers"]["s"]
                self.assertEqual(entry, {"command": harness.CLOISTER, "args": ["mcp", "--as", EXEC, "--a", "b"], "env": {}})

    def test_without_args(self):
        for text in ('{"mcpServers": {"s": {"command": "code-sandbox-mcp"}}}', '{\n  "mcpServers": {\n    "s": {\n      "command": "code-sandbox-mcp",\n    }\n  }\n}',
                     '{\r\n"mcpServers": {\r\n"s": {\r\n\t"command": "code-sandbox-mcp", // c\r\n\t"env": {}}}}', '{"mcpServers": {"s": {"command": "code-sandbox-mcp", "args": [ ]}}}'):
            with self.subTest(text=text):
                self.assertIn('"args": ["mcp", "--as", "code-sandbox-mcp"', self.replaced("cursor", "code-sandbox-mcp", text))

    def replaced_toml(self, system, text):
        """The entry; comments and line breaks are as before."""
        after = self.replaced("codex", system, text)
        self.assertEqual([after.count(mark) for mark in ("# one", "# two", "# c")], [text.count(mark) for mark in ("# one", "# two", "# c")])
        self.assertEqual(after.count("\r\n"), after.count("\n") if "\r\n" in text else 0)
        return tomllib.loads(after)["mcp_servers"]["s"]

    @harness.once
    def test_toml_layouts(self):
        for text in (
            "[mcp_servers.s]\ncommand = 'uvx'\nargs = ['%s', '--a', \"b\"]\n" % EXEC,
            '[ mcp_servers . "s" ] # x\r\n"args" = [ # one\r\n  "%s", # two\r\n  "--a",\r\n  "b",\r\n]\r\ncommand="uvx" # c\r\nenv = { A = "]" }\r\n' % EXEC,
            'a = """\n[mcp_servers.s]\ncommand = "x"\n"""\n[[x]]\ncommand = 1\n[mcp_servers.s]\ncommand = """uvx"""\nargs = ["%s", "--a", "b"]' % EXEC,
        ):
            with self.subTest(text=text):
                entry = self.replaced_toml(EXEC, text)
                self.assertEqual((entry["command"], entry["args"]), (harness.CLOISTER, ["mcp", "--as", EXEC, "--a", "b"]))
        for text in ('[mcp_servers.s]\ncommand = "code-sandbox-mcp" # c\n', '[mcp_servers.s]\r\ncommand = "code-sandbox-mcp"\r\n\r\n[x]\r\n',
                     "[mcp_servers.s]\ncommand = 'code-sandbox-mcp'"):
            with self.subTest(text=text):
                entry = self.replaced_toml("code-sandbox-mcp", text)
                self.assertEqual(entry["args"], ["mcp", "--as", "code-sandbox-mcp"])
        for text in ('mcp_servers.s.command = "code-sandbox-mcp"\n', '[mcp_servers]\ns = { command = "code-sandbox-mcp" }\n',
                     '[mcp_servers.s]\n"com\\u006dand" = "code-sandbox-mcp"\n'):
            self.stays("codex", "code-sandbox-mcp", text, 'the layout of the entry "s" cannot be edited without a risk')
        self.stays("codex", "code-sandbox-mcp", "[mcp_servers.s\n", "config.toml")
        self.stays("codex", "code-sandbox-mcp", b'x = "\xff"\n', "config.toml")

    def test_projects_and_other_clients(self):
        entry = {"type": "stdio", "command": "uvx", "args": [EXEC, "--x"], "env": {}}
        text = json.dumps({"projects": {"/a/b.c": {"mcpServers": {"p": entry}}, "/d": {"x": 1}}, "mcpServers": {"p": entry}}, indent=2)
        new = json.loads(self.replaced("claude", EXEC, text))
        for servers in (new["projects"]["/a/b.c"]["mcpServers"], new["mcpServers"]):
            self.assertEqual(servers["p"]["args"], ["mcp", "--as", EXEC, "--x"])
        project = self.write("home/.mcp.json", self.as_json("p", ["uvx", EXEC], None))
        self.file("claude", "{}")
        self.assertIn(f"--replace {EXEC} FILE", self.stays("claude", EXEC, "{}", "has no entry"))
        self.assertEqual(self.setup("claude", "--replace", EXEC, ".mcp.json", "--yes").returncode, 0)
        self.assertIn('"--as"', self.read(project).decode())
        self.assertEqual(self.setup("claude", "--replace", EXEC, "--remove", "./.mcp.json", "--yes").returncode, 0)
        new = json.loads(self.replaced("opencode", EXEC, json.dumps({"mcp": {"p": {"type": "local", "command": ["uvx", EXEC, "--x"]}}})))
        self.assertEqual(new["mcp"]["p"]["command"], [harness.CLOISTER, "mcp", "--as", EXEC, "--x"])
        self.assertIn("servers", json.loads(self.replaced("vscode", EXEC, self.as_json("p", ["uvx", EXEC], None, "servers"))))

    def test_remove_after_the_client_wrote_its_file(self):
        """A client lays its file out anew, and adds to it."""
        path = self.file("claude", self.as_json("s", ["code-sandbox-mcp"], {"A": "1"}, indent=4))
        self.assertEqual(self.setup("claude", "--replace", "code-sandbox-mcp", "--yes").returncode, 0)
        document = json.loads(self.read(path))
        document["added"] = [1, 2]
        self.file("claude", json.dumps(document, separators=(",", ":")))
        self.assertEqual(self.setup("claude", "--replace", "code-sandbox-mcp", "--remove", "--yes").returncode, 0)
        document["mcpServers"]["s"] = {"command": "code-sandbox-mcp", "env": {"A": "1"}}
        self.assertEqual(json.loads(self.read(path)), document)
        # An entry that a person changed since stays.
        self.assertEqual(self.setup("claude", "--replace", "code-sandbox-mcp", "--yes").returncode, 0)
        self.file("claude", self.read(path).replace(b'"code-sandbox-mcp"]', b'"code-sandbox-mcp","--mine"]'))
        before = self.read(path)
        done = self.setup("claude", "--replace", "code-sandbox-mcp", "--remove", "--yes")
        self.assertEqual((done.returncode, self.read(path)), (1, before))
        self.assertIn('the entry "s" was changed or removed since: it stays', done.stderr)
        self.assertIn("no entry of it was replaced", self.setup("cursor", "--replace", "llm-sandbox", "--remove", "--yes").stderr
                      if self.file("cursor", "{}") else "")

    def test_the_record(self):
        self.file("cursor", self.as_json("s", ["llm-sandbox", "--token", "secret"], None))
        self.assertEqual(self.setup("cursor", "--replace", "llm-sandbox", "--yes").returncode, 0)
        record = self.home + "/.state/cloister/replaced.json"
        self.assertEqual(os.stat(record).st_mode & 0o777, 0o600)
        self.assertIn("secret", self.read(record).decode())
        for text in (b"{", b'[{"file": 1}]', b"[" + b"1," * 5, b'[{"keys": []}]'):
            with open(record, "wb") as f:
                f.write(text)
            done = self.setup("cursor", "--replace", "llm-sandbox", "--remove", "--yes")
            self.assertEqual(done.returncode, 1)
            self.assertIn("replaced.json", done.stderr)

    def test_shown_and_asked(self):
        # Characters that JSON may have as they are.
        path = self.file("cursor", self.as_json("s", ["python3", *SANDBOX, "MARK"], None).replace("MARK", "\x7f\u009b31m\u202e"))
        before = self.read(path)
        done = self.setup("cursor", "--replace", "llm-sandbox", "--dry-run")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f'{path}, mcpServers.s:\n- command: "python3"\n', done.stdout)
        self.assertIn(f'+ command: "{harness.CLOISTER}"\n', done.stdout)
        self.assertEqual(set(done.stdout) & set("\x7f\u009b\u202e"), set())
        self.assertIn("no terminal to ask at", self.setup("cursor", "--replace", "llm-sandbox").stderr)
        for answer in (b"n\n", b"y\n"):
            outer, inner = pty.openpty()
            self.addCleanup(os.close, outer)
            child = subprocess.Popen([harness.CLOISTER, "setup", "cursor", "--replace", "llm-sandbox"], env=self.env, stdin=inner, stdout=inner,
                                     stderr=inner)
            os.close(inner)
            os.write(outer, answer)
            self.assertEqual(child.wait(harness.patient(30)), int(answer == b"n\n"))
            self.assertEqual(self.read(path) == before, answer == b"n\n")

    def test_a_client_that_writes_meanwhile(self):
        """While the question waits for its answer."""
        for command in (["--replace", "llm-sandbox"], []):
            path = self.file("cursor", self.as_json("s", ["llm-sandbox"], None))
            outer, inner = pty.openpty()
            self.addCleanup(os.close, outer)
            child = subprocess.Popen([harness.CLOISTER, "setup", "cursor", *command], env=self.env, stdin=inner, stdout=subprocess.PIPE,
                                     stderr=inner)
            os.close(inner)
            self.addCleanup(child.stdout.close)
            self.assertIn(b"mcp.json", child.stdout.readline())
            seen, end = b"", time.monotonic() + harness.PATIENCE
            while b"Write it?" not in seen and time.monotonic() < end:
                seen += os.read(outer, 1024)
            self.file("cursor", b'{"mcpServers": {}, "client": "wrote this"}')
            os.write(outer, b"y\n")
            self.assertEqual(child.wait(harness.patient(30)), 1)
            self.assertIn(b"wrote this", self.read(path))
            while b"meanwhile" not in seen and time.monotonic() < end:
                seen += os.read(outer, 1024)

    def test_files_that_are_not_touched(self):
        text = self.as_json("s", ["llm-sandbox"], None)
        real = self.write("real.json", text)
        path = self.file("cursor", "")
        os.unlink(path)
        os.symlink(real, path)
        self.assertEqual(self.setup("cursor", "--replace", "llm-sandbox", "--yes").returncode, 0)
        self.assertTrue(os.path.islink(path))
        self.assertIn("--as", self.read(real).decode())
        self.assertEqual(self.setup("cursor", "--replace", "llm-sandbox", "--remove", "--yes").returncode, 0)
        self.assertEqual(self.read(real).decode(), text)
        os.unlink(path)
        os.mkfifo(path)
        self.assertIn("is not a regular file", self.setup("cursor", "--replace", "llm-sandbox", "--yes").stderr)
        self.assertIn("is not a regular file", self.setup("cursor", "--yes").stderr)
        os.unlink(path)
        self.assertIn("does not exist", self.setup("cursor", "--replace", "llm-sandbox", "--yes").stderr)
        self.assertIn("larger than the limit", self.setup("cursor", "--replace", "llm-sandbox", "--yes").stderr
                      if self.file("cursor", b" " * (33 << 20)) else "")
        if harness.ROOT:
            self.file("cursor", text)
            os.chown(path, 1000, 1000)
            for command in (["--replace", "llm-sandbox"], []):
                done = self.setup("cursor", *command, "--yes")
                self.assertEqual((done.returncode, self.read(path).decode()), (1, text))
                self.assertIn("belongs to uid 1000", done.stderr)
            os.unlink(path)
            os.symlink(real, path)
            os.lchown(path, 1000, 1000)
            self.assertIn("belongs to uid 1000", self.setup("cursor", "--replace", "llm-sandbox", "--yes").stderr)
        else:
            self.assertIn("belongs to root", self.setup("cursor", "--replace", "llm-sandbox", "/etc/passwd", "--yes").stderr)

    def test_wrong_words(self):
        for arguments, status, reason in ((("cursor", "--replace", "llm-sandbx"), 1, "did you mean llm-sandbox"),
                                          (("cursor", "--replace", "x"), 1, "it takes one of codemode-lite, code-sandbox-mcp, "),
                                          (("emacs", "--replace", "llm-sandbox"), 1, "no client 'emacs'"), (("cursor", "file"), 2, "goes with --replace")):
            done = self.setup(*arguments)
            self.assertEqual(done.returncode, status)
            self.assertIn(reason, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    harness.main()
