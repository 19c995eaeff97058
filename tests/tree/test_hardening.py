"""The executables as they were linked: position-independent, read-only after relocation, canaries."""

import os
import subprocess
import tempfile
import unittest

BUILD = os.environ["CLOISTER_BUILD"]
PROGRAMS = ("cloister", "cloister-broker", "cloister-monitor", "cloister-doctor", "cloister-oauth", "cloister-access", "cloister-inject", "cloister-journal", "cloister-pictures", "cloister-unpacker", "cloister-launcher", "cloister-init", "cloister-worker")


def readelf(*arguments):
    done = subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def lacks(path):
    """What a hardened executable has and this one has not."""
    found = readelf("-h", "-d", "-l", "-s", path)
    wanted = {
        "PIE": "DYN (Position-Independent Executable file)",
        "RELRO": "GNU_RELRO",
        "bindings resolved at start": "NOW",
        "stack protector": "__stack_chk_fail",
    }
    missing = [name for name, mark in wanted.items() if mark not in found]
    stack = [line for line in found.splitlines() if "GNU_STACK" in line]
    if not stack or " RWE " in stack[0]:
        missing.append("a stack that is not executable")
    return missing


class Hardening(unittest.TestCase):
    def test_programs(self):
        for name in PROGRAMS:
            with self.subTest(name):
                self.assertEqual(lacks(os.path.join(BUILD, name)), [])

    def test_the_static_one_is_static(self):
        self.assertNotIn("INTERP", readelf("-l", os.path.join(BUILD, "cloister-init")))
        self.assertIn("INTERP", readelf("-l", os.path.join(BUILD, "cloister-worker")))

    def test_what_goes_into_an_image_needs_libc_only(self):
        needed = [line.split("[")[1].rstrip("]") for line in
                  readelf("-d", os.path.join(BUILD, "cloister-worker")).splitlines() if "(NEEDED)" in line]
        self.assertEqual([n for n in needed if not n.startswith(("libc.so", "libdl.so", "libpthread.so"))], [])

    def test_a_program_without_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "soft")
            subprocess.run(["cc", "-no-pie", "-fno-stack-protector", "-Wl,-z,norelro,-z,lazy,-z,execstack",
                            "-x", "c", "-", "-o", path], input="int main(void) { return 0; }", text=True, check=True,
                           stderr=subprocess.DEVNULL)
            self.assertGreaterEqual(len(lacks(path)), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
