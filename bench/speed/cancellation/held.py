"""Holds searches up in PostgreSQL, in Neo4j and before the encoder, so that they can be seen there.

An exclusive lock on a table holds PostgreSQL's statements. In Neo4j readers wait for no writer, but
a statement that uses an index waits for a transaction that creates another one for the same label.
The encoder has a question in hand, so that others stay in the queue.
"""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import neo4j
import numpy as np
import psycopg

from serving.domain.budget import Deadline
from serving.domain.soundness import sound_rows
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.ports.embedding import (
    Device,
    EmbeddingModel,
    TokenIds,
    Vector,
    VectorLike,
    Vectors,
)

DIMENSION = 384
IN_HAND = "the question that the encoder has in hand"

LOCK = "LOCK TABLE segment IN ACCESS EXCLUSIVE MODE"
NEW_INDEX = "CREATE INDEX held FOR (entity:Entity) ON (entity.held)"


class HeldEncoder:
    """An encoder of random vectors, which may be held for as long as it is wanted."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()

    def model(self) -> EmbeddingModel:
        """Its name and dimension."""
        return EmbeddingModel("held", DIMENSION)

    def device(self) -> Device:
        """The CPU."""
        return Device(is_accelerator=False, token_budget=4096)

    def tokenize_query(self, text: str) -> TokenIds:
        """A number for each word."""
        return [zlib.crc32(word.encode()) for word in text.split()]

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """The same, as the only window."""
        return [self.tokenize_query(text)]

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """A random direction for each window, once it is free."""
        self.free.wait()
        return np.stack([_random_unit(window) for window in windows])

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        """The same."""
        return sound_rows(self.encode(windows))


def _random_unit(window: TokenIds) -> Vector:
    row = np.random.default_rng(list(window)).standard_normal(DIMENSION).astype(np.float32)
    unit: Vector = row / np.linalg.norm(row)
    return unit


class WatchedEmbedder(BatchedEmbedder):
    """Notes which questions are in its queue, and when they left it."""

    def __init__(self, encoder: HeldEncoder) -> None:
        super().__init__(encoder)
        self.queued: set[str] = set()
        self.left_at: dict[str, float] = {}

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question."""
        self.queued.add(text)
        try:
            return await super().embed_query(text, deadline)
        finally:
            self.queued.discard(text)
            self.left_at[text] = time.perf_counter()


@asynccontextmanager
async def searches_held(
    dsn: str, driver: neo4j.AsyncDriver, encoder: HeldEncoder, embedder: WatchedEmbedder
) -> AsyncIterator[None]:
    """Lets no search get on while the body runs."""
    in_hand = None
    try:
        async with (
            await psycopg.AsyncConnection.connect(dsn) as connection,
            driver.session() as session,
            await session.begin_transaction() as transaction,
        ):
            await connection.execute(LOCK)
            await (await transaction.run(NEW_INDEX)).consume()
            encoder.free.clear()
            in_hand = asyncio.create_task(embedder.embed_query(IN_HAND, Deadline.after(600)))
            yield
            await transaction.rollback()
            await connection.rollback()
    finally:
        encoder.free.set()
        if in_hand is not None:
            await in_hand
