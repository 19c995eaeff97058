"""Runs the tests of this directory with each Node: the one in PATH, and those below CLOISTER_NODES.

usage: run.py [FILE.py | FILE.Class.test ...]
"""

import glob
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import worker_rig  # noqa: E402


def nodes():
    """One path for each version."""
    top = os.environ.get("CLOISTER_NODES", os.path.join(worker_rig.TOP, "build", "nodes"))
    found = [*sorted(glob.glob(f"{top}/*/node_modules/node/bin/node")), shutil.which("node")]
    versions = {}
    for path in filter(None, found):
        versions.setdefault(subprocess.check_output([path, "--version"]), path)
    return list(versions.values())


def main(names):
    found = nodes()
    if not found:
        sys.exit("no Node: install nodejs, or run ./quickstart test, which fetches some")
    whole = True
    for node in found:
        print("==", node, flush=True)
        worker_rig.NODE = node
        loader = unittest.TestLoader()
        names = [name.removesuffix(".py") for name in names]
        suite = loader.loadTestsFromNames(names) if names else loader.discover(HERE)
        whole = unittest.TextTestRunner().run(suite).wasSuccessful() and whole
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
