"""Calls a function with a module of the image after the module was imported."""

from cloister.interrupts import calls_guest


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
