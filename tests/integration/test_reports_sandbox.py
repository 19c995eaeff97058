"""What the sandbox says of itself: files of /proc about the machine tell of the session, all ways to count processors agree, and
processes that Python starts are those of `python3 script.py`.

psutil and joblib are those of CLOISTER_VENV. free and uptime are the machine's, copied into a directory that is mounted.
"""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest

import harness
from rawmcp import ServerCase

MEMORY = 300 << 20
SITE = next(iter(glob.glob(os.path.join(os.environ.get("CLOISTER_VENV", ""), "lib/python3*/site-packages/psutil"))), "")[:-7]
HAS_LIBRARIES = bool(SITE) and all(os.path.isdir(os.path.join(SITE, name)) for name in ("joblib", "cloudpickle"))
COMMANDS = [path for path in ("/usr/bin/free", "/usr/bin/uptime", "/usr/bin/nproc") if os.path.exists(path)]
NAMES = "meminfo stat cpuinfo uptime loadavg version vmstat filesystems swaps sys/kernel/osrelease".split()


def tools():
    """A directory with the programs and their libraries, and the packages."""
    path = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
    os.chmod(path, 0o755)
    for command in COMMANDS:
        shutil.copy(command, path)
        for word in subprocess.run(["ldd", command], capture_output=True, text=True, check=True).stdout.split():
            if word.startswith("/") and "ld-linux" not in word and "libc.so" not in word:
                shutil.copy(word, path)
    for package in ("psutil", "joblib", "cloudpickle") if HAS_LIBRARIES else ():
        shutil.copytree(os.path.join(SITE, package), os.path.join(path, package), ignore=shutil.ignore_patterns("tests", "test"))
    subprocess.run(["chmod", "-R", "a+rX", path], check=True)
    return path


class Sandbox(ServerCase):
    TOOLS = None

    @classmethod
    def setUpClass(cls):
        cls.TOOLS = tools()
        cls.CONFIG = {"limits": {"memory": MEMORY, "cpu": 1.5}, "profiles": {"default": {"mounts": [{"source": cls.TOOLS, "target": "/opt/tools"}]}}}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        finally:
            shutil.rmtree(cls.TOOLS)

    def value(self, code, **arguments):
        return self.ok(code, **arguments)["value"]["json"]

    def test_files(self):
        """Opened by Python, by a program and by the C library, as text and as bytes; nothing else below /proc can be opened, nor written."""
        code = (f"import io, os, pathlib, subprocess\nnames = ['/proc/' + n for n in {NAMES}]\n"
                "def of(fd):\n    with os.fdopen(fd) as f: return f.read()\n"
                "[[open(n).name == n, len(open(n).read()) > 0, len(pathlib.Path(n).read_bytes()) > 0, len(io.open(n.encode(), 'rb').read()) > 0,\n"
                "  len(of(os.open(n, os.O_RDONLY))) > 0, len(subprocess.run(['cat', n], capture_output=True).stdout) > 0] for n in names]")
        self.assertEqual(self.value(code), [[True] * 6] * len(NAMES))
        self.assertEqual(self.value("list(os.getloadavg())"), [0, 0, 0])
        for code in ("open('/proc/meminfo', 'w')", "os.open('/proc/meminfo', os.O_RDWR)", "open('/proc/kcore')", "open('/proc/sys/kernel/hostname')",
                     "open('/sys/class/net')", "open('proc/meminfo')", "open('/proc/../proc/kmsg')"):
            error = self.cell(code)["error"]
            self.assertEqual(error["type"], "FileNotFoundError", code)
        self.assertEqual(self.value("[os.path.exists('/proc/meminfo'), 'meminfo' in os.listdir('/proc'), io.open is open, open.__name__, os.open.__module__]"),
                         [False, False, True, "open", "posix"])

    def test_figures(self):
        """They are those of the session."""
        head = ("def info():\n    return {k: int(v.split()[0]) << 10 for k, v in (line.split(':') for line in open('/proc/meminfo'))}\n"
                "def cpu():\n    return [int(n) for n in open('/proc/stat').readline().split()[1:]]\n")
        before = self.value(head + "a = info(), cpu()\na[0]")
        self.assertEqual(before["MemTotal"], MEMORY)
        self.assertLess(before["MemTotal"] - before["MemAvailable"], 60 << 20)
        self.assertEqual(before["SwapTotal"], 0)
        more = self.value("import time\nb = bytearray(100 << 20)\ntime.sleep(0.06)\ninfo()['MemAvailable']")
        self.assertLess(more, before["MemAvailable"] - (90 << 20))
        used = self.value("end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(0.06)\nlast = cpu()\nsum(last[:3]) - sum(a[1][:3])")
        self.assertGreaterEqual(used, 25)
        uptime, idle = self.value("[float(n) for n in open('/proc/uptime').read().split()]")
        self.assertLess(uptime, 120)
        # Pages that processes have in common are counted for each, and are never more than there is.
        free = self.value("import os\npids = []\nfor _ in range(9):\n    pids.append(os.fork())\n    if pids[-1] == 0: time.sleep(60)\ntime.sleep(0.06)\nm = info()\n"
                          "for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)\n[m['MemFree'], m['MemAvailable']]")
        self.assertEqual(free, [0, 0])
        # Of what the code has left of it, after it has ended and was copied.
        self.cell("del b", on_error="rollback")
        self.assertGreater(self.value("time.sleep(0.06)\ninfo()['MemAvailable']"), MEMORY - (80 << 20))

    def test_processors(self):
        """limits.cpu is 1.5: two, or the only one of this machine."""
        here = min(2, len(os.sched_getaffinity(0)))
        code = ("import multiprocessing, os, re, subprocess, sys\nrun = lambda *a: subprocess.run(a, capture_output=True, text=True).stdout\n"
                "other = run(sys.executable, '-c', 'import os; print(os.cpu_count())')\n"
                "[os.cpu_count(), len(os.sched_getaffinity(0)), multiprocessing.cpu_count(), int(other), open('/proc/cpuinfo').read().count('processor'),\n"
                " len(re.findall('^cpu[0-9]', open('/proc/stat').read(), re.M)), int(run('/opt/tools/nproc') or os.cpu_count())]")
        self.assertEqual(set(self.value(code)), {here})
        self.assertEqual(self.value("cpus = sorted(os.sched_getaffinity(0))\nos.sched_setaffinity(0, cpus[:1])\n[len(os.sched_getaffinity(0)), os.cpu_count()]"), [1, 1])
        # Errors are those of the kernel. EINVAL would mean that the mask is too small: callers then try a larger one.
        code = ("import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\nmask = ctypes.create_string_buffer(1024)\ndef attempt(process, size, mask=mask):\n"
                "    return 0 if libc.sched_getaffinity(process, ctypes.c_size_t(size), mask) == 0 else errno.errorcode[ctypes.get_errno()]\n"
                "[attempt(0, 1024), attempt(os.getpid(), 8), attempt(-1, 1024), attempt(-1 << 31, 1024), attempt(1 << 22, 1024), attempt(0, 3), attempt(-1, 3), attempt(0, 1024, None)]")
        self.assertEqual(self.value(code), [0, 0, "ESRCH", "ESRCH", "ESRCH", "EINVAL", "EINVAL", "EFAULT"])
        self.assertEqual(self.value("open('/sys/fs/cgroup/cpu.max').read() + open('/sys/fs/cgroup/memory.max').read()"), f"150000 100000\n{MEMORY}\n")

    @unittest.skipUnless(COMMANDS, "no programs of procps and coreutils")
    def test_programs(self):
        run = "import subprocess\nsubprocess.run([{!r}, *{!r}], capture_output=True, text=True, env={{'LD_LIBRARY_PATH': '/opt/tools'}}).stdout"
        if "/usr/bin/free" in COMMANDS:
            memory = self.value(run.format("/opt/tools/free", ["-b"])).splitlines()[1].split()
            self.assertEqual((memory[0], int(memory[1])), ("Mem:", MEMORY))
        if "/usr/bin/uptime" in COMMANDS:
            self.assertRegex(self.value(run.format("/opt/tools/uptime", [])), r"up 0 min.*load average: 0\.00")

    def test_children_of_python(self):
        code = "import subprocess, sys\n[subprocess._args_from_interpreter_flags(), sys.flags.isolated, sys.flags.no_site, sys.flags.safe_path, len(sys.flags) > 15]"
        self.assertEqual(self.value(code), [[], 0, 0, False, True])
        code = ("import subprocess, sys\nsubprocess.run([sys.executable, *subprocess._args_from_interpreter_flags(), '-c', 'import sys; print(sys.flags)'],"
                " capture_output=True, text=True).stdout.strip() == str(sys.flags)")
        self.assertTrue(self.value(code))

    @unittest.skipUnless(HAS_LIBRARIES, "CLOISTER_VENV has no psutil and joblib")
    def test_libraries(self):
        code = ("import os, sys, time\nsys.path.append('/opt/tools')\nos.environ['PYTHONPATH'] = '/opt/tools'\nimport psutil, warnings\nwarnings.simplefilter('error')\n"
                "m, s = psutil.virtual_memory(), psutil.swap_memory()\n"
                "psutil.cpu_percent()\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass\n"
                "[m.total, m.available <= m.total, s.total, abs(psutil.Process().create_time() - time.time()) < 120, psutil.cpu_percent() > 5,\n"
                " psutil.cpu_count() == psutil.cpu_count(logical=False) == os.cpu_count(), list(psutil.getloadavg()), psutil.disk_partitions() == [], psutil.cpu_stats().interrupts]")
        self.assertEqual(self.value(code), [MEMORY, True, 0, True, True, True, [0, 0, 0], True, 0])
        cell = self.ok("from joblib import Parallel, cpu_count, delayed\nimport math\n"
                       "[Parallel(n_jobs=2)(delayed(math.sqrt)(i * i) for i in range(5)), cpu_count() == cpu_count(only_physical_cores=True) == os.cpu_count()]", timeout=60)
        self.assertEqual((cell["value"]["json"], cell.get("stderr", "")), ([[0, 1, 2, 3, 4], True], ""))

    def test_hostile(self):
        """Paths that end at a page that is missing, bad addresses, descriptors that have run out, a full /workspace."""
        code = ("import ctypes, mmap, os\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.open.argtypes = [ctypes.c_void_p, ctypes.c_int]\nlibc.mmap.restype = ctypes.c_void_p\n"
                "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\nlibc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]\n"
                "page = libc.mmap(None, 8192, 3, 0x22, -1, 0)\nlibc.munmap(page + 4096, 4096)\nfound = []\n"
                "for text in (b'/proc/uptime\\0', b'/proc/uptimes', b'\\0', b'/proc/uptime/\\0'):\n    ctypes.memmove(page + 4096 - len(text), text, len(text))\n"
                "    fd = libc.open(page + 4096 - len(text), 0)\n    found.append(os.read(fd, 1) != b'' if fd >= 0 else ctypes.get_errno())\n"
                "found += [libc.open(1, 0), ctypes.get_errno()]\nfound")
        if "error" not in self.cell("import ctypes"):
            self.assertEqual(self.value(code), [True, 14, 2, 2, -1, 14])
        code = ("import os\nheld = []\ntry:\n    while True: held.append(os.open('/proc/uptime', os.O_RDONLY))\nexcept OSError as e: reached = e.errno\n"
                "for fd in held: os.close(fd)\n[len(held) > 100, reached, len(open('/proc/uptime').read()) > 0]")
        self.assertEqual(self.value(code), [True, 24, True])
        code = ("import shutil\ntry:\n    with open('full', 'wb') as f:\n        while f.write(bytes(1 << 20)): f.flush()\nexcept OSError: pass\n"
                "try: r = open('/proc/uptime').read()\nexcept FileNotFoundError: r = 'missing'\nos.unlink('full')\n[r, len(open('/proc/uptime').read()) > 0]")
        self.assertEqual(self.value(code), ["missing", True])


if __name__ == "__main__":
    unittest.main()
