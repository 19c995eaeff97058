"""The main loop of a worker: runs cells, sends their results, and runs background tasks in between."""

import builtins
import sys
from collections import deque
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from os import _exit, environ

import __main__
from cloister import aio, sources, stdio, tracebacks
from cloister.cell import Cells, Outcome, describe, describe_exit, describe_plainly
from cloister.channel import RESULT, Channel
from cloister.display import Displays
from cloister.exact import decode, encode_own
from cloister.files import Files
from cloister.interrupts import Interrupts
from cloister.main_loop import MainLoop
from cloister.namespace import Namespace
from cloister.published import Published
from cloister.warmup import run_repeatedly

# Address space that is released when a cell has run out of memory, so that the result and a next cell that cleans up
# have some. It is never written to, so it takes no memory.
RESERVE = 4 * 1024 * 1024
SPARE_BELOW_CHANNEL = 8  # descriptors below the channel, for stdio's copies: code that counts up does not meet them
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
    """Created in the template, run in each worker. core: the module _cloister."""

    def __init__(self, core):
        self._core = core
        self._cells_waiting = deque()
        self._current = None  # the cell that runs or whose result was not sent yet
        self._interrupts = Interrupts(core)
        self._channel = Channel(core, self._interrupts)
        self._channel.on_exec = self._on_exec
        self._main_loop = MainLoop(self._channel, self._interrupts)
        self._namespace = Namespace(__main__, self._channel)
        self._channel.on_catalogue = self._namespace.on_catalogue
        self._published = Published(vars(__main__), self._channel)
        self._channel.on_input = self._published.on_input
        self._files = Files(core)
        self._channel.on_file = self._files.answer
        self._displays = Displays(self._channel, self._files, self._interrupts)
        self._cells = Cells(vars(__main__), self._main_loop, self._interrupts)
        self._reserve = None
        self._interrupts.owed = lambda: self._current is not None or bool(self._cells_waiting)
        aio.when_loaded(self._main_loop.patch_asyncio)
        self._namespace.start(self._displays.display)
        self._displays.figures.install()
        environ.setdefault("MPLBACKEND", "Agg")
        self._interrupts.install()

    def complete(self):
        """In the template, after its last import."""
        self._namespace.add_modules()
        for prepare in stdio.prepare, self._main_loop.prepare, self._keep_reserve:
            try:
                prepare()
            except Exception:
                pass  # each session does it itself
        run_repeatedly(self._warm_up)

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
        """Warms up if no cell waits yet: pages that a cell writes to are then already copied."""
        if self._core.wait(PAUSE_MS):
            return
        try:
            self._warm_up()
        except BaseException:
            pass  # the first cell reports what is wrong
        # An interrupt that came meanwhile is for the first cell, if that is already in the channel.
        self._interrupts.early |= self._interrupts.arrived

    def _turn(self):
        """Waits for a cell, runs it and sends its result."""
        # A signal handler that the guest installed may raise anywhere below.
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
            pass  # the guest uses all memory; the next cell may release some

    def _on_exec(self, number, payload):
        self._cells_waiting.append((number, payload))
        self._main_loop.stop_idling()

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
            if not self._main_loop.is_needed():
                self._core.wait(-1)
                self._channel.pump()
            elif not self._main_loop.rest():
                self._main_loop.run_idle(lambda: self._cells_waiting)
        except KeyboardInterrupt:
            stdio.complain("cloister: a background task was interrupted\n")
        except SystemExit:
            stdio.complain("cloister: a background task called sys.exit()\n")
        except BaseException:
            # The guest's changes to asyncio broke it. Cells without await still work.
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
        self._main_loop.adopt()
        stdio.restore(self._interrupts.install())
        arguments = ["" if filename[:1] == "<" else filename]
        if sys.argv != arguments:
            sys.argv[:] = arguments
        self._interrupts.begin()
        self._displays.begin(number)
        if self._published.begin(number):
            outcome = self._published.execute(self._cells, source, filename, self._namespace.prepare)
        else:
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
        """Shows open figures: runs code of the guest, so an interrupt may end it."""
        try:
            self._displays.figures.finish()
        except BaseException as error:
            return outcome if outcome.error else Outcome(error=error)
        return outcome

    def _send(self, outcome):
        described = payload = None
        try:
            if self._published.run is not None:
                described = self._published.describe(outcome, self._interrupts.arrived)
            else:
                payload = describe_plainly(outcome)
            if payload is None and described is None:
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
            total = 0  # the guest uses all descriptors or all memory
        if total:
            described = described or decode(payload)
            described.update(files=files, files_total=total)
        self._interrupts.end()
        self._published.end()
        number, self._current = self._current, None
        self._core.send(RESULT, number, encode_own(described) if described else payload)

    @staticmethod
    def _last_words(error):
        name = tracebacks.printable(type(error).__qualname__)
        return {
            "status": "error",
            "error": {"type": name, "message": "", "traceback": name + "\n"},
        }

    def _leave_child(self, outcome):
        """Ends a child that the cell forked and that ran to the end of the cell, as the end of a script would."""
        code = 0
        if isinstance(outcome.error, SystemExit):
            code = describe_exit(outcome.error).get("exit_code", 0)
        elif outcome.error is not None:
            stdio.complain(tracebacks.describe(outcome.error)["traceback"])
            code = 1
        stdio.flush(self._core)
        _exit(code)


