"""Packages that are installed while the session lives (docs/packages.md): install(), %pip install, the argument
`dependencies` and scripts that declare what they need. The broker has them fetched; they appear below TARGET, and the
requested ones are added to sys.path. The variables of the session stay."""

import os
import re
import sys

TARGET = "/run/packages"
REQUIREMENTS_MAX = 100
HAVE_BYTES_MAX = 32_000
LISTED_MAX = 30  # packages of the image, in an error

# Compiled at its first use: most sessions have none.
_LINE = r"([ \t]*)[%!][ \t]*(?:python3?[ \t]+-m[ \t]+)?(?:uv[ \t]+)?pip3?[ \t]+install[ \t]+([^\n]*)$"
_IGNORED = {"-q", "-qq", "--quiet", "-U", "--upgrade", "--user", "-y", "--yes", "--system", "--no-input",
            "--disable-pip-version-check", "--break-system-packages"}


class InstallError(ImportError):
    """Packages could not be installed, or may not be."""


InstallError.__module__ = "cloister"


def _installed():
    """{name: version} of what can be imported, the first one in sys.path."""
    from importlib import metadata

    from cloister.packages import canonical

    have = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name and one.version:
            have.setdefault(canonical(name), one.version)
    return have


def rewrite(source):
    """Cell text whose lines "%pip install …" are calls of install(); None if there are none."""
    changed = re.sub(_LINE, lambda m: "%s__import__('cloister').install.line(%r)" % (m[1], m[2].strip()), source, flags=re.MULTILINE)
    return None if changed == source else changed


def _platform():
    try:
        kind, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        if kind == "glibc":
            return "manylinux_" + "_".join(version.split(".")[:2])
    except (ValueError, OSError, AttributeError):
        pass
    return "musllinux_1_2"


def _flat(wanted):
    for one in wanted:
        if isinstance(one, str):
            yield from filter(None, map(str.strip, one.splitlines()))
        elif isinstance(one, (list, tuple, set, frozenset)):
            yield from _flat(one)
        else:
            raise TypeError("a requirement is a str, as in \"numpy>=2\", not %s" % type(one).__name__)


def _listed():
    have = _installed()
    if not have:
        return "; this image has no packages besides the standard library"
    shown = ["%s %s" % pair for pair in sorted(have.items())[:LISTED_MAX]]
    more = len(have) - len(shown)
    return "; this image has %s%s" % (", ".join(shown), " and %d more" % more if more else "")


def _entry():
    """Where in sys.path: before the first directory of packages, so that the last request comes first."""
    for i, path in enumerate(sys.path):
        if path.startswith(TARGET + "/") or os.path.basename(path) in ("site-packages", "dist-packages"):
            return i
    return len(sys.path)


def _conflicts(place, before):
    """Lines about packages of which another version is imported already."""
    from importlib import metadata

    from cloister.packages import canonical

    for one in metadata.distributions(path=[place]):
        name = canonical(one.metadata["Name"] or "")
        tops = {str(file).split("/")[0].split(".")[0] for file in one.files or ()}
        for top in sorted(tops - {"", "bin"}):
            module = sys.modules.get(top)
            where = getattr(module, "__file__", None) or ""
            if module is not None and where and not where.startswith(place + "/"):
                old = before.get(name)
                yield "%s%s is imported already: reset the session (reset: true) to use %s" % (
                    name, " " + old if old else "", one.version)
                break


class Installer:
    """install(): callable from cells. ask: sends a QUERY and returns the answer's payload."""

    def __init__(self, ask):
        self._ask = ask

    def __repr__(self):
        return "<install(\"NAME\", …): adds packages to this session>"

    def __call__(self, *requirements):
        """Adds packages to this session: install("numpy>=2", "pandas"). Raises InstallError."""
        from cloister import packages

        wanted = list(_flat(requirements))
        if not wanted:
            raise InstallError("install() needs the name of a package")
        lacking = list(packages.lacking(wanted))
        lacking += [one for one in wanted if "[" in one.split(";")[0] and one not in lacking]  # an extra may be absent
        done, notes = self.provide(lacking) if lacking else ([], [])
        print("installed " + ", ".join("%s %s" % pair for pair in done) if done else "nothing to install: all of it is here")
        self.say(notes)

    def line(self, arguments):
        """The rest of a line "%pip install …"."""
        import shlex

        wanted, words = [], iter(shlex.split(arguments, comments=True))
        for word in words:
            if word in ("-r", "--requirement"):
                with open(next(words, ""), encoding="utf-8") as f:
                    wanted += [text for text in (line.split("#")[0].strip() for line in f) if text]
            elif word.startswith("-") and word not in _IGNORED:
                raise InstallError("%s has no meaning here: %%pip install NAME …; where packages come from is in the config" % word)
            elif not word.startswith("-"):
                wanted.append(word)
        self(*wanted)

    @staticmethod
    def say(notes):
        from cloister.stdio import complain

        for note in notes:
            complain("cloister: %s\n" % note)

    def provide(self, requirements):
        """Installs what the session lacks. Returns ([(name, version)], lines about what is imported in another version)."""
        from cloister.json_codec import decode, encode_own

        before = _installed()
        have, size = [], 0
        for pair in sorted(before.items()):
            have.append("%s==%s" % pair)
            size += len(have[-1]) + 4
            if size > HAVE_BYTES_MAX:
                break
        if len(requirements) > REQUIREMENTS_MAX or sum(map(len, requirements)) > HAVE_BYTES_MAX // 2:
            raise InstallError("at most %d packages can be named at once" % REQUIREMENTS_MAX)
        query = {"what": "install", "requirements": requirements, "have": have, "platform": _platform(),
                 "python": "%d.%d.%d" % sys.version_info[:3]}
        answer = decode(self._ask(encode_own(query)))
        if not answer["ok"]:
            message = answer["error"]["message"]
            raise InstallError(message + (_listed() if message.startswith("nothing can be installed here") else ""))
        return self._add(answer["result"], before)

    @staticmethod
    def _add(result, before):
        import importlib

        if not result["set"]:
            return [], []
        place = "%s/%s" % (TARGET, result["set"])
        if not os.path.isdir(place):
            raise InstallError("the packages were installed, but this session cannot read them: it is older than packages.install in the "
                               "config. Reset it (reset: true)")
        if place not in sys.path:
            sys.path.insert(_entry(), place)
        importlib.invalidate_caches()
        done = [(package["name"], package["version"]) for package in result["packages"]]
        return done, list(_conflicts(place, before))


def provide_for_call(installer, payload, source, filename):
    """What the argument `dependencies` names; if the broker asks for it, together with the requirements of the code. Returns whether that is
    done too. Raises InstallError, and MissingPackages for another Python."""
    from cloister.json_codec import decode
    from cloister import packages

    given = decode(payload)
    needs, merges = given["dependencies"], given.get("merge", False)
    if merges:
        wrong, declared = packages.declared(source, filename)
        if wrong is not None:
            raise wrong
        needs = packages.merged([*declared, *needs])
    wanted = list(packages.lacking(needs))
    if wanted:
        installer.say(installer.provide(wanted)[1])
    return merges


def provide_for_script(installer, source, filename, missing):
    """Installs the packages that a script declares and the image lacks. Raises `missing`, which names them, if that fails."""
    from cloister import packages

    try:
        wanted = list(packages.lacking(packages.metadata(source)[1]))
    except ValueError:
        wanted = []
    if not wanted or installer is None:
        raise missing
    try:
        notes = installer.provide(wanted)[1]
    except InstallError as error:
        if not str(error).startswith("nothing can be installed here"):
            raise
        if filename is None or filename.startswith("<cell "):
            missing = packages.MissingPackages("%s (%s)" % (missing, error))
        raise missing from None
    installer.say(notes)
    still = packages.missing(source, filename)
    if still is not None:
        raise still
