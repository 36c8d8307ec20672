"""What is stored and found: segments and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, NewType

from serving.domain.validity import Clocks, Closing, held_until

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

    `valid_from` and `valid_to` bound its truth in the world as it was stated (None is open);
    `recorded_at` and `retracted_at` bound what was known of it.

    A fact may end others: those whose ids it `closes`, and, if `single_valued`, whatever
    held before it of its subject and relation. `closings` is what others ended of this one.
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
    closes: tuple[str, ...] = ()
    single_valued: bool = False
    closings: tuple[Closing, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def item(self) -> ItemId:
        """The fact's name among all items of its tenant."""
        return fact_id(self.id)

    @property
    def begins(self) -> datetime:
        """From when on it took the place of others: since it is true, or else was recorded."""
        return self.valid_from or self.recorded_at

    @property
    def may_close(self) -> bool:
        """Whether it can end the truth of another fact."""
        return bool(self.closes) or self.single_valued

    def held_until(self, clocks: Clocks) -> datetime | None:
        """When its truth ended, as far as was known; None if it had not."""
        return held_until(self.valid_to, self.closings, clocks)

    def holds(self, clocks: Clocks) -> bool:
        """Whether it was true, as far as was known."""
        end = self.held_until(clocks)
        return (
            clocks.know(self.recorded_at, self.retracted_at)
            and (self.valid_from is None or self.valid_from <= clocks.as_of)
            and (end is None or clocks.as_of < end)
        )

    @property
    def statement(self) -> str:
        """The fact as a sentence."""
        return self.sentence or f"{self.subject} {self.relation} {self.object}"


Item = Segment | Fact
