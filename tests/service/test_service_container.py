"""The container image of packaging/container: made without a daemon, and run by runc as pid 1. As root.

CLOISTER_CONTAINER is a folder with an archive that was made already.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import unittest

import harness
import test_no_sandbox
import test_package
import test_serve

MAKE = os.path.join(harness.SOURCE, "packaging", "container", "make")
ARCHIVES = os.path.join(harness.SOURCE, "packaging", "container", "archives")
UID = 54321  # no passwd entry: Docker then gives the group 0


@unittest.skipUnless(harness.ROOT, "needs root")
class Archives(harness.Case):
    def make(self, layer, name):
        folder = self.path(name)
        os.mkdir(folder)
        subprocess.run([ARCHIVES, layer, "1.2.3", "amd64", folder], check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"})
        return folder

    def test_archives(self):
        """Both name the same layer and config by their digests, and the bytes depend on the content only."""
        layer = self.write("layer.tar", "layer " * 1000)
        one, other = self.make(layer, "one"), self.make(layer, "other")
        for name in ("cloister-1.2.3-oci.tar", "cloister-1.2.3-docker.tar"):
            with open(f"{one}/{name}", "rb") as a, open(f"{other}/{name}", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        with tarfile.open(f"{one}/cloister-1.2.3-oci.tar") as tar:
            blobs = {name: tar.extractfile(name).read() for name in tar.getnames()}
        for name, data in blobs.items():
            if name.startswith("blobs/"):
                self.assertEqual(hashlib.sha256(data).hexdigest(), os.path.basename(name))
        manifest = json.loads(blobs["blobs/sha256/" + json.loads(blobs["index.json"])["manifests"][0]["digest"][7:]])
        with tarfile.open(f"{one}/cloister-1.2.3-docker.tar") as tar:
            (image,) = json.load(tar.extractfile("manifest.json"))
            self.assertEqual(tar.extractfile(image["Config"]).read(), blobs["blobs/sha256/" + manifest["config"]["digest"][7:]])
            self.assertEqual(tar.extractfile(image["Layers"][0]).read(), blobs["blobs/sha256/" + manifest["layers"][0]["digest"][7:]])


@unittest.skipUnless(harness.ROOT and shutil.which("runc"), "needs root and runc")
class Image(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = tempfile.mkdtemp(prefix="cloister-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        made = os.environ.get("CLOISTER_CONTAINER", cls.place)
        if made == cls.place:
            deb = test_package.Package.made("deb", "cloister_*.deb")
            subprocess.run([MAKE, deb, cls.place], check=True, stdin=subprocess.DEVNULL, timeout=harness.patient(1800))
        (path,) = glob.glob(f"{made}/cloister-*-oci.tar")
        with tarfile.open(path) as tar:
            read = lambda digest: tar.extractfile(f"blobs/sha256/{digest[7:]}")
            manifest = json.load(read(json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]))
            cls.config = json.load(read(manifest["config"]["digest"]))["config"]
            os.makedirs(f"{cls.place}/bundle/rootfs")
            subprocess.run(["tar", "-x", "--numeric-owner", "-C", f"{cls.place}/bundle/rootfs"], input=read(manifest["layers"][0]["digest"]).read(), check=True)

    def setUp(self):
        super().setUp()
        self.name = f"cloister-test-{os.getpid()}"
        self.bundle = f"{self.place}/bundle"

    def start(self, *command, uid=UID, ours=True, masked=False):
        """Starts the image's program by runc as a runtime would, in the network of this machine. Returns the process."""
        path = f"{self.bundle}/config.json"
        if os.path.exists(path):
            os.remove(path)
        subprocess.run(["runc", "spec", "--bundle", self.bundle], check=True)
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        process, linux = config["process"], config["linux"]
        process.update(terminal=False, args=[*self.config["Entrypoint"], *command], env=self.config["Env"], user={"uid": uid, "gid": 0}, capabilities={},
                       noNewPrivileges=True)
        config["root"]["readonly"] = False
        config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
        config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
        linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "network"]
        linux["seccomp"] = test_no_sandbox.Runc.filter(self, ours=ours)
        if not masked:
            linux.pop("maskedPaths"), linux.pop("readonlyPaths")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        log = harness.Log()
        running = subprocess.Popen(["runc", "run", "--bundle", self.bundle, self.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end, running, log)
        return running, log

    def end(self, running, log):
        if running.poll() is None:
            subprocess.run(["runc", "kill", self.name, "KILL"], check=False, capture_output=True)
            running.wait(harness.PATIENCE)
        subprocess.run(["runc", "delete", "-f", self.name], check=False, capture_output=True)
        log.close()

    def test_run_without_a_passwd_entry(self):
        running, log = self.start("run", "-c", "import os; print(os.getuid() and 6 * 7)")
        self.assertEqual(running.wait(harness.patient(120)), 0, log.text())
        self.assertIn("42\n", log.text())

    def test_serve_as_pid_1(self):
        running, log = self.start("serve", "--listen", "127.0.0.1:0")
        harness.wait_until(lambda: "serving MCP" in log.text() or running.poll() is not None)
        port = int(re.search(r"http://127.0.0.1:(\d+)/mcp", log.text())[1])
        connection = test_serve.Connection(("127.0.0.1", port))
        self.addCleanup(connection.close)
        connection.socket.settimeout(harness.patient(120))
        self.assertEqual(connection.call("6 * 7").response().json()["result"]["structuredContent"]["value"]["json"], 42)
        # An orphan of the container becomes a child of pid 1, which reaps it.
        ran = subprocess.run(["runc", "exec", self.name, "sh", "-c", "(sleep 0.2; exit 3) & :"], check=False, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        time.sleep(1)
        states = subprocess.run(["runc", "exec", self.name, "sh", "-c", "cat /proc/[0-9]*/stat"], check=True, capture_output=True, text=True).stdout
        self.assertEqual([line for line in states.splitlines() if ") Z " in line], [])
        # As 'docker stop' does.
        subprocess.run(["runc", "kill", self.name, "TERM"], check=True)
        self.assertEqual(running.wait(harness.PATIENCE), 0, log.text())

    def test_what_a_runtime_denies(self):
        """With Docker's default filter, or with its masks over /proc, it refuses with a line; nothing runs without namespaces."""
        for ours, masked in ((False, False), (True, True)):
            running, log = self.start("run", "-c", "print('ran')", ours=ours, masked=masked)
            self.assertEqual(running.wait(harness.patient(120)), test_no_sandbox.NO_SANDBOX, log.text())
            self.assertNotIn("ran\n", log.text())
            self.end(running, harness.Log())


if __name__ == "__main__":
    harness.main()
