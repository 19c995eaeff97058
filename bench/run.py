#!/usr/bin/env python3
"""Measures Cloister beside other ways to an isolated Python, all in one run and alternating round by round.

    bench/run.py [--json] [--rounds N] [--quick] [--build DIR] [ROW...]

Rows are named as the table names them; "own" is all of Cloister's but those of "lean", what a session costs, "all" those and
the peers, "here" those that need nothing but what is installed, without those of container images; "growth" is how latency grows with tools, memory, results and parallel calls,
and each of its curves has a name too. Budgets are verdicts in what is printed; the exit status is 0 when the run could
be made.
"""
import argparse
import contextlib
import difflib
import json
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import growth
import peers
import report
from lean import KERNEL
from measure import HERE, Bench, Failure, end_as_interrupted, machine, pinned, say, summary
from rows import LEAN_ROWS, MEASURES, ROWS, SELDOM, Measures

TOP = os.path.dirname(HERE)


def places(options):
    """(the program, the folder of bench-ping and the other programs)."""
    if options.cloister:
        return options.cloister, HERE
    build = os.path.abspath(options.build or (TOP if os.path.exists(os.path.join(HERE, "bench-ping"))
                                              else os.path.join(TOP, "build")))
    return os.path.join(build, "cloister"), os.path.join(build, "bench")


def node_modules():
    """In the source tree, or in the build directory that contains this file."""
    places = [os.path.join(TOP, *parts, "node", "node_modules") for parts in (("build",), ())]
    return next((path for path in places if os.path.isdir(path)), places[0])


OWN = [row.name for row in ROWS]
LEAN = [*(row.name for row in LEAN_ROWS), "memory-plain"]
TABLE = (*ROWS, *LEAN_ROWS)
PEERS = [name for peer in peers.ALL for name in peers.names(peer)]


def here(bench):
    """The rows that need no package of a registry: those with budgets, and peers that are installed."""
    there = {name for peer in peers.ALL for name in peers.names(peer) if not peer(bench).why}
    return {name for name in OWN if not name.endswith("-everything") and not name.startswith("oci")} | {"bwrap", "python"} | there


def chosen(names, bench):
    """(rows to measure, including those that they are compared with; curves)."""
    wanted, curves = set(), []
    for name in names:
        if name == "growth":
            curves += growth.ALL
        elif name in growth.ALL:
            curves.append(name)
        elif name in ("all", "own", "here", "lean"):
            wanted |= {"all": set(OWN + PEERS), "own": set(OWN), "here": here(bench), "lean": set(LEAN)}[name]
        elif name in OWN + PEERS + LEAN:
            wanted.add(name)
        else:
            near = difflib.get_close_matches(name, [*OWN, *PEERS, *LEAN, *growth.ALL], 1)
            raise Unknown(f"no row is named '{name}'" + (f": did you mean '{near[0]}'?" if near else
                          f"; there are {', '.join([*OWN, *PEERS, *LEAN, *growth.ALL])}, own, lean, all and growth"))
    for row in TABLE:
        if row.name in wanted:
            wanted |= {other for other in (row.against, row.floor) if other}
    return wanted, curves


class Unknown(Failure):
    """Reports a name that no row has."""


class Run:
    """One run: the measured values, and the rows that failed, with the reason."""

    def __init__(self, bench, wanted, rounds, quick):
        self.bench, self.wanted, self.rounds, self.quick = bench, wanted, rounds, quick
        self.values, self.missing = {}, {}
        self.peers = [peer(bench) for peer in peers.ALL if wanted & set(peers.names(peer))]
        for peer in self.peers:
            if peer.why:
                self.drop(peers.names(peer), peer.why)

    def drop(self, names, why):
        for name in names:
            if name in self.wanted and name not in self.missing:
                self.missing[name] = why
                say(f"{name}: {why}")

    def one(self, names, measure):
        """One round of one measure. A measure that failed is not repeated."""
        if not self.wanted & set(names) or set(names) & set(self.missing):
            return
        try:
            for name, values in measure().items():
                self.values.setdefault(name, []).extend(values)
        except (Failure, OSError, ValueError) as error:
            self.drop(names, str(error))

    def measure(self):
        own = Measures(self.bench, self.quick)
        began = time.monotonic()
        try:
            for i in range(self.rounds):
                for name, names, one_cpu in MEASURES:
                    if i < SELDOM.get(name, self.rounds):
                        with pinned() if one_cpu else contextlib.nullcontext():
                            self.one(names, getattr(own, name))
                for peer in self.peers:
                    self.one(peers.names(peer), lambda peer=peer: peer.round(self.quick))
                if time.monotonic() - began > 10 or i + 1 == self.rounds:
                    say(f"round {i + 1} of {self.rounds}")
        finally:
            own.close()

    def rows(self):
        found = []
        titles = {name: title for peer in self.peers for name, title in peer.rows}
        table = [row for row in TABLE if row.name in self.wanted]
        for row in table:
            found.append(self.row(row.name, row.title, row))
        for name in titles:
            if name in self.wanted:
                found.append(self.row(name, titles[name], None))
        return found

    def row(self, name, title, row):
        entry = {"name": name, "title": title, "unit": row.unit if row else "ms",
                 "one_cpu": any(name in names for _, names, one_cpu in MEASURES if one_cpu)}
        if name in self.missing or name not in self.values:
            return {**entry, "missing": self.missing.get(name, "not measured")}
        entry.update(summary(self.values[name]))
        if name + KERNEL in self.values:
            entry["kernel"] = summary(self.values[name + KERNEL])["median"]
        if name not in self.values or not row:
            if "bwrap" in self.values and name != "bwrap":
                entry.update(against="bwrap", ratio=entry["median"] / summary(self.values["bwrap"])["median"])
            return entry
        entry.update(budget=row.budget, budget_text=row.budget_text, where=row.where)
        measured = None if row.unit == "ms" else entry["median"]
        if row.against and row.against in self.values:
            measured = entry["median"] / summary(self.values[row.against])["median"]
            entry.update(against=row.against, ratio=measured)
        if row.floor in self.values:
            entry.update(floor=row.floor, of_floor=entry["median"] / summary(self.values[row.floor])["median"])
        if row.budget is not None and measured is not None:
            entry["verdict"] = "holds" if measured <= row.budget else "missed"
        return entry

    def told_peers(self):
        return [{"name": peer.name, "title": peer.title, "version": peer.version, "options": peer.options,
                 "missing": next((self.missing[n] for n in peers.names(peer) if n in self.missing), None)}
                for peer in self.peers]


def positive(text):
    if not text.isdecimal() or not 1 <= int(text) <= 10000:
        raise argparse.ArgumentTypeError(f"{text}: a number from 1 to 10000 is needed")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"bench: {message}", file=sys.stderr)
        sys.exit(2)


def parse(arguments):
    parser = Parser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="what to measure (all)")
    parser.add_argument("--rounds", type=positive, metavar="N", help="rounds (10; with --quick, 1)")
    parser.add_argument("--quick", action="store_true", help="few calls: to see that it works, not how fast")
    parser.add_argument("--json", action="store_true", help="all that was found, for programs")
    parser.add_argument("--build", metavar="DIR", help="the build directory (build)")
    parser.add_argument("--cloister", metavar="PATH", help="an installed program, instead of a build's")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def opened(options):
    """A Bench of the build or the installation that the options name."""
    cloister, programs = places(options)
    for path in (cloister, os.path.join(programs, "bench-ping")):
        if not os.access(path, os.X_OK):
            raise Failure(f"{path} is not there: build first")
    with tempfile.TemporaryDirectory(prefix="cloister-bench-") as work:
        yield Bench(os.path.abspath(cloister), programs, node_modules(), work)


def run(options):
    with opened(options) as bench:
        wanted, curves = chosen(options.rows or ["all"], bench)
        rounds = options.rounds or (1 if options.quick else 10)
        bench.warm_up()
        made = Run(bench, wanted, rounds, options.quick)
        load = os.getloadavg()[0]
        if wanted:
            made.measure()
        grown = {name: growth.measure(bench, name, options.quick) for name in curves}
        return {"machine": machine(bench), "load": [load, os.getloadavg()[0]], "rounds": rounds, "quick": options.quick, "rows": made.rows(),
                "peers": made.told_peers(), "growth": grown}


def main():
    options = parse(sys.argv[1:])
    end_as_interrupted()
    try:
        found = run(options)
    except Failure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, Unknown) else 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    else:
        print(report.text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
