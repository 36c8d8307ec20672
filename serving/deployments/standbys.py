"""Standbys on a CPU of the parts that run on a device, as deployments of their own."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.composition.gpu_share import resources
from serving.composition.standbys import open_embedder_standby, open_index_standby
from serving.deployments.embedder import QuestionCalls
from serving.deployments.handles import RemoteEmbedder
from serving.deployments.index import IndexCalls
from serving.deployments.replica import Replica
from serving.domain.shards import WHOLE, Shard


@serve.deployment(
    name="StandbyEmbedder",
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class StandbyEmbedder(Replica, QuestionCalls):
    """Embeds questions while the embedder is unavailable."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any]
    ) -> None:
        settings = self._start(arguments)
        model = await RemoteEmbedder(embedder).model()
        self._embedder = await self._open(open_embedder_standby(settings, model))


@serve.deployment(
    name="StandbyVectorIndex",
    max_ongoing_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class StandbyVectorIndex(Replica, IndexCalls):
    """Searches all rows, or one shard of them, while the index is unavailable."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        settings = self._start(arguments)
        remote = RemoteEmbedder(embedder)
        # It caches the model, so the standby can be filled while the embedder is unavailable.
        await remote.model()
        self._index = await self._open(open_index_standby(settings, remote, shard))
