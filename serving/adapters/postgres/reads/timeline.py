"""Segments by event time."""

from __future__ import annotations

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.filters import TENANT_ID, conditions_of
from serving.domain.budget import Deadline
from serving.domain.items.records import segment_id
from serving.domain.questions.period import MAX_MENTION, Period, longest_about
from serving.domain.questions.query import Scope
from serving.domain.ranking.ranked_list import Candidate


class PostgresTimeline:
    """`Timeline` in PostgreSQL, without sensitive segments: only the lexical leg finds those."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(
        self, scope: Scope, depth: int, deadline: Deadline, *, earliest_first: bool = False
    ) -> list[Candidate]:
        order, sign = ("", "-") if earliest_first else ("DESC", "")
        conditions = conditions_of(scope.segment_filter, scope.as_of)
        async with self._database.planned_search(deadline, scope.tenant) as connection:
            cursor = await connection.execute(
                f"""
                SELECT id, {sign}extract(epoch FROM event_time)::float8 FROM segment
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND NOT sensitive{conditions}
                 ORDER BY event_time {order}, id LIMIT %(depth)s::int4
                """,
                {"tenant": scope.tenant, "depth": depth, **conditions.values},
                prepare=True,
                binary=True,
            )
            return [Candidate(segment_id(id_), time) for id_, time in await cursor.fetchall()]

    async def mentioning(
        self, period: Period, scope: Scope, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        conditions = conditions_of(scope.segment_filter, scope.as_of)
        async with self._database.planned_search(deadline, scope.tenant) as connection:
            cursor = await connection.execute(
                f"""
                SELECT id, extract(epoch FROM event_time)::float8 FROM segment
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND mentions_from < %(ends)s::timestamptz
                   AND mentions_from > %(begins)s::timestamptz - %(longest)s::interval
                   AND mentions_to > %(begins)s::timestamptz
                   AND mentions_to - mentions_from <= %(longest_about)s::interval
                   AND NOT sensitive{conditions}
                 ORDER BY event_time DESC, id LIMIT %(depth)s::int4
                """,
                {
                    "tenant": scope.tenant,
                    "depth": depth,
                    "begins": period.begins,
                    "ends": period.ends,
                    "longest": MAX_MENTION,
                    "longest_about": longest_about(period),
                    **conditions.values,
                },
                prepare=True,
                binary=True,
            )
            return [Candidate(segment_id(id_), time) for id_, time in await cursor.fetchall()]
