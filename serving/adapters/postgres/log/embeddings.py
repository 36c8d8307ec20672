"""Storage of vectors, and which items lack one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.adapters.postgres.connection.pool import Connection
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM
from serving.domain.items.records import Item, ItemKind
from serving.domain.items.text import TextForm, text_to_embed
from serving.domain.words.normal_form import normal_form
from serving.ports.change_log import Change, EmbeddingTask
from serving.ports.embedding import Vectors

STORED_TYPE = np.dtype("<f2")
"""float16, little-endian."""

HAS_EMBEDDING = {
    kind: f"""
    EXISTS (SELECT FROM embedding
             WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
               AND embedding.text_hash = {kind}.text_hash)
    """
    for kind in ItemKind
}
"""Whether a row has a vector of its current text."""


async def missing_embeddings(
    connection: Connection, changes: Sequence[Change], model_id: int, form: TextForm
) -> list[EmbeddingTask]:
    """The changed rows that are not hidden and lack a current vector of the model."""
    rows: dict[int, tuple[bytes, Item]] = {}
    for kind in ItemKind:
        keys = [change.key for change in changes if change.item.kind is kind]
        if keys:
            cursor = await connection.execute(
                _MISSING[kind], {"keys": keys, "model_id": model_id}, binary=True
            )
            for key, text_hash, *row in await cursor.fetchall():
                rows[key] = (text_hash, TO_ITEM[kind](row))
    return [
        EmbeddingTask(
            change, normal_form(text_to_embed(rows[change.key][1], form)), rows[change.key][0]
        )
        for change in changes
        if change.key in rows
    ]


async def insert_embeddings(
    connection: Connection, model_id: int, vectors: Sequence[tuple[EmbeddingTask, Vectors]]
) -> None:
    """Stores the vectors of rows whose text is unchanged; `connection` is in a transaction.

    1. Lock the rows, in the same order as writers do.
    2. Read them in a separate statement, which sees the changes that the lock waited for.
    3. Replace their vectors and log the change.
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
        "DELETE FROM dead_letter WHERE projection = 'embedding' AND key = ANY (%s::int8[])", [keys]
    )


_MISSING = {
    kind: f"""
    SELECT key, text_hash, {COLUMNS[kind]} FROM {kind}
     WHERE key = ANY (%(keys)s::int8[]) AND NOT {IS_HIDDEN[kind]} AND NOT {HAS_EMBEDDING[kind]}
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
