"""The standard streams, each case in its own process."""

import os
import subprocess
import sys
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Streams(unittest.TestCase):
    def run_with(self, code):
        program = "import sys, os\nsys.path.insert(0, %r)\nimport guest\nfrom cloister import stdio\ncopies = [os.dup2(fd, fd + 100, False) for fd in (1, 2)]\nstdio.set_spares(lambda: copies)\nstdio.start()\n" % HERE
        done = subprocess.run(
            [sys.executable, "-c", program + textwrap.dedent(code)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return done.stdout, done.stderr

    def test_line_buffering_and_any_text(self):
        out, err = self.run_with("print('é\\ud800')\nos._exit(0)")
        self.assertEqual((out, err), ("é\\ud800\n", ""))

    def test_reopened(self):
        for fd in (1, 2):
            out, err = self.run_with("os.close(%d)\nstdio.restore()\nprint('seen', file=sys.std%s)" % (fd, "out" if fd == 1 else "err"))
            self.assertEqual((out, err)[fd - 1], "seen\n")
        out, _ = self.run_with("os.closerange(0, 50)\nstdio.restore()\nprint(repr(sys.stdin.read()), os.readlink('/proc/self/fd/0'))")
        self.assertEqual(out, "'' /dev/null\n")

    def test_created_again(self):
        for code in ("sys.stdout.close()", "del sys.stdout", "sys.stdout = None", "sys.stdout.detach()",
                     "class C:\n    closed = property(lambda self: 1/0)\nsys.stdout = C()"):  # fmt: skip
            with self.subTest(code=code):
                self.assertEqual(self.run_with(code + "\nstdio.restore()\nprint('seen')")[0], "seen\n")

    def test_replacements_stay(self):
        code = "import io\nsys.stdout = s = io.StringIO()\nstdio.restore()\nprint('x')\nsys.stderr.write(repr(s.getvalue()))"
        self.assertEqual(self.run_with(code), ("", "'x\\n'"))
        code = "fd = os.open('/dev/null', os.O_WRONLY)\nos.dup2(fd, 1)\nstdio.restore()\nprint('x')\n"
        self.assertEqual(self.run_with(code), ("", ""))

    def test_flush_ignores_errors(self):
        code = """
            class Core:
                def flush(self): sys.stderr.write("C ")
            class Bad:
                def flush(self): raise ValueError
            sys.stdout.write("partial")
            sys.stdout = Bad()
            stdio.flush(Core())
            sys.stderr.flush()
            os._exit(0)
        """
        self.assertEqual(self.run_with(code), ("partial", "C "))


if __name__ == "__main__":
    unittest.main()
