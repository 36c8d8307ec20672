"""What was asked of the service and what it said: the operation log, and what the stores hold.

A *group* is a few items that one call writes or erases together. Each write has a version of its
own, which every item of the group shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

PARTS = ("a", "b", "c", "fact")
"""The items of a group: three segments, and a fact that rests on the first."""
FACT = "fact"

ANOTHER = 0
"""The version of an item of which only is known that it is not that of PostgreSQL's row."""


class Group(NamedTuple):
    """A group of items of a tenant."""

    tenant: str
    name: str

    def item(self, part: str) -> ItemName:
        """The name of one of its items."""
        return ItemName(self.tenant, f"{self.name}.{part}")


class ItemName(NamedTuple):
    """An item of a tenant; segments and facts have distinct ids here."""

    tenant: str
    id: str

    @property
    def group(self) -> Group:
        """The group that the item belongs to."""
        return Group(self.tenant, self.id.rpartition(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write or an erasure with all its attempts; times are of the client's monotonic clock.

    Args:
        group: What was written.
        version: Which; None for an erasure.
        started: When the first attempt was sent.
        ended: When it was acknowledged; infinite if the client gave up, so that it may still
            happen, or not.
        token: The consistency token of the acknowledgement.
        attempts: How often it was sent.
    """

    group: Group
    version: int | None
    started: float
    ended: float = math.inf
    token: str = ""
    attempts: int = 1

    @property
    def acknowledged(self) -> bool:
        """Whether the client knows that it happened."""
        return self.ended < math.inf


class Held(NamedTuple):
    """A row of a store, or a hit of an answer, with the version that it shows."""

    item: ItemName
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An answer to a question for an item.

    Args:
        started: When it was asked.
        ended: When it was answered.
        hits: What was found.
        after: The write whose token the question carried.
        asked: The item that the question was for.
        complete: Whether the legs that must find it said that they had seen the token's write.
    """

    started: float
    ended: float
    hits: tuple[Held, ...]
    after: Write | None = None
    asked: ItemName | None = None
    complete: bool = False


Stores = Mapping[str, list[Held]]
"""The rows of each store, by its name. `POSTGRES` is the source of truth."""

POSTGRES = "postgres"
