"""The event loop of the main thread.

It runs while an async cell runs and while the worker waits for the next cell. It does not run during a cell without
await, so that `asyncio.run(main())` works there as in any script.
"""

import functools
from _thread import _count as threads_count
from _thread import get_ident
from contextvars import copy_context
from itertools import count
from time import monotonic, sleep

from cloister import aio
from cloister.interrupts import calls_guest, runs_loop


TURNS = 3  # of the loop without a pause, for tasks that end at once when they are cancelled
PAUSE = 0.001  # s, before the next ones
CANCEL_EVERY = 0.3  # s. A part of SESSION_GRACE_MS, because a task may wait while it ends


class MainLoop:
    def __init__(self, channel, interrupts):
        self._channel = channel
        self._interrupts = interrupts
        self._loop = None
        self._thread = None
        self._task = None  # of the cell
        self._number = None  # of the cell
        self.idle = False

    def main(self):
        """The main thread's loop; a new one if the guest has closed it."""
        if self._loop is None or self._loop.is_closed():
            self._loop = self._make()
        self._thread = get_ident()
        return self._loop

    def _make(self):
        aio.load()
        from cloister.event_loop import Loop, Selector

        return Loop(Selector(self._channel), self._on_open, self._interrupts.wake_through, self._thread_context)

    def _thread_context(self):
        """The current context. That of a new thread is empty: the thread belongs to the cell that has started it."""
        context = copy_context()
        if aio.cell not in context and get_ident() not in self._interrupts.threads:
            context.run(aio.cell.set, self._number)
        return context

    def _on_open(self, loop):
        try:
            self._channel.watch_always(loop)
        except RuntimeError:
            pass  # in a child

    def descriptors(self):
        """The loop's own."""
        return self._loop.descriptors() if self._loop is not None else ()

    def renew(self):
        """In a branch, which has no such descriptors."""
        if self.descriptors():
            self._loop.renew()

    def prepare(self):
        """In the template: creates the loop of its workers, without descriptors."""
        aio.load().set_event_loop(self.main())

    def begin(self, number):
        """Before a cell. Sets the current event loop again, which asyncio.run() unsets."""
        self.count(number)
        self._adopt()

    def count(self, number):
        """What the cell schedules has its number."""
        self._number = number
        aio.cell.set(number)

    def _adopt(self):
        asyncio = aio.module
        if asyncio is None:
            return
        loop = self.main()
        try:
            policy = asyncio.events._event_loop_policy
            if type(policy) is asyncio.unix_events._UnixDefaultEventLoopPolicy and policy._local._loop is loop:
                return
        except Exception:
            pass  # a version of asyncio with other internals
        try:
            asyncio.set_event_loop(loop)
        except Exception:
            pass  # the guest's changes broke asyncio; a cell without await does not need it

    def is_needed(self):
        """Between cells: whether the loop has to run. A thread of the guest may read the next cell, or use the loop."""
        loop = self._loop
        return threads_count() > 0 or (loop is not None and loop.has_begun())

    def running(self):
        """The main thread's loop while it runs, or None."""
        loop = self._loop
        return loop if loop is not None and loop.is_running() else None

    def stop_idling(self):
        """A cell has arrived."""
        if not self.idle:
            return
        if aio.running_loop() is self._loop:
            self._loop.stop()
        else:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def rest(self):
        """If the loop has nothing to run, waits without it. Returns whether it waited; a cell may have arrived then."""
        loop = self._loop
        if loop is None or not loop.rests():
            return False
        return not self._channel.wait_beside(loop.waker(), -1)

    def run_idle(self, has_cell):
        """Runs background tasks until a cell arrives. has_cell() is called once a cell that arrives stops the loop."""
        loop = self.main()  # may import asyncio, while a thread may read the cell
        self.idle = True
        try:
            if not has_cell():
                self._run_forever(loop)
        finally:
            self.idle = False

    @runs_loop
    def _run_forever(self, loop):
        loop.run_forever()

    def drive(self, coroutine):
        """Runs a coroutine that does not raise. A KeyboardInterrupt or SystemExit of another task ends it too. Returns
        (its result or None, the first such exception or None)."""
        loop = self.main()
        task = self._task = self._interrupts.task = loop.create_task(coroutine)
        self._interrupts.number = self._number
        self._interrupts.cancel = functools.partial(self._cancel, loop, task)
        first = None
        while not task.done():
            try:
                self._run_until_complete(loop, task)
            except (KeyboardInterrupt, SystemExit, aio.CancelledError) as error:
                first = first or error
                task.cancel()
            except RuntimeError as error:
                if loop.is_closed() or "stopped before" not in str(error):
                    coroutine.close()
                    return None, first or error
        self._interrupts.task = self._interrupts.cancel = self._task = None
        return (None if task.cancelled() or task.exception() else task.result()), first

    def runs_cell(self):
        """Whether the running task is that of the cell."""
        return self._task is not None and aio.module.current_task() is self._task

    @staticmethod
    def _cancel(loop, task):
        """Returns whether the task had not ended."""
        cancelled = task.cancel()
        loop.call_soon_threadsafe(lambda: None)
        return cancelled

    @runs_loop
    def _run_until_complete(self, loop, task):
        loop.run_until_complete(task)

    def patch_asyncio(self, asyncio):
        """Patches asyncio to work as in a notebook: create_task() in a cell without await starts a background task, and
        asyncio.run() works in every cell."""
        create_task, run = asyncio.create_task, asyncio.run

        @functools.wraps(create_task)
        def create_task_anywhere(coro, **options):
            if aio.running_loop() is None and get_ident() == self._thread:
                return self.main().create_task(coro, **options)
            return create_task(coro, **options)

        @calls_guest
        def run_anywhere(*args, **options):
            outer = aio.running_loop()
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
        if self._interrupts.in_main_thread():
            self._adopt()

    def end_tasks(self):
        """After a cell that was interrupted: ends its tasks, timers, servers and connections. While one of them does not end, this
        does not return, and the broker ends the interpreter when the grace is over."""
        loop, asked, again = self._loop, set(), 0
        for turn in count():
            if loop is None or loop.is_closed() or not loop.has_begun():
                return
            try:
                tasks = set(loop.tasks_of(self._number))
                is_due = monotonic() >= again
                if is_due:
                    asked, again = set(), monotonic() + CANCEL_EVERY
                # A task may wait for a timer while it ends.
                if (is_due or not tasks) and not loop.drop(self._number, not tasks) and not tasks:
                    return
                for task in tasks - asked:
                    asked.add(task)
                    task.cancel()
                loop.call_later(PAUSE * (turn > TURNS), loop.stop)
                self._run_forever(loop)
            except BaseException:
                sleep(PAUSE)  # a task was interrupted, or the code has changed asyncio


@calls_guest
def _nested(outer, run, args, options):
    """asyncio.run() inside a running loop: the outer loop is blocked meanwhile, as by any blocking call."""
    asyncio = aio.module
    swap = getattr(asyncio.tasks, "_swap_current_task", None)
    task = swap(outer, None) if swap else None
    asyncio._set_running_loop(None)
    try:
        return run(*args, **options)
    finally:
        asyncio._set_running_loop(outer)
        if swap:
            swap(outer, task)
        asyncio.set_event_loop(outer)


def keep_context(variables):
    """Copies context variables that a task has set, such as decimal's precision, to the current context."""
    current = copy_context()
    for variable, value in variables.items():
        if variable not in current or current[variable] is not value:
            variable.set(value)
