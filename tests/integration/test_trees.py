"""`cloister image build --rootfs`: root file systems that were made elsewhere, friendly and not."""

import json
import os
import shutil
import stat
import subprocess
import tempfile

import harness


class Trees(harness.Case):
    """Each tree consists of this machine's files: the root of an image, with some additions."""

    place = None

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        subprocess.run([harness.CLOISTER, "image-builder", "--store", f"{cls.place}/first", "--python", "/usr/bin/python3",
                        "--name", "first", "--quiet"], env=harness.environment(), check=True, timeout=harness.patient(120))
        cls.first = f"{cls.place}/first/first/root"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.work = tempfile.mkdtemp(prefix="cloister-test-", dir=self.place)
        self.store = f"{self.work}/images"
        self.tree = f"{self.work}/tree"
        subprocess.run(["cp", "-a", self.first, self.tree], check=True)

    def cloister(self, *args):
        env = harness.environment(CLOISTER_IMAGE_STORE=self.store)
        return self.run_cloister(*args, env=env, timeout=harness.patient(180))

    def build(self, *args):
        return self.cloister("image", "build", "--rootfs", self.tree, "--name", "tree", *args)

    def refused(self, *args):
        done = self.build(*args)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertFalse(os.path.exists(f"{self.store}/tree"))
        self.assertEqual([n for n in os.listdir(self.store) if n.startswith(".tmp")], [])
        return done.stderr.decode().splitlines()[-1]

    def test_runs(self):
        with open(f"{self.tree}/etc/own", "w", encoding="ascii") as f:
            f.write("of the tree\n")
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.cloister("run", "--image", "tree", "-c", "import sys, json; print(open('/etc/own').read(), sys.executable)")
        self.assertEqual(out.stdout.decode().split(), ["of", "the", "tree", os.path.realpath("/usr/bin/python3")], out.stderr)
        info = json.loads(self.cloister("image", "show", "tree", "--json").stdout)
        self.assertEqual(info["source"], self.tree)
        self.assertIn(info["link"], ("embed", "module"))

    def test_a_deep_tree(self):
        """Files below too many directories are left out."""
        self.deep_tree(f"{self.tree}/srv")
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b", 1 left out, ", done.stderr)
        self.assertEqual(self.cloister("run", "--image", "tree", "-c", "print(1)").stdout, b"1\n")
        self.assertEqual(self.cloister("image", "remove", "tree").returncode, 0)
        self.assertEqual([n for n in os.listdir(self.store) if not n.startswith(".lock-")], [])

    def test_what_is_taken_of_it(self):
        os.chmod(f"{self.tree}/usr/bin/env", 0o6755)
        os.link(f"{self.tree}/usr/bin/env", f"{self.tree}/usr/bin/hard")
        os.mkfifo(f"{self.tree}/usr/fifo")
        os.symlink("/etc/shadow", f"{self.tree}/usr/link")
        for folder in ("tmp", "run", "dev"):
            with open(f"{self.tree}/{folder}/here", "w", encoding="ascii"):
                pass
        with open(f"{self.tree}/etc/passwd", "w", encoding="ascii") as f:
            f.write("evil:x:0:0::/:/bin/sh\n")
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        root = f"{self.store}/tree/root"
        for folder, folders, names in os.walk(root):
            for name in folders + names:
                st = os.lstat(os.path.join(folder, name))
                if stat.S_ISLNK(st.st_mode):
                    continue
                self.assertIn(stat.S_IMODE(st.st_mode), (0o755, 0o644), name)
                self.assertTrue(stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode), name)
                if stat.S_ISREG(st.st_mode):
                    self.assertEqual(st.st_nlink, 1, name)
        self.assertEqual(os.readlink(f"{root}/usr/link"), "/etc/shadow")
        for folder in ("tmp", "run", "dev", "proc", "workspace"):
            self.assertEqual(os.listdir(f"{root}/{folder}"), [])
        with open(f"{root}/etc/passwd", encoding="ascii") as f:
            self.assertIn("agent:x:1000:", f.read())

    def test_links_that_would_lead_us_out(self):
        outside = f"{self.work}/outside"
        os.mkdir(outside)
        shutil.rmtree(f"{self.tree}/etc")
        os.symlink(outside, f"{self.tree}/etc")
        self.assertIn("/etc is not a directory there", self.refused())
        self.assertEqual(os.listdir(outside), [])

    def test_a_python_that_is_hostile(self):
        """It can neither read nor change anything on the host."""
        mark = f"{self.work}/mark"
        with open(mark, "w", encoding="ascii") as f:
            f.write("secret\n")
        real = os.path.realpath(f"{self.tree}/usr/bin/python3")
        if not real.startswith(self.tree):
            real = self.tree + os.path.realpath("/usr/bin/python3")
        os.unlink(real)
        with open(real, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\necho \"$(cat {mark} 2>&1 | tail -c 40) | $(id -u) | $(touch /etc/x 2>&1 | tail -c 24) | $(ls /proc | wc -l)\" "
                    ">&2\nexit 1\n")
        os.chmod(real, 0o755)
        said = self.refused()
        self.assertIn("does not run as CPython", said)
        self.assertRegex(said, r"No such file or directory \| (1000|65534) \| .*Read-only file system \| 0$")
        self.assertNotIn("secret", said)

    def test_what_is_not_there(self):
        self.assertIn("contains no program /opt/python3", self.refused("--python", "/opt/python3"))
        shutil.rmtree(f"{self.tree}/usr/bin")
        self.assertIn("no python3 in it", self.refused())
        self.assertEqual(self.cloister("image", "build", "--rootfs", self.tree).returncode, 2)
        self.assertEqual(self.cloister("image", "build", "--rootfs", self.tree, "--name", "x", "--with", "six").returncode, 2)
        done = self.cloister("image", "build", "--rootfs", f"{self.work}/nothing", "--name", "x")
        self.assertIn("No such file", done.stderr.decode())

    def test_files_that_others_may_not_read(self):
        """Files of mode 0600 and 0640, and what is below a directory that others may not enter, would be 0644 in the store."""
        os.makedirs(f"{self.tree}/etc/private")
        modes = {"open": 0o644, "shadow": 0o600, "group-only": 0o640, "private/key": 0o644}
        for name, mode in modes.items():
            with open(f"{self.tree}/etc/{name}", "w", encoding="ascii") as f:
                f.write(name)
            os.chmod(f"{self.tree}/etc/{name}", mode)
        os.chmod(f"{self.tree}/etc/private", 0o700)
        for i in range(6):
            with open(f"{self.tree}/opt-{i}", "w", encoding="ascii") as f:
                os.fchmod(f.fileno(), 0o600)
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([os.path.exists(f"{self.store}/tree/root/etc/{name}") for name in modes], [True, False, False, False])
        line = next(x for x in done.stderr.decode().splitlines() if "other users may not read" in x)
        self.assertIn("left out 9 files and directories that other users may not read (--private takes them): ", line)
        self.assertEqual(len(line.split("): ")[1].split()), 6, line)  # five names and the sign for more
        # --private needs a store that others cannot enter.
        os.chmod(self.store, 0o755)
        again = self.cloister("image", "build", "--rootfs", self.tree, "--name", "whole", "--private")
        self.assertEqual(again.returncode, 1)
        self.assertIn("other users can enter the image store", again.stderr.decode())
        os.chmod(self.store, 0o700)
        whole = self.cloister("image", "build", "--rootfs", self.tree, "--name", "whole", "--private")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual([os.path.exists(f"{self.store}/whole/root/etc/{name}") for name in modes], [True] * 4)
        self.assertNotIn("may not read", whole.stderr.decode())
        self.assertEqual(self.cloister("image", "build", "--private").returncode, 2)

    def test_a_name_that_is_taken(self):
        self.assertEqual(self.build().returncode, 0)
        again = self.build()
        self.assertEqual(again.returncode, 1)
        self.assertIn("image tree is there already", again.stderr.decode())


if __name__ == "__main__":
    harness.main()
