"""Connection pools: one for work, one for searches.

Both open while PostgreSQL is down, retry about once a second during an outage, and never hand out
a connection that the server has closed.
"""

from __future__ import annotations

import asyncio
import math
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from psycopg_pool import AsyncConnectionPool, PoolTimeout

from serving.adapters.postgres.connection.dsn import with_defaults
from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.row_security import CallerConnection
from serving.adapters.postgres.connection.statements import Connection
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, StoreUnavailableError
from serving.domain.items.records import TenantName

POOL_TIMEOUT_S = 2.0
"""The timeout of work without a deadline for a connection."""
OUTAGE_TIMEOUT_S = 0.1
"""The timeout of a caller for a connection during a known outage."""
SEARCH_TIMEOUT_MS = 2_000
"""PostgreSQL's own time limit per search statement. It backs up the caller's deadline if a
cancellation does not reach the server."""
MAX_WAITING = 512
"""Callers that may wait for a connection; more are rejected at once."""
_RECONNECT_S = 1.0
_SEARCH_SETTINGS = (
    # A custom plan per search costs 0.7 to 1 ms, more than the search of a small tenant.
    "SET plan_cache_mode = force_generic_plan; SET jit = off; SET statement_timeout = {timeout_ms}"
)


class Database:
    """Access to one PostgreSQL database, over connections for work and others for searches."""

    def __init__(self, dsn: str, *, work_connections: int = 4, search_connections: int = 8) -> None:
        self.dsn = with_defaults(dsn)
        self._work = _Pool(self.dsn, "work", work_connections)
        settings = _SEARCH_SETTINGS.format(timeout_ms=SEARCH_TIMEOUT_MS)
        self._search = _Pool(self.dsn, "search", search_connections, settings)

    async def open(self) -> None:
        """Starts connecting; returns at once."""
        await self._work.open()
        await self._search.open()

    async def close(self) -> None:
        await self._work.close()
        await self._search.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Connection]:
        """Lends a connection for writes and long-running work.

        Raises StoreUnavailableError if none can be made, and OverloadedError if all are in use.
        """
        busy = OverloadedError("the connection pool")
        with store_errors():
            async with self._work.connection(POOL_TIMEOUT_S, busy) as connection:
                yield connection

    @asynccontextmanager
    async def search(
        self, deadline: Deadline, tenant: TenantName | None = None
    ) -> AsyncIterator[Connection]:
        """Lends a connection for reads of a caller, which sees the rows of its tenant alone.

        Cancels its statement when the deadline passes. Without a tenant no rows of any are seen.

        Raises:
            TimeoutError: The deadline passed.
            StoreUnavailableError: No connection can be made.
            OverloadedError: Too many callers wait for a connection.
        """
        busy = TimeoutError("all connections were busy")
        with store_errors():
            async with (
                self._search.connection(deadline.remaining(), busy) as connection,
                asyncio.timeout(deadline.remaining()),
            ):
                await connection.see_only(tenant or "")
                yield connection

    @asynccontextmanager
    async def planned_search(
        self, deadline: Deadline, tenant: TenantName | None = None
    ) -> AsyncIterator[Connection]:
        """Like `search`, with custom plans instead of generic ones.

        Planning costs 0.3 to 0.8 ms and pays off where the best index depends on the filter: the
        latest segments of one kind among 100,000 took 1 ms instead of 60.
        """
        async with self.search(deadline, tenant) as connection, connection.transaction():
            await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lends a connection for writes, inside a transaction."""
        async with self.work() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Lends a connection whose statements all read the same snapshot."""
        async with self.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    async def recovered(self) -> None:
        """Returns if writes can connect as well, as far as is known; else raises as `work` does.

        After an outage one pool may connect up to a second before the other.
        """
        if self._work.outage():
            async with self.work():
                pass

    async def connect(self) -> Connection:
        """Opens a connection outside the pools, for session state such as a lock or LISTEN.

        Raises:
            StoreUnavailableError: PostgreSQL is unreachable.
        """
        with store_errors():
            return await Connection.connect(self.dsn, autocommit=True)


class _Pool:
    """A pool that distinguishes an outage from load and recovers within about a second."""

    def __init__(self, dsn: str, name: str, size: int, settings: str = "") -> None:
        self._settings = settings
        self._pool: AsyncConnectionPool[CallerConnection] = AsyncConnectionPool(
            dsn,
            connection_class=CallerConnection,
            kwargs={"autocommit": True},
            min_size=min(2, size),
            max_size=size,
            max_waiting=MAX_WAITING,
            configure=self._configure,
            name=name,
            open=False,
            reconnect_timeout=_RECONNECT_S,
            reconnect_failed=self._keep_trying,
        )
        self._failures_before = 0
        # The event loop has only weak references to tasks.
        self._returning: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def connection(
        self, timeout_s: float, busy: Exception
    ) -> AsyncIterator[CallerConnection]:
        """Lends a connection; raises `busy` if all are in use until the timeout."""
        connection = await self._live_connection(Deadline.after(timeout_s), busy)
        try:
            yield connection
        finally:
            # A second cancellation, such as that of a deadline after that of the caller, must not
            # end this: the connection would be lost to the pool.
            returning = asyncio.create_task(self._pool.putconn(connection))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            await asyncio.shield(returning)

    async def _live_connection(self, deadline: Deadline, busy: Exception) -> CallerConnection:
        while True:
            limit_s = OUTAGE_TIMEOUT_S if self.outage() else math.inf
            try:
                connection = await self._pool.getconn(min(limit_s, deadline.remaining()))
            except PoolTimeout as error:
                if self.outage():
                    raise StoreUnavailableError("no connection could be made") from error
                raise busy from error
            self._failures_before = self._failures()
            if not _closed_by_server(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)

    def outage(self) -> bool:
        """Whether connecting has failed since a connection was last available."""
        return self._failures() > self._failures_before

    def _failures(self) -> int:
        return self._pool.get_stats().get("connections_errors", 0)

    async def _configure(self, connection: Connection) -> None:
        if self._settings:
            await connection.execute(self._settings)

    async def _keep_trying(self, pool: AsyncConnectionPool[CallerConnection]) -> None:
        # By default the pool doubles the delay between attempts and finally stops until the next
        # caller; `check` restarts the attempts.
        if not pool.closed:
            await pool.check()


def _closed_by_server(connection: Connection) -> bool:
    """Whether the server has closed the connection, checked without a round trip.

    Input on an idle connection means that the server has terminated it. After a restart of
    PostgreSQL every pooled connection is in this state.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
