"""Classes 1 to 20: the process boundary."""

import os

import harness
import rawmcp


class Namespaces(rawmcp.ServerCase):
    def test_all_eight_namespaces_differ_from_the_host(self):
        """19. The control is this process, whose own are the host's."""
        code = "import os; {kind: os.readlink(f'/proc/self/ns/{kind}') for kind in sorted(os.listdir('/proc/self/ns'))}"
        inside = self.value(code)
        host = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in os.listdir("/proc/self/ns")}
        self.assertGreaterEqual(set(host), {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "pid_for_children"})
        self.assertEqual(set(inside), set(host))
        shared = [kind for kind in host if inside[kind] == host[kind]]
        self.assertEqual(shared, [], "shared with the host")


if __name__ == "__main__":
    harness.main()
