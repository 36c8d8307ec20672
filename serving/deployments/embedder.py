"""The embedder as a deployment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import serve

from serving.composition.gpu_share import HEALTH_CHECK_PERIOD_S, cap_gpu_memory, resources
from serving.composition.models import open_embedder
from serving.deployments.metrics import RayRecorder
from serving.deployments.replica import Replica
from serving.domain.budget import Deadline
from serving.ports.embedding import Embedder as EmbedderPort
from serving.ports.embedding import EmbeddingModel, QuestionEmbedder, VectorLike, Vectors


class QuestionCalls:
    """The remote methods of a replica that embeds questions."""

    _embedder: QuestionEmbedder

    async def embed_query(self, text: str, remaining_s: float) -> VectorLike:
        return await self._embedder.embed_query(text, Deadline.after(remaining_s))


class EmbedderCalls(QuestionCalls):
    """The remote methods of a replica with an embedder, which `handles.RemoteEmbedder` calls."""

    _embedder: EmbedderPort

    async def model(self) -> EmbeddingModel:
        return await self._embedder.model()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return await self._embedder.embed_documents(texts)


@serve.deployment(
    name="Embedder",
    # The embedder's own queue admits and rejects; Serve's would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class Embedder(Replica, EmbedderCalls):
    """Embeds for all replicas of the other deployments."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any]
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(settings.serve.gpus.embedder)
        self._embedder = await self._open(open_embedder(settings, RayRecorder()))
