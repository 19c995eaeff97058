# Continues packages.py, in the same program: packages of npm. npm itself only resolves, in the sandbox: it writes a lock file, and runs no
# script of a package. The archives that the lock names are fetched, compared with their hash and unpacked here, as data.
#
# The lock is what npm made of bytes of strangers: nothing in it is believed. Each package must come from the registry with a hash.
import base64

NPM_NAME = re.compile(r"(?:@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*", re.ASCII)
NPM_RANGE = re.compile(r"[A-Za-z0-9*^~<>=|+ -][A-Za-z0-9.*^~<>=|+ -]{0,127}", re.ASCII)
NPM_VERSION = re.compile(r"\d{1,16}\.\d{1,16}\.\d{1,16}[A-Za-z0-9.+-]{0,100}", re.ASCII)
NPM_MAX = 1000  # packages of one installation
LOCK_MAX = 16 << 20
REGISTRY = "https://registry.npmjs.org/"
NPM_VARIABLE = "CLOISTER_PACKAGES_NPM"  # of rootfs/installer-sandbox.c
REGISTRY_VARIABLES = ("NPM_CONFIG_REGISTRY", "npm_config_registry")
CPUS = {"x86_64": "x64", "aarch64": "arm64", "i686": "ia32", "armv7l": "arm"}
HEAP_MIB = 512
SATISFIES = """
const semver = require('module').createRequire(process.argv[1])('semver');
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(([version, range]) => semver.satisfies(version, range, {includePrerelease: true}))));
"""


def npm_word(text, where=""):
    """(name, versions) of NAME or NAME@VERSIONS, which may also be a tag such as "next"."""
    name, separator, versions = text.strip().rpartition("@") if "@" in text.strip()[1:] else (text.strip(), "", "")
    if (len(name) > 214 or (separator and not versions) or not NPM_NAME.fullmatch(name) or name == "node_modules" or (versions and not NPM_RANGE.fullmatch(versions))
            or versions.lower().endswith((".tgz", ".tar.gz", ".tar"))):
        shown = text if len(text) <= 100 else text[:100] + "…"
        raise Failure("%s%s is not a package of npm: a name, or a name with versions, as in \"lodash@^4\"; no options, files, urls or "
                      "repositories" % (where, json.dumps(shown, ensure_ascii=True)))
    return name, versions


def registry_of(text):
    """(address without credentials, ends with "/"; "Basic" credentials, or "") of the url of a registry."""
    address = urllib.parse.urlsplit(text)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise Failure("the registry must be the url of a registry of npm, such as \"%s\"" % REGISTRY)
    pair = "%s:%s" % (urllib.parse.unquote(address.username or ""), urllib.parse.unquote(address.password or ""))
    whole = urllib.parse.urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path.rstrip("/") + "/", "", ""))
    return whole, base64.b64encode(pair.encode()).decode() if address.username else ""


class Npm:
    """npm of this machine: the first in PATH, with the Node beside it."""

    def __init__(self, folder, registry, libc, newest=None):
        self.folder, self.libc, self.newest = folder, libc, newest
        self.registry, self.credentials = registry_of(registry)
        link = shutil.which("npm")
        self.program = os.environ.get(NPM_VARIABLE, "")
        self.node = next((path for path in (os.path.join(os.path.dirname(link or "/"), "node"), shutil.which("node"))
                          if path and os.access(path, os.X_OK)), None)
        if not self.program.endswith(".js") or not self.node:
            raise Failure("there is no npm with a Node in PATH: install npm, which finds and fetches packages of JavaScript")

    def run(self, *words, script=None):
        env = {name: value for name, value in environment().items() if not name.lower().startswith(("npm_", "node_")) or name == "NODE_EXTRA_CA_CERTS"}
        certificates = env.get("SSL_CERT_FILE")
        if certificates:
            env.setdefault("NODE_EXTRA_CA_CERTS", certificates)
        env.update(HOME=self.folder, XDG_CONFIG_HOME=self.folder, XDG_CACHE_HOME=self.folder)
        return run([self.node, "--max-old-space-size=%d" % HEAP_MIB, *([] if script is None else ["-e", script]), self.program, *words], env=env)

    def lock(self, words):
        """The lock file of these packages, as JSON."""
        project = os.path.join(self.folder, "project")
        os.mkdir(project)
        with create(os.path.join(project, "package.json"), "w") as f:
            json.dump({"name": "cloister", "version": "0.0.0", "private": True, "dependencies": {name: versions or "*" for name, versions in words}}, f)
        settings = os.path.join(self.folder, "npmrc")
        with create(settings, "w") as f:
            f.write("registry=%s\n" % self.registry)
            if self.credentials:
                f.write("%s:_auth=%s\n" % (self.registry.partition(":")[2], self.credentials))
        say("resolving with npm")
        status, text = self.run("install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--no-color",
                                "--no-update-notifier", "--omit=dev", "--loglevel=error", "--logs-max=0", "--fetch-retries=1",
                                "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000", "--prefix", project, "--userconfig", settings,
                                "--globalconfig", os.path.join(self.folder, "none"), "--cache", os.path.join(self.folder, "npm"),
                                "--git=/nonexistent", *(["--before", self.newest] if self.newest else []))
        if status != 0:
            self.explain(text)
        path = os.path.join(project, "package-lock.json")
        if os.lstat(path).st_size > LOCK_MAX:
            raise Failure("npm: the list of packages is too long")
        lock = read_json(path)
        if not isinstance(lock, dict) or not isinstance(lock.get("packages"), dict):
            raise Failure("npm: it wrote no list of packages")
        return lock["packages"]

    def explain(self, text):
        def first(pattern):
            found = re.search(pattern, text)
            return found.group(1) if found else ""

        code = first(r"npm (?:error|ERR!) code (\w+)")
        lines = [line for line in re.findall(r"npm (?:error|ERR!) (?:\d+ )?(.+)", text) if not re.match(r"(?:code|errno|syscall|path) |Log files|A complete log", line)]
        if "heap out of memory" in text or "Cannot allocate memory" in text:
            raise Failure("the installer needed too much memory for what the registry sent")
        if code == "E404":
            name = urllib.parse.unquote(first(r"404 Not Found - GET \S*/([^/\s]+)(?: |$|\n)"))
            raise Failure("no such package: '%s' is not in the registry" % (name or one_line(lines[0] if lines else "?")))
        if code == "ETARGET":
            raise Failure("no version of %s fits" % (first(r"No matching version found for (\S+?)\.?\s") or "a package"))
        if code == "ERESOLVE":
            raise Failure("these do not go together: %s" % one_line("; ".join(lines[1:4])))
        if code in ("E401", "E403"):
            raise Failure("the registry refuses access: its url may have credentials (packages.registry, NPM_CONFIG_REGISTRY)")
        if "/nonexistent" in text or "git dep" in text or "ls-remote" in text:
            raise Failure("one of the packages comes from a repository of git: only packages of the registry are fetched")
        if re.search("ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|EPROTO", text):
            raise Failure("the registry can't be reached (the network is down, or a proxy is needed)")
        if re.search("SELF_SIGNED_CERT|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER|CERT_", text):
            raise Failure("the registry's certificate is not trusted (NODE_EXTRA_CA_CERTS, SSL_CERT_FILE)")
        raise Failure("npm: " + (one_line(" ".join(lines) or text[-300:]) or "it failed without a word"))

    def satisfies(self, pairs):
        """For each (version, range) whether the version is in the range, as npm reads them."""
        status, text = self.run(json.dumps(pairs), script=SATISFIES)
        answer = json.loads(text.strip().rpartition("\n")[2]) if status == 0 else []
        if not isinstance(answer, list) or len(answer) != len(pairs):
            raise Failure("npm: its comparison of versions cannot be used")
        return [one is True for one in answer]


# ---- the lock ----------------------------------------------------------------------------------------------------


def check_npm_specs(entry, name):
    """What a package needs must be of the registry too: npm itself would take it from anywhere."""
    for kind in ("dependencies", "optionalDependencies"):
        needs = entry.get(kind) or {}
        for needed, spec in needs.items() if isinstance(needs, dict) else ():
            text = spec if isinstance(spec, str) else "?"
            if text.startswith("npm:"):
                text = npm_word(text[4:])[1]
            if re.search(r"[:/\\?]", text) or text.startswith(".") or text.lower().endswith((".tgz", ".tar.gz", ".tar")):
                raise Failure("%s needs %.100s from %.100s: only packages of the registry are fetched" % (name, needed, text))


def is_for(entry, key, value):
    """Whether "os", "cpu" or "libc" of a package allow this value: ["linux"], ["!win32"]."""
    names = entry.get(key)
    names = [names] if isinstance(names, str) else [name for name in names or [] if isinstance(name, str)]
    if "!" + value in names:
        return False
    wanted = [name for name in names if not name.startswith("!")]
    return not wanted or value in wanted or "any" in wanted


def integrity_of(entry, name):
    """The SHA-512 in "integrity", in hexadecimal digits."""
    for word in str(entry.get("integrity") or "").split():
        if word.startswith("sha512-"):
            try:
                digest = base64.b64decode(word[len("sha512-"):].partition("?")[0], validate=True)
            except ValueError:
                break
            if len(digest) == 64:
                return digest.hex()
    raise Failure("%s has no SHA-512 in the registry: it is not fetched" % name)


def read_lock(lock, libc):
    """[{"path", "name", "real", "version", "sha512", "url"}] of what is needed on this machine. path: "a/node_modules/b"."""
    found = []
    cpu = CPUS.get(os.uname().machine, os.uname().machine)
    if len(lock) > 4 * NPM_MAX:
        raise Failure("more than %d packages would be installed" % NPM_MAX)
    skipped = []
    for key, entry in sorted(lock.items()):
        if key == "":
            continue
        names = key[len("node_modules/"):].split("/node_modules/")
        shown = names[-1] if NPM_NAME.fullmatch(names[-1]) else "a package"
        if not isinstance(entry, dict) or not key.startswith("node_modules/") or entry.get("link") or not all(map(NPM_NAME.fullmatch, names)):
            raise Failure("%s is a directory, not a package of the registry" % shown)
        if any(key.startswith(before) for before in skipped) or entry.get("inBundle"):
            continue
        if not is_for(entry, "os", "linux") or not is_for(entry, "cpu", cpu) or not is_for(entry, "libc", libc):
            if not entry.get("optional"):
                raise Failure("%s is not made for this machine (linux, %s, %s)" % (shown, cpu, libc))
            skipped.append(key + "/")
            continue
        check_npm_specs(entry, shown)
        version, url = str(entry.get("version")), str(entry.get("resolved"))
        if not NPM_VERSION.fullmatch(version) or urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise Failure("%s does not come from the registry (%.100r)" % (shown, url.split("?")[0]))
        found.append({"path": "/node_modules/".join(names), "name": shown, "version": version, "sha512": integrity_of(entry, shown), "url": url,
                      "real": str(entry.get("name") or shown)})  # of an alias
    if len(found) > NPM_MAX:
        raise Failure("more than %d packages would be installed" % NPM_MAX)
    return found


def tarball_file(package):
    return "%s-%s.tgz" % (re.sub("[^A-Za-z0-9]+", "-", package["name"]).strip("-") or "package", re.sub("[^A-Za-z0-9.]+", "-", package["version"]))


def hash_of(path, kind):
    digest = hashlib.new(kind)
    with open(path, "rb") as f:
        for chunk in iter(lambda: f.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def described_npm(package, path):
    """Without the address, which may change, and may have secrets."""
    return {**{key: package[key] for key in ("path", "name", "real", "version", "sha512")}, "sha256": sha256_of(path), "file": tarball_file(package)}


def fetch_tarball(npm, package, path, left):
    """Credentials are for the registry's own host only."""
    request = urllib.request.Request(package["url"])
    asked, own = urllib.parse.urlsplit(package["url"]), urllib.parse.urlsplit(npm.registry)
    if npm.credentials and (asked.scheme, asked.netloc) == (own.scheme, own.netloc):
        request.add_unredirected_header("Authorization", "Basic " + npm.credentials)
    try:
        with urllib.request.build_opener(Redirects).open(request, timeout=60) as source, create(path, "wb") as target:
            for chunk in iter(lambda: source.read(1 << 20), b""):
                left -= len(chunk)
                if left < 0:
                    raise Failure(guard.TOO_LARGE if guard else "%s is larger than 4 GiB" % package["name"])
                target.write(chunk)
    except (OSError, ValueError) as error:
        raise Failure("%s: %.200s" % (package["name"], error))
    if hash_of(path, "sha512") != package["sha512"]:
        raise Failure("the hash of %s %s does not match what the registry says" % (package["name"], package["version"]))


def fetch_npm(npm, words, shared=None):
    """Resolves and fetches. Returns descriptions of archives, which are in the folder wheels/SHA256 of npm's folder, or in `shared`."""
    packages, own = [], Cache(npm.folder)
    left = guard.most if guard else DOWNLOAD_MAX
    have = {}
    for path in glob.glob(shared.wheels + "/*/*.tgz") if shared else ():
        have.setdefault(os.path.basename(path), []).append(path)
    wanted = read_lock(npm.lock(words), npm.libc)
    for i, package in enumerate(wanted, 1):
        known = next((path for path in have.get(tarball_file(package), ()) if hash_of(path, "sha512") == package["sha512"]), None)
        if known is None:
            say("downloading %d of %d: %s %s" % (i, len(wanted), package["name"], package["version"]))
            part = os.path.join(npm.folder, "part.tgz")
            fetch_tarball(npm, package, part, left)
            left -= os.lstat(part).st_size
            described = described_npm(package, part)
            folder = os.path.join(own.wheels, described["sha256"])
            os.makedirs(folder, exist_ok=True)
            os.replace(part, os.path.join(folder, described["file"]))
        else:
            described = described_npm(package, known)
        packages.append(described)
    return packages


# ---- images ------------------------------------------------------------------------------------------------------


def user_registry():
    """Of a variable, else of ~/.npmrc: its tokens do not count."""
    for name in REGISTRY_VARIABLES:
        if os.environ.get(name):
            return os.environ[name]
    try:
        text = read_text(os.path.expanduser("~/.npmrc"))
    except (OSError, UnicodeDecodeError):
        return REGISTRY
    found = re.search(r"^\s*registry\s*=\s*\"?([^\s\"]+)", text, re.M)
    return found.group(1) if found and "${" not in found.group(1) else REGISTRY


def check_npm(package):
    """What a process in the sandbox has said of a package."""
    names = str(package.get("path")).split("/node_modules/")
    if (not all(map(NPM_NAME.fullmatch, names)) or not NPM_VERSION.fullmatch(str(package.get("version"))) or package.get("name") != names[-1]
            or not re.fullmatch("[0-9a-f]{64}", str(package.get("sha256"))) or not re.fullmatch("[0-9a-f]{128}", str(package.get("sha512")))
            or package.get("file") != tarball_file(package)):
        raise Failure("the installer did not say which packages it has fetched")
    return {key: package[key] for key in ("path", "name", "version", "sha256", "sha512", "file")}


def keep_tarball(cache, package, folder):
    """Takes an archive that a process in the sandbox has described into the cache, unless the cache has it."""
    package = check_npm(package)
    known = cache.path(package)
    path = known or os.path.join(os.path.realpath(folder), "wheels", package["sha256"], package["file"])
    found = os.lstat(path)
    if (os.path.realpath(path) != path and not known) or not stat.S_ISREG(found.st_mode) or hash_of(path, "sha512") != package["sha512"]:
        raise Failure("the installer did not leave %s" % package["name"])
    if not known:
        if found.st_nlink != 1 or sha256_of(path) != package["sha256"]:
            raise Failure("the installer did not leave %s" % package["name"])
        os.chmod(path, 0o600)
        to = os.path.join(cache.wheels, package["sha256"])
        os.makedirs(to, exist_ok=True)
        move(path, os.path.join(to, package["file"] + ".part"))
        os.replace(os.path.join(to, package["file"] + ".part"), os.path.join(to, package["file"]))
    return package


def resolve_npm(request):
    """Outside of the sandbox: the list of what an image gets of npm."""
    words = sorted(npm_word(word, "--npm: ") for word in request["npm"])
    if not words:
        return []
    cache, registry = Cache(request["cache"]), user_registry()
    key = "npm-" + hashlib.sha256(json.dumps([words, registry, os.uname().machine]).encode()).hexdigest()
    packages = None if request.get("upgrade") else cache.read_set(key)
    if packages is None and request.get("offline"):
        raise Failure("%s: these packages of npm were not resolved before: leave --offline out" % ", ".join(name for name, _ in words))
    if packages is None:
        remove_old(request["cache"])
        os.environ["NPM_CONFIG_REGISTRY"] = registry  # the url may have credentials, which arguments must not
        with tempfile.TemporaryDirectory(dir=request["cache"]) as place:
            answer = confined(request, "npm-fetch", place, [cache.wheels])
            packages = [keep_tarball(cache, package, os.path.join(place, "top")) for package in answer.get("npm", [])]
        cache.write_set(key, packages)
    return [check_npm(package) for package in packages]


def fetch_npm_for_image(request):
    npm = Npm(top, os.environ["NPM_CONFIG_REGISTRY"], "glibc")
    return {"npm": fetch_npm(npm, [npm_word(word) for word in request["npm"]], Cache(request["cache"], make=False))}


def unpack_npm_for_image(request):
    stage = os.path.join(top, "stage")
    os.mkdir(stage)
    say("unpacking %d package%s of npm" % (len(request["list"]), "s"[:len(request["list"]) != 1]))
    unpack_tarballs(Cache(request["cache"], make=False), request["list"], stage, DOWNLOAD_MAX)
    return {"has_libraries": bool(libraries_below(stage))}


# ---- sessions ----------------------------------------------------------------------------------------------------


def read_npm_request(line):
    if len(line) > REQUEST_MAX or not line.endswith("\n"):
        raise Failure("the request is too long")
    request = json.loads(line)
    words = sorted({npm_word(text) for text in texts(request, "requirements", REQUIREMENTS_MAX)})
    if not words:
        raise Failure("no package is named")
    names = [name for name, _ in words]
    if len(set(names)) < len(names):
        raise Failure("%s is named twice" % next(name for name in names if names.count(name) > 1))
    libc = request.get("platform")
    if libc not in ("glibc", "musl"):
        raise Failure("the platform is not one")
    return words, libc


def allowed_npm(settings):
    """{name: versions}, or None: every package. A list of packages of Python alone allows none of npm: names mean other things there."""
    if "allow_npm" not in settings:
        return {} if "allow" in settings else None
    return dict(npm_word(text) for text in settings["allow_npm"])


def check_allowed_npm(words, allowed, profile):
    refused = [name for name, _ in words if allowed is not None and name not in allowed]
    if refused:
        shown = sorted(allowed)
        raise Failure("%s: not allowed: packages.allow_npm of profile \"%s\" has %s%s"
                      % (", ".join(refused[:10]), profile, ", ".join(shown[:20]) or "no package",
                         " and %d more" % (len(shown) - 20) if len(shown) > 20 else ""))


def check_allowed_versions(npm, packages, allowed):
    bounded = [package for package in packages if (allowed or {}).get(package["real"])]
    if not bounded:
        return
    fitting = npm.satisfies([[package["version"], allowed[package["real"]]] for package in bounded])
    for package, fits_it in zip(bounded, fitting):
        if not fits_it:
            raise Failure("%s %s is not allowed: packages.allow_npm in the config has %s@%s"
                          % (package["real"], package["version"], package["real"], allowed[package["real"]]))


def make_npm_set(place, packages, cache, temporary, settings):
    name = hashlib.sha256(json.dumps([FORMAT, "npm", sorted((p["path"], p["sha512"]) for p in packages)]).encode()).hexdigest()[:32]
    described = [{key: package[key] for key in ("name", "version", "sha512")} for package in packages]
    if place.touch(name):
        return name
    stage = os.path.join(temporary, "set")
    os.mkdir(stage)
    say("unpacking %d package%s" % (len(packages), "s"[:len(packages) != 1]))
    size = in_child(lambda: unpack_tarballs(cache, packages, stage, settings["max_bytes"]), 300)
    if size is None:
        raise Failure("the packages can't be unpacked: they need too much memory or time")
    for folder, _, _ in os.walk(stage):
        os.chmod(folder, 0o755)
    place.add(name, stage, {"packages": described, "bytes": size}, size, settings)
    return name


def install_npm_in(store, settings, line):
    global guard

    words, libc = read_npm_request(line)
    allowed = allowed_npm(settings)
    check_allowed_npm(words, allowed, settings["profile"])
    words = [(name, versions or (allowed or {}).get(name, "")) for name, versions in words]
    place = Place(store, settings["profile"])
    registry = os.environ.get(INDEX_VARIABLE) or next((os.environ[name] for name in REGISTRY_VARIABLES if os.environ.get(name)), REGISTRY)
    key = hashlib.sha256(json.dumps(["npm", words, libc, registry, sorted((allowed or {}).items()), settings.get("exclude_newer"),
                                     settings["max_bytes"]]).encode()).hexdigest()[:32]
    answer = place.find(key)
    if answer:
        return answer
    held = place.lock("requests", int(key[:15], 16))
    answer = place.find(key)
    if answer:
        return answer
    place.clean()
    with tempfile.TemporaryDirectory(dir=place.work) as temporary:
        guard = Guard(settings, temporary, registry, {})
        npm = Npm(temporary, registry, libc, guard.newest)
        packages = fetch_npm(npm, words)
        check_allowed_versions(npm, packages, allowed)
        name = make_npm_set(place, packages, Cache(temporary), temporary, settings)
    asked = {name for name, _ in words}
    described = [{"name": p["name"], "version": p["version"], "sha256": p["sha256"]} for p in packages if p["path"] in asked]
    place.write(place.requests, key, {"at": time.time(), "set": name, "packages": described})
    os.close(held)
    return {"set": name, "packages": described}
