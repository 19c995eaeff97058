"""The rows of docs/state.md: what happens to each object that a cell can create when a later cell ends the interpreter."""

import random

IMPORTS = """
import asyncio, concurrent.futures, ctypes, fcntl, mmap, multiprocessing, os, random, select, signal, socket, sqlite3, subprocess, threading, time, zlib
def is_free(take, path):
    pid = os.fork()
    if pid == 0:
        try: take(open(path, 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0
def error(f, *args):
    try: f(*args)
    except Exception as e: return type(e).__name__
def gone(what):
    return 'its thread is gone' in str(what if isinstance(what, Exception) else what.exception(5))
def libc_thread_id():
    attributes, mutex = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libc.pthread_mutexattr_init(attributes)
    libc.pthread_mutexattr_settype(attributes, 1)  # recursive: it notes its owner
    libc.pthread_mutex_init(mutex, attributes)
    libc.pthread_mutex_lock(mutex)
    return int.from_bytes(mutex.raw[8:12], 'little')
def is_seen_on(cpu):
    os.sched_setaffinity(0, {cpu})
    return libc.sched_getcpu() == cpu
libc, cpus = ctypes.CDLL(None), os.sched_getaffinity(0)
"""


def second_random():
    numbers = random.Random(7)
    numbers.random()
    return numbers.random()


SQL = "{0} = sqlite3.connect('{1}')\n_ = {0}.execute('create table t(x)')\n{0}.commit()"
INSERT = "_ = {0}.execute('insert into t values(1)')\n{0}.commit()"
COUNT = "{0}.execute('select count(*) from t').fetchone()[0]"

# (name, code of a cell that creates it, code of the next cell before the interpreter ends, code that checks it, the answer)
KEPT = (
    ("variables", "v = [1]\ndef f(): return v", "v.append(2)", "f()", [1]),
    ("the state of random", "random.seed(7)\nrandom.random()", "random.random()", "random.random()", second_random()),
    ("hooks of fork() do not run", "ran = []\nos.register_at_fork(before=lambda: ran.append(1), after_in_child=lambda: ran.append(2))", "", "2 in ran", False),
    ("generators", "g = (i for i in range(9))\nnext(g)", "next(g)", "next(g)", 1),
    ("tasks of asyncio", "event = asyncio.Event()\nasync def wait(): return await event.wait()\ntask = asyncio.create_task(wait())\nawait asyncio.sleep(0)",
     "event.set()\nawait task", "was = task.done()\nevent.set()\nwas, await task", "(False, True)"),
    ("objects of C libraries", "packer = zlib.compressobj()\nhead = packer.compress(b'ab')", "packer.flush()", "zlib.decompress(head + packer.flush())", "b'ab'"),
    ("databases in memory", SQL.format("db", ":memory:"), INSERT.format("db"), COUNT.format("db"), 0),
    ("working directory", "os.chdir('/tmp')", "os.chdir('/')", "os.getcwd()", "/tmp"),
    ("environment", "os.environ['A'] = 'b'", "os.environ['A'] = 'c'", "os.environ['A'], os.popen('echo $A').read()", "('b', 'b\\n')"),
    ("umask", "_ = os.umask(0o27)", "_ = os.umask(0)", "os.umask(0o27)", 0o27),
    ("handlers of signals", "_ = signal.signal(signal.SIGUSR2, signal.SIG_IGN)", "_ = signal.signal(signal.SIGUSR2, signal.SIG_DFL)",
     "os.kill(os.getpid(), signal.SIGUSR2)\nint(signal.getsignal(signal.SIGUSR2))", 1),
    ("memory of its own", "private = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nprivate[0] = 1", "private[0] = 2", "private[0]", 1),
    ("offset of a file that is read", "_ = open('read', 'w').write('abcdefghi')\nr, d = open('read'), os.open('read', os.O_RDONLY)\nr.read(3), os.read(d, 2)",
     "r.read(), os.read(d, 2)", "r.read(3), os.read(d, 2)", "('def', b'cd')"),
    ("offset of a file that is written", "w = os.open('written', os.O_WRONLY | os.O_CREAT)\n_ = os.write(w, b'abc')", "_ = os.write(w, b'XYZ')",
     "_ = os.write(w, b'd')\nopen('written').read()", "abcdYZ"),
    ("what a file has not written yet", "u = open('unflushed', 'w')\n_ = u.write('abc')", "_ = u.write('XYZ')\nu.flush()",
     "_ = u.write('d')\nu.flush()\nopen('unflushed').read()", "abcdYZ"),
    ("libc's thread id", "own = libc_thread_id()", "", "own != os.getpid() == libc_thread_id() == threading.get_native_id()", True),
    ("restartable sequences", "", "", "seen = [is_seen_on(cpu) for cpu in cpus]\nos.sched_setaffinity(0, cpus)\nall(seen)", True),
    ("process group", "group = os.getpgrp()", "", "os.getpgrp() == group", True),
)
SHARED = (
    ("files", "_ = open('/tmp/file', 'w').write('old')", "_ = open('/tmp/file', 'w').write('new')", "open('/tmp/file').read()", "new"),
    ("rows that were committed to a file", SQL.format("disk", "rows.db"), INSERT.format("disk"), COUNT.format("disk"), 1),
    ("a file that appends may write twice", "p = open('appended', 'a')\n_ = p.write('abc')", "_ = p.write('XYZ')\np.flush()",
     "_ = p.write('d')\np.flush()\nopen('appended').read()", "abcXYZabcd"),
    ("locks of flock()", "k = open('locked', 'w')\nfcntl.flock(k, fcntl.LOCK_EX)", "", "is_free(fcntl.flock, 'locked')", False),
    ("contents of pipes", "pr, pw = os.pipe()\n_ = os.write(pw, b'ab')", "_ = os.read(pr, 1)", "os.read(pr, 9)", "b'b'"),
    ("contents of sockets", "sa, sb = socket.socketpair()\nsa.send(b'ab')", "sb.recv(1)", "sb.recv(9)", "b'b'"),
    ("shared memory", "page = open('/tmp/page', 'w+b')\npage.truncate(4096)\nshared = mmap.mmap(page.fileno(), 4096)\nshared[0] = 1", "shared[0] = 2", "shared[0]", 2),
    ("locks between processes", "mp = multiprocessing.Lock()", "mp.acquire()", "mp.acquire(timeout=0.01)", False),
    ("sets of epoll", "ep = select.epoll()\nea, eb = socket.socketpair()", "ep.register(ea, select.EPOLLOUT)", "len(ep.poll(0))", 1),
)
GONE = (
    ("locks of fcntl()", "q = open('record', 'w')\nfcntl.lockf(q, fcntl.LOCK_EX)", "", "is_free(fcntl.lockf, 'record')", True),
    ("timers", "signal.setitimer(signal.ITIMER_REAL, 900)", "", "signal.getitimer(signal.ITIMER_REAL)[0]", 0.0),
    ("pid", "pid = os.getpid()", "", "os.getpid() != pid", True),
    ("processes", "child = subprocess.Popen(['sleep', '1000'])", "", "child.poll(), child.wait()", "(-9, -9)"),
    ("processes of asyncio", "task_child = await asyncio.create_subprocess_exec('sleep', '1000')", "", "await asyncio.wait_for(task_child.wait(), 5) in (-9, 255)", True),
    ("processes of multiprocessing", "process = multiprocessing.Process(target=time.sleep, args=(1000,))\nprocess.start()", "", "process.is_alive(), process.exitcode", "(False, -9)"),
    ("pools of multiprocessing", "pool = multiprocessing.Pool(1)\npool.map(int, '1')", "", "error(pool.map, int, '1')", "ValueError"),
    ("executors of processes", "px = concurrent.futures.ProcessPoolExecutor(1)\npx.submit(int).result()", "", "error(px.submit, int)", "BrokenProcessPool"),
    ("threads", "stop = threading.Event()\nthread = threading.Thread(target=stop.wait)\nthread.start()", "", "thread.is_alive()", False),
    ("a lock that a thread held stays taken", "lock, held = threading.Lock(), threading.Event()\ndef hold():\n    with lock:\n        held.set()\n        stop.wait()\n"
     "threading.Thread(target=hold).start()\nheld.wait()", "", "lock.acquire(timeout=0.01)", False),
    ("work of executors", "ex = concurrent.futures.ThreadPoolExecutor(1)\nruns, waits = ex.submit(stop.wait), ex.submit(int)", "",
     "ex.submit(int, '5').result(5), *map(gone, (runs, waits))", "(5, True, True)"),
    ("threads of asyncio", "await asyncio.to_thread(int)\nbusy = asyncio.create_task(asyncio.to_thread(stop.wait))\nawait asyncio.sleep(0.01)", "",
     "done = await asyncio.wait_for(asyncio.gather(busy, return_exceptions=True), 5)\nawait asyncio.to_thread(int, '6'), gone(done[0])", "(6, True)"),
    ("a thread that prints", "def chat():\n    while not stop.is_set(): print('.', end='', flush=True)\nthreading.Thread(target=chat).start()", "", "print('heard')\n1", 1),
)
ROWS = KEPT + SHARED + GONE
