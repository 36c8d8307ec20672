"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.results import RESULTS
from bench.harness.sample import TENANTS, multiplied_sample

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

HELP = {"help_option_names": ["-h", "--help"]}
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)

data = click.option(
    "--data", type=FOLDER, help="An evaluation set; without, the sample conversation multiplied."
)
folders = click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=FOLDER)
address = click.option(
    "--address",
    metavar="HOST:PORT",
    help="A running service, instead of starting one; the data is written to it, and stays.",
)
out = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)


def count(name: str, default: int | None, help: str, least: int = 1) -> Decorator:
    """An option for a whole number."""
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


def measure(name: str, default: float, help: str) -> Decorator:
    """An option for a number above 0, such as seconds."""
    kind = click.FloatRange(min=0, min_open=True)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


def numbers(name: str, default: str, help: str) -> Decorator:
    """An option for numbers above 0, separated by commas."""
    return click.option(name, default=default, show_default=True, callback=_numbers, help=help)


def _numbers(_context: click.Context, _option: click.Parameter, given: str) -> Sequence[float]:
    try:
        found = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"not numbers separated by commas: {given!r}") from error
    if min(found) <= 0:
        raise click.BadParameter(f"must be above 0: {given!r}")
    return found


def chosen(data: Path | None, tenants: int = TENANTS) -> Collection:
    """The evaluation set in a folder, or the sample conversation multiplied."""
    return multiplied_sample(tenants) if data is None else read_collection(data)


def _existing(_context: click.Context, _option: click.Parameter, device: str) -> str:
    # Not above: processes that only ask import the module of a command too.
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise click.BadParameter("torch finds no CUDA device; DRY=1 runs the scripts on the CPU")
    return device


device = click.option(
    "--device", default="cuda", show_default=True, callback=_existing, help="As torch names it."
)
tiny = click.option("--tiny", is_flag=True, help="Of no size: proves the script, no speed.")
