"""A worker's life: a cell, its result, and the background tasks until the next."""

import builtins
import sys
from collections import deque
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from os import _exit, environ

import __main__
from cloister import aio, sources, stdio, traces
from cloister.cell import Cells, Outcome, describe, describe_exit, describe_plainly
from cloister.channel import RESULT, Channel
from cloister.display import Displays
from cloister.exact import decode, encode_own
from cloister.files import Files
from cloister.interrupts import Interrupts
from cloister.loops import Loops
from cloister.namespace import Namespace
from cloister.warmup import repeat

# Address space given up when memory has run out, so that there is some for the result and the cell that cleans up.
# Never touched, so it costs no memory.
RESERVE = 4 * 1024 * 1024
SPARE_BELOW_CHANNEL = 8  # where stdio's copies go: out of the way of what code opens
PAUSE_MS = 3  # a worker that was made for a call gets its first cell earlier
WARM_UP_CELL = b"1+1\0<cell 1>"

_BUSY = "the cell did not start: a background task of an earlier cell kept the interpreter busy"


def _read(payload):
    """(source, file name or "") of an EXEC."""
    source, _, filename = payload.decode("utf-8", "replace").rpartition("\0")
    return source, filename


def _forget_warm_up():
    """Removes what a dummy cell leaves behind."""
    vars(builtins).pop("_", None)
    sources.forget()


class Session:
    """Made in the template, run in each worker. core: the module _cloister."""

    def __init__(self, core):
        self._core = core
        self._cells_waiting = deque()
        self._current = None  # the cell whose result is owed
        self._interrupts = Interrupts(core)
        self._channel = Channel(core, self._interrupts)
        self._channel.on_exec = self._on_exec
        self._loops = Loops(self._channel, self._interrupts)
        self._namespace = Namespace(__main__, self._channel)
        self._channel.on_catalogue = self._namespace.on_catalogue
        self._files = Files(core)
        self._channel.on_file = self._files.answer
        self._displays = Displays(self._channel, self._files, self._interrupts)
        self._cells = Cells(vars(__main__), self._loops, self._interrupts)
        self._reserve = None
        self._interrupts.owed = lambda: self._current is not None or bool(self._cells_waiting)
        aio.when_loaded(self._loops.teach)
        self._namespace.start(self._displays.display)
        self._displays.figures.install()
        environ.setdefault("MPLBACKEND", "Agg")
        self._interrupts.install()

    def complete(self):
        """In the template, once it has imported all that it will."""
        self._namespace.add_modules()
        for prepare in stdio.prepare, self._loops.prepare, self._keep_reserve:
            try:
                prepare()
            except Exception:
                pass  # what is not prepared each session does by itself
        repeat(self._warm_up)

    def _warm_up(self):
        """Runs a dummy cell through the same code as any other; its result is dropped."""
        try:
            self._core.warm_up(WARM_UP_CELL, self._turn)
        finally:
            _forget_warm_up()

    def run(self):
        """Never returns: the process ends with its channel."""
        stdio.start(max(3, self._core.fileno() - SPARE_BELOW_CHANNEL))
        self._interrupts.start()
        self._files.start()
        self._warm_up_idle()
        while True:
            self._turn()

    def _warm_up_idle(self):
        """If no cell waits yet, the worker warms up, so that the pages that a cell writes to are its own."""
        if self._core.wait(PAUSE_MS):
            return
        try:
            self._warm_up()
        except BaseException:
            pass  # the first cell reports what is wrong
        # An interrupt that came meanwhile is for the first cell, if that is on its way already.
        self._interrupts.early |= self._interrupts.arrived

    def _turn(self):
        """Waits for a cell and answers it."""
        # What the guest left behind (a signal handler that raises, say) may strike anywhere below.
        try:
            self._keep_reserve()
            number, payload = self._next()
            self._execute(number, payload)
        except BaseException as error:
            self._interrupts.end()
            if not self._core.ours():
                self._leave_child(Outcome(error=error))
            if self._current is not None:
                self._send(Outcome(error=error))

    def _keep_reserve(self):
        try:
            if self._reserve is None:
                self._reserve = mmap(-1, RESERVE, MAP_PRIVATE | MAP_ANONYMOUS)
        except (MemoryError, OSError):
            pass  # the guest holds all there is; the next cell may release it

    def _on_exec(self, number, payload):
        self._cells_waiting.append((number, payload))
        self._loops.stop_idling()

    def _next(self):
        while not self._cells_waiting:
            if self._interrupts.early or self._interrupts.stray:
                self._channel.pump()
                if self._cells_waiting:
                    break
                self._interrupts.early = self._interrupts.stray = False
            self._idle()
        return self._cells_waiting.popleft()

    def _idle(self):
        try:
            if not self._loops.is_needed():
                self._core.wait(-1)
                self._channel.pump()
            elif not self._loops.rest():
                self._loops.run_idle(lambda: self._cells_waiting)
        except KeyboardInterrupt:
            stdio.complain("cloister: a background task was interrupted\n")
        except SystemExit:
            stdio.complain("cloister: a background task called sys.exit()\n")
        except BaseException:
            # The guest has broken asyncio. Cells without await still work.
            if not self._core.ours():
                _exit(1)
            self._core.wait(-1)
            self._channel.pump()
        if not self._core.ours():
            self._leave_child(Outcome())

    def _execute(self, number, payload):
        self._current = number
        if payload is None:
            raise MemoryError("no memory for the code")
        source, filename = _read(payload)
        if self._interrupts.stray:
            self._interrupts.stray = self._interrupts.early = False
            raise RuntimeError(_BUSY)
        self._loops.adopt()
        stdio.restore(self._interrupts.install())
        arguments = ["" if filename[:1] == "<" else filename]
        if sys.argv != arguments:
            sys.argv[:] = arguments
        self._interrupts.begin()
        self._displays.begin(number)
        outcome = self._cells.run(source, filename, self._namespace.prepare)
        if not self._core.ours():
            self._leave_child(outcome)
        if isinstance(outcome.error, MemoryError) and self._reserve is not None:
            self._reserve.close()
            self._reserve = None
        else:
            outcome = self._finish(outcome)
        self._send(outcome)

    def _finish(self, outcome):
        """The guest's code once more: an interrupt may end it."""
        try:
            self._displays.figures.finish()
        except BaseException as error:
            return outcome if outcome.error else Outcome(error=error)
        return outcome

    def _send(self, outcome):
        described = payload = None
        try:
            payload = describe_plainly(outcome)
            if payload is None:
                described = describe(outcome, self._interrupts.arrived)
            if not stdio.flush(self._core):
                stdio.restore_descriptors()
        except KeyboardInterrupt as error:
            described = describe(Outcome(error=error), True)
        except BaseException as error:
            described = self._last_words(outcome.error or error)
        self._displays.end()
        try:
            files, total = self._files.changed()
        except Exception:
            total = 0  # the guest holds all descriptors or memory that there are
        if total:
            described = described or decode(payload)
            described.update(files=files, files_total=total)
        self._interrupts.end()
        number, self._current = self._current, None
        self._core.send(RESULT, number, encode_own(described) if described else payload)

    @staticmethod
    def _last_words(error):
        name = traces.printable(type(error).__qualname__)
        return {
            "status": "error",
            "error": {"type": name, "message": "", "traceback": name + "\n"},
        }

    def _leave_child(self, outcome):
        """A fork of the guest's that ran to the end of the cell: it ends as a script would."""
        code = 0
        if isinstance(outcome.error, SystemExit):
            code = describe_exit(outcome.error).get("exit_code", 0)
        elif outcome.error is not None:
            stdio.complain(traces.describe(outcome.error)["traceback"])
            code = 1
        stdio.flush(self._core)
        _exit(code)


