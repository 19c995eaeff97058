"""What holds of the tree itself: which folder may include which, sizes, circles, one clock, the subjects of commits."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GRAPH = os.path.join(HERE, "include-graph.py")


def graph(root):
    return subprocess.run([sys.executable, "-B", GRAPH, root], capture_output=True, text=True, check=False)


class IncludeGraph(unittest.TestCase):
    """The order of the parts."""

    def test_the_tree_keeps_the_order(self):
        done = graph(ROOT)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def crossing(self, path, target):
        """The findings in a small tree where one file includes another."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in ((target, ""), (path, f'#include "{target}"\n')):
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(text)
            return graph(root).stdout

    def test_each_crossing_is_found(self):
        for path, target in (
            ("base/a.c", "policy/b.h"),
            ("policy/a.c", "rpc/b.h"),
            ("rpc/a.c", "supervisor/hub/b.h"),
            ("sandbox-init/init/a.c", "rpc/jsonrpc.h"),
            ("sandbox-init/init/a.c", "rpc/monitor-messages.h"),
            ("supervisor/monitor/a.c", "supervisor/broker/b.h"),
            ("supervisor/monitor/a.c", "supervisor/cli/b.h"),
            ("supervisor/monitor/a.c", "supervisor/doctor/b.h"),
            ("supervisor/monitor/a.c", "supervisor/hub/b.h"),
            ("supervisor/monitor/a.c", "supervisor/mcp/b.h"),
            ("supervisor/monitor/a.c", "supervisor/session/b.h"),
            ("supervisor/monitor/cgroup/a.c", "supervisor/monitor/monitor-state.h"),
            ("supervisor/hub/a.c", "supervisor/session/b.h"),
            ("supervisor/session/a.c", "supervisor/mcp/b.h"),
            ("supervisor/elsewhere/a.c", "base/b.h"),
            ("rootfs/a.c", "supervisor/monitor/b.h"),
        ):
            with self.subTest(path=path, target=target):
                self.assertIn(path, self.crossing(path, target))

    def test_circles_are_found(self):
        """Between modules of one folder; a module is x.c with x.h and x-internal.h."""
        chain = {"a.h": [], "a.c": ["a.h", "a-internal.h"], "a-internal.h": ["a.h", "b.h"], "b.h": [], "b.c": ["b.h", "c.h"], "c.h": []}
        for more, found in (
            ({}, False),
            ({"c.c": ["c.h", "a.h"]}, True),
            ({"b.h": ["a-internal.h"]}, True),
        ):
            with self.subTest(more=more), tempfile.TemporaryDirectory() as root:
                folder = os.path.join(root, "base")
                os.mkdir(folder)
                for name, targets in {**chain, **more}.items():
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                        f.writelines(f'#include "base/{target}"\n' for target in targets)
                self.assertEqual("includes itself by way of others" in graph(root).stdout, found)

    def test_what_is_allowed_is_not_found(self):
        for path, target in (
            ("policy/a.c", "base/b.h"),
            ("sandbox-init/worker/a.c", "rpc/frame.h"),
            ("supervisor/monitor/a.c", "policy/b.h"),
            ("supervisor/broker/a.c", "rpc/monitor-messages.h"),
        ):
            with self.subTest(path=path, target=target):
                self.assertEqual(self.crossing(path, target), "")


class Sources(unittest.TestCase):
    """One file reads the clock."""

    def sources(self, *endings):
        done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
        names = done.stdout.split("\n") if done.returncode == 0 else []
        return [os.path.join(ROOT, n) for n in names if n.endswith(endings) and os.path.exists(os.path.join(ROOT, n))]

    def test_one_file_reads_the_monotonic_clock(self):
        """A test can move no other clock (tests/unit/fake-clock.h). Benchmarks and tests may read their own, and the sandbox."""
        readers = []
        for path in self.sources(".c"):
            name = os.path.relpath(path, ROOT)
            with open(path, encoding="utf-8") as f:
                if "CLOCK_MONOTONIC" in f.read() and not name.startswith(("bench/", "tests/", "sandbox-init/")):
                    readers.append(name)
        self.assertEqual(readers, ["base/clock.c"])


class Shape(unittest.TestCase):
    """The limits of shape.py, and that it finds what breaks them."""

    def shape(self, root):
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "shape.py"), root], capture_output=True, text=True, check=False)

    def test_the_tree_keeps_the_limits(self):
        done = self.shape(ROOT)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def findings(self, files):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(text)
            return self.shape(root).stdout

    def test_each_limit_is_found(self):
        good = {"base/README.md": "Parts.\n", "base/a.h": "int a(void);\n", "base/a.c": '#include "base/a.h"\nint a(void)\n{\n}\n'}
        self.assertEqual(self.findings(good), "")
        part = '#include "base/a.h"\nint {0}(void)\n{{\n}}\n'
        for more, found in (
            ({"base/a.c": "int a(void)\n{\n" + "        x();\n" * 101 + "}\n"}, "a function of 102 lines"),
            ({"base/a.c": "\n" * 901}, "901 lines, at most 900"),
            ({"base/b.c": "int b(void)\n{\n}\n"}, "base/b.c: has no header of its name"),
            ({"base/README.md": None}, "base/: has no README.md"),
            ({f"base/p{n}.py": "" for n in range(25)}, "26 source files"),
            ({"base/a.h": "int a(void);\nint b(void);\nint c(void);\n", "base/b.h": "", "base/c.h": "", "base/b.c": part.format("b"), "base/c.c": part.format("c")},
             "declares functions of 3 files"),
            ({"base/a.h": "int a(void);\nint b(void);\n", "base/b.h": "", "base/a.c": good["base/a.c"] + "\n" * 600, "base/b.c": part.format("b") + "\n" * 600}, "a module of 1210 lines"),
        ):
            with self.subTest(found):
                files = {**good, **more}
                self.assertIn(found, self.findings({name: text for name, text in files.items() if text is not None}))


class HostFiles(unittest.TestCase):
    """One function of each language creates files on the host, and their table is the documented one."""

    def lint(self, root):
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "host-files.py"), root], capture_output=True, text=True, check=False)

    def test_no_other_code_creates_files(self):
        done = self.lint(ROOT)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def findings(self, more):
        files = {
            "base/host-files.def": "HOST_FILE(LOG, O_WRONLY | O_APPEND, 0600)\n",
            "base/host-file.c": "int host_file_open(int x)\n{\n        return openat(x, O_CREAT);\n}\n",
            "rootfs/packages.py": "def create_fd(path):\n    return os.open(path, os.O_CREAT)\n\n\nx = 1\n",
            "base/log.c": "int x = HOST_FILE_LOG;\n",
            "docs/isolation.md": "| LOG | FILE | any | WRONLY, APPEND | 0600 | 16 MiB |\n",
            "sandbox-init/a.c": "openat(O_CREAT);\n",
            **more,
        }
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(text)
            return self.lint(root).stdout

    def are_found(self, names, opener, function, texts):
        """Each text, in a separate file and outside of the function that may: one tree has them all."""
        files = {names.format(n): "\n" + text + "\n" for n, text in enumerate(texts)}
        whole, lines = function, []
        for text in texts:
            lines.append(whole.count("\n") + 1)
            whole += text + "\n"
        found = self.findings({**files, opener: whole})
        for n, (text, line) in enumerate(zip(texts, lines)):
            with self.subTest(text):
                self.assertIn(f"{names.format(n)}:2: creates a file", found)
                self.assertIn(f"{opener}:{line}: creates a file", found)

    def test_other_ways_are_found(self):
        self.assertEqual(self.findings({}), "")
        self.are_found("supervisor/x{}.c", "base/host-file.c", "int host_file_open(int x)\n{\n        return x;\n}\n", (
            "int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);",
            "enum { FLAGS = O_RDWR | O_CREAT };",
            "int fd = open(path, O_TMPFILE | O_RDWR, 0600);",
            "int fd = mkostemp(name, O_CLOEXEC);",
            "int fd = mkstemp(name);",
            "int fd = creat(path, 0600);",
            'FILE *f = fopen(path, "we");',
            'FILE *f = fopen(name_of(a, b),\n                "a");',
            'FILE *f = fopen(path, "r+");',
            "FILE *f = fopen(path, mode);",
            "mknodat(to, name, S_IFREG | 0444, 0);",
            "mknodat(to, name, 0444, 0);",
            'const char *url = "http://x"; int fd = creat(path, 0600);',
        ))
        self.are_found("rootfs/x{}.py", "rootfs/packages.py", "def create_fd(path):\n    return 1\n\n", (
            "fd = os.open(path, os.O_WRONLY | os.O_CREAT)",
            "with open(path, 'w') as f:",
            'with open(os.path.join(a, b), "wb") as f:',
            'with open(path, mode="x") as f:',
            "pathlib.Path(path).write_text(text)",
            "shutil.copyfile(a, b)",
            "tempfile.NamedTemporaryFile()",
            "with pathlib.Path(path).open('w') as f:",
            "shutil.move(a, b)",
            "zipfile.ZipFile(path, 'w')",
        ))

    def test_reading_and_comments_are_not_found(self):
        for path, text in (
            ("supervisor/x.c", '/* O_CREAT */ int fd = open(path, O_WRONLY); FILE *f = fopen(path, "re"); // creat(x)\nmknod(a, S_IFIFO | 0600, 0);'),
            ("rootfs/x.py", 'open(path, encoding="utf-8").read(); open(path, "rb")'),
            ("tests/x.c", "openat(x, O_CREAT);"),
        ):
            with self.subTest(path):
                self.assertEqual(self.findings({path: text}), "")

    def test_a_row_has_its_line_and_its_user(self):
        for more, found in (
            ({"docs/isolation.md": "| LOG | FILE | any | WRONLY | 0600 | 16 MiB |\n"}, "docs/isolation.md: has no row LOG WRONLY, APPEND 0600"),
            ({"docs/isolation.md": "| LOG | FILE | any | WRONLY, APPEND | 0644 | 16 MiB |\n"}, "docs/isolation.md: has no row"),
            ({"docs/isolation.md": "| LOG | F | any | WRONLY, APPEND | 0600 | 1 |\n| OLD | F | any | RDWR | 0600 | 1 |\n"}, "OLD is not a row"),
            ({"base/log.c": ""}, "nothing uses LOG"),
        ):
            with self.subTest(found):
                self.assertIn(found, self.findings(more))


@unittest.skipUnless(os.environ.get("CLOISTER_BUILD"), "needs a build: meson sets CLOISTER_BUILD")
class SymbolCircles(unittest.TestCase):
    """No two files need each other at link time."""

    def run_on(self, build):
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "symbol-circles.py"), build], capture_output=True, text=True, check=False)

    def test_the_build_has_none(self):
        done = self.run_on(os.environ["CLOISTER_BUILD"])
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_call_upwards_is_found(self):
        """The machine calls an action by its name instead of by its table."""
        for call, found in (("", False), ("act();", True)):
            with self.subTest(call), tempfile.TemporaryDirectory() as build:
                sources = {
                    "machine.c": f"void act(void); void dispatch(void); void dispatch(void) {{ {call} }}",
                    "actions.c": "void dispatch(void); void act(void); void act(void) { dispatch(); }",
                }
                for name, text in sources.items():
                    with open(os.path.join(build, name), "w", encoding="utf-8") as f:
                        f.write(text)
                    subprocess.run(["cc", "-c", "-o", name + ".o", name], cwd=build, check=True)
                subprocess.run(["ar", "rcs", "libx.a", *(name + ".o" for name in sources)], cwd=build, check=True)
                self.assertEqual("circle of 2: actions.c machine.c" in self.run_on(build).stdout, found)


class Listed(unittest.TestCase):
    """A file of tests that no meson.build lists is never run."""

    def test_each_file_is_listed(self):
        for folder in ("attack", "integration", "service"):
            folder = os.path.join(ROOT, "tests", folder)
            with open(os.path.join(folder, "meson.build"), encoding="utf-8") as f:
                listed = set(re.findall(r"'(test_\w+\.py)'", f.read()))
            self.assertEqual([name for name in sorted(os.listdir(folder)) if re.fullmatch(r"test_\w+\.py", name) and name not in listed], [])


class Subjects(unittest.TestCase):
    """Subjects of commits are 'area: verb …'."""

    def setUp(self):
        spec = importlib.util.spec_from_file_location("subjects", os.path.join(HERE, "subjects.py"))
        self.subjects = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.subjects)

    def test_commits_since_the_rule(self):
        self.assertEqual(list(self.subjects.check(ROOT)), [])

    def test_the_rule(self):
        for subject, good in (
            ("cgroup: kill the tree before removing it", True),
            ("docs, tests: record the soak runs", True),
            ("cgroup: the tree is killed before it is removed", False),
            ("kill the tree before removing it", False),
            ("docs: " + "record " + "x" * 60, False),
        ):
            with self.subTest(subject):
                self.assertEqual(self.subjects.fault(subject) is None, good)


if __name__ == "__main__":
    unittest.main(verbosity=2)
