"""The main loop of a worker: runs cells, sends their results, and runs background tasks in between."""

import builtins
import gc
import sys
import warnings
from collections import deque
from functools import partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from os import _exit, environ

import __main__
import cloister
from cloister import aio, placement, results, sources, stdio, tracebacks, warned
from cloister.blocks import Blocks
from cloister.branches import Branches
from cloister.cell import ENDS, Cells, Outcome, describe, describe_exit, describe_plainly, end_cell
from cloister.channel import ELSEWHERE, Channel
from cloister.copies import Copies
from cloister.display import Displays
from cloister.files import Files
from cloister.frames import BRANCH, CATALOG, CHECK, DUMP, EXEC, HELD, HOLD, INPUT, KEEP, LOAD, NEED, PROBE, QUERY, RESULT, SCRIPT, SECRETS, WRITER
from cloister.import_hook import NOTEBOOK, IPythonFinder, PatchFinder
from cloister.installing import Installer
from cloister.interrupts import Interrupts
from cloister.json_codec import decode, encode_own
from cloister.main_loop import MainLoop
from cloister.namespace import Namespace
from cloister.script import Script
from cloister.standard_input import Nothing
from cloister.warmup import run_repeatedly

# Address space that is released when a cell has run out of memory, so that the result and a next cell that cleans up
# have some. It is never written to, so it takes no memory.
RESERVE = 4 * 1024 * 1024
PAUSE_MS = 3  # a worker that was made for a call gets its first cell earlier
WARM_UP_CELL = b"1+1\0<cell 1>"

NO_INPUT = "cloister: this code has no standard input: put the value into the code\n"
_BUSY = "the cell did not start: a background task of an earlier cell kept the interpreter busy"


def _read(payload):
    """(source, file name or "") of an EXEC."""
    source, _, filename = payload.decode("utf-8", "replace").rpartition("\0")
    return source, filename


class Unpublished:
    """In place of Published, in a session that has no input of published code."""

    run = None

    @staticmethod
    def begin(number):
        return False

    @staticmethod
    def end():
        pass


def _on_secrets(number, payload):
    from cloister import secret_names

    secret_names.on_frame(number, payload)


class Session:
    """Created in the template, run in each worker. core: the module _cloister."""

    def __init__(self, core):
        self._core = core
        stdio.set_spares(core.spares)
        self.has_started = False
        self._is_new = False  # no code has run that could have changed streams, signal handlers or the event loop, or started a thread
        self._cells_waiting = deque()
        self._current = None  # the cell that runs or whose result was not sent yet
        self._interrupts = Interrupts(core)
        self._channel = Channel(core, self._interrupts)
        self._channel.on[EXEC] = self._on_exec
        self._channel.on[CHECK] = self._on_check
        self._channel.on[PROBE] = self._on_probe
        self._checks = set()  # numbers of cells that are only checked
        self._probes = set()  # numbers of cells that are questions of a prompt
        self._channel.on[NEED] = self._on_need
        self._needs = {}  # number of a cell: payload of NEED
        self._main_loop = MainLoop(self._channel, self._interrupts)
        self._namespace = Namespace(__main__, self._channel)
        self._channel.on[CATALOG] = self._namespace.on_catalogue
        self._published = Unpublished
        self._channel.on[INPUT] = self._on_input
        self._copies = Copies(core, self._channel)
        self._channel.on[KEEP] = self._on_keep
        self._channel.on[WRITER] = self._copies.give_writer
        self._blocks = Blocks(core, self._channel, self._copies, self._interrupts, self._main_loop)
        self._channel.on[BRANCH] = self._on_number
        self._branches = Branches(core, self._copies, self._main_loop)
        for kind in DUMP, LOAD:
            self._channel.on[kind] = partial(self._on_branch, kind)
        self._standing = None
        self._channel.on[HOLD] = self._on_hold
        self._channel.on[HELD] = self._on_held
        self._files = Files(core)
        self._channel.on_file = self._files.answer
        self._script = Script(vars(__main__), self._channel, self._files)
        self._channel.on[SCRIPT] = self._script.on_frame
        self._channel.on[SECRETS] = _on_secrets
        self._displays = Displays(self._channel, self._files, self._interrupts)
        self._cells = Cells(vars(__main__), self._main_loop, self._interrupts)
        self._cells.installer = Installer(lambda query: self._channel.call(QUERY, query))
        self._reserve = None
        self._cells.preflight = self._namespace.preflight
        self._interrupts.owed = self._is_owed
        aio.when_loaded(self._main_loop.patch_asyncio)
        self._namespace.start(
            self._displays.display, self._copies.undo, self._blocks.transaction, self._cells.installer
        )
        cloister.clear_output = self._displays.clear_output
        PatchFinder({**self._displays.figures.patches, **NOTEBOOK, "_sqlite3": self._hook_sqlite}).install()
        IPythonFinder().install()
        warned.install(warnings)
        environ.setdefault("MPLBACKEND", "Agg")
        self._interrupts.install()

    def _on_input(self, number, payload):
        """The first one comes before any code of the guest."""
        from cloister.published import Published

        if self._published is Unpublished:
            self._published = Published(vars(__main__), self._channel)
        self._published.on_input(number, payload)

    def _hook_sqlite(self, module):
        if getattr(module, "__file__", None):
            self._core.hook_sqlite(module.__file__)

    def complete(self):
        """In the template, after its last import: does all that a worker can have from it."""
        self._namespace.add_modules()
        self._hook_sqlite(sys.modules.get("_sqlite3"))
        for prepare in stdio.prepare, self._main_loop.prepare, self._keep_reserve, results.prepare:
            try:
                prepare()
            except Exception:
                pass  # each session does it itself
        # Not before ast is imported, which takes long; the others are for few sessions.
        import cloister.call_sites  # noqa: F401
        import cloister.ipython  # noqa: F401
        import cloister.magics  # noqa: F401
        import cloister.published  # noqa: F401

        if stdio.is_prepared():
            self.start()
        codes = placement.record(self._warm_up)
        codes[Session.warm_up_idle.__code__] = None
        gc.unfreeze()
        gc.collect()
        placement.fill()
        placement.gather(codes, "cloister.")
        self.rehearse()
        self._is_new = self.has_started
        self.rehearse()

    def rehearse(self):
        """Does what a new worker does until its first answer, often enough that CPython specializes the code."""
        run_repeatedly(partial(self._core.warm_up, WARM_UP_CELL, self.warm_up_idle))
        run_repeatedly(self._warm_up)

    def _warm_up(self):
        """Runs a dummy cell through the same code as any other; its result is dropped."""
        is_new = self._is_new
        try:
            self._core.warm_up(WARM_UP_CELL, self.turn)
        finally:
            self._is_new = is_new
            self._forget_warm_up()

    def _forget_warm_up(self):
        """Removes what a dummy cell leaves behind."""
        vars(builtins).pop("_", None)
        sources.forget()
        self._namespace.forget_catalogue()

    def start(self):
        """In a worker, unless complete() has done it in the template."""
        stdio.start()
        self._interrupts.start()
        self.has_started = True

    def warm_up_idle(self):
        """Warms up if no cell waits yet: pages that a cell writes to are then already copied."""
        if self._core.wait(PAUSE_MS):
            return
        try:
            self._warm_up()
        except BaseException:
            pass  # the first cell reports what is wrong
        # An interrupt that came meanwhile is for the first cell, if that is already in the channel.
        self._interrupts.early |= self._interrupts.arrived

    def turn(self):
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

    def _on_check(self, number, payload):
        self._checks = {number}
        self._on_exec(number, payload)

    def _on_probe(self, number, payload):
        self._probes = {number}
        self._on_exec(number, payload)

    def _on_need(self, number, payload):
        self._needs = {number: payload}

    def _on_hold(self, number, payload):
        if self._standing is None:
            from cloister.standing import Standing

            self._standing = Standing(self._channel, self._main_loop)
        self._standing.on_hold(number, payload)

    def _on_held(self, number, payload):
        if self._standing is not None:
            self._standing.on_held(number, payload)

    def _on_keep(self, number, payload):
        self._copies.ask(number, payload)
        self._main_loop.stop_idling()

    def _on_number(self, number, payload):
        vars(__main__)["branch"] = int(payload)

    def _on_branch(self, *asked):
        self._branches.asked = asked
        self._main_loop.stop_idling()

    def _keep_copy(self):
        became = self._copies.make()
        if became is None:
            return
        if became is not True:
            self._begin_branch(self._branches.write(*became))
            return
        # This is the copy, and the worker from now on.
        self._forget_cells()
        self._copies.report()
        # The broker asks for a copy of this state at once: no background task runs before.
        while self._copies.asked is None and not self._cells_waiting:
            self._core.wait(-1)
            self._channel.pump()

    def _forget_cells(self):
        """The cells that this process has stored are those of the worker before the copy."""
        self._current = None
        self._cells_waiting.clear()
        self._interrupts.end()
        self._interrupts.early = self._interrupts.stray = False
        stdio.restore_descriptors()

    def _branch(self):
        number, error, is_branch = self._branches.run()
        if is_branch:
            self._begin_branch(number)
            return
        described = {"status": "ok"}
        if error is not None:
            described = {"status": "error", "error": {"type": "BranchError", "message": error, "traceback": ""}}
        self._core.send(RESULT, number, encode_own(described))
        self._branches.end()

    def _begin_branch(self, number):
        """number: of the cell that has loaded it."""
        self._forget_cells()
        self._copies.forget()
        self._channel.fail_all(ELSEWHERE)
        try:
            described = {"status": "ok", "value": {"repr": "", "json": self._branches.settle()}}
            self._files.changed()  # as files of this sandbox, all of them are new
        except BaseException as e:
            described = self._last_words(e)
        self._core.send(RESULT, number, encode_own(described))
        self._branches.lost.settle()

    def _next(self):
        while not self._cells_waiting:
            if self._copies.asked is not None:
                self._keep_copy()
                continue
            if self._branches.asked is not None:
                self._branch()
                continue
            if self._interrupts.early or self._interrupts.stray:
                self._channel.pump()
                if self._cells_waiting:
                    break
                self._interrupts.early = self._interrupts.stray = False
            self._idle()
        if self._copies.asked is not None:
            self._copies.decline()
        # First, so that there is no moment at which the cell is in neither.
        self._current = self._cells_waiting[0][0]
        return self._cells_waiting.popleft()

    def _is_owed(self):
        """A frame that was read and not delivered may be a cell too: _next() reads again."""
        return self._current is not None or bool(self._cells_waiting) or self._channel.has_read

    def _is_asked(self):
        return self._cells_waiting or self._copies.asked is not None or self._branches.asked is not None

    def _idle(self):
        try:
            if self._is_new or not self._main_loop.is_needed():
                self._core.wait(-1)
                self._channel.pump()
            elif not self._main_loop.rest():
                self._main_loop.run_idle(self._is_asked)
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
        if payload is None:
            raise MemoryError("no memory for the code")
        source, filename = _read(payload)
        if number in self._probes:
            self._answer_probe(number, source)
            return
        if self._interrupts.stray:
            self._interrupts.stray = self._interrupts.early = False
            raise RuntimeError(_BUSY)
        if self._is_new:
            self._is_new = False
            self._main_loop.count(number)
            self._core.begin()
        else:
            self._main_loop.begin(number)
            stdio.restore(self._interrupts.install())
        arguments = self._script.begin(source) or ["" if filename[:1] == "<" else filename]
        if sys.argv != arguments:
            sys.argv[:] = arguments
        if Nothing.was_read:
            Nothing.was_read = False
        self._interrupts.begin()
        self._displays.begin(number)
        if self._published.begin(number):
            outcome = self._published.execute(self._cells, source, filename, self._namespace.prepare)
        elif self._script.commands is not None:
            from cloister import program

            outcome = program.run(self._script.commands)
        elif number in self._checks:
            outcome = self._cells.check(source, filename, self._namespace.prepare)
        else:
            outcome = self._cells.run(source, filename, self._namespace.prepare, self._needs.pop(number, None))
        if not self._core.ours():
            self._leave_child(outcome)
        if ENDS:
            end_cell(outcome)
        if self._interrupts.arrived:
            self._main_loop.end_tasks()
            self._interrupts.end_threads()
        if Nothing.was_read and not self._script.is_one and not isinstance(outcome.error, EOFError):
            stdio.complain(NO_INPUT)
        if isinstance(outcome.error, MemoryError) and self._reserve is not None:
            self._reserve.close()
            self._reserve = None
        else:
            # The value of a script's last line is not shown.
            outcome = self._finish(outcome, filename[:6] in ("", "<cell "))
        if warned.waits():
            warned.finish()
        self._send(outcome)

    def _answer_probe(self, number, source):
        """Leaves no trace: the next cell is as if it had not been asked."""
        from cloister import prompt

        self._is_new = False
        self._interrupts.begin()
        try:
            value = prompt.answer(decode(source.encode()), vars(__main__))
            described = {"status": "ok", "value": {"repr": "", "json": value}}
        except BaseException as error:
            described = self._last_words(error)
        if not self._core.ours():
            _exit(1)  # an attribute has forked
        self._interrupts.end()
        self._current = None
        self._core.send(RESULT, number, encode_own(described))

    def _finish(self, outcome, is_cell):
        """Shows a rich value and open figures: runs code of the guest, so an interrupt may end it."""
        try:
            if is_cell and outcome.value is not None and outcome.error is None and self._published.run is None:
                stdio.output_comes()
                outcome.shown = self._show_value(outcome.value)
            self._displays.figures.finish()
        except BaseException as error:
            return outcome if outcome.error else Outcome(error=error)
        return outcome

    def _show_value(self, value):
        try:
            return self._displays.value(value)
        except Exception as error:
            stdio.complain("cloister: the value could not be shown: %s: %s\n" % (type(error).__name__, error))
            return None

    def _send(self, outcome):
        described = payload = None
        try:
            if self._published.run is not None:
                described = self._published.run.describe(outcome, self._interrupts.arrived)
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
        if self._blocks.begun:
            self._blocks.end_cell()
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


