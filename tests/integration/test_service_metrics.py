"""/livez, /readyz, --admin and /metrics of `cloister serve`: what operators read, and who may read it."""

import contextlib
import os
import re
import socket
import threading
import unittest

import harness
from test_serve import Connection, Serve

ALICE, PROM, OPS, OTHER = ("a" * 20, "b" * 20, "c" * 20, "d" * 20)
TOKENS = f"alice {ALICE}\nprom {PROM} role=metrics\nops {OPS} role=view\n"
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}


def parse(text):
    """Parses OpenMetrics strictly. Returns {sample with its labels: value}."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-3:]
    family, kind, seen, samples = None, None, set(), {}
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            family, kind = line[7:].split(" ")
            assert kind in SUFFIXES and family not in seen, line
            seen.add(family)
        elif line.startswith("# UNIT "):
            assert line[7:].split(" ")[0] == family and family.endswith("_" + line.split(" ")[3]), line
        elif line.startswith("# HELP "):
            assert line.startswith(f"# HELP {family} ") and line[-1] == ".", line
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] in [family + suffix for suffix in SUFFIXES[kind]], line
            key = line.rsplit(" ", 1)[0]
            assert key not in samples, line
            samples[key] = float(match[3])
    return samples


def check_histograms(samples):
    """Each histogram's buckets grow, and the last one is the count."""
    last = {}
    for key, value in samples.items():
        if "_bucket{" in key:
            name = re.sub(r',?le="[^"]*"', "", key).replace("_bucket", "_count").removesuffix("{}")
            assert value >= last.get(name, 0), key
            last[name] = value
    assert last and all(samples[name] == value for name, value in last.items()), last


class Admin(Serve):
    ARGUMENTS = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")

    def start(self, *arguments, **options):
        log = harness.Log()
        process = self.spawn(log, *arguments, **options)
        self.wait_serving(process, log)
        found = re.search(r"serving metrics at (?:http://([^/]*):(\d+)/metrics|unix:(.*))\n", log.text())
        self.admin = found[3] or ("127.0.0.1", int(found[2]))
        found = re.search(r"serving MCP at (?:http://([^/]*):(\d+)/mcp|unix:(.*))\n", log.text())
        self.address = found[3] or ("127.0.0.1", int(found[2]))
        return process

    def ask(self, path, token=None, address=None, method="GET", host="localhost", **headers):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.connect(address or self.admin).request(method, path, headers, host=host).response()

    def metrics(self, token=None):
        answer = self.ask("/metrics", token)
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        samples = parse(answer.body.decode())
        check_histograms(samples) if any("_bucket" in s for s in samples) else None
        return samples

    def tokens(self, text=TOKENS):
        path = self.path("tokens")
        with open(path + ".new", "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(text)
        os.rename(path + ".new", path)
        return path


class Checks(Admin):
    def test_ready(self):
        for path in ("/livez", "/readyz"):
            self.assertTrue(harness.wait_until(lambda: self.ask(path, address=self.address).status == 200), path)
        self.assertEqual(self.ask("/livez", address=self.address).body, b'{"status":"live"}\n')
        self.assertEqual(self.ask("/readyz?new", address=self.address).body, b'{"status":"ready"}\n')
        # They are not at the address of --admin, and its paths are not at that of /mcp.
        self.assertEqual(self.ask("/readyz").status, 404)
        self.assertEqual(self.ask("/metrics", address=self.address).status, 404)
        self.assertEqual(self.ask("/ui", address=self.address).status, 404)


class Numbers(Admin):
    def test_what_is_counted(self):
        c = self.connect()
        # Without a control group processor time is in steps of 10 ms, and memory is sampled.
        self.assertEqual(self.value(c.call("import time\nwhile time.process_time() < 0.1: pass\n2", session="a")), 2)
        self.assertEqual(c.call("1 / 0", session="a").response().json()["result"]["isError"], True)
        for method in ("no/such", 'x"} 1\ncloister_forged 1', "tools/list"):
            c.modern(method, Mcp_Method=method.replace("\n", " ")).response()
        c.modern("tools/call", {"name": "no_such_tool", "arguments": {}}).response()
        session = self.initialize(c)
        self.assertEqual(c.request("DELETE", "/mcp", {"Mcp-Session-Id": session}).response().status, 204)
        self.assertEqual(self.status(host="evil.example"), 403)
        found = self.metrics()
        label = 'mcp_protocol_version="2026-07-28",network_transport="tcp"'
        count = lambda labels: found.get(f"mcp_server_operation_duration_seconds_count{{{labels},{label}}}")
        self.assertEqual(count('mcp_method_name="tools/call",gen_ai_tool_name="run_python"'), 1)
        self.assertEqual(count('mcp_method_name="tools/call",gen_ai_tool_name="run_python",error_type="tool_error"'), 1)
        self.assertEqual(count('mcp_method_name="tools/call",gen_ai_tool_name="_OTHER",error_type="-32602"'), 1)
        self.assertEqual(count('mcp_method_name="tools/list"'), 1)
        self.assertEqual(count('mcp_method_name="_OTHER",error_type="-32601"'), 1)
        self.assertEqual(found['mcp_server_session_duration_seconds_count{mcp_protocol_version="2025-11-25",network_transport="tcp"}'], 1)
        self.assertFalse([s for s in found if "forged" in s or "no_such" in s])
        self.assertEqual([found[f'cloister_cells_total{{status="{s}"}}'] for s in ("ok", "error")], [1, 1])
        self.assertEqual(found['cloister_refused_total{reason="host"}'], 1)
        self.assertGreater(found["cloister_cell_cpu_seconds_total"], 0)
        self.assertEqual(sum(v for k, v in found.items() if k.startswith("cloister_sessions{")), 1)
        self.assertTrue(harness.wait_until(lambda: self.metrics()['cloister_memory_bytes{part="sandboxes"}'] > 0))
        self.assertEqual(found["cloister_session_start_seconds_count"], 1)
        self.assertEqual([found[f'cloister_session_state_total{{state="{s}"}}'] for s in ("new", "kept")], [1, 1])
        for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds", "cloister_sessions_max"):
            self.assertGreater(found[name], 0, name)
        # Sessions and clients have no names there.
        self.assertFalse([s for s in found if "raw" in s or '"a"' in s])
        text = self.ask("/metrics", Accept="text/plain;version=0.0.4").body.decode()
        self.assertIn('# TYPE cloister_cells_total counter\n', text)
        self.assertNotIn("# EOF", text)

    def test_upstream_servers(self):
        """By their names in the config; what code makes up is not there."""
        config = self.config({"fix": harness.fixture()}, name="servers.json")
        self.start(*self.ARGUMENTS, "--config", config)
        c = self.connect()
        self.assertEqual(self.value(c.call("(await tools['echo'](x=1))['x']", session="a")), 1)
        c.call("await tools['no-such-server.echo']()", session="a").response()
        found = self.metrics()
        self.assertEqual(found['mcp_client_operation_duration_seconds_count{server="fix"}'], 1)
        self.assertEqual({k: v for k, v in found.items() if k.startswith("cloister_upstream_up")}, {'cloister_upstream_up{server="fix"}': 1})
        self.assertFalse([s for s in found if "no-such" in s])

    def test_ready_sandboxes(self):
        c = self.connect()
        self.assertTrue(harness.wait_until(lambda: self.ask("/readyz", address=self.address).status == 200))
        c.call("1", session="a").response()
        self.assertTrue(harness.wait_until(lambda: self.metrics()["cloister_pool_ready"] > 0))
        c.call("1", session="b").response()
        found = self.metrics()
        self.assertEqual(sum(v for k, v in found.items() if k.startswith("cloister_sessions_created_total")), 2)
        self.assertGreaterEqual(found['cloister_sessions_created_total{from="pool"}'], 1)

    def test_end(self):
        done = self.connect().call("pass", session="short").response().json()
        self.assertFalse(done["result"]["isError"])
        self.assertEqual(self.run_cloister("sessions", "end", "short").returncode, 0)
        name = 'cloister_sessions_ended_total{reason="owner"}'
        self.assertTrue(harness.wait_until(lambda: self.metrics().get(name) == 1))

    def test_many_methods(self):
        """10,000 methods, and 500 names of tools, add two series."""
        def ask(part):
            with contextlib.closing(Connection(self.address)) as c:
                for i in range(part * 5000, (part + 1) * 5000):
                    c.modern(f"method/{i}", id=i).response()
                for i in range(part * 250, (part + 1) * 250):
                    c.modern("tools/call", {"name": f"tool_{i}", "arguments": {}}, id=i).response()
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = self.metrics()
        methods = [s for s in found if s.startswith("mcp_server_operation_duration_seconds_count")]
        self.assertEqual(len(methods), 2, methods)
        self.assertEqual(sum(found[s] for s in methods), 10500)
        self.assertLessEqual(len(found), 2000)


@harness.once
class Access(Admin):
    def setUp(self):
        harness.Case.setUp(self)
        self.file = self.tokens()
        self.server = self.start(*self.ARGUMENTS, "--tokens", self.file)

    def test_roles(self):
        def statuses(path, address=None):
            return [self.ask(path, token, address).status for token in (None, OTHER, ALICE, PROM, OPS)]
        self.assertEqual(statuses("/metrics"), [401, 401, 403, 200, 200])
        self.assertEqual(statuses("/ui"), [200] * 5)
        self.assertEqual([self.ask("/ui/events", token).status for token in (None, OTHER, ALICE, PROM)], [401, 401, 403, 403])
        self.assertIn("Bearer", self.ask("/metrics").headers["www-authenticate"])
        # They can do nothing else.
        self.assertEqual(statuses("/mcp", self.address), [401, 401, 400, 403, 403])
        for token in (PROM, OPS):
            for path in ("/mcp", "/sse", "/messages?session=x"):
                self.assertEqual(self.ask(path, token, self.address, Accept="text/event-stream").status, 403, path)
            c = self.connect()
            self.assertEqual(c.modern("tools/call", {"name": "run_python", "arguments": {"code": "1"}}, Authorization=f"Bearer {token}").response().status, 403)
        for method in ("POST", "DELETE"):
            self.assertEqual(self.ask("/metrics", OPS, method=method).status, 405)
        self.assertEqual(self.ask("/mcp", OPS).status, 404)

    def test_pages(self):
        for path in ("/metrics", "/ui", "/ui/events"):
            self.assertEqual(self.ask(path, OPS, host="evil.example").status, 403)
            self.assertEqual(self.ask(path, OPS, Origin="https://evil.example").status, 403)

    def test_the_role_ends(self):
        with contextlib.closing(Connection(self.admin)) as c:
            stream = c.request("GET", "/ui/events", {"Authorization": f"Bearer {OPS}"}).response()
            self.assertEqual((stream.status, stream.headers["content-type"]), (200, "text/event-stream"))
            states = stream.events()
            # A change of other tokens does not end it.
            self.tokens(TOKENS.replace("alice", "bob"))
            self.assertTrue(harness.wait_until(lambda: self.ask("/mcp", ALICE, self.address).status == 400))
            [next(states) for _ in range(3)]
            self.tokens(TOKENS.replace("role=view", "role=metrics"))
            list(states)
        self.assertTrue(harness.wait_until(lambda: self.ask("/ui/events", OPS).status == 403))
        self.assertEqual(self.ask("/metrics", OPS).status, 200)
        self.tokens(TOKENS.replace("role=view", ""))
        self.assertTrue(harness.wait_until(lambda: self.ask("/metrics", OPS).status == 403))
        self.assertEqual(self.ask("/mcp", OPS, self.address).status, 400)


class Unguarded(Admin):
    """Without tokens."""

    def test_loopback(self):
        self.assertEqual(self.ask("/metrics").status, 200)
        for path in ("/ui", "/ui/view.js", "/ui/events"):
            refused = self.ask(path)
            self.assertEqual(refused.status, 403)
            self.assertIn(b"--tokens FILE", refused.body)

    def test_unix(self):
        path = self.path("admin.sock")
        self.start("--listen", "127.0.0.1:0", "--admin", f"unix:{path}")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual([self.ask(p).status for p in ("/metrics", "/ui")], [200, 200])
        with contextlib.closing(Connection(self.admin)) as c:
            _, state = next(c.request("GET", "/ui/events").response().events())
            self.assertEqual((state["sessions"], state["live"]), ([], 0))

    def test_other_addresses(self):
        done = self.run_cloister("serve", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--config", self.config(), timeout=10)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--admin 0.0.0.0:0 can be reached by others: use 127.0.0.1:PORT or unix:PATH, or --tokens FILE", done.stderr)
        # With tokens it is served.
        self.start("--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--tokens", self.tokens())
        self.assertEqual(self.ask("/metrics", PROM).status, 200)

    def test_many_connections(self):
        """Connections that ask nothing give their places; those of /mcp are not touched."""
        busy = self.connect()
        self.assertEqual(self.value(busy.call("1", session="x")), 1)
        idle = [socket.create_connection(self.admin) for _ in range(100)]
        self.assertEqual(self.ask("/metrics").status, 200)
        for one in [socket.create_connection(self.admin) for _ in range(100)]:
            with contextlib.suppress(OSError):
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
            idle.append(one)
        self.assertEqual(self.ask("/metrics").status, 200)
        self.assertEqual(self.value(busy.call("2", session="x")), 2)
        for one in idle:
            one.close()

    def test_bodies(self):
        """A request needs none: one with a body is refused before it is read."""
        c = self.connect(self.admin)
        c.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n")
        c.send(b"x" * 1000)
        self.assertEqual(c.response().status, 413)
        c = self.connect(self.admin)
        c.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        self.assertEqual(c.response().status, 200)


class Principals(Admin):
    def setUp(self):
        harness.Case.setUp(self)

    def begin(self, **config):
        self.server = self.start(*self.ARGUMENTS, "--tokens", self.tokens(), "--config", self.config(name="more.json", **config))
        self.connect().modern("tools/call", {"name": "run_python", "arguments": {"code": "1"}}, Authorization=f"Bearer {ALICE}").response()
        return [s for s in self.metrics(PROM) if "principal" in s]

    def test_off(self):
        self.assertEqual(self.begin(), [])

    def test_on(self):
        self.assertEqual({re.sub(r"\{.*", "", s) for s in self.begin(metrics={"principals": True}) if s.endswith('{principal="alice"}')},
                         {f"cloister_principal_{name}" for name in ("cells_total", "cpu_seconds_total", "sessions", "memory_bytes")})


if __name__ == "__main__":
    unittest.main()
