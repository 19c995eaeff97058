"""Numbers keep their digits, and tables stay tables: what models and programs read of a value."""

import json
import os
import re

import harness
import rawmcp

VENV = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")
MOST = 2**53 - 1


def rounded(text):
    """The integers of a JSON text that a double does not hold."""
    found = []

    def whole(digits):
        if abs(int(digits)) > MOST:
            found.append(digits)
        return int(digits)

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    json.loads(text, parse_int=whole, parse_constant=refuse)
    return found


class Integers(rawmcp.ServerCase):
    """Clients in JavaScript round integers beyond ±(2^53 - 1)."""

    @classmethod
    def servers(cls):
        return {"a": harness.fixture()}

    def test_json_text(self):
        for code in ("9007199254740993", "-9007199254740992", "{'id': 725653563933458433, 'n': 3}", "[-7108510333361982071, 2**200 + 1]",
                     "[[{'a': [1, {'b': [2**63]}]}]]", "{'s': '\"9007199254740993\"', 'n': 2**53}"):
            result = self.call(code)
            value = result["structuredContent"]["value"]
            self.assertNotIn("json", value)
            self.assertEqual(json.loads(value["json_text"]), eval(code))
            self.assertEqual(rounded(json.dumps(result["structuredContent"])), [])
            self.assertIn(str(eval(code)), result["content"][0]["text"])

    def test_json(self):
        for code in ("9007199254740991", "-9007199254740991", "[1e300, 0.1, -0.0, 5e-324, 1e22]", "'9007199254740993'", "{'9007199254740993': True}"):
            value = self.cell(code)["value"]
            self.assertEqual(repr(value["json"]), repr(eval(code)))
            self.assertNotIn("json_text", value)

    def test_what_is_not_json(self):
        for code in ("float('nan')", "{'a': float('inf'), 'b': None}", "[1, [-float('inf')]]", "(9007199254740993,)", "1j"):
            result = self.call(code)
            self.assertEqual(result["structuredContent"]["status"], "ok", code)
            self.assertLessEqual(set(result["structuredContent"]["value"]), {"repr"})
            self.assertEqual(rounded(json.dumps(result, allow_nan=False)), [])

    def test_the_schema(self):
        members = self.server.ask("tools/list")["tools"][0]["outputSchema"]["properties"]["value"]["properties"]
        self.assertEqual((members["json"], members["json_text"]["type"]), ({}, "string"))

    def test_run(self):
        for code, member in (("{'id': 9007199254740993}", "json_text"), ("{'id': 1}", "json")):
            done = self.run_json(code)
            self.assertEqual(rounded(done), [])
            value = json.loads(done)["structuredContent"]["value"]
            self.assertEqual(set(value), {"repr", member})

    def run_json(self, code):
        done = harness.subprocess.run([harness.CLOISTER, "run", "--json", "-c", code], capture_output=True, text=True, env=harness.environment(),
                                      timeout=harness.patient(60), check=True)
        return done.stdout

    def test_a_slow_repr(self):
        self.ok("open('slow.py', 'w').write('import time\\nclass C:\\n    def __repr__(self):\\n        time.sleep(60)\\n')\nimport slow")
        for code in "slow.C()", "display(slow.C())":
            self.assertEqual(self.cell(code, timeout=1)["status"], "timeout", code)
            self.assertTrue(self.ok("bool(slow)")["value"]["json"], code)

    def test_from_tool_to_tool(self):
        """Integers that code takes from one tool to another, and back."""
        cell = self.cell("one = await mcp_a.echo(n=725653563933458433, l=[2**70])\nstr(await mcp_a.echo(**{'back': one}))")
        self.assertIn("725653563933458433", cell["value"]["repr"])
        self.assertIn(str(2**70), cell["value"]["repr"])


class Libraries(rawmcp.ServerCase):
    """numpy, pandas, polars, pyarrow and duckdb themselves."""

    CONFIG = {"python": VENV, "limits": {"memory": "1G"}}

    def setUp(self):
        super().setUp()
        self.session = "libraries"  # each import once

    def call(self, code, **arguments):
        return super().call("import numpy as np, pandas as pd\n" + code, wait=harness.patient(120), timeout=harness.patient(120), **arguments)

    def table(self, code, *parts):
        result = self.call(code)
        text = result["content"][0]["text"]
        self.assertEqual(result["structuredContent"]["status"], "ok", text)
        self.assertFalse(result["structuredContent"].get("stderr"))
        self.assertLess(len(text), 8000)
        for part in parts:
            self.assertIn(part, text)
        return text

    def test_scalars_and_arrays(self):
        for code, want in (("np.int64(5)", 5), ("np.float64(2.5)", 2.5), ("np.bool_(True)", True), ("np.arange(4).sum()", 6), ("np.array(7)", 7),
                           ("{'n': np.int64(7), 'a': np.arange(3)}", {"n": 7, "a": [0, 1, 2]}), ("np.float32(0.1)", 0.10000000149011612),
                           ("[np.eye(2), np.str_('x'), np.uint8(255), np.float16(0.5)]", [[[1.0, 0.0], [0.0, 1.0]], "x", 255, 0.5]),
                           ("df = pd.DataFrame({'a': [3, 4]})\ndf.a.max()", 4)):
            value = self.cell(code)["value"]
            self.assertEqual(repr(value.get("json")), repr(want), code)
        for code, want in (("np.uint64(2**64 - 1)", 2**64 - 1), ("{'a': np.array([2**53, 1])}", {"a": [2**53, 1]})):
            value = self.cell(code)["value"]
            self.assertEqual((json.loads(value.get("json_text", "0")), value.get("json")), (want, None), code)
        for code in ("np.float64('nan')", "np.array([1, np.inf])", "np.datetime64('2026-01-01', 'ns')", "np.timedelta64(5, 's')", "np.longdouble(1) / 3",
                     "np.complex128(1)", "np.zeros(10**5)", "np.ma.array([1, 2], mask=[0, 1])", "np.zeros(2, dtype='i4,f8')"):
            self.assertEqual(set(self.cell(code)["value"]), {"repr"}, code)

    def test_digits_of_a_repr(self):
        x = "0.123456789123"
        for code in (f"np.array([{x}, 1.5])", f"(pd.DataFrame({{'a': [{x}]}}), 1)", f"[pd.Series([{x}])]", f"{{'k': np.array([(1, {x})], dtype='i4,f8')}}"):
            self.assertIn(x, self.cell(code)["value"]["repr"])
        self.assertIn("0.123]", self.cell("with np.printoptions(precision=3): display(np.array([0.123456789]))")["stdout"])
        self.assertEqual(self.cell("print(np.array([1/3]), pd.get_option('display.float_format'))")["stdout"], "[0.33333333] None\n")

    def test_money(self):
        self.table("pd.DataFrame({'eur': [1234567.89, 20480019.5, 0.1], 'f': np.array([0.1, 1e-8, 3], dtype='f4'), 'h': np.array([0.1, 1, 2], dtype='f2')})",
                   "| 1234567.89 | 0.1 | 0.1 |", "| 20480019.5 | 1e-08 | 1.0 |", "| 0.1 | 3.0 | 2.0 |")
        self.table("pd.Series([1234567.891, 0.1], name='eur', index=pd.Index([0.25, 1e22], name='at'))", "| at | eur |", "| 0.25 | 1234567.891 |", "| 1e+22 | 0.1 |")
        self.table("import decimal\npd.DataFrame({'d': [decimal.Decimal('1.10'), 2**70, 0.1 + 0.2j]})", "| 1.10 |", f"| {2**70} |", "| (0.1+0.2j) |")

    def test_missing(self):
        text = self.table("pd.DataFrame({'v': [0.0, np.nan, np.inf, -np.inf, 2.5], 'o': [pd.NA, None, 'x', np.nan, pd.NaT], 't': [pd.Timestamp('2026-01-02'), pd.NaT, "
                          "pd.Timestamp('2026-01-03 04:05:06.123456789'), pd.NaT, pd.NaT], 'i': pd.array([1, None, 3, None, 5], dtype='Int64')})")
        rows = [line.strip("| ").split(" | ") for line in text.split("\n")[4:]]
        self.assertEqual(rows, [["0", "0.0", "<NA>", "2026-01-02 00:00:00", "1"], ["1", "nan", "None", "NaT", "<NA>"],
                                ["2", "inf", "x", "2026-01-03 04:05:06.123456789", "3"], ["3", "-inf", "nan", "NaT", "<NA>"], ["4", "2.5", "NaT", "NaT", "5"]])

    def test_names(self):
        self.table("pd.DataFrame([[1, 2.5]], columns=['a', 'a'])", "|  | a | a |", "| 0 | 1 | 2.5 |")
        self.table("pd.DataFrame({'c': ['x', 'y'], 'y': [2025, 2026], 'n': [1, 2]}).pivot(index='c', columns='y', values='n')", "columns: y", "| c | 2025 | 2026 |")
        self.table("pd.DataFrame(np.arange(8).reshape(4, 2), index=pd.MultiIndex.from_product([['x', 'y'], [1, 2]], names=['k', None]), "
                   "columns=pd.MultiIndex.from_tuples([('a', 'b'), ('a', 1)], names=['up', 'down']))",
                   "4 rows × 2 columns; columns: up / down", "| k |  | a / b | a / 1 |", "| x | 2 | 2 | 3 |")
        self.table("pd.DataFrame([[1, 2]], columns=pd.Index([None, ''], dtype=object))", "|  |  |  |", "| 0 | 1 | 2 |")
        self.table("pd.Series([1.5])", "Series: 1 values of float64", "| 0 | 1.5 |")
        self.table("pd.DataFrame(index=[1, 2])", "2 rows × 0 columns", "| 2 |")
        self.table("pd.DataFrame({'a': []})", "0 rows × 1 columns", "|  | a |")

    def test_bounds(self):
        self.table("pd.DataFrame(np.zeros((20000, 400)))", "20,000 rows × 400 columns", "| 19999 |")
        every = "with pd.option_context('display.max_rows', None, 'display.max_columns', None, 'display.max_colwidth', None): display(pd.DataFrame(%s))"
        self.table(every % "np.zeros((20000, 400))", "20,000 rows × 400 columns")
        self.table(every % "{'a': ['x' * 10**6] * 100}", "100 rows × 1 columns")
        self.table(every % "{'a': range(100), 'b': ['x' * 200] + ['y'] * 99}", "x" * 200, "| 50 | 50 |")
        self.table("pd.DataFrame({'a': [1]}).rename_axis(columns='x' * 10**6)", "1 rows × 1 columns; columns: xxx", "| 0 | 1 |")
        self.table("pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_tuples([tuple(range(300))]))", "1 rows × 1 columns")

    def test_as_code_has_set(self):
        self.session = "options"
        self.table("pd.set_option('display.float_format', '{:,.2f}'.format)\npd.DataFrame({'x': [1234567.891, 0.5, np.nan], 'o': [1.234, 'a', None]})",
                   "| 1,234,567.89 | 1.23 |", "| 0.50 | a |", "| nan | None |")
        text = self.table("pd.reset_option('display.float_format'); pd.set_option('display.max_rows', 4)\npd.DataFrame({'x': range(1000, 1020)})", "1000", "1019")
        self.assertNotIn("1010", text)
        text = self.table("pd.reset_option('display.max_rows'); pd.set_option('display.precision', 3, 'display.max_columns', 2)\n"
                          "pd.DataFrame({'x': [0.123456789], 'y': 1, 'z': 2})", "| 0.123 |", "…")
        self.assertNotIn("| z |", text)
        self.table("pd.reset_option('display.precision'); pd.reset_option('display.max_columns')\npd.DataFrame({'x': [0.123456789]})", "| 0.123456789 |")

    def test_styled(self):
        text = self.table("pd.DataFrame({'a': range(300), 'b': range(300)}).style.format('{:.1f}')", "Styler: 300 rows × 2 columns", "| 299 | 299.0 | 299.0 |")
        self.assertNotIn("<td", text)
        self.table("pd.DataFrame({'a': [.5, None], 'b': [1.23456789, 2]}, index=['r', 's']).style.format({'a': '{:.2%}'}, na_rep='-')",
                   "| r | 50.00% | 1.234568 |", "| s | - | 2.000000 |")
        self.table("pd.DataFrame({'a': [1.23456789]}).style", "| 1.23456789 |")
        self.table("pd.DataFrame({'a': [1.0, 2], 'b': [3, 4]}).style.hide(axis=0).hide(axis=1, subset=['b']).format('<{:.1f}>')", "| a |\n", "| <2.0> |")

    def test_polars(self):
        self.table("import polars as pl, datetime\nwhen = datetime.datetime(2026, 1, 1)\npl.DataFrame({'x': [1234567.89, None, float('nan'), float('inf')], 't': [when] * 4}).with_columns("
                   "pl.col('t').cast(pl.Datetime('ns')) + pl.duration(nanoseconds=5), f=pl.lit(0.1, pl.Float32))",
                   "| 1234567.89 | 2026-01-01 00:00:00.000000005 | 0.1 |", "| 1 | None |", "| 2 | nan |", "| 3 | inf |")
        self.table("pl.Series('s', [1234567.891])", "Series s: 1 values of Float64", "| 1234567.891 |")
        text = self.table("with pl.Config(tbl_rows=4, float_precision=2, thousands_separator=','): display(pl.DataFrame({'x': [1234567.891] * 20, 'i': range(1010, 1030)}))",
                          "| 1,234,567.89 | 1,010 |")
        self.assertNotIn("1,020", text)

    def test_arrow(self):
        self.table("import pyarrow as pa\npa.table({'a': [1, None], 'f': pa.array([0.1, None], pa.float32()), 't': pa.array([1767225600123456789, None], pa.timestamp('ns'))})",
                   "Table: 2 rows × 3 columns", "| 1 | 0.1 | 2026-01-01 00:00:00.123456789 |", "| None | None | None |")
        self.table("pa.record_batch({'n': [2**60 + 1]})", "RecordBatch: 1 rows × 1 columns", str(2**60 + 1))

    def test_duckdb(self):
        text = self.table("import duckdb\nsales = pd.DataFrame({'c': ['a', 'b', 'a'], 'n': [1, 2, 3]})\n"
                          "duckdb.sql('select c, sum(n) as total from sales group by c order by c')", "2 rows × 2 columns")
        self.assertRegex(text, r"\| a \| 4")
        text = self.table("duckdb.sql(\"select range as n, 0.1::float as f, TIMESTAMP_NS '2026-01-02 03:04:05.123456789' as t, 1.10::decimal(5, 2) as d, 2::hugeint ** 0 as n from range(30000)\")",
                          "more than 10,000 rows × 5 columns", "| n | f | t | d | n |", "| 5 | 0.1 | 2026-01-02 03:04:05.123456789 | 1.10 |")
        self.assertTrue(re.search(r"\| … \|$", text), text[-200:])


if __name__ == "__main__":
    harness.main()
