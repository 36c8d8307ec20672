"""What the commands that measure and tune begin with: the sets they are given, and a service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.collection import Collection, read_collection
from bench.quality.session import RejectedError
from bench.quality.stored import StoredError
from bench.service import ServiceStartError, fresh_data, started
from trivium.errors import TriviumError

RESULTS = Path(__file__).parents[1] / "results"
SHOWN_PROBLEMS = 10

EXPECTED = (OSError, ValueError, TriviumError, ServiceStartError, RejectedError, StoredError)
"""What ends a command with its message alone."""

console = Console(stderr=True)


@contextlib.contextmanager
def ended_by_message(*more: type[Exception]) -> Iterator[None]:
    """Ends the command with its message alone at what is expected to go wrong.

    Args:
        more: What else is expected of this command.

    Raises:
        click.Abort: It was interrupted.
        click.ClickException: Something expected went wrong.
    """
    expected: tuple[type[Exception], ...] = (*EXPECTED, *more)
    try:
        yield
    except asyncio.CancelledError:
        raise click.Abort from None
    except expected as error:
        raise click.ClickException(str(error)) from error


def read_sets(
    folders: Sequence[Path], query_limit: int | None, skip_unreadable: bool
) -> list[Collection]:
    """Reads the sets that a command is given.

    Args:
        folders: One for each set.
        query_limit: At most so many questions of each; None takes all.
        skip_unreadable: Whether to leave out lines that cannot be read, and say so.

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


@contextlib.asynccontextmanager
async def running(address: str | None) -> AsyncIterator[str]:
    """The address of the service: the one given, or of one that is started on fresh data."""
    if address is not None:
        yield address
        return
    console.print("starting the service")
    with fresh_data() as data_dir:
        async with started(data_dir) as target:
            yield target.address
            console.print("stopping the service")
