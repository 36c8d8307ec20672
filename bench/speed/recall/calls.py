"""Simulated calls: somebody speaks, recognition writes along, and the turn ends in silence."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trivium.conversation import Counts, Memory, Recall, words_of

WORDS_PER_MINUTE = 150
INTERIM_S = 0.3
SILENCE_S = 0.5
"""From the last word to the final transcript; what bots use lies between 0.2 and 0.8 s."""

REPLY_S = 1.0
"""The duration of a reply of the bot."""

BUDGET_S = 0.08
"""The longest wait of the bot for its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The calls to simulate.

    Attributes:
        prefetch: Whether interim transcripts are searched with.
        seconds: For how long new turns begin.
    """

    prefetch: bool
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """The measurements of a call: the wait of each turn in seconds, and the ends of the turns."""

    waits_s: Sequence[float]
    counts: Counts


def interims(text: str) -> Iterator[str]:
    """The interim transcripts every `INTERIM_S` until the turn ends; the first may be empty.

    They have the words spoken so far, without case and punctuation, which recognition adds last.
    """
    words = words_of(text).split()
    ends_s = len(words) * 60 / WORDS_PER_MINUTE + SILENCE_S
    for number in range(1, int(ends_s / INTERIM_S + 1e-9) + 1):
        spoken = int(number * INTERIM_S * WORDS_PER_MINUTE / 60 + 1e-9)
        yield " ".join(words[:spoken])


def duration_s(text: str) -> float:
    """From the first word to the final transcript."""
    return len(words_of(text).split()) * 60 / WORDS_PER_MINUTE + SILENCE_S


async def run_calls(
    clients: Sequence[Memory],
    turns: Sequence[Sequence[str]],
    plan: Plan,
    clock: Callable[[], float],
    seed: int = 0,
) -> list[Call]:
    """Runs a call for each client, with its turns over and over, until the time is up.

    The calls begin within one turn of each other, so that they do not speak in step.
    """
    until = clock() + plan.seconds
    draw = random.Random(seed)
    starts = [draw.uniform(0, min(5.0, plan.seconds / 4)) for _ in clients]
    return await asyncio.gather(
        *(
            _call(client, f"call-{number}-{seed}", said, plan, start_s, until, clock)
            for number, (client, said, start_s) in enumerate(
                zip(clients, turns, starts, strict=True)
            )
        )
    )


async def _call(
    client: Memory,
    session: str,
    turns: Sequence[str],
    plan: Plan,
    start_s: float,
    until: float,
    clock: Callable[[], float],
) -> Call:
    waits_s: list[float] = []
    async with Recall(client, session=session, budget=BUDGET_S) as recall:
        await recall.warm()
        await asyncio.sleep(start_s)
        while clock() < until:
            text = turns[len(waits_s) % len(turns)]
            await _speak(recall, text, plan, clock)
            ended = clock()
            await recall.turn(text)
            waits_s.append(clock() - ended)
            recall.said("Caller", text, turn=str(len(waits_s)))
            await asyncio.sleep(REPLY_S)
    return Call(waits_s, recall.counts)


async def _speak(recall: Recall, text: str, plan: Plan, clock: Callable[[], float]) -> None:
    """Returns when the final transcript is there, as scheduled from the first word."""
    began = clock()
    if plan.prefetch:
        for number, partial in enumerate(interims(text), start=1):
            await asyncio.sleep(max(0.0, began + number * INTERIM_S - clock()))
            recall.heard(partial)
    await asyncio.sleep(max(0.0, began + duration_s(text) - clock()))
