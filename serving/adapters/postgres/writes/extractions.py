"""The turns read for facts, and the extracted facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.filters import IS_HIDDEN, TENANT_ID
from serving.adapters.postgres.tables.rows import COLUMNS, to_fact, to_segment
from serving.adapters.postgres.tables.tenants import lock_tenant
from serving.adapters.postgres.writes.batch import ExclusiveLockRequiredError, write_batch
from serving.domain.items.records import (
    DEFAULT_KIND,
    EXTRACTED,
    Fact,
    ItemKind,
    Segment,
    TenantName,
)
from serving.domain.items.text import name_key
from serving.ports.change_log import Change
from serving.ports.memory_store import Batch, ExtractionProgress, UnreadTurn


class PostgresExtractions:
    """`Extractions` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self._notifications = notifications

    async def unread(self, changes: Sequence[Change]) -> list[UnreadTurn]:
        of_key = {change.key: change for change in changes}
        async with self._database.work() as connection:
            return [
                UnreadTurn(of_key[key], to_segment(row), text_hash)
                for key, text_hash, *row in await connection.fetch_all(_UNREAD, {"keys": [*of_key]})
            ]

    async def before(self, tenant: TenantName, turn: Segment, limit: int) -> tuple[Segment, ...]:
        if not turn.session:
            return ()
        values = {
            "tenant": tenant,
            "session": f"c:{turn.session}",
            "time": turn.event_time,
            "stored": turn.created_at,
            "id": turn.id,
            "limit": limit,
        }
        async with self._database.work() as connection:
            latest_first = await connection.fetch_all(_BEFORE, values)
        return tuple(to_segment(row) for row in reversed(latest_first))

    async def facts_about(
        self, tenant: TenantName, names: Sequence[str], limit: int
    ) -> tuple[Fact, ...]:
        keys = [name_key(name) for name in names]
        async with self._database.work() as connection:
            rows = await connection.fetch_all(
                _FACTS_ABOUT, {"tenant": tenant, "keys": keys, "limit": limit}
            )
            return tuple(to_fact(row) for row in rows)

    async def save(
        self, tenant: TenantName, turns: Sequence[UnreadTurn], facts: Sequence[Fact]
    ) -> None:
        try:
            async with self._database.transaction() as connection:
                await _save(connection, tenant, turns, facts, exclusive=False)
        except ExclusiveLockRequiredError:
            async with self._database.transaction() as connection:
                await _save(connection, tenant, turns, facts, exclusive=True)
        self._notifications.announce(Channel.CHANGES, tenant)

    async def progress(self) -> ExtractionProgress:
        async with self._database.work() as connection:
            return ExtractionProgress(*await connection.fetch_row(_PROGRESS))

    async def read_failed_again(self) -> int:
        async with self._database.transaction() as connection:
            cursor = await connection.execute(_READ_FAILED_AGAIN)
        self._notifications.announce(Channel.CHANGES)
        return cursor.rowcount


async def _save(
    connection: Connection,
    tenant: TenantName,
    turns: Sequence[UnreadTurn],
    facts: Sequence[Fact],
    *,
    exclusive: bool,
) -> None:
    """Stores what one request gave; `connection` is in a transaction.

    The tenant's lock keeps an erasure from coming between the check of the evidence and the write.
    Raises ExclusiveLockRequiredError if the write needs `exclusive`.
    """
    await lock_tenant(connection, tenant, exclusive=exclusive)
    lost = await _lost(connection, tenant, turns, facts)
    kept = [fact for fact in facts if lost.isdisjoint(fact.evidence)]
    unchanged = [turn for turn in turns if turn.segment.id not in lost]
    outdated = await _outdated(connection, tenant, unchanged, kept)
    if items := [*kept, *outdated]:
        batch = Batch(tenant, items, undated=frozenset(fact.item for fact in items))
        await write_batch(connection, batch, exclusive=exclusive)
    marks = {
        "keys": [turn.change.key for turn in unchanged],
        "hashes": [turn.text_hash for turn in unchanged],
    }
    await connection.execute(_MARK, marks, binary=True)


async def _lost(
    connection: Connection, tenant: TenantName, turns: Sequence[UnreadTurn], facts: Sequence[Fact]
) -> set[str]:
    """The turns and evidence that are not as they were read; the others stay so meanwhile."""
    hashes = {turn.segment.id: turn.text_hash for turn in turns}
    ids = hashes.keys() | {id_ for fact in facts for id_ in fact.evidence}
    rows = await connection.fetch_all(
        f"""
        SELECT id, text_hash FROM segment
         WHERE tenant_id = {TENANT_ID} -- tenant filter
           AND id = ANY (%(ids)s::text[]) AND NOT sensitive
         ORDER BY id FOR SHARE
        """,
        {"tenant": tenant, "ids": [*ids]},
    )
    there = {id_ for id_, text_hash in rows if hashes.get(id_, text_hash) == text_hash}
    return ids - there


async def _outdated(
    connection: Connection, tenant: TenantName, turns: Sequence[UnreadTurn], facts: Sequence[Fact]
) -> list[Fact]:
    """The facts of former texts of these turns that are not given now, as retracted."""
    rows = await connection.fetch_all(
        f"""
        SELECT {COLUMNS[ItemKind.FACT]} FROM fact
         WHERE tenant_id = {TENANT_ID} -- tenant filter
           AND evidence && ARRAY(SELECT segment.id FROM segment JOIN extraction USING (key)
                                  WHERE key = ANY (%(keys)s::int8[])
                                    AND extraction.text_hash <> segment.text_hash)
           AND starts_with(id, %(extracted)s::text) AND id <> ALL (%(ids)s::text[])
           AND retracted_at IS NULL
        """,
        {
            "tenant": tenant,
            "keys": [turn.change.key for turn in turns],
            "extracted": EXTRACTED,
            "ids": [fact.id for fact in facts],
        },
    )
    now = datetime.now(UTC)
    return [replace(to_fact(row), retracted_at=now) for row in rows]


_IS_TURN = f"segment.kind = '{DEFAULT_KIND}' AND NOT {IS_HIDDEN[ItemKind.SEGMENT]}"

_IS_READ = """
EXISTS (SELECT FROM extraction
         WHERE extraction.key = segment.key AND extraction.text_hash = segment.text_hash)
"""

_IS_FAILED = """
EXISTS (SELECT FROM dead_letter
         WHERE dead_letter.projection = 'extraction' AND dead_letter.key = segment.key)
"""

_UNREAD = f"""
SELECT segment.key, segment.text_hash, {COLUMNS[ItemKind.SEGMENT]} FROM segment
 WHERE key = ANY (%(keys)s::int8[]) AND {_IS_TURN} AND NOT {_IS_READ}
 ORDER BY tenant_id, session, event_time, created_at, id
"""

_BEFORE = f"""
SELECT {COLUMNS[ItemKind.SEGMENT]} FROM segment
 WHERE tenant_id = {TENANT_ID} -- tenant filter
   AND tags && ARRAY[%(session)s::text] AND {_IS_TURN}
   AND (event_time, created_at, id)
       < (%(time)s::timestamptz, %(stored)s::timestamptz, %(id)s::text)
 ORDER BY event_time DESC, created_at DESC, id DESC LIMIT %(limit)s::int4
"""

_FACTS_ABOUT = f"""
SELECT {COLUMNS[ItemKind.FACT]} FROM fact
 WHERE tenant_id = {TENANT_ID} -- tenant filter
   AND entity_keys && %(keys)s::text[] AND NOT {IS_HIDDEN[ItemKind.FACT]}
   AND retracted_at IS NULL AND (valid_to IS NULL OR valid_to > now())
   AND NOT EXISTS (SELECT FROM unnest(closing_retracted_at) AS closing (retracted_at)
                    WHERE closing.retracted_at IS NULL)
 ORDER BY coalesce(valid_from, recorded_at) DESC, id LIMIT %(limit)s::int4
"""

_MARK = """
INSERT INTO extraction (key, text_hash)
SELECT * FROM unnest(%(keys)s::int8[], %(hashes)s::bytea[])
    ON CONFLICT (key) DO UPDATE SET text_hash = excluded.text_hash
"""

_PROGRESS = f"""
SELECT count(*), count(*) FILTER (WHERE {_IS_READ}), count(*) FILTER (WHERE {_IS_FAILED})
  FROM segment WHERE {_IS_TURN}
"""

_READ_FAILED_AGAIN = """
WITH failed AS (DELETE FROM dead_letter WHERE projection = 'extraction' RETURNING tenant_id, key)
INSERT INTO change_log (tenant_id, key, kind, op)
SELECT tenant_id, key, 'segment', 'written' FROM failed
"""
