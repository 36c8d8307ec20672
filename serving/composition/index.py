"""The vector index, and the vector spaces that it forms with an embedder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from serving.adapters.postgres.assembly import Postgres
from serving.composition.background import measured_repeatedly
from serving.composition.index_engine import engine_maker, tier_figures
from serving.composition.models import open_embedder
from serving.composition.process import watch_over
from serving.composition.stores import open_postgres
from serving.config.settings import Settings
from serving.domain.shards import WHOLE, Shard
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.vector_space import VectorSpace
from serving.ports.embedding import Embedder
from serving.ports.vector_index import TextSearch, VectorIndex, WholeIndex
from serving.telemetry import INDEX_EPOCH, INDEX_LAG, INDEX_VECTORS, Recorder


@dataclass(frozen=True, slots=True)
class SpaceParts:
    """The parts of a vector space that run in other processes; None runs in this one."""

    embedder: Embedder | None = None
    index: VectorIndex | None = None
    text_search: TextSearch | None = None
    whole_index: WholeIndex | None = None


@asynccontextmanager
async def open_index(
    settings: Settings, embedder: Embedder, recorder: Recorder, shard: Shard = WHOLE
) -> AsyncIterator[WholeIndex]:
    """Runs a vector index, or one shard of it, which follows PostgreSQL's change log."""
    async with (
        open_postgres(settings) as postgres,
        _index_over(settings, postgres, embedder, recorder, shard) as index,
    ):
        yield index


@asynccontextmanager
async def open_space(
    settings: Settings, recorder: Recorder, shard: Shard = WHOLE
) -> AsyncIterator[VectorSpace]:
    """Runs an embedder and the index of its vectors, or one shard of it."""
    async with (
        open_postgres(settings) as postgres,
        open_embedder(settings, recorder) as embedder,
        _index_over(settings, postgres, embedder, recorder, shard) as index,
    ):
        yield VectorSpace.here(embedder, index, settings.embedder.kept_questions)


@asynccontextmanager
async def complete_space(
    settings: Settings, postgres: Postgres, recorder: Recorder, parts: SpaceParts
) -> AsyncIterator[VectorSpace]:
    """Runs the parts of a vector space that are not given."""
    embedder, index, kept = parts.embedder, parts.index, settings.embedder.kept_questions
    async with AsyncExitStack() as stack:
        if embedder is None:
            embedder = await stack.enter_async_context(open_embedder(settings, recorder))
        if index is None:
            here = await stack.enter_async_context(
                _index_over(settings, postgres, embedder, recorder)
            )
            yield VectorSpace.here(embedder, here, kept)
        elif parts.text_search is None:
            yield VectorSpace.of(embedder, index, kept)
        else:
            yield VectorSpace(embedder, index, parts.text_search, parts.whole_index)


@asynccontextmanager
async def _index_over(
    settings: Settings,
    postgres: Postgres,
    embedder: Embedder,
    recorder: Recorder,
    shard: Shard = WHOLE,
) -> AsyncIterator[LogFollowingIndex]:
    model = await embedder.model()
    watch = watch_over("index", settings.index.device)
    make_engine = await asyncio.to_thread(engine_maker, settings.index, model.dimension)
    together = settings.index.device != "cpu"
    feed = postgres.feed_of(shard)
    async with LogFollowingIndex(feed, model, make_engine, together=together, watch=watch) as index:

        async def measure() -> None:
            status = await index.status()
            recorder.record(INDEX_VECTORS, status.vector_count)
            recorder.record(INDEX_EPOCH, status.epoch)
            for metric, value, labels in tier_figures(index.tiers()):
                recorder.record(metric, value, labels)
            if (lag_s := await index.lag_s()) is not None:
                recorder.record(INDEX_LAG, lag_s)

        async with measured_repeatedly(measure):
            yield index
