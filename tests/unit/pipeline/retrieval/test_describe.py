"""What holds about somebody, about who asks, and at the start of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError, StoreUnavailableError
from serving.domain.items.records import Item, ItemId, TenantName, segment_id
from serving.domain.questions.query import NO_FILTER, Filter, Query, Scope
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.describe import Describer, Description
from serving.pipeline.retrieval.holding import MAX_READ, Holding
from serving.pipeline.retrieval.legs import HoldingLeg, ImportantLeg
from tests.fakes.pipeline import FixedIndex, FixedLeg
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import A_DAY_LATER, NOON, days, fact, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, store_of

# ---------------------------------------------------------------- a description


SPEAKER = Filter(speakers=("Mia",))


def about_mia(filter_: Filter = SPEAKER, **fields: Any) -> Query:
    return query("Mia", scope=scope(filter_=filter_, **fields))


async def described(
    *items: Item,
    asked: Query | None = None,
    store: InMemoryStore | None = None,
    timeline: Callable[[InMemoryStore], InMemoryTimeline] = InMemoryTimeline,
    index: Any = None,
) -> Description:
    store = store or await store_of(*items)
    describer = Describer(store, Holding(store, timeline(store), index))
    return await describer.describe(asked or about_mia(), Deadline.after(60))


def ids_of(description: Description) -> str:
    return " ".join(item.id for item in description.items)


def by_mia(id_: str, text: str, days_ago: float = 0, **fields: Any) -> Item:
    return segment(id_, text, speaker="mia", event_time=NOON - days(days_ago), **fields)


async def test_facts_and_statements_come_in_turn_newest_first() -> None:
    found = await described(
        by_mia("boat", "The boat leaks.", 3),
        by_mia("garden", "We planted beans.", 1),
        by_mia("train", "Trains are late again.", 2),
        fact("tea", "MIA", "likes", "tea", valid_from=NOON - days(9)),
        fact("knows", "Tom", "knows", "Mia", valid_from=NOON - days(3)),
        fact("tom", "Tom", "likes", "tea"),
        segment("by-tom", "Tom repairs bikes.", speaker="Tom"),
    )

    assert ids_of(found) == "knows garden tea train boat"


async def test_facts_and_statements_of_then_are_shown() -> None:
    items = [
        fact("leeds", "Mia", "lives in", "Leeds", valid_from=NOON - days(99), single_valued=True),
        fact("york", "Mia", "lives in", "York", valid_from=NOON - days(3), single_valued=True),
        by_mia("later", "The roof leaks.", -2),
        by_mia("earlier", "The boat leaks.", 9),
    ]

    assert ids_of(await described(*items)) == "york earlier"
    assert ids_of(await described(*items, asked=about_mia(as_of=NOON - days(4)))) == "leeds earlier"


async def test_sensitive_items_and_repeated_facts_are_left_out() -> None:
    found = await described(
        by_mia("secret", "My pin is 4711.", sensitive=True),
        fact("pin", "Mia", "has the pin", "4711", evidence=("secret",)),
        fact("twice", "Mia", "likes", "tea", valid_from=NOON - days(1)),
        fact("likes", "Mia", "likes", "tea", valid_from=NOON),
    )

    assert ids_of(found) == "likes"


class ClosedIndex(FixedIndex):
    """Says of one segment that it rests on closed facts alone."""

    def closed(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, tuple[ItemId, ...]]:
        return {item: () for item in items if item == segment_id("leeds")}


async def test_evidence_of_closed_facts_alone_is_left_out() -> None:
    found = await described(
        by_mia("leeds", "I live in Leeds."), by_mia("boat", "The boat leaks."), index=ClosedIndex()
    )

    assert ids_of(found) == "boat"


async def test_newest_are_read_of_many() -> None:
    facts = [fact(f"f{n}", "Mia", "saw", f"bird{n}") for n in range(MAX_READ + 1)]

    assert len((await described(*facts)).items) == MAX_READ


class Outrun(InMemoryTimeline):
    """Finds a segment that was changed before its row is read."""

    async def latest(self, *_: Any, **__: Any) -> list[Candidate]:
        return [Candidate(segment_id("moved"), 0.0)]


@pytest.mark.parametrize("changed", [{"event_time": A_DAY_LATER + days(9)}, {"expires_at": NOON}])
async def test_row_that_has_left_the_scope_is_not_shown(changed: dict[str, datetime]) -> None:
    moved = segment("moved", "The boat leaks.", speaker="mia", **changed)

    assert not (await described(moved, timeline=Outrun)).items


class Tokyo(InMemoryStore):
    """A tenant that is nine hours ahead."""

    async def read_time_zone(self, tenant: TenantName, deadline: Deadline) -> tzinfo:
        return timezone(timedelta(hours=9))


@pytest.mark.parametrize(("zone", "hour"), [(None, 21), (UTC, 12)])
async def test_zone_is_the_tenants_unless_given(zone: tzinfo | None, hour: int) -> None:
    found = await described(store=Tokyo(), asked=query("Mia", time_zone=zone))

    assert found.query.local_time.hour == hour


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (TimeoutError(), BudgetExhaustedError),
        (StoreUnavailableError("refused"), StoreUnavailableError),
    ],
)
async def test_lost_store_fails_the_description(error: Exception, raised: type[Exception]) -> None:
    class Lost(InMemoryTimeline):
        async def latest(self, *_: Any, **__: Any) -> list[Candidate]:
            raise error

    with pytest.raises(raised):
        await described(timeline=Lost)


# ---------------------------------------------------------------- who asks


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


# ---------------------------------------------------------------- the start of a conversation


OPENING = ProfileBook.load()["opening"]


async def shown(*items: Item, filter_: Filter = NO_FILTER) -> set[str]:
    store = await store_of(*items)
    timeline = InMemoryTimeline(store)
    holding = HoldingLeg(Holding(store, timeline))
    legs = {"important": ImportantLeg(timeline), "holding": holding}
    asked = query("", scope=scope(filter_=filter_))
    return set(hit_ids(await answered(store, legs, OPENING, asked)))


def said(count: int) -> list[Item]:
    return [segment(f"t{n}", f"remark {n}", event_time=NOON - days(n)) for n in range(count)]


async def test_opening_shares_its_places_between_legs() -> None:
    important = segment("pinned", "I am deaf.", importance=1.0, event_time=NOON - days(900))
    facts = [fact(f"f{n}", "Ola", "likes", f"tea {n}") for n in range(20)]

    found = await shown(*said(20), important, *facts)

    assert len(found) == 10
    assert found >= {"pinned", "t0", "t1", "t2", "f0", "f1"}


async def test_opening_is_filled_by_the_latest_turns() -> None:
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
