"""What every memory store does, the one in memory and PostgreSQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import (
    InvalidRequestError,
    ItemNotFoundError,
    TextSearchConfigConflictError,
    VersionConflictError,
)
from serving.domain.items.period import Period
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
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.ports.memory_store import (
    SAMPLED,
    Batch,
    GivenVectors,
    Selected,
    Selector,
    WriteReceipt,
)
from tests.fakes.meaning import FAKE_MODEL, unit
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, OTHER, TENANT, batch_of, days, fact, ids, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security


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
    mentions=(
        Period(NOON - days(9999), NOON - days(9998)),
        Period(NOON, NOON + timedelta(microseconds=1)),
    ),
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


async def load(stored: Stored, *items: ItemId) -> list[Item]:
    return [replace(each, created_at=None, updated_at=None) for each in await stored.load(*items)]


async def test_equal_items_have_the_token_of_the_first_write(stored: Stored) -> None:
    first = await stored.write(RICH, RICH_FACT)
    await stored.write(segment("other"))

    again = await stored.write(RICH_FACT, RICH)

    assert (first.outcomes, again.outcomes) == (["created"] * 2, ["unchanged"] * 2)
    assert again.token == first.token
    assert await load(stored, RICH.item, RICH_FACT.item) == [RICH, RICH_FACT]


async def test_outcomes_come_in_the_order_of_the_items(stored: Stored) -> None:
    await stored.write(segment("b"), segment("c"))

    of_equal_id: list[Item] = [fact("a", "x", "y", "z"), segment("a")]
    receipt = await stored.write(segment("c", "new"), *of_equal_id, segment("b"))

    assert receipt.outcomes == ["updated", "created", "created", "unchanged"]
    assert await load(stored, fact_id("a"), segment_id("a")) == of_equal_id


async def test_update_replaces_all_but_the_first_time(stored: Stored) -> None:
    await stored.write(RICH)
    [before] = await stored.load(RICH.item)
    changed = replace(RICH, importance=0.9)

    receipt = await stored.write(changed)

    assert receipt.outcomes == ["updated"]
    assert await load(stored, RICH.item) == [changed]
    [after] = await stored.load(RICH.item)
    assert after.created_at == before.created_at
    assert before.updated_at is not None
    assert after.updated_at is not None
    assert after.updated_at > before.updated_at


IN_GOA = segment("a", entities=("Goa",))
VECTORS = GivenVectors(FAKE_MODEL, {IN_GOA.item: unit(1)})
DESCRIBED = fact("a", "x", "y", "z")


def set_by_service(item: Segment | Fact, tenant: TenantName = TENANT, **changed: Any) -> Batch:
    """A write of the item, whose entities and time the service sets."""
    if isinstance(item, Segment):
        item = replace(item, extracted=True)
    return Batch(tenant, [replace(item, **changed)], undated=frozenset([item.item]))


PAST, FUTURE = NOON - days(400), datetime.now(UTC) + days(400)
LASTING = segment("lasting", expires_at=FUTURE)
LONGER, ALWAYS = replace(LASTING, expires_at=FUTURE + days(1)), replace(LASTING, expires_at=None)
DEFAULTED = frozenset([LASTING.item])
FOUND = set_by_service(IN_GOA)
BY_DEFAULT = Batch(TENANT, [LASTING], expiring=DEFAULTED)

UNCHANGED = {
    "vector": (batch_of(IN_GOA), Batch(TENANT, [IN_GOA], given=VECTORS)),
    "extracted entities": (FOUND, set_by_service(IN_GOA, entities=("Goa", "Rome"))),
    "time of a segment": (FOUND, set_by_service(IN_GOA, event_time=NOON + days(1))),
    "time of a fact": (
        set_by_service(DESCRIBED),
        set_by_service(DESCRIBED, recorded_at=NOON + days(1)),
    ),
    "default expiry": (BY_DEFAULT, Batch(TENANT, [LONGER], expiring=DEFAULTED)),
    "stored version": (batch_of(IN_GOA), Batch(TENANT, [IN_GOA], versions={IN_GOA.item: 1})),
}
UPDATED = {
    "other entities": (batch_of(IN_GOA), set_by_service(IN_GOA, entities=("Rome",))),
    "no default expiry": (BY_DEFAULT, Batch(TENANT, [ALWAYS], versions={LASTING.item: 1})),
    "another expiry": (batch_of(LASTING), batch_of(LONGER)),
    "about to expire": (batch_of(LASTING), Batch(TENANT, [LONGER], at=FUTURE - days(1))),
}


@pytest.mark.parametrize(("first", "repeat"), UNCHANGED.values(), ids=UNCHANGED)
async def test_additions_of_service_are_no_content(
    stored: Stored, first: Batch, repeat: Batch
) -> None:
    written = await stored.store.write(first)

    again = await stored.store.write(repeat)

    assert (again.outcomes, again.token) == (["unchanged"], written.token)
    [found] = await stored.load(first.items[0].item)
    assert (found.version, (await stored.write(found)).outcomes) == (1, ["unchanged"])
    assert [replace(found, created_at=None, updated_at=None)] == [*first.items]


@pytest.mark.parametrize(("first", "repeat"), UPDATED.values(), ids=UPDATED)
async def test_other_content_is_an_update(stored: Stored, first: Batch, repeat: Batch) -> None:
    await stored.store.write(first)

    assert (await stored.store.write(repeat)).outcomes == ["updated"]

    assert await load(stored, repeat.items[0].item) == [*repeat.items]


@pytest.mark.parametrize("item", [IN_GOA, DESCRIBED], ids=["segment", "fact"])
async def test_item_read_back_is_unchanged_by_another_write(
    stored: Stored, item: Segment | Fact
) -> None:
    """As in an export, which has the time, the entities and the sentence that the service set."""
    copy = TenantName("copy")
    time = "event_time" if isinstance(item, Segment) else "recorded_at"
    later: dict[str, Any] = {time: NOON + days(1)}
    await stored.store.write(set_by_service(item))
    [read] = await stored.load(item.item)
    if isinstance(read, Fact):
        read = replace(read, sentence=read.statement)

    again = await stored.write(read)
    await stored.write(read, tenant=copy)
    sent_before = await stored.store.write(set_by_service(item, copy, **later))
    other_time = await stored.write(replace(item, **later), tenant=copy)

    assert (again.outcomes, sent_before.outcomes) == (["unchanged"], ["unchanged"])
    assert other_time.outcomes == ["updated"]


async def test_new_segment_keeps_its_first_stored_time(stored: Stored) -> None:
    await stored.write(segment("a", created_at=NOON))
    for again in (segment("a", created_at=NOON - days(9)), segment("a", "changed")):
        await stored.write(again)

    [found] = await stored.load(segment_id("a"))
    assert found == segment("a", "changed", created_at=NOON, updated_at=found.updated_at)


async def test_tenants_do_not_see_each_other(stored: Stored) -> None:
    await stored.write(IN_GOA)
    await stored.write(segment("a", "theirs"), segment("b"), tenant=OTHER)

    await stored.erase(*ids("a", "b"), tenant=OTHER)

    assert await load(stored, *ids("a", "b")) == [IN_GOA]
    assert await stored.store.count(OTHER, ids("a", "b")) == 0
    assert await stored.store.known_names(OTHER) == {}


async def test_a_tenant_keeps_its_text_search_configuration(stored: Stored) -> None:
    await stored.store.write(Batch(TENANT, [segment("a")], "german"))

    with pytest.raises(TextSearchConfigConflictError):
        await stored.store.write(Batch(TENANT, [segment("b")], "english"))

    assert await stored.store.count(TENANT, ids("a", "b")) == 1
    await stored.write(segment("b"))
    await stored.store.write(Batch(TENANT, [segment("c")], "german"))
    assert await stored.store.count(TENANT, ids("a", "b", "c")) == 3
    await stored.store.erase(TENANT, Selector(everything=True))
    again = await stored.store.write(Batch(TENANT, [segment("a")], "simple"))
    assert again.outcomes == ["created"], "an erased tenant may choose another"


async def test_a_text_search_configuration_must_exist(stored: Stored) -> None:
    with pytest.raises(InvalidRequestError):
        await stored.store.write(Batch(TENANT, [segment("a")], "klingon"))

    assert await stored.store.count(TENANT, ids("a")) == 0


async def test_first_write_gives_a_tenant_its_time_zone(stored: Stored) -> None:
    unknown = await stored.store.read_time_zone(TENANT, Deadline.after(5))
    await stored.store.write(Batch(TENANT, [segment("a")], time_zone=ZoneInfo("Asia/Kolkata")))
    await stored.store.write(Batch(TENANT, [segment("b")], time_zone=ZoneInfo("Europe/Lisbon")))
    await stored.write(segment("a"), tenant=OTHER)

    assert unknown == UTC
    assert await stored.store.read_time_zone(TENANT, Deadline.after(5)) == ZoneInfo("Asia/Kolkata")
    assert await stored.store.read_time_zone(OTHER, Deadline.after(5)) == UTC


async def test_first_fact_makes_tenant_have_facts(stored: Stored) -> None:
    await stored.write(segment("a"))
    before = await stored.store.has_facts(TENANT, Deadline.after(5))

    await stored.write(fact("f", "Ann", "sails", "Goa"))

    assert not before
    assert await stored.store.has_facts(TENANT, Deadline.after(5))
    assert not await stored.store.has_facts(OTHER, Deadline.after(5))


async def test_an_unknown_tenant_has_nothing(stored: Stored) -> None:
    assert await load(stored, *ids("a")) == []
    assert await stored.store.count(TENANT, ids("a")) == 0
    assert await stored.store.known_names(TENANT) == {}
    assert (await stored.store.erase(TENANT, Selector(everything=True))).items == []


async def test_names_of_entities_are_known_by_their_key(stored: Stored) -> None:
    await stored.write(
        segment("a", entities=("Mary-Ann",), entity="The Ritz"), fact("f", "Bob", "likes", "Goa")
    )

    assert await stored.store.known_names(TENANT) == {
        "mary-ann": "Mary-Ann",
        "the ritz": "The Ritz",
        "bob": "Bob",
        "goa": "Goa",
    }


RESTING = fact("f", "Ann", "likes", "Bob", evidence=("a", "b"))
A, B, HIDDEN_A = segment("a"), segment("b"), segment("a", sensitive=True)


IN_ROME, ALSO_IN_GOA = segment("a", entities=("Rome",)), replace(IN_GOA, id="b")
HIDDEN_IN_GOA = replace(IN_GOA, sensitive=True)
LIKES_GOA = fact("f", "Ann", "likes", "Goa")

KNOWN_AFTER: dict[str, tuple[list[list[Item]], str]] = {
    "hidden": ([[HIDDEN_IN_GOA]], ""),
    "shown elsewhere": ([[HIDDEN_IN_GOA, ALSO_IN_GOA]], "goa"),
    "hidden later": ([[IN_GOA], [HIDDEN_IN_GOA]], ""),
    "shown later": ([[HIDDEN_IN_GOA], [IN_GOA]], "goa"),
    "hidden fact": ([[replace(RESTING, sensitive=True)]], ""),
    "fact hidden later": ([[RESTING], [replace(RESTING, sensitive=True)]], ""),
    "fact on shown evidence": ([[A, B, RESTING]], "ann bob"),
    "fact on hidden evidence": ([[HIDDEN_A, RESTING]], ""),
    "evidence hidden later": ([[A, RESTING], [HIDDEN_A]], ""),
    "evidence shown later": ([[HIDDEN_A, RESTING], [A]], "ann bob"),
    "moved to hidden evidence": ([[HIDDEN_A, replace(RESTING, evidence=())], [RESTING]], ""),
    "replaced": ([[IN_GOA], [IN_ROME]], "rome"),
    "replaced in one of two": ([[IN_GOA, ALSO_IN_GOA], [A]], "goa"),
    "replaced in a fact": ([[LIKES_GOA], [replace(LIKES_GOA, object="Rome")]], "ann rome"),
}


async def test_only_names_of_shown_items_are_known(stored: Stored) -> None:
    for case, (writes, known) in KNOWN_AFTER.items():
        for items in writes:
            await stored.write(*items, tenant=TenantName(case))

        assert " ".join(sorted(await stored.store.known_names(TenantName(case)))) == known, case


async def test_names_of_unhidden_fact_are_known_again(stored: Stored) -> None:
    await stored.write(HIDDEN_A, B, RESTING)

    await stored.erase(segment_id("a"))

    assert (await stored.store.known_names(TENANT)).keys() == {"ann", "bob"}


SELECTORS = {
    "ids": (Selector(items=(segment_id("a"), fact_id("f"))), "b c"),
    "id of the other kind": (Selector(items=(segment_id("f"),)), "a b c"),
    "session": (Selector(session="monday"), "b c"),
    "speaker": (Selector(speaker="ANN"), "c"),
    "no speaker": (Selector(speaker=""), "a b c"),
    "no session": (Selector(session=""), "a b c"),
    "everything": (Selector(everything=True), ""),
    "label": (Selector(filter=Filter(labels={"project": ("goa", "rome")})), "b c"),
    "label of no segment": (Selector(filter=Filter(labels={"project": ("rome",)})), "a b c"),
    "time": (Selector(filter=Filter(event_time=TimeRange(NOON, NOON + days(1)))), "b"),
    "time of no segment": (Selector(filter=Filter(event_time=TimeRange(end=NOON))), "a b c"),
    "several fields": (
        Selector(filter=Filter(speakers=("ann",), event_time=TimeRange(NOON + days(1)))),
        "a c",
    ),
}


@pytest.mark.parametrize(("selector", "left"), SELECTORS.values(), ids=SELECTORS)
async def test_selected_items_are_erased(stored: Stored, selector: Selector, left: str) -> None:
    said = segment("a", speaker="Ann", session="monday", labels={"project": "goa"})
    known = fact("f", "Ann", "likes", "Goa")
    await stored.write(
        said, segment("b", speaker="ann", event_time=NOON + days(1)), segment("c"), known
    )
    theirs: list[Item] = [said, replace(said, id="theirs"), replace(known, id="theirs")]
    await stored.write(*theirs, tenant=OTHER)

    selected = await stored.store.count_selected(TENANT, selector)
    assert await stored.store.count(TENANT, [*ids("a", "b", "c"), known.item]) == 4
    receipt = await stored.store.erase(TENANT, selector)

    assert selected.facts == receipt.items.count(known.item)
    gone = set("abc") - set(left.split())
    names = {"a": "Ann", "b": "ann", "c": ""}
    assert selected.segments_by_speaker == Counter(names[each] for each in gone)
    assert [each.item.id for each in await load(stored, *ids("a", "b", "c"))] == left.split()
    assert await stored.store.count(OTHER, ids("a")) == 1
    assert {item.id for item in receipt.items if item.kind == "segment"} == gone


async def test_the_receipt_of_an_erasure_has_the_items_as_they_were(stored: Stored) -> None:
    seen, secret = IN_GOA, segment("b", sensitive=True)
    known, hidden = (
        fact(id_, "Ann", "likes", "Goa", evidence=(said,))
        for id_, said in (("known", "a"), ("hidden", "b"))
    )
    await stored.write(seen, secret, known, hidden, segment("c", entities=("Rome",)))

    receipt = await stored.erase(*ids("a", "b"))

    sample = [
        (replace(each.item, created_at=None, updated_at=None), each.hidden)
        for each in receipt.sample
    ]
    assert sample == [(seen, False), (secret, True), (hidden, True), (known, False)]
    assert sorted(receipt.names) == ["ann", "goa"]
    assert "sailed" not in repr(receipt)
    assert "goa" not in repr(receipt)


async def test_the_receipt_of_a_large_erasure_has_a_sample(stored: Stored) -> None:
    many = range(SAMPLED + 1)
    facts = [fact(f"f{place}", "Ann", "likes", "Goa") for place in many]
    await stored.write(*(segment(f"s{place}") for place in many), *facts)

    sample = (await stored.store.erase(TENANT, Selector(everything=True))).sample

    kinds = [each.item.item.kind for each in sample]
    assert kinds == [ItemKind.SEGMENT] * SAMPLED + [ItemKind.FACT] * SAMPLED


async def test_a_fact_goes_with_the_last_of_its_evidence(stored: Stored) -> None:
    await stored.write(
        segment("a"),
        segment("b"),
        fact("both", "x", "y", "z", evidence=("a", "b")),
        fact("one", "x", "y", "z", evidence=("a",)),
        fact("none", "x", "y", "z"),
    )

    selected = await stored.store.count_selected(TENANT, Selector(items=(segment_id("a"),)))
    receipt = await stored.erase(segment_id("a"))

    assert selected.facts == 1
    assert sorted(receipt.items) == [fact_id("one"), segment_id("a")]
    assert await load(stored, fact_id("both"), fact_id("one"), fact_id("none")) == [
        fact("both", "x", "y", "z", evidence=("b",)),
        fact("none", "x", "y", "z"),
    ]


async def test_evidence_erased_before_its_arrival_is_gone(stored: Stored) -> None:
    await stored.write(fact("f", "x", "y", "z", evidence=("a",)))

    selected = await stored.store.count_selected(TENANT, Selector(items=(segment_id("a"),)))
    receipt = await stored.erase(segment_id("a"))

    assert selected == Selected({}, 1)
    assert receipt.items == [fact_id("f")]


async def test_fact_with_lost_evidence_can_be_rewritten(stored: Stored) -> None:
    whole = fact("f", "x", "y", "z", evidence=("a", "b"))
    await stored.write(segment("a"), segment("b"), whole)
    await stored.erase(segment_id("a"))

    receipt = await stored.write(whole)

    assert receipt.outcomes == ["updated"]
    assert await load(stored, whole.item) == [whole]


async def test_names_go_with_the_last_that_showed_them(stored: Stored) -> None:
    await stored.write(
        segment("a", entities=("Goa", "Rome", "Oslo")),
        segment("b", entities=("Rome",)),
        segment("hidden", entities=("Goa",), sensitive=True),
        fact("f", "Ann", "likes", "Oslo"),
    )

    await stored.erase(segment_id("a"))

    assert await stored.store.known_names(TENANT) == {"rome": "Rome", "ann": "Ann", "oslo": "Oslo"}


async def test_an_erasure_that_is_repeated_has_the_token_of_the_last(stored: Stored) -> None:
    unknown = await stored.store.erase(OTHER, Selector(everything=True))
    assert unknown.token.xids == frozenset()
    await stored.write(segment("a"), segment("b"))
    first = await stored.erase(segment_id("a"))

    again = await stored.erase(segment_id("a"))

    assert again.items == []
    assert again.token == first.token
    assert (await stored.store.erase(OTHER, Selector(everything=True))).token == first.token


SAID = segment("a", labels={"mood": "calm"})
TOLD = fact("f", "Ann", "saw", "Goa", evidence=("a", "b"))


async def changed(stored: Stored, item: Item, version: int) -> WriteReceipt:
    """Writes an item as a change of one of its versions."""
    return await stored.store.write(Batch(TENANT, [item], versions={item.item: version}))


async def versions(stored: Stored, *items: ItemId) -> list[int]:
    return [each.version for each in await stored.load(*items)]


async def test_stored_changes_add_one_to_the_version(stored: Stored) -> None:
    await stored.write(SAID, TOLD)
    await stored.write(SAID, TOLD)
    assert await versions(stored, SAID.item, TOLD.item) == [1, 1]

    await stored.write(replace(SAID, title="Trip"), replace(TOLD, sentence="Ann saw Goa!"))
    assert await versions(stored, SAID.item, TOLD.item) == [2, 2]

    await stored.erase(SAID.item)
    assert await versions(stored, TOLD.item) == [3]


async def test_change_of_the_present_version_is_stored(stored: Stored) -> None:
    await stored.write(SAID, TOLD)

    for version, mood in enumerate(["glad", "sad"], start=1):
        receipt = await changed(stored, replace(SAID, labels={"mood": mood}), version)
        assert receipt.outcomes == ["updated"]
    assert (await changed(stored, replace(TOLD, sentence="!"), 1)).outcomes == ["updated"]

    [said, told] = await stored.load(SAID.item, TOLD.item)
    assert said == replace(
        SAID, labels={"mood": "sad"}, created_at=said.created_at, updated_at=said.updated_at
    )
    assert (said.version, told.version) == (3, 2)


@pytest.mark.parametrize("version", [1, 3])
async def test_change_of_another_version_is_none(stored: Stored, version: int) -> None:
    await stored.write(SAID)
    await stored.write(replace(SAID, title="Trip"))

    with pytest.raises(VersionConflictError) as conflict:
        await changed(stored, replace(SAID, title="Lost"), version)

    assert conflict.value.metadata == {"kind": "segment", "id": "a", "version": "2"}
    [found] = await stored.load(SAID.item)
    assert found == replace(
        SAID, title="Trip", created_at=found.created_at, updated_at=found.updated_at
    )


@pytest.mark.parametrize("item", [SAID, TOLD], ids=["segment", "fact"])
async def test_change_of_an_erased_item_stores_nothing(stored: Stored, item: Item) -> None:
    await stored.write(item)
    await stored.erase(item.item)

    with pytest.raises(ItemNotFoundError):
        await changed(stored, item, 1)

    assert await stored.load(item.item) == []


async def test_item_sent_again_replaces_its_change(stored: Stored) -> None:
    await stored.write(SAID)
    await changed(stored, replace(SAID, title="Trip"), 1)

    assert (await stored.write(SAID)).outcomes == ["updated"]

    assert await versions(stored, segment_id("a"), fact_id("a")) == [3]


@pytest.mark.parametrize("extracted", [True, False])
async def test_finder_of_the_entities_is_known(stored: Stored, extracted: bool) -> None:
    await stored.write(replace(SAID, entities=("Goa",), extracted=extracted))

    [found] = await stored.load(SAID.item)

    assert found.extracted is extracted  # type: ignore[union-attr]


EXPIRED = segment("gone", expires_at=PAST)


async def evidence_expiry(stored: Stored, id_: str) -> datetime | None:
    [found] = await stored.load(fact_id(id_))
    assert isinstance(found, Fact)
    return found.evidence_expires_at


async def test_expired_rows_are_neither_listed_nor_counted(stored: Stored) -> None:
    resting = fact("resting", "Ann", "saw", "Goa", evidence=("gone",))
    told = fact("told", "Ann", "likes", "Goa", evidence=("gone", "lasting"))
    await stored.write(
        EXPIRED,
        LASTING,
        segment("hidden", sensitive=True, expires_at=PAST),
        segment("always"),
        resting,
        told,
        fact("over", "Ann", "left", "Goa", expires_at=PAST),
    )

    segments = await stored.catalog.list_segments(TENANT, NO_FILTER, "", 10)
    facts = await stored.catalog.list_facts(TENANT, (), None, "", 10)
    counts = await stored.catalog.tenant_counts(TENANT, None)

    assert [each.id for each in segments] == ["always", "lasting"]
    assert [each.id for each in facts] == ["told"]
    assert (counts.segments, counts.sensitive_segments, counts.facts) == (2, 0, 1)
    assert counts.embeddable == 3


async def test_expiry_of_evidence_is_its_last(stored: Stored) -> None:
    await stored.write(
        segment("a", expires_at=NOON),
        segment("b", expires_at=NOON + days(1)),
        segment("c"),
        fact("f", "Ann", "saw", "Goa", evidence=("a", "b")),
        fact("lasting", "Ann", "saw", "Goa", evidence=("a", "c")),
        fact("unknown", "Ann", "saw", "Goa", evidence=("a", "elsewhere")),
        fact("bare", "Ann", "saw", "Goa"),
    )

    assert await evidence_expiry(stored, "f") == NOON + days(1)
    for name in ("lasting", "unknown", "bare"):
        assert await evidence_expiry(stored, name) is None

    await stored.write(segment("b"))
    assert await evidence_expiry(stored, "f") is None


async def test_expired_items_come_from_all_tenants(stored: Stored) -> None:
    await stored.write(EXPIRED, LASTING, fact("f", "x", "y", "z", expires_at=PAST - days(1)))
    await stored.write(replace(EXPIRED, expires_at=PAST - days(2)), tenant=OTHER)

    found = await stored.store.expired(PAST, 10)

    assert found == [(OTHER, EXPIRED.item), (TENANT, fact_id("f")), (TENANT, EXPIRED.item)]
    assert await stored.store.expired(PAST, 1) == found[:1]
    assert await stored.store.expired(PAST - days(3), 10) == []


async def test_erasure_of_expired_items_spares_others(stored: Stored) -> None:
    named = segment("patched", expires_at=FUTURE)
    resting = fact("resting", "Ann", "saw", "Goa", evidence=("patched",))
    await stored.write(EXPIRED, named, resting, fact("f", "x", "y", "z", expires_at=FUTURE))

    items = (EXPIRED.item, named.item, fact_id("f"), segment_id("unknown"))
    erased = await stored.store.erase(TENANT, Selector(items=items, expired_by=PAST))

    assert erased.items == [EXPIRED.item]
    left: list[Item] = await stored.load(*items, fact_id("resting"))
    assert [each.id for each in left] == ["patched", "f", "resting"]


async def test_fact_goes_with_expired_evidence(stored: Stored) -> None:
    kept = fact("kept", "Ann", "saw", "Goa", evidence=("gone", "lasting"))
    await stored.write(EXPIRED, LASTING, fact("f", "Ann", "saw", "Goa", evidence=("gone",)), kept)

    selector = Selector(items=(EXPIRED.item,), expired_by=PAST)
    erased = await stored.store.erase(TENANT, selector)

    assert sorted(erased.items) == [fact_id("f"), EXPIRED.item]
    [left] = await stored.load(kept.item)
    assert isinstance(left, Fact)
    assert left.evidence == ("lasting",)


async def test_expired_fact_holds_no_longer(stored: Stored) -> None:
    deadline = Deadline.after(60)
    await stored.write(fact("f", "Ann", "saw", "Goa", expires_at=FUTURE))

    before = await stored.timeline.holding(scope(as_of=FUTURE - days(1)), 10, deadline)
    after = await stored.timeline.holding(scope(as_of=FUTURE), 10, deadline)

    assert ([each.item.id for each in before], after) == (["f"], [])


@pytest.mark.parametrize("expiring", [frozenset[ItemId](), frozenset([LASTING.item])])
async def test_expired_item_written_again_is_new(
    stored: Stored, expiring: frozenset[ItemId]
) -> None:
    gone = replace(LASTING, expires_at=NOON)
    resting = fact("resting", "Ann", "saw", "Goa", evidence=("lasting",))
    await stored.store.write(Batch(TENANT, [gone, resting], expiring=expiring))

    receipt = await stored.store.write(Batch(TENANT, [LASTING], expiring=expiring, at=NOON))

    assert receipt.outcomes == ["created"]
    [left] = await stored.load(LASTING.item, resting.item)
    assert (left.version, left.expires_at) == (1, FUTURE)


async def test_version_of_expired_item_is_not_found(stored: Stored) -> None:
    await stored.write(EXPIRED)
    changed = replace(EXPIRED, expires_at=FUTURE)

    with pytest.raises(ItemNotFoundError):
        await stored.store.write(Batch(TENANT, [changed], versions={changed.item: 1}, at=PAST))
