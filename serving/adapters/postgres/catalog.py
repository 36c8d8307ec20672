"""Reading back what is stored, in pages by id."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from serving.adapters.postgres.embeddings import IS_HIDDEN
from serving.adapters.postgres.filters import conditions_of
from serving.adapters.postgres.models import NO_MODEL, find_model
from serving.adapters.postgres.pool import Database
from serving.adapters.postgres.rows import FACT_COLUMNS, SEGMENT_COLUMNS, to_fact, to_segment
from serving.adapters.postgres.tenancy import TENANT_ID
from serving.domain.query import Filter
from serving.domain.records import Fact, ItemId, ItemKind, Segment, TenantName
from serving.domain.text import name_key
from serving.ports import EmbeddingModel, SetAside, TenantCounts


class PostgresCatalog:
    """The port `Catalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_segments(
        self, tenant: TenantName, filter_: Filter, after: str, limit: int
    ) -> list[Segment]:
        """The segments whose id follows `after`, by id."""
        conditions = conditions_of(filter_)
        async with self._database.work() as connection:
            cursor = await connection.execute(
                f"""
                SELECT {SEGMENT_COLUMNS} FROM segment
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND id > %(after)s::text{conditions}
                 ORDER BY id LIMIT %(limit)s::int4
                """,
                {"tenant": tenant, "after": after, "limit": limit, **conditions.values},
                binary=True,
            )
            return [to_segment(row) for row in await cursor.fetchall()]

    async def list_facts(
        self,
        tenant: TenantName,
        entities: Sequence[str],
        valid_at: datetime | None,
        after: str,
        limit: int,
    ) -> list[Fact]:
        """The facts whose id follows `after`, by id.

        With `valid_at`: those valid then, and not retracted by then.
        """
        about = "AND entity_keys && %(entities)s::text[]" if entities else ""
        valid = "" if valid_at is None else _VALID
        async with self._database.work() as connection:
            cursor = await connection.execute(
                f"""
                SELECT {FACT_COLUMNS} FROM fact
                 WHERE tenant_id = {TENANT_ID} -- tenant filter
                   AND id > %(after)s::text {about} {valid}
                 ORDER BY id LIMIT %(limit)s::int4
                """,
                {
                    "tenant": tenant,
                    "entities": [name_key(name) for name in entities],
                    "valid_at": valid_at,
                    "after": after,
                    "limit": limit,
                },
                binary=True,
            )
            return [to_fact(row) for row in await cursor.fetchall()]

    async def tenant_counts(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        """What is stored for the tenant."""
        async with self._database.snapshot() as connection:
            model_id = NO_MODEL if model is None else await find_model(connection, model)
            values = {"tenant": tenant, "model_id": model_id}
            cursor = await connection.execute(_COUNTS, values)
            row = await cursor.fetchone()
        if row is None:
            return TenantCounts(0, 0, 0, 0, 0, "")
        config, segments, visible_segments, embedded_segments, facts, visible_facts, embedded = row
        return TenantCounts(
            segments=segments,
            sensitive_segments=segments - visible_segments,
            facts=facts,
            embedded=embedded_segments + embedded,
            embeddable=visible_segments + visible_facts,
            text_search_config=config,
        )

    async def set_aside(self, tenant: TenantName, limit: int) -> list[SetAside]:
        """The tenant's rows that a projection could not take, newest first."""
        async with self._database.work() as connection:
            cursor = await connection.execute(
                f"""
                SELECT projection,
                       CASE WHEN fact.key IS NULL THEN 'segment' ELSE 'fact' END,
                       coalesce(segment.id, fact.id), reason, set_aside_at
                  FROM set_aside
                  LEFT JOIN segment USING (key)
                  LEFT JOIN fact USING (key)
                 WHERE set_aside.tenant_id = {TENANT_ID} -- tenant filter
                 ORDER BY set_aside_at DESC, set_aside.key LIMIT %(limit)s::int4
                """,
                {"tenant": tenant, "limit": limit},
            )
            return [
                SetAside(projection, ItemId(ItemKind(kind), id_), reason, at)
                for projection, kind, id_, reason, at in await cursor.fetchall()
            ]


_VALID = """
AND (valid_from IS NULL OR valid_from <= %(valid_at)s::timestamptz)
AND (valid_to IS NULL OR valid_to > %(valid_at)s::timestamptz)
AND (retracted_at IS NULL OR retracted_at > %(valid_at)s::timestamptz)
AND NOT EXISTS (
  SELECT FROM unnest(closed_at, closing_retracted_at) AS closing (at, retracted_at)
   WHERE closing.at <= %(valid_at)s::timestamptz
     AND (closing.retracted_at IS NULL OR closing.retracted_at > %(valid_at)s::timestamptz))
"""

_COUNTS_OF = {
    kind: f"""
    (SELECT count(*) AS stored,
            count(*) FILTER (WHERE NOT {IS_HIDDEN[kind]}) AS visible,
            count(*) FILTER (WHERE NOT {IS_HIDDEN[kind]} AND EXISTS (
              SELECT FROM embedding
               WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
                 AND embedding.text_hash = {kind}.text_hash)) AS embedded
       FROM {kind}
      WHERE {kind}.tenant_id = tenant.id) -- tenant filter
    """
    for kind in ItemKind
}

_COUNTS = f"""
SELECT tenant.text_search_config,
       segments.stored, segments.visible, segments.embedded,
       facts.stored, facts.visible, facts.embedded
  FROM tenant,
       LATERAL {_COUNTS_OF[ItemKind.SEGMENT]} AS segments,
       LATERAL {_COUNTS_OF[ItemKind.FACT]} AS facts
 WHERE tenant.name = %(tenant)s::text -- tenant filter
"""
