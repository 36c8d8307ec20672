from __future__ import annotations

import asyncio

import grpc

from bench.harness.load import open_loop
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


async def test_open_loop_waits_for_no_answer() -> None:
    all_asked = asyncio.Event()
    asked: list[str] = []

    async def ask(question: str) -> str:
        asked.append(question)
        if len(asked) == len(QUESTIONS):  # only when all have come is any of them answered
            all_asked.set()
        await all_asked.wait()
        return "answer"

    run = await open_loop(ask, QUESTIONS, [0.0] * len(QUESTIONS))

    assert len(run.answered) == len(QUESTIONS)


async def test_open_loop_counts_from_the_arrival() -> None:
    # Due an hour ago: a count from the sending would be near zero.
    run = await open_loop(Server().ask, QUESTIONS[:1], [-3600.0])

    assert run.calls[0].seconds >= 3600
