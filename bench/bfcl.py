#!/usr/bin/env python3
"""BFCL v4 multi-turn: the ground-truth calls of each turn as one cell, held against the same calls made directly (docs/performance.md).

    bench/bfcl.py [--build DIR] [--tasks N] [--json] [CATEGORY...]

The API classes of the benchmark are stdio servers. A task succeeds if each call reached its
server, and the state of the classes at the end is that of a direct execution.
--tasks: the first N of each category. `./quickstart benchmarks` installs the package; no network is used then.
"""
import argparse
import ast
import copy
import importlib
import inspect
import json
import os
import sys
import time
from importlib.resources import files

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import objects

objects.in_environment("bfcl", "bfcl_eval")

from bfcl_eval.constants import executable_backend_config as backend
from measure import end_as_interrupted, say

CATEGORIES = ("base", "long_context", "miss_func", "miss_param")
NAMES = list(backend.CLASS_FILE_PATH_MAPPING)[:8]
# Of the parameter that a task gives a value of another type than its description says: a string, not an integer.
UNTYPED = ("close_ticket", "ticket_id")
JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def class_of(name):
    return getattr(importlib.import_module(backend.CLASS_FILE_PATH_MAPPING[name]), name)


def fresh(name, task):
    """The object of a class at the begin of a task."""
    made = class_of(name)()
    if name not in backend.STATELESS_CLASSES:
        # pylint: disable-next=protected-access
        made._load_scenario(copy.deepcopy(task["initial_config"].get(name, {})), long_context="long_context" in task["id"])
    return made


def state(made):
    return {name: value for name, value in vars(made).items() if not name.startswith("_")}


def execute(made, method, arguments):
    """(text, whether it failed)."""
    try:
        return json.dumps(getattr(made, method)(**arguments), default=str), False
    except Exception as error:  # pylint: disable=broad-exception-caught
        return str(error), True


def schema(part):
    """The JSON Schema of a parameter, from the benchmark's description."""
    if not isinstance(part, dict):
        return part
    made = {key: value for key, value in part.items() if key in ("description", "enum", "required")}
    kind = JSON_TYPES.get(part.get("type"), part.get("type"))
    if kind:
        made["type"] = kind
    if "properties" in part:
        made["properties"] = {name: schema(value) for name, value in part["properties"].items()}
    if "items" in part:
        made["items"] = schema(part["items"])
    return made


def described(tool):
    """A tool as tools/list has it."""
    made = schema(tool["parameters"])
    if tool["name"] == UNTYPED[0]:
        del made["properties"][UNTYPED[1]]["type"]
    return {"name": tool["name"], "description": tool["description"], "inputSchema": made}


def read(name):
    with (files("bfcl_eval") / "data" / name).open(encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def serve(name, socket):
    held = {}

    def command(word, *task):
        if word == "begin":
            held.update(object=fresh(name, task[0]), calls=0)
        return held["calls"], state(held["object"])

    def call(tool, arguments):
        held["calls"] += 1
        return execute(held["object"], tool, arguments)

    tools = [described(tool) for tool in read(f"multi_turn_func_doc/{backend.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]}")]
    objects.Server(name, tools, call, command).serve(socket)


def parsed(text, methods):
    """(class, method, arguments by name) of a call that is written as Python."""
    call = ast.parse(text, mode="eval").body
    name, function = methods[call.func.id]
    given = [ast.literal_eval(value) for value in call.args]
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    return name, call.func.id, dict(zip(list(inspect.signature(function).parameters)[1:], given)) | named


class Totals(dict):
    """Counts of a category: tasks, turns, calls, equal, seconds and direct (seconds)."""

    def add(self, **counts):
        for name, count in counts.items():
            self[name] = self.get(name, 0) + count


def run_task(cloister, task, turns, totals):
    classes = task["involved_classes"]
    direct = {name: fresh(name, task) for name in classes}
    began = time.perf_counter()
    for calls in turns:
        for name, method, arguments in calls:
            execute(direct[name], method, copy.deepcopy(arguments))
    totals.add(direct=time.perf_counter() - began)
    for name in classes:
        cloister.tell(name, "begin", task)
    began = time.perf_counter()
    for number, calls in enumerate(turns):
        cloister.run(calls, reset=number == 0)
    totals.add(seconds=time.perf_counter() - began)
    made = {name: sum(call[0] == name for turn in turns for call in turn) for name in classes}
    different = [name for name in classes if cloister.tell(name, "state") != (made[name], state(direct[name]))]
    if different:
        say(f"{task['id']}: the state of {', '.join(different)} differs")
    totals.add(tasks=1, turns=len(turns), calls=sum(map(len, turns)), equal=not different)


def run(program, categories, most):
    methods = {method: (name, function) for name in NAMES
               for method, function in inspect.getmembers(class_of(name), predicate=inspect.isfunction) if not method.startswith("_")}
    found = {}
    with objects.Cloister(program, NAMES, {"sessions": 16}) as cloister:
        for category in categories:
            totals = found[category] = Totals()
            answers = read(f"possible_answer/BFCL_v4_multi_turn_{category}.json")
            for task, answer in list(zip(read(f"BFCL_v4_multi_turn_{category}.json"), answers))[:most]:
                run_task(cloister, task, [[parsed(text, methods) for text in turn] for turn in answer["ground_truth"]], totals)
            say(f"{category}: {totals['equal']} of {totals['tasks']} tasks are equal")
    return found


def show(found):
    print("| category | tasks | turns | calls | equal state | calls/s | direct, calls/s |\n|---|---|---|---|---|---|---|")
    total = Totals()
    for totals in found.values():
        total.add(**totals)
    for name, t in {**found, "all": total}.items():
        print(f"| {name} | {t['tasks']} | {t['turns']:,} | {t['calls']:,} | {t['equal']} | {t['calls'] / t['seconds']:,.0f} | "
              f"{t['calls'] / t['direct']:,.0f} |")
    return total["equal"] == total["tasks"]


def main():
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default=os.path.join(objects.TOP, "build"))
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("category", nargs="*", choices=[[], *CATEGORIES])
    options = parser.parse_args()
    end_as_interrupted()
    found = run(os.path.join(options.build, "cloister"), options.category or CATEGORIES, options.tasks)
    if options.json:
        print(json.dumps(found))
        return 0
    return 0 if show(found) else 1


if __name__ == "__main__":
    sys.exit(main())
