"""Servers that people use, from npm and PyPI, each doing something through the sandbox."""

import contextlib
import os
import socket
import subprocess
import urllib.request

import harness
import rawmcp

MODULES = os.path.join(harness.NODE_DIR, "node_modules")
SERVERS = os.path.join(harness.HERE, "servers")
VENV_PYTHON = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")


def script(path, *args, **rest):
    return {"command": harness.NODE, "args": [os.path.join(MODULES, path), *args], **rest}


def supergateway(*args):
    return script("supergateway/dist/index.js", "--logLevel", "none", *args)


class Stdio(rawmcp.ServerCase):
    """All servers behind one Cloister, as in a typical config."""

    @classmethod
    def servers(cls):
        cls.repository = os.path.join(cls.class_dir, "repository")
        os.mkdir(cls.repository)
        everything = os.path.join(MODULES, "@modelcontextprotocol", "server-everything", "dist", "index.js")
        return {
            "thinking": harness.official("server-sequential-thinking"),
            "git": script("@cyanheads/git-mcp-server/dist/index.js", env={
                "MCP_TRANSPORT_TYPE": "stdio", "MCP_LOG_LEVEL": "error", "GIT_BASE_DIR": cls.class_dir,
                "GIT_USERNAME": "t", "GIT_EMAIL": "t@example.com", "HOME": cls.class_dir,
            }),
            "time": script("time-mcp/dist/index.js"),
            "calc": script("@coo-quack/calc-mcp/dist/index.js"),
            "modern": {"command": harness.NODE, "args": [os.path.join(SERVERS, "modern.mjs")], "env": {"CLOISTER_NODE": harness.NODE_DIR}},
            "sdk": {"command": VENV_PYTHON, "args": [os.path.join(SERVERS, "sdk.py")]},
            "everything": {"command": harness.NODE, "args": [everything]},
        }

    def raised(self, call):
        return self.value(f"try:\n    r = await {call}\nexcept ToolError as e:\n    r = [type(e).__name__, str(e)]\nr")

    def test_all_of_them_come_up(self):
        code = "[t['server'] for t in _discover() if 'error' in t], sorted({t['server'] for t in _discover()})"
        failed, names = self.value(f"list(({code}))", wait=60)
        self.assertEqual((failed, names), ([], ["calc", "everything", "git", "modern", "sdk", "thinking", "time"]))

    def test_sequential_thinking(self):
        code = "t = await mcp_thinking.sequentialthinking(thought='a', nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1)\nt"
        self.assertEqual(self.value(code)["thoughtNumber"], 1)

    def test_git_with_a_list_of_tools_of_78_kilobytes(self):
        self.assertGreater(self.value("len([t for t in _discover() if t['server'] == 'git'])", wait=60), 20)
        self.assertGreater(self.value("len(json.dumps([_schema(t) for t in tools if _schema(t)['server'] == 'git']))"), 60000)
        code = f"""
p = {self.repository!r}
_ = await mcp_git.git_init(path=p, initialBranch='main')
s = await mcp_git.git_status(path=p)
s['currentBranch'] if isinstance(s, dict) else s"""
        self.assertIn("main", str(self.value(code, wait=60)))
        self.assertTrue(os.path.isdir(os.path.join(self.repository, ".git")))

    def test_time_whose_stdout_has_noise(self):
        names = self.value("sorted(t['name'] for t in _discover() if t['server'] == 'time')")
        self.assertIn("current_time", names)
        self.assertRegex(str(self.value("await mcp_time.current_time(format='YYYY-MM-DD', timezone='UTC')")), r"20\d\d-\d\d-\d\d")

    def test_calc_in_parallel(self):
        code = """
import asyncio
r = await asyncio.gather(*(mcp_calc.math(action='eval', expression=f'{i} * {i}') for i in range(200)), return_exceptions=True)
[str(x) for x in r]"""
        results = self.value(code, wait=60)
        self.assertEqual(len(results), 200)
        for i, text in enumerate(results):
            self.assertIn(str(i * i), text)

    def test_modern_server_of_the_official_sdk(self):
        self.assertEqual(self.value("await mcp_modern.add(a=2, b=3)"), {"sum": 5})
        # The tool requests elicitation, and gets an immediate refusal.
        kind, text = self.raised("mcp_modern.deploy()")
        self.assertEqual(kind, "ToolProtocolError")
        self.assertIn("elicitation/create", text)

    def test_modern_server_tells_of_its_new_tool(self):
        code = """
import asyncio
await mcp_modern.grow()
for _ in range(100):
    if 'later' in mcp_modern:
        break
    await asyncio.sleep(0.05)
await mcp_modern.later()"""
        self.assertEqual(self.value(code), "late")

    def test_modern_server_is_sent_nothing_of_the_old_era(self):
        self.value("await mcp_modern.add(a=2, b=3)")
        self.assertNotIn("refused initialize", self.server.log())

    def test_results_that_the_python_sdk_wraps(self):
        self.assertEqual(self.value("[await mcp_sdk.numbers(), await mcp_sdk.total(values=[1, 2]), await mcp_sdk.table()]"), [[1, 2, 3], 3, {"result": 1}])
        self.assertIn("-> list[int]", self.value("repr(mcp_sdk.numbers)"))

    def test_arguments_that_everything_refuses(self):
        self.assertEqual(self.raised("mcp_everything.get_sum(a='x', b=1)")[0], "ToolArgumentError")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bridges(harness.Case):
    """Servers over HTTP on loopback, and programs in between that bring them back to stdio."""

    def serve(self, entry, port, path, env=None):
        """Runs a server until the test ends."""
        with open(self.path("served.log"), "ab") as log:
            process = subprocess.Popen(
                [entry["command"], *entry["args"]], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=harness.environment(**(env or {})), start_new_session=True,
            )
        self.addCleanup(self.end, process)
        self.assertTrue(harness.wait_until(lambda: self.listens(port, path)), "it does not listen")

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, harness.signal.SIGKILL)
        process.wait(harness.PATIENCE)

    @staticmethod
    def listens(port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def use(self, entry):
        server = rawmcp.RawServer("--config", self.config({"far": entry}), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        code = "import asyncio\nr = await asyncio.gather(*(mcp_far.echo(message=str(i)) for i in range(20)))\n[len(set(r)), r[7], len(mcp_far)]"
        cell = server.cell(code, wait=3 * harness.PATIENCE)
        self.assertEqual(cell["status"], "ok", cell)
        different, one, n = cell["value"]["json"]
        self.assertEqual(different, 20)
        self.assertIn("7", one)
        self.assertGreater(n, 10)
        self.assertEqual(server.close(), 0)

    def test_modern_server_of_the_official_sdk(self):
        port = free_port()
        self.serve({"command": harness.NODE, "args": [os.path.join(SERVERS, "modern.mjs")]}, port, "/mcp", {"PORT": str(port), "CLOISTER_NODE": harness.NODE_DIR})
        server = rawmcp.RawServer("--config", self.config({"far": {"url": f"http://127.0.0.1:{port}/mcp"}}), cwd=self.dir)
        self.addCleanup(server.free)
        server.initialize()
        code = "r = [await mcp_far.add(a=2, b=3)]\ntry:\n    await mcp_far.deploy()\nexcept ToolError as e:\n    r.append(str(e))\nr"
        value = server.cell(code, wait=3 * harness.PATIENCE)["value"]["json"]
        self.assertEqual(value[0], {"sum": 5})
        self.assertIn("elicitation/create", value[1])
        with open(self.path("served.log"), encoding="utf-8") as f:
            asked = f.read()
        self.assertIn("POST subscriptions/listen", asked)
        self.assertNotIn("initialize", asked)
        self.assertEqual(server.close(), 0)

    def test_supergateway_from_streamable_http(self):
        port = free_port()
        self.serve(harness.official("server-everything", "streamableHttp"), port, "/mcp", {"PORT": str(port)})
        self.use({"url": f"http://127.0.0.1:{port}/mcp"})
        self.use(supergateway("--streamableHttp", f"http://127.0.0.1:{port}/mcp", "--outputTransport", "stdio"))

    def test_supergateway_from_sse(self):
        port = free_port()
        self.serve(harness.official("server-everything", "sse"), port, "/", {"PORT": str(port)})
        self.use({"type": "sse", "url": f"http://127.0.0.1:{port}/sse"})
        self.use({"url": f"http://127.0.0.1:{port}/sse"})
        self.use(supergateway("--sse", f"http://127.0.0.1:{port}/sse", "--outputTransport", "stdio"))

    def test_mcp_proxy_then_supergateway(self):
        port = free_port()
        entry = harness.official("server-everything", "stdio")
        self.serve(script("mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", str(port), "--", entry["command"], *entry["args"]), port, "/ping")
        self.use({"url": f"http://127.0.0.1:{port}/mcp"})
        self.use({"url": f"http://127.0.0.1:{port}/sse"})
        self.use(supergateway("--streamableHttp", f"http://127.0.0.1:{port}/mcp", "--outputTransport", "stdio"))

    def test_both_directions_of_supergateway(self):
        port = free_port()
        entry = harness.official("server-everything", "stdio")
        command = " ".join([entry["command"], *entry["args"]])
        self.serve(supergateway("--stdio", command, "--port", str(port), "--outputTransport", "streamableHttp", "--stateful", "--healthEndpoint", "/healthz"), port, "/healthz")
        self.use({"url": f"http://127.0.0.1:{port}/mcp"})
        self.use(supergateway("--streamableHttp", f"http://127.0.0.1:{port}/mcp", "--outputTransport", "stdio"))


if __name__ == "__main__":
    harness.main()
