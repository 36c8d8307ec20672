"""The times that stored segments speak of, read again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.filters import TENANT_ID

BATCH_SEGMENTS = 1000

Mention = tuple[datetime, datetime]
"""The half-open time that a text speaks of."""


async def read_mentions_again(
    database: Database, tenant: str, mention_of: Callable[[str, datetime], Mention | None]
) -> int:
    """Reads the segments of a tenant again for the times that they speak of.

    Nothing else of a segment changes, so it is not logged as written. Returns how many segments
    speak of another time than was stored.
    """
    changed, last = 0, ""
    while True:
        async with database.transaction() as connection:
            rows = await connection.fetch_all(
                _PART, {"tenant": tenant, "last": last, "limit": BATCH_SEGMENTS}
            )
            if not rows:
                return changed
            read = [(id_, mention_of(text, said_at)) for id_, text, said_at in rows]
            cursor = await connection.execute(
                _STORE,
                {
                    "tenant": tenant,
                    "ids": [id_ for id_, _ in read],
                    "begins": [mention[0] if mention else None for _, mention in read],
                    "ends": [mention[1] if mention else None for _, mention in read],
                },
            )
            changed += cursor.rowcount
            last = rows[-1][0]


_PART = f"""
SELECT id, text, event_time FROM segment
 WHERE tenant_id = {TENANT_ID} -- tenant filter
   AND id > %(last)s::text
 ORDER BY id LIMIT %(limit)s::int4
"""

_STORE = f"""
UPDATE segment SET mentions_from = given.begins, mentions_to = given.ends
  FROM unnest(%(ids)s::text[], %(begins)s::timestamptz[], %(ends)s::timestamptz[])
       AS given (id, begins, ends)
 WHERE segment.tenant_id = {TENANT_ID} -- tenant filter
   AND segment.id = given.id
   AND (mentions_from, mentions_to) IS DISTINCT FROM (given.begins, given.ends)
"""
