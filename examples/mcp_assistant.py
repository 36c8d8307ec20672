"""A client of the server: starts it over stdio, stores a sentence, and recalls it.

    TRIVIUM_TENANT=alice python examples/mcp_assistant.py "When is the wedding?"

The server reads the same variables as the command `trivium`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult


async def main(question: str) -> None:
    """Stores a sentence and asks a question; a model would decide on both."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "trivium_mcp"],
        env=dict(os.environ),  # noqa: TID251 - the address and the tenant
    )
    async with Client(server) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        said = {"text": "The wedding is on the eighth of November.", "speaker": "Nora"}
        show(await client.call_tool("remember", said))
        show(await client.call_tool("recall", {"query": question}))


def show(result: CallToolResult) -> None:
    """Prints what a model would read."""
    for content in result.content:
        print(getattr(content, "text", content))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "When is the wedding?"))
