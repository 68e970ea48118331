"""A stdio server on the official Python SDK as it was in 2024, for test-workers.sh."""
import os

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

server = FastMCP("python-worker-2024")


@server.tool()
def whoami() -> str:
    """Say which account this runs as."""
    return f"uid={os.getuid()} pid={os.getpid()}"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say"))
    result = await ctx.session.create_message([message], max_tokens=9)
    return result.content.text


server.run("stdio")
