"""Lines of notebooks: which ones become calls, and that nothing else of a cell changes."""

import sys
import unittest

import guest  # noqa: F401

from cloister import magics

SHELL = "__import__('cloister').shell"


class Rewrite(unittest.TestCase):
    def check(self, source, wanted):
        rewritten = magics.rewrite(source)
        self.assertEqual(rewritten, wanted.replace("SHELL", SHELL))
        self.assertEqual(rewritten.count("\n"), source.count("\n"))
        compile(rewritten, "x", "exec", 0x2000)

    def test_lines(self):
        self.check("%matplotlib inline\nx = 1", "pass\nx = 1")
        self.check("if x:\n    %load_ext y  # z\n", "if x:\n    pass\n")
        self.check("%time x = f(1)", "with SHELL.timing(): x = f(1)")
        self.check("v = %time f('#')  # why", "v = SHELL.timed(SHELL.now(), (f('#')))")
        self.check("%timeit -n 3 -r2 f(-x)", "for __timeit__ in SHELL.repeat({'n': '3', 'r': '2'}): f(-x)")
        self.check("!ls -l {x}", "SHELL.system('ls -l {x}')")
        self.check("a = !ls \\\n  -l\nb = 2", "a = SHELL.getoutput('ls \\\\\\n  -l')\n\nb = 2")
        self.check("%cd -", "SHELL.run_line_magic('cd', '-')")
        self.check("%pip install x", "__import__('cloister').install.line('x')")

    def test_what_is_left_alone(self):
        for source in ("x = 1", "%who", "%%writefile a\nx", "!", "x = %matplotlib", "%time", "print('''\n%time x\n!ls\n''')",
                       "f(\n%time x\n)", "x = 5 \\\n%time x", "# %time x", "'''", '"""\n%cd x'):
            self.assertIsNone(magics.rewrite(source), source)
        text = 's = f"""{x}\n!ls\n"""\n'
        self.check(text + "!ls", text + "SHELL.system('ls')")
        self.check("x = '#' + \"'\"\n!ls", "x = '#' + \"'\"\nSHELL.system('ls')")

    def test_whole_cells(self):
        self.check("# a\n%%time\nx = 1\n!ls", "\nSHELL.begin_timing()\nx = 1\nSHELL.system('ls')")
        self.check("%%bash -s a\necho 1\necho 2\n", "SHELL.run_cell_magic('bash', '-s a', 'echo 1\\necho 2\\n')\n\n\n")
        self.check("%%timeit -n 1 y = 2\nx = y\nz = x", "for __timeit__ in SHELL.repeat({'n': '1'}, 'y = 2'):\n x = y\n z = x")
        self.check("%%capture out --no-stderr\nx", "SHELL.begin_capture('out --no-stderr')\nx")

    def test_expressions_in_commands(self):
        name, n = "w", {"a": 1}  # noqa: F841
        for command, wanted in (("echo {name}", "echo w"), ("$name $other", "w $other"), ("{n['a'] + 1}", "2"), ("{{x}}", "{x}"),
                                ("awk '{print $1}'", "awk '{print $1}'"), ("${HOME}", "${HOME}")):
            self.assertEqual(magics._expand(command, sys._getframe()), wanted)


if __name__ == "__main__":
    unittest.main()
