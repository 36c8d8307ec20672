"""Shares of all rows, for an index that is spread over several machines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from serving.domain.records import ItemId, TenantName

SEPARATOR = "\x1f"
"""Between a tenant and an id."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shares of all rows, counted from 0. What it owns never changes.

    Raises:
        ValueError: There is no such share.
    """

    number: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count:
            raise ValueError(f"there is no shard {self.number} of {self.count}")

    def owns(self, tenant: TenantName, item: ItemId) -> bool:
        """Whether the row is of this share: by the first 32 bits of a SHA-256, modulo `count`.

        A segment and a fact of one id are of one share.
        """
        digest = hashlib.sha256(f"{tenant}{SEPARATOR}{item.id}".encode()).digest()
        return int.from_bytes(digest[:4]) % self.count == self.number


WHOLE = Shard()
"""All rows."""


def all_shards(count: int) -> list[Shard]:
    """The shares into which `count` of them divide all rows."""
    return [Shard(number, count) for number in range(count)]
