#!/usr/bin/env python3
"""Reads the symbols of every product library of a build and finds files that need each other at link time.

    symbol-circles.py BUILD

Prints each circle, with the symbols that close it, and ends with 1 then. Two .c files that alone include the same
x-internal.h are one module, and a module may need itself. No two other files may: a helper that all of them call gets a
file below, a state machine gets its actions as a table.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict

# Circles that may stay: {frozenset of files: reason}. Empty, and meant to stay so.
ALLOWED = {}
# Code of tests and benchmarks may have any form.
FREE = ("tests/", "bench/")


def libraries(build):
    """The static libraries of the product, as paths below the build directory."""
    for folder, names, files in os.walk(build):
        names[:] = sorted(n for n in names if not n.endswith(".p") and n not in ("deps", "node", "venv", "vm"))
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), build)
            if name.endswith(".a") and not path.startswith(FREE):
                yield path


def source_of(library, member):
    """Returns the source of an object. Meson names the object of base/fd.c, which base/meson.build lists, 'fd.c.o'."""
    return os.path.join(os.path.dirname(library), member.removesuffix(".o"))


def symbols(build, library):
    """{source: (symbols that it defines, symbols that it needs)}."""
    done = subprocess.run(["nm", "-A", "-g", os.path.join(build, library)], capture_output=True, text=True, check=True)
    found = defaultdict(lambda: (set(), set()))
    for line in done.stdout.splitlines():
        # path/libx.a:member.c.o:address T name, or of a thin archive path/libx.a:path/member.c.o:
        match = re.match(r"(?:.*:)?([^:]+\.o):\s*[0-9a-f]*\s*([A-Za-z]) (\S+)$", line)
        if match:
            member, kind, name = match.groups()
            defines, needs = found[source_of(library, os.path.basename(member))]
            (needs if kind in "Uuw" else defines).add(name)
    return found


def internal_partners(root, sources):
    """{source: module}: the two files that alone include one x-internal.h are one module."""
    users = defaultdict(set)
    for source in sources:
        path = os.path.join(root, source)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for header in re.findall(r'^\s*#\s*include\s*"([^"]+-internal\.h)"', f.read(), re.M):
                    users[header].add(source)
    module = {source: source for source in sources}
    for partners in users.values():
        if len(partners) == 2:
            for source in partners:
                module[source] = min(partners)
    return module


def components(graph):
    """The strongly connected components of more than one node, by Tarjan's algorithm without recursion."""
    index, low, stack, on, found, count = {}, {}, [], set(), [], 0
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = count = count + 1
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = count = count + 1
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in on:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = set()
                    while True:
                        member = stack.pop()
                        on.discard(member)
                        part.add(member)
                        if member == node:
                            break
                    if len(part) > 1:
                        found.append(part)
    return found


def edges(build, root):
    """{(module, module): names}. A symbol is looked for in the same library first: two programs may both have a `main_…`."""
    per_library = {library: symbols(build, library) for library in libraries(build)}
    module = internal_partners(root, {source for found in per_library.values() for source in found})
    everywhere = defaultdict(set)
    for found in per_library.values():
        for source, (defines, _) in found.items():
            for name in defines:
                everywhere[name].add(source)
    result = defaultdict(set)
    for found in per_library.values():
        here = {name: source for source, (defines, _) in found.items() for name in defines}
        for source, (_, needs) in found.items():
            for name in needs:
                for target in [here[name]] if name in here else everywhere.get(name, ()):
                    if module[target] != module[source]:
                        result[module[source], module[target]].add(name)
    return result


def circles(build, root):
    """The lines that say what is wrong."""
    needs = edges(build, root)
    graph = defaultdict(set)
    for source, target in needs:
        graph[source].add(target)
        graph[target] |= set()
    lines = []
    for part in sorted(components(graph), key=min):
        if frozenset(part) in ALLOWED:
            continue
        lines.append(f"circle of {len(part)}: {' '.join(sorted(part))}")
        for (source, target), names in sorted(needs.items()):
            if source in part and target in part:
                lines.append(f"    {source} needs {target}: {' '.join(sorted(names))}")
    return lines


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: symbol-circles.py BUILD", file=sys.stderr)
        return 2
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    lines = circles(sys.argv[1], root)
    print("\n".join(lines), end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
