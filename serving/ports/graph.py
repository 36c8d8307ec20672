"""The graph of entities and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, ItemId, Segment, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChanges:
    """Changes of the graph: rows to write, and items to remove."""

    segments: Sequence[tuple[TenantName, Segment]] = ()
    facts: Sequence[tuple[TenantName, Fact]] = ()
    removed: Sequence[tuple[TenantName, ItemId]] = ()


class Graph(Protocol):
    """The graph of entities and facts: its search and its projection."""

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        """Walks one and two hops from the seeds.

        Returns at most `depth` segments (mentions and evidence), or with `Yields.FACTS` the facts
        in place of their evidence; best first, each with its path and, if evidence, its facts. All
        of them pass the query's scope.

        The seeds are the segments whose entities the walk starts from, best first. None means the
        entities that the question names; with `walk.mentions` it starts from both.
        """

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds segments that mention entities of the seeds which the question does not name.

        An entity with m mentions adds `1 / ((r + 1) * m)` to the score of each segment that
        mentions it, for each seed of rank r, counted from 1. Entities with more than some dozens of
        mentions add nothing, nor do those that the question names (`domain.text.names_entity`),
        which other legs follow. A seed is found only by another seed. The best come first, each
        with the entities that it shares.
        """

    async def apply(self, changes: GraphChanges) -> None:
        """Applies the changes in one transaction; idempotent."""

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items it still holds."""

    async def count_entities(self, tenant: TenantName) -> int:
        """Returns how many entities the tenant has."""

    async def prepare(self) -> None:
        """Creates constraints and indexes; idempotent."""
