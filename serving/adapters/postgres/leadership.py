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
from serving.adapters.postgres.models import NO_MODEL, find_or_make_model
from serving.adapters.postgres.pool import Connection, Database
from serving.ports import EmbeddingModel, Projection

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How often a standby tries to take the lead."""

_LOCK_CLASS = 0x54524C44
"""The first half of these advisory locks: "TRLD"; those of tenants are of another class. The
second is the model's number, and that of no model for the graph."""


class Leadership:
    """The leads that this process holds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leads: dict[tuple[Projection, EmbeddingModel | None], Connection] = {}

    @asynccontextmanager
    async def lead(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[None]:
        """Waits until this process leads the projection to `model`; leads until the exit.

        Each model has a leader of its own: after a change of the model both are kept up, by
        one process or by an old and a new one.

        Raises:
            StoreUnavailableError: PostgreSQL cannot be reached.
        """
        async with await self._database.connect() as connection:
            with store_errors():
                model_id = await find_or_make_model(connection, model) if model else NO_MODEL
            await self._take_lead(connection, model_id)
            self._leads[projection, model] = connection
            logger.info("took the lead", extra={"projection": projection})
            try:
                yield
            finally:
                del self._leads[projection, model]

    async def _take_lead(self, connection: Connection, model_id: int) -> None:
        # Not the lock that waits: its statement would hold a snapshot all the while, and
        # keep VACUUM from removing anything that died since.
        while True:
            with store_errors():
                cursor = await connection.execute(
                    "SELECT pg_try_advisory_lock(%s::int4, %s::int4)",
                    [_LOCK_CLASS, model_id],
                )
                if await cursor.fetchone() == (True,):
                    return
            await asyncio.sleep(RETRY_S)

    @asynccontextmanager
    async def connection(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[Connection]:
        """The session that holds the lead; without one, a connection from the pool.

        Raises:
            StoreUnavailableError: The lead is lost.
        """
        leading = self._leads.get((projection, model))
        if leading is None:
            async with self._database.work() as connection:
                yield connection
            return
        with store_errors():
            yield leading
