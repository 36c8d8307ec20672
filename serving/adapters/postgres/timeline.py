"""Segments by when they were said."""

from __future__ import annotations

from serving.adapters.postgres.filters import conditions_of
from serving.adapters.postgres.pool import Database
from serving.adapters.postgres.tenancy import TENANT_ID
from serving.domain.budget import Deadline
from serving.domain.query import Scope
from serving.domain.ranking import Candidate
from serving.domain.records import segment_id


class PostgresTimeline:
    """The port `Timeline`; no sensitive segment is on it, since words alone find those."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, scope: Scope, depth: int, deadline: Deadline) -> list[Candidate]:
        """The latest segments of the scope, by time and then by id; scores are Unix times."""
        conditions = conditions_of(scope.segment_filter, scope.as_of)
        async with self._database.planned_search(deadline) as connection:
            cursor = await connection.execute(
                f"""
                SELECT id, extract(epoch FROM event_time)::float8 FROM segment
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND NOT sensitive{conditions}
                 ORDER BY event_time DESC, id LIMIT %(depth)s::int4
                """,
                {"tenant": scope.tenant, "depth": depth, **conditions.values},
                prepare=True,
                binary=True,
            )
            return [Candidate(segment_id(id_), time) for id_, time in await cursor.fetchall()]
