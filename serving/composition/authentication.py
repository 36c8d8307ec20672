"""The authentication of callers, from the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from serving.composition.background import repeated
from serving.config.settings import Settings
from serving.domain.errors import StoreUnavailableError
from serving.ports.api_keys import ApiKeys
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.key_ring import REFRESH_S as KEYS_EVERY_S
from serving.rpc.identity.key_ring import KeyRing
from serving.rpc.identity.web_tokens import REFRESH_S as TOKENS_EVERY_S
from serving.rpc.identity.web_tokens import WebTokens, read_key_set


class NotAuthenticatedError(ValueError):
    """The service would be open to everyone who reaches it."""

    def __str__(self) -> str:
        return (
            "the service can be reached from other machines and has no authentication: set "
            "auth.keys or auth.jwks (docs/security.md), or auth.allow_anonymous=true to let "
            "everyone read and erase everything"
        )


def require_authentication(settings: Settings) -> None:
    """Raises NotAuthenticatedError if callers need no authentication and settings forbid that."""
    if not (settings.auth.required or settings.auth.allow_anonymous):
        raise NotAuthenticatedError


@asynccontextmanager
async def open_authenticator(settings: Settings, keys: ApiKeys) -> AsyncIterator[Authenticator]:
    """Opens the ways to authenticate that the settings name.

    Raises:
        jwt.PyJWTError, ValueError: The key set of tokens cannot be read, or is not a key set.
    """
    auth = settings.auth
    async with AsyncExitStack() as stack:
        ring = tokens = None
        if auth.keys:
            ring = KeyRing(keys)
            with suppress(StoreUnavailableError):  # it is tried again in the background
                await ring.refresh()
            await stack.enter_async_context(
                repeated(ring.refresh, KEYS_EVERY_S, "keys of callers not read")
            )
        if auth.jwks is not None:
            tokens = WebTokens(partial(read_key_set, auth.jwks), auth)
            await tokens.refresh()
            await stack.enter_async_context(
                repeated(tokens.refresh, TOKENS_EVERY_S, "keys of tokens not read")
            )
        yield Authenticator(
            keys=None if ring is None else ring.verify,
            tokens=None if tokens is None else tokens.verify,
        )
