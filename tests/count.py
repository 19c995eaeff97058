#!/usr/bin/env python3
"""Adds up single test cases from meson's testlog.json files: the last line printed is `N passed, N failed`.

A test program says what it ran in its own words: unittest's "Ran N tests … FAILED (failures=…)", node's TAP
summary, or one "ok NAME" a test. A program that failed without naming a case counts as one failed.

    count.py [--left-out SUITES] FILE…  adds up; the last line ends with what was left out
    count.py --failed FILE              names the tests that failed, a line each
"""

import json
import re
import sys

# Of the first failed programs the last lines are printed again.
FAILED_SHOWN = 8
LAST_LINES = 12
AGAIN = "-again.json"  # what failed in the file without that ending, once more
LONG = 60  # seconds: what takes longer belongs to the suite long


def number(pattern, text):
    found = re.findall(pattern, text, re.M)
    return sum(map(int, found))


def count(entry):
    """(passed, failed, skipped) of one meson test."""
    text = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
    if entry["result"] == "SKIP":
        return 0, 0, 1
    skipped = 0
    if re.search(r"^# pass \d+$", text, re.M):
        passed, failed = number(r"^# pass (\d+)$", text), number(r"^# (?:fail|cancelled) (\d+)$", text)
    elif re.search(r"^Ran \d+ tests? in", text, re.M):
        skipped = number(r"\bskipped=(\d+)", text)
        failed = len(set(re.findall(r"^(?:FAIL|ERROR): (\S+ \([^)]*\))", text, re.M)))
        passed = max(0, number(r"^Ran (\d+) tests? in", text) - failed - skipped)
    else:
        passed, failed = len(re.findall(r"^ok \S+", text, re.M)), 0
    if entry["result"] not in ("OK", "EXPECTEDFAIL"):
        failed = max(failed, 1)
    elif not passed and not skipped:
        passed = 1
    return passed, failed, skipped


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def failed_beside_others(path):
    """The names of the tests that failed."""
    for entry in read(path):
        if count(entry)[1]:
            yield entry["name"].partition(" / ")[2]


def unexpectedly_long(entry):
    suites, _, name = entry["name"].partition(" / ")
    return "integration" in suites and "long" not in suites and entry["duration"] > LONG and not name.endswith("-ordinary")


def main():
    if sys.argv[1:2] == ["--failed"]:
        print(*failed_beside_others(sys.argv[2]), sep="\n", end="")
        return 0
    left_out, paths = "", sys.argv[1:]
    if paths[:1] == ["--left-out"]:
        left_out, paths = f"; not run: {paths[1]}", paths[2:]
    total = [0, 0, 0]
    ends = []
    for path in (path for path in paths if not path.endswith(AGAIN)):
        again_path = path.removesuffix(".json") + AGAIN
        again = {entry["name"]: entry for entry in read(again_path)} if again_path in paths else {}
        for entry in read(path):
            if count(entry)[1] and entry["name"] in again:
                entry = again[entry["name"]]
                if not count(entry)[1]:
                    print(f"failed beside other tests, and passed alone: {entry['name']}")
            elif unexpectedly_long(entry):
                print(f"{entry['name']} took {entry['duration']:.0f} s: a file above {LONG} s belongs to the list of tests/meson.build")
            counts = count(entry)
            total = [a + b for a, b in zip(total, counts)]
            if counts[1]:
                print(f"failed: {entry['name']} ({entry['result'].lower()}), {counts[1]} of {sum(counts)}; see its log above")
                text = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
                ends.append((entry["name"], text.strip().splitlines()[-LAST_LINES:]))
    # Who reads only the end of a long log finds the reason here.
    for name, lines in ends[:FAILED_SHOWN]:
        print(f"---- the end of {name}", *lines, "----", sep="\n")
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "") + left_out)
    return bool(failed or not passed)


if __name__ == "__main__":
    sys.exit(main())
