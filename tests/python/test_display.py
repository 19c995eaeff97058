"""display(), with a channel that records the frames; the integration tests use real libraries."""

import base64
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from guest import Core

from cloister import display as display_module
from cloister.channel import Channel
from cloister.display import Displays
from cloister.files import Files
from cloister.frames import DISPLAY
from cloister.interrupts import Interrupts
from cloister.results import File, Image

PNG = b"\x89PNG\r\n\x1a\n..."


def rich(**methods):
    return type("Rich", (), {name: (lambda value: lambda self, *rest: value)(value) for name, value in methods.items()})()


class DisplayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.core = Core()
        self.addCleanup(self.core.close)
        interrupts = Interrupts(self.core)
        self.displays = Displays(Channel(self.core, interrupts), Files(self.core, self.root), interrupts)
        self.displays.begin(3)

    def show(self, *objects, **options):
        """(frames, printed text)"""
        del self.core.sent[:]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.displays.display(*objects, **options)
        return [payload for kind, number, payload in self.core.sent if (kind, number) == (DISPLAY, 3)], printed.getvalue()

    def image(self, data=PNG, mime="image/png"):
        return {"mime": mime, "data": base64.b64encode(data).decode()}


class Display(DisplayTest):
    def test_bytes(self):
        self.assertEqual(self.show(PNG), ([self.image()], ""))
        self.assertEqual(self.show(b"abc", "image/webp"), ([self.image(b"abc", "image/webp")], ""))
        self.assertEqual(self.show(bytearray(b"abc"), mime="Image/PNG; q=1"), ([self.image(b"abc")], ""))
        self.assertEqual(self.show(b"\xff\xd8\xff")[0][0]["mime"], "image/jpeg")
        self.assertEqual(self.show(b"RIFF....WAVE")[0][0]["mime"], "audio/wav")
        with self.assertRaisesRegex(TypeError, "bytes need a type"):
            self.show(b"abc")
        with self.assertRaisesRegex(ValueError, "no MIME type"):
            self.show(b"abc", "png")

    def test_text_is_printed_in_its_place(self):
        self.assertEqual(self.show("plain", 12, {"a": 1}), ([], "plain\n12\n{'a': 1}\n"))
        self.assertEqual(self.show("# title", mime="text/markdown"), ([], "# title\n"))
        self.assertEqual(self.show("<b>", mime="text/html"), ([{"mime": "text/html", "text": "<b>"}], ""))
        self.assertEqual(self.show("<b>", "text/html"), ([{"mime": "text/html", "text": "<b>"}], ""))
        for second in "b", "a/b", "text/ html", "text/html; and more":
            self.assertEqual(self.show("a", second), ([], "a\n%s\n" % second))
        self.assertEqual(self.show("a", "text/html", "b"), ([], "a\ntext/html\nb\n"))

    def test_results_of_tools(self):
        self.assertEqual(self.show(Image(PNG, "image/png")), ([self.image()], ""))
        file = File(b"text", "text/plain")
        file.text = "text"
        self.assertEqual(self.show(file), ([], "text\n"))

    def test_paths(self):
        path = pathlib.Path(self.root, "plot.png")
        path.write_bytes(PNG)
        self.assertEqual(self.show(path), ([self.image()], ""))
        self.assertEqual(self.show(str(path)), ([self.image()], ""))
        self.assertEqual(self.show("no such plot.png"), ([], "no such plot.png\n"))
        svg = pathlib.Path(self.root, "a.svg")
        svg.write_text("<svg/>")
        self.assertEqual(self.show(svg), ([{"mime": "image/svg+xml", "text": "<svg/>"}], ""))
        with self.assertRaises(FileNotFoundError):
            self.show(pathlib.Path(self.root, "none.png"))

    def test_rich_objects(self):
        self.assertEqual(self.show(rich(_repr_png_=PNG, _repr_html_="<b>")), ([self.image()], ""))
        self.assertEqual(self.show(rich(_repr_png_=None, _repr_html_="<b>")), ([{"mime": "text/html", "text": "<b>"}], ""))
        self.assertEqual(self.show(rich(_repr_svg_="<svg/>"))[0], [{"mime": "image/svg+xml", "text": "<svg/>"}])
        self.assertEqual(self.show(rich(_repr_markdown_="*x*")), ([], "*x*\n"))
        self.assertEqual(self.show(rich(_repr_json_={"a": [1]})), ([], '{"a":[1]}\n'))
        bundle = {"text/plain": "x", "image/png": base64.b64encode(PNG).decode()}
        self.assertEqual(self.show(rich(_repr_mimebundle_=(bundle, {}))), ([self.image()], ""))
        self.assertEqual(self.show(rich(_repr_mimebundle_={"text/plain": "x"})), ([], "x\n"))

    def test_a_representation_that_raises_is_skipped(self):
        class Broken:
            def _repr_png_(self):
                raise ImportError("no library")

            def __repr__(self):
                return "broken"

        self.assertEqual(self.show(Broken()), ([], "broken\n"))
        self.assertIn("Broken'>", self.show(Broken)[1])

    def test_pandas_is_text(self):
        table = rich(_repr_html_="<table>")
        type(table).__name__ = "DataFrame"
        type(table).__module__ = "pandas.core.frame"
        type(table).__repr__ = lambda self: "a b"
        self.assertEqual(self.show(table), ([], "a b\n"))  # of no version that is known
        type(table).__name__ = "Styler"
        self.assertEqual(self.show(table)[0], [{"mime": "text/html", "text": "<table>"}])

    def test_values(self):
        """The last expression is displayed as in a notebook; returns the text that replaces its repr()."""

        def value(value):
            del self.core.sent[:]
            text = self.displays.value(value)
            return text, [payload for _, _, payload in self.core.sent]

        self.assertEqual(value(rich(_repr_png_=PNG)), (None, [self.image()]))
        self.assertEqual(value(rich(_repr_markdown_="*x*")), ("*x*", []))
        self.assertEqual(value(rich(_repr_html_="<b>")), (None, [{"mime": "text/html", "text": "<b>"}]))
        own = rich(_repr_html_="<b>")
        type(own).__repr__ = lambda self: "own"
        self.assertEqual(value(own), (None, [{"mime": "text/html", "text": "<b>", "link": True}]))
        vega = {"application/vnd.vegalite.v5+json": {"a": 1}, "text/plain": "x"}
        self.assertEqual(value(rich(_repr_mimebundle_=vega))[1], [{"mime": "application/vnd.vegalite.v5+json", "text": '{"a":1}'}])
        shown = []
        self.assertEqual(value(type("X", (), {"_ipython_display_": lambda self: shown.append(self)})()), (None, []))
        self.assertEqual(len(shown), 1)
        self.assertEqual(value(Image(PNG, "image/png")), (None, [self.image()]))
        for plain in 1, "text", PNG, [rich(_repr_html_="<b>")], object(), rich, type(own), File(b"x", "text/plain"):
            self.assertEqual(value(plain), (None, []), plain)

    def test_plotly(self):
        figure = rich(to_plotly_json={}, to_json='{"data":[]}', to_html="<p>")
        type(figure).to_html = lambda self, **options: "<p>"
        type(figure).__module__ = "plotly.graph_objs"
        page = {"mime": "text/html", "text": "<p>", "link": True}
        self.assertEqual(self.show(figure)[0], [{"mime": "application/vnd.plotly.v1+json", "text": '{"data":[]}'}, page])
        with mock.patch.dict("sys.modules", kaleido=object()):
            type(figure).to_image = lambda self, format: PNG
            self.assertEqual(self.show(figure)[0], [self.image(), page])

    def test_lone_surrogates(self):
        self.assertEqual(self.show("\ud800", mime="text/html")[0], [{"mime": "text/html", "text": "\\ud800"}])

    def test_too_large_is_saved_as_a_file(self):
        self.addCleanup(setattr, display_module, "LARGEST", display_module.LARGEST)
        display_module.LARGEST = 10
        os.mkdir(os.path.join(self.root, "out"))
        frames, printed = self.show(PNG)
        self.assertEqual(frames, [])
        self.assertIn("too large to show, kept as %s/out/large-1.png" % self.root, printed)
        self.assertEqual(pathlib.Path(self.root, "out", "large-1.png").read_bytes(), PNG)
        self.assertIn("large-2.png", self.show(PNG)[1])

    def test_between_cells(self):
        self.displays.end()
        for _ in range(display_module.MAX_HELD + 1):
            self.assertEqual(self.show(PNG), ([], ""))
        self.displays.begin(4)
        self.assertEqual([sent[:2] for sent in self.core.sent], [(DISPLAY, 4)] * display_module.MAX_HELD)


if __name__ == "__main__":
    unittest.main()
