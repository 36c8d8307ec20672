"""PostgreSQL as the source that the projections are compared with, and their repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, LiteralString

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.log.current_items import read_graph_changes
from serving.adapters.postgres.log.embeddings import HAS_EMBEDDING
from serving.adapters.postgres.tables.filters import IS_HIDDEN, TENANT_ID
from serving.domain.budget import Deadline
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.graph import GraphChanges
from serving.ports.verification import Difference, Finding

BATCH_ITEMS = 1000
POLL_S = 0.25


class PostgresTruth:
    """`Truth` in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tenants(self) -> list[TenantName]:
        return [
            TenantName(name) for (name,) in await self._all("SELECT name FROM tenant ORDER BY name")
        ]

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        for kind in ItemKind:
            part = f"""
            SELECT id FROM {kind}
             WHERE tenant_id = {TENANT_ID} -- tenant filter
               AND id > %(last)s::text
             ORDER BY id LIMIT %(limit)s::int4
            """
            last = ""
            while rows := await self._all(
                part, {"tenant": tenant, "last": last, "limit": BATCH_ITEMS}
            ):
                yield [ItemId(kind, id_) for (id_,) in rows]
                [last] = rows[-1]

    async def rows(self, tenant: TenantName, items: Sequence[ItemId]) -> GraphChanges:
        async with self._database.snapshot() as connection:
            return await read_graph_changes(connection, [(tenant, item) for item in items])

    async def embedding_findings(self) -> list[Finding]:
        async with self._database.snapshot() as connection:
            (model_id,) = await connection.fetch_row(f"SELECT {_MODEL} FROM meta")
            if model_id is None:
                return []
            rows = await connection.fetch_all(_EMBEDDINGS, {"model_id": model_id})
            return [
                Finding(
                    "embeddings",
                    Difference(difference),
                    TenantName(tenant or ""),
                    ItemId(ItemKind(kind), id_) if id_ is not None else str(key),
                )
                for difference, tenant, kind, id_, key in rows
            ]

    async def projected(self, timeout_s: float) -> bool:
        deadline = Deadline.after(timeout_s)
        while (await self._all(_PENDING, {"nothing": str(NOTHING_SEEN)})) == [(True,)]:
            if deadline.passed:
                return False
            await asyncio.sleep(min(POLL_S, deadline.remaining()))
        return True

    async def repair(self, findings: Sequence[Finding]) -> None:
        """Logs existing items as written, and others as erased, under keys of their own.

        An item that is left over has no key any more, and an entry of the log needs one.
        """
        of_embeddings = [each for each in findings if each.store == "embeddings"]
        orphans = [int(each.subject) for each in of_embeddings if isinstance(each.subject, str)]
        async with self._database.transaction() as connection:
            await connection.execute(
                "DELETE FROM embedding WHERE key = ANY (%s::int8[])", [orphans]
            )
            await connection.execute(_DELETE_VECTORS, _names(of_embeddings))
            await connection.execute(_LOG, _names(findings))

    async def log_everything(self) -> None:
        """Logs in parts, since a projection reads whole transactions."""
        for kind in ItemKind:
            last = 0
            part = f"""
            INSERT INTO change_log (tenant_id, key, kind, op)
            SELECT tenant_id, key, '{kind}', 'written' FROM {kind}
             WHERE key > %(last)s::int8 ORDER BY key LIMIT %(limit)s::int4
            RETURNING key
            """
            while logged := await self._all(part, {"last": last, "limit": BATCH_ITEMS}):
                last = max(key for (key,) in logged)

    async def begin_epoch(self) -> None:
        """Gives the log another epoch: each index then fills itself anew from the tables."""
        async with self._database.transaction() as connection:
            await connection.execute("UPDATE meta SET log_epoch = gen_random_uuid()")

    async def _all(
        self, statement: LiteralString, values: Mapping[str, object] | None = None
    ) -> list[tuple[Any, ...]]:
        async with self._database.work() as connection:
            return await connection.fetch_all(statement, values)


def _names(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """The names of the items among the subjects, as parallel lists."""
    items = {(each.tenant, each.subject) for each in findings if isinstance(each.subject, ItemId)}
    return {
        "tenants": [tenant for tenant, _ in items],
        "kinds": [str(item.kind) for _, item in items],
        "ids": [item.id for _, item in items],
    }


_MODEL = "coalesce(complete_model, (SELECT max(id) FROM embedding_model))"
"""The model that is in use, which is the newest while none is complete."""

_HAS_WRONG_VECTOR = {
    kind: f"""
    EXISTS (SELECT FROM embedding JOIN embedding_model AS model ON model.id = embedding.model_id
             WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
               AND (embedding.text_hash <> {kind}.text_hash
                    OR octet_length(embedding.vector) <> 2 * model.dimension
                    OR embedding.previous_key IS NOT NULL AND NOT EXISTS (
                         SELECT FROM segment AS previous
                          WHERE previous.key = embedding.previous_key AND NOT previous.sensitive)))
    """
    for kind in ItemKind
}

_HAS_VECTOR = {
    kind: f"EXISTS (SELECT FROM embedding WHERE embedding.key = {kind}.key)" for kind in ItemKind
}

_EMBEDDINGS = " UNION ALL ".join(
    [
        *(
            f"""
            SELECT CASE WHEN {IS_HIDDEN[kind]} THEN '{Difference.LEFT_OVER}'
                        WHEN {_HAS_WRONG_VECTOR[kind]} THEN '{Difference.STALE}'
                        ELSE '{Difference.MISSING}' END,
                   tenant.name, '{kind}', {kind}.id, {kind}.key
              FROM {kind} JOIN tenant ON tenant.id = {kind}.tenant_id
             WHERE CASE WHEN {IS_HIDDEN[kind]} THEN {_HAS_VECTOR[kind]}
                   ELSE {_HAS_WRONG_VECTOR[kind]}
                     OR NOT {HAS_EMBEDDING[kind]} AND NOT EXISTS (
                          SELECT FROM dead_letter
                           WHERE projection = 'embedding' AND dead_letter.key = {kind}.key)
                   END
            """
            for kind in ItemKind
        ),
        f"""
        SELECT DISTINCT '{Difference.LEFT_OVER}', NULL, NULL, NULL, embedding.key FROM embedding
         WHERE NOT EXISTS (SELECT FROM segment WHERE segment.key = embedding.key)
           AND NOT EXISTS (SELECT FROM fact WHERE fact.key = embedding.key)
        """,
    ]
)

_NAMED = """
FROM unnest(%(tenants)s::text[], %(kinds)s::text[], %(ids)s::text[]) AS named (tenant, kind, id)
LEFT JOIN tenant ON tenant.name = named.tenant
LEFT JOIN segment ON named.kind = 'segment' AND segment.tenant_id = tenant.id -- tenant filter
                 AND segment.id = named.id
LEFT JOIN fact ON named.kind = 'fact' AND fact.tenant_id = tenant.id -- tenant filter
              AND fact.id = named.id
"""

_DELETE_VECTORS = f"""
DELETE FROM embedding WHERE key IN (SELECT coalesce(segment.key, fact.key) {_NAMED})
"""

_LOG = f"""
INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id)
SELECT coalesce(tenant.id, 0), coalesce(found.key, nextval('item_key')), named.kind,
       CASE WHEN found.key IS NULL THEN 'erased' ELSE 'written' END,
       CASE WHEN found.key IS NULL THEN named.tenant END,
       CASE WHEN found.key IS NULL THEN named.id END
  {_NAMED} CROSS JOIN LATERAL (SELECT coalesce(segment.key, fact.key)) AS found (key)
"""

_PENDING = f"""
SELECT EXISTS (
  SELECT FROM (SELECT 'graph', 0::int2
               UNION ALL
               SELECT 'embedding', {_MODEL} FROM meta WHERE {_MODEL} IS NOT NULL)
              AS wanted (projection, model_id)
    LEFT JOIN projection_state AS state USING (projection, model_id)
    JOIN change_log AS log ON log.op <> 'embedded'
     AND log.xid >= pg_snapshot_xmin(coalesce(state.position, %(nothing)s)::pg_snapshot)
     AND NOT pg_visible_in_snapshot(
           log.xid, coalesce(state.position, %(nothing)s)::pg_snapshot))
"""
