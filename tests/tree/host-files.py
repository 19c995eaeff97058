#!/usr/bin/env python3
"""Finds code that creates a file on the host by another way than the one function of its language, and rows of the table
of these files (base/host-files.def) that docs/isolation.md lacks or that nothing uses.

    host-files.py [ROOT]

Prints one line for each, and ends with 1 then.
"""

import importlib.util
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPENERS = {"base/host-file.c": "host_file_open", "rootfs/packages.py": "create_fd"}
# Code inside a sandbox, or that makes the root of one, writes the sandbox's files. The policy names flags that a sandbox may not use. The client
# in Python is a part of the user's program, and writes the file that this asks for (copy_from_runtime); it has code for inside, too.
INSIDE = ("packaging/python/cloister/", "sandbox-init/", "supervisor/doctor/probe.py", "policy/seccomp/", "rootfs/installer-sandbox.c")

C_WAYS = re.compile(
    r"\b(?:O_CREAT|O_TMPFILE|__O_TMPFILE)\b|\b(?:creat|creat64|mkstemps?(?:64)?|mkostemps?(?:64)?|tmpfile(?:64)?|SYS_creat|__NR_creat)\b"
    r'|\b(?:fopen|freopen)(?:64)?\s*\([^;]*?,\s*"[^"]*[wa+x][^"]*"|\b(?:fopen|freopen)(?:64)?\s*\([^,;]*,\s*[^"\s]'
    r"|\bmknod(?:at)?\s*\((?![^;]*S_IF(?:IFO|SOCK|CHR|BLK))"  # without a type: a regular file
)
PY_WAYS = re.compile(
    r"\bO_CREAT\b|\bO_TMPFILE\b|(?<!def )\b(?:mkstemp|NamedTemporaryFile|TemporaryFile|SpooledTemporaryFile|mknod)\b"
    r"|\bcopyfile\b|\bcopy2\b|\bshutil\.copy\b|\bcopytree\b|\bwrite_text\b|\bwrite_bytes\b|\bextractall\b|\.touch\(\)|\bshutil\.move\b"
    r"""|\.open\(\s*(?:mode\s*=\s*)?["'][rbt]*[wax+]|\bZipFile\([^()]*,\s*(?:mode\s*=\s*)?["'][wax]"""
    r"""|(?<![\w.])(?:io\.|os\.fdopen|gzip\.|codecs\.)?open\((?!fd\b|write_end\b)[^()]*(?:\([^()]*\)[^()]*)*,\s*(?:mode\s*=\s*)?["'][rbt]*[wax+]"""
)
# A text may contain what begins a comment.
TEXT_OR_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|/\*.*?\*/|//[^\n]*""", re.S)


def tracked(root):
    spec = importlib.util.spec_from_file_location("shape", os.path.join(HERE, "shape.py"))
    shape = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shape)
    return [path for path in shape.tracked(root) if not path.startswith(INSIDE)]


def without_function(text, name):
    """The text without the function, its lines kept."""
    pattern = rf"^(?:int {name}\([^{{]*?\)\n\{{\n.*?^\}}|def {name}\(.*?(?=^\S))"
    return re.sub(pattern, lambda found: "\n" * found.group().count("\n"), text, count=1, flags=re.M | re.S)


def ways(path, text):
    is_c = not path.endswith(".py")
    if is_c:
        text = TEXT_OR_COMMENT.sub(lambda found: found[1] or "\n" * found.group().count("\n"), text)
    if path in OPENERS:
        text = without_function(text, OPENERS[path])
    for found in (C_WAYS if is_c else PY_WAYS).finditer(text):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found.group().split())


def rows(root):
    with open(os.path.join(root, "base/host-files.def"), encoding="utf-8") as f:
        return re.findall(r"^HOST_FILE\((\w+), ([\w |]+), (\d+)\)$", f.read(), re.M)


def main(root):
    found, used = [], ""
    for path in tracked(root):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            text = f.read()
        used += text
        found += [f"{path}:{line}: creates a file with {way}: use {OPENERS['rootfs/packages.py' if path.endswith('.py') else 'base/host-file.c']}()" for line, way in ways(path, text)]
    with open(os.path.join(root, "docs/isolation.md"), encoding="utf-8") as f:
        table = f.read()
    documented = set()
    for line in re.findall(r"^\| [A-Z_]+ \|.*$", table, re.M):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        documented.add((cells[0], cells[3], cells[4]))
    for name, flags, mode in rows(root):
        row = name, flags.replace("O_", "").replace(" | ", ", "), mode
        if row not in documented:
            found.append(f"docs/isolation.md: has no row {' '.join(row)}")
        if not re.search(rf"\bHOST_FILE_{name}\b", used):
            found.append(f"base/host-files.def: nothing uses {name}")
    for name in {row[0] for row in documented} - {row[0] for row in rows(root)}:
        found.append(f"docs/isolation.md: {name} is not a row of base/host-files.def")
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(HERE))))
