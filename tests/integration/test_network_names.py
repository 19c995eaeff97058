"""Names and addresses of an allowed network, in a separate network (netlab.py): the addresses that false answers of a name server
can reach, the names that the name server receives, and TLS on port 443."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import harness
import netlab
import rawmcp
from test_network import GUEST

ALLOW = ["site.example", "*.wild.example", "rebind.example", "mixed.example", "inside.example", "own.example", "db.example:5432", netlab.FAR + ":8443",
         "named.example:80", "10.9.9.9:80"]


@unittest.skipUnless(shutil.which("ip") and netlab.have_veth(), "no veth interfaces here")
class Names(harness.Case):
    @classmethod
    def setUpClass(cls):
        """Runs before the process has threads."""
        super().setUpClass()
        cls.folder = tempfile.mkdtemp(prefix="cloister-test-")
        os.chmod(cls.folder, 0o755)
        key, pem = os.path.join(cls.folder, "key.pem"), os.path.join(cls.folder, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", pem,
                        "-days", "2", "-subj", "/CN=site.example", "-addext", "subjectAltName=DNS:site.example"], check=True, capture_output=True)
        with open(pem, encoding="ascii") as f:
            cls.pem = f.read()
        cls.lab = netlab.Lab(cls.folder)
        cls.lab.enter()

    @classmethod
    def tearDownClass(cls):
        os.kill(cls.lab.far, signal.SIGKILL)
        os.waitpid(cls.lab.far, 0)
        shutil.rmtree(cls.folder)
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.lab.clear()
        self.reached = []
        for address in ("127.0.0.1", netlab.NEAR):
            listener = socket.create_server((address, 80))
            self.addCleanup(listener.close)
            self.addCleanup(listener.shutdown, socket.SHUT_RDWR)  # must be first: a thread waits in accept()
            threading.Thread(target=self.accept, args=(listener,), daemon=True).start()
        profiles = {"net": {"network": {"allow": ALLOW}}}
        self.server = rawmcp.RawServer("--log-level", "info", "--config", self.config(profiles=profiles, profile="net"))
        self.addCleanup(self.server.free)
        self.server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}})
        self.server.notify("notifications/initialized")
        self.ask(GUEST + f"context = ssl.create_default_context(cadata={self.pem!r})")

    def accept(self, listener):
        while True:
            try:
                peer, address = listener.accept()
            except OSError:
                return
            self.reached.append(address)
            peer.close()

    def ask(self, code):
        self.cell = self.server.cell(code)
        self.assertEqual(self.cell["status"], "ok", self.cell)
        return self.cell.get("value", {}).get("json")

    def get(self, host):
        return self.ask(f'fetch("http://{host}/")')

    def test_names(self):
        public, one = [netlab.FAR], [[netlab.FAR]]
        self.lab.names({"site.example": one, "a.wild.example": one, "b.c.wild.example": one, "wild.example": one, "denied.example": one})
        for name in ("site.example", "a.wild.example", "b.c.wild.example", "SITE.example."):
            self.assertEqual(self.get(name), "hello", name)
        asked = self.lab.seen("dns")
        self.assertEqual(sorted(set(name.split()[0] for name in asked)), ["a.wild.example", "b.c.wild.example", "site.example"])
        # The proxy never looks up a name that is not allowed, or a name in a request that is refused.
        for name in ("denied.example", "wild.example", "site.example.evil.example", "secret.denied.example", "xsite.example"):
            self.assertIn("403", self.get(name), name)
        for line in ("CONNECT site.example:80 HTTP/1.1", "CONNECT site.example:22 HTTP/1.1", "GET http://x@site.example/ HTTP/1.1", "GET https://site.example/ HTTP/1.1"):
            self.assertRegex(self.ask(f"status({line!r} + '\\r\\nHost: site.example\\r\\n\\r\\n')"), "^40[03] ", line)
        self.assertEqual(self.lab.seen("dns"), asked)
        self.assertIn("502", self.get("gone.wild.example"))

        # A name server that changes its answer: each request causes one lookup, and the address that was checked is the one used.
        self.lab.names({"rebind.example": [public, ["127.0.0.1"]]})
        before = len(self.lab.seen("http"))
        self.assertEqual(self.get("rebind.example"), "hello")
        self.assertEqual([n for n in self.lab.seen("dns") if n == "rebind.example 1"], ["rebind.example 1"])
        self.assertIn("has no public address", self.get("rebind.example"))
        self.assertIn("network.allow", self.cell["notice"])
        self.assertEqual(len(self.lab.seen("http")), before + 1)
        for address in ("127.0.0.1", "127.8.8.8", "10.9.9.8", "192.168.1.1", "172.16.0.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "198.18.0.1",
                        "192.0.2.1", "203.0.113.9", "255.255.255.255", netlab.NEAR, "::1", "::ffff:127.0.0.1", "::ffff:93.184.216.34", "fd00:ec2::254", "fe80::1",
                        "64:ff9b::7f00:1", "64:ff9b::5db8:d822", "2002:7f00:1::", "ff02::1", "::", "2001:db8::1", "::7f00:1"):
            self.lab.names({"own.example": [[address]]})
            self.assertIn("has no public address", self.get("own.example"), address)
        self.lab.names({"mixed.example": [["127.0.0.1", netlab.FAR, "10.0.0.1"]]})
        self.assertEqual(self.get("mixed.example"), "hello")
        self.assertEqual(self.reached, [])
        # The control: both addresses of this machine can be reached from it.
        for address in ("127.0.0.1", netlab.NEAR):
            socket.create_connection((address, 80)).close()
        self.assertTrue(harness.wait_until(lambda: len(self.reached) == 2))

    def test_port_443_needs_tls_with_the_name(self):
        self.lab.names({"site.example": [[netlab.FAR]], "db.example": [[netlab.FAR]]})
        self.ask("""
def secure(host, name, port=443):
    context.check_hostname = name is not None
    s, line = tunnel(host, port)
    try:
        with context.wrap_socket(s, server_hostname=name) as t:
            t.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return rest(t)[-5:].decode()
    except OSError as e:
        return line + " " + str(e)
def plain(host, port, data):
    s, line = tunnel(host, port)
    s.sendall(data)
    return line + " " + rest(s).decode("latin1")
""")
        self.assertEqual(self.ask('secure("site.example", "site.example")'), "hello")
        self.assertIn("UNRECOGNIZED_NAME", self.ask('secure("site.example", "other.example")'))
        self.assertIn("UNRECOGNIZED_NAME", self.ask('secure("site.example", None)'))
        self.assertIn("\x15\x03\x01", self.ask('plain("site.example", 443, b"GET / HTTP/1.1\\r\\nHost: other\\r\\n\\r\\n")'))
        self.assertIn("without TLS", self.cell["notice"])
        # Half a TLS record and then no more data: nothing is passed on.
        self.assertEqual(self.ask('s, line = tunnel("site.example", 443); s.sendall(b"\\x16\\x03\\x01\\x02\\x00\\x01"); line'), "200 Connection established")
        self.assertEqual(len(self.lab.seen("tls")), 1)
        # A port that the config lists can carry any protocol; an address that the config lists can be reached without a name.
        self.assertIn("hello", self.ask('plain("db.example", 5432, b"any protocol")'))
        self.assertIn("403", self.ask('tunnel("db.example", 443)[1]'))
        code = f'context.check_hostname = False; context.verify_mode = ssl.CERT_NONE; secure("{netlab.FAR}", None, 8443)'
        self.assertEqual(self.ask(code), "hello")
        self.assertIn("403", self.ask(f'tunnel("{netlab.FAR}", 443)[1]'))

    def test_the_probe_of_the_doctor(self):
        """With a host that can be reached: the probe has rows for TLS, which it skips without a host."""
        self.lab.names({"site.example": [[netlab.FAR]]})
        config = self.config(profiles={"net": {"network": {"allow": ["*.wild.example", "site.example"]}}}, profile="net")
        done = self.run_cloister("doctor", "--attack", "--json", "--config", config, timeout=120)
        rows = [r for r in json.loads(done.stdout)["rows"] if r["group"] == "network"]
        self.assertEqual([r for r in rows if r["verdict"] != "held"], [], done.stderr)
        found = {r["item"]: r["found"] for r in rows}
        self.assertEqual(found["CONNECT site.example:443, the control"], "200")
        self.assertEqual(found["CONNECT site.example, TLS for not-allowed.invalid"], "unrecognized_name")
        self.assertEqual(found["CONNECT site.example, TLS for no name"], "unrecognized_name")
        # The probe does not look up its names, and sends nothing to the host.
        self.assertEqual({name.split()[0] for name in self.lab.seen("dns")}, {"site.example"})
        self.assertEqual(self.lab.seen("tls") + self.lab.seen("http"), [])


if __name__ == "__main__":
    harness.main()
