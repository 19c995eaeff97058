"""Runs the official conformance suite and the inspector against Cloister without a config, and the suite against
tests/conformance/fixtures.json, which publishes the tools, prompts and resources that the scenarios call by name.

They need Node.js 22. Quickstart does not fetch them for every test: `./quickstart conformance` fetches and runs them.
"""

import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest

import harness
from recorder import MODERN, Relay, Validator, schemas
from test_serve import Serve

PLACE = os.environ.get("CLOISTER_CONFORMANCE", os.path.join(harness.SOURCE, "build", "conformance"))
MODULES = os.path.join(PLACE, "node_modules")
NODE = os.path.join(MODULES, "node", "bin", "node")
SUITE = os.path.join(MODULES, "@modelcontextprotocol", "conformance", "dist", "index.js")
INSPECTOR = os.path.join(MODULES, ".bin", "mcp-inspector")

# Scenarios that need only a server. The other scenarios call tools, prompts or resources of the suite by name.
GENERIC = {
    "2025-11-25": {"server-initialize", "logging-set-level", "ping", "tools-list", "server-sse-multiple-streams", "resources-list",
                   "prompts-list", "dns-rebinding-protection", "server-session-lifecycle", "server-sse-polling"},
    MODERN: {"tools-list", "prompts-list", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "dns-rebinding-protection",
             "input-required-result-unsupported-methods", "input-required-result-validate-input", "http-header-validation",
             "http-custom-header-server-validation", "tasks-status-notifications"},
}
# Scenarios of which a part needs such fixtures, with the checks that need them. No tool changes the lists.
PARTLY = {
    "caching": set(),
    "server-stateless": {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
                         "sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
                         "sep-2575-server-sends-tools-list-changed-on-subscription",
                         "sep-2575-server-sends-prompts-list-changed-on-subscription"},
}


@unittest.skipUnless(os.path.exists(SUITE), f"the conformance suite is not in {PLACE}")
class Suite(Serve):
    def run_suite(self, revision):
        """Returns {scenario: the ids of the checks that did not succeed}."""
        out = self.path("out")
        done = subprocess.run([NODE, SUITE, "server", "--url", f"http://localhost:{self.address[1]}/mcp", "--requirements", revision, "-o", out],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False, cwd=self.dir)
        found = {}
        for path in glob.glob(f"{out}/*/checks.json"):
            # server-SCENARIO-TIME
            name = os.path.basename(os.path.dirname(path)).removeprefix("server-").rsplit("-", 6)[0].rsplit("-20", 1)[0]
            with open(path, encoding="utf-8") as f:
                checks = json.load(f)
            found.setdefault(name, set()).update(c["id"] for c in checks if c["status"] in ("FAILURE", "WARNING"))
        self.assertTrue(found, done.stdout.decode())
        return found

    def check(self, revision):
        found = self.run_suite(revision)
        for name in GENERIC[revision]:
            with self.subTest(name):
                self.assertEqual(found.get(name, "it was not run"), set())
        for name, expected in PARTLY.items() if revision == MODERN else ():
            with self.subTest(name):
                self.assertEqual(found[name], expected)
        # The format of each message is checked in all scenarios, even if other checks fail.
        self.assertEqual({name for name, bad in found.items() if "wire-schema-valid" in bad}, set())

    def test_2025_11_25(self):
        self.check("2025-11-25")

    def test_2026_07_28(self):
        self.check(MODERN)


@unittest.skipUnless(os.path.exists(SUITE), f"the conformance suite is not in {PLACE}")
class Fixtures(Suite):
    """Runs each scenario, also those that are not scored, and allows no failure or warning."""

    SCORED = {"2025-11-25": 30, MODERN: 37}

    def config(self, *_, **__):
        with open(os.path.join(harness.SOURCE, "tests", "conformance", "fixtures.json"), encoding="utf-8") as f:
            return self.write("fixtures.json", f.read())

    def check(self, revision):
        found = self.run_suite(revision)
        self.assertEqual({name: bad for name, bad in found.items() if bad}, {})
        self.assertGreaterEqual(len(found), self.SCORED[revision])


@unittest.skipUnless(os.path.exists(INSPECTOR) and os.path.exists(SUITE), f"the inspector is not in {PLACE}")
class Inspector(Serve):
    """Runs the inspector's command line over both transports and in each of its modes; every message must be valid."""
    CALLS = (("tools/list", "--strict"), ("tools/call", "--tool-name", "run_python", "--tool-args-json", '{"code":"print(6 * 7)"}'),
             ("resources/list",), ("resources/templates/list",))

    def setUp(self):
        super().setUp()
        self.schemas = schemas(NODE, SUITE)

    def inspect(self, *arguments):
        home = tempfile.mkdtemp(dir=self.dir)
        environment = {**harness.environment(), "MCP_INSPECTOR_SECRET_STORE": "memory", "HOME": home,
                       "PATH": f"{os.path.dirname(NODE)}:{os.environ['PATH']}"}
        done = subprocess.run([NODE, INSPECTOR, "--cli", *arguments, "--format", "json"], stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment, cwd=self.dir, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, (arguments, done.stdout[-1000:], done.stderr[-1000:]))
        return json.loads(done.stdout)

    def check_messages(self, messages):
        messages = list(messages)
        modern = any("io.modelcontextprotocol/protocolVersion" in json.dumps(m) for _, m in messages)
        legacy = [m["result"]["protocolVersion"] for of_client, m in messages if not of_client and "protocolVersion" in m.get("result", {})]
        validators = {revision: Validator(schema) for revision, schema in self.schemas.items()}
        for of_client, message in messages:
            text = json.dumps(message)
            is_modern = modern and ("io.modelcontextprotocol/" in text or not legacy)
            revision = MODERN if is_modern else legacy[0]
            self.assertEqual(validators[revision].check(message, of_client), [], text[:2000])
        return {"modern"} & ({"modern"} if modern else set()) | ({"legacy"} if legacy else set()), len(messages)

    def check_all(self, target, messages, eras):
        for era in ("legacy", "auto", "modern"):
            for method, *rest in self.CALLS:
                with self.subTest(era=era, method=method):
                    answer = self.inspect(*target(era), "--protocol-era", era, "--method", method, *rest)
                    self.assertIn({"tools/list": "run_python", "tools/call": "42"}.get(method, "resource"), json.dumps(answer))
                    seen, n = self.check_messages(messages())
                    self.assertGreaterEqual(n, 2)
                    self.assertIn(seen, eras[era], seen)

    ERAS = {"legacy": ({"legacy"},), "modern": ({"modern"},), "auto": ({"modern"}, {"legacy", "modern"})}

    def test_http(self):
        relay = None

        def target(_):
            nonlocal relay
            relay = Relay(self.address)
            self.addCleanup(relay.close)
            return f"http://127.0.0.1:{relay.port}/mcp", "--transport", "http"
        self.check_all(target, lambda: relay.messages(), self.ERAS)

    def test_stdio(self):
        log = self.path("messages")
        # The inspector does not pass on its environment, nor options with its own names.
        server = ["env", *(f"{k}={v}" for k, v in harness.environment().items()), sys.executable, os.path.join(harness.HERE, "recorder.py"), log,
                  harness.CLOISTER, "mcp", "--config", self.config()]
        script = self.write("server.sh", "exec " + shlex.join(server) + "\n")

        def target(_):
            open(log, "w", encoding="utf-8").close()
            return "/bin/sh", script

        def messages():
            with open(log, encoding="utf-8") as f:
                return [(of_client, json.loads(line)) for of_client, line in map(json.loads, f)]
        self.check_all(target, messages, self.ERAS)

    def test_sse(self):
        answer = self.inspect(f"http://127.0.0.1:{self.address[1]}/sse", "--transport", "sse", "--method", "tools/call", "--tool-name", "run_python",
                              "--tool-args-json", '{"code":"print(6 * 7)"}')
        self.assertIn("42", json.dumps(answer))


if __name__ == "__main__":
    harness.main()
