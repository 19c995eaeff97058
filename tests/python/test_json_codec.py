import json
import math
import sys
import types
import unittest
from unittest import mock

import guest  # noqa: F401
from cloister import json_codec


class Encode(unittest.TestCase):
    def test_values_cross_unchanged(self):
        values = [
            None, True, False, 0, -1, 2**64, 10**4000, 0.1, -0.0, 1e308, 5e-324, "", "é\u2028\x00\U0001f600",
            [], {}, [[[]]], {"a": {"": None}}, "007", '"\\', "\x7f",
        ]  # fmt: skip
        for value in values:
            with self.subTest(value=repr(value)[:40]):
                data = json_codec.encode_guest(value)
                self.assertEqual(repr(json_codec.decode(data)), repr(value))
                data.decode("utf-8")

    def test_values_that_json_cannot_express_are_named_with_their_path(self):
        cases = [
            (float("nan"), "nan", ""),
            ({"a": [1, float("inf")]}, "inf", "['a'][1]"),
            ({"a": {1: 2}}, "keys are strings, not int", "['a']"),
            ([{1, 2}], "set is not a JSON value: use a list", "[0]"),
            ({"x": b"1"}, "bytes is not a JSON value", "['x']"),
            (["a\ud800"], "lone surrogate", "[0]"),
            ({"\udfff": 1}, "lone surrogate", ""),
            ([object()], "object is not a JSON value", "[0]"),
        ]
        for value, reason, path in cases:
            with self.subTest(value=repr(value)):
                with self.assertRaises(json_codec.Unfit) as caught:
                    json_codec.encode_guest(value)
                self.assertIn(reason, caught.exception.reason)
                self.assertEqual(caught.exception.path, path)

    @unittest.skipUnless(hasattr(sys, "set_int_max_str_digits"), "this Python has no digit limit")
    def test_integers_beyond_the_digit_limit_name_the_setting(self):
        with self.assertRaises(json_codec.Unfit) as caught:
            json_codec.encode_guest({"n": 10**5000})
        self.assertIn("sys.set_int_max_str_digits", caught.exception.reason)
        with self.assertRaises(ValueError):
            json_codec.decode(b"1" * 5000)

    def test_depth_is_bounded(self):
        value = []
        for _ in range(json_codec.MAX_DEPTH - 2):
            value = [value]
        json_codec.encode_guest(value)
        for _ in range(10):
            value = [value]
        with self.assertRaises(json_codec.Unfit):
            json_codec.encode_guest(value)
        loop = []
        loop.append(loop)
        with self.assertRaises(json_codec.Unfit):
            json_codec.encode_guest(loop)

    def test_tuples_and_subclasses_are_sent_as_plain_values(self):
        class Text(str):
            pass

        self.assertEqual(json.loads(json_codec.encode_guest({"a": (1, Text("x"))})), {"a": [1, "x"]})

    def test_own_messages_are_valid_for_any_text(self):
        text = json_codec.printable("a\ud800b\udcff")
        self.assertEqual(text, "a\\ud800b\\udcff")
        self.assertEqual(json.loads(json_codec.encode_own({"t": text}))["t"], text)

    def test_replaced_json_functions_are_not_used(self):
        saved = json.encoder.JSONEncoder.default, json.dumps
        json.encoder.JSONEncoder.default = lambda self, o: "fooled"
        json.dumps = None
        try:
            with self.assertRaises(json_codec.Unfit):
                json_codec.encode_guest([object()])
        finally:
            json.encoder.JSONEncoder.default, json.dumps = saved


class Decode(unittest.TestCase):
    def test_refuses_text_that_is_not_one_json_value(self):
        for data in (b"", b"{", b"1 2", b"NaN", b"[Infinity]", b"\xff", b"'a'"):
            with self.subTest(data=data):
                with self.assertRaises(ValueError):
                    json_codec.decode(data)


    def test_a_float_out_of_range_is_refused_not_changed(self):
        self.assertEqual(json_codec.decode(b"[1e308, -5e-324]"), [1e308, -5e-324])
        for text in (b"1e400", b'{"a": -1E999}'):
            with self.assertRaises(ValueError) as caught:
                json_codec.decode(text)
            self.assertIn("beyond the range", str(caught.exception))

    def test_nearest_doubles(self):
        self.assertEqual(json_codec.decode_nearest(b"[1e400, 7, " + b"1" * 5000 + b"]"), [math.inf, 7, math.inf])


class Number:
    """As much of a scalar or array of numpy as plain() uses. of: what tolist() returns; size: of an array."""

    dtype = None

    def __init__(self, of, kind="i", itemsize=8, size=1):
        self.of, self.size, self.dtype = of, size, types.SimpleNamespace(kind=kind, itemsize=itemsize)

    def tolist(self):
        return self.of


Number.__module__ = "numpy"


@mock.patch.dict(sys.modules, {"numpy": types.ModuleType("numpy")})
class Plain(unittest.TestCase):
    def test_replaced(self):
        whole = {"a": [Number(5), (Number(True, "b"),)], "b": [1], "c": Number([1, 2], size=2)}
        changed = json_codec.plain(whole)
        self.assertEqual(changed, {"a": [5, (True,)], "b": [1], "c": [1, 2]})
        self.assertIs(changed["b"], whole["b"])
        self.assertIsInstance(whole["a"][0], Number)
        self.assertEqual(json_codec.encode_guest({"n": Number("é", "U", 40)}), '{"n":"é"}'.encode())

    def test_left_alone(self):
        loop = []
        loop += [loop, loop, Number(1)]
        for value in (1, [1, {"a": (2,)}], Number(1, "M"), Number(1, "m"), Number(1, "f", 16), Number(1, "c"), Number(1, "O"), Number(1, "V")):
            self.assertIs(json_codec.plain(value), value)
        for value in (Number([1] * 9, size=9), [[Number(1)] * 5] * 2, loop):
            self.assertIs(json_codec.plain(value, 8), value)
        with mock.patch.dict(sys.modules):
            del sys.modules["numpy"]
            self.assertIsInstance(json_codec.plain(Number(1)), Number)


class IsExact(unittest.TestCase):
    def test_exact(self):
        for value in (1, 1.5, "x", True, [1, None], {"a": [{}]}, 2**100, [], ""):
            self.assertTrue(json_codec.is_exact(value), value)

    def test_not_exact(self):
        class Number(int):
            pass

        loop = []
        loop.append(loop)
        big = "x" * (json_codec.JSON_BUDGET + 1)
        cases = [(1,), {1: 2}, {1}, math.nan, math.inf, Number(1), "\ud800", loop, big, [0] * 40000, b"", object()]
        for value in cases:
            self.assertFalse(json_codec.is_exact(value), repr(value)[:40])

    def test_exact_values_fit_the_budget(self):
        value = ["é" * 100] * 200
        self.assertTrue(json_codec.is_exact(value))
        self.assertLessEqual(len(json_codec.encode_own(value)), json_codec.JSON_BUDGET)
        self.assertFalse(json_codec.is_exact(["é" * 100] * 400))


if __name__ == "__main__":
    unittest.main()
