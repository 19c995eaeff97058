"""Frames of pandas and polars as a Markdown table, which a model reads better than HTML or a repr() with cut columns."""

# Rows and columns that are shown; the first pair whose table is short enough is taken.
SIZES = ((24, 20), (12, 12), (8, 8), (4, 4), (2, 2))
CHARACTERS = 6000
CELL = 60  # characters

_KINDS = {"pandas": ("DataFrame", "Series"), "polars": ("DataFrame", "Series")}


def is_table(value):
    kind = type(value)
    return kind.__name__ in _KINDS.get(kind.__module__.partition(".")[0], ())


def text_of(value):
    """The table with a line that tells its shape. Runs code of the library."""
    part = _Pandas(value) if type(value).__module__.partition(".")[0] == "pandas" else _Polars(value)
    for rows, columns in SIZES:
        text = _text(part, rows, columns)
        if len(text) <= CHARACTERS:
            break
    return "%s\n\n%s" % (part.title, text.rstrip("\n"))


class _Pandas:
    def __init__(self, value):
        self.title = _title(value, value.shape, value.dtype if value.ndim == 1 else None)
        self._frame = value.to_frame() if value.ndim == 1 else value
        self.shape = self._frame.shape
        self.names = ["", *map(_name, self._frame.columns)]

    def rows(self, first, last, columns):
        return self._frame.iloc[first:last, columns].itertuples(index=True, name=None)


class _Polars:
    def __init__(self, value):
        self.title = _title(value, value.shape, value.dtype if len(value.shape) == 1 else None)
        self._frame = value.to_frame() if len(value.shape) == 1 else value
        self.shape = self._frame.shape
        self.names = ["", *self._frame.columns]

    def rows(self, first, last, columns):
        part = self._frame[first:last].select([self._frame.columns[i] for i in columns])
        return ((first + i, *row) for i, row in enumerate(part.rows()))


def _title(value, shape, dtype):
    kind = type(value).__name__
    if dtype is not None:
        name = "" if value.name in (None, "") else " %s" % _cut(value.name)
        return "%s%s: %s values of %s" % (kind, name, format(shape[0], ","), dtype)
    return "%s: %s rows × %s columns" % (kind, format(shape[0], ","), format(shape[1], ","))


def _picked(n, most):
    """The numbers of the first and last ones."""
    if n <= most:
        return list(range(n)), []
    last = most // 4
    return list(range(most - last)), list(range(n - last, n))


def _text(part, most_rows, most_columns):
    rows, columns = part.shape
    left, right = _picked(columns, most_columns)
    names = [part.names[0], *(part.names[1 + i] for i in left), *(["…"] if columns > most_columns else []),
             *(part.names[1 + i] for i in right)]
    lines = [names, ["---"] * len(names)]
    for numbers in _picked(rows, most_rows):
        if numbers and len(lines) > 2:
            lines.append(["…"] * len(names))
        if numbers:
            lines += (_row(row, len(left), columns > most_columns)
                      for row in part.rows(numbers[0], numbers[-1] + 1, left + right))
    return "".join("| %s |\n" % " | ".join(map(_cut, line)) for line in lines)


def _row(row, left, is_cut):
    cells = [_value(cell) for cell in row]
    return [*cells[:1 + left], *(["…"] if is_cut else []), *cells[1 + left:]]


def _name(name):
    return " / ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _value(value):
    if isinstance(value, tuple):  # of an index with several levels
        return _name(value)
    return "%.6g" % value if isinstance(value, float) else str(value)


def _cut(text):
    text = str(text)
    if len(text) > CELL:
        text = text[: CELL - 1] + "…"
    return text.replace("|", "\\|").replace("\r", " ").replace("\n", " ")
