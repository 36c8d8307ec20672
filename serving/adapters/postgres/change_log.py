"""The log of changes as the projector reads it, and where each projection is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from serving.adapters.postgres.compaction import KEEP, compact_log
from serving.adapters.postgres.current import read_current
from serving.adapters.postgres.embeddings import insert_embeddings, missing_embeddings
from serving.adapters.postgres.leadership import Leadership
from serving.adapters.postgres.models import NO_MODEL, find_model, find_or_make_model
from serving.adapters.postgres.notifications import Channel, Notifications, Waiter
from serving.adapters.postgres.pool import Connection, Database
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.errors import DependencyError
from serving.domain.records import ItemId, ItemKind, Segment, TenantName
from serving.ports import (
    Change,
    ChangeBatch,
    EmbeddingModel,
    EmbeddingTask,
    GraphChanges,
    GraphFact,
    GraphSegment,
    Projection,
    ProjectionStatus,
    Vectors,
)

IDLE_TRANSACTIONS = 10_000
"""A position that is behind by as many is noted anew, though nothing was logged since."""


class PostgresChangeLog:
    """The port `ChangeLog`."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._leadership = Leadership(database)
        self._changes = Waiter(notifications, Channel.CHANGES)

    def leadership(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AbstractAsyncContextManager[None]:
        """Waits until this process leads the projection to `model`; leads until the exit."""
        return self._leadership.lead(projection, model)

    async def next_batch(
        self, projection: Projection, model: EmbeddingModel | None, limit: int
    ) -> ChangeBatch:
        """The next changes, in whole transactions; of several of one row the last counts.

        With nothing to project the position moves on only if that tells something: if it has
        gaps to close, or after `IDLE_TRANSACTIONS`. So following an idle log writes nothing.
        """
        async with self._leadership.connection(projection, model) as connection:
            model_id = await _model_id(connection, model)
            position = await _position(connection, projection, model_id)
            cursor = await connection.execute(
                _NEXT_CHANGES, {"position": str(position), "limit": limit}, binary=True
            )
            rows = await cursor.fetchall()
        now = Snapshot.parse(rows[0][0])
        logged = [row[1:] for row in rows if row[1] is not None]
        if not logged and not position.in_progress and now.xmax < position.xmax + IDLE_TRANSACTIONS:
            return ChangeBatch([], position, last=True)
        last = len(logged) < limit
        reached = now if last else position_after(position, now, newest=logged[-1][0])
        changes = {
            key: Change(key, TenantName(tenant), ItemId(ItemKind(kind), id_), xid)
            for xid, key, kind, tenant, id_ in logged
            if id_ is not None  # erased since, which the log says further on
        }
        return ChangeBatch(list(changes.values()), reached, last)

    async def embedding_tasks(
        self, changes: Sequence[Change], model: EmbeddingModel
    ) -> list[EmbeddingTask]:
        """What of the changes needs a vector: neither gone, nor sensitive, nor up to date."""
        async with self._database.work() as connection:
            model_id = await find_model(connection, model)
            return await missing_embeddings(connection, changes, model_id, model.text_form)

    async def save_embeddings(
        self, model: EmbeddingModel, vectors: Sequence[tuple[EmbeddingTask, Vectors]]
    ) -> None:
        """Stores the vectors of the rows that are still as they were, in one transaction.

        Raises:
            ValueError: A vector has another dimension than the model.
        """
        if any(rows.shape[1:] != (model.dimension,) for _, rows in vectors):
            raise ValueError(f"vectors must have dimension {model.dimension}")
        async with (
            self._leadership.connection("embedding", model) as connection,
            connection.transaction(),
        ):
            model_id = await find_or_make_model(connection, model)
            await insert_embeddings(connection, model_id, vectors)
        self._notifications.announce(Channel.CHANGES)

    async def graph_changes(self, changes: Sequence[Change]) -> GraphChanges:
        """What the changed items should be in the graph now.

        Looked up by name: an id that was erased and written again is another row, but the same
        node.
        """
        names = list(dict.fromkeys((change.tenant, change.item) for change in changes))
        async with self._database.snapshot() as connection:
            current = await read_current(connection, names)
        return GraphChanges(
            segments=[
                GraphSegment(tenant=tenant, segment=item)
                for (tenant, _), item in current.items()
                if isinstance(item, Segment)
            ],
            facts=[
                GraphFact(tenant=tenant, fact=item)
                for (tenant, _), item in current.items()
                if not isinstance(item, Segment)
            ],
            removed=[name for name in names if name not in current],
        )

    async def set_aside(
        self, projection: Projection, model: EmbeddingModel | None, change: Change, reason: str
    ) -> None:
        """Notes that the projection could not take the row, in place of an older note.

        Raises:
            DependencyError: The row is gone, so what could not be done is removing it from the
                graph; that must be tried until it can.
        """
        async with self._leadership.connection(projection, model) as connection:
            cursor = await connection.execute(
                _SET_ASIDE.format(table=change.item.kind),
                {
                    "projection": projection,
                    "key": change.key,
                    "xid": str(change.xid),
                    "reason": reason,
                },
            )
        if cursor.rowcount == 0 and projection == "graph":
            raise DependencyError("graph", "an erased row could not be removed")

    async def advance(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        position: Snapshot,
        *,
        complete: bool = False,
    ) -> None:
        """Notes that everything in `position` is projected, and if so that `model` is complete."""
        async with self._leadership.connection(projection, model) as connection:
            model_id = await _model_id(connection, model)
            # Looked at first, since even an upsert that changes nothing takes a transaction id.
            known = await _known(connection, projection, model_id)
            if known == (position, known[1] or complete):
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
        """Returns when the log has grown, or after the timeout."""
        await self._changes.wait(timeout_s)

    async def status(self, model: EmbeddingModel | None) -> list[ProjectionStatus]:
        """How far each projection is; that of embeddings only if a model is given."""
        async with self._database.snapshot() as connection:
            statuses = [await _status(connection, "graph", NO_MODEL)]
            if model is not None:
                model_id = await find_model(connection, model)
                statuses.insert(0, await _status(connection, "embedding", model_id))
        return statuses

    async def compact(self, keep: timedelta = KEEP) -> int:
        """Deletes what no reader needs any more; returns how many rows. To be called now and then.

        Args:
            keep: How long a reader may stay away without having to start over.
        """
        async with self._database.transaction() as connection:
            return await compact_log(connection, keep)


def position_after(position: Snapshot, now: Snapshot, newest: int) -> Snapshot:
    """Where a reader is who has handled the log up to transaction `newest`, in order of ids.

    Equal to `now` without the transactions that follow, but as short, however many these are.

    Args:
        position: Where the reader was.
        now: The snapshot that the log was read in.
        newest: The last transaction that was handled.
    """
    xmax = max(position.xmax, newest + 1)
    missing = {xid for xid in now.in_progress if xid < xmax}
    missing |= {xid for xid in position.in_progress if xid > newest}
    return Snapshot(xmax, frozenset(missing))


async def _model_id(connection: Connection, model: EmbeddingModel | None) -> int:
    return NO_MODEL if model is None else await find_or_make_model(connection, model)


async def _position(connection: Connection, projection: Projection, model_id: int) -> Snapshot:
    position, _ = await _known(connection, projection, model_id)
    return position


async def _known(
    connection: Connection, projection: Projection, model_id: int
) -> tuple[Snapshot, bool]:
    """Where the projection is, and whether its model was the last to be complete."""
    cursor = await connection.execute(
        """
        SELECT position, complete_model IS NOT DISTINCT FROM %(model_id)s::int2
          FROM meta LEFT JOIN projection_state
            ON projection = %(projection)s::text AND model_id = %(model_id)s::int2
        """,
        {"projection": projection, "model_id": model_id},
    )
    row = await cursor.fetchone()
    assert row is not None, "meta has no row; this is a bug"
    position, complete = row
    return (Snapshot.parse(position) if position else NOTHING_SEEN), complete


async def _status(
    connection: Connection, projection: Projection, model_id: int
) -> ProjectionStatus:
    position = await _position(connection, projection, model_id)
    cursor = await connection.execute(
        """
        SELECT (SELECT count(*) FROM set_aside WHERE projection = %(projection)s::text),
               count(*),
               greatest(0, coalesce(extract(epoch FROM now() - min(logged_at)), 0))::float8
          FROM change_log
         WHERE op <> 'embedded' AND xid >= pg_snapshot_xmin(%(position)s::pg_snapshot)
           AND NOT pg_visible_in_snapshot(xid, %(position)s::pg_snapshot)
        """,
        {"projection": projection, "position": str(position)},
    )
    set_aside, pending, lag_s = await cursor.fetchone() or (0, 0, 0.0)
    return ProjectionStatus(projection, pending, lag_s, set_aside)


# In the order of transactions, so that a limit cuts between two of them. The snapshot is that of
# this one statement, and so includes exactly what the statement sees.
_NEXT_CHANGES = """
SELECT pg_current_snapshot()::text, next.*
  FROM (VALUES (1)) AS always
  LEFT JOIN LATERAL (
    SELECT log.xid::text::int8, log.key, log.kind,
           coalesce(log.erased_tenant, tenant.name) AS tenant,
           coalesce(log.erased_id, segment.id, fact.id) AS id
      FROM (SELECT * FROM change_log
             WHERE op <> 'embedded' AND xid >= pg_snapshot_xmin(%(position)s::pg_snapshot)
               AND NOT pg_visible_in_snapshot(xid, %(position)s::pg_snapshot)
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

# The lock keeps the row from being erased meanwhile, which would leave the note behind.
_SET_ASIDE = """
WITH row AS (SELECT key, tenant_id FROM {table} WHERE key = %(key)s::int8 FOR KEY SHARE)
INSERT INTO set_aside (projection, key, tenant_id, xid, reason)
SELECT %(projection)s::text, key, tenant_id, %(xid)s::xid8, %(reason)s::text FROM row
    ON CONFLICT (projection, key) DO UPDATE SET
       xid = excluded.xid, reason = excluded.reason, set_aside_at = now()
"""
