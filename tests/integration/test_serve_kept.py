"""What is kept for a principal of `cloister serve` ends with its token: a name that comes back is another principal, which finds nothing
of the first. KINDS has every kind of thing that is kept; test_every_kind_is_here fails when the server keeps another one."""

import glob
import json
import os
import re
import time

import harness
from test_serve_access import TokenFile
from test_serve_asks import ANSWER, CAPABILITIES, CODE, FAULTY, FORM

MARK = "mark-of-the-first"
PUBLISH = {"tools": {
    "spare": {"description": "Hidden at first", "hidden": True, "code": "1"},
    "extra": {"description": "Shown at first", "code": "1"},
    "choose": {"description": "Chooses", "code": "show('spare')\nhide('extra')"},
    "ask": {"description": "Asks", "code": f"(await elicit('Who?', {FORM['requestedSchema']}, key='who'))['content']['name'] + ' {MARK}'"},
}}
META = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}

# The members of struct mcp_principal: the kind of thing that is kept there, or why nothing is.
MEMBERS = {
    "name": "the name", "key": "the name", "server": "not its own", "profile": "of the config", "calls_max": "of the file",
    "cells_per_minute": "of the file", "cells_until_us": "a count", "sessions_max": "of the file", "n_calls": "a count", "n_kept": "a count", "n_clients": "a count", "resources_serial": "a count", "round": "a count",
    "store": "output file", "tasks": "task", "published": "choice", "states": "request_state",
    "late": "ended questions, freed with it",
}
# All structs that refer to a principal.
HOLDERS = {
    "http_connection": "its connections end (test_serve_access.py)", "http_session": "client", "mcp_peer": "client", "mcp_task": "task",
    "mcp_call": "waiting running suspended kept", "resource_read": "its connections end", "subscription": "its connections end",
    "mcp_request": "its connections end", "task_waiter": "its connections end", "http_stream": "client", "mode_server": "standard input and output",
    "rights": "an argument while the config is read",
}
# Other data that is kept by the principal's key.
KEYS = {"session": "variables checkpoint receipt listed"}


class Kept(TokenFile):
    def setUp(self):
        harness.Case.setUp(self)
        self.tokens = self.path("tokens")
        self.log = self.path("log")
        self.put(f"alice {self.ALICE}\nbob {self.BOB}\n")
        path = self.config({"faulty": {"command": harness.PYTHON, "args": [FAULTY]}}, name="kept.json", publish=PUBLISH)
        self.server = self.start("--listen", "127.0.0.1:0", "--tokens", self.tokens, "--log-file", self.log, "--log-level", "info", "--config", path)

    def ask(self, token, method, params=None, **more):
        """The answer of a modern request, as text and as an object."""
        response = self.connect().modern(method, params or {}, meta=META, Authorization=f"Bearer {token}", **more).response()
        messages = [m for _, m in response.events() if m] if response.chunked else [response.json()]
        return messages[-1]

    def tool(self, token, name, arguments, **more):
        return self.ask(token, "tools/call", {"name": name, "arguments": arguments, **more})

    def run_code(self, token, code, **arguments):
        return self.tool(token, "run_python", {**({} if code is None else {"code": code}), **arguments})

    def legacy(self, token, method, params=None, session=None):
        headers = {"Authorization": f"Bearer {token}", "MCP_Protocol_Version": "2025-11-25"}
        session = session or self.initialize(self.connect(), Authorization=f"Bearer {token}")
        return self.connect().post({"jsonrpc": "2.0", "id": 5, "method": method, "params": params or {}}, **headers, Mcp_Session_Id=session).response()

    @staticmethod
    def has_mark(answer):
        return MARK in json.dumps(answer)

    # ---- each kind: make() returns what find() needs; find() says whether this token has access to it ----

    def make_variables(self, n):
        self.run_code(self.BOB, f"x = {MARK!r}", session=f"variables{n}")
        return f"variables{n}"

    def find_variables(self, token, name):
        return self.has_mark(self.run_code(token, "x", session=name))

    def make_checkpoint(self, n):
        self.run_code(self.BOB, f"x = {MARK!r}", session=f"checkpoint{n}", checkpoint="good")
        return f"checkpoint{n}"

    def find_checkpoint(self, token, name):
        return self.has_mark(self.run_code(token, "x", session=name, restore="good"))

    def make_receipt(self, n):
        self.run_code(self.BOB, "1", session=f"receipt{n}")
        return f"cloister://sessions/receipt{n}/cells/1/receipt"

    def find_uri(self, token, uri):
        return "result" in self.ask(token, "resources/read", {"uri": uri})

    find_receipt = find_output = find_file = find_uri

    def make_output(self, n):
        self.run_code(self.BOB, "print('y' * 50000)", session=f"output{n}")
        return f"cloister://sessions/output{n}/cells/1/stdout"

    def make_file(self, n):
        answer = self.run_code(self.BOB, "import os\nos.makedirs('out', exist_ok=True)\nopen('out/made.txt', 'w').write('1')", session=f"file{n}")
        return re.search(r"cloister://sessions/[^\"]*/files/[^\"]*", json.dumps(answer))[0]

    def make_listed(self, n):
        self.run_code(self.BOB, "print('y' * 50000)", session=f"listed{n}")
        return f"sessions/listed{n}/"

    def find_listed(self, token, part):
        return part in json.dumps(self.ask(token, "resources/list"))

    def make_waiting(self, n):
        """Its request waits for the code."""
        self.call(self.BOB, f"import time\nprint({MARK!r}, flush=True)\ntime.sleep(60)", session=f"waiting{n}")
        self.assertTrue(harness.wait_until(lambda: f"waiting{n}" in self.run_cloister("sessions", "--json").stdout.decode()))
        return f"waiting{n}"

    def make_running(self, n):
        """No request waits for the code, which continues."""
        self.run_code(self.BOB, f"import time\ntime.sleep(1)\nprint({MARK!r}, flush=True)\ntime.sleep(60)", session=f"running{n}", wait=0)
        return f"running{n}"

    def make_kept(self, n):
        """The code ends soon; no client has fetched the result."""
        self.run_code(self.BOB, f"import time\ntime.sleep(0.2)\nprint({MARK!r})", session=f"kept{n}", wait=0)
        return f"kept{n}"

    def find_waiting(self, token, name):
        return self.has_mark(self.run_code(token, None, session=name, wait=2))

    find_running = find_kept = find_waiting

    def make_suspended(self, n):
        """The code waits for the answer to a question."""
        arguments = {"code": CODE + f", {MARK!r}", "session": f"suspended{n}"}
        return arguments, self.tool(self.BOB, "run_python", arguments)["result"]

    def find_suspended(self, token, made):
        arguments, result = made
        responses = {key: ANSWER for key in result["inputRequests"]}
        return "result" in self.tool(token, "run_python", arguments, requestState=result["requestState"], inputResponses=responses)

    def make_request_state(self, n):
        return self.tool(self.BOB, "ask", {})["result"]

    def find_request_state(self, token, result):
        return self.has_mark(self.tool(token, "ask", {}, requestState=result["requestState"], inputResponses={"who": ANSWER}))

    def make_choice(self, n):
        self.tool(self.BOB, "choose", {})

    def find_choice(self, token, made):
        names = {t["name"] for t in self.ask(token, "tools/list")["result"]["tools"]}
        return "spare" in names or "extra" not in names

    def make_task(self, n):
        code = {"name": "run_python", "arguments": {"code": f"import time\ntime.sleep(1)\n{MARK!r}", "session": f"task{n}"}, "task": {"ttl": 600000}}
        return self.legacy(self.BOB, "tools/call", code).json()["result"]["task"]["taskId"]

    def find_task(self, token, id):
        response = self.legacy(token, "tasks/result", {"taskId": id})
        return self.has_mark([m for _, m in response.events()] if response.chunked else response.json())

    def make_client(self, n):
        return self.initialize(self.connect(), Authorization=f"Bearer {self.BOB}")

    def find_client(self, token, session):
        return self.legacy(token, "ping", session=session).status == 200

    KINDS = [name[5:] for name in list(locals()) if name.startswith("make_")]

    # ---- tests ----

    def give_away(self):
        """The name gets a new holder."""
        self.put(f"alice {self.ALICE}\n")
        self.logged("bob: the token was removed")
        self.put(f"alice {self.ALICE}\nbob {self.LATER}\n")
        self.assertTrue(harness.wait_until(lambda: self.status_of(self.LATER) == 200))

    def test_nothing_is_found(self):
        for kind in self.KINDS:
            made = getattr(self, "make_" + kind)(1)
            # Another principal does not find it. The control: the principal itself finds it.
            self.assertFalse(getattr(self, "find_" + kind)(self.ALICE, made), kind)
            self.assertTrue(harness.wait_until(lambda kind=kind, made=made: getattr(self, "find_" + kind)(self.BOB, made)), f"the control of {kind}")
        made = {kind: getattr(self, "make_" + kind)(2) for kind in self.KINDS}
        self.give_away()
        for kind in self.KINDS:
            self.assertFalse(getattr(self, "find_" + kind)(self.LATER, made[kind]), kind)
        # Also not what ends later.
        for kind in ("waiting", "running", "kept", "task"):
            self.assertFalse(getattr(self, "find_" + kind)(self.LATER, made[kind]), kind)

    def test_tasks_that_wait_do_not_run(self):
        client = self.make_client(1)
        for token, session in ((self.BOB, client), (self.BOB, client), (self.ALICE, None)):
            code = {"name": "run_python", "arguments": {"code": "import time\ntime.sleep(60)", "session": "tasks"}, "task": {"ttl": 600000}}
            self.assertIn("task", self.legacy(token, "tools/call", code, session=session).json()["result"])

        def live():
            listed = harness.message_of(self.run_cloister("sessions", "--json").stdout)
            return {s["name"]: (s["state"], s["waiting"]) for server in listed for s in server["sessions"] if ":tasks" in s["name"]}

        self.assertTrue(harness.wait_until(lambda: live() == {"bob:tasks": ("running", 1), "alice:tasks": ("running", 0)}), live())
        self.put(f"alice {self.ALICE}\n")
        self.logged("bob: the token was removed")
        self.assertTrue(harness.wait_until(lambda: "bob:tasks" not in live()))
        time.sleep(1)
        # The second one would be in a new sandbox. The control: those of another principal continue.
        self.assertEqual(live(), {"alice:tasks": ("running", 0)})

    def test_every_kind_is_here(self):
        source = os.path.join(harness.SOURCE, "supervisor")
        with open(f"{source}/mcp/state.h", encoding="utf-8") as f:
            body = re.search(r"^struct mcp_principal \{\n(.*?)^\};", f.read(), re.M | re.S)[1]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        members = {re.match(r"\**(\w+)", name)[1] for line in body.split(";") for name in re.findall(r"(?:^|[ ,])(\*?\w+(?:\[[^\]]*\])?)(?=,|$)", line.strip())}
        self.assertEqual(members, set(MEMBERS), "struct mcp_principal has other members: add their kind")
        holders = set()
        for path in glob.glob(f"{source}/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8") as f:
                for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", f.read(), re.M | re.S):
                    if re.search(r"struct mcp_(principal|peer)\s+\*", re.sub(r"/\*.*?\*/", "", body, flags=re.S)):
                        holders.add(name)
        self.assertEqual(holders, set(HOLDERS), "other structs refer to a principal: add the kinds that they keep")
        kinds = {word for table in (MEMBERS, HOLDERS, KEYS) for text in table.values() for word in text.split() if word in self.KINDS}
        self.assertEqual(kinds, set(self.KINDS))


if __name__ == "__main__":
    harness.main()
