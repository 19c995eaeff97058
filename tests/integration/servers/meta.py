#!/usr/bin/env python3
"""An MCP server whose one tool gives back the _meta of its call. Standard library only."""

import json
import sys

TOOL = {"name": "meta", "inputSchema": {"type": "object"}}

for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "meta", "version": "1"}}
    elif m["method"] == "tools/list":
        result = {"tools": [TOOL]}
    elif m["method"] == "tools/call":
        meta = m["params"].get("_meta", {})
        result = {"content": [{"type": "text", "text": json.dumps(meta)}], "structuredContent": meta}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
