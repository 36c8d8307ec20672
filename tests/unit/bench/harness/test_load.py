from __future__ import annotations

import asyncio

import grpc

from bench.harness.latency import Latency
from bench.harness.load import closed_loop, open_loop, poisson_arrivals, repeated, silent
from bench.harness.processes import spent
from trivium.errors import OverloadedError

QUESTIONS = [f"q{number}" for number in range(12)]


class Server:
    """Answers after a turn of the event loop; counts what is in flight."""

    def __init__(self, *refused: str) -> None:
        self.asked: list[str] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self._refused = refused

    async def ask(self, question: str) -> str:
        self.asked.append(question)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        if question in self._refused:
            raise OverloadedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return "answer"


async def test_closed_loop_keeps_its_calls_in_flight() -> None:
    server = Server("q1", "q5")

    run = await closed_loop(server.ask, QUESTIONS, 4, silent)

    assert sorted(server.asked) == sorted(QUESTIONS)
    assert server.max_in_flight == 4
    assert len(run.answered) == 10
    assert run.errors == {"RESOURCE_EXHAUSTED": 2}


async def test_failed_calls_in_process_count_by_name() -> None:
    async def ask(_question: str) -> str:
        raise TimeoutError

    run = await closed_loop(ask, ["?"], 1, silent)

    assert run.errors == {"TimeoutError": 1}
    assert run.latency is None


async def test_open_loop_waits_for_no_answer() -> None:
    all_asked = asyncio.Event()
    asked: list[str] = []

    async def ask(question: str) -> str:
        asked.append(question)
        if len(asked) == len(QUESTIONS):  # only when all have come is any of them answered
            all_asked.set()
        await all_asked.wait()
        return "answer"

    run = await open_loop(ask, QUESTIONS, [0.0] * len(QUESTIONS), silent)

    assert len(run.answered) == len(QUESTIONS)


async def test_open_loop_counts_from_the_arrival() -> None:
    # Due an hour ago: a count from the sending would be near zero.
    run = await open_loop(Server().ask, QUESTIONS[:1], [-3600.0], silent)

    assert run.calls[0].seconds >= 3600


def test_arrivals_have_the_rate() -> None:
    arrivals = poisson_arrivals(50, 5000, seed=1)

    assert arrivals == sorted(arrivals)
    assert 90 < arrivals[-1] < 110


def test_repeated_questions_are_enough() -> None:
    assert len(list(repeated(QUESTIONS, 30))) == 36
    assert len(list(repeated(QUESTIONS, 5))) == 12


def test_percentiles_are_measured_values() -> None:
    latency = Latency.of([each / 1e3 for each in range(1, 101)])

    assert (latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.max_ms) == (50, 95, 99, 100)


def test_cpu_of_a_role_is_never_negative() -> None:
    assert spent({"haproxy": 2.0}, {"haproxy": 1.5, "ray": 0.5}) == {"haproxy": 0.0, "ray": 0.5}
