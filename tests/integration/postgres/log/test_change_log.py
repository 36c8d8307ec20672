"""The change log and its readers: backlogs, crashes, and an index that follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import psutil
import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log import compaction
from serving.adapters.postgres.log.change_log import PostgresChangeLog
from serving.adapters.postgres.log.index_feed import PostgresIndexFeed
from serving.adapters.postgres.reads.catalog import PostgresCatalog
from serving.adapters.vector_index import ExactIndex
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.errors import DependencyError, StoreUnavailableError
from serving.domain.items.records import Item, ItemId, Segment, TenantName, fact_id, segment_id
from serving.pipeline.index import log_following
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.writes.projector import GraphWork, Projector
from serving.ports.embedding import Embedding
from serving.ports.index_engine import FeedLostError, FeedPosition
from serving.ports.memory_store import Batch, Selector, WriteReceipt
from tests.fakes.graph import InMemoryGraph
from tests.fixtures.postgres import QUICK, pid_of
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
from tests.support.builders import TENANT, batch_of, fact, ids, segment
from tests.support.examples import examples
from tests.support.processes import is_alive
from tests.support.waiting import until, until_async

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
        await log.save_embeddings(MODEL, [(task, Embedding(np.ones((1, 3), np.float32)))])

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


async def test_embedding_a_row_removes_its_dead_letter(postgres: Postgres) -> None:
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


async def test_status_counts_pending_changes(postgres: Postgres) -> None:
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


async def test_compaction_keeps_changes_for_a_new_projection(postgres: Postgres) -> None:
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


async def test_compaction_keeps_young_changes(
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


SHORT, LONG = 200, 1000
_AS_FOR_LARGE_TABLES = "; ".join(
    f"SET enable_{plan} = off" for plan in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")
)


class CountedDatabase:
    """A database that counts the pages, in memory or not, that its statements read.

    They are planned as for large tables, of which indexes are used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.pages = 0

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Any]:
        async with self._database.work() as connection:
            yield _CountedConnection(connection, self)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Any]:
        async with self._database.snapshot() as connection:
            yield _CountedConnection(connection, self)


class _CountedConnection:
    fetch_all: Any = Connection.fetch_all
    fetch_row: Any = Connection.fetch_row

    def __init__(self, connection: Connection, counted: CountedDatabase) -> None:
        self._connection = connection
        self._counted = counted

    async def execute(self, statement: str, values: Any = None, **how: Any) -> Any:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            await self._connection.execute(_AS_FOR_LARGE_TABLES)
            cursor = await self._connection.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values
            )
            [([explained],)] = await cursor.fetchall()
            plan = explained["Plan"]
            self._counted.pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return await self._connection.execute(statement, values, **how)


async def lengthen(postgres: Postgres, first: int, last: int) -> None:
    """Writes segments of these numbers in transactions of 50, and lets the planner know."""
    for start in range(first, last, 50):
        numbers = range(start, min(last, start + 50))
        await write(postgres, *(segment(f"{number:05}") for number in numbers))
    async with await postgres.database.connect() as connection:
        await connection.execute("VACUUM ANALYZE")


Read: TypeAlias = Callable[[Database, int], Awaitable[None]]
"""Reads, when the last of a number of segments was written."""


async def pages_of(postgres: Postgres, read: Read, *numbers: int) -> tuple[int, int]:
    """The pages read when there are segments from the first number to each of the others."""
    pages = []
    for first, last in pairwise(numbers):
        await lengthen(postgres, first, last)
        database = CountedDatabase(postgres.database)
        await read(cast(Database, database), last)
        pages.append(database.pages)
    short, long = pages
    return short, long


async def test_a_poll_reads_no_more_of_a_longer_backlog(postgres: Postgres) -> None:
    async def poll(database: Database, _: int) -> None:
        log = PostgresChangeLog(database, postgres.notifications)
        await log.next_batch("graph", None, 50)
        await log.next_batch("embedding", MODEL, 50)
        feed = PostgresIndexFeed(database, postgres.notifications)
        await feed.lag_s(FeedPosition("", NOTHING_SEEN, NOTHING_SEEN, complete=True))

    short, long = await pages_of(postgres, poll, 0, SHORT, LONG)

    assert long <= 1.5 * short, "indexes may be a level deeper"


async def test_draining_costs_as_much_as_the_backlog_is_long(postgres: Postgres) -> None:
    async def drain(database: Database, _: int) -> None:
        log = PostgresChangeLog(database, postgres.notifications)
        projector = Projector(log, GraphWork(log, InMemoryGraph()))
        while await projector.step(None):
            pass

    await lengthen(postgres, 0, LONG)  # or the indexes would become deeper from one to the other
    await project_graph(postgres, limit=LONG)
    short, long = await pages_of(postgres, drain, LONG, LONG + SHORT, 2 * LONG + SHORT)

    assert long / LONG <= 1.2 * short / SHORT


async def test_an_old_transaction_makes_no_poll_longer(postgres: Postgres) -> None:
    async def poll(database: Database, _: int) -> None:
        await project_graph(postgres, limit=LONG)
        log = PostgresChangeLog(database, postgres.notifications)
        assert not (await log.next_batch("graph", None, 50)).changes

    async with postgres.database.transaction() as old:
        await old.execute("SELECT pg_current_xact_id()")
        short, long = await pages_of(postgres, poll, 0, SHORT, LONG)

    assert long <= 1.5 * short


async def test_counts_look_up_only_rows_without_vectors(postgres: Postgres) -> None:
    async def count(database: Database, last: int) -> None:
        while await embed(postgres):
            pass
        await write(postgres, segment("waits", f"a text of {last}"))
        counts = await PostgresCatalog(database).tenant_counts(TENANT, MODEL)
        assert (counts.embedded, counts.embeddable) == (last, last + 1)

    short, long = await pages_of(postgres, count, 0, SHORT, LONG)

    assert (long - short) / (LONG - SHORT) < 0.5, "fewer than a page a segment"


WRITES_LATE = {**QUICK, "wal_writer_delay": "10000"}
ABORTED = 50


@dataclass(frozen=True, slots=True)
class Server:
    handle: EmbeddedPostgres
    dsn: str

    def crash(self) -> None:
        postmaster = psutil.Process(pid_of(self.handle.root))
        postmaster.kill()
        until(lambda: not is_alive(postmaster))
        self.handle.restart_if_dead()


@pytest.fixture
async def server(short_directory: Path) -> AsyncIterator[Server]:
    """A server that writes only what a commit makes it write."""
    handle = EmbeddedPostgres(short_directory / "crashes", settings=WRITES_LATE)
    with handle as dsn:
        await migrate(dsn)
        yield Server(handle, dsn)


@contextmanager
def aborted_transactions(dsn: str) -> Iterator[int]:
    """Begins and aborts some; yields the last one's id."""
    with psycopg.connect(dsn) as connection:
        for _ in range(ABORTED):
            connection.execute("INSERT INTO tombstone (hash) VALUES ('')")
            row = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
            connection.rollback()
        assert row is not None
        yield row[0]


def given_again(receipt: WriteReceipt, aborted: int) -> bool:
    return max(receipt.token.xids) <= aborted


async def test_index_sees_writes_after_a_crash(server: Server) -> None:
    async with Postgres(server.dsn) as postgres:
        await write(postgres, segment("before"))
        await embed(postgres)
        with aborted_transactions(server.dsn) as aborted:
            position, _ = await bootstrap(postgres)
            server.crash()

    async with Postgres(server.dsn) as postgres:
        receipt = await write(postgres, segment("after"))
        await embed(postgres)
        delta = await postgres.feed.changes_since(position, MODEL)

    assert given_again(receipt, aborted), "the crash has lost nothing, so this shows nothing"
    assert [row.item.id for row in delta.rows] == ["after"]


async def test_the_names_in_memory_include_those_stored_after_a_crash(server: Server) -> None:
    async with Postgres(server.dsn) as postgres:
        await write(postgres, segment("before", entities=["Ann"]))
        with aborted_transactions(server.dsn) as aborted:
            assert set(await postgres.store.known_names(TENANT)) == {"ann"}
            server.crash()
        async with Postgres(server.dsn) as writing:
            receipt = await write(writing, segment("after", entities=["Bob"]))

        await until_async(postgres.store.ready)
        names = await postgres.store.known_names(TENANT)

    assert given_again(receipt, aborted), "the crash has lost nothing, so this shows nothing"
    assert set(names) == {"ann", "bob"}


WRITERS, ROWS, AT_ONCE = 6, examples(4000), 200


async def test_a_tail_misses_nothing_of_six_writers(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24,000 rows with --all; meanwhile every third is rewritten and every tenth erased."""
    erased = {f"{writer}-{place}" for writer in range(WRITERS) for place in range(0, ROWS, 10)}
    written = {f"{writer}-{place}" for writer in range(WRITERS) for place in range(ROWS)}

    async def work(writer: int) -> ConsistencyToken:
        for start in range(0, ROWS, AT_ONCE):
            places = range(start, start + AT_ONCE)
            await postgres.store.write(batch_of(*(segment(f"{writer}-{p}") for p in places)))
            again = [segment(f"{writer}-{p}", "other words") for p in places if p % 3 == 0]
            await postgres.store.write(Batch(TENANT, again))
            gone = tuple(segment_id(f"{writer}-{p}") for p in places if p % 10 == 0)
            token = (await postgres.store.erase(TENANT, Selector(items=gone))).token
        return token

    async def embed_all() -> None:
        while not all(writer.done() for writer in writers) or await embed(postgres, limit=2000):
            await embed(postgres, limit=2000)

    await embed(postgres)
    monkeypatch.setattr(log_following, "POLL_S", 0.01)
    index = LogFollowingIndex(postgres.feed, MODEL, lambda: ExactIndex(MODEL.dimension))
    async with asyncio.timeout(240), index, asyncio.TaskGroup() as tasks:
        assert await index.ready(Deadline.after(30))
        writers = [tasks.create_task(work(writer)) for writer in range(WRITERS)]
        await tasks.create_task(embed_all())
        for writer in writers:
            assert await index.caught_up(writer.result(), Deadline.after(60))

        status = await index.status()
        assert status.epoch == 1, "it began anew, which hides what it missed"
        assert status.vector_count == len(written - erased)
        assert await index.count(TENANT, ids(*(written - erased))) == len(written - erased)
