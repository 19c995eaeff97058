"""A cell's source as code objects, and the names it reads without setting them."""

import __future__
import ast
import gc
import re
from types import CodeType

LARGE = 128 * 1024  # characters; a syntax tree takes some hundred times as many bytes
TAILS = 20  # places tried for the last expression of large code

_FEATURES = [getattr(__future__, name) for name in __future__.all_feature_names]
_is_enabled, _disable, _enable = gc.isenabled, gc.disable, gc.enable


# Escapes and continued lines may be warned of or read differently in parts; what a cell takes from the future holds for
# all of it; a star may stand for any name.
_MAY_SURPRISE = re.compile(r"[\\\r\f\0]|\b__future__\b|import[^\n]*\*").search

# A line that starts as an expression does. Whether it is one, the compiler will say.
_MAY_BE_VALUE = re.compile(
    r"(?!(?:assert|async|break|class|continue|def|del|else|except|finally|for|from|global|if|import|nonlocal|pass|raise"
    r"|return|try|while|with|yield)\b)[^\s#@)\]}=([{\"'][^=([{\"']*(?:[=!<>]=[^=([{\"']*)*(?:$|[([{\"'])|[([{\"']"
).match


class Names(set):
    """The names that code needs, of which "*" stands for more than can be told. narrow: a function that tells those
    which it really reads, where these are more."""

    narrow = None


class Compiler:
    """Compiles cells; `from __future__ import …` holds for the later ones, as at the prompt."""

    def __init__(self):
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def compile(self, source, filename):
        """(codes, names): the code objects to evaluate in order, the last one's value being the cell's, and the Names
        they need."""
        found = self._compile_quickly(source, filename)
        if found is not None:
            return found
        enabled = _is_enabled()
        _disable()  # it would go through a growing tree again and again
        try:
            return (self._compile_large if len(source) > LARGE else self._compile)(source, filename)
        finally:
            if enabled:
                _enable()

    def _compile_quickly(self, source, filename):
        """Code whose last line is an expression by itself, and whole code before it, without a tree: both parts are
        complete, so they mean the same together. None when it is no such code, or nobody knows yet."""
        if len(source) > LARGE or _MAY_SURPRISE(source):
            return None
        text = source.rstrip(" \t\n")
        start = text.rfind("\n") + 1
        if not _MAY_BE_VALUE(text, start):
            return None
        flags = self._flags
        try:
            value = self._code(_padded(text, start), filename, "eval")
            codes = [self._code(source[:start], filename, "exec"), value] if text[:start].strip() else [value]
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            self._flags = flags
            return None
        names = Names(_all_names(*codes))
        names.narrow = lambda: free_names(self._tree(source, filename))
        return codes, names

    def _tree(self, source, filename):
        return compile(source, filename, "exec", self._flags | ast.PyCF_ONLY_AST, True)

    def _code(self, source, filename, mode):
        code = compile(source, filename, mode, self._flags, True)
        for feature in _FEATURES:
            self._flags |= code.co_flags & feature.compiler_flag
        return code

    def _compile(self, source, filename):
        tree = self._tree(source, filename)
        names = Names(free_names(tree))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [self._code(tree, filename, "exec")] if tree.body else []
        if last is not None:
            codes.append(self._code(ast.Expression(last.value), filename, "eval"))
        return codes, names

    def _compile_large(self, source, filename):
        whole = self._code(source, filename, "exec")
        names = Names(_all_names(whole) | {"*"})
        return self._split(source, filename) or [whole], names

    def _split(self, source, filename):
        """Without a tree: lines at the end that are an expression, with code before them, are the last."""
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


def _all_names(*codes):
    names, waiting = set(), list(codes)
    while waiting:
        code = waiting.pop()
        names.update(code.co_names)
        waiting += [value for value in code.co_consts if isinstance(value, CodeType)]
    return names


def free_names(tree):
    """Names that code reads and does not set itself, too many rather than too few; "*" when it may set any."""
    read, set_here = set(), set()
    for node in _walk(tree):
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


def _walk(tree):
    """As ast.walk(), which stands on builtins that the guest may have replaced."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [item for item in value if isinstance(item, ast.AST)]
