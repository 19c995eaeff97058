import unittest

import guest  # noqa: F401
from cloister import signature
from cloister.schema import MAX_PATTERN, check

TREE = {
    "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
                       "required": ["v"]}},
    "$ref": "#/$defs/node",
}  # fmt: skip

# schema, valid values, invalid values
CASES = [
    ({"type": "string"}, ["", "x"], [1, None, True, []]),
    ({"type": "integer"}, [1, -3, 2.0, 10**30], [1.5, "1", True]),
    ({"type": "number"}, [1, 1.5], [True, "1"]),
    ({"type": ["string", "null"]}, ["a", None], [1]),
    ({"type": "string", "nullable": True}, [None, "a"], [1]),
    ({"type": "boolean"}, [True], [0, "true"]),
    ({"enum": ["a", 1, None]}, ["a", 1, 1.0, None], ["b", True, 2]),
    ({"const": {"a": [1]}}, [{"a": [1]}, {"a": [1.0]}], [{"a": [True]}, {"a": [1], "b": 1}]),
    ({"minimum": 1, "maximum": 3}, [1, 3, "x"], [0, 4]),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
    ({"minimum": 1, "exclusiveMinimum": True}, [1, 2], [0]),
    ({"multipleOf": 3}, [0, 9], [10]),
    ({"multipleOf": 0.1}, [0.3, 1], [0.35]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
    ({"pattern": "^[a-z]+$"}, ["abc"], ["ABC", "a1"]),
    ({"pattern": "^\\p{L}+$"}, ["abc", "1"], []),
    ({"pattern": "a" * (MAX_PATTERN + 1)}, ["b"], []),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], (1, 2)], [[], [1, 2, 3], ["a"]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], []], [["a", 1], [1]]),
    ({"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}, [["a", 1]], [["a", "b"]]),
    ({"uniqueItems": True}, [[1, True, "1"]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"contains": {"const": 1}, "maxContains": 1}, [[1, 2]], [[], [1, 1]]),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, [{"a": "x", "b": 1}], [{}, {"a": 1}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
    ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, [{"x1": 1}], [{"y": 1}, {"x": "a"}]),
    ({"additionalProperties": {"type": "integer"}}, [{"q": 1}], [{"q": "1"}]),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {"b": 1}], [{"a": 1}]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1]),
    ({"oneOf": [{"minimum": 1}, {"maximum": 1}]}, [0, 2], [1]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    ({"not": {"type": "string"}}, [1], ["a"]),
    ({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["x"]}, "else": {"required": ["y"]}},
     [{"k": 1, "x": 0}, {"k": 2, "y": 0}], [{"k": 1, "y": 0}, {"x": 0}]),
    (TREE, [{"v": 1, "next": {"v": 2}}], [{"v": 1, "next": {"v": "2"}}, {"v": 1, "next": {}}]),
    ({"properties": {"a": False}}, [{}], [{"a": 1}]),
    ({"$ref": "https://example.com/schema"}, [1, "a"], []),
    ({"$ref": "#"}, [1], []),
    ({"type": "uuid"}, ["anything"], []),
    ({"required": "a", "properties": [], "enum": 5, "anyOf": {}, "minimum": "x"}, [{}, 1], []),
    (True, [1], []),
    ("nonsense", [1], []),
]  # fmt: skip


class Check(unittest.TestCase):
    def test_cases(self):
        for schema, fitting, failing in CASES:
            for value in fitting:
                with self.subTest(schema=str(schema)[:60], fits=value):
                    self.assertIsNone(check(value, schema))
            for value in failing:
                with self.subTest(schema=str(schema)[:60], fails=value):
                    self.assertIsInstance(check(value, schema), str)

    def test_messages_name_the_path(self):
        schema = {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}}
        wrong = check({"a": [{}, {"b": 5}]}, schema)
        self.assertEqual(wrong, 'argument "a[1].b" must be string, not integer (5)')
        self.assertEqual(check({}, {"required": ["a", "b"]}), 'missing arguments "a", "b"')

    def test_alternatives_are_reported_together(self):
        wrong = check({"a": 1}, {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})
        self.assertIn("must be string", wrong)
        self.assertIn("must be null", wrong)

    def test_recursive_schemas_end(self):
        check({}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})
        wide = {"anyOf": [{"$ref": "#"}] * 50, "type": "integer"}
        self.assertIsNone(check(1, wide))


class Signature(unittest.TestCase):
    def line(self, schema, output=None):
        return signature.line("f", schema, output)

    def test_lines(self):
        schema = {
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "default": 10},
                "calendar-id": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["a", "b"]},
                "maybe": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "who": {"$ref": "#/$defs/who"},
            },
            "required": ["calendar-id"],
            "$defs": {"who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        }
        self.assertEqual(
            self.line(schema),
            'f("calendar-id": str, limit: int = 10, tags: list[str] = None, mode: "a" | "b" = None,'
            ' maybe: float | None = None, who: {"name": str} = None)',
        )

    def test_returns(self):
        wrapped = {"type": "object", "properties": {"result": {"type": "array"}}, "x-fastmcp-wrap-result": True}
        self.assertEqual(self.line({"type": "object"}, wrapped), "f() -> list")
        self.assertEqual(
            self.line({}, {"type": "object", "properties": {"t": {"type": "number"}}}), 'f() -> {"t"?: float}'
        )

    def test_odd_schemas(self):
        for schema in (None, [], {"properties": 5}, {"properties": {"a": True}}, {"properties": {"a": {"type": []}}}):
            self.assertTrue(self.line(schema).startswith("f("))
        loop = {"properties": {"a": {"$ref": "#"}}}
        self.assertLess(len(self.line(loop)), 700)


if __name__ == "__main__":
    unittest.main()
