"""JavaScript in each Node of the machine, and without a control group: its start, interrupts, threads, the limit of memory."""

import glob
import os
import unittest

import harness
import rawmcp

NODES = os.environ.get("CLOISTER_NODES", os.path.join(harness.SOURCE, "build", "nodes"))
MB = 1 << 20
# Each thread fills memory as fast as it can.
FILL = "const all = []; for (;;) all.push(Buffer.alloc(8 << 20, 1));"
BOMBS = {
    "WebAssembly": "const m = []; for (;;) { const x = new WebAssembly.Memory({initial: 512}); new Uint8Array(x.buffer).fill(1); m.push(x) }",
    "shared buffers": "const m = []; for (;;) { const x = new SharedArrayBuffer(32 << 20); new Uint8Array(x).fill(1); m.push(x) }",
}
CHILDREN = (
    "await Promise.all([1, 2, 3].map(() => new Promise(r => require('child_process').spawn(process.execPath, ['-e', %r], {stdio: 'ignore'}).on('exit', r))))" % FILL
)
THREADS = (
    "var {Worker} = require('worker_threads'), ended = [];"
    "for (let i = 0; i < %d; i++) { try { const w = new Worker(%r, {eval: true});"
    " w.on('error', e => console.log(String(e))); } catch (e) { console.log(String(e)) } }"
)


def nodes():
    """Returns the paths, by version; {"PATH": None}: the one in PATH."""
    found = {path.split("/")[-5]: path for path in glob.glob(f"{NODES}/*/node_modules/node/bin/node")}
    return {"PATH": None, **dict(sorted(found.items()))}


class Versions(harness.Case):
    def server(self, node, **rest):
        os.chmod(self.dir, 0o755)
        profile = {"language": "javascript", "agent": True, "limits": {"memory": "256M"}, **({"nodejs": node} if node else {})}
        return rawmcp.RawServer("--config", self.config(name=f"{self._testMethodName}.json", pool=1, profiles={"js": profile}), cwd=self.dir)

    def test_each_version(self):
        for version, node in nodes().items():
            with self.subTest(version), self.server(node) as server:
                server.initialize()
                cell = server.cell("var kept = 1; console.log(process.versions.node.split('.')[0])", tool="run_javascript")
                self.assertEqual(cell["status"], "ok", cell)
                if node:
                    self.assertEqual(cell["stdout"].strip(), version)
                # Time for the worker's second thread to start, also on a loaded machine.
                server.cell("await new Promise(r => setTimeout(r, 1500))", tool="run_javascript")
                cell = server.cell("for (;;);", tool="run_javascript", timeout=1)
                self.assertEqual((cell["status"], cell["state"]), ("timeout", "kept"), cell)
                work = "new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])); require('child_process').execFileSync('/bin/true'); console.log(kept)"
                self.assertEqual(server.cell(work, tool="run_javascript")["stdout"], "1\n")


class Memory(Versions):
    test_each_version = None

    def test_threads_that_fill_memory_end_the_session(self):
        """The most that the session reached is in the result: docs/threat-model.md has the figure."""
        with self.server(list(nodes().values())[-1]) as server:
            server.initialize()
            cell = server.cell(THREADS % (2, FILL) + "; {" + FILL + "}", tool="run_javascript", timeout=60)
            self.assertIn(cell["status"], ("oom", "killed"), cell)
            self.assertEqual(cell["state"], "lost", cell)
            # RLIMIT_DATA of one process, which only counts without a control group.
            self.assertLess(cell["peak_memory_bytes"], (256 + 4 * 640) * MB)
            self.assertEqual(server.cell("console.log(1)", tool="run_javascript")["stdout"], "1\n")

    def test_other_ways_to_fill_memory(self):
        with self.server(list(nodes().values())[-1]) as server:
            server.initialize()
            for name, code in BOMBS.items():
                with self.subTest(name):
                    cell = server.cell(code, tool="run_javascript", timeout=60, session=name.replace(" ", "-"))
                    self.assertEqual((cell["status"], cell["state"]), ("oom", "lost"), cell)
            # The kernel ends the children of a control group first; the monitor ends the session.
            cell = server.cell(CHILDREN, tool="run_javascript", timeout=60, session="children")
            self.assertIn((cell["status"], cell["state"]), (("oom", "lost"), ("ok", "new")), cell)
            self.assertLess(cell["peak_memory_bytes"], (256 + 4 * 640) * MB)

    @unittest.skipIf(harness.BOUNDED, "a control group counts the memory: threads are not limited")
    def test_threads_are_counted_without_a_control_group(self):
        with self.server(list(nodes().values())[-1]) as server:
            server.initialize()
            code = THREADS % (6, "setInterval(() => {}, 1000)") + "; await new Promise(r => setTimeout(r, 1500))"
            cell = server.cell(code, tool="run_javascript", timeout=30)
            self.assertEqual(cell["status"], "ok", cell)
            self.assertEqual(cell["stdout"].count("worker threads at a time"), 4, cell)


if __name__ == "__main__":
    harness.main()
