"""Something to be done with a module of the image when it is imported."""

from cloister.interrupts import gate


class ImportHook:
    """The loader of a module, and then a function of the module."""

    def __init__(self, loader, teach):
        self._loader = loader
        self._teach = teach

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._execute(module)
        self._teach(module)

    @gate
    def _execute(self, module):
        self._loader.exec_module(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)
