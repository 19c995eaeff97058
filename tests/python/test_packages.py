"""Messages about missing packages."""

import os
import sys
import tempfile
import unittest
from unittest import mock

import guest  # noqa: F401  (makes the package cloister)
from cloister import packages, tracebacks


def failed_import(statement):
    try:
        exec(statement, {"__name__": "__main__"})
    except ImportError as error:
        return error
    raise AssertionError(statement + " did not fail")


def script(*lines):
    return "".join("# %s\n" % line if line else "#\n" for line in ("/// script", *lines, "///")) + "print(1)\n"


class Hints(unittest.TestCase):
    def test_a_failed_import(self):
        described = tracebacks.describe(failed_import("import xlrd"))
        self.assertEqual(described["type"], "ModuleNotFoundError")
        hint = ("No module named 'xlrd' (add it: cloister image build --with xlrd --name NAME; "
                "then \"image\": \"NAME\" in the config, or cloister run --with xlrd)")
        self.assertEqual(described["message"], hint)
        self.assertTrue(described["traceback"].endswith("ModuleNotFoundError: " + hint + "\n"), described["traceback"])

    def test_the_exception_is_unchanged(self):
        error = failed_import("import nosuchdistribution.part")
        tracebacks.describe(error)
        self.assertEqual((str(error), error.name, type(error)),
                         ("No module named 'nosuchdistribution'", "nosuchdistribution", ModuleNotFoundError))

    def test_names_of_distributions(self):
        for module, distribution in (("yaml", "PyYAML"), ("cv2", "opencv-python-headless"), ("sklearn", "scikit-learn"),
                                     ("sentence_transformers", "sentence-transformers"), ("PIL", "Pillow"), ("bs4", "beautifulsoup4"), ("dateutil", "python-dateutil")):
            error = ModuleNotFoundError("No module named %r" % module, name=module)
            self.assertIn("cloister run --with %s)" % distribution, packages.hint(error))

    def test_no_name_of_a_package_that_is_not_known(self):
        """A person who registers that name could have their own code installed."""
        for module in ("analysis_tools", "acme_internal"):
            hint = packages.hint(ModuleNotFoundError("No module named %r" % module, name=module))
            self.assertIn("--with PACKAGE", hint)
            self.assertNotIn(module, hint)
            self.assertNotIn(module.replace("_", "-"), hint)

    def test_no_hint_where_no_package_helps(self):
        errors = [failed_import("import json.nosuch"), failed_import("from json import nosuch"), ImportError("x", name="y"),
                  ModuleNotFoundError("No module named 'other'", name="pandas"), ModuleNotFoundError("x"),
                  ValueError("No module named 'pandas'")]
        for name in ("utils", "_private", "my_code", "test_this", "tkinter", "caf\xe9", "a b"):
            errors.append(ModuleNotFoundError("No module named %r" % name, name=name))
        for error in errors:
            self.assertEqual(packages.hint(error), "", repr(error))

    def test_a_module_of_the_agent(self):
        error = ModuleNotFoundError("No module named 'analysis'", name="analysis")
        self.assertNotEqual(packages.hint(error), "")
        with mock.patch("os.path.lexists", lambda path: path == "/workspace/analysis.py"):
            self.assertEqual(packages.hint(error), "")

    def test_a_chained_exception(self):
        try:
            try:
                import nosuchdistribution  # noqa: F401
            except ImportError as error:
                raise RuntimeError("no table") from error
        except RuntimeError as error:
            described = tracebacks.describe(error)
        self.assertEqual(described["message"], "no table")
        self.assertIn("named 'nosuchdistribution' (this image has no such module", described["traceback"])

    def test_the_command_keeps_the_packages_of_the_image(self):
        with tempfile.NamedTemporaryFile("w") as asked, mock.patch.object(packages, "ASKED_FOR", asked.name):
            asked.write("numpy>=2")
            asked.flush()
            error = ModuleNotFoundError("No module named 'six'", name="six")
            self.assertIn("--with 'numpy>=2,six' --name", packages.hint(error))


class Scripts(unittest.TestCase):
    def missing(self, *lines, filename="report.py"):
        error = packages.missing(script(*lines), filename)
        return error and str(error)

    def test_a_script_with_all_dependencies(self):
        self.assertIsNone(packages.missing("print(1)", "a.py"))
        self.assertIsNone(self.missing('requires-python = ">=3.9"', "dependencies = []"))
        self.assertIsNone(self.missing('dependencies = ["nosuchdistribution; python_version < \'3\'"]'))

    def test_missing_dependencies_and_the_commands(self):
        text = self.missing("dependencies = [", '  "nosuchdistribution>=2,<3",', '  "other[extra] ; sys_platform == \'linux\'",', "]")
        self.assertEqual(text, "report.py needs nosuchdistribution>=2,<3, other[extra] ; sys_platform == 'linux', which this image "
                               "lacks: cloister image build --with 'nosuchdistribution>=2,<3,other[extra] ; sys_platform == "
                               "'\"'\"'linux'\"'\"'' --name report && cloister run --image report report.py")

    def test_another_python(self):
        text = self.missing('requires-python = ">=3.99"')
        self.assertIn("report.py needs Python >=3.99, this image has %d.%d" % sys.version_info[:2], text)
        self.assertIn("cloister image build --python python3.99 --name report && cloister run --image report report.py", text)

    def test_of_one_name_the_later_counts(self):
        needs = ["A_b>=1", "c ; python_version > '3'", "not a requirement!", "a.B[x] ==2", "C @ https://h/c.whl"]
        self.assertEqual(packages.merged(needs), ["a.B[x] ==2", "C @ https://h/c.whl", "not a requirement!"])
        self.assertEqual(packages.declared(script('dependencies = ["a"]'), "/workspace/script.py"), (None, ["a"]))
        self.assertEqual(packages.declared("print(1)", None), (None, []))
        wrong, _ = packages.declared(script('requires-python = ">=3.99"', 'dependencies = ["a"]'), "/workspace/script.py")
        self.assertIn("needs Python >=3.99", str(wrong))
        self.assertNotIn("cloister run", str(wrong))  # the code came over MCP
        wrong, _ = packages.declared(script("dependencies = 5"), None)
        self.assertIn("its inline metadata can't be read", str(wrong))

    def test_without_a_toml_reader(self):
        with mock.patch.dict(sys.modules, tomllib=None):
            text = self.missing('dependencies = [', '  "nosuchdistribution[a]", # why', "]", 'requires-python = ">=3.98"')
        self.assertIn("needs nosuchdistribution[a], which", text)
        self.assertIn(">=3.98", text)

    def test_tables_and_mistakes_without_a_toml_reader(self):
        with mock.patch.dict(sys.modules, tomllib=None):
            self.assertIsNone(self.missing("dependencies = []", "[tool.other]", 'dependencies = ["nosuchdistribution"]'))
            self.assertIn("can't be read: \"dependencies\" is not what PEP 723 says", self.missing("dependencies = [ a b ]"))

    def test_metadata_that_cannot_be_read(self):
        self.assertIn("report.py: its inline metadata can't be read", self.missing("dependencies = 3"))

    def test_no_code_of_the_script_runs(self):
        from cloister.cell import Cells
        from cloister.interrupts import Interrupts
        space = {}
        source = script('dependencies = ["nosuchdistribution"]').replace("print(1)", "ran = True")
        outcome = Cells(space, None, mock.Mock(spec=Interrupts)).run(source, "report.py")
        self.assertIsInstance(outcome.error, ImportError)
        self.assertNotIn("ran", space)
        described = tracebacks.describe(outcome.error)
        self.assertEqual(described["traceback"].count("\n"), 1, described["traceback"])

    def test_versions(self):
        for version, specifiers, expected in (
            ("1.10", ">=1.9", True), ("1.9", ">=1.10", False), ("2.0", "==2", True), ("2.0.1", "==2.0.*", True),
            ("2.1", "==2.0.*", False), ("2.1", "~=2.0", True), ("3.0", "~=2.0", False), ("2.0rc1", ">=2.0", False),
            ("2.0.post1", ">2.0", True), ("1.5", ">=1,<2,!=1.5", False), ("1.5", "", True), ("1.5", "(>=1)", True),
            ("1!1.0", ">=5", True), ("odd", ">=1", True),
        ):
            self.assertEqual(packages.fits(version, specifiers), expected, (version, specifiers))

    def test_markers(self):
        for marker, expected in (("python_version >= '3.9'", True), ("python_version < '3.10' and os_name == 'nt'", False),
                                 ("sys_platform in 'linux darwin'", True), ("extra == 'x'", False),
                                 ("__import__('os')", False), ("unknown == '1'", False)):
            self.assertEqual(packages.applies(marker), expected, marker)


if __name__ == "__main__":
    unittest.main()
