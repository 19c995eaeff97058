"""Keeps the source code of cells in linecache, where tracebacks and inspect read it."""

import io
import linecache
import sys
from collections import deque

# Limits on the sources that a session keeps. After a cell that defines nothing has ended, only tracebacks of stored
# exceptions need its source; keeping the latest sources is enough for these.
MAX_PLAIN = 1_000
MAX_DEFINING = 10_000
SLACK = 100  # that many are checked and dropped at a time
MAX_CHARACTERS = 16 * 1024 * 1024
LARGE = 64 * 1024  # characters of a cell from which on the bounds are checked at once

REWRITTEN = set()  # file names of cells of which other text was compiled: its columns are not those of the source (magics.py)
_cells = {}  # file name -> source, in order of execution
_numbers = {}  # requested file name ("": any) -> the last number appended to it
_recent = deque()  # file names that were not checked against the bounds yet
_definers = set()  # those of them whose cells define something


class _Kept:
    """File names whose sources may be dropped, oldest first."""

    def __init__(self, limit):
        self._names = deque()
        self._limit = limit
        self._characters = 0

    def add(self, name):
        self._names.append(name)
        self._characters += len(_cells[name])
        if len(self._names) > self._limit or self._characters > MAX_CHARACTERS:
            self._give_up()

    def clear(self):
        self._names.clear()
        self._characters = 0

    def _give_up(self):
        while len(self._names) > self._limit - SLACK or self._characters > MAX_CHARACTERS and len(self._names) > 1:
            oldest = self._names.popleft()
            self._characters -= len(_cells[oldest])
            _forget(oldest)


_plain, _defining = _Kept(MAX_PLAIN), _Kept(MAX_DEFINING)


def _forget(name):
    del _cells[name]
    REWRITTEN.discard(name)
    try:
        linecache.cache.pop(name, None)
    except Exception:
        pass


def add(source, filename=""):
    """Keeps a cell's source under a file name that no other cell has; returns that name."""
    if len(_recent) >= SLACK or len(source) > LARGE:
        _settle()
    name = filename if filename and filename not in _cells else _new_name(filename)
    _cells[name] = source
    _recent.append(name)
    refresh(name)
    return name


def _new_name(filename):
    name = None
    while not name or name in _cells:
        number = _numbers.get(filename, 1 if filename else 0) + 1
        _numbers[filename] = number
        name = "%s (%d)" % (filename, number) if filename else "<cell %d>" % number
    return name


def defining(name):
    """Marks a cell that defines something."""
    _definers.add(name)


def _settle():
    """Keeps the source of a file, such as a script."""
    while _recent:
        name = _recent.popleft()
        if name.startswith("<cell "):
            (_defining if name in _definers else _plain).add(name)
    _definers.clear()


def _lines(source):
    """Splits lines as the compiler does: str.splitlines() splits at more characters."""
    if "\n" not in source and "\r" not in source:
        return [source + "\n"] if source else []
    lines = io.StringIO(source, newline=None).readlines()
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def refresh(name):
    """Adds a source to linecache, again if it was cleared. checkcache() skips entries whose mtime is None."""
    source = _cells[name]
    lines = _lines(source)
    try:
        linecache.cache[name] = (len(source), None, lines, name)
    except Exception:
        pass  # the guest's changes broke linecache: tracebacks show no source


def forget():
    """Drops all sources."""
    for name in list(_cells):
        _forget(name)
    for known in _recent, _definers, _plain, _defining:
        known.clear()


def is_cell(filename):
    return filename in _cells or filename.startswith("<cell ")


def show_line(error, source):
    """Puts the line of this source into a SyntaxError about other text."""
    lines = _lines(source)
    if error.lineno and error.lineno <= len(lines) and error.text != lines[error.lineno - 1]:
        error.text, error.offset, error.end_offset = lines[error.lineno - 1], None, None


def all_texts():
    return list(_cells.values())


def all_items():
    """[(file name, source)], in order of execution."""
    return list(_cells.items())


def last_line():
    """(file name, line number) of the end of the newest cell."""
    name = next(reversed(_cells), "<cell>")
    return name, _cells.get(name, "").rstrip().count("\n") + 1


def refresh_all():
    """Adds all sources to linecache before a traceback is printed: the guest may have cleared it."""
    for name in _cells:
        if name not in linecache.cache:
            refresh(name)


def _file_of_class(cls, unwrap):
    """The cell that defines a class of __main__: that of one of its functions, else the last that defines the name."""
    for member in vars(cls).values():
        member = getattr(member, "__func__", member)
        member = getattr(member, "fget", None) or member
        code = getattr(unwrap(member) if callable(member) else member, "__code__", None)
        if code is not None and code.co_filename in _cells:
            if getattr(member, "__qualname__", "").startswith(cls.__qualname__ + "."):
                return code.co_filename
    name = cls.__qualname__.rpartition(".")[2]
    for filename, source in reversed(list(_cells.items())):
        if name in source and _defines(source, name):
            return filename
    return None


def _defines(source, name):
    import ast

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.walk(tree))


def patch_inspect(inspect):
    """Patches inspect.getfile(), which expects a class's module to be one file; __main__ consists of many cells."""
    original = inspect.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            main = sys.modules.get("__main__")
            filename = None if getattr(main, "__file__", None) else _file_of_class(object, inspect.unwrap)
            if filename is not None:
                if filename not in linecache.cache:
                    refresh(filename)
                return filename
        return original(object)

    getfile.__doc__ = original.__doc__
    getfile.__wrapped__ = original
    inspect.getfile = getfile
