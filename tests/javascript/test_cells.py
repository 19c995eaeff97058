"""Cells: names, await, the last value, errors, output, TypeScript, modules, files."""

import base64

from worker_case import WorkerTest


class Names(WorkerTest):
    def test_declarations_persist_and_can_be_repeated(self):
        self.run_cell("let a = 1; const b = 2, {c, d: [e = 5]} = {c: 3, d: []}; var f = 6\nclass K { static n = 7 }\nfunction g() { return a }")
        self.assertEqual(self.value("[a, b, c, e, f, K.n, g()]"), [1, 2, 3, 5, 6, 7, 1])
        self.run_cell("const a = 10; let b; class K {}; function g() { return a + 1 }")
        self.assertEqual(self.value("[a, b === undefined, K.n === undefined, g()]"), [10, True, True, 11])

    def test_the_same_after_await(self):
        code = """
            helper()
            const p = await Promise.resolve(1), q = () => p + 1
            let [r, ...s] = [2, 3, 4], unset
            class L { get p() { return p } }
            for (var i = 0; i < 3; i++) await null
            if (true) { var inner = await 5 }
            function helper() { globalThis.called = true }
            async function later() { await null; return p }
        """
        self.run_cell(code)
        self.assertEqual(self.value("[p, q(), r, s, new L().p, i, inner, called, typeof helper, unset === undefined]"),
                         [1, 2, 2, [3, 4], 1, 3, 5, True, "function", True])
        self.run_cell("const p = await 9; var unset; p")
        self.assertEqual(self.value("await later()"), 9)

    def test_names_of_node_can_be_declared(self):
        self.assertEqual(self.value("const crypto = require('crypto'); typeof crypto.createHash"), "function")
        self.assertEqual(self.value("const fetch = await 3; fetch"), 3)
        self.assertEqual(self.value("fs.existsSync('/')"), True)

    def test_blocks_keep_their_own_names(self):
        self.run_cell("{ let hidden = 1 } for (const one of [1]) {} await null; { const two = 2 }")
        self.assertEqual(self.value("[typeof hidden, typeof one, typeof two]"), ["undefined"] * 3)

    def test_statements_without_semicolons(self):
        self.assertEqual(self.value("const list = []\nconst x = await 1\nlist.push(x)\nlet y = 2\n;[3].forEach(v => list.push(v))\nlist"), [1, 3])
        self.assertEqual(self.value("'use strict'\nconst z = await 4 // comment\nz // more"), 4)
        self.assertEqual(self.value("let found = []; for await (const v of [1, 2]) found.push(v)\nfound"), [1, 2])

    def test_imports(self):
        self.assertEqual(self.value("import os, { platform as where } from 'os'\nimport * as path from 'path'\n[where(), os.EOL, path.sep]"), ["linux", "\n", "/"])
        (self.modules.workspace / "own.mjs").write_text("export default 1; export const two = 2")
        self.assertEqual(self.value("const own = await import('./own.mjs'); [own.default, own.two]"), [1, 2])
        (self.modules.workspace / "node_modules/pack").mkdir(parents=True)
        (self.modules.workspace / "node_modules/pack/index.js").write_text("module.exports = 'packed'")
        self.assertEqual(self.value("[require('pack'), (await import('pack')).default]"), ["packed", "packed"])
        self.assertIn("Cannot find package 'absent'", self.error("await import('absent')")["message"])
        self.assertIn("Cannot find module 'absent'", self.error("require('absent')")["message"])


class Values(WorkerTest):
    def test_the_last_expression(self):
        for code, value in (("1+1", 2), ("'a'", "a"), ("null", None), ("[1, {a: 'b'}]", [1, {"a": "b"}]), ("await 3;", 3), ("({})", {})):
            with self.subTest(code):
                self.assertEqual(self.run_cell(code)["value"]["json"], value)
        for code in ("undefined", "let a = 1", "if (1) 2", "", "// nothing", "await 1; let c = 2", "function f() {}"):
            with self.subTest(code):
                self.assertNotIn("value", self.run_cell(code))

    def test_a_promise_is_awaited(self):
        self.assertEqual(self.value("async function main() { await null; return 7 }\nmain()"), 7)

    def test_underscore_is_the_last_value(self):
        self.run_cell("6 * 7")
        self.assertEqual(self.value("_"), 42)
        self.run_cell("const _ = 'mine'")
        self.run_cell("1")
        self.assertEqual(self.value("_"), "mine")

    def test_json_only_where_it_is_exact(self):
        for code in ("NaN", "-0", "10n", "[1,,2]", "new Date(0)", "new Map([[1, 2]])", "Symbol('s')", "[undefined]", "({get a() { return 1 }})",
                     "class A {}; new A()", "'\\ud800'", "Object.assign([1], {x: 1})", "let c = {}; c.c = c; c", "'x'.repeat(70000)", "new Proxy({}, {})"):
            with self.subTest(code):
                self.assertNotIn("json", self.run_cell(code)["value"])
        self.assertEqual(self.shown("'\\ud800x'").lower(), "'\\ud800x'")
        self.assertLess(len(self.shown("'y'.repeat(1e6)")), 300 * 1024)


class Errors(WorkerTest):
    def test_lines_are_those_of_the_code(self):
        error = self.error("let a = 1; let b = await 2\nfunction bad() {\n  throw new TypeError('no')\n}\n\nbad()")
        self.assertEqual((error["type"], error["message"], error["line"]), ("TypeError", "no", 3))
        self.assertRegex(error["traceback"], r"^<cell \d+>:3\n  throw new TypeError\('no'\)\n        \^\n\nTypeError: no\n    at bad \(<cell \d+>:3:9\)\n    at (async )?<cell \d+>:6:1\n$")

    def test_a_function_of_an_earlier_cell(self):
        self.run_cell("function fails() { null.x }", filename="<cell first>")
        error = self.error("1\nfails()")
        self.assertEqual(error["line"], 1)
        self.assertIn("at fails (<cell first>:1:25)", error["traceback"])

    def test_columns_are_those_of_the_code(self):
        self.assertIn(":1:29\n", self.error("let q = await 1; await null; missing")["traceback"].replace(":1:30", ":1:29"))
        self.assertIn("missing2\n" + " " * 11 + "^", self.error("await null;missing2")["traceback"])

    def test_syntax(self):
        error = self.error("let x = 1\nfoo(]")
        self.assertEqual((error["type"], error["line"]), ("SyntaxError", 2))
        self.assertIn("foo(]\n    ^", error["traceback"])
        self.assertEqual(self.error("await (")["type"], "SyntaxError")

    def test_what_is_thrown_may_be_anything(self):
        for code, text in (("throw null", "null"), ("throw 'text'", "'text'"), ("throw {a: 1}", "{ a: 1 }"), ("throw undefined", "undefined")):
            with self.subTest(code):
                self.assertEqual(self.error(code)["message"], text)
        cause = self.error("throw new Error('outer', {cause: new RangeError('inner')})")
        self.assertIn("[cause]: RangeError: inner", cause["traceback"])

    def test_errors_that_nobody_awaits(self):
        self.assertEqual(self.error("setTimeout(() => { throw new Error('late') }, 1); await new Promise(r => setTimeout(r, 5000))")["message"], "late")
        self.assertEqual(self.error("Promise.reject(new Error('alone')); await new Promise(r => setTimeout(r, 5000))")["message"], "alone")
        self.run_cell("setTimeout(() => { throw new Error('background') }, 5)")
        while b"background" not in self.worker.output["stderr"]:
            self.assertTrue(self.worker.step(20))
        self.run_cell("1")

    def test_a_promise_that_nothing_settles(self):
        self.assertIn("nothing can settle", self.error("await new Promise(() => {})")["message"])


class Output(WorkerTest):
    def test_streams(self):
        result = self.run_cell("console.log('a', {b: 1}); console.error('c'); process.stdout.write('d')")
        self.assertEqual((result["stdout"], result["stderr"]), ("a { b: 1 }\nd", "c\n"))

    def test_much_output_arrives_before_the_result(self):
        self.assertEqual(len(self.run_cell("for (let i = 0; i < 3000; i++) console.log('x'.repeat(999))")["stdout"]), 3000 * 1000)

    def test_streams_cannot_be_ended(self):
        self.run_cell("process.stdout.end('e'); process.stdout.destroy(); process.stderr.end()")
        self.assertEqual(self.run_cell("console.log('f')")["stdout"], "f\n")

    def test_display(self):
        png = base64.b64encode(b"\x89PNG\r\n\x1a\n1234").decode()
        self.run_cell(f"display(Buffer.from('{png}', 'base64')); display('<b>x</b>', 'text/html')")
        self.assertEqual(self.worker.displays, [{"mime": "image/png", "data": png}, {"mime": "text/html", "text": "<b>x</b>"}])
        self.assertEqual(self.run_cell("display('text', [1])")["stdout"], "text\n[ 1 ]\n")
        self.run_cell("({[Symbol.for('Jupyter.display')]() { return {'text/html': '<i>y</i>'} }})")
        self.assertEqual(self.worker.displays, [{"mime": "text/html", "text": "<i>y</i>"}])
        self.assertIn("bytes need a type", self.error("display(new Uint8Array(3))")["message"])
        kept = self.run_cell("display(Buffer.alloc(5e6), 'image/png')")
        self.assertRegex(kept["stdout"], r"too large to show, kept as \S+/out/large-1.png")
        self.assertEqual([file["path"] for file in kept["files"]], ["large-1.png"])


class TypeScript(WorkerTest):
    CODE = "interface A { b: string }\nconst q: A = { b: 'c' }\nawait null\nq.b as string"

    def test_types_are_removed(self):
        if self.value("typeof require('module').stripTypeScriptTypes") == "undefined":
            self.assertIn("TypeScript needs Node 22.13 or later; this one is 20.", self.error(self.CODE)["message"])
            self.assertIn("TypeScript needs Node 22.13", self.error("1", filename="x.ts")["message"])
            return
        self.assertEqual(self.value(self.CODE), "c")
        error = self.error("let a: number = 1\n\nnull.x")
        self.assertEqual(error["line"], 3)
        self.assertIn("enum is not supported", self.error("enum E { A }")["message"])
        self.assertEqual(self.run_cell("const n: number = await 3; console.log(n)", filename="x.ts")["stdout"], "3\n")
        self.assertEqual(self.run_cell("1")["stderr"], "")


class Files(WorkerTest):
    def test_files_of_a_cell(self):
        result = self.run_cell("fs.writeFileSync('out/a.csv', '1'); fs.mkdirSync('out/d'); fs.writeFileSync('out/d/b.png', '22')")
        self.assertEqual(result["files"], [{"path": "a.csv", "size": 1, "mime": "text/csv"}, {"path": "d/b.png", "size": 2, "mime": "image/png"}])
        self.assertEqual(result["files_total"], 2)
        self.assertNotIn("files", self.run_cell("1"))
        self.assertEqual(self.run_cell("fs.appendFileSync('out/a.csv', '2')")["files_total"], 1)

    def test_the_broker_reads_and_writes(self):
        worker, data = self.worker, base64.b64encode(b"hello").decode()
        self.assertEqual(worker.ask("PUT", 1, {"path": "sub/x.part", "data": data, "to": "sub/x"}), {"ok": True})
        got = worker.ask("FETCH", 2, {"path": "sub/x", "offset": 1, "length": 3})
        self.assertEqual((got["data"], got["size"], got["eof"]), (base64.b64encode(b"ell").decode(), 5, False))
        listed = worker.ask("FETCH", 3, {"path": "sub", "list": 10})
        self.assertEqual((listed["kind"], listed["files"][0]["path"], listed["files_total"]), ("directory", "x", 1))
        self.assertEqual(worker.ask("FETCH", 4, {"path": "none", "list": 10})["kind"], "absent")
        self.assertEqual(worker.ask("PUT", 5, {"path": "sub/x", "data": "", "discard": True}), {"ok": True})
        for path in ("../x", "sub/../../x", "/etc/passwd", "a//b"):
            self.assertFalse(worker.ask("FETCH", 6, {"path": path, "offset": 0, "length": 1})["ok"])

    def test_links_are_not_followed(self):
        (self.modules.workspace / "link").symlink_to("/etc")
        (self.modules.workspace / "out/l").symlink_to("/etc/passwd")
        for path in ("link/passwd", "out/l"):
            self.assertFalse(self.worker.ask("FETCH", 7, {"path": path, "offset": 0, "length": 9})["ok"])
        self.assertNotIn("files", self.run_cell("1"))


class Machine(WorkerTest):
    SETTINGS = {"cpus": 3, "memory": 512 << 20, "isolates": 3}

    def test_limits_are_shown(self):
        self.assertEqual(self.value("[os.cpus().length, os.totalmem(), os.availableParallelism(), os.freemem() < os.totalmem()]"),
                         [3, 512 << 20, 3, True])
        self.assertEqual(self.value("import { cpus } from 'os'; cpus().length"), 3)

    def test_threads_have_a_limit(self):
        self.run_cell("const { Worker } = require('worker_threads'); const w = new Worker('setInterval(() => {}, 1e6)', {eval: true})")
        self.assertIn("memory for 1 worker thread", self.error("new Worker('1', {eval: true})")["message"])
        self.run_cell("await w.terminate(); new Worker('1', {eval: true}); 0")


class Waits(WorkerTest):
    def test_work_that_node_does_not_list(self):
        """Of a thread pool: it does not count as a promise that nothing can settle."""
        code = "const {promisify} = require('util'); (await promisify(require('crypto').pbkdf2)('a', 'b', 400000, 64, 'sha512')).length"
        self.assertEqual(self.value(code), 64)
