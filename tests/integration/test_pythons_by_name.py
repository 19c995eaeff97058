"""`"python": "3.13"`: the newest Python of a version, wherever this machine has it."""

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time

import harness

FALSE = os.path.join(harness.BUILD, "tests", "integration", "false-python")
VERSION = subprocess.run([harness.PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True,
                         check=True).stdout.strip()
MINOR = VERSION.rpartition(".")[0]
REAL = os.path.realpath(harness.PYTHON)
SAYS = "Python %s\n"
PRINT = "import platform; print(platform.python_version())"


class Pythons(harness.Case):
    def setUp(self):
        super().setUp()
        for name in ("home", "path"):
            os.mkdir(self.path(name))
        self.env = harness.environment(HOME=self.path("home"), CLOISTER_IMAGE_STORE=self.path("store"),
                                       PATH=self.path("path") + ":/usr/bin:/bin", XDG_DATA_HOME=self.path("home/data"))

    def cloister(self, *args, **env):
        return self.run_cloister(*args, env={**self.env, **env}, timeout=harness.patient(120))

    def run_version(self, version, **env):
        return self.cloister("run", "--config", self.config(), "--python", version, "-c", PRINT, **env)

    def fails(self, version, **env):
        done = self.run_version(version, **env)
        self.assertEqual((done.returncode, done.stdout), (125, b""), done.stderr)
        return done.stderr.decode()

    def false(self, path, says):
        """A false Python, which prints `says`."""
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy2(FALSE, path)
        with open(path + ".says", "w", encoding="utf-8") as f:
            f.write(says)
        return path

    def listed(self, **env):
        """What `config check` finds, as {path: version}, in its order."""
        done = self.cloister("config", "check", "--json", "--config", self.config(python="3.9"), **env)
        found = json.loads(done.stdout)["pythons"]
        return {one["path"].removeprefix(self.dir + "/"): one["version"] for one in found}

    def uv(self, script):
        path = self.write("path/uv", "#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return path

    def keep_images(self):
        """The images of the other tests' interpreter are built once."""
        self.env["CLOISTER_IMAGE_STORE"] = harness.environment()["CLOISTER_IMAGE_STORE"]

    def test_runs(self):
        self.keep_images()
        for wanted in (MINOR, VERSION):
            done = self.run_version(wanted)
            self.assertEqual((done.returncode, done.stdout.decode().strip()), (0, VERSION), done.stderr)
        done = self.cloister("run", "--config", self.config(profiles={"named": {"python": MINOR}}), "--profile", "named", "-c", PRINT)
        self.assertEqual((done.stdout.decode().strip(), done.stderr), (VERSION, b""))
        self.assertIn(b"needs Python ==3.8.*", self.cloister("run", "--config", self.config(), "--python", MINOR, self.script("3.8")).stderr)

    def test_metadata(self):
        self.keep_images()
        done = self.cloister("run", "--config", self.config(), "--python", MINOR, self.script(MINOR))
        self.assertEqual((done.returncode, done.stdout.decode().strip()), (0, VERSION), done.stderr)

    def script(self, minor):
        return self.write("script.py", f'# /// script\n# requires-python = "=={minor}.*"\n# ///\n{PRINT}\n')

    def test_where_they_are(self):
        self.false("path/python3.30", SAYS % "3.30.1")
        self.false("pyenv/versions/3.30.2/bin/python3.30", SAYS % "3.30.2")
        self.false("home/data/uv/python/cpython-3.30.4-linux-x86_64-gnu/bin/python3.30", SAYS % "3.30.4")
        self.false("home/.pyenv/versions/3.30.3/bin/python3.30", SAYS % "3.30.3")
        self.false("elsewhere/cpython-3.30.5-linux-x86_64-gnu/bin/python3.30", SAYS % "3.30.5")
        # Not these: no release, no GIL, a virtual environment, a name without a patch, another program, a script.
        self.false("pyenv/versions/3.30.9-dev/bin/python3.30", SAYS % "3.30.9")
        self.false("home/data/uv/python/cpython-3.30.9+freethreaded-linux-x86_64-gnu/bin/python3.30", SAYS % "3.30.9")
        self.false("venv/bin/python3.30", SAYS % "3.30.9")
        self.write("venv/pyvenv.cfg", "home = /usr/bin\n")
        self.false("more/python3.31", "Python 3.31.0rc1\n")
        self.false("more/python3.32", "Python 3.32.0 (0123, Jan 1 2026)\n[PyPy 7.3 with GCC]\n")
        self.write("more/python3.33", "#!/bin/sh\necho Python 3.33.0\n")
        os.chmod(self.path("more/python3.33"), 0o755)
        path = ":".join([self.path("venv/bin"), self.path("more"), "relative", "", self.env["PATH"]])
        found = self.listed(PATH=path)
        self.assertEqual([version for version in found.values() if version.startswith("3.3")], ["3.30.4", "3.30.3", "3.30.1"])
        self.assertIn(VERSION, found.values())
        found = self.listed(PATH=path, PYENV_ROOT=self.path("pyenv"), UV_PYTHON_INSTALL_DIR=self.path("elsewhere"))
        self.assertEqual([version for version in found.values() if version.startswith("3.3")], ["3.30.5", "3.30.2", "3.30.1"])
        # The newest patch is taken: it is what the build complains about.
        self.assertIn("elsewhere/cpython-3.30.5", self.fails("3.30", UV_PYTHON_INSTALL_DIR=self.path("elsewhere")))
        self.assertIn("path/python3.30", self.fails("3.30.1"))

    def test_names_that_lie(self):
        self.false("home/.pyenv/versions/3.30.9/bin/python3.30", SAYS % "3.30.1")
        self.false("home/.pyenv/versions/3.30.8/bin/python3.30", SAYS % "3.31.8")
        self.false("home/.pyenv/versions/3.30.3/bin/python3.30", SAYS % "3.30.3")
        self.assertIn("versions/3.30.3/", self.fails("3.30"))
        self.assertIn("versions/3.30.9/", self.fails("3.30.1"))
        self.assertIn("Python 3.30.9 is not on this machine", self.fails("3.30.9"))

    def test_an_image_that_tells_another_version(self):
        """As one has whose interpreter stated another version when it was made."""
        self.false("path/python3.30", SAYS % "3.30.1")
        name = re.search(r"image (default-\w+): inspecting", self.fails("3.30"))[1]
        root = self.path(f"store/{name}/root")
        os.makedirs(root)
        for told, reason in (("3.30.1", ""), ("3.31.1", "stated another version when the image was made: 3.31.1")):
            self.write(f"store/{name}/image.json", json.dumps({
                "format": 1, "name": name, "python": "/usr/bin/python3", "version": told, "link": "module", "created": "2026-01-01T00:00:00Z",
                "source": self.path("path/python3.30"), "bytes": 1, "files": 1, "packages": []}))
            error = self.fails("3.30")
            self.assertEqual("stated another version" in error, reason != "", error)
            self.assertIn(reason, error)

    def test_programs_that_misbehave(self):
        for number, says in enumerate(("flood", "", "\n", SAYS % "3.30", SAYS % "3.030.1", SAYS % "3.30.1; rm", SAYS % "3.30.1" + "\n",
                                       "Python 3.30.1", "\0" * 20, SAYS % ("3.30.1" + "0" * 80))):
            self.false("p%d/python3.30" % number, says)
        self.false("path/python3.31", "hang")
        path = ":".join([self.path("p%d" % n) for n in range(10)] + [self.env["PATH"]])
        begin = time.monotonic()
        error = self.fails("3.30", PATH=path)
        self.assertLess(time.monotonic() - begin, harness.patient(60))
        self.assertIn("Python 3.30 is not on this machine: PATH, pyenv and uv have ", error)
        self.assertIn(VERSION, error)
        self.assertIn("path/python3.31 did not answer", error)
        self.assertEqual(error.count("\n"), 1, error)

    def test_what_a_program_leaves(self):
        """Its children end with it; the residue check finds them otherwise."""
        self.false("path/python3.30", "leave " + SAYS % "3.30.1")
        self.assertEqual(self.listed()["path/python3.30"], "3.30.1")

    def test_an_image_of_the_version(self):
        """Its interpreter is not on this machine any more."""
        done = self.cloister("image", "build", "--python", REAL, "--name", "kept")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_version(VERSION, PATH=self.path("path"))
        self.assertEqual((done.returncode, done.stdout.decode().strip(), done.stderr), (0, VERSION, b""))
        checked = self.cloister("config", "check", "--config", self.config(python=VERSION), PATH=self.path("path"))
        self.assertIn(b"0 warnings", checked.stdout)
        # Packages need an interpreter; and another patch is another version.
        done = self.cloister("run", "--config", self.config(), "--python", VERSION, "--with", "six", "-c", "1", PATH=self.path("path"))
        self.assertIn(b"is not on this machine", done.stderr)
        self.assertIn("is not on this machine", self.fails(MINOR + ".99", PATH=self.path("path")))

    def test_mistakes(self):
        for wanted in ("3", "3.8", "2.7", "3.13; rm", "3.13t", "3.013", "3.13.", "3.13.2.1", "3.13rc1", "3.1000", "13"):
            done = self.run_version(wanted)
            self.assertEqual(done.stderr.decode(), 'cloister: python "%s": not a version such as "3.13" or "3.13.2", 3.9 or later\n' % wanted)
        self.assertIn("--python ../3: No such file", self.run_version("../3").stderr.decode())
        for wanted in (3.13, "3", "3.13t", "python3.13", " 3.13", "../3"):
            done = self.cloister("config", "check", "--config", self.config(python=wanted))
            self.assertIn(b'python must be an absolute path, or a version such as "3.13"', done.stdout)
        checked = self.cloister("config", "check", "--config", self.config(python="3.40"))
        self.assertRegex(checked.stdout.decode(), r'warning: profile "default": Python 3\.40 is not on this machine: .*' + VERSION)
        self.assertRegex(checked.stdout.decode(), r"\nPython " + VERSION + ": /usr/bin/")

    def downloads(self, **rest):
        return self.cloister("run", "--config", self.config(python="3.40", python_downloads="allow"), "-c", PRINT, **rest)

    def test_uv_downloads_only_if_allowed(self):
        self.uv('echo "$@" >"%s"; exit 1\n' % self.path("called"))
        self.assertIn('"python_downloads": "allow"', self.fails("3.40"))
        self.assertFalse(os.path.exists(self.path("called")))
        self.assertIn(b"'uv python install 3.40' failed: it printed no error", self.downloads().stderr)
        with open(self.path("called"), encoding="utf-8") as f:
            self.assertEqual(f.read().split()[:2], ["python", "install"])
        os.unlink(self.path("path/uv"))
        self.assertIn(b"needs uv, which is not in PATH", self.downloads().stderr)

    def test_uv_that_misbehaves(self):
        self.uv("printf 'Downloading\\033[2J %0400d\\n\\377\\r\\r\\n' 1 >&2; printf 'Python 3.40.1\\n'\n")
        done = self.downloads()
        self.assertIn(b"cloister: uv: Downloading\\x1b[2J 000", done.stderr)
        self.assertNotIn(b"\033", done.stderr)
        self.assertIn(b"ended without an error, but there is no Python 3.40", done.stderr)
        self.uv("kill -9 $$\n")
        self.assertIn(b"failed: it printed no error", self.downloads().stderr)

    def test_uv_downloads(self):
        """uv's part is played by a script: the real uv needs the internet."""
        # A sandbox has a /tmp of its own, so that no image can be made of an interpreter there.
        place = tempfile.mkdtemp(dir=harness.environment()["HOME"])
        self.addCleanup(shutil.rmtree, place)
        folder = "%s/cpython-%s-linux-%s-gnu/bin" % (place, VERSION, platform.machine())
        self.uv('echo "Downloading cpython" >&2; /bin/mkdir -p "%s" && /bin/ln -s "%s" "%s/python%s"\n' % (folder, REAL, folder, MINOR))
        config = self.config(python=MINOR, python_downloads="allow")
        done = self.cloister("run", "--config", config, "-c", PRINT, PATH=self.path("path"), UV_PYTHON_INSTALL_DIR=place)
        self.assertIn(b"cloister: uv: Downloading cpython\n", done.stderr)
        self.assertEqual((done.returncode, done.stdout.decode().strip()), (0, VERSION), done.stderr)

    def test_programs_of_other_users(self):
        """They do not run: a folder of PATH may be one that others can write to."""
        path = self.false("path/python3.30", SAYS % "3.30.1")
        self.assertIn("3.30.1", self.listed().values())
        os.chmod(path, 0o777)
        self.assertNotIn("3.30.1", self.listed().values())
        os.chmod(path, 0o755)
        self.assertIn(VERSION, self.listed().values())  # root's
        if harness.ROOT:
            os.chown(path, 1000, 1000)
            self.assertNotIn("3.30.1", self.listed().values())
            self.assertIn("Python 3.30 is not on this machine", self.fails("3.30"))


if __name__ == "__main__":
    harness.main()
