"""Hostile clients of `cloister serve`, and the limits for all clients together; test_http_torture.py has more forms of requests."""

import contextlib
import select
import time
import unittest

import harness
from test_serve import Serve


class Hostile(Serve):
    def test_smuggling(self):
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        hidden = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for form in ("Content-Length: 0\r\nContent-Length: 5\r\n\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     "Content-Length: +0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0;x\r\n\r\n", "X: y\n\r\n", "Host: x\r\n\r\n",
                     "X: a\0b\r\n\r\n", "X: a\r\n b\r\n\r\n"):
            c = self.connect()
            c.send(head + form + hidden)
            self.assertEqual(c.response().status, 400, form)
            self.assertEqual(c.file.read(), b"", form)  # it is closed, and what is hidden has no answer

    def test_floods(self):
        c = self.connect()
        with contextlib.suppress(ConnectionError):
            c.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"X{i}: y\r\n" for i in range(5000)) + "\r\n")
        self.assertEqual(c.response().status, 431)
        c = self.connect()
        c.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n")
        self.assertEqual(c.response().status, 413)
        # Pipelined requests are answered in their order.
        c = self.connect()
        c.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
        self.assertEqual({c.response().status for _ in range(500)}, {200})

    def test_idle_connections(self):
        idle = [self.connect() for _ in range(1000)]
        for c in idle[::100]:
            c.send("POST /mcp HT")  # half a request
        self.assertEqual(self.connect().call("1 + 1").response().json()["result"]["structuredContent"]["value"]["json"], 2)
        self.assertEqual(idle[1].request("GET", "/healthz").response().status, 200)
        # Above the limit the longest idle ones give way.
        more = [self.connect() for _ in range(1100)]
        self.assertEqual(more[-1].request("GET", "/healthz").response().status, 200)
        self.assertEqual(idle[2].socket.recv(1), b"")

    @unittest.skipUnless(harness.WHOLE, "takes 12 s: suite slow")
    def test_slowloris(self):
        c = self.connect()
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + "y" * 1000:
                c.send(byte)
                time.sleep(0.5)
        self.assertLess(time.monotonic() - began, 14 * harness.SLOW)

    def broker_memory(self):
        """Returns the peak memory of the broker so far, in MiB."""
        broker = next(pid for pid, name in harness.descendants(self.server.pid).items() if name == "cloister-broker")
        with open(f"/proc/{broker}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) >> 10

    def test_bodies_together_are_bounded(self):
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 24000000\r\n\r\n"
        clients = [self.connect() for _ in range(12)]
        for c in clients:
            with contextlib.suppress(ConnectionError):
                c.send(head.encode() + b"x" * (20 << 20))
        refused = [c for c in clients if select.select([c.socket], [], [], 0.2)[0]]
        self.assertGreater(len(refused), 6)
        self.assertEqual({c.response().status for c in refused}, {503})
        # A small request is still served. After the other clients disconnected, a large request is served too.
        self.assertEqual(self.value(self.connect().call("1 + 1")), 2)
        for c in clients:
            c.close()
        self.assertEqual(self.value(self.connect().call(f"# {'x' * (10 << 20)}\n1 + 1")), 2)
        self.assertLess(self.broker_memory(), 256)

    def test_answers_that_nobody_reads_are_bounded(self):
        self.assertEqual(self.value(self.connect().call(harness.PICTURES, session="s")), 1)
        code = "for _ in range(4): display(P())"
        # The kernel takes little for them, whatever its limits are.
        clients = [self.connect(window=64 << 10).call(code, session="s") for _ in range(12)]
        self.assertEqual(self.value(self.connect().call("1 + 1", session="s", wait=60)), 2)  # behind all of them
        # Clients that are still connected get their complete answer.
        sizes = [c.size() for c in clients]
        self.assertLess(sum(size > 14 << 20 for size in sizes), 10, sizes)
        self.assertGreater(sum(size > 14 << 20 for size in sizes), 3, sizes)
        self.assertLess(self.broker_memory(), 256)

    def test_http_sessions_are_bounded(self):
        c = self.connect()
        first = self.initialize(c)
        for _ in range(256):
            last = self.initialize(c)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        self.assertEqual(c.post(ping, Mcp_Session_Id=first).response().status, 404)
        self.assertEqual(c.post(ping, Mcp_Session_Id=last).response().status, 200)


if __name__ == "__main__":
    harness.main()
