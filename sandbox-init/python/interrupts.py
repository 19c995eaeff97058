"""SIGINT: the broker's way to stop a cell.

The signal may come at any moment, also while none of the guest's code runs. So the handler looks at the stack:

    guest's code, or a library it called      raise KeyboardInterrupt there
    the event loop, nothing running           cancel the cell's task
    our own code                              remember it; raised at the end of that
    no cell yet, but one on its way           stop it at its start; raise in what keeps it from starting
    no cell at all                            ignore it
"""

import _signal  # what is around it makes enumerations of all its numbers
from _signal import getsignal
from _thread import get_ident

from cloister import aio, sources, traces

_SIGINT = _signal.SIGINT
_GATES = {}  # code object of ours that calls the guest's -> whether that is the loop of a cell


def gate(function):
    """Marks a function of ours that calls the guest's code."""
    _GATES[function.__code__] = False
    return function


def loop_gate(function):
    """The same for the one that runs the event loop."""
    _GATES[function.__code__] = True
    return function


_INTERNAL, _GUEST, _OURS = range(3)


def _classify(frame):
    foreign = False
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if sources.is_cell(filename):
            return _GUEST
        if traces.is_ours(filename):
            looping = _GATES.get(code)
            if looping is None:
                return _OURS
            return _GUEST if foreign or not looping else _INTERNAL
        if not aio.is_loop(filename):
            foreign = True
        frame = frame.f_back
    return _OURS


class Interrupts:
    def __init__(self, core):
        self._core = core
        self._started = False
        self._thread = None
        self._handler = self._handle  # one object, to be known again
        self._wakeup = -1
        self.cell = False  # a cell runs
        self.cancel = None  # stops the cell's task, when it has one
        self.parked = False  # the main thread waits on a lock of ours
        self.arrived = False  # in this cell
        self.pending = False  # and not raised yet
        self.stray = False  # before a cell, and it hit a background task
        self.early = False  # before a cell that was on its way already
        self.owed = lambda: False  # whether a cell is here and has no result yet

    def wake_through(self, fd):
        """The event loop's socket, written at each signal: one that comes just before poll() ends it too."""
        self._wakeup = fd
        try:
            _signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        except Exception:
            pass

    def start(self):
        """In a new worker; until then, in the template and while it forks, the signal means nothing."""
        self._started = True
        self._thread = get_ident()
        self.install()

    def install(self):
        """At the start and before each cell: the guest may have put its own in our place. Returns whether the standard
        descriptors are open, which the same call of the core tells."""
        if getsignal(_SIGINT) is not self._handler:
            try:
                _signal.signal(_SIGINT, self._handler)
                self.wake_through(self._wakeup)
            except Exception:
                pass
        return self._core.begin()

    def begin(self):
        self.arrived = self.pending = False
        self.cancel = None
        self.cell = True
        if self.early:
            self.early = False
            self.arrived = self.pending = True

    def end(self):
        self.cell = self.pending = False
        self.cancel = None

    def in_main_thread(self):
        return get_ident() == self._thread

    def checkpoint(self):
        """Where our code is about to return to the guest's."""
        if self.pending and self.in_main_thread():
            self.pending = False
            raise KeyboardInterrupt

    def _handle(self, number, frame):
        if not self._started:
            return
        if not self._core.ours():
            raise KeyboardInterrupt  # a child: as in any Python
        kind = _classify(frame)
        if not self.cell:
            # What waits in the channel may be the cell that it was sent for.
            if self.owed() or self._core.wait(0):
                self.early = True
                if kind is _GUEST:
                    self.stray = True
                    raise KeyboardInterrupt
            return
        self.arrived = True
        if kind is _GUEST or self._core.waiting() or self.parked:
            raise KeyboardInterrupt
        if self.cancel is not None:
            self.cancel()
        else:
            self.pending = True
