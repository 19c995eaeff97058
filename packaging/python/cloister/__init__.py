"""The program `cloister`, carried by a wheel: a sandbox for the Python of AI agents.

`from cloister import Sandbox, AsyncSandbox` is its client (docs/sdk.md). It needs the package `mcp`, which the command does not.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloister.sandbox import AsyncSandbox, CodeError, CommandResult, FileInfo, Image, Result, Sandbox
    from cloister.server import CallRefused, SandboxError, ServerLost, ServerNotFound, ServerTooOld

__all__ = [
    "AsyncSandbox", "CallRefused", "CodeError", "CommandResult", "FileInfo", "Image", "Result", "Sandbox", "SandboxError", "ServerLost",
    "ServerNotFound", "ServerTooOld",
]

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cloister")


def __getattr__(name: str) -> "Any":
    """Loads the client when one of its names is used first, so that the command starts without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cloister import sandbox, server

    return getattr(sandbox if hasattr(sandbox, name) else server, name)


def main() -> None:
    """Becomes the program; does not return."""
    try:
        os.execv(PROGRAM, ["cloister", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cloister: {PROGRAM}: {error.strerror}: install the package again")
