"""What a process has that multiprocessing starts anew ("spawn", "forkserver"): the definitions of the session's cells.

Such a process imports the main module to find functions and classes. Cells are not a module, so a file is written for it: their imports,
functions, classes and constants, without the code that runs. A name that is not among them becomes a function that raises an error: without it
the process would end when it reads its first task, and a pool would start the next one until the timeout.
"""

import os
import sys

_FILE = """# What the cells of the session define, for processes that multiprocessing starts anew.
import ast

for _name, _text in %r:
    for _node in ast.parse(_text, _name).body:
        try:
            exec(compile(ast.Module([_node], []), _name, "exec"))
        except Exception:
            pass  # it needs what only the session has


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*arguments, **options):
        raise RuntimeError(
            "%%s is not defined in a process of the start method spawn: it gets what cells define with def, class and import. Define it so, put it "
            "into a module below /workspace, or use multiprocessing.get_context('fork')" %% name)

    return missing
"""


def _is_definition(ast, node):
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
        return True
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return isinstance(node.value, ast.Lambda)


def _definitions():
    """[(file name, source)], each definition on the line that it has in its cell."""
    import ast

    from cloister import magics, sources

    found = []
    for name, text in sources.all_items():
        try:
            tree = ast.parse(text)
        except SyntaxError:
            try:
                text = magics.rewrite(text) or ""
                tree = ast.parse(text)
            except (SyntaxError, ValueError):
                continue
        except (ValueError, RecursionError, MemoryError):
            continue
        tree.body = [node for node in tree.body if _is_definition(ast, node)]
        lines = text.split("\n")
        kept = [""] * len(lines)
        for node in tree.body:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            kept[first - 1:node.end_lineno] = lines[first - 1:node.end_lineno]
        if tree.body:
            found.append((name, "\n".join(kept)))
    return found


def patch(spawn):
    """Of multiprocessing.spawn."""
    import tempfile

    original = spawn.get_preparation_data
    path = []

    def get_preparation_data(name):
        data = original(name)
        if "init_main_from_name" not in data and "init_main_from_path" not in data and not hasattr(sys.modules["__main__"], "__file__"):
            if not path:
                path.append(os.path.join(tempfile.mkdtemp(prefix="cells-"), "cells.py"))
            temporary = path[0] + ".new"
            with open(temporary, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(_FILE % (_definitions(),))
            os.replace(temporary, path[0])
            data["init_main_from_path"] = path[0]
        return data

    spawn.get_preparation_data = get_preparation_data
