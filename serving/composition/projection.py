"""Projections of the change log: embeddings and the graph."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.postgres.assembly import Postgres
from serving.composition.background import in_background, measured_repeatedly
from serving.composition.stores import open_graph, open_postgres
from serving.config.settings import Settings
from serving.pipeline.writes.projector import EmbeddingWork, GraphWork, Projector
from serving.ports.embedding import Embedder
from serving.telemetry import PROJECTION_LAG, PROJECTION_PENDING, Recorder


@asynccontextmanager
async def running_projector(
    settings: Settings,
    embedder: Embedder,
    previous_embedder: Embedder | None,
    recorder: Recorder,
) -> AsyncIterator[None]:
    """Runs both projections, as leader or as standby."""
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(open_postgres(settings))
        graph = await stack.enter_async_context(open_graph(settings))
        await stack.enter_async_context(projecting(postgres, embedder, graph, recorder))
        if previous_embedder is not None:
            await stack.enter_async_context(keep_up(postgres, previous_embedder))
        yield


@asynccontextmanager
async def projecting(
    postgres: Postgres, embedder: Embedder, graph: Neo4jGraph, recorder: Recorder
) -> AsyncIterator[None]:
    """Projects changes into embeddings and the graph."""
    log = postgres.change_log

    async def measure() -> None:
        for status in await log.status(await embedder.model()):
            labels = {"projection": status.projection}
            recorder.record(PROJECTION_LAG, status.lag_s, labels)
            recorder.record(PROJECTION_PENDING, status.pending, labels)

    async with (
        measured_repeatedly(measure),
        in_background(Projector(log, EmbeddingWork(log, embedder)).run()),
        in_background(Projector(log, GraphWork(log, graph)).run()),
    ):
        yield


def keep_up(postgres: Postgres, embedder: Embedder) -> AbstractAsyncContextManager[None]:
    """Embeds new writes with the previous model too, while it still answers."""
    log = postgres.change_log
    return in_background(Projector(log, EmbeddingWork(log, embedder), in_use=False).run())
