"""Records a run as it goes: results as they come, and at its end a summary and a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from bench.harness.collection import Collection
from bench.harness.results import Json, Record, Result, append_record, run_folder
from bench.harness.service import ServiceStartError
from bench.reports import environment
from bench.reports.report import head
from trivium.errors import TriviumError

console = Console(stderr=True)


class Taking:
    """Takes each result of a run as it comes; other files can be put into its folder."""

    def __init__(self, folder: Path, about: Mapping[str, Json]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.records: list[Record] = []
        self._about = about

    def __call__(self, result: Result) -> None:
        """Appends a result to the file of the run."""
        record = result.as_record(self._about)
        append_record(self.folder, record)
        self.records.append(record)


@contextmanager
def ended_by_message(*errors: type[Exception]) -> Iterator[None]:
    """Ends a command with the message of a failed service, or of these errors, without a traceback.

    Raises:
        click.Abort: It was interrupted.
        click.ClickException: Something of that went wrong.
    """
    expected: tuple[type[Exception], ...] = (TriviumError, ServiceStartError, *errors)
    try:
        yield
    except asyncio.CancelledError:
        raise click.Abort from None
    except expected as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def recorded(
    kind: str,
    collection: Collection,
    out: Path,
    tables: Callable[[Sequence[Record]], str],
    save_picture: Callable[[Sequence[Record], Path], None] | None = None,
) -> Iterator[Taking]:
    """Yields what takes each result; what was taken is kept, also if the run fails.

    The folder has the kind and the collection in its name, and at the end tables and a picture.
    """
    take = Taking(run_folder(f"{kind}-{collection.name}", out), environment.about(collection))
    try:
        with ended_by_message():
            yield take
    finally:
        if take.records:
            text = f"{head(take.records[0])}\n{tables(take.records)}\n"
            (take.folder / "summary.md").write_text(text, encoding="utf-8")
            if save_picture is not None:
                save_picture(take.records, take.folder / "overview.png")
            console.print(Markdown(text))
            console.print(f"written to {take.folder}")


def record_all(results: Iterable[Result], folder: Path, about: Mapping[str, Json]) -> None:
    """Records and prints results of something without a service as they come."""
    take = Taking(folder, {**environment.describe(), **about})
    for result in results:
        take(result)
        click.echo(f"{result.scenario} {result.parameters} {result.latency} {result.measured}")
    click.echo(f"written to {folder}")
