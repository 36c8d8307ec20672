"""The command `python -m bench.speed.recall`: how long a bot waits for its memory.

In simulated calls somebody speaks, recognition writes along, and the turn ends in silence.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import Collection
from bench.harness.results import Latency, Record, Result, Take, curve_ms, select, table
from bench.harness.writing import loaded
from bench.reports import plots
from bench.reports.recording import console, recorded
from bench.reports.report import Column, latency, parameter, percent, table_of, value
from trivium.conversation import Counts, Memory, Recall, words_of

RECALL = "recall"
"""The scenario."""

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
    """Whether interim transcripts are searched with, and for how long new turns begin."""

    prefetch: bool
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """The measurements of a call: the wait of each turn in seconds, and the ends of the turns."""

    waits_s: Sequence[float]
    counts: Counts


@click.command(context_settings=options.HELP)
@options.data
@options.address
@options.numbers("--calls", "1,8,32", "How many at once.")
@options.measure("--seconds", 60.0, "For how long new turns begin, with prefetch and without.")
@options.out
def main(
    data: Path | None, address: str | None, calls: Sequence[float], seconds: float, out: Path
) -> None:
    """Simulate calls, and measure from the final transcript of a turn to the prompt block."""
    collection = options.chosen(data)
    counts = [round(each) for each in calls]
    with recorded(RECALL, collection, out, recall_table, save_picture) as take:
        asyncio.run(_measure(address, collection, counts, seconds, take))


async def _measure(
    address: str | None, collection: Collection, counts: Sequence[int], seconds: float, take: Take
) -> None:
    tenants = list(collection.memories)
    plans = [Plan(prefetch=prefetch, seconds=seconds) for prefetch in (True, False)]
    async with loaded(collection, address, max(counts)) as (_, connections):
        for seed, (count, plan) in enumerate((each, plan) for each in counts for plan in plans):
            called = [tenants[place % len(tenants)] for place in range(count)]
            console.print(f"{count} calls, {'with' if plan.prefetch else 'without'} prefetch")
            calls = await run_calls(
                [connections.client(tenant) for tenant in called],
                [[each.text for each in collection.memories[tenant].segments] for tenant in called],
                plan,
                seed,
            )
            take(result_of(calls, plan))


# ---------------------------------------------------------------- calls


def interims(text: str) -> Iterator[str]:
    """The interim transcripts every `INTERIM_S` until the turn ends; the first may be empty.

    They have the words spoken so far, without case and punctuation, which recognition adds last.
    """
    words = words_of(text).split()
    for number in range(1, int(duration_s(text) / INTERIM_S + 1e-9) + 1):
        spoken = int(number * INTERIM_S * WORDS_PER_MINUTE / 60 + 1e-9)
        yield " ".join(words[:spoken])


def duration_s(text: str) -> float:
    """From the first word to the final transcript."""
    return len(words_of(text).split()) * 60 / WORDS_PER_MINUTE + SILENCE_S


async def run_calls(
    clients: Sequence[Memory], turns: Sequence[Sequence[str]], plan: Plan, seed: int = 0
) -> list[Call]:
    """Runs a call for each client, with its turns over and over, until the time is up.

    The calls begin within one turn of each other, so that they do not speak in step.
    """
    clock, draw = asyncio.get_running_loop().time, random.Random(seed)
    until = clock() + plan.seconds
    starts_s = [draw.uniform(0, min(5.0, plan.seconds / 4)) for _ in clients]

    async def call(number: int) -> Call:
        waits_s: list[float] = []
        session, said = f"call-{number}-{seed}", turns[number]
        async with Recall(clients[number], session=session, budget=BUDGET_S) as recall:
            await recall.warm()
            await asyncio.sleep(starts_s[number])
            while clock() < until:
                text = said[len(waits_s) % len(said)]
                await _speak(recall, text, plan)
                ended = clock()
                await recall.turn(text)
                waits_s.append(clock() - ended)
                recall.said("Caller", text, turn=str(len(waits_s)))
                await asyncio.sleep(REPLY_S)
        return Call(waits_s, recall.counts)

    return await asyncio.gather(*map(call, range(len(clients))))


async def _speak(recall: Recall, text: str, plan: Plan) -> None:
    """Returns when the final transcript is there, as scheduled from the first word."""
    clock = asyncio.get_running_loop().time
    began = clock()
    if plan.prefetch:
        for number, partial in enumerate(interims(text), start=1):
            await asyncio.sleep(max(0.0, began + number * INTERIM_S - clock()))
            recall.heard(partial)
    await asyncio.sleep(max(0.0, began + duration_s(text) - clock()))


# ---------------------------------------------------------------- figures


def result_of(calls: Sequence[Call], plan: Plan) -> Result:
    """Summarises calls that were simulated at once."""
    waits_s = [seconds for call in calls for seconds in call.waits_s]
    summed = {
        field.name: sum(getattr(call.counts, field.name) for call in calls)
        for field in fields(Counts)
    }
    counts = Counts(**summed)

    def share(count: int) -> float:
        return round(count / counts.turns, 4) if counts.turns else 0.0

    return Result(
        scenario=RECALL,
        parameters={
            "calls": len(calls),
            "prefetch": plan.prefetch,
            "silence_ms": round(SILENCE_S * 1e3),
            "budget_ms": round(BUDGET_S * 1e3),
        },
        n=len(waits_s),
        latency=Latency.of(waits_s),
        measured={
            "ready_share": share(counts.ready),
            "nothing_share": share(counts.late + counts.failed),
            "transcripts_per_s": round(counts.sent / plan.seconds, 1),
            "write_failures": counts.write_failures,
            "curve_ms": curve_ms(waits_s),
        },
    )


def recall_table(records: Sequence[Record]) -> str:
    """A line for each number of calls, with and without prefetch."""
    columns: dict[str, Column] = {
        "calls at once": parameter("calls"),
        "prefetch": lambda each: "yes" if table(each, "parameters").get("prefetch") else "no",
        "turns": value("n"),
        **latency("p50", "p95", "max"),
        "ready": percent("measured", "ready_share"),
        "nothing injected": percent("measured", "nothing_share"),
        "transcripts/s": value("measured", "transcripts_per_s"),
    }
    return table_of(select(records, RECALL), columns)


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel with prefetch and one without; a line for each number of calls."""
    with plots.picture(path, 13.6, 4.9) as figure:
        axes = None
        for place, (prefetch, name) in enumerate(((True, "With prefetch"), (False, "Without")), 1):
            title = f"{name}, ms from the final transcript to the block"
            axes = plots.panel(figure, place, title, "percentile", columns=2, sharey=axes)
            found = select(records, RECALL, prefetch=prefetch)
            for record, colour in zip(found, plots.COLOURS, strict=False):
                curve = table(record, "measured").get("curve_ms")
                if isinstance(curve, list):
                    label = f"{parameter('calls')(record)} calls at once"
                    axes.plot(range(1, 101), curve, color=colour, label=label, linewidth=2)
            axes.set_ylim(bottom=0)
            plots.legend(axes)


if __name__ == "__main__":
    main()
