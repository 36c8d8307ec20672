"""The items that are written: text, time and names show their version in every store.

A *group* is a few items that one call writes or erases together. Each write has a version of its
own, which every item of the group shows.
"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from trivium import Fact, Item, Segment

PARTS = ("a", "b", "c", "fact")
"""The items of a group: three segments, and a fact that rests on the first."""
ANOTHER = 0
"""The version of an item of which only is known that it is not that of PostgreSQL's row."""
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


class Group(NamedTuple):
    """A group of items of a tenant."""

    tenant: str
    name: str

    def item(self, part: str) -> ItemName:
        """The name of one of its items."""
        return ItemName(self.tenant, f"{self.name}.{part}")


class ItemName(NamedTuple):
    """An item of a tenant; segments and facts have distinct ids here."""

    tenant: str
    id: str

    @property
    def group(self) -> Group:
        """The group that the item belongs to."""
        return Group(self.tenant, self.id.rpartition(".")[0])

    @property
    def is_fact(self) -> bool:
        """Whether it is the fact of its group."""
        return self.id.endswith(f".{PARTS[-1]}")


def items_of(group: Group, version: int) -> list[Item]:
    """What is written for a group."""
    said_at = BEGIN + timedelta(seconds=version)
    captain = f"Captain {group.name}"
    segments = [
        Segment(
            id=group.item(part).id,
            text=text_of(version, part),
            session=group.name,
            labels={LABEL: group.name},
            event_time=said_at,
            entities=(captain,),
        )
        for part in PARTS[:-1]
    ]
    fact = Fact(
        id=group.item(PARTS[-1]).id,
        subject=captain,
        relation="sailed to",
        object=harbour(version),
        sentence=text_of(version, PARTS[-1]),
        recorded_at=said_at,
        evidence=(segments[0].id,),
    )
    return [*segments, fact]


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
