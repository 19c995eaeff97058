"""The standard streams: set up as for a script, and restored after code has closed or replaced them."""

import io
import sys
from functools import partial
from fcntl import F_DUPFD_CLOEXEC, fcntl
from os import O_RDONLY, close, devnull, dup2, fstat, pipe
from os import open as os_open

from cloister.standard_input import Nothing

_NAMES = ("<stdin>", "<stdout>", "<stderr>")
_ATTRIBUTES = ((0, "stdin"), (1, "stdout"), (2, "stderr"))
_own = [None, None, None]
_copies = None  # () -> copies of descriptors 1 and 2, used when the code closes these


def _new_stream(fd):
    raw = Nothing(fd, "r", closefd=False) if fd == 0 else io.FileIO(fd, "w", closefd=False)
    raw.name = _NAMES[fd]
    buffered = io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
    # Line-buffered, so that the output is written even if the code hangs and is killed.
    stream = io.TextIOWrapper(
        buffered, encoding="utf-8", errors="backslashreplace", line_buffering=fd != 0
    )
    stream.mode = "r" if fd == 0 else "w"
    return stream


def prepare():
    """In the template: creates the stream objects of its workers, over /dev/null and pipes."""
    originals = [fcntl(fd, F_DUPFD_CLOEXEC, 3) for fd in (0, 1, 2)]
    reader, writer = pipe()
    opened = os_open(devnull, O_RDONLY), writer, writer
    try:
        for fd in (0, 1, 2):
            dup2(opened[fd], fd)
            _install(fd)
    finally:
        for fd in (0, 1, 2):
            dup2(originals[fd], fd)
        for fd in {*originals, *opened, reader}:
            close(fd)


def spares():
    """{1, 2: the descriptor's copy}"""
    copies = _copies() if _copies is not None else ()
    return {fd: copy for fd, copy in zip((1, 2), copies) if copy >= 0}


def set_spares(copies):
    global _copies
    _copies = copies


def is_prepared():
    return None not in _own


def _install(fd):
    stream = _own[fd] = _new_stream(fd)
    name = _NAMES[fd].strip("<>")
    setattr(sys, name, stream)
    setattr(sys, "__%s__" % name, stream)


def own_input():
    if _own[0] is None:
        _install(0)
    return _own[0]


def replace_input(stream):
    """The standard input of the code from now on."""
    _own[0] = sys.stdin = sys.__stdin__ = stream


def start():
    """In a worker whose template has not run prepare()."""
    for fd in (0, 1, 2):
        if _own[fd] is None:
            _install(fd)


def _is_open(fd):
    try:
        fstat(fd)
    except OSError:
        return False
    return True


def _restore_descriptor(fd):
    if fd == 0:
        opened = os_open(devnull, O_RDONLY)
        if opened != 0:
            dup2(opened, 0)
            close(opened)
    elif fd in spares():
        dup2(spares()[fd], fd)


def restore_descriptors():
    """After a cell, before other code can get these descriptor numbers."""
    for fd in (0, 1, 2):
        if not _is_open(fd):
            try:
                _restore_descriptor(fd)
            except OSError:
                pass


def restore(are_open=False):
    """Before a cell: reopens closed streams. A stream that the code has replaced is left alone. are_open: the
    descriptors are known to be open."""
    if not are_open:
        restore_descriptors()
    try:
        if not (sys.stdin.closed or sys.stdout.closed or sys.stderr.closed):
            return
    except Exception:
        pass  # not a file, or closed
    for fd, name in _ATTRIBUTES:
        stream = getattr(sys, name, None)
        try:
            usable = stream is not None and not getattr(stream, "closed", False)
        except Exception:
            usable = False
        if not usable:
            try:
                _install(fd)
            except (OSError, ValueError):
                pass


def flush(core):
    """Flushes the streams after a cell; ignores errors, which the guest caused. Returns whether the descriptors are
    open."""
    try:
        if sys.stdout is _own[1] and sys.stderr is _own[2]:
            _own[1].flush()
            _own[2].flush()
            return core.flush()
    except Exception:
        pass
    seen = []
    for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), _own[1], _own[2]):
        if stream is None or any(stream is other for other in seen):
            continue
        seen.append(stream)
        try:
            stream.flush()
        except Exception:
            pass
    return core.flush()


_waiting = []  # a function that is called before the next output


def is_own():
    """Whether the streams are those of this process."""
    return sys.stdout is _own[1] and sys.stderr is _own[2]


def before_output(function):
    """Calls the function before code writes to these streams again, or output_comes(). Call flush() before."""
    _waiting[:] = [function]
    for raw in _raws():
        raw.write = partial(_write_after, raw)


def _raws():
    for fd in (1, 2):
        try:
            yield _own[fd].buffer.raw
        except (AttributeError, ValueError):
            pass  # the code has detached it


def _write_after(raw, data):
    output_comes()
    return type(raw).write(raw, data)


def output_comes():
    if _waiting:
        function = _waiting[0]
        nothing_waits()
        function()


def nothing_waits():
    if _waiting:
        _waiting.clear()
        for raw in _raws():
            vars(raw).pop("write", None)


def renew():
    """In a copy that lacks threads: one of them may have held the lock of a stream while it wrote."""
    for fd in (1, 2):
        try:
            buffered = _own[fd].buffer
            if type(buffered) is io.BufferedWriter:
                buffered.__init__(buffered.raw)
        except Exception:
            pass  # the code has detached it; restore() makes another one


def complain(text):
    """Writes a line to stderr, if that is possible."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:
        pass
