"""The import of a container image beside `tar -xz` of its layers and `umoci unpack`.

The image has a Python (of `cloister image build`) and files of text, in layers of gzip. Cloister also writes all to the disk before it ends.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from measure import HERE, Failure, last_line

LAYERS = 4


def text_layer(containers, number, files, size):
    """A tar of files of words, of which gzip makes about a third."""
    choose = random.Random(number)
    words = [bytes(choose.choices(b"abcdefghijklmnopqrstuvwxyz", k=choose.randrange(2, 12))) for _ in range(20000)]
    entries = []
    for i in range(files):
        if i % 100 == 0:
            entries.append(containers.directory(f"usr/data/{number}/{i // 100}"))
        entries.append(containers.file(f"usr/data/{number}/{i // 100}/{i}", b" ".join(choose.choices(words, k=size // 8))[:size]))
    return containers.tar(*entries)


def watch_memory(name, peaks, ended):
    """Appends the peak of a process with this name, in MiB, ten times a second until an event."""
    while not ended.wait(0.1):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
                if status["Name"].strip() == name[:15]:
                    peaks.append(int(status["VmHWM"].split()[0]) / 1024)
            except (OSError, KeyError):
                continue


class Containers:
    """An image of `mib` MiB in `files` files, made once, below a directory that close() removes."""

    def __init__(self, bench, mib, files):
        tests = os.path.join(os.path.dirname(HERE), "tests", "integration")
        if not os.path.exists(f"{tests}/container_images.py"):
            raise Failure("what makes container images is in the source tree only: bench/run.py there measures this row")
        sys.path.append(tests)
        import container_images as containers

        self.program, self.work = bench.cloister, tempfile.mkdtemp(prefix="cloister-bench-", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.environment = {**bench.environment, "CLOISTER_IMAGE_STORE": f"{self.work}/store"}
        try:
            subprocess.run([self.program, "image", "build", "--name", "base", "--quiet"], env=self.environment, check=True)
            layers = [containers.tar_of(f"{self.work}/store/base/root")]
            layers += [text_layer(containers, i, files // LAYERS, (mib << 20) // files) for i in range(LAYERS)]
            self.image = containers.Image(*layers).layout(f"{self.work}/layout")
            blobs = sorted(os.scandir(f"{self.image}/blobs/sha256"), key=lambda e: -e.stat().st_size)
            self.layers = [blob.path for blob in blobs[:len(layers)]]
        except BaseException:
            self.close()
            raise

    def timed(self, place, *command):
        """The nanoseconds of a command that writes into a place."""
        place = f"{self.work}/{place}"
        shutil.rmtree(place, ignore_errors=True)
        os.sync()
        began = time.perf_counter_ns()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment, check=False)
        took = time.perf_counter_ns() - began
        if done.returncode:
            raise Failure(f"{command[0]}: {last_line(done.stderr)}")
        return took

    def round(self):
        """Nanoseconds of the rows; the value of oci-memory is MiB, scaled like them."""
        blobs, peaks, ended = " ".join(self.layers), [], threading.Event()
        watcher = threading.Thread(target=watch_memory, args=("cloister-unpacker", peaks, ended))
        watcher.start()
        try:
            own = self.timed("store/image", self.program, "image", "build", "--oci", self.image, "--name", "image", "--quiet")
        finally:
            ended.set()
            watcher.join()
        tar = self.timed("tar", "sh", "-c", f"mkdir {self.work}/tar && for blob in {blobs}; do tar -xzf $blob -C {self.work}/tar; done")
        found = {"oci": [own], "oci-memory": [max(peaks, default=0) * 1e6], "oci-tar": [tar]}
        if shutil.which("umoci"):
            umoci = self.timed("bundle", "umoci", "unpack", "--image", f"{self.image}:latest", f"{self.work}/bundle")
            found |= {"oci-unpack": [own], "oci-umoci": [umoci]}
        return found

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)
