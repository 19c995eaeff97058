"""What code gets besides its text from `cloister run`, and from a published tool that runs it: arguments, variables of the
environment, its file, the name of its module, standard input."""

import atexit
import os
import sys

from cloister import stdio
from cloister.cell import ENDS
from cloister.codemode import adapt
from cloister.files import ROOT
from cloister.interrupts import calls_guest
from cloister.json_codec import decode
from cloister.standard_input import piped


def _path():
    """sys.path, which earlier code may have replaced by anything."""
    if not isinstance(sys.path, list):
        sys.path = []
    return sys.path


@calls_guest
def _end_program(outcome):
    """Does what Python does when a script has ended: waits for the threads that are not daemons, calls the functions of atexit."""
    if isinstance(outcome.error, KeyboardInterrupt):
        return
    threading = sys.modules.get("threading")
    while threading is not None:
        for function in reversed(getattr(threading, "_threading_atexits", ())):
            function()
        others = [t for t in threading.enumerate() if t is not threading.current_thread() and not t.daemon]
        if not others:
            break
        others[0].join()
    atexit._run_exitfuncs()


class Script:
    def __init__(self, namespace, channel, files):
        self._namespace = namespace
        self._channel = channel
        self._files = files
        self._payload = None
        self._lasting = None  # the payload that has only named the module: it holds until a cell has another one, or none
        self._name = self._name_before = None
        self._arguments = None
        self.commands = None  # that run the code, which is not Python (program.py)

    @property
    def is_one(self):
        return self._arguments is not None

    def on_frame(self, number, payload):
        self._payload = payload

    def begin(self, source):
        """Before a cell with this code. Returns its sys.argv, or None."""
        payload, self._payload = self._payload, None
        if payload != self._lasting:
            self._restore_name()
            if payload is not None:
                try:
                    self._apply(decode(payload), source, payload)
                except Exception as error:
                    raise ValueError("script: %r" % error) from None
        elif payload is not None:
            self._namespace["__name__"] = self._name  # code may have changed it
        return self._arguments

    def _keep_name(self, name, payload):
        """Most calls of a session are of one tool: what is the same for the next cell is not undone and done again."""
        if name is not None:
            self._lasting, self._name, self._name_before = payload, name, self._namespace.get("__name__")
            self._namespace["__name__"] = name

    def _restore_name(self):
        if self._lasting is not None:
            self._lasting = None
            self._namespace["__name__"] = self._name_before

    def _lend_input(self):
        """To the cell of a prompt: the session's other cells have none."""
        before, stream = stdio.own_input(), piped(self._channel, True)
        stdio.replace_input(stream)

        def end(outcome):
            stream.buffer.raw.end()
            stdio.replace_input(before)

        ENDS.append(end)

    def _end_with_cell(self, name, ends):
        """The session's other cells do not have what this one gets. name: its __name__, or None; ends: there are no others."""
        before = {key: self._namespace[key] for key in ("__name__", "__file__") if key in self._namespace}
        path, arguments = _path()[:1], self._arguments

        def end(outcome):
            self._arguments = arguments
            self.commands = None
            for key in ("__name__", "__file__"):
                self._namespace.pop(key, None)
            self._namespace.update(before)
            if _path()[:1] == [ROOT]:
                sys.path[:1] = path

        if name is not None:
            self._namespace["__name__"] = name
        ENDS.append(end)
        if ends:
            ENDS.append(_end_program)

    def _apply(self, given, code, payload):
        if given == {"input": "terminal"}:
            self._lend_input()
            return
        if given.pop("once", False):
            if "guest" in given:
                adapt(self._namespace, given.pop("guest"))
            name, ends = given.pop("name", None), given.pop("ends", False)
            if given == {"input": "none"}:
                self._keep_name(name, payload)
                return
            self._end_with_cell(name, ends)
        arguments, environment, source, file = given["arguments"], given["environment"], given["input"], given.get("file")
        if not isinstance(arguments, list) or not all(isinstance(text, str) for text in (*arguments, source, file or "")):
            raise TypeError("a list of strings and strings are needed")
        # An error leaves a session without a script.
        if given.get("write"):
            folder, name = os.path.split(file)
            if folder != ROOT:
                raise ValueError(file)
            self._files.write(name, code.encode())
        os.environ.update(environment)
        if file is not None:
            # As `python FILE` has it. The module is read from memory: its source may differ from what the file becomes.
            _path()[:1] = [os.path.dirname(file)]
            self._namespace["__file__"] = file
        self.commands = given.get("commands")
        if source != "none":
            stdio.replace_input(piped(self._channel, source == "terminal"))
        self._arguments = arguments
