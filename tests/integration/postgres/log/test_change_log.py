"""The change log and its readers, in PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log import compaction
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.errors import DependencyError, StoreUnavailableError
from serving.domain.items.records import Item, ItemId, Segment, TenantName, fact_id, segment_id
from serving.ports.index_engine import FeedLostError
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import (
    MODEL,
    OTHER_MODEL,
    bootstrap,
    embed,
    embedding_tasks,
    items,
    project_graph,
    run,
    save_vectors,
    write,
)
from tests.support.builders import TENANT, fact, ids, segment

pytestmark = pytest.mark.postgres

RETENTION = compaction.RETENTION


@pytest.fixture(autouse=True)
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "RETENTION", timedelta(0))


async def row_versions(postgres: Postgres) -> list[tuple[str]]:
    """Every row with the transactions that wrote it and that locked it."""
    tables = ("tenant", "segment", "fact", "entity", "change_log", "projection_state", "meta")
    statement = " UNION ALL ".join(
        f"SELECT '{table} ' || ctid || ' ' || xmin || ' ' || xmax FROM {table}" for table in tables
    )
    return sorted(await run(postgres, statement))


async def log_size(postgres: Postgres) -> int:
    [(size,)] = await run(postgres, "SELECT count(*) FROM change_log")
    return int(size)


async def next_items(postgres: Postgres, *, limit: int = 10, note: bool = False) -> list[ItemId]:
    """The items of the graph's next batch, whose position is noted or not."""
    batch = await postgres.change_log.next_batch("graph", None, limit)
    if note:
        await postgres.change_log.advance("graph", None, batch.position)
    return sorted(items(batch))


async def test_writes_updates_and_erasures_reach_the_log_in_turn(postgres: Postgres) -> None:
    await write(postgres, segment("a"), segment("b"))
    created = await project_graph(postgres)
    await write(postgres, segment("a", "changed"))
    updated = await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    erased = await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))
    await write(postgres, segment("a", "again"))
    replaced = await project_graph(postgres)

    assert sorted(row.id for _, row in created.segments) == ["a", "b"]
    assert [(row.id, row.text) for _, row in updated.segments] == [("a", "changed")]
    assert erased.removed == [(TENANT, segment_id("b"))]
    assert [row.text for _, row in replaced.segments] == ["again"]
    assert replaced.removed == []


async def test_a_batch_holds_whole_transactions(postgres: Postgres) -> None:
    for names in ("abc", "def"):
        await write(postgres, *(segment(id_) for id_ in names))

    first = await next_items(postgres, limit=2)
    repeated = await next_items(postgres, limit=2, note=True)
    second = await next_items(postgres, limit=2)

    assert first == repeated == ids("a", "b", "c"), "a position that is not noted is read again"
    assert second == ids("d", "e", "f")


async def test_a_transaction_that_commits_late_is_not_missed(postgres: Postgres) -> None:
    async with postgres.database.transaction() as slow:
        await slow.execute("SELECT pg_current_xact_id()")  # now older than what follows
        await write(postgres, segment("quick"))
        assert await next_items(postgres, note=True) == ids("quick")
        await slow.execute(
            "INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id) "
            "VALUES (1, 99, 'segment', 'erased', 'acme', 'slow')"
        )

    assert await next_items(postgres) == ids("slow")


async def test_concurrent_writers_of_the_same_items_do_not_deadlock(postgres: Postgres) -> None:
    names = [f"{place:02}" for place in range(20)]

    async def work(writer: int) -> None:
        for round_ in range(10):
            batch = [segment(name, f"{writer} {round_}", entities=(name,)) for name in names]
            facts = [fact(name, "x", "y", f"{writer} {round_}", evidence=(name,)) for name in names]
            await write(postgres, *reversed(facts), *reversed(batch))
            if round_ % 5 == writer:
                await write(postgres, segment(names[round_], "s", sensitive=True))
            await embed(postgres)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for writer in range(4):
            tasks.create_task(work(writer))

    assert await postgres.store.count(TENANT, ids(*names)) == len(names)


async def test_neither_repeats_nor_idle_followers_write_rows(postgres: Postgres) -> None:
    batch: list[Item] = [segment("a"), fact("f", "x", "y", "z", evidence=("a",))]
    await write(postgres, *batch)
    await project_graph(postgres)
    await project_graph(postgres)
    before = await row_versions(postgres)

    await write(postgres, *batch)
    await project_graph(postgres)

    assert await row_versions(postgres) == before, "each row with who locked it"


async def test_models_have_separate_positions_and_vectors(postgres: Postgres) -> None:
    await write(postgres, segment("a"))

    first = await embed(postgres, MODEL)
    repeated = await embed(postgres, MODEL)
    other = await embed(postgres, OTHER_MODEL)

    assert first == other == ids("a")
    assert repeated == []
    assert await postgres.feed.embedded_share(OTHER_MODEL) == 1.0


async def test_embeddings_stay_complete_once_complete(postgres: Postgres) -> None:
    complete = []
    for names, limit in (("ab", 1), ("", 1000), ("cd", 1)):
        for id_ in names:
            await write(postgres, segment(id_))
        await embed(postgres, limit=limit)
        complete.append((await bootstrap(postgres))[0].complete)

    assert complete == [False, True, True]


async def test_a_model_that_another_overtook_is_no_longer_complete(postgres: Postgres) -> None:
    for id_ in "ab":
        await write(postgres, segment(id_))
    await embed(postgres, MODEL)

    await embed(postgres, OTHER_MODEL, limit=1)
    still, _ = await bootstrap(postgres, MODEL)
    await embed(postgres, OTHER_MODEL)
    overtaken, rows = await bootstrap(postgres, MODEL)

    assert (still.complete, overtaken.complete) == (True, False)
    assert len(rows) == 2
    assert await embed(postgres, MODEL) == []


async def test_another_dimension_of_a_model_is_rejected(postgres: Postgres) -> None:
    log = postgres.change_log
    await write(postgres, segment("a"))
    [task] = await embedding_tasks(postgres)

    with pytest.raises(ValueError, match="dimension 4"):
        await log.save_embeddings(MODEL, [(task, np.ones((1, 3), np.float32))])

    await embed(postgres)
    with pytest.raises(ValueError, match="dimension 4"):
        await log.next_batch("embedding", replace(MODEL, dimension=8), 10)


async def test_models_receive_texts_in_quotation_marks(postgres: Postgres) -> None:
    await write(postgres, segment("a", "We sailed", speaker="Mel"))

    assert [task.text for task in await embedding_tasks(postgres)] == ['Mel: "We sailed"']


@pytest.mark.parametrize(
    "now",
    [segment("a", "new"), segment("a", sensitive=True), None],
    ids=["changed", "sensitive", "erased"],
)
async def test_vector_of_a_changed_row_is_not_stored(
    postgres: Postgres, now: Segment | None
) -> None:
    await write(postgres, segment("a"))
    tasks = await embedding_tasks(postgres)
    if now is None:
        await postgres.store.erase(TENANT, Selector(everything=True))
    else:
        await write(postgres, now)

    await save_vectors(postgres, tasks)

    assert await run(postgres, "SELECT FROM embedding") == []


async def test_dead_letter_is_listed_until_its_row_changes(postgres: Postgres) -> None:
    receipt = await write(postgres, segment("a"), fact("f", "x", "y", "z"))
    batch = await postgres.change_log.next_batch("graph", None, 10)
    for reason in ("first", "second"):
        for change in batch.changes:
            await postgres.change_log.dead_letter("graph", None, change, reason)

    noted = await postgres.catalog.dead_letters(TENANT, 10)
    assert {(note.projection, note.item, note.reason) for note in noted} == {
        ("graph", segment_id("a"), "second"),
        ("graph", fact_id("f"), "second"),
    }
    assert await postgres.catalog.dead_letters(TenantName("other"), 10) == []
    counts = await postgres.consistency.dead_letter_counts(receipt.token)
    assert counts == {"embedding": 0, "graph": 2}

    await write(postgres, segment("a", "mended"))

    assert [note.item for note in await postgres.catalog.dead_letters(TENANT, 10)] == [fact_id("f")]


async def test_locked_dead_letters_are_not_waited_for(postgres: Postgres) -> None:
    receipt = await write(postgres, segment("a"))

    async with postgres.database.transaction() as other:
        await other.execute("LOCK TABLE dead_letter")
        counts = await postgres.consistency.dead_letter_counts(receipt.token)

    assert counts == {}


async def test_embedding_a_row_forgets_that_it_was_dead_lettered(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    batch = await postgres.change_log.next_batch("embedding", MODEL, 10)
    await postgres.change_log.dead_letter("embedding", MODEL, batch.changes[0], "broken")

    await embed(postgres)

    assert await postgres.catalog.dead_letters(TENANT, 10) == []


async def test_a_removal_from_the_graph_cannot_be_dead_lettered(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    batch = await postgres.change_log.next_batch("graph", None, 10)
    await postgres.store.erase(TENANT, Selector(everything=True))

    with pytest.raises(DependencyError):
        await postgres.change_log.dead_letter("graph", None, batch.changes[0], "broken")


async def test_status_counts_what_is_pending(postgres: Postgres) -> None:
    await write(postgres, segment("a"), segment("b"))
    await embed(postgres)

    embedding, graph = await postgres.change_log.status(MODEL)

    assert (embedding.projection, embedding.pending, embedding.lag_s) == ("embedding", 0, 0.0)
    assert (graph.projection, graph.pending) == ("graph", 2)
    assert graph.lag_s > 0


async def test_pending_rows_of_the_slowest_projection_count(postgres: Postgres) -> None:
    log = postgres.change_log
    assert not await log.has_pending(1)
    for name in ("a", "b"):
        await write(postgres, segment(name))
    assert await log.has_pending(2)
    await embed(postgres)

    assert await log.has_pending(2)  # the graph has seen nothing yet
    assert not await log.has_pending(3)

    await project_graph(postgres)
    await embed(postgres, OTHER_MODEL, limit=1)
    assert not await log.has_pending(1)  # a model that is not in use yet does not count


async def test_the_standby_takes_over_when_the_leaders_connection_is_ended(
    postgres: Postgres, postgres_dsn: str
) -> None:
    events: list[str] = []
    leading, lost = asyncio.Event(), asyncio.Event()

    async def lead(adapters: Postgres, name: str) -> None:
        async with adapters.change_log.leadership("graph", None):
            events.append(name)
            leading.set()
            await lost.wait()
            await adapters.change_log.advance("graph", None, NOTHING_SEEN)

    async with Postgres(postgres_dsn) as standby, asyncio.timeout(120):
        leader = asyncio.create_task(lead(postgres, "leader"))
        await leading.wait()
        follower = asyncio.create_task(lead(standby, "standby"))
        ended = await run(
            postgres,
            "SELECT pg_terminate_backend(pid) FROM pg_locks "
            "WHERE locktype = 'advisory' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        lost.set()
        with pytest.raises(StoreUnavailableError):
            await leader
        await follower

    assert ended == [(True,)]
    assert events == ["leader", "standby"]


async def test_different_projections_are_led_at_once(postgres: Postgres) -> None:
    async with (
        asyncio.timeout(120),
        postgres.change_log.leadership("graph", None),
        postgres.change_log.leadership("embedding", MODEL),
    ):
        await write(postgres, segment("a"))
        assert await embed(postgres) == ids("a")


async def test_a_write_wakes_who_waits_in_another_process(
    postgres: Postgres, postgres_dsn: str
) -> None:
    async with Postgres(postgres_dsn) as other, asyncio.timeout(120):
        await other.change_log.wait(10)  # until it listens
        waiting = asyncio.create_task(other.change_log.wait(150))
        await write(postgres, segment("a"))

        await waiting


async def test_a_read_waits_until_the_graph_has_the_write(postgres: Postgres) -> None:
    receipt = await write(postgres, segment("a"))

    async with asyncio.timeout(120):
        waiting = asyncio.create_task(
            postgres.consistency.graph_has_seen(receipt.token, Deadline.after(100))
        )
        await project_graph(postgres)

        assert await waiting


async def test_token_ahead_or_of_another_epoch_is_unseen(postgres: Postgres) -> None:
    has_seen = postgres.consistency.graph_has_seen
    receipt = await write(postgres, segment("a"))

    assert not await has_seen(receipt.token, Deadline.after(0.05))

    await project_graph(postgres)
    assert not await has_seen(replace(receipt.token, epoch="another"), Deadline.after(10))


async def test_compaction_keeps_what_a_new_projection_needs(postgres: Postgres) -> None:
    for text in ("one", "two", "three"):
        await write(postgres, segment("a", text), segment("b"))
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    await embed(postgres)
    await project_graph(postgres)
    await postgres.change_log.compact()  # takes a snapshot, which the graph then passes
    await write(postgres, segment("later"))
    await project_graph(postgres)

    await postgres.change_log.compact()

    assert await log_size(postgres) == 2
    assert await embed(postgres, OTHER_MODEL) == ids("a", "later")
    assert await postgres.change_log.compact() == 0


async def test_log_of_rewritten_items_does_not_grow(postgres: Postgres) -> None:
    sizes = []
    for number in range(5):
        written = [segment("a", f"text {number}"), segment("b", f"text {number}")]
        await write(postgres, *written, segment("gone"))
        await embed(postgres)
        await postgres.store.erase(TENANT, Selector(items=(segment_id("gone"),)))
        await project_graph(postgres)
        await postgres.change_log.compact()
        sizes.append(await log_size(postgres))

    assert sizes[-1] == sizes[1]


async def test_a_projection_that_stood_still_during_compactions_misses_nothing(
    postgres: Postgres,
) -> None:
    await write(postgres, segment("a"), segment("b"), segment("c"))
    await embed(postgres)  # and stands still from now on
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    deleted = 0
    for text in ("one", "two", "three"):
        await write(postgres, segment("a", text), segment(text))
        await project_graph(postgres)
        deleted += await postgres.change_log.compact()
    assert deleted > 0

    missed = await embed(postgres)

    assert sorted(missed) == sorted(ids("a", "one", "two", "three"))
    _, rows = await bootstrap(postgres)
    assert sorted(item for _, item in rows) == sorted(ids("a", "c", "one", "two", "three"))


async def test_compaction_waits_until_graph_saw_erasure(postgres: Postgres) -> None:
    await write(postgres, segment("a"), fact("f", "x", "y", "z"))
    await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))

    assert await postgres.change_log.compact() == 0

    changes = await project_graph(postgres)
    assert sorted(changes.removed) == [(TENANT, fact_id("f")), (TENANT, segment_id("a"))]


async def test_compaction_keeps_what_is_young(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "RETENTION", RETENTION)
    await write(postgres, segment("a"))
    await write(postgres, segment("a", "changed"))
    await project_graph(postgres)

    assert await postgres.change_log.compact() == 0
    assert await log_size(postgres) == 2


async def test_a_reader_from_before_the_compaction_starts_over(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    await embed(postgres)
    old, _ = await bootstrap(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))
    current = await postgres.feed.changes_since(old, MODEL)
    await postgres.change_log.compact()

    with pytest.raises(FeedLostError):
        await postgres.feed.changes_since(old, MODEL)
    with pytest.raises(FeedLostError):
        await postgres.feed.changes_since(replace(current.position, epoch="another"), MODEL)


async def test_a_position_is_stored_as_postgresql_writes_it(postgres: Postgres) -> None:
    position = Snapshot(20, frozenset({12, 15}))

    await postgres.change_log.advance("graph", None, position)

    [(stored,)] = await run(postgres, "SELECT position::pg_snapshot::text FROM projection_state")
    assert Snapshot.parse(stored) == position
