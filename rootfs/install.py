# Continues packages.py and wheels.py, in the same program: installs packages for a session (docs/packages.md). The settings are the
# user's, from the monitor. The request is from a sandbox: nothing in it is believed. Wheels are bytes of strangers: they are
# unpacked here, as data. Answers are lines of JSON.
import base64
import datetime
import fcntl
import signal
import threading
import time
import warnings

REQUEST_MAX = 256 * 1024
REQUIREMENTS_MAX, HAVE_MAX = 100, 4000
SETS_BYTES = 4  # times max_size: what all sets of a profile may take
YOUNG_S = 24 * 3600  # a set that was requested since then is not removed, and a resolved request is not resolved again
FORMAT = 1  # of a set, in its name

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?"
ONE_SPECIFIER = r"(?:===|==|!=|<=|>=|~=|<|>) *[A-Za-z0-9.*+!_-]{1,64}"
SPECIFIERS = r"%s(?: *, *%s){0,15}" % (ONE_SPECIFIER, ONE_SPECIFIER)
REQUIREMENT = re.compile(r"(%s) *(\[[A-Za-z0-9._, -]{0,200}\])? *(%s|\( *%s *\))? *(;[A-Za-z0-9_.'\"<>=!~(), -]{1,200})?"
                         % (NAME, SPECIFIERS, SPECIFIERS))
ARCHIVES = (".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".tlz", ".lz", ".lzma", ".egg", ".exe")
VERSION = re.compile(r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev|post|rev|r)?[-_.]?(\d*)", re.ASCII)
STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "pre": -1, "preview": -1, None: 0}
KEPT = ("PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "UV_NATIVE_TLS",
        "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_INSECURE_HOST")


class Late(Failure):
    pass


class Guard:
    """Bounds one installation: time, and bytes below its directory. Its settings are those of one index."""

    def __init__(self, settings, folder, index, have):
        self.folder, self.index, self.have = folder, index, have
        self.most = settings["max_bytes"]
        self.process = None
        self.is_full = False
        self.TOO_LARGE = "more than %s would be downloaded: packages.max_size in the config" % readable(self.most)
        self.newest = newest_of(settings.get("exclude_newer"))
        threading.Thread(target=self.watch, daemon=True).start()

    def tell(self, answer):
        print(json.dumps(answer), flush=True)

    def has(self, name, version):
        return self.have.get(canonical(name)) == version

    def used(self):
        total = 0
        for folder, _, files in os.walk(self.folder):
            for file in files:
                try:
                    total += os.lstat(os.path.join(folder, file)).st_size
                except OSError:
                    pass
        return total

    def left(self):
        return max(0, self.most - self.used())

    def watch(self):
        while True:
            time.sleep(0.1)
            process = self.process
            # An installer has what it has fetched twice for a moment.
            if process and process.poll() is None and self.used() > 2 * self.most:
                self.is_full = True
                process.kill()

    def check(self):
        if self.is_full:
            raise Failure(self.TOO_LARGE)

    def environment(self, env):
        """Nothing of the user's installer but how the network is reached: a second index would let its owner choose what a
        name means."""
        env = {name: value for name, value in env.items() if not name.startswith(("PIP_", "UV_")) or name in KEPT}
        for name in (PACKAGES_VARIABLE, INDEX_VARIABLE, "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"):
            env.pop(name, None)
        env.update(PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=self.index, UV_DEFAULT_INDEX=self.index, UV_NO_CONFIG="1",
                   PIP_DEFAULT_TIMEOUT=env.get("PIP_DEFAULT_TIMEOUT", "15"))
        if self.newest:
            env["UV_EXCLUDE_NEWER"] = self.newest
        return env

    def request(self, url):
        """Credentials of the index are for the index: not for another host that it names, nor for one that it redirects to."""
        asked, index = urllib.parse.urlsplit(url), urllib.parse.urlsplit(self.index)
        if asked.scheme not in ("http", "https") and asked.scheme != index.scheme:
            raise Failure("the index names a wheel at %s" % url.split("?")[0])
        host = asked.netloc.rpartition("@")[2]
        request = urllib.request.Request(urllib.parse.urlunsplit(asked._replace(netloc=host)))
        if index.username and (asked.scheme, host) == (index.scheme, index.netloc.rpartition("@")[2]):
            pair = "%s:%s" % (urllib.parse.unquote(index.username), urllib.parse.unquote(index.password or ""))
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        return request

    def open(self, request):
        return urllib.request.build_opener(Redirects).open(request, timeout=60)


class Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (scheme == "http" and req.full_url.startswith("https:")):
            raise Failure(NOT_FOLLOWED % scheme)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


PACKAGES_VARIABLE, INDEX_VARIABLE = "CLOISTER_PACKAGES", "CLOISTER_PACKAGES_INDEX"


def readable(n):
    return "%d MiB" % (n >> 20) if n >= 1 << 20 else "%d KiB" % (n >> 10)


def newest_of(text):
    """"14d" or a date as uv reads it, to the hour, so that requests of one hour are the same request."""
    if not text or not text[-1].isalpha():
        return text
    hours = int(text[:-1]) * {"h": 1, "d": 24, "w": 168}[text[-1]]
    now = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
    return (now - datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- requested packages, and allowed ones -----------------------------------------------------------------------


def texts(request, key, most):
    found = request.get(key)
    if not isinstance(found, list) or len(found) > most or not all(isinstance(one, str) for one in found):
        raise Failure("%s must be a list of at most %d texts" % (key, most))
    return found


def requirement(text):
    """(name, extras, specifiers, marker). Only what names a package of the index: no option, file, url, repository."""
    text = text.strip()
    match = REQUIREMENT.fullmatch(text) if len(text) <= 400 else None
    if match is None or match[1].lower().endswith(ARCHIVES):
        shown = text if len(text) <= 100 else text[:100] + "…"
        raise Failure("%s is not a requirement: a package's name, [extras] and versions, as in \"numpy>=2\"; no options, files, urls "
                      "or repositories" % json.dumps(shown, ensure_ascii=True))
    specifiers = ",".join(sorted(one.strip() for one in (match[3] or "").strip("() ").replace(" ", "").split(",")))
    return canonical(match[1]), match[2] or "", specifiers, match[4] or ""


def key_of_version(version):
    match = VERSION.match(version)
    if match is None:
        raise ValueError(version)
    release = [int(part) for part in match[2].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return int(match[1] or 0), release, STAGES.get(match[3], 1), int(match[4] or 0)


def begins(have, base):
    parts = [int(part) for part in re.findall(r"\d+", base)]
    return (have[1] + [0] * len(parts))[:len(parts)] == parts


def fits(version, specifiers):
    """Whether a version is allowed; false for what cannot be read."""
    try:
        return all(fits_one(version, one.strip()) for one in specifiers.split(",") if one.strip())
    except ValueError:
        return False


def fits_one(version, specifier):
    operator, wanted = re.fullmatch(r"(===|==|!=|<=|>=|~=|<|>) *(\S+)", specifier).groups()
    base = wanted[:-2] if wanted.endswith(".*") else wanted
    if operator == "===":
        return version == wanted
    have, want = key_of_version(version), key_of_version(base)
    if wanted.endswith(".*"):
        return begins(have, base) == (operator == "==")
    if operator == "~=":
        return have >= want and begins(have, base.rpartition(".")[0])
    return {"==": have == want, "!=": have != want, "<=": have <= want, ">=": have >= want, "<": have < want,
            ">": have > want}[operator]


def read_allowed(settings):
    """{name: specifiers}, or None: every package."""
    if "allow" not in settings:
        return None
    found = {}
    for text in settings["allow"]:
        name, _, specifiers, _ = requirement(text)
        found.setdefault(canonical(name), []).append(specifiers)
    return {name: ",".join(filter(None, several)) for name, several in found.items()}


def check_allowed(names, allowed, profile):
    refused = [name for name in names if allowed is not None and canonical(name) not in allowed]
    if refused:
        shown = sorted(allowed)
        raise Failure("%s: not allowed: packages.allow of profile \"%s\" has %s%s"
                      % (", ".join(refused[:10]), profile, ", ".join(shown[:20]),
                         " and %d more" % (len(shown) - 20) if len(shown) > 20 else ""))


def read_request(line):
    if len(line) > REQUEST_MAX or not line.endswith("\n"):
        raise Failure("the request is too long")
    request = json.loads(line)
    words = [requirement(text) for text in texts(request, "requirements", REQUIREMENTS_MAX)]
    if not words:
        raise Failure("no package is named")
    have = {}
    for text in texts(request, "have", HAVE_MAX):
        match = re.fullmatch(r"(%s)==([A-Za-z0-9.+!_-]{1,64})" % NAME, text)
        if match:
            have.setdefault(canonical(match[1]), match[2])
    version, platform = request.get("python"), request.get("platform")
    if not isinstance(version, str) or not re.fullmatch(r"3\.\d{1,2}\.\d{1,3}", version, re.ASCII):
        raise Failure("the version of Python is not one")
    if not isinstance(platform, str) or not re.fullmatch(r"(?:manylinux|musllinux)_\d{1,2}_\d{1,3}", platform, re.ASCII):
        raise Failure("the platform is not one")
    return words, have, version, platform


# ---- the profile's directory -------------------------------------------------------------------------------------


class Place:
    """STORE/.installed/PROFILE: sets/SET, which sandboxes see; index/SET.json; requests/KEY.json; work/."""

    def __init__(self, store, profile):
        self.top = os.path.join(store, ".installed", profile)
        for folder in (store, os.path.join(store, ".installed"), self.top):
            self.check(folder)
        for name, mode in (("sets", 0o311), ("index", 0o700), ("requests", 0o700), ("work", 0o700)):
            setattr(self, name, os.path.join(self.top, name))
            try:
                os.mkdir(getattr(self, name), mode)
            except FileExistsError:
                self.check(getattr(self, name))

    @staticmethod
    def check(folder):
        """Who could write there could put code into every session."""
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Failure("%s must be a directory of the user that images belong to, to which no other user can write" % folder)

    def lock(self, name, at=0):
        """Of one byte of a file. Held until this process ends, or closes the descriptor."""
        fd = create_fd(os.path.join(self.top, "lock-" + name), 0)
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, at)
        return fd

    def read(self, folder, name):
        return read_json(os.path.join(folder, name + ".json"))

    def write(self, folder, name, value):
        write_json(os.path.join(folder, name + ".json"), value)

    def find(self, key):
        """The answer to a request that was resolved not long ago, if its set is still there."""
        known = self.read(self.requests, key)
        if not known or not -60 < time.time() - known["at"] < YOUNG_S:
            return None
        if known["set"] and not self.touch(known["set"]):
            return None
        return {"set": known["set"], "packages": known["packages"]}

    def touch(self, name):
        """Notes that a set is used. False: it is not there."""
        try:
            os.utime(os.path.join(self.index, name + ".json"))
            return stat.S_ISDIR(os.lstat(os.path.join(self.sets, name)).st_mode)
        except OSError:
            return False

    def make_room(self, needed, most):
        """Removes the sets that were not asked for for the longest time, but none of the last day."""
        known = []
        for file in os.listdir(self.index):
            found = os.lstat(os.path.join(self.index, file))
            if file.endswith(".json") and stat.S_ISREG(found.st_mode):
                described = self.read(self.index, file[:-5]) or {}
                known.append((found.st_mtime, file[:-5], int(described.get("bytes", 0))))
        total = needed + sum(size for _, _, size in known)
        for at, name, size in sorted(known):
            if total <= most:
                return
            if time.time() - at < YOUNG_S:
                break
            self.remove(name)
            total -= size
        if total > most:
            raise Failure("the packages of this profile would take %s, and %s is the most (four times packages.max_size): sets "
                          "without a request for a day are removed, and so does cloister image prune"
                          % (readable(total), readable(most)))

    def add(self, name, stage, described, size, settings):
        """Makes a directory a set. size: the bytes that there must be room for."""
        held = self.lock("room")
        self.make_room(size, SETS_BYTES * settings["max_bytes"])
        self.write(self.index, name, described)
        try:
            os.rename(stage, os.path.join(self.sets, name))
        except OSError:
            if not self.touch(name):
                raise
        os.close(held)

    def remove(self, name):
        os.unlink(os.path.join(self.index, name + ".json"))
        away = os.path.join(self.work, "old-" + name)
        try:
            os.rename(os.path.join(self.sets, name), away)
        except FileNotFoundError:
            return
        remove_tree(away)

    def clean(self):
        """What killed installers left. Their work has locks of its own: an hour is longer than any of them runs."""
        for folder, age, remove in ((self.work, 2 * 3600, remove_tree), (self.requests, YOUNG_S, os.unlink)):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                try:
                    if time.time() - os.lstat(path).st_mtime > age:
                        remove(path)
                except OSError:
                    pass


def remove_tree(path):
    shutil.rmtree(path, ignore_errors=True)


# ---- the installation --------------------------------------------------------------------------------------------


def write_lines(path, lines):
    with create(path, "w") as f:
        f.write("".join(line + "\n" for line in lines))


def resolve_for_session(installer, words, pins, allowed, temporary):
    """Fetches wheels; pins: what the session has, as constraints."""
    constraints, file = os.path.join(temporary, "constraints.txt"), os.path.join(temporary, "requirements.txt")
    bounds = ["%s%s" % (name, specifiers) for name, specifiers in (allowed or {}).items() if specifiers]
    write_lines(constraints, bounds + ["%s==%s" % pair for pair in pins.items()])
    write_lines(file, ["-c constraints.txt"] + ["%s%s%s%s" % word for word in words])
    again = os.path.join(temporary, "fetched")
    shutil.rmtree(again, ignore_errors=True)
    return installer.fetch([], [file], {}, temporary)


def fetch_for_session(installer, words, have, allowed, temporary):
    asked = {canonical(word[0]) for word in words}
    pins = {name: version for name, version in have.items() if name not in asked and name not in ("pip", "setuptools", "wheel")}
    try:
        return resolve_for_session(installer, words, pins, allowed, temporary)
    except Late:
        raise
    except Failure as failure:
        # Perhaps only because of what the session has: then a newer version is beside it.
        if not pins or guard.is_full or "can't be reached" in str(failure) or "certificate" in str(failure):
            raise
        return resolve_for_session(installer, words, {}, allowed, temporary)


def choose_installer(request, cache, settings):
    if settings.get("exclude_newer"):
        request["installer"] = "uv"
    try:
        return choose(request, cache)
    except Failure:
        if not settings.get("exclude_newer"):
            raise
        raise Failure("packages.exclude_newer in the config needs uv, which is not in PATH")


def make_set(place, packages, cache, temporary, compiles, settings):
    digest = hashlib.sha256(json.dumps([FORMAT, compiles, sorted((p["sha256"], p["file"]) for p in packages)]).encode())
    name = digest.hexdigest()[:32]
    described = [{key: package[key] for key in ("name", "version", "sha256")} for package in packages]
    if place.touch(name):
        return name, described
    stage = os.path.join(temporary, "set")
    os.mkdir(stage)
    paths = [cache.path(package) for package in packages]

    def unpack_all():
        left = settings["max_bytes"]
        for path in paths:
            left -= unpack(path, stage, left)
        return settings["max_bytes"] - left

    say("unpacking %d package%s" % (len(packages), "s"[:len(packages) != 1]))
    size = in_child(unpack_all, 300)
    if size is None:
        raise Failure("the wheels can't be unpacked: they need too much memory or time")
    if compiles:
        in_child(lambda: compile_set(stage, name, size), 300)
    for folder, _, _ in os.walk(stage):
        os.chmod(folder, 0o755)
    place.add(name, stage, {"packages": described, "bytes": 2 * size if compiles else size}, 2 * size, settings)
    return name, described


def install_in(store, settings, line):
    global guard

    words, have, version, platform = read_request(line)
    allowed = read_allowed(settings)
    check_allowed([word[0] for word in words], allowed, settings["profile"])
    place = Place(store, settings["profile"])
    index = (os.environ.get(INDEX_VARIABLE) or os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX")
             or os.environ.get("UV_INDEX_URL") or "https://pypi.org/simple")
    key = hashlib.sha256(json.dumps([sorted(words), sorted(have.items()), version, platform, index, sorted((allowed or {}).items()),
                                     settings.get("exclude_newer"), settings["max_bytes"]]).encode()).hexdigest()[:32]
    answer = place.find(key)
    if answer:
        return answer
    held = place.lock("requests", int(key[:15], 16))  # of the same request, the second one waits and finds what the first one has made
    answer = place.find(key)
    if answer:
        return answer
    place.clean()
    own = "%d.%d" % sys.version_info[:2]
    is_own = version.startswith(own + ".") and platform == own_platform()
    with tempfile.TemporaryDirectory(dir=place.work) as temporary:
        guard = Guard(settings, temporary, index, have)
        os.mkdir(os.path.join(temporary, "cache"))
        cache = Cache(os.path.join(temporary, "wheels"))
        request = {"version": version, "platform": platform, "with": [], "python": sys.executable if is_own else None}
        installer = choose_installer(request, cache, settings)
        say("resolving with %s" % installer.name)
        packages = fetch_for_session(installer, words, have, allowed, temporary)
        if guard.used() > guard.most:
            raise Failure(guard.TOO_LARGE)
        packages = sorted((p for p in packages if not guard.has(p["name"], p["version"])), key=lambda p: p["name"])
        for package in packages:
            if allowed and allowed.get(package["name"]) and not fits(package["version"], allowed[package["name"]]):
                raise Failure("%s %s is not allowed: packages.allow in the config has %s%s"
                              % (package["name"], package["version"], package["name"], allowed[package["name"]]))
        name, described = make_set(place, packages, cache, temporary, is_own, settings) if packages else ("", [])
    place.write(place.requests, key, {"at": time.time(), "set": name, "packages": described})
    os.close(held)
    return {"set": name, "packages": described}


def own_platform():
    try:
        kind, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        return "manylinux_" + "_".join(version.split(".")[:2]) if kind == "glibc" else ""
    except (ValueError, OSError, AttributeError):
        return ""


def on_alarm(number, frame):
    raise Late("the packages were not installed in time: packages.timeout in the config")


def install_for_session(asked):
    warnings.simplefilter("ignore")
    os.umask(0o022)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    settings = json.loads(os.environ[PACKAGES_VARIABLE])
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, settings["timeout_ms"] / 1000)
    try:
        install = install_npm_in if settings.get("language") == "javascript" else install_in
        answer = install(asked["store"], settings, sys.stdin.readline(REQUEST_MAX + 1))
    except Failure as failure:
        answer = {"error": str(failure)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        place = getattr(error, "filename", None)
        answer = {"error": "packages: %s%s" % ("%s: " % place if place else "", getattr(error, "strerror", None) or type(error).__name__)}
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(answer), flush=True)


main()
