"""Standbys on a CPU, which answer while the device of the embedder or of the index is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from serving.adapters.encoder.backend import choose_backend, choose_precision
from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.composition.index import open_index
from serving.composition.models import checkpoint_of, open_embedder
from serving.config.settings import EmbedderSettings, Settings
from serving.domain.errors import DependencyError
from serving.domain.shards import WHOLE, Shard
from serving.pipeline.index.standby import ColdEmbedder, ColdIndex, OnDemand, PunctualEmbedder
from serving.ports.embedding import Embedder, EmbeddingModel, QuestionEmbedder
from serving.ports.vector_index import WholeIndex
from serving.telemetry import NoRecorder


@asynccontextmanager
async def open_index_standby(
    settings: Settings, embedder: Embedder, shard: Shard = WHOLE
) -> AsyncIterator[WholeIndex]:
    """Runs the standby of an index: from the start, or from the first request.

    Args:
        settings: Those of the index.
        embedder: The embedder of its vectors; must know its model even while it is unavailable.
        shard: The shard of the rows.
    """
    changes: dict[str, object] = {"device": "cpu"}
    if settings.index.standby == "cold":
        # A closed index deletes no snapshots, which could outlast an erasure.
        changes["snapshots"] = None
    on_this = settings.model_copy(update={"index": settings.index.model_copy(update=changes)})
    # Not recorded: its metrics would be taken for those of the index.
    open_it = partial(open_index, on_this, embedder, NoRecorder(), shard)
    if settings.index.standby == "warm":
        async with open_it() as index:
            yield index
        return
    async with OnDemand(open_it) as on_demand:
        yield ColdIndex(on_demand)


@asynccontextmanager
async def open_embedder_standby(
    settings: Settings, model: EmbeddingModel
) -> AsyncIterator[QuestionEmbedder]:
    """Runs the standby of an embedder: from the start, or from the first request.

    Args:
        settings: Those of the embedder.
        model: The model of the rows' vectors.
    """

    def open_it() -> AbstractAsyncContextManager[QuestionEmbedder]:
        return _open_question_embedder(settings, model)

    if settings.embedder.standby == "warm":
        async with open_it() as embedder:
            yield embedder
        return
    async with OnDemand(open_it) as on_demand:
        yield ColdEmbedder(on_demand)


@asynccontextmanager
async def _open_question_embedder(
    settings: Settings, model: EmbeddingModel
) -> AsyncIterator[QuestionEmbedder]:
    """Loads the model on the CPU and measures how long a question takes there.

    Raises:
        DependencyError: Its vectors cannot be compared with those of the rows.
    """
    checkpoint = await asyncio.to_thread(checkpoint_of, settings)
    on_this = settings.model_copy(update={"embedder": on_cpu(settings.embedder, checkpoint)})
    async with open_embedder(on_this, NoRecorder()) as embedder:
        if await embedder.model() != model:
            why = "what its standby on the CPU makes does not compare with the vectors of the rows"
            raise DependencyError("embedder", why)
        punctual = PunctualEmbedder(embedder)
        await punctual.measure()
        yield punctual


def on_cpu(embedder: EmbedderSettings, checkpoint: EncoderCheckpoint) -> EmbedderSettings:
    """Returns the settings of an embedder's standby: the same model and precision, on the CPU.

    A question's vector is compared with documents that the embedder itself embedded. Precision
    affects vectors alike on every device, so the standby uses the precision that `auto` resolves to
    for the embedder, and with it has the same fingerprint.
    """
    backend = choose_backend(embedder.backend, embedder.device, checkpoint, embedder.precision)
    if backend not in ("qwen3", "torch"):
        return embedder
    precision = choose_precision(embedder.precision, embedder.device, backend)
    of_standby = {
        "backend": backend,
        "device": "cpu",
        "precision": precision,
    }
    return embedder.model_copy(update=of_standby)
