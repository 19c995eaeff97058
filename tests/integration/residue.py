"""Finds residue: resources that exist outside a sandbox before and after, and descriptors of a server's processes.

Residue(…).left() names every new resource: processes, mounts, cgroups, files, shared memory, message queues, sockets with
abstract names, keys. descriptors(pid) counts the descriptors of one process by kind. If a count differs from
the earlier count, a descriptor leaked. Other servers of the machine are left out where the kernel's lists allow it.
"""

import collections
import contextlib
import ctypes
import os
import re

import harness


def read(path):
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
        return f.read()
    return ""


def kind_of(target):
    """Returns pipe for `pipe:[12]`, the name in brackets for `anon_inode:[eventpoll]`, and a path without its numbers."""
    if target.startswith("anon_inode:"):
        return target[len("anon_inode:"):].strip("[]")
    name, bracket, _ = target.partition(":[")
    return name if bracket else re.sub(r"\d+", "N", target)


def descriptors(pid):
    """Returns a Counter of kinds; empty if the process does not exist or its descriptors cannot be read."""
    kinds = collections.Counter()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                kinds[kind_of(os.readlink(entry.path))] += 1
    return kinds


def tree(pid):
    """Returns {pid: (parent, name)} of a server: its monitor and all processes below it."""
    names = {pid: harness.stat_of(pid)[2], **harness.descendants(pid)}
    return {child: ((harness.stat_of(child) or (0,))[0], name) for child, name in names.items()}


def role_of(pid, name, monitor):
    """Returns monitor, broker, template, stub, init, worker, janitor, reaper or another role, from what the kernel reports."""
    command = read(f"/proc/{pid}/cmdline").split("\0")[0]
    if pid == monitor:
        return "monitor"
    if name.startswith("cloister-"):
        return {"cloister-broke": "broker", "cloister-janit": "janitor"}.get(name[:14], name[len("cloister-"):])
    return "init" if command == "init" else name


def shared_memory():
    """Returns the segments, queues and semaphores of System V, which only code in a sandbox could have created here, and Cloister's
    names in /dev/shm and among the POSIX message queues."""
    found = set()
    for kind in ("shm", "msg", "sem"):
        for line in read(f"/proc/sysvipc/{kind}").splitlines()[1:]:
            found.add((kind, line.split()[1]))
    for place in ("/dev/shm", "/dev/mqueue"):
        with contextlib.suppress(OSError):
            found.update((place, name) for name in os.listdir(place) if "loister" in name)
    return found


def abstract_sockets():
    lines = read("/proc/net/unix").splitlines()[1:]
    return {line.split()[-1] for line in lines if "@" in line and "loister" in line}


KEYCTL, ADD_KEY = (250, 248) if os.uname().machine == "x86_64" else (219, 217)
JOIN_SESSION_KEYRING, READ_KEYRING, DESCRIBE, SESSION_KEYRING = 1, 11, 6, -3  # linux/keyctl.h
libc = ctypes.CDLL(None, use_errno=True)


def join_keyring():
    """Gives this process, and the processes that it starts from now on, a new session keyring that no other process has."""
    libc.syscall(KEYCTL, JOIN_SESSION_KEYRING, None, 0, 0, 0)


join_keyring()


def keys():
    """Returns descriptions of the keys in the session keyring of this test. The keys of other processes do not matter."""
    found = (ctypes.c_int32 * 256)()
    size = libc.syscall(KEYCTL, READ_KEYRING, SESSION_KEYRING, found, ctypes.sizeof(found), 0)
    described = set()
    for serial in found[:max(0, min(size, ctypes.sizeof(found))) // 4]:
        text = ctypes.create_string_buffer(512)
        libc.syscall(KEYCTL, DESCRIBE, serial, text, len(text), 0)
        described.add(f"{serial} {text.value.decode(errors='replace')}")
    return described


def state_files(home):
    """Returns the files in the state directory, except two directories that are kept: the cache of tools and the place of control sockets."""
    found = set()
    for place in (os.path.join(home, ".local", "state", "cloister"), "/var/lib/cloister/state"):
        with contextlib.suppress(OSError):
            found.update(os.path.join(place, name) for name in os.listdir(place) if name not in ("catalogue", "run"))
    return found


class Residue(harness.Residue):
    """Records what exists, and later reports what is new."""

    def __init__(self):
        super().__init__()
        self.more = self.look()

    @staticmethod
    def look():
        home = os.environ.get("CLOISTER_TEST_HOME") or os.environ["HOME"]
        return {"shared memory": shared_memory(), "abstract sockets": abstract_sockets(), "keys": keys(), "state": state_files(home)}

    def left(self):
        left = super().left()
        left = {kind: what for kind, what in left.items() if what}
        left.update({kind: new for kind, now in self.look().items() if (new := now - self.more[kind])})
        return left
