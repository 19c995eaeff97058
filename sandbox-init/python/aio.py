"""asyncio, imported on first use.

Importing asyncio takes longer than CPython takes to start, so a template forks its first workers without it. Whether
the guest's code or ours imports it, the functions registered with when_loaded() are called then. The modules of this
package get asyncio from here, because the guest may replace the module in sys.modules.
"""

import sys
from contextvars import ContextVar

module = None
loading = False  # by Cloister. An interrupt waits until it is imported: a half-imported asyncio cannot be imported again
# Until asyncio is imported, no exception is an instance of this.
CancelledError = Future = Task = ()
cell = ContextVar("cloister_cell")  # the number of the cell by which a task or a callback was made
_files = ()
_callbacks = []


def running_loop():
    """Replaced by asyncio.CancelledError."""


def is_loop(filename):
    """Whether a frame of that file belongs to an event loop."""
    return filename.startswith(_files)


def when_loaded(callback):
    """Calls the function with the module asyncio, now or once it is imported."""
    if module is None:
        _callbacks.append(callback)
    else:
        callback(module)


def loaded(asyncio):
    global module, CancelledError, Future, Task, running_loop, _files
    if module is not None:
        return
    import selectors

    CancelledError, Future, Task = asyncio.CancelledError, asyncio.Future, asyncio.Task
    running_loop = asyncio._get_running_loop
    _files = (asyncio.__file__.rpartition("/")[0] + "/", selectors.__file__)
    module = asyncio
    for callback in _callbacks:
        callback(asyncio)
    _callbacks.clear()


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
