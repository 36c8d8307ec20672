"""What is stored and found: segments and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, NewType

TenantName = NewType("TenantName", str)
"""The caller's name of a tenant. No call crosses it."""

DEFAULT_KIND = "turn"
DEFAULT_IMPORTANCE = 0.5


class ItemKind(StrEnum):
    """What an item is."""

    SEGMENT = "segment"
    FACT = "fact"


class ItemId(NamedTuple):
    """Names an item within its tenant; ordered by kind, then by the caller's id."""

    kind: ItemKind
    id: str


def segment_id(id_: str) -> ItemId:
    """Names the segment with the caller's id `id_`."""
    return ItemId(ItemKind.SEGMENT, id_)


def fact_id(id_: str) -> ItemId:
    """Names the fact with the caller's id `id_`."""
    return ItemId(ItemKind.FACT, id_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One turn, note or passage. All times are aware and in UTC."""

    id: str
    text: str
    event_time: datetime
    title: str = ""
    kind: str = DEFAULT_KIND
    speaker: str = ""
    session: str = ""
    importance: float = DEFAULT_IMPORTANCE
    sensitive: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    entities: tuple[str, ...] = ()
    entity: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def item(self) -> ItemId:
        """The segment's name among all items of its tenant."""
        return segment_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A relation between two entities, with both of its times.

    `valid_from` and `valid_to` bound its truth in the world (None is open);
    `recorded_at` and `retracted_at` bound what was known of it.
    """

    id: str
    subject: str
    relation: str
    object: str
    recorded_at: datetime
    sentence: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    retracted_at: datetime | None = None
    evidence: tuple[str, ...] = ()
    weight: float = 1.0
    sensitive: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def item(self) -> ItemId:
        """The fact's name among all items of its tenant."""
        return fact_id(self.id)

    @property
    def statement(self) -> str:
        """The fact as a sentence."""
        return self.sentence or f"{self.subject} {self.relation} {self.object}"


Item = Segment | Fact
