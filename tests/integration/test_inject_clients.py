"""Secrets for HTTPS requests by the clients that code has: curl, git, GnuTLS (wget) and Node.js of the host, from a read-only mount, and
Python's packages of CLOISTER_VENV. Each gets its answer by the certificates that the environment names, and its host gets the value."""

import base64
import glob
import json
import os
import subprocess
import urllib.parse

import harness
import test_inject

TOKEN = test_inject.TOKEN
BASIC = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()

GUEST = r"""
import subprocess, sys
sys.path.insert(0, "/packages")
LIBRARIES = ":".join(f"/host/lib/{name}" for name in os.listdir("/host/lib") if name.endswith("-linux-gnu"))
TOOLS = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "HOME": "/tmp", "GIT_EXEC_PATH": "/host/lib/git-core", "GIT_TEMPLATE_DIR": "/tmp", "GIT_TERMINAL_PROMPT": "0"}
def tool(*words):
    done = subprocess.run([f"/host/bin/{words[0]}", *words[1:]], env=TOOLS, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() if done.returncode == 0 else f"{done.returncode}: {done.stderr.strip()[-600:]}"
def told(function):
    try:
        return function()
    except Exception as e:
        return f"{type(e).__name__}: {e}"
HEADERS = {"X-Token": T}
async def by_aiohttp(**options):
    import aiohttp
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(URL + "/hello", headers=HEADERS, **options) as answer:
            return await answer.text()
def by_requests():
    import requests
    with requests.Session() as session:
        session.post(URL + "/hello", json={"body": F}, auth=("me", T)).raise_for_status()
        return session.get(URL + "/hello", headers=HEADERS).text
def by_httpx():
    import httpx
    with httpx.Client(headers=HEADERS) as client:
        client.post(URL + "/hello", data={"body": F}).raise_for_status()
        return client.get(URL + "/hello").text
def by_git():
    url = URL.replace("https://", f"https://me:{T}@") + "/repo.git"
    said = tool("git", "clone", "-q", url, "/tmp/clone")
    if said: return said
    with open("/tmp/clone/file", "a") as f: f.write("pushed")
    git = "git", "-C", "/tmp/clone", "-c", "user.name=a", "-c", "user.email=a@b"
    return tool(*git, "commit", "-qam", "two") or tool(*git, "push", "-q") or open("/tmp/clone/file").read()
# fetch() uses a proxy of the environment since version 24: this script makes the tunnel itself.
NODE = '''
const [port, token] = process.argv.slice(1)
require("http").request({host: "127.0.0.1", port: 3128, method: "CONNECT", path: `localhost:${port}`, headers: {host: `localhost:${port}`}}).on("connect", (_, socket) => {
  const tls = require("tls").connect({socket, servername: "localhost"}, () => tls.write(`GET /hello HTTP/1.0\\r\\nHost: localhost:${port}\\r\\nX-Token: ${token}\\r\\n\\r\\n`))
  let text = ""
  tls.on("data", d => text += d).on("end", () => console.log(text.split("\\r\\n\\r\\n")[1])).on("error", e => console.log(String(e)))
}).end()
'''
"""

PEERS = {
    "curl": 'tool("curl", "-sS", "-H", f"X-Token: {T}", URL + "/hello")',
    "curl, user": 'tool("curl", "-sS", "-u", f"me:{T}", URL + "/hello")',
    "curl, http 2": 'tool("curl", "-sS", "--http2", "--compressed", "-H", f"X-Token: {T}", URL + "/hello")',
    "curl, TLS 1.2": 'tool("curl", "-sS", "--tls-max", "1.2", "-H", f"X-Token: {T}", URL + "/hello")',
    "curl, body": 'tool("curl", "-sS", "-H", f"X-Token: {T}", "-H", "Expect: 100-continue", "--data-urlencode", "b=" + F, URL + "/hello")',
    "git": "by_git()",
    "GnuTLS": 'tool("wget", "-q", "-O", "-", "--ca-certificate", BUNDLE, "--header", f"X-Token: {T}", URL + "/hello")',
    "node": 'tool("node", "-e", NODE, URL.rpartition(":")[2], T)',
    "urllib": 'fetch(URL + "/hello", **HEADERS)[1]',
    "requests": "by_requests()",
    "httpx": "by_httpx()",
    "aiohttp": "asyncio.run(by_aiohttp())",
}
# Without the certificate of the session, no client gets an answer.
REFUSED = {
    "curl, other certificates": ('tool("curl", "-sS", "--cacert", "/packages/certifi/cacert.pem", URL + "/hello")', "certificate"),
    "GnuTLS, no certificates": ('tool("wget", "-O", "-", URL + "/hello")', "certificate"),
    "aiohttp, other certificates": ('asyncio.run(by_aiohttp(ssl=ssl.create_default_context(cafile="/packages/certifi/cacert.pem")))', "CERTIFICATE_VERIFY_FAILED"),
}


class Host(test_inject.Host):
    """/hello answers who has the value in X-Token or as password; /repo.git is a repository for Git's protocol over HTTP."""

    repositories = None

    def answer(self, peer):
        head, body = self.read(peer)
        if head is None:
            return False
        method, target, _ = head.decode("latin1").split("\r\n")[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head.decode("latin1").split("\r\n")[1:])}
        if headers.get("x-token") != TOKEN and headers.get("authorization") != BASIC:
            peer.sendall(b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 2\r\n\r\nno')
        elif target.startswith("/repo.git/"):
            peer.sendall(self.git(method, target, headers, body))
        else:
            text = f"hello {TOKEN}".encode()
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        return True

    def git(self, method, target, headers, body):
        path, _, query = target.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": self.repositories, "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "me", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": method, "CONTENT_TYPE": headers.get("content-type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""), "GIT_PROTOCOL": headers.get("git-protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env={**os.environ, **variables}, capture_output=True, check=False)
        said, _, content = done.stdout.partition(b"\r\n\r\n")
        status = [line[8:] for line in said.split(b"\r\n") if line.startswith(b"Status: ")]
        return b"HTTP/1.1 " + (status[0] if status else b"200 OK") + b"\r\n" + said + b"\r\nContent-Length: %d\r\n\r\n" % len(content) + content


class Clients(test_inject.Case):
    def start(self, tls):
        host = Host(tls)
        host.repositories = self.path("repositories")
        self.addCleanup(host.close)
        return host

    def read(self, *words):
        return subprocess.run(["git", "-C", os.path.join(self.host.repositories, "repo.git"), *words], check=True, capture_output=True, text=True).stdout

    def make_repository(self):
        work, bare = self.path("work"), os.path.join(self.host.repositories, "repo.git")
        for words in (["init", "-q", work], ["-C", work, "commit", "--allow-empty", "-qm", "zero"]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)
        with open(os.path.join(work, "file"), "w", encoding="ascii") as f:
            f.write("cloned ")
        for words in (["-C", work, "add", "file"], ["-C", work, "commit", "-qm", "one"], ["clone", "-q", "--bare", work, bare]):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    def test_each_client(self):
        packages = glob.glob(os.path.join(os.environ["CLOISTER_VENV"], "lib", "python3*", "site-packages"))
        for name in "requests", "httpx", "aiohttp":
            self.assertTrue(packages and os.path.isdir(os.path.join(packages[0], name)), f"{name} is not in CLOISTER_VENV: run './quickstart test'")
        self.make_repository()
        server = self.serve(mounts=[{"source": "/usr", "target": "/host", "mode": "ro"}, {"source": packages[0], "target": "/packages", "mode": "ro"}])
        self.ask(server, f'URL = "https://localhost:{self.host.port}"\n' + GUEST)
        rows = ", ".join(f"{name!r}: told(lambda: {code})" for name, code in [*PEERS.items(), *((name, code) for name, (code, _) in REFUSED.items())])
        said = self.ask(server, f"{{name: text.replace(T, 'T') for name, text in {{{rows}}}.items()}}", timeout=300)
        for name in PEERS:
            self.assertEqual((name, said[name]), (name, "cloned pushed" if name == "git" else "hello T"), json.dumps(said, indent=1))
        for name, (_, why) in REFUSED.items():
            self.assertIn(why, said[name], name)
        self.assertEqual(self.read("show", "HEAD:file"), "cloned pushed")
        # Each value came in the encoding of its place, and no placeholder came.
        self.assertIn({"body": test_inject.FORM}, [json.loads(body) for _, body in self.host.seen if body.startswith(b"{")])
        self.assertIn(b"b=" + urllib.parse.quote(test_inject.FORM, safe="").encode(), [body for _, body in self.host.seen])
        self.assertFalse([head for head, body in self.host.seen if b"cloister-" in head + body])
        server.close()
        self.check_absent(server.log())


if __name__ == "__main__":
    harness.main()
