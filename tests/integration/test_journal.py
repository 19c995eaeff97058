"""The journal: each call is on record before it is sent, and a changed record is found."""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import harness
import rawmcp
import test_ask

RULES = [{"deny": "f.echo", "when": {"/b": {"absent": True}}, "why": "no echo"}, {"ask": "f.add", "why": "sums"}]
KIND = "import asyncio\nasync def kind(call):\n    try:\n        await call\n    except ToolError as e:\n        return type(e).__name__\n"
PAGE = os.path.join(harness.SOURCE, "docs/journal.md")


def example(language):
    """A block of code of docs/journal.md."""
    with open(PAGE, encoding="utf-8") as f:
        return re.search(rf"```{language}\n(.*?)```", f.read(), re.DOTALL).group(1)


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.state = self.path("state")
        os.mkdir(self.state)
        self.env = harness.environment(XDG_STATE_HOME=self.state)
        self.journal = os.path.join(self.state, "cloister/journal")
        self.servers = []
        self.addCleanup(self.free)

    def free(self):
        for server in self.servers:
            server.free()

    def start(self, journal=None, client=rawmcp.RawServer, **rest):
        fixture = harness.fixture()
        config = self.config({"f": fixture}, name=f"config-{len(self.servers)}.json", journal=journal or {}, **rest)
        server = client("--config", config, env=self.env, cwd=self.dir)
        self.servers.append(server)
        server.initialize()
        return server

    def files(self, end="jsonl"):
        return sorted(glob.glob(os.path.join(self.journal, f"*.{end}")), key=lambda p: int(os.path.basename(p).split(".")[0]))

    def records(self, number=None):
        """Of all segments, or of one."""
        return [json.loads(line) for path in self.files() if number in (None, int(os.path.basename(path).split(".")[0]))
                for line in open(path, "rb") if line.endswith(b"\n")]

    def calls(self):
        return [r for r in self.records() if r["kind"] == "call"]

    def wait_for(self, condition, what):
        end = time.monotonic() + harness.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def command(self, *words, status=0):
        done = self.run_cloister("journal", *words, env=self.env)
        self.assertEqual(done.returncode, status, done)
        return (done.stdout if status == 0 else done.stderr).decode()

    def process(self, server):
        """The pid of the server's cloister-journal."""
        found = subprocess.run(["pgrep", "-P", str(server.process.pid), "-f", "cloister-journal serve"], capture_output=True, check=False)
        return int(found.stdout.split()[0]) if found.stdout.split() else None

    def kill(self, server):
        """Ends all processes of a server: the broker must not see the end of the monitor."""
        found = subprocess.run(["pgrep", "-P", str(server.process.pid), "-f", "cloister-(broker|journal)"], capture_output=True, check=True)
        pids = [int(pid) for pid in found.stdout.split()] + [server.process.pid]
        for pid in pids:
            with harness.contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.process.wait()
        self.wait_for(lambda: not any(map(self.lives, pids)), "the end of the processes")

    @staticmethod
    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False


class Journal(Case):
    def test_calls_and_answers(self):
        server = self.start({"sync": "group"})
        result = server.cell(
            "r = await mcp_f.add(a=1, b=2)\n"
            "try:\n    await mcp_f.fail()\nexcept ToolError:\n    pass\n"
            "await mcp_f.text(text='api_key=sk-abcdefghijklmnopqrstuvwx')\nr", session="s1")
        self.assertEqual(result["status"], "ok", result)
        self.assertEqual(server.close(), 0)
        records = self.records()
        self.assertEqual([r["kind"] for r in records],
                         ["start", "session.start", "cell.begin", "call", "answer", "call", "answer", "call", "answer", "cell", "session.end", "end"])
        calls = [r for r in records if r["kind"] == "call"]
        answers = [r for r in records if r["kind"] == "answer"]
        self.assertEqual([(r["session"], r["server"], r["tool"]) for r in calls], [("s1", "f", "add"), ("s1", "f", "fail"), ("s1", "f", "text")])
        self.assertEqual([r["of"] for r in answers], [r["n"] for r in calls])
        self.assertEqual([r["outcome"] for r in answers], ["committed", "failed", "committed"])
        self.assertEqual(calls[0]["sha256"], hashlib.sha256(calls[0]["arguments"].encode()).hexdigest())
        self.assertEqual(json.loads(calls[0]["arguments"]), {"a": 1, "b": 2})
        self.assertNotIn("sk-abcdef", json.dumps(records))
        self.assertEqual(records[9]["receipt"]["status"], "ok")
        self.assertIn("code_sha256", records[2])
        self.assertRegex(self.command("verify"), r"^ok: 12 records, signed to 12$")
        self.assertIn("f.add", self.command("show", "--tool", "f.add"))
        self.assertEqual(self.command("show", "--session", "other"), "")
        self.assertEqual({json.loads(line)["kind"] for line in self.command("show", "--json", "--kind", "answer").splitlines()}, {"answer"})
        self.assertIn("--kind: one of start ", self.command("show", "--kind", "answe", status=2))
        self.assertEqual([json.loads(line)["n"] for line in self.command("show", "--json", "--since", "2h").splitlines()], list(range(1, 13)))
        self.assertEqual(oct(os.stat(self.journal).st_mode & 0o777), "0o700")
        self.assertEqual({oct(os.stat(p).st_mode & 0o777) for p in self.files() + self.files("heads")}, {"0o600"})
        self.examples()

    def test_denied_calls_and_answers(self):
        server = self.start(client=test_ask.Person, rules=RULES)
        server.answers = [test_ask.YES, test_ask.NO]
        code = (
            KIND + "r = [await kind(mcp_f.echo(a=1)), await kind(mcp_f.echo(a='x' * 2000000))]\n"
            "r += await asyncio.gather(kind(mcp_f.add(a=1, b=2)), kind(mcp_f.add(a=3, b=4)))\n"
            "r + [await kind(mcp_f.add(a=5, b=6))]")
        result = server.cell(code, session="s1")
        self.assertEqual(result["value"]["json"], ["ToolDenied"] * 2 + [None] * 2 + ["ToolDenied"], result)
        self.refused_answers(server)
        self.assertEqual(server.close(), 0)
        shown = [json.loads(line) for line in self.command("show", "--json").splitlines()]
        kinds = [r["kind"] for r in shown if r["kind"] not in ("answer", "owner", "session.start", "session.end")]
        self.assertEqual(
            kinds, ["start", "cell.begin", "denied", "denied", "ask", "decision", "call", "call", "ask", "decision", "denied", "cell"]
            + ["cell.begin", "ask", "decision", "decision", "decision", "call", "cell", "decision"]
            + ["cell.begin", "ask", "decision", "call", "cell", "decision", "end"])
        of = lambda kind: [r for r in shown if r["kind"] == kind]  # noqa: E731
        echo, large, add = of("denied")
        self.assertEqual([(r["session"], r["server"], r["tool"], r["why"]) for r in (echo, add)],
                         [("s1", "f", "echo", "no echo"), ("s1", "f", "add", "sums: a person answered no")])
        self.assertEqual((echo["sha256"], echo["bytes"], echo["cell"] > 0), (hashlib.sha256(b'{"a":1}').hexdigest(), 7, True))
        self.assertEqual(large["sha256"], hashlib.sha256(b'{"a":"' + b"x" * 2000000 + b'"}').hexdigest())
        self.assertRegex(echo["rule"], r"line \d+$")
        asked, second, third, fourth = of("ask")
        self.assertEqual((asked["session"], asked["calls"], asked["cell"], asked["rule"]), ("s1", 2, echo["cell"], add["rule"]))
        self.assertEqual(asked["sha256"], hashlib.sha256(b'f.add\n{"a":1,"b":2}\nf.add\n{"a":3,"b":4}\n').hexdigest())
        self.assertEqual(asked["numbers"], [r["call"] for r in of("call")[:2]])
        self.assertEqual(second["numbers"], [add["call"]])
        lines = self.command("show")
        self.assertRegex(lines, rf"  ask  f\.add 2 calls  {asked['id']}  ")
        self.assertRegex(lines, rf"decision  {asked['id']}  by client: once, for 2 calls\n")
        self.assertEqual(sorted(re.findall(r"  call  f\.add (#\d+) ", lines)), sorted(re.findall(r"  answer  f\.add (#\d+) ", lines)))
        yes, no, other, unknown, last, late, modern, late_modern = of("decision")
        self.assertEqual([(r["id"], r["by"], r["scope"], r["rows"], r["numbers"], r["sha256"]) for r in (yes, no)],
                         [(asked["id"], "client", "once", [1, 2], asked["numbers"], asked["sha256"]), (second["id"], "client", "no", [], [], second["sha256"])])
        self.assertEqual([(r["id"], r["by"], r["sha256"]) for r in (other, unknown)], [(third["id"], "terminal", "0" * 64), ("00000000", "terminal", third["sha256"])])
        self.assertIn("other calls", other["refused"])
        self.assertIn("no question has this id", unknown["refused"])
        self.assertEqual((last["by"], last["scope"], last["rows"]), ("terminal", "session", [1]))
        self.assertEqual((modern["by"], modern["scope"]), ("terminal", "once"))
        for record, question in ((late, third), (late_modern, fourth)):
            self.assertEqual((record["by"], record["id"], record["sha256"], "scope" in record), ("client", question["id"], question["sha256"], False))
            self.assertIn("has ended", record["refused"])
        self.assertRegex(self.command("verify"), rf"^ok: {len(shown)} records, signed to {len(shown)}$")

    def test_denied_calls_that_cannot_be_recorded(self):
        """A yes sends nothing, and what is denied stays denied. The same server sends after a yes that it can record."""
        os.makedirs(self.journal, mode=0o755)
        os.chmod(self.journal, 0o755)
        server = self.start(client=test_ask.Person, rules=RULES)
        server.answers = [test_ask.YES, test_ask.NO]
        code = KIND + "[await kind(mcp_f.echo(a=1)), await kind(mcp_f.add(a=1, b=2)), await kind(mcp_f.add(a=1, b=2))]"
        self.assertEqual(server.cell(code)["value"]["json"], ["ToolDenied", "ToolUnavailable", "ToolDenied"])
        self.assertIn("the record of a denied call is lost", server.log())
        self.assertEqual(self.records(), [])
        os.chmod(self.journal, 0o700)
        server.cell("await mcp_f.text(text='opens the journal')")
        self.assertEqual(server.cell(KIND + "[await kind(mcp_f.add(a=1, b=2))]")["value"]["json"], [None])
        self.assertEqual([r["kind"] for r in self.records() if r["kind"] in ("ask", "decision", "call")][-3:], ["ask", "decision", "call"])

    def refused_answers(self, server):
        """A question at the terminal: an answer about other calls, one for another question, and one that counts."""
        server.answers = [None]
        call = server.start_call("await mcp_f.add(a=7, b=8)", session="s2")
        self.wait_for(lambda: any(r["kind"] == "ask" and r["session"] == "s2" for r in self.records()), "a question")
        question = [r for r in self.records() if r["kind"] == "ask"][-1]
        good = {"id": question["id"], "sha256": question["sha256"], "answer": "session"}
        for bad in ({**good, "sha256": "0" * 64}, {**good, "id": "00000000"}):
            self.assertIn("error", test_ask.control(server, "questions/answer", bad))
        self.assertNotIn("error", test_ask.control(server, "questions/answer", good))
        self.assertEqual(call.result()["structuredContent"]["status"], "ok")
        self.late_answers(server)

    def late_answers(self, server):
        """The client answers that question after its end, and so does one of the later revision; twice, of which one record is enough."""
        for _ in range(2):
            server.send({"jsonrpc": "2.0", "id": server.asked[-1]["id"], "result": test_ask.YES})
        server.send({"jsonrpc": "2.0", "id": 10**9, "result": test_ask.YES})
        meta = {test_ask.PREFIX + "protocolVersion": "2026-07-28", test_ask.PREFIX + "clientCapabilities": {"elicitation": {}}}
        params = {"name": "run_python", "arguments": {"code": "await mcp_f.add(a=9, b=9)", "session": "s3"}, "_meta": meta}
        first = server.ask("tools/call", params, harness.PATIENCE)
        question = [r for r in self.records() if r["kind"] == "ask"][-1]
        test_ask.control(server, "questions/answer", {"id": question["id"], "sha256": question["sha256"], "answer": "once"})
        self.wait_for(lambda: any(r["kind"] == "cell" and r["session"] == "s3" for r in self.records()), "the end of the cell")
        params |= {"requestState": first["requestState"], "inputResponses": dict.fromkeys(first["inputRequests"], test_ask.NO)}
        result = server.ask("tools/call", params, harness.PATIENCE)
        self.assertEqual(result["structuredContent"]["status"], "ok", result)
        with self.assertRaises(rawmcp.RpcError):
            server.ask("tools/call", params, harness.PATIENCE)

    def examples(self):
        """What docs/journal.md says about openssl(1) and Python."""
        path = harness.BUILD + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", "-ec", example("sh")], cwd=self.journal, env={**self.env, "PATH": path}, capture_output=True, check=False)
        self.assertEqual((done.returncode, b"Verified Successfully" in done.stdout), (0, True), done)
        for name in ("key.pem", "signed", "signature"):
            os.unlink(os.path.join(self.journal, name))
        for status in (0, 1):
            done = subprocess.run([sys.executable, "-c", example("python"), "1"], cwd=self.journal, capture_output=True, check=False)
            self.assertEqual(done.returncode, status, done)
            self.change(1, b'"add"', b'"adD"')

    def change(self, number, old, new, end="jsonl"):
        path = os.path.join(self.journal, f"{number}.{end}")
        with open(path, "rb") as f:
            data = f.read()
        self.assertIn(old, data)
        with open(path, "wb") as f:
            f.write(data.replace(old, new, 1))

    def test_nothing_without_the_key(self):
        config = self.config({"f": harness.fixture()}, journal={}, rules=RULES, profiles={"plain": {"journal": False}}, profile="plain")
        server = test_ask.Person("--config", config, env=self.env)
        self.servers.append(server)
        server.initialize()
        self.assertEqual(server.cell(KIND + "[await kind(mcp_f.add(a=1, b=2)), await kind(mcp_f.echo(a=1))]")["value"]["json"], [None, "ToolDenied"])
        self.wait_for(self.files, "the journal of the default profile")
        server.close()
        self.assertEqual({r["kind"] for r in self.records()} & {"call", "answer", "ask", "decision", "denied", "cell", "cell.begin", "session.start"}, set())

    def test_killed_in_calls(self):
        first, other = self.start(), self.start()
        other.cell("1")
        first.start_call("import asyncio\nawait asyncio.gather(mcp_f.sleep(seconds=60), mcp_f.echo(a=1), mcp_f.sleep(seconds=61))", session="s")
        self.wait_for(lambda: sum(r["kind"] == "call" for r in self.records()) == 3 and any(r["kind"] == "answer" for r in self.records()), "3 calls")
        dead = next(int(os.path.basename(p).split(".")[0]) for p in self.files() if b'"call"' in open(p, "rb").read())
        self.kill(first)
        shown = self.command("show", "--in-doubt")
        self.assertEqual(shown.count("f.sleep"), 2, shown)
        # A line that was not written whole is cut.
        with open(os.path.join(self.journal, f"{dead}.jsonl"), "ab") as f:
            f.write(b'{"n":99,"t"')
        third = self.start()
        self.wait_for(lambda: len(self.files()) == 3, "a third segment")
        records = self.records(dead)
        self.assertEqual([r["kind"] for r in records[-3:]], ["answer", "answer", "end"])
        self.assertEqual([r["outcome"] for r in records[-3:-1]], ["in doubt"] * 2)
        self.assertEqual(self.command("show", "--in-doubt").count("f.sleep"), 2)
        # The living server's segment is as it was: its calls are not in doubt.
        self.assertEqual(other.cell("(await mcp_f.add(a=1, b=2))['sum']")["status"], "ok")
        text = json.dumps(third.call("1", session="s"))
        self.assertIn("2 calls of tools", text)
        self.assertIn("f.sleep, f.sleep", text)
        self.assertNotIn("calls of tools", json.dumps(third.call("1", session="s")))
        self.assertNotIn("calls of tools", json.dumps(third.call("1", session="t")))
        other.close()
        third.close()
        self.assertRegex(self.command("verify"), r"(?m)^ok: \d+ records")

    def test_only_the_monitor_is_killed(self):
        """Its broker notices that, and leaves the calls to the next server, which names them. An orderly end records them itself."""
        for number in (signal.SIGKILL, signal.SIGTERM):
            server = self.start()
            text = json.dumps(server.call("1", session="s"))
            expected = "1 call of tools that the code of this session had sent before the server was killed may have happened: f.sleep"
            self.assertEqual(expected in text, number == signal.SIGTERM, text)
            calls = len(self.calls())
            server.start_call("await mcp_f.sleep(seconds=60)", session="s")
            self.wait_for(lambda n=calls: len(self.calls()) > n, "the call")
            before = self.command("show", "--in-doubt")
            os.kill(server.process.pid, number)
            server.process.wait()
            self.wait_for(lambda b=before: self.command("show", "--in-doubt") != b, "a call in doubt")
        self.assertEqual([r["why"] for r in self.records() if r["kind"] == "end"], ["the server was killed", "the server has ended"])
        self.assertEqual([r["outcome"] for r in self.records() if r["kind"] == "answer"], ["in doubt"] * 2)
        self.assertRegex(self.command("verify"), r"(?m)^ok: \d+ records")

    def refused(self, server, reason):
        result = server.cell("try:\n    await mcp_f.add(a=1, b=2)\nexcept ToolUnavailable as e:\n    print('refused:', e)\nelse:\n    print('sent')")
        self.assertIn("refused: ", result["stdout"], result)
        self.assertIn(reason, result["stdout"])
        self.assertIn(self.journal, result["stdout"])

    def test_directories_that_cannot_be_used(self):
        os.makedirs(self.journal, mode=0o755)
        os.chmod(self.journal, 0o755)
        server = self.start()
        self.refused(server, "is open to other users (mode 0755)")
        os.chmod(self.journal, 0o700)
        self.assertIn("sent", server.cell("await mcp_f.add(a=1, b=2)\nprint('sent')")["stdout"])
        server.close()
        os.rename(self.journal, self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), self.journal)
        server = self.start()
        self.refused(server, "a symbolic link is not followed")
        server.close()
        os.unlink(self.journal)
        if harness.ROOT:
            os.mkdir(self.journal, mode=0o700)
            os.chown(self.journal, 1234, 1234)
            server = self.start()
            self.refused(server, "belongs to user 1234")
            server.close()
            os.chown(self.journal, 0, 0)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", self.journal], check=True)
            self.addCleanup(subprocess.run, ["umount", "-l", self.journal], check=True)
            server = self.start()
            self.assertEqual(server.cell("1")["status"], "ok")
            with open(os.path.join(self.journal, "fill"), "wb", buffering=0) as f, harness.contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * 512)
            result = server.cell("await mcp_f.text(text='x' * 7000)", wait=30)
            self.assertIn("No space left on device", json.dumps(result))
            self.assertNotIn('"text"', "".join(json.dumps(r) for r in self.records() if r["kind"] == "call"))
            server.close()

    def test_its_process_is_killed(self):
        server = self.start()
        server.cell("1")
        for _ in range(2):
            pid = self.process(server)
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(server.cell("(await mcp_f.add(a=1, b=2))['sum']")["status"], "ok")
            self.assertTrue(harness.wait_until(lambda pid=pid: self.process(server) not in (pid, None)))
        server.close()
        self.assertEqual(len(self.files()), 1)
        records = self.records()
        self.assertEqual(records[-1]["kind"], "end")
        self.assertEqual(sum(r["kind"] == "call" for r in records), 2)
        n = len(records)
        self.assertRegex(self.command("verify"), rf"^ok: {n} records, signed to {n}$")

    def test_rotation(self):
        """Of small segments, while the process is killed again and again: nothing is lost."""
        server = self.start({"max": "1M", "arguments": "full"})
        count = 0
        for i in range(6):
            result = server.cell(f"for i in range(40):\n    await mcp_f.length(text='x' * 2600)\n", timeout=60)
            self.assertEqual(result["status"], "ok", result)
            count += 40
            if i in (1, 2, 4):
                time.sleep(0.9 + i / 20)
                os.kill(self.process(server), signal.SIGKILL)
            elif i == 3:
                time.sleep(1.1)
        time.sleep(1.2)
        server.close()
        self.assertGreater(len(self.files()), 2)
        records = self.records()
        self.assertEqual([r["n"] for r in records], list(range(records[0]["n"], records[0]["n"] + len(records))))
        self.assertEqual(records[-1]["kind"], "end")
        self.assertLess(sum(os.stat(p).st_size for p in self.files()), 1 << 20)
        self.assertRegex(self.command("verify"), rf"(?m)^ok: {len(records):,} records, signed to {len(records):,}$")

    def test_many_calls_do_not_push_out_what_came_before(self):
        """Attack: code fills the journal, so that the segment with its first call is removed. The control: a day later it is."""
        server = self.start({"max": "1M", "arguments": "full"})
        server.cell("await mcp_f.text(text='evidence')")
        fill = KIND + "r = None\nfor i in range(60):\n    r = r or await kind(mcp_f.length(text='x' * 9000))\n[r]"
        result = None
        for _ in range(10):
            result = server.cell(fill, timeout=60)["value"]["json"][0]
            if result:
                break
            time.sleep(1.1)
        self.assertEqual(result, "ToolUnavailable")
        self.assertIn("raise \"max\"", server.log())
        first = self.files()[0]
        self.assertTrue(any("evidence" in r.get("arguments", "") for r in self.records()))
        self.assertEqual(self.records()[0]["n"], 1)
        os.utime(first, (time.time() - 90000,) * 2)
        self.assertTrue(harness.wait_until(lambda: server.cell(fill, timeout=60)["value"]["json"] == [None]))
        self.assertFalse(os.path.exists(first))
        server.close()
        self.assertRegex(self.command("verify"), "(?m)^ok: ")

    def test_changes_are_found(self):
        """Attack: the journal is changed unseen. The control is the journal as it was written."""
        for _ in range(2):
            server = self.start()
            self.assertEqual(server.cell("await mcp_f.add(a=1, b=2)\nawait mcp_f.add(a=3, b=4)")["status"], "ok")
            server.close()
        saved = self.path("saved")
        shutil.copytree(self.journal, saved)
        key = self.command("key")
        self.write("pub", key)

        def lines(number, change):
            path = os.path.join(self.journal, f"{number}.jsonl")
            with open(path, "rb") as f:
                data = f.read().splitlines(True)
            with open(path, "wb") as f:
                f.writelines(change(data))

        def rechain(data):
            """An attacker without the key who writes hashes that fit."""
            head = b"0" * 64
            for i, line in enumerate(data):
                line = line.replace(b'"add"', b'"sub"')
                data[i] = re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"' + head + b'"', line)
                head = hashlib.sha256(data[i]).hexdigest().encode()
            return data

        def copy(source, target):
            for end in ("jsonl", "heads"):
                shutil.copy2(os.path.join(self.journal, f"{source}.{end}"), os.path.join(self.journal, f"{target}.{end}"))

        def remove(number):
            for end in ("jsonl", "heads"):
                os.unlink(os.path.join(self.journal, f"{number}.{end}"))

        attacks = {
            "a byte": (lambda: self.change(1, b'"committed"', b'"committee"'), "1.jsonl: line "),
            "a line is removed": (lambda: lines(1, lambda d: d[:4] + d[5:]), "1.jsonl: line 5: "),
            "a line twice": (lambda: lines(1, lambda d: d[:4] + d[3:]), "1.jsonl: line 5: "),
            "the end": (lambda: lines(1, lambda d: d[:-2]), "1.jsonl: records up to "),
            "hashes that fit": (lambda: lines(1, rechain), "is not the one that was signed"),
            "a copied file": (lambda: copy(1, 3), "3.heads: line 1 is of segment 1"),
            "a copied file in another one's place": (lambda: copy(1, 2), "2.heads: line 1 is of segment 1"),
            "a removed file": (lambda: (copy(2, 3), remove(2)), "2.jsonl is missing"),
            "no heads": (lambda: os.unlink(os.path.join(self.journal, "1.heads")), "1.heads: nothing in it signs"),
            "an older head": (lambda: self.change(1, open(os.path.join(self.journal, "1.heads"), "rb").read().splitlines(True)[-1], b"", "heads"),
                              "records are not signed"),
            "a head": (lambda: self.change(2, b'"n":0', b'"n":1', "heads"), "2.heads: line 1: its signature is wrong"),
        }
        for name, (attack, reason) in attacks.items():
            with self.subTest(name):
                attack()
                self.assertIn(reason, self.command("verify", "--key", self.path("pub"), status=1))
                shutil.rmtree(self.journal)
                shutil.copytree(saved, self.journal)
                self.assertRegex(self.command("verify", "--key", self.path("pub")), "^ok: ")

    def test_another_key(self):
        server = self.start()
        server.cell("1")
        server.close()
        self.write("pub", self.command("key"))
        os.unlink(os.path.join(self.journal, "key"))
        server = self.start()
        server.cell("1")
        server.close()
        self.assertRegex(self.command("verify"), r"(?m)^note: another key signs from segment 2 on: [0-9a-f]{64} instead of [0-9a-f]{64}\nok: ")
        self.assertIn("is signed by another key", self.command("verify", "--key", self.path("pub"), status=1))
        os.chmod(os.path.join(self.journal, "key"), 0o644)
        self.refused(self.start(), "key is open to other users")


if __name__ == "__main__":
    harness.main()
