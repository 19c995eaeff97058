"""The list of attacks: every class has tests that exist, or says why it does not apply."""

import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NUMBERS = [str(n) for n in range(1, 167)]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def classes():
    return json.loads(read("tests/attack/classes.json"))


def named(text, path, name):
    """Whether a file defines a test: a method, class or function of Python, or a function of C."""
    if path.endswith(".py"):
        return re.search(rf"^\s*(?:async )?(?:def|class) {re.escape(name)}\b", text, re.M) is not None
    if path.endswith(".c"):
        return re.search(rf"\b{re.escape(name)}\(", text) is not None
    return name in text


def missing(tests):
    """Of tests `path:name`, those that do not exist."""
    found = []
    for test in tests:
        path, _, name = test.partition(":")
        if not name or not path.startswith("tests/") or not os.path.exists(os.path.join(ROOT, path)) or not named(read(path), path, name):
            found.append(test)
    return found


class Attacks(unittest.TestCase):
    def test_every_number_once_and_in_order(self):
        pairs = json.loads(read("tests/attack/classes.json"), object_pairs_hook=list)
        self.assertEqual([number for number, _ in pairs], NUMBERS)

    def test_each_named_test_exists(self):
        for number, entry in classes().items():
            with self.subTest(number):
                self.assertEqual(missing(entry.get("tests", [])), [])

    def test_each_class_has_a_test_or_a_reason(self):
        still = []
        for number, entry in classes().items():
            with self.subTest(number):
                self.assertEqual(set(entry) - {"class", "held_by", "tests", "control", "not_applicable"}, set())
                self.assertTrue(entry["class"])
            if not entry.get("not_applicable") and not (entry.get("tests") and entry.get("held_by") and entry.get("control")):
                still.append(number)
        self.assertEqual(still, [])

    def test_the_page_has_the_list(self):
        """To write it: tests/attack/list."""
        self.assertEqual(subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tests/attack/list"), "--check"], check=False).returncode, 0)

    def test_a_test_that_does_not_exist_is_found(self):
        here = "tests/tree/test_attack.py"
        self.assertEqual(missing([f"{here}:test_each_named_test_exists", f"{here}:Attacks"]), [])
        for wrong in (f"{here}:test_each", f"{here}:", here, "tests/tree/absent.py:x", "README.md:Cloister"):
            self.assertEqual(missing([wrong]), [wrong])


if __name__ == "__main__":
    unittest.main(verbosity=2)
