"""Makes the words of stored segments anew where the schema says that they are outdated."""

from __future__ import annotations

import asyncio
import logging

from serving.adapters.postgres.connection.dsn import with_defaults
from serving.adapters.postgres.connection.errors import store_errors
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.rows import COLUMNS, to_segment
from serving.adapters.postgres.words.tsvector import stored_words
from serving.domain.items.records import ItemKind

logger = logging.getLogger(__name__)

AT_ONCE = 100
"""Segments in one transaction: their rows are locked, and other calls wait, for some 10 ms."""

_LOCK = 0x574F5244
"""The advisory lock of the process that rewrites: "WORD"."""


async def rewrite_outdated_words(dsn: str) -> int:
    """Rewrites all outdated words, and returns of how many segments.

    Each transaction ends a part of the work, so that it goes on after an interruption. Safe to run
    in several processes, of which one works.

    Raises:
        StoreUnavailableError: PostgreSQL is unreachable.
    """
    rewritten = 0
    with store_errors():
        async with await Connection.connect(with_defaults(dsn), autocommit=True) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s::bigint)", [_LOCK])
            while rows := await connection.fetch_all(_OUTDATED, [AT_ONCE]):
                keys = [key for (key,) in rows]
                async with connection.transaction():
                    await _rewrite(connection, keys)
                rewritten += len(keys)
                await asyncio.sleep(0)
    if rewritten:
        logger.info("words of segments rewritten", extra={"segments": rewritten})
    return rewritten


async def _rewrite(connection: Connection, keys: list[int]) -> None:
    words = {
        key: stored_words(to_segment(row), config)
        for key, config, *row in await connection.fetch_all(_LOCKED, [keys])
    }
    vectors, lengths = zip(*words.values(), strict=True) if words else ((), ())
    await connection.execute(_UPDATE, [list(words), list(vectors), list(lengths)])
    await connection.execute("DELETE FROM outdated_words WHERE key = ANY (%s::int8[])", [keys])


_OUTDATED = "SELECT key FROM outdated_words ORDER BY key LIMIT %s::int4"

# In the order in which writers lock.
_LOCKED = f"""
SELECT segment.key, tenant.text_search_config, {COLUMNS[ItemKind.SEGMENT]}
  FROM segment JOIN tenant ON tenant.id = segment.tenant_id
 WHERE segment.key = ANY (%s::int8[])
 ORDER BY segment.tenant_id, segment.id FOR NO KEY UPDATE OF segment
"""

_UPDATE = """
UPDATE segment SET tsv = given.tsv::tsvector, dl = given.dl
  FROM unnest(%s::int8[], %s::text[], %s::int4[]) AS given (key, tsv, dl)
 WHERE segment.key = given.key AND (segment.tsv, segment.dl) <> (given.tsv::tsvector, given.dl)
"""
