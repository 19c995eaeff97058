"""_discover(), _search() and _schema(), which list tools. They return plain values, which may also be awaited."""

from cloister import signature
from cloister.schema import cut

DESCRIPTION = 120  # characters


class Listing(list):
    def __await__(self):
        return self
        yield


class Details(dict):
    def __await__(self):
        return self
        yield


class Discovery:
    def __init__(self, library):
        self._library = library

    def discover(self):
        """Every tool: [{name, server, description (120 characters), signature}], then the servers that failed, with
        their error and an empty name. Waits for servers that are starting, for at most 10 s."""
        catalogue = self._library.settled()
        found = Listing(_brief(entry) for entry in catalogue.entries)
        for server in catalogue.failed():
            found.append(
                {
                    "name": "",
                    "server": server.name,
                    "description": _short("not available: %s" % server.error),
                    "signature": "",
                    "error": server.error,
                }
            )
        return found

    def search(self, q, limit=10):
        """The tools that match a few words best, in the format of _discover(). Waits as it does."""
        return Listing(_brief(entry) for entry in self._library.search(str(q), max(0, int(limit))))

    def schema(self, name):
        """All about one tool: name, server, description, signature, inputSchema, outputSchema, annotations, asks."""
        name = getattr(name, "_key", name)
        entry = self._library.refreshed().find(name)
        if entry is None:
            catalogue = self._library.settled()
            entry = catalogue.find(name)
            if entry is None:
                raise catalogue.not_found(name)
        whole = Details(
            name=entry.name,
            server=entry.server,
            description=entry.description,
            signature=signature.line(entry.name, entry.input_schema, entry.output_schema),
            inputSchema=entry.input_schema,
        )
        if entry.output_schema is not None:
            whole["outputSchema"] = entry.output_schema
        if entry.annotations:
            whole["annotations"] = entry.annotations
        if entry.asks:
            whole["asks"] = entry.asks
        return whole


def _short(text):
    return cut(" ".join(text.split()), DESCRIPTION)


def _brief(entry):
    brief = {
        "name": entry.name,
        "server": entry.server,
        "description": _short(entry.description),
        "signature": signature.line(entry.name, entry.input_schema, entry.output_schema),
    }
    if entry.asks:
        brief["asks"] = entry.asks
    return brief
