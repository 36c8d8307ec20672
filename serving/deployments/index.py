"""The vector index as a deployment of its own."""

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
from serving.composition.index import open_index
from serving.deployments.handles import Exposed, RemoteEmbedder
from serving.deployments.metrics import RayRecorder
from serving.deployments.replica import Replica
from serving.domain.shards import WHOLE, Shard


@serve.deployment(
    name="VectorIndex",
    max_ongoing_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class VectorIndex(Replica, Exposed):
    """Searches all rows, or one shard of them."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.index, settings.index))
        index = open_index(settings, RemoteEmbedder(embedder).port, RayRecorder(), shard)
        self._ports = {"index": await self._open(index)}
