"""Three servers behind HAProxy and behind nginx, with the configs of packaging/: calls of both eras reach their nodes, and no session
continues with older variables."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import harness
from test_serve import Connection, Serve
from test_serve_asks import FAULTY, FORM

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ALICE, BOB = "alice-alice-alice-1", "bob-bob-bob-bob-bob-2"
LEASE = 5
# The balancer finds a node down after six checks, one per second; then it takes it back.
DOWN, BACK = 12, 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    """One server, and the address at which the balancer expects it."""

    def __init__(self, case, number, **config):
        self.case, self.name, self.port = case, f"n{number}", free_port()
        faulty = {"faulty": {"command": harness.PYTHON, "args": [FAULTY]}}
        self.path = case.config(faulty, name=f"{self.name}.json", node=case.node(self.name), pool=1, **config)
        self.start()

    def start(self):
        self.log = harness.Log()
        self.process = self.case.spawn(self.log, "--listen", f"127.0.0.1:{self.port}", "--tokens", self.case.tokens, "--config", self.path)
        self.case.wait_serving(self.process, self.log)

    def signal(self, which):
        for pid in [self.process.pid, *harness.descendants(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)


class Client(Connection):
    """A connection with a token; a legacy client if it has an id."""

    def __init__(self, address, token, legacy=False):
        super().__init__(address)
        self.token, self.id = token, None
        if legacy:
            self.id = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}}).response().headers["mcp-session-id"]

    def post(self, body, path="/mcp", **headers):
        if self.id:
            headers |= {"Mcp_Session_Id": self.id, "MCP_Protocol_Version": "2025-11-25"}
        return super().post(body, path, Authorization=f"Bearer {self.token}", **headers)

    def send_call(self, code, **arguments):
        params = {"name": "run_python", "arguments": {"code": code, **arguments}}
        return self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) if self.id else self.modern("tools/call", params)

    def run(self, code, **arguments):
        """The structured result, or {"http": STATUS}."""
        answer = self.send_call(code, **arguments).response()
        if answer.status != 200:
            answer.size = len(answer.body or b"".join(iter(answer.chunk, b"")))
            return {"http": answer.status}
        return answer.json()["result"]["structuredContent"]


class Cluster(Serve):
    CONFIG = {"sessions": 64}
    TOKENS = f"alice {ALICE} sessions=60\nbob {BOB} sessions=60\n"

    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        with open(self.tokens, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(self.TOKENS)
        self.nodes = {f"n{i}": Node(self, i, **self.CONFIG) for i in (1, 2, 3)}
        self.port = free_port()
        for node in self.nodes.values():
            harness.wait_until(lambda port=node.port: self.status_of(port) == 200)
        self.balance()

    def status_of(self, port, path="/readyz"):
        """The status of a server, asked directly."""
        client = Connection(("127.0.0.1", port))
        self.addCleanup(client.close)
        return client.request("GET", path).response().status

    def node(self, name):
        return name

    def adapted(self, path):
        """The shipped file with the addresses of this test."""
        text = (ROOT / "packaging" / path).read_text(encoding="utf-8")
        for i in (1, 2, 3):
            self.assertIn(f"192.0.2.1{i}:8808", text)
            text = text.replace(f"192.0.2.1{i}:8808", f"127.0.0.1:{self.nodes[f'n{i}'].port}")
        return text

    def spawn_balancer(self, *command):
        self.assertTrue(shutil.which(command[0]), f"{command[0]} is not installed: apt-get install {command[0]}")
        log = open(self.path("balancer.log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        harness.wait_until(lambda: self.answers() or process.poll() is not None)
        if process.poll() is not None:
            log.seek(0)
            self.fail(log.read())
        return process

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def client(self, token=ALICE, legacy=False):
        client = Client(("127.0.0.1", self.port), token, legacy)
        self.addCleanup(client.close)
        return client

    def direct(self, node, token=ALICE):
        client = Client(("127.0.0.1", self.nodes[node].port), token)
        self.addCleanup(client.close)
        return client

    def owner(self, name, token=ALICE):
        """The node that has a session of this name."""
        principal = "alice" if token == ALICE else "bob"
        found = [node.name for node in self.nodes.values() if node.process.poll() is None and
                 f'"{principal}:{name}"' in self.listed(node)]
        self.assertEqual(len(found), 1, (name, found))
        return found[0]

    def listed(self, node):
        return self.run_cloister("sessions", "--json", "--server", str(node.process.pid)).stdout.decode()

    def check_calls(self, n):
        """Sessions of both eras and both principals, on all nodes; n calls find their variables."""
        sessions = []
        for i in range(24):
            c = self.client(BOB if i % 2 else ALICE)
            made = c.run(f"x = {i}")
            self.assertEqual(made["state"], "new", made)
            sessions.append((c.token, made["session"], i, None))
        for i in range(16):
            c = self.client(BOB if i % 2 else ALICE)
            self.assertEqual(c.run(f"x = {100 + i}", session=f"work{i // 2}")["state"], "new")
            sessions.append((c.token, f"work{i // 2}", 100 + i, None))
        for i in range(12):
            c = self.client(ALICE, legacy=True)
            made = c.run(f"x = {200 + i}", session=f"mine{i}")
            self.assertEqual(made["state"], "new", made)
            sessions.append((c.token, f"mine{i}", 200 + i, c))
        minted = [re.match("(n[123])-", name)[1] for _, name, value, _ in sessions if value < 100]
        self.assertEqual(set(minted), set(self.nodes), "all nodes get new sessions")
        pick = random.Random(31)
        clients = {token: [self.client(token) for _ in range(4)] for token in (ALICE, BOB)}
        for _ in range(n):
            token, name, value, own = pick.choice(sessions)
            result = (own or pick.choice(clients[token])).run("x", session=name)
            self.assertEqual((result.get("state"), result.get("value", {}).get("json")), ("kept", value), (name, result))
        return sessions

    def drained(self):
        """Sessions of both kinds on all nodes, then `cloister drain` of n1. Returns (name, value, node) of each, and those of n1."""
        sessions = []
        for i in range(12):
            sessions.append((self.client().run(f"x = {i}")["session"], i))
            self.client().run(f"x = {100 + i}", session=f"work{i}")
            sessions.append((f"work{i}", 100 + i))
        sessions = [(name, value, self.owner(name)) for name, value in sessions]
        own = [(name, value) for name, value, node in sessions if node == "n1"]
        self.assertTrue(len({name[:2] for name, _ in own}) == 2 and len(own) < len(sessions), own)
        node = self.nodes["n1"]
        done = self.run_cloister("drain", "--server", str(node.process.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.status_of(node.port), 404)
        return sessions, own

    def check_kept(self, sessions):
        for name, value, node in sessions:
            result = self.client().run("x", session=name)
            self.assertEqual((result.get("state"), result.get("value", {}).get("json")), ("kept", value), (name, node, result))

    def end_sessions(self, names, node="n1"):
        """The node ends with its last session, by itself."""
        for name in names:
            self.run_cloister("sessions", "end", f"alice:{name}", "--server", str(self.nodes[node].process.pid))
        self.assertEqual(self.nodes[node].process.wait(harness.PATIENCE), 0, self.nodes[node].log.text())

    def check_resources_and_tasks(self):
        c = self.client()
        name = c.run("print('y' * 30000)\nopen('/workspace/out/f.txt', 'w').write('hello')")["session"]
        for uri, expected in ((f"cloister://sessions/{name}/files/f.txt", "hello"), (f"cloister://sessions/{name}/cells/1/stdout", "y" * 20)):
            for _ in range(6):
                read = self.client().modern("resources/read", {"uri": uri}).response().json()
                self.assertTrue(read["result"]["contents"][0]["text"].startswith(expected), read)

    def stale(self, name, value):
        """The session has 100 on a node that is stopped for longer than the lease, then `value` on another node, which is killed."""
        c = self.client()
        self.assertEqual(c.run("x = 100", session=name)["state"], "new")
        first = self.owner(name)
        node = self.nodes[first]
        node.signal(signal.SIGSTOP)
        try:
            moved = self.until_answered(lambda: self.client().run(f"x = {value}\nx", session=name))
            self.assertEqual(moved["state"], "new")
        finally:
            node.signal(signal.SIGCONT)
        return first

    def until_answered(self, ask, seconds=40 * harness.SLOW):
        """Calls until the answer is a result: 502 to 504, or the end of the connection (0), are allowed meanwhile."""
        until = time.monotonic() + seconds
        while True:
            result = ask()
            if "http" not in result:
                return result
            self.assertIn(result["http"], (0, 502, 503, 504))
            self.assertLess(time.monotonic(), until, result)
            time.sleep(0.5)


class HAProxy(Cluster):
    def node(self, name):
        return {"name": name, "lease": LEASE, "balancers": ["127.0.0.1"]}

    def balance(self):
        text = self.adapted("haproxy/cloister.cfg")
        for before, after in ((" :8080", f" 127.0.0.1:{self.port}"), ("127.0.0.1:10808", f"127.0.0.1:{free_port()}"), ("rise 20", "rise 2")):
            self.assertEqual(text.count(before), 1)
            text = text.replace(before, after)
        path = self.write("haproxy.cfg", text)
        subprocess.run(["haproxy", "-c", "-q", "-f", path], check=True)
        self.balancer = self.spawn_balancer("haproxy", "-db", "-f", path)

    def reload(self):
        """The old process serves connections that it has until they end."""
        self.balancer = self.spawn_balancer("haproxy", "-db", "-f", self.path("haproxy.cfg"), "-sf", str(self.balancer.pid))
        time.sleep(3)

    def test_calls_reach_their_nodes(self):
        self.check_calls(1000)
        self.check_resources_and_tasks()

    def test_names_belong_to_their_principal_and_form(self):
        self.assertEqual(self.client(ALICE).run("x = 1", session="work")["state"], "new")
        self.assertEqual(self.client(BOB).run("x = 2", session="work")["state"], "new")
        self.assertEqual(self.client(ALICE).run("x", session="work")["value"]["json"], 1)
        self.assertEqual(self.client(BOB).run("x", session="work")["value"]["json"], 2)
        params = {"name": "run_python", "arguments": {"code": "x", "session": "work"}}
        for _ in range(3):
            answer = self.client().modern("tools/call", params, Mcp_Param_Session="=?base64?d29yaw==?=").response().json()
            self.assertEqual(answer["result"]["structuredContent"]["value"]["json"], 1)
        made = self.client().run("x = 5")["session"]
        self.assertEqual(self.client().run("x", session=made)["value"]["json"], 5)
        branch = self.client().run("x + 1", session=made + "-b", **{"from": made})
        self.assertEqual((branch["value"]["json"], self.owner(made + "-b")), (6, made[:2]))
        # A name that a node made is of one principal, too.
        other = self.client(BOB).run("'x' in globals()", session=made)
        self.assertEqual((other["state"], other["value"]["json"]), ("new", False))
        self.assertIn("was lost", other["notice"])
        # Where headers contradict each other, the one that the server takes decides.
        for node in "123":
            answer = self.client().modern("tools/call", params, Mcp_Session_Id=f"n{node}-{made[3:]}").response().json()
            self.assertEqual(answer["result"]["structuredContent"]["value"]["json"], 1)
        # A node that does not exist, and code that does not fit into a buffer of the balancer.
        lost = self.client().run("1", session="n9-" + made[3:])
        self.assertIn('it was on node "n9"', lost["notice"])
        large = f"x = '{'y' * (8 << 20)}'\nlen(x)"
        for arguments in ({}, {"session": "work"}, {"session": made}):
            self.assertEqual(self.client().run(large, **arguments)["value"]["json"], 8 << 20)
        # Nothing else of the servers is published.
        for path in ("/healthz", "/readyz", "/readyz?lease", "/metrics", "/ui"):
            self.assertEqual(self.client().request("GET", path).response().status, 404, path)

    def test_answers_to_questions_lead_back(self):
        ask = f"(await mcp_faulty.ask(method='elicitation/create', params={FORM}))['result']"
        meta = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        asked_by = set()
        for _ in range(6):
            params = {"name": "run_python", "arguments": {"code": ask}}
            asked = self.client().modern("tools/call", params, meta=meta).response().json()["result"]
            asked_by.add(re.match(r"(n\d)-[0-9a-f]{32}$", asked["requestState"])[1])
            answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in asked["inputRequests"]}
            done = self.client().modern("tools/call", {**params, "requestState": asked["requestState"], "inputResponses": answers}, meta=meta).response()
            self.assertEqual(done.json()["result"]["structuredContent"]["value"]["json"], {"action": "accept", "content": {"name": "Ada"}})
        self.assertEqual(asked_by, set(self.nodes))

    def test_a_killed_node(self):
        sessions = self.check_calls(30)
        self.nodes["n1"].process.kill()
        self.nodes["n1"].process.wait()
        lost = 0
        for token, name, value, own in sessions:
            result = self.until_answered(lambda: self.client(token).run("globals().get('x')", session=name)) if not own else own.run("x", session=name)
            if result.get("http") == 404 or result.get("state") == "new":
                lost += 1
                self.assertIsNone(result.get("value", {}).get("json"))
                if name.startswith("n1-"):
                    self.assertIn(f'session "{name}" was lost: it was on node "n1"', result["notice"])
            elif not own or "http" not in result:
                self.assertEqual((result["state"], result["value"]["json"]), ("kept", value), name)
        self.assertGreater(lost, 0)
        # It comes back. Names that have moved stay where they are, and a reload keeps the table: their hashes lead to the first node.
        self.nodes["n1"].start()
        harness.wait_until(lambda: self.status_of(self.nodes["n1"].port) == 200)
        time.sleep(BACK)
        chosen = [(token, name) for token, name, _, own in sessions if name.startswith("work")]
        for reloads in (False, True):
            if reloads:
                self.reload()
            states = [self.client(token).run("1", session=name).get("state") for token, name in chosen]
            self.assertEqual(states, ["kept"] * len(chosen))

    def test_no_older_variables_after_a_stop(self):
        first = self.stale("work", 200)
        time.sleep(BACK)
        self.assertEqual(self.client().run("x", session="work")["value"]["json"], 200)
        second = self.owner("work")
        self.assertNotEqual(first, second)
        # The node that took over is killed. The node that has the name now must not answer with 100.
        self.nodes[second].process.kill()
        self.nodes[second].process.wait()
        # Wherever the balancer sends it: the node that was stopped does not have it any more.
        direct = self.direct(first).run("'x' in globals()", session="work")
        self.assertEqual((direct["state"], direct["value"]["json"]), ("new", False), direct)
        after = self.until_answered(lambda: self.client().run("'x' in globals()", session="work"))
        self.assertIs(after["value"]["json"], False)

    def load(self, stop, problems, index):
        """Counts in a session, in a chosen name or in one that a node made: it never finds another number than its last one."""
        name, last, chosen = None, 0, index % 2
        while not stop.is_set():
            try:
                arguments = {"session": f"load{index}"} if chosen else {"session": name} if name else {}
                with contextlib.closing(Client(("127.0.0.1", self.port), BOB if index % 3 else ALICE)) as client:
                    result = client.run("n = globals().get('n', 0) + 1\nn", **arguments)
                if "http" in result:
                    if result["http"] not in (0, 502, 503, 504):
                        problems.append(result)
                    # It is not known whether the cell has run.
                    last = None if result["http"] in (0, 502, 504) else last
                    time.sleep(0.2)
                    continue
                name, now = result["session"], result["value"]["json"]
                if result["state"] == "kept" and last is not None and now != last + 1 or result["state"] != "kept" and now != 1:
                    problems.append((last, result))
                last = now
            except OSError as e:
                problems.append(repr(e))

    def test_a_rolling_restart_under_load(self):
        stop, problems = threading.Event(), []
        threads = [threading.Thread(target=self.load, args=(stop, problems, i)) for i in range(6)]
        for thread in threads:
            thread.start()
        try:
            for node in self.nodes.values():
                node.process.terminate()
                self.assertEqual(node.process.wait(harness.PATIENCE), 0)
                time.sleep(1)
                node.start()
                harness.wait_until(lambda port=node.port: self.status_of(port) == 200)
                time.sleep(BACK + 2)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(problems, [])
        for i in (1, 3, 5):
            self.assertIn("value", self.client(BOB if i % 3 else ALICE).run("n", session=f"load{i}"))

    def test_a_drained_node(self):
        """Its sessions continue, no new one comes to it, and no call fails, before HAProxy has noticed and after it."""
        sessions, own = self.drained()
        for again in range(2):
            self.check_kept(sessions)
            for i in range(12):
                self.assertEqual(self.client().run("1").get("state"), "new")
                self.assertEqual(self.client().run("1", session=f"later{again}-{i}").get("state"), "new")
            self.assertEqual(len(json.loads(self.listed(self.nodes["n1"]))[0]["sessions"]), len(own))
            time.sleep(BACK if not again else 0)
        self.end_sessions([name for name, _ in own])
        # Its sessions begin anew elsewhere, and those of other nodes continue.
        self.check_kept([s for s in sessions if s[2] != "n1"])
        for name, _ in own:
            moved = self.until_answered(lambda name=name: self.client().run("globals().get('x')", session=name))
            self.assertEqual(moved["state"], "new", moved)
            if name.startswith("n1-"):
                self.assertIn(f'session "{name}" was lost', moved["notice"])

    def test_a_client_that_leaves_cancels(self):
        c = self.client()
        c.run("done = 1", session="work")
        gone = self.client()
        gone.send_call("import time\ntime.sleep(50)\ndone = 2", session="work")
        time.sleep(0.5)
        gone.close()
        began = time.monotonic()
        self.assertEqual(c.run("done", session="work")["value"]["json"], 1)
        self.assertLess(time.monotonic() - began, 10 * harness.SLOW)

    def lateness(self, c):
        """Seconds from a line of output to its event, for each of several."""
        params = {"name": "run_python", "arguments": {"code": "import time\nfor i in range(8):\n  print(time.time())\n  time.sleep(0.4)", "session": "events"}}
        answer = c.modern("tools/call", params, meta={"progressToken": "t", "io.modelcontextprotocol/logLevel": "info"}).response()
        late = []
        for _, message in answer.events():
            if message.get("method") == "notifications/message":
                text = json.dumps(message["params"]["data"])
                late.append(time.time() - float(re.search(r"1\d{9}\.\d+", text)[0]))
        return late

    def test_events_are_sent_at_once(self):
        late = self.lateness(self.client())
        self.assertGreaterEqual(len(late), 3)
        # Output is collected for 100 ms.
        self.assertLess(min(late), 0.15 + 0.2 * harness.SLOW)


class Full(HAProxy):
    CONFIG = {"sessions": 3}
    TOKENS = f"alice {ALICE}\n"  # no place is another's

    def test_a_full_node_does_not_refuse(self):
        """Nine places on three nodes. Names that hash to a full node go to another one."""
        states = [self.client().run("x = 1", session=f"name{i}").get("state") for i in range(9)]
        self.assertEqual(states, ["new"] * 9)
        self.assertEqual(self.client().run("1"), {"http": 503})
        self.assertEqual([self.client().run("x", session=f"name{i}").get("state") for i in range(9)], ["kept"] * 9)


class Nginx(Cluster):
    def balance(self):
        text = self.adapted("nginx/cloister.conf")
        self.assertEqual(text.count("listen 8080;"), 1)
        self.write("cloister.conf", text.replace("listen 8080;", f"listen 127.0.0.1:{self.port};"))
        os.mkdir(self.path("tmp"))
        temporary = "".join(f"{kind}_temp_path tmp;\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        path = self.write("nginx.conf", f"daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n"
                                        f"http {{\naccess_log off;\n{temporary}include cloister.conf;\n}}\n")
        self.balancer = self.spawn_balancer("nginx", "-p", self.dir, "-c", path, "-e", "stderr")

    def test_calls_reach_their_nodes(self):
        self.check_calls(1000)
        self.check_resources_and_tasks()
        params = {"name": "run_python", "arguments": {"code": "1", "session": "work"}}
        self.assertEqual(self.client().modern("tools/call", params, Mcp_Param_Session="=?base64?d29yaw==?=").response().status, 400)
        for path in ("/healthz", "/readyz?lease", "/metrics"):
            self.assertEqual(self.client().request("GET", path).response().status, 404, path)

    def test_a_chosen_name_stays_with_its_node(self):
        c = self.client()
        self.assertEqual(c.run("x = 100", session="work")["state"], "new")
        node = self.nodes[self.owner("work")]
        node.process.kill()
        node.process.wait()
        for _ in range(3):
            self.assertEqual(self.client().run("x", session="work"), {"http": 502})
        # New sessions go to the others.
        for _ in range(6):
            self.assertEqual(self.until_answered(lambda: self.client().run("1"))["state"], "new")
        node.start()
        self.assertEqual(self.client().run("globals().get('x')", session="work")["state"], "new")


    def test_a_drained_node(self):
        """Its sessions continue, and calls without a session go to other nodes. A new chosen name of its hash gets 503: nginx moves none."""
        sessions, own = self.drained()
        self.check_kept(sessions)
        for _ in range(12):
            self.assertEqual(self.client().run("1").get("state"), "new")
        said = [self.client().run("1", session=f"later{i}") for i in range(24)]
        self.assertEqual({answer.get("state", answer.get("http")) for answer in said}, {"new", 503})
        self.assertEqual(len(json.loads(self.listed(self.nodes["n1"]))[0]["sessions"]), len(own))
        self.end_sessions([name for name, _ in own])
        self.check_kept([s for s in sessions if s[2] != "n1"])
        for _ in range(6):
            self.assertEqual(self.until_answered(lambda: self.client().run("1"))["state"], "new")


class NginxFull(Nginx):
    CONFIG = {"sessions": 3}
    TOKENS = f"alice {ALICE}\n"  # no place is another's
    test_calls_reach_their_nodes = test_a_chosen_name_stays_with_its_node = test_a_drained_node = None

    def test_a_full_node_does_not_refuse(self):
        states = [self.client().run("x = 1").get("state") for _ in range(9)]
        self.assertEqual(states, ["new"] * 9)
        self.assertEqual(self.client().run("1"), {"http": 503})


for name in [name for name in vars(HAProxy) if name.startswith("test_")]:
    setattr(Full, name, None) if name not in vars(Full) else None


if __name__ == "__main__":
    harness.main()
