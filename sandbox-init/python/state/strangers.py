"""Threads that Python has not started."""

import os
import sys
from struct import unpack

# Threads of all libraries begin and wait there.
COMMON = ("libc.", "libc-", "ld-", "ld.", "libpthread", "libstdc++", "libgcc", "python", "libpython", "memfd:")
STACK = 65536
_last = None  # (a thread, its name, its library): each cell asks again


def count():
    """All threads except the first one."""
    return os.stat("/proc/self/task").st_nlink - 3


def first(which=0):
    """The name of that thread, else of the first one, with the library whose code it runs where that is found, for a message."""
    global _last
    threading = sys.modules.get("threading")
    known = {os.getpid(), *(thread.native_id for thread in (threading.enumerate() if threading else ()))}
    try:
        names = os.listdir("/proc/self/task")
    except OSError:
        names = ()  # no descriptor is left for it
    for number in sorted(map(int, names), key=lambda number: (number != which, number)):
        if number not in known:
            try:
                name = _read("/proc/self/task/%d/comm" % number).strip()
                if _last is None or _last[:2] != (number, name):
                    _last = number, name, _library_of(number)
                library = _last[2]
            except (OSError, ValueError):
                continue
            return '"%s"%s' % (name, " of " + library[:40] if library else "")
    return "of a library"


def _read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, STACK).decode("ascii", "replace")
    finally:
        os.close(fd)


def _library_of(number):
    """The library of the outermost address of code on its stack, or None."""
    fields = _read("/proc/self/task/%d/syscall" % number).split()
    if len(fields) < 2:
        return None  # it computes
    stack = int(fields[-2], 16)
    fd = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        data = os.pread(fd, STACK, stack)
    finally:
        os.close(fd)
    code = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if "x" in fields[1] and len(fields) == 6 and fields[5].startswith("/"):
                name = fields[5].strip().rpartition("/")[2]
                if not name.startswith(COMMON):
                    code.append((*(int(address, 16) for address in fields[0].split("-")), name))
    for address in reversed(unpack("%dQ" % (len(data) // 8), data[:len(data) // 8 * 8])):
        for begin, end, name in code:
            if begin <= address < end:
                return name
    return None
