"""The parts of a vector index: the engine, its rows, and the feed of changes.

An engine is the whole index of a process. Another library of nearest neighbours than FAISS is
five methods in `adapters/vector_index/lists`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.domain.consistency import Snapshot
from serving.domain.items.records import ItemId, TenantName
from serving.domain.items.validity import Closing, final_end
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.signals import Traits
from serving.ports.embedding import EmbeddingModel, VectorLike
from serving.ports.vector_index import Adjacency, IndexTier, VectorKind, WantedNeighbours


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """An item in the vector index: its vectors, and the fields that filters need.

    `vectors`: float16 (windows, dimension). `context`: float16 (1, dimension), the vector of a
    segment together with the turn before it; None if it has none. `states` is the entry of an
    `Embedding` for a turn of one window; empty for all else. A segment without vectors is
    never found; it is held to filter the facts whose evidence it is. `terms` are the
    `segment_terms` of a segment, `entities`, `speaker` and `entity` its names as written; `asks` is
    whether its text has one of the `QUESTION_MARKS`. `evidence` are the segment ids of a fact, and
    `valid_to` is its stated end or its expiry, which `closings` may precede.
    """

    tenant: TenantName
    item: ItemId
    vectors: NDArray[np.float16]
    context: NDArray[np.float16] | None = None
    states: bytes = b""
    terms: frozenset[str] = frozenset()
    entities: tuple[str, ...] = ()
    speaker: str = ""
    asks: bool = False
    entity: str = ""
    importance: float = 0.0
    event_time: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    recorded_at: datetime | None = None
    retracted_at: datetime | None = None
    closings: tuple[Closing, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def final_end(self) -> datetime | None:
        """When the validity of a fact finally ended; None if it has not."""
        return final_end(self.valid_to, self.closings)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours that an engine found, best first; `evidence` as in `IndexAnswer`.

    `generation` is the engine's at the time of the search.
    """

    candidates: list[Candidate]
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generation: int = 0


class UnsoundRowsError(ValueError):
    """Rows have a vector that is zero or not finite, and cannot be scored: those of `names`."""

    def __init__(self, names: Sequence[tuple[TenantName, ItemId]]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        more = f" and of {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"a vector of {self.names[0][1].id!r}{more} is zero or not finite"


class IndexedItems(Protocol):
    """The index's knowledge of the items of its rows, whatever finds the nearest."""

    def related(self, query: Query, seeds: Sequence[ItemId], depth: int) -> list[Candidate]:
        """Finds segments with vectors that mention entities of the seeds, as `Graph.related` does.

        The index must hold all rows of the tenant, not a shard of them.
        """

    def adjacent(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, Adjacency]:
        """Returns the turns next to the items that it has, as `WholeIndex.adjacent`."""

    def traits(self, tenant: TenantName, items: Sequence[ItemId]) -> dict[ItemId, Traits]:
        """Returns what signals ask of those of the items that have vectors."""

    def closed(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, tuple[ItemId, ...]]:
        """Returns which of the segments rest on closed facts alone, as `CandidateIndex.closed`."""

    def states(self, tenant: TenantName, item: ItemId) -> bytes:
        """Returns the token states of a segment, as `IndexRow.states`; empty if it has none."""

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items it holds."""

    def scan_size(self, tenant: TenantName, kind: VectorKind) -> int:
        """Returns the most vectors that a search of the tenant reads."""


class IndexEngine(IndexedItems, Protocol):
    """The searchable rows of a vector index. Synchronous.

    One thread at a time applies changes; others may search meanwhile, and see the rows before or
    after a change, never in between. Vectors of searches are sound, and of the engine's dimension.
    """

    @property
    def vector_count(self) -> int:
        """The number of vectors."""

    @property
    def generation(self) -> int:
        """The number of times that it has restructured its rows; constant once it is closed."""

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Inserts rows or replaces those of the same name, and removes others.

        Of rows with the same name the last counts.

        Raises:
            ValueError: A row's vectors have another dimension than the engine; nothing changed.
            UnsoundRowsError: A vector is zero or not finite; nothing changed.
        """

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Finds the wanted neighbours of a vector, by cosines."""

    def search_all(
        self, searches: Sequence[tuple[VectorLike, WantedNeighbours]]
    ) -> list[Neighbours]:
        """Does many searches at once; the answers are those of `search`."""

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        """Returns how rows are searched, by tenant and kind, for one tenant or all."""

    def maintain(self) -> None:
        """Restructures its rows if that is due; may take minutes.

        One thread calls it, while others apply changes and search. Returns early when the engine
        is closed.
        """

    def close(self) -> None:
        """Stops maintenance, even under way. Returns at once; searches still work."""


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The position of an index: the log up to `log`, and the embeddings of writes in `embedded`.

    `complete` is whether the model was the last one of which every row had a vector.
    """

    epoch: str
    log: Snapshot
    embedded: Snapshot
    complete: bool


@dataclass(frozen=True, slots=True)
class FeedDelta:
    """The changes since a position. A row replaces the one with its name."""

    rows: list[IndexRow]
    removed: list[tuple[TenantName, ItemId]]
    position: FeedPosition


class FeedLostError(Exception):
    """The log no longer reaches back to the position: refill with `bootstrap`."""


class IndexFeed(Protocol):
    """The source of a vector index's rows."""

    def bootstrap(
        self, model: EmbeddingModel
    ) -> AbstractAsyncContextManager[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        """Reads all rows with a current vector of `model`, in batches of one database snapshot."""

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        """Returns the changes since a position: removals at once, rows once they have vectors.

        Rows that have become sensitive are removed.

        Raises:
            FeedLostError: The position is of another epoch, or too old.
        """

    async def lag_s(self, position: FeedPosition) -> float:
        """Returns the age in seconds of the oldest change since; 0 if there is none."""

    async def embedded_share(self, model: EmbeddingModel) -> float:
        """Returns the share, 0 to 1, of the rows to embed that have a vector of `model`."""

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""
