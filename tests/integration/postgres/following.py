"""Ways to follow the change log in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.pool import Connection
from serving.domain.records import ItemId, TenantName
from serving.ports import ChangeBatch, EmbeddingModel, FeedPosition, GraphChanges, IndexRow

MODEL = EmbeddingModel("test-model", 4)
OTHER_MODEL = EmbeddingModel("other-model", 4)


async def project_graph(postgres: Postgres, limit: int = 1000) -> GraphChanges:
    """Takes the next batch for the graph, and what it should become; notes it as done."""
    log = postgres.change_log
    batch = await log.next_batch("graph", None, limit)
    changes = await log.graph_changes(batch.changes)
    await log.advance("graph", None, batch.position)
    return changes


async def embed(
    postgres: Postgres, model: EmbeddingModel = MODEL, limit: int = 1000
) -> list[ItemId]:
    """Embeds what is due and notes it as done; returns what was."""
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
    """What changed, in order."""
    return [change.item for change in batch.changes]


async def scalar(connection: Connection, statement: str, *values: object) -> Any:
    """The one value that a statement returns."""
    cursor = await connection.execute(statement, values)
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> bool:
    """Whether the condition comes true within ten seconds or so."""
    for _ in range(200):
        if await condition():
            return True
        await asyncio.sleep(0.05)
    return False
