"""Measures what row-level security costs a search by words and the reading of its rows.

`python -m bench.speed.postgres.row_security` starts a PostgreSQL of its own with two databases of
the same rows; in one, callers may not use the role that the policies hold for. Both answer the same
questions alternately, so that other load on the machine affects both equally.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import click
import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.reports.report import markdown_table
from bench.speed.postgres.access import BATCH, PATIENCE_S, segments
from serving.adapters.embedded_postgres import EmbeddedPostgres
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.row_security import CALLER_ROLE
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.leg_options import WordsSearch

TENANTS = [TenantName("first"), TenantName("second")]
SEGMENTS = 20_000
"""Of each tenant."""
QUESTIONS = 100
"""In a round."""
WORDS_A_QUESTION = 6
DEPTH = 50
SHOWN = 10
WARM_UP = 2
WITH, WITHOUT = "secured", "plain"


async def ask(adapters: Postgres, tenants: Sequence[TenantName]) -> None:
    """Asks questions of the tenants in turn, and reads the rows of the first hits."""
    draw = random.Random(3)
    for place in range(QUESTIONS):
        tenant = tenants[place % len(tenants)]
        words = (f"w{int(2000 * draw.random() ** 3)}" for _ in range(WORDS_A_QUESTION))
        deadline = Deadline.after(PATIENCE_S)
        query = Query(scope=Scope(tenant=tenant, as_of=datetime.now(UTC)), text=" ".join(words))
        found = await adapters.lexical.search(query, WordsSearch(), DEPTH, 0, deadline)
        await adapters.store.load(tenant, [each.item for each in found[:SHOWN]], deadline)


def cpu_s() -> float:
    """The CPU time of this process and of all servers that it has started."""
    mine = os.times()
    servers = psutil.Process().children(recursive=True)
    times = [each.cpu_times() for each in servers]
    return mine.user + mine.system + sum(each.user + each.system for each in times)


async def measure(dsns: Mapping[str, str], rounds: int) -> Mapping[str, Mapping[str, list[float]]]:
    """CPU milliseconds per question in each round, by who asks and then by side."""
    spent: dict[str, dict[str, list[float]]] = {}
    async with AsyncExitStack() as stack:
        sides = {
            # One connection, so that two tenants in turn are always another's.
            name: await stack.enter_async_context(Postgres(dsn, search_connections=1))
            for name, dsn in dsns.items()
        }
        for round_ in range(WARM_UP + rounds):
            for who, tenants in (("one tenant", TENANTS[:1]), ("two in turn", TENANTS)):
                for name in sorted(sides, reverse=bool(round_ % 2)):
                    started = cpu_s()
                    await ask(sides[name], tenants)
                    if round_ >= WARM_UP:
                        took = (cpu_s() - started) / QUESTIONS * 1e3
                        spent.setdefault(who, {}).setdefault(name, []).append(took)
    return spent


def as_table(spent: Mapping[str, Mapping[str, list[float]]]) -> str:
    """A line for each way to ask, with intervals of 95 %."""
    lines = []
    for who, of in spent.items():
        cost = paired_difference(of[WITH], of[WITHOUT])
        means = [f"{mean_interval(of[side]).mean:.2f}" for side in (WITH, WITHOUT)]
        lines.append((who, *means, f"{cost.mean:.2f} ({cost.low:.2f} to {cost.high:.2f})"))
    return markdown_table(("", "CPU ms with", "CPU ms without", "cost"), lines)


async def _fill(dsn: str) -> None:
    await migrate(dsn)
    made = list(segments(SEGMENTS))
    async with Postgres(dsn) as adapters:
        for tenant in TENANTS:
            for start in range(0, len(made), BATCH):
                await adapters.store.write(tenant, made[start : start + BATCH])


def _two_databases(dsn: str) -> dict[str, str]:
    dsns = {name: make_conninfo(dsn, dbname=name) for name in (WITH, WITHOUT)}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {WITH}")
        asyncio.run(_fill(dsns[WITH]))
        connection.execute(f"CREATE DATABASE {WITHOUT} TEMPLATE {WITH}")
    for name in (WITH, WITHOUT):
        with psycopg.connect(dsns[name], autocommit=True) as connection:
            if name == WITHOUT:
                connection.execute(f"REVOKE SELECT ON segment FROM {CALLER_ROLE}".encode())
            connection.execute("VACUUM ANALYZE")
    return dsns


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=30, show_default=True)
def main(rounds: int) -> None:
    """Print what row-level security costs."""
    with tempfile.TemporaryDirectory(prefix="trivium-bench-") as folder:
        Path(folder).chmod(0o755)  # for the account that runs PostgreSQL for root
        settings = {"autovacuum": "off"}  # it would come upon one side and not upon the other
        with EmbeddedPostgres(Path(folder) / "server", settings=settings) as dsn:
            click.echo(f"2 tenants of {SEGMENTS} segments, {rounds} rounds", err=True)
            started = time.monotonic()
            click.echo(as_table(asyncio.run(measure(_two_databases(dsn), rounds))))
            click.echo(f"{time.monotonic() - started:.0f} s", err=True)


if __name__ == "__main__":
    main()
