"""The files of /workspace as a stream of bytes, for a branch (docs/branches.md).

An entry is a header, the path and, of a file, its bytes. Other file systems that are mounted there, sockets and
unreadable files are not written. The last entry has as many bytes as are missing to a multiple of the page size: what
follows can be mapped.

Files keep their inode numbers, by which SQLite knows whether a file is still the one that it has open. A tmpfs numbers its
files in the order in which they are made: entries are in the order of these numbers, and the reader makes others in between, which
it removes. It makes all under names of its own, and moves them to their places at the end.
"""

import os
from _struct import Struct  # struct would be one more file to read at each start
from stat import S_IMODE, S_ISDIR, S_ISFIFO, S_ISLNK, S_ISREG

ROOT = "/workspace"
MAX_ENTRIES = 20_000
MAX_PATH = 4096
CHUNK = 1 << 18
_HEADER = Struct("<cHIQqQ")  # kind, length of the path, mode, length of what follows, time in ns, inode
MAX_FILLERS = 10_000  # files that are made for their inode numbers
_START = Struct("<QQ")  # device and inode of /workspace
_PAGE = os.sysconf("SC_PAGE_SIZE")
_END, _FILE, _DIRECTORY, _LINK, _FIFO = b"e", b"f", b"d", b"l", b"p"
_REFUSAL = b"x"  # replaces all entries; the path is the reason
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooMany(Exception):
    def __str__(self):
        return "/workspace has more than %d files, or more bytes than limits.workspace" % MAX_ENTRIES


class Refused(Exception):
    """The writer says why there is no branch."""


# ---- writing ----


def _send(fd, data):
    """Returns the number of bytes."""
    data = memoryview(data)
    size = len(data)
    while data:
        data = data[os.write(fd, data) :]
    return size


def _send_entry(fd, kind, path, about, size=0):
    name = os.fsencode(path)
    return _send(fd, _HEADER.pack(kind, len(name), S_IMODE(about.st_mode), size, about.st_mtime_ns, about.st_ino) + name)


def _send_file(fd, path, name, about):
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        sent = _send_entry(fd, _FILE, name, about, about.st_size)
        left = about.st_size
        while left:
            # A file that became shorter meanwhile ends with zeros.
            data = os.read(source, min(left, CHUNK)) or bytes(min(left, CHUNK))
            _send(fd, data)
            left -= len(data)
    finally:
        os.close(source)
    return sent + about.st_size


def _below(root, device, bounds):
    """(inode, name) of all that is to be written. No more: a session may be near its memory limit."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(root, prefix)) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if about.st_dev != device:
                    continue
                bounds[0] -= 1
                bounds[1] -= about.st_size if S_ISREG(about.st_mode) else 0
                if min(bounds) < 0:
                    raise TooMany
                name = prefix + entry.name
                yield about.st_ino, name
                if S_ISDIR(about.st_mode) and os.access(entry.path, os.R_OK | os.X_OK):
                    waiting.append(name + "/")


def write(fd, root=ROOT):
    # statvfs() of a path needs one more process.
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        about, size = os.fstat(top), os.fstatvfs(top)
    finally:
        os.close(top)
    bounds = [MAX_ENTRIES, size.f_blocks * size.f_frsize]
    found = sorted(_below(root, about.st_dev, bounds))
    sent = _send(fd, _START.pack(about.st_dev, about.st_ino))
    for _, name in found:
        path = os.path.join(root, name)
        try:
            status = os.lstat(path)
            if S_ISREG(status.st_mode):
                sent += _send_file(fd, path, name, status)
            elif S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(path))
                sent += _send_entry(fd, _LINK, name, status, len(target))
                sent += _send(fd, target)
            elif S_ISDIR(status.st_mode):
                sent += _send_entry(fd, _DIRECTORY, name, status)
            elif S_ISFIFO(status.st_mode):
                sent += _send_entry(fd, _FIFO, name, status)
        except BrokenPipeError:
            raise
        except OSError:
            pass  # removed meanwhile, or not readable: no part of it was sent
    fill = -(sent + _HEADER.size) % _PAGE
    _send(fd, _HEADER.pack(_END, 0, 0, fill, 0, 0) + bytes(fill))


def refuse(fd, why):
    """In place of write(), or if that has sent nothing yet."""
    why = os.fsencode(why)[:MAX_PATH]
    _send(fd, _START.pack(0, 0) + _HEADER.pack(_REFUSAL, len(why), 0, 0, 0, 0) + why)


# ---- reading ----


class _Reader:
    """Reads a file from its begin. The offset of the descriptor is not used: other branches have the same descriptor."""

    def __init__(self, fd):
        self._fd = fd
        self.at = 0

    def some(self, size):
        data = os.pread(self._fd, size, self.at)
        if not data:
            raise EOFError
        self.at += len(data)
        return data

    def all(self, size):
        data = b""
        while len(data) < size:
            data += self.some(size - len(data))
        return data


def _receive_file(reader, path, mode, left):
    target = os.open(path, _WRITE, 0o600)
    try:
        os.ftruncate(target, left)
        while left:
            data = reader.some(min(left, CHUNK))
            left -= len(data)
            if data.count(0) == len(data):
                os.lseek(target, len(data), os.SEEK_CUR)  # a hole stays one
            else:
                _send(target, data)
        os.fchmod(target, mode)
    finally:
        os.close(target)


def _make(reader, path, kind, mode, size):
    if kind == _FILE:
        _receive_file(reader, path, mode, size)
    elif kind == _LINK:
        os.symlink(reader.all(min(size, MAX_PATH)), path)
    elif kind == _DIRECTORY:
        os.mkdir(path, 0o700)
    else:
        os.mkfifo(path, mode)


class _Numbers:
    """Makes the next file of a directory have an inode number, if that is possible."""

    def __init__(self, root):
        self._filler = os.path.join(root, b".filler")
        with os.scandir(root) as entries:
            self.last = max((entry.inode() for entry in entries), default=os.stat(root).st_ino)
        self._left = MAX_FILLERS

    def reach(self, number):
        fillers = number - self.last - 1
        if not 0 <= fillers <= self._left:
            return
        self._left -= fillers
        for _ in range(fillers):
            os.close(os.open(self._filler, _WRITE, 0o600))
            os.unlink(self._filler)


def read(fd, root=ROOT):
    """Returns the offset of what follows. If both have the same directory, which the host has mounted, its files are there already.
    ValueError, EOFError: it is not an archive. Refused: there is none."""
    reader = _Reader(fd)
    root = os.fsencode(root)
    about = os.stat(root)
    is_same = _START.unpack(reader.all(_START.size)) == (about.st_dev, about.st_ino)
    numbers = _Numbers(root)
    made = {}  # path -> (its name until the end, kind, mode, time)
    for _ in range(MAX_ENTRIES + 1):
        kind, length, mode, size, time, number = _HEADER.unpack(reader.all(_HEADER.size))
        if kind == _END:
            _settle(made)
            return reader.at + size
        if kind == _REFUSAL:
            raise Refused(os.fsdecode(reader.all(length)))
        if kind not in (_FILE, _DIRECTORY, _LINK, _FIFO):
            raise ValueError
        path = os.path.join(root, reader.all(length))
        if is_same:
            reader.at += size
            continue
        name = os.path.join(root, b".entry-%d" % len(made))
        if kind == _DIRECTORY and os.path.isdir(path):
            name = path  # out/
        else:
            numbers.reach(number)
            _make(reader, name, kind, mode, size)
            numbers.last = os.lstat(name).st_ino
        made[path] = name, kind, mode, time
    raise ValueError


def _settle(made):
    """A directory is moved before what is in it, and gets its mode and time after that."""
    for path in sorted(made):
        if made[path][0] != path:
            os.rename(made[path][0], path)
    for path in sorted(made, reverse=True):
        name, kind, mode, time = made[path]
        if kind == _DIRECTORY:
            os.chmod(path, mode)
        os.utime(path, ns=(time, time), follow_symlinks=False)
