"""`trivium-server erasures`: keeps erased items erased after the restore of a backup."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from serving.adapters.postgres.connection.migrations import begin_log
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.writes.tombstones import Tombstones, erase_again, read_tombstones
from serving.commands.database import in_database
from serving.config.settings import Settings


@click.group()
def erasures() -> None:
    """The commands; their context object is the settings."""


@erasures.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def export(settings: Settings, file: Path) -> None:
    """Write the hashes of all erased items to FILE. Store it apart from the backups."""
    tombstones = in_database(settings, read_tombstones)
    try:
        # For the owner alone: with the key in it, guesses of ids can be tested.
        file.touch(mode=0o600)
        with click.open_file(str(file), "w", atomic=True) as lines:
            lines.writelines(lines_of(tombstones))
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written ({error.strerror})") from error
    click.echo(f"{len(tombstones.entries)} erasures")


@erasures.command()
@click.argument("file", type=click.File())
@click.pass_obj
def apply(settings: Settings, file: TextIO) -> None:
    """Erase again what was erased by the time of FILE. After a restore, before serving.

    The change log begins anew: the index and the graph are derived again.
    """
    tombstones = read_exported(file)
    erased = in_database(settings, partial(_complete_restore, tombstones))
    click.echo(f"{erased} items erased again")


async def _complete_restore(tombstones: Tombstones, database: Database) -> int:
    async with database.transaction() as connection:
        await begin_log(connection)
    return await erase_again(database, tombstones)


def read_exported(file: TextIO) -> Tombstones:
    """Reads what `lines_of` wrote; raises a `click.ClickException` for another file."""
    try:
        head, *lines = map(json.loads, file)
        hashes = [bytes.fromhex(each["hash"]) for each in lines]
        times = [datetime.fromisoformat(each["erased_at"]) for each in lines]
        return Tombstones(bytes.fromhex(head["key"]), [*zip(hashes, times, strict=True)])
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{file.name} is not a file of `erasures export`") from error


def lines_of(tombstones: Tombstones) -> list[str]:
    """The lines of a file: the key, then a line per tombstone."""
    lines = [{"key": tombstones.key.hex()}]
    lines += [{"hash": each.hex(), "erased_at": at.isoformat()} for each, at in tombstones.entries]
    return [f"{json.dumps(line)}\n" for line in lines]
