"""Times of a fact, and whether it counts at `LATER` for who asks about some days after."""

from __future__ import annotations

from typing import Any

from serving.domain.items.validity import Closing
from tests.support.builders import NOON, days

LATER = NOON + days(3)

KNOWN_TIMES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"recorded_at": LATER}, True),
    ({"recorded_at": LATER + days(1)}, False),
    ({"retracted_at": LATER}, False),
    ({"retracted_at": LATER + days(1)}, True),
    ({"closings": (Closing("x", NOON, LATER),)}, False),
    ({"closings": (Closing("x", NOON, LATER + days(1)),)}, True),
    ({"closings": (Closing("x", NOON, LATER + days(1)),), "valid_to": NOON}, False),
    ({"closings": (Closing("x", NOON, LATER), Closing("y", NOON, LATER + days(1)))}, False),
    ({"closings": (Closing("x", NOON, NOON, LATER),)}, True),
    ({"closings": (Closing("x", NOON, NOON, LATER + days(1)),)}, False),
    ({"closings": (Closing("x", LATER + days(6), NOON),)}, True),
]
