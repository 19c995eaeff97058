"""Revision 2026-07-28 in raw lines, also mixed with those of a legacy client; progress, live output and resources."""

import base64
import json
import os
import time

import harness
import rawmcp

PREFIX = "io.modelcontextprotocol/"


def meta(**more):
    return {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {},
            PREFIX + "clientInfo": {"name": "raw", "version": "0"}, **more}


class Modern(rawmcp.ServerCase):
    """One pipe that both kinds of clients use: the fixture has sent the initialize request of a legacy client."""

    SERVERS = {"a": harness.fixture()}

    def request(self, method, _meta=None, **params):
        return self.server.request(method, {"_meta": _meta or meta(), **params})

    def ask(self, method, **params):
        result = self.request(method, **params).result()
        self.assertEqual(result["resultType"], "complete")
        self.assertEqual(result["_meta"][PREFIX + "serverInfo"]["name"], "cloister")
        return result

    def start(self, code, _meta=None, **arguments):
        arguments.setdefault("session", self.session)
        return self.request("tools/call", _meta, name="run_python", arguments={"code": code, **arguments})

    def refused(self, code, method, _meta=None, **params):
        with self.assertRaises(rawmcp.RpcError) as caught:
            self.request(method, _meta, **params).result()
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        return caught.exception

    def notes(self, method, begin=0):
        return [note["params"] for note in self.server.notes[begin:] if note["method"] == method]

    def until(self, condition, seconds=None):
        self.assertTrue(harness.wait_until(condition, seconds or harness.PATIENCE))

    def listen(self, **wanted):
        """Opens a stream; returns the request and the notifications that it gets from then on."""
        begin = len(self.server.notes)
        waiting = self.request("subscriptions/listen", notifications=wanted)
        self.until(lambda: self.of(waiting, begin))
        first = self.of(waiting, begin)[0]
        self.assertEqual(first["method"], "notifications/subscriptions/acknowledged")
        waiting.agreed = first["params"]["notifications"]
        waiting.begin = begin
        return waiting

    def of(self, waiting, begin=None):
        begin = waiting.begin if begin is None else begin
        tag = PREFIX + "subscriptionId"
        return [n for n in self.server.notes[begin:] if n.get("params", {}).get("_meta", {}).get(tag) == waiting.id]


class Requests(Modern):
    """Each request is complete by itself."""

    def test_discover(self):
        found = self.ask("server/discover")
        self.assertEqual(found["supportedVersions"], ["2026-07-28"])
        self.assertIn("tools", found["capabilities"])
        self.assertIn("resources", found["capabilities"])
        self.assertIn("run_python", found["instructions"][:240])
        self.assertGreaterEqual(found["ttlMs"], 0)
        self.assertIn(found["cacheScope"], ("public", "private"))

    def test_the_list_is_the_same_in_both_eras(self):
        modern = self.ask("tools/list")
        self.assertEqual(modern["tools"], self.server.ask("tools/list")["tools"])
        self.assertGreaterEqual(modern["ttlMs"], 0)

    def test_a_call_and_its_session(self):
        self.assertFalse(self.start("x = 6 * 7").result()["isError"])
        result = self.start("x").result()
        self.assertEqual(result["resultType"], "complete")
        self.assertEqual(result["structuredContent"]["value"]["json"], 42)
        # A client of the other era reaches the same session.
        self.assertEqual(self.value("x"), 42)

    def test_a_tool_is_called(self):
        self.assertEqual(self.start("await mcp_a.add(a=2, b=3)").result()["structuredContent"]["value"]["json"], {"sum": 5})

    def test_what_is_missing_is_named(self):
        for missing in ("protocolVersion", "clientCapabilities"):
            fields = meta()
            del fields[PREFIX + missing]
            self.assertIn(missing, self.refused(-32602, "tools/list", fields).message)
        self.refused(-32602, "tools/list", meta(**{PREFIX + "logLevel": "loud"}))

    def test_an_unknown_version(self):
        for method in ("tools/list", "server/discover", "no/such"):
            error = self.refused(-32022, method, meta(**{PREFIX + "protocolVersion": "2031-01-01"}))
            self.assertEqual(error.data, {"supported": ["2026-07-28"], "requested": "2031-01-01"})

    def test_what_this_revision_has_not(self):
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "prompts/lists", "no/such"):
            self.refused(-32601, method)

    def test_an_unknown_tool(self):
        self.refused(-32602, "tools/call", name="no_such_tool", arguments={})

    def test_the_eras_alternate(self):
        waiting = []
        for i in range(40):
            code, session = f"import time\ntime.sleep(0.01)\n{i}", f"alternate{i % 3}"
            if i % 2:
                waiting.append(self.start(code, session=session))
            else:
                waiting.append(self.server.start_call(code, session=session))
        for i, one in enumerate(waiting):
            result = one.result()
            self.assertEqual(result["structuredContent"]["value"]["json"], i)
            self.assertEqual("resultType" in result, i % 2 == 1)

    def test_cancellation_stops_the_cell_in_either_era(self):
        self.ok("kept = 1")
        for start in (self.start, lambda code: self.server.start_call(code, session=self.session)):
            call = start("import time\nwhile True: time.sleep(0.01)")
            self.wait_running()
            self.server.notify("notifications/cancelled", requestId=call.id, reason="enough")
            self.assertEqual(self.value("kept"), 1)
            # If the timeout had ended the cell, the call would have been answered.
            self.assertFalse(call.done())


class Orders(harness.Case):
    """The order in which the eras are used does not matter."""

    def test_discover_then_initialize_and_back(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            self.assertEqual(server.ask("server/discover", {"_meta": meta()})["resultType"], "complete")
            self.assertEqual(server.initialize("2025-06-18")["protocolVersion"], "2025-06-18")
            self.assertEqual(server.ask("server/discover", {"_meta": meta()})["supportedVersions"], ["2026-07-28"])
            self.assertEqual(server.cell("1 + 1")["value"]["json"], 2)

    def test_modern_alone(self):
        with rawmcp.RawServer("--config", self.config()) as server:
            params = {"_meta": meta(), "name": "run_python", "arguments": {"code": "40 + 2"}}
            self.assertEqual(server.ask("tools/call", params)["structuredContent"]["value"]["json"], 42)

    @harness.alone
    def test_the_first_answer_is_there_at_once(self):
        config = self.config({"slow": harness.fixture("--hang-start")})
        times = []
        for _ in range(3):
            begun = time.monotonic()
            with rawmcp.RawServer("--config", config) as server:
                server.ask("server/discover", {"_meta": meta()}, timeout=10)
                server.ask("tools/list", {"_meta": meta()}, timeout=10)
                times.append(time.monotonic() - begun)
        self.assertLess(min(times), harness.AT_ONCE)


class Streams(Modern):
    """subscriptions/listen."""

    CONFIG = {}

    def test_what_is_agreed_to(self):
        uri = "cloister://sessions/default/cells/1/stdout"
        stream = self.listen(toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["file:///x", uri])
        self.assertEqual(stream.agreed, {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": [uri]})
        self.server.notify("notifications/cancelled", requestId=stream.id)

    def test_a_filter_is_required(self):
        self.refused(-32602, "subscriptions/listen")

    def test_resources_that_come(self):
        listening = self.listen(resourcesListChanged=True)
        uninterruptible = self.listen(toolsListChanged=True)
        self.ok("print('x' * 30000)")
        self.until(lambda: len(self.of(listening)) > 1)
        self.assertEqual(self.of(listening)[1]["method"], "notifications/resources/list_changed")
        self.assertEqual(len(self.of(uninterruptible)), 1)
        # After the cancellation the stream sends nothing, not even an answer.
        self.server.notify("notifications/cancelled", requestId=listening.id)
        seen = len(self.of(listening))
        self.ok("print('y' * 30000)")
        self.server.ask("ping")
        self.assertEqual(len(self.of(listening)), seen)
        self.assertFalse(listening.done())
        self.server.notify("notifications/cancelled", requestId=uninterruptible.id)

    def test_a_file_that_changes(self):
        uri = f"cloister://sessions/{self.session}/files/a.txt"
        stream = self.listen(resourceSubscriptions=[uri])
        for text in ("one", "two"):
            self.ok(f"open('/workspace/out/a.txt', 'w').write({text!r})")
        self.until(lambda: len(self.of(stream)) >= 3)
        self.assertEqual([n["params"]["uri"] for n in self.of(stream)[1:]], [uri, uri])
        self.server.notify("notifications/cancelled", requestId=stream.id)


class StreamsEnd(harness.Case):
    """Streams that end with the server, and tools that change."""

    def test_the_end_of_the_server_closes_streams(self):
        server = rawmcp.RawServer("--config", self.config())
        self.addCleanup(server.free)
        stream = server.request("subscriptions/listen", {"_meta": meta(), "notifications": {"toolsListChanged": True}})
        harness.wait_until(lambda: server.notes)
        server.process.stdin.close()
        result = stream.result()
        self.assertEqual(result["_meta"][PREFIX + "subscriptionId"], stream.id)
        self.assertEqual(result["resultType"], "complete")

    def test_tools_that_become_known(self):
        # The upstream's tools are not in the cache of any earlier run.
        new = {**harness.fixture(), "env": {"NEVER_SEEN": str(time.time_ns())}}
        server = rawmcp.RawServer("--config", self.config({"new": new}))
        self.addCleanup(server.free)
        stream = server.request("subscriptions/listen", {"_meta": meta(), "notifications": {"toolsListChanged": True}})
        first = server.ask("tools/list", {"_meta": meta()})["tools"][0]["description"]
        self.assertIn("not known yet", first)
        self.assertTrue(harness.wait_until(lambda: any(n["method"] == "notifications/tools/list_changed" for n in server.notes)))
        tagged = [n for n in server.notes if n["method"] == "notifications/tools/list_changed"]
        self.assertEqual(tagged[0]["params"]["_meta"][PREFIX + "subscriptionId"], stream.id)
        self.assertIn("add(", server.ask("tools/list", {"_meta": meta()})["tools"][0]["description"])
        server.close()


class ToolsChange(harness.Case):
    """Many change notifications of an upstream server are merged into few for clients of both eras, which then list again."""

    FAULTY = os.path.join(harness.HERE, "servers", "faulty.py")

    def test_a_burst_of_changes(self):
        servers = {"changing": {"command": harness.PYTHON, "args": [self.FAULTY]}}
        server = rawmcp.RawServer("--config", self.config(servers))
        self.addCleanup(server.free)
        server.initialize()
        self.assertEqual(server.cell("await mcp_changing.change(name='first', times=1)")["status"], "ok")
        described = lambda name: name in server.ask("tools/list")["tools"][0]["description"]
        self.assertTrue(harness.wait_until(lambda: described("first(")))
        stream = server.request("subscriptions/listen", {"_meta": meta(), "notifications": {"toolsListChanged": True}})
        self.assertTrue(harness.wait_until(
            lambda: any(n["method"] == "notifications/subscriptions/acknowledged" for n in server.notes)))
        begin = len(server.notes)
        self.assertEqual(server.cell("await mcp_changing.change(name='second_tool', times=50)")["status"], "ok")

        def told(era):
            of = [n.get("params", {}) for n in server.notes[begin:] if n["method"] == "notifications/tools/list_changed"]
            return len([p for p in of if (p.get("_meta", {}).get(PREFIX + "subscriptionId") == stream.id) == (era == "modern")])

        for era in ("legacy", "modern"):
            self.assertTrue(harness.wait_until(lambda: told(era) > 0), era)
        self.assertTrue(harness.wait_until(lambda: described("second_tool")))
        # The remaining notifications of the burst are sent before the next change.
        before = told("modern")
        self.assertEqual(server.cell("await mcp_changing.change(name='third_tool', times=1)")["status"], "ok")
        self.assertTrue(harness.wait_until(lambda: described("third_tool") and told("modern") > before))
        for era in ("legacy", "modern"):
            self.assertLessEqual(told(era), 3)
        server.close()


class Live(Modern):
    """Messages to a client while its call runs."""

    CODE = "import time\nfor i in range(4):\n    print('step', i, '\\x1b[31m')\n    time.sleep(0.7)"

    def test_progress_has_the_last_line_and_the_calls(self):
        code = "await mcp_a.add(a=1, b=1)\n" + self.CODE
        for start in (self.start, self.legacy):
            begin = len(self.server.notes)
            start(code, {"progressToken": "p"}).result()
            seen = self.notes("notifications/progress", begin)
            self.assertGreaterEqual(len(seen), 2)
            self.assertEqual({n["progressToken"] for n in seen}, {"p"})
            values = [n["progress"] for n in seen]
            self.assertEqual(values, sorted(set(values)))
            self.assertRegex(seen[-1]["message"], r"^running for \d+ s; 1 tool call, the last a\.add; last line: step \d +\[31m")
            # There is not one notification for each line that is printed.
            self.assertLessEqual(len(seen), 5)

    def legacy(self, code, extra):
        return self.server.start_call(code, meta=extra, session=self.session)

    def start(self, code, extra=None, **arguments):
        return super().start(code, meta(**(extra or {})), **arguments)

    def printed(self, begin):
        return "".join(n["data"]["text"] for n in self.notes("notifications/message", begin)
                       if n["data"]["session"] == self.session and n["data"]["stream"] == "stdout")

    def test_output_as_it_is_printed(self):
        begin = len(self.server.notes)
        call = self.start(self.CODE, {PREFIX + "logLevel": "info"})
        self.until(lambda: "step 1" in self.printed(begin))
        self.assertFalse(call.done())
        result = call.result()["structuredContent"]
        self.assertEqual(self.printed(begin), result["stdout"])
        self.assertEqual(self.notes("notifications/message", begin)[0]["level"], "info")

    def test_no_output_unasked(self):
        begin = len(self.server.notes)
        self.start("print('x')").result()
        self.start("print('x')", {PREFIX + "logLevel": "warning"}).result()
        self.assertEqual(self.notes("notifications/message", begin), [])

    def test_a_flood_is_bounded(self):
        begin = len(self.server.notes)
        result = self.start("for _ in range(200): print('z' * 10000)", {PREFIX + "logLevel": "debug", "progressToken": 5}).result()
        told = self.notes("notifications/message", begin)
        self.assertLess(sum(len(n["data"]["text"]) for n in told), 200000)
        self.assertTrue(any(n["data"].get("skipped_bytes") for n in told))
        self.assertEqual(result["structuredContent"]["truncated"]["stdout_bytes"], 200 * 10001)

    def test_level_of_a_legacy_connection(self):
        with rawmcp.RawServer("--config", self.server_config()) as server:
            self.assertIn("logging", server.initialize()["capabilities"])
            server.cell("print('before')")
            self.assertEqual(server.notes, [])
            self.assertEqual(server.ask("logging/setLevel", {"level": "info"}), {})
            server.cell("print('after')")
            self.assertEqual([n["params"]["data"]["text"] for n in server.notes], ["after\n"])
            with self.assertRaises(rawmcp.RpcError) as caught:
                server.ask("logging/setLevel", {"level": "verbose"})
            self.assertEqual(caught.exception.code, -32602)

    def server_config(self):
        return os.path.join(self.class_dir, "config.json")


class Resources(Modern):
    """Whole outputs, and files, in both eras."""

    def read(self, uri):
        return self.ask("resources/read", uri=uri)["contents"]

    def test_a_receipt_is_a_resource(self):
        cell = self.ok("print('x' * 10)\nfor _ in range(200000): pass")
        uri = f"cloister://sessions/{cell['session']}/cells/{cell['receipt']['cell']}/receipt"
        (item,) = self.read(uri)
        self.assertEqual((item["uri"], item["mimeType"]), (uri, "application/json"))
        receipt = json.loads(item["text"])
        self.assertEqual((receipt["cell"], receipt["status"], receipt["stdout_bytes"]), (cell["receipt"]["cell"], "ok", 11))
        self.assertEqual(receipt["peak_of"], cell["receipt"]["peak_of"])
        for wrong in uri.replace("cells/", "cells/9"), uri.replace(cell["session"], "nobody"), uri + "s", uri.replace("cells/", "cells/0"):
            with self.assertRaises(rawmcp.RpcError):
                self.read(wrong)

    def test_a_cut_output_is_whole_in_its_resource(self):
        cell = self.ok("import sys\nfor i in range(5000): print('line', i)\nfor i in range(5000): print('e', i, file=sys.stderr)")
        out, err = cell["truncated"]["resource"], cell["truncated"]["stderr_resource"]
        whole = "".join(f"line {i}\n" for i in range(5000))
        self.assertEqual(self.read(out), [{"uri": out, "mimeType": "text/plain", "text": whole}])
        self.assertEqual(self.server.ask("resources/read", {"uri": out})["contents"][0]["text"], whole)
        self.assertEqual(self.read(err)[0]["text"], "".join(f"e {i}\n" for i in range(5000)))
        listed = {r["uri"]: r for r in self.server.ask("resources/list")["resources"]}
        self.assertEqual(listed[out]["size"], len(whole))

    def test_the_text_names_it(self):
        result = self.call("print('x' * 20000)")
        uri = result["structuredContent"]["truncated"]["resource"]
        self.assertIn(uri, result["content"][0]["text"])
        self.assertEqual(self.read(uri)[0]["text"], "x" * 20000 + "\n")

    def test_a_large_one_is_read_in_parts(self):
        cell = self.ok("for i in range(300000): print('é漢', i)")
        uri, text = cell["truncated"]["resource"], ""
        while uri:
            contents = self.read(uri)
            text += contents[0]["text"]
            uri = contents[1]["uri"] if len(contents) > 1 else None
        self.assertEqual(text, "".join(f"é漢 {i}\n" for i in range(300000)))

    def test_it_outlives_the_session(self):
        uri = self.ok("print('x' * 20000)")["truncated"]["resource"]
        self.cell("import os; os._exit(3)")
        self.assertEqual(len(self.read(uri)[0]["text"]), 20001)

    def test_the_oldest_make_room(self):
        with rawmcp.RawServer("--config", os.path.join(self.class_dir, "config.json")) as server:
            server.initialize()
            uris = [server.cell("print('x' * 15_000_000)")["truncated"]["resource"] for _ in range(6)]
            with self.assertRaises(rawmcp.RpcError) as caught:
                server.ask("resources/read", {"uri": uris[0]})
            self.assertEqual(caught.exception.code, -32002)
            self.assertIn("made room for newer", caught.exception.message)
            self.assertTrue(server.ask("resources/read", {"uri": uris[-1]})["contents"])
            listed = [r["uri"] for r in server.ask("resources/list")["resources"]]
            self.assertIn(uris[-1], listed)
            self.assertNotIn(uris[0], listed)

    def test_files(self):
        self.ok("open('/workspace/out/grüße.txt', 'w').write('hällo')\nopen('/workspace/out/b.bin', 'wb').write(bytes(range(256)))")
        listed = {r["name"]: r for r in self.ask("resources/list")["resources"]}
        self.assertEqual(self.read(listed["grüße.txt"]["uri"])[0]["text"], "hällo")
        blob = self.read(listed["b.bin"]["uri"])[0]
        self.assertEqual(base64.b64decode(blob["blob"]), bytes(range(256)))
        # Another sandbox has different files.
        self.ok("1", reset=True)
        self.assertNotIn(listed["b.bin"]["uri"], [r["uri"] for r in self.ask("resources/list")["resources"]])
        self.refused(-32602, "resources/read", uri=listed["b.bin"]["uri"])

    def test_what_is_not_there(self):
        self.ok("1")
        for uri in ("cloister://sessions/default/cells/99999/stdout", "file:///etc/passwd", f"cloister://sessions/{self.session}/files/none",
                    f"cloister://sessions/{self.session}/files/../../etc/passwd", "cloister://sessions/nobody/files/a", ""):
            with self.subTest(uri):
                self.assertEqual(self.refused(-32602, "resources/read", uri=uri).data["uri"], uri)
                with self.assertRaises(rawmcp.RpcError) as caught:
                    self.server.ask("resources/read", {"uri": uri})
                self.assertEqual(caught.exception.code, -32002)

    def test_templates_and_cursors(self):
        templates = [t["uriTemplate"] for t in self.ask("resources/templates/list")["resourceTemplates"]]
        self.assertEqual(len(templates), 5)
        self.refused(-32602, "resources/list", cursor="nonsense")

    def test_a_legacy_subscription(self):
        uri = f"cloister://sessions/{self.session}/files/watched.txt"
        self.assertEqual(self.server.ask("resources/subscribe", {"uri": uri}), {})
        begin = len(self.server.notes)
        self.ok("open('/workspace/out/watched.txt', 'w').write('1')")
        self.until(lambda: {"uri": uri} in self.notes("notifications/resources/updated", begin))
        self.assertEqual(self.server.ask("resources/unsubscribe", {"uri": uri}), {})
        begin = len(self.server.notes)
        self.ok("open('/workspace/out/watched.txt', 'w').write('22')")
        self.assertEqual(self.notes("notifications/resources/updated", begin), [])


if __name__ == "__main__":
    harness.main()
