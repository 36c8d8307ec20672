"""Time zones by their names."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_OFFSET = re.compile(r"(?:UTC)?(?P<sign>[+-])(?P<hours>0\d|1[0-4]):(?P<minutes>[0-5]\d)", re.ASCII)


def parse_time_zone(name: str) -> tzinfo:
    """The zone of a name of the IANA database, or of an offset such as "-08:00"; UTC for none.

    It reads the `str` of the zones that it returns.

    Raises:
        ValueError: There is no such zone; the message says what is expected.
    """
    if not name:
        return UTC
    if offset := _OFFSET.fullmatch(name):
        distance = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"]))
        return timezone(-distance if offset["sign"] == "-" else distance)
    if name not in _names():
        example = "Europe/Lisbon, or an offset, such as -08:00"
        raise ValueError(f"must be a time zone, such as {example}; is {name[:64]!r}")
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    """The names of the database, without which `ZoneInfo` would open a file of any name."""
    return frozenset(available_timezones())
