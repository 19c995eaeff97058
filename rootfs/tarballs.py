# Continues packages.py, in the same program: unpacks packages of npm, tar archives of strangers, as data. All members of an
# archive are in one directory, whose name does not matter ("package").
import gzip
import tarfile
import zlib

TAR_FAULTS = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError, UnicodeError)


def tar_path(member, package):
    """Where a member goes in its package, as a list of names; []: nowhere."""
    parts = member_parts(member.name, member.isreg() or member.isdir(), package)
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
            target = os.path.join(stage, *parts, *inner)
            total = write_member(archive.extractfile(member), member.size, target, member.mode & 0o111, total, left)
        rest = 0
        for chunk in iter(lambda: stream.read(1 << 16), b""):  # at its end is the checksum
            rest += len(chunk)
            if rest > left:
                raise Failure(TOO_LARGE)
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
