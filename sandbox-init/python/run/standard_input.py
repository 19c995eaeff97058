"""The standard input of code: that of `cloister run`, which the broker reads when the code does, or none."""

import io
import os
from _thread import allocate_lock
from binascii import a2b_base64

from cloister.frames import READ
from cloister.json_codec import decode

PIECE = 64 * 1024  # READ_MAX of the broker


class Nothing(io.FileIO):
    """Descriptor 0 of code that has no standard input. was_read: the cell has read its end."""

    was_read = False

    def readinto(self, buffer):
        n = super().readinto(buffer)
        if n == 0:
            self._note()
        return n

    def readall(self):
        data = super().readall()
        if not data:
            self._note()
        return data

    @staticmethod
    def _note():
        # The code may have opened another file as descriptor 0.
        if os.fstat(0).st_rdev == os.makedev(1, 3):
            Nothing.was_read = True


class Piped(io.RawIOBase):
    """What is piped into `cloister run`, or typed. Nothing is read before the code reads."""

    def __init__(self, channel, is_terminal):
        self._channel = channel
        self._is_terminal = is_terminal
        self._lock = allocate_lock()
        self._ended = False
        self._own = os.getpid()
        self.name = "<stdin>"
        self.mode = "rb"

    def readable(self):
        return True

    def isatty(self):
        return self._is_terminal

    def fileno(self):
        raise io.UnsupportedOperation(
            "the standard input of cloister run has no descriptor: read it with sys.stdin, and give it to a program as input="
        )

    def end(self):
        """From now on nothing is read: the cell has ended, and a thread of it may read."""
        self._own = 0

    def readinto(self, buffer):
        view = memoryview(buffer).cast("B")
        data = self._read(min(len(view), PIECE)) if view else b""
        view[:len(data)] = data
        return len(data)

    def readall(self):
        pieces = []
        while True:
            data = self._read(PIECE)
            if not data:
                return b"".join(pieces)
            pieces.append(data)

    def _read(self, length):
        if os.getpid() != self._own:
            return b""  # only the first process of the sandbox can ask
        with self._lock:
            if self._ended and not self._is_terminal:
                return b""
            answer = decode(self._channel.call(READ, b'{"length":%d}' % length))
            if not answer.get("ok"):
                raise OSError(str(answer.get("error", {}).get("message", "the standard input can't be read")))
            data = a2b_base64(answer["result"])
            self._ended = not data
            return data


def piped(channel, is_terminal):
    """sys.stdin of a script: as Python opens it in a UTF-8 locale."""
    return io.TextIOWrapper(io.BufferedReader(Piped(channel, is_terminal), PIECE), encoding="utf-8", errors="strict")
