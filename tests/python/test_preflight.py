"""Calls of tools are checked before a cell runs, and only calls that are certain to fail are reported."""

import asyncio
import os
import random
import signal
import types
import unittest

from guest import CALL, CATALOG, QUERY, RETURN, Core, server, text_result, tool

from cloister import main_loop, sources
from cloister.cell import Cells, describe
from cloister.channel import Channel
from cloister.interrupts import Interrupts
from cloister.namespace import Namespace

LOANS = {
    "type": "object",
    "properties": {"member": {"type": "integer"}, "since": {"type": "string"}, "kind": {"enum": ["book", "film"]}},
    "required": ["member"],
}
RETURNED = {
    "type": "object",
    "properties": {"loan": {"$ref": "#/$defs/loan"}},
    "$defs": {"loan": {"type": "string", "minLength": 2}},
    "required": ["loan"],
    "additionalProperties": False,
    "oneOf": [{"required": ["loan"]}, {"required": ["member"]}],
}
ANY = {"type": "object", "properties": {"v": {}}, "additionalProperties": True}
LIBRARY = server("library", tool("list-loans", LOANS), tool("return_loan", RETURNED), tool("anything", ANY))
OTHER = server("other", tool("echo", ANY))


class Rig(unittest.TestCase):
    def setUp(self):
        self.core = Core(self.answer)
        self.addCleanup(self.core.close)
        self.interrupts = Interrupts(self.core)
        self.interrupts.start()
        channel = Channel(self.core, self.interrupts)
        self.loops = main_loop.MainLoop(channel, self.interrupts)
        self.loops.begin(1)
        self.addCleanup(self.restore)
        main = types.ModuleType("__main__")
        self.namespace = Namespace(main, channel)
        channel.on[CATALOG] = self.namespace.on_catalogue
        self.channel = channel
        self.namespace.start(print, print, print, print)
        self.names = vars(main)
        self.names["asyncio"] = asyncio
        self.cells = Cells(self.names, self.loops, self.interrupts)
        self.cells.preflight = self.namespace.preflight
        self.version = 0
        self.calls = []
        self.on_query = lambda: None
        self.tell(LIBRARY, OTHER)
        self.addCleanup(sources.forget)

    def restore(self):
        self.loops.main().close()
        asyncio.set_event_loop(None)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def tell(self, *servers):
        self.version += 1
        self.core.reply(CATALOG, self.version, {"servers": list(servers)})
        self.channel.pump()

    def answer(self, kind, number, payload):
        if kind == CALL:
            self.calls.append(payload)
            self.core.reply(RETURN, number, text_result("ok"))
        elif kind == QUERY:
            self.on_query()
            self.core.reply(RETURN, number, {"ok": True, "result": {"version": self.version}})

    def run_cell(self, code, check=False):
        self.interrupts.begin()
        try:
            run = self.cells.check if check else self.cells.run
            return describe(run(code, "<cell 1>" if check else None, self.namespace.prepare), self.interrupts.arrived)
        finally:
            self.interrupts.end()

    def refused(self, code, *texts):
        """Each of the texts is in the error, and nothing was run."""
        self.names["ran"] = []
        result = self.run_cell("ran.append(1)\n" + code)
        self.assertEqual(result.get("error", {}).get("type"), "cloister.PreflightError", (code, result))
        self.assertEqual((self.names["ran"], self.calls), ([], []), code)
        for text in texts:
            self.assertIn(text, result["error"]["message"], code)
        return result["error"]

    def runs(self, code, kind=None):
        """The cell is run; it may end with an error of another kind."""
        self.names["ran"] = []
        result = self.run_cell("ran.append(1)\n" + code)
        self.assertEqual(self.names["ran"], [1], (code, result))
        self.assertEqual(result.get("error", {}).get("type"), kind, (code, result))

    def checked(self, code):
        return self.run_cell(code, True)


class Mistakes(Rig):
    def test_all_are_named_at_once_with_signatures(self):
        error = self.refused(
            'await tools["list_loan"](member=1)\nx = 2\nawait mcp_library.list_loans(membr=1)\n'
            "mcp_library.anything.sync(1, 2)\nawait mcp_libary.any()",
            "nothing was run: 4 mistakes in calls of tools",
            'line 4: list-loans: unknown argument "membr"; did you mean "member"?',
            "It takes list-loans(member: int, since: str = None",
            'line 2: there is no tool "list_loan"; did you mean "list-loans"',
            "there is list-loans(member: int",
            "line 5: anything: arguments are given by name, or as one dict",
            'line 6: there is no server "mcp_libary"; did you mean "mcp_library"?',
        )
        self.assertEqual(error["line"], 2)

    def test_ways_to_call(self):
        for code in (
            "await mcp_library.list_loans(membr=1)",
            "await mcp_library['list-loans'](membr=1)",
            "await tools['library.list-loans'](membr=1)",
            "await tools['library', 'list-loans'](membr=1)",
            "await tools.library.list_loans(membr=1)",
            "await tools.list_loans(membr=1)",
            "await list_loans(membr=1)",
            "list_loans(membr=1)",
            "list_loans.sync(membr=1)",
            "list_loans.raw.sync(membr=1)",
            "await list_loans.raw(membr=1)",
            "await list_loans({'membr': 1})",
            "await list_loans({'membr': x})",
            "await list_loans(arguments={'membr': x})",
            "await list_loans(5)",
            "print(await list_loans(membr=x))",
            "y = [await list_loans(membr=1)]",
            "await asyncio.gather(list_loans(member=1), list_loans(membr=1))",
            "asyncio.gather(list_loans(membr=1))",
            "await asyncio.gather(*[list_loans(membr=i) for i in range(3)])",
            "import asyncio\nawait asyncio.wait_for(list_loans(membr=1), 5)",
            "asyncio.run(list_loans(membr=1))",
            "for i in range(3):\n    await list_loans(membr=i)",
            "for i in 1, 2:\n    list_loans.sync(membr=i)",
            "while True:\n    list_loans.sync(membr=1)\n    break",
            "[list_loans.sync(membr=i) for i in [1, 2]]",
            "def f():\n    list_loans.sync(membr=1)\nf()",
            "async def f(n):\n    x = n\n    await list_loans(membr=n)\nawait f(3)",
            "async def f():\n    await list_loans(membr=1)\nasyncio.run(f())",
            "try:\n    list_loans.sync(membr=1)\nfinally:\n    pass",
            "with open('x') as f:\n    list_loans.sync(membr=1)",
            "if list_loans.sync(membr=1):\n    pass",
            "list_loans.sync(membr=1) and 1",
            "if not x:\n    raise ValueError\nlist_loans.sync(membr=1)",
            "f'{list_loans.sync(membr=1)}'",
        ):
            self.refused("x = 1\n" + code, "argument")

    def test_values(self):
        for code, text in {
            "list_loans.sync()": 'missing argument "member"',
            "list_loans.sync(since=x)": 'missing argument "member"',
            "list_loans.sync(member='a')": "must be integer",
            "list_loans.sync(member=None)": "must be integer",
            "list_loans.sync(member=x, kind='song')": 'must be one of "book", "film"',
            "list_loans.sync(member=x, since=-5)": "must be string",
            "list_loans.sync(member=[1, 2])": "must be integer",
            "return_loan.sync(loan='a')": "at least 2",
            "return_loan.sync(loan=x, other=y)": 'unknown argument "other"',
        }.items():
            self.refused("x = y = 'text'\n" + code, text)

    def test_names(self):
        for code, text in {
            "tools['nothing.at.all']": 'there is no tool "nothing.at.all"',
            "f = mcp_library.list_lones": 'library has no tool "list_lones"; did you mean "list_loans"?',
            "tools.ecco": 'did you mean "echo"',
            "mcp_othr": 'there is no server "mcp_othr"',
            "mcp_library.list_loan": "there is list-loans(member: int",
        }.items():
            self.refused("1\n" + code, text)

    def test_many(self):
        error = self.refused("\n".join("anything.sync(1, %d)" % i for i in range(30)), "30 mistakes", "and 10 more")
        self.assertEqual(len(error["message"].splitlines()), 22)

    def test_a_cell_of_one_call_reports_it_itself(self):
        result = self.run_cell("await list_loans(membr=1)")
        self.assertEqual(result["error"]["type"], "cloister.ToolArgumentError")
        self.assertEqual(self.calls, [])

    def test_a_cache_that_is_old_is_waited_for(self):
        old = dict(LIBRARY, state="cached", tools=[tool("list-loans", {"type": "object", "properties": {"id": {}}})])
        self.tell(old, OTHER)
        self.on_query = lambda: self.tell(LIBRARY, OTHER)
        self.runs("list_loans.sync(member=1)")
        self.tell(old, OTHER)
        self.runs("mcp_library.anything.sync(v=1)")
        self.tell(old, OTHER)
        self.calls.clear()
        self.refused("mcp_library.anny.sync(v=1)", 'library has no tool "anny"')


class NoFalseAlarm(Rig):
    def test_shadowed_and_rebound_names(self):
        for code in (
            "tools = {'x': 1}\ntools['x']",
            "mcp_library = list_loans = lambda **k: 1\nlist_loans(membr=1)\nmcp_library()",
            "import json as mcp_library\nmcp_library.dumps(1)",
            "def list_loans(**k): return 1\nlist_loans(membr=1)",
            "class tools: nothing = 1\ntools.nothing",
            "for tools in ({'a': 1},): tools['a']",
            "(lambda tools: tools['a'])({'a': 1})",
            "[mcp_library.x for mcp_library in ()]",
            "def f(tools): return tools.nothing\n",
            "def f():\n    global list_loans\n    list_loans = dict\nf()\nlist_loans(membr=1)",
            "exec('list_loans = dict')\nlist_loans(membr=1)",
            "globals()['list_loans'] = dict\nlist_loans(membr=1)",
            "tools.nothing = 5\ntools.nothing",
            "setattr(tools, 'nix', 1)\ntools.nix",
            "try:\n    import x_y_z as anything\nexcept ImportError:\n    anything = dict\nanything(1, 2) if 0 else 0",
            "import sys\nsys.modules[list_loans.__module__]\n(tools and dict)(membr=1)",
        ):
            self.setUp_again()
            self.runs(code)
        self.setUp_again()
        self.run_cell("def mock():\n    global list_loans\n    list_loans = dict\n")
        self.runs("mock()\nlist_loans(membr=1)")
        self.run_cell("anything = dict")
        self.runs("anything(w=1, x=2)")

    def setUp_again(self):
        self.doCleanups()
        self.setUp()

    def test_what_cannot_be_decided(self):
        for code in (
            "a = {'member': 1}\nlist_loans.sync(**a)",
            "a = [{'member': 1}]\nlist_loans.sync(*a)",
            "a = {'member': 1}\nlist_loans.sync(a)",
            "a = {'member': 1}\nlist_loans.sync(arguments=a)",
            "k = 'member'\nlist_loans.sync({k: 1})",
            "m = 1\nlist_loans.sync(member=m)",
            "m = None\nlist_loans.sync(member=1, since=m)",
            "m = {'loan': 'abc'}\nreturn_loan.sync(loan=m['loan'])",
            "n = 'anything'\ntools[n].sync(v=1)",
            "getattr(tools, 'anything').sync(v=1)",
            "hasattr(tools, 'nothing') and tools.nothing",
            "'nothing' in tools and tools['nothing']",
            "tools.get('nothing')",
            "len(tools), list(tools.items()), tools.keys(), tools == 1, anything.name, anything.input_schema['type']",
            "anything.sync(nothing=1, v={'a': [1, {'b': tools}][0]})",
            "import asyncio as a\nx = a.gather",
        ):
            self.runs(code)

    def test_what_may_not_run(self):
        for code in (
            "if False:\n    list_loans.sync(membr=1)",
            "if hasattr(mcp_library, 'nothing'):\n    mcp_library.nothing.sync()",
            "if ran == 5:\n    pass\nelif ran == 6:\n    list_loans.sync(membr=1)",
            "for x in []:\n    list_loans.sync(membr=x)",
            "for x in ran[1:]:\n    list_loans.sync(membr=x)",
            "for x in 1, 2:\n    continue\n    list_loans.sync(membr=x)",
            "for x in 1, 2:\n    if x: break\n    list_loans.sync(membr=x)",
            "while ran == 1:\n    list_loans.sync(membr=1)",
            "for x in 1, 2: break\nelse:\n    list_loans.sync(membr=1)",
            "try:\n    list_loans.sync(membr=1)\nexcept Exception:\n    pass",
            "try:\n    tools.nothing\nexcept KeyError:\n    pass",
            "try:\n    pass\nexcept E:\n    tools.nothing",
            "import contextlib\nwith contextlib.suppress(Exception):\n    list_loans.sync(membr=1)",
            "def f():\n    list_loans.sync(membr=1)",
            "async def f():\n    await list_loans(membr=1)\nf().close()",
            "def f():\n    return 1\n    list_loans.sync(membr=1)\nf()",
            "def f():\n    try:\n        list_loans.sync(membr=1)\n    finally:\n        return 1\nf()",
            "def f():\n    yield list_loans.sync(membr=1)\nf()",
            "def no(g): return 1\n@no\ndef f():\n    list_loans.sync(membr=1)\nf",
            "class C:\n    def f(self):\n        list_loans.sync(membr=1)",
            "f = lambda: list_loans.sync(membr=1)",
            "0 and list_loans.sync(membr=1)",
            "1 or tools.nothing",
            "1 if 1 else tools.nothing",
            "1 > 2 > tools.nothing",
            "(list_loans.sync(membr=i) for i in [1])",
            "[list_loans.sync(membr=i) for i in [1] if i > 1]",
            "[list_loans.sync(membr=i) for i in [] for j in [1]]",
            "c = list_loans(membr=1)\nc.close()",
            "c = await asyncio.gather(list_loans(membr=1), return_exceptions=True)",
            "x = [list_loans(membr=1)]\nx[0].close()",
            "import sys\nsys.exit(0)\nlist_loans.sync(membr=1)",
            "if ran:\n    raise SystemExit\nlist_loans.sync(membr=1)",
            "def leave():\n    exit()\nimport sys\nexit = sys.exit\nleave()\nlist_loans.sync(membr=1)",
            "import sys\nlist(map(sys.exit, [0]))\nlist_loans.sync(membr=1)",
            "x: 'tools.nothing' = 1",
            "def undo(): raise SystemExit(0)\nundo()\nlist_loans.sync(membr=1)",
        ):
            self.runs(code)
        self.run_cell("import sys\ndef leave_now():\n    sys.exit(0)\n")
        self.runs("leave_now()\nlist_loans.sync(membr=1)")

    def test_a_server_may_offer_another_tool_after_a_call(self):
        whole = server("library", *LIBRARY["tools"], tool("more", ANY))
        original = self.answer

        def answer(kind, number, payload):
            if kind == CALL:
                self.tell(whole, OTHER)
            original(kind, number, payload)

        self.core.answer = answer
        self.runs("mcp_library.anything.sync(v=1)\nmcp_library.more.sync(v=1)\ntools.more.sync(v=2)")
        self.tell(LIBRARY, OTHER)
        self.run_cell("def enable():\n    anything.sync(v=1)")
        self.runs("enable()\nmcp_library.more.sync(v=1)")
        self.tell(LIBRARY, OTHER)
        self.calls.clear()
        self.refused("mcp_other.echo.sync(v=1)\nmcp_library.mor.sync(v=1)", 'has no tool "mor"')

    def test_a_server_that_starts_or_has_failed(self):
        self.tell(LIBRARY, server("slow", state="starting"))
        self.runs("tools['slow.x']\nmcp_slow.x\ntools.nothing")
        self.tell(LIBRARY, server("gone", state="failed", error="no such command"))
        self.runs("tools['gone.x']\nmcp_gone.x")

    def test_what_is_broken_or_large_is_run(self):
        self.runs("x = 1  # %s\nanything.sync(v=1)" % ("#" * 200000))
        self.runs("anything.sync(v=%s1%s)" % ("(" * 60, ")" * 60))
        self.names["tools"].__dict__["_library"] = None
        self.runs("x = 1\ntools", None)


class CheckOnly(Rig):
    def test_says_what_would_be_called(self):
        result = self.checked("x = 1\nawait list_loans(member=x)\na = {}\nfor i in a:\n    mcp_other.echo.sync(v=i)\nanything.sync(**a)")
        self.assertEqual(result["status"], "ok")
        self.assertEqual(
            result["value"]["repr"],
            "ok: 2 calls checked, 1 not decidable\nline 2: library.list-loans(member)\nline 5: other.echo(v)",
        )
        self.assertEqual(result["value"]["json"]["calls"][0]["tool"], "list-loans")
        self.assertEqual((self.calls, "x" in self.names, "_" in self.names), ([], False, False))

    def test_mistakes_and_doubts(self):
        result = self.checked("await list_loans(membr=1)")
        self.assertIn('unknown argument "membr"', result["error"]["message"])
        result = self.checked("for x in rows:\n    await list_loans(membr=x)\nif y: tools.nothing")
        self.assertEqual(result["status"], "ok")
        self.assertIn("ok: 1 call checked; 2 calls would fail if it is reached", result["value"]["repr"])
        self.assertIn('line 2: list-loans: unknown argument "membr"', result["value"]["repr"])
        self.assertEqual(self.checked("1 +")["error"]["type"], "SyntaxError")
        self.assertEqual(self.checked("1 + 1")["value"]["repr"], "ok: 0 calls checked")
        self.assertIn("not checked", self.checked("from os import *\nabs(1)")["value"]["repr"])
        self.assertIn("not checked", self.checked("1 # " + "x" * 200000)["value"]["repr"])

    def test_leaves_nothing_behind(self):
        self.checked("from __future__ import annotations\nx = 1")
        result = self.run_cell("def f(a: 5): pass\nf.__annotations__['a']")
        self.assertEqual(result["value"]["json"], 5)

    def test_waits_for_servers(self):
        self.tell(server("library", state="starting"))
        self.on_query = lambda: self.tell(LIBRARY)
        self.assertIn('unknown argument "membr"', self.checked("await list_loans(membr=1)")["error"]["message"])


# ---- random cells ----

CALLS = (
    "list_loans.sync({a})", "mcp_library.list_loans.sync({a})", "tools['list-loans'].sync({a})",
    "tools['library.list-loans'].raw.sync({a})", "mcp_library.anything.sync({a})", "return_loan.sync({a})",
    "mcp_library['return_loan'].sync({a})", "mcp_library.lost.sync({a})", "tools['lost'].sync({a})", "mcp_lost.x.sync({a})",
    "tools.library.anything.sync({a})", "helper({a})", "mcp_other.echo.sync({a})", "tools[name].sync({a})", "coro({a}).close()",
)  # fmt: skip
ARGUMENTS = (
    "", "member=1", "member=n", "membr=1", "membr=none", "member='x'", "member=n, since=none", "member=1, kind='film'",
    "member=1, kind='song'", "loan='ab'", "loan=n", "loan='a'", "**more", "{'member': 1}", "{'member': n}", "{'membr': none}", "more",
    "1", "v=1", "arguments={'member': 1}", "arguments=more", "member=1, nope=none", "member=none",
)  # fmt: skip
FRAMES = (
    "{c}", "x = {c}", "if n:\n  {c}", "if not n:\n  {c}", "for i in [1]:\n  {c}", "for i in many:\n  {c}", "for i in none or ():\n  {c}",
    "try:\n  {c}\nexcept ToolError:\n  pass", "try:\n  {c}\nfinally:\n  n = 2", "def f():\n  {c}", "def f():\n  {c}\nf()",
    "async def f():\n  {c}\nawait f()", "async def f():\n  {c}\nf().close()", "n and {c}", "none and {c}", "[{c} for i in many if i > 1]",
    "[{c} for i in range(2)]", "(lambda: {c})", "(lambda: {c})()", "while True:\n  {c}\n  break", "while True:\n  break\n  {c}",
    "with suppress(ToolError):\n  {c}", "with suppress(KeyError):\n  {c}", "list_loans = dict\n{c}", "tools = {{'lost': anything}}\n{c}",
    "def mcp_lost(): pass\nmcp_lost.x = anything\n{c}", "leave(n)\n{c}", "if none:\n  leave(0)\n{c}", "class C:\n  x = {c}",
    "def f(list_loans=anything):\n  {c}\nf()", "assert n, {c}", "print({c}, file=null)", "1 < 2 < len([{c}])", "2 < 1 < {c}",
    "match n:\n  case 1:\n    {c}\n  case anything:\n    {c}", "try:\n  1/none\nexcept TypeError:\n  {c}", "x = n if n else {c}",
    "def f():\n  global anything\n  anything = dict\nf()\n{c}", "f = [lambda: {c}][0]\nf()", "for i in [1]:\n  if n: continue\n  {c}",
    "exec('anything = list_loans = dict')\n{c}", "def f():\n  try:\n    {c}\n  finally:\n    return 1\nf()", "{c}; {c}",
    "def g():\n  yield {c}\ng()", "next(iter([{c}]))", "await asyncio.gather(async_({c}))", "del n\nn = 1\n{c}",
)  # fmt: skip
PRELUDE = """
import io
from contextlib import suppress
n, none, many, name, more, null = 1, None, [1, 2], "anything", {"member": 1}, io.StringIO()
async def async_(x): return x
async def coro(**k): pass
def helper(*a, **k): return anything.sync(v=1)
def leave(really):
    if really: raise SystemExit
"""
COUNT, MOST = 500, 2.0  # cells, seconds at most


class Random(Rig):
    """A cell that is refused ends with an error when it is run without the check."""

    def cell(self, dice):
        parts = []
        for _ in range(dice.choice((1, 1, 2, 3))):
            call = dice.choice(CALLS).replace("{a}", dice.choice(ARGUMENTS))
            for _ in range(dice.choice((1, 1, 2, 2, 3))):
                frame = dice.choice(FRAMES)
                if "\n" in call and "\n  {c}" not in frame.replace("\n    {c}", "\n  {c}") and not frame.endswith("\n{c}"):
                    continue
                indent = "    " if "\n    {c}" in frame else "  " if "\n  {c}" in frame else ""
                call = frame.replace("{{", "{").replace("}}", "}").replace("{c}", call.replace("\n", "\n" + indent))
            parts.append(call)
        return "\n".join(parts)

    def fresh(self):
        self.doCleanups()
        self.setUp()
        self.run_cell(PRELUDE)
        self.run_cell("name\nlist_loans")

    def test_no_false_alarm(self):
        import time

        seed = int(os.environ.get("CLOISTER_TEST_SEED", random.randrange(1 << 32)))
        count = int(os.environ.get("CLOISTER_TEST_CELLS", COUNT))
        dice, refused, until = random.Random(seed), 0, time.monotonic() + (MOST if count == COUNT else 1e9)
        print("test_no_false_alarm: CLOISTER_TEST_SEED=%d" % seed)
        self.fresh()
        for number in range(count):
            if time.monotonic() > until:
                break
            code = self.cell(dice)
            self.cells.preflight = self.namespace.preflight
            with self.subTest(seed=seed, number=number, code=code):
                result = self.run_cell("pass\n" + code)
                refusal = result.get("error", {})
                if refusal.get("type") == "cloister.PreflightError":
                    refused += 1
                    self.cells.preflight = None
                    result = self.run_cell("pass\n" + code)
                    self.assertEqual(result["status"], "error", refusal["message"])
            self.fresh()
        self.assertGreater(refused, number // 20)


if __name__ == "__main__":
    unittest.main()
