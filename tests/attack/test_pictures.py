"""Class 148: the process that reads pictures, and its child for each. Their namespaces, files and privileges are compared with those of the monitor."""

import base64
import glob
import os
import time

import harness
import rawmcp
from test_reports_pictures import black


def shown(data):
    return f"import base64\ndisplay(base64.b64decode('{base64.b64encode(data).decode()}'), 'image/png')"


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


def kinds(pid):
    """What the descriptors of a process are: memfd, pipe, socket or a path."""
    return sorted(os.readlink(path).split(":")[0].split(" ")[0] for path in glob.glob(f"/proc/{pid}/fd/[3-9]*") + [f"/proc/{pid}/fd/2"])


class Pictures(rawmcp.ServerCase):
    """Run as root, the tests read more of these processes, which are not dumpable."""

    def images(self, data):
        return [block["type"] for block in self.call(shown(data))["content"]].count("image")

    def process(self):
        (pid,) = [pid for pid in children(self.server.process.pid) if status(pid)["Name"] == "cloister-pictur"]
        return pid

    def test_no_files_no_network_no_privilege(self):
        self.assertEqual(self.images(black(5, 5)), 1)
        pid, monitor = self.process(), self.server.process.pid
        values = status(pid)
        self.assertEqual((values["CapEff"], values["CapPrm"], values["NoNewPrivs"]), ("0" * 16, "0" * 16, "1"))
        self.assertEqual(len(values["NSpid"].split()) - len(status(monitor)["NSpid"].split()), 1)
        if not harness.ROOT:
            return
        self.assertEqual(os.listdir(f"/proc/{pid}/root/"), [])
        self.assertNotEqual(os.listdir(f"/proc/{monitor}/root/"), [])
        for name in ("net", "mnt", "pid", "ipc", "user"):
            self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/{name}"), os.readlink(f"/proc/{monitor}/ns/{name}"))
        with open(f"/proc/{pid}/net/dev", encoding="ascii") as f:
            self.assertEqual([line.split(":")[0].strip() for line in f.read().splitlines()[2:]], ["lo"])

    def test_a_child_has_one_picture_and_a_filter(self):
        self.assertEqual(self.images(black(5, 5)), 1)
        pid, seen = self.process(), []
        self.assertEqual(status(pid)["Seccomp"], "0")
        request = self.server.request("tools/call", {"name": "run_python", "arguments": {"code": shown(black(7900, 7900)), "session": self.session}})
        until = time.monotonic() + harness.PATIENCE
        while not seen and time.monotonic() < until:
            for child in children(pid):
                try:
                    values = status(child)
                    if values["Seccomp"] == "2":
                        seen.append((values["CapEff"], kinds(child) if harness.ROOT else None))
                except OSError:
                    continue
        self.assertTrue(seen)
        self.assertEqual(seen[0][0], "0" * 16)
        if harness.ROOT:
            self.assertEqual(seen[0][1], ["/memfd", "pipe"])
        text = request.result()["content"][0]["text"]
        self.assertIn("image 1 is not shown: it takes more than 0.2 s to check", text)
        self.assertEqual(children(pid), [])

    def test_a_process_that_is_killed(self):
        """The control: pictures are shown before, and by the next process."""
        self.assertEqual(self.images(black(5, 5)), 1)
        before = self.process()
        time.sleep(1)
        os.kill(before, 9)
        while os.path.exists(f"/proc/{before}"):
            time.sleep(0.01)
        self.assertEqual(self.images(black(6, 6)), 1)
        self.assertNotEqual(self.process(), before)


if __name__ == "__main__":
    harness.main()
