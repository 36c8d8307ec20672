"""What holds about somebody: which facts and statements, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError, StoreUnavailableError
from serving.domain.items.records import Item, ItemId, TenantName, segment_id
from serving.domain.questions.query import Filter, Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.describe import Describer, Description
from serving.pipeline.retrieval.holding import MAX_READ, Holding
from tests.fakes.pipeline import FixedIndex
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, days, fact, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import store_of

SPEAKER = Filter(speakers=("Mia",))
ENTITY = Filter(entities=("Mia",))


def about_mia(filter_: Filter = SPEAKER, **fields: Any) -> Query:
    return query("Mia", scope=scope(filter_=filter_, **fields))


async def described(*items: Item, asked: Query | None = None, **parts: Any) -> Description:
    store = await store_of(*items)
    describer = Describer(store, Holding(store, InMemoryTimeline(store), **parts))
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


async def test_entity_is_described_by_what_mentions_it() -> None:
    found = await described(
        segment("mentions", "She sails to Goa.", speaker="Tom", entities=("Mia",)),
        segment("represents", "A sailor of Goa.", entity="mia", event_time=NOON - days(1)),
        by_mia("said", "The boat leaks."),
        asked=about_mia(ENTITY),
    )

    assert ids_of(found) == "mentions represents"


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


@pytest.mark.parametrize(
    "moved",
    [
        by_mia("moved", "The boat leaks.", -9),
        by_mia("moved", "The boat leaks.", expires_at=NOON),
    ],
)
async def test_row_that_has_left_the_scope_is_not_shown(moved: Item) -> None:
    store = await store_of(moved)

    describer = Describer(store, Holding(store, Outrun(store)))
    found = await describer.describe(about_mia(), Deadline.after(60))

    assert not found.items


class Tokyo(InMemoryStore):
    """A tenant that is nine hours ahead."""

    async def read_time_zone(self, tenant: TenantName, deadline: Deadline) -> tzinfo:
        return timezone(timedelta(hours=9))


async def test_zone_is_the_tenants_unless_given() -> None:
    store, utc = Tokyo(), UTC
    describer = Describer(store, Holding(store, InMemoryTimeline(store)))

    usual = await describer.describe(about_mia(), Deadline.after(60))
    given = await describer.describe(query("Mia", time_zone=utc), Deadline.after(60))

    assert (usual.query.local_time.hour, given.query.local_time.hour) == (21, 12)


class Unreachable(InMemoryTimeline):
    """Fails as PostgreSQL does."""

    def __init__(self, error: Exception) -> None:
        super().__init__(InMemoryStore())
        self._error = error

    async def latest(self, *_: Any, **__: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (TimeoutError(), BudgetExhaustedError),
        (StoreUnavailableError("refused"), StoreUnavailableError),
    ],
)
async def test_lost_store_fails_the_description(error: Exception, raised: type[Exception]) -> None:
    store = InMemoryStore()
    describer = Describer(store, Holding(store, Unreachable(error)))

    with pytest.raises(raised):
        await describer.describe(about_mia(), Deadline.after(60))
