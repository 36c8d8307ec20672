"""Measures what it costs the writes of a desk that PostgreSQL does not recycle files of its WAL.

`python -m bench.speed.postgres.wal` starts two servers, one of which recycles. Both store the same
segments in turn, so that other load on the machine affects both equally. A checkpoint between the
rounds, which is not timed, gives the one files to recycle and lets the other delete them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from bench.harness.latency import median_ms, percentile
from bench.reports.report import figures, markdown_table
from bench.speed.postgres.access import BATCH, TENANT, segments
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.items.records import Segment

ROUND = 40 * BATCH
"""The segments of a round: more than one file of WAL, of 16 MiB."""

WARM_UP = 2
RECYCLED, DELETED = "recycled", "deleted"
SETTINGS = {
    RECYCLED: {"wal_recycle": "on", "autovacuum": "off"},
    DELETED: {"wal_recycle": "off", "autovacuum": "off"},
}

Seconds = Mapping[str, Sequence[float]]
"""Of each round, by server."""


async def measure(dsns: Mapping[str, str], rounds: int) -> Seconds:
    """Writes on one server, then on the other, and the other way round in the next round."""
    made = list(segments((WARM_UP + rounds) * ROUND))
    seconds: dict[str, list[float]] = {name: [] for name in dsns}
    async with AsyncExitStack() as stack:
        servers = {}
        for name, dsn in dsns.items():
            await migrate(dsn)
            servers[name] = await stack.enter_async_context(Postgres(dsn))
        for round_ in range(WARM_UP + rounds):
            batch = made[round_ * ROUND : (round_ + 1) * ROUND]
            for name in sorted(servers, reverse=bool(round_ % 2)):
                spent = await _write(servers[name], batch)
                if round_ >= WARM_UP:
                    seconds[name].append(spent)
    return seconds


async def _write(server: Postgres, items: Sequence[Segment]) -> float:
    started = time.perf_counter()
    for start in range(0, len(items), BATCH):
        await server.store.write(TENANT, items[start : start + BATCH])
    spent = time.perf_counter() - started
    async with server.database.work() as connection:
        await connection.execute("CHECKPOINT")
    return spent


def as_table(seconds: Seconds) -> str:
    """Segments in a second on each server, and the median of the ratios of the rounds."""
    rates = [figures(ROUND / median_ms(seconds[name]) * 1e3) for name in (RECYCLED, DELETED)]
    pairs = zip(seconds[DELETED], seconds[RECYCLED], strict=True)
    ratios = sorted(without / with_ for without, with_ in pairs)
    spread = "to".join(f" {percentile(ratios, share):.2f} " for share in (0.25, 0.75)).strip()
    head = ("segments/s, recycled", "segments/s, not recycled", "time, ratio", "quartiles")
    return markdown_table(head, [(*rates, f"{percentile(ratios, 0.5):.2f}", spread)])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(min=2), default=10, show_default=True)
def main(rounds: int) -> None:
    """Compare writes with and without the recycling of WAL."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)  # a server of root runs as another account
        recycled, deleted = (
            EmbeddedPostgres(root / name, settings=SETTINGS[name]) for name in SETTINGS
        )
        with recycled as one, deleted as other:
            click.echo(as_table(asyncio.run(measure({RECYCLED: one, DELETED: other}, rounds))))


if __name__ == "__main__":
    main()
