"""Other ways to run an isolated Python, measured beside Cloister.

Each peer says whether it exists, or why not, which version it is, and how it is called. A peer that
cannot run on this machine gives its own message; every peer has a row.
"""
import json
import os
import shutil
import subprocess

from measure import HERE, PYTHON, Failure, Ping, last_line, output

CODE = "import json,asyncio;print(2)"
TOP = os.path.dirname(HERE)


def names(peer):
    """The names of a peer's rows; peer may be a class."""
    return [name for name, _ in peer.rows] or [peer.name]


def once(bench, command, want="2", cwd=None):
    """Nanoseconds from the start of a command to its end. It must print the expected text."""
    ping = Ping(bench, command, cwd)
    ping.want(want)
    return ping.wait()


def bwrap_command(code):
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
            "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", PYTHON, "-I", "-c", code]


class Peer:
    """One way to run Python. Times are lists of nanoseconds by row."""

    name = title = options = ""
    why = None       # why it is not available: one line
    version = None
    rows = ()        # [(row, title)]

    def __init__(self, bench):
        self.bench = bench
        self.why = self.missing()
        if not self.why:
            self.version = self.ask_version()

    def missing(self):
        return None

    def ask_version(self):
        return None

    def round(self, quick):
        raise NotImplementedError


class Command(Peer):
    """A program that starts a sandbox, runs the code in it and ends."""

    program = ""

    def __init__(self, bench):
        self.rows = ((self.name, self.title),)
        super().__init__(bench)

    def missing(self):
        return None if shutil.which(self.program) else f"{self.program} is not installed"

    def ask_version(self):
        return output(self.program, "--version")

    def command(self):
        raise NotImplementedError

    def round(self, quick):
        return {self.name: [once(self.bench, self.command())]}


class Python(Command):
    name, program = "python", PYTHON
    title = "python3 -I alone, no sandbox"
    options = f"-I -c '{CODE}'"

    def command(self):
        return [PYTHON, "-I", "-c", CODE]


class Bwrap(Command):
    name = program = "bwrap"
    title = "bubblewrap"
    options = "--unshare-all, /usr read-only, /proc, /dev, tmpfs on /tmp"

    def command(self):
        return bwrap_command(CODE)


def root_directory(bench):
    """A root file system for runtimes that need a directory: the host's /usr is bound into it, as for bubblewrap."""
    root = os.path.join(bench.work, "rootfs")
    if not os.path.exists(root):
        for name in ("usr", "proc", "dev", "tmp", "sys", "etc", "run"):
            os.makedirs(os.path.join(root, name))
        open(os.path.join(root, "etc", "localtime"), "w").close()
        for name in ("lib", "lib64", "bin", "sbin"):
            os.symlink(f"usr/{name}", os.path.join(root, name))
    return root


def bundle(bench, user=None):
    """An OCI bundle: all namespaces, no capability, no network, read-only; a user namespace if the user is not root."""
    user = os.getuid() != 0 if user is None else user
    place = os.path.join(bench.work, "bundle-user" if user else "bundle")
    if os.path.exists(place):
        return place
    kinds = ["pid", "ipc", "uts", "mount", "network"] + (["user"] if user else [])
    nothing = {name: [] for name in ("bounding", "effective", "permitted", "inheritable", "ambient")}
    linux = {"namespaces": [{"type": kind} for kind in kinds]}
    if user:
        linux["uidMappings"] = [{"containerID": 0, "hostID": os.getuid(), "size": 1}]
        linux["gidMappings"] = [{"containerID": 0, "hostID": os.getgid(), "size": 1}]
    spec = {
        "ociVersion": "1.0.2", "hostname": "bench", "linux": linux,
        "root": {"path": root_directory(bench), "readonly": True},
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/", "noNewPrivileges": True,
                    "args": [PYTHON, "-I", "-c", CODE], "env": ["PATH=/usr/bin:/bin"], "capabilities": nothing},
        "mounts": [
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
        ],
    }
    os.makedirs(place)
    with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as f:
        json.dump(spec, f)
    return place


HYBRID = "/sys/fs/cgroup/unified"


def without_hybrid(command):
    """crun refuses hosts that mount both versions of control groups: runs the command in a mount namespace with
    version 1 only. Takes two milliseconds at most."""
    if not os.path.ismount(HYBRID) or os.getuid() != 0:
        return command
    return ["unshare", "-m", "sh", "-c", 'umount "$0" && exec "$@"', HYBRID, *command]


class Oci(Command):
    """A runtime, called with a bundle."""

    count = 0
    extra = ()

    def command(self):
        Oci.count += 1
        state = os.path.join(self.bench.work, f"state-{self.name}")
        return [self.program, "--root", state, *self.extra, "run", "--bundle", bundle(self.bench),
                f"bench-{os.getpid()}-{Oci.count}"]


class Runc(Oci):
    name = program = "runc"
    title = "runc with a bundle"
    options = "own namespaces, no capability, /usr bound read-only"


class Crun(Oci):
    name = program = "crun"
    title = "crun with a bundle"
    options = ("as runc; where both versions of control groups are mounted, in a mount namespace with the first only, "
               "or, as an ordinary user, with none")

    def command(self):
        if not os.path.ismount(HYBRID) or os.getuid() == 0:
            return without_hybrid(super().command())
        # unshare creates the user namespace, because hiding the directory needs a user namespace.
        command = super().command()
        command[command.index("--bundle") + 1] = bundle(self.bench, user=False)
        command.insert(1, "--cgroup-manager=disabled")
        return ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh", *command]


class Runsc(Oci):
    name = program = "runsc"
    title = "gVisor (runsc) with a bundle"
    options = "--platform=ptrace --network=none --ignore-cgroups; as an ordinary user, 'runsc do'"
    extra = ("--network=none", "--ignore-cgroups", "--platform=ptrace")

    def command(self):
        if os.getuid() == 0:
            return super().command()
        return ["runsc", *self.extra, "--rootless", "do", PYTHON, "-I", "-c", CODE]


class Podman(Command):
    program, runtime = "podman", ""
    options = ("run --rm --network none --read-only --cap-drop all --security-opt no-new-privileges "
               "--rootfs DIR -v /usr:/usr:ro")

    def missing(self):
        return super().missing() or (None if shutil.which(self.runtime) else f"{self.runtime} is not installed")

    def ask_version(self):
        return f"{super().ask_version()}, {output(self.runtime, '--version')}"

    def command(self):
        store = os.path.join(self.bench.work, "podman")
        return without_hybrid([
            "podman", "--root", store, "--runroot", f"{store}-run", "--storage-driver", "vfs",
            "--runtime", shutil.which(self.runtime), "--cgroup-manager", "cgroupfs", "run", "--rm",
            "--network", "none", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges",
            "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "-v", "/usr:/usr:ro",
            "--rootfs", root_directory(self.bench), PYTHON, "-I", "-c", CODE])


class PodmanCrun(Podman):
    name, title, runtime = "podman-crun", "podman with crun", "crun"


class PodmanRunc(Podman):
    name, title, runtime = "podman-runc", "podman with runc", "runc"


class Nspawn(Command):
    name, program = "nspawn", "systemd-nspawn"
    title = "systemd-nspawn"
    options = "--register=no --keep-unit --private-network --read-only --bind-ro=/usr"

    def missing(self):
        return super().missing() or (None if os.getuid() == 0 else "systemd-nspawn needs root")

    def command(self):
        return ["systemd-nspawn", "-q", "-D", root_directory(self.bench), "--register=no", "--keep-unit",
                "--private-network", "--read-only", "--bind-ro=/usr", "--pipe", PYTHON, "-I", "-c", CODE]


class Script(Peer):
    """A peer that is driven from inside: its own client measures, and prints JSON."""

    fields = {}

    def command(self, quick):
        raise NotImplementedError

    def round(self, quick):
        done = subprocess.run(self.command(quick), capture_output=True, check=False, timeout=120)
        if done.returncode != 0:
            raise Failure(f"{self.name}: {last_line(done.stderr)}")
        said = json.loads(done.stdout.splitlines()[-1])
        return {row: said[field] if isinstance(said[field], list) else [said[field]]
                for row, field in self.fields.items() if said[field]}


def fetched(*names):
    """The directory of `quickstart bench`: in the source tree, or in the build directory that contains this file."""
    for place in (os.path.join(TOP, "build", "bench"), HERE):
        path = os.path.join(place, *names)
        if os.path.exists(path):
            return path
    return None


class Jupyter(Script):
    name, title = "jupyter", "a Jupyter kernel by its own client"
    options = "no sandbox; jupyter_client over loopback TCP"
    rows = (("jupyter", "a Jupyter kernel, start to the first `1+1`"), ("jupyter-warm", "a Jupyter kernel, `1+1`"))
    fields = {"jupyter": "start_ns", "jupyter-warm": "warm_ns"}

    def python(self):
        return fetched("venv", "bin", "python") or PYTHON

    def missing(self):
        if (output(self.python(), "-c", "import ipykernel, jupyter_client; print(1)") or "") != "1":
            return "ipykernel and jupyter_client are not installed"
        return None

    def ask_version(self):
        return output(self.python(), "-c", "import ipykernel, jupyter_client as j;"
                      "print('ipykernel', ipykernel.__version__, 'jupyter_client', j.__version__)")

    def command(self, quick):
        return [self.python(), self.bench.script("peer-jupyter.py"), "3" if quick else "30"]


class Pyodide(Script):
    name, title = "pyodide", "Pyodide in Node.js"
    options = "WebAssembly; loadPyodide, json and asyncio imported, in one process"
    rows = (("pyodide", "Pyodide, a fresh interpreter and its first `1+1`"), ("pyodide-warm", "Pyodide, `1+1`"))
    fields = {"pyodide": "fresh_ns", "pyodide-warm": "warm_ns"}

    def module(self):
        return fetched("node", "node_modules", "pyodide", "pyodide.mjs")

    def missing(self):
        if not self.bench.node():
            return "node is not installed"
        return None if self.module() else "the npm package pyodide is not installed"

    def ask_version(self):
        with open(os.path.join(os.path.dirname(self.module()), "package.json"), encoding="utf-8") as f:
            return f"pyodide {json.load(f)['version']}, node {output(self.bench.node(), '--version')}"

    def command(self, quick):
        return [self.bench.node(), self.bench.script("peer-pyodide.mjs"), self.module(), "3" if quick else "30"]


class Kernel(Script):
    name, title = "kernel", "the kernel alone"
    options = "a C program that does nothing else"
    rows = (("fork", "fork() alone"), ("clone3", "clone3 alone, seven namespaces"))
    fields = {"fork": "fork", "clone3": "clone3"}

    def command(self, quick):
        return [self.bench.program("bench-floor-clone"), "3" if quick else "50"]


ALL = (Python, Bwrap, PodmanCrun, PodmanRunc, Crun, Runc, Runsc, Nspawn, Jupyter, Pyodide, Kernel)
