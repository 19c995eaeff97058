"""Sandboxes that are kept ready for new sessions."""

import contextlib
import os
import signal
import time

import harness
from rawmcp import RawServer

# Where the state of another session would show: memory, files, processes, random numbers.
MARK = """
import builtins, os, random, uuid
found = [hasattr(builtins, "mark"), os.listdir("/workspace"), os.listdir("/tmp"), len(os.listdir("/dev/shm"))]
builtins.mark = 1
for place in ('/workspace', '/tmp', '/dev/shm'):
    open(place + '/mark', 'w').close()
[found, os.readlink('/proc/self/ns/pid'), random.random(), uuid.uuid4().hex, os.urandom(8).hex()]
"""
FRESH = [False, ["out"], [], 0]


class Pool(harness.Case):
    """Each test has its own server."""

    def serve(self, *args, **config):
        # Copies of workers (docs/cells.md) would be counted as sandboxes here.
        config = {"state": {"survives": False}, **config}
        server = RawServer("--config", self.config(**config), "--log-level", "debug", *args, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        server.ask("tools/list")
        return server

    def ready(self, server):
        done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        (told,) = harness.message_of(done.stdout)
        return told["ready"]

    def wait_ready(self, server, n, seconds=30):
        self.assertTrue(harness.wait_until(lambda: self.ready(server) == n, seconds), self.ready(server))

    def settle(self, server, n=1):
        """Waits for the replacement of the first sandbox, which was made before its template had imported everything."""
        self.assertTrue(harness.wait_until(lambda: server.log().count(" is ready") == n + 1 and self.ready(server) == n
                                           and len(self.sandboxes(server)) == n, 30), server.log()[-2000:])

    def value(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell["value"]["json"]

    def requests(self, server):
        """Returns the number of sandboxes that were requested from the monitor."""
        return server.log().count("SESSION_CREATE")

    def sandboxes(self, server):
        """{a sandbox's worker: its init}."""
        below = harness.descendants(server.process.pid)
        inits = {pid for pid in below if self.is_init(pid)}
        stats = {pid: harness.stat_of(pid) for pid in below}
        return {pid: stat[0] for pid, stat in stats.items() if stat and stat[0] in inits}

    def is_init(self, pid):
        """PID 1 of a namespace in a template's, which is in ours."""
        with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as f:
            (ids,) = [line.split()[1:] for line in f if line.startswith("NSpid:")]
            return len(ids) > 2 and ids[-1] == "1"
        return False

    def test_two_are_ready(self):
        server = self.serve()
        self.settle(server, 2)
        self.assertEqual(self.value(server, "1+1"), 2)
        self.wait_ready(server, 2)
        self.assertEqual((self.requests(server), len(self.sandboxes(server))), (4, 3))

    def test_the_first_session_takes_it(self):
        server = self.serve(pool={"min": 1, "max": 8})
        self.settle(server)
        (before,) = self.sandboxes(server)
        self.assertEqual(self.value(server, "1+1"), 2)
        self.assertIn(before, self.sandboxes(server))
        # Exactly one other sandbox replaces it.
        self.wait_ready(server, 1)
        self.assertEqual(self.requests(server), 3)
        self.assertEqual(len(self.sandboxes(server)), 2)
        # One more session, later than any sandbox takes to be made (MAKE_MAX_US of pool.c): one more sandbox.
        time.sleep(0.2)
        self.assertEqual(self.value(server, "1+1", session="b"), 2)
        self.wait_ready(server, 1)
        self.assertEqual(self.requests(server), 4)
        self.assertEqual(server.close(), 0)

    def test_without_a_pool(self):
        server = self.serve(pool=0)
        control = self.serve(name="control.json", pool=1)
        self.settle(control)
        self.assertEqual((self.ready(server), self.requests(server)), (0, 0))
        self.assertEqual(self.value(server, "1+1"), 2)
        self.assertEqual(self.value(control, "1+1"), 2)
        self.wait_ready(control, 1)
        self.assertEqual((self.ready(server), self.requests(server)), (0, 1))

    @harness.once
    def test_each_is_fresh_and_used_once(self):
        server = self.serve(pool={"min": 2, "max": 4}, sessions=300)
        seen, uids = [], set()
        for i in range(200):
            found, *rest = self.value(server, MARK, session=f"s{i}")
            self.assertEqual(found, FRESH)
            seen += rest
        self.assertEqual(len(set(seen)), 800)
        # All are still running, therefore no pid was used twice.
        workers = self.sandboxes(server)
        self.assertGreaterEqual(len(workers), 200)
        for pid in workers:
            with contextlib.suppress(FileNotFoundError):
                uids.add(os.stat(f"/proc/{pid}").st_uid)
        if harness.ROOT:
            self.assertEqual(len(uids), len(workers))
            self.assertNotIn(0, uids)
        self.assertEqual(server.close(60), 0)

    def test_each_has_namespaces_of_its_own(self):
        """Four sessions each from the pool, without the pool, and with the loopback network, which each sandbox creates itself."""
        server = self.serve(pool=1, profiles={"waiting": {"agent": True, "pool": 0},
                                              "loopback": {"agent": True, "pool": 0, "network": "loopback"}})
        code = "import os\n{n: os.readlink('/proc/self/ns/' + n) for n in ('net', 'mnt', 'pid', 'user', 'ipc', 'uts', 'cgroup')}"
        seen = [{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt", "pid", "user", "ipc", "uts", "cgroup")}]
        # A template makes the network namespace of the next session ahead: the first session may find none, the
        # second finds the first one, the third the one made after that.
        for profile in "default", "waiting", "loopback":
            for i in range(4):
                if profile == "default":
                    self.wait_ready(server, 1)
                time.sleep(0.1)
                seen.append(self.value(server, code, session=f"{profile}-{i}", profile=profile))
        for kind in seen[0]:
            self.assertEqual(len({links[kind] for links in seen}), 13, (kind, seen))
        self.assertEqual(server.close(), 0)

    def test_a_session_that_was_lost_or_reset_gets_a_fresh_one(self):
        server = self.serve(pool=1)
        for _ in range(3):
            self.wait_ready(server, 1)
            self.assertEqual(self.value(server, MARK, reset=True)[0], FRESH)
            self.wait_ready(server, 1)
            self.assertEqual(server.cell("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")["status"], "killed")
            self.assertEqual(self.value(server, MARK)[0], FRESH)

    @harness.once
    def test_one_that_is_killed_is_replaced(self):
        server = self.serve(pool=1)
        self.settle(server)
        for whom in ("worker", "init"):
            ((worker, init),) = self.sandboxes(server).items()
            os.kill(worker if whom == "worker" else init, signal.SIGKILL)
            self.assertTrue(harness.wait_until(
                lambda pid=worker: {pid} != set(self.sandboxes(server)) and len(self.sandboxes(server)) == 1
                and self.ready(server) == 1))
        # A call never gets a sandbox that has ended, even immediately after its end.
        for i in range(5):
            self.wait_ready(server, 1)
            spare = max(self.sandboxes(server))
            os.kill(spare, signal.SIGKILL)
            harness.wait_until(lambda pid=spare: not harness.alive(pid))
            self.assertEqual(self.value(server, "1+1", session=f"k{i}"), 2)
        self.assertEqual(server.close(), 0)

    def test_profiles_have_their_own(self):
        server = self.serve(pool=1, profiles={"big": {"limits": {"workspace": "8M"}, "agent": True}})
        size = "import os\ns = os.statvfs('/workspace')\ns.f_blocks * s.f_frsize >> 20"
        self.settle(server)
        self.assertEqual(self.value(server, size, session="a", profile="big"), 8)
        # From now on the pool has one sandbox of each profile.
        self.wait_ready(server, 2)
        self.assertEqual(self.value(server, size, session="b", profile="default"), 128)
        self.wait_ready(server, 2)
        self.assertEqual(self.value(server, size, session="c", profile="big"), 8)
        self.assertEqual(self.value(server, size, session="b", profile="big", reset=True), 8)
        self.assertEqual(server.close(), 0)

    def test_one_whose_namespaces_end_as_it_is_taken(self):
        """No worker has read the cell: the next sandbox runs it, once."""
        server = self.serve(pool=2)
        for i in range(4):
            self.wait_ready(server, 2)
            stubs = [pid for pid, name in harness.descendants(server.process.pid).items() if name == "cloister-stub"]
            # No worker reads while it is stopped. SIGKILL also ends stopped processes.
            for worker in self.sandboxes(server):
                os.kill(worker, signal.SIGSTOP)
            call = server.start_call("6 * 7", session=f"s{i}")
            for pid in stubs:
                os.kill(pid, signal.SIGKILL)
            cell = call.result(harness.PATIENCE * 2)["structuredContent"]
            self.assertEqual((cell["status"], cell["state"], cell.get("value", {}).get("json")), ("ok", "new", 42), cell)

    def test_a_reload_drops_them(self):
        server = self.serve(pool=1, limits={"workspace": "8M"})
        size = "import os\ns = os.statvfs('/workspace')\ns.f_blocks * s.f_frsize >> 20"
        self.settle(server)
        (before,) = self.sandboxes(server)
        self.config(pool=1, limits={"workspace": "16M"})
        self.assertTrue(harness.wait_until(lambda: before not in self.sandboxes(server)))
        self.assertEqual(self.value(server, size), 16)
        self.wait_ready(server, 1)
        self.assertEqual(self.value(server, size, session="b"), 16)
        self.config(pool=0)
        self.wait_ready(server, 0)

    def test_they_give_way(self):
        server = self.serve(sessions=3, pool=2, profiles={"other": {"agent": True, "pool": 0}})
        self.settle(server, 2)
        # Ready sandboxes take two of three places. Sessions can use all three when they need them.
        for name in "abc":
            self.assertEqual(self.value(server, MARK, session=name, profile="other")[0], FRESH)
        self.assertEqual(self.ready(server), 0)
        cell = server.cell("1", session="d")
        self.assertIn("3 sessions are live", cell["error"]["message"])
        before = self.requests(server)
        self.assertEqual(self.run_cloister("sessions", "end", "a", "--server", str(server.process.pid)).returncode, 0)
        self.wait_ready(server, 1)
        self.assertEqual(self.requests(server), before + 1)
        self.assertEqual(self.value(server, MARK, session="d")[0], FRESH)

    @harness.once
    def test_demand_makes_more_up_to_the_most_and_idleness_fewer(self):
        server = self.serve(pool={"min": 1, "max": 3}, idle=4)
        self.wait_ready(server, 1)
        calls = [server.start_call("1+1", session=f"s{i}") for i in range(12)]
        for call in calls:
            self.assertEqual(call.result()["structuredContent"]["status"], "ok")
        most = 0

        def many():
            nonlocal most
            most = max(most, self.ready(server))
            return most >= 3

        self.assertTrue(harness.wait_until(many, 20), most)
        seen = []
        self.assertTrue(harness.wait_until(lambda: seen.append(self.ready(server)) or seen[-1] == 1, 30), seen)
        self.assertEqual(max(seen), 3)

    def test_memory_bounds_it(self):
        """All together take a quarter of the memory that is left, at most."""
        settings = {"limits": {"memory": "160M"}, "memory_total": "200M", "pool": {"min": 12, "max": 12}}
        server = self.serve(**settings)
        why = "fewer ready sandboxes than wanted: "
        self.assertTrue(harness.wait_until(lambda: why in server.log(), 30), server.log()[-2000:])
        few = self.ready(server)
        self.assertTrue(1 < few < 12, few)
        self.assertRegex(server.log(), why + r"\d+ would take more than a quarter of the 1\d\d MiB that \"memory_total\" leaves")
        self.assertEqual(server.log().count(why), 1)
        self.assertEqual(self.value(server, "1+1"), 2)
        control = self.serve(name="control.json", **{**settings, "memory_total": "420M"})
        self.wait_ready(control, 12)
        self.assertNotIn(why, control.log())

    def test_a_burst_above_the_places(self):
        server = self.serve(sessions=6, pool={"min": 2, "max": 4})
        cells = [call.result()["structuredContent"] for call in [server.start_call("1+1", session=f"s{i}") for i in range(9)]]
        self.assertEqual([cell["status"] for cell in cells].count("ok"), 6, cells)
        for cell in cells:
            if cell["status"] != "ok":
                self.assertIn("6 sessions are live", cell["error"]["message"])

    def test_run_makes_none(self):
        log = self.path("log")
        code = "import time\ntime.sleep(0.7)\nprint(1)"
        done = self.run_cloister("run", "--log-level", "debug", "--log-file", log, "-c", code)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        with open(log, encoding="utf-8") as f:
            self.assertEqual(f.read().count("SESSION_CREATE"), 1)

    def test_the_server_ends_while_sandboxes_are_made(self):
        """The monitor alone waits for a sandbox that no session has taken yet."""
        for delay in (0, 0.01, 0.02, 0.03, 0.045, 0.06):
            server = self.serve()
            self.assertEqual(server.cell("1")["status"], "ok")
            for i in range(12):
                server.start_call("1", session=f"s{i}")
            time.sleep(delay)
            self.assertEqual(server.close(), 0, delay)

    def test_no_image(self):
        """If a sandbox cannot be created, the server does not repeat the attempt endlessly, and the call gets the reason."""
        server = self.serve(image="no-such-image")
        time.sleep(1)
        self.assertEqual(self.requests(server), 1)
        cell = server.cell("1")
        self.assertEqual(cell["error"]["type"], "SandboxError")
        self.assertIn("no-such-image", cell["error"]["message"])


if __name__ == "__main__":
    harness.main()
