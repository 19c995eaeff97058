"""Images: each is built once, and completely or not at all."""

import contextlib
import fcntl
import glob
import os
import shutil
import subprocess
import tempfile
import time

import harness

PIPE = 4096
LATE = b"did not end within 1 s; set CLOISTER_IMAGE_BUILD_SECONDS"


class Image(harness.Case):
    """`cloister image`, and the image that is built at first use."""

    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        os.mkdir(self.home)
        self.env = harness.environment(HOME=self.home, CLOISTER_IMAGE_STORE=os.path.join(self.home, "images"))

    def cloister(self, *args):
        return self.run_cloister(*args, env=self.env, timeout=120)

    def start(self, *args):
        return subprocess.Popen([harness.CLOISTER, *args], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def whole_and_alone(self):
        """The store holds one image, and no incomplete one."""
        listed = self.cloister("image", "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        described = glob.glob(os.path.join(self.home, "**", "image.json"), recursive=True)
        for path in described:
            self.assertTrue(os.path.isdir(os.path.join(os.path.dirname(path), "root")))
        self.assertEqual(len(described), 1)

    @harness.once
    def test_build_and_list(self):
        self.assertEqual(self.cloister("image", "list").returncode, 0)
        built = self.cloister("image", "build")
        self.assertEqual(built.returncode, 0, built.stderr)
        listed = self.cloister("image", "list").stdout.decode()
        self.assertIn("3.", listed)
        self.whole_and_alone()

    def test_made_at_first_use_with_progress(self):
        done = self.cloister("run", "--config", self.config(), "-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        self.assertTrue(done.stderr, "not a word about building an image")
        again = self.cloister("run", "--config", self.config(), "-c", "print(1)")
        self.assertEqual((again.stdout, again.stderr), (b"1\n", b""))

    def build_while(self, meanwhile, name, python, *args):
        """Builds an image. Before its files are copied, meanwhile() is called: the pipe has no room for the line about the copy. Returns (status,
        standard error)."""
        begun = lambda: len(glob.glob(os.path.join(self.home, "images", ".tmp-*", "*")))
        before, (end, said) = begun(), os.pipe()
        fcntl.fcntl(said, fcntl.F_SETPIPE_SZ, PIPE)
        os.write(said, bytes(PIPE - len(f"cloister: image {name}: inspecting {python}\n")))
        with open(end, "rb") as stream:
            build = subprocess.Popen([harness.CLOISTER, "image", "build", "--name", name, "--python", python, *args], env=self.env,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
            os.close(said)
            # Its root exists: it has read the parts.
            self.assertTrue(harness.wait_until(lambda: begun() > before))
            self.assertIsNone(build.poll())
            meanwhile()
            text = stream.read()
            return build.wait(harness.PATIENCE), text.strip(b"\0").decode()

    @harness.once
    def test_another_build_meanwhile(self):
        """An image with another --link has other parts of the host, which it records for the same interpreter. Control: a part that changes."""
        other = lambda: self.assertEqual(self.cloister("image", "build", "--name", "other", "--link", "module").returncode, 0)
        status, said = self.build_while(other, "one", "/usr/bin/python3", "--link", "embed")
        self.assertEqual(status, 0, said)
        place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        os.mkdir(f"{place}/bin")
        python = shutil.copy("/usr/bin/python3", f"{place}/bin/python3")
        status, said = self.build_while(lambda: os.utime(python), "changed", python)
        self.assertEqual(status, 1, said)
        self.assertIn("changed while it was copied: try again", said)

    @harness.once
    def test_two_starting_at_once(self):
        both = [self.start("run", "--config", self.config(), "-c", "print(1)") for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, out), (0, b"1\n"), err)
        self.whole_and_alone()

    def test_a_build_that_hangs(self):
        """The build waits for a lock that another process holds. The control: without the holder it fails with another error."""
        store = self.env["CLOISTER_IMAGE_STORE"]
        first = self.start("image", "build")
        harness.wait_until(lambda: glob.glob(os.path.join(store, ".lock-*")))
        first.kill()
        first.communicate()
        self.assertEqual(self.residue.settle(), {})
        self.env["CLOISTER_IMAGE_BUILD_SECONDS"] = "1"
        named = ("image", "build", "--name", "held", "--python", "/bin/false")
        paths = glob.glob(os.path.join(store, ".lock-*")) + [os.path.join(store, ".lock-held")]
        with contextlib.ExitStack() as locks:
            for path in paths:
                fcntl.flock(locks.enter_context(open(path, "ab")), fcntl.LOCK_EX)
            self.ends_late(*named)
            self.ends_late("run", "-c", "print(1)")
        done = self.cloister(*named)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"/bin/false", done.stderr)
        self.assertNotIn(LATE, done.stderr)

    def ends_late(self, *args):
        start = time.monotonic()
        done = self.cloister(*args)
        self.assertIn(LATE, done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - start, harness.PATIENCE)
        self.assertEqual(self.residue.settle(), {})

    @harness.once
    def test_a_kill_in_the_middle(self):
        for delay in (0.05, 0.3, 0.8):
            process = self.start("image", "build")
            time.sleep(delay)
            process.kill()
            process.communicate()
            self.assertEqual(self.residue.settle(), {})
        done = self.cloister("run", "--config", self.config(), "-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        self.whole_and_alone()

    def test_a_full_disk(self):
        # In a new user and mount namespace, a small tmpfs is the home directory.
        script = f'mount -t tmpfs -o size=4m,mode=777 none {self.home} && exec {harness.CLOISTER} image build'
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", script], env=self.env,
                              capture_output=True, timeout=120, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("space", done.stderr.decode().lower(), done.stderr)

    @harness.once
    def test_an_unreadable_image_json(self):
        """The monitor reads no file of the store itself: a file that blocks its reader causes an error and does not hang it."""
        run = ("run", "--config", self.config(), "-c", "print(1)")
        done = self.cloister(*run)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        path, = glob.glob(os.path.join(self.home, "images", "*", "image.json"))
        os.rename(path, path + ".kept")
        for make, text in (
            (lambda: os.mkfifo(path), "image.json: not a regular file"),
            (lambda: os.symlink(path + ".kept", path), "image.json: Too many levels of symbolic links"),
            (lambda: os.mkdir(path), "image.json: not a regular file"),
        ):
            make()
            done = self.run_cloister(*run, env=self.env, timeout=20)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr.decode())
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
        for note in glob.glob(os.path.join(self.home, "images", ".parts-*")):
            os.rename(note, note + ".kept")
            os.mkfifo(note)
        self.assertNotEqual(self.run_cloister("doctor", env=self.env, timeout=20).stdout, b"")
        for note in glob.glob(os.path.join(self.home, "images", ".parts-*.kept")):
            os.rename(note, note.removesuffix(".kept"))
        os.rename(path + ".kept", path)
        done = self.cloister(*run)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)

    def test_a_python_that_is_not_there(self):
        done = self.cloister("image", "build", "--python", "/no/such/python3")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/no/such/python3", done.stderr.decode())
        self.assertEqual(len(done.stderr.decode().strip().splitlines()), 1)

    @harness.once
    def test_a_venv_with_its_packages(self):
        # Not below /tmp, because a sandbox mounts its own /tmp.
        venv = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, venv)
        subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        site = subprocess.run([f"{venv}/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                              capture_output=True, text=True, check=True).stdout.strip()
        with open(os.path.join(site, "only_here.py"), "w", encoding="ascii") as f:
            f.write("answer = 42\n")
        done = self.cloister("run", "--python", f"{venv}/bin/python", "-c", "import only_here; print(only_here.answer)")
        self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)

    def test_a_python_with_private_files(self):
        """Files that others may not read are not copied where others can enter the store."""
        venv = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        store = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, venv)
        self.addCleanup(shutil.rmtree, store)
        self.env["CLOISTER_IMAGE_STORE"] = store
        subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        site = glob.glob(f"{venv}/lib/python3*/site-packages")[0]
        os.mkdir(f"{site}/private")
        for name, mode in (("open_module.py", 0o644), ("private/key.py", 0o644), *((f"secret_{i}.py", 0o600) for i in range(6))):
            with open(f"{site}/{name}", "w", encoding="ascii") as f:
                f.write("secret = 1\n")
            os.chmod(f"{site}/{name}", mode)
        os.chmod(f"{site}/private", 0o700)
        os.chmod(venv, 0o755)
        os.chmod(store, 0o755)
        done = self.cloister("image", "build", "--python", f"{venv}/bin/python", "--name", "public")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(x for x in done.stderr.decode().splitlines() if "may not read" in x)
        self.assertIn("left out 7 files and directories that other users may not read", line)
        self.assertEqual(len(line.split("): ")[1].split()), 6, line)  # five names and the sign for more
        copied = sorted(os.path.relpath(path, f"{store}/public/root{site}") for path in glob.glob(f"{store}/public/root{site}/**/*.py", recursive=True))
        self.assertEqual(copied, ["open_module.py"])
        os.chmod(venv, 0o700)
        refused = self.cloister("image", "build", "--python", f"{venv}/bin/python", "--name", "refused")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("other users of this machine may not read it", refused.stderr.decode())
        self.assertEqual(glob.glob(f"{store}/refused"), [])
        os.chmod(store, 0o700)
        done = self.cloister("image", "build", "--python", f"{venv}/bin/python", "--name", "mine")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("may not read", done.stderr.decode())
        self.assertEqual(len(glob.glob(f"{store}/mine/root{site}/**/*.py", recursive=True)), 8)


if __name__ == "__main__":
    harness.main()
