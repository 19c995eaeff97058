"""The owner of the image store when the config's user changes: the whole store gets the new owner, or one line refuses it."""

import fcntl
import glob
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

import harness
import rawmcp

NAME = "games"


def owners(top):
    """The owners of everything in a directory, and its own."""
    found = {os.lstat(top).st_uid}
    for folder, folders, files in os.walk(top):
        found.update(os.lstat(os.path.join(folder, name)).st_uid for name in folders + files)
    return found


@unittest.skipUnless(harness.ROOT, "only root has another user own the store")
class Owner(harness.Case):
    @classmethod
    def setUpClass(cls):
        # An image is copied where a build takes longer.
        cls.kept = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.kept, ignore_errors=True)
        os.chmod(cls.kept, 0o755)
        cls.first = f"{cls.kept}/images"
        cls.uid = pwd.getpwnam(NAME).pw_uid
        made = harness.environment()["CLOISTER_IMAGE_STORE"]
        done = subprocess.run([harness.CLOISTER, "image", "list", "--json"], env=harness.environment(), capture_output=True, check=True)
        (cls.image,) = [i["name"] for i in json.loads(done.stdout) if i["source"] == harness.PYTHON and not i["stale"] and i["name"].startswith("default-")]
        os.mkdir(cls.first)
        for place in (f"{made}/{cls.image}", *glob.glob(f"{made}/.parts-*")):
            subprocess.run(["cp", "-a", "--no-preserve=links", place, cls.first], check=True)
        open(f"{cls.first}/.lock-{cls.image}", "w", encoding="ascii").close()
        os.chmod(f"{cls.first}/.lock-{cls.image}", 0o600)

    def setUp(self):
        super().setUp()
        self.top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        os.chmod(self.top, 0o755)
        os.chmod(self.dir, 0o755)
        self.store = f"{self.top}/images"
        self.env = harness.environment(CLOISTER_IMAGE_STORE=self.store)

    def with_image(self):
        """A store of root's with an image and packages, as it is after use."""
        os.rename(self.first, self.store)
        self.addCleanup(self.keep)
        for folder in (".installed", ".installed/default", ".cache", ".cache/wheels"):
            os.makedirs(f"{self.store}/{folder}", exist_ok=True)
        os.makedirs(f"{self.store}/.installed/default/sets", mode=0o311, exist_ok=True)

    def keep(self):
        subprocess.run(["chown", "-Rh", "0:0", self.store], check=True)
        os.rename(self.store, self.first)

    def user_config(self, name=NAME, **rest):
        return self.config(name=f"{name}.json", user=name, **rest)

    def run_it(self, config, *words):
        return self.run_cloister("run", "--config", config, *words, "-c", "print(6 * 7)", env=self.env)

    def works(self, config, *words):
        done = self.run_it(config, *words)
        self.assertEqual((done.returncode, done.stdout), (0, b"42\n"), done.stderr)

    def refuses(self, config, *parts, build=True):
        """The same line from run, mcp, config check and doctor, and from a build that could not write."""
        done = self.run_it(config)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (125, b"", 1), done.stderr)
        said = {"run": done.stderr.decode()}
        done = self.run_cloister("image", "build", "--config", config, env=self.env)
        if build:
            self.assertNotEqual(done.returncode, 0)
            said["image build"] = done.stderr.decode()
        said["config check"] = self.run_cloister("config", "check", "--config", config, env=self.env).stdout.decode()
        with rawmcp.RawServer("--config", config, env=self.env, cwd=self.dir) as server:
            try:
                server.initialize()
                said["mcp"] = server.cell("1")["error"]["message"]
            except rawmcp.Gone:
                said["mcp"] = server.log()
        report = json.loads(self.run_cloister("doctor", "--json", "--config", config, env=self.env).stdout)
        self.assertFalse(report["usable"])
        (said["doctor"],) = [layer["detail"] for layer in report["layers"] if layer["name"] == "image"]
        for who, text in said.items():
            for part in (self.store, *parts):
                self.assertIn(part, text, (who, said))
                self.assertEqual(text.count(part), 1 if part == parts[0] else text.count(part), (who, text))

    def test_from_root_to_a_user(self):
        self.with_image()
        before = self.config()
        self.works(before)
        self.works(self.user_config())
        self.assertEqual(owners(self.store), {self.uid})
        # Nothing was built again, and now an image can be.
        self.assertEqual([name for name in os.listdir(self.store) if name[0] != "."], [self.image])
        packages = self.user_config(packages={"install": "allow"})
        self.works(packages)
        report = json.loads(self.run_cloister("doctor", "--json", "--config", packages, env=self.env).stdout)
        rows = {layer["name"]: (layer["state"], layer["detail"]) for layer in report["layers"]}
        self.assertEqual((report["usable"], rows["packages"]), (True, ("effective", 'sessions of "default" can have packages installed (no index was queried)')))
        self.assertIn(self.image, rows["image"][1])
        self.refuses(before, f"belongs to uid {self.uid} ({NAME}) and images are made as root", "name that user", "chown -Rh root:")
        subprocess.run(["chown", "-Rh", "root:", self.store], check=True)
        self.works(before)

    def test_a_store_of_a_third_user(self):
        self.with_image()
        subprocess.run(["chown", "-Rh", "nobody:", self.store], check=True)
        nobody = pwd.getpwnam("nobody").pw_uid
        self.refuses(self.user_config(), f"belongs to uid {nobody} (nobody) and images are made as uid {self.uid} ({NAME})", "name that user")
        self.assertEqual(owners(self.store), {nobody})

    def test_what_is_in_a_users_store_is_not_given_to_him(self):
        """The user may have created the name himself: a hard link to a file of root."""
        self.with_image()
        os.chown(self.store, self.uid, -1)
        self.refuses(self.user_config(), "in it belongs to root and images are made as", f"chown -Rh {NAME}:", build=False)
        self.assertIn(0, owners(self.store))

    def test_only_what_a_store_has_is_given_away(self):
        secret = self.write("secret", "x")
        os.chmod(secret, 0o600)
        outside = self.path("outside")
        os.mkdir(outside)
        cases = {
            "link": lambda place: os.symlink(outside, f"{place}/default-000000000000"),
            "foreign": lambda place: os.mkdir(f"{place}/lib"),
            "named": lambda place: os.link(secret, f"{place}/.parts-0000000000000000"),
            "open": lambda place: (os.mkdir(f"{place}/.cache"), os.chmod(f"{place}/.cache", 0o777)),
            "other": lambda place: (os.mkdir(f"{place}/.cache"), os.chown(f"{place}/.cache", 4242, -1)),
            "device": lambda place: os.mknod(f"{place}/.parts-0000000000000000", 0o020600, os.makedev(1, 3)),
        }
        says = {"link": "default-000000000000", "foreign": "lib", "named": "other names", "open": "others can write", "other": "uid 4242",
                "device": "neither a file"}
        config = self.user_config()
        for name, make in cases.items():
            with self.subTest(name):
                os.mkdir(self.store)
                make(self.store)
                done = self.run_it(config)
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
                self.assertIn(says[name].encode(), done.stderr)
                self.assertEqual((os.stat(self.store).st_uid, os.stat(secret).st_uid, os.stat(outside).st_uid), (0, 0, 0))
                shutil.rmtree(self.store)
        # The control: the owner of links within an image changes, but not that of their targets.
        self.with_image()
        self.addCleanup(os.unlink, f"{self.store}/{self.image}/root/workspace/link")
        os.symlink(secret, f"{self.store}/{self.image}/root/workspace/link")
        self.works(config)
        self.assertEqual((owners(self.store), os.stat(secret).st_uid), ({self.uid}, 0))

    def test_not_while_another_one_uses_it_as_root(self):
        self.with_image()
        with rawmcp.RawServer("--config", self.config(), env=self.env, cwd=self.dir) as server:
            server.initialize()
            self.assertEqual(server.cell("1")["status"], "ok")
            done = self.run_it(self.user_config())
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
            self.assertIn(f"{self.image} is in use".encode(), done.stderr)
            self.assertEqual(owners(self.store), {0})
        self.works(self.user_config())

    @unittest.skipUnless(harness.WHOLE, "suite slow: waits for another Cloister")
    def test_not_while_an_image_is_built(self):
        self.with_image()
        with open(f"{self.store}/.lock-x", "w", encoding="ascii") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = self.run_it(self.user_config())
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn(b".lock-x is in use", done.stderr)
        self.works(self.user_config())

    @unittest.skipUnless(harness.WHOLE, "suite slow")
    def test_two_at_once(self):
        self.with_image()
        config = self.user_config()
        words = [harness.CLOISTER, "run", "--config", config, "-c", "print(6 * 7)"]
        several = [subprocess.Popen(words, env=self.env, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        for one in several:
            out, errors = one.communicate(timeout=harness.PATIENCE)
            self.assertEqual((one.returncode, out), (0, b"42\n"), errors)
        self.assertEqual(owners(self.store), {self.uid})

    @unittest.skipUnless(harness.WHOLE, "suite slow")
    def test_what_root_removes_leaves_nothing_of_roots(self):
        self.with_image()
        self.works(self.user_config())
        shutil.copytree(f"{self.store}/{self.image}", f"{self.store}/data", symlinks=True)
        subprocess.run(["chown", "-Rh", f"{NAME}:", f"{self.store}/data"], check=True)
        os.mkdir(f"{self.store}/.tmp-left")
        os.chown(f"{self.store}/.tmp-left", self.uid, -1)
        for words in (("remove", "data"), ("prune",)):
            done = self.run_cloister("image", *words, env=self.env)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.store).count("data") + os.listdir(self.store).count(".tmp-left"), 0)
        self.assertEqual(owners(self.store), {self.uid})
        self.works(self.user_config())


class Packages(harness.Case):
    """Problems that an installation would have, as config check and doctor report them: each once, and none without `packages`."""

    def setUp(self):
        super().setUp()
        self.empty = self.path("empty")
        os.mkdir(self.empty)
        os.chmod(self.dir, 0o755)

    def check(self, config, why, store=None, prefix=()):
        env = harness.environment(CLOISTER_IMAGE_STORE=store or f"{self.dir}/none", PATH=self.empty)
        done = subprocess.run([*prefix, harness.CLOISTER, "config", "check", "--config", config], env=env, capture_output=True, cwd=self.dir, timeout=60, check=False)
        warnings = [line for line in done.stdout.decode().splitlines() if line.startswith("warning: ")]
        self.assertEqual(len(warnings), 1 if why else 0, (done.stdout, done.stderr))
        if why:
            self.assertIn(f'profile "default": packages: {why}', warnings[0])

    def test_each_line_once(self):
        install = {"install": "allow"}
        fetches = {"user": NAME} if harness.ROOT else {}
        good = self.config(name="good.json", packages=install, **fetches)
        if harness.ROOT:
            root = self.config(name="root.json", packages=install)
            self.check(root, 'packages are never installed by root: name a "user"')
            # The doctor reports the problem in a separate row. The machine still counts as usable.
            for config, count in ((root, 1), (self.config(name="without.json"), 0)):
                report = json.loads(self.run_cloister("doctor", "--json", "--config", config).stdout)
                rows = [layer for layer in report["layers"] if layer["name"] == "packages"]
                self.assertEqual((len(rows), report["usable"]), (count, True), report)
                for row in rows:
                    self.assertEqual((row["state"], row["detail"]), ("degraded", 'profile "default": packages are never installed by root: name a "user" in the config'))
        self.check(self.config(name="newer.json", packages={**install, "exclude_newer": "14d"}, **fetches), "exclude_newer needs uv")
        hidden = ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
                  'for d in /usr/lib/python3/dist-packages /usr/share/python-wheels /usr/lib/python3*/ensurepip /usr/local/lib/python3*/ensurepip; do [ ! -d $d ] || mount -t tmpfs none $d; done; exec "$@"', "sh"]
        if harness.ROOT:
            self.check(good, "there is neither uv nor pip", prefix=["/usr/bin/env", f"PATH={os.environ['PATH']}", *hidden, "env", f"PATH={self.empty}"])
        with open(f"{self.empty}/pip", "w", encoding="ascii") as program:
            os.chmod(program.fileno(), 0o755)
        store = self.path("store")
        uid = pwd.getpwnam(NAME).pw_uid if harness.ROOT else -1
        for name in ("", ".installed", ".installed/default"):
            os.mkdir(f"{store}/{name}")
            os.chown(f"{store}/{name}", uid, -1)
            self.check(good, None, store=store)
        for name in (".installed/default", ".installed"):
            os.chmod(f"{store}/{name}", 0o777)
            self.check(good, "others can write to the directory of packages", store=store)
            os.chmod(f"{store}/{name}", 0o711)
        self.check(good, None, store=store)


if __name__ == "__main__":
    harness.main()
