"""Requests that parsers read differently, each sent before a hidden request and compared with the nearest accepted request; many
connections; and, in the suite slow, the programs slowhttptest, h2load and wrk."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

import harness
from test_serve import META, MODERN, Serve

HIDDEN = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Hidden: 1\r\n\r\n"
GET = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
CHUNKED = POST + "Transfer-Encoding: chunked\r\n\r\n"
# Without a session this body is answered with 400 and a JSON-RPC error, and the connection continues.
BODY = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
N = len(BODY)
LENGTH = f"{POST}Content-Length: {N}\r\n\r\n{BODY}"

# Accepted requests: the connection continues, and the next request is answered.
TAKEN = {
    "no body": GET + "\r\n",
    "a length": LENGTH,
    "a length with leading zeros": LENGTH.replace(f": {N}", f": 000{N}"),
    "a length with blanks": LENGTH.replace(f": {N}\r", f":  {N}  \r"),
    "chunks": f"{CHUNKED}{N:x}\r\n{BODY}\r\n0\r\n\r\n",
    "chunks, upper case": f"{CHUNKED.replace('chunked', 'Chunked')}{N:X}\r\n{BODY}\r\n0\r\n\r\n",
    "chunks of one byte": CHUNKED + "".join(f"1\r\n{c}\r\n" for c in BODY) + "0\r\n\r\n",
    "chunk size with zeros": f"{CHUNKED}000{N:x}\r\n{BODY}\r\n000\r\n\r\n",
    "100 headers": GET + "".join(f"X{i}: y\r\n" for i in range(99)) + "\r\n",
    "an empty header": GET + "X:\r\n\r\n",
    "a tab in a header": GET + "X: a\tb\r\n\r\n",
    "names of any case": GET.replace("Host", "hOST") + "\r\n",
    "a long name": GET + "X" * 128 + ": y\r\n\r\n",
    "a query": GET.replace("/healthz", "/healthz?a=b") + "\r\n",
    "a line before the request": "\r\n" + GET + "\r\n",
}

# Refused requests: an error with one of these statuses, then the connection ends. The request behind it gets no answer.
REFUSED = {
    # lengths
    "two lengths": (f"{POST}Content-Length: {N}\r\nContent-Length: 0\r\n\r\n{BODY}", 400),
    "two equal lengths": (f"{POST}Content-Length: {N}\r\nContent-Length: {N}\r\n\r\n{BODY}", 400),
    "a list of lengths": (f"{POST}Content-Length: {N}, {N}\r\n\r\n{BODY}", 400),
    "+3": (POST + "Content-Length: +3\r\n\r\nabc", 400),
    "-1": (POST + "Content-Length: -1\r\n\r\n", 400),
    "0x3": (POST + "Content-Length: 0x3\r\n\r\nabc", 400),
    "3.0": (POST + "Content-Length: 3.0\r\n\r\nabc", 400),
    "1 2": (POST + "Content-Length: 1 2\r\n\r\nabc", 400),
    "an empty length": (POST + "Content-Length:\r\n\r\n", 400),
    "a length of 20 digits": (POST + "Content-Length: 18446744073709551617\r\n\r\na", (400, 413)),
    "a length of 2^64": (POST + "Content-Length: 18446744073709551616\r\n\r\n", (400, 413)),
    "a large length": (POST + f"Content-Length: {(24 << 20) + 1}\r\n\r\n", 413),
    # codings
    "length and chunks": (f"{POST}Content-Length: {N}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and length": (f"{POST}Transfer-Encoding: chunked\r\nContent-Length: {N}\r\n\r\n0\r\n\r\n", 400),
    "chunked twice": (POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked, chunked": (POST + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    "gzip, chunked": (POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", (400, 501)),
    "chunked, identity": (POST + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", (400, 501)),
    "identity": (POST + "Transfer-Encoding: identity\r\n\r\n", (400, 501)),
    "xchunked": (POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", (400, 501)),
    "chunked;q": (POST + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", (400, 501)),
    "quoted": (POST + 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n', (400, 501)),
    "vertical tab": (POST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", (400, 501)),
    "blank before the colon": (POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks in HTTP/1.0": (CHUNKED.replace("1.1", "1.0") + "0\r\n\r\n", 400),
    # chunks
    "chunk 0x2": (CHUNKED + "0x2\r\nab\r\n0\r\n\r\n", 400),
    "chunk +2": (CHUNKED + "+2\r\nab\r\n0\r\n\r\n", 400),
    "chunk -2": (CHUNKED + "-2\r\nab\r\n0\r\n\r\n", 400),
    "chunk with a blank before": (CHUNKED + " 2\r\nab\r\n0\r\n\r\n", 400),
    "chunk with a blank behind": (CHUNKED + "2 \r\nab\r\n0\r\n\r\n", 400),
    "chunk extension": (CHUNKED + "2;a=b\r\nab\r\n0\r\n\r\n", 400),
    "chunk of 2^64": (CHUNKED + "10000000000000000\r\nab\r\n0\r\n\r\n", (400, 413)),
    "chunk of 2^63": (CHUNKED + "8000000000000000\r\nab", (400, 413)),
    "chunk without a size": (CHUNKED + "\r\nab\r\n0\r\n\r\n", 400),
    "chunk with bare LF": (CHUNKED + "2\nab\r\n0\r\n\r\n", 400),
    "chunk data with bare LF": (CHUNKED + "2\r\nab\n0\r\n\r\n", 400),
    "chunk data too long": (CHUNKED + "2\r\nabc\r\n0\r\n\r\n", 400),
    "last chunk with bare LF": (CHUNKED + "0\n\n", 400),
    "trailers": (CHUNKED + "0\r\nX: y\r\n\r\n", 400),
    "a length as trailer": (CHUNKED + "0\r\nContent-Length: 3\r\n\r\n", 400),
    # lines
    "bare LF in a header": (GET + "X: y\n\r\n", 400),
    "bare LF everywhere": (GET.replace("\r", "") + "\n", 400),
    "bare LF at the end": (GET + "\n", 400),
    "bare CR": (GET + "X: a\rb\r\n\r\n", 400),
    "CR CR LF": (GET + "X: a\r\r\n\r\n", 400),
    "folded": (GET + "X: a\r\n b\r\n\r\n", 400),
    "folded with a tab": (GET + "X: a\r\n\tb\r\n\r\n", 400),
    "folded first": ("GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n", 400),
    "NUL in a value": (GET + "X: a\0b\r\n\r\n", 400),
    "NUL in a name": (GET + "X\0Y: a\r\n\r\n", 400),
    "control character": (GET + "X: a\x01b\r\n\r\n", 400),
    "no colon": (GET + "X\r\n\r\n", 400),
    "no name": (GET + ": y\r\n\r\n", 400),
    "blank before a colon": (GET + "X : y\r\n\r\n", 400),
    "a name that is no token": (GET + "X(: y\r\n\r\n", 400),
    "a name that is not ASCII": (GET + "X\u00e9: y\r\n\r\n", 400),
    "1,002 headers": (GET + "".join(f"X{i}: y\r\n" for i in range(1001)) + "\r\n", 431),
    "101 headers": (GET + "".join(f"X{i}: y\r\n" for i in range(100)) + "\r\n", 431),
    "17 KiB of headers": (GET + f"X: {'y' * 17408}\r\n\r\n", 431),
    "a name of 129": (GET + "X" * 129 + ": y\r\n\r\n", 431),
    "a target of 5,000": (GET.replace("/healthz", "/" + "x" * 5000) + "\r\n", 414),
    # hosts
    "no Host": ("GET /healthz HTTP/1.1\r\n\r\n", 400),
    "no Host in HTTP/1.0": ("GET /healthz HTTP/1.0\r\n\r\n", 400),
    "two Hosts": (GET + "Host: localhost\r\n\r\n", 400),
    "two Hosts, one hidden": (GET + "hOsT: evil.example\r\n\r\n", 400),
    # targets and versions
    "absolute": (GET.replace("/healthz", "http://localhost/healthz") + "\r\n", 400),
    "CONNECT": ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "asterisk": ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "fragment": (GET.replace("/healthz", "/healthz#x") + "\r\n", 400),
    "blank in the target": (GET.replace("/healthz", "/health z") + "\r\n", 400),
    "two blanks": (GET.replace("GET ", "GET  ") + "\r\n", 400),
    "tabs": (GET.replace(" ", "\t", 2) + "\r\n", 400),
    "HTTP/0.9": ("GET /healthz\r\n\r\n", (400, 505)),
    "HTTP/1.2": (GET.replace("1.1", "1.2") + "\r\n", (400, 505)),
    "HTTP/2.0": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505)),
    "HTTP/01.1": (GET.replace("1.1", "01.1") + "\r\n", 400),
    "http/1.1": (GET.replace("HTTP", "http") + "\r\n", 400),
    "get": (GET.replace("GET", "get") + "\r\n", 400),
    "no version": (GET.replace(" HTTP/1.1", " ") + "\r\n", 400),
    "TLS": ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00" * 40, 400),
    "nothing but LF": ("\n\n\n", 400),
    # other refusals
    "upgrade": (GET + "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 400),
    "websocket": (GET + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    "expect": (POST + "Expect: nothing\r\nContent-Length: 3\r\n\r\nabc", 417),
    "two tokens": (GET + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
    "two sessions": (GET + "Mcp-Session-Id: a\r\nmcp-session-id: b\r\n\r\n", 400),
    "two origins": (GET + "Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n", 400),
}


class Forms(Serve):
    def test_what_is_taken(self):
        for name, text in TAKEN.items():
            with self.subTest(name):
                c = self.connect()
                c.send(text.encode("latin-1") + HIDDEN.encode())
                self.assertIn(c.response().status, (200, 400))
                self.assertEqual(c.response().body, b"ok\n")
                c.close()

    def test_what_is_refused(self):
        for name, (text, statuses) in REFUSED.items():
            with self.subTest(name):
                c = self.connect()
                with contextlib.suppress(ConnectionError):
                    c.send(text.encode("latin-1") + HIDDEN.encode())
                self.assertIn(c.response().status, statuses if isinstance(statuses, tuple) else (statuses,))
                with contextlib.suppress(ConnectionError):
                    self.assertEqual(c.file.read(), b"")
                c.close()

    def test_byte_by_byte(self):
        """The same requests give the same answers when each byte is sent separately."""
        for text, status in ((TAKEN["chunks"], 400), (REFUSED["two lengths"][0], 400), (TAKEN["no body"], 200)):
            c = self.connect()
            c.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in text.encode("latin-1"):
                c.socket.send(bytes([byte]))
            self.assertEqual(c.response().status, status)

    def test_pipelined(self):
        """Answers come in order, even if some take long; and the memory does not grow with requests pipelined behind a call."""
        c = self.connect()
        c.call("import time\ntime.sleep(0.5)\n1")
        c.send((GET + "\r\n") * 1000)
        self.assertEqual(self.value(c), 1)
        self.assertEqual({c.response().status for _ in range(1000)}, {200})
        c = self.connect()
        c.call("import time\ntime.sleep(1)\n1")
        c.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            c.socket.sendall((GET + "\r\n").encode() * 500000)


class Turns(Serve):
    """Requests of one client delay no other client: at level debug each turn of the loop above 5 ms of processor time is logged."""
    MOST_MS = 20 * harness.SANITIZED * harness.SLOW

    def setUp(self):
        harness.Case.setUp(self)
        self.log = self.path("log")
        self.server = self.start("--listen", "127.0.0.1:0", "--log-level", "debug", "--log-file", self.log, "--log-format", "text")
        self.assertEqual(self.value(self.connect().call("1", session="a")), 1)

    def longest(self, attack):
        """Returns the longest turn in ms."""
        before = os.path.getsize(self.log)
        attack()
        time.sleep(0.1)
        with open(self.log, encoding="utf-8") as f:
            f.seek(before)
            return max(map(int, re.findall(r"a turn of the loop took (\d+) us", f.read())), default=0) / 1000

    def post(self, body):
        c = self.connect()
        named = {"Content-Type": "application/json", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "run_python"}
        answer = c.request("POST", "/mcp", named, body.encode()).response()
        c.close()
        return answer

    def call(self, arguments):
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_python", "arguments": arguments, "_meta": META}})

    @harness.alone
    def test_large_bodies(self):
        values = "[" + "0," * 990000 + "0]"
        # Code is copied twice before it reaches the worker, and at the first copy the kernel has to allocate the memory.
        for name, body, status in (("code", self.call({"code": f"# {'x' * (15 << 20)}"}), 200),
                                   ("code with escapes", self.call({"code": "#" + "\n" * (7 << 20)}), 200),
                                   ("values", self.call({"code": "1"})[:-1] + f',"x":{values}}}', 200),
                                   ("not JSON", "[" * (23 << 20), 400),
                                   ("no message", '{"a":"' + "x" * (23 << 20) + '"}', 400)):
            with self.subTest(name):
                def attack(body=body, status=status):
                    self.assertEqual(self.post(body).status, status)
                took = self.longest(attack)
                print(f"{name}: {len(body) >> 20} MiB, the longest turn took {took:.1f} ms")
                self.assertLess(took, self.MOST_MS * (2.5 if name == "code" else 1))


class Others(threading.Thread):
    """A client that sends calls for as long as an attack runs, and measures how long its calls take."""

    def __init__(self, case):
        super().__init__()
        self.case, self.took, self.failed, self.going = case, [], [], True
        self.connection = case.connect()
        self.start()

    def run(self):
        while self.going:
            began = time.monotonic()
            try:
                self.failed += [] if self.case.value(self.connection.call("1 + 1", session="others")) == 2 else ["another value"]
            except (OSError, KeyError, ValueError) as e:
                self.failed.append(repr(e))
                self.connection = self.case.connect()
            self.took.append(time.monotonic() - began)
            time.sleep(0.05)

    def finish(self):
        self.going = False
        self.join()
        self.case.assertEqual(self.failed, [])
        self.case.assertGreater(len(self.took), 5)
        self.took.sort()
        return len(self.took), self.took[len(self.took) // 2] * 1000, self.took[-1] * 1000


def request_file(case, code="1+1"):
    """Writes a body to a file; returns it and the headers that it needs."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": code, "session": "load"}, "_meta": META}})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN,
               "Mcp-Method": "tools/call", "Mcp-Name": "run_python", "Mcp-Param-Session": "load"}
    return case.write("body", body), headers


@unittest.skipUnless(harness.WHOLE, "takes minutes: suite slow")
class Programs(Serve):
    """These programs print their measurements on standard output; docs/http.md has the figures."""

    def setUp(self):
        super().setUp()
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def program(self, name, *arguments, timeout=180):
        path = shutil.which(name) or self.skipTest(f"{name} is not installed")
        done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                              check=False, cwd=self.dir)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode(errors="replace"))

    def slow(self, *mode):
        others = Others(self)
        said = self.program("slowhttptest", "-c", "1000", "-r", "250", "-l", "40", "-p", "3", *mode)
        n, middle, most = others.finish()
        print(f"slowhttptest {' '.join(mode)}: {n} calls beside it, none failed, median {middle:.1f} ms, longest {most:.1f} ms")
        self.assertRegex(said, r"service available:\s+YES")
        self.assertNotRegex(said, r"service available:\s+NO")
        self.assertLess(most, 1000 * harness.SLOW)
        return said

    def test_slow_headers(self):
        said = self.slow("-H", "-i", "5", "-u", self.url + "/healthz")
        # The server closes all of these connections long before the test ends.
        self.assertIn("No open connections left", said)

    def test_slow_bodies(self):
        self.slow("-B", "-i", "5", "-s", "8192", "-f", "application/json", "-u", self.url + "/mcp")

    def test_slow_reading(self):
        self.slow("-X", "-k", "3", "-n", "5", "-w", "10", "-y", "20", "-z", "16", "-u", self.url + "/healthz")

    def test_ranges(self):
        self.slow("-R", "-u", self.url + "/healthz")

    def test_h2load(self):
        body, headers = request_file(self)
        lines = [part for k, v in headers.items() for part in ("-H", f"{k}: {v}")]
        for clients in (1, 10, 50):
            said = self.program("h2load", "--h1", "-n", "5000", "-c", str(clients), "-d", body, *lines, self.url + "/mcp")
            print(f"h2load, {clients} connections:", *re.findall(r"finished in .*|requests: .*|status codes: .*|time for request: .*", said), sep="\n  ")
            self.assertRegex(said, r"requests: 5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout")

    def test_wrk(self):
        body, headers = request_file(self)
        with open(body, encoding="utf-8") as f:
            text = f.read()
        script = self.write("post.lua", "wrk.method = 'POST'\nwrk.body = [==[" + text + "]==]\n" +
                            "".join(f"wrk.headers['{k}'] = '{v}'\n" for k, v in headers.items()) +
                            "response = function(status, headers, body)\n  if status ~= 200 or string.find(body, '\"isError\":true', 1, true) then\n"
                            "    print('refused: ' .. status .. body)\n    wrk.thread:stop()\n  end\nend\n")
        said = self.program("wrk", "-t", "1", "-c", "50", "-d", "10s", "--latency", "-s", script, self.url + "/mcp")
        print("wrk, 50 connections:", *re.findall(r"Requests/sec: .*|\d+%\s+\S+|\d+ requests in .*", said), sep="\n  ")
        self.assertNotIn("refused", said)
        self.assertNotIn("Non-2xx", said)
        self.assertNotIn("Socket errors", said)
        self.assertRegex(said, r"Requests/sec:\s+\d+")

    def test_thousand_idle(self):
        """Measures the memory that an idle connection costs, and a call while a thousand of them are open."""
        def held():
            broker = next(pid for pid, name in harness.descendants(self.server.pid).items() if name == "cloister-broker")
            with open(f"/proc/{broker}/smaps_rollup", encoding="ascii") as f:
                return int(next(line for line in f if line.startswith("Pss:")).split()[1])
        c = self.connect()
        self.assertEqual(self.value(c.call("1", session="a")), 1)
        before = held()
        idle = [self.connect() for _ in range(1500)]
        for one in idle[::100]:
            self.assertEqual(one.request("GET", "/healthz").response().status, 200)
        took = []
        for _ in range(200):
            began = time.monotonic()
            self.value(c.call("1", session="a"))
            took.append(time.monotonic() - began)
        each = (held() - before) / len(idle)
        print(f"1,500 idle connections: {each:.2f} KiB each, a call takes {sorted(took)[100] * 1000:.2f} ms")
        self.assertLess(each, 16)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    harness.main()
