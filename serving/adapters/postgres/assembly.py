"""The PostgreSQL adapters of one process, over shared connections."""

from __future__ import annotations

from typing import Self

from serving.adapters.postgres.api_keys import PostgresApiKeys
from serving.adapters.postgres.audit_log import PostgresAuditLog
from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.change_feed import PostgresChangeFeed
from serving.adapters.postgres.log.change_log import PostgresChangeLog
from serving.adapters.postgres.log.consistency import PostgresConsistency
from serving.adapters.postgres.log.index_feed import PostgresIndexFeed
from serving.adapters.postgres.log.resident_feed import PostgresResidentFeed
from serving.adapters.postgres.reads.access_log import PostgresAccessLog
from serving.adapters.postgres.reads.catalog import PostgresCatalog
from serving.adapters.postgres.reads.timeline import PostgresTimeline
from serving.adapters.postgres.words.known_names import KnownNames
from serving.adapters.postgres.words.lexical import PostgresLexicalSearch
from serving.adapters.postgres.words.name_resolver import PostgresNameResolver
from serving.adapters.postgres.writes.extractions import PostgresExtractions
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.domain.shards import WHOLE, Shard


class Postgres:
    """One adapter per port, over shared connections.

    Open it in the event loop that uses it. Opening does not wait for PostgreSQL and does not
    migrate it (`migrations.migrate`). There are at most `work_connections` for writes and
    projections, one more to listen, and one for each projection that this process leads; and at
    most `search_connections` for searches and reads.
    """

    def __init__(self, dsn: str, *, work_connections: int = 4, search_connections: int = 8) -> None:
        self.database = Database(
            dsn, work_connections=work_connections, search_connections=search_connections
        )
        self.notifications = Notifications(self.database)
        self._known_names = KnownNames(self.database, self.notifications)
        self.store = PostgresMemoryStore(self.database, self.notifications, self._known_names)
        self.extractions = PostgresExtractions(self.database, self.notifications)
        self.catalog = PostgresCatalog(self.database)
        self.lexical = PostgresLexicalSearch(self.database, self.notifications)
        self.names = PostgresNameResolver(self.database, self._known_names, self.lexical.statistics)
        self.change_log = PostgresChangeLog(self.database, self.notifications)
        self.feed = self.feed_of(WHOLE)
        self.resident_feed = PostgresResidentFeed(self.database, self.notifications)
        self.change_feed = PostgresChangeFeed(self.database, self.notifications)
        self.consistency = PostgresConsistency(self.database, self.notifications)
        self.access = PostgresAccessLog(self.database)
        self.timeline = PostgresTimeline(self.database)
        self.api_keys = PostgresApiKeys(self.database)
        self.audit_log = PostgresAuditLog(self.database)

    def feed_of(self, shard: Shard) -> PostgresIndexFeed:
        return PostgresIndexFeed(self.database, self.notifications, shard)

    async def __aenter__(self) -> Self:
        """Starts connecting, listening and storing access counts; returns at once."""
        await self.database.open()
        await self.notifications.open()
        await self.access.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stores and sends what is pending, then closes all connections."""
        await self.access.close()
        await self._known_names.close()
        await self.lexical.close()
        await self.notifications.close()
        await self.database.close()
