# Prints what a script says it needs (PEP 723), as JSON. The script comes on standard input; it is parsed, not run.
#
# It is run by the interpreter that the image would be made from. "python" is another one if that does not fit. Two lines before it
# define OWN, the version that the image will have (None: that of this interpreter), and FOUND, the other interpreters of this machine
# as [version, path], newest first (None: they were not searched for; if they are needed, "search" is printed). Exit status 122: the
# metadata is not right; what is printed is why. Continues script_metadata.py, in the same program.

import json
import re
import sys

LONGEST = 256 * 1024
SPECIFIER = r"\s*(===|==|!=|<=|>=|~=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*$"
# Keys that would make a name come from another index than the installer's.
SOURCES = ("sources", "index", "index-url", "extra-index-url", "find-links", "no-index")


class Wrong(Exception):
    pass


def block(lines):
    """The text of the block of type script, or None."""
    found = None
    inside = None
    for line in lines:
        line = line.rstrip("\r\n")
        if inside is None:
            if line == "# /// script":
                if found is not None:
                    raise Wrong("has two blocks of inline metadata")
                inside = []
        elif line == "# ///":
            found, inside = inside, None
        elif line == "#" or line.startswith("# "):
            inside.append(line[2:])
        else:
            inside = None  # it has no end: a comment like any other
        if inside is not None and sum(map(len, inside)) > LONGEST:
            raise Wrong("has more than %d KiB of inline metadata" % (LONGEST >> 10))
    return None if found is None else "\n".join(found) + "\n"


def parse(text):
    try:
        import tomllib
    except ImportError:
        return parse_without(text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Wrong("has inline metadata that is no TOML: %s" % error) from None


def parse_without(text):
    """Before Python 3.11."""
    if re.search(r"^\s*\[+\s*tool\s*\.\s*uv", text, re.MULTILINE):
        return {"tool": {"uv": dict.fromkeys(SOURCES)}}
    try:
        return read_without_toml(text)
    except ValueError as error:
        raise Wrong("has inline metadata in which %s" % error) from None


def parts(version):
    found = [int(part) for part in version.split(".")]
    while len(found) > 1 and found[-1] == 0:
        found.pop()
    return found


def begins(have, want, n):
    return (have + [0] * n)[:n] == (want + [0] * n)[:n]


def fits_one(have, specifier):
    match = re.match(SPECIFIER, specifier)
    if match is None:
        raise Wrong('has a "requires-python" that is not a version: %s' % specifier.strip())
    operator, version, star = match.groups()
    want, n = parts(version), version.count(".") + 1
    if star:
        if operator not in ("==", "!="):
            raise Wrong('has a "requires-python" that is not a version: %s' % specifier.strip())
        return begins(have, want, n) == (operator == "==")
    if operator == "~=":
        return have >= want and begins(have, want, n - 1)
    return {"==": have == want, "===": have == want, "!=": have != want, "<=": have <= want, ">=": have >= want,
            "<": have < want, ">": have > want}[operator]


def fits(version, specifiers):
    return all([fits_one(parts(version), one) for one in specifiers.split(",") if one.strip()])


class Search(Exception):
    """The other interpreters of this machine are needed."""


def choose(wanted):
    own = OWN or "%d.%d.%d" % sys.version_info[:3]
    if fits(own, wanted):
        return None
    if FOUND is None:
        raise Search
    for version, path in FOUND:
        if fits(version, wanted):
            return path
    have = ["%s (%s)" % (own, sys.executable)] + ["%s (%s)" % (version, path) for version, path in FOUND if version != own]
    raise Wrong("needs Python %s; this machine has %s: --python names another one" % (wanted, ", ".join(have)))


def main():
    text = block(sys.stdin.buffer.read().decode("utf-8", "replace").split("\n"))
    found = parse(text) if text is not None else {}
    wanted, needs = found.get("requires-python", ""), found.get("dependencies", [])
    if not isinstance(wanted, str) or not isinstance(needs, list) or not all(isinstance(n, str) for n in needs):
        raise Wrong('has "dependencies" or a "requires-python" that are not what PEP 723 says')
    tool = found.get("tool")
    settings = tool.get("uv") if isinstance(tool, dict) else None
    if needs and isinstance(settings, dict) and any(name in settings for name in SOURCES):
        raise Wrong("says in [tool.uv] where its packages come from, which Cloister does not follow: set the index up in the"
                    " installer's own settings, and leave that out")
    json.dump({"dependencies": needs, "python": choose(wanted) if wanted.strip() else None}, sys.stdout)


try:
    main()
except Search:
    sys.stdout.write('{"search": true}')
except Wrong as wrong:
    print(" ".join(str(wrong).split()))
    sys.exit(122)
