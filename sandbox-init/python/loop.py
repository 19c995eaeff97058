"""The event loop of the main thread (loops.py). Imports asyncio: only where there is one."""

import selectors
from math import ceil

from cloister.aio import module as asyncio
from cloister.interrupts import loop_gate
from cloister.stdio import restore_descriptors

MOST_WAIT = 24 * 3600 * 1000  # ms


class Selector(selectors.PollSelector):
    """poll, not epoll: no descriptor of its own that could be closed under it.

    Most of the time a loop waits for two things only, the broker's frames and its own wake-ups. Then one call of the
    channel waits for both, and frames are handed on right here, so that who waits for them runs in the same turn.
    """

    def __init__(self, channel):
        super().__init__()
        self._channel = channel
        self.waker = None  # the key of the loop's own socket, when there is nothing else beside the channel
        self._looked = False  # in the last turn

    def _changed(self):
        self.waker = None
        try:
            channel = self._channel.fd
        except RuntimeError:
            return  # in a child
        keys = list(self._fd_to_key.values())
        ours = [key for key in keys if key.fd == channel]
        if len(keys) == 2 and ours and all(key.events == selectors.EVENT_READ for key in keys):
            self.waker = keys[keys[0] is ours[0]]

    def register(self, fileobj, events, data=None):
        key = super().register(fileobj, events, data)
        self._changed()
        return key

    def unregister(self, fileobj):
        try:
            return super().unregister(fileobj)
        finally:
            self._changed()

    def modify(self, fileobj, events, data=None):
        try:
            return super().modify(fileobj, events, data)
        finally:
            self._changed()

    @loop_gate
    def select(self, timeout=None):
        waker = self.waker
        if waker is None:
            return super().select(timeout)
        if timeout is None:
            wait = -1
        elif timeout > 0:
            wait = min(ceil(timeout * 1e3), MOST_WAIT)
        elif self._looked:
            # Something is to run: a look at the descriptors in every second turn will do.
            self._looked = False
            return []
        else:
            wait = 0
        self._looked = True
        try:
            woken = self._channel.wait_beside(waker.fd, wait)
        except RuntimeError:
            return super().select(timeout)  # in a child
        return [(waker, selectors.EVENT_READ)] if woken else []


class Loop(asyncio.SelectorEventLoop):
    """Survives what a sandbox must: its descriptors closed, its tasks referred to by nobody."""

    def __init__(self, selector, on_wakeup_fd):
        super().__init__(selector)
        self._kept = set()
        self._on_wakeup_fd = on_wakeup_fd
        on_wakeup_fd(self._csock.fileno())

    def rests(self):
        """Whether nothing is to run before a frame, a signal or a thread comes."""
        return not (self._ready or self._scheduled or self._closed or self._selector.waker is None)

    def waker(self):
        return self._selector.waker.fd

    def create_task(self, coro, **options):
        task = super().create_task(coro, **options)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    def _read_from_self(self):
        try:
            super()._read_from_self()
        except OSError:
            self._renew_self_pipe()

    def _renew_self_pipe(self):
        # Detached rather than closed: their numbers may be files of the guest's by now.
        self._remove_reader(self._ssock.detach())
        self._csock.detach()
        self._internal_fds -= 1
        restore_descriptors()
        self._make_self_pipe()
        self._on_wakeup_fd(self._csock.fileno())
