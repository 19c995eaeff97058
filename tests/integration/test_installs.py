"""Packages that a running session installs: from an index on loopback, with wheels that this file makes."""

import base64
import fcntl
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import ssl
import stat
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import zipfile

import harness
import rawmcp

PLAIN = stat.S_IFREG | 0o644
F_OFD_GETLK, F_OFD_SETLK = 36, 37


def wheel(name, version, files, needs=()):
    """Returns (file name, bytes). files: {path: text or (text, mode)}."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {n}\n" for n in needs)
    files = {**files, f"{info}/METADATA": metadata,
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files) + f"{info}/RECORD,,\n"
    to = io.BytesIO()
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as z:
        for path, text in files.items():
            text, mode = text if isinstance(text, tuple) else (text, PLAIN)
            member = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
            member.external_attr, member.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            z.writestr(member, text)
    return f"{name}-{version}-py3-none-any.whl", to.getvalue()


def module(name, version, needs=(), **more):
    return wheel(name, version, {f"{name}/__init__.py": f"version = {version!r}\n", **more}, needs)


class Index(http.server.ThreadingHTTPServer):
    """A package index (PEP 503). asked: the paths of the requests that it received; let_go: set when it may send wheels."""

    daemon_threads = True
    PASSWORD = "s3cret"

    def __init__(self, *wheels):
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheels = dict(wheels)
        self.asked = []
        self.pages = {}  # {name: html}
        self.moved = {}  # {path: target of its redirect}
        self.credentials = set()
        self.let_go = threading.Event()
        self.let_go.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, kind="simple"):
        return f"http://me:{self.PASSWORD}@127.0.0.1:{self.server_port}/{kind}"

    def fetched(self, start):
        return [path for path in self.asked if path.startswith(f"/files/{start}")]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_HEAD(self):  # pylint: disable=invalid-name
        """uv asks so whether it may fetch a part of a wheel."""
        self.send_error(405)

    def do_GET(self):  # pylint: disable=invalid-name
        index = self.server
        index.asked.append(self.path)
        index.credentials.add(self.headers.get("Authorization"))
        if self.path in index.moved:
            self.send_response(302)
            self.send_header("Location", index.moved[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        kind, _, rest = self.path.strip("/").partition("/")
        if kind == "hangs":
            time.sleep(60)
        elif kind == "endless":
            self.answer(None)
        elif kind == "files" and rest in index.wheels:
            index.let_go.wait(30)
            self.answer(index.wheels[rest])
        elif kind == "simple":
            self.answer(self.page(re.sub(r"[-_.]+", "-", rest.strip("/"))))
        else:
            self.send_error(404)

    def page(self, name):
        if name in self.server.pages:
            return self.server.pages[name].encode()
        links = [f'<a href="/files/{file}#sha256={hashlib.sha256(data).hexdigest()}">{file}</a>' for file, data in self.server.wheels.items()
                 if re.sub(r"[-_.]+", "-", file.split("-")[0]) == name]
        return "<html><body>{}</body></html>".format("\n".join(links)).encode() if links else b""

    def answer(self, body):
        if body == b"":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(".whl") else "text/html")
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            if body is not None:
                self.wfile.write(body)
            for _ in range(600 if body is None else 0):
                self.wfile.write(b"<!-- more -->" * 8192)
                time.sleep(0.02)
        except OSError:
            pass


def hostile():
    """Returns wheels that would do harm if they were unpacked without checks."""
    yield wheel("climbs", "1.0", {"climbs/__init__.py": "", "../../../climbed.py": "x = 1\n"})
    yield wheel("rooted", "1.0", {"rooted/__init__.py": "", "/tmp/cloister-test-rooted": "x"})
    yield wheel("links", "1.0", {"links/__init__.py": "", "links/out": ("/etc/passwd", stat.S_IFLNK | 0o777)})
    yield wheel("device", "1.0", {"device/__init__.py": "", "device/null": ("", stat.S_IFCHR | 0o666)})
    yield wheel("bomb", "1.0", {"bomb/__init__.py": "", "bomb/data": "\0" * (32 << 20)})
    yield wheel("heavy", "1.0", {"heavy/__init__.py": "", "heavy/data": base64.b85encode(os.urandom(12 << 20)).decode()})
    yield wheel("setuid", "1.0", {"setuid/__init__.py": "", "setuid/su": ("#!/bin/sh\n", stat.S_IFREG | 0o6777)})
    yield wheel("hooks", "1.0", {"hooks/__init__.py": "", "hooks.pth": "import os; os.environ['HOOKED'] = '1'\n",
                                 "hooks-1.0.data/scripts/hooked": "#!python\n", "sitecustomize.py": "import os; os.environ['HOOKED'] = '2'\n"})


class Installs(rawmcp.ServerCase):
    ALLOWED = ["demo", "Needs_Demo", "versions<3", "slow", *(file.split("-")[0] for file, _ in hostile())]

    @classmethod
    def setUpClass(cls):
        cls.index = Index(
            module("demo", "1.0"), module("demo", "2.0"), module("needs_demo", "1.0", ["demo>=1"]), module("versions", "2.5"),
            module("versions", "3.0"), module("needs_new", "1.0", ["versions>=3"]), module("inner", "1.0"), module("slow", "1.0"), *hostile(),
        )
        cls.other = Index(module("demo", "99.0"), module("inner", "99.0"))
        allow = {"install": "allow", "allow": cls.ALLOWED, "index": cls.index.url(), "max_size": "8M", "timeout": 100}
        own = f"t{os.getpid()}"
        cls.profiles = {"some": f"{own}-some", "any": f"{own}-any", "late": f"{own}-late", "endless": f"{own}-endless"}
        cls.CONFIG = {"profiles": {
            cls.profiles["some"]: {"agent": True, "packages": allow},
            cls.profiles["any"]: {"agent": True, "packages": {"install": "allow", "index": "${TEST_INDEX}", "timeout": 100}},
            cls.profiles["late"]: {"agent": True, "packages": {**allow, "index": cls.index.url("hangs"), "timeout": 3}},
            cls.profiles["endless"]: {"agent": True, "packages": {**allow, "index": cls.index.url("endless"), "timeout": 4}},
        }}
        os.environ["TEST_INDEX"] = cls.index.url()
        # The user's pip settings from elsewhere must not add another index.
        os.environ["PIP_EXTRA_INDEX_URL"] = os.environ["UV_INDEX"] = cls.other.url()
        make, harness.environment = harness.environment, cls.environment(harness.environment)
        try:
            super().setUpClass()
        finally:
            harness.environment = make
        cls.store = harness.environment()["CLOISTER_IMAGE_STORE"]

    @staticmethod
    def environment(make):
        names = ("TEST_INDEX", "PIP_EXTRA_INDEX_URL", "UV_INDEX")
        return lambda **more: make(**{name: os.environ[name] for name in names}, **more)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for name in cls.profiles.values():
            top = f"{cls.store}/.installed/{name}"
            if os.path.isdir(f"{top}/sets"):
                os.chmod(f"{top}/sets", 0o700)
            shutil.rmtree(top, ignore_errors=True)

    def cell(self, code, profile="some", **arguments):
        if profile is not None:
            arguments["profile"] = self.profiles[profile]
        return super().cell(code, wait=harness.patient(150), **arguments)

    def fails(self, code, *parts, **arguments):
        cell = self.cell(code, **arguments)
        self.assertEqual(cell["status"], "error", cell)
        for part in parts:
            self.assertIn(part, cell["error"]["message"], cell)
        return cell["error"]["message"]

    def test_never_by_default(self):
        before = len(self.index.asked)
        for code, arguments in (("%pip install demo", {}), ("install('demo')", {}), ("1", {"dependencies": ["demo"]}),
                                ("# /// script\n# dependencies = ['demo']\n# ///\n1", {})):
            message = self.fails(code, "packages.install", '"default"', '"never"', "this image has no packages", profile=None, **arguments)
            self.assertNotIn("secret", message)
        self.assertEqual(len(self.index.asked), before)

    @unittest.skipIf(harness.ROOT, "packages are never fetched by root")
    def test_a_live_session_keeps_its_variables(self):
        self.ok("x = [1, 2]\n")
        cell = self.ok("%pip install needs_demo\nimport needs_demo, demo\nx.append(3)\n(x, demo.version, needs_demo.version, demo.__file__)")
        value = cell["value"]["repr"]
        self.assertIn("[1, 2, 3], '2.0', '1.0', '/run/packages/", value)
        self.assertIn("installed demo 2.0, needs-demo 1.0", cell["stdout"])
        self.assertEqual(self.ok("import importlib.metadata; importlib.metadata.version('demo')")["value"]["json"], "2.0")
        # The package is already installed, and another session shares the downloaded files.
        fetched = len(self.index.asked)
        self.assertIn("nothing to install", self.ok("install('demo>=1')")["stdout"])
        other = self.ok("import needs_demo; needs_demo.version", session="second", dependencies=["needs-demo"])
        self.assertEqual(other["value"]["json"], "1.0")
        self.assertEqual(len(self.index.asked), fetched)
        # Requests another version of a package that is already imported.
        cell = self.ok("install('demo==1.0')\ndemo.version")
        self.assertIn("demo 2.0 is imported already: reset the session (reset: true) to use 1.0", cell["stderr"])
        self.assertEqual(cell["value"]["json"], "2.0")
        self.fails("install('inner')", "inner: not allowed", "demo")
        # A branch has the packages of its session.
        branch = self.ok("import sys; x, [p for p in sys.path if 'packages/' in p] != []", session="branch", **{"from": self.session})
        self.assertEqual(branch["value"]["repr"], "([1, 2, 3], True)")
        # Sandboxes get these folders read-only and not listed, and without secrets.
        for code, kind in (("import os; os.listdir('/run/packages')", "PermissionError"), ("open(demo.__file__, 'a')", "OSError"),
                           ("import os; os.mkdir('/run/packages/mine')", "Error")):
            self.assertIn(kind, self.cell(code)["error"]["type"], code)
        code = "import os\n[o for r, d, n in os.walk(os.path.dirname(os.path.dirname(demo.__file__))) for o in (os.stat(r + '/' + f).st_mode & 0o7022 for f in n) if o]"
        self.assertEqual(self.ok(code)["value"]["repr"], "[]")
        self.assertNotIn(Index.PASSWORD, json.dumps(self.ok("import os; dict(os.environ)")))
        self.assertNotIn(None, self.index.credentials)

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_what_is_not_allowed(self):
        self.fails("1", "inner: not allowed", "demo", dependencies=["inner"])
        self.fails("%pip install --index-url=http://127.0.0.1:1/ demo", "--index-url")
        for text in ("--index-url=http://127.0.0.1:1/", "-e .", "-r /etc/passwd", "git+https://example.org/x.git", "file:///etc/demo.whl",
                     "../demo.whl", "demo.whl", "demo @ https://example.org/demo-1.0-py3-none-any.whl", "demo\n--pre", "demo; os_name=='$HOME'",
                     "demo --hash=sha256:00", "${HOME}", "demo>=1#x", "demo\\", "-c", "./demo", "demo==1.0;\x00", "a" * 500):
            self.fails(f"__import__('cloister').install.provide([{text!r}])", "is not a requirement")
        self.fails("install(*['demo%d' % i for i in range(10000)])", "at most 100")
        self.fails("__import__('cloister').install._ask(b'{\"what\":\"install\",\"requirements\":' + str(['x'] * 101).replace(\"'\", '\"').encode() + b'}')\n1/0",
                   "division")
        # A package of the same name in the user's other index is ignored. A package's version limit also holds for dependencies.
        self.assertEqual(self.ok("install('demo', 'versions')\nimport demo, versions\ndemo.version + versions.version")["value"]["json"], "2.02.5")
        self.assertEqual(self.other.asked, [])

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_an_index_that_does_not_answer(self):
        self.fails("install('demo')", "packages.timeout", profile="late")
        self.assertEqual(self.ok("1", profile="late")["state"], "kept")

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_hostile_wheels(self):
        for name, why in (("climbs", "elsewhere"), ("rooted", "elsewhere"), ("links", "link or device"), ("device", "link or device"),
                          ("bomb", "max_size"), ("heavy", "max_size")):
            self.fails(f"install({name!r})", why)
        self.assertFalse(os.path.exists("/tmp/cloister-test-rooted"))
        self.assertEqual(self.ok("install('setuid')\nimport os, setuid\noct(os.stat(os.path.dirname(setuid.__file__) + '/su').st_mode)")["value"]["json"], "0o100755")
        self.assertIsNone(self.ok("install('hooks')\nimport hooks, os\nos.environ.get('HOOKED')").get("value"))
        self.fails("install('demo')", "packages.timeout", profile="endless", session="endless")

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_two_at_once_and_one_that_is_killed(self):
        self.index.let_go.clear()
        calls = [self.server.start_call("install('slow')\nimport slow; slow.version", session=f"at-once-{i}", profile=self.profiles["any"])
                 for i in range(2)]
        self.assertTrue(harness.wait_until(lambda: self.index.fetched("slow")))
        self.server.start_call("import os, threading; threading.Timer(1, os._exit, (3,)).start(); install('slow', 'demo')", session="killed",
                               profile=self.profiles["any"])
        time.sleep(2)
        self.index.let_go.set()
        for call in calls:
            self.assertEqual(call.result(120)["structuredContent"]["value"]["json"], "1.0")
        self.assertEqual(len(self.index.fetched("slow")), 1)
        # The killed installation does not block the next one.
        self.ok("install('slow', 'demo')", session="killed", profile="any")

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_a_hundred_requests(self):
        code = "n = 0\nwhile n < 1000:\n    try: __import__('cloister').install.provide(['-x'])\n    except ImportError as e:\n        n += 1\n        if 'times already' in str(e): break\nn"
        self.assertEqual(self.ok(code, timeout=300)["value"]["json"], 101)

    @unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
    def test_a_cache_that_others_can_write(self):
        self.ok("1", profile="any")
        top = f"{self.store}/.installed/{self.profiles['any']}"
        os.chmod(top, 0o777)
        try:
            self.fails("install('demo')", "no other user can write", profile="any")
        finally:
            os.chmod(top, 0o711)
        self.ok("install('demo')", profile="any")

    @unittest.skipUnless(harness.ROOT, "as root")
    def test_root_installs_nothing(self):
        self.fails("install('demo')", "never installed by root", '"user"')


@unittest.skipUnless(harness.WHOLE, "suite slow: wheels of PyPI")
class Real(rawmcp.ServerCase):
    """Real packages: their libraries rely on what the manylinux policies promise."""
    CONFIG = {"packages": {"install": "allow", "allow": ["numpy", "pandas"]}, **({"user": "games"} if harness.ROOT else {})}

    @classmethod
    def setUpClass(cls):
        make, usual = harness.environment, {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
        if harness.ROOT:
            # The user who owns the config must own its store; root owns the store of the other tests.
            top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
            cls.addClassCleanup(shutil.rmtree, top, ignore_errors=True)
            os.chmod(top, 0o755)
            usual["CLOISTER_IMAGE_STORE"] = f"{top}/images"
        usual.update(cls.more())
        harness.environment = lambda **more: make(**{**usual, **more})
        try:
            super().setUpClass()
        finally:
            harness.environment = make

    @classmethod
    def more(cls):
        return {}

    def test_numpy_and_pandas(self):
        self.ok("x = [1, 2]")
        cell = self.ok("import numpy\n(x, float((numpy.ones((300, 300)) @ numpy.ones((300, 300)))[0, 0]))", dependencies=["numpy"], timeout=300, wait=300)
        self.assertEqual(cell["value"]["repr"], "([1, 2], 300.0)")
        cell = self.ok("%pip install pandas\nimport pandas\nint(pandas.DataFrame({'a': x}).a.sum())", timeout=300, wait=300)
        self.assertEqual(cell["value"]["json"], 3)


@unittest.skipUnless(harness.WHOLE, "suite slow: uv and wheels of PyPI")
class RealByUv(Real):
    @classmethod
    def more(cls):
        top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, top, ignore_errors=True)
        os.chmod(top, 0o755)
        python = os.path.join(os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv")), "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "--target", f"{top}/uv", "uv"], check=True, timeout=harness.patient(180),
                       env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"})
        return {"PATH": f"{top}/uv/bin:/usr/bin:/bin"}


@unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
class Redirects(rawmcp.ServerCase):
    """An index that redirects: only to http and https, never from https to http, and its credentials are not sent elsewhere."""

    KINDS = ("usual", "other", "file", "plain", "loop", "closed", "linked")

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{cls.top}/key", "-out", f"{cls.top}/certificate"], check=True, capture_output=True)
        names = [f"{kind}_{what}" for kind in cls.KINDS for what in ("page", "wheel")]
        wheels = dict(module(name, "1.0") for name in names)
        cls.index, cls.secure, cls.other = Index(*wheels.items()), Index(*wheels.items()), Index(*wheels.items())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{cls.top}/certificate", f"{cls.top}/key")
        cls.secure.socket = context.wrap_socket(cls.secure.socket, server_side=True)
        other = f"http://localhost:{cls.other.server_port}"
        for name in names:
            kind, _, what = name.partition("_")
            file = f"{name}-1.0-py3-none-any.whl"
            with open(f"{cls.top}/{file}", "wb") as f:
                f.write(wheels[file])
            with open(f"{cls.top}/{name}.html", "w", encoding="utf-8") as f:
                f.write(f'<a href="{file}">{file}</a>')
            path = f"/simple/{name.replace('_', '-')}/" if what == "page" else f"/files/{file}"
            to = {"other": other + path, "plain": other + path, "loop": path, "closed": "http://127.0.0.1:9" + path,
                  "file": f"file://{cls.top}/{name}.html" if what == "page" else f"file://{cls.top}/{file}"}.get(kind)
            if to:
                (cls.secure if kind == "plain" else cls.index).moved[path] = to
        file = "linked_page-1.0-py3-none-any.whl"
        cls.index.pages["linked-page"] = f'<a href="file://{cls.top}/{file}">{file}</a>'
        own = f"t{os.getpid()}"
        cls.profiles = {"index": f"{own}-index", "secure": f"{own}-secure"}
        packages = {"install": "allow", "timeout": 60}
        cls.CONFIG = {"profiles": {cls.profiles["index"]: {"agent": True, "packages": {**packages, "index": cls.index.url()}},
                                   cls.profiles["secure"]: {"agent": True, "packages": {**packages, "index": cls.secure.url().replace("http:", "https:")}}}}
        make = harness.environment
        harness.environment = lambda **more: make(PIP_CERT=f"{cls.top}/certificate", SSL_CERT_FILE=f"{cls.top}/certificate", **more)
        try:
            super().setUpClass()
        finally:
            harness.environment = make

    def install(self, name, profile="index"):
        return self.cell(f"install({name!r})\nimport {name}; {name}.version", profile=self.profiles[profile], session=name, wait=harness.patient(90))

    def test_followed(self):
        for name, profile in (("usual_page", "index"), ("usual_wheel", "secure"), ("other_page", "index"), ("other_wheel", "index")):
            cell = self.install(name, profile)
            self.assertEqual(cell.get("value", {}).get("json"), "1.0", cell)
        self.assertIn("/files/other_wheel-1.0-py3-none-any.whl", self.other.asked)
        self.assertEqual(self.other.credentials, {None})
        self.assertNotIn(None, self.index.credentials)

    def test_not_followed(self):
        for name, profile, why in (("file_page", "index", "redirects to file: which is not followed"), ("file_wheel", "index", "redirects to file: which is not followed"),
                                   ("linked_page", "index", "redirects to file: which is not followed"),
                                   ("plain_page", "secure", "redirects to http: which is not followed"), ("plain_wheel", "secure", "redirects to http: which is not followed"),
                                   ("loop_page", "index", "in a circle"), ("loop_wheel", "index", "in a circle"),
                                   ("closed_page", "index", "can't be reached"), ("closed_wheel", "index", "can't be reached")):
            with self.subTest(name):
                cell = self.install(name, profile)
                self.assertEqual(cell["status"], "error", cell)
                self.assertIn(why, cell["error"]["message"])
                self.assertNotIn(Index.PASSWORD, json.dumps(cell))
        self.assertFalse([path for path in self.other.asked if "plain" in path])


@unittest.skipIf(harness.ROOT or not harness.WHOLE, "an ordinary user, suite slow")
class Kept(rawmcp.ServerCase):
    """Versions that the list limits, and the sets that image prune removes; in a separate store."""

    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(subprocess.run, ["sh", "-c", 'chmod -R u+rwx "$0"; rm -rf "$0"', cls.top], check=True)
        cls.index = Index(module("floor", "1.0"), module("floor", "2.0"), module("needs_any", "1.0", ["floor"]), module("needs_old", "1.0", ["floor<2"]),
                          module("deeper", "1.0", ["needs_old"]), module("demo", "1.0"), module("unused", "1.0"), module("kept", "1.0"))
        allow = ["needs_any", "needs_old", "deeper", "floor>=2", "demo", "unused", "kept"]
        cls.CONFIG = {"packages": {"install": "allow", "allow": allow, "index": cls.index.url()}}
        make, store = harness.environment, f"{cls.top}/images"
        harness.environment = lambda **more: make(CLOISTER_IMAGE_STORE=store, **more)
        try:
            super().setUpClass()
        finally:
            harness.environment = make

    def test_a_bound_of_the_list_holds_for_what_others_need(self):
        for name in ("needs_old", "deeper"):
            cell = self.cell(f"install({name!r})", wait=harness.patient(90))
            self.assertEqual(cell["status"], "error", cell)
            self.assertIn("floor", cell["error"]["message"])
            self.assertIn("do not go together", cell["error"]["message"])
        # The failed set does not appear in the session. The control: packages whose versions fit the list.
        self.assertEqual(self.cell("import needs_old")["error"]["type"], "ModuleNotFoundError")
        cell = self.ok("install('needs_any')\nimport floor; floor.version", wait=harness.patient(90))
        self.assertEqual(cell["value"]["json"], "2.0")

    def test_prune_removes_what_nobody_asked_for(self):
        self.ok("install('demo')", wait=harness.patient(90))
        self.ok("install('unused')", session="other", wait=harness.patient(90))
        top = f"{self.top}/images/.installed/default"
        notes = {}
        for name in os.listdir(f"{top}/index"):
            with open(f"{top}/index/{name}", encoding="utf-8") as f:
                notes[json.load(f)["packages"][0]["name"]] = name
        old = time.time() - 2 * 24 * 3600
        os.utime(f"{top}/index/{notes['unused']}", (old, old))
        # A folder without a valid description is not a set, and a symbolic link is not followed.
        outside = f"{self.top}/outside"
        os.makedirs(f"{outside}/sub")
        for name in (".x", "x"):
            os.symlink(outside, f"{top}/sets/{name}")
            os.symlink(f"{outside}/none", f"{top}/index/{name}.json")
            os.utime(f"{top}/index/{name}.json", (old, old), follow_symlinks=False)
        os.symlink(outside, f"{self.top}/images/.installed/linked")
        done = self.run_cloister("image", "prune", env=harness.environment(CLOISTER_IMAGE_STORE=f"{self.top}/images"), cwd=self.class_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        exists = {name: (os.path.exists(f"{top}/index/{note}"), os.path.exists(f"{top}/sets/{note[:-5]}")) for name, note in notes.items()}
        self.assertEqual({name: exists[name] for name in ("demo", "unused")}, {"demo": (True, True), "unused": (False, False)})
        self.assertTrue(os.path.isdir(f"{outside}/sub"))
        # The running server's session still has this set, and the other set is downloaded again.
        self.assertEqual(self.ok("import demo; demo.version")["value"]["json"], "1.0")
        before = len(self.index.fetched("unused"))
        cell = self.ok("install('unused')\nimport unused; unused.version", session="third", wait=harness.patient(90))
        self.assertEqual((cell["value"]["json"], len(self.index.fetched("unused"))), ("1.0", before + 1))


    def uses(self, path, *flock):
        """Queries a lock as the remover of sets does: returns None, or the byte that a server has locked."""
        with open(path, "r+b") as f:
            kind, _, start, _, _ = struct.unpack("hhqqi4x", fcntl.fcntl(f, F_OFD_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, *flock, 0)))
            return None if kind == fcntl.F_UNLCK else start

    def test_prune_leaves_what_a_running_server_has(self):
        self.ok("install('kept')", wait=harness.patient(90))
        top = f"{self.top}/images/.installed/default"
        for note in os.listdir(f"{top}/index"):
            with open(f"{top}/index/{note}", encoding="utf-8") as f:
                if "kept" in f.read():
                    name = note[:-5]
        use = f"{top}/lock-use"
        # This server has locked the byte of its start time.
        self.assertIsNone(self.uses(use, 0, int(time.time()) - 24 * 3600))
        started = self.uses(use, 0, int(time.time()))
        self.assertLess(abs(time.time() - started), 600)
        # Locks the byte of a server that started three days ago.
        old = time.time() - 2 * 24 * 3600
        os.utime(f"{top}/index/{name}.json", (old, old))
        prune = lambda: self.run_cloister("image", "prune", env=harness.environment(CLOISTER_IMAGE_STORE=f"{self.top}/images"), cwd=self.class_dir)
        with open(use, "rb") as f:
            fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, int(old) - 24 * 3600, 1, 0))
            self.assertEqual(prune().returncode, 0)
            self.assertTrue(os.path.isdir(f"{top}/sets/{name}"))
            self.assertEqual(self.ok("import kept; kept.version")["value"]["json"], "1.0")
        # The control: that server has ended, and this server started after the set was last requested.
        self.assertEqual(prune().returncode, 0)
        self.assertFalse(os.path.exists(f"{top}/sets/{name}"))


class Tool(rawmcp.ServerCase):
    def test_the_argument_is_there_where_it_is_of_use(self):
        tool = self.server.ask("tools/list")["tools"][0]
        self.assertNotIn("dependencies", tool["inputSchema"]["properties"])
        self.assertIn("packages.install", self.cell("1", dependencies=["x"])["error"]["message"])


if __name__ == "__main__":
    harness.main()
