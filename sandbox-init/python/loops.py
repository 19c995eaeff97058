"""The event loop of the main thread.

It runs while an async cell runs and while the worker waits for the next cell, never during a cell without await:
there `asyncio.run(main())`, typed by habit, works as in any script.
"""

import asyncio
import functools
import selectors
from _thread import get_ident
from contextvars import copy_context

from cloister.interrupts import gate, loop_gate
from cloister.stdio import restore_descriptors

_set_running_loop = asyncio._set_running_loop
_running_loop = asyncio._get_running_loop


class Loop(asyncio.SelectorEventLoop):
    """Survives what a sandbox must: its descriptors closed, its tasks referred to by nobody."""

    def __init__(self, on_wakeup_fd):
        # poll, not epoll: no descriptor of its own that could be closed under it.
        super().__init__(selectors.PollSelector())
        self._kept = set()
        self._on_wakeup_fd = on_wakeup_fd
        on_wakeup_fd(self._csock.fileno())

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


class Loops:
    def __init__(self, channel, interrupts):
        self._channel = channel
        self._interrupts = interrupts
        self._loop = None
        self._thread = None
        self.idle = False

    def main(self):
        """The main thread's loop; a new one when the guest has closed it."""
        if self._loop is None or self._loop.is_closed():
            self._loop = Loop(self._interrupts.wake_through)
            self._channel.watch_always(self._loop)
        self._thread = get_ident()
        return self._loop

    def adopt(self):
        """Before a cell: asyncio.run() leaves no current loop behind."""
        try:
            asyncio.set_event_loop(self.main())
        except Exception:
            pass  # the guest has broken asyncio; a cell without await does not need it

    def stop_idling(self):
        """A cell has arrived."""
        if not self.idle:
            return
        if _running_loop() is self._loop:
            self._loop.stop()
        else:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def run_idle(self):
        """Background tasks go on until a cell arrives."""
        self.idle = True
        try:
            self._run_forever(self.main())
        finally:
            self.idle = False

    @loop_gate
    def _run_forever(self, loop):
        loop.run_forever()

    def drive(self, coroutine):
        """Runs a coroutine that returns rather than raises, whatever other tasks raise meanwhile: a KeyboardInterrupt
        or SystemExit of theirs ends it too. Returns (its result or None, the first such exception or None)."""
        loop = self.main()
        task = loop.create_task(coroutine)
        self._interrupts.cancel = functools.partial(self._cancel, loop, task)
        first = None
        while not task.done():
            try:
                self._run_until_complete(loop, task)
            except (KeyboardInterrupt, SystemExit, asyncio.CancelledError) as error:
                first = first or error
                task.cancel()
            except RuntimeError as error:
                if loop.is_closed() or "stopped before" not in str(error):
                    coroutine.close()
                    return None, first or error
        self._interrupts.cancel = None
        return (None if task.cancelled() or task.exception() else task.result()), first

    @staticmethod
    def _cancel(loop, task):
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)

    @loop_gate
    def _run_until_complete(self, loop, task):
        loop.run_until_complete(task)

    def teach_asyncio(self):
        """What notebooks have taught people to expect: create_task() in a cell without await starts in the
        background, asyncio.run() works in every cell."""
        create_task, run = asyncio.create_task, asyncio.run

        @functools.wraps(create_task)
        def create_task_anywhere(coro, **options):
            if _running_loop() is None and get_ident() == self._thread:
                return self.main().create_task(coro, **options)
            return create_task(coro, **options)

        @gate
        def run_anywhere(*args, **options):
            outer = _running_loop()
            if outer is None:
                try:
                    return run(*args, **options)
                finally:
                    if get_ident() == self._thread:
                        asyncio.set_event_loop(self.main())
            return _nested(outer, run, args, options)

        functools.update_wrapper(run_anywhere, run)
        asyncio.create_task = asyncio.tasks.create_task = create_task_anywhere
        asyncio.run = asyncio.runners.run = run_anywhere


@gate
def _nested(outer, run, args, options):
    """asyncio.run() inside a running loop: that loop stands still meanwhile, as with any blocking call."""
    swap = getattr(asyncio.tasks, "_swap_current_task", None)
    task = swap(outer, None) if swap else None
    _set_running_loop(None)
    try:
        return run(*args, **options)
    finally:
        _set_running_loop(outer)
        if swap:
            swap(outer, task)
        asyncio.set_event_loop(outer)


def keep_context(variables):
    """What a task has set in its copy of the context variables (decimal's precision, say), set here too."""
    current = copy_context()
    for variable, value in variables.items():
        if variable not in current or current[variable] is not value:
            variable.set(value)
