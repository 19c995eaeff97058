"""tests/soak/cpython.py runs by hand: its explanations of differences are checked here."""

import importlib.util
import json
import os
import re
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def load():
    spec = importlib.util.spec_from_file_location("cpython", f"{ROOT}/tests/soak/cpython.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Explanations(unittest.TestCase):
    def explained(self, *rows):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump([{"reason": "r", "said": said, "tests": {"test_a": names}} for said, names in rows], f)
            f.flush()
            return load().Explained(f.name)

    def test_those_of_the_tree(self):
        cpython = load()
        explained = cpython.Explained(f"{ROOT}/tests/soak/cpython.json")
        modules = {f"test_{name}" for name in cpython.MODULES}
        for row in explained.rows:
            self.assertLessEqual(set(row["tests"]), modules, row["reason"])
            self.assertNotIn("*", row["said"], "another failure of the test would be explained too")
            for page in re.findall(r"docs/[a-z]+\.md", row["reason"]):
                self.assertTrue(os.path.exists(f"{ROOT}/{page}"), page)

    def test_one_test_for_one_cause(self):
        explained = self.explained((["*No space*"], ["C*.test_b", "C.test_d"]), ([""], [""]))
        self.assertEqual(explained.reason("test_a", "test.test_a.C1.test_b", "OSError: No space left"), "r")
        self.assertIsNone(explained.reason("test_a", "test.test_a.C1.test_b", "OSError: Bad address"), "another failure of the test")
        self.assertIsNone(explained.reason("test_a", "test.test_a.C1.test_bc", "OSError: No space left"), "another test")
        self.assertIsNone(explained.reason("test_e", "test.test_e.C1.test_b", "OSError: No space left"), "another module")
        self.assertEqual(explained.unused(["test_a"]), ["test_a: C.test_d", "test_a: itself"])
        self.assertEqual(explained.unused(["test_e"]), [], "modules that did not run")
        self.assertEqual(explained.reason("test_a", "test_a", ""), "r")
        self.assertEqual(explained.unused(["test_a"]), ["test_a: C.test_d"])

    def test_wide_names_are_refused(self):
        for names in (["C.test_*"], ["*"], ["C.*"], ["C.test_b", "C.test_b"]):
            with self.subTest(names), self.assertRaises(SystemExit):
                self.explained(([""], names))


if __name__ == "__main__":
    unittest.main()
