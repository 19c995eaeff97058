"""The cells' source code, kept where tracebacks and inspect look for it."""

import ast
import inspect
import io
import linecache
import sys

_cells = {}  # file name -> source, in order of execution


def add(source, filename=None):
    """Keeps a cell's source under a file name that no other cell has; returns that name."""
    name = filename or "<cell %d>" % (len(_cells) + 1)
    number = 1
    while name in _cells:
        number += 1
        name = "%s (%d)" % (filename or "<cell>", number)
    _cells[name] = source
    refresh(name)
    return name


def refresh(name):
    """(Again) into linecache, which anybody may clear; None as time of change keeps checkcache() away."""
    source = _cells[name]
    # Lines as the compiler counts them: str.splitlines() knows more ends than it does.
    lines = io.StringIO(source, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    try:
        linecache.cache[name] = (len(source), None, lines, name)
    except Exception:
        pass  # the guest has broken linecache; its tracebacks go without source


def is_cell(filename):
    return filename in _cells


def refresh_all():
    """Before a traceback is written: the guest may have cleared linecache."""
    for name in _cells:
        if name not in linecache.cache:
            refresh(name)


def _file_of_class(cls):
    """The cell that defines a class of __main__: by one of its functions, else the last with such a name."""
    for member in vars(cls).values():
        member = getattr(member, "__func__", member)
        member = getattr(member, "fget", None) or member
        code = getattr(inspect.unwrap(member) if callable(member) else member, "__code__", None)
        if code is not None and code.co_filename in _cells:
            if getattr(member, "__qualname__", "").startswith(cls.__qualname__ + "."):
                return code.co_filename
    name = cls.__qualname__.rpartition(".")[2]
    for filename, source in reversed(list(_cells.items())):
        if name in source and _defines(source, name):
            return filename
    return None


def _defines(source, name):
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.walk(tree))


def teach_inspect():
    """inspect.getfile() wants a class's module to be one file; __main__ is made of many."""
    original = inspect.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            main = sys.modules.get("__main__")
            filename = None if getattr(main, "__file__", None) else _file_of_class(object)
            if filename is not None:
                if filename not in linecache.cache:
                    refresh(filename)
                return filename
        return original(object)

    getfile.__doc__ = original.__doc__
    getfile.__wrapped__ = original
    inspect.getfile = getfile
