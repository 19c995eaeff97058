"""What a template has before its first session."""

import unittest

from worker_case import WorkerTest

EMBEDDED = """
import marshal, sys
from importlib.util import MAGIC_NUMBER
core = next(f for f in sys.meta_path if getattr(f, "__name__", "") == "Embedded").exec_module.__globals__["_cloister"]
"""


class Embedded(WorkerTest):
    def test_the_build_has_compiled_its_own_modules(self):
        code = EMBEDDED + (
            "def same(name):\n"
            "    mine = marshal.loads(core.compiled(name, MAGIC_NUMBER))\n"
            "    fresh = compile(core.source(name), '<cloister>/%s.py' % name, 'exec', dont_inherit=True)\n"
            "    return mine == fresh and mine.co_filename == fresh.co_filename\n"
            "[same(name) for name in ('__init__', 'cell', 'session', 'template')]"
        )
        self.assertEqual(self.value(code), [True] * 4)

    def test_another_bytecode_is_compiled_from_source(self):
        code = EMBEDDED + "[core.compiled('cell', m) for m in (bytes(4), b'', bytes(99), MAGIC_NUMBER[:3])]"
        self.assertEqual(self.value(code), [None] * 4)
        self.assertEqual(self.value(EMBEDDED + "core.compiled('none', MAGIC_NUMBER)"), None)


if __name__ == "__main__":
    unittest.main()
