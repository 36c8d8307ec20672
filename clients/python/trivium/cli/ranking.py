"""The options that choose and change a ranking profile, the same for every command that asks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

profile_option = click.option(
    "--profile", default="", metavar="NAME", help="How to rank.  [default: default]"
)
seeds_option = click.option(
    "--seed",
    "seeds",
    multiple=True,
    metavar="ID",
    help="Walk the graph from this object, and not from the names in the question.",
)


def _in_utc(
    ctx: click.Context, parameter: click.Parameter, given: datetime | None
) -> datetime | None:
    del ctx, parameter
    return None if given is None else given.replace(tzinfo=UTC)


as_of_option = click.option(
    "--as-of",
    type=click.DateTime(),
    callback=_in_utc,
    help="The clock of the question, in UTC.  [default: now]",
)
known_at_option = click.option(
    "--known-at",
    type=click.DateTime(),
    callback=_in_utc,
    help="Hide what was recorded later, in UTC.  [default: hide nothing]",
)


def to_changes(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> Mapping[str, Any]:
    """Reads the values of an option as `read_changes` does.

    Raises:
        click.BadParameter: One cannot be read.
    """
    try:
        return read_changes(given)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def read_changes(given: Iterable[str]) -> dict[str, Any]:
    """Reads `legs.graph.weight=0` and the like into the form of a profile file.

    Raises:
        ValueError: One has no `=`, or goes through what another set.
    """
    changes: dict[str, Any] = {}
    for each in given:
        path, equals, value = each.partition("=")
        if not (equals and path):
            raise ValueError(f"{each!r} is not FIELD=VALUE")
        *outer, last = path.split(".")
        section = changes
        for name in outer:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise ValueError(f"{each!r} goes through a value")
        section[last] = _value(value)
    return changes


def _value(text: str) -> Any:
    """A value as JSON has it; what is no JSON is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


changes_option = click.option(
    "--set",
    "changes",
    multiple=True,
    callback=to_changes,
    metavar="FIELD=VALUE",
    help="Change a field of the profile, such as legs.graph.weight=0 or sort=recency.",
)
