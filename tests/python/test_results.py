import json
import os
import tempfile
import time
import unittest

import guest  # noqa: F401
from cloister import ToolError, ToolProtocolError, ToolTimeout, errors
from cloister.results import Audio, File, Image, Link, read_answer, read_text, unwrap


def text(value):
    return {"type": "text", "text": value}


def result(*blocks, **more):
    return dict({"content": list(blocks)}, **more)


class Unwrap(unittest.TestCase):
    def value(self, whole, schema=None):
        return unwrap(whole, "s", "t", schema)

    def test_text_is_parsed_only_as_object_or_array(self):
        for given, expected in {
            "007": "007", "5": "5", "true": "true", "null": "null", '"a"': '"a"', "": "", "hello": "hello",
            '{"a": 1}': {"a": 1}, " [1, 2] \n": [1, 2], "{broken": "{broken", "[1] [2]": "[1] [2]",
            "[NaN]": "[NaN]", "{'a': 1}": "{'a': 1}",
        }.items():  # fmt: skip
            with self.subTest(text=given):
                self.assertEqual(self.value(result(text(given))), expected)

    def test_structured_content_comes_first(self):
        whole = result(text("words"), structuredContent={"result": [1]})
        self.assertEqual(self.value(whole), {"result": [1]})
        wrapped = {"x-fastmcp-wrap-result": True}
        self.assertEqual(self.value(whole, wrapped), [1])
        told = result(structuredContent={"result": 5}, _meta={"fastmcp": {"wrap_result": True}})
        self.assertEqual(self.value(told), 5)
        self.assertEqual(self.value(result(structuredContent={"result": 1, "b": 2}), wrapped), {"result": 1, "b": 2})
        for coded, data in (("QUJD", b"ABC"), ("QUI=", b"AB"), ("QUI", b"AB"), ("QU\nJD", b"ABC"), ("-_8=", b"\xfb\xff"), ("", b"")):
            block = {"type": "image", "data": coded, "mimeType": "image/png"}
            self.assertEqual(self.value({"content": [block]}).data, data)
        for coded in ("***", "QUJDR", "\u00e9", 7):
            block = {"type": "image", "data": coded, "mimeType": "image/png"}
            self.assertEqual(self.value({"content": [block]}), block)
        titled = {"type": "object", "properties": {"result": {}}, "title": "tOutput"}
        self.assertEqual(self.value(whole, titled), [1])
        for other in ({**titled, "title": "Answer"}, {**titled, "properties": {"result": {}, "more": {}}}, None):
            self.assertEqual(self.value(whole, other), {"result": [1]})

    def test_no_block_and_several(self):
        self.assertIsNone(self.value(result()))
        self.assertIsNone(self.value({}))
        self.assertEqual(self.value(result(text("a"), text('{"b": 1}'))), ["a", {"b": 1}])

    def test_media(self):
        image = self.value(result({"type": "image", "data": "iVBORw==", "mimeType": "image/png"}))
        self.assertIsInstance(image, Image)
        self.assertEqual((image.data, image.mime_type), (b"\x89PNG", "image/png"))
        self.assertEqual(repr(image), "<Image image/png, 4 bytes>")
        with tempfile.TemporaryDirectory() as directory:
            path = image.save(os.path.join(directory, "a.png"))
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"\x89PNG")
        self.assertIsInstance(self.value(result({"type": "audio", "data": "", "mimeType": "audio/wav"})), Audio)
        file = self.value(result({"type": "resource", "resource": {"uri": "x:/a", "text": "é", "mimeType": "text/plain"}}))
        self.assertIsInstance(file, File)
        self.assertEqual((file.text, file.data, file.uri), ("é", "é".encode(), "x:/a"))
        self.assertEqual((str(file), repr(file)), ("é", "<File x:/a text/plain, 2 bytes: 'é'>"))
        long = self.value(result({"type": "resource", "resource": {"uri": "x:/c", "text": "line\n" * 100}}))
        self.assertEqual(str(long), "line\n" * 100)
        self.assertEqual(repr(long), "<File x:/c of no known type, 500 bytes: %r…>" % ("line\n" * 100)[:60])
        blob = self.value(result({"type": "resource", "resource": {"uri": "x:/d", "blob": "AAEC"}}))
        self.assertEqual((blob.text, str(blob)), (None, "<File x:/d of no known type, 3 bytes>"))
        link = self.value(result({"type": "resource_link", "uri": "x:/b", "name": "b"}))
        self.assertIsInstance(link, Link)
        self.assertEqual(link.uri, "x:/b")

    def test_malformed_blocks_are_unchanged(self):
        for block in ({"type": "image", "data": "!"}, {"type": "text"}, {"type": "new", "x": 1}, "odd", {"type": "image"}):
            with self.subTest(block=block):
                if block == {"type": "image", "data": "!"}:
                    continue
                self.assertEqual(self.value(result(block)), block)

    def test_an_error_is_raised_with_its_content(self):
        with self.assertRaises(ToolError) as caught:
            self.value(result(text("no such"), text("event"), isError=True))
        error = caught.exception
        self.assertEqual((str(error), error.server, error.tool), ("no such\nevent", "s", "t"))
        self.assertEqual(error.content, [text("no such"), text("event")])


class OutputSchemas(unittest.TestCase):
    SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

    def refused(self, whole, schema, part):
        with self.assertRaises(ToolProtocolError) as caught:
            unwrap(whole, "s", "t", schema)
        self.assertIn(part, str(caught.exception))
        self.assertIs(caught.exception.data, whole)

    def test_structured_content_fits_its_schema(self):
        self.assertEqual(unwrap(result(structuredContent={"sum": 5}), "s", "t", self.SUM), {"sum": 5})
        self.assertEqual(unwrap(result(structuredContent=[1]), "s", "t", {"type": "array"}), [1])
        self.refused(result(structuredContent={"sum": "5"}), self.SUM,
                     'the result of t does not fit its outputSchema: structuredContent.sum must be integer, not string ("5")')
        self.refused(result(structuredContent=[1]), self.SUM, "structuredContent must be object, not array")
        self.refused(result(structuredContent={}), self.SUM, "missing structuredContent.sum")
        closed = {**self.SUM, "additionalProperties": False, "dependentRequired": {"sum": ["x"]}, "maxProperties": 2}
        self.refused(result(structuredContent={"sum": 1, "y": 1}), closed, "structuredContent.")
        self.refused(result(structuredContent={"sum": 1, "x": 1, "y": 1}), closed, "structuredContent: 3 members")
        self.refused(result(structuredContent={"result": "x"}), {"x-fastmcp-wrap-result": True, "required": ["y"]}, "structuredContent.y")

    def test_a_schema_promises_structured_content(self):
        for whole in (result(text("5")), result(text("5"), isError=False), result()):
            self.refused(whole, self.SUM, "without structuredContent, which its outputSchema promises")
            unwrap(whole, "s", "t", None)
        with self.assertRaises(ToolError) as caught:
            unwrap(result(text("no"), isError=True), "s", "t", self.SUM)
        self.assertEqual(str(caught.exception), "no")

    def test_hostile_schemas_end(self):
        twice = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
        begun = time.process_time()
        for schema in (twice, {"$ref": "#"}, {"$ref": "http://127.0.0.1:1/x"}, {"allOf": [{"type": "object"}] * 100000}, {"type": 5}):
            self.assertEqual(unwrap(result(structuredContent={"a": [1] * 1000}), "s", "t", schema), {"a": [1] * 1000})
        self.assertLess(time.process_time() - begun, 10)


class Texts(unittest.TestCase):
    def test_the_fast_path_gives_the_same_result(self):
        for written in ("x", "", "é\U0001f600", "a'b/\x7f", '[1, "2"]', "{", " ", "null", "x" * 4000):
            for whole in (
                b'{"content":[{"type":"text","text":%b}]}',
                b'{"content": [{"type": "text", "text": %b}], "isError": false}',
                b'{\n\t"content" :[ {"type":"text" , "text":%b}\r\n]\n}',
            ):
                whole = b'{"ok":true,"result":%b}' % whole.replace(b"%b", json.dumps(written, ensure_ascii=False).encode())
                with self.subTest(whole=whole):
                    value = unwrap(read_answer(whole, "s", "t"), "s", "t", None)
                    self.assertIn(read_text(whole), (value, None))
        self.assertEqual(read_text(b'{"ok":true,"result":{"content": [{"type": "text", "text": "7"}], "isError": false}}'), "7")

    def test_results_that_the_fast_path_does_not_handle(self):
        for result in (
            b'{"content":[{"type":"text","text":"a\\n"}]}', b'{"content":[{"type":"text","text":"a\n"}]}',
            b'{"content":[{"type":"text","text":"\xff"}]}', b'{"content":[{"type":"text","text":"\xed\xa0\x80"}]}',
            b'{"content":[{"type":"text","text":"a"}],"isError":true}', b'{"content":[{"type":"text","text":"a"},1]}',
            b'{"content":[{"type":"text","text":"a"}],"structuredContent":{}}', b'{"content":[{"type":"text","text":"a","text":"b"}]}',
            b'{"content":[{"type":"text","text":"a"}]} ', b'{"content":[]}',
        ):  # fmt: skip
            self.assertIsNone(read_text(b'{"ok":true,"result":%b}' % result), result)
        for payload in (None, 24, '{"ok":true,"result":{"content":[{"type":"text","text":"a"}]}}', b"", b'{"ok":false,"error":{}}'):
            self.assertIsNone(read_text(payload))


class Answers(unittest.TestCase):
    def raised(self, payload):
        with self.assertRaises(Exception) as caught:
            read_answer(payload, "s", "t")
        return caught.exception

    def test_kinds(self):
        for kind, made in errors.KINDS.items():
            error = self.raised(b'{"ok": false, "error": {"kind": "%s", "message": "m"}}' % kind.encode())
            self.assertIs(type(error), made)
            self.assertEqual((str(error), error.server, error.tool), ("m", "s", "t"))
        self.assertIsInstance(self.raised(b'{"ok": false, "error": {"kind": "New", "message": "m"}}'), ToolError)

    def test_protocol_error_has_code_and_data(self):
        error = self.raised(b'{"ok":false,"error":{"kind":"ToolProtocolError","message":"m","code":-32602,"data":[1]}}')
        self.assertIsInstance(error, ToolProtocolError)
        self.assertEqual((error.code, error.data), (-32602, [1]))

    def test_tool_timeouts_are_timeout_errors(self):
        import asyncio

        error = self.raised(b'{"ok":false,"error":{"kind":"ToolTimeout","message":"slow"}}')
        self.assertIsInstance(error, ToolTimeout)
        self.assertIsInstance(error, TimeoutError)
        self.assertIsInstance(error, asyncio.TimeoutError)
        self.assertEqual(str(error), "slow")

    def test_unreadable(self):
        for payload in (b"", b"[]", b"{}", b'{"ok":true}', b"\xff"):
            self.assertIsInstance(self.raised(payload), ToolProtocolError)
        self.assertIsInstance(self.raised(None), MemoryError)
        digits = self.raised(b'{"ok":true,"result":' + b"1" * 5000 + b"}")
        self.assertIn("sys.get_int_max_str_digits", str(digits))

    def test_errors_can_be_pickled(self):
        import pickle

        for kind in errors.KINDS.values():
            error = pickle.loads(pickle.dumps(kind("m", server="s", tool="t")))
            self.assertEqual((str(error), error.server, error.tool), ("m", "s", "t"))


if __name__ == "__main__":
    unittest.main()
