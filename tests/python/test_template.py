"""The state of a template before its first session."""

import os
import subprocess
import tempfile
import unittest
from unittest import mock

import worker_rig
from worker_case import WorkerTest

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sandbox-init", "python")

# Imports the list of modules as a template does, and prints the imported modules that the list does not name: only
# internal modules may be missing (sre_: those of re, which every template has).
UNNAMED = """
import sys
before = set(sys.modules)
import ast
tree = ast.parse(open(sys.argv[1]).read())
value = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "PRELOADED")
names = ast.literal_eval(value.func.value).split()
for name in names:
    try:
        __import__(name)
    except ImportError:
        pass
named = {name.partition(".")[0] for name in names} | before
print(sorted(n for n in set(sys.modules) - named if "." not in n and not n.startswith(("_", "sre_"))))
"""

EMBEDDED = """
import marshal, sys
from importlib.util import MAGIC_NUMBER
core = next(f for f in sys.meta_path if getattr(f, "__name__", "") == "Embedded").exec_module.__globals__["_cloister"]
"""


class Embedded(WorkerTest):
    def test_the_build_compiles_the_embedded_modules(self):
        code = EMBEDDED + (
            "def same(name):\n"
            "    mine = marshal.loads(core.compiled(name, MAGIC_NUMBER))\n"
            "    fresh = compile(core.source(name), '<cloister>/%s.py' % name, 'exec', dont_inherit=True)\n"
            "    return mine == fresh and mine.co_filename == fresh.co_filename\n"
            "[same(name) for name in ('__init__', 'cell', 'session', 'template')]"
        )
        self.assertEqual(self.value(code), [True] * 4)

    def test_no_bytecode_for_another_magic_number(self):
        code = EMBEDDED + "[core.compiled('cell', m) for m in (bytes(4), b'', bytes(99), MAGIC_NUMBER[:3])]"
        self.assertEqual(self.value(code), [None] * 4)
        self.assertEqual(self.value(EMBEDDED + "core.compiled('none', MAGIC_NUMBER)"), None)


class Later(WorkerTest):
    def test_sessions_share_what_the_template_has_imported(self):
        code = "import sys\n[n in sys.modules for n in ('asyncio', 'ssl', 'pathlib', 'pickle', 'datetime')]"
        cold = "CLOISTER_STUB_COLD" in os.environ
        self.assertEqual(self.value(code), [not cold] * 5)
        self.assertEqual(self.value("import gc; [gc.isenabled(), gc.get_freeze_count() > 1000]"), [True, True])

    def test_sessions_share_specialized_bytecode(self):
        if self.value("import sys\nlist(sys.version_info)[:2]") < [3, 11]:
            self.skipTest("this CPython does not specialize bytecode")
        code = (
            "import dis\nfrom cloister import channel, interrupts, session\n"
            "def names(function, adaptive):\n    return [i.opname for i in dis.get_instructions(function, adaptive=adaptive)]\n"
            "ways = channel.Channel._read, interrupts.Interrupts.begin, session.Session._execute, session.Session._next\n"
            "[names(way, True) != names(way, False) for way in ways]"
        )
        self.assertEqual(self.value(code), ["CLOISTER_STUB_COLD" not in os.environ] * 4)

    def test_code_in_a_session_cannot_call_warm_up(self):
        code = EMBEDDED + "core.warm_up(b'1+1\\0<cell 1>', print)"
        self.assertEqual(self.error(code)["message"], "the channel was read already")

    def test_the_list_names_all_imported_modules(self):
        done = subprocess.run(
            [worker_rig.PYTHON, "-I", "-c", UNNAMED, os.path.join(SOURCES, "template.py")],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "[]\n")


class First(WorkerTest):
    """The first sessions of a template, which are created before it has imported the rest of its modules."""

    @classmethod
    def setUpClass(cls):
        with mock.patch.dict(os.environ, CLOISTER_STUB_COLD="1"):
            super().setUpClass()

    def loaded(self):
        return self.value("import sys; 'asyncio' in sys.modules")

    def test_a_plain_cell_imports_no_asyncio(self):
        self.assertEqual(self.value("1+1"), 2)
        self.assertFalse(self.loaded())

    def test_using_a_name_imports_its_module(self):
        self.assertEqual(self.value("datetime.date(2024, 2, 3).year"), 2024)
        self.assertEqual(self.value("def f():\n    return asyncio.Queue().qsize()\nf()"), 0)
        self.assertTrue(self.loaded())

    def test_a_plain_cell_does_not_import_inspect(self):
        self.assertFalse(self.value("'_ast' in __import__('sys').modules"))
        code = "import sys; [n in sys.modules for n in ('inspect', 'ast', 'dis', 'signal')]"
        self.assertEqual(self.value(code), [False] * 4)
        self.assertEqual(self.value("import inspect, signal\ndef f(a): pass\nstr(inspect.signature(f))"), "(a)")
        self.assertEqual(self.value(code), [True] * 4)

    def test_inspect_is_patched(self):
        self.run_cell("class A:\n    x = 1")
        self.assertEqual(self.value("import inspect\ninspect.getsource(A)"), "class A:\n    x = 1\n")

    def test_names_computed_at_run_time(self):
        self.assertEqual(self.value("eval('asyn' + 'cio').__name__"), "asyncio")
        self.assertTrue(self.value("'datetime' in dir()"))

    def test_asyncio_imported_by_the_code_is_patched(self):
        self.assertTrue(self.value("import asyncio\nasyncio.get_event_loop().is_running() is False"))
        self.run_cell("done = []\nasync def later():\n    done.append(1)\n_ = asyncio.create_task(later())")
        self.assertEqual(self.value("await asyncio.sleep(0.01)\ndone"), [1])
        self.assertEqual(self.value("asyncio.run(asyncio.sleep(0, 3))"), 3)

    def test_the_first_await(self):
        self.assertEqual(self.value("await tools['echo'](v=5)"), {"v": 5, "tool": "echo"})
        self.assertTrue(self.loaded())

    def test_a_thread_that_imports_it(self):
        self.run_cell("import threading, time\nt = threading.Thread(target=__import__, args=('asyncio',))\nt.start()")
        self.assertEqual(self.value("t.join(); time.sleep(0.01); await asyncio.sleep(0, 2)"), 2)

    def test_a_thread_that_reads_the_next_cell(self):
        code = "import threading, time\ndef work():\n    time.sleep(0.2)\n    tools['echo'].sync(v=1)\n    time.sleep(0.5)\n"
        self.run_cell(code + "t = threading.Thread(target=work); t.start()")
        self.assertEqual(self.value("t.join(); 6"), 6)

    def test_files_of_the_working_directory_as_in_later_sessions(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("random", "asyncio", "mine"):
                with open(os.path.join(directory, name + ".py"), "w") as file:
                    file.write("mine = True\n")
            code = (
                "import os; os.chdir(%r)\n"
                "import random, mine\n"
                "[hasattr(random, 'mine'), hasattr(mine, 'mine'), hasattr(asyncio, 'mine')]"
            )
            self.assertEqual(self.value(code % directory), [False, True, False])


if __name__ == "__main__":
    unittest.main()
