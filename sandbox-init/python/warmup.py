"""What a worker will do, done in its template: what CPython finds out about code that runs often is known by then.

It keeps that in the code and beside the types, in pages that each worker would have to copy; and what it has found out
it need not look up, which writes to the names' counts of references.
"""

import sys

TURNS = 16  # CPython begins with the eighth (3.11), or before


def repeat(function):
    """function: may be called in a template, and any number of times."""
    try:
        for _ in range(TURNS):
            function()
    except Exception:
        pass  # each session finds it out by itself


def forget_attributes():
    """Of all types, which the imports have looked up: each that makes way for another would be written to, and its name."""
    clear = getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()
