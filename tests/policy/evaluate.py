"""Classic BPF of seccomp, and the policy's table, in plain Python.

A program is run for one call number; where it never reads an argument, one run answers for all arguments.
"""

import os
import re
import struct

ALLOW, KILL, ERRNO, INIT = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
ASKS = ERRNO | 4094  # FILTER_ASK_OR_ALLOW of base/filter-load.h
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028, "other": 0xC0000016}
DATA = struct.Struct("=iIQ6Q")
WORD = struct.Struct("=I")
LOW = 0xFFFFFFFF


def decode(program):
    return [struct.unpack("=HBBI", program[at:at + 8]) for at in range(0, len(program), 8)]


def run(code, data):
    """(what the filter returns, whether it read an argument). Documentation/networking/filter.rst"""
    a = x = at = 0
    memory, read = [0] * 16, False
    while True:
        op, jt, jf, k = code[at]
        at += 1
        if op == 0x15:  # jeq k: most of a filter
            at += jt if a == k else jf
        elif op == 0x20:  # ld [k]
            if k % 4 or k >= 64:
                raise ValueError(f"load at {k}")
            read = read or k >= 16
            a = WORD.unpack_from(data, k)[0]
        elif op == 0x05:
            at += k
        elif op & 7 == 5:
            value, kind = x if op & 8 else k, op & 0xF0
            if kind == 0x10:
                test = a == value
            elif kind == 0x20:
                test = a > value
            elif kind == 0x30:
                test = a >= value
            elif kind == 0x40:
                test = a & value
            else:
                raise ValueError(f"instruction {op:#x}")
            at += jt if test else jf
        elif op == 0x06:
            return k, read
        elif op & 7 == 4:
            value = x if op & 8 else k
            kind = op & 0xF0
            a = {0x00: a + value, 0x10: a - value, 0x40: a | value, 0x50: a & value, 0xA0: a ^ value}[kind] & LOW
        elif op == 0x00:
            a = k
        elif op == 0x01:
            x = k
        elif op == 0x60:
            a = memory[k]
        elif op == 0x61:
            x = memory[k]
        elif op == 0x02:
            memory[k] = a
        elif op == 0x03:
            memory[k] = x
        elif op == 0x07:
            x = a
        elif op == 0x87:
            a = x
        else:
            raise ValueError(f"instruction {op:#x}")


# ---- the table -----------------------------------------------------------------------------------------------


class Condition:
    """About one argument: in what it selects, `values` are the ones that hold."""

    def __init__(self, text):
        match = re.fullmatch(r"a(\d) (?:(null|set)|(?:& (\w+) )?(?:= (\w+)|in ([\w,]+)))", text)
        if not match:
            raise ValueError(text)
        argument, pointer, mask, value, values = match.groups()
        self.argument, self.pointer = int(argument), pointer
        self.mask = int(mask, 0) if mask else LOW
        self.values = {int(v, 0) for v in (values or value or "0").split(",")}

    def holds(self, arguments):
        value = arguments[self.argument]
        if self.pointer:
            return (value == 0) == (self.pointer == "null")
        return value & self.mask in self.values

    def examples(self):
        return {0} if self.pointer == "null" else {1, 1 << 32, 1 << 63, 0x7FFF00001000} if self.pointer else self.values


class Line:
    """An answer to some calls."""

    def __init__(self, text):
        words, _, conditions = text.partition(" if ")
        self.answer, *self.calls = words.split()
        self.conditions = [Condition(c) for c in conditions.split(" and ")] if conditions else []

    def holds(self, arguments):
        return all(c.holds(arguments) for c in self.conditions)


def read_table(path):
    """{variant: {call: [Line]}}"""
    sections, current = {}, None
    with open(path, encoding="utf-8") as f:
        for text in f:
            text = text.strip().replace("O_DIRECTORY", hex(os.O_DIRECTORY)).replace("O_DIRECT", hex(os.O_DIRECT))
            match = re.fullmatch(r"\[(.*)\]|(\(.*\))", text)
            if match:
                current = sections.setdefault(match.group(1) or match.group(2), [])
            elif text and not text.startswith("#"):
                current.append(text)

    def lines(name):
        for text in sections[name]:
            if text.startswith("use "):
                yield from lines(text.removeprefix("use "))
            else:
                yield Line(text)

    table = {}
    for name in sections:
        if not name.startswith("("):
            calls = table[name] = {}
            for line in lines(name):
                for call in line.calls:
                    calls.setdefault(call, []).append(line)
    return table
