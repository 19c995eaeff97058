"""`cloister bench`: it measures what it names, reports missing peers, and refuses unknown arguments."""

import glob
import json
import os
import subprocess
from xml.etree import ElementTree

import harness

PROGRAMS = os.path.join(harness.BUILD, "bench")
PING = os.path.join(PROGRAMS, "bench-ping")


class Command(harness.Case):
    def bench(self, *args, status=0, env=None):
        done = self.run_cloister("bench", *args, timeout=300, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def found(self, *args, env=None):
        return json.loads(self.bench("--json", "--quick", *args, env=env).stdout)

    def test_every_row_of_ours(self):
        """Measured, or with the reason why not; what is held against something has its ratio and its verdict."""
        found = self.found("own", "fork", "python")
        rows = {row["name"]: row for row in found["rows"]}
        expected = {"bwrap", "run", "first", "fresh", "fresh-pool", "floor-echo", "warm", "warm-http", "tool-c", "tool-python",
                    "memory", "spin-p99", "fork", "python"}
        self.assertLessEqual(expected, set(rows))
        for name, row in rows.items():
            with self.subTest(name):
                if "missing" in row:
                    self.assertIn(name.split("-")[-1], ("everything",), row)
                    continue
                self.assertGreater(row["n"], 0)
                self.assertGreaterEqual(row["p95"], row["median"])
                if name != "memory":
                    self.assertGreater(row["median"], 0)
                if "ratio" in row:
                    self.assertAlmostEqual(row["ratio"], row["median"] / rows[row["against"]]["median"])
                if row.get("budget") and "ratio" in row:
                    self.assertEqual(row["verdict"], "holds" if row["ratio"] <= row["budget"] else "missed")
        # Orders of magnitude that hold on any machine.
        self.assertLess(rows["floor-echo"]["median"], rows["warm"]["median"])
        self.assertLess(rows["warm"]["median"], rows["first"]["median"])
        self.assertLess(rows["direct-c"]["median"], rows["tool-c"]["median"])
        for name, floor in (("fresh", "floor-session"), ("warm", "floor-cell"), ("tool-c", "floor-await-c")):
            self.assertEqual(rows[name]["floor"], floor)
            self.assertAlmostEqual(rows[name]["of_floor"], rows[name]["median"] / rows[floor]["median"])
        self.assertIn("root" if harness.ROOT else "ordinary", found["machine"]["line"])

    def test_the_table(self):
        text = self.bench("warm", "--quick").stdout.decode()
        self.assertRegex(text, r"(?m)^warm +[\d.]+ +[\d.]+ +[\d.]+ +10  floor-echo +[\d.]+x +<= 8x  (holds|missed) +[\d.]+x$")
        self.assertRegex(text, r"(?m)^  warm +`1\+1` in a living session$")

    def test_one_that_is_terminated_leaves_nothing(self):
        place = self.path("tmp")
        os.mkdir(place)
        run = subprocess.Popen([harness.CLOISTER, "bench", "warm", "--rounds", "10000"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=harness.environment(TMPDIR=place))
        self.addCleanup(run.kill)
        self.assertTrue(harness.wait_until(lambda: glob.glob(place + "/*/config-*")))
        run.terminate()
        self.assertEqual(run.wait(30), 130)
        self.assertEqual(os.listdir(place), [])

    def test_growth(self):
        curves = self.found("sessions", "results", "parallel", "session-heap", "tools")["growth"]
        self.assertEqual(set(curves), {"sessions", "results", "parallel", "session-heap", "tools"})
        for name, curve in curves.items():
            with self.subTest(name):
                self.assertNotIn("stopped", curve)
                self.assertEqual(len(curve["points"]), 2)
                for point in curve["points"]:
                    self.assertTrue(all(value > 0 for value in point.values()), point)

    def test_a_missing_peer_is_reported(self):
        os.mkdir(self.path("bin"))
        for name in ("python3", "newuidmap", "newgidmap"):
            if os.path.exists(f"/usr/bin/{name}"):
                os.symlink(f"/usr/bin/{name}", self.path(f"bin/{name}"))
        done = self.bench("--quick", "first", "runc", env=harness.environment(PATH=self.path("bin")))
        text = done.stdout.decode()
        self.assertRegex(text, r"(?m)^bwrap +not there: bwrap is not installed$")
        self.assertRegex(text, r"(?m)^runc +not there: runc is not installed$")
        # What it would be held against is not there: no ratio, and no verdict made up.
        self.assertRegex(text, r"(?m)^first +[\d.]+ +[\d.]+ +[\d.]+ +1 +<= 1\.2x$")

    def test_refusals(self):
        for args, line in ((["wram"], "no row is named 'wram': did you mean 'warm'?"),
                           (["--rounds", "0"], "--rounds 0: a number from 1 to 10000 is needed"),
                           (["--rounds", "many"], "--rounds many: a number from 1 to 10000 is needed"),
                           (["--timeout", "3"], "--timeout is not an option of 'bench'")):
            with self.subTest(args):
                said = self.bench(*args, status=2).stderr.decode()
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(line, said)


ROUND_TRIPS = {"floor-echo", "floor-relay", "floor-cell", "warm", "warm-http", "direct-http-everything",
               "tool-http-everything"} | {
    f"{what}-{server}" for what in ("direct", "floor-await", "tool") for server in ("c", "python", "everything")}

# Which CPUs each measure of a run has; nothing is measured.
MEASURED_ON = """import json, os, run
told = {}
for name, names, _ in run.MEASURES:
    def measure(self, names=names):
        told.update({name: sorted(os.sched_getaffinity(0)) for name in names})
        return {}
    setattr(run.Measures, name, measure)
bench = run.Bench("", "", "", "")
run.Run(bench, set(run.OWN) - {"bwrap"}, 1, True).measure()
print(json.dumps({"all": sorted(os.sched_getaffinity(0)), "told": told, "line": run.machine(bench)["line"]}))
"""

# Which CPUs the processes of a server have, one started for round trips and one for other rows.
STARTED_ON = """import contextlib, json, os, sys, tempfile, measure, where
with tempfile.TemporaryDirectory() as work:
    bench, told = measure.Bench(sys.argv[1], sys.argv[2], "", work), []
    for one_cpu in (True, False):
        config = {"mcpServers": {"c": {"command": bench.program("bench-echo"), "args": []}}}
        with measure.pinned() if one_cpu else contextlib.nullcontext():
            server = measure.Cloister(bench, config)
        server.run("await tools['echo'](message='x')")
        told.append({name: sorted(os.sched_getaffinity(pid))
                     for pid, (name, *_) in where.processes(server.process.pid).items()})
        server.close()
    print(json.dumps(told))
"""


class Pinned(harness.Case):
    """Round trips and what they are compared with run on one CPU; the scheduler places everything else."""

    def script(self, code, *args):
        code = f"import sys\nsys.dont_write_bytecode = True\nsys.path.insert(0, {PROGRAMS!r})\n{code}"
        done = subprocess.run(["/usr/bin/python3", "-c", code, *args], capture_output=True, check=False, timeout=120,
                              env=harness.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def setUp(self):
        super().setUp()
        self.cpus = sorted(os.sched_getaffinity(0))
        if len(self.cpus) == 1:
            self.skipTest("one CPU: there is nothing to pin")

    def test_the_rows(self):
        found = self.script(MEASURED_ON)
        for name, cpus in found["told"].items():
            self.assertEqual(cpus, self.cpus[-1:] if name in ROUND_TRIPS else self.cpus, name)
        self.assertLessEqual(ROUND_TRIPS | {"fresh", "floor-session", "spin-p99", "run"}, set(found["told"]))
        self.assertEqual(found["all"], self.cpus)
        self.assertTrue(found["line"].endswith(f", round trips on CPU {self.cpus[-1]}"), found["line"])

    def test_all_that_a_server_starts(self):
        """The client, the broker, the worker and the tool's server run on that CPU only."""
        one, free = self.script(STARTED_ON, harness.CLOISTER, PROGRAMS)
        for told, cpus in ((one, self.cpus[-1:]), (free, self.cpus)):
            self.assertLessEqual({"bench-ping", "cloister-broker", "cloister-monito", "bench-echo", "memfd:cloister-"}, set(told))
            self.assertEqual({name: cpus for name in told}, told)

    def test_the_cpu_is_reported(self):
        done = self.run_cloister("bench", "--json", "--quick", "warm", "initialize", timeout=300)
        found = json.loads(done.stdout)
        self.assertEqual(found["machine"]["round_trip_cpu"], self.cpus[-1])
        self.assertEqual({row["name"]: row["one_cpu"] for row in found["rows"]},
                         {"floor-echo": True, "floor-cell": True, "warm": True, "initialize": False, "bwrap": False})


class Report(harness.Case):
    """Tables and plots of the page: made of what a run printed, and of nothing else."""

    PARTS = ["results", "peers", "growth", "where"]

    def report(self, *files):
        done = subprocess.run(["/usr/bin/python3", "-I", os.path.join(PROGRAMS, "report.py"), "--docs", self.dir, *files],
                              capture_output=True, check=False, timeout=60)
        return done.returncode, done.stderr.decode()

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def page(self):
        self.write("performance.md", "# Speed\n" + "".join(
            f"<!-- made by bench/report.py: {part} -->\nold {part}\n<!-- end of {part} -->\n" for part in self.PARTS))

    def test_the_page(self):
        self.page()
        done = self.run_cloister("bench", "--json", "--quick", "own", "python", "runc", "parallel", timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = self.write("run.json", done.stdout.decode())
        found = subprocess.run(["/usr/bin/python3", "-I", os.path.join(PROGRAMS, "where.py"), "--json", "--calls", "20"],
                               capture_output=True, check=False, timeout=60, env=harness.environment())
        self.assertEqual(found.returncode, 0, found.stderr)
        ways = json.loads(found.stdout)["ways"]
        # Those that work for a call are found, and a cell is no work of the monitor's.
        for who in ("the sandbox: worker, init, template", "the broker", "the client"):
            self.assertGreater(ways["warm"]["processes"][who]["cpu_us"], 1, ways)
        self.assertGreater(ways["tool"]["processes"]["the tool's server"]["cpu_us"], 1, ways)
        where = self.write("where.json", found.stdout.decode())
        self.assertEqual(self.report(run, where), (0, ""))
        names = ["performance.md"] + [f"performance-{what}-{'root' if harness.ROOT else 'ordinary'}.svg"
                                      for what in ("fresh", "growth")]
        first = {name: self.read(name) for name in names}
        page = first["performance.md"]
        for part in self.PARTS:
            self.assertNotIn(f"\nold {part}\n", page)
        warm = next(row for row in json.loads(done.stdout)["rows"] if row["name"] == "warm")
        # A run as root fills the columns of root, and those of the ordinary user are empty.
        took = f"{warm['median']:.3f}" if warm["median"] < 1 else r"[\d.]+"
        self.assertRegex(page, rf"(?m)^\| warm \| [^|]* \| - \| - \| {took} \|" if harness.ROOT else rf"(?m)^\| warm \| [^|]* \| {took} \|")
        self.assertRegex(page, r"(?m)^\| calls at once, [\d,]+ to [\d,]+ \| a call \|")
        for name in names[1:]:
            self.assertEqual(ElementTree.fromstring(first[name]).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(self.report(run, where), (0, ""))
        self.assertEqual({name: self.read(name) for name in names}, first)

    def test_what_is_no_run(self):
        self.page()
        status, said = self.report(self.write("wrong.json", "[]"))
        self.assertEqual((status, len(said.splitlines())), (1, 1), said)
        self.assertIn("is not what run.py --json prints", said)


class Client(harness.Case):
    """bench-ping: an answer that is not the one that is wanted is no measurement."""

    def ping(self, script, *command):
        return subprocess.run([PING, *command], input=script.encode(), capture_output=True, check=False, timeout=60)

    def test_answers(self):
        line = '{"id": %d, "text": "x"}'
        done = self.ping(f'want "text"\nask {line}\nburst 3 {line}\n', os.path.join(PROGRAMS, "bench-floor-echo"))
        self.assertEqual(done.returncode, 0, done.stderr)
        first, burst = map(json.loads, done.stdout.splitlines())
        # The number is one higher for each line, and is part of what comes back.
        self.assertEqual(first["answer"], {"id": 1, "text": "x"})
        self.assertEqual(len(burst["ns"]), 3)
        self.assertTrue(all(0 < ns < 10e9 for ns in burst["ns"]))

    def floors(self, script, *names):
        return self.ping(script, *(os.path.join(PROGRAMS, f"bench-floor-{name}") for name in names))

    def test_a_program_in_the_middle(self):
        """What is passed on is whole; the end of the program is that of the relay."""
        lines = b"".join(b"%d %s\n" % (i, b"x" * 500) for i in range(100))
        relay = os.path.join(PROGRAMS, "bench-floor-relay")
        done = subprocess.run([relay, "/bin/sh", "-c", "cat; exit 3"], input=lines, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, lines))
        done = subprocess.run([relay, "/nowhere"], input=b"", capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, b"floor-relay: /nowhere: No such file or directory\n"))

    def test_the_least_of_cells(self):
        """It evaluates what it is sent, and each request anew."""
        request = '{"id":%%d,"params":{"arguments":{"code":"%s"}}}\n'
        done = self.floors("".join("ask " + request % code for code in ("6*7", "[1]")), "relay", "cell")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line)["answer"]["result"]["repr"] for line in done.stdout.splitlines()],
                         ["42", "[1]"])
        done = self.floors("ask " + request % "1+", "cell")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not a cell that has a value", done.stderr)

    def test_the_least_of_awaits(self):
        script = ["/usr/bin/python3", "-I", os.path.join(PROGRAMS, "floor-await.py"), "10"]
        done = subprocess.run([*script, os.path.join(PROGRAMS, "bench-echo")], capture_output=True, check=False)
        self.assertEqual(len(json.loads(done.stdout)["ns"]), 10, done.stderr)
        done = subprocess.run([*script, "/bin/true"], capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr, b"the program ended|Broken pipe")

    def test_the_wrong_answer(self):
        done = self.ping('want "ok"\nask {"id": %d}\n', os.path.join(PROGRAMS, "bench-floor-echo"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not the answer that is wanted", done.stderr)

    def test_a_program_that_ends(self):
        done = self.ping("ask x\n", "/bin/true")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, b"ended before it answered|Broken pipe")

    def test_the_time_is_that_of_the_answer(self):
        """A server that takes 50 ms takes 50 ms; other lines on the way are not the answer."""
        server = ("import sys, time\nfor line in sys.stdin:\n time.sleep(0.05)\n"
                  " print('{\"id\": 0}', flush=True)\n print(line, end='', flush=True)")
        done = self.ping('burst 3 {"id":%d}\n', "/usr/bin/python3", "-Ic", server)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(ns > 50e6 for ns in json.loads(done.stdout)["ns"][1:]), done.stdout)

    def test_one_shot(self):
        done = self.ping("want 2\nwait\n", "/usr/bin/python3", "-Ic", "import time; time.sleep(.05); print(2)")
        self.assertGreater(json.loads(done.stdout)["age_ns"], 50e6)
        self.assertEqual(self.ping("want 3\nwait\n", "/bin/echo", "2").returncode, 1)
        self.assertEqual(self.ping("wait\n", "/bin/false").returncode, 1)

    def test_the_minimal_servers_are_servers(self):
        handshake = ('ask {"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n'
                     'send {"jsonrpc":"2.0","method":"notifications/initialized"}\n'
                     'ask {"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'
                     'ask {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":'
                     '{"message":"hé"}}}\nask {"jsonrpc":"2.0","id":%d,"method":"nothing"}\n')
        for command in ([os.path.join(PROGRAMS, "bench-echo")],
                        ["/usr/bin/python3", "-I", os.path.join(PROGRAMS, "echo.py")]):
            with self.subTest(command):
                done = self.ping(handshake, *command)
                self.assertEqual(done.returncode, 0, done.stderr)
                hello, tools, call, error = (json.loads(line)["answer"] for line in done.stdout.splitlines())
                self.assertEqual(hello["result"]["protocolVersion"], "2025-06-18")
                self.assertEqual(tools["result"]["tools"][0]["name"], "echo")
                self.assertEqual(call["result"]["content"], [{"type": "text", "text": "hé"}])
                self.assertEqual(error["error"]["code"], -32601)


if __name__ == "__main__":
    harness.main()
