"""Shards: disjoint parts of all rows, for an index that is spread over several machines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shards, counted from 0. A row never changes its shard.

    Its number is the first 32 bits of the SHA-256 of its tenant and id, modulo `count`: a segment
    and a fact with the same id belong to the same shard.

    Raises:
        ValueError: `number` is not from 0 to `count - 1`.
    """

    number: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count:
            raise ValueError(f"there is no shard {self.number} of {self.count}")


WHOLE = Shard()
"""The only shard of an index that is not divided."""


def all_shards(count: int) -> list[Shard]:
    """All shards of an index with `count` of them."""
    return [Shard(number, count) for number in range(count)]
