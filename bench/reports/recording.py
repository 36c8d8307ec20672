"""Records a run as it goes: results as they come, and at its end a summary and a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from bench.harness.collection import Collection
from bench.harness.results import Json, Record, Result, append_record, run_folder
from bench.harness.service import ServiceStartError
from bench.reports import environment
from trivium.errors import TriviumError

console = Console(stderr=True)


class Taking:
    """Takes each result of a run as it comes.

    Attributes:
        folder: Of the run; other files can be put into it.
        records: What was taken.
    """

    def __init__(self, folder: Path, about: Mapping[str, Json]) -> None:
        self.folder = folder
        self.records: list[Record] = []
        self._about = about

    def __call__(self, result: Result) -> None:
        """Appends a result to the file of the run."""
        record = result.as_record(self._about)
        append_record(self.folder, record)
        self.records.append(record)


@contextmanager
def recorded(
    kind: str,
    collection: Collection,
    out: Path,
    summary: Callable[[Sequence[Record]], str],
    save_picture: Callable[[Sequence[Record], Path], None] | None = None,
) -> Iterator[Taking]:
    """Yields what takes each result; what was taken is kept, also if the run fails.

    Args:
        kind: What is measured, the first part of the folder's name.
        collection: The set that it is measured on.
        out: Where to make the folder.
        summary: Writes the records as Markdown.
        save_picture: Draws them; None draws nothing.

    Raises:
        click.ClickException: The service failed; the message is brief.
        click.Abort: The run was cancelled.
    """
    about = environment.about(collection)
    folder = run_folder(f"{kind}-{collection.name}", out)
    folder.mkdir(parents=True)
    take = Taking(folder, about)
    try:
        yield take
    except (TriviumError, ServiceStartError) as error:
        raise click.ClickException(str(error)) from error
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        if take.records:
            (folder / "summary.md").write_text(summary(take.records), encoding="utf-8")
            if save_picture is not None:
                save_picture(take.records, folder / "overview.png")
            console.print(Markdown(summary(take.records)))
            console.print(f"written to {folder}")
