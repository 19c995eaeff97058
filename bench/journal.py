"""The rows of the journal: what a record costs a call, and the memory of the process that signs."""
import re
import shutil
import statistics
import subprocess
import tempfile

from lean import GATHER
from measure import Cloister, Failure

TIMES = """import time
_call, _took = tools['c.echo'], []
for _i in range({count}):
    _t = time.perf_counter_ns()
    await _call(message='x')
    _took.append(time.perf_counter_ns() - _t)
_took"""


class Recorded(Cloister):
    """A server with its own directory for the journal."""

    def __init__(self, bench, config):
        self.state = tempfile.mkdtemp(prefix="cloister-bench-")
        before = bench.environment
        bench.environment = {**before, "XDG_STATE_HOME": self.state}
        try:
            super().__init__(bench, config)
        finally:
            bench.environment = before
        self.run("1+1")

    def close(self):
        super().close()
        shutil.rmtree(self.state, ignore_errors=True)


class Journal:
    """Measures of rows.py."""

    def journal_server(self, sync):
        name = "journal-" + (sync or "off")
        if name not in self.systems:
            servers = {"mcpServers": {"c": {"command": self.bench.program("bench-echo"), "args": []}}}
            self.systems[name] = Recorded(self.bench, {**servers, "journal": {"sync": sync}} if sync else servers)
        return self.systems[name]

    def journal_calls(self):
        """The difference of the medians, in turns. The value is microseconds, scaled like the nanoseconds of other rows."""
        took = {"none": [], None: []}
        for _ in range(self.count(5, 1)):
            for sync in (None, "none"):
                took[sync] += self.journal_server(sync).run(TIMES.format(count=self.count(200, 10)))[2]
        cost = statistics.median(took["none"]) - statistics.median(took[None])
        return {"journal-call": [max(cost, 0) * 1e3]}

    def journal_gather(self):
        took = {}
        for row, sync in (("journal-gather", "group"), ("journal-gather-off", None)):
            server = self.journal_server(sync)
            server.run(GATHER.format(count=10))
            took[row] = [server.run(GATHER.format(count=self.count(1000, 50)))[2] for _ in range(self.count(5, 1))]
        return took

    def journal_memory(self):
        """Memory that no other process uses, of cloister-journal."""
        server = self.journal_server("none")
        server.run("1+1")
        found = subprocess.run(["pgrep", "-f", f"cloister-journal serve {server.state}/"], capture_output=True, check=False)
        if not found.stdout.split():
            raise Failure("cloister-journal does not run")
        with open(f"/proc/{int(found.stdout.split()[0])}/smaps_rollup", encoding="ascii") as f:
            private = sum(int(kib) for kib in re.findall(r"^Private_\w+: +(\d+) kB", f.read(), re.MULTILINE))
        return {"journal-memory": [private / 1024 * 1e6]}
