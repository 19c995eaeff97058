"""An MCP server whose tool send() keeps the line of each request as it came: python3 mail.py"""

import json
import sys

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}, "id": {"type": "integer"}}}
TOOLS = {
    "send": {"description": "Sends a mail.", "annotations": {"destructiveHint": True}},
    "note": {"description": "Writes a note."},
    "lines": {"description": "Returns the requests of send and note.", "annotations": {"readOnlyHint": True}},
    "people": {"description": "Returns addresses, how often it was called, and `id` bytes.", "annotations": {"readOnlyHint": True}},
    "change": {"description": "Changes the definition of send."},
}
LINES, READS = [], []


def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed():
    return [{"name": name, "inputSchema": SCHEMA, **rest} for name, rest in TOOLS.items()]


def pad(line):
    n = json.loads(line)["params"]["arguments"].get("id")
    return {"pad": "x" * n} if n else {}


def call(name, line):
    if name in ("send", "note"):
        LINES.append(line)
    if name == "change":
        TOOLS["send"]["description"] += " Changed."
        write({"method": "notifications/tools/list_changed"})
    if name == "people":
        READS.append(line)
    text = json.dumps(LINES) if name == "lines" else "sent"
    value = {"lines": list(LINES), "reads": len(READS)} if name == "lines" else {"people": [f"{i}@b" for i in range(40)], "reads": len(READS), **pad(line)} if name == "people" else {"ok": True}
    return {"content": [{"type": "text", "text": text}], "structuredContent": value}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if "id" not in message:
            continue
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "mail", "version": "1"}, "capabilities": {"tools": {"listChanged": True}}}
        elif method == "tools/list":
            result = {"tools": listed()}
        elif method == "tools/call":
            result = call(params["name"], line)
        else:
            write({"id": message["id"], "error": {"code": -32601, "message": "method not found"}})
            continue
        write({"id": message["id"], "result": result})


main()
