"""Hosts of network.allow with "inspect": rules and the journal see each request to them, without a secret."""

import glob
import json
import os

import harness
import rawmcp
import test_inject

GUEST = """
import http.client, json, os, socket, ssl, time, urllib.error, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
CONTEXT = ssl.create_default_context()
# For hosts that are not inspected: their certificate is of an authority that this image does not have.
ANY = ssl._create_unverified_context()
def fetch(url, data=None, method=None, context=CONTEXT, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=20, context=context) as answer:
            return [answer.status, answer.read().decode("latin1")]
    except urllib.error.HTTPError as e:
        return [e.code, e.read().decode()]
    except Exception as e:
        return [0, f"{type(e).__name__}: {e}"]
def raw(port, text, name="localhost"):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=20)
    s.sendall(f"CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n".encode())
    assert b" 200 " in s.recv(4096)
    with CONTEXT.wrap_socket(s, server_hostname=name) as t:
        t.sendall(text.encode())
        return t.recv(65536).decode()[9:12]
"""
DENIED = [{"deny": "@network.request", "when": {"/path": {"prefix": "/no"}}}, {"deny": "@network.request", "when": {"/method": {"equals": "DELETE"}}}]


class Inspect(test_inject.Case):
    def start_server(self, inspected, **keys):
        """One host is inspected; the second one and port 80 are allowed as usual."""
        entries = [{"host": f"localhost:{host.port}", "inspect": True} if host in inspected else f"localhost:{host.port}" for host in (self.host, self.second)]
        addresses = [f"127.0.0.1:{port}" for port in (self.host.port, self.second.port, 80)]
        self.settings = {"profiles": {"web": {"network": {"allow": [*entries, "localhost:80", *addresses]}, "rules": DENIED, **keys}}, "profile": "web"}
        state = self.path("state")
        env = harness.environment(SSL_CERT_FILE=self.path("ca.pem"), XDG_STATE_HOME=state)
        server = rawmcp.RawServer("--log-level", "info", "--config", self.config(**self.settings), env=env, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        self.ask(server, GUEST)
        return server

    def processes(self, server):
        return [pid for pid, name in harness.descendants(server.process.pid).items() if name == "cloister-inject"]

    def test_requests(self):
        server = self.start_server([self.host], journal={"arguments": "full"})
        echo, port = self.url("echo"), self.host.port
        status, text = self.ask(server, f'fetch("{echo}?q=1", b"body", **{{"X-A": "b"}})')
        self.assertEqual(status, 200, text)
        self.assertIn(b"POST /echo?q=1 HTTP/1.1\r\n", self.host.seen[-1][0])
        self.assertIn(b"\r\nX-A: b\r\n", self.host.seen[-1][0])
        self.assertEqual(self.host.seen[-1][1], b"body")
        # A server that answers and closes before it has read the body: its answer reaches the client.
        for _ in range(3):
            self.assertEqual(self.ask(server, f'fetch("{self.url("early")}", b"a" * 1000000)'), [413, "too large"])
        # Rules decide about method and path. Without TLS nothing passes, on port 80 neither.
        seen = len(self.host.seen)
        for code, why in ((f'fetch("{self.url("no/a")}")', "a rule denies"),
                          (f'fetch("https://LOCALHOST:{port}/no")', "a rule denies"),
                          (f'fetch("{echo}", method="DELETE")', "got a DELETE that a rule denies"),
                          (f'fetch("http://localhost:{port}/echo")', "use https"),
                          ('fetch("http://localhost/echo")', "use https")):
            status, text = self.ask(server, code)
            self.assertEqual(status, 403, (code, text))
            self.assertIn(why, text)
            self.assertIn("inspect)", text)
        # A request that would reach another host of the same server, or that two programs could read differently.
        for expected, request in (("403", "GET /echo HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"),
                                  ("400", f"GET http://other.example/ HTTP/1.1\\r\\nHost: localhost:{port}\\r\\n\\r\\n"),
                                  ("400", f"POST /echo HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"),
                                  ("400", f"GET /echo HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n"),
                                  ("400", "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
                                  # The second of two: the first one is sent, and answered.
                                  ("403", f"GET /no HTTP/1.1\\r\\nHost: localhost:{port}\\r\\n\\r\\nGET /echo HTTP/1.1\\r\\nHost: localhost:{port}\\r\\n\\r\\n")):
            self.assertEqual((request, self.ask(server, f'raw({port}, "{request}")')), (request, expected))
        self.assertEqual(len(self.host.seen), seen)
        # The control: what rules deny passes to a host that is not inspected, whose certificate the client sees.
        self.assertEqual(self.ask(server, f'fetch("{self.url("no", self.second)}")')[0], 0)
        self.ask(server, f'fetch("{self.url("echo", self.second)}", method="DELETE", context=ANY)')
        self.assertEqual(self.second.seen[-1][0][:14], b"DELETE /echo H")
        self.check_journal(server)
        self.check_end(server)

    def check_journal(self, server):
        (name,) = glob.glob(self.path("state/cloister/journal/*.jsonl"))
        with open(name, encoding="utf-8") as f:
            records = [json.loads(line) for line in f.read().splitlines()]
        calls = [json.loads(r["arguments"]) for r in records if r["kind"] == "call"]
        self.assertEqual(calls, [{"host": "localhost", "port": self.host.port, "method": "POST", "path": path} for path in ("/echo", *["/early"] * 3)])
        self.assertEqual([r["tool"] for r in records if r["kind"] == "denied"], ["request"] * 4)

    def check_end(self, server):
        """Without the process its hosts are refused, and never reached by the proxy itself."""
        (pid,) = self.processes(server)
        os.kill(pid, 9)
        self.assertTrue(harness.wait_until(lambda: "that reads requests" in server.log()), server.log())
        seen = len(self.host.seen)
        status, text = self.ask(server, f'fetch("{self.url("echo")}")')
        self.assertIn("502", str(status) + text)
        self.assertIn("has ended: reset the session", text)
        self.assertEqual(len(self.host.seen), seen)
        self.assertEqual(server.cell("1", reset=True)["status"], "ok")
        self.ask(server, GUEST)
        status, text = self.ask(server, f'fetch("{self.url("echo")}")')
        self.assertEqual(status, 200, text + server.log())
        server.close()

    @harness.once
    def test_reload(self):
        """Without inspected hosts there is no process. A reload that inspects another one ends the sessions that reach it unread."""
        server = self.start_server([])
        delete = f'fetch("{self.url("echo")}", method="DELETE", context=%s)'
        self.assertEqual(self.processes(server), [])
        self.ask(server, delete % "ANY")
        self.assertEqual(len(self.host.seen), 1)
        allow = self.settings["profiles"]["web"]["network"]["allow"]
        allow[0] = {"host": allow[0], "inspect": True}
        self.config(**self.settings)
        self.assertTrue(harness.wait_until(lambda: "sandbox 1 ended" in server.log()), server.log())
        cell = server.cell("CONTEXT")
        self.assertEqual(cell["error"]["type"], "NameError", cell)
        self.assertIn('has another host with "inspect" now', server.log() + json.dumps(cell))
        self.ask(server, GUEST)
        status, text = self.ask(server, delete % "CONTEXT")
        self.assertEqual((status, "a rule denies" in text), (403, True), text)
        self.assertEqual(len(self.host.seen), 1)
        server.close()

    @harness.once
    def test_configs(self):
        many = [{"host": f"h{i}.example", "inspect": True} for i in range(33)]
        for allow, why in (([{"host": "*.a.example", "inspect": True}], "inspect needs one name"),
                           ([{"host": "8.8.8.8", "inspect": True}], "inspect needs one name"),
                           ([{"host": "a.example:80", "inspect": True}], "a port for HTTPS"),
                           ([{"host": "a.example", "inspect": 1}], "must be a string of"),
                           ([{"inspect": True}], "must be a string of"),
                           ([{"host": "a.example", "inspct": True}], '"inspct" is not "host" or "inspect"'),
                           (many, "more than 32 hosts")):
            run = self.run_cloister("run", "--config", self.config(network={"allow": allow}), "-c", "1")
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(why, run.stderr.decode())
            self.assertEqual(run.stderr.decode().count("\n"), 1, run.stderr)
        config = self.write("twice.json", '{"network": {"allow": [{"host": "a.example", "host": "b.example"}]}}')
        self.assertIn(b"occurs twice", self.run_cloister("run", "--config", config, "-c", "1").stderr)
        # A narrower setting of the command line does not leave it out. The control: without the key.
        for inspects in True, False:
            config = self.config(network={"allow": [{"host": "a.example", "inspect": inspects}, "b.example"]})
            shown = self.run_cloister("config", "show", "--config", config, "--network", "a.example").stdout
            self.assertEqual(json.loads(shown)["profiles"]["default"]["network"]["allow"], [{"host": "a.example", "inspect": True}] if inspects else ["a.example"])


if __name__ == "__main__":
    harness.main()
