"""rootfs/npm.py and rootfs/tarballs.py, called directly: archives and lock files of strangers."""

import base64
import gzip
import hashlib
import json
import os
import sys
import tarfile
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(SOURCE, "tests", "integration"))
from npm_registry import archive, member  # noqa: E402  pylint: disable=wrong-import-position


def load():
    """The names of the program that meson.build puts together, without its last line."""
    text = ""
    for name in ("packages.py", "wheels.py", "tarballs.py", "npm.py", "install.py"):
        with open(os.path.join(SOURCE, "rootfs", name), encoding="utf-8") as f:
            text += f.read()
    assert text.endswith("\nmain()\n")
    names = {"__name__": "packages"}
    exec(compile(text[: -len("main()\n")], "packages", "exec"), names)  # pylint: disable=exec-used
    return names


OURS = load()
Failure = OURS["Failure"]
PLAIN = member("package/package.json", b'{"name": "x"}')
HASH = "sha512-" + base64.b64encode(hashlib.sha512(b"").digest()).decode()


def entry(**more):
    return {"version": "1.0.0", "resolved": "http://127.0.0.1/x/-/x-1.0.0.tgz", "integrity": HASH, **more}


class Tarballs(unittest.TestCase):
    def unpack(self, data, left=1 << 20):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.stage = os.path.join(place.name, "stage")
        os.mkdir(self.stage)
        folder = os.path.join(place.name, "wheels", hashlib.sha256(data).hexdigest())
        os.makedirs(folder)
        with open(os.path.join(folder, "x.tgz"), "wb") as f:
            f.write(data)
        package = {"path": "a/node_modules/@s/x", "name": "@s/x", "sha256": os.path.basename(folder), "file": "x.tgz"}
        return OURS["unpack_tarballs"](OURS["Cache"](place.name, make=False), [package], self.stage, left)

    def found(self):
        return {os.path.relpath(os.path.join(top, name), self.stage): os.lstat(os.path.join(top, name)).st_mode & 0o7777
                for top, _, names in os.walk(self.stage) for name in names}

    def test_control(self):
        size = self.unpack(archive([member("package", kind=tarfile.DIRTYPE), PLAIN, member("package/bin/x", b"12", mode=0o4711), member("other/y", b"")]))
        where = "node_modules/a/node_modules/@s/x/"
        self.assertEqual(self.found(), {where + "package.json": 0o644, where + "bin/x": 0o755, where + "y": 0o644})
        self.assertGreater(size, 4 * 4096)

    def test_the_last_of_two_files_counts(self):
        self.unpack(archive([member("package/x", b"1"), member("package/x", b"22")]))
        with open(f"{self.stage}/node_modules/a/node_modules/@s/x/x", "rb") as f:
            self.assertEqual(f.read(), b"22")

    def refuses(self, why, members=None, data=None, **more):
        with self.assertRaisesRegex((Failure, OSError), why):
            self.unpack(archive(members) if data is None else data, **more)
        self.assertLessEqual(set(self.found()), {"node_modules/a/node_modules/@s/x/package.json", "node_modules/a/node_modules/@s/x/node_modules"})

    def test_names_that_lead_elsewhere(self):
        for name in ("package/../../x", "../x", "/etc/x", "package//x", "package/./x", "package/a\\b", "package/a\nb", "package/" + "d/" * 70 + "x",
                     "package/" + "n" * 256, "package/..", "package/a/../../../x"):
            self.refuses("would be put elsewhere", [PLAIN, member(name, b"1")])

    def test_links_and_devices(self):
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            self.refuses("link or device", [PLAIN, member("package/x", kind=kind, link="/etc/passwd")])

    def test_sizes(self):
        self.refuses("max_size", [PLAIN, member("package/x", bytes(2 << 20))])
        # An empty file counts too, and so does a directory.
        with self.assertRaisesRegex(Failure, "max_size"):
            self.unpack(archive([member("package/" + "d/" * n + "x") for n in range(1, 25)]), left=1 << 16)
        # Bytes after the last member are read to the end.
        zeros = gzip.compress(gzip.decompress(archive([PLAIN])) + bytes(3 << 20))
        self.refuses("max_size", data=zeros, left=1 << 20)

    def test_damage(self):
        whole = archive([PLAIN, member("package/x", os.urandom(9000))])
        for data in (b"PK\3\4" + bytes(1000), whole[:-4000], whole[:200] + bytes(8) + whole[208:], b"\x1f\x8b" + bytes(2000)):
            with self.assertRaises(Failure):
                self.unpack(data)

    def test_a_file_in_the_place_of_a_directory(self):
        self.refuses("", [PLAIN, member("package/node_modules", b"1"), member("package/node_modules/inner/index.js", b"1")])


class Locks(unittest.TestCase):
    def read(self, **entries):
        return OURS["read_lock"]({"": {}, **{key.replace("__", "/"): value for key, value in entries.items()}}, "glibc")

    def refuses(self, why, entries):
        with self.assertRaisesRegex(Failure, why):
            OURS["read_lock"]({"": {}, **entries}, "glibc")

    def test_control(self):
        lock = {"node_modules/a": entry(dependencies={"b": "^1 || >=2 <3", "c": "npm:@s/d@1"}), "node_modules/a/node_modules/b": entry(),
                "node_modules/c": entry(optional=True, os=["win32"]), "node_modules/c/node_modules/below": entry(),
                "node_modules/a/node_modules/inside": entry(inBundle=True, integrity=None), "node_modules/musl": entry(optional=True, libc=["musl"])}
        found = OURS["read_lock"](lock, "glibc")
        self.assertEqual([one["path"] for one in found], ["a", "a/node_modules/b"])
        self.assertEqual(found[0]["sha512"], hashlib.sha512(b"").hexdigest())
        self.assertEqual([one["path"] for one in OURS["read_lock"](lock, "musl")][-1], "musl")

    def test_other_sources(self):
        for spec in ("git+https://x/y.git", "git@github.com:a/b", "someone/repository", "github:a/b", "file:../x", "../x", ".", "~/x/", "http://x/y.tgz",
                     "x.tgz", "link:../x", "workspace:*", "npm:../x", "npm:x@http://y", None, 7):
            self.refuses("only packages of the registry|not a package of npm", {"node_modules/a": entry(dependencies={"b": spec})})
            self.refuses("only packages of the registry|not a package of npm", {"node_modules/a": entry(optionalDependencies={"b": spec})})
        for url in ("file:///etc/passwd", "git+ssh://x/y", "", None, "/etc/passwd", "ftp://x/y"):
            self.refuses("does not come from the registry", {"node_modules/a": entry(resolved=url)})

    def test_paths(self):
        for key in ("a", "../a", "node_modules/../a", "node_modules/a/b/c", "node_modules/@s", "node_modules/.bin", "node_modules/a/node_modules/..",
                    "/node_modules/a", "node_modules//a", "node_modules/a\n", "packages/a"):
            self.refuses("is a directory, not a package", {key: entry()})
        self.refuses("is a directory", {"node_modules/a": entry(link=True)})
        self.refuses("is a directory", {"node_modules/a": []})

    def test_hashes(self):
        for value in (None, "", "sha1-" + "A" * 27 + "=", "sha512-AAAA", "sha512-!!!!", HASH.replace("sha512", "sha256")):
            self.refuses("no SHA-512", {"node_modules/a": entry(integrity=value)})

    def test_bounds(self):
        self.refuses("more than 1000 packages", {f"node_modules/a{n}": entry() for n in range(1001)})
        self.refuses("not made for this machine", {"node_modules/a": entry(os=["win32"])})
        self.refuses("does not come", {"node_modules/a": entry(version="1.0.0/../../x")})


class Requests(unittest.TestCase):
    def test_lists(self):
        allowed = OURS["allowed_npm"]
        self.assertIsNone(allowed({}))
        self.assertEqual(allowed({"allow": ["numpy"]}), {})
        self.assertEqual(allowed({"allow": ["numpy"], "allow_npm": ["a@^1", "@s/b"]}), {"a": "^1", "@s/b": ""})

    def test_registry(self):
        self.assertEqual(OURS["registry_of"]("https://me:p%40ss@host:1/x"), ("https://host:1/x/", base64.b64encode(b"me:p@ss").decode()))
        for url in ("file:///x", "", "ftp://x", "https:///x", "//x"):
            with self.assertRaisesRegex(Failure, "must be the url"):
                OURS["registry_of"](url)

    def test_what_the_sandbox_says(self):
        good = {"path": "a/node_modules/@s/b", "name": "@s/b", "version": "1.0.0", "sha256": "0" * 64, "sha512": "0" * 128, "file": "s-b-1.0.0.tgz"}
        self.assertEqual(OURS["check_npm"]({**good, "more": 1}), good)
        for wrong in ({"path": "../b"}, {"file": "../../x"}, {"sha256": "../x"}, {"version": "x"}, {"name": "b"}, {"sha512": ""}):
            with self.assertRaises(Failure):
                OURS["check_npm"]({**good, **wrong})
        self.assertTrue(json.dumps(good))


if __name__ == "__main__":
    unittest.main()
