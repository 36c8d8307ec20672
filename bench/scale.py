"""Plans an index of any size from what was measured: `python -m bench.scale FOLDER FOLDER`.

Memory is that of `MemoryPlan`, both epochs of a rebuild at once. The time to put rows into lists is
that of the largest corpus measured, which grows with the rows, the lists they are compared with
(a multiple of their root) and the dimension. The time to fill is that of the rate measured.
Everything is planned for one shard: shards work beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import click

from bench.index import SERVED
from bench.report import markdown_table
from bench.results import Record, number, read_records, table
from serving.domain.index_costs import MemoryPlan
from serving.domain.index_policy import IndexPolicy

SIZES = (10**6, 10**7, 10**8, 10**9)
EPOCHS = 2
"""While new lists are made the old ones and their rows are there too."""

USABLE = 0.85
"""Of a machine's memory; the rest is the models', the library's and the system's."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plan stands on: putting `rows` of `dimension` into lists, and filling."""

    rows: int
    dimension: int
    build_s: float
    filled_per_s: float

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """The largest corpus that was put into lists, and the rate of the last fill.

        Raises:
            click.ClickException: Either is missing.
        """
        built = [each for each in records if table(each, "parameters").get("way") == SERVED]
        fills = [each for each in records if "PostgreSQL" in str(each["scenario"])]
        if not built or not fills:
            raise click.ClickException("name a folder of bench.index and one of bench.index_fill")
        largest = max(built, key=lambda each: number(each, "parameters", "rows") or 0)
        return cls(
            rows=int(number(largest, "parameters", "rows") or 0),
            dimension=int(number(largest, "parameters", "dimension") or 0),
            build_s=number(largest, "measured", "build_s") or 0.0,
            filled_per_s=number(fills[-1], "throughput_per_s") or 0.0,
        )

    def seconds_to_build(self, rows: int, dimension: int) -> float:
        """Of that many rows: comparing each with as many lists as there are."""
        growth: float = (rows / self.rows) ** 1.5
        return self.build_s * growth * dimension / self.dimension


@dataclass(frozen=True, slots=True)
class Plan:
    """An index of so many rows on so many machines."""

    rows: int
    shards: int
    shard: MemoryPlan

    @classmethod
    def of(cls, rows: int, dimension: int, machine_gib: float) -> Self:
        """The fewest shards of which each fits a machine, rebuilding included."""
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
    """A line of the table for each size."""
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
    """A time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{timedelta(seconds=seconds) / timedelta(hours=1):.0f} h"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--dimension", default=1024, show_default=True)
@click.option("--machine-gib", default=80.0, show_default=True, help="Memory of one machine.")
@click.option("--price", default=1.0, show_default=True, help="Of one machine for an hour.")
def main(folders: Sequence[Path], dimension: int, machine_gib: float, price: float) -> None:
    """Plan indexes of a million to a billion rows from measured FOLDERs."""
    records = [record for folder in folders for record in read_records(folder)]
    measured = Measured.of(records)
    click.echo(
        f"From {measured.rows:,} x {measured.dimension} in lists in {measured.build_s:.0f} s and "
        f"{measured.filled_per_s:,.0f} rows/s from PostgreSQL; for {dimension} dimensions, "
        f"machines of {machine_gib:g} GiB at {price:g} an hour:\n"
    )
    sizes = ("rows", "shards", "store GB", "lists GB", "lists a shard")
    times = ("filled in", "lists made in", "an hour")
    click.echo(markdown_table((*sizes, *times), lines(measured, dimension, machine_gib, price)))


if __name__ == "__main__":
    main()
