"""How far the graph is, for a read that carries a token."""

from __future__ import annotations

from collections.abc import Mapping

from serving.adapters.postgres.notifications import Channel, Notifications
from serving.adapters.postgres.pool import Database
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN, ConsistencyToken, Snapshot
from serving.ports import Projection

POLL_S = 0.25
"""Looks again after as long, should the notification be lost."""


class PostgresConsistency:
    """The port `Consistency`."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the graph holds the write; False if the deadline passes first.

        A token of another epoch tells nothing about this log: False at once.
        """
        channels = (Channel.PROGRESS,)
        while not deadline.passed:
            heard = self._notifications.heard(channels)
            try:
                epoch, position = await self._graph_position(deadline)
            except TimeoutError:
                return False
            if epoch != token.epoch:
                return False
            if token.seen_by(position):
                return True
            wait_s = min(POLL_S, deadline.remaining())
            await self._notifications.wait_beyond(heard, channels, wait_s)
        return False

    async def _graph_position(self, deadline: Deadline) -> tuple[str, Snapshot]:
        async with self._database.search(deadline) as connection:
            cursor = await connection.execute(
                "SELECT log_epoch::text, position FROM meta "
                "LEFT JOIN projection_state ON projection = 'graph'",
                prepare=True,
            )
            row = await cursor.fetchone()
        assert row is not None, "meta has no row; this is a bug"
        return row[0], Snapshot.parse(row[1]) if row[1] else NOTHING_SEEN

    async def set_aside_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        """How many rows of the write each projection set aside."""
        counts: dict[Projection, int] = {"embedding": 0, "graph": 0}
        async with self._database.work() as connection:
            cursor = await connection.execute(
                """
                SELECT projection, count(*) FROM set_aside
                 WHERE xid = ANY (%s::text[]::xid8[]) OR xid <= %s::text::xid8
                 GROUP BY projection
                """,
                [[str(xid) for xid in token.xids], str(token.all_up_to)],
            )
            for projection, count in await cursor.fetchall():
                counts[projection] = count
        return counts

    async def epoch(self) -> str:
        """The log's epoch."""
        async with self._database.work() as connection:
            cursor = await connection.execute("SELECT log_epoch::text FROM meta")
            row = await cursor.fetchone()
        assert row is not None, "meta has no row; this is a bug"
        return str(row[0])
