"""Records a run as it goes: results as they come, and at its end a summary and a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from bench.harness.collection import Collection
from bench.harness.results import Record, Result, append_record, run_folder
from bench.harness.service import ServiceStartError
from bench.reports import environment
from trivium.errors import TriviumError

console = Console(stderr=True)


@contextmanager
def recorded(
    kind: str,
    collection: Collection,
    out: Path,
    summary: Callable[[Sequence[Record]], str],
    save_picture: Callable[[Sequence[Record], Path], None],
) -> Iterator[Callable[[Result], None]]:
    """Yields what takes each result; what was taken is kept, also if the run fails.

    Args:
        kind: What is measured, the first part of the folder's name.
        collection: The set that it is measured on.
        out: Where to make the folder.
        summary: Writes the records as Markdown.
        save_picture: Draws them.

    Raises:
        click.ClickException: The service failed; the message is brief.
        click.Abort: The run was cancelled.
    """
    about = environment.about(collection)
    folder = run_folder(f"{kind}-{collection.name}", out)
    folder.mkdir(parents=True)
    records: list[Record] = []

    def take(result: Result) -> None:
        record = result.as_record(about)
        append_record(folder, record)
        records.append(record)

    try:
        yield take
    except (TriviumError, ServiceStartError) as error:
        raise click.ClickException(str(error)) from error
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        if records:
            (folder / "summary.md").write_text(summary(records), encoding="utf-8")
            save_picture(records, folder / "overview.png")
            console.print(Markdown(summary(records)))
            console.print(f"written to {folder}")
