"""Code for the resource tests: it uses up a resource, and checks that another session still works."""

import os
import re

import harness
import rawmcp

MIB = 1 << 20
LIMIT = 128  # MiB of each session here
RESERVE = 4 + LIMIT // 128  # MiB that a control group allows beside it (docs/cells.md)
MOST = 3 * LIMIT  # MiB that an attack takes if nothing stops it
# Where no control group stops it at the limit, the monitor looks a little later.
SLACK = 160

# Maps memory by mmap(2) itself: CPython's mmap has no flags of its own choice.
INSIDE = f"""
import ctypes, errno, mmap, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
READ, WRITE, SHARED, PRIVATE, ANON, GROWS, POPULATE = 1, 2, 1, 2, 0x20, 0x100, 0x8000
MOST, MIB = {MOST}, {MIB}

def fail():
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def take(size, flags, protection=READ | WRITE, fd=-1):
    at = libc.mmap(None, size, protection, flags, fd, 0)
    if at == ctypes.c_void_p(-1).value:
        fail()
    return at

children = []

def child(what):
    # A process that does something and stays.
    ready = os.pipe()
    pid = os.fork()
    if pid > 0:
        children.append(pid)
    else:
        try:
            what()
            os.write(ready[1], b'+')
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(ready[1])
    done = os.read(ready[0], 1)
    os.close(ready[0])
    return done

def taken(mib):
    print('taken', mib, flush=True)
"""


def own_pid(pid):
    """(in how many pid namespaces it is, its pid in the deepest)."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            pids = next(line.split()[1:] for line in f if line.startswith("NSpid"))
    except OSError:
        return None
    return len(pids), int(pids[-1])


class Case(rawmcp.ServerCase):
    CONFIG = {"limits": {"memory": f"{LIMIT}M"}}
    ARGUMENTS = ("--log-level", "info")

    def is_counted(self):
        """Whether a control group counts the memory of sessions."""
        return "no control group" not in self.server.log()

    def worker(self):
        """The pid of one on the host."""
        self.ok("1")
        return max(pid for pid in harness.descendants(self.server.process.pid) if own_pid(pid) == (3, 2))

    def shares_uid(self):
        """Whether sessions have the host id of this process."""
        return os.stat(f"/proc/{self.worker()}").st_uid == os.geteuid()

    def attack(self, code, **arguments):
        arguments.setdefault("timeout", 30)
        return self.cell(INSIDE + code, wait=60, **arguments)

    def held(self, code, ends=("oom", "error"), **arguments):
        """An attack prints what it has taken: the session ends, or the attack gets an error, near the limit."""
        cell = self.attack(code, **arguments)
        mib = max(map(int, re.findall(r"taken (\d+)", cell.get("stdout", ""))), default=0)
        self.assertLessEqual(mib, LIMIT + SLACK, cell)
        self.assertIn(cell["status"], ends, cell)
        # The control: another session still works, and so does a new session of the same name.
        self.assertEqual(self.value("1 + 1", session="elsewhere"), 2)
        self.assertEqual(self.value("2 + 2"), 4)
        return cell
