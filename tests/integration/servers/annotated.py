#!/usr/bin/env python3
"""An MCP server whose tools have annotations; each call answers its arguments. Standard library only."""

import json
import sys

PATH = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
TOOLS = [
    {"name": name, "inputSchema": PATH, "annotations": annotations}
    for name, annotations in (
        ("read_file", {"readOnlyHint": True, "openWorldHint": False}),
        ("write_file", {"openWorldHint": False}),
        ("move_file", {"destructiveHint": True, "openWorldHint": False}),
        ("delete_file", {"destructiveHint": True, "openWorldHint": False}),
        ("publish", {"destructiveHint": False}),
    )
]

for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "annotated", "version": "1"}}
    elif m["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif m["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(m["params"].get("arguments"))}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
