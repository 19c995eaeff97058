"""What programs in the sandbox lean on: run under the worker's filter, each line must work as it does without."""

import asyncio
import concurrent.futures
import ctypes
import fcntl
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import pty
import random
import resource
import select
import shutil
import signal
import socket
import sqlite3
import ssl  # noqa: F401 (that it can be imported)
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.error
import urllib.request

DONE = []


def step(function):
    function()
    DONE.append(function.__name__)


def double(n):
    return 2 * n


def processes():
    assert subprocess.run(["sh", "-c", "echo hi; exit 3"], capture_output=True).stdout == b"hi\n"
    assert subprocess.check_output("echo a | tr a b", shell=True) == b"b\n"
    assert subprocess.run([sys.executable, "-I", "-c", "pass"], start_new_session=True, close_fds=True).returncode == 0
    try:
        subprocess.run(["sleep", "10"], timeout=0.05)
    except subprocess.TimeoutExpired:
        pass
    assert os.waitstatus_to_exitcode(os.system("exit 2")) == 2
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    pidfd = os.pidfd_open(os.getpid())
    signal.pidfd_send_signal(pidfd, 0)
    os.close(pidfd)


def threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(double, range(50))) == list(range(0, 100, 2))
    event = threading.Event()
    thread = threading.Thread(target=event.set)
    thread.start()
    thread.join()
    assert event.wait(1)


def worker_processes():
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(double, [1, 2, 3]) == [2, 4, 6]
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    shared.buf[0] = 5
    shared.close()
    shared.unlink()
    left, right = multiprocessing.Pipe()
    left.send({"a": 1})
    assert right.recv() == {"a": 1}


def event_loop():
    async def main():
        process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        assert (await process.communicate(b"x"))[0] == b"x"
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")

            async def serve(reader, writer):
                writer.write(await reader.readline())
                writer.close()

            server = await asyncio.start_unix_server(serve, path)
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"line\n")
            assert await reader.readline() == b"line\n"
            writer.close()
            server.close()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(20)))
        assert await asyncio.to_thread(double, 4) == 8

    asyncio.run(main())


def files():
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        with open("a", "wb") as file:
            file.write(os.urandom(3 << 20))
            fcntl.flock(file, fcntl.LOCK_EX)
            os.posix_fallocate(file.fileno(), 0, 4 << 20)
            os.fsync(file.fileno())
        shutil.copy2("a", "b")
        shutil.copyfile("a", "c")
        shutil.copytree(".", "../copy" + str(os.getpid()), dirs_exist_ok=True)
        shutil.rmtree("../copy" + str(os.getpid()))
        assert open("a", "rb").read() == open("b", "rb").read() == open("c", "rb").read()
        subprocess.run(["cp", "a", "d"], check=True)
        subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=auto", "a", "e"], check=True)
        os.mkfifo("fifo")
        assert stat.S_ISFIFO(os.stat("fifo").st_mode)
        os.symlink("a", "link")
        os.link("a", "hard")
        os.rename("hard", "harder")
        os.chmod("a", 0o600)
        os.utime("a", ns=(1, 2))
        os.truncate("a", 10)
        with open("a", "r+b") as file, mmap.mmap(file.fileno(), 10) as memory:
            memory[0] = 1
            memory.flush()
        shutil.make_archive("zip", "zip", ".", "b")
        shutil.make_archive("tar", "gztar", ".", "b")
        assert sorted(os.listdir())[0] == "a" and len(list(os.scandir())) > 5
        assert shutil.disk_usage(".").total > 0
        database = sqlite3.connect("db")
        database.execute("pragma journal_mode = wal")
        database.execute("create table t (x)")
        database.executemany("insert into t values (?)", [(i,) for i in range(1000)])
        database.commit()
        assert database.execute("select sum(x) from t").fetchone() == (499500,)
        database.close()
        os.chdir("/")


def descriptors():
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [0])
    data, fds, _, _ = socket.recv_fds(right, 1, 1)
    assert data == b"x" and len(fds) == 1
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    left.setblocking(False)
    left.settimeout(1)
    assert left.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    poll = select.epoll()
    poll.register(right, select.EPOLLIN)
    left.send(b"y")
    assert poll.poll(1)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    assert select.select([reader], [writer], [], 0) == ([], [writer], [])
    os.eventfd(0)
    os.memfd_create("x")
    os.closerange(200, 300)
    assert os.isatty(0) in (True, False)
    try:
        master, slave = pty.openpty()
    except OSError:
        return  # no devpts
    termios.tcgetattr(slave)
    os.get_terminal_size(slave)


def limits_and_time():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    resource.getrusage(resource.RUSAGE_CHILDREN)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.sigtimedwait([signal.SIGUSR2], 0.02)
    time.sleep(0.001)
    time.clock_gettime(time.CLOCK_BOOTTIME)
    os.nice(1)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    assert os.cpu_count()
    os.uname()
    random.SystemRandom().random()


def foreign_code():
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: 0)
    values = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(values, 3, 4, callback)


def no_network():
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
        try:
            socket.socket(family, socket.SOCK_DGRAM).close()
        except PermissionError:
            continue
        except OSError as error:
            assert "--control" in sys.argv, error
        assert "--control" in sys.argv, family
    try:
        urllib.request.urlopen("http://127.0.0.1:9/", timeout=1)
    except urllib.error.URLError:
        pass


if __name__ == "__main__":
    for function in (
        processes,
        threads,
        worker_processes,
        event_loop,
        files,
        descriptors,
        limits_and_time,
        foreign_code,
        no_network,
    ):
        step(function)
    print("done:", *DONE)
