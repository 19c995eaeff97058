"""What notebooks import from IPython, in images with it and without: from IPython.display import display, HTML, Image, Markdown.

Without IPython, the finder of import_hook.py, which is the last one, finds these names. With IPython, they replace its names when its modules are
imported: without its shell those print the repr() of what they should show.
"""

import importlib
import os


def _is_address(text):
    return isinstance(text, str) and text.startswith(("http://", "https://"))


class DisplayObject:
    """data: str or bytes; or the file of a name."""

    _mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **options):
        if isinstance(data, (str, os.PathLike)) and filename is None and _is_file(data):
            data, filename = None, data
        if url is not None and filename is None and not _is_address(url) and _is_file(url):
            filename = url
        if _is_address(data) or (data is None and url is not None and filename is None):
            raise ValueError("a url cannot be shown here: this sandbox has no network")
        self.data = data
        self.filename = filename
        self.metadata = metadata
        self.reload()
        self._take(options)

    def reload(self):
        if self.filename is not None:
            with open(self.filename, "rb") as file:
                self.data = file.read()

    def _take(self, options):
        pass

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = self.data
        if isinstance(data, (bytes, bytearray)) and self._mime.startswith(("text/", "image/svg", "application/")):
            data = bytes(data).decode("utf-8", "replace")
        return {self._mime: data}


def _is_file(name):
    try:
        return len(os.fspath(name)) < 256 and os.path.isfile(name)
    except (TypeError, ValueError):
        return False


class TextDisplayObject(DisplayObject):
    pass


class HTML(TextDisplayObject):
    _mime = "text/html"

    def _repr_html_(self):
        return self._repr_mimebundle_()[self._mime]

    __html__ = _repr_html_


class Markdown(TextDisplayObject):
    _mime = "text/markdown"


class Latex(TextDisplayObject):
    _mime = "text/markdown"


class Math(Latex):
    def _take(self, options):
        self.data = "$$%s$$" % str(self.data).strip("$")


class Pretty(TextDisplayObject):
    pass


class Code(TextDisplayObject):
    pass


class SVG(DisplayObject):
    _mime = "image/svg+xml"


class JSON(DisplayObject):
    _mime = "application/json"


class GeoJSON(JSON):
    pass


class Javascript(TextDisplayObject):
    _mime = "application/javascript"


class _Medium(DisplayObject):
    """data: bytes, or the name of a file."""

    def _take(self, options):
        from cloister.display import sniff
        from cloister.files import mime_type_of

        if not isinstance(self.data, (bytes, bytearray)):
            raise TypeError("%s() takes the bytes of a file, or the name of one that exists" % type(self).__name__)
        named = mime_type_of(str(self.filename)) if self.filename else ""
        kind = type(self).__name__.lower() + "/"
        self._mime = sniff(self.data) or options.get("mimetype") or (named if named.startswith(kind) else self._mime)


class Image(_Medium):
    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, **options):
        if isinstance(data, str) and filename is None and not _is_address(data):
            data, filename = None, data
        self._mime = "image/%s" % (format or "png")
        super().__init__(data, url, filename, **options)


class Video(_Medium):
    _mime = "video/mp4"

    def __init__(self, data=None, url=None, filename=None, embed=False, mimetype=None, **options):
        super().__init__(data, url, filename, mimetype=mimetype, **options)


class Audio(_Medium):
    """data: bytes, the name of a file, or numbers with their rate."""

    _mime = "audio/wav"

    def __init__(self, data=None, filename=None, url=None, embed=None, rate=None, autoplay=False, normalize=True, **options):
        if data is not None and not isinstance(data, (str, bytes, bytearray, os.PathLike)):
            if rate is None:
                raise ValueError("rate must be specified when data is a numpy array or list of audio samples.")
            data = _wave(data, rate, normalize)
        super().__init__(data, url, filename, **options)


def _wave(data, rate, normalize):
    """A WAV file of numbers, or of a list of numbers for each channel."""
    import io
    import wave
    from array import array

    rows = data.tolist() if hasattr(data, "tolist") else list(data)
    channels = rows if rows and isinstance(rows[0], (list, tuple)) else [rows]
    largest = max((abs(value) for row in channels for value in row), default=0)
    scale = (largest if normalize else 1) or 1
    if largest > scale:
        raise ValueError("Audio data must be between -1 and 1 when normalize=False.")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(len(channels))
        out.setsampwidth(2)
        out.setframerate(int(rate))
        out.writeframes(array("h", (int(value / scale * 32767) for frame in zip(*channels) for value in frame)).tobytes())
    return file.getvalue()


class IFrame(HTML):
    """Shows a page of a file."""

    def __init__(self, src, width=None, height=None, extras=None, **options):
        if not _is_file(src):
            raise ValueError("an address cannot be shown here: this sandbox has no network; IFrame() shows a file of the session")
        self.src, self.width, self.height = src, width, height
        super().__init__(filename=src)


def _needs_network(name):
    def refuse(self, *arguments, **options):
        raise ValueError("%s() cannot be shown here: this sandbox has no network" % name)

    return type(name, (HTML,), {"__init__": refuse, "__module__": __name__})


YouTubeVideo, VimeoVideo, ScribdDocument = map(_needs_network, ("YouTubeVideo", "VimeoVideo", "ScribdDocument"))


class FileLink(DisplayObject):
    """For a file below /workspace/out, which is part of the result anyway."""

    def __init__(self, path, *rest, **options):
        super().__init__()
        self.path = self.data = str(path)


class FileLinks(FileLink):
    def _take(self, options):
        pass

    def _repr_mimebundle_(self, include=None, exclude=None):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names]
        return {"text/plain": "\n".join(sorted(found)[:100]) or "no files in %s" % self.path}


class ProgressBar:
    """Iterates over range(total), and shows how far that is: one display."""

    def __init__(self, total):
        self.total = total
        self._progress = 0
        self._handle = None

    def __repr__(self):
        done = int(self._progress / self.total * 60) if self.total else 60
        return "[%-60s] %d/%d" % ("=" * done, self._progress, self.total)

    def display(self):
        self._handle = display(self, display_id=True)

    def update(self):
        if self._handle is None:
            self.display()
        else:
            self._handle.update(self)

    @property
    def progress(self):
        return self._progress

    @progress.setter
    def progress(self, value):
        self._progress = value
        self.update()

    def __iter__(self):
        self.display()
        self._progress = -1
        return self

    def __next__(self):
        self.progress += 1
        if self.progress < self.total:
            return self.progress
        raise StopIteration


class DisplayHandle:
    """One display: update() replaces it, also from a later cell."""

    def __init__(self, display_id=None):
        self.display_id = display_id if isinstance(display_id, str) else os.urandom(8).hex()

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, value, **options):
        display(value, display_id=self.display_id, **options)

    update = display


class Raw:
    """A bundle: {MIME type: data}."""

    def __init__(self, bundle):
        self._bundle = bundle

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self._bundle


def display(*objects, **options):
    import cloister

    return cloister.display(*objects, **options)


def update_display(value, *, display_id=None, **options):
    display(value, display_id=display_id or True, **options)


def publish_display_data(data, metadata=None, *, transient=None, **options):
    display(data, raw=True, display_id=(transient or {}).get("display_id"))


def clear_output(wait=False):
    """Drops what the cell has shown so far; with wait, when the next output comes."""
    import sys

    import cloister

    # A widget clears only its own area. Here all widgets print into the cell.
    if not sys._getframe(1).f_globals.get("__name__", "").startswith("ipywidgets."):
        cloister.clear_output(wait)


def get_ipython():
    import cloister

    return cloister.shell


def set_matplotlib_formats(*formats, **options):
    """Figures are PNG."""


set_matplotlib_close = set_matplotlib_formats


def _only(name, mime, method):
    def show(*objects, raw=False, **options):
        for value in objects:
            ask = None if raw else getattr(value, method, None)
            display({mime: ask() if ask else value} if raw or ask else value, raw=bool(raw or ask))

    show.__name__ = name
    return show


_KINDS = {
    "html": "text/html", "markdown": "text/markdown", "svg": "image/svg+xml", "png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp",
    "latex": "text/markdown", "json": "application/json", "javascript": "application/javascript", "pdf": "application/pdf",
    "pretty": "text/plain",
}
_FUNCTIONS = (DisplayHandle, clear_output, display, update_display, publish_display_data)
_DISPLAY = (
    *_FUNCTIONS, Audio, Code, DisplayObject, FileLink, FileLinks, GeoJSON, HTML, IFrame, Image, JSON, Javascript, Latex, Markdown, Math,
    Pretty, ProgressBar, SVG, ScribdDocument, TextDisplayObject, Video, VimeoVideo, YouTubeVideo, set_matplotlib_close,
    set_matplotlib_formats,
    *(_only("display_" + kind, mime, "_repr_%s_" % kind) for kind, mime in _KINDS.items()),
)


class InteractiveShell:
    """Has the settings of IPython's, which change nothing here."""

    ast_node_interactivity = "last_expr"

    @staticmethod
    def initialized():
        return True

    instance = staticmethod(get_ipython)


# By the name of the module. All that is new in one is added; of those that IPython has, only these names are replaced.
_NAMES = {
    "IPython.display": _DISPLAY,
    # Its other classes are bases of IPython's own.
    "IPython.core.display": tuple(one for one in _DISPLAY if one not in (DisplayObject, TextDisplayObject)),
    "IPython.core.display_functions": _FUNCTIONS,
    "IPython.core.getipython": (get_ipython,),
    "IPython": (get_ipython,),
}


def replace(module):
    """In a module of an IPython that is installed."""
    for one in _NAMES[module.__name__]:
        if module.__name__ in ("IPython.display", "IPython.core.display") or hasattr(module, one.__name__):
            setattr(module, one.__name__, one)


def fill(module):
    """Adds to an empty module what IPython's of its name has."""
    module._of_cloister = True
    name = module.__name__
    vars(module).update((one.__name__, one) for one in _NAMES.get(name, ()))
    if name == "IPython":
        module.__version__, module.version_info = "9.0.0", (9, 0, 0, "")
        module.InteractiveShell = InteractiveShell
        module.display = importlib.import_module("IPython.display")
    elif name == "IPython.core.display":
        module.DisplayObject, module.TextDisplayObject = DisplayObject, TextDisplayObject
    elif name == "IPython.core.interactiveshell":
        module.InteractiveShell = InteractiveShell
    elif name == "IPython.core.pylabtools":
        module.backend2gui = {}


def patch_tqdm(module):
    """tqdm.notebook's bars are widgets, which no client shows: they are the ones of text."""
    import tqdm

    class tqdm_notebook(tqdm.tqdm):
        def __init__(self, *arguments, **options):
            options.pop("display", None)
            super().__init__(*arguments, **options)

    module.tqdm = module.tqdm_notebook = tqdm_notebook
    module.trange = module.tnrange = lambda *arguments, **options: tqdm_notebook(range(*arguments), **options)
