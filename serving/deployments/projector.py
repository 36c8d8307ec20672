"""The projector and the extraction as deployments of their own; a second replica is a standby."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.composition.gpu_share import resources
from serving.composition.projection import running_extraction, running_projector
from serving.deployments.handles import RemoteEmbedder
from serving.deployments.metrics import RayRecorder
from serving.deployments.replica import Replica


@serve.deployment(
    name="Projector",
    max_ongoing_requests=8,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class Projector(Replica):
    """Projects the change log into embeddings and the graph while it is the leader."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        arguments: dict[str, Any],
        embedder: DeploymentHandle[Any],
        previous_embedder: DeploymentHandle[Any] | None = None,
    ) -> None:
        settings = self._start(arguments)
        previous = None if previous_embedder is None else RemoteEmbedder(previous_embedder).port
        await self._open(
            running_projector(settings, RemoteEmbedder(embedder).port, previous, RayRecorder())
        )


@serve.deployment(
    name="Extraction",
    max_ongoing_requests=8,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class Extraction(Replica):
    """Reads facts out of stored turns while it is the leader."""

    async def __init__(self, arguments: dict[str, Any]) -> None:  # type: ignore[misc]  # as above
        settings = self._start(arguments)
        await self._open(running_extraction(settings, RayRecorder()))
