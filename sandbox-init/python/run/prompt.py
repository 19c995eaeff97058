"""Answers questions of an interactive prompt (PROBE): is a block of code complete, and which names complete a text."""

import builtins

from cloister.interrupts import calls_guest

COMPLETIONS_MAX = 500
NAME_MAX = 200  # characters
_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without importing ast


def answer(ask, namespace):
    what = ask.get("what")
    if what == "more":
        return _goes_on(ask["source"])
    if what == "complete":
        return _complete(ask["text"], namespace)
    raise ValueError("what?")


def _goes_on(source):
    """Whether lines are missing, as in Python's own prompt: a block ends with an empty line."""
    import codeop

    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= _TOP_LEVEL_AWAIT
    try:
        return compiler(source, "<prompt>", "single") is None
    except (SyntaxError, ValueError, OverflowError, MemoryError):
        return False  # running it reports the error


def _complete(text, namespace):
    """Names that begin with the text, a name or a path of attributes; each is the whole text that it becomes."""
    owner, dot, begin = text.rpartition(".")
    if not dot:
        import keyword

        names = {*namespace, *vars(builtins), *keyword.kwlist}
    else:
        names = _attributes(owner.split("."), namespace)
    found = sorted(
        name for name in names
        if type(name) is str and name.startswith(begin) and name.isidentifier()
        and len(name) <= NAME_MAX and (begin[:1] == "_" or name[0] != "_")
    )
    return [owner + dot + name for name in found[:COMPLETIONS_MAX]]


@calls_guest
def _attributes(path, namespace):
    """Looks attributes up, which may run code of the guest, as in rlcompleter."""
    try:
        first, *others = path
        thing = namespace[first] if first in namespace else vars(builtins)[first]
        for name in others:
            thing = getattr(thing, name)
        return list(dir(thing))
    except Exception:
        return []
