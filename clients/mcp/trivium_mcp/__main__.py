"""`trivium-mcp`: the server over stdio, or over streamable HTTP."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mcp.server.transport_security import TransportSecuritySettings

from trivium.wire.credentials import bearer, check_encrypted
from trivium_mcp.connection import Connection, from_environment
from trivium_mcp.server import build_server

LOOPBACK = ("127.0.0.1", "::1", "localhost")
DEFAULT_PORT = 8700
"""No port of the service, which listens on 8000 and 9000."""


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
        server.run(
            "streamable-http",
            host=given.host,
            port=given.port,
            stateless_http=True,
            transport_security=named(given.allowed_host, given.host),
        )
    else:
        server.run("stdio")


def check(connection: Connection, given: argparse.Namespace) -> None:
    """Rejects settings that name no memory, or would serve one to people whom it is not for.

    Raises:
        ValueError: There is neither a tenant nor a token of one; the memory of this process would
            be open to everyone who reaches the port; or its token would be sent in clear text.
    """
    if connection.token and connection.tls is None and not connection.token_without_tls:
        check_encrypted(bearer(connection.token), connection.address)
    if not given.http:
        if not (connection.tenant or connection.token):
            raise ValueError(
                "set TRIVIUM_TENANT to the name of the memory, or TRIVIUM_TOKEN to a key of one"
            )
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


def named(allowed: Sequence[str], host: str) -> TransportSecuritySettings | None:
    """The accepted `Host` and `Origin` headers, against DNS rebinding.

    None leaves it to the SDK: on loopback its names alone, elsewhere all.
    """
    if not allowed:
        return None
    local = ["127.0.0.1", "localhost", "[::1]"] if host in LOOPBACK else []
    # Clients send a name in small letters.
    names = [*local, *(name.lower() for name in allowed)]
    hosts = [each for name in names for each in (name, f"{name}:*")]
    return TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="trivium-mcp",
        description="Serves a Trivium memory over the Model Context Protocol.",
        epilog="TRIVIUM_ADDRESS, TRIVIUM_TENANT, TRIVIUM_TOKEN_FILE and TRIVIUM_TLS say which "
        "memory, as for the command `trivium`.",
    )
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="the port to listen on (%(default)s)"
    )
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which a proxy, such as one for TLS, is reached; others get status 421",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
