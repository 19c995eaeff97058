"""SIGINT and process.exit(): the code ends, variables stay. Scripts, and questions of a prompt."""

import json
import os
import signal
import time

from worker_case import WorkerTest
from worker_rig import tool_result

ENDLESS = {
    "a loop": "while (true) {}",
    "a loop that catches everything": "for (;;) { try { for (;;); } catch {} finally {} }",
    "a regular expression": "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "after await": "await null; while (true) {}",
    "microtasks": "while (true) await null",
    "a timer": "setTimeout(() => { while (true) {} }, 5); await new Promise(r => setTimeout(r, 1e6))",
    "an interval": "setInterval(() => { while (true) {} }, 5); await new Promise(r => setTimeout(r, 1e6))",
    "nextTick": "process.nextTick(() => { while (true) {} }); await new Promise(r => setTimeout(r, 1e6))",
    "ticks": "process.nextTick(function t() { process.nextTick(t) }); await new Promise(() => {})",
    "immediates": "(function t() { setImmediate(t) })(); await new Promise(() => {})",
    "promises": "(function t() { Promise.resolve().then(t) })(); await new Promise(() => {})",
    "a wait": "await new Promise(r => setTimeout(r, 1e6))",
    "a program": "require('child_process').execSync('sleep 1000; true')",
    "the value": "({ [Symbol.for('nodejs.util.inspect.custom')]() { while (true) {} } })",
    "a listener": "process.on('SIGINT', () => {}); while (true) {}",
    "a listener that was removed": "process.removeAllListeners('SIGINT'); while (true) {}",
}


class Interrupts(WorkerTest):
    def stop(self, code, after=0.15):
        self.run_cell(code, "interrupted", interrupt_after=after)

    def test_endless_code(self):
        self.run_cell("var kept = 'kept'")
        for name, code in ENDLESS.items():
            with self.subTest(name):
                self.stop(code)
                self.assertEqual(self.value("kept"), "kept")

    def test_code_that_waits_does_not_continue(self):
        self.run_cell("var n = 0; const sleep = (ms) => new Promise(r => setTimeout(r, ms)); async function fail() { await sleep(1); throw 1 }")
        for loop in ("while (true) { n++; await new Promise(r => setImmediate(r)) }", "while (true) { try { n++; await fail() } catch {} }",
                     "async function run() { for (;;) { try { n++; await sleep(1) } finally { continue } } }\nawait run()",
                     "async function* ticks() { for (;;) yield await sleep(1) }\nfor await (const _t of ticks()) n++"):
            with self.subTest(loop):
                self.stop(loop)
                before = self.value("n")
                self.assertEqual(self.value("await new Promise(r => setTimeout(r, 30)); n"), before)

    def test_earlier_cells_go_on(self):
        self.run_cell("var ticks = 0; var timer = setInterval(() => ticks++, 2)")
        self.stop("await new Promise(() => {})")
        before = self.value("ticks")
        self.assertGreater(self.value("await new Promise(r => setTimeout(r, 50)); ticks"), before)
        self.run_cell("clearInterval(timer)")

    def test_calls_are_dropped(self):
        worker, before = self.worker, self.worker.on_call
        worker.on_call = None
        self.stop("await tools.echo({v: 1})")
        number = worker.calls[-1][0]
        self.assertEqual(worker.drops, [number])
        worker.send("RETURN", number, tool_result("late"))  # crossed the DROP
        worker.on_call = before
        self.assertEqual(self.value("(await tools.echo({v: 2})).v"), 2)

    def test_between_cells_it_is_ignored(self):
        self.run_cell("process.on('SIGINT', () => console.log('got 2')); process.on('SIGURG', () => console.log('got 23'))")
        self.run_cell("await new Promise(r => setTimeout(r, 500))")  # the second thread has started
        for number in signal.SIGINT, signal.SIGURG:
            os.kill(self.worker.pid, number)
            while b"got %d" % number not in self.worker.output["stdout"]:
                self.assertTrue(self.worker.step(20))
            time.sleep(0.3)
            self.assertEqual(self.value("await new Promise(r => setTimeout(r, 30)); 1"), 1)
        self.run_cell("process.removeAllListeners()")

    def test_threads_of_the_cell_end(self):
        self.stop("new (require('worker_threads').Worker)('while (true) {}', {eval: true}); while (true) {}")
        self.assertEqual(self.value("1"), 1)

    def test_exit_ends_the_cell_only(self):
        self.run_cell("var kept = 1")
        for code, status in (("try { process.exit(4) } catch { console.log('caught') } finally { console.log('finally') }", 4),
                             ("await null; try { process.exit(5) } finally { console.log('finally') }", 5),
                             ("setTimeout(() => process.exit(6), 2); await new Promise(r => setTimeout(r, 1e6))", 6), ("process.exit(257 + 6)", 7)):
            with self.subTest(code):
                result = self.run_cell(code, "exit")
                self.assertEqual((result["exit_code"], result["stdout"]), (status, ""))
        self.run_cell("process.exit()")
        self.run_cell("setTimeout(() => process.exit(1), 1)")
        self.worker.step(1)
        self.assertEqual(self.value("kept"), 1)


class Rest(WorkerTest):
    def test_a_session_that_rests_has_no_second_thread(self):
        """And gets another one for the next cell."""
        threads = "fs.readdirSync('/proc/self/task').length"
        file = self.modules.place / "session.js"
        text = file.read_text()
        self.assertIn("REST_MS = 30000", text)
        file.write_text(text.replace("REST_MS = 30000", "REST_MS = 500"))
        self.fresh()
        self.run_cell("var kept = 1")
        for _ in range(2):
            before = self.value(threads)
            deadline = time.monotonic() + 20
            while len(os.listdir(f"/proc/{self.worker.pid}/task")) >= before and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertEqual(len(os.listdir(f"/proc/{self.worker.pid}/task")), before - 1)
            self.run_cell("while (true) {}", "interrupted", interrupt_after=0.5)
            self.assertEqual(self.value("kept"), 1)


class Scripts(WorkerTest):
    def script(self, code, status="ok", filename="script.js", **given):
        if given:
            self.worker.send("SCRIPT", self.worker.cell + 1, {"arguments": ["script.js"], "environment": {}, "input": "none", **given})
        return self.run_cell(code, status, filename)

    def test_it_lasts_until_the_loop_is_empty(self):
        result = self.script("setTimeout(() => console.log('later'), 30); console.log(typeof module.exports, require.main === module, __filename.endsWith('/script.js'))")
        self.assertEqual(result["stdout"], "object true true\nlater\n")
        self.assertNotIn("value", self.script("1 + 1"))

    def test_exit_codes(self):
        self.assertEqual(self.script("process.on('exit', (c) => console.log('bye', c)); process.exitCode = 3", "exit")["exit_code"], 3)
        self.assertEqual(self.script("process.on('exit', (c) => console.log('bye', c)); process.exit(4); console.log('not')", "exit")["stdout"], "bye 4\n")
        self.assertEqual(self.script("setTimeout(() => { throw new Error('e') }, 5)", "error")["error"]["message"], "e")

    def test_lines_of_an_error(self):
        error = self.script("let a = 1\n\n  null.x", "error", filename="dir/own.js")["error"]
        self.assertEqual(error["line"], 3)
        self.assertIn("dir/own.js:3\n  null.x\n", error["traceback"])

    def test_modules(self):
        code = "import fs from 'node:fs'\nconst x = await 5\nexport const y = x\nconsole.log(x, typeof fs.readFileSync)"
        self.assertEqual(self.script(code, filename="s.mjs")["stdout"], "5 function\n")
        self.assertEqual(self.script("return console.log('returned')")["stdout"], "returned\n")

    def test_arguments_environment_and_input(self):
        pieces = ["aGVsbG8g", "d29ybGQ=", ""]
        self.worker.on_read = lambda number, read: self.worker.send("RETURN", number, {"ok": True, "result": pieces.pop(0)})
        code = "let all = ''; for await (const piece of process.stdin) all += piece\nconsole.log(process.argv.slice(1), process.env.COLOUR, all)"
        file = str(self.modules.workspace / "given.js")
        result = self.script(code, arguments=[file, "-x"], environment={"COLOUR": "blue"}, file=file, write=True, input="pipe")
        self.assertEqual(result["stdout"], f"[ '{file}', '-x' ] blue hello world\n")
        self.assertEqual((self.modules.workspace / "given.js").read_text(), code)
        self.fresh()

    def test_questions_of_a_prompt(self):
        def ask(**question):
            self.worker.cell += 1
            self.worker.send("PROBE", self.worker.cell, b"%b\0" % json.dumps(question).encode())
            return self.worker.finish()["value"]["json"]

        self.run_cell("var answer1 = 1, answer2 = 2")
        self.assertEqual([ask(what="more", source=text) for text in ("f(", "1 +", "function x() {", "`a", "1", "]")], [True, True, True, True, False, False])
        self.assertEqual(ask(what="complete", text="answ"), ["answer1", "answer2"])
        self.assertEqual(ask(what="complete", text="console.lo"), ["console.log"])
