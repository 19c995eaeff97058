#!/usr/bin/env python3
"""What a run found, as text for a terminal and as the generated parts of docs/performance.md.

    bench/report.py [--docs DIR] FILE...

FILE is what run.py --json or where.py --json printed, as root or as an ordinary user; of two files of one kind the later one
counts. The parts of docs/performance.md between marks and docs/performance-*.svg are regenerated; the same files give the
same bytes. A table has a column for each of the two users: name the files of both. A part that no file has data for stays
as it is.
"""
import argparse
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import plot
from rows import LEAN_ROWS

# Fresh sandboxes, for the plot.
FRESH = ("fork", "clone3", "floor-session", "fresh-pool", "fresh", "bwrap", "crun", "runc", "nspawn", "podman-crun",
         "podman-runc", "runsc", "jupyter", "pyodide")
LABELS = {"floor-session": "a CPython forked in C, same namespaces", "fresh": "Cloister: 1+1 in a session made for it",
          "fresh-pool": "Cloister: 1+1 in a session from the pool"}
FLOORS = ("fork", "clone3", "floor-session")


def number(value):
    return "-" if value is None else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ratio(value):
    if value is None:
        return ""
    return f"1/{1 / value:.0f}" if value < 0.1 else f"{value:.2f}x"


def unit_of(row):
    """"" for milliseconds."""
    return "" if row["unit"] == "ms" else " " + row["unit"]


def columns(curve):
    return [key for key in curve["points"][0] if key != "x"] if curve["points"] else []


# ---- for a terminal ----------------------------------------------------------------------------------------------


def row_text(row):
    if "missing" in row:
        return f"{row['name']:23}not there: {row['missing']}"
    unit = unit_of(row)
    return (f"{row['name']:23}{number(row['least']):>9}{number(row['median']):>9}{number(row['p95']):>9}{row['n']:>6}  "
            f"{row.get('against') or unit.strip():18}{ratio(row.get('ratio')):>8}"
            f"{row.get('budget_text', ''):>9}  {row.get('verdict', ''):8}{ratio(row.get('of_floor')):>9}"
            + (f"  threads of the kernel: {number(row['kernel'])}" if "kernel" in row else "")).rstrip()


def curve_text(name, curve):
    lines = ["", f"{curve['title']} ({name})"]
    widths = [max(10, len(column) + 2) for column in columns(curve)]
    lines.append(f"{curve['axis']:>26}" + "".join(f"{c:>{w}}" for c, w in zip(columns(curve), widths)))
    for point in curve["points"]:
        lines.append(f"{point['x']:>26}"
                     + "".join(f"{number(point[c]):>{w}}" for c, w in zip(columns(curve), widths)))
    if "stopped" in curve:
        lines.append(f"stopped {curve['stopped']}")
    return lines


def text(found):
    rounds = f"{found['rounds']} round{'s' if found['rounds'] > 1 else ''}"
    lines = [found["machine"]["line"], f"{found['machine']['cloister']}; medians of {rounds}, milliseconds unless noted "
             f"otherwise; load {found['load'][0]:.1f} to {found['load'][1]:.1f}" + ("; quick: the figures mean little" if found["quick"] else "")]
    rows = found["rows"]
    if rows:
        lines += ["", f"{'row':23}{'least':>9}{'median':>9}{'p95':>9}{'n':>6}  {'held against':18}{'ratio':>8}{'budget':>9}"
                  f"  {'verdict':8}{'of floor':>9}"]
        lines += map(row_text, rows)
    for name, curve in found["growth"].items():
        lines += curve_text(name, curve)
    if rows:
        lines += ["", "Rows:"] + [f"  {row['name']:23}{row['title']}" for row in rows]
    return "\n".join(lines)


# ---- for the page ------------------------------------------------------------------------------------------------


def escaped(words):
    return words.replace("|", "\\|")


# The two kinds of run that a table of the page has a column for.
SIDES = ("ordinary", "root")
PEER_NAMES = ("python", "bwrap", "podman-crun", "podman-runc", "crun", "runc", "runsc", "nspawn", "jupyter",
              "jupyter-warm", "pyodide", "pyodide-warm", "fork", "clone3")


def machine_lines(sides):
    """One line for each run that a table uses."""
    return [f"{found['machine']['line']}; {found['rounds']} rounds." for found in (sides[who] for who in SIDES if who in sides)]


def by_name(found):
    return {row["name"]: row for row in found["rows"]} if found else {}


def value(row):
    if not row:
        return "-"
    if "missing" in row:
        return "not here"
    return number(row["median"]) + unit_of(row)


def verdict(row):
    """The ratio to the row that this one is compared with, or `holds` where it is compared with a number."""
    if not row or "missing" in row:
        return "-"
    missed = row.get("verdict") == "missed"
    return (ratio(row.get("ratio")) or row.get("verdict", "")) + (", missed" if missed and row.get("ratio") else "")


def result_rows(sides):
    """The rows that have a budget: the values of an ordinary user and of root, and what they are compared with."""
    found = {who: by_name(sides.get(who)) for who in SIDES}
    lines = ["| row | what is timed | user, ms | ratio | root, ms | ratio | held against | budget |", "|---" * 8 + "|"]
    for name in dict.fromkeys(name for rows in found.values() for name in rows if name not in PEER_NAMES):
        rows = [found[who].get(name) for who in SIDES]
        known = [row for row in rows if row and row.get("budget_text")]
        if known:
            cells = " | ".join(f"{value(row)} | {verdict(row)}" for row in rows)
            lines.append(f"| {name} | {known[0]['title']} | {cells} | {known[0].get('against', '')} | {known[0]['budget_text']} |")
    return [*machine_lines(sides), "", *lines]


def lean_value(row):
    """With the part of the kernel's threads, which work for all processes of the machine, behind a plus."""
    if not row or "kernel" not in row:
        return value(row)
    return f"{number(row['median'] - row['kernel'])}+{number(row['kernel'])}"


def lean_rows(sides):
    """What a session costs: the values of an ordinary user and of root, and their ratios."""
    found = {who: by_name(sides.get(who)) for who in SIDES}
    lines = ["| row | user | ratio | root | ratio | held against |", "|---" * 6 + "|"]
    # The processor time of bursts is for a terminal only.
    for name in (row.name for row in LEAN_ROWS if not row.name.endswith("-cpu")):
        pair = [found[who].get(name) for who in SIDES]
        known = next((row for row in pair if row and "missing" not in row), None)
        if known:
            cells = " | ".join(f"{lean_value(row)} | {ratio(row.get('ratio')) if row else ''}" for row in pair)
            lines.append(f"| {name} | {cells} | {known.get('against') or known.get('budget_text', '')} |")
    loads = [f"{who}: load {found['load'][0]:.1f} to {found['load'][1]:.1f}, {found['rounds']} rounds" for who, found in sides.items()]
    return [f"{'; '.join(sorted(loads))}.", "", *lines]


def peer_rows(sides):
    found = {who: by_name(sides.get(who)) for who in SIDES}
    told = {peer["name"]: peer for who in SIDES if who in sides for peer in sides[who]["peers"]}
    lines = ["| row | | user, ms | root, ms | of bubblewrap | version |", "|---|---|---|---|---|---|"]
    for name in PEER_NAMES:
        rows = [found[who].get(name) for who in SIDES]
        known = [row for row in rows if row]
        if not known:
            continue
        peer = told.get(name) or told.get(name.split("-")[0]) or told.get("kernel") or {}
        ratios = ", ".join(ratio(row.get("ratio")) for row in known if row.get("ratio")) or "-"
        lines.append(f"| {name} | {known[0]['title']} | {value(rows[0])} | {value(rows[1])} | {ratios} | "
                     f"{escaped(peer.get('version') or '')} |")
    return lines


def grown(curve, column):
    """The first and the last value of a curve."""
    if not curve or not curve["points"]:
        return "-"
    first, last = (number(curve["points"][i].get(column)) for i in (0, -1))
    return f"{first} to {last}"


def growth_rows(sides):
    curves = {who: sides[who]["growth"] if who in sides else {} for who in SIDES}
    lines = ["| what grows | what is timed | user, ms | root, ms |", "|---|---|---|---|"]
    for name in dict.fromkeys(name for who in SIDES for name in curves[who]):
        pair = [curves[who].get(name) for who in SIDES]
        known = next(curve for curve in pair if curve)
        if not known["points"]:
            continue
        ends = f"{known['axis']}, {known['points'][0]['x']:,} to {known['points'][-1]['x']:,}"
        lines += [f"| {ends} | {column} | " + " | ".join(grown(curve, column) for curve in pair) + " |" for column in columns(known)]
    return lines


def where_rows(sides):
    ways = {who: sides[who]["ways"] if who in sides else {} for who in SIDES}
    lines = ["| | | user, us | root, us |", "|---|---|---|---|"]
    for name in dict.fromkeys(name for who in SIDES for name in ways[who]):
        pair = [ways[who].get(name, {"processes": {}}) for who in SIDES]
        walls = " | ".join(f"{way['wall_us']:.0f}" if "wall_us" in way else "-" for way in pair)
        lines.append(f"| {WAYS.get(name, name)} | wall time | {walls} |")
        for who in dict.fromkeys(who for way in pair for who in way["processes"]):
            took = " | ".join(f"{way['processes'][who]['cpu_us']:.1f}" if who in way["processes"] else "-" for way in pair)
            lines.append(f"| | CPU time of {who} | {took} |")
    return lines


WAYS = {"warm": "`1+1` in a living session", "tool": "a tool call to a minimal server in C",
        "fresh": "`1+1` in a session made for it, without the pool"}


def put(page, part, lines):
    """The page with the text between the marks of a part replaced."""
    begin, end = f"<!-- made by bench/report.py: {part} -->", f"<!-- end of {part} -->"
    if begin not in page or end not in page:
        raise SystemExit(f"report: docs/performance.md has no part '{part}'")
    body = "\n".join(lines)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n\n{body}\n\n{end}", page, flags=re.S)


def fresh_plot(found):
    known = {row["name"]: row for row in found["rows"] if "missing" not in row}
    rows = [(LABELS.get(name) or known[name]["title"].replace("`", ""), known[name]["median"],
             "ours" if name.startswith("fresh") else "floor" if name in FLOORS else "theirs")
            for name in FRESH if name in known]
    rows.sort(key=lambda row: row[1])
    return plot.bars("A fresh sandbox to its first result", found["machine"]["line"], rows)


def growth_plot(found):
    curves = [curve for curve in found["growth"].values() if len(curve["points"]) > 1]
    return plot.panels("How latency grows", found["machine"]["line"], curves)


def write(path, content):
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)


def sides_with(files, wanted):
    """{"root": the latest run as root that has the wanted rows or curves, "ordinary": …}."""
    return {"root" if found["machine"]["uid"] == 0 else "ordinary": found for found in files if wanted(found)}


def measured(*names):
    """Whether a run has all these rows."""
    return lambda found: "rows" in found and set(names) <= {row["name"] for row in found["rows"] if "missing" not in row}


def write_docs(docs, files):
    page_path = os.path.join(docs, "performance.md")
    with open(page_path, encoding="utf-8") as f:
        page = f.read()
    parts = {
        "results": (result_rows, sides_with(files, measured("warm"))),
        "peers": (peer_rows, sides_with(files, measured("bwrap", "fresh"))),
        "lean": (lean_rows, sides_with(files, measured("cost", "floor-least"))),
        "growth": (growth_rows, sides_with(files, lambda found: found.get("growth"))),
        "where": (where_rows, sides_with(files, lambda found: "ways" in found)),
    }
    for part, (make, sides) in parts.items():
        if sides:
            page = put(page, part, make(sides))
    for who, found in parts["peers"][1].items():
        write(os.path.join(docs, f"performance-fresh-{who}.svg"), fresh_plot(found))
    for who, found in parts["growth"][1].items():
        write(os.path.join(docs, f"performance-growth-{who}.svg"), growth_plot(found))
    write(page_path, page)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--docs", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs"))
    options = parser.parse_args()
    files = []
    for name in options.files:
        try:
            with open(name, encoding="utf-8") as f:
                files.append(json.load(f))
            assert isinstance(files[-1]["machine"]["uid"], int) and ("ways" in files[-1] or files[-1]["rows"] is not None)
        except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
            raise SystemExit(f"report: {name} is not what run.py --json prints: {error}") from None
    write_docs(options.docs, files)


if __name__ == "__main__":
    main()
