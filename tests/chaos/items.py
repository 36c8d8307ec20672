"""The items of a group in a version: text, time and names show the version in every store."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

from tests.chaos.history import ANOTHER, FACT, PARTS, Group
from trivium import Fact, Item, Segment

WORDS = re.findall(
    r"\w+",
    "amber anchor barley basalt beacon bishop bramble candle canyon carpet cedar cellar chalk "
    "cinder clover cobalt copper cotton crane cricket dagger dolphin ember fable falcon feather "
    "fiddle garnet ginger glacier gravel hammer harvest hazel heron honey indigo ivory jasmine "
    "juniper kettle lantern laurel linen lobster magnet maple marble meadow mirror mustard nectar "
    "oyster pebble pepper pigeon pillow quarry raven ribbon saddle saffron sparrow spindle thistle "
    "timber trumpet tunnel turnip velvet violet walnut willow window",
)
WORDS_OF_AN_ITEM = 6
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
LABEL = "group"
AS_WRITTEN = {
    "resolve_names": False,
    "split_questions": False,
    "adjacent": 0,
    "current_first": False,
}
"""Asks for the very text of an item, in the order of the index: texts are alike, so a newer one of
another item would take the place of the one that is asked for."""

_VERSION = re.compile(r"version (\d+)")


def items_of(group: Group, version: int) -> list[Item]:
    """What is written for a group."""
    said_at = BEGIN + timedelta(seconds=version)
    *segments, fact = ((group.item(part).id, text_of(version, part)) for part in PARTS)
    return [
        *(
            Segment(
                id=id_,
                text=text,
                session=group.name,
                labels={LABEL: group.name},
                event_time=said_at,
                entities=(f"Captain {group.name}",),
            )
            for id_, text in segments
        ),
        Fact(
            id=fact[0],
            subject=f"Captain {group.name}",
            relation="sailed to",
            object=harbour(version),
            sentence=fact[1],
            recorded_at=said_at,
            evidence=(segments[0][0],),
        ),
    ]


def text_of(version: int, part: str) -> str:
    """The text of an item, far from that of any other in the vectors of a sentence encoder."""
    chosen = random.Random(f"{version} {part}").sample(WORDS, WORDS_OF_AN_ITEM)
    return f"In version {version} the {part} has {', '.join(chosen)}."


def harbour(version: int) -> str:
    """The name of an entity that only this version has."""
    return f"Harbour {version}"


def version_in(text: str) -> int:
    """The version that a text shows."""
    found = _VERSION.search(text)
    return int(found[1]) if found else ANOTHER


def version_at(microseconds: int | None) -> int:
    """The version that a time shows, in microseconds since 1970."""
    if microseconds is None:
        return ANOTHER
    at = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return round((at - BEGIN).total_seconds())


def is_fact(id_: str) -> bool:
    """Whether an item is the fact of its group."""
    return id_.rpartition(".")[2] == FACT
