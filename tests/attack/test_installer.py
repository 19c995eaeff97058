"""Classes 145 and 147: the program that installs packages, for sessions and for images, is taken over by what an index sends. A program
in uv's place makes attempts, and an index sends pages without end."""

import concurrent.futures
import contextlib
import glob
import http.server
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import harness
import rawmcp
import test_packages
import test_serve

# It is started as uv. It sends its result to the index: which attempts succeeded.
PROGRAM = r'''#!/usr/bin/python3
import ctypes, json, mmap, os, resource, signal, socket, subprocess, sys, time, urllib.request
GIVEN = %(given)r
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
work = os.environ["TMPDIR"]
up = os.path.relpath(GIVEN["store"], work)

def call(name, *args):
    if getattr(libc, name)(*args) in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), name)

def syscall(number, *args):
    call("syscall", ctypes.c_long(number), *args)

def shared_memory():
    """Removes it again: the control makes it on the host."""
    made = libc.shmget(0, 4096, 0o1600)
    if made < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmctl(made, 0, None)

def child(function):
    """Makes the attempt in another process."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError

def read(path):
    with open(path, "rb") as f:
        f.read(1)

def write(path):
    with open(path, "w") as f:
        f.write("x")
    os.unlink(path)

def file(name):
    open(work + "/" + name, "w").close()
    return work + "/" + name

def connect(address):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)

def namespaces(*calls):
    syscall(272, 0x10000000 | 0x20000)
    for name, *args in calls:
        call(name, *args)

def execute():
    path = work + "/program"
    with open(path, "w") as f:
        f.write("#!/usr/bin/python3\n")
    os.chmod(path, 0o755)
    subprocess.run([path], check=True)

def map_code():
    with open(work + "/code", "w+b") as f:
        f.write(bytes(4096))
        f.flush()
        mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)

def processes(most):
    pids = []
    try:
        for _ in range(most):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

def file_of(size):
    with open(work + "/large", "w") as f:
        f.truncate(size)
    os.unlink(work + "/large")

def open_files(most):
    fds = []
    try:
        for _ in range(most):
            fds.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for fd in fds:
            os.close(fd)

def set_user_id(mode):
    with open(work + "/set", "w") as f:
        os.chmod(f.fileno(), mode)

def found(condition):
    if not condition:
        raise OSError

def listens():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()

ATTEMPTS = {
    "read a key of the user": lambda: read(GIVEN["key"]),
    "list the user's directory": lambda: os.listdir(GIVEN["home"]),
    "write to the user's directory": lambda: write(GIVEN["home"] + "/written"),
    "link to the user's directory": lambda: (os.symlink(GIVEN["key"], work + "/link"), read(work + "/link")),
    "climb from the packages": lambda: read(work + "/" + up + "/outside"),
    "write beside the packages": lambda: write(work + "/" + up + "/written"),
    "packages of another profile": lambda: write(GIVEN["store"] + "/.installed/other/written"),
    "wheels of other images": lambda: write(GIVEN["store"] + "/.cache/wheels/written"),
    "results of other images": lambda: write(GIVEN["store"] + "/.cache/sets/written"),
    "see the passwords": lambda: os.stat("/etc/shadow"),
    "see the machine's id": lambda: os.stat("/etc/machine-id" if os.path.exists("/etc/machine-id") else "/etc/fstab"),
    "see the machine's private keys": lambda: os.stat("/etc/ssl/private"),
    "settings of the kernel": lambda: read("/proc/sys/kernel/ostype"),
    "change a device": lambda: os.chmod("/dev/null", 0o666),
    "a set-uid program": lambda: set_user_id(0o4755),
    "a set-gid file": lambda: os.chmod(file("set-gid"), 0o2755),
    "create a set-uid file": lambda: os.close(os.open(work + "/set-uid-2", os.O_CREAT | os.O_WRONLY, 0o4755)),
    "create a set-uid file without a name": lambda: os.close(os.open(work, os.O_TMPFILE | os.O_WRONLY, 0o4755)),
    "see /home": lambda: os.stat("/home"),
    "see a program": lambda: os.stat("/usr/bin/env"),
    "see /run": lambda: os.stat("/run"),
    "see /sys": lambda: os.stat("/sys"),
    "see /dev/shm": lambda: os.stat("/dev/shm"),
    "write to /tmp": lambda: write("/tmp/%%d" %% os.getpid()),
    "change a program": lambda: open(GIVEN["program"], "r+"),
    "see a process of the user": lambda: os.stat("/proc/%%d" %% GIVEN["victim"]),
    "signal a process of the user": lambda: os.kill(GIVEN["victim"], 0),
    "read the environment of a process of the user": lambda: read("/proc/%%d/environ" %% GIVEN["victim"]),
    "trace": lambda: child(lambda: call("ptrace", 0, 0, 0, 0)),
    "read the memory of a process": lambda: syscall(310, os.getpid(), None, 0, None, 0, 0),
    "connect to a socket of the user": lambda: connect(GIVEN["socket"]),
    "connect to an abstract socket": lambda: connect("\0" + GIVEN["abstract"]),
    "make a socket of a family": lambda: socket.socket(socket.AF_UNIX).close(),
    "listen": listens,
    "a user namespace": lambda: child(lambda: syscall(272, 0x10000000)),
    "mount": lambda: child(lambda: namespaces(("mount", b"none", b"/tmp", b"tmpfs", 0, None))),
    "change the root": lambda: child(lambda: namespaces(("chroot", b"/usr"))),
    "a host name": lambda: child(lambda: (syscall(272, 0x14000000), call("sethostname", b"x", 1))),
    "set the user": lambda: os.setuid(os.getuid()),
    "set all users": lambda: os.setresuid(-1, os.getuid(), -1),
    "run a shell": lambda: subprocess.run(["/bin/sh", "-c", ":"], check=True),
    "run a set-uid program": lambda: found(os.access("/usr/bin/su", os.X_OK)),
    "run a program that it wrote": execute,
    "map code that it wrote": map_code,
    "memory of no process (memfd)": lambda: os.close(os.memfd_create("x")),
    "memory of no process (shared)": lambda: mmap.mmap(-1, 4096).close(),
    "memory that grows down": lambda: call("mmap", None, 4096, 3, 0x122, -1, 0),
    "keys": lambda: syscall(250, 0, -3, 1),
    "personality": lambda: call("personality", 0x0040000),
    "dumpable": lambda: call("prctl", 4, 0, 0, 0, 0),
    "clear no_new_privs": lambda: found(libc.prctl(39, 0, 0, 0, 0) == 0),
    "System V memory": shared_memory,
    "100 processes": lambda: processes(100),
    "800 MiB of memory": lambda: call("mmap", None, 800 << 20, 3, 0x22, -1, 0),
    "a file of 5 GiB": lambda: file_of(5 << 30),
    "200 descriptors": lambda: open_files(200),
    "a variable of the user": lambda: os.environ["XDG_SECRET"],
    "a token of another index": lambda: os.environ["UV_PUBLISH_TOKEN"],
    "variables of its parent": lambda: found(b"UV_PUBLISH_TOKEN" in open("/proc/%%d/environ" %% os.getppid(), "rb").read()),
}
CONTROLS = {
    "its own work": lambda: write(work + "/file"),
    "its own program": lambda: os.chmod(file("program"), 0o755),
    "a file without a name": lambda: os.close(os.open(work, os.O_TMPFILE | os.O_WRONLY, 0o755)),
    "the interpreter": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "a process": lambda: child(lambda: None),
    "the index": lambda: socket.create_connection(("127.0.0.1", GIVEN["port"]), 5).close(),
    "the resolver": lambda: socket.getaddrinfo("localhost", 80),
    "a device": lambda: open("/dev/null", "w").write("x"),
    "certificates": lambda: __import__("ssl").create_default_context(),
    "100 MiB": lambda: bytearray(100 << 20),
    "the library that has a certificate": lambda: read(GIVEN["library"]),
}

def tries(all):
    done = []
    for name, attempt in all.items():
        try:
            attempt()
            done.append(name)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError, MemoryError):
            pass
    return done

if "--version" in sys.argv:
    print("uv 0.9.0")
    sys.exit(0)
for _ in range(GIVEN.get("hogs", 0)):
    if os.fork() == 0:
        kept = bytearray(b"x") * (250 << 20)
        time.sleep(60)
        os._exit(0)
for _ in range(GIVEN.get("tasks", 0)):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
if GIVEN.get("hogs") or GIVEN.get("tasks"):
    time.sleep(60)
for name in GIVEN["without"]:
    del ATTEMPTS[name]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/proc/self/status") as f:
    status = {line.split(":")[0]: line.partition(":")[2].strip() for line in f}
result = {"names": list(ATTEMPTS), "attempts": tries(ATTEMPTS), "controls": tries(CONTROLS), "usual": list(CONTROLS), "status": status,
          "fds": sorted(os.listdir("/proc/self/fd")), "root": sorted(os.listdir("/")), "pids": [p for p in os.listdir("/proc") if p.isdigit()]}
urllib.request.urlopen("http://127.0.0.1:%%d/" %% GIVEN["port"], json.dumps(result).encode()).close()
print("error: tried")
sys.exit(1)
'''


def contents(path):
    with open(path, encoding="ascii") as f:
        return f.read()


class Pages(http.server.ThreadingHTTPServer):
    """An index of endless pages (package "endless"), of a large one ("large"), and of pages that come when they may ("slow")."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Page)
        self.waiting = set()  # names of slow packages
        self.results = []  # of programs in uv's place
        self.let_go = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Page(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):  # pylint: disable=invalid-name
        self.server.results.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def do_GET(self):  # pylint: disable=invalid-name
        name, index = self.path.strip("/").split("/")[-1], self.server
        if name.startswith("slow"):
            index.waiting.add(name)
            index.let_go.wait(100)
        if name not in ("endless", "large"):
            with contextlib.suppress(OSError):
                self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        try:
            for _ in range(4 if name == "large" else 1 << 20):
                self.wfile.write(b"<!-- more -->\n" * (1 << 16))
        except OSError:
            pass


class Place:
    """A store, a user with files and a process, an index, and a program in uv's place."""

    USER = pwd.getpwnam("games") if harness.ROOT else None
    HOGS = TASKS = 0
    WITHOUT = ()
    IN_PLACE = True  # of uv; without, pip is used
    PROGRAM = PROGRAM

    @classmethod
    def prepare(cls):
        cls.top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        cls.index = Pages()
        home, programs, store = f"{cls.top}/home", f"{cls.top}/bin", f"{cls.top}/images"
        for folder in (home, programs, f"{store}/.installed/other", f"{store}/.cache/wheels", f"{store}/.cache/sets"):
            os.makedirs(folder)
        for path in (f"{home}/key", f"{store}/outside"):
            with open(path, "w", encoding="ascii") as f:
                f.write("secret\n")
        os.chmod(f"{home}/key", 0o600)
        cls.listener, cls.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        cls.listener.bind(f"{home}/socket")
        cls.abstract.bind(f"\0{cls.top}")
        for one in (cls.listener, cls.abstract):
            one.listen(5)
            cls.addClassCleanup(one.close)
        cls.program = f"{programs}/uv"
        cls.library = cls.make_library()
        cls.victim = subprocess.Popen(cls.as_user("sleep", "600"))
        cls.addClassCleanup(cls.victim.wait)
        cls.addClassCleanup(cls.victim.kill)
        given = {"key": f"{home}/key", "home": home, "socket": f"{home}/socket", "abstract": cls.top, "victim": cls.victim.pid, "store": store,
                 "port": cls.index.server_port, "hogs": cls.HOGS, "tasks": cls.TASKS, "without": cls.WITHOUT, "program": cls.program,
                 "library": f"{cls.library}/other.py"}
        with open(cls.program, "w", encoding="utf-8") as f:
            f.write(cls.PROGRAM % {"given": given})
        for folder, folders, files in os.walk(cls.top):
            folders[:] = [name for name in folders if name != "venv"]
            for path in [folder] + [f"{folder}/{name}" for name in files]:
                os.chmod(path, 0o755 if os.path.isdir(path) or path == cls.program else os.stat(path).st_mode & 0o777)
                if harness.ROOT and cls.USER:
                    os.chown(path, cls.USER.pw_uid, cls.USER.pw_gid)

    @classmethod
    def variables(cls):
        return {"PATH": f"{cls.top}/bin:{cls.top}/venv/bin:/usr/bin:/bin" if cls.IN_PLACE else "/usr/bin:/bin", "SSL_CERT_FILE": f"{cls.library}/cert.pem", "CLOISTER_IMAGE_STORE": f"{cls.top}/images",
                "XDG_SECRET": "1", "UV_PUBLISH_TOKEN": "1"}

    @classmethod
    def make_library(cls):
        """A virtual environment whose packages have the certificates. Returns their directory."""
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", f"{cls.top}/venv"], check=True)
        (library,) = glob.glob(f"{cls.top}/venv/lib/python3*/site-packages")
        for name in ("cert.pem", "other.py"):
            with open(f"{library}/{name}", "w", encoding="ascii"):
                pass
        return library

    @classmethod
    def as_user(cls, *words):
        user = ("setpriv", f"--reuid={cls.USER.pw_uid}", f"--regid={cls.USER.pw_gid}", "--clear-groups") if harness.ROOT and cls.USER else ()
        return [*user, *words]

    def check_attempts(self, found):
        self.assertEqual(found["attempts"], [])
        self.assertGreater(len(found["names"]), 40)
        self.assertEqual(found["controls"], found["usual"])
        status = found["status"]
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertLessEqual(len(found["fds"]), 5, found["fds"])
        self.assertLessEqual(set(found["root"]), {"bin", "dev", "etc", "lib", "lib64", "mnt", "opt", "proc", "usr", "var", "nix"})
        self.assertLessEqual(len(found["pids"]), 5)
        # The control: the same program outside, as the same user.
        outside = f"{self.top}/home/work"
        os.makedirs(outside)
        if harness.ROOT and self.USER:
            shutil.chown(outside, "games", "games")
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": outside, "XDG_SECRET": "1", "UV_PUBLISH_TOKEN": "1"}
        parent = "import subprocess, sys; subprocess.run(sys.argv[1:])"
        subprocess.run(self.as_user("/usr/bin/python3", "-c", parent, self.program, "pip"), env=env, timeout=100, check=True)
        control = self.index.results.pop()
        missing = [name for name in control["names"] if name not in control["attempts"]]
        # Attempts that a machine may refuse to every user.
        self.assertLessEqual(set(missing), {"a user namespace", "mount", "change the root", "a host name", "keys", "see /home", "clear no_new_privs",
                                            "see the machine's private keys", "change a device"})
        self.assertGreater(len(control["attempts"]), 40, missing)

    def most_memory(self, process, run):
        """Returns what run() returns, and how much memory the programs had together meanwhile."""
        most, stop = [0], threading.Event()

        def watch():
            while not stop.wait(0.02):
                total = 0
                for pid, name in harness.descendants(process).items():
                    if name in ("uv", "python3"):
                        try:
                            with open(f"/proc/{pid}/statm", encoding="ascii") as f:
                                total += int(f.read().split()[1]) * 4096
                        except (OSError, IndexError):
                            pass
                most[0] = max(most[0], total)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            result = run()
            return result, most[0]
        finally:
            stop.set()
            watcher.join()


class Installer(Place, rawmcp.ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.CONFIG = {"packages": {"install": "allow", "index": f"http://127.0.0.1:{cls.index.server_port}/simple", "timeout": 60},
                      **({"user": "games"} if harness.ROOT else {})}
        make = harness.environment
        harness.environment = lambda **more: make(**cls.variables(), **more)
        try:
            super().setUpClass()
        finally:
            harness.environment = make

    def install(self, name, **more):
        return self.call(f"install({name!r})", timeout=100, wait=harness.patient(150), **more)["structuredContent"]


class InPlaceOfUv(Installer):
    def test_a_program_in_its_place(self):
        cell = self.install("demo")
        self.assertIn("tried", cell["error"]["message"], cell)
        self.check_attempts(self.index.results.pop())


class Hogs(Installer):
    HOGS = 6

    def test_memory_of_many_processes(self):
        """Each process is below its own limit: the sum is bounded."""
        cell, most = self.most_memory(self.server.process.pid, lambda: self.install("demo"))
        self.assertRegex(cell["error"]["message"], "needed more than 960 MiB|ended without an answer")
        self.assertGreater(most, 200 << 20)
        self.assertLess(most, 1400 << 20)
        self.assertTrue(harness.wait_until(lambda: "uv" not in harness.descendants(self.server.process.pid).values()))
        self.ok("1")


@harness.once
class WithAShim(Installer):
    """uv is a script of a version manager, whose interpreter the sandbox does not have: pip is used."""

    PROGRAM = "#!/usr/bin/env bash\necho uv 0.9.0 # %(given)r\n"

    def test_another_installer_is_found(self):
        self.assertIn("no such package: 'absent'", self.install("absent")["error"]["message"])


@harness.once
class WithPip(Installer):
    IN_PLACE = False

    def test_pages_of_an_index(self):
        self.assertIn("a page of more than 32 MiB", self.install("endless")["error"]["message"])
        # A page of 4 MiB is read.
        self.assertIn("no such package: 'large'", self.install("large")["error"]["message"])


@unittest.skipIf(harness.ROOT, "packages are never fetched by root")
class Places(test_serve.Serve):
    """Installations that do not end: one principal has half of the places."""

    def setUp(self):
        harness.Case.setUp(self)
        self.index = Pages()
        self.addCleanup(self.index.let_go.set)
        self.words = {name: "-".join([name] * 6) for name in ("alice", "bob")}
        tokens = self.write("tokens", "".join(f"{name} {word}\n" for name, word in self.words.items()))
        os.chmod(tokens, 0o600)
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", tokens)

    def config(self, *args, **rest):
        url = f"http://127.0.0.1:{self.index.server_port}/simple"
        return super().config(*args, packages={"install": "allow", "index": url, "timeout": 60}, **rest)

    def install(self, name, package, session):
        arguments = {"code": f"install({package!r})", "session": session, "timeout": 100}
        return self.connect().modern("tools/call", {"name": "run_python", "arguments": arguments}, Authorization=f"Bearer {self.words[name]}")

    def test_one_principal_has_half(self):
        held = [self.install("alice", f"slow{n}", f"s{n}") for n in range(6)]
        self.assertTrue(harness.wait_until(lambda: len(self.index.waiting) == 2))
        begun = time.monotonic()
        response = self.install("bob", "absent", "s").response()
        # After a while without an answer it is a stream.
        whole = next(m for _, m in response.events() if m and "result" in m) if response.chunked else response.json()
        result = whole["result"]["structuredContent"]
        self.assertIn("no such package: 'absent'", result["error"]["message"])
        print(f"the other principal: {time.monotonic() - begun:.1f} s", flush=True)
        self.assertEqual(len(self.index.waiting), 2)
        self.index.let_go.set()
        for one in held:
            one.response()


class Sums(Place, test_serve.Serve):
    """An installer counts in the sum of the principal whose session asked for it."""

    HOGS = 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare()

    def setUp(self):
        harness.Case.setUp(self)
        self.words = {name: "-".join([name] * 6) for name in ("alice", "bob")}
        tokens = self.write("tokens", "alice {alice} memory=500M\nbob {bob}\n".format(**self.words))
        os.chmod(tokens, 0o600)
        self.log = self.path("log")
        packages = {"install": "allow", "index": f"http://127.0.0.1:{self.index.server_port}/simple", "timeout": 15}
        config = self.config(name="sums.json", packages=packages, limits={"memory": "160M"}, memory_total="3G", pool=0, **({"user": "games"} if harness.ROOT else {}))
        make = harness.environment
        harness.environment = lambda **more: make(**self.variables(), **more)
        try:
            self.server = self.start("--listen", "127.0.0.1:0", "--tokens", tokens, "--config", config, "--log-file", self.log)
        finally:
            harness.environment = make

    def cell(self, name, code, **arguments):
        headers = {"Authorization": f"Bearer {self.words[name]}"}
        answer = self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": code, **arguments}}, **headers)
        return answer.response().json()["result"]["structuredContent"]

    def installers(self):
        return [pid for pid, name in harness.descendants(self.server.pid).items() if name == "uv"]

    def test_the_sum_of_a_principal(self):
        cell, most = self.most_memory(self.server.pid, lambda: self.cell("alice", "install('demo')", timeout=60))
        print(f"with a sum of 500 MiB: {most >> 20} MiB", flush=True)
        # The kernel kills a process of the installer; samples end all of it.
        self.assertRegex(cell["error"]["message"], "ended without an answer" + ("|not installed in time" if harness.BOUNDED else ""))
        if harness.BOUNDED:
            self.assertLess(most, 600 << 20)
        self.assertEqual(cell["state"], "new", "the session continues")
        with open(self.log, encoding="utf-8") as f:
            harness.wait_until(lambda: not self.installers())
            self.assertRegex(f.read(), 'install(er|ation).*memory=.* of its principal is reached')
        # The control: another principal's takes all that it wants.
        cell, most = self.most_memory(self.server.pid, lambda: self.cell("bob", "install('demo')", timeout=60))
        self.assertIn("not installed in time", cell["error"]["message"])
        self.assertGreater(most, 740 << 20)
        self.assertTrue(harness.wait_until(lambda: not self.installers()))

    def test_refused(self):
        """The sessions of a principal have all that it may have: its installer does not start, and another one's does."""
        hold = "import os\nheld = bytearray(os.urandom(1 << 16)) * 16 * %d"
        for name in ("alice", "bob"):
            for i in range(3):
                self.assertEqual(self.cell(name, hold % 130, session=f"s{i}", timeout=30)["status"], "ok")
        more = (self.cell("alice", "held = b'x' * (4 << 20)", session=f"t{i}") for i in range(60))
        refused = "the sessions of this principal use"
        self.assertIn(refused, next(c["error"]["message"] for c in more if c["status"] == "error"))
        cell = self.cell("alice", "install('demo')", session="s0", timeout=60)
        if harness.BOUNDED or cell["status"] == "error":
            message = cell["error"]["message"]
            # Samples count what processes share several times: they may be lower now.
            self.assertRegex(message, f'{refused} \\d+ of 500 MiB \\("memory="\\)' + ("" if harness.BOUNDED else "|ended without an answer"))
            self.assertNotIn("\n", message)
        else:
            # The samples were higher than when the session was looked at, and the session is the largest of all that the principal has.
            self.assertIn('the sessions of this principal reached "memory="', cell["notice"])
        self.assertTrue(harness.wait_until(lambda: not self.installers()))
        self.assertIn("not installed in time", self.cell("bob", "install('demo')", session="s0", timeout=60)["error"]["message"])


class Image(Place, harness.Case):
    """What fetches and unpacks the packages of an image. As root, it runs as root without capabilities."""

    USER = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prepare()

    def build(self, *args, **more):
        env = harness.environment(**self.variables(), PIP_INDEX_URL=f"http://127.0.0.1:{self.index.server_port}/simple", **more)
        return self.run_cloister("image", "build", *args, env=env, timeout=harness.patient(180))


class ImageInPlaceOfUv(Image):
    # RLIMIT_NPROC does not bound root: the guard does, every 50 ms.
    WITHOUT = ("100 processes",) if harness.ROOT else ()

    def test_a_program_in_its_place_for_an_image(self):
        done = self.build("--with", "demo")
        self.assertIn(b"uv: tried", done.stderr)
        self.check_attempts(self.index.results.pop())


@unittest.skipUnless(harness.ROOT, "RLIMIT_NPROC bounds other users: an attempt of the program in uv's place")
class ImageTasks(Image):
    TASKS = 100

    def test_many_processes_of_root(self):
        self.assertIn(b"it started too many processes", self.build("--with", "demo").stderr)


@harness.once
class ImageHogs(Image):
    HOGS = 6

    def test_memory_of_many_processes_for_an_image(self):
        done, most = self.most_memory(os.getpid(), lambda: self.build("--with", "demo"))
        self.assertRegex(done.stderr.decode(), "needed more than 960 MiB" + ("|reached 1024 MiB" if harness.BOUNDED else ""))
        self.assertGreater(most, 200 << 20)
        self.assertLess(most, 1400 << 20)


@unittest.skipUnless(harness.BOUNDED, "without a control group its guard alone bounds a build: ImageHogs")
class ImageGroup(Image):
    HOGS = 6

    def guard_of(self, pid):
        """The first process above it that is in this pid namespace. A user may not read the namespace of a process that is not dumpable, but how
        many pids it has."""
        while len(contents(f"/proc/{pid}/status").split("NSpid:")[1].split("\n")[0].split()) > 1:
            pid = harness.stat_of(str(pid))[0]
        return pid

    def confined(self):
        """Programs in uv's place in a pid namespace of their own. Before, the builder asks uv for its version."""
        found = []
        for pid, name in harness.descendants(os.getpid()).items():
            with contextlib.suppress(OSError):
                if name == "uv" and os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                    found.append(pid)
        return found

    def group_of(self, pid):
        """(limit, most) of its memory: paths of files."""
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
            groups = {line.split(":")[1]: line.rstrip().split(":", 2)[2] for line in f}
        if "memory" in groups:
            return [f"/sys/fs/cgroup/memory{groups['memory']}/memory.{name}" for name in ("limit_in_bytes", "max_usage_in_bytes", "oom_control")]
        return [f"/sys/fs/cgroup{groups['']}/memory.{name}" for name in ("max", "peak", "events")]

    def test_the_group_of_a_build(self):
        """147. The kernel bounds the memory of a build with packages, also while its guard stands still. A build without packages has no group."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            building = pool.submit(self.build, "--with", "demo")
            guard = 0
            try:
                # Not while it prints its version, which it does there too.
                self.assertTrue(harness.wait_until(lambda: len(self.confined()) > 1))
                uv = self.confined()[0]
                guard = self.guard_of(uv)
                os.kill(guard, signal.SIGSTOP)
                limit, most, killed = self.group_of(uv)
                self.assertEqual(int(contents(limit)), 1 << 30)
                self.assertTrue(harness.wait_until(lambda: int(contents(killed).split("\noom_kill ")[1].split()[0]) > 0), "the limit was not reached")
                self.assertLessEqual(int(contents(most)), 1 << 30)
            finally:
                if guard:
                    os.kill(guard, signal.SIGCONT)
            done = building.result()
            self.assertRegex(done.stderr.decode(), "reached 1024 MiB of memory")
            # The control.
            building = pool.submit(self.build, "--name", "plain")
            seen = set()
            while not building.done():
                for pid, name in harness.descendants(os.getpid()).items():
                    with contextlib.suppress(OSError):
                        if name == "cloister":
                            seen.add(self.group_of(pid)[0])
                time.sleep(0.01)
            self.assertEqual(building.result().returncode, 0, building.result().stderr)
            self.assertEqual({one for one in seen if "/cloister-" in one}, set())
            self.assertTrue(seen)


class ImageWithPip(Image):
    IN_PLACE = False

    @harness.once
    def test_pages_of_an_index_for_an_image(self):
        self.assertIn(b"a page of more than 32 MiB", self.build("--with", "endless").stderr)
        # A page of 4 MiB is read.
        self.assertIn(b"no such package: 'large'", self.build("--with", "large").stderr)

    @harness.once
    def test_wheels_that_write_elsewhere(self):
        """A wheel and sources with files for other directories; the control is a wheel without them. The directory of all is private."""
        private = f"{self.top}/private"
        os.mkdir(private, 0o700)
        mark = f"{self.top}/mark"
        test_packages.wheel(private, "climbing", "1", {"climbing.py": "", "../" * 12 + mark: ""})
        test_packages.wheel(private, "plain", "1", {"plain.py": "import os\n"})
        test_packages.sources(private, "sources", mark)
        for name in ("climbing", "sources"):
            done = self.build("--offline", "--find-links", private, "--with", name, "--name", name)
            if done.returncode == 0:  # the installer has left it out, or put it below the packages
                self.assertNotEqual(name, "sources")
            self.assertFalse(os.path.exists(mark), name)
        done = self.build("--offline", "--find-links", private, "--with", "plain", "--name", "plain")
        self.assertEqual(done.returncode, 0, done.stderr)


del Image
del Installer
if __name__ == "__main__":
    harness.main()
