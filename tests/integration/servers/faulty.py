#!/usr/bin/env python3
"""An MCP server that misbehaves on request, as real servers do; it needs the standard library only.

Options select faults from the start on, tools faults of a call. Without options it is a correct server.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faulty_asks import Asks  # noqa: E402
from faulty_wire import answer, lock, notify, out, refuse, send, send_text, text_result  # noqa: E402

TREE = {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
SCHEMAS = {
    "echo": {"type": "object", "properties": {"n": {"type": "number", "maximum": 1.50}}},
    "recursive": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": TREE}},
    "one-of": {
        "type": "object",
        "properties": {"where": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["lat"], "properties": {"lat": {"type": "number"}}}]}},
        "required": ["where"],
    },
    "far-ref": {"type": "object", "properties": {"x": {"$ref": "https://example.com/schema.json#/x"}}},
    "loop-ref": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
}

# An image of one pixel, a silent sound and a file, as content blocks.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BLOCKS = {
    "text": {"type": "text", "text": "words"},
    "json": {"type": "text", "text": '{"a": [1, 2]}'},
    "image": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    "resource": {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
    "blob": {"type": "resource", "resource": {"uri": "file:///a.bin", "mimeType": "application/x", "blob": "AAEC"}},
    "link": {"type": "resource_link", "uri": "file:///b.txt", "name": "b", "mimeType": "text/plain"},
    "unknown": {"type": "hologram", "data": "x"},
    "bad-image": {"type": "image", "data": "***", "mimeType": "image/png"},
}


class Server(Asks):
    def __init__(self, options):
        self.options = options
        self.extra = []  # tools that were added later
        self.removed = []
        self.asked = {}  # our requests to the client: id -> [event, answer]
        self.cancelled = []
        self.states = []
        self.tasks = []
        self.held = []  # ids of the unanswered calls of `hold`
        self.polls = 0  # tasks/get of the newest task
        self.levels = []  # of logging/setLevel
        self.capabilities = None  # of the client
        self.roots_seen, self.roots_changes = [], 0
        self.lists = 0
        self.calls = 0
        self.listen = None  # id of subscriptions/listen
        self.discovers = 0
        self.metas = []  # the _meta of each request of the modern era, by method

    # ---- start, end, pipes ----------------------------------------------------------------------------------------------------

    def run(self):
        o = self.options
        if o.pid_file:
            with open(o.pid_file, "a", encoding="ascii") as f:
                f.write(f"{os.getpid()} {os.readlink('/proc/self/ns/pid')}\n")
        if o.ignore_term:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if o.words:
            print(o.words, file=sys.stderr, flush=True)
        if o.die is not None:
            print("Error: faulty on purpose", file=sys.stderr)
            print("    at somewhere (in a stack trace)", file=sys.stderr, flush=True)
            os._exit(o.die)
        if o.stderr_flood:
            threading.Thread(target=self.flood_stderr, daemon=True).start()
        if o.never:
            time.sleep(3600)
        time.sleep(o.slow_start)
        if o.garbage:
            out.write(b"Starting the server...\n\n   \n\x1b[31mred\x1b[0m\r\n{\"half\": \n\xff\xfe\x00\n")
            out.write(b"[1, 2]\n[]\n{}\nnull\n" + b"x" * 70000 + b"\n")
            out.flush()
        for line in sys.stdin.buffer:
            self.on_line(line)
        if o.ignore_term:
            time.sleep(3600)

    def flood_stderr(self):
        line = b"noise " * 100 + b"\n"
        while True:
            os.write(2, line * 50)

    def on_line(self, line):
        message = json.loads(line)
        id, method = message.get("id"), message.get("method")
        if method is None:
            event, _ = self.asked.pop(id)
            event[1] = message
            event[0].set()
        elif id is None:
            self.on_notification(method, message.get("params"))
        elif self.options.era != "legacy" and not self.in_era(id, method, message.get("params") or {}):
            pass
        elif method == "initialize":
            self.on_initialize(id, message["params"])
        elif method == "tools/list":
            self.on_list(id, message.get("params") or {})
        elif method == "tools/call":
            self.calls += 1
            params = self.params = message["params"]
            if self.options.count:
                with open(self.options.count, "a", encoding="ascii") as f:
                    f.write(params["name"] + "\n")
            tool = getattr(self, "tool_" + params["name"].replace("-", "_"), None)
            if tool:
                tool(id, params["arguments"])
            else:
                self.tool_unknown(id, params["arguments"], params["name"])
        elif method.startswith("tasks/"):
            self.on_task(id, method, message["params"])
        elif method.split("/")[0] in ("resources", "prompts"):
            self.on_offer(id, method, message.get("params") or {})
        elif method == "logging/setLevel":
            self.levels.append(message["params"]["level"])
            answer(id, {})
        else:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})

    # ---- the two eras --------------------------------------------------------------------------------------------

    def in_era(self, id, method, params):
        """Answers the requests that depend on the era; returns whether the caller still has to answer this one."""
        era, meta = self.options.era, params.get("_meta") or {}
        if method == "server/discover":
            self.discovers += 1
            self.on_discover(id)
            return False
        if era == "wedge" and self.discovers:
            return False
        if era == "fragile" and method == "initialize" and self.discovers:
            os._exit(1)
        if era == "taken" and method == "initialize" and self.discovers:
            refuse(id, -32600, "already initialized")
            return False
        if era not in ("modern", "late"):
            return True
        if method == "initialize":
            refuse(id, -32022, "Unsupported protocol version", supported=["2026-07-28"], requested=params["protocolVersion"])
            return False
        prefix = "io.modelcontextprotocol/"
        if meta.get(prefix + "protocolVersion") != "2026-07-28" or not isinstance(meta.get(prefix + "clientCapabilities"), dict):
            refuse(id, -32602, "a required field of _meta is missing")
            return False
        self.metas.append([method, meta])
        if method == "subscriptions/listen":
            self.on_listen(id, params["notifications"])
            return False
        return True

    def on_discover(self, id):
        era = self.options.era
        if era == "die":
            os._exit(1)
        elif era == "taken":
            refuse(id, -32601, "Method not found")
        elif era == "unsupported":
            refuse(id, -32022, "Unsupported protocol version", supported=["2024-11-05"], requested="2026-07-28")
        elif era == "bare":
            refuse(id, -32022, "Unsupported protocol version")
        elif era == "future":
            refuse(id, -32022, "Unsupported protocol version", supported=["2031-01-01"], requested="2026-07-28")
        elif era in ("modern", "late"):
            result = {"supportedVersions": ["2026-07-28"], "capabilities": self.declared({"listChanged": self.options.listens})}
            if self.options.instructions:
                result["instructions"] = self.options.instructions
            answer(id, {"resultType": "complete", **result, "ttlMs": 0, "cacheScope": "public"})
        elif era == "odd":
            answer(id, {})

    def declared(self, tools):
        return {"tools": tools} if self.options.declares is None else json.loads(self.options.declares)

    def on_listen(self, id, notifications):
        assert notifications == {"toolsListChanged": True}
        self.listen = id
        notify("notifications/subscriptions/acknowledged", notifications=notifications, **self.subscribed(id))

    def subscribed(self, id):
        return {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}

    def tool_metas(self, id, arguments):
        """Returns the _meta of every request."""
        answer(id, text_result("", structuredContent={"metas": self.metas, "discovers": self.discovers}))

    def tool_unlisten(self, id, arguments):
        """Ends the subscription, by an answer or by a notification."""
        if arguments.get("cancel"):
            notify("notifications/cancelled", requestId=self.listen)
        else:
            answer(self.listen, {"resultType": "complete", **self.subscribed(self.listen)})
        self.listen = None
        answer(id, text_result("ended"))

    def on_initialize(self, id, params):
        o = self.options
        assert params["clientInfo"]["name"] == "cloister" and isinstance(params["capabilities"], dict)
        self.capabilities = params["capabilities"]
        if o.refuse:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not today"}})
            return
        if o.bad_initialize:
            send_text(o.bad_initialize.replace("ID", str(id)))
            return
        if o.only and params["protocolVersion"] != o.only:
            refuse(id, -32602, "Unsupported protocol version", supported=["1999-01-01", o.only], requested=params["protocolVersion"])
            return
        result = {"protocolVersion": o.version or params["protocolVersion"], "serverInfo": {"name": "faulty", "version": "1"}}
        result["capabilities"] = self.declared({"listChanged": True})
        if o.instructions:
            result["instructions"] = o.instructions
        answer(id, result)

    def on_notification(self, method, params):
        if method == "notifications/initialized" and self.options.burst:
            for _ in range(5):
                notify("notifications/tools/list_changed")
        if method == "notifications/roots/list_changed":
            self.on_roots_changed()
        if method == "notifications/cancelled":
            self.cancelled.append(params["requestId"])

    # ---- tools/list ----------------------------------------------------------------------------------------------

    def names(self):
        own = [n[5:].replace("_", "-") for n in dir(self) if n.startswith("tool_") and n != "tool_unknown"]
        names = sorted(own) + [f"many-{i}" for i in range(self.options.many)] + self.options.tool + self.extra
        return [name for name in names if name not in self.removed]

    def describe(self, name):
        pad = "long " * 14000 if self.options.long_list and name == "echo" else ""
        return {
            "name": name,
            "title": name.title(),
            "description": f"Does {name}. {pad}",
            "inputSchema": SCHEMAS.get(name) or {"type": "object", "additionalProperties": True},
            "annotations": {"readOnlyHint": True},
            "_meta": {"not": "for us"},
            **({"execution": {"taskSupport": "required"}} if name == "job" else {}),
        }

    def bad_tools(self):
        deep = {"type": "object"}
        for _ in range(110):
            deep = {"not": deep}
        return [
            7,
            {"name": ""},
            {"name": "x" * 300},
            {"name": "nul\0"},
            {"name": "bad-schema", "inputSchema": []},
            {"name": "echo", "description": "a double"},
            {"name": "huge", "description": "y" * 1100000},
            {"name": "deep", "inputSchema": deep},
            {"name": "bare"},
        ]

    def on_list(self, id, params):
        o = self.options
        self.lists += 1
        if "tools" not in self.declared({}):
            os._exit(4)
        if o.no_tools:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
            return
        if o.bad_list:
            answer(id, {"tools": {"echo": {}}})
            return
        tools = [self.describe(name) for name in self.names()]
        if o.bad_tools:
            tools += self.bad_tools()
        if o.loop_cursor:
            answer(id, {"tools": tools if "cursor" not in params else [], "nextCursor": "again"})
            return
        page = int(params.get("cursor") or 0)
        size = -(-len(tools) // o.pages)
        result = {"tools": tools[page * size : (page + 1) * size]}
        if o.ttl is not None:
            result.update(resultType="complete", ttlMs=o.ttl, cacheScope="private")
        if page + 1 < o.pages:
            result["nextCursor"] = str(page + 1)
        answer(id, result)
        if o.die_after_list is not None:
            os._exit(o.die_after_list)

    # ---- tools ---------------------------------------------------------------------------------------------------

    def tool_unknown(self, id, arguments, name=None):
        if name in self.options.tool or name in self.extra or name in SCHEMAS or (name or "").startswith("many-"):
            answer(id, text_result("", structuredContent={"tool": name, "arguments": arguments}))
            return
        send({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "Unknown tool", "data": {"why": [1.50]}}})

    def tool_echo(self, id, arguments):
        answer(id, text_result("echo", structuredContent=arguments))

    def tool_raw(self, id, arguments):
        """Answers with this text as the result; the text need not be JSON."""
        send_text('{"jsonrpc":"2.0","id":%d,"result":%s}' % (id, arguments["result"]))

    def tool_line(self, id, arguments):
        """Writes this line instead of an answer."""
        send_text(arguments["line"].replace("ID", str(id)))

    def tool_error(self, id, arguments):
        answer(id, text_result("it went wrong", isError=True))

    def tool_crash(self, id, arguments):
        print("first words", file=sys.stderr)
        print("RuntimeError: crashed on purpose", file=sys.stderr, flush=True)
        os._exit(arguments.get("status", 3))

    def tool_kill(self, id, arguments):
        os.kill(os.getpid(), 9)

    def tool_answer_and_exit(self, id, arguments):
        answer(id, text_result("last words"))
        os._exit(0)

    def tool_close(self, id, arguments):
        """Closes one of its pipes and keeps running."""
        if arguments["fd"] == 1:
            os.close(1)
            time.sleep(3600)
        os.close(0)
        time.sleep(3600)

    def tool_duplicate(self, id, arguments):
        for _ in range(3):
            answer(id, text_result("duplicate"))

    def tool_slow(self, id, arguments):
        threading.Timer(arguments["seconds"], answer, (id, text_result("slow"))).start()

    def tool_hold(self, id, arguments):
        """Answers when `release` is called."""
        self.held.append(id)

    def tool_release(self, id, arguments):
        held, self.held = self.held, []
        for call in held:
            answer(call, text_result("held"))
        answer(id, text_result("released"))

    def tool_hang(self, id, arguments):
        pass

    def tool_stop_reading(self, id, arguments):
        answer(id, text_result("stopped"))
        time.sleep(arguments["seconds"])

    def tool_wrong_id(self, id, arguments):
        answer(id + 1000, text_result("wrong"))
        answer(str(id), text_result("a string"))
        answer(-1, text_result("negative"))
        send_text('{"jsonrpc":"2.0","id":%d.0,"result":{"content":[]}}' % id)
        send_text('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')
        answer(id, text_result("right"))

    def tool_batch(self, id, arguments):
        notification = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        send([notification, {"jsonrpc": "2.0", "id": id, "result": text_result("in a batch")}, [1]])

    def tool_big(self, id, arguments):
        answer(id, text_result("y" * int(arguments["mib"] * 1024 * 1024)))

    def tool_blocks(self, id, arguments):
        """Returns content of these kinds."""
        answer(id, {"content": [BLOCKS[kind] for kind in arguments["kinds"]]})

    def tool_remove(self, id, arguments):
        """Removes a tool and adds another one."""
        self.removed.append(arguments["name"])
        self.extra.append(arguments["add"])
        notify("notifications/tools/list_changed")
        answer(id, text_result("changed"))

    def tool_noise(self, id, arguments):
        """Writes this many MiB to stderr, then answers."""
        line = b"noise " * 170 + b"\n"
        for _ in range(arguments["mib"] << 10):
            os.write(2, line)
        answer(id, text_result("done"))

    def tool_overdue(self, id, arguments):
        """Answers after this many seconds, and then a second time."""

        def again():
            answer(id, text_result("late"))
            answer(id, text_result("again"))

        threading.Timer(arguments["seconds"], again).start()

    def tool_count(self, id, arguments):
        """Returns the number of bytes of text that arrived."""
        answer(id, text_result(str(len(arguments["text"]))))

    def tool_stderr(self, id, arguments):
        for i in range(arguments["lines"]):
            print(f"line {i} \x1b[31m", file=sys.stderr)
        sys.stderr.write("z" * 100000 + "\n")
        sys.stderr.flush()
        answer(id, text_result("written"))

    def tool_flood(self, id, arguments):
        """Sends notifications, then the answer."""
        line = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n'
        with lock:
            for _ in range(arguments["n"] // 100):
                out.write(line * 100)
            out.flush()
        answer(id, text_result("flooded"))

    def tool_change(self, id, arguments):
        """Adds a tool and notifies the client many times."""
        self.extra.append(arguments["name"])
        lists = self.lists
        about = self.subscribed(self.listen if arguments.get("mine", True) else 999) if self.listen else {}
        for _ in range(arguments["times"]):
            notify("notifications/tools/list_changed", **about)
        answer(id, text_result(str(lists)))

    def tool_lists(self, id, arguments):
        """Returns the number of requests for the list, the cancelled calls and the number of calls."""
        answer(id, text_result("", structuredContent={"lists": self.lists, "cancelled": self.cancelled, "calls": self.calls}))

    def tool_meta(self, id, arguments):
        """Returns the _meta of this call, and uses its progress token."""
        meta = self.params.get("_meta", {})
        for done in range(3):
            notify("notifications/progress", progressToken=meta.get("progressToken"), progress=done, total=3)
        answer(id, text_result("", structuredContent={"id": id, "meta": meta}))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--words", help="written on stderr first")
    p.add_argument("--die", type=int, help="end at once with this status")
    p.add_argument("--never", action="store_true", help="answer nothing, ever")
    p.add_argument("--slow-start", type=float, default=0)
    p.add_argument("--garbage", action="store_true", help="what is not JSON-RPC on stdout")
    p.add_argument("--stderr-flood", action="store_true")
    p.add_argument("--refuse", action="store_true", help="an error for initialize")
    p.add_argument("--bad-initialize", help="this line for initialize, with ID replaced")
    p.add_argument("--version", help="answer with this protocolVersion")
    p.add_argument("--only", help="refuse initialize with another protocolVersion than this")
    p.add_argument("--declares", help="the capabilities, as JSON; without tools in them, tools/list ends the server")
    p.add_argument("--instructions")
    eras = ["legacy", "modern", "late", "die", "silent", "wedge", "taken", "fragile", "unsupported", "bare", "future", "odd"]
    p.add_argument("--era", default="legacy", choices=eras, help="what server/discover does")
    p.add_argument("--listens", action="store_true", help="says when its tools change, if it is asked to (modern)")
    p.add_argument("--ttl", type=int, help="ttlMs of tools/list")
    p.add_argument("--burst", action="store_true", help="five list_changed after initialized")
    p.add_argument("--pages", type=int, default=1)
    p.add_argument("--offer-pages", type=int, default=1, help="of resources/list")
    p.add_argument("--schemas", help="a JSON file of inputSchemas by the name of the tool")
    p.add_argument("--count", help="a file to which the name of each called tool is added")
    p.add_argument("--pid-file", help="a file to which the pid is added")
    p.add_argument("--ignore-term", action="store_true", help="neither SIGTERM nor the end of stdin ends it")
    p.add_argument("--tool", action="append", default=[], help="one tool more, of this name")
    p.add_argument("--many", type=int, default=0, help="number of further tools")
    p.add_argument("--long-list", action="store_true", help="a description of 70 KB")
    p.add_argument("--loop-cursor", action="store_true", help="pages without end")
    p.add_argument("--no-tools", action="store_true", help="tools/list is not known")
    p.add_argument("--bad-list", action="store_true")
    p.add_argument("--bad-tools", action="store_true", help="unusable tools beside usable ones")
    p.add_argument("--die-after-list", type=int)
    options = p.parse_args()
    if options.schemas:
        with open(options.schemas, encoding="utf-8") as f:
            SCHEMAS.update(json.load(f))
    Server(options).run()


if __name__ == "__main__":
    main()
