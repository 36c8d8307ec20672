"""The roads to a hit: each leg turns a question into candidates, best first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.fusion import fuse
from serving.domain.leg_options import CandidatePool, Expansion
from serving.domain.profile import LegSpec, Yields
from serving.domain.query import Query
from serving.domain.ranking import Candidate, RankedList, above_floor
from serving.domain.records import ItemId, ItemKind, segment_id
from serving.pipeline.index_answers import merged
from serving.pipeline.spaces import VectorSpace
from serving.ports import (
    AccessLog,
    Consistency,
    Graph,
    IndexAnswer,
    LexicalSearch,
    Timeline,
    VectorLike,
    WantedNeighbours,
)

LEXICAL = "lexical"
DENSE = "dense"
FACTS = "facts"
GRAPH = "graph"
RELATED = "related"
TEMPORAL = "temporal"
OPTIONS_OF_LEGS: Mapping[str, frozenset[str]] = {
    LEXICAL: frozenset({"floor", "words"}),
    DENSE: frozenset({"floor", "pool"}),
    FACTS: frozenset({"floor", "yields"}),
    GRAPH: frozenset({"floor", "yields", "walk"}),
    RELATED: frozenset({"floor", "expansion"}),
    TEMPORAL: frozenset(),
}
"""All legs that a profile can name, and what each can be told beyond what all can."""


class LegSkippedError(Exception):
    """The leg has nothing to work with; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a leg brings: candidates best first, and how it came by them.

    `lacking` says which legs that it leans on broke, and how; it has done without them.
    `unsearched` says why some of what there is was not searched. `twins` are the parts in whose
    place their twins on a CPU have answered.
    """

    candidates: Sequence[Candidate]
    below_floor: int = 0
    stale: bool = False
    index_epoch: int | None = None
    lacking: str = ""
    unsearched: str = ""
    twins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Brought:
    """What legs bring to one that leans on them.

    `skipped` and `broken` say of those that did not answer why, such as "dense: its weight is 0".
    """

    candidates: Sequence[Candidate] = ()
    skipped: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def items(self) -> list[ItemId]:
        """The items, each once, in the order in which they were brought."""
        return list(dict.fromkeys(candidate.item for candidate in self.candidates))


class QueryVector:
    """The question's vector, made once for all legs that need it, and only if one does.

    What asks several things has a vector of each, and what is near to one of them is found: one
    vector of all lies between them, near to neither.

    It belongs to one space, in whose index alone it may be looked up. If that space embeds and
    searches in one call, the vector is not seen here at all.

    Args:
        query: The question; a vector that it brings is taken as it is.
        space: Where it is looked up.
        deadline: By when the vector is made.
        parts: The texts that are embedded; the question's own, if there are none.
    """

    def __init__(
        self, query: Query, space: VectorSpace, deadline: Deadline, parts: Sequence[str] = ()
    ) -> None:
        self._space = space
        self._query = query
        self._deadline = deadline
        self._parts = tuple(parts) or (query.text,)
        self._task: asyncio.Task[list[VectorLike]] | None = None
        self.elapsed_s = 0.0

    async def nearest(self, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Looks the question up in its space, as `NeighbourSearch.search` does.

        Of a question of several parts an item's score is that by the part it is nearest to.
        """
        semantic, index = self._space.semantic, self._space.index
        if semantic is None or self._query.vector is not None:
            searches = [index.search(vector, wanted, deadline) for vector in await self._get()]
        else:
            searches = [semantic.search(part, wanted, deadline) for part in self._parts]
        answers = await asyncio.gather(*searches)
        self.elapsed_s = max(self.elapsed_s, *(answer.embedding_s for answer in answers))
        return answers[0] if len(answers) == 1 else merged(answers, wanted.depth)

    async def _get(self) -> list[VectorLike]:
        """The vectors: each float32 (dimension,), of unit length."""
        if self._task is None:
            self._task = asyncio.create_task(self._make())
        # One leg that gives up must not take the vector from the others.
        return await asyncio.shield(self._task)

    async def _make(self) -> list[VectorLike]:
        started = time.perf_counter()
        try:
            if self._query.vector is not None:
                given = np.asarray(self._query.vector, dtype=np.float32)
                return [given / np.linalg.norm(given)]
            embed = self._space.embedder.embed_query
            return await asyncio.gather(*(embed(part, self._deadline) for part in self._parts))
        finally:
            self.elapsed_s = time.perf_counter() - started

    async def discard(self) -> None:
        """Stops the work if it still runs, and takes note of how it ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRequest:
    """What a leg is asked.

    `spec` and `query.scope` are for this leg alone, with its depth and lookback applied; `limit`
    is that of the answer. `found_by` has what the legs before it find, for those that lean on it.
    """

    query: Query
    spec: LegSpec
    vector: QueryVector
    deadline: Deadline
    limit: int
    found_by: Mapping[str, Callable[[], Awaitable[Brought]]] = field(default_factory=dict)

    async def found_before(self, legs: Sequence[str]) -> Brought:
        """What these legs found, in their order; nothing from one that did not answer."""
        found = await asyncio.gather(*(self.found_by[leg]() for leg in legs))
        return Brought(
            [candidate for each in found for candidate in each.candidates],
            tuple(why for each in found for why in each.skipped),
            tuple(why for each in found for why in each.broken),
        )


class Leg(Protocol):
    """One road."""

    async def find(self, request: LegRequest) -> Finding:
        """Finds at most `request.spec.depth` candidates.

        Raises:
            LegSkippedError: There is nothing to ask for.
            TimeoutError: The deadline passed.
        """
        ...


def _require_text(query: Query) -> None:
    if not query.text.strip():
        raise LegSkippedError("the request has a vector and no text")


class LexicalLeg:
    """Segments by their words. PostgreSQL is the truth, so it is never stale."""

    def __init__(self, lexical: LexicalSearch) -> None:
        self._lexical = lexical

    async def find(self, request: LegRequest) -> Finding:
        """Finds segments by words."""
        _require_text(request.query)
        found = await self._lexical.search(
            request.query, request.spec.words, request.spec.depth, request.limit, request.deadline
        )
        return Finding(*above_floor(found, request.spec.floor))


async def _nearest(
    kind: ItemKind, request: LegRequest, only: Collection[ItemId] | None = None
) -> IndexAnswer:
    query = request.query
    wanted = WantedNeighbours(kind, query.scope, request.spec.depth, only, query.token)
    return await request.vector.nearest(wanted, request.deadline)


class DenseLeg:
    """Segments by their meaning."""

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    async def find(self, request: LegRequest) -> Finding:
        """Finds segments near the question, or orders those of a pool by it."""
        pool, only, lacking = request.spec.pool, None, ""
        if pool is not None:
            only, lacking = await self._members(pool, request)
        answer = await _nearest(ItemKind.SEGMENT, request, only)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        return Finding(
            kept, below, answer.stale, answer.epoch, lacking, answer.unsearched, answer.twins
        )

    async def _members(self, pool: CandidatePool, request: LegRequest) -> tuple[set[ItemId], str]:
        """The pool, and what is lacking in it, since a leg broke whose finds join it."""
        scope = request.query.scope
        recent, brought = await asyncio.gather(
            self._access.recently_accessed(scope, pool.recently_accessed, request.deadline),
            request.found_before(pool.joined_by),
        )
        return {*recent, *brought.items}, "; ".join(brought.broken)


class FactsLeg:
    """Facts by their meaning, and the segments they rest on."""

    async def find(self, request: LegRequest) -> Finding:
        """Finds facts near the question, or their evidence in the facts' order."""
        answer = await _nearest(ItemKind.FACT, request)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        if request.spec.yields is Yields.EVIDENCE:
            kept = evidence_in_order(kept, answer)[: request.spec.depth]
        return Finding(
            kept,
            below,
            answer.stale,
            answer.epoch,
            unsearched=answer.unsearched,
            twins=answer.twins,
        )


def evidence_in_order(facts: Sequence[Candidate], answer: IndexAnswer) -> list[Candidate]:
    """Replaces each fact by its evidence, strongest first; a segment keeps its best place."""
    facts_of: dict[ItemId, list[str]] = {}
    score: dict[ItemId, float] = {}
    for fact in facts:
        for id_ in answer.evidence.get(fact.item.id, ()):
            facts_of.setdefault(segment_id(id_), []).append(fact.item.id)
            score.setdefault(segment_id(id_), fact.score)
    return [Candidate(item, score[item], facts=tuple(names)) for item, names in facts_of.items()]


class GraphLeg:
    """Segments or facts by the relations of the entities that the question names."""

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    async def find(self, request: LegRequest) -> Finding:
        """Walks the graph once it has seen the caller's write, or when time presses."""
        query, spec = request.query, request.spec
        stale = await _graph_is_stale(self._consistency, request)
        seeds = await self._seeds(request)
        found = await self._graph.search(
            query, spec.walk, seeds, spec.depth, spec.yields, request.deadline
        )
        kept, below = above_floor(found, spec.floor)
        return Finding(kept, below, stale)

    async def _seeds(self, request: LegRequest) -> list[ItemId] | None:
        """The segments to start from; None leaves it to the names in the question."""
        if request.query.seeds:
            return [segment_id(id_) for id_ in request.query.seeds]
        if leg := request.spec.walk.seeds_from:
            brought = await request.found_before([leg])
            for why in (*brought.broken, *brought.skipped):
                raise LegSkippedError(f"nothing to start from; {why}")
            return brought.items
        _require_text(request.query)
        return None


async def _graph_is_stale(consistency: Consistency, request: LegRequest) -> bool:
    """Waits for the graph to have seen the caller's write; whether it has not in good time."""
    if request.query.token is None:
        return False
    # Half of what is left for waiting, so that a stale answer still fits.
    patience = Deadline.after(request.deadline.remaining() / 2)
    return not await consistency.graph_has_seen(request.query.token, patience)


SEEDING_DEPTH = 20
"""How much of each list decides on the seeds of an expansion: to look deeper changes none."""


class RelatedLeg:
    """Segments that mention what the best finds of other legs mention.

    The second step of a question in two: who directed the film is in a passage that shares words
    with the question, where he was born is in one that shares his name with the first.
    """

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    async def find(self, request: LegRequest) -> Finding:
        """Finds segments that share rare entities with what the other legs found first.

        Entities that the question does not name: the second step goes by what the first brought.
        """
        expansion = request.spec.expansion
        assert expansion is not None, "the form of a profile gives it one; this is a bug"
        stale = await _graph_is_stale(self._consistency, request)
        brought = {leg: await request.found_by[leg]() for leg in expansion.found_by}
        broken = [why for each in brought.values() for why in each.broken]
        skipped = [why for each in brought.values() for why in each.skipped]
        if len(broken) + len(skipped) == len(brought):
            raise LegSkippedError(f"nothing to begin with; {'; '.join([*broken, *skipped])}")
        seeds = seeds_of(expansion, {leg: each.candidates for leg, each in brought.items()})
        found = await self._graph.related(
            request.query, seeds, request.spec.depth, request.deadline
        )
        kept, below = above_floor(found, request.spec.floor)
        return Finding(kept, below, stale, lacking="; ".join(broken))


def seeds_of(expansion: Expansion, found: Mapping[str, Sequence[Candidate]]) -> list[ItemId]:
    """Where an expansion begins: with the best of what its legs found, fused by rank.

    Args:
        expansion: Says how many segments.
        found: The candidates of each leg that it leads on from, best first.
    """
    lists = [RankedList(leg, tuple(each[:SEEDING_DEPTH])) for leg, each in found.items()]
    fused = fuse(lists, weights=dict.fromkeys(found, 1.0))
    return [one.item for one in fused[: expansion.seeds]]


class TemporalLeg:
    """Segments by time alone: the latest of the scope."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> Finding:
        """Finds the latest segments."""
        scope, depth = request.query.scope, request.spec.depth
        return Finding(await self._timeline.latest(scope, depth, request.deadline))
