#!/usr/bin/env python3
"""Checks the subjects of the commits since the rule began: 'area: verb …', imperative, at most 72 characters.

    subjects.py [ROOT]

Prints the subjects that break the rule, one line each, and ends with 1 then. A word that is not in VERBS is not a mistake of the
author: add it, if it is an imperative.
"""

import os
import re
import subprocess
import sys

# The newest commit of the time before the rule. In a shallow clone that lacks it, only the newest commit is checked.
BASE = "ac16a6fc433e"
LENGTH = 72
AREA = re.compile(r"(?:[\w./+-]+(?:, ?[\w./+-]+)*: )+")
VERBS = set(
    """accept account add adapt adjust allow answer append apply ask assert attach avoid begin bind bound break bring build bump call cap catch change
    charge check choose clarify clean clear close collect combine compare compile compute confine connect convert copy correct count cover create
    cut decide declare decode delay delete deny derive describe detach detect disable divide document drive drop embed enable encode end ensure evaluate
    exclude expand expect explain export extend extract fail fetch fill find fix fold follow forget format forward free freeze fuzz generate give
    grant group guard handle harden hide hold ignore implement improve include increase initialize inline install interrupt introduce isolate join keep
    kill let limit link list load lock log lower make map mark match measure merge move name narrow note offer omit open order pack parse pass
    pause pin poll prefer prepare prevent print probe propagate propose protect prove provide prune publish put queue quote raise read rebuild receive
    record recover reduce refer refuse register reject release reload remove rename reorder repair repeat replace reply report request require
    reset resolve respect restart restore restrict resume retry return reuse revert rewrite reword route run say scale scan schedule seal search
    select send separate serialize serve set settle share shorten show shrink simplify skip sort speed split start state stop store stream strip
    support survive swap switch take tear tell terminate test thaw tidy time tolerate trace track translate treat trim truncate try turn unblock
    unify unlink unmount update use validate verify wait wake walk warn watch widen wire withdraw wrap write""".split()
)


def git(root, *arguments):
    return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=root, capture_output=True, text=True, check=False)


def fault(subject):
    """What is wrong with a subject, or None."""
    area = AREA.match(subject)
    words = subject[area.end() :].split() if area else []
    if not words or words[0] not in VERBS:
        return "not 'area: verb …' in the imperative"
    return f"{len(subject)} characters, at most {LENGTH}" if len(subject) > LENGTH else None


def check(root):
    known = git(root, "cat-file", "-e", BASE + "^{commit}").returncode == 0
    log = git(root, "log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD" if known else "-1")
    for row in log.stdout.splitlines():
        commit, _, subject = row.partition(" ")
        if wrong := fault(subject):
            yield f"{commit}: “{subject}”: {wrong}"


def main():
    faults = list(check(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))))
    print("\n".join(faults), end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
