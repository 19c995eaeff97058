"""Hooks of os.register_at_fork() while Cloister copies the worker (docs/cells.md).

Only hooks of these modules run then: they renew locks and forget threads. Others, such as those of `random` and of the
guest, would change what the copy must preserve.
"""

import functools
import os
import posix
import sys

_RENEW = ("threading", "logging", "concurrent.futures.thread")
copying = False


def _unless_copying(hook):
    def run():
        if not copying:
            hook()

    return run


def install():
    """In the template, before the modules above are imported."""
    register = os.register_at_fork

    @functools.wraps(register)
    def register_at_fork(**hooks):
        if sys._getframe(1).f_globals.get("__name__") not in _RENEW:
            hooks = {when: _unless_copying(hook) if callable(hook) else hook for when, hook in hooks.items()}
        register(**hooks)

    del register_at_fork.__wrapped__
    os.register_at_fork = posix.register_at_fork = register_at_fork
