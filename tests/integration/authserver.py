"""An MCP server that requires a token, and its authorization server, on one loopback port. A test sets how hostile both are.

    world = World()
    world.metadata["issuer"] = "https://elsewhere.example"      # the content of the metadata documents
    world.replies["/token"] = lambda request: (500, {}, b"")    # replaces the answer of a path
    world.seen                                                  # [(method, path, query or form)]
"""

import base64
import hashlib
import http.server
import json
import secrets
import ssl
import threading
import urllib.parse


class World:
    def __init__(self, context=None):
        handler = type("Handler", (Handler,), {"world": self})
        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.httpd.daemon_threads = True
        self.httpd.handle_error = lambda *_: None  # a client that refuses an answer closes its connection
        if context:
            self.httpd.socket = context.wrap_socket(self.httpd.socket, server_side=True)
        host = "localhost" if context else "127.0.0.1"
        self.origin = f"{'https' if context else 'http'}://{host}:{self.httpd.server_port}"
        self.url = self.origin + "/mcp"
        self.seen, self.replies, self.codes = [], {}, {}
        self.access, self.refresh, self.clients = set(), set(), {}
        self.challenge = f'Bearer resource_metadata="{self.origin}/prm"'
        self.prm = {"resource": self.url, "authorization_servers": [self.origin]}
        self.prm_path = "/prm"
        self.metadata_path = "/.well-known/oauth-authorization-server"
        self.metadata = {
            "issuer": self.origin,
            "authorization_endpoint": self.origin + "/authorize",
            "token_endpoint": self.origin + "/token",
            "registration_endpoint": self.origin + "/register",
            "revocation_endpoint": self.origin + "/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "response_types_supported": ["code"],
        }
        self.redirect = {}  # changes the parameters of the redirect to the browser; None removes a parameter
        self.token_extra = {"expires_in": 3600}
        self.error = None  # the error of the token endpoint
        self.refused = 0  # requests to the MCP server without a valid token
        self.clients_alone = False  # whether clients get tokens for themselves
        self.forbidden = None  # the challenge of tools/call
        threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @staticmethod
    def browser(origin):
        """Returns the metadata members for the login page and client registration."""
        return {"authorization_endpoint": origin + "/authorize", "registration_endpoint": origin + "/register",
                "code_challenge_methods_supported": ["S256"], "grant_types_supported": ["authorization_code"]}

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()

    def count(self, path):
        return sum(1 for _, p, _ in self.seen if p == path)

    def last(self, path):
        return [form for _, p, form in self.seen if p == path][-1]


def mcp(method, params):
    """Returns the MCP server's answer to a request with a valid token."""
    if method == "initialize":
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": "echo: " + params["arguments"]["text"]}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


class Handler(http.server.BaseHTTPRequestHandler):
    world = None
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass

    def answer(self, status, headers=None, body=b""):
        if not isinstance(body, bytes):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def handle_any(self):
        w, parts = self.world, urllib.parse.urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.headers.get("Content-Type", "").startswith("application/json"):
            form = json.loads(text) if text else {}
        else:
            form = dict(urllib.parse.parse_qsl(text or parts.query))
        w.seen.append((self.command, parts.path, {**form, "_authorization": self.headers.get("Authorization")}))
        if parts.path in w.replies:
            return self.answer(*w.replies[parts.path](form))
        fixed = {w.prm_path: w.prm, w.metadata_path: w.metadata}
        if parts.path in fixed and fixed[parts.path] is not None:
            return self.answer(200, {}, fixed[parts.path])
        method = getattr(self, "on_" + parts.path.strip("/").replace("/", "_").replace(".", "_").replace("-", "_"), None)
        return method(form) if method else self.answer(404)

    do_GET = do_POST = handle_any

    def on_mcp(self, form):
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in self.world.access:
            self.world.refused += 1
            return self.answer(401, {"WWW-Authenticate": self.world.challenge} if self.world.challenge else {})
        if form.get("method") == "tools/call" and self.world.forbidden:
            return self.answer(403, {"WWW-Authenticate": self.world.forbidden})
        if "id" not in form:
            return self.answer(202)
        return self.answer(200, {}, {"jsonrpc": "2.0", "id": form["id"], **mcp(form["method"], form.get("params") or {})})

    def on_register(self, form):
        client = {"client_id": "client-" + secrets.token_hex(4), "token_endpoint_auth_method": form["token_endpoint_auth_method"]}
        if form["token_endpoint_auth_method"] != "none":
            client["client_secret"] = "registered-" + secrets.token_hex(8)
        self.world.clients[client["client_id"]] = client
        return self.answer(201, {}, client)

    def on_authorize(self, form):
        code = secrets.token_hex(8)
        self.world.codes[code] = form
        back = {"code": code, "state": form.get("state"), **self.world.redirect}
        query = urllib.parse.urlencode({k: v for k, v in back.items() if v is not None})
        return self.answer(302, {"Location": f"{form['redirect_uri']}?{query}"})

    def on_token(self, form):
        w = self.world
        if w.error:
            return self.answer(400, {}, {"error": w.error, "error_description": "\x1b[31mhostile " + str(form)})
        if form.get("grant_type") == "authorization_code":
            asked = w.codes.pop(form.get("code"), None)
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            good = asked and base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"] and \
                asked["code_challenge_method"] == "S256" and asked["redirect_uri"] == form["redirect_uri"] and \
                asked.get("resource") == form.get("resource")
        elif form.get("grant_type") == "client_credentials":
            good = w.clients_alone
        else:
            good = form.get("refresh_token") in w.refresh
            w.refresh.discard(form.get("refresh_token"))
        if not good:
            return self.answer(400, {}, {"error": "invalid_grant"})
        tokens = {"access_token": "access-" + secrets.token_hex(16), "token_type": "Bearer",
                  "refresh_token": "refresh-" + secrets.token_hex(16), **w.token_extra}
        if form["grant_type"] == "client_credentials":
            del tokens["refresh_token"]
        w.access.add(tokens["access_token"])
        if tokens.get("refresh_token"):
            w.refresh.add(tokens["refresh_token"])
        return self.answer(200, {}, tokens)

    def on_revoke(self, form):
        self.world.access.discard(form["token"])
        self.world.refresh.discard(form["token"])
        return self.answer(200)


def tls_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
