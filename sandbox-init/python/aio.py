"""asyncio, imported on first use.

That takes longer than CPython takes to start, so a template makes its first sessions without. Whoever imports it there,
the guest's code or ours, has it taught by those who asked for that. What these modules need of it they take from here:
what the guest puts in its place is not what we were written for.
"""

import sys

module = None
loading = False  # by Cloister. An interrupt waits until it is imported: a half-imported asyncio cannot be imported again
# Until asyncio is imported, no exception is an instance of this.
CancelledError = Future = Task = ()
_files = ()
_pupils = []


def running_loop():
    """Replaced by asyncio.CancelledError."""


def is_loop(filename):
    """Whether a frame of that file belongs to an event loop."""
    return filename.startswith(_files)


def when_loaded(learn):
    """Calls the function with the module asyncio, now or once it is imported."""
    if module is None:
        _pupils.append(learn)
    else:
        learn(module)


def loaded(asyncio):
    global module, CancelledError, Future, Task, running_loop, _files
    if module is not None:
        return
    import selectors

    CancelledError, Future, Task = asyncio.CancelledError, asyncio.Future, asyncio.Task
    running_loop = asyncio._get_running_loop
    _files = (asyncio.__file__.rpartition("/")[0] + "/", selectors.__file__)
    module = asyncio
    for learn in _pupils:
        learn(asyncio)
    _pupils.clear()


def load():
    global loading
    if module is None:
        loading = True
        try:
            import asyncio
        finally:
            loading = False
        loaded(asyncio)
    return module


if "asyncio" in sys.modules:
    load()
