"""The life of a template: what is imported before it serves, and what a worker does first.

Each worker is a fork of it.
"""

import gc
import os
import sys

import _cloister

# What most code imports. It is shared by all sessions, so it costs each of them nothing.
PRELOADED = (
    "asyncio base64 bisect collections concurrent.futures contextlib copy dataclasses datetime decimal enum functools"
    " hashlib heapq importlib.util inspect io itertools json linecache logging math operator os pathlib pickle queue"
    " random re shutil signal string struct subprocess tempfile textwrap threading time traceback types typing"
    " urllib.parse warnings"
)


def enable_site():
    """site-packages, .pth files and virtual environments, as without -S; '' as in an interactive Python."""
    import site

    site.main()
    sys.path.insert(0, "")
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]


# Numeric libraries that are told so start no threads of their own, which a fork would not have.
SINGLE_THREADED = "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS BLIS_NUM_THREADS NUMEXPR_NUM_THREADS"


class PreloadError(Exception):
    pass


def preload():
    for name in PRELOADED.split():
        try:
            __import__(name)
        except ImportError:
            # An image may lack what a session may never want (an optional C library).
            pass


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


def reseed():
    """Sessions are copies of one process: nothing that one of them draws may be what another draws. `random` does so
    by itself."""
    ssl, numbers, tempfile = (sys.modules.get(name) for name in ("_ssl", "numpy.random", "tempfile"))
    if ssl is not None:
        # OpenSSL knows a fork by the number of the process, and ours may have the template's.
        ssl.RAND_add(os.urandom(32), 32.0)
    if tempfile is not None:
        tempfile._name_sequence = None
    try:
        if numbers is not None:
            numbers.seed()
    except Exception:
        # A numpy that is half loaded, or none: what it draws is not ours to promise.
        pass


def main():
    enable_site()
    preload()
    from cloister import session

    preload_wanted(_cloister.preload().split())
    worker = session.Session(_cloister)
    os.register_at_fork(after_in_child=_cloister.forked)
    sys.modules.pop("_cloister", None)
    gc.collect()
    gc.freeze()
    _cloister.serve()
    reseed()
    worker.run()

