"""Walks the syntax tree of a cell in the order in which it runs, and finds the calls of tools in it.

A place is *certain* if it runs whenever the code before it returns, and nothing in the cell catches what it raises. Not
certain: branches, loops that may run zero times, functions that the cell only defines, `try` with a handler, `with`,
what follows an exit. A coroutine that is not awaited raises nothing: a call without `await` or `.sync()` is not certain.
"""

import _ast as ast
from bisect import bisect_left
from types import CodeType

EXITS = frozenset(("exit", "quit", "undo", "_exit", "abort", "execv", "execve", "execvp", "kill", "raise_signal"))
# Words of lines that leave a block, or may leave it.
LEAVING = ("raise", "return", "break", "continue", "SystemExit", "KeyboardInterrupt")
# Code that uses one of these names or attributes may replace any name.
_DYNAMIC = frozenset(
    "eval exec globals locals vars setattr delattr __import__ __main__ __builtins__ mock patch monkeypatch __dict__"
    " __globals__ f_globals modules unittest.mock".split()
)
ENDING = frozenset("SystemExit KeyboardInterrupt BaseException CancelledError GeneratorExit".split())
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PASSING = ("run", "wait_for", "shield")  # functions of asyncio that await their first argument


def walk(tree):
    """All nodes, as ast.walk(), without builtins that the guest may have replaced."""
    waiting = [tree]
    for node in waiting:  # which grows
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                waiting += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                waiting.append(value)
    return waiting


class Names:
    """What a cell does with names. codes: its code objects; needed: the names that it reads and does not set at its top."""

    def __init__(self, tree, codes, needed):
        self._tree = tree
        self._needed = needed
        self._bound = None
        self.local = set()  # names that functions, classes and comprehensions bind
        self.is_dynamic = False
        waiting = [*codes]
        for code in waiting:  # which grows
            self.local.update(code.co_varnames, code.co_cellvars)
            self.is_dynamic |= not _DYNAMIC.isdisjoint(code.co_names)
            waiting += [value for value in code.co_consts if type(value) is CodeType]

    def is_free(self, name):
        """Whether the cell binds this name nowhere, and so takes it from outside."""
        return name in self._needed and name not in self.local

    def bound(self, name):
        """How often the cell binds it, in any scope. `import asyncio` does not count."""
        if self._bound is None:
            self._bound = {}
            for node in walk(self._tree):
                name_of = _BINDING.get(type(node), _pattern)
                for one in name_of(node):
                    self._bound[one] = self._bound.get(one, 0) + 1
        return self._bound.get(name, 0)


def _pattern(node):
    return [name for name in (getattr(node, "name", None), getattr(node, "rest", None)) if isinstance(name, str)]


def _imported(node):
    name = (node.asname or node.name).partition(".")[0]
    return [] if node.asname is None and name == "asyncio" else [name]


_BINDING = {
    ast.Name: lambda node: [] if type(node.ctx) is ast.Load else [node.id],
    ast.arg: lambda node: [node.arg],
    ast.alias: _imported,
}


def _is_constant(node, *kinds):
    return type(node) is ast.Constant and isinstance(node.value, kinds or object)


def _has(nodes, *kinds):
    return any(isinstance(inner, kinds) for node in nodes for inner in walk(node))


def _yields(function):
    return _has([function], ast.Yield, ast.YieldFrom)


class Walk:
    """names: of the tree. handler:

    reached(node, certain)          a Name, Attribute or Subscript. Returns whether it has dealt with what is in it.
    called(node, certain, awaited)  a Call. Returns whether it has dealt with the function.
    exits(name)                     whether this is a function of an earlier cell that may end the cell
    """

    def __init__(self, tree, names, handler, lines=None):
        self._names = names
        self._handler = handler
        self._lines = lines  # sorted: statements that have none of these lines are passed over. None: all are walked
        self._doubts = 0  # reasons around this place
        self._left = False  # break, continue or return may have left the loop or function
        self._ended = names.is_dynamic  # the cell may have been left, or names changed
        self._exiting = set()  # functions of the cell that may end it
        self._active = set()  # functions that are being called
        self._functions = {
            node.name: node
            for node in tree.body
            if isinstance(node, _FUNCTIONS)
            and not node.decorator_list
            and names.bound(node.name) == 1
            and not _yields(node)
        }
        self._last = tree.body[-1] if tree.body else None
        self._statements(tree.body)

    @property
    def certain(self):
        return not (self._doubts or self._left or self._ended)

    # ---- statements ----

    def _statements(self, statements):
        for statement in statements:
            if self._lines is not None and not self._is_worth(statement):
                continue
            handle = _STATEMENTS.get(type(statement))
            if handle is not None:
                handle(self, statement)
            else:
                self._parts(statement)

    def _is_worth(self, statement):
        at = bisect_left(self._lines, statement.lineno)
        return at < len(self._lines) and self._lines[at] <= statement.end_lineno

    def _maybe(self, *parts):
        self._doubts += 1
        for part in parts:
            if type(part) is list:
                self._statements(part)
            elif part is not None:
                self._expression(part)
        self._doubts -= 1

    def _parts(self, node, awaited=False):
        """The expressions of an expression, or of a statement that has no others in it, or is unknown."""
        for field in node._fields:
            value = getattr(node, field, None)
            for item in value if type(value) is list else (value,):
                if isinstance(item, ast.expr):
                    self._expression(item, awaited)
                elif isinstance(item, ast.comprehension):
                    self._maybe(item.iter, *item.ifs)
                elif isinstance(item, ast.stmt):
                    self._maybe([item])
                elif isinstance(item, ast.AST):
                    self._parts(item)

    def _expr(self, node):
        # The value of a cell is awaited if it is a coroutine or a gather().
        self._expression(node.value, node is self._last)

    def _if(self, node):
        self._expression(node.test)
        self._maybe(node.body, node.orelse)

    def _loop(self, body, is_certain, orelse):
        left = self._left
        if is_certain:
            self._statements(body)
        else:
            self._maybe(body)
        self._left = left
        self._maybe(orelse)

    def _while(self, node):
        self._expression(node.test)
        self._loop(node.body, _is_constant(node.test) and bool(node.test.value), node.orelse)

    def _for(self, node):
        self._expression(node.iter)
        self._loop(node.body, self._runs(node.iter), node.orelse)

    def _async_for(self, node):
        self._expression(node.iter)
        self._loop(node.body, False, node.orelse)

    def _runs(self, node):
        """Whether an iterable certainly has an item."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return any(type(item) is not ast.Starred for item in node.elts)
        if type(node) is ast.Dict:
            return any(key is not None for key in node.keys)
        if type(node) is ast.Call and type(node.func) is ast.Name and node.func.id == "range":
            plain = self._names.is_free("range") and len(node.args) == 1 and not node.keywords
            return plain and _is_constant(node.args[0], int) and node.args[0].value > 0
        return _is_constant(node, str) and bool(node.value)

    def _with(self, node):
        for item in node.items:
            self._expression(item.context_expr)
        if all(self._lets_pass(item.context_expr) for item in node.items):
            self._statements(node.body)
        else:
            self._maybe(node.body)

    def _lets_pass(self, node):
        """Whether a context manager certainly catches nothing."""
        if type(node) is not ast.Call:
            return False
        if type(node.func) is ast.Name:
            return node.func.id == "open" and self._names.is_free("open")
        return self._is_asyncio(node.func, "TaskGroup", "timeout")

    def _try(self, node):
        if node.handlers or _has(node.finalbody, ast.Return, ast.Break, ast.Continue):
            self._maybe(node.body)
        else:
            self._statements(node.body)
        for handler in node.handlers:
            self._maybe(handler.type, handler.body)
        self._maybe(node.orelse)
        self._statements(node.finalbody)

    def _function(self, node):
        for value in node.decorator_list:
            self._expression(value)
        self._defaults(node.args)
        left, ended, self._ended = self._left, self._ended, False
        self._maybe(node.body)
        if self._ended:
            self._exiting.add(node.name)
        self._left, self._ended = left, ended

    def _annotated(self, node):
        if node.value is not None:
            self._expression(node.value)
        self._expression(node.target)
        self._maybe(node.annotation)

    def _lazy(self, node):
        self._maybe(node.value)

    def _defaults(self, arguments):
        for value in (*arguments.defaults, *arguments.kw_defaults):
            if value is not None:
                self._expression(value)

    def _class(self, node):
        for value in (*node.decorator_list, *node.bases):
            self._expression(value)
        self._maybe(node.body)

    def _match(self, node):
        self._expression(node.subject)
        for case in node.cases:
            self._maybe(case.guard, case.body)

    def _assert(self, node):
        self._expression(node.test)
        self._maybe(node.msg)

    def _raise(self, node):
        self._parts(node)
        named = node.exc.func if type(node.exc) is ast.Call else node.exc
        if getattr(named, "id", getattr(named, "attr", None)) in ENDING:
            self._ended = True
        elif not self._doubts:
            self._left = True  # in a branch: the cell fails there, or continues

    def _leave(self, node):
        self._parts(node)
        self._left = True

    # ---- expressions ----

    def _expression(self, node, awaited=False):
        """awaited: what the expression raises when it is awaited is raised here."""
        handle = _EXPRESSIONS.get(type(node))
        if handle is not None:
            handle(self, node, awaited)
        elif type(node) is not ast.Constant:
            self._parts(node)

    def _await(self, node, awaited):
        self._expression(node.value, True)

    def _bool_op(self, node, awaited):
        self._expression(node.values[0])
        self._maybe(*node.values[1:])

    def _if_exp(self, node, awaited):
        self._expression(node.test)
        self._maybe(node.body, node.orelse)

    def _compare(self, node, awaited):
        self._expression(node.left)
        self._expression(node.comparators[0])
        self._maybe(*node.comparators[1:])

    def _lambda(self, node, awaited):
        self._defaults(node.args)
        self._maybe(node.body)

    def _starred(self, node, awaited):
        if type(node.value) is ast.GeneratorExp:
            self._comprehension(node.value, awaited, True)
        else:
            self._expression(node.value, awaited)

    def _comprehension(self, node, awaited, consumed=False):
        first = node.generators[0]
        self._expression(first.iter)
        certain = len(node.generators) == 1 and not first.ifs and not first.is_async and self._runs(first.iter)
        if type(node) is ast.GeneratorExp and not consumed:
            certain = False
        self._doubts += not certain
        for test in first.ifs:
            self._expression(test)
        for other in node.generators[1:]:
            for part in (other.iter, *other.ifs):
                self._expression(part)
        for part in (node.key, node.value) if type(node) is ast.DictComp else (node.elt,):
            self._expression(part, awaited)
        self._doubts -= not certain

    def _chain(self, node, awaited):
        if type(node) is ast.Name and (node.id in EXITS or node.id in self._exiting or self._handler.exits(node.id)):
            self._ended = True
        elif not self._handler.reached(node, self.certain):
            self._ended |= type(node) is ast.Attribute and node.attr in EXITS
            self._parts(node)

    def _call(self, node, awaited):
        dealt = self._handler.called(node, self.certain, awaited)
        function = self._function_of(node.func, awaited)
        if not dealt and function is None:
            self._expression(node.func)
        passes = self._awaits_arguments(node, awaited)
        for value in node.args:
            self._expression(value, passes)
        for keyword in node.keywords:
            self._expression(keyword.value)
        if function is not None:
            self._call_function(function)

    def _awaits_arguments(self, node, awaited):
        if awaited and self._is_asyncio(node.func, "gather"):
            return all(
                keyword.arg == "return_exceptions" and _is_constant(keyword.value) and keyword.value.value is False
                for keyword in node.keywords
            )
        if self._is_asyncio(node.func, "run"):
            return True
        return awaited and self._is_asyncio(node.func, *_PASSING)

    def _is_asyncio(self, node, *functions):
        return (
            type(node) is ast.Attribute
            and type(node.value) is ast.Name
            and node.value.id == "asyncio"
            and node.attr in functions
            and (self._names.is_free("asyncio") or self._names.bound("asyncio") == 0)
        )

    def _function_of(self, node, awaited):
        """The function of the cell that a call certainly runs, or None."""
        function = self._functions.get(node.id) if type(node) is ast.Name else None
        if function is None or function.name in self._active or not self.certain:
            return None
        return function if awaited or type(function) is ast.FunctionDef else None

    def _call_function(self, function):
        """Walks a function where it is called."""
        self._active.add(function.name)
        left, last, self._last = self._left, self._last, None
        self._statements(function.body)
        self._left, self._last = left, last
        self._active.discard(function.name)


_STATEMENTS = {
    ast.Expr: Walk._expr,
    ast.If: Walk._if,
    ast.While: Walk._while,
    ast.For: Walk._for,
    ast.AsyncFor: Walk._async_for,
    ast.With: Walk._with,
    ast.AsyncWith: Walk._with,
    ast.AnnAssign: Walk._annotated,
    ast.Try: Walk._try,
    ast.FunctionDef: Walk._function,
    ast.AsyncFunctionDef: Walk._function,
    ast.ClassDef: Walk._class,
    ast.Assert: Walk._assert,
    ast.Raise: Walk._raise,
    ast.Return: Walk._leave,
    ast.Break: Walk._leave,
    ast.Continue: Walk._leave,
}
_EXPRESSIONS = {
    ast.Await: Walk._await,
    ast.Call: Walk._call,
    ast.Name: Walk._chain,
    ast.Attribute: Walk._chain,
    ast.Subscript: Walk._chain,
    ast.BoolOp: Walk._bool_op,
    ast.IfExp: Walk._if_exp,
    ast.Compare: Walk._compare,
    ast.Lambda: Walk._lambda,
    ast.ListComp: Walk._comprehension,
    ast.SetComp: Walk._comprehension,
    ast.DictComp: Walk._comprehension,
    ast.GeneratorExp: Walk._comprehension,
    ast.Starred: Walk._starred,
    ast.List: Walk._parts,
    ast.Tuple: Walk._parts,
    ast.NamedExpr: Walk._parts,
}
for _name, _handle in (("Match", Walk._match), ("TryStar", Walk._try), ("TypeAlias", Walk._lazy)):
    if hasattr(ast, _name):
        _STATEMENTS[getattr(ast, _name)] = _handle
