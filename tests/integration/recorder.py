"""Records the MCP messages between a client and a server, and validates them against the JSON schema of their revision.

    recorder.py FILE COMMAND…        runs a stdio server and writes each line of both directions to FILE, as JSON

Relay does the same for an HTTP server. The schemas are those in the conformance suite's program.
"""

import json
import os
import socket
import subprocess
import sys
import threading

# The schema name of each method's result.
RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "logging/setLevel": "EmptyResult",
}
MODERN = "2026-07-28"

# Prints {revision: schema} from the suite's program: its object literals that begin with $schema or $defs.
EXTRACT = r"""
const text = require('fs').readFileSync(process.argv[1], 'utf8'), found = {};
function end(at) {
  for (let depth = 0, quote = ''; at < text.length; at++) {
    const c = text[at];
    if (c === '\\') at++;
    else if (quote) quote = c === quote ? '' : quote;
    else if (c === '`' || c === '"' || c === "'") quote = c;
    else if (c === '{') depth++;
    else if (c === '}' && --depth === 0) return at + 1;
  }
}
for (const key of ['{$schema:', '{$defs:', '{definitions:'])
  for (let at = text.indexOf(key); at >= 0; at = text.indexOf(key, at + 1)) {
    const body = text.slice(at, end(at));
    if (!/[{,]JSONRPCMessage:/.test(body)) continue;
    const schema = (0, eval)('(' + body + ')');
    if (schema.$defs || schema.definitions) found[Object.keys(found).length] = schema;
  }
console.log(JSON.stringify(found));
"""


def revision_of(schema):
    """Returns the revision of a schema, determined by what each revision added."""
    names = schema.get("$defs") or schema["definitions"]
    for revision, name in ((MODERN, "DiscoverResult"), ("2025-11-25", "Task"), ("2025-06-18", "ElicitRequest"), ("2025-03-26", "JSONRPCBatchRequest")):
        if name in names:
            return revision
    return "2024-11-05"


def schemas(node, program):
    done = subprocess.run([node, "-e", EXTRACT, program], stdout=subprocess.PIPE, check=True)
    return {revision_of(schema): schema for schema in json.loads(done.stdout).values()}


class Validator:
    """Validates messages against the schema of one revision."""

    def __init__(self, schema):
        import jsonschema
        self.names = schema.get("$defs") or schema["definitions"]
        self.place = "$defs" if "$defs" in schema else "definitions"
        self.schema = schema
        self.new = lambda name: jsonschema.Draft202012Validator({**schema, "$ref": f"#/{self.place}/{name}"} if "anyOf" not in schema
                                                                else {self.place: self.names, "$ref": f"#/{self.place}/{name}"})
        self.methods = {}
        self.count = 0

    def wrong(self, name, value):
        """Returns the errors as text."""
        self.count += 1
        if name not in self.names:
            return [f"there is no {name}"]
        return [f"{name}: {list(e.absolute_path)}: {e.message[:300]}" for e in self.new(name).iter_errors(value)]

    def check(self, message, of_client):
        if isinstance(message, list):
            return [line for one in message for line in self.check(one, of_client)]
        found = self.wrong("JSONRPCMessage", message)
        side = "Client" if of_client else "Server"
        if "method" in message and "id" in message:
            self.methods[(of_client, message["id"])] = message["method"]
            return found + self.wrong(f"{side}Request", message)
        if "method" in message:
            return found + self.wrong(f"{side}Notification", message)
        method = self.methods.get((not of_client, message.get("id")))
        if "result" in message and method in RESULTS and RESULTS[method] in self.names:
            found += self.wrong(RESULTS[method], message["result"])
        return found


class Relay:
    """Listens on a new port and passes bytes to and from a server; keeps both directions of each connection."""

    def __init__(self, address):
        self.address = address
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.address)
            both = (bytearray(), bytearray())
            self.connections.append(both)
            for source, to, kept in ((client, server, both[0]), (server, client, both[1])):
                threading.Thread(target=self.copy, args=(source, to, kept), daemon=True).start()

    @staticmethod
    def copy(source, to, kept):
        try:
            while data := source.recv(1 << 16):
                kept += data
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            for s in (source, to):
                s.close()

    def close(self):
        self.listener.close()

    def messages(self):
        """Returns (whether the client sent it, message) for all connections."""
        for both in self.connections:
            for of_client, data in zip((True, False), both):
                for body, is_events in bodies(bytes(data)):
                    yield from ((of_client, m) for m in parse(body, is_events))


def bodies(data):
    """Returns (body, whether it is a stream of events) for each HTTP message."""
    while b"\r\n\r\n" in data:
        head, data = data.split(b"\r\n\r\n", 1)
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(b":") for line in head.split(b"\r\n")[1:])}
        body = b""
        if headers.get(b"transfer-encoding") == b"chunked":
            while data:
                size, _, data = data.partition(b"\r\n")
                n = int(size or b"0", 16)
                body, data = body + data[:n], data[n + 2:]
                if n == 0:
                    break
        else:
            n = int(headers.get(b"content-length", 0))
            body, data = data[:n], data[n:]
        yield body, headers.get(b"content-type", b"").startswith(b"text/event-stream")


def parse(body, is_events):
    if not is_events:
        return [json.loads(body)] if body.lstrip()[:1] in (b"{", b"[") else []
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def main():
    path, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock = threading.Lock()

    def copy(source, to, of_client):
        with open(path, "a", encoding="utf-8") as log:
            for line in source:
                with lock:
                    print(json.dumps([of_client, line.decode()]), file=log, flush=True)
                to.write(line)
                to.flush()
        to.close()

    threads = [threading.Thread(target=copy, args=args) for args in ((sys.stdin.buffer, child.stdin, True), (child.stdout, sys.stdout.buffer, False))]
    for thread in threads:
        thread.daemon = True
        thread.start()
    status = child.wait()
    threads[1].join()
    os._exit(status)


if __name__ == "__main__":
    main()
