"""Validates arguments before they are sent, and structured results, against a JSON Schema: the subset of 2020-12 that tools
use.

What is not supported (a remote $ref, a pattern that is not a Python pattern, too much nesting) passes: the server
validates too, and a check here must not refuse what it would accept. Schemas come from servers: steps, depth and patterns
have bounds, and what a pattern takes is time of the cell, in its own sandbox.
"""

import re

MAX_DEPTH = 64
MAX_STEPS = 200_000
MAX_PATTERN = 1_000  # characters of a pattern, which comes from the server
MAX_MATCHED = 100_000  # characters of a value that it is matched against
MAX_UNIQUE = 2_000

_TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: _is_number(v) and (isinstance(v, int) or v == v // 1),
    "number": lambda v: _is_number(v),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "array": lambda v: isinstance(v, (list, tuple)),
    "object": lambda v: isinstance(v, dict),
}


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check(value, schema, name=""):
    """The first error in a value, as one line that names the place; None if it is valid.

    name: what the value is called; "": it is the arguments of a call.
    """
    try:
        return _Checker(schema).check(value, schema, name, 0)
    except (RecursionError, OverflowError):
        return None


def resolve(reference, root):
    """The schema that a local $ref refers to; True (any value) for other references."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return True
    at = root
    from urllib.parse import unquote

    for part in unquote(reference[2:]).split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and part in at:
            at = at[part]
        elif isinstance(at, list) and part.isdigit() and int(part) < len(at):
            at = at[int(part)]
        else:
            return True
    return at


def equal(a, b):
    """Compares as JSON does: 1 equals 1.0, but not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


def show(value, limit=60):
    """A value as JSON, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = '"%s"' % value if isinstance(value, str) else repr(value)
    except ValueError:
        text = "an integer of many digits"
    return cut(text, limit)


def _is_named(path):
    """Whether it begins with the name of a value, and is not a path in the arguments."""
    return path[:1] not in ("", ".", "[")


def _place(path):
    if _is_named(path):
        return path
    return 'argument "%s"' % path.lstrip(".") if path else "the arguments"


def _type_name(value):
    for name in ("string", "boolean", "integer", "number", "null", "array", "object"):
        if _TYPES[name](value):
            return name
    return type(value).__qualname__


class _Checker:
    def __init__(self, root):
        self._root = root
        self._steps = 0

    def check(self, value, schema, path, depth):
        self._steps += 1
        if depth > MAX_DEPTH or self._steps > MAX_STEPS or schema is True:
            return None
        if schema is False:
            return "%s is not allowed" % _place(path)
        if not isinstance(schema, dict):
            return None
        return (
            self._check_type(value, schema, path)
            or self._check_enum(value, schema, path)
            or self._check_own(value, schema, path, depth + 1)
            or self._check_combined(value, schema, path, depth + 1)
        )

    def _check_type(self, value, schema, path):
        wanted = schema.get("type")
        names = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(names, list) or not names or not all(n in _TYPES for n in names if isinstance(n, str)):
            return None
        if any(_TYPES[name](value) for name in names if isinstance(name, str)):
            return None
        if value is None and schema.get("nullable") is True:
            return None
        return "%s must be %s, not %s (%s)" % (
            _place(path),
            " or ".join(map(str, names)),
            _type_name(value),
            show(value),
        )

    def _check_enum(self, value, schema, path):
        enum = schema.get("enum")
        if isinstance(enum, list) and not any(equal(value, item) for item in enum):
            shown = ", ".join(show(item) for item in enum[:20]) + (", …" if len(enum) > 20 else "")
            return "%s must be one of %s, not %s" % (_place(path), shown, show(value))
        if "const" in schema and not equal(value, schema["const"]):
            return "%s must be %s, not %s" % (_place(path), show(schema["const"]), show(value))
        return None

    def _check_own(self, value, schema, path, depth):
        if isinstance(value, str):
            return _check_string(value, schema, path)
        if _is_number(value):
            return _check_number(value, schema, path)
        if isinstance(value, (list, tuple)):
            return _check_length(value, schema, path) or self._check_items(value, schema, path, depth)
        if isinstance(value, dict):
            return _check_keys(value, schema, path) or self._check_members(value, schema, path, depth)
        return None

    def _check_items(self, value, schema, path, depth):
        first = schema.get("prefixItems")
        rest = schema.get("items", True)
        if isinstance(rest, list):  # before 2020-12
            first, rest = rest, schema.get("additionalItems", True)
        first = first if isinstance(first, list) else []
        for index, item in enumerate(value):
            of = first[index] if index < len(first) else rest
            if of is True:
                continue
            wrong = self.check(item, of, "%s[%d]" % (path, index), depth)
            if wrong:
                return wrong
        if "contains" in schema:
            return self._check_contains(value, schema, path, depth)
        return None

    def _check_contains(self, value, schema, path, depth):
        found = sum(self.check(item, schema["contains"], path, depth) is None for item in value)
        if found < _bound(schema, "minContains", 1) or found > _bound(schema, "maxContains", found):
            return "%s does not contain the items it must" % _place(path)
        return None

    def _check_members(self, value, schema, path, depth):
        members = object_in(schema, "properties")
        patterns = object_in(schema, "patternProperties")
        others = schema.get("additionalProperties", True)
        for key, item in value.items():
            at = "%s.%s" % (path, key)
            schemas = [members[key]] if key in members else []
            schemas += [of for pattern, of in patterns.items() if _matches(pattern, key) is not False]
            if not schemas and others is False:
                return "%s is not in the schema" % at if _is_named(at) else 'unknown argument "%s"' % at.lstrip(".")
            for of in schemas or (others,):
                wrong = self.check(item, of, at, depth)
                if wrong:
                    return wrong
            if "propertyNames" in schema and self.check(key, schema["propertyNames"], at, depth):
                return "%s has a name that is not allowed" % _place(at)
        for key, of in object_in(schema, "dependentSchemas").items():
            wrong = self.check(value, of, path, depth) if key in value else None
            if wrong:
                return wrong
        return None

    def _check_combined(self, value, schema, path, depth):
        if "$ref" in schema:
            wrong = self.check(value, resolve(schema["$ref"], self._root), path, depth)
            if wrong:
                return wrong
        for of in list_in(schema, "allOf"):
            wrong = self.check(value, of, path, depth)
            if wrong:
                return wrong
        if "not" in schema and not isinstance(schema["not"], bool):
            if self.check(value, schema["not"], path, depth) is None and self._steps < MAX_STEPS:
                return "%s is what it must not be (%s)" % (_place(path), show(value))
        return self._check_alternatives(value, schema, path, depth) or self._check_if(
            value, schema, path, depth
        )

    def _check_alternatives(self, value, schema, path, depth):
        for keyword in ("anyOf", "oneOf"):
            wrongs = [self.check(value, of, path, depth) for of in list_in(schema, keyword)]
            if not wrongs or depth >= MAX_DEPTH:
                continue
            if None not in wrongs:
                return " or ".join(dict.fromkeys(wrongs))
            if keyword == "oneOf" and wrongs.count(None) > 1 and not _is_loose(schema["oneOf"]):
                return "%s fits more than one of its alternatives" % _place(path)
        return None

    def _check_if(self, value, schema, path, depth):
        if "if" not in schema:
            return None
        met = self.check(value, schema["if"], path, depth) is None
        return self.check(value, schema.get("then" if met else "else", True), path, depth)


def _is_loose(alternatives):
    """Whether alternatives may both match here because a part of them is not supported."""
    return any(not isinstance(of, dict) or "$ref" in of or "format" in of for of in alternatives)


def object_in(schema, key):
    """A member that is an object; {} without one."""
    value = schema.get(key) if isinstance(schema, dict) else None
    return value if isinstance(value, dict) else {}


def list_in(schema, key):
    value = schema.get(key) if isinstance(schema, dict) else None
    return value if isinstance(value, list) else []


def cut(text, limit):
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _bound(schema, key, default):
    value = schema.get(key)
    return value if _is_number(value) else default


def _check_string(value, schema, path):
    most, least = _bound(schema, "maxLength", None), _bound(schema, "minLength", 0)
    if most is not None and len(value) > most:
        return "%s is %d characters long; at most %s are allowed" % (_place(path), len(value), most)
    if len(value) < least:
        return "%s is %d characters long; at least %s are needed" % (_place(path), len(value), least)
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _matches(pattern, value) is False:
        return "%s must match %s, unlike %s" % (_place(path), show(pattern, 200), show(value))
    return None


def _matches(pattern, text):
    """True, False, or None if it cannot be decided."""
    if len(pattern) > MAX_PATTERN or len(text) > MAX_MATCHED:
        return None
    try:
        return re.search(pattern, text) is not None
    except (re.error, OverflowError, RecursionError):
        return None


def _check_number(value, schema, path):
    for key, fits, text in (
        ("minimum", lambda v, b: v >= b, "at least"),
        ("maximum", lambda v, b: v <= b, "at most"),
        ("exclusiveMinimum", lambda v, b: v > b, "more than"),
        ("exclusiveMaximum", lambda v, b: v < b, "less than"),
    ):
        bound = _bound(schema, key, None)
        if bound is not None and not fits(value, bound):
            return "%s must be %s %s, not %s" % (_place(path), text, bound, show(value))
    step = _bound(schema, "multipleOf", 0)
    if step > 0 and not _is_multiple(value, step):
        return "%s must be a multiple of %s, not %s" % (_place(path), step, show(value))
    return None


def _is_multiple(value, step):
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    parts = value / step
    return abs(parts - round(parts)) < 1e-9 * max(1.0, abs(parts))


def _check_length(value, schema, path):
    most, least = _bound(schema, "maxItems", None), _bound(schema, "minItems", 0)
    if most is not None and len(value) > most:
        return "%s has %d items; at most %s are allowed" % (_place(path), len(value), most)
    if len(value) < least:
        return "%s has %d items; at least %s are needed" % (_place(path), len(value), least)
    if schema.get("uniqueItems") is True and len(value) <= MAX_UNIQUE:
        for index, item in enumerate(value):
            if any(equal(item, other) for other in value[:index]):
                return "%s has the item %s twice" % (_place(path), show(item))
    return None


def _check_keys(value, schema, path):
    missing = [key for key in list_in(schema, "required") if isinstance(key, str) and key not in value]
    if missing:
        if _is_named(path):
            return "missing %s" % ", ".join("%s.%s" % (path, key) for key in missing)
        shown = ", ".join('"%s"' % ("%s.%s" % (path, key)).lstrip(".") for key in missing)
        return "missing argument%s %s" % ("s" if len(missing) > 1 else "", shown)
    most, least = _bound(schema, "maxProperties", None), _bound(schema, "minProperties", 0)
    if most is not None and len(value) > most:
        return "%s: %d members; at most %s are allowed" % (_place(path), len(value), most)
    if len(value) < least:
        return "%s: %d members; at least %s are needed" % (_place(path), len(value), least)
    for key, needed in object_in(schema, "dependentRequired").items():
        for other in needed if key in value and isinstance(needed, list) else ():
            if other not in value:
                return '%s needs "%s" beside it' % (_place("%s.%s" % (path, key)), other)
    return None
