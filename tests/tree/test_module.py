"""cloister-module as it was linked: it must load into an interpreter with any libc."""

import os
import re
import subprocess
import unittest

BUILD = os.environ["CLOISTER_BUILD"]
SOURCE = os.environ["CLOISTER_SOURCE"]
MODULE = os.path.join(BUILD, "cloister-module.so")

# Symbols that every libc exports in the same way, and only the interpreter's own libc can provide (module-main.c).
OF_LIBC = {"fork", "fflush", "stdout", "__rseq_offset", "__rseq_size", "dlopen", "dlsym", "gnu_get_libc_version"}


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def symbols(path=MODULE):
    """(defined, undefined) names of the dynamic symbol table."""
    defined, undefined = set(), set()
    for line in readelf("--dyn-syms", path).splitlines():
        parts = line.split()
        if len(parts) >= 8 and parts[0].rstrip(":").isdigit():
            (undefined if parts[6] == "UND" else defined).add(parts[7])
    return defined, undefined


def stable_abi():
    """The names in python-api.h; that they are of the stable ABI, Python.h has seen to (Py_LIMITED_API)."""
    with open(f"{SOURCE}/sandbox-init/worker/python-api.h", encoding="utf-8") as file:
        return set(re.findall(r"^\s+X\((\w+)\)", file.read(), re.M))


class Module(unittest.TestCase):
    def test_needs_no_library(self):
        dynamic = readelf("-d", MODULE)
        self.assertNotIn("(NEEDED)", dynamic)
        self.assertNotIn("STATIC_TLS", dynamic)
        self.assertNotIn("TLS", readelf("-l", MODULE))
        self.assertIn("(NEEDED)", readelf("-d", os.path.join(BUILD, "cloister-worker")))

    def test_needs_no_version_of_a_symbol(self):
        self.assertNotIn("GLIBC_", readelf("-V", MODULE))
        self.assertIn("GLIBC_", readelf("-V", os.path.join(BUILD, "cloister-worker")))

    def test_wants_the_stable_abi_only(self):
        defined, undefined = symbols()
        api = stable_abi()
        self.assertGreater(len(api), 30)
        self.assertEqual({name for name in undefined if not name.startswith("Py")}, OF_LIBC)
        self.assertEqual(undefined - OF_LIBC - api, set())
        self.assertEqual(defined, {"PyInit__cloister"})

    def test_hardening(self):
        found = readelf("-l", "-d", "-s", "-n", MODULE)
        for mark in ("GNU_RELRO", "BIND_NOW", "__stack_chk_fail"):
            self.assertIn(mark, found)
        (stack,) = [line for line in found.splitlines() if "GNU_STACK" in line]
        self.assertNotIn(" RWE ", stack)
        self.assertNotIn("TEXTREL", found)
        # The canary is compared in our own code, and what fails ends here.
        disassembly = subprocess.run(["objdump", "-d", "--no-show-raw-insn", MODULE], capture_output=True, text=True,
                                     check=True).stdout
        if os.uname().machine == "x86_64":
            self.assertIn("%fs:0x28", disassembly)


if __name__ == "__main__":
    unittest.main(verbosity=2)
