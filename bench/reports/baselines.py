"""The baselines: the newest accepted run of each benchmark; `bench.docs` writes a page from them.

`python -m bench.reports.baselines NAME RUN...` replaces the baseline NAME by the records of one or
more runs, for example of one run for each evaluation set.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness import options
from bench.harness.results import Record, append_record, read_records, table

BASELINES = Path(__file__).parents[1] / "baselines"

COPIED = ("*.png", "*.svg")
"""Files copied with the results: plots and flame graphs. None holds any text of a set."""

DROPPED = frozenset({"by_category", "by_stratum"})
"""Breakdowns of quality results that no page shows and that are most of their bytes."""


def baseline(name: str) -> list[Record]:
    """The records of a baseline, by its folder below `BASELINES`, such as "speed/load"."""
    return read_records(BASELINES / name)


def promote(runs: Sequence[Path], target: Path) -> None:
    """Replaces a baseline by the results of runs, in their order.

    Raises:
        OSError: A run has no results; the baseline is then as it was.
    """
    records = [dict(record) for run in runs for record in read_records(run)]
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for record in records:
        kept = table(record, "measured").items()
        record["measured"] = {name: found for name, found in kept if name not in DROPPED}
        append_record(target, record)
    for run in runs:
        for pattern in COPIED:
            for path in run.glob(pattern):
                shutil.copy(path, target)


@click.command(context_settings=options.HELP)
@click.argument("name")
@click.argument("runs", nargs=-1, required=True, type=options.FOLDER)
def main(name: str, runs: Sequence[Path]) -> None:
    """Replace the baseline NAME (such as speed/load) by the results of the RUN folders."""
    promote(runs, BASELINES / name)
    click.echo(f"replaced {BASELINES / name}; `make docs` updates docs/benchmarks.md")


if __name__ == "__main__":
    main()
