"""Loads the service, or a part of it in process, in a closed or an open loop.

Closed: each of c callers sends its next question after the last answer, which shows the maximum
throughput and hides the queue. Open: questions are sent on a schedule, and latency counts from
the scheduled time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from bench.harness.results import Json, Latency, Result, percentile_ms
from serving.domain import errors as in_process
from trivium.errors import TriviumError
from trivium.values import LegState, Retrieval

Question = TypeVar("Question")
Answer = TypeVar("Answer")

Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One question: how long it took, and what came back, or the code of the error.

    `due_s` is when it was to be sent, from the start of an open loop.
    """

    seconds: float
    answer: Answer | None = None
    code: str = ""
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Run(Generic[Answer]):
    """All calls of a loop, and how long it took."""

    calls: Sequence[Call[Answer]]
    seconds: float

    @property
    def answered(self) -> list[tuple[float, Answer]]:
        """Seconds and answer of the calls that succeeded."""
        return [(call.seconds, call.answer) for call in self.calls if call.answer is not None]

    @property
    def throughput_per_s(self) -> float:
        """Answers per second."""
        return round(len(self.answered) / self.seconds, 2)

    def result(self, scenario: str, parameters: Mapping[str, Json], **measured: Json) -> Result:
        """The result of all calls, with the latency of those that succeeded."""
        times = [seconds for seconds, _ in self.answered]
        return Result(
            scenario=scenario,
            parameters=parameters,
            n=len(self.calls),
            throughput_per_s=self.throughput_per_s,
            latency=Latency.of(times) if times else None,
            errors=Counter(call.code for call in self.calls if call.code),
            measured=measured,
        )


async def closed_loop(
    ask: Ask[Question, Answer], queries: Iterable[Question], in_flight: int
) -> Run[Answer]:
    """Sends all questions, `in_flight` at a time."""
    waiting = iter(queries)
    calls: list[Call[Answer]] = []

    async def caller() -> None:
        for query in waiting:
            calls.append(await _timed(ask, query, time.perf_counter()))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as callers:
        for _ in range(in_flight):
            callers.create_task(caller())
    return Run(calls, time.perf_counter() - started)


async def open_loop(
    ask: Ask[Question, Answer],
    queries: Iterable[Question],
    arrivals_s: Iterable[float],
) -> Run[Answer]:
    """Sends a question at each arrival; its latency counts from the arrival.

    Arrivals are in seconds from the start, ascending; there are as many questions.
    """
    calls: list[Call[Answer]] = []

    async def one(query: Question, arrival_s: float) -> None:
        call = await _timed(ask, query, started + arrival_s)
        calls.append(replace(call, due_s=arrival_s))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as asked:
        for arrival_s, query in zip(arrivals_s, queries, strict=False):
            await asyncio.sleep(max(0.0, started + arrival_s - time.perf_counter()))
            asked.create_task(one(query, arrival_s))
    return Run(calls, time.perf_counter() - started)


@asynccontextmanager
async def meanwhile(*others: Coroutine[None, None, object]) -> AsyncIterator[None]:
    """Runs coroutines, which may have no end, while the body runs.

    Raises:
        Exception: One of them failed.
    """
    tasks = [asyncio.create_task(each) for each in others]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


def poisson_arrivals(rate_per_s: float, count: int, seed: int = 0) -> list[float]:
    """Poisson arrivals, in seconds from the start."""
    draw = random.Random(seed)
    gaps = (draw.expovariate(rate_per_s) for _ in range(count))
    return list(itertools.accumulate(gaps))


def repeated(queries: Sequence[Question], at_least: int) -> Iterator[Question]:
    """All questions, again and again until there are enough."""
    rounds = max(1, -(-at_least // len(queries)))
    return itertools.chain.from_iterable(itertools.repeat(queries, rounds))


async def _timed(ask: Ask[Question, Answer], query: Question, since: float) -> Call[Answer]:
    try:
        answer = await ask(query)
    except TriviumError as error:
        return Call(time.perf_counter() - since, code=error.code.name)
    except (in_process.TriviumError, TimeoutError) as error:
        # A call in process has no gRPC status.
        return Call(time.perf_counter() - since, code=type(error).__name__)
    return Call(time.perf_counter() - since, answer)


def load_result(parameters: Mapping[str, Json], run: Run[Retrieval], **measured: Json) -> Result:
    """The result of a load, with the time of its parts and the faults of its legs."""
    answers = [answer for _, answer in run.answered]
    faults = leg_states(answers, ENDED_WELL)
    return run.result("load", parameters, split=_split(run), leg_faults=faults, **measured)


def _split(run: Run[Retrieval]) -> dict[str, Json]:
    """Median milliseconds of a call by leg and by stage.

    Legs run at once and wait for the embedding where they need it, so the numbers do
    not add up to the server's total. `network` is all that the server does not see.
    """
    legs: defaultdict[str, list[float]] = defaultdict(list)
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for seconds, answer in run.answered:
        for report in answer.leg_reports:
            legs[report.leg].append(report.elapsed.total_seconds())
        its = answer.statistics
        for stage in ("embedding", "loading", "ranking"):
            stages[stage].append(getattr(its, stage).total_seconds())
        stages["server"].append(its.total.total_seconds())
        stages["network"].append(seconds - its.total.total_seconds())
    return {
        "legs_ms": {leg: percentile_ms(times, 0.5) for leg, times in legs.items()},
        **{f"{stage}_ms": percentile_ms(times, 0.5) for stage, times in stages.items()},
    }


ENDED_WELL = (LegState.OK, LegState.SKIPPED)


def faults_of(answer: Retrieval, fine: Sequence[LegState] = ENDED_WELL) -> list[str]:
    """The legs of an answer that ended otherwise than fine, such as "graph: timed out"."""
    reports = [report for report in answer.leg_reports if report.state not in fine]
    return [f"{report.leg}: {report.state.value}" for report in reports]


def leg_states(
    answers: Iterable[Retrieval], fine: Sequence[LegState] = (LegState.OK,)
) -> dict[str, Json]:
    """The number of times that each leg ended otherwise, such as {"graph: skipped": 3}."""
    faults = Counter(fault for answer in answers for fault in faults_of(answer, fine))
    return dict(sorted(faults.items()))
