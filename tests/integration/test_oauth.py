"""`cloister login`, `logout` and the renewal of tokens."""

import base64
import concurrent.futures
import json
import os
import pwd
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from authserver import World, tls_context
from harness import PATIENCE, main
from oauth_case import OAUTH, Login


class Flow(Login):
    def test_whole(self):
        self.entry()
        out = self.logged_in()
        self.assertIn("Logged in to s; the login is renewed by itself.", out)
        self.assertEqual(self.asked["resource"], self.world.url)
        self.assertEqual((self.asked["response_type"], self.asked["code_challenge_method"]), ("code", "S256"))
        self.assertGreaterEqual(len(self.asked["state"]), 43)
        self.assertNotIn("scope", self.asked)
        self.assertEqual(self.world.last("/token")["resource"], self.world.url)
        registration = self.world.last("/register")
        self.assertEqual(registration["application_type"], "native")
        self.assertIn("refresh_token", registration["grant_types"])
        self.assertEqual(self.token()["token"], self.record()["access_token"])
        self.assertIn(self.token()["token"], self.world.access)

    def test_files_are_the_users_alone(self):
        os.umask(0)
        self.addCleanup(os.umask, 0o022)
        self.entry()
        self.logged_in()
        [path] = self.files()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        self.assertEqual([n for n in os.listdir(os.path.dirname(path)) if n.startswith(".")], [])

    def test_a_second_login_uses_the_registration_again(self):
        self.entry()
        self.logged_in()
        first = self.record()["client_id"]
        self.logged_in()
        self.assertEqual((self.record()["client_id"], self.world.count("/register")), (first, 1))

    def test_another_authorization_server_gets_a_registration_of_its_own(self):
        other = World()
        self.addCleanup(other.close)
        self.entry()
        self.logged_in()
        first = self.record()["client_id"]
        self.world.prm["authorization_servers"] = [other.origin]
        self.logged_in()
        self.assertEqual(other.count("/register"), 1)
        self.assertNotEqual(self.record()["client_id"], first)
        self.assertNotIn(first, str(other.seen))

    def test_methods_of_the_token_endpoint(self):
        for method in ("client_secret_basic", "client_secret_post"):
            with self.subTest(method):
                shutil.rmtree(self.state, ignore_errors=True)
                self.world.metadata["token_endpoint_auth_methods_supported"] = [method]
                self.entry()
                self.logged_in()
                client = self.world.clients[self.record()["client_id"]]
                request = self.world.last("/token")
                if method == "client_secret_post":
                    self.assertEqual(request["client_secret"], client["client_secret"])
                else:
                    pair = base64.b64decode(request["_authorization"].removeprefix("Basic ")).decode()
                    self.assertEqual(pair, f"{client['client_id']}:{client['client_secret']}")
                    self.assertNotIn("client_secret", request)

    def test_client_of_the_config(self):
        self.world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
        del self.world.metadata["registration_endpoint"]
        self.env["MY_SECRET"] = "of-a-variable"
        self.write("secret", "of-a-file\n")
        for oauth, secret in (({"client_secret": "${MY_SECRET}"}, "of-a-variable"),
                              ({"client_secret_file": self.path("secret")}, "of-a-file")):
            self.entry(client_id="mine", issuer=self.world.origin, **oauth)
            self.logged_in()
            request = self.world.last("/token")
            self.assertEqual((request["client_id"], request["client_secret"]), ("mine", secret))

    def test_the_secret_of_the_config_goes_to_its_issuer_only(self):
        self.env["MY_SECRET"] = "of-a-variable"
        self.entry(client_id="mine", client_secret="${MY_SECRET}", issuer="https://honest.example")
        self.refused("names another authorization server")
        self.assertNotIn("of-a-variable", str(self.world.seen))
        self.entry(client_id="mine", client_secret="${MY_SECRET}")
        self.refused('name its authorization server with "issuer"')
        self.entry(client_id="mine", client_secret="in-the-config", issuer=self.world.origin)
        self.assertNotIn("in-the-config", self.refused("must name a variable"))

    def test_client_that_a_document_describes(self):
        document = "https://example.org/cloister.json"
        self.entry(client_metadata_url=document)
        self.logged_in()
        self.assertNotEqual(self.asked["client_id"], document)
        self.world.metadata["client_id_metadata_document_supported"] = True
        self.logged_in()
        self.assertEqual((self.asked["client_id"], self.world.count("/register")), (document, 1))

    def test_fixed_port(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.entry(redirect_port=port)
        self.logged_in()
        self.assertEqual(self.asked["redirect_uri"], f"http://127.0.0.1:{port}/callback")
        with socket.create_server(("127.0.0.1", port)):
            status, _, err = self.login()
            self.assertEqual(status, 1)
            self.assertIn(f"127.0.0.1:{port}", err)

    def test_scopes(self):
        self.world.prm["scopes_supported"] = ["a", "b"]
        self.entry()
        self.logged_in()
        self.assertEqual(self.asked["scope"], "a b")
        self.world.challenge += ', scope="c"'
        self.world.metadata["scopes_supported"] = ["offline_access"]
        self.logged_in("--scope", "d e")
        self.assertEqual(self.asked["scope"], "a b c offline_access d e")
        self.entry(scopes=["only"])
        self.logged_in(name="s")
        self.assertEqual(self.asked["scope"], "a b c offline_access d e only")
        shutil.rmtree(self.state)
        self.logged_in()
        self.assertEqual(self.asked["scope"], "only")

    def test_places_of_metadata(self):
        """Each place is tried in order, and only those of the specification."""
        w = self.world
        issuer = w.origin + "/tenant"
        for challenge, prm, metadata, tried in (
                (True, "/anywhere.json", "/.well-known/oauth-authorization-server/tenant", 1),
                (False, "/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration/tenant", 2),
                (False, "/.well-known/oauth-protected-resource", "/tenant/.well-known/openid-configuration", 3)):
            with self.subTest(prm):
                shutil.rmtree(self.state, ignore_errors=True)
                w.seen.clear()
                w.challenge = f'Basic realm="x", Bearer resource_metadata="{w.origin}{prm}"' if challenge else None
                w.prm_path, w.metadata_path = prm, metadata
                w.prm = {"resource": w.origin if prm.endswith("resource") else w.url, "authorization_servers": [issuer]}
                w.metadata["issuer"] = issuer
                self.entry()
                self.logged_in()
                self.assertEqual(sum("openid" in p or "authorization-server" in p for _, p, _ in w.seen), tried)
                self.assertEqual(self.asked["resource"], w.prm["resource"])

    def test_server_of_the_first_revision(self):
        """MCP 2025-03-26 had no resource metadata, and default paths instead of metadata."""
        w = self.world
        w.prm = w.challenge = None
        self.entry()
        self.logged_in()
        w.metadata = None
        shutil.rmtree(self.state)
        self.logged_in()
        self.assertEqual(w.count("/register"), 2)

    def test_paste(self):
        """Without a browser on this machine: the user pastes the URL at which the browser ends."""
        self.entry()
        process = self.start("--no-browser")
        url = self.authorization_url(process)
        with self.assertRaises(urllib.error.HTTPError) as stopped:
            class Stay(urllib.request.HTTPRedirectHandler):
                def redirect_request(self, *_):
                    return None
            urllib.request.build_opener(Stay).open(url, timeout=PATIENCE)
        target = stopped.exception.headers["Location"]
        process.stdin.write("http://127.0.0.1/callback?code=x&state=wrong\n" + target + "\n")
        process.stdin.flush()
        process.stdin = None
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("This URL does not belong", err)
        self.assertIn("Logged in", out)


    def test_a_paste_that_ends(self):
        self.entry()
        process = self.start("--no-browser")
        self.assertTrue(self.authorization_url(process))
        self.assertIn("standard input ended before", process.communicate(timeout=PATIENCE)[1])
        self.assertEqual(process.returncode, 1)
        process = self.start("--no-browser")
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.authorization_url(process)).query))
        out, err = process.communicate("?code=x&state=" + asked["state"], timeout=PATIENCE)  # without a newline
        self.assertIn("answers invalid_grant", err, out)

    def test_no_login_is_possible(self):
        """Errors before the browser step contain the failure, its cause and the remedy."""
        self.world.challenge, self.world.prm, self.world.metadata = None, None, None
        self.entry()
        for status, words in ((200, "does not ask for a login .* needs none$"), (400, "does not ask for a login"),
                              (401, r"\(HTTP status 401\) names no authorization server, .*404.*\"token\""), (405, "names no")):
            self.world.replies.update({"/mcp": lambda form: (status, {}, b""), "/register": lambda form: (404, {}, b"")})
            self.refused(words)
        self.entry(url="http://127.0.0.1:1/mcp")
        self.refused("connect.*check the URL")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.world = World()
            self.addCleanup(self.world.close)
            self.entry(redirect_port=port)
            self.refused(f"127.0.0.1:{port}: Address already in use; end the program .*redirect_port")
        self.env["XDG_STATE_HOME"] = "/proc/self/nothing"
        self.refused("cannot write to /proc/.*: .*set XDG_STATE_HOME")
        os.makedirs(self.path("linked/cloister"))
        os.symlink("/tmp", self.path("linked/cloister/oauth"))
        self.env["XDG_STATE_HOME"] = self.path("linked")
        self.refused("a symbolic link is not followed")

    def test_a_registration_that_is_forgotten(self):
        self.entry()
        self.logged_in()
        self.world.replies["/token"] = lambda form: (401, {}, {"error": "invalid_client"})
        status, _, err = self.login()
        self.assertEqual(status, 1)
        self.assertIn("answers invalid_client", err)
        self.assertIn("'cloister logout s' forgets the registration", err)
        self.run_cloister("logout", "s", "--config", self.path("config.json"), env=self.env)
        self.world.replies.clear()
        self.logged_in()
        self.assertEqual(self.world.count("/register"), 2)


class Refresh(Login):
    def setUp(self):
        super().setUp()
        self.entry()

    def test_without_a_login(self):
        self.assertEqual(self.token(), {"login": False})
        answer = self.token(status=401)
        self.assertEqual((answer["error"], answer["login"]), ("needs a login: cloister login s", True))

    def test_expired(self):
        self.logged_in()
        first = self.token()["token"]
        now = int(time.time())
        self.change(obtained=now - 3600, expires=now + 30)
        second = self.token()
        self.assertNotEqual(second["token"], first)
        self.assertGreater(second["seconds"], 3000)
        self.assertEqual(self.world.last("/token")["grant_type"], "refresh_token")
        self.assertEqual(self.world.last("/token")["resource"], self.world.url)
        self.assertEqual(self.token()["token"], second["token"])

    def test_refused(self):
        self.logged_in()
        first = self.token()["token"]
        self.assertIn("just made", self.token(status=401)["error"])
        self.change(obtained=int(time.time()) - 10)
        self.assertNotEqual(self.token(status=401)["token"], first)

    def test_one_refresh_for_many(self):
        """A server accepts a refresh token once: waiting processes use the token that the first process got."""
        self.logged_in()
        now = int(time.time())
        self.change(obtained=now - 3600, expires=now - 5)
        before = self.world.count("/token")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            tokens = list(pool.map(lambda _: self.token().get("token"), range(8)))
        self.assertEqual(len(set(tokens)), 1)
        self.assertEqual(self.world.count("/token"), before + 1)

    def test_a_login_that_has_ended(self):
        self.logged_in()
        self.world.refresh.clear()
        self.change(obtained=1, expires=2)
        self.assertEqual(self.token(), {"error": "its login has ended; needs a login: cloister login s", "login": True})
        before = self.world.count("/token")
        self.assertIn("needs a login", self.token(status=401)["error"])
        self.assertEqual(self.world.count("/token"), before)
        self.assertNotIn("refresh_token", self.record())
        self.logged_in()
        self.assertEqual(self.world.count("/register"), 1)

    def test_a_server_that_is_away_ends_no_login(self):
        self.logged_in()
        now = int(time.time())
        self.world.error = "temporarily_unavailable"
        self.change(obtained=now - 3600, expires=now + 30)
        self.assertIn("token", self.token())
        self.change(obtained=now - 3600, expires=now - 1)
        answer = self.token()
        self.assertEqual((answer["login"], "temporarily_unavailable" in answer["error"]), (False, True))
        self.world.error = None
        self.assertIn("token", self.token())

    def test_a_renewal_is_not_cut_off(self):
        """The server has used up the old refresh token when the process gets SIGTERM: the new token must not be lost."""
        self.logged_in()
        now = int(time.time())
        self.change(obtained=now - 3600, expires=now - 1)
        world, before = self.world, self.record()["refresh_token"]
        taken, go_on = threading.Event(), threading.Event()

        def slow(form):
            taken.set()
            go_on.wait(PATIENCE)
            return 200, {"Content-Type": "application/json"}, b'{"access_token": "a", "refresh_token": "new", "token_type": "Bearer"}'

        world.replies["/token"] = slow
        process = subprocess.Popen([OAUTH, "refresh"], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(json.dumps({"name": "s", "url": world.url}))
        process.stdin.close()
        process.stdout.close()
        self.assertTrue(taken.wait(PATIENCE))
        process.terminate()
        go_on.set()
        process.wait(PATIENCE)
        self.assertEqual((before == "new", self.record()["refresh_token"]), (False, "new"))

    def test_no_error_quotes_a_secret(self):
        self.logged_in()
        self.world.error = "invalid_request"
        secrets = [self.record()["access_token"], self.record()["refresh_token"]]
        self.change(obtained=1, expires=2)
        text = json.dumps(self.token())
        for secret in secrets:
            self.assertNotIn(secret, text)
        self.assertNotIn("hostile", text)
        self.assertNotIn("\\u001b", text)

    def test_more_scopes(self):
        self.logged_in()
        challenge = 'Bearer error="insufficient_scope", scope="files:write"'
        self.assertIn("cloister login s --scope files:write", self.token(status=403, challenge=challenge)["error"])
        self.assertEqual(self.world.count("/token"), 1)

    def test_a_scope_is_no_command(self):
        """The message shows a command to type. The server's text is one literal word of it."""
        self.logged_in()
        answer = self.token(status=403, challenge="Bearer scope=\"x;$(touch${IFS}owned) 'y\"")
        command = answer["error"].split(": ", 1)[1].replace("cloister login", "printf %s\\\\n")
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=self.dir, check=True)
        self.assertEqual(done.stdout.splitlines(), ["s", "--scope", "x;$(touch${IFS}owned) 'y"])
        self.assertFalse(os.path.exists(self.path("owned")))

    def test_a_token_stays_with_its_url(self):
        self.logged_in()
        self.assertEqual(self.token(url="http://127.0.0.1:1/mcp"), {"login": False})
        self.assertEqual(self.token(name="t"), {"login": False})
        self.assertIn("token", self.token())

    def test_logout(self):
        self.logged_in()
        token = self.token()["token"]
        done = self.run_cloister("logout", "s", "--config", self.path("config.json"), env=self.env)
        self.assertEqual((done.returncode, done.stdout), (0, b"Logged out of s; its tokens are revoked.\n"), done.stderr)
        self.assertEqual((self.files(), self.world.count("/revoke")), ([], 2))
        self.assertNotIn(token, self.world.access)
        done = self.run_cloister("logout", "s", "--config", self.path("config.json"), env=self.env)
        self.assertEqual((done.returncode, done.stdout), (0, b"There was no login to s.\n"))

    def test_logout_without_an_answer(self):
        self.logged_in()
        self.world.replies["/revoke"] = lambda form: (503, {}, b"")
        done = self.run_cloister("logout", "s", "--config", self.path("config.json"), env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not revoked", done.stderr)
        self.assertEqual(self.files(), [])

    def test_logout_removes_what_a_killed_writer_left(self):
        self.logged_in()
        [path] = self.files()
        for _ in range(2):
            with open(path.removesuffix("json") + "new", "w", encoding="utf-8") as f:
                f.write('{"refresh_token": "x"}')
            self.run_cloister("logout", "s", "--config", self.path("config.json"), env=self.env)
            self.assertEqual([n for n in os.listdir(os.path.dirname(path)) if not n.endswith(".lock")], [])
        with open(path.removesuffix("json") + "new", "w", encoding="utf-8"):
            pass
        self.logged_in()
        self.assertEqual(self.files(), [path])


class Product(Login):
    """Code in a sandbox calls the tools of a server that requires a login."""

    def setUp(self):
        super().setUp()
        self.entry()

    def cloister(self, *args):
        done = self.run_cloister(*args, "--config", self.path("config.json"), env=self.env)
        return done.returncode, (done.stdout + done.stderr).decode()

    def call(self, *args):
        return self.cloister("run", "-c", "print(await mcp_s.echo(text='x'))", *args)

    def test_without_a_login(self):
        status, text = self.cloister("tools")
        self.assertEqual(status, 1)
        self.assertIn("needs a login: cloister login s", text)
        self.assertIn("needs a login: cloister login s", self.call()[1])

    def test_with_a_login(self):
        self.logged_in()
        before = self.world.count("/token")
        log = self.path("log")
        self.assertEqual(self.call("--log-level", "debug", "--log-file", log)[0], 0)
        # The token is stored as valid, but the server no longer accepts it.
        self.world.access.clear()
        self.change(obtained=int(time.time()) - 100)
        status, text = self.call("--log-level", "debug", "--log-file", log)
        self.assertEqual((status, "echo: x" in text), (0, True), text)
        self.assertEqual(self.world.count("/token"), before + 1)
        with open(log, encoding="utf-8") as f:
            text = f.read()
        self.assertIn("server", text)
        for _, _, form in self.world.seen:
            for secret in (form.get("code"), form.get("code_verifier"), form.get("refresh_token"), form["_authorization"]):
                self.assertNotIn((secret or "no secret").removeprefix("Bearer "), text)
        for secret in (self.record()["access_token"], self.record()["refresh_token"]):
            self.assertNotIn(secret, text)

    def test_a_token_is_renewed_before_its_end(self):
        """6 s of 20 s remain: the token is renewed when 5 s remain, so that no call is refused."""
        self.logged_in()
        now, before = int(time.time()), self.world.count("/token")
        self.change(obtained=now - 14, expires=now + 6)
        code = "import asyncio\nfor _ in range(14):\n    r = await mcp_s.echo(text='x')\n    await asyncio.sleep(0.2)\nprint(r)"
        status, text = self.cloister("run", "-c", code)
        self.assertEqual((status, "echo: x" in text), (0, True), text)
        self.assertEqual(self.world.count("/token"), before + 1)
        used = [form["_authorization"] for _, path, form in self.world.seen if path == "/mcp"]
        self.assertEqual(used[-2], "Bearer " + self.record()["access_token"])
        self.assertEqual(self.world.refused, 1)  # the first request of the login

    def test_more_scopes(self):
        self.logged_in()
        self.world.forbidden = 'Bearer error="insufficient_scope", scope="files:write"'
        status, text = self.call()
        self.assertEqual(status, 1)
        self.assertIn("cloister login s --scope files:write", text)


class Tls(Login):
    def test_certificates_are_checked(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl is not installed")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", self.path("key"), "-out",
                        self.path("certificate")], check=True, capture_output=True)
        world = World(tls_context(self.path("certificate"), self.path("key")))
        self.addCleanup(world.close)
        self.entry(url=world.url)
        self.refused("SSL|certificate")
        env = {**self.env, "SSL_CERT_FILE": self.path("certificate")}

        def visit(url):
            context = ssl.create_default_context(cafile=self.path("certificate"))
            with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as answer:
                self.assertEqual(answer.status, 200)

        self.logged_in(env=env, visit=visit)


class Command(Login):
    def test_which_server(self):
        self.config({"calendar": {"url": self.world.url}, "local": {"command": "true"}})
        for words, status, text in ((["login"], 2, "needs the NAME"), (["login", "calender"], 1, "did you mean calendar?"),
                                    (["login", "local"], 1, "started by a command"), (["logout", "none"], 1, "no server")):
            done = self.run_cloister(*words, "--config", self.path("config.json"), env=self.env)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr.decode())

    def test_a_login_that_nothing_would_use(self):
        for entry in ({"token": {"file": "/nothing"}}, {"token": {"command": ["false"]}}, {"headers": {"authorization": "Bearer x"}}):
            self.name = "s"
            self.config({"s": {"url": self.world.url, **entry}})
            self.refused("has a token in its entry")
        self.entry()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.refused("as nobody, not as root", env={**self.env, "SUDO_UID": str(nobody.pw_uid)})
        self.logged_in(env={**self.env, "SUDO_UID": str(os.geteuid())})

    def test_ends_by_a_signal(self):
        self.entry()
        process = self.start()
        self.assertTrue(self.authorization_url(process))
        process.terminate()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(self.files(), [])


class ClientCredentials(Login):
    """A client that logs in for itself. tests/unit/test-oauth-assertion.c confirms signatures."""

    def setUp(self):
        super().setUp()
        self.world.clients_alone = True
        for name in ("authorization_endpoint", "registration_endpoint", "code_challenge_methods_supported"):
            del self.world.metadata[name]
        self.world.metadata.update(grant_types_supported=["client_credentials"], token_endpoint_auth_methods_supported=["client_secret_basic"])
        self.env["MY_SECRET"] = "of-a-variable"

    def own(self, **oauth):
        self.entry(**{"grant": "client_credentials", "client_id": "mine", "issuer": self.world.origin, **oauth})

    def key(self, *kind):
        path = self.path("key.pem")
        subprocess.run(["openssl", "genpkey", *kind, "-out", path], check=True, capture_output=True)
        return path

    def test_secret(self):
        self.world.metadata["scopes_supported"] = ["offline_access"]
        self.world.prm["scopes_supported"] = ["a", "b"]
        self.own(client_secret="${MY_SECRET}")
        self.logged_in()
        self.assertEqual(self.shown, "Logged in to s; the login is renewed by itself.\n")
        self.assertIsNone(self.asked)
        request = self.world.last("/token")
        self.assertEqual((request["grant_type"], request["scope"], request["resource"]), ("client_credentials", "a b", self.world.url))
        self.assertEqual(base64.b64decode(request["_authorization"].removeprefix("Basic ")).decode(), "mine:of-a-variable")
        first = self.token()["token"]
        self.assertEqual((self.world.count("/token"), first in self.world.access), (1, True))
        self.assertGreater(self.token()["renew"], 0)
        # Renewed by the same request, also after a refusal; the config is not needed for it.
        self.change(expires=2, obtained=1)
        second = self.token()["token"]
        self.assertNotEqual(first, second)
        self.change(obtained=int(time.time()) - 60)
        third = self.token(status=401)["token"]
        self.assertEqual((len({first, second, third}), self.world.count("/token")), (3, 3))
        self.world.error = "invalid_client"
        self.change(expires=2, obtained=1)
        self.assertIn("cloister login s", self.token()["error"])
        self.world.error = None
        self.assertIn("token", self.token())

    def test_key(self):
        self.world.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        seen = set()
        for kind, alg, size in ((("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "ES256", 64), (("-algorithm", "ED25519"), "EdDSA", 64)):
            self.own(private_key_file=self.key(*kind), key_id="k1")
            self.logged_in()
            request = self.world.last("/token")
            self.assertEqual(request["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
            self.assertIsNone(request["_authorization"])
            header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in request["client_assertion"].split("."))
            self.assertEqual((json.loads(header), len(signature)), ({"alg": alg, "typ": "JWT", "kid": "k1"}, size))
            claims = json.loads(claims)
            self.assertEqual((claims["iss"], claims["sub"], claims["aud"]), ("mine", "mine", self.world.origin))
            self.assertAlmostEqual(claims["exp"], time.time() + 300, delta=60)
            seen.add(claims["jti"])
        self.assertEqual(len(seen), 2)
        with open(self.path("key.pem"), encoding="utf-8") as f:
            self.assertNotIn(f.read().splitlines()[1], str(self.world.seen))

    def test_refusals(self):
        self.own(client_secret="${MY_SECRET}", issuer="https://honest.example")
        self.refused("names another authorization server")
        self.own()
        self.refused("needs a client_secret")
        self.own(private_key_file=self.write("none.pem", "nothing"))
        self.refused("no private key in PEM")
        self.own(private_key_file=self.key("-algorithm", "ED25519", "-aes-128-cbc", "-pass", "pass:x"))
        self.refused("passphrase")
        self.own(private_key_file=self.key("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"))
        self.refused("another kind than P-256")
        self.own(private_key_file=self.key("-algorithm", "ED25519"))
        self.refused("takes no private_key_jwt")
        self.assertNotIn("/token", [path for _, path, _ in self.world.seen])
        self.world.error = "unauthorized_client"
        self.own(client_secret="${MY_SECRET}")
        self.refused("unauthorized_client.*check client_id")
        self.entry(client_id="mine", client_secret="${MY_SECRET}", issuer=self.world.origin)
        self.refused("logs in clients only, not people")
        self.world.metadata.update(World.browser(self.world.origin), token_endpoint_auth_methods_supported=["private_key_jwt"])
        self.entry()
        self.refused("takes clients with a private key only")


if __name__ == "__main__":
    main()
