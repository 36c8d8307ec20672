"""The times that stored segments speak of, read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.tables.filters import TENANT_ID
from serving.adapters.postgres.tables.rows import to_multirange
from serving.domain.items.period import Period

BATCH_SEGMENTS = 1000


async def read_mentions_again(
    database: Database, tenant: str, mentions_of: Callable[[str, datetime], Sequence[Period]]
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
            read = [to_multirange(mentions_of(text, said_at)) for _, text, said_at in rows]
            cursor = await connection.execute(
                _STORE, {"tenant": tenant, "ids": [id_ for id_, *_ in rows], "mentions": read}
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
UPDATE segment SET mentions = given.mentions
  FROM unnest(%(ids)s::text[], %(mentions)s::tstzmultirange[]) AS given (id, mentions)
 WHERE segment.tenant_id = {TENANT_ID} -- tenant filter
   AND segment.id = given.id
   AND segment.mentions IS DISTINCT FROM given.mentions
"""
