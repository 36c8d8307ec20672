"""Explains why an item is not in an answer: which stage lost it, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from serving.domain.budget import Deadline
from serving.domain.errors import TriviumError
from serving.domain.items.records import Item, ItemId, Segment, segment_id
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.profile import Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.explain_leg_absence import LegAbsence, Loss, explain_legs
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.ordering import Hit, Stage, hidden_by
from serving.pipeline.retrieval.steps import RetrievalSteps, Traced
from serving.ports.graph import Graph
from serving.ports.memory_store import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Where an item was lost, and why, with numbers.

    `by` took its place or stands for it. `rank`, in the final order before the cut, and `hit` are
    those of an item that got so far.
    """

    loss: Loss
    reason: str
    by: ItemId | None = None
    rank: int | None = None
    hit: Hit | None = None
    legs: tuple[LegAbsence, ...] = ()


_MISSES = (Loss.BELOW_DEPTH, Loss.NOT_SEARCHED, Loss.UNANSWERED)
"""How legs may lose an item that none found; the first that occurs decides."""


class AbsenceExplainer:
    """Finds out where one item was lost, by repeating the query with changed profiles.

    It is always admitted, and nothing that it shows counts as an access.
    """

    def __init__(
        self, steps: RetrievalSteps, store: MemoryStore, space: VectorSpace, graph: Graph
    ) -> None:
        self._steps = steps
        self._store = store
        self._space = space
        self._graph = graph

    async def explain(
        self, query: Query, profile: Profile, item: ItemId, deadline: Deadline
    ) -> Absence:
        """Returns the stage at which the item was lost, or that it was not.

        Raises as `RetrievalSteps.run`.
        """
        tenant = query.scope.tenant
        row = (await self._store.load(tenant, [item], deadline)).get(item)
        if row is None:
            return Absence(loss=Loss.NOT_STORED, reason="the tenant has no such item")
        evidence = await self._evidence(query.scope, row, deadline)
        if reason := hidden_by(row, query.scope, evidence):
            return Absence(loss=Loss.FILTERED, reason=reason)
        traced = await self._steps.run(query, profile, deadline, thorough=True)
        legs = await explain_legs(self._steps, traced.query, profile, row, traced.results, deadline)
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
        for loss in _MISSES:
            if those := [leg for leg in legs if leg.loss is loss]:
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
        for loss, change, before in _STEPS:
            without = replace(profile, **change)
            if without == profile:
                continue
            if kept_at := _place(item, await self._reordered(traced, without, deadline)):
                reason = f"{where}; at rank {kept_at} {before}"
                term = hit.ledger.diversity if loss is Loss.DISPLACED else None
                closest = None if term is None else term.closest
                return replace(below, loss=loss, reason=reason, by=closest)
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


_STEPS: Sequence[tuple[Loss, dict[str, Any], str]] = (
    (Loss.DISPLACED, {"diversity": None}, "before diversification"),
    (Loss.RERANKED_DOWN, {"rerank": None}, "before reranking"),
    (Loss.DECAYED, {"decay": None}, "without decay by age"),
)
"""The steps after fusion that can cost an item its place, the last first: what a profile without
the step has in place of it, and how that reads."""


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
