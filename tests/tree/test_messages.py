#!/usr/bin/env python3
"""docs/rpc.md has a table of each rpc/*-messages.def, and a corpus of the fuzz target names each of its rows.

    test_messages.py            tests it
    test_messages.py --write    writes the tables
"""

import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/rpc.md")
ROW = re.compile(r'^([A-Z]+_[A-Z]+)\((.*?), "(.*)"\)$', re.M)
COLUMNS = {
    "MONITOR_REQUEST": ("request", "to", "target", "number", "pids instead", "answer", "effect"),
    "TEMPLATE_MESSAGE": ("message", "from", "first state", "last state", "answers", "member", "meaning"),
    "INIT_REQUEST": ("request", "pid", "pids instead", "first state", "last state", "effect"),
    "INIT_REPORT": ("report", "answers", "value", "pid", "meaning"),
    "MONITOR_EVENT": ("event", "legal", "for", "target", "descriptors", "member", "meaning"),
}


def rows(name):
    """(macro, members, text) of each row of a table of messages."""
    with open(os.path.join(ROOT, f"rpc/{name}-messages.def"), encoding="utf-8") as f:
        return [(macro, [m.strip() for m in members.split(",")], text) for macro, members, text in ROW.findall(f.read())]


def cell(text, messages):
    if text in ("LINK", "NONE", "none", "0"):
        return ""
    return text if text in messages or text.startswith("SESSION_") or re.search("[a-z]", text) else text.lower().replace("_", " ")


def table(name):
    lines = []
    last = None
    messages = {members[0] for _, members, _ in rows(name)}
    for macro, members, text in rows(name):
        if macro != last:
            titles = COLUMNS[macro]
            lines += [""] * bool(lines) + ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
            last = macro
        lines.append("| " + " | ".join([members[0], *(cell(m, messages) for m in members[1:]), text]).replace("|  |", "| |").replace("|  |", "| |") + " |")
    return "\n".join(lines)


def page_with_tables(text):
    return re.sub(
        r"(<!-- made from rpc/(\w+)-messages\.def -->\n)(.*?)(\n<!-- end -->)",
        lambda m: m[1] + table(m[2]) + m[4],
        text,
        flags=re.S,
    )


class Messages(unittest.TestCase):
    def test_the_page_has_each_row(self):
        with open(PAGE, encoding="utf-8") as f:
            text = f.read()
        for name in ("monitor", "sandbox"):
            self.assertIn(f"<!-- made from rpc/{name}-messages.def -->", text)
        self.assertEqual(text, page_with_tables(text), "run tests/tree/test_messages.py --write")

    def test_the_corpus_names_each_row(self):
        folder = os.path.join(ROOT, "tests/fuzz/corpus/link/accept")
        text = ""
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text += f.read()
        for _, members, _ in rows("monitor"):
            self.assertRegex(text, rf"(?m)^[re] {members[0]}\b")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, encoding="utf-8") as f:
            old = f.read()
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(page_with_tables(old))
    else:
        unittest.main(verbosity=2)
