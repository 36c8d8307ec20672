"""Listing what is stored, paged by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.embeddings import HAS_EMBEDDING
from serving.adapters.postgres.log.entries import all_beyond
from serving.adapters.postgres.tables.filters import (
    EXPIRES_AT,
    IS_HIDDEN,
    TENANT_ID,
    Conditions,
    conditions_of,
)
from serving.adapters.postgres.tables.models import find_model
from serving.adapters.postgres.tables.rows import COLUMNS, to_fact, to_segment
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.items.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.items.text import name_key
from serving.domain.questions.query import Filter
from serving.domain.questions.time_zones import parse_time_zone
from serving.ports.change_log import DeadLetter
from serving.ports.embedding import EmbeddingModel
from serving.ports.memory_store import TenantCounts, TenantSummary


class PostgresCatalog:
    """`Catalog` in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_segments(
        self, tenant: TenantName, filter_: Filter, after: str, limit: int
    ) -> list[Segment]:
        conditions = conditions_of(filter_)
        values = {"tenant": tenant, "after": after, "limit": limit, **conditions.values}
        return [to_segment(row) for row in await self._page(ItemKind.SEGMENT, conditions, values)]

    async def list_facts(
        self,
        tenant: TenantName,
        entities: Sequence[str],
        valid_at: datetime | None,
        after: str,
        limit: int,
    ) -> list[Fact]:
        """With `valid_at`, those valid at that time and never retracted."""
        about = "AND entity_keys && %(entities)s::text[]" if entities else ""
        valid = "" if valid_at is None else _VALID
        values = {
            "tenant": tenant,
            "entities": [name_key(name) for name in entities],
            "valid_at": valid_at,
            "after": after,
            "limit": limit,
        }
        rows = await self._page(ItemKind.FACT, f" {about} {valid}", values)
        return [to_fact(row) for row in rows]

    async def _page(
        self, kind: ItemKind, where: Conditions | str, values: Mapping[str, object]
    ) -> list[tuple[Any, ...]]:
        async with self._database.work() as connection:
            return await connection.fetch_all(
                f"""
                SELECT {COLUMNS[kind]} FROM {kind}
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND id > %(after)s::text AND NOT {_EXPIRED[kind]}{where}
                 ORDER BY id LIMIT %(limit)s::int4
                """,
                values,
            )

    async def tenant_counts(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        async with self._database.snapshot() as connection:
            model_id = await find_model(connection, model)
            values = {"tenant": tenant, "model_id": model_id, "nothing": str(NOTHING_SEEN)}
            found = await connection.fetch_all(_COUNTS, values)
        if not found:
            return TenantCounts(0, 0, 0, 0, 0, "", "")
        config, time_zone, newest, segments, sensitive, facts, hidden_facts, lacking = found[0]
        embeddable = segments - sensitive + facts - hidden_facts
        return TenantCounts(
            segments=segments,
            sensitive_segments=sensitive,
            facts=facts,
            embedded=embeddable - lacking,
            embeddable=embeddable,
            text_search_config=config,
            time_zone=str(parse_time_zone(time_zone)),
            newest=newest,
        )

    async def list_tenants(self, after: str, limit: int) -> list[TenantSummary]:
        async with self._database.snapshot() as connection:
            rows = await connection.fetch_all(_TENANTS, {"after": after, "limit": limit})
        return [
            TenantSummary(TenantName(name), config, str(parse_time_zone(zone)), *held)
            for name, config, zone, *held in rows
        ]

    async def dead_letters(self, tenant: TenantName, limit: int) -> list[DeadLetter]:
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                f"""
                SELECT projection,
                       CASE WHEN fact.key IS NULL THEN 'segment' ELSE 'fact' END,
                       coalesce(segment.id, fact.id), reason, dead_lettered_at
                  FROM dead_letter
                  LEFT JOIN segment USING (key)
                  LEFT JOIN fact USING (key)
                 WHERE dead_letter.tenant_id = {TENANT_ID} -- tenant filter
                 ORDER BY dead_lettered_at DESC, dead_letter.key LIMIT %(limit)s::int4
                """,
                {"tenant": tenant, "limit": limit},
            )
        return [
            DeadLetter(projection, ItemId(ItemKind(kind), id_), reason, at)
            for projection, kind, id_, reason, at in rows
        ]


_VALID = """
AND (valid_from IS NULL OR valid_from <= %(valid_at)s::timestamptz)
AND (valid_to IS NULL OR valid_to > %(valid_at)s::timestamptz)
AND retracted_at IS NULL
AND NOT EXISTS (
  SELECT FROM unnest(closed_at, closing_retracted_at) AS closing (at, retracted_at)
   WHERE closing.at <= %(valid_at)s::timestamptz
     AND closing.retracted_at IS NULL)
"""

_EXPIRED = {kind: f"coalesce({EXPIRES_AT[kind]} <= now(), false)" for kind in ItemKind}

_LACKING = {
    kind: f"""
    (SELECT count(*) FROM {kind} JOIN unfinished USING (key)
      WHERE NOT {IS_HIDDEN[kind]} AND NOT {HAS_EMBEDDING[kind]} AND NOT {_EXPIRED[kind]})
    """
    for kind in ItemKind
}


def _count(kind: ItemKind, where: str = "true") -> str:
    """SQL for the rows of the tenant that meet a condition.

    Expired rows are subtracted: few are there, and with a condition on each row the index alone
    would not do.
    """
    of_tenant = f"SELECT count(*) FROM {kind} WHERE tenant_id = tenant.id"  # tenant filter
    return f"""
       ({of_tenant} AND {where}) -- tenant filter
     - ({of_tenant} AND {where} AND {EXPIRES_AT[kind]} <= now()) -- tenant filter
    """


_BEYOND = all_beyond("coalesce(state.position, %(nothing)s::text)::pg_snapshot", "key, tenant_id")

# A row without a vector is one that the projection has not come to, or has rejected: only those are
# looked up, since a look-up for every row of a large tenant takes seconds.
_COUNTS = f"""
WITH unfinished AS (
  SELECT beyond.key FROM tenant
    LEFT JOIN projection_state AS state
           ON state.projection = 'embedding' AND state.model_id = %(model_id)s::int2
   CROSS JOIN LATERAL ({_BEYOND}) AS beyond
   WHERE tenant.name = %(tenant)s::text AND beyond.tenant_id = tenant.id -- tenant filter
   UNION
  SELECT key FROM dead_letter
   WHERE projection = 'embedding' AND tenant_id = {TENANT_ID} -- tenant filter
)
SELECT tenant.text_search_config, tenant.time_zone,
       (SELECT max(event_time) FROM segment
         WHERE tenant_id = tenant.id AND NOT sensitive
           AND coalesce(expires_at > now(), true)), -- tenant filter
       {_count(ItemKind.SEGMENT)},
       {_count(ItemKind.SEGMENT, IS_HIDDEN[ItemKind.SEGMENT])},
       {_count(ItemKind.FACT)},
       {_count(ItemKind.FACT, IS_HIDDEN[ItemKind.FACT])},
       {" + ".join(_LACKING[kind] for kind in ItemKind)}
  FROM tenant
 WHERE tenant.name = %(tenant)s::text -- tenant filter
"""

# Of all tenants of a page in one pass, for those who may read them all. The length of a text is
# known without reading what is stored out of line.
_TENANTS = """
WITH page AS (
  SELECT id, name, text_search_config, time_zone FROM tenant
   WHERE name > %(after)s::text ORDER BY name LIMIT %(limit)s::int4
), held AS (
  SELECT tenant_id, count(*) AS segments, 0 AS facts, sum(octet_length(text)) AS bytes,
         max(event_time) FILTER (WHERE NOT sensitive) AS newest, max(updated_at) AS updated_at
    FROM segment WHERE tenant_id IN (SELECT id FROM page) GROUP BY tenant_id
   UNION ALL
  SELECT tenant_id, 0, count(*), sum(octet_length(sentence)), NULL, max(updated_at)
    FROM fact WHERE tenant_id IN (SELECT id FROM page) GROUP BY tenant_id
)
SELECT name, text_search_config, time_zone,
       coalesce(sum(segments), 0)::int8, coalesce(sum(facts), 0)::int8,
       coalesce(sum(bytes), 0)::int8, max(newest), max(updated_at)
  FROM page LEFT JOIN held ON held.tenant_id = page.id
 GROUP BY name, text_search_config, time_zone ORDER BY name
"""
