"""llm-sandbox: its tools, its resource, and variables of which a wrong one fails each call."""

import json
import unittest

import harness
import systems
from npm_registry import Registry
from test_publish import PNG


class LlmSandbox(systems.SystemCase):
    SYSTEM = "llm-sandbox"

    def test_results(self):
        self.both(self.check_results)

    def check_results(self, server):
        self.assertEqual(self.initialized["serverInfo"]["name"], "llm-sandbox")
        self.assertEqual(self.names(server), ["execute_code", "get_supported_languages", "get_language_details"])
        run = lambda code, **rest: self.value(server, "execute_code", code=code, **rest)
        self.assertEqual(run("import sys; print(5); print('e', file=sys.stderr)"), {"exit_code": 0, "stderr": "e\n", "stdout": "5\n"})
        self.assertEqual(run("raise SystemExit(4)", language="python", libraries=None, timeout=30)["exit_code"], 4)
        self.assertRegex(run("1/0")["stderr"], "ZeroDivisionError")
        self.assertEqual(run("console.log(5); console.error('e')", language="javascript"), {"exit_code": 0, "stderr": "e\n", "stdout": "5\n"})
        self.assertEqual(run("process.exit(4)", language="javascript")["exit_code"], 4)
        unknown = run("x", language="go")
        self.assertEqual((unknown["exit_code"], unknown["stdout"]), (1, ""))
        self.assertRegex(unknown["stderr"], "there is no image 'go' .*cloister image build --oci docker://")
        self.assertEqual(json.loads(self.told(server, "get_supported_languages")), ["python", "javascript"])
        details = self.value(server, "get_language_details", language="python")
        self.assertEqual(list(details), ["version", "package_manager", "preinstalled_libraries", "use_cases", "visualization_support", "examples"])
        self.assertEqual(list(details["examples"][0]), ["title", "description", "code"])
        self.assertEqual(self.value(server, "get_language_details", language="x"), {"error": "Unsupported language: x"})
        read = server.ask("resources/read", {"uri": "sandbox://languages"})["contents"][0]["text"]
        javascript = self.value(server, "get_language_details", language="javascript")
        self.assertEqual(list(javascript), list(details))
        self.assertEqual(json.loads(read), {"python": details, "javascript": javascript})

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_libraries_of_javascript(self):
        registry = Registry()
        self.addCleanup(registry.close)
        registry.add("library", "1.0.0", {"index.js": "module.exports = 'here'"}, scripts={"install": "exit 1"})
        server = self.start(env={"NPM_CONFIG_REGISTRY": registry.url})
        run = lambda *libraries: self.value(server, "execute_code", code="console.log(require('library'))", language="javascript", libraries=list(libraries))
        self.assertEqual(run("library@^1"), {"exit_code": 0, "stderr": "", "stdout": "here\n"})
        self.assertIn("Cannot find module", run()["stderr"])
        self.assertRegex(run("library;id")["stderr"], "is not a package of npm")
        self.assertRegex(run("nowhere")["stderr"], "no such package: 'nowhere'")

    def test_last_image_comes_first(self):
        server = self.start()
        code = f"import base64\nfor i in range(2): display({{'image/png': {PNG!r}}}, raw=True)\nprint('text')"
        blocks = self.result(server, "execute_code", code=code)["content"]
        self.assertEqual([b["type"] for b in blocks], ["image", "text"], blocks)

    def test_limits(self):
        """A variable sets a limit; the user's config bounds it."""
        env = {"SANDBOX_MEM_LIMIT": "128m", "SANDBOX_MEMORY": "1g", "SANDBOX_CPU_COUNT": "1", "SANDBOX_CPUS": "0.5"}
        shown = lambda config: json.loads(self.run_cloister("config", "show", "--json", "--config", self.config(**config), "--as", self.SYSTEM,
                                                            env=harness.environment(**env)).stdout)["profiles"]["default"]["limits"]
        self.assertEqual((shown({})["memory"], shown({})["cpu"]), ("128M", 1))
        self.assertEqual(shown({"limits": {"memory": "64M", "cpu": 0.25}})["memory"], "64M")
        self.assertEqual(shown({"limits": {"memory": "1G", "cpu": 0.25}})["memory"], "128M")
        server = self.start(env=env, config={"limits": {"cpu": 0.25}})
        self.assertIn("cpu: the config allows less", server.log())

    def test_settings_that_hold_anyway(self):
        env = {"BACKEND": "podman", "COMMIT_CONTAINER": "true", "SANDBOX_NETWORK_MODE": "bridge", "SANDBOX_READ_ONLY": "1",
               "SANDBOX_CAP_DROP": "ALL", "SANDBOX_SECURITY_OPT": "no-new-privileges:true", "SANDBOX_PRIVILEGED": "no",
               "DOCKER_HOST": "tcp://user:sesame@h"}
        server = self.start(env=env)
        code = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1))\nexcept OSError:\n    print('none')"
        self.assertEqual(self.value(server, "execute_code", code=code)["stdout"], "none\n")
        refused = self.value(server, "execute_code", code="import urllib.request\nurllib.request.urlopen('http://example.com')")
        self.assertIn("allow hosts with --network HOST, or network in the config", refused["stderr"])
        self.assertRegex(server.log(), "SANDBOX_NETWORK_MODE bridge: code runs without a network")
        self.assertNotIn("sesame", server.log())

    def test_wrong_variables_fail_each_call(self):
        for name, value, why in (("SANDBOX_PRIVILEGED", "true", "never privileged"), ("SANDBOX_NETWORK_MODE", "host", "never has the network"),
                                 ("SANDBOX_SECURITY_OPT", "no-new-privileges,seccomp=unconfined", "never runs without a system call filter"),
                                 ("SANDBOX_CPU_COUNT", "1.5", "must be a whole number"), ("SANDBOX_MEM_LIMIT", "1k", "at least 64 MiB"),
                                 ("BACKEND", "chroot", "must be one of docker")):
            server = self.start(env={name: value})
            answer = self.value(server, "execute_code", code="print('ran')")
            self.assertEqual((answer["exit_code"], answer["stdout"]), (1, ""))
            self.assertRegex(answer["stderr"], f"{name} {value}: .*{why}")


if __name__ == "__main__":
    harness.main()
