from __future__ import annotations

import asyncio

from bench.harness.load import open_loop

QUESTIONS = [f"q{number}" for number in range(12)]


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
    async def ask(question: str) -> str:
        return "answer"

    # Due an hour ago: a count from the sending would be near zero.
    run = await open_loop(ask, QUESTIONS[:1], [-3600.0])

    assert run.calls[0].seconds >= 3600
