"""Runs all legs concurrently under the deadline, and reports how each ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial

from serving.domain.breaker import POSTGRES, DependencyCalls
from serving.domain.budget import Deadline
from serving.domain.errors import (
    AllLegsFailedError,
    NotReadyError,
    StoreUnavailableError,
    TriviumError,
)
from serving.domain.questions.query import Query, TimeRange
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import Candidate, RankedList, depth_to_read, within_depth
from serving.pipeline.index.vector_space import VectorLookup
from serving.pipeline.retrieval.admission import SHED_REASON
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.legs.leg import (
    NO_BREAKERS,
    NOTHING_TO_LOOK_UP,
    Leg,
    LegAnswer,
    LegRequest,
    LegSkippedError,
    Times,
    UpstreamAnswer,
)
from serving.pipeline.retrieval.loading import Loading
from serving.ports.change_log import Consistency, Projection

logger = logging.getLogger(__name__)


class LegState(StrEnum):
    """The outcome of a leg."""

    OK = "ok"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"
    PARTIAL = "partial"
    """It answered without an upstream leg's candidates, or without some rows."""

    @property
    def answered(self) -> bool:
        """Whether its candidates are used."""
        return self in (LegState.OK, LegState.STALE, LegState.PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegReport:
    """The report of one leg."""

    leg: str
    state: LegState
    reason: str = ""
    candidates: int = 0
    below_floor: int = 0
    in_memory: bool = False
    """Whether it was answered from memory, and no store was asked."""
    elapsed_s: float = 0.0
    dead_letter_count: int = 0
    pending: int = 0
    """The tenant's changed rows that its projection lacked, as of a second ago; 0 for a leg that
    has waited for the query's token."""
    tenant: str = ""
    """The tenant that was searched, if several were."""

    @property
    def why(self) -> str:
        """The reason, or the state if it says enough."""
        return self.reason or self.state.value


@dataclass(frozen=True, slots=True)
class LegResult:
    """A leg's report and, if it answered, its candidates.

    `ranked` has those within the `depth` of the leg, and `read` all that it found.
    """

    report: LegReport
    depth: int
    ranked: RankedList | None = None
    read: Sequence[Candidate] = ()
    index_epoch: int | None = None
    store_error: StoreUnavailableError | None = None

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Its candidates; empty if it did not answer."""
        return () if self.ranked is None else self.ranked.candidates


class _MustWaitError(Exception):
    """The leg needs something from outside."""


class LegRunner:
    """Runs the legs of a profile."""

    def __init__(self, legs: Mapping[str, Leg], consistency: Consistency) -> None:
        self._legs = legs
        self._consistency = consistency

    async def run(
        self,
        query: Query,
        profile: Profile,
        lookup: VectorLookup,
        times: Times,
        loading: Loading,
        deadline: Deadline,
        shed: frozenset[str],
    ) -> list[LegResult]:
        """Runs the legs of the profile until the deadline; returns results in order.

        Legs that need nothing from outside are awaited in turn, those by meaning last, as soon as
        the question is embedded. The others run concurrently. Legs that are shed are skipped.

        Raises:
            StoreUnavailableError: A leg could not reach PostgreSQL.
            AllLegsFailedError: Every leg that ran failed.
        """
        loop, calls = asyncio.get_running_loop(), loading.calls
        has_facts = cache(partial(loading.has_facts, deadline))
        runs: dict[str, asyncio.Future[LegResult]] = {
            spec.name: loop.create_future() for spec in profile.legs
        }
        first: list[LegRequest] = []
        by_vector: dict[str, LegRequest] = {}
        for spec in profile.legs:
            request = LegRequest(
                query=_with_lookback(query, spec),
                spec=spec,
                profile=profile,
                is_shed=spec.name in shed,
                lookup=lookup,
                deadline=deadline,
                depth=depth_to_read(spec.depth_for(profile.limit), profile.rank_style),
                times=times,
                has_facts=has_facts,
                found_before=partial(_found_before, runs),
                calls=calls,
                view=loading.view,
            )
            if self._asks_index(request) or not by_vector.keys().isdisjoint(spec.leans_on):
                by_vector[spec.name] = request
            else:
                first.append(request)
        async with asyncio.TaskGroup() as group:
            counting = group.create_task(self._pending_counts(query, calls, deadline))
            begin = partial(self._begin, runs, group)
            embedding = None
            if by_vector and lookup.is_to_embed:
                embedding = group.create_task(_embed(next(iter(by_vector.values()))))
                await asyncio.sleep(0)  # the encoder begins
            for request in first:
                await begin(request)
            if embedding is not None:
                await embedding
            for request in by_vector.values():
                await begin(request)
        pending = counting.result()
        results = [run.result() for run in runs.values()]
        for result in results:
            if result.store_error is not None:
                # An empty answer would look like an empty memory.
                raise result.store_error
        _require_one_answer([result.report for result in results])
        dead_letters: Mapping[Projection, int] = {}
        if query.token is not None and calls.asks(POSTGRES):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline.remaining()):
                    dead_letters = await self._consistency.dead_letter_counts(query.token)
        waited = query.token is not None
        return [_with_counts(result, pending, dead_letters, waited=waited) for result in results]

    async def _pending_counts(
        self, query: Query, calls: DependencyCalls, deadline: Deadline
    ) -> Mapping[Projection, int]:
        if not calls.asks(POSTGRES):
            return {}
        return await self._consistency.pending_counts(query.scope.tenant, deadline)

    def _asks_index(self, request: LegRequest) -> bool:
        """Whether the leg asks the index, for which the question is embedded."""
        name = request.spec.name
        is_asked = request.spec.weight and name in self._legs and not request.is_shed
        return bool(is_asked) and name in LEGS and LEGS[name].dependency == "index"

    async def _begin(
        self,
        runs: Mapping[str, asyncio.Future[LegResult]],
        group: asyncio.TaskGroup,
        request: LegRequest,
    ) -> None:
        """Runs a leg if it needs nothing from outside, and else begins to run it."""
        spec = request.spec
        if spec.weight and not request.is_shed and self._is_over_facts(request):
            # Mostly known at once: then this leg begins together with the others.
            request.has_facts()

        async def run(*, at_once: bool = False) -> None:
            runs[spec.name].set_result(await self._run(request, at_once=at_once))

        try:
            if not all(runs[name].done() for name in spec.leans_on):
                raise _MustWaitError
            await run(at_once=True)
        except _MustWaitError:
            group.create_task(run())

    async def _run(self, request: LegRequest, *, at_once: bool) -> LegResult:
        """Runs one leg; any outcome, errors included, becomes its report.

        If that is to be `at_once`, raises `_MustWaitError` where it would wait.
        """
        spec = request.spec
        started = time.perf_counter()
        answer: LegAnswer | None = None
        store_error: StoreUnavailableError | None = None
        try:
            leg = await self._leg_to_ask(request, at_once=at_once)
            answer = leg.find_in_memory(request)
            if answer is None and at_once:
                if not leg.is_at_hand(request):
                    raise _MustWaitError
                answer = await leg.find(replace(request, calls=NO_BREAKERS))
            elif answer is None:
                async with asyncio.timeout(request.deadline.remaining()):
                    answer = await leg.find(request)
            state, reason = _state_of(answer)
        except _MustWaitError:
            raise
        except LegSkippedError as error:
            state, reason = LegState.SKIPPED, str(error)
        except NotReadyError as error:
            state, reason = LegState.SKIPPED, error.why
        except TimeoutError:
            state, reason = LegState.TIMED_OUT, "the budget ran out"
        except StoreUnavailableError as error:
            state, reason, store_error = LegState.FAILED, str(error), error
        except TriviumError as error:
            state, reason = LegState.FAILED, str(error)
        except Exception:
            logger.exception("leg failed unexpectedly", extra={"leg": spec.name})
            state, reason = LegState.FAILED, "internal error"
        elapsed_s = time.perf_counter() - started
        depth = spec.depth_for(request.profile.limit)
        if answer is None:
            report = LegReport(leg=spec.name, state=state, reason=reason, elapsed_s=elapsed_s)
            return LegResult(report, depth, store_error=store_error)
        found = within_depth(answer.candidates, depth, request.profile.rank_style)
        report = LegReport(
            leg=spec.name,
            state=state,
            reason=reason,
            candidates=len(found),
            below_floor=answer.below_floor,
            in_memory=answer.in_memory,
            elapsed_s=elapsed_s,
        )
        ranked = RankedList(spec.name, tuple(found))
        return LegResult(report, depth, ranked, answer.candidates, answer.index_epoch)

    async def _leg_to_ask(self, request: LegRequest, *, at_once: bool) -> Leg:
        """Returns the leg, unless it is skipped, late, or has to wait."""
        leg = self._legs.get(request.spec.name)
        if leg is None:
            raise LegSkippedError("this service has no such leg")
        if request.spec.weight == 0:
            raise LegSkippedError("the weight of the leg is 0")
        if request.is_shed:
            raise LegSkippedError(SHED_REASON)
        if self._is_over_facts(request):
            has_facts = request.has_facts()
            if at_once and not has_facts.done():
                raise _MustWaitError
            if not await has_facts:
                raise LegSkippedError(NOTHING_TO_LOOK_UP)
        if request.deadline.passed:
            raise TimeoutError
        return leg

    def _is_over_facts(self, request: LegRequest) -> bool:
        """Whether the leg is skipped in a memory without facts."""
        leg = self._legs.get(request.spec.name)
        return leg is not None and leg.needs_facts and _may_be_skipped(request)


async def _embed(request: LegRequest) -> None:
    """Embeds the question; the legs meet what fails."""
    with contextlib.suppress(TriviumError, TimeoutError):
        await request.embed()


def _may_be_skipped(request: LegRequest) -> bool:
    """Whether the caller asks neither for this leg nor for a walk from given segments.

    A leg without a floor, as designs have it, shows all that a name leads to, mentions too; and so
    does a walk that starts from mentions.
    """
    spec = request.spec
    asked = spec.name in request.query.required or request.query.seeds
    return spec.floor is not None and not spec.walk.mentions and not asked


def _state_of(answer: LegAnswer) -> tuple[LegState, str]:
    """Returns the state of a leg that answered, and the reason if it is not plain OK."""
    state, reason = LegState.OK, ""
    if answer.lacking:
        state, reason = LegState.PARTIAL, f"upstream leg failed: {answer.lacking}"
    if answer.unsearched:
        state, reason = LegState.PARTIAL, f"not all was searched; {answer.unsearched}"
    if answer.stale:
        state, reason = LegState.STALE, "the write behind the token is not there yet"
    return state, reason


def _with_lookback(query: Query, spec: LegSpec) -> Query:
    if spec.lookback is None:
        return query
    try:
        start = query.scope.as_of - spec.lookback
    except OverflowError:  # before the year 1
        return query
    return replace(query, scope=query.scope.within(TimeRange(start)))


async def _found_before(
    runs: Mapping[str, asyncio.Future[LegResult]], legs: Sequence[str]
) -> UpstreamAnswer:
    """Waits for what these legs find."""
    found: dict[str, Sequence[Candidate]] = {}
    skipped, broken = list[str](), list[str]()
    for leg in dict.fromkeys(legs):
        # A leg that gives up waiting must not cancel it for the others.
        result = await asyncio.shield(runs[leg])
        found[leg] = result.candidates
        if not result.report.state.answered:
            whys = skipped if result.report.state is LegState.SKIPPED else broken
            whys.append(f"{leg}: {result.report.why}")
    return UpstreamAnswer(found, skipped, broken)


def _with_counts(
    result: LegResult,
    pending: Mapping[Projection, int],
    dead_letters: Mapping[Projection, int],
    *,
    waited: bool,
) -> LegResult:
    """Adds what the leg lacks: nothing in memory, and no row counted before it `waited` for it."""
    leg = LEGS.get(result.report.leg)
    if leg is None or leg.projection is None:
        return result
    is_there = waited and result.report.state in (LegState.OK, LegState.PARTIAL)
    is_there |= result.report.in_memory
    waiting = 0 if is_there else pending.get(leg.projection, 0)
    dead = dead_letters.get(leg.projection, 0)
    if not (waiting or dead):
        return result
    report = replace(result.report, pending=waiting, dead_letter_count=dead)
    return replace(result, report=report)


def _require_one_answer(reports: Sequence[LegReport]) -> None:
    asked = [report for report in reports if report.state is not LegState.SKIPPED]
    if asked and all(report.state is LegState.FAILED for report in asked):
        raise AllLegsFailedError({report.leg: report.reason for report in asked})
