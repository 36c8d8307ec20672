"""Explains why an item is not in an answer: which stage lost it, and by how much."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from serving.domain.budget import Deadline
from serving.domain.errors import AllLegsFailedError, TriviumError
from serving.domain.items.records import Item, ItemId, Segment, segment_id
from serving.domain.questions.query import Query, Scope
from serving.domain.questions.visibility import hidden_by
from serving.domain.ranking.leg_options import WordsMode
from serving.domain.ranking.profile import MAX_DEPTH, LegSpec, Profile
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegResult, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.scoring import RERANK
from serving.pipeline.retrieval.order.step import Step
from serving.pipeline.retrieval.steps import RetrievalSteps, Traced
from serving.ports.graph import Graph
from serving.ports.memory_store import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """The outcome of the item in one leg, which has a `state` in the retrieval that is explained.

    `rank` and `score` are those with the greatest depth and no floor and, if it is found only then,
    without lookback, pool and the like; None if it is not found even so. `reason` and `loss` say
    why the leg did not find it.
    """

    leg: str
    state: LegState
    rank: float | None
    score: float | None
    depth: int
    reason: str
    loss: Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """The stage that lost an item, and the reason, with numbers.

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
"""The losses of an item that no leg found; the first that occurs decides."""


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
        legs = await _explain_legs(
            self._steps, traced.query, profile, row, traced.results, deadline
        )
        if early := _before_the_order(item, traced):
            absence = early
        elif all(fused.item != item for fused in traced.ordering.fused):
            absence = await self._not_found(query, row, evidence, legs)
        elif place := _place(item, traced.retrieval.hits):
            hit = traced.retrieval.hits[place - 1]
            absence = Absence(loss=Loss.NONE, reason="", rank=place, hit=hit)
        else:
            absence = await self._below_the_cut(profile, item, traced, deadline)
        return replace(absence, legs=legs)

    async def _evidence(self, scope: Scope, row: Item, deadline: Deadline) -> Sequence[Segment]:
        if isinstance(row, Segment):
            return ()
        ids = [segment_id(id_) for id_ in row.evidence]
        rows = await self._store.load(scope.tenant, ids, deadline)
        return [found for found in rows.values() if isinstance(found, Segment)]

    async def _not_found(
        self, query: Query, row: Item, evidence: Sequence[Segment], legs: Sequence[LegAbsence]
    ) -> Absence:
        """Explains an item that no leg found, by the most certain cause."""
        for loss in _MISSES:
            if those := [leg for leg in legs if leg.loss is loss]:
                reason = "; ".join(f"{leg.leg}: {leg.reason}" for leg in those)
                return Absence(loss=loss, reason=reason)
        if row.sensitive or any(segment.sensitive for segment in evidence):
            what = "the item" if row.sensitive else "the evidence of the fact"
            reason = f"{what} is sensitive, so it is never embedded nor in the graph"
            return Absence(loss=Loss.NOT_MATCHED, reason=reason)
        if missing := await self._missing_from(query, row, legs):
            reason = f"not in {' and '.join(missing)} yet"
            return Absence(loss=Loss.NOT_PROJECTED, reason=reason)
        return Absence(loss=Loss.NOT_MATCHED, reason="no leg of the profile finds it")

    async def _below_the_cut(
        self, profile: Profile, item: ItemId, traced: Traced, deadline: Deadline
    ) -> Absence:
        """Finds the step that cost the item its place: the last without which it would be a hit."""
        ordering = traced.ordering
        order = ordering.uncut()
        place = _place(item, order)
        assert place is not None, "an item that is not folded must be in the order; this is a bug"
        hit = order[place - 1]
        where = f"the item is at rank {place}, and the limit is {profile.limit}"
        below = Absence(loss=Loss.CUT, reason=where, rank=place, hit=hit)
        for step in reversed(ordering.steps[:-1]):
            before = await self._hits_without(step, traced, deadline)
            if not (kept_at := _place(item, before)):
                continue
            by = step.named_by(hit) or _gained(item, before, traced.retrieval.hits)
            reason = f"{where}; at rank {kept_at} {step.left_out}"
            return replace(below, loss=step.loss, reason=reason, by=by)
        if hit.stage is Stage.COARSE:
            why = "a sensitive item is" if hit.item.sensitive else "the item was"
            reason = f"{where}; {why} not reranked"
            return replace(below, loss=Loss.BELOW_HEAD, reason=reason)
        return below

    async def _hits_without(
        self, step: Step, traced: Traced, deadline: Deadline
    ) -> tuple[Hit, ...]:
        """Returns the answer without one of the steps after fusion.

        Legs and rows are not read again; the reranker is called only for hits it has not scored.
        """
        ordering = traced.ordering.without(step)
        report = traced.retrieval.rerank
        if RERANK not in ordering.steps or report is None:
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


def _gained(lost: ItemId, before: Sequence[Hit], answer: Sequence[Hit]) -> ItemId | None:
    """Returns the item that is in the answer in place of a lost one, the best for the best."""
    was, now = ([hit.item.item for hit in hits] for hits in (before, answer))
    gained = [item for item in now if item not in was]
    place = [item for item in was if item not in now].index(lost)
    return gained[place] if place < len(gained) else None


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


# ---------------------------------------------------------------- one leg


async def _explain_legs(
    steps: RetrievalSteps,
    query: Query,
    profile: Profile,
    row: Item,
    results: Sequence[LegResult],
    deadline: Deadline,
) -> tuple[LegAbsence, ...]:
    """Explains, for each leg in the profile's order, how an item fared.

    `query` is the one that the legs ran, and `results` what they found.

    Raises:
        StoreUnavailableError: A leg could not reach PostgreSQL.
    """
    deep = {
        leg.name: replace(leg, depth=MAX_DEPTH, depth_per_limit=0, floor=None)
        for leg in profile.legs
        if leg.weight
    }
    after = await _run(steps, query, profile, deep, deadline)
    missing = [name for name in deep if not _finds(after.get(name), row.item)]
    freed = {name: _freed(deep[name]) for name in missing}
    freer = {name: leg for name, (leg, why) in freed.items() if why}
    found = await _run(steps, query, profile, freer, deadline)
    hiding = [name for name, result in found.items() if _finds(result, row.item)]
    after |= {name: found[name] for name in hiding}
    hidden_by = {name: freed[name][1] for name in hiding}
    return tuple(
        _leg_absence(row, leg, profile, before, after.get(leg.name), hidden_by.get(leg.name))
        for leg, before in zip(profile.legs, results, strict=True)
    )


async def _run(
    steps: RetrievalSteps,
    query: Query,
    profile: Profile,
    changed: Mapping[str, LegSpec],
    deadline: Deadline,
) -> dict[str, LegResult]:
    """Returns what these legs find with changed specs; nothing for one that failed.

    Their upstream legs stay as in the profile, because other candidates of theirs would change
    the result. So a leg that others depend on runs in a round of its own.
    """
    leaned_on = {name for leg in profile.legs for name in leg.leans_on}
    off = {leg.name: replace(leg, weight=0) for leg in profile.legs if leg.name not in leaned_on}
    rounds = [changed.keys() - leaned_on, *({name} for name in changed.keys() & leaned_on)]
    found: dict[str, LegResult] = {}
    for names in filter(None, rounds):
        specs = off | {name: changed[name] for name in names}
        legs = tuple(specs.get(leg.name, leg) for leg in profile.legs)
        with contextlib.suppress(AllLegsFailedError):
            asked = replace(profile, legs=legs, rerank=None)
            results = await steps.run_legs(query, asked, deadline)
            found |= {result.report.leg: result for result in results if result.report.leg in names}
    return found


def _freed(leg: LegSpec) -> tuple[LegSpec, str]:
    """Returns the leg without restrictions, and how they may hide an item; empty if it has none."""
    words, whys = leg.words, list[str]()
    if leg.lookback is not None:
        days = leg.lookback / timedelta(days=1)
        back = f"{days:g} day{'' if days == 1 else 's'}"
        whys.append(f"the item is further back than the lookback of {back}")
    if leg.pool is not None:
        why = f"the item is not among the {leg.pool.recently_accessed} accessed last"
        if leg.pool.joined_by:
            why += f", and not found by {' or '.join(leg.pool.joined_by)}"
        whys.append(why)
    if words.mode is WordsMode.ALL_THEN_ANY:
        whys.append(
            "the item has some of the words, and enough others have all of them or "
            f"its rank is not above the gate of {words.rank_gate:g}"
        )
        words = replace(words, mode=WordsMode.ANY)
    if leg.named_times:
        whys.append("the item is not of a time that the question names")
    if leg.about_asker:
        whys.append("the item is not what a speaker told of themselves")
    freed = replace(
        leg, lookback=None, pool=None, named_times=False, about_asker=False, words=words
    )
    return freed, ", or ".join(whys)


def _finds(result: LegResult | None, item: ItemId) -> bool:
    return result is not None and any(candidate.item == item for candidate in result.candidates)


def _leg_absence(
    row: Item,
    spec: LegSpec,
    profile: Profile,
    before: LegResult,
    after: LegResult | None,
    hidden_by: str | None,
) -> LegAbsence:
    rank, score = _rank(row.item, after, profile.rank_style)
    depth = before.depth
    loss, reason = Loss.BELOW_DEPTH, f"rank {rank:g} is below the depth {depth}" if rank else ""
    if _finds(before, row.item):
        loss, reason = Loss.NONE, ""
    elif not spec.weight:
        loss, reason = Loss.NOT_MATCHED, before.report.reason
    elif not before.report.state.answered:
        loss, reason = Loss.UNANSWERED, before.report.why
    elif score is None:
        loss, reason = _why_never(row, spec, after)
    elif hidden_by is not None:
        loss, reason = Loss.NOT_SEARCHED, hidden_by
    elif spec.floor is not None and score < spec.floor:
        reason = f"score {score:.4g} is below the floor {spec.floor:g}"
    return LegAbsence(
        leg=spec.name,
        state=before.report.state,
        rank=rank,
        score=score,
        depth=depth,
        reason=reason,
        loss=loss,
    )


def _rank(
    item: ItemId, result: LegResult | None, style: RankStyle
) -> tuple[float | None, float | None]:
    """Returns the item's rank in a leg's result, from 1, and its score; None if it is not there."""
    if result is not None and result.ranked is not None:
        ranked = result.ranked
        for candidate, rank in zip(ranked.candidates, ranked.ranks(style), strict=True):
            if candidate.item == item:
                return rank, candidate.score
    return None, None


def _why_never(row: Item, spec: LegSpec, after: LegResult | None) -> tuple[Loss, str]:
    """Explains why a leg does not find the item at any depth, or that this is unknown."""
    if row.sensitive and not LEGS[spec.name].finds_sensitive:
        found_by = "words only" if isinstance(row, Segment) else "no leg"
        return Loss.NOT_MATCHED, f"the item is sensitive, and so found by {found_by}"
    if after is None:
        return Loss.UNANSWERED, "no answer to a deeper search"
    if not after.report.state.answered:
        return Loss.UNANSWERED, f"no answer to a deeper search: {after.report.why}"
    seeding = " and ".join(spec.walk.seeds_from)
    start = f", from what {seeding} found" if seeding else ""
    return Loss.NOT_MATCHED, f"not among its best {MAX_DEPTH}{start}"
