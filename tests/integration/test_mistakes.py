"""Cloister's messages for mistakes: exit statuses, one line for each mistake, and the reason why the sandbox forbids something."""

import json
import os
import pwd

import harness
import rawmcp


class CommandLine(harness.Case):
    def run_it(self, *words, config=None, **rest):
        config = self.config() if config is None else self.write("own.json", config)
        return self.run_cloister("run", "--config", config, *words, "-c", "print(1)", **rest)

    def test_control(self):
        done = self.run_it("--timeout", "2m")
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"), done.stderr)

    def test_a_failure_of_ours_is_125(self):
        cases = {
            "syntax": ((), "{bad"),
            "refused": ((), '{"limits": {"memory": "12"}}'),
            "profile": (("--profile", "nope"), None),
            "python": ((), '{"python": "/nope/python3"}'),
            "image": (("--image", "nope"), None),
            "mount": ((), '{"mounts": [{"source": "/nope", "target": "/data"}]}'),
            "log file": (("--log-file", "/nope/log"), None),
        }
        for name, (words, config) in cases.items():
            with self.subTest(name):
                done = self.run_it(*words, config=config)
                self.assertEqual((done.returncode, done.stdout), (125, b""), done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_other_commands_fail_with_1(self):
        for command in ("tools", "mcp"):
            done = self.run_cloister(command, "--config", self.write("own.json", "{bad"))
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_an_exception_is_1_and_wrong_arguments_are_2(self):
        self.assertEqual(self.run_cloister("run", "--config", self.config(), "-c", "1/0").returncode, 1)
        for timeout, why in (("100000", b"from 1ms to 24h"), ("0", b"from 1ms to 24h"), ("soon", b"a time is needed")):
            done = self.run_it("--timeout", timeout)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)

    def test_a_time_with_a_unit(self):
        done = self.run_cloister("run", "--config", self.config(), "--timeout", "300ms", "-c", "while True: pass")
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertIn(b"0.3 s", done.stderr)


    def test_config_check_finds_what_is_missing(self):
        cases = (
            ('{"image": "nope"}', "there is no image 'nope'"),
            ('{"profiles": {"a": {"image": "nope"}}}', 'profile "a": there is no image'),
            ('{"python": "/nope/python3"}', "python /nope/python3: No such file"),
            ('{"mounts": [{"source": "/nope", "target": "/data"}]}', "mount /nope: No such file"),
            ('{"mounts": [{"source": "/etc/passwd", "target": "/data"}]}', "mount /etc/passwd: is no directory"),
            ('{"mcpServers": {"a": {"command": "no-such-program"}}}', "there is no program no-such-program in PATH"),
            ('{"mcpServers": {"a": {"command": "/nope/x"}}}', "there is no program /nope/x"),
            ('{"mcpServers": {"a": {"command": "sh -c foo"}}}', 'is the program alone (sh), "args" has the rest'),
            ('{"mcpServers": {"a": {"command": "sh", "cwd": "/nope"}}}', "its cwd /nope: No such file"),
        )
        for config, text in cases:
            with self.subTest(config):
                path = self.write("own.json", config)
                done = self.run_cloister("config", "check", "--config", path)
                self.assertIn(text, done.stdout.decode())
                self.assertEqual((done.returncode, done.stdout.count(b"warning: ")), (0, 1))
                self.assertEqual(self.run_cloister("config", "check", "--strict", "--config", path).returncode, 1)
        good = self.write("own.json", '{"mcpServers": {"a": {"command": "sh", "cwd": "/"}, "b": {"command": "/bin/sh"}}, "python": "/usr/bin/python3",'
                          ' "mounts": [{"source": "/usr", "target": "/data"}]}')
        done = self.run_cloister("config", "check", "--strict", "--config", good)
        self.assertEqual((done.returncode, b"warning" in done.stdout.partition(b": 0 errors")[0]), (0, False), done.stdout)

    def test_config_check_finds_a_module_that_the_image_has_not(self):
        self.assertEqual(self.run_cloister("run", "--config", self.config(), "-c", "pass").returncode, 0)  # this builds the image
        good = ["json", "xml.etree.ElementTree", "math", "sqlite3", "_ssl", "zlib"]
        for names, count in ((good, 0), ([*good, "no_such_module.x"], 1)):
            for settings in ({"preload": names}, {"profiles": {"a": {"preload": names}}}):
                path = self.write("own.json", json.dumps(settings))
                done = self.run_cloister("config", "check", "--config", path)
                self.assertEqual(done.stdout.count(b"warning: "), count, done.stdout)
                self.assertEqual(b'preload: the image has no module "no_such_module"' in done.stdout, count == 1)

    def test_import_reads_a_file_once(self):
        os.mkdir(self.path(".cursor"))
        self.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "sh"}, "b": {"url": "https://ann:s3cr3t@host.example/mcp"}}}')
        env = harness.environment(HOME=self.dir)
        done = self.run_cloister("config", "import", "--dry-run", env=env, cwd=self.dir)
        self.assertNotIn(b"left out", done.stdout)
        self.assertNotIn(b"s3cr3t", done.stdout)
        self.assertIn(b"@host.example/mcp", done.stdout)
        # In another directory the file is a different one.
        os.makedirs(self.path("project/.cursor"))
        self.write("project/.cursor/mcp.json", '{"mcpServers": {"c": {"command": "sh"}}}')
        done = self.run_cloister("config", "import", "--dry-run", env=env, cwd=self.path("project"))
        self.assertEqual(done.stdout.count(b"took "), 3, done.stdout)

    def test_the_home_directory_without_home(self):
        env = harness.environment()
        del env["HOME"]
        home = pwd.getpwuid(os.geteuid()).pw_dir
        done = self.run_cloister("config", "path", env=env)
        self.assertIn(f"{home}/.config/cloister/config.json", done.stdout.decode())

    def test_tools_of_a_profile_without_servers(self):
        path = self.write("own.json", '{"mcpServers": {"a": {"command": "sh"}}, "profiles": {"none": {"servers": []}}}')
        done = self.run_cloister("tools", "--config", path, "--profile", "none")
        self.assertIn(b'profile "none" may use none of the config', done.stdout)
        self.assertIn(b"name some in a config file", self.run_cloister("tools", "--config", self.config()).stdout)


NETWORK = "this sandbox has no network: "
HINTS = {
    "import socket; socket.create_connection(('192.0.2.1', 80), 2)": NETWORK,
    "import urllib.request; urllib.request.urlopen('https://example.com')": NETWORK,
    "import asyncio; await asyncio.open_connection('example.com', 80)": NETWORK,
    "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'six'], check=True, capture_output=True)": NETWORK,
    "open('/etc/x', 'w')": "code can write only below /workspace and /tmp",
    "open('/workspace/x', 'wb').write(bytes(8 << 20))": "/workspace is full: it has 4 MiB, limits.workspace in the config",
    "import os; os.setuid(5)": "the sandbox allows no such system call",
    "import subprocess; subprocess.run(['no-such-program'])": "the image has no program no-such-program",
    "open('/Users/ann/data.csv')": "code sees no files of the user's machine",
    "input('name? ')": "there is no standard input",
    "bytearray(1 << 44)": "limits.memory in the config",
    "import threading\ne = threading.Event()\ntry:\n  while True: threading.Thread(target=e.wait, daemon=True).start()\nfinally: e.set()":
        "limits.pids in the config",
    "import os, time\nwhile True:\n  if not os.fork(): time.sleep(0.1); os._exit(0)": "limits.pids in the config",
    "import signal, subprocess; subprocess.run(['/bin/sh', '-c', 'kill -9 $$'], check=True)": "the process was killed, most often",
    "mcp_a.add(a=1, b=2)['sum']": "write await before the call",
    "from tools import x": 'tools is defined in every cell and is not a module: await tools["NAME"]',
    "import mcp_a": "mcp_a is defined in every cell and is not a module",
    "import mcp_library": "no MCP server has this name; there is mcp_a",
    "from display import display": "display() is defined in every cell",
    "import add": "add is a tool, defined in every cell",
    "import yaml": "cloister image build --with PyYAML",
    "import nosuchdistribution": "this image has no such module",
    "open('0.csv', 'w').close(); open('none.csv')": "relative names are of /workspace, which has 0.csv",
}
# Errors of the code: the message does not mention the sandbox.
NO_HINTS = (
    "open('/workspace/none.csv')",
    "{}['a']",
    "import os; r, w = os.pipe(); os.set_blocking(r, False); os.read(r, 1)",
    "raise PermissionError('mine')",
    "try:\n  open('/etc/x', 'w')\nexcept OSError:\n  undefined",
    "import subprocess; subprocess.run(['/bin/false'], check=True)",
)


class Denials(rawmcp.ServerCase):
    SERVERS = {"a": harness.fixture()}
    CONFIG = {"limits": {"pids": 32, "workspace": "4M"}}

    def test_hints(self):
        for code, hint in HINTS.items():
            with self.subTest(code):
                cell = self.cell(code, session="bombs" if "while True" in code else "hints")
                self.assertEqual(cell["status"], "error", cell)
                self.assertIn(hint, cell["error"]["message"])
                last = cell["error"]["traceback"].rstrip("\n").split("\n")[-1]
                self.assertIn(hint, last)
                self.assertTrue(last.endswith(")"), last)
                self.assertEqual(cell["error"]["traceback"].count(hint), 1)

    def test_no_hints(self):
        for code in NO_HINTS:
            with self.subTest(code):
                error = self.cell(code, session="hints")["error"]
                self.assertFalse(error["message"].endswith(")"), error)

    def test_wrong_arguments_of_a_tool_are_told_once(self):
        for code in ("await mcp_a.add(a=20)", "mcp_a.add.sync(a=20)"):
            trace = self.cell(code)["error"]["traceback"]
            self.assertEqual(trace.count("ToolArgumentError"), 1, trace)
            self.assertTrue(trace.startswith("Traceback"), trace)

    def test_an_unknown_argument_names_no_other(self):
        for name in ("profile", "profil"):
            result = self.server.ask("tools/call", {"name": "run_python", "arguments": {"code": "1", name: "x"}})
            text = json.dumps(result)
            self.assertIn("unknown argument", text)
            self.assertNotIn("did you mean", text)

    def test_a_script_that_needs_packages(self):
        code = '# /// script\n# dependencies = ["nosuchdistribution"]\n# ///\n1'
        message = self.cell(code)["error"]["message"]
        self.assertIn("use what the image has", message)
        self.assertNotIn("cloister run", message)


if __name__ == "__main__":
    harness.main()
