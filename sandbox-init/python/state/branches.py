"""Branches: this worker, as it is now or was at a checkpoint, also runs in a second sandbox (docs/branches.md).

Sent, in this order: the files of /workspace (archive.py), then the memory, by a fork. The other state of the process is
written to its memory before the fork, and the branch makes it again. Of a checkpoint, a fork of its process does all of it, and no
other code: no handler of a signal, and no finalizer except of objects that threads had.
"""

import fcntl
import gc
import os
import stat
import sys
from _thread import _count as threads_count
from errno import E2BIG, EAGAIN, EBUSY, EPIPE, ESTALE
from time import sleep

from cloister import archive, fork_hooks, stdio, strangers
from cloister.copies import SIGKILL, changed_files
from cloister.frames import LOAD
from cloister.json_codec import printable
from cloister.unrestorable import Lost

_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECTORY
_REASONS = {
    EBUSY: "it shares memory with other processes or files",
    E2BIG: "it has too many mappings",
    EPIPE: "its memory did not arrive",
    ESTALE: "the template was started again since the session began",
}


class BranchError(Exception):
    """Why there is no branch."""


def _reason(number):
    return _REASONS.get(number) or "its memory cannot be copied: %s" % os.strerror(number)


def _file_of(fd, offsets):
    """(path, flags, offset) of a file that the branch can open again, or None. offsets: of files that have another one by now."""
    about = os.fstat(fd)
    kind = stat.S_IFMT(about.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFCHR):
        return None
    path = os.readlink("/proc/self/fd/%d" % fd)
    there = os.stat(path)
    if (there.st_dev, there.st_ino) != (about.st_dev, about.st_ino):
        return None  # removed, or another file has its name
    offset = None
    if kind == stat.S_IFREG:
        offset = offsets[fd] if fd in offsets else os.lseek(fd, 0, os.SEEK_CUR)
    return path, fcntl.fcntl(fd, fcntl.F_GETFL) & _KEPT_FLAGS, offset


def _events_of(fd):
    """Of a set of epoll: [(descriptor, events, data)]; of an eventfd: (value, flags); else None. Threads of libraries wait for them."""
    kind = os.readlink("/proc/self/fd/%d" % fd)
    if kind not in ("anon_inode:[eventpoll]", "anon_inode:[eventfd]"):
        return None
    with open("/proc/self/fdinfo/%d" % fd, encoding="ascii") as file:
        fields = [line.split() for line in file]
    if kind == "anon_inode:[eventfd]":
        return min(int(dict(f[:2] for f in fields)["eventfd-count:"], 16), 2**32 - 1), fcntl.fcntl(fd, fcntl.F_GETFL)
    return [(int(f[1]), int(f[3], 16), int(f[5], 16)) for f in fields if f[0] == "tfd:"]


def _pipe_of(fd, pipes):
    about = os.fstat(fd)
    return pipes.get((about.st_dev, about.st_ino))


class Branches:
    """core: the module _cloister."""

    def __init__(self, core, copies, main_loop):
        self._core = core
        self._copies = copies
        self._main_loop = main_loop
        self.asked = None  # (DUMP or LOAD, number of the cell, descriptor or errno)
        self._changed = None  # of a checkpoint: (names, number) of files that have changed since

    def run(self):
        """Runs the request. Returns (the number of the cell, the error or None, whether this is a branch)."""
        kind, number, self._fd = self.asked
        self.asked = None
        error = None
        try:
            if self._fd < 0:
                raise BranchError("no descriptor is free")
            if kind == LOAD:
                self._load(self._fd, number)
            elif self._dump(self._fd):
                return self._number, None, True
        except MemoryError:
            error = "no memory for it"
        except BaseException as e:  # also what code of the guest raises in a handler of a signal
            error = printable(str(e))
        return number, error, False

    def end(self):
        """After the result, so that it is known before the pipe ends."""
        try:
            os.close(self._fd)
        except OSError:
            pass  # lost, or the guest has closed it

    # ---- in the worker that is copied ----

    def _dump(self, fd):
        """Writes all there is. Returns True in the branch."""
        archive.write(fd)
        threads = threads_count()
        lost = Lost(threads, self._copies.count_processes(), os.getpid())
        self._note({fd, self._core.fileno()}, {})
        fork_hooks.copying = True
        try:
            pid = self._core.dump(threads > 0, fd)
        finally:
            fork_hooks.copying = False
        if type(pid) is tuple:
            self.lost, self._gone, self._changed = lost, (lost.threads, lost.processes), None
            self._number = pid[0]
            return True
        if pid < 0:
            raise BranchError("limits.pids allows no more processes" if pid == -EAGAIN else _reason(-pid))
        if self._core.held() <= 0 and strangers.count() > threads:
            os.kill(pid, SIGKILL)
            raise BranchError("thread %s cannot be held" % strangers.first(-self._core.held()))
        self._await_end(pid)
        return False

    @staticmethod
    def _await_end(pid):
        """The fork is not a child of this process. While it writes, this one waits: pages that it wrote to would be copied."""
        while True:
            try:
                os.kill(pid, 0)
            except OSError:
                return
            sleep(0.0005)

    @staticmethod
    def _current_directory():
        try:
            return os.getcwd()
        except OSError:
            return "/"  # it was removed

    # ---- in a fork of a checkpoint's process ----

    def write(self, lost, about, offsets, asked):
        """Returns in the branch, with its number; else the process ends."""
        self._collects = gc.isenabled()
        gc.disable()
        fd, channel, mask = asked
        error = "it failed"
        try:
            self.lost, self._gone = lost, about[:2]
            self._note({fd, channel}, offsets)
            self._changed = changed_files(about[2])
            archive.write(fd)
            return self._core.write(fd, mask)
        except MemoryError:
            error = "no memory for it"
        except BaseException as e:
            error = printable(str(e))
        try:
            archive.refuse(fd, error)
        finally:
            os._exit(1)

    # ---- what is not in memory ----

    def _note(self, own, offsets):
        """own: descriptors that each worker has, or that are of no other use."""
        self._note_descriptors(own, offsets)
        self._directory, self._umask = self._current_directory(), os.umask(0)
        os.umask(self._umask)

    def _note_descriptors(self, own, offsets):
        """{number: a file, 1 or 2 for the pipe of standard output or error, or None for what a branch cannot have}"""
        pipes = {}
        spares = stdio.spares()
        for number, fd in spares.items():
            about = os.fstat(fd)
            pipes[about.st_dev, about.st_ino] = number
        kept = {*own, *spares.values(), *self._main_loop.descriptors()}
        self._descriptors, self._events = {}, {}
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd in kept:
                continue
            try:
                what = _pipe_of(fd, pipes) or _file_of(fd, offsets)
                events = _events_of(fd) if what is None else None
                if events is not None:
                    self._events[fd] = events
                self._descriptors[fd] = what, os.get_inheritable(fd)
            except OSError:
                # listdir()'s own, or one whose file cannot be read.
                try:
                    os.fstat(fd)
                except OSError:
                    continue
                self._descriptors[fd] = None, False

    # ---- in the new worker ----

    def _load(self, fd, number):
        """Returns only with an exception."""
        try:
            offset = archive.read(fd)
        except (EOFError, ValueError):
            raise BranchError("its files did not arrive") from None
        except archive.Refused as e:
            raise BranchError(printable(str(e))) from None
        raise BranchError(_reason(self._core.load(fd, offset, number)))

    # ---- in the branch ----

    def settle(self):
        """Makes the state that is not in memory. Returns how many do not exist any more: threads, processes, descriptors. Of a checkpoint, also
        names of files that have changed since, and their number."""
        if self._changed is not None and self._collects:
            gc.enable()
        if self.lost.threads:
            stdio.renew()
        try:
            self.lost.mark(os.getpid())
        except MemoryError:
            pass  # the list of all objects
        closed = sum(not self._open_again(fd, *what) for fd, what in self._descriptors.items())
        if self._core.held() > 0:
            closed -= self._renew_events()
            self._core.return_threads()
        self._main_loop.renew()
        os.umask(self._umask)
        for path in self._directory, archive.ROOT, "/":
            try:
                os.chdir(path)
                break
            except OSError:
                pass
        ssl = sys.modules.get("_ssl")
        if ssl is not None:
            ssl.RAND_add(os.urandom(32), 32.0)
        return [*self._gone, closed, *(self._changed or ())]

    def _renew_events(self):
        """Makes what threads of libraries wait for. Returns how many descriptors."""
        core, renewed = self._core, {}
        for fd, about in self._events.items():
            new = core.epoll(-1, 0, 0, 0) if type(about) is list else core.eventfd(*about)
            if new >= 0:
                os.dup2(new, fd, self._descriptors[fd][1])
                os.close(new)
                renewed[fd] = about
        for fd, about in renewed.items():
            for other, events, data in about if type(about) is list else ():
                core.epoll(fd, other, events, data)  # fails for a descriptor that the branch does not have
        return len(renewed)

    def _open_again(self, fd, what, inheritable):
        """A number that stays closed is taken by a descriptor that nothing can be done with: an object of the guest's
        that has the number must not meet another file."""
        try:
            if what in (1, 2):
                opened = fcntl.fcntl(stdio.spares()[what], fcntl.F_DUPFD_CLOEXEC, 0)
            elif what is not None:
                opened = os.open(what[0], what[1] | os.O_CLOEXEC | os.O_NOCTTY)
                if what[2] is not None:
                    os.lseek(opened, what[2], os.SEEK_SET)
            else:
                opened = None
        except OSError:
            opened = what = None
        try:
            if opened is None:
                opened = os.open("/", os.O_PATH | os.O_CLOEXEC)
            if opened != fd:
                os.dup2(opened, fd, inheritable)
                os.close(opened)
            else:
                os.set_inheritable(fd, inheritable)
        except OSError:
            return False
        return what is not None
