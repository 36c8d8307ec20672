"""Embedder and vector index as one deployment, which searches by text.

A question takes one hop instead of two, and its vector stays on the device that made it.
"""

from __future__ import annotations

from typing import Any

from ray import serve

from serving.composition.gpu_share import (
    HEALTH_CHECK_PERIOD_S,
    cap_gpu_memory,
    left_by_lists,
    resources,
)
from serving.composition.index import open_space
from serving.deployments.handles import Exposed
from serving.deployments.metrics import RayRecorder
from serving.deployments.replica import Replica
from serving.domain.shards import WHOLE, Shard


@serve.deployment(
    name="VectorSpace",
    # The embedder's own queue admits and rejects; Serve's would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class VectorSpace(Replica, Exposed):
    """Embeds and searches for all replicas of the other deployments."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
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
