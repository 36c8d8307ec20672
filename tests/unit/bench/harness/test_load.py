from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc
import pytest

from bench.harness.collection import Query
from bench.harness.load import (
    Run,
    closed_loop,
    leg_faults,
    open_loop,
    poisson_arrivals,
    repeated,
    split,
)
from serving.domain.errors import OverloadedError as InProcessOverload
from tests.unit.bench.quality.scoring.answers import report, retrieval
from trivium.errors import OverloadedError
from trivium.values import LegState, Retrieval

QUERIES = [Query(id=f"q{number}", tenant="t", text="?") for number in range(12)]


def silent() -> None:
    pass


class Server:
    """Answers when `release` is called so often; counts what is in flight."""

    def __init__(self, *, refuse: frozenset[str] = frozenset()) -> None:
        self.asked: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._refuse = refuse

    async def ask(self, query: Query) -> Retrieval:
        self.asked.append(query.id)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        if query.id in self._refuse:
            raise OverloadedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return retrieval()


async def test_a_closed_loop_asks_everything_once_with_so_many_in_flight() -> None:
    server = Server()

    run = await closed_loop(server.ask, QUERIES, 4, silent)

    assert sorted(server.asked) == sorted(query.id for query in QUERIES)
    assert server.most_in_flight == 4
    assert len(run.answered) == 12


async def test_errors_are_counted_by_code_and_are_no_latency() -> None:
    server = Server(refuse=frozenset({"q1", "q5"}))

    run = await closed_loop(server.ask, QUERIES, 2, silent)

    assert run.errors == {"RESOURCE_EXHAUSTED": 2}
    assert len(run.answered) == 10


@pytest.mark.parametrize("error", [InProcessOverload("the queue", 0.1), TimeoutError()])
async def test_what_fails_in_process_is_counted_by_its_name(error: Exception) -> None:
    async def ask(_question: str) -> float:
        raise error

    run = await closed_loop(ask, ["?"], 1, silent)

    assert run.errors == {type(error).__name__: 1}
    assert run.latency is None


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    answered = asyncio.Event()
    asked = 0

    async def ask(_query: Query) -> Retrieval:
        nonlocal asked
        asked += 1
        if asked == len(QUERIES):  # only when all have come is any of them answered
            answered.set()
        await answered.wait()
        return retrieval()

    run = await open_loop(ask, QUERIES, [0.0] * len(QUERIES), silent)

    assert len(run.answered) == len(QUERIES)


async def test_the_time_of_an_open_loop_counts_from_the_arrival_and_not_from_the_sending() -> None:
    async def ask(_query: Query) -> Retrieval:
        return retrieval()

    # Due an hour ago: a count from the sending would be zero.
    run = await open_loop(ask, QUERIES[:1], [-3600.0], silent)

    assert run.calls[0].seconds >= 3600


def test_arrivals_ascend_at_the_rate_asked_for() -> None:
    arrivals = poisson_arrivals(50, 5000, seed=1)

    assert arrivals == sorted(arrivals)
    assert 90 < arrivals[-1] < 110
    assert arrivals == poisson_arrivals(50, 5000, seed=1)


def test_questions_go_round_until_there_are_enough() -> None:
    assert len(list(repeated(QUERIES, 30))) == 36
    assert len(list(repeated(QUERIES, 5))) == 12


async def test_where_the_time_goes_is_told_by_leg_and_stage() -> None:
    answer = retrieval(
        total=timedelta(milliseconds=9),
        embedding=timedelta(milliseconds=4),
        reports=[report("lexical", elapsed_ms=3), report("dense", elapsed_ms=6)],
    )

    async def ask(_query: Query) -> Retrieval:
        return answer

    measured = split(await closed_loop(ask, QUERIES, 1, silent))

    assert measured["legs_ms"] == {"lexical": 3, "dense": 6}
    assert (measured["embedding_ms"], measured["server_ms"]) == (4, 9)


def test_legs_that_were_cut_short_are_told_and_skipped_ones_are_not() -> None:
    answers = [
        retrieval(reports=[report("graph", LegState.TIMED_OUT), report("dense", LegState.SKIPPED)]),
        retrieval(reports=[report("graph", LegState.TIMED_OUT), report("dense")]),
    ]

    assert leg_faults(answers) == {"graph: timed out": 2}


def test_a_run_without_an_answer_has_no_latency() -> None:
    run: Run[Retrieval] = Run([], 1.0)

    assert run.latency is None
