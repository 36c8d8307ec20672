"""The valid API keys, in memory.

All keys are read again every `REFRESH_S`. So a key costs a call no query, a flood of invented keys
does not reach PostgreSQL, and a revoked key is rejected within seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from serving.domain.errors import StoreUnavailableError, UnauthenticatedError
from serving.domain.identity import ApiKey, Caller, KeyText
from serving.ports.api_keys import ApiKeys

REFRESH_S = 2.0
STALE_S = 5.0
"""Keys that were read longer ago are not trusted: one of them may be revoked by now."""


class KeyRing:
    """Verifies keys against the last reading of the store."""

    def __init__(
        self,
        keys: ApiKeys,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._keys = keys
        self._monotonic = monotonic
        self._now = now
        self._by_id: Mapping[str, ApiKey] = MappingProxyType({})
        self._read_at = float("-inf")

    def verify(self, text: str) -> Caller:
        """The caller of a key.

        Raises:
            UnauthenticatedError: The key is malformed, unknown, expired or revoked. The message is
                the same, so that it does not tell which.
            StoreUnavailableError: The keys could not be read for too long.
        """
        if self._monotonic() - self._read_at > STALE_S:
            raise StoreUnavailableError("the keys of callers could not be read")
        if given := KeyText.parse(text):
            key = self._by_id.get(given.id)
            if key is not None and key.accepts(given.secret, self._now()):
                return key.caller
        raise UnauthenticatedError(
            f"the key is not valid; a new key is valid after {REFRESH_S:g} s"
        )

    async def refresh(self) -> None:
        """Reads all keys; raises `StoreUnavailableError` if PostgreSQL cannot be reached."""
        began = self._monotonic()
        self._by_id = {key.id: key for key in await self._keys.all()}
        # The reading is as old as its beginning.
        self._read_at = began
