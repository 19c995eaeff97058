"""Lines of JSON-RPC to the client of faulty.py."""

import json
import sys
import threading

lock = threading.Lock()
out = sys.stdout.buffer


def send_text(text):
    with lock:
        out.write(text.encode() + b"\n")
        out.flush()


def send(message):
    send_text(json.dumps(message, separators=(",", ":")))


def answer(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})


def text_result(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}


def refuse(id, code, message, **data):
    send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **({"data": data} if data else {})}})


def notify(method, **params):
    send({"jsonrpc": "2.0", "method": method, "params": params})
