"""The proxy process of the sessions' network is killed: another one takes over, and after the last one the client gets an error."""

import contextlib
import json
import os
import select
import signal
import time
import unittest

import harness
from test_network import GUEST, Network


# Seconds between questions, and the number of questions without an answer (supervisor/broker/network.h).
ASK, MISSED = 3, 4


def proxies(server):
    """Returns the proxies below a server's process, in the order of their start."""
    parents, found = {}, []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", encoding="latin1") as f:
                head, _, rest = f.read().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        parents[pid] = int(fields[1])
        if head.endswith("(cloister-egress") and fields[0] not in "ZX":
            found.append((int(fields[19]), pid))
    def is_below(pid):
        while pid > 1 and pid != server:
            pid = parents.get(pid, 0)
        return pid == server
    return [pid for _, pid in sorted(found) if is_below(pid)]


class Ends(Network):
    def kill(self, server, n=1):
        """Kills the proxy that serves and the next ones that wait. When it returns, their descriptors are closed."""
        with contextlib.ExitStack() as stack:
            ends = []
            for pid in proxies(server.process.pid)[:n]:
                ends.append(self.watch(pid, stack))
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(len(ends), n)
            for end in ends:
                self.assertTrue(select.select([end], [], [], harness.PATIENCE)[0], "still there")

    def watch(self, pid, stack):
        """Returns a descriptor that becomes readable when the process has ended."""
        end = os.pidfd_open(pid)
        stack.callback(os.close, end)
        return end

    def log(self, server):
        return server.log().splitlines()

    def test_another_one_takes_over(self):
        far = self.far()
        server = self.local(far, max_bytes="1M")
        url = f"http://localhost:{far.port}/"
        self.ask(server, GUEST, session="two")
        self.assertEqual(len(proxies(server.process.pid)), 4)
        self.assertEqual(self.ask(server, f'kept = 7; s, line = tunnel("localhost", {far.port}); fetch("{url}big/600000").replace("x", "")'), "")
        # An open connection ends; the next cell uses the next proxy, also if no request came before it.
        self.kill(server)
        self.assertEqual(self.ask(server, "s.settimeout(10); rest(s).decode()"), "")
        # The broker may notice the end slightly later than the code.
        told = self.cell.get("notice", "")
        self.assertEqual(self.ask(server, f'[kept, fetch("{url}")]'), [7, "hello"])
        told += self.cell.get("notice", "")
        self.assertEqual(told, "the proxy has ended and another one has taken over: connections were closed, requests can be repeated")
        (told,) = self.cell["network"]
        self.assertEqual((told["host"], told["requests"]), ("localhost", 1))
        self.assertLess(told["bytes_in"], 1000)
        # Bytes that were moved before count: the new proxy does not grant max_bytes again.
        self.ask(server, f'fetch("{url}big/600000")')
        self.assertIn("max_bytes of profile", self.ask(server, f'fetch("{url}")') + self.cell["notice"])
        # Sessions that made no request, and new sessions.
        self.assertEqual(self.ask(server, f'fetch("{url}")', session="two"), "hello")
        self.assertIn("has taken over", self.cell["notice"])
        self.assertEqual(self.ask(server, GUEST + f'fetch("{url}")', session="three"), "hello")
        self.assertNotIn("notice", self.cell)

    def test_one_that_hangs_is_killed(self):
        far = self.far()
        server = self.local(far)
        url = f"http://localhost:{far.port}/"
        self.ask(server, GUEST)
        with contextlib.ExitStack() as stack:
            first, *rest = proxies(server.process.pid)
            end = self.watch(first, stack)
            os.kill(first, signal.SIGSTOP)
            stack.callback(signal.pidfd_send_signal, end, signal.SIGCONT)
            # A short stop is not a hang: the proxy has missed one question at least.
            self.assertFalse(select.select([end], [], [], ASK + 3)[0])
            os.kill(first, signal.SIGCONT)
            self.assertEqual(self.ask(server, f'fetch("{url}")'), "hello")
            self.assertFalse(select.select([end], [], [], ASK + 3)[0])
            self.assertEqual(proxies(server.process.pid), [first, *rest])
            os.kill(first, signal.SIGSTOP)
            begin = time.monotonic()
            # The next proxy answers code that waits.
            self.assertEqual(self.ask(server, f'urllib.request.urlopen("{url}", timeout=60).read().decode()'), "hello")
            # It was killed before the next one got a request; the kernel may take a moment to end it.
            self.assertTrue(select.select([end], [], [], 2 * harness.SLOW)[0], "another one has answered, and this one still runs")
            self.assertLess(time.monotonic() - begin, (MISSED + 1) * ASK + 2 * harness.SLOW)
        self.assertEqual(proxies(server.process.pid), rest)
        lines = [line for line in self.log(server) if "the process that has the network" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("did not answer, and was killed: another one has taken over, 2 are left", lines[0])

    def test_after_the_last_one_the_agent_is_told(self):
        far = self.far()
        server = self.local(far)
        url = f"http://localhost:{far.port}/"
        self.assertEqual(self.ask(server, f'kept = 7; s = connect(); fetch("{url}")'), "hello")
        self.kill(server, 4)
        ended = "the network of this server has ended: restart Cloister"
        # The broker has closed its listeners too: before that, a connection is reset instead of refused.
        self.assertTrue(harness.wait_until(lambda: ended in server.log()))
        self.assertIn("refused", self.ask(server, f'rest(s); fetch("{url}")'))
        self.assertEqual(self.cell["notice"], ended)
        # Nothing else is lost: variables stay, and new sessions start.
        self.assertEqual(self.ask(server, "kept"), 7)
        self.assertIn("refused", self.ask(server, GUEST + f'fetch("{url}")', session="two"))
        self.assertEqual(self.cell["notice"], ended)
        self.assertEqual(server.cell("1 + 1", session="none", profile="other").get("notice"), None)
        done = self.run_cloister("sessions", "--json", "--server", str(server.process.pid))
        (shown,) = json.loads(done.stdout)
        self.assertEqual(shown["network"], "ended")
        self.assertEqual(len([line for line in self.log(server) if "the network of this server has ended" in line]), 1)


if __name__ == "__main__":
    harness.main()
