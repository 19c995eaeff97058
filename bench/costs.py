"""What bounds cost the sessions that they hold: a build beside another one, alternating. hostile.py runs it with --base.

Each measure returns one figure of a round; less is better. The ratio is that of the medians, the limit is what a bound may cost.
"""

import contextlib
import os
import pkgutil
import statistics
import sys

from measure import Bench, Cloister, Failure, pinned, rest
from rows import Measures
from test_installs import module

SQLITE = """
import sqlite3, time
db = sqlite3.connect('/workspace/costs-%d.db', isolation_level=None)
db.execute('create table if not exists t (n)')
_b = time.perf_counter()
for _n in range({commits}):
    db.execute('insert into t values (1)')
(time.perf_counter() - _b) * 1e3"""

TCP = """
import socket, threading, time
_l = socket.create_server(('127.0.0.1', 0))
def _send(_data=bytes(1 << 16)):
    with socket.create_connection(_l.getsockname()) as s:
        for _ in range({mib} * 16):
            s.sendall(_data)
threading.Thread(target=_send).start()
_c, _b, _n, _into = _l.accept()[0], time.perf_counter(), 0, bytearray(1 << 20)
while _r := _c.recv_into(_into):
    _n += _r
_l.close(); _c.close()
assert _n == {mib} << 20
(time.perf_counter() - _b) * 1e3"""

IMPORTS = """
import sys, time, importlib, contextlib, warnings
_b, _k = time.perf_counter(), 0
warnings.simplefilter('ignore')
for _n in {modules}:
    with contextlib.suppress(ImportError):
        importlib.import_module(_n)
        _k += 1
assert _k > {least}, _k
(time.perf_counter() - _b) * 1e3"""

# No part of the standard library that opens a window, a browser or a test.
LEFT_OUT = ("antigravity", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo", "__main__")
INSTALL = "import time\n_b = time.perf_counter()\ninstall('costs%d')\n(time.perf_counter() - _b) * 1e3"


def modules():
    """300 modules of the standard library that this Python can import, those in packages too."""
    found = sorted(n for n in sys.stdlib_module_names if n.split(".")[0] not in LEFT_OUT)
    for package in ("asyncio", "concurrent.futures", "ctypes", "email", "email.mime", "encodings", "html", "http", "importlib", "json", "logging",
                    "multiprocessing", "unittest", "urllib", "wsgiref", "xml.dom", "xml.etree", "xml.sax", "xmlrpc", "zoneinfo"):
        place = os.path.join(os.path.dirname(os.__file__), *package.split("."))
        found += sorted(f"{package}.{m.name}" for m in pkgutil.iter_modules([place]) if m.name not in ("__main__", "windows_events", "windows_utils"))
    usable = []
    for name in found:
        with contextlib.suppress(Exception):
            __import__(name)
            usable.append(name)
    return usable[:300]


class Costs:
    """The measures of one build."""

    def __init__(self, bench, index, uv):
        self.bench, self.index, self.uv = bench, index, uv  # test_installs.py describes the index
        self.measures = Measures(bench, False)
        self.rounds = 0

    def warm(self):
        with pinned(), Cloister(self.bench) as server:
            server.burst_ok(200, "1+1")
            return statistics.median(server.burst_ok(1000, "1+1")) / 1e6

    def fresh(self):
        return statistics.median(self.measures.fresh()["fresh"]) / 1e6

    def memory(self):
        return self.measures.memory()["memory-plain"][0] / 1e6

    def value(self, code, config=None):
        """The figure that a cell returns, in a session that has run it once."""
        with Cloister(self.bench, config) as server:
            server.run(code.replace("%d", "0"))
            return server.run(code.replace("%d", "1"))[2]

    def sqlite(self):
        return self.value(SQLITE.format(commits=10000))

    def tcp(self):
        return self.value(TCP.format(mib=256), {"network": "loopback"})

    def imports(self):
        with Cloister(self.bench, {"pool": 0}) as server:
            server.run("1")
            for folder, _, files in os.walk(self.store()):
                for name in files:
                    with contextlib.suppress(OSError):
                        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                        os.close(fd)
            rest(0.2)
            return server.run(IMPORTS.format(modules=MODULES, least=len(MODULES) * 9 // 10), "cold")[2]

    def store(self):
        return self.bench.environment["CLOISTER_IMAGE_STORE"]

    def install(self, uv):
        """Of a package that no earlier round has fetched."""
        self.rounds += 1
        name = f"{os.getpid()}i{id(self)}i{self.rounds}"
        self.index.wheels.update([module(f"costs{name}", "1.0", data="x" * (1 << 20))])
        before = self.bench.environment["PATH"]
        self.bench.environment["PATH"] = f"{os.path.dirname(self.uv)}:{before}" if uv else before
        try:
            with Cloister(self.bench, {"packages": {"install": "allow", "index": self.index.url()}}) as server:
                server.run("1")
                return server.run(INSTALL.replace("%d", name))[2]
        finally:
            self.bench.environment["PATH"] = before

    def pip(self):
        return self.install(False)

    def uv_install(self):
        return self.install(True)


MODULES = modules()
# name of the method, title, unit, what the ratio may be; more: what may be added instead.
ROWS = (
    ("warm", "`1+1` in a living session", "ms", 1.02),
    ("fresh", "`1+1` in a session made for it", "ms", 1.05),
    ("memory", "memory of an idle session, + 64 KiB", "MiB", None),
    ("sqlite", "10,000 commits of SQLite in /workspace", "ms", 1.2),
    ("tcp", "256 MiB over TCP on loopback", "ms", 1 / 0.7),
    ("imports", f"import of {len(MODULES)} modules from an image that is not in the page cache", "ms", 1.1),
    ("pip", "installation of a package, by pip", "ms", 1.2),
    ("uv_install", "installation of a package, by uv", "ms", 1.2),
)
MORE_MEMORY = 64 / 1024
SELDOM = {"memory": 3, "sqlite": 5, "imports": 5, "pip": 5, "uv_install": 5}


def rows_here(uv):
    """Packages are never fetched by root."""
    return [row for row in ROWS if not (row[0] in ("pip", "uv_install") and os.geteuid() == 0) and not (row[0] == "uv_install" and not uv)]


def compare(builds, work, rounds, index, uv, chosen):
    """Prints a row each. builds: (this one, the other one). Returns (the number of rows, the names of those that failed or are above their limits)."""
    both = []
    for name, build in zip(("now", "base"), builds):
        bench = Bench(os.path.join(build, "cloister"), os.path.join(build, "bench"), "", work)
        bench.environment["CLOISTER_IMAGE_STORE"] = os.path.join(work, f"store-{name}")
        bench.warm_up()
        both.append(Costs(bench, index, uv))
    print(f"\n{'cost':62} {'base':>9} {'now':>9} {'ratio':>6} {'limit':>6}", flush=True)
    rows, failed = 0, []
    for name, title, unit, limit in rows_here(uv):
        if chosen and not any(part in name for part in chosen):
            continue
        took = [[], []]
        rows += 1
        try:
            for turn in range(min(rounds, SELDOM.get(name, rounds))):
                for i in (0, 1) if turn % 2 else (1, 0):
                    took[i].append(getattr(both[i], name)())
        except Failure as e:
            print(f"{title:62} {str(e)}", flush=True)
            failed.append(name)
            continue
        now, base = map(statistics.median, took)
        above = now > base * limit if limit else now > base + MORE_MEMORY
        failed += [name] if above else []
        bound = f"{limit:6.2f}" if limit else "      "
        print(f"{title:62} {base:9.2f} {now:9.2f} {now / base:6.2f} {bound} {unit}{'  above' if above else ''}", flush=True)
    for costs in both:
        costs.measures.close()
    return rows, failed
