"""Threads of libraries: those that only keep house are not started, and others come back in each copy (test_threads_return.py has the details)."""

import os

import harness
import rawmcp

VENV = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")


class Libraries(rawmcp.ServerCase):
    CONFIG = {"python": VENV, "limits": {"memory": "1500M", "cpu": 4}}

    def call(self, code, **arguments):
        # The first call may wait for the image.
        return super().call(code, wait=harness.patient(400), **{"timeout": harness.patient(60), **arguments})

    def test_pandas(self):
        """pandas with pyarrow starts no thread: the session has all that needs a copy."""
        self.ok("import pandas as pd\nx = 1\ndf = pd.DataFrame({'a': pd.array(['a', 'b'] * 500, dtype='string[pyarrow]')})")
        self.assertEqual(self.cell("x = 2; 1 / 0", on_error="rollback")["state"], "rolled_back")
        look = "[x, len(df), int((df.a.str.upper() == 'A').sum())]"
        self.assertEqual(self.value(look), [1, 1000, 500])
        cell = self.cell("import itertools; x = 2; sum(itertools.repeat(1))", timeout=2)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "restored"), cell)
        self.assertEqual(self.value(look), [1, 1000, 500])
        self.assertEqual(self.value(look, session="pandas-b", **{"from": self.session}), [1, 1000, 500])

    def come_back(self, code):
        """The pool of a library is in each copy, and in a branch: a query there is right."""
        self.ok(f"{code}\nx, right = 1, query()", checkpoint="one")
        look = "[x, query() == right]"
        self.assertEqual(self.cell("x = 2; query(); 1 / 0", on_error="rollback")["state"], "rolled_back")
        self.assertEqual(self.value(look), [1, True])
        self.ok("x = 3", checkpoint="two")
        cell = self.cell("import itertools; x = 4; sum(itertools.repeat(1))", timeout=2)
        self.assertEqual((cell["status"], cell["state"]), ("timeout", "restored"), cell)
        self.assertEqual(self.value(look), [3, True])
        self.assertEqual(self.value(look, restore="one"), [1, True])
        self.assertEqual(self.value(look, session=f"{self.session}-b", **{"from": self.session}), [1, True])
        self.assertEqual(self.value(look, session=f"{self.session}-c", **{"from": f"{self.session}@two"}), [3, True])

    def test_numpy(self):
        """Products of matrices by OpenBLAS's pool."""
        self.come_back("import numpy as np\na = np.random.default_rng(1).random((400, 400))\ndef query(): return float((a @ a).sum())")

    def test_polars(self):
        self.come_back("import polars as pl\ndf = pl.DataFrame({'a': range(30000), 'b': [i % 7 for i in range(30000)]})\n"
                       "def query(): return df.lazy().group_by('b').agg(pl.col('a').sum()).sort('b').collect().rows()")

    def test_duckdb(self):
        self.come_back("import duckdb\ndb = duckdb.connect()\n_ = db.execute('create table t as select i, i % 7 as k from range(300000) r(i)')\n"
                       "def query(): return db.execute('select k, sum(i) from t group by k order by k').fetchall()")


if __name__ == "__main__":
    harness.main()
