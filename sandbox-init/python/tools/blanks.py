"""Results that stand for those of calls which were not sent, while a plan is made (docs/plans.md).

The first line of the code that uses one is noted, and sent with later calls: the question says that they may be different. It is
a hint. Code that hides it harms its own plan only: what is sent later is compared with what was shown.
"""

import sys

from cloister.sources import is_cell

# Methods that do not tell what the value is, or that every program calls: print() and the end of a cell show it.
_QUIET = frozenset(
    "__new__ __init__ __class__ __getattribute__ __setattr__ __delattr__ __init_subclass__ __subclasshook__ __class_getitem__"
    " __repr__ __str__ __dir__ __doc__ __sizeof__ __reduce__ __reduce_ex__ __getnewargs__ __getstate__".split()
)
_line = 0  # of the first use; 0: there was none


def _note():
    global _line
    frame = None if _line else sys._getframe(2)
    while frame is not None and not is_cell(frame.f_code.co_filename):
        frame = frame.f_back
    if not _line:
        _line = frame.f_lineno if frame is not None else 1


def _noting(method):
    def noted(*args, **kwargs):
        _note()
        return method(*args, **kwargs)

    return noted


def _subclass(kind, **more):
    methods = {name: getattr(kind, name) for name in dir(kind) if name not in _QUIET}
    methods = {name: _noting(method) for name, method in methods.items() if callable(method)}
    return type("Blank", (kind,), {**methods, **more})


_KINDS = {kind: _subclass(kind) for kind in (dict, list, str, int, float)}
_KINDS[bool] = _subclass(int, __repr__=lambda value: "False", __str__=lambda value: "False")
_BLANKS = frozenset(_KINDS.values())


def watch(value):
    """The value as one that notes its first use. None stays: it tells nothing."""
    kind = _KINDS.get(type(value))
    return value if kind is None else kind(value)


def marking(make):
    """make_call() of calls.py that adds the line of the first use to a CALL."""
    if getattr(make, "is_marking", False):
        return make

    def make_marked(entry, args, kwargs):
        for value in (*args, *kwargs.values()):
            if type(value) in _BLANKS:
                _note()
        data = make(entry, args, kwargs)
        return data[:-1] + b',"unsure":%d}' % _line if _line else data

    make_marked.is_marking = True
    return make_marked
