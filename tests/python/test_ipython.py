"""The stand-in for IPython, and tables, with frames that are made here; the integration tests use real libraries."""

import importlib
import importlib.machinery
import sys
import unittest
from unittest import mock

import guest  # noqa: F401

import cloister
from cloister import ipython, tables  # noqa: F401
from cloister.import_hook import IPythonFinder


class StandIn(unittest.TestCase):
    def setUp(self):
        # Nothing that is installed is found.
        import cloister.display  # noqa: F401

        patch = mock.patch.object(sys, "meta_path", [])
        patch.start()
        self.addCleanup(patch.stop)
        for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
            del sys.modules[name]
        self.shown = []
        patch = mock.patch.object(cloister, "display", lambda *values: self.shown.extend(values), create=True)
        patch.start()
        self.addCleanup(patch.stop)
        IPythonFinder().install()

    def tearDown(self):
        for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
            del sys.modules[name]

    def test_what_notebooks_import(self):
        from IPython import get_ipython
        from IPython.display import HTML, Image, Markdown, clear_output, display

        self.assertIsNone(get_ipython())
        clear_output(wait=True)
        self.assertIsNone(display(1, HTML("<b>")))
        display({"text/plain": "x"}, raw=True).__class__
        self.assertEqual(self.shown[0], 1)
        self.assertEqual(self.shown[1]._repr_mimebundle_(), {"text/html": "<b>"})
        self.assertEqual(self.shown[2]._repr_mimebundle_(), {"text/plain": "x"})
        self.assertEqual(Markdown("*x*")._repr_mimebundle_(), {"text/markdown": "*x*"})
        self.assertEqual(Image(b"\xff\xd8\xff")._repr_mimebundle_(), {"image/jpeg": b"\xff\xd8\xff"})
        display("x", display_id=True).update("y")
        self.assertEqual(self.shown[-1], "y")
        with self.assertRaisesRegex(ValueError, "no network"):
            Image(url="https://example.com/a.png")
        with self.assertRaises(ImportError):
            importlib.import_module("IPython.extensions")

    def test_the_installed_one_comes_first(self):
        class Other:
            def find_spec(self, name, path=None, target=None):
                return importlib.machinery.ModuleSpec(name, self, is_package=True) if name == "IPython" else None

            def create_module(self, spec):
                return None

            def exec_module(self, module):
                module.mine = True

        with mock.patch.object(sys, "meta_path", [Other(), *sys.meta_path]):
            self.assertTrue(importlib.import_module("IPython").mine)
            with self.assertRaises(ImportError):
                importlib.import_module("IPython.display")


class Frame:
    """As much of pandas as tables.py uses."""

    ndim = 2

    def __init__(self, rows, columns):
        self.shape = rows, columns
        self.columns = ["c%d" % i for i in range(columns)]
        self.iloc = self

    def __getitem__(self, key):
        part, columns = key
        return mock.Mock(itertuples=lambda **_: (
            (i, *("%d|%d" % (i, j) if j else i / 3 for j in columns)) for i in range(self.shape[0])[part]))


class Tables(unittest.TestCase):
    def text(self, rows, columns):
        frame = type("DataFrame", (Frame,), {"__module__": "pandas.core.frame"})(rows, columns)
        self.assertTrue(tables.is_table(frame))
        return tables.text_of(frame)

    def test_small(self):
        self.assertEqual(self.text(2, 2), "DataFrame: 2 rows × 2 columns\n\n|  | c0 | c1 |\n| --- | --- | --- |\n"
                                          "| 0 | 0 | 0\\|1 |\n| 1 | 0.333333 | 1\\|1 |")
        self.assertEqual(self.text(0, 1), "DataFrame: 0 rows × 1 columns\n\n|  | c0 |\n| --- | --- |")

    def test_large(self):
        for rows, columns in ((1000, 3), (3, 500), (10**6, 10**4)):
            lines = self.text(rows, columns).split("\n")
            self.assertIn(format(rows, ",") + " rows × ", lines[0])
            self.assertLess(len("\n".join(lines)), tables.CHARACTERS + 100)
            self.assertEqual(len({line.count(" | ") for line in lines[2:]}), 1, lines)
        lines = self.text(1000, 3).split("\n")
        self.assertIn("| … | … | … | … |", lines)
        self.assertTrue(lines[-1].startswith("| 999 |"), lines[-1])

    def test_others_are_none(self):
        for value in 1, type("DataFrame", (), {})(), type("Styler", (), {"__module__": "pandas.io"})():
            self.assertFalse(tables.is_table(value))


if __name__ == "__main__":
    unittest.main()
