"""Address and tenant of a connection, from the environment or the token of a request."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from trivium import TLS, AsyncClient
from trivium.wire.requests import zone_of

DEFAULT_ADDRESS = "127.0.0.1:9000"
DEFAULT_TIMEOUT_S = 5.0
"""A language model waits for a tool, not a caller: a search may take longer than in a call."""

_BEARER = "bearer "
_token_of_request: ContextVar[str] = ContextVar("token_of_request", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The address of the service, and the credentials and tenant of this process.

    Attributes:
        address: The address of the service.
        tenant: The tenant; may be empty if the credentials are bound to one.
        token: A key or a JSON Web Token; a request that carries one of its own uses that.
        tls: The certificates; None connects without encryption.
        token_without_tls: As in `AsyncClient`.
        time_zone: Where those who ask are, such as "Europe/Lisbon"; empty means the tenant's.
    """

    address: str = DEFAULT_ADDRESS
    tenant: str = ""
    token: str = field(default="", repr=False)
    tls: TLS | None = None
    token_without_tls: bool = False
    time_zone: str = ""

    @property
    def zone(self) -> tzinfo:
        """Whose days the shown ones are: those of `time_zone`, else UTC.

        Raises:
            ValueError: There is no such zone.
        """
        return zone_of(self.time_zone)

    def open(self) -> AsyncClient:
        """Opens a client with the credentials of the current request.

        Each call of a tool opens its own: tokens differ between requests, and none is kept.

        Raises:
            ValueError: The token would be sent to another machine without encryption.
        """
        return AsyncClient(
            self.address,
            tenant=self.tenant,
            token=self.current_token(),
            tls=self.tls,
            token_without_tls=self.token_without_tls,
            timeout=DEFAULT_TIMEOUT_S,
            time_zone=self.time_zone,
        )

    def current_token(self) -> str:
        """The token of the current request, or else that of this process."""
        return _token_of_request.get() or self.token


def from_environment(variables: Mapping[str, str]) -> Connection:
    """Reads the variables that the command `trivium` reads as well.

    Raises:
        OSError: The file with the token cannot be read.
        ValueError: A certificate is given without its key, or a key without its certificate.
    """
    token = variables.get("TRIVIUM_TOKEN", "")
    if token_file := variables.get("TRIVIUM_TOKEN_FILE"):
        token = Path(token_file).read_text().strip()
    return Connection(
        address=variables.get("TRIVIUM_ADDRESS", DEFAULT_ADDRESS),
        tenant=variables.get("TRIVIUM_TENANT", ""),
        token=token,
        tls=_tls(variables),
        token_without_tls=_is_on(variables, "TRIVIUM_TOKEN_WITHOUT_TLS"),
        time_zone=variables.get("TRIVIUM_TIME_ZONE", ""),
    )


def _tls(variables: Mapping[str, str]) -> TLS | None:
    files = {
        name: Path(variables[f"TRIVIUM_TLS_{name.upper()}"])
        for name in ("ca", "certificate", "key")
        if variables.get(f"TRIVIUM_TLS_{name.upper()}")
    }
    return TLS(**files) if files or _is_on(variables, "TRIVIUM_TLS") else None


def _is_on(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").lower() in ("1", "true", "yes", "on")


async def use_token_of_request(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Middleware: hands the bearer token of an HTTP request on to Trivium."""
    given = _token_of_request.set(bearer_of(getattr(ctx.request, "headers", {})))
    try:
        return await call_next(ctx)
    finally:
        _token_of_request.reset(given)


def bearer_of(headers: Mapping[str, str]) -> str:
    """The bearer token in the headers of a request; empty without one."""
    value = headers.get("authorization", "")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""
