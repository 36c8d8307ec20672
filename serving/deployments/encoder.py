"""The embedder as a deployment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import serve

from serving.config import load_settings
from serving.deployments.components import open_embedder
from serving.deployments.gpu_share import HEALTH_CHECK_PERIOD_S, cap_gpu_memory, resources
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.deployments.metrics import RayRecorder
from serving.domain.budget import Deadline
from serving.ports import Embedder as EmbedderPort
from serving.ports import EmbeddingModel, QuestionEmbedder, VectorLike, Vectors


class QuestionCalls:
    """What a replica that embeds questions is asked."""

    _embedder: QuestionEmbedder

    async def embed_query(self, text: str, remaining_s: float) -> VectorLike:
        """Embeds a question."""
        return await self._embedder.embed_query(text, Deadline.after(remaining_s))


class EmbedderCalls(QuestionCalls):
    """What a replica that has an embedder is asked; `handles.RemoteEmbedder` asks it."""

    _embedder: EmbedderPort

    async def model(self) -> EmbeddingModel:
        """The model."""
        return await self._embedder.model()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts in the bulk lane."""
        return await self._embedder.embed_documents(texts)


@serve.deployment(
    name="Embedder",
    # The batcher inside is what queues and refuses: Serve's queue would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class Embedder(EmbedderCalls):
    """Embeds for all replicas of the other deployments."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any]
    ) -> None:
        log_through_serve()
        settings = load_settings(arguments)
        cap_gpu_memory(settings.serve.gpus.embedder)
        self._opened = open_embedder(settings, RayRecorder())
        self._embedder = await self._opened.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_embedder"):
            await self._opened.__aexit__(None, None, None)
