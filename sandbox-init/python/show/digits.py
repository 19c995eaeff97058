"""The repr() of a value without rounding: numpy, pandas and polars show fewer digits, unless code has set how many."""

import sys
from contextlib import ExitStack, contextmanager
from itertools import islice

from cloister.interrupts import calls_guest

_SCANNED = 100  # items of each container
_DEPTH = 4


@calls_guest
def exact_repr(value):
    try:
        names = _concerned(value, 0)
    except Exception:
        names = ()
    if not names:
        return repr(value)
    with exact(*names):
        return repr(value)


def _concerned(value, depth):
    """The libraries whose repr() may be in that of the value."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset, dict):
        items = value.values() if kind is dict else value
        found = [_concerned(item, depth + 1) for item in islice(items, _SCANNED)] if depth < _DEPTH else ()
        return set().union(*found)
    root = str(kind.__module__).partition(".")[0]
    if root == "builtins":
        return ()
    return {root, "numpy"} if root in _LIBRARIES else _LIBRARIES.keys()


@contextmanager
def exact(*names):
    """In it, these libraries show all digits, if they are loaded and code has set nothing else."""
    with ExitStack() as stack:
        for name in names:
            library = sys.modules.get(name)
            try:
                if library is not None:
                    _LIBRARIES[name](library, stack.enter_context)
            except Exception:
                pass  # a library that is half imported, or of another version
        yield


def _numpy(numpy, enter):
    options = numpy.get_printoptions()
    if (options["precision"], options["floatmode"], options["formatter"]) == (8, "maxprec", None):
        enter(numpy.printoptions(floatmode="unique"))


def _pandas(pandas, enter):
    if has_pandas_default(pandas):
        enter(pandas.option_context("display.float_format", str))


def _polars(polars, enter):
    if has_polars_default(polars.Config.state(if_set=True)):
        enter(polars.Config(fmt_float="full"))


_LIBRARIES = {"numpy": _numpy, "pandas": _pandas, "polars": _polars}


def has_pandas_default(pandas):
    option = pandas.get_option
    return (
        option("display.float_format") is None and option("display.precision") == 6 and option("display.chop_threshold") is None
    )


_POLARS = (
    ("set_fmt_float", "mixed"),
    ("set_float_precision", None),
    ("set_thousands_separator", ""),
    ("set_decimal_separator", "."),
    ("set_trim_decimal_zeros", False),
)


def has_polars_default(state):
    """state: of polars.Config."""
    return all(state.get(name, default) in (default, None) for name, default in _POLARS)
