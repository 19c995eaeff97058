"""What the sandbox forbids, in one line, for an exception that it caused: asked for after an error only.

The text is added to the exception's message in the result. The exception itself is unchanged.
"""

import errno
import os
import re

from cloister.distributions import distribution_of

CHAIN_MAX = 16

_NETWORK = (
    "this sandbox has no network: data from outside comes through tools, which _search(\"words\") finds, or as files that "
    "the user gives, who can also allow hosts with --network HOST, or network in the config"
)
# In a profile that allows a network. The supervisor reports refused host names.
_BY_PROXY = (
    "programs reach the network only by the proxy that HTTPS_PROXY names, as requests, httpx, urllib, curl and git do (aiohttp: "
    "trust_env=True); names are looked up there, not in the sandbox"
)
_PRIVILEGES = "the sandbox allows no such system call: code has no privileges, and no device or mount can be made here"
_PROCESSES = (
    "a session can have a limited number of processes and threads, limits.pids in the config: use fewer workers; "
    "without a control group also 16 sessions of processes (os.setsid(), start_new_session=True)"
)
_MEMORY = (
    "a session's memory is limited, limits.memory in the config: delete what is not needed any more, or work in pieces"
)
_AWAIT = "a tool, or another async function, was called without await: write await before the call"
_STDIN = "there is no standard input, so input() cannot be answered. Put the value into the code"
_HOST = ("/home/", "/Users/", "/root/", "/mnt/", "/media/")
_OURS = ("/dev/", "/etc/", "/proc/", "/run/", "/sys/", "/tmp/", "/usr/", "/var/", "/workspace/")
_FILES = "code sees no files of the user's machine, only /workspace and what is mounted: ask for the file; files for the user go to /workspace/out"
_LISTED_MAX, _NAME_MAX = 10, 60
# Of libraries that give no errno.
_UNFOUND = r"(?:[Nn]o such file or directory[^:]*: |No files found that match the pattern )?['\"]?([^'\":\n]*?\.\w{1,8}|/[^'\":\n]+)['\"]?(?: not found|$|\n)"
_TMPFS = (("/workspace", "limits.workspace"), ("/tmp", "limits.tmp"), ("/dev/shm", "limits.shm"))
_UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
_REFUSED = (errno.EPERM, errno.ENOSYS)


def denial(error):
    """What the sandbox forbids if that is why this exception, or one that it was raised from, was raised; else ""."""
    try:
        for one in _chain(error):
            text = _of_one(one)
            if text:
                return text
    except Exception:
        pass  # the guest's changes broke what this needs
    return ""


def _chain(error):
    seen = []
    while error is not None and len(seen) < CHAIN_MAX and not any(error is other for other in seen):
        seen.append(error)
        yield error
        error = error.__cause__ or _context(error)


def _context(error):
    """The exception that was handled when this one was raised, unless this is likely another mistake."""
    if error.__suppress_context__:
        return None
    is_library = type(error).__module__ != "builtins" or isinstance(error, (OSError, RuntimeError))
    return error.__context__ if is_library else None


# Lines of notebooks that are not Python: (how the line begins, what to write instead).
_MAGICS = (
    (r"(%|!)\s*(pip3?|uv)\b", "the only supported form of pip, on its own line: %pip install NAME"),
    (r"(%|!)\s*(conda|mamba|apt|apt-get)\b", "not available here; a Python package: %pip install NAME, where the config allows it"),
    (r"%%?(timeit|time)\b", "this magic needs code: %timeit f(x), or on the first line of a cell %%time"),
    (r"%%?(script|system|sx)\b", "write: import subprocess; subprocess.run(…, shell=True, capture_output=True, text=True)"),
    (r"%run\b", "write: import runpy; globals().update(runpy.run_path(…))"),
    (r"%(who|whos|who_ls)\b", "magics of IPython are not available: dir() lists the names"),
    (r"%%?writefile\b", "write: open(…, 'w').write(…)"),
    (r"%%?\w", "magics of IPython are not available, besides %time, %timeit, %%capture, %env, %cd, %pwd and %%bash: write it in Python"),
    (r"!", "write: import subprocess; print(subprocess.run(…, shell=True, capture_output=True, text=True).stdout)"),
    (r"\?|[\w.\[\]\"']+\s*\?\??\s*$", "write help(…), or for a tool _schema(…)"),
)


def _of_syntax(error):
    line = (error.text or "").strip()
    for pattern, text in _MAGICS:
        if re.match(pattern, line):
            return text
    return ""


def _of_one(error):
    if isinstance(error, SyntaxError):
        return _of_syntax(error)
    if isinstance(error, OSError):
        return _of_os_error(error)
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, RuntimeError) and str(error).startswith("can't start new thread"):
        return _PROCESSES
    if isinstance(error, EOFError) and str(error) == "EOF when reading a line":
        return _STDIN
    if isinstance(error, NameError) and getattr(error, "name", None) == "__file__":
        return "a cell is not a file: the directory of the session's files is /workspace"
    if isinstance(error, (TypeError, AttributeError)) and re.search(r"\bcoroutine\b", str(error)):
        return _AWAIT
    return _of_child(error)


def _of_os_error(error):
    if type(error).__module__ == "ssl":
        return ""  # its errno is a number of OpenSSL
    number = error.errno
    place = _place(error)
    if number is None and isinstance(error, FileNotFoundError):
        return _of_message(str(error))
    if type(error).__name__ == "gaierror" or number in _UNREACHABLE:
        return _network()
    if number in _REFUSED:
        return _network() if _is_of(place, "socket") else _PRIVILEGES
    if number == errno.ECONNREFUSED:
        return "127.0.0.1 is the sandbox's own: programs of the host can't be reached"
    if number == errno.EROFS:
        return "code can write only below /workspace and /tmp; files for the user go to /workspace/out"
    if number == errno.ENOSPC:
        return _full()
    if number == errno.EAGAIN and _forks(error, place):
        return _PROCESSES
    if number == errno.ENOMEM:
        return _MEMORY
    if number == errno.EMFILE:
        return "a process can have a limited number of open files: close some"
    if number == errno.ENOLCK:
        return (
            'a session can lock files of its own in /workspace, /tmp and /dev/shm, and of a mount with "locks": true in the config; '
            "it can have 4,096 locks at one time, 256 of them byte ranges in such mounts"
        )
    if number == errno.ENOENT:
        return _absent(error, place)
    return ""


def _network():
    return _BY_PROXY if _has_proxy() else _NETWORK


def _has_proxy():
    return bool(os.environ.get("HTTPS_PROXY"))


def _place(error):
    """The innermost frame, or None."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return None if tb is None else tb.tb_frame


def _is_of(frame, *modules):
    return frame is not None and frame.f_globals.get("__name__") in modules


def _forks(error, place):
    """EAGAIN is also what a descriptor that does not block says."""
    if _is_of(place, "subprocess", "multiprocessing.popen_fork", "multiprocessing.util", "pty"):
        return True
    return place is not None and not {"fork", "posix_spawn", "posix_spawnp", "setsid"}.isdisjoint(place.f_code.co_names)


def _full():
    for path, setting in _TMPFS:
        try:
            room = os.statvfs(path)
        except OSError:
            continue
        size = room.f_blocks * room.f_frsize
        if size and (room.f_bavail * room.f_frsize < size // 64 or room.f_files and not room.f_favail):
            return "%s is full: it has %s, %s in the config; remove files there" % (path, _size(size), setting)
    return "a directory of the sandbox is full: /workspace, /tmp and /dev/shm are limited, limits.workspace in the config"


def _size(n):
    return "%d MiB" % (n >> 20) if n >= 1 << 20 else "%d KiB" % (n >> 10)


def _absent(error, place):
    name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    if _is_of(place, "subprocess") and name and "/" not in name:
        return "the image has no program %s: do it in Python, or have an image built that has it (cloister image build)" % name[:100]
    return _of_path(name) if name else ""


def _of_path(name):
    """For a file that does not exist."""
    if name[1:3] == ":\\" or name.startswith(("~", "\\\\")):
        return _FILES
    if name.startswith("/"):
        top = name[: name.find("/", 1) + 1] or name + "/"
        is_strange = name.startswith(_HOST) or not name.startswith(_OURS) and not os.path.isdir(top)
        return _FILES if is_strange else ""
    return "relative names are of %s, %s; files of the user are in /workspace" % (os.getcwd(), _listed("."))


def _listed(folder):
    names = sorted(name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…" for name in os.listdir(folder))
    if not names:
        return "which is empty"
    more = len(names) - _LISTED_MAX
    return "which has %s%s" % (", ".join(names[:_LISTED_MAX]), " and %d more" % more if more > 0 else "")


def _of_message(text):
    found = re.search(_UNFOUND, text[:1000])
    return _of_path(found[1]) if found else ""


def _of_child(error):
    kind = type(error)
    if kind.__module__.partition(".")[0] in ("duckdb", "_duckdb") and "No files found" in str(error):
        return _of_message(str(error).partition("No files found")[2])
    if kind.__name__ == "BrokenProcessPool":
        return "a process of the pool was killed, most often because memory is limited (limits.memory in the config)"
    if kind.__name__ != "CalledProcessError" or kind.__module__ != "subprocess":
        return ""
    if error.returncode == -9:
        return "the process was killed, most often because memory is limited (limits.memory in the config)"
    if error.returncode == -31:
        return _PRIVILEGES
    command = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd))
    if re.search(r"\b(pip|pip3|uv|conda|apt|apt-get|npm|curl|wget|git clone)\b", command[:1000]):
        return "" if _has_proxy() else _NETWORK
    return ""


# ---- names that are not modules ------------------------------------------------------------------------------------


def own_name(name):
    """For an import of a name that Cloister defines: how it is used; "" for any other."""
    try:
        return _own_name(name)
    except Exception:
        return ""


def _own_name(name):
    if name == "tools":
        return 'tools is defined in every cell and is not a module: await tools["NAME"](…)'
    if name in ("display", "_search", "_discover", "_schema"):
        return "%s() is defined in every cell and is not a module. To use it in a module: from cloister import display" % name
    import cloister

    library = cloister.tools._library.current()
    if name.startswith("mcp_"):
        return _server(name, library)
    if name in library.names and distribution_of(name) is None:
        return "%s is a tool, defined in every cell: await %s(…)" % (name, name)
    return ""


def _server(name, library):
    from cloister.names import server_identifiers

    known = [one for server in library.servers for one in server_identifiers(server)]
    if name in known:
        return "%s is defined in every cell and is not a module: await %s.NAME(…)" % (name, name)
    if not known:
        return "an MCP server of the config has such a name, but there is none"
    return "no MCP server has this name; there is %s" % ", ".join(known[:10])
