"""The API keys of callers."""

from __future__ import annotations

from typing import Protocol

from serving.domain.identity import ApiKey


class ApiKeys(Protocol):
    """Stores keys; only their hashes."""

    async def add(self, key: ApiKey) -> None:
        """Stores a new key."""

    async def revoke(self, key_id: str) -> bool:
        """Revokes a key; False if there is none with this id. Idempotent."""

    async def all(self) -> list[ApiKey]:
        """Returns all keys, also expired and revoked ones, in the order of their creation."""
