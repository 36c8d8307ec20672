"""Leader election for projections: the leader holds an advisory lock for as long as its session.

The leader's statements run on the session that holds the lock. A leader that has lost the lock
therefore cannot write, even before it notices the loss.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.models import NO_MODEL, find_or_make_model
from serving.ports.change_log import Projection
from serving.ports.embedding import EmbeddingModel

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""The interval at which a standby tries to take the lead."""

_LOCK_CLASS = 0x54524C44
"""The first key of these advisory locks: "TRLD", distinct from that of tenants. The second key is
the model's number, or `NO_MODEL` for the graph, or that of the extraction."""

_EXTRACTION = -1


class Leadership:
    """The projections that this process leads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leads: dict[tuple[Projection, EmbeddingModel | None], Connection] = {}

    @asynccontextmanager
    async def lead(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[None]:
        """Waits until this process leads the projection to `model`; leads until the exit.

        Each model has its own leader: after a change of model both are maintained, by one process
        or by an old and a new one.

        Raises:
            StoreUnavailableError: PostgreSQL is unreachable.
        """
        async with await self._database.connect() as connection:
            with store_errors():
                model_id = await find_or_make_model(connection, model) if model else NO_MODEL
            await self._take_lead(
                connection, _EXTRACTION if projection == "extraction" else model_id
            )
            self._leads[projection, model] = connection
            logger.info("leadership acquired", extra={"projection": projection})
            try:
                yield
            finally:
                del self._leads[projection, model]

    async def _take_lead(self, connection: Connection, model_id: int) -> None:
        # Polls instead of blocking on the lock: a waiting statement would hold a snapshot and keep
        # VACUUM from removing dead rows.
        while True:
            with store_errors():
                (taken,) = await connection.fetch_row(
                    "SELECT pg_try_advisory_lock(%s::int4, %s::int4)", [_LOCK_CLASS, model_id]
                )
            if taken:
                return
            await asyncio.sleep(RETRY_S)

    @asynccontextmanager
    async def connection(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AsyncIterator[Connection]:
        """The session that holds the lead, or a pooled connection if this process does not lead.

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
