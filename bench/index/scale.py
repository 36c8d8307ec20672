"""Plans the shards of an index from measurements: `python -m bench.index.scale`.

The memory comes from `MemoryPlan`, for both epochs of a rebuild. The time to build lists is scaled
from the largest corpus measured: it grows with the rows, with the number of lists (a multiple of
the square root of the rows) and with the dimension. The time to fill follows from the measured
rate. Times are those of one shard, because shards work in parallel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import click

from bench.harness.results import Record, number, read_records, table
from bench.index.tables import SERVED
from bench.reports.baselines import baseline
from bench.reports.report import markdown_table
from serving.adapters.vector_index.tuning.costs import MemoryPlan
from serving.adapters.vector_index.tuning.policy import IndexPolicy

SIZES = (10**6, 10**7, 10**8, 10**9)
EPOCHS = 2
"""During a rebuild the old lists and their rows stay in memory."""

USABLE = 0.85
"""The share of a machine's memory that the index may take."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The time to put `rows` of `dimension` into lists, and the rate of filling."""

    rows: int
    dimension: int
    build_s: float
    filled_per_s: float

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """Takes the largest corpus that was put into lists, and the rate of the last fill.

        Raises:
            click.ClickException: One of the two was not measured.
        """
        built = [each for each in records if table(each, "parameters").get("way") == SERVED]
        fills = [each for each in records if "PostgreSQL" in str(each["scenario"])]
        if not built or not fills:
            raise click.ClickException(
                "expected the results of bench.index.searches and of bench.index.fill"
            )
        largest = max(built, key=lambda each: number(each, "parameters", "rows") or 0)
        return cls(
            rows=int(number(largest, "parameters", "rows") or 0),
            dimension=int(number(largest, "parameters", "dimension") or 0),
            build_s=number(largest, "measured", "build_s") or 0.0,
            filled_per_s=number(fills[-1], "throughput_per_s") or 0.0,
        )

    def seconds_to_build(self, rows: int, dimension: int) -> float:
        """The estimated seconds to put the rows of one shard into lists."""
        growth: float = (rows / self.rows) ** 1.5
        return self.build_s * growth * dimension / self.dimension


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of shards for an index, and the memory of each."""

    rows: int
    shards: int
    shard: MemoryPlan

    @classmethod
    def of(cls, rows: int, dimension: int, machine_gib: float) -> Self:
        """Finds the least number of shards that fit their machines during a rebuild."""
        room = USABLE * machine_gib * 2**30
        shards = 1
        while True:
            of_shard = math.ceil(rows / shards)
            n_lists = IndexPolicy().n_lists(of_shard)
            plan = MemoryPlan(rows=of_shard, dimension=dimension, n_lists=n_lists)
            if EPOCHS * plan.total_bytes <= room:
                return cls(rows, shards, plan)
            shards = max(shards + 1, math.ceil(shards * EPOCHS * plan.total_bytes / room))


def lines(
    measured: Measured, dimension: int, machine_gib: float, price: float
) -> list[tuple[str, ...]]:
    """One row of the table for each size."""
    found: list[tuple[str, ...]] = []
    for rows in SIZES:
        plan = Plan.of(rows, dimension, machine_gib)
        of_shard = plan.shard.rows
        found.append(
            (
                f"{rows:,}",
                str(plan.shards),
                f"{plan.shards * plan.shard.store_bytes / 1e9:,.1f}",
                f"{plan.shards * plan.shard.lists_bytes / 1e9:,.1f}",
                f"{plan.shard.n_lists:,}",
                in_words(of_shard / measured.filled_per_s),
                in_words(measured.seconds_to_build(of_shard, dimension)),
                f"{plan.shards * price:,.2f}",
            )
        )
    return found


def in_words(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{timedelta(seconds=seconds) / timedelta(hours=1):.0f} h"


def described(records: Sequence[Record], dimension: int, machine_gib: float, price: float) -> str:
    """The measurements that the plan is made from, and its table."""
    measured = Measured.of(records)
    sizes = ("rows", "shards", "store GB", "lists GB", "lists per shard")
    times = ("time to fill", "time to build lists", "cost per hour")
    return (
        f"Measured: {measured.rows:,} x {measured.dimension} put into lists in "
        f"{measured.build_s:.0f} s, and {measured.filled_per_s:,.0f} rows/s read from PostgreSQL.\n"
        f"Planned: {dimension} dimensions on machines of {machine_gib:g} GiB, "
        f"each {price:g} per hour.\n\n"
        + markdown_table((*sizes, *times), lines(measured, dimension, machine_gib, price))
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--dimension", default=1024, show_default=True)
@click.option("--machine-gib", default=80.0, show_default=True, help="Memory of one machine.")
@click.option("--price", default=1.0, show_default=True, help="Of one machine for an hour.")
def main(folders: Sequence[Path], dimension: int, machine_gib: float, price: float) -> None:
    """Plan indexes of a million to a billion rows.

    FOLDERs have the results of bench.index.searches and of bench.index.fill. Without one, the
    baselines of both are taken.
    """
    if folders:
        records = [record for folder in folders for record in read_records(folder)]
    else:
        records = [*baseline("index/searches"), *baseline("index/fill")]
    click.echo(described(records, dimension, machine_gib, price))


if __name__ == "__main__":
    main()
