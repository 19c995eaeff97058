"""The stand-in for IPython, and tables, with frames that are made here; the integration tests use real libraries."""

import importlib
import importlib.machinery
import io
import struct
import sys
import unittest
import wave
from unittest import mock

import guest  # noqa: F401

import cloister
from cloister import import_hook, ipython, magics, table_sources, tables  # noqa: F401
from cloister.import_hook import NOTEBOOK, IPythonFinder, PatchFinder


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
        patch = mock.patch.object(cloister, "display", self.show, create=True)
        patch.start()
        self.addCleanup(patch.stop)
        IPythonFinder().install()

    def show(self, *values, display_id=None, raw=False, **options):
        self.shown.extend(values)
        return ipython.DisplayHandle(display_id) if display_id else None

    def tearDown(self):
        for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
            del sys.modules[name]

    def test_what_notebooks_import(self):
        from IPython import get_ipython
        from IPython.display import HTML, Image, Markdown, clear_output, display

        self.assertIs(get_ipython(), cloister.shell)
        with mock.patch.object(cloister, "clear_output", create=True) as cleared:
            clear_output(wait=True)
        cleared.assert_called_once_with(True)
        self.assertIsNone(display(1, HTML("<b>")))
        self.assertEqual(self.shown[0], 1)
        self.assertEqual(self.shown[1]._repr_mimebundle_(), {"text/html": "<b>"})
        self.assertEqual(Markdown("*x*")._repr_mimebundle_(), {"text/markdown": "*x*"})
        self.assertEqual(Image(b"\xff\xd8\xff")._repr_mimebundle_(), {"image/jpeg": b"\xff\xd8\xff"})
        display("x", display_id=True).update("y")
        self.assertEqual(self.shown[-1], "y")
        display("x", display_id="p").update("z")
        self.assertEqual(self.shown[-1], "z")

    def test_more_of_what_notebooks_import(self):
        from IPython import display as module
        from IPython.core.interactiveshell import InteractiveShell

        for refused in (lambda: module.Image(url="https://example.com/a.png"), lambda: module.IFrame("https://example.com", 1, 1),
                        lambda: module.YouTubeVideo("x"), lambda: module.Video("http://example.com/a.mp4"),
                        lambda: module.HTML("https://example.com")):
            with self.assertRaisesRegex(ValueError, "no network"):
                refused()
        for name in "display_html display_png display_markdown FileLinks ProgressBar update_display Audio".split():
            self.assertTrue(callable(getattr(module, name)), name)
        InteractiveShell.ast_node_interactivity = "all"
        self.assertIs(InteractiveShell.instance(), cloister.shell)
        data = module.Audio([0.0, 0.5, -0.5], rate=8000)._repr_mimebundle_()["audio/wav"]
        with wave.open(io.BytesIO(data)) as sound:
            self.assertEqual((sound.getframerate(), sound.getnframes()), (8000, 3))
        with self.assertRaises(ImportError):
            importlib.import_module("IPython.extensions")

    def test_names_of_the_installed_one_are_replaced(self):
        class Other:
            def find_spec(self, name, path=None, target=None):
                return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("IPython") else None

            def create_module(self, spec):
                return None

            def exec_module(self, module):
                module.display = module.HTML = module.get_ipython = None

        with mock.patch.object(sys, "meta_path", [Other()]), mock.patch.object(import_hook, "PathFinder", Other()):
            PatchFinder(NOTEBOOK).install()
            module = importlib.import_module("IPython.display")
            self.assertIs(module.display, ipython.display)
            self.assertIs(module.HTML, ipython.HTML)
            self.assertIs(sys.modules["IPython"].get_ipython, ipython.get_ipython)

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
    __module__ = "pandas.core.frame"

    def __init__(self, rows, columns, asked=(None, None, None), some=""):
        self.shape, self.asked, self.some = (rows, columns), asked, some


Frame.__name__ = "DataFrame"


class Source(table_sources.Rows):
    def __init__(self, frame):
        super().__init__(frame, ["c%d" % i for i in range(frame.shape[1])])
        self.frame, self.shape, self.some = frame, frame.shape, frame.some

    def asked(self):
        return self.frame.asked

    def column(self, i, first, last):
        return [str(n / 3) if i == 0 else "%d|%d" % (n, i) for n in range(first, last)]


@mock.patch.dict(table_sources._SOURCES, {("pandas", "DataFrame"): Source})
class Tables(unittest.TestCase):
    def text(self, *arguments):
        frame = Frame(*arguments)
        self.assertTrue(tables.is_table(frame))
        return tables.text_of(frame)

    def test_small(self):
        self.assertEqual(self.text(2, 2), "DataFrame: 2 rows × 2 columns\n\n|  | c0 | c1 |\n| --- | --- | --- |\n"
                                          "| 0 | 0.0 | 0\\|1 |\n| 1 | 0.3333333333333333 | 1\\|1 |")
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

    def test_as_code_has_set(self):
        """Its rows, columns and width, within the bounds."""
        everything = table_sources.ALL
        self.assertIn("| 99 |", self.text(100, 1, (everything, None, None)))
        self.assertNotIn("…", self.text(100, 1, (everything, None, None)))
        self.assertEqual(self.text(100, 40, (4, 3, None)).count("\n"), 8)
        for rows, columns in ((20000, 400), (10, 10**6), (10**6, 1)):
            self.assertLess(len(self.text(rows, columns, (everything,) * 3)), tables.CHARACTERS + 100)

    def test_more_rows_than_are_counted(self):
        text = self.text(10000, 1, (None, None, None), "more than ")
        self.assertTrue(text.startswith("DataFrame: more than 10,000 rows"), text)
        self.assertTrue(text.endswith("| … | … |"), text)

    def test_narrow_floats(self):
        for code, digits, texts in (("f", 9, ("0.1", "16777216.0", "3.4028235e+38", "1e-45", "inf", "-inf", "nan", "0.0", "1.0000001")),
                                    ("e", 5, ("0.1", "65500.0", "0.00011927", "6e-08", "0.3333", "inf", "nan"))):
            for text in texts:
                value = struct.unpack(code, struct.pack(code, float(text)))[0]
                self.assertEqual(table_sources._shortest(value, code, digits), text)
                self.assertEqual(repr(float(text)), text)

    def test_others_are_none(self):
        for value in 1, type("DataFrame", (), {})(), type("Styler", (), {"__module__": "mine.io"})():
            self.assertFalse(tables.is_table(value))


if __name__ == "__main__":
    unittest.main()
