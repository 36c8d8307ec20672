"""`trivium export`: writes a tenant's segments and facts to files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from rich.progress import Progress

from trivium.cli.connection import Connection, pass_connection
from trivium.cli.output import counter, plain
from trivium.files.writing import to_line
from trivium.values import Item

PAGE = 1000
DEFAULT_TEXT_SEARCH = "english"


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@pass_connection
def export(connection: Connection, folder: Path) -> None:
    """Writes segments and facts to FOLDER/segments.jsonl and FOLDER/facts.jsonl.

    `trivium ingest` stores each of the files again, with the same content, times
    and history; pass one at a time, facts last. Sensitive items are in them too,
    so they are for your account only. What is written meanwhile may be missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with connection.open() as client, counter() as progress:
        tenant = client.stats().tenant
        segments = client.list_segments(page_size=PAGE)
        facts = client.list_facts(page_size=PAGE)
        counts = [
            _write(folder / f"{name}.jsonl", items, progress, name)
            for name, items in (("segments", segments), ("facts", facts))
        ]
    click.echo("{} segments and {} facts in {}".format(*counts, folder))
    if tenant and tenant.text_search_config not in ("", DEFAULT_TEXT_SEARCH):
        option = f"--text-search-config {plain(tenant.text_search_config)}"
        click.echo(f"store them in a new tenant with {option}")


def _write(file: Path, items: Iterable[Item], progress: Progress, name: str) -> int:
    """Writes a new file, which is deleted if it cannot be whole; returns the number of items."""
    count = 0
    task = progress.add_task(name)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600)
    with open(descriptor, "w", encoding="utf-8") as lines:
        try:
            for count, item in enumerate(items, start=1):
                lines.write(to_line(item))
                progress.update(task, completed=count)
        except BaseException:
            file.unlink()
            raise
    return count
