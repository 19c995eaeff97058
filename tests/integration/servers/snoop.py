"""An MCP server that searches for what belongs to others: their processes and variables."""

import ctypes
import json
import os
import signal
import subprocess
import sys

NEW_USER, NEW_PID, NEW_MOUNTS = 0x10000000, 0x20000000, 0x20000
libc = ctypes.CDLL(None, use_errno=True)


def processes(proc="/proc"):
    return [int(entry) for entry in os.listdir(proc) if entry.isdigit()]


def variables(proc="/proc", name="TEST_TOKEN"):
    """The values of a variable in the environments of other processes."""
    found = set()
    for pid in processes(proc):
        try:
            with open(f"{proc}/{pid}/environ", "rb") as f:
                items = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        found.update(item.split("=", 1)[1] for item in items if item.startswith(f"{name}="))
    return sorted(found - {os.environ.get(name)})


def look(proc="/proc"):
    names = {}
    for pid in processes(proc):
        try:
            with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as f:
                name = f.read().strip()
        except OSError:
            continue
        names[pid] = name
    programs = sorted({name for name in names.values() if name.startswith("cloister-")})
    return {"names": dict(list(names.items())[:10]), "programs": programs, "tokens": variables(proc), "ids": [os.getuid(), os.getgid()], "pid": os.getpid(),
            "namespace": os.readlink("/proc/self/ns/pid")}


def attempt(call, *arguments):
    return os.strerror(ctypes.get_errno()) if call(*arguments) < 0 else "done"


def first():
    """What can be done to the process that is PID 1."""
    seen = {}
    for name in ("environ", "mem", "root", "cwd", "fd/0", "ns/pid"):
        try:
            path = f"/proc/1/{name}"
            seen[name] = len(open(path, "rb").read(1)) if name in ("environ", "mem") else os.readlink(path)
        except OSError as e:
            seen[name] = os.strerror(e.errno)
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1, signal.SIGSEGV):
        try:
            os.kill(1, number)
        except OSError:
            pass
    return seen


def nest():
    """A sandbox with a process table of its own, as browsers make them."""
    child = os.fork()
    if child == 0:
        ids = os.getuid(), os.getgid()
        if libc.unshare(NEW_USER | NEW_PID | NEW_MOUNTS) < 0:
            os._exit(1)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {ids[0]} 1"), ("gid_map", f"0 {ids[1]} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as f:
                f.write(text)
        if os.fork() == 0:
            if libc.mount(b"proc", b"/proc", b"proc", 0, None) < 0:
                os._exit(ctypes.get_errno())
            os._exit(0 if processes() == [1] else 2)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def uncover():
    """Removes the mount of /proc, here and in a user namespace with all capabilities in it."""
    here = attempt(libc.umount2, b"/proc", 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(NEW_USER | NEW_MOUNTS) < 0 or libc.umount2(b"/proc", 2) < 0 else 1)
    return [here, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def leave():
    """An orphan in its own session."""
    done = subprocess.run(["/bin/sh", "-c", "setsid sleep 654 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True)
    return {"pid": int(done.stdout), "namespace": os.readlink("/proc/self/ns/pid")}


TOOLS = {"look": look, "first": first, "nest": nest, "uncover": uncover, "leave": leave}

for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    elif method == "tools/call":
        text = json.dumps(TOOLS[message["params"]["name"]](**message["params"].get("arguments", {})))
        result = {"content": [{"type": "text", "text": text}]}
    if result:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
