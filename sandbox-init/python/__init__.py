"""What code in the sandbox may import by name: `from cloister import ToolError, tools`."""

from cloister.errors import (
    RollbackError,
    ToolArgumentError,
    ToolError,
    ToolInputRequired,
    ToolNotFound,
    ToolProtocolError,
    ToolTimeout,
    ToolUnavailable,
    TransactionError,
)

__all__ = [
    "RollbackError",
    "ToolArgumentError",
    "ToolError",
    "ToolInputRequired",
    "ToolNotFound",
    "ToolProtocolError",
    "ToolTimeout",
    "ToolUnavailable",
    "TransactionError",
]
