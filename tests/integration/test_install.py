"""`meson install`: the installed tree has all that it needs, wherever it lies."""

import json
import os
import shutil
import subprocess
import unittest

import harness

MESON = shutil.which("meson")


@unittest.skipUnless(MESON, "meson is not installed")
class Install(harness.Case):
    def setUp(self):
        super().setUp()
        self.root = self.path("root")
        subprocess.run([MESON, "install", "-C", harness.BUILD, "--no-rebuild", "--destdir", self.root], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True)
        (self.program,) = [path for path in self.executables() if path.endswith("/bin/cloister")]

    def executables(self):
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF":
                        yield path

    def run_installed(self, *arguments):
        env = harness.environment()
        env.pop("LD_LIBRARY_PATH", None)
        return subprocess.run([self.program, *arguments], env=env, cwd=self.dir, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)

    def test_libraries_are_found_outside_the_build_tree(self):
        for path in self.executables():
            env = {"PATH": os.environ["PATH"]}
            listed = subprocess.run(["ldd", path], env=env, capture_output=True, text=True, check=False).stdout
            self.assertNotIn("not found", listed, path)
            self.assertNotIn(harness.BUILD + "/", listed, path)

    def test_version(self):
        done = self.run_installed("--version")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"cloister "))

    def test_run(self):
        done = self.run_installed("run", "-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)

    def test_image_build(self):
        done = self.run_installed("image", "build", "--store", self.path("images"), "--name", "installed")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_doctor(self):
        done = self.run_installed("doctor", "--json")
        layers = {layer["name"]: layer for layer in json.loads(done.stdout)["layers"]}
        self.assertEqual(layers["programs"]["state"], "effective", done.stdout)


if __name__ == "__main__":
    harness.main()
