"""`python -m serving erasures`: exports erasures, and applies them to a restored backup."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from serving.adapters.postgres.writes.tombstones import Tombstones, erase_again, read_tombstones
from serving.config.settings import Settings
from serving.local.commands.database import in_database


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
    """Erase again what was erased by the time of FILE. For a restored backup, before serving."""
    tombstones = read_exported(file)
    erased = in_database(settings, lambda database: erase_again(database, tombstones))
    click.echo(f"{erased} items erased again")


def read_exported(file: TextIO) -> Tombstones:
    """The tombstones of a file.

    Raises:
        click.ClickException: It is another file.
    """
    try:
        return read_lines(file)
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{file.name} is not a file of `erasures export`") from error


def lines_of(tombstones: Tombstones) -> list[str]:
    """The lines of a file: the key, then a line per tombstone."""
    entries = [
        {"hash": hash_.hex(), "erased_at": erased_at.isoformat()}
        for hash_, erased_at in tombstones.entries
    ]
    return [f"{json.dumps(line)}\n" for line in ({"key": tombstones.key.hex()}, *entries)]


def read_lines(lines: TextIO) -> Tombstones:
    """Reads what `lines_of` wrote.

    Raises:
        ValueError, KeyError, TypeError: The lines are not of such a file.
    """
    head, *entries = map(json.loads, lines)
    return Tombstones(
        bytes.fromhex(head["key"]),
        [
            (bytes.fromhex(each["hash"]), datetime.fromisoformat(each["erased_at"]))
            for each in entries
        ],
    )
