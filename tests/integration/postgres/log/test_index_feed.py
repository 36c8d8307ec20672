"""PostgreSQL as the source of a vector index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log.index_feed import BATCH_ROWS
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists import CpuLibrary
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.items.records import (
    Fact,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    fact_id,
    segment_id,
)
from serving.domain.questions.filters import segment_terms
from serving.domain.shards import WHOLE, Shard, all_shards
from serving.pipeline.index import maintenance
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.embedding import Embedding
from serving.ports.index_engine import IndexEngine, IndexRow
from serving.ports.memory_store import Selector
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE
from tests.integration.postgres.log.following import (
    MODEL,
    OTHER_MODEL,
    bootstrap,
    embed,
    embedding_tasks,
    run,
    write,
)
from tests.support.builders import NOON, TENANT, batch_of, days, fact, ids, scope, segment
from tests.support.shards import owns
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


OTHER = TenantName("other")


async def test_row_of_a_segment_has_the_filtered_fields(postgres: Postgres) -> None:
    stored = segment(
        "a", speaker="Ann", labels={"x": "y"}, entities=("Goa",), entity="Diary", importance=0.75
    )
    await write(postgres, stored)
    await embed(postgres)

    _, rows = await bootstrap(postgres)

    row = rows[TENANT, segment_id("a")]
    assert row.terms == segment_terms(stored)
    assert (row.entities, row.speaker, row.entity) == (("Goa",), "Ann", "Diary")
    assert (row.importance, row.event_time) == (0.75, NOON)
    assert row.created_at is not None
    assert row.vectors.dtype == np.float16
    assert row.vectors.tolist() == [[1, 0, 0, 0]]


async def test_row_says_whether_its_text_asks(postgres: Postgres) -> None:
    asks = {"We sailed.": False, "Where to? Goa.": True, "去哪里\uff1f": True, "أين\u061f": True}
    await write(postgres, *(segment(text, text) for text in asks))
    await embed(postgres)

    _, rows = await bootstrap(postgres)

    assert {row.item.id: row.asks for row in rows.values()} == asks


async def test_a_facts_row_has_its_evidence_and_validity(postgres: Postgres) -> None:
    stored = fact(
        "f", "x", "y", "z", evidence=("b", "a"), valid_from=NOON, retracted_at=NOON + days(1)
    )
    await write(postgres, stored)
    await embed(postgres)

    _, rows = await bootstrap(postgres)

    row = rows[TENANT, fact_id("f")]
    assert row.evidence == ("b", "a")
    assert (row.valid_from, row.valid_to, row.retracted_at) == (NOON, None, NOON + days(1))


async def test_facts_row_ends_with_its_expiry(postgres: Postgres) -> None:
    last = NOON + days(3)
    await write(
        postgres,
        segment("a", expires_at=NOON + days(2)),
        fact("own", "x", "y", "z", valid_to=last, expires_at=NOON),
        fact("rests", "x", "y", "z", valid_to=last, evidence=("a",)),
        fact("over", "x", "y", "z", valid_to=NOON - days(1), expires_at=NOON),
        fact("open", "x", "y", "z"),
    )
    await embed(postgres)

    _, rows = await bootstrap(postgres)

    ends = {item.id: row.valid_to for (_, item), row in rows.items() if item.kind == "fact"}
    expected = {"own": NOON, "rests": NOON + days(2), "over": NOON - days(1), "open": None}
    assert ends == expected


async def test_windows_come_in_their_order(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    [task] = await embedding_tasks(postgres)
    windows = np.eye(4, dtype=np.float32)[[2, 0, 3]]

    await postgres.change_log.save_embeddings(MODEL, [(task, Embedding(windows))])

    _, rows = await bootstrap(postgres)
    assert rows[TENANT, segment_id("a")].vectors.tolist() == windows.tolist()


async def save_with_states(postgres: Postgres, **windows: int) -> None:
    """Stores an embedding of each segment, whose windows have states."""
    for task in await embedding_tasks(postgres):
        count = windows[task.change.item.id]
        states = tuple(b"axes%d" % number for number in range(count))
        made = Embedding(np.eye(4, dtype=np.float32)[:count], states)
        await postgres.change_log.save_embeddings(MODEL, [(task, made)])


async def states(postgres: Postgres) -> dict[str, bytes]:
    """The token states of the rows by id, which are the same at first and after a change."""
    position, rows = await bootstrap(postgres)
    start = replace(position, log=NOTHING_SEEN)
    changed = await postgres.feed_of(WHOLE).changes_since(start, MODEL)
    by_id = {item.id: row.states for (_, item), row in rows.items()}
    assert {row.item.id: row.states for row in changed.rows} == by_id
    return by_id


async def test_turns_of_one_window_have_token_states(postgres: Postgres) -> None:
    turn, long = segment("turn", speaker="Ann"), segment("long", speaker="Ann")
    await write(postgres, turn, long, segment("note"))

    await save_with_states(postgres, turn=1, long=2, note=1)

    assert await states(postgres) == {"turn": b"axes0", "long": b"", "note": b""}


async def test_token_states_go_with_their_text(postgres: Postgres) -> None:
    turns = [segment(id_, "We sailed.", speaker="Ann") for id_ in ("erased", "changed", "kept")]
    await write(postgres, *turns)
    await save_with_states(postgres, erased=1, changed=1, kept=1)

    await postgres.store.erase(TENANT, Selector(items=(segment_id("erased"),)))
    await write(postgres, replace(turns[1], text="We walked."))

    assert await states(postgres) == {"kept": b"axes0"}
    left = await run(postgres, "SELECT token_states FROM embedding WHERE token_states IS NOT NULL")
    assert left == [(b"axes0",)]


async def test_rows_of_all_tenants_come_in_batches(postgres: Postgres) -> None:
    many = [segment(f"{place:04}") for place in range(BATCH_ROWS + 1)]
    await write(postgres, *many)
    await write(postgres, segment("a"), tenant=OTHER)
    await embed(postgres)
    await embed(postgres)

    async with postgres.feed.bootstrap(MODEL) as (_, batches):
        sizes = [len(batch) async for batch in batches]

    assert sizes == [BATCH_ROWS, 2]


async def test_a_bootstrap_may_be_left_early(postgres: Postgres) -> None:
    await write(postgres, *(segment(f"{place}") for place in range(1000)))
    await embed(postgres)

    async with postgres.feed.bootstrap(MODEL) as (_, batches):
        await anext(batches)

    assert await postgres.store.ready()


async def test_the_delta_begins_where_the_snapshot_ends(postgres: Postgres) -> None:
    await write(postgres, *(segment(id_) for id_ in "abcd"))
    await embed(postgres)
    position, rows = await bootstrap(postgres)
    await write(postgres, segment("new"), segment("a", importance=1.0), segment("d", "other"))
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))

    before = await postgres.feed.changes_since(position, MODEL)
    await embed(postgres)
    after = await postgres.feed.changes_since(before.position, MODEL)
    nothing = await postgres.feed.changes_since(after.position, MODEL)

    assert len(rows) == 4
    assert [(row.item, row.importance) for row in before.rows] == [(segment_id("a"), 1.0)]
    assert sorted(item for _, item in before.removed) == ids("b", "d", "new")
    assert sorted(row.item for row in after.rows) == ids("d", "new")
    assert after.removed == []
    assert (nothing.rows, nothing.removed) == ([], [])


async def test_the_lag_is_the_age_of_the_oldest_change_since(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    await embed(postgres)
    position, _ = await bootstrap(postgres)
    caught_up = await postgres.feed.lag_s(position)
    await write(postgres, segment("b"))
    between = await postgres.feed.lag_s(position)
    await write(postgres, segment("c"))
    after = await postgres.feed.lag_s(position)
    reached = (await postgres.feed.changes_since(position, MODEL)).position

    assert caught_up == 0
    assert 0 < between < after
    assert await postgres.feed.lag_s(reached) == 0


async def test_a_position_shows_which_writes_have_their_embeddings(postgres: Postgres) -> None:
    receipt = await write(postgres, segment("a"))
    before, _ = await bootstrap(postgres)
    await embed(postgres)
    after, _ = await bootstrap(postgres)

    assert receipt.token.seen_by(before.log)
    assert not receipt.token.seen_by(before.embedded)
    assert receipt.token.seen_by(after.embedded)
    assert before.epoch == after.epoch == receipt.token.epoch


async def test_the_share_of_embedded_rows_leaves_the_sensitive_out(postgres: Postgres) -> None:
    assert await postgres.feed.embedded_share(MODEL) == 1.0
    await write(postgres, segment("a"), segment("s", sensitive=True))
    await embed(postgres)
    await write(postgres, segment("b"), fact("f", "x", "y", "z", evidence=("s",)))

    assert await postgres.feed.embedded_share(MODEL) == 0.5
    assert await postgres.feed.embedded_share(OTHER_MODEL) == 0.0
    counts = await postgres.catalog.tenant_counts(TENANT, MODEL)
    assert (counts.embedded, counts.embeddable) == (1, 2)


def owned(rows: list[IndexRow]) -> list[ItemId]:
    return sorted(row.item for row in rows if len(row.vectors))


def unembedded(rows: list[IndexRow]) -> list[ItemId]:
    return sorted(row.item for row in rows if not len(row.vectors))


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_row_belongs_to_a_single_shard(postgres: Postgres, count: int) -> None:
    odd_names = ["a b", "\N{SNOWMAN}", "a/b", "'", "%s"]
    items = [segment(id_) for id_ in [*map(str, range(40)), *odd_names]]
    for tenant in (TENANT, OTHER):
        await write(postgres, *items, tenant=tenant)
    await embed(postgres)

    found: list[tuple[TenantName, ItemId]] = []
    for shard in all_shards(count):
        _, rows = await bootstrap(postgres, shard=shard)
        assert rows
        assert all(owns(shard, *name) for name in rows)
        found += rows

    assert len(found) == len(set(found)) == 2 * len(items)


def fact_and_evidence_apart() -> tuple[Shard, Fact, Segment]:
    """One of two shards with a fact of its own, and the evidence, which the other owns."""
    [home] = [each for each in all_shards(2) if owns(each, TENANT, fact_id("f"))]
    away = next(id_ for id_ in map(str, range(100)) if not owns(home, TENANT, segment_id(id_)))
    return home, fact("f", "x", "y", "z", evidence=(away,)), segment(away, speaker="Ann")


async def test_shard_has_evidence_of_its_facts_without_vectors(postgres: Postgres) -> None:
    home, stated, said = fact_and_evidence_apart()
    await write(postgres, said, stated)
    await embed(postgres)

    _, found = await bootstrap(postgres, shard=home)

    rows = [*found.values()]
    assert (owned(rows), unembedded(rows)) == ([stated.item], [said.item])
    assert found[TENANT, said.item].terms == segment_terms(said)


async def test_delta_brings_the_evidence_of_its_facts(postgres: Postgres) -> None:
    home, fact_, said = fact_and_evidence_apart()
    feed = postgres.feed_of(home)
    await write(postgres, replace(said, speaker=""))
    await embed(postgres)
    position, rows = await bootstrap(postgres, shard=home)
    assert rows == {}

    await write(postgres, fact_)
    await embed(postgres)
    stated = await feed.changes_since(position, MODEL)
    await write(postgres, said)
    renamed = await feed.changes_since(stated.position, MODEL)
    await postgres.store.erase(TENANT, Selector(items=(said.item,)))
    erased = await feed.changes_since(renamed.position, MODEL)

    assert (owned(stated.rows), unembedded(stated.rows)) == ([fact_.item], [said.item])
    assert [row.terms for row in renamed.rows] == [segment_terms(said)]
    assert set(erased.removed) == {(TENANT, said.item), (TENANT, fact_.item)}


ENGINES: dict[str, Callable[[], IndexEngine]] = {
    "exact": lambda: ExactIndex(MODEL.dimension),
    "in lists": lambda: TieredIndex(MODEL.dimension, CpuLibrary(), LISTS_AT_ONCE),
}


async def names(index: LogFollowingIndex) -> list[str]:
    asked = np.array([1, 0, 0, 0], np.float32)
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), 100)
    answer = await index.search(asked, wanted, Deadline.after(60))
    return sorted(candidate.item.id for candidate in answer.candidates)


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_restarted_index_follows_changes_made_meanwhile(
    postgres: Postgres, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY_S", 0.01)
    await postgres.store.write(batch_of(*(segment(f"{n:02}") for n in range(40))))
    await embed(postgres)
    async with LogFollowingIndex(postgres.feed, MODEL, ENGINES[kind]) as index:
        assert await index.ready(Deadline.after(30))

    await postgres.store.erase(TENANT, Selector(items=tuple(ids("00", "01"))))
    await postgres.store.write(batch_of(segment("new")))
    await embed(postgres)

    async with LogFollowingIndex(postgres.feed, MODEL, ENGINES[kind]) as index:
        assert await index.ready(Deadline.after(30))
        assert await names(index) == [*(f"{n:02}" for n in range(2, 40)), "new"]
        assert await index.count(TENANT, [segment_id("00")]) == 0

        if kind == "in lists":
            await until_async(lambda: any(tier.approximate for tier in index.tiers()))
