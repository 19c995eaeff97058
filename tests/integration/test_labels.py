"""Labels: what a session was given decides what it may send. Class 159."""

import json
import os
import sys

import harness
import rawmcp

# read_notes and count say that they reach nothing outside; get and send say nothing, so that they are untrusted and open.
SERVER = """
import json, sys
CLOSED = {"read_notes", "count", "broken"}
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}, "annotations": {"openWorldHint": name not in CLOSED}}
                            for name in ("read_notes", "count", "broken", "get", "send", "post", "tell")]}
    elif method == "tools/call":
        name = message["params"]["name"]
        result = {"content": [{"type": "text", "text": "did " + name}], "isError": name == "broken"}
    if result:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
RULES = [
    {"deny": "box.send", "sends": "open", "seen": ["private", "untrusted"], "why": "both"},
    {"deny": "box.get", "sends": "open", "seen": ["private"]},
    {"ask": ["box.post", "box.tell"], "sends": "open"},
]
LABELS = {"tools": {"read_*": {"returns": ["private"]}, "broken": {"returns": ["private"]}, "post": {"sends": "closed"}}}
TRY = "try:\n    r = await mcp_box.{}()\nexcept ToolError as e:\n    r = [type(e).__name__, str(e), getattr(e, 'rule', None), getattr(e, 'why', None)]\nr"


class Labels(rawmcp.ServerCase):
    @classmethod
    def servers(cls):
        cls.mounted = os.path.join(cls.class_dir, "mounted")
        os.mkdir(cls.mounted, 0o755)
        cls.CONFIG = {"rules": RULES, "profiles": {
            "mounted": {"agent": True, "mounts": [{"source": cls.mounted, "target": "/data", "private": True}]},
            "plain": {"agent": True, "mounts": [{"source": cls.mounted, "target": "/data"}]}}}
        os.chmod(cls.class_dir, 0o755)
        return {"box": {"command": sys.executable, "args": ["-c", SERVER], "labels": LABELS}}

    def attempt(self, tool, **arguments):
        return self.ok(TRY.format(tool), **arguments)["value"]["json"]

    def allowed(self, tool, **arguments):
        self.assertEqual(self.attempt(tool, **arguments), f"did {tool}")

    def denied(self, tool, *words, **arguments):
        result = self.attempt(tool, **arguments)
        self.assertEqual(result[0], "ToolDenied", result)
        for word in words:
            self.assertIn(word, result[1])
        return result

    def checked(self, code, **arguments):
        lines = self.ok(code, check_only=True, **arguments)["value"]["repr"].split("\n")[1:]
        return [line.partition("()")[2].partition(": config")[0] for line in lines]

    def test_check_only_regards_labels(self):
        send, notes, get = "await mcp_box.send()\n", "await mcp_box.read_notes()\n", "await mcp_box.get()\n"
        self.assertEqual(self.checked(send + "await mcp_box.count()\n"), ["", ""])
        # Labels that results of the same code may bring.
        self.assertEqual(self.checked(notes + send), ["", ""])
        self.assertEqual(self.checked(notes + get + send), ["", ": may be denied", ": may be denied"])
        # The config says that one sends nothing outside.
        self.assertEqual(self.checked("await mcp_box.post()\nawait mcp_box.tell()"), ["", ": would ask"])
        self.assertEqual(self.ok("[t.get('asks') for t in _discover() if t['name'] in ('post', 'tell')]")["value"]["json"], [None, "always"])
        # Labels that the session has.
        self.allowed("read_notes")
        self.assertEqual(self.checked(send + get), [": may be denied", ": would be denied"])
        self.allowed("send")
        self.assertEqual(self.checked(notes + send), ["", ": would be denied"])

    def test_a_label_of_a_result_denies_later_calls(self):
        for tool in ("count", "get", "send"):
            self.allowed(tool)
        self.allowed("read_notes")
        result = self.denied("get", "box.get was not sent", "private: box.read_notes (cell 4, call")
        self.assertIn("config.json line", result[2])
        self.assertIn("private: box.read_notes", result[3])
        self.denied("send", "both; the session has seen private: box.read_notes", "untrusted: box.get (cell 2, call", "box.send (cell 3")
        self.allowed("count")
        # The control: another session has read nothing.
        self.allowed("get", session="other")

    def test_both_labels_are_needed(self):
        self.allowed("read_notes")
        self.allowed("send")
        self.denied("send", "both")

    def test_a_result_that_is_an_error_counts(self):
        self.assertEqual(self.attempt("broken")[0], "ToolError")
        self.denied("get", "private: box.broken")

    def test_branches_have_the_labels_and_what_a_rollback_forgets_too(self):
        self.ok("x = 1", checkpoint="before")
        self.allowed("read_notes")
        self.denied("get", session="branch", **{"from": self.session})
        self.denied("get", "private: box.read_notes", restore="before")
        self.denied("get", session="old", **{"from": self.session + "@before"})
        self.denied("get")

    def test_a_new_sandbox_has_none(self):
        self.allowed("read_notes")
        self.denied("get")
        self.allowed("get", reset=True)

    def test_a_private_mount(self):
        self.denied("get", "private: mount /data", profile="mounted", session="m")
        self.allowed("get", profile="plain", session="p")

    def place(self, name, text=None):
        path = os.path.join(self.class_dir, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return path

    def test_files_of_cp(self):
        self.ok("1")
        path, server = self.place("secret.txt", "x"), str(self.server.process.pid)

        def copy(*words, status=0):
            done = self.run_cloister("cp", "--server", server, *words, cwd=self.class_dir)
            self.assertEqual(done.returncode, status, done)
            return done.stderr.decode()

        copy(path, f"{self.session}:")
        self.allowed("get")
        self.assertIn("private or untrusted", copy("--label", "secret", path, f"{self.session}:", status=2))
        self.assertIn("copied into a session", copy("--label", "private", f"{self.session}:secret.txt", self.place("back"), status=2))
        self.allowed("get")
        copy("--label", "private", path, f"{self.session}:other.txt")
        self.denied("get", "private: files of cp")

    def test_files_of_run(self):
        servers = {"box": {"command": sys.executable, "args": ["-c", SERVER], "labels": LABELS}}
        config = self.place("run.json", json.dumps({"mcpServers": servers, "rules": RULES}))
        code, path = TRY.format("get") + "\nprint(r)", self.place("secret.txt", "x")
        for words, expected in (((), "did get"), (("--label", "untrusted"), "did get"), (("--label", "private"), "private: files of --in")):
            done = self.run_cloister("run", "--config", config, "--in", path, *words, "-c", code, cwd=self.class_dir)
            self.assertIn(expected, done.stdout.decode(), done)
        done = self.run_cloister("run", "--config", config, "--label", "private", "-c", code, cwd=self.class_dir)
        self.assertEqual((done.returncode, b"--label needs --in" in done.stderr), (2, True), done)

    def test_calls_in_threads_and_by_name(self):
        self.allowed("read_notes")
        code = "import asyncio\ndef f():\n    try:\n        return tools['box.get'].sync()\n    except ToolError as e:\n        return type(e).__name__\nawait asyncio.to_thread(f)"
        self.assertEqual(self.ok(code)["value"]["json"], "ToolDenied")

    def test_many_results_take_no_more_memory(self):
        self.ok("import asyncio\nawait asyncio.gather(*(mcp_box.read_notes() for _ in range(3000)))\nNone")
        self.denied("get", "private: box.read_notes", "and 2999 more")


class Reloaded(harness.Case):
    def save(self, path, **rest):
        servers = {"box": {"command": sys.executable, "args": ["-c", SERVER], "labels": LABELS}}
        harness.replace_file(path, json.dumps({"mcpServers": servers, **rest}))

    def test_what_came_before_the_rule(self):
        """Labels of results were not kept then: the session has all of them."""
        path = self.path("config.json")
        self.save(path)
        with rawmcp.RawServer("--log-level", "info", "--config", path, cwd=self.dir) as server:
            server.initialize()
            self.assertEqual(server.cell(TRY.format("count"), session="a")["value"]["json"], "did count")
            self.assertEqual(server.cell("1", session="b")["status"], "ok")
            self.save(path, rules=RULES)
            self.assertTrue(harness.wait_until(lambda: "config was reloaded" in server.log()), server.log())
            self.assertIn("private: earlier results", str(server.cell(TRY.format("get"), session="a")["value"]["json"]))
            self.assertEqual(server.cell(TRY.format("get"), session="b")["value"]["json"], "did get")

    def test_mistakes(self):
        for labels, why in (({"returns": ["secret"]}, "a label is"), ({"sends": "yes"}, "sends must be"), ({"tools": {"a": {"x": 1}}}, "unknown key"), ([], "must be an object")):
            config = self.config({"box": {"command": "true", "labels": labels}})
            done = self.run_cloister("config", "check", "--config", config)
            self.assertIn(why, (done.stdout + done.stderr).decode(), labels)
        config = self.config({"box": {"command": "true", "labels": LABELS}})
        shown = json.loads(self.run_cloister("config", "show", "--json", "--config", config).stdout)
        self.assertEqual(shown["mcpServers"]["box"]["labels"], LABELS)

    def test_explain_takes_labels(self):
        config = self.config({"box": {"command": "true", "labels": LABELS}}, rules=RULES)

        def explain(tool, *seen):
            done = self.run_cloister("rules", "explain", tool, "{}", "--config", config, *seen)
            return done.returncode, (done.stdout or done.stderr).decode().split("\n")[0]

        for seen, send, get in ((), "allow", "allow"), (["--seen", "private"], "allow", "deny"), (["--seen", "untrusted"], "allow", "allow"), (["--seen", "untrusted,private"], "deny", "deny"):
            for tool, decision in ("box.send", send), ("box.get", get):
                status, line = explain(tool, *seen)
                self.assertEqual((status, line.split()[1].strip(",:")), (0, decision), (tool, seen, line))
        for seen in "secret", "private,", ",", "private untrusted", "privateprivateprivate":
            status, line = explain("box.send", "--seen", seen)
            self.assertEqual(status, 2, line)
            self.assertIn("private,untrusted is needed", line)


if __name__ == "__main__":
    harness.main()
