"""A server of the official Python SDK whose tools return values that are not objects."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("sdk")


@server.tool()
def numbers() -> list[int]:
    """A list."""
    return [1, 2, 3]


@server.tool()
def total(values: list[int]) -> int:
    """A number."""
    return sum(values)


@server.tool()
def table() -> dict[str, int]:
    """An object, whose one key is "result" by chance."""
    return {"result": 1}


server.run("stdio")
