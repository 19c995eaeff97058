"""A cell compiled without a syntax tree does the same as one compiled with it."""

import ast
import unittest
import warnings

import guest  # noqa: F401

from cloister.compiler import Compiler, free_names

# The text alone decides whether the value is the last line's and what precedes it: hence the unusual cases.
CELLS = (
    "1+1", "x = 1", "x == 1", "x = 1\nx", "x = 1\nx == 1", "\n\n1", "1  # one", "# nothing", "", " ", "1\n# end\n",
    "lambda x=1: x", "f = lambda x=1: x\nf()", "x = [\n1,\n2\n]", "[\n1,\n2\n]", "dict(\na=1)", "dict(\na='(')", "dict(a=1,\nb=2\n)",
    "for i in range(3):\n    i", "[i\nfor i in range(3)]", "[i\nfor i in [1,2][1:\n2]]", "(1 if x else\n2)" .replace("x", "1"),
    "(1\nif 1\nelse 2)", "if 1:\n    2\nelse:\n    3", "if 1: 2", "1; 2", "x = 1; x", "import os; 5", "import os\n5", "from os import path",
    "def f():\n    return 1", "def f(): return 1\nf()", "class A:\n    b = 1\nA.b", "@staticmethod\ndef f(): pass",
    "class M:\n    def __matmul__(self, o): return 7\nm = M()\n(m\n@ m)", "(yield\nfrom x)", "try:\n    1/0\nexcept ZeroDivisionError:\n    2",
    "x = '''\n5\n'''", "'''\n5\n'''", "'''\ndef f(): pass #'''", "'''\nx = 1 #'''", "'''\nfor x in y: #'''", "x = '''a'''\nx",
    "x = 1 + \\\n2", "1 + \\\n2", "1 or \\\nlambda: 0", "'a\\tb'", "x: int = 5", "x: int", "x = y = 3\n(x, y)", "a, b = 1, 2\na, b",
    "x = 5\nx += 1", "x = [0]\nx[0] = 5", "x = [0]\nx[0]", "x = 1\nx <= 2", "x = 1\nx != 2", "del_ = 1\ndel_", "typed = 2\ntyped", "if_ = 1\nif_",
    "with open('/dev/null') as f:\n    3", "while False: pass", "global g\ng = 1", "assert (1,\n2)", "'doc'\n5", "'doc'", "f'{1+1}'", "...",
    "from __future__ import annotations\nx: undefined = 1\nx", "from math import *\npi", "not 1", "-1", "(1,\n 2)[0]", "{1:\n2}", "print\n(5)",
    "x = (1,\n2)\n", "def f(a,\nb=1): pass\nf", "1,", "1,2", "*[1], 2", "None", "x = None\nx", "1\n)", "f(", "1 +", "return 1", "if 1:", "\tx",
    "x = 1\r\nx", "async def f(): return 4\nawait f()", "'%s' % 1 == '1'", "match = 3\nmatch", "match 1:\n    case 1: 5", "type(1)",
    "import os\nos.sep", "x = 1\ndel x", "[n for n in (1,2)]", "def outer():\n    def inner():\n        return later\n    return inner\nlater = 1",
    "try: 1\nfinally: 2", "x = 1 if 1 else 2", "lambda: (yield)", "1if 1else 2" if False else "0", "print(1, end='')\n", "\n".join("v%d = %d" % (i, i) for i in range(300)) + "\nv299",
)


def outcome(codes):
    """The cell's value and the names that it sets; as text, because equal functions do not compare equal."""
    import asyncio

    names, value = {"__name__": "m"}, None
    try:
        for code in codes:
            value = eval(code, names)
            if asyncio.iscoroutine(value):
                value = asyncio.run(value)
    except Exception as error:
        value = repr(error)
    kind = value if isinstance(value, (int, str, list, tuple, dict, type(None))) else type(value).__name__
    return kind, sorted(set(names) - {"__builtins__"}), names.get("__doc__")


def attempt(compile_, source):
    try:
        return outcome(compile_(source, "<cell 1>")[0])
    except Exception as error:
        return type(error).__name__, str(error), getattr(error, "lineno", None)


class Quick(unittest.TestCase):
    def test_the_same_as_with_a_tree(self):
        for source in CELLS:
            with self.subTest(source=source):
                self.assertEqual(attempt(Compiler().compile, source), attempt(Compiler()._compile, source))

    def test_pairs_of_cells(self):
        """The code objects are the same as with a tree. A warning of the compiler comes twice at most there."""

        nothing = compile("", "f", "exec").co_code

        def code_of(codes):
            return [(c.co_code, c.co_names, c.co_varnames, code_of([v for v in c.co_consts if hasattr(v, "co_code")])) for c in codes]

        def lines(codes):
            return [line[2] for c in codes for line in c.co_lines()] if hasattr(codes[-1], "co_lines") else None

        compared = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for first in CELLS[:-1]:
                for second in CELLS[:-1]:
                    source = first + "\n" + second
                    quick = Compiler()._compile_quickly(source, "f")
                    if quick is None:
                        continue
                    codes = Compiler()._compile(source, "f")[0]
                    found, wanted = ([c for c in part[:-1] if c.co_code != nothing] + part[-1:] for part in (quick[0], codes))
                    self.assertEqual(code_of(found), code_of(wanted), source)
                    self.assertEqual(lines(found[-1:]), lines(wanted[-1:]), source)
                    compared += 1
        self.assertGreater(compared, 3000)

    def test_most_need_no_tree(self):
        for source in ("1+1", "x = 1", "x = 1\nx", "print(1)", "import os\nos.sep", "for i in range(3):\n    print(i)", "def f():\n    return 1",
                       "await f(x=1)", "x = f(1)", "if x:\n    y = 1\nz(x)", "foo(\n    1,\n    2)"):  # fmt: skip
            with self.subTest(source=source):
                self.assertIsNotNone(Compiler()._compile_quickly(source, "f"))

    def test_names(self):
        for source in CELLS:
            quick = None
            try:
                quick = Compiler()._compile_quickly(source, "f")
                tree = ast.parse(source)
            except SyntaxError:
                continue
            if quick is not None:
                with self.subTest(source=source):
                    self.assertEqual(set(quick[1]), free_names(tree) - {"__name__"})

    def test_lines_are_counted_from_the_top(self):
        code = Compiler().compile("x = 1\n\n\n1 / 0", "f")[0][1]
        try:
            eval(code, {})
        except ZeroDivisionError as error:
            self.assertEqual(error.__traceback__.tb_next.tb_lineno, 4)

    def test_a_failed_cell_sets_no_future_flag(self):
        compiler = Compiler()
        with self.assertRaises(SyntaxError):
            compiler.compile("from __future__ import annotations\n1 +", "f")
        self.assertEqual(compiler._flags, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


if __name__ == "__main__":
    unittest.main()
