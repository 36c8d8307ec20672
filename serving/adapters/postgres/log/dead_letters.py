"""Dead letters: rows that a projection rejected."""

from __future__ import annotations

from collections.abc import Sequence

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.tables.filters import TENANT_ID
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.ports.change_log import Change, DeadLetter, Projection


async def dead_letter(
    connection: Connection, projection: Projection, change: Change, reason: str
) -> bool:
    """Dead-letters a row, replacing an earlier entry; False if the row no longer exists."""
    # The lock prevents a concurrent erasure, which would leave the entry behind.
    cursor = await connection.execute(
        f"""
        WITH row AS (
          SELECT key, tenant_id FROM {change.item.kind} WHERE key = %(key)s::int8 FOR KEY SHARE
        )
        INSERT INTO dead_letter (projection, key, tenant_id, xid, reason)
        SELECT %(projection)s::text, key, tenant_id, %(xid)s::xid8, %(reason)s::text FROM row
            ON CONFLICT (projection, key) DO UPDATE SET
               xid = excluded.xid, reason = excluded.reason, dead_lettered_at = now()
        """,
        {
            "projection": projection,
            "key": change.key,
            "xid": str(change.xid),
            "reason": reason,
        },
    )
    return cursor.rowcount > 0


async def discard_dead_letters(connection: Connection, keys: Sequence[int]) -> None:
    """Deletes the entries of rows that have changed or were erased."""
    await connection.execute("DELETE FROM dead_letter WHERE key = ANY (%s::int8[])", [keys])


async def count_dead_letters(
    connection: Connection, token: ConsistencyToken
) -> dict[Projection, int]:
    """The number of rows of a write that each projection rejected."""
    counts: dict[Projection, int] = {"embedding": 0, "graph": 0}
    cursor = await connection.execute(
        """
        SELECT projection, count(*) FROM dead_letter
         WHERE xid = ANY (%s::text[]::xid8[]) OR xid <= %s::text::xid8
         GROUP BY projection
        """,
        [[str(xid) for xid in token.xids], str(token.all_up_to)],
    )
    return counts | dict(await cursor.fetchall())


async def list_dead_letters(
    connection: Connection, tenant: TenantName, limit: int
) -> list[DeadLetter]:
    """The tenant's dead letters, newest first."""
    cursor = await connection.execute(
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
        for projection, kind, id_, reason, at in await cursor.fetchall()
    ]
