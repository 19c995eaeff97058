#!/usr/bin/env python3
"""The time of HTTPS requests through cloister-inject (docs/secrets.md), beside the same requests to a host without a secret.

    bench/injected.py BUILD [ROUNDS]

Rows: a new connection with one small request, 100 requests on one connection, a response of 1 MiB, a request with a body of 1 MiB. Both
ways alternate. Prints medians in ms and their ratio. The limit of a response of 1 MiB is 1.5 times. A request
has none; no secret of its host may be in a body, so that it is passed on while it arrives.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("CLOISTER_BUILD", os.path.abspath(sys.argv[1]))
os.environ.setdefault("CLOISTER_TEST_HOME", os.path.join(tempfile.gettempdir(), "cloister-bench-injected"))
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import test_inject  # pylint: disable=wrong-import-position

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
LIMIT = 1.5
MIB = 1 << 20

GUEST = """
import http.client, os, ssl, time
T = os.environ["TOKEN"]
def connect(port, pem):
    c = http.client.HTTPSConnection("127.0.0.1", 3128, context=ssl.create_default_context(cadata=pem), timeout=30)
    c.set_tunnel("localhost", port)
    return c
def send(c, path, body=None):
    c.request("POST" if body else "GET", path, body, {"X-Token": T if c.has_secret else "a" * len(T)})
    answer = c.getresponse()
    n = len(answer.read())
    assert (answer.status, n) == (200, int(path[1:])), (answer.status, n)
def timed(f, *a):
    began = time.perf_counter()
    f(*a)
    return (time.perf_counter() - began) * 1000
def fresh(port, pem, has_secret):
    c = connect(port, pem)
    c.has_secret = has_secret
    send(c, "/100")
    c.close()
def many(c):
    for _ in range(100): send(c, "/100")
def measure(ways, mib):
    rows, body = {}, b"b" * mib
    kept = {}
    for name, (port, pem) in ways.items():
        kept[name] = connect(port, pem)
        kept[name].has_secret = name == "secret"
        send(kept[name], "/100")
    for name, (port, pem) in ways.items():
        c = kept[name]
        for row, took in (("a new connection", timed(fresh, port, pem, c.has_secret)), ("100 requests", timed(many, c)),
                          ("response of 1 MiB", timed(send, c, f"/{mib}")), ("request of 1 MiB", timed(send, c, "/100", body))):
            rows[row, name] = took
    return [[row, name, took] for (row, name), took in rows.items()]
"""


class Host(test_inject.Host):
    """Answers /N with N bytes."""

    def answer(self, peer):
        head, _ = self.read(peer)
        self.seen.clear()
        if head is None:
            return False
        n = int(head.split(b" ", 2)[1][1:])
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + BODY[:n])
        return True


BODY = (b"The quick brown fox jumps over the lazy dog, 0123456789 times. ghp_ " * (MIB // 60))[:MIB]


class Secrets(test_inject.Case):
    def start(self, tls):
        host = Host(tls)
        self.addCleanup(host.close)
        return host

    def setUp(self):
        super().setUp()
        self.plain = self.start(self.tls)  # in no "to"

    def secrets(self):
        secrets = super().secrets()
        return {**secrets, "FORM": {**secrets["FORM"], "to": secrets["OTHER"]["to"]}}

    def check_residue(self):
        """Other programs of the machine may leave files while this one measures."""

    def runTest(self):
        server = self.serve()
        self.ask(server, GUEST)
        with open(self.path("ca.pem"), encoding="utf-8") as f:
            ca = f.read()
        self.ask(server, f"pem = open(os.environ['SSL_CERT_FILE']).read() + {ca!r}\nways = {{'secret': ({self.host.port}, pem), 'none': ({self.plain.port}, pem)}}")
        times = {}
        for i in range(ROUNDS + 1):
            order = "ways" if i % 2 else "dict(reversed(ways.items()))"
            for row, name, took in self.ask(server, f"measure({order}, {MIB})"):
                times.setdefault(row, {}).setdefault(name, []).append(took)
        over = []
        for row, ways in times.items():
            secret, none = (statistics.median(ways[name][1:]) for name in ("secret", "none"))
            is_limited = "response" in row
            print(f"{row:18} with a secret {secret:8.2f} ms, without {none:8.2f} ms: {secret / none:.2f}" + (f", limit {LIMIT}" if is_limited else ""))
            if is_limited and secret / none > LIMIT:
                over.append(row)
        server.close()
        self.assertEqual(over, [])


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=0).run(Secrets())
    sys.exit(not result.wasSuccessful())
