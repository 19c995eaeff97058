"""packaging/release: what it refuses, and that two runs give the same bytes. Builds twice, so it takes long."""

import os
import shutil
import subprocess
import unittest

import harness

RELEASE = "packaging/release"
TOOLS = os.path.join(harness.SOURCE, "build", "wheel-tools")


def git(place, *words):
    return subprocess.run(["git", "-C", place, "-c", "user.name=t", "-c", "user.email=t@localhost", *words], check=True, capture_output=True, text=True).stdout


class Release(harness.Case):
    def setUp(self):
        super().setUp()
        self.tree = self.path("tree")
        git(harness.SOURCE, "clone", "--quiet", harness.SOURCE, self.tree)
        os.makedirs(f"{self.tree}/build/wheel-tools")
        with open(f"{self.tree}/build/wheel-tools/complete", "w", encoding="ascii"):
            pass

    def refused(self, part, *arguments):
        done = subprocess.run([f"{self.tree}/{RELEASE}", *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(part, done.stderr)

    def edit(self, name, old, new):
        with open(f"{self.tree}/{name}", encoding="utf-8") as f:
            text = f.read()
        self.assertIn(old, text)
        with open(f"{self.tree}/{name}", "w", encoding="utf-8") as f:
            f.write(text.replace(old, new, 1))

    def test_what_has_to_agree(self):
        with open(f"{self.tree}/meson.build", encoding="utf-8") as f:
            version = next(line.split("'")[1] for line in f if line.startswith("  version: "))
        self.refused("Unreleased")
        self.edit("CHANGELOG.md", f"## Unreleased ({version})", f"## {version} - 2026-12-01")
        self.refused("differ from the commit")
        git(self.tree, "commit", "-qam", "release")
        self.refused(f"no tag v{version}")
        self.edit("packaging/debian/changelog", f"({version})", "(9.9.9)")
        self.refused("begins with version 9.9.9")
        git(self.tree, "checkout", "-q", ".")
        self.edit("CHANGELOG.md", f"## {version}", "## 9.9.9")
        self.refused("9.9.9")

    def test_the_same_package_in_two_folders(self):
        """Two clones at paths of different lengths, without a cache of the compiler, give the same Debian package, which lintian accepts."""
        packages = []
        for place in (self.tree, self.path("a/longer/place")):
            if place != self.tree:
                git(harness.SOURCE, "clone", "--quiet", harness.SOURCE, place)
            deps = os.path.join(harness.SOURCE, "build", "deps")
            if os.path.isdir(deps):
                shutil.copytree(deps, f"{place}/build/deps", symlinks=True)
            done = subprocess.run([f"{place}/packaging/deb"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "CCACHE_DISABLE": "1"}, timeout=harness.patient(3600))
            self.assertEqual(done.returncode, 0, done.stderr)
            (name,) = os.listdir(f"{place}/build/packages")
            packages.append((name, f"{place}/build/packages/{name}"))
        content = [open(path, "rb").read() for _, path in packages]
        self.assertEqual(packages[0][0], packages[1][0])
        self.assertTrue(content[0] == content[1], "the packages differ: diffoscope names the files")
        done = subprocess.run(["lintian", "--fail-on", "error,warning", packages[0][1]], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(os.path.exists(f"{TOOLS}/complete"), "build/wheel-tools: './quickstart package wheel' makes it")
    def test_the_same_bytes(self):
        """The second run compiles everything again: with a cache of the compiler it would compare objects with themselves."""
        sums = []
        with open(os.path.join(harness.SOURCE, "meson.build"), encoding="utf-8") as f:
            version = next(line.split("'")[1] for line in f if line.startswith("  version: "))
        for extra in ({}, {"CCACHE_DISABLE": "1"}):
            done = subprocess.run([os.path.join(harness.SOURCE, RELEASE), "--trial"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                                  env={**os.environ, **extra}, timeout=harness.patient(3600))
            self.assertEqual(done.returncode, 0, done.stderr)
            place = os.path.join(harness.SOURCE, "build", "release", version)
            with open(f"{place}/SHA256SUMS", encoding="ascii") as f:
                sums.append(f.read())
            self.assertEqual(sorted(line.rpartition(".")[2] for line in sums[-1].split("\n") if line), ["deb", "json", "whl", "xz"])
            subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=place, check=True)
        self.assertEqual(*sums)
        shutil.rmtree(os.path.join(harness.SOURCE, "build", "release"))


if __name__ == "__main__":
    harness.main()
