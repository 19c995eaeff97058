import asyncio
import gc
import inspect
import pydoc
import threading
import unittest
import warnings

from guest import CALL, CATALOG, QUERY, RETURN, Core, server, text_result, tool

from cloister import ToolArgumentError, ToolError, ToolNotFound, ToolUnavailable
from cloister.calls import ServerTools, Tools
from cloister.catalogue import Library
from cloister.channel import Channel
from cloister.discovery import Discovery
from cloister.frames import DROP
from cloister.interrupts import Interrupts
from cloister.main_loop import MainLoop
from cloister.resources import OFFERS

EVENTS = {
    "type": "object",
    "properties": {
        "calendarId": {"type": "string", "description": "which"},
        "limit": {"type": "integer", "default": 10},
        "from": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
    },
    "required": ["calendarId"],
}
SERVERS = [
    server("calendar", tool("list-events", EVENTS, description="Lists the events of a calendar. " * 9), tool("echo")),
    server("Other Server", tool("echo"), tool("a.b"), tool("a-b"), tool("a_b"), tool("print")),
    server("broken", state="failed", error="no such command"),
]


class Rig(unittest.TestCase):
    def setUp(self):
        self.core = Core(self.answer)
        interrupts = Interrupts(self.core)
        interrupts.start()
        self.channel = Channel(self.core, interrupts)
        self.library = Library(self.channel)
        self.channel.on[CATALOG] = self.library.on_frame
        self.tools = Tools(self.library, self.channel)
        self.discovery = Discovery(self.library)
        self.reply = lambda call: text_result("ok")
        self.tell(SERVERS)

    def tearDown(self):
        import signal

        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.core.close()

    def tell(self, servers, version=1):
        self.core.reply(CATALOG, version, {"servers": servers})
        self.channel.pump()

    def answer(self, kind, number, payload):
        if kind == CALL:
            answer = self.reply(payload)
            if answer is not None:
                self.core.reply(RETURN, number, answer)
        elif kind == QUERY and payload["what"] == "search":
            self.core.reply(RETURN, number, self.found(payload))
        elif kind == QUERY:
            self.on_query(number)

    def on_query(self, number):
        self.core.reply(RETURN, number, {"ok": True, "result": {"version": 1}})

    def calls(self):
        return [payload for kind, _, payload in self.core.sent if kind == CALL]

    def arguments(self, *args, **kwargs):
        self.tools["list-events"].sync(*args, **kwargs)
        return self.calls()[-1]["arguments"]


class Finding(Rig):
    def test_by_name_and_by_qualified_name(self):
        self.assertEqual(self.tools["list-events"].server, "calendar")
        self.assertEqual(self.tools["calendar.list-events"].name, "list-events")
        self.assertEqual(self.tools["Other Server.echo"].server, "Other Server")
        self.assertEqual(self.tools["calendar", "echo"].server, "calendar")
        self.assertEqual(self.tools.list_events.name, "list-events")

    def test_ambiguous_names_both(self):
        with self.assertRaises(ToolNotFound) as caught:
            self.tools["echo"]
        self.assertIn('tools["calendar.echo"]', str(caught.exception))
        self.assertIn('tools["Other Server.echo"]', str(caught.exception))
        self.assertNotIn("echo", self.tools)

    def test_unknown_names_suggest(self):
        with self.assertRaises(KeyError) as caught:
            self.tools["list_event"]
        self.assertIsInstance(caught.exception, ToolNotFound)
        self.assertIn('did you mean "list-events"', str(caught.exception))
        self.assertIsNone(self.tools.get("nothing"))
        self.assertFalse(hasattr(self.tools, "nothing"))

    def test_servers_by_attribute(self):
        other = ServerTools(self.library, self.channel, "Other Server")
        self.assertEqual(other.a_b.name, "a_b")
        self.assertEqual(other["a.b"].name, "a.b")
        self.assertEqual(sorted(set(dir(other)) - OFFERS.keys()), ["a_b", "echo", "print"])
        with self.assertRaises(AttributeError) as caught:
            other.ecko
        self.assertIn('"echo"', str(caught.exception))

    def test_a_failed_server_is_called_again(self):
        # Only a call finds out whether the server starts now; otherwise the broker reports the reason.
        self.reply = lambda call: {"ok": False, "error": {"kind": "ToolUnavailable", "message": "no such command"}}
        for broken in (self.tools["broken.x"], ServerTools(self.library, self.channel, "broken").x):
            with self.assertRaises(ToolUnavailable) as caught:
                broken.sync(a=1)
            self.assertIn("no such command", str(caught.exception))
        self.assertEqual(self.calls(), [{"server": "broken", "tool": "x", "arguments": {"a": 1}}] * 2)

    def test_as_a_mapping(self):
        self.assertEqual(len(self.tools), 7)
        self.assertIn("calendar.echo", list(self.tools))
        self.assertIn("list-events", self.tools)
        self.assertEqual(set(self.tools._ipython_key_completions_()), set(self.tools))
        self.assertIn("list_events", dir(self.tools))

    def test_late_servers(self):
        self.tell([server("late", state="starting")], 2)
        wanted = self.tools["soon"]
        self.assertIn("not known yet", repr(wanted))

        def on_query(number):
            self.core.reply(CATALOG, 3, {"servers": [server("late", tool("soon"))]})
            Rig.on_query(self, number)

        self.on_query = on_query
        self.assertEqual(wanted.sync(), "ok")
        self.assertEqual(self.calls()[-1]["server"], "late")

    def test_a_tool_object_that_is_kept(self):
        echo = self.tools["calendar.echo"]
        self.assertEqual(echo.description, "")
        self.tell([server("calendar", tool("echo", {"type": "object", "required": ["x"]}, description="New."))], 2)
        self.assertEqual(echo.description, "New.")
        with self.assertRaises(ToolArgumentError):
            echo.sync()
        self.tell([server("calendar")], 3)
        self.assertIsNone(echo.server)
        with self.assertRaises(ToolNotFound):
            echo.sync()

    def test_many_waiting_calls_send_one_query(self):
        self.tell([server("late", state="starting")], 2)
        asked = []

        def on_query(number):
            asked.append(number)
            self.core.reply(CATALOG, 3, {"servers": [server("late", tool("soon"))]})
            Rig.on_query(self, number)

        async def all_at_once():
            return await asyncio.gather(*(self.tools["soon"]() for _ in range(100)))

        self.on_query = on_query
        self.assertEqual(asyncio.run(all_at_once()), ["ok"] * 100)
        self.assertEqual(len(asked), 1)

    def test_listing_waits(self):
        self.tell([server("late", state="starting")], 2)

        def on_query(number):
            self.core.reply(CATALOG, 3, {"servers": [server("late", tool("soon"))]})
            Rig.on_query(self, number)

        self.on_query = on_query
        self.assertEqual(list(self.tools), ["soon"])

    def test_a_server_that_never_starts(self):
        self.tell([server("late", state="starting")], 2)
        with self.assertRaises(ToolNotFound):
            asyncio.run(self.tools["never"]())
        self.assertEqual([payload for kind, _, payload in self.core.sent if kind == QUERY][0]["wait_ms"], 10_000)
        self.assertEqual(self.calls(), [])

    def test_an_old_catalogue_is_ignored(self):
        self.tell([server("new", tool("n"))], 5)
        self.tell(SERVERS, 4)
        self.assertEqual(list(self.tools), ["n"])

    def test_numbers_of_one_server_cost_the_others_nothing(self):
        wild = '{"name": "wild", "inputSchema": {"maximum": 1e400, "minimum": -%s}}' % ("1" * 5000)
        text = '{"servers": [{"name": "a", "tools": [%s]}, {"name": "b", "tools": [{"name": "tame"}]}]}' % wild
        self.library.on_frame(2, text.encode())
        self.assertEqual(sorted(self.tools), ["tame", "wild"])

    def test_malformed_catalogues(self):
        for payload in (b"", b"[]", b'{"servers": 5}', b'{"servers": [{}]}', b"\xff"):
            self.core.reply(CATALOG, 9, payload)
            self.channel.pump()
            self.assertEqual(list(self.tools), [])


class Arguments(Rig):
    def test_ways_to_pass_arguments(self):
        for args, kwargs in (
            ((), {"calendarId": "a", "limit": 1}),
            (({"calendarId": "a", "limit": 1},), {}),
            (({"calendarId": "a"},), {"limit": 1}),
            ((), {"arguments": {"calendarId": "a", "limit": 1}}),
            ((), {"calendarId": "a", "limit": 1, "from": None}),
        ):
            self.assertEqual(self.arguments(*args, **kwargs), {"calendarId": "a", "limit": 1})

    def test_keywords_by_their_identifier(self):
        self.assertEqual(self.arguments(calendarId="a", from_="b"), {"calendarId": "a", "from": "b"})

    def refused(self, *args, **kwargs):
        with self.assertRaises(ToolArgumentError) as caught:
            self.tools["list-events"].sync(*args, **kwargs)
        self.assertEqual(self.calls(), [])
        return str(caught.exception)

    def test_refused_before_the_call_is_sent(self):
        self.assertIn('did you mean "calendarId"', self.refused(calendarid="a"))
        self.assertIn('missing argument "calendarId"', self.refused())
        self.assertIn("must be integer, not string", self.refused(calendarId="a", limit="5"))
        self.assertIn("list-events(calendarId: str, limit: int = 10", self.refused("a"))
        self.assertIn("must be string", self.refused(calendarId=None))
        self.assertIn("nan is not a JSON number in arguments['x']", self.tool_refuses(x=float("nan")))
        self.assertIn("lone surrogate", self.tool_refuses(x="\ud800"))
        self.assertIn("set is not a JSON value", self.tool_refuses(x={1}))
        self.assertIn("keys are strings", self.tool_refuses(x={1: 2}))

    def tool_refuses(self, **kwargs):
        with self.assertRaises(ToolArgumentError) as caught:
            self.tools["calendar.echo"].sync(**kwargs)
        self.assertIsInstance(caught.exception, ToolError)
        self.assertEqual(self.calls(), [])
        return str(caught.exception)

    def test_too_large(self):
        self.assertIn("17,825,792", self.tool_refuses(x="a" * (17 * 1024 * 1024)))

    def test_too_many_values(self):
        """Separators of values are counted, except inside strings."""
        self.assertIn("more than 1,000,000 values", self.tool_refuses(x=[0] * 1000001))
        self.assertIn("more than 1,000,000 values", self.tool_refuses(x=[[]] * 500001, y=','))
        self.tools["calendar.echo"].sync(x=',"\\' * 1000001)
        self.assertEqual(len(self.calls()), 1)

    def test_no_schema_no_check(self):
        self.tell([server("s", {"name": "free"})], 2)
        self.tools["free"].sync(anything=[1])
        self.assertEqual(self.calls()[-1], {"server": "s", "tool": "free", "arguments": {"anything": [1]}})


class Calling(Rig):
    def test_a_call_is_a_coroutine(self):
        call = self.tools["list-events"](calendarId="a")
        self.assertTrue(inspect.iscoroutine(call))
        self.assertEqual(self.calls(), [])
        self.assertEqual(asyncio.run(call), "ok")

    def test_never_awaited_warns(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.tools["list-events"](calendarId="a")
            gc.collect()
        self.assertIn('tools["calendar.list-events"]', str(caught[0].message))

    def test_a_thousand_at_once(self):
        held = []

        def answer(kind, number, payload):
            if kind == CALL:
                held.append((number, payload["arguments"]["n"]))
                if len(held) == 1000:
                    for held_number, n in reversed(held):
                        self.core.reply(RETURN, held_number, text_result(str(n)))

        self.core.answer = answer

        async def main():
            echo = self.tools["calendar.echo"]
            return await asyncio.gather(*(echo(n=n) for n in range(1000)))

        self.assertEqual(asyncio.run(main()), [str(n) for n in range(1000)])

    def test_a_cancelled_call_is_dropped(self):
        self.reply = lambda call: None

        async def main():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.tools["calendar.echo"](), 0.01)

        asyncio.run(main())
        (call,) = [number for kind, number, _ in self.core.sent if kind == CALL]
        self.assertEqual([number for kind, number, _ in self.core.sent if kind == DROP], [call])
        self.core.reply(RETURN, call, text_result("late"))
        self.channel.pump()

    def test_raw(self):
        self.reply = lambda call: {"ok": True, "result": {"content": [], "isError": True}}
        self.assertEqual(asyncio.run(self.tools["calendar.echo"].raw()), {"content": [], "isError": True})
        self.assertEqual(self.tools["calendar.echo"].raw.sync(), {"content": [], "isError": True})
        with self.assertRaises(ToolError):
            self.tools["calendar.echo"].sync()

    def test_threads_that_block_get_their_own_answers(self):
        lock = threading.Lock()
        held = []

        def answer(kind, number, payload):
            with lock:
                held.append((number, payload["arguments"]["n"]))
                if len(held) == 20:
                    for held_number, n in reversed(held):
                        self.core.reply(RETURN, held_number, text_result(str(n)))

        self.core.answer = answer
        results = {}

        def work(n):
            results[n] = self.tools["calendar.echo"].sync(n=n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(results, {n: str(n) for n in range(20)})

    def test_a_thread_and_a_loop_at_once(self):
        held = []

        def answer(kind, number, payload):
            held.append(number)
            if len(held) == 2:
                for number in held:
                    self.core.reply(RETURN, number, text_result("ok"))

        self.core.answer = answer
        for first in ("thread", "loop"):
            held.clear()

            async def main():
                blocking = asyncio.get_running_loop().run_in_executor(None, self.tools["calendar.echo"].sync)
                if first == "thread":
                    await asyncio.sleep(0.05)
                return await asyncio.gather(blocking, self.tools["calendar.echo"]())

            self.assertEqual(asyncio.run(main()), ["ok", "ok"])

    def test_blocking_inside_a_coroutine(self):
        async def main():
            return self.tools["calendar.echo"].sync()

        self.assertEqual(asyncio.run(main()), "ok")


class InTheMainLoop(Rig):
    def setUp(self):
        super().setUp()
        self.loop = MainLoop(self.channel, Interrupts(self.core)).main()
        self.addCleanup(self.loop.close)
        self.order = []

    def run_call(self):
        async def main():
            self.order.append(await self.tools["calendar.echo"]())

        self.loop.run_until_complete(main())
        return self.order

    def test_waits_without_a_turn_of_the_loop(self):
        turns = []
        select = self.loop._selector.select
        self.loop._selector.select = lambda timeout: turns.append(timeout) or select(timeout)
        self.run_call()
        self.assertEqual((self.order, turns), (["ok"], [0, 0]))  # its start, and its end

    def test_callbacks_that_became_ready_run_first(self):
        def reply(call):
            self.loop.call_soon(self.order.append, "other")
            return text_result("ok")

        self.reply = reply
        self.assertEqual(self.run_call(), ["other", "ok"])

    def test_debug_mode_runs_each_turn(self):
        turns = []
        select = self.loop._selector.select
        self.loop._selector.select = lambda timeout: turns.append(timeout) or select(timeout)
        self.loop.set_debug(True)
        self.assertEqual(self.run_call(), ["ok"])
        self.assertIn(None, turns)


class Reading(Rig):
    def test_repr_and_help(self):
        found = self.tools["list-events"]
        self.assertTrue(repr(found).startswith("<tool calendar.list-events(calendarId: str, limit: int = 10"))
        text = pydoc.plain(pydoc.render_doc(found))
        self.assertIn("Lists the events", text)
        self.assertIn("calendarId: str – which", text)
        self.assertEqual(list(inspect.signature(found).parameters), ["calendarId", "limit", "from_", "maybe"])
        self.assertIn("calendar: list-events, echo", repr(self.tools))
        self.assertIn("broken: no such command", repr(self.tools))

    def test_discover(self):
        found = self.discovery.discover()
        self.assertEqual(found[0]["name"], "list-events")
        self.assertEqual(set(found[0]), {"name", "server", "description", "signature"})
        self.assertEqual(len(found[0]["description"]), 120)
        self.assertEqual(found[-1]["server"], "broken")
        self.assertEqual(found[-1]["error"], "no such command")

        async def main():
            return await self.discovery.discover()

        self.assertEqual(asyncio.run(main()), found)
        self.assertEqual([kind for kind, _, _ in self.core.sent if kind == QUERY], [])

    def test_search_asks_the_broker(self):
        tools = [{"server": "calendar", "tool": tool("list-events", EVENTS, description="Lists the events. " * 9)}]
        self.found = lambda query: {"ok": True, "result": {"tools": tools}}
        self.library.current = None  # the catalogue is not decoded
        found = self.discovery.search("listing event", limit=3)
        self.assertEqual([(entry["server"], entry["name"], len(entry["description"])) for entry in found],
                         [("calendar", "list-events", 120)])
        self.assertTrue(found[0]["signature"].startswith("list-events(calendarId: str, limit: int = 10"))
        self.assertEqual(self.core.sent[-1][2], {"what": "search", "q": "listing event", "limit": 3, "wait_ms": 10_000})

        async def main():
            return await self.discovery.search("event")

        self.assertEqual(asyncio.run(main()), found)
        for q, limit, sent in ((7, -1, ("7", 0)), ("\ud800 x", 10**30, ("? x", 1_000_000)), ("é" * 9999, 1, ("é" * 2000, 1))):
            self.discovery.search(q, limit)
            self.assertEqual((self.core.sent[-1][2]["q"], self.core.sent[-1][2]["limit"]), sent)

    def test_search_that_fails(self):
        self.found = lambda query: {"ok": False, "error": {"kind": "ToolError", "message": "too many searches"}}
        with self.assertRaisesRegex(ToolError, "too many searches"):
            self.discovery.search("x")
        for answer in ({}, [], {"ok": True}, {"ok": True, "result": {"tools": [1]}}):
            self.found = lambda query, answer=answer: answer
            with self.assertRaisesRegex(ToolError, "could not be searched"):
                self.discovery.search("x")

    def test_schema(self):
        whole = self.discovery.schema("list-events")
        self.assertEqual(whole["inputSchema"], EVENTS)
        self.assertEqual(self.discovery.schema(self.tools["calendar.echo"])["server"], "calendar")
        with self.assertRaises(ToolNotFound):
            self.discovery.schema("nothing")


if __name__ == "__main__":
    unittest.main()
