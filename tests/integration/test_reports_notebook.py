"""Code that was written for a notebook has the same result in an image with IPython and in one without it.

The image with IPython is made once for each home directory of the tests: of the IPython in CLOISTER_VENV, or else of a model that prints repr() as IPython
does without its shell.
"""

import glob
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile

import harness
from rawmcp import ServerCase

MODEL = {
    "__init__": "version_info = (9, 0, 0, '')\nfrom .core.getipython import get_ipython\nfrom . import display\n",
    "core/__init__": "",
    "core/getipython": "def get_ipython():\n    return None\n",
    "core/display_functions": "def display(*objects, **options):\n    print(*map(repr, objects))\ndef update_display(*objects, **options):\n    display(*objects)\n"
                              "def clear_output(wait=False):\n    print('\\033[2K\\r', end='')\nclass DisplayHandle: pass\n",
    "core/display": "class DisplayObject:\n    def __init__(self, data):\n        self.data = data\nclass HTML(DisplayObject): pass\n",
    "display": "from .core.display_functions import *\nfrom .core.display import *\n",
}


def distributions(site, name, found):
    """The distribution, and those that it requires."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    for one in importlib.metadata.distributions(path=[site]):
        if name not in found and re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower() == name:
            found[name] = one
            for requirement in one.requires or ():
                if "extra ==" not in requirement:
                    distributions(site, re.match(r"[\w.-]+", requirement)[0], found)
    return found


def installed():
    """(its name, the distributions of IPython, the folder that has them), or of the model."""
    for site in glob.glob(os.path.join(os.environ.get("CLOISTER_VENV", ""), "lib/python3*/site-packages")):
        found = distributions(site, "ipython", {})
        if found:
            return "ipython-" + found["ipython"].version.replace(".", "-"), found.values(), site
    return "ipython-model", (), None


def install(found, source, site):
    for top in {str(file).split("/")[0] for one in found for file in one.files} - {"..", "__pycache__"}:
        if not os.path.exists(os.path.join(site, top)):
            path = os.path.join(source, top)
            (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(site, top))
    for name, text in () if found else MODEL.items():
        path = os.path.join(site, "IPython", name + ".py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


def image_with_ipython():
    """Its name."""
    name, found, source = installed()
    if os.path.isdir(os.path.join(harness.environment()["CLOISTER_IMAGE_STORE"], name)):
        return name
    venv = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
    try:
        os.chmod(venv, 0o755)
        subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        install(found, source, glob.glob(f"{venv}/lib/python3*/site-packages")[0])
        subprocess.run([harness.CLOISTER, "image", "build", "--quiet", "--python", f"{venv}/bin/python3", "--name", name],
                       env=harness.environment(), check=True, timeout=300)
        return name
    finally:
        shutil.rmtree(venv)


class Cells:
    def texts(self, code, **arguments):
        """The text blocks of a result, whose status must be ok."""
        result = self.call(code, **arguments)
        self.assertEqual(result["structuredContent"]["status"], "ok", result)
        return [block.get("text", block["type"]) for block in result["content"]]

    def test_clear_output(self):
        head = "from IPython.display import clear_output\n"
        loop = "for i in range(200):\n    {}\n    print('step', i)"
        for body in (loop.format("clear_output()"), loop.format("clear_output(wait=True)"), "print('a'); display(b'<svg/>', 'image/svg+xml')\n"
                     "import sys; sys.stderr.write('e\\n'); clear_output(); print('step 199')"):
            result = self.call(head + body)["structuredContent"]
            self.assertEqual((result["stdout"], result.get("stderr", ""), result.get("displays")), ("step 199\n", "", None), body)
        # Nothing came after it: with wait, the output stays.
        self.assertEqual(self.cell(head + "print('a'); clear_output(wait=True)")["stdout"], "a\n")
        self.assertNotIn("stdout", self.cell(head + "print('a'); clear_output()"))
        self.assertEqual(self.texts(head + "print('a'); clear_output(wait=True); 5"), ["value: 5"])
        # A program writes to the same pipe.
        self.assertEqual(self.cell(head + "import os\nfor i in range(300):\n    os.write(1, b'x' * 70000 if i == 0 else b'x')\n    clear_output()\nos.write(1, b'y')")["stdout"], "y")

    def test_clear_output_between_parts_of_a_result(self):
        """What came in an earlier answer stays there; the next one has what came after the call of clear_output()."""
        code = ("from IPython.display import clear_output\nimport time\nprint('é' * 3000)\ntime.sleep(1.5)\nclear_output()\nprint('b')\ntime.sleep(1)\n"
                "print('c')")
        first = self.server.start_call(code, session=self.session, timeout=20, wait=1).result(30)["structuredContent"]
        self.assertEqual((first["status"], first["stdout"]), ("running", "é" * 3000 + "\n"))
        last = self.server.start_call(None, session=self.session, wait=20).result(30)["structuredContent"]
        self.assertEqual((last["status"], last["stdout"]), ("ok", "b\nc\n"))

    def test_displays_with_an_id(self):
        head = "from IPython.display import HTML, display, update_display\n"
        texts = self.texts(head + "h = display('at 0 percent', display_id='p')\nfor i in range(1, 101): h.update('at %d percent' % i)\nprint('end')")
        self.assertEqual(texts[1:], ["at 100 percent"])
        texts = self.texts(head + "display(HTML('<b>old</b>'), display_id='q'); display(HTML('<i>x</i>'))\nupdate_display(HTML('<b>new</b>'), display_id='q')")
        self.assertEqual(texts[1:], ["<b>new</b>", "<i>x</i>"])
        # From a later cell, and more often than displays are kept.
        self.assertEqual(self.texts("for i in range(100): h.update(i)")[1:], ["99"])
        handle = self.cell("display('x', display_id=True)")["value"]["repr"]
        self.assertRegex(handle, "^<DisplayHandle display_id=[0-9a-f]{16}>$")
        # Another id, and one display without any.
        texts = self.texts("a, b = display(1, display_id='a'), display(2, display_id='b')\nprint('p'); a.update(3)")
        self.assertEqual(texts[1:], ["3", "2"])

    def test_display_functions(self):
        for code, wanted in (("from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))", "<b>x</b>"),
                             ("from IPython.core.display import display, HTML\ndisplay(HTML('<b>x</b>'))", "<b>x</b>"),
                             ("import IPython\nIPython.display.display(IPython.display.Markdown('*x*'))", "*x*\n"),
                             ("from IPython.display import display_html\ndisplay_html('<b>x</b>', raw=True)", "<b>x</b>"),
                             ("from IPython.display import ProgressBar\nfor i in ProgressBar(3): pass", "[" + "=" * 60 + "] 3/3")):
            self.assertIn(wanted.strip(), "".join(self.texts(code)), code)
        for code in ("IFrame('https://example.org', 1, 1)", "YouTubeVideo('x')", "Image(url='https://example.org/a.png')"):
            error = self.cell("from IPython.display import *\n" + code)["error"]
            self.assertIn("no network", error["message"], code)

    def test_lines(self):
        self.assertEqual(self.cell("%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%config A.b = 1\nif True:\n    %matplotlib inline\n6 * 7")["value"]["json"], 42)
        self.assertEqual(self.cell("get_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().run_line_magic('pwd', '')")["value"]["repr"], "'/workspace'")
        for code, value in (("%time x = 3\nx", 3), ("%time 1 + 2", 3), ("%%time\nx = 3\nx", 3), ("x = %time 1 + 2 # why\nx", 3),
                            ("%time y = await asyncio.sleep(0, 3)\ny", 3)):
            cell = self.ok(code)
            self.assertEqual(cell["value"]["json"], value, code)
            self.assertIn("Wall time: ", cell["stdout"], code)
        self.assertRegex(self.ok("%timeit -n 10 -r 3 sum(range(10))")["stdout"], r"^[\d.]+ [µnm]?s ± .* of 3 runs, 10 loops each\)\n$")
        self.assertIn("2 runs, 5 loops", self.ok("%%timeit -n 5 -r 2\nx = 1\nfor i in range(3):\n    x += i")["stdout"])
        self.assertLessEqual({"stdout", "displays", "value"} & set(self.ok("%%capture out\nprint('hidden'); display(b'<svg/>', 'image/svg+xml')\n5")), set())
        self.assertEqual(self.ok("print(out.stdout, end='')")["stdout"], "hidden\n")
        self.assertEqual(self.ok("%env A_B=c d\n%env A_B")["value"]["repr"], "'c d'")
        self.assertEqual(self.ok("%cd /tmp\n%cd -\nd = %pwd\nd")["value"]["repr"], "'/workspace'")

    def test_programs(self):
        self.assertEqual(self.ok("name = 'w'\n!echo {name} $name {name.upper()} $HOME; exit 3\n_exit_code")["value"]["json"], 3)
        self.assertEqual(self.ok("def f(local):\n    !echo {local}\n    r = !echo one {local}; echo two\n    return r\nf(5)")["value"]["repr"], "['one 5', 'two']")
        self.assertEqual(self.ok("%%bash\necho one\nx=2; echo $x")["stdout"], "one\n2\n")
        self.assertEqual(self.ok("%%sh --out kept\necho one\n")["status"], "ok")
        self.assertEqual(self.ok("kept")["value"]["repr"], "'one\\n'")
        self.assertEqual(self.cell("%%bash\nexit 4")["error"]["type"], "subprocess.CalledProcessError")

    def test_a_timeout_keeps_the_variables(self):
        self.ok("kept = 1")
        for code in ("!sleep 60", "x = !sleep 60", "%%sh\nsleep 60", "!echo {__import__('time').sleep(60)}", "%timeit __import__('time').sleep(60)"):
            self.assertEqual(self.cell(code, timeout=1)["status"], "timeout", code)
            self.assertEqual(self.ok("kept")["value"]["json"], 1, code)

    def test_the_end_of_a_cell_that_fails(self):
        """Its error is the cell's, and what a cell has replaced is restored."""
        for head in "%%time", "%%capture", "%%capture\n%%time":
            self.assertEqual(self.cell(head + "\nimport sys\nsys.stdout.close()")["error"]["type"], "ValueError", head)
            self.assertEqual(self.ok("print('x'); display(b'<svg/>', 'image/svg+xml')")["displays"][0]["mime_type"], "image/svg+xml")
        error = self.cell("%%time\nclass E(Exception):\n    def __bool__(self):\n        raise OSError\nraise E('x')")["error"]
        self.assertEqual((error["type"], error["message"]), ("E", "x"))

    def test_what_the_user_reads(self):
        error = self.cell("x = 1\ndef f():\n    %time x / 0\nf()")["error"]
        self.assertEqual(error["line"], 3)
        self.assertIn("    %time x / 0\nZeroDivisionError", error["traceback"])
        self.assertIn("    %time x / 0\n", self.ok("import inspect; print(inspect.getsource(f))")["stdout"])
        error = self.cell("%matplotlib inline\n%time x = (")["error"]
        self.assertIn("    %time x = (\n", error["traceback"])
        for code, hint in (("%who_ls", "magic"), ("%%writefile a.txt\nx", "open("), ("%matplotlib inline\n%run a.py", "runpy"), ("%time", "needs code")):
            self.assertIn(hint, self.cell(code)["error"]["message"], code)
        self.assertEqual(self.ok("s = '''\n%time x\n!ls\n'''\n%matplotlib inline\ns")["value"]["repr"], r"'\n%time x\n!ls\n'")


class WithoutIPython(Cells, ServerCase):
    pass


class WithIPython(Cells, ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.ARGUMENTS = ("--image", image_with_ipython())
        super().setUpClass()

    def test_it_is_there(self):
        self.assertIn("site-packages", self.ok("import IPython; IPython.__file__")["value"]["repr"])


if __name__ == "__main__":
    harness.main()
