#!/usr/bin/env python3
"""An MCP server that misbehaves on request. Standard library only; each option is one way to be well or badly behaved.

    fixture-server.py [--name NAME] [--hang-start] [--slow-start S] [--noise] [--stderr-flood N] [--pages N]
                      [--exit-at-start] [--ignore-eof] [--pid-file FILE] [--big-list N] [--tool NAME]…
                      [--no-answer METHOD] [--crash-once FILE]
"""

import argparse
import json
import os
import signal
import sys
import threading
import time

ANY = {"type": "object"}


def tool(name, description="", schema=None, **rest):
    return {"name": name, "description": description or name, "inputSchema": schema or ANY, **rest}


def properties(required=(), **given):
    return {"type": "object", "properties": given, "required": list(required)}


TOOLS = [
    tool("echo", "Gives back its arguments.", ANY),
    tool("add", "a + b", properties(("a", "b"), a={"type": "integer"}, b={"type": "integer"}),
         outputSchema=properties(("sum",), sum={"type": "integer"})),
    tool("text", "Gives back one text.", properties(("text",), text={"type": "string"})),
    tool("blocks", "Two texts and an image.", ANY),
    tool("wrapped", "A bare list, as FastMCP wraps it.", ANY,
         outputSchema={**properties(("result",), result={"type": "array"}), "x-fastmcp-wrap-result": True}),
    tool("fail", "Always fails.", ANY),
    tool("protocol-error", "Answers with a JSON-RPC error.", ANY),
    tool("sleep", "Sleeps.", properties(("seconds",), seconds={"type": "number"})),
    tool("big", "n bytes of text.", properties(("n",), n={"type": "integer"})),
    tool("length", "The length of a text.", properties(("text",), text={"type": "string"})),
    tool("crash", "Ends the server.", ANY),
    tool("environment", "The server's environment, uid, cwd and pid.", ANY),
    tool("create-event", "A name that is no identifier.", properties(("title",), title={"type": "string"})),
    tool("class", "A name that is a keyword.", ANY),
    tool("optional", "An optional argument.", properties(("a",), a={"type": "string"}, b={"type": "string"})),
]

lock = threading.Lock()


def put(message):
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def structured(value):
    return {**text(json.dumps(value)), "structuredContent": value}


def environment():
    with open("/proc/self/status", encoding="ascii") as f:
        caps = next(line.split()[1] for line in f if line.startswith("CapEff"))
    return {"env": dict(os.environ), "uid": os.getuid(), "cwd": os.getcwd(), "pid": os.getpid(), "caps": caps}


def blocks():
    image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return {"content": [
        {"type": "text", "text": "one"}, {"type": "text", "text": "2"},
        {"type": "image", "data": image, "mimeType": "image/png"},
    ]}


def call(name, arguments):
    if name == "echo":
        return structured(arguments)
    if name == "add":
        return structured({"sum": arguments["a"] + arguments["b"]})
    if name == "text":
        return text(arguments["text"])
    if name == "blocks":
        return blocks()
    if name == "wrapped":
        return structured({"result": [1, 2, 3]})
    if name == "fail":
        return {**text("it went wrong"), "isError": True}
    if name == "sleep":
        time.sleep(arguments["seconds"])
        return text("slept")
    if name == "big":
        return text("x" * arguments["n"])
    if name == "length":
        return structured({"length": len(arguments["text"])})
    if name == "crash":
        os._exit(9)
    if name == "environment":
        return structured(environment())
    return structured({"tool": name, "arguments": arguments})


def listing(options, params):
    tools = [tool(name) for name in options.tool] or TOOLS
    if options.big_list:
        tools = [tool(f"tool_{i}", "d" * 200) for i in range(options.big_list)]
    if not options.pages:
        return {"tools": tools}
    page = int(params.get("cursor", "0"))
    answer = {"tools": [tool(f"page_{page}")]}
    if page + 1 < options.pages:
        answer["nextCursor"] = str(page + 1)
    return answer


def answer(options, message):
    method, params, identifier = message["method"], message.get("params") or {}, message["id"]
    if method in options.no_answer:
        return
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": options.name, "version": "1"}
        put({"id": identifier, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        put({"id": identifier, "result": listing(options, params)})
    elif method == "ping":
        put({"id": identifier, "result": {}})
    elif method != "tools/call":
        put({"id": identifier, "error": {"code": -32601, "message": f"no method {method}"}})
    elif params["name"] == "protocol-error":
        put({"id": identifier, "error": {"code": -32000, "message": "not today", "data": {"why": "test"}}})
    else:
        put({"id": identifier, "result": call(params["name"], params.get("arguments") or {})})


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="fixture")
    parser.add_argument("--hang-start", action="store_true")
    parser.add_argument("--slow-start", type=float, default=0)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--stderr-flood", type=int, default=0)
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--exit-at-start", action="store_true")
    parser.add_argument("--ignore-eof", action="store_true")
    parser.add_argument("--pid-file")
    parser.add_argument("--big-list", type=int, default=0)
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("--no-answer", action="append", default=[])
    parser.add_argument("--crash-once")
    return parser.parse_args()


def begin(options):
    if options.pid_file:
        with open(options.pid_file, "a", encoding="ascii") as f:
            f.write(f"{os.getpid()} {os.readlink('/proc/self/ns/pid')}\n")
    if options.exit_at_start:
        print("cannot start: the reason", file=sys.stderr)
        sys.exit(7)
    if options.crash_once and not os.path.exists(options.crash_once):
        open(options.crash_once, "w", encoding="ascii").close()
        os._exit(9)
    if options.ignore_eof:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.hang_start:
        time.sleep(3600)
    time.sleep(options.slow_start)
    if options.noise:
        print("Starting the server...\n\n{not json\n[]", flush=True)
    sys.stderr.write("e" * options.stderr_flood)
    sys.stderr.flush()


def main():
    options = parse()
    begin(options)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=answer, args=(options, message), daemon=True).start()
        if options.noise:
            print("noise in between", flush=True)
    if options.ignore_eof:
        time.sleep(3600)


if __name__ == "__main__":
    main()
