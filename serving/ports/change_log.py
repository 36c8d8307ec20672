"""The change log, its projections, and whether they have seen a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken, Snapshot
from serving.domain.items.records import ItemId, TenantName
from serving.ports.embedding import Embedding, EmbeddingModel
from serving.ports.graph import GraphChanges

Projection = Literal["embedding", "graph", "extraction"]
"""A derivation from PostgreSQL: two by the projector, and facts by the extraction."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that could not be projected."""

    projection: Projection
    item: ItemId
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """One changed item; its current row is read from the tables."""

    key: int
    tenant: TenantName
    item: ItemId
    xid: int


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Whole transactions from the log, oldest first, and the position after them.

    `last` is True if the log held no more.
    """

    changes: list[Change]
    position: Snapshot
    last: bool


@dataclass(frozen=True, slots=True)
class EmbeddingTask:
    """A text to embed. `text_hash` detects that the row has changed when its vector is saved.

    `previous` is the key and the text hash of the turn before it, if the text is that of both.
    `is_turn` is whether it is that of a segment with a speaker, alone: those have token states.
    """

    change: Change
    text: str
    text_hash: bytes
    previous: tuple[int, bytes] | None = None
    is_turn: bool = False


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """The state of a projection."""

    projection: Projection
    pending: int
    lag_s: float
    dead_letter_count: int


class ChangeLog(Protocol):
    """The change log, as the projector reads it."""

    def leadership(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AbstractAsyncContextManager[None]:
        """Waits for leadership of the projection to `model`, which ends with the context.

        Leadership is lost with the connection: then the next call of the log raises
        `StoreUnavailableError`.
        """

    async def next_batch(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        limit: int,
        after: Snapshot | None = None,
    ) -> ChangeBatch:
        """Returns the next changes: whole transactions, the last of which may exceed `limit`.

        They follow `after`, the position of another batch, or else the stored position. `model` is
        that of the embedding projection (each model has its own position) and None for the graph.
        An empty batch still advances the position.
        """

    async def embedding_tasks(
        self, changes: Sequence[Change], model: EmbeddingModel
    ) -> list[EmbeddingTask]:
        """Returns the texts that need a vector: existing, not sensitive, not up to date.

        They are those of the changed rows, each alone, and those of the changed turns and of the
        turns after them, each together with the turn before it.
        """

    async def save_embeddings(
        self, model: EmbeddingModel, made: Sequence[tuple[EmbeddingTask, Embedding]]
    ) -> None:
        """Stores vectors (fp16) of the rows that have not changed, and logs that.

        Those of a turn of one window have its token states with them.
        """

    async def graph_changes(self, changes: Sequence[Change]) -> GraphChanges:
        """Returns the state of the changed rows in the graph; sensitive rows are removed."""

    async def dead_letter(
        self, projection: Projection, model: EmbeddingModel | None, change: Change, reason: str
    ) -> None:
        """Records that the row could not be projected; replaces an older record."""

    async def advance(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        position: Snapshot,
        *,
        complete: bool = False,
    ) -> None:
        """Stores that everything up to `position` is projected, to `model` if it has one.

        If `complete`, every row has a vector of `model`. From then on only the latest rows lack
        one, until another model is complete.
        """

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""

    async def status(self, model: EmbeddingModel | None) -> list[ProjectionStatus]:
        """Returns how far each projection is; the extraction only if it ever ran."""

    async def has_pending(self, count: int) -> bool:
        """Returns whether `count` changed rows or more wait for a projection."""

    async def compact(self) -> int:
        """Deletes entries that no reader needs any more; returns how many."""


class Consistency(Protocol):
    """The progress of the projections, for requests with a token."""

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the graph holds the write; False if the deadline passes first."""

    async def dead_letter_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        """Returns how many rows of the write each projection has dead-lettered.

        It is for reports, and raises nothing: none if they cannot be counted soon.
        """

    async def pending_counts(
        self, tenant: TenantName, deadline: Deadline
    ) -> Mapping[Projection, int]:
        """Returns how many changed rows of the tenant each projection lacks; 0 may be left out.

        It may be a second old, and raises nothing: it is for reports.
        """
