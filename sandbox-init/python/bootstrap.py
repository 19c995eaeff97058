"""The first Python of Cloister that runs in a template, started by sandbox-init/worker/worker.c: imports the others."""

import builtins
import gc
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER
from marshal import loads

import _cloister


class Embedded:
    """Finds and loads the package `cloister` in the tables of cloister-worker.

    Compiling the modules takes longer than CPython takes to start, so the tables also have their bytecode for each
    CPython that the build found.
    """

    # The guest may replace builtins; these modules keep the original ones.
    builtins = dict(vars(builtins))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package != "cloister" or _cloister.source(module or "__init__") is None:
            return None
        return ModuleSpec(name, cls, origin="cloister", is_package=not module)

    @staticmethod
    def create_module(spec):
        return None

    @classmethod
    def exec_module(cls, module):
        name = module.__name__.partition(".")[2] or "__init__"
        module.__dict__["__builtins__"] = cls.builtins
        exec(cls._code(name), module.__dict__)

    @staticmethod
    def _code(name):
        compiled = _cloister.compiled(name, MAGIC_NUMBER)
        if compiled is not None:
            return loads(compiled)
        return compile(_cloister.source(name), "<cloister>/%s.py" % name, "exec", dont_inherit=True)


sys.meta_path.insert(0, Embedded)
# Nothing imported here is freed: one collection is enough.
gc.disable()
from cloister import template  # noqa: E402

template.main()
