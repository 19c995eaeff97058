"""What code in the sandbox may import by name: `from cloister import ToolError, tools`."""

from cloister.errors import (
    ToolArgumentError,
    ToolError,
    ToolInputRequired,
    ToolNotFound,
    ToolProtocolError,
    ToolTimeout,
    ToolUnavailable,
)

__all__ = [
    "ToolArgumentError",
    "ToolError",
    "ToolInputRequired",
    "ToolNotFound",
    "ToolProtocolError",
    "ToolTimeout",
    "ToolUnavailable",
]
