"""Manual pages and completion: generated from the table of commands, and correct in the programs that read them."""

import glob
import json
import os
import pty
import re
import select
import subprocess
import time

import harness

MANUALS = os.path.join(harness.BUILD, "docs")


def words(*args):
    done = subprocess.run([harness.CLOISTER, *args], capture_output=True, check=True, env=harness.environment())
    return done.stdout.decode()


def commands():
    """Returns the commands that `cloister --help` names, as lists of words."""
    listed = re.search(r"Commands:\n(.*?)\n\n", words("--help"), re.S).group(1)
    return [re.match(r"  (\S+(?: \S+)?)  ", line).group(1).split() for line in listed.splitlines()]


def shown(page):
    """Returns a page as a reader sees it, with one line per paragraph."""
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=1000"], input=page, capture_output=True, check=True)
    return re.sub(r".\x08", "", done.stdout.decode())


def squeeze(text):
    return " ".join(text.split())


class Manual(harness.Case):
    def test_each_command_has_its_page(self):
        pages = {os.path.basename(path) for path in glob.glob(f"{MANUALS}/*.1")}
        self.assertEqual(pages, {"cloister.1"} | {f"cloister-{'-'.join(command)}.1" for command in commands()})
        self.assertGreater(len(pages), 10)

    def test_pages_are_well_formed(self):
        for path in glob.glob(f"{MANUALS}/*.1"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, check=False)
            faults = [line for line in done.stdout.decode().splitlines() if "missing date" not in line]
            self.assertEqual(faults, [], path)

    def test_pages_say_what_help_says(self):
        for command in commands():
            text, page = words(*command, "--help"), words("manual", *command).encode()
            reader = squeeze(shown(page))
            usage, summary = text.splitlines()[0], text.splitlines()[2]
            self.assertIn(squeeze(usage.split(":", 1)[1].replace(" [OPTIONS]", "")), reader)
            self.assertIn(summary.rstrip("."), reader)
            for option in re.findall(r"^  (-\S.*?)  +(\S.*)$", text[text.index("Options:"):], re.M):
                self.assertIn(squeeze(" ".join(option)), reader, command)
            for example in re.findall(r"^  (\S.*)$", text[text.index("Examples:"):].split("\n\n")[0], re.M):
                self.assertIn(squeeze(example), reader, command)

    def test_the_overview_names_all(self):
        reader = squeeze(shown(words("manual").encode()))
        for command in commands():
            self.assertIn(f"cloister-{'-'.join(command)}(1)", reader)
        for place in ("config.json", "CLOISTER_IMAGE_STORE", "NO_COLOR"):
            self.assertIn(place, reader)

    def test_page_of_the_config(self):
        """The page has each key to which a misspelt key is compared."""
        with open(f"{MANUALS}/cloister.json.5", "rb") as f:
            reader = shown(f.read())
        for key in ("mcpServers", "limits.memory", "timeout_max", "log_level", "profiles", "id_range"):
            self.assertIn(key, reader)


class Completion(harness.Case):
    def setUp(self):
        super().setUp()
        self.env = harness.environment(PATH=f"{harness.BUILD}:{os.environ['PATH']}", XDG_CONFIG_HOME=self.dir,
                                       XDG_DATA_HOME=self.dir, CLOISTER_IMAGE_STORE=self.path("store"))
        os.makedirs(self.path("store/mine/root"))
        info = {"format": 1, "name": "mine", "created": "2026-01-01T00:00:00Z", "python": "/usr/bin/python3",
                "version": "3.11.2", "libpython": "/usr/lib/libpython3.11.so.1.0", "source": "/usr/bin/python3",
                "bytes": 1, "files": 1}
        self.write("store/mine/image.json", json.dumps(info))

    def shell(self, *command):
        done = subprocess.run(command, capture_output=True, env=self.env, check=False, cwd=self.dir, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def bash(self, *line):
        quoted = " ".join(f"'{word}'" for word in line)
        script = (f"source <(cloister completion bash); COMP_WORDS=({quoted}); COMP_CWORD={len(line) - 1};"
                  " _cloister; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return self.shell("bash", "-c", script).split()

    def fish(self, line):
        script = f"source (cloister completion fish | psub); complete -C '{line}'"
        return [answer.split("\t")[0] for answer in self.shell("fish", "-N", "-c", script).splitlines()]

    def zsh(self, line, expected):
        """Types a line into a real line editor, presses tab, and reads the resulting line."""
        os.makedirs(self.path("zsh"), exist_ok=True)
        self.write("zsh/_cloister", self.shell("cloister", "completion", "zsh"))
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.dir,
                                   env={**self.env, "TERM": "dumb"}, start_new_session=True)
        os.close(theirs)
        self.addCleanup(harness.end, process)
        seen = b""

        def await_text(text):
            nonlocal seen
            end = time.monotonic() + harness.PATIENCE
            while text not in seen and time.monotonic() < end:
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 4096)
            self.assertIn(text, seen)

        os.write(ours, f"fpath=({self.path('zsh')} $fpath); autoload -Uz compinit; compinit -u -d {self.path('dump')};"
                       " PS1=; print ready-$((1+1))\n".encode())
        await_text(b"ready-2")
        seen = b""
        os.write(ours, line.encode() + b"\t")
        await_text(expected.encode())

    def test_bash(self):
        first = {command[0] for command in commands()}
        self.assertEqual(set(self.bash("cloister", "")), first)
        self.assertEqual(self.bash("cloister", "im"), ["image"])
        self.assertIn("build", self.bash("cloister", "image", ""))
        self.assertEqual(self.bash("cloister", "image", "build", "--py"), ["--python", "--pyodide", "--python-from"])
        self.assertEqual(self.bash("cloister", "run", "--image", ""), ["mine"])
        self.assertEqual(self.bash("cloister", "run", "--log-level", "w"), ["warning"])
        self.assertEqual(self.bash("cloister", "completion", "z"), ["zsh"])
        self.assertEqual(self.bash("cloister", "journal", "show", "--kind", "cell"), ["cell.begin", "cell"])
        self.assertEqual(self.bash("cloister", "approve", "7f3a2b1c", "--answer", "c"), ["cell"])
        self.assertEqual(self.bash("cloister", "run", "/etc/passw")[0][:11], "/etc/passwd")

    def test_every_option_of_every_command(self):
        """Each shell offers the options that --help lists."""
        for command in commands():
            text = words(*command, "--help")
            options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text[text.index("Options:"):], re.M))
            self.assertLessEqual(options, set(self.bash("cloister", *command, "--")), command)
        self.assertLessEqual({"--log-level", "--image"}, set(self.fish("cloister run --")))

    def test_fish(self):
        self.assertEqual(set(self.fish("cloister ")), {command[0] for command in commands()})
        self.assertIn("build", self.fish("cloister image "))
        self.assertEqual(self.fish("cloister run --image "), ["mine"])
        self.assertEqual(self.fish("cloister run --log-format j"), ["json"])
        self.assertIn("denied", self.fish("cloister journal show --kind "))

    def test_zsh(self):
        self.zsh("cloister im", "age")
        self.zsh("cloister run --time", "out")
        self.zsh("cloister run --image ", "mine")

    def test_wrong_words(self):
        done = self.run_cloister("completion", "tcsh")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"bash, zsh or fish", done.stderr)
        self.assertEqual(self.run_cloister("manual", "nothing").returncode, 2)


if __name__ == "__main__":
    harness.main()
