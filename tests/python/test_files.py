"""Files of /workspace, in a temporary directory."""

import base64
import json
import os
import tempfile
import unittest

import guest

from cloister import files
from cloister.frames import FETCH, PUT


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.out = os.path.join(self.root, "out")
        os.mkdir(self.out)
        self.files = files.Files(guest.Disk(), self.root)

    def write(self, name, data=b"x"):
        path = os.path.join(self.out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def changed(self):
        described, total = self.files.changed()
        return [file["path"] for file in described], total

    def ask(self, kind, **request):
        return json.loads(self.files.answer(kind, json.dumps(request).encode()))


class Changed(FilesTest):
    def test_nothing(self):
        self.assertEqual(self.files.changed(), ([], 0))

    def test_created_changed_unchanged_and_removed(self):
        self.write("a.csv", b"1,2")
        self.write("deep/er/b.png")
        self.assertEqual(
            self.files.changed(),
            (
                [
                    {"path": "a.csv", "size": 3, "mime": "text/csv"},
                    {"path": "deep/er/b.png", "size": 1, "mime": "image/png"},
                ],
                2,
            ),
        )
        self.assertEqual(self.changed(), ([], 0))
        self.write("a.csv", b"other")
        self.assertEqual(self.changed(), (["a.csv"], 1))
        os.replace(self.write("b.tmp"), os.path.join(self.out, "a.csv"))
        self.assertEqual(self.changed(), (["a.csv"], 1))
        os.unlink(os.path.join(self.out, "a.csv"))
        self.assertEqual(self.changed(), ([], 0))
        self.write("a.csv", b"again")
        self.assertEqual(self.changed(), (["a.csv"], 1))

    def test_only_regular_files(self):
        os.symlink("/etc/passwd", os.path.join(self.out, "link"))
        os.symlink("/etc", os.path.join(self.out, "folder"))
        os.mkfifo(os.path.join(self.out, "fifo"))
        self.write("real")
        self.assertEqual(self.changed(), (["real"], 1))

    def test_out_that_is_a_link_or_a_file(self):
        os.rmdir(self.out)
        os.symlink("/etc", self.out)
        self.assertEqual(self.changed(), ([], 0))
        os.unlink(self.out)
        self.assertEqual(self.changed(), ([], 0))
        with open(self.out, "w"):
            pass
        self.assertEqual(self.changed(), ([], 0))

    def test_names_that_cannot_be_sent_are_counted(self):
        self.write("two\nlines")
        with open(os.path.join(os.fsencode(self.out), b"\xff.bin"), "wb"):
            pass
        self.write("x" * 200 + "/" + "y" * 200)
        self.write("fine \u00e9.txt")
        self.assertEqual(self.changed(), (["fine \u00e9.txt"], 4))

    def test_bounds(self):
        for i in range(files.MAX_NAMED + 7):
            self.write("f%04d" % i)
        named, total = self.changed()
        self.assertEqual((len(named), named[0], total), (files.MAX_NAMED, "f0000", files.MAX_NAMED + 7))
        self.addCleanup(setattr, files, "MAX_ENTRIES", files.MAX_ENTRIES)
        files.MAX_ENTRIES = 10
        self.assertEqual(files.Files(guest.Disk(), self.root).changed()[1], 11)
        self.assertEqual(len(files.Files(guest.Disk(), self.root).all(5)[0]), 5)

    def test_depth(self):
        self.write("d/" * 15 + "in")
        self.assertEqual(len(files.Files(guest.Disk(), self.root).changed()[0]), 1)
        self.write("d/" * 30 + "out of sight")
        described, total = files.Files(guest.Disk(), self.root).changed()
        self.assertEqual((len(described), total), (1, 2))

    def test_mime_types(self):
        for name, kind in {
            "a.png": "image/png", "b.JPG": "image/jpeg", "c": "application/octet-stream", "d.csv": "text/csv",
            "e.tar.gz": "application/gzip", "f.md": "text/markdown", "http://x/y.html": "text/html",
            "data:text": "application/octet-stream", "g.webp": "image/webp",
        }.items():  # fmt: skip
            self.assertEqual(files.mime_type_of(name), kind, name)


class Fetch(FilesTest):
    def fetch(self, path, offset=0, length=1000):
        return self.ask(FETCH, path=path, offset=offset, length=length)

    def test_pieces(self):
        self.write("a", b"0123456789")
        first = self.fetch("out/a", 0, 4)
        self.assertEqual((base64.b64decode(first["data"]), first["size"], first["eof"]), (b"0123", 10, False))
        last = self.fetch("out/a", 4, 100)
        self.assertEqual((base64.b64decode(last["data"]), last["eof"]), (b"456789", True))
        self.assertEqual(first["version"], last["version"])
        self.write("a", b"0123456789!")
        self.assertNotEqual(self.fetch("out/a")["version"], first["version"])
        self.assertTrue(self.fetch("out/a", 500)["eof"])

    def test_no_more_than_a_chunk(self):
        self.write("a", bytes(files.MAX_CHUNK + 1))
        self.assertEqual(len(base64.b64decode(self.fetch("out/a", 0, 1 << 40)["data"])), files.MAX_CHUNK)

    def test_empty(self):
        self.write("a", b"")
        self.assertEqual((self.fetch("out/a")["data"], self.fetch("out/a")["eof"]), ("", True))

    def test_refused(self):
        os.symlink("/etc/passwd", os.path.join(self.out, "link"))
        os.symlink("/etc", os.path.join(self.out, "folder"))
        os.mkfifo(os.path.join(self.out, "fifo"))
        for path, why in {
            "out/link": "symbolic links", "out/folder/passwd": "", "out/none": "No such file",
            "out/fifo": "not a regular file", "out": "not a regular file",
        }.items():  # fmt: skip
            answer = self.fetch(path)
            self.assertFalse(answer["ok"], path)
            self.assertIn(why, answer["error"])
        self.assertFalse(self.ask(FETCH)["ok"])
        self.assertFalse(json.loads(self.files.answer(FETCH, b"{"))["ok"])
        self.assertIn("memory", json.loads(self.files.answer(FETCH, None))["error"])

    def test_list(self):
        self.write("b")
        self.write("a", b"12")
        answer = self.ask(FETCH, list=1)
        self.assertEqual([file["path"] for file in answer["files"]], ["a"])
        self.assertEqual(answer["files_total"], 2)
        self.assertEqual(self.changed(), (["a", "b"], 2))  # which a list does not change


class Put(FilesTest):
    def put(self, path, data, offset=0):
        return self.ask(PUT, path=path, offset=offset, data=base64.b64encode(data).decode())

    def read(self, path):
        with open(os.path.join(self.root, path), "rb") as file:
            return file.read()

    def test_pieces_and_directories(self):
        self.assertEqual(self.put("a/b/c", b"0123"), {"ok": True})
        self.assertEqual(self.put("a/b/c", b"4567", 4), {"ok": True})
        self.assertEqual(self.read("a/b/c"), b"01234567")
        self.assertEqual(self.put("a/b/c", b"new"), {"ok": True})
        self.assertEqual(self.read("a/b/c"), b"new")

    def test_refused(self):
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        os.symlink(other.name, os.path.join(self.root, "link"))
        os.symlink(os.path.join(other.name, "target"), os.path.join(self.root, "dangling"))
        for path in ("link/x", "dangling", "out"):
            self.assertFalse(self.put(path, b"x")["ok"], path)
        self.assertEqual(os.listdir(other.name), [])


class TmpfsTest(unittest.TestCase):
    """Where a directory's size shows that it is empty, every file created below it is found."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "out")
        os.mkdir(self.out)
        disk = guest.Disk()
        disk.in_tmpfs = True
        self.files = files.Files(disk, folder.name)

    def changed(self):
        return [file["path"] for file in self.files.changed()[0]]

    def test_size_shows_that_it_is_empty(self):
        self.files._walk = None  # not called
        self.assertEqual(self.changed(), [])

    def test_every_new_file_is_found(self):
        os.makedirs(self.out + "/a/b")
        self.assertEqual(self.changed(), [])
        open(self.out + "/a/b/deep", "w").close()
        self.assertEqual(self.changed(), ["a/b/deep"])
        os.system("echo 1 > %s/child" % self.out)
        self.assertEqual(self.changed(), ["child"])
        os.rename(self.out + "/child", self.out + "/renamed")
        self.assertEqual(self.changed(), ["renamed"])
        with open(self.out + "/renamed", "r+") as file:
            file.write("2")  # of the same size
        os.utime(self.out + "/renamed", ns=(5, 5))
        self.changed()
        with open(self.out + "/renamed", "r+") as file:
            file.write("3")
        os.utime(self.out + "/renamed", ns=(5, 5))  # and time
        self.assertEqual(self.changed(), ["renamed"])

    def test_emptied_and_filled_again(self):
        open(self.out + "/x", "w").close()
        self.assertEqual(self.changed(), ["x"])
        os.unlink(self.out + "/x")
        self.assertEqual(self.changed(), [])
        open(self.out + "/x", "w").close()
        self.assertEqual(self.changed(), ["x"])
        os.rename(self.out, self.out + "2")
        self.assertEqual(self.changed(), [])
        os.symlink(self.out + "2", self.out)
        self.assertEqual(self.changed(), [])
        os.unlink(self.out)
        os.rename(self.out + "2", self.out)
        self.assertEqual(self.changed(), ["x"])


if __name__ == "__main__":
    unittest.main()
