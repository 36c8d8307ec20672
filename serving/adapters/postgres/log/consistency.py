"""The graph's progress, for a read that carries a consistency token."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping

from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import LOG_EPOCH, fetch_row
from serving.adapters.postgres.log.dead_letters import count_dead_letters
from serving.adapters.postgres.log.waiting import count_waiting
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.domain.errors import TriviumError
from serving.domain.items.records import TenantName
from serving.ports.change_log import Projection

logger = logging.getLogger(__name__)

COUNT_EVERY_S = 1.0
COUNT_WITHIN_S = 0.25

POLL_S = 0.25
"""The interval of polling, in case a notification is lost."""


class PostgresConsistency:
    """`Consistency` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications
        self._counts: Mapping[str, Mapping[Projection, int]] = {}
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
            epoch, position = await fetch_row(
                connection,
                f"SELECT {LOG_EPOCH}, position FROM meta "
                "LEFT JOIN projection_state ON projection = 'graph'",
                prepare=True,
            )
        return epoch, Snapshot.parse(position) if position else NOTHING_SEEN

    async def dead_letter_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        try:
            async with asyncio.timeout(COUNT_WITHIN_S), self._database.work() as connection:
                return await count_dead_letters(connection, token)
        except (TriviumError, TimeoutError) as error:
            logger.info("dead letters not counted", extra={"reason": str(error)})
            return {}

    async def pending_counts(
        self, tenant: TenantName, deadline: Deadline
    ) -> Mapping[Projection, int]:
        """How many rows of the tenant wait; counted for all tenants at most once a second.

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
                    self._counts = await count_waiting(connection)
            except (TriviumError, TimeoutError) as error:
                logger.info("pending rows not counted", extra={"reason": str(error)})
            finally:
                took_s = time.monotonic() - started
                self._count_at = started + max(COUNT_EVERY_S, 10 * took_s)
        return self._counts.get(tenant, {})
