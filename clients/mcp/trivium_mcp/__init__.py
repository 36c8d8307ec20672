"""A server of the Model Context Protocol over Trivium.

`build_server` makes the server, `Connection` says how to reach Trivium and for whom.
"""

from trivium_mcp.connection import Connection
from trivium_mcp.server import build_server

__all__ = ["Connection", "build_server"]
