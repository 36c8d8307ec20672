"""Compaction of the change log.

Readers look up what an item is now, so a log row is superseded by a later row of the same item.
Erasures and notes about new vectors are needed only by readers that were behind them. Both kinds
are deleted once they are older than `RETENTION` and the graph, the only projection that must see
erasures, is past them. The newest row of every existing item stays, so that a new projection can
start from the log.
"""

from __future__ import annotations

from datetime import timedelta

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.positions import covers, read_position
from serving.domain.consistency import Snapshot

RETENTION = timedelta(hours=1)
"""The longest absence of an index replica, whose position is stored nowhere."""


async def compact_log(connection: Connection) -> int:
    """Deletes rows that no reader needs, and returns how many; `connection` is in a transaction."""
    await connection.execute(
        "INSERT INTO log_checkpoint (snapshot) VALUES (pg_current_snapshot()::text) "
        "ON CONFLICT DO NOTHING"
    )
    horizon = await _horizon(connection)
    _, compacted = await read_position(connection)
    if horizon is None or horizon == compacted:
        return 0
    cursor = await connection.execute(
        _DELETE, {"horizon": str(horizon), "compacted": str(compacted)}
    )
    await connection.execute("UPDATE meta SET compacted = %s", [str(horizon)])
    return cursor.rowcount


async def _horizon(connection: Connection) -> Snapshot | None:
    """The newest checkpoint that is old enough and behind the graph; deletes older ones."""
    rows = await connection.fetch_all(
        "SELECT position FROM projection_state WHERE projection = 'graph'"
    )
    graph = [Snapshot.parse(row[0]) for row in rows]
    rows = await connection.fetch_all(
        "SELECT snapshot, taken_at FROM log_checkpoint WHERE taken_at <= now() - %s "
        "ORDER BY taken_at DESC",
        [RETENTION],
    )
    for text, taken_at in rows:
        snapshot = Snapshot.parse(text)
        if all(covers(position, snapshot) for position in graph):
            await connection.execute("DELETE FROM log_checkpoint WHERE taken_at < %s", [taken_at])
            return snapshot
    return None


# `settled` are the rows between the former horizon and this one. Each is deleted unless it is a
# write, and so is every older row that it supersedes.
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
