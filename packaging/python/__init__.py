"""The program `cloister`, carried by a wheel: a sandbox for the Python of AI agents."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cloister")


def main():
    """Becomes the program; does not return."""
    try:
        os.execv(PROGRAM, ["cloister", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cloister: {PROGRAM}: {error.strerror}: install the package again")
