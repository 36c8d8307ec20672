"""What the commands of variants share: each set is measured, and its answers are written."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from rich.markdown import Markdown

from bench.harness.collection import Collection
from bench.harness.results import run_folder
from bench.quality.command import console, ended_by_message, read_sets
from bench.quality.pages.folder import write_records
from bench.quality.scoring.evaluate import Answers
from bench.quality.scoring.outcome import outcome
from bench.reports import environment

Measure = Callable[[Collection], Coroutine[Any, Any, Sequence[Answers]]]
"""Asks the questions of a set in each way, the baseline first."""


def measure_each(
    folders: Sequence[Path],
    out: Path,
    variant: str,
    measure: Measure,
    limit_queries: int | None = None,
) -> None:
    """Measures each set, writes records and a summary, and prints the summary.

    Args:
        folders: The sets.
        out: Where to make a folder of results for each.
        variant: The module of the command, within this package.
        measure: Asks the questions of a set.
        limit_queries: At most so many of each set.

    Raises:
        click.ClickException: Something expected went wrong.
    """
    with ended_by_message():
        for collection in read_sets(folders, limit_queries, skip_unreadable=False):
            answers = asyncio.run(measure(collection))
            where = run_folder(f"{variant.replace('_', '-')}-{collection.name}", out)
            console.print(Markdown(_write(where, collection, answers, variant)))
            console.print(f"written to {where}", markup=False)


def _write(where: Path, collection: Collection, answers: Sequence[Answers], variant: str) -> str:
    """Writes records and summary, and returns the summary."""
    about = environment.about(collection)
    module = f"{__package__}.{variant}"
    command = shlex.join(["python", "-m", module, collection.name])
    records = [outcome(each, answers[0], command=command).as_record(about) for each in answers]
    return write_records(where, records)
