"""A stdio server on the official Python SDK, for test-workers.sh."""
import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("python-worker")


@server.tool()
def whoami() -> str:
    """Say which account this runs as."""
    return f"uid={os.getuid()} pid={os.getpid()}"


server.run("stdio")
