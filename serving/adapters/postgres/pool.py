"""The connections of one process: a pool for work, a pool for searches.

Both open without PostgreSQL being there, keep trying about once a second while it is away, and
hand out no connection that the server has closed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import math
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from serving.adapters.postgres.errors import store_errors
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, StoreUnavailableError

logger = logging.getLogger(__name__)

Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
"""A connection with autocommit, whose rows are tuples."""

POOL_TIMEOUT_S = 2.0
"""How long work without a deadline waits for a connection."""
OUTAGE_TIMEOUT_S = 0.1
"""How long anybody waits for one once it is known that none can be made."""
CONNECT_TIMEOUT_S = 5
MAX_WAITING = 512
"""More callers than these are refused at once."""
_RECONNECT_S = 1.0
_SEARCH_SETTINGS = (
    # Planning each search anew costs 0.7 to 1 ms, more than the search of a small tenant.
    "SET plan_cache_mode = force_generic_plan; SET jit = off; SET statement_timeout = {timeout_ms}"
)


class Database:
    """The way to one PostgreSQL.

    Args:
        dsn: A libpq connection string.
        work_connections: The most connections for writes and for the projections.
        search_connections: The most connections for searches and reads.
        search_timeout_s: The longest that PostgreSQL works on a statement of a search. It stands
            behind the caller's deadline, for when cancelling does not get through.
    """

    def __init__(
        self,
        dsn: str,
        *,
        work_connections: int = 4,
        search_connections: int = 8,
        search_timeout_s: float = 2.0,
    ) -> None:
        self.dsn = with_defaults(dsn)
        self._work = _Pool(self.dsn, "work", work_connections)
        self._search = _Pool(
            self.dsn,
            "search",
            search_connections,
            _SEARCH_SETTINGS.format(timeout_ms=max(1, round(search_timeout_s * 1000))),
        )

    async def open(self) -> None:
        """Starts connecting, and returns at once."""
        await self._work.open()
        await self._search.open()

    async def close(self) -> None:
        """Closes all connections."""
        await self._work.close()
        await self._search.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Connection]:
        """Lends a connection for writes, or for work that may take long.

        Raises:
            StoreUnavailableError: There is none.
            OverloadedError: All are busy.
        """
        busy = OverloadedError("the connection pool")
        with store_errors():
            async with self._work.connection(POOL_TIMEOUT_S, busy) as connection:
                yield connection

    @asynccontextmanager
    async def search(self, deadline: Deadline) -> AsyncIterator[Connection]:
        """Lends a connection for reads, and cancels what runs on it when the deadline passes.

        Raises:
            TimeoutError: The deadline passed.
            StoreUnavailableError: There is none.
            OverloadedError: Too many wait for one.
        """
        busy = TimeoutError("all connections were busy")
        with store_errors():
            async with (
                self._search.connection(deadline.remaining(), busy) as connection,
                asyncio.timeout(deadline.remaining()),
            ):
                yield connection

    @asynccontextmanager
    async def planned_search(self, deadline: Deadline) -> AsyncIterator[Connection]:
        """Lends a connection as `search` does, on which statements are planned for their values.

        That costs 0.3 to 0.8 ms, and pays where it depends on the filter which index to read: of
        100,000 segments, the latest of a kind took 1 ms instead of 60.
        """
        async with self.search(deadline) as connection, connection.transaction():
            await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lends a connection for writes, within a transaction."""
        async with self.work() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Lends a connection whose statements all read one snapshot."""
        async with self.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    async def connect(self) -> Connection:
        """Opens a connection outside of the pools, for its session: a lock, or LISTEN.

        Raises:
            StoreUnavailableError: PostgreSQL cannot be reached.
        """
        with store_errors():
            return await AsyncConnection.connect(self.dsn, autocommit=True)


def with_defaults(dsn: str) -> str:
    """Adds to a connection string what it does not say itself.

    A server that has vanished without a word is given up after `CONNECT_TIMEOUT_S`. Times
    come in UTC whatever the string says.
    """
    given = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    defaults = {
        "application_name": "trivium",
        "connect_timeout": str(CONNECT_TIMEOUT_S),
        "tcp_user_timeout": str(CONNECT_TIMEOUT_S * 1000),
    }
    options = f"{given.get('options', '')} -c TimeZone=UTC".strip()
    return make_conninfo("", **{**defaults, **given, "options": options})


class _Pool:
    """A pool that tells an outage from being busy, and heals within about a second."""

    def __init__(self, dsn: str, name: str, size: int, settings: str = "") -> None:
        self._settings = settings
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            dsn,
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

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def connection(self, timeout_s: float, busy: Exception) -> AsyncIterator[Connection]:
        """Lends a connection; raises `busy` if others keep all of them until the timeout."""
        connection = await self._live_connection(Deadline.after(timeout_s), busy)
        try:
            yield connection
        finally:
            await self._pool.putconn(connection)

    async def _live_connection(self, deadline: Deadline, busy: Exception) -> Connection:
        while True:
            patience_s = OUTAGE_TIMEOUT_S if self._outage() else math.inf
            try:
                connection = await self._pool.getconn(min(patience_s, deadline.remaining()))
            except PoolTimeout as error:
                if self._outage():
                    raise StoreUnavailableError("no connection could be made") from error
                raise busy from error
            self._failures_before = self._failures()
            if not _has_been_closed(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)

    def _outage(self) -> bool:
        """Whether connecting has failed since a connection was last to be had."""
        return self._failures() > self._failures_before

    def _failures(self) -> int:
        return self._pool.get_stats().get("connections_errors", 0)

    async def _configure(self, connection: Connection) -> None:
        if self._settings:
            await connection.execute(self._settings)

    async def _keep_trying(self, pool: AsyncConnectionPool[Connection]) -> None:
        # Left alone a pool doubles the delay between its attempts, and in the end waits for a
        # caller; `check` makes it try again from the start.
        if not pool.closed:
            await pool.check()


def _has_been_closed(connection: Connection) -> bool:
    """Whether the server said something since the last statement, which is always good-bye.

    A look at the socket, without a round trip: after a restart of PostgreSQL every pooled
    connection is in this state.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
