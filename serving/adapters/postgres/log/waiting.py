"""How many rows of each tenant wait for the projections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.log.entries import first_beyond
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.domain.consistency import NOTHING_SEEN
from serving.domain.items.records import ItemKind
from serving.ports.change_log import Projection

NEWEST = 5000
"""The most waiting rows that are looked at, so that a long backlog is not read for each count."""

NOTHING = str(NOTHING_SEEN)


async def count_waiting(connection: Connection) -> Mapping[str, Mapping[Projection, int]]:
    """The number of changed rows that each projection has not seen, by tenant.

    What is sensitive does not wait to be embedded, since it never is. Of all tenants together at
    most the last `NEWEST` are looked at. With two models, that of the model which is further.
    """
    cursor = await connection.execute(_COUNT_WAITING, {"nothing": NOTHING}, binary=True)
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


_NEWEST = first_beyond(
    "state.position::pg_snapshot", "key, tenant_id", f"{NEWEST} ROWS ONLY", order="DESC"
)

POSITIONS = """
  SELECT projection, model_id, position FROM projection_state
   WHERE projection IN ('embedding', 'graph')
  UNION ALL
  SELECT given.projection, 0::int2, %(nothing)s::text
    FROM (VALUES ('embedding'), ('graph')) AS given (projection)
   WHERE NOT EXISTS (SELECT FROM projection_state AS known
                      WHERE known.projection = given.projection)
"""
"""The positions of both projections, of the embeddings for each model; %(nothing)s is that of one
that never ran."""

_COUNT_WAITING = f"""
SELECT state.projection, state.model_id, tenant.name, count(DISTINCT log.key)
  FROM ({POSITIONS}) AS state
  LEFT JOIN LATERAL (
    SELECT key, tenant_id
      FROM ({_NEWEST}) AS newest
     WHERE NOT (state.projection = 'embedding' AND (
             EXISTS (SELECT FROM embedding
                      WHERE embedding.model_id = state.model_id AND embedding.key = newest.key)
             OR EXISTS (SELECT FROM segment
                         WHERE segment.key = newest.key AND {IS_HIDDEN[ItemKind.SEGMENT]})
             OR EXISTS (SELECT FROM fact
                         WHERE fact.key = newest.key AND {IS_HIDDEN[ItemKind.FACT]})))
  ) AS log ON true
  LEFT JOIN tenant ON tenant.id = log.tenant_id
 GROUP BY state.projection, state.model_id, tenant.name
"""
