"""PostgreSQL as the source of a vector index: a bootstrap from one snapshot, then changes."""

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

from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.notifications import Channel, Notifications, Waiter
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.current_items import FROM_NAMES, JOIN_ITEM, Name, read_named
from serving.adapters.postgres.log.embeddings import CONTEXT_WINDOW, HAS_EMBEDDING, STORED_TYPE
from serving.adapters.postgres.log.entries import first_beyond
from serving.adapters.postgres.log.positions import changes_beyond, read_position, read_progress
from serving.adapters.postgres.tables.filters import EXPIRES_AT, IS_HIDDEN, terms_of
from serving.adapters.postgres.tables.models import find_model
from serving.adapters.postgres.tables.rows import CLOSING_COLUMNS, to_closings, typed_columns
from serving.domain.items.records import ItemId, ItemKind, TenantName, segment_id
from serving.domain.items.text import QUESTION_MARKS
from serving.domain.shards import WHOLE, Shard
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import FeedDelta, FeedPosition, IndexRow
from serving.ports.resident_feed import LogPosition

BATCH_ROWS = 1000


class PostgresIndexFeed:
    """`IndexFeed` in PostgreSQL, of all rows or of one shard.

    A shard has the rows that it owns and, without their vectors, the segments that are evidence of
    its facts: filters test those.
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
        async with self._database.snapshot() as connection:
            model_id = await find_model(connection, model)
            reached, _ = await read_position(connection)
            position = await _with_progress(connection, reached, model_id)
            # Another connection reads the same snapshot by this name.
            (snapshot,) = await connection.fetch_row("SELECT pg_export_snapshot()")
            rows = _all_rows(self._database.dsn, snapshot, self._row_values(model_id))
            try:
                yield position, rows
            finally:
                await rows.aclose()  # ends the COPY if the caller leaves early

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        """Returns the commits since a position.

        A row whose text changed is among the removed until its new text has a vector: nothing is
        found by a text that is no longer stored.

        Raises:
            FeedLostError: The position is of another epoch, or too old.
        """
        async with self._database.snapshot() as connection:
            model_id = await find_model(connection, model)
            log, names = await changes_beyond(connection, position)
            reached = await _with_progress(connection, log, model_id)
            if self._shard != WHOLE:
                names = await _with_evidence(connection, names)
            found = await read_named(connection, _CURRENT, names, self._row_values(model_id))
        rows = [_index_row(kind, row) for kind, row in found]
        present = {(row.tenant, row.item) for row in rows}
        return FeedDelta(rows, [name for name in names if name not in present], reached)

    def _row_values(self, model_id: int) -> dict[str, int]:
        shard = self._shard
        return {"model_id": model_id, "shard": shard.number, "shards": shard.count}

    async def lag_s(self, position: FeedPosition) -> float:
        """Reads the first change alone, in the order of transactions."""
        async with self._database.work() as connection:
            (lag_s,) = await connection.fetch_row(_LAG, {"position": str(position.log)})
        return float(lag_s)

    async def embedded_share(self, model: EmbeddingModel) -> float:
        async with self._database.work() as connection:
            model_id = await find_model(connection, model)
            counts = [
                await connection.fetch_row(
                    f"""
                    SELECT count(*), count(*) FILTER (WHERE {HAS_EMBEDDING[kind]})
                      FROM {kind} WHERE NOT {IS_HIDDEN[kind]}
                    """,
                    {"model_id": model_id},
                )
                for kind in ItemKind
            ]
        embeddable, embedded = map(sum, zip(*counts, strict=True))
        return embedded / embeddable if embeddable else 1.0

    async def wait(self, timeout_s: float) -> None:
        await self._changes.wait(timeout_s)


async def _with_progress(
    connection: Connection, reached: LogPosition, model_id: int
) -> FeedPosition:
    """A position with that of the embeddings, as the same snapshot sees it."""
    embedded, complete = await read_progress(connection, "embedding", model_id)
    return FeedPosition(reached.epoch, reached.log, embedded, complete)


async def _with_evidence(connection: Connection, names: Sequence[Name]) -> list[Name]:
    """The names, and those of the evidence segments of the facts among them."""
    rows = await read_named(connection, _EVIDENCE, names)
    evidence = [(TenantName(tenant), segment_id(id_)) for _, (tenant, id_) in rows]
    return list(dict.fromkeys([*names, *evidence]))


async def _all_rows(
    dsn: str, snapshot: str, values: Mapping[str, int]
) -> AsyncGenerator[list[IndexRow], None]:
    """Streams the batches of `_read_all`, reading one ahead while a batch is used.

    Reads in a thread: an event loop that waits for every few rows takes as long for the waiting as
    for the rows.
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
    """Reads all rows of an exported snapshot in batches, by binary COPY.

    COPY costs half as much as fetching.
    """
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
        for kind in ItemKind:
            source = f"FROM {kind} JOIN tenant ON tenant.id = {kind}.tenant_id"
            statement = f"COPY ({_rows_from(kind, source)}) TO STDOUT (FORMAT BINARY)"
            with connection.cursor().copy(statement, values) as copy:
                copy.set_types(
                    ["text", "text", "bytea[]", "bytea", "bytea", *_COLUMN_TYPES[kind].values()]
                )
                rows = map(partial(_index_row, kind), copy.rows())
                while batch := list(islice(rows, BATCH_ROWS)):
                    yield batch


def _index_row(kind: ItemKind, row: Sequence[Any]) -> IndexRow:
    """Converts a row of the tenant, the id, the embeddings and `_COLUMN_TYPES`."""
    tenant, id_, vectors, states, context, *columns = row
    values = dict(zip(_COLUMN_TYPES[kind], columns, strict=True))
    if kind is ItemKind.SEGMENT:
        values["terms"] = terms_of(values.pop("tags"))
        values["entities"] = tuple(values["entities"])
    else:
        values["evidence"] = tuple(values["evidence"])
        values["closings"] = to_closings([values.pop(name) for name in CLOSING_COLUMNS])
    return IndexRow(
        tenant=TenantName(tenant),
        item=ItemId(kind, id_),
        vectors=_vectors(vectors),
        context=_vectors([context]) if context is not None and vectors else None,
        states=states if vectors and states is not None else b"",
        **values,
    )


def _vectors(windows: Sequence[bytes]) -> np.ndarray[Any, np.dtype[np.float16]]:
    """float16 (windows, dimension)."""
    if not windows:
        return np.empty((0, 0), STORED_TYPE)
    return np.frombuffer(b"".join(windows), STORED_TYPE).reshape(len(windows), -1)


_COLUMN_TYPES = {
    ItemKind.SEGMENT: typed_columns(
        {
            "text[]": "tags entities",
            "text": "speaker entity",
            "bool": "asks",
            "float8": "importance",
            "timestamptz": "event_time created_at updated_at",
        }
    ),
    ItemKind.FACT: typed_columns(
        {
            "timestamptz": "valid_from valid_to recorded_at retracted_at created_at updated_at",
            "text[]": "evidence closed_by",
            "timestamptz[]": "closed_at closing_recorded_at closing_retracted_at",
        }
    ),
}
"""The columns of an index row besides its name and vectors."""

_COMPUTED = {
    "asks": f"segment.text ~ '[{QUESTION_MARKS}]' AS asks",
    "valid_to": f"least(fact.valid_to, {EXPIRES_AT[ItemKind.FACT]}) AS valid_to",
}
"""Fields that are no columns of a table: `asks` is whether the text has a `QUESTION_MARKS`, and
`valid_to` comes with the expiry of a fact at the latest, as `Fact.searched_until`."""

_OWNED = {
    kind: f"""
    (%(shards)s::int8 = 1 OR %(shard)s::int8 = ('x' || left(
       encode(sha256(convert_to(tenant.name || E'\\x1f' || {kind}.id, 'UTF8')), 'hex'), 8
     ))::bit(32)::int8 %% %(shards)s::int8)
    """
    for kind in ItemKind
}
"""Whether the shard owns a row, as `Shard.owns` decides."""

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
          AND embedding.text_hash = {kind}.text_hash AND embedding.window_no >= 0)
    {f"WHEN {_IS_EVIDENCE} THEN '{{}}'::bytea[]" if kind is ItemKind.SEGMENT else ""}
    END AS vectors
    """
    for kind in ItemKind
}
"""A row's current vectors; NULL if it has none, or none for this shard."""

_STATES = {
    ItemKind.SEGMENT: """
    (SELECT token_states FROM embedding
      WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = segment.key
        AND embedding.text_hash = segment.text_hash AND embedding.window_no = 0) AS states
    """,
    ItemKind.FACT: "NULL::bytea AS states",
}
"""The token states of a row; NULL if it has none."""

_CONTEXT = {
    ItemKind.SEGMENT: f"""
    CASE WHEN {_OWNED[ItemKind.SEGMENT]} THEN
      (SELECT embedding.vector FROM embedding
        WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = segment.key
          AND embedding.text_hash = segment.text_hash AND embedding.window_no = {CONTEXT_WINDOW})
    END AS context
    """,
    ItemKind.FACT: "NULL::bytea AS context",
}
"""A row's vector with the turn before it; NULL if it has none, or none for this shard."""


def _rows_from(kind: ItemKind, source: str) -> str:
    columns = ", ".join(_COMPUTED.get(name, f"{kind}.{name}") for name in _COLUMN_TYPES[kind])
    return f"""
    SELECT * FROM (
      SELECT tenant.name, {kind}.id, {_VECTORS[kind]}, {_STATES[kind]}, {_CONTEXT[kind]}, {columns}
        {source}
       WHERE NOT {IS_HIDDEN[kind]}
    ) AS item WHERE vectors IS NOT NULL
    """


_CURRENT = {kind: _rows_from(kind, f"{FROM_NAMES} {JOIN_ITEM[kind]}") for kind in ItemKind}

_EVIDENCE = {
    ItemKind.FACT: f"""
    SELECT DISTINCT tenant.name, unnest(fact.evidence) {FROM_NAMES} {JOIN_ITEM[ItemKind.FACT]}
    """
}

_FIRST = first_beyond("%(position)s::pg_snapshot", "logged_at", "1 ROW ONLY", where="true")

_LAG = f"""
SELECT greatest(0, coalesce(extract(epoch FROM now() - min(logged_at)), 0))::float8
  FROM ({_FIRST}) AS beyond
"""
