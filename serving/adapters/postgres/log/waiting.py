"""The rows that wait for a projection: which to take out of turn, and how many each tenant has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.log.embeddings import HAS_EMBEDDING
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.domain.consistency import NOTHING_SEEN, Snapshot
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.change_log import Change, Projection

NEWEST = 20_000
"""The most waiting rows that are looked at, so that a long backlog is not read for each chunk."""

NOTHING = str(NOTHING_SEEN)


async def newest_waiting(
    connection: Connection,
    projection: Projection,
    position: Snapshot,
    model_id: int,
    limit: int,
    done: Collection[int],
) -> list[Change]:
    """Rows beyond a position without a current vector: of each tenant in turn the newest."""
    cursor = await connection.execute(
        _NEWEST_WAITING,
        {
            "projection": projection,
            "position": str(position),
            "model_id": model_id,
            "newest": NEWEST,
            "limit": limit,
            "done": [*done],
        },
        binary=True,
    )
    changes = {
        key: Change(key, TenantName(tenant), ItemId(ItemKind(kind), id_), xid)
        for xid, key, kind, tenant, id_ in await cursor.fetchall()
    }
    return list(changes.values())


async def count_waiting(connection: Connection) -> Mapping[str, Mapping[Projection, int]]:
    """The number of changed rows that each projection has not seen, by tenant.

    What is sensitive does not wait to be embedded, since it never is. Of all tenants together at
    most `NEWEST` are counted. With two models, that of the model which is further.
    """
    cursor = await connection.execute(
        _COUNT_WAITING, {"nothing": NOTHING, "most": NEWEST}, binary=True
    )
    by_model: dict[tuple[Projection, int], dict[str, int]] = defaultdict(dict)
    for projection, model_id, tenant, count in await cursor.fetchall():
        of_model = by_model[projection, model_id]
        if tenant is not None:
            of_model[tenant] = count
    counts: dict[str, dict[Projection, int]] = defaultdict(dict)
    for (projection, _), by_tenant in sorted(
        by_model.items(), key=lambda each: -sum(each[1].values())
    ):
        for of_tenant in counts.values():
            of_tenant.pop(projection, None)
        for tenant, count in by_tenant.items():
            counts[tenant][projection] = count
    return counts


def _waiting(kind: ItemKind) -> str:
    return f"""
    SELECT recent.xid, recent.seq, recent.tenant_id, recent.key, recent.kind, {kind}.id
      FROM recent JOIN {kind} USING (key)
     WHERE NOT {IS_HIDDEN[kind]} AND NOT {HAS_EMBEDDING[kind]}
    """


_NEWEST_WAITING = f"""
WITH recent AS MATERIALIZED (
  SELECT xid, seq, tenant_id, key, kind FROM change_log
   WHERE op = 'written' AND xid >= pg_snapshot_xmin(%(position)s::pg_snapshot)
     AND NOT pg_visible_in_snapshot(xid, %(position)s::pg_snapshot)
     AND key <> ALL (%(done)s::int8[])
     AND NOT EXISTS (SELECT FROM dead_letter
                      WHERE projection = %(projection)s::text AND dead_letter.key = change_log.key)
   ORDER BY xid DESC LIMIT %(newest)s::int4
), waiting AS (
  SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY seq DESC) AS turn
    FROM ({_waiting(ItemKind.SEGMENT)} UNION ALL {_waiting(ItemKind.FACT)}) AS each
)
SELECT waiting.xid::text::int8, waiting.key, waiting.kind, tenant.name, waiting.id
  FROM waiting JOIN tenant ON tenant.id = waiting.tenant_id
 ORDER BY turn, seq DESC LIMIT %(limit)s::int4
"""

_COUNT_WAITING = f"""
SELECT state.projection, state.model_id, tenant.name, count(DISTINCT log.key)
  FROM (SELECT projection, model_id, position FROM projection_state
         WHERE projection IN ('embedding', 'graph')
        UNION ALL
        SELECT given.projection, 0::int2, %(nothing)s::text
          FROM (VALUES ('embedding'), ('graph')) AS given (projection)
         WHERE NOT EXISTS (SELECT FROM projection_state AS known
                            WHERE known.projection = given.projection)) AS state
  LEFT JOIN LATERAL (
    SELECT key, tenant_id FROM change_log
     WHERE op <> 'embedded' AND xid >= pg_snapshot_xmin(state.position::pg_snapshot)
       AND NOT pg_visible_in_snapshot(xid, state.position::pg_snapshot)
       AND NOT (state.projection = 'embedding' AND (
             EXISTS (SELECT FROM embedding
                      WHERE embedding.model_id = state.model_id AND embedding.key = change_log.key)
             OR EXISTS (SELECT FROM segment
                         WHERE segment.key = change_log.key AND {IS_HIDDEN[ItemKind.SEGMENT]})
             OR EXISTS (SELECT FROM fact
                         WHERE fact.key = change_log.key AND {IS_HIDDEN[ItemKind.FACT]})))
     LIMIT %(most)s::int4
  ) AS log ON true
  LEFT JOIN tenant ON tenant.id = log.tenant_id
 GROUP BY state.projection, state.model_id, tenant.name
"""
