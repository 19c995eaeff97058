"""Resources and prompts of servers, and errors that ask for input."""

import inspect
import pydoc
import unittest

import test_calls
from guest import server, tool

from cloister import ToolArgumentError, ToolError, ToolInputRequired, ToolNotFound, ToolProtocolError
from cloister.calls import ServerTools
from cloister.resources import OFFERS
from cloister.results import File, Link


class Offers(test_calls.Rig):
    def setUp(self):
        super().setUp()
        self.mcp = ServerTools(self.library, self.channel, "calendar")
        self.results = []  # of the next calls, in order
        self.reply = lambda call: {"ok": True, "result": self.results.pop(0)}

    def value(self, coroutine):
        import asyncio

        return asyncio.run(coroutine)

    def test_lists_page_by_page(self):
        self.results = [{"resources": [{"uri": "a:1"}], "nextCursor": "x"}, {"resources": [{"uri": "a:2"}]}]
        self.assertEqual(self.mcp.resources.sync(), [{"uri": "a:1"}, {"uri": "a:2"}])
        self.assertEqual(self.calls(), [
            {"server": "calendar", "method": "resources/list", "arguments": {}},
            {"server": "calendar", "method": "resources/list", "arguments": {"cursor": "x"}},
        ])

    def test_awaits(self):
        self.results = [{"prompts": [{"name": "p"}]}]
        self.assertEqual(self.value(self.mcp.prompts()), [{"name": "p"}])
        self.results = [{"resourceTemplates": []}]
        self.assertEqual(self.value(self.mcp.resource_templates()), [])

    def test_a_list_without_an_end(self):
        self.reply = lambda call: {"ok": True, "result": {"resources": [{}], "nextCursor": str(len(self.calls()))}}
        self.assertEqual(len(self.mcp.resources.sync(limit=5)), 5)
        self.assertEqual(len(self.calls()), 5)
        self.reply = lambda call: {"ok": True, "result": {"resources": [{}], "nextCursor": "same"}}
        self.assertEqual(len(self.mcp.resources.sync()), 2)

    def test_reads(self):
        contents = [{"uri": "a:1", "mimeType": "text/plain", "text": "words"}]
        self.results = [{"contents": contents}] * 3
        for uri in ("a:1", {"uri": "a:1"}, Link({"uri": "a:1"})):
            file = self.mcp.read_resource.sync(uri)
            self.assertIsInstance(file, File)
            self.assertEqual((file.text, str(file), bytes(file), file.mime_type), ("words", "words", b"words", "text/plain"))
            self.assertEqual(self.calls()[-1]["arguments"], {"uri": "a:1"})
        self.results = [{"contents": [{"uri": "a:2", "blob": "AAEC"}, {"uri": "a:3", "blob": "***"}]}]
        first, odd = self.mcp.read_resource.sync("a:2")
        self.assertEqual((first.data, first.text), (b"\0\1\2", None))
        self.assertEqual(odd, {"uri": "a:3", "blob": "***"})

    def test_prompts(self):
        text, image = {"type": "text", "text": '{"a": 1}'}, {"type": "image", "data": "AAEC", "mimeType": "image/png"}
        self.results = [{"description": "d", "messages": [{"role": "user", "content": text}, {"role": "user", "content": image}]}]
        prompt = self.mcp.get_prompt.sync("p", who="Ada")
        self.assertEqual(self.calls()[-1], {"server": "calendar", "method": "prompts/get", "arguments": {"name": "p", "arguments": {"who": "Ada"}}})
        self.assertEqual((prompt["description"], prompt["messages"][0]), ("d", {"role": "user", "content": '{"a": 1}'}))
        self.assertEqual(prompt["messages"][1]["content"].data, b"\0\1\2")

    def test_refuses_arguments(self):
        for wrong in (lambda: self.mcp.read_resource.sync(7), lambda: self.mcp.get_prompt.sync(7), lambda: self.mcp.get_prompt.sync("p", n=7),
                      lambda: self.mcp.read_resource.sync("\ud800")):
            with self.assertRaises(ToolArgumentError):
                wrong()
        with self.assertRaises(TypeError):
            self.mcp.read_resource.sync()
        self.assertEqual(self.calls(), [])

    def test_results_of_another_form(self):
        for call in (self.mcp.resources.sync, self.mcp.prompts.sync, lambda: self.mcp.read_resource.sync("a"), lambda: self.mcp.get_prompt.sync("a")):
            for result in ({}, {"resources": 7, "prompts": 7, "contents": 7, "messages": 7}, [1], None):
                self.results = [result]
                with self.assertRaises(ToolProtocolError):
                    call()

    def test_errors(self):
        self.reply = lambda call: {"ok": False, "error": {"kind": "ToolNotFound", "message": 'server "calendar" has no prompts'}}
        with self.assertRaises(ToolNotFound) as caught:
            self.mcp.prompts.sync()
        self.assertEqual((caught.exception.server, caught.exception.tool), ("calendar", "prompts/list"))
        self.reply = lambda call: {"ok": False, "error": {"kind": "ToolProtocolError", "message": "gone", "code": -32002}}
        with self.assertRaises(ToolProtocolError) as caught:
            self.mcp.read_resource.sync("a:1")
        self.assertEqual(caught.exception.code, -32002)

    def test_a_tool_of_that_name_goes_first(self):
        self.tell([server("shop", tool("prompts"))], 2)
        shop = ServerTools(self.library, self.channel, "shop")
        self.assertEqual(shop.prompts.server, "shop")
        self.assertIn("of server shop", repr(shop.resources))

    def test_help_and_completion(self):
        self.assertLessEqual(OFFERS.keys(), set(dir(self.mcp)))
        self.assertEqual(str(inspect.signature(self.mcp.resources)), "(limit=10000)")
        self.assertIn("File", pydoc.getdoc(self.mcp.read_resource))
        self.assertIn("read_resource", pydoc.render_doc(self.mcp))

    def test_what_the_client_cannot_give(self):
        request = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://example.com/", "message": "m"}}
        self.reply = lambda call: {"ok": False, "error": {"kind": "ToolInputRequired", "message": "m", "data": request}}
        with self.assertRaises(ToolInputRequired) as caught:
            self.tools["calendar.echo"].sync()
        self.assertIsInstance(caught.exception, ToolError)
        self.assertEqual((caught.exception.url, caught.exception.request), ("https://example.com/", request))
        self.reply = lambda call: {"ok": False, "error": {"kind": "ToolInputRequired", "message": "m", "data": 7}}
        with self.assertRaises(ToolInputRequired) as caught:
            self.tools["calendar.echo"].sync()
        self.assertIsNone(caught.exception.url)


if __name__ == "__main__":
    unittest.main()
