"""What a tool takes, worked out once: for the many calls whose arguments need no closer look.

A plan only ever says yes. Arguments that it does not know to be right (a type that may do, a keyword of the schema that
it does not know, a value that is a container) go the long way, which also words what is wrong.
"""

from cloister.exact import encode_scalars, encode_own

_KINDS = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_ANY = (str, int, float, bool)
# Keywords that say nothing about what is allowed, or what _KINDS says.
_TOLD = frozenset("type title description default examples deprecated readOnly writeOnly $comment".split())
_TOLD_OF_ALL = _TOLD | frozenset("properties required additionalProperties $schema $id".split())


def _kinds(schema):
    """The exact types of which every value is right, () when none is known."""
    if schema is True:
        return _ANY
    if not isinstance(schema, dict) or not _TOLD.issuperset(schema):
        return ()
    if "type" not in schema:
        return _ANY
    names = schema["type"]
    names = names if isinstance(names, list) else [names]
    return tuple(kind for name in names if isinstance(name, str) for kind in _KINDS.get(name, ()))


class Plan:
    """entry: a tool of the catalogue."""

    __slots__ = ("label", "_kinds", "_required", "_head")

    def __init__(self, entry):
        self.label = 'tools["%s"]' % entry.qualified
        self._head = encode_own({"server": entry.server, "tool": entry.name, "arguments": {}})[:-3]
        self._kinds = self._required = None
        schema = entry.input_schema
        if not isinstance(schema, dict) or not _TOLD_OF_ALL.issuperset(schema) or schema.get("type") != "object":
            return
        members, required = schema.get("properties", {}), schema.get("required", [])
        if isinstance(members, dict) and isinstance(required, list) and all(isinstance(name, str) for name in required):
            self._kinds = {name: _kinds(member) for name, member in members.items()}
            self._required = frozenset(required)

    def payload(self, arguments):
        """The payload of a CALL, or None when it takes a closer look."""
        kinds = self._kinds
        if kinds is None or not self._required.issubset(arguments):
            return None
        for name, value in arguments.items():
            if type(value) not in kinds.get(name, ()):
                return None
        data = encode_scalars(arguments)
        return None if data is None else self._head + data + b"}"
