"""The official conformance suite's scenarios of OAuth, with Cloister as the client (tests/conformance/client).

They need what test_conformance.py needs, and curl, which stands in for the browser.
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


@unittest.skipUnless(os.path.exists(SUITE), f"the conformance suite is not in {PLACE}")
@unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class Client(harness.Case):
    def check(self, revision):
        for name in SCENARIOS[revision]:
            with self.subTest(name):
                done = subprocess.run([NODE, SUITE, "client", "--command", CLIENT, "--scenario", f"auth/{name}", "--spec-version", revision],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120 * harness.SLOW, check=False, cwd=self.dir,
                                      env={**os.environ, "CLOISTER_BUILD": harness.BUILD}, text=True)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:])
                self.assertIn("0 failed, 0 warnings", done.stdout)

    def test_2025_11_25(self):
        self.check(OLD)

    def test_2026_07_28(self):
        self.check(MODERN)

    def test_2025_03_26(self):
        self.check(FIRST)


if __name__ == "__main__":
    harness.main()
