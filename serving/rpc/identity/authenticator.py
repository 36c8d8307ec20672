"""Decides, for each call, who calls and whether the call is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message

from serving.domain.errors import UnauthenticatedError
from serving.domain.identity import Caller, Role
from serving.rpc.identity.rules import ANYONE, RULES, Rule
from serving.rpc.registration import Malformed

AUTHORIZATION = "authorization"
_BEARER = "bearer "
_KEY_PREFIX = "trv_"


class CallMetadata(Protocol):
    """The part of a call that says who calls."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None:
        """The caller's metadata."""


Verify = Callable[[str], Caller]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """The ways to authenticate, by API keys and JSON Web Tokens; with none, all is open."""

    keys: Verify | None = None
    tokens: Verify | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is no authentication."""
        return self.keys is None and self.tokens is None

    def caller_of(self, method: str, call: CallMetadata) -> Caller:
        """Authenticates the caller, and checks whether it may call this method at all.

        Raises:
            UnauthenticatedError: The credentials are missing or not valid.
            PermissionDeniedError: The caller may not.
        """
        caller = self.authenticated(call)
        RULES[method].require(caller)
        return caller

    def authenticated(self, call: CallMetadata) -> Caller:
        """The caller, whatever it may do; raises `UnauthenticatedError` if there is none."""
        if self.is_open:
            return ANYONE
        metadata = call.invocation_metadata() or ()
        given, *more = [value for key, value in metadata if key == AUTHORIZATION] or [""]
        if not given:
            raise UnauthenticatedError("send credentials as the metadata authorization")
        if more or not isinstance(given, str):
            raise UnauthenticatedError("authorization must be sent once, as text")
        if given[: len(_BEARER)].lower() != _BEARER:
            raise UnauthenticatedError("expected `authorization: Bearer <key or token>`")
        text = given[len(_BEARER) :]
        verify = self.keys if text.startswith(_KEY_PREFIX) else self.tokens
        if verify is None:
            raise UnauthenticatedError("credentials of this kind are not accepted")
        return verify(text)


OPEN = Authenticator()
"""No authentication."""


def within_tenants(rule: Rule, caller: Caller, request: Any) -> None:
    """Fills in the tenant of a request, or each of its tenants.

    Raises `PermissionDeniedError` if the caller may not name one that the request names.
    """
    if rule.tenant_in is None:
        return
    for name in rule.tenant_in:
        request = getattr(request, name)
    naming = list(getattr(request, "tenants", ()))
    if request.tenant or not naming:
        naming.append(request)
    for named in naming:
        tenant = caller.tenant(named.tenant)
        if tenant != named.tenant:
            named.tenant = tenant


async def each_within_tenants(
    authenticator: Authenticator, method: str, call: CallMetadata, stream: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Checks each message of a stream; the caller too, so that a revoked key ends the stream."""
    async for request in stream:
        if not isinstance(request, Malformed):
            within_tenants(RULES[method], authenticator.caller_of(method, call), request)
        yield request


def hide_from(caller: Caller, rule: Rule, response: Message) -> None:
    """Clears what is about all tenants, for a caller of some, and what a caller may not read."""
    paths = [
        *(rule.hidden if caller.tenants is not None else ()),
        *(rule.stored if not caller.has(Role.READER) else ()),
    ]
    for path in paths:
        _clear(response, path)


def _clear(message: Message, path: str) -> None:
    name, _, rest = path.partition(".")
    if not rest:
        message.ClearField(name)
        return
    inner = getattr(message, name)
    for each in [inner] if isinstance(inner, Message) else inner:
        _clear(each, rest)
