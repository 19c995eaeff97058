"""Files of /workspace: lists the files in /workspace/out, and reads and writes files for the broker.

Each component of a path is opened relative to the descriptor of the previous component, and no symbolic link is followed, so
that every file is below /workspace.
"""

import os
from binascii import a2b_base64, b2a_base64
from os import O_CLOEXEC, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY, close
from os import fstat, mkdir, pread, pwrite, scandir, strerror
from os import open as os_open
from stat import S_ISDIR, S_ISREG

from cloister.frames import PUT
from cloister.json_codec import decode, encode_own, printable

ROOT = "/workspace"
OUT = "out"
MAX_NAMED = 100  # in a result
MAX_ENTRIES = 10_000  # that a walk visits
MAX_DEPTH = 16
MAX_PATH = 255  # bytes
MAX_CHUNK = 1024 * 1024

_DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
_types = None


def mime_type_of(path):
    """The MIME type, from the file name only."""
    global _types
    if _types is None:
        import mimetypes

        _types = mimetypes.MimeTypes([name for name in mimetypes.knownfiles if os.path.exists(name)])
        for name, kind in (("md", "text/markdown"), ("webp", "image/webp"), ("parquet", "application/vnd.apache.parquet")):
            _types.add_type(kind, "." + name)
    kind, encoding = _types.guess_type("x" + os.path.basename(path).replace(":", "_"))
    if encoding is not None:
        return "application/gzip" if encoding == "gzip" else "application/octet-stream"
    return (kind or "application/octet-stream").lower()


def is_shown(path):
    """Whether a result can name it: UTF-8, without control characters and those that turn the direction, not too long."""
    try:
        data = path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return len(data) <= MAX_PATH and not any(
        c < " " or "\x7f" <= c < "\xa0" or "\u2028" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in path
    )


class Files:
    def __init__(self, core, root=ROOT):
        self._core = core
        self._root = root
        self._out = os.path.join(root, OUT)
        self._out_bytes = os.fsencode(self._out)
        self._known = {}  # path -> key of the file's last version
        self._kept = 0

    def changed(self):
        """Returns (descriptions of the files created or changed since the last call, sorted, at most MAX_NAMED; the
        number of such files). If the walk reached a limit, the number is one larger."""
        if not self._known and self._core.is_empty(self._out_bytes):
            return [], 0  # the usual case: nothing has to be opened
        found, cut = self._walk()
        before, self._known = self._known, {path: key for path, (key, size) in found.items()}
        new = [path for path, key in self._known.items() if before.get(path) != key]
        return self._named(new, found, MAX_NAMED), len(new) + cut

    def all(self, limit):
        found, cut = self._walk()
        return self._named(found, found, limit), len(found) + cut

    @staticmethod
    def _named(paths, found, limit):
        named = sorted(path for path in paths if is_shown(path))[:limit]
        return [{"path": path, "size": found[path][1], "mime": mime_type_of(path)} for path in named]

    def _walk(self):
        """Returns ({path: (key, size)}, 1 if the walk reached a limit, else 0)."""
        found = {}
        left = [MAX_ENTRIES]
        try:
            fd = os_open(self._out, _DIRECTORY)
        except OSError:
            return found, 0
        try:
            whole = self._walk_into(fd, "", 0, found, left)
        finally:
            close(fd)
        return found, 0 if whole else 1

    def _walk_into(self, fd, prefix, depth, found, left):
        whole = True
        with scandir(fd) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    return False
                try:
                    if entry.is_dir(follow_symlinks=False):
                        whole = self._walk_below(fd, entry.name, prefix, depth, found, left) and whole
                        continue
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if S_ISREG(about.st_mode):
                    key = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
                    found[prefix + entry.name] = (key, about.st_size)
        return whole

    def _walk_below(self, fd, name, prefix, depth, found, left):
        if depth == MAX_DEPTH:
            return False
        below = os_open(name, _DIRECTORY, dir_fd=fd)
        try:
            return self._walk_into(below, "%s%s/" % (prefix, name), depth + 1, found, left)
        finally:
            close(below)

    def keep(self, mime, data):
        """Writes data that could not be shown to a file below out/. Returns its path, or None."""
        import mimetypes

        extension = mimetypes.guess_extension(mime) or ".bin"
        for _ in range(100):
            self._kept += 1
            path = os.path.join(self._out, "large-%d%s" % (self._kept, extension))
            try:
                with open(path, "xb") as file:
                    file.write(data)
                return path
            except FileExistsError:
                continue
            except OSError:
                return None
        return None

    def answer(self, kind, payload):
        """The payload of the DATA frame that answers a FETCH or a PUT."""
        try:
            if payload is None:
                raise MemoryError
            request = decode(payload)
            if kind == PUT:
                return self._put(request)
            if "path" in request and "list" in request:
                return self._list(request["path"], request["list"])
            if "list" in request:
                files, total = self.all(request["list"])
                return encode_own({"ok": True, "files": files, "files_total": total})
            return self._fetch(request)
        except MemoryError:
            return b'{"ok":false,"error":"the sandbox is out of memory"}'
        except OSError as error:
            reason = strerror(error.errno) if error.errno else str(error)
            problem = "%s: %s" % (request.get("path", OUT), reason)
        except Exception as error:
            problem = "%s: %s" % (type(error).__name__, error)
        return encode_own({"ok": False, "error": printable(problem)})

    def _open_parent(self, path, make_directories=False):
        """(descriptor of the directory in which the path ends, its last component)."""
        *parents, name = path.split("/")
        fd = os_open(self._root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try:
            for parent in parents:
                if make_directories:
                    try:
                        mkdir(parent, 0o755, dir_fd=fd)
                    except FileExistsError:
                        pass
                below = os_open(parent, _DIRECTORY, dir_fd=fd)
                close(fd)
                fd = below
        except BaseException:
            close(fd)
            raise
        return fd, name

    def _open(self, path, flags, make_directories=False):
        """Opens a regular file below the root."""
        fd, name = self._open_parent(path, make_directories)
        try:
            opened = os_open(name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o644, dir_fd=fd)
        finally:
            close(fd)
        if not S_ISREG(fstat(opened).st_mode):
            close(opened)
            raise ValueError("%s is not a regular file" % path)
        return opened

    def _list(self, path, limit):
        """Files below a directory, as paths relative to it; or what else the path is."""
        kind, fd = "directory", -1
        try:
            if path:
                parent, name = self._open_parent(path)
                try:
                    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                    kind = "directory" if S_ISDIR(mode) else "file" if S_ISREG(mode) else "other"
                    fd = os_open(name, _DIRECTORY, dir_fd=parent) if kind == "directory" else -1
                finally:
                    close(parent)
            else:
                fd = os_open(self._root, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            kind = "absent"
        found, whole = {}, True
        if fd >= 0:
            try:
                whole = self._walk_into(fd, "", 0, found, [MAX_ENTRIES])
            finally:
                close(fd)
        files = self._named(found, found, limit)
        return encode_own({"ok": True, "kind": kind, "files": files, "files_total": len(found) + (not whole)})

    def _fetch(self, request):
        offset, length = request["offset"], min(request["length"], MAX_CHUNK)
        fd = self._open(request["path"], O_RDONLY)
        try:
            data = pread(fd, length, offset)
            about = fstat(fd)
        finally:
            close(fd)
        end = not data or offset + len(data) >= about.st_size
        version = "%x-%x-%x" % (about.st_ino, about.st_mtime_ns, about.st_size)
        return b'{"ok":true,"data":"%b","size":%d,"eof":%b,"version":"%b"}' % (
            b2a_base64(data, newline=False),
            about.st_size,
            b"true" if end else b"false",
            version.encode(),
        )

    def _put(self, request):
        offset, data = request["offset"], a2b_base64(request["data"])
        if request.get("discard"):
            return self._discard(request["path"])
        self.write(request["path"], data, offset)
        if "to" in request:
            self._rename(request["path"], request["to"])
        return b'{"ok":true}'

    def write(self, path, data, offset=0):
        """path: below the root. Without an offset the file is new, or becomes so."""
        fd = self._open(path, O_WRONLY | O_CREAT | (0 if offset else O_TRUNC), True)
        try:
            view = memoryview(data)
            while view:
                written = pwrite(fd, view, offset)
                view = view[written:]
                offset += written
        finally:
            close(fd)

    def _rename(self, path, to):
        """Gives a file its name, and replaces a file of that name."""
        source, old = self._open_parent(path)
        try:
            target, new = self._open_parent(to, True)
            try:
                os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
            finally:
                close(target)
        finally:
            close(source)

    def _discard(self, path):
        parent, name = self._open_parent(path)
        try:
            os.unlink(name, dir_fd=parent)
        finally:
            close(parent)
        return b'{"ok":true}'
