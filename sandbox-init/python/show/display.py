"""display(): shows images and other values beside the output of a cell.

Images, audio, HTML and SVG are sent to the broker. Text, Markdown and JSON are printed, so that their order among the
rest of the output is kept.
"""

import sys
from binascii import b2a_base64
from contextvars import ContextVar
from io import BytesIO
from os import fspath
from os.path import isfile

from cloister import stdio
from cloister.digits import exact_repr
from cloister.figures import Figures
from cloister.files import mime_type_of
from cloister.frames import DISPLAY, QUERY
from cloister.interrupts import calls_guest
from cloister.json_codec import encode_own, printable
from cloister.resources import MAX_BYTES
from cloister.results import Blob
from cloister.tables import is_table, text_of

LARGEST = 5 * 1024 * 1024 // 4 * 3  # bytes of an image: 5 MiB as base64, the limit of the largest model providers
MAX_HELD = 32  # displays of background tasks and threads that are held until the next cell
PRINTED = ("text/plain", "text/markdown", "application/json")

# In the order of preference for a model.
_BUNDLE = (
    "image/png image/jpeg image/webp image/gif image/svg+xml audio/wav audio/mpeg audio/ogg text/markdown text/html"
    " application/json text/plain"
).split()
_METHODS = (
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_html_", "text/html"),
    ("_repr_json_", "application/json"),
)
_RICH = ("_repr_mimebundle_", "_ipython_display_", *(method for method, _ in _METHODS))
_DRAWN = ("matplotlib", "PIL", "plotly")
_TYPES, _IN_TYPES = ("text", "image", "audio", "video", "application"), "abcdefghijklmnopqrstuvwxyz0123456789.+-"
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


_NO_WIDGET = "application/vnd.jupyter.widget-view+json"
_current_id = ContextVar("display_id", default=None)  # [the id of the display, the number of its next frame]


@calls_guest
def _call(function, *arguments, **named):
    return function(*arguments, **named)


def _is_bytes(value):
    return isinstance(value, (bytes, bytearray, memoryview))


def sniff(data):
    for start, mime in _SIGNATURES:
        if data.startswith(start):
            return mime
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    return None


def _normal(mime):
    """Reduces a MIME type to type/subtype, the only form that the broker accepts."""
    mime = str(mime).partition(";")[0].strip().lower()
    kind, slash, subtype = mime.partition("/")
    fine = kind and subtype and len(mime) < 128 and all(c.isalnum() or c in "!#$&^_.+-" for c in kind + subtype)
    if not fine or not mime.isascii():
        raise ValueError("%r is no MIME type, such as image/png" % mime)
    return mime


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _module_of(value):
    return type(value).__module__.partition(".")[0]


def _has_type(value, mime):
    """Whether display(value, mime) names the type of the value, and not two values."""
    if not isinstance(mime, str):
        return False
    kind, _, name = mime.partition("/")
    return _is_bytes(value) or isinstance(value, str) and kind in _TYPES and name != "" and not name.strip(_IN_TYPES)


def _is_plotly(value):
    return _module_of(value) == "plotly" and hasattr(type(value), "to_plotly_json") and hasattr(type(value), "to_html")


def _is_rich(value):
    kind = type(value)
    if isinstance(value, type):
        return False
    if isinstance(value, Blob):
        return (value.mime_type or "").startswith(("image/", "audio/"))
    if is_table(value) or any(callable(getattr(kind, method, None)) for method in _RICH):
        return True
    return _module_of(value) in _DRAWN and (hasattr(kind, "savefig") or _is_plotly(value) or _is_picture(value))


def _is_picture(value):
    return _module_of(value) == "PIL" and hasattr(type(value), "save")


class Displays:
    """channel: the worker's Channel; files: cloister.files.Files, which stores images that are too large to show."""

    def __init__(self, channel, files, interrupts):
        self._channel = channel
        self._files = files
        self._interrupts = interrupts
        self._cell = None  # the number of the running cell
        self._held = []  # (id or None, payload)
        self._numbers = {}  # (id of a display, number of its frame) -> its number in frames
        self.muted = False  # nothing is shown
        self.figures = Figures(self._show_figure, self.show_plotly)

    def begin(self, number):
        self._cell = number
        if self._held:
            held, self._held = self._held, []
            for held in held:
                self._send(*held)

    def end(self):
        stdio.nothing_waits()
        self._cell = None

    def clear_output(self, wait=False):
        """Drops what the cell has shown so far; with wait, when the next output comes."""
        for stream in sys.stdout, sys.stderr:
            stream.flush()
        if wait:
            stdio.before_output(self._clear)
        else:
            self._clear()

    def _clear(self):
        self._held.clear()
        if self._cell is None:
            return
        try:
            self._channel.call(QUERY, b'{"what":"clear"}')
        except RuntimeError:
            pass  # in a child of the worker

    def display(self, *objects, mime=None, display_id=None, raw=False, clear=False, include=None, exclude=None, metadata=None,
                transient=None):
        """Shows images, audio, figures, files and HTML to the reader of the result; prints anything else.

        display(figure), display(image), display(pathlib.Path("out/plot.png")), display(data, "image/png"). With an id, or True, it
        returns a handle whose update() replaces the display.
        """
        if clear:
            self.clear_output(wait=True)
        if len(objects) == 2 and mime is None and _has_type(*objects):
            objects, mime = objects[:1], objects[1]
        if raw:
            from cloister.ipython import Raw

            objects = [Raw(value) if isinstance(value, dict) else value for value in objects]
        handle = None
        if display_id is not None and display_id is not False:
            from cloister.ipython import DisplayHandle

            handle = DisplayHandle(display_id)
            before = _current_id.set([handle.display_id, 0])
        try:
            for value in objects:
                self._show_one(value, mime)
        finally:
            if handle is not None:
                _current_id.reset(before)
        self._interrupts.checkpoint()
        return handle

    def _show_one(self, value, mime=None):
        if mime is None and _is_plotly(value):
            self.show_plotly(value)
        elif mime is None and not isinstance(value, type) and callable(getattr(type(value), "_ipython_display_", None)):
            _call(value._ipython_display_)
        else:
            self._show(*self._choose(value, mime))

    def value(self, value):
        """Shows the value of a cell's last expression as a notebook does. Returns the text that stands for its repr(), or
        None."""
        kind = type(value)
        if kind.__module__ == "builtins" or not _is_rich(value):
            return None
        if _is_plotly(value) or hasattr(kind, "_ipython_display_"):
            self._show_one(value)
            return None
        mime, data = self._choose(value, None)
        if isinstance(data, str) and mime in PRINTED:
            return data
        # A value with its own repr() is read as that; its HTML is for people.
        self._show(mime, data, mime == "text/html" and kind.__repr__ is not object.__repr__)
        return None

    def _choose(self, value, mime):
        """(MIME type, bytes or str)"""
        if _is_bytes(value):
            return self._choose_bytes(bytes(value), mime)
        if isinstance(value, str):
            return self._choose_text(value, mime)
        if isinstance(value, Blob):
            text = getattr(value, "text", None)
            if isinstance(text, str):
                return _normal(mime or value.mime_type or "text/plain"), text
            return self._choose_bytes(value.data, mime or value.mime_type)
        if hasattr(type(value), "__fspath__"):
            return self._choose_file(fspath(value), mime)
        if isinstance(value, type):
            return "text/plain", _call(exact_repr, value)
        if is_table(value):
            text = self._table(value)
            if text is not None:
                return "text/markdown", text
        if _module_of(value) == "matplotlib" and hasattr(value, "savefig"):
            self.figures.seen(value)
            return "image/png", self._draw(value)
        return self._choose_rich(value)

    def _choose_bytes(self, data, mime):
        mime = mime or sniff(data)
        if mime is None:
            raise TypeError('bytes need a type: display(data, "image/png")')
        return _normal(mime), data

    def _choose_text(self, text, mime):
        if mime is None and len(text) < 256 and "\n" not in text and "\0" not in text:
            kind = mime_type_of(text)
            if kind.startswith(("image/", "audio/")) and isfile(text):
                return self._choose_file(text, kind)
        return _normal(mime or "text/plain"), text

    def _choose_file(self, path, mime):
        data = _read(path)
        mime = _normal(mime or mime_type_of(str(path)))
        if mime.startswith("text/") or mime in ("image/svg+xml", "application/json"):
            return mime, data.decode("utf-8", "replace")
        return mime, data

    def _choose_rich(self, value):
        bundle = self._ask(value, "_repr_mimebundle_")
        if isinstance(bundle, tuple) and bundle:
            bundle = bundle[0]
        if isinstance(bundle, dict):
            data_types = [mime for mime in bundle if isinstance(mime, str) and mime.endswith("+json") and mime != _NO_WIDGET]
            for mime in (*_BUNDLE[:-1], *data_types, _BUNDLE[-1]):
                if bundle.get(mime) is not None:
                    return self._from_bundle(mime, bundle[mime])
        for method, mime in _METHODS:
            data = self._ask(value, method)
            if isinstance(data, tuple) and data:
                data = data[0]
            if data is not None:
                return self._from_bundle(mime, data)
        if _module_of(value) == "PIL" and hasattr(value, "save"):
            return "image/png", self._convert(value)
        return "text/plain", _call(exact_repr, value)

    def _from_bundle(self, mime, data):
        if mime.endswith(("/json", "+json")):
            return mime, data if isinstance(data, str) else self._json(data)
        if isinstance(data, str) and mime.startswith(("image/", "audio/")) and mime != "image/svg+xml":
            from binascii import a2b_base64

            return mime, a2b_base64(data)
        return mime, bytes(data) if _is_bytes(data) else str(data)

    @staticmethod
    def _json(value):
        try:
            return encode_own(value).decode()
        except (TypeError, ValueError, RecursionError):
            return _call(exact_repr, value)

    @staticmethod
    def _ask(value, method):
        function = getattr(type(value), method, None)
        if not callable(function):
            return None
        try:
            return _call(getattr(value, method))
        except Exception:
            return None  # for instance because an optional library is missing: the next representation is tried

    @staticmethod
    def _convert(image):
        """Converts a PIL image whose mode PNG does not support."""
        buffer = BytesIO()
        _call(lambda: image.convert("RGB").save(buffer, "PNG"))
        return buffer.getvalue()

    @staticmethod
    def _draw(figure):
        buffer = BytesIO()
        _call(figure.savefig, buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()

    @staticmethod
    def _table(value):
        try:
            return _call(text_of, value)
        except Exception:  # another version of the library
            return None if type(value).__name__ == "Styler" else _call(exact_repr, value)

    def show_plotly(self, figure):
        """A picture if kaleido can make one, else the figure's JSON; and a page for people."""
        picture = self._plotly_picture(figure)
        if picture is not None:
            self._show("image/png", picture)
        else:
            self._show("application/vnd.plotly.v1+json", _call(figure.to_json))
        self._show("text/html", _call(figure.to_html, include_plotlyjs="cdn"), True)

    @staticmethod
    def _plotly_picture(figure):
        try:
            import kaleido  # noqa: F401

            return _call(figure.to_image, format="png")
        except Exception:
            return None  # it is not there, or finds no browser

    def _show_figure(self, figure):
        self._show("image/png", self._draw(figure))

    def _show(self, mime, data, link=False):
        """link: for people, not part of what the model reads."""
        if self.muted:
            return
        stdio.output_comes()
        number = self._number()
        if isinstance(data, str) and mime in PRINTED and number is not None:
            mime = "text/plain" if mime == "application/json" else mime
        elif isinstance(data, str) and mime in PRINTED:
            _call(sys.stdout.write, data if data.endswith("\n") else data + "\n")
            return
        if not isinstance(data, str) and len(data) > LARGEST:
            self._keep(mime, data)
            return
        if isinstance(data, str):
            described = {"mime": mime, "text": printable(data), **({"link": True} if link else {})}
            payload = encode_own({**described, "id": number} if number is not None else described)
        else:
            end = b"" if number is None else b',"id":%d' % number
            payload = b'{"mime":"%b","data":"%b"%b}' % (mime.encode(), b2a_base64(data, newline=False), end)
        if len(payload) > MAX_BYTES:
            self._keep(mime, data.encode("utf-8", "replace") if isinstance(data, str) else data)
            return
        self._send(number, payload)

    def _number(self):
        """Of the next frame of a display with an id; None for any other display."""
        current = _current_id.get()
        if current is None:
            return None
        key = tuple(current)
        current[1] += 1
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    def _keep(self, mime, data):
        """Writes what is too large to show to a file."""
        path = self._files.keep(mime, data)
        outcome = "kept as %s" % path if path else "and it could not be kept: no room in /workspace/out"
        _call(sys.stdout.write, "[%s of %.1f MiB: too large to show, %s]\n" % (mime, len(data) / 1048576, outcome))

    def _send(self, number, payload):
        if self._cell is None:
            # From a background task or thread: sent with the next cell.
            self._held = [held for held in self._held if number is None or held[0] != number]
            if len(self._held) < MAX_HELD:
                self._held.append((number, payload))
            return
        try:
            self._channel.send(DISPLAY, self._cell, payload)
        except RuntimeError:
            pass  # in a child of the worker
