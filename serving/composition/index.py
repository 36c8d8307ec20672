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
from serving.composition.projection import keep_up
from serving.composition.stores import open_postgres
from serving.config.settings import Settings
from serving.domain.shards import WHOLE, Shard
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.index.vector_spaces import OpenSpace
from serving.ports.embedding import Embedder
from serving.ports.vector_index import RelatedSearch, TextSearch, VectorIndex, WholeIndex
from serving.telemetry import INDEX_EPOCH, INDEX_LAG, INDEX_VECTORS, NoRecorder, Recorder


@dataclass(frozen=True, slots=True)
class SpaceParts:
    """The parts of a vector space that run in other processes; None runs in this one."""

    embedder: Embedder | None = None
    index: VectorIndex | None = None
    text_search: TextSearch | None = None
    related: RelatedSearch | None = None


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
        yield VectorSpace.here(embedder, index)


@asynccontextmanager
async def complete_space(
    settings: Settings, postgres: Postgres, recorder: Recorder, parts: SpaceParts
) -> AsyncIterator[VectorSpace]:
    """Runs the parts of a vector space that are not given."""
    embedder, index = parts.embedder, parts.index
    async with AsyncExitStack() as stack:
        if embedder is None:
            embedder = await stack.enter_async_context(open_embedder(settings, recorder))
        if index is None:
            here = await stack.enter_async_context(
                _index_over(settings, postgres, embedder, recorder)
            )
            yield VectorSpace.here(embedder, here)
        elif parts.text_search is None:
            yield VectorSpace.of(embedder, index)
        else:
            yield VectorSpace(embedder, index, parts.text_search, parts.related)


def previous_space(
    settings: Settings, postgres: Postgres, parts: SpaceParts, projecting: bool
) -> OpenSpace | None:
    """Returns what opens the previous model's space; None if there is no previous model.

    Args:
        settings: Those of the service.
        postgres: Where its rows are.
        parts: What of it runs in other processes.
        projecting: Whether this process also embeds new writes with the previous model.
    """
    embedder = settings.embedder
    if embedder.previous is None and parts.embedder is None:
        return None
    if embedder.previous is not None:
        embedder = embedder.model_copy(update=embedder.previous.overrides())
    settings = settings.model_copy(update={"embedder": embedder})

    @asynccontextmanager
    async def opened() -> AsyncIterator[VectorSpace]:
        async with AsyncExitStack() as stack:
            # Not recorded: its metrics would be taken for those of the current model.
            space = await stack.enter_async_context(
                complete_space(settings, postgres, NoRecorder(), parts)
            )
            if projecting:
                await stack.enter_async_context(keep_up(postgres, space.embedder))
            yield space

    return opened


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
    async with LogFollowingIndex(postgres.feed_of(shard), model, make_engine, watch=watch) as index:

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
