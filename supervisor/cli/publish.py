"""Prints what `cloister publish` writes for a script, as JSON. The script comes on standard input; it is parsed, not run.

Exit status 122: it is no Python; what is printed is why.
"""

import ast
import json
import sys

TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}


def named(node):
    """The last name of typing.Optional, or Optional."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def constant(node):
    try:
        value = ast.literal_eval(node)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None, False
    return value, True


def arguments_of(node):
    inner = node.slice
    inner = getattr(inner, "value", inner) if type(inner).__name__ == "Index" else inner  # before Python 3.9
    return inner.elts if isinstance(inner, ast.Tuple) else [inner]


def schema_of(node):
    """The schema of an annotation; {} for one that is not known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return schema_of(ast.parse(node.value, mode="eval").body)
        except SyntaxError:
            return {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return union([node.left, node.right])
    if isinstance(node, ast.Subscript):
        return schema_of_generic(named(node.value), arguments_of(node))
    kind = TYPES.get({"List": "list", "Dict": "dict"}.get(named(node), named(node)))
    return {"type": kind} if kind else {}


def schema_of_generic(name, inner):
    if name == "Optional":
        return schema_of(inner[0])
    if name == "Union":
        return union(inner)
    if name == "Literal":
        values = [constant(item) for item in inner]
        return {"enum": [value for value, _ in values]} if all(good for _, good in values) else {}
    if name in ("list", "List"):
        return {"type": "array", "items": schema_of(inner[0])}
    if name == "Annotated":
        schema = schema_of(inner[0])
        text = next((item.value for item in inner[1:] if isinstance(item, ast.Constant) and isinstance(item.value, str)), None)
        return {**schema, "description": text} if text else schema
    return {"type": "object"} if name in ("dict", "Dict") else {}


def union(nodes):
    """Alternatives but None, which is the same as to leave the argument out."""
    kinds = [schema_of(node) for node in nodes if not (isinstance(node, ast.Constant) and node.value is None)]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if all(kinds) else {}


def properties_of(function):
    """(properties, required, whether others are taken)"""
    of = function.args
    positional = getattr(of, "posonlyargs", []) + of.args
    defaults = [None] * (len(positional) - len(of.defaults)) + list(of.defaults)
    properties, required = {}, []
    for argument, default in [*zip(positional, defaults), *zip(of.kwonlyargs, of.kw_defaults)]:
        schema = schema_of(argument.annotation) if argument.annotation is not None else {}
        if default is None:
            required.append(argument.arg)
        else:
            value, good = constant(default)
            if good and value is not None:
                schema = {**schema, "default": value}
        properties[argument.arg] = schema
    return properties, required, of.kwarg is not None


def entry_of(tree):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    main = next((node for node in tree.body if isinstance(node, functions) and node.name == "main"), None)
    text = ast.get_docstring(tree) or (main and ast.get_docstring(main)) or ""
    schema = {"type": "object", "properties": {}}
    if main is not None:
        schema["properties"], required, others = properties_of(main)
        if required:
            schema["required"] = required
        schema["additionalProperties"] = others
    return {"description": text, "inputSchema": schema}


def say(value):
    sys.stdout.buffer.write(json.dumps(value).encode("ascii"))


try:
    say(entry_of(ast.parse(sys.stdin.buffer.read())))
except (SyntaxError, ValueError) as error:
    sys.stdout.buffer.write(str(error).encode("utf-8", "backslashreplace"))
    sys.exit(122)
