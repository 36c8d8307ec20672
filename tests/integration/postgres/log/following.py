"""Helpers to follow the change log."""

from __future__ import annotations

from typing import Any

import numpy as np

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.statements import Connection
from serving.domain.items.records import Item, ItemId, TenantName
from serving.domain.shards import WHOLE, Shard
from serving.ports.change_log import ChangeBatch, EmbeddingTask
from serving.ports.embedding import Embedding, EmbeddingModel
from serving.ports.graph import GraphChanges
from serving.ports.index_engine import FeedPosition, IndexRow
from serving.ports.memory_store import Batch, WriteReceipt
from tests.support.builders import TENANT

MODEL = EmbeddingModel("test-model", 4)
OTHER_MODEL = EmbeddingModel("other-model", 4)


async def write(postgres: Postgres, *items: Item, tenant: TenantName = TENANT) -> WriteReceipt:
    return await postgres.store.write(Batch(tenant, items))


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
    await save_vectors(postgres, tasks, model)
    await log.advance("embedding", model, batch.position, complete=batch.last)
    return [task.change.item for task in tasks]


async def embedding_tasks(postgres: Postgres, model: EmbeddingModel = MODEL) -> list[EmbeddingTask]:
    batch = await postgres.change_log.next_batch("embedding", model, 1000)
    return await postgres.change_log.embedding_tasks(batch.changes, model)


async def save_vectors(
    postgres: Postgres, tasks: list[EmbeddingTask], model: EmbeddingModel = MODEL
) -> None:
    vectors = np.eye(model.dimension, dtype=np.float32)[:1]
    await postgres.change_log.save_embeddings(model, [(task, Embedding(vectors)) for task in tasks])


async def bootstrap(
    postgres: Postgres, model: EmbeddingModel = MODEL, shard: Shard = WHOLE
) -> tuple[FeedPosition, dict[tuple[TenantName, ItemId], IndexRow]]:
    async with postgres.feed_of(shard).bootstrap(model) as (position, batches):
        rows = [row async for batch in batches for row in batch]
    return position, {(row.tenant, row.item): row for row in rows}


def items(batch: ChangeBatch) -> list[ItemId]:
    return [change.item for change in batch.changes]


async def scalar(connection: Connection, statement: str, *values: object) -> Any:
    """The single value that a statement returns."""
    cursor = await connection.execute(statement, values)
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def run(postgres: Postgres, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Runs a statement by itself; the rows that it returns."""
    async with postgres.database.work() as connection:
        cursor = await connection.execute(statement, values or None)
        return [] if cursor.description is None else await cursor.fetchall()


async def waits_for_lock(postgres: Postgres) -> bool:
    return bool(await run(postgres, "SELECT FROM pg_locks WHERE NOT granted"))
