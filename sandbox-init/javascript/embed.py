"""Writes the files of the JavaScript worker as a C table (sandbox-init/javascript/modules.h). Run by meson.

usage: embed.py OUTPUT FILE... -- MODULE...

The modules become one file, worker.js: Node needs as long to find and read a file as to run it.
"""

import sys
from pathlib import Path

BEGIN = """'use strict';
/* The modules of the worker, each as a function. Written by embed.py. */

const modules = {
__proto__: null,
"""
END = """};
const loaded = { __proto__: null };

/** require() of these modules: one of them, or one of Node. */
function load(name) {
  if (modules[name] === undefined) {
    return require(name);
  }
  if (loaded[name] === undefined) {
    const module = loaded[name] = { exports: {} };
    modules[name](module.exports, load, module);
  }
  return loaded[name].exports;
}

module.exports = load;
"""


def _ascii(text):
    """With escapes, which JavaScript's strings and regular expressions have too: V8 keeps two bytes for each character of a text with others."""
    assert all(ord(c) <= 0xFFFF for c in text)
    return text.encode("ascii", "backslashreplace").decode()


def bundle(paths):
    """The text of worker.js. The functions are in parentheses: V8 then compiles them when it reads them, not twice."""
    modules = ("'./%s': (function (exports, require, module) { %s\n}),\n" % (path.name, _ascii(path.read_text("utf-8"))) for path in sorted(paths))
    return BEGIN + "".join(modules) + END


def literal(data):
    """Bytes as adjacent C string literals, one per line. The escapes are octal: hex escapes have no fixed length."""
    lines = []
    for line in data.splitlines(keepends=True):
        for at in range(0, len(line), 4000):
            text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in line[at : at + 4000])
            lines.append('        "%s"' % text)
    return "\n".join(lines) or '        ""'


def main(output, *words):
    files, modules = (list(map(Path, part)) for part in (words[: words.index("--")], words[words.index("--") + 1 :]))
    entries = [*((path.name, path.read_bytes()) for path in files), ("worker.js", bundle(modules).encode())]
    with open(output, "w", encoding="ascii") as to:
        to.write('#include "sandbox-init/javascript/modules.h"\n\nconst struct javascript_module javascript_modules[] = {\n')
        for name, data in entries:
            to.write('        {"%s",\n%s,\n         %d},\n' % (name, literal(data), len(data)))
        to.write("};\nconst size_t javascript_modules_count = %d;\n" % len(entries))


if __name__ == "__main__":
    main(*sys.argv[1:])
