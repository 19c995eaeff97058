"""Packages that the image lacks: the command that adds them, for an import that failed and for a script that declares
its requirements (inline script metadata, PEP 723)."""

import os
import re
import sys

from cloister import hints
from cloister.distributions import distribution_of

# Names of modules that people write themselves, and parts of Python that an image lacks.
OWN = frozenset(
    "app common conf config constants core data helper helpers lib main models mymodule schema script settings src "
    "test tests types util utils".split()
)
LEFT_OUT = frozenset("idlelib tkinter turtle turtledemo".split())

# The packages that the image was built with, as requested.
ASKED_FOR = "/etc/cloister/with"


def _asked_for():
    try:
        with open(ASKED_FOR, encoding="utf-8") as f:
            return f.read(4096).strip()
    except (OSError, ValueError):
        return ""


def _is_third_party(name):
    if not (isinstance(name, str) and name.isascii() and name.isidentifier()) or name.startswith(("_", "my_", "test_")):
        return False
    if name.lower() in OWN or name in LEFT_OUT or name in getattr(sys, "stdlib_module_names", sys.builtin_module_names):
        return False
    # A module of the agent that is not in sys.path.
    return not any(os.path.lexists(os.path.join("/workspace", name + end)) for end in ("", ".py"))


def hint(error):
    """" (add it: …)" for an import of a module that no package here has, and the use of a name that is not a module;
    "" for any other exception."""
    try:
        return _hint(error)
    except Exception:
        return ""  # the guest's changes broke a module that this needs


def _hint(error):
    if not isinstance(error, ModuleNotFoundError) or str(error) != "No module named %r" % error.name:
        return ""
    own = hints.own_name(error.name)
    if own:
        return " (%s)" % own
    if error.name in ("google", "google.colab"):
        return " (google.colab is not here: files of the user are in /workspace, files for the user go to /workspace/out)"
    if not _is_third_party(error.name):
        return ""
    wanted = distribution_of(error.name)
    if wanted is None:
        return " (this image has no such module; cloister image build --with PACKAGE adds what has it)"
    if os.path.isdir("/run/packages"):  # the config allows it (installing.py)
        return " (add it: %%pip install %s)" % wanted
    if _asked_for():
        import shlex

        wanted = shlex.quote("%s,%s" % (_asked_for(), wanted))
    return (
        ' (add it: cloister image build --with %s --name NAME; then "image": "NAME" in the config, or cloister run --with %s)'
        % (wanted, wanted)
    )


# ---- scripts -----------------------------------------------------------------------------------------------------

MARK = "# /// script"  # a source without it declares nothing
# Compiled on first use, because few scripts need them.
_BLOCK = r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$"
_REQUIREMENT = r"(?s)\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^]]*\])?\s*(@[^;]*|\(?[^;)]*\)?)\s*(?:;(.*))?$"
_SPECIFIER = r"\s*(===|==|!=|<=|>=|~=|<|>)\s*([A-Za-z0-9.*+!_-]+)\s*$"
_VERSION = r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev|post|rev|r)?[-_.]?(\d*)"
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "pre": -1, "preview": -1, None: 0}


class MissingPackages(ImportError):
    """A script declares requirements that the image lacks; it was not run."""


MissingPackages.__module__ = "cloister"


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def metadata(source):
    """The declared requirements of a script: (requires-python or "", dependencies). Raises ValueError."""
    match = re.search(_BLOCK, source.replace("\r\n", "\n"))
    if match is None:
        return "", []
    text = "".join(line[2:] if line.startswith("# ") else line[1:] for line in match["content"].splitlines(True))
    try:
        import tomllib
    except ImportError:
        from cloister import script_metadata

        found = script_metadata.read_without_toml(text)
    else:
        found = tomllib.loads(text)
    python, needs = found.get("requires-python", ""), found.get("dependencies", [])
    if not isinstance(python, str) or not isinstance(needs, list) or not all(isinstance(n, str) for n in needs):
        raise ValueError("its \"dependencies\" or \"requires-python\" is not what PEP 723 says")
    return python, needs


def _key(version):
    """A sort key for releases, pre-releases and post-releases."""
    match = re.match(_VERSION, version)
    if match is None:
        raise ValueError(version)
    release = [int(part) for part in match[2].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return int(match[1] or 0), release, _STAGES.get(match[3], 1), int(match[4] or 0)


def fits(version, specifiers):
    """Whether a version matches ">=1, <2"; true for what cannot be parsed."""
    return all(_fits_one(version, one) for one in specifiers.strip(" ()").split(",") if one.strip())


def _fits_one(version, specifier):
    match = re.match(_SPECIFIER, specifier)
    if match is None:
        return True
    operator, wanted = match.groups()
    try:
        have, base = _key(version), wanted[:-2] if wanted.endswith(".*") else wanted
        want = _key(base)
    except ValueError:
        return True
    if operator == "===":
        return version == wanted
    if wanted.endswith(".*") and operator in ("==", "!="):
        return _begins(have, base) == (operator == "==")
    if operator == "~=":
        return have >= want and _begins(have, base.rpartition(".")[0])
    return {"==": have == want, "!=": have != want, "<=": have <= want, ">=": have >= want, "<": have < want,
            ">": have > want}[operator]


def _begins(have, base):
    parts = [int(part) for part in re.findall(r"\d+", base)]
    return (have[1] + [0] * len(parts))[:len(parts)] == parts


def applies(marker):
    """Whether an environment marker is true here; false for what cannot be parsed."""
    import ast
    import platform

    version = "%d.%d.%d" % sys.version_info[:3]
    values = {
        "python_version": version.rpartition(".")[0], "python_full_version": version, "os_name": os.name,
        "sys_platform": sys.platform, "platform_system": "Linux", "platform_machine": platform.machine(),
        "implementation_name": sys.implementation.name, "platform_python_implementation": "CPython", "extra": "",
    }

    def value(node):
        if isinstance(node, ast.BoolOp):
            return (all if isinstance(node.op, ast.And) else any)([value(part) for part in node.values])
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return compare(node.left, node.ops[0], node.comparators[0])
        if isinstance(node, ast.Name):
            return values[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise ValueError(node)

    def compare(left, operator, right):
        is_version = any(getattr(side, "id", "").startswith("python_") for side in (left, right))
        left, right = value(left), value(right)
        if isinstance(operator, (ast.In, ast.NotIn)):
            return (left in right) == isinstance(operator, ast.In)
        symbol = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(operator)]
        if is_version:
            return fits(left, symbol + right)
        return {"==": left == right, "!=": left != right}.get(symbol, False)

    try:
        return bool(value(ast.parse(marker.strip(), mode="eval").body))
    except (SyntaxError, ValueError, KeyError, RecursionError):
        return False


def lacking(needs):
    """The requirements that hold here and that no installed distribution meets."""
    from importlib import metadata as installed

    have = {}
    for d in installed.distributions():
        have.setdefault(canonical(d.metadata["Name"] or ""), d.version)  # the first one is imported
    for need in needs:
        match = re.match(_REQUIREMENT, need)
        if match is None:
            yield need  # the installer reports what is wrong with it
            continue
        if match[4] and not applies(match[4]):
            continue
        version = have.get(canonical(match[1]))
        if version is None or not (match[3].startswith("@") or fits(version, match[3])):
            yield need


def merged(needs):
    """Of several requirements with the same name, only the last."""
    by_name = {}
    for need in needs:
        match = re.match(_REQUIREMENT, need)
        by_name[canonical(match[1]) if match is not None else need] = need
    return list(by_name.values())


def _label(filename):
    return filename if filename and not filename.startswith("<") else None


def _wrong_python(python):
    version = "%d.%d.%d" % sys.version_info[:3]
    return "needs Python %s, this image has %s" % (python, version) if python and not fits(version, python) else None


def declared(source, filename):
    """(MissingPackages if the metadata of the code cannot be read or its Python is another one, else None; its requirements)."""
    label = _label(filename) or "the script"
    try:
        python, needs = metadata(source) if MARK in source else ("", [])
    except ValueError as error:
        return MissingPackages("%s: its inline metadata can't be read: %s" % (label, error)), []
    wrong = _wrong_python(python)
    return wrong and MissingPackages("%s %s: %s" % (label, wrong, _commands(_label(filename), python, needs, _is_mcp(filename)))), needs


def missing(source, filename):
    """MissingPackages if a script declares requirements that are not met, else None."""
    script = _label(filename)
    label = script or "the script"
    try:
        python, needs = metadata(source)
    except ValueError as error:
        return MissingPackages("%s: its inline metadata can't be read: %s" % (label, error))
    wrong = _wrong_python(python)
    problems = [wrong] if wrong else []
    absent = list(lacking(needs))
    if absent:
        problems.append("needs %s, which this image lacks" % ", ".join(absent))
    if not problems:
        return None
    return MissingPackages("%s %s: %s" % (label, "; it ".join(problems), _commands(script, python if wrong else "", needs, _is_mcp(filename))))


def _is_mcp(filename):
    """Whether the code came over MCP: in a published tool's script it has the second name (supervisor/mcp/publish/run-tool.c)."""
    return filename is None or filename.startswith("<cell ") or filename == "/workspace/script.py"


def _commands(script, python, needs, is_mcp):
    """The commands that build such an image. Code that came over MCP can't run them: who set Cloister up can."""
    import shlex

    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.splitext(os.path.basename(script or "script"))[0]).strip("-.")[:40] or "script"
    words = ["cloister image build"]
    wanted = re.search(r"(?:>=|==|~=)\s*(3\.\d+)", python)
    if python:
        words.append("--python python%s" % (wanted[1] if wanted else "3"))
    if needs:
        words.append("--with %s" % shlex.quote(",".join(need.strip() for need in needs)))
    if is_mcp:
        build = " ".join([*words, "--name NAME"])
        return 'use what the image has and leave the block out, or ask the user for an image: %s; "image": "NAME" in the config' % build
    words.append("--name %s && cloister run --image %s %s" % (name, name, shlex.quote(script) if script else "…"))
    return " ".join(words)
