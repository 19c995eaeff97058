"""Warm-up of a template: code runs often enough that CPython specializes it, before workers are forked.

CPython keeps specialized instructions and the type attribute cache in memory that the workers share with the template.
A worker that did this itself would have to copy those pages.
"""

import sys

RUNS = 16  # CPython 3.11 specializes code from its eighth run on, later versions earlier


def run_repeatedly(function):
    """function: may be called in a template, any number of times."""
    try:
        for _ in range(RUNS):
            function()
    except Exception:
        pass  # workers run without the warm-up


def clear_type_cache():
    """Clears the type attribute cache, which the imports have filled. Replacing an entry would write to its page and to
    the reference count of the old entry's name."""
    clear = getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()
