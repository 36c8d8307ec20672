"""The options that select and change a ranking profile, shared by the commands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from google.protobuf import json_format

from trivium.v1 import filter_pb2
from trivium.values import Filter
from trivium.wire.requests import zone_of
from trivium.wire.responses import read

profile_option = click.option(
    "--profile", default="", metavar="NAME", help="The ranking profile.  [default: default]"
)
limit_option = click.option(
    "--limit", default=0, metavar="N", help="The number of hits.  [default: the profile's]"
)
seed_ids_option = click.option(
    "--seed-id",
    "seed_ids",
    multiple=True,
    metavar="ID",
    help="Start the graph walk from this segment's entity, not from names in the question.",
)


class Time(click.ParamType[datetime]):
    """An ISO 8601 date or time, as the commands print it; without a zone that of `--time-zone`."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Reads it; a wrong one is a usage error."""
        if isinstance(value, datetime):
            return value
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            example = "2026-03-19 or 2026-03-19T18:30:00Z"
            self.fail(f"{value!r} is not an ISO 8601 time, such as {example}", param, ctx)
        if instant.tzinfo is None:
            named = ctx.find_root().params.get("time_zone") if ctx else ""
            try:
                return instant.replace(tzinfo=zone_of(named or ""))
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return instant


class JsonFilter(click.ParamType[Filter]):
    """A filter as JSON, with the names of `Filter` in the protos."""

    name = "filter"

    def convert(
        self, value: str | Filter, param: click.Parameter | None, ctx: click.Context | None
    ) -> Filter:
        """Reads it; a wrong one is a usage error."""
        if isinstance(value, Filter):
            return value
        try:
            return read(Filter, json_format.Parse(value, filter_pb2.Filter()))
        except json_format.ParseError as error:
            self.fail(f"is no filter: {error}", param, ctx)


filter_option = click.option(
    "--filter",
    type=JsonFilter(),
    metavar="JSON",
    help="""Only what passes, as '{"any_of": [{"kinds": ["note"]}, {"speakers": ["Ann"]}]}'.""",
)
as_of_option = click.option(
    "--as-of",
    type=Time(),
    help="The reference time of the question, in --time-zone if it has none.  [default: now]",
)
known_at_option = click.option(
    "--known-at",
    type=Time(),
    help="Hide what was recorded after this time.  [default: hide nothing]",
)


def to_overrides(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> Mapping[str, Any]:
    """Parses the values of an option as `parse_overrides` does.

    Raises:
        click.BadParameter: A value is invalid.
    """
    try:
        return parse_overrides(given)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def parse_overrides(given: Iterable[str]) -> dict[str, Any]:
    """Parses assignments such as `legs.graph.weight=0` into the form of a profile file.

    Raises:
        ValueError: An assignment has no `=`, or its path goes through a value.
    """
    overrides: dict[str, Any] = {}
    for each in given:
        path, equals, value = each.partition("=")
        if not (equals and path):
            raise ValueError(f"{each!r} is not FIELD=VALUE")
        *outer, last = path.split(".")
        section = overrides
        for name in outer:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise ValueError(f"{each!r}: {name!r} is already a value")
        section[last] = _value(value)
    return overrides


def _value(text: str) -> Any:
    """A JSON value; other text is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


profile_overrides_option = click.option(
    "--profile-override",
    "profile_overrides",
    multiple=True,
    callback=to_overrides,
    metavar="FIELD=VALUE",
    help="Override a field of the profile, such as legs.graph.weight=0 or sort=recency.",
)
