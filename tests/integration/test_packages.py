"""Packages in images: real wheels by pip and uv, a wheelhouse without network, and what is refused."""

import base64
import glob
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile

import harness
import rawmcp

VENV = os.environ.get("CLOISTER_VENV", os.path.join(harness.SOURCE, "build", "venv"))
NO_NETWORK = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY")}
PASSED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "https_proxy", "HTTPS_PROXY")


def wheel(folder, name, version, files, needs=()):
    """A wheel made here; files: {path: text}."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {n}\n" for n in needs)
    files = {**files, f"{info}/METADATA": metadata,
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    path = f"{folder}/{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        for inner, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            z.writestr(zipfile.ZipInfo(inner, (2026, 1, 1, 0, 0, 0)), text)
    return path


def sources(folder, name, mark):
    """A source distribution that leaves a mark when anything of it runs."""
    path = f"{folder}/{name}-1.0.tar.gz"
    files = {
        "setup.py": f"open({mark!r}, 'w').close()\nfrom setuptools import setup\nsetup(name={name!r}, version='1.0')\n",
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    }
    with tarfile.open(path, "w:gz") as tar:
        for inner, text in files.items():
            member = tarfile.TarInfo(f"{name}-1.0/{inner}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


class Case(harness.Case):
    """Each test has its own store below its home directory: not in /tmp, and removed afterwards."""

    def setUp(self):
        super().setUp()
        self.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.store = f"{self.place}/images"
        self.house = f"{self.place}/wheels"
        os.mkdir(self.house)

    def env(self, **more):
        passed = {n: v for n, v in os.environ.items() if n in PASSED or n.startswith(("PIP_", "UV_"))}
        return harness.environment(**{**passed, "CLOISTER_IMAGE_STORE": self.store, **more})

    def cloister(self, *args, **more):
        return self.run_cloister(*args, env=self.env(**more), timeout=harness.patient(180))

    def done(self, *args, **more):
        done = self.cloister(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def fails(self, *args, status=None, **more):
        """Returns the line with the reason, which must be the only one."""
        done = self.cloister(*args, **more)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(status, (None, done.returncode))
        lines = [line for line in done.stderr.decode().splitlines() if not re.match(r"cloister: image (\S+|of packages): ", line)]
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def names(self):
        return [i["name"] for i in json.loads(self.done("image", "list", "--json"))]

    def show(self, name):
        return json.loads(self.done("image", "show", name, "--json"))


class Index(Case):
    """Uses pip and uv with the real package index."""

    def test_numpy_and_six(self):
        self.done("image", "build", "--with", "numpy", "--with", "six", "--name", "data")
        out = self.done("run", "--image", "data", "-c",
                        "import numpy, six; print(int(numpy.arange(5) @ numpy.arange(5)), six.PY3, os.path.exists(numpy.__cached__))"
                        .replace("import numpy", "import os, numpy"))
        self.assertEqual(out, "30 True True\n")
        shown = self.show("data")
        self.assertEqual([p["name"] for p in shown["packages"]], ["numpy", "six"])
        for package in shown["packages"]:
            (kept,) = glob.glob(f"{self.store}/.cache/wheels/{package['sha256']}/*.whl")
            with open(kept, "rb") as f:
                self.assertEqual(hashlib.sha256(f.read()).hexdigest(), package["sha256"])
        self.only_plain_files(f"{self.store}/data/root")
        self.sessions_draw_differently("data")
        # Build the same set under another name: no network is needed. The control is a different set.
        self.done("image", "build", "--with", "six,numpy", "--name", "again", **NO_NETWORK)
        self.assertEqual(self.show("again")["packages"], shown["packages"])
        self.assertIn("the index can't be reached", self.fails("image", "build", "--with", "idna", **NO_NETWORK))

    def sessions_draw_differently(self, image):
        """Generators that numpy seeded during the preload differ between sessions, from the pool and created on demand."""
        config = self.config(image=image, preload=["numpy.random", "uuid", "ssl", "secrets"], pool=2)
        with rawmcp.RawServer("--config", config, env=self.env()) as server:
            server.initialize()
            code = """
import sys, random, secrets, ssl, uuid
there = "numpy.random" in sys.modules
import numpy
[there, numpy.random.random(), numpy.random.default_rng().random(), int(numpy.random.randint(1 << 60)), random.random(),
 secrets.token_hex(8), ssl.RAND_bytes(8).hex(), uuid.uuid4().hex]"""
            drawn = []
            for i in range(5):
                cell = server.cell(code, session=f"s{i}", wait=harness.patient(60))
                self.assertEqual(cell["status"], "ok", cell)
                there, *numbers = cell["value"]["json"]
                self.assertTrue(there)
                drawn.append(numbers)
        for kind in zip(*drawn):
            self.assertEqual(len(set(kind)), 5, kind)

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_branches_with_arrays(self):
        """Branches of a session and of its checkpoint: OpenBLAS starts threads, which a fork of the session lacks."""
        self.done("image", "build", "--with", "numpy", "--name", "data")
        config = self.config(image="data", limits={"memory": "1G"})
        with rawmcp.RawServer("--config", config, env=self.env()) as server:
            server.initialize()
            code = "import numpy, os\na = numpy.ones((2000, 2000)); b = a @ a\nrng = numpy.random.default_rng(7)\nlen(os.listdir('/proc/self/task'))"
            cell = server.cell(code, session="a", checkpoint="c", wait=harness.patient(120))
            self.assertEqual(cell["status"], "ok", cell)
            for origin in ("a", "a@c"):
                cell = server.cell("[int(b[3, 4]), int((b @ a)[0, 0]), int(rng.integers(1 << 40)), a.nbytes]", session=origin.replace("@", "-") + "-b",
                                   **{"from": origin}, wait=harness.patient(120))
                self.assertEqual(cell["status"], "ok", cell)
                self.assertEqual(cell["value"]["json"], [2000, 4000000, 687299734001, 32000000])
                self.assertNotIn("not in it", cell["notice"])

    @unittest.skipUnless(harness.WHOLE, "in suite slow")
    def test_tables_that_survive(self):
        """A DataFrame in a branch of a session and of its checkpoint, after the interpreter ended, a rollback and a restore: it is
        equal and can be used for new computations."""
        self.done("image", "build", "--with", "pandas", "--name", "tables")
        config = self.config(image="tables", limits={"memory": "1G"}, profiles={"default": {"agent": True}})
        make = (
            "import numpy, os, pandas, time\nrng = numpy.random.default_rng(7)\nn = 400_000\n"
            "df = pandas.DataFrame({'i': numpy.arange(n), 'x': rng.normal(size=n), 'key': rng.choice(list('abcd'), n), 't': pandas.date_range('2020-01-01', periods=n, freq='min')})\n"
            "df['kind'] = df.key.astype('category')\nsmall = df.head(1000).set_index('t')\ndef mark(): return int(pandas.util.hash_pandas_object(df).sum() % (1 << 60))\nprint(mark())"
        )
        use = (
            "\nw = df.groupby('key').x.agg(['mean', 'std', 'count'])\nj = df.merge(w, on='key').sort_values('x').head(100)\nr = small.x.resample('h').sum()\n"
            "df.to_csv('/workspace/out/t.csv', index=False)\nback = pandas.read_csv('/workspace/out/t.csv', parse_dates=['t'])\n"
            "(mark(), bool((back.i == df.i).all()), len(j), len(r), int(w['count'].sum()), str(df.kind.dtype), df.shape)"
        )
        with rawmcp.RawServer("--config", config, env=self.env()) as server:
            server.initialize()

            def cell(code, status="ok", **arguments):
                started = time.monotonic()
                got = server.cell(code, timeout=200, wait=harness.patient(300), **{"session": "a", **arguments})
                self.assertEqual(got["status"], status, got)
                return got, time.monotonic() - started

            made, _ = cell(make, checkpoint="c")
            mark = int(made["stdout"])
            self.assertTrue(made["checkpoint"], made)
            look = lambda got: got["value"]["repr"]
            expected = look(cell(use.lstrip())[0])
            self.assertEqual(expected, f"({mark}, True, 100, 17, 400000, 'category', (400000, 5))")
            for origin in ("a", "a@c"):
                first, took = cell("mark()", session=origin.replace("@", "-") + "-b", **{"from": origin})
                print(f"pandas, branch of {origin}: {took:.2f} s", flush=True)
                self.assertEqual(int(first["value"]["repr"]), mark)
                self.assertNotIn("not in it", first["notice"])
                self.assertEqual(look(cell(use, session=origin.replace("@", "-") + "-b")[0]), expected)
            change = "df.loc[0, 'x'] = 1e9\ndel small\n"
            time.sleep(1)  # until there is a copy
            for what, code, status, state, arguments in (
                ("a death", change + "os._exit(1)", "exit", "restored", {}),
                ("a rollback", change + "1 / 0", "error", "rolled_back", {"on_error": "rollback"}),
            ):
                got, took = cell(code, status, **arguments)
                self.assertEqual(got["state"], state, got)
                print(f"pandas, {what}: {took:.2f} s", flush=True)
                self.assertEqual(look(cell(use)[0]), expected)
                time.sleep(1)
            cell(change)
            got, took = cell("mark()", restore="c")
            print(f"pandas, a restore: {took:.2f} s", flush=True)
            self.assertEqual(int(got["value"]["repr"]), mark)
            self.assertEqual(look(cell(use)[0]), expected)

    def only_plain_files(self, root):
        for folder, folders, names in os.walk(root):
            for name in names + folders:
                st = os.lstat(os.path.join(folder, name))
                if "dist-packages" in folder or "site-packages" in folder:
                    self.assertFalse(stat.S_ISLNK(st.st_mode), name)
                if not stat.S_ISLNK(st.st_mode):
                    self.assertIn(stat.S_IMODE(st.st_mode), (0o755, 0o644), name)
                if stat.S_ISREG(st.st_mode):
                    self.assertEqual(st.st_nlink, 1, name)

    def test_run_with(self):
        code = "import six; print(six.__name__)"
        first = self.cloister("run", "--with", "six", "-c", code)
        self.assertEqual((first.returncode, first.stdout), (0, b"six\n"), first.stderr)
        again = self.cloister("run", "--with", "six", "-c", code, **NO_NETWORK)
        self.assertEqual((again.stdout, again.stderr), (b"six\n", b""))
        (name,) = self.names()
        self.assertRegex(name, r"^packages-[0-9a-f]{12}$")
        self.assertIn("--image and --with", self.fails("run", "--with", "six", "--image", name, "-c", "1"))

    def test_uv_makes_the_same_image_as_pip(self):
        subprocess.run([f"{VENV}/bin/python", "-m", "pip", "install", "-q", "--target", f"{self.place}/uv", "uv"], check=True,
                       env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}, timeout=harness.patient(180))
        self.done("image", "build", "--with", "six==1.16.0", "--installer", "pip")
        (by_pip,) = self.names()
        self.store += "-uv"
        self.done("image", "build", "--with", "six==1.16.0", "--installer", "uv",
                  PATH=f"{self.place}/uv/bin:{os.environ['PATH']}")
        self.assertEqual(self.names(), [by_pip])
        self.assertIn("no uv", self.fails("image", "build", "--with", "six", "--installer", "uv", PATH="/usr/bin:/bin"))

    def test_what_the_index_does_not_have(self):
        self.assertIn("no such package: 'nosuchpackageatall-x1'", self.fails("image", "build", "--with", "nosuchpackageatall-x1"))
        self.assertRegex(self.fails("image", "build", "--with", "six>99"), r"fits 'six>99' \(newest: 1\.|six>99")
        self.assertIn("'pyspark' has no wheel for Python 3.", self.fails("image", "build", "--with", "pyspark==3.3.0"))
        self.assertEqual(self.names(), [])


class Pages(http.server.BaseHTTPRequestHandler):
    """An index: /simple/NAME/ and the wheels of a directory, with their hashes except those of `without`. Notes what is fetched."""

    def log_message(self, *args):
        pass

    def do_GET(self):  # pylint: disable=invalid-name
        path, _, name = self.path.rstrip("/").rpartition("/")
        server, body = self.server, b""
        if path == "/simple":
            for file in sorted(os.listdir(server.house)):
                if file.startswith(name.replace("-", "_") + "-"):
                    with open(f"{server.house}/{file}", "rb") as f:
                        digest = "#sha256=" + hashlib.sha256(f.read()).hexdigest() if name not in server.without else ""
                    body += f'<a href="/files/{file}{digest}">{file}</a>'.encode()
        else:
            server.fetched.append(name.split("-")[0])
            with open(f"{server.house}/{name}", "rb") as f:
                body = f.read()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if path == "/simple" else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Again(Case):
    def test_a_wheel_is_fetched_once(self):
        """A set with one package more fetches that package alone, if the index names the hash of the other one."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        server.house, server.without, server.fetched = self.house, set(), []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        index = {"PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple"}

        def put(name, word):
            wheel(self.house, name, "1.0", {f"{name}.py": f"WORD = {word!r}\n"})

        def build(words, fetched):
            server.fetched.clear()
            self.done("image", "build", "--installer", "pip", "--with", words, "--name", words.replace(",", "-"), **index)
            self.assertEqual(sorted(set(server.fetched)), fetched, words)

        for name in ("one", "two", "three", "four", "five"):
            put(name, name)
        build("one,two,three,four", ["four", "one", "three", "two"])
        # Neither what is damaged is used, nor another wheel of the same name and version, nor one whose hash the index does not name.
        (kept,) = glob.glob(f"{self.store}/.cache/wheels/*/two-*.whl")
        with open(kept, "r+b") as f:
            f.write(b"damaged")
        put("three", "another")
        server.without = {"four"}
        build("one,two,three,four,five", ["five", "four", "three", "two"])
        out = self.done("run", "--image", "one-two-three-four-five", "-c", "import one, two, three, four, five; print(one.WORD, two.WORD, three.WORD, five.WORD)")
        self.assertEqual(out, "one two another five\n")


class Wheelhouse(Case):
    """Without any network."""

    def build(self, *args, **more):
        return self.done("image", "build", "--offline", "--find-links", self.house, *args, **NO_NETWORK, **more)

    def build_fails(self, *args):
        return self.fails("image", "build", "--offline", "--find-links", self.house, *args, **NO_NETWORK)

    def test_a_wheel_and_what_it_needs(self):
        wheel(self.house, "greeting", "1.2", {"greeting/__init__.py": "from name_of import NAME\nWORD = 'hello ' + NAME\n"},
              needs=["name-of>=1"])
        wheel(self.house, "name_of", "1.0", {"name_of.py": "NAME = 'you'\n"})
        self.build("--with", "greeting")
        (name,) = self.names()
        self.assertEqual(self.done("run", "--image", name, "-c", "import greeting; print(greeting.WORD)"), "hello you\n")
        self.assertEqual([(p["name"], p["version"]) for p in self.show(name)["packages"]], [("greeting", "1.2"), ("name-of", "1.0")])
        # The name of an image depends only on its contents.
        self.store += "2"
        self.build("--with", "greeting")
        self.assertEqual(self.names(), [name])
        wheel(self.house, "name_of", "1.0", {"name_of.py": "NAME = 'me'\n"})
        self.build("--with", "greeting")
        self.assertEqual(len(self.names()), 2)
        self.assertIn("no wheel of 'other' for Python 3.", self.build_fails("--with", "other"))

    def test_sources_never_run(self):
        mark = f"{self.place}/mark"
        evil = sources(self.house, "evil", mark)
        wheel(self.house, "carrier", "1", {"carrier.py": ""}, needs=[f"evil @ file://{evil}"])
        wheel(self.house, "good", "1", {"good.py": ""})
        self.assertIn("no wheel", self.build_fails("--with", "evil"))
        self.assertIn("sources", self.build_fails("--with", "carrier", "--installer", "pip"))
        for number, line in enumerate(("--no-binary :all:", "-e .", evil, f"evil @ file://{evil}", "git+https://localhost/x.git",
                                       "--config-settings a=b")):
            file = self.write(f"r{number}.txt", f"good\n{line}\n")
            said = self.build_fails("-r", file)
            self.assertIn(f"{file}:2: ", said)
        self.build("-r", self.write("good.txt", "good  # a comment\n"))
        for word in ("--index-url=x", evil, f"evil @ file://{evil}", "."):
            self.assertEqual(self.cloister("image", "build", f"--with={word}").returncode, 2, word)
        self.assertFalse(os.path.exists(mark), "something of a source distribution was executed")

    def test_hashes_of_a_requirements_file(self):
        path = wheel(self.house, "pinned", "2.0", {"pinned.py": ""})
        with open(path, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        self.build("-r", self.write("right.txt", f"pinned==2.0 \\\n    --hash=sha256:{digest}\n"), "--name", "right")
        self.assertEqual(self.show("right")["packages"][0]["sha256"], digest)
        said = self.build_fails("-r", self.write("wrong.txt", f"pinned==2.0 --hash=sha256:{'0' * 64}\n"))
        self.assertIn("hash", said)
        self.assertIn("0" * 64, said)
        self.assertIn(digest, said)

    def test_a_package_replaces_the_one_of_a_virtual_environment(self):
        venv = f"{self.place}/venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        (site,) = glob.glob(f"{venv}/lib/python3*/site-packages")
        for name in ("thing", "other"):
            os.makedirs(f"{site}/{name}")
            os.makedirs(f"{site}/{name}-1.0.dist-info")
            for file in ("__init__", "old"):
                with open(f"{site}/{name}/{file}.py", "w", encoding="ascii") as f:
                    f.write("VERSION = 1\n")
        wheel(self.house, "thing", "2.0", {"thing/__init__.py": "VERSION = 2\n"})
        self.build("--python", venv, "--with", "thing", "--name", "both")
        out = self.done("run", "--image", "both", "-c", "import thing, other, importlib.util as u\n"
                                                        "print(thing.VERSION, other.VERSION, u.find_spec('thing.old'))")
        self.assertEqual(out, "2 1 None\n")
        self.assertEqual([(p["name"], p["version"], "sha256" in p) for p in self.show("both")["packages"]],
                         [("thing", "2.0", True), ("other", "1.0", False)])

    def test_a_name_that_is_taken(self):
        wheel(self.house, "one", "1", {"one.py": ""})
        wheel(self.house, "two", "1", {"two.py": ""})
        self.build("--with", "one", "--name", "mine")
        self.build("--with", "one", "--name", "mine")
        self.assertIn("image mine is there already, with other packages", self.build_fails("--with", "two", "--name", "mine"))

    def test_what_is_missing_names_the_command(self):
        wheel(self.house, "one", "1", {"one.py": ""})
        self.build("--with", "one", "--name", "mine")
        done = self.cloister("run", "--image", "mine", "-c", "import one, yaml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ModuleNotFoundError: No module named 'yaml' (add it: cloister image build --with one,PyYAML --name NAME; then "
                      "\"image\": \"NAME\" in the config, or cloister run --with one,PyYAML)\n", done.stderr.decode())
        caught = self.done("run", "--image", "mine", "-c", "try:\n    import yaml\nexcept ModuleNotFoundError as e:\n    print(e, e.name)")
        self.assertEqual(caught, "No module named 'yaml' yaml\n")

    def test_a_script_that_says_what_it_needs(self):
        wheel(self.house, "one", "1.5", {"one.py": ""})
        self.build("--with", "one", "--name", "mine")
        for needs, status in (("one", 0), ("one>=1.5", 0), ("one>=2", 125), ("two", 125)):
            script = self.write("report.py", f'# /// script\n# dependencies = ["{needs}"]\n# ///\nprint("ran")\n')
            done = self.cloister("run", "--image", "mine", script)
            self.assertEqual((done.returncode, done.stdout), (status, b"ran\n" if status == 0 else b""), done.stderr)
            if status:
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                self.assertIn(f"needs {needs}, which this image lacks: cloister image build --with ", done.stderr.decode())
                self.assertIn(f" --name report && cloister run --image report {script}", done.stderr.decode())
        script = self.write("later.py", '# /// script\n# requires-python = ">=3.99"\n# ///\nprint("ran")\n')
        self.assertIn("needs Python >=3.99", self.fails("run", script))

    def test_a_script_gets_what_it_needs(self):
        """As with `uv run`: the packages are installed into an image, once."""
        wheel(self.house, "one", "1.5", {"one.py": "A = 5"})
        wheel(self.house, "two", "1.0", {"two.py": "import one\nA = one.A + 1"}, needs=["one>=1"])
        script = self.write("report.py", '# /// script\n# requires-python = ">=3.9"\n# dependencies = [\n#   "two>=1,<2", # why\n'
                                         "#   \"one ; python_version >= '3.0'\",\n# ]\n# ///\nimport sys, two\nprint(two.A, sys.argv[1:])\n")
        options = ("run", "--find-links", self.house, "--offline")
        self.assertEqual(self.done(*options, script, "x", "-r"), "6 ['x', '-r']\n")
        names = self.names()
        self.assertEqual(self.done(*options, script), "6 []\n")
        self.assertEqual(self.names(), names)
        with open(script, "rb") as file:
            done = self.run_cloister(*options, "-", env=self.env(), stdin=file)
        self.assertEqual(done.stdout, b"6 []\n", done.stderr)
        wheel(self.house, "three", "1.0", {"three.py": "A = 3"})
        with open(self.write("lines", "two.A + three.A\n"), "rb") as lines:
            done = self.run_cloister(*options, "-i", "-r", self.write("more.txt", "three\n"), self.write("more.py", open(script).read() + "import three\n"), "y",
                                     env=self.env(), stdin=lines)
        self.assertEqual(done.stdout, b"6 ['y']\n9\n", done.stderr)
        # A profile's own image is not replaced.
        self.build("--with", "one", "--name", "mine")
        config = self.config(image="mine")
        done = self.cloister(*options, "--config", config, script)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
        self.assertIn(b"needs two>=1,<2, which this image lacks", done.stderr)

    def test_needs_that_are_refused(self):
        wheel(self.house, "one", "1.5", {"one.py": ""})
        for block, why in (
            ('dependencies = ["one @ https://example.org/one.whl"]', "is not a requirement"),
            ('dependencies = ["--index-url=http://x"]', "is not the name of a package"),
            ('dependencies = ["one"]\n[tool.uv.sources]\none = { git = "https://example.org/one" }', "[tool.uv]"),
            ('dependencies = "one"', "PEP 723"),
            ('dependencies = [' + "[" * 2000, "TOML"),
            ('requires-python = ">=3.99"', "needs Python >=3.99; this machine has 3."),
            ('requires-python = "new"', "is not a version"),
            ('dependencies = ["none-of-this-name"]', "none-of-this-name"),
        ):
            with self.subTest(block):
                script = self.write("report.py", "# /// script\n" + "".join("# %s\n" % line for line in block.split("\n")) + "# ///\nprint(1)\n")
                self.assertIn(why, self.fails("run", "--find-links", self.house, "--offline", script, status=125))

    def test_another_python_that_fits(self):
        """Here a program that says it is one."""
        folder = self.path("bin")
        os.mkdir(folder)
        shutil.copy2(os.path.join(harness.BUILD, "tests", "integration", "false-python"), folder + "/python3.29")
        self.write("bin/python3.29.says", "Python 3.29.1\n")
        script = self.write("report.py", '# /// script\n# requires-python = ">=3.29"\n# ///\nprint(1)\n')
        done = self.cloister("run", script, PATH=folder + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 125)
        self.assertIn(folder + "/python3.29", done.stderr.decode())

    def test_requirements_of_a_run(self):
        wheel(self.house, "one", "1.5", {"one.py": "A = 5"})
        self.write("more.txt", "one==1.5\n")
        options = ("run", "--find-links", self.house, "--offline", "-r")
        self.assertEqual(self.done(*options, self.write("a.txt", "# all\n-r more.txt\n"), "-c", "import one; print(one.A)"), "5\n")
        wheel(self.house, "one", "2.5", {"one.py": "A = 6"})
        os.remove(self.house + "/one-1.5-py3-none-any.whl")
        self.assertEqual(self.done(*options, self.path("a.txt"), "-c", "import one; print(one.A)"), "5\n")
        self.write("more.txt", "one==2.5\n")
        self.assertEqual(self.done(*options, self.path("a.txt"), "-c", "import one; print(one.A)"), "6\n")
        os.mkfifo(self.path("fifo"))
        for file, why in (
            (self.write("b.txt", "one==1.5 --hash=sha256:" + "0" * 64), "one"),
            (self.write("c.txt", "-e ."), "-e"),
            (self.write("d.txt", "--no-binary :all:\none"), "--no-binary"),
            (self.write("e.txt", "-r e.txt\n"), "include each other"),
            (self.path("none"), "none"), (self.path("fifo"), "fifo"), ("/dev/zero", "/dev/zero"), (self.dir, self.dir),
        ):
            with self.subTest(file):
                self.assertIn(why, self.fails(*options, file, "-c", "1", status=125))
        done = self.cloister("run", "--image", "x", "-r", "a.txt", "-c", "1")
        self.assertEqual(done.returncode, 2)


class Housekeeping(Case):
    """The images that are removed. An image in use is kept."""

    def venv(self):
        venv = f"{self.place}/venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        (site,) = glob.glob(f"{venv}/lib/python3*/site-packages")
        return f"{venv}/bin/python3", site

    def using(self, *args):
        """A `cloister run` that has begun and waits for us."""
        process = subprocess.Popen([harness.CLOISTER, "run", *args, "-c", "print('here', flush=True)\nimport time; time.sleep(600)"],
                                   env=self.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"here\n")
        return process

    def test_list_show_and_remove(self):
        self.done("image", "build", "--name", "mine")
        table = self.done("image", "list").splitlines()
        self.assertRegex(table[0], r"^NAME +PYTHON +MIB +PACKAGES +CREATED +USED +MADE FROM$")
        self.assertRegex(table[1], r"^mine +3\.\d+\.\d+ +\d+ +0 +20\d\d-\S+Z +20\d\d-\S+Z +/usr/bin/python3$")
        self.assertIn("0 packages", self.done("image", "show", "mine"))
        user = self.using("--image", "mine")
        self.assertIn("image mine is in use", self.fails("image", "remove", "mine"))
        self.assertTrue(os.path.isdir(f"{self.store}/mine/root"))
        user.kill()
        user.wait()
        self.assertTrue(harness.wait_until(lambda: self.cloister("image", "remove", "mine").returncode == 0))
        self.assertEqual([n for n in os.listdir(self.store) if not n.startswith((".lock-", ".parts-"))], [])
        self.assertIn("there is no image 'mine'", self.fails("image", "remove", "mine"))
        self.assertIn("there is no image '../x'", self.fails("image", "remove", "../x"))

    def test_an_older_default_image_is_removed_unless_in_use(self):
        python, site = self.venv()
        user = self.using("--python", python)
        (first,) = self.names()
        os.mkdir(f"{site}/a")
        self.done("image", "build", "--python", python)
        self.assertEqual(len(self.names()), 2)
        self.assertIn(f"in use, stays: {first}", self.done("image", "prune"))
        user.kill()
        user.wait()
        self.assertTrue(harness.wait_until(lambda: "removed " + first in self.done("image", "prune")))
        os.mkdir(f"{site}/b")
        self.done("image", "build", "--python", python)
        self.assertEqual(len(self.names()), 1)

    def test_prune_leaves_what_people_named(self):
        python, site = self.venv()
        wheel(self.house, "one", "1", {"one.py": ""})
        build = ("image", "build", "--python", python, "--offline", "--find-links", self.house)
        self.done(*build, "--with", "one", "--name", "mine")
        self.done(*build, "--with", "one")
        wheel(self.house, "two", "1", {"two.py": ""})
        self.done(*build, "--with", "two")
        self.assertIn("0 images", self.done("image", "prune"))
        self.assertEqual(len(glob.glob(f"{self.store}/.cache/wheels/*/*.whl")), 2)
        os.mkdir(f"{site}/later")
        listed = json.loads(self.done("image", "list", "--json"))
        self.assertEqual({i["name"]: i["stale"] for i in listed},
                         {i["name"]: i["name"] != "mine" for i in listed})
        self.assertIn("2 images", self.done("image", "prune"))
        self.assertEqual(self.names(), ["mine"])
        self.assertEqual([os.path.basename(w) for w in glob.glob(f"{self.store}/.cache/wheels/*/*.whl")], ["one-1-py3-none-any.whl"])
        self.assertEqual(glob.glob(f"{self.store}/.set-*"), [])

    def test_an_upgrade_of_a_library_alone(self):
        """In a mount namespace of its own, where a copy lies over the library."""
        self.done("image", "build")
        (first,) = self.names()
        (library,) = {os.path.realpath(p) for p in glob.glob("/usr/lib/*/libz.so.1")} or {None}
        self.assertTrue(library)
        copy = shutil.copy2(library, self.place)
        build = [harness.CLOISTER, "image-builder", "--store", self.store, "--python", "/usr/bin/python3"]
        for upgrade, there in (("true", True), ('mount --bind "$1" "$0"', False)):
            done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", upgrade + ' && shift && exec "$@"',
                                   library, copy, *build], env=self.env(), capture_output=True, text=True, check=False,
                                  timeout=harness.patient(120))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("is there already" in done.stderr, there, done.stderr)
        (second,) = [n for n in os.listdir(self.store) if n.startswith("default-")]
        self.assertNotEqual(second, first)


# Each builds images, some many. The others run by hand, or by name (CLOISTER_TEST_WHOLE, suite slow).
FEW = {"test_run_with", "test_a_wheel_is_fetched_once", "test_a_wheel_and_what_it_needs", "test_sources_never_run", "test_hashes_of_a_requirements_file",
       "test_what_is_missing_names_the_command", "test_list_show_and_remove"}


def load_tests(loader, tests, pattern):  # pylint: disable=unused-argument
    if "CLOISTER_TEST_WHOLE" in os.environ:
        return tests
    return unittest.TestSuite(case for suite in tests for case in suite if case.id().split(".")[-1] in FEW)


if __name__ == "__main__":
    harness.main()
