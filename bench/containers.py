#!/usr/bin/env python3
"""Measures the import of a container image beside `tar -xz` of its layers and `umoci unpack`.

    containers.py [BUILD] [--mib N] [--files N] [--rounds N]

The image has a Python (of `cloister image build`) and files of text, in four layers of gzip. Prints the shortest time of each, the least
processor time, the ratios, and the peak of the memory of cloister-unpacker. cloister also writes all to the disk before it ends.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "integration"))

import container_images as containers  # noqa: E402

LAYERS = 4


def text_layer(number, files, size):
    """A tar of files of words, of which gzip makes about a third."""
    choose = random.Random(number)
    words = [bytes(choose.choices(b"abcdefghijklmnopqrstuvwxyz", k=choose.randrange(2, 12))) for _ in range(20000)]
    entries = []
    for i in range(files):
        if i % 100 == 0:
            entries.append(containers.directory(f"usr/data/{number}/{i // 100}"))
        entries.append(containers.file(f"usr/data/{number}/{i // 100}/{i}", b" ".join(choose.choices(words, k=size // 8))[:size]))
    return containers.tar(*entries)


def memory_of(name, process):
    """The peak of a process below this one, in KiB, as far as it was seen."""
    peak = 0
    while process.poll() is None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                    status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
                if status["Name"].strip() == name[:15]:
                    peak = max(peak, int(status["VmHWM"].split()[0]))
            except (OSError, KeyError):
                continue
        time.sleep(0.1)
    return peak


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command, place, **options):
    shutil.rmtree(place, ignore_errors=True)
    os.sync()
    begun, used = time.monotonic(), processor_time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    peak = memory_of("cloister-unpacker", process) if command[0].endswith("cloister") else 0
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{command}: {errors.decode()}")
    return time.monotonic() - begun, processor_time() - used, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=os.path.join(os.path.dirname(HERE), "build"))
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=30000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="cloister-bench-", dir="/var/tmp")
    try:
        program = os.path.join(os.path.abspath(options.build), "cloister")
        env = {**os.environ, "CLOISTER_IMAGE_STORE": f"{work}/store"}
        subprocess.run([program, "image", "build", "--name", "base", "--quiet"], env=env, check=True)
        layers = [containers.tar_of(f"{work}/store/base/root")]
        layers += [text_layer(i, options.files // LAYERS, (options.mib << 20) // options.files) for i in range(LAYERS)]
        image = containers.Image(*layers).layout(f"{work}/layout")
        blobs = sorted(os.scandir(f"{image}/blobs/sha256"), key=lambda e: -e.stat().st_size)[: len(layers)]
        print(f"{sum(map(len, layers)) >> 20} MiB in {len(layers)} layers, {sum(b.stat().st_size for b in blobs) >> 20} MiB compressed", flush=True)
        unpack = f"mkdir {work}/tar && for blob in {' '.join(b.path for b in blobs)}; do tar -xzf $blob -C {work}/tar; done"
        commands = {
            "cloister": ([program, "image", "build", "--oci", image, "--name", "image", "--quiet"], f"{work}/store/image"),
            "tar -xz": (["sh", "-c", unpack], f"{work}/tar"),
        }
        if shutil.which("umoci"):
            commands["umoci"] = (["umoci", "unpack", "--image", f"{image}:latest", f"{work}/bundle"], f"{work}/bundle")
        best, least, peak = {}, {}, 0
        for _ in range(options.rounds):
            for name, (command, place) in commands.items():
                seconds, used, memory = timed(command, place, env=env)
                best[name] = min(best.get(name, seconds), seconds)
                least[name] = min(least.get(name, used), used)
                peak = max(peak, memory)
        for name, seconds in best.items():
            print(f"{name:10} {seconds:6.1f} s, {least[name]:5.1f} s of a processor; cloister takes "
                  f"{best['cloister'] / seconds:.2f} and {least['cloister'] / least[name]:.2f} of it")
        print(f"cloister-unpacker: {peak / 1024:.0f} MiB at most")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
