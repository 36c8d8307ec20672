"""Measures the cost of the access and time indexes for writes, and their gain for searches.

`python -m bench.speed.postgres.access` starts a PostgreSQL of its own with two databases of the
same rows; one lacks the indexes. Both run the same work alternately, so that other load on the
machine affects both equally. Bytes of log do not depend on it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import click

from bench.harness.latency import median_ms, percentile
from bench.reports.report import figures, markdown_table
from bench.speed.postgres.databases import two_databases
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, Segment, TenantName
from serving.domain.questions.query import Scope

TENANT = TenantName("bench")
SEGMENTS = 20_000
BATCH = 256
WORDS = 2000
WORDS_A_SEGMENT = 12

RETRIEVALS = 200
"""So many are stored together: a second of a busy process."""
SHOWN_EACH = 10
POOL = 200
DEPTH = 50
CANDIDATES = 100

WARM_UP = 3
WITH, WITHOUT = "indexed", "plain"
INDEXES = ("access_count_last_shown", "segment_event_time")
PATIENCE_S = 60.0

Work = Callable[["Side"], Awaitable[object]]


class Side:
    """One of the two databases."""

    def __init__(self, adapters: Postgres) -> None:
        self.adapters = adapters
        self.access = PostgresAccessLog(adapters.database)  # not opened, so it stores only on flush

    async def log_position(self) -> int:
        """How many bytes of log the server has written."""
        async with self.adapters.database.work() as connection:
            cursor = await connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
            row = await cursor.fetchone()
        assert row is not None, "a SELECT without FROM has a row; this is a bug"
        return int(row[0])


@dataclass(slots=True)
class Spent:
    """The cost of one kind of work on one side, for each round."""

    seconds: list[float] = field(default_factory=list)
    log_bytes: list[float] = field(default_factory=list)


Measured = Mapping[str, Mapping[str, Spent]]
"""By the name of the work, then by side."""


def segments(count: int) -> Iterator[Segment]:
    """Makes segments of words as rare as in a language, said in a row up to now."""
    draw = random.Random(1)
    now = datetime.now(UTC)
    for place in range(count):
        words = (f"w{int(WORDS * draw.random() ** 3)}" for _ in range(WORDS_A_SEGMENT))
        yield Segment(
            id=f"segment-{place:07}",
            text=" ".join(words),
            event_time=now - timedelta(minutes=count - place),
        )


def answers(stored: Sequence[ItemId], draw: random.Random) -> list[list[ItemId]]:
    """What a second of retrievals shows: some items often, most never."""
    return [
        [stored[int(len(stored) * draw.random() ** 3)] for _ in range(SHOWN_EACH)]
        for _ in range(RETRIEVALS)
    ]


async def measure(dsns: Mapping[str, str], rounds: int) -> Measured:
    """Does each kind of work on both sides, first on the one and then on the other."""
    draw = random.Random(2)
    fresh = iter(list(segments(SEGMENTS + (rounds + WARM_UP) * BATCH))[SEGMENTS:])
    stored = [segment.item for segment in segments(SEGMENTS)]
    spent: dict[str, dict[str, Spent]] = {}
    async with AsyncExitStack() as stack:
        sides = {
            name: Side(await stack.enter_async_context(Postgres(dsn))) for name, dsn in dsns.items()
        }
        for round_ in range(WARM_UP + rounds):
            batch = [next(fresh) for _ in range(BATCH)]
            for work, do in _works(batch, answers(stored, draw), draw.sample(stored, CANDIDATES)):
                for name in sorted(sides, reverse=bool(round_ % 2)):
                    seconds, log_bytes = await _timed(do, sides[name])
                    of = spent.setdefault(work, {}).setdefault(name, Spent())
                    if round_ >= WARM_UP:
                        of.seconds.append(seconds)
                        of.log_bytes.append(log_bytes)
    return spent


def _works(
    batch: Sequence[Segment], shown: Sequence[Sequence[ItemId]], candidates: Sequence[ItemId]
) -> Iterator[tuple[str, Work]]:
    scope = Scope(tenant=TENANT, as_of=datetime.now(UTC))
    deadline = Deadline.after(PATIENCE_S)

    async def flush(side: Side) -> None:
        for items in shown:
            side.access.record(TENANT, items)
        await side.access.flush()

    yield f"write {BATCH} segments", lambda side: side.adapters.store.write(TENANT, batch)
    yield f"store {RETRIEVALS} answers shown", flush
    yield (
        f"{POOL} recently accessed",
        lambda side: side.access.recently_accessed(scope, POOL, deadline),
    )
    yield f"{DEPTH} latest", lambda side: side.adapters.timeline.latest(scope, DEPTH, deadline)
    yield (
        f"{CANDIDATES} counts",
        lambda side: side.access.shown_counts(TENANT, candidates, deadline),
    )


async def _timed(do: Work, side: Side) -> tuple[float, int]:
    """Seconds, and bytes of log."""
    before = await side.log_position()
    started = time.perf_counter()
    await do(side)
    seconds = time.perf_counter() - started
    return seconds, await side.log_position() - before


def as_table(measured: Measured) -> str:
    """A line for each kind of work; ratios are medians over the rounds."""
    head = ("", "ms with", "ms without", "ratio", "log kB with", "log kB without", "ratio")
    return markdown_table(head, (_line(work, sides) for work, sides in measured.items()))


def _line(work: str, sides: Mapping[str, Spent]) -> tuple[str, ...]:
    indexed, plain = sides[WITH], sides[WITHOUT]
    logged = percentile(sorted(plain.log_bytes), 0.5) > 0
    return (
        work,
        figures(median_ms(indexed.seconds)),
        figures(median_ms(plain.seconds)),
        f"{_median_ratio(indexed.seconds, plain.seconds):.2f}",
        *(figures(percentile(sorted(of.log_bytes), 0.5) / 1e3) for of in (indexed, plain)),
        f"{_median_ratio(indexed.log_bytes, plain.log_bytes):.2f}" if logged else "-",
    )


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return percentile(sorted(a / b for a, b in zip(ours, theirs, strict=True)), 0.5)


async def _fill(dsn: str) -> None:
    await migrate(dsn)
    made = list(segments(SEGMENTS))
    async with Postgres(dsn) as adapters:
        for start in range(0, len(made), BATCH):
            await adapters.store.write(TENANT, made[start : start + BATCH])
        for items in answers([segment.item for segment in made], random.Random(3)):
            adapters.access.record(TENANT, items)


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=40, show_default=True)
def main(rounds: int) -> None:
    """Print what the indexes cost and save."""
    click.echo(f"{SEGMENTS} segments, {rounds} rounds", err=True)
    with two_databases(WITH, WITHOUT, _fill, f"DROP INDEX {', '.join(INDEXES)}") as dsns:
        click.echo(as_table(asyncio.run(measure(dsns, rounds))))


if __name__ == "__main__":
    main()
