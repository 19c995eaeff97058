# Runs in the host's interpreter (python -I -c SCRIPT REQUEST), in the builder: finds, fetches and unpacks wheels with pip or
# uv. Progress goes to standard error, a line each; the answer is the last line of standard output, in JSON.
#
# The actions "resolve" and "install" read what the user wrote, and the cache. The actions "fetch" and "unpack" read an index or a
# wheel. They run in another process: this script in the sandbox of installers (rootfs/installer-sandbox.c), which can write to one
# directory. The builder checks all that they leave there.
#
# No code of a package is executed: only wheels are installed. Sources and version control URLs are refused before an
# installer sees them, and pip runs under an audit hook that forbids it to start programs, so that no dependency is built.
import configparser
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import urllib.parse
import urllib.request

PIP = """
import runpy, sys
PAGE_MAX = 32 << 20
wheel, markers, strict, kept = sys.argv[1:5]
del sys.argv[1:5]
if wheel:
    sys.path.insert(0, wheel)
def guard(event, args):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty"):
        raise PermissionError("CLOISTER-NO-PROGRAMS")
sys.addaudithook(guard)
if markers:
    from pip._vendor.packaging import markers as module
    ours = module.default_environment
    module.default_environment = lambda: dict(
        ours(), python_version=".".join(markers.split(".")[:2]), python_full_version=markers)
if "--version" not in sys.argv:
    from pip._vendor.requests.models import Response
    usual_content = Response.content.fget
    def content(self):
        if self._content is False and self.raw is not None:
            whole = bytearray()
            for chunk in self.iter_content(65536):
                whole += chunk
                if len(whole) > PAGE_MAX:
                    raise PermissionError("CLOISTER-PAGE")
            self._content = bytes(whole)
        return usual_content(self)
    Response.content = property(content)
if kept:
    import hashlib, os
    from pip._internal.network import download
    def reused(link):
        # The wheel in the cache whose hash the index names. pip checks the hash once more, as does what keeps the wheel.
        digest, name = link.hash or "", link.filename
        path = os.path.join(kept, digest, name)
        if link.hash_name != "sha256" or len(digest) != 64 or set(digest) - set("0123456789abcdef") or "/" in name or not os.path.isfile(path):
            return None
        sum = hashlib.sha256()
        with open(path, "rb") as f:
            for part in iter(lambda: f.read(1 << 20), b""):
                sum.update(part)
        return (path, "application/octet-stream") if sum.hexdigest() == digest else None
    fetch_one = download.Downloader.__call__
    download.Downloader.__call__ = lambda self, link, location: reused(link) or fetch_one(self, link, location)
    if hasattr(download, "BatchDownloader"):  # before pip 25.1
        fetch_many = download.BatchDownloader.__call__
        def each(self, links, location):
            for link in links:
                found = reused(link)
                yield from [(link, found)] if found else fetch_many(self, [link], location)
        download.BatchDownloader.__call__ = each
if strict:
    from urllib.parse import urljoin, urlsplit
    from pip._internal.models.link import Link
    from pip._internal.network.session import LocalFSAdapter
    from pip._vendor.requests.sessions import SessionRedirectMixin
    def refuse(scheme):
        raise PermissionError("CLOISTER-REFUSED " + scheme)
    usual = SessionRedirectMixin.get_redirect_target
    def target(self, response):
        to = usual(self, response)
        if to:
            scheme = urlsplit(urljoin(response.url, to)).scheme
            if scheme not in ("http", "https") or (scheme == "http" and response.url.startswith("https:")):
                refuse(scheme)
        return to
    SessionRedirectMixin.get_redirect_target = target
    LocalFSAdapter.send = lambda self, request, *args, **rest: refuse("file")
    Link.is_file = property(lambda self: False)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

# Variables that would change where wheels are installed, or allow other packages than wheels.
DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_DEST", "PIP_NO_BINARY", "PIP_NO_DEPS", "PIP_EDITABLE",
           "PIP_REQUIRE_VIRTUALENV", "PIP_REPORT", "PIP_QUIET", "PIP_VERBOSE", "PIP_LOG", "PIP_PYTHON", "PIP_PROGRESS_BAR",
           "UV_NO_BINARY", "UV_TARGET", "UV_PYTHON", "UV_PROJECT", "UV_SYSTEM_PYTHON")
INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT", "PIP_PRE", "UV_INDEX_URL", "UV_INDEX",
           "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONSTRAINT", "UV_PRERELEASE")
DOWNLOAD_MAX = 4 << 30  # rootfs/packages.c has it, too
ANSWER_MAX = 4 << 20
SETTINGS_WITH_PATHS = ("cert", "client-cert", "find-links", "constraint")  # of pip.conf
NOT_FOLLOWED = "the index names or redirects to %s: which is not followed: only http and https are, and from https only https"


class Failure(Exception):
    """One line for a person."""


guard = None  # of an installation for a session (install.py): bounds its time and size, and has settings of its own
top = None  # of a process for an image, in the sandbox: the directory that it can write to


def say(text):
    if guard:
        guard.tell({"progress": text})
    else:
        print(text, file=sys.stderr, flush=True)


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- requirements ------------------------------------------------------------------------------------------------

OPTIONS = ("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
           "--no-index", "--trusted-host", "--pre", "--prefer-binary", "--only-binary", "--require-hashes")


def logical_lines(path):
    """(number, text) of each line, with continuations joined and comments removed."""
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure("%s: %s" % (path, getattr(error, "strerror", None) or "is not UTF-8"))
    whole, start = "", 0
    for number, line in enumerate(lines + [""], 1):
        start = start if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        text = re.sub(r"(^|\s)#.*", "", whole + line).strip()
        whole = ""
        if text:
            yield start, text


def check_requirement(text, where):
    """A name with its specifiers, or a wheel by path or URL."""
    text = text.split(" --hash")[0].strip()
    target = text.split(" @ ", 1)[1] if " @ " in text else text
    target = target.split(" ;")[0].split("#")[0].strip()
    direct = " @ " in text or "://" in target or target.startswith((".", "/", "~")) or "/" in target.split(";")[0].split("[")[0]
    if direct and not urllib.parse.urlsplit(target).path.endswith(".whl"):
        raise Failure("%s%s is not a wheel: sources are never built; name a package of the index or a .whl file" % (where, text))
    if not direct and not re.match(r"[A-Za-z0-9]", text):
        raise Failure("%s'%s' is not a requirement" % (where, text))


def local_path(text, folder="/"):
    """The file or directory of this machine that a requirement, an option or a variable may name; it need not exist."""
    text = text.split(" --hash")[0].split(" ;")[0].split(" @ ")[-1].split("#")[0].strip()
    if "://" not in text:
        return os.path.normpath(os.path.join(folder, os.path.expanduser(text)))
    address = urllib.parse.urlsplit(text)
    return urllib.parse.unquote(address.path) if address.scheme == "file" else ""


def read_file(path, found, depth=0):
    """Checks a requirements file and those that it includes; collects texts and hashes."""
    if depth > 8:
        raise Failure("%s: more than 8 files that include each other" % path)
    with_hashes = re.compile(r"--hash[= ]sha256:([0-9a-f]{64})")
    for number, text in logical_lines(path):
        where = "%s:%d: " % (path, number)
        found["texts"].append(text)
        if text.startswith("-"):
            option, _, value = text.replace("=", " ", 1).partition(" ")
            if option not in OPTIONS:
                raise Failure("%s%s has no place here: wheels of packages only" % (where, option))
            if option in ("-r", "--requirement", "-c", "--constraint"):
                read_file(os.path.join(os.path.dirname(path), value.strip()), found, depth + 1)
            named = local_path(value.strip(), os.path.dirname(path))
            if option in ("-f", "--find-links"):
                found["paths"] += glob.glob(named + "/*.whl")
            elif option in ("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url"):
                found["paths"].append(named)
            continue
        check_requirement(text, where)
        found["paths"].append(local_path(text, os.path.dirname(path)))
        if "--hash" in text:
            name = re.match(r"[A-Za-z0-9._-]*", text).group()
            found["hashes"].setdefault(canonical(name), set()).update(with_hashes.findall(text))


def wheel_name(place):
    """The name of the file at an address that the index has chosen: a name and nothing else, also once it is decoded."""
    file = urllib.parse.unquote(place.rpartition("/")[2])
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+!]*(?:-[A-Za-z0-9_.+!]+){4,5}", file[:-len(".whl")], re.ASCII):
        raise Failure("the index names a wheel at %.200r" % place.split("?")[0])
    return file


# ---- the cache ---------------------------------------------------------------------------------------------------


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for chunk in iter(lambda: f.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def describe(path):
    file = os.path.basename(path)
    name, version = file.split("-")[:2]
    return {"name": canonical(name), "version": version.replace("_", "+"), "sha256": sha256_of(path), "file": file}


class Cache:
    """wheels/SHA256/FILE.whl, and sets/KEY.json: the wheels to which a request was resolved."""

    def __init__(self, folder, make=True):
        self.wheels, self.sets = os.path.join(folder, "wheels"), os.path.join(folder, "sets")
        for path in (self.wheels, self.sets) if make else ():
            os.makedirs(path, exist_ok=True)

    def take(self, path):
        """Moves a wheel into the cache and returns its description."""
        described = describe(path)
        folder = os.path.join(self.wheels, described["sha256"])
        os.makedirs(folder, exist_ok=True)
        part = os.path.join(folder, described["file"] + ".part")
        move(path, part)
        os.replace(part, os.path.join(folder, described["file"]))
        return described

    def keep(self, package, folder):
        """Takes a wheel that a process in the sandbox has described, from its directory unless it is here already."""
        file, digest = wheel_name(str(package.get("file"))), str(package.get("sha256"))
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise Failure("the installer did not say which wheel %.100r is" % file)
        path = self.path({"file": file, "sha256": digest})
        if path:
            return describe(path)
        path = os.path.join(os.path.realpath(folder), "wheels", digest, file)
        found = os.lstat(path)
        if os.path.realpath(path) != path or not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or sha256_of(path) != digest:
            raise Failure("the installer did not leave the wheel %.100r" % file)
        os.chmod(path, 0o600)
        return self.take(path)

    def path(self, package):
        """The description of a wheel if it is in the cache and undamaged, else None."""
        path = os.path.join(self.wheels, package["sha256"], package["file"])
        return path if os.path.isfile(path) and sha256_of(path) == package["sha256"] else None

    def all(self, folder, besides):
        """Links each wheel that is not in the directory `besides` into the directory, where installers search."""
        for path in sorted(glob.glob(self.wheels + "/*/*.whl"), key=os.path.getmtime):
            if besides and os.path.exists(os.path.join(besides, os.path.basename(path))):
                continue
            link = os.path.join(folder, os.path.basename(path))
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(path, link)

    def set_of(self, key):
        return os.path.join(self.sets, key + ".json")

    def read_set(self, key):
        try:
            packages = read_json(self.set_of(key))["packages"]
            return packages if all(map(self.path, packages)) else None
        except (KeyError, TypeError):
            return None

    def write_set(self, key, packages):
        write_json(self.set_of(key), {"packages": packages})


# ---- installers --------------------------------------------------------------------------------------------------


def environment():
    env = {name: value for name, value in os.environ.items() if name not in DROPPED}
    if guard:
        env = guard.environment(env)
    folder = guard.folder if guard else top
    env.update(TMPDIR=folder, PIP_NO_CACHE_DIR="1", UV_CACHE_DIR=os.path.join(folder, "uv"), UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1")
    env.update(PIP_ROOT_USER_ACTION="ignore", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_COLOR="1", NO_COLOR="1", LC_ALL="C.UTF-8")
    return env


def run(argv, on_line=None, env=None):
    """Returns the exit status and the output."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                          env=environment() if env is None else env, encoding="utf-8", errors="replace", start_new_session=guard is not None) as process:
        lines = []
        try:
            if guard:
                guard.process = process
            for line in process.stdout:
                lines.append(line[:4000])
                del lines[:-2000]
                if on_line:
                    on_line(line.strip())
        except BaseException:
            process.kill()
            raise
    if guard:
        guard.check()
    return process.returncode, "".join(lines)


def answer(argv):
    """As run(), of a program that may not be able to run here, such as a script whose interpreter the sandbox does not have."""
    try:
        return run(argv)
    except OSError as e:
        return 127, str(e)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()[:400]


NETWORK = ("Failed to establish a new connection", "name resolution", "NewConnectionError", "ConnectTimeout", "Max retries exceeded",
           "Connection refused", "ProxyError", "Network is unreachable", "error sending request", "dns error", "Read timed out",
           "ReadTimeoutError", "Connection aborted", "Could not connect")


class Installer:
    def __init__(self, request, cache, shared=None):
        self.request, self.cache, self.shared = request, cache, shared or cache
        self.version = request["version"]
        self.minor = ".".join(self.version.split(".")[:2])
        self.python = request.get("python")

    def fail(self, text):
        if "CLOISTER-PAGE" in text:
            raise Failure("the index sent a page of more than 32 MiB")
        if "MemoryError" in text or "memory allocation of" in text:
            raise Failure("the installer needed too much memory for what the index sent")
        if "CERTIFICATE_VERIFY_FAILED" in text or "invalid peer certificate" in text:
            raise Failure("the index's certificate is not trusted (SSL_CERT_FILE, PIP_CERT)")
        if any(word in text for word in NETWORK):
            raise Failure("the index can't be reached (the network is down, or a proxy is needed); --offline takes what is in "
                          "the cache and in --find-links")
        if "No space left" in text or "os error 28" in text:
            raise Failure("no space left for wheels: make room, or set CLOISTER_IMAGE_STORE to another disk")
        self.explain(text)

    def no_such(self, name):
        if self.request.get("offline"):
            raise Failure("no wheel of '%s' for Python %s in the cache%s: leave --offline out, or put it there"
                          % (name, self.minor, " and --find-links" if self.request.get("find_links") else ""))
        raise Failure("no such package: '%s' is not on the index" % name)

    def no_wheel(self, name):
        raise Failure("'%s' has no wheel for Python %s on %s: sources are never built here; choose another version, or build the "
                      "wheel and name its folder with --find-links" % (name, self.minor, os.uname().machine))


def platforms(newest):
    """Platform tags that a C library supports ("manylinux_2_36", "musllinux_1_2"), the newest first."""
    if not newest:
        return []
    kind, major, minor = newest.split("_")
    found = ["%s_%s_%d" % (kind, major, n) for n in range(int(minor), -1, -1)]
    if kind == "manylinux":
        found += ["manylinux2014", "manylinux2010", "manylinux1"]
    return ["%s_%s" % (name, os.uname().machine) for name in found]


class Pip(Installer):
    name = "pip"

    def find(self):
        """(interpreter, wheel that contains pip or "", cross) of the first pip that works."""
        candidates = []
        if self.python:
            candidates.append((self.python, "", False))
            candidates += [(self.python, wheel, False) for wheel in self.bundled()]
        for other in ("/usr/bin/python3", shutil.which("python3")):
            if other and os.access(other, os.X_OK):
                candidates.append((other, "", True))
        for python, wheel, cross in candidates:
            status, text = answer([python, "-E", "-c", PIP, wheel, "", "", "", "--version"])
            if status == 0 and text.startswith("pip "):
                self.host, self.wheel, self.cross = python, wheel, cross
                return True
        return False

    def bundled(self):
        """The wheel of pip that ensurepip of our own interpreter installs; Debian has it in another directory."""
        folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), os.path.join(os.path.dirname(os.__file__), "ensurepip", "_bundled")]
        return [wheel for folder in folders if folder for wheel in sorted(glob.glob(folder + "/pip-*.whl"))]

    def pip(self, *args, on_line=None):
        markers = self.version if self.cross else ""
        kept = self.shared.wheels if self.shared and not guard else ""
        return run([self.host, "-E", "-c", PIP, self.wheel, markers, "strict" if guard else "", kept, *args], on_line)

    def target(self):
        if not self.cross:
            return []
        tag = "cp" + self.minor.replace(".", "")
        args = ["--python-version", self.version, "--implementation", "cp", "--abi", tag, "--abi", "abi3", "--abi", "none"]
        for platform in platforms(self.request.get("platform")):
            args += ["--platform", platform]
        return args

    def on_line(self, line):
        match = re.match(r"(?:Downloading|Using cached) ([^-\s/]+)-([^-\s]+)-\S+\.whl(?:\.metadata)?( \([^)]*\))?", line)
        if match and ".metadata" not in match.group():
            say("downloading %s %s%s" % (match.group(1), match.group(2), match.group(3) or ""))

    def fetch(self, words, files, hashes, temporary):
        wheels = os.path.join(temporary, "fetched")
        os.mkdir(wheels)
        args = ["download", "--only-binary", ":all:", "--dest", wheels, "--retries", "2", "--no-input", "--progress-bar", "off",
                *self.target()]
        if self.request.get("offline"):
            args.append("--no-index")
            args += ["--find-links", os.path.join(temporary, "cache")]
        if self.request.get("find_links"):
            args += ["--find-links", self.request["find_links"]]
        if hashes:
            args.append("--require-hashes")
        for file in files:
            args += ["-r", file]
        status, text = self.pip(*args, *words, on_line=self.on_line)
        if status != 0:
            self.fail(text)
        return [self.cache.take(path) for path in sorted(glob.glob(wheels + "/*.whl"))]

    def explain(self, text):
        refused = re.search("CLOISTER-REFUSED ([a-z0-9+.-]{1,20})", text)
        if refused:
            raise Failure(NOT_FOLLOWED % refused.group(1))
        if "TooManyRedirects" in text:
            raise Failure("the index redirects in a circle")
        if "CLOISTER-NO-PROGRAMS" in text:
            raise Failure("one of the packages or what it needs comes as sources only, which are never built here")
        if "DO NOT MATCH THE HASHES" in text:
            of = re.search(r"\n\s+(\S+) from (\S+)[^\n]*:?\n\s+Expected sha256 (\w+)(?:.|\n)*?Got\s+(\w+)", text)
            raise Failure("the hash of %s does not match: expected %s, got %s"
                          % ((of.group(1), of.group(3), of.group(4)) if of else ("a wheel", "another", "?")))
        missing = re.search(r"Could not find a version that satisfies the requirement (.+?) \(from versions: (.*?)\)", text)
        if missing:
            wanted = re.sub(r" \(from .*", "", missing.group(1))
            name = re.match(r"[A-Za-z0-9._-]*", wanted).group()
            if missing.group(2) == "none":
                if not self.request.get("offline") and self.has_sources(name):
                    self.no_wheel(name)
                self.no_such(name)
            raise Failure("no version of %s that has a wheel for Python %s fits '%s' (newest: %s)"
                          % (name, self.minor, wanted, missing.group(2).rpartition(", ")[2]))
        conflict = re.search(r"Cannot install (.+?) because these package versions have conflicting dependencies", text)
        if conflict:
            reasons = re.findall(r"^    (.+ depends on .+|The user requested .+)$", text, re.M)
            raise Failure(one_line("these do not go together: %s (%s)" % (conflict.group(1), "; ".join(reasons[:4]))))
        errors = re.findall(r"^\s*(?:ERROR|error): (.+)$", text, re.M)
        raise Failure("pip: " + one_line(errors[0] if errors else text[-300:] or "it failed without a word"))

    def has_sources(self, name):
        status, text = self.pip("index", "versions", name, *self.target())
        return status == 0 and "Available versions" in text

    def install(self, wheels, stage):
        args = ["install", "--no-index", "--no-deps", "--no-compile", "--no-warn-script-location", "--only-binary", ":all:",
                "--target", stage, *self.target()]
        status, text = self.pip(*args, *wheels)
        if status != 0:
            self.fail(text)


class Uv(Installer):
    name = "uv"

    def find(self):
        self.program = shutil.which("uv")
        if not self.program:
            return False
        status, text = answer([self.program, "--version"])
        match = re.match(r"uv (\d+)\.(\d+)", text)
        # uv writes pylock.toml, which identifies each wheel, since version 0.7.
        return status == 0 and match is not None and tuple(map(int, match.groups())) >= (0, 7)

    def target(self):
        args = ["--python", self.python or sys.executable]
        if self.python:
            return args
        platform = self.request.get("platform")
        return args + ["--python-version", self.version] + (["--python-platform", "%s-%s" % (os.uname().machine, platform)]
                                                            if platform else [])

    def fetch(self, words, files, hashes, temporary):
        lock, own = os.path.join(temporary, "pylock.toml"), os.path.join(temporary, "with.in")
        with create(own, "w") as f:
            f.write("".join(word + "\n" for word in words))
        args = [self.program, "pip", "compile", "--format", "pylock.toml", "--no-build", "--no-config", "--quiet", "-o", lock,
                *self.target(), own, *files]
        if self.request.get("offline"):
            args += ["--offline", "--no-index", "--find-links", os.path.join(temporary, "cache")]
        if self.request.get("find_links"):
            args += ["--find-links", self.request["find_links"]]
        status, text = run(args)
        if status != 0:
            self.fail(text)
        sections = read_text(lock).split("[[packages]]")[1:]
        packages = [self.one(section, temporary, "%d of %d" % (i, len(sections))) for i, section in enumerate(sections, 1)]
        packages = [package for package in packages if package]
        for package in packages if hashes else ():
            known = hashes.get(package["name"])
            if not known:
                raise Failure("%s has no hash in the requirements, and others have: give each one" % package["name"])
            if package["sha256"] not in known:
                raise Failure("the hash of %s does not match: expected %s, got %s"
                              % (package["name"], sorted(known)[0], package["sha256"]))
        return packages

    def one(self, section, temporary, which):
        """Downloads the wheel of a section of pylock.toml; uv writes one wheel per line. which: "1 of 3"."""
        name, version = (re.search(r'^%s = "([^"]+)"' % key, section, re.M) for key in ("name", "version"))
        wheel = re.search(r'\{[^{}]*\b(url|path) = "([^"]+\.whl)"[^{}]*(?:\{ sha256 = "([0-9a-f]{64})" \})?', section)
        if not name or not wheel:
            raise Failure("uv did not say which wheel %s is: use --installer pip" % (name.group(1) if name else "a package"))
        if guard and version and guard.has(name.group(1), version.group(1)):
            return None
        kind, place, digest = wheel.groups()
        file = wheel_name(place)
        known = {"file": file, "sha256": digest or ""}
        if digest and self.shared.path(known):
            return describe(self.shared.path(known))
        say("downloading %s: %s %s" % (which, name.group(1), version.group(1) if version else ""))
        path = os.path.join(temporary, file)
        if kind == "path":
            copy(os.path.join(temporary, place), path)
        else:
            download(place, path)
        package = self.cache.take(path)
        if digest and package["sha256"] != digest:
            raise Failure("the hash of %s does not match: expected %s, got %s" % (file, digest, package["sha256"]))
        return package

    def explain(self, text):
        text = one_line(re.sub("[\u2500-\u25ff\u00d7]", " ", text))
        missing = re.search(r"Because (\S+) was not found in (?:the package registry|the provided package locations|the cache)", text)
        if missing:
            self.no_such(missing.group(1))
        sources = re.search(r"Because (?:only )?(\S+?)(?:==\S+)? has no (?:usable wheels|wheels|`?source)", text)
        if sources:
            self.no_wheel(sources.group(1))
        text = re.sub("^.*No solution found when resolving dependencies(?: cause)?: ", "", text)
        raise Failure("uv: " + (text.replace("error: ", "", 1) or "it failed without a word"))

    def install(self, wheels, stage):
        args = [self.program, "pip", "install", "--target", stage, "--no-deps", "--no-index", "--offline", "--no-config", "--no-build",
                "--link-mode", "copy", "--quiet", *self.target(), *wheels]
        status, text = run(args)
        if status != 0:
            self.fail(text)


def read_text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def read_json(path):
    try:
        return json.loads(read_text(path))
    except (OSError, ValueError):
        return None


def create_fd(path, flags):
    """The one function of this program that creates files: readable for the user only, and never through a link."""
    fd = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Failure("%s is not a regular file" % path)
    return fd


def create(path, mode):
    fd = create_fd(path, os.O_EXCL if "x" in mode else 0)
    os.ftruncate(fd, 0)
    return open(fd, mode, encoding=None if "b" in mode else "utf-8")


def copy(path, to):
    with open(path, "rb") as source, create(to, "wb") as target:
        shutil.copyfileobj(source, target)


def move(source, target):
    try:
        os.rename(source, target)
    except OSError:  # Landlock before Linux 5.19 refuses each move to another directory
        copy(source, target)


def write_json(path, value):
    part = "%s.%d" % (path, os.getpid())
    with create(part, "w") as f:
        json.dump(value, f)
    os.replace(part, path)


def download(url, path):
    try:
        request = guard.request(url) if guard else url
        with (guard.open(request) if guard else urllib.request.urlopen(request, timeout=60)) as source, create(path, "wb") as target:
            left = guard.left() if guard else DOWNLOAD_MAX
            for chunk in iter(lambda: source.read(1 << 20), b""):
                left -= len(chunk)
                if left < 0:
                    raise Failure(guard.TOO_LARGE if guard else "%s is larger than 4 GiB" % url)
                target.write(chunk)
    except OSError as error:
        raise Failure("%s: %s (--installer pip knows the credentials of indexes)" % (url.split("?")[0], error))


def choose(request, *caches):
    kinds = {"uv": [Uv], "pip": [Pip], "": [Uv, Pip]}[request.get("installer") or ""]
    for kind in kinds:
        installer = kind(request, *caches)
        if installer.find():
            return installer
    wanted = "neither uv nor pip" if len(kinds) == 2 else "no %s that can be used" % kinds[0].name
    raise Failure("%s is here to fetch packages: apt install python3-pip, or put uv into PATH" % wanted)


# ---- the request -------------------------------------------------------------------------------------------------


def key_of(request, texts):
    parts = [request["version"], request.get("python") or "", request.get("platform") or "", sorted(request["with"]), texts,
             [os.environ.get(name, "") for name in INDEXES], request.get("find_links") or "", bool(request.get("offline"))]
    for path in sorted(glob.glob((request.get("find_links") or "/nonexistent") + "/*.whl")):
        parts.append([path, os.path.getsize(path), os.stat(path).st_mtime_ns])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def settings_paths():
    """pip's settings, and files and directories that they and variables name."""
    home = os.path.expanduser("~")
    files = ["/etc/pip.conf", "/etc/xdg/pip/pip.conf", home + "/.pip/pip.conf", sys.prefix + "/pip.conf",
             os.path.join(os.environ.get("XDG_CONFIG_HOME") or home + "/.config", "pip/pip.conf"), os.environ.get("PIP_CONFIG_FILE", "")]
    values = [os.environ.get(name, "") for name in (*INDEXES, "UV_INDEX_URL")]
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        pass  # pip says what is wrong
    for section in parser.sections():
        values += [value for name, value in parser.items(section) if name in SETTINGS_WITH_PATHS + ("index-url", "extra-index-url")]
    return files + [local_path(word) for value in values for word in value.split() if word.startswith(("/", "~", "file:"))]


def shown_paths(request, found):
    """What the process in the sandbox may read besides programs and libraries; parents before what is in them."""
    links = request.get("find_links") or ""
    # The sandbox never has a directory that contains the user's home: of such a one, its wheels.
    wheels = glob.glob(links + "/*.whl") if (os.path.expanduser("~") + "/").startswith(os.path.join(links, "")) else []
    paths = [os.path.join(request["cache"], "wheels"), links, *wheels, *request["files"], *found["paths"], *settings_paths()]
    return sorted({os.path.normpath(path) for path in paths
                   if path.startswith("/") and path != "/" and (os.path.isfile(path) or os.path.isdir(path))})


def confined(request, action, place, shown, **more):
    """Returns the answer of this script, which runs in the sandbox of installers and can write to the directory place/top."""
    for name in ("root", "top"):
        os.mkdir(os.path.join(place, name), 0o755)
    asked = {**request, **more, "action": action, "top": os.path.join(place, "top"), "root": os.path.join(place, "root"), "shown": shown}
    filter_fd = os.environ.get("CLOISTER_PACKAGES_FILTER", "")
    with subprocess.Popen([request["program"], "package-installer", "--python", sys.executable, json.dumps(asked)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[int(filter_fd)] if filter_fd else ()) as process:
        text = process.stdout.read(ANSWER_MAX)
        process.kill()
    try:
        if len(text) == ANSWER_MAX:
            raise ValueError  # the sandbox may not have ended
        answer = json.loads(text.decode().strip().rpartition("\n")[2])
        if "error" in answer:
            raise Failure(re.sub("^packages: ", "", str(answer["error"])))
        return answer
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Failure("the installer ended without an answer")


def remove_old(folder):
    """Removes what killed builders have left: none runs for an hour."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("tmp") and time.time() - os.lstat(path).st_mtime > 2 * 3600:
            remove_tree(path)


def resolve(request):
    cache = Cache(request["cache"])
    found = {"texts": [], "hashes": {}, "paths": []}
    for word in request["with"]:
        check_requirement(word, "--with: ")
    for file in request["files"]:
        read_file(file, found)
    key = key_of(request, found["texts"])
    packages = None if request.get("upgrade") else cache.read_set(key)
    if not request["with"] and not request["files"]:
        packages = []
    if packages is None:
        remove_old(request["cache"])
        with tempfile.TemporaryDirectory(dir=request["cache"]) as place:
            hashes = {name: sorted(known) for name, known in found["hashes"].items()}
            answer = confined(request, "fetch", place, shown_paths(request, found), hashes=hashes)
            packages = [cache.keep(package, os.path.join(place, "top")) for package in answer.get("packages", [])]
        packages.sort(key=lambda package: package["name"])
        cache.write_set(key, packages)
    return {"packages": packages, "npm": resolve_npm(request)}


def fetch(request):
    shared = Cache(request["cache"], make=False)
    installer = choose(request, Cache(top), shared)
    say("resolving with %s" % installer.name)
    os.mkdir(os.path.join(top, "cache"))
    shared.all(os.path.join(top, "cache"), request.get("find_links"))
    return {"packages": installer.fetch(request["with"], request["files"], request["hashes"], top)}


def install(request):
    cache = Cache(request["cache"])
    wheels, tarballs = ([cache.path(package) for package in request.get(key) or []] for key in ("packages", "tarballs"))
    if None in wheels + tarballs:
        raise Failure("a wheel was removed from the cache: try again")
    libraries = []
    if wheels:
        libraries += install_stage(request, "unpack", request["stage"], [cache.wheels], wheels=wheels)
    if tarballs:
        libraries += install_stage(request, "npm-unpack", request["npm_stage"], [cache.wheels], list=request["tarballs"])
    return {"packages": request["packages"], "libraries": sorted(set(libraries))}


def install_stage(request, action, stage, shown, **more):
    """Has packages unpacked in the sandbox, moves them to their stage, and returns the libraries of the machine that they need."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(stage)) as place:
        found = confined(request, action, place, shown, **more)
        os.rename(os.path.join(place, "top", "stage"), stage)
    if not found.get("has_libraries"):
        return []
    with tempfile.TemporaryDirectory(dir=os.path.dirname(stage)) as place:
        return confined({**request, "stage": stage}, "libraries", place, [stage]).get("libraries") or []


def unpack_for_image(request):
    installer, wheels, stage = choose(request, None), request["wheels"], os.path.join(top, "stage")
    say("installing %d package%s with %s" % (len(wheels), "s"[:len(wheels) != 1], installer.name))
    os.mkdir(stage)
    installer.install(wheels, stage)
    say("compiling packages")
    compile_for_image(stage, request["place"])
    return {"has_libraries": bool(libraries_below(stage))}


def libraries_below(stage):
    return [os.path.join(folder, name) for folder, _, names in os.walk(stage) for name in names if ".so" in name or name.endswith(".node")]


def list_libraries(request):
    """What the packages need of the machine, as the dynamic loader finds it. It maps their files as code, which is why it has a process
    in which they cannot be changed."""
    found = set()
    for path in libraries_below(request["stage"]):
        done = subprocess.run([request["loader"], "--list", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False, timeout=20)
        found.update(re.findall(rb"^\t(?:.* => )?(/.*) \(0x", done.stdout, re.M))
    return {"libraries": sorted(one for one in (path.decode(errors="replace") for path in found) if not one.startswith(request["stage"] + "/"))}


def compile_for_image(stage, place):
    """Compiles sources, so that imports need not; those that cannot be compiled stay as they are. By processes of their own: the
    queues of multiprocessing need semaphores, which are shared memory."""
    import compileall

    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(stage) for name in names if name.endswith(".py"))
    workers = min(len(os.sched_getaffinity(0)), 8)
    pids = []
    for n in range(workers):
        pids.append(os.fork())
        if pids[-1] == 0:
            for file in files[n::workers]:
                try:
                    compileall.compile_file(file, quiet=2, stripdir=stage, prependdir=place,
                                            invalidation_mode=compileall.py_compile.PycInvalidationMode.TIMESTAMP)
                except Exception:
                    pass
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)


def main():
    global top

    request = json.loads(sys.argv[1])
    if request["action"] == "session":
        return install_for_session(request)
    top = request.get("top")
    try:
        actions = {"fetch": fetch, "unpack": unpack_for_image, "libraries": list_libraries, "npm-fetch": fetch_npm_for_image,
                   "npm-unpack": unpack_npm_for_image} if top else {"resolve": resolve, "install": install}
        answer = actions[request["action"]](request)
    except Failure as failure:
        answer = {"error": str(failure)}
    except OSError as error:
        answer = {"error": "%s: %s" % (error.filename or "packages", error.strerror or error)}
    print(json.dumps(answer), flush=True)
