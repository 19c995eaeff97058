"""Secrets for HTTPS requests of code: cloister-inject replaces the placeholder by the value, towards one host, and code never has it."""

import base64
import glob
import gzip
import hashlib
import json
import os
import socket
import ssl
import subprocess
import threading
import urllib.parse

import harness
import rawmcp

TOKEN = "ghp_realValue0123456789+/xyz"
KEY = "query value & more"
FORM = 'body "value" é'
OTHER = "the-secret-of-the-other-host"
VALUES = TOKEN, KEY, FORM, OTHER

GUEST = """
import asyncio, base64, http.client, json, os, socket, ssl, subprocess, time, urllib.error, urllib.parse, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
BUNDLE = os.environ["SSL_CERT_FILE"]
T, K, F, O = (os.environ[n] for n in ("TOKEN", "KEY", "FORM", "OTHER"))
def fetch(url, data=None, method=None, **headers):
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return [answer.status, answer.read().decode("latin1")]
    except urllib.error.HTTPError as e:
        return [e.code, e.read().decode()]
    except Exception as e:
        return [0, f"{type(e).__name__}: {e}"]
CONTEXT = ssl.create_default_context()
def tunnel(port, name="localhost"):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=20)
    s.sendall(f"CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n".encode())
    assert b" 200 " in s.recv(4096)
    return CONTEXT.wrap_socket(s, server_hostname=name)
def raw(port, *pieces, name="localhost"):
    with tunnel(port, name) as t:
        for piece in pieces:
            t.sendall(piece if isinstance(piece, bytes) else piece.encode("latin1"))
            time.sleep(0.005)
        got = b""
        try:
            while data := t.recv(65536):
                got += data
        except OSError as e:
            got += type(e).__name__.encode()
        return got.decode("latin1")
"""

# Searches the memory of the session for values that the code does not contain.
SCAN = """
import re
def scan(reversed_values):
    values = [v[::-1].encode() for v in reversed_values]
    found = []
    for line in open("/proc/self/maps"):
        a, b = (int(x, 16) for x in line.split()[0].split("-"))
        if " r" not in line or "[v" in line: continue
        try:
            with open("/proc/self/mem", "rb", 0) as f:
                f.seek(a)
                data = f.read(b - a)
        except OSError:
            continue
        for i, v in enumerate(values):
            # reversed() made the value itself in this process: one copy, in `values`
            found += [i] * data.count(v)
    return found
"""


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


class Host:
    """An HTTPS server. It keeps what it got, and answers by the path: /echo with all of the request, the others as a hostile server does."""

    def __init__(self, tls):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.tls = tls
        self.seen = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        peer.settimeout(30)
        # Without it, an answer may still wait for its way when the connection is closed with bytes that were not read.
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer:
            try:
                if self.tls:
                    peer = self.tls.wrap_socket(peer, server_side=True)
                while self.answer(peer):
                    pass
            except (OSError, ValueError):
                pass

    def read(self, peer):
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65536)
            if not more:
                return None, None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        if head.startswith(b"POST /early "):
            peer.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
            return None, None
        length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while len(body) < (length[0] if length else 0):
            body += peer.recv(65536)
        self.seen.append((head, body))
        return head, body

    def answer(self, peer):
        head, body = self.read(peer)
        if head is None:
            return False
        path = head.split(b" ", 2)[1].split(b"?")[0].decode()
        token = next((line.split(b": ", 1)[1] for line in head.split(b"\r\n") if line.lower().startswith(b"x-token: ")), b"none")
        text = json.dumps({"head": head.decode("latin1"), "body": body.decode()}).encode()
        kind = path.removeprefix("/")
        if kind == "echo":
            forms = [token, urllib.parse.quote(token, safe="").encode(), *(base64.b64encode(b"q" * i + token + b"tail") for i in range(3))]
            peer.sendall(b"HTTP/1.1 200 OK\r\nX-Got: " + token + b"\r\nContent-Length: %d\r\n\r\n" % len(text + b"|".join(forms)) + text + b"|".join(forms))
        elif kind == "split":
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"<" + token[:7], token[7:9], token[9:] + b">" + token[:5], b"." + token))
        elif kind == "bytes":
            peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            for i in range(len(token)):
                peer.sendall(token[i : i + 1])
            peer.unwrap()
            return False
        elif kind == "big":
            n = 1 << 20
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + b"gh" * (n // 2))
        else:
            peer.sendall(RAW[kind].replace(b"TOKEN", token))
            return kind == "interim"
        return True

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


OK = b"HTTP/1.1 200 OK\r\n"
RAW = {
    "gzip": OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(TOKEN.encode()),
    "coding": OK + b"Transfer-Encoding: gzip\r\nConnection: close\r\n\r\nTOKEN",
    "both": OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"abc"),
    "fold": OK + b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    "bare": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nTOKEN",
    "huge": OK + b"X-A: " + b"a" * 200000 + b"\r\n\r\n",
    "short": OK + b"Content-Length: 100\r\n\r\nTOKEN",
    "none": b"",
    "junk": b"TOKEN TOKEN\r\n\r\n",
    "behind": OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nTOKEN",
    "trailer": OK + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2;x=y\r\nok\r\n0\r\nX-T: TOKEN\r\n\r\n",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: TOKEN\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok",
}
REFUSED = "gzip", "coding", "both", "fold", "bare", "switch", "huge", "none", "junk"


class Case(harness.Case):
    """Four secrets: one for headers, one for the query and one for the body of requests to one host, one for another host."""

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        self.authority("ca")
        self.tls = self.certificates()
        self.host, self.second = self.start(self.tls), self.start(self.tls)
        self.false = []  # hosts whose certificate is not valid
        self.plain = self.start(None)

    def start(self, tls):
        host = Host(tls)
        self.addCleanup(host.close)
        return host

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.dir)

    CURVE = "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"

    def authority(self, name):
        self.openssl("req", "-x509", *self.CURVE, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN=Test authority {name}")

    def certificates(self, authority="ca", host="localhost"):
        name = f"{authority}-{host}"
        self.openssl("req", *self.CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={host}")
        self.write("ext", f"subjectAltName=DNS:{host}\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "ext")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        return context

    def secrets(self):
        to = [f"localhost:{host.port}" for host in (self.host, *self.false)]
        return {
            "TOKEN": {"from": {"env": "T_TOKEN"}, "to": to, "like": "ghp_XXXXXXXXXXXXXXXX1111"},
            "KEY": {"from": {"env": "T_KEY"}, "to": to, "in": ["query"]},
            "FORM": {"from": {"env": "T_FORM"}, "to": to, "in": ["body"]},
            "OTHER": {"from": {"env": "T_OTHER"}, "to": [f"localhost:{self.second.port}"], "in": ["header", "query", "body"]},
        }

    def serve(self, environment=None, **keys):
        ports = [host.port for host in (self.host, self.second, self.plain, *self.false)]
        allow = [f"{name}:{port}" for name in ("localhost", "127.0.0.1") for port in ports]
        config = self.config(profiles={"web": {"network": {"allow": allow}, "secrets": self.secrets(), **keys}}, profile="web")
        env = harness.environment(SSL_CERT_FILE=self.path("ca.pem"), T_TOKEN=TOKEN, T_KEY=KEY, T_FORM=FORM, T_OTHER=OTHER, **environment or {})
        server = rawmcp.RawServer("--log-level", "info", "--config", config, env=env, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        self.ask(server, GUEST)
        return server

    def ask(self, server, code, **arguments):
        self.cell = server.cell(code, **arguments)
        self.assertEqual(self.cell["status"], "ok", str(self.cell) + server.log())
        self.check_absent(json.dumps(self.cell, ensure_ascii=False))
        return self.cell.get("value", {}).get("json")

    def check_absent(self, text):
        for value in VALUES:
            for form in (value, json.dumps(value)[1:-1], urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)):
                self.assertNotIn(form, text)
            for i in range(3):
                self.assertNotIn(base64.b64encode(b"q" * i + value.encode()).decode()[4:-8], text)

    def url(self, path, host=None):
        return f"https://localhost:{(host or self.host).port}/{path}"


class Inject(Case):
    def test_requests(self):
        server = self.serve()
        echo = self.url("echo")
        # Headers, Basic credentials, query, body in its three encodings; the same text elsewhere is refused.
        basic = 'base64.b64encode(f"me:{T}".encode()).decode()'
        status, text = self.ask(server, f'fetch("{echo}?k=" + K, **{{"X-Token": T, "Authorization": "Basic " + {basic}, "Accept-Encoding": "gzip", "Range": "bytes=0-3"}})')
        self.assertEqual(status, 200, text)
        head = self.host.seen[-1][0].decode()
        self.assertIn(f"\r\nX-token: {TOKEN}\r\n".lower(), head.lower())
        self.assertIn(TOKEN, head)
        self.assertIn("Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode(), head)
        self.assertIn("?k=" + urllib.parse.quote(KEY, safe="") + " ", head)
        self.assertIn("\r\nAccept-Encoding: identity\r\n", head)
        self.assertNotIn("gzip", head)
        self.assertNotIn("Range", head)
        self.assertIn("ghp_", text)
        for type_, body, expected in (("application/json", 'json.dumps({"p": F})', json.dumps({"p": FORM}, ensure_ascii=False)),
                                      ("application/x-www-form-urlencoded", '"p=" + F', "p=" + urllib.parse.quote(FORM, safe="")),
                                      ("text/plain", '"<" + F + ">" + F', f"<{FORM}>{FORM}")):
            self.assertEqual(self.ask(server, f'fetch("{echo}", ({body}).encode(), **{{"Content-Type": "{type_}"}})')[0], 200)
            self.assertEqual(self.host.seen[-1][1].decode(), expected)
        self.assertEqual(self.ask(server, f'fetch("{self.url("echo", self.second)}", **{{"X-Token": O}})')[0], 200)
        self.assertIn(OTHER, self.second.seen[-1][0].decode())
        seen = len(self.host.seen), len(self.second.seen), len(self.plain.seen)
        for code, why in ((f'fetch("{echo}", **{{"X-A": O}})', 'got the placeholder of OTHER, and is not in "to"'),
                          (f'fetch("{self.url("echo", self.second)}?a=" + T)', "got the placeholder of TOKEN"),
                          (f'fetch("{self.url("echo", self.second)}", ("x" * 70000 + K).encode())', "got the placeholder of KEY"),
                          (f'fetch("{echo}?k=" + T)', "got the placeholder of TOKEN in the query"),
                          (f'fetch("{self.url("")}" + T)', "in the path"),
                          (f'fetch("{echo}", T.encode())', "got the placeholder of TOKEN in the body"),
                          (f'fetch("http://localhost:{self.host.port}/echo")', "TLS"),
                          (f'fetch("http://localhost:{self.plain.port}/echo", **{{"X-A": T}})', "")):
            status, text = self.ask(server, code)
            self.assertEqual(status, 403, (code, text))
            self.assertIn(why, text)
        self.assertIn("placeholder of a secret without TLS", self.cell["notice"])
        # In a body without TLS, it ends the connection.
        self.assertEqual(self.ask(server, f'fetch("http://localhost:{self.plain.port}/echo", b"a" * 100000 + K.encode())[0]'), 0)
        self.assertEqual((len(self.host.seen), len(self.second.seen)), seen[:2])
        self.assertFalse([s for s in self.plain.seen if b"cloister-" in s[1]])
        # The control without a placeholder.
        self.assertEqual(self.ask(server, f'fetch("http://localhost:{self.plain.port}/echo", b"a" * 100000)[0]'), 200)
        # Another session has other placeholders.
        mine = self.ask(server, "T")
        self.ask(server, GUEST, session="two")
        self.assertNotEqual(self.ask(server, "T", session="two"), mine)
        status, text = self.ask(server, f'fetch("{echo}", **{{"X-A": "{mine}"}})', session="two")
        self.assertEqual((status, "placeholder of another session" in text), (403, True), text)
        # A branch has those of the session that it began with, whose memory it has.
        self.assertEqual(self.ask(server, f'fetch("{echo}", **{{"X-Token": T}})[0]', session="three", **{"from": "default"}), 200)
        # The value is neither in memory nor in files nor in the environment; the control is found.
        found = self.ask(server, SCAN + f"scan({[v[::-1] for v in VALUES]!r})")
        self.assertLessEqual(len(found), 2 * len(VALUES), found)
        self.assertEqual(self.ask(server, f'[v for v in os.environ.values() if any(v == r[::-1] for r in {[v[::-1] for v in VALUES]!r})]'), [])
        server.close()
        self.check_absent(server.log())
        self.assertIn("got the placeholder of OTHER", server.log())

    @harness.once
    def test_what_hosts_return(self):
        server = self.serve()
        # In each form, in headers, across chunks, byte by byte.
        self.ask(server, f'A = dict(**{{"X-Token": T}})\nanswer = urllib.request.urlopen(urllib.request.Request("{self.url("echo")}", None, A))\ntext = answer.read().decode()')
        self.assertEqual(self.ask(server, '[answer.headers["X-Got"] == T, text.count(T), len(text)]')[:2], [True, 6])
        self.assertEqual(self.ask(server, f'fetch("{self.url("split")}", **A)[1] == "<" + T + ">ghp_r." + T'), True)
        self.assertEqual(self.ask(server, f'fetch("{self.url("bytes")}", **A)[1] == T'), True)
        self.assertEqual(self.ask(server, f'[len(fetch("{self.url("big")}", **A)[1]) for _ in range(2)]'), [1 << 20, 1 << 20])
        for kind in REFUSED:
            status, text = self.ask(server, f'fetch("{self.url(kind)}", **A)')
            self.assertEqual((kind, status), (kind, 502), text)
            self.assertIn(f"localhost:{self.host.port} ", text)
        # Half a response is not taken for a whole one; what comes behind one is dropped.
        self.assertEqual(self.ask(server, f"""
try: urllib.request.urlopen(urllib.request.Request("{self.url("short")}", None, A)).read()
except http.client.IncompleteRead as e: part = e.partial.decode()
part == T"""), True)
        for kind in "behind", "trailer", "interim":
            self.assertEqual(self.ask(server, f'fetch("{self.url(kind)}", **A)'), [200, "ok"], kind)
        server.close()
        self.check_absent(server.log())

    @harness.once
    def test_false_hosts(self):
        """A host with a certificate of another authority, or for another name, gets no request. The control: one with a right one."""
        self.authority("other")
        self.false = [self.start(self.certificates("other")), self.start(self.certificates(host="other.example"))]
        server = self.serve()
        for host in self.false:
            status, text = self.ask(server, f'fetch("{self.url("echo", host)}", **{{"X-Token": T}})')
            self.assertEqual(status, 502, text)
            self.assertIn("has a certificate that is not valid for it", text)
            self.assertEqual(host.seen, [])
        self.assertEqual(self.ask(server, f'fetch("{self.url("echo")}", **{{"X-Token": T}})[0]'), 200)
        self.assertEqual(len(self.host.seen), 1)
        server.close()

    @harness.once
    def test_journal(self):
        """Each request is recorded before it is sent, without query, headers and body, and so is its end."""
        for sync in "none", "each":
            state = self.path("state-" + sync)
            server = self.serve(environment={"XDG_STATE_HOME": state}, journal={"sync": sync, "arguments": "full"}, rules=[{"deny": "@network.request", "when": {"/path": {"prefix": "/no"}}}])
            expected = []
            for path, code, outcome in (("echo", 200, "committed"), ("split", 200, "committed"), ("gzip", 502, "in doubt"), ("short", 0, "in doubt")):
                self.assertEqual(self.ask(server, f'fetch("{self.url(path)}?k=" + K, **{{"X-Token": T}})[0]'), code)
                expected.append(("/" + path, outcome))
            self.assertEqual(self.ask(server, f'fetch("{self.url("echo")}?k=" + T)[0]'), 403)
            self.assertEqual(self.ask(server, f'fetch("{self.url("no")}")[0]'), 403)
            self.assertEqual(self.ask(server, f'c = http.client.HTTPSConnection("127.0.0.1", 3128, context=CONTEXT); c.set_tunnel("localhost", {self.host.port}); [c.request("GET", "/echo") or len(c.getresponse().read()) > 0 for _ in range(3)]'), [True] * 3)
            server.close()
            (name,) = glob.glob(os.path.join(state, "cloister", "journal", "*.jsonl"))
            with open(name, encoding="utf-8") as f:
                text = f.read()
            self.check_absent(text)
            self.assertNotIn("?", text)
            records = [json.loads(line) for line in text.splitlines()]
            calls = {r["n"]: r for r in records if r["kind"] == "call"}
            answers = {r["of"]: r for r in records if r["kind"] == "answer"}
            self.assertEqual([(r["server"], r["tool"], r["session"]) for r in calls.values()], [("@network", "request", "default")] * 8)
            self.assertEqual([(json.loads(calls[n]["arguments"])["path"], answers[n]["outcome"]) for n in calls], [*expected, ("/echo", "not sent"), *[("/echo", "committed")] * 3])
            self.assertGreater(answers[min(answers)]["bytes"], 100)
            (denied,) = (r for r in records if r["kind"] == "denied")
            self.assertIn("a rule denies", denied["why"])

    @harness.once
    def test_hostile_clients(self):
        server = self.serve(rules=[{"deny": "@network.request", "when": {"/path": {"prefix": "/no"}}}, {"ask": "@network.request", "when": {"/method": {"equals": "DELETE"}}}])
        port, seen = self.host.port, len(self.host.seen)
        host = f"Host: localhost:{port}\\r\\n"
        get = f"GET /echo HTTP/1.1\\r\\n{host}"
        cases = {
            "CL and TE": (400, f"POST /echo HTTP/1.1\\r\\n{host}Content-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"),
            "two CL": (400, f"POST /echo HTTP/1.1\\r\\n{host}Content-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab"),
            "TE, not chunked": (501, f"POST /echo HTTP/1.1\\r\\n{host}Transfer-Encoding: gzip, chunked\\r\\n\\r\\n0\\r\\n\\r\\n"),
            "obs-fold": (400, get + "X-A: a\\r\\n b\\r\\n\\r\\n"),
            "bare LF": (400, f"GET /echo HTTP/1.1\\n{host}\\n"),
            "chunk extension": (400, f"POST /echo HTTP/1.1\\r\\n{host}Transfer-Encoding: chunked\\r\\n\\r\\n1;a=b\\r\\na\\r\\n0\\r\\n\\r\\n"),
            "trailer": (400, f"POST /echo HTTP/1.1\\r\\n{host}Transfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\nX-A: b\\r\\n\\r\\n"),
            "HTTP/2": (400, "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
            "upgrade": (400, get + "Connection: Upgrade\\r\\nUpgrade: h2c\\r\\n\\r\\n"),
            "other Host": (403, "GET /echo HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n"),
            "other port": (403, "GET /echo HTTP/1.1\\r\\nHost: localhost:1\\r\\n\\r\\n"),
            "two Hosts": (400, get + host + "\\r\\n"),
            "no Host": (400, "GET /echo HTTP/1.1\\r\\n\\r\\n"),
            "absolute target": (400, f"GET http://evil.example/ HTTP/1.1\\r\\n{host}\\r\\n"),
            "CONNECT": (400, f"CONNECT evil.example:443 HTTP/1.1\\r\\n{host}\\r\\n"),
            "huge header": (431, get + "X-A: " + "a" * 20000 + "\\r\\n\\r\\n"),
            "large body": (413, f"POST /echo HTTP/1.1\\r\\n{host}Content-Length: 1048577\\r\\n\\r\\n"),
            "name": (403, get + "{T}: a\\r\\n\\r\\n"),
            "rule": (403, f"GET /no/a HTTP/1.1\\r\\n{host}\\r\\n"),
            "rule that asks": (403, f"DELETE /echo HTTP/1.1\\r\\n{host}\\r\\n"),
        }
        code = "def status(text): return text[9:12]\n[status(r) for r in (" + ", ".join(f'raw({port}, f"{text}")' for _, text in cases.values()) + ")]"
        self.assertEqual(dict(zip(cases, self.ask(server, code))), {name: str(status) for name, (status, _) in cases.items()}, server.log())
        self.assertEqual(len(self.host.seen), seen)
        # The controls: a request in small pieces, two in one connection, one that waits for 100, chunks.
        end = "Connection: close\\r\\n\\r\\n"
        self.assertEqual(self.ask(server, f'raw({port}, *f"{get}X-Token: {{T}}\\r\\n{end}")[9:12]'), "200")
        self.assertEqual(self.ask(server, f'raw({port}, "{get}\\r\\n{get}{end}").count("HTTP/1.1 200 OK")'), 2)
        post = f"POST /echo HTTP/1.1\\r\\n{host}"
        self.assertIn("HTTP/1.1 100 Continue", self.ask(server, f'raw({port}, "{post}Expect: 100-continue\\r\\nContent-Length: 2\\r\\n{end}", "ab")'))
        self.assertEqual(self.host.seen[-1][1], b"ab")
        self.assertEqual(self.ask(server, f'raw({port}, f"{post}Transfer-Encoding: chunked\\r\\n{end}" + "".join("1\\r\\n" + c + "\\r\\n" for c in F) + "0\\r\\n\\r\\n")[9:12]'), "200")
        self.assertEqual(self.host.seen[-1][1].decode(), FORM)
        self.assertIn(b"Content-Length: ", self.host.seen[-1][0])
        # Bytes that are not TLS, another name, HTTP/2 by ALPN, an old version, many connections that send nothing.
        code = f"""
def attempt(name="localhost", **options):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=20)
    s.sendall(b"CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n"); s.recv(4096)
    if options.get("plain"):
        s.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        return s.recv(100).decode("latin1")[:8]
    context = ssl.create_default_context()
    context.check_hostname = False
    if options.get("alpn"): context.set_alpn_protocols(["h2"])
    if options.get("old"):
        context.set_ciphers("ALL:@SECLEVEL=0"); context.minimum_version = ssl.TLSVersion.TLSv1; context.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        return context.wrap_socket(s, server_hostname=name).version()
    except OSError as e:
        return "refused"
idle = [tunnel({port}) for _ in range(20)]
[attempt(), attempt("other.example"), attempt(alpn=True), attempt(old=True), attempt(plain=True)[:4] != "HTTP"]"""
        self.assertEqual(self.ask(server, code), ["TLSv1.3", "refused", "refused", "refused", True])
        self.assertEqual(self.ask(server, f'fetch("{self.url("echo")}")[0]'), 200)
        # Bodies that never end: those of all requests together have a bound. The control: three of them.
        code = f"""
import time
def begin(n, seconds):
    all = [tunnel({port}) for _ in range(n)]
    for t in all: t.sendall(b"POST /echo HTTP/1.1\\r\\n{host}Content-Length: 1048576\\r\\n\\r\\n" + b"a" * 1048575)
    end, answers = time.monotonic() + seconds, []
    while not answers and time.monotonic() < end:
        for t in all: # any of them may be the one that is read last
            t.settimeout(0.05)
            try: answers.append(t.recv(12).decode())
            except TimeoutError: pass
    [t.close() for t in all]
    return answers
[begin(5, 20), begin(3, 1)]"""
        self.assertEqual(self.ask(server, code), [["HTTP/1.1 503"], []])
        server.close()
        self.check_absent(server.log())

    def test_names_and_process(self):
        server = self.serve()
        # The authority's certificate is good for the hosts only.
        self.ask(server, 'pem = ssl.PEM_cert_to_DER_cert(open(BUNDLE).read()[open(BUNDLE).read().rindex("-----BEGIN"):])')
        der = bytes(self.ask(server, "list(pem)"))
        text = subprocess.run(["openssl", "x509", "-inform", "der", "-noout", "-text"], input=der, check=True, capture_output=True).stdout.decode()
        self.assertRegex(text, "Name Constraints: critical\\s+Permitted:\\s+DNS:localhost\\s+DNS:localhost\\s+Excluded:\\s+IP:0.0.0.0/0.0.0.0")
        self.assertIn("CA:TRUE, pathlen:0", text)
        # The process has no network, no privilege, no descriptor of a file, and no other process may read it.
        (pid,) = [p for p, name in harness.descendants(server.process.pid).items() if name == "cloister-inject"]
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            status = f.read()
        self.assertIn("CapEff:\t0000000000000000", status)
        self.assertIn("NoNewPrivs:\t1", status)
        self.assertIn("Seccomp:\t2", status)
        memory = int(status.split("VmRSS:")[1].split()[0])
        self.assertLessEqual(memory, 12 * 1024 * harness.SANITIZED)
        # Its end: requests fail, other hosts work, the next session has a new one.
        os.kill(pid, 9)
        self.assertTrue(harness.wait_until(lambda: "the process that reads requests of profile" in server.log()), server.log())
        status, text = self.ask(server, f'fetch("{self.url("echo")}", **{{"X-Token": T}})')
        self.assertIn("502", str(status) + text)
        self.assertIn("has ended: reset the session", text)
        self.assertEqual(self.ask(server, f'fetch("http://localhost:{self.plain.port}/echo")[0]'), 200)
        self.assertEqual(server.cell("1", reset=True)["status"], "ok")
        server.close()


UPLOAD = """
import hashlib
SIZE = 10 << 20
DATA = bytes(range(256)) * (SIZE // 256)
def pieces():
    for i in range(0, SIZE, 100000): yield DATA[i : i + 100000]
"""


class Receiver(Host):
    """Takes bodies as they come, also in chunks, and answers with their length and hash. /early answers after the first part."""

    def __init__(self, tls):
        self.parts = []  # bytes of each body so far
        self.n_begun = self.n_ended = 0  # connections
        super().__init__(tls)

    def serve(self, peer):
        self.n_begun += 1
        super().serve(peer)
        self.n_ended += 1

    def answer(self, peer):
        with peer.makefile("rb") as stream:
            head = b""
            while (line := stream.readline()) != b"\r\n":
                if not line:
                    return False
                head += line
            body = bytearray()
            self.parts.append(body)
            self.seen.append((head, None))
            length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            if head.startswith(b"POST /early "):
                body += stream.read(20000)
                peer.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
                return False
            size = length[0] if length else None if b"chunked" in head else 0
            while size is None and (n := int(stream.readline(), 16)):
                body += stream.read(n)
                stream.readline()
            if size is None:
                stream.readline()
            while size and len(body) < size:
                got = stream.read1(65536)
                if not got:
                    return False
                body += got
            self.seen[-1] = head, bytes(body)
        text = json.dumps([len(body), hashlib.sha256(body).hexdigest()]).encode()
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        return True


class Uploads(Case):
    """A body of a request into which no value may be put is passed on while it arrives."""

    def setUp(self):
        super().setUp()
        self.second = Receiver(self.tls)
        self.addCleanup(self.second.close)

    def secrets(self):
        return {**super().secrets(), "OTHER": {"from": {"env": "T_OTHER"}, "to": [f"localhost:{self.second.port}"]}}

    @staticmethod
    def peak(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return int(f.read().split("VmHWM:")[1].split()[0])

    @harness.once
    def test_uploads(self):
        server = self.serve(rules=[{"deny": "@network.request", "when": {"/path": {"prefix": "/no"}}}])
        url = self.url("", self.second)
        self.ask(server, UPLOAD)
        expected = self.ask(server, "[SIZE, hashlib.sha256(DATA).hexdigest()]")
        (pid,) = [p for p, name in harness.descendants(server.process.pid).items() if name == "cloister-inject"]
        self.assertEqual(self.ask(server, f'fetch("{url}", DATA[:2000000], **{{"X-Token": O}})[0]'), 200)
        before = self.peak(pid)
        # As one, and in chunks; the value is in the head.
        for data in "DATA", "pieces()":
            status, text = self.ask(server, f'fetch("{url}", {data}, **{{"X-Token": O, "Content-Type": "a/b"}})')
            self.assertEqual((status, json.loads(text)), (200, expected), text)
        heads = [head.decode().lower() for head, _ in self.second.seen[-2:]]
        self.assertIn(f"x-token: {OTHER}\r\n".lower(), heads[0])
        self.assertEqual([(f"content-length: {10 << 20}\r\n" in head, "transfer-encoding: chunked\r\n" in head) for head in heads], [(True, False), (False, True)])
        self.assertLessEqual(self.peak(pid) - before, 1024 * harness.SANITIZED, "the process has kept more than a window of the body")
        # The next request has the same connection.
        raw = f"Host: localhost:{self.second.port}\\r\\n"
        post = f"POST /a HTTP/1.1\\r\\n{raw}Content-Length: 00200000\\r\\n\\r\\n"
        self.assertEqual(self.ask(server, f'raw({self.second.port}, "{post}" + "a" * 200000, "GET /b HTTP/1.1\\r\\n{raw}Connection: close\\r\\n\\r\\n").count("HTTP/1.1 200 OK")'), 2)
        self.assertIn(b"Content-Length: 200000\r\n", self.second.seen[-2][0])
        # A placeholder in a body ends the request before the host has the last bytes of it; so does one that two pieces have.
        for name, at in (("O", 4000000), ("T", 3 * 16384 - 9), ("O", (10 << 20) - 24), ("K", 40000)):
            n = len(self.second.parts)
            self.ask(server, f"BAD = bytearray(DATA); BAD[{at}:{at} + len({name})] = {name}.encode()")
            status, text = self.ask(server, f'fetch("{url}", bytes(BAD))')
            self.assertEqual((status, "got the placeholder of" in text), (403, True), text)
            parts = self.second.parts[n:]
            self.assertTrue(all(len(part) <= at for part in parts), "the host got the placeholder")
            self.assertEqual([body for _, body in self.second.seen[n:]], [None] * len(parts), "the host took the request for a whole one")
            self.assertTrue(parts or at < 1 << 20)
        # Rules decide before a byte is sent; the host may answer before it has all; the control is a request that passes.
        n = len(self.second.seen)
        status, text = self.ask(server, f'fetch("{url}no", DATA)')
        self.assertEqual((status, "a rule denies" in text, len(self.second.seen)), (403, True, n), text)
        status, text = self.ask(server, f'fetch("{url}early", DATA)')
        self.assertEqual((status, text), (413, "too large"))
        self.assertLess(len(self.second.parts[-1]), 1 << 20)
        # Code that ends in the middle of its body: the host gets no end. Wrong chunks behind the first part: the same.
        for rest in '"a" * 100000', '"186a0\\r\\n" + "a" * 100000 + "\\r\\n5;x=y\\r\\nabcde\\r\\n0\\r\\n\\r\\n"':
            n = len(self.second.seen)
            framing = "Transfer-Encoding: chunked" if "186a0" in rest else "Content-Length: 10485760"
            self.ask(server, f't = tunnel({self.second.port}); t.sendall(("POST /cut HTTP/1.1\\r\\n{raw}{framing}\\r\\n\\r\\n" + {rest}).encode())')
            self.assertTrue(harness.wait_until(lambda n=n: [b"/cut " in head for head, _ in self.second.seen[n:]] == [True]), self.second.seen[n:])
            self.ask(server, "t.close()")
            self.assertTrue(harness.wait_until(lambda: self.second.n_ended == self.second.n_begun))
            self.assertIsNone(self.second.seen[-1][1])
        self.assertEqual(self.ask(server, f'fetch("{url}", DATA)[0]'), 200)
        server.close()
        self.check_absent(server.log())


class Configs(harness.Case):
    @harness.once
    def test_configs(self):
        ok = {"from": {"env": "X"}, "to": ["a.example"]}
        network = {"allow": ["a.example", "*.b.example:8443"]}
        for secret, why in (({**ok, "arguments": {"m.t": ["/a"]}}, "exactly one of arguments and to"),
                            ({"from": {"env": "X"}}, "exactly one of arguments and to"),
                            ({**ok, "to": ["1.2.3.4"]}, "a name, not an address"),
                            ({**ok, "to": ["*.example"]}, "a name, not an address"),
                            ({**ok, "to": ["a.example:80"]}, "for HTTPS"),
                            ({**ok, "to": []}, "to"),
                            ({**ok, "to": ["c.example"]}, 'add "c.example:443" to network.allow'),
                            ({**ok, "in": ["cookie"]}, "in: \"cookie\" must be"),
                            ({**ok, "like": "ghp_XXX"}, "like must be"),
                            ({**ok, "like": "a b"}, "like must be"),
                            ({"from": {"env": "X"}, "arguments": {"m.t": ["/a"]}, "like": "ghp_XXXXXXXXXX"}, "in and like need to")):
            run = self.run_cloister("run", "--config", self.config(network=network, secrets={"S": secret}), "-c", "1")
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(why, run.stderr.decode())
            self.assertEqual(run.stderr.decode().count("\n"), 1, run.stderr)
        run = self.run_cloister("run", "--config", self.config(network=network, secrets={"S": ok}), "-c", "1")
        self.assertEqual(run.stderr.decode().count("secret S: the variable X is not set"), 1, run.stderr)


if __name__ == "__main__":
    harness.main()
