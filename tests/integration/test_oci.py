"""`cloister image build --oci`: container images, right ones and hostile ones. Each test makes its archives itself."""

import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
import threading
import time

import container_images as containers
import harness
from container_images import Image, device, directory, entry, file, hard, link, tar

MIB = 1024 * 1024
OTHER = "arm64" if containers.ARCHITECTURE == "amd64" else "amd64"


def sparse(name, size):
    """A file of the GNU format that has only a hole."""
    info = entry(name, tarfile.GNUTYPE_SPARSE)
    info.size = 0
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = b"%011o\0" % size  # the first area: after the end, without bytes
    header[398:410] = b"%011o\0" % 0
    header[483:495] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def shrink(store, name, new):
    """Copies an image, without what its Python does not need to describe itself: it is copied in each test."""
    shutil.copytree(f"{store}/{name}", f"{store}/{new}", symlinks=True)
    with open(f"{store}/{new}/image.json", "r+", encoding="utf-8") as f:
        info = json.load(f)
        f.seek(0)
        json.dump(info | {"name": new}, f)
        f.truncate()
    shutil.rmtree(f"{store}/{new}/root/usr/share")
    standard = f"{store}/{new}/root/usr/lib/python{info['version'].rpartition('.')[0]}"
    kept = set("encodings importlib collections json re ctypes lib-dynload __pycache__ site-packages dist-packages".split())
    for found in os.scandir(standard):
        if found.is_dir(follow_symlinks=False) and found.name not in kept:
            shutil.rmtree(found.path)
    for folder in "lib-dynload", "__pycache__":
        for found in os.scandir(f"{standard}/{folder}"):
            if not found.name.startswith("_ctypes"):
                os.unlink(found.path)


class Containers(harness.Case):
    """`lender` is an image of this machine's Python, `small` a part of it, for images that have none and run nothing."""

    place = None

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.store = f"{cls.place}/images"
        subprocess.run([harness.CLOISTER, "image-builder", "--store", cls.store, "--python", "/usr/bin/python3", "--name", "lender", "--quiet"],
                       env=harness.environment(), check=True, timeout=harness.patient(120))
        shrink(cls.store, "lender", "small")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place, ignore_errors=True)

    def setUp(self):
        super().setUp()
        self.work = tempfile.mkdtemp(prefix="cloister-test-", dir=self.place)
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def cloister(self, *args, **env):
        return self.run_cloister(*args, env=harness.environment(CLOISTER_IMAGE_STORE=self.store, **env), timeout=harness.patient(180))

    def build(self, path, *args, name="image", **env):
        return self.cloister("image", "build", "--oci", path, "--name", name, *args, **env)

    def built(self, path, *args, name="image", **env):
        self.addCleanup(self.cloister, "image", "remove", name)
        done = self.build(path, *args, name=name, **env)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual([n for n in os.listdir(f"{self.store}/{name}") if n not in ("image.json", "lock", "root")], [])
        return f"{self.store}/{name}/root", done.stderr.decode()

    def kept(self):
        return sorted(name for name in os.listdir(self.store) if not name.startswith((".lock-", ".parts-")))

    def refused(self, path, *args, **env):
        """Returns the error. The store is as before."""
        before = self.kept()
        done = self.build(path, "--python-from", "small", *args, name="refused", **env)
        if done.returncode == 0:
            self.cloister("image", "remove", "refused")
        text = done.stderr.decode()
        self.assertEqual(done.returncode, 1, text)
        self.assertEqual(self.kept(), before)
        last = text.splitlines()[-1]
        self.assertTrue(last.startswith("cloister: error: build the image: "), text)
        return last

    def layout(self, *layers, **config):
        return Image(*layers, **config).layout(tempfile.mkdtemp(dir=self.work))

    def tree(self, root):
        """{path: (type, mode, content or target)} without what Cloister adds."""
        found = {}
        for folder, folders, names in os.walk(root):
            for name in folders + names:
                path = os.path.join(folder, name)
                inside, st = os.path.relpath(path, root), os.lstat(path)
                if inside.split("/")[0] in ("etc", "opt", "dev", "proc", "sys", "tmp", "run", "workspace"):
                    continue
                content = ""
                if stat.S_ISLNK(st.st_mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(st.st_mode):
                    with open(path, "rb") as f:
                        content = f.read().decode()
                    self.assertEqual(st.st_nlink, 1, inside)
                found[inside] = (stat.S_IFMT(st.st_mode), content)
                if not stat.S_ISLNK(st.st_mode):
                    self.assertIn(stat.S_IMODE(st.st_mode), (0o644, 0o755), inside)
        return found

    # ---- right ones ----

    def test_every_form_runs(self):
        """Each form of an image with Python: its variables and its directory apply."""
        base = containers.tar_of(f"{self.store}/lender/root")
        own = tar(directory("app"), file("app/module_of_app.py", b"value = 5\n"), file("usr/bin/of-app", b"#!/bin/sh\necho of-app\n", 0o755))
        env = ["PATH=/app:/usr/bin:/bin", "OWN=a b", "HOME=/root", "TMPDIR=/nowhere", "https_proxy=http://192.0.2.1", "PYTHONPATH=/app"]
        image = Image(("plain", base), ("zstd", own), Env=env, WorkingDir="/app", User="nobody", Entrypoint=["/bin/false"])
        paths = [image.layout(f"{self.work}/layout"), image.archive(f"{self.work}/archive.tar.gz", "gzip"), image.docker_archive(f"{self.work}/docker.tar")]
        digests = set()
        for number, path in enumerate(paths):
            _, text = self.built(path, name=f"form-{number}")
            digests.add(text.splitlines()[-1].rpartition(" ")[2])
            code = """
import os, subprocess, module_of_app
print([os.getcwd(), module_of_app.value, os.environ["OWN"], os.environ["PATH"], os.environ["HOME"], os.environ["TMPDIR"],
      os.environ.get("https_proxy"), os.getuid() in (0, 65534), subprocess.check_output(["of-app"], text=True).strip()])
"""
            done = self.cloister("run", "--image", f"form-{number}", "-c", code)
            self.assertEqual(done.stdout.decode().strip(), "['/app', 5, 'a b', '/app:/usr/bin:/bin', '/workspace', '/tmp', None, False, 'of-app']", done.stderr)
        self.assertEqual(len(digests), 2, digests)  # of the manifest, and of the docker-archive's config
        info = json.loads(self.cloister("image", "show", "form-1", "--json").stdout)
        self.assertEqual(info["source"], paths[1])

    def test_without_a_python(self):
        shell = os.path.realpath("/bin/sh")
        libraries = subprocess.check_output(["ldd", shell], text=True).split()
        files = [file(path[1:], open(path, "rb").read(), 0o755) for path in libraries if path.startswith("/")]
        path = Image(tar(file("bin/sh", open(shell, "rb").read(), 0o755), *files)).archive(f"{self.work}/shell.tar")
        done = self.build(path, "--link", "embed")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no python3 in it: name its path inside with --python, or leave --link out", done.stderr)
        self.assertIn("there is no image 'nothing'", self.cloister("image", "build", "--oci", path, "--name", "image", "--python-from", "nothing").stderr.decode())
        self.built(path, "--python-from", "lender")
        code = """
import json, os, ssl, subprocess, sys
ours = "import sys, os; print(sys.executable, 'LD_LIBRARY_PATH' in os.environ)"
print([subprocess.check_output(["sh", "-c", "echo $((6 * 7))"], text=True), subprocess.check_output([sys.executable, "-c", ours], text=True),
       subprocess.check_output(["python3", "-c", ours], text=True), sys.version_info[0]])
"""
        done = self.cloister("run", "--image", "image", "-c", code)
        launcher = "/opt/cloister/python" + os.path.dirname(os.path.realpath("/usr/bin/python3")) + "/cloister-python3"
        self.assertEqual(done.stdout.decode().strip(), str(["42\n", f"{launcher} False\n", f"{launcher} False\n", 3]), done.stderr)
        # Code can reach no more than from an image of this machine's Python.
        found = [self.cloister("doctor", "--attack", "--image", name).stdout.decode().splitlines()[-1] for name in ("image", "lender")]
        self.assertRegex(found[0], r"[1-9]\d+ held, 0 open, ")
        self.assertEqual(found[0], found[1])
        # It cannot be passed on.
        again = self.cloister("image", "build", "--oci", path, "--name", "second", "--python-from", "image")
        self.assertIn(b"is that of another image", again.stderr)

    def test_layers_over_each_other(self):
        """Whiteouts and opaque directories concern lower layers only, in whatever order they come."""
        lower = tar(directory("a"), file("a/gone", b"1"), file("a/kept", b"2"), directory("a/deep"), file("a/deep/x", b"3"),
                    directory("opaque"), file("opaque/old", b"4"), directory("opaque/sub"), file("opaque/sub/old", b"5"),
                    file("file-then-directory", b"6"), directory("directory-then-file"), file("directory-then-file/x", b"7"),
                    link("link-then-directory", "a"), directory("directory-then-link"), file("directory-then-link/x", b"8"),
                    file("original", b"9", 0o755), file("twice", b"old"), file("twice", b"new"), file("hidden-by-a-device", b"10"),
                    file("./dotted//name/./x", b"11"), file("/absolute", b"12"), directory("private-then-public", 0o700),
                    file("private-then-public/x", b"13"), directory("public-then-private"), file("public-then-private/x", b"14"),
                    file(".wh.in-the-first-layer"), directory("merged"), file("merged/lower", b"15"))
        middle = tar(file("a/.wh.gone"), file("opaque/new", b"new"), file("opaque/.wh..wh..opq"), file("opaque/sub/new", b"new"),
                     directory("file-then-directory"), file("file-then-directory/x", b"x"), file("directory-then-file", b"x"),
                     directory("link-then-directory"), link("directory-then-link", "a"), hard("copy", "original"), hard("copy-of-copy", "copy"),
                     device("hidden-by-a-device"), directory("private-then-public"), directory("public-then-private", 0o700),
                     file(".wh.a/of-a-driver"), file(".wh..wh.plnk/1"), directory("merged"), file("merged/upper", b"16"))
        upper = tar(file("a/.wh.nothing"), file("a/gone", b"again"), file(".wh.original"), file("directory-then-file", b"y"),
                    hard("loop", "copy"), hard("loop", "loop"))
        path = self.layout(("plain", lower), ("gzip", middle), ("zstd", upper))
        root, text = self.built(path, "--python-from", "small")
        tree = self.tree(root)
        files = {name: content for name, (kind, content) in tree.items() if kind != stat.S_IFDIR}
        self.assertEqual(files, {
            "a/gone": "again", "a/kept": "2", "a/deep/x": "3", "opaque/new": "new", "opaque/sub/new": "new", "file-then-directory/x": "x",
            "directory-then-file": "y", "directory-then-link": "a", "copy": "9", "copy-of-copy": "9", "twice": "new", "dotted/name/x": "11",
            "absolute": "12", "private-then-public/x": "13", "merged/lower": "15", "merged/upper": "16", "loop": "9"})
        self.assertEqual(tree["link-then-directory"][0], stat.S_IFDIR)
        self.assertEqual(os.stat(f"{root}/copy").st_mode & 0o777, 0o755)
        self.assertEqual(os.stat(f"{root}/a/kept").st_mtime, 1000000000)
        self.assertNotIn("public-then-private", tree)
        self.assertIn("left out 1 files and directories that other users may not read (--private takes them): /public-then-private", text)
        self.assertIn(" 3 left out, ", text)  # the device, and what drivers have

    def test_what_is_taken_of_it(self):
        outside = f"{self.work}/outside"
        os.mkdir(outside)
        odd = ["new\nline", "esc\x1b[31m", "é", "e\u0301", "\U0001f40d", "\u212b", "\udcff", "back\\slash", " ", "x" * 255]
        layer = tar(
            file("usr/setuid", b"1", 0o6755), (entry("usr/fifo", tarfile.FIFOTYPE), b""), device("usr/null"),
            device("usr/disk", tarfile.BLKTYPE), link("usr/outside", "/etc/shadow"), link("usr/up", "../../../../../etc/shadow"),
            file("tmp/x", b"x"), file("run/x", b"x"), file("proc/x", b"x"), file("workspace/x", b"x"), file("boot/x", b"x"), directory("sys"),
            file("etc/passwd", b"evil:x:0:0::/:/bin/sh\n"), link("etc/hosts", outside + "/hosts"), file("etc/shadow", b"secret", 0o640),
            file("etc/other", b"x", uid=1234, gid=5, uname="nobody", pax_headers={"SCHILY.xattr.user.x": "y", "SCHILY.xattr.security.capability": "z"}),
            hard("usr/of-nothing", "usr/nothing"), hard("usr/of-a-device", "usr/null"), hard("usr/of-a-link", "usr/outside"),
            *(file("odd/" + name, b"odd") for name in odd), *(hard("odd/hard-" + name[:200], "odd/" + name) for name in odd),
            *(link("odd/link-" + name[:200], name) for name in odd))
        root, text = self.built(self.layout(layer), "--python-from", "small")
        self.tree(root)
        self.assertEqual(sorted(os.listdir(f"{root}/usr")), ["of-a-link", "outside", "setuid", "up"])
        self.assertEqual([os.readlink(f"{root}/usr/{name}") for name in ("of-a-link", "outside", "up")], ["/etc/shadow"] * 2 + ["../../../../../etc/shadow"])
        prefixed = odd + [kind + name[:200] for name in odd for kind in ("hard-", "link-")]
        self.assertEqual(sorted(os.listdir(os.fsencode(f"{root}/odd"))), sorted(os.fsencode(name) for name in prefixed))
        self.assertEqual([os.readlink(f"{root}/odd/link-{name[:200]}") for name in odd], odd)
        for name in ("tmp", "run", "proc", "workspace", "sys", "dev"):
            self.assertEqual(os.listdir(f"{root}/{name}"), [])
        with open(f"{root}/etc/passwd", encoding="ascii") as f:
            self.assertIn("agent:x:1000:", f.read())
        self.assertFalse(os.path.islink(f"{root}/etc/hosts"))
        self.assertEqual(os.listdir(outside), [])
        self.assertFalse(os.path.exists(f"{root}/etc/shadow"))
        self.assertEqual(os.listxattr(f"{root}/etc/other"), [])
        self.assertEqual(os.stat(f"{root}/etc/other").st_uid, os.stat(self.store).st_uid)
        # 3 devices and FIFOs, 5 files below directories that no image has, 2 links.
        self.assertIn(" 10 left out, ", text)
        self.assertIn("other users may not read (--private takes them): /etc/shadow", text)
        os.chmod(self.store, 0o700)
        root, text = self.built(self.layout(layer), "--python-from", "small", "--private", name="whole")
        self.assertTrue(os.path.exists(f"{root}/etc/shadow"))

    def test_sparse_files_stay_sparse(self):
        size = 3 << 30
        layer = sparse("hole", size) + tar(file("after", b"x"))
        root, _ = self.built(self.layout(layer), "--python-from", "small")
        st = os.stat(f"{root}/hole")
        self.assertEqual(st.st_size, size)
        self.assertLess(st.st_blocks * 512, MIB)
        self.assertTrue(os.path.exists(f"{root}/after"))
        self.assertIn("larger than 2048 MiB unpacked", self.refused(self.layout(layer), CLOISTER_IMAGE_MAX="2GiB"))

    def test_several_images(self):
        first, second = Image(tar(file("is-first"))), Image(tar(file("is-second")))
        other = Image(tar(file("is-other")), architecture=OTHER)
        platform = {"os": "linux", "architecture": containers.ARCHITECTURE}
        entries = [(second.manifest(), platform), (other.manifest(), {"os": "linux", "architecture": OTHER}),
                   (other.manifest(), {"os": "unknown", "architecture": "unknown"})]
        several = {"schemaVersion": 2, "mediaType": containers.INDEX, "manifests": [d | {"platform": p} for d, p in entries]}
        nested = second.descriptor(containers.INDEX, second.blob(json.dumps(several).encode()))
        name = "org.opencontainers.image.ref.name"
        first.index = {"schemaVersion": 2, "manifests": [first.manifest() | {"annotations": {name: "one"}}, nested | {"annotations": {name: "two"}}]}
        first.blobs |= second.blobs | other.blobs
        path = first.layout(f"{self.work}/a:b")
        self.assertIn("it has several images: append one of their tags, as in PATH:TAG (one, two)", self.refused(path))
        self.assertIn('it has no image with the tag "three" (it has: one, two)', self.refused(path + ":three"))
        for tag, expected in (("one", "is-first"), ("two", "is-second")):
            root, _ = self.built(f"{path}:{tag}", "--python-from", "small", name=tag)
            self.assertTrue(os.path.exists(f"{root}/{expected}"))
        # A docker-archive names its images by their tags.
        path = second.docker_archive(f"{self.work}/docker.tar", tags=("example.org/x:1", "example.org/x:2"))
        self.assertIn("(it has: example.org/x:1, example.org/x:2)", self.refused(path + ":3"))
        self.built(path + ":2", "--python-from", "small")

    def test_layers_that_are_links(self):
        """In a docker-archive of an old Docker, equal layers are links to one."""
        layer = tar(file("in-the-layer"))
        config = json.dumps({"architecture": containers.ARCHITECTURE, "os": "linux", "rootfs": {"diff_ids": [containers.digest(layer)]}}).encode()
        name = containers.digest(config).partition(":")[2] + ".json"
        for target, expected in (("../one/layer.tar", None), ("../../../etc/passwd", "is missing"), ("layer.tar", "is missing")):
            entries = [file("one/layer.tar", layer), link("two/layer.tar", target), file(name, config),
                       file("manifest.json", json.dumps([{"Config": name, "RepoTags": None, "Layers": ["two/layer.tar"]}]).encode())]
            with open(f"{self.work}/docker.tar", "wb") as f:
                f.write(tar(*entries))
            if expected:
                self.assertIn(expected, self.refused(f"{self.work}/docker.tar"))
            else:
                root, _ = self.built(f"{self.work}/docker.tar", "--python-from", "small")
                self.assertTrue(os.path.exists(f"{root}/in-the-layer"))

    def test_of_a_registry(self):
        """skopeo fetches it."""
        image = Image(tar(file("of-a-registry", b"x")))
        manifest = image.blobs[image.manifest()["digest"]]
        requests = []

        class Registry(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                requests.append(self.path)
                kind, data = containers.MANIFEST, manifest if "/manifests/" in self.path else image.blobs.get(self.path.rpartition("/")[2])
                if self.path == "/v2/":
                    kind, data = "application/json", b"{}"
                self.send_response(200 if data else 404)
                self.send_header("Content-Type", kind if "/blobs/" not in self.path else "application/octet-stream")
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data or b"")

            do_HEAD = do_GET

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{server.server_port}"
        os.makedirs(f"{self.work}/.config/containers")
        with open(f"{self.work}/.config/containers/registries.conf", "w", encoding="ascii") as f:
            f.write(f'[[registry]]\nlocation = "{where}"\ninsecure = true\n')
        os.chmod(self.work, 0o755)
        settings = {"HOME": self.work}
        root, _ = self.built(f"docker://{where}/a/b:1", "--python-from", "small", **settings)
        self.assertTrue(os.path.exists(f"{root}/of-a-registry"))
        self.assertIn("/v2/a/b/manifests/1", requests)
        # Errors of skopeo are passed on, in one line; words that are not names do not reach it.
        server.RequestHandlerClass.do_GET = lambda handler: handler.send_error(500)
        self.assertRegex(self.refused(f"docker://{where}/a/b:1", **settings), "skopeo: .*500")
        for wrong in ("-x", "--help", "a b", "", "x;y", "a\nb"):
            self.assertIn("is not the name of an image", self.refused(f"docker://{wrong}"))
        self.assertIn("neither skopeo nor crane is in PATH", self.refused(f"docker://{where}/a/b:1", PATH="/nonexistent"))

    # ---- wrong ones ----

    def test_names_that_lead_outside(self):
        cases = [
            ([file("../escaped")], r'"\.\./escaped": it leads outside the root'),
            ([file("a/../../escaped")], "it leads outside the root"),
            ([file("/../escaped")], "it leads outside the root"),
            ([file("a/..")], "it leads outside the root"),
            ([file("esc\x1b[31m/../x")], r'"esc\\x1b\[31m/\.\./x": it leads outside'),
            ([hard("x", "../../etc/passwd")], 'it is a hard link to "../../etc/passwd": it leads outside'),
            ([link("l", "/"), file("l/escaped")], '"l/escaped": a directory above it is a symbolic link'),
            ([link("l", "."), directory("l/below")], "a directory above it is a symbolic link"),
            ([link("l", "/"), hard("x", "l/etc/passwd")], '"l/etc/passwd": a directory above it is a symbolic link'),
            ([link("l", "/"), link("l/x", "y")], "a directory above it is a symbolic link"),
            ([link("l", "/"), file("l/.wh.etc")], "a directory above it is a symbolic link"),
            ([link("l", "/"), file("l/.wh..wh..opq")], "a directory above it is a symbolic link"),
            ([file("f"), file("f/below")], "a directory above it is a file"),
            ([file(".wh...")], "it is a whiteout of no file"),
            ([file("a/.wh...")], "it is a whiteout of no file"),
            ([file(".wh.")], "it is a whiteout of no file"),
            ([file(".wh..")], "it is a whiteout of no file"),
            ([file("d/" * 130 + "x")], "it is deeper than 128 directories"),
            ([file("x" * 256)], "its path is too long"),
            ([file("/".join(["y" * 200] * 30))], "its path is too long"),
        ]
        for entries, expected in cases:
            with self.subTest(name=entries[-1][0].name[:40]):
                self.assertRegex(self.refused(self.layout(tar(*entries))), expected)
        for upper, expected in ((file("l/x"), 'it has entries below "l", which is a symbolic link in a layer below'),
                                (file("l/.wh.etc"), "which is a symbolic link"), (file("l/.wh..wh..opq"), "which is a symbolic link"),
                                (file("f/x"), "which is a file in a layer below")):
            self.assertIn(expected, self.refused(self.layout(tar(link("l", "/"), file("f")), tar(upper))))
        self.assertFalse(os.path.exists(f"{self.store}/escaped"))
        # Cloister's own files do not follow links either.
        self.assertIn("/etc is not a directory there", self.refused(self.layout(tar(link("etc", self.work)))))
        for entries in ([link("opt", self.work)], [directory("opt/cloister")], [link("opt/cloister", self.work)]):
            self.assertIn("make /opt/cloister/python: ", self.refused(self.layout(tar(*entries))))

    def test_damage(self):
        def changed(change, *layers, form="layout", how="gzip"):
            image = Image(*(layers or (tar(file("x", os.urandom(100000))),)), how=how)
            change(image)
            return getattr(image, form)(f"{tempfile.mkdtemp(dir=self.work)}/it")

        def cut_layer(image):
            name = image.layers[0]
            image.index = {"manifests": [image.manifest()]}
            image.blobs[name] = image.blobs[name][:-20]

        def swap_layer(image):
            name = image.layers[0]
            image.index = {"manifests": [image.manifest()]}
            image.blobs[name] = image.blobs[name][:-1] + b"?"

        def damage(change, entries=(file("x", os.urandom(100000)),), how="gzip"):
            """The bytes are wrong, and the digests are right."""
            def apply(image):
                image.layers.clear(), image.types.clear(), image.config["rootfs"]["diff_ids"].clear()
                image.add_blob_layer(change(containers.compress(tar(*entries), how)), how)
            return apply

        def set_config(**members):
            return lambda image: image.config.update(members)

        def set_index(index):
            return lambda image: setattr(image, "index", index)

        cases = [
            (cut_layer, "layer 1 of 1 .*: it has .* bytes, not .*: cut off, or changed"),
            (swap_layer, "layer 1 of 1 .*: its content has the digest sha256:"),
            (damage(lambda data: data[: len(data) // 2]), "it is damaged or cut off"),
            (damage(lambda data: data[: len(data) // 2], how="zstd"), "it is damaged or cut off"),
            (damage(lambda data: data[:50000], how="plain"), "it is damaged, cut off, or not a tar archive"),
            (damage(lambda data: os.urandom(5000), how="plain"), "it is damaged, cut off, or not a tar archive"),
            (damage(lambda data: data[:20] + b"?" * 100 + data[120:]), "damaged"),
            (set_config(architecture=OTHER), f"it is for linux/{OTHER}; this machine needs linux/{containers.ARCHITECTURE}"),
            (set_config(architecture="x\x1b[31m"), r"it is for linux/x\\x1b\[31m; this machine"),
            (set_config(os="windows"), "it is for windows/"),
            (set_config(rootfs={"diff_ids": []}), "it has 1 layers, its config has 0"),
            (set_config(config={"Env": ["=x"]}), '"Env" of its config has an entry that is not NAME=value'),
            (set_config(config={"Env": ["A=1"] * 300}), '"Env" of its config has more than 256'),
            (set_config(config={"WorkingDir": "x"}), '"WorkingDir" of its config is not an absolute path'),
            (set_index({"manifests": []}), "its index names no image"),
            (set_index({"x": []}), 'an index has no list "manifests"'),
            (set_index({"manifests": [{"digest": "md5:x", "size": 1}]}), 'the digest "md5:x" is not a SHA-256 digest'),
            (set_index({"manifests": [{"digest": "sha256:" + "0" * 64, "size": 1}]}), "No such file"),
            (set_index({"manifests": [{"digest": "sha256:../../../../etc/passwd" + "0" * 36, "size": 1}]}), "is not a SHA-256 digest"),
            (lambda image: image.types.__setitem__(0, "application/x+encrypted"), 'a layer has the type "application/x\\+encrypted"'),
            (lambda image: image.layers.clear(), "it has no layers"),
        ]
        for change, expected in cases:
            with self.subTest(expected=expected):
                self.assertRegex(self.refused(changed(change)), expected)
        self.assertRegex(self.refused(changed(swap_layer, form="archive")), "its content has the digest")
        self.assertRegex(self.refused(changed(swap_layer, form="docker_archive", how="plain")), "does not have the digest that the config names")
        # Archives that end too early, at each of some places, in a header, in data and between two files.
        for form in "archive", "docker_archive":
            path = changed(lambda image: None, form=form)
            with open(path, "rb") as f:
                whole = f.read()
            for end in (0, 100, 512, 1000, 1024, 2000, len(whole) // 2, len(whole.rstrip(b"\0")) - 1):
                with open(path, "wb") as f:
                    f.write(whole[:end])
                self.refused(path)
        os.mkfifo(f"{self.work}/fifo")
        self.assertIn("neither a directory nor a file", self.refused(f"{self.work}/fifo"))
        os.mkdir(f"{self.work}/empty")
        self.assertIn("neither index.json (an OCI layout) nor manifest.json", self.refused(f"{self.work}/empty"))
        # A layout whose files are links to others of the machine.
        path = changed(lambda image: None)
        os.rename(f"{path}/index.json", f"{self.work}/index.json")
        os.symlink(f"{self.work}/index.json", f"{path}/index.json")
        self.assertIn("neither index.json", self.refused(path))

    def test_indexes_that_name_each_other(self):
        """An index cannot contain its own digest: what names itself has another content than its digest says."""
        image = Image(tar(file("x")))
        top = image.manifest()
        for _ in range(6):
            index = json.dumps({"manifests": [top]}).encode()
            top = image.descriptor(containers.INDEX, image.blob(index))
        image.index = {"manifests": [top]}
        self.assertIn("indexes name each other 4 levels deep", self.refused(image.layout(f"{self.work}/deep")))
        image = Image(tar(file("x")))
        itself = "sha256:" + "1" * 64
        text = json.dumps({"manifests": [{"mediaType": containers.INDEX, "digest": itself, "size": 0}]}).encode()
        image.index = json.loads(text)
        image.blobs[itself] = text
        self.assertIn("its content has the digest", self.refused(image.layout(f"{self.work}/itself")))

    def test_bombs(self):
        zeros = gzip.compress(bytes(16 * MIB), 9)
        image = Image()
        info = entry("zeros")
        info.size = 10 << 30
        image.add_blob_layer(gzip.compress(info.tobuf(tarfile.PAX_FORMAT)) + zeros * 640, "gzip")
        path = image.layout(f"{self.work}/zeros")
        self.assertRegex(self.refused(path), "more than 100 times its size is not the data of an image")
        self.assertIn("larger than 16 MiB unpacked: if that is right, set CLOISTER_IMAGE_MAX", self.refused(path, CLOISTER_IMAGE_MAX="16MiB"))
        self.assertIn('CLOISTER_IMAGE_MAX: "lots" is not a size', self.refused(path, CLOISTER_IMAGE_MAX="lots"))
        # A compressed archive with such a ratio.
        with open(f"{self.work}/archive.tar.gz", "wb") as f:
            f.write(gzip.compress(info.tobuf(tarfile.PAX_FORMAT)) + zeros * 640)
        self.assertRegex(self.refused(f"{self.work}/archive.tar.gz"), "more than 100 times its size")
        # Hard links are copies, which count.
        layer = tar(file("big", os.urandom(MIB)), *(hard(f"copy-{i}", "big") for i in range(100)))
        self.assertIn("larger than 32 MiB unpacked", self.refused(self.layout(layer), CLOISTER_IMAGE_MAX="32MiB"))
        self.built(self.layout(layer), "--python-from", "small", CLOISTER_IMAGE_MAX="128MiB")
        # A header that describes another one of 2 GiB.
        info = entry("x", tarfile.XHDTYPE)
        info.size = 2 << 30
        self.assertIn("damaged, cut off", self.refused(self.layout(info.tobuf(tarfile.PAX_FORMAT) + bytes(MIB))))

    def test_a_million_entries(self):
        """Meanwhile the process that reads them has no privilege."""
        names = b"".join(entry(f"dev/{hashlib.sha256(b'%d' % i).hexdigest()}").tobuf(tarfile.USTAR_FORMAT) for i in range(1000))
        image = Image()
        image.add_blob_layer(gzip.compress(names, 1) * 1001, "gzip")
        path = image.layout(f"{self.work}/many")
        seen, ended = [], threading.Event()

        def watch():
            while not ended.is_set():
                for pid in filter(str.isdigit, os.listdir("/proc")):
                    try:
                        with open(f"/proc/{pid}/cmdline", "rb") as f:
                            words = f.read().split(b"\0")
                        with open(f"/proc/{pid}/status", encoding="ascii") as f:
                            status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
                        if len(words) > 2 and words[0].endswith(b"cloister-unpacker") and os.fsencode(path) == words[1]:
                            seen.append({key: status[key].strip() for key in ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "VmHWM")})
                    except (OSError, KeyError):
                        continue
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            text = self.refused(path)
        finally:
            ended.set()
            watcher.join()
        self.assertIn("the layers have more than 1000000 entries", text)
        self.assertEqual({(s["Seccomp"], s["NoNewPrivs"], int(s["CapEff"], 16), int(s["CapPrm"], 16)) for s in seen[2:]}, {("2", "1", 0, 0)})
        self.assertLess(max(int(s["VmHWM"].split()[0]) for s in seen), 64 * 1024 * harness.SANITIZED)

    def test_an_unpacker_that_is_hostile(self):
        """Another program in its place, as a layer could make of it: the builder takes no tree that an image cannot have."""
        programs = f"{self.work}/programs"
        os.mkdir(programs)
        harness.copy_programs(programs, "cloister", "cloister-monitor", "cloister-broker", "cloister-init", "cloister-worker", "cloister-module.so",
                              "cloister-access", "cloister-inject", "cloister-journal", "cloister-pictures")
        answer = json.dumps({"digest": "0" * 64, "layers": 1})
        path = self.layout(tar(file("x")))
        tree = "the unpacker left a file that an image cannot have"
        cases = [
            ("mkdir usr; echo > usr/x; ln -s /etc l", answer, "no python3 in it"),  # a right one
            ("echo > x; chmod 4755 x", answer, tree), ("echo > x; chmod 2755 x", answer, tree), ("echo > x; chmod 600 x", answer, tree),
            ("echo > x; chmod 666 x", answer, tree), ("mkfifo x", answer, tree), ("echo > x; ln x y", answer, tree),
            ("echo > ../x; ln ../x x", answer, tree), ("mkdir d; chmod 1777 d", answer, tree), ("chmod 777 .", answer, tree),
            ("cd ..; rmdir root; ln -s / root", answer, "unpacked image: "),
            (":", "{}", "the unpacker did not answer"), (":", "x", "the unpacker did not answer"), (":", "", "the unpacker did not answer"),
            (":", '{"error": "a\\u001b[31m"}', r"a\x1b[31m"), (":", answer[:-1] + ', "workdir": "/../.."}', "no python3 in it"),
            ("kill -9 $$", answer, "the unpacker was ended by signal 9"), ("exec tr x y </dev/zero", "", "unpack the image: "),
        ]
        before = self.kept()
        for commands, text, expected in cases:
            with open(f"{programs}/cloister-unpacker", "w", encoding="ascii") as f:
                f.write(f"#!/bin/sh\numask 022\ncd \"$3/root\" || exit 1\n{commands}\nprintf '%s\\n' '{text}'\n")
                os.fchmod(f.fileno(), 0o755)
            with self.subTest(commands=commands, text=text):
                done = subprocess.run([f"{programs}/cloister", "image", "build", "--oci", path, "--name", "refused", "--link", "embed"], check=False, capture_output=True,
                                      env=harness.environment(CLOISTER_IMAGE_STORE=self.store), timeout=harness.patient(120))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(expected, done.stderr.decode())
                self.assertEqual(self.kept(), before)

    def test_options(self):
        path = self.layout(tar(file("x")))
        for words, expected in ((["--oci", path], "--oci needs --name"), (["--oci", path, "--name", "x", "--with", "six"], "do not go together"),
                                (["--oci", path, "--rootfs", self.work, "--name", "x"], "do not go together"),
                                (["--python-from", "small"], "--python-from goes with --oci"),
                                (["--oci", path, "--name", "x", "--python-from", "lender", "--link", "embed"], "do not go together")):
            done = self.cloister("image", "build", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr.decode())
        for missing in (f"{self.work}/nothing", f"{self.work}/nothing:tag"):
            done = self.cloister("image", "build", "--oci", missing, "--name", "x")
            self.assertIn("No such file", done.stderr.decode())
        self.assertIn("image lender is there already", self.cloister("image", "build", "--oci", path, "--name", "lender").stderr.decode())


if __name__ == "__main__":
    harness.main()
