"""The names that code for codemode-lite expects, instead of those of `run_python`: `"guest": "codemode-lite"` of a published tool."""

import cloister
from cloister.calls import Tools
from cloister.discovery import Details, Listing
from cloister.errors import ToolError

NAME = "codemode-lite"


class GuestTools(Tools):
    """tools["name"], with _discover, _search and _schema among the names."""

    def __init__(self, tools, own):
        super().__init__(tools._library, tools._channel)
        self._own = own

    def __getitem__(self, key):
        return self._own[key] if type(key) is str and key in self._own else super().__getitem__(key)


class Guest:
    """The other _search() and _schema(), and an error of a tool that is a RuntimeError too. namespace: of the code."""

    def __init__(self, namespace):
        self._discover, self._known = namespace["_discover"], namespace["_schema"]
        own = {"_discover": self._discover, "_search": self.search, "_schema": self.schema}
        cloister.tools = GuestTools(namespace["tools"], own)
        namespace.update(own, tools=cloister.tools)
        ToolError.__bases__ = (RuntimeError,)

    def search(self, q, limit=1000):
        """The tools whose name or description contains the text, in upper or lower case."""
        text = str(q).lower()
        found = [entry for entry in self._discover() if entry["name"] and (text in entry["name"].lower() or text in entry["description"].lower())]
        return Listing(found[: max(0, int(limit))])

    def schema(self, name):
        """All about one tool; of an unknown name {"error": …}."""
        try:
            return self._known(name)
        except ToolError as error:
            return Details(error=str(error))


def adapt(namespace, name):
    """Before a cell. Changes the names once; the code may replace them later."""
    if name != NAME:
        raise ValueError("guest %r" % name)
    if getattr(cloister, "_guest", None) is None:
        cloister._guest = Guest(namespace)
