"""The directories and credentials that a service manager gives to Cloister, and who may use the control socket."""

import grp
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest
import urllib.request

import harness

FREE_UID = 54321  # a uid that has no passwd entry
GROUP = "games"  # a group of every Debian system


class Directories(harness.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)

    def service(self, **given):
        """The environment of a service: no HOME, and its directories."""
        env = harness.environment()
        env.pop("HOME")
        for name in ("state", "runtime", "logs", "configuration", "credentials"):
            path = self.path(name)
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o755)
            env[f"{name.upper()}_DIRECTORY"] = path
        return env | given

    def serve(self, env, *arguments, user=(), **keys):
        self.write("configuration/config.json", json.dumps({"mcpServers": {}, **keys}))
        log = harness.Log()
        process = subprocess.Popen([*user, harness.CLOISTER, "serve", "--listen", "127.0.0.1:0", *arguments],
                                   stdin=subprocess.DEVNULL, stderr=log, env=env, cwd=self.dir)
        self.addCleanup(self.stop, process, log)
        # The monitor has opened its control socket, or has said why not, before a call is answered.
        harness.wait_until(lambda: re.search(r"http://127.0.0.1:(\d+)/mcp\n", log.text()) or process.poll() is not None)
        self.assertIsNone(process.poll(), log.text())
        port = re.search(r"http://127.0.0.1:(\d+)/mcp\n", log.text())[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=harness.PATIENCE) as answer:
            self.assertEqual(answer.status, 200)
        return process, log

    def stop(self, process, log):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(harness.PATIENCE)
        log.close()

    def socket_of(self, process):
        return self.path(f"runtime/{process.pid}.sock")

    def test_a_service_needs_no_home(self):
        env = self.service()
        env.pop("CLOISTER_IMAGE_STORE")
        user = []
        if os.getuid() == 0:
            os.chown(self.path("state"), FREE_UID, FREE_UID)
            user = ["setpriv", f"--reuid={FREE_UID}", f"--regid={FREE_UID}", "--clear-groups", "--inh-caps=-all"]
        done = subprocess.run([*user, harness.CLOISTER, "run", "-c", "print(6 * 7)"], env=env, cwd="/", timeout=harness.patient(120),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "42\n"), done.stderr)
        self.assertTrue(os.listdir(self.path("state/images")))
        # The control: without the directory there is no place, and the line names the variables.
        del env["STATE_DIRECTORY"]
        done = subprocess.run([*user, harness.CLOISTER, "run", "-c", "1"], env={"PATH": env["PATH"], "HOME": "relative"} if user else
                              {"PATH": env["PATH"], "STATE_DIRECTORY": "relative", "XDG_DATA_HOME": "/nonexistent/x"},
                              cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "STATE_DIRECTORY" if user else "/nonexistent/x")

    def test_runtime_logs_and_config(self):
        env = self.service()
        process, _ = self.serve(env, "--log-file", "serve.log", "--log-level", "debug", timeout=11)
        path = self.socket_of(process)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        harness.wait_until(lambda: os.path.getsize(self.path("logs/serve.log")) > 0)
        listed = self.run_cloister("sessions", "--json", env=env)
        self.assertIn(str(process.pid), listed.stdout.decode())
        shown = json.loads(self.run_cloister("config", "show", "--json", env=env).stdout)
        self.assertIn("11", json.dumps(shown.get("timeout", shown)))
        process.send_signal(signal.SIGTERM)
        process.wait(harness.PATIENCE)
        self.assertFalse(os.path.exists(path))
        self.assertTrue(os.path.isdir(self.path("runtime")), "the service manager's directory was removed")

    def test_a_directory_that_others_can_write_is_not_used(self):
        env = self.service()
        os.chmod(self.path("runtime"), 0o775)
        process, log = self.serve(env)
        self.assertFalse(os.path.exists(self.socket_of(process)))
        self.assertRegex(log.text(), "RUNTIME_DIRECTORY: .* can be written by others")

    def test_directories_of_another_service(self):
        """A service that starts Cloister, as a runner does, has these variables for itself."""
        env = self.service(HOME=harness.environment()["HOME"], SYSTEMD_EXEC_PID=str(os.getpid()))
        self.write("configuration/config.json", '{"not": "ours"}')
        done = self.run_cloister("run", "-c", "print(1)", env=env)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)
        self.assertEqual(os.listdir(self.path("state")), [])

    def test_credentials(self):
        env = self.service(PATH=os.environ["PATH"])
        self.write("credentials/api", "s3cret\n")
        seen = self.path("seen")
        server = {"command": "sh", "args": ["-c", f"printf %s \"$KEY\" >{seen}.new; mv {seen}.new {seen}"],
                  "env": {"KEY": "<${credential:api}>"}}
        for name, expected in (("api", "<s3cret>"), ("other", None)):
            server["env"]["KEY"] = f"<${{credential:{name}}}>" if expected else f"${{credential:{name}}}"
            self.write("configuration/config.json", json.dumps({"mcpServers": {"s": server}}))
            done = self.run_cloister("tools", env=env)
            if expected:
                self.assertTrue(os.path.exists(seen), done.stderr)
                self.assertEqual(open(seen, encoding="utf-8").read(), expected)
            else:
                self.assertIn(b"LoadCredential=other:FILE", done.stderr + done.stdout)
            self.assertNotIn(b"s3cret", done.stderr + done.stdout)
        # It is shown as it was written.
        shown = self.run_cloister("config", "show", env=env)
        self.assertIn(b"${credential:other}", shown.stdout)

    def test_what_servers_and_sandboxes_get(self):
        """Neither a server's environment nor a mount leads to the directories."""
        env = self.service()
        seen = self.path("seen")
        server = {"command": "sh", "args": ["-c", f"env >{seen}.new; mv {seen}.new {seen}"]}
        self.write("configuration/config.json", json.dumps({"mcpServers": {"s": server}}))
        self.run_cloister("tools", env=env)
        with open(seen, encoding="utf-8") as f:
            self.assertNotIn("_DIRECTORY=", f.read())
        os.mkdir(self.path("free"))
        for name, code in (("credentials", 125), ("configuration", 125), ("state", 125), ("free", 0)):
            self.write("configuration/config.json", json.dumps({"mounts": [{"source": self.path(name), "target": "/data", "mode": "ro"}]}))
            done = self.run_cloister("run", "-c", "1", env=env)
            self.assertEqual((name, done.returncode), (name, code), done.stderr)

    def list_as(self, group, path):
        """What a user who has no passwd entry, with this group, gets from the control socket."""
        code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
                "s.sendall(b'{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"sessions/list\", \"params\": {}}\\n'); print(s.recv(4096).decode())")
        return subprocess.run(["setpriv", f"--reuid={FREE_UID}", f"--regid={group}", "--clear-groups", harness.PYTHON, "-c", code, path],
                              capture_output=True, text=True, check=False)

    @unittest.skipUnless(os.getuid() == 0, "only root can become another user")
    def test_control_group(self):
        env = self.service()
        gid = grp.getgrnam(GROUP).gr_gid
        process, log = self.serve(env, control_group=GROUP)
        path = self.socket_of(process)
        found = os.stat(path)
        self.assertEqual((stat.S_IMODE(found.st_mode), found.st_gid), (0o660, gid), log.text())
        self.assertIn('"jsonrpc"', self.list_as(gid, path).stdout)
        self.assertIn("PermissionError", self.list_as(FREE_UID, path).stderr)

    def test_control_group_that_cannot_be(self):
        for name, keys, env in (("no such group", {"control_group": "no-such-group-x"}, self.service()),
                                ("needs a directory", {"control_group": GROUP}, self.service(HOME=harness.environment()["HOME"]))):
            with self.subTest(name):
                if name.startswith("needs"):
                    del env["RUNTIME_DIRECTORY"]
                process, log = self.serve(env, **keys)
                self.assertRegex(log.text(), "control_group.*(there is no group|needs a directory)")
                if name.startswith("no"):
                    self.assertEqual(stat.S_IMODE(os.stat(self.socket_of(process)).st_mode), 0o600)
                self.stop(process, log)


@unittest.skipUnless(harness.ROOT, "needs a mount namespace and a second user")
class Places(harness.Case):
    """Another user has made the directories in which a server puts its control socket."""

    def serve(self, foreign):
        """A server that sees a /run and a /tmp of its own. Returns its log and what 'cloister sessions' prints there."""
        place = tempfile.mkdtemp(dir="/var/tmp")
        self.addCleanup(shutil.rmtree, place)
        os.makedirs(f"{place}/.local/state/cloister")
        script = f"{place}/serve"
        with open(script, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh -e\nmount -t tmpfs -o mode=755 none /run\nmount -t tmpfs -o mode=1777 none /tmp\n"
                    f"mkdir -m 700 {' '.join(foreign)}\nchown {FREE_UID} {' '.join(foreign)}\nexec {harness.CLOISTER} serve --listen 127.0.0.1:0 --log-level info\n")
        os.chmod(script, 0o755)
        env = harness.environment(HOME=place)
        log = harness.Log()
        process = subprocess.Popen(["unshare", "-m", script], stdin=subprocess.DEVNULL, stderr=log, env=env, cwd=place)
        try:
            self.assertTrue(harness.wait_until(lambda: re.search(r"http://127.0.0.1:(\d+)/mcp\n", log.text())), log.text())
            port = re.search(r"http://127.0.0.1:(\d+)/mcp\n", log.text())[1]
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=harness.PATIENCE).close()
            done = subprocess.run(["nsenter", "-t", str(process.pid), "-m", harness.CLOISTER, "sessions"], env=env, capture_output=True, text=True,
                                  check=False, timeout=harness.PATIENCE)
            return log.text(), done.stdout + done.stderr
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(harness.PATIENCE)
            log.close()

    def test_another_user_made_them(self):
        """The server takes a place that is its user's own. Without one it logs one line about it, and 'cloister sessions' prints the directory."""
        others, own = ["/run/cloister", "/tmp/cloister-0"], "$HOME/.local/state/cloister/run"
        log, told = self.serve(others)
        self.assertEqual((log.count("will not see this server"), "1 server is running" in told), (0, True), (log, told))
        log, told = self.serve([*others, own])
        self.assertEqual((log.count("'cloister sessions' will not see this server"), "0 servers are running" in told), (1, True), (log, told))
        self.assertRegex(told, "belongs to another user .*: a server that had no other place for its socket is not listed")


if __name__ == "__main__":
    harness.main()
