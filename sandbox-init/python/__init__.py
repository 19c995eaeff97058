"""What code in the sandbox may import by name: `from cloister import ToolError, tools`."""

from cloister.errors import (
    RollbackError,
    ToolArgumentError,
    ToolDenied,
    ToolError,
    ToolInputRequired,
    ToolNotFound,
    ToolProtocolError,
    ToolTimeout,
    ToolUnavailable,
    TransactionError,
)



def __getattr__(name):
    if name == "shell":
        from cloister import magics

        globals()[name] = magics.Shell()
        return globals()[name]
    raise AttributeError("module 'cloister' has no attribute %r" % name)


__all__ = [
    "RollbackError",
    "ToolArgumentError",
    "ToolDenied",
    "ToolError",
    "ToolInputRequired",
    "ToolNotFound",
    "ToolProtocolError",
    "ToolTimeout",
    "ToolUnavailable",
    "TransactionError",
]
