"""SIGINT, with which the broker stops a cell.

The signal may come at any moment, also while no code of the guest runs. The handler decides by the stack:

    code of the guest, or a library it called   raise KeyboardInterrupt there
    the event loop, with no task running        cancel the cell's task
    a task of an earlier cell                   the same; if it still runs at the reminder, raise KeyboardInterrupt there
    Cloister's own code                         raise KeyboardInterrupt when that code returns to the guest's
    a block fails, and its copy continues       the same, also while that code waits
    no cell runs, but one is in the channel     interrupt it when it starts, and a background task at once
    no cell runs and none is in the channel     ignore the signal

The interpreter calls the handler between two instructions of a program, or when the signal has ended a system call. If the
signal comes after the last instruction and before the call, the call waits as long as it would without the signal. A
finalizer may drop the exception of the handler too, because it has no caller. So the broker reminds the worker while the cell has
not ended, by SIGURG. That ends a system call as well, and its handler does what SIGINT should have done, unless it was done.
The code thus gets KeyboardInterrupt once, and its own handler is never called twice. Code that uses SIGURG itself is not
reminded.
"""

import sys

import _signal  # the module signal would import enum and make enumerations
from _signal import getsignal
from _thread import _count as threads_count
from _thread import get_ident
from sys import _current_frames

from cloister import aio, sources, tracebacks

_SIGINT, _REMIND = _signal.SIGINT, _signal.SIGURG  # rpc/sandbox-messages.h
_ENTRIES = {}  # code object of Cloister's that calls the guest's code -> whether it runs the event loop


def calls_guest(function):
    """Marks a function of Cloister's that calls code of the guest."""
    _ENTRIES[function.__code__] = False
    return function


def runs_loop(function):
    """The same for a function that runs the event loop."""
    _ENTRIES[function.__code__] = True
    return function


_INTERNAL, _GUEST, _OURS = range(3)


def _classify(frame):
    foreign = False
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if sources.is_cell(filename):
            return _GUEST
        if tracebacks.is_ours(filename):
            looping = _ENTRIES.get(code)
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
        self._thread = None
        self._handler = self._handle  # one object, so that install() can compare it
        self._wakeup = -1
        self.threads = ()  # that exist when a cell begins
        self.cell = False  # a cell runs
        self.task = self.cancel = None  # the cell's task and what cancels it, when it has one
        self.number = None  # of the cell, when it has a task
        self.parked = False  # the main thread waits on a lock of Cloister's
        self.uninterruptible = False  # a frame that is sent, or waited for, must not be interrupted
        self.arrived = False  # in this cell
        self.pending = False  # arrived, and KeyboardInterrupt was not raised yet
        self.raised = False  # arrived, and KeyboardInterrupt was raised
        self.cancelled = False  # arrived, and the cell's task was cancelled
        self.spared = False  # arrived while a task of an earlier cell ran, and was not raised there
        self.stray = False  # arrived before a cell, and was raised in a background task
        self.early = False  # arrived before a cell that was still in the channel
        self.owed = lambda: False  # whether a cell was received and has no result yet

    def wake_through(self, fd):
        """Sets the event loop's socket to be written at each signal, so that a signal just before poll() ends it too."""
        self._wakeup = fd
        try:
            _signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        except Exception:
            pass

    def start(self):
        """In the template, or in a worker whose template has not done it. In a template the signals are ignored."""
        self._thread = get_ident()
        sys.unraisablehook = self.note_dropped
        _signal.signal(_REMIND, self._remind)
        self.install()

    def install(self):
        """Installs the handler, at the start and before each cell, because the guest may have replaced it. Returns
        whether the standard descriptors are open, which the same call of the core checks."""
        if getsignal(_SIGINT) is not self._handler:
            try:
                _signal.signal(_SIGINT, self._handler)
                self.wake_through(self._wakeup)
            except Exception:
                pass
        return self._core.begin()

    def end_threads(self):
        """Ends the threads that an interrupted cell has started, as soon as they run Python code. Stops interval timers."""
        for timer in _signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF:
            _signal.setitimer(timer, 0)
        if threads_count() == 0:
            return
        try:
            from ctypes import c_ulong, py_object, pythonapi

            for ident in set(_current_frames()) - self.threads:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(ident), py_object(SystemExit))
        except Exception:
            pass  # the image has no ctypes, or the guest has changed it

    def begin(self):
        self.threads = set(_current_frames()) if threads_count() else {get_ident()}
        self.arrived = self.pending = self.raised = self.cancelled = self.spared = False
        self.task = self.cancel = None
        self.cell = True
        if self.early:
            self.early = False
            self.arrived = self.pending = True

    def end(self):
        self.cell = self.pending = self.raised = self.cancelled = False
        self.task = self.cancel = None

    def in_main_thread(self):
        return get_ident() == self._thread

    def checkpoint(self):
        """Called where Cloister's code returns to the guest's."""
        if self.pending and self.in_main_thread():
            self._raise()

    def _raise(self):
        self.pending = False
        self.raised = True
        raise KeyboardInterrupt

    def _handle(self, number, frame):
        if self._core.in_template():
            return
        if not self._core.ours():
            raise KeyboardInterrupt  # a child: as in any Python
        kind = _classify(frame)
        if not self.cell:
            # The signal may be meant for a cell that is still in the channel.
            if self.owed() or self._core.wait(0):
                self.early = True
                if kind is _GUEST:
                    self.stray = True
                    raise KeyboardInterrupt
            return
        self.arrived = True
        if kind is _GUEST and self.cancel is not None and not self.spared and aio.cell.get(self.number) != self.number:
            self.spared = self.cancelled = self.cancel()
        elif kind is _GUEST or ((self._core.waiting() or self.parked) and not self.uninterruptible):
            self._raise()
        elif self.spared:
            pass
        elif self.cancel is not None:
            self.cancelled = self.cancel()
        else:
            self.pending = True

    def _is_noticed(self):
        """Whether the code has got the interrupt, or gets it without a further signal. A task that was cancelled while it
        ran gets it when it waits next."""
        if self.spared and not self.raised:
            return self.task is None
        return self.raised or (self.cancelled and not getattr(self.task, "_must_cancel", False))

    def _remind(self, number, frame):
        if self._core.in_template() or not self._core.ours() or self._is_noticed():
            return
        # Code that handles SIGINT itself, or blocks it, does with it what it likes.
        if getsignal(_SIGINT) is self._handler and _SIGINT not in _signal.sigpending():
            self._handle(number, frame)

    def note_dropped(self, unraisable):
        """As sys.unraisablehook."""
        if unraisable.exc_type is KeyboardInterrupt and self.in_main_thread():
            self.raised = False
        sys.__unraisablehook__(unraisable)
