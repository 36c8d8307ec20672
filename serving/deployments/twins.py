"""Twins on a CPU of what runs on a device, as deployments of their own."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import load_settings
from serving.deployments.encoder import QuestionCalls
from serving.deployments.gpu_share import resources
from serving.deployments.handles import RemoteEmbedder
from serving.deployments.index import IndexCalls
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.deployments.twin_components import open_embedder_twin, open_index_twin
from serving.domain.shards import WHOLE, Shard


@serve.deployment(
    name="EmbedderTwin",
    max_ongoing_requests=1024,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class EmbedderTwin(QuestionCalls):
    """Embeds questions while the embedder is away; `handles.RemoteQuestionEmbedder` asks it."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any]
    ) -> None:
        log_through_serve()
        model = await RemoteEmbedder(embedder).model()
        self._opened = open_embedder_twin(load_settings(arguments), model)
        self._embedder = await self._opened.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_embedder"):
            await self._opened.__aexit__(None, None, None)


@serve.deployment(
    name="VectorIndexTwin",
    max_ongoing_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
)
class VectorIndexTwin(IndexCalls):
    """Searches all rows or one share of them while the index is away; follows the same log."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        log_through_serve()
        remote = RemoteEmbedder(embedder)
        # It keeps what it is told, and so can be filled while the embedder is away.
        await remote.model()
        self._opened = open_index_twin(load_settings(arguments), remote, shard)
        self._index = await self._opened.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_index"):
            await self._opened.__aexit__(None, None, None)
