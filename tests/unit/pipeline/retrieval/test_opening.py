"""What the start of a conversation shows, by the shipped profile."""

from __future__ import annotations

from serving.config.profiles import ProfileBook
from serving.domain.items.records import Item
from serving.domain.questions.query import NO_FILTER, Filter
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.legs import HoldingLeg, ImportantLeg
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, days, fact, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, store_of

OPENING = ProfileBook.load()["opening"]


async def shown(*items: Item, filter_: Filter = NO_FILTER) -> set[str]:
    store = await store_of(*items)
    timeline = InMemoryTimeline(store)
    legs = {
        "important": ImportantLeg(timeline),
        "holding": HoldingLeg(Holding(store, timeline)),
    }
    return set(
        hit_ids(await answered(store, legs, OPENING, query("", scope=scope(filter_=filter_))))
    )


def said(count: int) -> list[Item]:
    return [segment(f"t{n}", f"remark {n}", event_time=NOON - days(n)) for n in range(count)]


async def test_opening_shares_its_places_between_legs() -> None:
    important = segment("pinned", "I am deaf.", importance=1.0, event_time=NOON - days(900))
    facts = [fact(f"f{n}", "Ola", "likes", f"tea {n}") for n in range(20)]

    found = await shown(*said(20), important, *facts)

    assert len(found) == 10
    assert found >= {"pinned", "t0", "t1", "t2", "f0", "f1"}


async def test_opening_is_filled_by_what_was_said_last() -> None:
    assert await shown(*said(12)) == {f"t{n}" for n in range(10)}


async def test_facts_about_known_speakers_come_first() -> None:
    turns = [
        segment(f"t{n}", f"remark {n}", speaker="Mia", event_time=NOON - days(n)) for n in range(20)
    ]
    old = fact(
        "mine", "MIA", "is allergic to", "nuts", evidence=("t0",), valid_from=NOON - days(99)
    )
    of_others = [
        fact(f"f{n}", "Tom", "likes", f"tea {n}", evidence=("t0",), valid_from=NOON)
        for n in range(20)
    ]

    found = await shown(*turns, old, *of_others, filter_=Filter(speakers=("Mia",)))

    assert found >= {"mine", "f0"}
    assert "mine" not in await shown(*turns, old, *of_others)


async def test_opening_has_the_newest_statement_of_each_subject() -> None:
    found = await shown(
        segment("old", "My phone number is 555 1234.", speaker="Mia", event_time=NOON - days(2)),
        segment("new", "My new phone number is 555 9876.", speaker="Mia", event_time=NOON),
        segment("asks", "What time is it?", speaker="Mia", event_time=NOON),
        fact("lives", "Mia", "lives in", "York"),
    )

    assert found == {"new", "lives"}
