"""The event loop class of the main thread (main_loop.py). Imports asyncio."""

import selectors
from _socket import socketpair
from math import ceil

from cloister.aio import cell
from cloister.aio import module as asyncio
from cloister.interrupts import runs_loop
from cloister.stdio import restore_descriptors

all_tasks, current_task, Handle = asyncio.all_tasks, asyncio.current_task, asyncio.Handle
MAX_WAIT = 24 * 3600 * 1000  # ms
RETRY = 0.1  # s


class Selector(selectors.PollSelector):
    """poll, not epoll: no descriptor of its own that could be closed under it.

    Most of the time a loop waits for two things only, the broker's frames and its own wake-ups. Then one call of the
    channel waits for both and delivers the frames, so that the tasks that wait for them run in the same iteration.
    """

    def __init__(self, channel):
        super().__init__()
        self.channel = channel
        self.open = None  # creates the loop's descriptors; None once it has them
        self.loop = None
        self.waker = None  # the key of the loop's own socket, if only that and the channel are registered
        self._looked = False  # polled in the last turn

    def _changed(self):
        self.waker = None
        try:
            channel = self.channel.fd
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

    @runs_loop
    def select(self, timeout=None):
        waker = self.waker
        if waker is None:
            self.channel.send_queued()
            return super().select(timeout) if self.open is None else self._select_first(timeout)
        if timeout is None:
            wait = -1
        elif timeout > 0:
            wait = min(ceil(timeout * 1e3), MAX_WAIT)
        elif self._looked and not self.loop._scheduled:
            # Callbacks are ready: polling the descriptors in every second turn is enough. A frame that sets the clock back (HELD)
            # must be read before timers.
            self._looked = False
            return []
        else:
            wait = 0
        self._looked = True
        try:
            woken = self.channel.wait_beside(waker.fd, wait)
        except RuntimeError:
            return super().select(timeout)  # in a child
        return [(waker, selectors.EVENT_READ)] if woken else []

    def _select_first(self, timeout):
        try:
            self.open()
        except OSError:
            # The guest uses all descriptors. Threads cannot wake the loop, so it polls.
            return super().select(RETRY if timeout is None else min(timeout, RETRY))
        return []  # a thread may have added a callback before there was a socket to wake


class Loop(asyncio.SelectorEventLoop):
    """Works even if the guest closes its descriptors, and keeps references to tasks that have no other one.

    It opens its descriptors in its first iteration, or when they are first needed: a cell without await needs none.
    """

    def __init__(self, selector, on_open, on_wakeup_fd, thread_context):
        self._ssock = self._csock = None
        super().__init__(selector)
        self.turns = self._ready  # the callbacks to run next
        self._kept = {}  # task -> number of its cell, or None
        self._forget = self._kept.pop
        self._thread_context = thread_context
        self._on_open = on_open
        self._on_wakeup_fd = on_wakeup_fd
        selector.loop = self
        selector.open = self._open

    def _make_self_pipe(self):
        """Called by asyncio's constructor: does nothing, _open() creates the sockets."""

    def _open(self):
        self._on_open(self)
        if self._csock is None:
            self._connect()
        self._selector.open = None

    def _connect(self):
        """The same as asyncio's _make_self_pipe(), with the original socket class, which the guest may have replaced."""
        self._ssock, self._csock = socketpair()
        self._ssock.setblocking(False)
        self._csock.setblocking(False)
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)
        self._on_wakeup_fd(self._csock.fileno())

    def _close_self_pipe(self):
        if self._csock is not None:
            super()._close_self_pipe()
            self._on_wakeup_fd(-1)

    def descriptors(self):
        return () if self._csock is None or self._closed else (self._ssock.fileno(), self._csock.fileno())

    def renew(self):
        self._renew_self_pipe()

    def has_begun(self):
        """Whether the loop has run, or has something to run."""
        selector = self._selector
        return bool(self._ready or self._scheduled or self._closed or selector.open is None or selector.get_map())

    def rests(self):
        """Whether the loop has nothing to run until a frame, a signal or a thread wakes it."""
        return not (self._ready or self._scheduled or self._closed or self._selector.waker is None)

    def waker_alone(self):
        """The waker, if the running task may block for a frame because all other tasks wait too. Else None."""
        waker = self._selector.waker
        if waker is None or self._ready or self._scheduled or self._stopping or self._debug:
            return None
        return None if getattr(current_task(self), "_must_cancel", True) else waker.fd

    def waker(self):
        return self._selector.waker.fd

    def add_signal_handler(self, sig, callback, *args):
        if self._csock is None:
            self._open()
        super().add_signal_handler(sig, callback, *args)

    def create_task(self, coro, **options):
        if self._task_factory is None and not self._closed and not self._debug:
            task = asyncio.tasks.Task(coro, loop=self, **options)
        else:
            task = super().create_task(coro, **options)
        self._kept[task] = cell.get(None)
        task.add_done_callback(self._forget)
        return task

    def call_soon(self, callback, *args, context=None):
        """The same as asyncio's, by one function instead of three. A task that has ended is forgotten at once, without a callback in the
        next turn."""
        if self._closed or self._debug:
            return super().call_soon(callback, *args, context=context)
        if callback is self._forget:
            self._forget(*args)
            return None
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback, *args, context=None):
        return super().call_soon_threadsafe(callback, *args, context=context or self._thread_context())

    def tasks_of(self, number):
        """Returns the tasks of a cell that have not ended. One that asyncio.Task() has made has a context since Python 3.12."""
        found = [task for task, made_by in self._kept.items() if made_by == number]
        for task in all_tasks(self):
            if task not in self._kept and hasattr(task, "get_context") and task.get_context().get(cell) == number:
                found.append(task)
        return found

    def drop(self, number, last):
        """Cancels the timers of a cell, and stops its servers; last: its connections and callbacks too. Returns how many."""

        def is_of_cell(handle):
            return handle is not None and not handle._cancelled and handle._context.get(cell) == number

        dropped = [*filter(is_of_cell, (*self._scheduled, *(self._ready if last else ())))]
        for handle in dropped:
            handle.cancel()
        own = {*self.descriptors(), self._selector.channel.fd}
        for key in list(self._selector.get_map().values()):
            handles = [*filter(is_of_cell, key.data)] if key.fd not in own else ()
            for handle in handles:
                transport = getattr(handle._callback, "__self__", None)
                if not isinstance(transport, asyncio.BaseTransport):
                    self._stop_watching(key.fd, handle)
                elif last:
                    getattr(transport, "abort", transport.close)()
                else:
                    continue
                dropped.append(handle)
        return len(dropped)

    def _stop_watching(self, fd, handle):
        self._remove_reader(fd)
        self._remove_writer(fd)
        for argument in handle._args or ():
            if isinstance(argument, asyncio.AbstractServer):
                argument.close()

    def _read_from_self(self):
        try:
            super()._read_from_self()
        except OSError:
            self._renew_self_pipe()

    def _renew_self_pipe(self):
        # Detached, not closed: the guest may have opened other files under their numbers.
        self._remove_reader(self._ssock.detach())
        self._csock.detach()
        self._internal_fds -= 1
        restore_descriptors()
        self._connect()
