"""Hooks of os.register_at_fork().

While Cloister copies the worker (docs/cells.md), only those of _RENEW run: they renew locks and forget threads. Others, such as those
of `random` and of the guest, would change what the copy must preserve. When a template forks a worker, none runs unless code of the
image has registered one.
"""

import functools
import os
import posix
import sys

_RENEW = ("threading", "logging", "concurrent.futures.thread")
# template.reseed() does what the hook of `random` does. That of asyncio would take the event loop away; ours is for children of a worker.
_OF_NO_USE = ("random", "asyncio.events", "cloister.template")
copying = False
_needed = []


def _unless_copying(hook):
    def run():
        if not copying:
            hook()

    return run


def are_needed():
    """Whether the hooks run when a template forks a worker."""
    return bool(_needed)


def install(need):
    """In the template, before the modules above are imported. need(): asks for the hooks of all modules when a worker is forked."""
    register = os.register_at_fork

    @functools.wraps(register)
    def register_at_fork(**hooks):
        name = sys._getframe(1).f_globals.get("__name__")
        if name not in _RENEW:
            if name not in _OF_NO_USE:
                need()
                _needed.append(name)
            hooks = {when: _unless_copying(hook) if callable(hook) else hook for when, hook in hooks.items()}
        register(**hooks)

    del register_at_fork.__wrapped__
    os.register_at_fork = posix.register_at_fork = register_at_fork
