"""One of several servers behind a balancer: names that lead back, the header that a balancer reads, the lease on chosen names."""

import base64
import os
import re
import signal
import socket
import subprocess
import time
from unittest import mock

import harness
from test_serve import Serve

DIGITS = "0123456789abcdef" * 2
LOST = "the earlier one's variables and files were lost: no check of the balancer had reached node"


class Node(Serve):
    NODE = "n${ORDINAL}"

    def setUp(self):
        harness.Case.setUp(self)
        path = self.config(name="node.json", node=self.NODE, pool=1)
        plain = harness.environment
        with mock.patch.object(harness, "environment", lambda **extra: plain(ORDINAL="2", **extra)):
            self.server = self.start("--listen", "127.0.0.1:0", "--config", path)

    def said(self, sent):
        """The structured result of a call, and the header that names its session."""
        answer = sent.response()
        self.assertEqual(answer.status, 200, answer.body)
        result = answer.json()["result"]["structuredContent"]
        return result, answer.headers.get("cloister-session")

    def check(self, address="127.0.0.1", path="/readyz?lease"):
        """A check that comes from an address of this machine; returns its status."""
        with socket.socket() as s:
            s.bind((address, 0))
            s.settimeout(harness.PATIENCE)
            s.connect(self.address)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return int(s.makefile("rb").readline().split()[1])

    def legacy(self, c, session, method, params, **headers):
        return c.post({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}, Mcp_Session_Id=session,
                      MCP_Protocol_Version="2025-11-25", **headers)


class Names(Node):
    def test_minted_names_lead_back(self):
        c = self.connect()
        made, header = self.said(c.call("x = 1"))
        self.assertRegex(made["session"], r"^n2-[0-9a-f]{32}$")
        self.assertEqual(header, made["session"])
        again, header = self.said(c.call("x + 1", session=made["session"]))
        self.assertEqual((again["state"], again["value"]["json"], header), ("kept", 2, made["session"]))
        client = self.initialize(c)
        self.assertRegex(client, r"^n2-[0-9a-f]{32}$")
        task = self.legacy(c, client, "tools/call", {"name": "run_python", "arguments": {"code": "6"}, "task": {}}).response().json()["result"]["task"]
        self.assertRegex(task["taskId"], r"^n2-[0-9a-f]{32}$")
        done = self.legacy(c, client, "tasks/result", {"taskId": task["taskId"]}).response().json()["result"]
        self.assertEqual(done["structuredContent"]["value"]["json"], 6)
        stream = self.connect().request("GET", "/sse", {"Accept": "text/event-stream"}).response()
        self.assertRegex(next(stream.events())[1], r"^/messages\?session=n2-[0-9a-f]{32}$")
        stream.stream.close()

    def test_names_of_other_nodes_are_not_made(self):
        c = self.connect()
        for name, why in ((f"n1-{DIGITS}", 'it was on node "n1", which may have ended, and this call came to node "n2"'),
                          (f"n1-{DIGITS}-branch", 'it was on node "n1"'),
                          (f"n2-{DIGITS}", 'node "n2" does not have it: it has ended, or the server was started again')):
            with self.subTest(name=name):
                made, header = self.said(c.call("x = 1\n5", session=name))
                self.assertEqual((made["state"], made["value"]["json"]), ("new", 5))
                self.assertRegex(made["session"], r"^n2-[0-9a-f]{32}$")
                self.assertNotEqual(made["session"], name)
                self.assertEqual(header, made["session"])
                self.assertIn(f'session "{name}" was lost: {why}', made["notice"])
                self.assertIn(f'new session "{made["session"]}": pass it as `session`', made["notice"])
                # It does not exist afterwards either, and the new one does.
                self.assertEqual(self.said(c.call("1", session=name))[0]["state"], "new")
                self.assertEqual(self.said(c.call("x", session=made["session"]))[0]["state"], "kept")
                waits = c.modern("tools/call", {"name": "run_python", "arguments": {"session": name}}).response().json()["result"]
                self.assertTrue(waits["isError"])
                self.assertIn(f"the session was lost: {why.split(',')[0]}", waits["content"][0]["text"])
                self.assertEqual(self.sessions(name), [])

    def sessions(self, name):
        listed = self.run_cloister("sessions", "--json").stdout.decode()
        return re.findall(f'"{name}"', listed)

    def test_legacy_clients_and_running_answers(self):
        c = self.connect()
        client = self.initialize(c)
        made, header = self.said(self.legacy(c, client, "tools/call", {"name": "run_python", "arguments": {"code": "1"}}))
        self.assertEqual((made["session"], header), ("default", "default"))
        lost = f"n1-{DIGITS}"
        made, header = self.said(self.legacy(c, client, "tools/call", {"name": "run_python", "arguments": {"code": "1", "session": lost}}))
        self.assertEqual((made["state"], header), ("new", made["session"]))
        self.assertIn(f'session "{lost}" was lost', made["notice"])
        # The answer before the end says it too, and events have the header.
        answer = c.modern("tools/call", {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(1)\n8", "session": lost, "wait": 0.1}},
                          meta={"progressToken": 1}).response()
        running = answer.json()["result"]
        name = running["structuredContent"]["session"]
        self.assertEqual((running["structuredContent"]["status"], answer.headers["cloister-session"]), ("running", name))
        self.assertIn(f'session "{lost}" was lost', running["content"][0]["text"])
        answer = c.modern("tools/call", {"name": "run_python", "arguments": {"session": name}}, meta={"progressToken": 2}).response()
        self.assertEqual((answer.json()["result"]["structuredContent"]["value"]["json"], answer.headers["cloister-session"]), (8, name))

    def test_branches_continue_names(self):
        c = self.connect()
        base = self.said(c.call("x = 1"))[0]["session"]
        made, header = self.said(c.call("x + 1", session=f"{base}-b", **{"from": base}))
        self.assertEqual((made["value"]["json"], header), (2, f"{base}-b"))
        self.assertEqual(self.said(c.call("x", session=f"{base}-b"))[0]["state"], "kept")
        refused = c.modern("tools/call", {"name": "run_python", "arguments": {"code": "x", "from": base, "branches": 2, "session": f"n1-{DIGITS}"}},
                           Mcp_Param_Session=f"n1-{DIGITS}").response().json()["result"]
        self.assertIn("session begins with the name of another node", refused["content"][0]["text"])

    def test_a_name_cannot_split_the_header(self):
        c = self.connect()
        for name in ("a\r\nX-Evil: 1", "a\nb", "a\0b", "ä", "a b", "a" * 65):
            with self.subTest(name=name):
                params = {"name": "run_python", "arguments": {"code": "1", "session": name}}
                encoded = "=?base64?" + base64.b64encode(name.encode()).decode() + "?="
                answer = c.modern("tools/call", params, Mcp_Param_Session=encoded).response()
                self.assertTrue(answer.json()["result"]["isError"])
                self.assertNotIn("x-evil", answer.headers)
                self.assertNotIn("cloister-session", answer.headers)

    def test_answers_about_no_session_name_none(self):
        c = self.connect()
        for arguments in ({"session": "nobody"}, {"session": "nobody", "wait": 1}, {"session": "nobody", "interrupt": True}, {"session": "nobody", "code": 5}):
            answer = c.modern("tools/call", {"name": "run_python", "arguments": arguments}).response()
            self.assertTrue(answer.json()["result"]["isError"])
            self.assertNotIn("cloister-session", answer.headers)

    def test_readyz_names_the_node_and_refuses_leases(self):
        harness.wait_until(lambda: self.check(path="/readyz") == 200)
        answer = self.connect().request("GET", "/readyz").response()
        self.assertEqual((answer.status, answer.json()), (200, {"status": "ready", "node": "n2"}))
        self.assertEqual(self.check(), 403)


class Lease(Node):
    # The lease is longer than a busy machine delays a call.
    LEASE = 4 * harness.SLOW
    NODE = {"name": "n2", "lease": LEASE, "balancers": ["127.0.0.1"]}

    def ready(self):
        """A balancer's checks have found the server ready."""
        harness.wait_until(lambda: self.check() == 200)

    def keep(self, seconds, address="127.0.0.1"):
        """Sends checks for this many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check(address)
            time.sleep(self.LEASE / 8)

    def test_a_stopped_server_loses_chosen_names(self):
        self.ready()
        c = self.connect()
        self.assertEqual(self.said(c.call("x = 100", session="work"))[0]["state"], "new")
        minted = self.said(c.call("x = 7"))[0]["session"]
        self.keep(self.LEASE * 1.2)
        self.assertEqual(self.said(c.call("x", session="work"))[0]["state"], "kept")
        processes = [self.server.pid, *harness.descendants(self.server.pid)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(self.LEASE * 1.3)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        self.ready()  # before the next call
        lost = self.said(c.call("'x' in globals()", session="work"))[0]
        self.assertEqual((lost["state"], lost["value"]["json"]), ("new", False))
        self.assertRegex(lost["notice"], r'variables and files were lost: no check of the balancer had reached node "n2" for \d+\.\d s, so this name may have been used on another')
        kept = self.said(c.call("x", session=minted))[0]
        self.assertEqual((kept["state"], kept["value"]["json"]), ("kept", 7))
        self.check()
        self.assertEqual(self.said(c.call("1", session="work"))[0]["state"], "kept")

    def test_only_a_balancer_renews(self):
        self.ready()
        c = self.connect()
        self.assertEqual(self.said(c.call("x = 1", session="work"))[0]["state"], "new")
        until = time.monotonic() + self.LEASE * 1.3
        while time.monotonic() < until:
            self.assertEqual(self.check("127.0.0.2"), 403)
            self.assertEqual(self.check("127.0.0.1", "/readyz"), 200)
            self.assertEqual(self.check("127.0.0.1", "/healthz"), 200)
            time.sleep(self.LEASE / 8)
        self.assertIn(LOST, self.said(c.call("1", session="work"))[0].get("notice", ""))

    def test_a_running_cell_finishes_and_its_session_is_lost(self):
        self.ready()
        c = self.connect()
        c.call(f"import time\ntime.sleep({self.LEASE * 1.5})\nx = 9\nx", session="work")
        other = self.connect()
        time.sleep(self.LEASE * 1.2)
        self.assertEqual(self.said(other.call("1", session="other"))[0]["state"], "new")
        self.assertEqual(self.said(c)[0]["value"]["json"], 9)
        lost = self.said(other.call("1", session="work"))[0]
        self.assertIn(LOST, lost.get("notice", ""), lost)


class Refusals(harness.Case):
    def refused(self, node, **env):
        result = subprocess.run([harness.CLOISTER, "serve", "--config", self.config(node=node), "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                capture_output=True, env=harness.environment(**env), cwd=self.dir, timeout=harness.PATIENCE, check=False)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr.decode()

    def test_a_name_that_is_none(self):
        self.assertIn("node: ${ORDINAL_X}: the variable is not set", self.refused("n${ORDINAL_X}"))
        self.assertIn('node: \\"nN-1\\" is not a name of a node: it has 1 to 16 lower-case letters and digits', self.refused("n${ORDINAL_X}", ORDINAL_X="N-1"))
        self.assertIn("lease needs node.balancers", self.refused({"name": "n1", "lease": 5}))


class WithoutNode(Serve):
    def test_names_stay_as_they_were(self):
        c = self.connect()
        answer = c.call("1", session=f"n1-{DIGITS}").response()
        self.assertEqual(answer.json()["result"]["structuredContent"]["session"], f"n1-{DIGITS}")
        self.assertEqual(answer.headers["cloister-session"], f"n1-{DIGITS}")
        self.assertEqual(self.connect().request("GET", "/readyz").response().json(), {"status": "ready"})


if __name__ == "__main__":
    harness.main()
