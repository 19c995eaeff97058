#!/usr/bin/python3
"""Random copies, restores and branches of sessions whose libraries have threads. By hand:

    tests/soak/threads.py [--operations N] [--seed N] [--python FILE | --image NAME] [library ...]

library: polars, duckdb, sklearn, held (tests/integration/held.c); all of them otherwise. --python: of a virtual environment with them; CLOISTER_VENV otherwise. --image:
one that was made before, with another link of the worker. An answer that does not come in 30 s (then gdb prints the backtraces of all workers), a wrong value, or a session that is lost ends it with status 1.
A copy that is refused is counted, and is a failure above 1 %.
"""

import argparse
import base64
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
sys.dont_write_bytecode = True

import harness  # noqa: E402
import rawmcp  # noqa: E402

HANG_S = 30
SETUP = {
    "polars": (
        "import polars as pl\ndf = pl.DataFrame({'a': range(30000), 'b': [i % 7 for i in range(30000)]})\n"
        "def query(n=0): return df.lazy().with_columns(c=pl.col('a') + n).group_by('b').agg(pl.col('c').sum()).sort('b').collect().rows()\n"
    ),
    "duckdb": (
        "import duckdb\ndb = duckdb.connect()\n_ = db.execute('create table t as select i, i % 7 as k from range(300000) r(i)')\n"
        "def query(n=0): return db.execute(f'select k, sum(i + {n}) from t group by k order by k').fetchall()\n"
    ),
    "sklearn": (
        "import numpy as np\nfrom sklearn.cluster import KMeans\ndata = np.random.default_rng(1).random((3000, 4))\n"
        "def query(n=0): return [round(float(v), 6) for v in sorted(KMeans(4, n_init=1, random_state=1).fit(data + n).cluster_centers_[:, 0])]\n"
    ),
}
# A library's threads and Python's: no branches.
SETUP["mixed"] = SETUP["duckdb"].replace("def query(", "def query_here(") + (
    "import concurrent.futures, threading, time\nex = concurrent.futures.ThreadPoolExecutor(2)\nticks = 0\n"
    "def tick():\n    global ticks\n    while True: ticks += 1; time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()\n"
    "def query(n=0):\n    before = ticks\n    rows = [f.result() for f in [ex.submit(sum, [n, 1]), ex.submit(time.sleep, 0.02)]] + query_here(n)\n"
    "    for _ in range(1000):\n        if ticks > before: return rows\n        time.sleep(0.01)\n"
)
LIBRARY = os.path.join(os.environ.get("CLOISTER_BUILD", ""), "tests", "integration", "libheld.so")
if os.path.exists(LIBRARY):
    with open(LIBRARY, "rb") as file:
        SETUP["held"] = (
            f"import base64, ctypes, os\nwith open('/tmp/held.so', 'wb') as file: _ = file.write(base64.b64decode('{base64.b64encode(file.read()).decode()}'))\n"
            "held = ctypes.CDLL('/tmp/held.so')\nbegun = held.begin(30)\ndef query(n=0): return [begun, held.work(), held.which()]\n"
        )
RIGHT = "right = [query(n) for n in range(5)]\n"


class Failure(Exception):
    pass


class Session:
    """One session and what its state must be."""

    def __init__(self, soak, library, name):
        self.soak, self.library, self.name = soak, library, name
        self.value, self.checkpoints = 0, {}
        self.was_refused = False  # a copy of the last change

    def cell(self, code, **arguments):
        return self.soak.cell(self, code, **arguments)

    def check(self):
        n = self.soak.random.randrange(5)
        cell = self.cell(f"[x, query({n}) == right[{n}]]")
        if cell.get("value", {}).get("json") != [self.value, True]:
            raise Failure(f"{self.name}: expected {self.value}: {json.dumps(cell)[:600]}")


class Soak:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.counts = collections.Counter()
        self.slowest = 0
        self.history = collections.deque(maxlen=25)

    def cell(self, session, code, hang=HANG_S, **arguments):
        arguments.setdefault("timeout", 60)
        began = time.monotonic()
        try:
            result = self.server.start_call(code, session=session.name, **arguments).result(hang)
        except TimeoutError:
            self.stacks()
            raise Failure(f"{session.name}: no answer in {hang} s: {code!r} {arguments}") from None
        self.slowest = max(self.slowest, time.monotonic() - began)
        cell = result.get("structuredContent") or {"status": "none", "text": result}
        self.history.append(f"{session.name} {arguments} {code[-60:]!r}: {cell.get('status')} {cell.get('state')} {cell.get('checkpoint')} {cell.get('notice')}")
        if "cannot be held" in cell.get("notice", ""):
            session.was_refused = True
            print("refused:", session.name, cell["notice"][:300], flush=True)
        return cell

    def stacks(self):
        names = subprocess.run(["ps", "-eo", "pid,ppid,comm,args"], capture_output=True, text=True, check=False).stdout.splitlines()
        ours = {self.server.process.pid}
        for _ in range(8):
            ours |= {int(line.split()[0]) for line in names[1:] if int(line.split()[1]) in ours}
        for pid in sorted(ours):
            try:
                with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
                    if not any(name in maps.read() for name in ("polars", "duckdb", "sklearn")):
                        continue
            except OSError:
                continue
            print("==== process", pid, flush=True)
            subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 30"], stderr=subprocess.DEVNULL, check=False)

    # ---- operations: each checks its own result ----

    def change(self, s):
        s.value = self.random.randrange(10**6)
        s.was_refused = False
        cell = s.cell(f"x = {s.value}; query({self.random.randrange(5)})")
        self.expect(s, cell, "ok")

    def expect(self, s, cell, status, state=None):
        if cell["status"] != status or (state and cell.get("state") != state):
            raise Failure(f"{s.name}: expected {status} {state}: {json.dumps(cell)[:800]}")

    def roll_back(self, s):
        cell = s.cell("x = -1; query(1); 1 / 0", on_error="rollback")
        if "TransactionError" in json.dumps(cell.get("error", {})):
            self.note_refusal(s, cell)
            return
        self.expect(s, cell, "error", "rolled_back")

    def note_refusal(self, s, cell):
        self.counts["refused"] += 1
        print("refused:", s.name, json.dumps(cell)[:400], flush=True)

    def transaction(self, s):
        cell = s.cell("y = None\ntry:\n    with transaction():\n        x = -2; query(2); 1 / 0\nexcept ZeroDivisionError: y = 1\nexcept Exception as e: y = repr(e)\ny")
        self.expect(s, cell, "ok")
        if cell["value"].get("json") != 1:
            self.note_refusal(s, cell)

    def crash(self, s):
        """A cell ends the interpreter: the copy after the last cell takes over."""
        time.sleep(0.3)
        code = self.random.choice(("import os; x = -3; query(); os._exit(3)", "import os; x = -3; os.kill(os.getpid(), 11)"))
        cell = s.cell(code)
        if self.was_lost(s, cell):
            return
        got = s.cell("x")["value"].get("json")
        if s.was_refused:
            s.value = got
        if got != s.value:
            raise Failure(f"{s.name}: restored to {got}, not {s.value}: {cell.get('notice')}")

    def time_out(self, s):
        time.sleep(0.3)
        cell = s.cell("import itertools; x = -4; sum(itertools.repeat(1))", timeout=1)
        self.expect(s, cell, "timeout")
        if self.was_lost(s, cell):
            return
        if s.was_refused:
            s.value = s.cell("x")["value"].get("json")

    def was_lost(self, s, cell):
        """Of a session whose last copy was refused there may be no other copy: then it begins again."""
        if cell.get("state") == "restored":
            return False
        if not s.was_refused or cell.get("state") != "lost":
            raise Failure(f"{s.name}: {json.dumps(cell)[:800]}")
        self.note_refusal(s, cell)
        self.begin(s)
        return True

    def begin(self, s):
        s.value, s.checkpoints, s.was_refused = 0, {}, False
        self.expect(s, self.cell(s, SETUP[s.library] + RIGHT + "x = 0\nquery() == right[0]", hang=400, timeout=200), "ok")

    def checkpoint(self, s):
        name = self.random.choice("abc")
        s.value = self.random.randrange(10**6)
        s.was_refused = False
        cell = s.cell(f"x = {s.value}; query({self.random.randrange(5)})", checkpoint=name)
        self.expect(s, cell, "ok")
        if cell.get("checkpoint"):
            s.checkpoints[name] = s.value
        else:
            self.note_refusal(s, cell)

    def restore(self, s):
        if not s.checkpoints:
            return self.checkpoint(s)
        name = self.random.choice(sorted(s.checkpoints))
        cell = s.cell("x", restore=name)
        self.expect(s, cell, "ok", "restored")
        s.value = s.checkpoints[name]
        if "cannot be restored again" in cell.get("notice", ""):
            self.note_refusal(s, cell)
            del s.checkpoints[name]
        if cell["value"].get("json") != s.value:
            raise Failure(f"{s.name}: restored {name}: {json.dumps(cell)[:500]}")
        return None

    def branch(self, s):
        """From the session or from one of its checkpoints. The branch replaces the session, or is ended."""
        if s.library == "mixed":
            return
        source, value = s.name, s.value
        if s.checkpoints and self.random.random() < 0.6:
            name = self.random.choice(sorted(s.checkpoints))
            source, value = f"{s.name}@{name}", s.checkpoints[name]
        self.number += 1
        other = Session(self, s.library, f"{s.library}{self.number}")
        other.value = value
        cell = other.cell(f"[x, query({self.number % 5}) == right[{self.number % 5}]]", **{"from": source})
        if cell["status"] != "ok":
            self.note_refusal(other, cell)
            return
        if cell["value"].get("json") != [value, True]:
            raise Failure(f"branch {other.name} of {source}: expected {value}: {json.dumps(cell)[:600]}")
        s.check()
        other.check()
        ended = s if self.random.random() < 0.5 else other
        self.end(ended)
        if ended is s:
            self.sessions[self.sessions.index(s)] = other

    def end(self, s):
        done = subprocess.run([harness.CLOISTER, "sessions", "end", s.name, "--server", str(self.server.process.pid)], env=harness.environment(),
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"sessions end {s.name}: {done.stderr}")

    def run(self):
        operations = [self.change, self.roll_back, self.roll_back, self.transaction, self.transaction, self.crash, self.checkpoint, self.restore, self.restore, self.branch]
        limits = {"memory": "1500M", "cpu": 4, "pids": 256}
        config = {"python": self.options.python, "limits": limits, "sessions": 64}
        if self.options.image:
            config = {**config, "image": self.options.image}
            del config["python"]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cloister-soak-") as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"mcpServers": {}, **config}, file)
            with rawmcp.RawServer("--config", path, cwd=folder) as self.server:
                self.server.initialize()
                self.number, self.sessions = 0, []
                for library in self.options.libraries:
                    s = Session(self, library, f"{library}0")
                    self.begin(s)
                    self.sessions.append(s)
                try:
                    for done in range(self.options.operations):
                        s = self.random.choice(self.sessions)
                        operation = self.random.choice(operations)
                        self.last = operation.__name__
                        operation(s)
                        self.counts[s.library, operation.__name__] += 1
                        s = next(other for other in self.sessions if other.library == s.library)
                        if self.random.random() < 0.5:
                            s.check()
                        if self.random.random() < 0.02:
                            self.time_out(s)
                            s.check()
                        if done % 100 == 99:
                            print(f"{done + 1} operations, {time.monotonic() - began:.0f} s, slowest {self.slowest:.2f} s, refused {self.counts['refused']}", flush=True)
                except BaseException:
                    print(f"failed in operation {done} ({self.last}), seed {self.options.seed}")
                    print(self.server.log()[-2000:], *self.history, sep="\n")
                    raise
        for key, n in sorted(self.counts.items(), key=str):
            print(key, n)
        return self.counts["refused"] * 100 > self.options.operations


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--python", default=os.path.join(os.environ.get("CLOISTER_VENV", ""), "bin", "python"))
    parser.add_argument("--image")
    parser.add_argument("libraries", nargs="*", default=None)
    options = parser.parse_args()
    options.libraries = options.libraries or list(SETUP)
    try:
        return Soak(options).run()
    except Failure as e:
        print("FAILED:", e)
        return 1


if __name__ == "__main__":
    sys.exit(main())
