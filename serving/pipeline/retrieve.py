"""Answering a question: all legs at once, then fusion, priors, folding, diversity.

1. Ask every leg of the profile, each until the deadline less a reserve.
2. Fuse what came back by reciprocal rank.
3. Read the candidates' rows; what has gone meanwhile, or fails the scope, drops out.
4. Weigh by importance and age, fold near-duplicates, diversify, cut to the limit.

No step asks for a profile's name: what a profile leaves unset is not done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from serving.domain.budget import Deadline
from serving.domain.diversity import fold_near_duplicates, maximal_marginal_relevance
from serving.domain.errors import (
    AllLegsFailedError,
    BudgetExhaustedError,
    NotReadyError,
    StoreUnavailableError,
    TriviumError,
)
from serving.domain.fusion import Fused, fuse_by_reciprocal_rank
from serving.domain.ledger import Ledger
from serving.domain.priors import ImportanceStyle, decay_term, importance_term
from serving.domain.profile import LegSpec, Profile
from serving.domain.query import Query, Scope
from serving.domain.ranking import RankedList
from serving.domain.records import DEFAULT_IMPORTANCE, Fact, Item, ItemId, Segment, TenantName
from serving.domain.text import text_to_embed
from serving.pipeline.legs import (
    DENSE,
    FACTS,
    GRAPH,
    Finding,
    Leg,
    LegRequest,
    LegSkippedError,
    QueryVector,
)
from serving.pipeline.spaces import VectorSpaces
from serving.ports import AccessCounter, Consistency, MemoryStore, Projection

logger = logging.getLogger(__name__)

LEAST_RESERVE_S = 0.010
MOST_RESERVE_S = 0.100
"""Kept back from the legs for reading rows and ranking: a tenth of the budget between these.
They take 2-4 ms on an idle machine; on a busy one an answer without rows would be none."""

FACT_KIND = "relationship"
"""The kind under which a fact ages."""

_PROJECTION_OF_LEG: Mapping[str, Projection] = {
    DENSE: "embedding",
    FACTS: "embedding",
    GRAPH: "graph",
}


class LegState(StrEnum):
    """How a leg ended."""

    OK = "ok"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReport:
    """What became of one leg."""

    leg: str
    state: LegState
    reason: str = ""
    candidates: int = 0
    below_floor: int = 0
    elapsed_s: float = 0.0
    set_aside: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing found, with the evidence for its place."""

    item: Item
    ledger: Ledger
    folded: tuple[ItemId, ...] = ()

    @property
    def score(self) -> float:
        """The score before diversification."""
        return self.ledger.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Where the time of one retrieval went, in seconds."""

    total_s: float
    embedding_s: float
    loading_s: float
    ranking_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The answer to a question."""

    profile: str
    hits: tuple[Hit, ...]
    reports: tuple[LegReport, ...]
    timings: Timings
    candidates: int
    folded: int
    vanished: int
    index_epoch: int


@dataclass(frozen=True, slots=True)
class _LegResult:
    report: LegReport
    ranked: RankedList | None = None
    index_epoch: int | None = None
    without_the_truth: StoreUnavailableError | None = None


class Retriever:
    """Answers questions from legs, a store and a profile."""

    def __init__(
        self,
        *,
        legs: Mapping[str, Leg],
        spaces: VectorSpaces,
        store: MemoryStore,
        consistency: Consistency,
        access: AccessCounter,
    ) -> None:
        self._legs = legs
        self._spaces = spaces
        self._store = store
        self._consistency = consistency
        self._access = access

    async def retrieve(self, query: Query, profile: Profile, deadline: Deadline) -> Retrieval:
        """Answers within the deadline with what the legs found by then.

        Raises:
            AllLegsFailedError: Every leg that was asked failed.
            StoreUnavailableError: The candidates' rows cannot be read.
            BudgetExhaustedError: The time ran out between the legs and the rows.
        """
        started = time.perf_counter()
        reserve = _reserve(deadline.remaining())
        vector = QueryVector(query, self._spaces.for_query(query), deadline.earlier_by(reserve))
        try:
            results = await self._ask_legs(query, profile, vector, deadline.earlier_by(reserve))
        finally:
            await vector.discard()
        _refuse_without_the_truth(results)
        _refuse_if_all_failed([result.report for result in results])

        fused = fuse_by_reciprocal_rank(
            [result.ranked for result in results if result.ranked is not None],
            weights=profile.weights,
            rank_constant=profile.rank_constant,
            rank_style=profile.rank_style,
        )
        selection = _Selection(profile, query.scope, fused)
        loading_s = await self._load_and_select(selection, deadline)

        hits = selection.hits()
        self._access.record(query.scope.tenant, [hit.item.item for hit in hits])
        total_s = time.perf_counter() - started
        legs_s = max((result.report.elapsed_s for result in results), default=0.0)
        return Retrieval(
            profile=profile.name,
            hits=hits,
            reports=tuple(result.report for result in results),
            timings=Timings(
                total_s=total_s,
                embedding_s=vector.elapsed_s,
                loading_s=loading_s,
                ranking_s=max(0.0, total_s - legs_s - loading_s),
            ),
            candidates=len(fused),
            folded=selection.folded_count,
            vanished=selection.vanished_count,
            index_epoch=max((result.index_epoch or 0 for result in results), default=0),
        )

    async def _ask_legs(
        self, query: Query, profile: Profile, vector: QueryVector, deadline: Deadline
    ) -> list[_LegResult]:
        results = await asyncio.gather(
            *(
                self._ask(LegRequest(query=query, spec=spec, vector=vector, deadline=deadline))
                for spec in profile.legs
            )
        )
        if query.token is None:
            return results
        set_aside = await self._consistency.set_aside_counts(query.token)
        return [_with_set_aside(result, set_aside) for result in results]

    async def _ask(self, request: LegRequest) -> _LegResult:
        """Runs one leg; whatever happens becomes its report."""
        spec = request.spec
        started = time.perf_counter()
        finding: Finding | None = None
        try:
            finding = await self._find(request)
            state, reason = (LegState.STALE, "the write behind the token is not there yet")
            if not finding.stale:
                state, reason = LegState.OK, ""
        except LegSkippedError as error:
            state, reason = LegState.SKIPPED, str(error)
        except NotReadyError as error:
            state, reason = LegState.SKIPPED, error.why
        except TimeoutError:
            state, reason = LegState.TIMED_OUT, "the budget ran out"
        except StoreUnavailableError as error:
            report = LegReport(leg=spec.name, state=LegState.FAILED, reason=str(error))
            return _LegResult(report, without_the_truth=error)
        except TriviumError as error:
            state, reason = LegState.FAILED, str(error)
        except Exception:
            logger.exception("leg failed unexpectedly", extra={"leg": spec.name})
            state, reason = LegState.FAILED, "internal error"
        return _leg_result(spec, state, reason, finding, time.perf_counter() - started)

    async def _find(self, request: LegRequest) -> Finding:
        leg = self._legs.get(request.spec.name)
        if leg is None:
            raise LegSkippedError("this service has no such leg")
        if request.spec.weight == 0:
            raise LegSkippedError("its weight is 0")
        async with asyncio.timeout(request.deadline.remaining()):
            return await leg.find(request)

    async def _load_and_select(self, selection: _Selection, deadline: Deadline) -> float:
        """Reads rows until the selection has enough; returns the seconds spent reading."""
        loading_s = 0.0
        while batch := selection.next_to_load():
            started = time.perf_counter()
            try:
                async with asyncio.timeout(deadline.remaining()):
                    rows = await self._store.load(selection.tenant, batch, deadline)
            except TimeoutError as error:
                raise BudgetExhaustedError("reading the candidates") from error
            loading_s += time.perf_counter() - started
            selection.take(batch, rows)
        return loading_s


def _reserve(budget_s: float) -> float:
    tenth = min(max(budget_s / 10, LEAST_RESERVE_S), MOST_RESERVE_S)
    return min(tenth, budget_s / 4)


def _leg_result(
    spec: LegSpec, state: LegState, reason: str, finding: Finding | None, elapsed_s: float
) -> _LegResult:
    report = LegReport(leg=spec.name, state=state, reason=reason, elapsed_s=elapsed_s)
    if finding is None:
        return _LegResult(report)
    ranked = RankedList(spec.name, tuple(finding.candidates[: spec.depth]))
    report = replace(report, candidates=len(ranked.candidates), below_floor=finding.below_floor)
    return _LegResult(report, ranked, finding.index_epoch)


def _with_set_aside(result: _LegResult, counts: Mapping[Projection, int]) -> _LegResult:
    projection = _PROJECTION_OF_LEG.get(result.report.leg)
    count = counts.get(projection, 0) if projection else 0
    return replace(result, report=replace(result.report, set_aside=count))


def _refuse_without_the_truth(results: Sequence[_LegResult]) -> None:
    """Without PostgreSQL nothing can be shown, and nothing found would look like nothing known."""
    for result in results:
        if result.without_the_truth is not None:
            raise result.without_the_truth


def _refuse_if_all_failed(reports: Sequence[LegReport]) -> None:
    asked = [report for report in reports if report.state is not LegState.SKIPPED]
    if asked and all(report.state is LegState.FAILED for report in asked):
        raise AllLegsFailedError({report.leg: report.reason for report in asked})


class _Selection:
    """The fused list on its way to hits: which rows are wanted, and which have won.

    Without priors the fused order is final, so only as many rows are read as
    the answer needs; priors and diversity may lift anything, so then all are.
    """

    def __init__(self, profile: Profile, scope: Scope, fused: Sequence[Fused]) -> None:
        self._profile = profile
        self._scope = scope
        self._waiting = list(fused)
        self._hits: list[Hit] = []
        self.folded_count = 0
        self.vanished_count = 0

    @property
    def tenant(self) -> TenantName:
        """Whose rows."""
        return self._scope.tenant

    @property
    def _order_is_final(self) -> bool:
        profile = self._profile
        return (
            profile.importance.style is ImportanceStyle.OFF
            and profile.decay is None
            and profile.diversity is None
        )

    def next_to_load(self) -> list[ItemId]:
        """The items whose rows are needed next; empty when the selection is complete."""
        if not self._order_is_final:
            return [fused.item for fused in self._waiting]
        missing = self._profile.limit - len(self._hits)
        if missing <= 0:
            return []
        # Half as many again: some will turn out to be near-duplicates or gone.
        return [fused.item for fused in self._waiting[: missing + missing // 2 + 1]]

    def take(self, batch: Sequence[ItemId], rows: Mapping[ItemId, Item]) -> None:
        """Takes over the rows that were read for `next_to_load()`."""
        taken, self._waiting = self._waiting[: len(batch)], self._waiting[len(batch) :]
        present = [
            Hit(item=rows[fused.item], ledger=self._ledger(fused, rows[fused.item]))
            for fused in taken
            if fused.item in rows and visible(rows[fused.item], self._scope)
        ]
        self.vanished_count += len(taken) - len(present)
        ordered = sorted([*self._hits, *present], key=lambda hit: (-hit.score, hit.item.item))
        self._hits = self._folded(ordered)

    def hits(self) -> tuple[Hit, ...]:
        """The hits, best first, as many as the profile's limit."""
        hits = self._hits
        if self._profile.diversity is not None:
            hits = self._diversified(hits)
        return tuple(hits[: self._profile.limit])

    def _ledger(self, fused: Fused, item: Item) -> Ledger:
        profile = self._profile
        importance = item.importance if isinstance(item, Segment) else DEFAULT_IMPORTANCE
        return Ledger(
            rank_constant=profile.rank_constant,
            leg_terms=fused.terms,
            importance=importance_term(profile.importance, importance, profile.rank_constant),
            decay=None
            if profile.decay is None
            else decay_term(
                profile.decay, kind=_kind(item), since=_since(item), as_of=self._scope.as_of
            ),
        )

    def _folded(self, hits: list[Hit]) -> list[Hit]:
        if self._profile.fold_from is None:
            return hits
        texts = [text_to_embed(hit.item) for hit in hits]
        stands_for = fold_near_duplicates(texts, self._profile.fold_from)
        kept: dict[int, Hit] = {}
        for place, (hit, by) in enumerate(zip(hits, stands_for, strict=True)):
            if by == place:
                kept[place] = hit
            else:
                self.folded_count += 1
                folded = (*kept[by].folded, hit.item.item, *hit.folded)
                kept[by] = replace(kept[by], folded=folded)
        return list(kept.values())

    def _diversified(self, hits: list[Hit]) -> list[Hit]:
        diversity = self._profile.diversity
        assert diversity is not None, "asked only of a profile that diversifies; this is a bug"
        best = hits[0].score if hits and diversity.relative else 1.0
        pool = max(diversity.pool, self._profile.limit)
        chosen = maximal_marginal_relevance(
            [_text(hit.item) for hit in hits],
            [hit.score / best for hit in hits],
            trade_off=diversity.trade_off,
            pool=pool,
        )
        head = [
            replace(hits[one.place], ledger=replace(hits[one.place].ledger, diversity=one.term))
            for one in chosen
        ]
        return head + hits[pool:]


def visible(item: Item, scope: Scope) -> bool:
    """Whether a stored row may be shown: said, or true and not retracted, at `as_of`.

    The legs ask the same of their own copies; this is the last word, on the
    row as it is now.
    """
    if isinstance(item, Segment):
        return item.event_time <= scope.as_of and scope.filter.accepts(item)
    return _holds_at(item, scope.as_of)


def _holds_at(fact: Fact, as_of: datetime) -> bool:
    return (
        (fact.valid_from is None or fact.valid_from <= as_of)
        and (fact.valid_to is None or as_of < fact.valid_to)
        and (fact.retracted_at is None or as_of < fact.retracted_at)
    )


def _kind(item: Item) -> str:
    return item.kind if isinstance(item, Segment) else FACT_KIND


def _since(item: Item) -> datetime:
    if isinstance(item, Segment):
        return item.event_time
    return item.valid_from or item.recorded_at


def _text(item: Item) -> str:
    return item.text if isinstance(item, Segment) else item.statement
