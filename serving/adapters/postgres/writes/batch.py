"""Storing a batch of items in one transaction.

1. Lock the tenant; read its row and the stored rows of the items, which have not expired.
2. Skip items that are unchanged: those with the stored hash, and those that repeat what is stored.
3. Write the others, segments before facts, each in the order of their ids, so that concurrent
   writers lock rows in the same order and cannot deadlock.
4. Find the facts whose evidence changed its sensitivity, and refresh the closings of the facts
   that were written or are superseded.
5. Delete the vectors of hidden rows and of former texts.
6. Log the changes, store the new entity names and delete those that no shown row uses.
7. Store the vectors that came with written segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.log.embeddings import insert_embeddings
from serving.adapters.postgres.log.entries import log_written
from serving.adapters.postgres.tables.content import content_hash, repeats, text_hash
from serving.adapters.postgres.tables.filters import IS_HIDDEN, tags_of
from serving.adapters.postgres.tables.models import find_model, find_or_make_model
from serving.adapters.postgres.tables.rows import (
    COLUMNS,
    TO_ITEM,
    array_literal,
    to_multirange,
    typed_columns,
)
from serving.adapters.postgres.tables.tenants import Tenant, find_or_make_tenant, lock_tenant
from serving.adapters.postgres.words.tsvector import stored_words
from serving.adapters.postgres.writes import names
from serving.adapters.postgres.writes.closings import find_superseded, refresh_closings, topic_hash
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import ItemNotFoundError, VersionConflictError
from serving.domain.items.records import Fact, Item, ItemId, ItemKind, Segment, is_expired
from serving.domain.items.superseding import topic_of
from serving.domain.items.text import text_of
from serving.ports.change_log import Change, EmbeddingTask
from serving.ports.embedding import Embedding
from serving.ports.memory_store import Batch, GivenVectors, Outcome, WriteReceipt


class ExclusiveLockRequiredError(Exception):
    """The write changes facts outside the batch; retry it with the exclusive lock."""


class ExpiredItemsError(Exception):
    """Stored items of the batch have expired; retry it when they are erased."""

    def __init__(self, items: Sequence[ItemId]) -> None:
        super().__init__(items)
        self.items = tuple(items)


@dataclass(frozen=True, slots=True)
class _Stored:
    content_hash: bytes
    xid: int
    name_keys: Sequence[str]
    item: Item

    @property
    def may_close(self) -> bool:
        return isinstance(self.item, Fact) and self.item.may_close


class _Written(NamedTuple):
    key: int
    created: bool


Changed: TypeAlias = Sequence[tuple[Item, _Stored | None]]
"""Items that differ from what is stored, with that; None for a new one."""


async def write_batch(connection: Connection, batch: Batch, *, exclusive: bool) -> WriteReceipt:
    """Stores the batch; `connection` is in a transaction.

    Raises:
        ExclusiveLockRequiredError: The write needs `exclusive`.
        ExpiredItemsError: Items have expired by `batch.at`.
        TextSearchConfigConflictError: The tenant has another configuration.
        InvalidRequestError: The configuration does not exist.
        ItemNotFoundError, VersionConflictError: As `MemoryStore.write`.
    """
    epoch = await lock_tenant(connection, batch.tenant, exclusive=exclusive)
    tenant = await find_or_make_tenant(
        connection, batch.tenant, batch.text_search_config, batch.time_zone
    )
    if batch.given:  # before rows are locked, as the projector does
        await find_or_make_model(connection, batch.given.model)
    hashes = {
        item.item: content_hash(
            item,
            tenant.text_search_config,
            undated=item.item in batch.undated,
            expiring=item.item in batch.expiring,
        )
        for item in batch.items
    }
    # No hash of a content, and another one with each change.
    hashes |= {of: b"%d" % version for of, version in batch.versions.items()}
    stored = await _read_stored(connection, tenant, hashes)
    if batch.at is not None:
        expired = [of for of, row in stored.items() if is_expired(row.item, batch.at)]
        if expired:
            raise ExpiredItemsError(expired)
    for of, version in batch.versions.items():
        _require_version(of, stored.get(of), version)
    new_or_stored = [(item, stored.get(item.item)) for item in batch.items]
    changed = [
        (item, former)
        for item, former in new_or_stored
        if former is None
        or (
            former.content_hash != hashes[item.item]
            and not repeats(item, former.item, undated=item.item in batch.undated)
        )
    ]
    written, xid = await _write_changed(
        connection, tenant, changed, hashes, batch.given, exclusive=exclusive
    )
    unchanged = hashes.keys() - written.keys()
    if unchanged - stored.keys():  # a concurrent write stored the same content
        stored = await _read_stored(connection, tenant, unchanged)
    xids = {stored[item].xid for item in unchanged} | ({xid} if xid else set())
    outcomes = [_outcome(written.get(item.item)) for item in batch.items]
    return WriteReceipt(outcomes, ConsistencyToken.of(epoch, xids))


def _require_version(item: ItemId, stored: _Stored | None, version: int) -> None:
    if stored is None:
        raise ItemNotFoundError(*item)
    if stored.item.version != version:
        raise VersionConflictError(*item, stored.item.version)


def _outcome(written: _Written | None) -> Outcome:
    if written is None:
        return "unchanged"
    return "created" if written.created else "updated"


async def _read_stored(
    connection: Connection, tenant: Tenant, items: Iterable[ItemId]
) -> dict[ItemId, _Stored]:
    stored: dict[ItemId, _Stored] = {}
    ids = {kind: [item.id for item in items if item.kind is kind] for kind in ItemKind}
    for kind, ids_of_kind in ids.items():
        if ids_of_kind:
            rows = await connection.fetch_all(
                "SELECT content_hash, written_xid::text::int8, "
                f"{names.NAME_KEYS[kind]}, {COLUMNS[kind]} FROM {kind} "
                "WHERE tenant_id = %s::int4 "  # tenant filter
                "AND id = ANY (%s::text[])",
                [tenant.id, ids_of_kind],
            )
            for hash_, xid, name_keys, *row in rows:
                item = TO_ITEM[kind](row)
                stored[item.item] = _Stored(hash_, xid, name_keys, item)
    return stored


async def _write_changed(
    connection: Connection,
    tenant: Tenant,
    changed: Changed,
    hashes: Mapping[ItemId, bytes],
    given: GivenVectors | None,
    *,
    exclusive: bool,
) -> tuple[dict[ItemId, _Written], int | None]:
    """Stores the items; returns what was written, and the id of the transaction if it wrote."""
    if not changed:
        return {}, None
    items = [item for item, _ in changed]
    segments = [item for item in items if isinstance(item, Segment)]
    facts = [item for item in items if isinstance(item, Fact)]
    # Facts may rest on the segments that are sensitive from now on or no longer, and on those that
    # expire at another time.
    resensitized = sorted(
        item.id
        for item, former in changed
        if isinstance(item, Segment)
        and item.sensitive != (former is not None and former.item.sensitive)
    )
    rescheduled = sorted(
        item.id
        for item, former in changed
        if isinstance(item, Segment)
        and item.expires_at != (None if former is None else former.item.expires_at)
    )
    closing = [
        item
        for item, former in changed
        if isinstance(item, Fact) and (item.may_close or (former is not None and former.may_close))
    ]
    dropped: set[str] = set()
    for item, former in changed:
        if former is not None:
            dropped |= names.names_dropped(former.name_keys, item)
    if (resensitized or closing or dropped) and not exclusive:
        raise ExclusiveLockRequiredError
    superseded = await find_superseded(connection, tenant, closing)
    written = await _upsert(connection, tenant, ItemKind.SEGMENT, segments, hashes)
    resting = await _lock_facts(connection, tenant, facts, superseded, resensitized)
    written |= await _upsert(connection, tenant, ItemKind.FACT, facts, hashes)
    new = {fact.id for fact in facts if (row := written.get(fact.item)) and row.created}
    refreshed = await refresh_closings(connection, tenant, [*facts, *superseded], new)
    affected = resting.keys() | refreshed
    outdated = [*({row.key for row in written.values() if not row.created} | affected)]
    if outdated:
        await connection.execute(_DELETE_OUTDATED_EMBEDDINGS, {"keys": outdated})
        await connection.execute("DELETE FROM dead_letter WHERE key = ANY (%s::int8[])", [outdated])
    expiring = await _find_resting(connection, tenant, rescheduled)
    kinds = dict.fromkeys(affected | expiring, ItemKind.FACT)
    kinds |= {row.key: item.kind for item, row in written.items()}
    xid = await log_written(connection, tenant, kinds)
    keys = {item: row.key for item, row in written.items()}
    await names.store_names(connection, tenant, items, keys)
    await names.store_names_of_facts(connection, tenant, resting.keys())
    await names.delete_unused_names(connection, tenant, dropped.union(*resting.values()))
    if given and xid:
        await _insert_given(connection, tenant, segments, keys, given, xid)
    return written, xid


async def _insert_given(
    connection: Connection,
    tenant: Tenant,
    segments: Sequence[Segment],
    rows: Mapping[ItemId, int],
    given: GivenVectors,
    xid: int,
) -> None:
    """Stores the given vectors of written segments as the projector would; `rows` are their keys.

    The projector then finds nothing to embed.
    """
    vectors = [
        (
            EmbeddingTask(
                Change(rows[segment.item], tenant.name, segment.item, xid),
                text_of(segment),
                text_hash(segment),
            ),
            Embedding(given.vectors[segment.item][np.newaxis]),
        )
        for segment in segments
        if segment.item in given.vectors and segment.item in rows
    ]
    if vectors:
        model_id = await find_model(connection, given.model)
        await insert_embeddings(connection, model_id, vectors)


async def _upsert(
    connection: Connection,
    tenant: Tenant,
    kind: ItemKind,
    items: Sequence[Item],
    hashes: Mapping[ItemId, bytes],
) -> dict[ItemId, _Written]:
    if not items:
        return {}
    rows = [_column_values(item, hashes[item.item], tenant) for item in items]
    values = {name: [row[name] for row in rows] for name in _COLUMN_TYPES[kind]}
    stored = await connection.fetch_all(_UPSERT[kind], {"tenant_id": tenant.id, **values})
    return {ItemId(kind, id_): _Written(*row) for id_, *row in stored}


def _column_values(item: Item, content_hash: bytes, tenant: Tenant) -> dict[str, object]:
    values = {name: getattr(item, name, None) for name in _COLUMN_TYPES[item.item.kind]}
    values |= {"content_hash": content_hash, "text_hash": text_hash(item)}
    if isinstance(item, Segment):
        words = stored_words(item, tenant.text_search_config)
        return (
            values
            | words._asdict()
            | {
                "labels": json.dumps(dict(item.labels)),
                "entities": array_literal(item.entities),
                "keywords": array_literal(item.keywords),
                "mentions": to_multirange(item.mentions),
                "tags": array_literal(tags_of(item)),
            }
        )
    return values | {
        "evidence": array_literal(item.evidence),
        "closes": array_literal(item.closes),
        "topic": topic_hash(topic_of(item)),
        "entity_keys": array_literal(names.entity_keys_of(item)),
    }


async def _lock_facts(
    connection: Connection,
    tenant: Tenant,
    facts: Sequence[Fact],
    superseded: Sequence[Fact],
    resensitized: Sequence[str],
) -> dict[int, list[str]]:
    """Locks the facts outside the batch that the write may change.

    Returns the keys of those with evidence in `resensitized`, with the keys of their names. They
    are locked together with the facts to be written, since all writers lock in the same order.
    """
    if not (resensitized or superseded):
        return {}
    rows = await connection.fetch_all(
        """
        SELECT key, evidence && %(resensitized)s::text[], entity_keys FROM fact
         WHERE tenant_id = %(tenant_id)s::int4 -- tenant filter
           AND (id = ANY (%(ids)s::text[]) OR evidence && %(resensitized)s::text[])
         ORDER BY id FOR NO KEY UPDATE
        """,
        {
            "tenant_id": tenant.id,
            "ids": [fact.id for fact in (*facts, *superseded)],
            "resensitized": resensitized,
        },
    )
    return {key: name_keys for key, affected, name_keys in rows if affected}


async def _find_resting(
    connection: Connection, tenant: Tenant, segments: Sequence[str]
) -> set[int]:
    """The keys of the facts that rest on segments; whoever holds these facts reads them again."""
    if not segments:
        return set()
    rows = await connection.fetch_all(
        """
        SELECT key FROM fact
         WHERE tenant_id = %s::int4 -- tenant filter
           AND evidence && %s::text[]
        """,
        [tenant.id, segments],
    )
    return {key for (key,) in rows}


_COLUMN_TYPES = {
    ItemKind.SEGMENT: typed_columns(
        {
            "text": "id text title kind speaker session entity",
            "text[]": "entities keywords tags",
            "timestamptz": "event_time created_at expires_at",
            "tstzmultirange": "mentions",
            "float8": "importance",
            "bool": "sensitive extracted",
            "jsonb": "labels",
            "bytea": "content_hash text_hash",
            "tsvector": "tsv",
            "int4": "dl",
        }
    ),
    ItemKind.FACT: typed_columns(
        {
            "text": "id subject relation object sentence",
            "text[]": "evidence closes entity_keys",
            "timestamptz": "valid_from valid_to recorded_at retracted_at expires_at",
            "float8": "weight",
            "bool": "sensitive single_valued",
            "bytea": "topic content_hash text_hash",
        }
    ),
}
"""The columns that a write sets."""

_SET_ONCE = {"created_at": "coalesce(created_at, now() + (place - 1) * interval '1 us')"}
"""The columns that only the first write sets, and to what.

Items of one call are apart by their order, which is that of turns of one time.
"""

_SENT_AS_TEXT = {"jsonb", "text[]", "tsvector"}


def _upsert_statement(kind: ItemKind) -> str:
    types = _COLUMN_TYPES[kind]
    columns = ", ".join(types)
    arrays = ", ".join(
        f"%({name})s::{'text' if type_ in _SENT_AS_TEXT else type_}[]"
        for name, type_ in types.items()
    )
    given = ", ".join(_SET_ONCE.get(name, f"{name}::{type_}") for name, type_ in types.items())
    updated = ", ".join(
        f"{name} = excluded.{name}" for name in types if name not in ("id", *_SET_ONCE)
    )
    return f"""
    INSERT INTO {kind} (tenant_id, {columns})
    SELECT %(tenant_id)s::int4, {given}
      FROM unnest({arrays}) WITH ORDINALITY AS given ({columns}, place)
     ORDER BY id COLLATE "C"
        ON CONFLICT (tenant_id, id) DO UPDATE SET
           {updated},
           written_xid = pg_current_xact_id(), updated_at = now(),
           version = {kind}.version + 1
     WHERE {kind}.content_hash <> excluded.content_hash
    RETURNING id, key, xmax = 0
    """


_UPSERT = {kind: _upsert_statement(kind) for kind in ItemKind}

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
        AND NOT {IS_HIDDEN[ItemKind.FACT]})
"""
