#!/usr/bin/env python3
"""Holds the sources to the limits of HACKING.md: how long a function, a file, a module and a folder may be, and that each .c
file has its own header.

    shape.py [ROOT]

Prints what breaks a limit, one line each, and ends with 1 then. A module is a noun: a header, and at most two .c files that
define what it declares.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict

FUNCTION_LINES = 100
FILE_LINES = 900
MODULE_LINES = 1200
FOLDER_SOURCES = 25
# Parts whose files may have any form.
FREE = ("tests/", "bench/", "examples/")
# Programs of one file that the build runs: no other source calls them.
BUILD_TOOLS = {"policy/seccomp/check.c", "policy/seccomp/filter-embed.c"}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
DECLARED = re.compile(r"^(?!static|typedef|return|#)[A-Za-z_][\w \t\*]*?[ \*](\w+)\([^;{}]*\)[^;{}]*;", re.M)
DEFINED = re.compile(r"^(?!static|typedef|return|#)[A-Za-z_][\w \t\*]*?[ \*](\w+)\([^;{}]*\)\s*\{", re.M)


def tracked(root):
    """Paths of the product's sources, those that git tracks or would."""
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    for path in sorted(set(done.stdout.splitlines())):
        if path.endswith((".c", ".h", ".py", ".js")) and not path.startswith(FREE) and os.path.exists(os.path.join(root, path)):
            yield path


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def functions(text):
    """(line, lines) of each function of a C file: it begins with a brace in the first column and ends with one."""
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield start, number - start
            start = None


def plain(text):
    """The text without comments and strings, so that neither looks like a declaration."""
    return COMMENT.sub(" ", text)


def check(root):
    texts = {path: read(root, path) for path in tracked(root)}
    faults = []
    for path, text in texts.items():
        lines = text.count("\n")
        if lines > FILE_LINES:
            faults.append(f"{path}: {lines} lines, at most {FILE_LINES}")
        if path.endswith(".c"):
            for start, length in functions(text):
                if length > FUNCTION_LINES:
                    faults.append(f"{path}:{start}: a function of {length} lines, at most {FUNCTION_LINES}")
            if os.path.basename(path) != "main.c" and path not in BUILD_TOOLS and path[:-2] + ".h" not in texts:
                faults.append(f"{path}: has no header of its name")

    folders = defaultdict(int)
    for path in texts:
        folders[os.path.dirname(path)] += path.endswith((".c", ".py", ".js"))
    faults.extend(f"{folder}/: {count} source files, at most {FOLDER_SOURCES}" for folder, count in sorted(folders.items()) if count > FOLDER_SOURCES)
    faults.extend(f"{folder}/: has no README.md" for folder in sorted(folders) if folder and folders[folder] and not os.path.exists(os.path.join(root, folder, "README.md")))

    definers = defaultdict(set)
    for path, text in texts.items():
        if path.endswith(".c"):
            for name in DEFINED.findall(plain(text)):
                definers[name].add(path)
    includes = {path: set(INCLUDE.findall(text)) for path, text in texts.items() if path.endswith(".c")}
    for header in (path for path in texts if path.endswith(".h")):
        users = {path for path, of in includes.items() if header in of}
        parts = {path for name in DECLARED.findall(plain(texts[header])) for path in definers[name] & users}
        if len(parts) > 2:
            faults.append(f"{header}: declares functions of {len(parts)} files: {' '.join(sorted(parts))}")
        elif parts and (lines := texts[header].count("\n") + sum(texts[path].count("\n") for path in parts)) > MODULE_LINES:
            faults.append(f"{header}: a module of {lines} lines, at most {MODULE_LINES}: {' '.join(sorted(parts))}")
    return faults


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    faults = check(root)
    print("\n".join(faults), end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
