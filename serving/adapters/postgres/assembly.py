"""All that one process has of PostgreSQL, made together and opened together."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from serving.adapters.postgres.access import PostgresAccessLog
from serving.adapters.postgres.catalog import PostgresCatalog
from serving.adapters.postgres.change_log import PostgresChangeLog
from serving.adapters.postgres.consistency import PostgresConsistency
from serving.adapters.postgres.feed import PostgresIndexFeed
from serving.adapters.postgres.lexical import PostgresLexicalSearch
from serving.adapters.postgres.name_resolver import PostgresNameResolver
from serving.adapters.postgres.names import KnownNames
from serving.adapters.postgres.notifications import Notifications
from serving.adapters.postgres.pool import Database
from serving.adapters.postgres.store import PostgresMemoryStore
from serving.adapters.postgres.timeline import PostgresTimeline
from serving.domain.shards import WHOLE, Shard


class Postgres:
    """One adapter per port, over shared connections.

    Made anywhere, opened in the event loop that uses it. Opening does not wait for
    PostgreSQL, and does not migrate it (`migrations.migrate`).

    Args:
        dsn: A libpq connection string.
        work_connections: The most connections for writes and for the projections. One more is
            used to listen, and one for each projection that this process leads.
        search_connections: The most connections for searches and reads.
        search_timeout_s: The longest that PostgreSQL works on a statement of a search.
    """

    def __init__(
        self,
        dsn: str,
        *,
        work_connections: int = 4,
        search_connections: int = 8,
        search_timeout_s: float = 2.0,
    ) -> None:
        self.database = Database(
            dsn,
            work_connections=work_connections,
            search_connections=search_connections,
            search_timeout_s=search_timeout_s,
        )
        self.notifications = Notifications(self.database)
        self._known_names = KnownNames(self.database)
        self.store = PostgresMemoryStore(self.database, self.notifications, self._known_names)
        self.catalog = PostgresCatalog(self.database)
        self.lexical = PostgresLexicalSearch(self.database)
        self.names = PostgresNameResolver(self.database, self._known_names, self.lexical.statistics)
        self.change_log = PostgresChangeLog(self.database, self.notifications)
        self.feed = self.feed_of(WHOLE)
        self.consistency = PostgresConsistency(self.database, self.notifications)
        self.access = PostgresAccessLog(self.database)
        self.timeline = PostgresTimeline(self.database)

    def feed_of(self, shard: Shard) -> PostgresIndexFeed:
        """What fills and keeps up an index of one share of all rows."""
        return PostgresIndexFeed(self.database, self.notifications, shard)

    async def open(self) -> None:
        """Starts connecting, listening and counting; returns at once."""
        await self.database.open()
        await self.notifications.open()
        await self.access.open()

    async def close(self) -> None:
        """Stores and sends what is pending, and closes all connections."""
        await self.access.close()
        await self._known_names.close()
        await self.lexical.close()
        await self.notifications.close()
        await self.database.close()

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
