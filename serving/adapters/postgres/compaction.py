"""Keeping the change log short.

A row of the log is superseded when a later one tells of the same item, since readers look at
what an item is now. An erasure, and a note that vectors came, is needed only by readers that
were there before it. All of these go once they are older than `KEEP` and the graph, the one
projection that must hear of erasures, is past them. What stays is the newest row of
every item that exists, from which a new projection can start.
"""

from __future__ import annotations

from datetime import timedelta

from serving.adapters.postgres.pool import Connection
from serving.domain.consistency import NOTHING_SEEN, Snapshot

KEEP = timedelta(hours=1)
"""Replicas of the index, whose positions are nowhere written, may stay away for as long."""


def covers(position: Snapshot, other: Snapshot) -> bool:
    """Whether `position` includes every transaction that `other` does."""
    return position.xmax >= other.xmax and not any(
        other.includes(xid) for xid in position.in_progress
    )


async def compact_log(connection: Connection, keep: timedelta) -> int:
    """Deletes rows that nobody needs; `connection` is in a transaction.

    Returns:
        How many.
    """
    await connection.execute(
        "INSERT INTO log_checkpoint (snapshot) VALUES (pg_current_snapshot()::text) "
        "ON CONFLICT DO NOTHING"
    )
    horizon = await _horizon(connection, keep)
    compacted = await read_compacted(connection)
    if horizon is None or horizon == compacted:
        return 0
    cursor = await connection.execute(
        _DELETE, {"horizon": str(horizon), "compacted": str(compacted)}
    )
    await connection.execute("UPDATE meta SET compacted = %s", [str(horizon)])
    return cursor.rowcount


async def read_compacted(connection: Connection) -> Snapshot:
    """The snapshot up to which the log is compacted."""
    cursor = await connection.execute("SELECT compacted FROM meta")
    row = await cursor.fetchone()
    return NOTHING_SEEN if row is None else Snapshot.parse(row[0])


async def _horizon(connection: Connection, keep: timedelta) -> Snapshot | None:
    """The newest checkpoint that is old enough, and that the graph is past; drops older ones."""
    cursor = await connection.execute(
        "SELECT position FROM projection_state WHERE projection = 'graph'"
    )
    graph = [Snapshot.parse(row[0]) for row in await cursor.fetchall()]
    cursor = await connection.execute(
        "SELECT snapshot, taken_at FROM log_checkpoint WHERE taken_at <= now() - %s "
        "ORDER BY taken_at DESC",
        [keep],
    )
    for text, taken_at in await cursor.fetchall():
        snapshot = Snapshot.parse(text)
        if all(covers(position, snapshot) for position in graph):
            await connection.execute("DELETE FROM log_checkpoint WHERE taken_at < %s", [taken_at])
            return snapshot
    return None


# What came within the horizon since the last time: it goes if it is no news of a living row, and
# what it supersedes goes anyway.
_DELETE = """
WITH settled AS (
  SELECT seq, key, op FROM change_log
   WHERE xid >= pg_snapshot_xmin(%(compacted)s::pg_snapshot)
     AND NOT pg_visible_in_snapshot(xid, %(compacted)s::pg_snapshot)
     AND xid < pg_snapshot_xmax(%(horizon)s::pg_snapshot)
     AND pg_visible_in_snapshot(xid, %(horizon)s::pg_snapshot)
)
DELETE FROM change_log AS log USING settled
 WHERE log.key = settled.key
   AND ((log.seq = settled.seq AND settled.op <> 'written')
     OR (log.seq < settled.seq AND settled.op <> 'embedded'))
"""
