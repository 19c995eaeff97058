"""Calls a function with a module of the image after the module was imported. Finds the stand-in for IPython."""

import sys
from importlib.machinery import ModuleSpec, PathFinder

from cloister.interrupts import calls_guest

_PACKAGES = ("IPython", "IPython.core")
_STAND_IN = _PACKAGES + (
    "IPython.display", "IPython.core.display", "IPython.core.display_functions", "IPython.core.getipython",
    "IPython.core.interactiveshell", "IPython.core.pylabtools",
)


def _replace(module):
    from cloister import ipython

    (ipython.patch_tqdm if module.__name__ == "tqdm.notebook" else ipython.replace)(module)


def _patch_spawn(module):
    from cloister import spawned

    spawned.patch(module)


# Of what is installed: cloister.ipython has them in its own way.
NOTEBOOK = dict.fromkeys(
    ("IPython", "IPython.display", "IPython.core.display", "IPython.core.display_functions", "IPython.core.getipython", "tqdm.notebook"),
    _replace,
)
NOTEBOOK["multiprocessing.spawn"] = _patch_spawn


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


class PatchFinder:
    """Calls a function with a module after its import. patches: {name of the module: function}."""

    def __init__(self, patches):
        self._patches = patches

    def install(self):
        """The first of sys.meta_path. Modules that the profile has imported already are patched now."""
        for name, patch in self._patches.items():
            if name in sys.modules:
                patch(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        patch = self._patches.get(name)
        if patch is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = ImportHook(spec.loader, patch)
        return spec


class IPythonFinder:
    """Finds cloister.ipython for what notebooks import from IPython; the last of sys.meta_path. That module is imported when code
    asks for it, because most sessions do not."""

    def install(self):
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        if name not in _STAND_IN or (name != "IPython" and not hasattr(sys.modules.get("IPython"), "_of_cloister")):
            return None
        return ModuleSpec(name, self, origin="cloister", is_package=name in _PACKAGES)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from cloister import ipython

        ipython.fill(module)
