"""What a run found, as text for a terminal and as the generated parts of docs/performance.md.

    bench/report.py FILE...      FILE is what run.py --json printed; with two, one of root, one of an ordinary user
"""


def number(value):
    return "-" if value is None else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ratio(value):
    if value is None:
        return ""
    return f"1/{1 / value:.0f}" if value < 0.1 else f"{value:.2f}x"


def text(found):
    lines = [found["machine"]["line"], f"{found['machine']['cloister']}; medians of {found['rounds']} "
             f"round{'s' if found['rounds'] > 1 else ''}, milliseconds unless told otherwise"
             + ("; quick: the figures mean little" if found["quick"] else ""), ""]
    rows = found["rows"]
    if rows:
        lines.append(f"{'row':18}{'median':>9}{'p95':>9}{'n':>6}  {'held against':16}{'ratio':>8}{'budget':>9}  verdict")
    for row in rows:
        if "missing" in row:
            lines.append(f"{row['name']:18}not there: {row['missing']}")
            continue
        unit = " MiB" if row["unit"] == "MiB" else ""
        lines.append(f"{row['name']:18}{number(row['median']):>9}{number(row['p95']):>9}{row['n']:>6}  "
                     f"{row.get('against') or unit.strip():16}{ratio(row.get('ratio')):>8}"
                     f"{row.get('budget_text', ''):>9}  {row.get('verdict', '')}".rstrip())
    for name, curve in found["growth"].items():
        lines += ["", f"{curve['title']} ({name})"]
        if curve["points"]:
            columns = [key for key in curve["points"][0] if key != "x"]
            widths = [max(10, len(column) + 2) for column in columns]
            lines.append(f"{curve['axis']:>26}" + "".join(f"{c:>{w}}" for c, w in zip(columns, widths)))
            for point in curve["points"]:
                lines.append(f"{point['x']:>26}" + "".join(f"{number(point[c]):>{w}}" for c, w in zip(columns, widths)))
        if "stopped" in curve:
            lines.append(f"stopped {curve['stopped']}")
    if rows:
        lines += ["", "Rows:"] + [f"  {row['name']:18}{row['title']}" for row in rows]
    return "\n".join(lines)
