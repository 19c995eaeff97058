#!/usr/bin/env python3
"""What a run found, as text for a terminal and as the generated parts of docs/performance.md.

    bench/report.py [--docs DIR] FILE...

FILE is what run.py --json or where.py --json printed, of root or of an ordinary user; the later of a kind counts. The parts of
docs/performance.md between marks, and docs/performance-*.svg, are written anew; the same files give the same bytes.
A part that no file has anything for stays as it is.
"""
import argparse
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import plot

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


def columns(curve):
    return [key for key in curve["points"][0] if key != "x"] if curve["points"] else []


# ---- for a terminal ----------------------------------------------------------------------------------------------


def row_text(row):
    if "missing" in row:
        return f"{row['name']:23}not there: {row['missing']}"
    unit = " MiB" if row["unit"] == "MiB" else ""
    return (f"{row['name']:23}{number(row['least']):>9}{number(row['median']):>9}{number(row['p95']):>9}{row['n']:>6}  "
            f"{row.get('against') or unit.strip():18}{ratio(row.get('ratio')):>8}"
            f"{row.get('budget_text', ''):>9}  {row.get('verdict', ''):8}{ratio(row.get('of_floor')):>9}").rstrip()


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
    lines = [found["machine"]["line"], f"{found['machine']['cloister']}; medians of {rounds}, milliseconds unless told "
             "otherwise" + ("; quick: the figures mean little" if found["quick"] else "")]
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


def budget_rows(found):
    """The rows that have a budget, with what they are held against."""
    by_name = {row["name"]: row for row in found["rows"]}
    lines = ["| row | | ms | p95 | held against | ms | ratio | budget | | floor | ms | ratio |", "|---" * 12 + "|"]
    for row in found["rows"]:
        if row["name"] in ("fork", "clone3") or not row.get("budget_text") and "missing" not in row:
            continue
        if "missing" in row:
            if row["name"] not in PEER_NAMES:
                lines.append(f"| {row['name']} | {row['title']} | not measured: {escaped(row['missing'])} | | | | | | | | | |")
            continue
        other, floor = by_name.get(row.get("against"), {}), by_name.get(row.get("floor"), {})
        unit = " MiB" if row["unit"] == "MiB" else ""
        lines.append(f"| {row['name']} | {row['title']} | {number(row['median'])}{unit} | {number(row['p95'])}{unit} | "
                     f"{row.get('against', '')} | {number(other['median']) if other else ''} | "
                     f"{ratio(row.get('ratio'))} | {row['budget_text']} | {row.get('verdict', '')} | "
                     f"{row.get('floor', '')} | {number(floor['median']) if floor else ''} | "
                     f"{ratio(row.get('of_floor'))} |")
    return [found["machine"]["line"] + f"; {found['rounds']} rounds.", "", *lines]


PEER_NAMES = ("python", "bwrap", "podman-crun", "podman-runc", "crun", "runc", "runsc", "nspawn", "jupyter",
              "jupyter-warm", "pyodide", "pyodide-warm", "fork", "clone3")


def peer_rows(found):
    by_name = {row["name"]: row for row in found["rows"]}
    lines = ["| row | | ms | p95 | of bubblewrap | fresh session | version, options |", "|---|---|---|---|---|---|---|"]
    fresh = by_name.get("fresh", {}).get("median")
    told = {peer["name"]: peer for peer in found["peers"]}
    for name in PEER_NAMES:
        row = by_name.get(name)
        if not row:
            continue
        peer = told.get(name) or told.get(name.split("-")[0]) or told.get("kernel")
        about = escaped("; ".join(words for words in (peer["version"], peer["options"]) if words)) if peer else ""
        if "missing" in row:
            lines.append(f"| {name} | {row['title']} | not here: {escaped(row['missing'])} | | | | {about} |")
            continue
        share = f"{row['median'] / fresh:.2f}x" if fresh else ""
        lines.append(f"| {name} | {row['title']} | {number(row['median'])} | {number(row['p95'])} | "
                     f"{ratio(row.get('ratio')) or '1'} | {share} | {about} |")
    return [found["machine"]["line"] + f"; {found['rounds']} rounds.", "", *lines]


def growth_tables(found):
    lines = [found["machine"]["line"] + ". Milliseconds, medians.", ""]
    for curve in found["growth"].values():
        lines += [f"**{curve['title']}**", "", f"| {curve['axis']} | " + " | ".join(columns(curve)) + " |",
                  "|---" * (len(columns(curve)) + 1) + "|"]
        lines += [f"| {point['x']:,} | " + " | ".join(number(point[c]) for c in columns(curve)) + " |"
                  for point in curve["points"]]
        lines += [f"Stopped {curve['stopped']}"] if "stopped" in curve else []
        lines.append("")
    return lines[:-1]


def where_tables(found):
    lines = [found["machine"]["line"] + ".", "", "| | wall time, us | CPU time in all, us | process | us | turns on a CPU |",
             "|---|---|---|---|---|---|"]
    for name, way in found["ways"].items():
        total = sum(process["cpu_us"] for process in way["processes"].values())
        head = f"{WAYS.get(name, name)} | {way['wall_us']:.0f} | {total:.0f}"
        for who, process in way["processes"].items():
            lines.append(f"| {head} | {who} | {process['cpu_us']:.1f} | {process['turns']:.2f} |")
            head = " | | "
    return lines


WAYS = {"warm": "`1+1` in a living session", "tool": "a tool call to a minimal server in C",
        "fresh": "`1+1` in a session made for it, without the pool"}


def put(page, part, lines):
    """The page with what is between the marks of a part replaced."""
    begin, end = f"<!-- made by bench/report.py: {part} -->", f"<!-- end of {part} -->"
    if begin not in page or end not in page:
        raise SystemExit(f"report: docs/performance.md has no part '{part}'")
    body = "\n".join(lines)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n\n{body}\n\n{end}", page, flags=re.S)


def fresh_plot(found):
    by_name = {row["name"]: row for row in found["rows"] if "missing" not in row}
    rows = [(LABELS.get(name) or by_name[name]["title"].replace("`", ""), by_name[name]["median"],
             "ours" if name.startswith("fresh") else "floor" if name in FLOORS else "theirs")
            for name in FRESH if name in by_name]
    rows.sort(key=lambda row: row[1])
    return plot.bars("A fresh sandbox to its first result", found["machine"]["line"], rows)


def growth_plot(found):
    curves = [curve for curve in found["growth"].values() if len(curve["points"]) > 1]
    return plot.panels("How latency grows", found["machine"]["line"], curves)


def write(path, content):
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)


def write_docs(docs, files):
    page_path = os.path.join(docs, "performance.md")
    with open(page_path, encoding="utf-8") as f:
        page = f.read()
    for found in files:
        who = "root" if found["machine"]["uid"] == 0 else "ordinary"
        if "ways" in found:
            page = put(page, f"where as {who}", where_tables(found))
            continue
        names = {row["name"] for row in found["rows"] if "missing" not in row}
        if "warm" in names:
            page = put(page, f"rows as {who}", budget_rows(found))
        if names & {"bwrap"} and names & {"fresh"}:
            page = put(page, f"peers as {who}", peer_rows(found))
            write(os.path.join(docs, f"performance-fresh-{who}.svg"), fresh_plot(found))
        if found["growth"]:
            page = put(page, f"growth as {who}", growth_tables(found))
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
