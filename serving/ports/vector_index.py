"""The vector index: its searches, by vector and by text, and its status."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.signals import Traits
from serving.ports.embedding import VectorLike

CONTEXT: Final = "context"

VectorKind: TypeAlias = ItemKind | Literal["context"]
"""The source of a vector: a segment, a fact, or a segment together with the turn before it."""


@dataclass(frozen=True, slots=True)
class WantedNeighbours:
    """The wanted neighbours of a question: the `depth` nearest items that `scope` accepts.

    An item with several vectors counts by its best one. A fact must hold by `scope.clocks`; if the
    filter restricts anything, one of its evidence segments must pass it.

    Attributes:
        kind: Segments or facts, or segments by their context.
        scope: The scope of the items.
        depth: The most items.
        only: The only items to consider; None considers all.
        late_interaction: The least cosine from which the nearest are put in order by the states of
            their tokens too; None orders by cosines alone. An engine ignores it.
        token: A write to wait for. An engine, which follows no log, ignores it.
        shared_with: The tenant whose vector of the question this one uses. An engine ignores it.
    """

    kind: VectorKind
    scope: Scope
    depth: int
    only: Collection[ItemId] | None = None
    token: ConsistencyToken | None = None
    shared_with: TenantName | None = None
    late_interaction: float | None = None


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """The neighbours found, best first, and whether the index has seen the caller's write.

    `evidence` has, for each fact found, the ids of its segments that the scope accepts, strongest
    first; a fact without a segment in the index is not among them. `embedding_s` is how long a
    `TextSearch` waited for the vector. `unsearched` says why some rows were not searched; empty if
    all were.
    """

    candidates: list[Candidate]
    epoch: int
    stale: bool = False
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedding_s: float = 0.0
    unsearched: str = ""


class Turn(NamedTuple):
    """A turn of a session, and whether it asks something."""

    item: ItemId
    asks: bool


class Adjacency(NamedTuple):
    """Whether an item asks something, and the turns before and after it in its session.

    None if there is none, or the scope does not accept it.
    """

    asks: bool = False
    before: Turn | None = None
    after: Turn | None = None


class AdjacencyAnswer(NamedTuple):
    """The turns next to the items that have a vector, and whether a write was not seen."""

    of: Mapping[ItemId, Adjacency]
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTier:
    """The search over the rows of one kind of a tenant.

    `rows` counts live rows, `dead` deleted rows that still take memory. An `approximate` search
    reads a part of the rows and may miss a neighbour; any other reads all. `rebuilding` is the
    progress of a rebuild, `failure` why the last one failed; both are empty otherwise.
    `memory_bytes` is planned, not measured.
    """

    kind: VectorKind
    rows: int
    dead: int
    memory_bytes: int
    approximate: bool = False
    rebuilding: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The state of a vector index.

    An index that is not ready has a `reason`. `epoch` counts how often it was filled or
    restructured, from 1. `tiers` are those of one tenant.
    """

    ready: bool
    vector_count: int
    epoch: int
    reason: str = ""
    tiers: tuple[IndexTier, ...] = ()


Question = TypeVar("Question", contravariant=True)


class NeighbourSearch(Protocol[Question]):
    """Finds the nearest neighbours of a question, given as a vector or as a text."""

    async def search(
        self, question: Question, /, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of the question; scores are cosines.

        With late interaction they are those of `late_interaction.rescored`, which has its scores.

        Waits for the token until the deadline, then answers with `stale` set.

        Raises:
            ValueError: The question is a vector of another dimension than the index.
            OverloadedError: The question is a text, and the embedder's queue is full.
            TimeoutError: The deadline passed first.
            DependencyError: The index is not ready; `why` says why.
        """


class VectorIndex(NeighbourSearch[VectorLike], Protocol):
    """Searches by vector, among the vectors of segments and facts."""

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items it still holds."""

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the index has seen the write; False if the deadline passes first."""

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Returns its state; `tiers` are filled if a tenant is named."""


class WholeIndex(VectorIndex, Protocol):
    """A vector index of all rows."""

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        """Finds what `Graph.related` finds, among the segments that have a vector.

        Waits for the query's token until the deadline, then answers with `stale` set. Raises
        TimeoutError if the deadline passed first, and DependencyError if the index is not ready;
        `why` says why.
        """

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        """Returns the turns next to those of the items that have a vector.

        They are by time; those of one time by when they were stored, and by id. Waits and raises
        as `related`.
        """


class CandidateIndex(WholeIndex, Protocol):
    """A vector index of all rows in this process, which knows its items."""

    def traits(self, tenant: TenantName, items: Sequence[ItemId]) -> dict[ItemId, Traits]:
        """Returns what signals ask of those items that it has; none before it is filled."""

    def closed(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, tuple[ItemId, ...]]:
        """Returns those of the segments that are evidence of closed facts and of no other ones.

        Each with the segments that are evidence of the facts which closed those, by id. Closings
        count by the clocks of the scope. None before it is filled.
        """

    def is_at_hand(self, tenant: TenantName, kind: VectorKind) -> bool:
        """Returns whether a search without a token answers at once, in the calling thread."""


class TextSearch(NeighbourSearch[str], Protocol):
    """Searches by text: embeds a question, and finds the neighbours of its vector."""
