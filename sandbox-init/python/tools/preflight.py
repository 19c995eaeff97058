"""Checks the calls of tools in a cell before anything of it runs.

Only what is certain to fail is a mistake (call_sites.py): names of tools and of arguments that stand in the code, and
values that are literals. It is looked up in the catalogue, and checked with the functions that check the call when it is
made, so that the texts are the same. A name that the cell binds anywhere, or that is not an object of ours, is not checked.
"""

import builtins
import re
from types import FunctionType

from cloister import schema as schemas
from cloister import signature, sources
from cloister.calls import ServerTools, Tool, Tools, check_names, check_values, collect_arguments
from cloister.errors import PreflightError, ToolArgumentError, ToolNotFound
from cloister.names import closest, did_you_mean, server_identifiers
from cloister.resources import OFFERS

SHOWN = 20  # mistakes, and calls in the result of check_only
_OURS = frozenset((Tools, ServerTools, Tool))
_PREFIX = "mcp_"


class _Unknown:
    """The value of an argument that is not a literal, or an object of ours that the code does not determine."""


UNKNOWN = _Unknown()


class _Mistake:
    def __init__(self, line, text, base, certain):
        self.line = line
        self.text = text
        self.base = base  # the name that the expression begins with
        self.certain = certain


def _literal(node, ast):
    """The value of a literal that JSON has, else UNKNOWN."""
    kind = type(node)
    if kind is ast.Constant:
        return node.value if node.value is None or isinstance(node.value, (str, int, float)) else UNKNOWN
    if kind is ast.UnaryOp and type(node.op) is ast.USub:
        value = _literal(node.operand, ast)
        return -value if type(value) in (int, float) else UNKNOWN
    if kind is ast.List or kind is ast.Tuple:
        values = [_literal(item, ast) for item in node.elts]
        return UNKNOWN if UNKNOWN in values else values
    if kind is ast.Dict:
        members = _members(node, ast)
        return UNKNOWN if members is None or UNKNOWN in members.values() else members
    return UNKNOWN


def _members(node, ast):
    """The members of a dict display, whose values may be UNKNOWN; None unless all keys are literal strings."""
    if not all(type(key) is ast.Constant and isinstance(key.value, str) for key in node.keys):
        return None
    return {key.value: _literal(value, ast) for key, value in zip(node.keys, node.values)}


def _arguments(node, ast):
    """(args, kwargs) of a call, with UNKNOWN for values; None if the names are not all in the code."""
    args, kwargs = [], {}
    for value in node.args:
        if type(value) is ast.Starred:
            return None
        members = _members(value, ast) if type(value) is ast.Dict else _literal(value, ast)
        if members is None or members is UNKNOWN and len(node.args) == 1:
            return None
        args.append(members)
    for keyword in node.keywords:
        if keyword.arg is None:
            return None
        value = keyword.value
        members = _members(value, ast) if type(value) is ast.Dict else None
        if keyword.arg == "arguments" and len(node.keywords) == 1:
            if members is None and _literal(value, ast) is UNKNOWN:
                return None  # may be a dict of all arguments
            kwargs[keyword.arg] = _literal(value, ast) if members is None else members
        else:
            kwargs[keyword.arg] = _literal(value, ast)
    return args, kwargs


def _without_unknown(arguments):
    return {key: value for key, value in arguments.items() if not _has_unknown(value)}


def _has_unknown(value):
    return value is UNKNOWN or isinstance(value, dict) and UNKNOWN in value.values()


def _as_sent(entry, given):
    """The call as the broker would get it; without arguments if some are not literals."""
    sent = {"server": entry.server, "tool": entry.name}
    try:
        arguments = collect_arguments(entry, *given)
    except ToolArgumentError:
        return sent
    if len(_without_unknown(arguments)) == len(arguments):
        sent["arguments"] = arguments
    return sent


def check(entry, args, kwargs):
    """Raises what make_call() would raise, whatever the values that are UNKNOWN turn out to be."""
    arguments = collect_arguments(entry, args, kwargs)
    check_names(entry, arguments)
    known, schema = _without_unknown(arguments), entry.input_schema
    if isinstance(schema, dict) and len(known) < len(arguments):
        members = schemas.object_in(schema, "properties")
        kept = {key: schema[key] for key in ("required", "$defs", "definitions") if key in schema}
        schema = {**kept, "properties": {key: members[key] for key in known if key in members}}
    check_values(entry, arguments, schema)


class Preflight:
    """names: of __main__."""

    def __init__(self, names, library):
        self._names = names
        self._library = library

    def concerns(self, source, needed):
        """Whether a cell that needs these names may call a tool after it has done something else: the call itself reports
        its mistakes too."""
        have = self._names
        for name in needed:
            if type(have.get(name)) in _OURS or name[:4] == _PREFIX and name not in have:
                return source.count("(") > 1 or "\n" in source or ";" in source
        return False

    def run(self, source, tree, codes, needed):
        """Raises PreflightError, or returns."""
        if not self._library.is_settled():
            return
        self._look(source, tree, codes, needed, False)

    def report(self, source, tree, codes, needed):
        """The result of a cell that is only checked, as a dict. Raises PreflightError."""
        self._library.settled()
        found = self._look(source, tree, codes, needed, True)
        calls = sorted(found.calls.values(), key=lambda call: call["line"])[:SHOWN]
        sent = [call.pop("sent") for call in calls]
        decisions = self._library.decisions(sent)
        returns = [decision.get("returns") or [] for decision in decisions]
        for at, (call, asked, decision) in enumerate(zip(calls, sent, decisions)):
            self._regard(sorted({label for labels in returns[:at] + returns[at + 1 :] for label in labels}), asked, decision)
            _note(call, decision)
        return _describe(found, calls)

    def _regard(self, labels, asked, decision):
        """Adds the decisions that are possible if results of other calls of the code have given some of the labels before."""
        if "arguments" not in asked:
            return
        effects = {*decision.get("effects", ())}
        for seen in [[label] for label in labels] + [labels] * (len(labels) > 1):
            for later in self._library.decisions([{**asked, "seen": seen}]):
                if not effects.issuperset(later.get("effects") or ()):
                    effects.update(later["effects"])
                    decision.update(later, effects=sorted(effects))

    def _look(self, source, tree, codes, needed, all_of_it):
        from cloister.call_sites import Names, Walk

        names = Names(tree, codes, needed)
        found = Lookup(self._names, self._library, needed, names, all_of_it)
        if found.bases:
            Walk(tree, names, found, self._lines(source, needed, found.bases))
        for mistake in found.mistakes.values():
            mistake.certain = mistake.certain and not found.is_spoiled and not _may_be_replaced(mistake.base)
        mistakes = [mistake for mistake in found.mistakes.values() if mistake.certain]
        if mistakes:
            raise _error(mistakes)
        return found

    def _lines(self, source, needed, bases):
        """The lines that matter for calls of tools, or None if all may."""
        if "def " in source or "class " in source or "\r" in source or "\f" in source:
            return None
        from cloister.call_sites import EXITS, LEAVING

        words = [*bases, *EXITS, *LEAVING]
        words += [name for name in needed if _is_users(self._names.get(name))]
        return [at for at, line in enumerate(source.split("\n"), 1) for word in words if word in line]


def _is_users(value):
    """Whether a value is made by the user's code, and may call tools or end the cell."""
    return type(value) is FunctionType or "__main__" in (getattr(value, "__module__", None), type(value).__module__)


def _may_be_replaced(name):
    """Whether a function of an earlier cell may set this name."""
    pattern = re.compile(r"\bglobal\b[^\n]*\b%s\b" % re.escape(name))
    return any("global" in text and pattern.search(text) for text in sources.all_texts())


def _lines(mistakes):
    mistakes = sorted(mistakes, key=lambda mistake: mistake.line)
    lines = ["line %d: %s" % (mistake.line, mistake.text) for mistake in mistakes[:SHOWN]]
    if len(mistakes) > SHOWN:
        lines.append("and %d more" % (len(mistakes) - SHOWN))
    return lines


def _count(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


def _error(mistakes):
    head = "nothing was run: %s in calls of tools" % _count(len(mistakes), "mistake")
    return PreflightError("\n".join([head, *_lines(mistakes)]), min(mistake.line for mistake in mistakes))


def unchecked(why):
    """The result of a cell whose calls cannot be checked."""
    return {"status": "ok", "value": {"repr": "ok: not checked, because the code %s" % why}}


def _note(call, decision):
    """Adds to a call what the rules say of it."""
    effects = decision.get("effects") or []
    if effects in ([], ["allow"]):
        return
    sure = len(effects) == 1
    words = {"ask": "ask", "deny": "be denied"}
    said = " or ".join("%s %s" % ("would" if sure else "may", words[effect]) for effect in effects if effect in words)
    call["rules"] = {"decision": effects[0] if sure else "depends", **{key: decision[key] for key in ("rule", "why") if key in decision}}
    call["said"] = ": ".join(part for part in (said, decision.get("rule"), decision.get("why")) if part)


def _call_line(call):
    said = call.pop("said", None)
    text = "line %d: %s.%s(%s)" % (call["line"], call["server"], call["tool"], ", ".join(call["arguments"]))
    return text if said is None else "%s: %s" % (text, said)


def _describe(found, calls):
    """calls: those that are shown."""
    text = "ok: %s checked" % _count(len(found.calls), "call")
    if found.undecided:
        text += ", %d not decidable" % len(found.undecided)
    doubtful = list(found.mistakes.values())
    if doubtful:
        text += "; %s would fail if it is reached" % _count(len(doubtful), "call")
    lines = [text, *_lines(doubtful)]
    lines += [_call_line(call) for call in calls]
    checked = {"calls": calls, "calls_total": len(found.calls), "undecided": len(found.undecided)}
    if doubtful:
        checked["doubtful"] = _lines(doubtful)
    return {"status": "ok", "value": {"repr": "\n".join(lines), "json": checked}}


class Lookup:
    """What call_sites.Walk meets, looked up in the catalogue."""

    def __init__(self, names, library, needed, bound, all_of_it):
        import _ast as ast

        from cloister.call_sites import ENDING, EXITS

        self._ast = ast
        self._exits = EXITS | ENDING
        self._names = names
        self._library = library
        self._all = all_of_it  # also what is not certain
        self._seen = {}  # id(node) -> the object
        self._used = set()  # servers that code may have called before this place; None: any
        self._bound = bound
        self.is_spoiled = False  # the code changes attributes or items of our objects
        self.bases = {}  # name -> object
        self.mistakes = {}  # id(node) -> _Mistake
        self.calls = {}  # id(node) -> what is called
        self.undecided = set()  # of id(node)
        for name in needed:
            if name in bound.local:
                continue
            if type(names.get(name)) in _OURS:
                self.bases[name] = names[name]
            elif name[:4] == _PREFIX and name not in names and not hasattr(builtins, name):
                self.bases[name] = None

    # ---- called by Walk ----

    def exits(self, name):
        found = self._names.get(name)
        return type(found) is FunctionType and not self._exits.isdisjoint(found.__code__.co_names)

    def reached(self, node, certain):
        found = self._object(node, certain)
        self.is_spoiled |= found is not None and type(node.ctx) is not self._ast.Load
        return found is not None and (found is not UNKNOWN or type(node) is not self._ast.Subscript)

    def called(self, node, certain, awaited):
        function = node.func
        found = self._object(function, certain)
        if found is None:
            self._note_other(function)
            return False
        if isinstance(found, tuple):
            tool, blocks = found
        else:
            tool, blocks = found, False
        if type(tool) is not Tool:
            if id(function) not in self.mistakes:
                self.undecided.add(id(node))
            self._used.add(None)
            return False
        self._check_call(node, tool, certain and (awaited or blocks))
        entry = tool._entry()
        self._used.add(None if entry is None else entry.server)
        return True

    def _note_other(self, function):
        """Functions and classes of the user may call tools."""
        while not hasattr(function, "id"):
            function = getattr(function, "value", None)
            if function is None:
                return
        if not self._bound.is_free(function.id) or _is_users(self._names.get(function.id)):
            self._used.add(None)

    # ---- objects ----

    def _object(self, node, certain):
        """An object of ours, (tool, whether it blocks) for .sync and .raw, UNKNOWN, or None: it is not ours."""
        key = id(node)
        if key in self._seen:
            return self._seen[key]
        found = self._find(node, certain)
        if found is not UNKNOWN or certain:
            self._seen[key] = found
        return found

    def _find(self, node, certain):
        ast = self._ast
        if type(node) is ast.Name:
            if node.id not in self.bases:
                return None
            found = self.bases[node.id]
            return found if found is not None else self._no_server(node, certain)
        if type(node) is ast.Attribute:
            return self._attribute(node, self._object(node.value, certain), certain)
        if type(node) is ast.Subscript:
            return self._item(node, self._object(node.value, certain), certain)
        return None

    def _attribute(self, node, owner, certain):
        name = node.attr
        if isinstance(owner, tuple):
            return (owner[0], True) if name == "sync" and not owner[1] else UNKNOWN
        if owner is None:
            return None
        if type(owner) is Tool and name in ("sync", "raw"):
            return owner, name == "sync"
        if hasattr(type(owner), name):
            return None
        if type(owner) not in (Tools, ServerTools) or name[:1] == "_" or name in vars(owner):
            return UNKNOWN
        if type(owner) is ServerTools and name in OFFERS:
            return UNKNOWN
        return self._get(node, owner, name, getattr, certain)

    def _item(self, node, owner, certain):
        if owner is None:
            return None
        key = _literal(node.slice, self._ast)
        if type(key) is list:
            key = tuple(key)
        is_key = isinstance(key, str) or isinstance(key, tuple) and len(key) == 2 and type(owner) is Tools
        if type(owner) not in (Tools, ServerTools) or not is_key:
            return UNKNOWN
        return self._get(node, owner, key, type(owner).__getitem__, certain)

    def _get(self, node, owner, key, get, certain):
        try:
            return get(owner, key)
        except ToolNotFound as error:
            if not certain and not self._all:
                return UNKNOWN
            servers = self._servers(owner)
            if certain and any(server.state == "cached" for server in servers):
                self._library.settled(True)
                servers = self._servers(owner)
                try:
                    return get(owner, key)
                except ToolNotFound as later:
                    error = later
            sure = certain and self._is_complete(servers)
            self._add(node, str(error) + self._meant(error.tool or key, servers), sure)
        except (AttributeError, TypeError, ValueError, LookupError):
            pass
        return UNKNOWN

    def _servers(self, owner):
        known = self._library.current().servers
        if type(owner) is Tools:
            return list(known.values())
        return [known[owner._name]] if owner._name in known else []

    def _is_complete(self, servers):
        """Whether the servers have no tools but those that are known, now and when the code comes here: a call may start
        a server, or have it offer other tools."""
        if None in self._used or any(server.name in self._used for server in servers):
            return False
        return all(server.state in ("ready", "failed") for server in servers)

    @staticmethod
    def _meant(name, servers):
        """The signatures of tools with a similar name."""
        entries = {entry.name: entry for server in servers for entry in server.tools.values()}
        name = name if isinstance(name, str) else name[-1]
        close = closest(name.rpartition(".")[2], entries, 1)
        if not close:
            return ""
        return "; there is %s" % signature.line(close[0], entries[close[0]].input_schema)

    def _no_server(self, node, certain):
        known = [name for server in self._library.current().servers for name in server_identifiers(server)]
        text = 'there is no server "%s"%s' % (node.id, did_you_mean(node.id, known))
        self._add(node, text, certain)
        return UNKNOWN

    def _add(self, node, text, certain):
        known = self.mistakes.get(id(node))
        if known is None or certain and not known.certain:
            self.mistakes[id(node)] = _Mistake(node.lineno, text, _base(node), certain)

    # ---- calls ----

    def _check_call(self, node, tool, certain):
        known = self.mistakes.get(id(node))
        if not certain and not self._all or known is not None and known.certain:
            return
        given = _arguments(node, self._ast)
        entry = tool._entry() or self._library.current().of_denied(tool._key)
        if entry is None or given is None:
            self.undecided.add(id(node))
            return
        named = given[1] or (given[0][0] if given[0] and isinstance(given[0][0], dict) else {})
        self.calls[id(node)] = {
            "line": node.lineno, "server": entry.server, "tool": entry.name, "arguments": list(named),
            "sent": _as_sent(entry, given),
        }  # fmt: skip
        error = self._refused(tool, entry, given, certain)
        if error is not None:
            self._add(node, str(error), certain)

    def _refused(self, tool, entry, given, certain):
        try:
            return check(entry, *given)
        except ToolArgumentError as error:
            if not certain or not self._library.may_doubt(entry.server):
                return error
        # The schema may be an old one, from before the server was restarted or replaced.
        self._library.settled(True)
        entry = tool._entry()
        try:
            return None if entry is None else check(entry, *given)
        except ToolArgumentError as error:
            return error


def _base(node):
    while not hasattr(node, "id"):
        node = node.func if hasattr(node, "func") else node.value
    return node.id
