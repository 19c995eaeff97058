"""Classes 1 to 20: the process boundary. Each refusal has a control: the same outside, or an allowed twin inside."""

import ctypes
import errno
import fcntl
import hashlib
import os
import pty
import select
import signal
import socket
import subprocess
import sys

import harness
import rawmcp

PROGRAMS = ("cloister", "cloister-broker", "cloister-monitor", "cloister-access", "cloister-inject", "cloister-journal", "cloister-pictures", "cloister-doctor", "cloister-init", "cloister-worker")
# links() returns the descriptors of one process of the sandbox; all_links() returns those of all processes.
LINKS = """
import os
def links(pid):
    found = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            found.append(os.readlink(f'/proc/{pid}/fd/{fd}').split(':')[0].split('[')[0])
        except OSError:
            pass
    return found
def all_links():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            found += links(pid)
        except OSError:
            pass  # init is out of reach
    return sorted(found)
"""


def digests():
    found = {}
    for name in PROGRAMS:
        with open(os.path.join(harness.BUILD, name), "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


class Inside(rawmcp.ServerCase):
    def test_programs_cannot_be_overwritten(self):
        """1. The controls: a file of the session can be opened for writing. Outside, the open fails because the program is running."""
        before = digests()
        code = """
import errno, os
found = {}
with open('/workspace/control', 'x'): pass
for path in ['/workspace/control', *(f'/proc/{p}/exe' for p in os.listdir('/proc') if p.isdigit()), '/proc/self/exe']:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND):
        try:
            os.close(os.open(path, flags))
            found.setdefault(path, []).append(0)
        except OSError as e:
            found.setdefault(path, []).append(e.errno)
[found, os.readlink('/proc/self/exe')]
"""
        found, program = self.value(code)
        self.assertEqual(found.pop("/workspace/control"), [0, 0, 0])
        self.assertGreaterEqual(len(found), 2)
        for path, errors in found.items():
            self.assertLessEqual(set(errors), {errno.EACCES, errno.EROFS, errno.ETXTBSY, errno.EPERM, errno.ENOENT}, path)
        self.assertFalse(program.startswith(harness.BUILD), program)
        self.assertEqual(digests(), before)

    def test_all_eight_namespaces_differ_from_the_host(self):
        """19. The control is this process, whose own are the host's."""
        code = "import os; {kind: os.readlink(f'/proc/self/ns/{kind}') for kind in sorted(os.listdir('/proc/self/ns'))}"
        inside = self.value(code)
        host = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in os.listdir("/proc/self/ns")}
        self.assertGreaterEqual(set(host), {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "pid_for_children"})
        self.assertEqual(set(inside), set(host))
        shared = [kind for kind in host if inside[kind] == host[kind]]
        self.assertEqual(shared, [], "shared with the host")

    def test_every_process_has_no_capability(self):
        """20. All processes that the session sees, a child that was just executed included; the control is outside, as root."""
        code = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
found = {}
for pid in filter(str.isdigit, os.listdir('/proc')):
    with open(f'/proc/{pid}/status') as f:
        found[pid] = [int(line.split()[1], 16) for line in f if line.startswith('Cap')]
child.kill(); child.wait(); child.stdin.close()
found
"""
        found = self.value(code)
        self.assertGreaterEqual(len(found), 2)
        self.assertEqual(set(map(tuple, found.values())), {(0, 0, 0, 0, 0)}, found)
        if harness.ROOT:
            with open("/proc/self/status", encoding="ascii", errors="replace") as f:
                self.assertTrue(any(int(line.split()[1], 16) for line in f if line.startswith("CapEff")))

    def test_sessions_do_not_reach_each_other(self):
        """7. By signals, sockets, shared memory and files; the control is the session itself."""
        listen = """
import os, signal, socket, threading
hits = []
signal.signal(signal.SIGUSR1, lambda *_: hits.append('signal'))
sockets = []
for name in ('\\0cloister-attack', '/tmp/socket', '/dev/shm/socket'):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); sockets.append(s)
with open('/dev/shm/marker', 'w') as f: f.write('a')
os.getpid()
"""
        attack = """
import errno, os, signal, socket
def attempts(pid):
    found = []
    for name in ('\\0cloister-attack', '/tmp/socket', '/dev/shm/socket'):
        s = socket.socket(socket.AF_UNIX)
        found.append(s.connect_ex(name)); s.close()
    found.append(0 if os.path.exists('/dev/shm/marker') else errno.ENOENT)
    return found
"""
        pid = self.value(listen, session="victim")
        signal_all = f"""
for pid in range(1, 5000):
    if pid != os.getpid():
        try: os.kill(pid, signal.SIGUSR1)
        except OSError: pass
"""
        found = self.value(attack + signal_all + f"attempts({pid})", session="attacker")
        self.assertTrue(all(found), found)
        self.assertEqual(self.value(attack + f"os.kill({pid}, signal.SIGUSR1)\n[attempts({pid}), hits]", session="victim"), [[0, 0, 0, 0], ["signal"]])

    def test_no_socket_of_the_host_is_in_the_tree(self):
        """14. The control is a socket of the session's own."""
        code = """
import os, socket, stat
own = socket.socket(socket.AF_UNIX); own.bind('/tmp/own')
found = []
for folder, names, files in os.walk('/'):
    names[:] = [n for n in names if folder != '/' or n != 'proc']
    for name in files:
        path = os.path.join(folder, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode): found.append(path)
        except OSError: pass
found
"""
        self.assertEqual(self.value(code), ["/tmp/own"])


    def broker_descriptors(self):
        """Returns how many of the attack's descriptors the broker has, or None if this user may not read them."""
        for pid, name in harness.descendants(self.server.process.pid).items():
            if name == "cloister-broker":
                try:
                    return [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")].count("/dev/full")
                except OSError:
                    return None
        return None

    def test_descriptors_sent_to_the_broker(self):
        """15. The kernel refuses them, or the session ends; the control is a socket pair of the session's own."""
        self.ok("1", session="smuggler")
        self.ok("1", session="other")
        code = """
import array, os, socket
full = os.open('/dev/full', os.O_RDWR)
def send(sock, count):
    try:
        fds = array.array('i', [full] * count)
        sock.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        return 0
    except OSError as e:
        return e.errno
fd = next(f for f in range(3, 4096) if os.path.lexists(f'/proc/self/fd/{f}') and os.readlink(f'/proc/self/fd/{f}').startswith('socket:'))
own, end = socket.socketpair()
control = [send(own, n) for n in (1, 253)]
[control, [send(socket.socket(fileno=os.dup(fd)), n) for n in (1, 253, 254)]]
"""
        cell = self.cell(code, session="smuggler")
        if cell["status"] == "ok":
            control, found = cell["value"]["json"]
            self.assertEqual((control, [bool(e) for e in found]), ([0, 0], [True] * 3))
        else:
            self.assertEqual(cell["status"], "killed", cell)
        self.ok("1", session="other")
        self.assertIn(self.broker_descriptors(), (0, None))


class Launched(harness.Case):
    """Objects of the process that starts Cloister, which code must not get."""

    def run_code(self, code, **options):
        done = self.run_cloister("run", "--config", self.config(), "-c", code, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def many_descriptors(self):
        """Fifty descriptors of many kinds that are not closed on exec."""
        fds = [os.open("/", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY), os.open(self.write("file", "x"), os.O_RDWR),
               os.open("/proc/self", os.O_RDONLY), os.open("/", os.O_PATH), os.open("/dev/zero", os.O_RDWR), os.memfd_create("attack"),
               os.pidfd_open(os.getpid()), select.epoll().detach() if hasattr(select.epoll, "detach") else os.dup(0)]
        fds += socket.socketpair()[0].detach(), socket.socket(socket.AF_INET).detach(), *os.pipe(), *pty.openpty()
        if os.path.isdir("/sys/fs/cgroup"):
            fds.append(os.open("/sys/fs/cgroup", os.O_RDONLY))
        libc = ctypes.CDLL(None)
        fds += [libc.eventfd(0, 0), libc.inotify_init()]
        fds += [os.dup(fds[0]) for _ in range(50 - len(fds))]
        # High numbers too.
        fds += [fcntl.fcntl(fds[0], fcntl.F_DUPFD, 900)]
        self.addCleanup(lambda: [os.close(fd) for fd in fds])
        return fds

    def test_descriptors_and_directory_of_the_launcher(self):
        """2. The control is a plain child, which has them all."""
        code = LINKS + "print(len(links('self')), all_links(), os.getcwd())"
        without = self.run_code(code)
        fds = self.many_descriptors()
        self.assertEqual(self.run_code(code, pass_fds=fds), without)
        self.assertTrue(without.strip().endswith("/workspace"))
        child = subprocess.run([sys.executable, "-c", code], pass_fds=fds, cwd=self.dir, capture_output=True, text=True, check=True).stdout
        self.assertGreater(int(child.split()[0]), 50)
        self.assertTrue(child.strip().endswith(self.dir))

    def test_environment_of_the_launcher(self):
        """3. No file below /proc that can be read has it; the control is a plain child's environ."""
        marker = ["cloister", "attack", os.urandom(8).hex()]
        code = f"""
import os
marker = '-'.join({marker!r}).encode()
found, read = [], 0
for folder, names, files in os.walk('/proc'):
    if folder.count('/') > 4: names[:] = []
    names[:] = [n for n in names if n not in ('cwd', 'root', 'fd', 'map_files')]
    for name in files:
        path = f'{{folder}}/{{name}}'
        if name in ('mem', 'pagemap', 'clear_refs'): continue
        try:
            with open(path, 'rb') as f: text = f.read(1 << 20)
        except OSError: continue
        read += 1
        if marker in text: found.append(path)
print(read > 20, found)
"""
        env = harness.environment(SECRET="-".join(marker))
        self.assertEqual(self.run_code(code, env=env), "True []\n")
        child = subprocess.run([sys.executable, "-c", code.replace("'/proc'", "'/proc/self'")], env=env, capture_output=True, text=True, check=True)
        self.assertIn("environ", child.stdout)

    def test_signals_reach_nothing_outside(self):
        """6. By number, to all, to groups and by F_SETOWN; the control is the same signal sent from here."""
        handler = ("import os, signal, sys, time\nfor s in set(range(1, 65)) - {9, 19, 32, 33}:\n"
                   "    signal.signal(s, lambda n, _: os.write(1, b'%d ' % n))\nos.write(1, b'ready ')\nwhile True: time.sleep(60)")
        sentinel = subprocess.Popen([sys.executable, "-c", handler], stdout=subprocess.PIPE)
        self.addCleanup(sentinel.stdout.close)
        self.addCleanup(harness.end, sentinel)
        self.assertEqual(os.read(sentinel.stdout.fileno(), 100), b"ready ")
        code = f"""
import fcntl, os, signal, socket
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGIO, signal.SIG_IGN)
for pid in [*range(2, 70000), {sentinel.pid}, -{sentinel.pid}, {os.getpgrp()}, -{os.getpgrp()}, -1]:
    if pid == os.getpid(): continue
    try: os.kill(pid, signal.SIGUSR1)
    except OSError: pass
a, b = socket.socketpair()
for target in ({sentinel.pid}, -{os.getpgrp()}):
    try:
        fcntl.fcntl(a, fcntl.F_SETOWN, target)
        fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        b.send(b'x')
    except OSError: pass
print(os.getsid(0), os.getpgrp() > 0)
"""
        before = os.getsid(0)
        self.assertNotEqual(int(self.run_code(code).split()[0]), before)
        os.kill(sentinel.pid, signal.SIGUSR1)
        self.assertEqual(os.read(sentinel.stdout.fileno(), 100), b"%d " % signal.SIGUSR1)

    def test_open_files_of_the_caller_keep_their_flags(self):
        """11. The control is a plain child that does the same."""
        code = "import fcntl, os\nfor fd in (0, 1, 2): fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)\nos.lseek(0, 0, 0) if 0 else None"
        flags = {}
        for name, command in (("sandbox", [harness.CLOISTER, "run", "--config", self.config(), "-c", code]), ("child", [sys.executable, "-c", code])):
            ends = [os.pipe() for _ in range(3)]
            try:
                subprocess.run(command, stdin=ends[0][0], stdout=ends[1][1], stderr=ends[2][1], env=harness.environment(), timeout=60, check=True)
                flags[name] = [fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND) for fd in (ends[0][0], ends[1][1], ends[2][1])]
            finally:
                for pair in ends:
                    os.close(pair[0])
                    os.close(pair[1])
        self.assertEqual(flags["sandbox"], [0, 0, 0])
        self.assertTrue(all(flags["child"]), flags)

    def on_terminal(self, command):
        """Runs a command as the leader of a session on a new terminal. Returns (output, input that it did not read)."""
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.execve(command[0], command, harness.environment())
            finally:
                os._exit(99)
        self.addCleanup(os.close, terminal)
        harness.started.add(pid)
        output = b""
        while select.select([terminal], [], [], harness.PATIENCE)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            output += piece
        os.waitpid(pid, 0)
        return output

    def test_no_input_is_injected_into_a_terminal(self):
        """9. The terminal echoes injected input. The control is a plain child, where the kernel still allows it."""
        code = """
import fcntl, os
found = []
for path in (0, 1, 2, '/dev/tty', '/dev/console'):
    for request in (0x5412, 0x541C):
        try:
            fd = os.open(path, os.O_RDWR) if isinstance(path, str) else path
            for c in b'injected': fcntl.ioctl(fd, request, bytes([c]))
            found.append(0)
        except OSError as e:
            found.append(e.errno)
print('found', sorted(set(found)))
"""
        output = self.on_terminal([harness.CLOISTER, "run", "--config", self.config(), "-c", code])
        self.assertIn(b"found", output)
        self.assertNotIn(b"injected", output)
        self.assertNotIn(b"[0", output)
        with open("/proc/sys/dev/tty/legacy_tiocsti", encoding="ascii") if os.path.exists("/proc/sys/dev/tty/legacy_tiocsti") else open(os.devnull, encoding="ascii") as f:
            allowed = f.read().strip() != "0"
        if allowed:
            self.assertIn(b"injected", self.on_terminal([sys.executable, "-c", code]))

    def test_escape_sequences_do_not_reach_a_terminal(self):
        """10. The control is standard output that is not a terminal, which has the bytes as they were printed."""
        code = "print('\\x1b]52;c;QQ==\\x07 \\x1b]0;title\\x07 \\x1bP1$r\\x1b\\\\ \\x9b31m end')"
        output = self.on_terminal([harness.CLOISTER, "run", "--config", self.config(), "-c", code])
        self.assertIn(b"end", output)
        self.assertNotIn(b"\x1b]", output)
        self.assertNotIn(b"\x1bP", output)
        self.assertNotIn(b"\xc2\x9b", output)
        self.assertIn("\x1b]52", self.run_code(code))


class ReusedPids(harness.Case):
    """8. In a pid namespace that restarts at low pids repeatedly, so that each pid is soon reused."""

    # Children start and end beside Cloister. Each must exit by itself, with status 7. The control kills one by a signal.
    CHURN = """
import os, subprocess, sys, threading, time
bad, pids, stop = [], [], [False]
def churn():
    while not stop[0]:
        child = subprocess.Popen(['sh', '-c', 'sleep 0.05; exit 7'])
        if child.wait() != 7: bad.append(child.returncode)
        pids.append(child.pid)
def reuse():
    # Of this pid namespace alone. pid_max is that of the whole machine before Linux 6.14.
    while not stop[0]:
        with open('/proc/sys/kernel/ns_last_pid', 'w') as f: f.write('20')
        time.sleep(0.02)
threads = [threading.Thread(target=f) for f in (*[churn] * 8, reuse)]
for t in threads: t.start()
sys.path.insert(0, sys.argv[1])
import rawmcp
server = rawmcp.RawServer('--config', sys.argv[2]); server.initialize()
for i in range(40):
    server.cell('import os, subprocess; subprocess.Popen(["sleep", "60"]); 1', session=f's{i}')
    server.cell('import os; os._exit(3)' if i % 2 else 'import os; os.kill(os.getpid(), 9)', session=f's{i}')
server.close()
stop[0] = True
for t in threads: t.join()
control = subprocess.Popen(['sleep', '60']); control.kill()
print(bad, len(pids) - len(set(pids)) > 50, max(pids) <= 400, control.wait())
"""

    def test_no_foreign_process_dies(self):
        if not harness.ROOT:
            self.skipTest("needs a pid namespace, and Cloister in it")
        config = self.config(pool={"min": 0, "max": 0})
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-B", "-c", self.CHURN, os.path.dirname(harness.__file__), config],
                              env={**os.environ, **harness.environment()}, capture_output=True, text=True, timeout=300, check=False)
        if "ns_last_pid" in done.stderr:
            self.skipTest("this kernel has no ns_last_pid")
        self.assertEqual((done.stdout, done.returncode), ("[] True True -9\n", 0), done.stderr[-2000:])


if __name__ == "__main__":
    harness.main()
