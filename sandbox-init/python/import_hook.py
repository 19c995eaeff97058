"""Calls a function with a module of the image after the module was imported. Finds the stand-in for IPython."""

import sys
from importlib.machinery import ModuleSpec, PathFinder

from cloister.interrupts import calls_guest

_STAND_IN = ("IPython", "IPython.display", "IPython.core", "IPython.core.display")


class ImportHook:
    """Wraps the loader of a module. callback: called with the module after its code has run."""

    def __init__(self, loader, callback):
        self._loader = loader
        self._callback = callback

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._execute(module)
        self._callback(module)

    @calls_guest
    def _execute(self, module):
        self._loader.exec_module(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class SqliteFinder:
    """Has the worker hook SQLite when the module is loaded. The first of sys.meta_path."""

    def __init__(self, core):
        self._core = core

    def install(self):
        sys.meta_path.insert(0, self)

    def hook(self, module):
        if getattr(module, "__file__", None):
            self._core.hook_sqlite(module.__file__)

    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "_sqlite3" else None
        if spec is not None and spec.loader is not None:
            spec.loader = ImportHook(spec.loader, self.hook)
        return spec


class IPythonFinder:
    """Finds cloister.ipython for what notebooks import from IPython; the last of sys.meta_path. That module is imported when code
    asks for it, because most sessions do not."""

    def install(self):
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        if name not in _STAND_IN or (name != "IPython" and not hasattr(sys.modules.get("IPython"), "_of_cloister")):
            return None
        return ModuleSpec(name, self, origin="cloister", is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from cloister import ipython

        ipython.fill(module)
