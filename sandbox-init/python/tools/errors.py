"""The exceptions that a tool call raises."""

import sys


class ToolError(Exception):
    """A tool call failed. If the class is not a subclass below, the tool itself reported the error.

    server, tool    the tool that was called, and its server
    content         the content blocks of the answer, as the server sent them ([] when there was none)
    """

    def __init__(self, message="", *, server=None, tool=None, content=None):
        super().__init__(message)
        self.message = message
        self.server = server
        self.tool = tool
        self.content = [] if content is None else content

    def __str__(self):
        return str(self.message)


class ToolNotFound(ToolError, KeyError, AttributeError):
    """No server has such a tool, or several have; nothing was sent."""


class ToolArgumentError(ToolError, TypeError, ValueError):
    """The arguments do not fit the tool's schema, or no JSON can carry them; nothing was sent."""


class ToolUnavailable(ToolError):
    """The server cannot be started, has crashed, or its connection was closed."""


_TIMEOUTS = (TimeoutError,)
if sys.version_info < (3, 11):
    # They are two classes before Python 3.11.
    import asyncio

    _TIMEOUTS = (TimeoutError, asyncio.TimeoutError)


class ToolTimeout(ToolError, *_TIMEOUTS):
    """The server did not answer in time; whether it did the work is unknown. Also a TimeoutError."""


class ToolProtocolError(ToolError):
    """The server answered with a JSON-RPC error or with an invalid response.

    code, data      of the JSON-RPC error; None when there was none. data of a result that does not fit the tool's
                    outputSchema: the whole result
    """

    def __init__(self, message="", *, code=None, data=None, **of):
        super().__init__(message, **of)
        self.code = code
        self.data = data


class ToolInputRequired(ToolError):
    """The server requires something that the client cannot provide: input of a person, or an address that a person has to
    open.

    request         what the server asks: {"method", "params"}, or None
    url             the address, or None
    """

    def __init__(self, message="", *, request=None, **of):
        super().__init__(message, **of)
        self.request = request
        params = request.get("params") if isinstance(request, dict) else None
        self.url = params.get("url") if isinstance(params, dict) else None


class ToolDenied(ToolError):
    """A rule of the config, or a person, does not allow this call; nothing was sent.

    rule            the place of the rule, such as "config.json line 14", or None
    why             the reason that the rule gives, or None
    """

    def __init__(self, message="", *, rule=None, why=None, **of):
        super().__init__(message, **of)
        self.rule = rule
        self.why = why


class PreflightError(Exception):
    """Calls of tools in a cell would fail; the cell did not run. No code in the sandbox gets it. line: of the first
    one."""

    def __init__(self, text, line):
        super().__init__(text)
        self.line = line


PreflightError.__module__ = "cloister"


class TransactionError(RuntimeError):
    """A block of transaction() was not run, because it could not be taken back, or was run and could not be."""


class RollbackError(TransactionError):
    """A block of transaction() has failed and was taken back. Stands for an exception that cannot be made again.

    type, message, traceback    of that exception, as text
    """

    def __init__(self, type, message, traceback):
        super().__init__(type, message, traceback)
        self.type = type
        self.message = message
        self.traceback = traceback

    def __str__(self):
        text = "%s: %s" % (self.type, self.message) if self.message else self.type
        return "the block was rolled back: %s\nIn the block:\n%s" % (text, self.traceback.rstrip("\n"))


KINDS = {
    kind.__name__: kind
    for kind in (
        ToolError,
        ToolNotFound,
        ToolArgumentError,
        ToolUnavailable,
        ToolTimeout,
        ToolProtocolError,
        ToolInputRequired,
        ToolDenied,
    )
}

TRANSACTIONS = {kind.__name__: kind for kind in (TransactionError, RollbackError)}

for _kind in (*KINDS.values(), *TRANSACTIONS.values()):
    _kind.__module__ = "cloister"
