"""The template, from which each worker is forked: its imports, and the first steps of a new worker."""

import gc
import os
import sys
from importlib.machinery import PathFinder

import _cloister
from cloister import aio, container, fork_hooks, own_files, placement, sources
from cloister.import_hook import ImportHook
from cloister.warmup import clear_type_cache, run_repeatedly

# Modules that most code imports, each after its own imports. They are imported one by one, so that a request for a
# session waits for at most one import. Sessions share their memory.
PRELOADED = (
    "errno math time types token opcode dis atexit fcntl array warnings operator collections functools itertools"
    " heapq bisect copyreg enum re contextlib io json tokenize linecache traceback ast inspect keyword reprlib copy"
    " weakref string struct binascii base64 select selectors locale signal threading subprocess ipaddress socket"
    " datetime ssl logging concurrent.futures contextvars asyncio dataclasses numbers decimal hashlib random fnmatch"
    " glob grp pwd zlib bz2 lzma shutil tempfile ntpath urllib urllib.parse pathlib pickle queue textwrap typing"
    " mimetypes difflib shlex importlib.util os"
).split()


class Shared:
    """A finder for the modules of PRELOADED that are not imported yet. It finds those of the image even if the working
    directory has a file of that name."""

    def __init__(self):
        self._names = {name.partition(".")[0] for name in PRELOADED}
        self.path = []

    def find_spec(self, name, path=None, target=None):
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, self.path, target)
        patch = _patch_of(name)
        if patch is not None and spec is not None and spec.loader is not None:
            spec.loader = ImportHook(spec.loader, patch)
        return spec


def _patch_of(name):
    """The function that patches this module when it is imported, or None."""
    if name == "inspect":
        return sources.patch_inspect
    return aio.loaded if name == "asyncio" and not aio.loading else None


def enable_site(shared):
    """Adds site-packages, .pth files and virtual environments, as Python does without -S, and '' to sys.path, as an
    interactive Python does."""
    import site

    site.main()
    shared.path = list(sys.path)
    sys.meta_path.insert(0, shared)
    # If a .pth file or sitecustomize imported it.
    if "inspect" in sys.modules:
        sources.patch_inspect(sys.modules["inspect"])
    sys.path.insert(0, "")
    sys.argv[:] = [""]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]


# With these set to 1, numeric libraries start no threads. A fork would not have them.
SINGLE_THREADED = "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS BLIS_NUM_THREADS NUMEXPR_NUM_THREADS"


# With these, libraries start no housekeeping threads, and pools wait soon after their work: a thread that computes keeps a session from being copied.
# `--env` may set them to other values.
THREADLESS = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's jemalloc
    "_RJEM_MALLOC_CONF": "background_thread:false",  # that of polars
    "GOMP_SPINCOUNT": "20000",  # GNU's OpenMP (scikit-learn): about 1 ms instead of 20
    "OPENBLAS_THREAD_TIMEOUT": "20",  # numpy's OpenBLAS: 2**20 cycles instead of some 20 ms
}


class PreloadError(Exception):
    pass


class Rest:
    """The work of an idle template: one import for each call, and the warm-up in the last one."""

    def __init__(self, session, shared):
        self._session = session
        self._shared = shared
        # Functions that a worker has to call: [1] if its pid is that of each worker, [0] otherwise.
        self.steps = [(reseed, session.start, session.warm_up_idle)] * 2
        self._waiting = PRELOADED[::-1]

    def __call__(self):
        """Returns whether there is more."""
        name = self._next()
        if name is not None:
            _import(name)
            return True
        clear_type_cache()
        # All of PRELOADED is imported from now on.
        sys.meta_path.remove(self._shared)
        # Initializes OpenSSL's random generator.
        reseed()
        self._session.complete()
        if self._session.has_started:
            self.steps[1] = *renewals(), self._session.warm_up_idle
        settle()
        placement.fill()
        self._make_image()
        _cloister.inherit()
        return False

    def _make_image(self):
        """Workers inherit page tables of memory that a cell uses. The rest of the heap becomes a file, for which they need none."""
        error = _cloister.begin_image()
        for step in self.steps[1][:-1] if self._session.has_started else ():
            step()
        self._session.rehearse()
        error = _cloister.end_image() or error
        if error:
            print("cloister: sessions copy all page tables of their template:", os.strerror(error), file=sys.stderr, flush=True)

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
        pass  # an image may lack an optional C library, and sessions may never need it


def settle():
    """Exempts all existing objects from garbage collection, which would write to their pages."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def limit_threads():
    """Call before code of the image can import a library. Returns the variables that it set for the template only."""
    for name, value in THREADLESS.items():
        os.environ.setdefault(name, value)
    alone = [name for name in SINGLE_THREADED.split() if name not in os.environ]
    os.environ.update(dict.fromkeys(alone, "1"))
    return alone


def unlimit_threads(alone):
    """Sessions do not have the variables. What a .pth file has set to another value stays."""
    for name in alone:
        if os.environ.get(name) == "1":
            del os.environ[name]


def check_threads(who):
    if len(os.listdir("/proc/self/task")) > 1:
        raise PreloadError("%s: it starts threads, which no session would have: start them in the code of a session"
                           " (a numeric library starts none with OMP_NUM_THREADS=1)" % who)


def preload_wanted(names):
    """Imports the modules that the profile names. If one fails, the template fails: its sessions rely on them."""
    for name in names:
        try:
            __import__(name)
        except BaseException as e:
            raise PreloadError("%s: %s: %s" % (name, type(e).__name__, e)) from None
        check_threads(name)
    os.chdir("/")


SEEDED = "_ssl", "numpy.random", "tempfile", "multiprocessing.process", "random", "threading"
_own = os.getpid()  # of the template
WORKER = 2  # the pid of each worker in its namespace (sandbox-init/init/init.h)


def _renew(module, act):
    try:
        if module is not None:
            act(module)
    except Exception:
        pass  # a module that is half imported, or another one of that name


def reseed():
    """In a new worker. Sessions are copies of one process, and must not generate the same random numbers. fork_hooks.py says
    which hooks of a fork they do not run."""
    ssl, numbers, tempfile, processes, standard, threading = map(sys.modules.get, SEEDED)
    # OpenSSL detects a fork by the pid: it seeds its generator again before its next number. Doing it here writes 95 pages.
    if ssl is not None and os.getpid() == _own:
        ssl.RAND_add(os.urandom(32), 32.0)
    if tempfile is not None:
        tempfile._name_sequence = None
    _renew(standard, _seed)
    _renew(numbers, _seed)
    _renew(processes, _set_key)
    _renew(threading, _set_id)


def _seed(module):
    module.seed()


def _set_key(processes):
    processes.current_process().authkey = os.urandom(32)


def _set_id(threading):
    threading.main_thread()._set_native_id()


def renewals():
    """In a template, after reseed(): the functions that do the same in its workers, and write to fewer pages if they can."""
    random = sys.modules.get("random")
    try:
        generator = random._inst
        if _own == WORKER or fork_hooks.are_needed() or "numpy.random" in sys.modules or "multiprocessing.process" in sys.modules:
            return (reseed,)
        if type(generator) is not random.Random or random.seed != generator.seed:
            return (reseed,)
        sys.modules["threading"].main_thread()._native_id = WORKER
        return (super(random.Random, generator).seed,)
    except Exception:
        return (reseed,)  # modules of the image have replaced these


def main():
    fork_hooks.install(_cloister.need_fork_hooks)
    own_files.install(_cloister)
    shared = Shared()
    alone = limit_threads()
    enable_site(shared)
    check_threads("a .pth file or sitecustomize of the image")
    # glibc maps a block that is larger than the largest that was freed, 128 KiB at first, and unmaps it: each recv(1 << 20) would
    # fault its pages in again.
    bytes(2 << 20)
    placement.fill()
    from cloister import session

    preload_wanted(_cloister.preload().split())
    unlimit_threads(alone)
    folder = container.apply()
    placement.fill()
    worker = session.Session(_cloister)
    os.register_at_fork(after_in_child=_cloister.forked)
    sys.modules.pop("_cloister", None)
    gc.freeze()
    gc.enable()
    rest = Rest(worker, shared)
    steps, turn = rest.steps, worker.turn
    for step in steps[_cloister.serve(rest)]:
        step()
    if folder:
        container.enter(folder)
    while True:  # the process ends with its channel
        turn()
