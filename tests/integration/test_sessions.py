"""`cloister sessions`, and how a session's next caller learns that it ended."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import time

import harness
from rawmcp import RawServer, ServerCase

OTHER_UID = 65000


class Sessions(ServerCase):
    """One server, as its owner lists it."""

    def run_sessions(self, *args):
        return self.run_cloister("sessions", *args, "--server", str(self.server.process.pid), cwd="/")

    def listed(self):
        done = self.run_sessions("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (server,) = harness.message_of(done.stdout)
        self.assertEqual(server["server"], self.server.process.pid)
        return {session["name"]: session for session in server["sessions"]}

    def test_list(self):
        self.ok("block = bytearray(40 << 20)\n1/1", session="big")
        self.call("1/0", session="small")
        listed = self.listed()
        big, small = listed["big"], listed["small"]
        self.assertEqual(big["state"], "idle")
        self.assertEqual(big["profile"], "default")
        self.assertEqual(big["cells"], 1)
        self.assertEqual(big["waiting"], 0)
        self.assertEqual(big["last"]["status"], "ok")
        self.assertEqual(big["last"]["code"], "block = bytearray(40 << 20)")
        self.assertEqual(small["last"]["status"], "error")
        # /proc counts shared pages of the template too, a cgroup only what the session took.
        self.assertGreater(big["memory_bytes"], small["memory_bytes"] + (30 << 20))
        self.assertGreaterEqual(big["memory_peak_bytes"], 40 << 20)
        self.assertGreater(big["last"]["memory_peak_bytes"], 40 << 20)
        self.assertEqual((big["tool_calls"], big["output_bytes"], big["last"]["received_bytes"]), (0, 0, 0))
        self.assertGreater(big["cpu_ms"], 0)
        self.assertGreaterEqual(big["age_ms"], big["idle_ms"])
        table = self.run_sessions().stdout.decode()
        self.assertIn("block = bytearray(40 << 20)", table)
        self.assertIn("MEMORY", table.splitlines()[0])
        self.assertNotIn("\x1b", table)

    def test_a_running_cell_is_listed(self):
        waiting = self.server.start_call("import time\ntime.sleep(60)", session=self.session)
        self.assertTrue(harness.wait_until(lambda: self.listed().get(self.session, {}).get("state") == "running"))
        queued = self.server.start_call("2", session=self.session)
        self.assertTrue(harness.wait_until(lambda: self.listed()[self.session]["waiting"] == 1))
        listed = self.listed()[self.session]
        self.assertNotIn("status", listed["last"])
        self.assertNotIn("idle_ms", listed)
        self.assertEqual(self.run_sessions("end", self.session).returncode, 0)
        cell = waiting.result()["structuredContent"]
        self.assertEqual((cell["status"], cell["state"]), ("killed", "lost"), cell)
        self.assertIn("its owner ended it", json.dumps(cell))
        # The one behind it runs in a new sandbox.
        cell = queued.result()["structuredContent"]
        self.assertEqual((cell["status"], cell["state"], cell["value"]["json"]), ("ok", "new", 2), cell)

    def test_the_next_caller_is_informed(self):
        self.ok("x = 1")
        self.assertEqual(self.run_sessions("end", self.session).returncode, 0)
        self.assertTrue(harness.wait_until(lambda: self.session not in self.listed()))
        result = self.call("x")
        self.assertEqual(result["structuredContent"]["state"], "new")
        self.assertIn("its owner ended it", self.text(result))
        self.assertIn("NameError", self.text(result))

    def test_reset_leaves_a_fresh_one(self):
        self.ok("x = 1")
        self.assertEqual(self.run_sessions("reset", self.session).returncode, 0)
        self.assertTrue(harness.wait_until(lambda: self.listed().get(self.session, {}).get("cells") == 0))
        result = self.call("'x' in globals()")
        self.assertEqual(result["structuredContent"]["value"]["json"], False)
        self.assertIn("its owner ended it", self.text(result))

    def test_unknown_names(self):
        done = self.run_sessions("end", "nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no live session is called 'nobody'", done.stderr)
        done = self.run_sessions("end", 'x","y')
        self.assertEqual(done.returncode, 2)
        done = self.run_cloister("sessions", "--server", "1", cwd="/")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no server of yours has the process id 1", done.stderr)

    def socket_path(self):
        (path,) = harness.control_sockets(self.server.process.pid)
        return path

    def connect(self):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(harness.PATIENCE)
        client.connect(self.socket_path())
        self.addCleanup(client.close)
        return client

    def test_only_the_owner_may_open_it(self):
        path = self.socket_path()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        self.assertEqual(subprocess.run([harness.PYTHON, "-c", script, path], check=False).returncode, 0)
        if harness.ROOT:
            # Without CAP_DAC_OVERRIDE, which setpriv takes with the uid.
            other = ["setpriv", "--reuid", str(OTHER_UID), "--clear-groups", "--inh-caps=-all"]
            done = subprocess.run([*other, harness.PYTHON, "-c", script, path], capture_output=True, check=False)
            self.assertIn(b"PermissionError", done.stderr)

    @harness.once
    def test_hostile_clients(self):
        client = self.connect()
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(b"x" * 100_000)
            self.assertEqual(client.recv(1), b"")
        client = self.connect()
        client.sendall(b'{"no": "json-rpc"}\n')
        self.assertIn("error", json.loads(client.makefile().readline()))
        client.sendall(b'{"jsonrpc":"2.0","id":7,"method":"sessions/destroy"}\n')
        self.assertEqual(json.loads(client.makefile().readline())["error"]["code"], -32601)
        silent = [self.connect() for _ in range(12)]
        silent[-1].sendall(b'{"jsonrpc":"2.0","id":8,"method":"sessions/list"}\n')
        for client in silent[:-1]:
            client.close()
        self.assertEqual(json.loads(silent[-1].makefile().readline())["id"], 8)
        self.assertEqual(self.value("1 + 1"), 2)


class Ends(harness.Case):
    """The ends of sessions, and of servers that listen."""

    def server(self, **config):
        server = RawServer("--config", self.config(**config), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        return server

    def test_idle_expiry_is_reported(self):
        server = self.server(idle=1)
        server.cell("x = 1")
        listed = lambda: json.loads(self.run_cloister("sessions", "--json", "--server", str(server.process.pid)).stdout)[0]["sessions"]
        self.assertTrue(harness.wait_until(lambda: not listed()))
        result = server.call("x")
        self.assertEqual(result["structuredContent"]["state"], "new")
        self.assertIn("idle for 1 s", result["content"][0]["text"])
        server.close()

    def test_live_sessions_are_bounded(self):
        server = self.server(sessions=2)
        server.cell("1", session="a")
        server.cell("1", session="b")
        cell = server.cell("1", session="c")
        self.assertEqual(cell["status"], "error")
        self.assertIn("2 sessions are live, the most allowed", cell["error"]["message"])
        pid = str(server.process.pid)
        self.assertEqual(self.run_cloister("sessions", "end", "a", "--server", pid).returncode, 0)
        listed = ["sessions", "--json", "--server", pid]
        harness.wait_until(lambda: len(json.loads(self.run_cloister(*listed).stdout)[0]["sessions"]) == 1)
        cell = server.cell("1", session="c")
        self.assertEqual((cell["status"], cell["state"]), ("ok", "new"), cell)
        server.close()

    def test_two_servers(self):
        one, two = self.server(), self.server()
        one.cell("1", session="same")
        two.cell("1", session="same")
        done = self.run_cloister("sessions", "end", "same")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--server PID", done.stderr)
        done = self.run_cloister("sessions", "end", "same", "--server", str(two.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(one.cell("1", session="same")["state"], "kept")
        self.assertEqual(two.cell("1", session="same")["state"], "new")
        one.close()
        two.close()

    def test_a_killed_server_leaves_no_socket(self):
        server = self.server()
        server.cell("1")
        self.assertEqual(len(harness.control_sockets(server.process.pid)), 1)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        gone = harness.wait_until(lambda: not harness.control_sockets(server.process.pid))
        self.assertTrue(gone, "the janitor left the socket")

    def test_a_socket_without_a_listener_is_skipped(self):
        server = self.server()
        server.cell("1")
        (path,) = harness.control_sockets(server.process.pid)
        stale = os.path.join(os.path.dirname(path), "2147483647.sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(stale)
        done = self.run_cloister("sessions", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(server.process.pid, [s["server"] for s in json.loads(done.stdout)])
        self.assertFalse(os.path.exists(stale))
        server.close()


if __name__ == "__main__":
    harness.main()
