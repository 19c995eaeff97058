"""The sleeping copies of the worker, with which a session continues when its worker ends, at a restore, or after undo()
(docs/cells.md)."""

import builtins
import os
from _thread import _count as threads_count
from errno import E2BIG, EAGAIN, EFBIG, EINTR, ELOOP, ENOMEM, ETIMEDOUT
from os import SEEK_CUR, SEEK_SET, close, fsdecode, fstat, getpid, kill, listdir, lseek, read, scandir
from os import open as os_open
from stat import S_ISREG
from time import monotonic, sleep, time_ns

from cloister import fork_hooks, stdio, strangers
from cloister.files import ROOT, is_shown
from cloister.frames import KEPT, QUERY, RESTORED
from cloister.json_codec import decode, encode_own
from cloister.unrestorable import Lost

SIGKILL = 9
READY_S = 2  # until the copy has stopped itself
READY_BESIDE_A_CELL_S = 0.2  # where something waits in the channel
TRIES = 5  # a thread of a library has run while it was held
MAX_ENTRIES = 10_000  # of /workspace
MAX_NAMED = 10
CLOCK_NS = 10_000_000  # a time of the kernel's clock for files is older by up to a tick


def _has_stopped(pid):
    try:
        fd = os_open("/proc/%d/stat" % pid, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return read(fd, 512).rpartition(b") ")[2][:1] == b"T"
    finally:
        close(fd)


_REFUSALS = {
    EAGAIN: "processes",
    E2BIG: "names",
    EFBIG: "bytes",
    ELOOP: "depth",
    ETIMEDOUT: "time",
    ENOMEM: "memory",
}
_ELSEWHERE = "/tmp", "/dev/shm"  # what a rollback does not take back


def changed_files(since_ns, root=ROOT):
    """(names of files below the directory that changed since then, the number of such files)"""
    found, visited, waiting = [], 0, [root]
    while waiting and visited < MAX_ENTRIES:
        try:
            with scandir(waiting.pop()) as entries:
                for entry in entries:
                    visited += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= since_ns:
                        found.append(entry.path[len(root) + 1 :])
        except OSError:
            pass  # gone meanwhile, or not readable
    return sorted(path for path in found if is_shown(path))[:MAX_NAMED], len(found)


def _offsets():
    """{descriptor: offset} of open files. The failed cell and the copy share them."""
    found, names = {}, ()
    try:
        names = listdir("/proc/self/fd")
    except OSError:
        pass  # no descriptor is left for it
    for name in names:
        try:
            fd = int(name)
            if S_ISREG(fstat(fd).st_mode):
                found[fd] = lseek(fd, 0, SEEK_CUR)
        except OSError:
            pass  # listdir()'s own, or opened with O_PATH
    return found


def _seek(offsets):
    for fd, offset in offsets.items():
        try:
            lseek(fd, offset, SEEK_SET)
        except OSError:
            pass


def _describe(changed, returned, removed, failed, names, failed_names):
    """What a rollback has done, for RESTORED."""
    return {
        "changed": changed,
        "returned": returned,
        "removed": removed,
        "files": _shown(names),
        "failed": failed,
        "failed_files": _shown(failed_names),
    }


def _shown(names):
    return sorted(path for path in map(fsdecode, names) if is_shown(path))


class Copies:
    """about: (threads, processes, time in ns) of the state that a copy has, when it was made first."""

    def __init__(self, core, channel):
        self._core = core
        self._channel = channel
        self._pids = ()  # of all copies, as the broker has them
        self._aside = 0  # pid of the last one of a block, which may be ending
        self.asked = None  # id of a KEEP that was not answered
        self._bytes = -1  # of a transaction: how many of files the copy may hold
        self._writer = None  # of the copy that is to be made (id of its KEEP, descriptor), if it has one
        self._about = None  # in a copy that was woken, until it is copied again: about the state that it has

    def ask(self, number, payload):
        self.asked = number
        asked = decode(payload)
        self._pids = asked.get("copies", ())
        self._bytes = asked.get("files", -1)
        if "value" in asked:  # of a cell after the copy that was woken, which changed nothing else
            builtins._ = asked["value"]

    def give_writer(self, number, fd):
        self._close_writer()
        if fd >= 0:
            self._writer = number, fd

    def _close_writer(self):
        """Of the worker: the copy keeps its own."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                close(writer[1])
            except OSError:
                pass  # the guest has closed it

    def decline(self):
        """A cell has come: it goes first."""
        self._answer(why="late")

    def make(self, beside_a_cell=False):
        """Makes the requested copy. Returns True in the copy, when it has become the worker; in a fork of the copy
        that will write a branch (lost, about, offsets, what core.copy() has returned); else None. beside_a_cell: for a
        block of it, and without a writer socket."""
        number, threads = self.asked, threads_count()
        lost = Lost(threads, self.count_processes(), getpid())
        was, now = self._about, (threads, lost.processes, time_ns() - CLOCK_NS)
        self._about = None
        offsets = _offsets()
        writer = -1
        if self._writer is not None and self._writer[0] == number:
            writer = self._writer[1]
        fork_hooks.copying = True
        try:
            for _ in range(TRIES):
                pid = self._core.copy(threads > 0, self._may_hold(threads), self._bytes, writer)
                if pid != -EINTR:
                    break
        finally:
            fork_hooks.copying = False
        if self._core.held() > 0:
            lost.threads, now = 0, (0, *now[1:])
        about = was or now
        if type(pid) is tuple:
            return lost, about, offsets, pid
        if pid == 0:
            self.asked = self._writer = None
            self._wake(number, lost, about, offsets)
            if beside_a_cell:
                self._about = None  # the next copy is that of another state
            return True
        if pid < 0:
            self._answer(why=_REFUSALS.get(-pid, "failed"))
        elif self._core.held() <= 0 and strangers.count() > threads:
            # Threads that Python does not know, that could not be held, and that libc's hooks did not end: their library may wait for them.
            kill(pid, SIGKILL)
            self._answer(why="threads", thread=strangers.first(-self._core.held()))
        elif not self._is_ready(pid, READY_S if beside_a_cell else READY_BESIDE_A_CELL_S):
            kill(pid, SIGKILL)
            self._answer(why="failed")
        else:
            self._pids = *self._pids, pid
            self._aside = pid if beside_a_cell else 0
            self._answer(pid=pid, threads=lost.threads, processes=lost.processes)
        return None

    def _may_hold(self, threads):
        """A copy lacks threads of Python, unless a library has threads too: then all come back, except ones that wait for the broker."""
        return not threads or (strangers.count() > threads and not self._channel.has_blocked)

    def _answer(self, **members):
        self._close_writer()
        number, self.asked = self.asked, None
        self._channel.send(KEPT, number, encode_own(members))

    def _is_ready(self, pid, patience):
        began = monotonic()
        while not _has_stopped(pid):
            took = monotonic() - began
            if took > READY_S or (took > patience and self._core.wait(0)):
                return False
            sleep(0.0001)
        return True

    def count_processes(self):
        """Counts the guest's processes: every process except init, the worker and its copies."""
        others = {"1", str(getpid()), *map(str, (*self._pids, self._aside))}
        try:
            return sum(name.isdigit() and name not in others for name in listdir("/proc"))
        except OSError:
            return 0

    def _wake(self, number, lost, about, offsets):
        self._about = about
        _seek(offsets)
        self._channel.fail_all()
        if lost.threads:
            stdio.renew()
        try:
            lost.mark(getpid())
        except MemoryError:
            pass  # the list of all objects
        self._lost = lost
        threads, processes, made_ns = about
        self._report = {"threads": threads, "processes": processes}
        taken_back = self._core.rolled_back()
        if taken_back is None:
            files, total = changed_files(made_ns)
            self._report.update(files=files, files_total=total)
        else:
            elsewhere = sum(changed_files(made_ns, root)[1] for root in _ELSEWHERE)
            self._report.update(rolled_back=_describe(*taken_back), elsewhere=elsewhere)
        self._number = number

    def forget(self):
        """In a branch: the copies are the other sandbox's."""
        self._pids, self.asked, self._about, self._writer = (), None, None, None

    def report(self):
        """The last step of a restore: the broker may send frames from now on."""
        self._channel.send(RESTORED, self._number, encode_own(self._report))
        self._lost.settle()

    def undo(self):
        """Ends the cell: the session continues with its variables as they were before it. Tool calls are not taken back,
        nor are files, except those of a call with on_error="rollback". Raises RuntimeError if there is no copy of that
        state."""
        stdio.flush(self._core)
        answer = decode(self._channel.call(QUERY, b'{"what":"undo"}'))
        raise RuntimeError(answer["error"]["message"])
