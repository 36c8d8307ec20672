"""Closings: what ended the validity of a fact, stored with the fact in the writing transaction.

The domain decides which fact closes which (domain/items/superseding.py). This module finds the few
facts that a change can affect, and the facts that may close those.

A fact that may close others, or could before the write, is stored under the tenant's exclusive
lock, so that of two concurrent facts one sees the other. Other facts share the lock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import chain

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.rows import COLUMNS, to_fact
from serving.adapters.postgres.tables.tenants import Tenant
from serving.domain.items.records import Fact, ItemKind
from serving.domain.items.superseding import Topic, closings_of, topic_of
from serving.domain.items.validity import Closing


def topic_hash(topic: Topic) -> bytes:
    """SHA-256 of a topic, whose own text can be too long for an index."""
    return hashlib.sha256(json.dumps(topic).encode()).digest()


async def find_superseded(
    connection: Connection, tenant: Tenant, facts: Sequence[Fact]
) -> list[Fact]:
    """The other facts that these close now, or may close once they are stored.

    Facts of a single-valued topic that are known to have ended earlier are not read.
    """
    if not facts:
        return []
    closers = [fact for fact in facts if fact.single_valued]
    rows = await connection.fetch_all(
        _SUPERSEDED,
        {
            "tenant_id": tenant.id,
            "ids": [fact.id for fact in facts],
            "closes": sorted({id_ for fact in facts for id_ in fact.closes}),
            "topics": [topic_hash(topic_of(fact)) for fact in closers],
            "begin": [fact.begins for fact in closers],
            "recorded_at": [fact.recorded_at for fact in closers],
        },
    )
    return [to_fact(row) for row in rows]


async def find_closed_by(connection: Connection, tenant: Tenant, ids: Sequence[str]) -> list[Fact]:
    """The facts that these facts close."""
    rows = await connection.fetch_all(
        f"""
        SELECT {COLUMNS[ItemKind.FACT]} FROM fact
         WHERE tenant_id = %s::int4 -- tenant filter
           AND closed_by <> '{{}}' AND closed_by && %s::text[]
        """,
        [tenant.id, ids],
    )
    return [to_fact(row) for row in rows]


async def refresh_closings(
    connection: Connection, tenant: Tenant, facts: Sequence[Fact], new: Collection[str] = ()
) -> set[int]:
    """Updates the closings of stored facts; returns the keys of the facts that it changed.

    `new` facts have no closings yet and mostly need none.
    """
    if not facts:
        return set()
    first: dict[Topic, datetime] = {}
    for fact in facts:
        topic = topic_of(fact)
        first[topic] = min(fact.begins, first.get(topic, fact.begins))
    closers = await connection.fetch_all(
        _CLOSERS,
        {
            "tenant_id": tenant.id,
            "ids": [fact.id for fact in facts],
            "topics": [topic_hash(topic) for topic in first],
            "begin": [*first.values()],
        },
    )
    closings = closings_of(facts, [to_fact(row) for row in closers])
    updates = {id_: ended for id_, ended in closings.items() if ended or id_ not in new}
    return await _store(connection, tenant, updates) if updates else set()


async def _store(
    connection: Connection, tenant: Tenant, closings: Mapping[str, Sequence[Closing]]
) -> set[int]:
    closed = [id_ for id_, of_fact in closings.items() for _ in of_fact]
    each = list(chain.from_iterable(closings.values()))
    ends = {
        name: [getattr(closing, name) for closing in each]
        for name in ("by", "at", "recorded_at", "retracted_at")
    }
    given = {"tenant_id": tenant.id, "ids": [*closings], "closed": closed, **ends}
    return {key for (key,) in await connection.fetch_all(_STORE, given)}


# A UNION ALL of three conditions, each with its own index; one condition with ORs would use none.
_SUPERSEDED = f"""
SELECT {COLUMNS[ItemKind.FACT]} FROM fact
 WHERE key IN (
   SELECT key FROM fact
    WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
      AND id = ANY (%(closes)s::text[])
    UNION ALL
   SELECT key FROM fact
    WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
      AND closed_by <> '{{}}' AND closed_by && %(ids)s::text[]
    UNION ALL
   SELECT fact.key
     FROM unnest(%(topics)s::bytea[], %(begin)s::timestamptz[], %(recorded_at)s::timestamptz[])
          AS closer (topic, begin, recorded_at)
     JOIN fact ON fact.tenant_id = %(tenant_id)s::int4 -- tenant filter
              AND fact.topic = closer.topic
              AND coalesce(fact.valid_from, fact.recorded_at) <= closer.begin
    WHERE NOT EXISTS (
      SELECT FROM unnest(fact.closed_at, fact.closing_recorded_at, fact.closing_retracted_at)
                  AS closing (at, recorded_at, retracted_at)
       WHERE closing.at <= closer.begin AND closing.recorded_at <= closer.recorded_at
         AND closing.retracted_at IS NULL))
   AND id <> ALL (%(ids)s::text[])
"""

_CLOSERS = f"""
SELECT {COLUMNS[ItemKind.FACT]} FROM fact
 WHERE key IN (
   SELECT key FROM fact
    WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
      AND closes <> '{{}}' AND closes && %(ids)s::text[]
    UNION ALL
   SELECT fact.key
     FROM unnest(%(topics)s::bytea[], %(begin)s::timestamptz[]) AS wanted (topic, begin)
     JOIN fact ON fact.tenant_id = %(tenant_id)s::int4 -- tenant filter
              AND fact.topic = wanted.topic
              AND coalesce(fact.valid_from, fact.recorded_at) >= wanted.begin
              AND fact.single_valued)
"""

_STORE = """
WITH closing AS (
  SELECT closed, array_agg(by ORDER BY place) AS by, array_agg(at ORDER BY place) AS at,
         array_agg(recorded_at ORDER BY place) AS recorded_at,
         array_agg(retracted_at ORDER BY place) AS retracted_at
    FROM unnest(
      %(closed)s::text[], %(by)s::text[], %(at)s::timestamptz[], %(recorded_at)s::timestamptz[],
      %(retracted_at)s::timestamptz[]
    ) WITH ORDINALITY AS given (closed, by, at, recorded_at, retracted_at, place)
   GROUP BY closed
), wanted AS (
  SELECT id, coalesce(by, '{}') AS by, coalesce(at, '{}') AS at,
         coalesce(recorded_at, '{}') AS recorded_at, coalesce(retracted_at, '{}') AS retracted_at
    FROM unnest(%(ids)s::text[]) AS given (id) LEFT JOIN closing ON closing.closed = given.id
)
UPDATE fact
   SET closed_by = wanted.by, closed_at = wanted.at,
       closing_recorded_at = wanted.recorded_at, closing_retracted_at = wanted.retracted_at
  FROM wanted
 WHERE fact.tenant_id = %(tenant_id)s::int4 -- tenant filter
   AND fact.id = wanted.id
   AND (fact.closed_by, fact.closed_at, fact.closing_recorded_at, fact.closing_retracted_at)
       IS DISTINCT FROM (wanted.by, wanted.at, wanted.recorded_at, wanted.retracted_at)
RETURNING fact.key
"""
