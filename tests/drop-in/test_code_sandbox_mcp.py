"""code-sandbox-mcp: its tools, its resource, and variables that are passed to code."""

import contextlib
import json
import os
import re
import shutil
import tempfile

import harness
import rawmcp
import systems
from npm_registry import Registry
from test_installs import Index, module

SECRET = "sesame-" + os.urandom(8).hex()


NOWHERE = "http://127.0.0.1:1/"
PYTHON = ("numpy", "pandas", "matplotlib", "scikit-learn", "requests", "google-genai")


class CodeSandbox(systems.SystemCase):
    SYSTEM = "code-sandbox-mcp"

    def start(self, *args, config=None, **rest):
        """Without the libraries of the table, which have tests of their own below."""
        return super().start(*args, config={"libraries": {"python": [], "npm": []}, **(config or {})}, **rest)

    def test_results(self):
        self.both(self.check_results)

    def check_results(self, server):
        self.assertEqual(self.initialized["serverInfo"]["name"], "code-sandbox")
        self.assertIn("sandbox://environments", self.initialized["instructions"])
        self.assertEqual(self.names(server), ["run_python_code", "run_javascript_code"])
        run = lambda code: self.told(server, "run_python_code", code=code)
        self.assertEqual(run("print('  a\\nb ')"), "a\nb")
        wrong = lambda code: self.value(server, "run_python_code", code=code)
        self.assertEqual(wrong("x = 1"), {"exit_code": 1, "stderr": "No output, forgot print()?", "stdout": ""})
        failed = wrong("print('lost')\n1/0")
        self.assertEqual((list(failed), failed["exit_code"], failed["stdout"]), (["exit_code", "stderr", "stdout"], 1, ""))
        self.assertRegex(failed["stderr"], r"(?s)\ATraceback .*ZeroDivisionError: division by zero\Z")
        read = server.ask("resources/read", {"uri": "sandbox://environments"})["contents"][0]["text"]
        self.assertEqual({name: sorted(of) for name, of in json.loads(read).items()},
                         dict.fromkeys(("python", "javascript"), ["image", "installed_libraries"]))

    def test_javascript(self):
        self.both(self.check_javascript)

    def check_javascript(self, server):
        for name in "run_javascript_code", "run_js_code":
            self.assertEqual(self.told(server, name, code="const one = require('os'); console.log('  a\\nb ', typeof one.cpus)"), "a\nb  function")
        wrong = lambda code: self.value(server, "run_javascript_code", code=code)
        self.assertEqual(wrong("const x = 1 / 0;"), {"exit_code": 1, "stderr": "No output, forgot console.logs?", "stdout": ""})
        failed = wrong("console.log('lost')\nconsole.log(y)")
        self.assertEqual((list(failed), failed["exit_code"], failed["stdout"]), (["exit_code", "stderr", "stdout"], 1, ""))
        self.assertRegex(failed["stderr"], r"(?s)script\.js:2\b.*ReferenceError: y is not defined")
        self.assertEqual(wrong("process.exit(3)")["exit_code"], 1)
        # The event loop runs until it is empty.
        self.assertEqual(self.told(server, "run_javascript_code", code="setTimeout(() => console.log('late'), 50)"), "late")

    def test_name_of_the_readme(self):
        """It can be called and is not listed. An unknown name is an error."""
        server = self.start()
        self.assertNotIn("run_js_code", self.names(server))
        self.assertIn("stderr", self.value(server, "run_js_code", code=""))
        with self.assertRaises(rawmcp.RpcError):
            self.result(server, "run_ruby_code", code="")

    def test_passed_variables(self):
        env = {"THE_SECRET": SECRET, "OTHER": "kept out"}
        server = self.start("--pass-through-env", "THE_SECRET, NOT_SET", "--log-level", "debug", env=env)
        code = f"import os; print(os.environ['THE_SECRET'] == bytes.fromhex('{SECRET.encode().hex()}').decode(), os.environ.get('NOT_SET'), os.environ.get('OTHER'))"
        self.assertEqual(self.told(server, "run_python_code", code=code), "True None None")
        code = f"console.log(process.env.THE_SECRET == Buffer.from('{SECRET.encode().hex()}', 'hex').toString(), process.env.NOT_SET, process.env.OTHER)"
        self.assertEqual(self.told(server, "run_javascript_code", code=code), "true undefined undefined")
        seen = 0
        for pid in [server.process.pid, *harness.descendants()]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/cmdline", "rb") as f:
                self.assertNotIn(SECRET.encode(), f.read())
                seen += 1
        self.assertGreater(seen, 2)
        log = server.log()
        self.assertNotIn(SECRET, log)
        self.assertRegex(log, "--pass-through-env: code gets these variables: THE_SECRET\n")
        self.assertRegex(log, "the variable NOT_SET is not set, and is not set inside")
        shown = self.run_cloister("config", "show", "--config", self.config(), "--as", self.SYSTEM, "--pass-through-env", "THE_SECRET",
                                  env=harness.environment(**env))
        self.assertIn(b'"THE_SECRET": "***"', shown.stdout)
        self.assertNotIn(SECRET.encode(), shown.stdout + shown.stderr)

    def test_passed_variables_over_http(self):
        """Where others can call, the start is refused. Control: a socket that only the owner can open."""
        server = self.start(http=True, env={"PASSTHROUGH_ENV": "THE_SECRET", "THE_SECRET": SECRET})
        self.assertEqual(self.told(server, "run_python_code", code=f"import os; print(len(os.environ['THE_SECRET']))"), str(len(SECRET)))
        tokens = self.write("tokens", f"alice {'a' * 40}\n")
        os.chmod(tokens, 0o600)
        for where in (["--listen", "127.0.0.1:0"], ["--listen", f"unix:{self.path('other')}", "--tokens", tokens], []):
            self.refused(2, "only where no other user can call it", *where, env={"PASSTHROUGH_ENV": "THE_SECRET"}, command="serve")

    def test_timeout(self):
        """The table's timeout is 30 s; the user's config bounds it."""
        server = self.start(config={"timeout": 1, "timeout_max": 1})
        self.assertEqual(self.value(server, "run_python_code", code="print(1)\nwhile True: pass"),
                         {"exit_code": 1, "stderr": "Operation timed out after 1 seconds", "stdout": ""})
        shown = self.run_cloister("config", "show", "--json", "--config", self.config(), "--as", self.SYSTEM)
        self.assertEqual({tool["run"]["timeout"]["default"] for tool in json.loads(shown.stdout)["publish"]["tools"].values()}, {30})

    def test_settings_that_have_no_meaning(self):
        server = self.start(env={"BACKEND": "docker", "VERBOSE": "true"})
        self.assertEqual(self.told(server, "run_python_code", code="print(1)"), "1")
        self.assertRegex(server.log(), "BACKEND docker: .*no meaning")

    def test_image_of_the_user(self):
        server = self.start(env={"CONTAINER_IMAGE": "nothing", "CONTAINER_LANGUAGE": "python"})
        self.assertIn("there is no image 'nothing'", self.value(server, "run_python_code", code="print(1)")["stderr"])
        self.refused(1, "CONTAINER_LANGUAGE ruby: must be one of python, javascript", env={"CONTAINER_LANGUAGE": "ruby"})

    def test_wrong_names(self):
        self.refused(2, "--pass-through-env A=b: must be names of variables, separated by commas", "--pass-through-env", "A=b")



class Libraries(systems.SystemCase):
    """The libraries that the original has: an image at the first use, and not again at the second."""

    SYSTEM = "code-sandbox-mcp"

    def setUp(self):
        super().setUp()
        self.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.registry = Registry()
        self.addCleanup(self.registry.close)
        self.registry.add("@google/genai", "1.0.0", {"index.js": "exports.GoogleGenAI = class { hello() { return 'genai' } }"})
        self.index = Index(*(module(name.replace("-", "_"), "1.0") for name in PYTHON))
        self.addCleanup(self.index.server_close)
        self.addCleanup(self.index.shutdown)

    def env(self, here=True):
        index, registry = (self.index.url(), self.registry.url) if here else (NOWHERE + "simple", NOWHERE)
        return {"CLOISTER_IMAGE_STORE": f"{self.place}/images", "PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, "NPM_CONFIG_REGISTRY": registry}

    def both_languages(self, server, **expected):
        code = "import importlib.util as u; print([n for n in %r if u.find_spec(n.replace('-', '_'))])" % (PYTHON,)
        self.assertEqual(self.told(server, "run_python_code", code=code), str(expected["python"]))
        code = "try { console.log(new (require('@google/genai').GoogleGenAI)().hello()) } catch (e) { console.log(e.code) }"
        self.assertEqual(self.told(server, "run_javascript_code", code=code), expected["javascript"])

    def test_libraries(self):
        """Without a network the images have none of them until the next start, which installs them; a start after that needs no network."""
        server = self.start(env=self.env(here=False))
        self.both_languages(server, python=[], javascript="MODULE_NOT_FOUND")
        lines = [line for line in server.log().splitlines() if "without its libraries" in line]
        self.assertEqual(len(lines), 2, server.log())
        self.assertRegex(lines[0], "used without its libraries until the next start: .*the index can't be reached")
        self.assertRegex(lines[1], "used without its libraries until the next start: .*the registry can't be reached")
        server.close()
        server = self.start(env=self.env())
        self.check_progress(server)
        self.both_languages(server, python=list(PYTHON), javascript="genai")
        read = json.loads(server.ask("resources/read", {"uri": "sandbox://environments"})["contents"][0]["text"])
        self.assertEqual((read["python"]["installed_libraries"], read["javascript"]["installed_libraries"]), (list(PYTHON), ["@google/genai"]))
        self.assertRegex(server.log(), "installing 6 packages with")
        self.assertRegex(server.log(), "downloading 1 of 1: @google/genai 1.0.0")
        server.close()
        asked = len(self.index.asked), len(self.registry.asked)
        server = self.start(env=self.env(here=False))
        self.both_languages(server, python=list(PYTHON), javascript="genai")
        self.assertEqual((len(self.index.asked), len(self.registry.asked)), asked)
        self.assertNotIn("without its libraries", server.log())
        server.close()
        self.check_image_of_a_language()

    def check_progress(self, server):
        """The first call of each language gets the steps of the build of its image: by progress if it has a token, else by messages for
        the log, if it wants them; a client that wants neither gets nothing. The index keeps the wheels back meanwhile."""
        self.index.let_go.clear()
        call = lambda tool, code, meta: server.request("tools/call", {"name": tool, "arguments": {"code": code}, "_meta": meta})
        modern = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
        waiting = [call("run_python_code", "print(1)", {"progressToken": "old"}),
                   call("run_python_code", "print(2)", {"progressToken": "new", **modern}),
                   call("run_python_code", "print(3)", {"io.modelcontextprotocol/logLevel": "info", **modern}),
                   call("run_python_code", "print(4)", {"io.modelcontextprotocol/logLevel": "warning", **modern})]
        told = lambda: {(note["params"].get("progressToken", note["method"]), message) for note in list(server.notes)
                        for message in re.findall("image: .*", note["params"].get("message") or str(note["params"].get("data")))}
        fetching = "image: (resolving with|downloading)"
        self.assertTrue(harness.wait_until(lambda: len({who for who, text in told() if re.match(fetching, text)}) == 3), server.notes)
        self.index.let_go.set()
        texts = [one.result(harness.patient(150))["content"][0]["text"] for one in waiting]
        self.assertEqual(texts, ["1", "2", "3", "4"])
        self.assertEqual({who for who, text in told()}, {"old", "new", "notifications/message"})
        messages = [(note["params"]["level"], str(note["params"]["data"])) for note in server.notes if note["params"].get("logger") == "cloister"]
        self.assertEqual(({level for level, _ in messages}, len(set(messages))), ({"info"}, len(messages)), "the last one wants warnings only")
        self.assertFalse([text for who, text in told() if text.startswith("image: cloister")], "each has the text of a line only")
        for token in "old", "new":
            values = [note["params"]["progress"] for note in server.notes if note["params"].get("progressToken") == token]
            self.assertTrue(all(b - a >= 0.9 for a, b in zip(values, values[1:])), values)

    def check_image_of_a_language(self):
        """CONTAINER_IMAGE is for the language of CONTAINER_LANGUAGE; the other one keeps its libraries."""
        env = self.env()
        built = self.run_cloister("image", "build", "--npm", "own", "--name", "mine", env=harness.environment(**env))
        self.assertEqual(built.returncode, 1, "the control")
        self.registry.add("own", "1.0.0", {"index.js": "module.exports = 'mine'"})
        built = self.run_cloister("image", "build", "--npm", "own", "--name", "mine", env=harness.environment(**env), timeout=harness.patient(60))
        self.assertEqual(built.returncode, 0, built.stderr)
        server = self.start(env={**env, "CONTAINER_IMAGE": "mine", "CONTAINER_LANGUAGE": "javascript"})
        self.assertEqual(self.told(server, "run_javascript_code", code="console.log(require('own'))"), "mine")
        self.assertEqual(self.told(server, "run_python_code", code="import os; print(os.path.exists('/usr/local/bin/node'))"), "False")
        read = json.loads(server.ask("resources/read", {"uri": "sandbox://environments"})["contents"][0]["text"])
        self.assertEqual(read["javascript"]["installed_libraries"], [])
        server.close()
        server = self.start(env={**env, "CONTAINER_IMAGE": "mine"})
        self.assertEqual(self.told(server, "run_python_code", code="import os; print(os.path.exists('/usr/local/bin/node'))"), "True")
        self.refused(1, "CONTAINER_LANGUAGE ruby: must be one of python, javascript", env={**env, "CONTAINER_LANGUAGE": "ruby"})


if __name__ == "__main__":
    harness.main()
