"""The reranker as a deployment of its own."""

from __future__ import annotations

from typing import Any

from ray import serve

from serving.composition.gpu_share import HEALTH_CHECK_PERIOD_S, cap_gpu_memory, resources
from serving.composition.models import open_reranker
from serving.deployments.handles import Exposed
from serving.deployments.replica import Replica


@serve.deployment(
    name="Reranker",
    # The reranker's own queue admits and rejects; Serve's would only hide it.
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class Reranker(Replica, Exposed):
    """Reranks for all replicas of the ingress."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any]
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(settings.serve.gpus.reranker)
        self._ports = {"reranker": await self._open(open_reranker(settings))}
