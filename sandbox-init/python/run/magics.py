"""Cells that were written for a notebook: lines that are not Python become calls of the Shell below, line for line.

A cell is rewritten only if it does not compile as it is. Lines in strings and brackets are left alone; a line that is not supported
stays as it is, so that the compiler reports it and hints.py says what to write instead.
"""

import os
import re
import shlex
import sys
from time import perf_counter, process_time

import __main__
from cloister import cell, installing
from cloister.interrupts import calls_guest

# The rewritten lines call this: code may have changed the name get_ipython.
_SHELL = "__import__('cloister').shell"
_COUNT = "__timeit__"  # the variable of the loop of %timeit
_IGNORED = "aimport autoreload autosave colors config load_ext matplotlib reload_ext unload_ext xmode".split()
_WRITTEN = ("bash", "sh")
_ENOUGH = 0.2  # seconds of one measurement of %timeit

# Compiled at its first use: most sessions have no such line.
_TOKEN = (
    r"#[^\n]*|[rRbBuUfFtT]{0,2}(?P<long>\"\"\"|''')|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<more>\\\n)|(?P<end>\n)"
)
_LINE = (
    r"(?P<indent>[ \t]*)(?P<target>[A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*[ \t]*=[ \t]*)?"
    r"(?:%[ \t]*(?P<name>[A-Za-z_]\w*)|(?P<shell>!!?))(?P<rest>(?:[^\\\n]|\\\n|\\.)*)"
)
_CELL = r"(?:[ \t]*(?:#[^\n]*)?\n)*%%(?P<name>[A-Za-z_]\w*)(?P<rest>[^\n]*)(?:\n|$)"


def _is_value(text):
    try:
        compile(text.strip(), "<magic>", "eval", 0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return True
    except (SyntaxError, ValueError):
        return False


def _code(text):
    """Without a comment at its end."""
    comment = next((match for match in re.finditer(_TOKEN, text) if match[0][0] == "#"), None)
    return (text[:comment.start()] if comment else text).strip()


def _timed(rest, target):
    rest = _code(rest)
    if not rest.strip():
        return None
    if _is_value(rest):
        return "%s%s.timed(%s.now(), (%s))" % (target, _SHELL, _SHELL, rest.strip())
    return None if target else "with %s.timing(): %s" % (_SHELL, rest.strip())


def _options(rest, known):
    """({option: value}, the rest) of "-n 10 -q code". known: options; with a colon, it has a value."""
    found = {}
    while True:
        match = re.match(r"\s*-([A-Za-z])\s*", rest)
        if match is None or match[1] not in known:
            return found, rest.strip()
        rest = rest[match.end():]
        found[match[1]] = True
        if known[known.index(match[1]) + 1:][:1] == ":":
            value = re.match(r"\S*", rest)
            found[match[1]], rest = value[0], rest[value.end():]


def _repeated(rest, target):
    options, code = _options(rest, "n:r:qop:tc")
    if not code or target:
        return None
    return "for %s in %s.repeat(%r): %s" % (_COUNT, _SHELL, options, code)


def _line(match):
    """The Python for a line, in one line; None if it is not supported."""
    name, rest, target = match["name"], match["rest"], match["target"] or ""
    packages = installing.rewrite(match[0].lstrip())
    if packages is not None:
        return packages.replace("\\\n", " ")
    if match["shell"]:
        if not rest.strip():
            return None
        kept = target or match["shell"] == "!!"
        return "%s%s.%s(%r)" % (target, _SHELL, "getoutput" if kept else "system", rest.strip())
    if name == "time":
        return _timed(rest, target)
    if name == "timeit":
        return _repeated(rest, target)
    if name in _IGNORED:
        return None if target else "pass"
    if name in _LINES:
        return "%s%s.run_line_magic(%r, %r)" % (target, _SHELL, name, rest.strip())
    return None


def _rewrite_lines(source, at):
    """The lines from `at` on."""
    token, line = re.compile(_TOKEN), re.compile(_LINE)
    out, depth, begins = [], 0, True
    while at < len(source):
        match = line.match(source, at) if begins else None
        python = _line(match) if match else None
        if python is not None:
            out.append(match["indent"] + python + "\n" * match[0].count("\n"))
            at, begins = match.end(), False
            continue
        match = token.search(source, at)
        if match is None:
            break
        end = match.end()
        if match["long"]:
            close = re.compile(r"(?:\\.|[^\\])*?" + match["long"], re.DOTALL).match(source, end)
            if close is None:
                break
            end = close.end()
        depth += bool(match["open"]) - bool(match["close"])
        begins = bool(match["end"]) and depth <= 0
        out.append(source[at:end])
        at = end
    return "".join(out) + source[at:]


def _whole(name, rest, body):
    """The Python for the first line of a cell, and the rest of the cell; None if the magic is not supported."""
    if name == "time":
        return "%s.begin_timing()" % _SHELL, body
    if name == "capture":
        return "%s.begin_capture(%r)" % (_SHELL, rest.strip()), body
    if name == "timeit":
        options, setup = _options(rest, "n:r:qop:tc")
        indented = "".join(" " + line for line in body.splitlines(True))
        return "for %s in %s.repeat(%r, %r):" % (_COUNT, _SHELL, options, setup), indented or " pass"
    if name in _WRITTEN:
        return "%s.run_cell_magic(%r, %r, %r)" % (_SHELL, name, rest.strip(), body), None
    return None


def rewrite(source):
    """The cell's text with the lines that are supported as calls, on the same lines; None if there are none."""
    before, body, compiled = "", source, re.compile(_CELL)
    while True:
        match = compiled.match(body)
        whole = _whole(match["name"], match["rest"], body[match.end():]) if match else None
        if whole is None:
            break
        before += "\n" * match[0].rstrip("\n").count("\n") + whole[0] + "\n"
        if whole[1] is None:
            return before + "\n" * body[match.end():].count("\n")
        body = whole[1]
    changed = before + _rewrite_lines(body, 0)
    return None if changed == source else changed


# ---- what the lines do ----------------------------------------------------------------------------------------------


class Lines(list):
    """The lines that a command has printed. n, s: as one text, with newlines or spaces between them."""

    l = property(list)
    n = property("\n".join)
    s = property(" ".join)


class Captured:
    """What %%capture NAME has caught: stdout and stderr."""

    stdout = stderr = ""

    def __str__(self):
        return self.stdout

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show


def _duration(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            break
    else:
        unit, factor = "ns", 1e9
    return "%.3g %s" % (seconds * factor, unit)


def _expand(command, frame):
    """{expression} and $name as in IPython: of the code that runs the line. Text that cannot be evaluated stays."""

    @calls_guest
    def value(match):
        text = match[1] or match[2]
        if text is None:
            return match[0][1:]  # {{ }} $$
        try:
            return str(eval(text, frame.f_globals, frame.f_locals))
        except Exception:
            return match[0]

    return re.sub(r"\{\{|\}\}|\$\$|\{([^{}\n]+)\}|\$([A-Za-z_]\w*)", value, command)


def _caller():
    """The frame of the code that runs the line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cloister."):
        frame = frame.f_back
    return frame


class _Timing:
    def __init__(self, shell):
        self._shell = shell

    def __enter__(self):
        self._begun = self._shell.now()

    def __exit__(self, kind, *rest):
        if kind is None:
            self._shell.timed(self._begun)


class Events:
    """Libraries register functions here that this shell never calls: figures are shown without them."""

    def register(self, *arguments):
        pass

    unregister = trigger = register


class Shell:
    """What get_ipython() returns."""

    __module__ = "cloister"
    config = {}

    def __init__(self):
        self.events = Events()
        self._before = []  # directories before %cd

    user_ns = property(lambda self: vars(__main__))

    def __repr__(self):
        return "<get_ipython(): lines of notebooks, without IPython>"

    def __getattr__(self, name):
        raise AttributeError("this is not IPython, and has no %s: get_ipython() has system, getoutput, run_line_magic" % name)

    def enable_gui(self, gui=None):
        pass

    def enable_matplotlib(self, gui=None):
        pass

    @calls_guest
    def run_line_magic(self, name, line, _stack_depth=1):
        if name in _IGNORED:
            return None
        if name in ("time", "timeit"):
            code = (_timed if name == "time" else _repeated)(line, "")
            if code is None:
                raise SyntaxError("%%%s needs code" % name)
            how = "eval" if _is_value(code) else "exec"
            return eval(compile(code, "<magic>", how), vars(__main__))
        if name not in _LINES:
            raise ValueError("magics of IPython are not available: write it in Python, without %%%s" % name)
        return _LINES[name](self, _expand(line, _caller()))

    def run_cell_magic(self, name, line, cell):
        if name not in _WRITTEN:
            raise ValueError("magics of IPython are not available: write it in Python, without %%%%%s" % name)
        import subprocess
        from shutil import which

        words, into, raises = iter(shlex.split(line)), {}, True
        arguments = []
        for word in words:
            if word in ("--out", "--err"):
                into[word[2:]] = next(words, "_")
            elif word == "--no-raise-error":
                raises = False
            else:
                arguments.append(word)
        program = which(name) or "/bin/sh"  # small images have no bash
        code = self._run([program, "-c", cell, name, *arguments], False, into)
        if code and raises:
            raise subprocess.CalledProcessError(code, "%%" + name)

    def magic(self, line):
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    # ---- programs ----

    def system(self, command):
        """Runs a command; its output is the cell's. The status is in the variable _exit_code, as in IPython."""
        vars(__main__)["_exit_code"] = self._run(_expand(command, _caller()), True)

    @calls_guest
    def getoutput(self, command, split=True):
        import subprocess

        done = subprocess.run(_expand(command, _caller()), shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        vars(__main__)["_exit_code"] = done.returncode
        text = done.stdout.decode("utf-8", "replace")
        return Lines(text.splitlines()) if split else text

    @staticmethod
    @calls_guest
    def _run(command, is_line, into={}):
        """into: {"out" or "err": the variable that gets it}."""
        import subprocess

        from cloister import stdio

        if stdio.is_own() and not into:
            sys.stdout.flush()
            sys.stderr.flush()
            stdio.output_comes()
            return subprocess.call(command, shell=is_line, stdin=subprocess.DEVNULL)
        # The code has replaced a stream, for instance by %%capture.
        done = subprocess.run(command, shell=is_line, stdin=subprocess.DEVNULL, capture_output=True)
        for which, stream, data in ("out", sys.stdout, done.stdout), ("err", sys.stderr, done.stderr):
            text = data.decode("utf-8", "replace")
            if which in into:
                vars(__main__)[into[which]] = text
            else:
                stream.write(text)
        return done.returncode

    # ---- %time, %timeit ----

    @staticmethod
    def now():
        return perf_counter(), process_time()

    @staticmethod
    @calls_guest
    def timed(begun, value=None):
        wall, cpu = perf_counter() - begun[0], process_time() - begun[1]
        print("CPU times: %s\nWall time: %s" % (_duration(cpu), _duration(wall)))
        return value

    def timing(self):
        return _Timing(self)

    def begin_timing(self):
        begun = self.now()
        cell.ENDS.append(lambda outcome: outcome.error is None and self.timed(begun))

    @calls_guest
    def repeat(self, options, setup=""):
        """The iterator of the loop that %timeit is. It prints the result when the loop has ended."""
        names = _caller().f_globals
        if setup:
            exec(compile(setup, "<magic>", "exec"), names)
        times, wanted = [], int(options.get("r", 7))
        number = int(options["n"]) if "n" in options else 0
        if not number:
            number, took = 1, 0.0
            while True:
                begun = perf_counter()
                yield from range(number)
                took = perf_counter() - begun
                if took >= _ENOUGH / 10 or number >= 10**8:
                    break
                number *= 10
            number = max(1, int(number * _ENOUGH / took)) if took else number
            number = 10 ** (len(str(number)) - 1)
        for _ in range(wanted):
            begun = perf_counter()
            yield from range(number)
            times.append((perf_counter() - begun) / number)
        names.pop(_COUNT, None)
        if times and "q" not in options:
            mean = sum(times) / len(times)
            spread = (sum((one - mean) ** 2 for one in times) / len(times)) ** 0.5
            print("%s ± %s per loop (mean ± std. dev. of %d runs, %s loops each)"
                  % (_duration(mean), _duration(spread), len(times), format(number, ",")))

    # ---- %%capture ----

    def begin_capture(self, line):
        import io

        import cloister

        displays = cloister.display.__self__
        words = shlex.split(line)
        kept = {"--no-stdout": "stdout", "--no-stderr": "stderr"}
        left_out = {kept[word] for word in words if word in kept}
        captured, name = Captured(), next((word for word in words if not word.startswith("-")), None)
        streams = {which: getattr(sys, which) for which in ("stdout", "stderr") if which not in left_out}
        buffers = {which: io.StringIO() for which in streams}
        for which, buffer in buffers.items():
            setattr(sys, which, buffer)
        displays.muted = "--no-display" not in words

        def end(outcome):
            displays.muted = False
            for which, stream in streams.items():
                if getattr(sys, which) is buffers[which]:
                    setattr(sys, which, stream)
                setattr(captured, which, buffers[which].getvalue())
            if name:
                vars(__main__)[name] = captured
            outcome.value = None

        cell.ENDS.append(end)

    # ---- %cd, %env, %pwd ----

    def _cd(self, line):
        line = line.strip("'\"")
        options, line = _options(line, "q")
        if line == "-":
            if not self._before:
                raise OSError("%cd -: there is no directory before this one")
            line = self._before.pop()
        here = os.getcwd()
        os.chdir(os.path.expanduser(line or "~"))
        self._before.append(here)
        if "q" not in options:
            print(os.getcwd())

    def _pwd(self, line):
        return os.getcwd()

    def _env(self, line):
        if not line:
            return dict(os.environ)
        name, sign, value = line.partition("=")
        if not sign:
            name, sign, value = line.partition(" ")
        if not sign:
            if name not in os.environ:
                raise KeyError("the environment has no %s" % name)
            return os.environ[name]
        os.environ[name.strip()] = value.strip()
        print("env: %s=%s" % (name.strip(), value.strip()))
        return None


_LINES = {"cd": Shell._cd, "pwd": Shell._pwd, "env": Shell._env, "set_env": Shell._env}
