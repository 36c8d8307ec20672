"""PostgreSQL as the source of a vector index: all of one snapshot, then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import psycopg
from psycopg.sql import SQL

from serving.adapters.postgres.compaction import covers, read_compacted
from serving.adapters.postgres.current import ASKED, Name, asked_for
from serving.adapters.postgres.embeddings import IS_HIDDEN, STORED_TYPE
from serving.adapters.postgres.errors import store_errors
from serving.adapters.postgres.filters import terms_of
from serving.adapters.postgres.models import find_model
from serving.adapters.postgres.notifications import Channel, Notifications, Waiter
from serving.adapters.postgres.pool import Connection, Database
from serving.adapters.postgres.rows import to_closings
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.records import ItemId, ItemKind, TenantName, segment_id
from serving.domain.shards import WHOLE, Shard
from serving.ports import EmbeddingModel, FeedDelta, FeedLostError, FeedPosition, IndexRow

BATCH_ROWS = 1000
MOST_CHANGES = 100_000
"""A reader that is further behind starts again, which streams, in place of one huge delta."""


class PostgresIndexFeed:
    """The port `IndexFeed`, of all rows or of one share.

    A share has the rows that it owns and, without their vectors, the segments on which its
    facts rest: a filter asks about those.
    """

    def __init__(
        self, database: Database, notifications: Notifications, shard: Shard = WHOLE
    ) -> None:
        self._database = database
        self._shard = shard
        self._changes = Waiter(notifications, Channel.CHANGES, Channel.PROGRESS)

    @asynccontextmanager
    async def bootstrap(
        self, model: EmbeddingModel
    ) -> AsyncIterator[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        """All rows of one snapshot that have a current vector of `model`, in batches."""
        async with self._database.snapshot() as connection:
            model_id = await find_model(connection, model)
            position = await _read_position(connection, model_id)
            snapshot = await _export_snapshot(connection)
            rows = _all_rows(self._database.dsn, snapshot, self._values(model_id))
            try:
                yield position, rows
            finally:
                await rows.aclose()  # ends the COPY, should the caller leave early

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        """What was committed since.

        A row whose text changed is among the removed until it has a vector of its
        new text: nothing is found by a text that is no longer stored.

        Raises:
            FeedLostError: The position is of another epoch, or too old.
        """
        async with self._database.snapshot() as connection:
            model_id = await find_model(connection, model)
            reached = await _read_position(connection, model_id)
            if position.epoch != reached.epoch:
                raise FeedLostError("the log started anew")
            if not covers(position.log, await read_compacted(connection)):
                raise FeedLostError("the log no longer reaches back so far")
            names = await _changed_names(connection, position.log)
            if self._shard != WHOLE:
                names = await _with_evidence(connection, names)
            rows = await _current_rows(connection, names, self._values(model_id))
        present = {(row.tenant, row.item) for row in rows}
        return FeedDelta(rows, [name for name in names if name not in present], reached)

    def _values(self, model_id: int) -> dict[str, int]:
        """What the statements about rows ask for."""
        shard = self._shard
        return {"model_id": model_id, "shard": shard.number, "shards": shard.count}

    async def lag_s(self, position: FeedPosition) -> float:
        """The age in seconds of the oldest change since; 0 if there is none.

        Asks the index of the log by transaction, so it costs what is waiting and no more.
        """
        async with self._database.work() as connection:
            cursor = await connection.execute(_LAG, {"position": str(position.log)})
            row = await cursor.fetchone()
        assert row is not None, "an aggregate has a row; this is a bug"
        lag_s: float = row[0]
        return lag_s

    async def embedded_share(self, model: EmbeddingModel) -> float:
        """The share, 0 to 1, of what should have a vector of `model` and has one."""
        async with self._database.work() as connection:
            model_id = await find_model(connection, model)
            embeddable = embedded = 0
            for kind in ItemKind:
                cursor = await connection.execute(_COVERAGE[kind], {"model_id": model_id})
                of_kind, with_vector = await cursor.fetchone() or (0, 0)
                embeddable += of_kind
                embedded += with_vector
        return embedded / embeddable if embeddable else 1.0

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""
        await self._changes.wait(timeout_s)


async def _read_position(connection: Connection, model_id: int) -> FeedPosition:
    """Where this snapshot is, and the projection of embeddings as this snapshot sees it."""
    cursor = await connection.execute(
        """
        SELECT log_epoch::text, pg_current_snapshot()::text,
               position, complete_model IS NOT DISTINCT FROM %(model_id)s::int2
          FROM meta LEFT JOIN projection_state
            ON projection = 'embedding' AND model_id = %(model_id)s::int2
        """,
        {"model_id": model_id},
    )
    row = await cursor.fetchone()
    assert row is not None, "meta has no row; this is a bug"
    epoch, log, embedded, complete = row
    return FeedPosition(
        epoch,
        log=Snapshot.parse(log),
        embedded=Snapshot.parse(embedded) if embedded else NOTHING_SEEN,
        complete=complete,
    )


async def _changed_names(connection: Connection, position: Snapshot) -> list[Name]:
    cursor = await connection.execute(
        _CHANGED, {"position": str(position), "most": MOST_CHANGES + 1}, binary=True
    )
    rows = await cursor.fetchall()
    if len(rows) > MOST_CHANGES:
        raise FeedLostError(f"more than {MOST_CHANGES} changes are waiting")
    return [(TenantName(tenant), ItemId(ItemKind(kind), id_)) for tenant, kind, id_ in rows]


async def _with_evidence(connection: Connection, names: Sequence[Name]) -> list[Name]:
    """The names, and those of the segments on which the facts among them rest."""
    cursor = await connection.execute(_EVIDENCE, asked_for(names, ItemKind.FACT), binary=True)
    evidence = [(TenantName(tenant), segment_id(id_)) for tenant, id_ in await cursor.fetchall()]
    return list(dict.fromkeys([*names, *evidence]))


async def _current_rows(
    connection: Connection, names: Sequence[Name], values: Mapping[str, int]
) -> list[IndexRow]:
    rows: list[IndexRow] = []
    for kind in ItemKind:
        asked = asked_for(names, kind)
        if asked["ids"]:
            cursor = await connection.execute(_CURRENT[kind], {**values, **asked}, binary=True)
            rows += [_READ[kind](row) for row in await cursor.fetchall()]
    return rows


async def _export_snapshot(connection: Connection) -> str:
    """The name by which another connection reads the same snapshot."""
    cursor = await connection.execute("SELECT pg_export_snapshot()")
    row = await cursor.fetchone()
    assert row is not None, "a function has a result; this is a bug"
    return str(row[0])


async def _all_rows(
    dsn: str, snapshot: str, values: Mapping[str, int]
) -> AsyncGenerator[list[IndexRow], None]:
    """Streams what `_read_all` reads, which reads on while a batch is used.

    In a thread: an event loop that waits for every few rows anew takes as long over that as over
    the rows.
    """
    batches = _read_all(dsn, snapshot, values)
    with store_errors(), ThreadPoolExecutor(1, "index-bootstrap") as thread:
        in_thread = partial(asyncio.get_running_loop().run_in_executor, thread)
        coming = in_thread(next, batches, None)
        try:
            while (batch := await coming) is not None:
                coming = in_thread(next, batches, None)
                yield batch
        finally:
            await asyncio.gather(coming, return_exceptions=True)
            await in_thread(batches.close)


def _read_all(
    dsn: str, snapshot: str, values: Mapping[str, int]
) -> Generator[list[IndexRow], None, None]:
    """Reads all rows of an exported snapshot, in batches, by binary COPY.

    That costs half of fetching them.
    """
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
        for kind in ItemKind:
            with connection.cursor().copy(_ALL[kind], values) as copy:
                copy.set_types(_TYPES[kind])
                rows = map(_READ[kind], copy.rows())
                while batch := list(islice(rows, BATCH_ROWS)):
                    yield batch


def _segment_row(row: Sequence[Any]) -> IndexRow:
    tenant, id_, vectors, tags, importance, event_time, created_at, updated_at = row
    return IndexRow(
        tenant=TenantName(tenant),
        item=ItemId(ItemKind.SEGMENT, id_),
        vectors=_vectors(vectors),
        terms=terms_of(tags),
        importance=importance,
        event_time=event_time,
        created_at=created_at,
        updated_at=updated_at,
    )


def _fact_row(row: Sequence[Any]) -> IndexRow:
    tenant, id_, vectors, valid_from, valid_to, recorded_at, retracted_at, *row = row
    evidence, created_at, updated_at, *closings = row
    return IndexRow(
        tenant=TenantName(tenant),
        item=ItemId(ItemKind.FACT, id_),
        vectors=_vectors(vectors),
        created_at=created_at,
        updated_at=updated_at,
        valid_from=valid_from,
        valid_to=valid_to,
        recorded_at=recorded_at,
        retracted_at=retracted_at,
        closings=to_closings(closings),
        evidence=tuple(evidence),
    )


def _vectors(windows: Sequence[bytes]) -> np.ndarray[Any, np.dtype[np.float16]]:
    """float16 (windows, dimension)."""
    if not windows:
        return np.empty((0, 0), STORED_TYPE)
    return np.frombuffer(b"".join(windows), STORED_TYPE).reshape(len(windows), -1)


_READ = {ItemKind.SEGMENT: _segment_row, ItemKind.FACT: _fact_row}

_COLUMNS = {
    ItemKind.SEGMENT: "segment.tags, segment.importance, segment.event_time, segment.created_at, "
    "segment.updated_at",
    ItemKind.FACT: "fact.valid_from, fact.valid_to, fact.recorded_at, fact.retracted_at, "
    "fact.evidence, fact.created_at, fact.updated_at, fact.closed_by, fact.closed_at, "
    "fact.closing_recorded_at, fact.closing_retracted_at",
}
_TYPES = {
    ItemKind.SEGMENT: (
        *("text", "text", "bytea[]", "text[]", "float8"),
        *("timestamptz", "timestamptz", "timestamptz"),
    ),
    ItemKind.FACT: (
        *("text", "text", "bytea[]", "timestamptz", "timestamptz", "timestamptz", "timestamptz"),
        *("text[]", "timestamptz", "timestamptz"),
        *("text[]", "timestamptz[]", "timestamptz[]", "timestamptz[]"),
    ),
}
_OWNED = {
    kind: f"""
    (%(shards)s::int8 = 1 OR %(shard)s::int8 = ('x' || left(
       encode(sha256(convert_to(tenant.name || E'\\x1f' || {kind}.id, 'UTF8')), 'hex'), 8
     ))::bit(32)::int8 %% %(shards)s::int8)
    """
    for kind in ItemKind
}
"""`Shard.owns`."""

_IS_EVIDENCE = f"""
EXISTS (SELECT FROM fact
         WHERE fact.tenant_id = segment.tenant_id -- tenant filter
           AND fact.evidence @> ARRAY[segment.id] AND NOT {IS_HIDDEN[ItemKind.FACT]}
           AND {_OWNED[ItemKind.FACT]})
"""

_VECTORS = {
    kind: f"""
    CASE WHEN {_OWNED[kind]} THEN
      (SELECT array_agg(embedding.vector ORDER BY embedding.window_no) FROM embedding
        WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
          AND embedding.text_hash = {kind}.text_hash)
    {f"WHEN {_IS_EVIDENCE} THEN '{{}}'::bytea[]" if kind is ItemKind.SEGMENT else ""}
    END AS vectors
    """
    for kind in ItemKind
}
"""The current vectors of a row; NULL if there is none, or none for this share."""

_ALL = {
    kind: f"""
    COPY (
      SELECT * FROM (
        SELECT tenant.name, {kind}.id, {_VECTORS[kind]}, {_COLUMNS[kind]}
          FROM {kind} JOIN tenant ON tenant.id = {kind}.tenant_id
         WHERE NOT {IS_HIDDEN[kind]}
      ) AS item WHERE vectors IS NOT NULL
    ) TO STDOUT (FORMAT BINARY)
    """
    for kind in ItemKind
}

_CURRENT = {
    kind: f"""
    SELECT * FROM (
      SELECT tenant.name, {kind}.id, {_VECTORS[kind]}, {_COLUMNS[kind]} {ASKED}
        JOIN {kind} ON {kind}.tenant_id = tenant.id -- tenant filter
                   AND {kind}.id = asked.id
       WHERE NOT {IS_HIDDEN[kind]}
    ) AS item WHERE vectors IS NOT NULL
    """
    for kind in ItemKind
}

_EVIDENCE = f"""
SELECT DISTINCT tenant.name, unnest(fact.evidence) {ASKED}
  JOIN fact ON fact.tenant_id = tenant.id -- tenant filter
           AND fact.id = asked.id
"""

_COVERAGE = {
    kind: f"""
    SELECT count(*), count(*) FILTER (WHERE EXISTS (
             SELECT FROM embedding
              WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
                AND embedding.text_hash = {kind}.text_hash))
      FROM {kind} WHERE NOT {IS_HIDDEN[kind]}
    """
    for kind in ItemKind
}

_LAG = """
SELECT greatest(0, coalesce(extract(epoch FROM now() - min(logged_at)), 0))::float8
  FROM change_log
 WHERE xid >= pg_snapshot_xmin(%(position)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(xid, %(position)s::pg_snapshot)
"""

_CHANGED = """
SELECT DISTINCT coalesce(log.erased_tenant, tenant.name), log.kind,
       coalesce(log.erased_id, segment.id, fact.id)
  FROM change_log AS log
  LEFT JOIN tenant ON tenant.id = log.tenant_id
  LEFT JOIN segment ON segment.key = log.key
  LEFT JOIN fact ON fact.key = log.key
 WHERE log.xid >= pg_snapshot_xmin(%(position)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(log.xid, %(position)s::pg_snapshot)
   AND coalesce(log.erased_id, segment.id, fact.id) IS NOT NULL
 LIMIT %(most)s::int8
"""
