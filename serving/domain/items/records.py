"""The stored items: segments and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, NewType

from serving.domain.items.period import Period
from serving.domain.items.validity import Clocks, Closing, earliest, held_until

TenantName = NewType("TenantName", str)
"""The name of a tenant as the caller gives it. No call reads or writes two tenants."""

DEFAULT_KIND = "turn"
DEFAULT_IMPORTANCE = 0.5
MAX_LABELS = 32
MAX_ENTITIES = 64
"""The most of a segment."""

MAX_NAME_BYTES = 256
"""A longer object of a fact is a value, not the name of an entity."""

MAX_OBJECT_BYTES = 1024
MAX_SENTENCE_BYTES = 4096

EXTRACTED = "extracted:"
"""The beginning of the ids of facts that the service read out of turns."""


class ItemKind(StrEnum):
    """The kind of an item."""

    SEGMENT = "segment"
    FACT = "fact"


class ItemId(NamedTuple):
    """Identifies an item within its tenant; ordered by kind, then by the id of the caller."""

    kind: ItemKind
    id: str


def segment_id(id_: str) -> ItemId:
    """The `ItemId` of a segment."""
    return ItemId(ItemKind.SEGMENT, id_)


def fact_id(id_: str) -> ItemId:
    """The `ItemId` of a fact."""
    return ItemId(ItemKind.FACT, id_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A conversation turn, a note or a passage. All times are timezone-aware and in UTC.

    `mentions` are the times that its text speaks of, such as the day of "tomorrow": disjoint, in
    order. `extracted` is whether the service found the entities in its text. `version` counts how
    often it was stored with a change.
    """

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
    keywords: tuple[str, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    mentions: tuple[Period, ...] = ()
    expires_at: datetime | None = None
    extracted: bool = field(default=False, compare=False)
    version: int = field(default=1, compare=False)
    item: ItemId = field(init=False, repr=False, compare=False)
    """Its id among all items of its tenant."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "item", segment_id(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A relation between two entities, with two time intervals (bitemporal).

    `valid_from` and `valid_to` say when it is true in the world (None is open);
    `recorded_at` and `retracted_at` say when the memory knows of it.

    A fact can close other facts: those whose ids are in `closes` and, if it is
    `single_valued`, earlier facts with the same subject and relation. `closings` lists what
    other facts closed of this one. `evidence_expires_at` is when the last of its evidence expires;
    None if some does not, or is not stored.
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
    expires_at: datetime | None = None
    evidence_expires_at: datetime | None = None
    version: int = field(default=1, compare=False)
    item: ItemId = field(init=False, repr=False, compare=False)
    """Its id among all items of its tenant."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "item", fact_id(self.id))

    @property
    def begins(self) -> datetime:
        """When it starts to replace other facts: `valid_from`, or else `recorded_at`."""
        return self.valid_from or self.recorded_at

    @property
    def searched_until(self) -> datetime | None:
        """When searches find it no longer, closings aside: it has ended, or expired."""
        return earliest(self.valid_to, expiry_of(self))

    @property
    def may_close(self) -> bool:
        """Whether it can close another fact."""
        return bool(self.closes) or self.single_valued

    def held_until(self, clocks: Clocks) -> datetime | None:
        """When it stopped being true, by what was known then; None if it still held."""
        return held_until(self.valid_to, self.closings, clocks)

    def holds(self, clocks: Clocks) -> bool:
        """Whether it was true, by what was known then."""
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


def expiry_of(item: Item) -> datetime | None:
    """When an item expires, a fact at the latest with the last of its evidence; None is never."""
    if isinstance(item, Segment):
        return item.expires_at
    return earliest(item.expires_at, item.evidence_expires_at)


def is_expired(item: Item, at: datetime) -> bool:
    """Whether an item has expired by a time."""
    expiry = expiry_of(item)
    return expiry is not None and expiry <= at


def told_at(item: Item) -> tuple[datetime, datetime]:
    """The order of items: when they were said or became true, and of one time when stored."""
    since = time_of(item)
    return since, item.created_at or since


def time_of(item: Item) -> datetime:
    """When a segment was said, or a fact became true."""
    return item.event_time if isinstance(item, Segment) else item.begins
