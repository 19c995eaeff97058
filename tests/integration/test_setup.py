"""`cloister setup`: it changes only its entry in the config of a client."""

import glob
import json
import os
import pty
import shutil
import struct
import subprocess
import tomllib
import unittest

import harness

OURS = {"command": harness.CLOISTER, "args": ["mcp"]}
# client: (file below HOME, where in it)
CLIENTS = {
    "claude": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
    "qwen": (".qwen/settings.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
}


class Setup(harness.Case):
    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        os.mkdir(self.home)
        kept = {key: value for key, value in harness.environment().items() if key not in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")}
        self.env = {**kept, "HOME": self.home}

    def setup(self, *arguments, **env):
        return subprocess.run([harness.CLOISTER, "setup", *arguments], env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def file(self, client, text=None):
        path = os.path.join(self.home, CLIENTS[client][0])
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(text)
        return path

    def read(self, path):
        with open(path, encoding="utf-8", newline="") as f:
            return f.read()

    def entry(self, client):
        text = self.read(self.file(client))
        document = tomllib.loads(text) if client == "codex" else json.loads(text)
        return document[CLIENTS[client][1]]["cloister"]

    def test_each_client(self):
        for client in CLIENTS:
            with self.subTest(client=client):
                done = self.setup(client, "--yes")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(self.file(client), done.stdout)
                entry = self.entry(client)
                command = entry["command"] if client != "opencode" else entry["command"][0]
                self.assertEqual(command, harness.CLOISTER)
                again = self.setup(client, "--yes")
                self.assertEqual((again.returncode, again.stderr), (1, f"cloister: {self.file(client)} has an entry \"cloister\" already: "
                                                                        f"'cloister setup {client} --remove' takes it out\n"))
                done = self.setup(client, "--remove", "--yes")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertNotIn("cloister", self.read(self.file(client)))
                self.assertIn("has no entry", self.setup(client, "--remove", "--yes").stderr)

    def test_the_entry_starts_cloister(self):
        self.setup("cursor", "--yes")
        entry = self.entry("cursor")
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                   "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        done = subprocess.run([entry["command"], *entry["args"]], env=harness.environment(), input=json.dumps(request) + "\n",
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"], "cloister")

    JSON = (
        '{}', '{"mcpServers": {}}', '{\n}\n', '{"other": [1, {"mcpServers": 2}]}', '{"mcpServers": {"a": {"x": "},{"}}}',
        '{\n  // one\n  "mcpServers": {\n    "a": {"command": "x"} // last\n  },\n}\n',
        '{\n  "mcpServers": {\n    "a": {"command": "/*"}, /* after */\n  },\n  "z": "\\"//"\n}\n',
        '\ufeff{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n', '{"n": 12345678901234567890.5, "mcpServers": {"\\u0063": 1}}',
    )

    def test_the_rest_of_the_file_stays(self):
        for text in self.JSON:
            with self.subTest(text=text):
                path = self.file("cursor", text)
                self.assertEqual(self.setup("cursor", "--yes").returncode, 0)
                written = self.read(path)
                at = iter(written)
                self.assertTrue(all(c in at for c in text), written)
                self.assertEqual(self.setup("cursor", "--remove", "--yes").returncode, 0)
                after = self.read(path)
                self.assertNotIn('"cloister"', after)
                if '"mcpServers": {\n' in text:
                    self.assertEqual(after, text)

    def test_an_entry_in_any_place_is_removed(self):
        for text, after in (
            ('{"mcpServers": {"cloister": {"a": [1, "]"]}}}', '{"mcpServers": {}}'),
            ('{"mcpServers": {"a": 1, "cloister": {}}}', '{"mcpServers": {"a": 1 }}'),
            ('{"mcpServers": {"a": 1 /* , */, // x,\n "cloister": null}}', '{"mcpServers": {"a": 1 /* , */ // x,\n }}'),
            ('{"mcpServers": {"cloister": "x,}", "b": {"cloister": 2}}}', '{"mcpServers": { "b": {"cloister": 2}}}'),
            ('{"mcpServers": {"a": 1,\n  "cloister": 2,\n  "b": 3\n}}', '{"mcpServers": {"a": 1,\n  "b": 3\n}}'),
        ):
            with self.subTest(text=text):
                path = self.file("cursor", text)
                done = self.setup("cursor", "--remove", "--yes")
                self.assertEqual((done.returncode, done.stderr, self.read(path)), (0, "", after))

    def test_toml(self):
        for text in ('# mine\nmodel = "x"\n\n[mcp_servers.a]\ncommand = "x"\n', '[a]\nb = """\n[mcp_servers.cloister]\n"""\n', 'x = 1'):
            with self.subTest(text=text):
                path = self.file("codex", text)
                self.assertEqual(self.setup("codex", "--yes").returncode, 0)
                self.assertEqual(self.read(path)[:len(text)], text)
                self.assertEqual(self.entry("codex"), {**OURS, "required": True, "tool_timeout_sec": 600})
                done = self.setup("codex", "--remove", "--yes")
                # A line of a text that looks like the entry's is not taken for it: the file stays as it is.
                if "cloister" in text:
                    self.assertIn("edit it by hand", done.stderr)
                    continue
                self.assertEqual(self.read(path).rstrip("\n"), text.rstrip("\n"))

    def test_what_is_not_understood_stays(self):
        for client, text, reason in (
            ("cursor", '{"mcpServers": [1]}', "mcpServers must be an object"),
            ("cursor", "[]", "the file must be an object"),
            ("cursor", '{"mcpServers": {', "line 1"),
            ("cursor", "", "cursor/mcp.json"),
            ("codex", "x = [", "config.toml"),
            ("codex", "mcp_servers = {a = {command = 'x'}}\n", "edit it by hand"),
        ):
            with self.subTest(text=text):
                path = self.file(client, text)
                done = self.setup(client, "--yes")
                self.assertEqual((done.returncode, self.read(path)), (1, text), done.stdout)
                self.assertIn(reason, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_what_code_can_change_is_said(self):
        self.assertNotIn("tools", self.setup("claude", "--yes").stdout)
        os.makedirs(f"{self.home}/.config/cloister")
        with open(f"{self.home}/.config/cloister/config.json", "w", encoding="utf-8") as f:
            json.dump({"mcpServers": {"a": harness.fixture(env={"TEST": self.dir})}}, f)  # no other run knows it
        self.assertIn("the tools of 1 server are not known before the first start: 'cloister tools'", self.setup("cursor", "--yes").stdout)
        count = [harness.CLOISTER, "tools", "--count"]
        listed = [harness.CLOISTER, "tools"]

        def known():
            subprocess.run(listed, env=self.env, stdout=subprocess.DEVNULL, check=True)
            return subprocess.run(count, env=self.env, stdout=subprocess.PIPE, text=True, check=True).stdout

        self.assertTrue(harness.wait_until(lambda: "may change things (no readOnlyHint)" in known()))
        self.assertTrue(self.setup("gemini", "--yes").stdout.endswith(known()))
        self.assertNotIn("readOnlyHint", self.setup("gemini", "--remove", "--yes").stdout)
        # A config that cannot be used does not make it fail.
        with open(f"{self.home}/.config/cloister/config.json", "w", encoding="utf-8") as f:
            f.write("{")
        self.assertTrue(self.setup("qwen", "--yes").stdout.endswith("'cloister tools' says how many tools may change things\n"))

    def test_nothing_is_written_unasked(self):
        for arguments, status in (((), 1), (("--dry-run",), 0)):
            done = self.setup("claude", *arguments)
            self.assertEqual(done.returncode, status)
            self.assertIn('"command": "' + harness.CLOISTER, done.stdout)
            self.assertFalse(os.path.exists(self.file("claude")))
        self.assertIn("no terminal to ask at", self.setup("claude").stderr)

    def test_a_terminal_is_asked(self):
        for answer, written in ((b"n\n", False), (b"\n", False), (b"y\n", True)):
            with self.subTest(answer=answer):
                outer, inner = pty.openpty()
                self.addCleanup(os.close, outer)
                child = subprocess.Popen([harness.CLOISTER, "setup", "claude"], env=self.env, stdin=inner, stdout=inner, stderr=inner)
                os.close(inner)
                os.write(outer, answer)
                self.assertEqual(child.wait(30), 0 if written else 1)
                self.assertEqual(os.path.exists(self.file("claude")), written)

    def test_where_the_file_is(self):
        self.assertEqual(self.setup("claude", "--yes", CLAUDE_CONFIG_DIR=self.path("c")).returncode, 0)
        self.assertTrue(os.path.exists(self.path("c/.claude.json")))
        self.assertEqual(self.setup("vscode", "--yes", XDG_CONFIG_HOME=self.path("x")).returncode, 0)
        self.assertTrue(os.path.exists(self.path("x/Code/User/mcp.json")))
        commented = self.file("opencode", "{}") + "c"
        os.rename(commented[:-1], commented)
        self.assertEqual(self.setup("opencode", "--yes").returncode, 0)
        self.assertIn("cloister", self.read(commented))
        self.assertIn("HOME is not set", self.setup("claude", "--yes", HOME="").stderr)

    def test_a_link_and_the_mode_stay(self):
        path = self.file("claude")
        real = self.path("dotfiles.json")
        with open(real, "w", encoding="utf-8") as f:
            f.write("{}")
        os.chmod(real, 0o640)
        os.symlink(real, path)
        self.assertEqual(self.setup("claude", "--yes").returncode, 0)
        self.assertTrue(os.path.islink(path))
        self.assertEqual(os.stat(real).st_mode & 0o777, 0o640)
        self.assertIn("cloister", self.read(real))

    def test_a_private_file_gets_no_readers(self):
        """The group stays, and the bits that an access control list shows as the group's do not become the group's."""
        path = self.file("claude")
        with open(path, "w", encoding="utf-8") as f:
            f.write("{}")
        group = 54321 if os.geteuid() == 0 else os.getegid()
        os.chown(path, -1, group)
        os.chmod(path, 0o640)
        self.assertEqual(self.setup("claude", "--yes").returncode, 0)
        self.assertEqual((os.stat(path).st_gid, os.stat(path).st_mode & 0o777), (group, 0o640))
        self.assertEqual(glob.glob(path + ".*"), [])
        with open(path, "w", encoding="utf-8") as f:
            f.write("{}")
        if not self.set_list(path, "access"):
            return  # the file system has no lists
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
        self.assertEqual(self.setup("claude", "--yes").returncode, 0)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    @staticmethod
    def set_list(path, kind):
        """Gives the user 65534 the right to read, by an access control list. False: the file system has none."""
        entries = ((1, 6, 0xFFFFFFFF), (2, 4, 65534), (4, 0, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
        try:
            os.setxattr(path, f"system.posix_acl_{kind}", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
        except OSError:
            return False
        return True

    def test_a_directory_whose_new_files_have_readers(self):
        """The list that the directory gives to a new file would let them read the new config."""
        path = self.file("claude")
        with open(path, "w", encoding="utf-8") as f:
            f.write("{}")
        os.chmod(path, 0o640)
        if not self.set_list(os.path.dirname(path), "default"):
            return
        self.assertEqual(self.setup("claude", "--yes").returncode, 0)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
        self.assertNotIn("system.posix_acl_access", os.listxattr(path))

    def test_wrong_words(self):
        for arguments, status, reason in (((), 2, "needs the name of a client"), (("cursr",), 1, "did you mean cursor?"),
                                          (("emacs",), 1, "examples/clients.md")):
            done = self.setup(*arguments)
            self.assertEqual(done.returncode, status)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    harness.main()
