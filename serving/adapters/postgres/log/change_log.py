"""The log of changes as the projector reads it, the position of each projection, and its leader.

A leader holds an advisory lock for as long as its session, on which its statements run. One that
has lost the lock therefore cannot write, even before it notices the loss.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.notifications import Channel, Notifications, Waiter
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.compaction import compact_log
from serving.adapters.postgres.log.current_items import read_graph_changes
from serving.adapters.postgres.log.embeddings import insert_embeddings, missing_embeddings
from serving.adapters.postgres.log.entries import POSITIONS, first_beyond
from serving.adapters.postgres.log.positions import read_progress
from serving.adapters.postgres.tables.models import NO_MODEL, find_model, find_or_make_model
from serving.domain.consistency import NOTHING_SEEN, Snapshot, position_after
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.change_log import (
    Change,
    ChangeBatch,
    EmbeddingTask,
    Projection,
    ProjectionStatus,
)
from serving.ports.embedding import Embedding, EmbeddingModel
from serving.ports.graph import GraphChanges

logger = logging.getLogger(__name__)

IDLE_TRANSACTIONS = 256
"""A position this many transactions behind is stored anew even if nothing was logged since.

Until then each look at the log passes over their notes about new vectors."""

MAX_COUNTED = 100_000
"""The most pending rows that are counted."""

RETRY_S = 0.5
"""The interval at which a standby tries to take the lead."""

_LOCK_CLASS = 0x54524C44
"""The first key of these advisory locks: "TRLD", distinct from that of tenants. The second key is
the model's number, or `NO_MODEL` for the graph, or that of the extraction."""

_EXTRACTION = -1


class PostgresChangeLog:
    """`ChangeLog` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._leads: dict[tuple[Projection, EmbeddingModel | None], Connection] = {}
        self._changes = Waiter(notifications, Channel.CHANGES)

    @asynccontextmanager
    async def leadership(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[None]:
        """Each model has its own leader.

        After a change of model both are maintained, by one process or by an old and a new one.
        """
        async with await self._database.connect() as connection:
            with store_errors():
                number = await find_or_make_model(connection, model)
                await _take_lead(connection, _EXTRACTION if projection == "extraction" else number)
            self._leads[projection, model] = connection
            logger.info("leadership acquired", extra={"projection": projection})
            try:
                yield
            finally:
                del self._leads[projection, model]

    @asynccontextmanager
    async def _connection(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[Connection]:
        """The session that holds the lead, or a pooled connection if this process does not lead.

        Raises StoreUnavailableError if the lead is lost.
        """
        leading = self._leads.get((projection, model))
        if leading is None:
            async with self._database.work() as connection:
                yield connection
            return
        with store_errors():
            yield leading

    async def next_batch(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        limit: int,
        after: Snapshot | None = None,
    ) -> ChangeBatch:
        """The next changes, in whole transactions; the last of several changes of a row counts.

        Reads about `limit` rows of the log, however many follow.

        Without changes the position advances only to close gaps, or after `IDLE_TRANSACTIONS`, so
        following an idle log writes nothing.
        """
        async with self._connection(projection, model) as connection:
            model_id = await find_or_make_model(connection, model)
            position = after
            if position is None:
                position, _ = await read_progress(connection, projection, model_id)
            rows = await connection.fetch_all(
                _NEXT_CHANGES, {"position": str(position), "limit": limit}
            )
        now = Snapshot.parse(rows[0][0])
        logged = [row[1:] for row in rows if row[1] is not None]
        if not logged and not position.in_progress and now.xmax < position.xmax + IDLE_TRANSACTIONS:
            return ChangeBatch([], position, last=True)
        last = len(logged) < limit
        reached = now if last else position_after(position, now, newest=logged[-1][0])
        changes = {
            key: Change(key, TenantName(tenant), ItemId(ItemKind(kind), id_), xid)
            for xid, key, kind, tenant, id_ in logged
            if id_ is not None  # erased since; the erasure is logged further on
        }
        return ChangeBatch(list(changes.values()), reached, last)

    async def embedding_tasks(
        self, changes: Sequence[Change], model: EmbeddingModel
    ) -> list[EmbeddingTask]:
        async with self._database.work() as connection:
            model_id = await find_model(connection, model)
            return await missing_embeddings(connection, changes, model_id)

    async def save_embeddings(
        self, model: EmbeddingModel, made: Sequence[tuple[EmbeddingTask, Embedding]]
    ) -> None:
        """Stores the vectors of rows whose text is unchanged; ValueError for another dimension."""
        if any(each.vectors.shape[1:] != (model.dimension,) for _, each in made):
            raise ValueError(f"vectors must have dimension {model.dimension}")
        async with (
            self._connection("embedding", model) as connection,
            connection.transaction(),
        ):
            model_id = await find_or_make_model(connection, model)
            await insert_embeddings(connection, model_id, made)
        self._notifications.announce(Channel.PROGRESS)

    async def graph_changes(self, changes: Sequence[Change]) -> GraphChanges:
        """Looks items up by name: an id that was written again is another row of the same node."""
        names = list(dict.fromkeys((change.tenant, change.item) for change in changes))
        async with self._database.snapshot() as connection:
            return await read_graph_changes(connection, names)

    async def dead_letter(
        self, projection: Projection, model: EmbeddingModel | None, change: Change, reason: str
    ) -> None:
        """Dead-letters the row, replacing an earlier entry.

        Raises:
            DependencyError: The row no longer exists, so it is its removal from the graph that
                failed; that must be retried until it succeeds.
        """
        async with self._connection(projection, model) as connection:
            # The lock prevents a concurrent erasure, which would leave the entry behind.
            cursor = await connection.execute(
                f"""
                WITH row AS (
                  SELECT key, tenant_id FROM {change.item.kind}
                   WHERE key = %(key)s::int8 FOR KEY SHARE
                )
                INSERT INTO dead_letter (projection, key, tenant_id, xid, reason)
                SELECT %(projection)s::text, key, tenant_id, %(xid)s::xid8, %(reason)s::text
                  FROM row
                    ON CONFLICT (projection, key) DO UPDATE SET
                       xid = excluded.xid, reason = excluded.reason, dead_lettered_at = now()
                """,
                {
                    "projection": projection,
                    "key": change.key,
                    "xid": str(change.xid),
                    "reason": reason,
                },
            )
        if not cursor.rowcount and projection == "graph":
            raise DependencyError("graph", "an erased row could not be removed")

    async def advance(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        position: Snapshot,
        *,
        complete: bool = False,
    ) -> None:
        async with self._connection(projection, model) as connection:
            model_id = await find_or_make_model(connection, model)
            # Read first: even an upsert that changes nothing consumes a transaction id.
            stored, was_complete = await read_progress(connection, projection, model_id)
            if stored == position and (was_complete or not complete):
                return
            await connection.execute(
                _ADVANCE,
                {
                    "projection": projection,
                    "model_id": model_id,
                    "position": str(position),
                    "complete": complete,
                },
            )
        self._notifications.announce(Channel.PROGRESS)

    async def wait(self, timeout_s: float) -> None:
        await self._changes.wait(timeout_s)

    async def status(self, model: EmbeddingModel | None) -> list[ProjectionStatus]:
        """The progress of each projection; that of embeddings only if a model is given."""
        async with self._database.snapshot() as connection:
            statuses = [await _status(connection, "graph", NO_MODEL)]
            if await connection.fetch_all(_EXTRACTION_RAN):
                statuses.append(await _status(connection, "extraction", NO_MODEL))
            if model is not None:
                model_id = await find_model(connection, model)
                statuses.insert(0, await _status(connection, "embedding", model_id))
        return statuses

    async def has_pending(self, count: int) -> bool:
        """Reads at most `count` entries of an index for each projection, in the model in use."""
        async with self._database.work() as connection:
            (pending,) = await connection.fetch_row(
                _HAS_PENDING, {"count": count, "nothing": str(NOTHING_SEEN)}
            )
        return bool(pending)

    async def compact(self) -> int:
        async with self._database.transaction() as connection:
            return await compact_log(connection)


async def _take_lead(connection: Connection, lock: int) -> None:
    # Polls instead of blocking on the lock: a waiting statement would hold a snapshot and keep
    # VACUUM from removing dead rows.
    while True:
        (taken,) = await connection.fetch_row(
            "SELECT pg_try_advisory_lock(%s::int4, %s::int4)", [_LOCK_CLASS, lock]
        )
        if taken:
            return
        await asyncio.sleep(RETRY_S)


async def _status(
    connection: Connection, projection: Projection, model_id: int
) -> ProjectionStatus:
    position, _ = await read_progress(connection, projection, model_id)
    dead_letters, pending, lag_s = await connection.fetch_row(
        _STATUS, {"projection": projection, "position": str(position)}
    )
    return ProjectionStatus(projection, pending, lag_s, dead_letters)


_POSITION = "%(position)s::pg_snapshot"

_EXTRACTION_RAN = "SELECT 1 FROM projection_state WHERE projection = 'extraction' LIMIT 1"

# A transaction is logged about as late as its id says, so the age is that of the first of them.
_STATUS = f"""
SELECT (SELECT count(*) FROM dead_letter WHERE projection = %(projection)s::text),
       (SELECT count(*)
          FROM ({first_beyond(_POSITION, "key", f"{MAX_COUNTED} ROWS ONLY")}) AS beyond),
       (SELECT greatest(0, coalesce(extract(epoch FROM now() - min(logged_at)), 0))::float8
          FROM ({first_beyond(_POSITION, "logged_at", "1 ROW ONLY")}) AS beyond)
"""

_BEYOND = first_beyond("state.position::pg_snapshot", "key", "%(count)s ROWS ONLY")

_HAS_PENDING = f"""
SELECT EXISTS (
  SELECT FROM ({POSITIONS}) AS state, meta
   WHERE state.model_id IN ({NO_MODEL}, coalesce(meta.complete_model, state.model_id))
     AND (SELECT count(*) FROM ({_BEYOND}) AS beyond) >= %(count)s::int8)
"""

# Ordered by transaction, so that the limit falls between two of them. The snapshot is taken by the
# same statement, so it includes exactly what the statement sees.
_NEXT_CHANGES = f"""
SELECT pg_current_snapshot()::text, next.*
  FROM (VALUES (1)) AS always
  LEFT JOIN LATERAL (
    SELECT log.xid::text::int8, log.key, log.kind,
           coalesce(log.erased_tenant, tenant.name) AS tenant,
           coalesce(log.erased_id, segment.id, fact.id) AS id
      FROM (SELECT * FROM ({first_beyond(_POSITION, "*", "%(limit)s ROWS WITH TIES")}) AS beyond
             ORDER BY xid FETCH FIRST %(limit)s ROWS WITH TIES) AS log
      LEFT JOIN tenant ON tenant.id = log.tenant_id
      LEFT JOIN segment ON segment.key = log.key
      LEFT JOIN fact ON fact.key = log.key
     ORDER BY log.xid, log.seq
  ) AS next ON true
"""

_ADVANCE = """
WITH completed AS (
  UPDATE meta SET complete_model = %(model_id)s::int2
   WHERE %(complete)s::bool AND complete_model IS DISTINCT FROM %(model_id)s::int2
)
INSERT INTO projection_state (projection, model_id, position)
VALUES (%(projection)s::text, %(model_id)s::int2, %(position)s::text)
    ON CONFLICT (projection, model_id) DO UPDATE SET position = excluded.position
"""
