"""Writes the guest's Python files as a C table (sandbox-init/worker/sources.h). Run by meson.

usage: embed.py OUTPUT FILE...
"""

import os
import sys


def literal(data):
    """Bytes as adjacent C string literals, a line of source each; octal, as hex escapes have no end."""
    lines = []
    for line in data.splitlines(keepends=True):
        text = "".join(
            chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in line
        )
        lines.append('        "%s"' % text)
    return "\n".join(lines) or '        ""'


def main(output, *files):
    entries = []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        compile(data, path, "exec", dont_inherit=True)
        name = os.path.splitext(os.path.basename(path))[0]
        entries.append('        {"%s",\n%s,\n         %d},' % (name, literal(data), len(data)))
    with open(output, "w", encoding="ascii") as file:
        file.write('#include "sandbox-init/worker/sources.h"\n\n')
        file.write("const struct guest_source guest_sources[] = {\n%s\n};\n" % "\n".join(entries))
        file.write("const size_t guest_sources_count = %d;\n" % len(entries))


main(*sys.argv[1:])
