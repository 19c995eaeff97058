"""_discover(), _search() and _schema(), which list tools. They return plain values, which may also be awaited."""

import re

from cloister import signature

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
                    "description": _cut("not available: %s" % server.error, DESCRIPTION),
                    "signature": "",
                    "error": server.error,
                }
            )
        return found

    def search(self, q, limit=10):
        """The tools that match a few words best, in the format of _discover()."""
        catalogue = self._library.settled()
        words = _words(str(q))
        ranked = []
        for place, entry in enumerate(catalogue.entries):
            score = _score(entry, words, str(q).lower())
            if score > 0 or not words:
                ranked.append((-score, place, entry))
        ranked.sort(key=lambda item: item[:2])
        return Listing(_brief(entry) for _, _, entry in ranked[: max(0, int(limit))])

    def schema(self, name):
        """All about one tool: name, server, description, signature, inputSchema, outputSchema, annotations."""
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
        return whole


def _cut(text, limit):
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _brief(entry):
    return {
        "name": entry.name,
        "server": entry.server,
        "description": _cut(entry.description, DESCRIPTION),
        "signature": signature.line(entry.name, entry.input_schema, entry.output_schema),
    }


def _words(text):
    """Splits a name or a text into words: listEvents, list-events and "list events" have the same words."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return [word for word in re.split(r"[\W_]+", text.lower()) if word]


def _stem(word):
    for end in ("ing", "es", "ed", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)]
    return word


def _score(entry, words, query):
    if query in (entry.name.lower(), entry.qualified.lower()):
        return 1000
    name = [_stem(word) for word in _words(entry.name)]
    server = [_stem(word) for word in _words(entry.server)]
    described = [_stem(word) for word in _words(entry.description)]
    given = [_stem(word) for key, _, _ in signature.parameters(entry.input_schema) for word in _words(key)]
    score = 0
    for word in map(_stem, words):
        if word in name:
            score += 20
        elif any(word in other for other in name):
            score += 10
        if word in server:
            score += 6
        if word in described:
            score += 4
        elif any(word in other for other in described if len(word) > 3):
            score += 2
        if word in given:
            score += 2
    return score
