"""The parts of the service as deployments of their own, which the ingress calls."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.composition.gpu_share import (
    HEALTH_CHECK_PERIOD_S,
    cap_gpu_memory,
    left_by_lists,
    resources,
)
from serving.composition.index import open_index, open_space
from serving.composition.models import open_embedder, open_reranker
from serving.composition.projection import running_extraction, running_projector
from serving.deployments.handles import Exposed, RemoteEmbedder
from serving.deployments.ray_recorder import RayRecorder
from serving.deployments.replica import Replica
from serving.domain.shards import WHOLE, Shard

PART: dict[str, Any] = {"ray_actor_options": resources(0), "graceful_shutdown_timeout_s": 10}
ON_DEVICE: dict[str, Any] = {**PART, "health_check_period_s": HEALTH_CHECK_PERIOD_S}
QUEUED = {**ON_DEVICE, "max_ongoing_requests": 1024}
"""The part's own queue admits and rejects; Serve's would only hide it."""


@serve.deployment(name="Embedder", **QUEUED)
class Embedder(Replica, Exposed):
    """Embeds for all replicas of the other deployments."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it, as those below
        self, arguments: dict[str, Any]
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(settings.serve.gpus.embedder)
        self._ports = {"embedder": await self._open(open_embedder(settings, RayRecorder()))}


@serve.deployment(name="VectorIndex", max_ongoing_requests=256, **ON_DEVICE)
class VectorIndex(Replica, Exposed):
    """Searches all rows, or one shard of them."""

    async def __init__(  # type: ignore[misc]
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.index, settings.index))
        index = open_index(settings, RemoteEmbedder(embedder).port, RayRecorder(), shard)
        self._ports = {"index": await self._open(index)}


@serve.deployment(name="VectorSpace", **QUEUED)
class VectorSpace(Replica, Exposed):
    """Embeds and searches, so that a question takes one hop and its vector stays on the device."""

    async def __init__(  # type: ignore[misc]
        self, arguments: dict[str, Any], shard: Shard = WHOLE
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.embedder, settings.index))
        space = await self._open(open_space(settings, RayRecorder(), shard))
        self._ports = {
            "embedder": space.embedder,
            "index": space.index,
            "text search": space.text_search,
        }


@serve.deployment(name="Reranker", **QUEUED)
class Reranker(Replica, Exposed):
    """Reranks for all replicas of the ingress."""

    async def __init__(self, arguments: dict[str, Any]) -> None:  # type: ignore[misc]
        settings = self._start(arguments)
        cap_gpu_memory(settings.serve.gpus.reranker)
        self._ports = {"reranker": await self._open(open_reranker(settings))}


@serve.deployment(name="Projector", max_ongoing_requests=8, **PART)
class Projector(Replica):
    """Projects the change log into embeddings and the graph while it is the leader."""

    async def __init__(  # type: ignore[misc]
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any]
    ) -> None:
        settings = self._start(arguments)
        await self._open(running_projector(settings, RemoteEmbedder(embedder).port, RayRecorder()))


@serve.deployment(name="Extraction", max_ongoing_requests=8, **PART)
class Extraction(Replica):
    """Reads facts out of stored turns while it is the leader."""

    async def __init__(self, arguments: dict[str, Any]) -> None:  # type: ignore[misc]
        settings = self._start(arguments)
        await self._open(running_extraction(settings, RayRecorder()))
