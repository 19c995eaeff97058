"""What the pages promise: a section for each finding of doctor's, snippets that a client can read."""

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

STRING = r'"(?:[^"\\]|\\.)*"'


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def literal(strings):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))


class Troubleshooting(unittest.TestCase):
    """docs/troubleshooting.md has a section for each finding of doctor's, with its fix."""

    def rows(self):
        table = read("supervisor/doctor/problems.def")
        row = r'PROBLEM\(\w+, "([a-z-]+)", \w+, .*,\n\s*((?:%s\s*)+),\s*((?:%s\s*)+)\)\n' % (STRING, STRING)
        return [(name, literal(fix)) for name, _, fix in re.findall(row, table)]

    def test_each_finding(self):
        rows = self.rows()
        self.assertGreater(len(rows), 10)
        page = read("docs/troubleshooting.md") + "\n## end\n"
        sections = dict(re.findall(r"^### ([a-z-]+)\n(.*?)(?=^##)", page, re.S | re.M))
        self.assertEqual(set(sections), {name for name, _ in rows})
        for name, fix in rows:
            # Texts that the user types: settings and options, which have an equals sign.
            for word in re.findall(r"[\w./-]+=[\w./-]+", fix)[:2]:
                self.assertIn(word, sections[name], name)


class Frames(unittest.TestCase):
    """docs/rpc.md has the table that rpc/frames.def makes."""

    def test_table(self):
        table = runpy.run_path(os.path.join(ROOT, "rpc/frame-rows.py"))["table"](os.path.join(ROOT, "rpc/frames.def"))
        self.assertEqual(table.count("\n"), len(re.findall(r"^FRAME\(", read("rpc/frames.def"), re.M)) + 2)
        self.assertIn(table, read("docs/rpc.md"))


class Kinds(unittest.TestCase):
    """The kinds that --kind of 'cloister journal show' accepts are those of docs/journal.md."""

    def test_kinds(self):
        kinds = re.search(r'#define OPTION_KINDS[\s\\]*"([^"]*)"', read("supervisor/options/options.h")).group(1).split()
        table = read("docs/journal.md").partition("| kind | what it means |")[2].partition("\n\n")[0]
        listed = re.findall(r"`([a-z.]+)`", " ".join(re.findall(r"^\|([^|]*)\|", table, re.M)))
        self.assertEqual(sorted(kinds), sorted(listed))


class Folders(unittest.TestCase):
    """One table of folders, in two pages and in the rules of the include graph; each folder says what lives in it."""

    PAGES = ("docs/architecture.md", "HACKING.md")

    def table(self, page):
        return re.findall(r"^\| `([\w/-]+)/` \| (.+) \|$", read(page), re.M)

    def test_the_table_is_the_same_everywhere(self):
        spec = importlib.util.spec_from_file_location("include_graph", os.path.join(HERE, "include-graph.py"))
        graph = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(graph)
        rules = {folder for folder, _ in graph.RULES}
        tables = [self.table(page) for page in self.PAGES]
        self.assertEqual(tables[0], tables[1])
        self.assertEqual({folder for folder, _ in tables[0]}, rules)

    def test_each_folder_has_a_readme(self):
        names = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                               text=True, check=False).stdout.splitlines()
        folders = {os.path.dirname(name) for name in names if os.path.exists(os.path.join(ROOT, name))}
        for folder in sorted(f for f in folders if f and not f.startswith((".", "tests/fuzz/corpus/"))):
            with self.subTest(folder):
                lines = read(f"{folder}/README.md").splitlines()
                self.assertTrue(1 <= len(lines) <= 6, f"{len(lines)} lines")

    def test_files_that_pages_name_exist(self):
        for page in (*self.PAGES, "README.md", "SECURITY.md"):
            for path in re.findall(r"`((?:base|policy|rpc|rootfs|sandbox-init|supervisor|tests|docs|bench|examples)/[\w/.-]+\.\w+)`", read(page)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), f"{page}: {path}")
            for path in re.findall(r"\]\(([\w./-]+)\)", read(page)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(page), path)), f"{page}: {path}")

    def test_what_the_readme_shows_fits_a_terminal(self):
        for text in re.findall(r"^```sh\n(.*?)^```", read("README.md"), re.S | re.M):
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)


class Clients(unittest.TestCase):
    """examples/clients.md: each snippet is whole, and starts `cloister mcp`."""

    CLIENTS = ["Claude Code", "Claude Desktop", "Codex", "Gemini CLI", "Qwen Code", "opencode", "Cursor", "VS Code"]

    def sections(self):
        page = read("examples/clients.md") + "\n## end\n"
        return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## )", page, re.S | re.M))

    def command(self, entry):
        command = entry["command"]
        return command if isinstance(command, list) else [command, *entry["args"]]

    def test_each_client(self):
        sections = self.sections()
        for client in self.CLIENTS:
            with self.subTest(client):
                kind, text = re.search(r"^```(\w+)\n(.*?)^```", sections[client], re.S | re.M).groups()
                if kind == "toml":
                    self.assertIn("[mcp_servers.cloister]\n", text)
                    found = json.loads(re.search(r"^args = (\[.*\])$", text, re.M).group(1))
                    self.assertEqual(found, ["mcp"])
                    self.assertRegex(text, r'(?m)^command = "/path/to/cloister"$')
                    continue
                servers = json.loads(text)
                entry = next(iter(servers.values()))["cloister"]
                self.assertEqual(self.command(entry), ["/path/to/cloister", "mcp"])

    def test_every_json_of_every_page(self):
        pages = ["README.md", "examples/clients.md"] + [f"docs/{n}" for n in os.listdir(f"{ROOT}/docs") if n.endswith(".md")]
        seen = 0
        for page in pages:
            for text in re.findall(r"^```json\n(.*?)^```", read(page), re.S | re.M):
                with self.subTest(page=page, text=text):
                    json.loads(text)
                    seen += 1
        self.assertGreater(seen, 8)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class Units(unittest.TestCase):
    """systemd accepts each line of the units, and says how much they leave to a process."""

    PLACE = "packaging/systemd"
    NAMES = ("cloister.service", "cloister.socket", "cloister@.service")
    LEVELS = {"": 3.7, "rootless.conf": 3.3}  # at most, of systemd-analyze security

    def analyze(self, *words, units):
        """What systemd says of units, {name: text}. It ignores a bad setting with a message and ends with 0 all the same."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in units.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(re.sub(r"(?m)^(Exec\w+)=\S+", r"\1=/bin/true", text))
            paths = [os.path.join(folder, name.replace("@.", "@x.")) for name in units]
            return subprocess.run(["systemd-analyze", *words, *paths], capture_output=True, text=True, check=False,
                                  env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "XDG_RUNTIME_DIR": folder})

    def faults(self, units):
        done = self.analyze("--man=no", "verify", units=units)
        return [line for line in (done.stdout + done.stderr).splitlines() if "cloister" in line]

    def test_verify(self):
        units = {name: read(f"{self.PLACE}/{name}") for name in self.NAMES}
        self.assertEqual(self.faults(units), [])
        for good, bad in (("TasksMax=80%", "TasksMax=80%%"), ("Delegate=yes", "Delegat=yes"), ("PrivateTmp=yes", "PrivateTmp=perhaps")):
            self.assertIn(good + "\n", units["cloister.service"])
            self.assertNotEqual(self.faults(units | {"cloister.service": units["cloister.service"].replace(good, bad)}), [], bad)

    def test_user_units(self):
        units = {name: read(f"{self.PLACE}/user/{name}").replace("%E", "/etc").replace("%t", "/run") for name in ("cloister.service", "cloister.socket")}
        self.assertEqual(self.faults(units), [])
        # Settings that a user manager cannot apply, or that hide the user's own files.
        self.assertNotRegex("".join(units.values()), "(?m)^(User|Protect|Private|AmbientCap|StateDirectory|RuntimeDirectory)")

    def test_security(self):
        for more, most in self.LEVELS.items():
            text = read(f"{self.PLACE}/cloister.service") + (read(f"{self.PLACE}/{more}") if more else "")
            done = self.analyze("--offline=true", "security", units={"cloister.service": text})
            level = re.search(r"Overall exposure level for cloister.service: ([0-9.]+)", done.stdout)
            self.assertTrue(level, done.stderr)
            self.assertLessEqual(float(level[1]), most, done.stdout)

    def test_both_services_leave_the_same(self):
        """The limits of the server and of one run are the same."""
        parts = []
        for name in ("cloister.service", "cloister@.service"):
            part = re.search(r"(?m)^ProtectSystem=(.*\n)*?(?=\n|\Z)", read(f"{self.PLACE}/{name}"))
            parts.append(part[0])
        self.assertEqual(*parts)
        self.assertIn("SystemCallFilter=", parts[0])


class Version(unittest.TestCase):
    """The version is the same wherever it is written; packaging/release checks the tag too."""

    def test_version(self):
        (version,) = re.findall(r"(?m)^  version: '([^']+)',$", read("meson.build"))
        self.assertRegex(version, r"^\d+\.\d+\.\d+(-rc\d+)?$")
        self.assertEqual(re.match(r"cloister \(([^)]*)\)", read("packaging/debian/changelog"))[1], version.replace("-", "~"))
        heading = re.search(r"(?m)^## (?:Unreleased \(([^)]+)\)|(\S+) - \d{4}-\d\d-\d\d)$", read("CHANGELOG.md"))
        self.assertEqual(heading[1] or heading[2], version)
        named = re.findall(r"cloister[-_](\d[^-_]*)[-_]", read("docs/install.md"))
        self.assertEqual(set(named), {version})


class Performance(unittest.TestCase):
    """docs/performance.md has the places that bench/report.py fills, and the plots that it shows exist."""

    def test_places(self):
        page = read("docs/performance.md")
        places = re.findall(r"<!-- made by bench/report.py: (.*?) -->(.*?)<!-- end of (.*?) -->", page, re.S)
        self.assertEqual([begin for begin, _, _ in places], [end for _, _, end in places])
        self.assertEqual([begin for begin, _, _ in places], ["results", "peers", "lean", "growth", "where"])
        for name in re.findall(r"\((performance-[\w-]+\.svg)\)", page):
            self.assertTrue(os.path.exists(os.path.join(ROOT, "docs", name)), name)
        for _, content, place in places:
            self.assertIn("|---|", content, place)

    def test_results_come_first_and_the_page_is_short(self):
        page = read("docs/performance.md")
        self.assertRegex(page, r"^# Performance\n\n<!-- made by bench/report.py: results -->\n")
        self.assertLessEqual(len(page.split()), 2500)


if __name__ == "__main__":
    unittest.main(verbosity=2)
