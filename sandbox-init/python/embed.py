"""Writes the guest's Python files as a C table (sandbox-init/worker/sources.h): as they are, and compiled. Run by meson.

usage: embed.py OUTPUT [--python PATH]... FILE...

For each bytecode version of the given interpreters, the table has the files as compiled by one of them.
"""

import ast
import os
import subprocess
import sys

# Run by each interpreter: prints (its magic number, [the code of each file]) as a literal.
COMPILE = """
import marshal, sys
from _frozen_importlib_external import MAGIC_NUMBER
codes = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        name = "<cloister>/" + path.rpartition("/")[2]
        codes.append(marshal.dumps(compile(file.read(), name, "exec", dont_inherit=True)))
sys.stdout.write(repr((MAGIC_NUMBER, codes)))
"""


def literal(data):
    """Bytes as adjacent C string literals, one per line. The escapes are octal: hex escapes have no fixed length."""
    lines = []
    for line in data.splitlines(keepends=True):
        text = "".join(
            chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in line
        )
        lines.append('        "%s"' % text)
    return "\n".join(lines) or '        ""'


def compiled_by(python, files):
    # A fixed order of sets, so that each build produces the same bytes.
    done = subprocess.run(
        [python, "-S", "-s", "-c", COMPILE, *files],
        stdout=subprocess.PIPE,
        env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    return ast.literal_eval(done.stdout.decode())


def module_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def main(output, *arguments):
    pythons, files = [], list(arguments)
    while files[0] == "--python":
        pythons.append(files[1])
        del files[:2]
    sources, codes = [], {}
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        compile(data, path, "exec", dont_inherit=True)
        sources.append('        {"%s",\n%s,\n         %d},' % (module_of(path), literal(data), len(data)))
    for python in pythons:
        magic, code = compiled_by(python, files)
        codes.setdefault(magic, code)
    compiled = [
        '        {"%s", %s,\n%s,\n         %d},' % (module_of(path), literal(magic).strip(), literal(code), len(code))
        for magic, all in codes.items()
        for path, code in zip(files, all)
    ]
    with open(output, "w", encoding="ascii") as file:
        file.write('#include "sandbox-init/worker/sources.h"\n\n')
        for kind, entries in (("source", sources), ("code", compiled)):
            file.write("const struct guest_%s guest_%ss[] = {\n%s\n};\n" % (kind, kind, "\n".join(entries)))
            file.write("const size_t guest_%ss_count = %d;\n" % (kind, len(entries)))


main(*sys.argv[1:])
