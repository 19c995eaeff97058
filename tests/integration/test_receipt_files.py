"""Files in receipts: init finds them by scanning /workspace, independent of what the code reports or tries."""

import json
import os
import shutil
import tempfile
import unittest

import harness
import rawmcp

# A cell that sleeps is one whose files are looked at after it.
PAUSE = "import os, time; time.sleep(0.03)\n"

once = unittest.skipUnless(harness.ROOT or harness.WHOLE, "with one user only")


class Looks(rawmcp.ServerCase):
    def receipt(self, cell, session=None):
        uri = f"cloister://sessions/{session or self.session}/cells/{cell}/receipt"
        return json.loads(self.server.ask("resources/read", {"uri": uri})["contents"][0]["text"])

    def looked(self, cell, session=None):
        """The receipt, once files were looked at: after the result."""
        known = lambda: {"files_new", "files_unknown"} & self.receipt(cell, session).keys()
        self.assertTrue(harness.wait_until(known), self.receipt(cell, session))
        return self.receipt(cell, session)

    def changed(self, code, session=None, **arguments):
        """{path: (change, size or type)} of a cell, and its receipt."""
        result = self.ok(PAUSE + code, session=session or self.session, **arguments)
        receipt = self.looked(result["receipt"]["cell"], session)
        self.assertNotIn("files_from_cell", receipt)
        files = receipt.get("files", [])
        return {f["path"]: (f["change"], f.get("size", f.get("type"))) for f in files}, receipt

    def numbers(self, receipt):
        return receipt["files_new"], receipt["files_changed"], receipt["files_deleted"]


class Files(Looks):
    CONFIG = {"profiles": {"off": {"state": {"survives": False}, "agent": True}}}

    def test_each_change(self):
        files, receipt = self.changed("1")
        self.assertEqual((files, self.numbers(receipt)), ({}, (0, 0, 0)))
        files, receipt = self.changed(
            "open('a.csv', 'w').write('x' * 5); open('b', 'w').write('y'); os.mkdir('d'); open('d/c', 'w').write('z')\n"
            "os.symlink('a.csv', 'l'); os.mkfifo('f')"
        )
        self.assertEqual(
            files,
            {"a.csv": ("new", 5), "b": ("new", 1), "d": ("new", "directory"), "d/c": ("new", 1), "l": ("new", "link"), "f": ("new", "fifo")},
        )
        self.assertEqual(self.numbers(receipt), (6, 0, 0))
        files, _ = self.changed("open('a.csv', 'a').write('more'); os.truncate('b', 0); os.chmod('d/c', 0o600); os.unlink('f')")
        self.assertEqual(files, {"a.csv": ("changed", 9), "b": ("changed", 0), "d/c": ("changed", 1), "f": ("deleted", "fifo")})
        files, receipt = self.changed("os.rename('a.csv', 'd/e'); os.replace('d/c', 'b')")
        self.assertEqual(files, {"a.csv": ("deleted", 9), "d/e": ("new", 9), "d/c": ("deleted", 1), "b": ("changed", 1)})
        self.assertEqual(self.numbers(receipt), (1, 1, 2))
        # Reading a file is not a change, and neither is a file that exists only while the cell runs.
        files, _ = self.changed("open('d/e').read(); open('t', 'w').write('t'); os.unlink('t'); os.listdir('d')")
        self.assertEqual(files, {})

    def test_code_cannot_hide_a_change(self):
        """Same size and times, another name's content, an open file without a name, a link that replaces a directory."""
        self.changed("open('a', 'w').write('one'); os.mkdir('d'); open('d/x', 'w').write('1')")
        files, _ = self.changed("before = os.stat('a'); open('a', 'w').write('two'); os.utime('a', ns=(before.st_atime_ns, before.st_mtime_ns))")
        self.assertEqual(files, {"a": ("changed", 3)})
        files, _ = self.changed("open('b', 'w').write('two'); os.replace('b', 'a')")
        self.assertEqual(files, {"a": ("changed", 3)})
        files, _ = self.changed("fd = os.open('a', os.O_RDWR); os.unlink('a'); os.write(fd, b'xx'); os.link('d/x', 'a')")
        self.assertEqual(files, {"a": ("changed", 1), "d/x": ("changed", 1)})
        files, _ = self.changed("os.rename('d', '/tmp/d') if os.stat('/tmp').st_dev == os.stat('.').st_dev else None\nos.rename('d', 'e'); os.symlink('/usr', 'd')")
        self.assertEqual(files, {"d": ("changed", "link"), "d/x": ("deleted", 1), "e": ("new", "directory"), "e/x": ("new", 1)})
        tried = self.value(PAUSE + """
import ctypes, glob
libc = ctypes.CDLL(None, use_errno=True)
worked = []
for path in glob.glob('/proc/1/fd/*') + ['/proc/1/fd/7', '/proc/1/fd/8', '/proc/1/mem', '/proc/1/root', '/proc/1/cwd']:
    try: os.open(path, os.O_RDONLY); worked.append(path)
    except OSError: pass
if libc.syscall(438, libc.syscall(434, 1, 0), 7, 0) >= 0: worked.append('pidfd_getfd')
if libc.kill(1, 19) == 0: pass  # PID 1 ignores what it has no handler for
open('hidden', 'w').write('x'); print('{"files_new": 0}'); worked""")
        self.assertEqual(tried, [])

    @once
    def test_a_directory_that_is_exchanged_with_a_link(self):
        """init scans while code swaps the two: it never follows the link."""
        self.ok("""
import ctypes, os, threading, time
for i in range(100): os.mkdir(f'd{i}'); open(f'd{i}/mine', 'w').close(); os.symlink('/etc', f'l{i}')
pairs = [(b'd%d' % i, b'l%d' % i) for i in range(100)]
libc, stop = ctypes.CDLL(None), False
def swap():
    while not stop:
        for d, l in pairs: libc.renameat2(-100, d, -100, l, 2)
thread = threading.Thread(target=swap); thread.start()""")
        seen, allowed = set(), {f"{kind}{i}{rest}" for kind in "dl" for i in range(100) for rest in ("", "/mine")}
        for _ in range(100):
            cell = self.ok("time.sleep(0.003)")["receipt"]["cell"]
            seen |= {f["path"] for f in self.looked(cell).get("files", [])}
        self.ok("stop = True; thread.join()")
        self.assertIn("d7/mine", seen)
        self.assertLessEqual(seen, allowed)

    def test_hostile_names(self):
        files, _ = self.changed(r"""
for name in [b'\xff\xfe', b'a\nb', b'"\\', b'x' * 255, '\u202e\U0001f600'.encode(), b'.git', b' ']:
    open(name, 'wb').write(b'1')
""")
        self.assertEqual(set(files), {"\ufffd\ufffd", "a\nb", '"\\', "x" * 255, "\u202e\U0001f600", ".git", " "})

    def test_short_calls_have_one_list(self):
        self.looked(self.ok("1")["receipt"]["cell"])
        cells = [self.ok(f"open('f{i}', 'w').write('x')")["receipt"]["cell"] for i in range(6)]
        self.looked(cells[-1])
        receipts = [self.looked(n) for n in cells]
        lists = {r.get("files_to_cell", r["cell"]): self.looked(r.get("files_to_cell", r["cell"])) for r in receipts}
        listed = [f["path"] for r in lists.values() for f in r.get("files", [])]
        self.assertEqual(sorted(listed), [f"f{i}" for i in range(6)], receipts)

    @once
    def test_many_files(self):
        """All files are counted; the list has a limit. A scan that takes long is done while the session is idle."""
        files, receipt = self.changed("for i in range(5000): open(f'file-with-a-name-{i:05}', 'w').close()")
        self.assertEqual(self.numbers(receipt), (5000, 0, 0))
        self.assertGreater(len(files), 500)
        self.assertLess(len(json.dumps(receipt)), 60_000)
        files, receipt = self.changed("open('file-with-a-name-00007', 'w').write('x'); os.unlink('file-with-a-name-00009')")
        self.assertEqual(files, {"file-with-a-name-00007": ("changed", 1), "file-with-a-name-00009": ("deleted", 0)})

    @once
    def test_limits(self):
        self.changed("1")
        limits = {
            "more than 20,000 files": "os.mkdir('d')\nfor i in range(20001): open(f'd/{i}', 'w').close()",
            "nested more than 64 deep": "os.makedirs('d/' + '/'.join('x' * 70))",
            "names of all files": "os.makedirs('d/' + '/'.join(['n' * 250] * 12))\nos.chdir('d')\nfor _ in range(12): os.chdir('n' * 250)\n"
            "for i in range(500): open(f'{i}', 'w').close()\nos.chdir('/workspace')",
        }
        for text, code in limits.items():
            with self.subTest(limit=text):
                _, receipt = self.changed(code)
                why = receipt["files_unknown"]
                late = harness.SLOW > 1 and "took too long" in why  # the time for a look has ended first
                self.assertTrue(late or text in why, why)
                self.assertNotIn("files", receipt)
                _, receipt = self.changed("import shutil; shutil.rmtree('d')")
                self.assertIn("before could not", receipt["files_unknown"])
                files, _ = self.changed("open('again', 'a').write('x')")
                self.assertEqual(list(files), ["again"])

    def test_directories_that_cannot_be_read(self):
        self.changed("os.mkdir('d'); open('d/a', 'w').close(); open('b', 'w').close()")
        files, receipt = self.changed("open('d/new', 'w').close(); os.chmod('d', 0); os.unlink('b'); open('c', 'w').close()")
        self.assertEqual(receipt["directories_unreadable"], 1)
        self.assertEqual(files, {"d": ("changed", "directory"), "c": ("new", 0)})
        files, receipt = self.changed("os.chmod('d', 0o700)")
        self.assertNotIn("directories_unreadable", receipt)
        self.assertLessEqual({"d/a", "d/new"}, files.keys())
        # The names in it can be read, but not the types of the files.
        files, receipt = self.changed("os.chmod('d', 0o400); os.unlink('c')")
        self.assertEqual((files, receipt["directories_unreadable"]), ({"d": ("changed", "directory")}, 1))
        _, receipt = self.changed("os.chmod('.', 0)\ntry: os.listdir('.')\nexcept OSError as e: print(e)")
        self.assertEqual(receipt["directories_unreadable"], 1, receipt)

    def test_other_profiles_and_deaths(self):
        session = f"{self.session}-off"
        self.changed("1", session=session, profile="off")
        self.assertEqual(self.changed("open('a', 'w').close()", session=session)[0], {"a": ("new", 0)})
        # A short cell: files are looked at once the session rests.
        cell = self.ok("open('b', 'w').close()", session=session)["receipt"]["cell"]
        self.assertEqual([f["path"] for f in self.looked(cell, session)["files"]], ["b"])
        self.changed("1")
        harness.wait_until(lambda: "copy_of_cell" in self.listed())
        result = self.call(PAUSE + "open('a', 'w').close(); os._exit(3)")["structuredContent"]
        self.assertEqual(result["state"], "restored")
        self.assertEqual([f["path"] for f in self.looked(2)["files"]], ["a"])
        listed = next(r for r in self.listed()["receipts"] if r["cell"] == 2)
        self.assertEqual((listed["files_new"], "files" in listed), (1, False))

    def listed(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd=self.class_dir)
        return next(s for s in json.loads(done.stdout)[0]["sessions"] if s["name"] == self.session)

    def test_a_branch_begins_with_its_files(self):
        self.changed("open('a', 'w').close()")
        branch = f"{self.session}-b"
        first = self.ok(PAUSE + "open('c', 'w').close()", session=branch, **{"from": self.session})
        self.assertEqual([f["path"] for f in self.looked(first["receipt"]["cell"], branch)["files"]], ["c"])

    def test_a_call_that_is_rolled_back(self):
        """The files are as before, but were written again."""
        self.changed("open('a', 'w').write('1')")
        result = self.call(PAUSE + "open('a', 'w').write('22'); open('b', 'w').close(); 1 / 0", on_error="rollback")["structuredContent"]
        self.assertEqual(result["state"], "rolled_back")
        cell = result["receipt"]["cell"]
        self.assertEqual([(f["path"], f["change"], f["size"]) for f in self.looked(cell)["files"]], [("a", "changed", 1)])


HOST = tempfile.mkdtemp(prefix="cloister-test-host-", dir="/var/tmp")


class Mounts(Looks):
    """Host directories in /workspace are not scanned, whatever code creates at their path."""

    CONFIG = {"mounts": [{"source": HOST, "target": "/workspace/in/data", "mode": "ro"}]}

    @classmethod
    def setUpClass(cls):
        os.chmod(HOST, 0o755)
        with open(os.path.join(HOST, "there"), "w", encoding="ascii") as file:
            file.write("1")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(HOST)

    def test_host_directories(self):
        files, _ = self.changed("assert open('in/data/there').read() == '1'; open('own', 'w').close()")
        self.assertEqual(files, {"own": ("new", 0)})
        with open(os.path.join(HOST, "later"), "w", encoding="ascii") as file:
            file.write("1")
        files, _ = self.changed("assert os.path.exists('in/data/later'); os.rename('in', 'moved'); open('own2', 'w').close()")
        self.assertEqual(files, {"own2": ("new", 0), "in": ("deleted", "directory"), "in/data": ("deleted", "directory"), "moved": ("new", "directory"), "moved/data": ("new", "directory")})


if __name__ == "__main__":
    harness.main()
