"""The vector index as a deployment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.config import load_settings
from serving.deployments.components import open_index
from serving.deployments.gpu_share import (
    HEALTH_CHECK_PERIOD_S,
    cap_gpu_memory,
    left_by_lists,
    resources,
)
from serving.deployments.handles import RemoteEmbedder
from serving.deployments.interpreter import set_up_interpreter
from serving.deployments.logs import log_through_serve
from serving.deployments.metrics import RayRecorder
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.records import ItemId, TenantName
from serving.domain.shards import WHOLE, Shard
from serving.ports import IndexAnswer, IndexStatus, VectorLike, WantedNeighbours
from serving.ports import VectorIndex as VectorIndexPort


class IndexCalls:
    """What a replica that has an index is asked; `handles.RemoteIndex` asks it."""

    _index: VectorIndexPort

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, remaining_s: float
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a vector."""
        return await self._index.search(vector, wanted, Deadline.after(remaining_s))

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        return await self._index.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, remaining_s: float) -> bool:
        """Waits until the index has seen the write."""
        return await self._index.caught_up(token, Deadline.after(remaining_s))

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Its state."""
        return await self._index.status(tenant)


@serve.deployment(
    name="VectorIndex",
    max_ongoing_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class VectorIndex(IndexCalls):
    """Searches all rows or one share of them; follows the change log by itself."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        log_through_serve()
        settings = load_settings(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.index, settings.index))
        self._opened = open_index(settings, RemoteEmbedder(embedder), RayRecorder(), shard)
        self._index = await self._opened.__aenter__()
        set_up_interpreter()

    async def __del__(self) -> None:
        if hasattr(self, "_index"):
            await self._opened.__aexit__(None, None, None)
