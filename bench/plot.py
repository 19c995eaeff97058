"""Plots as plain SVG text: bars and lines on logarithmic axes. The same figures give the same bytes."""
import math
from html import escape

INK, GRID, FAINT = "#222", "#ddd", "#777"
OURS, THEIRS, FLOOR = "#0b6e4f", "#9aa5b1", "#d08c2e"
LINES = ("#0b6e4f", "#c8553d", "#33658a", "#d08c2e", "#6d597a")


def svg(width, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def text(x, y, words, anchor="start", color=INK, size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def line(x1, y1, x2, y2, color=GRID, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def short(value):
    """Milliseconds with a readable unit."""
    if value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.3g} ms" if value >= 0.1 else f"{value * 1000:.3g} us"


def count(value):
    for size, name in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"


def decades(least, most):
    return range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)


def bars(title, subtitle, rows):
    """rows: (label, milliseconds, kind: ours, theirs or floor), drawn in their order."""
    left, width, step, top = 300, 860, 24, 62
    powers = decades(min(v for _, v, _ in rows), max(v for _, v, _ in rows))
    scale = (width - left - 80) / (powers[-1] - powers[0])
    height = top + step * len(rows) + 34
    bottom = height - 30
    parts = [text(16, 24, title, size=15, weight="bold"), text(16, 42, subtitle, color=FAINT)]
    for power in powers:
        x = left + (power - powers[0]) * scale
        parts += [line(x, top - 6, x, bottom), text(x, bottom + 16, short(10.0 ** power), "middle", FAINT, 11)]
    for i, (label, value, kind) in enumerate(rows):
        y = top + i * step
        length = max(1.0, (math.log10(value) - powers[0]) * scale)
        color = {"ours": OURS, "theirs": THEIRS, "floor": FLOOR}[kind]
        parts += [text(left - 8, y + 13, label, "end", weight="bold" if kind == "ours" else "normal"),
                  f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{step - 7}" fill="{color}"/>',
                  text(left + length + 5, y + 13, short(value), color=INK, size=11)]
    return svg(width, height, parts)


def panel(x0, y0, width, height, curve):
    """One growth curve: both axes logarithmic."""
    names = [name for name in curve["points"][0] if name != "x"]
    points = curve["points"]
    values = [p[n] for p in points for n in names]
    xs, ys = decades(points[0]["x"], points[-1]["x"]), decades(min(values), max(values))
    left, top, right, bottom = x0 + 56, y0 + 30, x0 + width - 14, y0 + height - 34 - 15 * len(names)
    across, up = (right - left) / max(1, xs[-1] - xs[0]), (bottom - top) / max(1, ys[-1] - ys[0])
    parts = [text(x0 + 8, y0 + 16, curve["title"], size=13, weight="bold")]
    for power in xs:
        x = left + (power - xs[0]) * across
        parts += [line(x, top, x, bottom), text(x, bottom + 14, count(10.0 ** power), "middle", FAINT, 10)]
    for power in ys:
        y = bottom - (power - ys[0]) * up
        parts += [line(left, y, right, y), text(left - 5, y + 4, short(10.0 ** power), "end", FAINT, 10)]
    parts.append(text((left + right) / 2, bottom + 27, curve["axis"], "middle", FAINT, 10))
    for i, name in enumerate(names):
        color = LINES[i % len(LINES)]
        dots = [(left + (math.log10(p["x"]) - xs[0]) * across, bottom - (math.log10(p[name]) - ys[0]) * up)
                for p in points]
        parts.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (
            color, " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in dots]
        y = bottom + 42 + 15 * i
        parts += [line(left, y - 4, left + 18, y - 4, color, 2), text(left + 24, y, name, size=11)]
    return parts


def panels(title, subtitle, curves):
    """All curves, two in a row."""
    width, height = 430, 330
    rows = (len(curves) + 1) // 2
    parts = [text(16, 24, title, size=15, weight="bold"), text(16, 42, subtitle, color=FAINT)]
    for i, curve in enumerate(curves):
        parts += panel(i % 2 * width, 54 + i // 2 * height, width, height, curve)
    return svg(2 * width, 54 + rows * height + 6, parts)
