"""Frames to and from the broker, and the calls that wait for an answer.

There is no reader thread: a thread that waits for an answer takes the reader lock, waits for frames and delivers each
to the call that it answers. Other threads that wait then wait for that thread. An event loop watches the channel while a
call of its tasks is pending, and reads if no thread does. `core` is the module _cloister, or a test's stand-in.
"""

from _thread import allocate_lock
from itertools import count
from types import coroutine

from cloister import aio
from cloister.frames import DATA, DROP, FETCH, PUT, RETURN

_GONE = (
    b'{"ok":false,"error":{"kind":"ToolUnavailable","message":'
    b'"the interpreter ended during the call and was restored: the server may have done it"}}'
)
ELSEWHERE = (
    b'{"ok":false,"error":{"kind":"ToolUnavailable","message":'
    b'"this session is a branch: the one that it is from gets the answer"}}'
)


class Waiter:
    """A pending call. payload: as _cloister.read() returns it. The waiting code has a lock or a loop; a task that is
    alone in its loop needs no future."""

    done = False
    payload = None
    lock = None
    loop = None
    future = None

    def finish(self, payload):
        if self.done:
            return
        self.payload = payload
        self.done = True
        if self.lock is not None:
            self.wake()
        elif aio.running_loop() is self.loop:
            if self.future is not None and not self.future.done():
                self.future.set_result(None)
        else:
            try:
                self.loop.call_soon_threadsafe(self._settle)
            except RuntimeError:
                pass  # the loop is closed, and its tasks were cancelled

    def _settle(self):
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    def wake(self):
        try:
            self.lock.release()
        except RuntimeError:
            pass  # no thread waits for the lock


@coroutine
def _turn():
    """Lets other tasks of the loop run."""
    yield


class Channel:
    def __init__(self, core, interrupts):
        self._core = core
        self._interrupts = interrupts
        self._numbers = count(1)
        self._waiters = {}  # number -> Waiter
        self._inbox = []
        self._reader = allocate_lock()
        self._blocked = []  # waiters of threads, in order
        self._watching = {}  # event loop -> number of pending calls of its tasks
        self._watched = None  # the loop that always watches the channel
        self.on_file = None  # (kind, payload): the payload of the answer
        self.on = {}  # kind of any other frame: function(number, payload or descriptor)
        self._pulled = False  # more frames came while an answer was sent

    @property
    def fd(self):
        return self._core.fileno()

    @property
    def has_read(self):
        """Whether frames have left the socket that are not delivered yet."""
        return bool(self._inbox)

    @property
    def has_blocked(self):
        """Whether a thread waits for an answer."""
        return bool(self._blocked)

    def wait_beside(self, fd, timeout_ms):
        """Waits for a frame, which it delivers, for the descriptor to be readable, or for a signal. Returns whether the
        descriptor is readable. A timeout of -1 means none."""
        ready = self._core.poll(fd, timeout_ms)
        if ready & 1:
            self.pump()
        return bool(ready & 2)

    def send_queued(self):
        """Before a wait that is not in the core, which sends what is queued first."""
        if self._core.send_queued():
            self.pump()

    def send(self, kind, number, payload):
        if self._core.send(kind, number, payload):
            self.pump()

    def _drop(self, number):
        """Informs the broker that the answer is no longer needed."""
        if self._waiters.pop(number, None) is None:
            return
        try:
            self.send(DROP, number, b"{}")
        except RuntimeError:
            pass  # in a child

    def tell(self, kind, payload):
        """Sends a frame that is not answered, or whose answer is ignored."""
        self.send(kind, next(self._numbers), payload)

    def pump(self):
        """Delivers the frames that have arrived, unless another thread does so."""
        if self._reader.acquire(False):
            try:
                self._read()
            finally:
                self._let_read()

    def call(self, kind, payload):
        """Sends a frame, waits for the answer and returns its payload."""
        number, waiter = next(self._numbers), Waiter()
        waiter.lock = allocate_lock()
        self._waiters[number] = waiter
        try:
            self.send(kind, number, payload)
            self._block(waiter)
        finally:
            self._drop(number)
        self._interrupts.checkpoint()
        return waiter.payload

    async def call_async(self, kind, payload):
        loop = aio.running_loop() or aio.load().get_running_loop()
        number, waiter = next(self._numbers), Waiter()
        waiter.loop = loop
        self._waiters[number] = waiter
        ours = loop is self._watched
        if not ours:
            self._watch(loop)
        try:
            waker = loop.waker_alone() if ours else None
            if waker is None:
                # The loop sends all calls of a turn together.
                if (self._core.queue if ours else self._core.send)(kind, number, payload):
                    self.pump()
            else:
                answer = self._core.ask(kind, number, payload, waker)
                if answer is not None:
                    del self._waiters[number]
                    waiter.payload, waiter.done = answer, True
                    if loop.turns:
                        await _turn()
            if not waiter.done:
                waiter.future = loop.create_future()
            if not waiter.done:
                await waiter.future
        finally:
            if not ours:
                self._unwatch(loop)
            if not waiter.done:
                self._drop(number)
        return waiter.payload

    def _watch(self, loop):
        out = self._watching.get(loop, 0)
        if out == 0:
            loop.add_reader(self._core.fileno(), self.pump)
        self._watching[loop] = out + 1

    def _unwatch(self, loop):
        out = self._watching.get(loop, 1) - 1
        if out:
            self._watching[loop] = out
            return
        self._watching.pop(loop, None)
        try:
            loop.remove_reader(self._core.fileno())
        except RuntimeError:
            pass  # closed, or a child

    def watch_always(self, loop):
        """For the loop of the main thread, which also waits for the next cell."""
        for other in list(self._watching):
            if other.is_closed():
                self._watching.pop(other, None)
        self._watch(loop)
        self._watched = loop

    def _read(self):
        inbox = self._inbox
        self._core.read(inbox)
        while inbox:
            # Removed last: if a signal handler of the guest raises here, the frame is delivered twice, not lost.
            self._deliver(*inbox[0])
            del inbox[0]
            if self._pulled and not inbox:
                self._pulled = False
                self._core.read(inbox)

    def _deliver(self, kind, number, payload):
        if kind == RETURN:
            waiter = self._waiters.pop(number, None)
            if waiter is not None:
                waiter.finish(payload)
            if isinstance(payload, int) and self._core.send(DROP, number, b'{"lost":true}'):
                self._pulled = True
        elif kind in (FETCH, PUT):
            if self._core.send(DATA, number, self.on_file(kind, payload)):
                self._pulled = True
        elif kind in self.on:
            self.on[kind](number, payload)

    def fail_all(self, answer=_GONE):
        """In a copy that has become the worker: the calls of the earlier worker get no answer, and its reading threads do not
        exist here."""
        self._reader = allocate_lock()
        self._inbox.clear()
        self._blocked.clear()
        self._pulled = False
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.finish(answer)

    def _let_read(self):
        self._reader.release()
        if self._blocked:
            self._wake_one()

    def _wake_one(self):
        for waiter in self._blocked:
            if not waiter.done:
                waiter.wake()
                return

    def _block(self, waiter):
        self._blocked.append(waiter)
        try:
            while not waiter.done:
                if self._reader.acquire(False):
                    try:
                        while not waiter.done:
                            self._core.wait(-1)
                            self._read()
                    finally:
                        self._let_read()
                else:
                    self._park(waiter)
        finally:
            self._blocked.remove(waiter)
            # If this thread was woken to read, wake another one instead.
            self._wake_one()

    def _park(self, waiter):
        main = self._interrupts.in_main_thread()
        if main:
            self._interrupts.parked = True
        try:
            waiter.lock.acquire()
        finally:
            if main:
                self._interrupts.parked = False
