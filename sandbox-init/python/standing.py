"""The clock of event loops while a person decides (docs/standing-still.md).

From HOLD to HELD, loop.time() returns the same number, and afterwards it continues from there: timers have the time that
was left. Imported with the first HOLD of a session.
"""

import sys
from time import monotonic

from cloister import aio
from cloister.channel import Channel
from cloister.frames import SETTLED
from cloister.json_codec import decode

_WAITS = Channel._block.__code__


class Standing:
    def __init__(self, channel, main_loop):
        self._channel = channel
        self._main_loop = main_loop
        self._since = None  # time.monotonic() of the HOLD; None: the clock runs
        self._lost = 0.0  # s in which it stood still
        self._number = 0  # of the HOLD
        aio.when_loaded(self._patch)

    def _patch(self, asyncio):
        """All loops that inherit their clock from asyncio."""

        def time(loop):
            """Returns the time of the event loop in seconds. It stands still while the session does."""
            return (monotonic() if self._since is None else self._since) - self._lost

        asyncio.BaseEventLoop.time = time

    def on_hold(self, number, payload):
        if self._since is None:
            self._since = monotonic()
        self._number = number
        loop = self._loop()
        if loop is None:
            self._settle(number)
        elif aio.running_loop() is loop:
            loop.call_soon(self._check, loop, number)
        else:
            loop.call_soon_threadsafe(self._check, loop, number)

    def on_held(self, number, payload):
        """A worker that was busy reads HOLD only after it has continued: then the broker's time is the longer one."""
        if self._since is None:
            return
        stood = monotonic() - self._since
        self._lost += max(stood, decode(payload).get("us", 0) / 1e6)
        self._since = None
        self._number = 0

    def _loop(self):
        """The event loop that may have something to run, or None."""
        loop = aio.running_loop() or self._main_loop.running()
        if loop is None or aio.running_loop() is None:
            return loop
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code is _WAITS:
                return None  # this thread waits for an answer, and its loop with it
            frame = frame.f_back
        return loop

    def _check(self, loop, number):
        if number != self._number:
            return
        if getattr(loop, "_ready", None):
            loop.call_soon(self._check, loop, number)
        else:
            self._settle(number)

    def _settle(self, number):
        self._channel.send(SETTLED, number, b"{}")
