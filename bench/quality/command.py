"""Shared by the quality commands: reading sets, reporting errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.service import ServiceStartError
from bench.reports.recording import console
from trivium.errors import TriviumError

SHOWN_PROBLEMS = 10

EXPECTED = (OSError, ValueError, TriviumError, ServiceStartError)
"""Errors that end a command with their message and without a traceback."""


@contextlib.contextmanager
def ended_by_message() -> Iterator[None]:
    """Ends the command with the message of an expected error, without a traceback.

    Raises:
        click.Abort: It was interrupted.
        click.ClickException: Something expected went wrong.
    """
    try:
        yield
    except asyncio.CancelledError:
        raise click.Abort from None
    except EXPECTED as error:
        raise click.ClickException(str(error)) from error


def read_sets(
    folders: Sequence[Path], query_limit: int | None, skip_unreadable: bool
) -> list[Collection]:
    """Reads the sets of a command; lines that cannot be read may be left out, which is said.

    Raises:
        click.ClickException: Two sets have one name, one has no judged question, or lines cannot
            be read.
        OSError: A file is missing.
    """
    collections = [read_collection(each, query_limit=query_limit) for each in folders]
    names = [each.name for each in collections]
    for collection in collections:
        if names.count(collection.name) > 1:
            raise click.UsageError(f"two folders are called {collection.name!r}")
        problems = [str(problem) for problem in collection.problems]
        shown = "\n".join(problems[:SHOWN_PROBLEMS])
        if problems and not skip_unreadable:
            raise click.ClickException(
                f"{len(problems)} lines of {collection.name} cannot be read; "
                f"--skip-unreadable leaves them out:\n{shown}"
            )
        if problems:
            console.print(f"left out {len(problems)} lines:\n{shown}", style="yellow", markup=False)
        if not collection.judged:
            raise click.ClickException(f"{collection.name} has no judged question")
    return collections
