import errno
import ssl
import subprocess
import unittest

import guest  # noqa: F401

from cloister import hints, tracebacks


def raised(function):
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


class Denials(unittest.TestCase):
    def test_of_the_cause(self):
        def function():
            try:
                raise OSError(errno.ENETUNREACH, "unreachable")
            except OSError as error:
                raise ValueError("no data") from error

        described = tracebacks.describe(raised(function))
        self.assertIn("no data (this sandbox has no network: ", described["message"])
        self.assertIn("ValueError: no data (this sandbox has no network: ", described["traceback"])

    def test_errors_of_tls_have_numbers_of_their_own(self):
        self.assertEqual(hints.denial(ssl.SSLCertVerificationError(1, "certificate verify failed")), "")
        self.assertNotEqual(hints.denial(OSError(errno.EPERM, "not permitted")), "")

    def test_locks(self):
        self.assertIn("4,096 locks", hints.denial(OSError(errno.ENOLCK, "no locks")))

    def test_of_what_a_library_handled(self):
        class LibraryError(Exception):
            pass

        def function(kind):
            try:
                raise OSError(errno.EROFS, "read-only")
            except OSError:
                raise kind("what")

        self.assertNotEqual(hints.denial(raised(lambda: function(LibraryError))), "")
        self.assertNotEqual(hints.denial(raised(lambda: function(RuntimeError))), "")
        for kind in KeyError, NameError, ZeroDivisionError:
            self.assertEqual(hints.denial(raised(lambda: function(kind))), "")

    def test_not_of_a_suppressed_one(self):
        def function():
            try:
                raise OSError(errno.EROFS, "read-only")
            except OSError:
                raise RuntimeError("what") from None

        self.assertEqual(hints.denial(raised(function)), "")

    def test_a_circle_and_a_long_chain(self):
        one, two = RuntimeError("1"), RuntimeError("2")
        one.__cause__, two.__cause__ = two, one
        self.assertEqual(hints.denial(one), "")
        last = OSError(errno.EROFS, "read-only")
        for _ in range(hints.CHAIN_MAX):
            error = RuntimeError("outer")
            error.__cause__, last = last, error
        self.assertEqual(hints.denial(last), "")
        self.assertNotEqual(hints.denial(last.__cause__), "")

    def test_exceptions_that_lie(self):
        class Odd(OSError):
            @property
            def errno(self):
                raise RuntimeError("no")

        class Text(TypeError):
            def __str__(self):
                raise RuntimeError("no")

        for error in Odd(), Text("coroutine"), subprocess.CalledProcessError("x", [None]), OSError(errno.ENOENT, "x", 7):
            self.assertEqual(hints.denial(error), "")

    def test_forgotten_await(self):
        async def tool():
            return {}

        def of(function):
            coroutine = tool()
            try:
                return hints.denial(raised(lambda: function(coroutine)))
            finally:
                coroutine.close()

        import json

        for function in (lambda c: c["x"], lambda c: c.x, len, list, lambda c: c + [1], json.dumps, lambda c: [*c], lambda c: 1 in c):
            self.assertIn("write await", of(function))
        self.assertEqual(hints.denial(TypeError("'int' object is not subscriptable")), "")

    def test_children(self):
        for status, part in ((-9, "was killed"), (-31, "no such system call")):
            self.assertIn(part, hints.denial(subprocess.CalledProcessError(status, ["make"])))
        self.assertEqual(hints.denial(subprocess.CalledProcessError(1, ["make"])), "")
        self.assertEqual(hints.denial(subprocess.CalledProcessError(1, ["pipeline"])), "")
        for command in "pip install x", ["git", "clone", "x"]:
            self.assertIn("no network", hints.denial(subprocess.CalledProcessError(1, command)))
