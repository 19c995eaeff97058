import ast
import types
import unittest

from guest import CATALOG, QUERY, RETURN, Core, server, tool

from cloister.channel import Channel
from cloister.compiler import free_names
from cloister.interrupts import Interrupts
from cloister.namespace import Namespace


class FreeNames(unittest.TestCase):
    def test_read_and_not_set(self):
        for code, expected in {
            "a + b": {"a", "b"}, "a = b": {"b"}, "import x.y\nx": set(), "import x as z\nz, x": {"x"},
            "def f(a, *b, c=d, **e): return a, b, c, e, g": {"d", "g"}, "class K(L): pass\nK": {"L"},
            "for i in r: pass\ni": {"r"}, "try: pass\nexcept E as e: e": {"E"}, "[x for x in y]": {"y"},
            "from m import *": {"*"}, "await tool(a=1)": {"tool"}, "x.y.z": {"x"}, "f'{q}'": {"q"},
        }.items():  # fmt: skip
            with self.subTest(code=code):
                tree = compile(code, "f", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                self.assertEqual(free_names(tree), expected)


class Names(unittest.TestCase):
    def setUp(self):
        self.core = Core(self.answer)
        self.addCleanup(self.core.close)
        self.queries = 0
        self.on_query = lambda: None
        self.channel = Channel(self.core, Interrupts(self.core))
        self.main = types.ModuleType("__main__")
        self.namespace = Namespace(self.main, self.channel)
        self.channel.on[CATALOG] = self.namespace.on_catalogue
        self.namespace.start(print, print, print, print)
        self.names = vars(self.main)
        self.version = 0

    def answer(self, kind, number, payload):
        if kind == QUERY:
            self.queries += 1
            self.on_query()
            self.core.reply(RETURN, number, {"ok": True, "result": {"version": 1}})

    def tell(self, *servers):
        self.version += 1
        self.core.reply(CATALOG, self.version, {"servers": list(servers)})

    def cell(self, code):
        self.channel.pump()
        self.namespace.prepare(free_names(ast.parse(code)))

    def test_names_that_always_exist(self):
        for name in ("tools", "_discover", "_search", "_schema", "ToolError", "asyncio", "json", "re", "math", "transaction", "TransactionError", "RollbackError"):
            self.assertIn(name, self.names)

    def test_the_catalogue_is_read_on_demand(self):
        self.core.reply(CATALOG, 1, b"not even JSON")
        self.cell("1 + 1\nprint(len([]))\nx = tools")
        self.assertIsNone(self.namespace._library._read)
        self.version = 1
        self.tell(server("s", tool("a-b")))
        self.cell("a_b")
        self.assertIn("a_b", self.names)
        self.assertIn("mcp_s", self.names)

    def test_builtins_are_not_shadowed(self):
        self.tell(server("s", tool("print"), tool("list"), tool("tools"), tool("json")))
        before = self.names["tools"], self.names["json"]
        self.cell("dir()")
        self.assertNotIn("print", self.names)
        self.assertNotIn("list", self.names)
        self.assertEqual((self.names["tools"], self.names["json"]), before)

    def test_names_that_the_code_sets_are_kept(self):
        self.names["mine"] = 1
        self.tell(server("s", tool("mine"), tool("other")))
        self.cell("other")
        self.assertEqual(self.names["mine"], 1)
        self.names["other"] = 2
        self.tell(server("s", tool("fresh")))
        self.cell("fresh")
        self.assertEqual((self.names["mine"], self.names["other"]), (1, 2))
        del self.names["fresh"]
        self.cell("1")
        self.assertIn("fresh", self.names)

    def test_names_of_removed_tools_are_deleted(self):
        self.tell(server("s", tool("a")), server("t", tool("b")))
        self.cell("a")
        self.tell(server("t", tool("b")))
        self.channel.pump()
        self.assertNotIn("a", self.names)
        self.assertNotIn("mcp_s", self.names)
        self.assertIn("b", self.names)

    def test_names_that_two_servers_share_are_not_set(self):
        self.tell(server("s", tool("a"), tool("x")), server("t", tool("a"), tool("y")))
        self.cell("x")
        self.assertNotIn("a", self.names)
        self.assertIn("y", self.names)

    def test_it_waits_once_for_servers_that_start(self):
        self.tell(server("s", state="starting"))
        self.cell("x = 1\nlen([x])")
        self.assertEqual(self.queries, 0)
        self.cell("missing")
        self.assertEqual(self.queries, 1)
        self.cell("missing")
        self.assertEqual(self.queries, 1)
        self.on_query = lambda: self.tell(server("s", tool("late")))
        self.tell(server("s", state="starting"), server("t", state="starting"))
        self.cell("late")
        self.assertEqual(self.queries, 2)
        self.assertIn("late", self.names)


if __name__ == "__main__":
    unittest.main()
