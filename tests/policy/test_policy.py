"""The compiled filters against table.txt: every number, and for calls whose arguments count, every bit of each argument."""

import errno
import functools
import itertools
import os
import random
import re
import subprocess
import unittest

import evaluate
from evaluate import ALLOW, ARCHES, ASKS, ERRNO, INIT, KILL, LOW

HERE = os.path.dirname(os.path.abspath(__file__))
X32 = 0x40000000
ENOSYS = ERRNO | errno.ENOSYS
REFUSALS = (ERRNO | errno.EPERM, ENOSYS)
# Newer than Debian 12's headers, and the same on both architectures; libseccomp cannot translate them to another.
RECENT = {"futex_waitv": 449, "set_mempolicy_home_node": 450, "cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454,
          "futex_wait": 455, "futex_requeue": 456, "mseal": 462}
NUMBERS = range(1024)
NATIVE = os.uname().machine


def headers():
    """{architecture: {name: number}}, from the kernel's headers."""
    folders = [p for p in ("/usr/include/x86_64-linux-gnu/asm", "/usr/include/aarch64-linux-gnu/asm", "/usr/include/asm") if os.path.isdir(p)]
    x86 = next((f"{p}/unistd_64.h" for p in folders if os.path.exists(f"{p}/unistd_64.h")), None)
    found = {}
    for arch, path in ("x86_64", x86), ("aarch64", "/usr/include/asm-generic/unistd.h"):
        if not path:
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        numbers = {name: int(n) for name, n in re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.M)}
        # "lseek" is __NR3264_lseek there; 64-bit machines have it under both names.
        for name, other in re.findall(r"^#define __NR_(\w+)\s+__NR3264_(\w+)$", text, re.M):
            if other in numbers:
                numbers[name] = numbers[other]
        found[arch] = {**RECENT, **numbers}
    # arm64 has neither (__ARCH_WANT_…, arch/arm64/include/uapi/asm/unistd.h), nor calls of 32-bit machines.
    for name in ("fstatat", "stat64", "lstat64", "fstat64"):
        found["aarch64"].pop(name, None)
    return found


@functools.cache
def programs():
    """{(variant, architecture): program}"""
    out = subprocess.run([os.environ["CLOISTER_FILTER_EXPORT"]], capture_output=True, text=True, check=True).stdout
    return {(v, a): evaluate.decode(bytes.fromhex(p)) for v, a, p in (line.split("\t") for line in out.splitlines())}


def pack(number, arch, arguments=(0,) * 6):
    number &= LOW
    return evaluate.DATA.pack(number - (1 << 32 if number >> 31 else 0), ARCHES.get(arch, arch), 0, *arguments)


def code_of(answer):
    if answer in ("init", "asks"):
        return INIT if answer == "init" else ASKS
    return ALLOW if answer == "allow" else ERRNO | (0 if answer == "0" else getattr(errno, answer))


def acceptable(lines, arguments):
    """The answers that the table accepts."""
    if any(line.answer == "asks" and line.holds(arguments) for line in lines):
        return (ASKS,)
    for line in lines:
        if line.answer == "allow" and line.holds(arguments):
            return (ALLOW,)
    exact = [code_of(line.answer) for line in lines if line.answer != "allow" and line.holds(arguments)]
    return tuple(exact) or REFUSALS


def variations(value):
    """Near a value that counts: neighbours, each bit, the upper half."""
    near = {value, value ^ LOW, value + 1, value - 1, value | 1 << 32, value | 1 << 63, value | LOW << 32, 0, LOW}
    return {v & (1 << 64) - 1 for v in near | {value ^ 1 << bit for bit in range(64)}}


def vectors(lines):
    """Arguments: those that each line names, with one argument varied, and all combinations of the named values."""
    named = {}
    for line in lines:
        for c in line.conditions:
            named.setdefault(c.argument, set()).update(c.examples())
    bases = set()
    for line in lines:
        choices = [sorted(c.examples())[:40] for c in line.conditions]
        for values in itertools.islice(itertools.product(*choices), 200):
            base = [0] * 6
            for condition, value in zip(line.conditions, values):
                base[condition.argument] = value
            bases.add(tuple(base))
    found = set(bases)
    for base in bases:
        for n in named:
            found.update((*base[:n], v, *base[n + 1:]) for v in variations(base[n]))
    columns = [sorted(named.get(n, {0}) | {0}) for n in range(6)]
    found.update(itertools.islice(itertools.product(*columns), 3000))
    # Arguments that nothing names do not count.
    noise = random.Random(1)
    found.update(tuple(a if n in named else noise.getrandbits(64) for n, a in enumerate(base)) for base in bases)
    return found


class Policy(unittest.TestCase):
    """Each variant, on each architecture."""

    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.table, cls.numbers = evaluate.read_table(f"{HERE}/table.txt"), headers()

    def test_the_same_variants(self):
        self.assertEqual(set(self.table), {variant for variant, _ in programs()})

    def each(self):
        for (variant, arch), code in programs().items():
            if arch in self.numbers:
                yield variant, arch, code

    def test_names(self):
        """Each name of the table is a call of the kernel."""
        known = set(self.numbers.get("x86_64", {})) | set(self.numbers["aarch64"]) | {"stime"}
        for variant, calls in self.table.items():
            self.assertLessEqual(set(calls), known, variant)

    def test_every_number(self):
        for variant, arch, code in self.each():
            names = {}
            for name, n in self.numbers[arch].items():
                names.setdefault(n, set()).add(name)
            for n in NUMBERS:
                lines = [line for name in names.get(n, ()) for line in self.table[variant].get(name, ())]
                if arch != NATIVE and names.get(n, set()) & set(RECENT):
                    continue
                answer, reads = evaluate.run(code, pack(n, arch))
                if all(not line.conditions for line in lines):
                    expected = {code_of(line.answer) for line in lines} or {ENOSYS}
                    self.assertEqual(({answer}, reads), (expected, False), (variant, arch, n, names.get(n)))

    def test_arguments(self):
        tried = 0
        for variant, arch, code in self.each():
            for name, lines in self.table[variant].items():
                n = self.numbers[arch].get(name)
                if n is None or all(not line.conditions for line in lines):
                    continue
                allowed = 0
                # Most rules are the same in variants of one filter, and on both architectures: there, some arguments are enough.
                whole = arch == NATIVE and "loopback" not in variant and "mounts" not in variant
                for arguments in itertools.islice(vectors(lines), 0, None, 1 if whole else 7):
                    answer, _ = evaluate.run(code, pack(n, arch, arguments))
                    self.assertIn(answer, acceptable(lines, arguments), (variant, arch, name, [hex(a) for a in arguments]))
                    allowed += answer == ALLOW
                    tried += 1
                self.assertTrue(allowed or not whole or all(line.answer != "allow" for line in lines), (variant, name))
        self.assertGreater(tried, 30000)

    def test_other_architectures(self):
        for variant, arch, code in self.each():
            for other in ARCHES:
                if other == arch:
                    continue
                for n in (*NUMBERS, X32, LOW):
                    self.assertEqual(evaluate.run(code, pack(n, other)), (KILL, False), (variant, arch, other, n))

    def test_x32(self):
        """Numbers with bit 30: of x32 on x86-64, of nothing on aarch64. Bits 31 and more name no call either."""
        for variant, arch, code in self.each():
            expected = KILL if arch == "x86_64" else ENOSYS
            for n in NUMBERS:
                self.assertEqual(evaluate.run(code, pack(X32 | n, arch)), (expected, False), (variant, arch, n))
                answer, _ = evaluate.run(code, pack(1 << 31 | n, arch))
                self.assertIn(answer, (KILL, ENOSYS), (variant, arch, n))

    def test_actions(self):
        """No filter traces, traps or only logs. Calls for locks only go to a listener, in the code of the agent: init makes those calls
        itself, so that it does not matter what another thread changes meanwhile. The template has none: there, they fail. Where a mount is
        writable, it receives syncs too, which it only counts."""
        for (variant, arch), code in programs().items():
            returned = {k for op, _, _, k in code if op == 0x06}
            asks = {INIT} if variant.startswith(("worker", "template")) else set()
            self.assertEqual({k for k in returned if k & 0xFFFF0000 != ERRNO}, {ALLOW, KILL} | asks, (variant, arch))
            for n in NUMBERS if asks else ():
                answer, reads = evaluate.run(code, pack(n, arch))
                # One run that reads no argument answers for all of them.
                answers = {evaluate.run(code, pack(n, arch, (0, command, 0, 0, 0, 0)))[0] for command in range(64)} if reads else {answer}
                names = {name for name, number in self.numbers[arch].items() if number == n}
                asked = {"fcntl", "flock", "sysinfo", "statfs", "fstatfs"} | ({"fsync", "fdatasync", "sync_file_range"} if "writable" in variant else set())
                self.assertTrue(INIT not in answers or names & asked, (variant, arch, n))
                may_ask = {"open", "openat", "sched_getaffinity", "setsid"} if variant.startswith("worker") else set()
                self.assertTrue(ASKS not in answers or names & may_ask, (variant, arch, n))

    def test_it_notices(self):
        """The test itself: with any one instruction changed to a return of ALLOW, something is allowed that should not be."""
        code = programs()["stub", NATIVE]
        numbers = set(range(1024))
        right = {n: evaluate.run(code, pack(n, NATIVE)) for n in numbers}
        for at, (op, _, _, k) in enumerate(code):
            if op == 0x06 and k != ALLOW:
                broken = [*code[:at], (0x06, 0, 0, ALLOW), *code[at + 1:]]
                wrong = [n for n in numbers if evaluate.run(broken, pack(n, NATIVE)) != right[n]]
                foreign = evaluate.run(broken, pack(0, "i386"))[0] != KILL or evaluate.run(broken, pack(X32, NATIVE)) != evaluate.run(code, pack(X32, NATIVE))
                self.assertTrue(wrong or foreign, at)


if __name__ == "__main__":
    unittest.main()
