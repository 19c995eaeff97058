"""Every CPython of this machine, with both ways of linking: cells, descriptors and ends. Both must start it alike.

The list of interpreters is printed. The system's own interpreter is there in any case, by the module and, where it has a
libpython, embedded; trees with another libc are those of tests/pythons/make, in CLOISTER_PYTHONS.
"""

import atexit
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
import rawmcp
import test_bridge
import test_cells

TREES = os.environ.get("CLOISTER_PYTHONS", os.path.join(harness.SOURCE, "build", "pythons"))
PLACES = (
    "/usr/bin/python3", "/usr/bin/python3.*", "/usr/local/bin/python3*", "/opt/python*/bin/python3",
    "~/.pyenv/versions/3.*/bin/python3",
    "~/.local/share/uv/python/cpython-3.*/bin/python3",
)
ASK = ("import sys, sysconfig as s; print('%d.%d.%d %s %s' % (*sys.version_info[:3], sys.implementation.name,"
       " s.get_config_var('Py_GIL_DISABLED') or 0))")

# Tests that may fail with another libc or another linker. The system's own interpreter runs these two classes completely, linked in
# the way that is not chosen for it (test_cells.py runs them with the other one) ...
WHOLE = (test_cells.Cells, test_cells.Channel)
# ... and these tests of the other classes.
SOME = {
    test_cells.BadInput: ("test_endless_loop_is_interrupted_and_state_kept", "test_uninterruptible_c_code_is_killed",
                          "test_endless_await_is_interrupted_and_state_kept", "test_os_exit", "test_kill_of_itself",
                          "test_memory_taken_bit_by_bit", "test_code_of_ten_mebibytes", "test_recursion",
                          "test_two_sessions_at_once"),
    test_bridge.Bridge: ("test_by_subscript", "test_sync_in_threads", "test_a_thousand_calls_in_flight",
                         "test_sixteen_mebibytes_unchanged_both_ways", "test_is_error_raises"),
}

# The others, and an ordinary user after root, run only these tests, unless CLOISTER_TEST_WHOLE is set (suite slow).
FEW = {
    test_cells.Cells: ("test_variables_persist", "test_top_level_await", "test_background_task_goes_on_between_cells",
                       "test_traceback_shows_source_of_an_earlier_cell", "test_stdin_is_at_its_end",
                       "test_getsource_pickle_and_dataclasses_of_main", "test_unicode_passes_unchanged"),
    test_cells.Channel: ("test_closed_all_low_descriptors", "test_closing_the_channel_ends_the_session_with_a_reason",
                         "test_fork_in_a_cell", "test_threads", "test_multiprocessing", "test_subprocess_and_shell"),
    test_cells.BadInput: ("test_endless_loop_is_interrupted_and_state_kept", "test_os_exit"),
    test_bridge.Bridge: ("test_by_subscript", "test_sync_in_threads", "test_is_error_raises"),
}

# Properties of a process as its code finds them. Paths below /proc/self/fd, sockets and addresses differ from run to run.
LOOK = r"""
import _signal, builtins, codecs, locale, os, resource, signal, site, sys, sysconfig, threading, time
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        fds[fd] = os.readlink("/proc/self/fd/" + fd).split(":")[0]
    except OSError:
        pass
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
look = {
    "argv": [sys.argv, getattr(sys, "orig_argv", None)],
    "flags": str(sys.flags),
    "options": [sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix],
    "paths": [sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.executable, sys._base_executable],
    "platlibdir": [sys.platlibdir, sysconfig.get_paths()["stdlib"]],
    "version": [sys.version, sys.implementation.cache_tag, sys.abiflags, sys.hexversion],
    "encodings": [sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(),
                  locale.getpreferredencoding(False), sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding,
                  sys.stdout.errors, sys.stderr.errors, sys.stdout.line_buffering, locale.setlocale(locale.LC_CTYPE)],
    "site": [site.ENABLE_USER_SITE, "exit" in dir(builtins), hasattr(sys, "ps1")],
    "signals": {str(s): str(signal.getsignal(s)).split(" at ")[0] for s in signal.valid_signals()},
    "masks": [status[k] for k in ("SigBlk", "SigIgn", "SigCgt")],
    "privilege": [status[k] for k in ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapBnd", "Uid", "Gid")
                  if k in status],
    "limits": [resource.getrlimit(n) for n in range(16)],
    "main": sorted(n for n in vars(sys.modules["__main__"]) if n not in ("look", "fds", "status", "fd")),
    "modules": sorted(sys.modules),
    "builtins": sorted(set(sys.builtin_module_names) - {"_cloister"}),
    "finders": [str(f).split(" at ")[0] for f in sys.meta_path + sys.path_hooks],
    "threads": [threading.active_count(), threading.main_thread() is threading.current_thread()],
    "interval": sys.getswitchinterval(), "recursion": sys.getrecursionlimit(), "zone": time.tzname,
    "env": dict(os.environ), "cwd": os.getcwd(), "umask": oct(os.umask(0o22)), "fds": fds,
    "name": [__name__, open("/proc/self/comm").read() != ""], "pid": os.getpid(),
}
import json
json.dumps(look, sort_keys=True)
"""


@functools.lru_cache(maxsize=None)
def interpreters():
    """{real path: name} of the CPythons from 3.9 on that an image can be made of: the first of each minor version, or all
    (CLOISTER_TEST_WHOLE, suite slow)."""
    found, minors = {}, set()
    for place in PLACES:
        for path in sorted(glob.glob(os.path.expanduser(place))):
            real = os.path.realpath(path)
            with open(real, "rb") as f:
                if not os.access(real, os.X_OK) or f.read(4) != b"\x7fELF" or real in found:
                    continue
            done = subprocess.run([real, "-I", "-c", ASK], capture_output=True, text=True, check=False)
            version, name, free = (done.stdout.split() + [""] * 3)[:3]
            if name == "cpython" and free == "0" and tuple(map(int, version.split("."))) >= (3, 9):
                minor = version.rpartition(".")[0]
                if minor in minors and not harness.WHOLE:
                    continue
                minors.add(minor)
                name = "py" + version
                found[real] = name if name not in found.values() else f"{name}-{len(found)}"
    return found


class Subject:
    """An interpreter with one link: an image in its own store."""

    def __init__(self, store, name, link):
        self.store, self.image, self.link = store, name, link
        self.name = f"{name.replace('.', '').replace('-', '')}_{link}"

    def __repr__(self):
        return f"{self.image} ({self.link})"

    def arguments(self):
        return ["--store", self.store, "--image", self.image]

    def select(self):
        """Before a start: one tree serves both links, and only image.json says which."""
        path = os.path.join(self.store, self.image, "image.json")
        with open(path, encoding="utf-8") as f:
            info = json.load(f)
        if info["link"] != self.link:
            info["link"] = self.link
            with open(path, "w", encoding="utf-8") as f:
                json.dump(info, f)


class World:
    """All subjects of this machine, created once."""

    def __init__(self):
        self.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.subjects, self.refused, self.chosen = [], [], {}
        for python, name in interpreters().items():
            self.subjects += self.build(python, name)
        self.subjects += self.trees()

    def build(self, python, name, *options):
        """An image by the link that is chosen, or asked for. A tree with a libpython serves both links: where the module was
        chosen, another is made, if there is a libpython."""
        store = os.path.join(self.place, name, "images")
        os.makedirs(store)
        self.run_build(store, python, name, *options)
        link = self.link_of(store, name)
        if not options:
            self.chosen[python] = link
        if link == "embed":
            return [Subject(store, name, link) for link in ("embed", "module")]
        both = store + "-embed"
        os.makedirs(both)
        if self.run_build(both, python, name, "--link", "embed", needed=False):
            return [Subject(both, name, "embed"), Subject(store, name, "module")]
        return [Subject(store, name, "module")]

    @staticmethod
    def run_build(store, python, name, *options, needed=True):
        done = subprocess.run([harness.CLOISTER, "image", "build", "--quiet", "--python", python, "--name", name, *options],
                              env=harness.environment(CLOISTER_IMAGE_STORE=store), capture_output=True, text=True, timeout=240, check=False)
        if needed and done.returncode:
            raise AssertionError((python, done.stderr))
        return done.returncode == 0

    @staticmethod
    def link_of(store, name):
        with open(os.path.join(store, name, "image.json"), encoding="utf-8") as f:
            return json.load(f)["link"]

    def trees(self):
        """Images with another libc; their image.json is only read."""
        subjects = []
        for path in sorted(glob.glob(f"{os.path.realpath(TREES)}/[!.]*/image.json")):
            with open(path, encoding="utf-8") as f:
                info = json.load(f)
            subjects.append(Subject(os.path.dirname(os.path.dirname(path)), info["name"], info["link"]))
        self.refused = [s for s in subjects if s.image == "bullseye-embed"]
        return [s for s in subjects if s not in self.refused]

    def pairs(self):
        """[(embed, module)] of the interpreters that have both."""
        modules = {s.image: s for s in self.subjects if s.link == "module"}
        return [(s, modules[s.image.removesuffix("-embed")]) for s in self.subjects if s.link == "embed"]

    def remove(self):
        shutil.rmtree(self.place, ignore_errors=True)


@functools.lru_cache(maxsize=None)
def world():
    made = World()
    atexit.register(made.remove)
    return made


class Links(harness.Case):
    """Properties that each of the two ways of linking guarantees."""

    @property
    def world(self):
        return world()

    def run_in(self, subject, code, *options):
        subject.select()
        return self.run_cloister("run", "--config", self.config(), *subject.arguments(), *options, "-c", code)

    def look(self, subject):
        done = self.run_in(subject, LOOK.rstrip().rsplit("\n", 1)[0] + "\nprint(json.dumps(look, sort_keys=True))")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_both_links_are_here(self):
        print("found:", ", ".join(map(repr, self.world.subjects)), file=sys.stderr)
        self.assertIn("module", {s.link for s in self.world.subjects})
        self.assertIn("embed", {s.link for s in self.world.subjects}, "no interpreter with a libpython here")
        real = os.path.realpath(harness.PYTHON)
        self.assertIn(interpreters()[real], {s.image for s in self.world.subjects})

    def test_each_is_linked_as_it_says(self):
        for subject in self.world.subjects:
            with self.subTest(subject):
                done = self.run_in(subject, "import os, sys; print(os.readlink('/proc/self/exe')); "
                                   "print(os.path.realpath(sys.executable)); print('memfd:cloister-module' in "
                                   "open('/proc/self/maps').read())")
                program, executable, mapped = done.stdout.decode().split("\n")[:3]
                self.assertEqual(mapped, str(subject.link == "module"), done.stderr)
                self.assertEqual(program == executable, subject.link == "module")

    def test_both_links_start_an_interpreter_alike(self):
        for embed, module in self.world.pairs():
            ours, theirs = self.look(embed), self.look(module)
            for key, value in ours.items():
                with self.subTest(f"{embed.image}: {key}"):
                    self.assertEqual(theirs[key], value)

    def test_what_c_prints_is_output(self):
        """Through the stdout of the interpreter's own libc, which only its fflush() empties."""
        code = "import ctypes\n_ = ctypes.CDLL(None).printf(b'from C, no newline')"
        for subject in self.world.subjects:
            with self.subTest(subject):
                done = self.run_in(subject, code)
                if b"No module named '_ctypes'" not in done.stderr:
                    self.assertEqual(done.stdout, b"from C, no newline", done.stderr)

    def test_a_fork_of_c_code_does_not_answer(self):
        """Python's hooks do not run in such a child: the channel is its parent's all the same."""
        code = ("import ctypes, os\npid = ctypes.CDLL(None).fork()\nif pid == 0:\n    try:\n        tools['x'].sync()\n"
                "    except BaseException as e:\n        print(type(e).__name__, flush=True)\n    os._exit(0)\n"
                "_ = os.waitpid(pid, 0)\nprint('parent')")
        for subject in self.world.subjects:
            with self.subTest(subject):
                done = self.run_in(subject, code)
                if b"No module named '_ctypes'" not in done.stderr:
                    self.assertEqual(done.stdout.split()[-1:], [b"parent"], done.stderr)
                    self.assertEqual(len(done.stdout.split()), 2, done.stdout)

    def test_the_link_can_be_chosen(self):
        env = harness.environment(CLOISTER_IMAGE_STORE=self.path("images"))

        def build(*arguments):
            return self.run_cloister("image", "build", "--quiet", "--name", "chosen", *arguments, env=env)

        self.assertEqual(build("--link", "module").returncode, 0)
        with open(self.path("images/chosen/image.json"), encoding="utf-8") as f:
            info = json.load(f)
        self.assertEqual((info["link"], "libpython" in info), ("module", False))
        root = self.path("images/chosen/root")
        self.assertEqual(glob.glob(f"{root}/usr/lib/**/libpython3*", recursive=True), [])
        done = self.run_cloister("run", "--image", "chosen", "-c", "print(6 * 7)", env=env)
        self.assertEqual(done.stdout, b"42\n", done.stderr)
        self.assertEqual(build("--link", "module").returncode, 0)
        self.assertIn(b"made with --link module", build("--link", "embed").stderr)
        self.assertIn(b"embed or module", build("--link", "static").stderr)

    def test_what_an_interpreter_itself_is_made_of_is_chosen(self):
        for python in interpreters():
            needs = subprocess.run(["ldd", python], capture_output=True, text=True, check=True).stdout
            with self.subTest(python):
                self.assertEqual(self.world.chosen[python], "embed" if "libpython" in needs else "module")

    def test_no_byte_of_an_image_runs_unfiltered(self):
        """site-packages belong to the image: their code that runs at the start is already filtered."""
        venv = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, venv)
        subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        (packages,) = glob.glob(f"{venv}/lib/python3*/site-packages")
        with open(f"{packages}/early.pth", "w", encoding="utf-8") as f:
            f.write("import sys; sys.stderr.write(' '.join(l for l in open('/proc/self/status') if l.split(':')[0] in "
                    "('NoNewPrivs', 'Seccomp')).replace('\\n', ';').replace('\\t', '') + '\\n')\n")
        for subject in self.world.build(f"{venv}/bin/python3", "early", "--link", "embed"):
            with self.subTest(subject):
                done = self.run_in(subject, "print(1)", "--log-level", "info")
                self.assertEqual(done.stdout, b"1\n", done.stderr)
                self.assertIn("NoNewPrivs:1; Seccomp:2;", done.stderr.decode())

    def test_an_interpreter_that_cannot_start_is_reported_in_one_line(self):
        real = os.path.realpath(harness.PYTHON)
        for subject in self.world.build(real, "broken", "--link", "embed"):
            folder, = glob.glob(f"{subject.store}/broken/root/usr/lib/python3*/encodings")
            shutil.move(folder, folder + ".away")
            with self.subTest(subject):
                done = self.run_in(subject, "print(1)")
                lines = [line for line in done.stderr.decode().splitlines() if line.startswith("cloister: start")]
                self.assertEqual((done.returncode != 0, done.stdout, len(lines)), (True, b"", 1), done.stderr)
                self.assertRegex(lines[0], "as it started|while it started")
            shutil.move(folder + ".away", folder)
            with self.subTest(f"{subject}, whole again"):
                self.assertEqual(self.run_in(subject, "print(1)").stdout, b"1\n")

    def test_a_libc_older_than_ours_cannot_be_embedded(self):
        for subject in self.world.refused:
            with self.subTest(subject):
                done = self.run_in(subject, "print(1)")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("as it started", done.stderr.decode())


def selected(subject, base, names=None):
    """A subclass that runs a class's tests, or those of these names, in one image."""

    def set_up(cls):
        subject.select()
        super(made, cls).setUpClass()

    body = {"ARGUMENTS": subject.arguments(), "setUpClass": classmethod(set_up)}
    made = type(f"{base.__name__}_{subject.name}", (base,), body)
    made.__module__ = __name__  # of the cleanups of this file, not of the class's own
    every = unittest.defaultTestLoader.getTestCaseNames(made)
    return unittest.TestSuite(made(name) for name in every if names is None or name in names)


def load_tests(loader, tests, pattern):  # pylint: disable=unused-argument
    suite = unittest.TestSuite([loader.loadTestsFromTestCase(Links)])
    real = os.path.realpath(harness.PYTHON)
    for subject in world().subjects:
        other = subject.image == interpreters()[real] and subject.link != world().chosen[real]
        whole = other and not harness.SECOND or harness.WHOLE
        chosen = {**dict.fromkeys(WHOLE), **SOME} if whole else FEW
        suite.addTests(selected(subject, base, names) for base, names in chosen.items())
    return suite


if __name__ == "__main__":
    harness.main()
