"""Code that changes what it can reach: the next cell works, or the session ends. It never hangs, and never sends what the broker refuses."""

from worker_case import WorkerTest
from worker_rig import FRAMES, HEADER

# Array.prototype.pop() stays: Node itself does not work without it.
POLLUTIONS = (
    "for (const name of Object.getOwnPropertyNames(String.prototype)) { if (name !== 'length') String.prototype[name] = () => 7 }",
    "Promise.prototype.then = () => { throw 2 }; Promise.resolve = null; Promise.prototype.constructor = Array; globalThis.Promise = 1",
    "for (const key of ['toJSON', 'get', 'set', 'value', 'then', 'type', 'number', 'outcome', 'exit', 'error', 'code']) "
    "Object.defineProperty(Object.prototype, key, { get() { throw 3 }, set() { throw 4 }, configurable: true })",
    "for (const kind of [Map, Set, WeakMap]) for (const name of Object.getOwnPropertyNames(kind.prototype)) { try { kind.prototype[name] = () => { throw 5 } } catch {} }",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 6; Reflect.apply = null",
    "JSON.stringify = JSON.parse = () => { throw 7 }; Buffer.from = Buffer.alloc = Buffer.concat = null; fs.writeSync = fs.readSync = () => { throw 8 }",
    "Object.defineProperty = Object.getOwnPropertyDescriptor = Object.keys = () => { throw 9 }; Math.min = Math.max = Math.floor = () => NaN",
    "Uint8Array.prototype.set = Uint8Array.prototype.subarray = null; Object.getPrototypeOf(Uint8Array.prototype).set = null",
    "process.nextTick = setTimeout = setImmediate = queueMicrotask = process.emitWarning = null; process.exit = 0",
    "Error.prepareStackTrace = () => { throw 10 }; Error.stackTraceLimit = 0; RegExp.prototype.exec = RegExp.prototype[Symbol.replace] = () => { throw 11 }",
    "process.removeAllListeners(); process.emit = process.on = () => { throw 12 }; process.listenerCount = null",
    "process.stdout.write = process.stderr.write = null; Object.getPrototypeOf(Object.getPrototypeOf(process.stdout)).write = null",
    "Symbol.prototype[Symbol.toPrimitive] = null; Array.prototype[Symbol.iterator] = undefined; Object.getPrototypeOf([][Symbol.iterator] ?? []).next = 0",
    "Object.setPrototypeOf(globalThis, new Proxy(Object.prototype, { get() { throw 13 }, has() { return false } }))",
    "Object.freeze(globalThis)",
    "for (const name of Object.getOwnPropertyNames(Array.prototype)) { if (!['constructor', 'length', 'pop'].includes(name)) Array.prototype[name] = () => { throw 1 } }",
)
ODD = (
    "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 } })",
    "new Proxy(() => {}, { get() { return null } })",
    "({ get a() { throw 1 }, [Symbol.toPrimitive]() { throw 2 }, toString: null })",
    "let deep = []; for (let i = 0; i < 1e5; i++) deep = [deep]; deep",
    "let wide = {}; for (let i = 0; i < 1e5; i++) wide['k' + i] = i; wide",
    "Object.create(null)",
    "({ then(resolve) { resolve(1) } })",
    "document_all = Object.create({ get constructor() { throw 4 } })",
    "new Array(4e9)",
)


class Hostile(WorkerTest):
    def ends_or_works(self, *cells):
        """Each cell has a result of some kind, unless the process has ended."""
        for code in cells:
            result = self.worker.run(code, timeout=20)
            if "ended" in result:
                self.fresh()
                return
            self.assertIn(result["status"], ("ok", "error", "exit"), result)

    def test_prototypes(self):
        for code in POLLUTIONS:
            with self.subTest(code):
                self.ends_or_works(code, "1 + 1", "let z = await 1; throw new Error('x' + z)", "await tools.echo({v: 1})", "1")
                self.fresh()

    def test_most_changes_do_no_harm(self):
        """Control: after these, results are as before."""
        for code in (POLLUTIONS[0], POLLUTIONS[1], POLLUTIONS[3], POLLUTIONS[5], POLLUTIONS[7]):
            with self.subTest(code):
                self.worker.run(code)
                self.assertEqual(self.value("1 + 1"), 2)
                self.fresh()

    def test_odd_values(self):
        for code in ODD:
            with self.subTest(code):
                self.assertIn("value", self.run_cell(code))
                self.assertEqual(self.worker.run("throw " + code.rpartition(";")[2])["status"], "error")
        self.assertEqual(self.value("1 + 1"), 2)

    def test_odd_errors(self):
        for code in ("throw Object.assign(new Error('m'), { stack: null, name: { toString() { throw 1 } } })", "throw Object.create(Error.prototype)",
                     "const e = new Error('m'); Object.defineProperty(e, 'message', { get() { throw e } }); throw e",
                     "const e = new Error('m'); e.cause = e; throw e", "throw new Error('\\ud800')", "throw new Error('l'.repeat(1e6))",
                     "class E extends Error { get name() { return 5 } } throw new E('q')"):
            with self.subTest(code):
                error = self.error(code)
                self.assertLess(len(error["traceback"]), 70000)

    def test_the_channel_is_closed(self):
        fd = self.value("fs.readdirSync('/proc/self/fd').map(Number).filter((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd).startsWith('socket:') } catch { return false } })")[0]
        self.assertEqual(self.worker.run(f"fs.closeSync({fd})")["ended"], 113)
        self.fresh()

    def test_the_broker_ends(self):
        self.worker.channel.shutdown(2)
        self.assertEqual(self.worker.process.wait(20), 113)
        self.fresh()

    def test_forged_frames_are_the_brokers_to_judge(self):
        """The worker sends what the code writes: frame-table.c refuses it. Its own frames stay whole."""
        fd = self.value("fs.readdirSync('/proc/self/fd').map(Number).filter((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd).startsWith('socket:') } catch { return false } })")[0]
        frame = HEADER.pack(2, FRAMES["DROP"], 0, 0, 99) + b"{}"
        self.assertEqual(self.value(f"fs.writeSync({fd}, Buffer.from('{frame.hex()}', 'hex')); 5"), 5)
        self.assertIn(99, self.worker.drops)

    def test_a_frame_too_long(self):
        self.worker.channel.sendall(HEADER.pack(65 << 20, FRAMES["EXEC"], 0, 0, 1))
        self.assertEqual(self.worker.process.wait(20), 113)
        self.fresh()

    def test_global_names_of_ours(self):
        self.assertEqual(self.error("'use strict'; __cloister = 1")["type"], "TypeError")
        self.run_cell("__cloister.resume = __cloister.load = null; __cloister.run = {}")
        self.worker.run("await 1")
        self.assertEqual(self.value("1 + 1"), 2)
        self.fresh()


class Heap(WorkerTest):
    OPTIONS = ("--max-old-space-size=64",)

    def test_the_heap_is_full(self):
        result = self.worker.run("const all = []; for (;;) all.push(new Array(1e5).fill(all.length))")
        self.assertEqual(result.get("ended"), -6, result)  # V8 aborts
        self.assertIn("heap out of memory", result["stderr"])
