"""A minimal MCP server over standard input and output, with the tool `echo`: as small as one in Python can be.

    echo.py [TOOLS]

With a number it lists that many tools, echo0 and so on, which all do the same. Without a number it also has `blob`, whose result has the
requested size.
"""
import json
import sys

NAMES = [f"echo{i}" for i in range(int(sys.argv[1]))] if len(sys.argv) > 1 else ["echo"]
TOOLS = [{"name": name, "description": "gives back what it gets",
          "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}} for name in NAMES]
if len(sys.argv) == 1:
    TOOLS.append({"name": "blob", "description": "returns this number of bytes",
                  "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}}})


def answer(message):
    method = message["method"]
    if method == "initialize":
        return {"result": {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                           "serverInfo": {"name": "echo", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        arguments = message["params"]["arguments"]
        text = "x" * arguments["bytes"] if message["params"]["name"] == "blob" else arguments["message"]
        return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


for line in sys.stdin.buffer:
    request = json.loads(line)
    if "id" in request:
        reply = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)})
        sys.stdout.buffer.write(reply.encode() + b"\n")
        sys.stdout.buffer.flush()
