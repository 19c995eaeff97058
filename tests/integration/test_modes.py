"""The privilege modes: the ids of sessions, their limits, and that nothing is left behind.

In the machine of tests/vm, CLOISTER_TEST_EXPECT has the expected values: mode=rootless|capable|root, cgroup=2,
ids=distinct|one. On other machines the doctor's report is compared with the real state. As root, the other modes are tested too.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import harness
import rawmcp

EXPECT = dict(item.split("=") for item in os.environ.get("CLOISTER_TEST_EXPECT", "").split(",") if item)
MIB = 1 << 20
# Of one principal: supervisor/monitor/cgroup/cgroup-spare.h.
SPARES = 16


def doctor(env=None, prefix=()):
    done = subprocess.run([*prefix, harness.CLOISTER, "doctor", "--json"], env=env or harness.environment(), timeout=60,
                          capture_output=True, check=False)
    return {layer["name"]: layer for layer in json.loads(done.stdout)["layers"]}


def status_of(pid):
    """Returns {} for a process that has ended meanwhile, such as the copy of a worker that a newer copy replaced."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    return {}


def workers(server):
    """Returns the pids of the processes in sandboxes: they have a pid in three namespaces (this one, the template's, their own)."""
    depth = len(status_of("self")["NSpid"].split())
    return [pid for pid in harness.descendants(server.process.pid) if len(status_of(pid).get("NSpid", "").split()) >= depth + 2]


def leaves(server):
    """Returns the control groups of a server's sessions."""
    return glob.glob(f"/sys/fs/cgroup/**/cloister-{server.process.pid}-*/**/s-*", recursive=True)


class Here(rawmcp.ServerCase):
    """The mode in which the tests were started."""

    CONFIG = {"limits": {"cpu": 0.5, "memory": "160M", "pids": 40}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.layers = doctor()

    def bounded(self):
        """Returns whether control groups limit sessions here, according to the doctor."""
        return "cgroup" in self.layers["limits"]["detail"] and self.layers["limits"]["state"] != "missing" \
            and "without a cgroup" not in self.layers["limits"]["detail"]

    def test_the_doctor_names_what_was_expected(self):
        if "mode" in EXPECT:
            self.assertTrue(self.layers["privilege"]["detail"].startswith(EXPECT["mode"] + ":"), self.layers["privilege"])
        if "cgroup" in EXPECT:
            self.assertIn(f"cgroup version {EXPECT['cgroup']}", self.layers["limits"]["detail"])
        if "ids" in EXPECT:
            self.assertEqual("host id of its own" in self.layers["privilege"]["detail"], EXPECT["ids"] == "distinct", self.layers["privilege"])
        if not EXPECT:
            self.assertIn(self.layers["privilege"]["state"], ("effective", "degraded"))

    def test_host_ids_are_as_the_doctor_says(self):
        for name in ("ids-a", "ids-b"):
            self.ok("1", session=name)
        live = [status for status in map(status_of, workers(self.server)) if status]
        uids = {status["Uid"].split()[0] for status in live}
        gids = {status["Gid"].split()[0] for status in live}
        self.assertTrue(uids)
        if "host id of its own" in self.layers["privilege"]["detail"]:
            self.assertGreaterEqual(len(uids), 2)
            self.assertGreaterEqual(len(gids), 2)
            self.assertNotIn(str(os.geteuid()), uids)
        else:
            self.assertEqual(uids, {str(os.geteuid())})
        self.assertNotIn("0", uids)

    def test_each_session_has_a_leaf_or_the_log_says_why_not(self):
        self.ok("1")
        if self.bounded():
            self.assertTrue(leaves(self.server))
            self.assertNotIn("degraded", self.server.log())
        else:
            self.assertEqual(leaves(self.server), [])
            self.assertIn("no control group: the memory of sessions is counted", self.server.log() + self.log_at_info())

    def test_a_session_is_cloned_into_its_leaf(self):
        self.ok("1", session="placed")
        groups = glob.glob(f"/sys/fs/cgroup/**/cloister-{self.server.process.pid}-*/**/t-*/cgroup.procs", recursive=True)
        if EXPECT.get("cgroup") != "2":
            # The session was moved there. On version 1 the template has a leaf in each hierarchy.
            self.assertEqual({os.path.basename(os.path.dirname(group)) for group in groups}, {"t-0-1"} if self.bounded() else set())
            return
        # The template is in a leaf next to those of its sessions, because otherwise it might not be allowed to clone into them.
        self.assertEqual(len(groups), 1, groups)
        with open(groups[0], encoding="ascii") as f:
            template = int(f.read().split()[0])
        parent = os.path.dirname(os.path.dirname(groups[0]))
        owners = {name: (status.st_uid, status.st_gid) for name in ("cgroup.procs", "memory.max", "cgroup.subtree_control")
                  for status in [os.stat(f"{parent}/{name}")]}
        leaf = {name: os.stat(f"{leaves(self.server)[-1]}/{name}").st_uid for name in ("cgroup.procs", "memory.max", "pids.max")}
        if EXPECT["mode"] == "root":
            # After a refused clone the monitor would own the files, because it would move the session itself.
            ids = tuple(int(status_of(template)[kind].split()[0]) for kind in ("Uid", "Gid"))
            self.assertNotIn(0, ids)
            self.assertEqual(owners, {"cgroup.procs": ids, "memory.max": (0, 0), "cgroup.subtree_control": (0, 0)})
            self.assertEqual(leaf, {"cgroup.procs": ids[0], "memory.max": 0, "pids.max": 0})
            # Neither init nor the worker holds the descriptor by which the template named the leaf.
            with open(f"{leaves(self.server)[-1]}/cgroup.procs", encoding="ascii") as f:
                held = [os.readlink(f"/proc/{pid}/fd/{fd}") for pid in f.read().split() for fd in os.listdir(f"/proc/{pid}/fd")]
            self.assertTrue(held)
            self.assertFalse([path for path in held if "/s-" in path], held)
        else:
            self.assertEqual({uid for uid, _ in owners.values()} | set(leaf.values()), {os.stat(parent).st_uid})

    def log_at_info(self):
        done = subprocess.run([harness.CLOISTER, "run", "--log-level", "info", "--config", "/dev/null", "-c", "1"], env=harness.environment(),
                              timeout=60, capture_output=True, check=False)
        return done.stderr.decode()

    def test_too_much_memory_ends_one_session(self):
        self.ok("kept = 42", session="bystander")
        self.ok("kept = 43", session="eater")
        # Allocates in pieces, in a child as well: together the two exceed the limit, each alone does not.
        code = ("import os, time\nparts = []\nif os.fork() == 0:\n    parts = [b'x' * (1 << 20) for _ in range(100)]\n    time.sleep(600)\n"
                "time.sleep(1)\nfor i in range(100): parts.append(b'x' * (1 << 20))\nlen(parts)")
        cell = self.cell(code, session="eater")
        if self.bounded():
            self.assertIn(cell["status"], ("oom", "ok"), cell)  # the kernel takes either process
            done = self.cell("b = [b'x' * (1 << 20) for _ in range(400)]", session="eater-alone")
            self.assertEqual(done["status"], "oom", done)
            self.assertEqual(done["state"], "lost")
        else:
            done = self.cell("b = bytearray(1 << 30)", session="eater-alone")
            self.assertEqual((done["status"], done.get("error", {}).get("type")), ("error", "MemoryError"), done)
        self.assertEqual(self.value("kept", session="bystander"), 42)

    def test_a_fork_bomb_is_bounded_by_its_session(self):
        self.ok("kept = 42", session="bystander-2")
        code = ("import os, time\nn = 0\ntry:\n    while n < 1000:\n        if os.fork() == 0:\n            time.sleep(600)\n        n += 1\n"
                "except OSError as e:\n    n = [n, e.errno]\nn")
        n, code = self.value(code, session="bomb")
        self.assertEqual(code, 11)
        self.assertLess(n, 40)
        self.assertEqual(self.value("kept", session="bystander-2"), 42)

    SPIN = "import time\nend = time.monotonic() + {0}\nwhile time.monotonic() < end: pass"

    @harness.alone
    def test_processor_time_is_shared_as_set(self):
        # Two sessions that spin at the same time get half a processor each.
        seconds = 2 if harness.SLOW == 1 else 10
        for name in ("spin-a", "spin-b"):
            self.ok("1", session=name)
        both = [self.server.start_call(self.SPIN.format(seconds), session=name) for name in ("spin-a", "spin-b")]
        cells = [waiting.result(seconds * 4 + harness.PATIENCE)["structuredContent"] for waiting in both]
        for cell in cells:
            self.assertEqual(cell["status"], "ok", cell)
            if self.bounded() and self.layers["limits"]["state"] == "effective":
                self.assertLess(cell["cpu_ms"], cell["duration_ms"] * 0.62 + 50, cell)
                self.assertGreater(cell["cpu_ms"], 0, cell)
            else:
                self.assertGreater(cell["cpu_ms"], 0, cell)

    def held(self):
        """Returns the groups of sessions that have processes."""
        found = set()
        for group in leaves(self.server):
            with contextlib.suppress(OSError), open(f"{group}/cgroup.procs", encoding="ascii") as f:
                found |= {group} if f.read() else set()
        return found

    def groups_of(self, name):
        """Returns the groups of the processes with this name."""
        found = set()
        for pid in harness.descendants(self.server.process.pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as comm, open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                found |= set(f.read().splitlines()) if comm.read().strip() == name else set()
        return found

    def test_an_ended_session_leaves_no_group(self):
        self.ok("import ctypes, os\nif os.fork() == 0:\n    ctypes.CDLL(None).prctl(15, b'lingers', 0, 0, 0)\n    import time; time.sleep(600)", session="short")
        self.assertTrue(harness.wait_until(lambda: self.groups_of("lingers")))
        before = set(leaves(self.server))
        # os._exit() would end it only if it has no copy yet.
        self.cell("1", session="short", reset=True)
        if self.bounded() and os.path.exists("/sys/fs/cgroup/memory"):
            # Version 1: the emptied group waits for the next session, in each of five hierarchies. The pool makes others meanwhile.
            self.assertTrue(harness.wait_until(lambda: not self.groups_of("lingers")))
            self.assertLessEqual(len(set(leaves(self.server)) - self.held()), 5 * SPARES)
        elif self.bounded():
            self.assertTrue(before)
            self.assertTrue(harness.wait_until(lambda: len(set(leaves(self.server)) & before) < len(before)), leaves(self.server))
        else:
            self.assertEqual(before, set())


class Killed(harness.Case):
    """After SIGKILL of the monitor its control groups, processes and scope disappear."""

    def test_nothing_stays(self):
        server = rawmcp.RawServer("--config", self.config())
        self.addCleanup(server.free)
        server.initialize()
        server.cell("import os\nfor _ in range(3):\n    if os.fork() == 0:\n        import time; time.sleep(600)", session="a")
        groups = leaves(server)
        self.assertTrue(groups or "cgroup" not in EXPECT)
        scopes = {os.path.dirname(os.path.dirname(path)) for path in groups}
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(harness.PATIENCE)
        self.assertTrue(harness.wait_until(lambda: not any(map(os.path.exists, groups))), groups)
        made = {path for path in scopes if re.search(r"cloister-\d+-[0-9a-f]+\.scope$", path)}
        self.assertTrue(harness.wait_until(lambda: not any(map(os.path.exists, made))), made)
        if EXPECT.get("cgroup") == "2":
            self.assertTrue(made, scopes)


class Brief(harness.Case):
    """A server that ends while it waits for a scope: systemd removes the scope."""

    def test_nothing_stays(self):
        # Ends at every moment of the request for a scope, if this mode requests one.
        for i in range(40 if EXPECT.get("cgroup") == "2" else 2):
            server = rawmcp.RawServer("--config", self.config())
            self.addCleanup(server.free)
            server.initialize()
            server.ask("tools/list")
            time.sleep(i * 0.02)
            self.assertEqual(server.close(), 0)


class Bus(harness.Case):
    """A program other than systemd answers on the user's bus: limits become rlimits, and everything else works."""

    def served_by(self, talk):
        """Starts a server whose bus address is a socket on which talk(connection) runs."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path("bus"))
        listening.listen()
        self.addCleanup(listening.close)
        threading.Thread(target=lambda: talk(listening), daemon=True).start()
        env = harness.environment(DBUS_SESSION_BUS_ADDRESS=f"unix:path={self.path('bus')}", XDG_RUNTIME_DIR=self.dir)
        server = rawmcp.RawServer("--log-level", "info", "--config", self.config(), env=env)
        self.addCleanup(server.free)
        server.initialize()
        self.assertTrue(server.ask("tools/list")["tools"])
        self.assertEqual(server.cell("6 * 7")["value"]["json"], 42)
        return server

    def test_one_that_never_answers(self):
        server = self.served_by(lambda listening: None)
        self.assertIn("degraded", server.log())
        self.assertIn("within 2 s", server.log())
        self.assertEqual(leaves(server), [])

    def test_one_that_talks_nonsense(self):
        def talk(listening):
            connection, _ = listening.accept()
            connection.sendall(b"REJECTED x\r\n" + os.urandom(65536))
            connection.close()
        # The server tries the standard address next, where systemd answers.
        server = self.served_by(talk)
        self.assertTrue(leaves(server), server.log())


class Unit(harness.Case):
    """A service of the user manager, in which Cloister is alone."""
    BUS = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}

    def start(self, delegate):
        """Returns the server and the name of its unit."""
        name = f"cloister-test-{os.getpid()}-{delegate}.service"
        own = [f"--setenv={key}={value}" for key, value in harness.environment().items()]
        prefix = ("systemd-run", "--user", "--quiet", "--wait", "--collect", "--pipe", f"--unit={name}", f"--property=Delegate={delegate}", *own)
        server = rawmcp.RawServer("--config", self.config(limits={"memory": "96M"}), env=harness.environment(**self.BUS), prefix=prefix)
        self.addCleanup(server.free)
        server.initialize()
        return server, name

    def group(self, name):
        done = subprocess.run(["systemctl", "--user", "show", "--property=MainPID", "--value", name], env=harness.environment(**self.BUS), capture_output=True,
                              text=True, timeout=60, check=True)
        with open(f"/proc/{done.stdout.strip()}/cgroup", encoding="ascii") as f:
            return f.read()

    def test_an_oom_ends_one_session(self):
        """systemd stops a unit without Delegate=yes when a process in its group is killed for memory."""
        for delegate in "no", "yes":
            with self.subTest(delegate=delegate):
                server, name = self.start(delegate)
                self.assertEqual(server.cell("kept = 1", session="bystander")["status"], "ok")
                # A delegated unit is used, and its limits hold. Otherwise the group is that of a scope.
                self.assertEqual(f"/{name}/" in self.group(name), delegate == "yes", self.group(name))
                self.assertEqual(server.cell("b = [b'x' * (1 << 20) for _ in range(200)]", session="eater")["status"], "oom")
                time.sleep(1)  # systemd hears of it
                self.assertEqual(server.cell("kept", session="bystander")["value"]["json"], 1)
                self.assertEqual(server.close(), 0)


# These tests need a user manager's bus at its standard address.
if EXPECT.get("cgroup") != "2" or harness.ROOT:
    del Bus, Unit


UID = 4343  # not the uid of run-test, whose tests may run at the same time


class Other(harness.Case):
    """Root starts the server as an ordinary user with some extra privilege."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # One home for all tests, so that the image is built once.
        cls.home = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        os.chown(cls.home, UID, UID)

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        self.env = harness.environment(HOME=self.home, CLOISTER_IMAGE_STORE=os.path.join(self.home, "images"))

    def config_of(self, uid, name="config.json", **rest):
        path = self.config({"fixture": harness.fixture()}, name, **rest)
        os.chown(path, uid, uid)
        os.chmod(path, 0o644)
        return path

    def start(self, prefix, config):
        server = rawmcp.RawServer("--config", config, env=self.env, prefix=prefix, cwd="/")
        self.addCleanup(server.free)
        server.initialize()
        for name in ("a", "b"):
            cell = server.cell("len(_discover())", session=name, wait=harness.PATIENCE * 4)
            self.assertEqual(cell["status"], "ok", (cell, server.log()))
        return server

    def inside(self, server):
        return [status_of(pid) for pid in workers(server)]


CAPABLE = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=+setuid,+setgid", "--ambient-caps=+setuid,+setgid", "--")
SETUID_SETGID = 1 << 7 | 1 << 6


class Capable(Other):
    """The server has CAP_SETUID and CAP_SETGID and no other capability."""

    def test_ids_are_distinct_and_privilege_is_small(self):
        server = self.start(CAPABLE, self.config_of(0))
        uids = {status["Uid"].split()[0] for status in self.inside(server)}
        self.assertGreaterEqual(len(uids), 2)
        self.assertFalse(uids & {"0", str(UID)}, uids)
        monitor = status_of(server.process.pid)
        self.assertEqual((int(monitor["CapPrm"], 16), int(monitor["CapEff"], 16)), (SETUID_SETGID, SETUID_SETGID))
        self.assertEqual((int(monitor["CapInh"], 16), int(monitor["CapAmb"], 16)), (0, 0))
        self.assertEqual(monitor["Uid"].split()[0], str(UID))

    def test_its_children_have_no_privilege(self):
        server = self.start(CAPABLE, self.config_of(0))
        is_server = lambda pid: harness.FIXTURE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        # The one of the config may be a program of Cloister's for a moment more.
        self.assertTrue(harness.wait_until(lambda: any(is_server(pid) for pid in harness.descendants(server.process.pid))))
        seen, servers = 0, 0
        for pid in harness.descendants(server.process.pid):
            status = status_of(pid)
            held = int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapAmb"], 16)
            # In a new user namespace a capability has no effect outside of it. That of a server has the ids of others too.
            if os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user"):
                self.assertEqual((held, status["Uid"].split()[0]), (0, str(UID)), status)
                seen += 1
            elif is_server(pid):
                self.assertEqual((held, status["Uid"].split()[0]), (0, str(UID)), status)
                servers += 1
        self.assertGreater(seen, 0)  # the janitor
        self.assertEqual(servers, 1)

    def test_a_config_that_is_not_roots_is_refused(self):
        for uid, ok in ((0, True), (UID, False)):
            done = subprocess.run([*CAPABLE, harness.CLOISTER, "run", "--config", self.config_of(uid, f"{uid}.json"), "-c", "print(1)"],
                                  env=self.env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
            self.assertEqual(done.returncode == 0, ok, done.stderr)
            if not ok:
                self.assertIn(b"root", done.stderr)


class Subordinate(Other):
    """An ordinary user with entries in /etc/subuid and /etc/subgid, which are visible only to this test."""

    def prefix(self, uids, gids):
        with open("/etc/passwd", encoding="utf-8") as f:
            self.write("passwd", f.read() + f"cloister-test:x:{UID}:{UID}::{self.home}:/bin/sh\n")
        self.write("subuid", uids)
        self.write("subgid", gids)
        binds = "; ".join(f"touch /etc/{name} && mount --bind {self.path(name)} /etc/{name}" for name in ("passwd", "subuid", "subgid"))
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c",
                f'{binds}; exec setpriv --reuid={UID} --regid={UID} --clear-groups -- "$@"', "sh")

    def ids(self, uids, gids):
        server = self.start(self.prefix(uids, gids), self.config_of(UID))
        inside = self.inside(server)
        return {int(status["Uid"].split()[0]) for status in inside}, {int(status["Gid"].split()[0]) for status in inside}

    def test_sessions_have_ids_of_the_range(self):
        uids, gids = self.ids("cloister-test:700000:65536\n", f"{UID}:800000:65536\n")
        self.assertGreaterEqual(len(uids), 2)
        self.assertTrue(all(700000 <= uid < 765536 for uid in uids), uids)
        self.assertTrue(all(800000 <= gid < 865536 for gid in gids), gids)

    def test_without_an_entry_it_is_the_users_own(self):
        self.assertEqual(self.ids("somebody:700000:65536\n", "somebody:800000:65536\n"), ({UID}, {UID}))

    def test_a_range_that_is_too_small_is_not_used(self):
        self.assertEqual(self.ids("cloister-test:700000:3\n", "cloister-test:700000:65536\n"), ({UID}, {UID}))

    def test_a_users_directory_is_reached_with_the_users_id(self):
        shared = os.path.join(self.home, "shared")
        os.mkdir(shared, 0o700)
        os.chown(shared, UID, UID)
        config = self.config_of(UID, profiles={"work": {"mounts": [{"source": shared, "target": "/data", "mode": "rw"}]}})
        prefix = self.prefix(f"{UID}:700000:65536\n", f"{UID}:700000:65536\n")
        server = rawmcp.RawServer("--config", config, "--profile", "work", env=self.env, prefix=prefix, cwd="/")
        self.addCleanup(server.free)
        server.initialize()
        cell = server.cell("open('/data/x', 'w').write('written')", wait=harness.PATIENCE * 4)
        self.assertEqual(cell["status"], "ok", (cell, server.log()))
        self.assertEqual(os.stat(os.path.join(shared, "x")).st_uid, UID)
        self.assertEqual({int(status["Uid"].split()[0]) for status in self.inside(server)}, {UID})

    def test_the_doctor_gives_the_reason(self):
        prefix = self.prefix("cloister-test:700000:65536\n", "")
        layers = doctor(self.env, prefix)
        self.assertIn("your own uid", layers["privilege"]["detail"])
        self.assertIn("/etc/subgid has no entry for cloister-test", layers["privilege"]["detail"])
        self.write("subuid", "")
        self.assertIn("/etc/subuid has no entries", doctor(self.env, prefix)["privilege"]["detail"])
        self.write("subuid", "cloister-test:700000:65536\n")
        self.write("subgid", "cloister-test:700000:65536\n")
        self.assertIn("host id of its own", doctor(self.env, prefix)["privilege"]["detail"])


# An ordinary user cannot provide these privileges; Here tests the privileges that the user has.
if not harness.ROOT or EXPECT.get("mode", "root") != "root":
    del Capable, Subordinate


if __name__ == "__main__":
    harness.main()
