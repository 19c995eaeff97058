"""A session with a network: the hosts that it reaches through its proxy, the refusals, and the reports about both."""

import contextlib
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest

import harness
import rawmcp

GUEST = """
import json, os, socket, ssl, time, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
def connect(timeout=10):
    return socket.create_connection(("127.0.0.1", 3128), timeout=timeout)
def rest(s):
    got = bytearray()
    try:
        while chunk := s.recv(65536):
            got += chunk
    except ConnectionError:
        pass
    return bytes(got)
def raw(data):
    with connect() as s:
        s.sendall(data if isinstance(data, bytes) else data.encode("latin1"))
        return rest(s).decode("latin1")
def status(data):
    return raw(data).split("\\r\\n", 1)[0][9:]
def tunnel(host, port):
    s = connect()
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        byte = s.recv(1)
        if not byte:
            break
        head += byte
    return s, head.decode("latin1").split("\\r\\n", 1)[0][9:]
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=10).read().decode()
    except Exception as e:
        return f"{type(e).__name__}: {e}"
"""


class Far:
    """A server that keeps the data it received, one entry per connection. The path selects its answer."""

    def __init__(self, tls=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.tls = tls
        self.seen = []
        self.ended = 0
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        place = len(self.seen)
        self.seen.append(b"")
        peer.settimeout(20)
        with peer:
            try:
                if self.tls:
                    peer = self.tls.wrap_socket(peer, server_side=True)
                self.answer(peer, place)
            except OSError:
                pass
            self.ended += 1

    def answer(self, peer, place):
        while b"\r\n\r\n" not in self.seen[place]:
            data = peer.recv(65536)
            if not data:
                return
            self.seen[place] += data
        path = self.seen[place].split(b" ", 2)[1].decode()
        if path.startswith("/big/"):
            n = int(path[5:])
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n)
            for _ in range(n // 65536 + 1):
                peer.sendall(b"x" * min(n, 65536))
        elif path.startswith("/to/"):
            peer.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " + bytes.fromhex(path[4:]) + b"\r\n\r\n")
        else:
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            if self.tls:
                return
            peer.shutdown(socket.SHUT_WR)
            # Data after the request is kept, too.
            while data := peer.recv(65536):
                self.seen[place] += data

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


class Network(harness.Case):
    def far(self, tls=None):
        far = Far(tls)
        self.addCleanup(far.close)
        return far

    def certificate(self):
        """Returns a server's TLS context with a new certificate for localhost, and the certificate."""
        key, pem = self.path("key.pem"), self.path("cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", pem,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:other.example"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        with open(pem, encoding="ascii") as f:
            return context, f.read()

    def serve(self, allow, agent=None, **network):
        profiles = {"net": {"network": {"allow": allow, **network}}, "other": {"agent": True, **(agent or {})}}
        server = rawmcp.RawServer("--log-level", "info", "--config", self.config(profiles=profiles, profile="net"))
        self.addCleanup(server.free)
        server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}})
        server.notify("notifications/initialized")
        self.ask(server, GUEST)
        return server

    def ask(self, server, code, **arguments):
        self.cell = server.cell(code, **arguments)
        self.assertEqual(self.cell["status"], "ok", self.cell)
        return self.cell.get("value", {}).get("json")

    def local(self, far, **network):
        return self.serve([f"localhost:{far.port}", f"127.0.0.1:{far.port}"], **network)


class Reached(Network):
    def test_requests_and_what_is_told(self):
        far = self.far()
        server = self.local(far)
        self.assertEqual(self.ask(server, f'fetch("http://localhost:{far.port}/a?b=c")'), "hello")
        (told,) = self.cell["network"]
        self.assertEqual((told["host"], told["port"], told["denied"], told["requests"]), ("localhost", far.port, 0, 1))
        self.assertGreater(told["bytes_in"], 50)
        self.assertGreater(told["bytes_out"], 50)
        self.assertEqual(self.cell["receipt"]["network"], "allow")
        self.assertNotIn("notice", self.cell)
        (head,) = far.seen
        self.assertIn(f"\r\nHost: localhost:{far.port}\r\n".encode(), head)
        self.assertIn(b"GET /a?b=c HTTP/1.1\r\n", head)
        uri = f"cloister://sessions/default/cells/{self.cell['receipt']['cell']}/receipt"
        receipt = json.loads(server.ask("resources/read", {"uri": uri})["contents"][0]["text"])
        self.assertEqual((receipt["network_in_bytes"], receipt["network_out_bytes"], receipt["network_denied"]), (told["bytes_in"], told["bytes_out"], 0))
        self.assertEqual(receipt["hosts"], [told])
        # A cell without requests gets no report.
        self.ask(server, "1 + 1")
        self.assertNotIn("network", self.cell)
        # A refusal is reported in the exception, and with the setting's name in the result.
        text = 'evil.example:443 is not in network.allow of profile "net"'
        self.assertIn(text, self.ask(server, 'fetch("https://evil.example/")'))
        self.assertEqual(self.cell["notice"], text)
        self.assertEqual(self.cell["network"], [{"host": "evil.example", "port": 443, "bytes_in": 0, "bytes_out": 0, "requests": 0, "denied": 1}])
        # A redirect causes a new request.
        to = f"http://localhost:{far.port}/to/{b'http://evil.example/x'.hex()}"
        self.assertIn("403", self.ask(server, f"fetch({to!r})"))
        self.assertIn("evil.example:80 is not in network.allow", self.cell["notice"])
        # A profile without a network has none, as before.
        cell = server.cell("import socket\nsocket.socket()", session="none", profile="other")
        self.assertEqual(cell["error"]["type"], "PermissionError")
        self.assertNotIn("network", cell)
        self.assertEqual(cell["receipt"]["network"], "none")

    def test_hosts_that_the_profile_loses(self):
        """A host that was removed from network.allow cannot be reached any more; its connections end. The limits stay."""
        far, other = self.far(), self.far()
        names = [f"localhost:{far.port}", f"127.0.0.1:{far.port}"], [f"localhost:{other.port}", f"127.0.0.1:{other.port}"]
        server = self.serve(names[0] + names[1], max_bytes="1M")
        fetch = [f'fetch("http://localhost:{port}/")' for port in (far.port, other.port)]
        self.assertEqual([self.ask(server, code) for code in fetch], ["hello", "hello"])
        self.ask(server, f's, line = tunnel("localhost", {far.port})')
        path = self.path("config.json")
        harness.replace_file(path, json.dumps({"mcpServers": {}, "profile": "net", "profiles": {"net": {"network": {"allow": names[1], "max_bytes": "900M"}}, "other": {"agent": True}}}))
        self.assertTrue(harness.wait_until(lambda: "config was reloaded" in server.log()), server.log())
        said = self.ask(server, fetch[0])
        self.assertIn("403", said)
        self.assertIn("network.allow of the profile has changed", self.cell["notice"])
        self.assertIn(f'localhost:{far.port} is not in network.allow of profile "net"', self.cell["notice"])
        self.assertEqual(self.ask(server, "rest(s).decode()"), "")
        self.assertEqual(self.ask(server, fetch[1]), "hello")
        self.assertNotIn("has changed", self.cell.get("notice", ""))
        seen = len(far.seen)
        self.assertIn("max_bytes", self.ask(server, f'[fetch("http://localhost:{other.port}/big/600000")[:300] for _ in range(2)][1]') + self.cell.get("notice", ""))
        self.assertEqual(len(far.seen), seen)
        server.close()

    def test_rules_about_connections(self):
        """The first rule that matches decides; a reload counts for sessions that exist, whose connections end."""
        far, other = self.far(), self.far()
        allow = [f"{host}:{port}" for host in ("localhost", "127.0.0.1") for port in (far.port, other.port)]
        profile = {"network": {"allow": allow}, "rules": [
            {"allow": "@network.connect", "when": {"/host": {"equals": "localhost"}, "/port": {"one_of": [far.port]}}}, {"ask": "@network.*"}]}
        server = self.serve(allow)
        fetch = [f'fetch("http://localhost:{port}/")' for port in (far.port, other.port)]
        self.assertEqual([self.ask(server, code) for code in fetch], ["hello", "hello"])
        path = self.path("config.json")
        for times, (rules, expected) in enumerate(((profile, ["hello", None]), ({"network": {"allow": allow}}, ["hello", "hello"])), 1):
            harness.replace_file(path, json.dumps({"mcpServers": {}, "profile": "net", "profiles": {"net": rules, "other": {"agent": True}}}))
            self.assertTrue(harness.wait_until(lambda times=times: server.log().count("config was reloaded") >= times), server.log())
            for code, answer in zip(fetch, expected):
                said = self.ask(server, code)
                if answer:
                    self.assertEqual(said, answer)
                else:
                    self.assertIn(f'localhost:{other.port} is not allowed by the rules of profile "net"', said + self.cell["notice"])
        server.close()

    def test_tls_must_name_the_host(self):
        context, pem = self.certificate()
        far = self.far(context)
        server = self.local(far)
        self.ask(server, f"""
context = ssl.create_default_context(cadata={pem!r})
def secure(name, context=context, check=True):
    context.check_hostname = check and name is not None
    s, line = tunnel("localhost", {far.port})
    try:
        with context.wrap_socket(s, server_hostname=name) as t:
            t.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return rest(t).decode()[-5:]
    except OSError as e:
        return line + " " + str(e)
""")
        self.assertEqual(self.ask(server, 'secure("localhost")'), "hello")
        self.assertEqual(len(far.seen), 1)
        # The server's certificate is valid for this name too.
        self.assertIn("UNRECOGNIZED_NAME", self.ask(server, 'secure("other.example")'))
        self.assertIn("is for another name", self.cell["notice"])
        self.assertIn("UNRECOGNIZED_NAME", self.ask(server, "secure(None)"))
        self.assertIn("without a readable server name", self.cell["notice"])
        self.assertEqual([b for b in far.seen if b], far.seen[:1])
        # By address, TLS may omit the server name. Bytes that are not TLS are passed on unchecked.
        code = f"""
s, line = tunnel("127.0.0.1", {far.port})
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
with context.wrap_socket(s) as t:
    t.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n"); got = rest(t)[-5:].decode()
got"""
        self.assertEqual(self.ask(server, code), "hello")

    def test_spares_branches_and_restores(self):
        far = self.far()
        server = self.local(far)
        url = f"http://localhost:{far.port}/"
        # Fetches from a sandbox of the pool, and from a new one after the interpreter ended.
        self.assertEqual(self.ask(server, GUEST + f"fetch({url!r})", session="two"), "hello")
        server.cell("import os; os._exit(3)", session="two")
        self.assertEqual(self.ask(server, GUEST + f"fetch({url!r})", session="two"), "hello")
        # Each session has a separate port, and the requests of one session do not count for another.
        self.ask(server, "1")
        self.assertNotIn("network", self.cell)


class Refused(Network):
    def test_names_and_addresses(self):
        """No refused name or address is looked up or connected to. The control: valid forms of the allowed name and address."""
        far = self.far()
        server = self.local(far)
        p = far.port
        for host in ("LOCALHOST", "localhost.", "127.0.0.1"):
            self.assertEqual(self.ask(server, f'tunnel({host!r}, {p})[1]'), "200 Connection established", host)
        self.assertTrue(harness.wait_until(lambda: len(far.seen) == 3))
        for host in ("2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.01", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
                     "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.0.0.2", "169.254.169.254", "[fd00:ec2::254]", "0.0.0.0", "localhost..", ".localhost",
                     "x.localhost", "localhost%00.example", "localhost\x00", "user@localhost", "localhost:80@evil.example", "evil.example@localhost",
                     "localhost\t", "loc\u0430lhost", "[127.0.0.1]", "[::1%25lo]", "", "*", "*.localhost"):
            request = f"CONNECT {host}:{p} HTTP/1.1\r\n\r\n".encode()
            line = self.ask(server, f"status({request!r})")
            self.assertRegex(line, "^40[03] ", host)
        for target in ("localhost", "localhost:0", f"localhost:0{p}", f"localhost:+{p}", f"localhost:{p + 65536}", "localhost:22", f"localhost:{p}/x", f"//localhost:{p}"):
            self.assertRegex(self.ask(server, f"status('CONNECT {target} HTTP/1.1\\r\\n\\r\\n')"), "^40[03] ", target)
        for url in (f"http://evil.example@localhost:{p}/", f"http://localhost:{p}@evil.example/", f"http://localhost:{p}\\@evil.example/", f"https://localhost:{p}/",
                    f"ftp://localhost:{p}/", f"/x", f"http:localhost:{p}/", f"http://localhost:{p}#@evil.example/", f"http:///localhost:{p}/"):
            self.assertRegex(self.ask(server, f"status({'GET ' + url + ' HTTP/1.1'!r} + '\\r\\nHost: localhost:{p}\\r\\n\\r\\n')"), "^40[03] ", url)
        self.assertEqual(len(far.seen), 3)

    def test_requests_with_two_readings(self):
        far = self.far()
        server = self.local(far)
        p = far.port
        start = f"POST http://localhost:{p}/ HTTP/1.1\r\n"
        host = f"Host: localhost:{p}\r\n"
        second = f"GET http://localhost:{p}/second HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        for head in (start + "Host: evil.example\r\n\r\n", start + host + host + "\r\n", start + "\r\n", start + f"Host: localhost:{p} \x0b\r\n\r\n",
                     start + "Host: localhost\r\n\r\n", start + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     start + host + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", start + host + "Content-Length: +5\r\n\r\nhello",
                     start + host + "Content-Length: 5, 5\r\n\r\nhello", start + host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
                     start + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", start + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                     start + host + "X: 1\nContent-Length: 5\r\n\r\nhello", start + host + "X: 1\r\n folded\r\n\r\n", start + host + "X\r\n\r\n",
                     start.replace("HTTP/1.1", "HTTP/2.0") + host + "\r\n", start.replace(" HTTP/1.1", "") + host + "\r\n",
                     "\r\n" + start + host + "\r\n", start + host + "X: 1\r\x00\r\n\r\n", start + host + "Content-Length:\r\n\r\n",
                     f"CONNECT localhost:{p} HTTP/1.1\r\nHost: evil.example:{p}\r\n\r\n", f"CONNECT localhost:{p} HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"):
            self.assertRegex(self.ask(server, f"status({head!r})"), "^40[03] ", head)
        self.assertEqual(far.seen, [])
        # Data after a request is not passed on, and headers for the proxy are not sent to the server.
        for head in (start + host + "Proxy-Authorization: Basic secret\r\nConnection: X-Y\r\nX-Y: 1\r\nContent-Length: 5\r\n\r\nhello" + second,
                     start + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second, start.replace("POST", "GET") + host + "\r\n" + second):
            self.assertTrue(self.ask(server, f"status({head!r})").startswith("200 OK"), head)
        self.assertEqual(len(far.seen), 3)
        self.assertTrue(harness.wait_until(lambda: far.seen[1].endswith(b"5\r\nhello\r\n0\r\n\r\n")))
        for seen in far.seen:
            self.assertNotIn(b"second", seen)
            self.assertNotIn(b"secret", seen)
            self.assertIn(b"\r\nConnection: close\r\n\r\n", seen)
        # A chunk with a wrong length ends the connection.
        self.ask(server, f"raw({start + host!r} + 'Transfer-Encoding: chunked\\r\\n\\r\\n5;x\\r\\nhello\\r\\n0\\r\\n\\r\\n')")
        self.assertNotIn(b"hello", far.seen[-1])

    def test_bounds(self):
        """Limits of bytes, headers and connections, and the report about ten thousand refusals."""
        far = self.far()
        server = self.local(far, max_bytes="1M")
        self.assertIn("40", self.ask(server, "status('GET http://localhost/ HTTP/1.1\\r\\n' + 'X: ' + 'y' * 20000)"))
        self.assertIn("40", self.ask(server, f"status('GET http://localhost:{far.port}/ HTTP/1.1\\r\\nHost: localhost:{far.port}\\r\\n' + 'X: y\\r\\n' * 101 + '\\r\\n')"))
        # Half a request uses a connection of the same session only. Further connections of that session wait.
        self.assertEqual(self.ask(server, GUEST + """
held = []
for i in range(400):
    s = socket.socket(); s.setblocking(False)
    try:
        s.connect(("127.0.0.1", 3128))
    except BlockingIOError:
        pass
    held.append(s)
for s in held[:190]:
    try:
        s.send(b"GET http://loc")
    except OSError:
        pass
len(held)""", session="holder"), 400)
        self.assertEqual(self.ask(server, GUEST + f'fetch("http://localhost:{far.port}/")', session="free"), "hello")
        self.assertEqual(self.ask(server, f"fetch('http://localhost:{far.port}/')"), "hello")
        self.assertEqual(self.ask(server, """
for i in range(300):
    status(f"GET http://h{i}.evil.example/ HTTP/1.1\\r\\nHost: h{i}.evil.example\\r\\n\\r\\n")
"""), None)
        self.assertLessEqual(len(self.cell["network"]), 66)
        self.assertEqual(sum(host["denied"] for host in self.cell["network"]), 300)
        self.assertEqual(self.cell["notice"].count("\n"), 3)
        self.assertIn("297 more requests were refused", self.cell["notice"])
        # max_bytes limits both directions; the bytes received before the limit stay in the response.
        got = self.ask(server, f"len(raw('GET http://localhost:{far.port}/big/3000000 HTTP/1.1\\r\\nHost: localhost:{far.port}\\r\\n\\r\\n'))")
        self.assertLess(got, 1 << 20)
        self.assertGreater(got, 900000)
        self.assertIn("network.max_bytes", self.cell["notice"])
        self.assertIn("max_bytes", self.ask(server, f'fetch("http://localhost:{far.port}/")') + self.cell["notice"])
        sent = self.ask(server, GUEST + f"""
s, line = tunnel("localhost", {far.port})
n = 0
try:
    while n < 4000000:
        n += s.send(b"y" * 65536)
except OSError:
    pass
n""", session="sender")
        self.assertLessEqual(sum(len(seen) for seen in far.seen if seen.startswith(b"y")), 1 << 20)
        self.assertGreater(sent, 0)

    def test_heads_count(self):
        """Data that comes with the header of a request, and after a CONNECT, is sent to the server like all later data."""
        far = self.far()
        server = self.local(far, max_bytes="100K")
        where = f"localhost:{far.port}"
        self.assertEqual(self.ask(server, f"fetch('http://{where}/')"), "hello", "the control")
        self.ask(server, f"for i in range(40): raw('GET http://{where}/ HTTP/1.1\\r\\nHost: {where}\\r\\nX: ' + 'y' * 15000 + '\\r\\n\\r\\n')")
        self.assertIn("network.max_bytes", self.cell["notice"])
        sent = sum(map(len, far.seen))
        self.assertLessEqual(sent, 100 << 10)
        self.assertGreater(sent, 70000)
        self.assertAlmostEqual(sum(host["bytes_out"] for host in self.cell["network"]), sent, delta=1000)
        far.seen.clear()
        self.ask(server, GUEST, session="tunnels")
        self.ask(server, f"for i in range(40):\n    s = connect()\n    try: s.sendall(b'CONNECT {where} HTTP/1.1\\r\\n\\r\\n' + b'y' * 15000); s.shutdown(socket.SHUT_WR); rest(s)\n    except OSError: pass  # cut off\n    s.close()", session="tunnels")
        self.assertLessEqual(sum(map(len, far.seen)), 100 << 10)
        self.assertGreater(sum(map(len, far.seen)), 70000)

    def test_a_client_hello_that_ends_too_soon(self):
        """Its connection ends at once, and does not wait five minutes for the rest."""
        far = self.far()
        server = self.local(far)
        self.assertEqual(self.ask(server, f"""
def begin(data):
    s, line = tunnel("localhost", {far.port})
    s.settimeout(5)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    return s
whole, part = begin(b"plain"), begin(b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc")
rest(part).hex()"""), "15030100020270")
        self.assertTrue(harness.wait_until(lambda: far.ended == 2), far.seen)
        self.assertEqual(sorted(far.seen), [b"", b"plain"], "the control: bytes that are not TLS")

    def test_the_rate_of_heads(self):
        far = self.far()
        server = self.local(far, rate="32K")
        where = f"localhost:{far.port}"
        seconds = self.ask(server, f"""
def once(size):
    return status("GET http://{where}/ HTTP/1.1\\r\\nHost: {where}\\r\\nX: " + "y" * size + "\\r\\n\\r\\n")
start = time.monotonic(); small = [once(10) for i in range(8)]; between = time.monotonic()
large = [once(15000) for i in range(8)]
[small + large, between - start, time.monotonic() - between]""")
        self.assertEqual(seconds[0], ["200 OK"] * 16)
        self.assertLess(seconds[1], 1.5 * harness.SLOW, "the control")
        self.assertGreater(seconds[2], 1.5)


class Steps:
    """A server that reads a number of 8 bytes, sends that number of bytes, and waits for the next one."""
    GUEST = """
def read(s, n):
    while n > 0:
        n -= len(s.recv(min(n, 65536)))
def take(s, n):
    s.sendall(n.to_bytes(8, "big"))
    read(s, n)
"""

    def __init__(self, test):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        test.addCleanup(self.listener.close)
        test.addCleanup(self.listener.shutdown, socket.SHUT_RDWR)
        self.port = self.listener.getsockname()[1]
        self.n = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()
                self.n += 1

    def serve(self, peer):
        with contextlib.suppress(OSError), peer:
            while data := peer.recv(8, socket.MSG_WAITALL):
                peer.sendall(bytes(int.from_bytes(data, "big")))

    def sockets(self):
        return proxy_sockets(self.port)


def proxy_sockets(port):
    """The sockets of the proxy that lead to a port: (bytes of the receive buffer, at most; bytes in the send buffer), sorted."""
    text = subprocess.run(["ss", "-tanmHO", f"( dport = :{port} )"], capture_output=True, text=True, check=True).stdout
    return sorted((int(most), int(held)) for most, held in re.findall(r"skmem:\(r\d+,rb(\d+),t\d+,tb\d+,f\d+,w(\d+)", text))


def tcp_buffers():
    """Bytes of the buffers of all TCP sockets of the machine."""
    with open("/proc/net/sockstat", encoding="ascii") as f:
        words = next(line.split() for line in f if line.startswith("TCP:"))
    return int(words[words.index("mem") + 1]) * 4096


class Buffers(Network):
    """What the kernel keeps for the proxy is small, however much arrives."""

    def fast(self, size, buffer):
        """A server that answers each request with `size` bytes."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.addCleanup(listener.close)
        if buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)

        body = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size + b"x" * size

        def answer(peer):
            with contextlib.suppress(OSError), peer:
                peer.recv(65536)
                peer.sendall(body)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1]

    def begin(self, *answer):
        port = self.fast(*answer)
        server = self.serve([f"127.0.0.1:{port}"])
        self.ask(server, f"""
kept = []
def ask():
    s = connect()
    s.sendall(b"GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n")
    return s""")
        return server, port

    def least(self):
        """The least of some samples: other programs use buffers too, for a moment."""
        return min(tcp_buffers() for _ in range(20) if not time.sleep(0.05))

    @harness.alone
    def test_connections_that_nobody_reads(self):
        """60 of them hold at most 8 MiB beside the far ends; the control: the answers of all arrive when they are read."""
        size = 512 << 10
        server, _ = self.begin(size, 32768)
        before = self.least()
        self.ask(server, "kept += [ask() for i in range(60)]\ntime.sleep(2)")
        held = self.least() - before
        self.assertLess(held, (8 << 20) + 60 * 65536)
        got = self.ask(server, "[len(rest(s)) for s in kept]", timeout=60)
        self.assertTrue(len(got) == 60 and min(got) > size, got)

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_one_connection_has_room(self):
        """The buffer of a connection grows with what it moves, shrinks when another one needs it, and is bounded."""

        def sizes():
            return [most for most, _ in proxy_sockets(port)]

        server, port = self.begin(32 << 20, None)
        self.ask(server, "kept.append(ask())")
        read = "def read(s, n):\n    while n > 0:\n        n -= len(s.recv(min(n, 65536)))\n"
        self.ask(server, read + "read(kept[0], 1 << 20)")
        self.assertTrue(2 << 20 < sizes()[0] <= 4 << 20, sizes())
        # All others together have what it left.
        self.ask(server, "kept += [ask() for i in range(20)]\nfor s in kept[1:]: read(s, 1 << 13)")
        self.assertEqual(sizes()[0], 16384)
        self.assertLessEqual(sum(sizes()), (4 << 20) + 21 * 16384)
        self.ask(server, "for s in kept[1:]: s.close()\nlen(rest(kept[0])), kept.append(ask()); read(kept[-1], 1 << 20)")
        self.assertTrue(harness.wait_until(lambda: len(sizes()) == 1 and sizes()[0] > 2 << 20), sizes())

    def steps(self, n):
        """Servers, and a session that reaches them."""
        fars = [Steps(self) for _ in range(n)]
        return self.serve([f"127.0.0.1:{far.port}" for far in fars]), *fars

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_connections_have_room_in_turn(self):
        """An idle connection gives its room to one that moves much. Several that do have a part of it each."""
        server, idle, busy = self.steps(2)
        self.ask(server, Steps.GUEST + f'a, _ = tunnel("127.0.0.1", {idle.port})\ntake(a, 1 << 20)')
        self.assertGreater(idle.sockets()[0][0], 3 << 20)
        self.ask(server, f'time.sleep(1.2)\nb, _ = tunnel("127.0.0.1", {busy.port})\ntake(b, 1 << 20)')
        self.assertEqual(idle.sockets()[0][0], 16384)
        self.assertGreater(busy.sockets()[0][0], 3 << 20)
        self.ask(server, f"""
rest = [tunnel("127.0.0.1", {busy.port})[0] for _ in range(3)]
for _ in range(16):
    for s in [b] + rest:
        take(s, 1 << 17)""", timeout=60)
        sizes = [most for most, _ in busy.sockets()]
        self.assertTrue(len(sizes) == 4 and sizes[0] > 128 << 10, sizes)
        self.assertLessEqual(sum(sizes), (4 << 20) + 4 * 16384)

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_sessions_have_room_in_turn(self):
        """All sessions together have 64 MiB. One gets a part of it although the others, which are idle now, took it all."""
        server, idle, busy = self.steps(2)
        open_one = "time.sleep(0.1)\na, _ = tunnel('127.0.0.1', {})\ntake(a, 1 << 20)"
        for i in range(24):
            self.ask(server, GUEST + Steps.GUEST + open_one.format(idle.port), session=f"s{i}")
        sizes = [most for most, _ in idle.sockets()]
        self.assertGreater(sum(sizes), 48 << 20, "the control")
        self.assertLessEqual(sum(sizes), (64 << 20) + 24 * 16384)
        self.ask(server, Steps.GUEST + open_one.format(busy.port))
        self.assertGreater(busy.sockets()[0][0], 1 << 20)

    @unittest.skipUnless(shutil.which("ss"), "needs ss")
    def test_a_server_that_does_not_read(self):
        """What it has not taken is dropped with its connection, which ends with the session. The control is a connection that is open."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        server = self.serve([f"127.0.0.1:{port}"])
        send = f"""
def send():
    s, line = tunnel("127.0.0.1", {port})
    s.settimeout(0.2)
    try:
        while True:
            s.send(b"x" * 65536)
    except TimeoutError:
        return s
kept = [send() for i in range(8)]
"""
        self.ask(server, send, timeout=60)
        self.assertGreater(sum(held for _, held in proxy_sockets(port)), 8 * 8192, "the control")
        server.cell("1", reset=True)
        self.assertTrue(harness.wait_until(lambda: not proxy_sockets(port)), proxy_sockets(port))


class Nothing(Network):
    def test_nothing_but_the_proxy(self):
        """No datagrams, raw sockets, names or other ports; code cannot replace the proxy's port or its other end."""
        far = self.far()
        server = self.local(far)
        code = """
import errno
def kind(*args):
    try:
        socket.socket(*args); return "made"
    except OSError as e:
        return errno.errorcode[e.errno]
def tried(call):
    try:
        call(); return "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
udp, six = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
squat = socket.socket()
squat.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
squat.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
[[kind(socket.AF_INET, socket.SOCK_RAW, 1), kind(socket.AF_PACKET, socket.SOCK_RAW, 0), kind(socket.AF_NETLINK, socket.SOCK_RAW, 0), kind(socket.AF_VSOCK, 1, 0)],
 [tried(lambda: udp.sendto(b"x", ("8.8.8.8", 53))), tried(lambda: six.sendto(b"x", ("2001:4860:4860::8888", 53))),
  tried(lambda: socket.create_connection(("93.184.216.34", 443), 2)), tried(lambda: socket.getaddrinfo("secret.example.org", 443))],
 [tried(lambda: squat.bind(("127.0.0.1", 3128))), tried(lambda: socket.create_connection(("127.0.0.1", %d), 2)),
  tried(lambda: socket.create_connection(("127.0.0.2", 3128), 2)), tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 3128)))]]
""" % far.port
        made, sent, local = self.ask(server, code)
        self.assertEqual(made, ["EPERM"] * 4)
        self.assertEqual(sent[:3], ["ENETUNREACH"] * 3)
        self.assertNotEqual(sent[3], "done")
        # The last case is the control: code may use another socket with that number.
        self.assertEqual(local, ["EADDRINUSE", "ECONNREFUSED", "ECONNREFUSED", "done"])
        self.assertEqual(far.seen, [])
        # A hint explains how programs reach the network here.
        cell = server.cell('socket.getaddrinfo("secret.example.org", 443)')
        self.assertIn("only by the proxy", cell["error"]["message"])
        self.assertEqual(self.ask(server, f'fetch("http://localhost:{far.port}/")'), "hello")

    def test_two_sessions_share_nothing(self):
        far = self.far()
        server = self.local(far)
        # The bytes and requests of one session do not count for another one.
        self.ask(server, 'fetch("http://evil.example/")')
        self.ask(server, GUEST + f'fetch("http://localhost:{far.port}/")', session="two")
        (told,) = self.cell["network"]
        self.assertEqual(told["host"], "localhost")
        # Ended sessions have no connections.
        self.ask(server, f"""
s, line = tunnel("localhost", {far.port})
s.sendall(b"still here")
line""", session="two")
        self.assertTrue(harness.wait_until(lambda: b"still here" in far.seen))
        server.cell("1", session="two", reset=True)
        self.assertTrue(harness.wait_until(lambda: far.ended >= 2))

    @unittest.skipUnless(harness.WHOLE, "takes seconds by intention")
    def test_rate(self):
        far = self.far()
        server = self.local(far, rate="64K")
        seconds = self.ask(server, f"""
start = time.monotonic()
got = raw("GET http://localhost:{far.port}/big/200000 HTTP/1.1\\r\\nHost: localhost:{far.port}\\r\\n\\r\\n")
[len(got) > 200000, time.monotonic() - start > 1]""")
        self.assertEqual(seconds, [True, True])

    @unittest.skipUnless(harness.WHOLE, "downloads packages")
    def test_clients(self):
        far = self.far()
        config = self.config(profiles={"default": {"network": {"allow": [f"localhost:{far.port}", f"127.0.0.1:{far.port}"]}}})
        script = self.write("clients.py", f"""
import asyncio, os
import aiohttp, httpx, requests, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
url = "http://localhost:{far.port}/"
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(url) as answer:
            return await answer.text()
print(requests.get(url).text, httpx.get(url).text, urllib.request.urlopen(url).read().decode(), asyncio.run(main()))
for get in requests.get, httpx.get:
    try:
        get("https://evil.example/")
    except Exception as e:
        print(e)
""")
        with_ = [word for name in ("requests", "httpx", "aiohttp") for word in ("--with", name)]
        done = self.run_cloister("run", "--config", config, *with_, script, timeout=600)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "hello hello hello hello", done.stderr)
        for line in lines[1:3]:
            self.assertIn("evil.example:443 is not in network.allow", line)


class Config(Network):
    def test_mistakes(self):
        for allow, text in ((["https://x.example/"], "must be a host"), (["*"], "may have a *"), (["*.com"], "at least two labels"), (["a*.example"], "may have a *"),
                            (["bücher.example"], "punycode"), (["10.0.0.5"], "needs a port"), (["169.254.169.254:80"], "never reached"), (["127.1:80"], "must be host"),
                            (["[::ffff:10.0.0.1]:80"], "contains an IPv4 address"), (["x.example:0"], "must be host"), (["0.0.0.0/0:80"], "never reached"), ([], "network must be")):
            config = self.config(profiles={"net": {"network": {"allow": allow}}})
            done = self.run_cloister("config", "check", "--config", config)
            self.assertEqual(done.returncode, 1, allow)
            self.assertIn(text, (done.stdout + done.stderr).decode(), allow)
        network = {"allow": ["api.example.com:443", "*.example.org", "10.0.0.0/8:5432", "[fd00::5]:443"], "max_bytes": "10M", "rate": "1M"}
        config = self.config(profiles={"net": {"network": network}})
        self.assertEqual(self.run_cloister("config", "check", "--config", config).returncode, 0)
        shown = json.loads(self.run_cloister("config", "show", "--json", "--config", config).stdout)
        self.assertEqual(shown["profiles"]["net"]["network"], network)


if __name__ == "__main__":
    harness.main()
