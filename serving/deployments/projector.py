"""The projector as a deployment of its own; a second replica is a standby."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import load_settings
from serving.deployments.components import running_projector
from serving.deployments.gpu_share import resources
from serving.deployments.handles import RemoteEmbedder, remote_embedder
from serving.deployments.logs import log_through_serve
from serving.deployments.metrics import RayRecorder


@serve.deployment(
    name="Projector",
    max_ongoing_requests=8,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class Projector:
    """Turns the change log into embeddings and the graph, while it holds the lead."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        arguments: dict[str, Any],
        embedder: DeploymentHandle[Any],
        previous_embedder: DeploymentHandle[Any] | None = None,
    ) -> None:
        log_through_serve()
        self._running = running_projector(
            load_settings(arguments),
            RemoteEmbedder(embedder),
            remote_embedder(previous_embedder),
            RayRecorder(),
        )
        await self._running.__aenter__()
        self._started = True

    async def __del__(self) -> None:
        if hasattr(self, "_started"):
            await self._running.__aexit__(None, None, None)
