"""The fast path of a tool call: checks and encodes arguments of simple types.

What can be computed from the input schema is computed once for each tool. The fast path can only accept arguments. Those
that it does not accept (a subclass, a container, a schema with an unknown keyword) go through the full validation in
schema.py, which also produces the error messages.
"""

from cloister.json_codec import encode_scalars, encode_own

_KINDS = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_ANY = (str, int, float, bool)
# Keywords that do not restrict values, and `type`, which _KINDS covers.
_KNOWN = frozenset("type title description default examples deprecated readOnly writeOnly $comment".split())
_KNOWN_AT_TOP = _KNOWN | frozenset("properties required additionalProperties $schema $id".split())


def _kinds(schema):
    """The exact types of which every value is valid, () when there is none."""
    if schema is True:
        return _ANY
    if not isinstance(schema, dict) or not _KNOWN.issuperset(schema):
        return ()
    if "type" not in schema:
        return _ANY
    names = schema["type"]
    names = names if isinstance(names, list) else [names]
    return tuple(kind for name in names if isinstance(name, str) for kind in _KINDS.get(name, ()))


class FastCall:
    """entry: a tool of the catalogue."""

    __slots__ = ("label", "_kinds", "_required", "_head")

    def __init__(self, entry):
        self.label = 'tools["%s"]' % entry.qualified
        self._head = encode_own({"server": entry.server, "tool": entry.name, "arguments": {}})[:-3]
        self._kinds = self._required = None
        schema = entry.input_schema
        if not isinstance(schema, dict) or not _KNOWN_AT_TOP.issuperset(schema) or schema.get("type") != "object":
            return
        members, required = schema.get("properties", {}), schema.get("required", [])
        if isinstance(members, dict) and isinstance(required, list) and all(isinstance(name, str) for name in required):
            self._kinds = {name: _kinds(member) for name, member in members.items()}
            self._required = frozenset(required)

    def payload(self, arguments):
        """The payload of a CALL, or None when the arguments need the full validation."""
        kinds = self._kinds
        if kinds is None or not self._required.issubset(arguments):
            return None
        for name, value in arguments.items():
            if type(value) not in kinds.get(name, ()):
                return None
        data = encode_scalars(arguments)
        return None if data is None else self._head + data + b"}"
