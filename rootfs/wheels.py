# Continues packages.py, in the same program: unpacks wheels of strangers into a directory that sandboxes see, as data.
import resource
import signal
import zipfile

ENTRIES_MAX, DEPTH_MAX, PATH_MAX = 100_000, 64, 1000  # of a wheel
ENTRY_BYTES = 4096  # that a file or a directory takes besides its contents, which may be empty
TOO_LARGE = "unpacked, the packages take more than packages.max_size in the config allows"
MEMORY_MAX = 1 << 30  # address space of the process that unpacks
TARGET = "/run/packages"


def member_parts(name, is_plain, package):
    """The names in the path of an archive's member. A hostile path, or a member that is not a plain file or a directory, is an error."""
    if not is_plain:
        raise Failure("%s has a link or device in it (%.100r)" % (package, name))
    parts = name.rstrip("/").split("/")
    if (len(name) > PATH_MAX or len(parts) > DEPTH_MAX or "\\" in name or any(ord(c) < 32 or ord(c) == 127 for c in name)
            or any(part in ("", ".", "..") or len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts)):
        raise Failure("%s has a member that would be put elsewhere (%.100r)" % (package, name))
    return parts


def write_member(source, size, target, is_program, total, left):
    """Copies a member of `size` bytes, as its archive says, to a file. Returns the sum of bytes with it. A file that exists is replaced."""
    if total + size > left:
        raise Failure(TOO_LARGE)
    if os.path.lexists(target):
        os.unlink(target)
    with create(target, "xb") as f, source:
        for chunk in iter(lambda: source.read(1 << 20), b""):
            total += len(chunk)
            if total > left:
                raise Failure(TOO_LARGE)
            f.write(chunk)
        os.fchmod(f.fileno(), 0o755 if is_program else 0o644)
    return total


def inner_path(info, wheel):
    """Where a member goes in a set, as a list of names; None: nowhere."""
    is_plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
    parts = member_parts(info.filename, is_plain, wheel)
    if parts[0].endswith(".data") and len(parts) > 2:
        if parts[1] in ("purelib", "platlib"):
            return parts[2:]
        return ["bin"] + parts[2:] if parts[1] == "scripts" else None
    return None if parts[0].endswith(".data") else parts


def unpack(path, stage, left):
    """Returns the number of bytes. A file that another wheel has put there is replaced, as installers do."""
    wheel, seen, total, folders = os.path.basename(path), set(), 0, set()
    with zipfile.ZipFile(path) as z:
        members = z.infolist()
        if len(members) > ENTRIES_MAX:
            raise Failure("%s has more than %d files" % (wheel, ENTRIES_MAX))
        infos = {m.filename.split("/")[0] for m in members if m.filename.split("/")[0].endswith(".dist-info")}
        expected = canonical(wheel.split("-")[0])
        if len(infos) != 1 or canonical(next(iter(infos))[:-len(".dist-info")].split("-")[0]) != expected:
            raise Failure("%s is not the package that it is called" % wheel)
        for member in members:
            parts = inner_path(member, wheel)
            if parts is None or member.is_dir():
                continue
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
                raise Failure("%s is packed in a way that wheels are not" % wheel)
            target = os.path.join(stage, *parts)
            if target in seen:
                raise Failure("%s has a file twice (%.100r)" % (wheel, member.filename))
            seen.add(target)
            total += ENTRY_BYTES * (1 + make_folders(stage, parts[:-1], folders))
            is_program = os.path.basename(os.path.dirname(target)) == "bin" or member.external_attr >> 16 & 0o111
            total = write_member(z.open(member), member.file_size, target, is_program, total, left)
    return total


def make_folders(stage, parts, known):
    """Returns how many are new. known: paths that exist."""
    new = 0
    for n in range(1, len(parts) + 1):
        path = os.path.join(stage, *parts[:n])
        if path in known:
            continue
        known.add(path)
        try:
            os.mkdir(path, 0o755)
            new += 1
        except FileExistsError:
            pass
    return new


def compile_set(stage, name, left):
    """Compiles sources that imports need; what cannot be compiled is left to the session, and what would take more than `left`
    bytes: the constants of a source can be much larger than it. Nothing of it is executed."""
    import py_compile

    resource.setrlimit(resource.RLIMIT_FSIZE, (left, left))
    for folder, folders, files in os.walk(stage):
        folders[:] = [one for one in folders if one not in ("tests", "test", "__pycache__", "bin")]
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                try:
                    compiled = py_compile.compile(path, dfile=TARGET + "/" + name + path[len(stage):], doraise=True, quiet=2,
                                                  invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                except Exception:
                    continue
                size = ENTRY_BYTES + os.lstat(compiled).st_size
                if size > left:
                    os.unlink(compiled)
                else:
                    left -= size
    for folder, folders, files in os.walk(stage):
        os.chmod(folder, 0o755)
        for file in files:
            if file.endswith(".pyc"):
                os.chmod(os.path.join(folder, file), 0o644)


def in_child(function, seconds):
    """Runs a function that reads what strangers wrote in a process of bounded memory and time. Returns what it returns, which
    JSON must represent; None if the process ended without one."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.close(read_end)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                answer = {"is": function()}
            except Failure as failure:
                answer = {"failed": str(failure)}
            except (OSError, zipfile.BadZipFile, ValueError, EOFError, RuntimeError, zipfile.zlib.error) as error:
                answer = {"failed": "a wheel can't be unpacked: %.200s" % error}
            with open(write_end, "w") as f:
                json.dump(answer, f)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    try:
        with open(read_end) as f:
            text = f.read(65536)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.waitpid(pid, 0)
    answer = json.loads(text) if text else {}
    if "failed" in answer:
        raise Failure(answer["failed"])
    return answer.get("is")
