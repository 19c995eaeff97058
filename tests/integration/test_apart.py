"""Stdio servers apart: each sees its own processes only, and reads no variable of another one. Class 153."""

import os
import shutil
import signal
import subprocess
import unittest

import harness
import rawmcp

SNOOP = os.path.join(harness.HERE, "servers", "snoop.py")
TELL = "import os, sys\nopen(sys.argv[1], 'w').write(' '.join(p for p in os.listdir('/proc') if p.isdigit()) + '\\n' + os.readlink('/proc/self/ns/pid'))\nprint('t')"


def snoop(token, **rest):
    return {"command": harness.PYTHON, "args": [SNOOP], "env": {"TEST_TOKEN": token}, **rest}


def outside(seen):
    return harness.pid_outside(f"{seen['pid']} {seen['namespace']}")


class Apart(rawmcp.ServerCase):
    ARGUMENTS = ("--log-level", "info")

    @classmethod
    def servers(cls):
        cls.told = os.path.join(cls.class_dir, "told")
        cls.npx = {"command": shutil.which("npx"), "args": ["--no-install", "mcp-server-everything"], "cwd": harness.NODE_DIR}
        if harness.ROOT:
            cls.proc = os.path.join(cls.class_dir, "proc")
            os.mkdir(cls.proc)
            subprocess.run(["mount", "-t", "proc", "proc", cls.proc], check=True)
        return {
            "one": snoop("first"),
            "two": snoop("second"),
            "plain": snoop("third", apart=False),
            "open": snoop("fourth", apart=False),
            "everything": cls.npx,
            "access": {"url": "http://127.0.0.1:1/", "token": {"command": [harness.PYTHON, "-c", TELL, cls.told]}},
            "su": {"command": "su", "args": ["-c", "true"]},
            "shell": {"command": "sh", "args": ["-c", "echo 'su: must be suid to work properly' >&2; exit 1"]},
            "other": {"command": "sh", "args": ["-c", "echo 'no such module' >&2; exit 1"]},
        }

    @classmethod
    def tearDownClass(cls):
        if harness.ROOT:
            subprocess.run(["umount", "-l", cls.proc], check=True)
        super().tearDownClass()

    def tool(self, server, name, **arguments):
        return self.ok(f"await mcp_{server}.{name}(**{arguments!r})")["value"]["json"]

    def failure(self, server):
        code = f"try:\n    await tools['{server}.x']()\nexcept ToolError as e:\n    r = str(e)\nr"
        return self.ok(code, wait=60)["value"]["json"]

    def start_all(self):
        for server in ("one", "two", "plain", "open"):
            self.tool(server, "leave" if server == "plain" else "look")

    def test_it_sees_no_process_of_others(self):
        self.start_all()
        seen = self.tool("one", "look")
        self.assertEqual(sorted(seen["names"]), ["1", str(seen["pid"])], seen)
        self.assertEqual(seen["names"]["1"], "cloister-reaper")
        self.assertEqual(seen["tokens"], [])
        self.assertEqual(seen["ids"], [os.getuid(), os.getgid()])
        self.assertNotEqual(seen["namespace"], self.tool("two", "look")["namespace"])
        # The control: two that are not apart.
        control = self.tool("open", "look")
        self.assertEqual(control["namespace"], os.readlink("/proc/self/ns/pid"))
        self.assertIn("third", control["tokens"])
        self.assertIn("cloister-monito", control["programs"])

    def test_another_mount_of_proc_does_not_help(self):
        """The user namespace refuses what the process table does not hide."""
        if not harness.ROOT:
            self.skipTest("only root can mount another /proc")
        self.start_all()
        seen = self.tool("one", "look", proc=self.proc)
        self.assertIn("cloister-monito", seen["programs"], "the mount did not arrive")
        self.assertEqual(seen["tokens"], [])
        self.assertIn("third", self.tool("open", "look", proc=self.proc)["tokens"])

    def test_pid_1_is_out_of_reach(self):
        seen = self.tool("one", "first")
        self.assertEqual(set(seen.values()), {"Permission denied"}, seen)
        self.assertEqual(self.tool("one", "look")["names"]["1"], "cloister-reaper")

    def test_proc_stays_and_sandboxes_inside_work(self):
        self.assertEqual(self.tool("one", "uncover"), ["Operation not permitted", 0])
        if not harness.ROOT:  # the kernel has no id 0 in them, unless it has CAP_SETFCAP
            self.assertEqual(self.tool("one", "nest"), [0])
        self.assertEqual(self.tool("one", "look")["tokens"], [])

    def test_the_process_of_a_url_is_apart(self):
        self.failure("access")
        self.assertTrue(harness.wait_until(lambda: os.path.exists(self.told) and os.path.getsize(self.told)))
        with open(self.told, encoding="ascii") as f:
            pids, namespace = f.read().split("\n")
        self.assertLessEqual(len(pids.split()), 3, pids)
        self.assertIn("1", pids.split())
        self.assertNotEqual(namespace, os.readlink("/proc/self/ns/pid"))

    @harness.needs_node
    def test_npx(self):
        self.assertIn("hi", self.ok("str(await mcp_everything.echo(message='hi'))", wait=60)["value"]["json"])

    def test_a_server_that_cannot(self):
        way_back = 'set "apart": false for this server'
        refused = self.failure("su")
        if harness.ROOT:
            # Root maps all ids, so that such a program runs, without capabilities.
            self.assertNotIn(way_back, refused)
        else:
            self.assertIn(way_back, refused)
            self.assertIn("changes its user", refused)
        self.assertIn(way_back, self.failure("shell"))
        self.assertNotIn(way_back, self.failure("other"))
        self.assertEqual(refused.count("\n"), 0)

    def test_its_end_is_seen_and_its_orphans_end(self):
        """The monitor notices the end of a server; a process that left its session ends with it."""
        for number, kill in ((signal.SIGTERM, "server"), (signal.SIGKILL, "server"), (signal.SIGKILL, "reaper"), (signal.SIGTERM, "reaper")):
            with self.subTest(number, kill=kill):
                pids = outside(self.tool("two", "look")), outside(self.tool("two", "leave"))
                self.assertTrue(all(pids), pids)
                reaper = harness.stat_of(pids[0])[0]
                if (number, kill) == (signal.SIGTERM, "reaper"):
                    os.kill(pids[0], signal.SIGSTOP)
                os.kill(pids[0] if kill == "server" else reaper, number)
                self.assertTrue(harness.wait_until(lambda: not any(harness.alive(p) for p in (*pids, reaper))))
                self.assertNotIn(outside(self.tool("two", "look")), (None, *pids))


class KilledMonitor(harness.Case):
    def test_all_end_with_the_monitor(self):
        config = self.config({"one": snoop("first")})
        server = rawmcp.RawServer("--config", config, cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        pids = [outside(seen) for seen in server.cell("[await mcp_one.look(), await mcp_one.leave()]")["value"]["json"]]
        self.assertTrue(all(pids))
        server.process.kill()
        self.assertTrue(harness.wait_until(lambda: not any(harness.alive(pid) for pid in pids)))


if __name__ == "__main__":
    harness.main()
