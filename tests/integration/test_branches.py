"""Branches: a session that begins with the variables and files of another session, in a new sandbox."""

import json
import os
import time
import unittest

import harness
import outer_filter
import rawmcp

MB = 1 << 20

# The object that runs cells. Code in a sandbox can reach it, so data that it sends for a branch can be hostile.
FIND = (
    "import sys\nframe = sys._getframe()\n"
    "while type(frame.f_locals.get('self')).__name__ != 'Session': frame = frame.f_back\n"
    "ours = frame.f_locals['self']\nbranches = ours._branches\nmodule = sys.modules[type(branches).__module__]\n"
)

POSTURE = f"CALLS = { {call: outer_filter.number(call) for call in ('mount', 'setns', 'bpf', 'ptrace', 'unshare')} }" + """
import os, re, resource
def is_copy(pid):
    try:
        return open(f"/proc/{pid}/oom_score_adj").read() == "500\\n"
    except OSError:
        return True  # it has ended
def look():
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    mounts = [line.split(" - ")[0].split()[3:6] + line.split(" - ")[1].split()[:1] + [re.sub(r"[ug]id=\\d+", "", " ".join(line.split(" - ")[1].split()[2:]))] for line in open("/proc/self/mountinfo")]
    denied = {}
    for name, number in CALLS.items():
        ctypes.set_errno(0)
        libc.syscall(number, 0x10000000, 0, 0, 0, 0)
        denied[name] = ctypes.get_errno()
    return {
        "status": {k: status[k].split() for k in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "NSpid",
                                                   "NSpgid", "SigBlk", "SigIgn", "SigCgt") if k in status},
        "limits": [resource.getrlimit(n) for n in range(16)], "mounts": mounts, "denied": denied, "nice": os.nice(0), "score": open("/proc/self/oom_score_adj").read(),
        "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and not is_copy(p)),
    }
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
"""


class BranchCase(rawmcp.ServerCase):
    SERVERS = {"demo": harness.fixture()}
    CONFIG = {"limits": {"memory": "256M", "pids": 40}, "profiles": {"other": {"agent": True}, "large": {"limits": {"memory": "1G"}, "agent": True},
                                                                     "shared": {"limits": {"memory": "64M"}, "agent": True}}}

    def branch(self, code, to=None, origin=None, **arguments):
        return self.cell(code, session=to or self.session + "-b", **{"from": origin or self.session}, **arguments)

    def branched(self, code, **arguments):
        """Returns the value of the first cell of a branch; the session must be a branch."""
        cell = self.branch(code, **arguments)
        self.assertEqual((cell["status"], cell["state"]), ("ok", "kept"), cell)
        self.assertIn("branched from session", cell["notice"])
        return cell["value"].get("json", cell["value"]["repr"]) if "value" in cell else None

    def refused(self, why, kind="BranchError", **arguments):
        cell = self.branch("1", **arguments)
        self.assertEqual((cell["status"], cell["error"]["type"]), ("error", kind), cell)
        self.assertIn(why, cell["error"]["message"])
        return cell


class Branches(BranchCase):
    def test_both_go_on(self):
        self.ok(
            "import os, random, sqlite3, asyncio, itertools, decimal\n"
            "x = ['first']\ndef f(): return x\ndef steps():\n    yield from range(100)\nstep = steps(); next(step)\n"
            "memory = sqlite3.connect(':memory:'); _ = memory.execute('create table t (a)'); _ = memory.execute('insert into t values (1)')\n"
            "disk = sqlite3.connect('/workspace/d.sqlite'); _ = disk.execute('create table t (a)'); disk.commit()\n"
            "os.makedirs('/workspace/a/b'); os.symlink('b', '/workspace/a/link'); os.chmod('/workspace/a/b', 0o711)\n"
            "with open('/workspace/a/b/data', 'wb') as made: made.write(b'0123456789')\nos.utime('/workspace/a/b/data', (1000, 1000))\n"
            "open('/workspace/sparse', 'wb').truncate(5 << 20)\nopen('/workspace/out/report.txt', 'w').write('r')\n"
            "data = open('/workspace/a/b/data', 'r+b', buffering=0); data.read(4)\nlocal = open('/tmp/scratch', 'w')\n"
            "os.chdir('/workspace/a'); os.environ['A'] = 'b'; os.umask(0o27); random.seed(5)\n"
            "event = asyncio.Event()\nasync def wait():\n    await event.wait()\n    return 'woken'\ntask = asyncio.create_task(wait())\nawait asyncio.sleep(0)"
        )
        code = (
            "event.set()\n"
            "[f(), next(step), memory.execute('select a from t').fetchall(), disk.execute('insert into t values (7)').rowcount, data.read(3).decode(), os.getcwd(),"
            " os.environ['A'], os.umask(0o27), random.random(), os.readlink('link'), oct(os.stat('b').st_mode), os.stat('b/data').st_mtime,"
            " os.stat('../sparse').st_size, os.stat('../sparse').st_blocks, await task, os.path.exists('/workspace/out/report.txt')]"
        )
        before = [["first"], 1, [[1]], 1, "456", "/workspace/a", "b", 0o27, 0.6229016948897019, "b", "0o40711", 1000, 5 * MB, 0, "woken", True]
        got = self.branched(code.replace("memory.execute('select a from t').fetchall()", "[list(r) for r in memory.execute('select a from t')]"))
        self.assertEqual(got, before)
        # Changes in the branch do not appear in the other session, which does the same from the same state.
        self.assertEqual(self.value(code.replace("memory.execute('select a from t').fetchall()", "[list(r) for r in memory.execute('select a from t')]")), before)
        there = self.session + "-b"
        self.ok("x.append('branch'); disk.commit(); open('/workspace/new', 'w').write('b'); os.unlink('b/data')", session=there)
        self.ok("x.append('trunk'); disk.rollback()")
        look = "[x, disk.execute('select count(*) from t').fetchone()[0], os.path.exists('/workspace/new'), os.path.exists('b/data')]"
        self.assertEqual(self.value(look, session=there), [["first", "branch"], 1, True, False])
        self.assertEqual(self.value(look), [["first", "trunk"], 0, False, True])
        inode = "os.stat('b').st_ino"
        self.assertEqual(self.value(inode, session=there), self.value(inode))
        # The branch has the file object, but not the file in /tmp.
        self.assertEqual(self.value("try: local.write('x'); local.flush(); r = 'written'\nexcept OSError as e: r = e.errno\nr", session=there), 9)

    def test_the_notice_and_what_is_gone(self):
        self.ok(
            "import threading, subprocess, socket, os\nevent = threading.Event()\nthreads = [threading.Thread(target=event.wait) for _ in range(2)]\n"
            "for t in threads: t.start()\nchild = subprocess.Popen(['sleep', '1000'])\npair = socket.socketpair()\nr, w = os.pipe()\nNone"
        )
        cell = self.branch("[t.is_alive() for t in threads], child.poll(), len(os.listdir('/proc/self/task'))")
        self.assertIn(f'branched from session "{self.session}"; not in it: 2 threads, 1 process and 4 open descriptors', cell["notice"])
        self.assertEqual(cell["value"]["repr"], "([False, False], -9, 1)")
        self.assertEqual(self.value("try: pair[0].send(b'x')\nexcept OSError as e: n = e.errno\nopened = open('/workspace/x', 'w')\n[n, opened.fileno() in (pair[0].fileno(), pair[1].fileno(), r, w)]",
                                    session=self.session + "-b"), [9, False])
        self.assertEqual(self.value("[t.is_alive() for t in threads] + [child.poll(), pair[0].send(b'x')]"), [True, True, None, 1])
        self.assertNotIn("notice", self.ok("1", session=self.session + "-b"))

    def test_ids_of_the_thread(self):
        """The ids that libc and CPython keep are those of the new process."""
        self.ok("import threading, os, signal, time, ctypes, sys\nlock = threading.RLock()\nhits = []\nsignal.signal(signal.SIGUSR1, lambda *_: hits.append(1))\nNone")
        code = (
            "libc = ctypes.CDLL(None)\nos.kill(os.getpid(), signal.SIGUSR1)\nsignal.raise_signal(signal.SIGUSR1)\nsignal.pthread_kill(threading.get_ident(), signal.SIGUSR1)\n"
            "with lock:\n    with lock: pass\ndone = []\nfor _ in range(8):\n    t = threading.Thread(target=lambda: done.append(threading.get_native_id())); t.start(); t.join()\n"
            "child = os.fork()\nif child == 0: os._exit(signal.raise_signal(signal.SIGTERM) or 3)\n"
            "status = os.waitpid(child, 0)[1]\n[len(hits), len(done), threading.get_native_id() == os.getpid(), status, os.getpid(), signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN]"
        )
        self.assertEqual(self.branched(code), [3, 8, True, 15, 2, True])

    def test_a_branch_of_a_branch_and_its_copy(self):
        self.ok("x = 1")
        self.branched("x += 1", to="b2")
        self.assertEqual(self.branched("x += 1\nx", to="c2", origin="b2"), 3)
        time.sleep(0.5 * harness.SLOW)
        cell = self.cell("import os; os._exit(1)", session="c2")
        self.assertEqual(cell["state"], "restored", cell)
        self.assertEqual([self.value("x", session=s) for s in (self.session, "b2", "c2")], [1, 2, 3])

    def test_tools_in_a_branch(self):
        self.assertEqual(self.value("(await mcp_demo.add(a=1, b=2))"), {"sum": 3})
        self.assertEqual(self.branched("(await mcp_demo.add(a=3, b=4))"), {"sum": 7})
        self.assertEqual(self.value("mcp_demo.add.sync(a=5, b=6)", session=self.session + "-b"), {"sum": 11})

    def test_files_of_the_client(self):
        self.ok("open('/workspace/out/a.txt', 'w').write('a')")
        cell = self.branch("open('/workspace/out/b.txt', 'w').write('b')")
        self.assertEqual([f["path"] for f in cell["files"]], ["b.txt"], cell)
        self.assertTrue(self.written("a.txt", self.session + "-b"))
        self.assertFalse(self.written("b.txt"))

    def test_it_is_held_as_any_sandbox(self):
        """Its limits are those of a new session of the same profile, and its namespaces are not those of the other session."""
        self.ok(POSTURE + "\nown = look()\nNone")
        self.ok(POSTURE + "\nNone", session="fresh")
        fresh = self.value("look()", session="fresh")
        self.assertEqual(self.branched("look()"), fresh)
        self.assertEqual(self.value("own", session=self.session + "-b"), fresh)
        names = "{n: os.readlink('/proc/self/ns/' + n) for n in ('mnt', 'pid', 'net', 'ipc', 'uts', 'user', 'cgroup')}"
        here, there = self.value(names), self.value(names, session=self.session + "-b")
        self.assertEqual([n for n in here if here[n] == there[n] and n != "cgroup"], [])
        # Signals and memory of one session do not reach the other.
        self.ok("import os, signal\nfor p in range(3, 300):\n    try: os.kill(p, 9)\n    except OSError: pass\nNone", session=self.session + "-b")
        self.assertEqual(self.cell("block = bytearray(1 << 30)", session=self.session + "-b")["status"] in ("oom", "error"), True)
        self.assertEqual(self.ok("1")["state"], "kept")

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_much_memory(self):
        size = 200 if harness.WHOLE else 40
        self.ok("1", profile="large")
        self.ok(f"block = bytearray(b'x') * ({size} << 20)\nblock[7] = 8\nNone")
        self.assertEqual(self.branched("[len(block), block[7], block[-1], block.count(b'x')]"), [size * MB, 8, 120, size * MB - 1])

    # ---- memory that is mapped ----

    MAPPED = (
        "def mapped(address=0):\n    found = [l.split('-')[0] + '-' + l.split('-')[1].split()[0] for l in open('/proc/self/maps') if '/memfd:branch' in l]\n"
        "    ends = [[int(n, 16) for n in f.split('-')] for f in found]\n    return [e[1] - e[0] for e in ends if address == 0 or e[0] <= address < e[1]]\n"
        "def address(block):\n    import ctypes\n    return ctypes.addressof((ctypes.c_char * len(block)).from_buffer(block))\n"
    )

    def test_large_blocks_are_mapped(self):
        """Each branch writes to pages of its own, and pays for these only."""
        self.ok(self.MAPPED + f"x = bytearray(b'abcd' * ({24 * MB} // 4)); here = address(x) + {MB}\nNone")
        self.assertEqual(self.value("mapped()"), [])
        own = "sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith('Anonymous')) >> 10"
        self.assertGreater(self.branched("mapped(here)[0]"), 23 * MB)
        there = self.session + "-b"
        self.assertLess(self.value(own, session=there), 18)
        self.ok("x[:] = b'wxyz' * (len(x) // 4)", session=there)
        self.assertGreater(self.value(own, session=there), 24)
        self.assertEqual(self.branched("[bytes(x[:4]).decode(), bytes(x[-4:]).decode(), x.count(b'abcd') * 4 == len(x)]", to="c"), ["abcd", "abcd", True])
        self.assertEqual(self.value("bytes(x[-4:]).decode()"), "abcd")

    def test_a_mapped_block_behaves_as_memory(self):
        """A private mapping of a file may grow into the bytes that follow in the file, and MADV_DONTNEED brings back its bytes."""
        self.ok(self.MAPPED + f"import mmap\nx = bytearray(b'x') * {8 * MB}; y = bytearray(b'y') * {8 * MB}; small = [bytearray(b's') * 100000 for _ in range(60)]\n"
                f"own = mmap.mmap(-1, {MB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); own.write(b'z' * {MB}); locked = mmap.mmap(-1, {MB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
                f"locked.write(b'k' * {MB}); None")
        code = (
            f"x.extend(b'e' * {24 * MB}); del y[:{4 * MB}]; own.madvise(mmap.MADV_DONTNEED)\n"
            f"found = [x.count(b'x'), x.count(b'e'), y.count(b'y'), own[:].count(b'\\0'), locked[:].count(b'k'), sum(s.count(b's') for s in small)]\n"
            "x = y = None; small.clear()\n"
            f"zeros = [bytearray(100000) for _ in range(80)] + [bytearray({4 * MB}) for _ in range(6)]\n"
            "found + [all(z.count(0) == len(z) for z in zeros)]"
        )
        expected = [8 * MB, 24 * MB, 4 * MB, MB, MB, 6000000, True]
        self.assertEqual(self.branched(code), expected)
        self.branched("x[:2].decode()", to="again")
        self.assertEqual(self.branched(code, to="third", origin="again"), expected)  # a branch of a branch
        self.assertEqual(self.value(code), expected)

    def test_small_objects_are_mapped(self):
        """The pools of CPython: the branch frees, reuses and changes objects of them."""
        self.ok(self.MAPPED + "x = list(range(1000, 600000)); words = {str(n): [n] for n in x[:60000]}\nNone")
        own = "sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith('Anonymous')) >> 10"
        there = self.session + "-b"
        self.assertGreater(self.branched("sum(mapped())"), 24 * MB)
        self.assertLess(self.value(own, session=there), 12)
        code = ("total = sum(x); del x[::2]; words['1000'].append(1); total += len(words)\nwords = {n: (n,) for n in range(90000)}\n"
                "[total, sum(x), all(words[n] == (n,) for n in words)]")
        expected = [sum(range(1000, 600000)) + 60000, sum(range(1001, 600000, 2)), True]
        self.assertEqual(self.branched("len(x)", to="anew", origin=there), 599000)  # a branch of a branch
        for name in (there, "anew", None):
            self.assertEqual(self.value(code, session=name or self.session), expected)
        # A control: a header of a pool that points elsewhere is memory of another owner.
        self.ok(f"import mmap, ctypes, struct\nown = mmap.mmap(-1, {MB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); own.write(b'z' * {MB}); at = address(own)\n"
                "def pools(block):\n    for pool in range(-at % 16384, len(own) - 16383, 16384): own[pool:pool + 48] = struct.pack('<QQQQLLLL', 3, block and at + pool + block, 0, 0, 7, 1, 112, 16384 - 32)\n"
                "pools(0); None")
        self.assertEqual(self.branched("len(mapped(at + 65536))", to="d"), 1)
        self.ok("pools(1 << 20); None")
        self.assertEqual(self.branched("[mapped(at + 65536), own[1 << 18:][-9:].decode()]", to="e"), [[], "z" * 9])

    def test_what_must_not_be_mapped(self):
        """A page that is wiped at each fork is empty in the branch, and memory of other allocators stays anonymous."""
        self.ok(self.MAPPED + f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.malloc.restype = ctypes.c_void_p\nat = libc.malloc(ctypes.c_size_t({4 * MB}))\n"
                f"ctypes.memset(at, 65, {4 * MB}); page = (at + {MB}) // 65536 * 65536\n"
                f"r = libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t({MB}), 18); r")  # MADV_WIPEONFORK
        self.assertEqual(self.branched(f"[r, mapped(page), ctypes.string_at(page, {MB}).count(0), ctypes.string_at(at, 9).decode(), ctypes.string_at(at + 3 * {MB}, 9).decode()]"),
                         [0, [], MB, "A" * 9, "A" * 9])

    # ---- refusals ----

    def test_refusals(self):
        refused = lambda why, **arguments: self.refused(why, "SandboxError", **arguments)
        refused('no live session is called "absent"', origin="absent")
        self.ok("x = 1")
        refused("a branch of itself", to=self.session)
        self.ok("1", session="there")
        refused('session "there" is live already', to="there")
        refused("and so must its branch", profile="other")
        self.assertEqual(self.value("try: x\nexcept NameError: y = 1\ny", session="there"), 1)
        waiting = self.server.start_call("import time; time.sleep(1)", session=self.session)
        self.wait_running()
        refused("is busy")
        waiting.result()
        for name, why in (("a b", "from must be the name"), (7, "from must be a string"), ("a@@b", "from must be the name")):
            cell = self.branch("1", origin=name)
            self.assertIn(why, cell["error"]["message"])
        self.assertIn("cannot be used together", self.branch("1", reset=True)["error"]["message"])
        self.assertEqual(self.branched("x"), 1)  # the control

    def test_what_cannot_be_copied(self):
        self.ok("import mmap, os\nf = open('/workspace/m', 'w+b'); f.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\nx = 1")
        self.refused("it shares memory with other processes or files")
        self.ok("m.close()")
        self.ok("p = mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE); p[0:3] = b'own'")
        self.assertEqual(self.branched("p[0:3].decode() + str(f.fileno() == os.stat('/workspace/m').st_size)", to="private"), "ownFalse")
        self.ok("size = os.statvfs('/workspace'); size = size.f_blocks * size.f_frsize\nfor n in range(5):\n    with open('/workspace/hole%d' % n, 'wb') as made: made.truncate(size // 4)")
        self.refused("/workspace has more than 20000 files, or more bytes than limits.workspace")
        self.assertEqual(self.value("x"), 1)

    def test_no_process_is_left(self):
        self.ok("1", profile="large")
        self.ok("import os, time\nchildren = []\ntry:\n    while True:\n        p = os.fork()\n        if p == 0: time.sleep(1000)\n        children.append(p)\nexcept OSError: pass\nNone")
        for _ in range(3):
            self.refused("limits.pids allows no more processes")  # and the name can be used again at once
        self.ok("import signal\nfor p in children: os.kill(p, 9); os.waitpid(p, 0)")
        self.assertGreater(self.branched("len(children)"), 10)

    # ---- code that sends something else ----

    def test_forged_dumps(self):
        forged = {
            "nothing": "module.archive.write = lambda fd: None\nbranches._core = type('C', (), {'dump': lambda *_: 1000000, 'fileno': lambda *_: 1000})()",
            "garbage": "module.archive.write = lambda fd: os.write(fd, os.urandom(60000))",
            "zeros": "module.archive.write = lambda fd: os.write(fd, bytes(60000))",
            "another magic": "write = module.archive.write\nmodule.archive.write = lambda fd: (write(fd), os.write(fd, bytes(200)), os.write(fd, os.urandom(50000)))",
            "an archive that never ends": "e = bytes(16) + module.archive._HEADER.pack(b'd', 1, 0o755, 0, 0, 5) + b'd'\nmodule.archive.write = lambda fd: [os.write(fd, e if n == 0 else e[16:]) for n in range(30000)]",
            "an error": "module.archive.write = lambda fd: (_ for _ in ()).throw(OSError(5, 'no'))",
            "paths that lead elsewhere": "pack = module.archive._HEADER.pack\nimport struct\nmodule.archive.write = lambda fd: os.write(fd, bytes(16) + pack(b'f', 12, 0o777, 3, 0, 5) + b'../../etc/xx' + b'abc')",
            "an exception": "module.archive.write = lambda fd: 1 / 0",
        }
        for name, code in forged.items():
            session = "forged-" + name.replace(" ", "-")
            self.ok(FIND + "import os\nx = 1\n" + code, session=session)
            cell = self.branch("1", origin=session, to=session + "-b")
            self.assertEqual(cell["status"], "error", (name, cell))
            self.assertIn("could not be branched: ", cell["error"]["message"])
            self.assertEqual(self.value("x", session=session), 1, name)
            self.assertEqual(self.ok("1", session=session + "-b")["state"], "new")

    def test_headers_that_lie(self):
        """A valid dump with one field changed: the new worker refuses it, or ends; no other session is affected."""
        lie = (
            "import os, threading, struct\nwrite = module.archive.write\n"
            "def through(fd, change):\n    write(fd)\n    r, w = os.pipe()\n    out = os.dup(fd)\n    os.dup2(w, fd)\n    os.close(w)\n    pid = os.fork()\n"
            "    if pid == 0:\n        os.close(fd)\n        head = b''\n        while len(head) < 400: head += os.read(r, 400 - len(head))\n        os.write(out, change(bytearray(head)))\n"
            "        while True:\n            data = os.read(r, 65536)\n            if not data: os._exit(0)\n            os.write(out, data)\n    os.close(out); os.close(r)\n"
            "def word(at, value):\n    def change(head):\n        head[at:at + 8] = struct.pack('<Q', value)\n        return head\n    return change\n"
        )
        self.ok(FIND + lie + "x = 5")
        # The control: nothing is changed.
        self.ok("module.archive.write = lambda fd: through(fd, bytes)")
        self.assertEqual(self.branched("x", to="true"), 5)
        fields = {"magic": 0, "id": 8, "mappings": 24, "thread": 40, "channel": 48, "context": 56, "number": 64, "start": 80, "end": 88, "offset": 96}
        if not harness.WHOLE:
            fields = {name: fields[name] for name in ("magic", "id", "context", "start")}
        for name, at in fields.items():
            value = {"mappings": 9000, "end": 1 << 63}.get(name, 0x414141414141)
            self.ok(f"module.archive.write = lambda fd: through(fd, word({at}, {value}))")
            cell = self.branch("1", to="lie-" + name)
            self.assertEqual(cell["status"], "error", (name, cell))
            self.assertIn("could not be branched: ", cell["error"]["message"], name)
        self.assertEqual(self.value("x"), 5)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_a_dump_without_an_end(self):
        self.ok(FIND + "import os\nx = 1\ndef endless(fd):\n    os.write(fd, bytes(16))\n    for n in range(10, 99):\n        os.write(fd, module.archive._HEADER.pack(b'f', 2, 0o644, 8 << 20, 0, 5) + b'%d' % n)\n        for _ in range(128): os.write(fd, bytes(65536))\nmodule.archive.write = endless\n", profile="shared")
        self.refused("it is larger than its limits allow")
        self.assertEqual(self.value("x"), 1)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_memory_that_changes_meanwhile(self):
        """A thread and a process continue while the fork writes its memory."""
        self.ok(
            "import threading, os\npair = [0, 0]\nlock = threading.Lock()\ndef count():\n    while True:\n        with lock:\n            pair[0] += 1\n            pair[1] += 1\n"
            "thread = threading.Thread(target=count, daemon=True); thread.start()\nblock = bytearray(20 << 20)\n"
            "if os.fork() == 0:\n    n = 0\n    while True: n += 1; open('/workspace/noise%d' % (n % 50), 'w').write('x' * n)\nNone"
        )
        self.assertEqual(self.branched("[abs(pair[0] - pair[1]) <= 1, thread.is_alive(), len(block)]"), [True, False, 20 * MB])
        self.assertEqual(self.value("thread.is_alive()"), True)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_code_that_kills_the_writer(self):
        self.ok(
            "import os, signal\nx = 1\nblock = bytearray(b'x') * (60 << 20)\nif os.fork() == 0:\n    own = {1, 2, os.getpid()}\n    while True:\n"
            "        for p in os.listdir('/proc'):\n            if p.isdigit() and int(p) not in own:\n                try: os.kill(int(p), 9)\n                except OSError: pass\nNone"
        )
        self.refused("could not be branched")
        self.assertEqual(self.value("x"), 1)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_many_at_a_time(self):
        self.ok("x = 1")
        for n in range(6):
            self.ok(f"x = {n}", session=f"many-{n}")
        waiting = [self.server.start_call("x", session=f"many-{n}-b", **{"from": f"many-{n}"}) for n in range(6)]
        self.assertEqual([w.result()["structuredContent"]["value"]["json"] for w in waiting], list(range(6)))

    def test_many_of_one_session_at_a_time(self):
        """More than are made at once, and while the session is being saved: the others wait. Code that is called for meanwhile runs too."""
        self.ok("import os\nx = b''")
        for size, n, apart in ((0, 12, 0), (40, 6, 0.03)):
            self.ok(f"x = os.urandom({size} << 20)")
            waiting = []
            for i in range(n):
                waiting.append(self.server.start_call("len(x) >> 20", session=f"of-{size}-{i}", **{"from": self.session}))
                time.sleep(apart)
            self.assertEqual(self.value("len(x) >> 20"), size)
            for call in waiting:
                cell = call.result()["structuredContent"]
                self.assertEqual((cell["status"], (cell.get("value") or {}).get("json")), ("ok", size), cell)


class Several(BranchCase):
    """One call with `branches`: several sessions that begin as one state."""

    CONFIG = {**BranchCase.CONFIG, "sessions": 16, "pool": 0}

    def several(self, code, n, name="try", **arguments):
        return self.cell(code, **{"session": name, "from": self.session, "branches": n, **arguments})

    def live(self):
        done = self.run_cloister("sessions", "--json", "--server", str(self.server.process.pid), cwd="/")
        return sorted(s["name"] for s in json.loads(done.stdout)[0]["sessions"])

    def tearDown(self):
        for name in self.live():
            self.run_cloister("sessions", "end", name, "--server", str(self.server.process.pid), cwd="/")
        self.assertTrue(harness.wait_until(lambda: not self.live()))

    def test_one_result_in_order(self):
        self.ok(f"x = bytearray(range(250)) * ({8 * MB} // 250); open('/workspace/f', 'w').write('f')\nNone")
        result = self.server.call("import os\nprint('I am', branch)\nopen('/workspace/f', 'a').write(str(branch))\nif branch == 3: raise ValueError('three')\nif branch == 4: os._exit(7)\n"
                                  "x[0] = branch\nx[branch * 1000 + 1]", session="try", branches=6, **{"from": self.session})
        cell, text = result["structuredContent"], result["content"][0]["text"]
        self.assertEqual([b["session"] for b in cell["branches"]], [f"try-{n}" for n in range(1, 7)])
        self.assertEqual([b["status"] for b in cell["branches"]], ["ok", "ok", "error", "exit", "ok", "ok"], cell)
        self.assertEqual([b["value"]["json"] for b in cell["branches"] if "value" in b], [1, 1, 1, 1])
        self.assertEqual(cell["branches"][1]["stdout"], "I am 2\n")
        self.assertEqual((cell["branches"][2]["error"]["type"], cell["branches"][2]["error"]["message"]), ("ValueError", "three"))
        self.assertIn("branched from session", cell["branches"][0]["notice"])
        self.assertEqual((cell["status"], cell["session"], result["isError"]), ("ok", "try", False))
        for n in (1, 6):
            self.assertIn(f"[try-{n}]\n", text)
            self.assertEqual(self.value("[branch, x[0], open('/workspace/f').read()]", session=f"try-{n}"), [n, n, f"f{n}"])
        self.assertEqual(self.value("[x[0], open('/workspace/f').read(), 'branch' in globals()]"), [0, "f", False])
        whole = self.server.ask("resources/read", {"uri": cell["truncated"]["resource"]})["contents"][0]["text"]
        self.assertEqual(json.loads(whole), cell["branches"])

    def test_refusals_make_no_session(self):
        self.ok("x = 1")
        self.ok("1", session="there-2")
        before = self.live()
        for why, arguments in (
            ("branches must be a whole number from 1 to 1000", {"n": 0}), ("branches must be a whole number", {"n": 1001}), ("branches must be a whole number", {"n": 1.5}),
            ('session "there-2" is live already', {"n": 3, "name": "there"}), ("more sessions may be live", {"n": 15}),
            ("would have more than 64 characters", {"n": 10, "name": "n" * 62}), ("branches and interrupt cannot be used together", {"n": 2, "interrupt": True}),
            ('no live session is called "absent"', {"n": 2, "from": "absent"}), ("from and reset cannot be used together", {"n": 2, "reset": True}),
        ):
            cell = self.several("1", **arguments)
            self.assertEqual(cell["status"], "error", cell)
            self.assertIn(why, cell["error"]["message"])
            self.assertNotIn("branches", cell)
        cell = self.cell("1", session="try", branches=2)
        self.assertIn("branches needs from", cell["error"]["message"])
        self.assertEqual(self.live(), before)
        self.assertEqual([b["value"]["json"] for b in self.several("x + branch", 1)["branches"]], [2])  # the control

    def test_of_a_checkpoint_and_one_that_cannot_be_copied(self):
        self.ok("x = 1", checkpoint="c")
        self.ok("x = 2")
        cell = self.several("[x, branch]", 3, "old", **{"from": self.session + "@c"})
        self.assertEqual([b["value"]["json"] for b in cell["branches"]], [[1, 1], [1, 2], [1, 3]])
        self.ok("import mmap\nf = open('/workspace/m', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)")
        cell = self.several("x", 3, "none")
        self.assertEqual([b["status"] for b in cell["branches"]], ["error"] * 3)
        self.assertIn("it shares memory with other processes or files", cell["branches"][2]["error"]["message"])
        self.assertEqual(cell["status"], "error")

    def test_output_and_tools(self):
        """Output of each branch is in its place, and cut; each calls tools."""
        self.ok("x = 1")
        cell = self.several("print('o' * 300000)\n(await mcp_demo.add(a=branch, b=1))['sum']", 3, max_output=5000)
        for n, b in enumerate(cell["branches"], 1):
            self.assertEqual((b["status"], b["value"]["json"]), ("ok", n + 1), b)
            self.assertLess(len(b["stdout"]), 6000)

    def test_a_cancelled_call(self):
        self.ok("x = 1")
        call = self.server.start_call("import time\nwhile True: time.sleep(1)", session="try", branches=3, **{"from": self.session})
        for n in (1, 2, 3):
            self.wait_running(f"try-{n}")
        self.server.notify("notifications/cancelled", requestId=call.id)
        self.assertTrue(harness.wait_until(lambda: all(self.value("x", session=f"try-{n}") == 1 for n in (1, 2, 3))))


class Template(BranchCase):
    """A separate class: after this test other sessions cannot be branched. The pool would hold sandboxes of the old template."""

    CONFIG = {"pool": 0}

    def test_a_template_that_was_started_again(self):
        self.ok("x = 1", session="old")
        templates = [p for p in harness.descendants(self.server.process.pid) if self.is_template_of(p)]
        self.assertTrue(templates)
        for pid in templates:
            os.kill(pid, 9)
        self.assertEqual(self.value("x", session="old"), 1)
        cell = self.branch("x", origin="old", to="late")
        self.assertEqual(cell["status"], "error", cell)
        self.assertIn("the template was started again since the session began", cell["error"]["message"])
        self.ok("y = 2", session="young")
        self.assertEqual(self.branched("y", origin="young", to="later"), 2)

    @staticmethod
    def is_template_of(pid):
        """Returns whether this process is one pid namespace below ours, and runs Python."""
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as f, open("/proc/self/status", encoding="ascii") as own, open(f"/proc/{pid}/maps", encoding="ascii") as maps:
                depth, own_depth = (next(line for line in file if line.startswith("NSpid:")).count("\t") for file in (f, own))
                return depth == own_depth + 1 and "/memfd:cloister-" in maps.read()
        except (OSError, StopIteration):
            return False


if __name__ == "__main__":
    harness.main()
