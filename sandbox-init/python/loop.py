"""The event loop of the main thread (loops.py). Imports asyncio: only where there is one."""

import selectors

from cloister.aio import module as asyncio
from cloister.stdio import restore_descriptors


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
