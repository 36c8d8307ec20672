"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.results import RESULTS
from bench.harness.sample import TENANTS, multiplied_sample

HELP = {"help_option_names": ["-h", "--help"]}

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
address_option = click.option(
    "--address",
    help="HOST:PORT of a running service, instead of starting one; the data is written to it.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)


def chosen(data: Path | None, tenants: int = TENANTS) -> Collection:
    """The evaluation set in a folder, or the sample conversation multiplied."""
    return multiplied_sample(tenants) if data is None else read_collection(data)


def numbers(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[float]:
    """Reads numbers above 0, separated by commas."""
    try:
        found = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"not numbers separated by commas: {given!r}") from error
    if min(found) <= 0:
        raise click.BadParameter(f"must be above 0: {given!r}")
    return found
