"""Blocks of code that are taken back if they fail: `with transaction():` (docs/cells.md).

A copy of the worker sleeps in __enter__. If the block raises, the copy becomes the worker, and raises there what the block
has raised, which the worker has written into a pipe as far as that is possible.
"""

import sys
from os import O_CLOEXEC, O_NONBLOCK, close, fstat, pipe2, read, write

from cloister import aio, stdio, tracebacks
from cloister.errors import RollbackError, TransactionError
from cloister.frames import QUERY
from cloister.json_codec import decode, encode_own

# Both fit into a pipe.
TEXT_MAX = 31 * 1024
PACKED_MAX = 32 * 1024
_MOST = {"type": 200, "message": 1024, "traceback": 6 * 1024}  # characters
_LENGTH = 4  # bytes of the length of the text, which is first

_BEGIN = b'{"what":"transaction","step":"begin"}'
_AWAIT = b'{"what":"transaction","step":"await"}'
_END = b'{"what":"transaction","step":"end"}'
_FAIL = b'{"what":"transaction","step":"fail","interrupted":%s}'


def _packed(error):
    """The exception as bytes, or none: it cannot be made again."""
    try:
        from _pickle import dumps

        packed = dumps(error)
        return packed if len(packed) <= PACKED_MAX else b""
    except BaseException:
        return b""


class _Note:
    """What the worker tells its copy: a pipe that both have. Shared memory is not allowed in each sandbox."""

    def __init__(self):
        self._ends = pipe2(O_CLOEXEC | O_NONBLOCK)
        self._is = self._which()

    def _which(self):
        return [(about.st_dev, about.st_ino) for about in map(fstat, self._ends)]

    def write(self, error, interrupted):
        described = tracebacks.describe(error)
        text = {name: tracebacks.cut(described[name], most) for name, most in _MOST.items()}
        text = encode_own({**text, "interrupted": interrupted})
        try:
            # The code may have closed it, and opened something else under its number.
            if self._which() == self._is and len(text) <= TEXT_MAX:
                write(self._ends[1], len(text).to_bytes(_LENGTH, "little") + text + _packed(error))
        except OSError:
            pass  # the copy finds nothing

    def read(self):
        """(the description of the exception, the exception as bytes)"""
        whole = b""
        try:
            while len(whole) < _LENGTH + TEXT_MAX + PACKED_MAX:
                piece = read(self._ends[0], TEXT_MAX + PACKED_MAX)
                if not piece:
                    break
                whole += piece
        except OSError:
            pass  # there is no more
        n = int.from_bytes(whole[:_LENGTH], "little")
        try:
            described = decode(whole[_LENGTH:][:n])
        except ValueError:
            described = {}
        return described if isinstance(described, dict) else {}, whole[_LENGTH:][n:]

    def close(self):
        try:
            if self._which() == self._is:
                for fd in self._ends:
                    close(fd)
        except OSError:
            pass  # the code has closed it


def _made_again(described, packed):
    told = RollbackError(
        str(described.get("type", "")), str(described.get("message", "")), str(described.get("traceback", ""))
    )
    try:
        from _pickle import loads

        error = loads(packed)
    except BaseException:
        return told
    if not isinstance(error, BaseException):
        return told
    if sys.version_info >= (3, 11):
        error.add_note("transaction(): the block was rolled back. In the block:\n" + told.traceback.rstrip("\n"))
    else:
        error.__cause__ = told
    return error


class Block:
    """What transaction() returns. rolled_back: whether the block has failed and was taken back."""

    def __init__(self, blocks):
        self._blocks = blocks
        self.rolled_back = False

    def __enter__(self):
        self._blocks.enter(self)
        return self

    def __exit__(self, kind, error, traceback):
        self._blocks.leave(self, error)
        return False


class Blocks:
    def __init__(self, core, channel, copies, interrupts, loops):
        self._core = core
        self._channel = channel
        self._copies = copies
        self._interrupts = interrupts
        self._loops = loops
        self._open = None  # (Block, _Note)
        self.begun = False  # in this cell

    def transaction(self):
        """A block of code that is taken back if it raises: `with transaction(): ...`. Variables and the files in /workspace
        are then as before the block, and the exception is raised after it. Tool calls are not taken back. Raises
        TransactionError, before any code of the block runs, if that could not be done."""
        return Block(self)

    def _refuse(self):
        why = None
        if not self._core.ours():
            why = "a forked process has no copies"
        elif not self._interrupts.in_main_thread():
            why = "a block begins in the main thread only"
        elif not self._interrupts.cell:
            why = "a block begins only while a call runs"
        elif self._open is not None:
            why = "a block in a block: transactions are not nested"
        elif aio.running_loop() is not None and not self._loops.runs_cell():
            why = "a block begins in the code of the call itself: not in another task, nor in asyncio.run()"
        if why is not None:
            raise TransactionError("the block was not run: " + why)

    def _ask(self, step):
        answer = decode(self._channel.call(QUERY, step))
        if not answer.get("ok"):
            raise TransactionError("the block was not run: " + answer["error"]["message"])

    def _begin(self):
        try:
            self._ask(_BEGIN)
        except TransactionError:
            raise
        except BaseException:
            self._channel.tell(QUERY, _END)  # interrupted: maybe it has begun
            raise

    def enter(self, block):
        self._refuse()
        try:
            note = _Note()
        except OSError as error:
            raise TransactionError("the block was not run: %s" % error.strerror) from None
        self.begun = True
        self._open = block, note  # for a signal handler, too, which may run from here on
        loop = aio.running_loop()
        is_copy = is_open = False
        try:
            if self._copies.asked is not None:
                self._copies.decline()  # of a block that was interrupted
            stdio.flush(self._core)
            self._begin()
            try:
                is_copy = self._copies.make(beside_a_cell=True)  # asked for before the answer came
                if not is_copy:
                    self._ask(_AWAIT)
                    is_open = True
            except BaseException:
                self._channel.tell(QUERY, _END)
                raise
        finally:
            if not is_open:
                self._open = None
                if not is_copy:
                    note.close()
        if is_copy:
            self._go_on(block, note, loop)

    def _go_on(self, block, note, loop):
        """In the copy, which is the worker from now on."""
        if loop is not None:
            aio.module._set_running_loop(loop)  # is that of a process id before Python 3.12
        block.rolled_back = True
        described, packed = note.read()
        note.close()
        if described.get("interrupted") is True:
            self._interrupts.arrived = self._interrupts.raised = True
        self._copies.report()
        error = _made_again(described, packed)
        self._interrupts.checkpoint()
        raise error

    def leave(self, block, error):
        """error: that the block has raised, or None. Returns if the cell continues after it, or if there is no block."""
        opened = self._open
        if opened is None or opened[0] is not block or not self._core.ours():
            return  # its cell has ended, and the block with it; or a forked process
        self._open, note = None, opened[1]
        self._interrupts.uninterruptible = True  # no code of the guest runs after the last frame
        try:
            if error is None:
                self._channel.tell(QUERY, _END)
            else:
                self._fail(note, error)
        finally:
            self._interrupts.uninterruptible = False
            note.close()
        self._interrupts.checkpoint()

    def _fail(self, note, error):
        # Whether what it has raised is what the signal has raised. Else the copy gets the signal again.
        interrupted = self._interrupts.arrived and isinstance(error, (KeyboardInterrupt, aio.CancelledError))
        note.write(error, interrupted)
        stdio.flush(self._core)
        answer = decode(self._channel.call(QUERY, _FAIL % (b"true" if interrupted else b"false")))
        # This is the worker still.
        raise TransactionError("what the block did stays: " + answer["error"]["message"]) from error

    def end_cell(self):
        """Blocks that are open, as in a generator that is not at its end, end with the cell."""
        self.begun = False
        if self._copies.asked is not None:
            self._copies.decline()
        if self._open is not None:
            self._open[1].close()
            self._open = None
