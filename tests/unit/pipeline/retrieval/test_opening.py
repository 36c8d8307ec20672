"""What the start of a conversation shows, by the shipped profile."""

from __future__ import annotations

from serving.config.profiles import ProfileBook
from serving.domain.items.records import Item
from serving.pipeline.retrieval.legs import HoldingLeg, ImportantLeg, TemporalLeg
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, days, fact, query, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, store_of

OPENING = ProfileBook.load()["opening"]


async def shown(*items: Item) -> set[str]:
    store = await store_of(*items)
    timeline = InMemoryTimeline(store)
    legs = {
        "temporal": TemporalLeg(timeline),
        "important": ImportantLeg(timeline),
        "holding": HoldingLeg(timeline),
    }
    return set(hit_ids(await answered(store, legs, OPENING, query(""))))


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
