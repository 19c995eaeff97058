"""Writes the modules of the JavaScript worker as a C table (sandbox-init/javascript/modules.h). Run by meson.

usage: embed.py OUTPUT FILE...
"""

import os
import sys


def literal(data):
    """Bytes as adjacent C string literals, one per line. The escapes are octal: hex escapes have no fixed length."""
    lines = []
    for line in data.splitlines(keepends=True):
        for at in range(0, len(line), 4000):
            text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in line[at : at + 4000])
            lines.append('        "%s"' % text)
    return "\n".join(lines) or '        ""'


def main(output, *files):
    with open(output, "w", encoding="ascii") as to:
        to.write('#include "sandbox-init/javascript/modules.h"\n\nconst struct javascript_module javascript_modules[] = {\n')
        for path in files:
            with open(path, "rb") as file:
                data = file.read()
            to.write('        {"%s",\n%s,\n         %d},\n' % (os.path.basename(path), literal(data), len(data)))
        to.write("};\nconst size_t javascript_modules_count = %d;\n" % len(files))


main(*sys.argv[1:])
