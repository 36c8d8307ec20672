"""Stores the results of a GPU as baselines: `make gpu-report`, which then writes the pages.

Takes whatever results there are: a kind without any keeps the baseline that it has.
"""

from __future__ import annotations

from pathlib import Path

import click

from bench.gpu.suite import NAME
from bench.gpu.tables import KINDS, gpu_table
from bench.harness.results import FILE_NAME, RESULTS, read_records
from bench.reports.baselines import BASELINES, promote


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--baselines", type=click.Path(path_type=Path), default=BASELINES, hidden=True)
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, hidden=True)
def main(run: Path | None, baselines: Path, results: Path) -> None:
    """Store the results in RUN, by default those of the newest `make bench-gpu`."""
    run = run or newest(results)
    found = by_kind(run)
    if not found:
        raise click.ClickException(f"{run} has no results")
    for kind, folders in found.items():
        records = [record for folder in folders for record in read_records(folder)]
        try:
            gpu_table(kind, records)
        except ValueError as error:
            raise click.ClickException(f"{run}: {error}") from error
    for kind, folders in found.items():
        promote(folders, baselines / NAME / kind)
        click.echo(f"{kind}: stored")
    for kind in KINDS.keys() - found.keys():
        click.echo(f"{kind}: not measured in this run")


def newest(results: Path) -> Path:
    """The folder of the newest run of all benchmarks.

    Raises:
        ClickException: There is none.
    """
    runs = sorted(path for path in results.glob(f"{NAME}-2*") if path.is_dir())
    if not runs:
        raise click.ClickException(f"no results in {results}: `make bench-gpu` measures them")
    return runs[-1]


def by_kind(run: Path) -> dict[str, list[Path]]:
    """The folders of results in a run, by the kind that their step is named for."""
    found: dict[str, list[Path]] = {}
    for path in sorted(run.rglob(FILE_NAME)):
        kind = path.relative_to(run).parts[0].partition("-")[0]
        found.setdefault(kind, []).append(path.parent)
    return found


if __name__ == "__main__":
    main()
