"""Asking the legs: all at once, each under the deadline, and a report of each whatever happens."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from serving.domain.budget import Deadline
from serving.domain.errors import (
    AllLegsFailedError,
    NotReadyError,
    StoreUnavailableError,
    TriviumError,
)
from serving.domain.profile import LegSpec, Profile
from serving.domain.query import Query, TimeRange
from serving.domain.ranking import Candidate, RankedList
from serving.pipeline.legs import (
    DENSE,
    FACTS,
    GRAPH,
    RELATED,
    Brought,
    Finding,
    Leg,
    LegRequest,
    LegSkippedError,
    QueryVector,
)
from serving.ports import Consistency, Projection

logger = logging.getLogger(__name__)

PROJECTION_OF_LEG: Mapping[str, Projection] = {
    DENSE: "embedding",
    FACTS: "embedding",
    GRAPH: "graph",
    RELATED: "graph",
}
"""What a leg stands on; one that is not here stands on PostgreSQL alone."""

BY_TWIN = "cpu"
"""How a report begins to name the parts whose twins have answered."""


class LegState(StrEnum):
    """How a leg ended."""

    OK = "ok"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"
    PARTIAL = "partial"
    """It answered without a part: what another leg was to bring, or some of the rows."""

    @property
    def answered(self) -> bool:
        """Whether what it found is used."""
        return self in (LegState.OK, LegState.STALE, LegState.PARTIAL)


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


@dataclass(frozen=True, slots=True)
class LegResult:
    """A leg's report and, if it answered, what it found."""

    report: LegReport
    ranked: RankedList | None = None
    index_epoch: int | None = None
    without_the_truth: StoreUnavailableError | None = None

    @property
    def candidates(self) -> Sequence[Candidate]:
        """What it found; nothing if it did not answer."""
        return () if self.ranked is None else self.ranked.candidates


class Legs:
    """All legs of the service, and the one way to ask them."""

    def __init__(self, legs: Mapping[str, Leg], consistency: Consistency) -> None:
        self._legs = legs
        self._consistency = consistency

    async def ask(
        self, query: Query, profile: Profile, vector: QueryVector, deadline: Deadline
    ) -> list[LegResult]:
        """Asks every leg of the profile at once, each until the deadline; in their order.

        Raises:
            StoreUnavailableError: A leg could not reach PostgreSQL.
            AllLegsFailedError: Every leg that was asked failed.
        """
        asked: dict[str, asyncio.Task[LegResult]] = {}
        for spec in profile.legs:
            request = LegRequest(
                query=_looking_back(query, spec),
                spec=spec.for_limit(profile.limit),
                vector=vector,
                deadline=deadline,
                limit=profile.limit,
                found_by={name: partial(_brought, asked[name]) for name in spec.leans_on},
            )
            asked[spec.name] = asyncio.create_task(self._ask(request))
        results = await asyncio.gather(*asked.values())
        _refuse_without_the_truth(results)
        _refuse_if_all_failed([result.report for result in results])
        if query.token is None:
            return results
        set_aside = await self._consistency.set_aside_counts(query.token)
        return [_with_set_aside(result, set_aside) for result in results]

    async def _ask(self, request: LegRequest) -> LegResult:
        """Runs one leg; whatever happens becomes its report."""
        spec = request.spec
        started = time.perf_counter()
        finding: Finding | None = None
        try:
            finding = await self._find(request)
            state, reason = _of_what_was_found(finding)
        except LegSkippedError as error:
            state, reason = LegState.SKIPPED, str(error)
        except NotReadyError as error:
            state, reason = LegState.SKIPPED, error.why
        except TimeoutError:
            state, reason = LegState.TIMED_OUT, "the budget ran out"
        except StoreUnavailableError as error:
            report = LegReport(leg=spec.name, state=LegState.FAILED, reason=str(error))
            return LegResult(report, without_the_truth=error)
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


def _of_what_was_found(finding: Finding) -> tuple[LegState, str]:
    """How a leg that answered ended, and why it is not simply so."""
    state, reason = LegState.OK, ""
    if finding.lacking:
        state, reason = LegState.PARTIAL, f"without what others find; {finding.lacking}"
    if finding.unsearched:
        state, reason = LegState.PARTIAL, f"not all was searched; {finding.unsearched}"
    if finding.stale:
        state, reason = LegState.STALE, "the write behind the token is not there yet"
    if finding.twins:
        on_cpu = f"{BY_TWIN}: {' and '.join(finding.twins)}"
        reason = f"{reason}; {on_cpu}" if reason else on_cpu
    return state, reason


def _looking_back(query: Query, spec: LegSpec) -> Query:
    """The question as the leg is asked it: no further back than its lookback."""
    if spec.lookback is None:
        return query
    scope = query.scope
    asked = scope.filter.event_time
    starts = [_earlier(scope.as_of, spec.lookback), asked.start]
    start = max((start for start in starts if start is not None), default=None)
    narrowed = replace(scope.filter, event_time=TimeRange(start, asked.end))
    return replace(query, scope=replace(scope, filter=narrowed))


def _earlier(instant: datetime, by: timedelta) -> datetime | None:
    """The instant that lies so much earlier; None before the year 1, where nothing is."""
    try:
        return instant - by
    except OverflowError:
        return None


async def _brought(asked: asyncio.Task[LegResult]) -> Brought:
    """What a leg brings to those that lean on it."""
    # A leg that gives up waiting must not take the finds from the others.
    result = await asyncio.shield(asked)
    report = result.report
    if report.state.answered:
        return Brought(result.candidates)
    why = f"{report.leg}: {report.reason or report.state.value}"
    return Brought(skipped=(why,)) if report.state is LegState.SKIPPED else Brought(broken=(why,))


def _leg_result(
    spec: LegSpec, state: LegState, reason: str, finding: Finding | None, elapsed_s: float
) -> LegResult:
    report = LegReport(leg=spec.name, state=state, reason=reason, elapsed_s=elapsed_s)
    if finding is None:
        return LegResult(report)
    ranked = RankedList(spec.name, tuple(finding.candidates[: spec.depth]))
    report = replace(report, candidates=len(ranked.candidates), below_floor=finding.below_floor)
    return LegResult(report, ranked, finding.index_epoch)


def _with_set_aside(result: LegResult, counts: Mapping[Projection, int]) -> LegResult:
    projection = PROJECTION_OF_LEG.get(result.report.leg)
    count = counts.get(projection, 0) if projection else 0
    return replace(result, report=replace(result.report, set_aside=count))


def _refuse_without_the_truth(results: Sequence[LegResult]) -> None:
    """Without PostgreSQL nothing can be shown, and nothing found would look like nothing known."""
    for result in results:
        if result.without_the_truth is not None:
            raise result.without_the_truth


def _refuse_if_all_failed(reports: Sequence[LegReport]) -> None:
    asked = [report for report in reports if report.state is not LegState.SKIPPED]
    if asked and all(report.state is LegState.FAILED for report in asked):
        raise AllLegsFailedError({report.leg: report.reason for report in asked})
