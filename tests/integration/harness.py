"""What the integration tests share: where things are, configs, the oracle for what must not stay behind.

A test process makes itself a subreaper: whatever the server leaves running becomes its descendant, so that
"nothing is left" is a statement about our own processes and not about the machine's. The environment names the
build (CLOISTER_BUILD), the npm packages (CLOISTER_NODE) and the virtual environment (CLOISTER_VENV).
"""

import contextlib
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("CLOISTER_BUILD", os.path.join(SOURCE, "build"))
CLOISTER = os.path.join(BUILD, "cloister")
NODE_DIR = os.environ.get("CLOISTER_NODE", os.path.join(SOURCE, "build", "node"))
NODE = shutil.which("node") or "node"
FIXTURE = os.path.join(HERE, "fixture-server.py")
PYTHON = "/usr/bin/python3"

PR_SET_CHILD_SUBREAPER = 36
# Waits are bounded, and generous: the machine may be slow, and a sanitizer build is.
# An emulated machine is slower by the factor CLOISTER_TEST_SLOW.
SLOW = float(os.environ.get("CLOISTER_TEST_SLOW", "1"))
PATIENCE = float(os.environ.get("CLOISTER_TEST_PATIENCE", "20")) * SLOW
# The budget for an answer "at once"; the design's figure is 100 ms, measured in bench/.
# A sanitizer build is slower and keeps freed memory: by this factor.
SANITIZED = float(os.environ.get("CLOISTER_TEST_SANITIZED", "1"))
AT_ONCE = 0.5 * SANITIZED * SLOW


def patient(timeout):
    """A bound that a slow machine may need more for."""
    return timeout if timeout is None or SLOW == 1 else max(timeout, PATIENCE)


ROOT = os.geteuid() == 0


# In the capable mode root's tests write the configs, and an ordinary user reads them.
if "mode=capable" in os.environ.get("CLOISTER_TEST_EXPECT", ""):
    def readable_mkdtemp(*args, make=tempfile.mkdtemp, **rest):
        path = make(*args, **rest)
        os.chmod(path, 0o755)
        return path

    tempfile.mkdtemp = readable_mkdtemp


def become_subreaper():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


become_subreaper()


def wait_until(condition, seconds=None, step=0.02):
    """True once condition() is; False when it was not in time."""
    end = time.monotonic() + (PATIENCE if seconds is None else seconds)
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def environment(**extra):
    """What a client passes on: little. HOME keeps the image from test to test."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("CLOISTER_TEST_HOME") or os.environ["HOME"],
        "LANG": "C.UTF-8",
    }
    for name in ("LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    # As root the store would be the machine's.
    env["CLOISTER_IMAGE_STORE"] = os.path.join(env["HOME"], "images")
    env.update(extra)
    return env


# ---- processes -------------------------------------------------------------------------------------------------


def stat_of(pid):
    """(parent, state, name), or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    rest = text[text.rindex(")") + 2:].split()
    return int(rest[1]), rest[0], name


def descendants(of=None):
    """{pid: name} of all living processes under one (ours by default), zombies reaped or left out."""
    of = os.getpid() if of is None else of
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        stat = stat_of(entry) if entry.isdigit() else None
        if stat and stat[1] not in "ZX":
            parents[int(entry)], names[int(entry)] = stat[0], stat[2]
    found, front = {}, {of}
    while front:
        front = {pid for pid, parent in parents.items() if parent in front}
        found.update((pid, names[pid]) for pid in front)
    return found


def reap():
    """Collects the orphans that were given to us."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# ---- what must not stay behind -----------------------------------------------------------------------------------


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return {line for line in f if "cloister" in line}


# Whatever this process started. `cloister` becomes the monitor by exec, whose pid names its cgroups.
started = set()


class RecordedPopen(subprocess.Popen):
    """Remembers the pids of all children; subprocess.run and asyncio use it too."""

    def __init__(self, *args, **rest):
        super().__init__(*args, **rest)
        # Asked by the thousand, and with nothing to leave: a server of others may have the same number soon after.
        if list(self.args[:2]) != [CLOISTER, "sessions"]:
            started.add(self.pid)

    def wait(self, timeout=None):
        return super().wait(patient(timeout))

    def communicate(self, input=None, timeout=None):  # pylint: disable=redefined-builtin
        return super().communicate(input, patient(timeout))


subprocess.Popen = RecordedPopen


def cgroups():
    """Cgroups of a supervisor that is gone. On a shared machine others have some too: ours are those we started."""
    found = set()
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            match = re.match(r"cloister-(\d+)", name)
            if match and int(match.group(1)) in started and not alive(match.group(1)):
                found.add(os.path.join(directory, name))
    return found


CONTROL = ["/run/cloister", f"/run/user/{os.getuid()}/cloister", f"/tmp/cloister-{os.getuid()}"]


def control_sockets(pid=None):
    """Where servers listen for `cloister sessions`: of one, or of all that we started and that are gone."""
    found = {path for place in CONTROL for path in glob.glob(os.path.join(place, "*.sock"))}
    owners = {path: int(os.path.basename(path)[:-len(".sock")]) for path in found}
    return {path for path, owner in owners.items()
            if (owner == pid if pid else owner in started and not alive(owner))}


def files():
    """Temporary files, anywhere that programs put them. Other servers of this machine have sockets, too."""
    places = ["/tmp", "/var/tmp", "/dev/shm", "/run", f"/run/user/{os.getuid()}"]
    found = {path for place in places for path in glob.glob(os.path.join(place, "*loister*"))}
    mine = {path for path in found if os.path.basename(path).startswith("cloister-test-")}
    others = {path for path in found if re.fullmatch(r"/tmp/cloister-\d+", path)}
    return found - mine - others - set(CONTROL) | control_sockets()


class Residue:
    """Remembers what was there, and tells what has come and not gone."""

    def __init__(self):
        self.processes, self.mounts, self.cgroups, self.files = descendants(), mounts(), cgroups(), files()

    def left(self):
        reap()
        left = {
            "processes": {p: n for p, n in descendants().items() if p not in self.processes},
            "mounts": mounts() - self.mounts,
            "cgroups": cgroups() - self.cgroups,
            "files": files() - self.files,
        }
        return {kind: what for kind, what in left.items() if what}

    def settle(self, seconds=5.0 * SLOW):
        """What is still left after a bounded wait: cleaning up takes a moment, forever is a leak."""
        wait_until(lambda: not self.left(), seconds)
        return self.left()


class Case(unittest.TestCase):
    """A test case with a temporary folder, after which nothing may be left."""

    maxDiff = 4000

    def setUp(self):
        self.residue = Residue()
        self.addCleanup(self.check_residue)
        self.dir = tempfile.mkdtemp(prefix="cloister-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def check_residue(self):
        self.assertEqual(self.residue.settle(), {}, "left behind")

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def config(self, servers=None, name="config.json", **rest):
        return self.write(name, json.dumps({"mcpServers": servers or {}, **rest}))

    def run_cloister(self, *args, timeout=60, env=None, cwd=None, **options):
        return subprocess.run(
            [CLOISTER, *args], env=env or environment(), timeout=timeout, cwd=cwd or self.dir,
            stdin=options.pop("stdin", subprocess.DEVNULL), capture_output=True, check=False, **options,
        )


# ---- servers to put behind ---------------------------------------------------------------------------------------


def fixture(*args, **rest):
    """Our own badly or well behaved server (fixture-server.py)."""
    return {"command": PYTHON, "args": [FIXTURE, *args], **rest}


def official(name, *args, **rest):
    """One of the official servers from npm."""
    script = os.path.join(NODE_DIR, "node_modules", "@modelcontextprotocol", name, "dist", "index.js")
    return {"command": NODE, "args": [script, *args], **rest}


def alive(pid):
    stat = stat_of(pid)
    return stat is not None and stat[1] not in "ZX"


def end(process, sig=signal.SIGKILL):
    """Ends a child, whatever it is doing."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(sig)
    return process.wait(PATIENCE)


class TimedResult(unittest.TextTestResult):
    """A log tells each test by its name, and how long it took."""

    def startTest(self, test):
        self.start = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.stream.writeln(f"ok ({time.monotonic() - self.start:.2f} s)")
        self.stream.flush()


def main():
    """Runs the file's tests."""
    unittest.main(module=sys.modules["__main__"], testRunner=unittest.TextTestRunner(verbosity=2, resultclass=TimedResult))
