"""Classes 101 to 118: tools, servers, credentials, network. Where Cloister has no such part, the tests show that it has none."""

import os
import socket
import subprocess
import sys

import harness
import rawmcp

TOKEN = "attack-token-" + os.urandom(8).hex()


class Credentials(rawmcp.ServerCase):
    """106. A token of the config reaches its server only."""

    @classmethod
    def servers(cls):
        return {"one": harness.fixture("--name", "one", env={"SERVICE_TOKEN": TOKEN}), "two": harness.fixture("--name", "two")}

    def holders(self, *names):
        """{(process, file)} below the server whose file of /proc holds the token, as far as this user may read."""
        found = set()
        for pid, name in {**harness.descendants(self.server.process.pid), self.server.process.pid: "monitor"}.items():
            for file in names:
                try:
                    with open(f"/proc/{pid}/{file}", "rb") as f:
                        if TOKEN.encode() in f.read():
                            found.add((name, file))
                except OSError:
                    pass
        return found

    def test_the_server_that_it_is_for_has_it(self):
        self.assertEqual(self.value("(await mcp_one.environment())['env'].get('SERVICE_TOKEN')"), TOKEN)
        self.assertEqual(self.value("'SERVICE_TOKEN' in (await mcp_two.environment())['env']"), False)

    def test_not_in_arguments_or_environments_of_others(self):
        self.ok("await mcp_one.echo(a=1), await mcp_two.echo(a=1)")
        held = self.holders("environ", "cmdline")
        # The control: the token is found only in the server's own environment. Every user can read command lines.
        self.assertEqual({file for _, file in held}, {"environ"}, held)
        self.assertEqual(len(held), 1, held)

    @staticmethod
    def as_another_user(code):
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(65533, 65533, 65533)
            os.setresuid(65533, 65533, 65533)
            os._exit(code())
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_another_user_finds_nothing(self):
        if not harness.ROOT:
            self.skipTest("only root can become another user")
        self.ok("await mcp_one.echo(a=1)")
        self.assertEqual(self.as_another_user(lambda: len(self.holders("environ", "cmdline", "maps", "mem"))), 0)
        self.assertGreater(len(self.holders("environ")), 0)

    def test_not_in_the_sandbox(self):
        """The token is not in any file and not in the process's memory. The control is a string that the code created."""
        halves = [TOKEN[:14], TOKEN[14:]]
        code = f"""
import os
def found(halves):
    token, places = ''.join(halves).encode(), []
    for folder, names, files in os.walk('/'):
        names[:] = [n for n in names if f'{{folder.rstrip("/")}}/{{n}}' not in ('/proc', '/usr/lib', '/lib')]
        for name in files:
            try:
                with open(os.path.join(folder, name), 'rb') as f:
                    if os.path.isfile(f.name) and token in f.read(1 << 22): places.append(f.name)
            except OSError: pass
    for name in ('environ', 'cmdline'):
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{{pid}}/{{name}}', 'rb') as f:
                    if token in f.read(): places.append(f.name)
            except OSError: pass
    return places
first = found({halves!r})
with open('/tmp/control', 'w') as f: f.write(''.join({halves!r}))
[first, found({halves!r})]
"""
        self.assertEqual(self.value(code), [[], ["/tmp/control"]])

    def test_not_in_the_log(self):
        self.ok("await mcp_one.echo(a=1)")
        self.assertNotIn(TOKEN, self.server.log())


class NoListener(rawmcp.ServerCase):
    """108 to 111: `cloister mcp` serves no HTTP (`cloister serve` does: test_serve.py). 112 to 115: a profile that allows no network has
    no proxy (the others: test_network.py)."""

    SERVERS = {"one": harness.fixture()}

    def inet_sockets(self, root):
        """Returns the sockets of the processes below root that /proc/net lists as TCP, UDP or raw."""
        known = set()
        for table in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
            try:
                with open(f"/proc/net/{table}", encoding="ascii") as f:
                    known |= {line.split()[9] for line in f.readlines()[1:]}
            except FileNotFoundError:
                pass
        found = set()
        for pid in [root, *harness.descendants(root)]:
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    link = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if link.startswith("socket:[") and link[8:-1] in known:
                        found.add((pid, link))
            except OSError:
                pass
        return found

    def test_no_process_has_an_internet_socket(self):
        self.ok("await mcp_one.echo(a=1)")
        self.assertEqual(self.inet_sockets(self.server.process.pid), set())
        with socket.create_server(("127.0.0.1", 0)):
            self.assertEqual(len(self.inet_sockets(os.getpid()) - self.inet_sockets(self.server.process.pid)), 1)

    def test_names_are_not_resolved(self):
        """114. No resolver answers, and nothing could carry a question; the control is a name of /etc/hosts, outside."""
        code = """
import socket
def attempt(name):
    try:
        return len(socket.getaddrinfo(name, 80)) > 0
    except OSError as e:
        return type(e).__name__
[attempt(f'{i}.attack.example') for i in range(3)] + [attempt('8.8.8.8.nip.io')]
"""
        self.assertEqual(set(self.value(code)), {"gaierror"})
        self.assertTrue(socket.getaddrinfo("localhost", 80))

    def test_raw_sockets_and_vsock(self):
        """116, 117. The filter's errno; the control is outside, where the kernel answers otherwise, or allows it as root."""
        code = """
import errno, socket
def attempt(*arguments):
    try:
        socket.socket(*arguments).close()
        return 0
    except OSError as e:
        return e.errno
value = [attempt(2, 3, 1), attempt(10, 3, 58), attempt(17, 3, 0), attempt(2, 2, 1), attempt(40, 1, 0), attempt(16, 3, 0), attempt(1, 1, 0)]
"""
        inside = self.value(code + "value")
        outside = subprocess.run([sys.executable, "-c", code + "print(value)"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(inside[-1], 0)
        self.assertTrue(all(inside[:-1]), inside)
        # Outside, every process may use AF_NETLINK.
        self.assertEqual(outside.strip("[]\n").split(", ")[-2:], ["0", "0"])


class Policy(rawmcp.ServerCase):
    """105. The servers of a profile are all that its sessions can name; the control is a profile that has the server."""

    SERVERS = {"open": harness.fixture("--name", "open"), "closed": harness.fixture("--name", "closed")}
    CONFIG = {"profiles": {"one": {"agent": True, "servers": ["open"]}}}

    ATTEMPTS = """
import json
names = ["closed.echo", "../closed.echo", "closed", "open/../closed.echo", "CLOSED.echo", "closed\\u200b.echo", "open.initialize", "open.roots/list",
         "sampling/createMessage", "open.tools/call"]
found = []
for name in names:
    try:
        await tools[name](a=1)
        found.append(name)
    except Exception as e:
        pass
found
"""

    def test_no_other_server_and_no_other_method(self):
        self.assertEqual(self.value("await mcp_open.echo(a=1)", session="one", profile="one"), {"a": 1})
        self.assertEqual(self.value(self.ATTEMPTS, session="one"), [])
        self.assertEqual(self.value(self.ATTEMPTS), ["closed.echo"])


if __name__ == "__main__":
    harness.main()
