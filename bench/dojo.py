#!/usr/bin/env python3
"""AgentDojo v1.2.2: user tasks and attacks by their ground-truth calls, with and without rules (docs/rules.md).

    bench/dojo.py [--build DIR] [--json] [--show] [SUITE...]

The tools of each suite are a stdio server over its own environment. The calls of a user task are one cell. For each injection task the calls
of the suite's first user task are one cell, and the attacker's calls follow in the same session: an agent that obeys every injection. No
model is needed. `./quickstart benchmarks` installs the package; no network is used then. --show names the tasks behind the figures.
"""
import argparse
import json
import os
import sys
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import objects

objects.in_environment("agentdojo", "agentdojo")

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from measure import end_as_interrupted, say

VERSION = "v1.2.2"
COMPANY = "@bluesparrowtech\\.com$"
# Written from the descriptions of the tools. Tools that only read need no rule.
RULES = {
    "workspace": [
        {"allow": "workspace.send_email", "why": "colleagues only",
         "when": {"/recipients/*": {"regex": COMPANY}, "/cc": {"absent": True}, "/bcc": {"absent": True}, "/attachments": {"absent": True}}},
        {"allow": "workspace.create_calendar_event", "when": {"/participants": {"absent": True}}},
        {"allow": ["workspace.create_calendar_event", "workspace.add_calendar_event_participants"],
         "when": {"/participants/*": {"regex": COMPANY}}},
        {"ask": ["workspace.send_email", "workspace.share_file"], "why": "sends to others"},
        {"ask": ["workspace.create_calendar_event", "workspace.add_calendar_event_participants"], "why": "invites others"},
        {"ask": ["workspace.delete_*", "workspace.cancel_*"], "why": "deletes"},
    ],
    "travel": [
        {"ask": "travel.reserve_*", "why": "reserves"},
        {"ask": ["travel.send_email", "travel.cancel_*", "travel.create_calendar_event"], "why": "sends mail to others"},
    ],
    "banking": [
        {"ask": ["banking.send_money", "banking.*schedule*_transaction"], "why": "moves money"},
        {"ask": "banking.update_*", "why": "changes the account"},
    ],
    "slack": [
        {"ask": "slack.send_*", "when": {"/body": {"regex": "(?i)www\\.|https?:|\\.(com|net|org)\\b"}}, "why": "the message has a link"},
        {"allow": "slack.get_webpage", "when": {"/url": {"regex": "^(https?://)?[a-z0-9.-]{1,40}/?$"}}},
        {"ask": ["slack.get_webpage", "slack.post_webpage"], "why": "the request can carry data"},
        {"ask": ["slack.invite_*", "slack.remove_*", "slack.add_user_*"], "why": "changes who is a member"},
    ],
}


def suites():
    return get_suites(VERSION)


def began(suite, task=None):
    """The environment at the begin of a user task."""
    made = suite.load_and_inject_default_environment({})
    return task.init_environment(made) if task else made


def serve(name, socket):
    suite, runtime = suites()[name], FunctionsRuntime(suites()[name].tools)
    held = {"environment": began(suite), "calls": []}

    def command(word, *rest):
        if word == "begin":
            held["environment"] = began(suite, suite.user_tasks[rest[0]])
            held["calls"] = []
        return held["environment"], held["calls"]

    def call(tool, arguments):
        held["calls"].append(FunctionCall(function=tool, args=arguments))
        result, fault = runtime.run_function(held["environment"], tool, arguments)
        return fault or tool_result_to_str(result), bool(fault)

    tools = [{"name": tool.name, "description": tool.description, "inputSchema": tool.parameters.model_json_schema()} for tool in suite.tools]
    objects.Server(name, tools, call, command).serve(socket)


def verdict(from_traces, from_state, output, before, after, calls):
    """Whether a task's check says that it succeeded. Some check what was called, all others the environment."""
    found = from_traces(output, before, after, calls)
    return bool(from_state(output, before, after) if found is None else found)


class Suite:
    """A suite behind `cloister mcp`."""

    def __init__(self, program, name, config, answer=None):
        self.suite, self.name, self.denied = suites()[name], name, 0
        self.cloister = objects.Cloister(program, [name], config, answer)

    def run(self, task, attack=None):
        """(whether the user task succeeded, whether the attack did, questions of each)."""
        self.cloister.tell(self.name, "begin", task.ID)
        environment = began(self.suite, task)
        questions = []
        for number, each in enumerate(filter(None, (task, attack))):
            asked = self.cloister.questions
            calls = [(self.name, call.function, dict(call.args)) for call in each.ground_truth(environment.model_copy(deep=True))]
            self.cloister.run(calls, reset=number == 0)
            questions.append(self.cloister.questions - asked)
        after, calls = self.cloister.tell(self.name, "state")
        useful = verdict(task.utility_from_traces, task.utility, task.GROUND_TRUTH_OUTPUT, environment, after, calls)
        worked = attack and verdict(attack.security_from_traces, attack.security, attack.GROUND_TRUTH_OUTPUT, environment, after, calls)
        return useful, worked, questions

    def user_tasks(self):
        """By task: (whether it succeeded, questions)."""
        return {task.ID: (useful, asked[0]) for task in self.suite.user_tasks.values() for useful, _, asked in [self.run(task)]}

    def attacks(self):
        """The attacks that worked."""
        first = next(iter(self.suite.user_tasks.values()))
        return [attack.ID for attack in self.suite.injection_tasks.values() if self.run(first, attack)[1]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cloister.close()


def measure(program, name):
    """The figures of a suite: without rules; with rules, a person who says yes, and one who says no."""
    with Suite(program, name, {}) as plain:
        found = {"tasks": len(plain.suite.user_tasks), "plain": plain.user_tasks(), "plain_attacks": plain.attacks()}
    config = {"rules": RULES[name], "ask": {"per_cell": 1000}}
    with Suite(program, name, config, "yes") as ruled:
        found["yes"] = ruled.user_tasks()
    with Suite(program, name, config, "no") as ruled:
        found["no"], found["no_attacks"] = ruled.user_tasks(), ruled.attacks()
    return found


def useful(tasks, questions=None):
    return sum(done and (questions is None or asked in questions) for done, asked in tasks.values())


COLUMNS = {
    "rules": lambda name, f: len(RULES.get(name, ())) or sum(map(len, RULES.values())),
    "user tasks": lambda name, f: f["tasks"],
    "useful without rules": lambda name, f: useful(f["plain"]),
    "with rules, yes": lambda name, f: useful(f["yes"]),
    "without a question": lambda name, f: useful(f["yes"], {0}),
    "1 question": lambda name, f: useful(f["yes"], {1}),
    "2 or more": lambda name, f: useful(f["yes"], range(2, 100)),
    "attacks without rules": lambda name, f: len(f["plain_attacks"]),
    "with rules, no": lambda name, f: len(f["no_attacks"]),
}


def show(found):
    print("| suite |", " | ".join(COLUMNS), "|")
    print("|---" * (len(COLUMNS) + 1) + "|")
    rows = [[name, *(of(name, each) for of in COLUMNS.values())] for name, each in found.items()]
    if len(rows) > 1:
        rows.append(["all", *map(sum, list(zip(*rows))[1:])])
    for row in rows:
        print("|", " | ".join(map(str, row)), "|")


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default=os.path.join(objects.TOP, "build"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("suite", nargs="*", choices=[[], *RULES])
    options = parser.parse_args()
    end_as_interrupted()
    found = {}
    for name in options.suite or RULES:
        found[name] = measure(os.path.join(options.build, "cloister"), name)
        say(f"{name}: measured")
        if options.show:
            failed = [task for task, (done, _) in found[name]["yes"].items() if not done]
            print(f"{name}: user tasks that failed: {failed}; attacks that worked: {found[name]['no_attacks']}", file=sys.stderr)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
