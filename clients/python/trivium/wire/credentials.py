"""The credentials of a client: a bearer token, and certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """An encrypted connection.

    Attributes:
        ca: The authorities that the server's certificate is checked with, in PEM; None means those
            of gRPC.
        certificate: The client's certificate chain, in PEM; None sends none.
        key: Its private key, in PEM.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key: give both or none")


def channel_credentials(tls: TLS | None) -> grpc.ChannelCredentials | None:
    """The credentials of gRPC; None without TLS.

    Raises:
        OSError: A file cannot be read.
    """
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(_read(tls.ca), _read(tls.key), _read(tls.certificate))


def bearer(token: str) -> list[tuple[str, str]]:
    """The metadata that carries a token; empty without one.

    Raises:
        ValueError: It has a character that no header has.
    """
    if not (token.isascii() and token.isprintable()):
        raise ValueError("the token must be printable ASCII, without a line break at its end")
    return [("authorization", f"Bearer {token}")] if token else []


def check_encrypted(metadata: Iterable[tuple[str, str | bytes]], target: str) -> None:
    """Rejects credentials that would be sent over a connection without TLS.

    Raises:
        ValueError: There are some, and the target is another machine.
    """
    if is_on_this_machine(target):
        return
    if any(key.lower() == "authorization" for key, _ in metadata):
        raise ValueError(
            f"a token is not sent to {target} in clear text: encrypt the connection (tls=TLS(), "
            "TRIVIUM_TLS=1), or, if something on the way does, such as a sidecar, say so "
            "(token_without_tls=True, TRIVIUM_TOKEN_WITHOUT_TLS=1)"
        )


def is_on_this_machine(target: str) -> bool:
    """Whether an address is a Unix socket, localhost, or in 127.0.0.0/8 or ::1."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.removeprefix("dns:///").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(file: Path | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()
