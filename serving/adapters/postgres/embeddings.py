"""The vectors of items: which are missing, and storing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.adapters.postgres.pool import Connection
from serving.adapters.postgres.rows import (
    FACT_COLUMNS,
    FACT_IS_HIDDEN,
    SEGMENT_COLUMNS,
    to_fact,
    to_segment,
)
from serving.domain.records import Item, ItemKind
from serving.domain.text import TextForm, text_to_embed
from serving.ports import Change, EmbeddingTask, Vectors

STORED_TYPE = np.dtype("<f2")
"""float16, little-endian."""

IS_HIDDEN = {ItemKind.SEGMENT: "segment.sensitive", ItemKind.FACT: FACT_IS_HIDDEN}
"""The condition that a row of each table must never be projected."""


async def missing_embeddings(
    connection: Connection, changes: Sequence[Change], model_id: int, form: TextForm
) -> list[EmbeddingTask]:
    """The changed rows that have no current vector of the model, and may have one."""
    rows: dict[int, tuple[bytes, Item]] = {}
    for kind in ItemKind:
        keys = [change.key for change in changes if change.item.kind is kind]
        if keys:
            cursor = await connection.execute(
                _MISSING[kind], {"keys": keys, "model_id": model_id}, binary=True
            )
            read = to_segment if kind is ItemKind.SEGMENT else to_fact
            rows |= {row[0]: (row[1], read(row[2:])) for row in await cursor.fetchall()}
    return [
        EmbeddingTask(change, text_to_embed(rows[change.key][1], form), rows[change.key][0])
        for change in changes
        if change.key in rows
    ]


async def insert_embeddings(
    connection: Connection, model_id: int, vectors: Sequence[tuple[EmbeddingTask, Vectors]]
) -> None:
    """Stores the vectors of those rows that are as they were; `connection` is in a transaction.

    1. Lock the rows, in the order in which writers do.
    2. Only then look at them, in another statement: it sees whatever the lock waited for.
    3. Replace their vectors, and log that.
    """
    for kind in ItemKind:
        of_kind = {
            task.change.key: (task, rows) for task, rows in vectors if task.change.item.kind is kind
        }
        if not of_kind:
            continue
        await connection.execute(_LOCK[kind], {"keys": [*of_kind]})
        cursor = await connection.execute(_CURRENT[kind], {"keys": [*of_kind]}, binary=True)
        current: dict[int, bytes] = dict(await cursor.fetchall())
        await _replace(
            connection,
            model_id,
            kind,
            [pair for key, pair in of_kind.items() if current.get(key) == pair[0].text_hash],
        )


async def _replace(
    connection: Connection,
    model_id: int,
    kind: ItemKind,
    vectors: Sequence[tuple[EmbeddingTask, Vectors]],
) -> None:
    windows = [
        (task.change.key, place, task.text_hash, vector.tobytes())
        for task, rows in vectors
        for place, vector in enumerate(rows.astype(STORED_TYPE))
    ]
    if not windows:
        return
    keys, places, hashes, stored = (list(column) for column in zip(*windows, strict=True))
    await connection.execute(
        "DELETE FROM embedding WHERE model_id = %s::int2 AND key = ANY (%s::int8[])",
        [model_id, keys],
    )
    await connection.execute(
        """
        INSERT INTO embedding (model_id, key, window_no, text_hash, vector)
        SELECT %s::int2, key, window_no, text_hash, vector
          FROM unnest(%s::int8[], %s::int2[], %s::bytea[], %b::bytea[])
               AS given (key, window_no, text_hash, vector)
        """,
        [model_id, keys, places, hashes, stored],
    )
    await connection.execute(_LOG[kind], {"keys": keys})
    await connection.execute(
        "DELETE FROM set_aside WHERE projection = 'embedding' AND key = ANY (%s::int8[])", [keys]
    )


_COLUMNS = {ItemKind.SEGMENT: SEGMENT_COLUMNS, ItemKind.FACT: FACT_COLUMNS}

_MISSING = {
    kind: f"""
    SELECT key, text_hash, {_COLUMNS[kind]} FROM {kind}
     WHERE key = ANY (%(keys)s::int8[]) AND NOT {IS_HIDDEN[kind]}
       AND NOT EXISTS (
         SELECT FROM embedding
          WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
            AND embedding.text_hash = {kind}.text_hash)
    """
    for kind in ItemKind
}

_LOCK = {
    kind: f"""
    SELECT FROM {kind} WHERE key = ANY (%(keys)s::int8[])
     ORDER BY tenant_id, id FOR NO KEY UPDATE
    """
    for kind in ItemKind
}

_CURRENT = {
    kind: f"""
    SELECT key, text_hash FROM {kind}
     WHERE key = ANY (%(keys)s::int8[]) AND NOT {IS_HIDDEN[kind]}
    """
    for kind in ItemKind
}

_LOG = {
    kind: f"""
    INSERT INTO change_log (tenant_id, key, kind, op)
    SELECT tenant_id, key, '{kind}', 'embedded' FROM {kind} WHERE key = ANY (%(keys)s::int8[])
    """
    for kind in ItemKind
}
