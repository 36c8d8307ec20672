"""The legs: each turns a question into candidates, best first."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

import numpy as np

from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.questions.period import Period
from serving.domain.questions.query import Query, Scope, TimeRange
from serving.domain.ranking.fusion import fuse
from serving.domain.ranking.leg_options import CandidatePool, Expansion
from serving.domain.ranking.profile import LegSpec, Yields
from serving.domain.ranking.ranked_list import Candidate, RankedList, above_floor, best_first
from serving.pipeline.index.merging import merged
from serving.pipeline.index.vector_spaces import VectorSpace
from serving.ports.access import AccessLog, Timeline
from serving.ports.change_log import Consistency
from serving.ports.embedding import Vector
from serving.ports.graph import Graph
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from serving.ports.words import LexicalSearch

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
    TEMPORAL: frozenset({"named_times"}),
}
"""All legs that a profile can name, and the options each accepts beyond the common ones."""

SHEDDABLE = frozenset({GRAPH, RELATED})
"""The legs that a busy service leaves out; those of words and of meaning are never shed."""


class LegSkippedError(Exception):
    """The leg has no input to search with; the message says why."""


@dataclass(frozen=True, slots=True)
class LegAnswer:
    """What a leg found, best first.

    `lacking` names the upstream legs that failed and why; the leg answered without them.
    `unsearched` says why some rows were not searched.
    """

    candidates: Sequence[Candidate]
    below_floor: int = 0
    stale: bool = False
    index_epoch: int | None = None
    lacking: str = ""
    unsearched: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """What the upstream legs of a leg found.

    `skipped` and `broken` give the reasons of those that did not answer, such as "dense: its weight
    is 0".
    """

    candidates: Sequence[Candidate] = ()
    skipped: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def items(self) -> list[ItemId]:
        """The distinct items, in order."""
        return list(dict.fromkeys(candidate.item for candidate in self.candidates))


class VectorLookup:
    """Looks one question up in a vector space, for every leg that needs it.

    A text that asks several questions is embedded question by question, and an item's score is that
    for the question it is nearest to: one vector of the whole text would be near to none of them.

    Args:
        query: The question; if it has a vector, that is looked up in place of the text.
        space: The vector space.
        parts: The texts to look up; by default the question's text.
    """

    def __init__(self, query: Query, space: VectorSpace, parts: Sequence[str] = ()) -> None:
        self._space = space
        self._vector: Vector | None = None
        if query.vector is not None:
            self._vector = np.asarray(query.vector, dtype=np.float32)
        self._parts = tuple(parts) or (query.text,)
        self.related = space.related
        self.embedding_s = 0.0
        """The longest that a search waited for a vector."""

    async def nearest(self, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Finds the wanted neighbours, as `NeighbourSearch.search` does."""
        if self._vector is not None:
            return await self._space.index.search(self._vector, wanted, deadline)
        search = self._space.text_search.search
        if len(self._parts) == 1:
            answer = await search(self._parts[0], wanted, deadline)
        else:
            answers = await asyncio.gather(
                *(search(part, wanted, deadline) for part in self._parts)
            )
            answer = merged(answers, wanted.depth)
        self.embedding_s = max(self.embedding_s, answer.embedding_s)
        return answer


Periods = Callable[[], tuple[Period, ...]]
"""Reads the times that a question names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRequest:
    """The input of a leg.

    `spec` and `query.scope` are those of this leg, with its lookback applied; `depth` is the number
    of candidates to find, `limit` the limit of the answer. `periods` reads those that the question
    names, once. `found_by` awaits the answers of its upstream legs.
    """

    query: Query
    spec: LegSpec
    lookup: VectorLookup
    deadline: Deadline
    depth: int
    limit: int
    periods: Periods
    found_by: Mapping[str, Callable[[], Awaitable[UpstreamAnswer]]] = field(default_factory=dict)

    async def found_before(self, legs: Sequence[str]) -> UpstreamAnswer:
        """Returns what these legs found, in their order; nothing from one that did not answer."""
        found = await asyncio.gather(*(self.found_by[leg]() for leg in legs))
        return UpstreamAnswer(
            [candidate for each in found for candidate in each.candidates],
            tuple(why for each in found for why in each.skipped),
            tuple(why for each in found for why in each.broken),
        )


class Leg(Protocol):
    """Finds candidates for a question in one way."""

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds at most `request.depth` candidates.

        Raises:
            LegSkippedError: There is no input to search with.
            TimeoutError: The deadline passed.
        """
        ...


def _require_text(query: Query) -> None:
    if not query.text.strip():
        raise LegSkippedError("the request has a vector and no text")


class LexicalLeg:
    """Finds segments by their words. It reads PostgreSQL itself, so it is never stale."""

    def __init__(self, lexical: LexicalSearch) -> None:
        self._lexical = lexical

    async def find(self, request: LegRequest) -> LegAnswer:
        _require_text(request.query)
        found = await self._lexical.search(
            request.query, request.spec.words, request.depth, request.limit, request.deadline
        )
        return LegAnswer(*above_floor(found, request.spec.floor))


async def _nearest(
    kind: ItemKind, request: LegRequest, only: Collection[ItemId] | None = None
) -> IndexAnswer:
    query = request.query
    wanted = WantedNeighbours(kind, query.scope, request.depth, only, query.token)
    return await request.lookup.nearest(wanted, request.deadline)


class DenseLeg:
    """Finds segments by the similarity of their embeddings."""

    def __init__(self, access: AccessLog) -> None:
        self._access = access

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the segments nearest to the question, of all or of a pool."""
        pool, only, lacking = request.spec.pool, None, ""
        if pool is not None:
            only, lacking = await self._members(pool, request)
        answer = await _nearest(ItemKind.SEGMENT, request, only)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        return LegAnswer(kept, below, answer.stale, answer.epoch, lacking, answer.unsearched)

    async def _members(self, pool: CandidatePool, request: LegRequest) -> tuple[set[ItemId], str]:
        """Returns the pool, and what it lacks because an upstream leg failed."""
        scope = request.query.scope
        recent, brought = await asyncio.gather(
            self._access.recently_accessed(scope, pool.recently_accessed, request.deadline),
            request.found_before(pool.joined_by),
        )
        return {*recent, *brought.items}, "; ".join(brought.broken)


class FactsLeg:
    """Finds facts by the similarity of their embeddings, or the segments that support them."""

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds the facts nearest to the question, or their evidence in the facts' order."""
        answer = await _nearest(ItemKind.FACT, request)
        kept, below = above_floor(answer.candidates, request.spec.floor)
        if request.spec.yields is Yields.EVIDENCE:
            kept = evidence_in_order(kept, answer)[: request.depth]
        return LegAnswer(kept, below, answer.stale, answer.epoch, unsearched=answer.unsearched)


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
    """Finds segments or facts by the relations of the entities that the question names."""

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    async def find(self, request: LegRequest) -> LegAnswer:
        """Walks the graph once it has seen the caller's write, or half of the time has passed."""
        query, spec = request.query, request.spec
        stale = await _graph_is_stale(self._consistency, request)
        seeds = await self._seeds(request)
        found = await self._graph.search(
            query, spec.walk, seeds, request.depth, spec.yields, request.deadline
        )
        kept, below = above_floor(found, spec.floor)
        return LegAnswer(kept, below, stale)

    async def _seeds(self, request: LegRequest) -> list[ItemId] | None:
        """Returns the segments to start from; None for the entities that the question names."""
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
    """Waits until the graph has seen the caller's write; True if it did not in time."""
    if request.query.token is None:
        return False
    # Half of the remaining time, so that a stale answer still fits.
    patience = Deadline.after(request.deadline.remaining() / 2)
    return not await consistency.graph_has_seen(request.query.token, patience)


SEEDING_DEPTH = 20
"""How much of each list is considered for seeds; looking deeper changes none of them."""


class RelatedLeg:
    """Finds segments that mention the same entities as the best candidates of other legs.

    This is the second hop of a two-hop question: who directed the film is in a passage that shares
    words with the question; where he was born is in one that shares his name with the first.
    """

    def __init__(self, graph: Graph, consistency: Consistency) -> None:
        self._graph = graph
        self._consistency = consistency

    async def find(self, request: LegRequest) -> LegAnswer:
        """Finds segments that share rare entities with the other legs' first candidates.

        Entities that the question names do not count: they lead to what the first hop finds.
        """
        expansion = request.spec.expansion
        assert expansion is not None, "profiles give this leg an expansion; this is a bug"
        brought = {leg: await request.found_by[leg]() for leg in expansion.found_by}
        broken = [why for each in brought.values() for why in each.broken]
        skipped = [why for each in brought.values() for why in each.skipped]
        if len(broken) + len(skipped) == len(brought):
            raise LegSkippedError(f"nothing to begin with; {'; '.join([*broken, *skipped])}")
        candidates = {leg: each.candidates for leg, each in brought.items()}
        seeds = seeds_of(expansion, candidates)
        doubles = doubles_of(seeds, candidates)
        answer = await self._related(request, seeds)
        others = [each for each in answer.candidates if each.item not in doubles]
        kept, below = above_floor(others, request.spec.floor)
        return replace(answer, candidates=kept, below_floor=below, lacking="; ".join(broken))

    async def _related(self, request: LegRequest, seeds: Sequence[ItemId]) -> LegAnswer:
        """Asks the index, or the graph if the index is in shards and none knows all mentions."""
        query, depth = request.query, request.depth
        if (index := request.lookup.related) is not None:
            found = await index.related(query, seeds, depth, request.deadline)
            return LegAnswer(found.candidates, stale=found.stale, index_epoch=found.epoch)
        stale = await _graph_is_stale(self._consistency, request)
        return LegAnswer(
            await self._graph.related(query, seeds, depth, request.deadline), stale=stale
        )


def seeds_of(expansion: Expansion, found: Mapping[str, Sequence[Candidate]]) -> list[ItemId]:
    """Returns the seeds of an expansion: the best candidates of its legs, fused by rank.

    Args:
        expansion: Says how many.
        found: The candidates of each of its legs, best first.
    """
    lists = [RankedList(leg, tuple(each[:SEEDING_DEPTH])) for leg, each in found.items()]
    fused = fuse(lists, weights=dict.fromkeys(found, 1.0))
    # The same rank is worth the same in each leg; what the first of the legs found comes first.
    in_order = dict.fromkeys(each.item for candidates in found.values() for each in candidates)
    places = {item: place for place, item in enumerate(in_order)}
    fused.sort(key=lambda one: (-one.score, places[one.item]))
    return [one.item for one in fused[: expansion.seeds]]


def doubles_of(
    seeds: Iterable[ItemId], found: Mapping[str, Sequence[Candidate]]
) -> frozenset[ItemId]:
    """Returns what has the scores of a seed in every leg, and that seed.

    A text that is stored twice is related to itself: it would rank above what it doubles, or the
    other way round.

    Args:
        seeds: The seeds of an expansion.
        found: The candidates of each of its legs.
    """
    scores = [{each.item: each.score for each in candidates} for candidates in found.values()]
    alike: defaultdict[tuple[float | None, ...], set[ItemId]] = defaultdict(set)
    for item in chain.from_iterable(scores):
        alike[tuple(of_leg.get(item) for of_leg in scores)].add(item)
    wanted = set(seeds)
    return frozenset(
        chain.from_iterable(
            items for items in alike.values() if len(items) > 1 and not wanted.isdisjoint(items)
        )
    )


class TemporalLeg:
    """Finds the latest segments of the scope, or of the times that the question names."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    async def find(self, request: LegRequest) -> LegAnswer:
        depth = request.depth
        found = await asyncio.gather(
            *(
                self._timeline.latest(scope, depth, request.deadline)
                for scope in self._scopes(request)
            )
        )
        candidates = {candidate.item: candidate for each in found for candidate in each}
        return LegAnswer(best_first(candidates.values())[:depth])

    def _scopes(self, request: LegRequest) -> list[Scope]:
        scope = request.query.scope
        if not request.spec.named_times:
            return [scope]
        return [scope.within(TimeRange(each.begins, each.ends)) for each in request.periods()]
