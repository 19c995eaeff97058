"""The JavaScript worker in its sandbox: state, values, errors, tools, interrupts in each kind of loop, scripts, prompts."""

import hashlib
import json
import os
import subprocess

import harness
import rawmcp
from test_javascript_nodes import nodes

# Each ends by its interrupt, and the session continues with its variables.
LOOPS = {
    "a loop": "for (;;);",
    "a loop that catches everything": "for (;;) try { for (;;); } catch {} finally { for (;;) try { break } finally {} }",
    "awaits": "for (;;) await null",
    "a promise": "setInterval(() => {}, 1000); await new Promise(() => {})",
    "promises that follow each other": "(function t() { Promise.resolve().then(t) })(); await new Promise(() => {})",
    "ticks": "process.nextTick(function t() { process.nextTick(t) }); await new Promise(() => {})",
    "immediates": "(function t() { setImmediate(t) })(); await new Promise(() => {})",
    "a timer": "setTimeout(() => { for (;;); }, 1); await new Promise(r => setTimeout(r, 60000))",
    "a regular expression": "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "a sort": "Array.from({length: 1e5}, Math.random).sort(() => { for (;;); })",
    "a wait": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "a child": "require('child_process').execSync('sleep 60')",
    "a tool": "await tools['sleep']({seconds: 60})",
    "a handler of SIGINT": "process.on('SIGINT', () => {}); for (;;);",
}


class Worker(rawmcp.ServerCase):
    TOOL = "run_javascript"
    SERVERS = {"fix-ture": harness.fixture()}
    CONFIG = {"profiles": {"js": {"language": "javascript", "agent": True, "limits": {"cpu": 2}}}}

    def test_state(self):
        self.ok("let a = 1; const b = 2; class C {} function f() { return a } var d = await Promise.resolve(4)")
        self.assertEqual(self.value("a = 3; const b = 20; class C { static x = 5 } [a, b, C.x, f(), d]"), [3, 20, 5, 3, 4])
        cell = self.cell("\nfunction g() {\n  throw new TypeError('bad')\n}\ng()")
        self.assertEqual((cell["error"]["type"], cell["error"]["message"], cell["error"]["line"]), ("TypeError", "bad", 3), cell)
        self.assertEqual(self.cell("let q = ;")["error"]["type"], "SyntaxError")
        self.assertEqual(self.value("a"), 3)

    def test_constants(self):
        self.ok("const a = [1], {b, c: [d]} = {b: 2, c: [4]}; let e = 1; a.push(2)")
        for code in "a = 1", "b += 1", "d++", "[a] = [1]", "for (a of [1]);", "(() => { 'use strict'; b = 1 })()", "globalThis.d = 5":
            cell = self.cell(code)
            self.assertEqual((cell["status"], cell["error"]["type"], cell["error"]["message"]),
                             ("error", "TypeError", "Assignment to constant variable."), (code, cell))
        self.assertEqual(self.value("e = 2; [a, b, d, e]"), [[1, 2], 2, 4, 2])
        # In its own cell, with and without await; a variable of the same name further inside is another one.
        for code in "const f = 1; f = 2", "const f = 1; await null; f += 2", "const f = 1; (() => f++)()":
            self.assertEqual(self.cell(code)["error"]["message"], "Assignment to constant variable.", code)
        self.assertEqual(self.value("const g = 1; (() => { let g = 5; g = 6; return g })() + g"), 7)
        self.assertEqual(self.value("const h = await Promise.resolve(3); (g => { g = 4; return g })(1) + h"), 7)
        # It can be declared again, and a function that was made before sees the new one.
        self.ok("const k = 1; const show = () => k")
        self.assertEqual(self.value("const k = 2; show()"), 2)
        self.assertEqual(self.value("let k = 3; k = k + 1; show()"), 4)
        self.assertEqual(self.cell("const late = (() => { throw new Error('x') })()")["status"], "error")
        self.assertEqual(self.value("late = 7; late"), 7)

    def test_import_meta(self):
        self.assertEqual(self.value("[import.meta.url, import.meta.dirname, import.meta === import.meta]"), ["file:///workspace/cell.js", "/workspace", True])

    def test_interrupt_of_a_first_cell(self):
        """The variables that it had by then are kept."""
        for session, code in (("blocked", "var kept = 5; for (;;);"), ("waits", "var kept = 5; await null; for (;;);")):
            cell = self.cell(code, session=session, timeout=harness.patient(2))
            self.assertEqual((cell["status"], cell["state"]), ("timeout", "new"), cell)
            self.assertEqual(self.value("kept", session=session), 5)

    def test_what_node_knows_of_the_machine(self):
        memory, cpus, most, is_less = self.value(
            "const os = require('os'), free = process.availableMemory(); [os.totalmem(), os.cpus().length, process.constrainedMemory(), 0 < free && free < os.totalmem()]")
        self.assertEqual((memory, cpus, most, is_less), (512 << 20, min(2, len(os.sched_getaffinity(0))), 512 << 20, True))

    def test_tools(self):
        self.assertEqual(self.value("await tools['add']({a: 2, b: 3})"), {"sum": 5})
        self.assertEqual(self.value("await mcp_fix_ture.add({a: 2, b: 4})"), {"sum": 6})
        self.assertEqual(self.value("(await Promise.all([1, 2, 3].map(a => tools['fix-ture.add']({a, b: 1})))).map(r => r.sum)"), [2, 3, 4])
        cell = self.cell("try { await tools['nothing']({}) } catch (e) { console.log(e instanceof ToolError, e.name) }")
        self.assertTrue(cell["stdout"].startswith("true"), cell)
        # More than goes into a memfd for Python.
        self.assertEqual(self.value("(await tools['text']({text: 'x'.repeat(5000000)})).length"), 5000000)

    def test_output_and_files(self):
        cell = self.ok("console.log('o'); console.error('e'); require('fs').writeFileSync('/workspace/out/a.txt', 'hello'); ({a: [1]})")
        self.assertEqual((cell["stdout"], cell["stderr"], cell["value"]["json"]), ("o\n", "e\n", {"a": [1]}))
        self.assertEqual([file["path"] for file in cell["files"]], ["a.txt"])
        self.assertIn("cut", self.ok("console.log('x'.repeat(1e6))", max_output=100)["stdout"])

    def test_loops_are_interrupted(self):
        for name, code in LOOPS.items():
            with self.subTest(name):
                self.ok("var kept = 1")
                cell = self.cell(code, timeout=0.5)
                self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
                self.assertEqual(self.ok("console.log(kept)")["stdout"].strip()[-1], "1")

    def test_wait_and_interrupt(self):
        call = self.server.start_call("console.log('begun'); for (;;) await new Promise(r => setTimeout(r, 10))", tool=self.TOOL, session=self.session, wait=1)
        cell = call.result()["structuredContent"]
        self.assertEqual((cell["status"], cell["stdout"]), ("running", "begun\n"), cell)
        cell = self.server.cell("console.log('next')", tool="run_javascript", session=self.session, interrupt=True)
        self.assertEqual((cell["status"], cell["stdout"]), ("ok", "next\n"), cell)

    def test_exec(self):
        self.ok("var kept = 6")
        done = self.run_cloister("exec", "--server", str(self.server.process.pid), "--session", self.session, "-c", "console.log(kept * 7)", cwd=self.class_dir)
        if done.returncode == 2:
            done = self.run_cloister("exec", "--server", str(self.server.process.pid), self.session, "-c", "console.log(kept * 7)", cwd=self.class_dir)
        self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)


class Scripts(harness.Case):
    def test_a_script(self):
        script = self.write("s.js", "console.log(JSON.stringify(process.argv.slice(2)), require('path').basename(__filename), require.main === module);"
                            "process.stdin.on('data', d => console.log('in', String(d).trim())); setTimeout(() => { console.log('later'); process.exitCode = 5 }, 50)")
        ran = subprocess.run([harness.CLOISTER, "run", script, "a", "--b"], input=b"hello\n", env=harness.environment(), cwd=self.dir, capture_output=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 5, ran.stderr)
        self.assertEqual(ran.stdout.decode().split("\n")[:2], ['["a","--b"] s.js true', "in hello"], ran.stderr)
        ran = self.run_cloister("run", self.write("t.js", "throw new Error('bad')"))
        self.assertEqual((ran.returncode, b"bad" in ran.stderr), (1, True), ran.stderr)

    def test_standard_input(self):
        big = bytes(range(256)) * 1000
        for code, given, printed in (
                ("console.log(fs.readFileSync(0, 'utf8').length, fs.readFileSync('/dev/stdin').length)", b"hello\n", "6 0\n"),
                ("console.log(require('crypto').createHash('md5').update(fs.readFileSync(0)).digest('hex'))", big, hashlib.md5(big).hexdigest() + "\n"),
                ("const b = Buffer.alloc(4, '.'); console.log(fs.readSync(0, b, 1, 2), String(b), fs.readSync(0, b), String(b))", b"abc", "2 .ab. 1 cab.\n"),
                ("const { readFileSync } = await import('fs'); console.log(readFileSync(0).length)", b"", "0\n"),
                ("console.log(fs.readFileSync('/etc/passwd', {encoding: 'utf8'}).length > 0)", b"x", "true\n")):
            ran = subprocess.run([harness.CLOISTER, "run", "--language", "javascript", "-c", code], input=given, env=harness.environment(), cwd=self.dir,
                                 capture_output=True, timeout=harness.patient(30), check=False)
            self.assertEqual((ran.returncode, ran.stdout.decode()), (0, printed), (code, ran.stderr))
        # An input that does not end is waited for, and the wait can be interrupted.
        waiting = subprocess.Popen([harness.CLOISTER, "run", "--timeout", "1", "--language", "javascript", "-c", "fs.readFileSync(0); console.log('no')"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), cwd=self.dir)
        with waiting:
            waiting.stdin.write(b"some")
            waiting.stdin.flush()
            self.assertEqual((waiting.wait(harness.patient(30)), waiting.stdout.read()), (124, b""), waiting.stderr.read())

    def test_import_meta(self):
        script = self.write("m.mjs", "import os from 'os'; console.log(import.meta.filename === __filename, import.meta.url.endsWith('m.mjs'), import.meta.resolve('os'),"
                            "import.meta.resolve('node:fs'), typeof os.cpus)")
        ran = self.run_cloister("run", script)
        self.assertEqual((ran.returncode, ran.stdout), (0, b"true true node:os node:fs function\n"), ran.stderr)

    def test_typescript(self):
        os.chmod(self.dir, 0o755)
        node = list(nodes().values())[-1]
        config = self.config(**({"nodejs": node} if node else {}))
        ran = self.run_cloister("run", "--config", config, self.write("x.ts", "interface A { n: number }\nconst a: A = {n: 3}; console.log(a.n as number)"))
        if node or b"TypeScript needs Node 22.13" not in ran.stderr:
            self.assertEqual((ran.returncode, ran.stdout), (0, b"3\n"), ran.stderr)
        else:
            self.assertEqual(ran.returncode, 1)

    def test_a_prompt(self):
        lines = b"var z = 5\nz + 1\nfunction f() {\n return 7\n}\nf()\n"
        ran = subprocess.run([harness.CLOISTER, "run", "--language", "javascript", "-i"], input=lines, env=harness.environment(), cwd=self.dir, capture_output=True, timeout=60, check=False)
        self.assertEqual((ran.returncode, ran.stdout.split()), (0, [b"6", b"7"]), ran.stderr)

    def test_json(self):
        ran = self.run_cloister("run", "--json", "--language", "javascript", "-c", "console.log(1)")
        self.assertEqual(json.loads(ran.stdout)["structuredContent"]["stdout"], "1\n", ran.stderr)


if __name__ == "__main__":
    harness.main()
