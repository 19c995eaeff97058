"""The life of a template: what is imported before it serves, and what a worker does first.

Each worker is a fork of it.
"""

import gc
import os
import sys
from importlib.machinery import PathFinder

import _cloister
from cloister import aio, sources
from cloister.import_hook import ImportHook
from cloister.warmup import forget_attributes, repeat

# What most code imports, and what that imports in turn, one after the other: whoever waits for a session waits for one
# of them at most. It is shared by the sessions, so it costs each of them nothing.
PRELOADED = (
    "errno math time types token opcode dis atexit fcntl array warnings operator collections functools itertools"
    " heapq bisect copyreg enum re contextlib io json tokenize linecache traceback ast inspect keyword reprlib copy"
    " weakref string struct binascii base64 select selectors locale signal threading subprocess ipaddress socket"
    " datetime ssl logging concurrent.futures contextvars asyncio dataclasses numbers decimal hashlib random fnmatch"
    " glob grp pwd zlib bz2 lzma shutil tempfile ntpath urllib urllib.parse pathlib pickle queue textwrap typing"
    " mimetypes difflib shlex importlib.util os"
).split()


class Shared:
    """Finds what PRELOADED names as long as a session may lack it: it is the image's also where the working directory
    has a file of that name."""

    def __init__(self):
        self._names = {name.partition(".")[0] for name in PRELOADED}
        self.path = []

    def find_spec(self, name, path=None, target=None):
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, self.path, target)
        lesson = _lesson(name)
        if lesson is not None and spec is not None and spec.loader is not None:
            spec.loader = ImportHook(spec.loader, lesson)
        return spec


def _lesson(name):
    if name == "inspect":
        return sources.teach_inspect
    return aio.loaded if name == "asyncio" and not aio.loading else None


def enable_site(shared):
    """site-packages, .pth files and virtual environments, as without -S; '' as in an interactive Python."""
    import site

    site.main()
    shared.path = list(sys.path)
    sys.meta_path.insert(0, shared)
    # By what site-packages run at the start.
    if "inspect" in sys.modules:
        sources.teach_inspect(sys.modules["inspect"])
    sys.path.insert(0, "")
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]


# Numeric libraries that are told so start no threads of their own, which a fork would not have.
SINGLE_THREADED = "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS BLIS_NUM_THREADS NUMEXPR_NUM_THREADS"


class PreloadError(Exception):
    pass


class Rest:
    """What the template imports when nobody waits for a session, a module a call."""

    def __init__(self, session, shared):
        self._session = session
        self._shared = shared
        self._waiting = PRELOADED[::-1]

    def __call__(self):
        """Returns whether there is more."""
        name = self._next()
        if name is not None:
            _import(name)
            return True
        forget_attributes()
        self._session.complete()
        repeat(after_fork)
        # OpenSSL's generator is then set up: a session has only to reseed it, which writes a quarter of the pages.
        repeat(reseed)
        # Sessions have them all from now on.
        sys.meta_path.remove(self._shared)
        settle()
        return False

    def _next(self):
        while self._waiting:
            name = self._waiting.pop()
            if name not in sys.modules:
                return name
        return None


def _import(name):
    try:
        __import__(name)
    except Exception:
        # An image may lack what a session may never want (an optional C library).
        pass


def settle():
    """What is there now stays: no collection touches it, so that the sessions go on sharing it."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def preload_wanted(names):
    """What the profile names. One that fails fails the template: its sessions count on it."""
    alone = [name for name in SINGLE_THREADED.split() if name not in os.environ] if names else []
    os.environ.update(dict.fromkeys(alone, "1"))
    for name in names:
        try:
            __import__(name)
        except BaseException as e:
            raise PreloadError("%s: %s: %s" % (name, type(e).__name__, e)) from None
        if len(os.listdir("/proc/self/task")) > 1:
            raise PreloadError("%s: it starts threads, which no session would have" % name)
    for name in alone:
        del os.environ[name]
    os.chdir("/")


def after_fork():
    """What CPython's modules will do in each worker. A process of one thread is none the worse for it."""
    sys.modules["threading"]._after_fork()
    sys.modules["logging"]._after_at_fork_child_reinit_locks()
    sys.modules["random"].seed()


SEEDED = "_ssl", "numpy.random", "tempfile", "multiprocessing.process"


def reseed():
    """Sessions are copies of one process: nothing that one of them draws may be what another draws. `random` does so
    by itself."""
    ssl, numbers, tempfile, processes = map(sys.modules.get, SEEDED)
    if ssl is not None:
        # OpenSSL knows a fork by the number of the process, and ours may have the template's.
        ssl.RAND_add(os.urandom(32), 32.0)
    if tempfile is not None:
        tempfile._name_sequence = None
    try:
        if processes is not None:
            processes.current_process().authkey = os.urandom(32)
        if numbers is not None:
            numbers.seed()
    except Exception:
        # One that is half loaded, or another of that name: what it draws is not ours to promise.
        pass


def main():
    shared = Shared()
    enable_site(shared)
    from cloister import session

    preload_wanted(_cloister.preload().split())
    worker = session.Session(_cloister)
    os.register_at_fork(after_in_child=_cloister.forked)
    sys.modules.pop("_cloister", None)
    gc.freeze()
    gc.enable()
    _cloister.serve(Rest(worker, shared))
    reseed()
    worker.run()
