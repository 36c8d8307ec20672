"""Storage of vectors, and which items lack one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.adapters.postgres.connection.statements import Connection
from serving.adapters.postgres.tables.filters import IS_HIDDEN
from serving.adapters.postgres.tables.rows import COLUMNS, TO_ITEM, to_segment
from serving.domain.items.records import Item, ItemKind, Segment, TenantName
from serving.domain.items.text import QUESTION_MARKS, text_in_context, text_to_embed
from serving.domain.words.normal_form import normal_form
from serving.ports.change_log import Change, EmbeddingTask
from serving.ports.embedding import Embedding, Vector

STORED_TYPE = np.dtype("<f2")
"""float16, little-endian."""

HAS_EMBEDDING = {
    kind: f"""
    EXISTS (SELECT FROM embedding
             WHERE embedding.model_id = %(model_id)s::int2 AND embedding.key = {kind}.key
               AND embedding.text_hash = {kind}.text_hash AND embedding.window_no >= 0)
    """
    for kind in ItemKind
}
"""Whether a row has a vector of its current text alone."""

CONTEXT_WINDOW = -1
"""The window of a vector of a segment together with the turn before it."""


async def missing_embeddings(
    connection: Connection, changes: Sequence[Change], model_id: int
) -> list[EmbeddingTask]:
    """The changed rows that are not hidden and lack a current vector of the model."""
    rows: dict[int, tuple[bytes, Item]] = {}
    for kind in ItemKind:
        keys = [change.key for change in changes if change.item.kind is kind]
        if keys:
            values = {"keys": keys, "model_id": model_id}
            for key, text_hash, *row in await connection.fetch_all(_MISSING[kind], values):
                rows[key] = (text_hash, TO_ITEM[kind](row))
    alone = [_task(change, *rows[change.key]) for change in changes if change.key in rows]
    return [*alone, *await _missing_contexts(connection, changes, model_id)]


def _task(change: Change, text_hash: bytes, item: Item) -> EmbeddingTask:
    is_turn = isinstance(item, Segment) and bool(item.speaker)
    return EmbeddingTask(change, normal_form(text_to_embed(item)), text_hash, is_turn=is_turn)


async def _missing_contexts(
    connection: Connection, changes: Sequence[Change], model_id: int
) -> list[EmbeddingTask]:
    """The changed turns, and the turns after them, that lack a vector with the turn before."""
    keys = [change.key for change in changes if change.item.kind is ItemKind.SEGMENT]
    if not keys:
        return []
    pairs = await connection.fetch_all(_MISSING_CONTEXTS, {"keys": keys, "model_id": model_id})
    if not pairs:
        return []
    found = await connection.fetch_all(
        f"SELECT key, text_hash, {COLUMNS[ItemKind.SEGMENT]} FROM segment "
        "WHERE key = ANY (%s::int8[])",
        [[*{key for _, turn, previous in pairs for key in (turn, previous)}]],
    )
    rows = {key: (text_hash, to_segment(row)) for key, text_hash, *row in found}
    latest = max(change.xid for change in changes)
    tasks = []
    for tenant, turn, previous in pairs:
        if turn in rows and previous in rows:
            (text_hash, segment), (previous_hash, before) = rows[turn], rows[previous]
            change = Change(turn, TenantName(tenant), segment.item, latest)
            text = normal_form(text_in_context(before, segment))
            tasks.append(EmbeddingTask(change, text, text_hash, (previous, previous_hash)))
    return tasks


async def insert_embeddings(
    connection: Connection, model_id: int, made: Sequence[tuple[EmbeddingTask, Embedding]]
) -> None:
    """Stores the embeddings of rows whose text is unchanged; `connection` is in a transaction.

    1. Lock the rows, in the same order as writers do.
    2. Read them in a separate statement, which sees the changes that the lock waited for.
    3. Replace their vectors and log the change.
    """
    for kind in ItemKind:
        of_kind = [(task, each) for task, each in made if task.change.item.kind is kind]
        if not of_kind:
            continue
        # By key, of the rows whose text is embedded.
        hashes = [
            {task.change.key: task.text_hash, **dict([task.previous] if task.previous else [])}
            for task, _ in of_kind
        ]
        keys = sorted({key for of_task in hashes for key in of_task})
        await connection.execute(
            f"""
            SELECT FROM {kind} WHERE key = ANY (%s::int8[])
             ORDER BY tenant_id, id FOR NO KEY UPDATE
            """,
            [keys],
        )
        current = await connection.fetch_all(
            f"SELECT key, text_hash FROM {kind} "
            f"WHERE key = ANY (%s::int8[]) AND NOT {IS_HIDDEN[kind]}",
            [keys],
        )
        unchanged = set(current)
        still = [
            pair
            for pair, of_task in zip(of_kind, hashes, strict=True)
            if unchanged.issuperset(of_task.items())
        ]
        await _replace(connection, model_id, kind, still)


async def _replace(
    connection: Connection,
    model_id: int,
    kind: ItemKind,
    made: Sequence[tuple[EmbeddingTask, Embedding]],
) -> None:
    windows = [
        (task.change.key, place, task.text_hash, vector.tobytes(), previous, states)
        for task, each in made
        for place, vector, previous, states in _windows(task, each)
    ]
    if not windows:
        return
    keys, places, hashes, *stored = (list(column) for column in zip(*windows, strict=True))
    await connection.execute(
        """
        DELETE FROM embedding USING unnest(%s::int8[], %s::int2[]) AS given (key, window_no)
         WHERE model_id = %s::int2 AND embedding.key = given.key
           AND (embedding.window_no < 0) = (given.window_no < 0)
        """,
        [keys, places, model_id],
    )
    await connection.execute(
        """
        INSERT INTO embedding
               (model_id, key, window_no, text_hash, vector, previous_key, token_states)
        SELECT %s::int2, key, window_no, text_hash, vector, previous_key, token_states
          FROM unnest(%s::int8[], %s::int2[], %s::bytea[], %b::bytea[], %s::int8[], %b::bytea[])
               AS given (key, window_no, text_hash, vector, previous_key, token_states)
        """,
        [model_id, keys, places, hashes, *stored],
    )
    await connection.execute(
        f"""
        INSERT INTO change_log (tenant_id, key, kind, op)
        SELECT tenant_id, key, '{kind}', 'embedded' FROM {kind} WHERE key = ANY (%s::int8[])
        """,
        [keys],
    )
    await connection.execute(
        "DELETE FROM dead_letter WHERE projection = 'embedding' AND key = ANY (%s::int8[])", [keys]
    )


def _windows(
    task: EmbeddingTask, made: Embedding
) -> list[tuple[int, Vector, int | None, bytes | None]]:
    """The window, the vector, the key of the turn before it and the states, for each vector."""
    rows = made.vectors.astype(STORED_TYPE)
    if task.previous is not None:
        # A second window would be of the end of the segment alone.
        return [(CONTEXT_WINDOW, rows[0], task.previous[0], None)]
    # A turn of several windows has its cosine, so that no turn takes more than one window does.
    states = made.states[0] if task.is_turn and len(made.states) == 1 else None
    return [(place, vector, None, states) for place, vector in enumerate(rows)]


_BEFORE = """
earlier.tenant_id = segment.tenant_id AND earlier.session = segment.session
   AND earlier.session <> '' AND NOT earlier.sensitive
   AND (earlier.event_time, earlier.created_at, earlier.id)
       < (segment.event_time, segment.created_at, segment.id)
"""

MAX_ACKNOWLEDGEMENT_BYTES = 24
"""The length of a turn that says no more than "Noted, thank you.", in bytes of UTF-8."""

_ACKNOWLEDGES = f"""
earlier.speaker <> segment.speaker AND octet_length(earlier.text) <= {MAX_ACKNOWLEDGEMENT_BYTES}
   AND earlier.text !~ '[{QUESTION_MARKS}]'
"""
"""Whether a turn only acknowledges what the speaker of the next one said before it."""

# The turn before one that acknowledges is the context of the turn after it, so that a changed turn
# is the context of one of the next two.
_MISSING_CONTEXTS = f"""
WITH turn AS (
  SELECT unnest(%(keys)s::int8[]) AS key
   UNION
  SELECT after.key
    FROM segment AS earlier
   CROSS JOIN LATERAL (SELECT key FROM segment
                        WHERE {_BEFORE} AND segment.session <> '' AND NOT segment.sensitive
                        ORDER BY event_time, created_at, id LIMIT 2) AS after
   WHERE earlier.key = ANY (%(keys)s::int8[])
)
SELECT tenant.name, segment.key, previous.key
  FROM turn JOIN segment USING (key) JOIN tenant ON tenant.id = segment.tenant_id
 CROSS JOIN LATERAL (SELECT key
                       FROM (SELECT earlier.*, {_ACKNOWLEDGES} AS acknowledges
                               FROM segment AS earlier WHERE {_BEFORE}
                              ORDER BY event_time DESC, created_at DESC, id DESC LIMIT 2) AS nearest
                      ORDER BY acknowledges, event_time DESC, created_at DESC, id DESC LIMIT 1)
       AS previous
 WHERE NOT segment.sensitive
   AND NOT EXISTS (SELECT FROM embedding
                    WHERE model_id = %(model_id)s::int2 AND embedding.key = segment.key
                      AND window_no = {CONTEXT_WINDOW} AND previous_key = previous.key
                      AND embedding.text_hash = segment.text_hash)
"""

_MISSING = {
    kind: f"""
    SELECT key, text_hash, {COLUMNS[kind]} FROM {kind}
     WHERE key = ANY (%(keys)s::int8[]) AND NOT {IS_HIDDEN[kind]} AND NOT {HAS_EMBEDDING[kind]}
    """
    for kind in ItemKind
}
