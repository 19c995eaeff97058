"""Objects that wait for threads and processes which a copy of the worker lacks (docs/cells.md).

Objects of the standard library are changed, so that they say what happened where they would wait forever.
"""

import gc
import sys

_SIGKILL = 9
_THREADS = "concurrent.futures.thread"
_GONE = "its thread is gone: the interpreter was restored"


_MAX_KINDS = 100  # of classes and subclasses that are searched


def _kinds(table, classes):
    """{id of a class: what is done with its instances}, of modules that were imported; adds the classes to a list. A class
    is not asked itself, because its metaclass may be the guest's."""
    found = {}
    for module, name, act in table:
        waiting = [getattr(sys.modules.get(module), name, None)]
        while waiting and len(found) < _MAX_KINDS:
            kind = waiting.pop()
            if issubclass(type(kind), type):
                classes.append(kind)
                found.setdefault(id(kind), []).append(act)
                waiting += type.__subclasses__(kind)
    return found


def _end_process(process, _):
    """subprocess.Popen and multiprocessing's: poll() would return 0 or None, because it is not a child of this process."""
    if process.returncode is None:
        process.returncode = -_SIGKILL


def _adopt(process, pids):
    """multiprocessing.Process: only its parent may ask it."""
    before, now = pids
    if process._parent_pid == before:
        process._parent_pid = now


def _end_pool(pool, _):
    """multiprocessing.Pool: its threads hand out the work."""
    pool._state = "TERMINATE"


def _end_executor(executor, _):
    """ProcessPoolExecutor: submit() raises BrokenProcessPool."""
    executor._broken = _GONE


def _renew_executor(executor, _):
    """ThreadPoolExecutor: starts new threads when they are needed."""
    threading = sys.modules["threading"]
    executor._threads = set()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._shutdown_lock = threading.Lock()
    executor._work_queue = type(executor._work_queue)()


def _await_process(transport, _):
    """A process of asyncio, where a thread waits for it. Where the loop does, the loop finds that it has ended."""
    if transport._returncode is None and sys.version_info < (3, 12):
        transport._process_exited(-_SIGKILL)


def _renew_item(item, _):
    """What a thread runs, or what waits for one. The thread may have held the lock of the future."""
    item.future._condition = sys.modules["threading"].Condition()


def _fail_item(item, _):
    if not item.future.done():
        item.future.set_exception(RuntimeError(_GONE))


# (module, class, what is done)
_AT_ONCE = (
    ("subprocess", "Popen", _end_process),
    ("multiprocessing.popen_fork", "Popen", _end_process),
    ("multiprocessing.process", "BaseProcess", _adopt),
    ("multiprocessing.pool", "Pool", _end_pool),
    ("concurrent.futures.process", "ProcessPoolExecutor", _end_executor),
    (_THREADS, "ThreadPoolExecutor", _renew_executor),
    (_THREADS, "_WorkItem", _renew_item),
)
# Callbacks of the guest may run.
_LATER = (
    (_THREADS, "_WorkItem", _fail_item),
    ("asyncio.base_subprocess", "BaseSubprocessTransport", _await_process),
)


def _try(act, thing, pids):
    try:
        act(thing, pids)
    except Exception:
        pass  # the guest has changed it, or another version of Python has other internals


class Lost:
    """What a copy lacks: threads and processes are their numbers when it was made."""

    def __init__(self, threads, processes, pid):
        self.threads, self.processes = threads, processes
        self._pid = pid  # of the worker then
        self._later = []

    def mark(self, pid):
        """In a copy that has become the worker."""
        if not (self.threads or self.processes or "multiprocessing.process" in sys.modules):
            return
        classes = []
        at_once, later = (_kinds([row for row in table if self.threads or row[0] != _THREADS], classes) for table in (_AT_ONCE, _LATER))
        # An object refers to its class: this finds those of a million in 20 ms, where a list of all would take memory.
        for thing in gc.get_referrers(*classes):
            kind = id(type(thing))
            for act in at_once.get(kind, ()):
                _try(act, thing, (self._pid, pid))
            self._later += [(act, thing) for act in later.get(kind, ())]

    def settle(self):
        """Informs those who wait, once the broker may send frames: callbacks of the guest may run."""
        later, self._later = self._later, []
        for act, thing in later:
            _try(act, thing, None)
