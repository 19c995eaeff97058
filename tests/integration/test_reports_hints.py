"""One line that helps: files that do not exist, warnings, pools of the start method spawn, libraries that start housekeeping threads."""

import time

import harness
from rawmcp import ServerCase

FILES = "code sees no files of the user's machine, only /workspace"


class Hints(ServerCase):
    def message(self, code):
        return self.cell(code)["error"]["message"]

    def test_files(self):
        for path in ("/mnt/data/x.csv", "/content/x.csv", "/data/x.csv", "/kaggle/input/x.csv", "C:\\\\x.csv", "/Users/me/x.csv", "~/x.csv"):
            self.assertIn(FILES, self.message(f"open('{path}')"), path)
        self.assertIn(FILES, self.message("import os; os.listdir('/content')"))
        self.assertIn(FILES, self.message("raise FileNotFoundError('/data/x.csv not found.')"))
        self.assertIn("/workspace", self.message("import os\nos.makedirs('/mnt/data/x')"))
        self.ok("open('sales.txt', 'w').close()")
        self.assertRegex(self.message("open('sales.csv')"), r"relative names are of /workspace, which has .*sales\.txt.*; files of the user are in /workspace\)$")
        self.assertIn("which has", self.message("raise FileNotFoundError('No such file or directory (os error 2): sales.csv')"))
        # A path that exists here in principle gets none.
        for path in ("/workspace/x.csv", "/tmp/x.csv", "/etc/x"):
            self.assertTrue(self.message(f"open('{path}')").endswith(f"'{path}'"), path)
        self.assertIn("/workspace", self.message("print(__file__)"))
        self.assertIn("/workspace", self.message("from google.colab import files"))

    def test_warnings(self):
        self.assertEqual(self.ok("import warnings\nwarnings.warn('top', stacklevel=2)")["stderr"].splitlines()[0].split(" ", 1)[1].partition(": ")[2],
                         "UserWarning: top")
        code = "class F:\n    def _repr_html_(self):\n        warnings.warn('shown', stacklevel=3)\n        return '<b>'\ndisplay(F())"
        stderr = self.ok(code)["stderr"]
        self.assertRegex(stderr, r"^<cell \d+>:\d: UserWarning: shown\n")
        self.assertNotIn("<cloister>", stderr)
        glyphs = "for i in range(10):\n    warnings.warn('Glyph %d (\\\\N{X}) missing from font(s) DejaVu Sans.' % (20320 + i))"
        lines = self.ok(glyphs)["stderr"].splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"^<cell \d+>:2: UserWarning: the font DejaVu Sans lacks 10 characters: 你.*; to show them, put a font file")
        # One whose number cannot be read does not break later cells.
        self.cell("warnings.warn('Glyph %s (x) missing from current font.' % ('1' * 5000))")
        self.ok("1")
        # Warnings that the code catches are unchanged.
        self.assertEqual(self.ok("with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n    " + glyphs.replace("\n", "\n    ")
                                 + "\nlen(w)")["value"]["json"], 10)

    def test_pools_that_start_anew(self):
        head = "import math, multiprocessing as mp\nN = 2\nclass C:\n    pass\n@(lambda f: f)\ndef f(x):\n    return math.prod([N, x])\n"
        for method in "spawn", "forkserver":
            code = head + f"with mp.get_context('{method}').Pool(2) as p: r = p.map(f, range(3))\nr"
            self.assertEqual(self.ok(code, timeout=30)["value"]["json"], [0, 2, 4], method)
        code = "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2, mp_context=mp.get_context('spawn')) as p: r = list(p.map(f, [5]))\nr"
        self.assertEqual(self.ok(code, timeout=30)["value"]["json"], [10])
        begun = time.monotonic()
        error = self.cell("exec('def g(x): return x')\nwith mp.get_context('spawn').Pool(2) as p: p.map(g, range(3))", timeout=30)["error"]
        self.assertIn("g is not defined in a process of the start method spawn", error["message"])
        self.assertLess(time.monotonic() - begun, 10)
        # Lines of notebooks in other functions.
        code = "def other():\n    !ls\n    %time 1\nwith mp.get_context('spawn').Pool(2) as p: r = p.map(f, range(3))\nr"
        self.assertEqual(self.ok(code, timeout=30)["value"]["json"], [0, 2, 4])
        # The line of the cell is named.
        self.assertIn("line 2, in h", self.cell("def h(x):\n    return 1 / x\nwith mp.get_context('spawn').Pool(1) as p: p.map(h, [0])", timeout=30)["error"]["traceback"])


class Threads(harness.Case):
    """Variables by which a library starts no housekeeping threads, or its threads wait instead of computing. With the libraries themselves: ../../docs/state.md says what was measured."""

    def variable(self, name, default="background_thread:false", other="background_thread:true"):
        code = f"import ctypes, os; f = ctypes.CDLL(None).getenv; f.restype = ctypes.c_char_p; print(os.environ['{name}'], f(b'{name}').decode())"
        for arguments, value in ((), default), (("--env", f"{name}={other}"), other):
            done = self.run_cloister("run", *arguments, "-c", code)
            self.assertEqual(done.stdout.decode(), f"{value} {value}\n", done.stderr)

    def test_pyarrow(self):
        self.variable("JE_ARROW_MALLOC_CONF")

    def test_polars(self):
        self.variable("_RJEM_MALLOC_CONF")

    def test_openmp(self):
        self.variable("GOMP_SPINCOUNT", "20000", "infinite")

    def test_openblas(self):
        self.variable("OPENBLAS_THREAD_TIMEOUT", "20", "26")


if __name__ == "__main__":
    harness.main()
