"""Time zones by their names."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from serving.domain.questions.time_zones import parse_time_zone


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("", "UTC"),
        ("Asia/Kolkata", "Asia/Kolkata"),
        ("-08:00", "UTC-08:00"),
        ("+05:30", "UTC+05:30"),
    ],
)
def test_name_of_a_zone_is_read_again(name: str, kept: str) -> None:
    zone = parse_time_zone(name)

    assert str(zone) == kept
    assert str(parse_time_zone(kept)) == kept


def test_offset_is_east_of_greenwich() -> None:
    assert parse_time_zone("-03:30") == timezone(timedelta(hours=-3, minutes=-30))


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "UTC+25:00", "08:00"])
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a time zone"):
        parse_time_zone(name)
