"""Authorization servers that send false data, other users of this machine, and objects that replace a token file."""

import glob
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse

from authserver import World
from harness import PATIENCE, main
from oauth_case import Login, browse


class Hostile(Login):
    """Documents and answers with false data. The control of each test is in Flow: the same setup with correct data."""

    def test_the_answer_of_another_issuer(self):
        for supported, iss, good in ((True, self.world.origin, True), (True, None, False), (True, self.world.origin + "/", False),
                                     (False, None, True), (False, "https://evil.example", False)):
            with self.subTest(supported=supported, iss=iss):
                shutil.rmtree(self.state, ignore_errors=True)
                self.world.metadata["authorization_response_iss_parameter_supported"] = supported
                self.world.redirect = {"iss": iss}
                self.entry()
                before = self.world.count("/token")
                if good:
                    self.logged_in()
                    continue
                self.refused("it was not used", browser=True)
                self.assertEqual(self.world.count("/token"), before)

    def test_an_error_of_another_issuer_is_not_shown(self):
        self.world.redirect = {"iss": "https://evil.example", "error": "call_0800_555", "code": None}
        self.entry()
        self.assertNotIn("0800", self.refused("another authorization server", browser=True))
        self.world.redirect = {"error": "access_denied", "code": None}
        self.refused(r"refused: access_denied \(cancelled in the browser.*nothing was changed", browser=True)

    def test_metadata_of_another_issuer(self):
        self.world.metadata["issuer"] = "https://honest.example"
        self.entry()
        self.refused("another issuer")
        self.assertEqual(self.world.count("/register"), 0)

    def test_metadata_of_another_resource(self):
        for resource in ("https://evil.example/mcp", self.world.origin, self.world.origin + "/mcp/x", "http://127.0.0.1:1/mcp"):
            self.world.prm["resource"] = resource
            self.entry()
            self.refused("another resource")
        for resource in (self.world.url + "#x", self.world.url.replace("//", "//user@")):
            self.world.prm["resource"] = resource
            self.refused("contains a")

    def test_the_user_sees_who_gets_the_answer(self):
        """A page of an honest authorization server, whose code would go elsewhere: without `iss`, only the user can notice."""
        other = World()
        self.addCleanup(other.close)
        self.entry()
        self.logged_in()
        self.assertNotIn("but your answer goes to", self.shown)
        self.world.metadata["token_endpoint"] = other.origin + "/token"
        self.assertEqual(self.login()[0], 1)
        self.assertIn(f"The page is of {self.world.origin}, but your answer goes to {other.origin}", self.shown)

    def test_without_pkce(self):
        for methods in (None, [], ["plain"]):
            self.world.metadata["code_challenge_methods_supported"] = methods
            self.entry()
            self.refused("PKCE")

    def test_addresses_that_documents_may_not_name(self):
        """Loopback addresses are allowed here, because the server itself has one. All other local addresses are refused."""
        for evil in ("http://169.254.169.254", "https://169.254.169.254", "https://10.0.0.1", "http://10.0.0.1", "https://192.168.0.1",
                     "https://[::ffff:10.0.0.1]", "https://[fe80::1]", "https://0.0.0.0", "https://[64:ff9b::a00:1]",
                     "https://2852039166", "https://0xa9fea9fe"):
            with self.subTest(evil):
                self.world.prm["authorization_servers"] = [evil]
                self.entry()
                self.refused("private network|not encrypted")
                self.world.prm["authorization_servers"] = [self.world.origin]
                self.world.challenge = f'Bearer resource_metadata="{evil}/prm"'
                self.refused("private network|not encrypted")
                self.world.challenge = f'Bearer resource_metadata="{self.world.origin}/prm"'

    def test_endpoints_that_documents_may_not_name(self):
        for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
            good = self.world.metadata[endpoint]
            for evil in ("file:///etc/passwd", "javascript:alert(1)", "http://example.org/x", "https://user@example.org/",
                         "https://example.org/\n", "https://example.org/#x", "gopher://127.0.0.1:25/", "x" * 3000):
                self.world.metadata[endpoint] = evil
                self.entry()
                status, _, err = self.login()
                # An endpoint that is not a string of one line counts as missing.
                self.assertEqual((status, bool(self.asked)), (1, False), f"{endpoint} {evil[:40]} {err}")
                self.assertNotIn("HTTP status 404", err.replace("the registration endpoint", ""))
            self.world.metadata[endpoint] = good

    def test_a_page_with_parameters_of_another_client(self):
        good = self.world.metadata["authorization_endpoint"]
        self.entry()
        for query in ("?client_id=evil", "?a=b&redirect_uri=https%3A%2F%2Fevil.example%2F", "?%73tate=x", "?a;request_uri=x", "?scope"):
            self.world.metadata["authorization_endpoint"] = good + query
            self.refused("has a parameter")
        self.world.metadata["authorization_endpoint"] = good + "?p=client_id&xstate=x"
        self.logged_in()
        self.assertEqual((self.asked["p"], self.asked["xstate"]), ("client_id", "x"))

    def test_a_page_that_is_a_command(self):
        """A URL that is copied to a shell, inside quotes of either kind, is one word."""
        self.world.metadata["authorization_endpoint"] += "?p='$(reboot)';!!*"
        self.entry()
        process = self.start()
        url = self.authorization_url(process)
        process.kill()
        process.communicate()
        self.assertRegex(url, "^[-A-Za-z0-9:/?&=%._~]+$")
        self.assertEqual(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["p"], "'$(reboot)';!!*")

    def test_a_name_that_leads_to_this_machine(self):
        """A URL that does not name loopback, and resolves to it: as in DNS rebinding, the address is what counts."""
        name = next((n for n in ("ip6-localhost", "ip6-loopback", socket.gethostname()) if resolves_to_loopback(n)), None)
        if not name:
            self.skipTest("no other name of loopback on this machine")
        url = f"https://{name}:{self.world.httpd.server_port}/mcp"
        self.entry(url=url)
        self.refused("private network")
        self.entry(url=url, private=True)
        self.assertNotIn("private network", self.refused("connect|SSL|TLS"))

    def test_no_redirect_is_followed(self):
        self.world.replies["/prm"] = lambda form: (302, {"Location": self.world.origin + "/trap"}, b"")
        self.entry()
        self.refused("HTTP status 302")
        del self.world.replies["/prm"]
        self.world.replies["/token"] = lambda form: (307, {"Location": self.world.origin + "/trap"}, b"")
        self.refused("HTTP status 307", browser=True)
        self.assertEqual(self.world.count("/trap"), 0)

    def test_sizes(self):
        large = b'{"access_token": "' + b"a" * (10 << 20) + b'"}'
        for path, browser in (("/prm", False), (self.world.metadata_path, False), ("/register", False), ("/token", True)):
            self.world.replies[path] = lambda form: (200, {}, large)
            self.entry()
            self.refused("more than 256 KiB", browser=browser)
            del self.world.replies[path]
        self.world.replies["/prm"] = lambda form: (200, {f"X-{i}": "x" * 1000 for i in range(90)}, b"{}")
        self.refused("more than 256 KiB")
        self.world.replies["/prm"] = lambda form: (200, {}, b"[" * 100000)
        self.refused("not JSON|nested|more than .* values")

    def test_tokens_that_would_break_a_header(self):
        for extra in ({"access_token": "a\r\nX: y"}, {"access_token": "a b"}, {"access_token": "é"}, {"access_token": ""},
                      {"access_token": 5}, {"access_token": "a" * 20000}, {"token_type": "mac"}, {"token_type": None}):
            self.world.token_extra = extra
            self.entry()
            self.refused("access_token|token_type", browser=True)

    def test_terminal_escapes(self):
        self.world.prm["authorization_servers"] = ["http://127.0.0.1\x1b[2J", "https://evil\u202e.example"]
        self.entry()
        self.refused("no authorization server")
        self.world.redirect = {"error": "\x1b]0;x\x07", "code": None}
        self.world.prm["authorization_servers"] = [self.world.origin]
        process = self.start()
        browse(self.authorization_url(process))
        process.kill()
        out, err = process.communicate()
        self.assertNotIn("\x1b", out + err)


def resolves_to_loopback(name):
    try:
        found = {info[4][0] for info in socket.getaddrinfo(name, 1, proto=socket.IPPROTO_TCP)}
    except OSError:
        return False
    return bool(found) and all(a == "::1" or a.startswith("127.") for a in found)


class Neighbours(Login):
    """Other users and web pages of this machine can reach the port that waits for the browser."""

    def callback(self, url):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["redirect_uri"]

    def test_answers_without_the_state(self):
        self.entry()

        def visit(url):
            callback = self.callback(url)
            state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))["state"]
            for query in ("?code=evil", "?code=evil&state=", "?code=evil&state=" + "a" * 43, f"?code=evil&state={state[:-1]}",
                          f"?code=evil&state={state}&state={state}", f"?error=x&state={state.swapcase()}", "?" + "x" * 20000):
                self.assertEqual(browse(callback + query), 400, query[:60])
            self.assertEqual(browse(callback), 404)
            self.assertEqual(browse(callback.replace("/callback", "/other?code=evil&state=" + state)), 404)
            self.assertEqual(browse(url), 200)

        self.logged_in(visit=visit)
        self.assertEqual(self.world.count("/token"), 1)
        self.assertNotEqual(self.world.last("/token")["code"], "evil")

    def test_connections_that_say_nothing(self):
        self.entry()

        def visit(url):
            port = urllib.parse.urlsplit(self.callback(url)).port
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
            with socket.create_connection(("127.0.0.1", port)) as flood:
                try:
                    for _ in range(64):
                        flood.sendall(b"GET /" + b"x" * 65536)
                except OSError:
                    pass
            self.assertEqual(browse(url), 200)
            for connection in idle:
                connection.close()

        self.logged_in(visit=visit)

    def test_the_port_is_on_loopback_only_and_shared_with_nobody(self):
        self.entry()

        def visit(url):
            port = urllib.parse.urlsplit(self.callback(url)).port
            with open("/proc/net/tcp", encoding="ascii") as f:
                local = [line.split()[1] for line in f if line.split()[3] == "0A"]
            self.assertIn(f"0100007F:{port:04X}", local)
            self.assertNotIn(f"00000000:{port:04X}", local)
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                with self.assertRaises(OSError):
                    s.bind(("127.0.0.1", port))
            browse(url)

        self.logged_in(visit=visit)

    def test_what_the_process_keeps(self):
        self.env["MY_SECRET"] = "of-a-variable"
        self.world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        self.entry(client_id="mine", client_secret="${MY_SECRET}", issuer=self.world.origin)
        process = self.start()
        url = self.authorization_url(process)
        with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual(status["NoNewPrivs"], "1")
        with open(f"/proc/{process.pid}/limits", encoding="ascii") as f:
            self.assertRegex(f.read(), r"Max core file size +0 +0")
        with open(f"/proc/{process.pid}/cmdline", "rb") as f:
            self.assertNotIn(b"of-a-variable", f.read())
        # Not dumpable: its /proc belongs to root.
        self.assertEqual(os.stat(f"/proc/{process.pid}/mem").st_uid, 0)
        if os.geteuid() == 0:
            names = [os.readlink(f"/proc/{process.pid}/fd/{n}") for n in os.listdir(f"/proc/{process.pid}/fd")]
            self.assertEqual([n for n in names if not n.startswith(("pipe:", "socket:")) and not n.endswith("/oauth")], [])
        else:
            with self.assertRaises(PermissionError):
                os.listdir(f"/proc/{process.pid}/fd")
        browse(url)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out + err)


class Files(Login):
    """Objects with which others could replace a token file."""

    def setUp(self):
        super().setUp()
        self.entry()
        self.logged_in()
        [self.file] = self.files()
        self.directory = os.path.dirname(self.file)

    def test_a_link_is_not_followed(self):
        shutil.copy2(self.file, self.path("elsewhere"))
        os.unlink(self.file)
        os.symlink(self.path("elsewhere"), self.file)
        self.assertIn("open", self.token()["error"])
        # A login replaces the link, not its target.
        with open(self.path("elsewhere"), encoding="utf-8") as f:
            before = f.read()
        self.logged_in()
        self.assertFalse(os.path.islink(self.file))
        with open(self.path("elsewhere"), encoding="utf-8") as f:
            self.assertEqual(f.read(), before)
        self.assertIn("token", self.token())

    def test_other_files(self):
        os.chmod(self.file, 0o644)
        self.assertIn("open to other users", self.token()["error"])
        os.chmod(self.file, 0o600)
        self.assertIn("token", self.token())
        os.link(self.file, self.path("second"))
        self.assertIn("not a regular file with one link", self.token()["error"])
        os.unlink(self.path("second"))
        self.assertIn("token", self.token())
        os.unlink(self.file)
        os.mkfifo(self.file, 0o600)
        self.assertIn("not a regular file with one link", self.token()["error"])

    def test_the_directory(self):
        os.chmod(self.directory, 0o755)
        self.assertIn("open to other users", self.token()["error"])
        status, _, err = self.login()
        self.assertEqual((status, self.asked), (1, None), err)
        os.chmod(self.directory, 0o700)
        os.rename(self.directory, self.path("moved"))
        os.symlink(self.path("moved"), self.directory)
        self.assertIn("open", self.token()["error"])

    def test_broken_content(self):
        record = self.record()
        for text in ("", "{", "[]", "{}", json.dumps({**record, "access_token": "a\r\nb"}), json.dumps({**record, "url": "https://x"}),
                     json.dumps({**record, "version": 2}), json.dumps({**record, "token_endpoint": "x" * 5000}), "x" * 200000):
            with open(self.file, "w", encoding="utf-8") as f:
                f.write(text)
            self.assertIn("tokens", self.token()["error"], text[:40])
        self.logged_in()
        self.assertIn("token", self.token())

    def test_names_stay_in_the_directory(self):
        before = set(os.listdir(self.directory))
        for name in ("../../../../tmp/x", "a/b", "..", ".", "-x", "é", "x" * 64):
            self.entry(name)
            status, out, err = self.login(name=name)
            if name.startswith("-"):
                self.assertNotEqual(status, 0)
                continue
            self.assertEqual(status, 0, out + err)
        new = set(os.listdir(self.directory)) - before
        self.assertTrue(all(re.fullmatch(r"[0-9a-f]{40}\.(json|lock)", n) for n in new), new)
        inside = {os.path.relpath(os.path.join(f, n), self.state) for f, _, names in os.walk(self.state) for n in names}
        self.assertEqual({os.path.dirname(n) for n in inside}, {"cloister/oauth"})

    def test_a_lock_that_is_held(self):
        """Another process holds the lock for a moment: the refresh waits for it."""
        now = int(time.time())
        self.change(obtained=now - 3600, expires=now - 5)
        holder = ["flock", glob.glob(self.directory + "/*.lock")[0], "sh", "-c", "echo held; read line"]
        got = []
        asks = threading.Thread(target=lambda: got.append(self.token()))
        with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holds:
            self.assertEqual(holds.stdout.readline(), b"held\n")
            asks.start()
            asks.join(0.3)
            self.assertEqual(got, [], "it did not wait for the lock")
        asks.join()
        self.assertIn("token", got[0])


if __name__ == "__main__":
    main()
