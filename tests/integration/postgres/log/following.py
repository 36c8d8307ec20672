"""Helpers to follow the change log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.statements import Connection
from serving.domain.items.records import ItemId, TenantName
from serving.ports.change_log import ChangeBatch
from serving.ports.embedding import EmbeddingModel
from serving.ports.graph import GraphChanges
from serving.ports.index_engine import FeedPosition, IndexRow

MODEL = EmbeddingModel("test-model", 4)
OTHER_MODEL = EmbeddingModel("other-model", 4)


async def project_graph(postgres: Postgres, limit: int = 1000) -> GraphChanges:
    """Returns the graph changes of the next batch, and marks the batch as projected."""
    log = postgres.change_log
    batch = await log.next_batch("graph", None, limit)
    changes = await log.graph_changes(batch.changes)
    await log.advance("graph", None, batch.position)
    return changes


async def embed(
    postgres: Postgres, model: EmbeddingModel = MODEL, limit: int = 1000
) -> list[ItemId]:
    """Embeds the next batch and marks it as projected; returns it."""
    log = postgres.change_log
    batch = await log.next_batch("embedding", model, limit)
    tasks = await log.embedding_tasks(batch.changes, model)
    vectors = np.eye(model.dimension, dtype=np.float32)[:1]
    await log.save_embeddings(model, [(task, vectors) for task in tasks])
    await log.advance("embedding", model, batch.position, complete=batch.last)
    return [task.change.item for task in tasks]


async def bootstrap(
    postgres: Postgres, model: EmbeddingModel = MODEL
) -> tuple[FeedPosition, dict[tuple[TenantName, ItemId], IndexRow]]:
    """All rows of the feed, by name."""
    async with postgres.feed.bootstrap(model) as (position, batches):
        rows = [row async for batch in batches for row in batch]
    return position, {(row.tenant, row.item): row for row in rows}


def items(batch: ChangeBatch) -> list[ItemId]:
    """The changed items, in order."""
    return [change.item for change in batch.changes]


async def scalar(connection: Connection, statement: str, *values: object) -> Any:
    """The single value that a statement returns."""
    cursor = await connection.execute(statement, values)
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def waits_for_lock(postgres: Postgres) -> bool:
    """Whether a statement waits until another transaction ends."""
    async with postgres.database.work() as connection:
        return bool(await scalar(connection, "SELECT count(*) FROM pg_locks WHERE NOT granted"))


async def eventually(condition: Callable[[], Awaitable[bool]]) -> bool:
    """Whether the condition becomes true within a few minutes, on a busy machine too."""
    for _ in range(3600):
        if await condition():
            return True
        await asyncio.sleep(0.05)
    return False
