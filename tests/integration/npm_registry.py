"""A registry of npm on loopback: documents of packages and their archives, made here."""

import base64
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import urllib.parse


def member(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    return info, data


def archive(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def package(name, version, files=None, **manifest):
    """An archive as `npm publish` sends it. files: {path: text}."""
    whole = {"package.json": json.dumps({"name": name, "version": version, "main": "index.js", **manifest}), **(files or {})}
    return archive([member("package/" + path, text.encode(), mode=0o755 if path.startswith("bin/") else 0o644) for path, text in whole.items()])


class Registry(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, password=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.packages = {}  # name -> {version: (archive, integrity, manifest)}
        self.asked = []
        self.password = password
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return "http://127.0.0.1:%d/" % self.server_port

    def add(self, name, version, files=None, tarball=None, integrity=None, url=None, **manifest):
        """tarball: other bytes. integrity: what the document says instead of the true hash. url: where the archive is said to be."""
        data = package(name, version, files, **manifest) if tarball is None else tarball
        true = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        self.packages.setdefault(name, {})[version] = (data, true if integrity is None else integrity, url, manifest)

    def document(self, name):
        versions = {}
        for version, (_, integrity, url, manifest) in self.packages[name].items():
            where = url or self.url + urllib.parse.quote(name, safe="") + "/-/%s.tgz" % version
            dist = {"tarball": where, **({"integrity": integrity} if integrity else {"shasum": "0" * 40})}
            versions[version] = {"name": name, "version": version, **manifest, "dist": dist}
        return {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        self.server.asked.append(path)
        name, _, version = path[1:].partition("/-/")
        known = self.server.packages.get(name)
        secret = self.server.password
        if secret and self.headers.get("Authorization") != "Basic " + base64.b64encode(secret.encode()).decode():
            self.answer(401, b"{}")
        elif known is None or (version and version[:-4] not in known):
            self.answer(404, b'{"error": "not_found"}')
        elif version:
            self.answer(200, known[version[:-4]][0], "application/octet-stream")
        else:
            self.answer(200, json.dumps(self.server.document(name)).encode())

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass
