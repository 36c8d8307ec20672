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
from serving.domain.items.records import Item, TenantName, fact_id, segment_id
from serving.ports.index_engine import FeedLostError
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import (
    MODEL,
    OTHER_MODEL,
    bootstrap,
    embed,
    items,
    project_graph,
    scalar,
)
from tests.support.builders import TENANT, batch_of, fact, ids, segment

pytestmark = pytest.mark.postgres

RETENTION = compaction.RETENTION


@pytest.fixture(autouse=True)
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "RETENTION", timedelta(0))


async def row_versions(postgres: Postgres) -> list[str]:
    """Every row with the transactions that wrote it and that locked it."""
    tables = ("tenant", "segment", "fact", "entity", "change_log", "projection_state", "meta")
    async with postgres.database.work() as connection:
        cursor = await connection.execute(
            " UNION ALL ".join(
                f"SELECT '{table} ' || ctid || ' ' || xmin || ' ' || xmax FROM {table}"
                for table in tables
            )
        )
        return sorted(row[0] for row in await cursor.fetchall())


async def log_size(postgres: Postgres) -> int:
    async with postgres.database.work() as connection:
        return int(await scalar(connection, "SELECT count(*) FROM change_log"))


async def test_a_repeat_neither_writes_nor_locks_a_row(postgres: Postgres) -> None:
    batch: list[Item] = [segment("a"), fact("f", "x", "y", "z", evidence=("a",))]
    await postgres.store.write(Batch(TENANT, batch))
    before = await row_versions(postgres)

    await postgres.store.write(Batch(TENANT, batch))

    assert await row_versions(postgres) == before


async def test_writes_updates_and_erasures_reach_the_log_in_turn(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b")))
    created = await project_graph(postgres)
    await postgres.store.write(batch_of(segment("a", "changed")))
    updated = await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    erased = await project_graph(postgres)

    assert sorted(row.id for _, row in created.segments) == ["a", "b"]
    assert [(row.id, row.text) for _, row in updated.segments] == [("a", "changed")]
    assert erased.removed == [(TENANT, segment_id("b"))]


async def test_an_erased_tenant_is_still_named_to_the_projections(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
    await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))

    changes = await project_graph(postgres)

    assert sorted(changes.removed) == [(TENANT, fact_id("f")), (TENANT, segment_id("a"))]


async def test_an_id_erased_and_written_again_is_not_removed(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))
    await postgres.store.write(batch_of(segment("a", "again")))

    changes = await project_graph(postgres)

    assert [row.text for _, row in changes.segments] == ["again"]
    assert changes.removed == []


async def test_a_batch_holds_whole_transactions(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(*(segment(id_) for id_ in "abc")))
    await postgres.store.write(batch_of(*(segment(id_) for id_ in "def")))

    first = await postgres.change_log.next_batch("graph", None, 2)
    await postgres.change_log.advance("graph", None, first.position)
    second = await postgres.change_log.next_batch("graph", None, 2)

    assert sorted(items(first)) == ids("a", "b", "c")
    assert sorted(items(second)) == ids("d", "e", "f")


async def test_a_position_that_is_not_noted_is_read_again(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await postgres.change_log.next_batch("graph", None, 10)

    assert items(await postgres.change_log.next_batch("graph", None, 10)) == ids("a")


async def test_a_transaction_that_commits_late_is_not_missed(postgres: Postgres) -> None:
    async with postgres.database.transaction() as slow:
        await slow.execute("SELECT pg_current_xact_id()")  # now older than what follows
        await postgres.store.write(batch_of(segment("quick")))
        during = await postgres.change_log.next_batch("graph", None, 10)
        await postgres.change_log.advance("graph", None, during.position)
        await slow.execute(
            "INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id) "
            "VALUES (1, 99, 'segment', 'erased', 'acme', 'slow')"
        )

    after = await postgres.change_log.next_batch("graph", None, 10)

    assert items(during) == ids("quick")
    assert items(after) == ids("slow")


async def test_following_misses_nothing_of_concurrent_writers(postgres: Postgres) -> None:
    written = [f"{writer}-{place}" for writer in range(6) for place in range(40)]

    async def write(writer: int) -> None:
        for place in range(40):
            await postgres.store.write(batch_of(segment(f"{writer}-{place}")))

    async def follow() -> list[str]:
        seen: list[str] = []
        while len(seen) < len(written):
            batch = await postgres.change_log.next_batch("graph", None, 7)
            seen += [change.item.id for change in batch.changes]
            await postgres.change_log.advance("graph", None, batch.position)
            if not batch.changes:
                await postgres.change_log.wait(0.05)
        return seen

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        for writer in range(6):
            tasks.create_task(write(writer))

    assert sorted(following.result()) == sorted(written)


async def test_concurrent_writers_of_the_same_items_do_not_deadlock(postgres: Postgres) -> None:
    names = [f"{place:02}" for place in range(20)]

    async def write(writer: int) -> None:
        for round_ in range(10):
            batch = [segment(name, f"{writer} {round_}", entities=(name,)) for name in names]
            facts = [fact(name, "x", "y", f"{writer} {round_}", evidence=(name,)) for name in names]
            await postgres.store.write(batch_of(*reversed(facts), *reversed(batch)))
            if round_ % 5 == writer:
                await postgres.store.write(batch_of(segment(names[round_], "s", sensitive=True)))
            await embed(postgres)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for writer in range(4):
            tasks.create_task(write(writer))

    assert await postgres.store.count(TENANT, ids(*names)) == len(names)


async def test_an_idle_log_is_followed_without_writing(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await project_graph(postgres)
    await project_graph(postgres)
    before = await row_versions(postgres)

    await project_graph(postgres)

    assert await row_versions(postgres) == before


async def test_models_have_separate_positions_and_vectors(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))

    first = await embed(postgres, MODEL)
    repeated = await embed(postgres, MODEL)
    other = await embed(postgres, OTHER_MODEL)

    assert first == other == ids("a")
    assert repeated == []
    assert await postgres.feed.embedded_share(OTHER_MODEL) == 1.0


async def test_embeddings_stay_complete_once_complete(postgres: Postgres) -> None:
    for id_ in "ab":
        await postgres.store.write(batch_of(segment(id_)))

    await embed(postgres, limit=1)
    at_first, _ = await bootstrap(postgres)
    await embed(postgres)
    caught_up, _ = await bootstrap(postgres)
    for id_ in "cd":
        await postgres.store.write(batch_of(segment(id_)))
    await embed(postgres, limit=1)
    behind, _ = await bootstrap(postgres)

    assert [at_first.complete, caught_up.complete, behind.complete] == [False, True, True]


async def test_a_model_that_another_overtook_is_no_longer_complete(postgres: Postgres) -> None:
    for id_ in "ab":
        await postgres.store.write(batch_of(segment(id_)))
    await embed(postgres, MODEL)

    await embed(postgres, OTHER_MODEL, limit=1)
    still, _ = await bootstrap(postgres, MODEL)
    await embed(postgres, OTHER_MODEL)
    overtaken, rows = await bootstrap(postgres, MODEL)

    assert (still.complete, overtaken.complete) == (True, False)
    assert len(rows) == 2
    assert await embed(postgres, MODEL) == []


async def test_a_fingerprint_cannot_change_its_dimension(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await embed(postgres)

    with pytest.raises(ValueError, match="dimension 4"):
        await postgres.change_log.next_batch("embedding", replace(MODEL, dimension=8), 10)


async def test_vectors_of_another_dimension_are_rejected(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    batch = await postgres.change_log.next_batch("embedding", MODEL, 10)
    tasks = await postgres.change_log.embedding_tasks(batch.changes, MODEL)

    with pytest.raises(ValueError, match="dimension 4"):
        await postgres.change_log.save_embeddings(
            MODEL, [(tasks[0], np.ones((1, 3), dtype=np.float32))]
        )


async def test_models_receive_texts_in_quotation_marks(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", "We sailed", speaker="Mel")))

    batch = await postgres.change_log.next_batch("embedding", MODEL, 10)
    (task,) = await postgres.change_log.embedding_tasks(batch.changes, MODEL)

    assert task.text == 'Mel: "We sailed"'


@pytest.mark.parametrize("meanwhile", ["changed", "sensitive", "erased"])
async def test_vector_of_a_changed_row_is_not_stored(postgres: Postgres, meanwhile: str) -> None:
    await postgres.store.write(batch_of(segment("a")))
    batch = await postgres.change_log.next_batch("embedding", MODEL, 10)
    tasks = await postgres.change_log.embedding_tasks(batch.changes, MODEL)
    if meanwhile == "erased":
        await postgres.store.erase(TENANT, Selector(everything=True))
    else:
        now = segment("a", "new") if meanwhile == "changed" else segment("a", sensitive=True)
        await postgres.store.write(batch_of(now))

    await postgres.change_log.save_embeddings(
        MODEL, [(task, np.eye(4, dtype=np.float32)[:1]) for task in tasks]
    )

    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM embedding") == 0


async def test_changed_importance_embeds_no_row_again(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await embed(postgres)
    await postgres.store.write(batch_of(segment("a", importance=1.0)))

    assert await embed(postgres) == []


async def test_dead_letter_is_listed_until_its_row_changes(postgres: Postgres) -> None:
    receipt = await postgres.store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
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
    assert await postgres.consistency.dead_letter_counts(receipt.token) == {
        "embedding": 0,
        "graph": 2,
    }

    await postgres.store.write(batch_of(segment("a", "mended")))

    assert [note.item for note in await postgres.catalog.dead_letters(TENANT, 10)] == [fact_id("f")]


async def test_locked_dead_letters_are_not_waited_for(postgres: Postgres) -> None:
    receipt = await postgres.store.write(batch_of(segment("a")))

    async with postgres.database.transaction() as other:
        await other.execute("LOCK TABLE dead_letter")
        counts = await postgres.consistency.dead_letter_counts(receipt.token)

    assert counts == {}


async def test_embedding_a_row_forgets_that_it_was_dead_lettered(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    batch = await postgres.change_log.next_batch("embedding", MODEL, 10)
    await postgres.change_log.dead_letter("embedding", MODEL, batch.changes[0], "broken")

    await embed(postgres)

    assert await postgres.catalog.dead_letters(TENANT, 10) == []


async def test_a_removal_from_the_graph_cannot_be_dead_lettered(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    batch = await postgres.change_log.next_batch("graph", None, 10)
    await postgres.store.erase(TENANT, Selector(everything=True))

    with pytest.raises(DependencyError):
        await postgres.change_log.dead_letter("graph", None, batch.changes[0], "broken")


async def test_status_counts_what_is_pending(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b")))
    await embed(postgres)

    embedding, graph = await postgres.change_log.status(MODEL)

    assert (embedding.projection, embedding.pending, embedding.lag_s) == ("embedding", 0, 0.0)
    assert (graph.projection, graph.pending) == ("graph", 2)
    assert graph.lag_s > 0


async def test_pending_rows_of_the_slowest_projection_count(postgres: Postgres) -> None:
    log = postgres.change_log
    assert not await log.has_pending(1)
    for name in ("a", "b"):
        await postgres.store.write(batch_of(segment(name)))
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
        async with postgres.database.work() as connection:
            ended = await scalar(
                connection,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_locks "
                "WHERE locktype = 'advisory' AND granted AND database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database())",
            )
        lost.set()
        with pytest.raises(StoreUnavailableError):
            await leader
        await follower

    assert ended == 1
    assert events == ["leader", "standby"]


async def test_different_projections_are_led_at_once(postgres: Postgres) -> None:
    async with (
        asyncio.timeout(120),
        postgres.change_log.leadership("graph", None),
        postgres.change_log.leadership("embedding", MODEL),
    ):
        await postgres.store.write(batch_of(segment("a")))
        assert await embed(postgres) == ids("a")


async def test_a_write_wakes_who_waits_in_another_process(
    postgres: Postgres, postgres_dsn: str
) -> None:
    async with Postgres(postgres_dsn) as other, asyncio.timeout(120):
        await other.change_log.wait(10)  # until it listens
        waiting = asyncio.create_task(other.change_log.wait(150))
        await postgres.store.write(batch_of(segment("a")))

        await waiting


async def test_a_read_waits_until_the_graph_has_the_write(postgres: Postgres) -> None:
    receipt = await postgres.store.write(batch_of(segment("a")))

    async with asyncio.timeout(120):
        waiting = asyncio.create_task(
            postgres.consistency.graph_has_seen(receipt.token, Deadline.after(100))
        )
        await project_graph(postgres)

        assert await waiting


async def test_read_reports_a_graph_behind_in_time(postgres: Postgres) -> None:
    receipt = await postgres.store.write(batch_of(segment("a")))

    assert not await postgres.consistency.graph_has_seen(receipt.token, Deadline.after(0.05))


async def test_a_token_of_another_epoch_is_never_seen(postgres: Postgres) -> None:
    receipt = await postgres.store.write(batch_of(segment("a")))
    await project_graph(postgres)
    foreign = replace(receipt.token, epoch="another")

    assert not await postgres.consistency.graph_has_seen(foreign, Deadline.after(10))


async def test_compaction_keeps_what_a_new_projection_needs(postgres: Postgres) -> None:
    for text in ("one", "two", "three"):
        await postgres.store.write(batch_of(segment("a", text), segment("b")))
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    await embed(postgres)
    await project_graph(postgres)
    await postgres.change_log.compact()  # takes a snapshot, which the graph then passes
    await postgres.store.write(batch_of(segment("later")))
    await project_graph(postgres)

    await postgres.change_log.compact()

    assert await log_size(postgres) == 2
    assert await embed(postgres, OTHER_MODEL) == ids("a", "later")
    assert await postgres.change_log.compact() == 0


async def test_log_of_rewritten_items_does_not_grow(postgres: Postgres) -> None:
    sizes = []
    for number in range(5):
        written = [segment("a", f"text {number}"), segment("b", f"text {number}")]
        await postgres.store.write(batch_of(*written, segment("gone")))
        await embed(postgres)
        await postgres.store.erase(TENANT, Selector(items=(segment_id("gone"),)))
        await project_graph(postgres)
        await postgres.change_log.compact()
        sizes.append(await log_size(postgres))

    assert sizes[-1] == sizes[1]


async def test_a_projection_that_stood_still_during_compactions_misses_nothing(
    postgres: Postgres,
) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b"), segment("c")))
    await embed(postgres)  # and stands still from now on
    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))
    deleted = 0
    for text in ("one", "two", "three"):
        await postgres.store.write(batch_of(segment("a", text), segment(text)))
        await project_graph(postgres)
        deleted += await postgres.change_log.compact()
    assert deleted > 0

    missed = await embed(postgres)

    assert sorted(missed) == sorted(ids("a", "one", "two", "three"))
    _, rows = await bootstrap(postgres)
    assert sorted(item for _, item in rows) == sorted(ids("a", "c", "one", "two", "three"))


async def test_compaction_waits_for_the_graph(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    await project_graph(postgres)
    await postgres.store.erase(TENANT, Selector(everything=True))

    assert await postgres.change_log.compact() == 0

    changes = await project_graph(postgres)
    assert changes.removed == [(TENANT, segment_id("a"))]


async def test_compaction_keeps_what_is_young(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "RETENTION", RETENTION)
    await postgres.store.write(batch_of(segment("a")))
    await postgres.store.write(batch_of(segment("a", "changed")))
    await project_graph(postgres)

    assert await postgres.change_log.compact() == 0
    assert await log_size(postgres) == 2


async def test_a_reader_from_before_the_compaction_starts_over(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
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

    async with postgres.database.work() as connection:
        stored = await scalar(
            connection, "SELECT position::pg_snapshot::text FROM projection_state"
        )
    assert Snapshot.parse(stored) == position
