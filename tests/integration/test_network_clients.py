"""HTTPS by common clients, through the proxy, to a server on loopback with its own certificate: curl and git of the host, from a
read-only mount, node, and Python's packages. Run it by hand: it downloads packages."""

import functools
import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading
import unittest
import zipfile

import harness
from test_network import Network

PACKAGES = ("requests", "httpx", "aiohttp", "urllib3", "pip")
SCRIPT = r"""
import asyncio, json, os, subprocess, sys
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
with open("/tmp/ca.pem", "w") as f:
    f.write(PEM)
URL = f"https://localhost:{PORT}"
TOOLS = {**os.environ, "LD_LIBRARY_PATH": "/host/lib/x86_64-linux-gnu:/host/lib", "HOME": "/tmp", "SSL_CERT_FILE": "/tmp/ca.pem",
         "CURL_CA_BUNDLE": "/tmp/ca.pem", "GIT_SSL_CAINFO": "/tmp/ca.pem", "GIT_EXEC_PATH": "/host/lib/git-core", "GIT_TEMPLATE_DIR": "/tmp",
         "NODE_EXTRA_CA_CERTS": "/tmp/ca.pem", "NODE_USE_ENV_PROXY": "1"}
def tool(*words):
    done = subprocess.run(words, env=TOOLS, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else f"{done.returncode}: {done.stderr.strip()[-300:]}"
def told(name, function):
    try:
        text = function()
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
    print(json.dumps([name, str(text).strip()]), flush=True)
"""
TOOLS = SCRIPT + r"""
if WHAT == "curl":
    told("curl", lambda: tool("/host/bin/curl", "-sS", URL + "/hello"))
    told("curl, http 2", lambda: tool("/host/bin/curl", "-sS", "--http2", URL + "/hello"))
    told("curl, not allowed", lambda: tool("/host/bin/curl", "-sS", "https://evil.example/"))
    told("curl, tls 1.2", lambda: tool("/host/bin/curl", "-sS", "--tls-max", "1.2", URL + "/hello"))
elif WHAT == "git":
    told("git", lambda: tool("/host/bin/git", "clone", "-q", URL + "/repo.git", "/tmp/clone") or open("/tmp/clone/file").read())
    told("git, not allowed", lambda: tool("/host/bin/git", "ls-remote", "https://evil.example/x.git"))
else:
    told("node", lambda: tool("/host/bin/node", "-e", f"fetch('{URL}/hello').then(a => a.text()).then(t => console.log(t))"))
"""
PYTHON = SCRIPT + r"""
import ssl, aiohttp, httpx, requests, urllib.request, urllib3
context = ssl.create_default_context(cafile="/tmp/ca.pem")
async def by_aiohttp():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(URL + "/hello", ssl=context) as answer:
            return await answer.text()
told("requests", lambda: requests.get(URL + "/hello", verify="/tmp/ca.pem").text)
told("httpx", lambda: httpx.get(URL + "/hello", verify=context).text)
told("urllib3", lambda: urllib3.ProxyManager(os.environ["HTTPS_PROXY"], ssl_context=context).request("GET", URL + "/hello").data.decode())
told("urllib", lambda: urllib.request.urlopen(URL + "/hello", context=context).read().decode())
told("aiohttp", lambda: asyncio.run(by_aiohttp()))
def by_pip():
    done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--cert", "/tmp/ca.pem", "--index-url", URL + "/simple", "-d", "/tmp/got",
                           "thing"], env={**os.environ, "HOME": "/tmp"}, capture_output=True, text=True, timeout=60)
    return " ".join(os.listdir("/tmp/got")) if done.returncode == 0 else done.stderr[-300:]
told("pip", by_pip)
for name, get in (("requests", requests.get), ("httpx", httpx.get)):
    told(name + ", not allowed", lambda get=get: get("https://evil.example/"))
"""


class Clients(Network):
    def setUp(self):
        super().setUp()
        context, self.pem = self.certificate()
        self.files = self.path("files")
        os.makedirs(os.path.join(self.files, "simple", "thing"))
        with open(os.path.join(self.files, "hello"), "w", encoding="ascii") as f:
            f.write("hello")
        self.make_repository()
        wheel = os.path.join(self.files, "simple", "thing", "thing-1.0-py3-none-any.whl")
        with zipfile.ZipFile(wheel, "w") as z:
            z.writestr("thing.py", "")
            z.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
            z.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr("thing-1.0.dist-info/RECORD", "")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.files))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def make_repository(self):
        work, bare = self.path("work"), os.path.join(self.files, "repo.git")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
        os.makedirs(work)
        with open(os.path.join(work, "file"), "w", encoding="ascii") as f:
            f.write("cloned")
        for words in (["init", "-q", work], ["-C", work, "add", "file"], ["-C", work, "commit", "-qm", "one"], ["clone", "-q", "--bare", work, bare],
                      ["-C", bare, "update-server-info"]):
            subprocess.run([*git, *words], check=True, capture_output=True)

    def run_script(self, text, what, *options, mounts=()):
        profile = {"network": {"allow": [f"localhost:{self.port}", f"127.0.0.1:{self.port}"]}, "mounts": list(mounts)}
        script = self.write("clients.py", f"PEM, PORT, WHAT = {self.pem!r}, {self.port}, {what!r}\n" + text)
        done = self.run_cloister("run", "--config", self.config(profiles={"default": profile}), *options, script, timeout=600)
        return dict(json.loads(line) for line in done.stdout.splitlines()), done.stderr

    def tool(self, name):
        if not shutil.which(name) or not os.path.exists(f"/usr/bin/{name}") or not os.path.isdir("/usr/lib/x86_64-linux-gnu"):
            self.skipTest(f"no /usr/bin/{name} here")
        return self.run_script(TOOLS, name, mounts=[{"source": "/usr", "target": "/host", "mode": "ro"}])

    def test_curl(self):
        said, err = self.tool("curl")
        for row in ("curl", "curl, http 2", "curl, tls 1.2"):
            self.assertEqual(said.get(row), "hello", (said, err))
        self.assertIn("403", said["curl, not allowed"])

    def test_git(self):
        said, err = self.tool("git")
        self.assertEqual(said.get("git"), "cloned", (said, err))
        self.assertIn("403", said["git, not allowed"])

    def test_node(self):
        """fetch() of Node.js uses a proxy of the environment since version 24; with an earlier version it reaches no server."""
        said, err = self.tool("node")
        version = int(subprocess.run(["/usr/bin/node", "--version"], check=True, capture_output=True, text=True).stdout[1:].split(".")[0])
        if version >= 24:
            self.assertEqual(said.get("node"), "hello", (said, err))
        else:
            self.assertIn("ECONNREFUSED", said.get("node", ""), err)

    def test_packages(self):
        said, err = self.run_script(PYTHON, "python", *[word for name in PACKAGES for word in ("--with", name)])
        for row in ("requests", "httpx", "urllib3", "urllib", "aiohttp"):
            self.assertEqual(said.get(row), "hello", (said, err))
        self.assertEqual(said["pip"], "thing-1.0-py3-none-any.whl")
        for row in ("requests, not allowed", "httpx, not allowed"):
            self.assertIn("evil.example:443 is not in network.allow", said[row])


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    harness.main()
