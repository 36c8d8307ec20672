"""Models: the encoder behind its embedder, the cross-encoder behind its reranker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

from serving.adapters.encoder.published import open_model
from serving.adapters.reranker.published import PUBLISHED, packaged
from serving.composition.background import measured_repeatedly
from serving.composition.extras import require_encoder, require_reranker
from serving.composition.gpu import open_cross_encoder, open_encoder
from serving.composition.process import watch_over
from serving.config.settings import EmbedderSettings, EmbeddingsApiSettings, Settings
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.pipeline.inference.embedding_queues import BatchLimits, QueueName
from serving.pipeline.inference.reranker import QueuedReranker
from serving.ports.embedding import Embedder, TextEncoder
from serving.ports.reranking import CrossEncoder, Reranker
from serving.telemetry import EMBEDDING_BATCH, EMBEDDING_WAITING, Recorder


def open_embedder(settings: Settings, recorder: Recorder) -> AbstractAsyncContextManager[Embedder]:
    """Runs an embedder: over an encoder in this process, or by another service."""
    if settings.embedder.api is None:
        return _open_here(settings, recorder)
    return _open_elsewhere(settings.embedder, settings.embedder.api)


def _open_elsewhere(
    embedder: EmbedderSettings, api: EmbeddingsApiSettings
) -> AbstractAsyncContextManager[Embedder]:
    from serving.adapters.openai_api import ApiEmbedder, ApiModel

    assert embedder.dimension is not None, "the settings require it with an API"
    model = ApiModel(
        name=embedder.model,
        dimension=embedder.dimension,
        query_prefix=api.query_prefix,
        document_prefix=api.document_prefix,
        shortened=api.shortened,
        input_type=api.input_type,
    )
    return ApiEmbedder.opened(
        api.url,
        model,
        api.secret(),
        batch=api.batch,
        timeout_s=api.timeout.total_seconds(),
        max_waiting=embedder.max_waiting,
    )


@asynccontextmanager
async def _open_here(settings: Settings, recorder: Recorder) -> AsyncIterator[BatchedEmbedder]:
    encoder = await asyncio.to_thread(_encoder, settings)
    limits = BatchLimits.for_device(encoder.device(), waiting_queries=settings.embedder.max_waiting)

    def on_batch(queue: QueueName, windows: int) -> None:
        recorder.record(EMBEDDING_BATCH, windows, {"queue": queue})

    watch = watch_over("embedder", settings.embedder.device)
    async with BatchedEmbedder(encoder, limits, on_batch, watch) as embedder:

        async def measure() -> None:
            recorder.record(EMBEDDING_WAITING, embedder.waiting_queries, {"queue": "query"})
            recorder.record(EMBEDDING_WAITING, embedder.waiting_documents, {"queue": "bulk"})

        async with measured_repeatedly(measure):
            yield embedder


def _encoder(settings: Settings) -> TextEncoder:
    embedder = settings.embedder
    require_encoder(embedder.model)
    checkpoint = open_model(
        embedder.model, settings.cache_dir, fetch=True, dimension=embedder.dimension
    )
    return open_encoder(embedder, checkpoint, settings.cache_dir)


def open_reranker(settings: Settings) -> AbstractAsyncContextManager[Reranker | None]:
    """Runs a reranker if the settings name a model. One here is loaded in the background."""
    reranker = settings.reranker
    if reranker.model is None:
        return nullcontext()
    if (api := reranker.api) is not None:
        from serving.adapters.openai_api import ApiReranker

        return ApiReranker.opened(api.url, reranker.model, api.secret(), api.texts_field)
    return QueuedReranker(
        partial(_cross_encoder, reranker.model, settings),
        watch=watch_over("reranker", reranker.device),
    )


def _cross_encoder(model: str, settings: Settings) -> CrossEncoder:
    require_reranker(model)
    if model in PUBLISHED:
        from serving.adapters.reranker.onnx_cross_encoder import OnnxCrossEncoder

        return OnnxCrossEncoder(packaged(model), threads=settings.reranker.threads)
    return open_cross_encoder(model, settings.reranker, settings.cache_dir)
