# Continues packages.py, in the same program: unpacks packages of npm, tar archives of strangers, as data. All members of an
# archive are in one directory, whose name does not matter ("package").
import gzip
import tarfile
import zlib

TAR_FAULTS = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError, UnicodeError)


def tar_path(member, package):
    """Where a member goes in its package, as a list of names; []: nowhere. A hostile name is an error."""
    name = member.name
    if not (member.isreg() or member.isdir()):
        raise Failure("%s has a link or device in it (%.100r)" % (package, name))
    parts = name.rstrip("/").split("/")
    if (len(name) > PATH_MAX or len(parts) > DEPTH_MAX or "\\" in name or any(ord(c) < 32 or ord(c) == 127 for c in name)
            or any(part in ("", ".", "..") or len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts)):
        raise Failure("%s has a member that would be put elsewhere (%.100r)" % (package, name))
    return parts[1:] if member.isreg() else []


def unpack_tarball(path, package, stage, parts, left):
    """Unpacks below stage/parts and returns the number of bytes. left: how many there may be."""
    total, n, folders = 0, 0, set()
    with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
        total += ENTRY_BYTES * make_folders(stage, parts, folders)
        for member in archive:
            archive.members = []  # it would keep all of them
            n += 1
            if n > ENTRIES_MAX:
                raise Failure("%s has more than %d files" % (package, ENTRIES_MAX))
            inner = tar_path(member, package)
            if not inner:
                continue
            total += ENTRY_BYTES * (1 + make_folders(stage, parts + inner[:-1], folders))
            total = write_tar_member(archive, member, os.path.join(stage, *parts, *inner), total, left)
        rest = 0
        for chunk in iter(lambda: stream.read(1 << 16), b""):  # at its end is the checksum
            rest += len(chunk)
            if rest > left:
                raise Failure(TOO_LARGE)
    return total


def write_tar_member(archive, member, target, total, left):
    if total + member.size > left:
        raise Failure(TOO_LARGE)
    if os.path.lexists(target):
        os.unlink(target)
    with create(target, "xb") as f, archive.extractfile(member) as source:
        for chunk in iter(lambda: source.read(1 << 20), b""):
            total += len(chunk)
            if total > left:
                raise Failure(TOO_LARGE)
            f.write(chunk)
        os.fchmod(f.fileno(), 0o755 if member.mode & 0o111 else 0o644)
    return total


def unpack_tarballs(cache, packages, stage, left):
    """Those with a shorter path first: a package that another one brings along is replaced by the one that was resolved."""
    most = left
    for package in sorted(packages, key=lambda package: (package["path"].count("/"), package["path"])):
        try:
            left -= unpack_tarball(cache.path(package), package["name"], stage, ["node_modules", *package["path"].split("/")], left)
        except TAR_FAULTS as error:
            raise Failure("%s is not an archive of npm, or is damaged (%.200s)" % (package["name"], error))
    return most - left
