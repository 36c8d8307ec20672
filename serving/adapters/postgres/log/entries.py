"""Appending to the change log, in the transaction of a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.tenants import Tenant
from serving.domain.items.records import ItemId, ItemKind

WRITTEN = "op <> 'embedded'"
"""Whether a row of the log is of a write or an erasure."""


def all_beyond(position: str, columns: str, where: str = WRITTEN, then: str = "") -> str:
    """SQL for the rows of the log beyond a position, as two ranges of its index by transaction.

    The first are of transactions that were in progress at the position, an expression of type
    `pg_snapshot`. Compared with `NOT pg_visible_in_snapshot`, what was committed since a long
    transaction began is not read again. `then` are order and limit of the second range.
    """
    part = f"(SELECT {columns} FROM change_log WHERE {where} AND"
    return f"""
    {part} xid = ANY (ARRAY(SELECT pg_snapshot_xip({position}))))
    UNION ALL
    {part} xid >= pg_snapshot_xmax({position}) {then})
    """


def first_beyond(
    position: str, columns: str, limit: str, where: str = WRITTEN, order: str = "ASC"
) -> str:
    """SQL for the first of these rows, or with "DESC" the last; reads about as many as the limit.

    All rows of transactions that were in progress count, and those after them up to the limit,
    which is what follows FETCH FIRST, such as "1 ROW ONLY".
    """
    return all_beyond(position, columns, where, f"ORDER BY xid {order} FETCH FIRST {limit}")


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


async def log_written(
    connection: Connection, tenant: Tenant, rows: Mapping[int, ItemKind]
) -> int | None:
    """Logs rows by key as written; returns the transaction's id, None without rows."""
    if not rows:
        return None
    (xid,) = await connection.fetch_row(
        """
        WITH logged AS (
          INSERT INTO change_log (tenant_id, key, kind, op)
          SELECT %(tenant_id)s::int4, key, kind, 'written'
            FROM unnest(%(keys)s::int8[], %(kinds)s::text[]) AS changed (key, kind)
        )
        SELECT pg_current_xact_id()::text::int8
        """,
        {"tenant_id": tenant.id, "keys": [*rows], "kinds": [str(kind) for kind in rows.values()]},
    )
    return int(xid)


async def note_erasure(connection: Connection) -> int:
    """Records that this transaction erased items: `Forget` verifies it again when repeated.

    To be called last in a transaction, since others wait for it until the transaction ends. Returns
    the transaction's id.
    """
    (xid,) = await connection.fetch_row(
        "UPDATE meta SET erased_xid = pg_current_xact_id() RETURNING erased_xid::text::int8"
    )
    return int(xid)


async def log_erased(
    connection: Connection, tenant: Tenant, keys: Sequence[int], items: Sequence[ItemId]
) -> None:
    """Logs rows as erased, with their names: the projections need them and the rows are gone."""
    if keys:
        await connection.execute(
            """
            INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id)
            SELECT %s::int4, key, kind, 'erased', %s::text, id
              FROM unnest(%s::int8[], %s::text[], %s::text[]) AS erased (key, kind, id)
            """,
            [
                tenant.id,
                tenant.name,
                keys,
                [str(item.kind) for item in items],
                [item.id for item in items],
            ],
        )
