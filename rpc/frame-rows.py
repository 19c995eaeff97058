"""Reads frames.def: prints the constants of the guest's Python or JavaScript, or the table in docs/rpc.md.

usage: frame-rows.py python|javascript|table FRAMES_DEF
"""

import re
import sys

STRINGS = r'"((?:[^"]|"\s*")*)"'
ROW = r"^FRAME\((\w+), (0x\w\w), (\w+), (\w+), (\w+), (\w+),\s*%s,\s*%s,\s*%s\)$" % (STRINGS, STRINGS, STRINGS)


def rows(path):
    with open(path, encoding="utf-8") as file:
        found = re.findall(ROW, file.read(), re.M)
    return [[re.sub(r'"\s*"', "", column) for column in row] for row in found]


def python(path):
    """The source of the module cloister.frames."""
    return "".join("%s = %s\n" % (row[0], row[1]) for row in rows(path))


def javascript(path):
    """The source of the module frames.js."""
    members = "".join("  %s: %s,\n" % (row[0], row[1]) for row in rows(path))
    return "'use strict';\nmodule.exports = {\n%s};\n" % members


def shape(members):
    """`{"a", "b"?}` of "a:type b?:type"."""
    names = [member.partition(":")[0] for member in members.split()]
    quoted = ['"%s"%s' % (name.rstrip("?"), "?" * name.endswith("?")) for name in names]
    return "`{%s}`" % ", ".join(quoted) if quoted else ""


def table(path):
    lines = ["| type | name | from | id | when | payload |", "|---|---|---|---|---|---|"]
    for name, number, sender, payload, _, _, number_of, members, when in rows(path):
        content = {"TEXT": "text", "FD": "none; a descriptor"}.get(payload, shape(members))
        lines.append("| %s | %s | %s | %s | %s | %s |" % (number, name, sender.lower(), number_of, when, content))
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write({"python": python, "javascript": javascript, "table": table}[sys.argv[1]](sys.argv[2]))
