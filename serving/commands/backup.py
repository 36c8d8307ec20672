"""`python -m serving backup` and `restore`: PostgreSQL to a file, and an empty database from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.dump import (
    BackupError,
    back_up,
    contents_of,
    refresh_statistics,
    restore,
    server_version,
)
from serving.adapters.postgres.writes.tombstones import Tombstones, erase_again
from serving.commands.database import address_of_postgres, brief_errors, in_database
from serving.commands.erasures import read_exported
from serving.config.settings import Settings
from serving.desk.embedded_postgres import find_client_programs


def make(settings: Settings, file: Path) -> None:
    """Backs up to a new file, and says what is in it."""
    with _brief_errors(), address_of_postgres(settings) as dsn:
        contents = back_up(dsn, file, find_client_programs(server_version(dsn)))
    click.echo(f"{contents.items} items of {contents.tenants} tenants")
    click.echo(f"consistency point: {contents.token}; no write with an older token is missing")
    click.echo(
        "The file keeps what is erased from now on. Before you restore it, run "
        "`python -m serving erasures export`."
    )


def restore_from(settings: Settings, file: Path, erasures: TextIO | None) -> None:
    """Restores a file into an empty database, and erases again what was erased since."""
    tombstones = read_exported(erasures) if erasures else None
    with _brief_errors(), address_of_postgres(settings) as dsn:
        restore(dsn, file, find_client_programs(server_version(dsn)))
        erased = in_database(settings, partial(_erase_again, tombstones))
        refresh_statistics(dsn)
        contents = contents_of(dsn)
    click.echo(f"{contents.items} items of {contents.tenants} tenants restored")
    if tombstones is None:
        click.echo(
            "What was erased after the backup is stored again: apply the exported erasures with "
            "`python -m serving erasures apply` before you start the service."
        )
    else:
        click.echo(f"{erased} items erased again")
    click.echo("The service builds the index and the graph anew; use an empty Neo4j.")


async def _erase_again(tombstones: Tombstones | None, database: Database) -> int:
    return 0 if tombstones is None else await erase_again(database, tombstones)


@contextlib.contextmanager
def _brief_errors() -> Iterator[None]:
    try:
        with brief_errors():
            yield
    except BackupError as error:
        raise click.ClickException(str(error)) from error
