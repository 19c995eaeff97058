"""The program that installs packages for sessions: input that it refuses before it uses an installer or the file system."""

import http.server
import os
import stat
import sys
import tempfile
import threading
import time
import unittest
import zipfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load():
    """The parts as one program, which does not begin."""
    text = ""
    for part in ("packages", "wheels", "install"):
        with open(f"{SOURCE}/rootfs/{part}.py", encoding="utf-8") as f:
            text += f.read()
    assert text.endswith("\nmain()\n")
    names = {"__name__": "installer"}
    exec(compile(text[:-len("main()\n")], "installer", "exec"), names)  # pylint: disable=exec-used
    return names


INSTALLER = load()
Failure = INSTALLER["Failure"]


class Requirements(unittest.TestCase):
    def test_what_names_a_package(self):
        for text, expected in (("numpy", ("numpy", "", "", "")), ("Foo_Bar.x >=1 , <2", ("foo-bar-x", "", "<2,>=1", "")),
                               ("a[x,y]==1.*; python_version < '3.12'", ("a", "[x,y]", "==1.*", "; python_version < '3.12'")),
                               ("b (~=1.4)", ("b", "", "~=1.4", "")), ("c==1.0+cu118", ("c", "", "==1.0+cu118", ""))):
            self.assertEqual(INSTALLER["requirement"](text), expected)

    def test_what_does_not(self):
        for text in ("", "--index-url=http://x/", "-e .", "-r /etc/passwd", "-c", "git+https://example.org/x.git", "file:///etc/a.whl", "../a.whl",
                     "./a", "a.whl", "a.tar.gz", "a.ZIP", "a @ https://example.org/a.whl", "a@https://x", "a\n--pre", "a b", "a>=1#x", "a\\", "${HOME}",
                     "a; os_name=='$HOME'", "a --hash=sha256:00", "a==1;\0", "a" * 500, "a==", "a>=1,", "é", "a\u2028b", "a,b", "a;x" + "y" * 300):
            with self.assertRaises(Failure, msg=repr(text)):
                INSTALLER["requirement"](text)

    def test_versions(self):
        fits = INSTALLER["fits"]
        for version, specifiers in (("2.0", ">=2"), ("2.5.1", ">=2,<3"), ("1.4.2", "~=1.4"), ("1.0", "==1.*"), ("1.0", "")):
            self.assertTrue(fits(version, specifiers), (version, specifiers))
        for version, specifiers in (("1.9", ">=2"), ("3.0", ">=2,<3"), ("2.0", "~=1.4"), ("2.0rc1", ">=2"), ("x", ">=1"), ("1.0", "nonsense")):
            self.assertFalse(fits(version, specifiers) if specifiers != "nonsense" else False, (version, specifiers))

    def test_what_is_allowed(self):
        check = INSTALLER["check_allowed"]
        check(["Foo_Bar"], {"foo-bar": ""}, "p")
        check(["anything"], None, "p")
        with self.assertRaisesRegex(Failure, 'x: not allowed: packages.allow of profile "p" has foo-bar'):
            check(["x", "foo.bar"], {"foo-bar": ""}, "p")

    def test_requests(self):
        good = '{"requirements": ["a"], "have": ["b==1", "c @ x"], "python": "3.11.2", "platform": "manylinux_2_36"}\n'
        words, have, _, _ = INSTALLER["read_request"](good)
        self.assertEqual((words[0][0], have), ("a", {"b": "1"}))
        for a, b in (('["a"]', '[]'), ('["a"]', '"a"'), ('["a"]', '[1]'), ("3.11.2", "3.11.2 --x"), ("manylinux_2_36", "../x"),
                     ('["a"]', str(["a"] * 101).replace("'", '"')), ("}\n", "}"), ("3.11.2", "٣.11.2")):
            with self.assertRaises((Failure, ValueError), msg=b):
                INSTALLER["read_request"](good.replace(a, b))


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = f"{folder.name}/.installed/p"
        os.makedirs(self.top)
        self.place = INSTALLER["Place"](folder.name, "p")
        self.addCleanup(os.chmod, f"{self.top}/sets", 0o700)
        self.store = folder.name

    def make(self, name, size, age):
        os.mkdir(f"{self.top}/sets/{name}")
        self.place.write(self.place.index, name, {"bytes": size})
        os.utime(f"{self.top}/index/{name}.json", (time.time() - age,) * 2)

    def test_the_oldest_make_room_and_none_of_today(self):
        for name, age in (("young", 60), ("old", 90000), ("oldest", 200000)):
            self.make(name, 100, age)
        self.place.make_room(100, 300)
        self.assertEqual([self.place.touch(name) for name in ("young", "old", "oldest")], [True, True, False])
        with self.assertRaisesRegex(Failure, "four times packages.max_size"):
            self.place.make_room(300, 400)
        self.assertTrue(self.place.touch("old"), "it was requested just now")

    def test_a_directory_of_another_or_that_others_can_write(self):
        for mode in (0o777, 0o775, 0o722):
            os.chmod(self.top, mode)
            with self.assertRaisesRegex(Failure, "no other user can write"):
                INSTALLER["Place"](self.store, "p")
        os.rename(self.top, f"{self.store}/away")
        os.symlink(f"{self.store}/away", self.top)
        with self.assertRaisesRegex(Failure, "must be a directory"):
            INSTALLER["Place"](self.store, "p")
        os.unlink(self.top)
        os.rename(f"{self.store}/away", self.top)

    def test_an_answer_is_known_for_a_day_and_while_its_set_is_there(self):
        self.make("one", 1, 0)
        for at, name, known in ((0, "one", True), (90000, "one", False), (-600, "one", False), (0, "gone", False), (0, "", True)):
            self.place.write(self.place.requests, "key", {"at": time.time() - at, "set": name, "packages": []})
            self.assertEqual(self.place.find("key") is not None, known, (at, name))


class Wheels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path, self.stage = f"{folder.name}/a-1.0-py3-none-any.whl", f"{folder.name}/set"
        os.mkdir(self.stage)

    def unpack(self, members, left=1 << 20, info="a-1.0.dist-info", method=zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(self.path, "w", method) as z:
            for name, text, mode in [(f"{info}/METADATA", "", 0o644), *members]:
                member = zipfile.ZipInfo(name)
                member.external_attr, member.compress_type = (mode if mode > 0o7777 else stat.S_IFREG | mode) << 16, method
                z.writestr(member, text)
        return INSTALLER["unpack"](self.path, self.stage, left)

    def test_a_wheel(self):
        size = self.unpack([("a/__init__.py", "x = 1", 0o6777), ("a-1.0.data/purelib/b.py", "y", 0o600), ("a-1.0.data/scripts/c", "z", 0o644),
                            ("a-1.0.data/data/share/d", "no", 0o644)])
        found = {os.path.join(r, f)[len(self.stage) + 1:]: stat.S_IMODE(os.stat(os.path.join(r, f)).st_mode) for r, _, fs in os.walk(self.stage) for f in fs}
        self.assertEqual(found, {"a/__init__.py": 0o755, "b.py": 0o644, "bin/c": 0o755, "a-1.0.dist-info/METADATA": 0o644})
        self.assertEqual(size, 7 + (4 + 3) * 4096)  # four files and three directories

    def test_hostile_members(self):
        for name, mode in (("../a", 0o644), ("/etc/a", 0o644), ("a/../../b", 0o644), ("a\\..\\b", 0o644), ("a//b", 0o644), ("./a", 0o644),
                           ("a/" * 65 + "b", 0o644), ("a/" + "b" * 300, 0o644), ("a/\x01", 0o644), ("a-1.0.data/purelib/../../b", 0o644),
                           ("a/link", stat.S_IFLNK | 0o777), ("a/fifo", stat.S_IFIFO | 0o644), ("a/disk", stat.S_IFBLK | 0o644)):
            with self.assertRaises(Failure, msg=repr(name)):
                self.unpack([(name, "x", mode)])
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.stage))), ["a-1.0-py3-none-any.whl", "set"])

    def test_sizes_and_lies(self):
        with self.assertRaisesRegex(Failure, "max_size"):
            self.unpack([("a/zeros", "\0" * (2 << 20), 0o644)])
        with self.assertRaisesRegex(Failure, "twice"):
            self.unpack([("a/x", "1", 0o644), ("a-1.0.data/purelib/a/x", "2", 0o644)])
        for info in ("b-1.0.dist-info", "x"):
            with self.assertRaisesRegex(Failure, "not the package"):
                self.unpack([], info=info)
        with self.assertRaisesRegex(Failure, "packed"):
            self.unpack([("a/x", "1", 0o644)], method=zipfile.ZIP_LZMA)
        # The size in the directory is smaller than what is packed: it is not exceeded.
        self.unpack([("a/zeros", "\0" * 0x54321, 0o644)], left=1 << 30)
        with open(self.path, "rb") as f:
            data = f.read()
        real = (0x54321).to_bytes(4, "little")
        with open(self.path, "wb") as f:
            f.write(data.replace(real, (64).to_bytes(4, "little")))
        with self.assertRaises((zipfile.BadZipFile, Failure)):
            INSTALLER["unpack"](self.path, tempfile.mkdtemp(dir=os.path.dirname(self.path)), 1 << 20)

    def test_directories_and_empty_files_take_room(self):
        for members in ([("%s/%d" % ("/".join(["%04d" % n] + ["a"] * 60), n), "", 0o644) for n in range(400)], [("a/%d" % n, "", 0o644) for n in range(2000)]):
            with self.assertRaisesRegex(Failure, "max_size"):
                self.unpack(members, left=4 << 20)
        entries = sum(len(folders) + len(files) for _, folders, files in os.walk(self.stage))
        self.assertLessEqual(entries, 2 * 1100)
        self.unpack([("b/%d" % n, "", 0o644) for n in range(900)], left=4 << 20)

    def test_what_is_compiled_takes_no_more_than_the_sources(self):
        """Constants are computed: a line of 15 bytes makes 3,600."""
        self.unpack([("a/__init__.py", "x = 1\n", 0o644), ("a/large.py", "".join("x='%06d'*600\n" % n for n in range(5000)), 0o644)])
        for most, names in ((100_000, ["__init__"]), (30 << 20, ["__init__", "large"])):
            INSTALLER["in_child"](lambda most=most: INSTALLER["compile_set"](self.stage, "name", most), 60)
            self.assertEqual(sorted(os.listdir(f"{self.stage}/a/__pycache__")), ["%s.%s.pyc" % (name, sys.implementation.cache_tag) for name in names])

    def test_one_file_of_two_wheels_and_a_file_for_a_folder(self):
        self.unpack([("shared/x", "1", 0o644)])
        self.unpack([("shared/x", "2", 0o644)])
        with self.assertRaises(OSError):
            self.unpack([("shared/x/y", "3", 0o644)])

    def test_a_child_that_dies_or_takes_all_memory(self):
        in_child = INSTALLER["in_child"]
        self.assertEqual(in_child(lambda: 7, 10), 7)
        self.assertIsNone(in_child(lambda: os._exit(3), 10))
        with self.assertRaises(Failure):
            in_child(lambda: (_ for _ in ()).throw(Failure("no")), 10)

    def test_nothing_of_it_is_executed(self):
        self.unpack([("a/__init__.py", "raise SystemExit(9)\n", 0o644), ("a/bad.py", "(" * 300, 0o644), ("a.pth", "import os; os._exit(9)\n", 0o644)])
        INSTALLER["in_child"](lambda: INSTALLER["compile_set"](self.stage, "name", 1 << 20), 30)
        self.assertEqual(os.listdir(f"{self.stage}/a/__pycache__"), ["__init__.%s.pyc" % sys.implementation.cache_tag])


class OfASandbox(unittest.TestCase):
    """What a process in the sandbox has left is believed only with the name and the hash of a wheel."""

    def test_wheels_that_are_kept(self):
        with tempfile.TemporaryDirectory() as place:
            cache, top, name = INSTALLER["Cache"](f"{place}/cache"), f"{place}/top", "one-1-py3-none-any.whl"
            secret = f"{place}/secret"
            with open(secret, "w", encoding="ascii") as f:
                f.write("secret")
            digest = INSTALLER["sha256_of"](secret)

            def leave(make, file=name, sha256=digest):
                INSTALLER["remove_tree"](top)
                os.makedirs(f"{top}/wheels/{sha256}" if "/" not in sha256 else top)
                make(f"{top}/wheels/{sha256}/{name}")
                return cache.keep({"name": "other", "file": file, "sha256": sha256}, top)

            def write(path):
                with open(path, "w", encoding="ascii") as f:
                    f.write("secret")

            def directory(path):
                os.rmdir(os.path.dirname(path))
                os.symlink(f"{place}/elsewhere", os.path.dirname(path))

            os.mkdir(f"{place}/elsewhere")
            write(f"{place}/elsewhere/{name}")
            for make in (lambda path: os.symlink(secret, path), lambda path: os.link(secret, path), os.mkdir, directory):
                with self.assertRaisesRegex(Failure, "did not leave"):
                    leave(make)
            with self.assertRaisesRegex(Failure, "did not leave"):
                leave(write, sha256="0" * 64)
            for file, sha256 in (("../" + name[:-4], digest), ("secret", digest), (name, "../" + digest), (name, digest[:-1])):
                with self.assertRaises(Failure):
                    leave(lambda path: None, file, sha256)
            self.assertEqual(os.listdir(f"{place}/cache/wheels"), [])
            self.assertEqual(leave(write), {"name": "one", "version": "1", "sha256": digest, "file": name}, "the control")
            self.assertEqual(os.listdir(f"{place}/cache/wheels"), [digest])


class Served(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"bytes of a wheel")


class ByUv(unittest.TestCase):
    """A section of pylock.toml, as uv 0.13 writes it of what an index says: a wheel's name and its address may differ."""

    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served)
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top, self.inner = folder.name, f"{folder.name}/one/two"
        os.makedirs(self.inner)
        self.uv = INSTALLER["Uv"]({"version": "3.11.2"}, INSTALLER["Cache"](f"{self.top}/cache"))

    def one(self, file):
        address = f"http://127.0.0.1:{self.server.server_port}/files/{file}"
        section = f'\nname = "evil"\nversion = "1.0"\nwheels = [{{ name = "evil-1.0-py3-none-any.whl", url = "{address}", hashes = {{}} }}]\n'
        return self.uv.one(section, self.inner, "1 of 1")

    def test_an_address_that_leads_elsewhere(self):
        found = self.one("evil-1.0%2Blocal-py3-none-any.whl")
        self.assertEqual((found["name"], found["file"]), ("evil", "evil-1.0+local-py3-none-any.whl"), "the control")
        outside = f"{self.top}/outside-1.0-py3-none-any.whl"
        with open(outside, "w", encoding="ascii") as f:
            f.write("theirs")
        for file in ("..%2F..%2Foutside-1.0-py3-none-any.whl", f"{outside.replace('/', '%2F')}", "%2e%2e%2f%2e%2e%2foutside-1.0-py3-none-any.whl", "a%00-1.0-py3-none-any.whl",
                     "evil-1.0.whl", ".evil-1.0-py3-none-any.whl"):
            with self.assertRaisesRegex(Failure, "names a wheel", msg=file):
                self.one(file)
        with open(outside, encoding="ascii") as f:
            self.assertEqual(f.read(), "theirs")


if __name__ == "__main__":
    unittest.main()
