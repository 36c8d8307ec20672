"""The change log as readers outside the service see it: the items of one tenant."""

from __future__ import annotations

from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import LOG_EPOCH
from serving.adapters.postgres.log.entries import first_beyond
from serving.adapters.postgres.log.positions import covers, read_position
from serving.adapters.postgres.tables.filters import TENANT_ID
from serving.domain.changes import ChangesPosition, LogRow, positions_after
from serving.domain.consistency import ConsistencyToken, Snapshot
from serving.domain.errors import ChangesGoneError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.change_feed import ChangesRead, ItemChange

CHANNELS = (Channel.CHANGES,)
OTHER_EPOCH = "it is of another database, or from before a restore"
COMPACTED = "it is older than the log"


class PostgresChangeFeed:
    """`ChangeFeed` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications

    async def now(self) -> ChangesPosition:
        async with self._database.work() as connection:
            position, _ = await read_position(connection)
        return ChangesPosition(position.epoch, position.log)

    async def after_write(self, token: ConsistencyToken) -> ChangesPosition:
        """Takes the newest snapshot from before the write: what is committed after it is beyond."""
        async with self._database.work() as connection:
            epoch, *snapshots = await connection.fetch_row(_PAST)
        if token.epoch != epoch:
            raise ChangesGoneError(OTHER_EPOCH)
        checkpoints, compacted = snapshots
        for text in (*checkpoints, compacted):
            if not token.seen_by(snapshot := Snapshot.parse(text)):
                return ChangesPosition(epoch, snapshot)
        raise ChangesGoneError(COMPACTED)

    async def read(self, tenant: TenantName, position: ChangesPosition, limit: int) -> ChangesRead:
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                _READ,
                {
                    "tenant": tenant,
                    "position": str(position.log),
                    "begun": [str(xid) for xid in position.begun],
                    "up_to": [*position.begun.values()],
                    "limit": limit,
                },
            )
        epoch, log, newest, compacted = rows[0][:4]
        if position.epoch != epoch:
            raise ChangesGoneError(OTHER_EPOCH)
        settled, now = Snapshot.parse(compacted), Snapshot.parse(log)
        if not covers(position.log, settled):
            raise ChangesGoneError(COMPACTED)
        logged = [row[4:] for row in rows if row[4] is not None]
        last = len(logged) < limit
        beyond = [LogRow(xid, seq) for xid, seq, *_ in logged]
        positions = positions_after(position, now, beyond, last=last)
        changes = [
            ItemChange(ItemId(ItemKind(kind), id_), op == "erased", after)
            for (_, _, kind, op, id_), after in zip(logged, positions, strict=True)
            if id_ is not None  # erased since, which was read before or is logged further on
        ]
        if not last:
            return ChangesRead(changes, positions[-1], last=False)
        # With the newest transaction of the log, as `read_position`, and never backwards.
        end = max(newest, settled.xmax - 1, position.log.xmax - 1)
        return ChangesRead(changes, ChangesPosition(epoch, now.up_to(end)))

    def heard(self) -> int:
        return self._notifications.received(CHANNELS)

    async def wait_beyond(self, heard: int, timeout_s: float) -> None:
        await self._notifications.wait_beyond(heard, CHANNELS, timeout_s)


_PAST = f"""
SELECT {LOG_EPOCH}, ARRAY(SELECT snapshot FROM log_checkpoint ORDER BY taken_at DESC), compacted
  FROM meta
"""


def _is_read(log: str) -> str:
    """Whether a row of a transaction that was begun was read."""
    return f"""
    EXISTS (SELECT FROM unnest(%(begun)s::text[]::xid8[], %(up_to)s::int8[]) AS begun (xid, seq)
             WHERE begun.xid = {log}.xid AND {log}.seq <= begun.seq)
    """


_IS_STORED_AGAIN = " OR ".join(
    f"""
    change_log.kind = '{kind}'
    AND EXISTS (SELECT FROM {kind}
                 WHERE {kind}.tenant_id = {TENANT_ID} -- tenant filter
                   AND {kind}.id = change_log.erased_id)
    """
    for kind in ItemKind
)
"""Whether an erased item was stored again, with another key: that is logged further on, since
whoever erases has the tenant to itself."""

# Of each item the last change that was not read: one that is logged first may be committed last.
# That of an erased item has its name.
_OF_TENANT = f"""
op <> 'embedded'
AND (tenant_id = {TENANT_ID} OR erased_tenant = %(tenant)s::text) -- tenant filter
AND NOT (op = 'erased' AND ({_IS_STORED_AGAIN}))
AND NOT {_is_read("change_log")}
AND NOT EXISTS (SELECT FROM change_log AS later
                 WHERE later.key = change_log.key AND later.seq > change_log.seq
                   AND later.op <> 'embedded'
                   AND NOT pg_visible_in_snapshot(later.xid, %(position)s::pg_snapshot)
                   AND NOT {_is_read("later")})
"""

_BEYOND = first_beyond(
    "%(position)s::pg_snapshot", "*", "%(limit)s ROWS ONLY", where=_OF_TENANT, order="ASC, seq"
)

# The snapshot is taken by the same statement, so it includes exactly what the statement sees.
_READ = f"""
SELECT {LOG_EPOCH}, pg_current_snapshot()::text,
       (SELECT coalesce(max(xid), '0') FROM change_log)::text::int8, compacted, next.*
  FROM meta LEFT JOIN LATERAL (
    SELECT log.xid::text::int8, log.seq, log.kind, log.op,
           coalesce(log.erased_id, segment.id, fact.id)
      FROM (SELECT * FROM ({_BEYOND}) AS beyond
             ORDER BY xid, seq LIMIT %(limit)s::int8) AS log
      LEFT JOIN segment ON segment.key = log.key
      LEFT JOIN fact ON fact.key = log.key
     ORDER BY log.xid, log.seq
  ) AS next ON true
"""
