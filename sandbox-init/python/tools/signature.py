"""A tool's schemas as one line of Python: list-events(calendarId: str, limit: int = 10) -> list[dict]."""

from cloister.names import identifier
from cloister.schema import cut, list_in, object_in, resolve, show

MAX_TYPE = 160  # characters of one type
MAX_LINE = 600
_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}


def type_text(schema, root, depth=0):
    if not isinstance(schema, dict) or depth > 5:
        return "Any"
    if "$ref" in schema:
        return type_text(resolve(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return show(schema["const"])
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return _union([show(item) for item in enum[:8]] + (["…"] if len(enum) > 8 else []))
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return _union([type_text(of, root, depth + 1) for of in schema[keyword]])
    if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
        return type_text(schema["allOf"][0], root, depth + 1)
    names = schema.get("type")
    if isinstance(names, list):
        return _union([_named(name, schema, root, depth) for name in names])
    if names is None and isinstance(schema.get("properties"), dict):
        names = "object"
    return _named(names, schema, root, depth)


def _union(texts):
    return cut(" | ".join(dict.fromkeys(texts)), MAX_TYPE) or "Any"


def _named(name, schema, root, depth):
    if name == "array" and isinstance(schema.get("items"), dict):
        return cut("list[%s]" % type_text(schema["items"], root, depth + 1), MAX_TYPE)
    members = schema.get("properties")
    if name == "object" and isinstance(members, dict) and members and depth < 3:
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        parts = [
            '"%s"%s: %s' % (key, "" if key in required else "?", type_text(of, root, depth + 1))
            for key, of in members.items()
        ]
        return cut("{%s}" % ", ".join(parts), MAX_TYPE)
    return _NAMES.get(name, "Any") if isinstance(name, str) else "Any"


def parameters(schema):
    """[(name, schema, required)], the required first."""
    members = object_in(schema, "properties")
    required = [key for key in list_in(schema, "required") if key in members]
    rest = [key for key in members if key not in required]
    return [(key, members[key], True) for key in required] + [(key, members[key], False) for key in rest]


def _default(schema):
    return schema["default"] if isinstance(schema, dict) and "default" in schema else None


def line(name, input_schema, output_schema=None):
    parts = []
    for key, schema, required in parameters(input_schema):
        text = "%s: %s" % (key if key.isidentifier() else '"%s"' % key, type_text(schema, input_schema))
        parts.append(text if required else "%s = %s" % (text, _python(_default(schema))))
    more = input_schema.get("additionalProperties") if isinstance(input_schema, dict) else None
    if more is True or isinstance(more, dict):
        parts.append("**more")
    text = "%s(%s)" % (name, ", ".join(parts))
    returned = returned_schema(output_schema, name)
    if returned is not None:
        text += " -> %s" % type_text(returned, output_schema)
    return cut(text, MAX_LINE)


def _python(value):
    try:
        return cut(repr(value), 40)
    except ValueError:
        return "…"


def is_wrapped(output_schema, tool):
    """Whether the SDK wraps results in {"result": …}, as it does for values that are not objects. FastMCP marks such
    schemas; the official Python SDK gives them the tool's name and "Output" as their title."""
    if not isinstance(output_schema, dict):
        return False
    if output_schema.get("x-fastmcp-wrap-result") is True:
        return True
    only_result = list(object_in(output_schema, "properties")) == ["result"]
    return only_result and output_schema.get("title") == "%sOutput" % tool


def returned_schema(output_schema, tool):
    if not isinstance(output_schema, dict):
        return None
    if is_wrapped(output_schema, tool):
        return object_in(output_schema, "properties").get("result", True)
    return output_schema


def inspectable(input_schema):
    """For inspect.signature() and completion."""
    import inspect

    kind = inspect.Parameter.KEYWORD_ONLY
    found = {}
    for key, schema, required in parameters(input_schema):
        name = identifier(key)
        default = inspect.Parameter.empty if required else _default(schema)
        found.setdefault(name, inspect.Parameter(name, kind, default=default))
    return inspect.Signature(list(found.values()))
