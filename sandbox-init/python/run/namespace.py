"""The names that Cloister adds to __main__, which code can use without an import.

The catalogue is decoded, and its names are added, only for a cell that uses a name that is not defined: `1+1` must not
become slower because there are a thousand tools. A name that the guest has set is never changed.
"""

import builtins
import importlib
import sys

import cloister
from cloister import aio
from cloister.calls import ServerTools, Tool, Tools
from cloister.catalogue import Library
from cloister.discovery import Discovery
from cloister.errors import KINDS, TRANSACTIONS
from cloister.names import server_identifiers
from cloister.preflight import Preflight

MODULES = ("asyncio", "json", "re", "math", "datetime", "collections", "itertools", "functools")

# Code that uses one of these may read any name.
_DYNAMIC = {"eval", "exec", "globals", "locals", "vars", "dir"}


def _get_ipython():
    """What code of notebooks calls for its lines and for programs."""
    return cloister.shell


_get_ipython.__name__ = _get_ipython.__qualname__ = "get_ipython"


class Namespace:
    def __init__(self, main, channel):
        self._names = vars(main)
        self._channel = channel
        self._library = Library(channel)
        self._library.on_change = self._on_change
        self.preflight = Preflight(self._names, self._library)
        self._ours = {}  # names of tools and servers that were added
        self._wanted = False  # a cell has asked for such a name
        self._later = set()  # modules of MODULES that are not imported yet
        self._waited_for = ()  # servers that did not start in time

    def start(self, display, undo, transaction, install):
        """In the template: adds the names that every session has."""
        self._names.pop("_cloister", None)
        discovery = Discovery(self._library)
        self._names.update((name, sys.modules[name]) for name in MODULES if name in sys.modules)
        self._later = {name for name in MODULES if name not in sys.modules}
        aio.when_loaded(lambda asyncio: self._add_module("asyncio", asyncio))
        self._names.update(KINDS)
        self._names.update(TRANSACTIONS)
        cloister.tools = Tools(self._library, self._channel)
        cloister.display = display
        cloister.undo = undo
        cloister.transaction = transaction
        cloister.install = install
        self._names.update(
            tools=cloister.tools,
            _discover=discovery.discover,
            _search=discovery.search,
            _schema=discovery.schema,
            display=display,
            get_ipython=_get_ipython,
            undo=undo,
            transaction=transaction,
            install=install,
        )

    def _add_module(self, name, module):
        if name in self._later:
            self._later.remove(name)
            self._names.setdefault(name, module)

    def add_modules(self, names=MODULES):
        """Adds the modules that the template has imported meanwhile."""
        for name in self._later.intersection(names):
            try:
                self._add_module(name, aio.load() if name == "asyncio" else importlib.import_module(name))
            except ImportError:
                pass  # the guest's changes broke it: the name stays unset

    def on_catalogue(self, version, payload):
        self._library.on_frame(version, payload)

    def forget_catalogue(self):
        self._library.forget()

    def _on_change(self):
        if self._wanted:
            self._put()

    def prepare(self, needed):
        """Called before a cell runs. needed: the names that it reads and does not set, "*" for any (compiler.py)."""
        have, built_in = self._names, builtins.__dict__
        for name in needed:
            if name not in have and (name not in built_in or name in _DYNAMIC):
                break
        else:
            for name in self._ours:
                if name not in have:  # the guest deleted it
                    self._put()
                    break
            return
        free = needed - have.keys()
        dynamic = not free.isdisjoint(_DYNAMIC)
        if self._later:
            self.add_modules(MODULES if dynamic or "*" in free else free)
        free.difference_update(built_in)
        if self._wanted or free or dynamic:
            self._wanted = True
            self._put()
        if free - self._names.keys() and "*" not in free and not self._library.is_settled():
            self._wait()

    def _wait(self):
        """Waits for servers that are starting, since a name may belong to one of their tools. Later cells do not wait
        for a server that did not start in time."""
        starting = self._library.current().starting()
        if starting and set(starting) <= set(self._waited_for):
            return
        self._waited_for = self._library.settled().starting()
        self._put()

    def _put(self):
        wanted = self._wanted_names()
        for name, value in list(self._ours.items()):
            if name not in wanted:
                del self._ours[name]
                if self._names.get(name) is value:
                    del self._names[name]
        for name, make in wanted.items():
            mine = self._ours.get(name)
            if name in self._names:
                if mine is None or self._names[name] is not mine:
                    self._ours.pop(name, None)
                continue
            if mine is None:
                mine = self._ours[name] = make()
            self._names[name] = mine

    def _wanted_names(self):
        catalogue = self._library.current()
        wanted = {}
        for server in catalogue.servers.values():
            for name in server_identifiers(server.name):
                wanted.setdefault(name, self._maker(ServerTools, server.name))
        for name, entry in catalogue.names.items():
            if not hasattr(builtins, name):
                wanted.setdefault(name, self._maker(Tool, (entry.server, entry.name)))
        return wanted

    def _maker(self, kind, key):
        return lambda: kind(self._library, self._channel, key)
