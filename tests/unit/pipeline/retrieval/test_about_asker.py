"""What is known of who asks, by the leg of what holds."""

from __future__ import annotations

import pytest

from serving.domain.items.records import Item
from serving.domain.questions.query import NO_FILTER, Filter
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.legs import HoldingLeg
from tests.fakes.pipeline import FixedLeg
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, days, fact, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, store_of

ABOUT_ME = "What do you know about me?"
SAID = [
    segment(id_, text, speaker=speaker, event_time=NOON - days(9 - day))
    for day, (id_, speaker, text) in enumerate(
        [
            ("work", "Oda", "I am a night nurse."),
            ("bot", "Helper", "I will remember that about you."),
            ("food", "Oda", "I'm allergic to walnuts."),
            ("glove", "Oda", "I found an old glove."),
            ("asks", "Helper", "What else should I know about you?"),
            ("weather", "Oda", "It rains."),
        ]
    )
]


async def found(text: str, *others: Item, filter_: Filter = NO_FILTER) -> list[str]:
    """What a question finds whose words find what the bot said."""
    store = await store_of(*SAID, *others)
    timeline = InMemoryTimeline(store)
    legs = {"lexical": FixedLeg("bot asks"), "holding": HoldingLeg(Holding(store, timeline))}
    specs = (LegSpec(name="lexical"), LegSpec(name="holding", about_asker=True))
    asks = query(text, scope=scope(filter_=filter_, as_of=NOON))
    return hit_ids(await answered(store, legs, Profile(name="asker", legs=specs), asks))


async def test_statements_of_the_asker_are_newest_first() -> None:
    assert await found(ABOUT_ME) == ["food", "work", "glove"]


@pytest.mark.parametrize("text", ["What do you know about Oda?", "Tell me about the trip."])
async def test_question_about_another_leaves_the_asker_out(text: str) -> None:
    assert await found(text) == ["bot", "asks"]


async def test_facts_about_the_caller_come_first() -> None:
    mine = fact("mine", "Oda", "lives in", "York", evidence=("food",))
    others = fact("others", "Tom", "lives in", "Ely", evidence=("food",))

    assert (await found(ABOUT_ME, mine, others, filter_=Filter(speakers=("Oda",))))[0] == "mine"
    assert "others" not in await found(ABOUT_ME, mine, others)


async def test_asker_of_whom_nothing_is_told_gets_the_rest() -> None:
    assert await found(ABOUT_ME, filter_=Filter(speakers=("Helper",))) == ["bot", "asks"]
