"""The store of segments and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Literal, Protocol

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Fact, Item, ItemId, Segment, TenantName
from serving.domain.questions.query import Filter
from serving.ports.change_log import Change, DeadLetter
from serving.ports.embedding import EmbeddingModel, Vector

Outcome = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The outcomes of a transaction, in the order of the items."""

    outcomes: list[Outcome]
    token: ConsistencyToken

    @property
    def changes(self) -> bool:
        """Whether any item was stored."""
        return any(outcome != "unchanged" for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """Vectors of segments that the caller has computed with `model`; none of a sensitive one."""

    model: EmbeddingModel
    vectors: Mapping[ItemId, Vector]


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one write.

    Attributes:
        tenant: Their tenant.
        items: Of several with the same name the last counts.
        text_search_config: Of the tenant; empty for the one that it has, or the default.
        undated: Items whose time the service set.
        expiring: Items whose expiry the service set, by its default for their kind.
        given: The vectors that came with segments.
        time_zone: Where the turns were said, whose days their texts name; None for the tenant's. A
            write that creates the tenant sets it.
        versions: Those that stored items must have, of which these are changes. The content of a
            changed item is not what a client sent, so a write of any content is a change of it.
        at: When it is written: stored items of these names that have expired by then are erased
            before, as by `expired_by` of a `Selector`. None changes them, as those that last.
    """

    tenant: TenantName
    items: Sequence[Item]
    text_search_config: str = ""
    undated: frozenset[ItemId] = frozenset()
    expiring: frozenset[ItemId] = frozenset()
    given: GivenVectors | None = None
    time_zone: tzinfo | None = None
    versions: Mapping[ItemId, int] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """The items to erase: exactly one field is set. A filter selects segments and restricts them.

    With `expired_by`, those of the `items` are erased that have expired by that time.
    """

    items: tuple[ItemId, ...] | None = None
    session: str | None = None
    speaker: str | None = None
    everything: bool = False
    filter: Filter | None = None
    expired_by: datetime | None = None


SAMPLED = 20
"""The most segments, and the most facts, that an `EraseReceipt` has a sample of."""


@dataclass(frozen=True, slots=True)
class ErasedItem:
    """An item as it was before its erasure, to ask for it by its text and its vectors.

    It is kept by nothing that outlasts the call, and shown in no text.

    Attributes:
        item: The item.
        hidden: Whether it was sensitive, or rested on what is: no model and no graph is asked.
        vectors: The vector of its text, or of its first window, by the model's fingerprint.
    """

    item: Item = field(repr=False)
    hidden: bool = False
    vectors: Mapping[str, Vector] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """The erased items, their keys, and how many rows each derived store lost.

    `names` are the keys of the names that went, and `sample` has the first segments and facts. The
    token is that of the last erasure if nothing was erased.
    """

    items: list[ItemId]
    token: ConsistencyToken
    keys: Sequence[int] = ()
    removed: Mapping[str, int] = field(default_factory=dict)
    names: Sequence[str] = field(default=(), repr=False)
    sample: Sequence[ErasedItem] = ()


@dataclass(frozen=True, slots=True)
class Selected:
    """A preview of an erasure: segments by the exact name of their speaker, and facts."""

    segments_by_speaker: Mapping[str, int]
    facts: int


@dataclass(frozen=True, slots=True)
class TenantCounts:
    """The row counts of a tenant. Both texts are empty for an unknown tenant.

    `newest` is the time of the latest segment that is not sensitive.
    """

    segments: int
    sensitive_segments: int
    facts: int
    embedded: int
    embeddable: int
    text_search_config: str
    time_zone: str
    newest: datetime | None = None


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """A tenant, with what it holds.

    `text_bytes` are those of texts of segments and sentences of facts, in UTF-8, `newest` is the
    time of the latest segment that is not sensitive, and `updated_at` that of the last write.
    """

    name: TenantName
    text_search_config: str
    time_zone: str
    segments: int = 0
    facts: int = 0
    text_bytes: int = 0
    newest: datetime | None = None
    updated_at: datetime | None = None


class MemoryStore(Protocol):
    """The source of truth, written in transactions."""

    async def write(self, batch: Batch) -> WriteReceipt:
        """Stores the items, whose names are distinct, in one transaction.

        An item whose content is stored already is unchanged; the token covers the write that stored
        it. What the service set (`Segment.extracted`, `undated`, `expiring`) is not part of the
        content: writing it again changes nothing. An item that was read back is unchanged too,
        though it comes with all of it. Nor is a vector: those of unchanged items are ignored, the
        others are stored with the items. A segment with a `created_at` keeps it if it is new.

        Raises:
            TextSearchConfigConflictError: The tenant has another one.
            InvalidRequestError: `text_search_config` names none that exists.
            ItemNotFoundError: An item of `versions` is not stored.
            VersionConflictError: It has another version.
        """

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        """Erases what is selected, and facts that are left without evidence."""

    async def expired(self, by: datetime, limit: int) -> list[tuple[TenantName, ItemId]]:
        """Returns the items of all tenants that have expired by a time, the earliest first."""

    async def count_selected(self, tenant: TenantName, selector: Selector) -> Selected:
        """Counts what `erase` would erase now."""

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        """Reads the rows of the items that exist."""

    async def has_facts(self, tenant: TenantName, deadline: Deadline) -> bool:
        """Returns whether the tenant has facts."""

    def known_time_zone(self, tenant: TenantName) -> tzinfo | None:
        """Returns what `read_time_zone` returned in the last half minute; None if nothing."""

    async def read_time_zone(self, tenant: TenantName, deadline: Deadline) -> tzinfo:
        """Returns the zone of requests that name none: UTC, unless the tenant has one."""

    async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
        """Returns the names of the tenant's entities, by `name_key`."""

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items it still holds."""

    async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
        """Returns how many rows each derived store has of the keys of an `EraseReceipt`."""

    async def ready(self) -> bool:
        """Returns whether a call would succeed now. Never raises."""


class Catalog(Protocol):
    """Reads stored rows in pages, by id. Rows that have expired are neither listed nor counted."""

    async def list_segments(
        self, tenant: TenantName, filter_: Filter, after: str, limit: int
    ) -> list[Segment]:
        """Returns the segments whose id follows `after`, by id."""

    async def list_facts(
        self,
        tenant: TenantName,
        entities: Sequence[str],
        valid_at: datetime | None,
        after: str,
        limit: int,
    ) -> list[Fact]:
        """Returns the facts whose id follows `after`, by id."""

    async def tenant_counts(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        """Returns the row counts of the tenant."""

    async def list_tenants(self, after: str, limit: int) -> list[TenantSummary]:
        """Returns the tenants whose name follows `after`, by name.

        Reads all of their rows, so a page of large tenants takes seconds.
        """

    async def dead_letters(self, tenant: TenantName, limit: int) -> list[DeadLetter]:
        """Returns the tenant's dead letters, newest first."""


@dataclass(frozen=True, slots=True)
class UnreadTurn:
    """A turn that no extractor has read with its current text, which `text_hash` is of."""

    change: Change
    segment: Segment
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class ExtractionProgress:
    """The number of turns to read, of those read, and of those that failed."""

    turns: int
    read: int
    failed: int


class Extractions(Protocol):
    """Remembers which turns were read for facts, and stores the facts with that."""

    async def unread(self, changes: Sequence[Change]) -> list[UnreadTurn]:
        """Returns the turns among changed rows that are to be read, by session and time.

        Sensitive turns are left out.
        """

    async def before(self, tenant: TenantName, turn: Segment, limit: int) -> tuple[Segment, ...]:
        """Returns the last turns of the session before this one, in order, sensitive ones not."""

    async def facts_about(
        self, tenant: TenantName, names: Sequence[str], limit: int
    ) -> tuple[Fact, ...]:
        """Returns the latest facts about entities that hold; sensitive ones are left out."""

    async def save(
        self, tenant: TenantName, turns: Sequence[UnreadTurn], facts: Sequence[Fact]
    ) -> None:
        """Stores the facts, and that the turns were read, in one transaction.

        A turn that was changed, erased or made sensitive meanwhile is not marked as read, and a
        fact with such a segment as evidence is not stored. Of a turn that was read with another
        text, the facts extracted then and not now are retracted.
        """

    async def progress(self) -> ExtractionProgress:
        """Counts the turns of all tenants."""

    async def read_failed_again(self) -> int:
        """Lets the turns that failed be read again; returns how many."""
