"""The official conformance suite's scenarios for clients, with Cloister as the client (tests/conformance/client).

They need the same programs as test_conformance.py, and curl, which replaces the browser.
"""

import os
import shutil
import subprocess
import unittest

import harness
from test_conformance import NODE, PLACE, SUITE

CLIENT = os.path.join(harness.SOURCE, "tests", "conformance", "client")
OLD, MODERN, FIRST = "2025-11-25", "2026-07-28", "2025-03-26"
BOTH = ["metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
        "scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
        "token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration"]
SCENARIOS = {
    OLD: BOTH,
    MODERN: BOTH + ["resource-mismatch", "offline-access-scope", "offline-access-not-supported", "authorization-server-migration",
                    "iss-supported", "iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized",
                    "metadata-issuer-mismatch"],
    FIRST: ["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"],
}
PLAIN = {
    OLD: ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "json-schema-2020-12-preservation"],
    MODERN: ["tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers", "http-custom-headers",
             "http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"],
    FIRST: [],
}
# Extensions, which belong to no revision.
EXTENSIONS = ["auth/client-credentials-jwt", "auth/client-credentials-basic"]


@unittest.skipUnless(os.path.exists(SUITE), f"the conformance suite is not in {PLACE}")
@unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class Client(harness.Case):
    def check_one(self, name, revision, *options):
        with self.subTest(name):
            done = subprocess.run([NODE, SUITE, "client", "--command", CLIENT, "--scenario", name, "--spec-version", revision,
                                   "--timeout", "150000", *options],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200 * harness.SLOW, check=False, cwd=self.dir,
                                  env={**os.environ, "CLOISTER_BUILD": harness.BUILD}, text=True)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.assertIn("0 failed, 0 warnings", done.stdout)

    def check(self, revision):
        for name in PLAIN[revision] + [f"auth/{name}" for name in SCENARIOS[revision]]:
            self.check_one(name, revision)

    def test_extensions(self):
        for name in EXTENSIONS:
            self.check_one(name, MODERN, "--force")

    def test_2025_11_25(self):
        self.check(OLD)

    def test_2026_07_28(self):
        self.check(MODERN)

    def test_2025_03_26(self):
        self.check(FIRST)


if __name__ == "__main__":
    harness.main()
