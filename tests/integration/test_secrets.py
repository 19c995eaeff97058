"""Secrets in the arguments of tools: the server gets the value, and nothing else of the session ever contains it."""

import base64
import http.server
import json
import os
import re
import sys
import threading
import urllib.parse

import harness
import rawmcp

ENV = "pw-Zürich \"quoted\" 4711/+x"
FILE = "file-value-0123456789"
COMMAND = "command-value-abcdefg"
NUMBER = "8812345677"

# An MCP server that shows what it got, in many forms, and everywhere that a server can put text.
SERVER = r'''
import base64, json, re, sys, urllib.parse
def put(**m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def forms(p):
    if not isinstance(p, str): return []
    raw = p.encode()
    return [p, "x" + p + "y", json.dumps({"p": p}), json.dumps(p, ensure_ascii=False), urllib.parse.quote(p, safe=""), urllib.parse.quote_plus(p),
            re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(p, safe=""))] + [base64.b64encode(b"q" * i + raw + b"tail").decode() for i in range(3)] + [
            base64.urlsafe_b64encode(b"q" * i + raw).decode() for i in range(3)]
seen = open(sys.argv[1], "a")
for line in sys.stdin:
    m = json.loads(line)
    if "method" not in m or "id" not in m: continue
    method, params = m["method"], m.get("params", {})
    if method == "initialize":
        put(id=m["id"], result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "m", "version": "1"}})
    elif method == "tools/list":
        put(id=m["id"], result={"tools": [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in ("connect", "other", "fail", "crash", "large", "number")]})
    elif method == "tools/call":
        a, name = params["arguments"], params["name"]
        print(json.dumps([name, a]), file=seen, flush=True)
        p = a.get("password")
        print("the password is", p, file=sys.stderr, flush=True)
        token = params.get("_meta", {}).get("progressToken")
        if token is not None: put(method="notifications/progress", params={"progressToken": token, "progress": 1, "message": f"with {p}"})
        put(method="notifications/message", params={"level": "error", "data": {"said": p}})
        if name == "fail": put(id=m["id"], error={"code": -32000, "message": f"refused {p}", "data": {"p": forms(p)}})
        elif name == "crash": print("Error: bad password", p, file=sys.stderr, flush=True); sys.exit(3)
        elif name == "large": put(id=m["id"], result={"content": [{"type": "text", "text": "a" * a.get("n", 3000000) + str(p) + "b" * 10}]})
        elif name == "number": put(id=m["id"], result={"content": [], "structuredContent": {"n": int(a["pin"]), "name of " + a["pin"]: 1}})
        else: put(id=m["id"], result={"content": [{"type": "text", "text": f} for f in forms(p)], "structuredContent": {"all": forms(p), str(p): 1}})
    else: put(id=m["id"], error={"code": -32601, "message": "no"})
'''


class Secrets(harness.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        self.seen = self.write("seen", "")
        os.chmod(self.seen, 0o666)
        self.script = self.write("server.py", SERVER)
        self.write("secret", FILE + "\n")
        os.chmod(self.path("secret"), 0o644)

    def mail(self):
        return {"command": sys.executable, "args": [self.script, self.seen]}

    def secrets(self):
        return {
            "ENV": {"from": {"env": "TEST_SECRET"}, "arguments": {"mail.connect": ["/password"], "mail.fail": ["/password"], "mail.crash": ["/password"],
                                                                  "mail.large": ["/password"]}},
            "FILE": {"from": {"file": self.path("secret")}, "arguments": {"mail.connect": ["/deep/0/p~1q", "/password"]}},
            "COMMAND": {"from": {"command": ["/bin/sh", "-c", f"echo {COMMAND}; echo more"]}, "arguments": {"mail.connect": ["/password"]}},
            "PIN": {"from": {"command": ["echo", NUMBER]}, "arguments": {"mail.number": ["/pin"]}},
        }

    def server(self, *arguments, **keys):
        keys = {"secrets": self.secrets(), **keys}
        config = self.config({"mail": self.mail()}, **keys)
        server = rawmcp.RawServer("--log-level", "debug", "--config", config, *arguments,
                                  env=harness.environment(TEST_SECRET=ENV), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def got(self):
        with open(self.seen, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def check_absent(self, text, *values):
        for value in values or (ENV, FILE, COMMAND, NUMBER):
            self.assertFalse(value in text or json.dumps(value)[1:-1] in text, text)
            for part in (urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)):
                self.assertNotIn(part, text)
                self.assertNotIn(re.sub("%..", lambda m: m[0].lower(), part), text)
            for i in range(3):
                inner = base64.b64encode(b"q" * i + value.encode()).decode()[4:-8]
                self.assertNotIn(inner, text)

    def test_values_reach_the_server_and_nothing_else(self):
        server = self.server()
        cell = server.cell("r = await mcp_mail.connect(password='${secret:ENV}', deep=[{'p/q': '${secret:FILE}'}], note='${secret:ENV}', near='x${secret:ENV}')\nr")
        self.assertEqual(cell["status"], "ok", cell)
        # The listed pointers only, and the whole string only.
        self.assertEqual(self.got(), [["connect", {"password": ENV, "deep": [{"p/q": FILE}], "note": "${secret:ENV}", "near": "x${secret:ENV}"}]])
        text = json.dumps(cell, ensure_ascii=False)
        self.check_absent(text)
        self.assertIn("${secret:ENV}", text)
        # A tool that is not listed gets the text; so does one whose pointer is not.
        server.cell("await mcp_mail.other(password='${secret:ENV}')")
        server.cell("await mcp_mail.connect(password='${secret:PIN}', deep=1)")
        server.cell("await mcp_mail.connect(password='${secret:COMMAND}')")
        self.assertEqual([a["password"] for _, a in self.got()[1:]], ["${secret:ENV}", "${secret:PIN}", COMMAND])
        # Errors, progress, log messages, standard error, results that come through a file, numbers, names.
        seen = []
        for code in ("await mcp_mail.fail(password='${secret:ENV}')", "await mcp_mail.large(password='${secret:ENV}')", "await mcp_mail.number(pin='${secret:PIN}')",
                     "await mcp_mail.crash(password='${secret:ENV}')"):
            cell = server.cell(f"try:\n    r = {code}\n    r = r if len(str(r)) < 5000 else str(r)[-500:]\nexcept ToolError as e:\n    r = [type(e).__name__, str(e), repr(vars(e))]\nr")
            seen.append(json.dumps(cell, ensure_ascii=False))
            self.check_absent(seen[-1])
        self.assertIn("${secret:ENV}", seen[0])
        self.assertIn("${secret:ENV}bbbb", seen[1])
        self.assertIn("${secret:PIN}", seen[2])
        self.assertIn("mail", seen[3])
        self.assertEqual([a.get("password") for _, a in self.got()[4:] if "pin" not in a], [ENV, ENV, ENV])
        self.assertEqual([a["pin"] for _, a in self.got() if "pin" in a], [NUMBER])
        # Memory, files, environment of the session.
        cell = server.cell(SCAN.replace("FORMS", json.dumps([base64.b64encode(v.encode()[::-1]).decode() for v in (ENV, FILE, COMMAND, NUMBER)])))
        self.assertEqual(cell["value"]["json"], [[], True], cell)
        # Progress and messages of the server, which its client gets.
        notes = json.dumps(server.notes, ensure_ascii=False)
        self.check_absent(notes)
        server.close()
        self.check_absent(server.log())
        self.assertIn("the password is ***", server.log())
        self.assertIn("its stderr says: Error: bad password ***", server.log())

    def test_code_does_not_choose_where_a_value_goes(self):
        two = {"secrets": {"OWN": {"from": {"file": self.path("secret")}, "arguments": {"mail.connect": ["/password"]}}}, "agent": True}
        rules = [{"deny": "mail.*", "when": {"/password": {"one_of": [ENV, FILE]}}},
                 {"deny": "mail.other", "when": {"/password": {"equals": "${secret:FILE}"}}}]
        config = self.config({"mail": self.mail(), "mail2": self.mail()}, secrets=self.secrets(), profiles={"two": two}, rules=rules)
        server = rawmcp.RawServer("--config", config, env=harness.environment(TEST_SECRET=ENV), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        tries = {
            "another server": "mcp_mail2.connect(password='${secret:ENV}')",
            "a part of a string": "mcp_mail.connect(password='Bearer ${secret:ENV}')",
            "twice": "mcp_mail.connect(password='${secret:${secret:ENV}}')",
            "a name": "mcp_mail.connect(**{'${secret:ENV}': 1})",
            "another place": "mcp_mail.connect(passwords={'password': '${secret:ENV}'}, list=['${secret:ENV}'])",
            "a name with the characters of a pointer": "mcp_mail.connect(**{'deep/0/p~1q': '${secret:FILE}', '/password': '${secret:ENV}'})",
            "another secret": "mcp_mail.fail(password='${secret:FILE}')",
            "no secret": "mcp_mail.connect(password='${secret:NOT_SET}', more='${env:TEST_SECRET} ${TEST_SECRET} $TEST_SECRET')",
        }
        for name, call in tries.items():
            server.cell(f"try:\n    await {call}\nexcept ToolError:\n    pass")
            self.check_absent(json.dumps(self.got()[-1:], ensure_ascii=False))
        self.assertEqual(len(self.got()), len(tries))
        # A profile has its own secrets only. The control: its own one is put in.
        for name, expected in (("ENV", "${secret:ENV}"), ("OWN", FILE)):
            server.cell(f"await mcp_mail.connect(password='${{secret:{name}}}')", profile="two", session="two")
            self.assertEqual(self.got()[-1][1]["password"], expected)
        # Rules see the name: the first one matches the values only.
        cell = server.cell("try:\n    await mcp_mail.other(password='${secret:FILE}')\nexcept ToolDenied:\n    r = 'denied'\nr")
        self.assertEqual(cell["value"]["json"], "denied")
        server.cell("await mcp_mail.connect(password='${secret:ENV}')")
        self.assertEqual(self.got()[-1][1]["password"], ENV)
        # A session of another profile does not get the value either.
        cell = server.cell("await mcp_mail.connect(password='file-value-' + '0123456789x')")
        self.assertNotIn(FILE, json.dumps(cell["value"]))
        server.close()

    def test_the_example_of_the_page(self):
        with open(os.path.join(harness.SOURCE, "docs/secrets.md"), encoding="utf-8") as f:
            page = f.read()
        config, code = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("json", "python"))
        os.mkdir(self.path("bin"))
        for name, text in (("pass", 'echo "$1-password-of-pass"'), ("mail-server", f"exec {sys.executable} {self.script} {self.seen}")):
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n")
            os.chmod(self.path(f"bin/{name}"), 0o755)
        os.chmod(self.path("bin"), 0o755)
        env = harness.environment()
        env["PATH"] = self.path("bin") + ":" + env["PATH"]
        server = rawmcp.RawServer("--config", self.write("page.json", config), env=env, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        cell = server.cell(code)
        self.assertEqual(self.got(), [["connect", {"user": "me", "password": "smtp-password-of-pass"}]])
        self.check_absent(json.dumps(cell), "smtp-password-of-pass")
        server.close()

    def test_a_server_over_http(self):
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", kind="application/json"):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer(405)

            do_DELETE = do_GET

            def do_POST(self):
                m = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "id" not in m:
                    return self.answer(202)
                result = {"content": []}
                if m["method"] == "initialize":
                    result = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
                elif m["method"] == "tools/list":
                    result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("connect", "broken")]}
                elif m["method"] == "tools/call":
                    p = m["params"]["arguments"]["password"]
                    seen.append(p)
                    if m["params"]["name"] == "broken":
                        return self.answer(500, f"no luck with {p}".encode(), "text/plain")
                    text = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [{"type": "text", "text": f"got {p}"}]}})
                    return self.answer(200, f"event: message\ndata: {text}\n\n".encode(), "text/event-stream")
                elif m["method"] not in ("ping",):
                    return self.answer(200, json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}).encode())
                return self.answer(200, json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}).encode())

        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        secrets = {"ENV": {"from": {"env": "TEST_SECRET"}, "arguments": {"far.connect": ["/password"], "far.broken": ["/password"]}}}
        config = self.config({"far": {"url": f"http://127.0.0.1:{web.server_port}/mcp"}}, secrets=secrets)
        server = rawmcp.RawServer("--log-level", "debug", "--config", config, env=harness.environment(TEST_SECRET=ENV), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        cell = server.cell("str(await mcp_far.connect(password='${secret:ENV}'))")
        self.assertIn("got ${secret:ENV}", cell["value"]["json"])
        broken = server.cell("try:\n    await mcp_far.broken(password='${secret:ENV}')\nexcept ToolError as e:\n    r = repr(e)\nr")
        self.assertIn("500", broken["value"]["json"])
        self.check_absent(json.dumps([cell, broken], ensure_ascii=False))
        self.assertEqual(seen, [ENV, ENV])
        server.close()
        self.check_absent(server.log())

    def test_a_reload_reads_them_again(self):
        secrets = {"FILE": {"from": {"file": self.path("secret")}, "arguments": {"mail.connect": ["/password"]}}}
        server = self.server(secrets=secrets, pool=0)
        call = "str(await mcp_mail.connect(password='${secret:FILE}'))"
        self.assertIn("${secret:FILE}", server.cell(call, session="a")["value"]["json"])
        self.write("secret", "another-value-9876543210\n")
        self.config({"mail": self.mail()}, secrets=secrets, pool=0, timeout=77)
        self.assertTrue(harness.wait_until(lambda: "config: reloaded, " in server.log()), server.log())
        cell = server.cell(call, session="b")
        self.assertEqual([a["password"] for _, a in self.got()], [FILE, "another-value-9876543210"])
        self.check_absent(json.dumps(cell), FILE, "another-value-9876543210")
        # The server may still know the value of before.
        cell = server.cell("await mcp_mail.connect(password='file-value-' + '0123456789')", session="b")
        self.check_absent(json.dumps(cell["value"]), FILE)
        # A source that is lost fails new sessions only, with its name.
        os.unlink(self.path("secret"))
        self.config({"mail": self.mail()}, secrets=secrets, pool=0, timeout=78)
        self.assertTrue(harness.wait_until(lambda: server.log().count("config: reloaded, ") == 2), server.log())
        self.assertIn("secret FILE: open", json.dumps(server.call("1", session="c")))
        self.assertEqual(server.cell("2", session="b")["value"]["json"], 2)
        server.close()

    def test_large_arguments(self):
        server = self.server()
        cell = server.cell("r = await mcp_mail.connect(password='${secret:ENV}', text='t' * 1000000)\nlen(str(r))")
        self.assertEqual(cell["status"], "ok", cell)
        for code, expected in (("connect(password='${secret:ENV}', text='t' * 2000000)", "arguments with a secret have at most 1024 KiB"),
                               ("large(password='${secret:ENV}', n=5000000)", "it has more than 4 MiB, and the server has a secret")):
            cell = server.cell(f"try:\n    r = str(len(str(await mcp_mail.{code})))\nexcept ToolError as e:\n    r = str(e)\nr")
            self.assertIn(expected, cell["value"]["json"])
        # The control: without a secret the arguments are sent.
        self.assertEqual(server.cell("len(str(await mcp_mail.other(password='none', text='t' * 2000000))) > 0")["value"]["json"], True)
        self.assertEqual([a["password"] for _, a in self.got()], [ENV, ENV, "none"])
        server.close()

    def test_a_secret_without_a_value_fails_its_profile_only(self):
        env = {"from": {"env": "NOT_SET_ANYWHERE"}, "arguments": {"mail.connect": ["/password"]}}
        names = {
            "missing": (env, "secret S: the variable NOT_SET_ANYWHERE is not set"),
            "nofile": ({**env, "from": {"file": self.path("none")}}, "secret S: open .*none: No such file"),
            "empty": ({**env, "from": {"file": self.write("empty", "\n")}}, "secret S: its value is empty"),
            "short": ({**env, "from": {"file": self.write("short", "12345")}}, "secret S: its value has less than 6 bytes"),
            "long": ({**env, "from": {"file": self.write("long", "x" * 65537)}}, "secret S: its value has more than 64 KiB"),
            "lines": ({**env, "from": {"file": self.write("lines", "one\nand two\n")}}, "secret S: its value has more than one line"),
            "bytes": ({**env, "from": {"command": ["/usr/bin/printf", "abc\\377def\\n"]}}, "secret S: its value is not text in UTF-8"),
            "exit": ({**env, "from": {"command": ["false"]}}, "secret S: from.command: false ended with exit status 1"),
            "none": ({**env, "from": {"command": ["no-such-program-at-all"]}}, "secret S: from.command: (cannot run )?no-such-program-at-all(: not found| ended with exit status 126)"),
            "credential": ({**env, "from": {"credential": "c"}}, "secret S: credential"),
        }
        for name in ("empty", "short", "long", "lines"):
            os.chmod(self.path(name), 0o644)
        self.write("limit", "y" * 65536)
        os.chmod(self.path("limit"), 0o644)
        profiles = {name: {"secrets": {"S": secret}, "agent": True, "pool": 0} for name, (secret, _) in names.items()}
        profiles["limit"] = {"secrets": {"S": {**env, "from": {"file": self.path("limit")}}}, "agent": True, "pool": 0}
        server = self.server(profiles=profiles)
        self.assertEqual(server.cell("1 + 1")["status"], "ok")
        for name, (_, expected) in names.items():
            text = json.dumps(server.call("1", profile=name, session=name), ensure_ascii=False)
            self.assertRegex(text, f'profile ...?{name}.*{expected}')
        cell = server.cell("await mcp_mail.connect(password='${secret:S}')\n1", profile="limit", session="limit")
        self.assertEqual(cell["status"], "ok", cell)
        self.assertEqual([len(a["password"]) for _, a in self.got()], [65536])
        # The next call tries again.
        self.write("none", "now-it-is-here\n")
        os.chmod(self.path("none"), 0o644)
        self.assertEqual(server.cell("await mcp_mail.connect(password='${secret:S}')\n2", profile="nofile", session="again")["status"], "ok")
        self.assertEqual(self.got()[-1][1]["password"], "now-it-is-here")
        server.close()

    def test_mistakes_are_one_line(self):
        good = {"from": {"env": "A"}, "arguments": {"mail.connect": ["/password"]}}
        for secrets, expected in (
                ({"S": {**good, "from": {}}}, "S.from must have one of"),
                ({"S": {**good, "from": {"env": "A", "file": "/x"}}}, "must have one of"),
                ({"S": {**good, "from": {"env": "a-b"}}}, "from.env must be the name of a variable"),
                ({"S": {**good, "from": {"file": "x"}}}, "from.file must be an absolute path"),
                ({"S": {"from": {"env": "A"}}}, "exactly one of arguments and to"),
                ({"S": {"arguments": good["arguments"]}}, "S.from is missing"),
                ({"S": {**good, "arguments": {"mail": ["/p"]}}}, "must be one tool"),
                ({"S": {**good, "arguments": {"mail.*": ["/p"]}}}, "must be one tool"),
                ({"S": {**good, "arguments": {"mail.connect": ["password"]}}}, "must be a JSON pointer"),
                ({"S": {**good, "arguments": {"mail.connect": ["/a~2"]}}}, "must be a JSON pointer"),
                ({"S": {**good, "arguments": {"mail.connect": []}}}, "1 to 16 JSON pointers"),
                ({"1S": good}, "a name is 1 to 64 letters"),
                ({f"S{i}": good for i in range(17)}, "at most 16 secrets"),
                ({"S": {**good, "to": ["api.example.com"]}}, "exactly one of arguments and to"),
                ({"S": {**good, "like": "ghp_XXXX0000"}}, "in and like need to"),
                ([], "must be an object")):
            done = self.run_cloister("mcp", "--config", self.config(secrets=secrets, name="bad.json"))
            lines = [json.loads(line)["message"] for line in done.stderr.decode().splitlines()]
            self.assertEqual(len(lines), 1, lines)
            text = lines[0]
            self.assertIn("bad.json: line 1: ", text)
            self.assertIn(expected, text)
            self.assertNotEqual(done.returncode, 0)

    def test_code_never_gets_the_variable_itself(self):
        config = self.config({"mail": self.mail()}, secrets=self.secrets())
        env = harness.environment(TEST_SECRET=ENV, OTHER="seen")
        for given in ("TEST_SECRET", "TEST_SECRET=x"):
            done = self.run_cloister("run", "--config", config, "--env", given, "-c", "import os; print(os.environ['TEST_SECRET'])", env=env)
            self.assertIn(b"--env TEST_SECRET: this variable is the source of the secret ENV, and code must not have it", done.stderr)
            self.assertEqual((done.returncode != 0, done.stdout), (True, b""))
        done = self.run_cloister("run", "--config", config, "--env", "OTHER", "-c", "import os; print(os.environ['OTHER'], 'TEST_SECRET' in os.environ)", env=env)
        self.assertEqual(done.stdout, b"seen False\n", done.stderr)
        # A config with secrets and without servers runs.
        alone = self.config(secrets={"ENV": self.secrets()["ENV"]}, name="alone.json")
        done = self.run_cloister("run", "--config", alone, "-c", "print(7)", env=env)
        self.assertEqual(done.stdout, b"7\n", done.stderr)
        done = self.run_cloister("mcp", "--as", "code-sandbox-mcp", "--config", config, "--pass-through-env", "OTHER,TEST_SECRET", env=env)
        self.assertIn(b"the variable TEST_SECRET is the source of the secret ENV, and code must not have it", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_show_has_names_only(self):
        config = self.config({"mail": self.mail()}, secrets=self.secrets())
        done = self.run_cloister("config", "show", "--config", config, env=harness.environment(TEST_SECRET=ENV))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_absent(done.stdout.decode(), ENV, FILE)
        self.assertIn('"mail.connect": ["/deep/0/p~1q", "/password"]', re.sub(r"\s+", " ", done.stdout.decode()).replace("[ ", "[").replace(" ]", "]"))


# Values are compared backwards, so that this code does not contain them.
SCAN = r'''
import base64, os
wanted = [base64.b64decode(f)[::-1] for f in FORMS]
own = b"only-" + b"here-for-the-control"
found, control = [], False
for line in open("/proc/self/maps"):
    span, mode, *rest = line.split(maxsplit=2)
    if "r" not in mode or "[v" in line: continue
    first, last = (int(x, 16) for x in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as f:
        while first < last:
            f.seek(first)
            try: block = f.read(min(1 << 20, last - first))
            except OSError: break
            control |= own in block
            for n, w in enumerate(wanted):
                at = -1
                while (at := block.find(w, at + 1)) >= 0:
                    # Our own objects, which this code has made, are followed by their terminator and known by address.
                    found.append((n, first + at))
            first += len(block)
own_places = [(n, id(w) + bytes.__basicsize__ - 1) for n, w in enumerate(wanted)]
left = [f for f in found if f not in own_places]
for n, w in enumerate(wanted):
    if any(w in os.fsencode(v) for v in os.environ.values()): left.append("environment")
for top in ("/tmp", "/workspace", "/run", "/dev/shm", "/etc"):
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            try: data = open(path, "rb").read(1 << 20) if os.path.isfile(path) else b""
            except OSError: continue
            left += [path for w in wanted if w in data]
[[repr(x) for x in left][:5], control]
'''

if __name__ == "__main__":
    harness.main()
