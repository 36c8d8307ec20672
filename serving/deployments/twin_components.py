"""Twins on a CPU: what stands in for the embedder and the index while their device is lost.

Knows no Ray, as `components`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from serving.adapters.encoder.backend import choose_backend, choose_precision
from serving.adapters.encoder.checkpoint import Checkpoint
from serving.config import EmbedderSettings, Settings
from serving.deployments.components import checkpoint_of, open_embedder, open_index
from serving.domain.errors import DependencyError
from serving.domain.shards import WHOLE, Shard
from serving.pipeline.twins import ColdEmbedder, ColdIndex, OnDemand, PunctualEmbedder
from serving.ports import Embedder, EmbeddingModel, QuestionEmbedder, VectorIndex
from serving.telemetry import NoRecorder


@asynccontextmanager
async def open_index_twin(
    settings: Settings, embedder: Embedder, shard: Shard = WHOLE
) -> AsyncIterator[VectorIndex]:
    """Runs the twin of an index: at once, or as soon as it is asked.

    Args:
        settings: Those of the index.
        embedder: Whose model it holds the vectors of. It must know that without being there.
        shard: Its share of the rows.
    """
    on_this = settings.model_copy(
        update={"index": settings.index.model_copy(update={"device": "cpu"})}
    )
    # Not measured: its figures would be taken for those of the index.
    open_it = partial(open_index, on_this, embedder, NoRecorder(), shard)
    if settings.index.twin == "warm":
        async with open_it() as index:
            yield index
        return
    async with OnDemand(open_it) as on_demand:
        yield ColdIndex(on_demand)


@asynccontextmanager
async def open_embedder_twin(
    settings: Settings, model: EmbeddingModel
) -> AsyncIterator[QuestionEmbedder]:
    """Runs the twin of an embedder: at once, or as soon as it is asked.

    Args:
        settings: Those of the embedder.
        model: Whose vectors the rows have.
    """

    def open_it() -> AbstractAsyncContextManager[QuestionEmbedder]:
        return _open_question_embedder(settings, model)

    if settings.embedder.twin == "warm":
        async with open_it() as embedder:
            yield embedder
        return
    async with OnDemand(open_it) as on_demand:
        yield ColdEmbedder(on_demand)


@asynccontextmanager
async def _open_question_embedder(
    settings: Settings, model: EmbeddingModel
) -> AsyncIterator[QuestionEmbedder]:
    """Loads the model on the CPU and finds out how long it takes there.

    Raises:
        DependencyError: What it would make does not compare with the vectors of the rows.
    """
    checkpoint = await asyncio.to_thread(checkpoint_of, settings)
    on_this = settings.model_copy(update={"embedder": on_cpu(settings.embedder, checkpoint)})
    async with open_embedder(on_this, NoRecorder()) as embedder:
        if await embedder.model() != model:
            why = "what its twin on the CPU makes does not compare with the vectors of the rows"
            raise DependencyError("embedder", why)
        punctual = PunctualEmbedder(embedder)
        await punctual.measure()
        yield punctual


def on_cpu(embedder: EmbedderSettings, checkpoint: Checkpoint) -> EmbedderSettings:
    """The settings of an embedder's twin: the same model on the CPU, in the same precision.

    A vector is looked up among those of documents, which the embedder itself has made. What a
    precision changes in a vector it changes on any device; so the twin has that of the embedder,
    where each alone would have another (`auto`), and with it the fingerprint.
    """
    backend = choose_backend(embedder.backend, embedder.device, checkpoint, embedder.precision)
    if backend not in ("qwen3", "torch"):
        return embedder
    precision = choose_precision(embedder.precision, embedder.device, backend)
    of_twin = {"backend": backend, "device": "cpu", "precision": precision, "attention": "padded"}
    return embedder.model_copy(update=of_twin)
