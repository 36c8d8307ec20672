"""Why an item is not in an answer: which stage lost it, and what it would have taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.profile import MAX_DEPTH, LegSpec, Profile
from serving.domain.query import Query, Scope
from serving.domain.records import Item, ItemId, Segment, segment_id
from serving.pipeline.asking import LegResult, LegState
from serving.pipeline.legs import DENSE, FACTS, GRAPH, LEXICAL
from serving.pipeline.ordering import Hit, Ordering, Stage, hidden_by
from serving.pipeline.retrieve import Retriever, Traced
from serving.pipeline.spaces import VectorSpaces
from serving.ports import Graph, MemoryStore


class Loss(StrEnum):
    """The stage at which an item was lost."""

    NONE = "none"
    """It is in the answer."""
    NOT_STORED = "not_stored"
    """The tenant has no such item; another tenant's is said so too."""
    FILTERED = "filtered"
    """The filter, or the request's clock, hides it."""
    NOT_PROJECTED = "not_projected"
    """It is stored, but no leg finds it, and one that could has not got it yet."""
    NOT_MATCHED = "not_matched"
    """No leg finds it, however deep it looks."""
    BELOW_DEPTH = "below_depth"
    """A leg that looks deeper, or has no floor, would bring it."""
    FOLDED = "folded"
    """A near-duplicate stands for it."""
    DECAYED = "decayed"
    """Without its age it would be in the answer."""
    BELOW_HEAD = "below_head"
    """It lies beyond what is reranked."""
    RERANKED_DOWN = "reranked_down"
    """Reranking took it out of the answer."""
    DISPLACED = "displaced"
    """Diversification took it out of the answer."""
    CUT = "cut"
    """It lies below the last place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """What one leg makes of the item.

    Attributes:
        leg: The leg.
        state: How the leg ended in the retrieval that is explained.
        rank: The item's place if the leg looks as deep as it can and has no floor; None if it
            does not find it even then.
        score: The leg's score of it there.
        depth: How deep it looked.
        reason: Why it did not bring it; empty if it did.
    """

    leg: str
    state: LegState
    rank: int | None
    score: float | None
    depth: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Where an item was lost.

    Attributes:
        loss: The stage.
        reason: The same in words, with numbers.
        by: The item that took its place, or stands for it, where there is one.
        rank: Its place in the final order if that had no end, where it got so far.
        hit: The item with its ledger, where it got so far.
        legs: What each leg makes of it.
    """

    loss: Loss
    reason: str
    by: ItemId | None = None
    rank: int | None = None
    hit: Hit | None = None
    legs: tuple[LegAbsence, ...] = ()


class AbsenceExplainer:
    """Finds out what became of one item, by asking the same question again and again."""

    def __init__(
        self, retriever: Retriever, store: MemoryStore, spaces: VectorSpaces, graph: Graph
    ) -> None:
        self._retriever = retriever
        self._store = store
        self._spaces = spaces
        self._graph = graph

    async def explain(
        self, query: Query, profile: Profile, item: ItemId, deadline: Deadline
    ) -> Absence:
        """Says at which stage the item was lost, or that it was not.

        Raises:
            AllLegsFailedError: Every leg that was asked failed.
            StoreUnavailableError: Rows cannot be read.
            BudgetExhaustedError: The time ran out.
        """
        tenant = query.scope.tenant
        row = (await self._store.load(tenant, [item], deadline)).get(item)
        if row is None:
            return Absence(loss=Loss.NOT_STORED, reason="the tenant has no such item")
        evidence = await self._evidence(query.scope, row, deadline)
        if reason := hidden_by(row, query.scope, evidence):
            return Absence(loss=Loss.FILTERED, reason=reason)
        traced = await self._retriever.trace(query, profile, deadline)
        legs = await self._legs(query, profile, row, traced, deadline)
        if all(fused.item != item for fused in traced.fused):
            return await self._not_found(query, row, legs)
        return _among_candidates(item, profile, traced, legs)

    async def _evidence(self, scope: Scope, row: Item, deadline: Deadline) -> Sequence[Segment]:
        if isinstance(row, Segment):
            return ()
        ids = [segment_id(id_) for id_ in row.evidence]
        rows = await self._store.load(scope.tenant, ids, deadline)
        return [found for found in rows.values() if isinstance(found, Segment)]

    async def _legs(
        self, query: Query, profile: Profile, row: Item, traced: Traced, deadline: Deadline
    ) -> tuple[LegAbsence, ...]:
        """Asks each leg as deep as it can look."""
        deeper = replace(profile, legs=tuple(_as_deep_as_can_be(leg) for leg in profile.legs))
        deep = await self._retriever.ask_legs(query, deeper, deadline)
        return tuple(
            _leg_absence(row, spec, profile.limit, before, after)
            for spec, before, after in zip(profile.legs, traced.results, deep, strict=True)
        )

    async def _not_found(self, query: Query, row: Item, legs: tuple[LegAbsence, ...]) -> Absence:
        found = [leg for leg in legs if leg.rank is not None]
        if found:
            reason = "; ".join(f"{leg.leg}: {leg.reason}" for leg in found)
            return Absence(loss=Loss.BELOW_DEPTH, reason=reason, legs=legs)
        missing = [] if row.sensitive else await self._missing_from(query, row, legs)
        if missing:
            reason = f"not in {' and '.join(missing)} yet"
            return Absence(loss=Loss.NOT_PROJECTED, reason=reason, legs=legs)
        return Absence(loss=Loss.NOT_MATCHED, reason="no leg of the profile finds it", legs=legs)

    async def _missing_from(self, query: Query, row: Item, legs: Sequence[LegAbsence]) -> list[str]:
        """The projections that legs of the profile stand on and that lack the item."""
        tenant, names = query.scope.tenant, {leg.leg for leg in legs}
        missing = []
        try:
            if names & {DENSE, FACTS}:
                index = self._spaces.for_query(query).index
                if not await index.count(tenant, [row.item]):
                    missing.append("the vector index")
            if GRAPH in names and not await self._graph.count(tenant, [row.item]):
                missing.append("the graph")
        except TriviumError as error:
            missing.append(f"what cannot be asked ({error})")
        return missing


def _as_deep_as_can_be(leg: LegSpec) -> LegSpec:
    return replace(leg, depth=MAX_DEPTH, depth_per_limit=0, floor=None)


def _leg_absence(
    row: Item, spec: LegSpec, limit: int, before: LegResult, after: LegResult
) -> LegAbsence:
    place = next(
        (n for n, candidate in enumerate(after.candidates, start=1) if candidate.item == row.item),
        None,
    )
    score = None if place is None else after.candidates[place - 1].score
    brought = any(candidate.item == row.item for candidate in before.candidates)
    depth = spec.depth_for(limit)
    return LegAbsence(
        leg=spec.name,
        state=before.report.state,
        rank=place,
        score=score,
        depth=depth,
        reason="" if brought else _why_not_brought(row, spec, depth, before, place, score),
    )


def _why_not_brought(
    row: Item,
    spec: LegSpec,
    depth: int,
    before: LegResult,
    place: int | None,
    score: float | None,
) -> str:
    if before.report.state not in (LegState.OK, LegState.STALE):
        return before.report.reason or before.report.state.value
    if place is None or score is None:
        if row.sensitive and spec.name != LEXICAL:
            return "it is sensitive, and so found by words only"
        return f"not among its best {MAX_DEPTH}"
    if spec.floor is not None and score < spec.floor:
        return f"its score {score:.4g} is below the floor {spec.floor:g}"
    return f"its rank {place} is below the depth {depth}"


def _among_candidates(
    item: ItemId, profile: Profile, traced: Traced, legs: tuple[LegAbsence, ...]
) -> Absence:
    """What became of an item that a leg brought."""
    ordering = traced.ordering
    if item in ordering.vanished:
        reason = "it was written or erased while the question was answered"
        return Absence(loss=Loss.NOT_STORED, reason=reason, legs=legs)
    if item in ordering.folded_into:
        stands_in = ordering.folded_into[item]
        return Absence(
            loss=Loss.FOLDED,
            reason=f"{stands_in.id!r} says nearly the same",
            by=stands_in,
            legs=legs,
        )
    order = ordering.before_the_cut()
    place = next(n for n, hit in enumerate(order, start=1) if hit.item.item == item)
    hit = order[place - 1]
    found = next((hit for hit in traced.retrieval.hits if hit.item.item == item), None)
    if found is not None:
        return Absence(loss=Loss.NONE, reason="", rank=place, hit=found, legs=legs)
    loss, reason, by = _below_the_cut(hit, place, profile, ordering)
    return Absence(loss=loss, reason=reason, by=by, rank=place, hit=hit, legs=legs)


def _below_the_cut(
    hit: Hit, place: int, profile: Profile, ordering: Ordering
) -> tuple[Loss, str, ItemId | None]:
    """Which step took the item below the last place; the earliest that would have kept it."""
    item, limit = hit.item.item, profile.limit
    where = f"its place is {place}, and the answer has {limit}"
    diversity = hit.ledger.diversity
    if diversity is not None and ordering.place_before_diversity(item) <= limit:
        reason = f"{where}; before diversification it was {ordering.place_before_diversity(item)}"
        return Loss.DISPLACED, reason, diversity.closest
    if hit.stage is Stage.RERANKED and ordering.coarse_place(item) <= limit:
        return (
            Loss.RERANKED_DOWN,
            f"{where}; before reranking it was {ordering.coarse_place(item)}",
            None,
        )
    if hit.stage is Stage.COARSE:
        return Loss.BELOW_HEAD, f"{where}; it was not among the hits that are reranked", None
    if hit.ledger.decay is not None and ordering.place_without_decay(item) <= limit:
        return (
            Loss.DECAYED,
            f"{where}; its age takes it from place {ordering.place_without_decay(item)}",
            None,
        )
    return Loss.CUT, where, None
