"""What a client authenticates with: a bearer token, and certificates."""

from __future__ import annotations

import ipaddress
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


def bearer(token: str, target: str, *, is_encrypted: bool) -> list[tuple[str, str]]:
    """The metadata that carries a token; empty without one.

    Raises:
        ValueError: The token would go to another machine without encryption.
    """
    if not token:
        return []
    if not (is_encrypted or is_on_this_machine(target)):
        raise ValueError(f"a token is not sent to {target} without TLS")
    return [("authorization", f"Bearer {token}")]


def is_on_this_machine(target: str) -> bool:
    """Whether an address is a Unix socket or on loopback."""
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
