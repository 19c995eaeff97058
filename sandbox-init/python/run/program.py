"""Code in a language of the profile's "program": it was written to a file, and programs of the image run it."""

import os
import re
import signal
import sys

from cloister import stdio
from cloister.cell import Outcome
from cloister.files import ROOT
from cloister.interrupts import calls_guest

NOT_FOUND, NOT_EXECUTABLE, BY_SIGNAL = 127, 126, 128  # as of a shell


def words(command):
    """The words of a command, which blanks separate. A part in single quotes may have blanks."""
    return [word.replace("'", "") for word in re.findall(r"(?:[^\s']|'[^']*')+", command)]


@calls_guest
def _wait(process):
    return process.wait()


def _run_command(command):
    """Returns its exit status. An interrupt kills its process group."""
    import subprocess

    try:
        process = subprocess.Popen(words(command), cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        stdio.complain("cloister: %s: %s\n" % (words(command)[0], error.strerror))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    try:
        status = _wait(process)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return BY_SIGNAL - status if status < 0 else status


def run(commands):
    """One after another, until one fails: its status is that of the code."""
    try:
        sys.stdout.flush()
        for command in commands:
            status = _run_command(command)
            if status:
                return Outcome(error=SystemExit(status))
        return Outcome()
    except BaseException as error:
        return Outcome(error=error)
