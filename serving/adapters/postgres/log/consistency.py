"""The graph's progress, for a read that carries a consistency token."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Mapping

from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import LOG_EPOCH, Connection
from serving.adapters.postgres.log.entries import POSITIONS, first_beyond
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.errors import TriviumError
from serving.domain.items.records import ItemKind, TenantName
from serving.ports.change_log import Projection

logger = logging.getLogger(__name__)

COUNT_EVERY_S = 1.0
COUNT_WITHIN_S = 0.25

NEWEST = 5000
"""The most waiting rows that are looked at, so that a long backlog is not read for each count."""

POLL_S = 0.25
"""The interval of polling, in case a notification is lost."""


class PostgresConsistency:
    """`Consistency` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._counts: Mapping[Projection, Mapping[str, int]] = {}
        self._count_at = 0.0

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits, but not for a token of another epoch, which refers to another log."""
        channels = (Channel.PROGRESS,)
        while not deadline.passed:
            received = self._notifications.received(channels)
            try:
                epoch, position = await self._graph_position(deadline)
            except TimeoutError:
                return False
            if epoch != token.epoch:
                return False
            if token.seen_by(position):
                return True
            wait_s = min(POLL_S, deadline.remaining())
            await self._notifications.wait_beyond(received, channels, wait_s)
        return False

    async def _graph_position(self, deadline: Deadline) -> tuple[str, Snapshot]:
        async with self._database.search(deadline) as connection:
            epoch, position = await connection.fetch_row(
                f"SELECT {LOG_EPOCH}, position FROM meta "
                "LEFT JOIN projection_state ON projection = 'graph'",
                prepare=True,
            )
        return epoch, Snapshot.parse(position) if position else NOTHING_SEEN

    async def dead_letter_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        try:
            async with asyncio.timeout(COUNT_WITHIN_S), self._database.work() as connection:
                rows = await connection.fetch_all(
                    """
                    SELECT projection, count(*) FROM dead_letter
                     WHERE xid = ANY (%s::text[]::xid8[]) OR xid <= %s::text::xid8
                     GROUP BY projection
                    """,
                    [[str(xid) for xid in token.xids], str(token.all_up_to)],
                )
                return {"embedding": 0, "graph": 0, **dict(rows)}
        except (TriviumError, TimeoutError) as error:
            logger.info("dead letters not counted", extra={"reason": str(error)})
            return {}

    async def pending_counts(
        self, tenant: TenantName, deadline: Deadline
    ) -> Mapping[Projection, int]:
        """Pending rows of the tenant; counted for all tenants at most once a second.

        A count that takes long is repeated as rarely as keeps it below a tenth of the time.
        """
        started = time.monotonic()
        if started >= self._count_at:
            self._count_at = math.inf  # by one request at a time
            try:
                # Not of the caller, since it counts for all tenants.
                async with (
                    asyncio.timeout(min(COUNT_WITHIN_S, deadline.remaining())),
                    self._database.work() as connection,
                ):
                    self._counts = await _count_waiting(connection)
            except (TriviumError, TimeoutError) as error:
                logger.info("pending rows not counted", extra={"reason": str(error)})
            finally:
                took_s = time.monotonic() - started
                self._count_at = started + max(COUNT_EVERY_S, 10 * took_s)
        return {name: counts[tenant] for name, counts in self._counts.items() if tenant in counts}


async def _count_waiting(connection: Connection) -> Mapping[Projection, Mapping[str, int]]:
    """The number of changed rows of each tenant that each projection has not seen.

    What is sensitive does not wait to be embedded, since it never is. Of all tenants together at
    most the last `NEWEST` are looked at. With two models, that of the model which is further.
    """
    rows = await connection.fetch_all(_COUNT_WAITING, {"nothing": str(NOTHING_SEEN)})
    by_model: dict[tuple[Projection, int], dict[str, int]] = defaultdict(dict)
    for projection, model_id, tenant, count in rows:
        of_model = by_model[projection, model_id]
        if tenant is not None:
            of_model[tenant] = count
    furthest_last = sorted(by_model.items(), key=lambda each: -sum(each[1].values()))
    return {projection: by_tenant for (projection, _), by_tenant in furthest_last}


_NEWEST = first_beyond(
    "state.position::pg_snapshot", "key, tenant_id", f"{NEWEST} ROWS ONLY", order="DESC"
)

_COUNT_WAITING = f"""
SELECT state.projection, state.model_id, tenant.name, count(DISTINCT log.key)
  FROM ({POSITIONS}) AS state
  LEFT JOIN LATERAL (
    SELECT key, tenant_id
      FROM ({_NEWEST}) AS newest
     WHERE NOT (state.projection = 'embedding' AND (
             EXISTS (SELECT FROM embedding
                      WHERE embedding.model_id = state.model_id AND embedding.key = newest.key)
             OR EXISTS (SELECT FROM segment
                         WHERE segment.key = newest.key AND {IS_HIDDEN[ItemKind.SEGMENT]})
             OR EXISTS (SELECT FROM fact
                         WHERE fact.key = newest.key AND {IS_HIDDEN[ItemKind.FACT]})))
  ) AS log ON true
  LEFT JOIN tenant ON tenant.id = log.tenant_id
 GROUP BY state.projection, state.model_id, tenant.name
"""
