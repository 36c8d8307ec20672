"""What every memory store does, the one in memory and PostgreSQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pytest

from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.domain.budget import Deadline
from serving.domain.errors import InvalidRequestError, TextSearchConfigConflictError
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.domain.questions.query import Filter, TimeRange
from serving.ports.memory_store import (
    SAMPLED,
    Batch,
    GivenVectors,
    MemoryStore,
    Selected,
    Selector,
)
from tests.fakes.meaning import FAKE_MODEL, unit
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, batch_of, days, fact, ids, segment

Stores: TypeAlias = InMemoryStore | PostgresMemoryStore

RICH = segment(
    "s",
    'She said: "don\'t" \\ {curly} 100 % 🏖️',
    title="Trip",
    speaker="Mary-Ann",
    session="monday",
    kind="note",
    importance=0.7,
    labels={"project": "goa", 'with "quotes"': "and \\ {braces},"},
    entities=("Goa", 'The "Ritz", Goa', "back\\slash", "🏖️"),
    entity="Mary-Ann",
)
RICH_FACT = fact(
    "f",
    "Ann",
    "sailed to",
    "Goa",
    sentence="Ann sailed to Goa.",
    valid_from=NOON,
    valid_to=NOON + days(1),
    retracted_at=NOON + days(2),
    evidence=("s", "a"),
    weight=0.25,
)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> Stores:
    if request.param == "memory":
        return InMemoryStore()
    found: PostgresMemoryStore = request.getfixturevalue("postgres").store
    return found


async def load(store: MemoryStore, *items: ItemId, tenant: TenantName = TENANT) -> list[Item]:
    """The stored items, in the order given, without what the server sets."""
    loaded = await store.load(tenant, items, Deadline.after(60))
    return [
        replace(loaded[item], created_at=None, updated_at=None) for item in items if item in loaded
    ]


@pytest.mark.parametrize("item", [RICH, RICH_FACT], ids=["segment", "fact"])
async def test_written_items_are_read(store: Stores, item: Segment | Fact) -> None:
    receipt = await store.write(batch_of(item))

    assert receipt.outcomes == ["created"]
    assert await load(store, item.item) == [item]


async def test_token_of_equal_item_covers_the_first_write(store: Stores) -> None:
    first = await store.write(batch_of(RICH, RICH_FACT))
    await store.write(batch_of(segment("other")))

    again = await store.write(batch_of(RICH_FACT, RICH))

    assert again.outcomes == ["unchanged", "unchanged"]
    assert again.token == first.token


async def test_a_vector_is_no_part_of_the_content(store: Stores) -> None:
    await store.write(batch_of(RICH))
    given = GivenVectors(FAKE_MODEL, {RICH.item: unit(1)})

    again = await store.write(Batch(TENANT, [RICH], given=given))

    assert again.outcomes == ["unchanged"]


async def test_another_content_replaces_the_item(store: Stores) -> None:
    await store.write(batch_of(RICH))
    changed = replace(RICH, importance=0.9)

    receipt = await store.write(batch_of(changed))

    assert receipt.outcomes == ["updated"]
    assert await load(store, RICH.item) == [changed]


async def test_outcomes_come_in_the_order_of_the_items(store: Stores) -> None:
    await store.write(batch_of(segment("b"), segment("c")))

    receipt = await store.write(
        batch_of(segment("c", "new"), fact("a", "x", "y", "z"), segment("b"), segment("a"))
    )

    assert receipt.outcomes == ["updated", "created", "unchanged", "created"]


async def test_an_update_keeps_the_time_of_the_first_write(store: Stores) -> None:
    await store.write(batch_of(segment("a")))
    (before,) = (await store.load(TENANT, ids("a"), Deadline.after(60))).values()

    await store.write(batch_of(segment("a", "changed")))

    (after,) = (await store.load(TENANT, ids("a"), Deadline.after(60))).values()
    assert after.created_at == before.created_at
    assert before.updated_at is not None
    assert after.updated_at is not None
    assert after.updated_at > before.updated_at


async def test_extracted_entities_are_no_part_of_the_content(store: Stores) -> None:
    named = segment("a", entities=("Goa",))
    await store.write(Batch(TENANT, [named], extracted=frozenset(ids("a"))))

    receipt = await store.write(
        Batch(TENANT, [replace(named, entities=("Goa", "Rome"))], extracted=frozenset(ids("a")))
    )

    assert receipt.outcomes == ["unchanged"]
    assert await load(store, named.item) == [named]


@pytest.mark.parametrize(
    ("first", "repeat"),
    [
        (segment("a"), segment("a", event_time=NOON + days(1))),
        (fact("a", "x", "y", "z"), fact("a", "x", "y", "z", recorded_at=NOON + days(1))),
    ],
    ids=["segment", "fact"],
)
async def test_time_set_by_service_is_no_content(
    store: Stores, first: Segment | Fact, repeat: Segment | Fact
) -> None:
    await store.write(Batch(TENANT, [first], undated=frozenset([first.item])))

    receipt = await store.write(Batch(TENANT, [repeat], undated=frozenset([first.item])))

    assert receipt.outcomes == ["unchanged"]
    assert await load(store, first.item) == [first]


@pytest.mark.parametrize(
    "item", [segment("a", entities=("Goa",)), fact("a", "x", "y", "z")], ids=["segment", "fact"]
)
async def test_item_read_back_is_unchanged_by_another_write(
    store: Stores, item: Segment | Fact
) -> None:
    """As in an export, which has the time, the entities and the sentence that the service set."""
    mine = frozenset([item.item])
    copy = TenantName("copy")
    later = (
        replace(item, event_time=NOON + days(1))
        if isinstance(item, Segment)
        else replace(item, recorded_at=NOON + days(1))
    )
    await store.write(Batch(TENANT, [item], extracted=mine, undated=mine))
    (read,) = (await store.load(TENANT, [item.item], Deadline.after(60))).values()
    if isinstance(read, Fact):
        read = replace(read, sentence=read.statement)

    again = await store.write(batch_of(read))
    await store.write(Batch(copy, [read]))
    sent_before = await store.write(Batch(copy, [later], extracted=mine, undated=mine))
    other_time = await store.write(Batch(copy, [later]))

    assert again.outcomes == ["unchanged"]
    assert sent_before.outcomes == ["unchanged"]
    assert other_time.outcomes == ["updated"]


async def test_entities_that_the_client_takes_away_are_a_change(store: Stores) -> None:
    named = segment("a", entities=("Goa",))
    await store.write(batch_of(named))

    extracted = replace(named, entities=("Rome",))
    receipt = await store.write(Batch(TENANT, [extracted], extracted=frozenset(ids("a"))))

    assert receipt.outcomes == ["updated"]


async def test_new_segment_keeps_its_first_stored_time(store: Stores) -> None:
    await store.write(batch_of(segment("a", created_at=NOON)))
    for again in (segment("a", created_at=NOON - days(9)), segment("a", "changed")):
        await store.write(batch_of(again))

    (found,) = (await store.load(TENANT, ids("a"), Deadline.after(60))).values()
    assert (found.created_at, found.item) == (NOON, segment_id("a"))
    assert isinstance(found, Segment)
    assert found.text == "changed"


async def test_a_segment_and_a_fact_may_share_an_id(store: Stores) -> None:
    await store.write(batch_of(segment("a"), fact("a", "x", "y", "z")))

    assert await load(store, segment_id("a"), fact_id("a")) == [
        segment("a"),
        fact("a", "x", "y", "z"),
    ]


async def test_tenants_do_not_see_each_other(store: Stores) -> None:
    other = TenantName("other")
    await store.write(batch_of(segment("a", entities=("Goa",))))
    await store.write(Batch(other, [segment("a", "theirs"), segment("b")]))

    await store.erase(other, Selector(items=tuple(ids("a", "b"))))

    assert await load(store, *ids("a", "b")) == [segment("a", entities=("Goa",))]
    assert await store.count(other, ids("a", "b")) == 0
    assert await store.known_names(other) == {}


async def test_a_tenant_keeps_its_text_search_configuration(store: Stores) -> None:
    await store.write(Batch(TENANT, [segment("a")], "german"))

    with pytest.raises(TextSearchConfigConflictError):
        await store.write(Batch(TENANT, [segment("b")], "english"))

    assert await store.count(TENANT, ids("a", "b")) == 1
    await store.write(batch_of(segment("b")))
    await store.write(Batch(TENANT, [segment("c")], "german"))
    assert await store.count(TENANT, ids("a", "b", "c")) == 3


async def test_a_text_search_configuration_must_exist(store: Stores) -> None:
    with pytest.raises(InvalidRequestError):
        await store.write(Batch(TENANT, [segment("a")], "klingon"))

    assert await store.count(TENANT, ids("a")) == 0


async def test_first_write_gives_a_tenant_its_time_zone(store: Stores) -> None:
    unknown = await store.read_time_zone(TENANT, Deadline.after(5))
    await store.write(Batch(TENANT, [segment("a")], time_zone=ZoneInfo("Asia/Kolkata")))
    await store.write(Batch(TENANT, [segment("b")], time_zone=ZoneInfo("Europe/Lisbon")))
    await store.write(Batch(TenantName("other"), [segment("a")]))

    assert unknown == UTC
    assert await store.read_time_zone(TENANT, Deadline.after(5)) == ZoneInfo("Asia/Kolkata")
    assert await store.read_time_zone(TenantName("other"), Deadline.after(5)) == UTC


async def test_facts_are_known_from_the_first_on(store: Stores) -> None:
    other = TenantName("other")
    await store.write(batch_of(segment("a")))
    before = await store.has_facts(TENANT, None, Deadline.after(5))

    receipt = await store.write(batch_of(fact("f", "Ann", "sails", "Goa")))

    assert not before
    # First without the token, with which the store is asked in any case.
    assert await store.has_facts(TENANT, None, Deadline.after(5))
    assert await store.has_facts(TENANT, receipt.token, Deadline.after(5))
    assert not await store.has_facts(other, None, Deadline.after(5))


async def test_an_unknown_tenant_has_nothing(store: Stores) -> None:
    assert await load(store, *ids("a")) == []
    assert await store.count(TENANT, ids("a")) == 0
    assert await store.known_names(TENANT) == {}
    assert (await store.erase(TENANT, Selector(everything=True))).items == []


async def test_names_of_entities_are_known_by_their_key(store: Stores) -> None:
    await store.write(
        batch_of(
            segment("a", entities=("Mary-Ann",), entity="The Ritz"),
            fact("f", "Bob", "likes", "Goa"),
        )
    )

    assert await store.known_names(TENANT) == {
        "mary-ann": "Mary-Ann",
        "the ritz": "The Ritz",
        "bob": "Bob",
        "goa": "Goa",
    }


GOA, ROME = ("Goa",), ("Rome",)
RESTING = fact("f", "Ann", "likes", "Bob", evidence=("a", "b"))
A, B, HIDDEN_A = segment("a"), segment("b"), segment("a", sensitive=True)


KNOWN_AFTER: dict[str, tuple[list[list[Item]], str]] = {
    "hidden": ([[segment("a", entities=GOA, sensitive=True)]], ""),
    "shown elsewhere": (
        [[segment("a", entities=GOA, sensitive=True), segment("b", entities=GOA)]],
        "goa",
    ),
    "hidden later": (
        [[segment("a", entities=GOA)], [segment("a", entities=GOA, sensitive=True)]],
        "",
    ),
    "shown later": (
        [[segment("a", entities=GOA, sensitive=True)], [segment("a", entities=GOA)]],
        "goa",
    ),
    "hidden fact": ([[replace(RESTING, sensitive=True)]], ""),
    "fact hidden later": ([[RESTING], [replace(RESTING, sensitive=True)]], ""),
    "fact on shown evidence": ([[A, B, RESTING]], "ann bob"),
    "fact on hidden evidence": ([[HIDDEN_A, RESTING]], ""),
    "evidence hidden later": ([[A, RESTING], [HIDDEN_A]], ""),
    "evidence shown later": ([[HIDDEN_A, RESTING], [A]], "ann bob"),
    "moved to hidden evidence": ([[HIDDEN_A, fact("f", "Ann", "likes", "Bob")], [RESTING]], ""),
    "replaced": ([[segment("a", entities=GOA)], [segment("a", entities=ROME)]], "rome"),
    "replaced in one of two": (
        [[segment("a", entities=GOA), segment("b", entities=GOA)], [A]],
        "goa",
    ),
    "replaced in a fact": (
        [[fact("f", "Ann", "likes", "Goa")], [fact("f", "Ann", "likes", "Rome")]],
        "ann rome",
    ),
}


async def test_only_names_of_shown_items_are_known(store: Stores) -> None:
    for case, (writes, known) in KNOWN_AFTER.items():
        for items in writes:
            await store.write(Batch(TenantName(case), items))

        assert " ".join(sorted(await store.known_names(TenantName(case)))) == known, case


async def test_a_name_is_forgotten_with_its_last_shown_item(store: Stores) -> None:
    await store.write(batch_of(segment("a", entities=GOA), segment("b", entities=ROME)))
    await store.write(batch_of(segment("hidden", entities=GOA, sensitive=True)))

    await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert (await store.known_names(TENANT)).keys() == {"rome"}


async def test_names_of_unhidden_fact_are_known_again(store: Stores) -> None:
    await store.write(batch_of(HIDDEN_A, B, RESTING))

    await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert (await store.known_names(TENANT)).keys() == {"ann", "bob"}


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        (Selector(items=(segment_id("a"), fact_id("f"))), "b c"),
        (Selector(items=(segment_id("f"),)), "a b c"),
        (Selector(session="monday"), "b c"),
        (Selector(speaker="ANN"), "c"),
        (Selector(speaker=""), "a b c"),
        (Selector(session=""), "a b c"),
        (Selector(everything=True), ""),
        (Selector(filter=Filter(labels={"project": ("goa", "rome")})), "b c"),
        (Selector(filter=Filter(labels={"project": ("rome",)})), "a b c"),
        (Selector(filter=Filter(event_time=TimeRange(NOON, NOON + days(1)))), "b"),
        (Selector(filter=Filter(event_time=TimeRange(end=NOON))), "a b c"),
        (Selector(filter=Filter(speakers=("ann",), event_time=TimeRange(NOON + days(1)))), "a c"),
    ],
    ids=[
        "ids",
        "id of the other kind",
        "session",
        "speaker",
        "no speaker",
        "no session",
        "everything",
        "label",
        "label of no segment",
        "time range",
        "time range of no segment",
        "filter of several fields",
    ],
)
async def test_selected_items_are_erased(store: Stores, selector: Selector, left: str) -> None:
    await store.write(
        batch_of(
            segment("a", speaker="Ann", session="monday", labels={"project": "goa"}),
            segment("b", speaker="ann", event_time=NOON + days(1)),
            segment("c"),
            fact("f", "Ann", "likes", "Goa"),
        )
    )
    other = TenantName("other")
    alike = segment("a", speaker="Ann", session="monday", labels={"project": "goa"})
    theirs: list[Item] = [alike, replace(alike, id="theirs"), fact("theirs", "Ann", "likes", "Goa")]
    await store.write(Batch(other, theirs))

    selected = await store.count_selected(TENANT, selector)
    assert await store.count(TENANT, [*ids("a", "b", "c"), fact_id("f")]) == 4
    receipt = await store.erase(TENANT, selector)

    assert selected.facts == receipt.items.count(fact_id("f"))
    gone = set("abc") - set(left.split())
    names = {"a": "Ann", "b": "ann", "c": ""}
    assert selected.segments_by_speaker == Counter(names[each] for each in gone)
    assert await load(store, *ids("a", "b", "c")) == await load(store, *ids(*left.split()))
    assert await store.count(TENANT, ids("a", "b", "c")) == len(left.split())
    assert await store.count(other, ids("a")) == 1
    erased = {item.id for item in receipt.items if item.kind == "segment"}
    assert erased == {"a", "b", "c"} - set(left.split())


async def test_the_receipt_of_an_erasure_has_the_items_as_they_were(store: Stores) -> None:
    seen = segment("a", entities=("Goa",))
    secret = segment("b", sensitive=True)
    resting = [fact("f", "Ann", "likes", "Goa", evidence=(name,)) for name in ("a", "b")]
    known, hidden = replace(resting[0], id="known"), replace(resting[1], id="hidden")
    await store.write(batch_of(seen, secret, known, hidden, segment("c", entities=("Rome",))))

    receipt = await store.erase(TENANT, Selector(items=tuple(ids("a", "b"))))

    sample = [
        (replace(each.item, created_at=None, updated_at=None), each.hidden)
        for each in receipt.sample
    ]
    assert sample == [(seen, False), (secret, True), (hidden, True), (known, False)]
    assert sorted(receipt.names) == ["ann", "goa"]
    assert "sailed" not in repr(receipt)
    assert "goa" not in repr(receipt)


async def test_the_receipt_of_a_large_erasure_has_a_sample(store: Stores) -> None:
    many = range(SAMPLED + 1)
    facts = [fact(f"f{place}", "Ann", "likes", "Goa") for place in many]
    await store.write(batch_of(*(segment(f"s{place}") for place in many), *facts))

    sample = (await store.erase(TENANT, Selector(everything=True))).sample

    kinds = [each.item.item.kind for each in sample]
    assert kinds == [ItemKind.SEGMENT] * SAMPLED + [ItemKind.FACT] * SAMPLED


async def test_a_fact_goes_with_the_last_of_its_evidence(store: Stores) -> None:
    await store.write(
        batch_of(
            segment("a"),
            segment("b"),
            fact("both", "x", "y", "z", evidence=("a", "b")),
            fact("one", "x", "y", "z", evidence=("a",)),
            fact("none", "x", "y", "z"),
        )
    )

    selected = await store.count_selected(TENANT, Selector(items=(segment_id("a"),)))
    receipt = await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert selected.facts == 1
    assert sorted(receipt.items) == [fact_id("one"), segment_id("a")]
    assert await load(store, fact_id("both"), fact_id("one"), fact_id("none")) == [
        fact("both", "x", "y", "z", evidence=("b",)),
        fact("none", "x", "y", "z"),
    ]


async def test_evidence_erased_before_its_arrival_is_gone(store: Stores) -> None:
    await store.write(batch_of(fact("f", "x", "y", "z", evidence=("a",))))

    selected = await store.count_selected(TENANT, Selector(items=(segment_id("a"),)))
    receipt = await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert selected == Selected({}, 1)
    assert receipt.items == [fact_id("f")]


async def test_fact_with_lost_evidence_can_be_rewritten(store: Stores) -> None:
    whole = fact("f", "x", "y", "z", evidence=("a", "b"))
    await store.write(batch_of(segment("a"), segment("b"), whole))
    await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    receipt = await store.write(batch_of(whole))

    assert receipt.outcomes == ["updated"]
    assert await load(store, whole.item) == [whole]


async def test_names_go_with_the_last_that_used_them(store: Stores) -> None:
    await store.write(
        batch_of(
            segment("a", entities=("Goa", "Rome", "Oslo")),
            segment("b", entities=("Rome",)),
            fact("f", "Ann", "likes", "Oslo"),
        )
    )

    await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert await store.known_names(TENANT) == {"rome": "Rome", "ann": "Ann", "oslo": "Oslo"}


async def test_erased_id_is_new_after_another_write(store: Stores) -> None:
    await store.write(batch_of(segment("a")))
    await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    receipt = await store.write(batch_of(segment("a")))

    assert receipt.outcomes == ["created"]


async def test_an_erased_tenant_may_choose_another_configuration(store: Stores) -> None:
    await store.write(Batch(TENANT, [segment("a")], "german"))
    await store.erase(TENANT, Selector(everything=True))

    receipt = await store.write(Batch(TENANT, [segment("a")], "simple"))

    assert receipt.outcomes == ["created"]


async def test_a_store_that_answers_is_ready(store: Stores) -> None:
    assert await store.ready()


async def test_an_erasure_that_is_repeated_has_the_token_of_the_last(store: MemoryStore) -> None:
    unknown = await store.erase(TenantName("other"), Selector(everything=True))
    assert unknown.token.xids == frozenset()
    await store.write(batch_of(segment("a"), segment("b")))
    first = await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    again = await store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert again.items == []
    assert again.token == first.token
    assert (await store.erase(TenantName("other"), Selector(everything=True))).token == first.token
