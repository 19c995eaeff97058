"""Snapshots of a directory and rollbacks: the files after a rollback, compared with the files before."""

import contextlib
import errno
import mmap
import os
import random
import shutil
import socket
import stat
import subprocess
import tempfile
import unittest

TOOL = os.environ.get("CLOISTER_STUB_ROLLBACK")
MB = 1 << 20


def listing(root):
    """{path: all that must be as it was}"""
    found = {}

    def look(path, name):
        about = os.lstat(path)
        item = [stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), about.st_mtime_ns, about.st_nlink if not stat.S_ISDIR(about.st_mode) else 0]
        if stat.S_ISREG(about.st_mode):
            closed = not about.st_mode & stat.S_IRUSR
            if closed:
                os.chmod(path, 0o600)
            with open(path, "rb") as file:
                item += [about.st_size, file.read(about.st_size) if about.st_size < 64 * MB else file.read(1000)]
            if closed:
                os.chmod(path, about.st_mode)
        elif stat.S_ISLNK(about.st_mode):
            item += [os.readlink(path)]
        found[name] = item
        if stat.S_ISDIR(about.st_mode):
            if about.st_mode & 0o700 != 0o700:
                os.chmod(path, about.st_mode | 0o700)
            for below in os.listdir(path):
                look(os.path.join(path, below), os.path.join(name, below))
            if about.st_mode & 0o700 != 0o700:
                os.chmod(path, about.st_mode)

    look(root, ".")
    return found


class Taken:
    """A process that has taken a snapshot."""

    def __init__(self, root, most=100 * MB, fds=(), enter=None):
        command = [TOOL, root, str(most)] + ([enter] if enter else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, pass_fds=fds, errors="surrogateescape")
        self.result = int(self.process.stdout.readline())

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().rstrip("\n")

    def roll_back(self):
        report, line = {}, self.ask("r")
        while line != "done":
            if line.startswith(" "):
                report.setdefault(name + " names", []).append(line[1:])
            else:
                name, _, number = line.partition(" ")
                report[name] = int(number)
            line = self.process.stdout.readline().rstrip("\n")
        return report

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@unittest.skipUnless(TOOL and "CLOISTER_STUB_COLD" not in os.environ, "needs the built tool, and no template")
class Rollback(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="rollback-", dir="/dev/shm")
        self.addCleanup(self.remove)

    def remove(self):
        subprocess.run(["chmod", "-R", "u+rwx", self.root], check=False)
        shutil.rmtree(self.root)

    def at(self, *names):
        return os.path.join(self.root, *names)

    def write(self, name, text="text", mode=None):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)
        if mode is not None:
            os.chmod(self.at(name), mode)

    def take(self, **how):
        taken = Taken(self.root, **how)
        self.addCleanup(taken.close)
        self.before = listing(self.root)
        return taken

    def same(self):
        self.assertEqual(listing(self.root), self.before)

    def test_each_change(self):
        for name in ("changed", "longer", "shorter", "deleted", "renamed", "mode", "d/moved", "d/e/f/deep", "gone/with/all", "swap/one", "other/two", "mapped", "new\nline", "touched"):
            self.write(name, name * 100)
        os.symlink("/etc/passwd", self.at("link"))
        os.symlink("nowhere", self.at("d/broken"))
        os.mkfifo(self.at("fifo"), 0o640)
        os.link(self.at("changed"), self.at("d/second name"))
        os.link(self.at("d/moved"), self.at("only name"))
        os.mkdir(self.at("empty"))
        taken = self.take()
        self.assertEqual(taken.result, 0)
        with open(self.at("changed"), "r+", encoding="utf-8") as file:
            file.write("CHANGED")
        with open(self.at("longer"), "a", encoding="utf-8") as file:
            file.write("x" * 9999)
        os.truncate(self.at("shorter"), 3)
        os.remove(self.at("deleted"))
        os.rename(self.at("renamed"), self.at("new name"))
        os.chmod(self.at("mode"), 0)
        os.rename(self.at("d"), self.at("D"))
        os.rename(self.at("D/moved"), self.at("D/e/moved"))
        shutil.rmtree(self.at("gone"))
        os.rename(self.at("swap"), self.at("x"))
        os.rename(self.at("other"), self.at("swap"))
        os.rename(self.at("x"), self.at("other"))
        with open(self.at("mapped"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[0:6] = b"MAPPED"
        os.utime(self.at("touched"), ns=(5, 6))
        os.remove(self.at("link"))
        self.write("link/is a directory/now")
        os.remove(self.at("fifo"))
        os.rmdir(self.at("empty"))
        self.write("empty")
        os.remove(self.at("only name"))
        os.remove(self.at("new\nline"))
        os.makedirs(self.at("made/a/b/c"))
        report = taken.roll_back()
        self.assertEqual(report["failed"], 0, report)
        self.same()

    def test_what_the_report_says(self):
        for name in ("a", "b/c", "same"):
            self.write(name)
        taken = self.take()
        self.write("a", "other")
        os.remove(self.at("b/c"))
        self.write("b/new")
        report = taken.roll_back()
        self.assertEqual({k: report[k] for k in ("changed", "returned", "removed", "failed")}, {"changed": 1, "returned": 1, "removed": 1, "failed": 0})
        self.assertEqual(sorted(report["named names"]), ["a", "b/c", "b/new"])

    def test_nothing_was_changed(self):
        self.write("a/b")
        os.chmod(self.at("a"), 0o500)
        taken = self.take()
        self.assertEqual(set(taken.roll_back().values()), {0})
        self.same()

    def test_what_may_not_be_read(self):
        self.write("closed/none", mode=0)
        self.write("closed/d/below", mode=0o200)
        os.chmod(self.at("closed/d"), 0)
        os.chmod(self.at("closed"), 0o100)
        taken = self.take()
        os.chmod(self.at("closed"), 0o700)
        os.chmod(self.at("closed/d"), 0o700)
        self.write("closed/new/x")
        os.remove(self.at("closed/none"))
        os.chmod(self.at("closed/new"), 0)
        os.chmod(self.at("closed/d"), 0)
        os.chmod(self.at("closed"), 0)
        os.chmod(self.root, 0)
        self.assertEqual(taken.roll_back()["failed"], 0)
        self.same()

    def test_any_umask(self):
        self.write("d/e/file")
        before = os.umask(0o777)
        try:
            taken = Taken(self.root)
        finally:
            os.umask(before)
        self.addCleanup(taken.close)
        self.before = listing(self.root)
        shutil.rmtree(self.at("d"))
        self.assertEqual(taken.roll_back()["failed"], 0)
        self.same()

    def test_links_are_not_followed(self):
        outside = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, outside)
        with open(os.path.join(outside, "d"), "w", encoding="utf-8") as file:
            file.write("mine")
        self.write("d/file")
        self.write("file")
        os.symlink(outside, self.at("to"))
        taken = self.take()
        shutil.rmtree(self.at("d"))
        os.symlink(outside, self.at("d"))
        os.remove(self.at("file"))
        os.symlink(os.path.join(outside, "d"), self.at("file"))
        os.symlink(outside, self.at("new"))
        self.assertEqual(taken.roll_back()["failed"], 0)
        self.same()
        self.assertEqual(os.listdir(outside), ["d"])
        with open(os.path.join(outside, "d"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_holes(self):
        with open(self.at("sparse"), "wb") as file:
            file.truncate(1 << 40)
            file.seek(1 << 30)
            file.write(b"island")
            file.seek((1 << 40) - 3)
            file.write(b"end")
        taken = self.take(most=MB)
        self.assertEqual(taken.result, 0)
        with open(self.at("sparse"), "r+b") as file:
            file.write(b"begin")
            file.seek(1 << 30)
            file.write(b"ISLAND")
        self.assertEqual(taken.roll_back()["changed"], 1)
        self.same()
        with open(self.at("sparse"), "rb") as file:
            file.seek(1 << 30)
            self.assertEqual(file.read(8), b"island\0\0")
            file.seek(-4, 2)
            self.assertEqual(file.read(), b"\0end")

    def test_open_files(self):
        for name in ("kept", "deleted"):
            self.write(name, "0123456789")
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(self.at(name), "r+", encoding="utf-8")) for name in ("kept", "deleted", "kept")]
            os.link(self.at("kept"), self.at("other name"))
            nameless = stack.enter_context(tempfile.TemporaryFile("w+", dir=self.root, encoding="utf-8"))
            nameless.write("nameless")
            nameless.flush()
            nameless.seek(4)
            fds = [file.fileno() for file in files] + [nameless.fileno()]
            taken = self.take(fds=fds)
            files[0].write("XXXX")
            files[0].flush()
            os.remove(self.at("deleted"))
            os.truncate(fds[3], 0)
            self.assertEqual(taken.roll_back()["failed"], 0)
            self.same()
            os.lseek(fds[2], 0, os.SEEK_SET)
            self.assertEqual([taken.ask(f"f {fd}") for fd in fds[1:]], ["0 0123456789", "0 0123456789", "4 less"])
            # The file that was made again is the one that the descriptor reads.
            self.write("deleted", "agreed")
            os.lseek(fds[1], 0, os.SEEK_SET)

    def test_the_current_directory(self):
        self.write("in/here/file")
        taken = self.take(enter=self.at("in/here"))
        shutil.rmtree(self.at("in"))
        self.assertEqual(taken.roll_back()["failed"], 0)
        self.same()
        self.assertEqual(taken.ask("c"), self.at("in/here"))

    def test_deep_trees(self):
        self.write("/".join("d" * 60) + "/file")
        taken = self.take()
        self.assertEqual(taken.result, 0)
        # Deeper than any path.
        fd = os.open(self.root, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("n" * 10, dir_fd=fd)
            below = os.open("n" * 10, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(fd)
        os.rename(self.at("d/d"), self.at("moved"))
        self.assertEqual(taken.roll_back()["failed"], 0)
        self.same()
        self.write("/".join("e" * 64) + "/file")
        self.assertEqual(self.take().result, -errno.ELOOP)

    def test_limits(self):
        for i in range(200):
            self.write(f"d{i}/file", "x" * 5000)
        def result(most):
            taken = Taken(self.root, most)
            taken.close()
            return taken.result

        self.assertEqual(result(MB), 0)
        self.assertEqual(result(900_000), -errno.EFBIG)
        for i in range(20_000 - 400):
            os.mkfifo(self.at(f"l{i}"))
        self.assertEqual(result(MB), 0)
        os.mkfifo(self.at("one more"))
        self.assertEqual(result(MB), -errno.E2BIG)

    def test_a_socket_cannot_be_made_again(self):
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
            one.bind(self.at("kept"))
            two.bind(self.at("gone"))
            taken = self.take()
            os.rename(self.at("kept"), self.at("moved"))
            os.remove(self.at("gone"))
            report = taken.roll_back()
        self.assertEqual((report["failed"], report["failed names"]), (1, ["gone"]))
        self.assertEqual(sorted(os.listdir(self.root)), ["kept"])

    def change(self, rng):
        """One random change. Most of them fail because of existing files, which is fine."""
        names = ["".join(rng.choice("ab") for _ in range(rng.randint(1, 2))) for _ in range(6)]
        one, two = self.at(*names[: rng.randint(1, 3)]), self.at(*names[3 : 3 + rng.randint(1, 3)])
        act = rng.choice(("write", "write", "append", "mkdir", "mkdir", "remove", "rename", "rename", "link", "symlink", "rmtree", "chmod", "truncate", "mkfifo"))
        with contextlib.suppress(OSError):
            if act in ("write", "append"):
                with open(one, "w" if act == "write" else "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
                    file.write(rng.choice("xyz") * rng.randrange(9000))
            elif act in ("mkdir", "remove", "mkfifo"):
                getattr(os, act)(one)
            elif act in ("rename", "symlink"):
                getattr(os, act)(one, two)
            elif act == "link":
                os.link(one, two, follow_symlinks=False)
            elif act == "rmtree" and os.path.isdir(one) and not os.path.islink(one):
                shutil.rmtree(one)
            elif act == "chmod" and not os.path.islink(one):
                os.chmod(one, rng.choice((0o755, 0o500, 0o300, 0)))
            elif act == "truncate" and stat.S_ISREG(os.lstat(one).st_mode):
                os.truncate(one, rng.randrange(20000))

    def test_random_changes(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        for i in range(int(os.environ.get("CLOISTER_TEST_ROUNDS", "15"))):
            rng = random.Random(seed + i)
            for _ in range(rng.randrange(60)):
                self.change(rng)
            taken = Taken(self.root)
            self.assertEqual(taken.result, 0, seed + i)
            self.before = listing(self.root)
            for _ in range(rng.randrange(60)):
                self.change(rng)
            report = taken.roll_back()
            taken.close()
            self.assertEqual(report["failed"], 0, (seed + i, report))
            self.assertEqual(listing(self.root), self.before, seed + i)


if __name__ == "__main__":
    unittest.main()
