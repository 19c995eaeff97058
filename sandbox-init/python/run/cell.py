"""Compiles and runs one cell, and describes its outcome."""

import builtins
from contextvars import copy_context
from types import CoroutineType

from cloister import aio, installing, packages, preflight, sources, tracebacks
from cloister.compiler import LARGE, Compiler
from cloister.digits import exact_repr
from cloister.errors import PreflightError
from cloister.interrupts import calls_guest
from cloister.json_codec import JSON_BUDGET, is_exact, plain, printable
from cloister.main_loop import keep_context

CO_COROUTINE = 0x80  # inspect.CO_COROUTINE, without importing inspect
_PLAIN_BITS = 63
REPR_MAX = 256 * 1024


ENDS = []  # of the cell that runs: functions that get its outcome (magics.py)


def end_cell(outcome):
    """Runs code of the guest: what it raises is the cell's error, and the other functions are called too."""
    while ENDS:
        try:
            ENDS.pop()(outcome)
        except BaseException as error:
            outcome.error = outcome.error if outcome.error is not None else error


class Outcome:
    """error: the exception that ended the cell, else None; value: of its last expression; shown: the text that replaces its
    repr(), or None. checked: the description of a cell that was only checked, which is complete."""

    __slots__ = ("value", "error", "checked", "shown")

    def __init__(self, value=None, error=None, checked=None):
        self.value = value
        self.error = error
        self.checked = checked
        self.shown = None


def _forgotten(value):
    """Whether the value of a cell is a coroutine or a gather(), which no other code can await."""
    return isinstance(value, CoroutineType) or (
        isinstance(value, aio.Future) and not isinstance(value, aio.Task)
    )


@calls_guest
def _evaluate(code, namespace):
    return eval(code, namespace)


@calls_guest
def _call(function, arguments):
    return function(**arguments)


class Cells:
    """Runs cells in a namespace. loops: cloister.main_loop.MainLoop, or a stand-in with drive()."""

    def __init__(self, namespace, loops, interrupts):
        self._namespace = namespace
        self._main_loop = loops
        self._interrupts = interrupts
        self._compiler = Compiler()
        self._text = ""  # what was compiled: the source, or what magics.py has made of it
        self.preflight = None  # preflight.Preflight
        self.installer = None  # installing.Installer

    def run(self, source, filename=None, prepare=None, needs=None):
        """prepare: called before the code runs, with the names that the code needs (namespace.py). needs: payload of NEED."""
        try:
            is_done = needs is not None and installing.provide_for_call(self.installer, needs, source, filename)
            missing = packages.missing(source, filename) if packages.MARK in source and not is_done else None
            if missing is not None:
                installing.provide_for_script(self.installer, source, filename, missing)
        except BaseException as error:
            return Outcome(error=error)
        filename = sources.add(source, filename)
        # Allows warnings that an earlier cell has shown to be shown again for this cell.
        if "__warningregistry__" in self._namespace:
            del self._namespace["__warningregistry__"]
        try:
            codes, names, defines = self._compile(self._compiler.compile, source, filename)
            if defines:
                sources.defining(filename)
            if prepare is not None:
                prepare(names)
            if names and self.preflight is not None and self.preflight.concerns(source, names):
                self._check(source, filename, names, codes)
            self._compiler.tree = None
            for code in codes:
                if code.co_flags & CO_COROUTINE:
                    return self._run_async(self._steps(codes))
            value = None
            for code in codes:
                self._interrupts.checkpoint()
                value = _evaluate(code, self._namespace)
            if value is not None and _forgotten(value):
                return self._run_async(self._wait(value))
            return Outcome(value)
        except BaseException as error:
            return Outcome(error=error)

    def _compile(self, compile, source, filename):
        self._text = source
        try:
            return compile(source, filename)
        except SyntaxError:
            from cloister import magics

            rewritten = magics.rewrite(source)
            if rewritten is None:
                raise
        sources.REWRITTEN.add(filename)
        self._text = rewritten
        try:
            return compile(rewritten, filename)
        except SyntaxError as error:
            sources.show_line(error, source)
            raise error from None

    def _check(self, source, filename, names, codes):
        """Raises PreflightError if calls of tools would fail. Code that cannot be checked is run."""
        try:
            tree = self._compiler.take_tree(self._text, filename)
            if tree is not None and "*" not in names:
                self.preflight.run(source, tree, codes, names)
        except PreflightError:
            raise
        except Exception:
            pass

    def check(self, source, filename, prepare):
        """Only checks the calls of tools in the code."""
        try:
            codes, names, _ = self._compile(self._compiler.try_compile, source, filename)
            prepare(names)
            tree = self._compiler.take_tree(self._text, filename)
            if tree is None or "*" in names:
                why = "imports *" if tree is not None else "is larger than %d characters" % LARGE
                return Outcome(checked=preflight.unchecked(why))
            return Outcome(checked=self.preflight.report(source, tree, codes, names))
        except BaseException as error:
            return Outcome(error=error)

    def call(self, function, arguments):
        """Calls a function of the code, and awaits what it returns if that is a coroutine."""
        try:
            self._interrupts.checkpoint()
            value = _call(function, arguments)
            if value is not None and _forgotten(value):
                return self._run_async(self._wait(value))
            return Outcome(value)
        except BaseException as error:
            return Outcome(error=error)

    async def _steps(self, codes):
        value = None
        for code in codes:
            self._interrupts.checkpoint()
            value = _evaluate(code, self._namespace)
            if code.co_flags & CO_COROUTINE:
                value = await value
        if _forgotten(value):
            value = await value
        return value

    @staticmethod
    async def _wait(awaitable):
        return await awaitable

    def _run_async(self, coroutine):
        async def catch():
            # A KeyboardInterrupt or SystemExit that left a task would stop the loop.
            try:
                return Outcome(await coroutine), copy_context()
            except BaseException as error:
                return Outcome(error=error), copy_context()

        result, first = self._main_loop.drive(catch())
        coroutine.close()
        if result is None:
            return Outcome(error=first or aio.CancelledError())
        outcome, variables = result
        keep_context(variables)
        if first is not None and isinstance(outcome.error, aio.CancelledError):
            outcome.error = first
        return outcome


def describe(outcome, interrupted=False):
    """The payload of a RESULT, as a dict. interrupted: SIGINT arrived while the cell ran."""
    error = outcome.error
    if outcome.checked is not None:
        return outcome.checked
    if error is None:
        return _describe_value(outcome.value, outcome.shown)
    if isinstance(error, SystemExit):
        return describe_exit(error)
    if interrupted and isinstance(error, (KeyboardInterrupt, aio.CancelledError)):
        cancelled = not isinstance(error, KeyboardInterrupt)
        return {"status": "interrupted", "error": tracebacks.describe(error, cancelled)}
    return {"status": "error", "error": tracebacks.describe(error)}


def describe_plainly(outcome):
    """The same as JSON bytes, for simple values; None for others."""
    value = outcome.value
    if outcome.error is not None:
        return None
    if value is None and outcome.checked is None:
        return b'{"status":"ok"}'
    if type(value) is int and value.bit_length() <= _PLAIN_BITS:
        builtins._ = value
        return b'{"status":"ok","value":{"repr":"%d","json":%d}}' % (value, value)
    return None


def _describe_value(value, shown=None):
    if value is None:
        return {"status": "ok"}
    builtins._ = value
    described = {"repr": tracebacks.cut(printable(_repr(value) if shown is None else shown), REPR_MAX)}
    value = _plain(value)
    if is_exact(value):
        described["json"] = value
    return {"status": "ok", "value": described}


@calls_guest
def _plain(value):
    try:
        return plain(value, JSON_BUDGET)
    except Exception:
        return value


@calls_guest
def _repr(value):
    try:
        return exact_repr(value)
    except Exception as error:
        return "<%s: repr() raised %s>" % (type(value).__qualname__, _one_line(error))


def _one_line(error):
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__qualname__
    return "%s: %s" % (name, text) if text else name


def describe_exit(error):
    """The exit code as at the end of a script: None means 0; any object but an int is printed and means 1."""
    from cloister.stdio import complain

    code = error.code
    if code is None:
        code = 0
    elif not isinstance(code, int):
        complain("%s\n" % _text_of(code))
        code = 1
    code &= 0xFF
    return {"status": "exit", "exit_code": code} if code else {"status": "ok"}


@calls_guest
def _text_of(value):
    try:
        return str(value)
    except Exception:
        return "<%s>" % type(value).__qualname__
