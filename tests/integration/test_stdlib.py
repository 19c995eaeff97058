"""Databases, processes and servers of the standard library, between several processes and over several cells of a session."""

import importlib.util

import harness
import rawmcp

DATABASES = r"""
import dbm, importlib, multiprocessing, shelve, sqlite3, subprocess, sys
found = {}
OTHER = "import sys, importlib; d = importlib.import_module(sys.argv[1]).open(sys.argv[2], 'w'); d['other'] = d['own'] + b'+'; d.close()"
for name in NAMES:
    module = importlib.import_module("dbm." + name)
    path = "/workspace/" + name
    with module.open(path, "n") as d:
        for i in range(500):
            d[f"key {i}"] = b"x" * i
        d["own"] = b"1"
        del d["key 7"]
    subprocess.run([sys.executable, "-c", OTHER, "dbm." + name, path], check=True)
    with dbm.open(path) as d:
        found[name] = [dbm.whichdb(path), d["other"].decode(), len(d.keys()), len(d["key 499"]), "key 7" in d]
with shelve.open("/workspace/shelf") as s:
    s["a"] = {"b": [1, 2]}
def add(path, mode):
    with sqlite3.connect(path, timeout=60) as c:
        c.execute("pragma journal_mode=" + mode)
        for _ in range(20):
            c.execute("update t set a = a + 1")
            c.commit()
for mode in "delete", "truncate", "persist", "wal":
    path = "/workspace/" + mode + ".db"
    with sqlite3.connect(path) as c:
        c.execute("pragma journal_mode=" + mode)
        c.execute("create table t(a)")
        c.execute("insert into t values(0)")
    c.close()
    workers = [multiprocessing.get_context("fork").Process(target=add, args=(path, mode)) for _ in range(3)]
    for w in workers: w.start()
    for w in workers: w.join()
    c = sqlite3.connect(path)
    found[mode] = [*c.execute("pragma journal_mode=" + mode).fetchone(), *c.execute("select a from t").fetchone(), *c.execute("pragma integrity_check").fetchone()]
    copy = sqlite3.connect(":memory:")
    c.backup(copy)
    found[mode] += copy.execute("select a from t").fetchone()
    c.close()
found
"""

# In another cell than the functions, so that a new process must get these from the session.
FUNCTIONS = r"""
import multiprocessing as mp, multiprocessing.shared_memory, concurrent.futures, os
BASE = 10
def square(x):
    return BASE + x * x
def serve(numbers, answers):
    while (n := numbers.get()) is not None:
        answers.put(square(n))
        numbers.task_done()
    numbers.task_done()
def count(lock, value, times):
    for _ in range(times):
        with lock:
            value.value = value.value + 1
def write(name, event):
    shared = multiprocessing.shared_memory.SharedMemory(name)
    shared.buf[:5] = b"other"
    shared.close()
    event.set()
def fill(d, l, lock, n):
    with lock:
        d[n] = os.getpid() != 0
        l.append(n)
def meet(barrier, semaphore, ends):
    with semaphore:
        ends.send(barrier.wait(60))
"""
PROCESSES = r"""
m = mp.get_context(METHOD)
found = {}
with m.Pool(2) as p:
    found["pool"] = [p.map(square, range(4)), p.apply_async(square, (5,)).get(60), sorted(p.imap_unordered(square, [1, 2]))]
with concurrent.futures.ProcessPoolExecutor(2, mp_context=m) as p:
    found["executor"] = list(p.map(square, range(3)))
numbers, answers = m.JoinableQueue(), m.Queue()
w = m.Process(target=serve, args=(numbers, answers)); w.start()
for n in 1, 2, None: numbers.put(n)
numbers.join()
found["queue"] = [answers.get(timeout=60), answers.get(timeout=60)]; w.join()
value, lock = m.Value("i", 0, lock=False), m.Lock()
workers = [m.Process(target=count, args=(lock, value, 200)) for _ in range(2)]
for w in workers: w.start()
for w in workers: w.join()
found["lock"] = value.value
shared, event = multiprocessing.shared_memory.SharedMemory(create=True, size=4096), m.Event()
w = m.Process(target=write, args=(shared.name, event)); w.start()
found["shared memory"] = [event.wait(60), bytes(shared.buf[:5]).decode()]; w.join()
shared.close(); shared.unlink()
with m.Manager() as manager:
    d, l, lock = manager.dict(), manager.list(), manager.Lock()
    workers = [m.Process(target=fill, args=(d, l, lock, n)) for n in range(3)]
    for w in workers: w.start()
    for w in workers: w.join()
    found["manager"] = [sorted([n, ok] for n, ok in d.items()), sorted(l)]
barrier, semaphore, (left, right) = m.Barrier(2), m.BoundedSemaphore(2), m.Pipe()
workers = [m.Process(target=meet, args=(barrier, semaphore, right)) for _ in range(2)]
for w in workers: w.start()
for w in workers: w.join()
found["barrier"] = sorted([left.recv(), left.recv()])
found["ended"] = sorted({w.exitcode for w in workers})
found
"""

SERVERS = r"""
import asyncio, socket
async def echo(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()
class Datagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport
    def datagram_received(self, data, address):
        self.transport.sendto(data.upper(), address)
class Answers(asyncio.DatagramProtocol):
    def __init__(self):
        self.queue = asyncio.Queue()
    def datagram_received(self, data, address):
        self.queue.put_nowait(data)
loop = asyncio.get_running_loop()
servers = {"4": await asyncio.start_server(echo, "127.0.0.1", 0, backlog=256), "6": await asyncio.start_server(echo, "::1", 0),
           "name": await asyncio.start_server(echo, "localhost", 0), "unix": await asyncio.start_unix_server(echo, "/tmp/echo")}
datagrams, _ = await loop.create_datagram_endpoint(Datagrams, ("127.0.0.1", 0))
ports = {name: [s.getsockname()[:2] for s in server.sockets] for name, server in servers.items() if name != "unix"}
"""
# In a later cell: the servers run between the cells, in the event loop of the session.
CLIENTS = r"""
async def say(reader, writer, text):
    writer.write(text.encode() + b"\n")
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()
async def tcp(address, text):
    return await say(*await asyncio.open_connection(*address), text)
async def hold(address):
    "All connections are open at the same time."
    return await asyncio.open_connection(*address)
found = {name: [await tcp(address, name) for address in addresses] for name, addresses in ports.items()}
found["unix"] = await say(*await asyncio.open_unix_connection("/tmp/echo"), "unix")
held = await asyncio.gather(*(hold(ports["4"][0]) for _ in range(200)))
answers = await asyncio.gather(*(say(*pair, f"n{i}") for i, pair in enumerate(held)))
found["many"] = answers == [f"N{i}" for i in range(200)]
transport, protocol = await loop.create_datagram_endpoint(Answers, remote_addr=datagrams.get_extra_info("sockname"))
for _ in range(20): transport.sendto(b"udp")
found["datagrams"] = sorted({(await asyncio.wait_for(protocol.queue.get(), 60)).decode() for _ in range(20)})
transport.close()
def blocking():
    with socket.create_connection(ports["4"][0], timeout=60) as s:
        s.sendall(b"thread\n")
        return s.recv(100).decode().strip()
found["thread"] = await asyncio.to_thread(blocking)
child = await asyncio.create_subprocess_exec(__import__("sys").executable, "-c", f"import socket; s = socket.create_connection({ports['4'][0]!r}); s.sendall(b'child\\n'); print(s.recv(100).decode())", stdout=-1)
found["child"] = (await child.communicate())[0].decode().strip()
found
"""


class Programs(rawmcp.ServerCase):
    CONFIG = {"profiles": {"default": {"network": "loopback"}}}

    def value(self, code, **arguments):
        return self.ok(code, timeout=harness.patient(60), wait=harness.patient(60), **arguments)["value"]["json"]

    def test_databases(self):
        names = [name for name, module in (("gnu", "_gdbm"), ("ndbm", "_dbm"), ("dumb", "dbm.dumb")) if importlib.util.find_spec(module)]
        found = self.value(f"NAMES = {names}\n{DATABASES}")
        for name in names:
            self.assertEqual(found.pop(name), ["dbm." + name, "1+", 501, 499, False])
        self.assertEqual(found, {mode: [mode, 60, "ok", 60] for mode in ("delete", "truncate", "persist", "wal")})
        self.assertEqual(self.value("with shelve.open('/workspace/shelf') as s: r = s['a']\nr"), {"b": [1, 2]})

    def test_processes(self):
        self.ok(FUNCTIONS)
        for method in "fork", "spawn", "forkserver":
            with self.subTest(method):
                found = self.value(f"METHOD = {method!r}\n{PROCESSES}")
                self.assertEqual(found, {
                    "pool": [[10, 11, 14, 19], 35, [11, 14]], "executor": [10, 11, 14], "queue": [11, 14], "lock": 400, "shared memory": [True, "other"],
                    "manager": [[[0, True], [1, True], [2, True]], [0, 1, 2]], "barrier": [0, 1], "ended": [0]})

    def test_servers(self):
        self.ok(SERVERS)
        found = self.value(CLIENTS)
        self.assertEqual(found.pop("name"), ["NAME"] * len(found["4"] + found["6"]))
        self.assertEqual(found, {"4": ["4"], "6": ["6"], "unix": "UNIX", "many": True, "datagrams": ["UDP"], "thread": "THREAD", "child": "CHILD"})
        # They were not the servers of another session, and end with this one.
        self.assertEqual(self.value("import asyncio, socket\ns = socket.socket()\ns.connect_ex(('127.0.0.1', %d))" % self.value("ports['4'][0][1]"), session="other"), 111)


if __name__ == "__main__":
    harness.main()
