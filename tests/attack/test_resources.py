"""Classes 68 to 71, 82, 84 and 87: memory and files. Every attack is bounded, so that a limit that does not hold cannot harm the machine."""

import glob
import json
import os
import shutil
import tempfile
import time

import harness
import rawmcp
from resources import INSIDE, LIMIT, MIB, RESERVE, Case


class Memory(Case):
    """68, 69."""

    def setUp(self):
        super().setUp()
        self.assertEqual(self.value("1", session="elsewhere"), 1)

    def test_python_objects(self):
        self.held("""
kept = []
for i in range(0, MOST, 8):
    kept.append(b'x' * (8 * MIB))
    taken(i + 8)
""")

    def test_one_mapping(self):
        self.held("take(MOST * MIB, PRIVATE | ANON | POPULATE)\ntaken(MOST)")

    def test_children(self):
        """Each below the limit: only their sum is above."""
        cell = self.held("""
kept = []
for i in range(0, MOST, 32):
    child(lambda: kept.append(bytearray(32 * MIB)))
    taken(32 * sum(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in children if os.path.exists(f'/proc/{pid}')))
""", ends=("oom", "ok"))
        if cell["status"] == "oom":
            self.assertIn("out of memory", cell["notice"])
        else:  # the control group killed the children
            self.assertLessEqual(cell["peak_memory_bytes"], (LIMIT + RESERVE) * MIB)

    def test_many_children_that_grow_at_once(self):
        """Shared pages are not part of the sum. Each child counts what it has written, in a file that the parent reads."""
        cell = self.held("""
f = open('/dev/shm/count', 'w+b')
f.truncate(8 * 100)
count = mmap.mmap(f.fileno(), 8 * 100)
go = os.pipe()
PARTS = MOST * 16 // 100
growing = {}
for i in range(100):
    pid = os.fork()
    if pid == 0:
        os.close(go[1])
        os.read(go[0], 1)
        kept = []
        for n in range(1, PARTS + 1):
            kept.append(bytearray(b'x') * (64 << 10))
            struct.pack_into('Q', count, 8 * i, n)
        time.sleep(60)
        os._exit(0)
    growing[pid] = i
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.close(go[1])
while growing:
    parts = [struct.unpack_from('Q', count, 8 * i)[0] for pid, i in growing.items() if os.waitpid(pid, os.WNOHANG) == (0, 0)]
    taken(sum(parts) // 16)
    if all(n == PARTS for n in parts):
        break
    growing = {pid: i for pid, i in growing.items() if os.path.exists(f'/proc/{pid}')}
    time.sleep(0.002)
""", ends=("oom", "ok"))
        if cell["status"] == "ok":  # the control group killed some of the children
            self.assertLessEqual(cell["peak_memory_bytes"], (LIMIT + RESERVE) * MIB)

    def test_memfd(self):
        """A file of no file system, written and not mapped."""
        self.held("""
fd = os.memfd_create('m')
part = b'x' * (4 * MIB)
for i in range(0, MOST, 4):
    os.write(fd, part)
    taken(i + 4)
""")

    def test_shared_mapping(self):
        self.held("""
for i in range(0, MOST, 16):
    take(16 * MIB, SHARED | ANON | POPULATE)
    taken(i + 16)
""")

    def test_shared_mapping_of_a_device(self):
        self.held("""
fd = os.open('/dev/zero', os.O_RDWR)
for i in range(0, MOST, 16):
    take(16 * MIB, SHARED | POPULATE, READ | WRITE, fd)
    taken(i + 16)
""")

    def test_dev_zero_reads_zeros(self):
        self.assertEqual(self.value("open('/dev/zero', 'rb').read(9).hex()"), "00" * 9)

    def test_memory_made_read_only(self):
        """RLIMIT_DATA counts what can be written."""
        self.held("""
for i in range(0, MOST, 16):
    at = take(16 * MIB, PRIVATE | ANON | POPULATE)
    if libc.mprotect(at, 16 * MIB, READ):
        fail()
    taken(i + 16)
""")

    def test_mapping_that_grows_down(self):
        """RLIMIT_DATA counts none that is a stack."""
        self.held("""
for i in range(0, MOST, 16):
    take(16 * MIB, PRIVATE | ANON | POPULATE | GROWS)
    taken(i + 16)
""")

    def test_page_tables(self):
        """82. Of pages that are all the zero page: no process has memory, only tables of 4 KiB for every 2 MiB."""
        self.held("""
size = MOST * 256 * 2 * MIB
at = take(size, PRIVATE | ANON | 0x4000, READ)
libc.madvise.argtypes = libc.munmap.argtypes + [ctypes.c_int]
libc.madvise(at, size, 15)
for i in range(MOST * 256):
    ctypes.string_at(at + i * 2 * MIB, 1)
    if i % 4096 == 4095:
        taken((i + 1) // 256)
""")

    def test_threads_of_a_process_whose_first_one_ended(self):
        """/proc/PID shows no memory of such a process, /proc/PID/task/TID does."""
        self.held("""
import threading
kept = []
def leave():
    def hold():
        kept.append(bytearray(32 * MIB))
        os.write(ready_end, b'+')
        time.sleep(60)
    threading.Thread(target=hold).start()
    libc.syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
for i in range(0, MOST, 32):
    ends = os.pipe()
    ready_end = ends[1]
    pid = os.fork()
    if pid == 0:
        leave()
    os.close(ends[1])
    os.read(ends[0], 1)
    children.append(pid)
    taken(32 * sum(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in children if os.path.exists(f'/proc/{pid}')))
time.sleep(1)
""", ends=("oom", "ok") if self.is_counted() else ("oom",))

    def test_copies_that_look_like_programs_being_started(self):
        """clone(CLONE_VFORK) without CLONE_VM: the parent sleeps as in vfork(), and each has memory of its own."""
        if self.is_counted():
            self.skipTest("a control group counts")
        self.held("""
kept = []
def pair():
    kept.append(bytearray(b'x') * (16 * MIB))
    ready = os.pipe()
    if os.fork() == 0:
        if libc.syscall({'x86_64': 56, 'aarch64': 220}[os.uname().machine], 0x4000 | 17, 0, 0, 0, 0) == 0:
            for i in range(0, 16 * MIB, 4096):
                kept[0][i] = 7
            os.write(ready[1], b'+')
            time.sleep(60)
        os._exit(0)
    os.read(ready[0], 1)
for i in range(0, 2 * MOST, 48):
    child(pair)
    taken(24 * sum(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in children if os.path.exists(f'/proc/{pid}')))
time.sleep(1)
""", ends=("oom",))

    def test_memory_handed_from_child_to_child(self):
        """Each process runs only for a short time."""
        if self.is_counted():
            self.skipTest("a control group counts")
        self.held("""
def chain():
    kept = bytearray(b'x') * (24 * MIB)
    ready = os.pipe()
    if os.fork() > 0:
        os.read(ready[0], 1)
        os._exit(0)
    os.write(ready[1], b'+')
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if os.fork() > 0:
            os._exit(0)
for i in range(0, MOST, 24):
    pid = os.fork()
    if pid == 0:
        chain()
    os.waitpid(pid, 0)
    taken(i + 24)
time.sleep(10)
""", ends=("oom",))

    def test_a_lock_that_the_count_waits_for(self):
        """Threads that change their mappings all the time, each with a lock that smaps_rollup needs."""
        if self.is_counted():
            self.skipTest("a control group counts")
        self.held("""
import threading
def busy():
    while True:
        libc.munmap(take(64 * MIB, PRIVATE | ANON, READ), 64 * MIB)
def hold():
    kept.append(bytearray(b'x') * (32 * MIB))
    for _ in range(4):
        threading.Thread(target=busy, daemon=True).start()
kept = []
for i in range(0, MOST, 32):
    child(hold)
    taken(32 * sum(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in children if os.path.exists(f'/proc/{pid}')))
time.sleep(3)
""", ends=("oom",))

    def test_very_many_processes(self):
        """More processes than the monitor scans by itself. The control uses little memory and continues."""
        if self.is_counted():
            self.skipTest("a control group counts")
        config = os.path.join(self.class_dir, "many.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump({"mcpServers": {}, "limits": {"memory": f"{3 * LIMIT}M", "pids": 400}}, f)
        server = rawmcp.RawServer("--config", config, *self.ARGUMENTS)
        self.addCleanup(server.close)
        server.initialize()
        code = INSIDE + "for _ in range(200):\n    child(lambda: None)\ntime.sleep(0.5)\n"
        self.assertEqual(server.cell(code, timeout=30)["status"], "ok")
        cell = server.cell("children.clear()\n"
                           "for _ in range(180):\n    child(lambda: children.append(bytearray(4 * MIB)))\ntime.sleep(5)", timeout=60)
        self.assertEqual(cell["status"], "oom", cell)

    def test_memory_that_is_shared_is_counted_once(self):
        """The control: ten children of a process with a third of the limit, which all see it, are not an attack."""
        self.ok(INSIDE + f"""
kept = b'x' * ({LIMIT // 3} * MIB)
assert all(child(lambda: sum(kept[::4096])) == b'+' for _ in range(10))
time.sleep(0.3)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
""", timeout=30)

    def test_programs_started_by_a_big_process(self):
        """The control: until it execs, a program has the memory of the process that started it."""
        self.ok(INSIDE + f"""
import subprocess
kept = b'x' * ({LIMIT * 2 // 3} * MIB)
end = time.monotonic() + 1
while time.monotonic() < end:
    subprocess.run(['/bin/true'])
""", timeout=30)


class Files(Case):
    """69 to 71, 87."""

    def test_bytes(self):
        """69, 71. All files together have at most half of the memory limit, and the session continues."""
        written = self.value("""
import os
sizes = {}
for place in ('/tmp', '/workspace', '/dev/shm'):
    with open(f'{place}/big', 'wb', buffering=0) as f:
        try:
            while sizes.get(place, 0) < 1 << 29:
                sizes[place] = sizes.get(place, 0) + f.write(b'x' * (1 << 20))
        except OSError as e:
            assert e.errno == 28, e
    os.unlink(f'{place}/big')
    open(f'{place}/again', 'w').write('x')
sizes
""", timeout=30)
        self.assertEqual(set(written), {"/tmp", "/workspace", "/dev/shm"})
        self.assertLessEqual(sum(written.values()), LIMIT * MIB // 2)
        self.assertEqual(self.value("1 + 1"), 2)

    def test_inodes(self):
        """70."""
        made, why = self.value("""
n = 0
try:
    while n < 100000:
        os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError as e:
    why = e.errno
import shutil
for i in range(n):
    os.unlink(f'/tmp/{i}')
open('/tmp/again', 'w').write('x')
[n, why]
""".replace("n = 0", "import os\nn = 0", 1), timeout=30)
        self.assertEqual(why, 28)
        self.assertLess(made, 20000)

    def test_synced_writes(self):
        """84. Nothing inside is on a disk: the host's own fsync does not wait for it."""
        def synced():
            with tempfile.TemporaryFile(dir="/var/tmp") as f:
                f.write(b"x" * 4096)
                f.flush()
                start = time.monotonic()
                os.fsync(f.fileno())
                return time.monotonic() - start

        idle = max(synced() for _ in range(5))
        self.ok("1")
        pending = self.server.start_call("""
import os, time
fd = os.open('/tmp/f', os.O_CREAT | os.O_WRONLY)
end = time.monotonic() + 1
while time.monotonic() < end:
    os.pwrite(fd, b'x' * (1 << 20), 0)
    os.fsync(fd)
""", session=self.session)
        busy = max(synced() for _ in range(5))
        self.assertEqual(pending.result(30)["structuredContent"]["status"], "ok")
        self.assertLess(busy, idle * 10 + harness.AT_ONCE)

    def test_past_the_page_cache(self):
        """84. No read of a file of the image goes past the page cache, and no call starts one or waits for the disk. The control: outside, reads do,
        and the calls notice that there is no such file."""
        code = """
import ctypes, errno, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
def tell(function, *arguments):
    try:
        function(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
fd = os.open(path, os.O_RDONLY)
how = ctypes.create_string_buffer(24)
value = [tell(os.open, path, os.O_RDONLY | os.O_DIRECT), tell(fcntl.fcntl, fd, fcntl.F_SETFL, os.O_DIRECT),
         libc.syscall(437, -100, path.encode(), how, 24) >= 0 or errno.errorcode[ctypes.get_errno()]]
value += [tell(call, *arguments) for call, arguments in ((os.fsync, (9999,)), (os.fdatasync, (9999,)), (os.posix_fadvise, (9999, 0, 0, os.POSIX_FADV_WILLNEED)))]
value += [libc.readahead(9999, ctypes.c_long(0), 4096), libc.sync_file_range(9999, ctypes.c_long(0), ctypes.c_long(0), 7)]
"""
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as f:
            outside = {"path": f.name}
            exec(code, outside)  # pylint: disable=exec-used
            os.close(outside["fd"])
        self.assertEqual(outside["value"], [None, None, True, "EBADF", "EBADF", "EBADF", -1, -1])
        self.assertEqual(self.value(f"path = __import__('os').__file__\n{code}value"), ["EINVAL", "EINVAL", "ENOSYS", None, None, None, 0, 0])

    def test_sync(self):
        """87."""
        code = "import ctypes, errno\nl = ctypes.CDLL(None, use_errno=True)\n[l.syscall(n, 0) and errno.errorcode[ctypes.get_errno()] for n in ({}, {})]"
        sync, syncfs = {"x86_64": (162, 306), "aarch64": (81, 267)}[os.uname().machine]
        self.assertEqual(self.value(code.format(sync, syncfs)), ["ENOSYS", "ENOSYS"])
        # The control, of one file.
        self.ok("import os\nwith open('/tmp/f', 'w') as f: os.fsync(f.fileno())")


PORTALOCKER = r"""
import os, sys
sys.path.insert(0, place)
import portalocker
path = folder + "/portalocker.lock"
def taken_elsewhere(flags):
    pid = os.fork()
    if pid == 0:
        try:
            portalocker.lock(open(path, "a"), flags | portalocker.LOCK_NB)
            os._exit(1)
        except portalocker.LockException:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
S, X = portalocker.LOCK_SH, portalocker.LOCK_EX
value = []
with portalocker.Lock(path, timeout=1) as f:
    f.write("x")
    value.append([taken_elsewhere(S), taken_elsewhere(X)])
value.append([taken_elsewhere(S), taken_elsewhere(X)])
with open(path) as f:
    portalocker.lock(f, S | portalocker.LOCK_NB)
    value.append([taken_elsewhere(S), taken_elsewhere(X)])
    portalocker.unlock(f)
    value.append([taken_elsewhere(S), taken_elsewhere(X)])
again = portalocker.RLock(path)
again.acquire(), again.acquire(), again.release()
value.append(taken_elsewhere(X))
again.release()
value.append(taken_elsewhere(X))
"""


class Portalocker(harness.Case):
    def test_as_outside(self):
        """41. Locks of portalocker exclude other processes of the session as they do outside. The control is the same program outside."""
        packages = glob.glob(os.path.join(os.environ.get("CLOISTER_VENV", ""), "lib", "python3*", "site-packages", "portalocker"))
        self.assertTrue(packages, "portalocker is not in CLOISTER_VENV: run './quickstart test'")
        place = tempfile.mkdtemp(dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place)
        shutil.copytree(packages[0], f"{place}/portalocker", ignore=shutil.ignore_patterns("__pycache__"))
        os.chmod(place, 0o755)
        outside = {"place": place, "folder": self.dir}
        exec(PORTALOCKER, outside)  # pylint: disable=exec-used
        self.assertEqual(outside["value"], [[0, 0], [1, 1], [1, 0], [1, 1], 0, 1])
        server = rawmcp.RawServer("--config", self.config(mounts=[{"source": place, "target": "/data"}]))
        self.addCleanup(server.free)
        server.initialize()
        cell = server.cell(f"place, folder = '/data', '/workspace'\n{PORTALOCKER}\nvalue")
        self.assertEqual((cell["status"], cell.get("value", {}).get("json")), ("ok", outside["value"]), cell)
        server.close()


class Syncs(harness.Case):
    def check_sum(self, server, flood):
        """Sessions of a profile have a bound together, and each of them its part."""
        names = [f"many{i}" for i in range(8)]
        for name in names:
            server.cell("1", session=name, profile="rw")
        started = time.monotonic()
        calls = [server.start_call(flood + "flood(['/data/f'], 4, 1)", session=name, profile="rw", timeout=60) for name in names]
        done = [call.result()["structuredContent"]["value"]["json"][0] for call in calls]
        self.assertLessEqual(sum(done), 400 * (time.monotonic() - started) + 16 + len(names), done)
        self.assertGreaterEqual(min(done), sum(done) // 40, done)

    def test_syncs_with_mounts(self):
        """84. Eight processes that sync in a loop: nothing happens where no mount is writable; else init bounds their number. As root,
        no mount can be writable."""
        writable = os.geteuid() != 0
        place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        mount = {"source": place, "target": "/data"}
        config = self.config(profiles={"ro": {"agent": True, "mounts": [mount]}, "rw": {"agent": True, "mounts": [{**mount, "mode": "rw"}]}})
        server = rawmcp.RawServer("--config", config)
        self.addCleanup(server.free)
        server.initialize()

        def value(code, name):
            cell = server.cell(code, session=name, profile=name, timeout=60)
            self.assertEqual(cell["status"], "ok", cell)
            return cell["value"]["json"]
        flood = """
import errno, mmap, os, time
def flood(paths, seconds, n=8):
    read, write = os.pipe()
    for i in range(n):
        if os.fork() == 0:
            f = os.open(paths[i % len(paths)], os.O_RDONLY)
            calls = [lambda: os.fsync(f), lambda: os.fdatasync(f)]
            end, done = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                calls[done % 2]()
                done += 1
            os.write(write, b"%d\\n" % done)
            os._exit(0)
    os.close(write)
    done = list(map(int, open(read).read().split()))
    for _ in range(n):
        os.wait()
    return done
def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
"""
        # The control: what does nothing has no bound.
        self.assertGreater(sum(value(flood + "flood([os.__file__], 1)", "ro")), 5000)
        self.assertEqual(value("[refused(os.fsync, 9999)]", "ro"), [None])
        if not writable:
            return
        done = value(flood + "open('/data/f', 'w').close()\nflood(['/data/f', os.__file__], 4)", "rw")
        self.assertEqual(len(done), 8)
        self.assertLessEqual(sum(done), 4.5 * 100 + 16 + 8)
        self.assertGreaterEqual(min(done), sum(done) // 20, done)  # each of them continues
        self.assertGreater(sum(done), 100)
        self.check_sum(server, flood)
        # They are real calls: they fail as ever, and what a mapping has written is in the file.
        self.assertEqual(value("""
f = os.open('/data/f', os.O_RDWR)
os.ftruncate(f, 4096)
m = mmap.mmap(f, 4096)
m[:5] = b'hello'
m.flush()
[refused(os.fsync, 9999), refused(os.fsync, os.pipe()[0]), refused(os.open, '/data/g', os.O_CREAT | os.O_WRONLY | os.O_DSYNC),
 refused(os.open, '/data/g', os.O_CREAT | os.O_WRONLY | os.O_SYNC), refused(os.pwritev, f, [b'x'], 0, os.RWF_DSYNC), refused(os.pwritev, f, [b'x'], 0, os.RWF_SYNC),
 refused(os.posix_fadvise, f, 0, 0, os.POSIX_FADV_DONTNEED)]""", "rw"), ["EBADF", "EINVAL", "EINVAL", "EINVAL", "ENOTSUP", "ENOTSUP", None])
        with open(os.path.join(place, "f"), "rb") as f:
            self.assertEqual(f.read(5), b"hello")
        self.assertEqual(value("import sqlite3\nc = sqlite3.connect('file:/data/base?nolock=1', uri=True)\nc.execute('create table t (x)')\n"
                               "for i in range(10):\n    c.execute('insert into t values (?)', (i,))\n    c.commit()\nc.execute('select count(*) from t').fetchone()[0]", "rw"), 10)
        # Code that waits for its turn can be interrupted.
        cell = server.cell("import threading\nfor _ in range(40):\n    threading.Thread(target=lambda: [os.fsync(f) for _ in range(1000)], daemon=True).start()\n"
                           "while True: os.fsync(f)", session="rw", profile="rw", timeout=2)
        self.assertEqual(cell["status"], "timeout", cell)
        server.close()


if __name__ == "__main__":
    harness.main()
