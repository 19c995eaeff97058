"""Boots the interpreter of a template; each worker is a fork of it (sandbox-init/worker/worker.c runs this)."""

import builtins
import gc
import sys

import _cloister

# What most code imports. It is shared by all sessions, so it costs each of them nothing.
PRELOADED = (
    "asyncio base64 bisect collections concurrent.futures contextlib copy dataclasses datetime decimal enum functools"
    " hashlib heapq importlib.util inspect io itertools json linecache logging math operator os pathlib pickle queue"
    " random re shutil signal string struct subprocess tempfile textwrap threading time traceback types typing"
    " urllib.parse warnings"
)


class Embedded:
    """Finds and loads the package `cloister` in the tables of cloister-worker."""

    # The guest may put anything in the place of a builtin; these modules keep what they were written for.
    builtins = dict(vars(builtins))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package != "cloister" or _cloister.source(module or "__init__") is None:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, cls, origin="cloister", is_package=not module)

    @staticmethod
    def create_module(spec):
        return None

    @classmethod
    def exec_module(cls, module):
        name = module.__name__.partition(".")[2] or "__init__"
        code = compile(_cloister.source(name), "<cloister>/%s.py" % name, "exec", dont_inherit=True)
        module.__dict__["__builtins__"] = cls.builtins
        exec(code, module.__dict__)


def enable_site():
    """site-packages, .pth files and virtual environments, as without -S; '' as in an interactive Python."""
    import site

    site.main()
    sys.path.insert(0, "")
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]


def preload():
    for name in PRELOADED.split():
        try:
            __import__(name)
        except ImportError:
            # An image may lack what a session may never want (an optional C library).
            pass


def main():
    enable_site()
    preload()
    sys.meta_path.insert(0, Embedded)
    from cloister import session

    worker = session.Session(_cloister)
    sys.modules.pop("_cloister", None)
    gc.collect()
    gc.freeze()
    _cloister.serve()
    worker.run()


main()
