"""Class 4, attacks on the processes that keep a session's state: a stopped checkpoint, and the writer of a branch.

Code can stop or slow these processes, which ends a branch. Code cannot change the contents of a branch."""

import contextlib
import ctypes
import errno
import glob
import itertools
import mmap
import os
import signal
import subprocess
import unittest

import harness
import outer_filter
import rawmcp

MB = 1 << 20

# tried(pid, at) -> {what: number of the error, 0 if the kernel did it}. at: an address of 8 bytes that are mapped there too.
CALLS = ("process_vm_writev", "process_vm_readv", "kcmp", "prlimit64", "ioprio_set", "ptrace", "pidfd_open", "pidfd_getfd")
TRIES = f"n = { {call: outer_filter.number(call) for call in CALLS} }" + r"""
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    return 0 if libc.syscall(*(ctypes.c_long(a) for a in args)) >= 0 else ctypes.get_errno()
def opened(path, flags, data=None, at=None):
    try:
        fd = os.open(path, flags)
        try:
            if at is not None: os.lseek(fd, at, 0)
            if data is not None: os.write(fd, data)
        finally: os.close(fd)
    except OSError as e: return e.errno
    return 0
def tried(pid, at):
    own = ctypes.create_string_buffer(b'forged!!', 8)
    local, remote = ((ctypes.c_long * 2)(ctypes.addressof(own) if i == 0 else at, 8) for i in range(2))
    vectors = ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0
    zero = (ctypes.c_ulong * 2)(0, 0)
    found = {
        'write its memory': opened(f'/proc/{pid}/mem', os.O_RDWR, bytes(own), at),
        'process_vm_writev': call(n['process_vm_writev'], pid, *vectors),
        'process_vm_readv': call(n['process_vm_readv'], pid, *vectors),
        'clear_refs': opened(f'/proc/{pid}/clear_refs', os.O_WRONLY, b'1'),
        'oom_score_adj': opened(f'/proc/{pid}/oom_score_adj', os.O_WRONLY, b'1000'),
        'kcmp': call(n['kcmp'], os.getpid(), pid, 1, 0, 0),
        'limits': call(n['prlimit64'], pid, 4, ctypes.addressof(zero), 0),  # RLIMIT_CORE
        'ioprio_set': call(n['ioprio_set'], 1, pid, (3 << 13)),
        'ptrace': call(n['ptrace'], 0x4206, pid, 0, 0),  # PTRACE_SEIZE, which does not stop it
    }
    handle = libc.syscall(n['pidfd_open'], pid, 0)
    found['a descriptor'] = call(n['pidfd_getfd'], handle, 0, 0) if handle >= 0 else None
    if handle >= 0: os.close(handle)
    return found
"""
REFUSED = ("write its memory", "process_vm_writev", "process_vm_readv", "clear_refs", "oom_score_adj", "kcmp", "limits", "ioprio_set", "ptrace", "a descriptor")

# Waits for processes other than the given ones, attempts each action on each of them, and records which actions the kernel refused.
WATCHER = TRIES + r"""
import sys, json
known, at, mode = {int(p) for p in sys.argv[1].split(',')} | {1, os.getpid()}, int(sys.argv[2]), sys.argv[3]
print('ready', flush=True)
seen = []
while True:
    for pid in [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in known]:
        found = tried(pid, at)
        try:
            os.setpriority(os.PRIO_PROCESS, pid, 19)
            os.sched_setaffinity(pid, {0})
            for s in (signal.SIGSTOP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGCONT): os.kill(pid, s)
            if mode == 'write':
                # What another process has open can be opened: bytes in the middle of the stream make it one that the new worker refuses.
                for fd in os.listdir(f'/proc/{pid}/fd'):
                    if os.readlink(f'/proc/{pid}/fd/{fd}').startswith('pipe:') and int(fd) > 2:
                        os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK), b'forged!!' * 512)
        except OSError: pass
        known.add(pid)
        seen.append(found)
        with open('/workspace/seen.new', 'w') as f: f.write(json.dumps(seen))
        os.rename('/workspace/seen.new', '/workspace/seen')
"""


class Copies(rawmcp.ServerCase):
    CONFIG = {"limits": {"memory": "512M"}, "pool": 0}

    BEGIN = TRIES + (
        "import subprocess, sys, json\nsecret = ctypes.create_string_buffer(b'the true', 8)\nat = ctypes.addressof(secret)\n"
        "def others():\n    return [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\nblock = bytearray(b'x') * (20 << 20)\nNone"
    )

    def refused(self, found):
        self.assertEqual([name for name in REFUSED if found[name] == 0], [], found)

    def watch(self, mode):
        self.ok(
            f"if os.path.exists('/workspace/seen'): os.unlink('/workspace/seen')\nwatcher = subprocess.Popen([sys.executable, '-c', {WATCHER!r}, ','.join(map(str, [os.getpid(), *others()])), str(at), {mode!r}],"
            " stdout=subprocess.PIPE)\nassert watcher.stdout.readline() == b'ready\\n'"
        )

    def seen(self):
        """Returns what the watcher found out about each new process (copies, the writer), and ends the watcher; None if it saw none in time."""
        code = "end = time.monotonic() + 10\nwhile not os.path.exists('/workspace/seen') and time.monotonic() < end: time.sleep(0.01)\nwatcher.kill(); _ = watcher.wait()\njson.load(open('/workspace/seen')) if os.path.exists('/workspace/seen') else None"
        return self.value(code)

    def test_a_checkpoint_and_its_writer(self):
        cell = self.ok(self.BEGIN, checkpoint="a")
        self.assertTrue(cell.get("checkpoint"), cell)
        copies = self.value("[tried(pid, at) for pid in others()]")
        self.assertGreaterEqual(len(copies), 1)
        for found in copies:
            self.refused(found)
        seen = None
        for name in "bcde":  # on a busy machine a writer may end before the watcher, which is at rest, runs
            self.watch("slow")
            cell = self.cell("[secret.raw.decode(), len(block)]", session=f"{self.session}-{name}", **{"from": self.session + "@a"})
            self.assertEqual(cell["status"], "ok", cell)
            self.assertEqual(cell["value"]["json"], ["the true", 20 * MB])
            seen = self.seen()
            if seen:
                break
        self.assertTrue(seen)
        for found in seen:
            self.refused(found)
        # The session itself, and its checkpoint afterwards.
        self.assertEqual(self.value("secret.raw.decode()", restore="a"), "the true")

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_bytes_in_the_middle(self):
        """Writes bytes into a valid stream: the branch fails or is complete, and nothing else changes. The control is the next branch."""
        self.ok(self.BEGIN, checkpoint="a")
        self.watch("write")
        cell = self.cell("[secret.raw.decode(), len(block)]", session=self.session + "-b", wait=60 * harness.SLOW, **{"from": self.session + "@a"})
        if cell["status"] == "ok":
            self.assertEqual(cell["value"]["json"], ["the true", 20 * MB])
        else:
            self.assertEqual(cell["error"]["type"], "BranchError", cell)
        self.seen()
        cell = self.cell("secret.raw.decode()", session=self.session + "-c", **{"from": self.session + "@a"})
        self.assertEqual(cell["status"], "ok", cell)

    def test_the_control(self):
        """Runs the same attempts outside, against a child process."""
        code = TRIES + "secret = ctypes.create_string_buffer(b'the true', 8)\nlibc.prctl(0x59616d61, -1, 0, 0, 0)\nprint('here', ctypes.addressof(secret), flush=True)\ntime.sleep(100)"
        with subprocess.Popen([harness.PYTHON, "-c", code], stdout=subprocess.PIPE) as child:
            try:
                at = int(child.stdout.readline().split()[1])
                space = {}
                exec(TRIES, space)  # pylint: disable=exec-used
                found = space["tried"](child.pid, at)
                self.assertEqual([name for name in REFUSED if found[name] != 0], [], found)
            finally:
                child.kill()

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_writers_that_are_stopped(self):
        """Stops the writers of a branch of the session, for which its worker waits, and of its checkpoint: no call exceeds its limit."""
        self.ok(self.BEGIN, checkpoint="a")
        self.ok(
            "stopper = subprocess.Popen([sys.executable, '-c', \"import os, signal, sys, time\\nknown = {1, os.getpid(), *map(int, sys.argv[1:])}\\nwhile True:\\n"
            " for p in os.listdir('/proc'):\\n  if p.isdigit() and int(p) not in known:\\n   try: os.kill(int(p), signal.SIGSTOP)\\n   except OSError: pass\\n\", *map(str, [os.getpid(), *others()])])"
        )
        for n, origin in enumerate((self.session + "@a", self.session)):
            cell = self.cell("1", session=f"{self.session}-{n}", wait=100 * harness.SLOW, **{"from": origin})
            self.assertEqual((cell["status"], cell["error"]["type"]), ("error", "BranchError"), cell)
        cell = self.cell("secret.raw.decode()", wait=100 * harness.SLOW)
        self.assertEqual(cell["status"], "ok", cell)
        self.assertEqual(cell["value"]["json"], "the true", cell)


# A process is not dumpable if it may not read its own executable. /proc with hidepid=ptraceable hides it here.
HIDDEN = r"""
import os, shutil, subprocess, sys, time
def begin(mode):
    shutil.copy(os.path.realpath(sys.executable), '/tmp/program')
    os.chmod('/tmp/program', mode)
    code = 'import itertools, os, time\nfor n in itertools.count():\n fd = os.open("/workspace/count", os.O_WRONLY | os.O_CREAT, 0o600)\n os.write(fd, b"%d" % n)\n os.close(fd)\n time.sleep(0.01)'
    child = subprocess.Popen(['/tmp/program', '-I', '-S', '-c', code], env={**os.environ, 'PYTHONHOME': sys.base_prefix}, start_new_session=True)
    while not os.path.exists('/workspace/count'): time.sleep(0.01)
    with open('/tmp/pid', 'w') as f: f.write(str(child.pid))
    return str(child.pid) in os.listdir('/proc')
def look():
    with open('/tmp/pid') as f: pid = int(f.read())
    def count():
        try:
            with open('/workspace/count') as f: return f.read()
        except OSError: return None
    before = count()
    time.sleep(0.3)
    try: os.kill(pid, 0)
    except OSError as e: return [e.errno, before == count()]
    return [0, before == count()]
"""


class Hidden(rawmcp.ServerCase):
    CONFIG = {"pool": 0}
    RUNS, GONE = [0, False], [errno.ESRCH, True]

    def begun(self, mode):
        """A session with a copy and such a process, which does not end with a cell that ends well."""
        self.ok(HIDDEN, checkpoint="a")
        shown = self.value(f"begin({mode:#o})")
        self.assertEqual(self.value("look()"), self.RUNS, "the control")
        return shown

    def test_none_is_left_after_a_death(self):
        self.assertIs(self.begun(0o111), False)
        cell = self.cell("os._exit(3)")
        self.assertEqual(cell["state"], "restored", cell)
        self.assertEqual(self.value("look()"), self.GONE)

    def test_none_is_left_after_a_restore(self):
        self.assertIs(self.begun(0o111), False)
        self.assertEqual(self.value("look()", restore="a"), self.GONE)

    def test_none_changes_what_was_rolled_back(self):
        self.ok(HIDDEN)
        cell = self.cell("assert not begin(0o111) and look() == [0, False]\n1 / 0", on_error="rollback")
        self.assertEqual((cell["state"], cell["error"]["type"]), ("rolled_back", "ZeroDivisionError"), cell)
        self.assertEqual(self.value("[*look(), os.path.exists('/workspace/count')]"), [*self.GONE, False])

    def test_control_one_that_is_shown(self):
        self.assertIs(self.begun(0o755), True)
        self.assertEqual(self.cell("os._exit(3)")["state"], "restored")
        self.assertEqual(self.value("look()"), self.GONE)


# `module` of the guest that writes what a branch gets.
FIND_ARCHIVE = """
import os, sys
frame = sys._getframe()
while type(frame.f_locals.get('self')).__name__ != 'Session': frame = frame.f_back
module = sys.modules[type(frame.f_locals['self']._branches).__module__]
"""

# Inserts a run of one page into the dump of this session, at its place in the order of addresses: of the code that loads it, or of data.
FORGE_RUN = FIND_ARCHIVE + r"""
import struct
write = module.archive.write
def forged(fd):
    write(fd)
    r, w = os.pipe()
    out = os.dup(fd)
    os.dup2(w, fd)
    os.close(w)
    if os.fork() == 0:
        os.close(fd)
        source, written = os.fdopen(r, 'rb'), 0
        def put(data):
            nonlocal written
            written += len(data)
            while data: data = data[os.write(out, data):]
        head = source.read(80)
        put(head)
        put(source.read(272 * struct.unpack_from('<Q', head, 24)[0]))
        waits = True
        while True:
            start, pages, skip, mapped = struct.unpack('<QQII', source.read(24))
            if waits and (start > place or pages == 0):
                put(struct.pack('<QQII', place, 1, 0, 0) + payload)
                waits = False
            source.read(skip)
            data = source.read(pages * 4096)
            fill = -(written + 24) % 4096 if mapped else 0
            put(struct.pack('<QQII', start, pages, fill, mapped) + bytes(fill) + data)
            if pages == 0: os._exit(0)
    os.close(out); os.close(r)
"""


class BranchFiles(rawmcp.ServerCase):
    """The sealed memfd in which the state of a session reaches its branches."""

    CONFIG = {"limits": {"memory": "256M"}, "profiles": {"small": {"limits": {"memory": "64M"}, "agent": True}}}

    def branch(self, code, to):
        return self.cell(code, session=to, **{"from": self.session})

    def files(self):
        """{inode: a path that opens it} of such files that processes of the server have mapped."""
        found = {}
        for pid in harness.descendants(self.server.process.pid):
            try:
                with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as f:
                    found.update({line.split()[4]: f"/proc/{pid}/map_files/{line.split()[0]}" for line in f if "/memfd:branch" in line})
            except OSError:
                pass  # it has ended
        return found

    def test_no_branch_has_the_file(self):
        """4. The branch has mappings of the file, and neither a descriptor nor a path that opens it. The control: what it has otherwise."""
        self.ok(f"import os\nx = bytearray(b'x') * {8 * MB}; None")
        found = self.branch(
            "def reads(path):\n    try: return os.open(path, os.O_RDONLY) >= 0\n    except OSError as e: return e.errno\n"
            "maps = [l.split()[0] for l in open('/proc/self/maps') if '/memfd:branch' in l]\n"
            "links = [os.readlink('/proc/self/fd/%d' % fd) for fd in map(int, os.listdir('/proc/self/fd')) if os.path.lexists('/proc/self/fd/%d' % fd)]\n"
            "[len(maps) > 0, [l for l in links if 'branch' in l], reads('/proc/self/map_files/' + maps[0]), reads('/proc/self/exe')]", "look")["value"]["json"]
        self.assertEqual(found[:2], [True, []])
        self.assertIn(found[2], (errno.EPERM, errno.ENOENT, errno.EACCES))
        self.assertIs(found[3], True)

    def test_no_branch_changes_what_another_reads(self):
        """4. Branches of one state map the same pages: what one writes, drops, punches or maps again is its own."""
        self.ok(f"import ctypes, mmap, os\nx = bytearray(b'x') * {8 * MB}; None")
        results = self.cell(
            "libc = ctypes.CDLL(None, use_errno=True)\nat = (ctypes.addressof((ctypes.c_char * len(x)).from_buffer(x)) + (1 << 20)) & ~65535\n"
            "def call(f, *args):\n    ctypes.set_errno(0)\n    return 0 if f(*args) == 0 else ctypes.get_errno()\n"
            "page, size = ctypes.c_void_p(at), ctypes.c_size_t(1 << 20)\nfound = None\n"
            "if branch == 1:\n    x[:] = b'y' * len(x)\n"
            "    found = [call(libc.madvise, page, size, 9), call(libc.msync, page, size, 4), call(libc.mprotect, page, size, 3), call(libc.madvise, page, size, 4)]\n"
            "    ctypes.memset(at, 0x7a, 1 << 20)\n"
            "found", session="same", branches=3, **{"from": self.session})["branches"]
        removed, *others = results[0]["value"]["json"]
        self.assertNotEqual(removed, 0)  # MADV_REMOVE punches a hole into a shared mapping only
        self.assertEqual(others, [0, 0, 0])
        for name, counts in (("same-1", [0, 7 * MB, MB]), ("same-2", [8 * MB, 0, 0]), ("same-3", [8 * MB, 0, 0]), (None, [8 * MB, 0, 0])):
            self.assertEqual(self.value("[x.count(b) for b in (b'x', b'y', b'z')]", session=name or self.session), counts)
        self.assertEqual(self.cell("x.count(b'x')", session="late", branches=2, **{"from": "same-2"})["branches"][1]["value"]["json"], 8 * MB)

    @unittest.skipUnless(os.geteuid() == 0, "opens mappings of other processes")
    def test_the_seals_hold(self):
        """4. No process can change the file, even on the host; it goes with the last branch."""
        before = self.files().keys()
        self.ok(f"x = bytearray(b'x') * {8 * MB}; None")
        for name in ("b1", "b2"):
            self.assertEqual(self.branch("len(x)", name)["status"], "ok")
        files = {inode: path for inode, path in self.files().items() if inode not in before}
        self.assertEqual(len(files), 2)
        for path in files.values():
            try:
                fd = os.open(path, os.O_RDWR)
            except PermissionError:
                self.skipTest("may not open the mappings of other processes")
            try:
                self.assertEqual(os.fstat(fd).st_mode & 0o777, 0)
                for change in (lambda: os.pwrite(fd, b"y", 1 << 20), lambda: os.ftruncate(fd, 0), lambda: os.ftruncate(fd, 1 << 30), lambda: mmap.mmap(fd, 4096)):
                    with self.assertRaises(PermissionError):
                        change()
                self.assertIn(b"x" * 4096, os.pread(fd, 40 * MB, 0))
            finally:
                os.close(fd)
        self.ok("1", session="b1", reset=True)
        self.assertTrue(harness.wait_until(lambda: len(self.files().keys() - before) == 1))
        self.ok("1", session="b2", reset=True)
        self.assertTrue(harness.wait_until(lambda: not self.files().keys() - before))

    @unittest.skipUnless(os.path.exists("/sys/fs/cgroup/memory"), "needs memory groups of version 1")
    def test_neither_session_pays_for_the_file(self):
        """4. The file is charged to a group beside those of the sessions; what a branch writes, to the branch."""
        self.ok(f"x = bytearray(b'x') * {40 * MB}; None")

        def used():
            found = {}
            for path in glob.glob(f"/sys/fs/cgroup/memory/**/cloister-{self.server.process.pid}-*/sandboxes/**/[st]-*/memory.usage_in_bytes", recursive=True):
                with open(path, encoding="ascii") as f:
                    found[path.split("/")[-2]] = int(f.read())
            return found

        before = used()
        if not before:
            self.skipTest("has no control groups")
        several = self.cell("x.count(b'x')", session="b", branches=4, **{"from": self.session})
        self.assertEqual([b["status"] for b in several["branches"]], ["ok"] * 4)
        new = {name: size for name, size in used().items() if size > before.get(name, 0) + 20 * MB}
        self.assertEqual([(name[0], size > 40 * MB) for name, size in new.items()], [("t", True)])
        self.ok("x[:] = bytes(len(x))", session="b-1")
        new = {name: size for name, size in used().items() if size > before.get(name, 0) + 20 * MB}
        self.assertEqual(sorted(name[0] for name in new), ["s", "t"])

    def written(self):
        """Bytes of the file that is being written, 0: there is none."""
        most = 0
        for pid in harness.descendants(self.server.process.pid):
            with contextlib.suppress(OSError):
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    path = f"/proc/{pid}/fd/{fd}"
                    if os.readlink(path).startswith("/memfd:branch"):
                        most = max(most, os.stat(path).st_size)
        return most

    @unittest.skipUnless(os.geteuid() == 0, "reads descriptors of other processes")
    def test_a_state_without_an_end(self):
        """4. It ends at twice the memory of its session and room for files, and no branch begins with it."""
        bound = (2 * 64 + 256) * MB
        self.ok(FIND_ARCHIVE + "def endless(fd):\n    block = bytes(1 << 20)\n    while True: os.write(fd, block)\nmodule.archive.write = endless\nx = 1", profile="small")
        call = self.server.start_call("x", session="endless", **{"from": self.session})
        most = 0
        while not call.done():
            most = max(most, self.written())
        self.assertEqual(call.result()["structuredContent"]["status"], "error")
        self.assertLessEqual(most, bound)
        self.assertGreater(most, bound // 4)
        self.assertEqual(self.value("x"), 1)

    def test_a_run_that_replaces_the_loader(self):
        """4. Code of a dump does not run before the descriptor is closed. The control: a run for data is taken."""
        self.ok("x = 1\nplaces = [(int(l.split('-')[0], 16), l.split()[1]) for l in open('/proc/self/maps') if '/memfd:cloister-' in l]\n"
                "import ctypes\nown = ctypes.create_string_buffer(3 * 4096)" + FORGE_RUN + "module.archive.write = forged\nNone")
        for number in range(2):
            self.ok(f"place = [p for p, kind in places if kind == 'r-xp'][0] + {number} * 4096; payload = b'\\xcc' * 4096")
            cell = self.branch("x", f"code-{number}")
            self.assertIn("could not be set up", cell.get("error", {}).get("message", ""), cell)  # the loader has ended by itself
        self.ok("place = -(-ctypes.addressof(own) // 4096) * 4096; payload = b'\\xcc' * 4096")
        self.assertEqual(self.branch("bytes(own).count(b'\\xcc')", "data").get("value", {}).get("json"), 4096)


# A module of `preload` that fills a block of the heap, and has the kernel clear a part of another one in each child.
KEEPER = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype = ctypes.c_void_p
def block(byte):
    at = libc.malloc(ctypes.c_size_t({MB}))
    ctypes.memset(at, byte, {MB})
    return (at + 65536) & ~65535
place, wiped = block(0x69), block(0x6a)
result = libc.madvise(ctypes.c_void_p(wiped), ctypes.c_size_t(65536), 18)  # MADV_WIPEONFORK
"""
READER = """
import ctypes, keeper, os, mmap
libc = ctypes.CDLL(None, use_errno=True)
def kind(at):
    for line in open('/proc/self/maps'):
        begin, end = (int(n, 16) for n in line.split()[0].split('-'))
        if begin <= at < end: return line.split(None, 5)[5:][0].strip() if len(line.split(None, 5)) > 5 else ''
def seen():
    return [keeper.result, ctypes.string_at(keeper.wiped, 65536).count(0), ctypes.string_at(keeper.wiped - 9, 9).decode(),
            ctypes.string_at(keeper.place, 65536).count(b'i')]
def call(f, *args):
    ctypes.set_errno(0)
    return 0 if f(*(ctypes.c_long(a) for a in args)) != -1 else ctypes.get_errno()
"""


class HeapImage(harness.Case):
    """The sealed memfd that has the heap of a warm template: 4. Sessions have the same pages until they write to them."""

    SEEN = [0, 65536, "j" * 9, 65536]

    def serve(self):
        place = subprocess.run([harness.PYTHON, "-c", "import sysconfig; print(sysconfig.get_paths()['stdlib'])"],
                               capture_output=True, text=True, check=True).stdout.strip()
        package = self.path("keeper")
        os.mkdir(package)
        os.chmod(self.dir, 0o755)
        with open(os.path.join(package, "__init__.py"), "w", encoding="ascii") as f:
            f.write(KEEPER)
        self.server = rawmcp.RawServer("--config", self.config(
            pool=0, preload=["keeper"], limits={"memory": "256M"},
            mounts=[{"source": package, "target": place + "/keeper"}]))
        self.addCleanup(self.server.free)
        self.server.initialize()
        names = itertools.count()
        self.assertTrue(harness.wait_until(
            lambda: "/memfd:heap" in self.value(READER + "kind(keeper.place)", f"w{next(names)}"), step=0.3))

    def value(self, code, session, **arguments):
        cell = self.server.cell(code, session=session, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")

    def test_pages_of_the_template(self):
        self.serve()
        self.shares_nothing_that_is_written()
        self.stays_cleared()

    def shares_nothing_that_is_written(self):
        self.value(READER + "None", "b")
        self.value(READER + "None", "a")
        self.assertEqual(self.value("seen()", "a"), self.SEEN)
        self.assertNotIn("memfd", self.value("kind(keeper.wiped)", "a"))
        size, remove = 65536, 9
        self.assertEqual(self.value(
            "links = [os.readlink('/proc/self/fd/%d' % fd) for fd in map(int, os.listdir('/proc/self/fd')) if os.path.lexists('/proc/self/fd/%d' % fd)]\n"
            "[l for l in links if 'heap' in l or 'draft' in l]", "a"), [])
        # Neither punches a hole into the file, nor makes a mapping that others have too, nor opens it.
        found = self.value(
            f"own = [call(libc.madvise, keeper.place, {size}, {remove}), call(libc.mremap, keeper.place, 0, {size}, 1)]\n"
            "name = [l.split()[0] for l in open('/proc/self/maps') if '/memfd:heap' in l][0]\n"
            "try: own.append(os.open('/proc/self/map_files/' + name, os.O_RDWR))\nexcept OSError as e: own.append(e.errno)\n"
            "try: own.append(os.open('/proc/self/mem', os.O_RDWR))\nexcept OSError as e: own.append(e.errno)\nown", "a")
        self.assertEqual(found[:2], [errno.EACCES, errno.EINVAL])
        for number in found[2:]:
            self.assertIn(number, (errno.EPERM, errno.ENOENT, errno.EACCES))
        # The control: this writes.
        self.assertEqual(self.value(
            "ctypes.memset(keeper.place, 0x61, 8192); libc.msync(ctypes.c_void_p(keeper.place), ctypes.c_size_t(8192), 4)\n"
            "ctypes.string_at(keeper.place, 65536).count(b'a')", "a"), 8192)
        for name in ("b", "late"):
            self.assertEqual(self.value(READER + "seen()", name), self.SEEN)
        self.assertEqual(self.value("ctypes.string_at(keeper.place, 65536).count(b'a')", "a-b", **{"from": "a"}), 8192)

    def stays_cleared(self):
        """In two sessions, a branch and after a restore."""
        self.assertEqual(self.value("x = 1\nseen()", "b", checkpoint="p"), self.SEEN)
        self.assertEqual(self.value("seen()", "c", **{"from": "b"}), self.SEEN)
        self.value("ctypes.memset(keeper.place, 0, 65536); ctypes.memset(keeper.wiped, 7, 65536); x = 2", "b")
        self.assertEqual(self.value("[x, *seen()]", "b", restore="p"), [1, *self.SEEN])
        self.assertEqual(self.value("seen()", "d", **{"from": "b@p"}), self.SEEN)


if __name__ == "__main__":
    harness.main()
