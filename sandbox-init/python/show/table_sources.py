"""Tables of pandas, polars, pyarrow and duckdb as rows of text. Numbers are the shortest text that reads back the same, or as
code has set the library's options. Runs code of the libraries."""

import sys

from cloister.digits import has_pandas_default, has_polars_default

LEVELS = 6  # of an index, one column each
ALL = 10**9
_FETCHED, _FETCHED_CELLS = 10_000, 200_000  # of a relation


def source_of(kind):
    """The class that reads tables of this type, or None."""
    for base in kind.__mro__:
        source = _SOURCES.get((str(base.__module__).partition(".")[0], base.__name__))
        if source is not None:
            return source
    return None


class Rows:
    """names: the titles of the columns of the index, then of the others; left: how many of the index."""

    left, names, shape, some, _values = 1, [""], (0, 0), "", None

    def __init__(self, value, names=()):
        self.kind = type(value).__name__
        self.names = ["", *map(str, names)]
        self.note = ""

    def title(self):
        if self._values is not None:  # a Series
            return self.kind + self._values
        counts = self.some + format(self.shape[0], ","), format(self.shape[1], ",")
        return "%s: %s rows × %s columns%s" % (self.kind, *counts, self.note)

    def asked(self):
        """The rows, columns, and characters of a cell that code has set; None: nothing was set."""
        return None, None, None

    def rows(self, first, last, columns):
        numbers = list(map(str, range(first, last)))
        return zip(numbers, *(self.column(i, first, last) for i in columns))

    def column(self, i, first, last):
        raise NotImplementedError


class _Pandas(Rows):
    def __init__(self, value):
        self.kind, self.note = type(value).__name__, ""
        if value.ndim == 1:
            self._values = _values_of(value)
            label = value.name
            value = value.to_frame()
        frame = self._frame = value
        self.shape = frame.shape
        index, columns = frame.index, frame.columns
        self.left = index.nlevels if index.nlevels <= LEVELS else 1
        levels = [_label(name) for name in index.names]
        heads = map(_label, columns) if self._values is None else ["" if label is None else _label(label)]
        self.names = [*(levels if self.left > 1 else [" / ".join(levels)]), *heads]
        if self._values is None and any(name is not None for name in columns.names):
            self.note = "; columns: " + " / ".join(_label(name) for name in columns.names)
        self._pandas = sys.modules["pandas"]
        self._exact = has_pandas_default(self._pandas)

    def asked(self):
        option = self._pandas.get_option
        rows, columns, width = option("display.max_rows"), option("display.max_columns"), option("display.max_colwidth")
        return (
            None if rows == 60 else rows or ALL,
            None if columns in (0, 20) else columns or ALL,
            None if width == 50 else width or ALL,
        )

    def rows(self, first, last, columns):
        part = self._frame.iloc[first:last, columns]
        index = part.index
        levels = [index.get_level_values(level) for level in range(self.left)] if self.left > 1 else [index]
        return zip(*map(_texts, levels), *(self._formatted(part.iloc[:, i]) for i in range(len(columns))))

    def _formatted(self, values):
        kind = getattr(values.dtype, "kind", "O")
        texts = _texts(values)
        if self._exact or not texts or kind not in "fcO":
            return texts
        if kind == "O":
            return [self._one(value, text) for value, text in zip(values.array, texts)]
        lines = values.to_string(index=False, header=False).split("\n")
        if len(lines) != len(texts):
            return texts
        return [text if text in _NONE else line.strip() for text, line in zip(texts, lines)]

    def _one(self, value, text):
        return self._formatted(self._pandas.Series([value], dtype=float))[0] if isinstance(value, float) else text


class _Styled(_Pandas):
    """What a Styler has formats for is as it formats it."""

    def __init__(self, styler):
        super().__init__(styler.data)
        self.kind = type(styler).__name__
        hidden = set(styler.hidden_rows), set(styler.hidden_columns)
        self._rows = [i for i in range(self.shape[0]) if i not in hidden[0]]
        self._columns = [i for i in range(self.shape[1]) if i not in hidden[1]]
        self.shape = len(self._rows), len(self._columns)
        self._cells, self._index = styler._display_funcs, styler._display_funcs_index
        heads = styler._display_funcs_columns
        columns = self._frame.columns
        for i in range(len(columns)):
            label = columns[i] if columns.nlevels > 1 else (columns[i],)
            texts = [heads[level, i](name) if (level, i) in heads else _label(name) for level, name in enumerate(label)]
            self.names[self.left + i] = " / ".join(map(str, texts))
        self.names = [*self.names[: self.left], *(self.names[self.left + i] for i in self._columns)]
        self._shown = [i for i, hides in enumerate(styler.hide_index_) if not hides and i < self.left]
        self.names = [*(self.names[i] for i in self._shown), *self.names[self.left :]]
        self.left = len(self._shown)
        self._depth = self._frame.index.nlevels

    def rows(self, first, last, columns):
        rows = self._rows[first:last]
        index = self._frame.index[rows]
        cells = []
        for level in self._shown:
            values = index.get_level_values(level) if self._depth <= LEVELS else index
            cells.append(self._with(self._index, values, _texts(values), [(row, level) for row in rows]))
        for i in (self._columns[i] for i in columns):
            values = self._frame.iloc[rows, i]
            cells.append(self._with(self._cells, values, self._formatted(values), [(row, i) for row in rows]))
        return zip(*cells) if cells else [()] * len(rows)

    @staticmethod
    def _with(formats, values, texts, places):
        return [
            str(formats[place](value)) if place in formats else text
            for place, value, text in zip(places, values.tolist(), texts)
        ]


class _Polars(Rows):
    def __init__(self, value):
        self._values = _values_of(value) if len(value.shape) == 1 else None
        self._frame = value if self._values is None else value.to_frame()
        super().__init__(value, self._frame.columns)
        self.shape = self._frame.shape
        self._polars = sys.modules["polars"]
        self._state = self._polars.Config.state(if_set=True)
        self._exact = has_polars_default(self._state)

    def asked(self):
        names = ("POLARS_FMT_MAX_ROWS", "POLARS_FMT_MAX_COLS", "POLARS_FMT_STR_LEN")
        set_ones = (self._state.get(name) for name in names)
        return tuple(None if text is None else int(text) if int(text) >= 0 else ALL for text in set_ones)

    def column(self, i, first, last):
        series = self._frame.to_series(i).slice(first, last - first)
        kind = str(series.dtype)
        if not self._exact and kind.startswith(("Float", "Int", "UInt", "Decimal")):
            with self._polars.Config(tbl_rows=-1):
                lines = str(series).split("\n")
            lines = [line.strip() for line in lines[lines.index("[") + 1 : -1]]
            if len(lines) == len(series):
                return ["None" if line == "null" else line for line in lines]
        if kind == "Time" or "'ns'" in kind and kind.startswith(("Datetime", "Duration")):  # Python's have no nanoseconds
            series = series.dt.to_string("polars") if kind.startswith("Duration") else series.cast(self._polars.String)
        return _cells(series.to_list(), kind)


class _Arrow(Rows):
    def __init__(self, value):
        super().__init__(value, value.schema.names)
        self.shape = value.num_rows, value.num_columns
        self._table = value

    def column(self, i, first, last):
        values = self._table.column(i).slice(first, last - first)
        kind = str(values.type)
        if "[ns" in kind and kind.startswith("time"):
            values = values.cast("string")
        return _cells(values.to_pylist(), kind)


class _Relation(Rows):
    """A query runs once, and gives no more rows than are counted."""

    def __init__(self, relation):
        super().__init__(relation, relation.columns)
        columns = len(relation.columns)
        most = min(_FETCHED, _FETCHED_CELLS // max(columns, 1))
        part = relation.limit(most + 1)
        self._kinds = list(map(str, relation.types))
        if "TIMESTAMP_NS" in self._kinds:
            part = part.project(", ".join(_as_text(i, kind) for i, kind in enumerate(self._kinds, 1)))
        self._rows = part.fetchall()
        self.some = "more than " if len(self._rows) > most else ""
        self._rows = self._rows[:most]
        self.shape = len(self._rows), columns

    def column(self, i, first, last):
        return _cells([row[i] for row in self._rows[first:last]], self._kinds[i])


def _as_text(number, kind):
    """A column of a relation; as text if Python's type has no nanoseconds."""
    return "#%d%s AS c%d" % (number, "::VARCHAR" if kind == "TIMESTAMP_NS" else "", number)


_SOURCES = {
    ("pandas", "DataFrame"): _Pandas,
    ("pandas", "Series"): _Pandas,
    ("pandas", "Styler"): _Styled,
    ("polars", "DataFrame"): _Polars,
    ("polars", "Series"): _Polars,
    ("pyarrow", "Table"): _Arrow,
    ("pyarrow", "RecordBatch"): _Arrow,
    ("duckdb", "DuckDBPyRelation"): _Relation,
    ("_duckdb", "DuckDBPyRelation"): _Relation,
}
_NONE = ("nan", "<NA>", "None", "NaT")
# Types of 4 and 2 bytes whose values the libraries give as a Python float, and the digits that are enough for each.
_NARROW = {
    "Float32": ("f", 9), "float": ("f", 9), "float[pyarrow]": ("f", 9), "FLOAT": ("f", 9),
    "Float16": ("e", 5), "halffloat": ("e", 5), "halffloat[pyarrow]": ("e", 5),
}  # fmt: skip


def _values_of(series):
    name = "" if series.name in (None, "") else " %s" % _label(series.name)[:60]
    return "%s: %s values of %s" % (name, format(series.shape[0], ","), series.dtype)


def _texts(values):
    """The text of each value of a Series or Index of pandas."""
    return _cells(values if values.dtype == object else values.array, str(values.dtype))


def _cells(values, kind):
    narrow = _NARROW.get(kind)
    if narrow is None:
        return list(map(str, values))
    return [_shortest(value, *narrow) if isinstance(value, float) else str(value) for value in values]


def _shortest(value, code, digits):
    """The shortest text that reads back as the same number of the narrow type."""
    import struct

    for precision in range(1, digits):
        text = "%.*g" % (precision, value)
        try:
            if struct.unpack(code, struct.pack(code, float(text)))[0] == value:
                return repr(float(text))
        except OverflowError:
            pass
    return repr(float("%.*g" % (digits, value)))


def _label(name):
    if isinstance(name, tuple):
        return " / ".join(map(_label, name))
    return "" if name is None else str(name)
