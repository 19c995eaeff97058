"""What the interpreter says of itself and of the machine, as in a program that was started as `python3 script.py` on a machine of the session's size."""

import _io
import builtins
import io
import os
import posix
import sys

# Python gets these as options of its start (sandbox-init/worker/worker.c), and would pass them on to each Python that code starts.
OURS = {"isolated", "no_site", "no_user_site", "ignore_environment", "safe_path"}


def install(core):
    """Replaces open() and os.open() by functions that find the files about the machine (sandbox-init/worker/own-files.h)."""
    for number, modules in enumerate([(builtins, io, _io), (os, posix)]):
        original = modules[0].open
        text = "open%s\n--\n\n%s" % (original.__text_signature__, original.__doc__)
        own = core.wrap(number, original.__module__, text.encode(), original)
        for module in modules:
            module.open = own
    os.supports_dir_fd.add(own)
    sys.flags = _flags(core, sys.flags)


def _flags(core, flags):
    kind, (visible, hidden) = flags.__reduce__()
    names = [part.partition("=")[0] for part in repr(flags).partition("(")[2].split(", ")]
    values = [type(value)(0) if name in OURS else value for name, value in zip(names, visible)]
    hidden = [type(value)(0) if name in OURS else value for name, value in (hidden or {}).items()]
    return core.flags(kind, (*values, *hidden))
