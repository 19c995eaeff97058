"""If no sandbox can be created, `run`, `mcp` and `doctor` report it with one exit status, and the doctor names the reason.

The filters and mounts are those of container runtimes. CLOISTER_TEST_WHOLE: tests every call, with each of three errors.
"""

import errno
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import harness
import outer_filter
import rawmcp

WHOLE = "CLOISTER_TEST_WHOLE" in os.environ
NO_SANDBOX = 126
FILTER = outer_filter.__file__
SECCOMP = os.path.join(harness.SOURCE, "examples", "containers", "seccomp.json")
# The calls that container runtimes do not allow by default.
NEEDED = ("clone clone3 unshare setns mount umount2 pivot_root fsopen fsconfig fsmount move_mount open_tree "
          "mount_setattr").split()
OPTIONAL = ("sethostname", "close_range", "openat2", "landlock_create_ruleset", "epoll_create1")
# Calls that every runtime allows, but that an old or a hand-written profile may not list.
COMMON = """kill execveat memfd_create pidfd_open capget capset setresuid setresgid statx seccomp prctl prlimit64 wait4 waitid pipe2 dup3 socketpair
socket bind sendmsg recvmsg epoll_ctl ppoll sendfile getdents64 mkdirat symlinkat fchmod chdir fchdir getcwd setpgid sysinfo
landlock_add_rule landlock_restrict_self lseek fcntl setsockopt rt_sigaction rt_sigprocmask getpid getsockname
dup2 poll epoll_wait""".split() + (["setgroups", "mkdir"] if harness.ROOT else ["geteuid", "getegid"])
# If these calls are refused, nothing changes.
UNUSED = """pwritev2 faccessat2 pidfd_send_signal signalfd4 timerfd_create eventfd2 membarrier rseq name_to_handle_at setrlimit keyctl setpriority""".split()
ERRORS = (errno.EPERM, errno.ENOSYS, errno.EINVAL)
# One error for some calls: each is refused at another step of the creation of a sandbox.
SOME = [("kill", errno.EPERM), ("clone3", errno.EPERM), ("setns", errno.ENOSYS), ("pivot_root", errno.EPERM), ("mount_setattr", errno.EINVAL),
        ("statx", errno.EPERM), ("seccomp", errno.ENOSYS), ("wait4", errno.EPERM), ("sendmsg", errno.EINVAL),
        ("rt_sigprocmask", errno.EPERM), ("dup2" if outer_filter.number("dup2") else "dup3", errno.ENOSYS)]
# An ordinary user needs a user namespace to mount.
OWN_MOUNTS = ("unshare", *(() if harness.ROOT else ("--user", "--map-root-user")), "--mount", "--propagation", "private")
MASKS = "mount -t tmpfs -o ro none /proc/acpi; mount --bind /dev/null /proc/interrupts; mount --bind -o ro /proc/sys /proc/sys"
MASKED = "the kernel refuses a new /proc (EPERM), because mounts cover /proc/acpi"
LIFT = "other paths in it: 'cloister doctor' prints the setting that uncovers the present one"

FOREIGN = "/proc is not that of this pid namespace: mount its own, as 'unshare --mount-proc' and 'bwrap --proc /proc' do"


class NoSandbox(harness.Case):
    """Each test runs both commands under the same conditions."""

    def both(self, apply=None, prefix=()):
        """Returns (exit status of doctor, its report, exit status of run, output of run)."""
        env = harness.environment()
        how = {"env": env, "preexec_fn": apply, "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 30, "check": False}
        ran = subprocess.run([*prefix, harness.CLOISTER, "run", "-c", "print(1+1)"], **how)
        asked = subprocess.run([*prefix, harness.CLOISTER, "doctor", "--json"], **how)
        self.assertEqual(ran.stdout, b"2\n" if ran.returncode == 0 else b"", ran.stderr)
        report = json.loads(asked.stdout)
        self.assertEqual(report["usable"], asked.returncode == 0)
        self.assertEqual(asked.returncode, ran.returncode, (report, ran.stderr))
        return ran, report

    def finding(self, report, name):
        (found,) = [f["state"] for f in report["findings"] if f["name"] == name]
        return found

    def layer(self, report, name):
        (found,) = [f for f in report["layers"] if f["name"] == name]
        return found

    def check_refused(self, name, code):
        with self.subTest(call=name, error=errno.errorcode[code]):
            ran, report = self.both(outer_filter.refuse(name, error=code))
            self.assertEqual(ran.returncode, NO_SANDBOX, ran.stderr)
            self.assertEqual(self.finding(report, "container-seccomp"), "missing")
            self.assertIn("seccomp=examples/containers/seccomp.json", report["command"])
            self.assertIn(f" refuses {name} ({errno.errorcode[code]})", self.layer(report, "system calls")["detail"])
            # The command line itself makes a memfd; the monitor finds the other refusals.
            self.assertIn(name if name in ("memfd_create", "lseek", "fcntl") else f" refuses {name} ({errno.errorcode[code]}): ", ran.stderr.decode())

    def check_optional(self, name, code):
        with self.subTest(call=name, error=errno.errorcode[code]):
            ran, report = self.both(outer_filter.refuse(name, error=code))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(self.finding(report, "container-seccomp"), "absent")
            self.assertEqual(self.finding(report, "optional-calls"), "degraded")
            self.assertNotIn("command", report)
            self.assertIn(f" refuses {name} (", self.layer(report, "system calls")["detail"])

    def test_control(self):
        ran, report = self.both()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.layer(report, "sandbox")["state"], "effective")
        for name in ("container-seccomp", "optional-calls", "apparmor-profile", "selinux-label", "masked-proc"):
            self.assertEqual(self.finding(report, name), "absent")

    def test_a_refused_call(self):
        for name, code in [(n, c) for n in (*NEEDED, *COMMON, "getrandom", "futex") for c in ERRORS] if WHOLE else SOME:
            # CPython and the C library have substitutes; newer architectures lack old calls.
            if (name, code) not in (("getrandom", errno.EPERM), ("getrandom", errno.ENOSYS), ("futex", errno.EINVAL)) and outer_filter.number(name):
                self.check_refused(name, code)

    def test_calls_that_have_a_substitute(self):
        for name in OPTIONAL if WHOLE else OPTIONAL[:3]:
            for code in ERRORS if WHOLE else ERRORS[len(name) % 3:][:1]:
                self.check_optional(name, code)

    def test_calls_that_are_not_needed(self):
        for name, code in itertools.product(UNUSED, ERRORS) if WHOLE else [("rseq", errno.EPERM)]:
            with self.subTest(call=name, error=errno.errorcode[code]):
                ran, report = self.both(outer_filter.refuse(name, error=code))
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual(self.finding(report, "container-seccomp"), "absent")
        for code in ERRORS[:2] if WHOLE else ():
            self.assertEqual(self.both(outer_filter.refuse("getrandom", error=code))[0].returncode, 0)

    def ended(self, name, code):
        """Returns the exit status and the output of both commands, for calls without which the doctor cannot run its checks."""
        ended = [subprocess.run([harness.CLOISTER, *command], env=harness.environment(), capture_output=True, timeout=30, check=False,
                                preexec_fn=outer_filter.refuse(name, error=code)) for command in (("run", "-c", "1"), ("doctor",))]
        self.assertEqual((ended[0].returncode, ended[0].stdout), (ended[1].returncode, ended[1].stdout), ended)
        self.assertEqual(ended[0].stderr, ended[1].stderr)
        return ended[0].returncode, ended[0].stderr.decode()

    def test_what_the_loader_needs(self):
        """No program starts; the loader prints the reason."""
        said = {"newfstatat": "cannot stat shared object", "pread64": "cannot read file data", "arch_prctl": "thread-local storage",
                "readlink": "cannot open shared object"}
        for name, code in itertools.product(said, ERRORS) if WHOLE else [("newfstatat", errno.EPERM)]:
            with self.subTest(call=name, error=errno.errorcode[code]):
                status, text = self.ended(name, code)
                if name != "readlink" or status == 127:  # in a build tree the loader finds libraries by the program's own path
                    self.assertEqual(status, 127, text)
                    self.assertIn(said[name], text)

    @unittest.skipUnless(outer_filter.number("access"), "an old call, which this machine does not have")
    def test_what_the_command_line_needs(self):
        """The command line finds no other program and names the call itself."""
        for code in ERRORS:
            status, text = self.ended("access", code)
            self.assertEqual(status, NO_SANDBOX, text)
            self.assertIn(f" refuses access ({errno.errorcode[code]})", text)

    def test_the_status_of_code_stays(self):
        """A filter refuses a call, but the code ran: the exit status is that of the code."""
        for refuse in ("sethostname", "faccessat2"):
            ran = subprocess.run([harness.CLOISTER, "run", "-c", "import sys; sys.exit(125)"], env=harness.environment(), capture_output=True,
                                 preexec_fn=outer_filter.refuse(refuse), timeout=30, check=False)
            self.assertEqual((ran.returncode, ran.stderr), (125, b""))

    def test_our_profile_is_enough(self):
        ran, report = self.both(outer_filter.profile(SECCOMP))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.finding(report, "container-seccomp"), "absent")

    def test_all_blockers_at_once(self):
        names = [*NEEDED[1:], "sethostname"]
        prefix = (*OWN_MOUNTS, "sh", "-ec", f'{MASKS}; exec "$@"', "sh")
        # Without clone no process could be started.
        asked = subprocess.run([*prefix, harness.PYTHON, FILTER, "profile", SECCOMP, " ".join(names), harness.CLOISTER, "doctor", "--json"],
                               env=harness.environment(), capture_output=True, timeout=30, check=False)
        self.assertEqual(asked.returncode, NO_SANDBOX, asked.stderr)
        report = json.loads(asked.stdout)
        self.assertEqual(self.layer(report, "system calls")["detail"],
                         "a seccomp filter around this process refuses " + ", ".join(f"{n} (EPERM)" for n in NEEDED[1:]))
        self.assertEqual(self.finding(report, "optional-calls"), "degraded")
        self.assertIn("seccomp=", report["command"])
        self.assertEqual(self.finding(report, "masked-proc"), "missing")
        self.assertIn("systempaths=unconfined", report["command"])

    def test_a_masked_proc(self):
        prefix = (*OWN_MOUNTS, "sh", "-ec")
        for script, status in (("true", 0), (MASKS, NO_SANDBOX)):
            ran, report = self.both(prefix=(*prefix, f'{script}; exec "$@"', "sh"))
            self.assertEqual(ran.returncode, status, ran.stderr)
            self.assertEqual(self.finding(report, "masked-proc"), "missing" if status else "absent")
            if status:
                self.assertIn("systempaths=unconfined", report["command"])
                self.assertNotIn("seccomp=", report["command"])
                self.assertEqual(ran.stderr.decode(), f"cloister: start a sandbox: template: mount /proc in a user namespace: {MASKED} and 2 {LIFT}\n")
                self.assertIn("(mounts cover /proc/acpi and others)", self.layer(report, "proc")["detail"])
                self.assertEqual(self.layer(report, "sandbox")["fix"], "see what is missing in this report")

    def test_one_mount_that_changes_nothing(self):
        """A directory of /proc that is mounted on itself counts as covered, for the kernel too."""
        ran, _ = self.both(prefix=(*OWN_MOUNTS, "sh", "-ec", 'mount --bind /proc/fs /proc/fs; exec "$@"', "sh"))
        self.assertEqual(ran.returncode, NO_SANDBOX)
        self.assertIn(b"because mounts cover /proc/fs: 'cloister doctor' prints", ran.stderr)

    def test_a_masked_proc_by_the_other_ways(self):
        """What a client, an installation of packages and a server of the user's get to read."""
        prefix = (*OWN_MOUNTS, "sh", "-ec", f'{MASKS}; exec "$@"', "sh")
        server = rawmcp.RawServer(prefix=prefix)
        self.addCleanup(server.free)
        server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}})
        server.notify("notifications/initialized")
        self.assertIn(f"{MASKED} and 2 {LIFT}", server.cell("1")["error"]["message"])
        with open(self.path("wanted.txt"), "w", encoding="utf-8") as file:
            file.write("nothing-of-this-name==1\n")
        config = self.config({"one": {"command": "/bin/cat"}})
        for command, before in ((("image", "build", "-r", self.path("wanted.txt")), "the installer's sandbox: "),
                                (("tools", "--config", config), "one: failed: a /proc of its own: ")):
            with self.subTest(command=command[0]):
                ended = subprocess.run([*prefix, harness.CLOISTER, *command], env=harness.environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
                self.assertIn(f"{before}{MASKED} and 2 {LIFT}", ended.stdout.decode())

    def test_a_proc_that_is_read_only(self):
        for script, status in (("mount -o remount,bind,rw /proc", 0), ("mount -o remount,bind,ro /proc", NO_SANDBOX)):
            ran, report = self.both(prefix=(*OWN_MOUNTS, "sh", "-ec", f'{script}; exec "$@"', "sh"))
            self.assertEqual(ran.returncode, status, ran.stderr)
            self.assertEqual(self.finding(report, "read-only-proc"), "missing" if status else "absent")
            self.assertEqual(self.finding(report, "masked-proc"), "absent")
            if status:
                self.assertIn(b"/proc is mounted read-only, and their ids are written there: mount -o remount,bind,rw /proc", ran.stderr)
                self.assertEqual(self.layer(report, "sandbox")["fix"], "see what is missing in this report")

    def test_a_proc_of_another_pid_namespace(self):
        """Its /proc/NUMBER are other processes: none is written to."""
        for option, status in (("--mount-proc", 0), ("--mount", NO_SANDBOX)):
            ran, report = self.both(prefix=(*OWN_MOUNTS, "--pid", "--fork", option))
            self.assertEqual(ran.returncode, status, ran.stderr)
            self.assertEqual(self.finding(report, "foreign-proc"), "missing" if status else "absent")
            if status:
                self.assertEqual(ran.stderr.decode(), f"cloister: error: {FOREIGN}\n")
                self.assertEqual((self.layer(report, "privilege")["detail"], self.layer(report, "sandbox")["fix"]),
                                 (FOREIGN, "see what is missing in this report"))

    def test_sysctls_that_are_read_only(self):
        """As in systemd-nspawn, which leaves another, complete proc for namespaces inside the container."""
        whole = self.path("proc")
        os.mkdir(whole)
        script = f'mount -t proc proc {whole}; mount --bind -o ro /proc/sys /proc/sys; exec "$@"'
        ran, _ = self.both(prefix=(*OWN_MOUNTS, "--pid", "--fork", "--mount-proc", "sh", "-ec", script, "sh"))
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_a_root_that_is_mapped_alone(self):
        """An ordinary user, with all capabilities in a user namespace that maps one id. Refused if that id is root outside."""
        ran, report = self.both(prefix=("unshare", "--user", "--map-root-user"))
        self.assertEqual(ran.returncode, NO_SANDBOX if harness.ROOT else 0, ran.stderr)
        expected = "sandboxes never run as uid 0" if harness.ROOT else "every session runs as your own uid 0"
        self.assertIn(expected, self.layer(report, "privilege")["detail"])

    def test_the_doctor_starts_no_server(self):
        """The control: `run` with the same config starts it."""
        mark = self.path("started")
        config = self.config({"one": {"command": "/usr/bin/touch", "args": [mark]}})
        self.assertEqual(self.run_cloister("doctor", "--config", config).returncode, 0)
        self.assertFalse(os.path.exists(mark))
        self.run_cloister("run", "--config", config, "-c", "_discover()")
        self.assertTrue(harness.wait_until(lambda: os.path.exists(mark)))

    def test_mcp(self):
        """The server ends at its start if the broker cannot be isolated, otherwise at the end of its input."""
        ended = subprocess.run([harness.CLOISTER, "mcp"], env=harness.environment(), preexec_fn=outer_filter.refuse("pivot_root"),
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
        self.assertEqual(ended.returncode, NO_SANDBOX, ended.stderr)
        self.assertIn(b"pivot_root", ended.stderr)
        for refused, status in ((), 0), (("clone3",), NO_SANDBOX):
            server = rawmcp.RawServer(prefix=(harness.PYTHON, FILTER, "refuse", " ".join(refused), "EPERM"))
            self.addCleanup(server.free)
            server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}})
            server.notify("notifications/initialized")
            cell = server.cell("1")
            self.assertEqual(cell["status"], "error" if refused else "ok", cell)
            if refused:
                self.assertIn("clone3: Operation not permitted", json.dumps(cell))
            server.process.stdin.close()
            self.assertEqual(server.process.wait(harness.PATIENCE), status)

    @unittest.skipUnless(WHOLE, "waits for deadlines")
    def test_a_call_that_never_returns(self):
        """A filter that notifies a supervisor which does not answer. Each step has a deadline, so that the doctor ends."""
        start = time.monotonic()
        asked = subprocess.run([harness.CLOISTER, "doctor", "--json"], env=harness.environment(), capture_output=True, check=False,
                               preexec_fn=outer_filter.hold("pivot_root"), timeout=150)
        self.assertEqual(asked.returncode, NO_SANDBOX)
        self.assertIn("did not end within 60 seconds", self.layer(json.loads(asked.stdout), "sandbox")["detail"])
        self.assertLess(time.monotonic() - start, 100)


@unittest.skipUnless(WHOLE and harness.ROOT and shutil.which("runc"), "needs runc")
class Runc(harness.Case):
    """A container as Docker creates it: with its capabilities, its filter or ours, and /proc with or without its masks."""

    CAPABILITIES = [f"CAP_{name}" for name in ("CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE "
                                               "SYS_CHROOT KILL AUDIT_WRITE").split()]

    def filter(self, ours):
        with open(SECCOMP, encoding="utf-8") as f:
            rules = json.load(f)["syscalls"]
        if not ours:
            rules = [{**r, "names": [n for n in r["names"] if n not in (*NEEDED, "sethostname")]} for r in rules]
            threads = {"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [threads]})
        return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
                "syscalls": [{k: v for k, v in r.items() if k != "comment"} for r in rules if r["names"]]}

    def contain(self, *command, ours, masked):
        bundle = tempfile.mkdtemp(dir=self.dir)
        subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
        with open(f"{bundle}/config.json", encoding="utf-8") as f:
            config = json.load(f)
        process, linux = config["process"], config["linux"]
        env = harness.environment(HOME="/tmp", CLOISTER_IMAGE_STORE="/tmp/store")
        process.update(terminal=False, args=[harness.CLOISTER, *command], env=[f"{k}={v}" for k, v in env.items()], noNewPrivileges=False,
                       capabilities={kind: self.CAPABILITIES for kind in process["capabilities"]})
        config["root"] = {"path": f"{bundle}/rootfs", "readonly": False}
        config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
        linux["seccomp"] = self.filter(ours)
        if not masked:
            del linux["maskedPaths"], linux["readonlyPaths"]
        with open(f"{bundle}/config.json", "w", encoding="utf-8") as f:
            json.dump(config, f)
        os.mkdir(f"{bundle}/rootfs")
        script = f"mount --make-rprivate /; mount --rbind / {bundle}/rootfs; exec runc run --bundle {bundle} cloister-{os.getpid()}"
        return subprocess.run(["unshare", "--mount", "sh", "-ec", script], stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)

    def test_a_container(self):
        for ours, masked in itertools.product((False, True), repeat=2):
            with self.subTest(ours=ours, masked=masked):
                ran = self.contain("run", "-c", "print(1+1)", ours=ours, masked=masked)
                asked = self.contain("doctor", "--json", ours=ours, masked=masked)
                expected = 0 if ours and not masked else NO_SANDBOX
                self.assertEqual((ran.returncode, asked.returncode), (expected, expected), (ran.stderr, asked.stderr))
                command = json.loads(asked.stdout).get("command", "")
                self.assertEqual(("seccomp=" in command, "systempaths=unconfined" in command), (not ours, masked), command)


if __name__ == "__main__":
    harness.main()
