"""Classes 150 and 151: what Cloister brings to Node. Each refusal has a control."""

import hashlib
import json

import harness
import rawmcp
from test_battery import not_held

JS = {"language": "javascript"}
CHANGE = """
var fs = require('fs'), own = '/dev/cloister/main.js', tried = {
  open: () => fs.openSync('/proc/self/root' + own, 'r+'), append: () => fs.appendFileSync(own, 'x'),
  link: () => fs.linkSync(own, '/workspace/main.js'), rename: () => fs.renameSync(own, '/dev/cloister/other.js'),
  truncate: () => fs.truncateSync(own, 0), chmod: () => fs.chmodSync(own, 0o777), times: () => fs.utimesSync(own, 1, 1),
  symlink: () => fs.symlinkSync('/workspace', '/dev/cloister/x'), make: () => fs.mkdirSync('/dev/cloister/x'),
  remove: () => fs.rmSync('/dev/cloister', {recursive: true}), over: () => fs.renameSync('/workspace', '/dev/cloister'),
};
for (const [name, act] of Object.entries(tried)) { try { act(); console.log(name) } catch (e) { if (!e.code) throw e } }
"""


class Modules(rawmcp.ServerCase):
    TOOL = "run_javascript"
    CONFIG = {"profiles": {"js": {**JS, "agent": True}}, "pool": 0}

    def digest(self, session):
        code = "console.log(require('crypto').createHash('sha256').update(require('fs').readFileSync('/dev/cloister/main.js')).digest('hex'))"
        return self.ok(code, session=session)["stdout"].strip()

    def test_a_module_that_is_changed_for_no_other_session(self):
        before = self.digest(self.session)
        self.assertEqual(self.ok(CHANGE).get("stdout", ""), "")
        self.assertEqual(self.digest(self.session + "-2"), before)
        self.assertEqual(len(before), len(hashlib.sha256().hexdigest()))
        # The same acts on a file of the session succeed.
        own = CHANGE.replace("/dev/cloister", "/workspace/c").replace("rmSync", "statSync").replace("var fs", "var fs; fs")
        self.ok("fs = require('fs'); fs.mkdirSync('/workspace/c'); fs.writeFileSync('/workspace/c/main.js', '1')")
        self.assertIn("append", self.ok(own)["stdout"])


class Template(rawmcp.ServerCase):
    TOOL = "run_javascript"
    CONFIG = Modules.CONFIG

    def mapped(self, name):
        """Counts the processes of the server that have a file of this name mapped."""
        n = 0
        for pid in harness.descendants(self.server.process.pid):
            try:
                with open(f"/proc/{pid}/maps", encoding="ascii") as f:
                    n += any(line.rstrip().endswith(name) for line in f)
            except OSError:
                pass  # not dumpable: init, or it has ended
        return n

    def test_no_byte_of_the_image_runs_in_the_template(self):
        node = self.ok("console.log(process.execPath)")["stdout"].strip()
        self.assertEqual(self.mapped(node), 1)
        # The template of Python and its worker have the image's interpreter.
        python = self.ok("print([line.split()[-1] for line in open('/proc/self/maps') if 'python3' in line and '/' in line][0])", tool="run_python", session="python")
        self.assertGreaterEqual(self.mapped(python["stdout"].strip()), 2)


class FromJavaScript(harness.Case):
    def test_nothing_is_open_from_javascript(self):
        done = self.run_cloister("doctor", "--attack", "--json", "--config", self.config(**JS), timeout=120)
        report = json.loads(done.stdout)
        self.assertEqual((not_held(report), report["open"], done.returncode), ([], 0, 0))
        self.assertGreater(report["held"], 280)
        self.assertIn("chmod of a module of the worker", {row["item"] for row in report["rows"]})


if __name__ == "__main__":
    harness.main()
