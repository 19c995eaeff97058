"""Tables as Markdown, which a model reads better than HTML or a repr() with cut columns."""

from cloister.digits import exact
from cloister.table_sources import source_of

# Rows and columns that are shown; the first pair whose table is short enough is taken.
SIZES = ((24, 20), (12, 12), (8, 8), (4, 4), (2, 2))
CHARACTERS = 6000
CELL = 60  # characters
TITLE = 300
_SHORTEST = 4  # characters of a cell


def is_table(value):
    return source_of(type(value)) is not None


def text_of(value):
    """The table with a line that tells its shape. Runs code of the library."""
    with exact("numpy"):  # arrays in cells
        source = source_of(type(value))(value)
        for size in _sizes(source):
            text = _text(source, *size)
            if len(text) <= CHARACTERS:
                break
    return "%s\n\n%s" % (source.title()[:TITLE], text[:CHARACTERS].rstrip("\n"))


def _sizes(source):
    """Rows, columns, and characters of a cell: first as code has set them, as far as there is room."""
    asked = source.asked()
    rows, columns, width = (set_ if set_ is not None else ours for set_, ours in zip(asked, (*SIZES[0], CELL)))
    width = max(2, min(width, CHARACTERS))
    columns = max(1, min(columns, CHARACTERS // _SHORTEST - source.left))
    shown = min(columns, source.shape[1]) + source.left
    rows = max(1, min(rows, CHARACTERS // (_SHORTEST * shown)))
    yield rows, columns, width
    for most in (rows * 3 // 4, rows // 2, rows // 4) if rows > SIZES[0][0] else ():
        yield most, columns, width
    for most_rows, most_columns in SIZES:
        yield min(rows, most_rows), min(columns, most_columns), width
    yield min(rows, 2), min(columns, 2), CELL


def _picked(n, most):
    """The numbers of the first and last ones."""
    if n <= most:
        return list(range(n)), []
    last = most // 4
    return list(range(most - last)), list(range(n - last, n))


def _text(source, most_rows, most_columns, width):
    rows, columns = source.shape
    left, right = _picked(columns, most_columns)
    before = source.left + len(left)
    gap = ["…"] if columns > most_columns else []

    def line(cells):
        return "| %s |\n" % " | ".join(_cut(cell, width) for cell in (*cells[:before], *gap, *cells[before:]))

    names = source.names
    lines = [line([*names[: source.left], *(names[source.left + i] for i in left + right)])]
    lines.append("| %s |\n" % " | ".join(["---"] * (before + len(gap) + len(right))))
    first, last = (range(min(rows, most_rows)), ()) if source.some else _picked(rows, most_rows)
    for numbers in first, last:
        if numbers:
            lines += map(line, source.rows(numbers[0], numbers[-1] + 1, left + right))
        if numbers is first and rows > most_rows:
            lines.append("| %s |\n" % " | ".join(["…"] * (before + len(gap) + len(right))))
    return "".join(lines)


def _cut(text, width):
    if len(text) > width:
        text = text[: width - 1] + "…"
    return text.replace("|", "\\|").replace("\r", " ").replace("\n", " ")
