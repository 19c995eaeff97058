"""Inline script metadata (PEP 723) for Python before 3.11, which has no tomllib. The program that reads a script on the host
begins with this file too (supervisor/cli/meson.build)."""

import re


def read_without_toml(text):
    """The two keys that come before any table; their TOML values are also Python literals. Raises ValueError."""
    import ast

    found = {}
    text = re.split(r"^\s*\[[A-Za-z\"'.\[ -]+\]", text, maxsplit=1, flags=re.MULTILINE)[0]
    for match in re.finditer(r"^(dependencies|requires-python)\s*=\s*", text, re.MULTILINE):
        for end in re.finditer(r"\]|\"|'", text[match.end():]):
            try:
                found[match[1]] = ast.literal_eval(text[match.end():match.end() + end.end()])
                break
            except (SyntaxError, ValueError):
                continue
        else:
            raise ValueError("\"%s\" is not what PEP 723 says" % match[1])
    return found
