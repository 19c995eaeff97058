"""One system call of one process of `cloister run` fails, or the process is killed at it: the run then ends with its result or
with a short error message, in time, and leaves nothing behind.

By default some system calls of each process; with CLOISTER_TEST_WHOLE every call of every process, with as many cases in
parallel as there are processors (CLOISTER_INJECT_JOBS). The last line has the counts; the failed cases are printed before it,
in the form that repeats one: CLOISTER_INJECT="ROLE INDEX ERRNO". CLOISTER_INJECT_ROLES="0.1,0.2" selects processes (inject.c
names them), CLOISTER_INJECT_STEP=3 every third call, CLOISTER_INJECT_SHARD="0/4" the first quarter of the cases. Each call gets
one of five errors or the kill, in turn; CLOISTER_INJECT_ROUND=1 to 5 begins with another one, so that six rounds try all of them.
CLOISTER_INJECT_ERRNO is the only error for all cases; with 0 the process is killed, with -1 it hangs at its call, and the run
ends at a deadline of another process. The monitor does not hang in these cases, because no other process watches it.
"""

import collections
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
import traceback
import unittest

import harness
import residue

INJECT = os.path.join(harness.BUILD, "tests", "integration", "inject")
# A template has a minute to start and a session ten seconds: a fault in one of them may take all of this time.
DEADLINE = 75 * harness.SLOW
LINES = 4
KILL = 0
HANG = -1
ERRORS = (errno.EIO, errno.ENOMEM, errno.EPERM, KILL, errno.EMFILE, errno.EINTR)
# brk, exit, exit_group, set_tid_address, umask, and the calls that return an id: they return no errno.
CANNOT_FAIL = (12, 60, 231, 218, 95, 39, 110, 186, 102, 104, 107, 108)
TIMEOUT = 20  # of the cell: it ends a run that no deadline of the monitor ends
PROGRESS_SECONDS = 30
SLOW_SECONDS = 3


def option(name, otherwise):
    return int(os.environ.get(f"CLOISTER_INJECT_{name}", otherwise))


def command(role, index, number, code):
    return [INJECT, role, str(index), str(number), harness.CLOISTER, "run", "--timeout", str(TIMEOUT), "-c", code]


def recorded(folder):
    """Returns {role: [numbers of its system calls]} of one run."""
    path = os.path.join(folder, "record")
    with open(path, "w+", encoding="ascii", errors="replace") as out:
        done = subprocess.run(command("-", 0, 0, "pass"), stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              env=harness.environment(), cwd=folder, timeout=DEADLINE, check=False)
        if done.returncode:
            raise AssertionError((done.returncode, done.stderr))
        out.seek(0)
        out.readline()  # "program PID"
        roles = collections.defaultdict(list)
        for line in out:
            role, _, number = line.split()
            roles[role].append(int(number))
        return roles


def plan(roles):
    """Returns [(role, index, errno)]: by default a few of each role."""
    if "CLOISTER_INJECT" in os.environ:
        role, index, number = os.environ["CLOISTER_INJECT"].split()
        return [(role, int(index), int(number))]
    chosen = os.environ.get("CLOISTER_INJECT_ROLES")
    found = []
    for at, (role, calls) in enumerate(sorted(roles.items())):
        if chosen and role not in chosen.split(","):
            continue
        step = 1 if os.environ.get("CLOISTER_TEST_WHOLE") else max(1, len(calls) * 2 // 3)
        step *= option("STEP", 1)
        for index in range(step - 1, len(calls), step):
            number = ERRORS[(index // step + at + option("ROUND", 0)) % len(ERRORS)]
            # The tracer makes the very first call, which starts the program.
            number = option("ERRNO", number)
            watched = number != HANG or role != "0"
            if calls[index] not in CANNOT_FAIL and (role, index) != ("0", 0) and watched:
                found.append((role, index, number))
    shard, shards = map(int, os.environ.get("CLOISTER_INJECT_SHARD", "0/1").split("/"))
    return found[shard::shards]


class Cases:
    """Runs cases, one after the other."""

    def __init__(self, folder):
        self.folder, self.residue = folder, residue.Residue()

    def end_all(self):
        """Kills all remaining processes. Returns their names."""
        left = self.residue.left().get("processes", {})
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # it ended together with an earlier process
                os.kill(pid, signal.SIGKILL)
        return left

    def run(self, role, index, number):
        """Returns (the fault that was found or None, whether the call was reached, seconds)."""
        start = time.monotonic()
        process = subprocess.Popen(command(role, index, number, "print('it works')"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), cwd=self.folder)
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            alive = self.end_all()
            process.kill()
            out, err = process.communicate()
            said = out.decode(errors="replace")
            return f"hangs: {alive} {said[-200:]} {err.decode(errors='replace')[-600:]}", "hit " in said, DEADLINE
        took = time.monotonic() - start
        said = out.decode(errors="replace")
        # The names of its control groups contain the pid of the program, which is a child of the tracer.
        harness.started.add(int(said.split()[1]))
        wrong = self.judge(process.returncode, said, err.decode(errors="replace").strip().splitlines(), number)
        if took > 12 * harness.SLOW and number != HANG:
            wrong.append(f"took {took:.0f} s")
        left = self.residue.settle(5 * harness.SLOW)
        # If neither a monitor nor its janitor could remove control groups, the janitor of the next monitor removes them.
        if set(left) == {"cgroups"} and number == KILL:
            subprocess.run([harness.CLOISTER, "run", "-c", "pass"], env=harness.environment(), cwd=self.folder, timeout=DEADLINE, check=True)
            left = self.residue.settle(5 * harness.SLOW)
        if left:
            wrong.append(f"left behind: {left}")
            self.end_all()
            self.residue = residue.Residue()
        why = "; ".join(wrong) + f" (status {process.returncode}: {err.decode(errors='replace')[-300:]})" if wrong else None
        return why, "hit " in said, took

    @staticmethod
    def judge(status, said, lines, number):
        wrong = []
        if status == 0 and "it works" not in said:
            wrong.append("status 0 without a result")
        if status and not lines and number != KILL and status < 128:
            wrong.append(f"status {status} without a message")
        # If print() in the cell's own code fails, the traceback belongs to the cell.
        ours = [line for line in lines if 'File "' in line and 'File "<string>"' not in line]
        if len(lines) > LINES or any("ssertion" in line for line in lines) or ours:
            wrong.append(f"the message: {lines[:12]}")
        return wrong


def run_job(todo, folder):
    """In a child: writes one line of JSON for each case. The child is a subreaper and inherits the processes of its cases."""
    harness.become_subreaper()
    residue.join_keyring()
    cases = Cases(folder)
    with open(os.path.join(folder, "report"), "w", encoding="utf-8") as report:
        for case in todo:
            report.write(json.dumps([*case, *cases.run(*case)]) + "\n")
            report.flush()


def start_job(todo, folder):
    os.makedirs(folder)
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        run_job(todo, folder)
        status = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    finally:
        os._exit(status)


def reported(folders):
    """Returns [[role, index, errno, the fault, hit, seconds]]."""
    return [json.loads(line) for folder in folders for line in residue.read(os.path.join(folder, "report")).splitlines()]


@unittest.skipUnless(os.path.exists(INJECT), "was not built")
class Injection(harness.Case):
    def run_all(self, todo):
        """Returns the reports of all cases; runs as many in parallel as there are processors."""
        n = min(option("JOBS", len(os.sched_getaffinity(0))), len(todo))
        folders = [self.path(f"job-{k}") for k in range(n)]
        running = [start_job(todo[k::n], folder) for k, folder in enumerate(folders)]
        start = said = time.monotonic()
        while running:
            pid, status = os.waitpid(running[0], os.WNOHANG)
            if pid:
                self.assertEqual(status, 0)
                running.pop(0)
            elif time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"{len(reported(folders))} of {len(todo)} in {said - start:.0f} s", flush=True)
            else:
                time.sleep(0.1)
        return reported(folders)

    def test_each_call_may_fail(self):
        self.run_cloister("run", "-c", "pass")  # this builds the image
        roles = recorded(self.dir)
        self.assertGreater(len(roles), 8)
        todo = plan(roles)
        start = time.monotonic()
        reports = self.run_all(todo)
        self.assertEqual(len(reports), len(todo))
        # After all cases the next run behaves as the first one did.
        self.assertEqual(self.run_cloister("run", "-c", "print(1)").stdout, b"1\n")
        hit = sum(report[4] for report in reports)
        wrong = [report for report in reports if report[3]]
        for role, index, number, why, _, took in wrong:
            print(f"CLOISTER_INJECT='{role} {index} {number}' ({took:.1f} s): {why}")
        slow = sum(report[5] > SLOW_SECONDS for report in reports)
        print(f"{len(todo)} of {sum(map(len, roles.values()))} calls of {len(roles)} processes in {time.monotonic() - start:.0f} s: "
              f"{hit} hit, {slow} took more than {SLOW_SECONDS} s, {len(wrong)} wrong", flush=True)
        self.assertGreater(hit, len(todo) * 0.6)
        self.assertEqual(len(wrong), 0)

    def test_the_oracle_sees_keys_of_its_own_only(self):
        """The control of the check for keys: it reports a key of this test's processes, but no key of another keyring."""
        own = residue.Residue()
        add = "import ctypes\nlibc = ctypes.CDLL(None)\n"
        join = f"libc.syscall({residue.KEYCTL}, {residue.JOIN_SESSION_KEYRING}, b'cloister-other', 0, 0, 0)\n"
        make = f"print(libc.syscall({residue.ADD_KEY}, b'user', b'cloister-key', b'x', 1, {residue.SESSION_KEYRING}))"
        python = [sys.executable, "-c"]
        if int(subprocess.run([*python, add + join + make], capture_output=True, check=True).stdout) < 0:
            self.skipTest("no keys here")
        self.assertNotIn("keys", own.left())
        subprocess.run([*python, add + make], capture_output=True, check=True)
        self.assertIn("cloister-key", str(own.left().get("keys")))
        residue.join_keyring()
        self.assertNotIn("keys", own.left())


if __name__ == "__main__":
    harness.main()
