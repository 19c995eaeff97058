"""The configs of docs/http.md for nginx and Caddy, as they are printed there, before a server with tokens: TLS, streams that are not
buffered, a client that leaves, large bodies, sessions of both eras."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import harness
from test_serve import LEGACY, Connection, Serve

HOST = "mcp.example.org"
TOKEN = "proxy-proxy-proxy-proxy"


def printed(name):
    """The indented block behind the line that names the proxy."""
    with open(os.path.join(harness.SOURCE, "docs", "http.md"), encoding="utf-8") as f:
        text = f.read()
    block = re.search(rf"^{name}:\n\n((?:    .*\n|\n)+)", text, re.MULTILINE)[1]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Tls(Connection):
    """A client that trusts the test's certificate and knows the proxy by its name."""

    def __init__(self, port, certificate):  # pylint: disable=super-init-not-called
        plain = socket.create_connection(("127.0.0.1", port))
        plain.settimeout(harness.PATIENCE)
        self.socket = ssl.create_default_context(cafile=certificate).wrap_socket(plain, server_hostname=HOST)
        self.file = self.socket.makefile("rb")

    def request(self, method, path, headers=(), body=None, host=HOST):
        return super().request(method, path, {"Authorization": f"Bearer {TOKEN}", **dict(headers)}, body, host)


class Proxy:
    """Tests for both proxies."""
    program = None

    def setUp(self):
        harness.Case.setUp(self)
        if not harness.WHOLE:
            self.skipTest("suite slow")
        if not shutil.which(self.program):
            self.skipTest(f"{self.program} is not installed")
        tokens = self.write("tokens", f"proxy {TOKEN}\n")
        os.chmod(tokens, 0o600)
        self.server = self.start("--listen", self.listen(), "--tokens", tokens, "--allow-host", HOST)
        self.certificate, self.key, self.port = self.path("certificate"), self.path("key"), free_port()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", self.key, "-out", self.certificate],
                       check=True, capture_output=True)
        command = self.configure()
        self.log = open(self.path("proxy.log"), "wb")
        self.addCleanup(self.log.close)
        proxy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=self.dir,
                                 env={**os.environ, "HOME": self.dir, "XDG_DATA_HOME": self.dir, "XDG_CONFIG_HOME": self.dir})
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        self.assertTrue(harness.wait_until(self.is_up), open(self.path("proxy.log"), encoding="utf-8").read())

    def is_up(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self, address=None, window=None):
        connection = Tls(self.port, self.certificate)
        self.addCleanup(connection.close)
        return connection

    def test_calls(self):
        c = self.connect()
        self.assertEqual(self.value(c.call("6 * 7")), 42)
        self.assertEqual(self.value(c.call("6 * 8")), 48)
        answer = c.modern("tools/list", Authorization="Bearer wrong-wrong-wrong-wrong").response()
        self.assertEqual(answer.status, 401)
        self.assertIn(f'resource_metadata="https://{HOST}/.well-known/', answer.headers["www-authenticate"])
        self.assertEqual(c.request("GET", "/healthz").response().status, 200)

    def test_other_host(self):
        """The client's Host arrives: another one is refused, by the proxy or by the server."""
        c = self.connect()
        self.assertNotEqual(c.request("GET", "/healthz", host="evil.example").response().body, b"ok\n")

    def test_streams(self):
        c = self.connect()
        began = time.monotonic()
        answer = c.modern("tools/call", {"name": "run_python", "arguments": {"code": "import time\nprint('one')\ntime.sleep(3)\n7"}},
                          meta={"progressToken": "t"}).response()
        events = answer.events()
        self.assertEqual(next(events)[1]["method"], "notifications/progress")
        self.assertLess(time.monotonic() - began, 2.5 * harness.SLOW)
        self.assertEqual(list(events)[-1][1]["result"]["structuredContent"]["value"]["json"], 7)

    def test_a_client_that_leaves(self):
        gone = self.connect().call("done = 1\nimport time\ntime.sleep(50)\ndone = 2", session="p")
        time.sleep(0.5)
        gone.socket.close()
        gone.file.close()
        began = time.monotonic()
        self.assertEqual(self.value(self.connect().call("done", session="p")), 1)
        self.assertLess(time.monotonic() - began, 10 * harness.SLOW)

    def test_a_large_body(self):
        self.assertEqual(self.value(self.connect().call(f"# {'x' * (15 << 20)}\n1 + 1")), 2)

    def test_a_large_answer(self):
        answer = self.connect().call(harness.PICTURES + "for _ in range(4): display(P())").response()
        self.assertGreater(len(answer.body or b"".join(iter(answer.chunk, b""))), 16 << 20)

    def test_legacy(self):
        c = self.connect()
        answer = c.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": LEGACY}).response()
        session = answer.headers["mcp-session-id"]
        stream = self.connect().request("GET", "/mcp", {"Accept": "text/event-stream", "Mcp-Session-Id": session}).response()
        events = stream.events()
        self.assertEqual(next(events)[1], None)
        h = {"Mcp_Session_Id": session}
        c.post({"jsonrpc": "2.0", "id": 3, "method": "resources/list"}, **h).response()
        call = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "print('y' * 100000)"}}}
        c.post(call, **h).response()
        self.assertEqual(next(events)[1]["method"], "notifications/resources/list_changed")
        self.assertEqual(self.connect().request("DELETE", "/mcp", {"Mcp-Session-Id": session}).response().status, 204)

    def test_sse(self):
        stream = self.connect().request("GET", "/sse", {"Accept": "text/event-stream"}).response()
        events = stream.events()
        path = next(events)[1]
        self.assertEqual(self.connect().post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": LEGACY}, path=path).response().status, 202)
        self.assertIn("serverInfo", json.dumps(next(events)[1]))


class Nginx(Proxy, Serve):
    program = "nginx"

    def listen(self):
        self.socket = self.path("cloister.sock")
        return f"unix:{self.socket}"

    def configure(self):
        text = printed("nginx").replace("127.0.0.1:8808", f"unix:{self.socket}")
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.key};")
        folders = "".join(f"{kind}_temp_path {self.dir}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;\n" if harness.ROOT else ""
        config = self.write("nginx.conf", f"{user}daemon off; pid {self.dir}/pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off; {folders}\n{text}\n}}\n")
        return [shutil.which("nginx"), "-e", "stderr", "-p", self.dir, "-c", config]


class Caddy(Proxy, Serve):
    program = "caddy"

    def listen(self):
        self.upstream = free_port()
        return f"127.0.0.1:{self.upstream}"

    def configure(self):
        text = printed("Caddy").replace("127.0.0.1:8808", f"127.0.0.1:{self.upstream}")
        text = text.replace(f"{HOST} {{\n", f"{HOST}:{self.port} {{\n    bind 127.0.0.1\n    tls {self.certificate} {self.key}\n", 1)
        config = self.write("Caddyfile", "{\n    admin off\n    auto_https disable_redirects\n}\n" + text)
        return [shutil.which("caddy"), "run", "--adapter", "caddyfile", "--config", config]


if __name__ == "__main__":
    harness.main()
