"""Packages of npm, in images and in sessions, from a registry on loopback; and what hostile packages and names lead to."""

import json
import os
import shutil
import tempfile
import unittest

import harness
import rawmcp
from npm_registry import Registry, archive, member

MARK = "/tmp/cloister-test-npm-script"
ALL_SCRIPTS = {name: f"touch {MARK}" for name in ("preinstall", "install", "postinstall", "prepare", "dependencies")}
LIBRARY = {"index.js": "module.exports = (text) => '<' + text + require('shared')"}


def fill(registry):
    registry.add("library", "1.0.0", {"index.js": "module.exports = () => 'old'"})
    registry.add("library", "1.2.0", {**LIBRARY, "bin/tool.js": "#!/usr/bin/env node\n"}, dependencies={"shared": "^2"}, bin={"tool": "bin/tool.js"})
    registry.add("library", "2.0.0", {"index.js": "module.exports = () => 'new'"})
    registry.add("shared", "1.0.0", {"index.js": "module.exports = 1"})
    registry.add("shared", "2.1.0", {"index.js": "module.exports = '>'"}, scripts=ALL_SCRIPTS, hasInstallScript=True)
    registry.add("both", "1.0.0", {"index.js": "module.exports = [require('shared'), require('library')('x')]"},
                 dependencies={"shared": "1", "library": "1"}, optionalDependencies={"elsewhere": "1"})
    registry.add("disguised", "1.0.0", dependencies={"other": "npm:library@2"})
    registry.add("elsewhere", "1.0.0", os=["win32"])
    registry.add("@scope/module", "0.1.0", {"index.js": "export default 7"}, type="module")


def hostile(registry):
    """{name: a part of the line that refuses it}. tests/python/test_npm_packages.py has more."""
    registry.add("climbs", "1.0.0", tarball=archive([member("package/../../../climbed.js", b"1")]))
    registry.add("bomb", "1.0.0", tarball=archive([member("package/zeros", bytes(32 << 20))]))
    registry.add("heavy", "1.0.0", tarball=os.urandom(12 << 20))
    registry.add("wrong", "1.0.0", integrity="sha512-" + "A" * 86 + "==")
    registry.add("of-git", "1.0.0", dependencies={"inner": "git+https://127.0.0.1:1/x.git"})
    registry.add("of-url", "1.0.0", dependencies={"inner": registry.url + "library/-/1.0.0.tgz"})
    return {"climbs": "elsewhere", "bomb": "packages.max_size", "heavy": "packages.max_size", "wrong": "the hash of wrong 1.0.0 does not match",
            "of-git": "only packages of the registry", "of-url": "only packages of the registry"}


WRONG_NAMES = ("$(touch " + MARK + ")", "a;b", "a b", "`id`", "--registry=http://127.0.0.1:1/", "git+https://127.0.0.1:1/x.git", "someone/repository",
               "../library", "./library", "/etc", "library@file:/etc", "library@npm:shared", "library@http://127.0.0.1:1/", "library@../..",
               "library@1.tgz", "@scope", "@/module", "node_modules", "library@", "", "a" * 300, "library\n--global", "~/x", "library@1\0")


@harness.once
class Images(harness.Case):
    def setUp(self):
        super().setUp()
        self.registry = Registry(password="me:secret")
        self.addCleanup(self.registry.close)
        fill(self.registry)
        place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        self.store = f"{place}/images"

    def cloister(self, *args):
        env = harness.environment(CLOISTER_IMAGE_STORE=self.store, NPM_CONFIG_REGISTRY=self.registry.url.replace("//", "//me:secret@"))
        return self.run_cloister(*args, env=env, timeout=harness.patient(120))

    def done(self, *args):
        done = self.cloister(*args)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def names(self):
        return [image["name"] for image in json.loads(self.done("image", "list", "--json"))]

    def test_image(self):
        words = ["--npm", "library@^1,@scope/module", "--npm", "both"]
        self.done("image", "build", *words)
        (name,) = self.names()
        self.assertTrue(name.startswith("packages-"), name)
        shown = json.loads(self.done("image", "show", name, "--json"))
        places = {package["path"]: package["version"] for package in shown["packages"]}
        top, inner = ("1.0.0", "2.1.0") if "library/node_modules/shared" in places else ("2.1.0", "1.0.0")
        below = "library" if top == "1.0.0" else "both"
        self.assertEqual(places, {"library": "1.2.0", "@scope/module": "0.1.0", "both": "1.0.0", "shared": top, f"{below}/node_modules/shared": inner})
        for package in shown["packages"]:
            self.assertRegex(package["sha512"], "^[0-9a-f]{128}$")
        self.assertNotIn("secret", json.dumps(shown))
        self.assertFalse(os.path.exists(MARK))
        self.assertEqual(os.stat(f"{self.store}/{name}/root/usr/local/lib/node_modules/library/bin/tool.js").st_mode & 0o7777, 0o755)
        # The same set in another order needs neither the registry nor another image.
        asked = len(self.registry.asked)
        code = "console.log(require('library')('x'), require('both'), (await import('@scope/module')).default)"
        self.assertEqual(self.done("run", "--npm", "both", *words[:2], "--language", "javascript", "-c", code), "<x> [ 1, '<x>' ] 7\n")
        self.assertEqual(len(self.registry.asked), asked)
        self.assertEqual(self.names(), [name])
        # The name has the lock in it: another archive of the same version makes another image.
        self.registry.add("@scope/module", "0.1.0", {"index.js": "export default 8"}, type="module")
        self.done("image", "build", *words, "--upgrade")
        names = self.names()
        self.assertEqual((len(names), name in names), (2, True), names)

    def test_refusals(self):
        for name in WRONG_NAMES[:-1]:
            done = self.cloister("image", "build", "--npm", name, "--name", "js")
            self.assertEqual(done.returncode, 2, (name, done.stderr))
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertEqual(self.registry.asked, [])
        hostile(self.registry)
        for name, why in (("climbs", "elsewhere"), ("wrong", "does not match"), ("nowhere", "no such package: 'nowhere'")):
            done = self.cloister("image", "build", "--npm", name, "--name", "js")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(why, done.stderr.decode().splitlines()[-1])
        self.assertEqual([name for name in os.listdir(self.store) if not name.startswith(".")], [])
        self.assertEqual([name for name in os.listdir(f"{self.store}/.cache") if name.startswith("tmp")], [])
        self.registry.close()
        done = self.cloister("image", "build", "--npm", "library", "--name", "js")
        self.assertIn("the registry can't be reached", done.stderr.decode().splitlines()[-1])


class Sessions(rawmcp.ServerCase):
    TOOL = "run_javascript"

    @classmethod
    def setUpClass(cls):
        cls.registry = Registry()
        fill(cls.registry)
        cls.refused = hostile(cls.registry)
        own = f"t{os.getpid()}"
        cls.profiles = {name: f"{own}-{name}" for name in ("any", "some", "python-list", "never")}
        common = {"install": "allow", "registry": "${TEST_REGISTRY}", "max_size": "8M", "timeout": 100}
        cls.CONFIG = {"profiles": {
            cls.profiles["any"]: {"language": "javascript", "agent": True, "packages": common},
            cls.profiles["some"]: {"language": "javascript", "agent": True, "packages": {**common, "allow_npm": ["library@^1", "both", "disguised"]}},
            cls.profiles["python-list"]: {"language": "javascript", "agent": True, "packages": {**common, "allow": ["library"]}},
            cls.profiles["never"]: {"language": "javascript", "agent": True},
        }}
        os.environ["TEST_REGISTRY"] = cls.registry.url
        make = harness.environment
        harness.environment = lambda **more: make(TEST_REGISTRY=cls.registry.url, **more)
        try:
            super().setUpClass()
        finally:
            harness.environment = make
        cls.store = harness.environment()["CLOISTER_IMAGE_STORE"]

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.registry.close()
        for name in cls.profiles.values():
            top = f"{cls.store}/.installed/{name}"
            if os.path.isdir(f"{top}/sets"):
                os.chmod(f"{top}/sets", 0o700)
            shutil.rmtree(top, ignore_errors=True)

    def run_code(self, code, *words, profile="any", **more):
        arguments = {"code": code, "profile": self.profiles[profile], "wait": harness.patient(120), "session": f"{self._testMethodName}-{profile}", **more}
        if words:
            arguments["dependencies"] = list(words)
        result = self.server.ask("tools/call", {"name": "run_javascript", "arguments": arguments}, timeout=harness.patient(150))
        return result["structuredContent"]

    def message(self, *words, profile="any", **more):
        cell = self.run_code("1", *words, profile=profile, **more)
        self.assertEqual(cell["status"], "error", cell)
        return cell["error"]["message"]

    def test_never(self):
        before = len(self.registry.asked)
        self.assertIn('"never"', self.message("library", profile="never"))
        self.assertIn('"never"', self.run_code("await install('library')", profile="never")["error"]["message"])
        self.assertEqual(len(self.registry.asked), before)

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_packages_of_a_session(self):
        self.assertEqual(self.run_code("let kept = 5; kept")["value"]["json"], 5)
        cell = self.run_code("[kept, require('library')('x'), (await import('@scope/module')).default]", "library@^1", "@scope/module")
        self.assertEqual(cell["value"]["json"], [5, "<x>", 7], cell)
        self.assertFalse(os.path.exists(MARK))
        # Packages that the session has are not requested again, and another session shares what was fetched.
        asked = len(self.registry.asked)
        self.assertEqual(self.run_code("kept", "library@^1")["value"]["json"], 5)
        other = self.run_code("require('library')('y')", "library@^1", "@scope/module", session="other")
        self.assertEqual(other["value"]["json"], "<y>")
        self.assertEqual(len(self.registry.asked), asked)
        # The same by a function, while the code runs. It returns what was named, without dependencies.
        cell = self.run_code("let added = await install('library@^1'); [added, require('library')('z'), await install(['library@^1'])]", session="by-code")
        self.assertEqual(cell["value"]["json"], [[{"name": "library", "version": "1.2.0"}], "<z>", []], cell)
        cell = self.run_code("let why; try { await install('wrong') } catch (e) { why = e.name + e.message }; [why, require('library')('z')]", session="by-code")
        self.assertRegex(cell["value"]["json"][0], "^InstallError.*the hash of wrong 1.0.0 does not match")
        self.assertEqual(cell["value"]["json"][1], "<z>")
        # A later request comes first. The directory is read-only, and cannot be listed.
        cell = self.run_code("require('library')()", "library@2", session="later")
        self.assertEqual(cell["value"]["json"], "new")
        place = "require('path').resolve(require.resolve('library'), '../../..')"
        for code in ("fs.readdirSync('/run/packages')", f"fs.writeFileSync({place} + '/x', '')"):
            self.assertEqual(self.run_code(code, session="later")["status"], "error", code)

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_what_is_allowed(self):
        self.assertEqual(self.run_code("require('library')('x')", "library", profile="some")["value"]["json"], "<x>")
        self.assertIn("shared: not allowed: packages.allow_npm", self.message("shared", profile="some"))
        self.assertIn("library 2.0.0 is not allowed", self.message("library@2", profile="some"))
        self.assertIn("library 2.0.0 is not allowed", self.message("disguised", profile="some"))
        self.assertEqual(self.run_code("require('both')[0]", "both", profile="some")["value"]["json"], 1)
        # The names of a list for Python mean other packages.
        self.assertIn("has no package", self.message("library", profile="python-list"))
        self.assertIn("no such package: 'nowhere'", self.message("nowhere"))
        self.assertIn("no version of library@^9 fits", self.message("library@^9"))

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_hostile(self):
        before = len(self.registry.asked)
        for name in WRONG_NAMES:
            self.assertIn("is not a package of npm", self.message(name), name)
        self.assertEqual(len(self.registry.asked), before)
        self.assertIn("at most 100", self.message(*(f"a{n}" for n in range(101))))
        for name, why in self.refused.items():
            self.assertIn(why, self.message(name), name)
        self.assertFalse(os.path.exists(MARK) or os.path.exists("/tmp/cloister-test-rooted"))
        work = f"{self.store}/.installed/{self.profiles['any']}/work"
        self.assertEqual(os.listdir(work), [])


if __name__ == "__main__":
    unittest.main()
