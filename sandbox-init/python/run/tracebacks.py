"""Exceptions as the agent sees them: as the interpreter prints them, with the lines of its own code only."""

import os
import site
import traceback

from cloister import hints, packages, sources
from cloister.errors import PreflightError
from cloister.json_codec import printable

TEXT_MAX = 64 * 1024
MESSAGE_MAX = 8 * 1024

# The directory of these files, or "<cloister>" where they are embedded.
OURS = (lambda: 0).__code__.co_filename.rpartition("/")[0] + "/"


_LIBRARIES = (os.__file__.rpartition("/")[0] + "/", "<frozen ") + tuple(
    path.rstrip("/") + "/" for path in site.getsitepackages()
)


def is_ours(filename):
    return filename.startswith(OURS)


def _is_agents(filename):
    """Whether a file name is that of a cell, or of a file outside of the libraries."""
    return sources.is_cell(filename) or not filename.startswith(_LIBRARIES)


def describe(error, interrupted=False):
    """The `error` member of a RESULT. interrupted: a CancelledError stands for the KeyboardInterrupt asked for."""
    kind = KeyboardInterrupt if interrupted else type(error)
    described = {
        "type": printable(_name(kind)),
        "message": "" if interrupted else cut(printable(_message(error)), MESSAGE_MAX) + packages.hint(error),
        "traceback": cut(printable(_text(error, interrupted)), TEXT_MAX),
    }
    if not interrupted:
        _add_denial(described, error)
    line = _line(error)
    if line is not None:
        described["line"] = line
    return described


def _add_denial(described, error):
    """What the sandbox forbids, after the last line."""
    denial = hints.denial(error)
    if denial:
        described["message"] += " (%s)" % denial
        described["traceback"] = "%s (%s)\n" % (described["traceback"].rstrip("\n"), denial)


def _name(kind):
    module = kind.__module__
    if module in ("builtins", "__main__") or not isinstance(module, str):
        return kind.__qualname__
    return "%s.%s" % (module, kind.__qualname__)


def _message(error):
    try:
        return str(error)
    except Exception as second:
        return "<str() of the exception raised %s>" % type(second).__qualname__


def cut(text, limit):
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return "%s\n[… %d characters cut …]\n%s" % (
        text[:head],
        len(text) - head - tail,
        text[-tail:],
    )


def _skip_ours(tb):
    while tb is not None and is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def _text(error, interrupted):
    try:
        sources.refresh_all()
        whole = traceback.TracebackException(type(error), error, _skip_ours(error.__traceback__))
        _strip(whole, set())
        lines = _add_hints(list(whole.format()), error)
    except Exception:
        # The guest has broken a module that traceback uses, or there is not enough memory.
        return _plain_text(error)
    if interrupted:
        lines[-1] = "KeyboardInterrupt\n"
    return "".join(lines)


def _add_hints(lines, error):
    """Adds hints to the lines of imports that failed, also of those that caused another exception."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        hint = packages.hint(error)
        if hint:
            plain = "%s: %s\n" % (_name(type(error)), error)
            lines = [line.replace(plain, plain[:-1] + hint + "\n") for line in lines]
        error = error.__cause__ or error.__context__
    return lines


def _plain_text(error):
    lines = []
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if sources.is_cell(code.co_filename):
            lines.append('  File "%s", line %d, in %s\n' % (code.co_filename, tb.tb_lineno, code.co_name))
        tb = tb.tb_next
    if lines:
        lines.insert(0, "Traceback (most recent call last):\n")
    lines.append("%s: %s\n" % (_name(type(error)), cut(_message(error), MESSAGE_MAX)))
    return "".join(lines)


def _strip(report, seen):
    """Removes our frames and those of libraries from a report, its causes and its members."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    if report.stack is not None:
        known = [frame for frame in report.stack if not is_ours(frame.filename)]
        # An exception without a line of the agent's code (in a library's thread) keeps all frames.
        kept = [frame for frame in known if _is_agents(frame.filename)] or known
        for frame in kept:
            if frame.filename in sources.REWRITTEN and hasattr(frame, "colno"):
                frame.colno = frame.end_colno = None
        if len(kept) != len(report.stack):
            report.stack[:] = kept
            if not kept and not hasattr(report, "exc_traceback"):
                report.stack = None
    _strip(report.__cause__, seen)
    _strip(report.__context__, seen)
    for member in getattr(report, "exceptions", None) or ():
        _strip(member, seen)


def _line(error):
    """The innermost line in the agent's code."""
    if isinstance(error, PreflightError):
        return error.line
    if isinstance(error, SyntaxError) and sources.is_cell(error.filename or ""):
        return error.lineno
    found = None
    tb = error.__traceback__
    while tb is not None:
        if sources.is_cell(tb.tb_frame.f_code.co_filename):
            found = tb.tb_lineno
        tb = tb.tb_next
    return found
