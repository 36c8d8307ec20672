"""Explains why an item is not in an answer: which stage lost it, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.items.records import Item, ItemId, Segment, segment_id
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.profile import Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.explain_leg_absence import LegAbsence, LegAbsenceExplainer, Miss
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.ordering import Hit, Stage, hidden_by
from serving.pipeline.retrieval.steps import RetrievalSteps, Traced
from serving.ports.graph import Graph
from serving.ports.memory_store import MemoryStore


class Loss(StrEnum):
    """The stage at which an item was lost."""

    NONE = "none"
    """It is in the answer."""
    NOT_STORED = "not_stored"
    """The tenant has no such item, or it is another tenant's."""
    FILTERED = "filtered"
    """The filter, or the request's time, hides it."""
    NOT_PROJECTED = "not_projected"
    """It is stored, but the projection that a leg needs to find it lacks it yet."""
    NOT_MATCHED = "not_matched"
    """No leg finds it, however deep it looks."""
    BELOW_DEPTH = "below_depth"
    """A leg with more depth, or without a floor, would find it."""
    NOT_SEARCHED = "not_searched"
    """A leg would find it with a longer lookback, or without its pool."""
    UNANSWERED = "unanswered"
    """A leg that might find it did not answer, then or with more depth."""
    FOLDED = "folded"
    """A newer item that says the same stands for it."""
    DECAYED = "decayed"
    """Without its age it would be in the answer."""
    BELOW_HEAD = "below_head"
    """It lies beyond the reranked head, and no other step cost it its place."""
    RERANKED_DOWN = "reranked_down"
    """Reranking moved it out of the answer."""
    DISPLACED = "displaced"
    """Diversification or a reserved place moved it out of the answer."""
    CUT = "cut"
    """It lies below the last place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Where an item was lost.

    Attributes:
        loss: The stage.
        reason: An explanation, with numbers.
        by: The item that took its place or stands for it, if there is one.
        rank: Its rank in the final order before the cut, if it got so far.
        hit: The item with its ledger, if it got so far.
        legs: How it fared in each leg.
    """

    loss: Loss
    reason: str
    by: ItemId | None = None
    rank: int | None = None
    hit: Hit | None = None
    legs: tuple[LegAbsence, ...] = ()


_LOSS_BY_MISS = {
    Miss.BELOW: Loss.BELOW_DEPTH,
    Miss.HIDDEN: Loss.NOT_SEARCHED,
    Miss.UNANSWERED: Loss.UNANSWERED,
}
"""The loss of an item that no leg found, by the legs' misses; the first that occurs decides."""


class AbsenceExplainer:
    """Finds out where one item was lost, by repeating the query with changed profiles.

    It is always admitted, and nothing that it shows counts as an access.
    """

    def __init__(
        self, steps: RetrievalSteps, store: MemoryStore, space: VectorSpace, graph: Graph
    ) -> None:
        self._steps = steps
        self._legs = LegAbsenceExplainer(steps)
        self._store = store
        self._space = space
        self._graph = graph

    async def explain(
        self, query: Query, profile: Profile, item: ItemId, deadline: Deadline
    ) -> Absence:
        """Returns the stage at which the item was lost, or that it was not.

        Raises:
            AllLegsFailedError: Every leg that ran failed.
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
        traced = await self._steps.run(query, profile, deadline, thorough=True)
        legs = await self._legs.explain(traced.query, profile, row, traced.results, deadline)
        if early := _before_the_order(item, traced):
            return replace(early, legs=legs)
        if all(fused.item != item for fused in traced.ordering.fused):
            return await self._not_found(query, row, evidence, legs)
        if place := _place(item, traced.retrieval.hits):
            hit = traced.retrieval.hits[place - 1]
            return Absence(loss=Loss.NONE, reason="", rank=place, hit=hit, legs=legs)
        below = await self._below_the_cut(profile, item, traced, deadline)
        return replace(below, legs=legs)

    async def _evidence(self, scope: Scope, row: Item, deadline: Deadline) -> Sequence[Segment]:
        if isinstance(row, Segment):
            return ()
        ids = [segment_id(id_) for id_ in row.evidence]
        rows = await self._store.load(scope.tenant, ids, deadline)
        return [found for found in rows.values() if isinstance(found, Segment)]

    async def _not_found(
        self, query: Query, row: Item, evidence: Sequence[Segment], legs: tuple[LegAbsence, ...]
    ) -> Absence:
        """Explains an item that no leg found, by the most certain cause."""
        for miss, loss in _LOSS_BY_MISS.items():
            if those := [leg for leg in legs if leg.miss is miss]:
                reason = "; ".join(f"{leg.leg}: {leg.reason}" for leg in those)
                return Absence(loss=loss, reason=reason, legs=legs)
        if row.sensitive or any(segment.sensitive for segment in evidence):
            what = "the item" if row.sensitive else "the evidence of the fact"
            reason = f"{what} is sensitive, so it is never embedded nor in the graph"
            return Absence(loss=Loss.NOT_MATCHED, reason=reason, legs=legs)
        if missing := await self._missing_from(query, row, legs):
            reason = f"not in {' and '.join(missing)} yet"
            return Absence(loss=Loss.NOT_PROJECTED, reason=reason, legs=legs)
        return Absence(loss=Loss.NOT_MATCHED, reason="no leg of the profile finds it", legs=legs)

    async def _below_the_cut(
        self, profile: Profile, item: ItemId, traced: Traced, deadline: Deadline
    ) -> Absence:
        """Finds the step that cost the item its place: the last without which it would be a hit."""
        order = traced.ordering.uncut()
        place = _place(item, order)
        assert place is not None, "an item that is not folded must be in the order; this is a bug"
        hit = order[place - 1]
        where = f"the item is at rank {place}, and the limit is {profile.limit}"
        below = Absence(loss=Loss.CUT, reason=where, rank=place, hit=hit)
        if by := traced.ordering.displaced_hits().get(item):
            took = f"{by.item.id!r} took the place reserved for {by.ledger.reserved_by}"
            reason = f"the item is at rank {place}; {took}"
            return replace(below, loss=Loss.DISPLACED, reason=reason, by=by.item.item)
        for step in _STEPS:
            without = step.without(profile)
            if without == profile:
                continue
            answer = await self._reordered(traced, without, deadline)
            if kept_at := _place(item, answer):
                reason = f"{where}; {step.said.format(kept_at)}"
                return replace(below, loss=step.loss, reason=reason, by=step.by(hit))
        if hit.stage is Stage.COARSE:
            why = "a sensitive item is" if hit.item.sensitive else "the item was"
            reason = f"{where}; {why} not reranked"
            return replace(below, loss=Loss.BELOW_HEAD, reason=reason)
        return below

    async def _reordered(
        self, traced: Traced, profile: Profile, deadline: Deadline
    ) -> tuple[Hit, ...]:
        """Returns the answer under a profile with other steps after fusion.

        Legs and rows are not read again; the reranker is called only for hits it has not scored.
        """
        ordering = traced.ordering.with_profile(profile)
        report = traced.retrieval.rerank
        if profile.rerank is None or report is None:
            return ordering.hits()
        if report.stage is not Stage.RERANKED:
            ordering.mark_coarse(report.stage)
        elif (logits := traced.ordering.known_logits(ordering.head())) is not None:
            ordering.add_logits(logits)
        else:
            await self._steps.rerank(traced.query, ordering, deadline)
        return ordering.hits()

    async def _missing_from(self, query: Query, row: Item, legs: Sequence[LegAbsence]) -> list[str]:
        """Returns the projections read by the profile's legs that lack the item."""
        tenant, needed = query.scope.tenant, {LEGS[leg.leg].projection for leg in legs}
        missing = []
        try:
            if "embedding" in needed and not await self._space.index.count(tenant, [row.item]):
                missing.append("the vector index")
            if "graph" in needed and not await self._graph.count(tenant, [row.item]):
                missing.append("the graph")
        except TriviumError as error:
            missing.append(f"a store that cannot be reached ({error})")
        return missing


def _place(item: ItemId, hits: Sequence[Hit]) -> int | None:
    """Returns the item's rank, from 1; None if it is not there."""
    places = (place for place, hit in enumerate(hits, start=1) if hit.item.item == item)
    return next(places, None)


def _nobody(hit: Hit) -> ItemId | None:
    del hit
    return None


def _closest(hit: Hit) -> ItemId | None:
    """Returns the most similar item that was chosen before it."""
    return hit.ledger.diversity.closest if hit.ledger.diversity is not None else None


class _Step(NamedTuple):
    """A step after fusion that can cost an item its place, and the item that then has it."""

    loss: Loss
    said: str
    without: Callable[[Profile], Profile]
    by: Callable[[Hit], ItemId | None] = _nobody


_STEPS = (
    _Step(
        Loss.DISPLACED,
        "at rank {} before diversification",
        lambda profile: replace(profile, diversity=None),
        _closest,
    ),
    _Step(
        Loss.RERANKED_DOWN,
        "at rank {} before reranking",
        lambda profile: replace(profile, rerank=None),
    ),
    _Step(
        Loss.DECAYED,
        "at rank {} without decay by age",
        lambda profile: replace(profile, decay=None),
    ),
)
"""The last first."""


def _before_the_order(item: ItemId, traced: Traced) -> Absence | None:
    """Explains an item that a leg found and that is not in the order; None if it is."""
    ordering = traced.ordering
    if item in ordering.vanished:
        reason = "the item was written or erased while the question was answered"
        return Absence(loss=Loss.NOT_STORED, reason=reason)
    if item in ordering.folded_into:
        stands_in = ordering.folded_into[item]
        reason = f"{stands_in.id!r} says the same"
        return Absence(loss=Loss.FOLDED, reason=reason, by=stands_in)
    return None
