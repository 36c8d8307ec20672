"""Which tenants are in memory, and when they may answer."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.postgres.words.tsvector import stored_words
from serving.adapters.resident import TenantsInMemory, residents, times, words
from serving.adapters.resident.entities import NearNames
from serving.adapters.resident.tenant import ITEM_BYTES
from serving.adapters.resident.words import Words, rank_of
from serving.domain.budget import Deadline
from serving.domain.items.period import Period, disjoint
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.domain.items.text import text_of
from serving.domain.languages import ENGLISH
from serving.domain.questions.named_entities import content_words, one_letter_apart
from serving.domain.questions.query import Filter, TimeRange
from serving.domain.ranking.leg_options import Walk, WordsMode, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.words.query_plan import MAX_SCORED
from serving.ports.memory_store import Batch
from tests.fakes.resident_feed import InMemoryFeed
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.support.builders import NOON, OTHER, TENANT, days, fact, ids, query, scope, segment
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async

SOON = 60.0


async def loaded(
    feed: InMemoryFeed, *tenants: TenantName, max_bytes: int = 2**30
) -> TenantsInMemory:
    """A view with these tenants."""
    view = TenantsInMemory(feed, max_bytes)
    for tenant in tenants:
        await view.load(tenant, Deadline.after(SOON))
    return view


async def holding(*items: Item) -> tuple[InMemoryFeed, TenantsInMemory]:
    """A feed of these items, and a view that has loaded them."""
    feed = InMemoryFeed()
    feed.put(*items)
    return feed, await loaded(feed, TENANT)


def words_of(
    view: TenantsInMemory, text: str = "Goa", tenant: TenantName = TENANT
) -> list[str] | None:
    """The ids that a view finds by words; None if it does not answer."""
    found = view.find_by_words(query(text, scope=scope(tenant)), WordsSearch(), 10)
    return None if found is None else [each.item.id for each in found]


def walked(view: TenantsInMemory, text: str, tenant: TenantName = TENANT) -> list[str] | None:
    """The ids that a walk in a view finds; None if it does not answer."""
    found = view.walk(query(text, scope=scope(tenant)), Walk(), 10, Yields.EVIDENCE)
    return None if found is None else [each.item.id for each in found]


async def test_first_question_loads_its_tenant_unanswered() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a"))
    view = TenantsInMemory(feed, 2**30)

    first = words_of(view)
    await view.load(TENANT, Deadline.after(SOON))

    assert (first, words_of(view)) == (None, ["a"])
    assert feed.reads == 1


async def test_announced_write_is_applied_before_an_answer() -> None:
    feed, view = await holding(segment("a"))

    feed.put(segment("b"))
    before = words_of(view)
    await view.advance()

    assert (before, words_of(view)) == (None, ["a", "b"])


async def test_write_of_another_tenant_silences_nobody_else() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a"))
    feed.put(segment("a"), tenant=OTHER)
    view = await loaded(feed, TENANT, OTHER)

    feed.put(segment("b"), tenant=OTHER)

    assert (words_of(view), words_of(view, tenant=OTHER)) == (["a"], None)


async def test_unseen_write_of_the_caller_has_no_answer() -> None:
    feed, view = await holding(segment("a"))
    token = feed.put(segment("b"))
    feed.announced.clear()  # it was lost

    assert view.rows(TENANT, ids("a"), None) is not None
    assert view.rows(TENANT, ids("a"), token) is None
    await view.advance()
    rows = view.rows(TENANT, ids("b"), token)
    assert rows is not None
    assert rows.rows.keys() == {*ids("b")}


async def test_unchecked_log_ends_answers() -> None:
    feed, clock = InMemoryFeed(), SteppedClock()
    feed.put(segment("a"))
    view = TenantsInMemory(feed, 2**30, clock)
    await view.load(TENANT, Deadline.after(SOON))

    clock.now = residents.UNCHECKED_S + 1
    late = words_of(view)
    await view.advance()

    assert (late, words_of(view)) == (None, ["a"])


async def test_erased_item_is_gone_once_caught_up() -> None:
    feed, view = await holding(segment("a"), fact("f", "Mara", "likes", "Goa"))
    erased: list[ItemId] = [segment("a").item, fact("f", "Mara", "likes", "Goa").item]
    token = feed.remove(*erased)

    assert not await view.caught_up(TENANT, token, Deadline.after(0))
    assert view.count(TENANT, erased) == 2
    await view.advance()

    assert await view.caught_up(TENANT, token, Deadline.after(0))
    assert view.count(TENANT, erased) == 0
    assert words_of(view) == []
    assert view.has_facts(TENANT, None) is False


async def test_absent_tenant_lacks_no_write_in_memory() -> None:
    feed, view = await holding(segment("a"))

    token = feed.put(segment("a"), tenant=OTHER)

    assert await view.caught_up(OTHER, token, Deadline.after(0))
    assert not await view.caught_up(TENANT, token, Deadline.after(0))


async def test_only_changes_of_its_tenants_are_read() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a"))
    feed.put(segment("a"), tenant=OTHER)
    view = TenantsInMemory(feed, 2**30, SteppedClock())

    async with view:
        await view.load(TENANT, Deadline.after(SOON))
        feed.put(segment("b"), tenant=OTHER)
        await until_async(feed.was_waited_for)
        idle = feed.reads_of_changes
        token = feed.put(segment("b"))
        assert await view.caught_up(TENANT, token, Deadline.after(SOON))

    assert (idle, feed.reads_of_changes) == (0, 1)


async def test_tenant_written_before_its_load_answers_at_once() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a"))
    view = TenantsInMemory(feed, 2**30, SteppedClock())

    async with view:
        await view.load(TENANT, Deadline.after(SOON))
        token = feed.put(segment("a"), tenant=OTHER)
        await until_async(feed.was_waited_for)
        await view.load(OTHER, Deadline.after(SOON))

        assert view.rows(OTHER, ids("a"), token) is not None


async def test_tenants_never_see_each_other() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a", "We sailed to Goa.", entities=("Mara",)))
    feed.put(segment("a", "A canary in Goa.", entities=("Mara",)), tenant=OTHER)
    feed.put(segment("b", "Another in Goa.", entities=("Mara",)), tenant=OTHER)
    view = await loaded(feed, TENANT, OTHER)
    feed.put(segment("c", "Canaries of Goa.", entities=("Mara",)), tenant=OTHER)
    await view.advance()

    assert (words_of(view), walked(view, "Mara")) == (["a"], ["a"])
    assert words_of(view, "canary") == []
    rows = view.rows(TENANT, ids("a", "b", "c"), None)
    assert rows is not None
    assert [text_of(row) for row in rows.rows.values()] == ["We sailed to Goa."]
    assert sorted(words_of(view, tenant=OTHER) or ()) == ["a", "b", "c"]


async def test_least_recently_asked_tenant_gives_way() -> None:
    feed = InMemoryFeed()
    names = [TenantName(f"tenant {number}") for number in range(3)]
    for name in names:
        feed.put(segment("a"), tenant=name)
    view = await loaded(feed, *names[:2], max_bytes=5 * ITEM_BYTES // 2)

    words_of(view, tenant=names[0])
    await view.load(names[2], Deadline.after(SOON))

    assert [words_of(view, tenant=name) for name in names] == [["a"], None, ["a"]]


async def test_too_large_tenant_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "MAX_SEGMENTS", 1)
    feed = InMemoryFeed()
    feed.put(segment("a"), segment("b"))
    view = await loaded(feed, TENANT, TENANT)

    assert words_of(view) is None
    assert feed.reads == 1


async def test_lost_log_empties_the_memory() -> None:
    feed, view = await holding(segment("a"))

    async def is_empty() -> bool:
        return view.bytes == 0

    async with view:
        before = view.count(TENANT, ids("a"))
        feed.is_lost = True
        feed.put(segment("b"))
        await until_async(is_empty)

    assert before == 1


async def test_many_changes_have_a_tenant_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "MAX_CHANGES", 1)
    feed, view = await holding(segment("a"))
    feed.put(segment("b"), segment("c"))
    await view.advance()

    assert view.count(TENANT, ids("a")) == 0
    await view.load(TENANT, Deadline.after(SOON))
    assert words_of(view) == ["a", "b", "c"]


async def test_tenant_with_hidden_rows_leaves_words_to_postgres() -> None:
    feed = InMemoryFeed()
    feed.put(segment("a", entities=("Mara",)))
    feed.hiding.add(TENANT)
    view = await loaded(feed, TENANT)

    rows = view.rows(TENANT, ids("a", "b"), None)

    assert (words_of(view), walked(view, "Mara")) == (None, ["a"])
    assert rows is not None
    assert rows.rows.keys() == {*ids("a")}
    assert not rows.complete
    assert view.has_facts(TENANT, None) is None


async def test_custom_searches_are_left_to_the_stores() -> None:
    _, view = await holding(segment("a", entities=("Mara",)))
    asked = query("Mara", scope=scope(TENANT))

    assert view.find_by_words(asked, WordsSearch(mode=WordsMode.ANY), 10) is None
    assert view.walk(asked, Walk(hops=1), 10, Yields.EVIDENCE) is None
    assert view.walk(asked, Walk(), 10, Yields.FACTS) is None


async def test_bytes_follow_writes_and_erasures() -> None:
    feed, view = await holding(segment("a"), segment("b", "longer " * 100))
    before = view.bytes
    feed.put(segment("c"))
    await view.advance()
    more = view.bytes
    feed.remove(*ids("b", "c"))
    await view.advance()

    assert more > before > view.bytes > 0


# ---------------------------------------------------------------- times


INSTANTS = st.integers(-9, 9).map(lambda count: NOON + days(count))
PERIODS = st.builds(
    lambda begins, length: Period(begins, begins + days(length)),
    INSTANTS,
    st.sampled_from([1, 3, 9]),
)
SEGMENTS = st.lists(
    st.builds(
        lambda number, **fields: segment(f"s{number}", **fields),
        st.integers(0, 9),
        event_time=INSTANTS,
        speaker=st.sampled_from(["Mara", "Otis"]),
        mentions=st.lists(PERIODS, min_size=1, max_size=2).map(disjoint),
    ),
    min_size=4,
    max_size=12,
)


@given(
    SEGMENTS,
    st.sets(st.integers(0, 9).map("s{}".format)),
    SEGMENTS,
    PERIODS,
    st.sampled_from([Filter(), Filter(speakers=("Mara",))]),
    st.sampled_from([NOON, NOON + days(20)]),
    st.sampled_from([1, 3, 99]),
)
async def test_times_in_memory_are_those_of_a_full_comparison(
    first: list[Segment],
    gone: set[str],
    later: list[Segment],
    period: Period,
    filter_: Filter,
    as_of: datetime,
    depth: int,
) -> None:
    feed, store = InMemoryFeed(), InMemoryStore()
    view = TenantsInMemory(feed, 2**30)
    feed.put(segment("a"), *first)
    await view.load(TENANT, Deadline.after(SOON))
    feed.remove(*ids("a", *gone))
    feed.put(*later)
    await view.advance()
    stored = {each.id: each for each in [*first, *later]}
    kept = {each.id for each in later} | (stored.keys() - gone)
    await store.write(Batch(TENANT, [stored[id_] for id_ in kept]))
    reference, deadline = InMemoryTimeline(store), Deadline.after(SOON)
    of = scope(TENANT, filter_=filter_, as_of=as_of)
    within = of.within(TimeRange(period.begins, period.ends))

    for asked in (of, within):
        for earliest_first in (False, True):
            assert view.latest(
                query("", scope=asked), depth, earliest_first=earliest_first
            ) == await reference.latest(asked, depth, deadline, earliest_first=earliest_first)
    assert view.mentioning(period, query("", scope=of), depth) == await reference.mentioning(
        period, of, depth, deadline
    )


async def test_many_segments_of_a_time_are_left_to_postgres(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(times, "MAX_ROWS", 1)
    feed = InMemoryFeed()
    tomorrow = Period(NOON + days(1), NOON + days(2))
    feed.put(
        segment("a", mentions=(tomorrow,)),
        segment("b", mentions=(tomorrow,)),
        segment("c", event_time=NOON - days(1)),
    )
    view = await loaded(feed, TENANT)
    asked = scope(TENANT, as_of=NOON)
    few = asked.within(TimeRange(NOON - days(2), NOON - days(0.5)))

    assert view.latest(query("", scope=asked), 9, earliest_first=False) is None
    assert view.mentioning(tomorrow, query("", scope=asked), 9) is None
    found = view.latest(query("", scope=few), 9, earliest_first=False)
    assert found is not None
    assert [each.item.id for each in found] == ["c"]


# ---------------------------------------------------------------- words


EVEN = (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("labels", "weights", "rank"),
    [
        # As `SELECT ts_rank(weights, tsv, word)` of PostgreSQL 18 prints them.
        ("D", EVEN, 0.6079271),
        ("DD", EVEN, 0.75990885),
        ("CD", (1.0, 0.0, 1.0, 1.0), 0.6079271),
        ("DAD", (0.5, 0.0, 1.0, 1.0), 0.9456644),
        ("ABCDC", (0.3, 0.7, 1.0, 0.1), 0.7444237),
        ("D", (0.0, 0.0, 0.0, 0.0), 0.0),
    ],
)
def test_rank_is_that_of_postgresql(labels: str, weights: tuple[float, ...], rank: float) -> None:
    assert rank_of(labels, weights) == np.float32(rank)


def put(all_words: Words, item: Segment) -> None:
    """Adds or replaces a segment."""
    all_words.put(item, *stored_words(item, "english"))


def found(all_words: Words, text: str) -> list[str] | None:
    """The ids that are found by words."""
    candidates = all_words.search(query(text), WordsSearch(), 10)
    return None if candidates is None else [each.item.id for each in candidates]


def test_replaced_segment_is_found_by_its_new_words() -> None:
    all_words = Words(ENGLISH)
    put(all_words, segment("a", "sailed to Goa"))
    put(all_words, segment("a", "sailed to Rome"))

    assert (found(all_words, "Goa"), found(all_words, "Rome")) == ([], ["a"])


def test_many_replaced_segments_call_for_renewal() -> None:
    all_words = Words(ENGLISH)
    for _ in range(words.MIN_DEAD_TO_RENEW + 2):
        assert not all_words.mostly_dead
        put(all_words, segment("a"))

    assert all_words.mostly_dead


def test_too_many_rows_to_score_have_no_answer() -> None:
    all_words = Words(ENGLISH)
    for number in range(MAX_SCORED + 1):
        put(all_words, segment(f"s{number:05}", "Goa"))

    assert found(all_words, "Goa") is None
    assert found(all_words, "Rome") == []


# ---------------------------------------------------------------- entities


WORDS = st.text("abé", min_size=1, max_size=6)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@given(st.sets(NAMES), st.sets(NAMES), NAMES)
def test_near_names_are_those_of_a_full_comparison(
    names: set[str], dropped: set[str], question: str
) -> None:
    near = NearNames()
    for name in names | dropped:
        near.add(name)
    for name in dropped - names:
        near.discard(name)

    assert near.names(question) == {name for name in names if resembles(name, question)}


def resembles(name: str, question: str) -> bool:
    """Whether a word of the name is in the question, or one that differs by a letter."""
    return any(
        word == asked or one_letter_apart(word, asked)
        for word in content_words(name)
        for asked in content_words(question)
    )
