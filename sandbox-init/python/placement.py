"""Placement of objects in a template, so that its workers write to few pages.

A worker copies each page that it writes to, and running a function writes to it: to its reference count, and to that of its code.
So the functions that a cell runs are made once more, side by side. The holes that imports have left between objects are filled,
so that a cell allocates from pages that follow each other.
"""

import gc
import sys
from functools import partial
from itertools import count
from types import CodeType, FunctionType, ModuleType

SMALL_MAX = 512  # bytes: larger objects are malloc()'s (Objects/obmalloc.c)
STEP = 16
POOL_HEADER = 48
PAGE = 4096
RUN = 4  # blocks that follow each other at the beginning of a pool show that the pool is new
FILL_MAX = 1 << 18  # bytes of each size: another allocator may behave differently
LARGE = 65536, 32768, 16384, 8192, 4096, 2048, 1536, 1280, 1024, 896, 768, 704, 640, 576, 528
INTEGER = 32  # bytes of a small one
EMPTY = sys.getsizeof(b"")

_kept = []  # what fills the holes


def record(act):
    """Returns the code objects of the functions that it calls."""
    seen = {}

    def note(frame, event, argument):
        if event == "call":
            seen[frame.f_code] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return seen


def fill():
    """Takes the free memory between objects of each size. Call after a collection, which empties CPython's free lists."""
    end = id(bytes(FILL_MAX))  # no hole is so large: it comes from the end of the heap, and returns there
    for size in LARGE:
        _fill_large(size, end)
    for size in range(SMALL_MAX, EMPTY, -STEP):
        _fill_small(size, partial(bytes, size - EMPTY), size)
    _fill_small(INTEGER, count(1 << 29).__next__, 4 * INTEGER)  # id() makes integers too


def _fill_large(size, end):
    for _ in range(FILL_MAX // size):
        _kept.append(bytes(size - EMPTY))
        if id(_kept[-1]) >= end:
            return


def _fill_small(size, make, step):
    """Until blocks follow each other from the beginning of a page. step: the most between two."""
    last = run = 0
    for _ in range(FILL_MAX // size):
        block = make()
        _kept.append(block)
        if run and size <= id(block) - last <= step:
            run += 1
            if run == RUN:
                return
        else:
            run = (id(block) - POOL_HEADER) % PAGE <= step - size
        last = id(block)


def gather(codes, package):
    """Makes functions again, side by side. codes: theirs, as record() returns them; they compare equal to those that replace them.
    package: the prefix of modules whose functions are replaced. In functions of other modules only the code is."""
    functions = [f for f in gc.get_objects() if type(f) is FunctionType and f.__code__ in codes]
    made = {}
    for function in functions:
        function.__code__ = _again(function.__code__, codes, made)
    copies = {function: _copy(function) for function in functions}
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            _replace(module, copies, package)


def _again(code, codes, made):
    """The same code as a new object, and in it that of functions which it makes. made: {id: new object}"""
    if code not in codes:
        return code
    if id(code) not in made:
        made[id(code)] = code.replace(co_consts=tuple([_constant(c, codes, made) for c in code.co_consts]))
    return made[id(code)]


def _constant(value, codes, made):
    if isinstance(value, CodeType):
        return _again(value, codes, made)
    if type(value) is str and len(value) > 1 and value.isascii():
        return value.encode().decode()
    return int(str(value)) if type(value) is int else value


def _copy(function):
    new = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    for name in "__kwdefaults__", "__doc__", "__module__", "__qualname__":
        setattr(new, name, getattr(function, name))
    if vars(function):
        vars(new).update(vars(function))
    return new


def _replace(owner, copies, package):
    """In a module and its classes, or in a class."""
    for name, value in list(vars(owner).items()):
        kind = type(value)
        if kind is FunctionType and value in copies:
            setattr(owner, name, copies[value])
        elif kind in (staticmethod, classmethod) and value.__func__ in copies:
            setattr(owner, name, kind(copies[value.__func__]))
        elif isinstance(owner, ModuleType) and isinstance(value, type) and str(value.__module__).startswith(package):
            _replace(value, copies, package)
