"""What the pages of docs/ show as config and as commands is what the programs accept. Others run whole: those of sdk.md, rules.md, journal.md, plans.md, secrets.md and http.md."""

import glob
import os
import re

import harness
from test_help import commands, words

PAGES = [os.path.join(harness.SOURCE, "README.md"), *sorted(glob.glob(os.path.join(harness.SOURCE, "docs/*.md")))]
# The part of a config that a block is, if it has no name of a key around it. An empty text: the config of another program.
AROUND = {
    ("config.md", 1): '{"mcpServers": {"files": {"command": "f"}, "bank": {"command": "b"}, "mail": {"command": "m"}}, %s}',
    ("README.md", 0): "",
    ("oauth.md", 1): '{"mcpServers": {"nightly": {"url": "https://nightly.example/mcp", %s}}}',
    ("plans.md", 0): '{"mcpServers": {"mail": {"command": "mail-server"}}, "rules": %s}',
    ("secrets.md", 1): '{"profiles": {"default": {%s}}}',
}
# Warnings about the machine of the test, which lacks what the examples name.
MACHINE = "there is no (program|image) |No such file or directory$|never installed by root"
VARIABLES = ("CALENDAR_TOKEN", "CALENDAR_SECRET", "ISSUE_TOKEN", "TEAM", "GH_PAT")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Examples(harness.Case):
    def check(self, text):
        with open(self.path("example.json"), "w", encoding="utf-8") as f:
            f.write(text)
        return self.run_cloister("config", "check", "--config", self.path("example.json"), env={**harness.environment(), **dict.fromkeys(VARIABLES, "x" * 20)})

    def test_configs(self):
        checked = []
        for page in PAGES:
            name = os.path.basename(page)
            for n, text in enumerate(re.findall(r"^```jsonc?\n(.*?)^```", read(page), re.S | re.M)):
                around = AROUND.get((name, n), "%s" if text.startswith("{") else "{%s}")
                if not around:
                    continue
                with self.subTest(page=name, n=n):
                    inner = text.strip().replace("…", "0")
                    done = self.check(around % (inner[1:-1] if around != "%s" and inner.startswith("{") else inner))
                    self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
                    told = [line for line in done.stdout.decode().splitlines()[:-1] if not re.search(MACHINE, line)]
                    self.assertEqual(told, [])
                    checked.append((name, n))
        self.assertGreater(len(checked), 14)
        self.assertLessEqual({place for place, around in AROUND.items() if around}, set(checked))
        # The control: a key that a page could misspell.
        self.assertIn(b", 1 warning\n", self.check('{"profiles": {"data": {"imag": "pandas"}}}').stdout)

    def unknown(self, line, known):
        """The words of a line of a page that its command does not have."""
        line = re.sub(r"'[^']*'", "TEXT", line)
        # Two spaces, or a "#", begin the explanation.
        parts = re.split(r"\s{2,}|\s#\s", line)[0].replace("[", " ").replace("]", " ").replace("|", " ").split()
        name = next((tuple(parts[1:1 + n]) for n in (2, 1) if tuple(parts[1:1 + n]) in known), None)
        if name is None:
            return parts[1:2]
        found = []
        for word in parts[1 + len(name):]:
            if re.search(r"\.(py|js)$", word) and name == ("run",):
                break  # the script's own words follow
            if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known[name]:
                found.append(word)
        return found

    def test_commands(self):
        known = {}
        for command in commands():
            listed = words(*command, "--help")
            known[tuple(command)] = {option for line in re.findall(r"^  (-\S.*?)(?:  |$)", listed, re.M) for option in re.findall(r"--?[a-zA-Z][\w-]*", line)}
        lines = [(os.path.basename(page), line) for page in PAGES for line in re.findall(r"^(?:    (?:\$ )?|\$ )(cloister [a-z].*)$", read(page), re.M)]
        self.assertGreater(len(lines), 60)
        for page, line in lines:
            with self.subTest(page=page, line=line):
                self.assertEqual(self.unknown(line, known), [])
        # The control.
        self.assertEqual(self.unknown("cloister run --imag data -c 'import pandas'", known), ["--imag"])
        self.assertEqual(self.unknown("cloister images list", known), ["images"])


if __name__ == "__main__":
    harness.main()
