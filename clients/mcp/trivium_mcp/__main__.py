"""`trivium-mcp`: the server over stdio, or over streamable HTTP."""

from __future__ import annotations

import argparse
import os
import sys

from trivium_mcp.connection import Connection, from_environment
from trivium_mcp.server import build_server

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def main() -> None:
    """Serves until the client closes stdin, or until Ctrl-C."""
    given = _arguments()
    try:
        connection = from_environment(os.environ)  # noqa: TID251 - the settings of this process
        check(connection, given)
    except (OSError, ValueError) as error:
        sys.exit(f"trivium-mcp: {error}")
    server = build_server(connection)
    if given.http:
        # Each request stands for itself and its token: there is no session to take over.
        server.run("streamable-http", host=given.host, port=given.port, stateless_http=True)
    else:
        server.run("stdio")


def check(connection: Connection, given: argparse.Namespace) -> None:
    """Rejects settings that would serve a memory to people whom it is not for.

    Raises:
        ValueError: The memory of this process would be open to everyone who reaches the port.
    """
    if not given.http:
        return
    if connection.token:
        raise ValueError(
            "with --http, everyone who reaches the port would use TRIVIUM_TOKEN: unset it; each "
            "request carries its own as 'Authorization: Bearer ...'"
        )
    if connection.tenant and given.host not in LOOPBACK:
        raise ValueError(
            f"with --http on {given.host}, other machines would reach the memory of "
            "TRIVIUM_TENANT: unset it and bind each token to a tenant, or serve on 127.0.0.1"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="trivium-mcp",
        description="Serves a Trivium memory over the Model Context Protocol.",
        epilog="TRIVIUM_ADDRESS, TRIVIUM_TENANT, TRIVIUM_TOKEN_FILE and TRIVIUM_TLS_CA say which "
        "memory, as for the command `trivium`.",
    )
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="the port to listen on")
    return parser.parse_args()


if __name__ == "__main__":
    main()
