"""What notebooks import from IPython, for images without it: from IPython.display import display, HTML, Image, Markdown.

If IPython is installed, it is imported instead: the finder (import_hook.py) is the last one.
"""


class DisplayObject:
    """data: str or bytes; or the file of a name."""

    _mime = "text/plain"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **options):
        if data is None and url is not None and filename is None:
            raise ValueError("a url cannot be shown here: this sandbox has no network")
        self.data = data
        self.filename = filename
        self.metadata = metadata
        if filename is not None:
            with open(filename, "rb") as file:
                self.data = file.read()
        self._take(options)

    def _take(self, options):
        pass

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = self.data
        if isinstance(data, (bytes, bytearray)) and self._mime.startswith(("text/", "image/svg", "application/")):
            data = bytes(data).decode("utf-8", "replace")
        return {self._mime: data}


class HTML(DisplayObject):
    _mime = "text/html"

    def _repr_html_(self):
        return self.data

    __html__ = _repr_html_


class Markdown(DisplayObject):
    _mime = "text/markdown"


class Latex(DisplayObject):
    _mime = "text/markdown"


class Math(Latex):
    def _take(self, options):
        self.data = "$$%s$$" % str(self.data).strip("$")


class Pretty(DisplayObject):
    pass


class Code(DisplayObject):
    pass


class SVG(DisplayObject):
    _mime = "image/svg+xml"


class JSON(DisplayObject):
    _mime = "application/json"


class Javascript(DisplayObject):
    _mime = "application/javascript"


class Image(DisplayObject):
    """data: bytes, or the name of a file."""

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, **options):
        if isinstance(data, str) and filename is None:
            data, filename = None, data
        super().__init__(data, url, filename, **options)
        if not isinstance(self.data, (bytes, bytearray)):
            raise TypeError("Image() takes the bytes of an image, or the name of a file")
        from cloister.display import sniff

        self._mime = sniff(self.data) or "image/%s" % (format or "png")


class Audio(DisplayObject):
    _mime = "audio/wav"

    def __init__(self, data=None, filename=None, url=None, embed=None, rate=None, **options):
        if isinstance(data, str) and filename is None:
            data, filename = None, data
        super().__init__(data, url, filename, **options)
        if not isinstance(self.data, (bytes, bytearray)):
            raise TypeError("Audio() takes the bytes of a file, or its name: scipy.io.wavfile or wave writes arrays to one")


class FileLink(DisplayObject):
    """For a file below /workspace/out, which is part of the result anyway."""

    def __init__(self, path, *rest, **options):
        super().__init__(str(path))


class DisplayHandle:
    def __init__(self, display_id=None):
        self.display_id = display_id or "display"

    def display(self, value, **options):
        display(value)

    update = display


def display(*objects, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False,
            **options):
    import cloister

    cloister.display(*(_Raw(value) if raw and isinstance(value, dict) else value for value in objects))
    return DisplayHandle(display_id if isinstance(display_id, str) else None) if display_id else None


class _Raw:
    def __init__(self, bundle):
        self._bundle = bundle

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self._bundle


def update_display(value, *, display_id=None, **options):
    display(value)


def clear_output(wait=False):
    """Output that was printed cannot be taken back."""


def get_ipython():
    """None, as outside of IPython."""


_DISPLAY = (
    Audio, Code, DisplayHandle, DisplayObject, FileLink, HTML, Image, JSON, Javascript, Latex, Markdown, Math, Pretty, SVG,
    clear_output, display, update_display,
)


def fill(module):
    """Adds to an empty module what IPython's of its name has."""
    module._of_cloister = True
    if module.__name__.endswith(".display"):
        vars(module).update((one.__name__, one) for one in _DISPLAY)
    elif module.__name__ == "IPython":
        module.__version__, module.version_info = "8.0.0", (8, 0, 0, "")
        module.get_ipython, module.display = get_ipython, display
