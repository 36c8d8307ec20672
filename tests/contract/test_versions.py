"""What every memory store does with the versions of items, the one in memory and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.domain.errors import ItemNotFoundError, VersionConflictError
from serving.domain.items.records import Item, ItemId, fact_id, segment_id
from serving.ports.memory_store import Batch, WriteReceipt
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import NOON, TENANT, days, fact, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

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


async def test_change_to_what_is_stored_changes_nothing(stored: Stored) -> None:
    first = await stored.write(SAID)

    again = await changed(stored, SAID, 1)

    assert (again.outcomes, again.token) == (["unchanged"], first.token)
    assert await versions(stored, SAID.item) == [1]


async def test_default_expiry_may_be_removed(stored: Stored) -> None:
    expiring = replace(SAID, expires_at=NOON + days(900))
    first = Batch(TENANT, [expiring], expiring=frozenset([SAID.item]))
    await stored.store.write(first)

    assert (await changed(stored, SAID, 1)).outcomes == ["updated"]

    [found] = await stored.load(SAID.item)
    assert found.expires_at is None


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
