"""The official Python client (PyPI mcp) drives Cloister, with the official servers behind it."""

import asyncio
import json
import tempfile

import mcp
from mcp import Client, StdioServerParameters

import harness


class OfficialClient(harness.Case):
    """Each test is one connection, made as an application would make it."""

    def drive(self, body, servers=None, mode="legacy", config=(), **options):
        async def run():
            server = StdioServerParameters(command=harness.CLOISTER, args=["mcp", "--config", self.config(servers, **dict(config))],
                                           env=harness.environment(), cwd=self.dir)
            async with asyncio.timeout(90):
                async with Client(server, mode=mode, **options) as client:
                    return await body(client)

        return asyncio.run(run())

    def test_lists_one_tool(self):
        async def body(client):
            return (await client.list_tools()).tools

        tools = self.drive(body)
        self.assertEqual([tool.name for tool in tools], ["run_python"])
        self.assertTrue(tools[0].output_schema)

    def test_calls_and_validates_the_result(self):
        # The client checks structuredContent against outputSchema by itself.
        async def body(client):
            first = await client.call_tool("run_python", {"code": "x = 6 * 7\nprint('hello')\nx"})
            second = await client.call_tool("run_python", {"code": "x + 1"})
            return first, second

        first, second = self.drive(body)
        self.assertFalse(first.is_error)
        self.assertEqual(first.structured_content["value"]["json"], 42)
        self.assertEqual(second.structured_content["value"]["json"], 43)
        self.assertIn("hello", first.content[0].text)

    def test_every_way_a_cell_ends_fits_the_schema(self):
        codes = ["1", "1/0", "def", "import sys; sys.exit(4)", "print('x' * 50000)", "import os; os._exit(1)",
                 "import os; os.kill(os.getpid(), 11)", "{1, 2}", "import time; time.sleep(9)", "'\\ud800'"]

        async def body(client):
            return [await client.call_tool("run_python", {"code": code, "timeout": 1, "session": f"s{i}"}) for i, code in enumerate(codes)]

        statuses = [result.structured_content["status"] for result in self.drive(body)]
        self.assertEqual(statuses[:4] + statuses[5:7] + statuses[8:9], ["ok", "error", "error", "exit", "exit", "killed", "timeout"])

    def test_errors_are_reported(self):
        async def body(client):
            return await client.call_tool("run_python", {"code": "1/0"})

        result = self.drive(body)
        self.assertTrue(result.is_error)
        self.assertIn("ZeroDivisionError", result.content[0].text)

    def test_unknown_tool_is_an_error(self):
        async def body(client):
            try:
                result = await client.call_tool("no_such_tool", {})
            except mcp.MCPError as e:
                return str(e)
            return result.content[0].text

        self.assertIn("no_such_tool", self.drive(body))

    def test_the_newest_era_is_found(self):
        seen = []

        async def body(client):
            async def progress(value, total, message):
                seen.append(message)

            assert [tool.name for tool in (await client.list_tools()).tools] == ["run_python"]
            code = "import time\nfor i in range(3):\n    print('step', i)\n    time.sleep(1)\nprint('x' * 30000)"
            result = await client.call_tool("run_python", {"code": code}, progress_callback=progress)
            uri = result.structured_content["truncated"]["resource"]
            return result, (await client.read_resource(uri)).contents[0].text, (await client.list_resources()).resources

        for mode in ("auto", "2026-07-28"):
            with self.subTest(mode):
                del seen[:]
                result, text, resources = self.drive(body, mode=mode)
                self.assertFalse(result.is_error)
                self.assertEqual(text, "step 0\nstep 1\nstep 2\n" + "x" * 30000 + "\n")
                self.assertEqual(len(resources), 1)
                self.assertRegex(seen[0], "last line: step")

    def test_concurrent_sessions(self):
        async def body(client):
            calls = (client.call_tool("run_python", {"code": f"import time\ntime.sleep(0.3)\n{i}", "session": f"s{i}"}) for i in range(6))
            return await asyncio.gather(*calls)

        self.assertEqual([r.structured_content["value"]["json"] for r in self.drive(body)], list(range(6)))

    def test_progress_reaches_the_client(self):
        seen = []

        async def body(client):
            async def progress(value, total, message):
                seen.append(value)

            return await client.call_tool("run_python", {"code": "import time\ntime.sleep(6)"}, progress_callback=progress)

        self.assertFalse(self.drive(body).is_error)
        self.assertTrue(seen)

    def test_cancellation_by_the_client(self):
        async def body(client):
            task = asyncio.ensure_future(client.call_tool("run_python", {"code": "x = 1\nimport time\ntime.sleep(60)"}))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await asyncio.wait_for(client.call_tool("run_python", {"code": "x"}), 10)

        self.assertEqual(self.drive(body).structured_content["value"]["json"], 1)

    def test_is_asked_for_input_and_roots(self):
        asked = []

        async def elicit(context, params):
            asked.append(params.message)
            return mcp.types.ElicitResult(action="accept", content={"name": "Ada"})

        async def roots(context):
            return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///tmp/x", name="x")])

        async def body(client):
            return await client.call_tool("run_python", {"code": "str([await tools['trigger-elicitation-request'](), await tools['get-roots-list']()])"})

        for mode in ("legacy", "auto"):
            with self.subTest(mode):
                result = self.drive(body, {"everything": harness.official("server-everything")}, mode, elicitation_callback=elicit, list_roots_callback=roots)
                self.assertIn("Name: Ada", result.structured_content["value"]["json"])
                self.assertIn("file:///tmp/x", result.structured_content["value"]["json"])
        self.assertEqual(len(asked), 2)
        self.assertTrue(asked[0].startswith("everything: "))

    def test_is_asked_about_a_call(self):
        asked = []

        async def elicit(context, params):
            asked.append(params)
            await asyncio.sleep(0.4)
            return mcp.types.ElicitResult(action="accept", content={"scope": "once"})

        async def body(client):
            return await client.call_tool("run_python", {"code": "await mcp_everything.echo(message='hello')"})

        for mode in ("legacy", "auto"):
            with self.subTest(mode):
                servers = {"everything": harness.official("server-everything")}
                result = self.drive(body, servers, mode, config={"rules": [{"ask": "*.echo"}]}, elicitation_callback=elicit)
                self.assertIn("hello", str(result.structured_content["value"]))
        self.assertEqual(len(asked), 2)
        self.assertTrue(asked[0].message.startswith("1 call of everything.echo: cloister approve "), asked[0].message)

    def test_official_servers_behind(self):
        with tempfile.TemporaryDirectory(prefix="cloister-test-") as folder:
            servers = {
                "everything": harness.official("server-everything"),
                "memory": harness.official("server-memory", env={"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"}),
                "files": harness.official("server-filesystem", folder),
            }
            code = """
import asyncio, json
said = await asyncio.gather(*(mcp_everything.echo(message=f"m{i}") for i in range(10)))
_ = await mcp_memory.create_entities(entities=[{"name": "Ada", "entityType": "person", "observations": said}])
found = await mcp_memory.search_nodes(query="Ada")
_ = await mcp_files.write_file(path=FOLDER + "/found.json", content=json.dumps(found))
len(found["entities"][0]["observations"])"""

            async def body(client):
                return await client.call_tool("run_python", {"code": f"FOLDER = {folder!r}\n{code}"})

            result = self.drive(body, servers)
            self.assertFalse(result.is_error, result.content[0].text)
            self.assertEqual(result.structured_content["value"]["json"], 10)
            self.assertEqual(result.structured_content["tool_calls_total"], 13)
            with open(f"{folder}/found.json", encoding="utf-8") as f:
                self.assertEqual(json.load(f)["entities"][0]["name"], "Ada")


if __name__ == "__main__":
    harness.main()
