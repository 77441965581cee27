"""An MCP server with one tool, which asks a person where to deploy to."""

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("deploys")


class Target(BaseModel):
    region: str
    copies: int = 1


async def ask_target() -> Elicit[Target]:
    return Elicit("Where to?", Target)


@server.tool()
async def deploy(target: Annotated[ElicitationResult[Target], Resolve(ask_target)]) -> str:
    if isinstance(target, AcceptedElicitation):
        return f"deployed {target.data.copies} to {target.data.region}"
    return f"not deployed: {target.action}"


if __name__ == "__main__":
    server.run()
