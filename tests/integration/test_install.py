"""`meson install`: the installed tree has every file that it needs, in any location."""

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


@unittest.skipUnless(MESON, "meson is not installed")
class Prefix(harness.Case):
    """packaging/install: it adds only its own files below a prefix."""

    def install(self, *arguments, prefix=None, **variables):
        return subprocess.run([os.path.join(harness.SOURCE, "packaging", "install"), "--prefix", prefix or self.path("prefix"), *arguments],
                              env=harness.environment() | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    def files(self):
        return {os.path.relpath(os.path.join(folder, name), self.path("prefix"))
                for folder, _, names in os.walk(self.path("prefix")) for name in names}

    def test_install_upgrade_remove(self):
        os.makedirs(self.path("prefix/bin"))
        with open(self.path("prefix/bin/mine"), "w", encoding="ascii"):
            pass
        done = self.install()
        self.assertEqual(done.returncode, 0, done.stderr)
        program = self.path("prefix/bin/cloister")
        done = subprocess.run([program, "run", "-c", "print(1)"], env=harness.environment(), cwd=self.dir, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        first = self.files()
        # An older version had one more file; its program is replaced while it runs.
        with open(self.path("prefix/libexec/cloister/installed-files"), "a", encoding="ascii") as f:
            f.write("libexec/cloister/older\n")
        with open(self.path("prefix/libexec/cloister/older"), "w", encoding="ascii"), open(program, "rb") as running:
            self.assertEqual(self.install().returncode, 0)
            self.assertEqual(os.fstat(running.fileno()).st_nlink, 0)
        self.assertEqual(self.files(), first)
        done = self.install("--remove")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), {"bin/mine"})
        self.assertEqual(os.listdir(self.path("prefix")), ["bin"])
        self.assertIn("nothing that was installed", self.install("--remove").stderr)

    def test_a_program_that_does_not_start(self):
        """A library is missing, or the file is for another machine."""
        broken = self.write("broken", "#!/bin/sh\necho no such library >&2\nexit 127\n")
        real = shutil.which("meson")
        os.mkdir(self.path("bin"))
        meson = self.write("bin/meson", f"""#!/bin/sh
{real} "$@" || exit
[ "$1" != install ] || for at in $(find "$DESTDIR" -path '*/bin/cloister'); do cp {broken} "$at"; done
""")
        os.chmod(meson, 0o755)
        done = self.install(PATH=self.path("bin") + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "bin/cloister was installed and does not start: no such library\n$")
        self.assertNotIn("next: ", done.stderr)
        self.assertEqual(self.install().returncode, 0, "the control, which also mends it")

    def test_a_list_that_leads_out_of_the_prefix(self):
        os.makedirs(self.path("prefix/libexec/cloister"))
        for entry in ("../victim", "bin/../../victim", self.path("victim")):
            with self.subTest(entry=entry):
                for name, text in (("victim", ""), ("prefix/libexec/cloister/installed-files", entry + "\n")):
                    with open(self.path(name), "w", encoding="ascii") as f:
                        f.write(text)
                done = self.install("--remove")
                self.assertEqual(done.returncode, 1)
                self.assertIn("is damaged", done.stderr)
                self.assertTrue(os.path.exists(self.path("victim")))

    def test_wrong_words(self):
        for arguments, reason in (("--bad",), "unknown argument"), (("--prefix",), "needs a directory"):
            done = self.install(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(reason, done.stderr)
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.assertIn("cannot be written", self.install(prefix=self.path("file/below")).stderr)


if __name__ == "__main__":
    harness.main()
