"""Profiles: networks, host directories, preloaded modules, and the profile that each client gets."""

import json
import os
import socket
import stat
import subprocess
import threading

import harness
import rawmcp

PREFIX = "io.modelcontextprotocol/"
SERVE = """
import http.server, threading, urllib.request
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello from " + self.path.encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("%s", 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_address[1]
"""
FETCH = 'urllib.request.urlopen("http://127.0.0.1:%d/x" % port, timeout=5).read().decode()'


class Profiles(harness.Case):
    def setUp(self):
        super().setUp()
        # Sandboxes of root have ids of their own, to which our directories must be open.
        os.chmod(self.dir, 0o755)

    def share(self, name="share"):
        """A directory to mount, with a file, a directory and a link to a file of the host's."""
        path = self.path(name)
        os.makedirs(os.path.join(path, "deep"))
        for place in (path, os.path.join(path, "deep")):
            os.chmod(place, 0o755)
            with open(os.path.join(place, "note.txt"), "w") as f:
                f.write("from the host")
        os.symlink("/etc/passwd", os.path.join(path, "passwd"))
        os.symlink("../../../../../../etc/passwd", os.path.join(path, "above"))
        return path

    def execute(self, code, profile="lab", settings=None, **rest):
        config = self.config(profiles={"lab": settings or {}}, **rest)
        return self.run_cloister("run", "--config", config, *(["--profile", profile] if profile else []), "-c", code)

    def value(self, code, **rest):
        """Returns the output of the code's last print(), parsed as JSON."""
        ran = self.execute(code, **rest)
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        return json.loads(ran.stdout.decode().splitlines()[-1])

    def refused(self, settings, text, code="print(1)"):
        ran = self.execute(code, settings=settings)
        self.assertEqual(ran.returncode, 125, (ran.stdout, ran.stderr))
        said = ran.stderr.decode()
        self.assertIn(text, said)
        # The log contains the line too if the template was created before the code needed it.
        lines = {line.replace("cloister: error: ", "cloister: ") for line in said.splitlines() if text in line}
        self.assertEqual(len(lines), 1, said)
        return said

    def serve(self, *args, client="raw", **config):
        server = rawmcp.RawServer("--log-level", "info", "--config", self.config(**config), *args)
        self.addCleanup(server.free)
        server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                  "clientInfo": {"name": client, "version": "0"}})
        server.notify("notifications/initialized")
        return server

    def ready(self, server):
        """Returns the number of sandboxes in the pool."""
        done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
        (told,) = harness.message_of(done.stdout)
        return told["ready"]

    def ok(self, server, code, **arguments):
        cell = server.cell(code, **arguments)
        self.assertEqual(cell["status"], "ok", cell)
        return cell.get("value", {}).get("json")


class Network(Profiles):
    LOOPBACK = {"network": "loopback"}

    def test_a_server_in_the_session_is_reached(self):
        code = SERVE % "127.0.0.1" + "import json; print(json.dumps(" + FETCH + "))"
        self.assertEqual(self.value(code, settings=self.LOOPBACK), "hello from /x")

    def test_none_refuses_the_socket(self):
        ran = self.execute(SERVE % "127.0.0.1")
        self.assertEqual(ran.returncode, 1)
        self.assertIn(b"Operation not permitted", ran.stderr)

    def test_six_and_udp(self):
        code = """
import json, socket
s = socket.create_server(("::1", 0), family=socket.AF_INET6)
c = socket.create_connection(s.getsockname()[:2]); p, _ = s.accept(); c.sendall(b"six")
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b"udp", u.getsockname())
print(json.dumps([p.recv(9).decode(), u.recv(9).decode()]))
"""
        self.assertEqual(self.value(code, settings=self.LOOPBACK), ["six", "udp"])

    def test_what_leads_elsewhere_is_refused(self):
        code = """
import json, socket, ctypes, errno
def kind(*args):
    try:
        socket.socket(*args); return "made"
    except OSError as e:
        return errno.errorcode[e.errno]
def reach(address):
    try:
        socket.create_connection(address, timeout=3); return "reached"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
made = [kind(socket.AF_NETLINK, socket.SOCK_RAW, 0), kind(socket.AF_PACKET, socket.SOCK_RAW, 0),
        kind(socket.AF_INET, socket.SOCK_RAW, 1), kind(socket.AF_VSOCK, socket.SOCK_STREAM, 0),
        kind(socket.AF_INET, socket.SOCK_STREAM, 132)]
print(json.dumps([made, reach(("198.51.100.1", 80)), reach(("10.0.0.1", 80)), reach(("2001:db8::1", 80))]))
"""
        made, *reached = self.value(code, settings=self.LOOPBACK)
        self.assertNotIn("made", made)
        self.assertEqual(reached, ["ENETUNREACH", "ENETUNREACH", "ENETUNREACH"])

    def test_neither_another_session_nor_the_host(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        accepted = []
        threading.Thread(target=lambda: accepted.append(listener.accept()[0].close()), daemon=True).start()
        server = self.serve(profiles={"lab": {"network": "loopback"}}, profile="lab")
        port = self.ok(server, SERVE % "0.0.0.0" + "port", session="one")
        self.assertEqual(self.ok(server, FETCH, session="one"), "hello from /x")
        code = """
import socket
def reach(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=3).close(); return "reached"
    except ConnectionRefusedError:
        return "refused"
[reach(%d), reach(%d)]
""" % (port, listener.getsockname()[1])
        self.assertEqual(self.ok(server, code, session="two"), ["refused", "refused"])
        self.assertEqual(accepted, [])
        # The control: from outside it is reached.
        socket.create_connection(listener.getsockname()).close()
        self.assertTrue(harness.wait_until(lambda: accepted))
        server.close()


def mount(source, target="/data/share", mode="ro"):
    return {"mounts": [{"source": source, "target": target, "mode": mode}]}


TRY = """
import json, os, errno
def attempt(what, *args):
    try:
        what(*args); return "done"
    except OSError as e:
        return errno.errorcode[e.errno]
"""


class Mounts(Profiles):
    def test_read_only(self):
        code = TRY + """
print(json.dumps([open("/data/share/note.txt").read(), open("/data/share/deep/note.txt").read(),
    attempt(open, "/data/share/new", "w"), attempt(open, "/data/share/note.txt", "w"),
    attempt(os.remove, "/data/share/note.txt"), attempt(os.chmod, "/data/share/note.txt", 0o666)]))
"""
        share = self.share()
        self.assertEqual(self.value(code, settings=mount(share)),
                         ["from the host", "from the host", "EROFS", "EROFS", "EROFS", "EROFS"])
        self.assertEqual(sorted(os.listdir(share)), ["above", "deep", "note.txt", "passwd"])

    def test_writable(self):
        share = self.share()
        settings = mount(share, mode="rw")
        if harness.ROOT:
            said = self.refused(settings, 'mode "rw" needs sandboxes with the id of the directory\'s owner')
            self.assertIn("start Cloister as the ordinary user", said)
            return
        code = TRY + """
print(json.dumps([attempt(open, "/data/share/new", "w"), attempt(os.remove, "/data/share/note.txt"),
    attempt(open, "/data/other", "w")]))
"""
        self.assertEqual(self.value(code, settings=settings), ["done", "done", "EROFS"])
        self.assertEqual(sorted(os.listdir(share)), ["above", "deep", "new", "passwd"])
        self.assertEqual(os.stat(os.path.join(share, "new")).st_uid, os.getuid())

    def test_links_and_parents_stay_inside(self):
        code = TRY + """
print(json.dumps([open(p).read() == open("/etc/passwd").read() for p in ("/data/share/passwd", "/data/share/above")]
    + [sorted(os.listdir("/data/share/../..")) == sorted(os.listdir("/"))] + [os.getcwd()]
    + [open("/etc/passwd").read()]))
"""
        *same, inside = self.value(code, settings=mount(self.share()))
        self.assertEqual(same, [True, True, True, "/workspace"])
        with open("/etc/passwd") as f:
            self.assertNotEqual(inside, f.read())

    def test_mounts_cannot_be_changed(self):
        code = TRY + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(r):
    return errno.errorcode[ctypes.get_errno()] if r < 0 else "done"
t = b"/data/share"
print(json.dumps([call(libc.mount(None, t, None, 32 | 4096, None)), call(libc.umount2(t, 2)),
    call(libc.unshare(0x10000000)), call(libc.unshare(0x20000)),
    call(libc.syscall(442, -100, t, 0, ctypes.byref((ctypes.c_uint64 * 4)(0, 1, 0, 0)), 32)),
    call(libc.syscall(428, -100, t, 1))]))
"""
        self.assertEqual(self.value(code, settings=mount(self.share())),
                         ["EPERM", "EPERM", "EPERM", "EPERM", "ENOSYS", "ENOSYS"])

    def test_devices_and_programs_of_others_are_inert(self):
        share = self.share()
        program = os.path.join(share, "id")
        with open("/usr/bin/id", "rb") as source, open(program, "wb") as to:
            to.write(source.read())
        os.chmod(program, 0o6755)
        devices = []
        if harness.ROOT:
            os.mknod(os.path.join(share, "null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.chmod(os.path.join(share, "null"), 0o666)
            devices = ["EACCES"]
        code = TRY + """
line = next(l for l in open("/proc/self/mountinfo") if " /data/share " in l)
flags = set(line.split()[5].split(","))
devices = [attempt(open, "/data/share/null")] if os.path.lexists("/data/share/null") else []
print(json.dumps([sorted(flags & {"ro", "nosuid", "nodev"}), devices]))
"""
        self.assertEqual(self.value(code, settings=mount(share)), [["nodev", "nosuid", "ro"], devices])

    def test_a_socket_of_the_host_is_not_reached(self):
        share = self.share()
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(share, "agent"))
        os.chmod(os.path.join(share, "agent"), 0o777)
        listener.listen()
        code = TRY + """
import socket
def reach(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.sendto(b"x", "/data/share/agent")
made = [attempt(socket.socket, socket.AF_UNIX, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
pairs = [attempt(reach, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
a, b = socket.socketpair(); a.sendall(b"pair")
print(json.dumps([made, [p != "done" for p in pairs], b.recv(9).decode()]))
"""
        self.assertEqual(self.value(code, settings=mount(share)), [["EPERM", "EPERM"], [True, True], "pair"])
        # The controls: without mounts such a socket is made, and outside this one is reached.
        self.assertEqual(self.value(code.replace("/data/share", "/tmp"), profile=None)[0], ["done", "done"])
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(share, "agent"))

    def test_targets(self):
        share = self.share()
        for target in ("/workspace/in/data", "/tmp/data", "/usr/share/extra/data", "/etc/extra", "/mnt/a/b/c"):
            with self.subTest(target):
                code = TRY + 'print(json.dumps([open("%s/note.txt").read(), attempt(open, "%s/x", "w")]))' % (target, target)
                self.assertEqual(self.value(code, settings=mount(share, target)), ["from the host", "EROFS"])
        code = TRY + """
print(json.dumps([attempt(open, "/workspace/in/x", "w"), os.path.exists("/usr/share/zoneinfo/UTC"),
    attempt(open, "/usr/share/x", "w"), attempt(os.mkdir, "/x")]))
"""
        both = {"mounts": [{"source": share, "target": "/usr/share/extra"}, {"source": share, "target": "/workspace/in/a"}]}
        self.assertEqual(self.value(code, settings=both), ["done", True, "EROFS", "EROFS"])

    def test_sources_that_are_refused(self):
        own = self.path("config/cloister")
        os.makedirs(own)
        store = harness.environment()["CLOISTER_IMAGE_STORE"]
        os.symlink("/proc", self.path("link"))
        for source, why in (
            ("/", "the root directory"), ("/proc", "nothing below /proc"), ("/proc/self", "nothing below /proc"),
            ("/sys", "nothing below /sys"), ("/sys/fs/cgroup", "nothing below /sys"), ("/dev", "nothing below /dev"),
            ("/dev/shm", "nothing below /dev"), (self.path("link"), "nothing below /proc"), (store, "the image store"),
            (self.path("none"), "No such file"), (self.write("file", ""), "Not a directory"),
        ):
            with self.subTest(source):
                self.refused(mount(source), why)

    def test_our_config_is_not_writable(self):
        if harness.ROOT:
            self.refused(mount(self.dir, mode="rw"), "is below it and must not be writable")
            return
        self.refused(mount(self.dir, mode="rw"), "(the config) is below it and must not be writable")
        # The control: beside it.
        self.assertEqual(self.value("print(1)", settings=mount(self.share(), mode="rw")), 1)

    def test_private_files_are_not_mounted(self):
        """Neither by a directory that holds them, nor to read: the log, the control socket, Cloister's state."""
        home = harness.environment()["HOME"]
        place = self.path("private")
        os.makedirs(place)
        for source, arguments, why in ((place, ("--log-file", f"{place}/log"), "(the log) is below it"), (home, (), "Cloister's state"),
                                       (harness.CONTROL[0 if harness.ROOT else -1], (), "control sockets")):
            with self.subTest(source):
                os.makedirs(source, mode=0o700, exist_ok=True)
                done = self.run_cloister("run", *arguments, "--config", self.config(**mount(source)), "-c", "1")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr.decode())
                self.assertIn("no sandbox may access", done.stderr.decode())
        # The control: beside the log.
        self.assertEqual(self.run_cloister("run", "--log-file", f"{place}/log", "--config", self.config(**mount(self.share())), "-c", "1").returncode, 0)

    def test_hints_say_that_code_may_change_files(self):
        share = self.share()
        for mode, honest in (("ro", False), ("rw", True)):
            server = self.serve(**mount(share, mode=mode))
            tool = server.ask("tools/list")["tools"][0]
            self.assertEqual([tool["annotations"][k] for k in ("destructiveHint", "openWorldHint")], [honest, honest])
            self.assertIn("/data/share" + (" (read-only)" if mode == "ro" else "."), tool["description"])
            server.close()


class Preload(Profiles):
    def test_it_is_there_at_once(self):
        code = """
import json, sys
there = "sqlite3" in sys.modules, "xml.etree.ElementTree" in sys.modules
print(json.dumps(there))
"""
        self.assertEqual(self.value(code, settings={"preload": ["sqlite3", "xml.etree.ElementTree"]}), [True, True])
        self.assertEqual(self.value(code, profile=None), [False, False])

    def test_what_cannot_be_imported_is_said_to_its_sessions_only(self):
        server = self.serve(profiles={"bad": {"preload": ["no_such_module"], "agent": True}})
        cell = server.cell("1", session="bad", profile="bad")
        self.assertEqual(cell["status"], "error")
        self.assertIn('profile "bad"', cell["error"]["message"])
        self.assertIn("no_such_module: ModuleNotFoundError", cell["error"]["message"])
        self.assertEqual(self.ok(server, "40 + 2"), 42)
        server.close()

    def test_two_sessions_draw_differently(self):
        server = self.serve(profiles={"lab": {"preload": ["ssl", "uuid", "secrets", "random", "tempfile"]}}, profile="lab")
        code = """
import random, uuid, os, secrets, ssl, tempfile
[random.random(), str(uuid.uuid4()), os.urandom(8).hex(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(),
 os.path.basename(tempfile.mktemp())]
"""
        drawn = [self.ok(server, code, session=f"s{i}") for i in range(4)]
        for kind in zip(*drawn):
            self.assertEqual(len(set(kind)), 4, kind)
        server.close()


    def test_random_state_of_the_template_is_reseeded(self):
        # OpenSSL detects a fork by the process id, so no template has that of a session's worker.
        package = self.share("drawing")
        with open(os.path.join(package, "__init__.py"), "w") as f:
            f.write("import multiprocessing, os, random, ssl, tempfile\nfirst = [random.random(), ssl.RAND_bytes(8), tempfile.mktemp()]\n"
                    "pid = os.getpid()\n")
        place = subprocess.run([harness.PYTHON, "-c", "import sysconfig; print(sysconfig.get_paths()['stdlib'])"],
                               capture_output=True, text=True, check=True).stdout.strip()
        server = self.serve(preload=["drawing"], pool=2, **mount(package, place + "/drawing"))
        code = "import sys, multiprocessing, random, ssl, tempfile, uuid, drawing; assert drawing.first\n" \
               "[random.random(), ssl.RAND_bytes(8).hex(), tempfile.mktemp(), uuid.uuid1().hex, uuid.uuid4().hex," \
               " bytes(multiprocessing.current_process().authkey).hex()]"
        self.assertTrue(harness.wait_until(lambda: self.ready(server) == 2))
        # The first two come from the pool, some of the others too.
        drawn = [self.ok(server, code, session=f"s{i}") for i in range(6)]
        for kind in zip(*drawn):
            self.assertEqual(len(set(kind)), 6, kind)
        pids = self.ok(server, "import os, drawing; [os.getpid(), drawing.pid]", session="s0")
        self.assertNotEqual(*pids)
        server.close()


class Choice(Profiles):
    TWO = {"agent": {"agent": True, "preload": ["sqlite3"]}, "people": {"preload": ["wave"]}}
    WHICH = "import sys; 'sqlite3' if 'sqlite3' in sys.modules else 'wave' if 'wave' in sys.modules else 'default'"

    def test_by_option_and_by_config(self):
        code = self.WHICH.replace("; ", "; print(") + ")"
        config = self.config(profiles=self.TWO, profile="people")
        for arguments, want in (([], "wave"), (["--profile", "agent"], "sqlite3"), (["--profile", "default"], "default")):
            ran = self.run_cloister("run", "--config", config, *arguments, "-c", code)
            self.assertEqual((ran.stdout.decode().strip(), ran.returncode), (want, 0), ran.stderr)
        ran = self.run_cloister("run", "--config", config, "--profile", "agnet", "-c", "1")
        self.assertIn(b'there is no profile "agnet"; did you mean "agent"?', ran.stderr)
        self.assertNotEqual(ran.returncode, 0)

    def test_by_the_clients_name(self):
        for client, arguments, want in (("claude-code", [], "wave"), ("other", [], "default"),
                                        ("claude-code", ["--profile", "agent"], "sqlite3")):
            server = self.serve(*arguments, client=client, profiles=self.TWO, clients={"claude-code": "people"})
            self.assertEqual(self.ok(server, self.WHICH), want)
            server.close()

    def test_a_modern_request_depends_on_no_other(self):
        def meta(name):
            return {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {},
                    PREFIX + "clientInfo": {"name": name, "version": "0"}}

        def which(server, name, session, **more):
            params = {"_meta": meta(name), "name": "run_python", "arguments": {"code": self.WHICH, "session": session}}
            return server.ask("tools/call", params)["structuredContent"]["value"]["json"]

        clients, listed = {"claude-code": "people", "other": "agent"}, {}
        server = self.serve(client="claude-code", profiles=self.TWO, clients=clients)
        legacy = server.ask("tools/list")["tools"]
        for name in ("other", "claude-code", "raw"):
            listed[name] = server.ask("tools/list", {"_meta": meta(name)})["tools"]
            # The client name in one request does not change the profile of the connection.
            self.assertEqual(server.ask("tools/list")["tools"], legacy)
        self.assertEqual(listed["other"], listed["claude-code"])
        self.assertEqual(listed["other"], listed["raw"])
        self.assertNotEqual(listed["raw"], legacy)
        self.assertEqual(which(server, "claude-code", "modern"), "default")
        self.assertEqual(self.ok(server, self.WHICH, session="legacy"), "wave")
        server.close()
        server = self.serve("--profile", "agent", client="claude-code", profiles=self.TWO, clients=clients)
        self.assertEqual(which(server, "claude-code", "modern"), "sqlite3")
        server.close()

    def test_by_the_call(self):
        server = self.serve(profiles=self.TWO)
        schema = server.ask("tools/list")["tools"][0]["inputSchema"]["properties"]
        self.assertEqual(schema["profile"]["enum"], ["default", "agent"])
        self.assertEqual(self.ok(server, self.WHICH, profile="agent", session="a"), "sqlite3")
        self.assertEqual(self.ok(server, self.WHICH, session="a"), "sqlite3", "the session's own stays")
        self.assertEqual(self.ok(server, self.WHICH), "default")
        cell = server.cell("1", profile="people", session="b")
        self.assertIn("profile must be one of: default, agent", cell["error"]["message"])
        server.close()

    def test_no_choice_no_argument(self):
        server = self.serve(profiles={"people": {}})
        self.assertNotIn("profile", server.ask("tools/list")["tools"][0]["inputSchema"]["properties"])
        self.assertIn("unknown argument", server.cell("1", profile="people")["error"]["message"])
        server.close()

    def test_a_living_session_keeps_its_profile(self):
        server = self.serve(profiles=self.TWO)
        self.ok(server, "x = 1", session="s")
        cell = server.cell("x", session="s", profile="agent")
        self.assertEqual((cell["status"], cell["state"]), ("error", "kept"))
        self.assertIn('lives under profile "default", not "agent": reset: true', cell["error"]["message"])
        self.assertEqual(self.ok(server, "x", session="s"), 1)
        self.assertEqual(self.ok(server, self.WHICH, session="s", profile="agent", reset=True), "sqlite3")
        server.close()

    def test_tools_of_a_profile(self):
        config = self.config({"a": harness.fixture(), "b": harness.fixture()}, profiles={"one": {"servers": ["a"]}})
        for arguments, names in (([], ["a", "b"]), (["--profile", "one"], ["a"])):
            ran = self.run_cloister("tools", "--json", "--config", config, *arguments)
            self.assertEqual([s["name"] for s in json.loads(ran.stdout)["servers"]], names, ran.stderr)
        server = self.serve(mcpServers={"a": harness.fixture(), "b": harness.fixture()},
                            profiles={"one": {"servers": ["a"], "agent": True}})
        self.assertEqual(self.ok(server, "sorted({t['server'] for t in _discover()})", profile="one", session="1"), ["a"])
        self.assertEqual(self.ok(server, "sorted({t['server'] for t in _discover()})"), ["a", "b"])
        server.close()

    def test_limits(self):
        server = self.serve(profiles={"small": {"limits": {"tmp": "1 MiB"}, "agent": True}})
        code = "import os; s = os.statvfs('/tmp'); s.f_blocks * s.f_frsize >> 20"
        self.assertEqual(self.ok(server, code, session="s", profile="small"), 1)
        self.assertGreater(self.ok(server, code), 1)
        server.close()


class Life(Profiles):
    def test_an_unused_template_is_ended(self):
        server = self.serve(profiles={"lab": {"agent": True}}, idle="1 s")
        self.assertEqual(self.ok(server, "1", session="a", profile="lab"), 1)
        self.assertTrue(harness.wait_until(lambda: "its template was stopped" in server.log()), server.log())
        self.assertEqual(self.ok(server, "2", session="b", profile="lab"), 2)
        self.assertEqual(self.ok(server, "3"), 3)
        server.close()

    def test_many_profiles_at_once(self):
        names = [f"p{i}" for i in range(8)]
        server = self.serve(profiles={n: {"agent": True, "limits": {"tmp": f"{i + 1} MiB"}} for i, n in enumerate(names)})
        code = "import os; s = os.statvfs('/tmp'); s.f_blocks * s.f_frsize >> 20"
        calls = [server.start_call(code, session=n, profile=n) for n in names]
        got = [c.result(harness.PATIENCE * 2)["structuredContent"]["value"]["json"] for c in calls]
        self.assertEqual(got, list(range(1, 9)))
        self.assertEqual([self.ok(server, code, session=n) for n in names], got, "each lives on")
        server.close()

    def test_a_reload_changes_new_sessions_only(self):
        path = self.config(profiles={"lab": {"agent": True}})
        server = self.serve(profiles={"lab": {"agent": True}})
        which = Choice.WHICH
        self.assertEqual(self.ok(server, "x = 5; " + which, session="old", profile="lab"), "default")
        harness.replace_file(path, json.dumps({"mcpServers": {}, "profiles": {"lab": {"agent": True, "preload": ["wave"]}}}))
        self.assertTrue(harness.wait_until(lambda: "config was reloaded" in server.log()), server.log())
        self.assertEqual(self.ok(server, which, session="new", profile="lab"), "wave")
        self.assertEqual(self.ok(server, "x", session="old"), 5)
        server.close()


class Reduced(Profiles):
    """A profile that loses something while sessions live under it."""

    def change(self, server, servers=None, **profiles):
        self.replace(server, servers=servers, profiles=profiles)

    def replace(self, server, **config):
        path = self.path("config.json")
        self.config(name="config.json~", **config)
        before = server.log().count("config was reloaded")
        os.rename(path + "~", path)
        self.assertTrue(harness.wait_until(lambda: server.log().count("config was reloaded") > before), server.log())

    def ends(self, server, name, why, profile):
        """The session has ended, one line names the reason, and it begins anew under the newest profile."""
        cell = server.cell("'x' in globals()", session=name, profile=profile)
        self.assertEqual((cell["status"], cell["value"]["json"], cell["state"]), ("ok", False, "new"), cell)
        self.assertIn(why, cell["notice"])

    @harness.once
    def test_tools_and_servers(self):
        servers = {"one": harness.fixture(), "two": harness.fixture()}
        server = self.serve(servers=servers, profiles={"lab": {"agent": True}})
        call = """
async def call(name, **arguments):
    try:
        return (await tools[name](**arguments))["sum"]
    except Exception as e:
        return type(e).__name__
[await call("one.add", a=1, b=1), await call("two.add", a=1, b=1)]
"""
        again = '[await call("one.add", a=1, b=1), await call("two.add", a=1, b=1)]'
        kept = 'one_add = tools["one.add"]'
        self.assertEqual(self.ok(server, call, session="live", profile="lab"), [2, 2])
        self.ok(server, kept, session="live")
        self.assertEqual(self.ok(server, call, session="other"), [2, 2])
        request = server.start_call("import asyncio\nbefore = await call('one.add', a=2, b=2)\nwhile (got := await call('one.add', a=2, b=2)) == 4:\n    await asyncio.sleep(0.1)\n[before, got]",
                                    session="live", timeout=60)
        self.assertTrue(harness.wait_until(lambda: "one" in server.log()))
        self.change(server, servers, lab={"agent": True, "tools": {"deny": ["one.add"]}})
        # The running code loses it at its next use, and a function that it has kept is of no use.
        before, after = request.result(60)["structuredContent"]["value"]["json"]
        self.assertEqual(before, 4)
        self.assertIsInstance(after, str)
        self.assertEqual(self.ok(server, again, session="live")[1], 2)
        self.assertIsInstance(self.ok(server, again, session="live")[0], str)
        cell = server.cell("await one_add(a=1, b=1)", session="live")
        self.assertEqual(cell["status"], "error", cell)
        self.assertEqual(self.ok(server, again, session="other"), [2, 2], "another profile lost nothing")
        self.change(server, servers, lab={"agent": True, "servers": ["one"]})
        self.assertTrue(harness.wait_until(lambda: self.ok(server, again, session="live")[0] == 2))
        self.assertIsInstance(self.ok(server, again, session="live")[1], str)
        self.assertEqual(self.ok(server, "sorted({t['server'] for t in _discover()})", session="live"), ["one"])
        server.close()

    def test_mounts(self):
        share, more = self.share(), self.share("more")
        # Sandboxes of root have ids of their own, and no writable mounts.
        mount = {"source": share, "target": "/data", "mode": "ro" if os.geteuid() == 0 else "rw"}
        other = {"source": more, "target": "/more"}
        server = self.serve(profiles={"lab": {"agent": True, "mounts": [mount, other]}, "two": {"agent": True, "mounts": [other]}})
        read = "x = 1; open('/data/note.txt').read()"
        for name in ("a", "b"):
            self.assertEqual(self.ok(server, read, session=name, profile="lab"), "from the host")
        self.assertEqual(self.ok(server, "x = 1; x", session="two", profile="two"), 1)
        request = server.start_call(read + "\nimport time\ntime.sleep(50)", session="b")
        # A mount more, and other limits, change nothing for sessions that live.
        self.change(server, lab={"agent": True, "limits": {"pids": 20}, "mounts": [mount, other, {"source": more, "target": "/third"}]},
                    two={"agent": True, "mounts": [other]})
        self.assertEqual(self.ok(server, "x", session="a"), 1)
        self.change(server, lab={"agent": True, "mounts": [{**mount, "mode": "ro", "target": "/other" if os.geteuid() == 0 else "/data"}, other]}, two={"agent": True, "mounts": [other]})
        self.assertNotEqual(request.result(30)["structuredContent"]["status"], "ok")
        self.ends(server, "a", 'the profile "lab" has a mount less now', "lab")
        self.ok(server, "x = 1", session="a")
        self.change(server, lab={"agent": True, "mounts": [other]}, two={"agent": True, "mounts": [other]})
        self.ends(server, "a", 'the profile "lab" has a mount less now', "lab")
        self.assertEqual(self.ok(server, "x", session="two"), 1, "another profile lost nothing")
        server.close()

    @harness.once
    def test_networks_and_profiles(self):
        server = self.serve(profiles={"lab": {"agent": True, "network": "loopback"}, "gone": {"agent": True}, "kept": {"agent": True}})
        for name in ("lab", "gone", "kept"):
            self.assertEqual(self.ok(server, "x = 1; x", session=name, profile=name), 1)
        self.assertEqual(self.ok(server, "x = 1; x", session="usual"), 1)
        self.change(server, lab={"agent": True}, kept={"agent": True})
        self.ends(server, "lab", 'the profile "lab" has another network now', "lab")
        cell = server.cell("'x' in globals()", session="gone")
        self.assertEqual((cell["value"]["json"], cell["state"]), (False, "new"), cell)
        self.assertIn('the profile "gone" is not allowed any more', cell["notice"])
        # A profile that may not be chosen any more.
        self.change(server, lab={"agent": True}, kept={"agent": False})
        cell = server.cell("'x' in globals()", session="kept")
        self.assertEqual((cell["value"]["json"], cell["state"]), (False, "new"), cell)
        self.assertEqual(self.ok(server, "x", session="usual"), 1)
        server.close()

    @harness.once
    def test_another_profile_by_any_key(self):
        """A live session has what its profile has: the first profile, the last one, another name, another client's."""
        wide = {"mounts": [{"source": self.share(), "target": "/data"}]}
        lab, raw = {"profiles": {"lab": wide}}, {"clients": {"raw": "lab"}}
        less, other, gone = "has a mount less now", "has another network now", '" is not allowed any more'
        for before, after, why in (
                (wide, {}, 'the profile "default" ' + less),
                ({"network": "loopback"}, {}, 'the profile "default" ' + other),
                (wide, {**wide, "profiles": {"default": {"mounts": []}}}, 'the profile "default" ' + less),
                (wide, {**wide, "profiles": {"lab": {"mounts": []}}, "profile": "lab"}, "default" + gone),
                (wide, {**wide, "profiles": {"lab": {"mounts": []}}, **raw}, "default" + gone),
                ({**lab, "profile": "lab"}, {}, "lab" + gone),
                ({**lab, "profile": "lab"}, lab, "lab" + gone),
                ({**lab, **raw}, lab, "lab" + gone),
                ({**lab, **raw}, {"profiles": {"lab": wide, "less": {}}, "clients": {"raw": "less", "another": "lab"}}, "lab" + gone),
                ({**lab, "profile": "lab"}, {"profiles": {"lib": {}}, "profile": "lib"}, "lab" + gone)):
            with self.subTest(before=before, after=after):
                server = self.serve(**before)
                seen = "import os\n['x' in globals(), os.path.exists('/data')]"
                self.ok(server, "x = 1", session="live")
                # A profile more, and another client's, change nothing.
                more = {**before, "profiles": {**before.get("profiles", {}), "more": {}}, "clients": {**before.get("clients", {}), "another": "more"}}
                self.replace(server, **more)
                self.assertEqual(self.ok(server, seen, session="live"), [True, "network" not in before])
                self.replace(server, **after)
                cell = server.cell(seen, session="live")
                self.assertEqual((cell["status"], cell["value"]["json"], cell["state"]), ("ok", [False, False], "new"), cell)
                self.assertIn(why, cell["notice"])
                # Nor does a restart bring it back.
                self.assertEqual(server.cell(seen, session="live", reset=True)["value"]["json"], [False, False])
                server.close()


if __name__ == "__main__":
    harness.main()
