"""Who does a projection's work: the holder of an advisory lock, for as long as its session lives.

The leader's statements run on the very session that holds the lock. So a leader that has lost it
cannot write, not even before it notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from serving.adapters.postgres.errors import store_errors
from serving.adapters.postgres.pool import Connection, Database
from serving.ports import Projection

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How often a standby tries to take the lead."""

_LOCK_CLASS = 0x54524C44
"""The first half of these advisory locks: "TRLD"; those of tenants are of another class."""
_LOCKS: dict[Projection, int] = {"embedding": 1, "graph": 2}


class Leadership:
    """The leads that this process holds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leads: dict[Projection, Connection] = {}

    @asynccontextmanager
    async def lead(self, projection: Projection) -> AsyncIterator[None]:
        """Waits until this process leads the projection; leads until the exit.

        Raises:
            StoreUnavailableError: PostgreSQL cannot be reached.
        """
        async with await self._database.connect() as connection:
            await self._take_lead(connection, projection)
            self._leads[projection] = connection
            logger.info("took the lead", extra={"projection": projection})
            try:
                yield
            finally:
                del self._leads[projection]

    async def _take_lead(self, connection: Connection, projection: Projection) -> None:
        # Not the lock that waits: its statement would hold a snapshot all the while, and
        # keep VACUUM from removing anything that died since.
        while True:
            with store_errors():
                cursor = await connection.execute(
                    "SELECT pg_try_advisory_lock(%s::int4, %s::int4)",
                    [_LOCK_CLASS, _LOCKS[projection]],
                )
                if await cursor.fetchone() == (True,):
                    return
            await asyncio.sleep(RETRY_S)

    @asynccontextmanager
    async def connection(self, projection: Projection) -> AsyncIterator[Connection]:
        """The session that holds the lead; without one, a connection from the pool.

        Raises:
            StoreUnavailableError: The lead is lost.
        """
        leading = self._leads.get(projection)
        if leading is None:
            async with self._database.work() as connection:
                yield connection
            return
        with store_errors():
            yield leading
