"""Segments and facts by their times and their importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.filters import IS_HIDDEN, TENANT_ID, conditions_of
from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.items.records import ItemKind, fact_id, segment_id
from serving.domain.items.text import name_key
from serving.domain.questions.named_times import longest_about
from serving.domain.questions.query import Scope
from serving.domain.ranking.ranked_list import Candidate


class PostgresTimeline:
    """`Timeline` in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(
        self, scope: Scope, depth: int, deadline: Deadline, *, earliest_first: bool = False
    ) -> list[Candidate]:
        order, sign = ("event_time", "-") if earliest_first else ("event_time DESC", "")
        return await self._segments(scope, sign + _SECONDS, order, depth, deadline)

    async def important(
        self, scope: Scope, least: float, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        filter_ = scope.filter
        demanding = replace(filter_, min_importance=max(filter_.min_importance, least))
        return await self._segments(
            replace(scope, filter=demanding),
            "importance",
            "importance DESC, event_time DESC",
            depth,
            deadline,
        )

    async def mentioning(
        self, period: Period, scope: Scope, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        about = {
            "begins": period.begins,
            "ends": period.ends,
            "longest_about": longest_about(period),
        }
        return await self._segments(
            scope, _SECONDS, "event_time DESC", depth, deadline, where=_MENTIONS, values=about
        )

    async def _segments(
        self,
        scope: Scope,
        score: str,
        order: str,
        depth: int,
        deadline: Deadline,
        *,
        where: str = "",
        values: Mapping[str, object] | None = None,
    ) -> list[Candidate]:
        conditions = conditions_of(scope.segment_filter, scope.as_of)
        async with self._database.planned_search(deadline, scope.tenant) as connection:
            rows = await connection.fetch_all(
                f"""
                SELECT id, {score} FROM segment
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND NOT sensitive{where}{conditions}
                 ORDER BY {order}, id LIMIT %(depth)s::int4
                """,
                {"tenant": scope.tenant, "depth": depth, **(values or {}), **conditions.values},
                prepare=True,
            )
            return [Candidate(segment_id(id_), score) for id_, score in rows]

    async def holding(
        self, scope: Scope, depth: int, deadline: Deadline, *, entities: Sequence[str] = ()
    ) -> list[Candidate]:
        about = "AND entity_keys && %(entities)s::text[]" if entities else ""
        values: dict[str, object] = {
            "tenant": scope.tenant,
            "depth": depth,
            "as_of": scope.as_of,
            "known_at": scope.known_at,
            "start": scope.filter.event_time.start,
            "end": scope.filter.event_time.end,
            "entities": [name_key(name) for name in entities],
            "excluded": list(scope.filter.none_of.fact_ids),
        }
        rested = ""
        if scope.filter.of_evidence.restricts:
            conditions = conditions_of(scope.segment_filter.of_evidence, scope.as_of)
            values |= conditions.values
            passing = f"EXISTS (SELECT {_EVIDENCE}{conditions})"
            unknown = "" if scope.filter.of_evidence.selects else f"NOT EXISTS (SELECT {_EVIDENCE})"
            rested = f"AND ({' OR '.join(filter(None, [passing, unknown]))})"
        async with self._database.planned_search(deadline, scope.tenant) as connection:
            rows = await connection.fetch_all(
                f"""
                SELECT id, extract(epoch FROM coalesce(valid_from, recorded_at))::float8 FROM fact
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND NOT {IS_HIDDEN[ItemKind.FACT]} AND id <> ALL (%(excluded)s::text[])
                   {about} {_HOLDS} {_OVERLAPS} {rested}
                 ORDER BY coalesce(valid_from, recorded_at) DESC, id LIMIT %(depth)s::int4
                """,
                values,
                prepare=True,
            )
            return [Candidate(fact_id(id_), time) for id_, time in rows]


_SECONDS = "extract(epoch FROM event_time)::float8"

_PERIOD = "tstzrange(%(begins)s::timestamptz, %(ends)s::timestamptz)"

_MENTIONS = f"""
 AND mentions && {_PERIOD}
 AND EXISTS (SELECT FROM unnest(mentions) AS time
              WHERE time && {_PERIOD}
                AND upper(time) - lower(time) <= %(longest_about)s::interval)"""

_EVIDENCE = """FROM segment
  WHERE segment.tenant_id = fact.tenant_id -- tenant filter
    AND segment.id = ANY (fact.evidence)"""

# The end of a fact by the closings that are known, as `validity.held_until`, or its expiry.
_END = """
least(valid_to, expires_at, (
  SELECT min(closing.at)
    FROM unnest(closed_at, closing_recorded_at, closing_retracted_at)
         AS closing (at, recorded_at, retracted_at)
   WHERE CASE WHEN %(known_at)s::timestamptz IS NULL THEN closing.retracted_at IS NULL
              ELSE closing.recorded_at <= %(known_at)s::timestamptz
                   AND (closing.retracted_at IS NULL
                        OR closing.retracted_at > %(known_at)s::timestamptz) END))"""

_HOLDS = f"""
AND (valid_from IS NULL OR valid_from <= %(as_of)s::timestamptz)
AND coalesce({_END} > %(as_of)s::timestamptz, true)
AND CASE WHEN %(known_at)s::timestamptz IS NULL THEN retracted_at IS NULL
         ELSE recorded_at <= %(known_at)s::timestamptz
              AND (retracted_at IS NULL OR retracted_at > %(known_at)s::timestamptz) END"""

_OVERLAPS = f"""
AND (%(end)s::timestamptz IS NULL OR valid_from IS NULL OR valid_from < %(end)s::timestamptz)
AND (%(start)s::timestamptz IS NULL OR coalesce({_END} > %(start)s::timestamptz, true))"""
