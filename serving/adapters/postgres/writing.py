"""Storing a batch of items, within one transaction.

1. Lock the tenant, read its row and what is stored of the items.
2. Leave alone what is stored already.
3. Store the rest, segments before facts, each in the order of their ids, so that concurrent
   writers lock rows in one order and never wait for each other in a circle.
4. Find the facts that rest on a segment whose sensitivity changed, and note anew what ended
   the truth of those that were stored or are superseded.
5. Delete the vectors that may be no longer: of what is sensitive now, and of former texts.
6. Log all of that, and remember the names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from serving.adapters.postgres.content import content_hash, text_hash
from serving.adapters.postgres.filters import tags_of
from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.rows import FACT_IS_HIDDEN, array_literal
from serving.adapters.postgres.superseding import find_superseded, refresh_closings, topic_hash
from serving.adapters.postgres.tenancy import Tenant, find_or_make_tenant, lock_tenant
from serving.domain.consistency import ConsistencyToken
from serving.domain.records import Fact, Item, ItemId, ItemKind, Segment, TenantName
from serving.domain.superseding import topic_of
from serving.domain.text import name_key
from serving.ports import Outcome, WriteReceipt

MAX_NAME_BYTES = 256
"""An object of a fact that is longer is a value, and no entity's name."""


class ReachesOthersError(Exception):
    """The write changes facts beyond its own, and so must be begun again with the lock alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a caller wants stored; the items are distinct by name."""

    tenant: TenantName
    items: Sequence[Item]
    text_search_config: str = ""
    extracted: frozenset[ItemId] = frozenset()
    undated: frozenset[ItemId] = frozenset()

    def content_hashes(self, text_search_config: str) -> dict[ItemId, bytes]:
        """The hash of each of its items."""
        return {
            item.item: content_hash(
                item,
                text_search_config,
                extracted=item.item in self.extracted,
                undated=item.item in self.undated,
            )
            for item in self.items
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    content_hash: bytes
    xid: int
    sensitive: bool
    may_close: bool


@dataclass(frozen=True, slots=True)
class _Written:
    item: ItemId
    key: int
    created: bool


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a write may change beyond its own items.

    `turned` are the segments on which facts may rest, `superseded` the facts whose truth it
    may end, or end no longer.
    """

    turned: Sequence[str]
    superseded: Sequence[Fact]


@dataclass(slots=True)
class _Columns:
    """Rows turned into one list per column, as `unnest` takes them."""

    lists: dict[str, list[object]] = field(default_factory=dict)

    def append(self, **values: object) -> None:
        for name, value in values.items():
            self.lists.setdefault(name, []).append(value)


async def write_batch(connection: Connection, batch: Batch, *, exclusive: bool) -> WriteReceipt:
    """Stores the batch; `connection` is in a transaction.

    Raises:
        ReachesOthersError: `exclusive` is False, and would have to be True.
        TextSearchConfigConflictError: The tenant has another configuration.
        InvalidRequestError: The configuration does not exist.
    """
    epoch = await lock_tenant(connection, batch.tenant, exclusive=exclusive)
    tenant = await find_or_make_tenant(connection, batch.tenant, batch.text_search_config)
    hashes = batch.content_hashes(tenant.text_search_config)
    stored = await _read_stored(connection, tenant, hashes)
    changed = [item for item in batch.items if not _is_stored(item.item, hashes, stored)]
    turned = _turned(changed, stored)
    superseding = _may_supersede(changed, stored)
    if (turned or superseding) and not exclusive:
        raise ReachesOthersError
    reach = _Reach(turned, await find_superseded(connection, tenant, superseding))
    written, xid = await _write_changed(connection, tenant, changed, hashes, reach)
    unchanged = hashes.keys() - written.keys()
    if unchanged - stored.keys():  # an equal write won the race
        stored = await _read_stored(connection, tenant, unchanged)
    xids = {stored[item].xid for item in unchanged} | ({xid} if xid else set())
    outcomes = [_outcome(written.get(item.item)) for item in batch.items]
    return WriteReceipt(outcomes, ConsistencyToken.of(epoch, xids))


def _is_stored(
    item: ItemId, hashes: Mapping[ItemId, bytes], stored: Mapping[ItemId, _Stored]
) -> bool:
    return item in stored and stored[item].content_hash == hashes[item]


def _turned(changed: Sequence[Item], stored: Mapping[ItemId, _Stored]) -> list[str]:
    """The ids of the segments that become sensitive, or cease to be, in their order."""
    return sorted(
        item.id
        for item in changed
        if isinstance(item, Segment)
        and item.sensitive != (item.item in stored and stored[item.item].sensitive)
    )


def _may_supersede(changed: Sequence[Item], stored: Mapping[ItemId, _Stored]) -> list[Fact]:
    """The facts that may end others, or could before."""
    return [
        item
        for item in changed
        if isinstance(item, Fact)
        and (item.may_close or (item.item in stored and stored[item.item].may_close))
    ]


def _outcome(written: _Written | None) -> Outcome:
    if written is None:
        return "unchanged"
    return "created" if written.created else "updated"


async def _read_stored(
    connection: Connection, tenant: Tenant, items: Iterable[ItemId]
) -> dict[ItemId, _Stored]:
    ids: dict[ItemKind, list[str]] = {kind: [] for kind in ItemKind}
    for item in items:
        ids[item.kind].append(item.id)
    stored: dict[ItemId, _Stored] = {}
    for kind, ids_of_kind in ids.items():
        if ids_of_kind:
            cursor = await connection.execute(
                f"SELECT id, content_hash, written_xid::text::int8, sensitive, {_MAY_CLOSE[kind]} "
                f"FROM {kind} "
                "WHERE tenant_id = %s::int4 "  # tenant filter
                "AND id = ANY (%s::text[])",
                [tenant.id, ids_of_kind],
                binary=True,
            )
            for row in await cursor.fetchall():
                stored[ItemId(kind, row[0])] = _Stored(*row[1:])
    return stored


async def _write_changed(
    connection: Connection,
    tenant: Tenant,
    changed: Sequence[Item],
    hashes: Mapping[ItemId, bytes],
    reach: _Reach,
) -> tuple[dict[ItemId, _Written], int | None]:
    """Stores the items; returns what was written, and by which transaction if any was."""
    if not changed:
        return {}, None
    segments = [item for item in changed if isinstance(item, Segment)]
    facts = [item for item in changed if isinstance(item, Fact)]
    written = await _write_segments(connection, tenant, segments, hashes)
    affected = await _lock_facts(connection, tenant, facts, reach)
    written |= await _write_facts(connection, tenant, facts, hashes)
    new = {
        row.item.id for row in written.values() if row.created and row.item.kind is ItemKind.FACT
    }
    affected |= await refresh_closings(connection, tenant, [*facts, *reach.superseded], new)
    rewritten = {row.key for row in written.values() if not row.created}
    await _forget_outdated(connection, [*(rewritten | affected)])
    xid = await _log(connection, tenant, written.values(), affected)
    await _remember_names(connection, tenant, changed)
    return written, xid


async def _write_segments(
    connection: Connection,
    tenant: Tenant,
    segments: Sequence[Segment],
    hashes: Mapping[ItemId, bytes],
) -> dict[ItemId, _Written]:
    if not segments:
        return {}
    columns = _Columns()
    for segment in segments:
        columns.append(
            id=segment.id,
            text=segment.text,
            title=segment.title,
            kind=segment.kind,
            speaker=segment.speaker,
            session=segment.session,
            event_time=segment.event_time,
            importance=segment.importance,
            sensitive=segment.sensitive,
            labels=json.dumps(dict(segment.labels)),
            entities=array_literal(segment.entities),
            entity=segment.entity,
            content_hash=hashes[segment.item],
            text_hash=text_hash(segment),
            tags=array_literal(tags_of(segment)),
        )
    cursor = await connection.execute(
        _UPSERT_SEGMENTS, {"tenant_id": tenant.id, **columns.lists}, binary=True
    )
    return _written(ItemKind.SEGMENT, await cursor.fetchall())


async def _write_facts(
    connection: Connection, tenant: Tenant, facts: Sequence[Fact], hashes: Mapping[ItemId, bytes]
) -> dict[ItemId, _Written]:
    if not facts:
        return {}
    columns = _Columns()
    for fact in facts:
        columns.append(
            id=fact.id,
            subject=fact.subject,
            relation=fact.relation,
            object=fact.object,
            sentence=fact.sentence,
            valid_from=fact.valid_from,
            valid_to=fact.valid_to,
            recorded_at=fact.recorded_at,
            retracted_at=fact.retracted_at,
            evidence=array_literal(fact.evidence),
            weight=fact.weight,
            sensitive=fact.sensitive,
            closes=array_literal(fact.closes),
            single_valued=fact.single_valued,
            topic=topic_hash(topic_of(fact)),
            entity_keys=array_literal(sorted({name_key(name) for name in _names_of(fact)})),
            content_hash=hashes[fact.item],
            text_hash=text_hash(fact),
        )
    cursor = await connection.execute(
        _UPSERT_FACTS, {"tenant_id": tenant.id, **columns.lists}, binary=True
    )
    return _written(ItemKind.FACT, await cursor.fetchall())


def _written(kind: ItemKind, rows: Iterable[tuple[str, int, bool]]) -> dict[ItemId, _Written]:
    items = (_Written(ItemId(kind, id_), key, created) for id_, key, created in rows)
    return {row.item: row for row in items}


async def _lock_facts(
    connection: Connection, tenant: Tenant, facts: Sequence[Fact], reach: _Reach
) -> set[int]:
    """Locks the facts beyond its own that a write may change.

    Returns the keys of those that rest on a segment which turned. All are
    locked together with those to be written, since writers lock in one order.
    """
    if not (reach.turned or reach.superseded):
        return set()
    cursor = await connection.execute(
        """
        SELECT key, evidence && %(turned)s::text[] FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND (id = ANY (%(ids)s::text[]) OR evidence && %(turned)s::text[])
         ORDER BY id FOR NO KEY UPDATE
        """,
        {
            "tenant_id": tenant.id,
            "ids": [fact.id for fact in (*facts, *reach.superseded)],
            "turned": reach.turned,
        },
    )
    return {key for key, rests in await cursor.fetchall() if rests}


async def _forget_outdated(connection: Connection, keys: list[int]) -> None:
    """Deletes the vectors that these rows may not have, and notes about their former state."""
    if keys:
        await connection.execute(_DELETE_OUTDATED_EMBEDDINGS, {"keys": keys})
        await connection.execute("DELETE FROM set_aside WHERE key = ANY (%s::int8[])", [keys])


async def _log(
    connection: Connection, tenant: Tenant, written: Iterable[_Written], affected: set[int]
) -> int | None:
    kinds = dict.fromkeys(affected, ItemKind.FACT)
    kinds |= {row.key: row.item.kind for row in written}
    if not kinds:
        return None
    cursor = await connection.execute(
        """
        WITH logged AS (
          INSERT INTO change_log (tenant_id, key, kind, op)
          SELECT %(tenant_id)s::int4, key, kind, 'written'
            FROM unnest(%(keys)s::int8[], %(kinds)s::text[]) AS changed (key, kind)
        )
        SELECT pg_current_xact_id()::text::int8
        """,
        {"tenant_id": tenant.id, "keys": [*kinds], "kinds": [str(kind) for kind in kinds.values()]},
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


async def _remember_names(connection: Connection, tenant: Tenant, items: Sequence[Item]) -> None:
    names = {name_key(name): name for item in reversed(items) for name in reversed(_names_of(item))}
    if names:
        await connection.execute(
            """
            INSERT INTO entity (tenant_id, name_key, name)
            SELECT %s::int4, name_key, name
              FROM unnest(%s::text[], %s::text[]) AS given (name_key, name)
             ORDER BY name_key COLLATE "C"
                ON CONFLICT DO NOTHING
            """,
            [tenant.id, [*names], [*names.values()]],
        )


def _names_of(item: Item) -> list[str]:
    """The names of entities that an item uses."""
    if isinstance(item, Segment):
        return [*item.entities, *([item.entity] if item.entity else [])]
    return [item.subject, *([item.object] if len(item.object.encode()) <= MAX_NAME_BYTES else [])]


_MAY_CLOSE = {ItemKind.SEGMENT: "false", ItemKind.FACT: "closes <> '{}' OR single_valued"}

_UPSERT_SEGMENTS = """
INSERT INTO segment (
  tenant_id, id, text, title, kind, speaker, session, event_time, importance, sensitive, labels,
  entities, entity, content_hash, text_hash, tags)
SELECT %(tenant_id)s::int4, id, text, title, kind, speaker, session, event_time, importance,
       sensitive, labels::jsonb, entities::text[], entity, content_hash, text_hash, tags::text[]
  FROM unnest(
    %(id)s::text[], %(text)s::text[], %(title)s::text[], %(kind)s::text[], %(speaker)s::text[],
    %(session)s::text[], %(event_time)s::timestamptz[], %(importance)s::float8[],
    %(sensitive)s::bool[], %(labels)s::text[], %(entities)s::text[], %(entity)s::text[],
    %(content_hash)s::bytea[], %(text_hash)s::bytea[], %(tags)s::text[]
  ) AS given (id, text, title, kind, speaker, session, event_time, importance, sensitive, labels,
              entities, entity, content_hash, text_hash, tags)
 ORDER BY id COLLATE "C"
    ON CONFLICT (tenant_id, id) DO UPDATE SET
       text = excluded.text, title = excluded.title, kind = excluded.kind,
       speaker = excluded.speaker, session = excluded.session, event_time = excluded.event_time,
       importance = excluded.importance, sensitive = excluded.sensitive, labels = excluded.labels,
       entities = excluded.entities, entity = excluded.entity,
       content_hash = excluded.content_hash, text_hash = excluded.text_hash, tags = excluded.tags,
       written_xid = pg_current_xact_id(), updated_at = now()
 WHERE segment.content_hash <> excluded.content_hash
RETURNING id, key, xmax = 0
"""

_UPSERT_FACTS = """
INSERT INTO fact (
  tenant_id, id, subject, relation, object, sentence, valid_from, valid_to, recorded_at,
  retracted_at, evidence, weight, sensitive, closes, single_valued, topic, entity_keys,
  content_hash, text_hash)
SELECT %(tenant_id)s::int4, id, subject, relation, object, sentence, valid_from, valid_to,
       recorded_at, retracted_at, evidence::text[], weight, sensitive, closes::text[],
       single_valued, topic, entity_keys::text[], content_hash, text_hash
  FROM unnest(
    %(id)s::text[], %(subject)s::text[], %(relation)s::text[], %(object)s::text[],
    %(sentence)s::text[], %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[],
    %(recorded_at)s::timestamptz[], %(retracted_at)s::timestamptz[], %(evidence)s::text[],
    %(weight)s::float8[], %(sensitive)s::bool[], %(closes)s::text[], %(single_valued)s::bool[],
    %(topic)s::bytea[], %(entity_keys)s::text[], %(content_hash)s::bytea[], %(text_hash)s::bytea[]
  ) AS given (id, subject, relation, object, sentence, valid_from, valid_to, recorded_at,
              retracted_at, evidence, weight, sensitive, closes, single_valued, topic, entity_keys,
              content_hash, text_hash)
 ORDER BY id COLLATE "C"
    ON CONFLICT (tenant_id, id) DO UPDATE SET
       subject = excluded.subject, relation = excluded.relation, object = excluded.object,
       sentence = excluded.sentence, valid_from = excluded.valid_from,
       valid_to = excluded.valid_to, recorded_at = excluded.recorded_at,
       retracted_at = excluded.retracted_at, evidence = excluded.evidence,
       weight = excluded.weight, sensitive = excluded.sensitive,
       closes = excluded.closes, single_valued = excluded.single_valued,
       topic = excluded.topic, entity_keys = excluded.entity_keys,
       content_hash = excluded.content_hash, text_hash = excluded.text_hash,
       written_xid = pg_current_xact_id(), updated_at = now()
 WHERE fact.content_hash <> excluded.content_hash
RETURNING id, key, xmax = 0
"""

_DELETE_OUTDATED_EMBEDDINGS = f"""
DELETE FROM embedding
 WHERE embedding.key = ANY (%(keys)s::int8[])
   AND NOT EXISTS (
     SELECT FROM segment
      WHERE segment.key = embedding.key AND segment.text_hash = embedding.text_hash
        AND NOT segment.sensitive)
   AND NOT EXISTS (
     SELECT FROM fact
      WHERE fact.key = embedding.key AND fact.text_hash = embedding.text_hash
        AND NOT {FACT_IS_HIDDEN})
"""
