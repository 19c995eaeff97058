"""A seccomp filter that the test installs around Cloister, as a container runtime or a service manager does.

`refuse()`, `hold()` and `profile()` return a function for subprocess' preexec_fn. Numbers of system calls come from libseccomp,
which Cloister itself needs. As a program it installs a filter and executes a command:

    outer_filter.py refuse "NAME…" ERROR COMMAND…
    outer_filter.py profile FILE "WITHOUT…" COMMAND…
"""

import ctypes
import errno
import json
import os
import struct
import sys
import time

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, GIVE = 0x20, 0x15, 0x06
ALLOW, ERRNO, USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
NEW_LISTENER, PR_SET_PDEATHSIG = 8, 1

libc = ctypes.CDLL(None, use_errno=True)
seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
seccomp.seccomp_init.restype = ctypes.c_void_p
seccomp.seccomp_init.argtypes = [ctypes.c_uint32]

# These system calls are newer than the libseccomp of Debian 12.
RECENT = {"cachestat": 451, "fchmodat2": 452, "statmount": 457, "listmount": 458}


def number(name):
    """Returns the number of a system call on this architecture, or None."""
    found = seccomp.seccomp_syscall_resolve_name(name.encode())
    return found if found >= 0 else RECENT.get(name)


def load(code):
    """Loads a filter program for this process and all processes that it starts."""
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        os._exit(99)


def refuse(*names, error=errno.EPERM, no_new_privs=True):
    """Makes these system calls fail, with any arguments."""
    code = [(LOAD, 0, 0, 0)]
    for name in names:
        code += [(JUMP_EQUAL, 0, 1, number(name)), (GIVE, 0, 0, ERRNO | error)]
    code.append((GIVE, 0, 0, ALLOW))

    def apply():
        if no_new_privs and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            os._exit(98)
        load(code)
    return apply


def hold(name):
    """Makes this system call never return: the filter notifies a supervisor that does not answer and runs as long as the caller."""
    code = [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, number(name)), (GIVE, 0, 0, USER_NOTIF), (GIVE, 0, 0, ALLOW)]
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))

    def apply():
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(number("seccomp"), 1, NEW_LISTENER, header) < 0:
            os._exit(99)
        if os.fork() == 0:
            libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
            for fd in range(3):
                os.close(fd)
            time.sleep(200)
            os._exit(0)
    apply.buffer = buffer
    return apply


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


OPERATORS = {"SCMP_CMP_NE": 1, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


def profile(path, without=()):
    """Returns a container runtime's profile: the members of such a file, compiled by libseccomp as runc does it."""
    with open(path, encoding="utf-8") as f:
        whole = json.load(f)

    def apply():
        context = ctypes.c_void_p(seccomp.seccomp_init(ERRNO | whole["defaultErrnoRet"]))
        for rule in whole["syscalls"]:
            compares = [Compare(c["index"], OPERATORS[c["op"]], c["value"], c.get("valueTwo", 0)) for c in rule.get("args", ())]
            array = (Compare * max(1, len(compares)))(*compares)
            for name in rule["names"]:
                n = number(name)
                if n is not None and name not in without:
                    seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(ALLOW), n, len(compares), array)
        if seccomp.seccomp_load(context):
            os._exit(97)
    return apply


def main():
    what, first, second, *command = sys.argv[1:]
    apply = refuse(*first.split(), error=getattr(errno, second)) if what == "refuse" else profile(first, second.split())
    apply()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
