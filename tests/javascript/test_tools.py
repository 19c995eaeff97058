"""Tools: calls, arguments, results, errors, listings."""

import base64
import json
import threading

from worker_case import WorkerTest
from worker_rig import HEADER, FRAMES, tool_result


class Calls(WorkerTest):
    def answer(self, *results):
        """The next calls get these results."""
        before, left = self.worker.on_call, list(results)

        def reply(number, call):
            self.worker.send("RETURN", number, left.pop(0))
            if not left:
                self.worker.on_call = before

        self.worker.on_call = reply

    def test_ways_to_call(self):
        for code in ("await tools['echo']({v: 1})", "await tools.echo({v: 1})", "await tools['demo.echo']({v: 1})", "await tools.demo.echo({v: 1})",
                     "await mcp_demo.echo({v: 1})", "mcp_demo['echo']({v: 1})"):
            with self.subTest(code):
                self.assertEqual(self.value(code), {"v": 1, "tool": "echo"})
        self.assertEqual(self.value("await mcp_demo.add_up({n: 1})")["tool"], "add-up")
        self.assertEqual(self.value("['echo' in tools, 'nope' in tools, Object.keys(tools)]"), [True, False, ["echo", "add-up"]])

    def test_install(self):
        """install() asks the broker once for what the session lacks; the refusal of the broker is an error that code can catch."""
        asked, refused = [], {"ok": False, "error": {"type": "InstallError", "message": "not allowed"}}

        def answer(number, query):
            asked.append(query)
            self.worker.send("RETURN", number, refused)

        before, self.worker.on_query = self.worker.on_query, answer
        self.addCleanup(lambda: setattr(self.worker, "on_query", before))
        error = self.error("await install('one@^1', ['@two/x'])")
        self.assertEqual((error["type"], error["message"]), ("InstallError", "not allowed"))
        self.assertEqual([(q["what"], q["requirements"], q["have"]) for q in asked], [("install", ["one@^1", "@two/x"], [])])
        self.assertEqual(self.value("let said; try { await install('one') } catch (e) { said = e.message }; said"), "not allowed")
        self.assertEqual(len(asked), 2)
        for arguments, text in (("", "needs the name of a package"), ("1", "not number"), ("null", "not null"), ("[['one']]", "not object"),
                                ("...Array(101).fill('one')", "at most 100"), ("'x'.repeat(20000)", "at most 100")):
            with self.subTest(arguments):
                self.assertIn(text, self.error(f"await install({arguments})")["message"])
        self.assertEqual(len(asked), 2)
        refused = {"ok": True, "result": {"set": "0123", "packages": [{"name": "one", "version": "1.0.0", "sha512": "x"}]}}
        self.assertIn("this session cannot read them", self.error("await install('one')")["message"])
        self.assertEqual(self.value("var given = install; install = 5; var replaced = install; install = given; replaced"), 5)

    def test_installs_at_once(self):
        """The broker refuses a second installation of a session while one runs: install() asks for one after the other."""
        open_now, most = [], []

        def answer(number, query):
            open_now.append(query["requirements"])
            most.append(len(open_now))
            threading.Timer(0.2, refuse, (number, query["requirements"])).start()

        def refuse(number, words):
            open_now.remove(words)
            self.worker.send("RETURN", number, {"ok": False, "error": {"type": "InstallError", "message": words[0]}})

        before, self.worker.on_query = self.worker.on_query, answer
        self.addCleanup(lambda: setattr(self.worker, "on_query", before))
        code = "(await Promise.allSettled([install('one'), install('two'), install()])).map((x) => x.reason.message)"
        self.assertEqual(self.value(code), ["one", "two", "install() needs the name of a package"])
        self.assertEqual(most, [1, 1])

    def test_many_at_once(self):
        self.assertEqual(self.value("(await Promise.all(Array.from({length: 100}, (_, i) => tools.echo({v: i})))).map(r => r.v)"), list(range(100)))

    def test_arguments(self):
        for arguments, text in (("{m: 1}", 'unknown argument "m"'), ("{}", 'missing argument "n"'), ("{n: 'x'}", 'argument "n" must be integer, not string'),
                                ("{n: -1}", "at least 0"), ("{n: 1, unit: 'mile'}", 'one of "m", "km"'), ("[1]", "as one object"), ("{n: NaN}", "NaN is not a JSON number")):
            with self.subTest(arguments):
                before = len(self.worker.calls)
                error = self.error(f"await tools['add-up']({arguments})")
                self.assertEqual(error["type"], "ToolArgumentError")
                self.assertIn(text, error["message"])
                self.assertIn("It takes add-up({n: number, unit?: ", error["message"])
                self.assertEqual(len(self.worker.calls), before)

    def test_values_that_json_would_change(self):
        for value, text in (("new Map()", "Object.fromEntries"), ("Buffer.from('a')", "base64"), ("[undefined]", "in arguments.v[0]"), ("() => 1", "function"),
                            ("'\\ud800'", "lone surrogate"), ("Promise.resolve()", "await it first"), ("(() => { let a = []; a[0] = a; return a })()", "cycle")):
            with self.subTest(value):
                self.assertIn(text, self.error(f"await tools.echo({{v: {value}}})")["message"])
        self.run_cell("await tools.echo({v: [12345678901234567890n, undefined === 1, new Date(0)], w: undefined})")
        self.assertEqual(self.worker.calls[-1][1]["arguments"], {"v": [12345678901234567890, False, "1970-01-01T00:00:00.000Z"]})

    def test_results(self):
        image = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
        self.answer(tool_result("plain"), tool_result('{"a": [1]}'), {"ok": True, "result": {"content": [{"type": "image", "data": image, "mimeType": "image/png"}]}},
                    tool_result("12345678901234567890123"), {"ok": True, "result": {"content": []}},
                    {"ok": True, "result": {"structuredContent": {"id": 12345678901234567890}, "content": []}})
        self.assertEqual(self.value("await tools.echo()"), "plain")
        self.assertEqual(self.value("await tools.echo()"), {"a": [1]})
        self.run_cell("await tools.echo()")
        self.assertEqual(self.worker.displays, [{"mime": "image/png", "data": image}])
        self.assertEqual(self.value("await tools.echo()"), "12345678901234567890123")
        self.assertIsNone(self.value("await tools.echo()"))
        self.assertEqual(self.value("String((await tools.echo()).id)"), "12345678901234567890")

    def test_errors(self):
        self.answer(tool_result("it broke", error=True), {"ok": False, "error": {"kind": "ToolTimeout", "message": "slow"}},
                    {"ok": False, "error": {"kind": "ToolProtocolError", "message": "odd", "code": -3, "data": {"x": 1}}}, tool_result("raw", error=True))
        check = "try { await tools.echo() } catch (e) { [e instanceof ToolError, e.name, e.message, e.server, e.tool, e.code ?? null] }"
        self.assertEqual(self.value(f"let r; {check.replace('[e', 'r = [e')}; r"), [True, "ToolError", "it broke", "demo", "echo", None])
        self.assertEqual(self.error("await tools.echo()")["type"], "ToolTimeout")
        self.assertEqual(self.value(f"{check.replace('[e', 'r = [e')}; r")[1:], ["ToolProtocolError", "odd", "demo", "echo", -3])
        self.assertTrue(self.value("await tools.echo.raw()")["isError"])
        self.assertEqual(self.error("await tools.ecko()")["message"], 'there is no tool "ecko"; did you mean "echo"?')
        self.assertEqual(self.error("await mcp_demo.ecko()")["message"], 'demo has no tool "ecko"; did you mean "echo"?')
        self.assertEqual(self.error("mcp_absent.x()")["type"], "ReferenceError")

    def test_listings(self):
        self.assertEqual(self.value("await _discover()")[0], {"name": "echo", "server": "demo", "description": "Says it again.", "signature": "echo({v?: any})"})
        self.assertEqual(self.value("(await _schema('add-up')).inputSchema.required"), ["n"])
        self.worker.on_query = lambda number, query: self.worker.send(
            "RETURN", number, {"ok": True, "result": {"tools": [{"server": "demo", "tool": {"name": query["q"]}}]}})
        self.assertEqual(self.value("(await _search('found', 3))[0].name"), "found")

    def test_a_server_that_starts(self):
        worker = self.worker
        worker.send("CATALOG", 5, {"servers": [{"name": "slow", "state": "starting", "tools": []}]})
        worker.on_query = lambda number, query: (
            worker.send("CATALOG", 6, {"servers": [{"name": "slow", "state": "ready", "tools": [{"name": "hi", "inputSchema": {"type": "object"}}]}]}),
            worker.send("RETURN", number, {"ok": True, "result": {"version": 6}}))
        self.assertEqual(self.value("(await mcp_slow.hi()).tool"), "hi")
        self.fresh()

    def test_a_large_result(self):
        self.answer(tool_result(structured={"t": "z" * (5 << 20)}))
        self.assertEqual(self.value("(await tools.echo()).t.length"), 5 << 20)

    def test_a_result_in_a_memfd_is_lost(self):
        """The broker sends none; Node could not receive it."""
        def reply(number, call):
            self.worker.channel.sendall(HEADER.pack(2 << 20, FRAMES["RETURN"], 1, 0, number))

        self.worker.on_call = reply
        self.assertIn("did not arrive", self.error("await tools.echo()")["message"])
        self.fresh()

    def test_calls_in_the_background(self):
        self.run_cell("setTimeout(async () => { globalThis.late = (await tools.echo({v: 'l'})).v }, 30)")
        self.worker.step(1)
        self.worker.answer()
        self.assertEqual(self.value("await new Promise(r => setTimeout(r, 20)); late"), "l")
        self.assertEqual(json.loads(json.dumps(self.worker.calls[-1][1]))["arguments"], {"v": "l"})
