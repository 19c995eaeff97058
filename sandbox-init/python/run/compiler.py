"""Compiles a cell's source to code objects, and finds the names that it reads without setting them."""

import __future__
import gc
import re
import sys
from functools import reduce
from opcode import opmap
from operator import or_
from types import CodeType

_INSIDE = frozenset(["", " ", "\t", "\n", "#", ")", "]", "}"])

# Opcodes whose argument is the index of a name, by their effect on it. Since Python 3.11 the lowest bit of
# LOAD_GLOBAL's argument is a flag.
_READING = {
    opmap[name]: int(name == "LOAD_GLOBAL" and sys.version_info >= (3, 11))
    for name in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
    if name in opmap
}
_WRITING = frozenset(opmap[name] for name in ("STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"))
_NO_NAMES = frozenset()
_IMPLIED = frozenset(["__annotations__", "__conditional_annotations__", "__name__"])  # of classes and annotations
_EXTENDED_ARG = opmap["EXTENDED_ARG"]
_NAMING = _WRITING.union(_READING, [_EXTENDED_ARG])

# The flags of ast, without importing it: it creates its types on import.
_ALLOW_TOP_LEVEL_AWAIT, _ONLY_AST = 0x2000, 0x0400

LARGE = 128 * 1024  # characters; a syntax tree takes some hundred times as many bytes
TAILS = 20  # places tried for the last expression of large code

_FEATURES = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_is_enabled, _disable, _enable = gc.isenabled, gc.disable, gc.enable


_STATEMENTS = (
    "assert break class continue def del elif except finally global import nonlocal pass raise return try while with".split()
)
_OTHERS = "async else for from if yield".split()

# A line that starts like an expression. The compiler decides whether it is one.
_may_be_value = re.compile(
    r"(?!(?:%s)\b)[^\s#@)\]}=([{\"'][^=([{\"'\n]*(?:[=!<>]=[^=([{\"'\n]*)*(?m:$|[([{\"'])|[([{\"']" % "|".join(_STATEMENTS + _OTHERS)
).match
# A line that cannot continue an expression, in brackets or not, nor end a triple-quoted string.
_is_statement = re.compile(
    r"(?:(?:%s)\b|from\b[^\n]*\bimport\b)(?!(?s:.)*(?:\"\"\"|'''|;))" % "|".join(_STATEMENTS)
).match
_may_be_complete = re.compile(r"(?:async|for|if)\b|[^\s=([{\"'][^=([{\"'\n]*=(?!=)").match
# A second statement, the end of a string that began before, a function with a default.
_MAY_HIDE = re.compile(";|\"\"\"|'''|lambda").search
_CLOSING = re.compile("[)\\]}]").search


def _last_statement(text):
    """The offset of the last line that is neither indented, nor a comment, nor the end of brackets."""
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        if text[start : start + 1] not in _INSIDE:
            return start
        end = start - 1
    return 0


def _may_surprise(source):
    """Whether code must not be compiled in parts: the compiler may warn twice about an escape, continued lines may
    parse differently, `from __future__` applies to the whole cell, and `import *` may set any name."""
    if "\\" in source or "\r" in source or "\f" in source:
        return True
    return "import" in source and ("*" in source or "__future__" in source)


def _uncollected(function, source, filename):
    """A collection would traverse the growing tree again and again."""
    enabled = _is_enabled()
    _disable()
    try:
        return function(source, filename)
    finally:
        if enabled:
            _enable()


class Compiler:
    """Compiles cells. `from __future__ import …` also applies to later cells, as at the interactive prompt."""

    def __init__(self):
        self._flags = _ALLOW_TOP_LEVEL_AWAIT
        self.tree = None  # the syntax tree of the last code, if it was needed to compile it

    def try_compile(self, source, filename):
        """As compile(), without an effect on later cells."""
        flags = self._flags
        try:
            return self.compile(source, filename)
        finally:
            self._flags = flags

    def compile(self, source, filename):
        """Returns (codes, names, defines). codes: the code objects to evaluate in order; the value of the last one is
        the cell's value. names: the names that they need; "*" means that they may need any name. defines: whether they
        define functions or classes, whose source may be needed later."""
        found = self._compile_quickly(source, filename)
        if found is not None:
            return found
        return _uncollected(self._compile_large if len(source) > LARGE else self._compile, source, filename)

    def _compile_quickly(self, source, filename):
        """Finds the last statement by its first line, without the syntax tree, which takes longer to build than all
        other steps. None: the tree is needed."""
        if len(source) > LARGE or _may_surprise(source):
            return None
        text = source.rstrip(" \t\n")
        start = _last_statement(text) if "\n" in text else 0
        flags = self._flags
        try:
            if _may_be_value(text, start):
                codes = self._compile_value(text, start, filename)
            elif _is_statement(text, start) or self._is_complete(text, start, filename):
                codes = [self._code(source, filename, "exec")]
            else:
                return None
            names, defines = used_names(codes)
            return codes, names, defines
        except (SyntaxError, ValueError, MemoryError, RecursionError, IndexError):
            self._flags = flags
            return None

    def _compile_value(self, text, start, filename):
        """Compiles the last expression and the code before it separately. Each is complete by itself, so the meaning
        of the cell does not change."""
        value = self._code(_padded(text, start) if start else text, filename, "eval")
        if not start or text[:start].isspace():
            return [value]
        return [self._code(text[:start], filename, "exec"), value]

    def _is_complete(self, text, start, filename):
        """Whether a line that starts as an assignment, a loop or an if does is one, rather than the inside of brackets."""
        if not _may_be_complete(text, start) or _MAY_HIDE(text, start):
            return False
        if _CLOSING(text, start):
            self._code(text[start:], filename, "exec")
        return True

    def take_tree(self, source, filename):
        """The syntax tree of code that was just compiled; None if it is too large for one."""
        tree, self.tree = self.tree, None
        if tree is not None or len(source) > LARGE:
            return tree
        return _uncollected(self._tree, source, filename)

    def _tree(self, source, filename):
        return compile(source, filename, "exec", self._flags | _ONLY_AST, True)

    def _code(self, source, filename, mode):
        code = compile(source, filename, mode, self._flags, True)
        features = code.co_flags & _FEATURES
        if features:
            self._flags |= features
        return code

    def _compile(self, source, filename):
        import _ast as ast

        tree = self._tree(source, filename)
        names = free_names(tree)
        self.tree = tree
        body, last = tree.body, None
        if body and isinstance(body[-1], ast.Expr):
            body, last = body[:-1], body[-1]
        codes = [self._code(ast.Module(body, tree.type_ignores), filename, "exec")] if body else []
        if last is not None:
            codes.append(self._code(ast.Expression(last.value), filename, "eval"))
        return codes, names, _defines(codes)

    def _compile_large(self, source, filename):
        whole = self._code(source, filename, "exec")
        return self._split(source, filename) or [whole], _all_names(whole) | {"*"}, _defines([whole])

    def _split(self, source, filename):
        """Finds the last expression without a syntax tree: lines at the end that compile as an expression, if the
        code before them compiles too."""
        source = source.replace("\r\n", "\n").replace("\r", "\n").rstrip()
        end = len(source)
        for _ in range(TAILS):
            start = source.rfind("\n", 0, end) + 1
            if source[start : start + 1] not in (" ", "\t", "\n", "#", ""):
                try:
                    value = self._code(_padded(source, start), filename, "eval")
                    return [self._code(source[:start], filename, "exec"), value]
                except (SyntaxError, ValueError):
                    pass
            if start == 0:
                break
            end = start - 1
        return None


def _padded(source, start):
    return "\n" * source.count("\n", 0, start) + source[start:]


def _nested(code):
    return [value for value in code.co_consts if type(value) is CodeType]


def _defines(codes):
    return any(map(_nested, codes))


def _all_names(code):
    names, waiting = set(), [code]
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += _nested(code)
    return names


def used_names(codes):
    """Returns (the names as of free_names(), for code objects; whether the code defines anything). Names that the code
    only sets, deletes or imports are left out, and so are attributes."""
    read, written, waiting, defines = _NO_NAMES, _NO_NAMES, [*codes], False
    for code in waiting:  # which grows
        for value in code.co_consts:
            if type(value) is CodeType:
                defines = True
                waiting.append(value)
        names = code.co_names
        if names:
            reads, writes = _sort_names(code.co_code, names)
            read, written = read | reads, written | writes
    return (read - written - _IMPLIED if read else read), defines


def _sort_names(instructions, names):
    """(those that are read, those that are set)"""
    read, written, high = set(), set(), 0
    for operation, argument in zip(instructions[::2], instructions[1::2]):
        if operation in _NAMING:
            argument |= high
            if operation == _EXTENDED_ARG:
                high = argument << 8
                continue
            if operation in _READING:
                read.add(names[argument >> _READING[operation]])
            else:
                written.add(names[argument])
        high = 0
    return read, written


def free_names(tree):
    """The names that code reads and does not set itself, in doubt too many; "*" if the code may set any name."""
    import _ast as ast

    from cloister.call_sites import walk

    read, set_here = set(), set()
    for node in walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else set_here).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            set_here.add(node.name)
        elif isinstance(node, ast.alias) and node.name == "*":
            read.add("*")
        elif isinstance(node, ast.alias):
            set_here.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            set_here.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            set_here.add(node.name)
    return read - set_here
