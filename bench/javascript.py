"""The rows of JavaScript: the same as of Python, by sessions of Node."""
import subprocess
import time

from lean import GATHER
from measure import Cloister, Failure, last_line, rest
from peers import bwrap_command

CONFIG = {"language": "javascript"}
TOOL = "run_javascript"

TOOL_CALLS = """{{ const took = []
for (let i = 0; i < {count}; i++) {{
    const t = process.hrtime.bigint()
    await tools["c.echo"]({{message: "x"}})
    took.push(Number(process.hrtime.bigint() - t))
}}
globalThis.took = took }}
took"""

NODE_GATHER = """var t = process.hrtime.bigint()
await Promise.all(Array.from({{length: {count}}}, () => tools["c.echo"]({{message: "x"}})))
Number(process.hrtime.bigint() - t) / {count}"""


class JavaScript:
    """Measures of rows.py. self.systems["node"]: the server with one living session."""

    def node_server(self):
        if "node" not in self.systems:
            config = {**CONFIG, "mcpServers": {"c": {"command": self.bench.program("bench-echo"), "args": []}}}
            self.systems["node"] = Cloister(self.bench, config, tool=TOOL)
            self.systems["node"].run("1+1")
        return self.systems["node"]

    def node_bwrap(self):
        node = self.bench.node()
        if not node:
            raise Failure("node is not installed")
        command = bwrap_command("")
        command = [*command[:command.index("--tmpfs")], "--tmpfs", "/tmp", "--ro-bind", node, "/dev/node", "/dev/node", "-e", "1"]
        began = time.perf_counter_ns()
        done = subprocess.run(command, capture_output=True, check=False)
        took = time.perf_counter_ns() - began
        if done.returncode:
            raise Failure(f"bwrap … node: {last_line(done.stderr)}")
        return {"node-bwrap": [took]}

    def node_fresh(self):
        with Cloister(self.bench, {**CONFIG, "pool": 0}, tool=TOOL) as server:
            server.run("1+1")
            rest(0.3)
            return {"node-fresh": server.new_sessions(self.count(10, 2), 0.02)}

    def node_pool(self):
        with Cloister(self.bench, CONFIG, tool=TOOL) as server:
            server.run("1+1")
            rest(0.5)
            return {"node-pool": server.new_sessions(self.count(10, 2), 0.2)}

    def node_warm(self):
        server = self.node_server()
        server.burst_ok(self.count(100, 2), "1+1")
        return {"node-warm": server.burst_ok(self.count(100, 10), "1+1")}

    def node_tool(self):
        server = self.node_server()
        server.run(TOOL_CALLS.format(count=self.count(20, 2)))
        return {"node-tool": server.run(TOOL_CALLS.format(count=self.count(100, 10)))[2]}

    def node_gather(self):
        took = {}
        for row, server, code in (("gather-100", self.server(), GATHER), ("node-gather", self.node_server(), NODE_GATHER)):
            server.run(code.format(count=10))
            took[row] = [server.run(code.format(count=100))[2] for _ in range(self.count(5, 1))]
        return took

    def node_memory(self):
        return self.memory("node-memory", most=40, config=CONFIG, tool=TOOL)
