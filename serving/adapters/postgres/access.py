"""What was shown, how often and when: counted in memory, stored about once a second.

An update per retrieval would cost it 0.7 ms and 9 kB of log; this costs 1 us. A crash loses
the counts of about a second. Whoever asks this process is told what is not stored yet, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from serving.adapters.postgres.filters import conditions_of
from serving.adapters.postgres.pool import Connection, Database
from serving.adapters.postgres.tally import Shown, Tally
from serving.adapters.postgres.tenancy import TENANT_ID
from serving.domain.budget import Deadline
from serving.domain.consistency import Snapshot
from serving.domain.errors import TriviumError
from serving.domain.query import Scope
from serving.domain.records import ItemId, ItemKind, TenantName, segment_id

logger = logging.getLogger(__name__)

FLUSH_EVERY_S = 1.0
MOST_PENDING = 50_000
"""While PostgreSQL is away, what goes beyond as many items is not counted."""


class PostgresAccessLog:
    """The port `AccessLog`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending = Tally()
        self._being_stored = Tally()
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        self.dropped = 0
        """Accesses that were not counted."""

    async def open(self) -> None:
        """Starts to store what is counted."""
        self._flusher = asyncio.create_task(self._flush_forever(), name="access-log")

    async def close(self) -> None:
        """Stores what is left."""
        if self._flusher is not None:
            self._flusher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._flusher
        await self._try_to_flush()

    # ------------------------------------------------------------ counting

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        """Counts one access of each item; returns at once."""
        once = Shown(1, datetime.now(UTC))
        for item in items:
            if len(self._pending) < MOST_PENDING or (tenant, item) in self._pending:
                self._pending.add(tenant, item, once)
            else:
                self.dropped += 1

    async def flush(self) -> None:
        """Stores what is counted so far.

        Raises:
            StoreUnavailableError: It is still there, for the next time.
        """
        async with self._flushing:
            if not self._pending:
                return
            tally, self._pending = self._pending, Tally()
            self._being_stored = tally
            try:
                async with self._database.transaction() as connection:
                    tally.xid = await _current_xid(connection)
                    await _store(connection, tally)
            except BaseException:
                self._pending = tally | self._pending
                raise
            finally:
                self._being_stored = Tally()

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            await self._try_to_flush()

    async def _try_to_flush(self) -> None:
        try:
            await self.flush()
        except (TriviumError, TimeoutError) as error:
            logger.debug("accesses kept for later", extra={"reason": str(error)})

    # ------------------------------------------------------------ answering

    async def shown_counts(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> Mapping[ItemId, int]:
        """How often each item was shown, what is not stored yet included."""
        # A flush may end meanwhile; the snapshot tells whether its counts were read as stored.
        tallies = (self._being_stored, self._pending)
        asked = {
            "tenant": tenant,
            "segments": [item.id for item in items if item.kind is ItemKind.SEGMENT],
            "facts": [item.id for item in items if item.kind is ItemKind.FACT],
        }
        async with self._database.search(deadline) as connection:
            cursor = await connection.execute(_SHOWN_COUNTS, asked, prepare=True, binary=True)
            rows = await cursor.fetchall()
        counts = Counter(
            {ItemId(ItemKind(kind), id_): shown for _, kind, id_, shown in rows if id_}
        )
        snapshot = Snapshot.parse(rows[0][0])
        for tally in tallies:
            if not tally.is_stored_in(snapshot):
                shown = tally.of_tenant(tenant)
                counts.update({item: shown[item].times for item in {*items} & shown.keys()})
        return counts

    async def recently_accessed(self, scope: Scope, limit: int, deadline: Deadline) -> list[ItemId]:
        """The segments of the scope that were shown or said last, latest first, then by id."""
        conditions = conditions_of(scope.segment_filter, scope.as_of)
        tallies = (self._being_stored, self._pending)
        not_stored = [
            (item.id, shown.last)
            for tally in tallies
            for item, shown in tally.of_tenant(scope.tenant).items()
            if item.kind is ItemKind.SEGMENT
        ]
        values = {
            "tenant": scope.tenant,
            "ids": [id_ for id_, _ in not_stored],
            "times": [last for _, last in not_stored],
            "limit": limit,
            **conditions.values,
        }
        async with self._database.planned_search(deadline) as connection:
            cursor = await connection.execute(
                _RECENTLY_ACCESSED.format(conditions=conditions), values, prepare=True, binary=True
            )
            return [segment_id(id_) for (id_,) in await cursor.fetchall()]


async def _current_xid(connection: Connection) -> int:
    cursor = await connection.execute("SELECT pg_current_xact_id()::text::int8")
    row = await cursor.fetchone()
    assert row is not None, "a SELECT without FROM has a row; this is a bug"
    return int(row[0])


async def _store(connection: Connection, tally: Tally) -> None:
    for kind in ItemKind:
        rows = [
            (tenant, item.id, shown.times, shown.last)
            for tenant, item, shown in tally
            if item.kind is kind
        ]
        if rows:
            await connection.execute(
                _STORE[kind], [list(column) for column in zip(*rows, strict=True)]
            )


# The lock keeps rows from being erased meanwhile, which would leave their counts behind; it is
# taken in the order in which writers lock.
_STORE = {
    kind: f"""
    WITH item AS (
      SELECT {kind}.key, {kind}.tenant_id, asked.shown, asked.last_shown
        FROM unnest(%s::text[], %s::text[], %s::int8[], %s::timestamptz[])
             AS asked (tenant, id, shown, last_shown)
        JOIN tenant ON tenant.name = asked.tenant
        JOIN {kind} ON {kind}.tenant_id = tenant.id -- tenant filter
                   AND {kind}.id = asked.id
       ORDER BY {kind}.tenant_id, {kind}.id FOR KEY SHARE OF {kind}
    )
    INSERT INTO access_count AS stored (key, tenant_id, shown, last_shown)
    SELECT key, tenant_id, shown, last_shown FROM item
        ON CONFLICT (key) DO UPDATE SET
           tenant_id = excluded.tenant_id,
           shown = stored.shown + excluded.shown,
           last_shown = greatest(stored.last_shown, excluded.last_shown)
    """
    for kind in ItemKind
}

# One row at least, for the snapshot.
_SHOWN_COUNTS = f"""
SELECT pg_current_snapshot()::text, item.kind, item.id, access_count.shown
  FROM (VALUES (1)) AS always
  LEFT JOIN (
    (SELECT 'segment' AS kind, id, key FROM segment
      WHERE tenant_id = {TENANT_ID} -- tenant filter
        AND id = ANY (%(segments)s::text[])
      UNION ALL
     SELECT 'fact', id, key FROM fact
      WHERE tenant_id = {TENANT_ID} -- tenant filter
        AND id = ANY (%(facts)s::text[])) AS item
    JOIN access_count USING (key)
  ) ON true
"""

# What was accessed last has the latest of two times, of being shown and of being said. Whatever
# is among the n latest by that is among the n latest by the one that is later: fewer than n
# can be ahead of it there, as each that is ahead there is ahead by the latest of both as well.
# So n of each are enough, and each has an index in whose order it is read. What is not stored
# yet is a third such list, and taken whole.
_RECENTLY_ACCESSED = f"""
SELECT id FROM (
  (SELECT id, event_time AS accessed FROM segment
    WHERE tenant_id = {TENANT_ID} -- tenant filter
      AND NOT sensitive{{conditions}}
    ORDER BY event_time DESC, id LIMIT %(limit)s::int4)
   UNION ALL
  (SELECT id, last_shown FROM access_count JOIN segment USING (key, tenant_id)
    WHERE tenant_id = {TENANT_ID} -- tenant filter
      AND NOT sensitive{{conditions}}
    ORDER BY last_shown DESC, id LIMIT %(limit)s::int4)
   UNION ALL
  SELECT id, last_shown
    FROM unnest(%(ids)s::text[], %(times)s::timestamptz[]) AS not_stored (id, last_shown)
    JOIN segment USING (id)
   WHERE tenant_id = {TENANT_ID} -- tenant filter
     AND NOT sensitive{{conditions}}
  ) AS latest
 GROUP BY id ORDER BY max(accessed) DESC, id LIMIT %(limit)s::int4
"""
