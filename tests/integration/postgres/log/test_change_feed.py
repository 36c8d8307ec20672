"""The changes of a tenant's items, as the store writes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log import compaction
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import ChangesGoneError
from serving.domain.items.records import TenantName, segment_id
from serving.ports.change_feed import ChangesRead
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import project_graph, run, write
from tests.support.builders import NOON, TENANT, days, fact, segment

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")


def shown(read: ChangesRead) -> list[tuple[str, str, bool]]:
    return sorted((each.item.kind.value, each.item.id, each.erased) for each in read.changes)


async def test_writes_closings_and_erasures_are_changes(postgres: Postgres) -> None:
    feed, position = postgres.change_feed, await postgres.change_feed.now()
    lives = partial(fact, subject="Ola", relation="lives in", single_valued=True)
    leeds = lives("leeds", object_="Leeds")
    york = lives("york", object_="York", recorded_at=NOON + days(1))
    await write(postgres, segment("a"), segment("b"), leeds)
    await write(postgres, segment("theirs"), segment("a"), tenant=OTHER)

    first = await feed.read(TENANT, position, 9)
    await write(postgres, york)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    second = await feed.read(TENANT, first.position, 9)

    stored = [("fact", "leeds", False), ("segment", "a", False), ("segment", "b", False)]
    assert shown(first) == stored
    assert shown(second) == [
        ("fact", "leeds", False),
        ("fact", "york", False),
        ("segment", "a", True),
    ]
    assert shown(await feed.read(TENANT, position, 9)) == [
        *shown(second)[:2],
        ("segment", "a", True),
        ("segment", "b", False),
    ]


async def test_erased_tenant_is_all_erasures(postgres: Postgres) -> None:
    feed, position = postgres.change_feed, await postgres.change_feed.now()
    await write(postgres, segment("a"), segment("b"))
    await postgres.store.erase(TENANT, Selector(everything=True))

    read = await feed.read(TENANT, position, 9)

    assert shown(read) == [("segment", "a", True), ("segment", "b", True)]
    assert shown(await feed.read(OTHER, position, 9)) == []


async def test_unchanged_items_and_vectors_are_no_changes(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    position = await postgres.change_feed.now()
    await write(postgres, segment("a"))
    await run(
        postgres,
        "INSERT INTO change_log (tenant_id, key, kind, op)"
        " SELECT tenant_id, key, 'segment', 'embedded' FROM segment",
    )

    assert shown(await postgres.change_feed.read(TENANT, position, 9)) == []


async def compact(postgres: Postgres) -> None:
    """Compacts the log up to now: to the snapshot of the first call, which the graph has passed."""
    await postgres.change_log.compact()
    await write(postgres, segment("later"))
    await project_graph(postgres)
    await postgres.change_log.compact()


async def test_token_of_a_write_has_the_following_changes(postgres: Postgres) -> None:
    await write(postgres, segment("long-before"))
    await postgres.change_log.compact()
    token = (await write(postgres, segment("a"))).token
    await write(postgres, segment("b"))

    read = await postgres.change_feed.read(TENANT, await postgres.change_feed.after_write(token), 9)

    assert shown(read) == [("segment", "a", False), ("segment", "b", False)]


async def test_tokens_older_than_the_log_are_gone(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "RETENTION", timedelta(0))
    feed, before = postgres.change_feed, await postgres.change_feed.now()
    token = (await write(postgres, segment("a"))).token
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    await compact(postgres)

    with pytest.raises(ChangesGoneError, match="older than the log"):
        await feed.read(TENANT, before, 9)
    with pytest.raises(ChangesGoneError, match="older than the log"):
        await feed.after_write(token)
    assert shown(await feed.read(TENANT, await feed.now(), 9)) == []


async def test_tokens_of_another_database_are_gone(postgres: Postgres) -> None:
    position = await postgres.change_feed.now()

    with pytest.raises(ChangesGoneError, match="another database"):
        await postgres.change_feed.read(TENANT, replace(position, epoch="another"), 9)
    with pytest.raises(ChangesGoneError, match="another database"):
        await postgres.change_feed.after_write(ConsistencyToken.of("another", [3]))


async def test_item_erased_before_a_late_note_is_passed_over(postgres: Postgres) -> None:
    position = await postgres.change_feed.now()
    await run(
        postgres,
        "INSERT INTO change_log (tenant_id, key, kind, op) VALUES (1, 99, 'segment', 'written')",
    )
    await write(postgres, segment("a"))
    await run(postgres, "UPDATE change_log SET tenant_id = (SELECT id FROM tenant)")

    read = await postgres.change_feed.read(TENANT, position, 1)
    rest = await postgres.change_feed.read(TENANT, read.position, 1)

    assert (shown(read), read.last) == ([], False)
    assert shown(rest) == [("segment", "a", False)]
