"""One system call of one process of `cloister run` fails, or the process is killed at it: the run then ends with its result or
with an error of a few lines, in time, and leaves nothing.

Some calls of each process by default; with CLOISTER_TEST_WHOLE each call that is not one of CPython's start, of which every
tenth. CLOISTER_INJECT="ROLE INDEX ERRNO" repeats one, CLOISTER_INJECT_ROLES="3,4" takes some processes, and
CLOISTER_INJECT_STEP thins the rest out. CLOISTER_INJECT_ERRNO is the one error for all of them; with -1 the process hangs at
its call, and the run ends when a deadline of another process passes.
"""

import collections
import errno
import json
import os
import subprocess
import time
import unittest

import harness
import residue

INJECT = os.path.join(harness.BUILD, "tests", "integration", "inject")
# A template has a minute to start and a session ten seconds: a fault in one of them may use that up.
DEADLINE = 75 * harness.SLOW
LINES = 4
ERRORS = (errno.EIO, errno.ENOMEM, errno.EPERM, errno.EMFILE, errno.EINTR)
KILL = 0
CANNOT_FAIL = (12, 60, 231)  # brk, which never returns an errno, exit, exit_group
TIMEOUT = 20  # of the cell: what the deadlines of the monitor do not end


def recorded(folder):
    """The processes of one run: a list of the numbers of their system calls for each."""
    path = os.path.join(folder, "record")
    with open(path, "w+", encoding="ascii", errors="replace") as out:
        done = subprocess.run([INJECT, "run", "-1", "0", "0", harness.CLOISTER, "run", "--timeout", str(TIMEOUT), "-c", "pass"], stdout=out, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env=harness.environment(), cwd=folder, timeout=DEADLINE, check=False)
        if done.returncode:
            raise AssertionError((done.returncode, done.stderr))
        out.seek(0)
        roles = collections.defaultdict(list)
        for line in out:
            role, _, number = line.split()
            roles[int(role)].append(int(number))
    return roles


def plan(roles):
    """[(role, index, errno)]: by default a few of each role, the whole list by hand."""
    if "CLOISTER_INJECT" in os.environ:
        return [tuple(map(int, os.environ["CLOISTER_INJECT"].split()))]
    whole = os.environ.get("CLOISTER_TEST_WHOLE")
    chosen = os.environ.get("CLOISTER_INJECT_ROLES")
    found = []
    for role, calls in sorted(roles.items()):
        if chosen and str(role) not in chosen.split(","):
            continue
        # CPython's start and the loading of libraries are most of the longest lists.
        step = (10 if len(calls) > 600 else 1) if whole else max(1, len(calls) * 2 // 3)
        step *= int(os.environ.get("CLOISTER_INJECT_STEP", "1"))
        for index in range(step - 1, len(calls), step):
            if calls[index] in CANNOT_FAIL:
                continue
            if "CLOISTER_INJECT_ERRNO" in os.environ:
                found.append((role, index, int(os.environ["CLOISTER_INJECT_ERRNO"])))
                continue
            found.append((role, index, KILL if (index // step + role) % 4 == 3 else ERRORS[index // step % len(ERRORS)]))
    return found


@unittest.skipUnless(os.path.exists(INJECT), "was not built")
class Injection(harness.Case):
    def one(self, role, index, number):
        """None, or what is wrong."""
        start = time.monotonic()
        process = subprocess.Popen([INJECT, "run", str(role), str(index), str(number), harness.CLOISTER, "run", "--timeout", str(TIMEOUT), "-c", "print('it works')"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), cwd=self.dir)
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            alive = {**self.residue.left().get("processes", {}), **harness.descendants(process.pid)}
            alive.pop(process.pid, None)
            for pid in alive:
                os.kill(pid, 9)
            process.kill()
            out, err = process.communicate()
            return f"hangs: {alive} {err.decode(errors='replace')[-600:]}"
        took = time.monotonic() - start
        wrong = []
        if took > 12 * harness.SLOW and number >= 0:
            wrong.append(f"took {took:.0f} s")
        said = out.decode(errors="replace")
        self.hits += said.count("hit ")
        works = "it works" in said
        lines = err.decode(errors="replace").strip().splitlines()
        if process.returncode == 0 and not works:
            wrong.append("status 0 without a result")
        if process.returncode and not lines and number != KILL and process.returncode < 128:
            wrong.append(f"status {process.returncode} without a message")
        if len(lines) > LINES or any("Traceback" in line or "ssertion" in line for line in lines):
            wrong.append(f"the message: {lines[:12]}")
        left = self.residue.settle(5 * harness.SLOW)
        if left:
            wrong.append(f"left behind: {left}")
            for pid in left.get("processes", ()):
                os.kill(pid, 9)
        return "; ".join(wrong) + f" (status {process.returncode}: {lines[-1:]})" if wrong else None

    def test_each_call_may_fail(self):
        self.residue = residue.Residue()
        self.run_cloister("run", "-c", "pass")  # the image is built
        roles = recorded(self.dir)
        self.assertGreater(len(roles), 8)
        self.hits, wrong, todo = 0, {}, plan(roles)
        for done, (role, index, number) in enumerate(todo):
            found = self.one(role, index, number)
            if found:
                wrong[f"{role} {index} {number}"] = found
                print(f"CLOISTER_INJECT='{role} {index} {number}': {found}", flush=True)
            if done % 100 == 99:
                print(f"{done + 1} of {len(todo)}, {self.hits} hit, {len(wrong)} wrong", flush=True)
        print(f"{len(todo)} runs of {({role: len(calls) for role, calls in roles.items()})}, {self.hits} hit", flush=True)
        # After all of that the next run is as the first was.
        self.assertEqual(self.run_cloister("run", "-c", "print(1)").stdout, b"1\n")
        self.assertGreater(self.hits, len(todo) * 0.6)
        self.assertEqual(wrong, {}, json.dumps(wrong, indent=1))


if __name__ == "__main__":
    harness.main()
