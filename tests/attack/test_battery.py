"""`cloister doctor --attack`: its findings in each kind of profile. It must find everything that is open."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
import rawmcp


KNOWN = 'not mitigated for this process: set "speculation": "disabled"'


def not_held(report):
    """The rows that are neither held nor known. Whether speculation is left to each process depends on the processor."""
    known = [r for r in report["rows"] if r["verdict"] == "known"]
    strange = [r for r in known if (r["class"], r["found"]) != (127, KNOWN) or r["group"] not in ("worker", "identity")]
    return strange + [r for r in report["rows"] if r["verdict"] not in ("held", "known") and "cannot be read" not in r["found"]]


class Battery(harness.Case):
    def attack(self, *args, status=0):
        done = self.run_cloister("doctor", "--attack", "--json", *args, timeout=120)
        self.assertEqual(done.returncode, status, (done.stdout[-2000:], done.stderr))
        return json.loads(done.stdout) if done.stdout else done.stderr.decode()

    def found(self, report, item, group=None):
        rows = [r for r in report["rows"] if r["item"] == item and group in (None, r["group"])]
        self.assertTrue(rows, item)
        return rows

    def test_nothing_is_open_in_the_default_profile(self):
        """Speculation features that the processor leaves to each process have the verdict "known", on every processor."""
        report = self.attack("--config", self.config())
        self.assertEqual(not_held(report), [])
        self.assertEqual((report["open"], report["profile"]), (0, "default"))
        self.assertGreater(report["held"], 280)
        self.assertEqual(len(report["rows"]), report["held"] + report["known"] + report["untried"])
        groups = {r["group"] for r in report["rows"]}
        self.assertGreaterEqual(groups, {"system calls", "files", "namespaces", "signals", "descriptors", "identity", "image", "limits", "mounts",
                                         "processes", "sockets", "init", "worker", "broker", "stub", "template"})

    def test_speculation_is_disabled(self):
        report = self.attack("--config", self.config(speculation="disabled"))
        self.assertEqual((not_held(report), report["known"]), ([], 0))
        with open("/proc/self/status", encoding="ascii") as f:
            outside = dict(line.rstrip().split(":\t") for line in f if line.startswith("Speculation"))
        # The control: on this processor each process can disable the feature, and outside the sandbox it is enabled.
        if outside.get("Speculation_Store_Bypass") == "thread vulnerable":
            self.assertEqual({r["found"] for r in self.found(report, "speculative store bypass")}, {"thread force mitigated"})
        if outside.get("SpeculationIndirectBranch") == "conditional enabled":
            self.assertEqual({r["found"] for r in self.found(report, "speculation of indirect branches")}, {"conditional force disabled"})

    def test_the_expectation_is_the_profiles(self):
        """These profiles request a writable directory and the loopback network; the rows expect both."""
        folder = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder)
        if harness.ROOT:
            os.chmod(folder, 0o755)
        # With an id for each sandbox, no directory can be written to.
        mode = "ro" if harness.ROOT else "rw"
        config = self.config(profiles={
            "mounted": {"mounts": [{"source": folder, "target": "/mounted", "mode": "ro"}, {"source": folder, "target": "/home/user/data", "mode": mode}]},
            "loopback": {"network": "loopback"},
        })
        report = self.attack("--config", config, "--profile", "mounted")
        self.assertEqual(report["profile"], "mounted")
        self.assertEqual(self.found(report, "/mounted")[0]["found"], "ro")
        self.assertEqual(self.found(report, "/home/user/data")[0]["expected"], mode)
        self.assertEqual(self.found(report, "address families")[0]["expected"], "none")
        report = self.attack("--config", config, "--profile", "loopback")
        self.assertEqual(self.found(report, "address families")[0]["found"], "[1, 2, 10]")
        self.assertEqual({r["found"] for r in self.found(report, "listeners in its network")}, {"none"})

    @unittest.skipIf(harness.ROOT, "tests/integration/test_network_names.py does it, with an allowed host that is reached")
    def test_a_network_that_is_allowed(self):
        config = self.config(profiles={"web": {"network": {"allow": ["localhost:9", "10.0.0.0/8:443"]}}})
        report = self.attack("--config", config, "--profile", "web")
        rows = [r for r in report["rows"] if r["group"] == "network"]
        self.assertEqual([r["item"] for r in rows if r["verdict"] != "held"],
                         ["CONNECT localhost:9, the control", "CONNECT localhost, TLS for not-allowed.invalid", "CONNECT localhost, TLS for no name"])
        self.assertLess({"CONNECT 2130706433", "CONNECT 169.254.169.254", "CONNECT [::ffff:127.0.0.1]", "CONNECT localhost:1"}, {r["item"] for r in rows})
        # It is allowed, by the range.
        self.assertNotIn("CONNECT 10.0.0.1", {r["item"] for r in rows})
        self.assertEqual({r["found"] for r in self.found(report, "listeners in its network")}, {"127.0.0.1:3128 alone"})
        self.assertIn("egress", {r["group"] for r in report["rows"]})

    def test_a_table(self):
        done = self.run_cloister("doctor", "--attack", "--config", self.config())
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        self.assertRegex(done.stdout.decode(), r"(?m)^ +4  system calls: ptrace +EPERM or ENOSYS +EPERM +held$")
        self.assertRegex(done.stdout.decode(), r"\nProfile default: \d+ held, 0 open, \d+ known, \d+ untried\.\n$")

    def test_mistakes(self):
        done = self.run_cloister("doctor", "--profile", "x")
        self.assertEqual((done.returncode, b"--profile needs --attack" in done.stderr), (2, True), done.stderr)
        message = self.attack("--config", self.config(), "--profile", "absent", status=1)
        self.assertIn("absent", message)


class Replaced(harness.Case):
    """The programs are copied, and `cloister run` is replaced."""

    def doctored(self, change):
        """A copy of the programs, whose run passes its output through sed."""
        folder = tempfile.mkdtemp(prefix="programs-", dir=self.dir)
        os.chmod(folder, 0o755)
        for name in os.listdir(harness.BUILD):
            if name.startswith("cloister-") and os.path.isfile(f"{harness.BUILD}/{name}"):
                os.symlink(f"{harness.BUILD}/{name}", f"{folder}/{name}")
        os.unlink(f"{folder}/cloister-doctor")
        harness.copy_programs(folder, "cloister-doctor")
        with open(f"{folder}/cloister", "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n[ \"$1\" = run ] || exit 9\n{change}\n")
        os.chmod(f"{folder}/cloister", 0o755)
        return folder

    def attack_with(self, change, status=1, **config):
        folder = self.doctored(change)
        done = subprocess.run([f"{folder}/cloister-doctor", "--attack", "--json", "--config", self.config(**config)], env=harness.environment(), capture_output=True,
                              timeout=120, check=False, cwd=self.dir)
        self.assertEqual(done.returncode, status, (done.stdout[-500:], done.stderr))
        return json.loads(done.stdout) if done.stdout else done.stderr.decode()


class InABranch(Replaced):
    """The probe in a session that has begun as a branch of another one, and the view from the host on both. Without sleeping copies,
    which have another oom_score_adj."""

    RUN = f"""
import sys, time
sys.path.insert(0, {os.path.join(harness.SOURCE, "tests", "integration")!r})
import rawmcp
code = sys.stdin.read().replace('"hold": 60', '"hold": 0')
with rawmcp.RawServer(*sys.argv[sys.argv.index("--config"):][:2]) as server:
    server.initialize()
    server.call("import ctypes, socket, threading, subprocess; x = 1", session="a")
    done = server.call(code, session="b", timeout=100, max_output=2000000, **{{"from": "a"}})["structuredContent"]
    print(done.get("stdout", done), flush=True, end="" if "branched from" in done.get("notice", "") else "no branch")
    time.sleep(60)
"""

    def test_nothing_is_open(self):
        path = self.write("run.py", self.RUN)
        report = self.attack_with(f'exec /usr/bin/python3 {path} "$@"', status=0, state={"survives": False})
        self.assertEqual(not_held(report), [])
        self.assertGreater(report["held"], 280)
        # Two sandboxes: each with its init and its worker.
        self.assertGreaterEqual(len([r for r in report["rows"] if r["group"] == "init"]), 2)


class Mutations(Replaced):
    """Cloister with something open: the rows are changed."""

    def test_a_row_that_is_open_is_a_failure(self):
        """The probe expects one call more to be denied: getpid, which no filter denies."""
        change = f"sed 's/\"ptrace\", 101, 117, (16, NO, 0, 0)/\"ptrace\", 39, 172, ()/' | {harness.CLOISTER} \"$@\""
        report = self.attack_with(change.replace("| ", "> \"$0.script\"; exec ", 1) + ' < "$0.script"')
        self.assertEqual([(r["item"], r["found"]) for r in report["rows"] if r["verdict"] == "open"], [("ptrace", "allowed")])

    @unittest.skipUnless(harness.ROOT, "once is enough")
    def test_a_listener_is_found(self):
        """The profile has no listener. The probe finds the added one, and so does the check from the host, which finds the process that holds it."""
        listen = "s/^rows = 0$/rows = 0; open_one = socket.create_server((PROXY[0], PROXY[1]))/"
        change = f'sed {listen!r} > "$0.script"; exec {harness.CLOISTER} "$@" < "$0.script"'
        report = self.attack_with(change, profiles={"default": {"network": "loopback"}})
        self.assertEqual(sorted({(r["group"], r["item"], r["found"]) for r in report["rows"] if r["verdict"] == "open"}),
                         [("init", "listeners in its network", "127.0.0.1:3128 alone"), ("network", "a TCP socket to 127.0.0.1 port 3128", "allowed"),
                          ("worker", "listeners in its network", "127.0.0.1:3128 alone"), ("worker", "the proxy's socket", "held")])

    def test_the_same_without_a_change_is_none(self):
        self.assertEqual(self.attack_with(f'exec {harness.CLOISTER} "$@"', status=0)["open"], 0)

    PEERS = os.path.join(harness.SOURCE, "tests", "attack", "peers")

    @unittest.skipUnless(shutil.which("bwrap") and os.path.exists(os.path.join(harness.SOURCE, "supervisor", "doctor", "probe.py")), "needs bubblewrap")
    def test_another_sandbox_has_open_rows(self):
        """Runs the same probe in a sandbox without a filter and without limits."""
        done = subprocess.run([self.PEERS, "--only", "bubblewrap"], env=harness.environment(), capture_output=True, text=True, timeout=120, check=False)
        found = re.search(r"^\| \*\*open, of (\d+)\*\* \| \| (\d+) \|$", done.stdout, re.M)
        self.assertTrue(found, (done.stdout[-300:], done.stderr))
        self.assertGreater(int(found.group(1)), 200)
        self.assertGreater(int(found.group(2)), 50)

    def test_a_sandbox_that_is_none(self):
        """The probe refuses to run on the host."""
        self.assertIn("this is not a sandbox", self.attack_with("exec python3 -"))

    def test_rows_that_are_missing(self):
        self.assertIn("incomplete", self.attack_with("printf 'row\\t1\\ta\\tb\\tc\\td\\theld\\nend\\t2\\n'; exec sleep 5"))
        self.assertIn("ended before the probe", self.attack_with("printf 'row\\t1\\ta\\tb\\tc\\td\\theld\\n'"))

    def test_where_no_sandbox_can_be_created(self):
        self.assertIn("ended before the probe", self.attack_with("exit 126", status=126))

    def test_floods(self):
        self.assertIn("the probe answered: y", self.attack_with("exec yes"))
        self.assertIn("read the probe's rows: Message too long", self.attack_with("exec cat /dev/zero"))

    def test_rows_without_processes(self):
        self.assertIn("cannot be seen", self.attack_with("printf 'row\\t1\\ta\\tb\\tc\\td\\theld\\nend\\t1\\n'; exec sleep 5"))

    def test_what_the_sandbox_prints_does_not_control_the_terminal(self):
        folder = self.doctored(r"printf 'row\t1\ta\t\033]0;x\007\tc\td\topen\nend\t1\n'; exec sleep 5")
        done = subprocess.run([f"{folder}/cloister-doctor", "--attack", "--config", self.config()], env=harness.environment(), capture_output=True, timeout=60,
                              check=False, cwd=self.dir)
        self.assertNotIn(b"\033", done.stdout + done.stderr)


@harness.once
class Attest(harness.Case):
    URI = "cloister://attestation"

    def test_the_report_is_a_resource(self):
        with rawmcp.RawServer("--attest", "--config", self.config(speculation="shared"), cwd=self.dir) as server:
            server.initialize()
            self.assertIn(self.URI, [r["uri"] for r in server.ask("resources/list")["resources"]])
            (content,) = server.ask("resources/read", {"uri": self.URI})["contents"]
            report = json.loads(content["text"])
            self.assertEqual((content["mimeType"], report["open"], report["profile"]), ("application/json", 0, "default"))
            self.assertEqual(server.cell("1")["value"]["repr"], "1")

    def test_shared_speculation(self):
        """A server with known findings starts only if the config allows them explicitly. The report says whether it does."""
        for config, allowed in (({}, False), ({"speculation": "shared"}, True), ({"speculation": "disabled"}, False)):
            done = self.run_cloister("doctor", "--attack", "--json", "--config", self.config(**config), timeout=120)
            report = json.loads(done.stdout)
            self.assertEqual((done.returncode, report["known_are_allowed"]), (0, allowed), config)
        row = '{"group": "worker", "item": "speculative store bypass", "verdict": "known"}'
        said = self.refused(f"""echo '{{"open": 0, "known": 1, "known_are_allowed": false, "rows": [{row}]}}'""")
        self.assertIn('(worker: speculative store bypass): set "speculation" in the config to "disabled"', said)

    def test_without_the_option_there_is_none(self):
        with rawmcp.RawServer("--config", self.config(), cwd=self.dir) as server:
            server.initialize()
            self.assertEqual(server.ask("resources/list")["resources"], [])
            self.assertRaises(rawmcp.RpcError, server.ask, "resources/read", {"uri": self.URI})

    def refused(self, doctor, status=1, command=("mcp",)):
        """Returns the message of `cloister mcp --attest`, run with this doctor program."""
        folder = self.path("programs")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        harness.copy_programs(folder, "cloister")
        with open(f"{folder}/cloister-doctor", "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{doctor}\n")
        os.chmod(f"{folder}/cloister-doctor", 0o755)
        done = subprocess.run([f"{folder}/cloister", *command, "--attest", "--config", self.config()], env=harness.environment(), capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (status, b""))
        return done.stderr.decode()

    def test_something_open_is_not_served(self):
        row = '{"group": "files", "item": "/etc/shadow", "verdict": "open"}'
        said = self.refused(f"echo '{{\"open\": 1, \"rows\": [{row}]}}'; exit 1")
        self.assertEqual(said, "cloister: --attest: not serving, because 1 attacks succeed (files: /etc/shadow); see 'cloister doctor --attack'\n")
        listen = self.path("socket")
        self.assertEqual(self.refused(f"echo '{{\"open\": 1, \"rows\": [{row}]}}'; exit 1", command=("serve", "--listen", f"unix:{listen}")), said)
        self.assertFalse(os.path.exists(listen))

    def test_a_doctor_that_fails_is_not_served(self):
        self.assertIn("no sandbox could be attacked", self.refused("exit 1"))
        self.assertIn("no sandbox could be attacked", self.refused("exit 126", status=126))


if __name__ == "__main__":
    harness.main()
