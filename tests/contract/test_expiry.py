"""What every memory store does with items that expire, the one in memory and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Item, TenantName, fact_id, segment_id
from serving.domain.questions.query import NO_FILTER
from serving.ports.memory_store import Batch, Selector
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, TENANT, days, fact, scope, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")
PAST, FUTURE = NOON - days(400), datetime.now(UTC) + days(400)
EXPIRED = segment("gone", expires_at=PAST)
LASTING = segment("lasting", expires_at=FUTURE)
DEFAULTED = frozenset([LASTING.item])


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


async def test_erasure_of_expired_spares_what_lasts(stored: Stored) -> None:
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


@pytest.mark.parametrize("expiry", [FUTURE, FUTURE + days(1)])
async def test_default_expiry_is_no_content(stored: Stored, expiry: datetime) -> None:
    await stored.store.write(Batch(TENANT, [LASTING], expiring=DEFAULTED))

    again = Batch(TENANT, [replace(LASTING, expires_at=expiry)], expiring=DEFAULTED)
    assert (await stored.store.write(again)).outcomes == ["unchanged"]

    [read_back] = await stored.load(LASTING.item)
    assert read_back.expires_at == FUTURE
    assert (await stored.write(read_back)).outcomes == ["unchanged"]


async def test_another_expiry_is_an_update(stored: Stored) -> None:
    await stored.write(LASTING)

    receipt = await stored.write(replace(LASTING, expires_at=FUTURE + days(1)))

    assert receipt.outcomes == ["updated"]
    [found] = await stored.load(LASTING.item)
    assert found.expires_at == FUTURE + days(1)


async def test_expired_fact_holds_no_longer(stored: Stored) -> None:
    deadline = Deadline.after(60)
    await stored.write(fact("f", "Ann", "saw", "Goa", expires_at=FUTURE))

    before = await stored.timeline.holding(scope(as_of=FUTURE - days(1)), 10, deadline)
    after = await stored.timeline.holding(scope(as_of=FUTURE), 10, deadline)

    assert ([each.item.id for each in before], after) == (["f"], [])
