"""Random cells with deaths, rollbacks, undo(), checkpoints, restores and branches, compared with a model of the expected state."""

import copy
import os
import random
import time

import harness
from test_state import State

NAMES = "abcde"
FILES = "pqr"
CHECKPOINTS = ("one", "two", "three")
QUICK = ("exit", "kill", "segv", "abort", "channel", "exec")
SLOW = ("deadline", "bomb", "stop") + harness.BOUNDED * ("oom",)
LOOK = (
    "import os\n{'variables': {n: globals()[n] for n in %r if n in globals()}, 'files': {n: open('/workspace/' + n).read() for n in %r if os.path.exists('/workspace/' + n)}}"
    % (NAMES, FILES)
)


class Model:
    def __init__(self):
        self.variables, self.files, self.checkpoints = {}, {}, {}

    def branch(self, variables):
        made = Model()
        made.variables, made.files = copy.deepcopy(variables), dict(self.files)
        return made


class RandomState(State):
    CONFIG = {**State.CONFIG, "limits": {"memory": "256M", "pids": 64}}

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("CLOISTER_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {self.seed}", flush=True)
        self.rng = random.Random(self.seed)
        self.step, self.log, self.branches = 0, [], 0

    def change(self, model):
        """Returns code that changes something, and the expected result: (code, variables, files)."""
        variables, files = copy.deepcopy(model.variables), dict(model.files)
        name, value, file = self.rng.choice(NAMES), self.rng.randrange(1000), self.rng.choice(FILES)
        code = ""
        if name in variables and self.rng.random() < 0.3:
            code += f"del {name}\n"
            del variables[name]
        elif isinstance(variables.get(name), list) and self.rng.random() < 0.5:
            code += f"{name}.append({value})\n"
            variables[name].append(value)
        else:
            variables[name] = [value] if self.rng.random() < 0.3 else value
            code += f"{name} = {variables[name]!r}\n"
        if file in files and self.rng.random() < 0.3:
            code += f"import os; os.unlink('/workspace/{file}')\n"
            del files[file]
        elif self.rng.random() < 0.5:
            files[file] = str(value) * self.rng.randrange(1, 50)
            code += f"with open('/workspace/{file}', 'w') as f: _ = f.write({files[file]!r})\n"
        return code, variables, files

    def note(self, what, cell=None):
        self.log.append((self.step, what))
        if "CLOISTER_TEST_SEED" in os.environ:
            print(self.step, what, flush=True)
        return (self.seed, self.step, self.log[-8:], cell)

    def kept(self, code, **arguments):
        """Runs a cell and waits for the copy of its state. A branch continues the cell numbers of its origin."""
        cell = self.ok(code, **arguments)
        listed = {}

        def is_kept():
            listed.update(self.listed(arguments.get("session")))
            return listed.get("copy_of_cell") == cell["receipt"]["cell"]

        self.assertTrue(harness.wait_until(is_kept, step=0.05), self.note("no copy", listed))
        return cell

    def check(self, session, model):
        """Its copy is of this state afterwards."""
        got = self.kept(LOOK, session=session)["value"]["json"]
        self.assertEqual(got, {"variables": model.variables, "files": model.files}, self.note("check " + session))

    # ---- what can happen; each returns when the session is as the model says ----

    def cell_ends_well(self, session, model):
        code, variables, files = self.change(model)
        self.ok(code, session=session)
        model.variables, model.files = variables, files

    def cell_raises(self, session, model):
        code, variables, files = self.change(model)
        cell = self.cell(code + "1 / 0", session=session)
        self.assertEqual((cell["status"], cell["state"]), ("error", "kept"), self.note("raise", cell))
        model.variables, model.files = variables, files

    def cell_dies(self, session, model):
        code, _, files = self.change(model)
        death = self.rng.choice(SLOW if self.rng.random() < 0.05 else QUICK)
        cell = self.start_to_die(death, before=code, session=session)()
        self.assertEqual(cell["state"], "restored", self.note(death, cell))
        model.files = files

    def cell_is_undone(self, session, model):
        code, _, files = self.change(model)
        cell = self.cell(code + "undo()", session=session)
        self.assertEqual((cell["status"], cell["state"]), ("ok", "restored"), self.note("undo", cell))
        model.files = files

    def cell_is_rolled_back(self, session, model):
        code, _, _ = self.change(model)
        end = self.rng.choice(("1 / 0", "undo()", *QUICK))
        if end in QUICK:
            cell = self.start_to_die(end, before=code, session=session, on_error="rollback")()
        else:
            cell = self.cell(code + end, session=session, on_error="rollback")
        self.assertEqual(cell["state"], "rolled_back", self.note("rollback " + end, cell))

    def transaction_ends_well(self, session, model):
        code, variables, files = self.change(model)
        self.ok(code, session=session, on_error="rollback")
        model.variables, model.files = variables, files

    def checkpoint(self, session, model):
        code, variables, files = self.change(model)
        name = self.rng.choice(CHECKPOINTS)
        cell = self.ok(code, session=session, checkpoint=name)
        self.assertTrue(cell.get("checkpoint"), self.note("checkpoint", cell))
        model.variables, model.files = variables, files
        model.checkpoints[name] = copy.deepcopy(variables)

    def restore(self, session, model):
        if not model.checkpoints:
            return
        name = self.rng.choice(sorted(model.checkpoints))
        model.variables = copy.deepcopy(model.checkpoints[name])
        code, variables, files = self.change(model)
        cell = self.cell(code, session=session, restore=name)
        self.assertEqual((cell["status"], cell["state"]), ("ok", "restored"), self.note("restore " + name, cell))
        model.variables, model.files = variables, files

    def branch(self, session, model):
        """The branch is changed, and may end, while the other session continues."""
        origin, variables = session, model.variables
        if model.checkpoints and self.rng.random() < 0.5:
            name = self.rng.choice(sorted(model.checkpoints))
            origin, variables = f"{session}@{name}", model.checkpoints[name]
        self.branches += 1
        to, made = f"b{self.branches}", model.branch(variables)
        cell = self.cell("1", session=to, **{"from": origin})
        self.assertEqual((cell["status"], cell["state"]), ("ok", "kept"), self.note("branch " + origin, cell))
        self.check(to, made)
        for _ in range(self.rng.randrange(3)):
            self.rng.choice((self.cell_ends_well, self.cell_dies, self.cell_is_rolled_back, self.checkpoint, self.restore))(to, made)
            self.check(to, made)
        self.end_session(to)

    def beside_a_cell(self, session, model):
        """Creates a branch of a checkpoint while the session runs a cell that ends the interpreter."""
        if not model.checkpoints:
            return
        name = self.rng.choice(sorted(model.checkpoints))
        death = self.rng.choice(QUICK)
        code, _, files = self.change(model)
        waiting = self.start_to_die(death, before=code + f"import time; time.sleep({self.rng.choice((0, 0.01, 0.05, 0.2))})\n", session=session)
        self.branches += 1
        to = f"b{self.branches}"
        cell = self.cell("1", session=to, **{"from": f"{session}@{name}"})
        died = waiting()
        self.assertEqual(died["state"], "restored", self.note("beside " + death, died))
        model.files = files
        if cell["status"] == "ok":
            got = self.ok(LOOK, session=to)["value"]["json"]["variables"]
            self.assertEqual(got, model.checkpoints[name], self.note("beside " + to))
            self.end_session(to)
        else:
            self.assertEqual(cell["error"]["type"], "BranchError", self.note("beside", cell))

    def test_random_state(self):
        whats = (
            (self.cell_ends_well, 4), (self.cell_raises, 1), (self.cell_dies, 3), (self.cell_is_undone, 2), (self.cell_is_rolled_back, 3),
            (self.transaction_ends_well, 1), (self.checkpoint, 3), (self.restore, 3), (self.branch, 2), (self.beside_a_cell, 1),
        )
        model, until = Model(), time.monotonic() + float(os.environ.get("CLOISTER_TEST_SECONDS", "480" if harness.WHOLE else "2"))
        steps = int(os.environ.get("CLOISTER_TEST_STEPS", "1000"))
        self.kept("1")
        while time.monotonic() < until and self.step < steps:
            self.step += 1
            what = self.rng.choices([w for w, _ in whats], [n for _, n in whats])[0]
            self.note(what.__name__)
            what(self.session, model)
            self.check(self.session, model)
        print(f"{self.step} steps, {self.branches} branches", flush=True)


for inherited in [name for name in dir(State) if name.startswith("test_")]:
    setattr(RandomState, inherited, None)
del State


if __name__ == "__main__":
    harness.main()
