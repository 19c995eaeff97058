"""The contents of an image, and the behaviour of its builder when it is disturbed (`cloister image-builder`)."""

import glob
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import harness

PROBE = """
import asyncio, bz2, ctypes, curses, dataclasses, decimal, hashlib, json, locale, lzma, mimetypes, multiprocessing
import pwd, readline, socket, sqlite3, ssl, subprocess, sys, threading, unittest, uuid, zlib, zoneinfo
import datetime
assert sys.executable, sys.executable
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
assert datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset().seconds == 7200
assert mimetypes.guess_type("a.json")[0] == "application/json"
assert pwd.getpwuid(1000).pw_dir == "/workspace"
assert locale.setlocale(locale.LC_ALL, "") == "C.UTF-8", locale.setlocale(locale.LC_ALL)
assert asyncio.run(asyncio.sleep(0, 3)) == 3
ctypes.CDLL("libgcc_s.so.1")
shell = "echo a | sed s/a/b/; python3 -c 'print(1)'; python -c 'import sys; print(sys.prefix)'; ls / | wc -l"
out = subprocess.run(shell, shell=True, stdout=subprocess.PIPE, text=True, check=True, stdin=subprocess.PIPE)
lines = out.stdout.splitlines()
assert lines[:2] == ["b", "1"], lines
for name in ("tkinter", "idlelib", "test"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name + " is there")
print(json.dumps({"prefix": sys.prefix, "python": lines[2], "executable": sys.executable}))
"""


def modules_without_compiled_file(root, tag):
    """Sources that each start would have to compile again."""
    missing = []
    for folder, folders, names in os.walk(root):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        missing += [f"{folder}/{n}" for n in names if n.endswith(".py")
                    and not os.path.exists(f"{folder}/__pycache__/{n[:-3]}.{tag}.pyc")]
    return missing


class Rootfs(harness.Case):
    """Each test has its own store. The tests that only read share one image."""

    shared_place = None

    @classmethod
    def tearDownClass(cls):
        if cls.shared_place:
            shutil.rmtree(cls.shared_place, ignore_errors=True)

    def shared(self):
        """An image that no test changes."""
        cls = type(self)
        self.store = f"{cls.shared_place}/store"
        if not cls.shared_place:
            cls.shared_place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
            self.store = f"{cls.shared_place}/store"
            return self.built()
        return self.only_image()

    def setUp(self):
        super().setUp()
        # Not below /tmp: a sandbox has its own /tmp, so that images can't be made from there.
        self.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.store = os.path.join(self.place, "store")

    def argv(self, *args, store=None, python="/usr/bin/python3"):
        return [harness.CLOISTER, "image-builder", "--store", store or self.store, "--python", python, *args]

    def build(self, *args, **options):
        return subprocess.run(self.argv(*args, **options), env=harness.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)

    def built(self, *args, **options):
        done = self.build(*args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.only_image()

    def only_image(self):
        """Returns the only image of the store, which may contain nothing else except lock files and parts."""
        names = [n for n in os.listdir(self.store) if not n.startswith((".lock-", ".parts-"))]
        self.assertEqual(len(names), 1, names)
        with open(f"{self.store}/{names[0]}/image.json", encoding="utf-8") as f:
            info = json.load(f)
        self.assertEqual(info["name"], names[0])
        return info, f"{self.store}/{names[0]}/root"

    def inside(self, root, command):
        """Runs a command with the image as its root."""
        path = "/usr/local/bin:/usr/bin:/bin"
        command = ["/usr/bin/env", "-i", f"PATH={path}", "LC_ALL=C.UTF-8", "HOME=/workspace", *command]
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "chroot", root, *command],
                              env={**os.environ, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)

    def probe(self, info, root):
        done = self.inside(root, [info["python"], "-I", "-c", PROBE])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_runs_what_code_expects(self):
        info, root = self.shared()
        answer = self.probe(info, root)
        self.assertEqual(answer["prefix"], "/usr")
        self.assertEqual(answer["python"], "/usr")
        self.assertEqual(os.path.isfile(root + info.get("libpython", "/")), info["link"] == "embed")
        tag = "cpython-" + "".join(info["version"].split(".")[:2])
        standard = f"{root}/usr/lib/python{'.'.join(info['version'].split('.')[:2])}"
        self.assertLess(len(modules_without_compiled_file(standard, tag)), 5)

    def test_compiled_files_are_used(self):
        info, root = self.shared()
        done = self.inside(root, [info["python"], "-I", "-v", "-c", "import json, asyncio, email.mime.text"])
        self.assertIn("matches /usr/lib/python3", done.stderr)
        compiled_again = [line for line in done.stderr.splitlines() if "code object from '/usr/lib" in line]
        self.assertEqual([line for line in compiled_again if not line.endswith(".pyc'")], [])

    def test_inodes_modes_and_links(self):
        _, root = self.shared()
        for folder, folders, names in os.walk(root):
            for name in folders + names:
                path = os.path.join(folder, name)
                st = os.lstat(path)
                inside = path[len(root):]
                if stat.S_ISLNK(st.st_mode):
                    target = os.path.normpath(os.path.join(os.path.dirname(inside), os.readlink(path)))
                    self.assertTrue(target.startswith("/") and ".." not in target, inside)
                    continue
                self.assertTrue(stat.S_ISDIR(st.st_mode) or stat.S_ISREG(st.st_mode), inside)
                self.assertIn(stat.S_IMODE(st.st_mode), (0o755, 0o644), inside)
                self.assertEqual(st.st_uid, os.geteuid())
                if stat.S_ISREG(st.st_mode):
                    self.assertEqual(st.st_nlink, 1, inside)
                    if os.path.exists(inside):
                        theirs = os.stat(inside)
                        self.assertNotEqual((st.st_dev, st.st_ino), (theirs.st_dev, theirs.st_ino), inside)
        for empty in ("proc", "dev", "tmp", "workspace", "run"):
            self.assertEqual(os.listdir(f"{root}/{empty}"), [])

    def test_a_umask_of_the_caller_does_not_count(self):
        done = subprocess.run(self.argv(), env=harness.environment(), capture_output=True, timeout=300, check=False,
                              umask=0o077)
        self.assertEqual(done.returncode, 0, done.stderr)
        info, root = self.only_image()
        self.assertEqual(stat.S_IMODE(os.stat(f"{root}/etc/passwd").st_mode), 0o644)
        self.assertEqual(stat.S_IMODE(os.stat(root + info["python"]).st_mode), 0o755)
        self.assertEqual(stat.S_IMODE(os.stat(root).st_mode), 0o755)

    def test_a_second_build_finds_the_first(self):
        self.shared()
        before = os.stat(self.store).st_mtime_ns
        done = self.build()
        self.assertEqual(done.returncode, 0)
        self.assertIn("is there already", done.stderr)
        self.assertEqual(os.stat(self.store).st_mtime_ns, before)

    def test_kills_in_the_middle(self):
        for delay in (0.02, 0.15, 0.3, 0.7):
            with subprocess.Popen(self.argv(), env=harness.environment(), stderr=subprocess.DEVNULL) as process:
                time.sleep(delay)
                process.kill()
            if os.path.isdir(self.store) and [n for n in os.listdir(self.store) if n.startswith("default-")]:
                self.only_image()
                shutil.rmtree(self.store)
        info, root = self.built()
        self.probe(info, root)

    def test_the_next_build_removes_what_a_killed_one_left(self):
        os.makedirs(f"{self.store}/.tmp-other/root/a/b")
        self.built()

    def test_several_at_once(self):
        builders = [subprocess.Popen(self.argv(), env=harness.environment(), stderr=subprocess.PIPE, text=True)
                    for _ in range(3)]
        said = [process.communicate(timeout=300)[1] for process in builders]
        self.assertEqual([process.returncode for process in builders], [0] * 3, said)
        self.assertEqual(sum(" MiB, in " in text for text in said), 1, said)
        self.assertEqual(sum("is there already" in text for text in said), 2, said)
        self.only_image()

    def test_a_name_of_another_interpreter_stays(self):
        self.built("--name", "mine")
        info_path = f"{self.store}/mine/image.json"
        with open(info_path, encoding="utf-8") as f:
            text = f.read()
        with open(info_path, "w", encoding="utf-8") as f:
            f.write(text.replace('"source": "/usr/bin/python3"', '"source": "/opt/python3"'))
        done = self.build("--name", "mine")
        self.assertEqual(done.returncode, 1)
        self.assertIn("made from /opt/python3", done.stderr)

    def test_something_else_of_that_name_stays(self):
        os.makedirs(f"{self.store}/mine/important")
        done = self.build("--name", "mine")
        self.assertEqual(done.returncode, 1)
        self.assertIn("image mine", done.stderr)
        self.assertTrue(os.path.isdir(f"{self.store}/mine/important"))

    # ---- disks --------------------------------------------------------------------------------------------------

    def in_small_store(self, size, *command):
        """A command in a mount namespace where the store is a tmpfs; then what it left there."""
        os.makedirs(self.store)
        script = f'mount -t tmpfs -o size={size},mode=755 none "$1" || exit 99; shift; "$@"; s=$?; ls -A "$0"; exit $s'
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, self.store,
                               self.store, *command], env=harness.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, check=False)

    def check_full(self, done):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"^cloister: .*no space left.* needs \d+ MiB, \d+ MiB are free")
        self.assertEqual([n for n in done.stdout.split() if not n.startswith((".lock-", ".parts-"))], [])

    def test_a_disk_that_is_too_small(self):
        self.check_full(self.in_small_store("20m", *self.argv()))

    def test_too_few_inodes(self):
        done = self.in_small_store("500m,nr_inodes=100", *self.argv())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("room for", done.stderr)

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_a_disk_that_fills_meanwhile(self):
        for fault in ("copy_file_range:error=ENOSPC:when=5", "mkdirat:error=ENOSPC:when=40",
                      "openat:error=ENOSPC:when=4000"):
            shutil.rmtree(self.store, ignore_errors=True)
            trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}"]
            self.check_full(self.in_small_store("500m", *trace, *self.argv("--quiet")))

    # ---- interpreters -------------------------------------------------------------------------------------------

    def refused(self, python, *parts):
        done = self.build("--quiet", python=python)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        if os.path.isdir(self.store):
            self.assertEqual([n for n in os.listdir(self.store) if not n.startswith((".lock-", ".parts-"))], [])

    def executable(self, name, text):
        path = os.path.join(self.place, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def test_refused_interpreters(self):
        self.refused("/no/such/python3", "/no/such/python3: No such file")
        self.refused("/usr/bin/env", "does not run as CPython")
        self.refused("/etc/hostname", "is not a program")
        self.refused(self.executable("shim", "#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n"), "is a script", "--python")
        self.refused("/", "--python")

    def test_old_interpreters(self):
        found = glob.glob("/root/.pyenv/versions/[23].[0-8].*/bin/python") + glob.glob("/usr/bin/python2*")
        if not found:
            self.skipTest("no interpreter before 3.9 here")
        for python in found:
            if os.access(python, os.X_OK):
                self.refused(python, "3.9 or later")

    def test_without_libpython(self):
        library = glob.glob("/usr/lib/x86_64-linux-gnu/libpython3.*.so.1.0")
        if not library:
            self.skipTest("not Debian's layout")
        folder = os.path.dirname(library[0])
        script = (f'mount -t tmpfs none "$0" && mkdir "$0/u" "$0/w" && mount -t overlay '
                  f'-o "userxattr,lowerdir={folder},upperdir=$0/u,workdir=$0/w" none {folder} && '
                  f'rm {folder}/libpython3* || exit 99; exec "$@"')
        os.mkdir(f"{self.place}/over")

        def build(*arguments):
            return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script,
                                   f"{self.place}/over", *self.argv("--quiet"), *arguments],
                                  env=harness.environment(), capture_output=True, text=True, timeout=60, check=False)

        done = build("--link", "embed")
        if done.returncode == 99:
            self.skipTest("no overlay mounts here: " + done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^cloister: /usr/bin/python3 \(3\.\d+\.\d+\) has no libpython3\.\d+\.so\.1\.0 beside "
                                      r"it: install libpython3\.\d+ \(apt install libpython3\.\d+\), or leave out --link "
                                      r"embed\n$")
        done = build()
        self.assertEqual(done.returncode, 0, done.stderr)
        info, root = self.only_image()
        self.assertEqual(info["link"], "module")
        self.assertNotIn("libpython", info)
        self.assertEqual(glob.glob(f"{root}{folder}/libpython3*"), [])
        self.assertEqual(self.probe(info, root)["prefix"], "/usr")

    def test_a_virtual_environment(self):
        venv = os.path.join(self.place, "a venv")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        (packages,) = glob.glob(f"{venv}/lib/python3*/site-packages")
        os.makedirs(f"{packages}/greeting")
        with open(f"{packages}/greeting/__init__.py", "w", encoding="utf-8") as f:
            f.write("WORD = 'hello'\n")
        os.symlink("/etc/shadow", f"{packages}/stolen.txt")
        os.symlink(self.place, f"{packages}/all")
        with open(f"{packages}/there.pth", "w", encoding="utf-8") as f:
            f.write(f"{self.place}\n")
        done = self.build(python=f"{venv}/bin/python3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"left out: {self.place}", done.stderr)
        info, root = self.only_image()
        self.assertEqual(info["python"], f"{venv}/bin/python3")
        answer = self.probe(info, root)
        self.assertEqual((answer["prefix"], answer["python"]), (venv, venv))
        for python in (info["python"], "python3", "python"):
            done = self.inside(root, [python, "-I", "-c", "import greeting; print(greeting.WORD, greeting.__cached__)"])
            self.assertEqual(done.stdout.split()[:1], ["hello"], done.stderr)
        self.assertEqual(glob.glob(f"{root}{packages}/stolen*") + glob.glob(f"{root}{packages}/all"), [])
        self.assertTrue(glob.glob(f"{root}{packages}/greeting/__pycache__/*.pyc"), "not compiled")
        # A package that is added later makes another image, and the older one is unused.
        os.mkdir(f"{packages}/later")
        later, _ = self.built(python=f"{venv}/bin/python3")
        self.assertNotEqual(later["name"], info["name"])

    def test_an_upgrade_in_the_middle(self):
        venv = os.path.join(self.place, "venv")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        (packages,) = glob.glob(f"{venv}/lib/python3*/site-packages")
        with open(f"{packages}/touch.pth", "w", encoding="utf-8") as f:
            f.write(f"import os; os.utime('{venv}/pyvenv.cfg')\n")
        self.refused(f"{venv}/bin/python3", "changed while it was copied: try again")

    def test_a_path_that_no_image_can_name(self):
        for name in (b"caf\xe9", b"new\nline", b"long" * 60):
            venv = os.path.join(os.fsencode(self.place), name)
            os.makedirs(venv + b"/bin")
            os.symlink("/usr/bin/python3", venv + b"/bin/python3")
            with open(venv + b"/pyvenv.cfg", "w", encoding="utf-8") as f:
                f.write("home = /usr/bin\ninclude-system-site-packages = false\n")
            done = subprocess.run(self.argv("--quiet", python=venv + b"/bin/python3"), env=harness.environment(),
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rb"move it elsewhere|unexpected output|path is too long")
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_a_virtual_environment_below_tmp(self):
        venv = self.path("venv")
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        self.refused(f"{venv}/bin/python3", "/tmp", "move it elsewhere")

    def test_another_prefix(self):
        candidates = sorted(glob.glob("/root/.pyenv/versions/3.1[0-9].*/bin/python3")) if harness.ROOT else []
        if not candidates:
            self.skipTest("no interpreter in an odd prefix here")
        info, root = self.built(python=candidates[-1])
        prefix = os.path.dirname(os.path.dirname(candidates[-1]))
        self.assertEqual(self.probe(info, root)["prefix"], prefix)
        self.assertTrue(info["libpython"].startswith(prefix))

    def test_interrupted_by_the_terminal(self):
        with subprocess.Popen(self.argv(), env=harness.environment(), stderr=subprocess.PIPE) as process:
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertIn(process.returncode, (-signal.SIGINT, 0))
        self.built()

    def timed(self, *args):
        """Returns the output of the command. The command takes little processor time, however deep the tree is."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.run_cloister(*args, env=harness.environment(CLOISTER_IMAGE_STORE=self.store), timeout=harness.patient(600))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 60 if harness.WHOLE else 10)
        return done.stdout.decode()

    def test_an_image_with_a_deep_tree(self):
        info, root = self.built()
        self.deep_tree(f"{root}/srv")
        self.assertIn(info["name"], self.timed("image", "list"))
        self.assertEqual(self.timed("run", "--image", info["name"], "-c", "print(1)"), "1\n")
        self.timed("image", "remove", info["name"])
        self.assertEqual([n for n in os.listdir(self.store) if not n.startswith((".lock-", ".parts-"))], [])

    def test_a_deep_tree_that_a_killed_build_left(self):
        self.deep_tree(f"{self.store}/.tmp-gone")
        self.built()


if __name__ == "__main__":
    harness.main()
