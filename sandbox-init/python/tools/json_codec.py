"""JSON that carries values unchanged, or not at all.

The encoder and decoder are taken from the standard library at boot, the C parts where they exist: code in the
sandbox may replace whatever it likes in `json` later.
"""

from json import decoder as _decoder
from json import encoder as _encoder
from math import isfinite
from operator import is_ as _is
from sys import modules

MAX_DEPTH = 120  # of nested containers: the supervisor refuses documents deeper than 128
MAX_ITEMS = 1000 * 1000  # JSON_VALUES_MAX
JSON_BUDGET = 64 * 1024  # characters of a cell's value that still go as JSON


class Unfit(ValueError):
    """A value that JSON cannot carry unchanged. path: where, as Python would write it behind the whole."""

    def __init__(self, reason, path=""):
        super().__init__(reason)
        self.reason = reason
        self.path = path


def _refuse(value):
    raise Unfit("%s is not a JSON value" % type(value).__qualname__)


def _make_encode():
    if _encoder.c_make_encoder is None:
        return _encoder.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_refuse
        ).encode
    string = _encoder.c_encode_basestring or _encoder.py_encode_basestring
    # No check for circular references: the depth was checked before.
    pieces = _encoder.c_make_encoder(None, _refuse, string, None, ":", ",", False, False, False)
    join = "".join

    def encode(value):
        return join(pieces(value, 0))

    return encode


def _exact_float(text):
    value = float(text)
    if value - value != 0:
        raise ValueError("%s is beyond the range of a float" % text[:32])
    return value


def _nearest_int(text):
    try:
        return int(text)
    except ValueError:  # more digits than int() converts
        return float(text)


def _make_decode(**parse):
    def constant(name):
        raise ValueError("%s is not JSON" % name)

    scan = _decoder.JSONDecoder(parse_constant=constant, **parse).scan_once

    def decode(text):
        text = text.strip(" \t\n\r")
        try:
            value, end = scan(text, 0)
        except StopIteration as stop:
            raise ValueError("not JSON at character %d" % stop.value) from None
        if end != len(text):
            raise ValueError("more than one JSON value")
        return value

    return decode


_encode = _make_encode()
decode_text = _make_decode(parse_float=_exact_float)
_decode_nearest = _make_decode(parse_int=_nearest_int)


def decode(data):
    """The value of JSON bytes. Raises ValueError for bytes that are not JSON, and for a number that cannot be
    represented: an integer beyond CPython's digit limit, a float beyond the range of a double."""
    return decode_text(data.decode("utf-8"))


def decode_nearest(data):
    """The same, but a number out of range becomes the nearest float: one server's schema must not spoil the others'."""
    return _decode_nearest(data.decode("utf-8"))


def printable(text):
    """The text with lone surrogates, which UTF-8 cannot encode, replaced by their escapes."""
    if text.isascii():
        return str(text)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_own(value):
    """JSON bytes of a message whose strings are our own or come from printable()."""
    return _encode(value).encode("utf-8", "replace")


def encode_scalars(values):
    """JSON bytes of a dict of strings, numbers and booleans; None if a value would not arrive unchanged."""
    try:
        return _encode(values).encode("utf-8")
    except ValueError:
        return None


def encode_guest(value):
    """JSON bytes of a value that the guest made. Raises Unfit, with the path, if JSON would change a part of it."""
    _check_keys(value)
    try:
        return _encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        same = plain(value)
        if same is not value:
            return encode_guest(same)
        _locate(value, "", 0)
        raise error if isinstance(error, Unfit) else Unfit(str(error)) from None


_CONTAINERS = (dict, list, tuple)


def _holds(items, kinds):
    """Whether some items are of these types. Compares types only, because there may be millions of items."""
    return any(issubclass(kind, kinds) for kind in set(map(type, items)))


def _check_keys(value):
    """Checks the depth, and the keys that json would silently convert to strings. Visits containers only."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        below = []
        for container in level:
            if isinstance(container, dict):
                if not all(issubclass(kind, str) for kind in set(map(type, container))):
                    _locate(value, "", 0)
                container = container.values()
            if _holds(container, _CONTAINERS):
                below += [item for item in container if isinstance(item, _CONTAINERS)]
        if not below:
            return
        level = below
    raise Unfit("more than %d levels of lists and dicts" % MAX_DEPTH)


def _locate(value, path, depth):
    """Finds the value that could not be encoded, for the error message."""
    if depth > MAX_DEPTH:
        raise Unfit("more than %d levels of lists and dicts" % MAX_DEPTH, path)
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float):
        if not isfinite(value):
            raise Unfit("%r is not a JSON number" % value, path)
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            int.__repr__(value)
        except ValueError as error:
            raise Unfit(_digits(error), path) from None
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Unfit("a JSON object's keys are strings, not %s" % type(key).__qualname__, path)
            _check_text(key, path)
            _locate(item, "%s[%r]" % (path, key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _locate(item, "%s[%d]" % (path, index), depth + 1)
    elif value is not None and not isinstance(value, bool):
        raise Unfit("%s is not a JSON value%s" % (type(value).__qualname__, _hint(value)), path)


def _check_text(text, path):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unfit("a lone surrogate (%r) is not text" % text[error.start], path) from None


def _digits(error):
    return "%s (sys.set_int_max_str_digits)" % str(error).partition(";")[0]


def _hint(value):
    if hasattr(value, "tolist"):
        return ": use .tolist()"
    if hasattr(value, "isoformat"):
        return ": use .isoformat()"
    if isinstance(value, (set, frozenset)):
        return ": use a list"
    if isinstance(value, (bytes, bytearray)):
        return ": use base64 or .decode()"
    if hasattr(value, "__await__"):
        return ": await it first"
    if hasattr(value, "__fspath__"):
        return ": use str()"
    return ""


def plain(value, most=MAX_ITEMS):
    """The value with Python's own types instead of numpy's numbers, strings and arrays, where these are the same. The value
    itself if there are none, or if it has more items than `most`."""
    if "numpy" not in modules:
        return value
    left = most

    def visit(value, depth):
        nonlocal left
        kind = type(value)
        if kind.__module__ == "numpy" and hasattr(kind, "dtype"):
            of = value.dtype
            if (of.kind not in "biuf" or of.itemsize > 8) and of.kind != "U":
                return value
            left -= value.size
            return value.tolist() if left >= 0 else value
        if kind not in (list, tuple, dict) or depth == MAX_DEPTH or left < len(value):
            left -= kind in (list, tuple, dict)
            return value
        left -= len(value)
        items = [visit(item, depth + 1) for item in (value.values() if kind is dict else value)]
        if all(map(_is, items, value.values() if kind is dict else value)):
            return value
        return dict(zip(value, items)) if kind is dict else kind(items)

    changed = visit(value, 0)
    return changed if left >= 0 else value


def is_exact(value):
    """Whether JSON represents a value completely and in reasonable size: only built-in types, no subclasses."""
    budget = JSON_BUDGET
    level = [value]
    for _ in range(MAX_DEPTH // 2):
        below = []
        for item in level:
            cost = _cost(item, budget)
            if cost is None or cost > budget:
                return False
            budget -= cost
            kind = type(item)
            if kind is list:
                below += item
            elif kind is dict:
                below += item
                below += item.values()
        if not below:
            return True
        level = below
    return False


def _cost(value, budget):
    """The number of characters of a value in JSON, without its items; None if JSON would change the value."""
    kind = type(value)
    if value is None or kind is bool:
        return 5
    if kind is str:
        if len(value) > budget:
            return None
        try:
            return len(value.encode("utf-8")) + 3
        except UnicodeEncodeError:
            return None
    if kind is int:
        return _int_cost(value)
    if kind is float:
        return 20 if isfinite(value) else None
    if kind is list:
        return len(value) + 2
    if kind is dict:
        return len(value) + 2 if len(value) <= budget and set(map(type, value)) <= {str} else None
    return None


def _int_cost(value):
    if value.bit_length() < 10_000:
        return value.bit_length() // 3 + 2
    try:
        return len(int.__repr__(value))
    except ValueError:
        return None
